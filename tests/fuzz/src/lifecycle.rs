// SPDX-License-Identifier: GPL-2.0
//! The connection state under any events in any order (R11, R12).

use crate::input::Input;
use smbdirect_host::proto::state::{Event, State, Status};

/// A connection state; each change of it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle(State);

/// Any events from the fresh socket on, then the way out.
pub fn walk(input: &mut Input<'_>) {
    let mut life = Lifecycle(State::NEW);
    while !input.is_empty() {
        let event = any_event(input);
        life.apply(event);
    }
    life.end();
}

fn any_event(input: &mut Input<'_>) -> Event {
    let [kind, number] = input.array();
    let status = Status::try_from(number % 19).unwrap();
    match kind & 7 {
        0 => Event::Advance(status),
        1 => Event::Fail {
            errno: -i32::from(number),
            forced: (kind & 8 != 0).then_some(Status::try_from((kind >> 4) + 3).unwrap()),
        },
        2 => Event::Established,
        3 => Event::Disconnected,
        4 => Event::Removed,
        5 => Event::Disconnecting,
        6 if kind & 8 == 0 => Event::Closed,
        6 => Event::Destroyed,
        // The next step of either role.
        _ => Event::Advance(Status::try_from((number & 15).min(14)).unwrap()),
    }
}

impl Lifecycle {
    /// A connection that carries data.
    pub fn connected(initiator: bool) -> Self {
        let mut life = Self(State::NEW);
        let steps = if initiator {
            &[2, 3, 5, 6, 8, 9][..]
        } else {
            &[8, 9]
        };
        for &number in steps {
            life.apply(Event::Advance(Status::try_from(number).unwrap()));
        }
        life.apply(Event::Established);
        for number in [11, 12, 14] {
            life.apply(Event::Advance(Status::try_from(number).unwrap()));
        }
        assert!(life.is_alive());
        life
    }

    /// Whether data may flow.
    pub fn is_alive(&self) -> bool {
        self.0.is_connected()
    }

    pub fn apply(&mut self, event: Event) {
        let old = self.0;
        let Some(new) = old.on(event) else {
            if let Event::Fail { .. } = event {
                assert!(old.first_error().is_some(), "a failure without an error");
            }
            return;
        };
        assert_eq!(State::from_raw(new.raw()), new);
        error_is_sticky(old, new, event);
        facts_are_sticky(old, new, event);
        status_goes_on(old, new, event);
        self.0 = new;
    }

    /// The cleanup and the destruction of a connection, from any state.
    pub fn end(&mut self) {
        self.apply(Event::Fail {
            errno: -108,
            forced: None,
        });
        assert!(!self.is_alive());
        if self.0.is_established() {
            self.apply(Event::Disconnecting);
            self.apply(Event::Disconnected);
        } else {
            self.apply(Event::Closed);
        }
        assert!(self.0.is_over(), "nothing is left to wait for");
        self.apply(Event::Destroyed);
        assert_eq!(self.0.status(), Status::Destroyed);
    }
}

fn error_is_sticky(old: State, new: State, event: Event) {
    match (old.first_error(), event) {
        (None, Event::Fail { errno, .. }) => {
            let expected = if errno < 0 { errno } else { -103 };
            assert_eq!(new.first_error(), Some(expected));
        }
        (before, _) => assert_eq!(new.first_error(), before),
    }
    assert!(new.first_error().is_some() || !new.status().is_dead());
}

fn facts_are_sticky(old: State, new: State, event: Event) {
    let facts = |state: State| {
        [
            state.is_established(),
            state.is_disconnected(),
            state.is_removed(),
        ]
    };
    let causes = [Event::Established, Event::Disconnected, Event::Removed];
    for ((before, after), cause) in facts(old).into_iter().zip(facts(new)).zip(causes) {
        assert_eq!(after, before || event == cause);
    }
    let [_, disconnected, removed] = facts(new);
    let live = new.first_error().is_none() && !disconnected && !removed;
    assert_eq!(
        new.is_connected(),
        live && new.status() == Status::Connected
    );
}

fn status_goes_on(old: State, new: State, event: Event) {
    let (before, after) = (old.status(), new.status());
    match event {
        Event::Advance(to) => {
            assert_eq!(after, to);
            assert!(after > before && !after.is_dead());
            assert!(old.first_error().is_none());
            assert!(!old.is_disconnected() && !old.is_removed());
        }
        // Together with the first error a lower dead status may be forced.
        Event::Fail { forced, .. } => {
            assert!(after.is_dead());
            assert!(after >= before || (forced.is_some() && old.first_error().is_none()));
        }
        Event::Destroyed => assert_eq!(before, Status::Disconnected),
        _ => assert!(after >= before),
    }
}
