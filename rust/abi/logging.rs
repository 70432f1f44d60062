// SPDX-License-Identifier: GPL-2.0

//! The consumers' logging callbacks.

use super::handle;
use crate::bindings;
use crate::conn::connection::Connection;
use crate::conn::log::{Class, Level, Sink};
use kernel::ffi::{c_char, c_uint, c_void};
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;

type Needed =
    unsafe extern "C" fn(*mut bindings::smbdirect_socket, *mut c_void, c_uint, c_uint) -> bool;
type Print = unsafe extern "C" fn(
    *mut bindings::smbdirect_socket,
    *const c_char,
    c_uint,
    *mut c_void,
    c_uint,
    c_uint,
    *mut bindings::va_format,
);

/// A consumer's gate and printer.
struct Callbacks {
    private: *mut c_void,
    needed: Needed,
    print: Print,
}

// SAFETY: The consumer takes calls from any context; its pointer is only handed back to it.
unsafe impl Send for Callbacks {}
// SAFETY: As above.
unsafe impl Sync for Callbacks {}

impl Sink for Callbacks {
    fn wants(&self, whose: *const Connection, level: Level, class: Class) -> bool {
        // CAST: The discriminants are the values of the interface.
        // SAFETY: The consumer's function and argument, valid until release.
        unsafe {
            (self.needed)(
                whose.cast_mut().cast(),
                self.private,
                level as c_uint,
                class as c_uint,
            )
        }
    }

    fn print(
        &self,
        whose: *const Connection,
        level: Level,
        class: Class,
        line: u32,
        text: fmt::Arguments<'_>,
    ) {
        // CAST: As above.
        // SAFETY: As above; `%pA` takes a pointer to format arguments, which live for the call.
        unsafe {
            bindings::smbd_log_print(
                Some(self.print),
                whose.cast_mut().cast(),
                c"smbdirect".as_char_ptr(),
                line,
                self.private,
                level as c_uint,
                class as c_uint,
                core::ptr::from_ref(&text).cast(),
            )
        }
    }
}

/// Sets the callbacks a socket, and its children if it listens, log to. Before anything else.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_set_logging(
    sc: *mut bindings::smbdirect_socket,
    private: *mut c_void,
    needed: Option<Needed>,
    print: Option<Print>,
) {
    let (Some(needed), Some(print)) = (needed, print) else {
        pr_warn!("a consumer set no logging callbacks\n");
        return;
    };
    // SAFETY: The caller's promise.
    let connection = unsafe { handle::socket(sc) };
    match Arc::new(
        Callbacks {
            private,
            needed,
            print,
        },
        GFP_KERNEL,
    ) {
        Ok(callbacks) => connection.set_sink(callbacks),
        Err(_) => pr_warn!("no memory for logging callbacks\n"),
    }
}

super::same_type!(smbdirect_socket_set_logging);
