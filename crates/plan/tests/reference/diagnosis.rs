// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the diagnosis names the true bottleneck, or none if it cannot tell.

use crate::sim::{Dice, World, mapping, name, random_mapping, run};
use linerate_path::model::Mapping;
use linerate_plan::diagnose::diagnose;
use linerate_record::interfaces::{InterfaceChanges, InterfaceReport, SentReport};
use linerate_record::run::{Ledger, RunReport, Tally, TimeShares};
use linerate_record::tune::Limit;
use linerate_record::{Figure, Tier};

/// The true loads of a mapping in ticks, for each segment's busiest worker and for that worker's
/// parts (its ends and stages).
struct Truth {
    loads: Vec<f64>,
    parts: Vec<Vec<f64>>,
}

impl Truth {
    fn simulate(world: &World, mapping: &Mapping) -> Self {
        let sum = |parts: &Vec<f64>| parts.iter().sum::<f64>();
        let leader = |workers: Vec<Vec<f64>>| {
            workers.into_iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).expect("a worker")
        };
        let parts: Vec<Vec<f64>> = world.true_ticks(mapping).into_iter().map(leader).collect();
        Self { loads: parts.iter().map(sum).collect(), parts }
    }

    fn bottleneck(&self) -> usize {
        largest(&self.loads)
    }
}

fn largest(values: &[f64]) -> usize {
    let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
    (0..values.len()).max_by(by_value).expect("not empty")
}

/// Returns the ratio of the largest value to the second largest.
fn margin(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.get(1).map_or(f64::INFINITY, |second| sorted[0] / second)
}

fn part_name(mapping: &Mapping, segment: usize, part: usize) -> String {
    let stages = &mapping.segments[segment].stages;
    let last_segment = segment + 1 == mapping.segments.len();
    match part {
        0 if segment == 0 => "source".to_owned(),
        0 => "ring in".to_owned(),
        _ if part <= stages.len() => name(stages.start + part - 1),
        _ if last_segment => "sink".to_owned(),
        _ => "ring out".to_owned(),
    }
}

fn segment_of(run: &RunReport, worker: Option<&str>) -> Option<usize> {
    run.workers.iter().find(|s| Some(s.name.as_str()) == worker).map(|s| s.segment as usize)
}

#[test]
fn names_the_true_bottleneck_or_refuses() {
    let mut dice = Dice::new(1);
    let (mut clear, mut right) = (0, 0);
    for case in 0..220 {
        let stages = 1 + dice.below(6);
        let world = World::random(&mut dice, stages);
        let mapping = random_mapping(&mut dice, stages, 4);
        let truth = Truth::simulate(&world, &mapping);
        let report = run(&world, &mapping, 0.01, case);
        let finding = diagnose(&report);
        let at = truth.bottleneck();
        // Only stages of the path count, not the ends of a worker.
        let own = &truth.parts[at][1..truth.parts[at].len() - 1];
        let stage = part_name(&mapping, at, 1 + largest(own));
        let context = format!("case {case}: {mapping:?} {:?}: {}", truth.loads, finding.sentence);
        assert_ne!(finding.limit, Limit::Offered, "{context}");
        if margin(&truth.loads) > 1.10 && margin(own) > 1.10 {
            clear += 1;
            let found = segment_of(&report, finding.worker.as_deref()) == Some(at);
            right += u32::from(found && finding.bottleneck == Some(stage));
            assert!(found || finding.limit == Limit::CannotTell, "{context}");
        } else if let Some(found) = segment_of(&report, finding.worker.as_deref()) {
            assert!(truth.loads[found] >= 0.97 * truth.loads[at], "{context}");
        } else {
            assert_eq!(finding.limit, Limit::CannotTell, "{context}");
            assert!(finding.sentence.starts_with("cannot tell"), "{context}");
        }
    }
    assert!(clear >= 120, "only {clear} clear cases");
    assert!(right * 100 >= clear * 95, "{right} of {clear} clear cases right");
}

