// SPDX-License-Identifier: GPL-2.0

//! The server's RDMA transfers: the peer's descriptors, cut to what the device can do at a time.
//!
//! A transfer needs contexts of the core (`rdma_rw`), of which a connection has a fixed number. A
//! batch takes all its contexts in one step and holds none while it waits, so parallel callers
//! cannot block each other (R42); who waits for contexts is not overtaken. The call is synchronous: when
//! it returns nothing refers to the buffer (B8).

use super::connection::Connection;
use super::end::completion;
use super::log::log;
use crate::kern::counters::count;
use crate::kern::errno::ENOTCONN;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::stall::Stall;
use crate::kern::time::now_ms;
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use crate::proto::cause::{Cause, Request};
use crate::proto::descriptor::Walk;
use crate::proto::pdu::DESCRIPTOR_LEN;
use crate::proto::sizing::RwPlan;
use crate::rdma::dma::Direction;
use crate::rdma::qp::Qp;
use crate::rdma::rw::{self, LocalBuffer, Segment, TransferError, Work};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Contexts at hand.
struct Contexts {
    plan: RwPlan,
    /// The most pages of one segment.
    piece_pages: u32,
    free: u32,
    /// Somebody waits for contexts; the next one waits behind.
    turn_taken: bool,
    /// Workspaces of earlier transfers.
    idle: KVec<KBox<Workspace>>,
}

/// What a transfer works with, kept for the next one: so that those of few pieces do not allocate.
struct Workspace {
    /// A copy of the peer's descriptors.
    descriptors: KVVec<u8>,
    segments: KVVec<Segment>,
    room: rw::Room,
}

/// The most workspaces that are kept.
const IDLE: u32 = 32;

/// The largest one that is kept, contexts and pages of `rw::Room`, and descriptors: the memory of a transfer of many pieces is
/// not held for those of few.
const IDLE_CAPACITY: usize = 64;

/// The RDMA transfers of a connection.
#[pin_data]
pub(crate) struct Transfers {
    #[pin]
    contexts: IrqLock<Contexts>,
    /// Waiting for contexts.
    #[pin]
    pub(crate) wait: WaitQueue,
}

/// Segments of one chain; bounds the memory of a batch.
const MAX_SEGMENTS: usize = 64;

