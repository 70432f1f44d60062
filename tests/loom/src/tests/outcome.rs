// SPDX-License-Identifier: GPL-2.0

//! `kern::outcome`: a transfer or an invalidation, its completion, and a connection that breaks.

use super::{fails, holds, holds_within, Plain, LOST_WAKE_UP, RACE};
use crate::kern::flag::Flag;
use crate::kern::outcome::Outcome;
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;
use kernel::weaken::Ordered;
use loom::thread;

#[pin_data]
struct Shared {
    #[pin]
    outcome: Outcome,
    buffer: Plain,
    dead: Flag,
}

fn shared() -> Arc<Shared> {
    pinned(pin_init!(Shared {
        outcome <- Outcome::new(),
        buffer: Plain::new(),
        dead: Flag::new(),
    }))
}

/// A completion, and the task that posted the request.
fn completion() {
    let shared = shared();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.buffer.write(7);
        other.outcome.set(4);
    });
    assert_eq!(shared.outcome.wait(1, || false), Some(4));
    assert_eq!(shared.buffer.read(), 7);
    thread.join().unwrap();
}

#[test]
fn the_outcome_and_what_was_before_it_are_seen() {
    holds(completion);
}

#[test]
fn twin_set_relaxed() {
    fails(&[Ordered::Release], RACE, completion);
}

#[test]
fn twin_read_relaxed() {
    fails(&[Ordered::Acquire], RACE, completion);
}

#[test]
fn twin_no_barrier_before_the_wake_up() {
    fails(&[Ordered::BeforeWake], LOST_WAKE_UP, completion);
}

#[test]
fn twin_no_barrier_before_the_look_at_the_status() {
    fails(&[Ordered::BeforeSleep], LOST_WAKE_UP, completion);
}

#[pin_data]
struct Wrong {
    status: Atomic<u32>,
    #[pin]
    known: WaitQueue,
}

#[test]
fn twin_wake_then_set() {
    fails(&[], LOST_WAKE_UP, || {
        let wrong = pinned(pin_init!(Wrong {
            status: Atomic::new(0),
            known <- new_wait_queue!(c"known"),
        }));
        let other = wrong.clone();
        let thread = thread::spawn(move || {
            other.known.wake_all();
            other.status.store(1, Release);
        });
        let known = || wrong.status.load(Acquire).checked_sub(1);
        wrong.known.wait(Signals::Ignore, None, known).unwrap();
        thread.join().unwrap();
    });
}

/// The connection breaks and its flush brings nothing: the wait ends with time.
#[test]
fn a_broken_connection_ends_the_wait() {
    holds(|| {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.dead.set();
            kernel::wait::time_passes();
        });
        let outcome = shared.outcome.wait(1, || shared.dead.is_set());
        assert_eq!(outcome, None);
        thread.join().unwrap();
    });
}

#[test]
fn twin_no_limit() {
    fails(&[], LOST_WAKE_UP, || {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || other.dead.set());
        shared.outcome.wait(1, || shared.dead.is_set());
        thread.join().unwrap();
    });
}

/// The flush races with the end of the grace: a status that came is never some other status, and is
/// there for the last look after the drain.
#[test]
fn a_late_flush_is_not_lost() {
    holds_within(2, || {
        let shared = shared();
        let breaks = shared.clone();
        let breaks = thread::spawn(move || {
            breaks.dead.set();
            kernel::wait::time_passes();
        });
        let flush = shared.clone();
        let flush = thread::spawn(move || flush.outcome.set(5));
        let early = shared.outcome.wait(1, || shared.dead.is_set());
        assert!(matches!(early, None | Some(5)));
        // The drain.
        flush.join().unwrap();
        assert_eq!(early.or(shared.outcome.get()), Some(5));
        breaks.join().unwrap();
    });
}

/// Two invalidations of one region, one after the other.
fn two_rounds(reset: bool) {
    let shared = shared();
    for status in [1, 2] {
        if reset {
            shared.outcome.reset();
        }
        let other = shared.clone();
        let thread = thread::spawn(move || other.outcome.set(status));
        let seen = shared.outcome.wait(1, || false);
        thread.join().unwrap();
        assert_eq!(seen, Some(status), "round");
    }
}

#[test]
fn a_round_never_sees_the_one_before() {
    holds(|| two_rounds(true));
}

#[test]
fn twin_no_reset() {
    fails(&[], "round", || two_rounds(false));
}
