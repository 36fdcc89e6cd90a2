// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects mappings worth measuring.
//!
//! Named proposals are those that an engineer would try, and are always included: merge, merge and
//! replicate, split at the balanced point, split off the stage that cannot be replicated, relieve
//! the bottleneck, merge light segments. In addition, an exact search (see `partition`) finds the
//! best of all mappings that the path and the number of CPUs allow: at the same burst size, no
//! mapping has a higher predicted rate.
//!
//! The search neither pins workers to processors nor reorders stages.

use crate::costs::Costs;
use crate::model::{Environment, Prediction, Terms, predict};
use crate::partition::{Part, count, minimax};
use crate::search::ONE_STATE;
use linerate_path::model::{Mapping, Path, Segment};
use linerate_path::spec::{StageSpec, State};
use linerate_record::tune::RuledOut;
use std::ops::Range;

/// Burst sizes, in packets, to try on the best mapping. Fewer than 8 packets hardly amortize ring
/// operations; 256 packets of 1500 bytes fill a 512 KiB L2.
const BURSTS: [u32; 6] = [8, 16, 32, 64, 128, 256];

/// Minimum predicted relative gain for proposing another burst size; smaller gains cannot be
/// resolved by measuring.
const MIN_BURST_GAIN: f64 = 0.01;

/// A mapping worth measuring, and its predicted rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Name of the change, such as `merge and replicate x2`.
    pub name: String,
    /// Assignment of stages to workers; `tune` assigns the CPUs.
    pub mapping: Mapping,
    /// Packets per burst, which may differ from the path's own.
    pub burst: u32,
    /// Predicted throughput.
    pub prediction: Prediction,
}

/// Facts about a path that the search needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathShape {
    /// Name and state of each stage, in order.
    pub stages: Vec<(String, State)>,
    /// Capacity of a ring, in packets.
    pub ring: u32,
}

impl PathShape {
    /// Returns the shape of `path`, given the specification of each stage in order.
    ///
    /// # Panics
    /// Panics if the number of specifications differs from the number of stages.
    pub fn new(path: &Path, kinds: &[StageSpec]) -> Self {
        assert_eq!(kinds.len(), path.stages.len(), "one specification per stage");
        let stages = path.stages.iter().zip(kinds);
        Self {
            stages: stages.map(|(stage, kind)| (stage.name.clone(), kind.state)).collect(),
            ring: path.run.ring,
        }
    }

    /// Returns the names of the stages, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|(name, _)| name.as_str())
    }
}

/// Proposed and rejected mappings.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Proposals, highest predicted rate first, without duplicates and without the baseline at its
    /// own burst size.
    pub proposals: Vec<Proposal>,
    /// Mappings that were considered but ruled out, and why.
    pub ruled_out: Vec<RuledOut>,
    /// Number of mappings that the path and the CPUs allow. At the given burst size, none has a
    /// higher predicted rate than the best of the proposals and the baseline.
    pub there_are: f64,
}

/// Proposes mappings for the CPUs of `env`, as alternatives to `baseline` with bursts of `burst`
/// packets.
///
/// # Panics
/// Panics if `costs` or `baseline` belong to another path.
pub fn candidates(
    shape: &PathShape,
    costs: &Costs,
    env: &Environment,
    baseline: &Mapping,
    burst: u32,
) -> Advice {
    let search = Search { shape, costs, env, terms: Terms::point(costs, env, burst), burst };
    let mut list = List { baseline, mappings: Vec::new(), ruled_out: Vec::new() };
    search.merge_and_replicate(&mut list);
    search.split(&mut list);
    search.split_off_global(&mut list);
    search.relieve(&mut list);
    search.merge_light(&mut list);
    search.best(&mut list);

    let proposal = |name: String, mapping: Mapping, burst: u32| {
        let prediction = predict(&mapping, burst, costs, env);
        Proposal { name, mapping, burst, prediction }
    };
    let mut proposals: Vec<Proposal> =
        list.mappings.into_iter().map(|(name, m)| proposal(name, m, burst)).collect();
    order(&mut proposals);
    let given = proposal("keep the mapping".to_owned(), unpinned(baseline), burst);
    let best = match proposals.first() {
        Some(first) if rate(first) > rate(&given) => first.clone(),
        _ => given,
    };
    for size in other_bursts(shape.ring, &best.mapping, burst) {
        let other =
            proposal(format!("{}, bursts of {size}", best.name), best.mapping.clone(), size);
        if rate(&other) > rate(&best) * (1.0 + MIN_BURST_GAIN) {
            proposals.push(other);
        }
    }
    order(&mut proposals);
    let allowed = |stages| search.max_replicas(stages);
    let there_are = count(shape.stages.len(), env.cpus, allowed);
    Advice { proposals, ruled_out: list.ruled_out, there_are }
}

