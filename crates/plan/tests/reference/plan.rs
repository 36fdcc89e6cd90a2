// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests plans made with the formula: gains match the predictions, and stages that must not be
//! replicated never are.

use crate::advice::Case;
use crate::one_state::keeps_to;
use crate::sim::{Dice, mapping, run};
use linerate_path::check::read_to_plan;
use linerate_path::model::{Mapping, Path};
use linerate_path::spec::{StageSpec, State};
use linerate_plan::candidates::{PathShape, best_of_each};
use linerate_plan::costs::StageCost;
use linerate_plan::formula::{self, Formula};
use linerate_plan::inputs::{Inputs, InputsError, Processors};
use linerate_plan::model::{predict, speedup, unmeasured_burst};
use linerate_plan::search::Subject;
use linerate_record::Figure;
use linerate_record::plan::{Change, Origin, PlanReport, Recommendation};

const BURST: u32 = 32;

fn planned(path: &Path, specs: &[StageSpec], inputs: &Inputs, can_run: bool) -> PlanReport {
    planned_for(path, specs, inputs, can_run, None)
}

fn planned_for(
    path: &Path,
    specs: &[StageSpec],
    inputs: &Inputs,
    can_run: bool,
    line_kpps: Option<f64>,
) -> PlanReport {
    let machine_source = "a test";
    let subject = Subject { path, specs, line_kpps, machine: "a machine", machine_source };
    let formula = Formula { inputs, kernels: None, file: "path.toml", can_run };
    formula::plan(&subject, &formula)
}

fn formula(case: &Case) -> PlanReport {
    formula_for(case, None)
}

fn formula_for(case: &Case, line_kpps: Option<f64>) -> PlanReport {
    let inputs = Inputs {
        costs: case.costs.clone(),
        env: case.env.clone(),
        quota: None,
        flows: 1,
        from: "a test".to_owned(),
        list: Vec::new(),
    };
    let path = Path { mapping: case.baseline.clone(), ..case.world.path() };
    planned_for(&path, &case.kinds, &inputs, true, line_kpps)
}

fn busiest(report: &PlanReport) -> f64 {
    report.workers.iter().filter_map(|s| s.utilisation.as_number()).fold(0.0, f64::max)
}

#[test]
fn a_gain_is_the_ratio_of_the_predictions_and_nothing_gains_on_itself() {
    let mut dice = Dice::new(31);
    for number in 0..60 {
        let case = Case::random(&mut dice, 5, 1 + number % 4);
        let same = (&case.baseline, BURST);
        let itself = speedup(same, same, &case.costs, &case.env);
        assert_eq!((itself.value, itself.low, itself.high), (1.0, 1.0, 1.0), "case {number}");
        let written = predict(&case.baseline, BURST, &case.costs, &case.env).kpps.value;
        for one in formula(&case).recommendations {
            let (kpps, gain) = (one.predicted_kpps.as_number(), one.gain.as_number());
            let (kpps, gain) = (kpps.expect("a rate"), gain.expect("a gain"));
            assert!((kpps / written - 1.0 - gain).abs() < 1e-9, "case {number}: {one:?}");
            let (low, high) = (one.gain.low.expect("an end"), one.gain.high.expect("an end"));
            assert!(low <= gain && gain <= high && gain >= 0.02, "case {number}: {one:?}");
        }
    }
}

/// Speed drift affects both sides of a comparison and cancels, so gains are more precise than
/// rates.
#[test]
fn what_mappings_share_cancels_in_a_gain() {
    let mut dice = Dice::new(32);
    let mut case = Case::new(&mut dice, 4, &[], 4);
    case.env.drift = 0.25;
    let (merged, two) = (mapping(&[(4, 1)]), mapping(&[(4, 2)]));
    let rate = predict(&two, BURST, &case.costs, &case.env).kpps;
    let gain = speedup((&merged, BURST), (&two, BURST), &case.costs, &case.env);
    let width = |low: f64, high: f64, value: f64| (high - low) / value;
    assert!(
        width(gain.low, gain.high, gain.value) < 0.5 * width(rate.low, rate.high, rate.value),
        "{gain:?} with {rate:?}"
    );
}

