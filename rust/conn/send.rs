// SPDX-License-Identifier: GPL-2.0

//! Sending: the right to send, messages under construction, and posting them in batches.
//!
//! Fragments of one upper-layer message are contiguous on the wire (rule F3). So there is one
//! [`Building`] per connection, and who has it may send: it goes with the
//! [`Right`](super::right::Right), is filled, posted, and given back, which wakes the next sender. A
//! consumer's batch keeps it between calls by leaving it parked.
//!
//! Payload is copied into buffers that are mapped for as long as the connection lives. A message is
//! at most one buffer long, so no memory of the caller is ever seen by the device: nothing has to
//! be mapped, waited for or unmapped, and a call returns as soon as its messages are posted (P1,
//! P2, R25). A following iterator fills up the open message (P3).
//!
//! Process context, except where noted.

use super::connection::Connection;
use super::log::log;
use crate::kern::counters::count;
use crate::kern::errno::{EMSGSIZE, ENOTCONN};
use crate::kern::stall::Stall;
use crate::kern::time::{jiffies, now_ms};
use crate::kern::wait::{Interrupted, Signals};
use crate::proto::cause::{Cause, Request};
use crate::proto::fragment::{self, SendError, Train};
use crate::proto::pdu::{DataHeader, PAYLOAD_OFFSET};
use crate::rdma::post::{Message, PostError, SendSlot};
use crate::rdma::qp::Qp;
use kernel::ffi::c_long;
use kernel::iov::IovIterSource;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::Arc;

/// Messages of a batch that go out together (one doorbell, one completion).
const CHAIN: usize = 16;

/// What counts as the keepalive's interval for waits when keepalives are off, milliseconds.
const DEFAULT_INTERVAL_MS: u32 = 120_000;

/// A message being filled.
struct Open {
    slot: SendSlot,
    message: fragment::Message,
    granted: u16,
}

/// The right to send, with what is about to be sent.
pub(crate) struct Building {
    pub(super) chain: KVec<Message>,
    open: Option<Open>,
    train: Train,
    invalidate: Option<u32>,
}

/// A consumer's batch, in the 40 bytes on its stack. Plain data without a destructor.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Batch {
    holds_token: u32,
    need_invalidate: u32,
    remote_key: u32,
}

impl Batch {
    /// A batch whose first message invalidates `remote_key`, if there is one.
    pub(crate) fn new(remote_key: Option<u32>) -> Self {
        Self {
            holds_token: 0,
            need_invalidate: u32::from(remote_key.is_some()),
            remote_key: remote_key.unwrap_or(0),
        }
    }

    /// The key to invalidate, once.
    fn take_invalidate(&mut self) -> Option<u32> {
        let wanted = core::mem::take(&mut self.need_invalidate) != 0;
        wanted.then_some(self.remote_key)
    }
}

