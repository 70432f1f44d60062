// SPDX-License-Identifier: GPL-2.0
//! Walk over the peer's buffer descriptors (B1 to B5): the transfers cover the local buffer exactly, in
//! order, or there is an error before the first.

use crate::input::Input;
use smbdirect_host::proto::descriptor::{Segment, Walk, WalkError};

/// Segments that are cut to the limits of the input; the rest of a walk goes in whole elements, so that
/// a buffer of 4 GiB does not take 4 Gi steps.
const CUTS: usize = 64;

/// Choice of a segment that is not cut.
const WHOLE: u8 = 255;

struct Element {
    address: u64,
    rkey: u32,
    length: u64,
}

/// Any array and any request.
pub fn descriptor(data: &[u8]) {
    let mut input = Input::new(data);
    let request = input.size();
    let limits: [u8; 4] = input.array();
    let array = input.all();
    let elements: Vec<Element> = array.chunks_exact(16).map(element).collect();

    match (
        Walk::new(array, request),
        refusal(array, &elements, request),
    ) {
        (Err(error), expected) => assert_eq!(Some(error), expected),
        (Ok(walk), None) => {
            covers(walk.clone(), &elements, request, [WHOLE; 4]);
            covers(walk, &elements, request, limits);
        }
        (Ok(_), Some(error)) => panic!("begun in spite of {error:?}"),
    }
}

fn element(bytes: &[u8]) -> Element {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
    };
    Element {
        address: number(&bytes[..8]),
        rkey: number(&bytes[8..12]) as u32,
        length: number(&bytes[12..16]),
    }
}

/// Why the request cannot be served.
fn refusal(array: &[u8], elements: &[Element], request: u32) -> Option<WalkError> {
    if request == 0 {
        return None;
    }
    if array.len() % 16 != 0 {
        return Some(WalkError::Misaligned);
    }
    let mut covered = 0;
    for element in elements {
        if covered >= u64::from(request) {
            return None;
        }
        if element.length == 0 {
            return Some(WalkError::ZeroLength);
        }
        covered += element.length;
    }
    (covered < request.into()).then_some(WalkError::Short)
}

/// Each segment lies inside one element, goes on where the one before ended, and the last one ends with
/// the request.
fn covers(mut walk: Walk<'_>, elements: &[Element], request: u32, limits: [u8; 4]) {
    let (mut at, mut used, mut done) = (0, 0, 0u64);
    for step in 0.. {
        assert_eq!(u64::from(walk.left()), u64::from(request) - done);
        let limit = match limits[step % limits.len()] {
            _ if step >= CUTS => u32::MAX,
            WHOLE => u32::MAX,
            exponent => u32::from(exponent & 7) << (exponent >> 3 & 15),
        };
        let Some(segment) = walk.next_up_to(limit) else {
            break;
        };
        let element: &Element = &elements[at];
        let whole = (element.length - used)
            .min(u64::from(request) - done)
            .min(limit.max(1).into());
        let expected = Segment {
            local_offset: u32::try_from(done).unwrap(),
            remote_addr: element.address.wrapping_add(used),
            rkey: element.rkey,
            length: u32::try_from(whole).unwrap(),
        };
        assert_eq!(segment, expected);
        done += whole;
        used += whole;
        if used == element.length {
            (at, used) = (at + 1, 0);
        }
    }
    assert_eq!(done, request.into());
    assert_eq!(walk.next_up_to(1), None, "the end stays the end");
}
