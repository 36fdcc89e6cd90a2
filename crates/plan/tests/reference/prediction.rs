// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares predictions, and the coverage of their intervals, with the simulator.

use crate::sim::{
    Dice, TICKS_PER_SECOND, World, around, mapping, processed_kpps, random_mapping, run,
};
use linerate_path::model::Mapping;
use linerate_plan::costs::{Costs, CostsError, MemoryCheck, MemoryStage};
use linerate_plan::model::{DRIFT_ALONE, Environment, Handover, predict};
use linerate_record::figure::{Figure, Tier};

const BURST: u32 = 32;

/// Returns the environment that describes a simulated world. Each figure has a relative error of
/// `noise` and a matching interval.
pub(crate) fn environment(world: &World, cpus: usize, noise: f64, dice: &mut Dice) -> Environment {
    let mut near = |value: f64| around(value * (1.0 + noise * dice.normal()), noise, 30);
    Environment {
        ticks_per_s: TICKS_PER_SECOND,
        cpus,
        scaling: near(1.0 / world.slowdown),
        handover: Handover {
            producer_ticks: near(world.producer * world.slowdown),
            consumer_ticks: near(world.consumer * world.slowdown),
            burst: BURST,
        },
        burst_ticks: near(0.0),
        drift: DRIFT_ALONE,
        largest_share: world.largest_share(cpus),
    }
}

/// Costs measured with one random mapping predict the throughput of another one.
#[test]
fn compute_bound_mappings_are_predicted_within_two_percent() {
    let mut dice = Dice::new(11);
    for case in 0..200 {
        let stages = 1 + dice.below(6);
        let mut world = World::random(&mut dice, stages);
        let two_cpus = case % 2 == 0;
        world.slowdown = if two_cpus { dice.between(1.0, 1.4) } else { 1.0 };
        let cpus = if two_cpus { 2 } else { 4 };
        let measured = random_mapping(&mut dice, stages, cpus);
        let target = random_mapping(&mut dice, stages, cpus);
        let report = run(&world, &measured, 0.0, case);
        let costs = Costs::from_run(&report, &world.path(), BURST).expect("costs");
        let env = environment(&world, cpus, 0.0, &mut dice);
        let predicted = predict(&target, BURST, &costs, &env).kpps.value;
        let simulated = processed_kpps(&run(&world, &target, 0.0, case));
        let error = predicted / simulated - 1.0;
        assert!(error.abs() < 0.02, "case {case}: {error:+.4}, {measured:?} -> {target:?}");
    }
}

/// Predicts paths in which stages process only some packets: the cost of a ring depends on the
/// packets that cross it, the cost of a stage on the packets that it processes.
#[test]
fn mappings_of_branches_are_predicted_within_two_percent() {
    let mut dice = Dice::new(21);
    let mut branches = 0;
    for case in 0..200 {
        let stages = 2 + dice.below(5);
        let mut world = World::random(&mut dice, stages).branched(&mut dice);
        // Make rings as expensive as stages, so that a wrong number of packets crossing them is
        // noticed.
        (world.producer, world.consumer) = (dice.between(50.0, 200.0), dice.between(50.0, 200.0));
        let measured = random_mapping(&mut dice, stages, 4);
        let target = random_mapping(&mut dice, stages, 4);
        let report = run(&world, &measured, 0.0, case);
        branches +=
            report.workers.iter().flat_map(|w| &w.stages).filter(|s| s.bypassed > 0).count();
        let costs = Costs::from_run(&report, &world.path(), BURST).expect("costs");
        let env = environment(&world, 4, 0.0, &mut dice);
        let predicted = predict(&target, BURST, &costs, &env).kpps.value;
        let simulated = processed_kpps(&run(&world, &target, 0.0, case));
        let error = predicted / simulated - 1.0;
        assert!(error.abs() < 0.02, "case {case}: {error:+.4}, {measured:?} -> {target:?}");
    }
    assert!(branches > 200, "only {branches} stages were bypassed by packets");
}

