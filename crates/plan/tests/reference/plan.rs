// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans: are gains those of the predictions, is nothing replicated that must not be, and do the
//! Netra document's configurations come out as its application does?

use crate::advice::Case;
use crate::sim::{Dice, mapping, run};
use linerate_path::check::{Described, read_to_plan};
use linerate_path::costs::{GivenCost, GivenCosts, GivenWork, Idling, Neighbour};
use linerate_path::model::{FullRing, Mapping, Path};
use linerate_path::spec::{StageSpec, State};
use linerate_plan::advice::{self, Question};
use linerate_plan::chip;
use linerate_plan::cmt::{Application, Chip, Run, simulate};
use linerate_plan::inputs::{Inputs, InputsError, Processors};
use linerate_plan::model::{predict, speedup};
use linerate_plan::processor::Processor;
use linerate_record::plan::{Change, Origin, PlanReport, Recommendation};

const BURST: u32 = 32;

fn formula(case: &Case) -> PlanReport {
    let inputs = Inputs {
        costs: case.costs.clone(),
        env: case.env.clone(),
        flows: 1,
        from: "a test".to_owned(),
        list: Vec::new(),
    };
    let path = Path { mapping: case.baseline.clone(), ..case.world.path() };
    advice::plan(&Question {
        path: &path,
        specs: &case.kinds,
        inputs: &inputs,
        kernels: None,
        line_kpps: None,
        file: "path.toml",
        can_run: true,
        machine: ["a machine", "a test"],
    })
}

#[test]
fn a_gain_is_the_ratio_of_the_predictions_and_nothing_gains_on_itself() {
    let mut dice = Dice(31);
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

/// Drift slows both of what is compared, so a gain is better known than the two rates.
#[test]
fn what_mappings_share_cancels_in_a_gain() {
    let mut dice = Dice(32);
    let mut case = Case::new(&mut dice, 4, &[], 4);
    case.env.drift = 0.25;
    let (merged, two) = (mapping(&[(4, 1)]), mapping(&[(4, 2)]));
    let rate = predict(&two, BURST, &case.costs, &case.env).kpps;
    let gain = speedup((&merged, BURST), (&two, BURST), &case.costs, &case.env);
    let width = |low: f64, high: f64, value: f64| (high - low) / value;
    assert!(
        width(gain.low, gain.high, gain.value) < 0.5 * width(rate.low, rate.high, rate.value),
        "{gain:?} beside {rate:?}"
    );
}

#[test]
fn recommendations_are_ordered_and_the_best_mapping_is_among_them() {
    let mut dice = Dice(33);
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
            assert!((first / best - 1.0).abs() < 1e-9, "case {number}: {first} of {best}");
        }
        let busiest = report.strands.iter().filter_map(|s| s.utilisation.as_number());
        assert!((busiest.fold(0.0, f64::max) - 1.0).abs() < 1e-12, "case {number}");
        assert_eq!(report.strands.len(), case.baseline.strands());
    }
}

/// The stages of `segment` of a mapping in short, as many as it has replicas.
fn replicated(short: &str) -> Vec<(Vec<String>, u32)> {
    let segment = |text: &str| {
        let (names, times) = text.rsplit_once(" x").unwrap_or((text, "1"));
        let names = names.split(['+', '…']).map(str::to_owned).collect();
        (names, times.parse().expect("a number of replicas"))
    };
    short.split(" | ").map(segment).collect()
}

/// Whether no stage with one state for all packets has replicas, of those the short form names;
/// paths of up to four stages have all of theirs there.
fn keeps_to(report: &PlanReport, specs: &[StageSpec], path: &Path) -> bool {
    let is_global = |name: &String| {
        let index = path.stages.iter().position(|stage| stage.name == *name).expect("a stage");
        specs[index].state == State::Global
    };
    report.recommendations.iter().all(|one| {
        let segments = replicated(&one.mapping);
        segments.iter().all(|(names, replicas)| *replicas == 1 || !names.iter().any(is_global))
    })
}

#[test]
fn what_keeps_one_state_is_never_replicated_by_formula() {
    let mut dice = Dice(34);
    let mut held = 0;
    for number in 0..150 {
        let case = Case::random(&mut dice, 4, 1 + number % 8);
        held += case.kinds.iter().filter(|kind| kind.state == State::Global).count();
        assert!(keeps_to(&formula(&case), &case.kinds, &case.world.path()), "case {number}");
    }
    assert!(held > 50, "the cases must try it: {held}");
}

fn work(dice: &mut Dice) -> GivenWork {
    let l1_misses = dice.between(0.0, 30.0);
    GivenWork {
        instructions: dice.between(100.0, 800.0),
        l1_misses,
        l2_misses: l1_misses * dice.between(0.0, 0.5),
        bubble_cycles: dice.between(0.0, 2.0),
        poll_instructions: 15.0,
        turn_instructions: if dice.below(3) == 0 { 20.0 } else { 0.0 },
        ..GivenWork::default()
    }
}

