// SPDX-License-Identifier: GPL-2.0

//! Mounts what is under test of `rust/kern`.

pub(crate) use crate::irq_lock;

#[path = "../../../../rust/kern/flag.rs"]
pub(crate) mod flag;
#[path = "../../../../rust/kern/gauge.rs"]
pub(crate) mod gauge;
#[path = "../../../../rust/kern/loan.rs"]
pub(crate) mod loan;
#[path = "../../../../rust/kern/outcome.rs"]
pub(crate) mod outcome;
#[path = "../../../../rust/kern/time.rs"]
pub(crate) mod time;
#[path = "../../../../rust/kern/wait.rs"]
pub(crate) mod wait;
#[path = "../../../../rust/kern/work.rs"]
pub(crate) mod work;