impl Connection {
    /// Makes the right to send available with the negotiated sizes. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn open_sender(self: &Arc<Self>, max_send: u32, max_fragmented: u32) -> Result {
        let building = KBox::new(
            Building {
                // One more than a full chain: the message that was open when it filled up.
                chain: KVec::with_capacity(CHAIN + 1, GFP_KERNEL)?,
                open: None,
                train: Train::new(max_send, max_fragmented),
                invalidate: None,
            },
            GFP_KERNEL,
        )?;
        self.right.give_back(building);
        Ok(())
    }

    /// Waits for the right to send. Signals end the wait.
    fn acquire(self: &Arc<Self>) -> Result<KBox<Building>> {
        let stall = Stall {
            waits: &self.statistics.waits_for_turn,
            us: &self.statistics.waits_for_turn_us,
        };
        let outcome = stall.wait(&self.send_wait, Signals::Heed, None, || {
            if !self.is_connected() {
                return Some(Err(ENOTCONN.into()));
            }
            self.right.take().map(Ok)
        });
        outcome.unwrap_or(Err(ERESTARTSYS))
    }

    /// Gives the right to send back, and sends what became due meanwhile.
    fn release(self: &Arc<Self>, mut building: KBox<Building>) {
        self.drop_unsent(&mut building);
        self.right.give_back(building);
        self.send_wait.wake_all();
        self.pump();
    }

    /// Throws away what was never posted. A message of which a part is out ends the connection.
    fn drop_unsent(self: &Arc<Self>, building: &mut Building) {
        if building.train.is_open() || building.open.is_some() || !building.chain.is_empty() {
            self.fail(Cause::Torn);
        }
        let Some(qp) = self.qp() else { return };
        if let Some(open) = building.open.take() {
            qp.return_send_slot(open.slot);
        }
        while let Some(message) = building.chain.pop() {
            qp.return_send_slot(message.slot);
        }
        building.invalidate = None;
    }

    /// Sends from one iterator, as much as one message holds, or a message without data. With a
    /// batch the message may stay open or unposted until the batch's flush.
    ///
    /// Returns the bytes taken.
    ///
    /// # Errors
    ///
    /// * `-EINVAL`: `remaining` does not fit the iterator or the message begun.
    /// * `-EMSGSIZE`: larger than the peer takes.
    /// * `-ENOTCONN`, or the first error: the connection is over.
    /// * `-ERESTARTSYS`: a signal, only before the first fragment of a message.
    pub(crate) fn send_single(
        self: &Arc<Self>,
        batch: Option<&mut Batch>,
        iter: Option<&mut IovIterSource<'_>>,
        remaining: u32,
    ) -> Result<usize> {
        let count = iter.as_ref().map_or(0, |iter| iter.len());
        let fits = match iter {
            Some(_) => remaining != 0 && u32::try_from(count).is_ok_and(|count| count <= remaining),
            None => remaining == 0,
        };
        if !fits {
            log!(
                self,
                Error,
                Send,
                "send of {} bytes with {} remaining",
                count,
                remaining
            );
            return Err(EINVAL);
        }
        self.require_connected()?;
        let Some(batch) = batch else {
            return self.send_unbatched(iter, remaining);
        };
        let mut building = match batch.holds_token {
            0 => self.acquire()?,
            _ => self.right.unpark().ok_or(EINVAL)?,
        };
        batch.holds_token = 1;
        if let Some(key) = batch.take_invalidate() {
            building.invalidate = Some(key);
        }
        let result = self.append(&mut building, iter, remaining);
        self.right.park(building, false);
        result
    }

    /// Sends and posts one message's worth. If more of the upper-layer message is to come the right
    /// to send stays with the caller, whose next call goes on.
    fn send_unbatched(
        self: &Arc<Self>,
        iter: Option<&mut IovIterSource<'_>>,
        remaining: u32,
    ) -> Result<usize> {
        let mut building = match self.right.unpark_unbatched() {
            Some(building) => building,
            None => self.acquire()?,
        };
        let result = self
            .append(&mut building, iter, remaining)
            .and_then(|taken| self.flush(&mut building).map(|()| taken));
        if result.is_ok() && building.train.is_open() {
            self.right.park(building, true);
        } else {
            self.release(building);
        }
        result
    }

    /// Posts what a batch has queued; with `last` the batch is over.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN` or the first error.
    pub(crate) fn flush_batch(self: &Arc<Self>, batch: &mut Batch, last: bool) -> Result {
        if batch.holds_token == 0 {
            return Ok(());
        }
        let mut building = self.right.unpark().ok_or(EINVAL)?;
        let result = self.flush(&mut building);
        if last {
            batch.holds_token = 0;
            self.release(building);
        } else {
            self.right.park(building, false);
        }
        result
    }

    /// Sends a whole upper-layer message. The iterator starts with the four-byte big-endian length
    /// of what follows.
    ///
    /// Returns all bytes, prefix included.
    ///
    /// # Errors
    ///
    /// * `-EINVAL`: the length does not match, or there is nothing behind it.
    /// * `-EFAULT`: the iterator faulted. `-EMSGSIZE`: larger than the peer takes.
    /// * `-ENOTCONN`, the first error, or `-ERESTARTSYS` before the first fragment.
    pub(crate) fn send_message(
        self: &Arc<Self>,
        iter: &mut IovIterSource<'_>,
        invalidate: Option<u32>,
    ) -> Result<usize> {
        let total = iter.len();
        let mut prefix = [0u8; 4];
        let payload = total
            .checked_sub(prefix.len())
            .filter(|&rest| rest > 0)
            .ok_or(EINVAL)?;
        self.require_connected()?;
        if iter.copy_from_iter(&mut prefix) != prefix.len() {
            return Err(EFAULT);
        }
        let mut remaining = u32::from_be_bytes(prefix);
        if usize::try_from(remaining).ok() != Some(payload) {
            return Err(EINVAL);
        }
        let mut building = self.acquire()?;
        building.invalidate = invalidate;
        let mut result = Ok(());
        while remaining > 0 && result.is_ok() {
            result = self
                .append(&mut building, Some(iter), remaining)
                .map(|taken| {
                    remaining = remaining.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
                });
        }
        let result = result.and_then(|()| self.flush(&mut building));
        self.release(building);
        result.map(|()| total)
    }

    /// Returns when the device no longer reads memory of the caller, which is at once.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN`.
    pub(crate) fn wait_sent(&self) -> Result {
        self.require_connected()
    }

    /// Adds payload to the open message, or opens one.
    fn append(
        self: &Arc<Self>,
        building: &mut Building,
        iter: Option<&mut IovIterSource<'_>>,
        remaining: u32,
    ) -> Result<usize> {
        let Some(iter) = iter else {
            let inside = |open: &Open| open.message.remaining() > 0;
            if building.train.is_open() || building.open.as_ref().is_some_and(inside) {
                return Err(EINVAL);
            }
            self.close(building)?;
            self.open(building, fragment::Message::empty())?;
            return self.close(building).map(|()| 0);
        };
        let continues = building
            .open
            .as_ref()
            .is_some_and(|open| open.message.continues(remaining));
        if !continues {
            self.close(building)?;
            let message = building
                .train
                .open(remaining)
                .map_err(|error| match error {
                    SendError::TooLarge => EMSGSIZE.into(),
                    SendError::OutOfStep | SendError::NoData => EINVAL,
                })?;
            self.open(building, message)?;
        }
        let taken = self.copy_in(building, iter)?;
        if building
            .open
            .as_ref()
            .is_some_and(|open| open.message.room() == 0)
        {
            self.close(building)?;
        }
        Ok(taken)
    }

    /// Gets what a message needs and opens it.
    fn open(self: &Arc<Self>, building: &mut Building, message: fragment::Message) -> Result {
        let (slot, granted) = self.obtain(building)?;
        building.open = Some(Open {
            slot,
            message,
            granted,
        });
        Ok(())
    }

    /// Copies from the iterator into the open message.
    fn copy_in(
        self: &Arc<Self>,
        building: &mut Building,
        iter: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        let (Some(qp), Some(open)) = (self.qp(), building.open.as_mut()) else {
            return Err(ENOTCONN.into());
        };
        let start = PAYLOAD_OFFSET + usize::try_from(open.message.length())?;
        let taken = open.message.append(u32::try_from(iter.len())?);
        let wanted = usize::try_from(taken)?;
        let target = qp
            .send_bytes(&mut open.slot)
            .get_mut(start..start + wanted)
            .ok_or(EIO)?;
        let copied = iter.copy_from_iter(target);
        if copied == wanted {
            return Ok(wanted);
        }
        // Nothing of this message may go out. If part of it is out or filled in already, the stream
        // cannot go on (R22).
        if let Some(open) = building.open.take() {
            qp.return_send_slot(open.slot);
            if start == PAYLOAD_OFFSET && !building.train.is_open() {
                self.flow.lock().credits.give_back(open.granted);
                self.send_wait.wake_all();
            } else {
                self.fail(Cause::Torn);
            }
        }
        Err(EFAULT)
    }

    /// Finishes the open message and queues it; posts the chain when it is long enough.
    fn close(self: &Arc<Self>, building: &mut Building) -> Result {
        let Some(mut open) = building.open.take() else {
            return Ok(());
        };
        let qp = self.qp().ok_or(ENOTCONN)?;
        let (header, _) = self.flow.lock().header(&open.message, open.granted);
        count(&self.statistics.credits_granted, open.granted.into());
        count(&self.statistics.bytes_sent, open.message.length().into());
        building.train.closed(&open.message);
        let len = write_header(qp, &mut open.slot, &header)?;
        // Reserved at construction, cannot fail.
        building.chain.push(
            Message {
                slot: open.slot,
                len,
            },
            GFP_NOWAIT,
        )?;
        if building.chain.len() >= CHAIN {
            self.post(building)?;
        }
        Ok(())
    }

    /// Finishes the open message and posts everything queued.
    fn flush(self: &Arc<Self>, building: &mut Building) -> Result {
        self.close(building)?;
        self.post(building)
    }

    /// Posts everything queued; waits for room in the send queue if need be.
    fn post(self: &Arc<Self>, building: &mut Building) -> Result {
        if building.chain.is_empty() {
            return Ok(());
        }
        let qp = self.qp().ok_or(ENOTCONN)?;
        loop {
            if self.is_dead() {
                return Err(self.error());
            }
            let rooms = self.rooms();
            match qp.post_messages(&mut building.chain, building.invalidate, false) {
                Ok(()) => {
                    building.invalidate = None;
                    return Ok(());
                }
                Err(PostError::Full) => self.wait_for_room(rooms)?,
                Err(PostError::Failed(error)) => {
                    self.fail(Cause::NotPosted(Request::Send, error.to_errno()));
                    return Err(error);
                }
            }
        }
    }

    /// Waits until a completion made room in the send queue since `rooms` was read.
    ///
    /// # Errors
    ///
    /// The first error.
    pub(crate) fn wait_for_room(self: &Arc<Self>, rooms: u64) -> Result {
        let stall = Stall {
            waits: &self.statistics.waits_for_room,
            us: &self.statistics.waits_for_room_us,
        };
        self.wait_for_progress(stall, || self.rooms() != rooms)
    }

    /// The present count of completions that made room; see [`wait_for_room`](Self::wait_for_room).
    pub(crate) fn rooms(&self) -> u64 {
        // Before the look at the queue that finds it full.
        self.rooms.load(Acquire)
    }

    /// How long what was begun may make no progress, in milliseconds: as long as a keepalive takes (R23).
    fn stall_ms(&self) -> u32 {
        let params = self.params.get();
        let interval = match params.keepalive_interval_msec {
            0 => DEFAULT_INTERVAL_MS,
            interval => interval,
        };
        interval.saturating_add(params.keepalive_timeout_msec)
    }

    /// [`stall_ms`](Self::stall_ms) in jiffies.
    pub(crate) fn stall_limit(&self) -> Option<c_long> {
        jiffies(self.stall_ms()).try_into().ok()
    }

    /// Whether the connection is dead. A device that has kept a request since `since`, a time of
    /// [`now_ms`], for too long makes it so (R13).
    pub(crate) fn is_dead_or_stuck(self: &Arc<Self>, since: u64) -> bool {
        let waited = now_ms().saturating_sub(since);
        if waited > self.stall_ms().into() {
            self.fail(Cause::Stuck);
        }
        self.is_dead()
    }

    /// How many milliseconds the device still has for the next completion (R23); 0 for one that
    /// is stuck. Asked by the timer, since nobody may be waiting for that request.
    pub(super) fn until_stuck(&self, now: u64) -> Option<u64> {
        let since = self.qp()?.owes_since().filter(|_| self.is_connected())?;
        let deadline = since.saturating_add(self.stall_ms().into());
        Some(deadline.saturating_sub(now))
    }

    /// Waits for `ready` whatever signals come. A connection that makes no progress for as long as
    /// a keepalive takes is given up (R23).
    fn wait_for_progress(self: &Arc<Self>, stall: Stall<'_>, ready: impl Fn() -> bool) -> Result {
        let limit = self.stall_limit();
        let outcome = stall.wait(&self.send_wait, Signals::Ignore, limit, || {
            if self.is_dead() {
                return Some(Err(self.error()));
            }
            ready().then_some(Ok(()))
        });
        match outcome {
            Ok(result) => result,
            Err(Interrupted::Signal | Interrupted::TimedOut) => {
                self.fail(Cause::NoProgress);
                Err(self.error())
            }
        }
    }

    /// Gets a buffer and a credit for the next message, waiting for them if need be. Before a wait
    /// everything queued goes out, since the peer's answer to it may be what we wait for.
    fn obtain(self: &Arc<Self>, building: &mut Building) -> Result<(SendSlot, u16)> {
        let qp = self.qp().ok_or(ENOTCONN)?;
        loop {
            if self.is_dead() {
                return Err(ENOTCONN.into());
            }
            if let Some(obtained) = self.try_obtain(qp) {
                return Ok(obtained);
            }
            self.post(building)?;
            // The last credit may wait for a receive to grant (C3).
            self.refill()?;
            let ready = || qp.has_send_slot() && self.flow.lock().credits.check().is_ok();
            let stall = Stall {
                waits: &self.statistics.waits_for_credit,
                us: &self.statistics.waits_for_credit_us,
            };
            if building.train.is_open() {
                self.wait_for_progress(stall, ready)?;
                continue;
            }
            let outcome = stall.wait(&self.send_wait, Signals::Heed, None, || {
                if !self.is_connected() {
                    return Some(Err(ENOTCONN.into()));
                }
                ready().then_some(Ok(()))
            });
            outcome.unwrap_or(Err(ERESTARTSYS))?;
        }
    }

    /// Gets a buffer and a credit if both are there. Any context.
    pub(super) fn try_obtain(&self, qp: &Qp<Self>) -> Option<(SendSlot, u16)> {
        let slot = qp.take_send_slot()?;
        let taken = self.flow.lock().credits.take();
        match taken {
            Ok(granted) => Some((slot, granted)),
            Err(_) => {
                qp.return_send_slot(slot);
                None
            }
        }
    }

    /// Completions made room. Softirq.
    pub(crate) fn room_made(self: &Arc<Self>) {
        count(&self.rooms, 1);
        self.send_wait.wake_all();
        self.pump();
    }
}

/// Encodes a header in front of the payload; returns the bytes of the message.
pub(super) fn write_header(
    qp: &Qp<Connection>,
    slot: &mut SendSlot,
    header: &DataHeader,
) -> Result<usize> {
    let bytes = header.encode();
    let target = qp.send_bytes(slot).get_mut(..bytes.len()).ok_or(EIO)?;
    target.copy_from_slice(&bytes);
    Ok(header.wire_len() + usize::try_from(header.length)?)
}
