// SPDX-License-Identifier: GPL-2.0

//! Work items that can be delayed, rescheduled and shut off, and the queues that run them.
//!
//! A cousin of `kernel::workqueue::DelayedWork`, which can be queued but neither cancelled nor
//! disabled. The rules of references: a queued item owns one `Arc` of the object it is a member of;
//! who takes it off the queue (the runner, or a cancel that reports it was pending) gets it back.
//! `mod_delayed_work()` is avoided because its result does not tell "queued" from "disabled".

use crate::bindings;
use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::sync::{Arc, LockClassKey};
use kernel::types::Opaque;

/// A workqueue of our own, destroyed on drop.
pub(crate) struct WorkQueue(core::ptr::NonNull<kernel::bindings::workqueue_struct>);

// SAFETY: Workqueues are made to be used from any task.
unsafe impl Send for WorkQueue {}
// SAFETY: As above.
unsafe impl Sync for WorkQueue {}

/// What a [`WorkQueue`] promises beyond running its items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// Nothing.
    Normal,
    /// High priority, and a rescuer thread: items run even when no worker can be created for lack
    /// of memory.
    Reclaim,
}

impl WorkQueue {
    /// Creates a queue that shows up under this name in sysfs.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn new(name: &'static CStr, service: Service) -> Result<Self> {
        let reclaim = service == Service::Reclaim;
        // SAFETY: The name is a string that lives for ever.
        let raw = unsafe { bindings::smbd_alloc_workqueue(name.as_char_ptr(), reclaim) };
        core::ptr::NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl WorkQueue {
    /// Waits for everything queued so far. Process context, not from an item of the queue.
    pub(crate) fn flush(&self) {
        // SAFETY: We own the queue.
        unsafe { kernel::bindings::__flush_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        // SAFETY: We own the queue; `destroy_workqueue` waits for what is queued.
        unsafe { kernel::bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// What a work item does.
pub(crate) trait Run<const ID: u64>: HasWork<ID> {
    /// Runs once for each time the item was queued. Process context.
    fn run(this: Arc<Self>);
}

/// Says where in `Self` the [`Work`] with this id is.
///
/// # Safety
///
/// `OFFSET` must be the offset of a pinned field of type `Work<Self, ID>`; use [`impl_has_work!`].
pub(crate) unsafe trait HasWork<const ID: u64>:
    Sized + Send + Sync + 'static
{
    /// Bytes from the start of `Self` to the field.
    const OFFSET: usize;
}

/// A work item of `T`, a member of `T`.
#[pin_data]
pub(crate) struct Work<T, const ID: u64> {
    #[pin]
    raw: Opaque<kernel::bindings::delayed_work>,
    _owner: PhantomData<fn(Arc<T>)>,
}

// SAFETY: The work API synchronises all access to the C structure.
unsafe impl<T, const ID: u64> Send for Work<T, ID> {}
// SAFETY: As above.
unsafe impl<T, const ID: u64> Sync for Work<T, ID> {}

impl<T: Run<ID>, const ID: u64> Work<T, ID> {
    /// Creates an idle item; use [`new_work!`].
    pub(crate) fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        timer_key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes; name and keys are static.
            raw <- Opaque::ffi_init(|slot| unsafe {
                bindings::smbd_init_delayed_work(
                    slot, Some(Self::trampoline), name.as_char_ptr(), key.as_ptr(), timer_key.as_ptr(),
                )
            }),
            _owner: PhantomData,
        })
    }

    /// The item inside `owner`.
    fn raw(owner: &T) -> *mut kernel::bindings::delayed_work {
        // SAFETY: By the contract of `HasWork` a `Work<T, ID>` stands at this offset of `owner`.
        let work = unsafe {
            &*core::ptr::from_ref(owner)
                .byte_add(T::OFFSET)
                .cast::<Self>()
        };
        work.raw.get()
    }

    /// What the workqueue calls.
    ///
    /// # Safety
    ///
    /// * `work` is an item that was queued by this type and taken off its queue to run.
    unsafe extern "C" fn trampoline(work: *mut kernel::bindings::work_struct) {
        // `work` is the first member of the delayed work, which is the only data of `Work`.
        // SAFETY: The pointer was queued by `queue`, so it is that field of a `T`.
        let owner = unsafe { work.byte_sub(T::OFFSET).cast_const().cast::<T>() };
        // SAFETY: Queueing leaked one reference for this run.
        T::run(unsafe { Arc::from_raw(owner) });
    }

    /// Queues the item unless it is queued already or disabled.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn queue(owner: &Arc<T>, queue: &WorkQueue) {
        Self::queue_delayed(owner, queue, 0);
    }

    /// Queues the item to run in `msecs` milliseconds, in place of an earlier plan.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn queue_in(owner: &Arc<T>, queue: &WorkQueue, msecs: u32) {
        Self::cancel(owner);
        Self::queue_delayed(owner, queue, super::time::jiffies(msecs));
    }

    fn queue_delayed(owner: &Arc<T>, queue: &WorkQueue, delay: kernel::time::Jiffies) {
        let leaked = Arc::into_raw(owner.clone());
        // SAFETY: Item and queue are alive; the leaked reference keeps the item so until it ran.
        let queued = unsafe {
            kernel::bindings::queue_delayed_work_on(
                // CAST: The "any processor" value of the C API.
                kernel::bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int,
                queue.0.as_ptr(),
                Self::raw(owner),
                delay,
            )
        };
        if !queued {
            // SAFETY: Nobody took the reference leaked above.
            drop(unsafe { Arc::from_raw(leaked) });
        }
    }

    /// Takes the item off its queue, without waiting for a run that has started.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn cancel(owner: &Arc<T>) {
        // SAFETY: The item is initialised and `owner` keeps it alive.
        if unsafe { kernel::bindings::cancel_delayed_work(Self::raw(owner)) } {
            // SAFETY: The item was pending, so we got the reference its queueing had leaked.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(owner)) });
        }
    }

    /// Shuts the item off for good and waits for a run that has started.
    ///
    /// # Context
    ///
    /// Process context, not from the item itself.
    pub(crate) fn disable(owner: &Arc<T>) {
        // SAFETY: The item is initialised and `owner` keeps it alive.
        if unsafe { kernel::bindings::disable_delayed_work_sync(Self::raw(owner)) } {
            // SAFETY: The item was pending, so we got the reference its queueing had leaked.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(owner)) });
        }
    }
}

/// Implements [`HasWork`] for a field.
macro_rules! impl_has_work {
    ($(impl HasWork<$id:tt> for $owner:ty { self.$field:ident })*) => {$(
        // SAFETY: The offset is that of the field, whose type the function below checks.
        unsafe impl $crate::kern::work::HasWork<{ $id }> for $owner {
            const OFFSET: usize = {
                #[allow(dead_code)]
                fn check(owner: &$owner) -> &$crate::kern::work::Work<$owner, { $id }> {
                    &owner.$field
                }
                core::mem::offset_of!($owner, $field)
            };
        }
    )*};
}
pub(crate) use impl_has_work;

/// Creates a [`Work`] initialiser with the given name and lock classes of its own.
macro_rules! new_work {
    ($name:literal) => {
        $crate::kern::work::Work::new(
            $name,
            kernel::static_lock_class!(),
            kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_work;
