// SPDX-License-Identifier: GPL-2.0
//! The last failure to connect to each destination, for whoever asks later.
//!
//! A reconnecting application fails every few seconds while its server is away: the same failure again
//! is counted, not told. Memory is bounded: the destination that failed longest ago makes room.

use super::cause::End;
use core::net::SocketAddr;

/// The last failure to connect to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where to.
    pub to: SocketAddr,
    /// Why, and in which status.
    pub end: End,
    /// When, in the caller's unit.
    pub at: u64,
    /// How often in a row.
    pub count: u64,
    /// Whether a connection came up since.
    pub recovered: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Failures([Option<Failure>; Failures::DESTINATIONS]);

impl Failures {
    /// How many destinations are remembered.
    pub const DESTINATIONS: usize = 32;

    /// Nothing failed yet.
    pub const fn new() -> Self {
        Self([None; Self::DESTINATIONS])
    }

    /// A connection did not come up. Tells whether that is news: not when the last attempt at the same
    /// destination failed in the same way.
    pub fn failed(&mut self, to: SocketAddr, end: End, at: u64) -> bool {
        let failure = Failure {
            to,
            end,
            at,
            count: 1,
            recovered: false,
        };
        if let Some(known) = self.find(to) {
            let repeated = !known.recovered && known.end == end;
            let count = if known.recovered { 0 } else { known.count };
            *known = Failure {
                count: count.saturating_add(1),
                ..failure
            };
            return !repeated;
        }
        // Empty places come first.
        let place = self.0.iter_mut().min_by_key(|place| place.map(|f| f.at));
        if let Some(place) = place {
            *place = Some(failure);
        }
        true
    }

    /// A connection came up.
    pub fn connected(&mut self, to: SocketAddr) {
        if let Some(known) = self.find(to) {
            known.recovered = true;
        }
    }

    /// All that is remembered, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter().flatten()
    }

    fn find(&mut self, to: SocketAddr) -> Option<&mut Failure> {
        self.0.iter_mut().flatten().find(|known| known.to == to)
    }
}

impl Default for Failures {
    fn default() -> Self {
        Self::new()
    }
}
