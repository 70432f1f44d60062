// SPDX-License-Identifier: GPL-2.0
//! Why a connection ended, or never came up: the errno for the caller, the words for the one log line,
//! and for a connection that did not come up what an administrator can look at.
//!
//! The application flattens our errno (a mount says "host is down"), so the words must stand alone.

use super::errno::{
    ECONNABORTED, ECONNREFUSED, ECONNRESET, EFAULT, EHOSTUNREACH, EINVAL, ENETDOWN, ENETUNREACH,
    ENODEV, EPROTONOSUPPORT, ERESTARTSYS, ESHUTDOWN, ETIMEDOUT,
};
use super::rule::Rule;
use super::state::Status;
use core::fmt;

/// What a connection asks of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A message to the peer.
    Send,
    /// A buffer for a message of the peer.
    Receive,
    /// Making memory reachable.
    Registration,
    /// Making registered memory unreachable.
    Invalidation,
    /// An RDMA READ or WRITE of the server.
    Transfer,
}

impl Request {
    /// As it stands in a log line.
    pub const fn name(self) -> &'static str {
        match self {
            Request::Send => "send",
            Request::Receive => "receive",
            Request::Registration => "registration",
            Request::Invalidation => "invalidation",
            Request::Transfer => "RDMA transfer",
        }
    }
}

/// The reason of the first error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The application on this side is done with it.
    ShutDown,
    /// The peer disconnected. With the errno of the event, or 0.
    Disconnected(i32),
    /// The device was removed. With the errno of the event, or 0.
    DeviceRemoved(i32),
    /// The listener of a connection that was not accepted yet ended with this errno.
    ListenerGone(i32),
    /// A signal ended the wait for the connection.
    Interrupted,
    /// The connection was not up in time.
    NotInTime,
    /// The connection manager failed with this errno; the status says in which step.
    Step(&'static str, i32),
    /// The peer's side rejected the connection, for the reason of the transport (positive) or this errno.
    Rejected(i32),
    /// The connection manager said something that does not fit.
    OutOfStep,
    /// No iWARP device on the way, which the application asks for first.
    NoIwarp,
    /// The port is not of the kind the application asked for.
    WrongLink,
    /// The device cannot register memory by work requests.
    NoFastRegistration,
    /// The device cannot hold even a minimal connection.
    TooSmall,
    /// The peer broke a rule, which is worth this errno.
    Rule(Rule, i32),
    /// The peer's proposal was answered with a failure; with the errno.
    Refused(i32),
    /// No answer to a keepalive in time.
    NoAnswer,
    /// Sending makes no progress.
    NoProgress,
    /// The rest of a message does not arrive.
    NoRest,
    /// The device does not finish a request.
    Stuck,
    /// The device did not take a request.
    NotPosted(Request, i32),
    /// The device says that a request failed, in its words.
    Failed(Request, &'static str),
    /// Requests came back undone: the connection is gone, and whoever knows why has not said so yet.
    Flushed,
    /// The queue pair broke.
    Broken,
    /// A message was sent in part and its rest never can be.
    Torn,
    /// The application's memory faulted in the midst of a message.
    Fault,
    /// This side failed, for want of memory say.
    Local(i32),
}

impl Cause {
    /// What callers get, a negative errno.
    pub const fn errno(self) -> i32 {
        match self {
            Cause::ShutDown => ESHUTDOWN,
            Cause::Disconnected(errno) => negative_or(errno, ECONNRESET),
            Cause::DeviceRemoved(errno) => negative_or(errno, ENETDOWN),
            Cause::Rejected(errno) => negative_or(errno, ECONNREFUSED),
            Cause::Interrupted => ERESTARTSYS,
            Cause::NotInTime
            | Cause::NoAnswer
            | Cause::NoProgress
            | Cause::NoRest
            | Cause::Stuck => ETIMEDOUT,
            Cause::WrongLink | Cause::NoFastRegistration => EPROTONOSUPPORT,
            Cause::NoIwarp => ENODEV,
            Cause::TooSmall => EINVAL,
            Cause::Fault => EFAULT,
            Cause::OutOfStep | Cause::Failed(..) | Cause::Flushed | Cause::Broken | Cause::Torn => {
                ECONNABORTED
            }
            Cause::ListenerGone(errno)
            | Cause::Step(_, errno)
            | Cause::Rule(_, errno)
            | Cause::Refused(errno)
            | Cause::NotPosted(_, errno)
            | Cause::Local(errno) => negative_or(errno, ECONNABORTED),
        }
    }

    /// Whether nothing went wrong: the usual ends of a connection.
    pub const fn is_usual(self) -> bool {
        matches!(
            self,
            Cause::ShutDown
                | Cause::Disconnected(_)
                | Cause::ListenerGone(_)
                | Cause::Interrupted
                | Cause::Flushed
        )
    }

    /// For a connection that failed to come up in `status`: what to look at.
    pub const fn advice(self, status: Status) -> &'static str {
        match self {
            Cause::WrongLink => {
                "InfiniBand and RoCE are served on port 445, iWARP on port 5445 (mount option port=)"
            }
            Cause::NoIwarp => "port 5445 is for iWARP; see the record of port 445 for RoCE and InfiniBand",
            Cause::NoFastRegistration | Cause::TooSmall => {
                "use another RDMA device, or mount without rdma"
            }
            Cause::Rule(Rule::A2, _) => "the server refuses SMB Direct; see its log",
            Cause::Rule(..) => "the peer does not keep to MS-SMBD; check its version",
            Cause::Rejected(_) => {
                "is the SMB server running there, with RDMA on this interface and port?"
            }
            Cause::DeviceRemoved(_) => "bring the RDMA device back (rdma link)",
            Cause::Local(_) | Cause::NotPosted(..) => "see the kernel log of this machine",
            _ => advice_of_step(status, self.errno()),
        }
    }
}

