// SPDX-License-Identifier: GPL-2.0

//! The completion queues of a queue pair.

use super::device::Pd;
use super::fault::{self, Point};
use crate::bindings;
use core::ptr::NonNull;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// A completion queue, freed with the call that stops its polling.
///
/// # Invariants
///
/// The queue is valid, and one that is polled in softirq exactly if `softirq` is set.
struct Cq {
    raw: NonNull<bindings::ib_cq>,
    softirq: bool,
}

impl Cq {
    fn new(pd: &Pd, context: *mut c_void, entries: u32, vector: c_int, poll: u32) -> Result<Self> {
        fault::point(Point::AllocCq)?;
        let (device, entries) = (pd.port().raw(), c_int::try_from(entries)?);
        // SAFETY: The device is kept by the domain. `context` is only used by our handlers.
        let raw = kernel::error::from_err_ptr(unsafe {
            bindings::smbd_ib_alloc_cq(device, context, entries, vector, poll)
        })?;
        // INVARIANT: Just allocated; freed only by the drop below.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            softirq: poll == bindings::ib_poll_context_IB_POLL_SOFTIRQ,
        })
    }

    /// Its part in the core's polling in softirq.
    fn poll(&self) -> Option<*mut bindings::irq_poll> {
        // SAFETY: The queue is valid by the invariant.
        let part = unsafe { &raw mut (*self.raw.as_ptr()).__bindgen_anon_1.iop };
        // A queue of this kind has this part in the union, whose members are marks of their place.
        self.softirq.then(|| part.cast())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the invariant; no queue pair uses it any more.
        unsafe { bindings::ib_free_cq(self.raw.as_ptr()) };
    }
}

/// The queues for sends and for receives, of which no queue pair is left when they are dropped. Process context.
pub(super) struct Cqs {
    send: Cq,
    recv: Cq,
}

impl Cqs {
    /// `entries` for sends and receives; sends are polled in softirq, receives in `poll`, an `enum
    /// ib_poll_context`. The handlers find `context` in the queue. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says.
    pub(super) fn new(
        pd: &Pd,
        context: *mut c_void,
        entries: (u32, u32),
        poll: u32,
    ) -> Result<Self> {
        // What completes there gives buffers back and wakes who waits: too little for a thread of its own.
        let softirq = bindings::ib_poll_context_IB_POLL_SOFTIRQ;
        let vector = next_vector(pd)?;
        Ok(Self {
            send: Cq::new(pd, context, entries.0, vector, softirq)?,
            recv: Cq::new(pd, context, entries.1, vector, poll)?,
        })
    }

    /// The raw queues, for sends and for receives.
    pub(super) fn raw(&self) -> (*mut bindings::ib_cq, *mut bindings::ib_cq) {
        (self.send.raw.as_ptr(), self.recv.raw.as_ptr())
    }
}

impl Drop for Cqs {
    /// The core frees a queue when its poll is marked complete, but the poll asks for the next event, of the queue
    /// and its device, behind that mark. A softirq is over when a grace period is; not many queue pairs are closed,
    /// and who closes one waits.
    fn drop(&mut self) {
        let polls = [self.send.poll(), self.recv.poll()];
        let polls = || polls.into_iter().flatten();
        for poll in polls() {
            // SAFETY: The queue is valid; we are in process context.
            unsafe { bindings::irq_poll_disable(poll) };
        }
        // SAFETY: We are in process context.
        unsafe { bindings::synchronize_rcu_expedited() };
        for poll in polls() {
            // SAFETY: Disabled above. An event that was still on its way has been ignored meanwhile.
            unsafe { bindings::irq_poll_enable(poll) };
        }
    }
}

/// The interrupt vector of a queue pair's completion queues. Queue pairs take vectors by turns, which
/// spreads channels over processors; both queues of one have the same, so that its work stays together (P12).
fn next_vector(pd: &Pd) -> Result<c_int> {
    static TURN: Atomic<u32> = Atomic::new(0);
    // SAFETY: The device is kept by the domain.
    let vectors = unsafe { bindings::smbd_comp_vectors(pd.port().raw()) };
    let vector = TURN.fetch_add(1, Relaxed).checked_rem(vectors);
    Ok(c_int::try_from(vector.unwrap_or(0))?)
}
