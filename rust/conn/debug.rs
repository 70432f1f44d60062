// SPDX-License-Identifier: GPL-2.0

//! The SMB Direct block of cifs' DebugData, a text tools parse: every byte is fixed.
//!
//! Called with a spin lock of the consumer held: reads counters under irq-safe locks, one at a
//! time, and never sleeps (R46).

use super::connection::Connection;
use kernel::ffi::c_uint;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Milliseconds of a second.
const MSEC_PER_SEC: u32 = 1000;

impl Connection {
    /// Prints the block. `threshold` is the consumer's: bytes from which it offloads.
    pub(crate) fn show(self: &Arc<Self>, threshold: c_uint, m: &SeqFile) {
        self.show_parameters(threshold, m);
        self.show_queues(m);
        self.show_regions(m);
    }

    fn show_parameters(&self, threshold: c_uint, m: &SeqFile) {
        let (params, status) = (self.params.get(), self.state().status());
        let keep_alive_seconds = params.keepalive_interval_msec / MSEC_PER_SEC;
        seq_print!(
            m,
            "\nSMBDirect protocol version: 0x{:x} transport status: {} ({})",
            crate::proto::pdu::VERSION,
            status.name(),
            status.number()
        );
        seq_print!(
            m,
            "\nConn receive_credit_max: {} send_credit_target: {} max_send_size: {}",
            { params.recv_credit_max },
            { params.send_credit_target },
            { params.max_send_size }
        );
        seq_print!(
            m,
            "\nConn max_fragmented_recv_size: {} max_fragmented_send_size: {} max_receive_size:{}",
            { params.max_fragmented_recv_size },
            { params.max_fragmented_send_size },
            { params.max_recv_size }
        );
        seq_print!(
            m,
            "\nConn keep_alive_interval: {} max_readwrite_size: {} rdma_readwrite_threshold: {}",
            keep_alive_seconds,
            { params.max_read_write_size },
            threshold
        );
    }

    fn show_queues(&self, m: &SeqFile) {
        let counters = &self.statistics;
        seq_print!(m,
            "\nDebug count_get_receive_buffer: {} count_put_receive_buffer: {} count_send_empty: {}",
            counters.taken_receives.load(Relaxed), counters.returned_receives.load(Relaxed),
            counters.empty_sends.load(Relaxed));
        // Buffers leave the queue when they are consumed, not when the reader begins with them.
        let (enqueued, dequeued) = (
            counters.enqueued.load(Relaxed),
            counters.dequeued.load(Relaxed),
        );
        let buffers = enqueued.saturating_sub(dequeued);
        seq_print!(
            m,
            "\nRead Queue count_enqueue_reassembly_queue: {} count_dequeue_reassembly_queue: {} \
             reassembly_data_length: {} reassembly_queue_length: {}",
            enqueued,
            dequeued,
            self.queued.get(),
            buffers
        );
        let credits = self.flow.lock().credits;
        seq_print!(
            m,
            "\nCurrent Credits send_credits: {} receive_credits: {} receive_credit_target: {}",
            credits.send_credits(),
            credits.outstanding(),
            credits.receive_target()
        );
        let pending = self.qp().map_or(0, |qp| qp.sends_inflight());
        // The space at the end is part of the text.
        seq_print!(m, "\nPending send_pending: {} ", pending);
    }

    fn show_regions(&self, m: &SeqFile) {
        let params = self.params.get();
        let kind = match self.qp() {
            Some(qp) if qp.pd().port().limits().sg_gaps() => 1,
            _ => 0,
        };
        seq_print!(
            m,
            "\nMR responder_resources: {} max_frmr_depth: {} mr_type: 0x{:x}",
            { params.responder_resources },
            { params.max_frmr_depth },
            kind
        );
        seq_print!(
            m,
            "\nMR mr_ready_count: {} mr_used_count: {}",
            self.pool.free_count(),
            self.pool.used_count()
        );
    }
}
