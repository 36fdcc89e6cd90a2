// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the detector on curves whose true levels are known. Whole machines are tested in
//! `examples/corpus`.

use super::{Cause, FoundLevels, Options, Sample, detect, refine};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;

/// Returns the latency for evenly filled caches with 4 KiB ways; `steps` are pairs of size in bytes
/// and time beyond it.
fn edges(first: f64, steps: &[(u64, f64)], bytes: u64) -> f64 {
    let mut time = first;
    for &(size, beyond) in steps {
        let (size, bytes, way) = (size as f64, bytes as f64, (size as f64 / 8.0).max(4096.0));
        let over = ((bytes - size) / way).clamp(0.0, 1.0) * (size + way) / bytes;
        let missed = if bytes >= size + way { 1.0 } else { over.min(1.0) };
        time += (beyond - time) * missed;
    }
    time
}

/// Returns a curve with four sizes per octave and five passes, each with up to 1 % random delay.
fn curve(first: f64, steps: &[(u64, f64)], last: u64) -> Vec<Sample> {
    let mut sizes: Vec<u64> = (0..)
        .map(|i| (4096.0 * (f64::from(i) / 4.0).exp2()) as u64 / KIB * KIB)
        .take_while(|bytes| *bytes <= last)
        .collect();
    sizes.dedup();
    sizes.into_iter().map(|bytes| sample(first, steps, bytes)).collect()
}

fn sample(first: f64, steps: &[(u64, f64)], bytes: u64) -> Sample {
    let mut rng = fastrand::Rng::with_seed(bytes);
    let quiet = edges(first, steps, bytes);
    Sample { bytes, passes: (0..5).map(|_| quiet * (1.0 + 0.01 * rng.f64())).collect() }
}

fn refined(first: f64, steps: &[(u64, f64)], last: u64) -> (Vec<Sample>, FoundLevels) {
    let mut curve = curve(first, steps, last);
    let rough = Options { replicates: 0, ..Options::default() };
    let more = refine(&curve, &detect(&curve, &rough), KIB);
    curve.extend(more.into_iter().map(|bytes| sample(first, steps, bytes)));
    let levels = detect(&curve, &Options { replicates: 20, ..Options::default() });
    (curve, levels)
}

fn sizes(levels: &FoundLevels) -> Vec<Option<f64>> {
    levels.levels.iter().map(|level| level.size.map(|size| size.value / 1024.0)).collect()
}

#[test]
fn edges_are_put_within_some_percent_and_intervals_hold_them() {
    let steps = [(48 * KIB, 4.0), (1024 * KIB, 12.0), (16384 * KIB, 90.0)];
    let (_, levels) = refined(1.0, &steps, 64 << 20);
    assert_eq!(levels.levels.len(), 4, "{levels:?}");
    for (level, (size, _)) in levels.levels.iter().zip(steps) {
        let found = level.size.unwrap();
        assert!((found.value / size as f64 - 1.0).abs() < 0.06, "{:?}", sizes(&levels));
        assert!(found.low <= size as f64 * 1.02 && size as f64 * 0.98 <= found.high, "{found:?}");
    }
    for (level, quiet) in levels.levels.iter().zip([1.0, 4.0, 12.0, 90.0]) {
        assert!((level.latency.value / quiet - 1.0).abs() < 0.01, "{:?}", level.latency);
        assert!(level.latency.low <= quiet && quiet <= level.latency.high, "{:?}", level.latency);
        assert!(level.settled);
    }
    assert_eq!(levels.levels[3].size, None);
}

#[test]
fn a_step_with_one_or_two_sizes_beyond_it_is_found() {
    let steps = [(32 * KIB, 4.0), (1024 * KIB, 60.0)];
    // The chains end at 2 and at 1.7 times the second cache.
    for last in [2048 * KIB, 1800 * KIB] {
        let levels = detect(&curve(1.0, &steps, last), &Options::default());
        assert_eq!(levels.levels.len(), 3, "{last}: {:?}", sizes(&levels));
    }
}

#[test]
fn a_flat_curve_has_one_level_without_a_size() {
    let levels = detect(&curve(1.3, &[], 1 << 20), &Options::default());
    assert_eq!(sizes(&levels), [None]);
    assert!(levels.unresolved.is_empty(), "{:?}", levels.unresolved);
}

