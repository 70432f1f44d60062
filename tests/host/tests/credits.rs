// SPDX-License-Identifier: GPL-2.0
//! Credits: C1-C10, D9, R27, R28. Liveness is proved in `model.rs`.

mod common;

use common::header;
use proptest::prelude::*;
use smbdirect_host::proto::credits::{Blocked, Credits};
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::rule::Rule;
use smbdirect_host::proto::sizing::{plan, DeviceLimits, Wanted};

/// A message with payload (or without) that asks for `requested` and grants `granted`.
fn message(payload: bool, requested: u16, granted: u16) -> DataHeader {
    DataHeader {
        credits_requested: requested,
        credits_granted: granted,
        ..header(u32::from(payload), 0)
    }
}

/// Counters with `send` credits, the peer's `target`, and a peer that holds `held`; `available` receives
/// are posted beyond those.
fn credits(send: u16, target: u16, held: u16, available: u32) -> Credits {
    let mut credits = Credits::new(u16::MAX, 255);
    if held > 0 {
        credits.negotiated(0, held);
        credits.posted(held.into());
        assert_eq!(credits.grant_all_for_response(), held);
    }
    credits.negotiated(send, target);
    credits.posted(available);
    assert_eq!(
        (credits.outstanding(), credits.available()),
        (held.into(), available)
    );
    credits
}

/// A connection's wishes, and a device with room for two messages and one receive.
fn tiny_device() -> (Wanted, DeviceLimits) {
    let wanted = Wanted {
        send_messages: 255,
        recv_credits: 255,
        regions: 0,
        rw_contexts: 0,
        wr_per_context: 1,
        send_sges: 1,
    };
    let device = DeviceLimits {
        max_qp_wr: 3,
        max_cqe: 3,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_sge_rd: 1,
        max_fast_reg_page_list_len: 1,
    };
    (wanted, device)
}

/// The same after a message with payload, or without, has used one more credit.
fn after_message(payload: bool, send: u16, target: u16, held: u16, available: u32) -> Credits {
    let mut credits = credits(send, target, held + 1, available);
    credits.received(&message(payload, target, 0)).unwrap();
    assert_eq!(
        (credits.outstanding(), credits.available()),
        (held.into(), available)
    );
    credits
}

// rules: C1-
#[test]
fn c1_no_credit_no_send_and_nothing_changes() {
    let mut state = credits(0, 10, 3, 5);
    let before = state;
    assert_eq!(state.take(), Err(Blocked::NoCredit));
    assert_eq!(state, before);
}

// rules: C1+
#[test]
fn c1_every_message_costs_one() {
    let mut state = credits(3, 10, 10, 5);
    state.take().unwrap();
    assert_eq!(state.send_credits(), 2);
    state.take().unwrap();
    assert_eq!(state.send_credits(), 1);
}

// rules: C2+ C2-
#[test]
fn c2_the_request_is_our_target_and_never_zero() {
    assert_eq!(Credits::new(255, 200).credits_requested(), 200);
    assert_eq!(Credits::new(255, 0).credits_requested(), 1);
    let mut state = credits(3, 10, 2, 0);
    state.received(&message(true, 7, 0)).unwrap();
    assert_eq!(state.receive_target(), 7);
}

// rules: C2-
#[test]
fn c2_the_peers_target_is_capped() {
    let mut state = Credits::new(20, 255);
    assert_eq!(state.receive_target(), 1, "before the negotiation");
    state.negotiated(1, 255);
    assert_eq!(state.receive_target(), 20);
    state.negotiated(1, 0);
    assert_eq!(state.receive_target(), 1);
}

// rules: C3+
#[test]
fn c3_one_receive_is_kept_that_is_not_granted() {
    let mut state = Credits::new(10, 255);
    state.negotiated(5, 10);
    assert_eq!(state.missing(100), 11, "the window and the reserve");
    assert_eq!(state.missing(4), 4, "no more than there are buffers");
    state.posted(11);
    assert_eq!(state.missing(100), 0);
    assert_eq!(state.take(), Ok(10));
    assert_eq!(state.available(), 1);
    // A shrinking target does not take the reserve away.
    let mut state = credits(1, 10, 10, 1);
    state.received(&message(true, 1, 5)).unwrap();
    state.negotiated(1, 1);
    assert_eq!(
        state.take(),
        Ok(1),
        "the reserve, though far beyond the target"
    );
    assert_eq!(state.missing(100), 1);
}

