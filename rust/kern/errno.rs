// SPDX-License-Identifier: GPL-2.0

//! Errors the prelude of older kernel crates lacks.

use kernel::error::Error;

/// Makes an error of a negative errno which may come from anywhere.
///
/// Zero and positive values, which no caller can mean, become `-EINVAL` inside
/// [`Error::from_errno`]; `-ECONNABORTED` is this module's word for "failed without a reason".
pub(crate) fn error(errno: i32) -> Error {
    if errno >= 0 {
        return Error::from_errno(crate::proto::errno::ECONNABORTED);
    }
    Error::from_errno(errno)
}
