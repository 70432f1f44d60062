// SPDX-License-Identifier: GPL-2.0
//! Send and receive credits of one connection.
//!
//! MS-SMBD 3.1.5.1 (sending), 3.1.5.8 (receiving), 3.1.5.9 (managing credits); rules C1-C10, D9, R27,
//! R28. The counters are those of section 10 of the ABI page. The struct lives in one lock of the
//! caller, therefore "atomic exchange" (C5) is simply "one method call".
//!
//! # Words
//!
//! * *send credits*: messages we may still send. The peer gives them.
//! * *posted*: receives that were posted and whose completion has not been handled.
//! * *available*: posted, and not yet granted. Raised after a post succeeded (C5).
//! * *count*: granted, and not yet used by a message we have handled. What the peer holds, seen from
//!   here.
//! * *target*: credits the peer asked for last, 1 to `recv_credit_max`.
//!
//! # The last credit
//!
//! [`take`](Credits::take) never spends the last send credit in a message that grants nothing (C4). There
//! is no exception for a peer that still holds a credit: it may be spending that credit at this moment,
//! in a message that crosses ours, and then both sides stand at zero with nothing under way. The model in
//! `tests/host` finds that stall in a few steps.
//!
//! Without the exception a peer that holds its full window but stays silent would block us. So one
//! receive *beyond* the target is kept posted as a reserve ([`missing`](Credits::missing)), as MS-SMBD
//! 3.1.5.1 asks for, and the message with the last credit may dip into it. The reserve comes back by
//! itself: each credit we get from the peer arrives in a message, and that message used one of ours.
//! Hence `count` exceeds the target by at most one. The owner of the buffers provides
//! `recv_credit_max + 1` of them (see `negotiate::Negotiated::recv_buffers`).
//!
//! # When to send a credit-only message
//!
//! After a received message the engine posts what is missing and then asks
//! [`grant_due`](Credits::grant_due). The answer depends on the counters alone, whatever led there: a
//! grant is possible, and either the peer holds nothing, or it is down to a quarter of its target *and* a
//! message with payload arrived since it was above (C8). A credit-only message does not count as payload,
//! so it provokes another one only if it used up the peer's last credit (C9). Even that exchange ends:
//! the answer grants more than it costs, unless buffers are short.

use super::pdu::DataHeader;
use super::rule::Rule;

/// Why no message may be sent now. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// No send credit (C1). Wait until one arrives.
    NoCredit,
    /// It is the last send credit and nothing can be granted with it (C4). Post a receive if a buffer is
    /// free, then wait until a credit arrives or a receive becomes available.
    LastCredit,
}

/// What a received message changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Send credits arrived: wake the senders.
    pub wake: bool,
    /// Granted credits beyond the counter's range were dropped (C6).
    pub saturated: bool,
    /// Enough receives are missing, or they are missed enough, to post some ([`Credits::missing`]).
    pub refill: bool,
}

/// The credit counters of a connection.
///
/// # Invariants
///
/// * `count + available <= posted` plus the messages whose handlers run at this moment.
/// * `1 <= target <= recv_credit_max`.
/// * `posted <= limit`, as far as the caller posts no more than [`Credits::missing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credits {
    recv_credit_max: u16,
    send_credit_target: u16,
    send: u16,
    target: u16,
    posted: u32,
    available: u32,
    count: u32,
    /// A message with payload arrived since the peer was last above the low-water mark.
    payload_seen: bool,
}

impl Credits {
    /// Counters of a connection before negotiation: nothing posted, a receive target of 1.
    ///
    /// `recv_credit_max`: most credits the peer may hold, at least 1 (0 is taken as 1).
    /// `send_credit_target`: what every message asks the peer for, at least 1 (0 is taken as 1: C2).
    pub fn new(recv_credit_max: u16, send_credit_target: u16) -> Self {
        Self {
            recv_credit_max: recv_credit_max.max(1),
            send_credit_target: send_credit_target.max(1),
            send: 0,
            target: 1,
            posted: 0,
            available: 0,
            count: 0,
            payload_seen: false,
        }
    }