// rules: C3-
#[test]
fn c3_receives_never_exceed_the_queue() {
    let mut state = Credits::new(10, 255);
    state.negotiated(1, 10);
    state.posted(11);
    assert_eq!(state.limit(), 11);
    assert_eq!(state.take(), Ok(11));
    assert_eq!((state.available(), state.missing(100)), (0, 0));
}

// rules: C4- C4+
#[test]
fn c4_the_last_credit_is_not_spent_without_a_grant() {
    // Whether the peer holds credits (seen from here) makes no difference.
    for held in [0, 1, 10] {
        let mut state = credits(1, 10, held, 0);
        let before = state;
        assert_eq!(state.check(), Err(Blocked::LastCredit));
        assert_eq!(state.take(), Err(Blocked::LastCredit));
        assert_eq!(state, before);
        assert!(state.posted(1), "a sender can go on");
        assert_eq!(state.check(), Ok(()));
        assert_eq!(state.take(), Ok(1));
    }
    // Any other credit is.
    assert_eq!(credits(2, 10, 10, 0).take(), Ok(0));
}

// rules: C4+ C4-
#[test]
fn c4_a_post_tells_whether_a_blocked_sender_can_go_on() {
    for (send, available, n) in
        (0..3).flat_map(|send| [(send, 0, 0), (send, 0, 2), (send, 1, 0), (send, 1, 2)])
    {
        let mut state = credits(send, 10, 3, available);
        let blocked = state.check() == Err(Blocked::LastCredit);
        let unblocks = state.posted(n);
        let what = format!("send {send} available {available} posted {n}");
        assert_eq!(unblocks, blocked && state.check().is_ok(), "{what}");
    }
}

// rules: C4+
#[test]
fn c4_a_credit_from_the_peer_unblocks_as_well() {
    let mut state = credits(1, 10, 10, 0);
    assert!(state.received(&message(false, 10, 1)).unwrap().wake);
    assert_eq!(state.take(), Ok(0));
}

// rules: C4+ C4-
#[test]
fn c4_only_the_last_credit_reaches_beyond_the_target() {
    assert_eq!(credits(2, 10, 10, 1).take(), Ok(0));
    assert_eq!(credits(1, 10, 10, 1).take(), Ok(1));
    assert_eq!(credits(1, 10, 10, 5).take(), Ok(1), "by one");
    assert_eq!(credits(1, 1, 0, 5).take(), Ok(2));
    assert_eq!(
        credits(1, 3, 9, 5).take(),
        Ok(1),
        "even if the target has shrunk"
    );
}

// rules: C5+ C5-
#[test]
fn c5_only_posted_receives_are_granted() {
    let mut state = credits(5, 100, 0, 0);
    assert_eq!(state.take(), Ok(0));
    state.posted(3);
    assert_eq!(state.take(), Ok(3));
    assert_eq!(state.take(), Ok(0), "granted once");
    // A receive that has completed in hardware, unhandled, does not become available by that.
    assert_eq!((state.posted_receives(), state.outstanding()), (3, 3));
}

// rules: C5-
#[test]
fn c5_what_exceeds_the_target_stays_available() {
    let mut state = credits(5, 10, 7, 20);
    assert_eq!(state.take(), Ok(3));
    assert_eq!(state.available(), 17);
}

// rules: C5- C10+
#[test]
fn c5_a_post_that_failed_is_taken_back() {
    let mut state = credits(5, 10, 2, 3);
    let before = state;
    state.posted(4);
    state.unposted(4);
    assert_eq!(state, before);
}

// rules: C6+ C6- R27+
#[test]
fn c6_granted_credits_saturate() {
    let mut state = credits(65530, 10, 3, 0);
    let first = state.received(&message(false, 10, 5)).unwrap();
    assert!(!first.saturated);
    assert_eq!(state.send_credits(), 65535);
    let second = state.received(&message(false, 10, 65535)).unwrap();
    assert!(second.saturated && second.wake);
    assert_eq!(state.send_credits(), 65535);
}

// rules: C6-
#[test]
fn c6_a_grant_fits_its_field() {
    let mut state = Credits::new(u16::MAX, 255);
    state.negotiated(1, u16::MAX);
    state.posted(100_000);
    assert_eq!(state.take(), Ok(u16::MAX));
}

// rules: C7+
#[test]
fn c7_send_credits_are_not_bound_to_our_own_target() {
    let mut state = Credits::new(255, 10);
    state.negotiated(5000, 255);
    assert_eq!(state.send_credits(), 5000);
}

