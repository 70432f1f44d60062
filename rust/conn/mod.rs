// SPDX-License-Identifier: GPL-2.0

//! The engine: connections and listeners, made of `proto`'s decisions and `rdma`'s verbs.
//!
//! # Objects
//!
//! A [`Socket`](socket::Socket) is the front handle, one per pointer given out; dropping it ends the
//! connection and returns when nothing of it runs any more. It holds an `Arc` of the
//! [`Connection`](connection::Connection), which works, timers and callbacks also hold while they
//! run. A listener is a connection with a queue of children. Memory regions given to a consumer
//! ([`Region`](mr::Region)) may outlive their socket.
//!
//! # Contexts
//!
//! Completions (`recv`, parts of `credit`) run in softirq, receives of ksmbd in a workqueue: they never
//! sleep and allocate nothing. Connection manager events, works and the consumers' calls run
//! in process context.
//!
//! # Locks
//!
//! See Documentation/locking.rst. Each lock protects one plain struct; the only nesting on the data
//! path is credits, then the receive queue's lock, then the buffer queue.

pub(crate) mod connection;
pub(crate) mod connector;
pub(crate) mod credit;
pub(crate) mod debug;
pub(crate) mod end;
pub(crate) mod files;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod mr;
pub(crate) mod negotiate;
pub(crate) mod recv;
pub(crate) mod right;
pub(crate) mod send;
pub(crate) mod setup;
pub(crate) mod shared;
pub(crate) mod socket;
pub(crate) mod teardown;
pub(crate) mod transfer;
pub(crate) mod word;
