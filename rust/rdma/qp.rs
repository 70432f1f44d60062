// SPDX-License-Identifier: GPL-2.0

//! Queue pairs with their completion queues and message buffers.
//!
//! A [`Qp`] owns everything the hardware may refer to: the buffers messages are sent from and
//! received into, and, through the send queue's bookkeeping, memory regions and transfers. The two
//! halves of its work are in `post` and `receive`.
//!
//! Two irq-safe locks order posting against [`close`](Qp::close): once a queue is marked closed under
//! its lock nothing is posted behind the drain, so after the drain no completion is outstanding.
//! Completion handlers take the send lock. Those of the send queue run in softirq, those of receives there or in a
//! workqueue, as the consumer chose.

use super::cm::{CmId, Handler};
use super::cq::Cqs;
use super::device::Pd;
use super::dma::{Buffers, Direction};
use super::fault::{self, Point};
use super::receive::{Received, RecvPool, RecvQueue, FIRST_RECV_SIZE};
use super::sq::{Kind, SendQueue};
use super::write::WritePool;
use crate::bindings;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::loan::{Borrowed, Loan};
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
    pub(crate) fn text(self) -> &'static str {
        // SAFETY: The function returns a static string for every value.
        let text = unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(self.0)) };
        text.to_str().unwrap_or_default()
    }
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
    fn send_failed(this: &Arc<Self>, kind: Kind, status: Status);
    /// The queue pair broke.
    fn broken(this: &Arc<Self>);
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
    /// Where receives are handled: `enum ib_poll_context`.
    pub(crate) poll_context: u32,
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
    _cqs: Cqs,
    _owner: Arc<C>,
}

// SAFETY: Verbs objects may be used from any task.
unsafe impl<C: Handler> Send for Parts<C> {}

/// How far the end of a queue pair has come.
struct Life<C: Handler> {
    parts: Option<Parts<C>>,
    drained: bool,
}

/// A reliable connected queue pair.
///
/// # Invariants
///
/// * `raw` is valid while `life` has parts, and `owner` then points to the owner there.
/// * Every request in the hardware queues refers to memory of this object, of the send queue's
///   entries, or of a transfer or region these hold.
#[pin_data(PinnedDrop)]
pub(crate) struct Qp<C: Completions> {
    pub(super) raw: NonNull<bindings::ib_qp>,
    owner: *const C,
    #[pin]
    pub(super) sq: IrqLock<SendQueue>,
    #[pin]
    pub(super) rq: IrqLock<RecvQueue>,
    /// Lends out `raw`.
    #[pin]
    loan: Loan,
    pub(super) send_buffers: Buffers,
    pub(super) send_cqes: KVVec<bindings::ib_cqe>,
    pub(super) registration_cqe: bindings::ib_cqe,
    pub(super) first_recv: RecvPool,
    pub(super) data_recv: SetOnce<KBox<RecvPool>>,
    pub(super) write_pool: SetOnce<KBox<WritePool>>,
    pub(super) pd: Arc<Pd>,
    /// The id the queue pair was made with; valid as `raw` is.
    id: *mut bindings::rdma_cm_id,
    #[pin]
    life: Mutex<Life<C>>,
}

