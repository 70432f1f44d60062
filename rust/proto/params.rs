// SPDX-License-Identifier: GPL-2.0
//! The parameter block that callers hand in and keep a pointer to.
//!
//! Layout: section 2.1 of the ABI page, packed, 64 bytes, native byte order. Validation: R8 and the
//! `set_initial_parameters` rules; the fragmented receive size is brought into the range in which the
//! promise of V1-V3 can be kept whatever the peer proposes.

use super::pdu::{HEADER_ROOM, MIN_FRAGMENTED, MIN_RECV_SIZE};

/// Connection parameters, shared with the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Parameters {
    /// [`Flags`] bits.
    pub flags: u64,
    /// Address resolution time-out, ms.
    pub resolve_addr_timeout_msec: u32,
    /// Route resolution time-out, ms.
    pub resolve_route_timeout_msec: u32,
    /// RDMA connect time-out, ms.
    pub rdma_connect_timeout_msec: u32,
    /// Negotiation time-out, ms. On the client it bounds the whole connect.
    pub negotiate_timeout_msec: u32,
    /// Outstanding RDMA READs we start, 0 to 255.
    pub initiator_depth: u16,
    /// Outstanding RDMA READs we serve, 0 to 255.
    pub responder_resources: u16,
    /// Most receive credits the peer may hold, messages, at least 1.
    pub recv_credit_max: u16,
    /// Send credits we ask the peer for, messages, at least 1.
    pub send_credit_target: u16,
    /// Largest message we send, bytes, header included.
    pub max_send_size: u32,
    /// Largest upper-layer message the peer reassembles, bytes.
    pub max_fragmented_send_size: u32,
    /// Largest message we receive, bytes, header included, at least 128.
    pub max_recv_size: u32,
    /// Largest upper-layer message we reassemble, bytes, at least 131072.
    pub max_fragmented_recv_size: u32,
    /// Largest RDMA READ or WRITE request, bytes. 0 on the client before negotiation: no own bound.
    pub max_read_write_size: u32,
    /// Pages per memory registration.
    pub max_frmr_depth: u32,
    /// Silence after which a keepalive is sent, ms. 0: no keepalive.
    pub keepalive_interval_msec: u32,
    /// Silence after a keepalive that ends the connection, ms.
    pub keepalive_timeout_msec: u32,
}

const _: () = assert!(core::mem::size_of::<Parameters>() == 64);
const _: () = assert!(core::mem::align_of::<Parameters>() == 1);

/// Bits of [`Parameters::flags`].
pub struct Flags;

impl Flags {
    /// Use InfiniBand and RoCE devices only (port 445).
    pub const IB_ONLY: u64 = 0x1;
    /// Use iWARP devices only (port 5445).
    pub const IWARP_ONLY: u64 = 0x2;
    /// All known bits.
    pub const ALL: u64 = Self::IB_ONLY | Self::IWARP_ONLY;
}

/// Largest fragmented receive size we advertise, bytes (4 MiB).
///
/// A bound of our own: even when the peer lowers the message size to the floor of 128 bytes, the number
/// of buffers that V1 asks for stays countable in 16 bits (4 MiB / 104 = 40330).
pub const MAX_FRAGMENTED_RECV: u32 = 4 << 20;

/// Largest message in either direction, bytes: what one contiguous buffer of the engine holds. Larger
/// wishes are cut to it.
pub const MAX_MESSAGE_SIZE: u32 = 32 << 10;

/// Message sizes that an administrator may ask for, bytes: from what cifs and ksmbd pass by themselves
/// to the most that Windows lets a peer prefer (it refuses a larger PreferredSendSize as
/// INSUFFICIENT_RESOURCES).
pub const MESSAGE_SIZES: core::ops::RangeInclusive<u32> = 1364..=8136;

/// Largest receive window, credits: with its reserve (see [`credits`](super::credits)) the buffers are
/// counted in 16 bits. A larger wish is cut to it.
pub const MAX_WINDOW: u16 = u16::MAX - 1;

/// Largest initiator depth and responder resources: the CM carries them in 8 bits.
pub const MAX_DEPTH: u16 = 255;

