// SPDX-License-Identifier: GPL-2.0

//! The part of the kernel crate that the files under test use, on loom.
//!
//! Names and signatures are those of `rust/kernel` in the kernel's source, so that the files of
//! `rust/` compile here as they are. Behind them stand loom's types, and models of what the C side
//! does: [`atomic`](sync::atomic), [`wait`] and [`work`]. [`weaken`] takes single barriers
//! away, for the tests that must fail then.

pub mod atomic;
pub mod wait;
pub mod weaken;
pub mod work;

/// `kernel::sync`.
pub mod sync {
    pub use crate::atomic;
    pub use loom::sync::Arc;

    /// Identifies a lock for lockdep, which there is none of here.
    pub struct LockClassKey;

    impl LockClassKey {
        /// The C pointer.
        pub fn as_ptr(&self) -> *mut () {
            core::ptr::null_mut()
        }
    }
}

/// Declares a lock class and refers to it.
#[macro_export]
macro_rules! static_lock_class {
    () => {
        ::core::pin::Pin::static_ref(&$crate::sync::LockClassKey)
    };
}

/// `kernel::ffi`.
pub mod ffi {
    pub use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
}

/// `kernel::time`.
pub mod time {
    /// Ticks of the kernel's clock.
    pub type Jiffies = core::ffi::c_ulong;

    /// A tick is a millisecond here.
    pub fn msecs_to_jiffies(msecs: u32) -> Jiffies {
        msecs.into()
    }
}

/// `kernel::bindings`: the C functions, types and constants.
pub mod bindings {
    pub use crate::wait::c::*;
    pub use crate::work::c::*;
}

/// `kernel::types`.
pub mod types {
    use core::cell::UnsafeCell;
    use core::convert::Infallible;
    use core::mem::MaybeUninit;
    use pinned_init::PinInit;

    /// A C object. Unlike the kernel's it drops its content, which is a model and owns memory.
    pub struct Opaque<T>(UnsafeCell<MaybeUninit<T>>);

    impl<T> Opaque<T> {
        /// Lets a C function initialise the object.
        pub fn ffi_init(init: impl FnOnce(*mut T)) -> impl PinInit<Self> {
            let init = |slot: *mut Self| -> Result<(), Infallible> {
                init(slot.cast());
                Ok(())
            };
            // SAFETY: `init` is one of the models, which write the whole object.
            unsafe { pinned_init::pin_init_from_closure(init) }
        }

        /// The C pointer.
        pub fn get(&self) -> *mut T {
            self.0.get().cast()
        }
    }

    impl<T> Drop for Opaque<T> {
        fn drop(&mut self) {
            // SAFETY: `ffi_init` is the only constructor, and it initialises.
            unsafe { self.0.get_mut().assume_init_drop() };
        }
    }
}

/// `kernel::prelude`.
pub mod prelude {
    pub use core::ffi::CStr;
    pub use core::pin::Pin;
    pub use pinned_init::{pin_data, pin_init, PinInit};

    /// An error; nothing here fails.
    #[derive(Debug)]
    pub struct Error;

    /// No memory.
    pub const ENOMEM: Error = Error;

    /// The kernel's result.
    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// What the kernel crate adds to `CStr`.
    pub trait CStrExt {
        /// The C pointer.
        fn as_char_ptr(&self) -> *const core::ffi::c_char;
    }

    impl CStrExt for CStr {
        fn as_char_ptr(&self) -> *const core::ffi::c_char {
            self.as_ptr()
        }
    }
}

/// An `Arc` of an object that is initialised in place.
pub fn pinned<T>(init: impl pinned_init::PinInit<T>) -> sync::Arc<T> {
    let mut room = std::sync::Arc::<T>::new_uninit();
    let slot = std::sync::Arc::get_mut(&mut room).expect("a new object has one owner");
    // SAFETY: The slot is valid for the object and stays where it is.
    let result = unsafe { init.__pinned_init(slot.as_mut_ptr()) };
    let Ok(()) = result;
    // SAFETY: Initialised above.
    sync::Arc::from_std(unsafe { room.assume_init() })
}
