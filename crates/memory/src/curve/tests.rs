// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests properties of a curve that hold on every machine, and compares parts of its computation
//! with brute force.

use super::*;
use crate::Watch;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn curve(stop: bool, bytes: usize, seconds: f64, order: Order) -> (Curve, (u64, u64)) {
    let mut arena = Arena::new(bytes, PageKind::Base, &AtomicBool::new(false)).unwrap();
    let stop = AtomicBool::new(stop);
    let watch = Watch::new(&stop, &|_, _| {});
    let windows = Windows::new(&watch, Duration::from_secs(1));
    let deadline = windows.started() + Duration::from_secs_f64(seconds);
    let (line, refine) = (64, if order == Order::PageLocal { 3 } else { 0 });
    let request = Request { order, line, passes: 2, per_octave: 1, refine, seed: 1, deadline };
    (measure(&windows, &mut arena, &request), windows.counts())
}

/// Every size is measured in every pass, and the window counts add up. Times are only checked to an
/// order of magnitude.
#[test]
fn a_curve_holds_what_it_measured() {
    for order in [Order::PageLocal, Order::Random, Order::Sequential] {
        let (curve, (kept, dropped)) = curve(false, 36 << 20, 60.0, order);
        assert_eq!((curve.order, curve.pages), (order, PageKind::Base));
        assert!(curve.points.is_sorted_by(|a, b| a.bytes < b.bytes));
        assert!(curve.points.len() >= 14, "{}", curve.points.len());
        for point in &curve.points {
            assert_eq!(point.lines * 64, point.bytes);
            assert!((1..=2).contains(&point.passes_ns.len()), "{point:?}");
            let latency = point.latency_ns.as_number().unwrap();
            assert!(point.passes_ns.iter().all(|ns| *ns >= latency && *ns > 0.05), "{point:?}");
            assert!(latency < 20_000.0, "{point:?}");
            assert!(point.elapsed_s * 1e9 >= point.loads as f64 * latency * 0.999, "{point:?}");
            let has_clock = point.passes_ghz.len() == point.passes_ns.len();
            assert_eq!(point.cycles.as_number().is_some(), has_clock);
        }
        let sum = |of: fn(&CurvePoint) -> u64| curve.points.iter().map(of).sum::<u64>();
        assert_eq!(sum(|point| point.windows), kept);
        assert!(sum(|point| point.windows_dropped) <= dropped);
    }
}

#[test]
fn a_stop_or_a_deadline_leaves_what_there_is() {
    assert!(curve(true, 1 << 20, 60.0, Order::Random).0.points.is_empty());
    assert!(curve(false, 1 << 20, 0.0, Order::PageLocal).0.points.is_empty());
}

#[test]
fn grids_are_even_and_whole() {
    let sizes = |most, per_octave| -> Vec<u64> {
        grid(most, per_octave).iter().map(|bytes| bytes >> 10).collect()
    };
    assert_eq!(sizes(65536, 1), [4, 8, 16, 32, 45, 64]);
    assert_eq!(sizes(65535, 2), [4, 6, 8, 11, 16, 23, 27, 32, 38, 45, 54]);
    assert_eq!(sizes(4096, 4), [4]);
    assert!(sizes(4095, 4).is_empty());
    assert_eq!(sizes(1 << 40, 4).len(), 14 * 4 + 14 * 2 + 1 + 11);
    assert_eq!(sizes(1 << 28, 1).len(), 19);
    let costly: Vec<u64> = sizes(256 << 20, 2).into_iter().filter(|kib| *kib > 65536).collect();
    assert_eq!(costly, [131_072, 262_144]);
}

#[test]
fn every_size_has_its_turn_and_half_of_them_first() {
    let mut random = Rng::with_seed(1);
    for n in [0, 1, 2, 7, 64] {
        let order = order_of(n, &mut random);
        assert!(order.first().is_none_or(|first| first + 1 == n), "{order:?}");
        let others = order.get(1..=n / 2).unwrap_or(&[]);
        assert!(others.iter().all(|index| index % 2 == 0), "{order:?}");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..n).collect::<Vec<_>>());
    }
    assert_ne!(order_of(64, &mut random), order_of(64, &mut random));
}

/// The costly group waits until it has used less weighted time than the cheap one, unless the cheap
/// one is done.
#[test]
fn groups_take_turns_by_time() {
    let group = |passes, millis, sizes: &[u64], weight| Group {
        passes,
        spent: Duration::from_millis(millis),
        ..Group::new(sizes, 0, weight)
    };
    assert_eq!(next(&[group(0, 5, &[1], 1), group(0, 9, &[2], 2)], 3), Some(0));
    assert_eq!(next(&[group(2, 9, &[1], 1), group(0, 4, &[2], 2)], 3), Some(1));
    assert_eq!(next(&[group(3, 5, &[1], 1), group(0, 9, &[2], 2)], 3), Some(1));
    assert_eq!(next(&[group(0, 9, &[1], 1), group(0, 0, &[], 2)], 3), Some(0));
    assert_eq!(next(&[group(3, 0, &[1], 1), group(0, 0, &[], 2)], 3), None);
}

/// Two passes do not bound the minimum of others.
#[test]
fn few_passes_have_a_minimum_without_interval() {
    let figure = |passes: &[f64]| of_passes("ns", least(passes), METHOD);
    let three = figure(&[5.0, 4.0, 7.0]);
    assert_eq!((three.as_number(), three.low, three.high), (Some(4.0), Some(1.0), Some(7.0)));
    for passes in [&[4.0][..], &[5.0, 4.0]] {
        let few = figure(passes);
        assert_eq!((few.as_number(), few.low, few.high), (Some(4.0), None, None));
    }
}
