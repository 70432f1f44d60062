// SPDX-License-Identifier: GPL-2.0

//! Setting up: the initiator's way through the connection manager, the acceptor's first half, and
//! the events of ids at any time.
//!
//! Events run in process context under the id's handler mutex. Before the connection is established
//! an event either is the expected one or ends the connection (rule E7); afterwards only the end
//! of the connection and of the device matter, other events are noted (R17).

use super::connection::Connection;
use super::connector;
use super::end::completion;
use super::log::log;
use super::negotiate::{Role, REGIONS_PER_READ};
use crate::kern::errno::{EALREADY, ECONNABORTED, ENOTCONN};
use crate::kern::noio::NoIo;
use crate::kern::time::jiffies;
use crate::kern::wait::{Interrupted, Signals};
use crate::proto::cause::{negative_or, Cause, End, Request};
use crate::proto::depth::{self, Depths};
use crate::proto::errno;
use crate::proto::params::{Flags, Parameters};
use crate::proto::pdu::RESPONSE_LEN;
use crate::proto::sizing::{self, DeviceLimits, Plan, RwPlan, Wanted};
use crate::proto::state::{Event as StateEvent, Status};
use crate::rdma::cm::{
    Address, CmId, ConnectParams, ConnectRequest, Event, EventKind, Handler, Net,
};
use crate::rdma::device::{Limits, Link, Pd, Port};
use crate::rdma::qp::{self, Completions, Qp, Sizes};
use crate::rdma::receive::Received;
use crate::rdma::sq::Kind;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Send buffers of a connection; more messages than this are not under way at a time.
const SEND_SLOTS: u16 = 128;

/// Pieces of a request of the server's RDMA transfers; bounds the memory of the send queue.
const TRANSFER_SGES: u32 = 16;

/// Work requests of a transfer that registers memory: register, transfer, invalidate.
const REGISTERED_TRANSFER: u32 = 3;

impl Handler for Connection {
    fn event(this: &Arc<Self>, event: &Event<'_>) {
        // A mount that has to write may wait for this connection.
        let _scope = NoIo::enter();
        let state = this.state();
        if state.status() == Status::Listening {
            return this.listener_event(event);
        }
        if state.is_established() {
            return this.late_event(event);
        }
        let result = match (event.kind, event.status, state.status()) {
            (EventKind::AddressResolved, 0, Status::ResolveAddrRunning) => this.resolve_route(),
            (EventKind::RouteResolved, 0, Status::ResolveRouteRunning) => this.request_connection(),
            (EventKind::Established, 0, Status::RdmaConnectRunning) => this.established(event),
            _ => Err(this.early_cause(event)),
        };
        if event.kind == EventKind::DeviceRemoval {
            this.on(StateEvent::Removed);
        }
        if let Err(cause) = result {
            this.fail(cause);
        }
    }

    fn connect_request(this: &Arc<Self>, request: ConnectRequest<'_>) -> Result {
        this.admit(&request)
    }
}

impl Completions for Connection {
    fn received(this: &Arc<Self>, received: Received) {
        this.message_arrived(received);
    }

    fn receive_failed(this: &Arc<Self>, status: qp::Status) {
        this.receive_failed_with(status);
    }

    fn sent(this: &Arc<Self>) {
        this.room_made();
    }

    fn send_failed(this: &Arc<Self>, kind: Kind, status: qp::Status) {
        let request = match kind {
            Kind::Message => Request::Send,
            Kind::Registration => Request::Registration,
            Kind::Invalidation => Request::Invalidation,
            Kind::Transfer => Request::Transfer,
        };
        this.fail(completion(request, status));
    }

    fn broken(this: &Arc<Self>) {
        this.fail(Cause::Broken);
    }
}

