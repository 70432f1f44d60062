// SPDX-License-Identifier: GPL-2.0
//! Queue and pool sizes from device limits.
//!
//! Section 9 and the RW credits of section 14 of the ABI page; R10 (small devices), R42 and R43 (RDMA
//! contexts), C7. Every limit comes from the connection's own device and is compared in 32 bits, in the
//! width it has there. What does not fit is scaled down; only a device that cannot hold a minimal
//! connection is refused.
//!
//! Send queue: one slot per message under way, two per memory region (REG and INV), the worst case of
//! the RDMA contexts, one for the drain. Receive queue: the credit window, the reserve of the last-credit
//! rule (`credits`), one for the drain.

/// Limits of a device, as its attributes state them; negative attributes count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Work requests per queue.
    pub max_qp_wr: u32,
    /// Entries per completion queue.
    pub max_cqe: u32,
    /// Scatter/gather entries per send.
    pub max_send_sge: u32,
    /// Scatter/gather entries per receive.
    pub max_recv_sge: u32,
    /// Scatter/gather entries per RDMA READ.
    pub max_sge_rd: u32,
    /// Pages per fast registration; 0 without support.
    pub max_fast_reg_page_list_len: u32,
}

/// What a connection would like to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Messages we keep under way (`send_credit_target`).
    pub send_messages: u16,
    /// Credit window of the peer (`recv_credit_max`).
    pub recv_credits: u16,
    /// Memory regions of the pool; 0 on the server.
    pub regions: u32,
    /// RDMA contexts, see [`rw_plan`]; 0 on the client.
    pub rw_contexts: u32,
    /// Work requests of one RDMA context in the worst case, at least 1.
    pub wr_per_context: u32,
    /// Scatter/gather entries per send: header and payload.
    pub send_sges: u32,
}

/// Sizes that fit the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Messages we may keep under way: the local send slots (C7).
    pub send_messages: u16,
    /// Credit window of the peer; replaces `recv_credit_max`.
    pub recv_credits: u16,
    /// Memory regions of the pool.
    pub regions: u32,
    /// RDMA contexts.
    pub rw_contexts: u32,
    /// Work requests of the send queue, RDMA contexts included.
    pub send_wr: u32,
    /// Of these, those of the RDMA contexts, for an owner of the queue that adds them itself.
    pub rw_wr: u32,
    /// Work requests of the receive queue.
    pub recv_wr: u32,
    /// Entries of the send completion queue.
    pub send_cqe: u32,
    /// Entries of the receive completion queue.
    pub recv_cqe: u32,
    /// Scatter/gather entries per send.
    pub send_sges: u32,
    /// Scatter/gather entries per receive.
    pub recv_sges: u32,
}

/// The limit that not even a minimal connection fits; maps to `-EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFit {
    /// Work requests or completions on the send side.
    Send,
    /// Work requests or completions on the receive side.
    Recv,
    /// Scatter/gather entries.
    Sge,
}

impl NoFit {
    /// One short sentence for the log.
    pub const fn text(self) -> &'static str {
        match self {
            NoFit::Send => "device has too few send work requests or completions",
            NoFit::Recv => "device has too few receive work requests or completions",
            NoFit::Sge => "device has no scatter/gather entries",
        }
    }
}

/// Fewest messages under way: one under construction, one on the wire.
pub const MIN_SEND_MESSAGES: u32 = 2;
/// Receive work requests besides the window: the reserve and the drain.
pub const RECV_EXTRA: u32 = 2;
/// Send work requests besides the shares: the drain.
pub const SEND_EXTRA: u32 = 1;
/// Work requests of a memory region: REG and INV.
pub const WR_PER_REGION: u32 = 2;

/// A share of the send queue: `units` of `cost` work requests, at least `least` units.
#[derive(Clone, Copy)]
struct Share {
    units: u32,
    cost: u32,
    least: u32,
}

impl Share {
    fn new(units: u32, cost: u32, least: u32) -> Self {
        Self {
            units,
            cost: cost.max(1),
            least: least.min(units),
        }
    }

    fn wr(&self) -> u64 {
        u64::from(self.units).saturating_mul(u64::from(self.cost))
    }

    fn least_wr(&self) -> u64 {
        u64::from(self.least).saturating_mul(u64::from(self.cost))
    }

    /// Scales to `budget / total` of the units, but not below the least.
    fn scale(&mut self, budget: u64, total: u64) {
        let units = u64::from(self.units)
            .saturating_mul(budget)
            .checked_div(total)
            .unwrap_or(0);
        // Not more than before, so it fits.
        self.units = u32::try_from(units)
            .unwrap_or(self.units)
            .min(self.units)
            .max(self.least);
    }

    /// Gives up units until `excess` work requests are saved or the least is reached; returns what is
    /// still in excess.
    fn trim(&mut self, excess: u64) -> u64 {
        let spare = self.units.saturating_sub(self.least);
        let units = u32::try_from(excess.div_ceil(u64::from(self.cost.max(1))))
            .unwrap_or(u32::MAX)
            .min(spare);
        self.units = self.units.saturating_sub(units);
        excess.saturating_sub(u64::from(units).saturating_mul(u64::from(self.cost)))
    }
}

