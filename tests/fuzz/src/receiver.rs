// SPDX-License-Identifier: GPL-2.0
//! The stateful receiver: a sequence of messages goes through header, credits and reassembly, and each
//! is accepted or refused as the rules D1 to D12 say.

use crate::input::Input;
use crate::oracle::{fields, Inbox};
use smbdirect_host::proto::credits::Credits;
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::reassembly::Reassembly;
use smbdirect_host::proto::rule::Rule;

/// The longest message of this target.
const LARGEST: usize = 2048;

struct Receiver {
    credits: Credits,
    reassembly: Reassembly,
    strict: bool,
    max_fragmented: u32,
    window: u16,
    // The oracle's side.
    inbox: Inbox,
    posted: u64,
    send_credits: u64,
    target: u16,
    buffer: [u8; LARGEST],
}

/// A sequence of messages, posts and grants.
pub fn receiver(data: &[u8]) {
    let mut input = Input::new(data);
    let mut receiver = Receiver::new(&mut input);
    while !input.is_empty() {
        let choice = input.byte();
        match choice & 7 {
            0 => receiver.post(choice >> 3),
            1 => receiver.grant(choice & 8 != 0),
            _ => {
                let length = receiver.compose(choice, &mut input);
                if receiver.arrives(length).is_err() {
                    return;
                }
            }
        }
        receiver.check();
    }
}

impl Receiver {
    fn new(input: &mut Input<'_>) -> Self {
        let window = input.credits().max(1);
        let strict = input.byte() & 1 != 0;
        let max_fragmented = input.size();
        let mut receiver = Self {
            credits: Credits::new(window, 1),
            reassembly: Reassembly::new(strict),
            strict,
            max_fragmented,
            window,
            inbox: Inbox::default(),
            posted: 0,
            send_credits: 0,
            target: input.credits().clamp(1, window),
            buffer: [0; LARGEST],
        };
        receiver.credits.negotiated(0, receiver.target);
        receiver.post(input.byte());
        let granted = receiver.credits.grant_all_for_response();
        assert_eq!(
            u64::from(granted),
            receiver.posted.min(receiver.target.into())
        );
        receiver.inbox.granted = granted.into();
        receiver.check();
        receiver
    }

    fn post(&mut self, free: u8) {
        let missing = self.credits.missing(free.into());
        assert!(missing <= free.into());
        self.credits.posted(missing);
        self.posted += u64::from(missing);
    }

    /// We send a message, which is how credits travel; or fail to.
    fn grant(&mut self, fails: bool) {
        let before = (self.credits.outstanding(), self.credits.available());
        let Ok(granted) = self.credits.take() else {
            let free = self.posted - self.inbox.granted;
            assert!(self.send_credits == 0 || (self.send_credits == 1 && self.room() * free == 0));
            return;
        };
        if fails {
            self.credits.give_back(granted);
            let after = (self.credits.outstanding(), self.credits.available());
            assert_eq!(before, after, "C10");
            return;
        }
        assert!(granted > 0 || self.send_credits > 1, "C4");
        self.send_credits -= 1;
        self.inbox.granted += u64::from(granted);
        let reserve = u64::from(self.send_credits == 0);
        let ceiling = u64::from(self.target).max(u64::from(before.0));
        assert!(granted == 0 || self.inbox.held() <= ceiling + reserve);
    }

    /// Credits the last message could grant.
    fn room(&self) -> u64 {
        let ceiling = self.inbox.held().max(self.target.into()) + 1;
        ceiling.min(u64::from(self.window) + 1) - self.inbox.held()
    }

    /// Writes a message into the buffer: a lawful continuation, a new one, an empty one, whatever the input
    /// holds, or a lawful one with a changed byte. Returns its length.
    fn compose(&mut self, choice: u8, input: &mut Input<'_>) -> usize {
        let owed = self.reassembly.owed();
        let mut received = usize::from(input.byte()) * 8;
        if choice & 7 == 7 {
            let raw: [u8; 20] = input.array();
            self.buffer[..20].copy_from_slice(&raw);
            return received;
        }
        let room = u32::try_from(received).unwrap();
        let (length, remaining) = match choice & 7 {
            2 => (0, 0),
            3 if owed == 0 => (room, input.size()),
            3 | 4 => (room.min(owed), owed - room.min(owed)),
            5 => (room, 0),
            // A few bytes off.
            _ => (room, owed.wrapping_sub(room) ^ u32::from(choice >> 4)),
        };
        let header = DataHeader {
            credits_requested: 1 + u16::from(choice >> 4),
            credits_granted: u16::from(choice >> 4),
            response_requested: choice & 8 != 0,
            remaining,
            offset: if length > 0 { 24 } else { 0 },
            length,
        };
        self.buffer[..24].copy_from_slice(&header.encode());
        received = (received + 24).min(LARGEST);
        if choice & 8 != 0 {
            let [at, bits] = input.array();
            self.buffer[usize::from(at) % 20] ^= bits;
        }
        received
    }

    /// The message of `length` bytes in the buffer arrives.
    fn arrives(&mut self, length: usize) -> Result<(), Rule> {
        if self.inbox.arrived == self.posted {
            // Nowhere to put it: the queue pair fails.
            return Err(Rule::D9);
        }
        let received = &self.buffer[..length];
        let header = DataHeader::parse(received, self.max_fragmented);
        let expected = fields(received, self.max_fragmented);
        let (header, expected) = match (header, expected) {
            (Ok(header), Ok(expected)) => (header, expected),
            (header, expected) => {
                assert_eq!(header.err(), expected.err());
                return header.map(|_| ());
            }
        };
        let verdict = self.inbox.judge(&expected, self.strict);
        let credits = self.credits.received(&header);
        let before = self.reassembly;
        let placement = match credits {
            Err(rule) => Err(rule),
            Ok(_) => self.reassembly.accept(&header),
        };
        let (placement, verdict) = match (placement, verdict) {
            (Ok(placement), Ok(verdict)) => (placement, verdict),
            (placement, verdict) => {
                assert_eq!(placement.err(), verdict.err());
                assert_eq!(self.reassembly, before, "a refused header changes nothing");
                return placement.map(|_| ());
            }
        };
        assert_eq!(placement.stored, verdict.stored);
        assert_eq!(placement.first, verdict.first);
        assert_eq!(placement.last, verdict.last);
        assert_eq!(placement.total, verdict.total);
        self.target = expected.requested.min(self.window);
        let sum = self.send_credits + u64::from(expected.granted);
        let credits = credits?;
        assert_eq!(credits.saturated, sum > 65_535, "C6");
        assert_eq!(credits.wake, expected.granted > 0);
        self.send_credits = sum.min(65_535);
        Ok(())
    }

    /// The engine's counters are what the sums say.
    fn check(&self) {
        let (credits, inbox) = (&self.credits, &self.inbox);
        inbox.agrees(self.posted, credits, &self.reassembly);
        assert!(credits.posted_receives() <= u32::from(self.window) + 1);
        assert_eq!(u64::from(credits.send_credits()), self.send_credits);
        assert_eq!(credits.receive_target(), self.target);
        assert_eq!(self.reassembly.stray_empties(), inbox.strays);
    }
}
