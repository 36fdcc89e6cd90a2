// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds a program: rules on synthetic evidence.

use linerate_explain::bound::{explain, rules};
use linerate_record::profile::{
    BoundBy, BoundEvidence, BoundFinding, BoundMeasure as M, MachineLimits, MeasuredValue,
    ProfileReport, SimulatedFunction, SimulatedRun,
};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier, fixtures};

/// Half-width of the intervals of shares.
const ERROR: f64 = 0.03;

fn measured(measure: M, value: f64) -> MeasuredValue {
    let error = match value {
        _ if measure == M::WorkingThreads => 0.0,
        0.0 => 0.005,
        value if value <= 1.0 => ERROR,
        value => 0.05 * value,
    };
    let estimate = Estimate { low: value - error, high: value + error, ..Estimate::exactly(value) };
    MeasuredValue { measure, figure: Figure::number("ratio", estimate, Tier::Sw, "by hand") }
}

/// Evidence for a thread that is always busy in user mode, at instructions that point to no
/// bottleneck.
const BUSY: [(M, f64); 17] = [
    (M::UserMode, 0.98),
    (M::UnderSystemCalls, 0.0),
    (M::InPageFaults, 0.0),
    (M::InLocks, 0.0),
    (M::InCopies, 0.0),
    (M::Decoded, 0.97),
    (M::Loads, 0.2),
    (M::DependentLoads, 0.0),
    (M::Stores, 0.1),
    (M::LongArithmetic, 0.1),
    (M::SimpleInstructions, 0.5),
    (M::Atomics, 0.0),
    (M::Pauses, 0.0),
    (M::BehindBranches, 0.1),
    (M::StraightLoops, 0.2),
    (M::ContendedBytes, 0.0),
    (M::OneAddress, 0.0),
];

fn report(changes: &[(M, f64)]) -> ProfileReport {
    let program = [(M::Saturation, 0.97), (M::AsleepOnFutex, 0.0), (M::WorkingThreads, 1.0)];
    let mut values: Vec<(M, f64)> = BUSY.iter().chain(&program).copied().collect();
    for &(measure, value) in changes {
        values.retain(|(known, _)| *known != measure);
        values.push((measure, value));
    }
    let measures = values.iter().map(|&(measure, value)| measured(measure, value)).collect();
    ProfileReport {
        evidence: vec![BoundEvidence { function: None, measures }],
        limits: MachineLimits {
            l1d_bytes: Some(32 << 10),
            l1i_bytes: Some(32 << 10),
            l2_bytes: Some(1 << 20),
            last_level_bytes: Some(32 << 20),
            last_level_caches: Some(1),
            read_bytes_per_s: None,
            read_threads: None,
        },
        simulated: None,
        ..fixtures::profile()
    }
}

fn finding(report: &ProfileReport) -> BoundFinding {
    explain(report).remove(0)
}

fn bound_by(changes: &[(M, f64)]) -> BoundBy {
    finding(&report(changes)).bound_by
}

/// Returns the finding for a program with the given simulated counts per 1000 instructions in each
/// of its functions.
fn simulated(changes: &[(M, f64)], mispredictions: u64, l1i: u64, l1d: u64) -> BoundFinding {
    let mut report = report(changes);
    let of = |name: &str| SimulatedFunction {
        name: name.to_owned(),
        instructions: 1_000_000,
        mispredictions: 1000 * mispredictions,
        l1i_misses: 1000 * l1i,
        l1d_misses: 1000 * l1d,
        last_level_misses: 0,
    };
    let functions = report.functions.iter().map(|function| of(&function.name)).collect();
    let caches =
        linerate_record::stat::SimulatedCaches { name: "synthetic".to_owned(), ..caches() };
    report.simulated = Some(SimulatedRun { caches, functions });
    finding(&report)
}

fn caches() -> linerate_record::stat::SimulatedCaches {
    let shape = linerate_record::stat::CacheShape { bytes: 32 << 10, ways: 8, line_bytes: 64 };
    linerate_record::stat::SimulatedCaches {
        name: String::new(),
        i1: shape,
        d1: shape,
        ll: shape,
        note: String::new(),
        machine: None,
    }
}

