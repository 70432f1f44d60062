// SPDX-License-Identifier: GPL-2.0
//! The SMB Direct protocol as plain state machines (sans-IO).
//!
//! Every decision about bytes from the peer, credits, fragments, timers and connection states is made
//! in this directory: an event goes in, a decision comes out. Nothing here sleeps, locks, allocates,
//! reads a clock or touches memory it was not handed. The kernel part (`conn`) owns the locks and the
//! buffers and carries the decisions out; `tests/host` mounts the same files and tries them by the
//! million.
//!
//! Base text: MS-SMBD revision 16.0. The rule ids (Q, A, V, D, F, C, K, B, I, W) are those of
//! `Documentation/protocol.rst`; error counters ([`rule::Rule`]), tests and log lines use the same ids.
//!
//! # House rules
//!
//! * `core` only, `forbid(unsafe_code)`, no atomics, no kernel types. Concurrency is the caller's: a
//!   state machine is a plain struct that lives inside one lock, or a `Copy` word ([`state::State`])
//!   that the caller changes by compare-and-exchange.
//! * Peer data is parsed once into checked types. No index, unwrap or plain operator reaches it;
//!   arithmetic is `checked_`, `saturating_` or `wrapping_` by name, because a panic is a kernel `BUG()`.
//!   Nor does a call that panics inside `core` survive (`clamp`, `div_ceil`, `copy_from_slice`), unless
//!   the compiler sees that it cannot: `tests/host/tests/panic_free.rs` looks at the machine code.
//! * Time is an input: a `u64` that grows, in a unit the caller chooses (see [`keepalive`]).
//!
//! # Map
//!
//! | module | decides | rules |
//! |---|---|---|
//! | [`rule`] | names of the rules a peer can break | all |
//! | [`errno`] | the errno values the decisions use | |
//! | [`cause`] | why a connection ended, in words | |
//! | [`failures`] | the last failure to connect to each destination | |
//! | [`state`] | status, first error, sticky CM facts | R11, R12 |
//! | [`params`] | the shared 64-byte parameter block | R8 |
//! | [`pdu`] | message layouts, receiver checks without history | Q1, A1, D1-D5, D8 |
//! | [`negotiate`] | both roles of the negotiation | Q, A, V |
//! | [`credits`] | send and receive credits | C, D9 |
//! | [`fragment`] | cutting a message into data transfers | F |
//! | [`reassembly`] | receiver checks with history | D6, D7, D10, D12 |
//! | [`keepalive`] | idle, keepalive and set-up timers, requested answers | K |
//! | [`depth`] | IRD/ORD words and depth arithmetic | W, R9 |
//! | [`sizing`] | queue and pool sizes from device limits | R10, R43 |
//! | [`descriptor`] | walk over the peer's buffer descriptors | B1-B3, R39-R41 |

#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]
// The files are mounted by two crates (the module, the host tests) which each use a part of them and
// disagree on what is reachable.
#![allow(dead_code, unreachable_pub)]

pub mod cause;
pub mod credits;
pub mod depth;
pub mod descriptor;
pub mod errno;
pub mod failures;
pub mod fragment;
pub mod keepalive;
pub mod negotiate;
pub mod params;
pub mod pdu;
pub mod reassembly;
pub mod rule;
pub mod sizing;
pub mod state;