impl Connection {
    /// What an event that does not fit means before the connection is established.
    fn early_cause(&self, event: &Event<'_>) -> Cause {
        match event.kind {
            EventKind::AddressError => self.unresolved(event.status),
            EventKind::Rejected => Cause::Rejected(event.status),
            EventKind::DeviceRemoval => Cause::DeviceRemoved(event.status),
            EventKind::Disconnected => {
                Cause::Disconnected(negative_or(event.status, errno::ECONNABORTED))
            }
            _ if event.status < 0 => Cause::Step(event.kind.text(), event.status),
            _ => Cause::OutOfStep,
        }
    }

    /// The device is being removed. An event of the id says so as well, but may come behind the peer's
    /// disconnect, or behind a connection request that blocks. The cleanup is to follow.
    pub(super) fn device_goes(&self) {
        self.store_error(Cause::DeviceRemoved(0), None);
        self.on(StateEvent::Removed);
        self.connector.interrupt();
    }

    /// An event after the connection was established.
    fn late_event(self: &Arc<Self>, event: &Event<'_>) {
        let step = Cause::Step(
            event.kind.text(),
            negative_or(event.status, errno::ECONNRESET),
        );
        let (fact, cause) = match event.kind {
            EventKind::TimewaitExit | EventKind::AddressChange => {
                log!(self, Info, Event, "event {:?} noted", event.kind);
                return;
            }
            EventKind::DeviceRemoval => (StateEvent::Removed, Cause::DeviceRemoved(event.status)),
            EventKind::Disconnected => {
                (StateEvent::Disconnected, Cause::Disconnected(event.status))
            }
            // The peer gave up before it knew that the connection was up. It will not answer a
            // disconnect any more.
            EventKind::Rejected => (StateEvent::Disconnected, step),
            _ => return self.fail(step),
        };
        // The error first: who sees the connection gone is not to find a reason of his own.
        self.fail_as(cause, Some(Status::Disconnected));
        self.on(fact);
    }

    /// Restricts the id to what the flags say and stores the parameters. Status CREATED only.
    ///
    /// # Errors
    ///
    /// `-EINVAL` for values that cannot carry a connection, or what the connection manager says.
    pub(crate) fn set_parameters(&self, wanted: &Parameters) -> Result {
        let params = wanted.validate().map_err(|invalid| {
            log!(self, Error, Event, "parameters refused: {}", invalid.text());
            EINVAL
        })?;
        let params = match self.shared.message_size {
            Some(size) => params.with_message_size(size),
            None => params,
        };
        if self.state().status() != Status::Created {
            return Err(EINVAL);
        }
        let id = self.id().ok_or(EINVAL)?;
        match params.flags & Flags::ALL {
            Flags::IB_ONLY => id.restrict(Link::IbOrRoce)?,
            Flags::IWARP_ONLY => id.restrict(Link::Iwarp)?,
            _ => {}
        }
        self.params.set(params);
        Ok(())
    }

