// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of cursors on a cycle, and of overlapping loads.

use super::*;
use crate::Watch;
use linerate_record::memory::PageKind;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Returns a level of `bytes` bytes; memory if `None`.
pub(crate) fn level(name: &str, bytes: Option<f64>) -> MemoryLevel {
    let method = "synthetic";
    let size = match bytes {
        Some(bytes) => Figure::exact("bytes", bytes, Tier::Sw, method),
        None => Figure::absent("bytes", Tier::Sw, method, "memory"),
    };
    MemoryLevel {
        name: name.to_owned(),
        size_bytes: size,
        latency_ns: Figure::absent("ns/load", Tier::Sw, method, "synthetic"),
        latency_cycles: Figure::exact("cycles/load", 4.0, Tier::Sw, method),
        settled: true,
        note: None,
    }
}

fn levels(sizes: &[Option<f64>]) -> Vec<MemoryLevel> {
    sizes.iter().map(|&size| level("level", size)).collect()
}

const KIB: usize = 1024;

fn kib(sizes: &[Option<f64>], most: usize) -> Vec<Option<usize>> {
    let sizes: Vec<_> = sizes.iter().map(|size| size.map(|kib| kib * 1024.0)).collect();
    let sets = working_sets(&levels(&sizes), most * KIB, far_beyond);
    sets.iter().map(|set| set.map(|bytes| bytes / KIB)).collect()
}

#[test]
fn working_sets_lie_between_the_levels() {
    let usual = [Some(32.0), Some(512.0), Some(8192.0), None];
    assert_eq!(kib(&usual, 256 << 10), [Some(16), Some(128), Some(2048), Some(128 << 10)]);
    // The chain fills the whole arena if 16 times the cache size exceeds the arena.
    assert_eq!(kib(&usual, 64 << 10)[3], Some(64 << 10));
    assert_eq!(kib(&usual, 12 << 10)[3], None, "less than twice what caches hold");
    assert_eq!(kib(&usual, 1 << 10), [Some(16), Some(128), None, None]);
    let usual = levels(&usual.map(|kib| kib.map(|kib| kib * KIB as f64)));
    let nearer = working_sets(&usual, 1 << 30, |caches| 8.0 * caches);
    assert_eq!(nearer[3], Some(64 << 20));
}

#[test]
fn levels_too_near_each_other_have_no_working_set() {
    assert_eq!(kib(&[Some(32.0), Some(48.0), None], 1 << 20)[1], None);
    assert_eq!(kib(&[Some(32.0), Some(64.0), None], 1 << 20)[1], Some(44));
}

#[test]
fn without_caches_everything_is_memory() {
    assert_eq!(kib(&[None], 1024), [Some(1024)]);
    assert_eq!(working_sets(&[], 1 << 20, far_beyond), []);
}