#[test]
fn distinguishes_a_slow_source_from_a_slow_path() {
    let mut dice = Dice::new(2);
    for case in 0..60 {
        let stages = 1 + dice.below(5);
        let mut world = World::random(&mut dice, stages);
        let mapping = random_mapping(&mut dice, stages, 4);
        let truth = Truth::simulate(&world, &mapping);
        let slowest = truth.loads[truth.bottleneck()] / world.capture.len() as f64;
        world.period = slowest / dice.between(0.3, 0.85);
        let finding = diagnose(&run(&world, &mapping, 0.01, case));
        assert_eq!(finding.limit, Limit::Offered, "case {case}: {}", finding.sentence);
        assert_eq!((finding.bottleneck, finding.worker), (None, None));
    }
}

#[test]
fn small_bursts_of_a_slow_source_explain_a_high_load() {
    let mut world = World::random(&mut Dice::new(9), 2);
    world.period = 2.0 * Truth::simulate(&world, &Mapping::merged(2)).loads[0];
    let mut report = run(&world, &Mapping::merged(2), 0.0, 0);
    let said = |report: &RunReport| {
        let finding = diagnose(report);
        assert_eq!(finding.limit, Limit::Offered, "{}", finding.sentence);
        finding.sentence.contains("most of its bursts have 1 to 3 packets, at ")
    };
    report.workers[0].burst_sizes = vec![30, 20, 10, 0, 0, 30];
    assert!(said(&report));
    report.workers[0].burst_sizes = vec![10, 20, 0, 0, 0, 60];
    assert!(!said(&report));
}

#[test]
fn a_path_that_drops_every_packet_has_no_bottleneck() {
    let world = World::random(&mut Dice::new(10), 2);
    let mut report = run(&world, &Mapping::merged(2), 0.0, 0);
    assert_eq!(diagnose(&report).limit, Limit::Processing);
    for stage in report.workers.iter_mut().flat_map(|worker| &mut worker.stages) {
        let packets = Tally { packets: 50, bytes: 5000 };
        stage.ledger = Ledger { input: packets, output: packets, ..Ledger::default() };
        if stage.name == "stage1" {
            stage.ledger.output = Tally::default();
            stage.ledger.drops = [("martian".to_owned(), packets)].into();
        }
    }
    let expected = "no packet reached the sink: `stage1` dropped all 50 packets it received";
    assert_refused(&report, expected);
    assert_eq!(diagnose(&report).bottleneck, None);
}

#[test]
fn a_source_without_a_rate_of_its_own_is_never_named() {
    let world = World::random(&mut Dice::new(8), 2);
    let unpaced = Figure::absent("kpps", Tier::Sim, "simulated", "no fixed rate");
    let mut replicated = run(&world, &mapping(&[(2, 2)]), 0.0, 0);
    let silent = diagnose(&replicated);
    replicated.offered_kpps = Some(unpaced.clone());
    assert_eq!(diagnose(&replicated), silent, "nothing else changes");

    // Each replica waits for the other while the other is preempted.
    let mut report = replicated;
    for (worker, lost) in report.workers.iter_mut().zip([0.4, 0.3]) {
        let time = TimeShares { busy: 0.6 - lost, starved: 0.4, lost, ..TimeShares::default() };
        worker.time = Some(time);
    }
    for paced in [None, Some(Figure::exact("kpps", 1e3, Tier::Sim, "simulated"))] {
        report.offered_kpps = paced;
        assert_eq!(diagnose(&report).limit, Limit::Offered);
    }
    report.offered_kpps = Some(unpaced);
    let finding = diagnose(&report);
    assert_eq!(finding.limit, Limit::CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("worker 0.0 was preempted 40.0 %"), "{finding:?}");
}

#[test]
fn a_ring_that_drops_points_behind_it() {
    let mut dice = Dice::new(3);
    let mut clear = 0;
    for case in 0..60 {
        let mut world = World::random(&mut dice, 4);
        world.drop_when_full = true;
        let mapping = mapping(&[(2, 1), (2, 1)]);
        let truth = Truth::simulate(&world, &mapping);
        if margin(&truth.loads) < 1.10 {
            continue;
        }
        clear += 1;
        let report = run(&world, &mapping, 0.01, case);
        let finding = diagnose(&report);
        let found = segment_of(&report, finding.worker.as_deref());
        assert_eq!(found, Some(truth.bottleneck()), "case {case}: {}", finding.sentence);
    }
    assert!(clear >= 30, "only {clear} clear cases");
}

