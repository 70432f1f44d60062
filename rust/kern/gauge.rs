// SPDX-License-Identifier: GPL-2.0

//! A gauge: a count that some raise, and one task that lowers it and waits until there is enough.
//!
//! Who waits says how much is enough, and is only woken when it is there. The two sides meet without
//! a lock. Raising adds, fully ordered, then reads what is wanted. Waiting stores what is wanted,
//! goes onto the queue, which is a full barrier, then reads the level. One of them sees the other.

use super::wait::{new_wait_queue, Interrupted, Signals, WaitQueue};
use kernel::ffi::c_long;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// See the module's documentation.
#[pin_data]
pub(crate) struct Gauge {
    now: Atomic<usize>,
    /// What the task that waits, or was the last to wait, waits for.
    wanted: Atomic<usize>,
    #[pin]
    raised: WaitQueue,
}

impl Gauge {
    /// A gauge at zero.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            now: Atomic::new(0),
            wanted: Atomic::new(0),
            raised <- new_wait_queue!(c"Gauge::raised"),
        })
    }

    /// The level; what was done before it was raised that far is visible. Any context.
    pub(crate) fn get(&self) -> usize {
        self.now.load(Acquire)
    }

    /// Raises the level. Wakes the task that waits if there is enough, and in any case with `urgent`.
    /// Any context.
    pub(crate) fn raise(&self, by: usize, urgent: bool) {
        let now = self.now.fetch_add(by, Full).wrapping_add(by);
        if urgent || now >= self.wanted.load(Relaxed) {
            self.wake();
        }
    }

    /// Lowers the level by what was taken.
    pub(crate) fn lower(&self, by: usize) {
        self.now.fetch_sub(by, Release);
    }

    /// Makes the task that waits ask again. Any context.
    pub(crate) fn wake(&self) {
        self.raised.wake_all();
    }

    /// Waits until there is `enough`, or `otherwise` says how the wait ends. `limit` is in jiffies.
    /// One task at a time; see [`WaitQueue::wait`] for context and closure.
    ///
    /// What was raised before `otherwise` saw a reason to fail counts: then there is enough.
    ///
    /// # Errors
    ///
    /// [`Interrupted`]; inside of it, what `otherwise` says.
    pub(crate) fn wait<E>(
        &self,
        enough: usize,
        signals: Signals,
        limit: Option<c_long>,
        otherwise: impl Fn() -> Option<Result<(), E>>,
    ) -> Result<Result<(), E>, Interrupted> {
        self.wanted.store(enough, Relaxed);
        let outcome = self.raised.wait(signals, limit, || {
            if self.get() >= enough {
                return Some(Ok(()));
            }
            otherwise()
        })?;
        Ok(outcome.or_else(|error| (self.get() >= enough).then_some(()).ok_or(error)))
    }
}
