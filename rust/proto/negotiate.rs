// SPDX-License-Identifier: GPL-2.0
//! Negotiation, both roles, as pure functions.
//!
//! MS-SMBD 3.1.5.2-3.1.5.7; rules Q1-Q7 (acceptor), A1-A6 (initiator), V1-V4 (result), R7. Both
//! functions look at the message once, in the order of the rules, and return either the end of the
//! connection or one complete set of values.
//!
//! # Sizes and buffers (V1-V3)
//!
//! A peer may split a message of the advertised fragmented size over so many receives that a half-received
//! message holds them all and nothing is left to grant. Therefore the receive buffers together have room
//! for one such message, plus one buffer. The acceptor knows the final message size when it advertises;
//! still the floor of 131072 bytes can ask for more buffers than it has credits (1262 of 128 bytes). The
//! initiator advertises first and learns afterwards that the peer sends smaller messages. In both cases
//! [`Negotiated::recv_buffers`] says how many buffers to own; the credit window stays within
//! `recv_credit_max`. (Fragments smaller than the negotiated size are the business of the reader, which
//! copies early and recycles: R31.)

use super::errno::{ECONNABORTED, ECONNREFUSED};
use super::params::{Parameters, MAX_FRAGMENTED_RECV};
use super::pdu::{
    NegotiateRequest, NegotiateResponse, HEADER_ROOM, MIN_FRAGMENTED, MIN_RECV_SIZE, REQUEST_LEN,
    RESPONSE_LEN, STATUS_NOT_SUPPORTED, STATUS_SUCCESS, VERSION,
};
use super::rule::Rule;

/// The values a connection runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The final parameters (V4); sizes are legal and satisfy V1-V3 with `recv_buffers` buffers.
    pub params: Parameters,
    /// Credits the peer asks for, 1 to the smaller of `recv_credit_max` and the buffers given.
    pub recv_target: u16,
    /// Send credits granted by the peer; 0 on the acceptor, which gets its first ones with the first data
    /// message.
    pub send_credits: u16,
    /// Receive buffers to own: room for one message of the advertised size and one more, and at least
    /// `recv_credit_max + 1` (the reserve of the last-credit rule).
    pub recv_buffers: u16,
}

/// The acceptor's verdict on a Negotiate Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// End the connection without an answer.
    Terminate(Rule),
    /// Send this failure response, and disconnect once it is sent (`-EOPNOTSUPP`).
    Refuse([u8; RESPONSE_LEN]),
    /// Go on. The [response] goes out when the application accepts (E5).
    Proceed(Negotiated),
}

/// The initiator's reason to end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The broken rule.
    pub rule: Rule,
    /// What connect reports: `-ECONNREFUSED` for A2, else `-ECONNABORTED`.
    pub errno: i32,
}

impl From<Rule> for Refusal {
    fn from(rule: Rule) -> Self {
        let errno = if rule == Rule::A2 {
            ECONNREFUSED
        } else {
            ECONNABORTED
        };
        Self { rule, errno }
    }
}

/// The initiator's request. `own` is [validated](Parameters::validate).
pub fn request(own: &Parameters) -> [u8; REQUEST_LEN] {
    NegotiateRequest {
        min_version: VERSION,
        max_version: VERSION,
        credits_requested: own.send_credit_target.max(1),
        preferred_send_size: own.max_send_size,
        max_receive_size: own.max_recv_size,
        max_fragmented_size: own.max_fragmented_recv_size,
    }
    .encode()
}

/// Judges a request: `request` are the received bytes, `own` our validated parameters, `buffers` the
/// number of receives we can have posted (normally `recv_credit_max`).
pub fn accept(request: &[u8], own: &Parameters, buffers: u16) -> Accept {
    let request = match NegotiateRequest::parse(request) {
        Ok(request) => request,
        Err(rule) => return Accept::Terminate(rule),
    };
    if request.min_version > VERSION || request.max_version < VERSION {
        return Accept::Refuse(refuse(STATUS_NOT_SUPPORTED));
    }
    if request.credits_requested == 0 {
        return Accept::Terminate(Rule::Q3);
    }
    if request.max_receive_size < MIN_RECV_SIZE {
        return Accept::Terminate(Rule::Q4);
    }
    if request.max_fragmented_size < MIN_FRAGMENTED {
        return Accept::Terminate(Rule::Q5);
    }
    let max_recv_size = recv_size(own, request.preferred_send_size);
    let fragmented = u64::from(buffers).saturating_mul(u64::from(max_recv_size)) >> 1;
    let fragmented = u32::try_from(fragmented).unwrap_or(u32::MAX);
    let params = Parameters {
        max_recv_size,
        max_fragmented_recv_size: fragmented.clamp(MIN_FRAGMENTED, MAX_FRAGMENTED_RECV),
        max_send_size: own.max_send_size.min(request.max_receive_size),
        max_fragmented_send_size: request.max_fragmented_size,
        ..*own
    };
    Accept::Proceed(Negotiated {
        params,
        recv_target: recv_target(own, request.credits_requested, buffers),
        send_credits: 0,
        recv_buffers: recv_buffers(&params),
    })
}

