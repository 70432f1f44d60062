// SPDX-License-Identifier: GPL-2.0

//! Pointers given to C and what they stand for.

use crate::bindings::{smbdirect_mr_io, smbdirect_socket};
use crate::conn::connection::Connection;
use crate::conn::mr::Region;
use crate::conn::socket::Socket;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A reference that belongs to somebody else.
pub(super) struct Borrowed<T>(ManuallyDrop<Arc<T>>);

impl<T> Deref for Borrowed<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

/// Gives a socket to a consumer.
pub(super) fn give_socket(socket: Socket) -> *mut smbdirect_socket {
    let socket = ManuallyDrop::new(socket);
    socket.connection().given.set();
    Arc::as_ptr(socket.connection()).cast_mut().cast()
}

/// Borrows the connection behind a consumer's pointer.
///
/// # Safety
///
/// * `raw` came from [`give_socket`] and was not given to [`take_socket`].
pub(super) unsafe fn socket(raw: *mut smbdirect_socket) -> Borrowed<Connection> {
    // SAFETY: The consumer's pointer owns a reference, which is left to it.
    Borrowed(ManuallyDrop::new(unsafe {
        Arc::from_raw(raw.cast_const().cast())
    }))
}

/// Takes a socket back from a consumer.
///
/// # Safety
///
/// * As for [`socket`], and `raw` is not used afterwards.
pub(super) unsafe fn take_socket(raw: *mut smbdirect_socket) -> Socket {
    // SAFETY: The reference `give_socket` leaked.
    Socket::new(unsafe { Arc::from_raw(raw.cast_const().cast()) })
}

/// Gives a region to a consumer.
pub(super) fn give_region(region: Arc<Region>) -> *mut smbdirect_mr_io {
    Arc::into_raw(region).cast_mut().cast()
}

/// Borrows the region behind a consumer's pointer.
///
/// # Safety
///
/// * `raw` came from [`give_region`] and was not given to [`take_region`].
pub(super) unsafe fn region(raw: *mut smbdirect_mr_io) -> Borrowed<Region> {
    // SAFETY: The consumer's pointer owns a reference, which is left to it.
    Borrowed(ManuallyDrop::new(unsafe {
        Arc::from_raw(raw.cast_const().cast())
    }))
}

/// Takes a region back from a consumer.
///
/// # Safety
///
/// * As for [`region`], and `raw` is not used afterwards.
pub(super) unsafe fn take_region(raw: *mut smbdirect_mr_io) -> Arc<Region> {
    // SAFETY: The reference `give_region` leaked.
    unsafe { Arc::from_raw(raw.cast_const().cast()) }
}

/// 0 or a negative errno.
pub(super) fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// A byte count or a negative errno.
pub(super) fn count(result: Result<usize>) -> c_int {
    match result {
        Ok(bytes) => c_int::try_from(bytes).unwrap_or(c_int::MAX),
        Err(error) => error.to_errno(),
    }
}
