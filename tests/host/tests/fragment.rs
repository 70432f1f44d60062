// SPDX-License-Identifier: GPL-2.0
//! Fragmentation: F1, F2, F4, F5, P3; and the way through the receiver (testing.md section 2).

use proptest::prelude::*;
use smbdirect_host::proto::fragment::{Message, SendError, Train};
use smbdirect_host::proto::params::MAX_MESSAGE_SIZE;
use smbdirect_host::proto::pdu::{DataHeader, HEADER_LEN};
use smbdirect_host::proto::reassembly::Reassembly;

const MAX: u32 = 131_072;

// rules: F1+ F1-
#[test]
fn f1_payload_starts_at_24_and_fits_the_send_size() {
    let mut message = Message::open(5000, 1364);
    assert_eq!(message.room(), 1340);
    assert_eq!(message.append(5000), 1340);
    assert_eq!((message.length(), message.room()), (1340, 0));
    let header = message.header(255, 3, true);
    assert_eq!(
        (header.offset, header.length, header.remaining),
        (24, 1340, 3660)
    );
    assert_eq!((header.credits_requested, header.credits_granted), (255, 3));
    assert!(header.response_requested);
}

// rules: F1-
#[test]
fn f1_the_message_takes_no_more_than_is_left() {
    let mut message = Message::open(10, 1364);
    assert_eq!(message.append(100), 10);
    assert_eq!((message.length(), message.remaining()), (10, 0));
}

// rules: F2+
#[test]
fn f2_remaining_is_what_comes_after() {
    let mut train = Train::new(124, MAX);
    let mut expected = [(100, 150), (100, 50), (50, 0)].into_iter();
    let mut left = 250;
    while left > 0 {
        let mut message = train.open(left).unwrap();
        left -= message.append(left);
        assert_eq!(
            Some((message.length(), message.remaining())),
            expected.next()
        );
        train.closed(&message);
        assert_eq!(train.owed(), left);
    }
    assert!(!train.is_open() && expected.next().is_none());
}

// rules: F4- F4+
#[test]
fn f4_too_large_is_refused_before_the_first_fragment() {
    let train = Train::new(1364, MAX);
    assert_eq!(train.open(MAX + 1), Err(SendError::TooLarge));
    assert_eq!(train.open(u32::MAX), Err(SendError::TooLarge));
    assert!(!train.is_open(), "the connection is not affected");
    assert!(train.open(MAX).is_ok());
}

// rules: F5- F5+
#[test]
fn f5_a_begun_message_must_be_continued() {
    let mut train = Train::new(124, MAX);
    let mut message = train.open(250).unwrap();
    let _ = message.append(100);
    train.closed(&message);
    assert!(train.is_open());
    for remaining in [149, 151, 250, MAX + 1] {
        assert_eq!(train.open(remaining), Err(SendError::OutOfStep));
    }
    assert!(train.open(150).is_ok());
}

// rules: F3+
#[test]
fn f3_a_credit_only_message_does_not_move_the_train() {
    let mut train = Train::new(124, MAX);
    let mut message = train.open(250).unwrap();
    let _ = message.append(100);
    train.closed(&message);
    train.closed(&Message::empty());
    assert_eq!(train.owed(), 150);
}

// rules: F3-
#[test]
fn f3_nothing_else_opens_between_the_fragments() {
    let mut train = Train::new(124, MAX);
    let mut left = 250;
    while left > 0 {
        let mut message = train.open(left).unwrap();
        left -= message.append(left);
        train.closed(&message);
        for other in [1, 49, 51, 99, 101, 149, 151, 250, MAX] {
            let opened = train.open(other);
            assert_eq!(opened.is_ok(), left == 0, "{other} with {left} to go");
        }
    }
}

#[test]
fn no_data_is_no_message() {
    assert_eq!(Train::new(1364, MAX).open(0), Err(SendError::NoData));
    let header = Message::empty().header(255, 9, false);
    assert!(header.is_empty() && header.offset == 0);
    assert_eq!(header.wire_len(), HEADER_LEN);
}

// rules: P3+ P3-
#[test]
fn p3_the_next_iterator_fills_the_open_message() {
    let mut message = Message::open(300, 224);
    assert_eq!(message.append(50), 50);
    assert!(message.continues(250));
    assert!(!message.continues(249) && !message.continues(300));
    assert_eq!(message.append(250), 150);
    assert!(!message.continues(100), "full");
    assert_eq!((message.length(), message.remaining()), (200, 100));
}

