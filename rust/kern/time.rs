// SPDX-License-Identifier: GPL-2.0

//! Time: a millisecond clock for the protocol and jiffies for the kernel's timeouts.

use crate::bindings;

/// Nanoseconds in a microsecond.
const NSEC_PER_USEC: u64 = 1000;

/// Nanoseconds in a millisecond.
const NSEC_PER_MSEC: u64 = 1_000_000;

/// Milliseconds since boot, monotonic.
///
/// # Context
///
/// Any, also NMI.
pub(crate) fn now_ms() -> u64 {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::smbd_mono_ns() / NSEC_PER_MSEC }
}

/// Microseconds since boot, monotonic. Any context.
pub(crate) fn now_us() -> u64 {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::smbd_mono_ns() / NSEC_PER_USEC }
}

/// Milliseconds in jiffies, rounded up, as the kernel's waiting functions take them.
pub(crate) fn jiffies(msecs: u32) -> kernel::time::Jiffies {
    kernel::time::msecs_to_jiffies(msecs)
}
