// SPDX-License-Identifier: GPL-2.0

//! What each protocol promises, and twins of it that must fail.

mod flag;
mod gauge;
mod loan;
mod outcome;
mod right;
mod wait;
mod word;
mod work;

use kernel::weaken::{without, Ordered};
use loom::cell::UnsafeCell;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Tries the executions of `model` in which at most `bound` times a thread loses the processor before
/// it waits for something. Counts them.
fn explore(bound: usize, count: &Arc<AtomicUsize>, model: impl Fn() + Send + Sync + 'static) {
    let count = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
}

/// Enough for every fault the twins show, which need one.
const PREEMPTIONS: usize = 3;

/// The model holds.
fn holds(model: impl Fn() + Send + Sync + 'static) {
    holds_within(PREEMPTIONS, model);
}

/// The model holds, tried with a bound of its own.
fn holds_within(bound: usize, model: impl Fn() + Send + Sync + 'static) {
    let count = Arc::default();
    explore(bound, &count, model);
    let count = count.load(Ordering::Relaxed);
    println!("holds in all {count} executions with at most {bound} preemptions");
}

/// Tells a process that it is to run a twin.
const TWIN: &str = "SMBD_TWIN";

/// A negative twin: without some orderings there is an execution that ends in a panic with `wanted`.
///
/// It runs in a process of its own. loom cannot end a test in a panic while other threads of the
/// model are alive: their objects would be dropped outside of it.
fn fails(missing: &'static [Ordered], wanted: &str, model: impl Fn() + Send + Sync + 'static) {
    if std::env::var_os(TWIN).is_some() {
        return run_twin(missing, model);
    }
    let thread = std::thread::current();
    let name = thread.name().expect("libtest names its threads");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(TWIN, "1");
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let told = output.split("twin: ").nth(1).unwrap_or("nothing");
    assert!(told.contains(wanted), "the twin does not fail so: {told}");
    println!("{}, as it must", told.lines().next().unwrap_or(""));
}

/// Ends the process with the first panic, and tells about it.
fn run_twin(missing: &'static [Ordered], model: impl Fn() + Send + Sync + 'static) {
    let count = Arc::<AtomicUsize>::default();
    let counter = count.clone();
    std::panic::set_hook(Box::new(move |info| {
        let count = counter.load(Ordering::Relaxed);
        println!("twin: fails in execution {count}: {info}");
        std::process::exit(1);
    }));
    without(missing, || explore(PREEMPTIONS, &count, model));
    println!(
        "twin: holds in all {} executions",
        count.load(Ordering::Relaxed)
    );
    std::process::exit(0);
}

/// How loom calls a thread that waits for ever.
const LOST_WAKE_UP: &str = "deadlock";
/// How loom calls two accesses that nothing orders.
const RACE: &str = "Causality violation";

/// Plain memory. loom fails when one thread writes and nothing orders that against another's access.
struct Plain(UnsafeCell<u32>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Plain {}
// SAFETY: As above.
unsafe impl Send for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom checks that nobody else accesses it.
        self.0.with_mut(|at| unsafe { *at = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom checks that nobody writes.
        self.0.with(|at| unsafe { *at })
    }
}
