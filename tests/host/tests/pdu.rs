// SPDX-License-Identifier: GPL-2.0
//! Message layouts, Q1, A1, D1-D5, D8, D11.

mod common;

use common::judge;
use proptest::prelude::*;
use smbdirect_host::proto::pdu::*;
use smbdirect_host::proto::rule::Rule;

const MAX: u32 = 131_072;

/// A legal message with `length` payload bytes at offset 24.
fn message(length: u32, remaining: u32) -> Vec<u8> {
    let header = DataHeader {
        credits_requested: 255,
        credits_granted: 3,
        response_requested: false,
        remaining,
        offset: if length > 0 { 24 } else { 0 },
        length,
    };
    let mut bytes = header.encode()[..header.wire_len()].to_vec();
    bytes.resize(header.wire_len() + length as usize, 0xaa);
    bytes
}

fn with(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
    bytes[offset..offset + field.len()].copy_from_slice(field);
    bytes
}

fn parse(bytes: &[u8]) -> Result<DataHeader, Rule> {
    DataHeader::parse(bytes, MAX)
}

#[test]
fn negotiate_request_has_the_published_layout() {
    let request = NegotiateRequest {
        min_version: 0x0102,
        max_version: 0x0304,
        credits_requested: 0x0506,
        preferred_send_size: 0x0708_090a,
        max_receive_size: 0x0b0c_0d0e,
        max_fragmented_size: 0x0f10_1112,
    };
    let bytes = request.encode();
    let expected = [
        2, 1, 4, 3, 0, 0, 6, 5, 0xa, 9, 8, 7, 0xe, 0xd, 0xc, 0xb, 0x12, 0x11, 0x10, 0xf,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(NegotiateRequest::parse(&bytes), Ok(request));
}

#[test]
fn negotiate_response_has_the_published_layout() {
    let response = NegotiateResponse {
        min_version: 0x0102,
        max_version: 0x0304,
        negotiated_version: 0x0506,
        credits_requested: 0x0708,
        credits_granted: 0x090a,
        status: 0x0b0c_0d0e,
        max_read_write_size: 0x0f10_1112,
        preferred_send_size: 0x1314_1516,
        max_receive_size: 0x1718_191a,
        max_fragmented_size: 0x1b1c_1d1e,
    };
    let bytes = response.encode();
    let expected = [
        2, 1, 4, 3, 6, 5, 0, 0, 8, 7, 0xa, 9, 0xe, 0xd, 0xc, 0xb, 0x12, 0x11, 0x10, 0xf, 0x16,
        0x15, 0x14, 0x13, 0x1a, 0x19, 0x18, 0x17, 0x1e, 0x1d, 0x1c, 0x1b,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(NegotiateResponse::parse(&bytes), Ok(response));
}

#[test]
fn failure_response_is_zero_but_for_versions_and_status() {
    let bytes = NegotiateResponse::failure(STATUS_NOT_SUPPORTED).encode();
    let mut expected = [0; 32];
    expected[..4].copy_from_slice(&[0, 1, 0, 1]);
    expected[12..16].copy_from_slice(&[0xbb, 0, 0, 0xc0]);
    assert_eq!(bytes, expected);
}

#[test]
fn data_header_has_the_published_layout() {
    let header = DataHeader {
        credits_requested: 0x0102,
        credits_granted: 0x0304,
        response_requested: true,
        remaining: 0x0506_0708,
        offset: 24,
        length: 0x090a_0b0c,
    };
    let expected = [
        2, 1, 4, 3, 1, 0, 0, 0, 8, 7, 6, 5, 24, 0, 0, 0, 0xc, 0xb, 0xa, 9, 0, 0, 0, 0,
    ];
    assert_eq!(header.encode(), expected);
    assert_eq!(header.wire_len(), 24);
}

#[test]
fn an_empty_message_is_exactly_20_bytes() {
    let bytes = message(0, 0);
    assert_eq!(bytes.len(), HEADER_LEN);
    assert!(parse(&bytes).unwrap().is_empty());
}

#[test]
fn buffer_descriptor_has_the_published_layout() {
    let descriptor = BufferDescriptor {
        offset: 0x0102_0304_0506_0708,
        token: 9,
        length: 0xa,
    };
    let bytes = descriptor.encode();
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0xa, 0, 0, 0]);
    assert_eq!(BufferDescriptor::parse(&bytes), Some(descriptor));
    assert_eq!(BufferDescriptor::parse(&bytes[..15]), None);
    assert_eq!(BufferDescriptor::GONE.encode(), [0xff; 16]);
}

// rules: Q1- Q1+
#[test]
fn q1_19_bytes_are_too_few_and_more_than_20_are_fine() {
    let bytes = [0x11; 512];
    for length in 0..20 {
        assert_eq!(NegotiateRequest::parse(&bytes[..length]), Err(Rule::Q1));
    }
    for length in [20, 21, 32, 512] {
        assert!(NegotiateRequest::parse(&bytes[..length]).is_ok());
    }
}

// rules: A1- A1+
#[test]
fn a1_31_bytes_are_too_few_and_more_than_32_are_fine() {
    let bytes = [0x11; 512];
    for length in 0..32 {
        assert_eq!(NegotiateResponse::parse(&bytes[..length]), Err(Rule::A1));
    }
    for length in [32, 33, 512] {
        assert!(NegotiateResponse::parse(&bytes[..length]).is_ok());
    }
}

// rules: D1- D1+
#[test]
fn d1_runt() {
    for length in 0..20 {
        assert_eq!(parse(&message(0, 0)[..length]), Err(Rule::D1));
    }
    assert!(parse(&message(0, 0)).is_ok());
}

