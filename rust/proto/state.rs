// SPDX-License-Identifier: GPL-2.0
//! Connection state: status, first error and the sticky facts of the connection manager, in one word.
//!
//! Implements the table of section 5 of the ABI page with its transition discipline (R11, R12). The
//! whole state fits in a `u64`, so that the kernel part changes it by one compare-and-exchange:
//!
//! ```text
//! loop { let old = State::from_raw(word.load()); match old.on(event) {
//!     None => break,                                  // nothing changes, or the edge is not allowed
//!     Some(new) => if word.cmpxchg(old.raw(), new.raw()) { break }
//! } }
//! ```
//!
//! and any context may read status and first error without a lock, always as a pair that existed.
//!
//! # Rules kept here
//!
//! * The first error is set once and never changes. With an error no forward edge is taken any more, so
//!   a late success cannot revive a dying connection.
//! * *established*, *disconnected* and *removed* only ever go from false to true, in any order and in
//!   any status. The status follows from them: a connection with an error that has been disconnected is
//!   DISCONNECTED, whoever came first. Nobody waits for an event that has already happened.
//! * Status numbers never fall, with one exception: a cleanup may force a lower *dead* status together
//!   with the first error.
//!
//! Layout of the word: bits 0-7 status, 8-10 facts, 32-63 first error.

use super::errno::ECONNABORTED;

/// Connection status. The numbers are compared by callers and printed in DebugData.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Fresh socket.
    Created = 0,
    /// Listener.
    Listening = 1,
    /// Connect asked for, address resolution not yet started.
    ResolveAddrNeeded = 2,
    /// Address resolution in progress.
    ResolveAddrRunning = 3,
    /// Failed before or during address resolution.
    ResolveAddrFailed = 4,
    /// Address known, route resolution not yet started.
    ResolveRouteNeeded = 5,
    /// Route resolution in progress.
    ResolveRouteRunning = 6,
    /// Failed before or during route resolution.
    ResolveRouteFailed = 7,
    /// Route known (client) or request received (server), RDMA connect not yet started.
    RdmaConnectNeeded = 8,
    /// RDMA connect or accept in progress.
    RdmaConnectRunning = 9,
    /// Failed before or during RDMA connect.
    RdmaConnectFailed = 10,
    /// RDMA connection established, negotiation not yet started.
    NegotiateNeeded = 11,
    /// Negotiation in progress.
    NegotiateRunning = 12,
    /// Failed before or during negotiation.
    NegotiateFailed = 13,
    /// Ready for data.
    Connected = 14,
    /// Was connected, has an error.
    Error = 15,
    /// Disconnect issued, its end not yet seen.
    Disconnecting = 16,
    /// No RDMA connection any more, or there never was one.
    Disconnected = 17,
    /// End of destruction.
    Destroyed = 18,
}

impl Status {
    /// All statuses, in the order of their numbers.
    pub const ALL: [Status; 19] = [
        Status::Created,
        Status::Listening,
        Status::ResolveAddrNeeded,
        Status::ResolveAddrRunning,
        Status::ResolveAddrFailed,
        Status::ResolveRouteNeeded,
        Status::ResolveRouteRunning,
        Status::ResolveRouteFailed,
        Status::RdmaConnectNeeded,
        Status::RdmaConnectRunning,
        Status::RdmaConnectFailed,
        Status::NegotiateNeeded,
        Status::NegotiateRunning,
        Status::NegotiateFailed,
        Status::Connected,
        Status::Error,
        Status::Disconnecting,
        Status::Disconnected,
        Status::Destroyed,
    ];