// rules: C7+ C7-
#[test]
fn c7_credits_and_local_slots_do_not_move_each_other() {
    let (wanted, device) = tiny_device();
    let slots = plan(&wanted, &device).unwrap().send_messages;
    assert_eq!(slots, 2);
    // Grants without end neither fill the slots nor make us ask for more.
    let mut state = Credits::new(255, slots);
    state.negotiated(5000, 10);
    state.posted(10);
    assert_eq!(state.grant_all_for_response(), 10);
    for _ in 0..10 {
        state.received(&message(false, 10, 60_000)).unwrap();
    }
    assert_eq!(
        (state.send_credits(), state.credits_requested()),
        (65535, 2)
    );
    assert_eq!(plan(&wanted, &device).unwrap().send_messages, slots);
    // Room for many messages is no credit.
    let mut poor = Credits::new(255, 1000);
    poor.negotiated(0, 10);
    poor.posted(10);
    assert_eq!(poor.take(), Err(Blocked::NoCredit));
}

// rules: C8+ C8-
#[test]
fn c8_a_due_grant_is_issued_in_one_step() {
    for target in 1..=12u16 {
        for held in 0..=target {
            for available in 0..=13u32 {
                let mut state = after_message(true, 2, target, held, available);
                let low = held <= (target / 4).max(1);
                let due = low && held < target && available > 0;
                let what = format!("target {target} held {held} available {available}");
                assert_eq!(state.grant_due(0), due, "{what}");
                if due {
                    let granted = state.take().unwrap();
                    assert_eq!(
                        u32::from(granted),
                        available.min((target - held).into()),
                        "{what}"
                    );
                    assert!(!state.grant_due(0) || state.available() > 0, "{what}");
                }
            }
        }
    }
}

// rules: C8+ C8-
#[test]
fn c8_a_partial_grant_leaves_the_rest_due() {
    let mut state = after_message(true, 9, 255, 10, 1);
    assert!(state.grant_due(0));
    assert_eq!(state.take(), Ok(1));
    assert!(!state.grant_due(0), "nothing to grant");
    state.posted(1);
    assert!(state.grant_due(0), "still below a quarter");
    state.posted(100);
    assert_eq!(state.take(), Ok(101));
    state.posted(5);
    assert!(!state.grant_due(0), "above");
}

// rules: C8+
#[test]
fn c8_posting_comes_before_granting() {
    let mut state = after_message(true, 2, 10, 1, 1);
    assert!(state.missing(4) == 4 && !state.grant_due(4));
    assert!(state.refill_worthwhile());
    state.posted(4);
    assert!(state.grant_due(0));
    assert_eq!(state.take(), Ok(5));
}

// rules: C8-
#[test]
fn c8_no_credit_no_grant() {
    assert!(!after_message(true, 0, 10, 0, 5).grant_due(0));
    assert!(after_message(true, 1, 10, 0, 5).grant_due(0));
}

// rules: C9-
#[test]
fn c9_a_credit_only_message_provokes_none() {
    for (held, due) in [(0, true), (1, false), (2, false)] {
        assert_eq!(
            after_message(false, 2, 100, held, 50).grant_due(0),
            due,
            "held {held}"
        );
    }
    // The same with payload.
    assert!(after_message(true, 2, 100, 2, 50).grant_due(0));
}

// rules: C9+ C9- R28-
#[test]
fn c9_payload_counts_until_the_grant_that_answers_it() {
    let mut state = after_message(true, 9, 100, 2, 90);
    assert_eq!(state.take(), Ok(90), "rides on data");
    for _ in 0..80 {
        state.received(&message(false, 100, 1)).unwrap();
        state.posted(1);
        assert!(!state.grant_due(0));
    }
}

// rules: C3+
#[test]
fn refills_are_grouped_unless_urgent() {
    let filled = credits(9, 64, 64, 1);
    let mut state = filled;
    for received in 1..=8 {
        let done = state.received(&message(true, 64, 0)).unwrap();
        assert_eq!(done.refill, received == 8, "an eighth of the window");
        assert_eq!(done.refill, state.refill_worthwhile());
    }
    // The peer runs dry.
    assert!(after_message(true, 9, 64, 16, 40).refill_worthwhile());
    // Our last credit has nothing to grant.
    let mut state = credits(1, 64, 64, 0);
    assert!(state.received(&message(true, 64, 0)).unwrap().refill);
    // It has something to grant, or it is not the last.
    for state in [credits(1, 64, 63, 1), credits(9, 64, 64, 0)] {
        assert!(state.missing(100) == 1 && !state.refill_worthwhile());
    }
}

