// SPDX-License-Identifier: GPL-2.0

//! RDMA READ and WRITE between a local buffer and memory the peer exposed, on the core's `rdma_rw`.
//!
//! The core decides whether a transfer needs memory regions (iWARP, devices with few pieces per
//! READ, `force_mr`). One call makes the contexts of all its segments, posts their requests as one
//! chain of which only the last completes, and waits. It returns only when no request refers to
//! the buffer any more (rule B8).
//!
//! Process context.

use super::dma::Direction;
use super::fault::{self, Point};
use super::post::PostError;
use super::qp::{Completions, Qp, Status};
use crate::bindings;
use crate::kern::errno::ENOTCONN;
use crate::kern::noio::NoIo;
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
    /// Before anything was posted; the connection is as it was.
    NotStarted(Error),
    /// The post failed; the connection must end.
    Post(Error),
    /// A request failed; the connection must end unless it already has.
    Completion(Status),
}

/// A core context with the local pages it maps.
struct Context {
    raw: bindings::rdma_rw_ctx,
    list: KVVec<bindings::scatterlist>,
    direction: Direction,
}

/// The contexts of one chain, destroyed together.
struct Contexts<'a, C: Completions> {
    qp: &'a Qp<C>,
    raw_qp: *mut bindings::ib_qp,
    all: KVVec<Context>,
}

impl<C: Completions> Contexts<'_, C> {
    fn port(&self) -> u32 {
        self.qp.pd().port().number()
    }

    /// Makes the context of one segment, in its final place: the core leaves pointers into it.
    fn add(&mut self, buffer: &LocalBuffer<'_>, segment: &Segment, direction: Direction) -> Result {
        fault::point(Point::Transfer)?;
        let (raw_qp, port) = (self.raw_qp, self.port());
        let context = Context {
            raw: Default::default(),
            list: Self::list(buffer, segment)?,
            direction,
        };
        // The capacity is reserved, so no context ever moves after this.
        self.all.push_within_capacity(context).map_err(|_| ENOMEM)?;
        let context = self.all.last_mut().ok_or(ENOMEM)?;
        let entries = c_uint::try_from(context.list.len())?;
        // SAFETY: The queue pair is in use by us, so valid; the list describes the caller's buffer,
        // which stays until we return; remote address and key are only checked by the peer. The
        // context stays in place until it is destroyed.
        let made = unsafe {
            bindings::rdma_rw_ctx_init(
                &mut context.raw,
                raw_qp,
                port,
                context.list.as_mut_ptr(),
                entries,
                0,
                segment.remote_address,
                segment.remote_key,
                direction.raw(),
            )
        };
        if made < 0 {
            // Not made, so not to be destroyed.
            drop(self.all.pop());
        }
        kernel::error::to_result(made.min(0))
    }

    /// Lists a segment's part of the buffer, an entry for each contiguous run: the fewer entries, the fewer requests and
    /// acknowledgements (P11).
    fn list(buffer: &LocalBuffer<'_>, segment: &Segment) -> Result<KVVec<bindings::scatterlist>> {
        let end = segment.offset.checked_add(segment.len).ok_or(EINVAL)?;
        if end > buffer.len || segment.len == 0 {
            return Err(EINVAL);
        }
        let mut list = KVVec::new();
        let mut offset = segment.offset;
        while offset < end {
            // A run that is cut ends with its page, as those of a registration must.
            let limit = MAX_RUN - buffer.offset_in_page(offset);
            let most = c_uint::try_from(limit.min(end - offset))?;
            let mut entry = bindings::scatterlist::default();
            // SAFETY: The range is inside the buffer, and the run inside the range.
            let run = unsafe {
                let start = buffer.start.add(offset).cast();
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
        Ok(list)
    }

    /// Chains the requests of all contexts, first to last.
    fn link(&mut self, transfer: &Transfer) -> *mut bindings::ib_send_wr {
        let (raw_qp, port) = (self.raw_qp, self.port());
        let mut chain: *mut bindings::ib_send_wr = core::ptr::null_mut();
        for context in self.all.iter_mut().rev() {
            let cqe = match chain.is_null() {
                true => transfer.cqe.get(),
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
        let (raw_qp, port) = (self.raw_qp, self.port());
        for context in self.all.iter_mut() {
            // SAFETY: Made by `add` with this list and direction; no request of it is outstanding
            // (see `transfer`), and the queue pair is still in use by us.
            unsafe {
                bindings::rdma_rw_ctx_destroy(
                    &mut context.raw,
                    raw_qp,
                    port,
                    context.list.as_mut_ptr(),
                    u32::try_from(context.list.len()).unwrap_or(0),
                    context.direction.raw(),
                )
            };
        }
    }
}

/// Moves the segments and waits until that is done. `wait_for_room` is called when the send queue
/// is full, and ends the attempt with an error. `refused` hears of a failed post before the requests that
/// were taken are flushed. `dead` tells that the connection is broken: the
/// transport is then given a moment to flush the requests, after which the queue pair is drained.
///
/// [`Direction::FromDevice`] reads from the peer, [`Direction::ToDevice`] writes to it.
///
/// # Errors
///
/// [`TransferError`]. Whatever it is, nothing refers to the buffer any more.
pub(crate) fn transfer<C: Completions>(
    qp: &Qp<C>,
    buffer: &LocalBuffer<'_>,
    segments: &[Segment],
    direction: Direction,
    mut wait_for_room: impl FnMut() -> Result,
    refused: impl Fn(Error),
    dead: impl Fn() -> bool,
) -> Result<(), TransferError> {
    use TransferError::{Completion, NotStarted, Post};
    let _scope = NoIo::enter();
    let in_use = qp.use_raw().ok_or(NotStarted(ENOTCONN.into()))?;
    let all = KVVec::with_capacity(segments.len(), GFP_KERNEL).map_err(|_| NotStarted(ENOMEM))?;
    let mut contexts = Contexts {
        qp,
        raw_qp: in_use.get(),
        all,
    };
    for segment in segments {
        contexts
            .add(buffer, segment, direction)
            .map_err(NotStarted)?;
    }
    let transfer = Transfer::new(Qp::<C>::send_done).map_err(NotStarted)?;
    let chain = contexts.link(&transfer);
    if chain.is_null() {
        return Ok(());
    }
    loop {
        // SAFETY: The chain's memory is in `contexts`, which is dropped after the waits below.
        match unsafe { qp.post_transfer(chain, &transfer) } {
            Ok(()) => break,
            Err(PostError::Full) => wait_for_room().map_err(NotStarted)?,
            Err(PostError::Failed(error)) => {
                refused(error);
                // Requests before the refused one may be running.
                qp.drain();
                return Err(Post(error));
            }
        }
    }
    let status = wait_done(qp, &transfer, dead);
    match status {
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
