// SPDX-License-Identifier: GPL-2.0

//! The state word: status, facts and first error of a connection in one atomic.
//!
//! `proto::state` says what an event makes of a state; here that becomes one step, however many
//! contexts have an event at the same time. Every change wakes who waits for a state.

use crate::kern::wait::{new_wait_queue, Interrupted, Signals, WaitQueue};
use crate::proto::state::{Event, State};
use kernel::ffi::c_long;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};

/// See the module's documentation.
#[pin_data]
pub(crate) struct StateWord {
    word: Atomic<u64>,
    #[pin]
    changed: WaitQueue,
}

impl StateWord {
    /// The state of a fresh socket.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            word: Atomic::new(State::NEW.raw()),
            changed <- new_wait_queue!(c"StateWord::changed"),
        })
    }

    /// The state; what was done before it was reached is visible. Any context.
    pub(crate) fn get(&self) -> State {
        State::from_raw(self.word.load(Acquire))
    }

    /// Applies an event; the states before and after, or [`None`] when it changed nothing. Any
    /// context.
    pub(crate) fn on(&self, event: Event) -> Option<(State, State)> {
        let mut old = self.get();
        loop {
            let new = old.on(event)?;
            match self.word.cmpxchg(old.raw(), new.raw(), Full) {
                Ok(_) => {
                    self.wake();
                    return Some((old, new));
                }
                Err(now) => old = State::from_raw(now),
            }
        }
    }

    /// Makes the tasks that wait ask again. Any context.
    pub(crate) fn wake(&self) {
        self.changed.wake_all();
    }

    /// Waits until `ready` finds the state it waits for; see [`WaitQueue::wait`].
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    pub(crate) fn wait<R>(
        &self,
        signals: Signals,
        limit: Option<c_long>,
        ready: impl Fn(State) -> Option<R>,
    ) -> Result<R, Interrupted> {
        self.changed.wait(signals, limit, || ready(self.get()))
    }
}
