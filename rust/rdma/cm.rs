// SPDX-License-Identifier: GPL-2.0

//! The connection manager: ids, their events, and the steps of connecting and accepting.
//!
//! Handlers run in process context under the id's handler mutex and may sleep. An id must not be
//! destroyed from its own handler. Two things see to that: the owner first calls
//! [`CmId::silence`], which makes later events go nowhere and waits for a running handler, so none
//! holds a temporary reference afterwards; then the last reference, dropped in process context
//! elsewhere, destroys the id.

use super::device::{HoldsDevice, Limits, Link, Port};
use super::fault::{self, Point};
use crate::bindings;
use crate::kern::errno::ECONNABORTED;
use crate::kern::irq_lock::{new_irq_lock, IrqLock};
use core::marker::PhantomData;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::sync::Arc;

/// What happened to an id. The connection request, which brings a new id, is not here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    /// The peer's address has a device.
    AddressResolved,
    /// The address could not be resolved.
    AddressError,
    /// There is a route.
    RouteResolved,
    /// There is none.
    RouteError,
    /// The peer answered; only for ids without queue pair.
    ConnectResponse,
    /// Connecting failed.
    ConnectError,
    /// Nobody answers.
    Unreachable,
    /// The peer does not want to.
    Rejected,
    /// The connection is up.
    Established,
    /// One side has disconnected.
    Disconnected,
    /// The device goes.
    DeviceRemoval,
    /// The network device's hardware address changed.
    AddressChange,
    /// The connection's identifiers may be used again.
    TimewaitExit,
    /// Any other.
    Other(u32),
}

impl EventKind {
    /// In words, for log lines.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::AddressResolved => "address resolved",
            Self::AddressError => "address not resolved",
            Self::RouteResolved => "route resolved",
            Self::RouteError => "route not resolved",
            Self::ConnectResponse => "answer",
            Self::ConnectError => "connecting failed",
            Self::Unreachable => "peer unreachable",
            Self::Rejected => "rejected by the peer",
            Self::Established => "established",
            Self::Disconnected => "disconnected",
            Self::DeviceRemoval => "device removed",
            Self::AddressChange => "address changed",
            Self::TimewaitExit => "end of the time-wait",
            Self::Other(_) => "unknown event",
        }
    }

    fn from_raw(raw: bindings::rdma_cm_event_type) -> Self {
        match raw {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Self::AddressResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => Self::AddressError,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Self::RouteResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Self::RouteError,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE => Self::ConnectResponse,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => Self::ConnectError,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => Self::Unreachable,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Self::Rejected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => Self::Established,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Self::Disconnected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Self::DeviceRemoval,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Self::AddressChange,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => Self::TimewaitExit,
            other => Self::Other(other),
        }
    }
}

/// An event of an id.
pub(crate) struct Event<'a> {
    /// What happened.
    pub(crate) kind: EventKind,
    /// Zero, a negative errno, or a positive reason of the transport (a rejection).
    pub(crate) status: i32,
    /// Bytes the peer sent along. Hostile, like all the peer says.
    pub(crate) private_data: &'a [u8],
    /// RDMA READ depths of the event; whose view they are depends on the link.
    pub(crate) responder_resources: u8,
    /// See `responder_resources`.
    pub(crate) initiator_depth: u8,
}

impl<'a> Event<'a> {
    /// # Safety
    ///
    /// * `raw` is valid for reads during `'a`, as the connection manager's callback has it.
    unsafe fn from_raw(raw: &'a bindings::rdma_cm_event) -> Self {
        let kind = EventKind::from_raw(raw.event);
        // SAFETY: The members of the union are plain data, readable whatever was stored.
        let param = unsafe { raw.param.conn.as_ref() };
        let has_param = raw.event == bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST
            || matches!(
                kind,
                EventKind::Established | EventKind::ConnectResponse | EventKind::Rejected
            );
        let private_data: &[u8] = if has_param && !param.private_data.is_null() {
            // SAFETY: For these events the pointer and length describe data of the event.
            unsafe {
                core::slice::from_raw_parts(
                    param.private_data.cast(),
                    usize::from(param.private_data_len),
                )
            }
        } else {
            &[]
        };
        Self {
            kind,
            status: raw.status,
            private_data,
            responder_resources: if has_param {
                param.responder_resources
            } else {
                0
            },
            initiator_depth: if has_param { param.initiator_depth } else { 0 },
        }
    }
}

