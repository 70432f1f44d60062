// SPDX-License-Identifier: GPL-2.0
//! Connection state: the table of the ABI page (section 5), R11 and R12.

mod common;

use common::CONNECT;
use proptest::prelude::*;
use smbdirect_host::proto::errno::*;
use smbdirect_host::proto::state::{Event, State, Status, UnknownStatus};
use std::collections::HashSet;

const FAIL: Event = Event::Fail {
    errno: ECONNRESET,
    forced: None,
};

/// Status after a first cleanup, written down independently from the code.
fn mapped(status: Status) -> Status {
    match status.number() {
        0 | 1 => Status::Disconnected,
        2 | 3 => Status::ResolveAddrFailed,
        5 | 6 => Status::ResolveRouteFailed,
        8 | 9 => Status::RdmaConnectFailed,
        11 | 12 => Status::NegotiateFailed,
        14 => Status::Error,
        _ => status,
    }
}

fn advance(state: State, path: &[Status]) -> State {
    path.iter()
        .fold(state, |state, &to| state.on(Event::Advance(to)).unwrap())
}

/// A state in every live status.
fn live() -> Vec<State> {
    let mut all = vec![State::NEW, advance(State::NEW, &[Status::Listening])];
    for steps in 1..=CONNECT.len() {
        all.push(advance(State::NEW, &CONNECT[..steps]));
    }
    all
}

fn connected() -> State {
    advance(State::NEW, &CONNECT)
        .on(Event::Established)
        .unwrap()
}

fn any_status() -> impl Strategy<Value = Status> {
    (0usize..19).prop_map(|at| Status::ALL[at])
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_status().prop_map(Event::Advance),
        2 => (-200i32..3, proptest::option::of(any_status()))
            .prop_map(|(errno, forced)| Event::Fail { errno, forced }),
        1 => Just(Event::Established),
        1 => Just(Event::Disconnected),
        1 => Just(Event::Removed),
        1 => Just(Event::Disconnecting),
        1 => Just(Event::Closed),
        1 => Just(Event::Destroyed),
    ]
}

#[test]
fn numbers_and_names_are_the_published_ones() {
    let names = "CREATED LISTENING RESOLVE_ADDR_NEEDED RESOLVE_ADDR_RUNNING RESOLVE_ADDR_FAILED \
        RESOLVE_ROUTE_NEEDED RESOLVE_ROUTE_RUNNING RESOLVE_ROUTE_FAILED RDMA_CONNECT_NEEDED \
        RDMA_CONNECT_RUNNING RDMA_CONNECT_FAILED NEGOTIATE_NEEDED NEGOTIATE_RUNNING \
        NEGOTIATE_FAILED CONNECTED ERROR DISCONNECTING DISCONNECTED DESTROYED";
    for (number, name) in (0u8..).zip(names.split_whitespace()) {
        let status = Status::try_from(number).unwrap();
        assert_eq!((status.number(), status.name()), (number, name));
    }
    assert_eq!(Status::try_from(19), Err(UnknownStatus(19)));
}

#[test]
fn a_new_socket_is_created_and_nothing_else() {
    let state = State::NEW;
    assert_eq!(state.status(), Status::Created);
    assert_eq!(state.first_error(), None);
    assert!(!state.is_established() && !state.is_disconnected() && !state.is_removed());
    assert!(!state.is_connected() && !state.is_over());
    assert_eq!(State::from_raw(state.raw()), state);
}

// rules: R11+ R11-
#[test]
fn r11_forward_edges_are_those_of_the_table() {
    let allowed: HashSet<(u8, u8)> = [
        (0, 1),
        (0, 2),
        (0, 8),
        (2, 3),
        (3, 5),
        (5, 6),
        (6, 8),
        (8, 9),
        (9, 11),
        (11, 12),
        (12, 14),
    ]
    .into();
    for from in live() {
        for to in Status::ALL {
            let taken = from.on(Event::Advance(to));
            let edge = (from.status().number(), to.number());
            assert_eq!(taken.is_some(), allowed.contains(&edge), "{edge:?}");
            assert!(taken.is_none_or(|state| state.status() == to));
        }
    }
}

// rules: R11-
#[test]
fn r11_no_success_after_an_error() {
    for from in live() {
        let failed = from.on(FAIL).unwrap();
        for to in Status::ALL {
            assert_eq!(failed.on(Event::Advance(to)), None);
        }
    }
}

