// SPDX-License-Identifier: GPL-2.0

//! Work requests: chains of them, and the unions inside which bindgen leaves to us.
//!
//! For queues of the kind the core allocates, requests and completions always name a completion
//! object; the other member of that union is never used here.

use super::fault::{hits, Point};
use crate::bindings;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// Names the completion object of a send request.
pub(super) fn set_completion(request: &mut bindings::ib_send_wr, cqe: &bindings::ib_cqe) {
    // SAFETY: A plain store; every bit pattern of the union is valid.
    unsafe { *request.__bindgen_anon_1.wr_cqe.as_mut() = core::ptr::from_ref(cqe).cast_mut() };
}

/// Identifies the completion object of a send request.
pub(super) fn completion_key(request: &bindings::ib_send_wr) -> usize {
    // CAST: Only compared.
    // SAFETY: As in the module's documentation.
    unsafe { *request.__bindgen_anon_1.wr_cqe.as_ref() as usize }
}

/// Names the key a SEND_WITH_INV or LOCAL_INV invalidates.
pub(super) fn set_invalidated_key(request: &mut bindings::ib_send_wr, key: u32) {
    // SAFETY: A plain store; every bit pattern of the union is valid.
    unsafe { *request.ex.invalidate_rkey.as_mut() = key };
}

/// Names the completion object of a receive.
pub(super) fn set_recv_completion(request: &mut bindings::ib_recv_wr, cqe: &bindings::ib_cqe) {
    // SAFETY: A plain store; every bit pattern of the union is valid.
    unsafe { *request.__bindgen_anon_1.wr_cqe.as_mut() = core::ptr::from_ref(cqe).cast_mut() };
}

/// The completion object of what completed.
pub(super) fn completed(wc: &bindings::ib_wc) -> *const bindings::ib_cqe {
    // SAFETY: As in the module's documentation.
    unsafe { *wc.__bindgen_anon_1.wr_cqe.as_ref() }
}

/// The key the peer invalidated with its message, if it did.
pub(super) fn invalidated_key(wc: &bindings::ib_wc) -> Option<u32> {
    // CAST: Flag values of the C interface.
    let flagged = wc.wc_flags as u32 & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;
    // SAFETY: The flag says that the union holds the key.
    flagged.then(|| unsafe { *wc.ex.invalidate_rkey.as_ref() })
}

/// A chain of send requests being built.
pub(super) struct Chain {
    first: *mut bindings::ib_send_wr,
    last: *mut bindings::ib_send_wr,
    pub(super) requests: u32,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
            requests: 0,
        }
    }

    /// Appends a request, which must stay in place until the chain is posted.
    pub(super) fn add(&mut self, request: *mut bindings::ib_send_wr) {
        if self.last.is_null() {
            self.first = request;
        } else {
            // SAFETY: The last request added, which stays in place.
            unsafe { (*self.last).next = request };
        }
        self.last = request;
        self.requests = self.requests.saturating_add(1);
    }

    /// Takes a ready chain.
    ///
    /// # Safety
    ///
    /// * `first` starts a chain of valid requests.
    pub(super) unsafe fn adopt(&mut self, first: *mut bindings::ib_send_wr) {
        self.first = first;
        let mut at = first;
        while !at.is_null() {
            self.requests = self.requests.saturating_add(1);
            self.last = at;
            // SAFETY: A valid chain by contract.
            at = unsafe { (*at).next };
        }
    }

    /// Asks for a completion of the last request.
    pub(super) fn signal_last(&mut self) {
        if !self.last.is_null() {
            // CAST: A flag of the C interface.
            // SAFETY: The last request added.
            unsafe { (*self.last).send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED as c_int };
        }
    }

    /// Posts requests; an error tells the first that was not taken.
    fn post_from(
        qp: NonNull<bindings::ib_qp>,
        first: *mut bindings::ib_send_wr,
        bad: &mut *const bindings::ib_send_wr,
    ) -> Result {
        // SAFETY: The callers hold the send lock with the queue open, so the queue pair is valid;
        // the requests and what they refer to are owned by the queue pair.
        to_result(unsafe { bindings::smbd_ib_post_send(qp.as_ptr(), first, bad) })
    }

    /// Posts all but the last request, for [`Point::PostSendPart`].
    fn post_but_last(
        &self,
        qp: NonNull<bindings::ib_qp>,
        bad: &mut *const bindings::ib_send_wr,
    ) -> Result {
        let mut before = self.first;
        if before != self.last {
            // SAFETY: The chain built by `add` or `adopt`, which ends with `last`.
            unsafe {
                while (*before).next != self.last {
                    before = (*before).next;
                }
                (*before).next = core::ptr::null_mut();
            }
            let result = Self::post_from(qp, self.first, bad);
            // SAFETY: As above. The chain stays whole for the caller, who counts along it.
            unsafe { (*before).next = self.last };
            result?;
        }
        *bad = self.last;
        Err(ENOMEM)
    }

    /// Posts the chain; tells how many requests the hardware took, which is not all on an error.
    pub(super) fn post(self, qp: NonNull<bindings::ib_qp>) -> (u32, Result) {
        if self.first.is_null() {
            return (0, Ok(()));
        }
        let mut bad: *const bindings::ib_send_wr = core::ptr::null();
        let result = if hits(Point::PostSend) {
            bad = self.first;
            Err(ENOMEM)
        } else if hits(Point::PostSendPart) {
            self.post_but_last(qp, &mut bad)
        } else {
            Self::post_from(qp, self.first, &mut bad)
        };
        if result.is_ok() {
            return (self.requests, result);
        }
        let mut accepted = 0;
        let mut at = self.first.cast_const();
        while !at.is_null() && at != bad {
            accepted += 1;
            // SAFETY: The chain built by `add` or `adopt`.
            at = unsafe { (*at).next };
        }
        (accepted, result)
    }
}
