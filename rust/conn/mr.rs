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
use crate::kern::noio::NoIo;
use crate::kern::stall::Stall;
use crate::kern::time::now_ms;
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use crate::proto::cause::{self, Cause};
use crate::proto::pdu::BufferDescriptor;
use crate::rdma::mr::{Bounce, MapError, Memory, Mr};
use crate::rdma::post::PostError;
use crate::rdma::qp::Qp;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

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

/// What a region has of its connection.
enum Tie {
    Attached(Attached),
    /// Nothing any more. What the peer may have written to a copy waits for the consumer to ask for it: before, its memory
    /// may belong to somebody else.
    Detached(Option<Bounce>),
}

impl Tie {
    fn attached(&mut self) -> Option<&mut Attached> {
        match self {
            Self::Attached(attached) => Some(attached),
            Self::Detached(_) => None,
        }
    }
}

/// A region as the consumer holds it.
#[pin_data]
pub(crate) struct Region {
    #[pin]
    phase: IrqLock<Phase>,
    #[pin]
    tie: Mutex<Tie>,
}

/// The regions there are.
#[derive(Default)]
struct Regions {
    /// All of them.
    all: KVec<Arc<Region>>,
    /// Those in nobody's hands, a stack: the one used last is the one whose memory is at hand.
    free: KVec<Arc<Region>>,
    /// How many there may be; both lists have room for them.
    limit: usize,
}

impl Regions {
    /// None, and room for `limit`.
    fn new(limit: usize) -> Result<Self> {
        Ok(Self {
            all: KVec::with_capacity(limit, GFP_KERNEL)?,
            free: KVec::with_capacity(limit, GFP_KERNEL)?,
            limit,
        })
    }

    /// Whether there are as many as there may be.
    fn is_full(&self) -> bool {
        self.all.len() >= self.limit
    }
}

