// SPDX-License-Identifier: GPL-2.0
//! Reassembly: D6, D7, D10, D12, F7, R26.

mod common;

use common::{header, judge};
use proptest::prelude::*;
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::reassembly::{Placement, Reassembly};
use smbdirect_host::proto::rule::Rule;

fn stored(first: bool, last: bool, total: u32) -> Placement {
    Placement {
        stored: true,
        first,
        last,
        total,
    }
}

fn begun(length: u32, remaining: u32) -> Reassembly {
    let mut state = Reassembly::new(false);
    state.accept(&header(length, remaining)).unwrap();
    state
}

/// Refused with `rule`, and nothing has changed.
fn refuses(state: &Reassembly, length: u32, remaining: u32, rule: Rule) {
    let mut after = *state;
    assert_eq!(after.accept(&header(length, remaining)), Err(rule));
    assert_eq!(after, *state);
}

// rules: F7+
#[test]
fn f7_a_single_fragment_is_first_and_last() {
    let mut state = Reassembly::new(true);
    assert_eq!(state.accept(&header(100, 0)), Ok(stored(true, true, 100)));
    assert_eq!(state.accept(&header(7, 0)), Ok(stored(true, true, 7)));
}

// rules: F7+ F7-
#[test]
fn f7_the_first_fragment_announces_the_total() {
    let mut state = Reassembly::new(true);
    assert_eq!(
        state.accept(&header(100, 150)),
        Ok(stored(true, false, 250))
    );
    assert_eq!(state.owed(), 150);
    assert_eq!(
        state.accept(&header(100, 50)),
        Ok(stored(false, false, 250))
    );
    assert_eq!(state.accept(&header(50, 0)), Ok(stored(false, true, 250)));
    assert_eq!(state.owed(), 0);
}

// rules: D6- D6+
#[test]
fn d6_the_message_ends_too_early() {
    let state = begun(100, 100);
    refuses(&state, 99, 0, Rule::D6);
    refuses(&state, 1, 0, Rule::D6);
    assert!({ state }.accept(&header(100, 0)).is_ok());
}

// rules: D7- D7+
#[test]
fn d7_the_fragment_does_not_fit_what_is_owed() {
    let state = begun(100, 100);
    for (length, remaining) in [(101, 0), (10, 91), (10, 89), (10, 100), (100, 100), (0, 99)] {
        refuses(&state, length, remaining, Rule::D7);
    }
    refuses(&state, 1, u32::MAX, Rule::D5);
    assert!({ state }.accept(&header(10, 90)).is_ok());
}

// rules: D10+
#[test]
fn d10_fragments_without_data_are_taken() {
    let mut state = Reassembly::new(true);
    let nothing = |total| Placement {
        stored: false,
        first: false,
        last: false,
        total,
    };
    assert_eq!(state.accept(&header(0, 300)), Ok(nothing(300)));
    assert_eq!(state.accept(&header(0, 300)), Ok(nothing(300)));
    // The length is announced with the first fragment that is stored.
    assert_eq!(
        state.accept(&header(100, 200)),
        Ok(stored(true, false, 300))
    );
    assert_eq!(state.accept(&header(0, 200)), Ok(nothing(300)));
    assert_eq!(state.accept(&header(200, 0)), Ok(stored(false, true, 300)));
}

// rules: D10-
#[test]
fn d10_without_data_what_is_owed_must_not_change() {
    let mut nothing_yet = Reassembly::new(true);
    nothing_yet.accept(&header(0, 300)).unwrap();
    for state in [nothing_yet, begun(100, 300)] {
        for remaining in [1, 299, 301, 600] {
            refuses(&state, 0, remaining, Rule::D7);
        }
    }
    refuses(&nothing_yet, 0, 0, Rule::D6);
}

// rules: D12+
#[test]
fn d12_an_empty_message_inside_a_train_is_counted() {
    let mut state = begun(100, 100);
    let placement = state.accept(&header(0, 0)).unwrap();
    assert!(!placement.stored && !placement.last);
    assert_eq!((state.owed(), state.stray_empties()), (100, 1));
    assert_eq!(state.accept(&header(100, 0)), Ok(stored(false, true, 200)));
    // Between messages it is nothing special.
    state.accept(&header(0, 0)).unwrap();
    assert_eq!(state.stray_empties(), 1);
}

// rules: D12- D6-
#[test]
fn d12_strict_mode_makes_it_d6() {
    let mut state = Reassembly::new(true);
    state.accept(&header(0, 0)).unwrap();
    state.accept(&header(100, 100)).unwrap();
    refuses(&state, 0, 0, Rule::D6);
}

/// A legal way to cut messages into fragments: lengths, zeros included, that add up to each message.
fn trains() -> impl Strategy<Value = Vec<DataHeader>> {
    let length = prop_oneof![Just(0u32), Just(1), 1u32..2000];
    let train = prop::collection::vec(length, 1..12).prop_map(|mut lengths| {
        // A message of zero bytes does not exist; the last fragment carries something.
        *lengths.last_mut().unwrap() += 1;
        let mut remaining: u32 = lengths.iter().sum();
        let cut = |length: u32| {
            remaining -= length;
            header(length, remaining)
        };
        lengths.into_iter().map(cut).collect::<Vec<_>>()
    });
    prop::collection::vec(train, 1..5).prop_map(|trains| trains.concat())
}

