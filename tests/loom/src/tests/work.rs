// SPDX-License-Identifier: GPL-2.0

//! `kern::work`: queueing against shutting off, and who owns the reference of a queued item. loom
//! reports an object that is leaked, or whose count goes below zero.

use super::{fails, holds, holds_within, Plain};
use crate::kern::work::{impl_has_work, new_work, Run, Service, Work, WorkQueue};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::work::{no_more_work, worker};
use loom::thread;

#[pin_data]
struct Object {
    #[pin]
    work: Work<Object, 0>,
    /// What a run reads, and the teardown takes away.
    parts: Plain,
    queue: WorkQueue,
}

impl_has_work! {
    impl HasWork<0> for Object { self.work }
}

impl Run<0> for Object {
    fn run(this: Arc<Self>) {
        assert_eq!(this.parts.read(), 0, "ran after it was shut off");
    }
}

fn object() -> Arc<Object> {
    pinned(pin_init!(Object {
        work <- new_work!(c"work"),
        parts: Plain::new(),
        queue: WorkQueue::new(c"queue", Service::Normal).unwrap(),
    }))
}

/// A completion queues the work, the teardown shuts it off.
fn against(act: fn(&Arc<Object>), shut_off: fn(&Arc<Object>)) {
    let object = object();
    let worker = thread::spawn(worker);
    let other = object.clone();
    let completion = thread::spawn(move || act(&other));
    shut_off(&object);
    object.parts.write(1);
    completion.join().unwrap();
    no_more_work();
    worker.join().unwrap();
}

fn queue(object: &Arc<Object>) {
    Work::queue(object, &object.queue);
}

#[test]
fn nothing_runs_after_it_is_shut_off() {
    holds(|| against(queue, Work::disable));
}

#[test]
fn nor_when_it_is_planned_anew() {
    let again = |object: &Arc<Object>| Work::queue_in(object, &object.queue, 5);
    holds_within(2, move || against(again, Work::disable));
}

#[test]
fn twin_cancelled_only() {
    fails(&[], "shut off", || against(queue, Work::cancel));
}

/// Queued twice, cancelled, run or not: each reference is given back once.
#[test]
fn references_balance() {
    holds_within(2, || {
        let object = object();
        let worker = thread::spawn(worker);
        let other = object.clone();
        let completion = thread::spawn(move || {
            queue(&other);
            Work::cancel(&other);
        });
        queue(&object);
        completion.join().unwrap();
        no_more_work();
        worker.join().unwrap();
        assert_eq!(Arc::strong_count(&object), 1);
    });
}

/// One reference is kept when the item was pending already.
#[test]
fn twin_a_reference_too_many() {
    fails(&[], "leaked", || {
        let object = object();
        core::mem::forget(object.clone());
        queue(&object);
        no_more_work();
        worker();
    });
}

/// The last reference may be the one of the queue.
#[test]
fn the_queue_keeps_the_object() {
    holds(|| {
        let object = object();
        let worker = thread::spawn(worker);
        queue(&object);
        drop(object);
        no_more_work();
        worker.join().unwrap();
    });
}
