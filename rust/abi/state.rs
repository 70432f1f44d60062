// SPDX-License-Identifier: GPL-2.0

//! The module's state, found by the exported functions without an argument.

use crate::conn::connection::Connection;
use crate::conn::files;
use crate::conn::shared::Shared;
use crate::conn::socket::Socket;
use crate::kern::debugfs::Folder;
use crate::kern::errno::ESHUTDOWN;
use crate::rdma::client::Watcher;
use kernel::prelude::*;
use kernel::sync::{global_lock, Arc};

global_lock! {
    // SAFETY: Initialised by `Running::start`, which is the first thing the module does.
    unsafe(uninit) static SHARED: Mutex<Option<Arc<Shared>>> = None;
}

/// Proof that the module runs; dropping it tears down whatever consumers left behind.
pub(crate) struct Running(());

impl Running {
    /// Creates the common state; `message_size` is in `proto::params::MESSAGE_SIZES`. Called once, from
    /// the module's initialisation.
    ///
    /// # Errors
    ///
    /// `-ENOMEM`.
    pub(crate) fn start(message_size: Option<u32>) -> Result<Self> {
        // SAFETY: Called once, before any use.
        unsafe { SHARED.init() };
        let shared = Shared::new(message_size)?;
        *SHARED.lock() = Some(shared);
        Ok(Self(()))
    }

    /// Who ends the connections of a device that goes.
    ///
    /// # Errors
    ///
    /// None, as long as the module runs.
    pub(crate) fn watcher(&self) -> Result<Arc<dyn Watcher>> {
        Ok(shared()?)
    }

    /// What administrators can read; the module also runs without.
    pub(crate) fn files(&self) -> Option<Folder> {
        shared().and_then(|shared| files::add(&shared)).ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let shared = SHARED.lock().take();
        let Some(shared) = shared else { return };
        while let Some(connection) = shared.leftover() {
            pr_warn!("a consumer left a socket behind, tearing it down\n");
            let raw = Arc::as_ptr(&connection);
            drop(Socket::new(connection));
            // SAFETY: The consumer leaked one reference to the socket it never released. Its
            // code is gone, or this module could not be unloaded, so nobody else takes it back.
            drop(unsafe { Arc::<Connection>::from_raw(raw) });
        }
        shared.flush();
    }
}

/// The common state.
///
/// # Errors
///
/// `-ESHUTDOWN` while the module goes.
pub(super) fn shared() -> Result<Arc<Shared>> {
    Ok(SHARED.lock().clone().ok_or(ESHUTDOWN)?)
}
