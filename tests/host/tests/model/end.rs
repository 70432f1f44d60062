// SPDX-License-Identifier: GPL-2.0
//! One endpoint: the real engine of `rust/proto`, its buffers and what it has left to do.

use super::common::{accept, CONNECT};
use super::config::{Config, Rule};
use arrayvec::ArrayVec;
use smbdirect_host::proto::credits::{Blocked, Credits};
use smbdirect_host::proto::errno::ECONNABORTED;
use smbdirect_host::proto::fragment::Train;
use smbdirect_host::proto::keepalive::{Answer, Keepalive};
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::reassembly::Reassembly;
use smbdirect_host::proto::state::{Event, State, Status};

/// A message under way.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub length: u8,
    pub remaining: u8,
    pub granted: u8,
    pub requested: u8,
    pub flag: bool,
}

impl Message {
    pub fn header(&self) -> DataHeader {
        DataHeader {
            credits_requested: self.requested.into(),
            credits_granted: self.granted.into(),
            response_requested: self.flag,
            remaining: self.remaining.into(),
            offset: if self.length > 0 { 24 } else { 0 },
            length: self.length.into(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct End {
    pub credits: Credits,
    pub train: Train,
    pub reassembly: Reassembly,
    pub keepalive: Keepalive,
    pub answer: Answer,
    /// The word that [`State`] is kept in.
    state: u64,
    /// The cleanup has run.
    pub cleaned: bool,
    /// The disconnect was issued, or answered.
    pub hung_up: bool,
    /// The peer's disconnect was seen.
    pub heard: bool,
    /// Messages sent and not yet handled by the peer.
    pub channel: ArrayVec<Message, MOST>,
    /// Upper-layer messages completely put on the send queue.
    pub sent: u8,
    /// Buffers at hand.
    pub free: u8,
    /// Buffers held by a message that is not complete.
    pub partial: u8,
    /// Buffers of complete messages, unread.
    pub unread: ArrayVec<u8, MOST>,
    pub received: u8,
    /// Posts that may still fail, and errors that may still happen.
    pub failures: u8,
    pub ends: u8,
    /// Handlers that have lowered one of two counters (the ablation of C5).
    pub late: u8,
}

/// More messages than can be under way or unread at windows of three, ablations included.
const MOST: usize = 6;

/// One byte of payload per fragment.
const SEND_SIZE: u32 = 25;

/// The state of a connection in which everything went well: side 0 connected, side 1 accepted.
fn connected(side: usize) -> State {
    let path = [&CONNECT[..], accept()][side];
    path.iter().fold(State::NEW, |state, &to| {
        let state = match to {
            Status::NegotiateNeeded => state.on(Event::Established).unwrap(),
            _ => state,
        };
        state.on(Event::Advance(to)).unwrap()
    })
}

impl End {
    /// Right after the negotiation, all buffers that may be posted are.
    pub fn new(config: &Config, side: usize) -> Self {
        let mut credits = Credits::new(config.window[side], config.wish[side]);
        credits.negotiated(0, config.wish[1 - side]);
        let mut keepalive = Keepalive::new();
        if config.ticks > 0 {
            keepalive.connected(0, 1, config.patience.into());
        }
        let mut end = Self {
            credits,
            train: Train::new(SEND_SIZE, 1 << 17),
            reassembly: Reassembly::new(true),
            keepalive,
            answer: Answer::new(),
            state: connected(side).raw(),
            cleaned: false,
            hung_up: false,
            heard: false,
            channel: ArrayVec::new(),
            sent: 0,
            free: config.buffers(side),
            partial: 0,
            unread: ArrayVec::new(),
            received: 0,
            failures: config.failures[side],
            ends: config.ends[side],
            late: 0,
        };
        let post = end.missing(config.rule[side]);
        end.post(post);
        end
    }

    pub fn state(&self) -> State {
        State::from_raw(self.state)
    }

    /// Whether data may flow.
    pub fn is_live(&self) -> bool {
        self.state().is_connected()
    }

    /// Whether an error has ended the connection here.
    pub fn is_dead(&self) -> bool {
        self.state().first_error().is_some()
    }

    pub fn is_destroyed(&self) -> bool {
        self.state().status() == Status::Destroyed
    }

    /// Applies an event; false when it changed nothing.
    pub fn on(&mut self, event: Event) -> bool {
        let Some(next) = self.state().on(event) else {
            return false;
        };
        assert_edge(self.state(), next);
        self.state = next.raw();
        true
    }

    pub fn fail(&mut self, errno: i32, forced: Option<Status>) {
        self.on(Event::Fail { errno, forced });
    }

    /// A post failed: the connection ends, whatever it was.
    pub fn post_failed(&mut self) {
        self.fail(ECONNABORTED, None);
    }

    /// Receives the endpoint would post now.
    pub fn missing(&self, rule: Rule) -> u32 {
        let missing = self.credits.missing(self.free.into());
        match rule {
            Rule::Plain => {
                let window = u32::from(self.credits.receive_target());
                missing.min(window.saturating_sub(self.credits.posted_receives()))
            }
            _ => missing,
        }
    }

    /// Posts `n` free buffers.
    pub fn post(&mut self, n: u32) {
        self.free -= u8::try_from(n).unwrap();
        self.credits.posted(n);
    }

    /// Takes a credit under the endpoint's rule; what the message grants.
    pub fn take(&mut self, rule: Rule) -> Option<u16> {
        let credits = &mut self.credits;
        match credits.take() {
            Ok(granted) => Some(granted),
            Err(Blocked::NoCredit) => None,
            Err(Blocked::LastCredit) => {
                let allowed = match rule {
                    Rule::Weaker | Rule::Plain => credits.outstanding() > 0,
                    Rule::Unguarded => true,
                    _ => false,
                };
                allowed.then(|| {
                    // The ablation: pretend it were not the last one.
                    let target = credits.receive_target();
                    credits.negotiated(2, target);
                    let granted = credits.take().unwrap();
                    credits.negotiated(0, target);
                    granted
                })
            }
        }
    }

    /// Whether a message without data should go out.
    pub fn wants_empty(&self, rule: Rule) -> bool {
        let due = self.credits.grant_due(self.missing(rule));
        due || self.answer.is_owed() || self.keepalive.is_pending()
    }

    /// Receives that the hardware still has.
    pub fn receives(&self) -> u32 {
        self.credits.posted_receives() - u32::from(self.late)
    }

    /// All buffers that are not posted.
    pub fn held(&self) -> u32 {
        let unread: u32 = self.unread.iter().map(|&buffers| u32::from(buffers)).sum();
        u32::from(self.free) + u32::from(self.partial) + unread
    }
}

/// R11, R12 and the table of the ABI page: which status may follow which after the set-up, the first error
/// stays, and facts never fall.
fn assert_edge(old: State, new: State) {
    use Status::*;
    let (from, to) = (old.status(), new.status());
    let documented = from == to
        || matches!(
            (from, to),
            (Connected, Error | Disconnected)
                | (Error, Disconnecting | Disconnected)
                | (Disconnecting, Disconnected)
                | (Disconnected, Destroyed)
        );
    assert!(documented, "{from:?} to {to:?} is no edge of the table");
    if old.first_error().is_some() {
        assert_eq!(
            old.first_error(),
            new.first_error(),
            "the first error changed"
        );
    }
    assert!(!old.is_disconnected() || new.is_disconnected());
    assert!(
        to < Error || new.first_error().is_some(),
        "{to:?} without an error"
    );
}
