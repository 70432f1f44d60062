// SPDX-License-Identifier: GPL-2.0
//! Message layouts: any bytes are a message or break one rule; a message keeps its meaning when it is
//! written and read again.

use crate::input::Input;
use crate::oracle::{fields, le16, le32};
use smbdirect_host::proto::pdu::{
    BufferDescriptor, DataHeader, NegotiateRequest, NegotiateResponse, DESCRIPTOR_LEN, HEADER_LEN,
    PAYLOAD_OFFSET, REQUEST_LEN, RESPONSE_LEN,
};
use smbdirect_host::proto::rule::Rule;

/// Reads the bytes as each kind of message.
pub fn pdu(data: &[u8]) {
    let mut input = Input::new(data);
    let max_fragmented = input.size();
    let message = input.all();
    request(message);
    response(message);
    data_transfer(message, max_fragmented);
    descriptor(message);
}

fn request(message: &[u8]) {
    let Ok(request) = NegotiateRequest::parse(message) else {
        assert!(message.len() < REQUEST_LEN);
        assert_eq!(NegotiateRequest::parse(message), Err(Rule::Q1));
        return;
    };
    let mut expected = [0; REQUEST_LEN];
    expected.copy_from_slice(&message[..REQUEST_LEN]);
    expected[4..6].fill(0);
    assert_eq!(request.encode(), expected);
    assert_eq!(NegotiateRequest::parse(&expected), Ok(request));
    assert_eq!(request.credits_requested, le16(message, 6));
    assert_eq!(request.max_fragmented_size, le32(message, 16));
}

fn response(message: &[u8]) {
    let Ok(response) = NegotiateResponse::parse(message) else {
        assert!(message.len() < RESPONSE_LEN);
        assert_eq!(NegotiateResponse::parse(message), Err(Rule::A1));
        return;
    };
    let mut expected = [0; RESPONSE_LEN];
    expected.copy_from_slice(&message[..RESPONSE_LEN]);
    expected[6..8].fill(0);
    assert_eq!(response.encode(), expected);
    assert_eq!(NegotiateResponse::parse(&expected), Ok(response));
    assert_eq!(response.status, le32(message, 12));
    assert_eq!(response.max_fragmented_size, le32(message, 28));
}

fn data_transfer(message: &[u8], max_fragmented: u32) {
    let parsed = DataHeader::parse(message, max_fragmented);
    let expected = fields(message, max_fragmented);
    let (header, expected) = match (parsed, expected) {
        (Ok(header), Ok(expected)) => (header, expected),
        (parsed, expected) => {
            assert_eq!(parsed.err(), expected.err());
            return;
        }
    };
    assert_eq!(header.credits_requested, expected.requested);
    assert_eq!(header.credits_granted, expected.granted);
    assert_eq!(header.response_requested, expected.flags & 1 != 0);
    assert_eq!(u64::from(header.remaining), expected.remaining);
    assert_eq!(u64::from(header.offset), expected.offset);
    assert_eq!(u64::from(header.length), expected.length);
    assert_eq!(header.announced(), expected.length + expected.remaining);
    assert_eq!(header.is_empty(), header.announced() == 0);
    written_again(message, max_fragmented, &header);
}

/// A header that was accepted, as we would write it: in its old place, and with the payload moved to where
/// our own messages have it.
fn written_again(message: &[u8], max_fragmented: u32, header: &DataHeader) {
    let encoded = header.encode();
    let mut same = [0; HEADER_LEN];
    same.copy_from_slice(&message[..HEADER_LEN]);
    same[4..6].copy_from_slice(&[message[4] & 1, 0]);
    same[6..8].fill(0);
    assert_eq!(encoded[..HEADER_LEN], same);
    assert_eq!(encoded[HEADER_LEN..], [0; PAYLOAD_OFFSET - HEADER_LEN]);

    let mut buffer = [0; 512];
    let (start, length) = (header.offset as usize, header.length as usize);
    let payload = &message[start..start + length];
    let moved = DataHeader {
        offset: if length > 0 { 24 } else { 0 },
        ..*header
    };
    let end = moved.wire_len() + length;
    if end > buffer.len() {
        return;
    }
    buffer[..moved.wire_len()].copy_from_slice(&moved.encode()[..moved.wire_len()]);
    buffer[moved.wire_len()..end].copy_from_slice(payload);
    assert_eq!(DataHeader::parse(&buffer[..end], max_fragmented), Ok(moved));
    assert_eq!(
        DataHeader::parse(&buffer[..end - 1], max_fragmented),
        Err(if length > 0 { Rule::D4 } else { Rule::D1 })
    );
}

fn descriptor(message: &[u8]) {
    let Some(descriptor) = BufferDescriptor::parse(message) else {
        assert!(message.len() < DESCRIPTOR_LEN);
        return;
    };
    assert_eq!(descriptor.encode(), message[..DESCRIPTOR_LEN]);
    assert_eq!(descriptor.length, le32(message, 12));
}
