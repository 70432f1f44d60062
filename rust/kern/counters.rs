// SPDX-License-Identifier: GPL-2.0

//! Sets of counters: a struct of atomics with a name for each, which can be summed up and shown.
//!
//! Each set belongs to one connection, so counting is an atomic addition that only its own contexts
//! contend for; what is shown
//! for the module is the sum of the living and of those that are gone.

/// Declares a set: `counters! { /// Doc. pub(crate) struct Name { /// Doc. field, } }`.
macro_rules! counters {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        // Away from fields that are read on other processors.
        #[repr(align(64))]
        $vis struct $name {
            $($(#[$field_doc])* $vis $field: kernel::sync::atomic::Atomic<u64>,)*
        }

        impl $name {
            /// All zero.
            $vis const fn new() -> Self {
                Self { $($field: kernel::sync::atomic::Atomic::new(0),)* }
            }

            /// Each counter by name. Those of a living set may be from slightly different moments.
            $vis fn each(&self, mut f: impl FnMut(&'static str, u64)) {
                $(f(stringify!($field), self.$field.load(kernel::sync::atomic::Relaxed));)*
            }

            /// Adds the set to a sum.
            $vis fn add_to(&self, sum: &Self) {
                $(
                    let value = self.$field.load(kernel::sync::atomic::Relaxed);
                    sum.$field.add(value, kernel::sync::atomic::Relaxed);
                )*
            }
        }
    };
}
pub(crate) use counters;

/// Counts `by` events. Any context.
pub(crate) fn count(counter: &kernel::sync::atomic::Atomic<u64>, by: u64) {
    counter.add(by, kernel::sync::atomic::Relaxed);
}