    /// The name that DebugData prints.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Created => "CREATED",
            Status::Listening => "LISTENING",
            Status::ResolveAddrNeeded => "RESOLVE_ADDR_NEEDED",
            Status::ResolveAddrRunning => "RESOLVE_ADDR_RUNNING",
            Status::ResolveAddrFailed => "RESOLVE_ADDR_FAILED",
            Status::ResolveRouteNeeded => "RESOLVE_ROUTE_NEEDED",
            Status::ResolveRouteRunning => "RESOLVE_ROUTE_RUNNING",
            Status::ResolveRouteFailed => "RESOLVE_ROUTE_FAILED",
            Status::RdmaConnectNeeded => "RDMA_CONNECT_NEEDED",
            Status::RdmaConnectRunning => "RDMA_CONNECT_RUNNING",
            Status::RdmaConnectFailed => "RDMA_CONNECT_FAILED",
            Status::NegotiateNeeded => "NEGOTIATE_NEEDED",
            Status::NegotiateRunning => "NEGOTIATE_RUNNING",
            Status::NegotiateFailed => "NEGOTIATE_FAILED",
            Status::Connected => "CONNECTED",
            Status::Error => "ERROR",
            Status::Disconnecting => "DISCONNECTING",
            Status::Disconnected => "DISCONNECTED",
            Status::Destroyed => "DESTROYED",
        }
    }

    /// The number that DebugData prints.
    pub const fn number(self) -> u8 {
        // CAST: the discriminants are the numbers.
        self as u8
    }

    /// Whether the status only occurs together with an error: the `*_FAILED` ones and everything from
    /// ERROR on.
    pub const fn is_dead(self) -> bool {
        use Status::*;
        matches!(
            self,
            ResolveAddrFailed
                | ResolveRouteFailed
                | RdmaConnectFailed
                | NegotiateFailed
                | Error
                | Disconnecting
                | Disconnected
                | Destroyed
        )
    }

    /// Status after a cleanup was scheduled in this one.
    const fn failed(self) -> Status {
        use Status::*;
        match self {
            Created | Listening => Disconnected,
            ResolveAddrNeeded | ResolveAddrRunning => ResolveAddrFailed,
            ResolveRouteNeeded | ResolveRouteRunning => ResolveRouteFailed,
            RdmaConnectNeeded | RdmaConnectRunning => RdmaConnectFailed,
            NegotiateNeeded | NegotiateRunning => NegotiateFailed,
            Connected => Error,
            dead => dead,
        }
    }

    /// Whether success may lead from this status to `to`.
    const fn advances_to(self, to: Status) -> bool {
        use Status::*;
        matches!(
            (self, to),
            (Created, Listening | ResolveAddrNeeded | RdmaConnectNeeded)
                | (ResolveAddrNeeded, ResolveAddrRunning)
                | (ResolveAddrRunning, ResolveRouteNeeded)
                | (ResolveRouteNeeded, ResolveRouteRunning)
                | (ResolveRouteRunning, RdmaConnectNeeded)
                | (RdmaConnectNeeded, RdmaConnectRunning)
                | (RdmaConnectRunning, NegotiateNeeded)
                | (NegotiateNeeded, NegotiateRunning)
                | (NegotiateRunning, Connected)
        )
    }
}

/// The number is no [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownStatus(pub u8);

impl TryFrom<u8> for Status {
    type Error = UnknownStatus;

    fn try_from(number: u8) -> Result<Self, UnknownStatus> {
        Status::ALL
            .get(usize::from(number))
            .copied()
            .ok_or(UnknownStatus(number))
    }
}

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A step succeeded. Taken only along a forward edge of the table and only without a first error.
    Advance(Status),
    /// A cleanup is being scheduled.
    Fail {
        /// Negative errno; anything else is stored as `-ECONNABORTED`.
        errno: i32,
        /// Status to force, if this is the first error or the forced status is the higher one.
        /// Ignored unless [dead](Status::is_dead) and below DESTROYED.
        forced: Option<Status>,
    },
    /// The CM reported the connection established.
    Established,
    /// The CM reported the end of the connection, or refused to disconnect it (R16).
    Disconnected,
    /// The device is being removed.
    Removed,
    /// The cleanup work is about to issue the CM disconnect. Needs an error and an established
    /// connection that has not ended yet.
    Disconnecting,
    /// The cleanup work found that the connection was never established.
    Closed,
    /// End of destruction.
    Destroyed,
}

