// SPDX-License-Identifier: GPL-2.0

//! `kern::loan`: transfers borrow the raw queue pair, closing calls it in.

use super::{fails, holds, holds_within, Plain, LOST_WAKE_UP, RACE};
use crate::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::loan::Loan;
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::weaken::{without, Ordered};
use loom::thread;

#[pin_data]
struct Shared {
    #[pin]
    loan: Loan,
    /// What is lent, and taken apart by the owner.
    thing: Plain,
}

fn shared() -> Arc<Shared> {
    pinned(pin_init!(Shared {
        loan <- Loan::new(),
        thing: Plain::new(),
    }))
}

fn borrower(shared: &Arc<Shared>) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        if let Some(_borrowed) = shared.loan.borrow() {
            assert_eq!(shared.thing.read(), 0);
        }
    })
}

fn close(shared: &Shared) {
    shared.loan.call_in();
    shared.loan.wait();
    shared.thing.write(1);
    assert!(shared.loan.borrow().is_none());
}

fn one_borrower() {
    let shared = shared();
    let borrower = borrower(&shared);
    close(&shared);
    borrower.join().unwrap();
}

#[test]
fn closing_waits_for_the_borrower() {
    holds(one_borrower);
    // All is under the lock, so the barriers do not count.
    without(&[Ordered::BeforeSleep, Ordered::BeforeWake], || {
        holds(one_borrower)
    });
}

#[test]
fn closing_waits_for_the_last_borrower() {
    holds_within(2, || {
        let shared = shared();
        let borrowers = [borrower(&shared), borrower(&shared)];
        close(&shared);
        for thread in borrowers {
            thread.join().unwrap();
        }
    });
}

#[test]
fn two_may_close() {
    holds_within(2, || {
        let shared = shared();
        let borrower = borrower(&shared);
        let other = shared.clone();
        let other = thread::spawn(move || {
            other.loan.call_in();
            other.loan.wait();
        });
        shared.loan.call_in();
        shared.loan.wait();
        borrower.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn twin_wait_without_calling_in() {
    fails(&[], RACE, || {
        let shared = shared();
        let borrower = borrower(&shared);
        shared.loan.wait();
        shared.thing.write(1);
        shared.loan.call_in();
        borrower.join().unwrap();
    });
}

#[pin_data]
struct Wrong {
    #[pin]
    borrowers: IrqLock<u32>,
    #[pin]
    returned: WaitQueue,
}

#[test]
fn twin_wake_then_return() {
    fails(&[], LOST_WAKE_UP, || {
        let wrong = pinned(pin_init!(Wrong {
            borrowers <- new_irq_lock!(1, c"borrowers"),
            returned <- new_wait_queue!(c"returned"),
        }));
        let other = wrong.clone();
        let thread = thread::spawn(move || {
            other.returned.wake_all();
            *other.borrowers.lock() -= 1;
        });
        let idle = || (*wrong.borrowers.lock() == 0).then_some(());
        wrong.returned.wait(Signals::Ignore, None, idle).unwrap();
        thread.join().unwrap();
    });
}
