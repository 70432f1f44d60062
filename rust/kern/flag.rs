// SPDX-License-Identifier: GPL-2.0

//! A fact that becomes true once and stays so.

use kernel::sync::atomic::{Acquire, Atomic, Full};

/// A one-way flag.
pub(crate) struct Flag(Atomic<i32>);

impl Flag {
    /// A flag that is not set.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Sets the flag; true for the one who did. Fully ordered. Any context.
    pub(crate) fn set(&self) -> bool {
        self.0.xchg(1, Full) == 0
    }

    /// Whether the flag is set. Any context.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Acquire) != 0
    }
}
