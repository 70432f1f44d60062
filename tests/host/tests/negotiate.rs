// SPDX-License-Identifier: GPL-2.0
//! Negotiation: Q1-Q7, A1-A6, V1-V4, R7.

mod common;

use common::{cifs, credits, ksmbd, size};
use proptest::prelude::*;
use smbdirect_host::proto::errno::{ECONNABORTED, ECONNREFUSED};
use smbdirect_host::proto::negotiate::{self, Accept, Negotiated, Refusal};
use smbdirect_host::proto::params::Parameters;
use smbdirect_host::proto::pdu::*;
use smbdirect_host::proto::rule::Rule;

const PAGE: u32 = 4096;

fn good_request() -> NegotiateRequest {
    NegotiateRequest {
        min_version: VERSION,
        max_version: VERSION,
        credits_requested: 255,
        preferred_send_size: 1364,
        max_receive_size: 8192,
        max_fragmented_size: 1 << 20,
    }
}

fn good_response() -> NegotiateResponse {
    NegotiateResponse {
        min_version: VERSION,
        max_version: VERSION,
        negotiated_version: VERSION,
        credits_requested: 255,
        credits_granted: 191,
        status: 0,
        max_read_write_size: 8 << 20,
        preferred_send_size: 1364,
        max_receive_size: 8192,
        max_fragmented_size: 1 << 20,
    }
}

fn accept(change: impl FnOnce(&mut NegotiateRequest)) -> Accept {
    let mut request = good_request();
    change(&mut request);
    negotiate::accept(&request.encode(), &ksmbd(), 255)
}

fn accepted(change: impl FnOnce(&mut NegotiateRequest)) -> Negotiated {
    match accept(change) {
        Accept::Proceed(result) => result,
        other => panic!("{other:?}"),
    }
}

fn initiate(change: impl FnOnce(&mut NegotiateResponse)) -> Result<Negotiated, Refusal> {
    let mut response = good_response();
    change(&mut response);
    negotiate::initiate(&response.encode(), &cifs(), 512, PAGE, 255)
}

fn refused(change: impl FnOnce(&mut NegotiateResponse)) -> Rule {
    let refusal = initiate(change).unwrap_err();
    let errno = if refusal.rule == Rule::A2 {
        ECONNREFUSED
    } else {
        ECONNABORTED
    };
    assert_eq!(refusal.errno, errno);
    refusal.rule
}

#[test]
fn the_request_carries_our_parameters() {
    let request = NegotiateRequest::parse(&negotiate::request(&cifs())).unwrap();
    let expected = NegotiateRequest {
        min_version: VERSION,
        max_version: VERSION,
        credits_requested: 255,
        preferred_send_size: 1364,
        max_receive_size: 1364,
        max_fragmented_size: 173_910,
    };
    assert_eq!(request, expected);
}

// rules: Q1- Q1+
#[test]
fn q1_short_request_terminates() {
    let bytes = good_request().encode();
    for length in 0..20 {
        let verdict = negotiate::accept(&bytes[..length], &ksmbd(), 255);
        assert_eq!(verdict, Accept::Terminate(Rule::Q1));
    }
    let mut long = bytes.to_vec();
    long.resize(512, 0xee);
    assert!(matches!(
        negotiate::accept(&long, &ksmbd(), 255),
        Accept::Proceed(_)
    ));
}

// rules: Q2- Q2+
#[test]
fn q2_version_range_without_ours_gets_a_failure_response() {
    let failure = NegotiateResponse::failure(STATUS_NOT_SUPPORTED).encode();
    for (min, max) in [
        (0x0101, 0x0200),
        (0, 0x00ff),
        (0x0200, 0x0100),
        (0x0101, 0x0101),
    ] {
        let verdict = accept(|request| (request.min_version, request.max_version) = (min, max));
        assert_eq!(verdict, Accept::Refuse(failure));
    }
    for (min, max) in [(0x0100, 0x0100), (0, 0xffff), (0x0100, 0x0311), (0, 0x0100)] {
        accepted(|request| (request.min_version, request.max_version) = (min, max));
    }
}

// rules: Q2-
#[test]
fn q2_comes_before_the_other_values() {
    let verdict = accept(|request| {
        request.min_version = 0x0200;
        request.credits_requested = 0;
    });
    assert!(matches!(verdict, Accept::Refuse(_)));
}

// rules: Q3- Q3+
#[test]
fn q3_zero_credits_terminates() {
    assert_eq!(
        accept(|request| request.credits_requested = 0),
        Accept::Terminate(Rule::Q3)
    );
    assert_eq!(
        accepted(|request| request.credits_requested = 1).recv_target,
        1
    );
    assert_eq!(
        accepted(|request| request.credits_requested = 65535).recv_target,
        255
    );
}

