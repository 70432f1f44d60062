// SPDX-License-Identifier: GPL-2.0

//! A spin lock that disables interrupts while held and restores their former state.
//!
//! Completion handlers run in softirq for one consumer and in a workqueue for the other, and QP
//! events may come from hard interrupts: state they share with tasks needs this flavour. (7.3 has a
//! `SpinLockIrq` in the kernel crate, 7.2 has none; this backend serves both.)

use crate::bindings;
use kernel::ffi::{c_char, c_ulong};
use kernel::sync::lock::{Backend, Lock};

/// The backend of [`IrqLock`].
pub(crate) struct IrqLockBackend;

/// A `spinlock_t` taken with `spin_lock_irqsave()`.
///
/// # Context
///
/// Any. Nothing that sleeps may be called while the guard lives.
pub(crate) type IrqLock<T> = Lock<T, IrqLockBackend>;

// SAFETY: A `spinlock_t` admits one owner at a time; `relock` is the default, which locks the same
// way as `lock`.
unsafe impl Backend for IrqLockBackend {
    type State = kernel::bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(
        ptr: *mut Self::State,
        name: *const c_char,
        key: *mut kernel::bindings::lock_class_key,
    ) {
        // SAFETY: `ptr` is valid for writes, `name` and `key` live for ever, as the caller promises.
        unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
    }

    unsafe fn lock(ptr: *mut Self::State) -> c_ulong {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::smbd_spin_lock_irqsave(ptr) }
    }

    unsafe fn unlock(ptr: *mut Self::State, flags: &c_ulong) {
        // SAFETY: The caller owns the lock, and `flags` are those its `lock` returned.
        unsafe { bindings::smbd_spin_unlock_irqrestore(ptr, *flags) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<c_ulong> {
        let mut flags: c_ulong = 0;
        // SAFETY: The caller promises that the lock is initialised; `flags` is valid for the write.
        unsafe { bindings::smbd_spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { kernel::bindings::spin_assert_is_held(ptr) }
    }
}

/// Creates an [`IrqLock`] initialiser with the given name and a lock class of its own.
macro_rules! new_irq_lock {
    ($inner:expr, $name:literal) => {
        $crate::kern::irq_lock::IrqLock::new($inner, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;