// rules: D2- D2+
#[test]
fn d2_no_credits_requested() {
    assert_eq!(parse(&with(message(8, 0), 0, &[0, 0])), Err(Rule::D2));
    assert!(parse(&with(message(8, 0), 0, &[1, 0])).is_ok());
}

// rules: D3- D3+
#[test]
fn d3_offset_alignment() {
    for offset in [25u32, 28, 31, u32::MAX] {
        assert_eq!(
            parse(&with(message(32, 0), 12, &offset.to_le_bytes())),
            Err(Rule::D3)
        );
    }
    // Further padding is legal, and so is an aligned offset without payload.
    let moved = with(with(message(32, 0), 12, &[32]), 16, &[24]);
    assert_eq!(parse(&moved).unwrap().offset, 32);
    assert!(parse(&with(message(0, 0), 12, &[16])).is_ok());
}

// rules: D4- D4+
#[test]
fn d4_payload_outside_the_received_bytes() {
    for length in [33u32, u32::MAX, 1 << 31, u32::MAX - 23] {
        assert_eq!(
            parse(&with(message(32, 0), 16, &length.to_le_bytes())),
            Err(Rule::D4)
        );
    }
    for offset in [32u32, 0xffff_fff8, 1 << 31] {
        assert_eq!(
            parse(&with(message(32, 0), 12, &offset.to_le_bytes())),
            Err(Rule::D4)
        );
    }
    // The offset counts without payload, too.
    assert_eq!(parse(&with(message(0, 0), 12, &[24])), Err(Rule::D4));
    // Fewer bytes of payload than received are fine.
    assert!(parse(&with(message(32, 0), 16, &[31])).is_ok());
}

// rules: D5- D5+
#[test]
fn d5_announced_total_above_the_fragmented_size() {
    assert!(parse(&message(32, MAX - 32)).is_ok());
    assert_eq!(parse(&message(32, MAX - 31)), Err(Rule::D5));
    assert_eq!(
        parse(&message(32, u32::MAX)),
        Err(Rule::D5),
        "the sum must not wrap"
    );
    assert_eq!(parse(&message(0, MAX + 1)), Err(Rule::D5));
    assert!(parse(&message(0, MAX)).is_ok());
}

// rules: D8- D8+
#[test]
fn d8_payload_over_the_header() {
    for offset in [0, 8, 16] {
        assert_eq!(parse(&with(message(4, 0), 12, &[offset])), Err(Rule::D8));
    }
    assert!(parse(&message(4, 0)).is_ok());
}

// rules: D12+
#[test]
fn d12_empty_is_without_payload_and_without_announcement() {
    assert!(parse(&message(0, 0)).unwrap().is_empty());
    for (length, remaining) in [(1, 0), (0, 1), (1, 1)] {
        assert!(!parse(&message(length, remaining)).unwrap().is_empty());
    }
}

// rules: D11+ D11-
#[test]
fn d11_unknown_flags_and_reserved_are_ignored() {
    let plain = parse(&message(8, 0)).unwrap();
    let noisy = with(message(8, 0), 4, &[0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(parse(&noisy), Ok(plain));
    let flagged = parse(&with(noisy, 4, &[0xff])).unwrap();
    assert!(flagged.response_requested && !plain.response_requested);
}

/// Messages that are often legal or nearly so.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        0u32..64,
        0u32..200_000,
        Just(1 << 31),
        Just(u32::MAX),
        any::<u32>()
    ];
    let aligned = (0u32..8).prop_map(|eighths| eighths * 8);
    let offset = prop_oneof![4 => Just(24u32), 4 => aligned, 1 => 0u32..64, 1 => any::<u32>()];
    let fixed = (0u16..3, any::<u16>(), any::<u32>());
    (fixed, field.clone(), offset, field, 0usize..100).prop_map(
        |((requested, granted, flags), remaining, offset, length, extra)| {
            let mut bytes = Vec::new();
            bytes.extend(requested.to_le_bytes());
            bytes.extend(granted.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend(remaining.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.resize(bytes.len() + extra, 0x55);
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    // rules: D1- D2- D3- D4- D5- D8- R26+ R26- R48+
    #[test]
    fn any_bytes_yield_a_message_or_one_rule(
        bytes in prop_oneof![nearly(), prop::collection::vec(any::<u8>(), 0..64)],
        max in prop_oneof![Just(MAX), any::<u32>()],
    ) {
        match DataHeader::parse(&bytes, max) {
            Err(rule) => prop_assert_eq!(Some(rule), judge(&bytes, max)),
            Ok(header) => {
                prop_assert_eq!(None, judge(&bytes, max));
                // Encoding it again keeps the meaning.
                let mut again = header.encode().to_vec();
                again.resize(bytes.len().max(24), 0);
                prop_assert_eq!(DataHeader::parse(&again[..bytes.len()], max), Ok(header));
            }
        }
    }

    // rules: Q1- A1- R48-
    #[test]
    fn negotiate_messages_survive_encoding(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        match NegotiateRequest::parse(&bytes) {
            Ok(request) => prop_assert_eq!(NegotiateRequest::parse(&request.encode()), Ok(request)),
            Err(rule) => prop_assert!(rule == Rule::Q1 && bytes.len() < 20),
        }
        match NegotiateResponse::parse(&bytes) {
            Ok(response) => prop_assert_eq!(NegotiateResponse::parse(&response.encode()), Ok(response)),
            Err(rule) => prop_assert!(rule == Rule::A1 && bytes.len() < 32),
        }
    }

    // rules: R48-
    #[test]
    fn descriptors_survive_encoding(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        match BufferDescriptor::parse(&bytes) {
            Some(descriptor) => prop_assert_eq!(&descriptor.encode()[..], &bytes[..16]),
            None => prop_assert!(bytes.len() < 16),
        }
    }
}
