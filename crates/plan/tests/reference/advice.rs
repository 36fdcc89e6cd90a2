// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that proposed mappings are always valid, and that the best one is optimal.

use crate::prediction::environment;
use crate::sim::{Dice, World, kinds, mapping, random_mapping, run};
use linerate_path::model::{Mapping, Path, Segment};
use linerate_path::spec::{StageSpec, State};
use linerate_plan::candidates::{Advice, PathShape, candidates, nearest_feasible};
use linerate_plan::costs::Costs;
use linerate_plan::model::{Environment, predict};

const BURST: u32 = 32;

pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) kinds: Vec<StageSpec>,
    pub(crate) costs: Costs,
    pub(crate) env: Environment,
    pub(crate) baseline: Mapping,
}

impl Case {
    pub(crate) fn random(dice: &mut Dice, most_stages: usize, cpus: usize) -> Self {
        let stages = 1 + dice.below(most_stages);
        let global: Vec<usize> = (0..stages).filter(|_| dice.below(4) == 0).collect();
        Self::new(dice, stages, &global, cpus)
    }

    pub(crate) fn new(dice: &mut Dice, stages: usize, global: &[usize], cpus: usize) -> Self {
        let mut world = World::random(dice, stages);
        world.slowdown = dice.between(1.0, 1.5);
        let kinds = kinds(stages, global);
        let mut baseline = random_mapping(dice, stages, cpus);
        for segment in &mut baseline.segments {
            if violates(segment, &kinds) {
                segment.replicas = 1;
            }
        }
        let report = run(&world, &Mapping::merged(stages), 0.0, 1);
        let costs = Costs::from_run(&report, &world.path(), BURST).expect("costs");
        let env = environment(&world, cpus, 0.0, dice);
        Self { world, kinds, costs, env, baseline }
    }

    pub(crate) fn advice(&self) -> Advice {
        self.advice_on(&self.world.path())
    }

    fn advice_on(&self, path: &Path) -> Advice {
        let shape = PathShape::new(path, &self.kinds);
        candidates(&shape, &self.costs, &self.env, &self.baseline, BURST)
    }

    fn kpps(&self, mapping: &Mapping) -> f64 {
        predict(mapping, BURST, &self.costs, &self.env).kpps.value
    }
}

fn violates(segment: &Segment, kinds: &[StageSpec]) -> bool {
    segment.replicas > 1 && kinds[segment.stages.clone()].iter().any(|k| k.state == State::Global)
}

/// Returns all partitions of `stages` stages with at most `workers` workers: the number of stages
/// and replicas of each segment.
fn all_mappings(stages: usize, workers: usize) -> Vec<Vec<(usize, u32)>> {
    if stages == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 1..=stages {
        for replicas in 1..=workers {
            for mut rest in all_mappings(stages - first, workers - replicas) {
                rest.insert(0, (first, replicas as u32));
                all.push(rest);
            }
        }
    }
    all
}

#[test]
fn the_best_advice_is_the_best_of_all_mappings() {
    let mut dice = Dice::new(21);
    for number in 0..120 {
        let case = Case::random(&mut dice, 5, 1 + number % 4);
        let allowed = all_mappings(case.kinds.len(), case.env.cpus)
            .into_iter()
            .map(|parts| mapping(&parts))
            .filter(|m| m.segments.iter().all(|s| !violates(s, &case.kinds)));
        let best = allowed.map(|m| case.kpps(&m)).fold(0.0, f64::max);
        let advice = case.advice();
        let advised = advice.proposals.iter().filter(|p| p.burst == BURST);
        let advised =
            advised.map(|p| p.prediction.kpps.value).fold(case.kpps(&case.baseline), f64::max);
        assert!((advised / best - 1.0).abs() < 1e-12, "case {number}: {advised} of {best}");
    }
}

#[test]
fn the_balanced_split_is_the_best_of_all_cuts() {
    let mut dice = Dice::new(22);
    for number in 0..60 {
        let case = Case::random(&mut dice, 6, 4);
        for workers in 2..=case.kinds.len().min(4) {
            let cuts = all_mappings(case.kinds.len(), 4).into_iter();
            let cuts = cuts.filter(|p| p.len() == workers && p.iter().all(|(_, r)| *r == 1));
            let best = cuts.map(|p| case.kpps(&mapping(&p))).fold(0.0, f64::max);
            let is_cut = |m: &Mapping| m.segments.len() == workers && m.workers() == workers;
            let advice = case.advice();
            let advised = advice.proposals.iter().map(|p| (&p.mapping, p.burst));
            let advised = advised.filter(|(m, b)| is_cut(m) && *b == BURST).map(|(m, _)| m);
            let with_baseline = advised.chain(Some(&case.baseline).filter(|m| is_cut(m)));
            let found = with_baseline.map(|m| case.kpps(m)).fold(0.0, f64::max);
            assert!((found / best - 1.0).abs() < 1e-12, "case {number}: {found} of {best}");
        }
    }
}

