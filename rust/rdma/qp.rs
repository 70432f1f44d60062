// SPDX-License-Identifier: GPL-2.0

//! Queue pairs with their completion queues and message buffers.
//!
//! A [`Qp`] owns everything the hardware may refer to: the buffers messages are sent from and
//! received into, and, through the send queue's bookkeeping, memory regions and transfers. Buffers
//! travel as tokens ([`SendSlot`], [`RecvSlot`]) which cannot be copied: who holds the token may
//! touch the buffer; posting consumes it and the completion brings it back.
//!
//! Two irq-safe locks order posting against [`close`](Qp::close): once a queue is marked closed under
//! its lock nothing is posted behind the drain, so after the drain no completion is outstanding.
//! Completion handlers run in softirq or a workqueue, as the consumer chose, and take the send lock.

use super::cm::{CmId, Handler};
use super::device::Pd;
use super::dma::{Buffers, Direction};
use super::mr::Mr;
use super::rw::Transfer;
use super::sq::{Entry, Owned, SendQueue};
use super::wr::{self, Chain};
use crate::bindings;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::{new_mutex, Arc, Mutex, SetOnce, UniqueArc};

/// Why a work request failed, a status of the verbs interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(super) u32);

impl Status {
    /// Whether the request was thrown out because the queue pair is in its error state.
    pub(crate) fn is_flush(self) -> bool {
        self.0 == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// The status in words.
    pub(crate) fn text(self) -> &'static CStr {
        // SAFETY: The function returns a static string for every value.
        unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(self.0)) }
    }
}

/// A message that arrived.
pub(crate) struct Received {
    /// The buffer it is in.
    pub(crate) slot: RecvSlot,
    /// Its bytes, as the device counted them; never more than were posted.
    pub(crate) len: usize,
    /// The remote key the peer invalidated with it.
    pub(crate) invalidated: Option<u32>,
}

/// Who hears of a queue pair's completions and events.
///
/// # Context
///
/// Softirq or a workqueue for completions, any for events: nothing may sleep.
pub(crate) trait Completions: Handler {
    /// A receive completed.
    fn received(this: &Arc<Self>, received: Received);
    /// A receive failed; its buffer is out of use from now on.
    fn receive_failed(this: &Arc<Self>, status: Status);
    /// Send buffers and queue room came back.
    fn sent(this: &Arc<Self>);
    /// A request of the send queue failed.
    fn send_failed(this: &Arc<Self>, status: Status);
    /// The queue pair broke.
    fn broken(this: &Arc<Self>);
    /// The first message arrived before the connection manager's event.
    fn communication_established(this: &Arc<Self>);
}

/// The right to a buffer to send from.
pub(crate) struct SendSlot {
    index: u16,
    pool: usize,
}