// rules: C10+
#[test]
fn c10_a_message_that_was_not_posted_restores_the_counters() {
    // The last one leaves a due grant due.
    for (send, held, available) in [
        (1, 0, 5),
        (1, 10, 1),
        (7, 3, 2),
        (2, 10, 0),
        (9, 0, 20),
        (9, 0, 1),
    ] {
        let mut state = after_message(true, send, 10, held, available);
        let before = state;
        let granted = state.take().unwrap();
        assert_ne!(state, before);
        state.give_back(granted);
        assert_eq!(
            state, before,
            "send {send} held {held} available {available}"
        );
    }
}

// rules: C10- D9-
#[test]
fn c10_a_grant_that_never_travelled_is_no_credit() {
    let mut posted = credits(5, 10, 0, 4);
    let granted = posted.take().unwrap();
    let mut failed = posted;
    failed.give_back(granted);
    assert!(posted.received(&message(true, 10, 0)).is_ok());
    assert_eq!(failed.received(&message(true, 10, 0)), Err(Rule::D9));
    // Nor is the receive of the negotiation: a fresh connection has nothing to grant.
    let mut fresh = Credits::new(255, 255);
    fresh.negotiated(1, 10);
    assert_eq!((fresh.posted_receives(), fresh.available()), (0, 0));
    assert_eq!(fresh.take(), Err(Blocked::LastCredit));
}

// rules: C10+ Q7+
#[test]
fn c10_a_response_that_was_not_posted_restores_the_counters() {
    let mut state = credits(0, 10, 0, 11);
    let before = state;
    let granted = state.grant_all_for_response();
    assert_eq!(
        (granted, state.available()),
        (10, 1),
        "the reserve is not granted"
    );
    state.revoke_response(granted);
    assert_eq!(state, before);
}

// rules: C5- C10+
#[test]
fn c5_a_grant_used_before_it_was_sent_has_no_receive_any_more() {
    // The peer sends without a credit while one for it is in a message that is then not posted.
    let mut state = credits(2, 10, 0, 1);
    let granted = state.take().unwrap();
    state.received(&message(true, 10, 0)).unwrap();
    state.give_back(granted);
    assert_eq!((state.posted_receives(), state.available()), (0, 0));
    assert_eq!(state.outstanding(), 0);

    let mut state = credits(0, 10, 0, 3);
    let granted = state.grant_all_for_response();
    state.received(&message(true, 10, 0)).unwrap();
    state.revoke_response(granted);
    assert_eq!((state.posted_receives(), state.available()), (2, 2));
}

// rules: Q7-
#[test]
fn q7_nothing_posted_nothing_granted_with_the_response() {
    assert_eq!(credits(0, 10, 0, 0).grant_all_for_response(), 0);
}

// rules: D9- D9+ R27-
#[test]
fn d9_a_message_without_a_credit_is_refused() {
    let mut state = credits(3, 10, 1, 4);
    state.received(&message(true, 10, 0)).unwrap();
    let before = state;
    assert_eq!(state.received(&message(true, 7, 9)), Err(Rule::D9));
    assert_eq!(
        (state.send_credits(), state.receive_target()),
        (3, 10),
        "nothing was taken over"
    );
    assert_eq!(state.posted_receives(), before.posted_receives() - 1);
}

// rules: R27-
#[test]
fn r27_counters_do_not_go_below_zero() {
    let mut state = Credits::new(1, 1);
    state.received_error();
    state.unposted(5);
    state.give_back(9);
    state.revoke_response(9);
    assert_eq!((state.posted_receives(), state.outstanding()), (0, 0));
}

/// What the engine and the peer may do, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Refill(u32),
    FailedRefill(u32),
    Send,
    FailedSend,
    /// The peer sends a message, which waits in our hardware.
    PeerSends {
        payload: bool,
        requested: u16,
        granted: u16,
    },
    /// Our handler sees the oldest one.
    Handle,
    /// The peer sends although it may not.
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let granted = prop_oneof![4 => 0u16..5, 1 => any::<u16>()];
    let requested = prop_oneof![4 => 1u16..300, 1 => 1u16..];
    prop_oneof![
        2 => (0u32..40).prop_map(Step::Refill),
        1 => (0u32..5).prop_map(Step::FailedRefill),
        4 => Just(Step::Send),
        1 => Just(Step::FailedSend),
        4 => (any::<bool>(), requested, granted).prop_map(|(payload, requested, granted)| {
            Step::PeerSends { payload, requested, granted }
        }),
        4 => Just(Step::Handle),
        1 => Just(Step::Flush),
    ]
}

