// SPDX-License-Identifier: GPL-2.0

//! The first error of a connection: it ends it, once, and is reported once.
//!
//! [`Connection::fail`] may be called from any context, also from completions: it stores the error,
//! wakes everybody who waits for anything of this connection, and queues the cleanup work, which does
//! what may sleep, the report among it.

use super::connection::{Connection, CLEANUP};
use super::log::{log, Level};
use crate::kern::errno::Errno;
use crate::kern::time::now_ms;
use crate::kern::work::Work;
use crate::proto::cause::{self, Cause, End};
use crate::proto::errno;
use crate::proto::rule::Rule;
use crate::proto::state::{Event, Status};
use crate::rdma::qp;
use core::net::SocketAddr;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Cause::Local(error.to_errno())
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::Local(errno.to_errno())
    }
}

// What is printed with the kernel's macros has the kernel's trait.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// Between whom, and on which device, as far as it is known.
pub(super) struct Ends<'a> {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    device: Option<&'a CStr>,
}

impl fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_address(self.local, f)?;
        f.write_str(" to ")?;
        show_address(self.peer, f)?;
        match self.device.and_then(|device| device.to_str().ok()) {
            Some(device) => {
                f.write_str(" on ")?;
                f.write_str(device)
            }
            None => Ok(()),
        }
    }
}

fn show_address(address: Option<SocketAddr>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match address {
        Some(address) => core::fmt::Display::fmt(&address, f),
        None => f.write_str("?"),
    }
}

/// What a completion with an error says.
pub(crate) fn completion(request: cause::Request, status: qp::Status) -> Cause {
    if status.is_flush() {
        return Cause::Flushed;
    }
    Cause::Failed(request, status.text())
}

impl Connection {
    /// The first error ends the connection; later ones only add what they know about the status.
    /// Any context.
    pub(crate) fn fail(self: &Arc<Self>, cause: Cause) {
        self.fail_as(cause, None);
    }

    /// [`fail`](Self::fail) that says what the status is from now on.
    pub(crate) fn fail_as(self: &Arc<Self>, cause: Cause, forced: Option<Status>) {
        if self.store_error(cause, forced) {
            self.start_cleanup();
        }
    }

    /// The part of [`fail`](Self::fail) that tells nobody outside; true for the first error, which
    /// [`start_cleanup`](Self::start_cleanup) has to follow.
    pub(super) fn store_error(&self, cause: Cause, forced: Option<Status>) -> bool {
        let errno = cause.errno();
        let changed = self.on(Event::Fail { errno, forced });
        let first = changed.filter(|(old, _)| old.first_error().is_none());
        // A flush explains nothing, and there is one for each request of a queue pair that broke.
        if first.is_some() || cause != Cause::Flushed {
            let mut end = self.end.lock();
            *end = match (first, *end) {
                (Some((old, _)), _) => Some(End::new(cause, old.status())),
                (None, end) => end.map(|end| end.explained(cause)),
            };
        }
        if changed.is_some() {
            self.wake_all();
        }
        first.is_some()
    }

    /// Queues the cleanup, once there is an error. Any context.
    pub(super) fn start_cleanup(self: &Arc<Self>) {
        Work::<Self, CLEANUP>::queue(self, &self.shared.queues.cleanup);
    }

    /// [`fail`](Self::fail) because the peer broke a rule.
    pub(crate) fn fail_rule(self: &Arc<Self>, rule: Rule) {
        self.fail(Cause::Rule(rule, errno::ECONNABORTED));
    }

    /// Tells how the connection ended, once it is known: one line for the log, and a record for a
    /// destination that was not reached. Process context.
    pub(crate) fn report(&self) {
        let end = *self.end.lock();
        let Some(end) = end else { return };
        if !self.reported.set() {
            return;
        }
        let (to, ends) = (self.destination.copy(), self.ends());
        match to {
            Some(to) if end.status < Status::Connected => self.report_unreached(to, end),
            _ => {
                let level = Level::error_if(end.is_error(to.is_some()));
                log!(self, (level), Event, "{} ended in {}", ends, end);
            }
        }
    }

    /// Between whom, and on which device. Process context.
    pub(super) fn ends(&self) -> Ends<'_> {
        // Not cloned: the last reference must not go here, under whatever the caller holds.
        let (local, peer) = match &*self.id.lock() {
            Some(id) => id.addresses(),
            None => (None, None),
        };
        Ends {
            local,
            peer: self.destination.copy().or(peer),
            device: self.qp().map(|qp| qp.pd().port().device_name()),
        }
    }

    /// Tells that a destination was not reached. The same failure again is no news: whoever connects
    /// again and again must not fill the log.
    pub(crate) fn report_unreached(&self, to: SocketAddr, end: End) {
        // Who gives up says nothing of the destination.
        if matches!(end.cause, Cause::ShutDown | Cause::Interrupted) {
            return;
        }
        let news = self.shared.failures.lock().failed(to, end, now_ms());
        let (ends, advice) = (self.ends(), end.cause.advice(end.status));
        // That there is no iWARP is nothing to tell: applications ask for it first.
        let level = Level::error_if(news && end.cause != Cause::NoIwarp);
        log!(
            self,
            (level),
            Event,
            "{} failed in {}; {}",
            ends,
            end,
            advice
        );
    }

    /// An initiator is connected.
    pub(crate) fn reached(&self) {
        if let Some(to) = self.destination.copy() {
            self.shared.failures.lock().connected(to);
        }
    }
}
