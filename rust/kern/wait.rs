// SPDX-License-Identifier: GPL-2.0

//! Waiting for a condition that is not guarded by one lock.
//!
//! The kernel crate's `CondVar` needs a guard to give up. Credits, states and queues of this module
//! live behind different locks and atomics, and one wait often watches several of them, so this is
//! the C `wait_event()` family: the condition is a closure, asked after the task was put on the queue.

use crate::bindings;
use core::mem::MaybeUninit;
use kernel::ffi::c_long;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// Whether a signal ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signals {
    /// A signal ends the wait with [`Interrupted::Signal`].
    Heed,
    /// Signals are ignored.
    Ignore,
}

/// Why a wait ended without its condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupted {
    /// A signal is pending.
    Signal,
    /// The time is over.
    TimedOut,
}

/// A queue of tasks waiting for conditions.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<kernel::bindings::wait_queue_head>,
}

// SAFETY: A wait queue head is made to be used by many tasks at once, under its own lock.
unsafe impl Send for WaitQueue {}
// SAFETY: As above.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    /// Creates an empty queue; use [`new_wait_queue!`].
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, `name` and `key` are static.
            head <- Opaque::ffi_init(|slot| unsafe {
                kernel::bindings::__init_waitqueue_head(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// Wakes every task on the queue; each asks its condition again.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn wake_all(&self) {
        self.wake(0);
    }

    /// Wakes `count` tasks, or all for 0. A full barrier orders the change that made the condition
    /// true before the look at the queue.
    fn wake(&self, count: kernel::ffi::c_int) {
        // SAFETY: The queue is initialised and `self` keeps it alive.
        unsafe {
            if bindings::smbd_wq_has_sleeper(self.head.get()) {
                bindings::smbd_wake_up(self.head.get(), count);
            }
        }
    }

    /// Sleeps until `ready` gives a value.
    ///
    /// `timeout` is in jiffies; [`None`] waits without a limit. `ready` runs with the task state
    /// already set: it may take spin locks but must not sleep.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], only when `ready` has nothing to give after the signal or the last jiffy.
    ///
    /// # Context
    ///
    /// Process context without spin locks held.
    pub(crate) fn wait<R>(
        &self,
        signals: Signals,
        timeout: Option<c_long>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R, Interrupted> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let mut entry = MaybeUninit::<kernel::bindings::wait_queue_entry>::uninit();
        // SAFETY: `entry` is valid for writes, and stays in place until `finish_wait()` below.
        unsafe { kernel::bindings::init_wait_entry(entry.as_mut_ptr(), 0) };
        let result = self.sleep(entry.as_mut_ptr(), signals, timeout, &mut ready);
        // SAFETY: The entry was initialised above and may be on this queue.
        unsafe { kernel::bindings::finish_wait(self.head.get(), entry.as_mut_ptr()) };
        result
    }

    /// The loop of [`wait`](Self::wait) between initialising and finishing the entry.
    fn sleep<R>(
        &self,
        entry: *mut kernel::bindings::wait_queue_entry,
        signals: Signals,
        timeout: Option<c_long>,
        ready: &mut impl FnMut() -> Option<R>,
    ) -> Result<R, Interrupted> {
        let state = match (signals, timeout) {
            (Signals::Heed, _) => kernel::bindings::TASK_INTERRUPTIBLE,
            // A wait with a bound of its own is no matter for the hung-task detector.
            (Signals::Ignore, Some(_)) => {
                kernel::bindings::TASK_UNINTERRUPTIBLE | kernel::bindings::TASK_NOLOAD
            }
            (Signals::Ignore, None) => kernel::bindings::TASK_UNINTERRUPTIBLE,
        };
        // CAST: Task states are small flag values.
        let state = state as kernel::ffi::c_int;
        let mut left = timeout.unwrap_or(c_long::MAX);
        loop {
            // SAFETY: Both are initialised; the entry belongs to this task.
            let signal =
                unsafe { kernel::bindings::prepare_to_wait_event(self.head.get(), entry, state) };
            if let Some(value) = ready() {
                return Ok(value);
            }
            if signal != 0 {
                return Err(Interrupted::Signal);
            }
            if left <= 0 {
                return Err(Interrupted::TimedOut);
            }
            // SAFETY: Process context without locks, as the caller of `wait` promises.
            left = unsafe { kernel::bindings::schedule_timeout(left) };
        }
    }
}

/// Creates a [`WaitQueue`] initialiser with the given name and a lock class of its own.
macro_rules! new_wait_queue {
    ($name:literal) => {
        $crate::kern::wait::WaitQueue::new($name, kernel::static_lock_class!())
    };
}
pub(crate) use new_wait_queue;