/// The counters recomputed from what happened, not from what the code believes.
#[derive(Default)]
struct Shadow {
    posts: u64,
    grants: u64,
    completions: u64,
    /// Credits the peer may use now.
    peer_holds: u64,
    send: u64,
    unhandled: Vec<(bool, u16, u16)>,
}

impl Shadow {
    fn check(&self, state: &Credits, limit: u32) {
        assert!(
            self.grants <= self.posts,
            "C5: sum of grants <= sum of posts"
        );
        assert_eq!(u64::from(state.outstanding()), self.grants - self.handled());
        assert_eq!(u64::from(state.available()), self.posts - self.grants);
        assert_eq!(
            u64::from(state.posted_receives()),
            self.posts - self.handled()
        );
        assert_eq!(u64::from(state.send_credits()), self.send);
        assert!(state.outstanding() <= limit && state.posted_receives() <= limit);
        assert_eq!(self.peer_holds + self.completions, self.grants);
        // A receive is there for each credit the peer holds, also if nothing was handled yet.
        assert!(self.posts - self.completions >= self.peer_holds);
    }

    fn handled(&self) -> u64 {
        self.completions - self.unhandled.len() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // rules: C5+ C6+ C10+ D9- R27+ R27-
    #[test]
    fn c5_c6_c10_any_interleaving_keeps_the_balance(
        recv_max in prop_oneof![1u16..4, 1u16..300, Just(u16::MAX)],
        target in prop_oneof![1u16..4, 1u16..],
        initial in 0u16..20,
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut state = Credits::new(recv_max, 255);
        state.negotiated(initial, target);
        let mut shadow = Shadow { send: initial.into(), ..Shadow::default() };
        for step in steps {
            match step {
                Step::Refill(free) => {
                    let n = state.missing(free);
                    state.posted(n);
                    shadow.posts += u64::from(n);
                }
                Step::FailedRefill(free) => {
                    let n = state.missing(free);
                    let before = state;
                    state.posted(n);
                    state.unposted(n);
                    prop_assert_eq!(before, state);
                }
                Step::Send => {
                    let before = state;
                    match state.take() {
                        Ok(granted) => {
                            prop_assert!(before.send_credits() > 1 || granted > 0, "C4");
                            shadow.send -= 1;
                            shadow.grants += u64::from(granted);
                            shadow.peer_holds += u64::from(granted);
                        }
                        Err(_) => prop_assert_eq!(before, state),
                    }
                }
                Step::FailedSend => {
                    if let Ok(granted) = state.take() {
                        state.give_back(granted);
                    }
                }
                Step::PeerSends { payload, requested, granted } => {
                    if shadow.peer_holds > 0 {
                        shadow.peer_holds -= 1;
                        shadow.completions += 1;
                        shadow.unhandled.push((payload, requested, granted));
                    }
                }
                Step::Handle if !shadow.unhandled.is_empty() => {
                    let (payload, requested, granted) = shadow.unhandled.remove(0);
                    let done = state.received(&message(payload, requested, granted)).unwrap();
                    prop_assert_eq!(done.wake, granted > 0);
                    prop_assert_eq!(state.receive_target(), requested.min(recv_max));
                    shadow.send = (shadow.send + u64::from(granted)).min(65535);
                }
                Step::Handle => {}
                Step::Flush => {
                    // Also a peer that over-sends is told apart, whatever came before.
                    let mut other = state;
                    while other.received(&message(true, 1, 0)).is_ok() {}
                    prop_assert_eq!(other.outstanding(), 0);
                }
            }
            shadow.check(&state, state.limit());
        }
    }

    /// R28: at every quiet point with a free buffer the peer holds a credit.
    // rules: R28+
    #[test]
    fn r28_a_peer_at_zero_gets_a_grant_at_once(
        target in 1u16..300, send in 1u16..5, free in 1u32..300, payload: bool,
    ) {
        let mut state = credits(send, target, 1, 0);
        state.received(&message(payload, target, 0)).unwrap();
        prop_assert!(state.refill_worthwhile());
        let n = state.missing(free);
        prop_assert!(n > 0);
        state.posted(n);
        prop_assert!(state.grant_due(free - n));
        prop_assert!(state.take().unwrap() > 0);
    }
}
