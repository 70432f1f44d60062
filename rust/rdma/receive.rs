// SPDX-License-Identifier: GPL-2.0

//! The receive half of a queue pair: buffers, posting them in chains, and their completions.
//!
//! There are two pools: one buffer for the first message, made with the queue pair, and the data
//! buffers, whose number and size the negotiation decides. A [`RecvSlot`] is the right to one of
//! them; it cannot be copied, posting consumes it and the completion brings it back.

use super::device::Pd;
use super::dma::{Buffers, Direction};
use super::fault::{self, hits, Point};
use super::qp::{Completions, Qp, Status};
use super::wr;
use crate::bindings;
use crate::kern::counters;
use crate::kern::errno::ENOTCONN;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A message that arrived.
pub(crate) struct Received {
    /// The buffer it is in.
    pub(crate) slot: RecvSlot,
    /// Its bytes, as the device counted them; never more than were posted.
    pub(crate) len: usize,
    /// The remote key the peer invalidated with it.
    pub(crate) invalidated: Option<u32>,
}

/// The right to a buffer to receive into.
pub(crate) struct RecvSlot {
    index: u16,
    pool: usize,
}

/// Buffers to receive into, with the requests that post them.
pub(super) struct RecvPool {
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
pub(super) struct RecvQueue {
    pub(super) closed: bool,
}

/// Bytes of the one buffer posted before the connection is up (rule E1).
pub(super) const FIRST_RECV_SIZE: usize = 512;

impl<C: Completions> Qp<C> {
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

    /// The token of the buffer for the first message. Called once, by the owner, while setting up.
    pub(crate) fn first_receive(&self) -> RecvSlot {
        RecvSlot {
            index: 0,
            pool: self.first_recv.id(),
        }
    }

    /// The tokens of the data buffers. Called once, by the owner, after adding them.
    pub(crate) fn data_receives(&self) -> impl Iterator<Item = RecvSlot> + '_ {
        self.data_recv.as_ref().into_iter().flat_map(|pool| {
            // CAST: The count was a `u16`.
            (0..pool.buffers.count() as u16).map(|index| RecvSlot {
                index,
                pool: pool.id(),
            })
        })
    }

    fn recv_pool(&self, id: usize) -> Option<&RecvPool> {
        let data = self.data_recv.as_ref().map(|pool| &**pool);
        [Some(&self.first_recv), data]
            .into_iter()
            .flatten()
            .find(|pool| pool.id() == id)
    }

