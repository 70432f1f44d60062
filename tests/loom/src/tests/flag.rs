// SPDX-License-Identifier: GPL-2.0

//! `kern::flag`: "disconnect sent", "torn down", "peer broke a rule", "given to a consumer".

use super::{fails, holds, Plain, RACE};
use crate::kern::flag::Flag;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::weaken::Ordered;
use loom::sync::Arc;
use loom::thread;

#[test]
fn one_setter_wins() {
    holds(|| {
        let flag = Arc::new(Flag::new());
        let other = [flag.clone(), flag.clone()].map(|flag| thread::spawn(move || flag.set()));
        let mut winners = usize::from(flag.set());
        for thread in other {
            winners += usize::from(thread.join().unwrap());
        }
        assert_eq!(winners, 1, "winners");
        assert!(flag.is_set());
    });
}

#[test]
fn twin_look_then_set() {
    fails(&[], "winners", || {
        let flag = Arc::new(Atomic::<i32>::new(0));
        let set = |flag: &Atomic<i32>| {
            let first = flag.load(Relaxed) == 0;
            flag.store(1, Relaxed);
            first
        };
        let other = flag.clone();
        let thread = thread::spawn(move || set(&other));
        let winners = usize::from(set(&flag)) + usize::from(thread.join().unwrap());
        assert_eq!(winners, 1, "winners");
    });
}

/// What was done before the flag was set.
fn done_before() {
    let shared = Arc::new((Flag::new(), Plain::new()));
    let other = shared.clone();
    let thread = thread::spawn(move || {
        other.1.write(1);
        other.0.set();
    });
    if shared.0.is_set() {
        assert_eq!(shared.1.read(), 1);
    }
    thread.join().unwrap();
}

#[test]
fn what_was_done_before_is_seen() {
    holds(done_before);
}

#[test]
fn twin_set_relaxed() {
    fails(&[Ordered::Full], RACE, done_before);
}

#[test]
fn twin_read_relaxed() {
    fails(&[Ordered::Acquire], RACE, done_before);
}
