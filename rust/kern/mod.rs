// SPDX-License-Identifier: GPL-2.0

//! What the kernel crate does not offer yet: one primitive a file, none of them knows RDMA or SMB.

pub(crate) mod counters;
pub(crate) mod debugfs;
pub(crate) mod errno;
pub(crate) mod flag;
pub(crate) mod gauge;
pub(crate) mod irq_lock;
pub(crate) mod loan;
pub(crate) mod noio;
pub(crate) mod outcome;
pub(crate) mod published;
pub(crate) mod ring;
pub(crate) mod stall;
pub(crate) mod task;
pub(crate) mod thread;
pub(crate) mod time;
pub(crate) mod wait;
pub(crate) mod work;
