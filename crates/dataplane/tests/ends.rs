// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests how runs end: early, late, with an error, or without any work. Each must terminate with a
//! balanced ledger.

mod common;
#[path = "common/conserved.rs"]
mod conserved;

use common::{
    FIRST_DUE_TICKS, MADE_TICKS, OPTIONS, kinds, mapping, path, run_on_one, stage, traffic,
};
use conserved::assert_conserved;
use linerate_dataplane::capture::PcapWriter;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{DESCRIPTORS, Job, Outcome, RunError, Watch, run};
use linerate_path::model::{CaptureRules, Mapping, Path, Rate, RunLength, RunOptions};
use linerate_record::run::RunReport;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs all workers on CPU 0, until they have finished or `stop` is set.
fn run_with(
    path: &Path,
    mapping: &Mapping,
    options: RunOptions,
    traffic: &Traffic,
    stop: &AtomicBool,
) -> Result<Outcome, RunError> {
    let cpus = vec![0; mapping.workers()];
    let kinds = kinds();
    let job = Job {
        mapping,
        options,
        oversubscribe: mapping.workers() > 1,
        audit: true,
        ..Job::new(path, &kinds, traffic, &cpus)
    };
    run(&job, &Watch::new(stop, &|_, _| {}))
}

fn packets_taken(report: &RunReport) -> u64 {
    let first = report.workers.iter().filter(|worker| worker.segment == 0);
    first.map(|worker| worker.stages[0].packets).sum()
}

/// Returns the traffic of a capture with copies of one frame, all with the same timestamp.
fn one_flow_at_once(frames: usize) -> Traffic {
    let mut writer = PcapWriter::new(Vec::new()).expect("memory has room");
    for _ in 0..frames {
        writer.write(1_000, traffic().frame(0)).expect("memory has room");
    }
    let file = writer.finish().expect("memory has room");
    Traffic::from_capture(&file, 512, CaptureRules::default(), &[])
        .expect("the written file is readable")
}

#[test]
fn stopped_before_it_began_it_ends_with_nothing_measured() {
    let path = path(vec![stage("drop", "", 0), stage("trim", "", 0)]);
    for length in [RunLength::Seconds(60.0), RunLength::Packets(u64::MAX)] {
        let options = RunOptions { length, ..OPTIONS };
        let stop = AtomicBool::new(true);
        let outcome = run_with(&path, &mapping(&[(1, 2), (1, 1)]), options, &traffic(), &stop);
        let report = outcome.expect("ends").report;
        assert!(report.interrupted);
        assert_conserved(&report);
        assert!(report.processed_kpps.reason.is_some() && report.latency.p50.reason.is_some());
        assert!(report.workers.iter().all(|s| s.ticks_per_packet.reason.is_some()));
    }
}

#[test]
fn replicas_without_a_flow_end_with_the_others() {
    let (path, traffic) = (path(vec![stage("trim", "", 0)]), one_flow_at_once(3));
    for rate in [Rate::Max, Rate::PacketsPerSecond(1e6)] {
        for length in [RunLength::Packets(5_000), RunLength::Seconds(0.05)] {
            let options = RunOptions { length, rate, ..OPTIONS };
            let running = AtomicBool::new(false);
            let outcome = run_with(&path, &mapping(&[(1, 4)]), options, &traffic, &running);
            let report = outcome.expect("ends").report;
            assert_conserved(&report);
            assert_eq!(report.workers.iter().filter(|s| s.stages[0].packets > 0).count(), 1);
        }
    }
}

#[test]
fn a_processor_that_is_not_there_ends_all_workers() {
    let path = path(vec![stage("trim", "", 0), stage("trim", "", 0), stage("trim", "", 0)]);
    for broken in 0..3 {
        let mapping = mapping(&[(1, 1), (1, 1), (1, 1)]);
        let mut cpus = vec![0; 3];
        cpus[broken] = u32::MAX;
        let options = RunOptions { length: RunLength::Packets(u64::MAX), ..OPTIONS };
        let (kinds, traffic) = (kinds(), traffic());
        let job = Job {
            mapping: &mapping,
            options,
            oversubscribe: true,
            ..Job::new(&path, &kinds, &traffic, &cpus)
        };
        let watch = Watch::unattended();
        let error = run(&job, &watch).expect_err("no such CPU");
        assert!(matches!(error, RunError::System(_)), "{error}");
    }
}

