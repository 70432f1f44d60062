// SPDX-License-Identifier: GPL-2.0

//! Message memory: equally sized buffers that stay mapped for a device as long as they exist.
//!
//! The memory is taken in chunks of a few pages, cut into buffers which start on cache lines of their
//! own and share none with anything the processor writes while the device owns them. Chunks are
//! large `kmalloc` allocations, which user copies accept as a whole.

use super::device::Pd;
use super::fault::{self, Point};
use crate::bindings;
use crate::kern::counters::count;
use kernel::bindings::dma_data_direction;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Bytes of one chunk; the largest order the page allocator serves without special effort.
const CHUNK: usize = 32 * 1024;

/// Alignment and size unit of a buffer (R32): allocations of multiples of it start on one, since the kernel aligns what
/// `kmalloc` gives to the largest power of two in the size.
// CAST: A small constant of the C side.
const LINE: usize = bindings::smbd_memory_SMBD_DMA_LINE as usize;
const _: () = assert!(LINE.is_power_of_two() && LINE <= CHUNK);

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// The device reads.
    ToDevice,
    /// The device writes.
    FromDevice,
}

impl Direction {
    pub(super) fn raw(self) -> dma_data_direction {
        // The constants have other names in 7.2 than in 7.3.
        // SAFETY: The function only translates.
        unsafe { bindings::smbd_dma_direction(self == Self::ToDevice) }
    }
}

/// A chunk and where the device sees it.
struct Chunk {
    memory: KVec<u8>,
    address: u64,
}

/// Equally sized, mapped buffers.
///
/// # Invariants
///
/// Every chunk has `CHUNK` bytes or `per_chunk * stride`, whichever is less, and is mapped at
/// `address` until the drop.
pub(crate) struct Buffers {
    chunks: KVec<Chunk>,
    count: usize,
    per_chunk: usize,
    size: usize,
    stride: usize,
    direction: Direction,
    pd: Arc<Pd>,
}

// SAFETY: The raw memory is handed out per buffer; the callers of the unsafe accessors see to
// exclusive access.
unsafe impl Send for Buffers {}
// SAFETY: As above.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// Allocates and maps `count` buffers of `size` bytes. Sleeps.
    ///
    /// # Errors
    ///
    /// `-EINVAL` when a buffer would not fit into a chunk, `-ENOMEM`, `-EIO` when mapping fails.
    pub(crate) fn new(
        pd: Arc<Pd>,
        count: usize,
        size: usize,
        direction: Direction,
    ) -> Result<Self> {
        let stride = size.max(1).checked_next_multiple_of(LINE).ok_or(EINVAL)?;
        let per_chunk = CHUNK.checked_div(stride).filter(|&n| n > 0).ok_or(EINVAL)?;
        let per_chunk = per_chunk.min(count.max(1));
        let mut buffers = Self {
            chunks: KVec::with_capacity(count.div_ceil(per_chunk), GFP_KERNEL)?,
            count,
            per_chunk,
            size,
            stride,
            direction,
            pd,
        };
        for _ in 0..count.div_ceil(per_chunk) {
            buffers.add_chunk()?;
        }
        Ok(buffers)
    }

    fn add_chunk(&mut self) -> Result {
        let bytes = self.per_chunk * self.stride;
        let mut memory = KVec::from_elem(0u8, bytes, GFP_KERNEL)?;
        fault::point(Point::MapBuffer)?;
        let device = self.pd.port().raw();
        let start = memory.as_mut_ptr().cast::<c_void>();
        // SAFETY: The memory is ours, physically contiguous, and stays where it is until unmapped;
        // the device is kept by the protection domain.
        let address = unsafe {
            let address =
                bindings::smbd_ib_dma_map_single(device, start, bytes, self.direction.raw());
            kernel::error::to_result(bindings::smbd_ib_dma_mapping_error(device, address))
                .map_err(|_| EIO)?;
            address
        };
        count(&self.pd.counters().maps, 1);
        let chunk = Chunk { memory, address };
        self.chunks.push(chunk, GFP_KERNEL).inspect_err(|_| {
            // SAFETY: Mapped above, with the same arguments.
            unsafe {
                bindings::smbd_ib_dma_unmap_single(device, address, bytes, self.direction.raw())
            }
            count(&self.pd.counters().unmaps, 1);
        })?;
        Ok(())
    }

    /// The number of buffers.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of one buffer. What is behind them up to the next buffer is not used.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The device's address of a buffer; 0 for one that does not exist.
    pub(super) fn address(&self, index: usize) -> u64 {
        let offset = (index % self.per_chunk) * self.stride;
        match self.chunks.get(index / self.per_chunk) {
            // CAST: `usize` is not wider than 64 bits.
            Some(chunk) => chunk.address.wrapping_add(offset as u64),
            None => 0,
        }
    }

    /// The processor's address of a buffer, [`None`] for one that does not exist. Valid for
    /// [`size`](Self::size) bytes as long as `self`.
    pub(super) fn pointer(&self, index: usize) -> Option<*mut u8> {
        if index >= self.count {
            return None;
        }
        let chunk = self.chunks.get(index / self.per_chunk)?;
        let offset = (index % self.per_chunk) * self.stride;
        // SAFETY: By the invariant the chunk has `per_chunk * stride` bytes, so the offset is
        // inside. The memory is only ever accessed through raw pointers made here.
        Some(unsafe { chunk.memory.as_ptr().cast_mut().add(offset) })
    }

    /// Makes what the device wrote visible before the processor reads `len` bytes.
    pub(super) fn sync_for_cpu(&self, index: usize, len: usize) {
        // SAFETY: The range is mapped by the invariant.
        unsafe {
            bindings::smbd_ib_dma_sync_for_cpu(
                self.pd.port().raw(),
                self.address(index),
                len.min(self.size),
                self.direction.raw(),
            )
        }
    }

    /// Makes what the processor wrote visible before the device gets `len` bytes of the buffer.
    pub(super) fn sync_for_device(&self, index: usize, len: usize) {
        // SAFETY: The range is mapped by the invariant.
        unsafe {
            bindings::smbd_ib_dma_sync_for_device(
                self.pd.port().raw(),
                self.address(index),
                len.min(self.size),
                self.direction.raw(),
            )
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let device = self.pd.port().raw();
        for chunk in self.chunks.iter() {
            // SAFETY: Mapped by `add_chunk` with this length and direction; nothing that was posted
            // refers to it any more, since the queue pair that owns `self` is drained.
            unsafe {
                bindings::smbd_ib_dma_unmap_single(
                    device,
                    chunk.address,
                    chunk.memory.len(),
                    self.direction.raw(),
                )
            };
            count(&self.pd.counters().unmaps, 1);
        }
    }
}
