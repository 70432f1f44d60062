// SPDX-License-Identifier: GPL-2.0

//! The module as a client of the RDMA core: which devices there are, and what a network device can
//! do.
//!
//! The list serves lookups and log lines. Its mutex is a leaf: nothing is called under it but port queries of
//! the devices on it.
//!
//! A device that goes is taken from its clients in the opposite order of their coming, so from us before the
//! connection manager. The manager asks id after id, and waits for each; the [`Watcher`] hears of it at once.

use super::device::{Limits, Link, Port};
use crate::bindings;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::str::{BStr, CStr, CString};
use kernel::sync::{global_lock, Arc, GlobalGuard};

/// A device that can carry SMB Direct.
struct Device {
    raw: NonNull<bindings::ib_device>,
    /// What the log called it last.
    name: CString,
}

// SAFETY: The pointer is used under the list's lock only, while the device is registered.
unsafe impl Send for Device {}

/// A device that is being removed, and has not lost its users yet.
pub(crate) struct Leaving<'a>(NonNull<bindings::ib_device>, PhantomData<&'a ()>);

impl Leaving<'_> {
    /// Whether this is the device of the port.
    pub(crate) fn has(&self, port: &Port) -> bool {
        port.raw() == self.0.as_ptr()
    }
}

/// Who hears that a device goes.
pub(crate) trait Watcher: Send + Sync {
    /// Nothing is to be begun on the device. Its users have to let go of it: the removal waits for them.
    /// Process context; must not wait for any of them.
    fn device_goes(&self, device: &Leaving<'_>);
}

/// What is known of the devices.
struct Known {
    devices: KVec<Device>,
    watcher: Option<Arc<dyn Watcher>>,
}

impl Known {
    const NONE: Self = Self {
        devices: KVec::new(),
        watcher: None,
    };

    fn position(&self, device: *mut bindings::ib_device) -> Option<usize> {
        let mut devices = self.devices.iter();
        devices.position(|known| known.raw.as_ptr() == device)
    }
}

global_lock! {
    // SAFETY: Initialised in `Client::register`, before any use.
    unsafe(uninit) static DEVICES: Mutex<Known> = Known::NONE;
}

/// The registration with the RDMA core, undone on drop.
pub(crate) struct Client {
    raw: Pin<KBox<kernel::types::Opaque<bindings::ib_client>>>,
}

// SAFETY: The client structure is only used by the core after registration.
unsafe impl Send for Client {}
// SAFETY: As above.
unsafe impl Sync for Client {}

impl Client {
    /// Registers with the core; once per load of the module. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the core says.
    pub(crate) fn register(watcher: Arc<dyn Watcher>) -> Result<Self> {
        // SAFETY: Called once, from the module's initialisation.
        unsafe { DEVICES.init() };
        let raw = KBox::pin(
            kernel::types::Opaque::new(bindings::ib_client {
                name: c"smbdirect_ib_client".as_char_ptr(),
                add: Some(Self::add),
                remove: Some(Self::remove),
                rename: Some(Self::rename),
                ..Default::default()
            }),
            GFP_KERNEL,
        )?;
        DEVICES.lock().watcher = Some(watcher);
        // SAFETY: The structure stays in place until it is unregistered.
        match to_result(unsafe { bindings::ib_register_client(raw.get()) }) {
            Ok(()) => Ok(Self { raw }),
            Err(error) => {
                // A static is never dropped, and a watcher that stays keeps its workqueues.
                *DEVICES.lock() = Known::NONE;
                Err(error)
            }
        }
    }

    /// A device appears.
    ///
    /// # Safety
    ///
    /// * `device` is being registered with the core.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> c_int {
        // SAFETY: The core adds a valid device.
        let (node, limits) = unsafe {
            (
                (*device).node_type,
                Limits::read(&raw const (*device).attrs),
            )
        };
        let usable = matches!(
            u32::from(node),
            bindings::RDMA_NODE_IB_CA | bindings::RDMA_NODE_RNIC
        );
        let name = Self::name(device);
        if !usable || !limits.frwr() {
            pr_info!(
                "{}: no fast registration or not IB, RoCE or iWARP; ignored\n",
                name
            );
            return 0;
        }
        let link = match node_link(node) {
            Link::Iwarp => "iWARP",
            _ => "IB or RoCE",
        };
        pr_info!(
            "{}: {}, registers {} pages, depths {}/{}, pieces {}/{}\n",
            name,
            link,
            limits.max_fast_reg_pages(),
            limits.max_initiator(),
            limits.max_responder(),
            limits.max_send_sge(),
            limits.max_sge_rd(),
        );
        Self::remember(device).map_or_else(|error| error.to_errno(), |()| 0)
    }

    fn remember(device: *mut bindings::ib_device) -> Result {
        let raw = NonNull::new(device).ok_or(EINVAL)?;
        let name = CString::try_from(Self::c_name(device))?;
        DEVICES
            .lock()
            .devices
            .push(Device { raw, name }, GFP_KERNEL)?;
        Ok(())
    }

