// SPDX-License-Identifier: GPL-2.0

//! How a request that was posted ended: a completion says it, one task waits for it.
//!
//! The status is stored with release before the task is woken and loaded with acquire, so whoever
//! knows the outcome sees what was done before. A completion that comes before the wait is not lost.

use super::time::jiffies;
use super::wait::{new_wait_queue, Signals, WaitQueue};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};

/// See the module's documentation.
#[pin_data]
pub(crate) struct Outcome {
    /// The status plus one; zero before the completion.
    status: Atomic<u32>,
    #[pin]
    known: WaitQueue,
}

impl Outcome {
    /// An outcome that is not known.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            status: Atomic::new(0),
            known <- new_wait_queue!(c"Outcome::known"),
        })
    }

    /// Forgets the outcome, for the next request. Before it is posted; nobody waits then.
    pub(crate) fn reset(&self) {
        self.status.store(0, Relaxed);
    }

    /// The request ended with this status. Any context.
    pub(crate) fn set(&self, status: u32) {
        self.status.store(status.saturating_add(1), Release);
        self.known.wake_all();
    }

    /// The status, once it is known.
    pub(crate) fn get(&self) -> Option<u32> {
        self.status.load(Acquire).checked_sub(1)
    }

    /// Waits for the status, whatever signals come. `dead` is asked every `grace` milliseconds; once it
    /// says that the connection is broken, its flush gets that long again to bring the status; [`None`]
    /// when it did not. Process context.
    pub(crate) fn wait(&self, grace: u32, dead: impl Fn() -> bool) -> Option<u32> {
        let slice = jiffies(grace).try_into().ok();
        let mut broken = false;
        loop {
            match self.known.wait(Signals::Ignore, slice, || self.get()) {
                Ok(status) => return Some(status),
                Err(_) if broken => return None,
                // Not before: nearly all requests end within the first slice.
                Err(_) => broken = dead(),
            }
        }
    }
}