/// The right to a buffer to receive into.
pub(crate) struct RecvSlot {
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

/// How large to make a queue pair.
pub(crate) struct Sizes {
    /// Send work requests, without those for RDMA transfers and the drain.
    pub(crate) send_requests: u32,
    /// Receive work requests, without that for the drain.
    pub(crate) recv_requests: u32,
    /// Entries of the send completion queue.
    pub(crate) send_entries: u32,
    /// Entries of the receive completion queue.
    pub(crate) recv_entries: u32,
    /// RDMA transfers of the core at a time, 0 for none.
    pub(crate) transfers: u32,
    /// Pieces of one send request; messages need one, transfers use more.
    pub(crate) send_sges: u32,
    /// Buffers to send from.
    pub(crate) send_slots: u16,
    /// Bytes of each send buffer.
    pub(crate) send_size: usize,
    /// Memory regions whose registrations may be pending at a time.
    pub(crate) regions: usize,
    /// Where completions are handled: `enum ib_poll_context`.
    pub(crate) poll_context: u32,
}

/// A completion queue, freed with the call that stops its polling.
struct Cq(NonNull<bindings::ib_cq>);

impl Cq {
    fn new(pd: &Pd, context: *mut c_void, entries: u32, poll: u32) -> Result<Self> {
        let entries = c_int::try_from(entries)?;
        // SAFETY: The device is kept by the domain. `context` is only used by our handlers.
        let raw = kernel::error::from_err_ptr(unsafe {
            bindings::smbd_ib_alloc_cq_any(pd.port().raw(), context, entries, poll)
        })?;
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: Allocated by `new`; no queue pair uses it any more.
        unsafe { bindings::ib_free_cq(self.0.as_ptr()) };
    }
}

/// The raw queue pair, destroyed through the id it was made with.
struct RawQp<C: Handler> {
    raw: NonNull<bindings::ib_qp>,
    id: Arc<CmId<C>>,
}

impl<C: Handler> Drop for RawQp<C> {
    fn drop(&mut self) {
        // SAFETY: The id has the queue pair made by `Qp::new`, and nothing else destroys it.
        unsafe { bindings::rdma_destroy_qp(self.id.raw()) };
    }
}

/// What goes away when a queue pair is closed, in the order of the fields.
struct Parts<C: Handler> {
    _qp: RawQp<C>,
    _send_cq: Cq,
    _recv_cq: Cq,
    _owner: Arc<C>,
}

// SAFETY: Verbs objects may be used from any task.
unsafe impl<C: Handler> Send for Parts<C> {}

/// Buffers to receive into, with the requests that post them.
struct RecvPool {
    buffers: Buffers,
    /// Completion objects, one per buffer: the index tells which one completed.
    cqes: KVVec<bindings::ib_cqe>,
    requests: core::cell::UnsafeCell<KVVec<(bindings::ib_recv_wr, bindings::ib_sge)>>,
}

// SAFETY: `requests` is only touched under the queue pair's receive lock.
unsafe impl Send for RecvPool {}
// SAFETY: As above.
unsafe impl Sync for RecvPool {}

/// The state of a receive queue, under its lock.
struct RecvQueue {
    closed: bool,
}

/// A reliable connected queue pair.
///
/// # Invariants
///
/// * `raw` is valid while `parts` holds something, and `owner` then points to the owner there.
/// * Every request in the hardware queues refers to memory of this object, of the send queue's
///   entries, or of a transfer or region these hold.
#[pin_data(PinnedDrop)]
pub(crate) struct Qp<C: Completions> {
    raw: NonNull<bindings::ib_qp>,
    owner: *const C,
    #[pin]
    sq: IrqLock<SendQueue>,
    #[pin]
    rq: IrqLock<RecvQueue>,
    #[pin]
    unused: WaitQueue,
    send_buffers: Buffers,
    send_cqes: KVVec<bindings::ib_cqe>,
    registration_cqe: bindings::ib_cqe,
    first_recv: RecvPool,
    data_recv: SetOnce<KBox<RecvPool>>,
    pd: Arc<Pd>,
    #[pin]
    parts: Mutex<Option<Parts<C>>>,
}

// SAFETY: The raw pointers are used under the rules of the invariants from any task.
unsafe impl<C: Completions> Send for Qp<C> {}
// SAFETY: As above.
unsafe impl<C: Completions> Sync for Qp<C> {}

/// Bytes of the one buffer posted before the connection is up (rule E1).
const FIRST_RECV_SIZE: usize = 512;

impl<C: Completions> Qp<C> {
    /// Makes a queue pair on `id` with its completion queues and send buffers, and one receive
    /// buffer for the first message. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says.
    pub(crate) fn new(
        id: &Arc<CmId<C>>,
        pd: Arc<Pd>,
        sizes: &Sizes,
        owner: Arc<C>,
    ) -> Result<Arc<Self>> {
        let room = UniqueArc::<Self>::new_uninit(GFP_KERNEL)?;
        let context = room.as_ptr().cast_mut().cast::<c_void>();
        let owner_ptr = Arc::as_ptr(&owner);
        let send_cq = Cq::new(&pd, context, sizes.send_entries, sizes.poll_context)?;
        let recv_cq = Cq::new(&pd, context, sizes.recv_entries, sizes.poll_context)?;
        let (qp, requests) = Self::create(id, &pd, sizes, context, (&send_cq, &recv_cq))?;
        let raw = qp.raw;
        // The first thing dropped when anything below fails, as in `Parts`.
        let parts = Parts { _qp: qp, _send_cq: send_cq, _recv_cq: recv_cq, _owner: owner };
        let queue = SendQueue::new(sizes.send_slots, sizes.regions, requests.saturating_sub(1))?;
        let count = usize::from(sizes.send_slots);
        let send_buffers =
            Buffers::new(pd.clone(), count, sizes.send_size, Direction::ToDevice)?;
        let send_cqes = Self::cqes(count, Self::send_done)?;
        let first_recv = RecvPool::new::<C>(&pd, 1, FIRST_RECV_SIZE)?;
        // INVARIANT: `raw` and `owner` are those of `parts`.
        let qp = room.pin_init_with(pin_init!(Self {
            raw,
            owner: owner_ptr,
            sq <- new_irq_lock!(queue, c"Qp::sq"),
            rq <- new_irq_lock!(RecvQueue { closed: false }, c"Qp::rq"),
            unused <- new_wait_queue!(c"Qp::unused"),
            send_buffers,
            send_cqes,
            registration_cqe: bindings::ib_cqe { done: Some(Self::send_done) },
            first_recv,
            data_recv: SetOnce::new(),
            pd,
            parts <- new_mutex!(Some(parts), "Qp::parts"),
        }))?;
        Ok(qp.into())
    }