#[test]
fn the_sentence_carries_the_figures() {
    let mut world = World::random(&mut Dice::new(4), 3);
    world.stages = vec![100.0, 250.0, 50.0];
    (world.source, world.producer, world.consumer, world.sink) = (20.0, 10.0, 10.0, 20.0);
    (world.jitter, world.capture) = (0.0, (0..16).map(|flow| (flow, None)).collect());
    let finding = diagnose(&run(&world, &mapping(&[(1, 1), (1, 1), (1, 1)]), 0.0, 0));
    assert_eq!(finding.limit, Limit::Processing);
    assert_eq!(
        finding.sentence,
        "`stage1` is the bottleneck: worker 1.0 is busy for 100.0 % of its running time, and \
         `stage1` takes 93 % of its 270 ticks per packet (tier sw); upstream worker 0.0 is blocked \
         51.9 % of the time; downstream worker 2.0 is starved 70.4 % of the time"
    );
}

#[test]
fn uneven_replicas_are_mentioned() {
    let mut world = World::random(&mut Dice::new(5), 2);
    world.capture = (0..100).map(|i| (usize::from(i % 4 == 0), None)).collect();
    let finding = diagnose(&run(&world, &mapping(&[(2, 2)]), 0.0, 0));
    assert_eq!(finding.worker.as_deref(), Some("0.0"));
    let expected = "; the load is uneven: replica 0.1 is only 33.";
    assert!(finding.sentence.contains(expected), "{}", finding.sentence);
    world.capture = (0..100).map(|i| (i, None)).collect();
    let even = diagnose(&run(&world, &mapping(&[(2, 2)]), 0.0, 0));
    assert!(!even.sentence.contains("uneven"), "{}", even.sentence);
}

#[test]
fn too_little_evidence_is_refused_with_the_reason() {
    let mut world = World::random(&mut Dice::new(6), 2);
    world.stages = vec![300.0, 100.0];
    let two = mapping(&[(1, 1), (1, 1)]);
    let good = run(&world, &two, 0.0, 0);
    assert_eq!(diagnose(&good).limit, Limit::Processing);

    let mut few = good.clone();
    few.workers[1].windows.preempted = 96;
    assert_refused(&few, "worker 1.0 ran without preemption in only 4 of 100 windows");
    let mut lost = good.clone();
    lost.workers[1].windows.preempted = 51;
    assert_refused(&lost, "worker 1.0 was preempted in 51 of 100 windows");

    // The downstream worker is preempted so often that it never waits.
    let mut taken = good.clone();
    taken.workers[0].time = Some(TimeShares { busy: 0.5, blocked: 0.5, ..TimeShares::default() });
    taken.workers[1].time = Some(TimeShares { busy: 0.4, lost: 0.6, ..TimeShares::default() });
    assert_refused(&taken, "they lost 60.0 %");

    // No worker is saturated, but the source is not the only limit.
    let share =
        |busy, blocked, starved| TimeShares { busy, blocked, starved, ..TimeShares::default() };
    let mut blocked = good.clone();
    blocked.workers[0].time = Some(share(0.4, 0.3, 0.3));
    blocked.workers[1].time = Some(share(0.4, 0.0, 0.6));
    assert_refused(&blocked, "yet workers are blocked by back-pressure (up to 30.0 %");
    let mut near = good.clone();
    near.workers[0].time = Some(share(0.945, 0.01, 0.045));
    near.workers[1].time = Some(share(0.4, 0.0, 0.6));
    assert_refused(&near, "yet the first worker seldom waits for the source");

    let mut empty = good;
    empty.workers.iter_mut().flat_map(|s| &mut s.stages).for_each(|s| s.packets = 0);
    assert_refused(&empty, "no packet reached the sink");
}

