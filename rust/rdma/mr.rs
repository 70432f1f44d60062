// SPDX-License-Identifier: GPL-2.0

//! Memory regions registered by work requests (FRWR).
//!
//! A region goes round: memory is mapped for the device and described to the region ([`Mr::map`]),
//! the registration request puts the description in force, the peer uses it, an invalidation (the
//! peer's or our own) takes it out of force, the memory is unmapped ([`Mr::unmap`]). The key
//! changes with every round (rule M4).
//!
//! Memory whose shape the device cannot register in one piece goes through a bounce buffer (rule
//! M2): copied in when the peer will read, copied out at the end when it has written.
//!
//! Process context, except [`Mr::invalidation_done`], which completions call.

use super::device::Pd;
use super::dma::Direction;
use super::fault::{self, Point};
use super::qp::{Completions, Qp};
use super::wr;
use crate::bindings;
use crate::kern::counters::count;
use crate::kern::errno::{ECONNABORTED, ENOTCONN};
use crate::kern::noio::NoIo;
use crate::kern::outcome::Outcome;
use core::ptr::NonNull;
use kernel::ffi::{c_int, c_uint};
use kernel::iov::{IovIterDest, IovIterSource};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{new_mutex, Arc, Mutex};

/// The memory of a request, by who will touch it.
pub(crate) enum Memory<'a, 'data> {
    /// The peer will read it.
    Source(&'a mut IovIterSource<'data>),
    /// The peer will write it.
    Dest(&'a mut IovIterDest<'data>),
}

impl Memory<'_, '_> {
    fn raw(&mut self) -> *mut bindings::iov_iter {
        match self {
            Self::Source(iter) => iter.as_raw(),
            Self::Dest(iter) => iter.as_raw(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Source(iter) => iter.len(),
            Self::Dest(iter) => iter.len(),
        }
    }

    fn direction(&self) -> Direction {
        match self {
            Self::Source(_) => Direction::ToDevice,
            Self::Dest(_) => Direction::FromDevice,
        }
    }
}

/// The raw region, deregistered on drop.
struct RawMr(NonNull<bindings::ib_mr>);

impl Drop for RawMr {
    fn drop(&mut self) {
        // SAFETY: Allocated by `Mr::new`; only this frees it. After the call the key is dead.
        unsafe { bindings::smbd_ib_dereg_mr(self.0.as_ptr()) };
    }
}

/// A copy that stands in for memory of an awkward shape.
pub(crate) struct Bounce {
    copy: VVec<u8>,
    /// Where the data goes at the end, for data the peer writes. It stays valid until the request
    /// ends, as the consumer promises with the registration.
    target: Option<bindings::iov_iter>,
}

// SAFETY: What the iterator names may be used from any task.
unsafe impl Send for Bounce {}

impl Bounce {
    /// Copies what the peer wrote to where it belongs. Before the request ends, that is, before its deregistration returns.
    pub(crate) fn deliver(self) {
        let Some(mut target) = self.target else {
            return;
        };
        // SAFETY: The copy of the iterator is valid until the request ends.
        unsafe { bindings::_copy_to_iter(self.copy.as_ptr().cast(), self.copy.len(), &mut target) };
    }
}

/// What a region holds while it is mapped.
struct Io {
    raw: Option<RawMr>,
    list: KVVec<bindings::scatterlist>,
    entries: c_int,
    mapped: Option<Direction>,
    bounce: Option<Bounce>,
}

// SAFETY: The raw pointers are to verbs objects and memory that any task may use; access is
// exclusive by the mutex around.
unsafe impl Send for Io {}

/// How long the flush of a broken connection may take to end an invalidation, milliseconds.
const FLUSH_MS: u32 = 100;

/// A memory region.
#[pin_data]
pub(crate) struct Mr {
    raw: NonNull<bindings::ib_mr>,
    max_pages: u32,
    key: Atomic<u32>,
    access: Atomic<u32>,
    cqe: kernel::types::Opaque<bindings::ib_cqe>,
    /// The end of a local invalidation.
    #[pin]
    invalidated: Outcome,
    #[pin]
    io: Mutex<Io>,
    pd: Arc<Pd>,
}

// SAFETY: `raw` is only read where the region is known to be valid, see `registration`.
unsafe impl Send for Mr {}
// SAFETY: As above.
unsafe impl Sync for Mr {}

/// Why memory was not mapped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MapError {
    /// More pages than the region takes.
    TooLarge,
    /// No memory to list the pages in; the iterator is as it was. A region that [keeps
    /// room](Mr::keep_room) does not say this.
    NoRoom,
    /// No memory, or the device refused.
    Failed(Error),
}

