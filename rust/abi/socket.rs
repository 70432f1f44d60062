// SPDX-License-Identifier: GPL-2.0

//! Creating, configuring, connecting, listening and releasing.
//!
//! The safety of every function here: see the module [`abi`](super).

use super::handle::{self, errno};
use super::state::shared;
use crate::bindings::{self, smbdirect_socket, smbdirect_socket_parameters};
use crate::conn::connection::Connection;
use crate::conn::socket::Socket;
use crate::proto::params::Parameters;
use crate::proto::state::Status;
use crate::rdma::client::NetDevice;
use crate::rdma::cm::{Address, CmId, Net};
use crate::rdma::device::{Limits, Link};
use core::ptr::NonNull;
use kernel::ffi::{c_int, c_long, c_uint};
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::sync::atomic::Relaxed;

/// How a network device can carry SMB Direct: 1 IB or RoCE, 4 iWARP, 7 not.
///
/// # Safety
///
/// See the module [`abi`](super); the caller holds rtnl.
#[no_mangle]
unsafe extern "C" fn smbdirect_netdev_rdma_capable_node_type(
    netdev: *mut bindings::net_device,
) -> u8 {
    let link = match NonNull::new(netdev) {
        // SAFETY: The caller's promise.
        Some(netdev) => unsafe { NetDevice::new(netdev) }.capability(),
        None => Link::Other,
    };
    let node = match link {
        Link::IbOrRoce => bindings::RDMA_NODE_IB_CA,
        Link::Iwarp => bindings::RDMA_NODE_RNIC,
        Link::Other => bindings::RDMA_NODE_UNSPECIFIED,
    };
    // CAST: Node types are below 8.
    node as u8
}

/// Whether a device registers memory by work requests.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_frwr_is_supported(attrs: *const bindings::ib_device_attr) -> bool {
    // SAFETY: The caller's promise.
    unsafe { Limits::read(attrs) }.frwr()
}

/// Creates a socket for connecting or listening in a network namespace.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_create_kern(
    net: *mut bindings::net,
    out: *mut *mut smbdirect_socket,
) -> c_int {
    let create = || {
        let socket = Socket::new(Connection::new(&shared()?)?);
        // SAFETY: The caller's promise.
        socket.connection().create_id(&unsafe { Net::new(net) })?;
        // SAFETY: As above.
        unsafe { *out = handle::give_socket(socket) };
        Ok(())
    };
    errno(create())
}

/// Creates a socket around an id that another handler owned.
///
/// # Safety
///
/// See the module [`abi`](super); no event of the id is handled meanwhile, and the socket destroys
/// it.
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_create_accepting(
    id: *mut bindings::rdma_cm_id,
    out: *mut *mut smbdirect_socket,
) -> c_int {
    let create = || {
        let socket = Socket::new(Connection::new(&shared()?)?);
        let connection = socket.connection();
        // SAFETY: The caller's promise.
        let id = unsafe { CmId::adopt(NonNull::new(id).ok_or(EINVAL)?, connection.clone()) }?;
        *connection.id.lock() = Some(id);
        // SAFETY: As above.
        unsafe { *out = handle::give_socket(socket) };
        Ok(())
    };
    errno(create())
}

/// Sets the parameters of a fresh socket.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_set_initial_parameters(
    sc: *mut smbdirect_socket,
    sp: *const smbdirect_socket_parameters,
) -> c_int {
    // SAFETY: The caller's promise; the types have the same layout of plain integers.
    let (connection, params) = unsafe { (handle::socket(sc), sp.cast::<Parameters>().read()) };
    errno(connection.set_parameters(&params))
}

/// The parameters in force, readable until release.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_get_current_parameters(
    sc: *mut smbdirect_socket,
) -> *const smbdirect_socket_parameters {
    // SAFETY: The caller's promise.
    unsafe { handle::socket(sc) }.params.as_ptr().cast()
}

/// Sets where completions of a fresh socket are handled. The allocation mask is not needed: nothing
/// is allocated per message, and what a request needs is allocated without I/O.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_set_kernel_settings(
    sc: *mut smbdirect_socket,
    poll_ctx: bindings::ib_poll_context,
    _gfp_mask: bindings::gfp_t,
) -> c_int {
    // SAFETY: The caller's promise.
    let connection = unsafe { handle::socket(sc) };
    let known = poll_ctx <= bindings::ib_poll_context_IB_POLL_LAST_POOL_TYPE;
    if connection.state().status() != Status::Created || !known {
        return EINVAL.to_errno();
    }
    connection.poll_context.store(poll_ctx, Relaxed);
    0
}

