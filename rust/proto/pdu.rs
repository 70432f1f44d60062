// SPDX-License-Identifier: GPL-2.0
//! Message layouts and the checks that need no history.
//!
//! MS-SMBD 2.2.1 (Negotiate Request), 2.2.2 (Negotiate Response), 2.2.3 (Data Transfer) and 2.2.3.1
//! (Buffer Descriptor V1); rules Q1, A1, D1-D5, D8, D11. All integers are little endian. Each message
//! is read once, from the bytes the completion reported, into a plain value; nobody looks at the
//! buffer's header again. Reserved fields are sent as zero and ignored on receipt, unknown flags are
//! ignored, bytes behind a negotiate message are tolerated.

use super::rule::Rule;

/// The only protocol version.
pub const VERSION: u16 = 0x0100;
/// Length of a Negotiate Request, bytes.
pub const REQUEST_LEN: usize = 20;
/// Length of a Negotiate Response, bytes.
pub const RESPONSE_LEN: usize = 32;
/// Length of a Data Transfer header, and of a whole message without payload, bytes.
pub const HEADER_LEN: usize = 20;
/// Where our own payload starts: the header and four bytes of padding.
pub const PAYLOAD_OFFSET: usize = 24;
/// [`PAYLOAD_OFFSET`] in the type of the size fields, bytes.
pub const HEADER_ROOM: u32 = 24;
/// Length of a Buffer Descriptor V1, bytes.
pub const DESCRIPTOR_LEN: usize = 16;
/// Smallest legal receive size, bytes.
pub const MIN_RECV_SIZE: u32 = 128;
/// Smallest legal fragmented size, bytes.
pub const MIN_FRAGMENTED: u32 = 131_072;
/// Smallest buffer that may be posted for a negotiate message, bytes (E1).
pub const MIN_NEGOTIATE_RECV: u32 = 512;
/// Required alignment of a payload offset, bytes.
pub const OFFSET_ALIGN: u32 = 8;
/// Flag bit: the receiver should answer promptly.
pub const RESPONSE_REQUESTED: u16 = 0x0001;

/// NT status: success.
pub const STATUS_SUCCESS: u32 = 0;
/// NT status: the version range excludes ours (Q2).
pub const STATUS_NOT_SUPPORTED: u32 = 0xc000_00bb;
/// NT status: no receive can be posted (Q7).
pub const STATUS_INSUFFICIENT_RESOURCES: u32 = 0xc000_009a;

// CAST: u32 to usize, at compile time.
const _: () = assert!(PAYLOAD_OFFSET == HEADER_ROOM as usize);

/// The `N` bytes from `offset` on, if all are there.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    let end = offset.checked_add(N)?;
    bytes.get(offset..end)?.try_into().ok()
}

fn le16(bytes: &[u8], offset: usize) -> Option<u16> {
    field(bytes, offset).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    field(bytes, offset).map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], offset: usize) -> Option<u64> {
    field(bytes, offset).map(u64::from_le_bytes)
}

/// Fills a message of `N` bytes from front to back; what is not written stays zero.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            at: 0,
        }
    }

    fn put<const M: usize>(mut self, field: [u8; M]) -> Self {
        // Not `copy_from_slice`, which panics unless the lengths are equal.
        for (to, from) in self.bytes.iter_mut().skip(self.at).zip(field) {
            *to = from;
        }
        self.at = self.at.saturating_add(M);
        self
    }

    fn u16(self, value: u16) -> Self {
        self.put(value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(value.to_le_bytes())
    }
}

/// Negotiate Request (MS-SMBD 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateRequest {
    /// Lowest version the sender speaks.
    pub min_version: u16,
    /// Highest version the sender speaks.
    pub max_version: u16,
    /// Send credits the sender would like to have.
    pub credits_requested: u16,
    /// Largest message the sender intends to send, bytes. Any value is legal (Q6).
    pub preferred_send_size: u32,
    /// Largest message the sender receives, bytes.
    pub max_receive_size: u32,
    /// Largest upper-layer message the sender reassembles, bytes.
    pub max_fragmented_size: u32,
}

