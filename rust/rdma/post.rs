// SPDX-License-Identifier: GPL-2.0

//! The send half of a queue pair: buffers, messages, registrations, invalidations and transfers.
//!
//! Everything is posted under the send lock, in chains, and booked in [`SendQueue`] before the lock
//! is released, so a completion always finds its entry. A [`SendSlot`] is the right to a buffer to
//! send from; it cannot be copied and posting consumes it.

use super::fault::{self, Point};
use super::mr::Mr;
use super::qp::{Completions, Qp, Status};
use super::rw::Transfer;
use super::sq::{Owned, SendQueue};
use super::wr::{self, Chain};
use crate::bindings;
use crate::kern::counters::count;
use crate::kern::errno::ENOTCONN;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The right to a buffer to send from.
pub(crate) struct SendSlot {
    index: u16,
    pool: usize,
}

/// A message ready to be posted.
pub(crate) struct Message {
    /// Its buffer.
    pub(crate) slot: SendSlot,
    /// Its bytes.
    pub(crate) len: usize,
}

/// Why messages were not posted.
#[derive(Debug)]
pub(crate) enum PostError {
    /// No room in the queue now; nothing was taken, a completion makes room.
    Full,
    /// The queue is closed or the post failed. What the hardware did not accept is given up.
    Failed(Error),
}

impl<C: Completions> Qp<C> {
    /// Takes a free send buffer. Any context.
    pub(crate) fn take_send_slot(&self) -> Option<SendSlot> {
        let index = self.sq.lock().free.pop()?;
        Some(SendSlot {
            index,
            pool: self.pool_id(),
        })
    }

    /// Whether a send buffer is free. Any context.
    pub(crate) fn has_send_slot(&self) -> bool {
        !self.sq.lock().free.is_empty()
    }

    /// Returns a send buffer that was not posted.
    pub(crate) fn return_send_slot(&self, slot: SendSlot) {
        if slot.pool == self.pool_id() {
            self.sq.lock().put_back(slot.index);
        }
    }

    fn pool_id(&self) -> usize {
        // CAST: Only compared.
        core::ptr::from_ref(self) as usize
    }

    /// The bytes of a send buffer; empty for a token of another queue pair.
    pub(crate) fn send_bytes<'a>(&'a self, slot: &'a mut SendSlot) -> &'a mut [u8] {
        if slot.pool != self.pool_id() {
            return &mut [];
        }
        let Some(start) = self.send_buffers.pointer(slot.index.into()) else {
            return &mut [];
        };
        // SAFETY: The buffer has `size` initialised bytes, and the token, borrowed mutably, is the
        // only right to it.
        unsafe { core::slice::from_raw_parts_mut(start, self.send_buffers.size()) }
    }

    /// Messages posted whose completion is not known yet.
    pub(crate) fn sends_inflight(&self) -> usize {
        self.sq.lock().messages_inflight()
    }

    /// Posts `messages` in order, behind the pending registrations and writes, in one chain. Any context.
    ///
    /// With `invalidate` the first message tells the peer's device to invalidate this remote key;
    /// with `report` the last one asks for a completion whatever the queue's own rule says. On
    /// success `messages` is empty.
    ///
    /// # Errors
    ///
    /// [`PostError`].
    pub(crate) fn post_messages(
        &self,
        messages: &mut KVec<Message>,
        invalidate: Option<u32>,
        report: bool,
    ) -> Result<(), PostError> {
        let mut queue = self.sq.lock();
        let queue = &mut *queue;
        let requests = messages.len() + queue.pending.len() + queue.writes.pending();
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        queue.admit(requests)?;
        if requests == 0 {
            return Ok(());
        }
        let mut chain = Chain::new();
        self.chain_registrations(queue, &mut chain);
        queue.writes.add_to(&mut chain);
        for message in messages.iter() {
            self.chain_message(queue, &mut chain, message);
        }
        if let (Some(key), Some(first)) = (invalidate, messages.first()) {
            Self::invalidate_with(queue, first, key);
        }
        let signalled = queue.signal(requests, report);
        if signalled {
            chain.signal_last();
        }
        let (accepted, result) = self.post_sends(chain);
        self.book(queue, messages, accepted);
        if signalled {
            queue.signalled();
        }
        result.map_err(PostError::Failed)
    }