    /// Makes the raw queue pair; also tells how many send requests it has.
    fn create(
        id: &Arc<CmId<C>>,
        pd: &Pd,
        sizes: &Sizes,
        context: *mut c_void,
        (send_cq, recv_cq): (&Cq, &Cq),
    ) -> Result<(RawQp<C>, u32)> {
        let mut attr = bindings::ib_qp_init_attr {
            event_handler: Some(Self::qp_event),
            qp_context: context,
            send_cq: send_cq.0.as_ptr(),
            recv_cq: recv_cq.0.as_ptr(),
            cap: bindings::ib_qp_cap {
                max_send_wr: sizes.send_requests.saturating_add(1),
                max_recv_wr: sizes.recv_requests.saturating_add(1),
                max_send_sge: sizes.send_sges,
                max_recv_sge: 1,
                max_rdma_ctxs: sizes.transfers,
                ..Default::default()
            },
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..Default::default()
        };
        // SAFETY: The id and domain are valid and on the same device; the queues live as long as
        // the queue pair (order of the fields of `Parts`).
        to_result(unsafe { bindings::rdma_create_qp(id.raw(), pd.raw(), &mut attr) })?;
        // SAFETY: A successful call has set the pointer.
        let raw = NonNull::new(unsafe { (*id.raw()).qp }).ok_or(EIO)?;
        Ok((RawQp { raw, id: id.clone() }, attr.cap.max_send_wr))
    }

    fn cqes(
        count: usize,
        done: unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc),
    ) -> Result<KVVec<bindings::ib_cqe>> {
        let mut cqes = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            cqes.push(bindings::ib_cqe { done: Some(done) }, GFP_KERNEL)?;
        }
        Ok(cqes)
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Adds the receive buffers for data: `count` of at least `size` bytes. Once. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, `-EEXIST`.
    pub(crate) fn add_receive_buffers(&self, count: u16, size: usize) -> Result {
        let pool = RecvPool::new::<C>(&self.pd, count, size)?;
        if self.data_recv.populate(KBox::new(pool, GFP_KERNEL)?) {
            Ok(())
        } else {
            Err(EEXIST)
        }
    }

