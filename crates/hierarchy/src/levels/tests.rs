// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic curves whose levels are known.

use super::*;
use linerate_record::memory::{CurvePoint, Order, PageKind};

fn point(bytes: u64, ns: f64, ghz: f64) -> CurvePoint {
    CurvePoint {
        bytes,
        lines: bytes / 64,
        loads: 1,
        elapsed_s: 1.0,
        passes_ns: vec![ns],
        passes_ghz: vec![ghz],
        latency_ns: Figure::exact("ns", ns, Tier::Sw, "synthetic"),
        cycles: Figure::exact("cycles", ns * ghz, Tier::Sw, "synthetic"),
        windows: 1,
        windows_dropped: 0,
    }
}

fn estimate(value: f64) -> Estimate {
    Estimate { value, low: 0.9 * value, high: 1.1 * value, confidence: 0.95, n: 5 }
}

/// Returns two levels at two clocks: 1 ns at 4 GHz up to 32 KiB, and 10 ns at 3 GHz beyond.
fn levels(last_level: u64, settled: bool) -> Levels {
    let points = (12..20).map(|shift| match 1 << shift {
        bytes @ 0..=32_768 => point(bytes, 1.0, 4.0),
        bytes => point(bytes, 10.0, 3.0),
    });
    let points = points.collect();
    let curve = Curve { order: Order::PageLocal, pages: PageKind::Base, points };
    let level = |size, ns| steps::Level { size, latency: estimate(ns), settled };
    let found = FoundLevels {
        levels: vec![level(Some(estimate(33_000.0)), 1.0), level(None, 10.0)],
        unresolved: vec![steps::Unresolved { from: 1, to: 2, cause: Cause::Moved }],
    };
    let stated = os_view::Level { level: 1, bytes: Ok(32_768), shared_by: 1 };
    let second = os_view::Level { level: 2, bytes: Ok(last_level), shared_by: 1 };
    let stated = if last_level > 1 << 18 { vec![stated, second] } else { vec![stated] };
    let reconciled = reconcile(found, &Ok(stated), 1 << 19, last_level);
    Levels::new(reconciled, &curve, 1 << 19, last_level)
}

#[test]
fn levels_have_names_and_cycles() {
    let found = levels(1 << 18, true);
    let names: Vec<&str> = found.levels.iter().map(|level| &level.name[..]).collect();
    assert_eq!(names, ["L1", "memory"]);
    let cycles: Vec<_> = found.levels.iter().map(|t| t.latency_cycles.as_number()).collect();
    assert_eq!(cycles, [Some(4.0), Some(30.0)]);
    assert_eq!(found.levels[1].latency_cycles.low, Some(27.0));
    let last = &found.levels[1].size_bytes;
    assert!(last.reason.as_ref().is_some_and(|reason| reason.contains("524288 B")), "{last:?}");
    assert_eq!(found.unresolved.len(), 1);
    assert_eq!((found.levels[0].note.as_ref(), found.levels[1].note.as_ref()), (None, None));
}

#[test]
fn what_does_not_reach_memory_is_not_called_so() {
    let found = levels(1 << 19, true);
    assert_eq!(found.levels[1].name, "L2 or memory");
    assert!(found.levels[1].note.is_some());
    let [moved, small] = &found.unresolved[..] else { panic!("{:?}", found.unresolved) };
    assert_eq!((&moved.cause[..], moved.from_bytes, moved.to_bytes), ("moved", 1, 2));
    let small = (&small.cause[..], small.from_bytes, small.to_bytes);
    assert_eq!(small, ("too_small", 1 << 19, 1 << 20));
}

/// Some of the sizes ran at a lower clock, so a load takes the same number of cycles but more ns.
/// One size is on a climb.
#[test]
fn cycles_do_not_depend_on_a_clock_that_moves() {
    let clocks = [4.0, 3.9, 4.0, 3.9, 4.0];
    let mut points: Vec<CurvePoint> = clocks.iter().map(|g| point(4096, 4.0 / g, *g)).collect();
    points.push(point(32_768, 2.0, 4.0));
    let curve = Curve { order: Order::PageLocal, pages: PageKind::Base, points };
    let level = |ns| steps::Level { size: None, latency: estimate(ns), settled: true };
    let cycles = clock(&curve, &[0.0, f64::INFINITY], &level(1.0)).unwrap();
    assert!((cycles - 4.0).abs() < 1e-9, "{cycles}");
    // No size is on the plateau, so the result is the clock of most sizes.
    let clock = clock(&curve, &[0.0, f64::INFINITY], &level(9.0)).unwrap();
    assert!((clock - 4.0).abs() < 1e-9, "{clock}");
}

#[test]
fn a_plateau_that_moved_is_noted() {
    assert!(levels(1, false).levels.iter().all(|level| level.note.is_some() && !level.settled));
}

#[test]
fn without_a_clock_cycles_are_absent() {
    let figure = cycles(estimate(1.0), None, "synthetic");
    assert!(figure.as_number().is_none() && figure.reason.is_some());
}
