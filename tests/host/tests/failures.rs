// SPDX-License-Identifier: GPL-2.0
//! The record of the last failure to connect per destination.

use smbdirect_host::proto::cause::{Cause, End};
use smbdirect_host::proto::failures::Failures;
use smbdirect_host::proto::state::Status;
use std::net::{Ipv4Addr, SocketAddr};

const REJECTED: End = End::new(Cause::Rejected(8), Status::RdmaConnectRunning);

const TIMED_OUT: End = End::new(Cause::NotInTime, Status::RdmaConnectRunning);

fn host(number: u32, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(number).into(), port)
}

/// R47: who connects again and again tells the same failure once.
#[test]
fn the_same_failure_again_is_no_news() {
    let mut failures = Failures::new();
    assert!(failures.failed(host(1, 445), REJECTED, 10));
    assert!(!failures.failed(host(1, 445), REJECTED, 20));
    let known: Vec<_> = failures.iter().collect();
    assert_eq!((known.len(), known[0].count, known[0].at), (1, 2, 20));
    assert!(failures.failed(host(1, 445), TIMED_OUT, 30));
    assert_eq!(
        failures.iter().next().map(|f| (f.count, f.end)),
        Some((3, TIMED_OUT))
    );
}

#[test]
fn a_failure_after_a_success_is_news() {
    let mut failures = Failures::default();
    assert!(failures.failed(host(1, 445), REJECTED, 10));
    failures.connected(host(1, 445));
    assert!(failures.iter().all(|failure| failure.recovered));
    assert!(failures.failed(host(1, 445), REJECTED, 20));
    assert_eq!(
        failures.iter().map(|f| (f.count, f.recovered)).next(),
        Some((1, false))
    );
}

/// A success somewhere that never failed leaves no trace.
#[test]
fn a_success_alone_is_not_recorded() {
    let mut failures = Failures::new();
    failures.connected(host(1, 445));
    assert_eq!(failures.iter().count(), 0);
}

#[test]
fn destinations_are_kept_apart() {
    let mut failures = Failures::new();
    for to in [host(1, 445), host(1, 5445), host(2, 445)] {
        assert!(failures.failed(to, REJECTED, 1));
    }
    failures.connected(host(1, 5445));
    let recovered: Vec<_> = failures
        .iter()
        .filter(|f| f.recovered)
        .map(|f| f.to)
        .collect();
    assert_eq!(recovered, [host(1, 5445)]);
}

/// However many destinations there are, the latest failures stay.
#[test]
fn the_oldest_makes_room() {
    let mut failures = Failures::new();
    let (all, kept) = (100, Failures::DESTINATIONS as u64);
    for number in 0..all {
        assert!(failures.failed(host(number as u32, 445), REJECTED, number));
    }
    let mut times: Vec<_> = failures.iter().map(|failure| failure.at).collect();
    times.sort_unstable();
    assert_eq!(times, (all - kept..all).collect::<Vec<_>>());
}