    /// A device goes.
    ///
    /// # Safety
    ///
    /// * `device` is being removed from the core.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, _data: *mut c_void) {
        let mut known = DEVICES.lock();
        if let Some(at) = known.position(device) {
            let _ = known.devices.remove(at);
            pr_info!("{}: removed\n", Self::name(device));
        }
        let watcher = known.watcher.clone();
        drop(known);
        if let (Some(watcher), Some(device)) = (watcher, NonNull::new(device)) {
            watcher.device_goes(&Leaving(device, PhantomData));
        }
    }

    /// A device has another name now.
    ///
    /// # Safety
    ///
    /// * `device` is registered with the core.
    unsafe extern "C" fn rename(device: *mut bindings::ib_device, _data: *mut c_void) {
        let name = CString::try_from(Self::c_name(device));
        let mut list = DEVICES.lock();
        let at = list.position(device);
        let Some(known) = at.and_then(|at| list.devices.get_mut(at)) else {
            return;
        };
        let old = BStr::from_bytes(known.name.to_bytes());
        pr_info!("{}: named {} now\n", old, Self::name(device));
        if let Ok(name) = name {
            known.name = name;
        }
    }

    fn c_name<'a>(device: *mut bindings::ib_device) -> &'a CStr {
        // SAFETY: The callers are called back with a valid device, and use its name until they return.
        unsafe { CStr::from_char_ptr(bindings::smbd_ib_device_name(device)) }
    }

    fn name<'a>(device: *mut bindings::ib_device) -> &'a BStr {
        BStr::from_bytes(Self::c_name(device).to_bytes())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // What follows is no removal of a device.
        DEVICES.lock().watcher = None;
        // SAFETY: Registered by `register`. The core removes every device first.
        unsafe { bindings::ib_unregister_client(self.raw.get()) };
        // A static is never dropped; the list has no devices any more, but still has their room.
        *DEVICES.lock() = Known::NONE;
    }
}

/// A network device, borrowed from a caller who holds a reference.
pub(crate) struct NetDevice(NonNull<bindings::net_device>);

impl NetDevice {
    /// # Safety
    ///
    /// * The pointer is to a network device that stays during the life of the value, with the lock
    ///   held that keeps its lower devices (rtnl).
    pub(crate) unsafe fn new(raw: NonNull<bindings::net_device>) -> Self {
        Self(raw)
    }

    /// How the device can carry SMB Direct: itself, or for a bridge or VLAN one of the devices
    /// directly below it; [`Link::Other`] if not at all. Context: as the core's own lookups,
    /// rtnl may be held.
    pub(crate) fn capability(&self) -> Link {
        let own = self.own_capability();
        if own != Link::Other {
            return own;
        }
        // SAFETY: A valid device by the contract of `new`.
        if unsafe { bindings::smbd_netif_is_stacked(self.0.as_ptr()) } {
            let below = self.lower_capability();
            if below != Link::Other {
                return below;
            }
        }
        // SAFETY: As above.
        let kind = unsafe { bindings::smbd_netdev_type(self.0.as_ptr()) };
        if u32::from(kind) == bindings::ARPHRD_INFINIBAND {
            return Link::IbOrRoce;
        }
        Link::Other
    }

    fn own_capability(&self) -> Link {
        self.known_capability()
            .unwrap_or_else(|| self.core_capability())
    }

    /// Looks for a port of a known device that is this network device.
    fn known_capability(&self) -> Option<Link> {
        let known: GlobalGuard<DEVICES> = DEVICES.lock();
        let device = known
            .devices
            .iter()
            .find(|device| self.is_port_of(device.raw.as_ptr()))?;
        // SAFETY: On the list, so registered.
        Some(node_link(unsafe { (*device.raw.as_ptr()).node_type }))
    }

    fn is_port_of(&self, device: *mut bindings::ib_device) -> bool {
        // SAFETY: The callers have a registered device; every netdev found is put again.
        unsafe {
            let ports =
                bindings::smbd_rdma_start_port(device)..=bindings::smbd_rdma_end_port(device);
            ports.into_iter().any(|port| {
                let netdev = bindings::ib_device_get_netdev(device, port);
                if !netdev.is_null() {
                    bindings::smbd_dev_put(netdev);
                }
                netdev == self.0.as_ptr()
            })
        }
    }

    /// Asks the core, which also knows devices without a port that names the network device.
    fn core_capability(&self) -> Link {
        // SAFETY: A valid network device; the device found is put again.
        unsafe {
            let device = bindings::ib_device_get_by_netdev(
                self.0.as_ptr(),
                bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN,
            );
            if device.is_null() {
                return Link::Other;
            }
            let frwr = Limits::read(&raw const (*device).attrs).frwr();
            let link = node_link((*device).node_type);
            bindings::ib_device_put(device);
            if frwr {
                link
            } else {
                Link::Other
            }
        }
    }

    fn lower_capability(&self) -> Link {
        // SAFETY: The contract of `new` keeps the list of lower devices.
        unsafe {
            let mut at = bindings::smbd_netdev_lower_start(self.0.as_ptr());
            loop {
                let lower = bindings::netdev_lower_get_next(self.0.as_ptr(), &mut at);
                let Some(lower) = NonNull::new(lower.cast()) else {
                    return Link::Other;
                };
                let link = NetDevice(lower).own_capability();
                if link != Link::Other {
                    return link;
                }
            }
        }
    }
}

fn node_link(node: u8) -> Link {
    match u32::from(node) {
        bindings::RDMA_NODE_IB_CA => Link::IbOrRoce,
        bindings::RDMA_NODE_RNIC => Link::Iwarp,
        _ => Link::Other,
    }
}