// rules: P3-
#[test]
fn p3_a_finished_upper_layer_message_is_not_continued() {
    let mut message = Message::open(50, 224);
    assert_eq!(message.append(50), 50);
    assert!(!message.continues(0) && !message.continues(50));
}

// rules: F2-
#[test]
fn bytes_that_could_not_be_supplied_are_taken_back() {
    let mut message = Message::open(300, 224);
    assert_eq!(message.append(100), 100);
    message.shorten(40);
    assert_eq!(
        (message.length(), message.remaining(), message.room()),
        (60, 240, 140)
    );
    message.shorten(u32::MAX);
    assert_eq!((message.length(), message.remaining()), (0, 300));
}

/// Every MaxSendSize that a validated parameter block and a peer can agree on, with the lengths where the
/// number of fragments changes.
// rules: F1+ F1- F2+
#[test]
fn f1_f2_every_legal_send_size() {
    for max_send in 25..=MAX_MESSAGE_SIZE {
        let room = max_send - 24;
        for total in [1, room - 1, room, room + 1, 2 * room + 1] {
            let (mut train, mut state) = (Train::new(max_send, MAX), Reassembly::new(true));
            let (mut left, mut fragments) = (total, 0);
            while left > 0 {
                let mut message = train.open(left).unwrap();
                assert_eq!(
                    message.append(u32::MAX),
                    left.min(room),
                    "{max_send} {left}"
                );
                let header = message.header(1, 0, false);
                assert_eq!(header.remaining, left - header.length);
                state.accept(&header).unwrap();
                train.closed(&message);
                (left, fragments) = (train.owed(), fragments + 1);
            }
            assert_eq!((fragments, state.owed()), (total.div_ceil(room), 0));
        }
    }
}

/// Sends one message given as iterators of these lengths, coalescing as the engine does; returns the
/// bytes of each data transfer.
fn send(payload: &[u8], iterators: &[usize], max_send: u32) -> Vec<Vec<u8>> {
    let mut train = Train::new(max_send, 1 << 20);
    let mut wire = Vec::new();
    let mut open: Option<(Message, usize)> = None;
    let mut at = 0;
    let mut close = |train: &mut Train, (message, start): (Message, usize)| {
        let header = message.header(1, 0, false);
        let mut bytes = header.encode()[..header.wire_len()].to_vec();
        bytes.extend(&payload[start..start + message.length() as usize]);
        train.closed(&message);
        wire.push(bytes);
    };
    for &length in iterators {
        let end = at + length;
        while at < end {
            let remaining = (payload.len() - at) as u32;
            match open {
                Some((message, _)) if message.continues(remaining) => {}
                _ => {
                    if let Some(full) = open.take() {
                        close(&mut train, full);
                    }
                    open = Some((train.open(remaining).unwrap(), at));
                }
            }
            at += open.as_mut().unwrap().0.append((end - at) as u32) as usize;
        }
    }
    if let Some(last) = open {
        close(&mut train, last);
    }
    assert!(!train.is_open());
    wire
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // rules: F1+ F2+ P3+
    #[test]
    fn f1_f2_the_peer_reassembles_the_same_bytes(
        payload in prop::collection::vec(any::<u8>(), 1..20_000),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        max_send in prop_oneof![25u32..200, 128u32..9000, 25..=MAX_MESSAGE_SIZE],
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(payload.len())).collect();
        ends.extend([0, payload.len()]);
        ends.sort_unstable();
        let iterators: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let wire = send(&payload, &iterators, max_send);

        let mut state = Reassembly::new(true);
        let mut received: Vec<u8> = Vec::new();
        let mut owed = payload.len() as u32;
        for (number, bytes) in wire.iter().enumerate() {
            prop_assert!(bytes.len() <= max_send as usize);
            let header = DataHeader::parse(bytes, payload.len() as u32).unwrap();
            prop_assert_eq!(header.remaining, owed - header.length, "falls by exactly the length");
            owed = header.remaining;
            let placement = state.accept(&header).unwrap();
            prop_assert_eq!(placement.first, number == 0);
            prop_assert_eq!(placement.last, number + 1 == wire.len());
            prop_assert_eq!(placement.total as usize, payload.len());
            received.extend(&bytes[header.offset as usize..]);
        }
        prop_assert!(received == payload);
        // P3: as few messages as possible.
        prop_assert_eq!(wire.len(), payload.len().div_ceil(max_send as usize - 24));
    }
}
