// SPDX-License-Identifier: GPL-2.0

//! What all connections of the module share: its workqueues and the list of its sockets.

use super::connection::{Connection, Statistics};
use super::log::Limiter;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::noio::NoIo;
use crate::kern::work::{Service, WorkQueue};
use crate::proto::failures::Failures;
use crate::rdma::client::{Leaving, Watcher};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

/// The workqueues, named as administrators find them in sysfs.
pub(crate) struct Queues {
    /// Negotiation as acceptor.
    pub(crate) accept: WorkQueue,
    /// Negotiation as initiator.
    pub(crate) connect: WorkQueue,
    /// Phase and keepalive timers.
    pub(crate) idle: WorkQueue,
    /// The work that follows a first error. Write-back may wait for it.
    pub(crate) cleanup: WorkQueue,
    /// Teardown of children nobody accepted; waits for the other queues.
    pub(crate) reap: WorkQueue,
}

/// The module's common state.
#[pin_data]
pub(crate) struct Shared {
    /// The workqueues.
    pub(crate) queues: Queues,
    /// The size of messages that the administrator asked for, bytes; none: what the consumer asks for.
    pub(crate) message_size: Option<u32>,
    /// Keeps error lines from filling the log.
    #[pin]
    pub(crate) limiter: IrqLock<Limiter>,
    /// Where connecting failed last.
    #[pin]
    pub(crate) failures: IrqLock<Failures>,
    /// Every connection that is not torn down, so that none is left when the module goes.
    #[pin]
    sockets: Mutex<KVec<Arc<Connection>>>,
    /// What happened on the connections that are torn down.
    pub(super) gone: Statistics,
    /// The longest teardown so far, milliseconds: whoever releases a socket waits for it (R14). Written under
    /// the list's lock.
    pub(super) longest_teardown: Atomic<u64>,
}

impl Shared {
    /// Creates the workqueues and an empty list. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn new(message_size: Option<u32>) -> Result<Arc<Self>> {
        let queues = Queues {
            accept: WorkQueue::new(c"smbdirect-accept", Service::Normal)?,
            connect: WorkQueue::new(c"smbdirect-connect", Service::Normal)?,
            idle: WorkQueue::new(c"smbdirect-idle", Service::Normal)?,
            cleanup: WorkQueue::new(c"smbdirect-cleanup", Service::Reclaim)?,
            reap: WorkQueue::new(c"smbdirect-reap", Service::Reclaim)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                queues,
                message_size,
                limiter <- new_irq_lock!(Limiter::new(), c"Shared::limiter"),
                failures <- new_irq_lock!(Failures::new(), c"Shared::failures"),
                sockets <- new_mutex!(KVec::new(), "Shared::sockets"),
                gone: Statistics::new(),
                longest_teardown: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Lists a new connection. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn add(&self, connection: &Arc<Connection>) -> Result {
        // Teardown takes the same mutex, and write-back may wait for a teardown.
        let _scope = NoIo::enter();
        Ok(self.sockets.lock().push(connection.clone(), GFP_KERNEL)?)
    }

    /// Forgets a connection that is torn down, which took so long. Sleeps.
    pub(crate) fn remove(&self, connection: &Arc<Connection>, milliseconds: u64) {
        let mut sockets = self.sockets.lock();
        let removed = match sockets
            .iter()
            .position(|other| Arc::ptr_eq(other, connection))
        {
            Some(at) => sockets.remove(at).ok(),
            None => None,
        };
        connection.statistics.add_to(&self.gone);
        let longest = self.longest_teardown.load(Relaxed).max(milliseconds);
        self.longest_teardown.store(longest, Relaxed);
        drop(sockets);
        drop(removed);
    }

    /// Calls `f` with each connection that is listed, and then with the counts of those that are not any
    /// more. Sleeps; `f` must not create or tear down a connection.
    pub(crate) fn each(&self, mut f: impl FnMut(&Arc<Connection>), gone: impl FnOnce(&Statistics)) {
        let sockets = self.sockets.lock();
        sockets.iter().for_each(&mut f);
        gone(&self.gone);
    }

    /// Waits until no work of a connection that is torn down runs any more, so that none of them
    /// holds the last reference to the queues. Process context.
    pub(crate) fn flush(&self) {
        let queues = &self.queues;
        for queue in [
            &queues.reap,
            &queues.cleanup,
            &queues.accept,
            &queues.connect,
            &queues.idle,
        ] {
            queue.flush();
        }
    }

    /// A connection still listed whose socket a consumer holds. When the module goes, its users are
    /// gone; children that were never accepted go with their listener.
    pub(crate) fn leftover(&self) -> Option<Arc<Connection>> {
        let sockets = self.sockets.lock();
        let mut given = sockets.iter().filter(|socket| socket.given.is_set());
        given.next().cloned()
    }
}

impl Watcher for Shared {
    fn device_goes(&self, device: &Leaving<'_>) {
        let on_it = |connection: &&Arc<Connection>| {
            let qp = connection.qp();
            qp.is_some_and(|qp| device.has(qp.pd().port()))
        };
        let sockets = self.sockets.lock();
        // All before the first disconnects: both ends of a connection may be on this device.
        for connection in sockets.iter().filter(on_it) {
            connection.device_goes();
        }
        for connection in sockets.iter().filter(on_it) {
            connection.start_cleanup();
        }
    }
}
