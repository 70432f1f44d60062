// SPDX-License-Identifier: GPL-2.0

//! What is asked of devices, counted per protection domain, that is, per connection.

use crate::kern::counters::counters;

counters! {
    /// Work of one domain, or of several together.
    pub(crate) struct Counters {
        /// Domains made.
        domains,
        /// Domains gone.
        domains_gone,
        /// Doorbells of send queues.
        send_posts,
        /// Work requests of send queues.
        send_requests,
        /// Completions of send queues, of whatever outcome.
        send_completions,
        /// Doorbells of receive queues.
        receive_posts,
        /// Work requests of receive queues.
        receive_requests,
        /// Completions of receive queues, of whatever outcome.
        receive_completions,
        /// Completions with an error, flushed requests among them.
        failed_completions,
        /// Messages posted.
        messages_sent,
        /// Mappings made: chunks of message memory and the memory of registrations.
        maps,
        /// Mappings undone.
        unmaps,
        /// Registrations posted.
        registered,
        /// Invalidations posted.
        invalidated,
        /// Registrations that went through a copy, and their bytes.
        bounced,
        bytes_bounced,
        /// RDMA transfers posted.
        transfers,
        /// Those among them that were copied, and not waited for.
        transfers_copied,
        /// Times that memory was allocated for a registration or a transfer; what comes later uses it again.
        allocations,
    }
}

/// The work of domains that are gone.
static GONE: Counters = Counters::new();

impl Counters {
    /// Keeps the counts of a domain that goes.
    pub(super) fn retire(&self) {
        self.add_to(&GONE);
    }

    /// The work of all domains that are gone, to which the living are to be added.
    pub(crate) fn sum_of_gone() -> Self {
        let sum = Self::new();
        GONE.add_to(&sum);
        sum
    }
}
