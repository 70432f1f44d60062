// SPDX-License-Identifier: GPL-2.0

//! The kernel's wait queues (`kernel/sched/wait.c`) and what of the scheduler they rest on.
//!
//! What is modelled, barrier by barrier:
//!
//! * `prepare_to_wait_event()` takes the head's lock, puts the entry on the list and sets the task's
//!   state with `set_current_state()`, which ends in a full barrier.
//! * `wq_has_sleeper()` is a full barrier and a look at the list without the lock.
//! * `__wake_up()` takes the head's lock and wakes each task; one that was asleep leaves the list
//!   (`autoremove_wake_function()`). `try_to_wake_up()` begins with a full barrier.
//! * `schedule()` returns at once if the state was set back meanwhile. Who returns from it sees what
//!   the waker did before.
//! * `finish_wait()` looks at its own entry without the lock (`list_empty_careful()`), and takes the lock
//!   only if that is still on the list.
//!
//! The locks are loom's, which order as spin locks do: acquire and release, no more. No task ever has
//! a signal pending. Time does not pass, until [`time_passes`]: then every limit is over.

use crate::atomic::Step;
use crate::weaken::{barrier, Ordered};
use loom::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use std::sync::Arc;

/// A task: whether it is going to sleep, under its `pi_lock`.
struct Task {
    asleep: Mutex<bool>,
    woken: Condvar,
}

impl Task {
    fn new() -> Self {
        Self {
            asleep: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// The state of the task that calls.
    fn set_asleep(&self, asleep: bool) {
        *self.asleep.lock().unwrap() = asleep;
    }

    /// `try_to_wake_up()`; whether the task was asleep.
    fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let mut asleep = self.asleep.lock().unwrap();
        let was = core::mem::replace(&mut *asleep, false);
        if was {
            self.woken.notify_one();
        }
        was
    }

    /// `schedule()`.
    fn sleep(&self) {
        let mut asleep = self.asleep.lock().unwrap();
        while *asleep {
            asleep = self.woken.wait(asleep).unwrap();
        }
    }
}

loom::thread_local! {
    static CURRENT: Arc<Task> = Arc::new(Task::new());
}

fn current() -> Arc<Task> {
    CURRENT.with(Arc::clone)
}

/// The timers of tasks that sleep with a limit.
struct Timers {
    over: bool,
    armed: Vec<Arc<Task>>,
}

loom::lazy_static! {
    static ref TIMERS: Mutex<Timers> = Mutex::new(Timers { over: false, armed: Vec::new() });
}

/// Lets every limit end, of waits that go on and of those to come.
pub fn time_passes() {
    let mut timers = TIMERS.lock().unwrap();
    timers.over = true;
    let armed = core::mem::take(&mut timers.armed);
    drop(timers);
    for task in armed {
        task.wake();
    }
}

/// A task on a queue.
struct Waiter {
    task: Arc<Task>,
    /// Whether the entry is on the list: written under the head's lock, read by its task without.
    listed: AtomicBool,
}

struct Head {
    list: Mutex<Vec<Arc<Waiter>>>,
    /// How long the list is, for who looks without the lock.
    len: AtomicUsize,
    step: Step,
}

impl Head {
    /// With the list, under the lock.
    fn set_len(&self, len: usize) {
        self.step.take();
        self.len.store(len, Ordering::Relaxed);
    }
}

/// The C names.
#[allow(non_camel_case_types)]
pub mod c {
    use super::*;
    use core::ffi::{c_char, c_int, c_long};

    /// `struct wait_queue_head`.
    pub struct wait_queue_head(Head);
    /// `struct wait_queue_entry`.
    pub struct wait_queue_entry(Option<Arc<Waiter>>);

    /// A state that signals end.
    pub const TASK_INTERRUPTIBLE: u32 = 1;
    /// A state that signals do not end.
    pub const TASK_UNINTERRUPTIBLE: u32 = 2;
    /// Not for the load average.
    pub const TASK_NOLOAD: u32 = 0x400;

