// SPDX-License-Identifier: GPL-2.0

//! The client's memory regions: a pool per connection, and one round of use by a request.
//!
//! register takes a free region, maps the request's memory and queues the registration in front of
//! the next message (rule M3), so it needs neither doorbell nor completion of its own. deregister
//! returns when the peer can no longer reach the memory (M5): because the registration never went
//! out, because the peer was seen to invalidate exactly this key (I2), because our own
//! invalidation completed, or because the region is gone.
//!
//! A [`Region`] given to the consumer may outlive its socket: teardown detaches it, frees what
//! needs the device, and leaves an empty shell.
//!
//! Register and deregister sleep; [`Pool::invalidated_by_peer`] runs in completions.

use super::connection::Connection;
use super::log::log;
use crate::kern::errno::ENOTCONN;
use crate::kern::flag::Flag;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::ring::Ring;
use crate::kern::stall::Stall;
use crate::kern::time::now_ms;
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use crate::proto::cause::{self, Cause};
use crate::proto::pdu::BufferDescriptor;
use crate::rdma::mr::{MapError, Memory, Mr};
use crate::rdma::post::PostError;
use crate::rdma::qp::Qp;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex, SetOnce};

/// Where a region is in its round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In the pool.
    Ready,
    /// The peer may use it under this key.
    Registered(u32),
    /// The peer has invalidated it.
    Invalidated,
    /// Out of use.
    Gone,
}

/// What needs the connection and its device.
struct Attached {
    connection: Arc<Connection>,
    region: Arc<Mr>,
    bytes: usize,
}

/// A region as the consumer holds it.
#[pin_data]
pub(crate) struct Region {
    #[pin]
    phase: IrqLock<Phase>,
    #[pin]
    attached: Mutex<Option<Attached>>,
}

/// The regions of a connection.
#[pin_data]
pub(crate) struct Pool {
    all: SetOnce<KVec<Arc<Region>>>,
    #[pin]
    free: IrqLock<Ring<Arc<Region>>>,
    /// Waiting for a free region.
    #[pin]
    pub(crate) ready: WaitQueue,
    used: Atomic<u32>,
    exhausted: Flag,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all: SetOnce::new(),
            free <- new_irq_lock!(Ring::empty(), c"Pool::free"),
            ready <- new_wait_queue!(c"Pool::ready"),
            used: Atomic::new(0),
            exhausted: Flag::new(),
        })
    }

    /// Allocates `count` regions of `pages` pages for a connection. Once. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says; the pool stays empty then.
    pub(crate) fn fill(
        &self,
        connection: &Arc<Connection>,
        qp: &Qp<Connection>,
        count: u32,
        pages: u32,
    ) -> Result {
        // CAST: A few dozen.
        let count = count as usize;
        let mut all = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut free = Ring::with_capacity(count)?;
        for _ in 0..count {
            let region = Mr::new(qp.pd().clone(), pages)?;
            if all.is_empty() {
                region.keep_room()?;
            }
            let region = Region::new(connection.clone(), region)?;
            all.push(region.clone(), GFP_KERNEL)?;
            let _ = free.push(region);
        }
        self.all.populate(all);
        *self.free.lock() = free;
        Ok(())
    }

    /// Free regions.
    pub(crate) fn free_count(&self) -> usize {
        self.free.lock().len()
    }

    /// Regions with a consumer.
    pub(crate) fn used_count(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Records that the peer invalidated this key; false when it is no live registration of this
    /// connection (rule I4). Any context.
    pub(crate) fn invalidated_by_peer(&self, key: u32) -> bool {
        let mut all = self.all.as_ref().into_iter().flatten();
        all.any(|region| {
            let mut phase = region.phase.lock();
            let found = *phase == Phase::Registered(key);
            if found {
                *phase = Phase::Invalidated;
            }
            found
        })
    }

    /// A free region; with `roomy` the first one, which has room for all there may be. The others get
    /// theirs when they need it, which takes much less memory; but memory may be short just because what we
    /// are asked to write has not been written yet (R45).
    fn pop(&self, roomy: bool) -> Option<Arc<Region>> {
        let mut free = self.free.lock();
        if !roomy {
            return free.pop();
        }
        let first = self.all.as_ref()?.first()?;
        free.remove(|region| Arc::ptr_eq(region, first))
    }

    /// Waits for a free region; [`None`] when the connection is over or a signal came.
    fn take(&self, connection: &Connection, roomy: bool) -> Option<Arc<Region>> {
        if self.free.lock().is_empty() && self.exhausted.set() {
            let used = self.used_count();
            log!(
                connection,
                Info,
                Mr,
                "all {} memory regions are in use",
                used
            );
        }
        let stall = Stall {
            waits: &connection.statistics.waits_for_region,
            us: &connection.statistics.waits_for_region_us,
        };
        let outcome = stall.wait(&self.ready, Signals::Heed, None, || {
            if !connection.is_connected() {
                return Some(None);
            }
            self.pop(roomy).map(Some)
        });
        outcome.unwrap_or(None)
    }

    /// Returns a region that is ready.
    fn put(&self, region: Arc<Region>) {
        *region.phase.lock() = Phase::Ready;
        let _ = self.free.lock().push(region);
        self.ready.wake_all();
    }

    /// Takes every region from its connection for good. The queue pair is closed. Sleeps.
    pub(crate) fn detach(&self, qp: &Qp<Connection>) {
        let free = core::mem::replace(&mut *self.free.lock(), Ring::empty());
        drop(free);
        for region in self.all.as_ref().into_iter().flatten() {
            *region.phase.lock() = Phase::Gone;
            let attached = region.attached.lock().take();
            if let Some(attached) = attached {
                qp.disable_region(&attached.region);
            }
        }
    }
}

