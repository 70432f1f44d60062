// SPDX-License-Identifier: GPL-2.0

//! The connection object: its parts and its state.
//!
//! The state is one atomic word ([`StateWord`]). The first error is part of it and sticks; see
//! [`end`](super::end).

use super::connector::Connector;
use super::credit::Flow;
use super::listen::Queue;
use super::log::{Level, SharedSink};
use super::mr::Pool;
use super::negotiate::Negotiation;
use super::recv::{Reader, Receive};
use super::right::Right;
use super::send::Building;
use super::shared::Shared;
use super::transfer::Transfers;
use super::word::StateWord;
use crate::kern::counters::counters;
use crate::kern::errno::ENOTCONN;
use crate::kern::flag::Flag;
use crate::kern::gauge::Gauge;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use crate::kern::published::Published;
use crate::kern::time::now_ms;
use crate::kern::wait::{new_wait_queue, WaitQueue};
use crate::kern::work::{impl_has_work, new_work, Work};
use crate::proto::cause::End;
use crate::proto::negotiate::Negotiated;
use crate::proto::params::Parameters;
use crate::proto::state::{Event, State, Status};
use crate::rdma::cm::CmId;
use crate::rdma::device::Link;
use crate::rdma::qp::Qp;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_mutex, Arc, Mutex, SetOnce};

/// The work that follows the first error.
pub(crate) const CLEANUP: u64 = 0;
/// The process-context half of the negotiation.
pub(crate) const SETUP: u64 = 1;
/// The phase and keepalive timer.
pub(crate) const TIMER: u64 = 2;
/// The teardown of a child nobody accepted.
pub(crate) const REAP: u64 = 3;

counters! {
    /// What happened on a connection; some of it is in the DebugData text.
    pub(crate) struct Statistics {
        /// Receive buffers taken from the free list.
        taken_receives,
        /// Receive buffers returned to it.
        returned_receives,
        /// Messages without data attempted.
        empty_sends,
        /// Messages without data received.
        empty_receives,
        /// Buffers appended to the reassembly queue.
        enqueued,
        /// Buffers of it fully consumed.
        dequeued,
        /// Bytes copied into messages, and out of them.
        bytes_sent,
        bytes_received,
        /// Credits given to the peer.
        credits_granted,
        /// Those among them that messages without data gave.
        credits_granted_alone,
        /// Credits the peer has used.
        credits_used,
        /// Registrations the peer invalidated.
        invalidated_by_peer,
        /// Waits for the right to send, which others have, and their time in microseconds.
        waits_for_turn,
        waits_for_turn_us,
        /// Waits for a send credit or a send buffer.
        waits_for_credit,
        waits_for_credit_us,
        /// Waits for room in the send queue.
        waits_for_room,
        waits_for_room_us,
        /// Waits for a memory region.
        waits_for_region,
        waits_for_region_us,
        /// Waits of a server's transfer for contexts, or for its turn to take them.
        waits_for_contexts,
        waits_for_contexts_us,
    }
}

/// One end of an SMB Direct connection, or a listener.
///
/// The order of the fields is their drop order: what uses the device before the id that keeps it.
#[pin_data]
pub(crate) struct Connection {
    /// Status, facts and first error.
    #[pin]
    pub(crate) word: StateWord,
    /// The parameters, as the consumer may read them at any time.
    #[pin]
    pub(crate) params: Published<Parameters>,
    /// Where receives are handled, an `enum ib_poll_context`.
    pub(crate) poll_context: Atomic<u32>,
    /// What happened so far.
    pub(crate) statistics: Statistics,

    /// Result of the negotiation; also the mark that data messages are expected.
    pub(crate) negotiated: SetOnce<Negotiated>,
    /// How the port carries RDMA, and the pages a registration takes.
    pub(crate) link: SetOnce<Link>,
    /// The negotiation while it runs.
    #[pin]
    pub(crate) negotiation: IrqLock<Negotiation>,

