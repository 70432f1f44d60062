// SPDX-License-Identifier: GPL-2.0

//! The data path: messages in both directions, and RDMA transfers.
//!
//! The safety of every function here: see the module [`abi`](super).

use super::handle::{self, count, errno};
use crate::bindings::{
    self, iov_iter, smbdirect_buffer_descriptor_v1, smbdirect_send_batch,
    smbdirect_send_batch_storage, smbdirect_socket,
};
use crate::conn::send::Batch;
use crate::rdma::dma::Direction;
use crate::rdma::rw::LocalBuffer;
use kernel::ffi::{c_int, c_uint, c_void};
use kernel::iov::{IovIterDest, IovIterSource};
use kernel::prelude::*;

/// An iterator data is taken from; [`None`] if it goes the other way.
///
/// # Safety
///
/// * `raw` is a valid iterator over kernel memory that only the caller uses during `'a`.
pub(super) unsafe fn source<'a>(raw: *mut iov_iter) -> Option<&'a mut IovIterSource<'a>> {
    // SAFETY: The caller's promise; the direction is checked.
    unsafe { (*raw).data_source.then(|| IovIterSource::from_raw(raw)) }
}

/// An iterator data is written to; [`None`] if it goes the other way.
///
/// # Safety
///
/// * As for [`source`].
pub(super) unsafe fn dest<'a>(raw: *mut iov_iter) -> Option<&'a mut IovIterDest<'a>> {
    // SAFETY: The caller's promise; the direction is checked.
    unsafe { (!(*raw).data_source).then(|| IovIterDest::from_raw(raw)) }
}

/// Makes a batch in the caller's storage.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_init_send_batch_storage(
    storage: *mut smbdirect_send_batch_storage,
    need_invalidate_rkey: bool,
    remote_key: c_uint,
) -> *mut smbdirect_send_batch {
    kernel::const_assert!(
        core::mem::size_of::<Batch>() <= core::mem::size_of::<smbdirect_send_batch_storage>()
    );
    // SAFETY: The caller's promise; the storage is large enough and more than aligned.
    unsafe {
        storage.write_bytes(0, 1);
        storage
            .cast::<Batch>()
            .write(Batch::new(need_invalidate_rkey.then_some(remote_key)));
    }
    storage.cast()
}

/// Posts what a batch has queued; ends the batch if it is the last time.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_send_batch_flush(
    sc: *mut smbdirect_socket,
    batch: *mut smbdirect_send_batch,
    is_last: bool,
) -> c_int {
    // SAFETY: The caller's promise.
    let (connection, batch) = unsafe { (handle::socket(sc), &mut *batch.cast::<Batch>()) };
    errno(connection.flush_batch(batch, is_last))
}

/// Sends one message's worth of an iterator, or a message without data.
///
/// # Safety
///
/// See the module [`abi`](super); batch and iterator may be null.
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_send_single_iter(
    sc: *mut smbdirect_socket,
    batch: *mut smbdirect_send_batch,
    iter: *mut iov_iter,
    flags: c_uint,
    remaining_data_length: u32,
) -> c_int {
    if flags != 0 {
        return EINVAL.to_errno();
    }
    // SAFETY: The caller's promise.
    let (connection, batch) = unsafe { (handle::socket(sc), batch.cast::<Batch>().as_mut()) };
    let iter = if iter.is_null() {
        None
    } else {
        // SAFETY: As above.
        match unsafe { source(iter) } {
            None => return EINVAL.to_errno(),
            iter => iter,
        }
    };
    count(connection.send_single(batch, iter, remaining_data_length))
}

/// Waits until the device does not read memory of the caller any more.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_send_wait_zero_pending(
    sc: *mut smbdirect_socket,
) -> c_int {
    // SAFETY: The caller's promise.
    errno(unsafe { handle::socket(sc) }.wait_sent())
}

/// Sends a whole message, four-byte length in front.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_send_iter(
    sc: *mut smbdirect_socket,
    iter: *mut iov_iter,
    flags: c_uint,
    need_invalidate: bool,
    remote_key: c_uint,
) -> c_int {
    // SAFETY: The caller's promise.
    let (connection, iter) = unsafe { (handle::socket(sc), source(iter)) };
    match iter {
        Some(iter) if flags == 0 => {
            count(connection.send_message(iter, need_invalidate.then_some(remote_key)))
        }
        _ => EINVAL.to_errno(),
    }
}

/// Receives exactly what the message's iterator has room for.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_recvmsg(
    sc: *mut smbdirect_socket,
    msg: *mut bindings::msghdr,
    flags: c_uint,
) -> c_int {
    // SAFETY: The caller's promise.
    let (connection, iter) =
        unsafe { (handle::socket(sc), dest((&raw mut (*msg).msg_iter).cast())) };
    match iter {
        Some(iter) if flags == 0 => count(connection.read(iter)),
        _ => EINVAL.to_errno(),
    }
}

/// Reads a buffer from the peer, or writes it there.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_rdma_xmit(
    sc: *mut smbdirect_socket,
    buf: *mut c_void,
    buf_len: usize,
    desc: *mut smbdirect_buffer_descriptor_v1,
    desc_len: usize,
    is_read: bool,
) -> c_int {
    let direction = if is_read {
        Direction::FromDevice
    } else {
        Direction::ToDevice
    };
    // SAFETY: The caller's promise.
    let (connection, buffer) =
        unsafe { (handle::socket(sc), LocalBuffer::new(buf.cast(), buf_len)) };
    let descriptors: &[u8] = if desc.is_null() {
        &[]
    } else {
        // SAFETY: The caller's promise; nobody writes to the request's buffer meanwhile.
        unsafe { core::slice::from_raw_parts(desc.cast_const().cast(), desc_len) }
    };
    errno(connection.transfer(&buffer, descriptors, direction))
}

super::same_type!(
    smbdirect_init_send_batch_storage,
    smbdirect_connection_send_batch_flush,
    smbdirect_connection_send_single_iter,
    smbdirect_connection_send_wait_zero_pending,
    smbdirect_connection_send_iter,
    smbdirect_connection_recvmsg,
    smbdirect_connection_rdma_xmit,
);