/// A branch at the start of a segment: three quarters of the packets bypass it, but all packets
/// cross the ring before it.
#[test]
fn the_ring_before_a_branch_by_hand() {
    let mut world = World::random(&mut Dice::new(15), 2);
    world.stages = vec![10.0, 400.0];
    (world.source, world.sink, world.jitter) = (10.0, 20.0, 0.0);
    (world.producer, world.consumer) = (30.0, 50.0);
    world.capture = (0..4).map(|flow| (flow, None)).collect();
    (world.chosen, world.branch) = (vec![true, false, false, false], vec![None, Some(true)]);
    let costs = Costs::from_run(&run(&world, &Mapping::merged(2), 0.0, 1), &world.path(), BURST);
    let costs = costs.expect("costs");
    assert!((costs.stages[1].ticks.value - 100.0).abs() < 1e-9, "{costs:?}");
    assert_eq!((costs.stages[1].reach, costs.sink.reach), (1.0, 1.0));
    let env = environment(&world, 2, 0.0, &mut Dice::new(1));
    let kpps = predict(&mapping(&[(1, 1), (1, 1)]), BURST, &costs, &env).kpps.value;
    assert!((kpps / (TICKS_PER_SECOND / (50.0 + 100.0 + 20.0) / 1e3) - 1.0).abs() < 1e-9);
}

/// A ring cost based on too few windows has no interval, so neither do predictions that include the
/// ring.
#[test]
fn a_cost_without_interval_gives_a_prediction_without_bound() {
    let mut dice = Dice::new(5);
    let world = World::random(&mut dice, 2);
    let report = run(&world, &mapping(&[(2, 1)]), 0.0, 1);
    let costs = Costs::from_run(&report, &world.path(), BURST).expect("costs");
    let mut env = environment(&world, 2, 0.0, &mut dice);
    let ring = Figure::exact("ticks/packet", 20.0, Tier::Sw, "too few windows");
    env.handover.producer_ticks = ring.estimate().expect("a number");
    let predicted = |parts: &[(usize, u32)]| {
        let kpps = predict(&mapping(parts), BURST, &costs, &env).kpps;
        let figure = Figure::number("kpps", kpps, Tier::Model, "model");
        (figure.low, figure.high)
    };
    assert_eq!(predicted(&[(1, 1), (1, 1)]), (None, None));
    let (low, high) = predicted(&[(2, 1)]);
    assert!(low.is_some() && high.is_some(), "without a ring its cost does not matter");
}