    /// Credits, timers and owed answers.
    #[pin]
    pub(crate) flow: IrqLock<Flow>,
    /// The right to send, with the messages under construction.
    #[pin]
    pub(crate) right: Right<KBox<Building>>,
    /// Completions that made room in the send queue so far; a change tells a waiter to try again.
    pub(crate) rooms: Atomic<u64>,
    /// Receive buffers: free ones and those with data.
    #[pin]
    pub(crate) receive: IrqLock<Receive>,
    /// Whether the peer broke a rule: nothing it sends counts any more (R26).
    pub(crate) broken: Flag,
    /// Payload bytes that are queued for the reader.
    #[pin]
    pub(crate) queued: Gauge,
    /// The reader's place in the queue.
    #[pin]
    pub(crate) reader: Mutex<Reader>,

    /// Memory regions of the client.
    #[pin]
    pub(crate) pool: Pool,
    /// RDMA transfers of the server.
    #[pin]
    pub(crate) transfers: Transfers,
    /// Children of a listener.
    #[pin]
    pub(crate) children: Queue,
    /// The listener of a child that is not accepted yet.
    #[pin]
    pub(crate) parent: IrqLock<Option<Arc<Connection>>>,

    /// Waiting for the right to send, a credit, or room in the send queue.
    #[pin]
    pub(crate) send_wait: WaitQueue,

    /// See [`CLEANUP`].
    #[pin]
    pub(crate) cleanup_work: Work<Connection, CLEANUP>,
    /// See [`SETUP`].
    #[pin]
    pub(crate) setup_work: Work<Connection, SETUP>,
    /// See [`TIMER`].
    #[pin]
    pub(crate) timer_work: Work<Connection, TIMER>,
    /// See [`REAP`].
    #[pin]
    pub(crate) reap_work: Work<Connection, REAP>,

    sink: SetOnce<SharedSink>,
    /// Where an initiator connects to.
    pub(crate) destination: SetOnce<SocketAddr>,
    /// How it ended.
    #[pin]
    pub(crate) end: IrqLock<Option<End>>,
    /// Whether the end was told.
    pub(crate) reported: Flag,
    /// Whether the disconnect handshake was begun or answered.
    pub(crate) disconnect_sent: Flag,
    /// Whether a consumer holds the socket.
    pub(crate) given: Flag,
    /// Whether the teardown has begun.
    pub(crate) torn_down: Flag,
    /// The queue pair, from the route or the request on; it holds this object until closed.
    pub(crate) qp: SetOnce<Arc<Qp<Connection>>>,
    /// The id, until the teardown takes it; it holds this object until silenced.
    #[pin]
    pub(crate) id: Mutex<Option<Arc<CmId<Connection>>>>,
    /// Sends the request over iWARP; its thread holds this object.
    #[pin]
    pub(crate) connector: Connector,
    /// What all connections share.
    pub(crate) shared: Arc<Shared>,
}

impl_has_work! {
    impl HasWork<CLEANUP> for Connection { self.cleanup_work }
    impl HasWork<SETUP> for Connection { self.setup_work }
    impl HasWork<TIMER> for Connection { self.timer_work }
    impl HasWork<REAP> for Connection { self.reap_work }
}

/// Completions are handled in an unbound workqueue unless the consumer says otherwise.
const DEFAULT_POLL_CONTEXT: u32 = 2;