/// Workers of the last segment wait for nothing but the interfaces on which they send.
#[test]
fn a_full_interface_is_named_instead_of_a_stage() {
    let sends = |name: &str| InterfaceReport {
        port: name.to_owned(),
        interface: name.to_owned(),
        io: "af_packet".to_owned(),
        promiscuous: false,
        queues: 1,
        receiving_queues: 0,
        rx_queues: None,
        received: None,
        sent: Some(SentReport::default()),
        changes: InterfaceChanges::default(),
    };
    let world = World::random(&mut Dice::new(7), 2);
    let mut report = run(&world, &Mapping::merged(2), 0.0, 0);
    assert_eq!(diagnose(&report).limit, Limit::Processing);
    report.workers[0].time = Some(TimeShares { busy: 0.3, blocked: 0.7, ..TimeShares::default() });
    assert_refused(&report, "workers are blocked by back-pressure");
    report.interfaces = vec![sends("p1")];
    assert_full(&report, "the interface p1 does not accept packets any faster");
    assert_full(&report, "worker 0.0 waits for it 70.0 % of the time");

    // Bursts fill the queue of the interface for a moment, but the worker waits for packets.
    report.workers[0].time =
        Some(TimeShares { busy: 0.35, blocked: 0.05, starved: 0.6, ..TimeShares::default() });
    let finding = diagnose(&report);
    assert_eq!(finding.limit, Limit::Offered, "{}", finding.sentence);

    // With `full_ring = "drop"`, the worker does not wait.
    report.workers[0].time = Some(TimeShares { busy: 1.0, ..TimeShares::default() });
    assert_eq!(diagnose(&report).limit, Limit::Processing);
    let sink = report.workers[0].stages.last_mut().expect("a sink");
    sink.drops.insert("tx_full".to_owned(), sink.packets / 2);
    assert_full(&report, "p1 does not accept packets any faster: it refused 50.0 %");
}

fn assert_refused(report: &RunReport, reason: &str) {
    assert_limit(report, Limit::CannotTell, reason);
}

fn assert_full(report: &RunReport, what: &str) {
    assert_limit(report, Limit::Interface, what);
}

fn assert_limit(report: &RunReport, limit: Limit, reason: &str) {
    let finding = diagnose(report);
    assert_eq!(finding.limit, limit, "{}", finding.sentence);
    assert!(finding.sentence.contains(reason), "{}", finding.sentence);
}

#[test]
fn one_worker_needs_no_quiet_neighbours() {
    let world = World::random(&mut Dice::new(7), 3);
    let mut report = run(&world, &Mapping::merged(3), 0.0, 0);
    report.workers[0].windows.preempted = 80;
    report.workers[0].time = report.workers[0].time.map(|time| TimeShares { lost: 0.8, ..time });
    assert_eq!(diagnose(&report).limit, Limit::Processing);
}

/// A source that takes most of the time is not reported as the bottleneck, since users cannot make
/// it faster.
#[test]
fn the_bottleneck_is_a_stage_of_the_path() {
    let mut world = World::random(&mut Dice::new(6), 2);
    world.stages = vec![60.0, 40.0];
    (world.source, world.sink, world.jitter) = (300.0, 200.0, 0.0);
    world.capture = (0..16).map(|flow| (flow, None)).collect();
    let mut report = run(&world, &mapping(&[(2, 1)]), 0.0, 0);
    let finding = diagnose(&report);
    assert_eq!(finding.bottleneck.as_deref(), Some("stage0"), "{}", finding.sentence);
    report.finding = Some(finding);
    let finding = report.finding.as_ref().expect("a finding");
    let expected = "; source and sink, which are not stages of the path, take more of it (83.3 %) \
                    than any stage, of which `stage0` takes most: 10 % of its 600 ticks";
    assert!(finding.sentence.contains(expected), "{}", finding.sentence);
    let replay = report.replay_share().expect("times are known");
    assert!((replay.share - 500.0 / 600.0).abs() < 0.02, "{replay:?}");
    let kpps = report.processed_kpps.as_number().expect("a rate");
    let without = replay.kpps_without.expect("the worker limits the path");
    assert!((without / kpps - 6.0).abs() < 0.5, "{replay:?} of {kpps}");
    report.finding = None;
    assert_eq!(report.replay_share().and_then(|replay| replay.kpps_without), None);
}
