// SPDX-License-Identifier: GPL-2.0

//! `conn::right`: what is due is sent, by whoever has the token, and who waits for it gets it.

use super::{fails, holds, holds_within, LOST_WAKE_UP};
use crate::conn::right::Right;
use crate::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::wait::{new_wait_queue, Signals, WaitQueue};
use kernel::pinned;
use kernel::prelude::*;
use kernel::sync::Arc;
use loom::thread;

#[pin_data]
struct Shared {
    /// The token is the number of messages sent.
    #[pin]
    right: Right<u32>,
    /// Answers owed, as under the lock of the credits.
    #[pin]
    owed: IrqLock<u32>,
    #[pin]
    wait: WaitQueue,
}

fn shared() -> Arc<Shared> {
    let shared = pinned(pin_init!(Shared {
        right <- Right::new(),
        owed <- new_irq_lock!(0, c"owed"),
        wait <- new_wait_queue!(c"wait"),
    }));
    shared.right.give_back(0);
    shared
}

impl Shared {
    /// A message answers whatever is owed.
    fn send(&self, sent: &mut u32) {
        *sent += 1;
        *self.owed.lock() = 0;
    }

    /// As `Connection::pump`.
    fn pump(&self) {
        let due = || *self.owed.lock() > 0;
        if self.right.serve(due, |sent| self.send(sent)) {
            self.wait.wake_all();
        }
    }

    /// A message that asks for an answer arrives.
    fn arrived(&self) {
        *self.owed.lock() += 1;
        self.pump();
    }

    fn take(&self) -> u32 {
        let taken = || self.right.take();
        self.wait.wait(Signals::Ignore, None, taken).unwrap()
    }
}

fn spawn(shared: &Arc<Shared>, act: fn(&Shared)) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

/// Completions of two messages at a time.
#[test]
fn answers_are_sent_whoever_has_the_token() {
    holds(|| {
        let shared = shared();
        let other = spawn(&shared, Shared::arrived);
        shared.arrived();
        other.join().unwrap();
        assert_eq!(*shared.owed.lock(), 0, "owed");
        assert!(matches!(shared.right.take(), Some(1 | 2)));
    });
}

/// A sender gives the token back, then looks for what is due, as `Connection::release`.
#[test]
fn a_sender_sends_what_became_due() {
    holds(|| {
        let shared = shared();
        let other = spawn(&shared, Shared::arrived);
        let sent = shared.take();
        shared.right.give_back(sent);
        shared.wait.wake_all();
        shared.pump();
        other.join().unwrap();
        assert_eq!(*shared.owed.lock(), 0, "owed");
    });
}

#[test]
fn twin_a_sender_that_does_not_look() {
    fails(&[], "owed", || {
        let shared = shared();
        let other = spawn(&shared, Shared::arrived);
        let sent = shared.take();
        shared.right.give_back(sent);
        other.join().unwrap();
        assert_eq!(*shared.owed.lock(), 0, "owed");
    });
}

/// Serves without asking whether somebody missed the token.
#[test]
fn twin_nobody_asks_who_missed_the_token() {
    fails(&[], "owed", || {
        let shared = shared();
        fn arrived(shared: &Shared) {
            *shared.owed.lock() += 1;
            if let Some(mut sent) = shared.right.take() {
                shared.send(&mut sent);
                shared.right.give_back(sent);
            }
        }
        let other = spawn(&shared, arrived);
        arrived(&shared);
        other.join().unwrap();
        assert_eq!(*shared.owed.lock(), 0, "owed");
    });
}

/// Two senders and a completion: who waits for the token gets it.
#[test]
fn who_waits_gets_the_token() {
    holds_within(2, || {
        let shared = shared();
        let completion = spawn(&shared, Shared::arrived);
        let sender = |shared: &Shared| {
            let sent = shared.take();
            shared.right.give_back(sent + 1);
            shared.wait.wake_all();
            shared.pump();
        };
        let other = spawn(&shared, sender);
        sender(&shared);
        completion.join().unwrap();
        other.join().unwrap();
        assert_eq!(*shared.owed.lock(), 0, "owed");
        assert!(matches!(shared.right.take(), Some(2..=4)));
    });
}

#[test]
fn twin_serving_wakes_nobody() {
    fails(&[], LOST_WAKE_UP, || {
        let shared = shared();
        let completion = spawn(&shared, |shared| {
            *shared.owed.lock() += 1;
            let due = || *shared.owed.lock() > 0;
            shared.right.serve(due, |sent| shared.send(sent));
        });
        let sent = shared.take();
        shared.right.give_back(sent);
        completion.join().unwrap();
    });
}
