// SPDX-License-Identifier: GPL-2.0

//! Waits that are counted, with their time.

use super::counters::count;
use super::time::now_us;
use super::wait::{Interrupted, Signals, WaitQueue};
use kernel::ffi::c_long;
use kernel::sync::atomic::Atomic;

/// What counts the waits for one thing.
pub(crate) struct Stall<'a> {
    /// Tasks that did not find what they wanted at once.
    pub(crate) waits: &'a Atomic<u64>,
    /// Their time together, microseconds.
    pub(crate) us: &'a Atomic<u64>,
}

impl Stall<'_> {
    /// [Waits](WaitQueue::wait) on a queue, and counts that if the task has to sleep.
    pub(crate) fn wait<R>(
        self,
        queue: &WaitQueue,
        signals: Signals,
        timeout: Option<c_long>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R, Interrupted> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let since = now_us();
        let outcome = queue.wait(signals, timeout, ready);
        count(self.waits, 1);
        count(self.us, now_us().saturating_sub(since));
        outcome
    }
}
