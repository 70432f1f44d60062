// SPDX-License-Identifier: GPL-2.0

//! Small RDMA WRITEs that nobody waits for.
//!
//! A server answers a small read with a WRITE and a message. Waiting for the WRITE costs its thread two
//! context switches, only so that the caller may have its buffer back. So up to [`MAX_LEN`] bytes are copied
//! to a buffer that stays mapped, and the call returns as soon as the WRITE is posted. The peer sees the same:
//! a reliable connection places a WRITE before it delivers a later message, and delivers none behind one
//! that failed.
//!
//! Writes complete in order with messages, and share their rule for completions.

use super::dma::{Buffers, Direction};
use super::post::PostError;
use super::qp::{Completions, Qp};
use super::rw::{LocalBuffer, Segment};
use super::sq::{Owned, SendQueue};
use super::wr::{self, Chain};
use crate::bindings;
use crate::kern::counters::count;
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

impl<C: Completions> Qp<C> {
    /// Writes a segment of `buffer` to the peer's memory without waiting. False, with nothing done, for one that
    /// is too large or when there is no buffer or no room now: then it has to be waited for. Process context.
    ///
    /// # Errors
    ///
    /// The queue pair is closed, or the post failed and the connection must end.
    pub(crate) fn write(&self, buffer: &LocalBuffer<'_>, segment: &Segment) -> Result<bool> {
        if segment.len > MAX_LEN {
            return Ok(false);
        }
        let Some(pool) = self.write_pool() else {
            return Ok(false);
        };
        let Some(index) = self.sq.lock().free_writes.pop() else {
            return Ok(false);
        };
        let mut queue = match pool.fill(index, buffer, segment) {
            true => self.sq.lock(),
            false => {
                self.sq.lock().put_back_write(index);
                return Err(EINVAL);
            }
        };
        match self.post_write(&mut queue, pool, index, segment) {
            Ok(()) => Ok(true),
            Err(error) => {
                queue.put_back_write(index);
                match error {
                    PostError::Full => Ok(false),
                    PostError::Failed(error) => Err(error),
                }
            }
        }
    }

    /// The pool, made by the first who asks; [`None`] without memory for it.
    fn write_pool(&self) -> Option<&WritePool> {
        if let Some(pool) = self.write_pool.as_ref() {
            return Some(pool);
        }
        let pool = self.new_write_pool().ok()?;
        let free = SendQueue::numbers(COUNT).ok()?;
        if self.write_pool.populate(pool) {
            self.sq.lock().free_writes = free;
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

    /// Posts the write of a filled buffer; the buffer stays the caller's on an error.
    fn post_write(
        &self,
        queue: &mut SendQueue,
        pool: &WritePool,
        index: u16,
        segment: &Segment,
    ) -> Result<(), PostError> {
        let at = usize::from(index);
        let cqe = pool.cqes.get(at).ok_or(PostError::Failed(EINVAL))?;
        queue.admit(1)?;
        let mut piece = bindings::ib_sge {
            addr: pool.buffers.address(at),
            // At most `MAX_LEN`.
            length: u32::try_from(segment.len).unwrap_or(0),
            lkey: self.pd.local_key(),
        };
        let mut request = bindings::ib_rdma_wr {
            remote_addr: segment.remote_address,
            rkey: segment.remote_key,
            ..Default::default()
        };
        request.wr.sg_list = &mut piece;
        request.wr.num_sge = 1;
        request.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr::set_completion(&mut request.wr, cqe);
        let mut chain = Chain::new();
        chain.add(&mut request.wr);
        let signalled = queue.signal(1, false);
        if signalled {
            chain.signal_last();
        }
        let (_, result) = self.post_sends(chain);
        result.map_err(PostError::Failed)?;
        count(&self.pd.counters().transfers, 1);
        count(&self.pd.counters().transfers_copied, 1);
        // CAST: Only compared.
        queue.posted(core::ptr::from_ref(cqe) as usize, 1, Owned::Write(index));
        if signalled {
            queue.signalled();
        }
        Ok(())
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
