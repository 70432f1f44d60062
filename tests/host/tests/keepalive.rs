// SPDX-License-Identifier: GPL-2.0
//! Timers and answers: K1-K5, E2/E3.

mod common;

use common::header;
use proptest::prelude::*;
use smbdirect_host::proto::credits::{Blocked, Credits};
use smbdirect_host::proto::keepalive::{Action, Answer, Keepalive};
use smbdirect_host::proto::pdu::DataHeader;

const INTERVAL: u64 = 120_000;
const TIMEOUT: u64 = 5_000;

fn connected(now: u64) -> Keepalive {
    let mut timer = Keepalive::new();
    assert_eq!(
        timer.connected(now, INTERVAL, TIMEOUT),
        Action::Rearm(INTERVAL)
    );
    timer
}

// rules: K1+ K1-
#[test]
fn k1_silence_leads_to_a_probe_and_then_to_the_end() {
    let mut timer = connected(1000);
    let now = 1000 + INTERVAL;
    assert_eq!(timer.expired(now), Action::Probe { rearm: TIMEOUT });
    assert!(timer.is_pending());
    assert!(timer.sending(now + 10));
    // Measured from the flagged message.
    assert_eq!(timer.expired(now + TIMEOUT), Action::Rearm(10));
    assert_eq!(timer.expired(now + TIMEOUT + 10), Action::TimedOut);
}

// rules: K1-
#[test]
fn k1_a_probe_that_cannot_be_sent_times_out_as_well() {
    let mut timer = connected(0);
    timer.expired(INTERVAL);
    assert_eq!(timer.expired(INTERVAL + TIMEOUT - 1), Action::Rearm(1));
    assert_eq!(timer.expired(INTERVAL + TIMEOUT), Action::TimedOut);
}

// rules: K1+
#[test]
fn k1_the_timer_is_lazy() {
    let mut timer = connected(0);
    timer.received(70_000);
    timer.received(90_000);
    assert_eq!(timer.expired(INTERVAL), Action::Rearm(90_000));
    assert_eq!(
        timer.expired(INTERVAL + 90_000),
        Action::Probe { rearm: TIMEOUT }
    );
}

// rules: K1+
#[test]
fn k1_any_good_receive_clears_the_keepalive() {
    for sent in [false, true] {
        let mut timer = connected(0);
        timer.expired(INTERVAL);
        if sent {
            assert!(timer.sending(INTERVAL));
        }
        timer.received(INTERVAL + 1);
        assert!(!timer.is_pending() && !timer.sending(INTERVAL + 2));
        assert_eq!(
            timer.expired(INTERVAL + TIMEOUT),
            Action::Rearm(INTERVAL - TIMEOUT + 1)
        );
    }
}

// rules: K2+ K2-
#[test]
fn k2_only_one_message_carries_the_flag() {
    let mut timer = connected(0);
    assert!(!timer.sending(1), "nothing pending");
    timer.expired(INTERVAL);
    assert!(timer.sending(INTERVAL + 1));
    assert!(!timer.sending(INTERVAL + 2));
}

// rules: K2+
#[test]
fn k2_a_flagged_message_that_was_not_posted_passes_the_flag_on() {
    let mut timer = connected(0);
    timer.unsent();
    assert!(!timer.is_pending());
    timer.expired(INTERVAL);
    assert!(timer.sending(INTERVAL + 1));
    timer.unsent();
    assert!(timer.sending(INTERVAL + 2));
}

/// A sender without credits whose keepalive is due: the timer, and the credits of the same connection.
fn starved() -> (Keepalive, Credits) {
    let mut timer = connected(0);
    let mut credits = Credits::new(10, 10);
    credits.negotiated(1, 10);
    credits.posted(11);
    credits.take().unwrap();
    assert_eq!(timer.expired(INTERVAL), Action::Probe { rearm: TIMEOUT });
    assert_eq!(credits.take(), Err(Blocked::NoCredit), "not even for it");
    (timer, credits)
}

// rules: K4+
#[test]
fn k4_a_grant_within_the_timeout_ends_the_wait() {
    let (mut timer, mut credits) = starved();
    let now = INTERVAL + TIMEOUT - 1;
    let grant = DataHeader {
        credits_granted: 3,
        ..header(0, 0)
    };
    assert!(credits.received(&grant).unwrap().wake);
    timer.received(now);
    assert_eq!(credits.check(), Ok(()));
    assert!(matches!(timer.expired(now + 1), Action::Rearm(_)));
}

// rules: K4-
#[test]
fn k4_a_peer_that_grants_nothing_is_given_up() {
    let (mut timer, credits) = starved();
    assert_eq!(timer.expired(INTERVAL + TIMEOUT - 1), Action::Rearm(1));
    assert_eq!(credits.check(), Err(Blocked::NoCredit));
    assert_eq!(timer.expired(INTERVAL + TIMEOUT), Action::TimedOut);
}

