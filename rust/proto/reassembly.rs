// SPDX-License-Identifier: GPL-2.0
//! Receiver: the bookkeeping of reassembly, without the buffers.
//!
//! MS-SMBD 3.1.5.8; rules D6, D7, D10, D12, F7 and R26. Input are headers that passed
//! `DataHeader::parse`, in the order of arrival. One number decides everything: the bytes still *owed*
//! on the current upper-layer message. A refused header changes nothing.
//!
//! The first fragment fixes the total, and later ones must fit it exactly, so the length that the reader
//! is told at the start of a message (F7) is what will be delivered.

use super::pdu::DataHeader;
use super::rule::Rule;

/// What to do with an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The buffer holds payload and joins the reassembly list; else it is free again.
    pub stored: bool,
    /// It is the first stored fragment of its upper-layer message: `total` is to be announced with it.
    pub first: bool,
    /// It completes its upper-layer message.
    pub last: bool,
    /// Length of the upper-layer message, bytes; what the synthetic four-byte length says (F7).
    pub total: u32,
}

/// Reassembly state of one connection.
///
/// # Invariants
///
/// * `owed <= total`; `owed > 0` inside an upper-layer message.
/// * `begun` implies `owed > 0`: a fragment of the current message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reassembly {
    owed: u32,
    total: u32,
    begun: bool,
    strict: bool,
    stray_empties: u64,
}

impl Reassembly {
    /// Fresh state. With `strict`, an empty message inside a fragment train is an error (D6) instead of
    /// being tolerated and counted (D12).
    pub const fn new(strict: bool) -> Self {
        Self {
            owed: 0,
            total: 0,
            begun: false,
            strict,
            stray_empties: 0,
        }
    }

    /// Bytes still to come of the current upper-layer message; 0 between messages.
    pub const fn owed(&self) -> u32 {
        self.owed
    }

    /// Empty messages seen inside fragment trains (D12).
    pub const fn stray_empties(&self) -> u64 {
        self.stray_empties
    }

    /// Accepts the next message or says which rule it breaks.
    ///
    /// # Errors
    ///
    /// [`Rule::D6`] or [`Rule::D7`] when the message does not continue the current one, [`Rule::D5`] when
    /// the total does not fit 32 bits (which `DataHeader::parse` has excluded).
    pub fn accept(&mut self, header: &DataHeader) -> Result<Placement, Rule> {
        if header.is_empty() {
            return self.accept_empty();
        }
        let announced = u32::try_from(header.announced()).map_err(|_| Rule::D5)?;
        if self.owed == 0 {
            self.total = announced;
            self.begun = false;
        } else if header.remaining == 0 && header.length < self.owed {
            return Err(Rule::D6);
        } else if announced != self.owed {
            return Err(Rule::D7);
        }
        self.owed = header.remaining;
        let stored = header.length > 0;
        let placement = Placement {
            stored,
            first: stored && !self.begun,
            last: self.owed == 0,
            total: self.total,
        };
        self.begun = self.owed > 0 && (self.begun || stored);
        Ok(placement)
    }

    fn accept_empty(&mut self) -> Result<Placement, Rule> {
        if self.owed > 0 {
            if self.strict {
                return Err(Rule::D6);
            }
            self.stray_empties = self.stray_empties.saturating_add(1);
        }
        Ok(Placement {
            stored: false,
            first: false,
            last: false,
            total: 0,
        })
    }
}
