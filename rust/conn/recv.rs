// SPDX-License-Identifier: GPL-2.0

//! Receiving: completions in, bytes out.
//!
//! A completion checks the message (rules D1 to D12), updates the credits, and appends the buffer to
//! the reassembly queue; from then on the handler does not read it. One reader per connection takes
//! fragments off the queue, copies outside all locks, and returns the buffers in groups. Reads
//! are full: they return what was asked for or an error. The four-byte length the consumers read
//! at the start of a message is made up here and never travels (rule F7).
//!
//! The byte count is a [`Gauge`](crate::kern::gauge::Gauge), raised after the queue.

use super::connection::Connection;
use super::end::completion;
use crate::kern::counters::count;
use crate::kern::errno::ENOTCONN;
use crate::kern::ring::Ring;
use crate::kern::wait::{Interrupted, Signals};
use crate::proto::cause::{Cause, Request};
use crate::proto::pdu::DataHeader;
use crate::proto::reassembly::Reassembly;
use crate::proto::rule::Rule;
use crate::rdma::qp::Status;
use crate::rdma::receive::{Received, RecvSlot};
use kernel::iov::IovIterDest;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A received piece of a message.
pub(crate) struct Fragment {
    slot: RecvSlot,
    /// Where the bytes not yet read start, from the start of the buffer.
    offset: usize,
    /// Bytes not yet read.
    len: usize,
    /// Length of the message that starts here, until the reader has seen it.
    announce: Option<u32>,
}

/// Receive buffers in the hands of the processor.
pub(crate) struct Receive {
    /// Not posted, not holding data.
    pub(crate) free: Ring<RecvSlot>,
    /// Holding data, in order.
    pub(crate) queue: Ring<Fragment>,
    /// Where in a message the peer is.
    pub(crate) reassembly: Reassembly,
    /// Buffers there are.
    pub(crate) buffers: usize,
}

impl Receive {
    /// No buffers, no message begun.
    pub(crate) fn new() -> Self {
        Self {
            free: Ring::empty(),
            queue: Ring::empty(),
            reassembly: Reassembly::new(false),
            buffers: 0,
        }
    }

    /// Whether so many buffers hold data that the reader must take what is there, however little:
    /// a peer that sends tiny fragments would run out of credits before the reader has its bytes.
    fn is_crowded(&self) -> bool {
        self.queue.len() > self.buffers / 2
    }

    /// Takes over an arrived message.
    fn place(&mut self, header: &DataHeader, slot: RecvSlot) -> Result<bool, Rule> {
        let placement = self.reassembly.accept(header)?;
        if !placement.stored {
            // Both queues have room for every buffer there is.
            let _ = self.free.push(slot);
            return Ok(false);
        }
        let fragment = Fragment {
            slot,
            offset: usize::try_from(header.offset).unwrap_or(usize::MAX),
            len: usize::try_from(header.length).unwrap_or(0),
            announce: placement.first.then_some(placement.total),
        };
        let _ = self.queue.push(fragment);
        Ok(true)
    }
}

/// The reader's place.
pub(crate) struct Reader {
    /// The fragment being read, taken off the queue.
    current: Option<Fragment>,
}

impl Reader {
    /// At the start of the queue.
    pub(crate) fn new() -> Self {
        Self { current: None }
    }
}

/// A reader copies early once this many bytes are there, so that the copy overlaps with arrival
/// and long reads return buffers (R31, P5).
const EARLY_COPY: usize = 32 * 1024;

/// The size of the length that consumers read in front of a message.
const LENGTH_PREFIX: usize = 4;

/// Buffers a reader returns before it looks whether to post receives.
const RETURN_GROUP: u32 = 8;

impl Connection {
    /// A receive completed: negotiation or data. Softirq or workqueue.
    pub(crate) fn message_arrived(self: &Arc<Self>, received: Received) {
        match self.negotiated.as_ref() {
            None => self.negotiation_arrived(received),
            Some(negotiated) => {
                let limit = negotiated.params.max_fragmented_recv_size;
                if self.broken.is_set() {
                    return;
                }
                if let Err(rule) = self.data_arrived(received, limit) {
                    self.broken.set();
                    self.fail_rule(rule);
                }
            }
        }
    }

    /// A data message arrived.
    ///
    /// # Errors
    ///
    /// The rule it breaks.
    fn data_arrived(self: &Arc<Self>, received: Received, limit: u32) -> Result<(), Rule> {
        let Some(qp) = self.qp() else { return Ok(()) };
        let header = DataHeader::parse(qp.received_bytes(&received.slot, received.len), limit)?;
        if let Some(key) = received.invalidated {
            if !self.pool.invalidated_by_peer(key) {
                return Err(Rule::I4);
            }
            count(&self.statistics.invalidated_by_peer, 1);
        }
        let credits = self.flow.lock().received(&header)?;
        count(&self.statistics.credits_used, 1);
        let mut receive = self.receive.lock();
        let stored = receive.place(&header, received.slot)?;
        let crowded = receive.is_crowded();
        drop(receive);
        if stored {
            count(&self.statistics.enqueued, 1);
            let bytes = usize::try_from(header.length).unwrap_or(0);
            self.queued.raise(bytes, crowded);
        } else {
            count(&self.statistics.returned_receives, 1);
            count(&self.statistics.empty_receives, 1);
        }
        if credits.wake {
            self.send_wait.wake_all();
        }
        if credits.refill {
            // A failure ends the connection and is logged there.
            let _ = self.refill();
        }
        self.pump();
        Ok(())
    }

