// SPDX-License-Identifier: GPL-2.0
//! RDMA READ depths: device limits, the iWARP private data, agreement with the peer.
//!
//! Rules W1-W4 and R9; MS-SMBD itself is silent, the two words are a convention of iWARP peers.
//! *Responder resources* (IRD) are the READs we serve, *initiator depth* (ORD) the READs we start. One
//! side's IRD bounds the other side's ORD.
//!
//! Views: the connection manager reports the peer's values on iWARP as the peer sees them, on InfiniBand
//! and RoCE as we see them. [`peer`] swaps exactly once; everything behind it is our view: the *most* we
//! may use.

use super::rule::Rule;

/// Length of the private data, bytes.
pub const PRIVATE_LEN: usize = 8;

/// A pair of depths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// READs we start (ORD).
    pub initiator_depth: u8,
    /// READs we serve (IRD).
    pub responder_resources: u8,
}

/// What the peer allows us, each `None` if it did not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Most READs we may start: the peer's IRD.
    pub initiator_depth: Option<u8>,
    /// Most READs it will start: the peer's ORD.
    pub responder_resources: Option<u8>,
    /// The words differ from what the transport exchanged: an MPA v1 peer, which wants our words in the
    /// accept (W2).
    pub legacy: bool,
}

/// Limits what a caller wants to what a device offers and to 255, compared before narrowing (R9). A
/// negative device attribute counts as 0.
pub fn clamp_device(wanted: u32, device: i64) -> u8 {
    let usable = i64::from(wanted).min(device).clamp(0, i64::from(u8::MAX));
    u8::try_from(usable).unwrap_or(u8::MAX)
}

/// The private data of an iWARP connect or accept: IRD, then ORD, big endian.
pub fn encode(own: Depths) -> [u8; PRIVATE_LEN] {
    let [i0, i1, i2, i3] = u32::from(own.responder_resources).to_be_bytes();
    let [o0, o1, o2, o3] = u32::from(own.initiator_depth).to_be_bytes();
    [i0, i1, i2, i3, o0, o1, o2, o3]
}

/// IRD and ORD of private data that is exactly 8 bytes long (W1), unclamped.
pub fn decode(private: &[u8]) -> Option<(u32, u32)> {
    let words: [u8; PRIVATE_LEN] = private.try_into().ok()?;
    let [i0, i1, i2, i3, o0, o1, o2, o3] = words;
    Some((
        u32::from_be_bytes([i0, i1, i2, i3]),
        u32::from_be_bytes([o0, o1, o2, o3]),
    ))
}

fn narrow(word: u32) -> u8 {
    u8::try_from(word).unwrap_or(u8::MAX)
}

/// What the peer allows us.
///
/// `event`: the depths of the CM event, as the event names them; `iwarp`: the kind of the port;
/// `private`: the private data of the event, exactly as long as it was received.
pub fn peer(event: Depths, iwarp: bool, private: &[u8]) -> Peer {
    let stated = |depth: u8| (depth > 0).then_some(depth);
    if !iwarp {
        return Peer {
            initiator_depth: stated(event.initiator_depth),
            responder_resources: stated(event.responder_resources),
            legacy: false,
        };
    }
    // The peer's view: its responder resources are our initiator depth.
    let (ird, ord) = (event.responder_resources, event.initiator_depth);
    match decode(private) {
        Some((word_ird, word_ord)) if (word_ird, word_ord) != (u32::from(ird), u32::from(ord)) => {
            Peer {
                initiator_depth: Some(narrow(word_ird)),
                responder_resources: Some(narrow(word_ord)),
                legacy: true,
            }
        }
        _ => Peer {
            initiator_depth: stated(ird),
            responder_resources: stated(ord),
            legacy: false,
        },
    }
}

/// The depths to use: the smaller of ours and what the peer allows, each (W3). A value that the peer did
/// not state keeps ours.
///
/// # Errors
///
/// [`Rule::W3`] when the peer stated zero for something we need.
pub fn negotiate(own: Depths, peer: &Peer) -> Result<Depths, Rule> {
    let agree = |own: u8, cap: Option<u8>| match cap {
        None => Ok(own),
        Some(0) if own > 0 => Err(Rule::W3),
        Some(cap) => Ok(own.min(cap)),
    };
    Ok(Depths {
        initiator_depth: agree(own.initiator_depth, peer.initiator_depth)?,
        responder_resources: agree(own.responder_resources, peer.responder_resources)?,
    })
}
