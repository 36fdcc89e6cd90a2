// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests plans by simulation: stages that must not be replicated are not, and path files for the
//! Netra document's configurations give the same results as the built-in application.

use crate::one_state::{keeps_to, replicated};
use crate::sim::{Dice, World, kinds, random_mapping};
use linerate_cmt::planner::{self, Simulation, SimulationError};
use linerate_cmt::processor::Processor;
use linerate_cmt::{Application, Chip, Run, simulate};
use linerate_path::check::{Described, read_to_plan};
use linerate_path::costs::{GivenCost, GivenCosts, GivenWork, Idling, Neighbour};
use linerate_path::model::{FullRing, Path};
use linerate_path::spec::{Default, Kinds, ParamKind, ParamSpec, SourceSpec, StageSpec, State};
use linerate_plan::search::Subject;
use linerate_record::plan::{Change, PlanReport, Recommendation};

/// Returns a random path of up to four stages on at most `cpus` strands; one stage in four has
/// global state.
fn random_path(dice: &mut Dice, cpus: usize) -> (Path, Vec<StageSpec>) {
    let stages = 1 + dice.below(4);
    let global: Vec<usize> = (0..stages).filter(|_| dice.below(4) == 0).collect();
    let mut mapping = random_mapping(dice, stages, cpus);
    for segment in &mut mapping.segments {
        if global.iter().any(|stage| segment.stages.contains(stage)) {
            segment.replicas = 1;
        }
    }
    let path = Path { mapping, ..World::random(dice, stages).path() };
    (path, kinds(stages, &global))
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
        processed: 1.0,
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
    Chip::new(&Processor::named("t1").expect("the T1 is built in")).expect("a chip")
}

/// Returns a plan for the T1.
fn plan(
    path: &Path,
    specs: &[StageSpec],
    costs: &GivenCosts,
    line_kpps: Option<f64>,
    cycles: u64,
) -> Result<PlanReport, SimulationError> {
    let chip = t1();
    let subject = Subject { path, specs, line_kpps, machine: "T1", machine_source: "a test" };
    let simulation = Simulation { costs, chip: &chip, cpus: chip.strands(), cycles };
    planner::plan(&subject, &simulation)
}

#[test]
fn what_keeps_one_state_is_never_replicated_by_simulation() {
    let mut dice = Dice::new(35);
    let (mut held, mut advised) = (0, 0);
    for number in 0..20 {
        let (mut path, kinds) = random_path(&mut dice, 1 + number % 4);
        path.run.full_ring = if number % 2 == 0 { FullRing::Drop } else { FullRing::Wait };
        let costs = given(&mut dice, &path);
        let report = plan(&path, &kinds, &costs, Some(400.0), 20_000).expect("a plan");
        held += kinds.iter().filter(|kind| kind.state == State::Global).count();
        advised += report.recommendations.len();
        assert!(keeps_to(&report, &kinds, &path), "case {number}: {report:?}");
        for one in &report.recommendations {
            let mut cpus = one.cpus.clone().expect("placed");
            cpus.sort_unstable();
            cpus.dedup();
            let strands: u32 = replicated(&one.mapping).iter().map(|(_, times)| times).sum();
            assert_eq!(cpus.len() as u32, strands, "one CPU per strand: {one:?}");
        }
        let gap = report.search.gap.expect("a bound");
        assert!(gap >= 0.0, "case {number}: the mapping exceeds the bound");
    }
    assert!(held > 5 && advised > 10, "too few cases are planned: {held}, {advised}");
}

/// The source kind used in the examples, reduced to the properties needed for a plan; the actual
/// kind is registered by another crate.
const SOURCES: [SourceSpec; 1] = [SourceSpec {
    kind: "a10",
    help: "",
    params: &[ParamSpec {
        name: "bytes",
        kind: ParamKind::Integer { min: 60, max: 9000 },
        default: Default::Absent(""),
        help: "",
    }],
    check: |_, _| Vec::new(),
    frame_bytes: |_| None,
}];