/// A failure response with an NT status (Q2, Q7).
pub fn refuse(status: u32) -> [u8; RESPONSE_LEN] {
    NegotiateResponse::failure(status).encode()
}

/// The acceptor's response. `granted` comes from `Credits::grant_all_for_response`.
pub fn response(result: &Negotiated, granted: u16) -> [u8; RESPONSE_LEN] {
    let params = &result.params;
    NegotiateResponse {
        min_version: VERSION,
        max_version: VERSION,
        negotiated_version: VERSION,
        credits_requested: params.send_credit_target.max(1),
        credits_granted: granted,
        status: STATUS_SUCCESS,
        max_read_write_size: params.max_read_write_size,
        preferred_send_size: params.max_send_size,
        max_receive_size: params.max_recv_size,
        max_fragmented_size: params.max_fragmented_recv_size,
    }
    .encode()
}

/// Judges a response: `response` are the received bytes, `own` the parameters of our request,
/// `max_frmr_depth` the pages one registration can hold on this device, `page_size` in bytes, `buffers`
/// as for [`accept`].
///
/// # Errors
///
/// [`Refusal`] with the first of A1-A6 that the response breaks.
pub fn initiate(
    response: &[u8],
    own: &Parameters,
    max_frmr_depth: u32,
    page_size: u32,
    buffers: u16,
) -> Result<Negotiated, Refusal> {
    let response = NegotiateResponse::parse(response)?;
    check_response(&response, own)?;

    let page = page_size.max(1);
    let depth = max_frmr_depth.saturating_mul(page);
    let bound = match own.max_read_write_size {
        0 => depth,
        own => own.min(depth),
    };
    let read_write = bound.min(response.max_read_write_size);
    if read_write < page {
        return Err(Rule::A6.into());
    }
    let params = Parameters {
        max_recv_size: recv_size(own, response.preferred_send_size),
        max_send_size: own.max_send_size.min(response.max_receive_size),
        max_fragmented_send_size: response.max_fragmented_size,
        max_read_write_size: read_write,
        max_frmr_depth: read_write.checked_div(page).unwrap_or(0),
        ..*own
    };
    Ok(Negotiated {
        params,
        recv_target: recv_target(own, response.credits_requested, buffers),
        send_credits: response.credits_granted,
        recv_buffers: recv_buffers(&params),
    })
}

/// A2-A5, in this order.
fn check_response(response: &NegotiateResponse, own: &Parameters) -> Result<(), Rule> {
    if response.status != STATUS_SUCCESS || response.negotiated_version != VERSION {
        return Err(Rule::A2);
    }
    if response.max_receive_size < MIN_RECV_SIZE || response.max_fragmented_size < MIN_FRAGMENTED {
        return Err(Rule::A3);
    }
    if response.credits_granted == 0 || response.credits_requested == 0 {
        return Err(Rule::A4);
    }
    if response.preferred_send_size > own.max_recv_size {
        return Err(Rule::A5);
    }
    Ok(())
}

/// Our receive size once the peer has said how much it sends, bytes (Q6).
fn recv_size(own: &Parameters, preferred: u32) -> u32 {
    own.max_recv_size.min(preferred).max(MIN_RECV_SIZE)
}

fn recv_target(own: &Parameters, requested: u16, buffers: u16) -> u16 {
    requested.min(own.recv_credit_max).min(buffers).max(1)
}

/// Number of receive buffers of `max_recv_size` that V1 asks for, and the window with its reserve. With
/// validated parameters it fits 16 bits.
pub fn recv_buffers(params: &Parameters) -> u16 {
    let payload = params.max_recv_size.saturating_sub(HEADER_ROOM).max(1);
    let message = params.max_fragmented_recv_size.div_ceil(payload);
    let window = u32::from(params.recv_credit_max);
    u16::try_from(message.max(window).saturating_add(1)).unwrap_or(u16::MAX)
}