    /// Takes over the result of the negotiation: `send` credits granted by the peer (0 on the server),
    /// and the peer's `target`, which is capped to 1..=`recv_credit_max`.
    pub fn negotiated(&mut self, send: u16, target: u16) {
        self.send = send;
        self.set_target(target);
    }

    fn set_target(&mut self, requested: u16) {
        // Not `clamp`, which panics unless its bounds are in order: that they are, no compiler sees.
        self.target = requested.min(self.recv_credit_max).max(1);
    }

    /// Send credits, messages.
    pub const fn send_credits(&self) -> u16 {
        self.send
    }

    /// The peer's target, messages.
    pub const fn receive_target(&self) -> u16 {
        self.target
    }

    /// Credits the peer holds, seen from here; DebugData's `receive_credits`.
    pub const fn outstanding(&self) -> u32 {
        self.count
    }

    /// Posted receives that are not granted.
    pub const fn available(&self) -> u32 {
        self.available
    }

    /// Posted receives whose completion has not been handled.
    pub const fn posted_receives(&self) -> u32 {
        self.posted
    }

    /// Value of CreditsRequested in every message (C2).
    pub const fn credits_requested(&self) -> u16 {
        self.send_credit_target
    }

    /// Most receives that may ever be posted: the window and one reserve. What the receive queue must
    /// hold, besides the drain's work request.
    pub fn limit(&self) -> u32 {
        u32::from(self.recv_credit_max).saturating_add(1)
    }

    /// `n` receives were posted. Call it after the post succeeded, before anything can be granted (C5).
    ///
    /// Returns whether a sender blocked by [`Blocked::LastCredit`] may now go on.
    pub fn posted(&mut self, n: u32) -> bool {
        let unblocks = n > 0 && self.available == 0 && self.send == 1;
        self.posted = self.posted.saturating_add(n);
        self.available = self.available.saturating_add(n);
        unblocks
    }

    /// Takes back `n` receives that [`posted`](Credits::posted) counted and that were not posted after
    /// all. They must still be available.
    pub fn unposted(&mut self, n: u32) {
        self.posted = self.posted.saturating_sub(n);
        self.available = self.available.saturating_sub(n);
    }

    /// Receives to post now, when `free` buffers are at hand: up to the target plus the reserve, and in
    /// any case one that is not granted, never above [`limit`](Credits::limit).
    pub fn missing(&self, free: u32) -> u32 {
        let wanted = u32::from(self.target)
            .saturating_add(1)
            .saturating_sub(self.posted);
        let reserve = 1u32.saturating_sub(self.available);
        let room = self.limit().saturating_sub(self.posted);
        wanted.max(reserve).min(room).min(free)
    }

    /// Whether posting the missing receives is worth a doorbell: an eighth of the window is missing, or
    /// the peer runs dry, or our own last credit may need something to grant (C3).
    pub fn refill_worthwhile(&self) -> bool {
        let missing = self.missing(u32::MAX);
        let group = u32::from((self.target >> 3).max(1));
        let urgent = self.count <= self.low_water() || (self.send <= 1 && self.available == 0);
        missing >= group || (missing > 0 && urgent)
    }

    /// A data message was received and parsed. `header` gives credits and payload.
    ///
    /// The receive is no longer posted, one granted credit is used, the target follows CreditsRequested
    /// and the granted send credits are added.
    ///
    /// # Errors
    ///
    /// [`Rule::D9`] when the peer held no credit; only the posted counter has changed then.
    pub fn received(&mut self, header: &DataHeader) -> Result<Received, Rule> {
        self.received_error();
        self.count = self.count.checked_sub(1).ok_or(Rule::D9)?;
        self.set_target(header.credits_requested);
        let (sum, saturated) = self.send.overflowing_add(header.credits_granted);
        self.send = if saturated { u16::MAX } else { sum };
        if header.length > 0 {
            self.payload_seen = true;
        }
        Ok(Received {
            wake: header.credits_granted > 0,
            saturated,
            refill: self.refill_worthwhile(),
        })
    }