// rules: R11+ R11-
#[test]
fn r11_the_first_error_is_sticky() {
    for from in live() {
        let first = from
            .on(Event::Fail {
                errno: ETIMEDOUT,
                forced: None,
            })
            .unwrap();
        assert_eq!(first.first_error(), Some(ETIMEDOUT));
        assert_eq!(first.status(), mapped(from.status()));
        assert_eq!(first.on(FAIL), None, "a second cleanup changes nothing");
    }
}

#[test]
fn a_cleanup_without_errno_is_an_abort() {
    for errno in [0, 1, i32::MAX] {
        let state = State::NEW
            .on(Event::Fail {
                errno,
                forced: None,
            })
            .unwrap();
        assert_eq!(state.first_error(), Some(ECONNABORTED));
    }
    let state = State::NEW
        .on(Event::Fail {
            errno: i32::MIN,
            forced: None,
        })
        .unwrap();
    assert_eq!(state.first_error(), Some(i32::MIN));
}

// rules: R11+
#[test]
fn forced_status_applies_first_or_when_higher() {
    let force = |to| Event::Fail {
        errno: ENETDOWN,
        forced: Some(to),
    };
    let state = connected().on(force(Status::Disconnected)).unwrap();
    assert_eq!(state.status(), Status::Disconnected);
    // Higher than the present one, though not the first error.
    let error = connected().on(FAIL).unwrap();
    let state = error.on(force(Status::Disconnected)).unwrap();
    assert_eq!(
        (state.status(), state.first_error()),
        (Status::Disconnected, Some(ECONNRESET))
    );
    // Lower and not the first.
    assert_eq!(error.on(force(Status::NegotiateFailed)), None);
    // Lower and the first.
    let state = connected().on(force(Status::NegotiateFailed)).unwrap();
    assert_eq!(state.status(), Status::NegotiateFailed);
    // A live status or the end cannot be forced.
    for to in [Status::Connected, Status::Created, Status::Destroyed] {
        assert_eq!(connected().on(force(to)).unwrap().status(), Status::Error);
    }
    // A failed listen.
    let listener = advance(State::NEW, &[Status::Listening]);
    assert_eq!(
        listener.on(force(Status::Disconnected)).unwrap().status(),
        Status::Disconnected
    );
}

#[test]
fn is_connected_needs_the_status_and_no_error() {
    assert!(connected().is_connected());
    assert!(!connected().on(FAIL).unwrap().is_connected());
    assert!(!connected().on(Event::Disconnected).unwrap().is_connected());
    assert!(!connected().on(Event::Removed).unwrap().is_connected());
    assert!(!advance(State::NEW, &CONNECT[..8]).is_connected());
}

// rules: R12+
#[test]
fn r12_the_disconnect_counts_in_whatever_order() {
    for from in live() {
        let before = from.on(Event::Disconnected).unwrap().on(FAIL).unwrap();
        let after = from.on(FAIL).unwrap().on(Event::Disconnected).unwrap();
        assert_eq!(before, after, "{:?}", from.status());
        assert_eq!(before.status(), Status::Disconnected);
        assert!(before.is_over() && before.is_disconnected());
        // Nobody issues a disconnect for what is over.
        assert_eq!(before.on(Event::Disconnecting), None);
        assert_eq!(before.on(Event::Closed), None);
    }
}

// rules: R12-
#[test]
fn r12_no_forward_edge_after_a_fact_against_it() {
    let state = advance(State::NEW, &CONNECT[..8]);
    for fact in [Event::Disconnected, Event::Removed] {
        assert_eq!(
            state
                .on(fact)
                .unwrap()
                .on(Event::Advance(Status::Connected)),
            None
        );
    }
}

// rules: R19+ R19-
#[test]
fn r19_removal_forces_the_end_only_after_establishment() {
    let state = connected().on(Event::Removed).unwrap().on(FAIL).unwrap();
    assert_eq!(state.status(), Status::Disconnected);
    let early = advance(State::NEW, &CONNECT[..2])
        .on(Event::Removed)
        .unwrap()
        .on(FAIL)
        .unwrap();
    assert_eq!(early.status(), Status::ResolveAddrFailed);
    assert_eq!(
        early.on(Event::Closed).unwrap().status(),
        Status::Disconnected
    );
}

