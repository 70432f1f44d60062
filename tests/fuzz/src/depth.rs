// SPDX-License-Identifier: GPL-2.0
//! RDMA READ depths (W1 to W4): no event and no private data give more than either side offers, nor wrap
//! on the way to eight bits.

use crate::input::Input;
use smbdirect_host::proto::depth::{
    clamp_device, decode, encode, negotiate, peer, Depths, Peer, PRIVATE_LEN,
};
use smbdirect_host::proto::rule::Rule;

/// Any device limits, event and private data.
pub fn depth(data: &[u8]) {
    let mut input = Input::new(data);
    let own = Depths {
        initiator_depth: device_limit(&mut input),
        responder_resources: device_limit(&mut input),
    };
    let event = Depths {
        initiator_depth: input.byte(),
        responder_resources: input.byte(),
    };
    let iwarp = input.byte() & 1 != 0;
    let private = input.all();
    assert_eq!(decode(&encode(own)), Some(words(&encode(own))));

    let seen = peer(event, iwarp, private);
    assert_eq!(seen, expected_peer(event, iwarp, private));
    agree(own, &seen);
    both_ends(own, event);
}

fn device_limit(input: &mut Input<'_>) -> u8 {
    let (wanted, device) = (input.u16().into(), input.u64() as i64);
    let depth = clamp_device(wanted, device);
    // In wide numbers, where nothing can wrap.
    let expected = i128::from(device).max(0).min(wanted.into()).min(255);
    assert_eq!(i128::from(depth), expected);
    depth
}

/// Two big-endian words.
fn words(bytes: &[u8]) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
    };
    (word(&bytes[..4]), word(&bytes[4..]))
}

fn expected_peer(event: Depths, iwarp: bool, private: &[u8]) -> Peer {
    assert_eq!(
        decode(private),
        (private.len() == PRIVATE_LEN).then(|| words(private))
    );
    let stated = |depth: u8| if depth == 0 { None } else { Some(depth) };
    let (mut starts, mut serves) = (event.initiator_depth, event.responder_resources);
    if iwarp {
        // The event speaks for the peer: what it starts, we serve.
        (starts, serves) = (serves, starts);
    }
    let mut seen = Peer {
        initiator_depth: stated(starts),
        responder_resources: stated(serves),
        legacy: false,
    };
    if iwarp && private.len() == PRIVATE_LEN {
        let (ird, ord) = words(private);
        if ird != starts.into() || ord != serves.into() {
            seen = Peer {
                initiator_depth: Some(ird.min(255) as u8),
                responder_resources: Some(ord.min(255) as u8),
                legacy: true,
            };
        }
    }
    seen
}

fn agree(own: Depths, seen: &Peer) {
    let pairs = [
        (own.initiator_depth, seen.initiator_depth),
        (own.responder_resources, seen.responder_resources),
    ];
    let refused = pairs.iter().any(|&(own, peer)| own > 0 && peer == Some(0));
    match negotiate(own, seen) {
        Err(rule) => assert!(rule == Rule::W3 && refused),
        Ok(depths) => {
            assert!(!refused);
            let results = [depths.initiator_depth, depths.responder_resources];
            for ((own, peer), result) in pairs.into_iter().zip(results) {
                assert_eq!(result, own.min(peer.unwrap_or(own)));
            }
        }
    }
}

/// Two old ends whose stacks report nothing but the words: neither starts more READs than the other serves.
/// Words of zero, the same as reported, state nothing.
fn both_ends(a: Depths, b: Depths) {
    let nothing = Depths {
        initiator_depth: 0,
        responder_resources: 0,
    };
    for (own, other) in [(a, b), (b, a)] {
        let Ok(agreed) = negotiate(own, &peer(nothing, true, &encode(other))) else {
            continue;
        };
        assert!(other == nothing || agreed.initiator_depth <= other.responder_resources);
        assert!(other == nothing || agreed.responder_resources <= other.initiator_depth);
    }
}
