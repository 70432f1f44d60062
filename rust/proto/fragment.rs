// SPDX-License-Identifier: GPL-2.0
//! Sender: cutting an upper-layer message into data transfers.
//!
//! MS-SMBD 3.1.5.1; rules F1, F2, F4, F5 and P3. The caller hands in one iterator after the other,
//! each with the number of bytes of the upper-layer message that are still to go, this iterator
//! included. A data transfer under construction ([`Message`]) is filled by the next iterator as long as
//! that number continues where the message ends, so small iterators do not cost a message each.
//!
//! [`Train`] remembers, across messages and batches, how much of the current upper-layer message has
//! been put on the send queue. It lives with the right to send (the batch token: F3, F6) and answers
//! whether an error may leave the connection alive: between messages yes, inside one no (F5, R22).

use super::pdu::{DataHeader, HEADER_ROOM};

/// Why a send was refused before anything was taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Larger than the peer can reassemble (F4): `-EMSGSIZE`, the connection is not affected.
    TooLarge,
    /// Does not continue the message that was begun (F5): the stream would be out of step.
    OutOfStep,
    /// No bytes to send; credit-only messages are built with [`Message::empty`].
    NoData,
}

/// Progress of the upper-layer message on the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Train {
    max_send_size: u32,
    max_fragmented: u32,
    owed: u32,
}

impl Train {
    /// A train for a connection with the negotiated `max_send_size` (bytes per data transfer, header
    /// included) and the peer's `max_fragmented` size (bytes per upper-layer message).
    pub const fn new(max_send_size: u32, max_fragmented: u32) -> Self {
        Self {
            max_send_size,
            max_fragmented,
            owed: 0,
        }
    }

    /// Bytes of the upper-layer message that still have to follow; 0 between messages.
    pub const fn owed(&self) -> u32 {
        self.owed
    }

    /// Whether a message was begun and not finished: a failure now ends the connection (F5).
    pub const fn is_open(&self) -> bool {
        self.owed > 0
    }

    /// Opens the next data transfer when `remaining` bytes of the upper-layer message are to go.
    ///
    /// # Errors
    ///
    /// [`SendError`]; nothing has changed then.
    pub fn open(&self, remaining: u32) -> Result<Message, SendError> {
        if remaining == 0 {
            return Err(SendError::NoData);
        }
        if self.owed == 0 {
            if remaining > self.max_fragmented {
                return Err(SendError::TooLarge);
            }
        } else if remaining != self.owed {
            return Err(SendError::OutOfStep);
        }
        Ok(Message::open(remaining, self.max_send_size))
    }

    /// `message` was closed and joined the send queue (or a chain that is about to).
    pub fn closed(&mut self, message: &Message) {
        if !message.is_empty() {
            self.owed = message.remaining();
        }
    }
}

/// A data transfer under construction.
///
/// # Invariants
///
/// * `length <= capacity`, and `length + remaining` is what the upper layer had to send when the message
///   was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    capacity: u32,
    length: u32,
    remaining: u32,
}

impl Message {
    /// Opens a data transfer when `remaining_total` bytes of the upper-layer message are to go and a
    /// message may have `max_send_size` bytes, header included (F1).
    pub fn open(remaining_total: u32, max_send_size: u32) -> Self {
        let capacity = max_send_size.saturating_sub(HEADER_ROOM);
        Self {
            capacity,
            length: 0,
            remaining: remaining_total,
        }
    }

    /// A message without payload: credits and flags only.
    pub const fn empty() -> Self {
        Self {
            capacity: 0,
            length: 0,
            remaining: 0,
        }
    }

    /// Payload in the message so far, bytes.
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// RemainingDataLength if the message were closed now, bytes (F2).
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Whether this is a credit-only message.
    pub const fn is_empty(&self) -> bool {
        self.length == 0 && self.remaining == 0
    }

    /// Payload bytes that can still be added.
    pub fn room(&self) -> u32 {
        self.capacity
            .saturating_sub(self.length)
            .min(self.remaining)
    }

    /// Whether a further iterator, with `remaining` bytes to go, continues this message (P3).
    pub fn continues(&self, remaining: u32) -> bool {
        remaining == self.remaining && self.room() > 0
    }

    /// Adds up to `n` payload bytes and returns how many the caller has to supply.
    #[must_use]
    pub fn append(&mut self, n: u32) -> u32 {
        let taken = n.min(self.room());
        self.length = self.length.saturating_add(taken);
        self.remaining = self.remaining.saturating_sub(taken);
        taken
    }

    /// Takes back the last `n` bytes, which the caller could not supply after all.
    pub fn shorten(&mut self, n: u32) {
        let n = n.min(self.length);
        self.length = self.length.saturating_sub(n);
        self.remaining = self.remaining.saturating_add(n);
    }

    /// The header of the finished message.
    pub fn header(
        &self,
        credits_requested: u16,
        credits_granted: u16,
        response_requested: bool,
    ) -> DataHeader {
        DataHeader {
            credits_requested,
            credits_granted,
            response_requested,
            remaining: self.remaining,
            offset: if self.length > 0 { HEADER_ROOM } else { 0 },
            length: self.length,
        }
    }
}
