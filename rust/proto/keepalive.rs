// SPDX-License-Identifier: GPL-2.0
//! The connection's one timer, and the answers the peer asks for.
//!
//! MS-SMBD 3.1.6 (idle timer, negotiation timer); rules K1-K5, E2, E3. The timer is lazy (P4): receiving
//! a message only stores a time stamp, and the expiry works out whether it was early. Time is an input, a
//! `u64` that does not fall, in a unit of the caller's choice (milliseconds, jiffies); all intervals are in
//! the same unit.
//!
//! During set-up the same timer bounds one phase; [`Keepalive::phase`] starts it and only the next call of
//! `phase` or `connected` ends it, whatever arrives.
//!
//! [`Answer`] keeps K3: each burst of flagged messages gets at least one message after its last flag and
//! never more answers than flags. An answer carries the flag only if our own keepalive is pending, which
//! the flagged message has just cleared.

/// What to do when the timer has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Too early: start the timer again with this delay (at least 1).
    Rearm(u64),
    /// Send a message now (any message will carry the flag) and start the timer again.
    Probe {
        /// Delay of the timer.
        rearm: u64,
    },
    /// The peer or the phase took too long: end the connection with `-ETIMEDOUT`.
    TimedOut,
    /// No timer is wanted: keepalives are switched off, or the connection is ending.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// Nothing is timed.
    Off,
    /// A set-up phase ends at `deadline`.
    Phase { deadline: u64 },
    /// All is well; silence since `last` is measured.
    Quiet,
    /// The next message must carry the flag; started at `since`.
    Pending { since: u64 },
    /// The flagged message went out at `since`.
    Sent { since: u64 },
}

/// State of the connection's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keepalive {
    mode: Mode,
    last: u64,
    interval: u64,
    timeout: u64,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self::new()
    }
}

impl Keepalive {
    /// Nothing is timed yet.
    pub const fn new() -> Self {
        Self {
            mode: Mode::Off,
            last: 0,
            interval: 0,
            timeout: 0,
        }
    }

    /// A set-up phase begins at `now` and may take `timeout`. Returns the delay for the timer.
    pub fn phase(&mut self, now: u64, timeout: u64) -> u64 {
        self.mode = Mode::Phase {
            deadline: now.saturating_add(timeout),
        };
        timeout.max(1)
    }

    /// The connection carries data from `now` on. `interval`: silence before a keepalive, 0 switches
    /// keepalives off; `timeout`: silence after one. Returns what to do with the timer.
    pub fn connected(&mut self, now: u64, interval: u64, timeout: u64) -> Action {
        self.interval = interval;
        self.timeout = timeout.max(1);
        self.last = now;
        if interval == 0 {
            self.mode = Mode::Off;
            Action::Idle
        } else {
            self.mode = Mode::Quiet;
            Action::Rearm(interval)
        }
    }

    /// The connection is ending: no keepalive any more.
    pub fn stop(&mut self) {
        self.mode = Mode::Off;
    }

    /// A good message arrived at `now`. The timer itself is left alone.
    pub fn received(&mut self, now: u64) {
        self.last = self.last.max(now);
        if matches!(self.mode, Mode::Pending { .. } | Mode::Sent { .. }) {
            self.mode = Mode::Quiet;
        }
    }

    /// A message of any kind is about to go out at `now`. Returns whether it carries the flag; only the
    /// first message after a [`Action::Probe`] does (K2).
    #[must_use]
    pub fn sending(&mut self, now: u64) -> bool {
        let flag = self.is_pending();
        if flag {
            self.mode = Mode::Sent { since: now };
        }
        flag
    }

    /// The flagged message was not sent after all: the next one carries the flag.
    pub fn unsent(&mut self) {
        if let Mode::Sent { since } = self.mode {
            self.mode = Mode::Pending { since };
        }
    }

    /// Whether the next message will carry the flag.
    pub const fn is_pending(&self) -> bool {
        matches!(self.mode, Mode::Pending { .. })
    }

    /// The timer expired at `now`.
    pub fn expired(&mut self, now: u64) -> Action {
        let due = match self.mode {
            Mode::Off => return Action::Idle,
            Mode::Phase { deadline } => deadline,
            Mode::Quiet => self.last.saturating_add(self.interval),
            Mode::Pending { since } | Mode::Sent { since } => since.saturating_add(self.timeout),
        };
        if now < due {
            return Action::Rearm(due.saturating_sub(now));
        }
        if self.mode != Mode::Quiet {
            return Action::TimedOut;
        }
        self.mode = Mode::Pending { since: now };
        Action::Probe {
            rearm: self.timeout,
        }
    }
}

/// Whether the peer is owed an answer (K3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answer {
    owed: bool,
}

impl Answer {
    /// Nothing is owed.
    pub const fn new() -> Self {
        Self { owed: false }
    }

    /// A message with the flag arrived. Returns whether a message must be scheduled; if not, one already
    /// is.
    pub fn requested(&mut self) -> bool {
        let schedule = !self.owed;
        self.owed = true;
        schedule
    }

    /// Whether an answer is owed.
    pub const fn is_owed(&self) -> bool {
        self.owed
    }

    /// A message of any kind goes out: it is the answer. Returns whether one was owed.
    pub fn sending(&mut self) -> bool {
        let owed = self.owed;
        self.owed = false;
        owed
    }

    /// The message that was the answer was not sent after all.
    pub fn unsent(&mut self) {
        self.owed = true;
    }
}