// rules: Q4- Q4+
#[test]
fn q4_receive_size_below_128_terminates() {
    for size in [0, 127] {
        assert_eq!(
            accept(|request| request.max_receive_size = size),
            Accept::Terminate(Rule::Q4)
        );
    }
    let result = accepted(|request| request.max_receive_size = 128);
    assert_eq!({ result.params.max_send_size }, 128);
}

// rules: Q5- Q5+
#[test]
fn q5_fragmented_size_below_128k_terminates() {
    for size in [0, 131_071] {
        let verdict = accept(|request| request.max_fragmented_size = size);
        assert_eq!(verdict, Accept::Terminate(Rule::Q5));
    }
    let result = accepted(|request| request.max_fragmented_size = 131_072);
    assert_eq!({ result.params.max_fragmented_send_size }, 131_072);
}

// rules: Q6+ Q6-
#[test]
fn q6_any_preferred_send_size_is_clamped() {
    for (preferred, expected) in [(0, 128), (127, 128), (129, 129), (1364, 1364), (1365, 1364)] {
        let result = accepted(|request| request.preferred_send_size = preferred);
        assert_eq!({ result.params.max_recv_size }, expected);
    }
    // Unsigned: values with the top bit set are large.
    for preferred in [1 << 31, u32::MAX] {
        let result = accepted(|request| request.preferred_send_size = preferred);
        assert_eq!({ result.params.max_recv_size }, 1364);
    }
}

// rules: Q7-
#[test]
fn q7_refusal_carries_the_status() {
    let bytes = negotiate::refuse(STATUS_INSUFFICIENT_RESOURCES);
    let response = NegotiateResponse::parse(&bytes).unwrap();
    assert_eq!(response, NegotiateResponse::failure(0xc000_009a));
}

#[test]
fn the_response_carries_the_final_values() {
    let result = accepted(|_| ());
    let response = NegotiateResponse::parse(&negotiate::response(&result, 200)).unwrap();
    let expected = NegotiateResponse {
        min_version: VERSION,
        max_version: VERSION,
        negotiated_version: VERSION,
        credits_requested: 255,
        credits_granted: 200,
        status: 0,
        max_read_write_size: 8 << 20,
        preferred_send_size: 1364,
        max_receive_size: 1364,
        max_fragmented_size: 173_910,
    };
    assert_eq!(response, expected);
}

// rules: V3+ V4+
#[test]
fn acceptor_values() {
    let result = accepted(|_| ());
    let params = result.params;
    assert_eq!(
        (result.send_credits, result.recv_target, result.recv_buffers),
        (0, 255, 256)
    );
    assert_eq!({ params.max_send_size }, 1364);
    assert_eq!({ params.max_fragmented_send_size }, 1 << 20);
    assert_eq!({ params.max_fragmented_recv_size }, 255 * 1364 / 2);
    assert_eq!({ params.max_read_write_size }, 8 << 20);
}

// rules: A1- A1+
#[test]
fn a1_short_response_terminates() {
    let bytes = good_response().encode();
    for length in 0..32 {
        let refusal = negotiate::initiate(&bytes[..length], &cifs(), 512, PAGE, 255).unwrap_err();
        assert_eq!(
            refusal,
            Refusal {
                rule: Rule::A1,
                errno: ECONNABORTED
            }
        );
    }
    assert!(negotiate::initiate(&bytes, &cifs(), 512, PAGE, 255).is_ok());
}

// rules: A2-
#[test]
fn a2_bad_status_or_version_is_a_refusal() {
    for status in [1, STATUS_NOT_SUPPORTED, STATUS_INSUFFICIENT_RESOURCES] {
        assert_eq!(refused(|response| response.status = status), Rule::A2);
    }
    for version in [0, 0x00ff, 0x0101, 0xffff] {
        assert_eq!(
            refused(|response| response.negotiated_version = version),
            Rule::A2
        );
    }
    // A failure response is seen as such, not as one with bad sizes.
    let failure = NegotiateResponse::failure(STATUS_NOT_SUPPORTED).encode();
    let refusal = negotiate::initiate(&failure, &cifs(), 512, PAGE, 255).unwrap_err();
    assert_eq!(
        refusal,
        Refusal {
            rule: Rule::A2,
            errno: ECONNREFUSED
        }
    );
}