    /// Posts a chain, under the send lock; how many requests the hardware took.
    fn post_sends(&self, chain: Chain) -> (u32, Result) {
        let (accepted, result) = chain.post(self.raw);
        let counters = self.pd.counters();
        count(&counters.send_posts, 1);
        count(&counters.send_requests, accepted.into());
        (accepted, result)
    }

    /// Lets a message of a chain invalidate a key at the peer.
    fn invalidate_with(queue: &mut SendQueue, message: &Message, key: u32) {
        let index = usize::from(message.slot.index);
        if let Some(request) = queue.messages.get_mut(index) {
            request.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            wr::set_invalidated_key(request, key);
        }
    }

    /// Books the pending registrations and writes and the messages, of which the hardware took `accepted`.
    fn book(&self, queue: &mut SendQueue, messages: &mut KVec<Message>, mut accepted: u32) {
        let counters = self.pd.counters();
        let number = |n: usize| u64::try_from(n).unwrap_or(0);
        let taken = u64::from(accepted);
        let registrations = number(queue.pending.len());
        let sent = taken.saturating_sub(registrations + number(queue.writes.pending()));
        count(&counters.registered, registrations.min(taken));
        count(&counters.messages_sent, sent);
        while let Some(region) = queue.pending.pop() {
            let key = self.registration_key();
            Self::account(queue, &mut accepted, key, Owned::Registration(region));
        }
        while let Some(index) = queue.writes.pop() {
            let key = self.write_key(index);
            Self::account(queue, &mut accepted, key, Owned::Write(index));
        }
        for message in messages.drain_all() {
            let index = message.slot.index;
            let key = self.send_key(index);
            Self::account(queue, &mut accepted, key, Owned::Message(index));
        }
    }

    /// Books one request of a chain of which `accepted` more were taken by the hardware.
    fn account(queue: &mut SendQueue, accepted: &mut u32, key: usize, owned: Owned) {
        if *accepted > 0 {
            *accepted -= 1;
            queue.posted(key, 1, owned);
            return;
        }
        match owned {
            Owned::Message(slot) => queue.put_back(slot),
            Owned::Write(slot) => queue.writes.put_back(slot),
            Owned::Registration(_) | Owned::Invalidation(_) | Owned::Transfer(_) => {}
        }
    }

    fn registration_key(&self) -> usize {
        // CAST: Only compared.
        &raw const self.registration_cqe as usize
    }

    fn send_key(&self, index: u16) -> usize {
        // CAST: Only compared.
        self.send_cqes
            .get(usize::from(index))
            .map_or(0, |cqe| core::ptr::from_ref(cqe) as usize)
    }

    fn chain_registrations(&self, queue: &mut SendQueue, chain: &mut Chain) {
        for (region, request) in queue.pending.iter().zip(queue.registrations.iter_mut()) {
            *request = region.registration();
            wr::set_completion(&mut request.wr, &self.registration_cqe);
            chain.add(&mut request.wr);
        }
    }

    fn chain_message(&self, queue: &mut SendQueue, chain: &mut Chain, message: &Message) {
        let index = usize::from(message.slot.index);
        let (Some(request), Some(piece), Some(cqe)) = (
            queue.messages.get_mut(index),
            queue.pieces.get_mut(index),
            self.send_cqes.get(index),
        ) else {
            return;
        };
        self.send_buffers.sync_for_device(index, message.len);
        piece.addr = self.send_buffers.address(index);
        // The length is that of a message, far below 4 GiB.
        piece.length = u32::try_from(message.len).unwrap_or(0);
        piece.lkey = self.pd.local_key();
        *request = bindings::ib_send_wr {
            sg_list: piece,
            num_sge: 1,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            ..Default::default()
        };
        wr::set_completion(request, cqe);
        chain.add(request);
    }

