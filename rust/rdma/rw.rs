// SPDX-License-Identifier: GPL-2.0

//! RDMA READ and WRITE between a local buffer and memory the peer exposed, on the core's `rdma_rw`.
//!
//! The core decides whether a transfer needs memory regions (iWARP, devices with few pieces per
//! READ, `force_mr`). One call makes the contexts of all its segments, posts their requests as one
//! chain of which only the last completes, and waits. It returns only when no request refers to
//! the buffer any more (rule B8).
//!
//! Process context; the caller keeps allocations out of I/O.

use super::dma::Direction;
use super::fault::{self, Point};
use super::post::PostError;
use super::qp::{Completions, Qp, Status};
use crate::bindings;
use crate::kern::counters::count;
use crate::kern::errno::ENOTCONN;
use crate::kern::outcome::Outcome;
use core::marker::PhantomData;
use kernel::ffi::c_uint;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// A kernel buffer, of `kmalloc` or `vmalloc` kind, that belongs to the caller during `'a`.
pub(crate) struct LocalBuffer<'a> {
    start: *mut u8,
    len: usize,
    _life: PhantomData<&'a mut [u8]>,
}

impl LocalBuffer<'_> {
    /// # Safety
    ///
    /// * `start` is kernel memory, mapped page by page to real pages, valid for reads and writes of
    ///   `len` bytes during `'a`, and nobody else touches it meanwhile.
    pub(crate) unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self {
            start,
            len,
            _life: PhantomData,
        }
    }

    /// Bytes of the buffer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies what is at `offset` to `target`; false, with nothing done, if it is not all inside.
    pub(super) fn copy_to(&self, offset: usize, target: &mut [u8]) -> bool {
        let inside = offset
            .checked_add(target.len())
            .is_some_and(|end| end <= self.len);
        if inside {
            // SAFETY: The range is inside the buffer, which is valid for reads and nobody else's by contract,
            // so it does not overlap with what is borrowed here.
            unsafe {
                let from = self.start.add(offset);
                core::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), target.len());
            }
        }
        inside
    }

    /// Where in its page the byte at `offset` is.
    pub(crate) fn offset_in_page(&self, offset: usize) -> usize {
        // CAST: An address; only its low bits count.
        (self.start as usize).wrapping_add(offset) & (PAGE_SIZE - 1)
    }

    /// Bytes from `offset` to the end of its page.
    fn left_in_page(&self, offset: usize) -> usize {
        PAGE_SIZE - self.offset_in_page(offset)
    }

    /// Pages that `len` bytes from `offset` touch.
    pub(crate) fn pages(&self, offset: usize, len: usize) -> usize {
        let first = self.left_in_page(offset).min(len);
        usize::from(first > 0) + (len - first).div_ceil(PAGE_SIZE)
    }

    /// Appends a segment's part of the buffer to a list, an entry for each contiguous run: the fewer entries, the
    /// fewer requests and acknowledgements (P11).
    fn list(&self, segment: &Segment, list: &mut KVVec<bindings::scatterlist>) -> Result {
        let end = segment.offset.checked_add(segment.len).ok_or(EINVAL)?;
        if end > self.len || segment.len == 0 {
            return Err(EINVAL);
        }
        let mut offset = segment.offset;
        while offset < end {
            // A run that is cut ends with its page, as those of a registration must.
            let limit = MAX_RUN - self.offset_in_page(offset);
            let most = c_uint::try_from(limit.min(end - offset))?;
            let mut entry = bindings::scatterlist::default();
            // SAFETY: The range is inside the buffer, and the run inside the range.
            let run = unsafe {
                let start = self.start.add(offset).cast();
                let run = bindings::smbd_contiguous(start, most);
                bindings::smbd_sg_set_kernel(&mut entry, start, run);
                run
            };
            list.push(entry, GFP_KERNEL)?;
            offset += usize::try_from(run)?;
        }
        if let Some(last) = list.last_mut() {
            // SAFETY: An entry of the list.
            unsafe { bindings::smbd_sg_end(last) };
        }
        Ok(())
    }
}

/// One contiguous piece of peer memory and the part of the local buffer it corresponds to.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    /// Offset in the local buffer.
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) len: usize,
    /// The peer's address.
    pub(crate) remote_address: u64,
    /// The peer's key.
    pub(crate) remote_key: u32,
}