/// Returns the mapping with the highest predicted rate for each number of CPUs up to that of `env`,
/// in ascending order. Skips numbers for which there is no mapping.
pub fn best_of_each(
    shape: &PathShape,
    costs: &Costs,
    env: &Environment,
    burst: u32,
) -> Vec<Mapping> {
    let search = Search { shape, costs, env, terms: Terms::point(costs, env, burst), burst };
    let mapping = |parts: Vec<Part>| Mapping { segments: parts.into_iter().map(whole).collect() };
    search.cuts().into_iter().flatten().map(mapping).collect()
}

/// Proposes the same mapping with smaller bursts, smallest first. Smaller bursts reduce latency, as
/// packets spend less time waiting for the rest of their burst.
pub fn smaller_bursts(
    costs: &Costs,
    env: &Environment,
    mapping: &Mapping,
    burst: u32,
) -> Vec<Proposal> {
    let proposal = |size| Proposal {
        name: format!("bursts of {size}"),
        mapping: mapping.clone(),
        burst: size,
        prediction: predict(mapping, size, costs, env),
    };
    BURSTS.into_iter().filter(|size| *size < burst).map(proposal).collect()
}

fn rate(proposal: &Proposal) -> f64 {
    proposal.prediction.kpps.value
}

/// Sorts proposals by predicted rate, highest first; ties go to the smaller mapping.
pub fn order(proposals: &mut [Proposal]) {
    let size = |p: &Proposal| (p.mapping.workers(), p.mapping.segments.len(), p.burst);
    proposals.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(size(a).cmp(&size(b))));
}

/// Mappings found so far, excluding the baseline and duplicates.
struct List<'a> {
    baseline: &'a Mapping,
    mappings: Vec<(String, Mapping)>,
    ruled_out: Vec<RuledOut>,
}

impl List<'_> {
    fn add(&mut self, name: String, segments: Vec<Segment>) {
        let mapping = Mapping { segments };
        if mapping != unpinned(self.baseline) && self.mappings.iter().all(|(_, m)| *m != mapping) {
            self.mappings.push((name, mapping));
        }
    }

    fn rule_out(&mut self, name: String, reason: String) {
        self.ruled_out.push(RuledOut { name, reason });
    }
}

struct Search<'a> {
    shape: &'a PathShape,
    costs: &'a Costs,
    env: &'a Environment,
    terms: Terms<'a>,
    burst: u32,
}