// rules: A3- A3+
#[test]
fn a3_sizes_below_the_floor_terminate() {
    assert_eq!(
        refused(|response| response.max_receive_size = 127),
        Rule::A3
    );
    assert_eq!(
        refused(|response| response.max_fragmented_size = 131_071),
        Rule::A3
    );
    let result = initiate(|response| {
        response.max_receive_size = 128;
        response.max_fragmented_size = 131_072;
    });
    assert_eq!({ result.unwrap().params.max_send_size }, 128);
}

// rules: A4- A4+
#[test]
fn a4_no_credits_either_way_terminate() {
    assert_eq!(refused(|response| response.credits_granted = 0), Rule::A4);
    assert_eq!(refused(|response| response.credits_requested = 0), Rule::A4);
    let result = initiate(|response| {
        response.credits_granted = 1;
        response.credits_requested = 1;
    });
    let result = result.unwrap();
    assert_eq!((result.send_credits, result.recv_target), (1, 1));
}

// rules: A5- A5+
#[test]
fn a5_peer_wants_to_send_more_than_we_receive() {
    for preferred in [1365, 1 << 31, u32::MAX] {
        assert_eq!(
            refused(|response| response.preferred_send_size = preferred),
            Rule::A5
        );
    }
    for (preferred, expected) in [(1364, 1364), (1000, 1000), (0, 128)] {
        let result = initiate(|response| response.preferred_send_size = preferred).unwrap();
        assert_eq!({ result.params.max_recv_size }, expected);
    }
}

// rules: A6- A6+
#[test]
fn a6_read_write_size_below_one_page() {
    for size in [0, PAGE - 1] {
        assert_eq!(
            refused(|response| response.max_read_write_size = size),
            Rule::A6
        );
    }
    let result = initiate(|response| response.max_read_write_size = PAGE).unwrap();
    assert_eq!({ result.params.max_frmr_depth }, 1);
    let bytes = good_response().encode();
    let refusal = negotiate::initiate(&bytes, &cifs(), 0, PAGE, 255).unwrap_err();
    assert_eq!(
        refusal.rule,
        Rule::A6,
        "a device without registration depth"
    );
}

// rules: A2+ V4+
#[test]
fn initiator_values() {
    let result = initiate(|_| ()).unwrap();
    let params = result.params;
    assert_eq!(
        (result.send_credits, result.recv_target, result.recv_buffers),
        (191, 255, 256)
    );
    assert_eq!(
        { params.max_read_write_size },
        512 * PAGE,
        "the device's depth bounds it"
    );
    assert_eq!({ params.max_frmr_depth }, 512);
    assert_eq!(
        { params.max_fragmented_recv_size },
        173_910,
        "already advertised"
    );

    let own = Parameters {
        max_read_write_size: 3 * PAGE + 5,
        ..cifs()
    };
    let result = negotiate::initiate(&good_response().encode(), &own, 512, PAGE, 255).unwrap();
    assert_eq!({ result.params.max_read_write_size }, 3 * PAGE + 5);
    assert_eq!({ result.params.max_frmr_depth }, 3);
}

// rules: V2+
#[test]
fn v2_the_initiator_adds_buffers_when_the_peer_lowers_the_size() {
    let result = initiate(|response| response.preferred_send_size = 128).unwrap();
    assert_eq!(result.recv_buffers, 1674, "ceil(173910 / 104) + 1");
    assert_eq!(result.recv_target, 255, "the window stays");
}

// rules: V1- V2-
#[test]
fn v2_fewer_buffers_would_not_do() {
    let result = initiate(|response| response.preferred_send_size = 128).unwrap();
    let (advertised, payload) = ({ result.params.max_fragmented_recv_size }, 128 - 24);
    let buffers = u32::from(result.recv_buffers);
    assert!(256 * payload < advertised, "those of the window");
    assert!((buffers - 1) * payload >= advertised, "one is left over");
    assert!((buffers - 2) * payload < advertised, "and no more than one");
}

// rules: V3- R7+
#[test]
fn v3_the_acceptor_keeps_the_floor_with_tiny_messages() {
    let result = accepted(|request| request.preferred_send_size = 1);
    assert_eq!({ result.params.max_fragmented_recv_size }, 131_072);
    assert_eq!(result.recv_buffers, 1262, "ceil(131072 / 104) + 1");
}

fn versions() -> impl Strategy<Value = u16> {
    prop_oneof![4 => Just(VERSION), 1 => 0x00feu16..0x0103, 1 => any::<u16>()]
}

