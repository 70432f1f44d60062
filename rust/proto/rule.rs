// SPDX-License-Identifier: GPL-2.0
//! Names of the protocol rules that a peer can break.
//!
//! Each variant is one rule id of `Documentation/protocol.rst`. A broken rule ends at most the one
//! connection it was seen on; the id and its sentence go into the one log line, the
//! [index](Rule::index) selects the counter. Two ids are *notes*: the connection lives
//! on (see [`Rule::is_note`]).

/// Builds the enum and its tables from one list, so that they cannot drift apart.
macro_rules! rules {
    ($($(#[$note:meta])* $id:ident: $text:literal,)*) => {
        /// A protocol rule, by its id.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = $text] $id,)*
        }

        impl Rule {
            /// All rules, in the order of their [indices](Rule::index).
            pub const ALL: &'static [Rule] = &[$(Rule::$id,)*];

            /// Number of rules; the size of a table of counters.
            pub const COUNT: usize = Rule::ALL.len();

            /// The id, as the documentation writes it.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Rule::$id => stringify!($id),)*
                }
            }

            /// One short sentence for the log line, without a full stop.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Rule::$id => $text,)*
                }
            }
        }
    };
}

rules! {
    U1: "SMB Direct port and kind of RDMA port do not belong together",
    E3: "no valid negotiate request in time",
    E7: "connection manager event that does not fit the state",
    Q1: "negotiate request shorter than 20 bytes",
    Q2: "version range of the negotiate request excludes 1.0",
    Q3: "negotiate request asks for no credits",
    Q4: "negotiate request offers a receive size below 128 bytes",
    Q5: "negotiate request offers a fragmented size below 128 KiB",
    A1: "negotiate response shorter than 32 bytes",
    A2: "negotiate response carries an error status or another version",
    A3: "negotiate response offers a size below the protocol's floor",
    A4: "negotiate response grants or requests no credits",
    A5: "negotiate response prefers to send more than we can receive",
    A6: "negotiated read/write size is below one page",
    D1: "data transfer shorter than 20 bytes",
    D2: "data transfer requests no credits",
    D3: "data offset is not a multiple of 8",
    D4: "payload lies outside the received bytes",
    D5: "announced message exceeds the fragmented size",
    D6: "message ends although bytes are still owed",
    D7: "fragment does not continue the announced message",
    D8: "payload overlaps the header",
    D9: "message sent without a credit",
    D12: "empty message inside a fragment train",
    C6: "granted credits saturated",
    K1: "no answer to the keepalive",
    B1: "size of the descriptor array is not a multiple of 16",
    B2: "descriptors do not cover the request",
    B7: "request exceeds the read/write size",
    I4: "invalidated token is no live registration",
    W3: "peer offers no RDMA read depth",
}

impl Rule {
    /// Position in a table of [`Rule::COUNT`] counters.
    pub const fn index(self) -> usize {
        // CAST: a fieldless enum of fewer than 256 variants, numbered from 0 in order.
        self as usize
    }

    /// Whether the connection lives on although the rule is broken: grants beyond the
    /// counter's range (C6) and empty messages between fragments (D12, unless strict mode makes it D6).
    pub const fn is_note(self) -> bool {
        matches!(self, Rule::C6 | Rule::D12)
    }
}