    /// Posts receives, in one chain. Any context.
    ///
    /// Returns how many the hardware accepted. The tokens of the others are given up, and the
    /// error is to end the connection.
    pub(crate) fn post_receives(&self, slots: impl Iterator<Item = RecvSlot>) -> (u32, Result) {
        let queue = self.rq.lock();
        if queue.closed {
            return (0, Err(ENOTCONN.into()));
        }
        let mut first: *mut bindings::ib_recv_wr = core::ptr::null_mut();
        let mut last = first;
        let mut count = 0u32;
        for slot in slots {
            let Some(request) = self
                .recv_pool(slot.pool)
                .and_then(|pool| pool.request(&self.pd, slot.index))
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
        let (bad, result) = self.post_chain(first, last);
        if result.is_err() {
            count = 0;
            let mut at = first.cast_const();
            while !at.is_null() && at != bad {
                count = count.saturating_add(1);
                // SAFETY: The chain built above.
                at = unsafe { (*at).next };
            }
        }
        let counters = self.pd.counters();
        counters::count(&counters.receive_posts, 1);
        counters::count(&counters.receive_requests, count.into());
        (count, result)
    }

    /// Posts the requests from `first` to `last`, under the receive lock; on an error the first that was
    /// not taken.
    fn post_chain(
        &self,
        first: *mut bindings::ib_recv_wr,
        last: *mut bindings::ib_recv_wr,
    ) -> (*const bindings::ib_recv_wr, Result) {
        if hits(Point::PostReceive) {
            return (first, Err(ENOMEM));
        }
        let cut = first != last && hits(Point::PostReceivePart);
        let mut before = first;
        let mut bad: *const bindings::ib_recv_wr = core::ptr::null();
        // SAFETY: The chain and what it refers to belong to this object until the completions. The
        // queue pair is valid: it is destroyed only after `closed` was set under the lock we hold.
        let result = unsafe {
            if cut {
                while (*before).next != last {
                    before = (*before).next;
                }
                (*before).next = core::ptr::null_mut();
            }
            let result = bindings::smbd_ib_post_recv(self.raw.as_ptr(), first, &mut bad);
            if cut {
                // Whole again for the caller, who counts along it.
                (*before).next = last;
            }
            to_result(result)
        };
        match result {
            Ok(()) if cut => (last, Err(ENOMEM)),
            result => (bad, result),
        }
    }

    /// The first `len` bytes of a message that arrived; empty for a token of another queue pair.
    pub(crate) fn received_bytes<'a>(&'a self, slot: &'a RecvSlot, len: usize) -> &'a [u8] {
        let Some(pool) = self.recv_pool(slot.pool) else {
            return &[];
        };
        let Some(start) = pool.buffers.pointer(slot.index.into()) else {
            return &[];
        };
        // SAFETY: The buffer has `size` bytes, was zeroed when made, and while the token lives the
        // device does not write to it.
        unsafe { core::slice::from_raw_parts(start, len.min(pool.buffers.size())) }
    }

    /// Completion of a receive.
    ///
    /// # Safety
    ///
    /// * `cq` is a queue made by [`Qp::new`], `wc` valid during the call.
    pub(super) unsafe extern "C" fn recv_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The core hands out a valid completion.
        let wc = unsafe { &*wc };
        fault::delay(Point::DelayReceived);
        let act = |qp: &Self, owner: &Arc<C>| {
            let ok = wc.status == bindings::ib_wc_status_IB_WC_SUCCESS
                && wc.opcode == bindings::ib_wc_opcode_IB_WC_RECV;
            counters::count(&qp.pd.counters().receive_completions, 1);
            match qp.completed_slot(wr::completed(wc)) {
                Some((slot, pool)) if ok => {
                    let len = usize::try_from(wc.byte_len)
                        .unwrap_or(0)
                        .min(pool.buffers.size());
                    pool.buffers.sync_for_cpu(slot.index.into(), len);
                    let invalidated = wr::invalidated_key(wc);
                    C::received(
                        owner,
                        Received {
                            slot,
                            len,
                            invalidated,
                        },
                    );
                }
                _ => {
                    counters::count(&qp.pd.counters().failed_completions, 1);
                    C::receive_failed(owner, Status(wc.status));
                }
            }
        };
        // SAFETY: Called by the core for a queue of ours.
        unsafe { Self::with_owner(cq, act) };
    }

    /// The token of the receive whose completion object this is, and its pool.
    fn completed_slot(&self, cqe: *const bindings::ib_cqe) -> Option<(RecvSlot, &RecvPool)> {
        let data = self.data_recv.as_ref().map(|pool| &**pool);
        [data, Some(&self.first_recv)]
            .into_iter()
            .flatten()
            .find_map(|pool| {
                let index = pool.index_of(cqe)?;
                Some((
                    RecvSlot {
                        index,
                        pool: pool.id(),
                    },
                    pool,
                ))
            })
    }
}

impl RecvPool {
    pub(super) fn new<C: Completions>(pd: &Arc<Pd>, count: u16, size: usize) -> Result<Self> {
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
        (index < self.cqes.len())
            .then(|| u16::try_from(index).ok())
            .flatten()
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
        *request = bindings::ib_recv_wr {
            sg_list: piece,
            num_sge: 1,
            ..Default::default()
        };
        wr::set_recv_completion(request, cqe);
        Some(request)
    }
}
