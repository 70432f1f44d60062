// SPDX-License-Identifier: GPL-2.0

//! `conn::word`: events that come at the same time.

use super::{fails, holds, holds_within, Plain, LOST_WAKE_UP, RACE};
use crate::conn::word::StateWord;
use crate::kern::wait::Signals;
use crate::proto::state::{Event, State, Status};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed};
use kernel::sync::Arc;
use kernel::weaken::Ordered;
use loom::thread;

fn failure(errno: i32) -> Event {
    Event::Fail {
        errno,
        forced: None,
    }
}

/// Whether this event brought the first error.
fn is_first(change: Option<(State, State)>) -> bool {
    change.is_some_and(|(old, new)| old.first_error().is_none() && new.first_error().is_some())
}

/// A word on its way, one step before CONNECTED.
fn negotiating() -> Arc<StateWord> {
    let word = pinned(StateWord::new());
    for to in [
        Status::RdmaConnectNeeded,
        Status::RdmaConnectRunning,
        Status::NegotiateNeeded,
        Status::NegotiateRunning,
    ] {
        word.on(Event::Advance(to)).unwrap();
    }
    word
}

/// Three errors at a time: one is the first, stays it, and queues the cleanup.
#[test]
fn one_error_is_the_first() {
    holds(|| {
        let word = negotiating();
        let others = [-1, -2].map(|errno| {
            let word = word.clone();
            thread::spawn(move || (errno, is_first(word.on(failure(errno)))))
        });
        let mut outcomes = vec![(-3, is_first(word.on(failure(-3))))];
        let seen = word.get().first_error();
        outcomes.extend(others.map(|thread| thread.join().unwrap()));
        let firsts: Vec<i32> = outcomes.iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(firsts.len(), 1, "firsts");
        assert_eq!(word.get().first_error(), Some(firsts[0]));
        assert_eq!(seen, Some(firsts[0]));
    });
}

/// Reads, decides and stores, without comparing.
#[test]
fn twin_load_then_store() {
    fails(&[], "firsts", || {
        let word = Arc::new(Atomic::<u64>::new(State::NEW.raw()));
        let on = |word: &Atomic<u64>, errno| {
            let old = State::from_raw(word.load(Acquire));
            let new = old.on(failure(errno))?;
            word.store(new.raw(), Relaxed);
            Some((old, new))
        };
        let other = word.clone();
        let thread = thread::spawn(move || is_first(on(&other, -1)));
        let firsts = usize::from(is_first(on(&word, -2))) + usize::from(thread.join().unwrap());
        assert_eq!(firsts, 1, "firsts");
    });
}

/// Events of all kinds are steps of one chain: no fact is lost, nobody sees the state go back, and a
/// late success does not revive what failed.
#[test]
fn changes_form_a_chain() {
    holds_within(2, || {
        let word = negotiating();
        let start = word.get();
        let threads = [
            vec![Event::Established, Event::Advance(Status::Connected)],
            vec![failure(-1), Event::Disconnected],
        ]
        .map(|events| {
            let word = word.clone();
            thread::spawn(move || {
                let changes: Vec<_> = events.into_iter().filter_map(|it| word.on(it)).collect();
                changes
            })
        });
        let (early, late) = (word.get(), word.get());
        assert!(early.status() <= late.status());
        assert!(early.first_error().is_none() || early.first_error() == late.first_error());
        let mut changes: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        let mut at = start;
        while let Some(next) = changes.iter().position(|(old, _)| *old == at) {
            at = changes.swap_remove(next).1;
        }
        assert!(changes.is_empty(), "changes outside the chain");
        let end = word.get();
        assert_eq!(end, at);
        assert!(end.is_established() && end.is_disconnected());
        assert_eq!(end.status(), Status::Disconnected);
    });
}

/// A task waits for the end, as the teardown and connect() do.
fn waits_for_the_end() {
    let word = negotiating();
    let other = word.clone();
    let thread = thread::spawn(move || other.on(failure(-1)));
    let errno = word.wait(Signals::Ignore, None, State::first_error);
    assert_eq!(errno, Ok(-1));
    thread.join().unwrap();
}

#[test]
fn a_change_wakes_who_waits() {
    holds(waits_for_the_end);
}

#[test]
fn twin_no_barrier_before_the_look_at_the_word() {
    fails(&[Ordered::BeforeSleep], LOST_WAKE_UP, waits_for_the_end);
}

#[test]
fn twin_change_relaxed_and_no_barrier_before_the_wake_up() {
    let missing = &[Ordered::Full, Ordered::BeforeWake];
    fails(missing, LOST_WAKE_UP, waits_for_the_end);
}

#[pin_data]
struct Shared {
    #[pin]
    word: StateWord,
    before: Plain,
}

/// What was done before a state was reached.
fn done_before() {
    let shared = pinned(pin_init!(Shared {
        word <- StateWord::new(),
        before: Plain::new(),
    }));
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.before.write(1);
        other.word.on(Event::Advance(Status::Listening));
    });
    if shared.word.get().status() == Status::Listening {
        assert_eq!(shared.before.read(), 1);
    }
    thread.join().unwrap();
}

#[test]
fn what_was_done_before_is_seen() {
    holds(done_before);
}

#[test]
fn twin_change_relaxed() {
    fails(&[Ordered::Full], RACE, done_before);
}

#[test]
fn twin_read_relaxed() {
    fails(&[Ordered::Acquire], RACE, done_before);
}
