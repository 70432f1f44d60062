// SPDX-License-Identifier: GPL-2.0

//! The kernel's work queues (`kernel/workqueue.c`), as far as one item can be queued, cancelled,
//! disabled and run.
//!
//! All is under the queue's one lock, as it is under the pool's lock there. An item is pending from
//! when it is queued until a worker takes it to run it; it may be queued again from then on, and does
//! not run twice at a time. Delays are over at once: a delay only makes a plan that a cancel finds
//! pending more likely.

use loom::sync::{Condvar, Mutex};

/// The state of an item, under the lock.
#[derive(Default)]
struct Item {
    pending: bool,
    running: bool,
    disabled: bool,
}

/// A queue and the item it is for.
struct State {
    item: Item,
    work: *mut c::work_struct,
    ends: bool,
}

/// The lock with what it protects, and what tasks wait for: an item to run, or the end of its run.
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

// SAFETY: The pointer in the state is only followed by the worker, for an item that was queued and
// so is kept by its reference.
unsafe impl Sync for Pool {}
// SAFETY: As above.
unsafe impl Send for Pool {}

loom::lazy_static! {
    static ref POOL: Pool = Pool {
        state: Mutex::new(State {
            item: Item::default(),
            work: core::ptr::null_mut(),
            ends: false,
        }),
        changed: Condvar::new(),
    };
}

/// A worker: runs the item whenever it is queued, until [`no_more_work`] and nothing is pending.
pub fn worker() {
    let mut state = POOL.state.lock().unwrap();
    loop {
        if state.item.pending {
            state.item.pending = false;
            state.item.running = true;
            let work = state.work;
            drop(state);
            // SAFETY: Whoever queued the item keeps it and has initialised it.
            unsafe { ((*work).run.expect("no function"))(work) };
            state = POOL.state.lock().unwrap();
            state.item.running = false;
            POOL.changed.notify_all();
        } else if state.ends {
            return;
        } else {
            state = POOL.changed.wait(state).unwrap();
        }
    }
}

/// Lets the worker end.
pub fn no_more_work() {
    POOL.state.lock().unwrap().ends = true;
    POOL.changed.notify_all();
}

/// The C names.
#[allow(non_camel_case_types, non_upper_case_globals)]
pub mod c {
    use super::*;
    use core::ffi::{c_char, c_int, c_ulong};

    /// `work_func_t`.
    pub type work_func = unsafe extern "C" fn(*mut work_struct);

    /// `struct work_struct`.
    pub struct work_struct {
        pub(super) run: Option<work_func>,
    }

    /// `struct delayed_work`.
    #[repr(C)]
    pub struct delayed_work(work_struct);

    /// `struct workqueue_struct`.
    pub struct workqueue_struct;

    /// The "any processor" value.
    pub const wq_misc_consts_WORK_CPU_UNBOUND: u32 = 64;

    /// Makes a queue.
    ///
    /// # Safety
    ///
    /// * None.
    pub unsafe fn smbd_alloc_workqueue(_: *const c_char, _: bool) -> *mut workqueue_struct {
        Box::into_raw(Box::new(workqueue_struct))
    }

    /// Waits for what is queued.
    ///
    /// # Safety
    ///
    /// * `queue` is a queue.
    pub unsafe fn __flush_workqueue(_: *mut workqueue_struct) {
        unimplemented!()
    }

    /// Frees a queue.
    ///
    /// # Safety
    ///
    /// * `queue` was made by `smbd_alloc_workqueue`.
    pub unsafe fn destroy_workqueue(queue: *mut workqueue_struct) {
        // SAFETY: By contract.
        drop(unsafe { Box::from_raw(queue) });
    }

    /// Initialises an item.
    ///
    /// # Safety
    ///
    /// * `work` is valid for writes.
    pub unsafe fn smbd_init_delayed_work(
        work: *mut delayed_work,
        run: Option<work_func>,
        _: *const c_char,
        _: *mut (),
        _: *mut (),
    ) {
        // SAFETY: By contract.
        unsafe { work.write(delayed_work(work_struct { run })) };
    }

    /// Queues an item; false if it is pending or disabled.
    ///
    /// # Safety
    ///
    /// * Both are initialised.
    pub unsafe fn queue_delayed_work_on(
        _: c_int,
        _: *mut workqueue_struct,
        work: *mut delayed_work,
        _: c_ulong,
    ) -> bool {
        let mut state = POOL.state.lock().unwrap();
        if state.item.pending || state.item.disabled {
            return false;
        }
        state.item.pending = true;
        state.work = work.cast();
        POOL.changed.notify_all();
        true
    }

    /// Takes an item off the queue; whether it was on it.
    ///
    /// # Safety
    ///
    /// * `work` is initialised.
    pub unsafe fn cancel_delayed_work(_: *mut delayed_work) -> bool {
        let mut state = POOL.state.lock().unwrap();
        core::mem::take(&mut state.item.pending)
    }

    /// The same; the item cannot be queued any more, and its run is over.
    ///
    /// # Safety
    ///
    /// * `work` is initialised.
    pub unsafe fn disable_delayed_work_sync(_: *mut delayed_work) -> bool {
        let mut state = POOL.state.lock().unwrap();
        state.item.disabled = true;
        let pending = core::mem::take(&mut state.item.pending);
        while state.item.running {
            state = POOL.changed.wait(state).unwrap();
        }
        pending
    }
}
