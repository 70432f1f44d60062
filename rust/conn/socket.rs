// SPDX-License-Identifier: GPL-2.0

//! The front handle of a connection.

use super::connection::Connection;
use kernel::sync::Arc;

/// The one handle that owns a connection's life: dropping it disconnects and returns when nothing
/// of the connection runs any more. Process context.
pub(crate) struct Socket(Arc<Connection>);

impl Socket {
    /// Makes the front handle of a new connection.
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    /// The connection.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }

    /// Whether this is the handle of that connection.
    pub(crate) fn is(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.0, connection)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.tear_down();
    }
}
