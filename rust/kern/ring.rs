// SPDX-License-Identifier: GPL-2.0

//! A first-in first-out queue of fixed capacity.
//!
//! All memory is reserved at construction, so that queueing works where nothing may be allocated:
//! in completion handlers and under memory pressure.

use kernel::alloc::{flags::GFP_KERNEL, KVVec};
use kernel::error::Result;

/// A queue of at most `capacity` values.
pub(crate) struct Ring<T> {
    slots: KVVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// An empty queue without memory; [`push`](Self::push) refuses everything.
    pub(crate) const fn empty() -> Self {
        Self {
            slots: KVVec::new(),
            head: 0,
            len: 0,
        }
    }

    /// Reserves room for `capacity` values. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            head: 0,
            len: 0,
        })
    }

    /// The number of values queued.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The position of the `nth` value; the capacity is not zero where this is called.
    fn position(&self, nth: usize) -> usize {
        let at = self.head.wrapping_add(nth);
        if at >= self.slots.len() {
            at.wrapping_sub(self.slots.len())
        } else {
            at
        }
    }

    /// Appends a value, or hands it back when the queue is full.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if self.len >= self.slots.len() {
            return Err(value);
        }
        let at = self.position(self.len);
        match self.slots.get_mut(at) {
            Some(slot) => {
                *slot = Some(value);
                self.len += 1;
                Ok(())
            }
            None => Err(value),
        }
    }

    /// Takes the oldest value.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots.get_mut(self.head)?.take();
        self.head = self.position(1);
        self.len -= 1;
        value
    }

    /// The values from the oldest on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|nth| self.slots.get(self.position(nth))?.as_ref())
    }

    /// Takes the oldest value for which `wanted` holds; the others keep their order.
    pub(crate) fn remove(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let nth = self.iter().position(wanted)?;
        let at = self.position(nth);
        let value = self.slots.get_mut(at)?.take();
        for from in nth + 1..self.len {
            let (source, target) = (self.position(from), self.position(from - 1));
            self.slots.swap(source, target);
        }
        self.len -= 1;
        value
    }
}