#[test]
fn proposals_are_allowed_ordered_and_distinct() {
    let mut dice = Dice::new(23);
    for number in 0..100 {
        let case = Case::random(&mut dice, 8, 1 + number % 9);
        let proposals = case.advice().proposals;
        for (index, proposal) in proposals.iter().enumerate() {
            let context = format!("case {number}: {proposal:?}");
            let segments = &proposal.mapping.segments;
            let covered: Vec<usize> = segments.iter().flat_map(|s| s.stages.clone()).collect();
            assert!(covered.iter().copied().eq(0..case.kinds.len()), "{context}");
            assert!(segments.iter().all(|s| s.replicas > 0 && !s.stages.is_empty()), "{context}");
            assert!(!segments.iter().any(|s| violates(s, &case.kinds)), "{context}");
            assert!(proposal.mapping.workers() <= case.env.cpus, "{context}");
            assert!((&proposal.mapping, proposal.burst) != (&case.baseline, BURST), "{context}");
            let same = |other: &linerate_plan::candidates::Proposal| {
                (&other.mapping, other.burst) == (&proposal.mapping, proposal.burst)
            };
            assert_eq!(proposals.iter().filter(|p| same(p)).count(), 1, "{context}");
            if let Some(next) = proposals.get(index + 1) {
                assert!(next.prediction.kpps.value <= proposal.prediction.kpps.value, "{context}");
            }
        }
    }
}

#[test]
fn merge_and_replicate_is_proposed_or_ruled_out_by_name() {
    let mut dice = Dice::new(24);
    let (mut proposed, mut ruled_out) = (0, 0);
    for number in 0..60 {
        let mut case = Case::random(&mut dice, 5, 4);
        // If all stages have one worker already, there is nothing to merge.
        let is_merged = number % 2 == 0 || case.kinds.len() == 1;
        let stages = case.kinds.len();
        case.baseline = match is_merged {
            true => Mapping::merged(stages),
            false => mapping(&[(1, 1), (stages - 1, 1)]),
        };
        let name = if is_merged { "replicate" } else { "merge and replicate" };
        let advice = case.advice();
        let global = case.kinds.iter().position(|k| k.state == State::Global);
        for replicas in 2..=4 {
            let wanted = mapping(&[(case.kinds.len(), replicas)]);
            let there = advice.proposals.iter().find(|p| p.mapping == wanted && p.burst == BURST);
            let found = there.map(|proposal| proposal.name.clone());
            let expected = global.is_none().then(|| format!("{name} x{replicas}"));
            assert_eq!(found, expected, "case {number}");
        }
        let rule = advice.ruled_out.iter().find(|r| r.name.starts_with(&format!("{name},")));
        match global {
            None => proposed += 1,
            Some(stage) => {
                ruled_out += 1;
                let reason = &rule.expect("a rule").reason;
                assert!(
                    reason.starts_with(&format!("`stage{stage}` has global state")),
                    "{reason}"
                );
            }
        }
        assert_eq!(rule.is_some(), global.is_some(), "case {number}");
    }
    assert!(proposed > 10 && ruled_out > 10);
}

#[test]
fn the_global_stage_is_split_off() {
    let mut case = Case::new(&mut Dice::new(25), 4, &[3], 4);
    case.baseline = Mapping::merged(4);
    let wanted = mapping(&[(3, 3), (1, 1)]);
    let advice = case.advice();
    assert!(advice.proposals.iter().any(|p| p.mapping == wanted), "{advice:?}");
}

