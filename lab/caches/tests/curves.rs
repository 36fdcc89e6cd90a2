// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares both methods of computing curves with cases calculated by hand, and with each other.

use linerate_caches::{
    Cache, Inclusion, Index, LINE_BYTES, Machine, Moves, Noise, Point, Policy, Tlb, analytic, trace,
};

const KIB: u64 = 1 << 10;

fn cache(size_bytes: u64, ways: u32, policy: Policy, index: Index, latency_ns: f64) -> Cache {
    Cache { size_bytes, ways, policy, index, inclusion: Inclusion::Inclusive, latency_ns }
}

/// Returns a machine without TLB misses or changes between passes.
fn machine(caches: Vec<Cache>) -> Machine {
    Machine {
        caches,
        memory_ns: 100.0,
        tlb: Vec::new(),
        page_bytes: 4 * KIB,
        contiguous_bytes: 4 * KIB,
        moves: None,
    }
}

/// Returns caches of 16 KiB, 64 KiB and 256 KiB; `last` applies to the last one.
fn three(policy: Policy, index: Index, last: Inclusion) -> Machine {
    let mut machine = machine(vec![
        cache(16 * KIB, 4, Policy::Lru, Index::Virtual, 1.0),
        cache(64 * KIB, 8, policy, index, 4.0),
        cache(256 * KIB, 16, policy, index, 16.0),
    ]);
    machine.caches[2].inclusion = last;
    machine
}

fn mean(point: &Point) -> f64 {
    point.passes.iter().sum::<f64>() / point.passes.len() as f64
}

fn assert_near(found: f64, expected: f64, within: f64, of: &str) {
    assert!((found / expected - 1.0).abs() <= within, "{of}: {found}, not {expected}");
}

/// A chain that fits always hits; one of twice the size always misses. In a 4-way cache with 4 KiB
/// ways, one 4 KiB page too many adds a line too many to every set.
#[test]
fn one_cache_by_hand() {
    let machine = machine(vec![cache(16 * KIB, 4, Policy::Lru, Index::Virtual, 1.0)]);
    let cases = [(4, 1.0), (16, 1.0), (20, 100.0), (32, 100.0)];
    for (kib, expected) in cases {
        for way in [analytic, trace] {
            let points = way(&machine, &[kib * KIB], 1, &Noise::none(), 0);
            assert_eq!(points[0].passes, [expected], "{kib} KiB");
        }
    }
}

/// 18 KiB in a 16 KiB cache: half of the sets have 5 lines for 4 ways, i.e. 160 of 288 lines miss.
#[test]
fn half_a_page_too_many_by_hand() {
    let machine = machine(vec![cache(16 * KIB, 4, Policy::Lru, Index::Virtual, 1.0)]);
    let missing = 160.0 / 288.0;
    for way in [analytic, trace] {
        let points = way(&machine, &[18 * KIB], 1, &Noise::none(), 0);
        assert_near(points[0].passes[0], missing * 100.0 + (1.0 - missing), 1e-9, "18 KiB");
    }
}

/// A victim cache as large as the previous cache: chains that fit both together stay in them.
#[test]
fn a_victim_cache_adds_its_size_by_hand() {
    let mut machine = machine(vec![
        cache(4 * KIB, 64, Policy::Lru, Index::Virtual, 1.0),
        cache(4 * KIB, 64, Policy::Lru, Index::Virtual, 4.0),
    ]);
    machine.caches[1].inclusion = Inclusion::Victim;
    assert_eq!(machine.reach_bytes(1), 8 * KIB);
    for (bytes, expected) in [(4 * KIB, 1.0), (8 * KIB, 4.0), (8 * KIB + LINE_BYTES, 100.0)] {
        let points = trace(&machine, &[bytes], 1, &Noise::none(), 0);
        assert_eq!(points[0].passes, [expected], "{bytes} bytes");
    }
    let points = analytic(&machine, &[6 * KIB, 16 * KIB], 1, &Noise::none(), 0);
    assert_eq!((points[0].passes[0], points[1].passes[0]), (4.0, 100.0));
}

/// Agreement is within 16 % on climbs: some randomness remains with 4 passes, and `analytic` is an
/// approximation for victim caches, as documented.
#[test]
fn both_ways_agree() {
    let sizes = [16, 24, 48, 64, 96, 160, 256, 384, 512].map(|kib| kib * KIB);
    let cases = [
        (Policy::Lru, Index::Physical, Inclusion::Inclusive),
        (Policy::Lru, Index::Physical, Inclusion::Victim),
        (Policy::TreePlru, Index::Hashed, Inclusion::Victim),
        (Policy::Random, Index::Hashed, Inclusion::Inclusive),
        (Policy::Random, Index::Physical, Inclusion::Victim),
    ];
    for (policy, index, last) in cases {
        let machine = three(policy, index, last);
        let computed = analytic(&machine, &sizes, 4, &Noise::none(), 1);
        let simulated = trace(&machine, &sizes, 4, &Noise::none(), 1);
        for (computed, simulated) in computed.iter().zip(&simulated) {
            let of = format!("{policy:?} {index:?} {last:?} {} bytes", computed.bytes);
            assert_near(mean(computed), mean(simulated), 0.16, &of);
        }
    }
}