#[test]
fn outliers_in_one_of_seven_make_no_level() {
    let mut curve = curve(1.0, &[(32 * KIB, 4.0), (2048 * KIB, 80.0)], 32 << 20);
    let mut rng = fastrand::Rng::with_seed(1);
    for time in curve.iter_mut().flat_map(|sample| &mut sample.passes) {
        if rng.f64() < 0.15 {
            *time *= 1.0 + 2.0 * rng.f64();
        }
    }
    let levels = detect(&curve, &Options { replicates: 0, ..Options::default() });
    assert_eq!(levels.levels.len(), 3, "{:?}", sizes(&levels));
}

#[test]
fn reports_memory_that_is_slower_in_some_passes_as_moved() {
    let mut curve = curve(1.0, &[(32 * KIB, 4.0), (2048 * KIB, 70.0)], 64 << 20);
    for sample in curve.iter_mut().filter(|sample| sample.bytes > 2100 * KIB) {
        sample.passes[1] *= 1.4;
        sample.passes[3] *= 1.4;
    }
    let levels = detect(&curve, &Options { replicates: 0, ..Options::default() });
    assert_eq!(levels.levels.len(), 3, "{:?}", sizes(&levels));
    assert!(!levels.levels[2].settled && levels.levels[0].settled && levels.levels[1].settled);
    assert!(levels.unresolved.iter().any(|what| what.cause == Cause::Moved));
}

#[test]
fn neighbours_within_the_resolution_are_unresolved() {
    let (_, levels) = refined(1.0, &[(1024 * KIB, 6.0), (1536 * KIB, 40.0)], 16 << 20);
    assert_eq!(levels.levels.len(), 2, "{:?}", sizes(&levels));
    let close = levels.unresolved.iter().find(|what| what.cause == Cause::TooClose).unwrap();
    assert!(close.from < 1300 * KIB && close.to > 1300 * KIB, "{close:?}");
}

#[test]
fn refining_asks_for_sizes_around_steps_and_comes_to_an_end() {
    let steps = [(32 * KIB, 4.0), (1024 * KIB, 60.0)];
    let mut curve = curve(1.0, &steps, 16 << 20);
    let rough = Options { replicates: 0, ..Options::default() };
    for round in 0..6 {
        let more = refine(&curve, &detect(&curve, &rough), KIB);
        if round == 0 {
            assert!(more.iter().any(|bytes| (32 * KIB..36 * KIB).contains(bytes)), "{more:?}");
        }
        assert!(more.is_sorted() && more.iter().all(|bytes| bytes % KIB == 0));
        assert!(more.iter().all(|bytes| curve.iter().all(|sample| sample.bytes != *bytes)));
        if more.is_empty() {
            return;
        }
        curve.extend(more.into_iter().map(|bytes| sample(1.0, &steps, bytes)));
    }
    panic!("still requesting sizes after {}", curve.len());
}

#[test]
fn the_same_seed_gives_the_same_levels() {
    let curve = curve(1.0, &[(32 * KIB, 4.0)], 1 << 20);
    let options = Options { replicates: 10, ..Options::default() };
    assert_eq!(detect(&curve, &options), detect(&curve, &options));
}

#[test]
fn nothing_to_look_at_gives_nothing() {
    assert_eq!(detect(&[], &Options::default()), FoundLevels::default());
    let none = Sample { bytes: 4096, passes: vec![f64::NAN, 0.0, -1.0, f64::INFINITY] };
    assert_eq!(detect(std::slice::from_ref(&none), &Options::default()), FoundLevels::default());
    assert!(refine(&[none], &FoundLevels::default(), 0).is_empty());
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let time = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0),
        1e-300..1e300_f64,
        0.5..200.0_f64
    ];
    let bytes = prop_oneof![any::<u64>(), 1..1_u64 << 30];
    (bytes, prop::collection::vec(time, 0..4)).prop_map(|(bytes, passes)| Sample { bytes, passes })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_curve_makes_it_panic(
        curve in prop::collection::vec(any_sample(), 0..12),
        granule in any::<u64>(),
    ) {
        let levels = detect(&curve, &Options { replicates: 2, ..Options::default() });
        let more = refine(&curve, &levels, granule);
        prop_assert!(more.is_sorted());
        let is_time = |t: &f64| t.is_normal() && *t > 0.0;
        let usable = curve.iter().any(|s| s.bytes > 0 && s.passes.iter().any(is_time));
        prop_assert_eq!(usable, !levels.levels.is_empty());
    }
}