impl From<Error> for MapError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<kernel::alloc::AllocError> for MapError {
    fn from(error: kernel::alloc::AllocError) -> Self {
        Self::Failed(error.into())
    }
}

impl Mr {
    /// Allocates a region of `max_pages` pages, one that takes gaps if the device has such. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says.
    pub(crate) fn new(pd: Arc<Pd>, max_pages: u32) -> Result<Arc<Self>> {
        let kind = match pd.port().limits().sg_gaps() {
            true => bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS,
            false => bindings::ib_mr_type_IB_MR_TYPE_MEM_REG,
        };
        fault::point(Point::AllocMr)?;
        // SAFETY: The domain is valid.
        let raw = kernel::error::from_err_ptr(unsafe {
            bindings::ib_alloc_mr(pd.raw(), kind, max_pages)
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let io = Io {
            raw: Some(RawMr(raw)),
            list: KVVec::new(),
            entries: 0,
            mapped: None,
            bounce: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                raw,
                max_pages,
                key: Atomic::new(0),
                access: Atomic::new(0),
                cqe: kernel::types::Opaque::new(bindings::ib_cqe { done: None }),
                invalidated <- Outcome::new(),
                io <- new_mutex!(io, "Mr::io"),
                pd,
            }),
            GFP_KERNEL,
        )
    }