impl Region {
    fn new(connection: Arc<Connection>, region: Arc<Mr>) -> Result<Arc<Self>> {
        let attached = Attached {
            connection,
            region,
            bytes: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                phase <- new_irq_lock!(Phase::Ready, c"Region::phase"),
                attached <- new_mutex!(Some(attached), "Region::attached"),
            }),
            GFP_KERNEL,
        )
    }

    /// Registers a request's memory; the iterator moves to its end.
    ///
    /// [`None`] fails this request only: too large, no memory, a signal, or the connection is over.
    pub(crate) fn register(
        connection: &Arc<Connection>,
        memory: &mut Memory<'_, '_>,
    ) -> Option<Arc<Region>> {
        let pool = &connection.pool;
        let mut region = pool.take(connection, false)?;
        let mut begun = region.begin(memory);
        if begun == Err(MapError::NoRoom) {
            pool.put(region);
            region = pool.take(connection, true)?;
            begun = region.begin(memory);
        }
        match begun {
            Ok(()) => {
                pool.used.add(1, Relaxed);
                Some(region)
            }
            Err(error) => {
                log!(connection, Info, Mr, "memory not registered: {:?}", error);
                pool.put(region);
                None
            }
        }
    }

    /// Maps the memory and queues the registration.
    fn begin(self: &Arc<Self>, memory: &mut Memory<'_, '_>) -> Result<(), MapError> {
        let mut attached = self.attached.lock();
        let attached = (*attached)
            .as_mut()
            .ok_or(MapError::Failed(ENOTCONN.into()))?;
        let qp = attached
            .connection
            .qp()
            .ok_or(MapError::Failed(ENOTCONN.into()))?;
        attached.bytes = attached.region.map(memory)?;
        *self.phase.lock() = Phase::Registered(attached.region.key());
        qp.queue_registration(&attached.region)
            .inspect_err(|_| attached.region.unmap())?;
        Ok(())
    }

    /// What the peer is told: address, key and length; all ones when nothing is registered.
    pub(crate) fn descriptor(&self) -> BufferDescriptor {
        let attached = self.attached.lock();
        let phase = *self.phase.lock();
        match (attached.as_ref(), phase) {
            (Some(attached), Phase::Registered(token)) => BufferDescriptor {
                offset: attached.region.address(),
                token,
                length: u32::try_from(attached.bytes).unwrap_or(u32::MAX),
            },
            _ => BufferDescriptor::GONE,
        }
    }

    /// Ends a request's use: returns when the peer cannot reach the memory any more.
    pub(crate) fn deregister(self: Arc<Self>) {
        let attached = self.attached.lock();
        let Some(parts) = attached.as_ref() else {
            return;
        };
        let connection = parts.connection.clone();
        let reusable = match connection.qp() {
            Some(qp) => self.end(&connection, qp, &parts.region),
            None => false,
        };
        drop(attached);
        connection.pool.used.fetch_sub(1u32, Relaxed);
        if reusable {
            connection.pool.put(self);
        } else {
            *self.phase.lock() = Phase::Gone;
        }
    }

    /// Takes the registration out of force and unmaps; false when the region had to be given up.
    fn end(&self, connection: &Arc<Connection>, qp: &Qp<Connection>, region: &Arc<Mr>) -> bool {
        let never_posted = qp.unqueue_registration(region);
        if never_posted || *self.phase.lock() == Phase::Invalidated {
            region.unmap();
            return true;
        }
        if connection.is_connected() && self.invalidate(connection, qp, region).is_ok() {
            region.unmap();
            return true;
        }
        qp.disable_region(region);
        false
    }

    /// Invalidates locally and waits for it.
    fn invalidate(
        &self,
        connection: &Arc<Connection>,
        qp: &Qp<Connection>,
        region: &Arc<Mr>,
    ) -> Result {
        loop {
            let rooms = connection.rooms();
            match qp.post_invalidation(region) {
                Ok(()) => {
                    let since = now_ms();
                    return region.wait_invalidated(|| connection.is_dead_or_stuck(since));
                }
                Err(PostError::Full) => connection.wait_for_room(rooms)?,
                Err(PostError::Failed(error)) => {
                    connection.fail(Cause::NotPosted(
                        cause::Request::Invalidation,
                        error.to_errno(),
                    ));
                    return Err(error);
                }
            }
        }
    }
}
