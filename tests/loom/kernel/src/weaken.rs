// SPDX-License-Identifier: GPL-2.0

//! Taking orderings away.
//!
//! A test that shows that something never happens is worth little unless it notices when it does. So
//! each has twins that run the same code with one ordering less, and must fail.

use loom::sync::atomic::{fence, Ordering};
use std::cell::Cell;

/// An ordering that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// `Full` of the atomics becomes `Relaxed`.
    Full,
    /// `Acquire` of the atomics becomes `Relaxed`.
    Acquire,
    /// `Release` of the atomics becomes `Relaxed`.
    Release,
    /// The full barrier in `wq_has_sleeper()`.
    BeforeWake,
    /// The full barrier in `set_current_state()`, between going onto a queue and the condition.
    BeforeSleep,
}

thread_local! {
    // loom runs all threads of a model on the one that started it.
    static MISSING: Cell<&'static [Ordered]> = const { Cell::new(&[]) };
}

/// Runs `act` without some orderings.
pub fn without<R>(missing: &'static [Ordered], act: impl FnOnce() -> R) -> R {
    /// Puts everything right also when `act` panics.
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            MISSING.set(&[]);
        }
    }
    MISSING.set(missing);
    let _restore = Restore;
    act()
}

/// Whether an ordering is in force.
pub(crate) fn holds(ordered: Ordered) -> bool {
    !MISSING.get().contains(&ordered)
}

/// `smp_mb()`, if it is in force.
pub(crate) fn barrier(ordered: Ordered) {
    if holds(ordered) {
        fence(Ordering::SeqCst);
    }
}
