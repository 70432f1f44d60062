// SPDX-License-Identifier: GPL-2.0
//! Exhaustive model check of credit liveness (C1-C5, C8-C10, F3, K3; testing.md section 2).
//!
//! Two endpoints run the real `Credits`, `Train`, `Reassembly` and `Answer` against each other. A step is
//! one of: send a fragment, send a credit-only message, handle the oldest received message, post some
//! missing receives, let the reader consume a message, ask for a keepalive. Every order of steps is tried,
//! so handlers, refills and readers may be delayed for as long as they like. A message reaches the peer's
//! hardware at once, which is the worst case for a missing receive.
//!
//! Checked in every reachable state: the safety properties of [`World::check`]; that the state is not
//! stuck (no step possible although something is queued, owed or unread); that the good end, where
//! everything was delivered, can still be reached; and, once no data is left and the readers are done,
//! that no cycle of steps exists: the exchange of credit-only messages ends by itself.
//!
//! The same check runs with the rule for the last credit removed, or weakened in the ways that suggest
//! themselves, and must then find the stall. Otherwise it would prove nothing.

use smbdirect_host::proto::credits::{Blocked, Credits};
use smbdirect_host::proto::fragment::Train;
use smbdirect_host::proto::keepalive::Answer;
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::reassembly::Reassembly;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// How an endpoint treats its last send credit and its receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
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
}

#[derive(Clone, Debug)]
struct Config {
    /// `recv_credit_max` of either endpoint.
    window: [u16; 2],
    /// `send_credit_target` of either endpoint.
    wish: [u16; 2],
    /// Fragments of each message either endpoint sends.
    queue: [Vec<u8>; 2],
    /// Keepalives either endpoint may ask for.
    probes: [u8; 2],
    rule: [Rule; 2],
    /// Endpoints whose messages may ask for a single credit in between.
    moody: [bool; 2],
}