/// Who owns ids and hears of their events.
///
/// # Context
///
/// Process context, under the handler mutex of the id.
pub(crate) trait Handler: Send + Sync + Sized + 'static {
    /// Something happened to the id of `this`.
    fn event(this: &Arc<Self>, event: &Event<'_>);

    /// Somebody wants to connect to the listening id of `this`.
    ///
    /// # Errors
    ///
    /// An error rejects the request and destroys the new id. Not allowed after
    /// [`ConnectRequest::adopt`] succeeded; the adopter then rejects and cleans up itself.
    fn connect_request(this: &Arc<Self>, request: ConnectRequest<'_>) -> Result;
}

/// Parameters of connecting and accepting; the fixed ones are those of SMB Direct (rule U4).
pub(crate) struct ConnectParams<'a> {
    /// RDMA READs this side serves at a time.
    pub(crate) responder_resources: u8,
    /// RDMA READs this side starts at a time.
    pub(crate) initiator_depth: u8,
    /// Sent to the peer with the request or the answer.
    pub(crate) private_data: &'a [u8],
}

impl ConnectParams<'_> {
    /// Transport retries before a connection is given up.
    const RETRY_COUNT: u8 = 6;

    fn raw(&self) -> bindings::rdma_conn_param {
        bindings::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).unwrap_or(0),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 0,
            retry_count: Self::RETRY_COUNT,
            rnr_retry_count: 0,
            ..Default::default()
        }
    }
}

/// A network namespace that a caller lends.
pub(crate) struct Net<'a>(*mut bindings::net, PhantomData<&'a ()>);

impl Net<'_> {
    /// # Safety
    ///
    /// * `raw` is a network namespace that is alive during `'a`.
    pub(crate) unsafe fn new(raw: *mut bindings::net) -> Self {
        Self(raw, PhantomData)
    }
}

/// A socket address that a caller lends.
pub(crate) struct Address<'a>(*const bindings::sockaddr, PhantomData<&'a ()>);

impl Address<'_> {
    /// # Safety
    ///
    /// * `raw` is valid during `'a` for reads of the length its family has.
    pub(crate) unsafe fn new(raw: *const bindings::sockaddr) -> Self {
        Self(raw, PhantomData)
    }

    /// The address, if its family is IPv4 or IPv6.
    pub(crate) fn socket_address(&self) -> Option<SocketAddr> {
        // SAFETY: By the promise to `new`.
        unsafe { socket_address(self.0.cast()) }
    }
}

/// A connection manager id, destroyed on drop (process context, never in its own handler).
///
/// # Invariants
///
/// `raw` is a valid id which only the drop destroys; its context is this object.
#[pin_data(PinnedDrop)]
pub(crate) struct CmId<C: Handler> {
    raw: NonNull<bindings::rdma_cm_id>,
    /// Who hears of events; taken away by [`silence`](Self::silence).
    #[pin]
    owner: IrqLock<Option<Arc<C>>>,
}

// SAFETY: Ids may be used from any task; the connection manager has its own locks.
unsafe impl<C: Handler> Send for CmId<C> {}
// SAFETY: As above.
unsafe impl<C: Handler> Sync for CmId<C> {}

impl<C: Handler> HoldsDevice for CmId<C> {}