impl NegotiateRequest {
    /// Reads a request; further bytes behind it are tolerated.
    ///
    /// # Errors
    ///
    /// [`Rule::Q1`] when there are fewer than 20 bytes. The values are not judged here.
    pub fn parse(bytes: &[u8]) -> Result<Self, Rule> {
        Self::read(bytes).ok_or(Rule::Q1)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            min_version: le16(bytes, 0)?,
            max_version: le16(bytes, 2)?,
            credits_requested: le16(bytes, 6)?,
            preferred_send_size: le32(bytes, 8)?,
            max_receive_size: le32(bytes, 12)?,
            max_fragmented_size: le32(bytes, 16)?,
        })
    }

    /// The message as it travels.
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        Writer::new()
            .u16(self.min_version)
            .u16(self.max_version)
            .u16(0)
            .u16(self.credits_requested)
            .u32(self.preferred_send_size)
            .u32(self.max_receive_size)
            .u32(self.max_fragmented_size)
            .bytes
    }
}

/// Negotiate Response (MS-SMBD 2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateResponse {
    /// Lowest version the sender speaks.
    pub min_version: u16,
    /// Highest version the sender speaks.
    pub max_version: u16,
    /// The version both will speak; 0 in a failure response.
    pub negotiated_version: u16,
    /// Send credits the sender would like to have.
    pub credits_requested: u16,
    /// Send credits for the receiver of this message.
    pub credits_granted: u16,
    /// NT status, 0 for success.
    pub status: u32,
    /// Largest RDMA READ or WRITE request, bytes.
    pub max_read_write_size: u32,
    /// Largest message the sender intends to send, bytes.
    pub preferred_send_size: u32,
    /// Largest message the sender receives, bytes.
    pub max_receive_size: u32,
    /// Largest upper-layer message the sender reassembles, bytes.
    pub max_fragmented_size: u32,
}

impl NegotiateResponse {
    /// A failure response: the versions we speak, the status, zeros.
    pub const fn failure(status: u32) -> Self {
        Self {
            min_version: VERSION,
            max_version: VERSION,
            negotiated_version: 0,
            credits_requested: 0,
            credits_granted: 0,
            status,
            max_read_write_size: 0,
            preferred_send_size: 0,
            max_receive_size: 0,
            max_fragmented_size: 0,
        }
    }

    /// Reads a response; further bytes behind it are tolerated.
    ///
    /// # Errors
    ///
    /// [`Rule::A1`] when there are fewer than 32 bytes. The values are not judged here.
    pub fn parse(bytes: &[u8]) -> Result<Self, Rule> {
        Self::read(bytes).ok_or(Rule::A1)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            min_version: le16(bytes, 0)?,
            max_version: le16(bytes, 2)?,
            negotiated_version: le16(bytes, 4)?,
            credits_requested: le16(bytes, 8)?,
            credits_granted: le16(bytes, 10)?,
            status: le32(bytes, 12)?,
            max_read_write_size: le32(bytes, 16)?,
            preferred_send_size: le32(bytes, 20)?,
            max_receive_size: le32(bytes, 24)?,
            max_fragmented_size: le32(bytes, 28)?,
        })
    }

    /// The message as it travels.
    pub fn encode(&self) -> [u8; RESPONSE_LEN] {
        Writer::new()
            .u16(self.min_version)
            .u16(self.max_version)
            .u16(self.negotiated_version)
            .u16(0)
            .u16(self.credits_requested)
            .u16(self.credits_granted)
            .u32(self.status)
            .u32(self.max_read_write_size)
            .u32(self.preferred_send_size)
            .u32(self.max_receive_size)
            .u32(self.max_fragmented_size)
            .bytes
    }
}

