// SPDX-License-Identifier: GPL-2.0

//! Listening: the queue of children and their hand-over.
//!
//! A child belongs to exactly one party at any time: the queue, its reap work, or whoever
//! accepted it; changing hands is taking its [`Socket`] out of the queue under the queue's lock.
//! A child that fails while it is queued is torn down by its reap work at once and counts against the
//! backlog until that is done (R1, R2).

use super::connection::{Connection, REAP};
use super::log::log;
use super::socket::Socket;
use crate::kern::errno::{ECONNABORTED, ETIMEDOUT};
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::noio::NoIo;
use crate::kern::task;
use crate::kern::time::{jiffies, now_ms};
use crate::kern::wait::{new_wait_queue, Interrupted, Signals, WaitQueue};
use crate::kern::work::{Run, Work};
use crate::proto::cause::Cause;
use crate::proto::state::Status;
use crate::rdma::cm::{ConnectRequest, Event, EventKind};
use kernel::ffi::{c_int, c_long};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// The most children a listener queues, as many as the kernel's TCP listeners by default.
const MAX_BACKLOG: usize = 4096;

/// How long a thread whose listener ended is kept for the one who stops it, milliseconds.
const STOP_MS: u32 = 1000;

/// Where a queued child is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Connecting or negotiating.
    Pending,
    /// To be accepted.
    Ready,
    /// Waiting for its reap work.
    Doomed,
}

struct Child {
    socket: Socket,
    stage: Stage,
}

/// The children, under the queue's lock.
struct Children {
    backlog: usize,
    queued: KVVec<Child>,
    /// Children out of the queue whose teardown still runs.
    reaping: usize,
}

impl Children {
    fn position(&self, child: &Arc<Connection>) -> Option<usize> {
        self.queued
            .iter()
            .position(|queued| queued.socket.is(child))
    }

    fn take(&mut self, at: usize) -> Option<Socket> {
        self.queued.remove(at).ok().map(|child| child.socket)
    }
}

/// The queue of a listener's children.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    children: IrqLock<Children>,
    /// Waiting for a child that is ready, or for the queue to become empty.
    #[pin]
    pub(crate) ready: WaitQueue,
}

impl Queue {
    /// The queue of a connection that does not listen: nothing fits.
    pub(crate) fn new() -> impl PinInit<Self> {
        let none = Children {
            backlog: 0,
            queued: KVVec::new(),
            reaping: 0,
        };
        pin_init!(Self {
            children <- new_irq_lock!(none, c"Queue::children"),
            ready <- new_wait_queue!(c"Queue::ready"),
        })
    }

    fn set_backlog(&self, backlog: usize) -> Result {
        let queued = KVVec::with_capacity(backlog, GFP_KERNEL)?;
        let mut children = self.children.lock();
        children.backlog = backlog;
        let old = core::mem::replace(&mut children.queued, queued);
        drop(children);
        drop(old);
        Ok(())
    }

    /// Whether one more child fits.
    fn has_room(&self) -> bool {
        let children = self.children.lock();
        children.queued.len().saturating_add(children.reaping) < children.backlog
    }

    /// Queues a child that is pending; hands it back when the queue is full.
    fn push(&self, socket: Socket) -> Result<(), Socket> {
        let mut children = self.children.lock();
        if children.queued.len().saturating_add(children.reaping) >= children.backlog {
            return Err(socket);
        }
        let child = Child {
            socket,
            stage: Stage::Pending,
        };
        children
            .queued
            .push_within_capacity(child)
            .map_err(|error| error.0.socket)
    }

    /// Marks a pending child as ready.
    fn set_ready(&self, child: &Arc<Connection>) {
        let mut children = self.children.lock();
        if let Some(at) = children.position(child) {
            match children.queued.get_mut(at) {
                Some(queued) if queued.stage == Stage::Pending => queued.stage = Stage::Ready,
                _ => {}
            }
        }
        drop(children);
        self.ready.wake_all();
    }

    /// Takes the oldest ready child, and tells whether another one is ready.
    fn take_ready(&self) -> Option<(Socket, bool)> {
        let mut children = self.children.lock();
        let at = children
            .queued
            .iter()
            .position(|child| child.stage == Stage::Ready)?;
        let socket = children.take(at)?;
        let more = children
            .queued
            .iter()
            .any(|child| child.stage == Stage::Ready);
        Some((socket, more))
    }