#[test]
fn every_rule_can_be_disproved_and_has_sources() {
    for rule in rules::rules() {
        assert!(!rule.wrong_if.is_empty() && !rule.next.is_empty(), "{:?}", rule.bound_by);
        assert!(rule.conditions.iter().all(|one| !one.source.is_empty()));
        assert!(rule.symptoms == 0 || !(rule.measure.is_empty() || rule.suspicion.is_empty()));
        assert!(rule.symptoms <= rule.conditions.len());
        assert!(rule.bound_by != BoundBy::CannotTell);
    }
}

#[test]
fn what_samples_show_is_claimed() {
    let cases: [(&[(M, f64)], BoundBy); 9] = [
        (&[(M::LongArithmetic, 0.8)], BoundBy::Compute),
        (&[(M::StraightLoops, 0.96), (M::WorkingSet, 8192.0)], BoundBy::Compute),
        (&[(M::Loads, 0.9), (M::DependentLoads, 0.9)], BoundBy::MemoryLatency),
        (&[(M::Loads, 0.7), (M::WorkingSet, 1e8), (M::Streamed, 0.0)], BoundBy::MemoryLatency),
        (&[(M::CodeSize, 2e6), (M::SimpleInstructions, 0.9)], BoundBy::FrontEnd),
        (&[(M::ContendedBytes, 0.6), (M::WorkingThreads, 2.0)], BoundBy::Locks),
        (&[(M::UserMode, 0.2), (M::UnderSystemCalls, 0.8)], BoundBy::SystemCalls),
        (&[(M::UserMode, 0.1), (M::InPageFaults, 0.9)], BoundBy::PageFaults),
        (&[(M::Saturation, 0.1)], BoundBy::Waiting),
    ];
    for (changes, expected) in cases {
        let found = finding(&report(changes));
        assert_eq!(found.bound_by, expected, "{}", found.sentence);
        assert!(found.tier == Some(Tier::Sw) && found.wrong_if.is_some());
        assert!(!found.sentence.contains(" -"), "{}", found.sentence);
        assert!(!found.evidence.is_empty());
    }
}

#[test]
fn nothing_is_claimed_from_a_stall_that_cannot_be_seen() {
    // An ordinary program, and one whose samples are after branches.
    for changes in [&[][..], &[(M::BehindBranches, 0.6)]] {
        let found = finding(&report(changes));
        assert_eq!(found.bound_by, BoundBy::CannotTell);
        assert!(found.next.contains("--sim"), "{}", found.next);
    }
    // A stream may also be bound by its arithmetic, so the memory bandwidth has to be measured.
    let stream = [(M::Loads, 0.7), (M::WorkingSet, 1e8), (M::Streamed, 0.9), (M::StreamRate, 8e9)];
    let mut report = report(&stream);
    let found = finding(&report);
    assert_eq!(
        (found.bound_by, found.next.contains("linerate memory")),
        (BoundBy::CannotTell, true)
    );
    report.limits.read_bytes_per_s = Some(10e9);
    assert_eq!(finding(&report).bound_by, BoundBy::MemoryBandwidth);
    report.limits.read_bytes_per_s = Some(40e9);
    assert_eq!(finding(&report).bound_by, BoundBy::CannotTell);
}

#[test]
fn polling_loops_and_idle_programs_do_not_compute() {
    let loops = [(M::StraightLoops, 0.97), (M::WorkingSet, 4096.0)];
    assert_eq!(bound_by(&loops), BoundBy::Compute);
    // Threads that were sometimes seen waiting for each other.
    assert_eq!(bound_by(&[&loops[..], &[(M::InLocks, 0.03)]].concat()), BoundBy::CannotTell);
    let polling = [&loops[..], &[(M::OneAddress, 0.9)]].concat();
    assert_eq!(bound_by(&polling), BoundBy::CannotTell);
    let pausing = [&polling[..], &[(M::Pauses, 0.9)]].concat();
    assert_eq!(bound_by(&pausing), BoundBy::Waiting);
    let mostly_idle = [&loops[..], &[(M::Saturation, 0.6)]].concat();
    assert_eq!(bound_by(&mostly_idle), BoundBy::CannotTell);
}

