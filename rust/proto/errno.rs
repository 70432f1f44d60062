// SPDX-License-Identifier: GPL-2.0
//! The errno values that protocol decisions use.
//!
//! The kernel's own constants are kernel bindings, which this directory must not see; the numbers are
//! part of the user ABI of every architecture the module supports (asm-generic) and cannot change.
//! All are negative, as the kernel returns them.

/// Input/output error.
pub const EIO: i32 = -5;
/// Bad address.
pub const EFAULT: i32 = -14;
/// No such device.
pub const ENODEV: i32 = -19;
/// Invalid argument.
pub const EINVAL: i32 = -22;
/// Message too long.
pub const EMSGSIZE: i32 = -90;
/// Protocol not supported: no fast registration, or the wrong kind of port (U1).
pub const EPROTONOSUPPORT: i32 = -93;
/// Operation not supported: the peer's version range excludes ours (Q2).
pub const EOPNOTSUPP: i32 = -95;
/// Network is down: the device was removed.
pub const ENETDOWN: i32 = -100;
/// Network is unreachable.
pub const ENETUNREACH: i32 = -101;
/// Connection aborted: a protocol error, and the default of every failure.
pub const ECONNABORTED: i32 = -103;
/// Connection reset: the peer disconnected.
pub const ECONNRESET: i32 = -104;
/// Not connected.
pub const ENOTCONN: i32 = -107;
/// Local shutdown.
pub const ESHUTDOWN: i32 = -108;
/// Timed out.
pub const ETIMEDOUT: i32 = -110;
/// Connection refused: rejected by the CM or by the peer's Negotiate Response (A2).
pub const ECONNREFUSED: i32 = -111;
/// No route to host.
pub const EHOSTUNREACH: i32 = -113;
/// Interrupted by a signal; the system call may be restarted. Of the kernel alone, no user sees it.
pub const ERESTARTSYS: i32 = -512;
