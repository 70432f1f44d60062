// SPDX-License-Identifier: GPL-2.0
//! Descriptor walk: B1-B5, R39-R41.

use proptest::prelude::*;
use smbdirect_host::proto::descriptor::{Segment, Walk, WalkError};
use smbdirect_host::proto::pdu::BufferDescriptor;
use smbdirect_host::proto::rule::Rule;

fn array(lengths: &[u32]) -> Vec<u8> {
    let element = |(number, &length): (u32, &u32)| {
        let offset = 0x1000 * u64::from(number);
        BufferDescriptor {
            offset,
            token: number + 100,
            length,
        }
        .encode()
    };
    (0..).zip(lengths).flat_map(element).collect()
}

fn segments(lengths: &[u32], size: u32) -> Result<Vec<Segment>, WalkError> {
    Ok(Walk::new(&array(lengths), size)?.collect())
}

fn segment(local_offset: u32, number: u32, length: u32) -> Segment {
    Segment {
        local_offset,
        remote_addr: 0x1000 * u64::from(number),
        rkey: number + 100,
        length,
    }
}

// rules: B1+ R39+
#[test]
fn b1_elements_are_used_in_order_and_the_last_is_clipped() {
    let expected = vec![segment(0, 0, 10), segment(10, 1, 20), segment(30, 2, 5)];
    assert_eq!(segments(&[10, 20, 30, 40], 35), Ok(expected));
    assert_eq!(
        segments(&[10, 20], 30),
        Ok(vec![segment(0, 0, 10), segment(10, 1, 20)])
    );
    assert_eq!(segments(&[100], 1), Ok(vec![segment(0, 0, 1)]));
}

// rules: B1-
#[test]
fn b1_the_array_size_is_a_multiple_of_16() {
    let bytes = array(&[10, 20]);
    for length in (0..32).filter(|length| length % 16 != 0) {
        assert_eq!(
            Walk::new(&bytes[..length], 5).unwrap_err(),
            WalkError::Misaligned
        );
    }
    assert_eq!(WalkError::Misaligned.rule(), Rule::B1);
}

// rules: B2- B2+ R41-
#[test]
fn b2_too_short_is_an_error_before_anything() {
    assert_eq!(segments(&[10, 20], 31), Err(WalkError::Short));
    assert_eq!(segments(&[], 1), Err(WalkError::Short));
    assert_eq!(
        segments(&[u32::MAX; 2], u32::MAX),
        Ok(vec![segment(0, 0, u32::MAX)])
    );
}

// rules: B2- B2+
#[test]
fn b2_a_zero_length_counts_only_in_the_used_part() {
    assert_eq!(segments(&[10, 0, 20], 11), Err(WalkError::ZeroLength));
    assert_eq!(segments(&[0], 1), Err(WalkError::ZeroLength));
    assert!(segments(&[10, 0, 20], 10).is_ok());
    assert_eq!(WalkError::ZeroLength.rule(), Rule::B2);
    assert_eq!(WalkError::Short.rule(), Rule::B2);
}

#[test]
fn the_log_says_what_was_wrong() {
    let said = [
        WalkError::Misaligned,
        WalkError::ZeroLength,
        WalkError::Short,
    ]
    .map(WalkError::text);
    for (text, word) in said.into_iter().zip(["16", "zero", "cover less"]) {
        assert!(text.contains(word), "{text}");
    }
}

// rules: B3+ R40+
#[test]
fn b3_zero_bytes_need_nothing() {
    for bytes in [&[][..], &[1, 2, 3], &array(&[0])] {
        assert_eq!(Walk::new(bytes, 0).unwrap().next(), None);
    }
}

// rules: B3- R40-
#[test]
fn b3_one_byte_is_not_nothing() {
    assert_eq!(Walk::new(&[], 1).unwrap_err(), WalkError::Short);
    assert_eq!(Walk::new(&[1, 2, 3], 1).unwrap_err(), WalkError::Misaligned);
    assert_eq!(segments(&[0], 1), Err(WalkError::ZeroLength));
    assert_eq!(segments(&[5], 1), Ok(vec![segment(0, 0, 1)]));
}

