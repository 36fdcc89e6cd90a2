// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares what is reported on a stage's kernel calls with known values: number of calls, bytes,
//! replayed variants, and consistency of shares and ticks. The accuracy of ticks is checked by
//! `examples/accuracy.rs`.

mod common;

use common::{OPTIONS, kinds, mapping, path, run_on_one, traffic};
use linerate_dataplane::{Job, Watch, run};
use linerate_kernels::{Kernels, variants};
use linerate_path::model::{RunLength, RunOptions, Sink, StageUse, Value};
use linerate_record::Figure;
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, RunReport, StageReport};
use std::sync::Mutex;

/// Replays need CPU 0, so run only one test at a time.
static PROCESSOR: Mutex<()> = Mutex::new(());

/// Returns a stage that checksums `bytes` bytes `calls` times and copies them once, per packet.
fn call(name: &str, calls: i64, bytes: i64) -> StageUse {
    let params = [("calls", calls), ("bytes", bytes)];
    let params = params.map(|(name, value)| (name.to_owned(), Value::Integer(value)));
    StageUse {
        name: name.to_owned(),
        params: params.into(),
        ..common::stage("call", "calls", calls)
    }
}

fn measured(stages: Vec<StageUse>, seconds: f64, kernels: Kernels) -> RunReport {
    let mut path = path(stages);
    path.sink = Sink::Null;
    let options = RunOptions { length: RunLength::Seconds(seconds), ..OPTIONS };
    let (kinds, traffic) = (kinds(), traffic());
    let job = Job { options, kernels, replay: true, ..Job::new(&path, &kinds, &traffic, &[0]) };
    let watch = Watch::unattended();
    run(&job, &watch).expect("runs").report
}

fn stage<'r>(report: &'r RunReport, name: &str) -> &'r StageReport {
    report.workers[0].stages.iter().find(|stage| stage.name == name).expect("a stage of the path")
}

fn used(stage: &StageReport, kernel: Kernel) -> &KernelUse {
    let all = stage.kernels.as_ref().expect("its calls were logged");
    all.iter().find(|one| one.kernel == kernel).expect("it calls the kernel")
}

/// Returns a figure as `[low, value, high]`. It is `None` if every round of a replay was preempted,
/// or if all but two windows were.
fn known(figure: &Figure) -> Option<[f64; 3]> {
    match (figure.as_number(), figure.low, figure.high) {
        (Some(value), Some(low), Some(high)) => Some([low, value, high]),
        _ => {
            println!("SKIP: {:?}", figure.reason);
            None
        }
    }
}

#[test]
fn calls_and_bytes_of_each_stage_are_those_it_made() {
    let _processor = PROCESSOR.lock();
    let stages = vec![call("three", 3, 900), call("six", 6, 700)];
    let report = measured(stages, 0.2, Kernels::selected());
    for (name, calls, bytes) in [("three", 3.0, 900.0), ("six", 6.0, 700.0)] {
        let stage = stage(&report, name);
        let (sums, copies) = (used(stage, Kernel::Checksum), used(stage, Kernel::Copy));
        assert_eq!((sums.calls_per_packet, sums.bytes_per_call), (calls, bytes), "{name}");
        assert_eq!((copies.calls_per_packet, copies.bytes_per_call), (1.0, bytes), "{name}");
    }
}

#[test]
fn the_share_of_a_kernel_is_its_ticks_over_those_of_the_stage() {
    let _processor = PROCESSOR.lock();
    let report = measured(vec![call("both", 2, 700)], 0.2, Kernels::selected());
    let both = stage(&report, "both");
    for kernel in [Kernel::Checksum, Kernel::Copy] {
        let one = used(both, kernel);
        let figures = [&one.share, &one.ticks_per_packet, &both.ticks_per_packet].map(known);
        let [Some([low, share, high]), Some([_, ticks, _]), Some([_, service, _])] = figures else {
            return;
        };
        assert!((share * service / ticks - 1.0).abs() < 1e-9, "{one:?}");
        assert!(0.0 < low && low <= share && share <= high, "{one:?}");
    }
}

#[test]
fn every_variant_replays_the_calls() {
    let _processor = PROCESSOR.lock();
    let supported: Vec<_> = variants().filter(|v| v.is_supported()).map(|v| v.name()).collect();
    let portable = Kernels::by_name("portable").expect("always there");
    let report = measured(vec![call("both", 2, 1_400)], 0.2, portable);
    assert_eq!(report.kernels.as_deref(), Some("portable"));
    let sum = used(stage(&report, "both"), Kernel::Checksum);
    assert_eq!(sum.variant, "portable");
    if known(&sum.ticks_per_packet).is_none() {
        return;
    }
    let names: Vec<_> = sum.variants.iter().map(|v| v.variant.as_str()).collect();
    assert_eq!(names, supported);
    let in_use = sum.variants.iter().find(|variant| variant.variant == "portable");
    assert_eq!(in_use.and_then(|variant| variant.time_ratio.as_number()), Some(1.0));
    assert_eq!(sum.variants.iter().filter(|variant| variant.selected).count(), 1);
}

#[test]
fn what_calls_nothing_has_no_kernels_and_what_was_not_logged_is_unknown() {
    let _processor = PROCESSOR.lock();
    let report = measured(vec![common::stage("spin", "turns", 5)], 0.1, Kernels::selected());
    assert_eq!(stage(&report, "spin").kernels, Some(Vec::new()));
    assert_eq!(used(stage(&report, "source"), Kernel::Copy).calls_per_packet, 1.0);
    assert_eq!(used(stage(&report, "source"), Kernel::Copy).bytes_per_call.round(), 180.0);
    let path = path(vec![common::stage("spin", "turns", 5)]);
    let options = RunOptions { length: RunLength::Packets(5_000), ..OPTIONS };
    let report = run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report;
    assert!(report.workers[0].stages.iter().all(|stage| stage.kernels.is_none()));
}
