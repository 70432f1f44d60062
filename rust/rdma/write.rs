// SPDX-License-Identifier: GPL-2.0

//! Small RDMA WRITEs that nobody waits for.
//!
//! A server answers a small read with a WRITE and a message. Waiting for the WRITE costs its thread two
//! context switches, only so that the caller may have its buffer back. So up to [`MAX_LEN`] bytes are copied
//! to a buffer that stays mapped, the call returns, and the WRITE goes out in front of the next message, with
//! one doorbell for both. The peer sees the same: it does not look before it has the message, and a reliable
//! connection places a WRITE before it delivers a later message, and delivers none behind one that failed.
//!
//! Writes complete in order with messages, and share their rule for completions.

use super::dma::{Buffers, Direction};
use super::qp::{Completions, Qp};
use super::rw::{LocalBuffer, Segment};
use super::sq::SendQueue;
use super::wr::{self, Chain};
use crate::bindings;
use crate::kern::counters::count;
use crate::kern::errno::ENOTCONN;
use crate::kern::ring::Ring;
use kernel::prelude::*;

/// Bytes of the largest write that is copied: what costs less to copy than to wait for.
pub(crate) const MAX_LEN: usize = 8192;

/// Buffers of a queue pair, made when the first one is needed: 128 KiB would be a bad price for an idle
/// connection.
const COUNT: u16 = 16;

/// Buffers to write from and, for each, its completion object.
pub(super) struct WritePool {
    buffers: Buffers,
    cqes: KVVec<bindings::ib_cqe>,
}

/// The state of a queue pair's writes, part of its send queue and under its lock.
pub(super) struct Writes {
    /// Buffers not in use.
    free: KVec<u16>,
    /// Writes to go out in front of the next message.
    pending: Ring<u16>,
    /// For each buffer its request and the piece that names it.
    requests: KVVec<bindings::ib_rdma_wr>,
    pieces: KVVec<bindings::ib_sge>,
}

impl Writes {
    /// For a queue pair without buffers to write from.
    pub(super) const fn none() -> Self {
        Self {
            free: KVec::new(),
            pending: Ring::empty(),
            requests: KVVec::new(),
            pieces: KVVec::new(),
        }
    }

    /// For so many buffers. Sleeps.
    fn new(count: u16) -> Result<Self> {
        let size = usize::from(count);
        let mut writes = Self {
            free: SendQueue::numbers(count)?,
            pending: Ring::with_capacity(size)?,
            requests: KVVec::with_capacity(size, GFP_KERNEL)?,
            pieces: KVVec::with_capacity(size, GFP_KERNEL)?,
        };
        for _ in 0..size {
            writes.requests.push(Default::default(), GFP_KERNEL)?;
            writes.pieces.push(Default::default(), GFP_KERNEL)?;
        }
        Ok(writes)
    }

    /// Takes a buffer that is not in use.
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// Whether buffers are getting scarce.
    pub(super) fn is_short(&self) -> bool {
        self.free.len() < self.requests.len() / 2
    }

    /// How many are to go out.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Appends those that are to go out to a chain.
    pub(super) fn add_to(&mut self, chain: &mut Chain) {
        for index in self.pending.iter() {
            if let Some(request) = self.requests.get_mut(usize::from(*index)) {
                request.wr.next = core::ptr::null_mut();
                request.wr.send_flags = 0;
                chain.add(&mut request.wr);
            }
        }
    }

    /// The next of those that went out.
    pub(super) fn pop(&mut self) -> Option<u16> {
        self.pending.pop()
    }

    /// Returns a buffer that is not posted.
    pub(super) fn put_back(&mut self, index: u16) {
        // The capacity for all buffers is reserved, so this cannot fail.
        let _ = self.free.push(index, GFP_NOWAIT);
    }

