// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic curves whose levels are known exactly.

use super::*;
use linerate_record::memory::{CurvePoint, Order, PageKind, TlbState};

/// Returns a curve of six passes in which a load takes 1 ns up to 32 KiB and 10 ns beyond, at 4
/// GHz.
fn curve(order: Order) -> Curve {
    let point = |shift: u32| {
        let bytes = 1_u64 << shift;
        let ns = if bytes <= 32 << 10 { 1.0 } else { 10.0 };
        CurvePoint {
            bytes,
            lines: bytes / 64,
            loads: 1,
            elapsed_s: 1.0,
            passes_ns: vec![ns; 6],
            passes_ghz: vec![4.0; 6],
            latency_ns: Figure::exact("ns", ns, Tier::Sw, "synthetic"),
            cycles: Figure::exact("cycles", 4.0 * ns, Tier::Sw, "synthetic"),
            windows: 6,
            windows_dropped: 0,
        }
    };
    Curve { order, pages: PageKind::Base, points: (12..22).map(point).collect() }
}

fn measured(outstanding: &[Option<Estimate>]) -> Measured<'_> {
    Measured { outstanding, tlb: &[], page_bytes: 4096, line_bytes: 64, seed: 1 }
}

#[test]
fn each_level_has_a_cost_in_ns_and_cycles_under_its_name() {
    let curves = [curve(Order::PageLocal), curve(Order::Random)];
    let stated = Err("not reported".to_owned());
    let levels = Levels::find(&curves[0], (&stated, 256 << 10), 1, 60);
    let four = Estimate { value: 4.0, low: 4.0, high: 4.0, confidence: 0.95, n: 6 };
    let costs = records(&levels, &curves, &measured(&[None, Some(four)]));
    let told: Vec<_> = costs
        .iter()
        .map(|cost| (cost.level.as_str(), cost.tlb, cost.ns.as_number(), cost.cycles.as_number()))
        .collect();
    assert_eq!(
        told,
        [
            ("L1", TlbState::Hit, Some(1.0), Some(4.0)),
            ("memory", TlbState::Hit, Some(10.0), Some(40.0)),
        ]
    );
    assert!(costs[0].overlapped_ns.reason.is_some(), "{costs:?}");
    assert_eq!(costs[1].overlapped_ns.as_number(), Some(2.5));
}

#[test]
fn a_table_needs_a_random_curve() {
    let curves = [curve(Order::PageLocal)];
    let stated = Err("not reported".to_owned());
    let levels = Levels::find(&curves[0], (&stated, 256 << 10), 1, 60);
    assert_eq!(records(&levels, &curves, &measured(&[])), []);
}
