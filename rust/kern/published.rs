// SPDX-License-Identifier: GPL-2.0

//! A value that C code reads through a pointer while Rust changes it.

use super::irq_lock::{new_irq_lock, IrqLock};
use core::cell::UnsafeCell;
use kernel::prelude::*;

/// A plain value with a stable address.
///
/// Rust reads and writes copies under a lock. The pointer is for C callers who read without one;
/// what they see while the value changes is their contract with us.
#[pin_data]
pub(crate) struct Published<T: Copy> {
    #[pin]
    value: IrqLock<T>,
    visible: UnsafeCell<T>,
}

// SAFETY: Writes happen under the lock; reads without it only by C code, as documented.
unsafe impl<T: Copy + Send> Send for Published<T> {}
// SAFETY: As above.
unsafe impl<T: Copy + Send> Sync for Published<T> {}

impl<T: Copy + Unpin> Published<T> {
    /// Wraps a value.
    pub(crate) fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            visible: UnsafeCell::new(value),
            value <- new_irq_lock!(value, c"Published::value"),
        })
    }

    /// The value. Any context.
    pub(crate) fn get(&self) -> T {
        *self.value.lock()
    }

    /// Changes the value. Any context.
    pub(crate) fn set(&self, value: T) {
        let mut guard = self.value.lock();
        *guard = value;
        // SAFETY: The lock is held, so no other writer is here; `T` is plain data.
        unsafe { self.visible.get().write_volatile(value) };
    }

    /// Where C code may read the value as long as `self` lives.
    pub(crate) fn as_ptr(&self) -> *const T {
        self.visible.get()
    }
}
