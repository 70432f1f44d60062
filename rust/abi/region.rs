// SPDX-License-Identifier: GPL-2.0

//! Memory regions of requests.
//!
//! The safety of every function here: see the module [`abi`](super).

use super::data::{dest, source};
use super::handle;
use crate::bindings::{
    iov_iter, smbdirect_buffer_descriptor_v1, smbdirect_mr_io, smbdirect_socket,
};
use crate::conn::mr::Region;
use crate::rdma::mr::Memory;

/// Registers a request's memory; with `writing` the peer will write it. Null fails the request
/// only. Whether the peer will invalidate is not taken on trust, so `need_invalidate` is not
/// needed: deregister invalidates unless the peer was seen to.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_register_mr_io(
    sc: *mut smbdirect_socket,
    iter: *mut iov_iter,
    writing: bool,
    _need_invalidate: bool,
) -> *mut smbdirect_mr_io {
    // SAFETY: The caller's promise.
    let (connection, memory) = unsafe {
        let memory = match writing {
            true => dest(iter).map(Memory::Dest),
            false => source(iter).map(Memory::Source),
        };
        (handle::socket(sc), memory)
    };
    let region = memory.and_then(|mut memory| Region::register(&connection, &mut memory));
    region.map_or(core::ptr::null_mut(), handle::give_region)
}

/// Fills in what the peer is told about a region.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_mr_io_fill_buffer_descriptor(
    mr: *mut smbdirect_mr_io,
    v1: *mut smbdirect_buffer_descriptor_v1,
) {
    // SAFETY: The caller's promise; the descriptor is 16 plain bytes.
    unsafe {
        let bytes = handle::region(mr).descriptor().encode();
        v1.cast::<[u8; crate::proto::pdu::DESCRIPTOR_LEN]>()
            .write(bytes);
    }
}

/// Ends the use of a region and gives it back. The socket may be gone.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_deregister_mr_io(mr: *mut smbdirect_mr_io) {
    // SAFETY: The caller's promise.
    unsafe { handle::take_region(mr) }.deregister();
}

super::same_type!(
    smbdirect_connection_register_mr_io,
    smbdirect_mr_io_fill_buffer_descriptor,
    smbdirect_connection_deregister_mr_io,
);
