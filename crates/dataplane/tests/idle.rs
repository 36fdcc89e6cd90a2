// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests workers with every idle policy: packets arrive intact and in order, and the report
//! contains how the workers waited.

#[expect(dead_code, reason = "other tests use the rest of the module")]
mod common;
#[path = "common/conserved.rs"]
mod conserved;

use common::{OPTIONS, kinds, mapping, path, stage, traffic};
use conserved::assert_conserved;
use linerate_dataplane::{Job, Outcome, Watch, run};
use linerate_path::model::{IdlePolicy, IdleRules, Rate, RunLength, RunOptions};
use linerate_record::run::IdleReport;

/// Runs a path of two workers, which share a CPU if there is only one.
fn run_two(options: RunOptions, idle: &IdleRules) -> Outcome {
    let (path, mapping) =
        (path(vec![stage("number", "", 0), stage("trim", "", 0)]), mapping(&[(1, 1), (1, 1)]));
    let some = linerate_linux::allowed_cpus().expect("a list of CPUs");
    let cpus: Vec<u32> = some.iter().copied().cycle().take(2).collect();
    let (kinds, traffic) = (kinds(), traffic());
    let job = Job {
        mapping: &mapping,
        options,
        idle,
        oversubscribe: true,
        audit: true,
        ..Job::new(&path, &kinds, &traffic, &cpus)
    };
    run(&job, &Watch::unattended()).expect("nothing is broken")
}

/// Returns each worker's report on its idle time.
fn idle(outcome: &Outcome) -> Vec<IdleReport> {
    let workers = outcome.report.workers.iter();
    workers.map(|worker| worker.idle.clone().expect("every run reports it")).collect()
}

#[test]
fn packets_arrive_whole_and_in_order_with_every_policy() {
    for policy in IdlePolicy::ALL {
        for rate in [Rate::Max, Rate::PacketsPerSecond(20_000.0)] {
            let options = RunOptions { length: RunLength::Packets(2_000), rate, ..OPTIONS };
            let outcome = run_two(options, &IdleRules::all(policy));
            assert_conserved(&outcome.report);
            let positions: Vec<u64> = outcome.kept.iter().map(|(position, ..)| position).collect();
            assert_eq!(positions, (0..2_000).collect::<Vec<u64>>(), "{policy:?} at {rate:?}");
        }
    }
}

#[test]
fn a_parked_worker_sleeps_between_packets_and_is_woken_by_them() {
    // Long enough for both workers to sleep, even if other programs delay their start.
    let (rate, length) = (Rate::PacketsPerSecond(100.0), RunLength::Seconds(0.5));
    let options = RunOptions { length, rate, ..OPTIONS };
    let outcome = run_two(options, &IdleRules::all(IdlePolicy::Park));
    let [source, sink] = <[_; 2]>::try_from(idle(&outcome)).expect("two workers");
    assert_eq!((source.policy.as_str(), source.park_after_ns), ("park", None));
    // The source wakes up when a packet is due, the other worker when the packet arrives.
    assert!(source.parks > 0 && source.wake_ups < source.parks, "{source:?}");
    assert!(sink.wake_ups > 0 && sink.parked_ns > 0, "{sink:?}");
    assert_conserved(&outcome.report);
}

#[test]
fn the_end_of_the_run_wakes_every_worker() {
    let options = RunOptions {
        length: RunLength::Seconds(0.2),
        rate: Rate::PacketsPerSecond(1.0),
        ..OPTIONS
    };
    let outcome = run_two(options, &IdleRules::all(IdlePolicy::Auto));
    let reports = idle(&outcome);
    assert!(reports.iter().all(|idle| idle.parks > 0 && idle.park_after_ns.is_some()));
    assert_conserved(&outcome.report);
}

#[test]
fn a_worker_with_a_policy_of_its_own_keeps_it_under_the_mapping_of_the_file() {
    let mut path = path(vec![stage("number", "", 0), stage("trim", "", 0)]);
    path.mapping = mapping(&[(1, 1), (1, 1)]);
    path.idle = IdleRules {
        workers: vec![None, Some(IdlePolicy::Park)],
        ..IdleRules::all(IdlePolicy::Slow)
    };
    let (kinds, traffic) = (kinds(), traffic());
    let merged = mapping(&[(2, 1)]);
    let options = RunOptions { length: RunLength::Packets(100), ..OPTIONS };
    let job = Job { options, oversubscribe: true, ..Job::new(&path, &kinds, &traffic, &[0, 0]) };
    let policies = |job: &Job<'_>| -> Vec<String> {
        let outcome = run(job, &Watch::unattended()).expect("nothing is broken");
        idle(&outcome).into_iter().map(|idle| idle.policy).collect()
    };
    assert_eq!(policies(&job), ["slow", "park"]);
    assert_eq!(policies(&Job { mapping: &merged, cpus: &[0], ..job }), ["slow"]);
}