// SAFETY: The raw pointers are used under the rules of the invariants from any task.
unsafe impl<C: Completions> Send for Qp<C> {}
// SAFETY: As above.
unsafe impl<C: Completions> Sync for Qp<C> {}

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
        let entries = (sizes.send_entries, sizes.recv_entries);
        let cqs = Cqs::new(&pd, context, entries, sizes.poll_context)?;
        let (qp, requests) = Self::create(id, &pd, sizes, &cqs)?;
        let raw = qp.raw;
        let parts = Parts {
            _qp: qp,
            _cqs: cqs,
            _owner: owner,
        };
        let queue = SendQueue::new(sizes.send_slots, sizes.regions, requests.saturating_sub(1))?;
        let count = usize::from(sizes.send_slots);
        let send_buffers = Buffers::new(pd.clone(), count, sizes.send_size, Direction::ToDevice)?;
        let send_cqes = Self::cqes(count, Self::send_done)?;
        let first_recv = RecvPool::new::<C>(&pd, 1, FIRST_RECV_SIZE)?;
        // INVARIANT: `raw` and `owner` are those of the parts.
        let qp = room.pin_init_with(pin_init!(Self {
            raw,
            owner: owner_ptr,
            sq <- new_irq_lock!(queue, c"Qp::sq"),
            rq <- new_irq_lock!(RecvQueue { closed: false }, c"Qp::rq"),
            loan <- Loan::new(),
            send_buffers,
            send_cqes,
            registration_cqe: bindings::ib_cqe { done: Some(Self::send_done) },
            first_recv,
            data_recv: SetOnce::new(),
            write_pool: SetOnce::new(),
            pd,
            id: id.raw(),
            life <- new_mutex!(Life { parts: Some(parts), drained: false }, "Qp::life"),
        }))?;
        // SAFETY: The queue pair is valid, and the object is complete and stays in place.
        unsafe { (*raw.as_ptr()).qp_context = context };
        Ok(qp.into())
    }

    /// Makes the raw queue pair; also tells how many send requests it has.
    fn create(id: &Arc<CmId<C>>, pd: &Pd, sizes: &Sizes, cqs: &Cqs) -> Result<(RawQp<C>, u32)> {
        let (send_cq, recv_cq) = cqs.raw();
        let mut attr = bindings::ib_qp_init_attr {
            event_handler: Some(Self::qp_event),
            // Events find nobody until the object is complete.
            qp_context: core::ptr::null_mut(),
            send_cq,
            recv_cq,
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
        fault::point(Point::CreateQp)?;
        // SAFETY: The id and domain are valid and on the same device; the queues live as long as
        // the queue pair (order of the fields of `Parts`).
        to_result(unsafe { bindings::rdma_create_qp(id.raw(), pd.raw(), &mut attr) })?;
        // SAFETY: A successful call has set the pointer.
        let raw = NonNull::new(unsafe { (*id.raw()).qp }).ok_or(EIO)?;
        Ok((
            RawQp {
                raw,
                id: id.clone(),
            },
            attr.cap.max_send_wr,
        ))
    }

    pub(super) fn cqes(
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

    /// Lends out the raw queue pair for calls that sleep; [`None`] once it is closed.
    pub(super) fn use_raw(&self) -> Option<InUse<'_, C>> {
        Some(InUse {
            qp: self,
            _borrowed: self.loan.borrow()?,
        })
    }

    /// Runs `act` while the queue pair cannot be destroyed; [`None`] once it is closed. `act` may sleep, but not for long:
    /// closing waits for it.
    pub(crate) fn while_open<R>(&self, act: impl FnOnce() -> Option<R>) -> Option<R> {
        let _in_use = self.use_raw()?;
        act()
    }

    /// Moves the queue pair to its error state, which flushes both queues. For links whose orderly
    /// disconnect does not. Process context.
    pub(crate) fn break_off(&self) {
        let life = self.life.lock();
        if life.parts.is_none() {
            return;
        }
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..Default::default()
        };
        // CAST: A flag of the C interface. A failure means that the state is reached already.
        // SAFETY: The queue pair is valid while there are parts, which the lock keeps.
        unsafe {
            bindings::ib_modify_qp(
                self.raw.as_ptr(),
                &mut attr,
                bindings::ib_qp_attr_mask_IB_QP_STATE as c_int,
            )
        };
    }

    /// Stops posting for good and waits until every request posted so far is complete. Breaks the
    /// connection. May be called again, also by several at once. Process context.
    pub(crate) fn drain(&self) {
        self.loan.call_in();
        self.sq.lock().closed = true;
        self.rq.lock().closed = true;
        let mut life = self.life.lock();
        if life.parts.is_some() && !life.drained {
            // SAFETY: The queue pair is valid as `parts` exists. Nothing is posted any more behind
            // the drain's own requests, for which both queues keep a place.
            unsafe { bindings::ib_drain_qp(self.raw.as_ptr()) };
            life.drained = true;
        }
    }

    /// Drains, destroys the queue pair and its completion queues, and lets go of the owner.
    /// Afterwards no callback comes and no request is outstanding. May be called again. Process
    /// context.
    pub(crate) fn close(&self) {
        self.drain();
        // Who uses the raw queue pair waits for completions at most, and these have come.
        self.loan.wait();
        let parts = self.life.lock().parts.take();
        drop(parts);
        let leftovers = self.sq.lock().take_all();
        drop(leftovers);
    }

    /// Runs `act` with the queue pair a completion belongs to.
    ///
    /// # Safety
    ///
    /// * `cq` is a completion queue made by [`new`](Self::new), calling its handler.
    pub(super) unsafe fn with_owner(cq: *mut bindings::ib_cq, act: impl FnOnce(&Self, &Arc<C>)) {
        // SAFETY: The context is the queue pair, which stays until its completion queues are freed.
        let qp = unsafe { &*(*cq).cq_context.cast::<Self>() };
        // SAFETY: `parts` holds the owner until the completion queues are freed; the reference is
        // not counted, so it is not dropped either.
        let owner = ManuallyDrop::new(unsafe { Arc::from_raw(qp.owner) });
        act(qp, &owner);
    }

    /// Asynchronous events of the queue pair.
    ///
    /// # Safety
    ///
    /// * `context` is null or an initialised object of this type, `event` valid during the call.
    unsafe extern "C" fn qp_event(event: *mut bindings::ib_event, context: *mut c_void) {
        // SAFETY: The context is null or the complete queue pair, which outlives its raw one.
        let Some(qp) = (unsafe { context.cast::<Self>().as_ref() }) else {
            return;
        };
        // SAFETY: As in `with_owner`; events stop when the raw queue pair is destroyed.
        let owner = ManuallyDrop::new(unsafe { Arc::from_raw(qp.owner) });
        // SAFETY: The driver hands out a valid event.
        match unsafe { (*event).event } {
            bindings::ib_event_type_IB_EVENT_CQ_ERR | bindings::ib_event_type_IB_EVENT_QP_FATAL => {
                C::broken(&owner)
            }
            // Data arrived before the connection manager's own event: tell it (R17).
            // SAFETY: The id outlives the raw queue pair.
            bindings::ib_event_type_IB_EVENT_COMM_EST => unsafe {
                bindings::rdma_notify(qp.id, bindings::ib_event_type_IB_EVENT_COMM_EST);
            },
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
pub(super) struct InUse<'a, C: Completions> {
    qp: &'a Qp<C>,
    _borrowed: Borrowed<'a>,
}

impl<C: Completions> InUse<'_, C> {
    pub(super) fn get(&self) -> *mut bindings::ib_qp {
        self.qp.raw.as_ptr()
    }
}
