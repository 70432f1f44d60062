// SPDX-License-Identifier: GPL-2.0

//! The bookkeeping of a send queue: who owns what until which completion.
//!
//! Two kinds of requests are told apart. Messages and small RDMA WRITEs, and the registrations in front of them, are
//! executed in order: the successful completion of a signalled message retires it and all before
//! it, so most of them go unsignalled and cost no completion. Other transfers and invalidations, for which
//! somebody waits, are always signalled and retired by their own completion only: a soft iWARP
//! device completes a later SEND before an earlier READ.
//!
//! An error stops retiring for good: what is left stays owned here until the queue pair is drained.
//! Providers that report unsignalled requests all the same change nothing.

use super::mr::Mr;
use super::post::PostError;
use super::rw::Transfer;
use super::write::Writes;
use crate::bindings;
use crate::kern::errno::ENOTCONN;
use crate::kern::ring::Ring;
use crate::kern::time::now_ms;
use kernel::prelude::*;
use kernel::sync::Arc;

/// At most this many requests go unsignalled in a row (P17).
const SIGNAL_EVERY: u32 = 16;

/// Nor for longer than this, milliseconds, if more are posted: what is not signalled is not missed.
const SIGNAL_EVERY_MS: u64 = 1000;

/// The verbs status of a request that went well.
const SUCCESS: u32 = bindings::ib_wc_status_IB_WC_SUCCESS;

/// What a request asks the device for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// To send a message.
    Message,
    /// To register memory.
    Registration,
    /// To invalidate a registration.
    Invalidation,
    /// To read or write the peer's memory.
    Transfer,
}

/// What a posted request needs until it is retired.
pub(super) enum Owned {
    /// The buffer of a message.
    Message(u16),
    /// The buffer of an RDMA WRITE, which nobody waits for.
    Write(u16),
    /// A registration, which nobody waits for.
    Registration(Arc<Mr>),
    /// A local invalidation; somebody waits.
    Invalidation(Arc<Mr>),
    /// An RDMA transfer; somebody waits.
    Transfer(Arc<Transfer>),
}

/// A posted request, or a chain of which only the last one completes.
pub(super) struct Entry {
    /// The completion object the last request named; compared, never followed.
    pub(super) key: usize,
    /// Requests in the chain.
    pub(super) requests: u32,
    /// What they need.
    pub(super) owned: Owned,
    /// When they were posted.
    at: u64,
}

/// The state of a send queue, under the queue pair's send lock.
pub(super) struct SendQueue {
    /// Nothing may be posted any more.
    pub(super) closed: bool,
    /// Free work request slots of the hardware queue.
    pub(super) room: u32,
    /// Requests posted since the last signalled one.
    unsignalled: u32,
    /// Messages among them, whose completion nobody will hear of by itself.
    unreported: usize,
    /// When the last signalled one was posted, a time of [`now_ms`].
    signalled_at: u64,
    /// Since when messages have been waiting for their next completion.
    waiting_since: u64,
    /// When what is being posted was admitted.
    now: u64,
    /// Buffers not in use.
    pub(super) free: KVec<u16>,
    /// RDMA WRITEs that are copied.
    pub(super) writes: Writes,
    /// Buffers there are.
    slots: usize,
    /// Messages and registrations that are posted, oldest first.
    inflight: Ring<Entry>,
    /// Transfers and invalidations that are posted.
    waited: Ring<Entry>,
    /// Registrations to go out in front of the next message.
    pub(super) pending: Ring<Arc<Mr>>,
    /// Where the chains are built: one request and piece per buffer, one per pending registration.
    pub(super) messages: KVVec<bindings::ib_send_wr>,
    pub(super) pieces: KVVec<bindings::ib_sge>,
    pub(super) registrations: KVVec<bindings::ib_reg_wr>,
}

// SAFETY: The raw pointers inside are links between the arrays of this object and to objects the
// queue pair owns; all is used under one lock.
unsafe impl Send for SendQueue {}

