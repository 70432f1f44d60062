// SPDX-License-Identifier: GPL-2.0

//! The task that runs.

/// Whether the current task is free to end: any but a kernel thread that is still to be stopped by the one who
/// made it (`kthread_stop()`). Process context.
pub(crate) fn may_end() -> bool {
    // SAFETY: Only looks at the current task.
    unsafe { crate::bindings::smbd_task_may_end() }
}
