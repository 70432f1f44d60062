// SPDX-License-Identifier: GPL-2.0

//! `kern::wait`: the condition is asked between going onto the queue and sleeping, and waking looks
//! at the queue behind a barrier.

use super::{fails, holds, holds_within, LOST_WAKE_UP};
use crate::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::wait::{new_wait_queue, Interrupted, Signals, WaitQueue};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;
use kernel::weaken::{without, Ordered};
use loom::thread;

#[pin_data]
struct Shared {
    ready: Atomic<u32>,
    #[pin]
    locked: IrqLock<u32>,
    #[pin]
    queue: WaitQueue,
}

fn shared() -> Arc<Shared> {
    pinned(pin_init!(Shared {
        ready: Atomic::new(0),
        locked <- new_irq_lock!(0, c"locked"),
        queue <- new_wait_queue!(c"queue"),
    }))
}

/// A condition without any order of its own.
fn relaxed_condition() {
    let shared = shared();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.ready.store(1, Relaxed);
        other.queue.wake_all();
    });
    let ready = || (shared.ready.load(Relaxed) != 0).then_some(());
    shared.queue.wait(Signals::Ignore, None, ready).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_wake_up_is_never_lost() {
    holds(relaxed_condition);
}

#[test]
fn twin_no_barrier_before_the_condition() {
    fails(&[Ordered::BeforeSleep], LOST_WAKE_UP, relaxed_condition);
}

#[test]
fn twin_no_barrier_before_the_look_at_the_queue() {
    fails(&[Ordered::BeforeWake], LOST_WAKE_UP, relaxed_condition);
}

#[test]
fn twin_wake_before_the_change() {
    fails(&[], LOST_WAKE_UP, || {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.queue.wake_all();
            other.ready.store(1, Relaxed);
        });
        let ready = || (shared.ready.load(Relaxed) != 0).then_some(());
        shared.queue.wait(Signals::Ignore, None, ready).unwrap();
        thread.join().unwrap();
    });
}

/// A condition under a lock, woken for after the lock is released.
fn locked_condition() {
    let shared = shared();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        *other.locked.lock() += 1;
        other.queue.wake_all();
    });
    let taken = || {
        let mut count = shared.locked.lock();
        *count = count.checked_sub(1)?;
        Some(())
    };
    shared.queue.wait(Signals::Ignore, None, taken).unwrap();
    thread.join().unwrap();
}

/// As the pool of regions, the contexts of transfers, the children of a listener, credits, room in
/// the send queue: the lock alone carries the order.
#[test]
fn a_condition_under_a_lock_needs_no_barrier() {
    holds(locked_condition);
    let missing = &[Ordered::BeforeSleep, Ordered::BeforeWake];
    without(missing, || holds(locked_condition));
}

#[test]
fn all_who_wait_are_woken() {
    holds_within(2, || {
        let shared = shared();
        let waiter = shared.clone();
        let waiter = thread::spawn(move || {
            let ready = || (waiter.ready.load(Relaxed) != 0).then_some(());
            waiter.queue.wait(Signals::Ignore, None, ready).unwrap();
        });
        let waker = shared.clone();
        let waker = thread::spawn(move || {
            waker.ready.store(1, Relaxed);
            waker.queue.wake_all();
        });
        let ready = || (shared.ready.load(Relaxed) != 0).then_some(());
        shared.queue.wait(Signals::Ignore, None, ready).unwrap();
        waiter.join().unwrap();
        waker.join().unwrap();
    });
}

/// The condition counts for more than the limit, and the limit ends the wait.
#[test]
fn a_limit_ends_the_wait() {
    holds(|| {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.ready.store(1, Relaxed);
            kernel::wait::time_passes();
        });
        let never = || None::<()>;
        let outcome = shared.queue.wait(Signals::Ignore, Some(1), never);
        assert_eq!(outcome, Err(Interrupted::TimedOut));
        let ready = || (shared.ready.load(Relaxed) != 0).then_some(());
        assert_eq!(shared.queue.wait(Signals::Ignore, Some(1), ready), Ok(()));
        thread.join().unwrap();
    });
}
