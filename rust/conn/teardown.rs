// SPDX-License-Identifier: GPL-2.0

//! The end of a connection: the work after the first error, and the teardown of its object.
//!
//! The cleanup work disconnects, or answers the peer's disconnect at once (R15), and hands a child
//! nobody accepted to its reap work. The teardown, run by whoever drops the front handle, is
//! synchronous and bounded (R14): a short grace for the peer's answer, then every source of
//! callbacks is shut off in turn, the queue pair is drained and destroyed, and the last
//! references go.

use super::connection::{Connection, CLEANUP, SETUP, TIMER};
use super::log::log;
use crate::kern::errno::ENOTCONN;
use crate::kern::noio::NoIo;
use crate::kern::time::{jiffies, now_ms};
use crate::kern::wait::Signals;
use crate::kern::work::{Run, Work};
use crate::proto::cause::Cause;
use crate::proto::state::{Event, State};
use crate::rdma::device::Link;
use kernel::sync::Arc;

/// How long the teardown waits for the peer to answer the disconnect, milliseconds.
const GRACE_MS: u32 = 2000;

/// The same for a child nobody accepted, which holds a place in its listener's queue (R1).
const CHILD_GRACE_MS: u32 = 500;

impl Run<CLEANUP> for Connection {
    fn run(this: Arc<Self>) {
        // A mount that has to write waits for its reconnect, and that for us.
        let _scope = NoIo::enter();
        this.clean_up();
        this.reap_child();
    }
}

impl Connection {
    /// What follows the first error. May run more than once.
    fn clean_up(self: &Arc<Self>) {
        self.flow.lock().keepalive.stop();
        Work::<Self, TIMER>::cancel(self);
        self.report();
        if self.state().is_established() {
            self.disconnect();
        } else {
            self.on(Event::Closed);
        }
        self.fail_children();
        self.wake_all();
    }

    /// Begins the disconnect handshake, or answers the peer's, once.
    fn disconnect(self: &Arc<Self>) {
        if !self.disconnect_sent.set() {
            return;
        }
        self.on(Event::Disconnecting);
        if let (Some(qp), Some(Link::Iwarp)) = (self.qp(), self.link.copy()) {
            // The orderly end of an iWARP connection leaves a READ without answer alone, and even a
            // drain behind it.
            qp.break_off();
        }
        let result = match self.id() {
            Some(id) => id.disconnect(),
            None => Err(ENOTCONN.into()),
        };
        if let Err(error) = result {
            // A refused disconnect counts as done (R16).
            log!(self, Info, Event, "disconnect refused: {:?}", error);
            self.on(Event::Disconnected);
        }
    }

    /// Ends the connection in the background. Any context.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        self.fail(Cause::ShutDown);
    }

    /// Ends everything; afterwards nothing of the connection runs. Process context. Only the first
    /// call does something.
    pub(crate) fn tear_down(self: &Arc<Self>) {
        if !self.torn_down.set() {
            return;
        }
        let _scope = NoIo::enter();
        let start = now_ms();
        self.fail(Cause::ShutDown);
        Work::<Self, CLEANUP>::disable(self);
        self.clean_up();
        let grace = if self.given.is_set() {
            GRACE_MS
        } else {
            CHILD_GRACE_MS
        };
        let grace = jiffies(grace).try_into().ok();
        let over = |state: State| state.is_over().then_some(());
        if self.word.wait(Signals::Ignore, grace, over).is_err() {
            log!(self, Info, Event, "peer does not answer the disconnect");
            self.on(Event::Disconnected);
        }
        // Who sends the request holds up the handlers.
        self.end_connector(grace);
        let mut id = self.id.lock().take();
        if let Some(id) = &id {
            id.silence();
        }
        self.connector.join();
        if self.children.is_used() {
            // Nothing of a listener needs its id; without it no more children come.
            id = None;
        }
        Work::<Self, SETUP>::disable(self);
        Work::<Self, TIMER>::disable(self);
        self.drop_children();
        if let Some(qp) = self.qp() {
            qp.close();
            self.pool.detach(qp);
        }
        self.wake_all();
        self.on(Event::Destroyed);
        // For an error that came in between.
        self.report();
        drop(id);
        self.shared.remove(self, now_ms().saturating_sub(start));
    }
}