impl<C: Handler> CmId<C> {
    /// Makes an id of the reliable connected type in the TCP port space, IPv6 only for IPv6
    /// addresses. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the connection manager says.
    pub(crate) fn new(net: &Net<'_>, owner: Arc<C>) -> Result<Arc<Self>> {
        fault::point(Point::CreateId)?;
        // SAFETY: The namespace is alive; no event can come before the id is told to do something.
        let raw = kernel::error::from_err_ptr(unsafe {
            bindings::__rdma_create_kernel_id(
                net.0,
                Some(Self::trampoline),
                core::ptr::null_mut(),
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                c"smbdirect".as_char_ptr(),
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let id = Self::wrap(raw, owner).inspect_err(|_| {
            // SAFETY: The id was just made and nobody else knows it.
            unsafe { bindings::rdma_destroy_id(raw.as_ptr()) }
        })?;
        // SAFETY: The id is valid.
        to_result(unsafe { bindings::rdma_set_afonly(raw.as_ptr(), 1) })?;
        Ok(id)
    }

    /// Takes over an id that another handler of this kernel owned until now.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`; the id stays with the caller then.
    ///
    /// # Safety
    ///
    /// * `raw` is a valid id with no handler running or to run on it during the call.
    /// * After success only this object destroys it.
    pub(crate) unsafe fn adopt(
        raw: NonNull<bindings::rdma_cm_id>,
        owner: Arc<C>,
    ) -> Result<Arc<Self>> {
        Self::wrap(raw, owner)
    }

    fn wrap(raw: NonNull<bindings::rdma_cm_id>, owner: Arc<C>) -> Result<Arc<Self>> {
        // The object must not destroy the id if the allocation fails: `Arc::new` would drop it.
        let room = kernel::sync::UniqueArc::<Self>::new_uninit(GFP_KERNEL)?;
        // INVARIANT: Valid by the contracts of the callers; the context is set below.
        let id: Arc<Self> = room
            .pin_init_with(try_pin_init!(Self {
                raw,
                owner <- new_irq_lock!(Some(owner), c"CmId::owner"),
            }))?
            .into();
        // SAFETY: No handler runs now, as the callers promise, so nobody reads these meanwhile.
        unsafe {
            (*raw.as_ptr()).context = Arc::as_ptr(&id).cast_mut().cast::<c_void>();
            (*raw.as_ptr()).event_handler = Some(Self::trampoline);
        }
        Ok(id)
    }

    /// What the connection manager calls.
    ///
    /// # Safety
    ///
    /// * `raw` is an id whose context is null or an object of this type, or a new id with the
    ///   context of the listening one; `event` is valid during the call.
    unsafe extern "C" fn trampoline(
        raw: *mut bindings::rdma_cm_id,
        event: *mut bindings::rdma_cm_event,
    ) -> c_int {
        // SAFETY: The connection manager hands out valid pointers; a request's new id has the
        // context of the listening one, whose object outlives its handlers.
        let id = unsafe { (*raw).context.cast::<Self>().as_ref() };
        let Some(id) = id else { return 0 };
        // The clone keeps the owner during the call.
        let owner = id.owner.lock().clone();
        // SAFETY: The connection manager hands out a valid event.
        let raw_event = unsafe { &*event };
        // SAFETY: As above.
        let event = unsafe { Event::from_raw(raw_event) };
        if raw_event.event != bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
            // The removal of a device waits for the id, so it cannot be lost.
            let lost = event.kind != EventKind::DeviceRemoval && fault::hits(Point::LoseEvent);
            if let Some(owner) = owner.filter(|_| id.raw.as_ptr() == raw && !lost) {
                C::event(&owner, &event);
            }
            return 0;
        }
        // An error rejects the request and destroys the new id.
        let (Some(owner), Some(new)) = (owner, NonNull::new(raw)) else {
            return ECONNABORTED.to_errno();
        };
        match C::connect_request(&owner, ConnectRequest { raw: new, event }) {
            Ok(()) => 0,
            Err(error) => error.to_errno(),
        }
    }

    /// Lets go of the owner and waits for a handler of this id that still runs: later events go
    /// nowhere, and requests to connect are rejected. Sleeps; not from a handler.
    ///
    /// A listener on all addresses has handlers per device, under mutexes of their own; for those only
    /// destroying the id waits.
    pub(crate) fn silence(&self) {
        let owner = self.owner.lock().take();
        // SAFETY: The id is valid by the invariant.
        unsafe {
            bindings::rdma_lock_handler(self.raw.as_ptr());
            bindings::rdma_unlock_handler(self.raw.as_ptr());
        }
        drop(owner);
    }

    pub(super) fn raw(&self) -> *mut bindings::rdma_cm_id {
        self.raw.as_ptr()
    }

    /// The port the id is bound to; [`None`] before the address is resolved.
    pub(crate) fn port(self: &Arc<Self>) -> Option<Port> {
        // SAFETY: The id is valid by the invariant; the device is set before the event that says
        // so, and stays until the id is destroyed.
        let (device, number) = unsafe { ((*self.raw()).device, (*self.raw()).port_num) };
        let holder: Arc<dyn HoldsDevice> = self.clone();
        // SAFETY: A bound id keeps its device until it is destroyed.
        NonNull::new(device).map(|device| unsafe { Port::new(device, number, holder) })
    }

    /// Restricts the id to devices of one kind.
    ///
    /// # Errors
    ///
    /// What the connection manager says, `-EINVAL` for [`Link::Other`].
    pub(crate) fn restrict(&self, link: Link) -> Result {
        let node = match link {
            Link::IbOrRoce => bindings::RDMA_NODE_IB_CA,
            Link::Iwarp => bindings::RDMA_NODE_RNIC,
            Link::Other => return Err(EINVAL),
        };
        // CAST: Node types are below 8.
        // SAFETY: The id is valid by the invariant.
        to_result(unsafe { bindings::rdma_restrict_node_type(self.raw(), node as u8) })
    }

    /// Binds the id to a local address.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    ///
    pub(crate) fn bind(&self, address: &Address<'_>) -> Result {
        // SAFETY: The id is valid by the invariant, the address by that of its type.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw(), address.0.cast_mut()) })
    }

    /// Starts resolving an address; [`EventKind::AddressResolved`] follows. An address from an
    /// earlier [`bind`](Self::bind) is the source.
    ///
    /// # Errors
    ///
    /// What the connection manager says, `-ENODEV` when no device fits.
    ///
    pub(crate) fn resolve_address(&self, address: &Address<'_>, timeout_ms: u32) -> Result {
        fault::point(Point::ResolveAddress)?;
        // SAFETY: The id is valid by the invariant, the address by that of its type. A null source
        // means the bound address.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.raw(),
                core::ptr::null_mut(),
                address.0,
                milliseconds(timeout_ms),
            )
        })
    }

    /// Starts resolving the route; [`EventKind::RouteResolved`] follows.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        fault::point(Point::ResolveRoute)?;
        // SAFETY: The id is valid by the invariant.
        to_result(unsafe { bindings::rdma_resolve_route(self.raw(), milliseconds(timeout_ms)) })
    }

    /// Sends the connection request. From a handler of this id only.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn connect(&self, params: &ConnectParams<'_>) -> Result {
        fault::point(Point::Connect)?;
        let mut raw = params.raw();
        // SAFETY: The id is valid by the invariant; the parameters are copied by the call.
        to_result(unsafe { bindings::rdma_connect_locked(self.raw(), &mut raw) })
    }

    /// [`connect`](Self::connect) from anywhere but a handler of this id. With some providers (siw) it sleeps,
    /// interruptibly, until the peer's TCP answers or is given up, and no event of the id comes meanwhile.
    ///
    /// # Errors
    ///
    /// What the connection manager says, `-ERESTARTSYS` when interrupted.
    pub(crate) fn connect_blocking(&self, params: &ConnectParams<'_>) -> Result {
        fault::point(Point::Connect)?;
        let mut raw = params.raw();
        // SAFETY: As above.
        to_result(unsafe { bindings::rdma_connect(self.raw(), &mut raw) })
    }

    /// Accepts the connection request that brought this id. From the handler of the request only.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn accept(&self, params: &ConnectParams<'_>) -> Result {
        fault::point(Point::Accept)?;
        let mut raw = params.raw();
        // SAFETY: The id is valid by the invariant; the parameters are copied by the call.
        to_result(unsafe { bindings::rdma_accept(self.raw(), &mut raw) })
    }

    /// Rejects the connection request that brought this id.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn reject(&self) -> Result {
        // SAFETY: The id is valid by the invariant. 28 is the "consumer defined" reason of IB,
        // ignored on iWARP.
        to_result(unsafe { bindings::rdma_reject(self.raw(), core::ptr::null(), 0, 28) })
    }

    /// Listens; connection requests follow.
    ///
    /// # Errors
    ///
    /// What the connection manager says.
    pub(crate) fn listen(&self, backlog: c_int) -> Result {
        // SAFETY: The id is valid by the invariant.
        to_result(unsafe { bindings::rdma_listen(self.raw(), backlog) })
    }

    /// Moves the queue pair to its error state and starts or answers the disconnect handshake.
    ///
    /// # Errors
    ///
    /// What the connection manager says; to be taken as "disconnected".
    pub(crate) fn disconnect(&self) -> Result {
        fault::point(Point::Disconnect)?;
        // SAFETY: The id is valid by the invariant.
        to_result(unsafe { bindings::rdma_disconnect(self.raw()) })
    }

    /// The local and the remote address, for log lines.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        // SAFETY: The id is valid by the invariant. The addresses are plain data; reading one
        // while it is being set prints a wrong address at worst.
        unsafe {
            let addr = &raw const (*self.raw()).route.addr;
            (
                socket_address((&raw const (*addr).src_addr).cast()),
                socket_address((&raw const (*addr).dst_addr).cast()),
            )
        }
    }
}