impl Search<'_> {
    fn stages(&self) -> usize {
        self.shape.stages.len()
    }

    /// Returns the first of `stages` with global state.
    fn global(&self, mut stages: Range<usize>) -> Option<usize> {
        stages.find(|&i| self.shape.stages[i].1 == State::Global)
    }

    fn max_replicas(&self, stages: Range<usize>) -> u32 {
        if self.global(stages).is_some() { 1 } else { self.env.cpus as u32 }
    }

    fn forbids(&self, stage: usize) -> String {
        format!("`{}` {ONE_STATE}", self.shape.stages[stage].0)
    }

    /// Rules out the change `name` if the machine has a single CPU, because the change needs
    /// several workers. Returns whether it was ruled out.
    fn one_cpu(&self, list: &mut List<'_>, name: &str) -> bool {
        let one = self.env.cpus < 2;
        if one {
            list.rule_out(name.to_owned(), "needs 2 CPUs; only 1 is available".to_owned());
        }
        one
    }

    fn merge_and_replicate(&self, list: &mut List<'_>) {
        let all = 0..self.stages();
        let is_merged = list.baseline.segments.len() == 1;
        let merge = if is_merged { "one replica" } else { "merge" };
        let replicate = if is_merged { "replicate" } else { "merge and replicate" };
        list.add(merge.to_owned(), vec![segment(all.clone(), 1)]);
        if self.one_cpu(list, replicate) {
            return;
        }
        if let Some(stage) = self.global(all.clone()) {
            let most = self.env.cpus;
            list.rule_out(format!("{replicate}, x2 to x{most}"), self.forbids(stage));
            return;
        }
        for replicas in 2..=self.env.cpus as u32 {
            list.add(format!("{replicate} x{replicas}"), vec![segment(all.clone(), replicas)]);
        }
    }

    fn split(&self, list: &mut List<'_>) {
        if self.stages() < 2 || self.one_cpu(list, "split") {
            return;
        }
        let workers = self.env.cpus.min(self.stages());
        let load = |stages, replicas| self.terms.load(stages, replicas);
        let cuts = minimax(self.stages(), workers, |_| 1, load).into_iter().enumerate().skip(1);
        for (index, parts) in cuts {
            let name = format!("split into {} balanced segments", index + 1);
            list.add(name, parts.unwrap_or_default().into_iter().map(whole).collect());
        }
    }

    /// Adds the mapping in which the stages from the first to the last with global state have a
    /// worker of their own, and the stages before and after them share the remaining workers.
    fn split_off_global(&self, list: &mut List<'_>) {
        let is_global = |&i: &usize| self.shape.stages[i].1 == State::Global;
        let Some(first) = (0..self.stages()).find(is_global) else {
            return;
        };
        let last = (0..self.stages()).rfind(is_global).unwrap_or(first);
        let (before, behind) = (0..first, last + 1..self.stages());
        let free = self.env.cpus.saturating_sub(1) as u32;
        let sides = [&before, &behind].into_iter().filter(|s| !s.is_empty()).count() as u32;
        if sides == 0 || free < sides {
            return;
        }
        let load = |stages: &Range<usize>, replicas: u32| match stages.is_empty() {
            true => 0.0,
            false => self.terms.load(stages.clone(), replicas),
        };
        let spread = if before.is_empty() { 0..=0 } else { 1..=free + 1 - sides };
        let split =
            spread.map(|r| (r, if behind.is_empty() { 0 } else { free - r })).min_by(|a, b| {
                let largest =
                    |s: &(u32, u32)| load(&before, s.0.max(1)).max(load(&behind, s.1.max(1)));
                largest(a).total_cmp(&largest(b))
            });
        let Some((replicas_before, replicas_behind)) = split else {
            return;
        };
        let parts = [(before, replicas_before), (first..last + 1, 1), (behind, replicas_behind)];
        let parts = parts.into_iter().filter(|(stages, _)| !stages.is_empty());
        let name = format!("split off `{}` and replicate the rest", self.shape.stages[first].0);
        list.add(name, parts.map(|(stages, replicas)| segment(stages, replicas)).collect());
    }

    /// Adds mappings with more workers for the segment that is the baseline's predicted bottleneck.
    fn relieve(&self, list: &mut List<'_>) {
        let baseline = unpinned(list.baseline);
        if baseline.segments.len() < 2 {
            return;
        }
        let limit = predict(&baseline, self.burst, self.costs, self.env).bottleneck;
        let stages = baseline.segments[limit].stages.clone();
        let name = format!("replicate `{}` only", self.names(stages.clone()));
        let spare = self.env.cpus.saturating_sub(baseline.workers()) as u32;
        if let Some(stage) = self.global(stages) {
            list.rule_out(name, self.forbids(stage));
        } else if spare == 0 {
            let reason = format!("all {} CPUs are in use", self.env.cpus);
            list.rule_out(name, reason);
        } else {
            for more in 1..=spare {
                let mut segments = baseline.segments.clone();
                segments[limit].replicas += more;
                list.add(format!("{name}, x{}", segments[limit].replicas), segments);
            }
        }
    }

    /// Adds mappings with fewer workers than the baseline, with segments merged so that the largest
    /// load is as small as possible.
    fn merge_light(&self, list: &mut List<'_>) {
        for workers in (1..list.baseline.workers()).rev() {
            let merged = nearest_feasible(list.baseline, workers, Some(self.costs));
            if merged.workers() <= self.env.cpus {
                let name =
                    format!("merge the lightest segments, leaving {} workers", merged.workers());
                list.add(name, merged.segments);
            }
        }
    }

    /// Returns the best way to partition and replicate the stages for each number of workers, from
    /// 1 upwards.
    fn cuts(&self) -> Vec<Option<Vec<Part>>> {
        let load = |stages, replicas| self.terms.load(stages, replicas);
        let max_replicas = |stages| self.max_replicas(stages);
        minimax(self.stages(), self.env.cpus, max_replicas, load)
    }

    /// Adds the mapping with the highest predicted rate of all.
    fn best(&self, list: &mut List<'_>) {
        let rated = self.cuts().into_iter().flatten().map(|parts| {
            let workers = parts.iter().map(|p| p.replicas as usize).sum();
            let loads = parts.iter().map(|p| self.terms.load(p.atoms.clone(), p.replicas));
            (self.terms.rate(loads.fold(0.0, f64::max), workers), parts)
        });
        let better = |best: (f64, Vec<Part>), next: (f64, Vec<Part>)| {
            if next.0 > best.0 { next } else { best }
        };
        if let Some((_, parts)) = rated.reduce(better) {
            let workers: u32 = parts.iter().map(|p| p.replicas).sum();
            let name = format!("split and replicate for balance, {workers} workers");
            list.add(name, parts.into_iter().map(whole).collect());
        }
    }

    fn names(&self, stages: Range<usize>) -> String {
        let names: Vec<&str> =
            self.shape.stages[stages].iter().map(|(name, _)| name.as_str()).collect();
        names.join("+")
    }
}