    /// Allocates the room for the largest memory now, so that [`map`](Self::map) never has to. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn keep_room(&self) -> Result {
        let pages = usize::try_from(self.max_pages)?;
        self.reserve(&mut self.io.lock().list, pages)
    }

    /// Maps memory and describes it to the region under a new key. The iterator moves to its end.
    /// Sleeps; allocates without I/O.
    ///
    /// Returns the bytes mapped, which are all the iterator had.
    ///
    /// # Errors
    ///
    /// [`MapError`]; nothing stays mapped then.
    pub(crate) fn map(&self, memory: &mut Memory<'_, '_>) -> Result<usize, MapError> {
        // SAFETY: The iterator is valid.
        if unsafe { bindings::smbd_iter_is_user(memory.raw()) } {
            // Its pages would have to be pinned, by a task that may not even have the memory.
            return Err(MapError::Failed(EINVAL));
        }
        let _scope = NoIo::enter();
        let bytes = memory.len();
        let limit = c_int::try_from(self.max_pages).map_err(|_| MapError::TooLarge)?;
        // SAFETY: The iterator is valid.
        let pages = unsafe { bindings::iov_iter_npages(memory.raw(), limit.saturating_add(1)) };
        if pages > limit || pages == 0 {
            return Err(MapError::TooLarge);
        }
        // SAFETY: A plain copy of the iterator as it is before it is consumed.
        let start = unsafe { core::ptr::read(memory.raw()) };
        let mut io = self.io.lock();
        if io.raw.is_none() {
            return Err(MapError::Failed(ENOTCONN.into()));
        }
        let room = usize::try_from(pages).map_err(|_| MapError::TooLarge)?;
        self.reserve(&mut io.list, room)
            .map_err(|_| MapError::NoRoom)?;
        let direct = self.map_direct(&mut io, memory, bytes, pages);
        if direct.is_err() {
            self.unmap_list(&mut io);
            self.map_bounce(&mut io, start, memory.direction(), bytes)
                .inspect_err(|_| {
                    self.unmap_list(&mut io);
                    io.bounce = None;
                })?;
            count(&self.pd.counters().bounced, 1);
            count(
                &self.pd.counters().bytes_bounced,
                u64::try_from(bytes).unwrap_or(0),
            );
            // Whatever part of the iterator the failed attempt took, all of it is dealt with now.
            // SAFETY: The iterator is valid and has that many bytes left.
            unsafe { bindings::iov_iter_advance(memory.raw(), memory.len()) };
        }
        let access = match memory.direction() {
            Direction::ToDevice => bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
            Direction::FromDevice => {
                bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            }
        };
        // SAFETY: The region is valid (`io.raw` is there) and idle.
        let key = unsafe {
            bindings::smbd_ib_next_rkey(self.raw.as_ptr());
            (*self.raw.as_ptr()).rkey
        };
        self.access.store(access, Relaxed);
        self.key.store(key, Release);
        Ok(bytes)
    }

    /// Maps the memory itself; the list has room for its pages.
    fn map_direct(
        &self,
        io: &mut Io,
        memory: &mut Memory<'_, '_>,
        bytes: usize,
        pages: c_int,
    ) -> Result {
        let mut table = bindings::sg_table {
            sgl: io.list.as_mut_ptr(),
            nents: 0,
            orig_nents: 0,
        };
        // SAFETY: The iterator is valid; the table has room for `pages` entries, all cleared.
        let taken = unsafe {
            bindings::extract_iter_to_sg(
                memory.raw(),
                bytes,
                &mut table,
                c_uint::try_from(pages)?,
                0,
            )
        };
        if usize::try_from(taken).ok() != Some(bytes) || table.nents == 0 {
            return Err(EIO);
        }
        self.map_list(io, c_int::try_from(table.nents)?, memory.direction(), bytes)
    }

    /// Maps a copy in page-aligned memory, which any device can register.
    fn map_bounce(
        &self,
        io: &mut Io,
        mut iter: bindings::iov_iter,
        direction: Direction,
        bytes: usize,
    ) -> Result {
        count(&self.pd.counters().allocations, 1);
        let mut copy = VVec::with_capacity(bytes, GFP_KERNEL)?;
        copy.resize(bytes, 0u8, GFP_KERNEL)?;
        if direction == Direction::ToDevice {
            // SAFETY: The iterator is a copy of a valid one whose memory is still there.
            let taken =
                unsafe { bindings::_copy_from_iter(copy.as_mut_ptr().cast(), bytes, &mut iter) };
            if taken != bytes {
                return Err(EFAULT);
            }
        }
        let pages = bytes.div_ceil(PAGE_SIZE);
        self.reserve(&mut io.list, pages)?;
        for (entry, page) in io.list.iter_mut().zip(copy.chunks_mut(PAGE_SIZE)) {
            // SAFETY: The chunk is inside one page, since the allocation starts on one.
            unsafe {
                bindings::smbd_sg_set_kernel(
                    entry,
                    page.as_mut_ptr().cast(),
                    c_uint::try_from(page.len())?,
                )
            };
        }
        let target = (direction == Direction::FromDevice).then_some(iter);
        io.bounce = Some(Bounce { copy, target });
        self.map_list(io, c_int::try_from(pages)?, direction, bytes)
    }

    /// Clears room for so many entries; capacity that was reserved before is used again.
    fn reserve(&self, list: &mut KVVec<bindings::scatterlist>, entries: usize) -> Result {
        if entries > list.capacity() {
            count(&self.pd.counters().allocations, 1);
        }
        list.clear();
        Ok(list.resize(entries, bindings::scatterlist::default(), GFP_KERNEL)?)
    }

    /// Maps the first `entries` of the list and describes them to the region.
    fn map_list(&self, io: &mut Io, entries: c_int, direction: Direction, bytes: usize) -> Result {
        let last = usize::try_from(entries)?.checked_sub(1).ok_or(EINVAL)?;
        let last = io.list.get_mut(last).ok_or(EINVAL)?;
        // SAFETY: An entry of the list.
        unsafe { bindings::smbd_sg_end(last) };
        let list = io.list.as_mut_ptr();
        fault::point(Point::MapRegion)?;
        // SAFETY: The list has `entries` valid entries; the device is kept by the domain.
        let mapped = unsafe {
            bindings::smbd_ib_dma_map_sg(self.pd.port().raw(), list, entries, direction.raw())
        };
        if mapped <= 0 {
            return Err(EIO);
        }
        count(&self.pd.counters().maps, 1);
        io.entries = entries;
        io.mapped = Some(direction);
        fault::point(Point::DescribeRegion)?;
        let page = c_uint::try_from(PAGE_SIZE)?;
        // SAFETY: The region is valid and idle, the list has `mapped` mapped entries.
        let (described, length) = unsafe {
            let described = bindings::ib_map_mr_sg(
                self.raw.as_ptr(),
                list,
                mapped,
                core::ptr::null_mut(),
                page,
            );
            (described, (*self.raw.as_ptr()).length)
        };
        // A device that merges or splits entries still has to cover every byte.
        if described != mapped || usize::try_from(length).ok() != Some(bytes) {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn unmap_list(&self, io: &mut Io) {
        let Some(direction) = io.mapped.take() else {
            return;
        };
        // SAFETY: Mapped by `map_list` with the same list, count and direction.
        unsafe {
            bindings::smbd_ib_dma_unmap_sg(
                self.pd.port().raw(),
                io.list.as_mut_ptr(),
                io.entries,
                direction.raw(),
            )
        };
        count(&self.pd.counters().unmaps, 1);
    }

    /// Unmaps the memory. The caller has made sure that the region is not in force any more. What the peer may have
    /// written to a copy is to be delivered.
    pub(crate) fn unmap(&self) -> Option<Bounce> {
        let mut io = self.io.lock();
        self.unmap_list(&mut io);
        io.bounce.take()
    }

    /// The key the peer names, of the present or the latest registration.
    pub(crate) fn key(&self) -> u32 {
        self.key.load(Acquire)
    }

    /// The address the peer names.
    pub(crate) fn address(&self) -> u64 {
        let io = self.io.lock();
        if io.raw.is_none() {
            return 0;
        }
        // SAFETY: The region is valid while `raw` is there.
        unsafe { (*self.raw.as_ptr()).iova }
    }

    /// Takes the region out of use for good: when this returns the key is dead and the memory
    /// unmapped.
    ///
    /// The caller has made sure that no request of an open send queue names the region; see
    /// [`Qp::disable_region`].
    fn disable(&self) -> Option<Bounce> {
        let raw = self.io.lock().raw.take();
        drop(raw);
        self.unmap()
    }

    /// The registration request, without completion object. Called by the queue pair for a pending
    /// registration; a region is taken off the pending ones before it is disabled, so it is valid.
    pub(super) fn registration(&self) -> bindings::ib_reg_wr {
        bindings::ib_reg_wr {
            wr: bindings::ib_send_wr {
                opcode: bindings::ib_wr_opcode_IB_WR_REG_MR,
                ..Default::default()
            },
            mr: self.raw.as_ptr(),
            key: self.key(),
            // CAST: Flag values of the C interface.
            access: self.access.load(Relaxed) as c_int,
        }
    }

    /// The invalidation request.
    pub(super) fn invalidation(
        self: &Arc<Self>,
        done: unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc),
    ) -> bindings::ib_send_wr {
        self.invalidated.reset();
        // SAFETY: Invalidations of one region never overlap, so nobody reads the object now.
        unsafe { (*self.cqe.get()).done = Some(done) };
        let mut request = bindings::ib_send_wr {
            opcode: bindings::ib_wr_opcode_IB_WR_LOCAL_INV,
            ..Default::default()
        };
        // SAFETY: Written above; only read from now on.
        wr::set_completion(&mut request, unsafe { &*self.cqe.get() });
        wr::set_invalidated_key(&mut request, self.key());
        request
    }

    /// The invalidation completed with this verbs status. Any context.
    pub(super) fn invalidation_done(&self, status: u32) {
        self.invalidated.set(status);
    }

    /// Waits for the posted invalidation; gives up when `dead` says the connection is broken.
    ///
    /// # Errors
    ///
    /// `-ECONNABORTED`; the region is to be disabled then.
    pub(crate) fn wait_invalidated(&self, dead: impl Fn() -> bool) -> Result {
        // The flush of a broken connection completes the request too; the look at `dead` covers a
        // connection that nobody flushes before our caller goes on.
        match self.invalidated.wait(FLUSH_MS, dead) {
            Some(bindings::ib_wc_status_IB_WC_SUCCESS) => Ok(()),
            _ => Err(ECONNABORTED.into()),
        }
    }
}

impl<C: Completions> Qp<C> {
    /// Takes a region out of use for good; see the requirement M5. What the peer may have written to a copy is to be
    /// delivered. Process context.
    ///
    /// The connection must be broken: if requests that name the region may still be in the
    /// hardware queue, the queue is flushed first.
    pub(crate) fn disable_region(&self, region: &Arc<Mr>) -> Option<Bounce> {
        let never_posted = self.unqueue_registration(region);
        if self.is_posted(region) {
            self.drain();
        }
        region.disable().filter(|_| !never_posted)
    }
}
