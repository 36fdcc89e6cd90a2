// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests kernel shares and kernel advice on synthetic runs whose true values are known.

use crate::sim::{TICKS_PER_SECOND, World, processed_kpps, run};
use linerate_path::model::{Mapping, Segment};
use linerate_plan::kernels::{advise, shares};
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, RunReport, StageReport, VariantTime};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};

fn figure(value: f64, spread: f64) -> Figure {
    let (low, high) = (value * (1.0 - spread), value * (1.0 + spread));
    let estimate = Estimate { value, low, high, confidence: 0.95, n: 40 };
    Figure::number("", estimate, Tier::Sw, "by hand")
}

/// Returns a kernel that takes `share` of the stage's time. `times` holds each variant's time
/// ratio; the first variant is in use, the second is the selected one.
fn used(stage: &StageReport, kernel: Kernel, share: f64, times: &[(&str, f64)]) -> KernelUse {
    let ticks = stage.ticks_per_packet.as_number().expect("simulated") * share;
    let variants = times.iter().enumerate().map(|(index, &(variant, ratio))| VariantTime {
        variant: variant.to_owned(),
        selected: index == 1,
        time_ratio: figure(ratio, if index == 0 { 0.0 } else { 0.02 }),
    });
    KernelUse {
        kernel,
        variant: times[0].0.to_owned(),
        calls_per_packet: 1.0,
        bytes_per_call: 300.0,
        ticks_per_packet: figure(ticks, 0.02),
        share: figure(share, 0.02),
        variants: variants.collect(),
    }
}

const TIMES: [(&str, f64); 3] = [("portable", 1.0), ("avx2", 0.5), ("sse2", 0.8)];

/// Returns a world with a path of 410 ticks on one worker. The second stage spends half of its time
/// on checksums, and the source a quarter of its time on copies.
fn world() -> World {
    World {
        stages: vec![100.0, 200.0, 80.0],
        source: 20.0,
        sink: 10.0,
        producer: 10.0,
        consumer: 10.0,
        capture: (0..400).map(|packet| (packet % 16, None)).collect(),
        chosen: Vec::new(),
        branch: vec![None; 3],
        period: 0.0,
        jitter: 0.0,
        drop_when_full: false,
        slowdown: 1.0,
    }
}

fn mapping(segments: &[(usize, u32)]) -> Mapping {
    let mut end = 0;
    let segments = segments.iter().map(|&(stages, replicas)| {
        let start = end;
        end += stages;
        Segment { stages: start..end, replicas, cpus: Vec::new() }
    });
    Mapping { segments: segments.collect() }
}

/// Returns a run of the world in which the source and second stage call kernels with these
/// variants.
fn called(mapping: &Mapping, kernels: &str, times: &[(&str, f64)]) -> RunReport {
    let mut report = run(&world(), mapping, 0.0, 1);
    report.kernels = Some(kernels.to_owned());
    for stage in report.workers.iter_mut().flat_map(|worker| &mut worker.stages) {
        let uses = match stage.name.as_str() {
            "source" => vec![used(stage, Kernel::Copy, 0.25, times)],
            "stage1" => vec![used(stage, Kernel::Checksum, 0.5, times)],
            _ => Vec::new(),
        };
        stage.kernels = Some(uses);
    }
    report
}

#[test]
fn what_faster_kernels_are_worth_is_what_the_faster_world_does() {
    let faster = World { stages: vec![100.0, 150.0, 80.0], source: 17.5, ..world() };
    for segments in [&[(3, 1)][..], &[(3, 2)], &[(1, 1), (2, 1)], &[(2, 2), (1, 1)]] {
        let mapping = mapping(segments);
        let advice = advise(&called(&mapping, "portable", &TIMES)).expect("there are calls");
        assert_eq!((advice.in_use.as_str(), advice.fastest.as_str()), ("portable", "selected"));
        assert!(advice.worth_trying, "{advice:?}");
        assert!((advice.time_ratio.as_number().unwrap() - 0.5).abs() < 1e-9, "{advice:?}");
        assert_eq!(advice.stage, "stage1");
        let near = |figure: &Figure, truth: f64| {
            let value = figure.as_number().expect("a number");
            assert!((value / truth - 1.0).abs() < 0.03, "{segments:?}: {value}, truly {truth}");
        };
        near(&advice.path_kpps, processed_kpps(&run(&world(), &mapping, 0.0, 1)));
        near(&advice.path_fastest_kpps, processed_kpps(&run(&faster, &mapping, 0.0, 1)));
        near(&advice.stage_kpps, TICKS_PER_SECOND / 200.0 / 1e3);
        near(&advice.stage_fastest_kpps, TICKS_PER_SECOND / 150.0 / 1e3);
        let fastest = &advice.path_fastest_kpps;
        assert!(fastest.low < fastest.as_number() && fastest.as_number() < fastest.high);
    }
}

