// SPDX-License-Identifier: GPL-2.0
//! Negotiation in both roles: any bytes and any parameters of our own end in a termination, a refusal, or
//! in the values that the table "becomes" of the rules names and that keep V1 to V4.

use crate::input::Input;
use crate::oracle::{le16, le32};
use smbdirect_host::proto::errno::{ECONNABORTED, ECONNREFUSED};
use smbdirect_host::proto::negotiate::{accept, initiate, request, response, Accept, Negotiated};
use smbdirect_host::proto::params::{Invalid, Parameters};
use smbdirect_host::proto::rule::Rule;

/// Any parameters and any message.
pub fn negotiate(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(own) = validated(&mut input) else {
        return;
    };
    let buffers = input.credits();
    match input.byte() & 3 {
        0 => acceptor(&own, buffers, input.all()),
        1 => acceptor(&own, buffers, &made_request(&mut input)),
        2 => {
            let (depth, page) = (input.size(), input.size());
            let raw = input.byte() & 1 != 0;
            let made = made_response(&mut input);
            let bytes = if raw { input.all() } else { &made };
            initiator(&own, depth, page, buffers, bytes);
        }
        _ => {
            if let Some(other) = validated(&mut input) {
                both_roles(&own, &other, input.size());
            }
        }
    }
}

/// A block of parameters, if it can carry a connection.
fn validated(input: &mut Input<'_>) -> Option<Parameters> {
    let [flags, initiator, responder, extra] = input.array();
    let given = Parameters {
        flags: u64::from(flags & 3) << (flags >> 2 & 32),
        initiator_depth: u16::from(initiator) + u16::from(extra & 2),
        responder_resources: u16::from(responder) + u16::from(extra & 1),
        recv_credit_max: input.credits(),
        send_credit_target: input.credits(),
        max_send_size: input.size(),
        max_recv_size: input.size(),
        max_fragmented_recv_size: input.size(),
        max_read_write_size: input.size(),
        ..Parameters::ZERO
    };
    let params = given.validate();
    let broken = [
        (given.flags > 3, Invalid::UnknownFlags),
        (given.flags == 3, Invalid::BothKinds),
        (
            given.initiator_depth > 255 || given.responder_resources > 255,
            Invalid::Depth,
        ),
        (
            given.recv_credit_max == 0 || given.send_credit_target == 0,
            Invalid::Credits,
        ),
        (given.max_send_size < 25, Invalid::SendSize),
        (given.max_recv_size < 128, Invalid::RecvSize),
    ];
    let expected = broken.iter().find(|(broken, _)| *broken);
    assert_eq!(params.err(), expected.map(|&(_, why)| why));
    let params = params.ok()?;
    let fragmented = given.max_fragmented_recv_size.clamp(131_072, 4 << 20);
    assert_eq!({ params.max_fragmented_recv_size }, fragmented);
    assert_eq!({ params.max_send_size }, given.max_send_size.min(32_768));
    assert_eq!({ params.max_recv_size }, given.max_recv_size.min(32_768));
    assert_eq!(
        { params.recv_credit_max },
        given.recv_credit_max.min(65_534)
    );
    Some(params)
}

fn version(input: &mut Input<'_>) -> u16 {
    // Mostly the only one there is.
    match input.byte() {
        255 => input.u16(),
        odd if odd & 1 != 0 => 0x00f0 + u16::from(odd >> 3),
        _ => 0x0100,
    }
}

fn made_request(input: &mut Input<'_>) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[0..2].copy_from_slice(&version(input).to_le_bytes());
    bytes[2..4].copy_from_slice(&version(input).to_le_bytes());
    bytes[6..8].copy_from_slice(&input.credits().to_le_bytes());
    for at in [8, 12, 16] {
        bytes[at..at + 4].copy_from_slice(&input.size().to_le_bytes());
    }
    bytes
}