/// Returns the true packet rate of a mapping, in packets per second, from the parameters of the
/// simulated world.
fn true_rate(world: &World, mapping: &Mapping) -> f64 {
    let workers = world.true_ticks(mapping).into_iter().flatten();
    let largest = workers.map(|parts| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let slowdown = if mapping.workers() > 1 { world.slowdown } else { 1.0 };
    TICKS_PER_SECOND * world.capture.len() as f64 / (largest * slowdown)
}

#[test]
fn intervals_hold_the_truth_under_noisy_inputs() {
    let mut dice = Dice::new(12);
    let (mut held, mut width, trials) = (0, 0.0, 200);
    for case in 0..trials {
        let stages = 1 + dice.below(6);
        let mut world = World::random(&mut dice, stages);
        world.slowdown = dice.between(1.0, 1.3);
        let report = run(&world, &Mapping::merged(stages), 0.05, case);
        let costs = Costs::from_run(&report, &world.path(), BURST).expect("costs");
        let env = environment(&world, 2, 0.05, &mut dice);
        let target = random_mapping(&mut dice, stages, 2);
        // The simulated machine deviates from the formula by the assumed model error.
        let departure = if target.segments.len() > 1 { 0.06 } else { 0.03 };
        let truth = true_rate(&world, &target) / 1e3 * (departure * dice.normal()).exp();
        let kpps = predict(&target, BURST, &costs, &env).kpps;
        held += u32::from((kpps.low..=kpps.high).contains(&truth));
        width += (kpps.high - kpps.low) / kpps.value / trials as f64;
    }
    assert!(held * 100 >= 90 * trials as u32, "{held} of {trials} intervals contain the truth");
    assert!(width < 0.42, "a mean width of {width:.2} says nothing");
}

#[test]
fn a_memory_bound_stage_makes_the_prediction_a_range() {
    let mut world = World::random(&mut Dice::new(13), 3);
    world.stages = vec![100.0, 400.0, 100.0];
    world.capture = (0..64).map(|flow| (flow, None)).collect();
    let mut hot = world.clone();
    hot.stages = vec![80.0, 150.0, 95.0];
    let merged = Mapping::merged(3);
    let (normal_run, hot_run) = (run(&world, &merged, 0.0, 1), run(&hot, &merged, 0.0, 1));
    let check = MemoryCheck::compare(&normal_run, &hot_run);
    let bound: Vec<&str> =
        check.stages.iter().filter(|s| s.is_memory_bound()).map(|s| s.name.as_str()).collect();
    assert_eq!(bound, ["stage1"]);
    assert_eq!(check.stages.len(), 5, "every stage and both ends are compared");
    // The same costs, as a timestamp counter of 25 MHz counts them, if a tick of the simulation is
    // a cycle at 2.5 GHz.
    let mut slow_counter = normal_run.clone();
    slow_counter.ticks_per_s = 25e6;
    let check_slowly = |stage: &MemoryStage| {
        let [normal, hot] = [&stage.normal, &stage.hot].map(|ticks| ticks.scale(0.01));
        let all = MemoryCheck::compare(&slow_counter, &hot_run).stages;
        let least_ticks = all.iter().find(|one| one.name == stage.name)?.least_ticks;
        Some(MemoryStage { normal, hot, least_ticks, ..stage.clone() }.is_memory_bound())
    };
    let stage = |name: &str| check.stages.iter().find(|stage| stage.name == name);
    assert_eq!(stage("stage1").and_then(check_slowly), Some(true));
    assert_eq!(stage("stage0").and_then(check_slowly), Some(false));

    let mut costs = Costs::from_run(&normal_run, &world.path(), BURST).expect("costs");
    let env = environment(&world, 2, 0.0, &mut Dice::new(1));
    let twice = mapping(&[(3, 2)]);
    let before = predict(&twice, BURST, &costs, &env);
    costs.apply(&check);
    let after = predict(&twice, BURST, &costs, &env);
    assert!(!before.memory_bound && after.memory_bound);
    assert_eq!(after.kpps.value, before.kpps.value);
    assert!(after.kpps.high > true_rate(&hot, &twice) / 1e3 * 0.93);
    assert!(after.kpps.low < before.kpps.low * 0.95);

    // A memory-bound stage that is far from being the bottleneck changes nothing.
    let mut light = costs.clone();
    light.stages[1].ticks = around(60.0, 0.0, 30);
    light.stages[1].hot_ticks = Some(around(20.0, 0.0, 30));
    light.stages[0].ticks = around(900.0, 0.0, 30);
    assert!(!predict(&mapping(&[(1, 1), (2, 1)]), BURST, &light, &env).memory_bound);
}

/// Compares predictions with rates calculated by hand: 10 + 90 + 20 ticks on one worker in bursts
/// of 32, with 64 ticks per burst.
#[test]
fn the_formula_by_hand() {
    let mut world = World::random(&mut Dice::new(14), 1);
    world.stages = vec![90.0];
    (world.source, world.sink, world.jitter) = (10.0, 20.0, 0.0);
    world.capture = (0..4).map(|flow| (flow, None)).collect();
    let report = run(&world, &Mapping::merged(1), 0.0, 1);
    let costs = Costs::from_run(&report, &world.path(), 32).expect("costs");
    let mut env = environment(&world, 3, 0.0, &mut Dice::new(1));
    env.burst_ticks = around(64.0, 0.0, 30);
    env.scaling = around(0.5, 0.0, 30);
    let kpps = |mapping: &Mapping, burst: u32| predict(mapping, burst, &costs, &env).kpps.value;
    let close = |a: f64, ticks: f64| (a / (TICKS_PER_SECOND / ticks / 1e3) - 1.0).abs() < 1e-9;
    assert!(close(kpps(&Mapping::merged(1), 32), 120.0));
    assert!(close(kpps(&Mapping::merged(1), 64), 119.0));
    assert!(close(kpps(&Mapping::merged(1), 8), 126.0));
    // With two of three processors busy, the slowdown is halfway to a factor of 2. With four flows
    // on three replicas, the busiest replica gets half of the packets.
    assert!(close(kpps(&mapping(&[(1, 2)]), 32), 60.0 * 1.5));
    assert!(close(kpps(&mapping(&[(1, 3)]), 32), 60.0 * 2.0));
}

#[test]
fn what_is_missing_is_named() {
    let world = World::random(&mut Dice::new(15), 2);
    let report = run(&world, &Mapping::merged(2), 0.0, 1);
    let mut other = world.path();
    other.stages[1].name = "nat".to_owned();
    let missing = Costs::from_run(&report, &other, BURST);
    assert_eq!(missing, Err(CostsError::NotInRun { stage: "nat".to_owned() }));

    let mut blank = report.clone();
    blank.workers[0].stages[2].ticks_per_packet =
        Figure::absent("ticks/packet", Tier::Sw, "windows", "all windows were lost");
    let unreadable = Costs::from_run(&blank, &world.path(), BURST).expect_err("no time");
    assert!(unreadable.to_string().contains("`stage1` is missing (all windows were lost)"));

    let mut silent = report;
    silent.workers[0].stages[0].packets = 0;
    assert_eq!(Costs::from_run(&silent, &world.path(), BURST), Err(CostsError::NoPackets));
}
