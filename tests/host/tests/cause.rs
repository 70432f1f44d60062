// SPDX-License-Identifier: GPL-2.0
//! Why a connection ended: errno, words and advice (issue: errors that help; R47).

use smbdirect_host::proto::cause::{Cause, End, Request};
use smbdirect_host::proto::errno::{
    ECONNABORTED, ECONNREFUSED, ECONNRESET, EINVAL, ENETDOWN, ENODEV, EPROTONOSUPPORT, ESHUTDOWN,
    ETIMEDOUT,
};
use smbdirect_host::proto::rule::Rule;
use smbdirect_host::proto::state::Status;

/// One of each, with what callers must get.
const EACH: &[(Cause, i32)] = &[
    (Cause::ShutDown, ESHUTDOWN),
    (Cause::Disconnected(0), ECONNRESET),
    (Cause::Disconnected(-5), -5),
    (Cause::DeviceRemoved(0), ENETDOWN),
    (Cause::ListenerGone(ESHUTDOWN), ESHUTDOWN),
    (Cause::Interrupted, -512),
    (Cause::NotInTime, ETIMEDOUT),
    (Cause::Step("route not resolved", -113), -113),
    (Cause::Step("route not resolved", 0), ECONNABORTED),
    (Cause::Rejected(8), ECONNREFUSED),
    (Cause::Rejected(ECONNREFUSED), ECONNREFUSED),
    (Cause::OutOfStep, ECONNABORTED),
    (Cause::NoIwarp, ENODEV),
    (Cause::WrongLink, EPROTONOSUPPORT),
    (Cause::NoFastRegistration, EPROTONOSUPPORT),
    (Cause::TooSmall, EINVAL),
    (Cause::Rule(Rule::A2, ECONNREFUSED), ECONNREFUSED),
    (Cause::Refused(-95), -95),
    (Cause::NoAnswer, ETIMEDOUT),
    (Cause::NoProgress, ETIMEDOUT),
    (Cause::NoRest, ETIMEDOUT),
    (Cause::Stuck, ETIMEDOUT),
    (Cause::NotPosted(Request::Send, -12), -12),
    (
        Cause::Failed(Request::Send, "remote access error"),
        ECONNABORTED,
    ),
    (
        Cause::Failed(Request::Transfer, "remote access error"),
        ECONNABORTED,
    ),
    (Cause::Flushed, ECONNABORTED),
    (Cause::Broken, ECONNABORTED),
    (Cause::Torn, ECONNABORTED),
    (Cause::Fault, -14),
    (Cause::Local(-12), -12),
];

#[test]
fn each_cause_is_worth_an_errno() {
    for (cause, errno) in EACH {
        assert_eq!(cause.errno(), *errno, "{cause:?}");
    }
}

/// An errno that is none must not become "no error".
#[test]
fn no_cause_is_worth_success() {
    for wrong in [0, 1, i32::MAX] {
        for cause in [
            Cause::Disconnected(wrong),
            Cause::DeviceRemoved(wrong),
            Cause::ListenerGone(wrong),
            Cause::Step("route not resolved", wrong),
            Cause::Rejected(wrong),
            Cause::Rule(Rule::D1, wrong),
            Cause::Refused(wrong),
            Cause::NotPosted(Request::Receive, wrong),
            Cause::Local(wrong),
        ] {
            assert!(cause.errno() < 0, "{cause:?}");
        }
    }
}

/// The line stands alone: status, cause, errno, each cause in words of its own.
#[test]
fn each_cause_has_its_words() {
    let mut seen = Vec::new();
    for (cause, errno) in EACH {
        let end = End::new(*cause, Status::Connected);
        let text = cause.to_string();
        assert_eq!(end.to_string(), format!("CONNECTED: {text} ({errno})"));
        assert!(text.len() > 8 && !text.ends_with('.'), "{text}");
        if !seen
            .iter()
            .any(|(other, _)| std::mem::discriminant(other) == std::mem::discriminant(cause))
        {
            assert!(seen.iter().all(|(_, other)| *other != text), "{text}");
            seen.push((*cause, text));
        }
    }
    assert_eq!(
        Cause::Rejected(8).to_string(),
        "rejected by the peer (reason 8)"
    );
    assert_eq!(Cause::Rejected(-111).to_string(), "rejected by the peer");
    assert!(Cause::Rule(Rule::A2, -1).to_string().contains("A2"));
    let failed = Cause::Failed(Request::Invalidation, "local protection error");
    assert_eq!(
        failed.to_string(),
        "invalidation failed: local protection error"
    );
}