fn total(shares: &[Share; 3]) -> u64 {
    shares
        .iter()
        .fold(0, |sum: u64, share| sum.saturating_add(share.wr()))
}

/// Scales the shares until they fit `budget`; `None` if the least ones do not.
fn fit(mut shares: [Share; 3], budget: u64) -> Option<[Share; 3]> {
    let sum = total(&shares);
    if sum <= budget {
        return Some(shares);
    }
    let least = shares
        .iter()
        .fold(0, |sum: u64, share| sum.saturating_add(share.least_wr()));
    if least > budget {
        return None;
    }
    shares.iter_mut().for_each(|share| share.scale(budget, sum));
    let mut excess = total(&shares).saturating_sub(budget);
    for share in &mut shares {
        excess = share.trim(excess);
    }
    Some(shares)
}

/// Sizes for a connection on a device.
///
/// # Errors
///
/// [`NoFit`] when not even two messages, one memory region (if any is wanted), one RDMA context (if any
/// is wanted) and one receive credit fit.
pub fn plan(wanted: &Wanted, device: &DeviceLimits) -> Result<Plan, NoFit> {
    let budget = device.max_qp_wr.min(device.max_cqe);
    if device.max_send_sge == 0 || device.max_recv_sge == 0 || wanted.send_sges == 0 {
        return Err(NoFit::Sge);
    }
    let messages = u32::from(wanted.send_messages).max(MIN_SEND_MESSAGES);
    let wanted_shares = [
        Share::new(messages, 1, MIN_SEND_MESSAGES),
        Share::new(wanted.regions, WR_PER_REGION, 1),
        Share::new(wanted.rw_contexts, wanted.wr_per_context, 1),
    ];
    let send_budget = budget.checked_sub(SEND_EXTRA).ok_or(NoFit::Send)?;
    let shares = fit(wanted_shares, u64::from(send_budget)).ok_or(NoFit::Send)?;
    let [messages, regions, contexts] = shares;
    let send_wr = total(&shares).saturating_add(u64::from(SEND_EXTRA));
    let send_wr = u32::try_from(send_wr).map_err(|_| NoFit::Send)?;

    let recv_budget = budget
        .checked_sub(RECV_EXTRA)
        .filter(|&room| room > 0)
        .ok_or(NoFit::Recv)?;
    let recv_credits = u32::from(wanted.recv_credits).max(1).min(recv_budget);
    let recv_wr = recv_credits.saturating_add(RECV_EXTRA);
    Ok(Plan {
        send_messages: u16::try_from(messages.units).unwrap_or(u16::MAX),
        recv_credits: u16::try_from(recv_credits).unwrap_or(u16::MAX),
        regions: regions.units,
        rw_contexts: contexts.units,
        send_wr,
        rw_wr: u32::try_from(contexts.wr()).unwrap_or(u32::MAX),
        recv_wr,
        send_cqe: send_wr,
        recv_cqe: recv_wr,
        send_sges: wanted.send_sges.min(device.max_send_sge),
        recv_sges: 1,
    })
}

/// How the server's RDMA transfers are cut into contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwPlan {
    /// Pages that one context (one RW credit) covers, at least 1.
    pub pages_per_credit: u32,
    /// Contexts, so that one transfer of the largest size and one small one run at the same time; at
    /// least 2.
    pub credits: u32,
}

/// Most pages of a memory region that is used for an RDMA transfer.
pub const RW_MR_PAGES: u32 = 256;

/// Pages that one RDMA context of this device can cover: a memory region where the device uses them for
/// RDMA (`uses_mr`), else the entries of one RDMA READ.
pub fn pages_per_context(device: &DeviceLimits, uses_mr: bool) -> u32 {
    if uses_mr {
        device.max_fast_reg_page_list_len.min(RW_MR_PAGES)
    } else {
        device.max_sge_rd
    }
    .max(1)
}

/// RW credits for transfers of up to `max_read_write_size` bytes with pages of `page_size` bytes, when
/// one context can cover `pages_per_context` pages. Zeros are taken as 1.
pub fn rw_plan(max_read_write_size: u32, page_size: u32, pages_per_context: u32) -> RwPlan {
    let pages = max_read_write_size.max(1).div_ceil(page_size.max(1));
    let factor = pages.div_ceil(pages_per_context.max(1)).max(1);
    RwPlan {
        pages_per_credit: pages.div_ceil(factor),
        credits: factor.saturating_add(1),
    }
}

impl RwPlan {
    /// The plan when only `contexts` fit the device: same pieces, fewer at a time.
    pub fn limited(self, contexts: u32) -> RwPlan {
        RwPlan {
            credits: self.credits.min(contexts).max(1),
            ..self
        }
    }

    /// Credits for a piece of a transfer that touches `pages` pages: at least 1, and never more than
    /// exist, so that a waiter can always be served (R42). A piece that gets fewer than it needs is done
    /// in several rounds.
    pub fn credits_for(&self, pages: u32) -> u32 {
        pages
            .div_ceil(self.pages_per_credit.max(1))
            .clamp(1, self.credits.max(1))
    }
}
