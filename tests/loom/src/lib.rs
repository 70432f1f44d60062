// SPDX-License-Identifier: GPL-2.0

//! The small protocols of `rust/kern` and `rust/conn` between threads, under loom.
//!
//! The files are those of the module, mounted as they are. What they use of the kernel comes from
//! the crate `kernel` beside this one. loom runs a test in every order of its threads' steps, and
//! lets each load give every value the memory model allows; it reports a deadlock, which a lost
//! wake-up is here, a data race, and an `Arc` that was leaked or freed twice.

#![cfg(test)]

mod irq_lock;
mod tests;

/// The helpers of the module's C files.
mod bindings {
    pub(crate) use kernel::bindings::*;

    /// The clock; nothing here reads it.
    ///
    /// # Safety
    ///
    /// * None.
    pub(crate) unsafe fn smbd_mono_ns() -> u64 {
        0
    }
}

#[allow(dead_code)]
mod conn;
#[allow(dead_code)]
mod kern;
#[allow(dead_code)]
#[path = "../../../rust/proto/mod.rs"]
mod proto;
