// SPDX-License-Identifier: GPL-2.0

//! Something that tasks borrow, and sleep with, until its owner calls it in.
//!
//! Calling in is final: nobody borrows any more, and it returns when the last borrower is done. So the
//! owner may take apart what was lent out.

use super::irq_lock::{new_irq_lock, IrqLock};
use super::wait::{new_wait_queue, Signals, WaitQueue};
use kernel::prelude::*;

struct State {
    called_in: bool,
    borrowers: usize,
}

/// See the module's documentation.
#[pin_data]
pub(crate) struct Loan {
    #[pin]
    state: IrqLock<State>,
    #[pin]
    returned: WaitQueue,
}

impl Loan {
    /// Something nobody has borrowed yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            called_in: false,
            borrowers: 0,
        };
        pin_init!(Self {
            state <- new_irq_lock!(state, c"Loan::state"),
            returned <- new_wait_queue!(c"Loan::returned"),
        })
    }

    /// Borrows until the value is dropped; [`None`] once it is called in.
    pub(crate) fn borrow(&self) -> Option<Borrowed<'_>> {
        let mut state = self.state.lock();
        if state.called_in {
            return None;
        }
        state.borrowers = state.borrowers.saturating_add(1);
        Some(Borrowed(self))
    }

    /// Refuses new borrowers from now on; [`wait`](Self::wait) waits for those there are.
    pub(crate) fn call_in(&self) {
        self.state.lock().called_in = true;
    }

    /// Waits until nobody borrows any more. May be called by several. Process context.
    pub(crate) fn wait(&self) {
        let idle = || (self.state.lock().borrowers == 0).then_some(());
        let _ = self.returned.wait(Signals::Ignore, None, idle);
    }
}

/// A loan; who has it sleeps at will, but must come to an end.
pub(crate) struct Borrowed<'a>(&'a Loan);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.borrowers = state.borrowers.saturating_sub(1);
        drop(state);
        self.0.returned.wake_all();
    }
}