    /// A receive failed. Softirq or workqueue.
    pub(crate) fn receive_failed_with(self: &Arc<Self>, status: Status) {
        // Until the connection is established the CM alone flushes the queue pair, on a rejection
        // say, and its event, which may come later, knows why.
        if status.is_flush() && !self.state().is_established() {
            return;
        }
        self.fail(completion(Request::Receive, status));
    }

    /// Reads exactly what the iterator has room for, or the length of the next message if that is
    /// four bytes and a message starts here. One caller at a time. Sleeps.
    ///
    /// # Errors
    ///
    /// * `-ENOTCONN` when the connection is over and not enough is queued.
    /// * `-ERESTARTSYS` on a signal; nothing is consumed then.
    /// * `-EFAULT` when the iterator faults, which ends the connection.
    pub(crate) fn read(self: &Arc<Self>, iter: &mut IovIterDest<'_>) -> Result<usize> {
        let size = iter.len();
        if size == 0 {
            return Ok(0);
        }
        let mut reader = self.reader.lock();
        let mut done = 0usize;
        while done < size {
            let left = size - done;
            self.wait_for_data(left.min(EARLY_COPY), done == 0)?;
            if done == 0 && size == LENGTH_PREFIX {
                if let Some(total) = self.announced(&mut reader) {
                    return self.deliver_length(iter, total);
                }
            }
            let ready = left.min(self.queued.get());
            self.copy_out(&mut reader, iter, ready)?;
            done += ready;
        }
        Ok(size)
    }

    /// Waits until `bytes` are queued, or fewer if the buffers run short.
    fn wait_for_data(self: &Arc<Self>, bytes: usize, interruptible: bool) -> Result {
        if self.queued.get() >= bytes {
            return Ok(());
        }
        // A read that has begun must go on, but not for ever: a peer can hold back the rest of a
        // message and answer keepalives.
        let (signals, limit) = match interruptible {
            true => (Signals::Heed, None),
            false => (Signals::Ignore, self.stall_limit()),
        };
        // What arrived before the end is delivered (R29): the bytes count for more than the failure.
        let outcome = self.queued.wait(bytes, signals, limit, || {
            if self.receive.lock().is_crowded() {
                return Some(Ok(()));
            }
            (!self.is_connected()).then_some(Err(ENOTCONN.into()))
        });
        match outcome {
            Ok(result) => result,
            Err(Interrupted::Signal) => Err(ERESTARTSYS),
            Err(Interrupted::TimedOut) => {
                self.fail(Cause::NoRest);
                Err(self.error())
            }
        }
    }

    /// The fragment to read from, taken off the queue if there is none.
    fn current<'a>(&self, reader: &'a mut Reader) -> Option<&'a mut Fragment> {
        if reader.current.is_none() {
            reader.current = self.receive.lock().queue.pop();
        }
        reader.current.as_mut()
    }

    /// The length of the message that starts at the reader's place, once.
    fn announced(&self, reader: &mut Reader) -> Option<u32> {
        self.current(reader)?.announce.take()
    }

    /// Hands the made-up length to the consumer (rule F7).
    fn deliver_length(self: &Arc<Self>, iter: &mut IovIterDest<'_>, total: u32) -> Result<usize> {
        if iter.copy_to_iter(&total.to_be_bytes()) != LENGTH_PREFIX {
            self.fail(Cause::Fault);
            return Err(EFAULT);
        }
        Ok(LENGTH_PREFIX)
    }

    /// Copies `bytes` that are known to be queued.
    fn copy_out(
        self: &Arc<Self>,
        reader: &mut Reader,
        iter: &mut IovIterDest<'_>,
        bytes: usize,
    ) -> Result {
        let qp = self.qp().ok_or(ENOTCONN)?;
        let mut left = bytes;
        let mut returned = 0;
        while left > 0 {
            // The count says that there is more.
            let fragment = self.current(reader).ok_or(EIO)?;
            let take = fragment.len.min(left);
            let end = fragment.offset.checked_add(take).ok_or(EIO)?;
            let data = qp.received_bytes(&fragment.slot, end);
            let data = data.get(fragment.offset..).ok_or(EIO)?;
            if iter.copy_to_iter(data) != take {
                // Some of the bytes are gone to the caller, some buffers are recycled: the stream
                // cannot be read again (R30).
                self.fail(Cause::Fault);
                return Err(EFAULT);
            }
            fragment.announce = None;
            fragment.offset = end;
            fragment.len -= take;
            left -= take;
            self.queued.lower(take);
            if fragment.len == 0 {
                if let Some(fragment) = reader.current.take() {
                    self.recycle(fragment.slot);
                    returned += 1;
                }
            }
            if returned >= RETURN_GROUP {
                returned = 0;
                self.replenish();
            }
        }
        if returned > 0 {
            self.replenish();
        }
        count(&self.statistics.bytes_received, u64::try_from(bytes)?);
        Ok(())
    }

    /// Returns a buffer whose bytes are read.
    fn recycle(&self, slot: RecvSlot) {
        let _ = self.receive.lock().free.push(slot);
        count(&self.statistics.dequeued, 1);
        count(&self.statistics.returned_receives, 1);
    }
}