    /// A posted receive came back without a message, or with one that is refused.
    pub fn received_error(&mut self) {
        self.posted = self.posted.saturating_sub(1);
    }

    /// Whether a message could be sent now; what a waiting sender asks.
    ///
    /// # Errors
    ///
    /// [`Blocked`], as [`take`](Credits::take).
    pub fn check(&self) -> Result<(), Blocked> {
        match self.send {
            0 => Err(Blocked::NoCredit),
            1 if self.grantable() == 0 => Err(Blocked::LastCredit),
            _ => Ok(()),
        }
    }

    /// Takes one send credit for a message and grants what can be granted; returns the message's
    /// CreditsGranted. The message must now be sent or [given back](Credits::give_back).
    ///
    /// # Errors
    ///
    /// [`Blocked`]; nothing has changed then.
    pub fn take(&mut self) -> Result<u16, Blocked> {
        self.check()?;
        let granted = self.grantable();
        self.send = self.send.saturating_sub(1);
        self.grant(granted);
        Ok(granted)
    }

    /// Undoes a [`take`](Credits::take) whose message was not posted (C10). Wake the senders afterwards.
    pub fn give_back(&mut self, granted: u16) {
        self.send = self.send.saturating_add(1);
        self.ungrant(granted);
        // The grant may have been the due one. If not, a credit-only message too many does no harm.
        self.payload_seen |= granted > 0;
    }

    /// Grants up to the full window with the Negotiate Response, which costs no credit. 0 means that no
    /// receive is posted: refuse with a failure response (Q7).
    pub fn grant_all_for_response(&mut self) -> u16 {
        let granted = self.grant_within(u32::from(self.target));
        self.grant(granted);
        granted
    }

    /// Takes back what [`grant_all_for_response`](Credits::grant_all_for_response) granted, when the
    /// response could not be posted.
    pub fn revoke_response(&mut self, granted: u16) {
        self.ungrant(granted);
    }

    /// Takes back a grant that was not sent. A peer that sends without a credit may have used it already,
    /// and with it the receive: that one is not available any more (C5).
    fn ungrant(&mut self, granted: u16) {
        let unused = u32::from(granted).min(self.count);
        self.count = self.count.saturating_sub(unused);
        self.available = self.available.saturating_add(unused);
    }

    /// Whether a credit-only message should go out now, unless a message goes out anyway (C8, C9), when
    /// `free` buffers are at hand. Worth asking after received messages, after each refill, when the right
    /// to send comes back, and again right before sending.
    ///
    /// Posting comes first: while receives are [missing](Credits::missing) and buffers are there, nothing
    /// is due. So the message carries all it can, and two peers with windows of one do not hand the same
    /// single credit to and fro.
    pub fn grant_due(&self, free: u32) -> bool {
        let possible = self.check().is_ok() && self.grantable() > 0 && self.missing(free) == 0;
        possible && (self.count == 0 || (self.payload_seen && self.count <= self.low_water()))
    }

    /// What a message sent now would grant.
    fn grantable(&self) -> u16 {
        let target = u32::from(self.target);
        if self.send > 1 {
            return self.grant_within(target);
        }
        // The last credit: the window plus one, and one in any case (the target may have shrunk).
        let beyond = target.max(self.count).saturating_add(1).min(self.limit());
        self.grant_within(beyond)
    }

    /// What can be granted so that the peer holds at most `ceiling`.
    fn grant_within(&self, ceiling: u32) -> u16 {
        let grant = ceiling.saturating_sub(self.count).min(self.available);
        u16::try_from(grant).unwrap_or(u16::MAX)
    }

    fn grant(&mut self, granted: u16) {
        if granted == 0 {
            return;
        }
        let granted = u32::from(granted);
        self.available = self.available.saturating_sub(granted);
        self.count = self.count.saturating_add(granted);
        if self.count > self.low_water() || self.count >= u32::from(self.target) {
            self.payload_seen = false;
        }
    }

    /// Credits at or below which the peer counts as running dry: a quarter of its target, at least 1.
    fn low_water(&self) -> u32 {
        u32::from((self.target >> 2).max(1))
    }
}