    /// Marks a failed child for its reap work; false when the queue does not own it.
    fn doom(&self, child: &Arc<Connection>) -> bool {
        let mut children = self.children.lock();
        let Some(at) = children.position(child) else {
            return false;
        };
        match children.queued.get_mut(at) {
            Some(queued) if queued.stage != Stage::Doomed => {
                queued.stage = Stage::Doomed;
                true
            }
            _ => false,
        }
    }

    /// Takes a doomed child out for its teardown.
    fn take_doomed(&self, child: &Arc<Connection>) -> Option<Socket> {
        let mut children = self.children.lock();
        let at = children.position(child)?;
        children.reaping = children.reaping.saturating_add(1);
        children.take(at)
    }

    fn reaped(&self) {
        let mut children = self.children.lock();
        children.reaping = children.reaping.saturating_sub(1);
        drop(children);
        self.ready.wake_all();
    }

    /// Takes any child that is not doomed.
    fn take_any(&self) -> Option<Socket> {
        let mut children = self.children.lock();
        let at = children
            .queued
            .iter()
            .position(|child| child.stage != Stage::Doomed)?;
        children.take(at)
    }

    /// A queued child without an error.
    fn live_child(&self) -> Option<Arc<Connection>> {
        let children = self.children.lock();
        let mut all = children
            .queued
            .iter()
            .map(|child| child.socket.connection());
        all.find(|child| !child.is_dead()).cloned()
    }

    /// Whether this is the queue of a listener.
    pub(crate) fn is_used(&self) -> bool {
        self.children.lock().backlog > 0
    }

    fn is_empty(&self) -> bool {
        let children = self.children.lock();
        children.queued.is_empty() && children.reaping == 0
    }
}

impl Run<REAP> for Connection {
    fn run(this: Arc<Self>) {
        let parent = this.parent.lock().take();
        let Some(parent) = parent else { return };
        let Some(socket) = parent.children.take_doomed(&this) else {
            return;
        };
        drop(socket);
        drop(this);
        parent.children.reaped();
    }
}

impl Connection {
    /// Starts listening with room for `backlog` children, at most [`MAX_BACKLOG`].
    ///
    /// # Errors
    ///
    /// `-EINVAL` for a negative backlog, after an error, or when not fresh; or what the connection
    /// manager says, which is the end of the socket.
    pub(crate) fn listen(self: &Arc<Self>, backlog: c_int) -> Result {
        let room = usize::try_from(backlog).map_err(|_| EINVAL)?;
        let room = room.clamp(1, MAX_BACKLOG);
        let state = self.state();
        if state.first_error().is_some() || state.status() != Status::Created {
            return Err(EINVAL);
        }
        let id = self.id().ok_or(EINVAL)?;
        self.children.set_backlog(room)?;
        self.advance(Status::Listening).map_err(|_| EINVAL)?;
        id.listen(c_int::try_from(room)?).inspect_err(|error| {
            self.fail_as(
                Cause::Step("cannot listen", error.to_errno()),
                Some(Status::Disconnected),
            );
        })
    }

    /// An event on a listening id.
    pub(crate) fn listener_event(self: &Arc<Self>, event: &Event<'_>) {
        if event.kind == EventKind::DeviceRemoval {
            // The device the listener was bound to is going, and its id with it.
            self.fail(Cause::DeviceRemoved(event.status));
            return;
        }
        log!(
            self,
            Info,
            Event,
            "event {:?} on a listener ignored",
            event.kind
        );
    }

    /// Somebody wants to connect. In the listener's handler.
    ///
    /// # Errors
    ///
    /// `-EPROTONOSUPPORT`, `-EBUSY`, `-ENOMEM`: the request is rejected.
    pub(crate) fn admit(self: &Arc<Self>, request: &ConnectRequest<'_>) -> Result {
        if self.state().status() != Status::Listening {
            return Err(ECONNABORTED.into());
        }
        let params = self.params.get();
        Self::check_device(&params, &request.limits(), request.link()).map_err(|cause| {
            log!(self, Info, Event, "request to connect refused: {}", cause);
            crate::kern::errno::error(cause.errno())
        })?;
        if !self.children.has_room() {
            return Err(EBUSY);
        }
        let child = Connection::new(&self.shared)?;
        // From here on the child is torn down when this is dropped.
        let socket = Socket::new(child.clone());
        child.params.set(params);
        child
            .poll_context
            .store(self.poll_context.load(Relaxed), Relaxed);
        if let Some(sink) = self.sink() {
            child.set_sink(sink.clone());
        }
        *child.parent.lock() = Some(self.clone());
        // As soon as the child is queued it may fail and be reaped. Its teardown takes the id under
        // this mutex, so it waits until there is one, and then for the end of this handler.
        let mut id_slot = child.id.lock();
        if let Err(socket) = self.children.push(socket) {
            drop(id_slot);
            drop(socket);
            return Err(EBUSY);
        }
        // Teardown, which write-back may wait for, takes the same mutex.
        let scope = NoIo::enter();
        let adopted = request.adopt(child.clone());
        drop(scope);
        let id = match adopted {
            Ok(id) => id,
            Err(error) => {
                drop(id_slot);
                child.fail(error.into());
                return Err(error);
            }
        };
        *id_slot = Some(id.clone());
        drop(id_slot);
        if let Err(cause) = child.accept_request(&id, request.link(), &request.event) {
            // The id is the child's now: reject here, the reap work destroys it.
            let _ = id.reject();
            child.fail(cause);
        }
        Ok(())
    }

