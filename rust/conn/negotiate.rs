// SPDX-License-Identifier: GPL-2.0

//! Negotiation: from the established connection to the final parameters, both roles.
//!
//! The completion of the first message only keeps a copy; the setup work judges it in process
//! context, since buffers and memory regions are allocated from its result. At the acceptor the
//! message may complete before the connection manager says "established" (rule E4): whichever comes
//! second starts the work. The acceptor's response goes out when the application accepts (E5).

use super::connection::{Connection, SETUP, TIMER};
use crate::kern::counters::count;
use crate::kern::errno::{ECONNABORTED, ENOBUFS, ENOTCONN};
use crate::kern::noio::NoIo;
use crate::kern::ring::Ring;
use crate::kern::time::{jiffies, now_ms};
use crate::kern::wait::Signals;
use crate::kern::work::{Run, Work};
use crate::proto::cause::{Cause, Request};
use crate::proto::credits::Credits;
use crate::proto::errno;
use crate::proto::keepalive::Action;
use crate::proto::negotiate::{self, Accept, Negotiated};
use crate::proto::pdu::{RESPONSE_LEN, STATUS_INSUFFICIENT_RESOURCES};
use crate::proto::rule::Rule;
use crate::proto::state::Status;
use crate::rdma::post::{Message, PostError};
use crate::rdma::receive::Received;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Memory regions per READ the peer may start at a time: those that are made with a connection. Writes of the peer, which
/// are not limited, may need more, up to what was planned with our own number of READs (P9).
pub(crate) const REGIONS_PER_READ: u32 = 2;

/// Which end of the connection this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that connects.
    Initiator,
    /// The one that listened.
    Acceptor,
}

/// The negotiation while it runs.
pub(crate) struct Negotiation {
    role: Role,
    /// The peer's message, cut to the longest that has a meaning.
    message: Option<([u8; RESPONSE_LEN], usize)>,
    established: bool,
    started: bool,
    /// Memory regions the queue pair was planned for.
    pub(crate) regions: u32,
}

impl Negotiation {
    /// Nothing happened yet.
    pub(crate) fn new() -> Self {
        Self {
            role: Role::Initiator,
            message: None,
            established: false,
            started: false,
            regions: 0,
        }
    }

    /// Which end this is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Says which end this is; before anything can arrive.
    pub(crate) fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Whether both events are there, for the first time.
    fn ready(&mut self) -> bool {
        let ready = self.established && self.message.is_some() && !self.started;
        self.started |= ready;
        ready
    }
}

impl Run<SETUP> for Connection {
    fn run(this: Arc<Self>) {
        // A mount that has to write may wait for this connection.
        let _scope = NoIo::enter();
        let role = this.negotiation.lock().role;
        let result = match role {
            Role::Initiator => this.judge_response(),
            Role::Acceptor => this.judge_request(),
        };
        if let Err(cause) = result {
            this.fail(cause);
        }
    }
}

impl Connection {
    /// The first message completed. Softirq or workqueue.
    pub(crate) fn negotiation_arrived(self: &Arc<Self>, received: Received) {
        let Some(qp) = self.qp() else { return };
        let bytes = qp.received_bytes(&received.slot, received.len);
        let mut copy = [0u8; RESPONSE_LEN];
        for (to, from) in copy.iter_mut().zip(bytes) {
            *to = *from;
        }
        let mut negotiation = self.negotiation.lock();
        if negotiation.message.is_none() {
            negotiation.message = Some((copy, bytes.len().min(RESPONSE_LEN)));
        }
        let ready = negotiation.ready();
        drop(negotiation);
        if ready {
            self.start_setup();
        }
    }

    /// The connection manager said "established".
    pub(crate) fn negotiation_established(self: &Arc<Self>) {
        let mut negotiation = self.negotiation.lock();
        negotiation.established = true;
        let ready = negotiation.ready();
        drop(negotiation);
        if ready {
            self.start_setup();
        }
    }

    fn start_setup(self: &Arc<Self>) {
        let queues = &self.shared.queues;
        let queue = match self.negotiation.lock().role {
            Role::Initiator => &queues.connect,
            Role::Acceptor => &queues.accept,
        };
        Work::<Self, SETUP>::queue(self, queue);
    }

    /// Begins a phase of the set-up that may take `msecs`.
    pub(crate) fn start_phase(self: &Arc<Self>, msecs: u32) {
        let delay = self.flow.lock().keepalive.phase(now_ms(), msecs.into());
        self.start_timer(delay);
    }

