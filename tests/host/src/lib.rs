// SPDX-License-Identifier: GPL-2.0
//! Mounts `rust/proto` for the host tests, without the kernel and under stricter lints.

#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::undocumented_unsafe_blocks,
    clippy::unreachable,
    clippy::unwrap_used
)]

#[path = "../../../rust/proto/mod.rs"]
pub mod proto;