/// Data Transfer header (MS-SMBD 2.2.3).
///
/// # Invariants
///
/// A value returned by [`parse`](DataHeader::parse) satisfies D2-D5 and D8: the payload lies behind the
/// header and inside the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Send credits the sender would like to have, never 0.
    pub credits_requested: u16,
    /// Send credits for the receiver of this message.
    pub credits_granted: u16,
    /// Whether the sender asks for a prompt answer (K3).
    pub response_requested: bool,
    /// Payload of the upper-layer message still to come after this fragment, bytes.
    pub remaining: u32,
    /// Where the payload starts, bytes from the start of the message.
    pub offset: u32,
    /// Payload in this message, bytes.
    pub length: u32,
}

impl DataHeader {
    /// Reads and checks the header of a received message.
    ///
    /// `received` are the bytes the completion reported, neither more nor less; `max_fragmented` is the
    /// fragmented receive size we advertised, bytes.
    ///
    /// # Errors
    ///
    /// The first of D1, D2, D3, D4, D5, D8 that the message breaks.
    pub fn parse(received: &[u8], max_fragmented: u32) -> Result<Self, Rule> {
        let header = Self::read(received).ok_or(Rule::D1)?;
        if header.credits_requested == 0 {
            return Err(Rule::D2);
        }
        if header.offset % OFFSET_ALIGN != 0 {
            return Err(Rule::D3);
        }
        // Sums of two u32 cannot overflow 64 bits; the names say so.
        let end = u64::from(header.offset).saturating_add(u64::from(header.length));
        if u64::try_from(received.len()).map_or(true, |available| end > available) {
            return Err(Rule::D4);
        }
        if header.announced() > u64::from(max_fragmented) {
            return Err(Rule::D5);
        }
        if header.length > 0 && header.offset < HEADER_ROOM {
            return Err(Rule::D8);
        }
        Ok(header)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            credits_requested: le16(bytes, 0)?,
            credits_granted: le16(bytes, 2)?,
            response_requested: le16(bytes, 4)? & RESPONSE_REQUESTED != 0,
            remaining: le32(bytes, 8)?,
            offset: le32(bytes, 12)?,
            length: le32(bytes, 16)?,
        })
    }

    /// Payload of this fragment and everything announced behind it, bytes.
    pub fn announced(&self) -> u64 {
        u64::from(self.length).saturating_add(u64::from(self.remaining))
    }

    /// Whether the message carries neither payload nor an announcement: credits and flags only.
    pub const fn is_empty(&self) -> bool {
        self.length == 0 && self.remaining == 0
    }

    /// Bytes of the encoded header that belong on the wire: 24 with payload, 20 without.
    pub const fn wire_len(&self) -> usize {
        if self.length > 0 {
            PAYLOAD_OFFSET
        } else {
            HEADER_LEN
        }
    }

    /// The header as it travels, padding included; send the first [`wire_len`](DataHeader::wire_len)
    /// bytes.
    pub fn encode(&self) -> [u8; PAYLOAD_OFFSET] {
        Writer::new()
            .u16(self.credits_requested)
            .u16(self.credits_granted)
            .u16(if self.response_requested {
                RESPONSE_REQUESTED
            } else {
                0
            })
            .u16(0)
            .u32(self.remaining)
            .u32(self.offset)
            .u32(self.length)
            .bytes
    }
}

/// Buffer Descriptor V1 (MS-SMBD 2.2.3.1): a piece of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDescriptor {
    /// Remote address, bytes.
    pub offset: u64,
    /// Steering tag (rkey).
    pub token: u32,
    /// Length, bytes.
    pub length: u32,
}

impl BufferDescriptor {
    /// The descriptor of a registration that no longer exists: all ones.
    pub const GONE: BufferDescriptor = BufferDescriptor {
        offset: u64::MAX,
        token: u32::MAX,
        length: u32::MAX,
    };

    /// Reads the descriptor at the start of `bytes`; `None` with fewer than 16.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            offset: le64(bytes, 0)?,
            token: le32(bytes, 8)?,
            length: le32(bytes, 12)?,
        })
    }

    /// The descriptor as it travels.
    pub fn encode(&self) -> [u8; DESCRIPTOR_LEN] {
        Writer::new()
            .u64(self.offset)
            .u32(self.token)
            .u32(self.length)
            .bytes
    }
}
