// SPDX-License-Identifier: GPL-2.0
//! The explorer: two endpoints run the real engine against each other, in every order of steps
//! (C1-C10, F3, K1-K3, R11, R12; testing.md section 2).
//!
//! An endpoint is the real `Credits`, `Train`, `Reassembly`, `Keepalive`, `Answer` and `State`; one of the
//! two is the initiator, the other the acceptor. A step is one of: send a fragment or a credit-only
//! message, handle the oldest completion, post some of the missing receives, let the reader consume a
//! message, let the clock tick, let the timer expire, fail, clean up, see the peer's disconnect, destroy.
//! Whatever is possible may also wait, so handlers, refills, readers, timers and cleanups are delayed for
//! as long as they like. A message reaches the peer's hardware at once, which is the worst case for a
//! missing receive. Posts may fail, in all ways a device has, and errors may strike at any time.
//!
//! Checked in every reachable state: the safety properties of `judge.rs` and the edges of the state
//! machine. Checked of the graph: no state is stuck; without an error, the end where everything was
//! delivered can still be reached; with one, both sides get to their final state, and nothing can go on for
//! ever instead; once no data is left, the exchange of credit-only messages ends by itself.
//!
//! The same check with one rule removed, or weakened in the ways that suggest themselves, must find the
//! failure. Otherwise it would prove nothing.

#[path = "../common/mod.rs"]
mod common;
mod config;
mod end;
mod explore;
mod judge;
mod world;

use config::{all_small, long, Config, Rule};
use explore::explore;
use std::time::Instant;

/// Explores one after the other and tells how much that was.
fn explore_all(configs: impl Iterator<Item = Config>) {
    let start = Instant::now();
    let (mut states, mut count) = (0, 0);
    for config in configs {
        states += explore(&config).unwrap();
        count += 1;
    }
    println!(
        "{count} explorations, {states} states, {:.1} s",
        start.elapsed().as_secs_f32()
    );
}

/// Windows and wishes, all in the long form.
fn windows() -> impl Iterator<Item = ([u16; 2], [u16; 2])> {
    all_small().filter(|&(window, wish)| long() || wish == [3, 3] || wish == window)
}

/// The same, for explorations in which much can go wrong: windows of 1 and 2 in the short form.
fn small_windows() -> impl Iterator<Item = ([u16; 2], [u16; 2])> {
    let small = |window: [u16; 2]| window.iter().all(|&credits| credits < 3);
    all_small().filter(move |&(window, wish)| long() || (small(window) && wish == window))
}

// rules: C4+ C8+ R28+
#[test]
fn c4_c8_every_message_arrives_in_both_directions() {
    explore_all(windows().map(|(window, wish)| Config::new(window, wish, [2, 2], [3, 2])));
}

// rules: C8+ C9- R28+ R28-
#[test]
fn c8_one_sided_traffic_goes_on() {
    explore_all(windows().map(|(window, wish)| Config::new(window, wish, [3, 0], [3, 0])));
    explore_all(windows().map(|(window, wish)| Config::new(window, wish, [1, 3], [1, 3])));
}

// rules: C4+
#[test]
fn c4_windows_of_three_with_full_queues() {
    let some = [([1, 1], [3, 3]), ([2, 2], [2, 2])];
    let configs = some.into_iter().chain(all_small().filter(|_| long()));
    explore_all(configs.map(|(window, wish)| Config::new(window, wish, [3, 3], [3, 3])));
}

// rules: K1+ K3+ K3-
#[test]
fn k1_k3_keepalives_at_any_time_do_no_harm() {
    explore_all(small_windows().map(|(window, wish)| Config {
        ticks: 2,
        ..Config::new(window, wish, [1, 1], [2, 2])
    }));
}

// rules: K1-
#[test]
fn k1_a_peer_that_is_late_for_too_long_ends_the_connection_on_both_sides() {
    explore_all(small_windows().map(|(window, wish)| Config {
        ticks: 2,
        patience: 1,
        ..Config::new(window, wish, [1, 0], [2, 0])
    }));
}

// rules: C10+ C10-
#[test]
fn c10_posts_that_fail_leave_the_counters_as_they_were() {
    explore_all(small_windows().map(|(window, wish)| Config {
        failures: [1, 1],
        ..Config::new(window, wish, [1, 1], [3, 2])
    }));
}

// rules: R11+ R12+ R12-
#[test]
fn r12_after_an_error_at_any_time_both_sides_reach_their_final_state() {
    explore_all(small_windows().map(|(window, wish)| Config {
        ends: [1, 1],
        ..Config::new(window, wish, [1, 1], [3, 2])
    }));
}

// rules: C2+
#[test]
fn c2_a_peer_that_changes_its_target_does_no_harm() {
    let wide = all_small().filter(|&(_, wish)| wish == [3, 3]);
    explore_all(wide.map(|(window, wish)| Config {
        moody: [true, false],
        ..Config::new(window, wish, [2, 1], [2, 3])
    }));
}

// rules: C4+
#[test]
fn c4_a_peer_with_the_weaker_rule_cannot_stall_us() {
    for peer in [Rule::Weaker, Rule::Plain] {
        for rule in [[Rule::Ours, peer], [peer, Rule::Ours]] {
            explore_all(windows().map(|(window, wish)| Config {
                rule,
                ..Config::new(window, wish, [1, 2], [3, 3])
            }));
        }
    }
}

/// Explores windows of at least `least` under `rule` on both sides, until the check fails.
fn complaint(rule: Rule, least: u16) -> String {
    let wide = |credits: &u16| *credits >= least;
    let found = all_small()
        .filter(|(window, wish)| window.iter().chain(wish).all(wide))
        .map(|(window, wish)| Config {
            rule: [rule; 2],
            ..Config::new(window, wish, [2, 2], [3, 3])
        })
        .find_map(|config| explore(&config).err())
        .unwrap();
    println!("{rule:?}: {found}");
    found
}

fn finds_the_stall(rule: Rule, least: u16) {
    let found = complaint(rule, least);
    let stalls = [
        "stuck",
        "the end gets out of reach",
        "credit-only messages without end",
    ];
    assert!(stalls.iter().any(|stall| found.starts_with(stall)));
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

// rules: C5-
#[test]
fn c5_ablation_grants_by_posted_minus_outstanding() {
    assert!(complaint(Rule::PostedMinusOutstanding, 1).starts_with("receiver not ready"));
}

// rules: F3-
#[test]
fn f3_ablation_an_empty_message_inside_a_train() {
    assert!(complaint(Rule::EmptyInsideTrain, 1).starts_with("D6 broken"));
}