impl SendQueue {
    /// An empty queue for `slots` buffers and `regions` memory regions over `room` requests.
    pub(super) fn new(slots: u16, regions: usize, room: u32) -> Result<Self> {
        let count = usize::from(slots);
        let free = Self::numbers(slots)?;
        let mut messages = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut pieces = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            messages.push(bindings::ib_send_wr::default(), GFP_KERNEL)?;
            pieces.push(bindings::ib_sge::default(), GFP_KERNEL)?;
        }
        let mut registrations = KVVec::with_capacity(regions, GFP_KERNEL)?;
        for _ in 0..regions {
            registrations.push(bindings::ib_reg_wr::default(), GFP_KERNEL)?;
        }
        Ok(Self {
            closed: false,
            room,
            unsignalled: 0,
            unreported: 0,
            signalled_at: 0,
            waiting_since: 0,
            now: 0,
            free,
            writes: Writes::none(),
            slots: count,
            inflight: Ring::with_capacity(usize::try_from(room)?)?,
            waited: Ring::with_capacity(usize::try_from(room)?)?,
            pending: Ring::with_capacity(regions)?,
            messages,
            pieces,
            registrations,
        })
    }

    /// The numbers of so many buffers, none in use.
    pub(super) fn numbers(count: u16) -> Result<KVec<u16>> {
        let mut numbers = KVec::with_capacity(usize::from(count), GFP_KERNEL)?;
        for number in (0..count).rev() {
            numbers.push(number, GFP_KERNEL)?;
        }
        Ok(numbers)
    }

    /// Whether `requests` may be posted now. Every post begins with it.
    pub(super) fn admit(&mut self, requests: u32) -> Result<(), PostError> {
        if self.closed {
            return Err(PostError::Failed(ENOTCONN.into()));
        }
        if requests > self.room {
            return Err(PostError::Full);
        }
        self.now = now_ms();
        Ok(())
    }

    /// Counts `requests` that are about to be posted, and tells whether the last of them asks for a
    /// completion; always with `report`. [`signalled`](Self::signalled) follows if it did.
    pub(super) fn signal(&mut self, requests: u32, report: bool) -> bool {
        self.unsignalled = self.unsignalled.saturating_add(requests);
        let late = self.now.saturating_sub(self.signalled_at) >= SIGNAL_EVERY_MS;
        let many = self.unsignalled >= SIGNAL_EVERY || self.free.len() < self.slots / 2;
        report || self.is_tight(requests) || late || many || self.writes.is_short()
    }

    /// Whether little room would be left behind so many requests.
    fn is_tight(&self, requests: u32) -> bool {
        self.room.saturating_sub(requests) < 2 * SIGNAL_EVERY
    }

    /// Takes a buffer to write from. None where the queue is tight: what waits for a message must fit with it.
    pub(super) fn take_write(&mut self) -> Option<u16> {
        let ahead = u32::try_from(self.writes.pending()).unwrap_or(u32::MAX);
        match self.is_tight(ahead.saturating_add(1)) {
            true => None,
            false => self.writes.take(),
        }
    }

    /// Notes that the message posted last is signalled.
    pub(super) fn signalled(&mut self) {
        if self.messages_inflight() == 0 {
            self.waiting_since = self.now;
        }
        self.unsignalled = 0;
        self.unreported = 0;
        self.signalled_at = self.now;
    }

    /// Takes over what was posted: so many requests, the last with this key, and what they need.
    pub(super) fn posted(&mut self, key: usize, requests: u32, owned: Owned) {
        let entry = Entry {
            key,
            requests,
            owned,
            at: self.now,
        };
        self.room = self.room.saturating_sub(entry.requests);
        let queue = match entry.owned {
            Owned::Message(_) => {
                self.unreported = self.unreported.saturating_add(1);
                &mut self.inflight
            }
            Owned::Write(_) | Owned::Registration(_) => &mut self.inflight,
            Owned::Invalidation(_) | Owned::Transfer(_) => &mut self.waited,
        };
        // The rings are as large as the hardware queue, and `room` was checked.
        if let Err(entry) = queue.push(entry) {
            // Losing track would free memory the device uses: keep it for ever instead.
            pr_err!("send queue bookkeeping is full\n");
            core::mem::forget(entry);
        }
    }

    /// Retires what the completion with this key says is done.
    pub(super) fn retire(&mut self, key: usize) {
        if let Some(entry) = self.waited.remove(|entry| entry.key == key) {
            return self.done(entry);
        }
        if !self.inflight.iter().any(|entry| entry.key == key) {
            return;
        }
        self.waiting_since = now_ms();
        while let Some(entry) = self.inflight.pop() {
            let last = entry.key == key;
            self.done(entry);
            if last {
                break;
            }
        }
    }

    /// Gives back what a finished request owned.
    fn done(&mut self, entry: Entry) {
        self.room = self.room.saturating_add(entry.requests);
        match entry.owned {
            Owned::Message(slot) => self.put_back(slot),
            Owned::Write(slot) => self.writes.put_back(slot),
            Owned::Registration(_) => {}
            Owned::Invalidation(region) => region.invalidation_done(SUCCESS),
            Owned::Transfer(transfer) => transfer.done(SUCCESS),
        }
    }

    /// What the request with this key asks for. One that is not known is a message without completion of
    /// its own.
    pub(super) fn kind_of(&self, key: usize) -> Kind {
        let mut all = [&self.inflight, &self.waited]
            .into_iter()
            .flat_map(Ring::iter);
        match all.find(|entry| entry.key == key).map(|entry| &entry.owned) {
            Some(Owned::Message(_)) | None => Kind::Message,
            Some(Owned::Registration(_)) => Kind::Registration,
            Some(Owned::Invalidation(_)) => Kind::Invalidation,
            Some(Owned::Write(_) | Owned::Transfer(_)) => Kind::Transfer,
        }
    }

    /// A request completed with an error: tells who waits for it. Its entry stays.
    pub(super) fn failed(&self, key: usize, status: u32) {
        for entry in self.waited.iter().filter(|entry| entry.key == key) {
            match &entry.owned {
                Owned::Message(_) | Owned::Write(_) | Owned::Registration(_) => {}
                Owned::Invalidation(region) => region.invalidation_done(status),
                Owned::Transfer(transfer) => transfer.done(status),
            }
        }
    }

    /// Returns a buffer that is not posted.
    pub(super) fn put_back(&mut self, slot: u16) {
        // The capacity for all buffers is reserved, so this cannot fail.
        let _ = self.free.push(slot, GFP_NOWAIT);
    }

    /// Messages whose completion is on its way: posted and not retired, without those behind the last
    /// signalled request.
    pub(super) fn messages_inflight(&self) -> usize {
        let is_message = |entry: &&Entry| matches!(entry.owned, Owned::Message(_));
        let posted = self.inflight.iter().filter(is_message).count();
        posted.saturating_sub(self.unreported)
    }

    /// Since when the next completion has been on its way.
    pub(super) fn waiting_since(&self) -> Option<u64> {
        let messages = (self.messages_inflight() > 0).then_some(self.waiting_since);
        let waited = self.waited.iter().next().map(|entry| entry.at);
        [messages, waited].into_iter().flatten().min()
    }

    /// Whether a request that names this region is not known to be finished.
    pub(super) fn names(&self, region: &Arc<Mr>) -> bool {
        let mut all = [&self.inflight, &self.waited]
            .into_iter()
            .flat_map(Ring::iter);
        all.any(|entry| match &entry.owned {
            Owned::Registration(other) | Owned::Invalidation(other) => Arc::ptr_eq(other, region),
            Owned::Message(_) | Owned::Write(_) | Owned::Transfer(_) => false,
        })
    }

    /// Gives up everything once the hardware queue is drained.
    pub(super) fn take_all(&mut self) -> (Ring<Entry>, Ring<Entry>, Ring<Arc<Mr>>) {
        (
            core::mem::replace(&mut self.inflight, Ring::empty()),
            core::mem::replace(&mut self.waited, Ring::empty()),
            core::mem::replace(&mut self.pending, Ring::empty()),
        )
    }
}
