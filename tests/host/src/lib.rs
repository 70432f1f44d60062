// SPDX-License-Identifier: GPL-2.0
//! Mounts `rust/proto` for the host tests, without the kernel. The lints are those of `proto` itself.

#![no_std]
#![forbid(unsafe_code)]

#[path = "../../../rust/proto/mod.rs"]
pub mod proto;
