// SPDX-License-Identifier: GPL-2.0
//! The parameter block: layout (ABI page 2.1) and validation (R8, R7).

mod common;

use common::{cifs, ksmbd};
use proptest::prelude::*;
use smbdirect_host::proto::params::{
    Flags, Invalid, Parameters, MAX_FRAGMENTED_RECV, MAX_MESSAGE_SIZE, MESSAGE_SIZES,
};
use std::mem::{offset_of, size_of};

#[test]
fn the_layout_is_the_published_one() {
    let offsets = [
        offset_of!(Parameters, flags),
        offset_of!(Parameters, resolve_addr_timeout_msec),
        offset_of!(Parameters, resolve_route_timeout_msec),
        offset_of!(Parameters, rdma_connect_timeout_msec),
        offset_of!(Parameters, negotiate_timeout_msec),
        offset_of!(Parameters, initiator_depth),
        offset_of!(Parameters, responder_resources),
        offset_of!(Parameters, recv_credit_max),
        offset_of!(Parameters, send_credit_target),
        offset_of!(Parameters, max_send_size),
        offset_of!(Parameters, max_fragmented_send_size),
        offset_of!(Parameters, max_recv_size),
        offset_of!(Parameters, max_fragmented_recv_size),
        offset_of!(Parameters, max_read_write_size),
        offset_of!(Parameters, max_frmr_depth),
        offset_of!(Parameters, keepalive_interval_msec),
        offset_of!(Parameters, keepalive_timeout_msec),
    ];
    assert_eq!(
        offsets,
        [0, 8, 12, 16, 20, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60]
    );
    assert_eq!(size_of::<Parameters>(), 64);
}

// rules: R8+ U3+
#[test]
fn r8_what_the_callers_pass_is_taken_as_it_is() {
    for params in [cifs(), ksmbd()] {
        assert_eq!(params.validate(), Ok(params));
    }
}

// rules: R8- U3-
#[test]
fn r8_bad_values_are_refused() {
    let bad = |change: fn(&mut Parameters)| {
        let mut params = cifs();
        change(&mut params);
        params.validate().unwrap_err()
    };
    assert_eq!(bad(|p| p.flags = 1 << 2), Invalid::UnknownFlags);
    assert_eq!(bad(|p| p.flags = 1 << 63), Invalid::UnknownFlags);
    assert_eq!(bad(|p| p.flags = Flags::ALL), Invalid::BothKinds);
    assert_eq!(bad(|p| p.initiator_depth = 256), Invalid::Depth);
    assert_eq!(bad(|p| p.responder_resources = 65535), Invalid::Depth);
    assert_eq!(bad(|p| p.recv_credit_max = 0), Invalid::Credits);
    assert_eq!(bad(|p| p.send_credit_target = 0), Invalid::Credits);
    assert_eq!(bad(|p| p.max_send_size = 0), Invalid::SendSize);
    assert_eq!(bad(|p| p.max_send_size = 24), Invalid::SendSize);
    assert_eq!(bad(|p| p.max_recv_size = 127), Invalid::RecvSize);
    assert_eq!(Parameters::ZERO.validate(), Err(Invalid::Credits));
}

#[test]
fn the_log_says_what_was_wrong() {
    for (why, word) in [
        (Invalid::UnknownFlags, "flags"),
        (Invalid::BothKinds, "iWARP"),
        (Invalid::Depth, "255"),
        (Invalid::Credits, "credit"),
        (Invalid::SendSize, "send size"),
        (Invalid::RecvSize, "128"),
    ] {
        assert!(why.text().contains(word), "{why:?}: {}", why.text());
    }
}

// rules: R8+
#[test]
fn r8_the_smallest_legal_values_are_taken() {
    let params = Parameters {
        flags: 0,
        initiator_depth: 255,
        responder_resources: 0,
        recv_credit_max: 1,
        send_credit_target: 1,
        max_send_size: 25,
        max_recv_size: 128,
        ..cifs()
    };
    assert_eq!(params.validate(), Ok(params));
}

// rules: R7-
#[test]
fn r7_the_fragmented_size_is_raised_to_the_floor_and_bounded() {
    let fragmented = |size| {
        let params = Parameters {
            max_fragmented_recv_size: size,
            ..cifs()
        };
        params.validate().unwrap().max_fragmented_recv_size
    };
    assert_eq!(fragmented(0), 131_072);
    assert_eq!(fragmented(131_071), 131_072);
    assert_eq!(fragmented(131_073), 131_073);
    assert_eq!(fragmented(u32::MAX), MAX_FRAGMENTED_RECV);
}

#[test]
fn message_sizes_are_cut_to_what_a_buffer_holds() {
    let sizes = |size| {
        let params = Parameters {
            max_send_size: size,
            max_recv_size: size,
            ..cifs()
        };
        let valid = params.validate().unwrap();
        (valid.max_send_size, valid.max_recv_size)
    };
    assert_eq!(
        sizes(MAX_MESSAGE_SIZE),
        (MAX_MESSAGE_SIZE, MAX_MESSAGE_SIZE)
    );
    assert_eq!(
        sizes(MAX_MESSAGE_SIZE + 1),
        (MAX_MESSAGE_SIZE, MAX_MESSAGE_SIZE)
    );
    assert_eq!(sizes(u32::MAX), (MAX_MESSAGE_SIZE, MAX_MESSAGE_SIZE));
}

// rules: P16+
#[test]
fn p16_an_administrator_may_ask_for_larger_messages() {
    let params = cifs().with_message_size(8136);
    let (send, recv, fragmented) = (
        params.max_send_size,
        params.max_recv_size,
        params.max_fragmented_recv_size,
    );
    // Half a window of 255 messages, as the callers' own 173910 is half a window of 1364 bytes.
    assert_eq!((send, recv, fragmented), (8136, 8136, 255 * 8136 / 2));
    assert_eq!(cifs().with_message_size(1364), cifs());
    let larger = Parameters {
        max_send_size: 16384,
        max_recv_size: 16384,
        max_fragmented_recv_size: 4 << 20,
        ..cifs()
    };
    assert_eq!(larger.with_message_size(8136), larger);
}

proptest! {
    // rules: P16+ R7+
    #[test]
    fn p16_larger_messages_are_valid_for_any_window(
        size in MESSAGE_SIZES,
        recv_credit_max in 1u16..,
        recv in 128u32..40_000,
    ) {
        let wanted = Parameters { recv_credit_max, max_recv_size: recv, ..cifs() };
        let params = wanted.validate().unwrap().with_message_size(size);
        prop_assert_eq!(params.validate(), Ok(params));
        prop_assert!(params.max_recv_size >= size);
    }
}

#[test]
fn the_window_leaves_room_to_count_its_reserve() {
    let window = |recv_credit_max| {
        let params = Parameters {
            recv_credit_max,
            ..cifs()
        };
        params.validate().unwrap().recv_credit_max
    };
    assert_eq!(window(65_534), 65_534);
    assert_eq!(window(65_535), 65_534);
}

proptest! {
    // rules: R8+
    #[test]
    fn r8_validation_changes_nothing_else_and_is_final(params in common::any_params()) {
        if let Ok(valid) = params.validate() {
            prop_assert_eq!(valid.validate(), Ok(valid));
            let undone = Parameters {
                max_fragmented_recv_size: params.max_fragmented_recv_size,
                max_send_size: params.max_send_size,
                max_recv_size: params.max_recv_size,
                recv_credit_max: params.recv_credit_max,
                ..valid
            };
            prop_assert_eq!(undone, params);
        }
    }
}
