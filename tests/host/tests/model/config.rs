// SPDX-License-Identifier: GPL-2.0
//! What is explored: how large, what may go wrong, and which rules an endpoint keeps.

/// How an endpoint treats its credits and its receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// As `Credits` does: the last credit always carries a grant, and a receive beyond the window is kept
    /// for it.
    Ours,
    /// Ours without the receive beyond the window, and one half-received message may hold all buffers.
    NoReserve,
    /// The last credit may go without a grant while the peer holds a credit, seen from here (the weaker
    /// wording of C4). With the reserve.
    Weaker,
    /// The same without the reserve: what the C module does.
    Plain,
    /// No rule at all.
    Unguarded,
    /// Ours, but grants are computed as posted receives minus what the peer holds, by two counters which a
    /// handler lowers one after the other (C5).
    PostedMinusOutstanding,
    /// Ours, but a message without data may go out between two fragments (F3).
    EmptyInsideTrain,
}

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `recv_credit_max` of either endpoint.
    pub window: [u16; 2],
    /// `send_credit_target` of either endpoint.
    pub wish: [u16; 2],
    /// Upper-layer messages either endpoint sends.
    pub messages: [u8; 2],
    /// Most fragments of a message; every length from 1 on is tried.
    pub longest: [u8; 2],
    pub rule: [Rule; 2],
    /// Endpoints whose messages may ask for a single credit in between.
    pub moody: [bool; 2],
    /// Ticks of the clock. A keepalive is due after one tick of silence.
    pub ticks: u8,
    /// Ticks after a keepalive until the connection counts as lost.
    pub patience: u8,
    /// Posts that fail at either endpoint.
    pub failures: [u8; 2],
    /// Errors of either endpoint, its own shutdown among them.
    pub ends: [u8; 2],
}

impl Config {
    /// A quiet exploration: nothing fails, no clock.
    pub fn new(window: [u16; 2], wish: [u16; 2], messages: [u8; 2], longest: [u8; 2]) -> Self {
        Self {
            window,
            wish,
            messages,
            longest,
            rule: [Rule::Ours; 2],
            moody: [false; 2],
            ticks: 0,
            patience: u8::MAX,
            failures: [0; 2],
            ends: [0; 2],
        }
    }

    /// Receive buffers of an endpoint.
    pub fn buffers(&self, side: usize) -> u8 {
        let fragments = match self.messages[1 - side] {
            0 => 0,
            _ => self.longest[1 - side],
        };
        let window = u8::try_from(self.window[side]).unwrap();
        match self.rule[side] {
            Rule::NoReserve => window.max(fragments),
            // V1: a half-received message leaves one buffer free.
            Rule::Plain => window.max(fragments + 1),
            _ => window.max(fragments) + 1,
        }
    }
}

/// All windows and wishes from 1 to 3.
pub fn all_small() -> impl Iterator<Item = ([u16; 2], [u16; 2])> {
    (0..81u16).map(|n| ([n % 3 + 1, n / 3 % 3 + 1], [n / 9 % 3 + 1, n / 27 + 1]))
}

/// Whether the long form is asked for (`make test-long`).
pub fn long() -> bool {
    std::env::var_os("SMBD_LONG").is_some()
}