/// R47: the usual ends of a connection are no errors; what went wrong is one.
#[test]
fn only_usual_ends_are_quiet() {
    for (cause, _) in EACH {
        let usual = matches!(
            cause,
            Cause::ShutDown
                | Cause::Disconnected(_)
                | Cause::ListenerGone(_)
                | Cause::Interrupted
                | Cause::Flushed
        );
        assert_eq!(cause.is_usual(), usual, "{cause:?}");
    }
}

/// R47: nor is what a client or the network does to a server before the connection is up, unless the
/// client breaks a rule; to a client it is.
#[test]
fn a_server_is_not_bothered_with_clients_that_do_not_come_up() {
    for (cause, _) in EACH {
        let early = End::new(*cause, Status::RdmaConnectRunning);
        let theirs = matches!(
            cause,
            Cause::Rejected(_) | Cause::Step(..) | Cause::OutOfStep | Cause::NotInTime
        );
        assert_eq!(early.is_error(true), !cause.is_usual(), "{cause:?}");
        assert_eq!(
            early.is_error(false),
            !cause.is_usual() && !theirs,
            "{cause:?}"
        );
        let late = End::new(*cause, Status::Connected);
        assert_eq!(late.is_error(false), !cause.is_usual(), "{cause:?}");
    }
}

/// Who knows why requests were flushed may say so later; nothing else changes what was said first, and
/// callers have got the errno already.
#[test]
fn a_flush_is_explained_by_what_comes_later() {
    let flushed = End::new(Cause::Flushed, Status::Connected);
    let failed = Cause::Failed(Request::Send, "transport retry counter exceeded");
    let explained = flushed.explained(failed);
    assert_eq!((explained.cause, explained.errno), (failed, ECONNABORTED));
    assert_eq!(explained.status, Status::Connected);
    assert_eq!(flushed.explained(Cause::ShutDown), flushed);
    assert_eq!(flushed.explained(Cause::Flushed), flushed);
    let reset = flushed.explained(Cause::Disconnected(0));
    assert_eq!(
        (reset.cause, reset.errno),
        (Cause::Disconnected(0), ECONNABORTED)
    );
    for (cause, _) in EACH.iter().filter(|(cause, _)| *cause != Cause::Flushed) {
        let end = End::new(*cause, Status::Connected);
        assert_eq!(end.explained(failed), end);
    }
}

/// What an administrator is told to look at, for the ways in which connecting fails.
#[test]
fn advice_fits_the_step() {
    for (cause, status, word) in [
        (
            Cause::Step("route not resolved", ENODEV),
            Status::ResolveAddrRunning,
            "rdma link",
        ),
        (Cause::NoIwarp, Status::ResolveAddrRunning, "445"),
        (
            Cause::Step("route not resolved", -113),
            Status::ResolveAddrRunning,
            "route",
        ),
        (
            Cause::Step("route not resolved", -101),
            Status::ResolveAddrRunning,
            "route",
        ),
        (Cause::NotInTime, Status::ResolveAddrRunning, "host up"),
        (
            Cause::Step("route not resolved", -22),
            Status::ResolveRouteRunning,
            "fabric",
        ),
        (Cause::WrongLink, Status::ResolveRouteRunning, "5445"),
        (Cause::TooSmall, Status::ResolveRouteRunning, "another"),
        (
            Cause::NoFastRegistration,
            Status::ResolveRouteRunning,
            "another",
        ),
        (Cause::NotInTime, Status::RdmaConnectRunning, "4791"),
        (
            Cause::Step("route not resolved", ETIMEDOUT),
            Status::RdmaConnectRunning,
            "4791",
        ),
        (
            Cause::Rejected(8),
            Status::RdmaConnectRunning,
            "server running",
        ),
        (
            Cause::NotInTime,
            Status::NegotiateRunning,
            "SMB Direct server",
        ),
        (
            Cause::Disconnected(0),
            Status::NegotiateRunning,
            "SMB Direct server",
        ),
        (
            Cause::Rule(Rule::A2, -111),
            Status::NegotiateRunning,
            "refuses",
        ),
        (
            Cause::Rule(Rule::A3, -103),
            Status::NegotiateRunning,
            "MS-SMBD",
        ),
        (
            Cause::DeviceRemoved(0),
            Status::RdmaConnectRunning,
            "device back",
        ),
        (Cause::Local(-12), Status::NegotiateRunning, "this machine"),
        (
            Cause::NotPosted(Request::Send, -12),
            Status::NegotiateRunning,
            "this machine",
        ),
        (Cause::OutOfStep, Status::Connected, "both machines"),
    ] {
        let advice = cause.advice(status);
        assert!(advice.contains(word), "{cause:?} in {status:?}: {advice}");
    }
}