// rules: R16+
#[test]
fn cleanup_work_disconnects_what_was_established_and_closes_the_rest() {
    for from in live() {
        assert_eq!(from.on(Event::Disconnecting), None, "needs an error");
        assert_eq!(from.on(Event::Closed), None, "needs an error");
        let failed = from.on(FAIL).unwrap();
        assert_eq!(failed.on(Event::Disconnecting), None, "needs establishment");
        if failed.status() != Status::Disconnected {
            assert_eq!(
                failed.on(Event::Closed).unwrap().status(),
                Status::Disconnected
            );
        }
        let up = failed.on(Event::Established).unwrap();
        assert_eq!(up.on(Event::Closed), None);
    }
    let leaving = connected()
        .on(FAIL)
        .unwrap()
        .on(Event::Disconnecting)
        .unwrap();
    assert_eq!(leaving.status(), Status::Disconnecting);
    assert_eq!(leaving.on(Event::Disconnecting), None);
    // R16: a refused disconnect counts as the event.
    assert_eq!(
        leaving.on(Event::Disconnected).unwrap().status(),
        Status::Disconnected
    );
}

#[test]
fn destroyed_comes_from_disconnected_only() {
    for from in live() {
        assert_eq!(from.on(Event::Destroyed), None);
    }
    let over = State::NEW.on(FAIL).unwrap();
    let end = over.on(Event::Destroyed).unwrap();
    assert_eq!(end.status(), Status::Destroyed);
    assert_eq!(end.on(FAIL), None);
    assert_eq!(
        end.on(Event::Disconnected).map(State::status),
        Some(Status::Destroyed)
    );
}

#[test]
fn a_word_without_status_number_counts_as_destroyed() {
    assert_eq!(State::from_raw(0xff).status(), Status::Destroyed);
}

/// R11 as a model check: the invariants hold in every state that events can reach.
// rules: R11+ R11-
#[test]
fn r11_every_reachable_state_is_sound() {
    let mut events = vec![
        Event::Established,
        Event::Disconnected,
        Event::Removed,
        Event::Disconnecting,
        Event::Closed,
        Event::Destroyed,
    ];
    events.extend(Status::ALL.map(Event::Advance));
    events.push(FAIL);
    events.extend(Status::ALL.map(|to| Event::Fail {
        errno: 0,
        forced: Some(to),
    }));
    let mut seen = HashSet::from([State::NEW.raw()]);
    let mut work = vec![State::NEW];
    while let Some(state) = work.pop() {
        assert!(
            !state.status().is_dead() || state.first_error().is_some(),
            "{state:?}"
        );
        // Teardown always gets through: cleanup, then the disconnect or the close, then the end.
        let mut end = state.on(FAIL).unwrap_or(state);
        for event in [
            Event::Closed,
            Event::Disconnecting,
            Event::Disconnected,
            Event::Destroyed,
        ] {
            end = end.on(event).unwrap_or(end);
        }
        assert_eq!(end.status(), Status::Destroyed, "from {state:?}");
        for &event in &events {
            let Some(next) = state.on(event) else {
                continue;
            };
            assert_ne!(next, state);
            let forced = matches!(
                event,
                Event::Fail {
                    forced: Some(_),
                    ..
                }
            );
            assert!(
                forced || next.status() >= state.status(),
                "{state:?} {event:?}"
            );
            if seen.insert(next.raw()) {
                work.push(next);
            }
        }
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

proptest! {
    // rules: R12+ R12-
    #[test]
    fn r12_facts_and_the_first_error_only_grow(events in prop::collection::vec(any_event(), 0..30)) {
        let mut state = State::NEW;
        for event in events {
            let next = state.on(event).unwrap_or(state);
            prop_assert!(!state.is_established() || next.is_established());
            prop_assert!(!state.is_disconnected() || next.is_disconnected());
            prop_assert!(!state.is_removed() || next.is_removed());
            prop_assert!(state.first_error().is_none() || next.first_error() == state.first_error());
            prop_assert!(!next.is_disconnected() || next.first_error().is_none() || next.is_over());
            state = next;
        }
    }

    // rules: R48-
    #[test]
    fn any_word_can_be_looked_at(raw: u64, event in any_event()) {
        let state = State::from_raw(raw);
        let _ = (state.status(), state.first_error(), state.is_connected(), state.on(event));
    }
}