/// A curve's other sizes, their order, and the number of passes do not affect a time.
#[test]
fn a_time_depends_on_nothing_but_its_own_arguments() {
    let machine = Machine::random_within(3, 1 << 20);
    let sizes = [64 * KIB, 100 * KIB, 900 * KIB];
    for way in [analytic, trace] {
        let all = way(&machine, &sizes, 3, &Noise::busy(), 7);
        let one = way(&machine, &sizes[1..2], 2, &Noise::busy(), 7);
        assert_eq!(all[1].passes[..2], one[0].passes);
        let other = way(&machine, &sizes[1..2], 2, &Noise::busy(), 8);
        assert_ne!(one[0].passes, other[0].passes);
    }
}

#[test]
fn noise_only_ever_adds() {
    for noise in [Noise::idle(), Noise::busy()] {
        let machine = Machine::random(5);
        let sizes: Vec<u64> = (0..10).map(|step| (16 * KIB) << step).collect();
        let points = analytic(&machine, &sizes, 3, &noise, 5);
        let times = points.iter().flat_map(|point| point.passes.iter().zip(&point.quiet));
        let ratios: Vec<f64> = times.map(|(time, quiet)| time / quiet).collect();
        assert!(ratios.iter().all(|ratio| (1.0..10.0).contains(ratio)), "{ratios:?}");
        assert!(ratios.iter().any(|ratio| *ratio > 1.01), "{ratios:?}");
    }
}

/// Division by zero must not occur: a chain that fits L1 puts no lines into a victim cache behind
/// it.
#[test]
fn times_are_numbers() {
    let sizes: Vec<u64> = (0..16).map(|step| (KIB << step).max(64)).collect();
    for seed in 0..200 {
        let points = analytic(&Machine::random(seed), &sizes, 1, &Noise::none(), seed);
        let times = points.iter().map(|point| point.passes[0]);
        assert!(times.into_iter().all(|time| time.is_finite() && time > 0.0), "{seed}: {points:?}");
    }
}

/// Only the selected value changes, and only in every other pass.
#[test]
fn what_moves_moves() {
    let mut machine = machine(vec![cache(64 * KIB, 8, Policy::Lru, Index::Virtual, 1.0)]);
    machine.moves = Some(Moves::Memory(1.5));
    let points = analytic(&machine, &[32 * KIB, 256 * KIB], 3, &Noise::none(), 0);
    assert_eq!(points[0].passes, [1.0; 3]);
    assert_eq!(points[1].passes, [100.0, 150.0, 100.0]);
    machine.moves = Some(Moves::LastCache(0.5));
    let points = trace(&machine, &[48 * KIB], 3, &Noise::none(), 0);
    assert_eq!(points[0].passes, [1.0, 100.0, 1.0]);
}

/// Beyond 4 pages, one load in 64 takes 8 ns longer.
#[test]
fn translation_misses_once_per_page() {
    let mut machine = machine(vec![cache(64 * KIB, 8, Policy::Lru, Index::Virtual, 1.0)]);
    machine.tlb = vec![Tlb { entries: 4, cost_ns: 8.0 }];
    let points = analytic(&machine, &[16 * KIB, 32 * KIB], 1, &Noise::none(), 0);
    assert_eq!((points[0].passes[0], points[1].passes[0]), (1.0, 1.125));
    let truth = machine.truth(1 << 20);
    assert_eq!((truth.levels[0].latency_ns, truth.levels[0].latency_high_ns), (1.0, 1.125));
}

/// Random machines are realizable: integral numbers of sets, increasing sizes and latencies, and
/// way counts that suit the policy.
#[test]
fn machines_are_valid() {
    let (mut close, mut moving) = (0, 0);
    for seed in 0..2000 {
        let machine = Machine::random(seed);
        assert!((2..=4).contains(&machine.caches.len()), "{machine:?}");
        for cache in &machine.caches {
            assert_eq!(cache.sets() * u64::from(cache.ways) * LINE_BYTES, cache.size_bytes);
            assert!(cache.policy != Policy::TreePlru || cache.ways.is_power_of_two());
            let is_by_bits = cache.index != Index::Hashed;
            assert!(!is_by_bits || cache.sets().is_power_of_two(), "{machine:?}");
        }
        let truth = machine.truth(machine.enough_bytes());
        let mut pairs = truth.levels.windows(2);
        assert!(pairs.all(|pair| pair[0].latency_ns < pair[1].latency_ns), "{machine:?}");
        assert!(
            truth.levels.iter().filter_map(|level| level.size_bytes).is_sorted(),
            "{machine:?}"
        );
        close += usize::from(!truth.too_close(2.0).is_empty());
        moving += usize::from(truth.levels.iter().any(|level| level.moved));
    }
    // Enough machines of both kinds to test a detector with, but few enough to be the exception.
    assert!((20..400).contains(&close) && (40..400).contains(&moving), "{close} {moving}");
}
