// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

fn stated(sizes: &[f64]) -> Result<Vec<os_view::Level>, String> {
    let level = |(level, bytes): (u32, &f64)| os_view::Level {
        level,
        bytes: Ok(*bytes as u64),
        shared_by: 0,
    };
    Ok((1..).zip(sizes).map(level).collect())
}

fn estimate(value: f64) -> Estimate {
    Estimate { value, low: 0.9 * value, high: 1.1 * value, confidence: 0.95, n: 5 }
}

/// Returns levels with these sizes, each ten times as slow as the previous one, and a last level
/// without a size.
fn found(sizes: &[f64]) -> FoundLevels {
    let sizes = sizes.iter().map(|bytes| Some(estimate(*bytes))).chain([None]);
    let level =
        |(power, size)| Level { size, latency: estimate(10_f64.powi(power)), settled: true };
    FoundLevels { levels: (0..).zip(sizes).map(level).collect(), unresolved: Vec::new() }
}

/// Size of the longest chain, in bytes.
const LONGEST: u64 = 128 << 20;

fn reconciled(detected: &[f64], reported: &[f64]) -> Reconciled {
    let largest = reported.iter().copied().fold(0.0, f64::max) as u64;
    reconcile(found(detected), &stated(reported), LONGEST, largest)
}

/// Returns the names and sizes of the levels, and the causes of doubt.
fn outcome(detected: &[f64], reported: &[f64]) -> (Vec<String>, Vec<f64>, Vec<String>) {
    let found = reconciled(detected, reported);
    let sizes = found.found.levels.iter().filter_map(|level| Some(level.size?.value));
    let causes = found.doubts.iter().map(|doubt| doubt.cause.clone());
    (found.names, sizes.collect(), causes.collect())
}

const REPORTED: [f64; 3] = [48.0 * KIB, MIB, 32.0 * MIB];

#[test]
fn what_agrees_is_kept() {
    let (names, sizes, causes) = outcome(&REPORTED, &REPORTED);
    assert_eq!(names, ["L1", "L2", "L3", "memory"]);
    assert_eq!((&sizes[..], causes.len()), (&REPORTED[..], 0));
    // An eighth of a shared cache is available.
    let left = [48.0 * KIB, MIB, 4.0 * MIB];
    let (names, sizes, causes) = outcome(&left, &REPORTED);
    assert_eq!(names, ["L1", "L2", "L3", "memory"]);
    assert_eq!((&sizes[..], causes.len()), (&left[..], 0));
}

#[test]
fn an_interval_is_extended_to_a_reported_size_nearby() {
    let detected = [40.0 * KIB, 1.3 * MIB, 10.0 * MIB];
    let reconciled = reconciled(&detected, &REPORTED);
    let ends = |level: usize| reconciled.found.levels[level].size.map(|s| (s.low, s.high));
    assert_eq!(ends(0), Some((36.0 * KIB, 48.0 * KIB)));
    assert_eq!(ends(1), Some((MIB, 1.1 * 1.3 * MIB)));
    assert_eq!(ends(2), Some((9.0 * MIB, 1.1 * 10.0 * MIB)));
}

#[test]
fn several_steps_of_a_shared_cache_are_one_level_of_undetermined_size() {
    let detected = [48.0 * KIB, 1.1 * MIB, 9.3 * MIB, 17.8 * MIB, 41.1 * MIB];
    let reconciled = reconciled(&detected, &REPORTED);
    assert_eq!(reconciled.names, ["L1", "L2", "L3", "memory"]);
    let l3 = &reconciled.found.levels[2];
    assert_eq!(l3.size.map(|size| (size.value, size.high)), Some((9.3 * MIB, 1.1 * 41.1 * MIB)));
    assert_eq!((l3.latency.value, l3.settled), (100.0, false));
    let doubt = &reconciled.doubts[0];
    assert_eq!((doubt.from_bytes, doubt.to_bytes), ((9.3 * MIB) as u64, (41.1 * MIB) as u64));
    // This includes steps beyond the largest cache that the OS reports.
    let detected = [48.0 * KIB, MIB, 32.0 * MIB, 50.0 * MIB];
    assert_eq!(outcome(&detected, &REPORTED).0, ["L1", "L2", "L3", "memory"]);
}