/// Our own parameters as the engine has them: validated.
fn own() -> impl Strategy<Value = Parameters> {
    let sizes = (25u32..70_000, 128u32..70_000, size(), size(), 1u32..5000);
    (1u16.., 1u16.., sizes).prop_map(|(recv, send, sizes)| {
        let params = Parameters {
            recv_credit_max: recv,
            send_credit_target: send,
            max_send_size: sizes.0,
            max_recv_size: sizes.1,
            max_fragmented_recv_size: sizes.2,
            max_read_write_size: sizes.3,
            max_frmr_depth: sizes.4,
            ..cifs()
        };
        params.validate().unwrap()
    })
}

fn request() -> impl Strategy<Value = NegotiateRequest> {
    (versions(), versions(), credits(), size(), size(), size()).prop_map(
        |(min_version, max_version, credits_requested, preferred, receive, fragmented)| {
            NegotiateRequest {
                min_version,
                max_version,
                credits_requested,
                preferred_send_size: preferred,
                max_receive_size: receive,
                max_fragmented_size: fragmented,
            }
        },
    )
}

fn response() -> impl Strategy<Value = NegotiateResponse> {
    let status = prop_oneof![4 => Just(0u32), 1 => any::<u32>()];
    let head = (
        versions(),
        versions(),
        versions(),
        credits(),
        credits(),
        status,
    );
    (head, (size(), size(), size(), size())).prop_map(|(head, sizes)| NegotiateResponse {
        min_version: head.0,
        max_version: head.1,
        negotiated_version: head.2,
        credits_requested: head.3,
        credits_granted: head.4,
        status: head.5,
        max_read_write_size: sizes.0,
        preferred_send_size: sizes.1,
        max_receive_size: sizes.2,
        max_fragmented_size: sizes.3,
    })
}

/// V1-V3 and the other things that must hold for any result.
fn check(result: &Negotiated, own: &Parameters, buffers: u16) {
    let params = result.params;
    let payload = u64::from(params.max_recv_size) - 24;
    let advertised = u64::from(params.max_fragmented_recv_size);
    assert!(
        u64::from(result.recv_buffers) * payload >= advertised,
        "V1/V2: {result:?}"
    );
    assert!((u64::from(result.recv_buffers) - 1) * payload >= advertised);
    assert!(advertised >= 131_072, "V3");
    let window = own.recv_credit_max;
    assert!(result.recv_target >= 1 && result.recv_target <= window);
    assert!(result.recv_target <= buffers.max(1));
    assert!(result.recv_buffers > window, "reserve");
    assert!(
        params.max_send_size <= own.max_send_size && params.max_send_size > 24,
        "F1"
    );
    assert!(params.max_recv_size <= own.max_recv_size && params.max_recv_size >= 128);
    assert!(params.max_fragmented_send_size >= 131_072);
    assert_eq!({ params.recv_credit_max }, window);
}

/// What becomes of a request, told from its fields in the order of the rules.
fn verdict(request: &NegotiateRequest) -> &'static str {
    let speaks = request.min_version <= 0x0100 && 0x0100 <= request.max_version;
    let checks = [
        (!speaks, "Q2"),
        (request.credits_requested == 0, "Q3"),
        (request.max_receive_size < 128, "Q4"),
        (request.max_fragmented_size < 131_072, "Q5"),
    ];
    first_broken(&checks)
}

/// The same for a response to `own`, with registrations of `depth` pages.
fn judgement(response: &NegotiateResponse, own: &Parameters, depth: u32) -> &'static str {
    let device = u64::from(depth) * u64::from(PAGE);
    let theirs = u64::from(response.max_read_write_size);
    let ours = match own.max_read_write_size {
        0 => u64::MAX,
        size => size.into(),
    };
    let small = response.max_receive_size < 128 || response.max_fragmented_size < 131_072;
    let checks = [
        (
            response.status != 0 || response.negotiated_version != 0x0100,
            "A2",
        ),
        (small, "A3"),
        (
            response.credits_granted == 0 || response.credits_requested == 0,
            "A4",
        ),
        (response.preferred_send_size > own.max_recv_size, "A5"),
        (ours.min(theirs).min(device) < u64::from(PAGE), "A6"),
    ];
    first_broken(&checks)
}

