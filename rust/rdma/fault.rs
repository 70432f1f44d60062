// SPDX-License-Identifier: GPL-2.0

//! Fault points: where a test can make the device or the connection manager fail.
//!
//! On a kernel with `CONFIG_FAULT_INJECTION_DEBUG_FS` each point is a folder of
//! `/sys/kernel/debug/smbdirect-faults` with the knobs of the kernel's fault injection: probability,
//! interval, times, space (Documentation/fault-injection). On any other kernel nothing of it is
//! compiled.

use kernel::prelude::*;

/// The points, each with its number in C.
macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $raw:ident,)*) => {
        /// A fault point.
        #[derive(Clone, Copy)]
        pub(super) enum Point {
            $($(#[$doc])* $name,)*
        }

        #[cfg(CONFIG_FAULT_INJECTION_DEBUG_FS)]
        impl Point {
            fn raw(self) -> crate::bindings::smbd_fault {
                match self {
                    $(Self::$name => crate::bindings::$raw,)*
                }
            }
        }
    };
}

points! {
    /// No id for a connection or a listener.
    CreateId = smbd_fault_SMBD_FAULT_CREATE_ID,
    /// Resolving the address does not start.
    ResolveAddress = smbd_fault_SMBD_FAULT_RESOLVE_ADDRESS,
    /// Resolving the route does not start.
    ResolveRoute = smbd_fault_SMBD_FAULT_RESOLVE_ROUTE,
    /// The connection request is not sent.
    Connect = smbd_fault_SMBD_FAULT_CONNECT,
    /// A connection request is not answered.
    Accept = smbd_fault_SMBD_FAULT_ACCEPT,
    /// The disconnect request is not sent.
    Disconnect = smbd_fault_SMBD_FAULT_DISCONNECT,
    /// An event of the connection manager is lost, but for a request and the removal of the device.
    LoseEvent = smbd_fault_SMBD_FAULT_LOSE_EVENT,
    /// No completion queue.
    AllocCq = smbd_fault_SMBD_FAULT_ALLOC_CQ,
    /// No queue pair.
    CreateQp = smbd_fault_SMBD_FAULT_CREATE_QP,
    /// No memory region.
    AllocMr = smbd_fault_SMBD_FAULT_ALLOC_MR,
    /// Message memory cannot be mapped.
    MapBuffer = smbd_fault_SMBD_FAULT_MAP_BUFFER,
    /// Memory to be registered cannot be mapped.
    MapRegion = smbd_fault_SMBD_FAULT_MAP_REGION,
    /// A region does not take the memory as it is.
    DescribeRegion = smbd_fault_SMBD_FAULT_DESCRIBE_REGION,
    /// A segment of an RDMA transfer cannot be set up.
    Transfer = smbd_fault_SMBD_FAULT_TRANSFER,
    /// The send queue takes none of a chain.
    PostSend = smbd_fault_SMBD_FAULT_POST_SEND,
    /// The send queue takes all of a chain but the last request.
    PostSendPart = smbd_fault_SMBD_FAULT_POST_SEND_PART,
    /// The receive queue takes none of a chain.
    PostReceive = smbd_fault_SMBD_FAULT_POST_RECEIVE,
    /// The receive queue takes all of a chain but the last request.
    PostReceivePart = smbd_fault_SMBD_FAULT_POST_RECEIVE_PART,
    /// The completion of a send request is lost.
    LoseSent = smbd_fault_SMBD_FAULT_LOSE_SENT,
    /// With the completion of a send request the device reports that the queue pair is broken.
    BreakOff = smbd_fault_SMBD_FAULT_BREAK_OFF,
    /// The completion of a send request is handled a millisecond late.
    DelaySent = smbd_fault_SMBD_FAULT_DELAY_SENT,
    /// The completion of a receive is handled a millisecond late.
    DelayReceived = smbd_fault_SMBD_FAULT_DELAY_RECEIVED,
}

/// Whether this point is to fail now. Any context.
#[cfg(CONFIG_FAULT_INJECTION_DEBUG_FS)]
pub(super) fn hits(point: Point) -> bool {
    // SAFETY: The point is one of the table.
    unsafe { crate::bindings::smbd_fault(point.raw()) }
}

/// Whether this point is to fail now. Any context.
#[cfg(not(CONFIG_FAULT_INJECTION_DEBUG_FS))]
pub(super) fn hits(_point: Point) -> bool {
    false
}

/// Fails where this point is to fail now. Any context.
///
/// # Errors
///
/// `-ENOMEM`, as an allocation that fails inside the call would give.
pub(super) fn point(point: Point) -> Result {
    if hits(point) {
        Err(ENOMEM)
    } else {
        Ok(())
    }
}

/// Delays the caller for a millisecond where this point is to fail now. Any context.
pub(super) fn delay(point: Point) {
    if hits(point) {
        kernel::time::delay::udelay(kernel::time::Delta::from_millis(1));
    }
}

/// The points in debugfs, removed on drop.
pub(crate) struct Points(());

impl Points {
    /// Adds them, where the kernel has fault injection.
    pub(crate) fn add() -> Self {
        #[cfg(CONFIG_FAULT_INJECTION_DEBUG_FS)]
        // SAFETY: Called once, when the module is loaded.
        unsafe {
            crate::bindings::smbd_faults_add()
        };
        Self(())
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        #[cfg(CONFIG_FAULT_INJECTION_DEBUG_FS)]
        // SAFETY: The counterpart of `add`.
        unsafe {
            crate::bindings::smbd_faults_remove()
        };
    }
}
