// SPDX-License-Identifier: GPL-2.0

//! The contract with cifs and ksmbd: the 28 functions of `include/linux/smbdirect.h`.
//!
//! Pointers in, `Result` out, errno mapping; nothing is decided here. A `struct smbdirect_socket *`
//! is a leaked reference to a [`Connection`], which release takes back; a `struct smbdirect_mr_io *`
//! is one to a [`Region`]. The safety of every function rests on the same promises of the callers,
//! stated once:
//!
//! * a socket pointer came from create or accept and was not given to release, which nothing runs
//!   beside; a region pointer came from register and was not given to deregister;
//! * other pointers are valid for the call, as the C prototypes suggest;
//! * functions documented as sleeping are called in process context.
//!
//! [`Connection`]: crate::conn::connection::Connection
//! [`Region`]: crate::conn::mr::Region

mod data;
mod handle;
mod logging;
mod region;
mod socket;
pub(crate) mod state;

/// Checks at compile time that a function has the type the kernel's header declares for it.
macro_rules! same_type {
    ($($name:ident),* $(,)?) => {
        const _: () = {
            $(let _ = if true { $name } else { crate::bindings::$name };)*
        };
    };
}
pub(crate) use same_type;
