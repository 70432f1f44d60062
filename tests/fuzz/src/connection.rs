// SPDX-License-Identifier: GPL-2.0
//! A whole connection: two ends built of the engine's state machines, or one and a hostile peer, in any
//! order of events: sending, failing posts, late handlers, late readers, timers, disconnects.
//!
//! What must hold is checked after each event. At the end, two ends that behaved are given time: all that
//! was queued must then arrive, and the exchange of empty messages must end (C1 to C10, F3, K1 to K3).

use crate::endpoint::{Endpoint, Post, Sending, Wire};
use crate::input::Input;
use crate::lifecycle::walk;
use smbdirect_host::proto::negotiate::{accept, initiate, request, response, Accept};
use smbdirect_host::proto::params::Parameters;
use smbdirect_host::proto::pdu::DataHeader;
use std::collections::VecDeque;

/// The longest data transfer here, bytes.
const LARGEST: usize = 2048;
/// Upper-layer messages in one queue, and the fragments most of them are cut to.
const QUEUE: usize = 4;
const FRAGMENTS: u32 = 48;
/// Rounds in which everything must have arrived.
const ROUNDS: u32 = 20_000;

struct World {
    ends: [Endpoint; 2],
    /// Lengths of the upper-layer messages that either end has sent and the other has not completed.
    lengths: [VecDeque<u32>; 2],
    now: u64,
    buffer: [u8; LARGEST],
}

/// Two ends and a sequence of events.
pub fn connection(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    if choice < 8 {
        walk(&mut input);
        return;
    }
    let mut world = World::new(&mut input, choice & 1 != 0);
    world.check();
    while !input.is_empty() {
        world.event(&mut input);
        world.check();
    }
    let live = |end: &Endpoint| end.is_alive() && !end.hostile;
    if world.ends.iter().all(live) {
        world.settle();
        world.check();
    }
    for end in &mut world.ends {
        end.life.end();
    }
}

/// Our own parameters of one end.
fn own(input: &mut Input<'_>) -> Parameters {
    let [window, wish, sizes, times] = input.array();
    let few = |count: u8| match count {
        0..=199 => u16::from(count & 7) + 1,
        _ => u16::from(count),
    };
    let params = Parameters {
        recv_credit_max: few(window),
        send_credit_target: few(wish),
        max_send_size: [25, 56, 128, 152, 500, 1364, 1500, 2048][usize::from(sizes & 7)],
        max_recv_size: [128, 152, 1364, 2048][usize::from(sizes >> 3 & 3)],
        max_fragmented_recv_size: 131_072 + 64 * u32::from(sizes >> 5),
        max_read_write_size: 1 << 20,
        keepalive_interval_msec: u32::from(times & 15) * 8,
        keepalive_timeout_msec: u32::from(times >> 4) * 4,
        ..Parameters::ZERO
    };
    params.validate().unwrap()
}

impl World {
    /// Two ends after the negotiation. With `again` the response is posted at the second try.
    fn new(input: &mut Input<'_>, again: bool) -> Self {
        let (client, server) = (own(input), own(input));
        let window = server.recv_credit_max;
        let Accept::Proceed(accepted) = accept(&request(&client), &server, window) else {
            panic!("our own request is refused");
        };
        let mut acceptor = Endpoint::new(&accepted, false);
        acceptor.refill(u32::MAX);
        let mut granted = acceptor.credits.grant_all_for_response();
        if again {
            acceptor.credits.revoke_response(granted);
            granted = acceptor.credits.grant_all_for_response();
        }
        acceptor.inbox.granted = granted.into();

        let bytes = response(&accepted, granted);
        let window = client.recv_credit_max;
        let connected = initiate(&bytes, &client, 256, 4096, window).unwrap();
        let mut initiator = Endpoint::new(&connected, true);
        initiator.refill(u32::MAX);
        assert!(initiator.credits.available() > 0);
        Self {
            ends: [initiator, acceptor],
            lengths: [VecDeque::new(), VecDeque::new()],
            now: 0,
            buffer: [0; LARGEST],
        }
    }