#[test]
fn kernels_that_are_not_clearly_slower_are_kept() {
    let merged = mapping(&[(3, 1)]);
    for (in_use, times) in [
        ("selected", [("avx2", 1.0), ("avx2", 1.0), ("sse2", 1.3)]),
        // The gain of 1 % is within the interval of 2 %.
        ("portable", [("portable", 1.0), ("avx2", 0.99), ("sse2", 1.3)]),
    ] {
        let advice = advise(&called(&merged, in_use, &times[..])).expect("there are calls");
        assert_eq!((advice.fastest.as_str(), advice.worth_trying), (in_use, false));
        assert_eq!(advice.time_ratio.as_number(), Some(1.0));
        assert_eq!(advice.path_kpps.as_number(), advice.path_fastest_kpps.as_number());
        assert!(advice.sentence.contains("as fast as any variant"), "{}", advice.sentence);
    }
}

#[test]
fn a_gain_below_the_resolution_is_reported_but_not_tried() {
    // Calls take 105 of 410 ticks and become 6 % faster, which gains 1.5 % on the whole path.
    let times = [("portable", 1.0), ("avx2", 0.94), ("sse2", 1.0)];
    let advice = advise(&called(&mapping(&[(3, 1)]), "portable", &times)).expect("calls");
    assert_eq!((advice.fastest.as_str(), advice.worth_trying), ("selected", false));
    assert!(advice.sentence.contains("keep "), "{}", advice.sentence);
}

#[test]
fn a_variant_by_name_wins_where_the_selected_one_is_slower() {
    let times = [("avx512", 1.0), ("avx512", 1.0), ("avx2", 0.6)];
    let advice = advise(&called(&mapping(&[(3, 1)]), "selected", &times)).expect("calls");
    assert_eq!((advice.fastest.as_str(), advice.worth_trying), ("avx2", true));
}

#[test]
fn selected_is_taken_where_another_is_as_fast() {
    let merged = mapping(&[(3, 1)]);
    for (other, expected) in [(0.49, "selected"), (0.4, "sse2")] {
        let times = [("portable", 1.0), ("avx2", 0.5), ("sse2", other)];
        let advice = advise(&called(&merged, "portable", &times)).expect("there are calls");
        assert_eq!(advice.fastest, expected);
    }
}

#[test]
fn a_choice_that_has_not_made_all_calls_is_none() {
    let mut report = called(&mapping(&[(3, 1)]), "portable", &TIMES);
    let uses = report.workers[0].stages[0].kernels.as_mut().expect("called");
    uses[0].variants.truncate(1);
    let advice = advise(&report).expect("there are calls");
    assert_eq!(advice.fastest, "portable");
}

#[test]
fn nothing_called_or_logged_gives_no_advice_and_no_shares() {
    let merged = mapping(&[(3, 1)]);
    let unlogged = run(&world(), &merged, 0.0, 1);
    assert_eq!((advise(&unlogged), shares(&unlogged, &unlogged)), (None, None));
    let mut idle = called(&merged, "selected", &TIMES);
    idle.workers[0].stages.iter_mut().for_each(|stage| stage.kernels = Some(Vec::new()));
    assert_eq!(advise(&idle), None);
    let zeros = shares(&idle, &idle).expect("it was logged");
    assert_eq!(zeros.len(), 2 * 5);
    assert!(zeros.iter().all(|share| share.after.as_number() == Some(0.0)));
}

#[test]
fn shares_of_replicas_are_joined_by_their_packets() {
    let before = called(&mapping(&[(3, 1)]), "portable", &TIMES);
    let mut after = called(&mapping(&[(3, 2)]), "portable", &TIMES);
    // One replica spends a quarter of its time on checksums, the other half.
    let stage = after.workers[1].stages.iter_mut().find(|stage| stage.name == "stage1").unwrap();
    stage.kernels = Some(vec![used(stage, Kernel::Checksum, 0.25, &TIMES)]);
    let rows = shares(&before, &after).expect("both were logged");
    let names: Vec<_> = rows.iter().map(|row| (row.stage.as_str(), row.kernel)).collect();
    let stages = ["source", "stage0", "stage1", "stage2", "sink"];
    let both = [Kernel::Checksum, Kernel::Copy];
    let expected: Vec<_> = stages.into_iter().flat_map(|s| both.map(|k| (s, k))).collect();
    assert_eq!(names, expected);
    let row = &rows[4];
    assert!((row.before.as_number().unwrap() - 0.5).abs() < 1e-9, "{row:?}");
    assert!((row.after.as_number().unwrap() - 0.375).abs() < 0.005, "{row:?}");
    assert!(row.after.low < row.after.as_number() && row.after.as_number() < row.after.high);
    after.workers[0].stages[2].kernels = None;
    let reason = shares(&before, &after).expect("one was logged")[4].after.reason.clone();
    assert!(reason.is_some_and(|reason| reason.contains("not logged")));
}