/// Status, first error and facts of a connection, as one value.
///
/// # Invariants
///
/// * Bits 0-7 hold the number of a [`Status`].
/// * A [dead](Status::is_dead) status comes with a first error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl State {
    const ESTABLISHED: u64 = 1 << 8;
    const DISCONNECTED: u64 = 1 << 9;
    const REMOVED: u64 = 1 << 10;
    const STATUS_MASK: u64 = 0xff;

    /// State of a fresh socket.
    pub const NEW: State = State(0);

    /// Takes a word written by [`raw`](State::raw).
    pub const fn from_raw(raw: u64) -> State {
        State(raw)
    }

    /// The word to store.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Current status. A word that holds no status number counts as DESTROYED.
    pub fn status(self) -> Status {
        let [number, ..] = self.0.to_le_bytes();
        Status::try_from(number).unwrap_or(Status::Destroyed)
    }

    /// First error, a negative errno.
    pub const fn first_error(self) -> Option<i32> {
        let [.., b0, b1, b2, b3] = self.0.to_le_bytes();
        match i32::from_le_bytes([b0, b1, b2, b3]) {
            0 => None,
            errno => Some(errno),
        }
    }

    /// Whether the CM ever reported the connection established.
    pub const fn is_established(self) -> bool {
        self.0 & Self::ESTABLISHED != 0
    }

    /// Whether the CM ever reported the end of the connection.
    pub const fn is_disconnected(self) -> bool {
        self.0 & Self::DISCONNECTED != 0
    }

    /// Whether the device is gone.
    pub const fn is_removed(self) -> bool {
        self.0 & Self::REMOVED != 0
    }

    /// Whether data may flow: status CONNECTED, no first error, and no fact against it.
    pub fn is_connected(self) -> bool {
        self.status() == Status::Connected
            && self.first_error().is_none()
            && !self.is_disconnected()
            && !self.is_removed()
    }

    /// Whether the RDMA connection is known to be over or never was: nothing is left to wait for.
    pub fn is_over(self) -> bool {
        self.status() >= Status::Disconnected
    }

    /// State after `event`, or `None` when the event changes nothing or is not allowed here.
    #[must_use]
    pub fn on(self, event: Event) -> Option<State> {
        let next = match event {
            Event::Advance(to) => self.advance(to)?,
            Event::Fail { errno, forced } => self.fail(errno, forced),
            Event::Established => self.with_fact(Self::ESTABLISHED),
            Event::Disconnected => self.with_fact(Self::DISCONNECTED).derived(),
            Event::Removed => self.with_fact(Self::REMOVED).derived(),
            Event::Disconnecting => self.disconnecting()?,
            Event::Closed => self.closed()?,
            Event::Destroyed => self.destroyed()?,
        };
        (next != self).then_some(next)
    }

    fn advance(self, to: Status) -> Option<State> {
        let live = self.first_error().is_none() && !self.is_disconnected() && !self.is_removed();
        (live && self.status().advances_to(to)).then(|| self.with_status(to))
    }

    fn fail(self, errno: i32, forced: Option<Status>) -> State {
        let first = self.first_error().is_none();
        let mut next = self;
        if first {
            next = next.with_error(if errno < 0 { errno } else { ECONNABORTED });
        }
        next = next.with_status(self.status().failed());
        match forced {
            Some(to) if to.is_dead() && to < Status::Destroyed => {
                let now = next.status();
                if to > now || (first && now < Status::Disconnected) {
                    next = next.with_status(to);
                }
            }
            _ => {}
        }
        next.derived()
    }

    fn disconnecting(self) -> Option<State> {
        // An end that is already known has made the status DISCONNECTED.
        let allowed = self.first_error().is_some()
            && self.is_established()
            && self.status() < Status::Disconnecting;
        allowed.then(|| self.with_status(Status::Disconnecting))
    }

    fn closed(self) -> Option<State> {
        let allowed = self.first_error().is_some()
            && !self.is_established()
            && self.status() < Status::Disconnected;
        allowed.then(|| self.with_status(Status::Disconnected))
    }

    fn destroyed(self) -> Option<State> {
        (self.status() == Status::Disconnected).then(|| self.with_status(Status::Destroyed))
    }

    /// Applies what the facts say about the status: with an error, a connection that ended, or whose
    /// device went away after establishment, is DISCONNECTED.
    fn derived(self) -> State {
        let over = self.is_disconnected() || (self.is_removed() && self.is_established());
        if over && self.first_error().is_some() && self.status() < Status::Disconnected {
            self.with_status(Status::Disconnected)
        } else {
            self
        }
    }

    fn with_status(self, status: Status) -> State {
        State((self.0 & !Self::STATUS_MASK) | u64::from(status.number()))
    }

    const fn with_fact(self, fact: u64) -> State {
        State(self.0 | fact)
    }

    /// Of a state without an error: the first one sticks.
    fn with_error(self, errno: i32) -> State {
        // Keeps the bits; `first_error` reads them back.
        let bits = u64::from(u32::from_le_bytes(errno.to_le_bytes()));
        State(self.0 | (bits << 32))
    }
}
