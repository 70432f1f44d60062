// SPDX-License-Identifier: GPL-2.0
//! Queue and pool sizes: ABI page sections 9 and 14, R10, R42, R43.

use proptest::prelude::*;
use smbdirect_host::proto::sizing::*;

const RXE: DeviceLimits = DeviceLimits {
    max_qp_wr: 1 << 20,
    max_cqe: 32_767,
    max_send_sge: 32,
    max_recv_sge: 32,
    max_sge_rd: 32,
    max_fast_reg_page_list_len: 512,
};

const CLIENT: Wanted = Wanted {
    send_messages: 255,
    recv_credits: 255,
    regions: 32,
    rw_contexts: 0,
    wr_per_context: 1,
    send_sges: 6,
};

const SERVER: Wanted = Wanted {
    regions: 0,
    rw_contexts: 9,
    wr_per_context: 3,
    ..CLIENT
};

fn small(max_qp_wr: u32) -> DeviceLimits {
    DeviceLimits {
        max_qp_wr,
        max_cqe: max_qp_wr,
        ..RXE
    }
}

// rules: R10+
#[test]
fn a_large_device_gives_what_is_wanted() {
    let plan = plan(&CLIENT, &RXE).unwrap();
    assert_eq!(
        (plan.send_messages, plan.recv_credits, plan.regions),
        (255, 255, 32)
    );
    assert_eq!(plan.send_wr, 255 + 2 * 32 + 1);
    assert_eq!(plan.recv_wr, 255 + 2);
    assert_eq!((plan.send_cqe, plan.recv_cqe), (plan.send_wr, plan.recv_wr));
    assert_eq!((plan.send_sges, plan.recv_sges, plan.rw_wr), (6, 1, 0));
}

// rules: R43+
#[test]
fn r43_every_context_counts_with_its_worst_case() {
    let plan = plan(&SERVER, &RXE).unwrap();
    assert_eq!((plan.rw_contexts, plan.rw_wr), (9, 27));
    assert_eq!(plan.send_wr, 255 + 27 + 1);
}

// rules: R10+
#[test]
fn r10_a_small_device_is_scaled_to() {
    let plan = plan(&CLIENT, &small(64)).unwrap();
    assert!(plan.send_wr <= 64 && plan.recv_wr <= 64);
    assert_eq!(plan.recv_credits, 62);
    assert!(
        plan.send_messages >= 40 && plan.regions >= 6,
        "in proportion: {plan:?}"
    );
}

// rules: R10+
#[test]
fn r10_completions_bound_as_work_requests_do() {
    let limits = DeviceLimits { max_cqe: 64, ..RXE };
    assert_eq!(plan(&CLIENT, &limits), plan(&CLIENT, &small(64)));
}

// rules: R10+ R10- R43-
#[test]
fn r10_the_smallest_connection() {
    // Two messages, a region, the drain.
    let least = plan(&CLIENT, &small(5)).unwrap();
    assert_eq!(
        (least.send_messages, least.regions, least.send_wr),
        (2, 1, 5)
    );
    assert_eq!((least.recv_credits, least.recv_wr), (3, 5));
    assert_eq!(plan(&CLIENT, &small(4)), Err(NoFit::Send));
    // Two messages, a context of three, the drain.
    let least = plan(&SERVER, &small(6)).unwrap();
    assert_eq!(
        (least.send_messages, least.rw_contexts, least.rw_wr),
        (2, 1, 3)
    );
    assert_eq!(plan(&SERVER, &small(5)), Err(NoFit::Send));
    // No regions wanted: one credit, the reserve, the drain.
    let bare = Wanted {
        regions: 0,
        ..CLIENT
    };
    let least = plan(&bare, &small(3)).unwrap();
    assert_eq!(
        (least.send_messages, least.recv_credits, least.recv_wr),
        (2, 1, 3)
    );
    assert!(plan(&bare, &small(2)).is_err());
}

// rules: R10-
#[test]
fn r10_no_scatter_gather_entries_no_connection() {
    assert_eq!(
        plan(
            &CLIENT,
            &DeviceLimits {
                max_send_sge: 0,
                ..RXE
            }
        ),
        Err(NoFit::Sge)
    );
    assert_eq!(
        plan(
            &CLIENT,
            &DeviceLimits {
                max_recv_sge: 0,
                ..RXE
            }
        ),
        Err(NoFit::Sge)
    );
    let one = plan(
        &CLIENT,
        &DeviceLimits {
            max_send_sge: 1,
            max_recv_sge: 1,
            ..RXE
        },
    )
    .unwrap();
    assert_eq!(one.send_sges, 1);
}

#[test]
fn the_log_says_what_is_too_small() {
    for (error, word) in [
        (NoFit::Send, "send"),
        (NoFit::Recv, "receive"),
        (NoFit::Sge, "scatter"),
    ] {
        assert!(error.text().contains(word), "{error:?}: {}", error.text());
    }
}