    /// Gives the connection an id in a network namespace. Once, at creation.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn create_id(self: &Arc<Self>, net: &Net<'_>) -> Result {
        let id = CmId::new(net, self.clone())?;
        *self.id.lock() = Some(id);
        Ok(())
    }

    /// Binds to a local address. Status CREATED only.
    ///
    /// # Errors
    ///
    /// `-EINVAL`, or what the connection manager says.
    pub(crate) fn bind(&self, address: &Address<'_>) -> Result {
        if self.state().status() != Status::Created {
            return Err(EINVAL);
        }
        self.id().ok_or(EINVAL)?.bind(address)
    }

    /// Starts connecting.
    ///
    /// # Errors
    ///
    /// `-ENOTCONN` after an error, `-EALREADY` when not fresh, `-EINVAL` without id, or what address
    /// resolution says, which leaves the status where it is.
    pub(crate) fn connect(self: &Arc<Self>, address: &Address<'_>) -> Result {
        if self.is_dead() {
            return Err(ENOTCONN.into());
        }
        if self.state().status() != Status::Created {
            return Err(EALREADY.into());
        }
        let id = self.id().ok_or(EINVAL)?;
        if let Some(destination) = address.socket_address() {
            self.destination.populate(destination);
        }
        self.advance(Status::ResolveAddrNeeded)
            .map_err(|_| EALREADY)?;
        self.advance(Status::ResolveAddrRunning)?;
        id.resolve_address(address, self.params.get().resolve_addr_timeout_msec)
            .inspect_err(|error| self.report_unresolved(error.to_errno()))
    }

    /// What it means that an address is not resolved.
    fn unresolved(&self, errno: i32) -> Cause {
        let wants_iwarp = self.params.get().flags & Flags::IWARP_ONLY != 0;
        match wants_iwarp && errno == errno::ENODEV {
            true => Cause::NoIwarp,
            false => Cause::Step("address not resolved", errno),
        }
    }

    /// Tells why connecting did not even begin, which is not yet the end of the socket.
    fn report_unresolved(&self, errno: i32) {
        let (cause, status) = (self.unresolved(errno), self.state().status());
        if let Some(to) = self.destination.copy() {
            self.report_unreached(to, End::new(cause, status));
        }
    }

    /// Waits until the connection is up, at most the negotiation's time for the whole of it.
    ///
    /// # Errors
    ///
    /// The first error; `-ETIMEDOUT` and `-ERESTARTSYS` of the wait become it.
    pub(crate) fn wait_connected(self: &Arc<Self>) -> Result {
        let limit = jiffies(self.params.get().negotiate_timeout_msec)
            .try_into()
            .ok();
        let outcome = self.word.wait(Signals::Heed, limit, |state| {
            if state.first_error().is_some() {
                return Some(Err(self.error()));
            }
            (state.status() == Status::Connected).then_some(Ok(()))
        });
        self.fail(match outcome {
            Ok(result) => return result,
            Err(Interrupted::TimedOut) => Cause::NotInTime,
            Err(Interrupted::Signal) => Cause::Interrupted,
        });
        Err(self.error())
    }

    fn resolve_route(self: &Arc<Self>) -> Result<(), Cause> {
        let id = self.id().ok_or(ECONNABORTED)?;
        self.advance(Status::ResolveRouteNeeded)?;
        self.advance(Status::ResolveRouteRunning)?;
        id.resolve_route(self.params.get().resolve_route_timeout_msec)
            .map_err(|error| Cause::Step("route not resolved", error.to_errno()))
    }

    /// Whether a connection with these flags may run on this kind of port (rules U1, U2).
    ///
    /// # Errors
    ///
    /// Why not; worth `-EPROTONOSUPPORT`.
    pub(crate) fn check_device(
        params: &Parameters,
        limits: &Limits,
        link: Link,
    ) -> Result<(), Cause> {
        let refused = match link {
            Link::Other => true,
            Link::IbOrRoce => params.flags & Flags::IWARP_ONLY != 0,
            Link::Iwarp => params.flags & Flags::IB_ONLY != 0,
        };
        if refused {
            return Err(Cause::WrongLink);
        }
        if !limits.frwr() {
            return Err(Cause::NoFastRegistration);
        }
        Ok(())
    }

    /// The initiator has a route: makes the queue pair and sends the connection request.
    fn request_connection(self: &Arc<Self>) -> Result<(), Cause> {
        let id = self.id().ok_or(ECONNABORTED)?;
        let port = id.port().ok_or(ENODEV)?;
        let (limits, link) = (port.limits(), port.link());
        let mut params = self.params.get();
        Self::check_device(&params, &limits, link)?;
        params.max_frmr_depth = params.max_frmr_depth.min(limits.max_fast_reg_pages());
        let own = Self::device_depths(&params, &limits);
        params.responder_resources = own.responder_resources.into();
        params.initiator_depth = own.initiator_depth.into();
        self.params.set(params);
        self.link.populate(link);
        self.negotiation.lock().set_role(Role::Initiator);
        self.create_queue_pair(&id, port, Role::Initiator)?;
        self.advance(Status::RdmaConnectNeeded)?;
        self.advance(Status::RdmaConnectRunning)?;
        self.start_phase(params.rdma_connect_timeout_msec);
        if link == Link::Iwarp {
            return Ok(self.start_connector()?);
        }
        id.connect(&ConnectParams {
            responder_resources: own.responder_resources,
            initiator_depth: own.initiator_depth,
            private_data: &[],
        })
        .map_err(connector::not_sent)
    }

    /// The depths as they are in the parameters.
    pub(super) fn own_depths(&self) -> Depths {
        let params = self.params.get();
        Depths {
            initiator_depth: u8::try_from(params.initiator_depth).unwrap_or(u8::MAX),
            responder_resources: u8::try_from(params.responder_resources).unwrap_or(u8::MAX),
        }
    }

    fn device_depths(params: &Parameters, limits: &Limits) -> Depths {
        Depths {
            initiator_depth: depth::clamp_device(
                params.initiator_depth.into(),
                limits.max_initiator().into(),
            ),
            responder_resources: depth::clamp_device(
                params.responder_resources.into(),
                limits.max_responder().into(),
            ),
        }
    }

    /// Agrees on the depths with what the event says of the peer (rules W2 to W4); tells whether it
    /// is a legacy peer.
    fn agree_depths(
        &self,
        own: Depths,
        link: Link,
        event: &Event<'_>,
    ) -> Result<(Depths, bool), Cause> {
        let said = Depths {
            initiator_depth: event.initiator_depth,
            responder_resources: event.responder_resources,
        };
        let peer = depth::peer(said, link == Link::Iwarp, event.private_data);
        let agreed =
            depth::negotiate(own, &peer).map_err(|rule| Cause::Rule(rule, errno::ECONNABORTED))?;
        let mut params = self.params.get();
        params.initiator_depth = agreed.initiator_depth.into();
        params.responder_resources = agreed.responder_resources.into();
        self.params.set(params);
        Ok((agreed, peer.legacy))
    }

    /// The connection manager says that the connection is established.
    fn established(self: &Arc<Self>, event: &Event<'_>) -> Result<(), Cause> {
        self.on(StateEvent::Established);
        let role = self.negotiation.lock().role();
        if role == Role::Acceptor {
            self.advance(Status::NegotiateNeeded)?;
            self.negotiation_established();
            return Ok(());
        }
        let link = self.link.copy().unwrap_or(Link::Other);
        self.agree_depths(self.own_depths(), link, event)?;
        Ok(self.send_request()?)
    }

    /// The acceptor's half of the set-up, in the handler of the request.
    ///
    /// # Errors
    ///
    /// What prevents the connection.
    pub(crate) fn accept_request(
        self: &Arc<Self>,
        id: &Arc<CmId<Self>>,
        link: Link,
        event: &Event<'_>,
    ) -> Result<(), Cause> {
        let port = id.port().ok_or(ENODEV)?;
        let own = Self::device_depths(&self.params.get(), &port.limits());
        self.link.populate(link);
        self.negotiation.lock().set_role(Role::Acceptor);
        let (agreed, legacy) = self.agree_depths(own, link, event)?;
        self.create_queue_pair(id, port, Role::Acceptor)?;
        self.advance(Status::RdmaConnectNeeded)?;
        self.advance(Status::RdmaConnectRunning)?;
        self.start_phase(self.params.get().negotiate_timeout_msec);
        let words = depth::encode(own);
        id.accept(&ConnectParams {
            responder_resources: agreed.responder_resources,
            initiator_depth: agreed.initiator_depth,
            private_data: if legacy { &words } else { &[] },
        })
        .map_err(|error| Cause::Step("answer not sent", error.to_errno()))
    }

    /// Makes the queue pair, sized from the device, and posts the receive for the first message
    /// (rule E1).
    fn create_queue_pair(
        self: &Arc<Self>,
        id: &Arc<CmId<Self>>,
        port: Port,
        role: Role,
    ) -> Result<(), Cause> {
        let mut params = self.params.get();
        let layout = Layout::new(&params, &port, role).map_err(|_| Cause::TooSmall)?;
        params.recv_credit_max = params.recv_credit_max.min(layout.plan.recv_credits);
        self.params.set(params);
        self.negotiation.lock().regions = layout.plan.regions;
        self.transfers
            .set_plan(layout.transfers, layout.piece_pages)?;
        let sizes = layout.sizes(&params, self.poll_context.load(Relaxed))?;
        let qp = Qp::new(id, Pd::new(port)?, &sizes, self.clone())?;
        let first = qp.first_receive();
        self.qp.populate(qp);
        let qp = self.qp().ok_or(ENOTCONN)?;
        let (_, result) = qp.post_receives(core::iter::once(first));
        result.map_err(|error| Cause::NotPosted(Request::Receive, error.to_errno()))
    }
}