    /// (Re)starts the timer.
    pub(crate) fn start_timer(self: &Arc<Self>, delay: u64) {
        let delay = u32::try_from(delay).unwrap_or(u32::MAX);
        Work::<Self, TIMER>::queue_in(self, &self.shared.queues.idle, delay);
    }

    /// Sends the request. The initiator's "established" handler.
    ///
    /// # Errors
    ///
    /// What the queue pair says.
    pub(crate) fn send_request(self: &Arc<Self>) -> Result {
        let params = self.params.get();
        self.advance(Status::NegotiateNeeded)?;
        self.advance(Status::NegotiateRunning)?;
        self.start_phase(params.negotiate_timeout_msec);
        self.post_control(&negotiate::request(&params))?;
        self.negotiation_established();
        Ok(())
    }

    /// Posts a negotiate message, which costs no credit.
    fn post_control(self: &Arc<Self>, bytes: &[u8]) -> Result {
        let qp = self.qp().ok_or(ENOTCONN)?;
        let mut slot = qp.take_send_slot().ok_or(ENOBUFS)?;
        qp.send_bytes(&mut slot)
            .get_mut(..bytes.len())
            .ok_or(EIO)?
            .copy_from_slice(bytes);
        let mut messages = KVec::with_capacity(1, GFP_KERNEL)?;
        messages.push(
            Message {
                slot,
                len: bytes.len(),
            },
            GFP_KERNEL,
        )?;
        qp.post_messages(&mut messages, None, true)
            .map_err(|error| match error {
                PostError::Full => ENOBUFS.into(),
                PostError::Failed(error) => error,
            })
    }

    /// The peer's message.
    fn take_message(&self) -> Result<([u8; RESPONSE_LEN], usize)> {
        Ok(self.negotiation.lock().message.ok_or(ECONNABORTED)?)
    }

    /// The initiator judges the response and becomes connected.
    fn judge_response(self: &Arc<Self>) -> Result<(), Cause> {
        let (bytes, len) = self.take_message()?;
        let own = self.params.get();
        let page = u32::try_from(PAGE_SIZE).map_err(Error::from)?;
        let bytes = bytes.get(..len).ok_or(EIO)?;
        let result =
            negotiate::initiate(bytes, &own, own.max_frmr_depth, page, own.recv_credit_max);
        let negotiated = result.map_err(|refusal| Cause::Rule(refusal.rule, refusal.errno))?;
        // Planned before the peer said how many READs it starts at a time.
        let planned = self.negotiation.lock().regions;
        let regions = u32::from(own.responder_resources) * REGIONS_PER_READ;
        if regions == 0 || planned == 0 {
            return Err(Cause::Rule(Rule::W3, errno::EINVAL));
        }
        let qp = self.qp().ok_or(ENOTCONN)?;
        let pages = negotiated.params.max_frmr_depth;
        self.pool.fill(self, qp, (regions, planned), pages)?;
        self.take_over(&negotiated)?;
        self.receive_data(&negotiated)?;
        self.advance(Status::Connected)?;
        self.reached();
        self.connected_timer();
        self.pump();
        self.connector.join();
        Ok(())
    }

    /// The acceptor judges the request; a good one makes the child ready for accept.
    fn judge_request(self: &Arc<Self>) -> Result<(), Cause> {
        let (bytes, len) = self.take_message()?;
        let own = self.params.get();
        self.advance(Status::NegotiateRunning)?;
        // From here on the application's accept decides how long it takes.
        self.connected_timer();
        let negotiated =
            match negotiate::accept(bytes.get(..len).ok_or(EIO)?, &own, own.recv_credit_max) {
                Accept::Proceed(negotiated) => negotiated,
                Accept::Terminate(rule) => return Err(Cause::Rule(rule, errno::ECONNABORTED)),
                Accept::Refuse(response) => {
                    return self.refuse(&response, Cause::Refused(errno::EOPNOTSUPP));
                }
            };
        self.take_over(&negotiated)?;
        self.child_ready();
        Ok(())
    }