fn given(dice: &mut Dice, path: &Path) -> GivenCosts {
    let cost = |dice: &mut Dice, name: &str| GivenCost {
        name: name.to_owned(),
        state: None,
        reach: 1.0,
        ns: None,
        work: Some(work(dice)),
        fitted: Vec::new(),
        assumed: Vec::new(),
    };
    let does = if dice.below(2) == 0 { Idling::Spins } else { Idling::Polls };
    let neighbour =
        Neighbour { name: "idle".to_owned(), does, cpus: vec![30, 31], instructions: 9.0, ns: 0.0 };
    GivenCosts {
        from: "a test".to_owned(),
        flows: 1,
        spread: None,
        handover_ns: None,
        memory_share: None,
        source: None,
        stages: path.stages.iter().map(|stage| cost(dice, &stage.name)).collect(),
        sink: None,
        neighbours: vec![neighbour],
    }
}

fn t1() -> Chip {
    Chip::new(&Processor::named("t1").expect("it comes with the program")).expect("a chip")
}

fn simulated(path: &Path, specs: &[StageSpec], costs: &GivenCosts, cycles: u64) -> PlanReport {
    let chip = t1();
    let question = chip::Question {
        path,
        specs,
        costs,
        chip: &chip,
        chip_source: "a test",
        cpus: chip.strands(),
        line_kpps: Some(400.0),
        cycles,
    };
    chip::plan(&question).expect("a plan")
}

#[test]
fn what_keeps_one_state_is_never_replicated_by_simulation() {
    let mut dice = Dice(35);
    let (mut held, mut advised) = (0, 0);
    for number in 0..20 {
        let case = Case::random(&mut dice, 4, 1 + number % 4);
        let mut path = Path { mapping: case.baseline.clone(), ..case.world.path() };
        path.run.full_ring = if number % 2 == 0 { FullRing::Drop } else { FullRing::Wait };
        let costs = given(&mut dice, &path);
        let report = simulated(&path, &case.kinds, &costs, 20_000);
        held += case.kinds.iter().filter(|kind| kind.state == State::Global).count();
        advised += report.recommendations.len();
        assert!(keeps_to(&report, &case.kinds, &path), "case {number}: {report:?}");
        for one in &report.recommendations {
            let mut cpus = one.cpus.clone().expect("placed");
            cpus.sort_unstable();
            cpus.dedup();
            let strands: u32 = replicated(&one.mapping).iter().map(|(_, times)| times).sum();
            assert_eq!(cpus.len() as u32, strands, "a processor each: {one:?}");
        }
        let gap = report.search.gap.expect("a bound");
        assert!(gap >= 0.0, "case {number}: a mapping above the bound");
    }
    assert!(held > 5 && advised > 10, "the cases must try it: {held}, {advised}");
}

