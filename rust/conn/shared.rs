// SPDX-License-Identifier: GPL-2.0

//! What all connections of the module share: its workqueues and the list of its sockets.

use super::connection::Connection;
use super::log::Limiter;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::noio::NoIo;
use crate::kern::work::{Service, WorkQueue};
use kernel::prelude::*;
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
    /// Keeps error lines from filling the log.
    #[pin]
    pub(crate) limiter: IrqLock<Limiter>,
    /// Every connection that is not torn down, so that none is left when the module goes.
    #[pin]
    sockets: Mutex<KVec<Arc<Connection>>>,
}

impl Shared {
    /// Creates the workqueues and an empty list. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
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
                limiter <- new_irq_lock!(Limiter::new(), c"Shared::limiter"),
                sockets <- new_mutex!(KVec::new(), "Shared::sockets"),
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

    /// Forgets a connection that is torn down. Sleeps.
    pub(crate) fn remove(&self, connection: &Arc<Connection>) {
        let mut sockets = self.sockets.lock();
        let removed = match sockets
            .iter()
            .position(|other| Arc::ptr_eq(other, connection))
        {
            Some(at) => sockets.remove(at).ok(),
            None => None,
        };
        drop(sockets);
        drop(removed);
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
