// SPDX-License-Identifier: GPL-2.0
//! IRD/ORD: W1-W4, R9.

use proptest::prelude::*;
use smbdirect_host::proto::depth::{clamp_device, decode, encode, negotiate, peer, Depths, Peer};
use smbdirect_host::proto::rule::Rule;

fn depths(initiator_depth: u8, responder_resources: u8) -> Depths {
    Depths {
        initiator_depth,
        responder_resources,
    }
}

// rules: R9+ R9- W4-
#[test]
fn r9_every_attribute_is_compared_before_it_is_narrowed() {
    for device in 0..=65_536i64 {
        for wanted in [0u32, 1, 8, 32, 255] {
            let expected = device.min(wanted.into()).min(255);
            assert_eq!(
                i64::from(clamp_device(wanted, device)),
                expected,
                "{device}"
            );
        }
    }
    assert_eq!(clamp_device(255, 256), 255, "not 0");
    assert_eq!(clamp_device(u32::MAX, i64::MAX), 255);
    assert_eq!(clamp_device(32, -1), 0);
    assert_eq!(clamp_device(32, i64::MIN), 0);
}

// rules: W1+
#[test]
fn w1_two_big_endian_words_ird_first() {
    assert_eq!(encode(depths(1, 32)), [0, 0, 0, 32, 0, 0, 0, 1]);
    assert_eq!(decode(&[0, 0, 0, 32, 0, 0, 0, 1]), Some((32, 1)));
}

// rules: W1-
#[test]
fn w1_only_exactly_8_bytes_count() {
    for length in (0..64).filter(|&length| length != 8) {
        assert_eq!(decode(&vec![1; length]), None);
    }
    // InfiniBand never looks at them.
    let seen = peer(depths(3, 4), false, &encode(depths(9, 9)));
    let expected = Peer {
        initiator_depth: Some(3),
        responder_resources: Some(4),
        legacy: false,
    };
    assert_eq!(seen, expected);
}

// rules: W2+
#[test]
fn w2_the_same_words_mean_a_modern_stack() {
    // The peer serves 32 and starts 1; the event says so in its view.
    let seen = peer(depths(1, 32), true, &encode(depths(1, 32)));
    let expected = Peer {
        initiator_depth: Some(32),
        responder_resources: Some(1),
        legacy: false,
    };
    assert_eq!(seen, expected);
}

// rules: W2-
#[test]
fn w2_other_words_mean_an_old_peer_and_are_clamped() {
    let seen = peer(depths(0, 0), true, &[0, 0, 1, 0, 0, 0, 0, 2]);
    let expected = Peer {
        initiator_depth: Some(255),
        responder_resources: Some(2),
        legacy: true,
    };
    assert_eq!(seen, expected);
    // Little-endian words of old Linux clients are huge, not zero.
    let seen = peer(depths(1, 32), true, &[32, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(
        (seen.initiator_depth, seen.responder_resources),
        (Some(255), Some(255))
    );
}

// rules: W3+
#[test]
fn w3_the_smaller_of_both_wins() {
    let seen = Peer {
        initiator_depth: Some(8),
        responder_resources: Some(1),
        legacy: false,
    };
    assert_eq!(negotiate(depths(1, 32), &seen), Ok(depths(1, 1)));
    assert_eq!(negotiate(depths(16, 1), &seen), Ok(depths(8, 1)));
}

// rules: W3+
#[test]
fn w3_zero_in_an_event_means_not_stated() {
    for iwarp in [false, true] {
        let seen = peer(depths(0, 0), iwarp, &[]);
        assert_eq!(negotiate(depths(8, 32), &seen), Ok(depths(8, 32)));
    }
}

// rules: W3-
#[test]
fn w3_zero_in_the_words_is_a_reason_to_reject() {
    let seen = peer(depths(1, 1), true, &encode(depths(1, 0)));
    assert_eq!(negotiate(depths(8, 32), &seen), Err(Rule::W3));
    let seen = peer(depths(1, 1), true, &encode(depths(0, 1)));
    assert_eq!(negotiate(depths(8, 32), &seen), Err(Rule::W3));
    // Unless we need none.
    assert_eq!(negotiate(depths(8, 0), &seen), Ok(depths(1, 0)));
}

// rules: W4+
#[test]
fn w4_ib_reports_our_view_iwarp_the_peers() {
    let event = depths(3, 4);
    let ib = peer(event, false, &[]);
    assert_eq!(
        (ib.initiator_depth, ib.responder_resources),
        (Some(3), Some(4))
    );
    let iwarp = peer(event, true, &[]);
    assert_eq!(
        (iwarp.initiator_depth, iwarp.responder_resources),
        (Some(4), Some(3))
    );
}

// rules: W4-
#[test]
fn w4_the_words_are_swapped_no_second_time() {
    // IRD 7, ORD 3: the peer serves seven READs and starts three.
    let seen = peer(depths(9, 9), true, &[0, 0, 0, 7, 0, 0, 0, 3]);
    assert_eq!(
        (seen.initiator_depth, seen.responder_resources),
        (Some(7), Some(3))
    );
    assert_eq!(negotiate(depths(5, 5), &seen), Ok(depths(5, 3)));
}

/// Words as the peer writes them: what the event says, near it, at the limits, or anything.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        0u32..4,
        254u32..258,
        Just(1 << 24),
        Just(u32::MAX),
        any::<u32>()
    ]
}