/// Whether a sequence of fragments is legal, told from the whole sequence.
fn legal(sequence: &[DataHeader], strict: bool) -> bool {
    let mut owed: Option<i64> = None;
    for fragment in sequence {
        let (length, remaining) = (i64::from(fragment.length), i64::from(fragment.remaining));
        match owed {
            Some(_) if length == 0 && remaining == 0 => {
                if strict {
                    return false;
                }
                continue;
            }
            Some(owed) if owed - length != remaining => return false,
            _ => {}
        }
        owed = (remaining > 0).then_some(remaining);
    }
    true
}

/// Every way to cut `total` bytes into `count` fragments, the last of which carries something.
fn splits(total: u32, count: u32) -> Vec<Vec<DataHeader>> {
    if count == 1 {
        return vec![vec![header(total, 0)]];
    }
    let mut all = Vec::new();
    for length in 0..total {
        for rest in splits(total - length, count - 1) {
            all.push([vec![header(length, total - length)], rest].concat());
        }
    }
    all
}

fn accepts(sequence: &[DataHeader], strict: bool) -> bool {
    let mut state = Reassembly::new(strict);
    sequence
        .iter()
        .all(|fragment| state.accept(fragment).is_ok())
}

/// Small messages, but all of it: each split, and each with one field changed to each small value.
// rules: D6- D7- D10+ D12+ D12- R26+ R26-
#[test]
fn every_split_and_every_change_of_a_field() {
    for (total, count) in (1..=5).flat_map(|total| (1..=4).map(move |count| (total, count))) {
        for train in splits(total, count) {
            // A message behind it, so that the state after the change matters.
            let whole = [train, vec![header(3, 0)]].concat();
            assert!(accepts(&whole, true) && accepts(&whole, false));
            for (at, value) in (0..whole.len()).flat_map(|at| (0..8).map(move |value| (at, value)))
            {
                let old = whole[at];
                for changed in [header(value, old.remaining), header(old.length, value)] {
                    let mut mutant = whole.clone();
                    mutant[at] = changed;
                    for strict in [true, false] {
                        assert_eq!(
                            accepts(&mutant, strict),
                            legal(&mutant, strict),
                            "{mutant:?}"
                        );
                    }
                }
            }
        }
    }
}

/// The messages of a train as they travel.
fn wire(sequence: &[DataHeader]) -> Vec<Vec<u8>> {
    let message = |header: &DataHeader| {
        let mut bytes = header.encode()[..header.wire_len()].to_vec();
        bytes.resize(header.wire_len() + header.length as usize, 0x77);
        bytes
    };
    sequence.iter().map(message).collect()
}

/// The words a message announces, whether legal or not.
fn words(bytes: &[u8]) -> DataHeader {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    header(word(16), word(8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    // rules: D10+ F7+ R26+
    #[test]
    fn any_legal_split_is_accepted(sequence in trains(), strict: bool) {
        let mut state = Reassembly::new(strict);
        let (mut announced, mut delivered, mut open) = (0u64, 0u64, false);
        for fragment in &sequence {
            let placement = state.accept(fragment).unwrap();
            prop_assert_eq!(placement.stored, fragment.length > 0);
            if placement.stored {
                prop_assert_eq!(placement.first, !open, "the mark is set exactly once");
                open = !placement.last;
                delivered += u64::from(fragment.length);
            }
            if placement.first {
                announced += u64::from(placement.total);
            }
            if placement.last {
                prop_assert_eq!(announced, delivered, "what is announced is delivered");
            }
        }
        prop_assert_eq!((state.owed(), state.stray_empties()), (0, 0));
    }

    // rules: D6- D7- D12- R26-
    #[test]
    fn a_mutation_is_accepted_only_if_still_legal(
        mut sequence in trains(), at: prop::sample::Index, what in 0..4, value in 0u32..4000,
        strict: bool,
    ) {
        let at = at.index(sequence.len());
        match what {
            0 => sequence[at] = header(value, sequence[at].remaining),
            1 => sequence[at] = header(sequence[at].length, value),
            2 => drop(sequence.remove(at)),
            _ => sequence.insert(at, header(0, 0)),
        }
        let mut state = Reassembly::new(strict);
        let accepted = sequence.iter().all(|fragment| state.accept(fragment).is_ok());
        prop_assert_eq!(accepted, legal(&sequence, strict));
    }

    /// Any field of the header, as bytes, through parser and reassembly.
    // rules: D2- D3- D4- D5- D6- D7- D8- R26-
    #[test]
    fn a_changed_wire_field_is_accepted_only_if_still_legal(
        sequence in trains(), at: prop::sample::Index, field in 0usize..7,
        value in prop_oneof![0u32..64, 0u32..4000, 130_000u32..132_000, any::<u32>()],
        // Bytes behind the payload, which an offset or a length may move into.
        more in 0usize..40, strict: bool,
    ) {
        const MAX: u32 = 131_072;
        let mut messages = wire(&sequence);
        let at = at.index(messages.len());
        let longer = messages[at].len() + more;
        messages[at].resize(longer, 0x88);
        let (start, size) = [(0, 2), (2, 2), (4, 2), (6, 2), (8, 4), (12, 4), (16, 4)][field];
        messages[at][start..start + size].copy_from_slice(&value.to_le_bytes()[..size]);
        let mut state = Reassembly::new(strict);
        let accepted = messages.iter().all(|bytes| {
            DataHeader::parse(bytes, MAX).is_ok_and(|header| state.accept(&header).is_ok())
        });
        let sound = messages.iter().all(|bytes| judge(bytes, MAX).is_none());
        let announced: Vec<DataHeader> = messages.iter().map(|bytes| words(bytes)).collect();
        prop_assert_eq!(accepted, sound && legal(&announced, strict));
    }
}