#[test]
fn recommendations_are_ordered_and_the_best_mapping_is_among_them() {
    let mut dice = Dice::new(33);
    for number in 0..60 {
        let case = Case::random(&mut dice, 6, 1 + number % 5);
        let report = formula(&case);
        let gains: Vec<f64> =
            report.recommendations.iter().filter_map(|one| one.gain.as_number()).collect();
        assert!(gains.is_sorted_by(|a, b| a >= b) && gains.len() <= 8, "case {number}: {gains:?}");
        let best = case.advice().proposals.first().map(|p| p.prediction.kpps.value);
        let written = report.predicted_kpps.as_number().expect("a rate");
        if let Some(best) = best.filter(|best| *best > written * 1.03) {
            let first = report.recommendations[0].predicted_kpps.as_number().expect("a rate");
            // Of equally good burst sizes, the smallest is shown.
            let share = first / best;
            assert!((1.0 / 1.02..1.0 + 1e-9).contains(&share), "case {number}: {share}");
        }
        assert!((busiest(&report) - 1.0).abs() < 1e-12, "case {number}");
        assert_eq!(report.workers.len(), case.baseline.workers());
    }
}

/// A line slower than the path leaves its workers idle for the rest of their time.
#[test]
fn the_line_is_the_bottleneck_of_workers_that_keep_up() {
    let mut dice = Dice::new(37);
    for number in 0..60 {
        let case = Case::random(&mut dice, 6, 1 + number % 5);
        let most = formula(&case).predicted_kpps.as_number().expect("a rate");
        for share in [0.045, 0.8, 1.25] {
            let report = formula_for(&case, Some(share * most));
            let is_slow = share < 1.0;
            assert!((busiest(&report) - share.min(1.0)).abs() < 1e-9, "case {number}: {share}");
            let found = &report.bottleneck;
            assert_eq!(found.worker.is_none(), is_slow, "case {number}: {found:?}");
            assert_eq!(found.stage.is_none(), is_slow, "case {number}: {found:?}");
            let says_line = found.sentence.starts_with("limited by line rate");
            assert_eq!(says_line, is_slow, "case {number}: {found:?}");
        }
    }
}

#[test]
fn what_keeps_one_state_is_never_replicated_by_formula() {
    let mut dice = Dice::new(34);
    let mut held = 0;
    for number in 0..150 {
        let case = Case::random(&mut dice, 4, 1 + number % 8);
        held += case.kinds.iter().filter(|kind| kind.state == State::Global).count();
        assert!(keeps_to(&formula(&case), &case.kinds, &case.world.path()), "case {number}");
    }
    assert!(held > 50, "the cases must try it: {held}");
}

#[test]
fn costs_of_a_file_become_those_of_the_formula() {
    let text = "\
[source]
kind = 'generator'
[[stage]]
kind = 'a'
[[stage]]
kind = 'b'
[costs]
from = 'a test'
spread = 0.1
handover_ns = 7
[[costs.stages]]
name = 'a'
ns = 100
[[costs.stages]]
name = 'b'
ns = 60
reach = 0.5
state = 'none'
assumed = ['ns']
[[costs.stages]]
name = 'sink'
ns = 5
";
    let described = read_to_plan(text, "t", &[]).expect("a path");
    let costs = described.costs.as_ref().expect("costs");
    let processors = Processors { count: 4, are_shared: false, quota: None };
    let inputs = Inputs::from_file(costs, &described.path, processors).expect("times");
    let rate = predict(&described.path.mapping, BURST, &inputs.costs, &inputs.env).kpps;
    // A packet takes 100 + 0.5 * 60 + 5 ns.
    assert!((rate.value - 1e6 / 135.0).abs() < 1e-6, "{rate:?}");
    assert!((inputs.costs.stages[0].ticks.low - 90.0).abs() < 1e-9);
    assert_eq!(inputs.env.handover.producer_ticks.value, 7.0);
    let origin = |name: &str| inputs.list.iter().find(|i| i.name == name).map(|i| i.origin);
    assert_eq!(origin("b: ns"), Some(Origin::Assumed));
    assert_eq!(origin("a: ns"), Some(Origin::Given));
    let report = planned(&described.path, &described.specs, &inputs, false);
    assert_eq!(report.bottleneck.stage.as_deref(), Some("a"));
    let best = &report.recommendations[0];
    // `a` does not declare its state, so it is not replicated. After the split it takes 100 ns,
    // plus 7 ns of the ring for half of the packets.
    assert_eq!((best.kind, best.mapping.as_str()), (Change::Split, "a | b"));
    assert!(best.proof.command.is_none(), "nothing here runs a");
}

