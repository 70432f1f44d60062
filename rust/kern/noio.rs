// SPDX-License-Identifier: GPL-2.0

//! Allocating where memory reclaim itself may be waiting for us (requirement R45).
//!
//! Write-back over the mount needs registrations and transfers. Inside the scope every allocation
//! of the task, also those of the RDMA core and drivers, keeps out of filesystems and I/O.

use crate::bindings;
use core::marker::PhantomData;
use kernel::ffi::c_uint;

/// The scope; it ends when the value is dropped.
pub(crate) struct NoIo {
    before: c_uint,
    // A property of the task that made it: must not move to another.
    _task: PhantomData<*mut ()>,
}

impl NoIo {
    /// Begins the scope for the current task.
    pub(crate) fn enter() -> Self {
        Self {
            // SAFETY: Only changes a flag of the current task.
            before: unsafe { bindings::smbd_noio_save() },
            _task: PhantomData,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: `before` is what the save returned, on the same task.
        unsafe { bindings::smbd_noio_restore(self.before) };
    }
}
