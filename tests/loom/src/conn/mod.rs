// SPDX-License-Identifier: GPL-2.0

//! Mounts what is under test of `rust/conn`.

#[path = "../../../../rust/conn/right.rs"]
pub(crate) mod right;
#[path = "../../../../rust/conn/word.rs"]
pub(crate) mod word;
