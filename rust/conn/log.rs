// SPDX-License-Identifier: GPL-2.0

//! Log lines to the consumer (cifs or ksmbd), which decides what is printed and where.
//!
//! The consumer's gate is asked before anything is formatted. Facts every administrator needs once
//! go to the kernel log directly; nothing on the data path logs unless something is wrong.

use super::connection::Connection;
use kernel::fmt;
use kernel::sync::Arc;

/// How important a line is; values of the consumer's interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Level {
    /// Something failed that should not.
    Error = 0,
    /// All else.
    Info = 1,
}

impl Level {
    /// An error, or else all else.
    pub(crate) fn error_if(error: bool) -> Self {
        match error {
            true => Self::Error,
            false => Self::Info,
        }
    }
}

/// What a line is about; bits of the consumer's interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // The names are those of the interface.
pub(crate) enum Class {
    Send = 0x10,
    Event = 0x80,
    Mr = 0x100,
    Rw = 0x200,
}

/// Where log lines go. `whose` only tells connections apart.
///
/// # Context
///
/// Any, also with spin locks held.
pub(crate) trait Sink: Send + Sync {
    /// Whether the consumer wants such lines now.
    fn wants(&self, whose: *const Connection, level: Level, class: Class) -> bool;

    /// Hands over a line, without newline.
    fn print(
        &self,
        whose: *const Connection,
        level: Level,
        class: Class,
        line: u32,
        text: fmt::Arguments<'_>,
    );
}

/// How many error lines there may be: a peer must not fill the log (R47).
pub(crate) struct Limiter {
    window_start: u64,
    lines: u32,
}

impl Limiter {
    /// Length of a window, milliseconds.
    const WINDOW: u64 = 5000;
    /// Error lines in a window, of all connections together.
    const LINES: u32 = 20;

    /// No line in this window yet.
    pub(crate) const fn new() -> Self {
        Self {
            window_start: 0,
            lines: 0,
        }
    }

    /// Whether one more line is allowed at `now`, in milliseconds.
    pub(crate) fn allows(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.window_start) >= Self::WINDOW {
            *self = Self {
                window_start: now,
                lines: 0,
            };
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= Self::LINES
    }
}

/// A sink that may be shared with a listener's children.
pub(crate) type SharedSink = Arc<dyn Sink>;

/// Logs a line of a connection: `log!(connection, Error, Event, "text {}", value)`. A level that is known
/// only at run time stands in parentheses.
macro_rules! log {
    ($connection:expr, $level:ident, $class:ident, $($text:tt)+) => {
        $crate::conn::log::log!($connection, ($crate::conn::log::Level::$level), $class, $($text)+)
    };
    ($connection:expr, ($level:expr), $class:ident, $($text:tt)+) => {{
        let (sink, whose) = ($connection.sink(), $connection.address());
        let (level, class) = ($level, $crate::conn::log::Class::$class);
        let wanted = sink.filter(|sink| sink.wants(whose, level, class));
        if let Some(sink) = wanted.filter(|_| $connection.may_log(level)) {
            sink.print(whose, level, class, line!(), kernel::prelude::fmt!($($text)+));
        }
    }};
}
pub(crate) use log;