    /// A child finished its negotiation.
    pub(crate) fn child_ready(self: &Arc<Self>) {
        let parent = self.parent.lock().clone();
        if let Some(parent) = parent {
            parent.children.set_ready(self);
        }
    }

    /// Hands a failed child to its reap work, if its listener still owns it.
    pub(crate) fn reap_child(self: &Arc<Self>) {
        let parent = self.parent.lock().clone();
        if parent.is_some_and(|parent| parent.children.doom(self)) {
            Work::<Self, REAP>::queue(self, &self.shared.queues.reap);
        }
    }

    /// Passes the listener's error to its children.
    pub(crate) fn fail_children(&self) {
        let Some(errno) = self.state().first_error() else {
            return;
        };
        while let Some(child) = self.children.live_child() {
            child.fail(Cause::ListenerGone(errno));
        }
    }

    /// Tears down every child of a listener whose id is silent.
    pub(crate) fn drop_children(&self) {
        while let Some(socket) = self.children.take_any() {
            *socket.connection().parent.lock() = None;
            drop(socket);
        }
        let _ = self.children.ready.wait(Signals::Ignore, None, || {
            self.children.is_empty().then_some(())
        });
    }

    /// ksmbd ends its listener, and then stops the thread that waits here, which ends by itself when it hears of
    /// the former. If it is gone by then the kernel crashes in `kthread_stop()`. So who waited without a limit is
    /// kept for a moment, until it is told to stop.
    fn let_be_stopped(&self, timeout: Option<c_long>) {
        if timeout.is_none() {
            let limit = jiffies(STOP_MS).try_into().ok();
            let told = || task::may_end().then_some(());
            let _ = self.children.ready.wait(Signals::Ignore, limit, told);
        }
    }

    /// Waits for a child and completes its negotiation; also tells whether more are ready.
    /// `timeout` is in jiffies, [`None`] waits for ever.
    ///
    /// # Errors
    ///
    /// * `-EINVAL`: the listener is finished; nothing else gives this.
    /// * `-EAGAIN`: no child is ready and the timeout is zero. `-ETIMEDOUT`. `-ERESTARTSYS`.
    pub(crate) fn accept(self: &Arc<Self>, timeout: Option<c_long>) -> Result<(Socket, bool)> {
        let start = now_ms();
        loop {
            let left = timeout.map(|timeout| {
                let spent = u32::try_from(now_ms().saturating_sub(start)).unwrap_or(u32::MAX);
                timeout
                    .saturating_sub(jiffies(spent).try_into().unwrap_or(c_long::MAX))
                    .max(0)
            });
            let outcome = self.children.ready.wait(Signals::Heed, left, || {
                if self.state().status() != Status::Listening {
                    return Some(Err(EINVAL));
                }
                self.children.take_ready().map(Ok)
            });
            let (socket, more) = match outcome {
                Ok(Err(error)) => {
                    self.let_be_stopped(timeout);
                    return Err(error);
                }
                Ok(Ok(ready)) => ready,
                Err(Interrupted::TimedOut) if timeout == Some(0) => return Err(EAGAIN),
                Err(Interrupted::TimedOut) => return Err(ETIMEDOUT.into()),
                Err(Interrupted::Signal) => return Err(ERESTARTSYS),
            };
            let child = socket.connection();
            *child.parent.lock() = None;
            if child.complete_accept().is_ok() {
                return Ok((socket, more));
            }
            // Dead or dying: skipped (R3). Dropping the socket tears it down here.
        }
    }
}