    /// Sends a failure response and ends the connection once it is sent.
    fn refuse(self: &Arc<Self>, response: &[u8], cause: Cause) -> Result<(), Cause> {
        self.post_control(response)?;
        // The disconnect flushes the send queue, so the response must complete first. A peer that
        // does not take it only delays its own end.
        if let Some(qp) = self.qp() {
            let limit = self.params.get().keepalive_timeout_msec;
            let limit = jiffies(limit).try_into().ok();
            let _ = self.send_wait.wait(Signals::Ignore, limit, || {
                (qp.sends_inflight() == 0 || self.is_dead()).then_some(())
            });
        }
        Err(cause)
    }

    /// Allocates what the result asks for and publishes the final parameters (rule V4).
    fn take_over(self: &Arc<Self>, negotiated: &Negotiated) -> Result {
        let params = negotiated.params;
        let qp = self.qp().ok_or(ENOTCONN)?;
        let count = usize::from(negotiated.recv_buffers);
        qp.add_receive_buffers(
            negotiated.recv_buffers,
            usize::try_from(params.max_recv_size)?,
        )?;
        let mut free = Ring::with_capacity(count)?;
        let queue = Ring::with_capacity(count)?;
        for slot in qp.data_receives() {
            let _ = free.push(slot);
        }
        let mut receive = self.receive.lock();
        receive.free = free;
        receive.queue = queue;
        receive.buffers = count;
        drop(receive);
        self.open_sender(params.max_send_size, params.max_fragmented_send_size)?;
        let mut flow = self.flow.lock();
        flow.credits = Credits::new(params.recv_credit_max, params.send_credit_target);
        flow.credits
            .negotiated(negotiated.send_credits, negotiated.recv_target);
        drop(flow);
        self.params.set(params);
        Ok(())
    }

    /// Expects data from now on and posts the receives for it.
    fn receive_data(self: &Arc<Self>, negotiated: &Negotiated) -> Result {
        self.negotiated.populate(*negotiated);
        self.post_missing()?;
        if self.flow.lock().credits.available() == 0 {
            return Err(ECONNABORTED.into());
        }
        Ok(())
    }

    /// The timer measures silence from now on.
    fn connected_timer(self: &Arc<Self>) {
        let params = self.params.get();
        let action = self.flow.lock().keepalive.connected(
            now_ms(),
            params.keepalive_interval_msec.into(),
            params.keepalive_timeout_msec.into(),
        );
        match action {
            Action::Rearm(delay) => self.start_timer(delay),
            _ => Work::<Self, TIMER>::cancel(self),
        }
    }

    /// The application accepts: posts receives, grants them with the response, becomes connected.
    ///
    /// # Errors
    ///
    /// What prevents it; the connection fails with it.
    pub(crate) fn complete_accept(self: &Arc<Self>) -> Result {
        self.respond().map_err(|cause| {
            self.fail(cause);
            crate::kern::errno::error(cause.errno())
        })
    }

    fn respond(self: &Arc<Self>) -> Result<(), Cause> {
        let params = self.params.get();
        let negotiated = Negotiated {
            params,
            recv_target: self.flow.lock().credits.receive_target(),
            send_credits: 0,
            recv_buffers: 0,
        };
        if self.receive_data(&negotiated).is_err() {
            let response = negotiate::refuse(STATUS_INSUFFICIENT_RESOURCES);
            let cause = Cause::NotPosted(Request::Receive, errno::ECONNABORTED);
            return self.refuse(&response, cause);
        }
        // The receives must be seen as expecting data before the peer can send any; the peer can
        // only after the response. Nothing of ours goes before it, since nothing is sent before
        // CONNECTED (rule E5).
        let granted = self.flow.lock().credits.grant_all_for_response();
        count(&self.statistics.credits_granted, granted.into());
        self.post_control(&negotiate::response(&negotiated, granted))?;
        self.advance(Status::Connected)?;
        self.connected_timer();
        self.pump();
        Ok(())
    }
}

impl Run<TIMER> for Connection {
    fn run(this: Arc<Self>) {
        if this.is_dead() {
            return;
        }
        let now = now_ms();
        let left = this.until_stuck(now);
        if left == Some(0) {
            return this.fail(Cause::Stuck);
        }
        let start = |delay: u64| this.start_timer(left.map_or(delay, |left| delay.min(left)));
        let action = this.flow.lock().keepalive.expired(now);
        match action {
            Action::Idle => {}
            Action::Rearm(delay) => start(delay),
            Action::Probe { rearm } => {
                start(rearm);
                this.pump();
            }
            Action::TimedOut => {
                this.fail(match this.is_connected() {
                    true => Cause::NoAnswer,
                    false => Cause::NotInTime,
                });
            }
        }
    }
}