impl Connection {
    /// An object without id, on the module's list. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Arc<Self>> {
        let shared = shared.clone();
        let connection = Arc::pin_init(
            pin_init!(Self {
                word <- StateWord::new(),
                params <- Published::new(Parameters::ZERO),
                poll_context: Atomic::new(DEFAULT_POLL_CONTEXT),
                statistics: Statistics::new(),
                negotiated: SetOnce::new(),
                link: SetOnce::new(),
                negotiation <- new_irq_lock!(Negotiation::new(), c"Connection::negotiation"),
                flow <- new_irq_lock!(Flow::new(), c"Connection::flow"),
                right <- Right::new(),
                rooms: Atomic::new(0),
                receive <- new_irq_lock!(Receive::new(), c"Connection::receive"),
                broken: Flag::new(),
                queued <- Gauge::new(),
                reader <- new_mutex!(Reader::new(), "Connection::reader"),
                pool <- Pool::new(),
                transfers <- Transfers::new(),
                children <- Queue::new(),
                parent <- new_irq_lock!(None, c"Connection::parent"),
                send_wait <- new_wait_queue!(c"Connection::send_wait"),
                cleanup_work <- new_work!(c"Connection::cleanup_work"),
                setup_work <- new_work!(c"Connection::setup_work"),
                timer_work <- new_work!(c"Connection::timer_work"),
                reap_work <- new_work!(c"Connection::reap_work"),
                sink: SetOnce::new(),
                destination: SetOnce::new(),
                end <- new_irq_lock!(None, c"Connection::end"),
                reported: Flag::new(),
                disconnect_sent: Flag::new(),
                given: Flag::new(),
                torn_down: Flag::new(),
                qp: SetOnce::new(),
                id <- new_mutex!(None, "Connection::id"),
                connector <- Connector::new(),
                shared,
            }),
            GFP_KERNEL,
        )?;
        connection.shared.add(&connection)?;
        Ok(connection)
    }

    /// Sends log lines to `sink` from now on. Only the first call counts.
    pub(crate) fn set_sink(&self, sink: SharedSink) {
        self.sink.populate(sink);
    }

    /// Where log lines go, if the consumer has said.
    pub(crate) fn sink(&self) -> Option<&SharedSink> {
        self.sink.as_ref()
    }

    /// Whether a line of this level may be logged now. Any context.
    pub(crate) fn may_log(&self, level: Level) -> bool {
        level != Level::Error || self.shared.limiter.lock().allows(now_ms())
    }

    /// What the consumer knows the connection by, for its callbacks.
    pub(crate) fn address(&self) -> *const Self {
        self
    }

    /// The state word. Any context, no lock.
    pub(crate) fn state(&self) -> State {
        self.word.get()
    }

    /// Applies an event to the state and wakes who waits for one; [`None`] when it changed nothing.
    /// Any context.
    pub(crate) fn on(&self, event: Event) -> Option<(State, State)> {
        self.word.on(event)
    }

    /// Takes a step forward.
    ///
    /// # Errors
    ///
    /// The first error, or `-ECONNABORTED` when the step does not fit the status.
    pub(crate) fn advance(&self, to: Status) -> Result {
        match self.on(Event::Advance(to)) {
            Some(_) => Ok(()),
            None => Err(self.error()),
        }
    }

    /// Whether data may flow. Any context.
    pub(crate) fn is_connected(&self) -> bool {
        self.state().is_connected()
    }

    /// Whether the connection is over or going to be. Any context.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().first_error().is_some()
    }

    /// The first error, or `-ECONNABORTED` if there is none.
    pub(crate) fn error(&self) -> Error {
        crate::kern::errno::error(self.state().first_error().unwrap_or(0))
    }

    /// Fails with `-ENOTCONN` unless data may flow.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN`.
    pub(crate) fn require_connected(&self) -> Result {
        if self.is_connected() {
            Ok(())
        } else {
            Err(ENOTCONN.into())
        }
    }

    /// Wakes everybody who waits for anything of this connection. Any context.
    pub(crate) fn wake_all(&self) {
        self.word.wake();
        self.send_wait.wake_all();
        self.queued.wake();
        self.pool.ready.wake_all();
        self.transfers.wait.wake_all();
        self.children.ready.wake_all();
    }

    /// The id, while there is one. Sleeps.
    pub(crate) fn id(&self) -> Option<Arc<CmId<Self>>> {
        self.id.lock().clone()
    }

    /// The queue pair, once there is one.
    pub(crate) fn qp(&self) -> Option<&Arc<Qp<Self>>> {
        self.qp.as_ref()
    }
}
