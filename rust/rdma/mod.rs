// SPDX-License-Identifier: GPL-2.0

//! Verbs and connection management as safe Rust, ignorant of SMB.
//!
//! Ownership carries the rules of the C interface. A [`cm::CmId`] keeps its device; a
//! [`device::Pd`] keeps the id it was made through, and everything that refers to the device (queue
//! pair, memory region, DMA mapping) keeps the protection domain. What is posted to a queue
//! pair lives in the [`qp::Qp`] until its completion, or until the queue pair is drained.

pub(crate) mod client;
pub(crate) mod cm;
pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod dma;
pub(crate) mod fault;
pub(crate) mod mr;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod receive;
pub(crate) mod rw;
pub(crate) mod sq;
pub(crate) mod wr;
pub(crate) mod write;