fn made_response(input: &mut Input<'_>) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[4..6].copy_from_slice(&version(input).to_le_bytes());
    bytes[8..10].copy_from_slice(&input.credits().to_le_bytes());
    bytes[10..12].copy_from_slice(&input.credits().to_le_bytes());
    bytes[12] = input.byte() & input.byte() & 0x80;
    for at in [16, 20, 24, 28] {
        bytes[at..at + 4].copy_from_slice(&input.size().to_le_bytes());
    }
    bytes
}

/// Q1 to Q6 in their order, then the table.
fn acceptor(own: &Parameters, buffers: u16, bytes: &[u8]) {
    let result = match accept(bytes, own, buffers) {
        Accept::Terminate(rule) => {
            assert_eq!(Some(rule), broken_request(bytes));
            return;
        }
        Accept::Refuse(response) => {
            assert_eq!(Some(Rule::Q2), broken_request(bytes));
            let mut expected = [0; 32];
            (expected[1], expected[3]) = (1, 1);
            expected[12..16].copy_from_slice(&0xc000_00bb_u32.to_le_bytes());
            assert_eq!(response, expected);
            return;
        }
        Accept::Proceed(result) => result,
    };
    assert_eq!(None, broken_request(bytes));
    let peer = Peer {
        credits: le16(bytes, 6),
        preferred: le32(bytes, 8),
        receive: le32(bytes, 12),
        fragmented: le32(bytes, 16),
    };
    becomes(&result, own, &peer, buffers);
    let advertised = u64::from(result.params.max_fragmented_recv_size);
    let window = u64::from(buffers) * u64::from(result.params.max_recv_size) / 2;
    assert_eq!(advertised, window.clamp(131_072, 4 << 20));
    assert_eq!(result.send_credits, 0, "they come with the first data");
    let rw = own.max_read_write_size;
    assert_eq!({ result.params.max_read_write_size }, rw);
    answer(&result);
}

fn broken_request(bytes: &[u8]) -> Option<Rule> {
    if bytes.len() < 20 {
        return Some(Rule::Q1);
    }
    let broken = [
        (le16(bytes, 0) > 0x0100 || le16(bytes, 2) < 0x0100, Rule::Q2),
        (le16(bytes, 6) == 0, Rule::Q3),
        (le32(bytes, 12) < 128, Rule::Q4),
        (le32(bytes, 16) < 131_072, Rule::Q5),
    ];
    broken
        .iter()
        .find(|(broken, _)| *broken)
        .map(|&(_, rule)| rule)
}

/// The response says what the parameters say.
fn answer(result: &Negotiated) {
    let bytes = response(result, 7);
    let params = result.params;
    assert!((0..6).step_by(2).all(|at| le16(&bytes, at) == 0x0100));
    assert_eq!([le16(&bytes, 6), le16(&bytes, 10)], [0, 7]);
    assert_eq!(le16(&bytes, 8), { params.send_credit_target });
    assert_eq!(
        [12, 16, 20, 24, 28].map(|at| le32(&bytes, at)),
        [
            0,
            params.max_read_write_size,
            params.max_send_size,
            params.max_recv_size,
            params.max_fragmented_recv_size
        ]
    );
}

/// A1 to A6 in their order, then the table.
fn initiator(own: &Parameters, depth: u32, page: u32, buffers: u16, bytes: &[u8]) {
    let result = initiate(bytes, own, depth, page, buffers);
    let page = u64::from(page.max(1));
    let bound = match own.max_read_write_size {
        0 => u64::MAX,
        own => own.into(),
    };
    let broken = broken_response(bytes, own);
    let transfer = bytes.get(16..20).map_or(0, |_| le32(bytes, 16));
    let transfer = bound.min(page * u64::from(depth)).min(transfer.into());
    let broken = broken.or((transfer < page).then_some(Rule::A6));
    let result = match result {
        Err(refusal) => {
            assert_eq!(Some(refusal.rule), broken);
            let errno = match refusal.rule {
                Rule::A2 => ECONNREFUSED,
                _ => ECONNABORTED,
            };
            assert_eq!(refusal.errno, errno);
            return;
        }
        Ok(result) => result,
    };
    assert_eq!(None, broken);
    let peer = Peer {
        credits: le16(bytes, 8),
        preferred: le32(bytes, 20),
        receive: le32(bytes, 24),
        fragmented: le32(bytes, 28),
    };
    becomes(&result, own, &peer, buffers);
    assert_eq!(
        { result.params.max_fragmented_recv_size },
        { own.max_fragmented_recv_size },
        "already advertised"
    );
    assert_eq!(result.send_credits, le16(bytes, 10));
    assert_eq!(u64::from(result.params.max_read_write_size), transfer);
    assert_eq!(u64::from(result.params.max_frmr_depth), transfer / page);
}