    /// Makes the request for a filled buffer, to go out with the next message; false if there is no such buffer.
    fn add(
        &mut self,
        index: u16,
        piece: bindings::ib_sge,
        segment: &Segment,
        cqe: &bindings::ib_cqe,
    ) -> bool {
        let at = usize::from(index);
        let (Some(request), Some(place)) = (self.requests.get_mut(at), self.pieces.get_mut(at))
        else {
            return false;
        };
        *place = piece;
        *request = bindings::ib_rdma_wr {
            remote_addr: segment.remote_address,
            rkey: segment.remote_key,
            ..Default::default()
        };
        request.wr.sg_list = place;
        request.wr.num_sge = 1;
        request.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr::set_completion(&mut request.wr, cqe);
        self.pending.push(index).is_ok()
    }
}

impl<C: Completions> Qp<C> {
    /// Writes a segment of `buffer` to the peer's memory, in front of the next message and without waiting. False,
    /// with nothing done, for one that is too large or when there is no buffer or little room now: then it has to
    /// be waited for. Process context.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN` on a closed queue pair, `-EINVAL` for a segment that is not inside the buffer.
    pub(crate) fn write(&self, buffer: &LocalBuffer<'_>, segment: &Segment) -> Result<bool> {
        if segment.len > MAX_LEN {
            return Ok(false);
        }
        let Some(pool) = self.write_pool() else {
            return Ok(false);
        };
        let Some(index) = self.sq.lock().take_write() else {
            return Ok(false);
        };
        let filled = pool.fill(index, buffer, segment);
        let mut queue = self.sq.lock();
        let queue = &mut *queue;
        let at = usize::from(index);
        let piece = bindings::ib_sge {
            addr: pool.buffers.address(at),
            // At most `MAX_LEN`.
            length: u32::try_from(segment.len).unwrap_or(0),
            lkey: self.pd.local_key(),
        };
        let added = !queue.closed
            && filled
            && pool
                .cqes
                .get(at)
                .is_some_and(|cqe| queue.writes.add(index, piece, segment, cqe));
        if !added {
            queue.writes.put_back(index);
            return Err(match queue.closed {
                true => ENOTCONN.into(),
                false => EINVAL,
            });
        }
        count(&self.pd.counters().transfers, 1);
        count(&self.pd.counters().transfers_copied, 1);
        Ok(true)
    }

    /// Identifies the completion of a buffer's write.
    pub(super) fn write_key(&self, index: u16) -> usize {
        let pool = self.write_pool.as_ref();
        let cqe = pool.and_then(|pool| pool.cqes.get(usize::from(index)));
        // CAST: Only compared.
        cqe.map_or(0, |cqe| core::ptr::from_ref(cqe) as usize)
    }

    /// The pool, made by the first who asks; [`None`] without memory for it.
    fn write_pool(&self) -> Option<&WritePool> {
        if let Some(pool) = self.write_pool.as_ref() {
            return Some(pool);
        }
        let writes = Writes::new(COUNT).ok()?;
        let pool = self.new_write_pool().ok()?;
        if self.write_pool.populate(pool) {
            self.sq.lock().writes = writes;
        }
        self.write_pool.as_ref().map(|pool| &**pool)
    }

    fn new_write_pool(&self) -> Result<KBox<WritePool>> {
        let count = usize::from(COUNT);
        let pool = WritePool {
            buffers: Buffers::new(self.pd.clone(), count, MAX_LEN, Direction::ToDevice)?,
            cqes: Self::cqes(count, Self::send_done)?,
        };
        Ok(KBox::new(pool, GFP_KERNEL)?)
    }
}

impl WritePool {
    /// Copies a segment of `from` into a buffer that is not in use; false if it is not inside.
    fn fill(&self, index: u16, from: &LocalBuffer<'_>, segment: &Segment) -> bool {
        let at = usize::from(index);
        let Some(start) = self.buffers.pointer(at) else {
            return false;
        };
        // SAFETY: The buffer has `MAX_LEN` initialised bytes, and its number, taken from the queue, is the
        // only right to it.
        let buffer = unsafe { core::slice::from_raw_parts_mut(start, MAX_LEN) };
        let Some(target) = buffer.get_mut(..segment.len) else {
            return false;
        };
        let inside = from.copy_to(segment.offset, target);
        self.buffers.sync_for_device(at, segment.len);
        inside
    }
}