    /// The token of the buffer for the first message; [`None`] except the first time.
    ///
    /// Called once, by the owner, while setting up.
    pub(crate) fn first_receive(&self) -> RecvSlot {
        RecvSlot { index: 0, pool: self.first_recv.id() }
    }

    /// The tokens of the data buffers. Called once, by the owner, after adding them.
    pub(crate) fn data_receives(&self) -> impl Iterator<Item = RecvSlot> + '_ {
        self.data_recv.as_ref().into_iter().flat_map(|pool| {
            // CAST: The count was a `u16`.
            (0..pool.buffers.count() as u16).map(|index| RecvSlot { index, pool: pool.id() })
        })
    }

    fn recv_pool(&self, id: usize) -> Option<&RecvPool> {
        let data = self.data_recv.as_ref().map(|pool| &**pool);
        [Some(&self.first_recv), data].into_iter().flatten().find(|pool| pool.id() == id)
    }

    /// Posts receives, in one chain. Any context.
    ///
    /// Returns how many the hardware accepted. The tokens of the others are given up, and the
    /// error is to end the connection.
    pub(crate) fn post_receives(
        &self,
        slots: impl Iterator<Item = RecvSlot>,
    ) -> (u32, Result) {
        let queue = self.rq.lock();
        if queue.closed {
            return (0, Err(ENOTCONN));
        }
        let mut first: *mut bindings::ib_recv_wr = core::ptr::null_mut();
        let mut last = first;
        let mut count = 0u32;
        for slot in slots {
            let Some(request) =
                self.recv_pool(slot.pool).and_then(|pool| pool.request(&self.pd, slot.index))
            else {
                continue;
            };
            if last.is_null() {
                first = request;
            } else {
                // SAFETY: `last` is a request of a pool of ours, under the receive lock.
                unsafe { (*last).next = request };
            }
            last = request;
            count = count.saturating_add(1);
        }
        if first.is_null() {
            return (0, Ok(()));
        }
        let mut bad: *const bindings::ib_recv_wr = core::ptr::null();
        // SAFETY: The chain and what it refers to belong to this object until the completions. The
        // queue pair is valid: it is destroyed only after `closed` was set under the lock we hold.
        let result =
            to_result(unsafe { bindings::smbd_ib_post_recv(self.raw.as_ptr(), first, &mut bad) });
        if result.is_err() {
            count = 0;
            let mut at = first.cast_const();
            while !at.is_null() && at != bad {
                count = count.saturating_add(1);
                // SAFETY: The chain built above.
                at = unsafe { (*at).next };
            }
        }
        (count, result)
    }

    /// The first `len` bytes of a message that arrived; empty for a token of another queue pair.
    pub(crate) fn received_bytes<'a>(&'a self, slot: &'a RecvSlot, len: usize) -> &'a [u8] {
        let Some(pool) = self.recv_pool(slot.pool) else { return &[] };
        let Some(start) = pool.buffers.pointer(slot.index.into()) else { return &[] };
        // SAFETY: The buffer has `size` bytes, was zeroed when made, and while the token lives the
        // device does not write to it.
        unsafe { core::slice::from_raw_parts(start, len.min(pool.buffers.size())) }
    }

    /// Takes a free send buffer. Any context.
    pub(crate) fn take_send_slot(&self) -> Option<SendSlot> {
        let index = self.sq.lock().free.pop()?;
        Some(SendSlot { index, pool: self.pool_id() })
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
        let Some(start) = self.send_buffers.pointer(slot.index.into()) else { return &mut [] };
        // SAFETY: The buffer has `size` initialised bytes, and the token, borrowed mutably, is the
        // only right to it.
        unsafe { core::slice::from_raw_parts_mut(start, self.send_buffers.size()) }
    }

    /// Messages posted whose completion is not known yet.
    pub(crate) fn sends_inflight(&self) -> usize {
        self.sq.lock().messages_inflight()
    }

    /// Posts `messages` in order, behind the pending registrations, in one chain. Any context.
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
        if queue.closed {
            return Err(PostError::Failed(ENOTCONN));
        }
        let requests = messages.len() + queue.pending.len();
        let Ok(requests) = u32::try_from(requests) else { return Err(PostError::Full) };
        if requests == 0 {
            return Ok(());
        }
        if requests > queue.room {
            return Err(PostError::Full);
        }
        let mut chain = Chain::new();
        self.chain_registrations(queue, &mut chain);
        for message in messages.iter() {
            self.chain_message(queue, &mut chain, message);
        }
        if let Some(key) = invalidate {
            if let Some(first) = messages.first() {
                if let Some(request) = queue.messages.get_mut(usize::from(first.slot.index)) {
                    request.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
                    wr::set_invalidated_key(request, key);
                }
            }
        }
        if queue.signal(requests, report) {
            chain.signal_last();
        }
        let (mut accepted, result) = chain.post(self.raw);
        while let Some(region) = queue.pending.pop() {
            let key = self.registration_key();
            Self::account(queue, &mut accepted, key, Owned::Registration(region));
        }
        for message in messages.drain_all() {
            let key = self.send_key(message.slot.index);
            Self::account(queue, &mut accepted, key, Owned::Message(message.slot.index));
        }
        result.map_err(PostError::Failed)
    }

    /// Books one request of a chain of which `accepted` more were taken by the hardware.
    fn account(queue: &mut SendQueue, accepted: &mut u32, key: usize, owned: Owned) {
        if *accepted > 0 {
            *accepted -= 1;
            queue.posted(Entry { key, requests: 1, owned });
        } else if let Owned::Message(slot) = owned {
            queue.put_back(slot);
        }
    }

    fn registration_key(&self) -> usize {
        // CAST: Only compared.
        &raw const self.registration_cqe as usize
    }

    fn send_key(&self, index: u16) -> usize {
        // CAST: Only compared.
        self.send_cqes.get(usize::from(index)).map_or(0, |cqe| core::ptr::from_ref(cqe) as usize)
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
            return Err(ENOTCONN);
        }
        queue.pending.push(region.clone()).map_err(|_| ENOMEM)
    }

    /// Takes back a registration that is still pending; false if it is posted.
    pub(crate) fn unqueue_registration(&self, region: &Arc<Mr>) -> bool {
        let taken = self.sq.lock().pending.remove(|other| Arc::ptr_eq(other, region));
        taken.is_some()
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
        if queue.closed {
            return Err(PostError::Failed(ENOTCONN));
        }
        if queue.room == 0 {
            return Err(PostError::Full);
        }
        let mut request = region.invalidation(Self::send_done);
        let key = wr::completion_key(&request);
        let mut chain = Chain::new();
        chain.add(&mut request);
        chain.signal_last();
        let (accepted, result) = chain.post(self.raw);
        if accepted > 0 {
            queue.signalled();
            queue.posted(Entry { key, requests: 1, owned: Owned::Invalidation(region.clone()) });
        }
        result.map_err(PostError::Failed)
    }

    /// Posts the chain of an RDMA transfer, whose last request is signalled with the transfer's
    /// completion object.
    ///
    /// Returns how many of the chain's requests the hardware has taken.
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
        let mut queue = self.sq.lock();
        if queue.closed {
            return Err(PostError::Failed(ENOTCONN));
        }
        let mut chain = Chain::new();
        // SAFETY: A valid chain by contract.
        unsafe { chain.adopt(first) };
        if chain.requests > queue.room {
            return Err(PostError::Full);
        }
        let (accepted, result) = chain.post(self.raw);
        if accepted > 0 {
            queue.signalled();
            queue.posted(Entry {
                key: transfer.key(),
                requests: accepted,
                owned: Owned::Transfer(transfer.clone()),
            });
        }
        result.map_err(PostError::Failed)
    }

    /// Lends out the raw queue pair for calls that sleep; [`None`] once it is closed.
    pub(super) fn use_raw(&self) -> Option<InUse<'_, C>> {
        let mut queue = self.sq.lock();
        if queue.closed {
            return None;
        }
        queue.users = queue.users.saturating_add(1);
        Some(InUse(self))
    }

    /// Stops posting, drains both queues, destroys the queue pair and its completion queues, and
    /// lets go of the owner. Afterwards no callback comes and no request is outstanding. May be
    /// called again. Process context.
    pub(crate) fn close(&self) {
        self.sq.lock().closed = true;
        self.rq.lock().closed = true;
        let Some(parts) = self.parts.lock().take() else { return };
        // SAFETY: The queue pair is valid as `parts` still exists. Nothing is posted any more
        // behind the drain's own requests, for which the queues have room.
        unsafe { bindings::ib_drain_qp(self.raw.as_ptr()) };
        // Who uses the raw queue pair waits for completions at most, and these have come.
        let _ = self.unused.wait(Signals::Ignore, None, || {
            (self.sq.lock().users == 0).then_some(())
        });
        drop(parts);
        let leftovers = self.sq.lock().take_all();
        drop(leftovers);
    }

    /// Waits until every request posted so far is complete, by breaking the connection. For the
    /// rare caller whose chain was accepted in part and whose memory must not be used afterwards.
    pub(super) fn flush_sends(&self) {
        if let Some(raw) = self.use_raw() {
            // SAFETY: In use, so not destroyed.
            unsafe { bindings::ib_drain_sq(raw.get()) };
        }
    }

    /// Runs `act` with the queue pair a completion belongs to.
    ///
    /// # Safety
    ///
    /// * `cq` is a completion queue made by [`new`](Self::new), calling its handler.
    unsafe fn with_owner(cq: *mut bindings::ib_cq, act: impl FnOnce(&Self, &Arc<C>)) {
        // SAFETY: The context is the queue pair, which stays until its completion queues are freed.
        let qp = unsafe { &*(*cq).cq_context.cast::<Self>() };
        // SAFETY: `parts` holds the owner until the completion queues are freed; the reference is
        // not counted, so it is not dropped either.
        let owner = ManuallyDrop::new(unsafe { Arc::from_raw(qp.owner) });
        act(qp, &owner);
    }

    /// Completion of anything on the send queue.
    pub(super) unsafe extern "C" fn send_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The core hands out a valid completion.
        let wc = unsafe { &*wc };
        // CAST: Only compared.
        let (status, key) = (wc.status, wr::completed(wc) as usize);
        let act = |qp: &Self, owner: &Arc<C>| {
            if status == bindings::ib_wc_status_IB_WC_SUCCESS {
                qp.sq.lock().retire(key);
                C::sent(owner);
            } else {
                C::send_failed(owner, Status(status));
                qp.sq.lock().failed(key, status);
            }
        };
        // SAFETY: Called by the core for a queue of ours.
        unsafe { Self::with_owner(cq, act) };
    }

    /// Completion of a receive.
    unsafe extern "C" fn recv_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The core hands out a valid completion.
        let wc = unsafe { &*wc };
        let act = |qp: &Self, owner: &Arc<C>| {
            let ok = wc.status == bindings::ib_wc_status_IB_WC_SUCCESS
                && wc.opcode == bindings::ib_wc_opcode_IB_WC_RECV;
            match qp.completed_slot(wr::completed(wc)) {
                Some((slot, pool)) if ok => {
                    let len = usize::try_from(wc.byte_len).unwrap_or(0).min(pool.buffers.size());
                    pool.buffers.sync_for_cpu(slot.index.into(), len);
                    let invalidated = wr::invalidated_key(wc);
                    C::received(owner, Received { slot, len, invalidated });
                }
                _ => C::receive_failed(owner, Status(wc.status)),
            }
        };
        // SAFETY: Called by the core for a queue of ours.
        unsafe { Self::with_owner(cq, act) };
    }

    /// The token of the receive whose completion object this is, and its pool.
    fn completed_slot(&self, cqe: *const bindings::ib_cqe) -> Option<(RecvSlot, &RecvPool)> {
        let data = self.data_recv.as_ref().map(|pool| &**pool);
        [data, Some(&self.first_recv)].into_iter().flatten().find_map(|pool| {
            let index = pool.index_of(cqe)?;
            Some((RecvSlot { index, pool: pool.id() }, pool))
        })
    }

    /// Asynchronous events of the queue pair.
    unsafe extern "C" fn qp_event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: The context is the queue pair, which outlives its raw one.
        let qp = unsafe { &*context.cast::<Self>() };
        // SAFETY: As in `with_owner`; events stop when the raw queue pair is destroyed.
        let owner = ManuallyDrop::new(unsafe { Arc::from_raw(qp.owner) });
        // SAFETY: The driver hands out a valid event.
        match unsafe { (*event).event } {
            bindings::ib_event_type_IB_EVENT_CQ_ERR | bindings::ib_event_type_IB_EVENT_QP_FATAL => {
                C::broken(&owner)
            }
            bindings::ib_event_type_IB_EVENT_COMM_EST => C::communication_established(&owner),
            _ => {}
        }
    }
}