impl Transfers {
    /// No contexts yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        let none = Contexts {
            plan: RwPlan {
                pages_per_credit: 1,
                credits: 0,
            },
            piece_pages: 0,
            free: 0,
            turn_taken: false,
            idle: KVec::new(),
        };
        pin_init!(Self {
            contexts <- new_irq_lock!(none, c"Transfers::contexts"),
            wait <- new_wait_queue!(c"Transfers::wait"),
        })
    }

    /// Sets what the queue pair was made for. A segment has at most `piece_pages` pages. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn set_plan(&self, plan: RwPlan, piece_pages: u32) -> Result {
        let contexts = Contexts {
            plan,
            piece_pages,
            free: plan.credits,
            turn_taken: false,
            // A transfer takes one context at least.
            idle: KVec::with_capacity(usize::try_from(plan.credits.min(IDLE))?, GFP_KERNEL)?,
        };
        let before = core::mem::replace(&mut *self.contexts.lock(), contexts);
        drop(before);
        Ok(())
    }

    /// A workspace that is not in use.
    fn workspace(&self, qp: &Qp<Connection>) -> Result<KBox<Workspace>> {
        let idle = self.contexts.lock().idle.pop();
        if let Some(workspace) = idle {
            return Ok(workspace);
        }
        count(&qp.pd().counters().allocations, 1);
        let workspace = Workspace {
            descriptors: KVVec::new(),
            segments: KVVec::new(),
            room: rw::Room::new::<Connection>()?,
        };
        Ok(KBox::new(workspace, GFP_KERNEL)?)
    }

    /// Keeps a workspace whose transfer succeeded.
    fn keep(&self, workspace: KBox<Workspace>) {
        // The peer says how many descriptors there are.
        let descriptors = workspace.descriptors.capacity() / DESCRIPTOR_LEN;
        if workspace.room.capacity().max(descriptors) <= IDLE_CAPACITY {
            // What does not fit is dropped when the lock is free again.
            let _rejected = self.contexts.lock().idle.push_within_capacity(workspace);
        }
    }

    fn plan(&self) -> (RwPlan, u32) {
        let contexts = self.contexts.lock();
        (contexts.plan, contexts.piece_pages)
    }

    /// Takes `count` contexts at once. Only one caller waits for contexts, the others for their turn:
    /// so a large transfer is not overtaken for ever by small ones.
    fn take(&self, connection: &Connection, count: u32) -> Result {
        self.wait_for(connection, |contexts| {
            let free = !contexts.turn_taken;
            contexts.turn_taken = true;
            free
        })?;
        let result = self.wait_for(connection, |contexts| {
            let left = contexts.free.checked_sub(count);
            contexts.free = left.unwrap_or(contexts.free);
            left.is_some()
        });
        self.contexts.lock().turn_taken = false;
        self.wait.wake_all();
        result
    }

    /// Waits until `take` has got what it wants.
    fn wait_for(&self, connection: &Connection, take: impl Fn(&mut Contexts) -> bool) -> Result {
        let stall = Stall {
            waits: &connection.statistics.waits_for_contexts,
            us: &connection.statistics.waits_for_contexts_us,
        };
        let outcome = stall.wait(&self.wait, Signals::Heed, None, || {
            if !connection.is_connected() {
                return Some(Err(ENOTCONN.into()));
            }
            take(&mut self.contexts.lock()).then_some(Ok(()))
        });
        outcome.unwrap_or(Err(ERESTARTSYS))
    }

    fn put(&self, count: u32) {
        let mut contexts = self.contexts.lock();
        contexts.free = contexts.free.saturating_add(count);
        drop(contexts);
        self.wait.wake_all();
    }
}

/// The next segments that fit the contexts there are, and the contexts they take.
fn next_batch(
    walk: &mut Walk<'_>,
    buffer: &LocalBuffer<'_>,
    (plan, piece_pages): (&RwPlan, u32),
    offset: &mut usize,
    segments: &mut KVVec<Segment>,
) -> Result<u32> {
    let mut taken = 0u32;
    while segments.len() < MAX_SEGMENTS {
        let left = plan.credits.saturating_sub(taken);
        let pages = left.saturating_mul(plan.pages_per_credit).min(piece_pages);
        // The first page may be used in part only.
        let limit = usize::try_from(pages)?
            .saturating_mul(PAGE_SIZE)
            .saturating_sub(buffer.offset_in_page(*offset));
        if limit == 0 {
            break;
        }
        let Some(piece) = walk.next_up_to(u32::try_from(limit).unwrap_or(u32::MAX)) else {
            break;
        };
        let len = usize::try_from(piece.length)?;
        let at = usize::try_from(piece.local_offset)?;
        taken = taken.saturating_add(plan.credits_for(u32::try_from(buffer.pages(at, len))?));
        *offset = at.saturating_add(len);
        let segment = Segment {
            offset: at,
            len,
            remote_address: piece.remote_addr,
            remote_key: piece.rkey,
        };
        segments.push(segment, GFP_KERNEL)?;
    }
    Ok(taken.min(plan.credits))
}

