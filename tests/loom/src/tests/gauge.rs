// SPDX-License-Identifier: GPL-2.0

//! `kern::gauge`: the reader waits for bytes, completions bring them, a failure ends the wait.

use super::{fails, holds, holds_within, Plain, LOST_WAKE_UP, RACE};
use crate::conn::word::StateWord;
use crate::kern::gauge::Gauge;
use crate::kern::wait::{new_wait_queue, Interrupted, Signals, WaitQueue};
use crate::proto::state::{Event, Status};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed};
use kernel::sync::Arc;
use kernel::weaken::Ordered;
use loom::thread;

/// Why a read failed.
#[derive(Debug, PartialEq)]
struct Over;

#[pin_data]
struct Shared {
    #[pin]
    queued: Gauge,
    /// What the bytes are in.
    buffer: Plain,
    crowded: Atomic<u32>,
    #[pin]
    state: StateWord,
}

fn connected() -> Arc<Shared> {
    let shared = pinned(pin_init!(Shared {
        queued <- Gauge::new(),
        buffer: Plain::new(),
        crowded: Atomic::new(0),
        state <- StateWord::new(),
    }));
    for to in [
        Status::RdmaConnectNeeded,
        Status::RdmaConnectRunning,
        Status::NegotiateNeeded,
        Status::NegotiateRunning,
        Status::Connected,
    ] {
        shared.state.on(Event::Advance(to)).unwrap();
    }
    shared
}

fn fail(shared: &Shared) {
    let event = Event::Fail {
        errno: -5,
        forced: None,
    };
    shared.state.on(event);
    shared.queued.wake();
}

impl Shared {
    /// As `Connection::wait_for_data`.
    fn wait(&self, bytes: usize) -> Result<Result<(), Over>, Interrupted> {
        self.queued.wait(bytes, Signals::Ignore, None, || {
            if self.crowded.load(Acquire) != 0 {
                return Some(Ok(()));
            }
            (!self.state.get().is_connected()).then_some(Err(Over))
        })
    }
}

/// Two completions bring the bytes the reader waits for.
fn two_completions() {
    let shared = connected();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.queued.raise(1, false);
        other.queued.raise(1, false);
    });
    assert_eq!(shared.wait(2), Ok(Ok(())));
    assert_eq!(shared.queued.get(), 2);
    thread.join().unwrap();
}

#[test]
fn the_reader_is_woken_when_there_is_enough() {
    holds_within(2, two_completions);
}

/// The reader wanted more before than it wants now.
fn less_is_wanted() {
    let shared = connected();
    let at_once = || Some(Ok::<(), Over>(()));
    let before = shared.queued.wait(5, Signals::Ignore, None, at_once);
    assert_eq!(before, Ok(Ok(())));
    let other = shared.clone();
    let thread = thread::spawn(move || other.queued.raise(1, false));
    assert_eq!(shared.wait(1), Ok(Ok(())));
    thread.join().unwrap();
}

#[test]
fn the_reader_is_woken_for_what_it_wants_now() {
    holds(less_is_wanted);
}

#[test]
fn twin_raise_relaxed() {
    fails(&[Ordered::Full], LOST_WAKE_UP, less_is_wanted);
}

#[test]
fn twin_no_barrier_before_the_look_at_the_count() {
    fails(&[Ordered::BeforeSleep], LOST_WAKE_UP, less_is_wanted);
}

#[pin_data]
struct Wrong {
    now: Atomic<usize>,
    wanted: Atomic<usize>,
    #[pin]
    raised: WaitQueue,
}

/// Looks at what is wanted before it raises the count.
#[test]
fn twin_look_then_raise() {
    fails(&[], LOST_WAKE_UP, || {
        let wrong = pinned(pin_init!(Wrong {
            now: Atomic::new(0),
            wanted: Atomic::new(usize::MAX),
            raised <- new_wait_queue!(c"raised"),
        }));
        let other = wrong.clone();
        let thread = thread::spawn(move || {
            let wanted = other.wanted.load(Relaxed);
            if other.now.fetch_add(1, Full) + 1 >= wanted {
                other.raised.wake_all();
            }
        });
        wrong.wanted.store(1, Relaxed);
        let enough = || (wrong.now.load(Acquire) >= 1).then_some(());
        wrong.raised.wait(Signals::Ignore, None, enough).unwrap();
        thread.join().unwrap();
    });
}

/// The bytes are there when the count says so.
fn bytes_and_count() {
    let shared = connected();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.buffer.write(7);
        other.queued.raise(1, false);
    });
    if shared.queued.get() == 0 {
        assert_eq!(shared.wait(1), Ok(Ok(())));
    }
    assert_eq!(shared.buffer.read(), 7);
    shared.queued.lower(1);
    thread.join().unwrap();
}

#[test]
fn bytes_are_visible_after_the_count() {
    holds(bytes_and_count);
}

#[test]
fn twin_count_raised_relaxed() {
    fails(&[Ordered::Full], RACE, bytes_and_count);
}

#[test]
fn twin_count_read_relaxed() {
    fails(&[Ordered::Acquire], RACE, bytes_and_count);
}

/// Too few bytes, but buffers run short.
fn crowded(urgent: bool) {
    let shared = connected();
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.crowded.xchg(1, Full);
        other.queued.raise(1, urgent);
    });
    assert_eq!(shared.wait(2), Ok(Ok(())));
    thread.join().unwrap();
}

#[test]
fn the_reader_is_woken_when_buffers_run_short() {
    holds(|| crowded(true));
}

#[test]
fn twin_buffers_run_short_and_nobody_says_so() {
    fails(&[], LOST_WAKE_UP, || crowded(false));
}

#[test]
fn a_failure_ends_the_wait() {
    holds(|| {
        let shared = connected();
        let other = shared.clone();
        let thread = thread::spawn(move || fail(&other));
        assert_eq!(shared.wait(1), Ok(Err(Over)));
        thread.join().unwrap();
    });
}

#[test]
fn twin_a_failure_wakes_nobody() {
    fails(&[], LOST_WAKE_UP, || {
        let shared = connected();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.state.on(Event::Fail {
                errno: -5,
                forced: None,
            })
        });
        assert_eq!(shared.wait(1), Ok(Err(Over)));
        thread.join().unwrap();
    });
}

#[test]
fn what_arrived_before_the_end_is_delivered() {
    holds(|| {
        let shared = connected();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.queued.raise(1, false);
            fail(&other);
        });
        assert_eq!(shared.wait(1), Ok(Ok(())));
        thread.join().unwrap();
    });
}

/// Asks for the count, then for the failure, and not for the count again.
#[test]
fn twin_no_second_look_at_the_count() {
    fails(&[], "delivered", || {
        let shared = connected();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.queued.raise(1, false);
            fail(&other);
        });
        let enough = shared.queued.get() >= 1;
        assert!(enough || shared.state.get().is_connected(), "delivered");
        thread.join().unwrap();
    });
}