impl Config {
    fn buffers(&self, side: usize) -> u8 {
        let fragments = self.queue[1 - side].iter().copied().max().unwrap_or(0);
        let window = u8::try_from(self.window[side]).unwrap();
        match self.rule[side] {
            Rule::NoReserve => window.max(fragments),
            // V1: a half-received message leaves one buffer free.
            Rule::Plain => window.max(fragments + 1),
            _ => window.max(fragments) + 1,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Message {
    length: u8,
    remaining: u8,
    granted: u8,
    requested: u8,
    flag: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Side {
    credits: Credits,
    train: Train,
    reassembly: Reassembly,
    answer: Answer,
    /// Messages sent and not yet handled by the peer.
    channel: VecDeque<Message>,
    /// Upper-layer messages completely put on the send queue.
    sent: u8,
    /// Buffers at hand.
    free: u8,
    /// Buffers held by a message that is not complete.
    partial: u8,
    /// Buffers of complete messages, unread.
    unread: VecDeque<u8>,
    received: u8,
    probes: u8,
    probe_pending: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World([Side; 2]);

/// One byte of payload per fragment.
const SEND_SIZE: u32 = 25;

fn header(message: &Message) -> DataHeader {
    DataHeader {
        credits_requested: message.requested.into(),
        credits_granted: message.granted.into(),
        response_requested: message.flag,
        remaining: message.remaining.into(),
        offset: if message.length > 0 { 24 } else { 0 },
        length: message.length.into(),
    }
}

/// Receives the endpoint would post now.
fn missing(config: &Config, side: usize, credits: &Credits, free: u8) -> u32 {
    let missing = credits.missing(free.into());
    match config.rule[side] {
        Rule::Plain => {
            let window = u32::from(credits.receive_target());
            missing.min(window.saturating_sub(credits.posted_receives()))
        }
        _ => missing,
    }
}

impl World {
    /// Right after the negotiation: the server (side 1) has granted its window in the response, the client
    /// has posted its receives and granted nothing yet.
    fn start(config: &Config) -> World {
        let mut sides = [0, 1].map(|side| {
            let mut credits = Credits::new(config.window[side], config.wish[side]);
            credits.negotiated(0, config.wish[1 - side]);
            let free = config.buffers(side);
            let post = missing(config, side, &credits, free);
            credits.posted(post);
            Side {
                credits,
                train: Train::new(SEND_SIZE, 1 << 17),
                reassembly: Reassembly::new(true),
                answer: Answer::new(),
                channel: VecDeque::new(),
                sent: 0,
                free: free - u8::try_from(post).unwrap(),
                partial: 0,
                unread: VecDeque::new(),
                received: 0,
                probes: config.probes[side],
                probe_pending: false,
            }
        });
        let granted = sides[1].credits.grant_all_for_response();
        let target = sides[0].credits.receive_target();
        sides[0].credits.negotiated(granted, target);
        World(sides)
    }

    /// Takes a credit under the endpoint's rule.
    fn take(&mut self, config: &Config, side: usize) -> Option<u16> {
        let credits = &mut self.0[side].credits;
        match credits.take() {
            Ok(granted) => Some(granted),
            Err(Blocked::NoCredit) => None,
            Err(Blocked::LastCredit) => {
                let allowed = match config.rule[side] {
                    Rule::Ours | Rule::NoReserve => false,
                    Rule::Weaker | Rule::Plain => credits.outstanding() > 0,
                    Rule::Unguarded => true,
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

    fn put(&mut self, config: &Config, side: usize, length: u8, remaining: u8, granted: u16) {
        let this = &mut self.0[side];
        this.answer.sending();
        let flag = std::mem::take(&mut this.probe_pending);
        let granted = granted.try_into().unwrap();
        let requested = config.wish[side].try_into().unwrap();
        this.channel.push_back(Message {
            length,
            remaining,
            granted,
            requested,
            flag,
        });
    }

    fn send_fragment(&self, config: &Config, side: usize) -> Option<World> {
        let this = &self.0[side];
        let remaining = match this.train.owed() {
            0 => u32::from(*config.queue[side].get(usize::from(this.sent))?),
            owed => owed,
        };
        let mut next = self.clone();
        let granted = next.take(config, side)?;
        let mut message = this.train.open(remaining).unwrap();
        assert_eq!(message.append(remaining), 1);
        next.0[side].train.closed(&message);
        if !next.0[side].train.is_open() {
            next.0[side].sent += 1;
        }
        next.put(
            config,
            side,
            1,
            message.remaining().try_into().unwrap(),
            granted,
        );
        Some(next)
    }

    fn send_empty(&self, config: &Config, side: usize) -> Option<World> {
        let this = &self.0[side];
        let missing = missing(config, side, &this.credits, this.free);
        let due = this.credits.grant_due(missing);
        let wanted = due || this.answer.is_owed() || this.probe_pending;
        if !wanted || this.train.is_open() {
            return None;
        }
        let mut next = self.clone();
        let granted = next.take(config, side)?;
        next.put(config, side, 0, 0, granted);
        Some(next)
    }

    fn handle(&self, side: usize) -> Result<Option<World>, String> {
        let mut next = self.clone();
        let Some(message) = next.0[1 - side].channel.pop_front() else {
            return Ok(None);
        };
        let header = header(&message);
        let this = &mut next.0[side];
        let place = this
            .reassembly
            .accept(&header)
            .map_err(|rule| format!("{rule:?} broken"))?;
        this.credits
            .received(&header)
            .map_err(|rule| format!("{rule:?} broken"))?;
        if header.response_requested {
            this.answer.requested();
        }
        if place.stored {
            this.partial += 1;
        } else {
            this.free += 1;
        }
        if place.last {
            this.unread.push_back(std::mem::take(&mut this.partial));
            this.received += 1;
        }
        Ok(Some(next))
    }

    /// Posts `n` of the missing receives, when the engine would: on the triggers `Credits` names.
    fn refill(&self, side: usize, n: u32) -> Option<World> {
        let this = &self.0[side];
        let blocked = this.credits.check() == Err(Blocked::LastCredit);
        if !(this.credits.refill_worthwhile() || blocked) {
            return None;
        }
        let mut next = self.clone();
        next.0[side].free -= u8::try_from(n).unwrap();
        next.0[side].credits.posted(n);
        Some(next)
    }

    fn read(&self, side: usize) -> Option<World> {
        let mut next = self.clone();
        next.0[side].free += next.0[side].unread.pop_front()?;
        Some(next)
    }

    fn probe(&self, side: usize) -> Option<World> {
        let mut next = self.clone();
        let this = &mut next.0[side];
        this.probes = this.probes.checked_sub(1)?;
        this.probe_pending = true;
        Some(next)
    }

    /// The variant of a sending step in which the message asks for a single credit.
    fn moody(&self, config: &Config, side: usize, next: &World) -> Option<World> {
        let sent = next.0[side].channel.len() > self.0[side].channel.len();
        if !config.moody[side] || !sent {
            return None;
        }
        let mut next = next.clone();
        next.0[side].channel.back_mut().unwrap().requested = 1;
        Some(next)
    }

    /// All next states. The mark tells refills that post fewer receives than they could: no engine does
    /// that again and again, and one that did could keep a pair of empty messages going.
    fn successors(&self, config: &Config) -> Result<Vec<(World, bool)>, String> {
        let mut all = Vec::new();
        for side in 0..2 {
            let steps = [
                self.send_fragment(config, side),
                self.send_empty(config, side),
                self.handle(side)?,
                self.read(side),
                self.probe(side),
            ];
            for next in steps.into_iter().flatten() {
                all.extend(self.moody(config, side, &next).map(|next| (next, false)));
                all.push((next, false));
            }
            let missing = missing(config, side, &self.0[side].credits, self.0[side].free);
            all.extend((1..=missing).filter_map(|n| Some((self.refill(side, n)?, n < missing))));
        }
        Ok(all)
    }

    /// Safety.
    fn check(&self, config: &Config) -> Result<(), String> {
        for side in 0..2 {
            let (this, peer) = (&self.0[side], &self.0[1 - side]);
            let credits = &this.credits;
            let unhandled = u32::try_from(peer.channel.len()).unwrap();
            // A receive for every message, even if it arrives before any handler runs.
            ensure(unhandled <= credits.posted_receives(), "receiver not ready")?;
            ensure(
                credits.outstanding() + credits.available() == credits.posted_receives(),
                "grants and posts out of balance",
            )?;
            let granted: u32 = this
                .channel
                .iter()
                .map(|message| u32::from(message.granted))
                .sum();
            ensure(
                u32::from(peer.credits.send_credits()) + granted + unhandled
                    == credits.outstanding(),
                "credits lost or made up",
            )?;
            ensure(
                credits.posted_receives() <= credits.limit(),
                "receive queue overrun",
            )?;
            ensure(
                credits.outstanding() <= u32::from(config.window[side]) + 1,
                "window",
            )?;
            let held = u32::from(this.free + this.partial)
                + this
                    .unread
                    .iter()
                    .map(|&buffers| u32::from(buffers))
                    .sum::<u32>();
            ensure(
                held + credits.posted_receives() == u32::from(config.buffers(side)),
                "buffer lost",
            )?;
        }
        Ok(())
    }

    fn delivered(&self, config: &Config) -> bool {
        (0..2).all(|side| {
            usize::from(self.0[1 - side].received) == config.queue[side].len()
                && self.0[side].unread.is_empty()
                && self.0[side].channel.is_empty()
                && !self.0[side].answer.is_owed()
                && !self.0[side].probe_pending
        })
    }

    /// No data is left anywhere, and nobody will ask for an answer.
    fn idle(&self, config: &Config) -> bool {
        (0..2).all(|side| {
            usize::from(self.0[1 - side].received) == config.queue[side].len()
                && self.0[side].unread.is_empty()
                && self.0[side].probes == 0
        })
    }

    fn describe(&self) -> String {
        let side = |side: &Side| {
            let credits = &side.credits;
            format!(
                "[send {} count {} available {} posted {} free {} partial {} unread {:?} sent {} owed {} channel {}]",
                credits.send_credits(),
                credits.outstanding(),
                credits.available(),
                credits.posted_receives(),
                side.free,
                side.partial,
                side.unread,
                side.sent,
                side.train.owed(),
                side.channel.len()
            )
        };
        format!("{} {}", side(&self.0[0]), side(&self.0[1]))
    }
}

fn ensure(good: bool, what: &str) -> Result<(), String> {
    good.then_some(()).ok_or_else(|| what.to_string())
}

/// A quick hash; the default one is several times slower.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// Explores everything; returns the number of states.
fn explore(config: &Config) -> Result<usize, String> {
    let mut index: HashMap<World, u32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut order = VecDeque::from([World::start(config)]);
    index.insert(order[0].clone(), 0);
    // (from, to) and, per state, whether it is a good end and whether it is idle.
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut idle_edges: Vec<(u32, u32)> = Vec::new();
    let mut ends: Vec<u32> = Vec::new();
    let mut idle: Vec<bool> = Vec::new();

    while let Some(world) = order.pop_front() {
        let here = u32::try_from(idle.len()).unwrap();
        let explain = |what: String| format!("{what}: {} under {config:?}", world.describe());
        world.check(config).map_err(explain)?;
        idle.push(world.idle(config));
        let next = world.successors(config).map_err(explain)?;
        if next.is_empty() {
            if !world.delivered(config) {
                return Err(explain("stuck".to_string()));
            }
            ends.push(here);
        }
        for (successor, reluctant) in next {
            let fresh = u32::try_from(index.len()).unwrap();
            let to = match index.entry(successor) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    order.push_back(entry.key().clone());
                    *entry.insert(fresh)
                }
            };
            edges.push((here, to));
            if !reluctant && idle[here as usize] {
                idle_edges.push((here, to));
            }
        }
    }
    ensure(
        reaches(&edges, idle.len(), &ends),
        "the good end gets out of reach",
    )?;
    ensure(
        acyclic(&idle_edges, &idle),
        "credit-only messages without end",
    )?;
    Ok(idle.len())
}

/// Whether every state can reach one of `ends`.
fn reaches(edges: &[(u32, u32)], states: usize, ends: &[u32]) -> bool {
    let mut start = vec![0u32; states + 1];
    for &(_, to) in edges {
        start[to as usize + 1] += 1;
    }
    for at in 0..states {
        start[at + 1] += start[at];
    }
    let mut fill = start.clone();
    let mut from_of = vec![0u32; edges.len()];
    for &(from, to) in edges {
        from_of[fill[to as usize] as usize] = from;
        fill[to as usize] += 1;
    }
    let mut seen = vec![false; states];
    let mut work = ends.to_vec();
    for &end in ends {
        seen[end as usize] = true;
    }
    while let Some(to) = work.pop() {
        for &from in &from_of[start[to as usize] as usize..start[to as usize + 1] as usize] {
            if !std::mem::replace(&mut seen[from as usize], true) {
                work.push(from);
            }
        }
    }
    seen.into_iter().all(|seen| seen)
}

/// Whether the part of the graph selected by `inside` has no cycle (Kahn).
fn acyclic(edges: &[(u32, u32)], inside: &[bool]) -> bool {
    let kept: Vec<(u32, u32)> = edges
        .iter()
        .copied()
        .filter(|&(from, to)| inside[from as usize] && inside[to as usize])
        .collect();
    let mut incoming = vec![0u32; inside.len()];
    let mut outgoing: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(from, to) in &kept {
        incoming[to as usize] += 1;
        outgoing.entry(from).or_default().push(to);
    }
    let mut work: Vec<u32> = (0..inside.len() as u32)
        .filter(|&at| inside[at as usize] && incoming[at as usize] == 0)
        .collect();
    let mut removed = 0;
    while let Some(at) = work.pop() {
        removed += 1;
        for &to in outgoing.get(&at).into_iter().flatten() {
            incoming[to as usize] -= 1;
            if incoming[to as usize] == 0 {
                work.push(to);
            }
        }
    }
    removed == inside.iter().filter(|&&inside| inside).count()
}

fn config(window: [u16; 2], wish: [u16; 2], queue: [&[u8]; 2]) -> Config {
    Config {
        window,
        wish,
        queue: queue.map(<[u8]>::to_vec),
        probes: [0, 0],
        rule: [Rule::Ours; 2],
        moody: [false, false],
    }
}

fn all_small() -> impl Iterator<Item = ([u16; 2], [u16; 2])> {
    (0..81u16).map(|n| ([n % 3 + 1, n / 3 % 3 + 1], [n / 9 % 3 + 1, n / 27 + 1]))
}

fn explore_all(configs: impl Iterator<Item = Config>) {
    let mut states = 0;
    for config in configs {
        states += explore(&config).unwrap();
    }
    println!("{states} states");
}

/// Explores until the check fails; what it complains about.
fn first_complaint(configs: impl Iterator<Item = Config>) -> Option<String> {
    configs.map(|config| explore(&config)).find_map(Result::err)
}

// rules: C4+ C8+ R28+
#[test]
fn c4_c8_every_message_arrives_in_both_directions() {
    explore_all(all_small().map(|(window, wish)| config(window, wish, [&[3, 1, 2], &[2, 3]])));
}

// rules: C8+ C9- R28+ R28-
#[test]
fn c8_one_sided_traffic_goes_on() {
    explore_all(all_small().map(|(window, wish)| config(window, wish, [&[3, 3, 3], &[]])));
    explore_all(all_small().map(|(window, wish)| config(window, wish, [&[1], &[3, 3, 3]])));
}

// rules: K3+ K3-
#[test]
fn k3_keepalives_at_any_time_do_no_harm() {
    explore_all(
        all_small()
            .filter(|&(_, wish)| wish == [3, 3] || wish == [1, 2])
            .map(|(window, wish)| Config {
                probes: [1, 1],
                ..config(window, wish, [&[2, 1], &[2]])
            }),
    );
}

// rules: C4+
#[test]
fn c4_windows_of_three_with_full_queues() {
    for window in [[1, 1], [1, 3], [2, 2], [3, 3]] {
        explore(&config(window, [3, 3], [&[3, 3, 3], &[3, 3, 3]])).unwrap();
    }
}

// rules: C2+
#[test]
fn c2_a_peer_that_changes_its_target_does_no_harm() {
    let wide = all_small().filter(|&(_, wish)| wish == [3, 3]);
    explore_all(wide.map(|(window, wish)| Config {
        moody: [true, false],
        ..config(window, wish, [&[2, 1], &[3]])
    }));
}

// rules: C4+
#[test]
fn c4_a_peer_with_the_weaker_rule_cannot_stall_us() {
    for peer in [Rule::Weaker, Rule::Plain] {
        for rule in [[Rule::Ours, peer], [peer, Rule::Ours]] {
            explore_all(all_small().map(|(window, wish)| Config {
                rule,
                ..config(window, wish, [&[3, 1], &[2, 3]])
            }));
        }
    }
}

/// Explores ever larger windows under `rule` on both sides and expects a stall.
fn finds_the_stall(rule: Rule, least_window: u16) {
    let configs = all_small().filter(|(window, wish)| {
        window
            .iter()
            .chain(wish)
            .all(|&credits| credits >= least_window)
    });
    let complaint = first_complaint(configs.map(|(window, wish)| Config {
        rule: [rule; 2],
        ..config(window, wish, [&[3, 1, 2], &[2, 3]])
    }));
    println!("{rule:?}: {complaint:?}");
    let complaint = complaint.unwrap();
    assert!(complaint.starts_with("stuck") || complaint.contains("out of reach"));
}

// rules: C4- R28-
#[test]
fn c4_ablation_no_rule_for_the_last_credit() {
    finds_the_stall(Rule::Unguarded, 1);
    finds_the_stall(Rule::Unguarded, 2);
    finds_the_stall(Rule::Unguarded, 3);
}

// rules: C4- R28-
#[test]
fn c4_ablation_exception_for_a_peer_that_holds_a_credit() {
    finds_the_stall(Rule::Weaker, 1);
    finds_the_stall(Rule::Weaker, 2);
    finds_the_stall(Rule::Plain, 1);
    finds_the_stall(Rule::Plain, 2);
}

// rules: C4- C3- V1-
#[test]
fn c4_v1_ablation_no_reserve() {
    finds_the_stall(Rule::NoReserve, 1);
    finds_the_stall(Rule::NoReserve, 2);
}