    fn event(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let (side, low) = (usize::from(choice & 1), choice >> 5);
        let now = self.now;
        let end = &mut self.ends[side];
        match choice >> 1 & 15 {
            0 => end.queue_message(input),
            1 => {
                end.begin();
            }
            2 => end.fill(match low {
                7 => u32::MAX,
                _ => input.byte().into(),
            }),
            3 => self.close(side),
            4 => {
                end.begin_empty(now);
            }
            5 => end.post(match low {
                0 => Post::Failed,
                1..=3 => Post::Full,
                _ => Post::Done,
            }),
            6 => self.handle(side),
            7 => {
                end.refill(if low == 7 { u32::MAX } else { low.into() });
            }
            8 => {
                end.read(if low == 7 { u32::MAX } else { low.into() });
            }
            9 => self.time_passes(low),
            10 => end.timer_fires(now),
            11 => end.abort(),
            12 => self.send_now(side),
            13 => self.replenish(side),
            14 if low < 2 => self.disconnect(side, low != 0),
            14 => {
                end.read_on();
            }
            _ => self.say_anything(side, input),
        }
    }

    fn time_passes(&mut self, low: u8) {
        self.now += 1 << low;
        // An odd choice leaves both timers late.
        if low & 1 == 0 {
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.timer_fires(now));
        }
    }

    fn close(&mut self, side: usize) {
        let done = self.ends[side].close(self.now);
        self.lengths[side].extend(done);
    }

    /// A whole fragment at once. Returns whether one went out.
    fn send(&mut self, side: usize) -> bool {
        if !self.ends[side].begin() {
            return false;
        }
        self.ends[side].fill(u32::MAX);
        self.close(side);
        self.ends[side].post(Post::Done);
        true
    }

    fn send_now(&mut self, side: usize) {
        if !self.send(side) {
            // What a blocked sender does before it waits (C3).
            self.ends[side].refill(u32::MAX);
        }
    }

    /// Posts receives if that is worth it, then sends what is due.
    fn replenish(&mut self, side: usize) {
        let (end, now) = (&mut self.ends[side], self.now);
        if end.credits.refill_worthwhile() {
            end.refill(u32::MAX);
        }
        let mut empties = 0;
        while end.begin_empty(now) {
            end.post(Post::Done);
            empties += 1;
            assert!(empties <= 2, "one message answers and grants all");
        }
    }

    /// The oldest message on the way to `side` is handled. What a well-behaved peer sent is accepted.
    fn handle(&mut self, side: usize) {
        let [a, b] = &mut self.ends;
        let (end, peer) = if side == 0 { (a, b) } else { (b, a) };
        if !end.is_alive() {
            return;
        }
        let Some(wire) = peer.outbox.pop_front() else {
            return;
        };
        self.buffer[..24].copy_from_slice(&wire.header);
        // Who grants what it cannot receive makes the other break D9.
        let excused = peer.hostile || end.hostile;
        match end.handle(&self.buffer[..wire.length], self.now) {
            Err(rule) => assert!(excused, "{rule:?} broken"),
            Ok(None) => {}
            Ok(Some(length)) => {
                let sent = self.lengths[1 - side].pop_front();
                assert!(excused || sent == Some(length), "delivered as sent");
            }
        }
    }

    fn disconnect(&mut self, side: usize, both: bool) {
        self.ends[side].life.end();
        self.ends[side].fail(-108);
        if both {
            // What the connection manager tells the other end.
            self.ends[1 - side].fail(-104);
        }
    }

    /// An end is hostile and sends any message. One that finds no receive, or a too small one, ends the
    /// connection in the hardware.
    fn say_anything(&mut self, side: usize, input: &mut Input<'_>) {
        let [shape, at, bits, size] = input.array();
        let [a, b] = &mut self.ends;
        let (end, peer) = if side == 0 { (a, b) } else { (b, a) };
        if !peer.is_alive() {
            return;
        }
        end.hostile = true;
        let owed = peer.reassembly.owed();
        let length = (u32::from(size) * 8).min(peer.params.max_recv_size - 24);
        let mut bytes = DataHeader {
            credits_requested: 1 + u16::from(shape >> 4),
            credits_granted: (shape >> 4).into(),
            response_requested: shape & 8 != 0,
            remaining: match shape & 3 {
                0 => owed.saturating_sub(length),
                1 => input.size(),
                _ => 0,
            },
            offset: if length > 0 { 24 } else { 0 },
            length: if shape & 3 == 3 { 0 } else { length },
        }
        .encode();
        bytes[usize::from(at) % 20] ^= bits;
        if shape & 4 != 0 {
            bytes[..20].copy_from_slice(&input.array::<20>());
        }
        let received = (length as usize + 24).min(LARGEST);
        if end.outbox.len() >= peer.credits.posted_receives() as usize {
            peer.fail(-103);
            return;
        }
        end.outbox.push_back(Wire {
            header: bytes,
            length: received,
        });
    }

    /// Time without failures. Everything must arrive, and then both ends must fall silent.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let mut busy = false;
            for side in [0, 1] {
                busy |= self.finish_sending(side);
                while !self.ends[1 - side].outbox.is_empty() {
                    busy = true;
                    self.handle(side);
                    self.replenish(side);
                }
                busy |= self.ends[side].read_on() > 0;
                self.replenish(side);
                let waiting = self.ends[side].queue.len();
                while self.send(side) {
                    busy = true;
                }
                self.send_now(side);
                // One that is too large leaves the queue unsent.
                busy |= self.ends[side].queue.len() < waiting;
                self.check();
            }
            // What the second end sent last is for the first one's next turn.
            busy |= self.ends.iter().any(|end| !end.outbox.is_empty());
            if !busy {
                let idle = self.ends.iter().all(Endpoint::is_idle);
                assert!(idle, "stuck: {:#?}", self.ends);
                assert!(self.lengths.iter().all(VecDeque::is_empty));
                return;
            }
        }
        panic!("no end");
    }

    /// Ends what the events left half done. Returns whether there was anything.
    fn finish_sending(&mut self, side: usize) -> bool {
        if let Sending::Idle = self.ends[side].sending {
            return false;
        }
        self.ends[side].fill(u32::MAX);
        self.close(side);
        self.ends[side].post(Post::Done);
        true
    }

    /// What must hold between two ends that behave: no credit is lost or made up, and every message finds
    /// a receive, even if it arrives before any handler runs.
    fn check(&self) {
        self.ends.iter().for_each(Endpoint::check);
        if self.ends.iter().any(|end| end.hostile) {
            return;
        }
        for side in [0, 1] {
            let (end, peer) = (&self.ends[side], &self.ends[1 - side]);
            let posted = end.credits.posted_receives() as usize;
            assert!(peer.outbox.len() <= posted, "receiver not ready");
            let travelling: u64 = end.outbox.iter().map(granted).sum();
            let (grants, _) = in_hand(end);
            let (_, taken) = in_hand(peer);
            let held = u64::from(peer.credits.send_credits()) + taken + peer.outbox.len() as u64;
            assert_eq!(held + travelling + grants, end.inbox.held());
        }
    }
}

fn granted(wire: &Wire) -> u64 {
    u16::from_le_bytes([wire.header[2], wire.header[3]]).into()
}

/// Grants and credits in a message that is not yet posted.
fn in_hand(end: &Endpoint) -> (u64, u64) {
    match end.sending {
        Sending::Idle => (0, 0),
        Sending::Open(_, granted) => (granted.into(), 1),
        Sending::Ready { header, .. } => (header.credits_granted.into(), 1),
    }
}

impl Endpoint {
    /// The upper layer has a message.
    fn queue_message(&mut self, input: &mut Input<'_>) {
        let payload = self.params.max_send_size - 24;
        let choice = input.byte();
        let length = match choice {
            255 => self.params.max_fragmented_send_size.min(160 * payload),
            254 => self.params.max_fragmented_send_size + 1 + u32::from(input.byte()),
            200.. => input.size().min(FRAGMENTS * payload),
            _ => payload * u32::from(choice >> 3) + u32::from(choice & 7),
        };
        if self.queue.len() < QUEUE && length > 0 {
            self.queue.push_back(length);
        }
    }
}