// rules: K5+ K5-
#[test]
fn k5_the_intervals_are_the_callers() {
    let mut timer = Keepalive::new();
    assert_eq!(timer.connected(0, 7, 3), Action::Rearm(7));
    assert_eq!(timer.expired(7), Action::Probe { rearm: 3 });
    assert_eq!(timer.expired(10), Action::TimedOut);
    // An interval of zero switches keepalives off.
    assert_eq!(timer.connected(0, 0, 3), Action::Idle);
    assert_eq!(timer.expired(u64::MAX), Action::Idle);
    assert!(!timer.sending(u64::MAX));
}

// rules: E2+ E2- E3+ E3-
#[test]
fn e2_e3_a_phase_ends_on_time_whatever_arrives() {
    let mut timer = Keepalive::new();
    assert_eq!(timer.phase(100, 5000), 5000);
    timer.received(200);
    assert!(!timer.sending(300));
    assert_eq!(timer.expired(5099), Action::Rearm(1));
    assert_eq!(timer.expired(5100), Action::TimedOut);
}

// rules: E2+
#[test]
fn e2_the_next_phase_replaces_the_last() {
    let mut timer = Keepalive::new();
    timer.phase(0, 5000);
    timer.phase(4000, 120_000);
    assert_eq!(timer.expired(5000), Action::Rearm(119_000));
    timer.connected(6000, INTERVAL, TIMEOUT);
    assert_eq!(timer.expired(124_000), Action::Rearm(2000));
}

#[test]
fn a_stopped_timer_stays_quiet() {
    let mut timer = connected(0);
    timer.expired(INTERVAL);
    timer.stop();
    assert!(!timer.sending(INTERVAL + 1));
    assert_eq!(timer.expired(u64::MAX), Action::Idle);
    assert_eq!(Keepalive::default().expired(0), Action::Idle);
}

// rules: K3+ K3-
#[test]
fn k3_one_answer_per_burst_and_at_least_one_after_its_last_flag() {
    let mut answer = Answer::new();
    assert!(!answer.is_owed() && !answer.sending());
    assert!(answer.requested(), "schedule");
    assert!(!answer.requested(), "already scheduled");
    assert!(answer.is_owed());
    assert!(answer.sending());
    assert!(!answer.is_owed());
    assert!(!answer.sending(), "never more answers than flags");
    assert!(
        answer.requested(),
        "a flag after the answer asks for a new one"
    );
    assert!(answer.sending());
    answer.unsent();
    assert!(answer.is_owed());
}

// rules: K3-
#[test]
fn k3_the_answer_does_not_carry_the_flag() {
    let mut timer = connected(0);
    timer.expired(INTERVAL);
    // The peer's flagged message is a good receive, so it clears our pending keepalive.
    timer.received(INTERVAL + 1);
    assert!(!timer.sending(INTERVAL + 1));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Received,
    Send,
    Expire,
    Answered,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        Just(Step::Received),
        Just(Step::Send),
        Just(Step::Expire),
        Just(Step::Answered)
    ];
    (
        prop_oneof![Just(0u64), 0u64..10_000, 100_000u64..130_000],
        step,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    // rules: K1+ K2-
    #[test]
    fn k1_k2_time_out_only_after_real_silence(
        start in prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from)],
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut timer = connected(start);
        let (mut now, mut heard, mut probes, mut flags) = (start, start, 0u32, 0u32);
        for (delay, step) in steps {
            now += delay;
            match step {
                Step::Received => { heard = now; timer.received(now) }
                Step::Send | Step::Answered => flags += u32::from(timer.sending(now)),
                Step::Expire => match timer.expired(now) {
                    Action::Rearm(delay) => prop_assert!((1..=INTERVAL).contains(&delay)),
                    Action::Probe { rearm } => {
                        probes += 1;
                        prop_assert_eq!(rearm, TIMEOUT);
                        prop_assert!(now - heard >= INTERVAL);
                    }
                    Action::TimedOut => {
                        prop_assert!(now - heard >= INTERVAL + TIMEOUT);
                        break;
                    }
                    Action::Idle => prop_assert!(false, "never idle while connected"),
                },
            }
            prop_assert!(flags <= probes);
        }
    }

    /// A timer that fires when told ends a silent connection within interval + two time-outs.
    // rules: K1-
    #[test]
    fn k1_a_silent_peer_is_given_up(send_after in 0u64..TIMEOUT) {
        let mut timer = connected(0);
        let (mut now, mut due) = (0, INTERVAL);
        // Probe, a look that comes too early, the end.
        for _ in 0..3 {
            now += due;
            match timer.expired(now) {
                Action::Rearm(delay) => due = delay,
                Action::Probe { rearm } => {
                    prop_assert!(timer.sending(now + send_after));
                    due = rearm;
                }
                Action::TimedOut => break,
                Action::Idle => prop_assert!(false),
            }
        }
        prop_assert_eq!(now, INTERVAL + TIMEOUT + send_after);
    }

    // rules: K5-
    #[test]
    fn any_times_are_survived(a: u64, b: u64, c: u64, d: u64) {
        let mut timer = Keepalive::new();
        timer.phase(a, b);
        timer.expired(c);
        timer.connected(a, b, c);
        timer.received(d);
        timer.expired(a);
        let _ = timer.sending(b);
        timer.expired(u64::MAX);
    }
}