/// Why a parameter block was refused; all map to `-EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// A flag bit without a meaning.
    UnknownFlags,
    /// Both restrictions of the device kind at once (U3).
    BothKinds,
    /// Initiator depth or responder resources above 255.
    Depth,
    /// A credit count of zero.
    Credits,
    /// Send size without room for a header and one byte.
    SendSize,
    /// Receive size below 128 bytes.
    RecvSize,
}

impl Invalid {
    /// One short sentence for the log.
    pub const fn text(self) -> &'static str {
        match self {
            Invalid::UnknownFlags => "unknown flags",
            Invalid::BothKinds => "limited to IB/RoCE and to iWARP at the same time",
            Invalid::Depth => "initiator depth or responder resources above 255",
            Invalid::Credits => "credit count of zero",
            Invalid::SendSize => "send size without room for header and payload",
            Invalid::RecvSize => "receive size below 128 bytes",
        }
    }
}

impl Parameters {
    /// A block of zeros, as a fresh socket has it. Not [valid](Parameters::validate).
    pub const ZERO: Parameters = Parameters {
        flags: 0,
        resolve_addr_timeout_msec: 0,
        resolve_route_timeout_msec: 0,
        rdma_connect_timeout_msec: 0,
        negotiate_timeout_msec: 0,
        initiator_depth: 0,
        responder_resources: 0,
        recv_credit_max: 0,
        send_credit_target: 0,
        max_send_size: 0,
        max_fragmented_send_size: 0,
        max_recv_size: 0,
        max_fragmented_recv_size: 0,
        max_read_write_size: 0,
        max_frmr_depth: 0,
        keepalive_interval_msec: 0,
        keepalive_timeout_msec: 0,
    };

    /// The [valid](Parameters::validate) block with messages of up to `size` bytes, one of
    /// [`MESSAGE_SIZES`], in both directions, where the caller asks for less (P16), and with what half a
    /// window of them can carry. What a connection gets is still for both ends to agree on.
    pub fn with_message_size(&self, size: u32) -> Parameters {
        let fragmented = u32::from(self.recv_credit_max).saturating_mul(size) / 2;
        Parameters {
            max_send_size: size.max(self.max_send_size),
            max_recv_size: size.max(self.max_recv_size),
            max_fragmented_recv_size: fragmented
                .clamp(MIN_FRAGMENTED, MAX_FRAGMENTED_RECV)
                .max(self.max_fragmented_recv_size),
            ..*self
        }
    }

    /// Checks a caller's block and returns the copy to use, in which the fragmented receive size lies
    /// between 131072 bytes (R7) and [`MAX_FRAGMENTED_RECV`], the message sizes are at most
    /// [`MAX_MESSAGE_SIZE`] and the window at most [`MAX_WINDOW`].
    ///
    /// # Errors
    ///
    /// [`Invalid`], for values that cannot carry a connection (R8).
    pub fn validate(&self) -> Result<Parameters, Invalid> {
        let flags = self.flags;
        if flags & !Flags::ALL != 0 {
            return Err(Invalid::UnknownFlags);
        }
        if flags == Flags::ALL {
            return Err(Invalid::BothKinds);
        }
        if self.initiator_depth > MAX_DEPTH || self.responder_resources > MAX_DEPTH {
            return Err(Invalid::Depth);
        }
        if self.recv_credit_max == 0 || self.send_credit_target == 0 {
            return Err(Invalid::Credits);
        }
        if self.max_send_size <= HEADER_ROOM {
            return Err(Invalid::SendSize);
        }
        if self.max_recv_size < MIN_RECV_SIZE {
            return Err(Invalid::RecvSize);
        }
        let fragmented = self.max_fragmented_recv_size;
        Ok(Parameters {
            recv_credit_max: self.recv_credit_max.min(MAX_WINDOW),
            max_fragmented_recv_size: fragmented.clamp(MIN_FRAGMENTED, MAX_FRAGMENTED_RECV),
            max_send_size: self.max_send_size.min(MAX_MESSAGE_SIZE),
            max_recv_size: self.max_recv_size.min(MAX_MESSAGE_SIZE),
            ..*self
        })
    }
}
