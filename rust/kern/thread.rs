// SPDX-License-Identifier: GPL-2.0

//! A thread for one call that blocks as long as the network likes.
//!
//! A workqueue is no place for such a call: nothing wakes a worker out of it. A thread of its own can be
//! sent a signal, which ends every interruptible sleep of it.

use crate::bindings;
use core::ptr::NonNull;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a thread does.
pub(crate) trait Body: Send + Sync + 'static {
    /// Runs once, in a thread of its own. The first thing it looks at is whether it is still wanted: an
    /// [`interrupt`](Thread::interrupt) before it runs goes unheard.
    fn run(this: &Arc<Self>);
}

/// A thread that runs or has run the body of `T`. Dropping it waits for its end, in process context and not in
/// the thread itself.
///
/// # Invariants
///
/// The task is one that [`start`](Self::start) made, and this value has a reference to it.
pub(crate) struct Thread<T: Body> {
    task: NonNull<kernel::bindings::task_struct>,
    /// What the thread works on, until it ended.
    _owner: Arc<T>,
}

// SAFETY: Tasks may be signalled and waited for from any other.
unsafe impl<T: Body> Send for Thread<T> {}
// SAFETY: As above.
unsafe impl<T: Body> Sync for Thread<T> {}

impl<T: Body> Thread<T> {
    /// Starts a thread that `ps` shows by this name. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, `-EAGAIN` when there are too many threads, `-EINTR` when the caller is being killed.
    pub(crate) fn start(name: &'static CStr, owner: Arc<T>) -> Result<Self> {
        let data = Arc::as_ptr(&owner).cast_mut().cast::<c_void>();
        // SAFETY: The name lives for ever, and the value made below keeps `data` until the thread ended.
        let task = kernel::error::from_err_ptr(unsafe {
            bindings::smbd_run_thread(Some(Self::trampoline), data, name.as_char_ptr())
        })?;
        // INVARIANT: Just made; the helper took the reference.
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            _owner: owner,
        })
    }

    /// What the kernel calls.
    ///
    /// # Safety
    ///
    /// * `data` is what `start` handed over, a `T` in an `Arc` that lives until this returns.
    unsafe extern "C" fn trampoline(data: *mut c_void) -> c_int {
        // SAFETY: Concerns the current thread only, which is ours.
        unsafe { bindings::smbd_heed_interrupts() };
        // SAFETY: By contract. The reference is the `Thread`'s, which lends it.
        let owner = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<T>()) });
        T::run(&owner);
        0
    }

    /// Ends the interruptible sleep the thread is in, and all to come. Sleeps not.
    pub(crate) fn interrupt(&self) {
        // SAFETY: By the invariant; a task that ended takes no harm.
        unsafe { bindings::smbd_interrupt_thread(self.task.as_ptr()) };
    }
}

impl<T: Body> Drop for Thread<T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant, whose reference this returns. A thread that never ran does not any more.
        unsafe { kernel::bindings::kthread_stop_put(self.task.as_ptr()) };
    }
}
