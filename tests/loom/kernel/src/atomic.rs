// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic` on loom's atomics.
//!
//! `Relaxed`, `Acquire` and `Release` mean the same in the kernel's memory model and in C11, which is
//! loom's, as far as these files use them. `Full` has no equal in C11. A fully ordered
//! read-modify-write of the kernel is as good as a full barrier before it and one after it; C11's
//! `SeqCst` operation is less, and loom makes even less of it, no more than `AcqRel`. Barriers loom
//! does model. So it is a sequentially consistent fence, the operation, and another fence.
//!
//! A compare-and-exchange that fails orders nothing; its load is relaxed. Whether it will fail is
//! not known before the first fence. So the value is looked at first: if it differs, the operation
//! has failed with a relaxed load, and no fence was executed.
//!
//! loom explores the executions of the C11 model, except those where loads read from stores that come
//! later in another order (load buffering). Dependencies order nothing for it, which is the careful
//! side.
//!
//! loom tries another order of two steps if one of them may depend on the other. It finds out by a
//! look at the latest access only, and a load depends on no load. So a task's own load hides that an
//! earlier load of another task meets the store that now follows: "load, then compare and exchange"
//! would never be tried before that load. [`Step`] makes every access depend on every other.

use crate::weaken::{holds, Ordered};
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::{fence, Ordering};

/// No ordering.
pub struct Relaxed;
/// What follows stays behind the load.
pub struct Acquire;
/// What precedes stays before the store.
pub struct Release;
/// Fully ordered.
pub struct Full;

/// An ordering of a load or a store.
pub trait Simple {
    /// What it is for loom.
    fn ordering() -> Ordering;
}

impl Simple for Relaxed {
    fn ordering() -> Ordering {
        Ordering::Relaxed
    }
}

impl Simple for Acquire {
    fn ordering() -> Ordering {
        weakened(Ordered::Acquire, Ordering::Acquire)
    }
}

impl Simple for Release {
    fn ordering() -> Ordering {
        weakened(Ordered::Release, Ordering::Release)
    }
}

fn weakened(ordered: Ordered, ordering: Ordering) -> Ordering {
    match holds(ordered) {
        true => ordering,
        false => Ordering::Relaxed,
    }
}

/// The ordering of a read-modify-write.
pub trait Modify {
    /// Runs the operation with the ordering it gets, and what else belongs to the ordering.
    fn run<R>(operation: impl FnOnce(Ordering) -> R) -> R;
}

macro_rules! simple_modify {
    ($($name:ident)*) => {$(
        impl Modify for $name {
            fn run<R>(operation: impl FnOnce(Ordering) -> R) -> R {
                operation(Self::ordering())
            }
        }
    )*};
}
simple_modify!(Relaxed Acquire Release);

impl Modify for Full {
    fn run<R>(operation: impl FnOnce(Ordering) -> R) -> R {
        if !holds(Ordered::Full) {
            return operation(Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        let result = operation(Ordering::AcqRel);
        fence(Ordering::SeqCst);
        result
    }
}

/// The types there are atomics of, with loom's operations on them.
#[allow(missing_docs)]
pub trait AtomicType: Copy + Eq {
    type Model;
    fn model(self) -> Self::Model;
    fn load(model: &Self::Model, ordering: Ordering) -> Self;
    fn store(self, model: &Self::Model, ordering: Ordering);
    fn swap(self, model: &Self::Model, ordering: Ordering) -> Self;
    fn exchange(self, old: Self, model: &Self::Model, ordering: Ordering) -> Result<Self, Self>;
    fn add(self, model: &Self::Model, ordering: Ordering) -> Self;
    fn sub(self, model: &Self::Model, ordering: Ordering) -> Self;
}

macro_rules! atomic_types {
    ($($type:ident $model:ident)*) => {$(
        impl AtomicType for $type {
            type Model = loom::sync::atomic::$model;
            fn model(self) -> Self::Model {
                Self::Model::new(self)
            }
            fn load(model: &Self::Model, ordering: Ordering) -> Self {
                model.load(ordering)
            }
            fn store(self, model: &Self::Model, ordering: Ordering) {
                model.store(self, ordering);
            }
            fn swap(self, model: &Self::Model, ordering: Ordering) -> Self {
                model.swap(self, ordering)
            }
            fn exchange(self, old: Self, model: &Self::Model, ordering: Ordering) -> Result<Self, Self> {
                model.compare_exchange(old, self, ordering, Ordering::Relaxed)
            }
            fn add(self, model: &Self::Model, ordering: Ordering) -> Self {
                model.fetch_add(self, ordering)
            }
            fn sub(self, model: &Self::Model, ordering: Ordering) -> Self {
                model.fetch_sub(self, ordering)
            }
        }
    )*};
}
atomic_types!(i32 AtomicI32 u32 AtomicU32 u64 AtomicU64 usize AtomicUsize);

/// Goes with an atomic: a step that orders nothing and depends on every other step of the atomic.
pub(crate) struct Step(AtomicUsize);

impl Step {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Before each access. Nobody ever loads what is stored, so it synchronises with nothing.
    pub(crate) fn take(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A memory location which can be modified from several contexts.
pub struct Atomic<T: AtomicType> {
    model: T::Model,
    step: Step,
}

impl<T: AtomicType> Atomic<T> {
    /// A new atomic. Not `const` as in the kernel, since loom's are not.
    pub fn new(value: T) -> Self {
        Self {
            model: value.model(),
            step: Step::new(),
        }
    }

    /// The model, for one access.
    fn access(&self) -> &T::Model {
        self.step.take();
        &self.model
    }

    /// Loads the value.
    pub fn load<O: Simple>(&self, _: O) -> T {
        T::load(self.access(), O::ordering())
    }

    /// Stores a value.
    pub fn store<O: Simple>(&self, value: T, _: O) {
        value.store(self.access(), O::ordering());
    }

    /// Stores a value and returns the old one.
    pub fn xchg<O: Modify>(&self, value: T, _: O) -> T {
        O::run(|ordering| value.swap(self.access(), ordering))
    }

    /// Stores `new` if the value is `old`; returns the value there was.
    pub fn cmpxchg<O: Modify>(&self, old: T, new: T, _: O) -> Result<T, T> {
        let value = T::load(self.access(), Ordering::Relaxed);
        if value != old {
            return Err(value);
        }
        O::run(|ordering| new.exchange(old, self.access(), ordering))
    }

    /// Adds, wrapping; returns the old value.
    pub fn fetch_add<O: Modify>(&self, value: T, _: O) -> T {
        O::run(|ordering| value.add(self.access(), ordering))
    }

    /// Subtracts, wrapping; returns the old value.
    pub fn fetch_sub<O: Modify>(&self, value: T, _: O) -> T {
        O::run(|ordering| value.sub(self.access(), ordering))
    }
}