impl Connection {
    /// Moves a whole buffer from or to the memory the peer described. Sleeps.
    ///
    /// `descriptors` is peer data; it is copied before it is looked at.
    ///
    /// # Errors
    ///
    /// * `-ENOTCONN`: the connection is over. `-ERESTARTSYS`: a signal before anything was posted.
    /// * `-EINVAL`: larger than negotiated, or descriptors that are malformed or too short.
    /// * `-EIO`: a request failed; the connection ends. `-ENOMEM`.
    pub(crate) fn transfer(
        self: &Arc<Self>,
        buffer: &LocalBuffer<'_>,
        descriptors: &[u8],
        direction: Direction,
    ) -> Result {
        self.require_connected()?;
        let qp = self.qp().ok_or(ENOTCONN)?;
        let len = u32::try_from(buffer.len()).map_err(|_| EINVAL)?;
        if len > self.params.get().max_read_write_size {
            log!(
                self,
                Error,
                Rw,
                "transfer of {} bytes exceeds the negotiated size",
                len
            );
            return Err(EINVAL);
        }
        if len == 0 {
            return Ok(());
        }
        let _scope = crate::kern::noio::NoIo::enter();
        if direction == Direction::ToDevice && self.write(qp, buffer, len, descriptors)? {
            return Ok(());
        }
        let mut workspace = self.transfers.workspace(qp)?;
        self.transfer_with(&mut workspace, qp, (buffer, len), descriptors, direction)?;
        self.transfers.keep(workspace);
        Ok(())
    }

    /// The rest of [`transfer`](Self::transfer), in a workspace.
    fn transfer_with(
        self: &Arc<Self>,
        workspace: &mut Workspace,
        qp: &Qp<Self>,
        (buffer, len): (&LocalBuffer<'_>, u32),
        descriptors: &[u8],
        direction: Direction,
    ) -> Result {
        let Workspace {
            descriptors: copy,
            segments,
            room,
        } = workspace;
        copy.clear();
        copy.extend_from_slice(descriptors, GFP_KERNEL)?;
        let mut walk = Walk::new(copy, len).map_err(|error| {
            log!(self, Error, Rw, "transfer refused: {}", error.text());
            EINVAL
        })?;
        let (plan, piece_pages) = self.transfers.plan();
        let mut offset = 0;
        while walk.left() > 0 {
            segments.clear();
            let plan = (&plan, piece_pages);
            let contexts = next_batch(&mut walk, buffer, plan, &mut offset, segments)?;
            if segments.is_empty() {
                return Err(EINVAL);
            }
            let work = Work {
                buffer,
                segments,
                direction,
            };
            self.transfers.take(self, contexts)?;
            let result = self.run_batch(qp, room, &work);
            self.transfers.put(contexts);
            result?;
        }
        Ok(())
    }

    /// Writes a small buffer to one piece of memory, ahead of the next message and without waiting, if that is what is asked for and possible now;
    /// false if not.
    fn write(
        self: &Arc<Self>,
        qp: &Qp<Self>,
        buffer: &LocalBuffer<'_>,
        len: u32,
        descriptors: &[u8],
    ) -> Result<bool> {
        let Ok(copy) = <[u8; DESCRIPTOR_LEN]>::try_from(descriptors) else {
            return Ok(false);
        };
        let piece = Walk::new(&copy, len).ok().and_then(|mut walk| walk.next());
        let Some(piece) = piece.filter(|piece| piece.length == len) else {
            return Ok(false);
        };
        let segment = Segment {
            offset: 0,
            len: buffer.len(),
            remote_address: piece.remote_addr,
            remote_key: piece.rkey,
        };
        qp.write(buffer, &segment)
    }

    fn run_batch(self: &Arc<Self>, qp: &Qp<Self>, room: &mut rw::Room, work: &Work<'_>) -> Result {
        let mut rooms = self.rooms();
        let wait = || {
            let seen = core::mem::replace(&mut rooms, self.rooms());
            self.wait_for_room(seen)
        };
        let since = now_ms();
        let dead = || self.is_dead_or_stuck(since);
        let refused = |error: Error| {
            self.fail(Cause::NotPosted(Request::Transfer, error.to_errno()));
        };
        match rw::transfer(qp, room, work, wait, refused, dead) {
            Ok(()) => Ok(()),
            Err(TransferError::Failed(error)) => Err(error),
            Err(TransferError::Completion(status)) => {
                if !status.is_flush() {
                    self.fail(completion(Request::Transfer, status));
                }
                Err(EIO)
            }
        }
    }
}