/// Whether data may flow. Any context.
///
/// # Safety
///
/// See the module [`abi`](super); null is allowed.
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_is_connected(sc: *mut smbdirect_socket) -> bool {
    // SAFETY: The caller's promise.
    !sc.is_null() && unsafe { handle::socket(sc) }.is_connected()
}

/// Waits for the end of connecting.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_wait_for_connected(sc: *mut smbdirect_socket) -> c_int {
    // SAFETY: The caller's promise.
    errno(unsafe { handle::socket(sc) }.wait_connected())
}

/// Binds to a local address.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_bind(
    sc: *mut smbdirect_socket,
    addr: *mut bindings::sockaddr,
) -> c_int {
    // SAFETY: The caller's promise.
    errno(unsafe { handle::socket(sc).bind(&Address::new(addr)) })
}

/// Ends a socket in the background. Any context.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_shutdown(sc: *mut smbdirect_socket) {
    // SAFETY: The caller's promise.
    unsafe { handle::socket(sc) }.shut_down();
}

/// Ends a socket and frees it.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_release(sc: *mut smbdirect_socket) {
    // SAFETY: The caller's promise.
    drop(unsafe { handle::take_socket(sc) });
}

/// Starts connecting.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connect(
    sc: *mut smbdirect_socket,
    dst: *const bindings::sockaddr,
) -> c_int {
    // SAFETY: The caller's promise.
    errno(unsafe { handle::socket(sc).connect(&Address::new(dst)) })
}

/// Connects and waits for it.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_connect_sync(
    sc: *mut smbdirect_socket,
    dst: *const bindings::sockaddr,
) -> c_int {
    // SAFETY: The caller's promise.
    let (connection, address) = unsafe { (handle::socket(sc), Address::new(dst)) };
    errno(
        connection
            .connect(&address)
            .and_then(|()| connection.wait_connected()),
    )
}

/// Starts listening.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_listen(sc: *mut smbdirect_socket, backlog: c_int) -> c_int {
    // SAFETY: The caller's promise.
    errno(unsafe { handle::socket(sc) }.listen(backlog))
}

/// Waits for an incoming connection.
///
/// # Safety
///
/// See the module [`abi`](super).
#[no_mangle]
unsafe extern "C" fn smbdirect_socket_accept(
    lsc: *mut smbdirect_socket,
    timeo: c_long,
    arg: *mut bindings::proto_accept_arg,
) -> *mut smbdirect_socket {
    let timeout = (timeo != c_long::MAX).then_some(timeo);
    // SAFETY: The caller's promise.
    let (connection, arg) = unsafe { (handle::socket(lsc), &mut *arg) };
    match connection.accept(timeout) {
        Ok((socket, more)) => {
            arg.err = 0;
            arg.is_empty = c_int::from(!more);
            handle::give_socket(socket)
        }
        Err(error) => {
            arg.err = error.to_errno();
            core::ptr::null_mut()
        }
    }
}

/// Prints the DebugData block. Atomic context.
///
/// # Safety
///
/// See the module [`abi`](super); a null socket is allowed.
#[no_mangle]
unsafe extern "C" fn smbdirect_connection_legacy_debug_proc_show(
    sc: *mut smbdirect_socket,
    rdma_readwrite_threshold: c_uint,
    m: *mut bindings::seq_file,
) {
    if sc.is_null() {
        return;
    }
    // SAFETY: The caller's promise.
    let (connection, m) = unsafe { (handle::socket(sc), SeqFile::from_raw(m)) };
    connection.show(rdma_readwrite_threshold, m);
}

super::same_type!(
    smbdirect_netdev_rdma_capable_node_type,
    smbdirect_frwr_is_supported,
    smbdirect_socket_create_kern,
    smbdirect_socket_create_accepting,
    smbdirect_socket_set_initial_parameters,
    smbdirect_socket_get_current_parameters,
    smbdirect_socket_set_kernel_settings,
    smbdirect_connection_is_connected,
    smbdirect_connection_wait_for_connected,
    smbdirect_socket_bind,
    smbdirect_socket_shutdown,
    smbdirect_socket_release,
    smbdirect_connect,
    smbdirect_connect_sync,
    smbdirect_socket_listen,
    smbdirect_socket_accept,
    smbdirect_connection_legacy_debug_proc_show,
);
