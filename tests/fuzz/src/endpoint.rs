// SPDX-License-Identifier: GPL-2.0
//! One end of a connection: the engine's state machines, held together as `rust/conn` does it, with
//! sums beside them that tell what they must say.

use crate::lifecycle::Lifecycle;
use crate::oracle::{fields, Inbox};
use smbdirect_host::proto::credits::{Blocked, Credits};
use smbdirect_host::proto::errno::{ECONNABORTED, ETIMEDOUT};
use smbdirect_host::proto::fragment::{Message, SendError, Train};
use smbdirect_host::proto::keepalive::{Action, Answer, Keepalive};
use smbdirect_host::proto::negotiate::Negotiated;
use smbdirect_host::proto::params::Parameters;
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::reassembly::{Placement, Reassembly};
use smbdirect_host::proto::rule::Rule;
use smbdirect_host::proto::state::Event;
use std::collections::VecDeque;

/// A message on its way: header and number of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub header: [u8; 24],
    pub length: usize,
}

/// What the holder of the right to send is at.
#[derive(Clone, Copy, Debug)]
pub enum Sending {
    Idle,
    /// A data message takes payload; it has its credit and its grant.
    Open(Message, u16),
    /// The header is written, the post is still to come.
    Ready {
        header: DataHeader,
        answered: bool,
        /// A message arrived since the header was written.
        heard: bool,
    },
}

/// How a post ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    Done,
    /// No place in the send queue.
    Full,
    /// The queue pair refuses.
    Failed,
}

#[derive(Debug)]
pub struct Endpoint {
    pub life: Lifecycle,
    pub credits: Credits,
    pub train: Train,
    pub reassembly: Reassembly,
    pub keepalive: Keepalive,
    pub answer: Answer,
    pub sending: Sending,
    pub params: Parameters,
    /// Upper-layer messages that wait, the one under way included, bytes.
    pub queue: VecDeque<u32>,
    /// Messages sent and not yet handled by the peer.
    pub outbox: VecDeque<Wire>,
    pub timer: Option<u64>,
    pub buffers: u32,
    pub free: u32,
    /// Buffers with unread payload; `partial` of them belong to the message in progress.
    pub stored: u32,
    partial: u32,

    // What must come out.
    pub inbox: Inbox,
    pub posted: u64,
    /// A message was refused: the counters stopped in the middle.
    pub refused: bool,
    /// It sent what the engine would not send.
    pub hostile: bool,
    probe_due: bool,
    probed: u64,
    heard: u64,
    answer_due: bool,
    flags_out: u32,
    probes: u32,
    flags_in: u32,
    answers: u32,
}

impl Endpoint {
    pub fn new(negotiated: &Negotiated, initiator: bool) -> Self {
        let params = negotiated.params;
        let mut credits = Credits::new(params.recv_credit_max, params.send_credit_target);
        credits.negotiated(negotiated.send_credits, negotiated.recv_target);
        let mut keepalive = Keepalive::new();
        let interval = params.keepalive_interval_msec.into();
        let timer = match keepalive.connected(0, interval, params.keepalive_timeout_msec.into()) {
            Action::Rearm(delay) => Some(delay),
            _ => None,
        };
        assert_eq!(timer.is_some(), interval > 0);
        let buffers = negotiated.recv_buffers.into();
        Self {
            life: Lifecycle::connected(initiator),
            credits,
            train: Train::new(params.max_send_size, params.max_fragmented_send_size),
            reassembly: Reassembly::new(false),
            keepalive,
            answer: Answer::new(),
            sending: Sending::Idle,
            params,
            queue: VecDeque::new(),
            outbox: VecDeque::new(),
            timer,
            buffers,
            free: buffers,
            stored: 0,
            partial: 0,
            inbox: Inbox::default(),
            posted: 0,
            refused: false,
            hostile: false,
            probe_due: false,
            probed: 0,
            heard: 0,
            answer_due: false,
            flags_out: 0,
            probes: 0,
            flags_in: 0,
            answers: 0,
        }
    }

    pub fn is_alive(&self) -> bool {
        self.life.is_alive()
    }

    /// The first error ends everything.
    pub fn fail(&mut self, errno: i32) {
        self.life.apply(Event::Fail {
            errno,
            forced: None,
        });
        self.keepalive.stop();
        self.timer = None;
    }

    /// Whether a message should go out even without data.
    pub fn message_due(&self) -> bool {
        self.answer.is_owed() || self.keepalive.is_pending() || self.credits.grant_due(self.free)
    }

    fn take(&mut self) -> Option<u16> {
        let before = self.credits;
        match self.credits.take() {
            Ok(granted) => {
                assert!(before.send_credits() > 0, "C1");
                assert!(granted > 0 || before.send_credits() > 1, "C4");
                self.inbox.granted += u64::from(granted);
                Some(granted)
            }
            Err(blocked) => {
                let left = u16::from(blocked == Blocked::LastCredit);
                assert_eq!(before.send_credits(), left);
                assert_eq!(self.credits, before);
                None
            }
        }
    }