#[test]
fn simulated_counts_decide_between_computing_branches_and_the_front_end() {
    assert_eq!(simulated(&[], 0, 0, 0).bound_by, BoundBy::Compute);
    assert_eq!(simulated(&[], 0, 0, 0).tier, Some(Tier::Sim));
    assert_eq!(simulated(&[(M::BehindBranches, 0.6)], 60, 0, 0).bound_by, BoundBy::Branches);
    // The simulated predictor mispredicts where the CPU's does not, because the samples are
    // elsewhere.
    assert_eq!(simulated(&[], 60, 0, 0).bound_by, BoundBy::CannotTell);
    assert_eq!(simulated(&[], 0, 50, 0).bound_by, BoundBy::FrontEnd);
    assert_eq!(simulated(&[], 0, 0, 50).bound_by, BoundBy::CannotTell);
}

#[test]
fn a_value_on_the_threshold_is_no_evidence() {
    let threshold = 0.6;
    assert_eq!(bound_by(&[(M::LongArithmetic, threshold)]), BoundBy::CannotTell);
    assert_eq!(bound_by(&[(M::LongArithmetic, threshold + 1.1 * ERROR)]), BoundBy::Compute);
}

#[test]
fn functions_are_judged_without_the_sleeps_of_the_program() {
    let mut report = report(&[(M::Saturation, 0.1)]);
    let measures = BUSY.iter().map(|&(measure, value)| measured(measure, value));
    let mut measures: Vec<MeasuredValue> = measures.collect();
    measures.push(measured(M::LongArithmetic, 0.1));
    measures.retain(|one| one.measure != M::LongArithmetic);
    measures.push(measured(M::LongArithmetic, 0.9));
    report.evidence.push(BoundEvidence { function: Some(0), measures });
    let found = explain(&report);
    assert_eq!((found[0].bound_by, found[1].bound_by), (BoundBy::Waiting, BoundBy::Compute));
    assert_eq!(found[1].function, Some(0));
}

#[test]
fn a_simulation_is_not_proposed_for_time_in_the_kernel() {
    let user = finding(&report(&[(M::UserMode, 0.9)]));
    assert_eq!(user.bound_by, BoundBy::CannotTell);
    assert!(user.next.contains("--sim"), "{}", user.next);
    let kernel = [(M::UserMode, 0.1), (M::UnderSystemCalls, 0.4), (M::Decoded, 0.1)];
    let kernel = finding(&report(&kernel));
    assert_eq!(kernel.bound_by, BoundBy::CannotTell, "{}", kernel.sentence);
    assert!(kernel.next.starts_with("linerate why PID"), "{}", kernel.next);
}

#[test]
fn private_tables_that_fit_their_caches_are_not_beyond_the_cache() {
    let of = |thread: f64| {
        report(&[
            (M::Loads, 0.7),
            (M::WorkingSet, 6.4e7),
            (M::ThreadWorkingSet, thread),
            (M::Streamed, 0.0),
            (M::WorkingThreads, 8.0),
        ])
    };
    // 8 MB per thread and 64 MB in all, with 32 MB per cache.
    let mut small = of(8e6);
    assert_eq!(finding(&small).bound_by, BoundBy::MemoryLatency);
    small.limits.last_level_caches = Some(8);
    assert_eq!(finding(&small).bound_by, BoundBy::CannotTell);
    let mut large = of(5e7);
    large.limits.last_level_caches = Some(8);
    let found = finding(&large);
    assert_eq!(found.bound_by, BoundBy::MemoryLatency);
    assert!(found.sentence.contains(" per thread, 1."), "{}", found.sentence);
    // With too few accesses of each thread, nothing is known.
    let evidence = &mut large.evidence[0];
    evidence.measures.retain(|one| one.measure != M::ThreadWorkingSet);
    assert_eq!(finding(&large).bound_by, BoundBy::CannotTell);
}

#[test]
fn streams_are_compared_with_as_many_threads() {
    let mut report =
        report(&[(M::Loads, 0.7), (M::WorkingSet, 1e8), (M::Streamed, 0.9), (M::StreamRate, 4e10)]);
    report.limits.read_bytes_per_s = Some(2e11);
    report.limits.read_threads = Some(16);
    assert_eq!(finding(&report).bound_by, BoundBy::CannotTell);
    report.limits.read_bytes_per_s = Some(5e10);
    let found = finding(&report);
    assert_eq!(found.bound_by, BoundBy::MemoryBandwidth);
    assert!(found.sentence.contains("bandwidth of 16 threads"), "{}", found.sentence);
}
