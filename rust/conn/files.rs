// SPDX-License-Identifier: GPL-2.0

//! What an administrator can read: the files in `/sys/kernel/debug/smbdirect`.
//!
//! Each line is made for people and for scripts: a connection's lines are indented under its ends, a
//! counter is its name and its value.

use super::connection::{Connection, Statistics};
use super::negotiate::Role;
use super::shared::Shared;
use crate::kern::debugfs::{Folder, Show};
use crate::kern::time::now_ms;
use crate::proto::failures::Failure;
use crate::rdma::counters::Counters;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Makes the files. Last, when nothing can fail any more: a file that is open keeps the module only once
/// it is loaded.
///
/// # Errors
///
/// `-ENOMEM`.
pub(crate) fn add(shared: &Arc<Shared>) -> Result<Folder> {
    let mut folder = Folder::new(c"smbdirect");
    let failures = KBox::new(FailuresFile(shared.clone()), GFP_KERNEL)?;
    folder.add(c"failures", failures)?;
    let connections = KBox::new(ConnectionsFile(shared.clone()), GFP_KERNEL)?;
    folder.add(c"connections", connections)?;
    let counters = KBox::new(CountersFile(shared.clone()), GFP_KERNEL)?;
    folder.add(c"counters", counters)?;
    Ok(folder)
}

/// The last failure to connect to each destination, two lines each: what happened, what to look at.
struct FailuresFile(Arc<Shared>);

impl Show for FailuresFile {
    fn show(&self, m: &SeqFile) {
        let now = now_ms();
        // Printed under the lock: at most 32 times two short lines, and nothing that sleeps.
        for failure in self.0.failures.lock().iter() {
            show_failure(failure, now, m);
        }
    }
}

fn show_failure(failure: &Failure, now: u64, m: &SeqFile) {
    let (to, count, end) = (failure.to, failure.count, failure.end);
    let seconds = now.saturating_sub(failure.at) / 1000;
    let since = match failure.recovered {
        true => ", connected since",
        false => "",
    };
    seq_print!(
        m,
        "{to:?}: failed {count} times in a row, last {seconds} s ago{since}\n"
    );
    seq_print!(m, "\t{end}; {}\n", end.cause.advice(end.status));
}

/// Every connection and listener, with its state and counters.
struct ConnectionsFile(Arc<Shared>);

impl Show for ConnectionsFile {
    fn show(&self, m: &SeqFile) {
        self.0
            .each(|connection| show_connection(connection, m), |_| ());
    }
}

fn show_connection(connection: &Arc<Connection>, m: &SeqFile) {
    let state = connection.state();
    let role = connection.negotiation.lock().role();
    let kind = match role {
        _ if connection.children.is_used() => "listener",
        Role::Initiator => "initiator",
        Role::Acceptor => "acceptor",
    };
    let ends = connection.ends();
    seq_print!(m, "{ends}: {kind} {}", state.status().name());
    let end = *connection.end.lock();
    match end {
        Some(end) => seq_print!(m, ", ended in {end}\n"),
        None => seq_print!(m, "\n"),
    }
    let Some(qp) = connection.qp() else { return };
    let credits = connection.flow.lock().credits;
    show("send_credits", credits.send_credits().into(), m);
    show("receive_credits", credits.outstanding().into(), m);
    connection
        .statistics
        .each(|name, value| show(name, value, m));
    qp.pd().counters().each(|name, value| show(name, value, m));
}

fn show(name: &str, value: u64, m: &SeqFile) {
    seq_print!(m, "\t{name} {value}\n");
}

/// The counters of all connections together, those that are gone among them. One that goes at this
/// moment may be missing until the next look.
struct CountersFile(Arc<Shared>);

impl Show for CountersFile {
    fn show(&self, m: &SeqFile) {
        let (statistics, device) = (Statistics::new(), Counters::sum_of_gone());
        self.0.each(
            |connection| {
                connection.statistics.add_to(&statistics);
                if let Some(qp) = connection.qp() {
                    qp.pd().counters().add_to(&device);
                }
            },
            |gone| gone.add_to(&statistics),
        );
        statistics.each(|name, value| seq_print!(m, "{name} {value}\n"));
        device.each(|name, value| seq_print!(m, "{name} {value}\n"));
        let longest = self.0.longest_teardown.load(Relaxed);
        seq_print!(m, "longest_teardown_ms {longest}\n");
    }
}