/// Source and sink cannot be changed, so the bottleneck is a stage even if they take longer, as for
/// `run`. The plan says how long they take.
#[test]
fn the_bottleneck_of_a_plan_is_a_stage() {
    let bottleneck = |source_ns: u32, sink_ns: u32| {
        let text = format!(
            "[source]\nkind = 'generator'\n[[stage]]\nkind = 'a'\n[[stage]]\nkind = 'b'\n\
             [costs]\nfrom = 'a test'\nspread = 0.1\nhandover_ns = 7\n\
             [[costs.stages]]\nname = 'source'\nns = {source_ns}\n\
             [[costs.stages]]\nname = 'a'\nns = 60\n\
             [[costs.stages]]\nname = 'b'\nns = 100\n\
             [[costs.stages]]\nname = 'sink'\nns = {sink_ns}\n"
        );
        let described = read_to_plan(&text, "t", &[]).expect("a path");
        let processors = Processors { count: 1, are_shared: false, quota: None };
        let costs = described.costs.as_ref().expect("costs");
        let inputs = Inputs::from_file(costs, &described.path, processors).expect("times");
        planned(&described.path, &described.specs, &inputs, false).bottleneck
    };
    let found = bottleneck(5, 5);
    assert_eq!(found.stage.as_deref(), Some("b"), "{found:?}");
    assert!(!found.sentence.contains("source"), "{found:?}");
    for (source_ns, sink_ns) in [(250, 5), (5, 250), (70, 60)] {
        let found = bottleneck(source_ns, sink_ns);
        assert_eq!(found.stage.as_deref(), Some("b"), "{found:?}");
        let ends = format!("; source and sink take {} ns of it", source_ns + sink_ns);
        assert!(found.sentence.ends_with(&ends), "{found:?}");
        let stage = "`b` takes 100 ns per packet, more than any other stage";
        assert!(found.sentence.contains(stage), "{found:?}");
    }
}

#[test]
fn costs_that_do_not_do_are_refused_by_name() {
    let mut dice = Dice::new(36);
    let case = Case::new(&mut dice, 3, &[], 4);
    let report = run(&case.world, &Mapping::merged(3), 0.0, 1);
    let mut path = case.world.path();
    let from = |path: &Path, count| {
        let processors = Processors { count, are_shared: false, quota: None };
        Inputs::from_run(&report, path, BURST, processors, "a test").map(|_| ())
    };
    assert_eq!(from(&path, 4), Ok(()));
    path.mapping = mapping(&[(1, 3), (2, 2)]);
    assert_eq!(
        from(&path, 4),
        Err(InputsError::TooFewWorkers { wanted: 5, outside: 0, available: 4 })
    );
    let mut fewer = case.world.path();
    fewer.stages.pop();
    fewer.mapping = Mapping::merged(2);
    assert_eq!(from(&fewer, 4), Err(InputsError::OtherPath { stage: "stage2".to_owned() }));
    let mut other = case.world.path();
    other.stages[1].name = "other".to_owned();
    let error = from(&other, 4).expect_err("it used a different path").to_string();
    assert!(error.contains("the run used a different path"), "{error}");
    let text = "[source]\nkind = 'generator'\n[[stage]]\nkind = 'a'\n[costs]\nfrom = 'a test'\n\
                [[costs.stages]]\nname = 'a'\ninstructions = 100\n";
    let described = read_to_plan(text, "t", &[]).expect("a path");
    let processors = Processors { count: 4, are_shared: false, quota: None };
    let costs = described.costs.expect("costs");
    let error = Inputs::from_file(&costs, &described.path, processors);
    assert_eq!(error, Err(InputsError::NoTime { stage: "a".to_owned() }));
}

/// Returns all rates in a plan.
fn rates(report: &PlanReport) -> impl Iterator<Item = &Figure> {
    let recommended = report.recommendations.iter().map(|one| &one.predicted_kpps);
    let held = report.line_hold.iter().map(|hold| &hold.predicted_kpps);
    [&report.predicted_kpps].into_iter().chain(recommended).chain(held)
}

