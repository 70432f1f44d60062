// SPDX-License-Identifier: GPL-2.0
//! Values and strategies that several tests use.

#![allow(dead_code)]

use proptest::prelude::*;
use smbdirect_host::proto::params::{Flags, Parameters};
use smbdirect_host::proto::pdu::DataHeader;
use smbdirect_host::proto::rule::Rule;
use smbdirect_host::proto::state::Status;

/// The statuses of an initiator on its way to the first data, as the ABI page lists them.
pub const CONNECT: [Status; 9] = [
    Status::ResolveAddrNeeded,
    Status::ResolveAddrRunning,
    Status::ResolveRouteNeeded,
    Status::ResolveRouteRunning,
    Status::RdmaConnectNeeded,
    Status::RdmaConnectRunning,
    Status::NegotiateNeeded,
    Status::NegotiateRunning,
    Status::Connected,
];

/// The same of an acceptor, which enters with the request to connect.
pub fn accept() -> &'static [Status] {
    &CONNECT[4..]
}

/// What cifs passes.
pub fn cifs() -> Parameters {
    Parameters {
        flags: Flags::IB_ONLY,
        resolve_addr_timeout_msec: 5000,
        resolve_route_timeout_msec: 5000,
        rdma_connect_timeout_msec: 5000,
        negotiate_timeout_msec: 120_000,
        initiator_depth: 1,
        responder_resources: 32,
        recv_credit_max: 255,
        send_credit_target: 255,
        max_send_size: 1364,
        max_fragmented_send_size: 0,
        max_recv_size: 1364,
        max_fragmented_recv_size: 173_910,
        max_read_write_size: 0,
        max_frmr_depth: 2048,
        keepalive_interval_msec: 120_000,
        keepalive_timeout_msec: 5000,
    }
}

/// What ksmbd passes.
pub fn ksmbd() -> Parameters {
    Parameters {
        flags: Flags::IWARP_ONLY,
        resolve_addr_timeout_msec: 0,
        resolve_route_timeout_msec: 0,
        rdma_connect_timeout_msec: 0,
        negotiate_timeout_msec: 5000,
        initiator_depth: 8,
        responder_resources: 1,
        max_read_write_size: 8 << 20,
        max_frmr_depth: 0,
        ..cifs()
    }
}

/// Sizes around the limits of the protocol and of the integer types.
pub fn size() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(u32::MAX),
        Just(1 << 31),
        0u32..300,
        1000u32..10_000,
        131_000u32..131_200,
        170_000u32..9_000_000,
        any::<u32>(),
    ]
}

/// Credit counts, small ones more often.
pub fn credits() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..4, Just(255), Just(u16::MAX), any::<u16>()]
}

/// Any parameter block, many of them valid.
pub fn any_params() -> impl Strategy<Value = Parameters> {
    let small = (0u64..4, 0u16..300, 0u16..300, credits(), credits());
    let sizes = (size(), size(), size(), size(), 0u32..5000);
    (small, sizes).prop_map(
        |((flags, initiator, responder, recv, send), sizes)| Parameters {
            flags,
            initiator_depth: initiator,
            responder_resources: responder,
            recv_credit_max: recv,
            send_credit_target: send,
            max_send_size: sizes.0,
            max_recv_size: sizes.1,
            max_fragmented_recv_size: sizes.2,
            max_read_write_size: sizes.3,
            max_frmr_depth: sizes.4,
            ..cifs()
        },
    )
}

/// A header as a parser would return it.
pub fn header(length: u32, remaining: u32) -> DataHeader {
    DataHeader {
        credits_requested: 255,
        credits_granted: 0,
        response_requested: false,
        remaining,
        offset: if length > 0 { 24 } else { 0 },
        length,
    }
}

/// The rule a data transfer breaks first, computed in another way than the parser does.
pub fn judge(bytes: &[u8], max: u32) -> Option<Rule> {
    if bytes.len() < 20 {
        return Some(Rule::D1);
    }
    let word = |at: usize| {
        i128::from(bytes[at])
            + i128::from(bytes[at + 1]) * 0x100
            + i128::from(bytes[at + 2]) * 0x1_0000
            + i128::from(bytes[at + 3]) * 0x100_0000
    };
    let (requested, remaining, offset, length) = (word(0) & 0xffff, word(8), word(12), word(16));
    let checks = [
        (requested == 0, Rule::D2),
        (offset & 7 != 0, Rule::D3),
        (offset + length > bytes.len() as i128, Rule::D4),
        (length + remaining > i128::from(max), Rule::D5),
        (length > 0 && offset < 24, Rule::D8),
    ];
    checks
        .into_iter()
        .find(|(broken, _)| *broken)
        .map(|(_, rule)| rule)
}