fn broken_response(bytes: &[u8], own: &Parameters) -> Option<Rule> {
    if bytes.len() < 32 {
        return Some(Rule::A1);
    }
    let broken = [
        (le32(bytes, 12) != 0 || le16(bytes, 4) != 0x0100, Rule::A2),
        (le32(bytes, 24) < 128 || le32(bytes, 28) < 131_072, Rule::A3),
        (le16(bytes, 10) == 0 || le16(bytes, 8) == 0, Rule::A4),
        (le32(bytes, 20) > own.max_recv_size, Rule::A5),
    ];
    broken
        .iter()
        .find(|(broken, _)| *broken)
        .map(|&(_, rule)| rule)
}

/// The values in the peer's message.
struct Peer {
    credits: u16,
    preferred: u32,
    receive: u32,
    fragmented: u32,
}

/// The table that both roles share, and V1 to V3.
fn becomes(result: &Negotiated, own: &Parameters, peer: &Peer, buffers: u16) {
    let params = result.params;
    assert_eq!(
        { params.max_send_size },
        own.max_send_size.min(peer.receive)
    );
    let receive = own.max_recv_size.min(peer.preferred).max(128);
    assert_eq!({ params.max_recv_size }, receive);
    assert_eq!({ params.max_fragmented_send_size }, peer.fragmented);
    let window = own.recv_credit_max;
    let target = peer.credits.min(window).min(buffers).max(1);
    assert_eq!(result.recv_target, target);

    let payload = u64::from(params.max_recv_size) - 24;
    let advertised = u64::from(params.max_fragmented_recv_size);
    let owned = u64::from(result.recv_buffers);
    assert!((owned - 1) * payload >= advertised, "V1 and one to grant");
    assert!(owned > window.into(), "the reserve");
    assert!(advertised >= 131_072, "V3");

    // Everything else stays as it was.
    let untouched = Parameters {
        max_send_size: own.max_send_size,
        max_recv_size: own.max_recv_size,
        max_fragmented_send_size: own.max_fragmented_send_size,
        max_fragmented_recv_size: own.max_fragmented_recv_size,
        max_read_write_size: own.max_read_write_size,
        max_frmr_depth: own.max_frmr_depth,
        ..params
    };
    assert_eq!(untouched, *own);
}

/// Our two roles always come to terms, and neither sends more than the other receives.
fn both_roles(client: &Parameters, server: &Parameters, depth: u32) {
    let message = request(client);
    acceptor(server, server.recv_credit_max, &message);
    let Accept::Proceed(accepted) = accept(&message, server, server.recv_credit_max) else {
        panic!("our own request is refused");
    };
    let message = response(&accepted, accepted.recv_target);
    initiator(client, depth, 4096, client.recv_credit_max, &message);
    let connected = match initiate(&message, client, depth, 4096, client.recv_credit_max) {
        Ok(connected) => connected,
        Err(refusal) => {
            assert_eq!(refusal.rule, Rule::A6);
            return;
        }
    };
    let (client, server) = (connected.params, accepted.params);
    assert!(client.max_send_size <= server.max_recv_size);
    assert!(server.max_send_size <= client.max_recv_size);
    assert_eq!({ client.max_fragmented_send_size }, {
        server.max_fragmented_recv_size
    });
    assert_eq!({ server.max_fragmented_send_size }, {
        client.max_fragmented_recv_size
    });
    assert!(client.max_read_write_size <= server.max_read_write_size);
}