// rules: R42+
#[test]
fn rw_credits_of_known_devices() {
    // 8 MiB: mlx5 and iWARP 9 credits of 256 pages, rxe 65 of 32.
    let plan = rw_plan(8 << 20, 4096, 256);
    assert_eq!((plan.credits, plan.pages_per_credit), (9, 256));
    let plan = rw_plan(8 << 20, 4096, pages_per_context(&RXE, false));
    assert_eq!((plan.credits, plan.pages_per_credit), (65, 32));
    assert_eq!(pages_per_context(&RXE, true), 256);
    let shallow = DeviceLimits {
        max_fast_reg_page_list_len: 16,
        max_sge_rd: 0,
        ..RXE
    };
    assert_eq!(pages_per_context(&shallow, true), 16);
    assert_eq!(pages_per_context(&shallow, false), 1);
}

// rules: R42-
#[test]
fn rw_credits_survive_zeros() {
    for plan in [
        rw_plan(0, 4096, 32),
        rw_plan(4096, 0, 0),
        rw_plan(u32::MAX, 1, 1),
    ] {
        assert!(plan.credits >= 2 && plan.pages_per_credit >= 1);
    }
}

// rules: R42+ R42- B5-
#[test]
fn r42_nobody_needs_more_credits_than_exist() {
    let plan = rw_plan(8 << 20, 4096, 32);
    assert_eq!(plan.credits_for(0), 1);
    assert_eq!(plan.credits_for(32), 1);
    assert_eq!(plan.credits_for(33), 2);
    assert_eq!(plan.credits_for(u32::MAX), 65);
    assert_eq!(plan.limited(3).credits_for(2048), 3);
    assert_eq!(plan.limited(0).credits_for(2048), 1);
}

prop_compose! {
    fn limits()(
        max_qp_wr in prop_oneof![0u32..40, 0u32..2000, any::<u32>()],
        max_cqe in prop_oneof![0u32..40, 0u32..2000, any::<u32>()],
        sges in (0u32..8, 0u32..3, 0u32..40),
        max_fast_reg_page_list_len in 0u32..600,
    ) -> DeviceLimits {
        DeviceLimits {
            max_qp_wr,
            max_cqe,
            max_send_sge: sges.0,
            max_recv_sge: sges.1,
            max_sge_rd: sges.2,
            max_fast_reg_page_list_len,
        }
    }
}

prop_compose! {
    fn wanted()(
        send_messages: u16,
        recv_credits: u16,
        regions in prop_oneof![0u32..600, any::<u32>()],
        rw_contexts in prop_oneof![0u32..100, any::<u32>()],
        wr_per_context in prop_oneof![0u32..5, any::<u32>()],
        send_sges in 0u32..8,
    ) -> Wanted {
        Wanted { send_messages, recv_credits, regions, rw_contexts, wr_per_context, send_sges }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    // rules: R10+ R10- R43+
    #[test]
    fn r10_r43_what_is_planned_fits_and_is_enough(wanted in wanted(), limits in limits()) {
        let Ok(plan) = plan(&wanted, &limits) else {
            // Only when the minimum does not fit.
            let least = 3
                + 2 * u64::from(wanted.regions.min(1))
                + u64::from(wanted.rw_contexts.min(1)) * u64::from(wanted.wr_per_context.max(1));
            let room = u64::from(limits.max_qp_wr.min(limits.max_cqe));
            let sges = limits.max_send_sge.min(limits.max_recv_sge).min(wanted.send_sges);
            prop_assert!(least > room || sges == 0);
            return Ok(());
        };
        let room = limits.max_qp_wr.min(limits.max_cqe);
        prop_assert!(plan.send_wr <= room && plan.send_cqe <= room);
        prop_assert!(plan.recv_wr <= room && plan.recv_cqe <= room);
        prop_assert!(plan.send_sges >= 1 && plan.send_sges <= limits.max_send_sge);
        // Enough for everything at once.
        let cost = u64::from(wanted.wr_per_context.max(1));
        let all = u64::from(plan.send_messages)
            + 2 * u64::from(plan.regions)
            + cost * u64::from(plan.rw_contexts)
            + 1;
        prop_assert_eq!(u64::from(plan.send_wr), all);
        prop_assert_eq!(u64::from(plan.rw_wr), cost * u64::from(plan.rw_contexts));
        prop_assert_eq!(plan.recv_wr, u32::from(plan.recv_credits) + 2);
        // Not more than wanted, not less than a connection needs.
        prop_assert!(plan.send_messages >= 2 && plan.send_messages <= wanted.send_messages.max(2));
        prop_assert!(plan.recv_credits >= 1 && plan.recv_credits <= wanted.recv_credits.max(1));
        prop_assert!(plan.regions <= wanted.regions && (plan.regions > 0) == (wanted.regions > 0));
        prop_assert!(plan.rw_contexts <= wanted.rw_contexts);
        prop_assert!((plan.rw_contexts > 0) == (wanted.rw_contexts > 0));
    }

    // rules: R42+
    #[test]
    fn r42_the_credits_cover_the_largest_transfer(
        size: u32, page in prop_oneof![Just(4096u32), Just(65536), Just(16384)], pages in 0u32..600,
    ) {
        let plan = rw_plan(size, page, pages);
        prop_assert!(plan.pages_per_credit >= 1 && plan.pages_per_credit <= pages.max(1));
        let covered = u64::from(plan.credits - 1) * u64::from(plan.pages_per_credit) * u64::from(page);
        prop_assert!(covered >= u64::from(size));
    }
}