// rules: B4-
#[test]
fn b4_addresses_at_the_end_do_not_overflow() {
    let bytes = BufferDescriptor {
        offset: u64::MAX,
        token: 1,
        length: 100,
    }
    .encode();
    let mut walk = Walk::new(&bytes, 100).unwrap();
    assert_eq!(walk.next_up_to(60).unwrap().remote_addr, u64::MAX);
    assert_eq!(walk.next_up_to(60).unwrap().remote_addr, 59);
}

// rules: B5+ B5-
#[test]
fn b5_a_transfer_can_be_cut_into_batches() {
    let bytes = array(&[10, 20]);
    let mut walk = Walk::new(&bytes, 25).unwrap();
    assert_eq!(walk.left(), 25);
    let mut pieces = Vec::new();
    while let Some(piece) = walk.next_up_to(8) {
        pieces.push((
            piece.local_offset,
            piece.remote_addr,
            piece.rkey,
            piece.length,
        ));
    }
    let expected = [
        (0, 0, 100, 8),
        (8, 8, 100, 2),
        (10, 0x1000, 101, 8),
        (18, 0x1008, 101, 7),
    ];
    assert_eq!(pieces, expected);
    assert_eq!((walk.left(), walk.next_up_to(8)), (0, None));
    // A limit of zero makes progress, too.
    assert_eq!(
        Walk::new(&bytes, 25).unwrap().next_up_to(0).unwrap().length,
        1
    );
}

// rules: B5+
#[test]
fn b5_thousands_of_elements() {
    let lengths = vec![1; 10_000];
    assert_eq!(segments(&lengths, 10_000).unwrap().len(), 10_000);
    assert_eq!(segments(&lengths, 10_001), Err(WalkError::Short));
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0u32), 8 => 1u32..5000, 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    // rules: B1+ B2- B4+ R39+ R39- R41+ R41-
    #[test]
    fn b1_b2_r39_r41_covers_the_request_exactly_or_not_at_all(
        lengths in prop::collection::vec(length(), 0..20),
        size in prop_oneof![0u32..20_000, any::<u32>()],
        limit in prop_oneof![Just(u32::MAX), 100u32..5000],
    ) {
        let bytes = array(&lengths);
        let mut used = lengths.iter().scan(0u64, |sum, &length| {
            let before = *sum;
            *sum += u64::from(length);
            (before < u64::from(size)).then_some(length)
        });
        let covered = lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        let good = size == 0 || (used.all(|length| length > 0) && covered >= u64::from(size));
        let Ok(mut walk) = Walk::new(&bytes, size) else {
            prop_assert!(!good);
            return Ok(());
        };
        prop_assert!(good);
        if size > 200_000 && limit < u32::MAX {
            return Ok(());
        }
        let (mut local, mut number, mut inside) = (0u64, 0usize, 0u64);
        while let Some(piece) = walk.next_up_to(limit) {
            prop_assert_eq!(u64::from(piece.local_offset), local, "in order, without a gap");
            prop_assert!(piece.length >= 1 && piece.length <= limit);
            prop_assert_eq!(piece.rkey as usize, number + 100);
            prop_assert_eq!(piece.remote_addr, 0x1000 * number as u64 + inside);
            local += u64::from(piece.length);
            inside += u64::from(piece.length);
            prop_assert!(inside <= u64::from(lengths[number]), "inside the remote element");
            if inside == u64::from(lengths[number]) {
                (number, inside) = (number + 1, 0);
            }
            prop_assert!(local <= u64::from(size), "inside the local buffer");
        }
        prop_assert_eq!(local, u64::from(size));
        prop_assert_eq!(walk.left(), 0);
    }

    // rules: B1- B4- R48-
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100), size: u32) {
        if let Ok(walk) = Walk::new(&bytes, size) {
            prop_assert_eq!(walk.map(|piece| u64::from(piece.length)).sum::<u64>(), size.into());
        }
    }
}
