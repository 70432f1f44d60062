// SPDX-License-Identifier: GPL-2.0
//! Walk over the buffer descriptors of the peer.
//!
//! MS-SMBD 2.2.3.1, MS-SMB2 read and write channel info; rules B1-B4, R39-R41. The array is peer data.
//! [`Walk::new`] judges all of it before anything is posted; afterwards the iteration cannot fail: its
//! segments are in order, follow each other without a gap and cover the local buffer exactly.
//!
//! The bytes handed in must be memory that nobody writes to while the walk lives, such as the caller's
//! copy, because they are looked at once to judge and once to iterate. Nothing is written back.

use super::pdu::{BufferDescriptor, DESCRIPTOR_LEN};
use super::rule::Rule;

/// Why no transfer was begun; maps to `-EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// The array's size is not a multiple of 16 bytes (B1).
    Misaligned,
    /// A descriptor in the used part has length zero (B2).
    ZeroLength,
    /// All descriptors together are shorter than the request (B2, R41).
    Short,
}

impl WalkError {
    /// The rule that is broken.
    pub const fn rule(self) -> Rule {
        match self {
            WalkError::Misaligned => Rule::B1,
            WalkError::ZeroLength | WalkError::Short => Rule::B2,
        }
    }

    /// One short sentence for the log.
    pub const fn text(self) -> &'static str {
        match self {
            WalkError::Misaligned => "size of the descriptor array is not a multiple of 16",
            WalkError::ZeroLength => "descriptor of length zero",
            WalkError::Short => "descriptors cover less than the request",
        }
    }
}

/// A contiguous piece of a transfer: local buffer against one remote descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start in the local buffer, bytes.
    pub local_offset: u32,
    /// Start in the peer's address space.
    pub remote_addr: u64,
    /// Steering tag of the peer.
    pub rkey: u32,
    /// Length, bytes, at least 1.
    pub length: u32,
}

/// Iterator over the segments of one transfer.
///
/// # Invariants
///
/// * The descriptors in `rest`, minus the `skip` bytes of the first one that are done, cover at least
///   `left` bytes without a zero length.
/// * `left == 0` after the last segment.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    rest: &'a [u8],
    skip: u32,
    local_offset: u32,
    left: u32,
}

impl<'a> Walk<'a> {
    /// Judges the descriptor array `desc` for a transfer of `buf_len` bytes. A transfer of zero bytes
    /// needs no descriptor and has no segments (B3).
    ///
    /// # Errors
    ///
    /// [`WalkError`]; nothing may be posted then.
    pub fn new(desc: &'a [u8], buf_len: u32) -> Result<Self, WalkError> {
        let walk = Self {
            rest: desc,
            skip: 0,
            local_offset: 0,
            left: buf_len,
        };
        if buf_len == 0 {
            return Ok(walk);
        }
        let mut elements = desc.chunks_exact(DESCRIPTOR_LEN);
        if !elements.remainder().is_empty() {
            return Err(WalkError::Misaligned);
        }
        let mut left = buf_len;
        while left > 0 {
            let element = elements.next().and_then(BufferDescriptor::parse);
            let element = element.ok_or(WalkError::Short)?;
            if element.length == 0 {
                return Err(WalkError::ZeroLength);
            }
            left = left.saturating_sub(element.length);
        }
        Ok(walk)
    }

    /// Bytes of the transfer that no segment has covered yet.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The next segment, of at most `limit` bytes (0 is taken as 1), so that a transfer can be cut to the
    /// work requests at hand (B5). `None` at the end.
    pub fn next_up_to(&mut self, limit: u32) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }
        let element = BufferDescriptor::parse(self.rest)?;
        let whole = element.length.saturating_sub(self.skip);
        let length = whole.min(self.left).min(limit.max(1));
        let segment = Segment {
            local_offset: self.local_offset,
            // Beyond the end of the address space the peer's device refuses; ours must not panic.
            remote_addr: element.offset.wrapping_add(u64::from(self.skip)),
            rkey: element.token,
            length,
        };
        self.local_offset = self.local_offset.saturating_add(length);
        self.left = self.left.saturating_sub(length);
        if length < whole {
            self.skip = self.skip.saturating_add(length);
        } else {
            self.skip = 0;
            self.rest = self.rest.get(DESCRIPTOR_LEN..).unwrap_or(&[]);
        }
        Some(segment)
    }
}

impl Iterator for Walk<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        self.next_up_to(u32::MAX)
    }
}

impl core::iter::FusedIterator for Walk<'_> {}
