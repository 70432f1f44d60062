// SPDX-License-Identifier: GPL-2.0

//! The right to send: a token that is somewhere at any time, and with it what is about to be sent.
//!
//! Who has taken the token sends; the others wait, or leave word that there is something to be sent,
//! and whoever has the token sends that too before it rests.

use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use kernel::prelude::*;

/// Where the token is.
enum Place<T> {
    /// Nowhere: the connection is not up.
    Absent,
    /// To be taken.
    Free(T),
    /// Somebody has it.
    Taken,
    /// A consumer's batch keeps it between calls.
    Parked(T),
}

struct Token<T> {
    place: Place<T>,
    /// Somebody wanted to send what is due while the token was taken.
    missed: bool,
    /// The token is parked by a caller without a batch, in the middle of its message.
    unbatched: bool,
}

impl<T> Token<T> {
    fn take(&mut self) -> Option<T> {
        match core::mem::replace(&mut self.place, Place::Taken) {
            Place::Free(value) => Some(value),
            other => {
                self.place = other;
                None
            }
        }
    }

    fn unpark(&mut self) -> Option<T> {
        match core::mem::replace(&mut self.place, Place::Taken) {
            Place::Parked(value) => Some(value),
            other => {
                self.place = other;
                None
            }
        }
    }
}

/// See the module's documentation.
#[pin_data]
pub(crate) struct Right<T> {
    #[pin]
    token: IrqLock<Token<T>>,
}

impl<T: Unpin> Right<T> {
    /// The token is nowhere yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        let token = Token {
            place: Place::Absent,
            missed: false,
            unbatched: false,
        };
        pin_init!(Self {
            token <- new_irq_lock!(token, c"Right::token"),
        })
    }

    /// Takes the token if it is free. Any context.
    pub(crate) fn take(&self) -> Option<T> {
        self.token.lock().take()
    }

    /// Makes the token free: at first, and after use. The caller then looks for what is due, which
    /// somebody may have left to it. Any context.
    pub(crate) fn give_back(&self, value: T) {
        let mut token = self.token.lock();
        token.place = Place::Free(value);
        token.missed = false;
    }

    /// Keeps the token for the next call of the same consumer, who has no batch if `unbatched`.
    pub(crate) fn park(&self, value: T, unbatched: bool) {
        let mut token = self.token.lock();
        token.place = Place::Parked(value);
        token.unbatched = unbatched;
    }

    /// Takes the token that is parked.
    pub(crate) fn unpark(&self) -> Option<T> {
        self.token.lock().unpark()
    }

    /// Takes the token that a caller without a batch left parked.
    pub(crate) fn unpark_unbatched(&self) -> Option<T> {
        let mut token = self.token.lock();
        core::mem::take(&mut token.unbatched)
            .then(|| token.unpark())
            .flatten()
    }

    /// Lets `send` use the token if something is `due`, and again if somebody missed the token
    /// meanwhile. If it is taken, whoever has it looks for what is due before it rests. Returns whether
    /// the token was used, and may be waited for. Any context.
    pub(crate) fn serve(&self, due: impl Fn() -> bool, send: impl Fn(&mut T)) -> bool {
        let mut used = false;
        while due() {
            let mut token = self.token.lock();
            let Some(mut value) = token.take() else {
                token.missed = true;
                break;
            };
            drop(token);
            send(&mut value);
            used = true;
            let mut token = self.token.lock();
            token.place = Place::Free(value);
            if !core::mem::take(&mut token.missed) {
                break;
            }
        }
        used
    }
}