#[test]
fn no_rate_exceeds_the_line_the_quota_or_what_was_seen_of_a_worker() {
    let mut dice = Dice::new(36);
    for number in 0..60 {
        let case = Case::random(&mut dice, 5, 1 + number % 5);
        let costs = &case.costs;
        let least = |cost: &StageCost| {
            cost.hot_ticks.map_or(cost.ticks.low, |hot| hot.low.min(cost.ticks.low))
        };
        let all = costs.stages.iter().chain([&costs.source, &costs.sink]);
        let alone_kpps = case.env.ticks_per_s / all.map(least).sum::<f64>() / 1e3;
        let inputs = |quota| Inputs {
            costs: case.costs.clone(),
            env: case.env.clone(),
            quota,
            flows: 1,
            from: "a test".to_owned(),
            list: Vec::new(),
        };
        let path = Path { mapping: case.baseline.clone(), ..case.world.path() };
        let line_kpps = alone_kpps * 0.4 * (1 + number % 7) as f64;
        let quota = 0.2;
        let seen = alone_kpps * case.env.cpus as f64;
        let held = alone_kpps * quota;
        let cases =
            [(None, None, seen), (Some(line_kpps), None, line_kpps), (None, Some(quota), held)];
        for (line, quota, most_kpps) in cases {
            let report = planned_for(&path, &case.kinds, &inputs(quota), true, line);
            for rate in rates(&report) {
                let ends = [rate.as_number(), rate.low, rate.high].into_iter().flatten();
                let is_bounded = ends.clone().all(|kpps| kpps <= most_kpps * (1.0 + 1e-9));
                assert!(is_bounded, "case {number}: {rate:?} of {most_kpps}");
            }
            let says_quota = report.limits.iter().any(|limit| limit.contains("CPU quota"));
            assert_eq!(says_quota, quota.is_some(), "case {number}: {:?}", report.limits);
        }
    }
}

#[test]
fn the_fewest_cpus_that_hold_the_line_hold_it_with_the_whole_interval() {
    let mut dice = Dice::new(37);
    let (mut held, mut missed) = (0, 0);
    for number in 0..40 {
        let case = Case::random(&mut dice, 4, 4);
        let inputs = Inputs {
            costs: case.costs.clone(),
            env: case.env.clone(),
            quota: None,
            flows: 1,
            from: "a test".to_owned(),
            list: Vec::new(),
        };
        let path = Path { mapping: case.baseline.clone(), ..case.world.path() };
        let low = |mapping: &Mapping| predict(mapping, BURST, &case.costs, &case.env).kpps.low;
        let line = low(&mapping(&[(path.stages.len(), 1)])) * (0.5 + 0.1 * f64::from(number));
        let report = planned_for(&path, &case.kinds, &inputs, true, Some(line));
        let hold = report.line_hold.expect("the line is known");
        let shape = PathShape::new(&path, &case.kinds);
        let best = best_of_each(&shape, &case.costs, &case.env, BURST);
        let enough = best.iter().filter(|mapping| low(mapping) >= line);
        let fewest = enough.map(|mapping| mapping.workers() as u32).min();
        match (hold.cpus, fewest) {
            (Some(cpus), fewest) => {
                assert!(fewest.is_none_or(|fewest| cpus <= fewest), "case {number}: {hold:?}");
                let low = hold.predicted_kpps.low.expect("an end");
                assert!(low >= line * (1.0 - 1e-6), "case {number}: {hold:?}");
                held += 1;
            }
            (None, fewest) => {
                assert_eq!(fewest, None, "case {number}: {hold:?}");
                assert!(hold.sentence.contains("the best is"), "{}", hold.sentence);
                missed += 1;
            }
        }
    }
    assert!(held > 5 && missed > 5, "both are tried: {held}, {missed}");
}

#[test]
fn no_burst_is_recommended_whose_cost_was_assumed() {
    let mut dice = Dice::new(38);
    let mut case = Case::new(&mut dice, 3, &[], 2);
    case.env.burst_ticks = unmeasured_burst(case.env.ticks_per_s);
    let report = formula(&case);
    let is_burst = |one: &Recommendation| one.kind == Change::Burst || one.burst != BURST;
    assert!(!report.recommendations.iter().any(is_burst), "{:?}", report.recommendations);
    let reason = report.ruled_out.iter().find(|one| one.name == "other bursts");
    assert!(reason.is_some_and(|one| one.reason.contains("tune measures")));
}