fn first_broken(checks: &[(bool, &'static str)]) -> &'static str {
    checks
        .iter()
        .find(|check| check.0)
        .map_or("good", |check| check.1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    // rules: V1+ V2+ V3+ R7+ Q2- Q3- Q4- Q5- Q6+
    #[test]
    fn v1_v2_v3_any_request_ends_well_or_at_once(
        request in request(), own in own(), buffers in 1u16..,
    ) {
        let said = match negotiate::accept(&request.encode(), &own, buffers) {
            Accept::Proceed(result) => {
                check(&result, &own, buffers);
                prop_assert!(result.params.max_send_size <= request.max_receive_size);
                "good"
            }
            Accept::Refuse(bytes) => {
                prop_assert_eq!(bytes, negotiate::refuse(STATUS_NOT_SUPPORTED));
                "Q2"
            }
            Accept::Terminate(rule) => rule.id(),
        };
        prop_assert_eq!(said, verdict(&request));
    }

    // rules: V1+ V2+ V3+ R7+ A2- A3- A4- A5- A6-
    #[test]
    fn v1_v2_v3_any_response_ends_well_or_at_once(
        response in response(), own in own(), buffers in 1u16.., depth in 0u32..5000,
    ) {
        let bytes = response.encode();
        let judged = negotiate::initiate(&bytes, &own, depth, PAGE, buffers);
        let said = judged.map_or_else(|refusal| refusal.rule.id(), |_| "good");
        prop_assert_eq!(said, judgement(&response, &own, depth));
        if let Ok(result) = judged {
            check(&result, &own, buffers);
            let params = result.params;
            prop_assert!(params.max_send_size <= response.max_receive_size);
            prop_assert!(params.max_read_write_size >= PAGE);
            prop_assert!(params.max_frmr_depth >= 1 && params.max_frmr_depth <= depth);
            prop_assert!(result.send_credits >= 1);
        }
    }

    // rules: R48-
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64), page: u32) {
        let _ = negotiate::accept(&bytes, &ksmbd(), 0);
        let _ = negotiate::initiate(&bytes, &cifs(), u32::MAX, page, 0);
        let _ = negotiate::accept(&bytes, &Parameters::ZERO, 0);
    }

    #[test]
    fn our_two_roles_understand_each_other(client in own(), server in own(), depth in 1u32..5000) {
        let request = negotiate::request(&client);
        let Accept::Proceed(accepted) = negotiate::accept(&request, &server, server.recv_credit_max)
        else { return Err(TestCaseError::fail("refused")) };
        let response = negotiate::response(&accepted, accepted.recv_target);
        match negotiate::initiate(&response, &client, depth, PAGE, client.recv_credit_max) {
            Err(refusal) => prop_assert_eq!(refusal.rule, Rule::A6),
            Ok(result) => {
                let (c, s) = (result.params, accepted.params);
                prop_assert!(c.max_send_size <= s.max_recv_size || c.max_send_size <= 128);
                prop_assert!(s.max_send_size <= c.max_recv_size);
                prop_assert_eq!({ c.max_fragmented_send_size }, { s.max_fragmented_recv_size });
                prop_assert_eq!({ s.max_fragmented_send_size }, { c.max_fragmented_recv_size });
            }
        }
    }
}

/// What two ends agree on: the initiator's parameters and the acceptor's.
fn agreed(client: &Parameters, server: &Parameters) -> (Parameters, Parameters) {
    let accepted = match negotiate::accept(&negotiate::request(client), server, 255) {
        Accept::Proceed(result) => result,
        other => panic!("{other:?}"),
    };
    let response = negotiate::response(&accepted, 255);
    let initiated = negotiate::initiate(&response, client, 512, PAGE, 255).unwrap();
    (initiated.params, accepted.params)
}

// rules: P16+
#[test]
fn p16_two_ends_that_want_larger_messages_send_them() {
    let (client, server) = (
        cifs().with_message_size(8136),
        ksmbd().with_message_size(8136),
    );
    let (client, server) = agreed(&client, &server);
    for end in [client, server] {
        assert_eq!(({ end.max_send_size }, { end.max_recv_size }), (8136, 8136));
    }
}

// rules: P16- V1+
#[test]
fn p16_a_peer_that_stays_with_its_size_is_not_affected() {
    let (plain_client, plain_server) = agreed(&cifs(), &ksmbd());
    let (client, server) = agreed(&cifs().with_message_size(8136), &ksmbd());
    // The client can reassemble more; nothing else differs.
    let more = client.max_fragmented_recv_size;
    assert_eq!(
        client,
        Parameters {
            max_fragmented_recv_size: more,
            ..plain_client
        }
    );
    assert_eq!(
        server,
        Parameters {
            max_fragmented_send_size: more,
            ..plain_server
        }
    );
    let payload = client.max_recv_size - HEADER_ROOM;
    assert!(u32::from(negotiate::recv_buffers(&client)) * payload >= more);
    let (client, server) = agreed(&cifs(), &ksmbd().with_message_size(8136));
    assert_eq!((client, server), (plain_client, plain_server));
}