    /// Puts a registration in front of the next message. Any context.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN` on a closed queue pair, `-ENOMEM` when more are pending than planned for.
    pub(crate) fn queue_registration(&self, region: &Arc<Mr>) -> Result {
        let mut queue = self.sq.lock();
        if queue.closed {
            return Err(ENOTCONN.into());
        }
        queue.pending.push(region.clone()).map_err(|_| ENOMEM)
    }

    /// Takes back a registration that is still pending; false if it is posted.
    pub(crate) fn unqueue_registration(&self, region: &Arc<Mr>) -> bool {
        let taken = self
            .sq
            .lock()
            .pending
            .remove(|other| Arc::ptr_eq(other, region));
        taken.is_some()
    }

    /// Since when the device owes the next completion of the send queue, a time of
    /// [`now_ms`](crate::kern::time::now_ms). Any context.
    pub(crate) fn owes_since(&self) -> Option<u64> {
        self.sq.lock().waiting_since()
    }

    /// Whether a request that names this region is not known to be finished.
    pub(super) fn is_posted(&self, region: &Arc<Mr>) -> bool {
        self.sq.lock().names(region)
    }

    /// Posts the local invalidation of a region; [`Mr::wait_invalidated`] waits for it.
    ///
    /// # Errors
    ///
    /// [`PostError`].
    pub(crate) fn post_invalidation(&self, region: &Arc<Mr>) -> Result<(), PostError> {
        let mut queue = self.sq.lock();
        queue.admit(1)?;
        let mut request = region.invalidation(Self::send_done);
        let key = wr::completion_key(&request);
        let mut chain = Chain::new();
        chain.add(&mut request);
        chain.signal_last();
        let (accepted, result) = self.post_sends(chain);
        if accepted > 0 {
            count(&self.pd.counters().invalidated, 1);
            queue.posted(key, 1, Owned::Invalidation(region.clone()));
        }
        result.map_err(PostError::Failed)
    }

    /// Posts the chain of an RDMA transfer, whose last request is signalled with the transfer's
    /// completion object.
    ///
    /// # Errors
    ///
    /// [`PostError`]; with [`PostError::Failed`] part of the chain may be posted.
    ///
    /// # Safety
    ///
    /// * `first` is a chain of valid requests whose memory stays until the transfer is done or the
    ///   queue pair drained.
    pub(super) unsafe fn post_transfer(
        &self,
        first: *mut bindings::ib_send_wr,
        transfer: &Arc<Transfer>,
    ) -> Result<(), PostError> {
        let mut chain = Chain::new();
        // SAFETY: A valid chain by contract.
        unsafe { chain.adopt(first) };
        let mut queue = self.sq.lock();
        queue.admit(chain.requests)?;
        let (accepted, result) = self.post_sends(chain);
        if accepted > 0 {
            count(&self.pd.counters().transfers, 1);
            queue.posted(transfer.key(), accepted, Owned::Transfer(transfer.clone()));
        }
        result.map_err(PostError::Failed)
    }

    /// Completion of anything on the send queue.
    ///
    /// # Safety
    ///
    /// * `cq` is a queue made by [`Qp::new`], `wc` valid during the call.
    pub(super) unsafe extern "C" fn send_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The core hands out a valid completion.
        let wc = unsafe { &*wc };
        // CAST: Only compared.
        let (status, key) = (wc.status, wr::completed(wc) as usize);
        fault::delay(Point::DelaySent);
        if fault::hits(Point::LoseSent) {
            return;
        }
        let act = |qp: &Self, owner: &Arc<C>| {
            if fault::hits(Point::BreakOff) {
                C::broken(owner);
            }
            count(&qp.pd.counters().send_completions, 1);
            if status == bindings::ib_wc_status_IB_WC_SUCCESS {
                qp.sq.lock().retire(key);
                C::sent(owner);
            } else {
                count(&qp.pd.counters().failed_completions, 1);
                let kind = qp.sq.lock().kind_of(key);
                C::send_failed(owner, kind, Status(status));
                qp.sq.lock().failed(key, status);
            }
        };
        // SAFETY: Called by the core for a queue of ours.
        unsafe { Self::with_owner(cq, act) };
    }
}