fn example(configuration: &str) -> Described {
    let text = match configuration {
        "1" => include_str!("../../../../examples/rlp-t1-config1.toml"),
        _ => include_str!("../../../../examples/rlp-t1-config2.toml"),
    };
    read_to_plan(text, "rlp", &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The examples say of the stages what the application that comes with the program says of them, so
/// both must come to the same rate and cycles per instruction.
#[test]
fn the_examples_are_the_application_of_the_document() {
    const CYCLES: u64 = 600_000;
    let application = Application::named("rlp").expect("it comes with the program");
    for (configuration, roles) in
        [("1", ["PDSN_RXTX", "RLP", "ATIF_RXTX"]), ("2", ["PDSN_RX", "RLP", "ATIF_TX"])]
    {
        let described = example(configuration);
        let costs = described.costs.as_ref().expect("costs");
        let pipes = &application.configuration(configuration).expect("it is there").pipes;
        let system = application.on(&t1(), pipes).expect("it fits");
        let run = Run { warm_up_cycles: CYCLES / 4, cycles: CYCLES, seed: 1 };
        let outcome = simulate(&system, &run).expect("a system");
        let sent = |flow| outcome.strand(&format!("{} {flow}", roles[2])).expect("it runs");
        let packets = (0..4).map(|flow| sent(flow).packets()).sum::<u64>();
        let wanted = outcome.kpps(packets) / 4.0;
        let report = written(&described, costs, CYCLES);
        let kpps = report.predicted_kpps.as_number().expect("a rate");
        assert!((kpps / wanted - 1.0).abs() < 0.03, "{configuration}: {kpps} for {wanted}");
        for (index, role) in roles.iter().enumerate() {
            let strand = outcome.strand(&format!("{role} 0")).expect("it runs");
            let wanted = outcome.cpi(strand).expect("instructions");
            let cpi = report.strands[4 * index].cpi.as_number().expect("instructions");
            assert!((cpi / wanted - 1.0).abs() < 0.04, "{role}: CPI {cpi} for {wanted}");
        }
    }
}

/// What stands in both files is the same, to the digit.
#[test]
fn the_examples_have_the_figures_of_the_application() {
    let application = Application::named("rlp").expect("it comes with the program");
    let value = |name: &Option<String>| {
        name.as_ref().map_or(0.0, |name| application.value(name).expect("a parameter"))
    };
    let mut compared = 0;
    for configuration in ["1", "2"] {
        let costs = example(configuration).costs.expect("costs");
        for stage in &costs.stages {
            let role = application.roles.iter().find(|role| role.name == stage.name);
            let tasks = &role.expect("a role").tasks;
            let (takes, looks): (Vec<_>, Vec<_>) =
                tasks.iter().partition(|task| task.input.is_some());
            let [task] = takes[..] else { panic!("{} takes packets once", stage.name) };
            let wanted = GivenWork {
                instructions: value(&task.instructions),
                l1_misses: value(&task.l1_misses),
                l2_misses: value(&task.l2_misses),
                io_ns: value(&task.packet_stall_ns),
                bubble_cycles: value(&Some("bubble_cycles".to_owned())),
                poll_instructions: value(&Some(task.poll_instructions.clone())),
                poll_ns: value(&task.empty_stall_ns),
                turn_instructions: looks
                    .iter()
                    .map(|look| value(&Some(look.poll_instructions.clone())))
                    .sum(),
                turn_ns: looks.iter().map(|look| value(&look.empty_stall_ns)).sum(),
            };
            assert_eq!(stage.work, Some(wanted), "{configuration}, {}", stage.name);
            compared += 1;
        }
    }
    assert_eq!(compared, 6);
}

/// A plan of an example on the T1.
fn planned(configuration: &str, cycles: u64) -> PlanReport {
    planned_as(&example(configuration), cycles)
}

fn planned_as(described: &Described, cycles: u64) -> PlanReport {
    let chip = t1();
    chip::plan(&chip::Question {
        path: &described.path,
        specs: &described.specs,
        costs: described.costs.as_ref().expect("costs"),
        chip: &chip,
        chip_source: "a test",
        cpus: 32,
        line_kpps: Some(345.3),
        cycles,
    })
    .expect("a plan")
}

/// `while(1)` beside the path takes turns from it: parking it is what helps, once, and a place on
/// the same pipe, where the loop makes way, is not offered as a gain of its own.
#[test]
fn a_loop_beside_the_path_is_parked_and_not_called_a_place() {
    let mut described = example("2");
    let costs = described.costs.as_mut().expect("costs");
    let receiver = costs.neighbours.iter_mut().find(|one| one.name == "ATIF_RX");
    receiver.expect("it polls").does = Idling::Spins;
    let spun = planned_as(&described, 800_000);
    let parks: Vec<&Recommendation> =
        spun.recommendations.iter().filter(|one| one.kind == Change::Park).collect();
    assert_eq!(parks.iter().map(|one| &*one.change).collect::<Vec<_>>(), ["park `ATIF_RX`"]);
    assert!(parks[0].gain.as_number().expect("a gain") > 0.05, "{parks:?}");
    // Written on pipes 0 to 3, four strands of a segment each on one of them.
    let pipes = |one: &Recommendation| -> Vec<Vec<u32>> {
        let sorted = |cpus: &[u32]| {
            let mut pipes: Vec<u32> = cpus.iter().map(|cpu| cpu / 4).collect();
            pipes.sort_unstable();
            pipes
        };
        one.cpus.as_deref().unwrap_or_default().chunks(4).map(sorted).collect()
    };
    let places = spun.recommendations.iter().filter(|one| one.kind == Change::Place);
    for place in places {
        assert_ne!(pipes(place), vec![vec![0, 1, 2, 3]; 3], "{place:?}");
    }
}

/// Whether no two strands of a recommendation share a processor.
fn is_apart(one: &Recommendation) -> bool {
    let beside = one.beside.iter().flat_map(|beside| &beside.cpus);
    let mut cpus: Vec<u32> = one.cpus.iter().flatten().chain(beside).copied().collect();
    let strands = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len() == strands && cpus.iter().all(|cpu| *cpu < 32)
}

#[test]
fn strands_that_a_change_adds_or_moves_have_processors() {
    let report = planned("1", 400_000);
    let split = report.recommendations.iter().find(|one| one.kind == Change::Split);
    let split = split.expect("looks of ATIF_RXTX are taken off it");
    assert_eq!(split.beside[0].name, "ATIF_RXTX-second-input");
    assert!(split.beside[0].cpus.len() == 4 && is_apart(split), "{split:?}");
    let report = planned("2", 1_200_000);
    let placed = report.recommendations.iter().find(|one| one.kind == Change::Place);
    let placed = placed.expect("the best of all placements");
    assert!(placed.change.starts_with("place strands by pipe: "), "{placed:?}");
    let moved: Vec<&str> = placed.beside.iter().map(|one| one.name.as_str()).collect();
    assert!(moved.contains(&"ATIF_RX") && is_apart(placed), "{placed:?}");
    assert!(report.search.sentence.contains("by their pipes none has more than"));
}

#[test]
fn what_never_gets_through_is_refused_with_the_stage() {
    let described = example("2");
    let mut costs = described.costs.clone().expect("costs");
    costs.stages[1].work.as_mut().expect("work").poll_instructions = 1e7;
    let chip = t1();
    let error = chip::plan(&chip::Question {
        path: &described.path,
        specs: &described.specs,
        costs: &costs,
        chip: &chip,
        chip_source: "a test",
        cpus: 32,
        line_kpps: Some(345.3),
        cycles: 100_000,
    })
    .expect_err("no packet in 100 000 cycles")
    .to_string();
    assert!(error.contains("`RLP` takes") && error.contains("28.8 packets of a flow"), "{error}");
}

fn written(described: &Described, costs: &GivenCosts, cycles: u64) -> PlanReport {
    let path = &described.path;
    // Nothing but the mapping as written is asked for: no stage may be changed.
    let specs: Vec<StageSpec> = described.specs.clone();
    let chip = t1();
    let line_kpps = path.line.map(|line| line.packets_per_second(338.0) / 4e3);
    chip::written(&chip::Question {
        path,
        specs: &specs,
        costs,
        chip: &chip,
        chip_source: "a test",
        cpus: 32,
        line_kpps,
        cycles,
    })
    .expect("a plan")
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
    let processors = Processors { count: 4, are_shared: false };
    let inputs = Inputs::from_file(costs, &described.path, processors).expect("times");
    let rate = predict(&described.path.mapping, BURST, &inputs.costs, &inputs.env).kpps;
    // 100 + 0.5 * 60 + 5 ns.
    assert!((rate.value - 1e6 / 135.0).abs() < 1e-6, "{rate:?}");
    assert!((inputs.costs.stages[0].ticks.low - 90.0).abs() < 1e-9);
    assert_eq!(inputs.env.handover.producer_ticks.value, 7.0);
    let origin = |name: &str| inputs.list.iter().find(|i| i.name == name).map(|i| i.origin);
    assert_eq!(origin("b: ns"), Some(Origin::Assumed));
    assert_eq!(origin("a: ns"), Some(Origin::Given));
    let report = advice::plan(&Question {
        path: &described.path,
        specs: &described.specs,
        inputs: &inputs,
        kernels: None,
        line_kpps: None,
        file: "t.toml",
        can_run: false,
        machine: ["a machine", "a test"],
    });
    assert_eq!(report.bottleneck.stage.as_deref(), Some("a"));
    let best = &report.recommendations[0];
    // `a` says nothing of its state, so it stays alone: 100 + 7 ns of the ring to one half.
    assert_eq!((best.kind, best.mapping.as_str()), (Change::Split, "a | b"));
    assert!(best.proof.command.is_none(), "nothing here runs a");
}

#[test]
fn costs_that_do_not_do_are_refused_by_name() {
    let mut dice = Dice(36);
    let case = Case::new(&mut dice, 3, &[], 4);
    let report = run(&case.world, &Mapping::merged(3), 0.0, 1);
    let mut path = case.world.path();
    let from = |path: &Path, count| {
        let processors = Processors { count, are_shared: false };
        Inputs::from_run(&report, path, BURST, processors, "a test").map(|_| ())
    };
    assert_eq!(from(&path, 4), Ok(()));
    path.mapping = mapping(&[(1, 3), (2, 2)]);
    assert_eq!(
        from(&path, 4),
        Err(InputsError::TooFewStrands { wanted: 5, beside: 0, available: 4 })
    );
    let mut fewer = case.world.path();
    fewer.stages.pop();
    fewer.mapping = Mapping::merged(2);
    assert_eq!(from(&fewer, 4), Err(InputsError::OtherPath { stage: "stage2".to_owned() }));
    let mut other = case.world.path();
    other.stages[1].name = "other".to_owned();
    let error = from(&other, 4).expect_err("it is of another path").to_string();
    assert!(error.contains("it is of another path"), "{error}");
    let costs = given(&mut dice, &case.world.path());
    let processors = Processors { count: 4, are_shared: false };
    let error = Inputs::from_file(&costs, &case.world.path(), processors);
    assert_eq!(error, Err(InputsError::NoTime { stage: "stage0".to_owned() }));
}
