// SPDX-License-Identifier: GPL-2.0

//! The initiator's request over iWARP, sent from a thread.
//!
//! A provider may not return from it before TCP is connected (siw does not), and holds the handlers of the id up
//! meanwhile. In a handler it would hold up the connection manager's only worker, and with it everybody who connects
//! to anything. A teardown cannot wait for a silent network either (R14): it interrupts the thread.

use super::connection::Connection;
use crate::kern::flag::Flag;
use crate::kern::noio::NoIo;
use crate::kern::thread::{Body, Thread};
use crate::kern::wait::Signals;
use crate::proto::cause::Cause;
use crate::proto::depth;
use crate::rdma::cm::ConnectParams;
use kernel::ffi::c_long;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

/// See the module's documentation.
#[pin_data]
pub(crate) struct Connector {
    #[pin]
    thread: Mutex<Option<Thread<Connection>>>,
    /// Whether the thread came back.
    done: Flag,
}

impl Connector {
    /// Nothing is sent yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            thread <- new_mutex!(None, "Connector::thread"),
            done: Flag::new(),
        })
    }

    /// Ends what the thread waits for, if there is one. Process context.
    pub(super) fn interrupt(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.interrupt();
        }
    }

    /// Waits for the thread's end, if there is one. Process context.
    pub(crate) fn join(&self) {
        // Not under the lock.
        let thread = self.thread.lock().take();
        drop(thread);
    }
}

impl Body for Connection {
    fn run(this: &Arc<Self>) {
        let _scope = NoIo::enter();
        if let Err(error) = this.send_connect() {
            this.fail(not_sent(error));
        }
        this.connector.done.set();
        this.word.wake();
    }
}

impl Connection {
    /// Has a thread send the request. In the handler that knows the route.
    ///
    /// # Errors
    ///
    /// Those of [`Thread::start`].
    pub(super) fn start_connector(self: &Arc<Self>) -> Result {
        // Under the lock: a teardown that finds no thread is seen by the one that starts.
        let mut thread = self.connector.thread.lock();
        *thread = Some(Thread::start(c"smbdirect-connect", self.clone())?);
        Ok(())
    }

    fn send_connect(&self) -> Result {
        let Some(id) = self.id().filter(|_| !self.is_dead()) else {
            return Ok(());
        };
        let own = self.own_depths();
        id.connect_blocking(&ConnectParams {
            responder_resources: own.responder_resources,
            initiator_depth: own.initiator_depth,
            private_data: &depth::encode(own),
        })
    }

    /// Sees to it that no request is being sent any more; for `grace` the thread may come back by itself. A peer that
    /// is there is not to find the connection gone in the midst of its set-up: siw closes its listener then. Process
    /// context, after the first error.
    pub(super) fn end_connector(&self, grace: Option<c_long>) {
        if self.connector.thread.lock().is_none() {
            return;
        }
        let done = |_| self.connector.done.is_set().then_some(());
        if self.word.wait(Signals::Ignore, grace, done).is_err() {
            self.connector.interrupt();
        }
    }
}

/// The connection manager did not take the request.
pub(super) fn not_sent(error: Error) -> Cause {
    Cause::Step("request not sent", error.to_errno())
}