    fn give_back(&mut self, granted: u16) {
        self.credits.give_back(granted);
        // Only a hostile peer can have used it already. Between good ones the sum over both shows it.
        self.inbox.granted -= u64::from(granted).min(self.inbox.held());
    }

    /// Gets a credit for the next fragment. Returns whether there is one.
    pub fn begin(&mut self) -> bool {
        let next = match self.train.owed() {
            0 => self.queue.front().copied(),
            owed => Some(owed),
        };
        let (Sending::Idle, true, Some(remaining)) = (self.sending, self.is_alive(), next) else {
            return false;
        };
        assert_eq!(self.train.open(0), Err(SendError::NoData));
        if self.train.is_open() {
            for other in [remaining + 1, remaining - 1] {
                assert!(self.train.open(other).is_err(), "F5");
            }
        }
        match self.train.open(remaining) {
            Ok(message) => match self.take() {
                None => false,
                Some(granted) => {
                    self.sending = Sending::Open(message, granted);
                    true
                }
            },
            Err(error) => {
                let limit = self.params.max_fragmented_send_size;
                assert_eq!(error, SendError::TooLarge);
                assert!(remaining > limit && !self.train.is_open(), "F4");
                self.queue.pop_front();
                false
            }
        }
    }

    /// Adds payload to the open message.
    pub fn fill(&mut self, count: u32) {
        let Sending::Open(message, _) = &mut self.sending else {
            return;
        };
        let announced = message.length() + message.remaining();
        let taken = message.append(count);
        assert!(taken <= count);
        assert_eq!(announced, message.length() + message.remaining());
        assert!(message.length() + 24 <= self.params.max_send_size, "F1");
    }

    /// The caller cannot supply the payload. Between messages nothing has happened, inside one the stream
    /// is out of step (F5).
    pub fn abort(&mut self) {
        let Sending::Open(message, granted) = self.sending else {
            return;
        };
        if message.length() == 0 && !self.train.is_open() {
            self.give_back(granted);
            self.queue.pop_front();
            self.sending = Sending::Idle;
        } else {
            self.fail(ECONNABORTED);
        }
    }

    /// Writes the header of the open message. Returns the length of the upper-layer message if this was
    /// its last fragment.
    pub fn close(&mut self, now: u64) -> Option<u32> {
        let Sending::Open(message, granted) = self.sending else {
            return None;
        };
        if message.length() == 0 || !self.is_alive() {
            return None;
        }
        self.write_header(&message, granted, now);
        self.train.closed(&message);
        assert_eq!(self.train.owed(), message.remaining());
        match self.train.is_open() {
            true => None,
            false => self.queue.pop_front(),
        }
    }

    /// Writes the header of an empty message, if one is due and can be sent. Returns whether it did.
    pub fn begin_empty(&mut self, now: u64) -> bool {
        let idle = matches!(self.sending, Sending::Idle) && !self.train.is_open();
        if !idle || !self.is_alive() || !self.message_due() {
            return false;
        }
        let Some(granted) = self.take() else {
            return false;
        };
        self.write_header(&Message::empty(), granted, now);
        true
    }

    fn write_header(&mut self, message: &Message, granted: u16, now: u64) {
        let flagged = self.keepalive.sending(now);
        assert_eq!(flagged, self.probe_due, "K2");
        if flagged {
            self.probed = now;
        }
        self.probe_due = false;
        let answered = self.answer.sending();
        assert_eq!(answered, self.answer_due, "K3");
        self.answer_due = false;
        let requested = self.credits.credits_requested();
        assert!(requested > 0, "C2");
        self.sending = Sending::Ready {
            header: message.header(requested, granted, flagged),
            answered,
            heard: false,
        };
    }

    /// The post of the message whose header is written.
    pub fn post(&mut self, how: Post) {
        let Sending::Ready {
            header,
            answered,
            heard,
        } = self.sending
        else {
            return;
        };
        match how {
            _ if !self.is_alive() => {}
            Post::Done => {
                self.flags_out += u32::from(header.response_requested);
                self.answers += u32::from(answered);
                let length = header.wire_len() + header.length as usize;
                self.outbox.push_back(Wire {
                    header: header.encode(),
                    length,
                });
                self.sending = Sending::Idle;
            }
            Post::Failed => self.fail(ECONNABORTED),
            // A data message waits for room, an empty one is taken back (C10).
            Post::Full if header.length > 0 => {}
            Post::Full => {
                self.give_back(header.credits_granted);
                if header.response_requested {
                    self.keepalive.unsent();
                    self.probe_due |= !heard;
                }
                if answered {
                    self.answer.unsent();
                    self.answer_due = true;
                }
                self.sending = Sending::Idle;
            }
        }
    }

    /// Posts up to `most` of the missing receives.
    pub fn refill(&mut self, most: u32) -> u32 {
        let missing = self.credits.missing(self.free);
        assert!(missing <= self.free);
        let count = missing.min(most);
        if count == 0 || !self.is_alive() {
            return 0;
        }
        let blocked = self.credits.check().is_err();
        let unblocks = self.credits.posted(count);
        assert!(
            unblocks || !blocked || self.credits.check().is_err(),
            "a sender that is not woken"
        );
        self.posted += u64::from(count);
        self.free -= count;
        count
    }

