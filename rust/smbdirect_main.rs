// SPDX-License-Identifier: GPL-2.0

//! SMB Direct (SMB3 over RDMA, MS-SMBD) for Linux, in Rust.
//!
//! This module is the transport under `mount -t cifs -o rdma` and ksmbd: reliable RDMA connections
//! that carry messages under a credit protocol, and RDMA READ and WRITE of registered memory. It
//! offers the functions of `include/linux/smbdirect.h`, and files in debugfs.
//!
//! ```text
//!        cifs, ksmbd
//!            |  28 functions, namespace SMBDIRECT
//!           abi       pointers in, Result out
//!            |
//!          conn       the engine: ordering, locks, timers, pools, teardown
//!          |   \
//!       proto   rdma  decisions (no kernel) | safe verbs (no SMB)
//!                 \
//!                 kern          what the kernel crate lacks
//!                   \
//!                   bindings
//! ```
//!
//! Dependencies only point down. `proto` is pure and is tested on the host by the million;
//! `conn` contains no `unsafe`.

mod abi;
mod bindings;
mod conn;
mod kern;
mod proto;
mod rdma;

use core::borrow::Borrow;
use kernel::prelude::*;
use proto::params::MESSAGE_SIZES;

module! {
    type: SmbDirect,
    name: "smbdirect",
    authors: ["The smbdirect-rs authors"],
    description: "SMB Direct transport (SMB3 over RDMA), in Rust",
    license: "GPL",
    params: {
        max_message_size: u32 {
            default: 0,
            description: "Largest message to send and accept, bytes, 1364 to 8136; 0 (default): what cifs and ksmbd ask for, 1364",
        },
    },
}

/// The module. The order of the fields is their drop order: no readers of its state, no new devices,
/// then no sockets.
struct SmbDirect {
    /// What administrators can read.
    _files: Option<kern::debugfs::Folder>,
    /// Where tests make things fail.
    _points: rdma::fault::Points,
    /// Hears of devices.
    _client: rdma::client::Client,
    /// Owns what the exported functions find.
    _running: abi::state::Running,
}

/// The message size the administrator asked for.
///
/// # Errors
///
/// `-EINVAL`: out of range.
fn message_size() -> Result<Option<u32>> {
    // The kernel crate of 7.2 lends the value, that of 7.3 hands it out.
    let value = module_parameters::max_message_size.value();
    let size: u32 = *Borrow::<u32>::borrow(&value);
    if size != 0 && !MESSAGE_SIZES.contains(&size) {
        pr_err!(
            "max_message_size={} is neither 0 nor from {} to {}\n",
            size,
            MESSAGE_SIZES.start(),
            MESSAGE_SIZES.end()
        );
        return Err(EINVAL);
    }
    Ok((size != 0).then_some(size))
}

impl kernel::Module for SmbDirect {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let running = abi::state::Running::start(message_size()?)?;
        let client = rdma::client::Client::register(running.watcher()?)?;
        let points = rdma::fault::Points::add();
        pr_info!("SMB Direct in Rust, ready for cifs and ksmbd\n");
        Ok(Self {
            _files: running.files(),
            _points: points,
            _client: client,
            _running: running,
        })
    }
}