fn with_windows<T>(is_stopped: bool, look: impl FnOnce(&Windows<'_>) -> T) -> T {
    let stop = AtomicBool::new(is_stopped);
    let watch = Watch::new(&stop, &|_, _| {});
    look(&Windows::new(&watch, Duration::from_secs(1)))
}

fn arena(bytes: usize) -> Arena {
    Arena::new(bytes, PageKind::Base, &AtomicBool::new(false)).unwrap()
}

/// Follows the chain to check the distance between successive places.
#[test]
fn places_part_a_walked_cycle_evenly() {
    let mut arena = arena(1 << 20);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
    for lines in [96, 97, 500, 5000, 16_384] {
        chain.resize(lines);
        let places = places(&chain);
        let mut walk = Cursor::default();
        let mut position = vec![0; lines];
        for step in 0..lines {
            position[chain.item(walk)] = step;
            walk = chain.next(walk);
        }
        for (k, &place) in places.iter().enumerate() {
            assert_eq!(position[chain.item(place)], k * lines / PLACES, "{k} of {lines}");
        }
    }
}

#[test]
fn every_number_of_chains_divides_the_places() {
    assert!(CHAINS.iter().all(|&chains| PLACES % chains as usize == 0));
    assert!(CHAINS.contains(&MOST_CHAINS) && CHAINS.contains(&IN_REGISTERS));
}

fn items(chain: &Chain<'_>, heads: &Heads) -> Vec<usize> {
    heads.heads.iter().map(|(cursor, _)| chain.item(*cursor)).collect()
}

/// For any number of heads, no line is touched again until a head reaches the next one's starting
/// point.
#[test]
fn in_memory_heads_meet_no_line_again() {
    let mut arena = arena(1 << 20);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
    let lines_of_head = 160;
    chain.resize(PLACES * lines_of_head);
    let mut heads = Heads::new(&chain, true);
    let mut met = vec![0; chain.len()];
    let mut total = 0;
    for chains in CHAINS.iter().rev().cycle() {
        heads.walk(*chains, |walk| {
            let before = walk.cursors.clone();
            total += walk.on(&chain, 1) as usize;
            for mut cursor in before {
                for _ in 0..walk.along_each {
                    met[chain.item(cursor)] += 1;
                    cursor = chain.next(cursor);
                }
            }
        });
        if heads.heads.iter().any(|head| head.1 as usize == lines_of_head) {
            break;
        }
    }
    assert!(met.iter().all(|&times| times <= 1));
    assert_eq!(met.iter().sum::<usize>(), total);
    assert!(total >= PLACES * (lines_of_head - 16), "{total}: some heads waited");
}

#[test]
fn in_a_cache_heads_begin_where_they_began() {
    let mut arena = arena(1 << 20);
    let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
    chain.resize(PLACES * 10);
    let mut heads = Heads::new(&chain, false);
    let start = items(&chain, &heads);
    for chains in CHAINS {
        let begun = heads.walk(chains, |walk| {
            let begun = walk.cursors.clone();
            walk.on(&chain, 100);
            begun
        });
        let begun: Vec<usize> = begun.iter().map(|&cursor| chain.item(cursor)).collect();
        let even: Vec<usize> = start.iter().copied().step_by(PLACES / chains as usize).collect();
        assert_eq!(begun, even);
    }
    assert_eq!(items(&chain, &heads), start);
}

/// Builds a request for `passes` passes with a deadline `seconds` after the windows were created.
fn request(windows: &Windows<'_>, passes: u32, seconds: u64) -> Request {
    let deadline = windows.started() + Duration::from_secs(seconds);
    Request { line: 64, passes, seed: 1, deadline }
}

#[test]
fn measures_every_number_of_chains_per_level() {
    let levels = [level("L1", Some(32e3)), level("memory", None)];
    let measured =
        with_windows(false, |w| measure(w, &mut arena(1 << 20), &levels, &request(w, 2, 30)));
    assert_eq!(measured.len(), 2);
    for one in measured {
        let chains: Vec<u32> = one.record.points.iter().map(|point| point.chains).collect();
        let expected = if one.record.level == "L1" { &CHAINS[..7] } else { &CHAINS[..] };
        assert_eq!(chains, expected, "{one:?}");
        let ns = one.record.points.iter().map(|point| point.ns_per_load.as_number());
        assert!(ns.clone().all(|ns| ns.is_some_and(|ns| ns > 0.0)), "{ns:?}");
        assert!(one.outstanding.unwrap().value >= 1.0, "{one:?}");
    }
}

/// Times of loads served by another level must not count for this one.
#[test]
fn the_latency_of_the_level_replaces_a_missing_single_chain() {
    let points: Vec<Point> =
        [2, 4, 8].map(|chains| Point { chains, passes: vec![12.0 / chains as f64] }).into();
    let record = |alone_ns| record("L3", Some(1 << 20), &points, alone_ns, (1, ""));
    let found = record(Some(12.0));
    assert_eq!(found.outstanding.map(|outstanding| outstanding.value), Some(8.0));
    assert_eq!(found.record.points.len(), 3, "unmeasured points are left out");
    let figure = found.record.outstanding;
    assert!(figure.method.starts_with("level latency divided by the time"), "{figure:?}");
    assert_eq!((figure.low, figure.high), (None, None), "one pass has no interval");
    assert_eq!(record(None).outstanding, None);
}

#[test]
fn times_above_the_latency_of_the_level_do_not_count() {
    let points = |most_ns| {
        let walked = Walked { lines: 1000, is_memory: true, most_chains: 8, most_ns };
        with_windows(false, |w| points(w, &mut arena(1 << 20), &walked, &request(w, 1, 30)))
    };
    assert!(points(0.0).is_empty());
    assert!(!points(f64::INFINITY).is_empty());
}

#[test]
fn what_was_stopped_is_absent_with_a_reason() {
    let levels = levels(&[Some(32e3), Some(40e3), None]);
    let measured =
        with_windows(true, |w| measure(w, &mut arena(1 << 20), &levels, &request(w, 1, 0)));
    let reasons: Vec<_> =
        measured.iter().map(|one| one.record.outstanding.reason.clone().unwrap()).collect();
    assert!(reasons[0].contains("time") && reasons[1].contains("size"), "{reasons:?}");
    assert!(measured.iter().all(|one| one.outstanding.is_none()));
}