/// How a queue pair is laid out on its device.
struct Layout {
    plan: Plan,
    transfers: RwPlan,
    /// Pages of one segment of a transfer: where segments are registered, and a device merges pages,
    /// one that is larger than a registration would fail (R42).
    piece_pages: u32,
    /// Send requests of the transfers beyond those the core adds by itself.
    transfer_extra: u32,
    send_sges: u32,
}

impl Layout {
    fn new(params: &Parameters, port: &Port, role: Role) -> Result<Self> {
        let limits = port.limits();
        let registers = port.rw_send_wrs(1) > 1;
        let send_sges = match role {
            Role::Initiator => 1,
            Role::Acceptor => TRANSFER_SGES.min(limits.max_send_sge()).max(1),
        };
        let device = DeviceLimits {
            max_qp_wr: limits.max_qp_wr(),
            max_cqe: limits.max_cqe(),
            max_send_sge: limits.max_send_sge(),
            max_recv_sge: limits.max_recv_sge(),
            max_sge_rd: limits.max_sge_rd().min(send_sges),
            max_fast_reg_page_list_len: limits.max_fast_reg_pages(),
        };
        let pages = sizing::pages_per_context(&device, registers);
        // A transfer in the direction that does not register takes one request per `send_sges`.
        let requests = match registers {
            true => REGISTERED_TRANSFER.max(pages.div_ceil(send_sges)),
            false => 1,
        };
        let page = u32::try_from(PAGE_SIZE)?;
        let transfers = sizing::rw_plan(params.max_read_write_size, page, pages);
        let acceptor = role == Role::Acceptor;
        let wanted = Wanted {
            send_messages: params.send_credit_target.min(SEND_SLOTS),
            recv_credits: params.recv_credit_max,
            regions: if acceptor {
                0
            } else {
                u32::from(params.responder_resources) * REGIONS_PER_READ
            },
            rw_contexts: if acceptor { transfers.credits } else { 0 },
            wr_per_context: requests,
            send_sges,
        };
        let plan = sizing::plan(&wanted, &device).map_err(|_| EINVAL)?;
        let transfers = transfers.limited(plan.rw_contexts);
        let by_core = match plan.rw_contexts {
            0 => 0,
            contexts => port.rw_send_wrs(contexts),
        };
        Ok(Self {
            plan,
            transfers,
            piece_pages: if registers {
                transfers.pages_per_credit
            } else {
                u32::MAX
            },
            transfer_extra: plan.rw_wr.saturating_sub(by_core),
            send_sges,
        })
    }

    fn sizes(&self, params: &Parameters, poll_context: u32) -> Result<Sizes> {
        let plan = &self.plan;
        // The queue pair adds one for the drain, the core those for its transfers.
        let send_requests = plan
            .send_wr
            .saturating_sub(plan.rw_wr)
            .saturating_sub(sizing::SEND_EXTRA)
            .saturating_add(self.transfer_extra);
        Ok(Sizes {
            send_requests,
            recv_requests: plan.recv_wr.saturating_sub(1),
            send_entries: plan.send_cqe,
            recv_entries: plan.recv_cqe,
            transfers: plan.rw_contexts,
            send_sges: self.send_sges,
            send_slots: plan.send_messages,
            // The negotiation's messages go out from the same buffers.
            send_size: usize::try_from(params.max_send_size)?.max(RESPONSE_LEN),
            regions: usize::try_from(plan.regions)?,
            poll_context,
        })
    }
}