#[pinned_drop]
impl<C: Completions> PinnedDrop for Qp<C> {
    fn drop(self: Pin<&mut Self>) {
        self.as_ref().get_ref().close();
    }
}

/// The raw queue pair, which is not destroyed while this lives.
pub(super) struct InUse<'a, C: Completions>(&'a Qp<C>);

impl<C: Completions> InUse<'_, C> {
    pub(super) fn get(&self) -> *mut bindings::ib_qp {
        self.0.raw.as_ptr()
    }
}

impl<C: Completions> Drop for InUse<'_, C> {
    fn drop(&mut self) {
        let mut queue = self.0.sq.lock();
        queue.users = queue.users.saturating_sub(1);
        drop(queue);
        self.0.unused.wake_all();
    }
}

impl RecvPool {
    fn new<C: Completions>(pd: &Arc<Pd>, count: u16, size: usize) -> Result<Self> {
        let count = usize::from(count);
        let mut requests = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            requests.push(Default::default(), GFP_KERNEL)?;
        }
        Ok(Self {
            buffers: Buffers::new(pd.clone(), count, size, Direction::FromDevice)?,
            cqes: Qp::<C>::cqes(count, Qp::<C>::recv_done)?,
            requests: core::cell::UnsafeCell::new(requests),
        })
    }

    /// Tells pools apart; only compared.
    fn id(&self) -> usize {
        // CAST: Only compared. The completion objects stay where they are, also if `self` moves.
        self.cqes.as_ptr() as usize
    }

    fn index_of(&self, cqe: *const bindings::ib_cqe) -> Option<u16> {
        let offset = (cqe as usize).checked_sub(self.cqes.as_ptr() as usize)?;
        let index = offset / core::mem::size_of::<bindings::ib_cqe>();
        (index < self.cqes.len()).then(|| u16::try_from(index).ok()).flatten()
    }

    /// Fills in the request of a buffer, without a successor. Under the receive lock.
    fn request(&self, pd: &Pd, index: u16) -> Option<*mut bindings::ib_recv_wr> {
        let index = usize::from(index);
        let cqe = self.cqes.get(index)?;
        // SAFETY: The receive lock is held, and the references end with this function.
        let (request, piece) = unsafe { (*self.requests.get()).get_mut(index)? };
        self.buffers.sync_for_device(index, self.buffers.size());
        piece.addr = self.buffers.address(index);
        piece.length = u32::try_from(self.buffers.size()).ok()?;
        piece.lkey = pd.local_key();
        *request = bindings::ib_recv_wr { sg_list: piece, num_sge: 1, ..Default::default() };
        wr::set_recv_completion(request, cqe);
        Some(request)
    }
}
