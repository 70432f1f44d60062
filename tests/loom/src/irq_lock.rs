// SPDX-License-Identifier: GPL-2.0

//! In place of `rust/kern/irq_lock.rs`, which is a spin lock of C: loom's lock, which orders as a spin
//! lock does.

use kernel::prelude::PinInit;
use kernel::sync::LockClassKey;
use loom::sync::{Mutex, MutexGuard};
use std::ffi::CStr;
use std::pin::Pin;

/// A spin lock.
pub(crate) struct IrqLock<T>(Mutex<T>);

impl<T> IrqLock<T> {
    /// A free lock.
    pub(crate) fn new(
        value: T,
        _: &'static CStr,
        _: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        Self(Mutex::new(value))
    }

    /// Takes the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// As in the module.
macro_rules! new_irq_lock {
    ($inner:expr, $name:literal) => {
        $crate::kern::irq_lock::IrqLock::new($inner, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;