#[test]
fn a_step_close_to_the_previous_cache_is_withdrawn() {
    let (names, sizes, causes) = outcome(&[48.0 * KIB, 1.09 * MIB, 1.98 * MIB], &REPORTED);
    assert_eq!(names, ["L1", "L2", "L3 or memory"]);
    assert_eq!(sizes, [48.0 * KIB, 1.09 * MIB]);
    assert_eq!(causes, ["too_close", "unseen"]);
}

#[test]
fn what_follows_a_missing_cache_is_not_called_memory() {
    let (names, _, causes) = outcome(&[48.0 * KIB, 2.2 * MIB], &REPORTED);
    assert_eq!(names, ["L1", "L2", "L3 or memory"]);
    assert_eq!(causes, ["too_noisy", "unseen"]);
    // The middle cache is missing, but the last one was found.
    let (names, _, causes) = outcome(&[48.0 * KIB, 30.0 * MIB], &REPORTED);
    assert_eq!(
        (&names[..], &causes[..]),
        (&["L1", "L3", "memory"].map(str::to_owned)[..], &["unseen".to_owned()][..])
    );
    // The longest chain fits in the last cache.
    let (names, _, causes) = outcome(&[48.0 * KIB, MIB], &[48.0 * KIB, MIB, 480.0 * MIB]);
    assert_eq!(
        (&names[..], causes.len()),
        (&["L1", "L2", "L3 or memory"].map(str::to_owned)[..], 0)
    );
}

#[test]
fn only_the_last_cache_may_be_available_in_part() {
    let detected = [48.0 * KIB, 480.0 * KIB, 8.0 * MIB];
    let reconciled = reconciled(&detected, &REPORTED);
    let l2 = reconciled.found.levels[1].size.map(|size| (size.low, size.high));
    assert_eq!(l2, Some((0.9 * 480.0 * KIB, MIB)));
    assert_eq!(reconciled.doubts.len(), 1);
}

#[test]
fn a_step_far_beyond_the_reported_size_does_not_end_the_cache() {
    let detected = [48.0 * KIB, 5.88 * MIB];
    let reported = [48.0 * KIB, 2.0 * MIB, 480.0 * MIB];
    let reconciled = reconciled(&detected, &reported);
    assert_eq!(reconciled.names, ["L1", "L2", "L3 or memory"]);
    let l2 = &reconciled.found.levels[1];
    let size = l2.size.map(|size| (size.low, size.value));
    assert_eq!((size, l2.settled), (Some((2.0 * MIB, 5.88 * MIB)), false));
    assert_eq!(reconciled.doubts[0].from_bytes, 2 << 20);
    // Part of a shared cache that exceeds the longest chain, and the level behind it.
    let (names, sizes, _) = outcome(&[48.0 * KIB, 2.1 * MIB, 7.6 * MIB], &reported);
    assert_eq!(names, ["L1", "L2", "L3", "L3 or memory"]);
    assert_eq!(sizes[2], 7.6 * MIB);
}

#[test]
fn a_cache_beyond_an_incomplete_report_is_kept() {
    let (names, sizes, causes) = outcome(&REPORTED, &REPORTED[..2]);
    assert_eq!(names, ["L1", "L2", "L3", "memory"]);
    assert_eq!((&sizes[..], causes.len()), (&REPORTED[..], 0));
}

#[test]
fn without_a_report_the_curve_is_all_there_is() {
    let silent = Err("no sysfs".to_owned());
    let reconciled = reconcile(found(&REPORTED), &silent, LONGEST, 32 << 20);
    assert_eq!(reconciled.names, ["L1", "L2", "L3", "memory"]);
    // The longest chain is too short for a last-level cache of the usual size.
    let short = reconcile(found(&REPORTED[..2]), &silent, 8 << 20, 32 << 20);
    assert_eq!(short.names, ["L1", "L2", "L3 or memory"]);
    assert_eq!(reconciled.found, found(&REPORTED));
    let (names, _, causes) = outcome(&[], &REPORTED);
    assert_eq!((names.len(), &causes[0][..]), (0, "too_noisy"));
    let nothing = reconcile(FoundLevels::default(), &stated(&REPORTED), LONGEST, 32 << 20);
    assert_eq!((nothing.names.len(), nothing.doubts.len()), (0, 0));
}