#[test]
fn a_capture_without_duration_has_no_pace() {
    let (path, traffic) = (path(vec![stage("trim", "", 0)]), one_flow_at_once(2));
    let options = RunOptions { rate: Rate::Capture, length: RunLength::Packets(10_000), ..OPTIONS };
    let running = AtomicBool::new(false);
    let outcome = run_with(&path, &mapping(&[(1, 1)]), options, &traffic, &running).expect("ends");
    assert_eq!(packets_taken(&outcome.report), 10_000);
}

#[test]
fn rates_beyond_any_machine_still_end() {
    let path = path(vec![stage("spin", "turns", 1_000)]);
    for rate in [1e12, 1e-9] {
        let options = RunOptions {
            rate: Rate::PacketsPerSecond(rate),
            length: RunLength::Seconds(0.02),
            ..OPTIONS
        };
        let outcome = run_on_one(&path, &mapping(&[(1, 1)]), options);
        assert_conserved(&outcome.expect("ends").report);
    }
}

#[test]
fn what_the_descriptors_hold_is_not_missed() {
    let path = path(vec![stage("spin", "turns", 2_000)]);
    for (packets, missed) in [(DESCRIPTORS, false), (4 * DESCRIPTORS, true)] {
        let length = RunLength::Packets(packets);
        let options = RunOptions { rate: Rate::PacketsPerSecond(1e8), length, ..OPTIONS };
        let outcome = run_on_one(&path, &mapping(&[(1, 1)]), options);
        let source = &outcome.expect("ends").report.workers[0].stages[0];
        assert_eq!(source.drops.contains_key("rx_missed"), missed, "{:?}", source.drops);
    }
}

#[test]
fn the_first_packet_of_a_paced_source_is_due_after_all_stages_are_made() {
    let path = path(vec![stage("slow to make", "ms", 100)]);
    let options = RunOptions {
        rate: Rate::PacketsPerSecond(1e6),
        length: RunLength::Packets(1_000),
        ..OPTIONS
    };
    run_on_one(&path, &mapping(&[(1, 1)]), options).expect("ends");
    let [made, due] = [&MADE_TICKS, &FIRST_DUE_TICKS].map(|ticks| ticks.load(Ordering::Relaxed));
    // If the source's clock had started when the run was requested, the first packet would be late
    // by the time that the stage took to become ready.
    assert!(made > 0 && due > made, "made at {made}, first packet due at {due}");
}

#[test]
fn a_panic_while_others_wait_ends_them_and_adds_up() {
    let path =
        path(vec![stage("drop", "", 0), stage("number", "", 0), stage("fail", "position", 5_000)]);
    for segments in [&[(3, 1)][..], &[(1, 1), (1, 1), (1, 1)], &[(1, 3), (1, 1), (1, 2)]] {
        let options = RunOptions { ring: 16, length: RunLength::Packets(u64::MAX), ..OPTIONS };
        let error = run_on_one(&path, &mapping(segments), options).expect_err("it is broken");
        let RunError::StageFailed { failure, report } = error else { panic!("{error}") };
        assert_eq!((failure.stage.as_str(), failure.packet), ("fail", Some(5_000)));
        assert_conserved(&report);
    }
}

#[test]
fn a_panic_between_packets_names_none() {
    let path = path(vec![stage("fail early", "bursts", 3)]);
    let error = run_on_one(&path, &mapping(&[(1, 1)]), OPTIONS).expect_err("it is broken");
    let RunError::StageFailed { failure, report } = error else { panic!("{error}") };
    assert_eq!((failure.stage.as_str(), failure.packet), ("fail early", None));
    assert_conserved(&report);
}

#[test]
fn the_sink_is_given_what_the_last_stage_passed() {
    let path = path(vec![stage("drop most", "", 0)]);
    let options = RunOptions { length: RunLength::Seconds(0.1), ..OPTIONS };
    let outcome = run_on_one(&path, &mapping(&[(1, 1)]), options);
    let stages = &outcome.expect("ends").report.workers[0].stages;
    let kpps = |part: usize| stages[part].kpps.expect("measuring has begun");
    let share = kpps(2) / kpps(1);
    assert!((share - 1.0 / 7.0).abs() < 0.01, "{share} of the packets reach the sink");
}

#[test]
fn a_burst_of_nothing_is_refused() {
    let path = path(vec![stage("trim", "", 0)]);
    for burst in [0, 257] {
        let options = RunOptions { burst, ..OPTIONS };
        let ran = std::panic::catch_unwind(|| {
            let _ = run_on_one(&path, &mapping(&[(1, 1)]), options);
        });
        assert!(ran.is_err(), "burst {burst}");
    }
}
