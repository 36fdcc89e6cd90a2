// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of the kernels in a stage against what is known: how often they are called, with how
//! many octets, and what a stage that calls more often takes longer.
//!
//! These measure; see `common/tries.rs` for how that is made reliable.

mod common;
#[path = "common/tries.rs"]
mod tries;

use common::{OPTIONS, kinds, mapping, path, run_on_one, traffic};
use linerate_dataplane::{Job, Watch, run};
use linerate_kernels::{Kernels, variants};
use linerate_path::model::{RunLength, RunOptions, Sink, StageUse, Value};
use linerate_record::Figure;
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, RunReport, StageReport};
use tries::{PROCESSOR, some_try};

/// A stage that sums `octets` octets `calls` times per packet and copies them once.
fn call(name: &str, calls: i64, octets: i64) -> StageUse {
    let params = [("calls", calls), ("octets", octets)];
    let params = params.map(|(name, value)| (name.to_owned(), Value::Integer(value)));
    StageUse { name: name.to_owned(), kind: "call".to_owned(), params: params.into() }
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
    report.strands[0].stages.iter().find(|stage| stage.name == name).expect("a stage of the path")
}

fn used(stage: &StageReport, kernel: Kernel) -> &KernelUse {
    let all = stage.kernels.as_ref().expect("its calls were logged");
    all.iter().find(|one| one.kernel == kernel).expect("it calls the kernel")
}

fn number(figure: &Figure) -> Result<f64, String> {
    figure.as_number().ok_or_else(|| format!("{:?}", figure.reason))
}

fn ends(figure: &Figure) -> Result<[f64; 2], String> {
    figure.low.zip(figure.high).map(|(low, high)| [low, high]).ok_or("no interval".to_owned())
}

fn holds(condition: bool, what: impl Fn() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what()) }
}

#[test]
fn twice_the_calls_take_twice_the_time_and_that_is_what_the_stage_takes_longer() {
    some_try(|| {
        let stages = vec![call("three", 3, 900), call("six", 6, 900)];
        let report = measured(stages, 0.3, Kernels::selected());
        let (three, six) = (stage(&report, "three"), stage(&report, "six"));
        let [of_three, of_six] = [three, six].map(|stage| used(stage, Kernel::Checksum));
        assert_eq!((of_three.calls_per_packet, of_six.calls_per_packet), (3.0, 6.0));
        assert_eq!((of_three.octets_per_call, of_six.octets_per_call), (900.0, 900.0));
        let (once, twice) = (&of_three.ticks_per_packet, &of_six.ticks_per_packet);
        let ([once_low, once_high], [twice_low, twice_high]) = (ends(once)?, ends(twice)?);
        holds(2.0 * once_low <= twice_high && twice_low <= 2.0 * once_high, || {
            format!("{once:?}, twice that: {twice:?}")
        })?;
        if cfg!(debug_assertions) {
            println!("SKIP: what the stage takes longer: its loop is not optimised in this build");
            return Ok(());
        }
        let longer = number(&six.ticks_per_packet)? - number(&three.ticks_per_packet)?;
        let replayed = number(twice)? - number(once)?;
        holds((replayed / longer - 1.0).abs() < 0.25, || {
            format!("three more calls take {replayed}, the stage {longer} longer")
        })
    });
}

#[test]
fn shares_of_a_stage_add_up_below_one_and_agree_with_its_ticks() {
    some_try(|| {
        let report = measured(vec![call("both", 2, 700)], 0.3, Kernels::selected());
        let both = stage(&report, "both");
        let service = number(&both.ticks_per_packet)?;
        let mut sum = 0.0;
        for kernel in [Kernel::Checksum, Kernel::Copy] {
            let one = used(both, kernel);
            let (share, ticks) = (number(&one.share)?, number(&one.ticks_per_packet)?);
            assert!((share * service / ticks - 1.0).abs() < 1e-9, "{one:?}");
            let [low, high] = ends(&one.share)?;
            assert!(0.0 < low && low <= share && share <= high, "{one:?}");
            sum += share;
        }
        holds(sum < 1.0, || format!("shares add up to {sum}"))
    });
}

#[test]
fn every_variant_makes_the_calls_again_and_what_is_selected_is_not_slow() {
    let supported: Vec<_> = variants().filter(|v| v.is_supported()).map(|v| v.name()).collect();
    some_try(|| {
        let portable = Kernels::of("portable").expect("always there");
        let report = measured(vec![call("both", 2, 1_400)], 0.2, portable);
        assert_eq!(report.kernels.as_deref(), Some("portable"));
        let sum = used(stage(&report, "both"), Kernel::Checksum);
        assert_eq!(sum.variant, "portable");
        let names: Vec<_> = sum.variants.iter().map(|v| v.variant.as_str()).collect();
        assert_eq!(names, supported);
        let in_use = sum.variants.iter().find(|variant| variant.variant == "portable");
        assert_eq!(in_use.and_then(|variant| variant.time_ratio.as_number()), Some(1.0));
        assert_eq!(sum.variants.iter().filter(|variant| variant.selected).count(), 1);
        let best = sum.variants.iter().filter_map(|v| v.time_ratio.as_number()).fold(1.0, f64::min);
        let selected = sum.variants.iter().find(|variant| variant.selected);
        let ratio = selected.ok_or("none is selected").map(|v| number(&v.time_ratio))??;
        holds(ratio <= best * 1.25, || format!("selected {ratio}, best {best}"))
    });
}

#[test]
fn what_calls_nothing_has_no_kernels_and_what_was_not_logged_is_unknown() {
    let _processor = PROCESSOR.lock();
    let report = measured(vec![common::stage("spin", "turns", 5)], 0.1, Kernels::selected());
    assert_eq!(stage(&report, "spin").kernels, Some(Vec::new()));
    assert_eq!(used(stage(&report, "source"), Kernel::Copy).calls_per_packet, 1.0);
    assert_eq!(used(stage(&report, "source"), Kernel::Copy).octets_per_call.round(), 180.0);
    let path = path(vec![common::stage("spin", "turns", 5)]);
    let options = RunOptions { length: RunLength::Packets(5_000), ..OPTIONS };
    let report = run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report;
    assert!(report.strands[0].stages.iter().all(|stage| stage.kernels.is_none()));
}
