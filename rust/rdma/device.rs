// SPDX-License-Identifier: GPL-2.0

//! Devices, their limits, and protection domains.

use super::counters::Counters;
use crate::bindings;
use crate::kern::counters::count;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// How a port carries RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// InfiniBand or RoCE.
    IbOrRoce,
    /// iWARP.
    Iwarp,
    /// Neither; not usable here.
    Other,
}

impl Link {
    /// # Safety
    ///
    /// * `device` is valid and has a port of this number.
    pub(super) unsafe fn of(device: *const bindings::ib_device, port: u32) -> Self {
        // SAFETY: By the contract of this function.
        unsafe {
            if bindings::smbd_rdma_protocol_iwarp(device, port) {
                Self::Iwarp
            } else if bindings::smbd_rdma_ib_or_roce(device, port) {
                Self::IbOrRoce
            } else {
                Self::Other
            }
        }
    }
}

/// What a device can do, in the units of the verbs interface.
pub(crate) struct Limits(bindings::smbd_device_limits);

impl Limits {
    /// Reads the limits out of a device's attributes.
    ///
    /// # Safety
    ///
    /// * `attrs` points to attributes that are valid for reads.
    pub(crate) unsafe fn read(attrs: *const bindings::ib_device_attr) -> Self {
        let mut raw = bindings::smbd_device_limits::default();
        // SAFETY: `attrs` is valid by the contract of this function, `raw` for writes.
        unsafe { bindings::smbd_device_limits(attrs, &mut raw) };
        Self(raw)
    }

    /// Whether memory can be registered by work requests (FRWR), without which there is no SMB
    /// Direct.
    pub(crate) fn frwr(&self) -> bool {
        self.0.frwr
    }

    /// Whether a registration may have gaps between its pieces.
    pub(crate) fn sg_gaps(&self) -> bool {
        self.0.sg_gaps
    }

    /// The most pages one registration covers.
    pub(crate) fn max_fast_reg_pages(&self) -> u32 {
        self.0.max_fast_reg_pages
    }

    /// The most work requests of one queue.
    pub(crate) fn max_qp_wr(&self) -> u32 {
        self.0.max_qp_wr
    }

    /// The most entries of a completion queue.
    pub(crate) fn max_cqe(&self) -> u32 {
        self.0.max_cqe
    }

    /// The most pieces of one send.
    pub(crate) fn max_send_sge(&self) -> u32 {
        self.0.max_send_sge
    }

    /// The most pieces of one receive.
    pub(crate) fn max_recv_sge(&self) -> u32 {
        self.0.max_recv_sge
    }

    /// The most pieces of one RDMA READ.
    pub(crate) fn max_sge_rd(&self) -> u32 {
        self.0.max_sge_rd
    }

    /// The most RDMA READs a queue pair of this device serves at a time.
    pub(crate) fn max_responder(&self) -> u32 {
        self.0.max_qp_rd_atom
    }

    /// The most RDMA READs a queue pair of this device starts at a time.
    pub(crate) fn max_initiator(&self) -> u32 {
        self.0.max_qp_init_rd_atom
    }
}

/// A port of a device that stays while this value lives.
///
/// # Invariants
///
/// `device` is alive as long as `_holder` is.
#[derive(Clone)]
pub(crate) struct Port {
    device: NonNull<bindings::ib_device>,
    number: u32,
    _holder: Arc<dyn HoldsDevice>,
}

/// Something whose existence keeps an RDMA device alive, that is, a connection manager id.
pub(crate) trait HoldsDevice: Send + Sync {}

// SAFETY: The pointer is only used for calls that are allowed from any task.
unsafe impl Send for Port {}
// SAFETY: As above.
unsafe impl Sync for Port {}

impl Port {
    /// # Safety
    ///
    /// * `device` stays alive as long as `holder`.
    pub(super) unsafe fn new(
        device: NonNull<bindings::ib_device>,
        number: u32,
        holder: Arc<dyn HoldsDevice>,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            device,
            number,
            _holder: holder,
        }
    }

    /// The device, for calls inside this layer.
    pub(super) fn raw(&self) -> *mut bindings::ib_device {
        self.device.as_ptr()
    }

    /// The port's number on its device, from 1.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The device's limits.
    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: The device is alive by the invariant; its attributes do not change.
        unsafe { Limits::read(&raw const (*self.raw()).attrs) }
    }

    /// How the port carries RDMA.
    pub(crate) fn link(&self) -> Link {
        // SAFETY: The device is alive by the invariant.
        unsafe { Link::of(self.raw(), self.number) }
    }

    /// The device's name, for log lines. A rename while it is printed garbles the line at worst.
    pub(crate) fn device_name(&self) -> &CStr {
        // SAFETY: The device is alive by the invariant and its name is never null.
        unsafe { CStr::from_char_ptr(bindings::smbd_ib_device_name(self.raw())) }
    }

    /// How many send work requests the core needs for `contexts` RDMA transfers at a time.
    pub(crate) fn rw_send_wrs(&self, contexts: u32) -> u32 {
        // SAFETY: The device is alive by the invariant.
        unsafe { bindings::rdma_rw_max_send_wr(self.raw(), self.number, contexts, 0) }
    }
}

/// A protection domain.
///
/// # Invariants
///
/// `raw` is a valid protection domain of `port`'s device, and nothing else frees it.
pub(crate) struct Pd {
    raw: NonNull<bindings::ib_pd>,
    port: Port,
    counters: Counters,
}

// SAFETY: Protection domains may be used from any task.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain. Sleeps.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`, or what the driver says.
    pub(crate) fn new(port: Port) -> Result<Arc<Self>> {
        // SAFETY: The port keeps its device alive.
        let raw = kernel::error::from_err_ptr(unsafe { bindings::smbd_ib_alloc_pd(port.raw()) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Just allocated; freed only by the drop below (also when `Arc::new` fails).
        let counters = Counters::new();
        count(&counters.domains, 1);
        let pd = Self {
            raw,
            port,
            counters,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// The port it was made for.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// The work of everything made in it.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// The key for memory that this side's work requests name.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: Valid by the invariant; the key does not change.
        unsafe { (*self.raw()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the invariant this is the only free; whatever was made in the domain held a
        // reference to it and is gone.
        unsafe { bindings::smbd_ib_dealloc_pd(self.raw.as_ptr()) };
        count(&self.counters.domains_gone, 1);
        self.counters.retire();
    }
}
