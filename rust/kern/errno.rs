// SPDX-License-Identifier: GPL-2.0

//! Errors the prelude of the 7.2 kernel crate lacks, and which cannot be made constants outside of it.
//!
//! An [`Errno`] converts to an [`Error`] with `?` and `into()`.

use kernel::bindings;
use kernel::error::Error;
use kernel::ffi::c_int;

/// The number of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(u32);

impl Errno {
    /// The negative number, as C functions return it.
    pub(crate) const fn to_errno(self) -> c_int {
        // CAST: Error numbers are below 4096.
        -(self.0 as c_int)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::from_errno(errno.to_errno())
    }
}

/// Declares errors of the C headers.
macro_rules! errnos {
    ($($name:ident: $text:literal,)*) => {$(
        #[doc = $text]
        pub(crate) const $name: Errno = Errno(bindings::$name);
    )*};
}

errnos! {
    EALREADY: "Operation already in progress.",
    ECONNABORTED: "Software caused connection abort.",
    EMSGSIZE: "Message too long.",
    ENOBUFS: "No buffer space available.",
    ENOTCONN: "Transport endpoint is not connected.",
    ESHUTDOWN: "Cannot send after transport endpoint shutdown.",
    ETIMEDOUT: "Connection timed out.",
}

/// Makes an error of a negative errno which may come from anywhere; what is no errno becomes
/// `-ECONNABORTED`, this module's word for "failed without a reason".
pub(crate) fn error(errno: c_int) -> Error {
    if errno >= 0 {
        return ECONNABORTED.into();
    }
    Error::from_errno(errno)
}