/// The completion of a chain.
#[pin_data]
pub(crate) struct Transfer {
    cqe: Opaque<bindings::ib_cqe>,
    #[pin]
    outcome: Outcome,
}

// SAFETY: The completion object is only written at construction.
unsafe impl Send for Transfer {}
// SAFETY: As above.
unsafe impl Sync for Transfer {}

impl Transfer {
    fn new(
        done: unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc),
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                cqe: Opaque::new(bindings::ib_cqe { done: Some(done) }),
                outcome <- Outcome::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Identifies the completion.
    pub(super) fn key(&self) -> usize {
        // CAST: Only compared.
        self.cqe.get() as usize
    }

    /// The chain completed with this verbs status. Any context.
    pub(super) fn done(&self, status: u32) {
        self.outcome.set(status);
    }
}

/// The longest run that is one entry, bytes: half of what bounce buffers of the kernel (swiotlb) take at once. The entries
/// of one request, 16 at most, stay below the longest message of any device (rxe: 8 MiB).
const MAX_RUN: usize = 128 << 10;

/// Why a transfer failed.
pub(crate) enum TransferError {
    /// Nothing was posted, or the post failed, and `refused` has heard of it.
    Failed(Error),
    /// A request failed; the connection must end unless it already has.
    Completion(Status),
}

/// A core context, and which entries of the list it maps.
struct Context {
    raw: bindings::rdma_rw_ctx,
    first: usize,
    entries: c_uint,
}

// SAFETY: What the core keeps in a context may be used from any task.
unsafe impl Send for Context {}

/// What one transfer at a time works with, kept for the next one.
pub(crate) struct Room {
    done: Arc<Transfer>,
    contexts: KVVec<Context>,
    /// The local pages of all contexts.
    list: KVVec<bindings::scatterlist>,
}

impl Room {
    /// Room for transfers of queue pairs of this kind; it grows with what is transferred. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn new<C: Completions>() -> Result<Self> {
        Ok(Self {
            done: Transfer::new(Qp::<C>::send_done)?,
            contexts: KVVec::new(),
            list: KVVec::new(),
        })
    }

    /// Values there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.contexts.capacity() + self.list.capacity()
    }
}

/// What to move.
pub(crate) struct Work<'a> {
    /// The local end.
    pub(crate) buffer: &'a LocalBuffer<'a>,
    /// The peer's memory, and the part of the buffer that corresponds to each piece.
    pub(crate) segments: &'a [Segment],
    /// [`Direction::FromDevice`] reads from the peer, [`Direction::ToDevice`] writes to it.
    pub(crate) direction: Direction,
}

/// The contexts of one chain, destroyed together.
struct Contexts<'a, C: Completions> {
    qp: &'a Qp<C>,
    raw_qp: *mut bindings::ib_qp,
    direction: Direction,
    room: &'a mut Room,
}

impl<C: Completions> Contexts<'_, C> {
    fn port(&self) -> u32 {
        self.qp.pd().port().number()
    }

    /// Makes the contexts of all segments.
    fn add_all(&mut self, work: &Work<'_>) -> Result {
        let before = self.room.capacity();
        self.room.list.clear();
        // No context moves once it is made.
        self.room
            .contexts
            .reserve(work.segments.len(), GFP_KERNEL)?;
        for segment in work.segments {
            self.add(work.buffer, segment)?;
        }
        if self.room.capacity() > before {
            count(&self.qp.pd().counters().allocations, 1);
        }
        Ok(())
    }

    /// Makes the context of one segment, in its final place: the core leaves pointers into it.
    fn add(&mut self, buffer: &LocalBuffer<'_>, segment: &Segment) -> Result {
        fault::point(Point::Transfer)?;
        let (raw_qp, port, direction) = (self.raw_qp, self.port(), self.direction.raw());
        let Room { contexts, list, .. } = &mut *self.room;
        let first = list.len();
        buffer.list(segment, list)?;
        let entries = c_uint::try_from(list.len() - first)?;
        let context = Context {
            raw: Default::default(),
            first,
            entries,
        };
        contexts.push_within_capacity(context).map_err(|_| ENOMEM)?;
        let context = contexts.last_mut().ok_or(ENOMEM)?;
        let list = list.get_mut(first..).ok_or(EINVAL)?;
        // SAFETY: The queue pair is in use by us, so valid; the list describes the caller's buffer,
        // which stays until we return; remote address and key are only checked by the peer. The
        // context stays in place until it is destroyed.
        let made = unsafe {
            bindings::rdma_rw_ctx_init(
                &mut context.raw,
                raw_qp,
                port,
                list.as_mut_ptr(),
                entries,
                0,
                segment.remote_address,
                segment.remote_key,
                direction,
            )
        };
        if made < 0 {
            // Not made, so not to be destroyed.
            let _ = contexts.pop();
        }
        kernel::error::to_result(made.min(0))
    }

    /// Chains the requests of all contexts, first to last.
    fn link(&mut self) -> *mut bindings::ib_send_wr {
        let (raw_qp, port) = (self.raw_qp, self.port());
        let mut chain: *mut bindings::ib_send_wr = core::ptr::null_mut();
        for context in self.room.contexts.iter_mut().rev() {
            let cqe = match chain.is_null() {
                true => self.room.done.cqe.get(),
                false => core::ptr::null_mut(),
            };
            let raw = &mut context.raw;
            // SAFETY: The context was made for this queue pair and stays in place; only the last
            // one of the chain gets, and signals, the completion object.
            chain = unsafe { bindings::rdma_rw_ctx_wrs(raw, raw_qp, port, cqe, chain) };
        }
        chain
    }
}