    /// The reader takes up to `most` buffers.
    pub fn read(&mut self, most: u32) -> u32 {
        let count = self.stored.min(most);
        self.stored -= count;
        self.partial = self.partial.min(self.stored);
        self.free += count;
        count
    }

    /// Reads as the consumers do: whole messages, and whatever is there when the buffers run short (R31).
    pub fn read_on(&mut self) -> u32 {
        if self.stored > self.buffers / 2 {
            self.read(u32::MAX)
        } else {
            self.read(self.stored - self.partial)
        }
    }

    /// A message is handled. Returns the length of the upper-layer message that it completes.
    ///
    /// # Errors
    ///
    /// The rule that it breaks; the connection has failed.
    pub fn handle(&mut self, bytes: &[u8], now: u64) -> Result<Option<u32>, Rule> {
        let limit = self.params.max_fragmented_recv_size;
        let expected =
            fields(bytes, limit).and_then(|fields| Ok((fields, self.inbox.judge(&fields, false)?)));
        let blocked = self.credits.check().is_err();
        let (header, verdict) = match (self.accept(bytes, limit, now), expected) {
            (Ok((header, place)), Ok((_, verdict))) => {
                assert_eq!(place.stored, verdict.stored);
                assert_eq!(place.first, verdict.first);
                assert_eq!(place.last, verdict.last);
                assert_eq!(place.total, verdict.total);
                (header, verdict)
            }
            (Err(rule), Err(expected)) => {
                assert_eq!(rule, expected);
                self.refused = true;
                self.fail(ECONNABORTED);
                return Err(rule);
            }
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        };
        let woken = header.credits_granted > 0;
        assert!(woken || !blocked || self.credits.check().is_err());
        (self.heard, self.probe_due) = (now, false);
        if let Sending::Ready { heard, .. } = &mut self.sending {
            *heard = true;
        }
        if header.response_requested {
            self.flags_in += 1;
            self.answer_due = true;
        }
        if verdict.stored {
            (self.stored, self.partial) = (self.stored + 1, self.partial + 1);
        } else {
            self.free += 1;
        }
        if verdict.last {
            self.partial = 0;
        }
        Ok(verdict.last.then_some(verdict.total))
    }

    /// What the engine does with a received message, in its order.
    fn accept(
        &mut self,
        bytes: &[u8],
        limit: u32,
        now: u64,
    ) -> Result<(DataHeader, Placement), Rule> {
        let header = DataHeader::parse(bytes, limit)?;
        self.credits.received(&header)?;
        self.keepalive.received(now);
        if header.response_requested {
            self.answer.requested();
        }
        let place = self.reassembly.accept(&header)?;
        Ok((header, place))
    }

    /// The timer fires, if it is set and its time has come.
    pub fn timer_fires(&mut self, now: u64) {
        if !self.timer.is_some_and(|due| due <= now) || !self.is_alive() {
            return;
        }
        let interval = u64::from(self.params.keepalive_interval_msec);
        let timeout = u64::from(self.params.keepalive_timeout_msec).max(1);
        let waiting = self.probes > 0 && self.probed >= self.heard;
        match self.keepalive.expired(now) {
            Action::Rearm(delay) => {
                assert!(delay > 0);
                self.timer = Some(now + delay);
            }
            Action::Probe { rearm } => {
                assert!(now >= self.heard + interval, "K1: too early");
                assert_eq!(rearm, timeout);
                (self.probe_due, self.probed) = (true, now);
                self.probes += 1;
                self.timer = Some(now + rearm);
            }
            Action::TimedOut => {
                assert!(waiting && now >= self.probed + timeout, "K1: too early");
                self.fail(ETIMEDOUT);
            }
            Action::Idle => panic!("a connection without a timer"),
        }
    }

    /// Whether this end has nothing to do and is owed nothing.
    pub fn is_idle(&self) -> bool {
        matches!(self.sending, Sending::Idle)
            && self.queue.is_empty()
            && !self.train.is_open()
            && self.outbox.is_empty()
            && !self.answer.is_owed()
            && !self.keepalive.is_pending()
    }

    /// What must hold whatever the peer does.
    pub fn check(&self) {
        assert_eq!(self.free + self.stored + self.in_queue(), self.buffers);
        assert!(self.flags_out <= self.probes, "K2");
        assert!(self.answers <= self.flags_in, "K3");
        assert!(self.inbox.granted <= self.posted, "C5");
        if self.refused {
            return;
        }
        let window = u64::from(self.params.recv_credit_max) + 1;
        let (credits, inbox) = (&self.credits, &self.inbox);
        inbox.agrees(self.posted, credits, &self.reassembly);
        assert!(inbox.held() <= window && self.posted - inbox.arrived <= window);
        assert_eq!(self.answer.is_owed(), self.answer_due);
        assert!(!self.is_alive() || self.keepalive.is_pending() == self.probe_due);
    }

    /// Receives the hardware holds.
    fn in_queue(&self) -> u32 {
        u32::try_from(self.posted - self.inbox.arrived).unwrap()
    }
}
