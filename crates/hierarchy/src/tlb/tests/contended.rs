// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with TLBs in which other users occupy some entries.

use super::*;

/// Returns the times if other users occupy entries in some windows: of 96 entries, the number that
/// `left` draws remains.
fn contended(passes: usize, seed: u64, left: fn(&mut Rng) -> u64) -> Vec<Sample> {
    let mut random = Rng::with_seed(seed);
    let mut window = |pages: u64| {
        let added = if pages > left(&mut random) { 1.84 } else { 0.0 };
        1.04 + added * (1.0 - 0.1 * random.f64().powi(4)) + 0.01 * normal(&mut random).abs()
    };
    let mut sample = |pages: u64| Sample {
        pages,
        spread: (0..passes).map(|_| window(pages)).collect(),
        packed: vec![1.04; passes],
    };
    let mut samples: Vec<Sample> = start(1024).into_iter().map(&mut sample).collect();
    for _ in 0..3 {
        let wanted = refine(&samples, &levels(&samples, 0.95, seed));
        samples.extend(wanted.into_iter().map(&mut sample));
    }
    let found = levels(&samples, 0.95, seed);
    samples.extend(found.iter().flat_map(around_edge).map(&mut sample));
    samples
}

/// Returns in how many of 10 experiments 96 is within the interval, and in how many entries are
/// reported.
fn experiments(passes: usize, left: fn(&mut Rng) -> u64) -> (usize, usize) {
    let (mut holds, mut given) = (0, 0);
    for seed in 0..10 {
        let found = levels(&contended(passes, seed, left), 0.95, seed);
        let onset = found[0].onset;
        holds += usize::from(onset.low <= 96.0 && 96.0 <= onset.high);
        if let Some(entries) = found[0].entries {
            assert_eq!(entries.value, 96.0, "{found:?}");
            given += 1;
        }
    }
    (holds, given)
}

#[test]
fn entries_that_others_take_are_not_a_smaller_buffer() {
    let taken = |random: &mut Rng| {
        if random.bool() { 96 } else { 96 - random.u64(..26) }
    };
    for (passes, enough) in [(2, 0), (3, 0), (6, 0), (24, 9)] {
        let (holds, given) = experiments(passes, taken);
        let found = format!("{holds} of 10 with {passes} passes, {given} given");
        assert!(holds >= 9 && given >= enough, "{found}");
    }
}

/// Other users are idle in one pass in eight, and occupy up to half of the entries in all other
/// passes.
#[test]
fn entries_are_exact_where_others_rest_at_times() {
    let rest = |random: &mut Rng| {
        if random.f64() < 0.125 { 96 } else { 96 - random.u64(..48) }
    };
    let (holds, given) = experiments(150, rest);
    assert!(holds == 10 && given >= 6, "{holds} of 10, {given} given");
}

/// Other users are never idle and always occupy some entries, which is indistinguishable from a
/// smaller TLB.
#[test]
fn permanently_taken_entries_are_not_reported() {
    let at_random = |random: &mut Rng| 96 - random.u64(1..40);
    let few_at_a_time = |random: &mut Rng| 95 - (random.f64() * random.f64() * 40.0) as u64;
    for passes in [6, 24, 100] {
        assert_eq!(experiments(passes, at_random).1, 0, "{passes} passes");
        assert_eq!(experiments(passes, few_at_a_time).1, 0, "{passes} passes");
    }
}

#[test]
fn a_lucky_window_is_not_a_larger_buffer() {
    let lucky = |random: &mut Rng| if random.f64() < 0.1 { 128 } else { 96 };
    for passes in [3, 30] {
        let (holds, given) = experiments(passes, lucky);
        assert!(holds >= 9, "{holds} of 10 with {passes} passes, {given} given");
    }
}

#[test]
fn a_quiet_step_is_exact() {
    assert_eq!(experiments(6, |_| 96), (10, 10));
    let few = levels(&contended(2, 1, |_| 96), 0.95, 1);
    assert!(few[0].is_step && few[0].entries.is_none(), "{few:?}");
}
