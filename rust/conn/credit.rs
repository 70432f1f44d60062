// SPDX-License-Identifier: GPL-2.0

//! Credits at work: posting receives, granting them, and credit-only messages.
//!
//! `proto::credits` decides; this file posts and sends. Everything here runs in any context, also in
//! completions: nothing waits. What cannot be done now (no send credit, no buffer, somebody else has
//! the right to send) is tried again when that changes, since each of these changes ends in
//! [`Connection::pump`].

use super::connection::Connection;
use super::send::{write_header, Building};
use crate::kern::counters::count;
use crate::kern::time::now_ms;
use crate::proto::cause::{Cause, Request};
use crate::proto::credits::{Credits, Received};
use crate::proto::fragment;
use crate::proto::keepalive::{Answer, Keepalive};
use crate::proto::pdu::DataHeader;
use crate::proto::rule::Rule;
use crate::rdma::post::{Message, PostError, SendSlot};
use crate::rdma::qp::Qp;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The counters and timers of the message flow, under one lock.
pub(crate) struct Flow {
    /// Credits of both directions.
    pub(crate) credits: Credits,
    /// The connection's timer.
    pub(crate) keepalive: Keepalive,
    /// Whether the peer waits for a message.
    pub(crate) answer: Answer,
}

impl Flow {
    /// No credits, nothing timed, nothing owed.
    pub(crate) fn new() -> Self {
        Self {
            credits: Credits::new(1, 1),
            keepalive: Keepalive::new(),
            answer: Answer::new(),
        }
    }

    /// A data message arrived: what the rules D9, C6 and K1 to K3 make of it.
    pub(crate) fn received(&mut self, header: &DataHeader) -> Result<Received, Rule> {
        let received = self.credits.received(header)?;
        self.keepalive.received(now_ms());
        if header.response_requested {
            self.answer.requested();
        }
        Ok(received)
    }

    /// Whether a message should go out even without data.
    fn message_due(&self, free: u32) -> bool {
        self.answer.is_owed() || self.keepalive.is_pending() || self.credits.grant_due(free)
    }

    /// The header of a message that is about to be posted, with what rides on it; also whether it is
    /// an answer the peer waits for.
    pub(crate) fn header(
        &mut self,
        message: &fragment::Message,
        granted: u16,
    ) -> (DataHeader, bool) {
        let flagged = self.keepalive.sending(now_ms());
        let answered = self.answer.sending();
        let requested = self.credits.credits_requested();
        (message.header(requested, granted, flagged), answered)
    }
}

impl Connection {
    /// Free receive buffers.
    fn free_receives(&self) -> u32 {
        u32::try_from(self.receive.lock().free.len()).unwrap_or(u32::MAX)
    }

    /// [`post_missing`](Self::post_missing) for a connection that is up, which fails with it.
    ///
    /// # Errors
    ///
    /// What the queue pair says.
    pub(crate) fn refill(self: &Arc<Self>) -> Result {
        self.post_missing().inspect_err(|error| {
            self.fail(Cause::NotPosted(Request::Receive, error.to_errno()));
        })
    }

    /// Posts the receives that are missing, in one chain, and makes them available for granting.
    /// Any context.
    ///
    /// # Errors
    ///
    /// What the queue pair says.
    pub(crate) fn post_missing(&self) -> Result {
        let Some(qp) = self.qp() else { return Ok(()) };
        let free = self.free_receives();
        let mut flow = self.flow.lock();
        let missing = flow.credits.missing(free);
        if missing == 0 {
            return Ok(());
        }
        let slots = core::iter::from_fn(|| self.receive.lock().free.pop());
        // CAST: At most 65536.
        let (posted, result) = qp.post_receives(slots.take(missing as usize));
        let unblocks = flow.credits.posted(posted);
        drop(flow);
        count(&self.statistics.taken_receives, posted.into());
        if unblocks {
            self.send_wait.wake_all();
        }
        result
    }

    /// Posts missing receives if that is worth it, then sends what is due. Any context.
    pub(crate) fn replenish(self: &Arc<Self>) {
        let worthwhile = self.flow.lock().credits.refill_worthwhile();
        if worthwhile && self.refill().is_err() {
            return;
        }
        self.pump();
    }

    /// Sends a message without data if one is due and can be sent now. Any context.
    pub(crate) fn pump(self: &Arc<Self>) {
        let due = || {
            let free = self.free_receives();
            let due = self.flow.lock().message_due(free);
            due && self.is_connected()
        };
        if self.right.serve(due, |building| self.send_empty(building)) {
            self.send_wait.wake_all();
        }
    }

    /// Sends a message without data, if a credit and a buffer are at hand. Whoever sends carries
    /// along what is due; what is still due is sent when the right to send, a credit or a buffer
    /// comes back. Any context.
    fn send_empty(self: &Arc<Self>, building: &mut Building) {
        let Some(qp) = self.qp() else { return };
        count(&self.statistics.empty_sends, 1);
        let Some((slot, granted)) = self.try_obtain(qp) else {
            return;
        };
        if let Err(error) = self.post_empty(qp, building, slot, granted) {
            self.fail(Cause::NotPosted(Request::Send, error.to_errno()));
        }
    }

    /// Builds and posts a message without data.
    fn post_empty(
        &self,
        qp: &Qp<Self>,
        building: &mut Building,
        mut slot: SendSlot,
        granted: u16,
    ) -> Result {
        let mut flow = self.flow.lock();
        let (header, answered) = flow.header(&fragment::Message::empty(), granted);
        drop(flow);
        let len = write_header(qp, &mut slot, &header)?;
        building.chain.push(Message { slot, len }, GFP_NOWAIT)?;
        match qp.post_messages(&mut building.chain, None, false) {
            Ok(()) => {
                count(&self.statistics.credits_granted, granted.into());
                count(&self.statistics.credits_granted_alone, granted.into());
                Ok(())
            }
            Err(PostError::Failed(error)) => Err(error),
            // A buffer implies a place in the queue unless registrations filled it.
            Err(PostError::Full) => {
                self.take_back(qp, building, &header, answered);
                Ok(())
            }
        }
    }

    /// Undoes an empty message that found no room.
    fn take_back(
        &self,
        qp: &Qp<Self>,
        building: &mut Building,
        header: &DataHeader,
        answered: bool,
    ) {
        while let Some(message) = building.chain.pop() {
            qp.return_send_slot(message.slot);
        }
        let mut flow = self.flow.lock();
        flow.credits.give_back(header.credits_granted);
        if header.response_requested {
            flow.keepalive.unsent();
        }
        if answered {
            flow.answer.unsent();
        }
    }
}