/// Returns burst sizes other than `burst` for which the mapping's rings of `ring` packets hold two
/// bursts, so that one can be filled while the other is drained.
pub(crate) fn other_bursts(ring: u32, mapping: &Mapping, burst: u32) -> impl Iterator<Item = u32> {
    let rings = mapping.segments.len() > 1;
    let room = if rings { ring / 2 } else { u32::MAX };
    BURSTS.into_iter().filter(move |&size| size != burst && size <= room)
}

fn segment(stages: Range<usize>, replicas: u32) -> Segment {
    Segment { stages, replicas, cpus: Vec::new() }
}

fn whole(part: Part) -> Segment {
    segment(part.atoms, part.replicas)
}

/// Returns the mapping without CPU pinning.
pub(crate) fn unpinned(mapping: &Mapping) -> Mapping {
    let segments = mapping.segments.iter().map(|s| segment(s.stages.clone(), s.replicas));
    Mapping { segments: segments.collect() }
}

/// Returns the mapping unchanged if it has at most `cpus` workers. Otherwise, returns the one with
/// the smallest maximum load among those obtained by merging neighbouring segments and removing
/// replicas.
///
/// A segment's load is the cost of its stages divided by the number of its replicas; without costs,
/// all stages count the same. A merged segment never has more replicas than any of its parts, which
/// protects stages that must not be replicated. CPU pinning is dropped, as there are fewer workers.
/// A `cpus` of 0 is treated as 1.
pub fn nearest_feasible(mapping: &Mapping, cpus: usize, costs: Option<&Costs>) -> Mapping {
    let cpus = cpus.max(1);
    if mapping.workers() <= cpus {
        return mapping.clone();
    }
    let given = &mapping.segments;
    let stages_of =
        |atoms: Range<usize>| given[atoms.start].stages.start..given[atoms.end - 1].stages.end;
    let load = |atoms: Range<usize>, replicas: u32| {
        let stages = stages_of(atoms);
        let work = costs.map_or(stages.len() as f64, |c| work(c, stages));
        work / f64::from(replicas)
    };
    let fewest = |atoms: Range<usize>| given[atoms].iter().map(|s| s.replicas).min().unwrap_or(1);
    let cuts = minimax(given.len(), cpus, fewest, load);
    let largest = |parts: &Vec<Part>| {
        let loads = parts.iter().map(|p| load(p.atoms.clone(), p.replicas));
        loads.fold(0.0, f64::max)
    };
    // Of mappings with equal load, choose the last: it has the most workers and is closest to the
    // given mapping.
    let best = cuts.into_iter().flatten().min_by(|a, b| {
        let workers = |parts: &Vec<Part>| parts.iter().map(|p| p.replicas).sum::<u32>();
        largest(a).total_cmp(&largest(b)).then(workers(b).cmp(&workers(a)))
    });
    match best {
        Some(parts) => Mapping {
            segments: parts.into_iter().map(|p| segment(stages_of(p.atoms), p.replicas)).collect(),
        },
        // A single worker is always feasible, so the mapping has no segments.
        None => mapping.clone(),
    }
}

/// Returns the ticks that `stages` take per packet entering the path, including the source or sink
/// if adjacent, but excluding rings.
fn work(costs: &Costs, stages: Range<usize>) -> f64 {
    let ends =
        [(stages.start == 0, &costs.source), (stages.end == costs.stages.len(), &costs.sink)];
    let at_ends = ends.iter().filter(|(here, _)| *here).map(|(_, end)| end.ticks.value);
    costs.stages[stages].iter().map(|s| s.ticks.value).chain(at_ends).sum()
}
