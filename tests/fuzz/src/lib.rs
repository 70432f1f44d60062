// SPDX-License-Identifier: GPL-2.0
//! Fuzz targets for `rust/proto`.
//!
//! A target is a function that takes any bytes, makes calls of them and panics when the engine does what
//! the rules forbid. Two programs call it: `fuzz_targets/` under libFuzzer (`make fuzz`), and
//! `tests/replay.rs`, which feeds it the files of `corpus/` on the stable compiler (`make test`).
//!
//! What is right is worked out a second time, from the text of the rules and not from the code of the
//! engine; [`oracle`] holds what several targets ask for.

#![forbid(unsafe_code)]
#![deny(missing_docs, rust_2018_idioms)]

mod connection;
mod depth;
mod descriptor;
mod endpoint;
mod input;
mod lifecycle;
mod negotiate;
mod oracle;
mod pdu;
mod receiver;

pub use connection::connection;
pub use depth::depth;
pub use descriptor::descriptor;
pub use negotiate::negotiate;
pub use pdu::pdu;
pub use receiver::receiver;