impl<C: Completions> Drop for Contexts<'_, C> {
    fn drop(&mut self) {
        let (raw_qp, port, direction) = (self.raw_qp, self.port(), self.direction.raw());
        let Room { contexts, list, .. } = &mut *self.room;
        for context in contexts.iter_mut() {
            let Some(list) = list.get_mut(context.first..) else {
                continue;
            };
            // SAFETY: Made by `add` with these entries and direction; no request of it is outstanding
            // (see `transfer`), and the queue pair is still in use by us.
            unsafe {
                bindings::rdma_rw_ctx_destroy(
                    &mut context.raw,
                    raw_qp,
                    port,
                    list.as_mut_ptr(),
                    context.entries,
                    direction,
                )
            };
        }
        contexts.clear();
    }
}

/// Moves the segments and waits until that is done. `wait_for_room` is called when the send queue
/// is full, and ends the attempt with an error. `refused` hears of a failed post before the requests that
/// were taken are flushed. `dead` tells that the connection is broken: the
/// transport is then given a moment to flush the requests, after which the queue pair is drained.
///
/// # Errors
///
/// [`TransferError`]. Whatever it is, nothing refers to the buffer any more; the room is not to be used again.
pub(crate) fn transfer<C: Completions>(
    qp: &Qp<C>,
    room: &mut Room,
    work: &Work<'_>,
    mut wait_for_room: impl FnMut() -> Result,
    refused: impl Fn(Error),
    dead: impl Fn() -> bool,
) -> Result<(), TransferError> {
    use TransferError::{Completion, Failed};
    let in_use = qp.use_raw().ok_or(Failed(ENOTCONN.into()))?;
    let mut contexts = Contexts {
        qp,
        raw_qp: in_use.get(),
        direction: work.direction,
        room,
    };
    contexts.add_all(work).map_err(Failed)?;
    let chain = contexts.link();
    if chain.is_null() {
        return Ok(());
    }
    let done = &contexts.room.done;
    done.outcome.reset();
    loop {
        // SAFETY: The chain's memory is in `contexts`, which is dropped after the waits below.
        match unsafe { qp.post_transfer(chain, done) } {
            Ok(()) => break,
            Err(PostError::Full) => wait_for_room().map_err(Failed)?,
            Err(PostError::Failed(error)) => {
                refused(error);
                // Requests before the refused one may be running.
                qp.drain();
                return Err(Failed(error));
            }
        }
    }
    match wait_done(qp, done, dead) {
        bindings::ib_wc_status_IB_WC_SUCCESS => Ok(()),
        status => Err(Completion(Status(status))),
    }
}

/// How long the flush of a broken connection may take before the queue pair is drained, milliseconds.
const FLUSH_MS: u32 = 250;

/// Waits for the completion of a posted transfer.
fn wait_done<C: Completions>(qp: &Qp<C>, transfer: &Transfer, dead: impl Fn() -> bool) -> u32 {
    let outcome = &transfer.outcome;
    outcome.wait(FLUSH_MS, dead).unwrap_or_else(|| {
        // An orderly iWARP shutdown leaves a READ that waits for its answer alone.
        qp.drain();
        outcome
            .get()
            .unwrap_or(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR)
    })
}