#[pinned_drop]
impl<C: Handler> PinnedDrop for CmId<C> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the invariant this is the only destruction; the callers of drop are not in
        // this id's handler (see the module's documentation).
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
    }
}

/// A request to connect, seen in the listener's handler.
pub(crate) struct ConnectRequest<'a> {
    raw: NonNull<bindings::rdma_cm_id>,
    /// The event with the peer's parameters.
    pub(crate) event: Event<'a>,
}

impl ConnectRequest<'_> {
    /// The limits of the device the request came in on.
    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: A requested id is bound to a device, which stays during the handler.
        unsafe { Limits::read(&raw const (*(*self.raw.as_ptr()).device).attrs) }
    }

    /// How the port the request came in on carries RDMA.
    pub(crate) fn link(&self) -> Link {
        // SAFETY: As above.
        unsafe { Link::of((*self.raw.as_ptr()).device, (*self.raw.as_ptr()).port_num) }
    }

    /// Makes the new id `owner`'s.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`; the id stays with the connection manager.
    pub(crate) fn adopt<C: Handler>(&self, owner: Arc<C>) -> Result<Arc<CmId<C>>> {
        // SAFETY: We are in the handler, under the new id's handler mutex; whoever adopts it
        // returns success from the handler, as `Handler::connect_request` demands.
        unsafe { CmId::adopt(self.raw, owner) }
    }
}

/// A duration as the connection manager takes it.
fn milliseconds(msecs: u32) -> kernel::ffi::c_ulong {
    // CAST: `unsigned long` has at least 32 bits.
    msecs as kernel::ffi::c_ulong
}

/// Reads a socket address of the two families there are; [`None`] for others.
///
/// # Safety
///
/// * `raw` is valid for reads of the length its family has.
unsafe fn socket_address(raw: *const bindings::sockaddr) -> Option<SocketAddr> {
    // SAFETY: Valid by contract; every field is an integer.
    unsafe {
        match u32::from((*raw).sa_family) {
            kernel::bindings::AF_INET => {
                let v4 = &*raw.cast::<bindings::sockaddr_in>();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            kernel::bindings::AF_INET6 => {
                let v6 = &*raw.cast::<bindings::sockaddr_in6>();
                let ip = Ipv6Addr::from(v6.sin6_addr.in6_u.u6_addr8);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}