/// What to look at when a step ends with an errno.
const fn advice_of_step(status: Status, errno: i32) -> &'static str {
    match (status, errno) {
        (Status::Created | Status::ResolveAddrNeeded | Status::ResolveAddrRunning, ENODEV) => {
            "is there an RDMA device on the interface that leads there (rdma link, ip route get)?"
        }
        (
            Status::Created | Status::ResolveAddrNeeded | Status::ResolveAddrRunning,
            EHOSTUNREACH | ENETUNREACH | ETIMEDOUT,
        ) => "is the host up, and is there a route to it (ip route get, ping)?",
        (Status::ResolveRouteNeeded | Status::ResolveRouteRunning, _) => {
            "is the fabric up (subnet manager, rdma link)?"
        }
        (Status::RdmaConnectNeeded | Status::RdmaConnectRunning, _) => {
            "is RDMA on at the server's interface, and do firewalls let it pass (RoCE: UDP 4791, iWARP: TCP 5445)?"
        }
        (Status::NegotiateNeeded | Status::NegotiateRunning, _) => {
            "the peer takes RDMA connections but does not answer as an SMB Direct server; see its log"
        }
        _ => "see the kernel log of both machines",
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Cause::Rejected(reason) if reason > 0 => {
                return write!(f, "rejected by the peer (reason {reason})");
            }
            Cause::Rule(rule, _) => {
                return write!(f, "peer broke rule {}: {}", rule.id(), rule.text())
            }
            Cause::Step(what, _) => return write!(f, "connection manager: {what}"),
            Cause::NotPosted(request, _) => return write!(f, "device takes no {}", request.name()),
            Cause::Failed(request, status) => {
                return write!(f, "{} failed: {status}", request.name())
            }
            Cause::ShutDown => "shut down by this side",
            Cause::Disconnected(_) => "disconnected by the peer",
            Cause::DeviceRemoved(_) => "RDMA device removed",
            Cause::ListenerGone(_) => "listener ended",
            Cause::Interrupted => "interrupted by a signal",
            Cause::NotInTime => "not up in time",
            Cause::Rejected(_) => "rejected by the peer",
            Cause::OutOfStep => "connection manager event that does not fit",
            Cause::NoIwarp => "no iWARP device on the way",
            Cause::WrongLink => "port is not of the wanted kind of RDMA",
            Cause::NoFastRegistration => "device has no fast memory registration",
            Cause::TooSmall => "device is too small",
            Cause::Refused(_) => "proposal of the peer refused",
            Cause::NoAnswer => "no answer to the keepalive",
            Cause::NoProgress => "no progress in sending",
            Cause::NoRest => "rest of a message does not arrive",
            Cause::Stuck => "device does not finish a request",
            Cause::Flushed => "requests flushed",
            Cause::Broken => "fatal event of the queue pair",
            Cause::Torn => "message sent in part only",
            Cause::Fault => "memory of the caller faulted",
            Cause::Local(_) => "failed on this side",
        };
        f.write_str(text)
    }
}

/// `errno` if it is one, else `otherwise`.
pub const fn negative_or(errno: i32, otherwise: i32) -> i32 {
    if errno < 0 {
        errno
    } else {
        otherwise
    }
}

/// How a connection ended: why, in which status, and what callers got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The reason.
    pub cause: Cause,
    /// The status when the first error came.
    pub status: Status,
    /// The first error.
    pub errno: i32,
}

impl End {
    /// The end by a first error.
    pub const fn new(cause: Cause, status: Status) -> Self {
        Self {
            cause,
            status,
            errno: cause.errno(),
        }
    }

    /// A later error may know why requests were flushed; the errno and the status stay.
    pub fn explained(self, cause: Cause) -> Self {
        match (self.cause, cause) {
            (Cause::Flushed, Cause::Flushed | Cause::ShutDown) => self,
            (Cause::Flushed, cause) => Self { cause, ..self },
            _ => self,
        }
    }

    /// Whether the line about it is an error. A server is not told as one what a client does, or the
    /// network, before the connection is up, unless the client breaks a rule.
    pub fn is_error(&self, initiator: bool) -> bool {
        let of_set_up = matches!(
            self.cause,
            Cause::Rejected(_) | Cause::Step(..) | Cause::OutOfStep | Cause::NotInTime
        );
        let theirs = of_set_up && !initiator && self.status < Status::Connected;
        !self.cause.is_usual() && !theirs
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, cause) = (self.status.name(), self.cause);
        write!(f, "{status}: {cause} ({})", self.errno)
    }
}