/// The regions of a connection.
#[pin_data]
pub(crate) struct Pool {
    #[pin]
    regions: IrqLock<Regions>,
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
            regions <- new_irq_lock!(Regions::default(), c"Pool::regions"),
            ready <- new_wait_queue!(c"Pool::ready"),
            used: Atomic::new(0),
            exhausted: Flag::new(),
        })
    }

    /// Allocates `count` regions of `pages` pages for a connection; up to `limit` come when they are needed. Once. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says; the pool stays empty then.
    pub(crate) fn fill(
        &self,
        connection: &Arc<Connection>,
        qp: &Qp<Connection>,
        (count, limit): (u32, u32),
        pages: u32,
    ) -> Result {
        let mut regions = Regions::new(usize::try_from(limit)?)?;
        for _ in 0..count.min(limit) {
            let region = Mr::new(qp.pd().clone(), pages)?;
            if regions.all.is_empty() {
                region.keep_room()?;
            }
            let region = Region::new(connection.clone(), region)?;
            regions.all.push(region.clone(), GFP_KERNEL)?;
            regions.free.push(region, GFP_KERNEL)?;
        }
        let none = core::mem::replace(&mut *self.regions.lock(), regions);
        drop(none);
        Ok(())
    }

    /// One region more, if there may be one and memory for it. Sleeps.
    fn grow(&self, connection: &Arc<Connection>) -> Option<Arc<Region>> {
        let qp = connection.qp()?;
        // Teardown comes for the regions when the queue pair is closed; it must find this one.
        qp.while_open(|| {
            if self.regions.lock().is_full() {
                return None;
            }
            let _scope = NoIo::enter();
            let pages = connection.params.get().max_frmr_depth;
            let region = Mr::new(qp.pd().clone(), pages).ok()?;
            let region = Region::new(connection.clone(), region).ok()?;
            let mut regions = self.regions.lock();
            // Others may have been faster; then ours is dropped, after the lock.
            let known =
                !regions.is_full() && regions.all.push_within_capacity(region.clone()).is_ok();
            drop(regions);
            known.then_some(region)
        })
    }

    /// Free regions.
    pub(crate) fn free_count(&self) -> usize {
        self.regions.lock().free.len()
    }

    /// Regions with a consumer.
    pub(crate) fn used_count(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Records that the peer invalidated this key; false when it is no live registration of this
    /// connection (rule I4). Any context.
    pub(crate) fn invalidated_by_peer(&self, key: u32) -> bool {
        self.regions.lock().all.iter().any(|region| {
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
        let mut regions = self.regions.lock();
        let Regions { all, free, .. } = &mut *regions;
        if !roomy {
            return free.pop();
        }
        let first = all.first()?;
        let at = free.iter().position(|region| Arc::ptr_eq(region, first))?;
        free.remove(at).ok()
    }

    /// A free region, waited for if there are enough; [`None`] when the connection is over or a signal came.
    fn take(&self, connection: &Arc<Connection>, roomy: bool) -> Option<Arc<Region>> {
        if !connection.is_connected() {
            return None;
        }
        if !roomy && self.free_count() == 0 {
            if let Some(region) = self.grow(connection) {
                return Some(region);
            }
            if self.exhausted.set() {
                let used = self.used_count();
                log!(
                    connection,
                    Info,
                    Mr,
                    "all {} memory regions are in use",
                    used
                );
            }
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
        // There is room for all. A region that comes back after the detachment is dropped, when the lock is free again.
        let _rejected = self.regions.lock().free.push_within_capacity(region);
        self.ready.wake_all();
    }

    /// Takes every region from its connection for good. The queue pair is closed. Sleeps.
    pub(crate) fn detach(&self, qp: &Qp<Connection>) {
        let (all, free) = {
            let mut regions = self.regions.lock();
            let Regions { all, free, .. } = &mut *regions;
            (core::mem::take(all), core::mem::take(free))
        };
        drop(free);
        for region in all {
            *region.phase.lock() = Phase::Gone;
            // A deregistration that comes meanwhile waits here until the memory is unmapped.
            let mut tie = region.tie.lock();
            if let Tie::Attached(attached) = &*tie {
                let bounce = qp.disable_region(&attached.region);
                let attached = core::mem::replace(&mut *tie, Tie::Detached(bounce));
                drop(tie);
                drop(attached);
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
                tie <- new_mutex!(Tie::Attached(attached), "Region::tie"),
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
        let mut tie = self.tie.lock();
        let attached = tie.attached().ok_or(MapError::Failed(ENOTCONN.into()))?;
        let qp = attached
            .connection
            .qp()
            .ok_or(MapError::Failed(ENOTCONN.into()))?;
        attached.bytes = attached.region.map(memory)?;
        *self.phase.lock() = Phase::Registered(attached.region.key());
        qp.queue_registration(&attached.region)
            .inspect_err(|_| drop(attached.region.unmap()))?;
        Ok(())
    }

    /// What the peer is told: address, key and length; all ones when nothing is registered.
    pub(crate) fn descriptor(&self) -> BufferDescriptor {
        let mut tie = self.tie.lock();
        let phase = *self.phase.lock();
        match (tie.attached(), phase) {
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
        let _scope = NoIo::enter();
        let mut tie = self.tie.lock();
        let attached = match &mut *tie {
            Tie::Attached(attached) => attached,
            Tie::Detached(bounce) => return bounce.take().map_or((), Bounce::deliver),
        };
        let connection = attached.connection.clone();
        let reusable = match connection.qp() {
            Some(qp) => self.end(&connection, qp, &attached.region),
            None => false,
        };
        drop(tie);
        connection.pool.used.fetch_sub(1u32, Relaxed);
        if reusable {
            connection.pool.put(self);
        } else {
            *self.phase.lock() = Phase::Gone;
        }
    }

    /// Takes the registration out of force and unmaps; false when the region had to be given up.
    fn end(&self, connection: &Arc<Connection>, qp: &Qp<Connection>, region: &Arc<Mr>) -> bool {
        if qp.unqueue_registration(region) {
            // Nobody has written anything.
            drop(region.unmap());
            return true;
        }
        let ended = *self.phase.lock() == Phase::Invalidated
            || (connection.is_connected() && self.invalidate(connection, qp, region).is_ok());
        let bounce = match ended {
            true => region.unmap(),
            false => qp.disable_region(region),
        };
        if let Some(bounce) = bounce {
            bounce.deliver();
        }
        ended
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