/// One depth: the smaller of ours and the peer's, which it may not have stated.
fn smaller(own: u8, stated: Option<u32>) -> Option<u8> {
    match stated {
        None => Some(own),
        Some(0) if own > 0 => None,
        Some(cap) => Some(own.min(cap.min(255) as u8)),
    }
}

proptest! {
    // rules: W1+ W2+ W2- W3+ W3- W4+
    #[test]
    fn w2_w3_w4_any_words_give_the_smaller_of_both(
        own in (any::<u8>(), any::<u8>()), event in (0u8..4, 0u8..4),
        words in proptest::option::of((word(), word())), iwarp: bool,
    ) {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|(ird, ord)| ird.to_be_bytes().into_iter().chain(ord.to_be_bytes()))
            .collect();
        let seen = peer(depths(event.0, event.1), iwarp, &bytes);
        let heard = |depth: u8| (depth > 0).then_some(u32::from(depth));
        // What the peer serves and starts; the event names it in its view on iWARP.
        let (serves, starts, old) = match words {
            _ if !iwarp => (heard(event.0), heard(event.1), false),
            Some(pair) if pair != (event.1.into(), event.0.into()) => {
                (Some(pair.0), Some(pair.1), true)
            }
            _ => (heard(event.1), heard(event.0), false),
        };
        let expected = smaller(own.0, serves).zip(smaller(own.1, starts));
        let result = negotiate(depths(own.0, own.1), &seen);
        prop_assert_eq!(seen.legacy, old);
        prop_assert_eq!(
            result.map_err(|rule| rule.id()),
            expected.map(|(initiator, responder)| depths(initiator, responder)).ok_or("W3")
        );
    }

    // rules: W1- W3- R48-
    #[test]
    fn w1_any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..16), a: u8, b: u8) {
        let own = depths(a, b);
        let seen = peer(own, true, &bytes);
        if let Ok(result) = negotiate(own, &seen) {
            prop_assert!(result.initiator_depth <= own.initiator_depth);
            prop_assert!(result.responder_resources <= own.responder_resources);
            prop_assert!(a == 0 || result.initiator_depth > 0, "never a silent zero");
            prop_assert!(b == 0 || result.responder_resources > 0);
        }
    }

    // rules: W1+
    #[test]
    fn w1_encoding_is_reversible(a: u8, b: u8) {
        prop_assert_eq!(decode(&encode(depths(a, b))), Some((b.into(), a.into())));
    }
}