#[test]
fn bursts_are_proposed_only_where_they_gain_and_fit() {
    let sizes = |case: &Case| -> Vec<u32> {
        let proposals = case.advice().proposals.into_iter().map(|p| p.burst);
        proposals.filter(|b| *b != BURST).collect()
    };
    // With an expensive ring, it is best to merge and replicate. The rate then depends on the burst
    // size only through `burst_ticks`.
    let mut case = Case::new(&mut Dice::new(26), 4, &[], 2);
    case.env.handover.producer_ticks = crate::sim::around(1e4, 0.0, 30);
    assert_eq!(sizes(&case), [0u32; 0]);
    case.env.burst_ticks = crate::sim::around(2000.0, 0.0, 30);
    assert_eq!(sizes(&case), [256, 128, 64]);
    // Nothing can be replicated: a split is best, and two bursts of 256 packets do not fit into a
    // ring of 256.
    let mut case = Case::new(&mut Dice::new(26), 4, &[0, 1, 2, 3], 2);
    case.env.burst_ticks = crate::sim::around(2000.0, 0.0, 30);
    let mut path = case.world.path();
    path.run.ring = 256;
    let advice = case.advice_on(&path);
    let best = &advice.proposals[0];
    assert_eq!((best.mapping.segments.len(), best.burst), (2, 128), "{best:?}");
}

#[test]
fn one_processor_leaves_only_the_merge() {
    let mut case = Case::random(&mut Dice::new(27), 5, 1);
    case.baseline = Mapping::merged(case.kinds.len());
    let advice = case.advice();
    assert_eq!(advice.proposals, []);
    assert!(advice.ruled_out.iter().all(|r| r.reason == "needs 2 CPUs; only 1 is available"));
    assert!(!advice.ruled_out.is_empty());
}

#[test]
fn the_nearest_feasible_mapping_loses_least() {
    let mut dice = Dice::new(28);
    for number in 0..100 {
        let case = Case::random(&mut dice, 6, 6);
        let given = random_mapping(&mut dice, case.kinds.len(), 6);
        let cpus = 1 + dice.below(5);
        let near = nearest_feasible(&given, cpus, Some(&case.costs));
        if given.workers() <= cpus {
            assert_eq!(near, given);
            continue;
        }
        let cost = |m: &Mapping| largest_work(m, &case.costs);
        let coarser = all_mappings(given.segments.len(), cpus).into_iter();
        let best = coarser.filter_map(|parts| merged(&given, &parts)).map(|m| cost(&m));
        let best = best.fold(f64::INFINITY, f64::min);
        assert!(near.workers() <= cpus, "case {number}");
        assert!((cost(&near) / best - 1.0).abs() < 1e-12, "case {number}: {given:?} -> {near:?}");
        let again = nearest_feasible(&given, cpus, Some(&case.costs));
        assert_eq!(near, again);
    }
}

#[test]
fn without_costs_every_stage_counts_the_same() {
    let given = mapping(&[(1, 1), (1, 1), (2, 1), (4, 1)]);
    assert_eq!(nearest_feasible(&given, 2, None), mapping(&[(4, 1), (4, 1)]));
    assert_eq!(nearest_feasible(&given, 3, None), mapping(&[(2, 1), (2, 1), (4, 1)]));
    assert_eq!(nearest_feasible(&given, 0, None), Mapping::merged(8));
    let replicated = mapping(&[(2, 8), (1, 1)]);
    assert_eq!(nearest_feasible(&replicated, 3, None), mapping(&[(2, 2), (1, 1)]));
}

/// Returns `given` with its segments merged according to `parts`, unless a part has more replicas
/// than its segments allow.
fn merged(given: &Mapping, parts: &[(usize, u32)]) -> Option<Mapping> {
    let mut segments = given.segments.iter();
    let mut joined = Vec::new();
    for &(count, replicas) in parts {
        let group: Vec<&Segment> = segments.by_ref().take(count).collect();
        if group.iter().any(|s| s.replicas < replicas) {
            return None;
        }
        joined.push((group.iter().map(|s| s.stages.len()).sum(), replicas));
    }
    Some(mapping(&joined))
}

/// Returns the largest load of any worker, rings excluded.
fn largest_work(mapping: &Mapping, costs: &Costs) -> f64 {
    let work = |s: &Segment| {
        let mut sum: f64 = costs.stages[s.stages.clone()].iter().map(|c| c.ticks.value).sum();
        sum += if s.stages.start == 0 { costs.source.ticks.value } else { 0.0 };
        sum += if s.stages.end == costs.stages.len() { costs.sink.ticks.value } else { 0.0 };
        sum / f64::from(s.replicas)
    };
    mapping.segments.iter().map(work).fold(0.0, f64::max)
}