    /// Initialises a queue.
    ///
    /// # Safety
    ///
    /// * `head` is valid for writes.
    pub unsafe fn __init_waitqueue_head(head: *mut wait_queue_head, _: *const c_char, _: *mut ()) {
        let new = Head {
            list: Mutex::new(Vec::new()),
            len: AtomicUsize::new(0),
            step: Step::new(),
        };
        // SAFETY: By contract.
        unsafe { head.write(wait_queue_head(new)) };
    }

    /// Initialises an entry for the current task.
    ///
    /// # Safety
    ///
    /// * `entry` is valid for writes.
    pub unsafe fn init_wait_entry(entry: *mut wait_queue_entry, _: c_int) {
        let waiter = Waiter {
            task: current(),
            listed: AtomicBool::new(false),
        };
        // SAFETY: By contract.
        unsafe { entry.write(wait_queue_entry(Some(Arc::new(waiter)))) };
    }

    /// Goes onto the queue, or stays there, and sets the state.
    ///
    /// # Safety
    ///
    /// * Both are initialised, and the entry is the current task's.
    pub unsafe fn prepare_to_wait_event(
        head: *mut wait_queue_head,
        entry: *mut wait_queue_entry,
        _: c_int,
    ) -> c_long {
        // SAFETY: By contract.
        let (head, entry) = unsafe { (&(*head).0, &*entry) };
        let waiter = entry.0.as_ref().expect("finished entry");
        let mut list = head.list.lock().unwrap();
        if !list.iter().any(|other| Arc::ptr_eq(other, waiter)) {
            list.push(waiter.clone());
            head.set_len(list.len());
            waiter.listed.store(true, Ordering::Relaxed);
        }
        waiter.task.set_asleep(true);
        barrier(Ordered::BeforeSleep);
        0
    }

    /// Leaves the queue.
    ///
    /// # Safety
    ///
    /// * Both are initialised, and the entry is the current task's.
    pub unsafe fn finish_wait(head: *mut wait_queue_head, entry: *mut wait_queue_entry) {
        // SAFETY: By contract.
        let (head, entry) = unsafe { (&(*head).0, &mut *entry) };
        let waiter = entry.0.take().expect("finished entry");
        waiter.task.set_asleep(false);
        if waiter.listed.load(Ordering::Acquire) {
            let mut list = head.list.lock().unwrap();
            list.retain(|other| !Arc::ptr_eq(other, &waiter));
            head.set_len(list.len());
        }
    }

    /// Sleeps until woken, at most for `limit`; returns what is left of it.
    ///
    /// # Safety
    ///
    /// * None here; in the kernel the caller must be allowed to sleep.
    pub unsafe fn schedule_timeout(limit: c_long) -> c_long {
        let task = current();
        if limit == c_long::MAX {
            task.sleep();
            return limit;
        }
        let mut timers = TIMERS.lock().unwrap();
        if timers.over {
            drop(timers);
            task.set_asleep(false);
            return 0;
        }
        timers.armed.push(task.clone());
        drop(timers);
        task.sleep();
        let mut timers = TIMERS.lock().unwrap();
        timers.armed.retain(|other| !Arc::ptr_eq(other, &task));
        match timers.over {
            true => 0,
            false => limit,
        }
    }

    /// Whether somebody may be on the queue.
    ///
    /// # Safety
    ///
    /// * `head` is initialised.
    pub unsafe fn smbd_wq_has_sleeper(head: *mut wait_queue_head) -> bool {
        barrier(Ordered::BeforeWake);
        // SAFETY: By contract.
        let head = unsafe { &(*head).0 };
        head.step.take();
        head.len.load(Ordering::Relaxed) != 0
    }

    /// Wakes the tasks on the queue.
    ///
    /// # Safety
    ///
    /// * `head` is initialised.
    pub unsafe fn smbd_wake_up(head: *mut wait_queue_head, count: c_int) {
        assert_eq!(count, 0, "only for all");
        // SAFETY: By contract.
        let head = unsafe { &(*head).0 };
        let mut list = head.list.lock().unwrap();
        list.retain(|waiter| {
            let woken = waiter.task.wake();
            if woken {
                waiter.listed.store(false, Ordering::Release);
            }
            !woken
        });
        head.set_len(list.len());
    }
}