fn example(configuration: &str) -> Described {
    let text = match configuration {
        "1" => include_str!("../../../../examples/rlp-t1-config1.toml"),
        _ => include_str!("../../../../examples/rlp-t1-config2.toml"),
    };
    let kinds = Kinds { stages: &[], sources: &SOURCES, plugins: &[] };
    read_to_plan(text, "rlp", kinds).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The examples give stages the same costs as the built-in application, so both must have the same
/// rate and CPI.
#[test]
fn the_examples_are_the_application_of_the_document() {
    const CYCLES: u64 = 600_000;
    let application = Application::named("rlp").expect("the application is built in");
    for (configuration, roles) in
        [("1", ["PDSN_RXTX", "RLP", "ATIF_RXTX"]), ("2", ["PDSN_RX", "RLP", "ATIF_TX"])]
    {
        let described = example(configuration);
        let costs = described.costs.as_ref().expect("costs");
        let pipes = &application.configuration(configuration).expect("a known name").pipes;
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
            let cpi = report.workers[4 * index].cpi.as_number().expect("instructions");
            assert!((cpi / wanted - 1.0).abs() < 0.04, "{role}: CPI {cpi} for {wanted}");
        }
    }
}

/// Values in both files are identical to the last digit.
#[test]
fn the_examples_have_the_figures_of_the_application() {
    let application = Application::named("rlp").expect("the application is built in");
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

/// Returns a plan of an example for the T1.
fn planned(configuration: &str, cycles: u64) -> PlanReport {
    planned_as(&example(configuration), cycles)
}

fn planned_as(described: &Described, cycles: u64) -> PlanReport {
    planned_at(described, 345.3, cycles)
}

fn planned_at(described: &Described, line_kpps: f64, cycles: u64) -> PlanReport {
    let costs = described.costs.as_ref().expect("costs");
    plan(&described.path, &described.specs, costs, Some(line_kpps), cycles).expect("a plan")
}

fn utilisations(report: &PlanReport, runs: &str) -> Vec<f64> {
    let workers = report.workers.iter().filter(|one| one.runs == runs);
    workers.filter_map(|one| one.utilisation.as_number()).collect()
}

/// The strands of ATIF_RXTX poll a second input, which takes more time than their packets; without
/// a packet, that time is idle. From the slowest line, only one packet per flow arrives.
#[test]
fn strands_are_as_busy_as_their_packets_make_them() {
    let described = example("1");
    let costs = described.costs.as_ref().expect("costs");
    let at = |line_kpps: f64| {
        let report = written_at(&described, costs, Some(line_kpps), 2_000_000);
        let kpps = report.predicted_kpps.as_number().expect("a rate");
        (kpps, utilisations(&report, "ATIF_RXTX"), report.bottleneck)
    };
    let (most, busy, bottleneck) = at(345.3);
    assert!(busy.iter().all(|share| *share > 0.99), "{busy:?}");
    assert_eq!(bottleneck.stage.as_deref(), Some("ATIF_RXTX"));
    for line in [200.0, 100.0, 34.5, 8.63, 0.863] {
        let (kpps, busy, bottleneck) = at(line);
        assert_eq!(kpps, line);
        assert!(bottleneck.worker.is_none(), "{bottleneck:?}");
        let expected = line / most;
        let is_right = |share: &f64| (0.8..1.1).contains(&(share / expected));
        assert!(busy.iter().all(is_right), "{line}: {busy:?} for {expected}");
    }
}

/// A reader that pauses for longer than its ring takes to fill loses packets without being busy.
#[test]
fn no_worker_is_the_bottleneck_if_none_is_saturated() {
    let mut described = example("1");
    described.path.run.ring = 1;
    let costs = described.costs.as_mut().expect("costs");
    costs.stages[1].work.as_mut().expect("work").poll_ns = 20_000.0;
    let costs = described.costs.as_ref().expect("costs");
    let report = written_at(&described, costs, Some(100.0), 800_000);
    let kpps = report.predicted_kpps.as_number().expect("a rate");
    assert!(kpps < 60.0, "{kpps}");
    let sentence = &report.bottleneck.sentence;
    assert!(sentence.starts_with("no worker is saturated; "), "{sentence}");
    assert!(utilisations(&report, "RLP").iter().all(|share| *share < 0.2), "{report:?}");
    let report = planned_at(&described, 100.0, 400_000);
    let saturated = |one: &&Recommendation| one.why.contains("after the change, no worker is");
    for one in report.recommendations.iter().filter(saturated) {
        assert!(!one.proof.sentence.contains("idle polls"), "{one:?}");
    }
    let says = "as written, no worker is saturated; after";
    assert!(report.recommendations.iter().all(|one| one.why.starts_with(says)), "{report:?}");
}

/// A `while(1)` outside the path takes issue slots from it. Parking it helps and is recommended
/// once; a placement on the same pipes that only makes the loop give way is not offered as a
/// separate gain.
#[test]
fn an_endless_loop_is_parked_rather_than_avoided_by_placement() {
    let mut described = example("2");
    let costs = described.costs.as_mut().expect("costs");
    let receiver = costs.neighbours.iter_mut().find(|one| one.name == "ATIF_RX");
    receiver.expect("it polls").does = Idling::Spins;
    let spun = planned_as(&described, 800_000);
    let parks: Vec<&Recommendation> =
        spun.recommendations.iter().filter(|one| one.kind == Change::Park).collect();
    assert_eq!(parks.iter().map(|one| &*one.change).collect::<Vec<_>>(), ["park `ATIF_RX`"]);
    assert!(parks[0].gain.as_number().expect("a gain") > 0.05, "{parks:?}");
    // The mapping as written uses pipes 0 to 3, each with one segment's four strands.
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

/// Returns whether no two of a recommendation's strands share a CPU.
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
    let split = split.expect("a change takes polls off ATIF_RXTX");
    assert_eq!(split.beside[0].name, "ATIF_RXTX-second-input");
    assert!(split.beside[0].cpus.len() == 4 && is_apart(split), "{split:?}");
    let report = planned("2", 1_200_000);
    let placed = report.recommendations.iter().find(|one| one.kind == Change::Place);
    let placed = placed.expect("the best placement is recommended");
    assert!(placed.change.starts_with("assign strands to pipes: "), "{placed:?}");
    let moved: Vec<&str> = placed.beside.iter().map(|one| one.name.as_str()).collect();
    assert!(moved.contains(&"ATIF_RX") && is_apart(placed), "{placed:?}");
    assert!(report.search.sentence.contains("none exceeds"));
}

#[test]
fn rejects_a_path_without_throughput_naming_the_stage() {
    let described = example("2");
    let mut costs = described.costs.clone().expect("costs");
    costs.stages[1].work.as_mut().expect("work").poll_instructions = 1e7;
    let error = plan(&described.path, &described.specs, &costs, Some(345.3), 100_000)
        .expect_err("no packet in 100 000 cycles")
        .to_string();
    assert!(error.contains("`RLP` takes") && error.contains("28.8 packets per flow"), "{error}");
}

fn written(described: &Described, costs: &GivenCosts, cycles: u64) -> PlanReport {
    let line_kpps = described.path.line.map(|line| line.packets_per_second(338.0) / 4e3);
    written_at(described, costs, line_kpps, cycles)
}

fn written_at(
    described: &Described,
    costs: &GivenCosts,
    line_kpps: Option<f64>,
    cycles: u64,
) -> PlanReport {
    let Described { path, specs, .. } = described;
    let chip = t1();
    let subject = Subject { path, specs, line_kpps, machine: "T1", machine_source: "a test" };
    let simulation = Simulation { costs, chip: &chip, cpus: 32, cycles };
    planner::written(&subject, &simulation).expect("a plan")
}
