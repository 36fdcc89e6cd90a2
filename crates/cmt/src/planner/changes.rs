// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the possible changes to a setup. Each change is named and applied on its own.
//!
//! A stage with global state never runs on more than one strand. A change that adds strands puts
//! them on logical CPUs that are idle or run only an endless loop, starting with the least busy
//! pipe. If there are too few, the change is not proposed.

use super::setup::{Outsiders, Placed, Setup, World};
use linerate_path::costs::Idling;
use linerate_path::spec::{StageSpec, State};
use linerate_plan::predictor::Changed;
use linerate_record::plan::Change;
use std::ops::Range;

/// Number of cycles that a strand with slowed-down polling pauses after an empty poll. This is
/// about four iterations of a loop with one miss, and much less than the thousands of cycles
/// between packets on a line.
pub(super) const SLOW_CYCLES: f64 = 500.0;

/// Inputs for all changes.
pub(super) struct Changes<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) specs: &'a [StageSpec],
    /// Number of usable logical CPUs, starting at CPU 0.
    pub(super) cpus: u32,
}

impl Changes<'_> {
    /// Returns all single changes to `setup`, whose bottleneck is segment `limit`.
    pub(super) fn of(&self, setup: &Setup, limit: usize) -> Vec<Changed<Setup>> {
        let mut all = Vec::new();
        all.extend(self.parked(setup));
        all.extend(self.slowed(setup));
        all.extend(self.relieved(setup));
        all.extend(self.replicated(setup, limit));
        all.extend(self.split(setup, limit));
        all.extend(self.merged(setup));
        all.extend(self.placed(setup, limit));
        all.iter_mut().for_each(|changed| changed.setting = changed.setting.clone().made_way());
        all.retain(|changed| changed.setting != *setup);
        all
    }

    fn names(&self, stages: Range<usize>) -> String {
        linerate_plan::search::runs(self.world.path, stages)
    }

    fn is_global(&self, stages: Range<usize>) -> bool {
        self.specs[stages].iter().any(|spec| spec.state == State::Global)
    }

    fn parked(&self, setup: &Setup) -> Vec<Changed<Setup>> {
        let park = |which: &dyn Fn(&Outsiders) -> bool, name: String| {
            let mut setup = setup.clone();
            setup.beside.retain(|beside| !which(beside));
            Changed { name, kind: Change::Park, setting: setup }
        };
        let mut all: Vec<Changed<Setup>> = setup
            .beside
            .iter()
            .map(|one| park(&|beside| beside.name == one.name, format!("park `{}`", one.name)))
            .collect();
        if setup.beside.len() > 1 {
            all.push(park(&|_| true, "park all strands outside the path".to_owned()));
        }
        all
    }

    fn slowed(&self, setup: &Setup) -> Vec<Changed<Setup>> {
        let kind = Change::SlowPolling;
        let mut all = Vec::new();
        for (index, beside) in setup.beside.iter().enumerate() {
            if beside.does == Idling::Polls && beside.slow_cycles < SLOW_CYCLES {
                let mut setup = setup.clone();
                setup.beside[index].slow_cycles = SLOW_CYCLES;
                let name =
                    format!("let `{}` pause {SLOW_CYCLES} cycles between polls", beside.name);
                all.push(Changed { name, kind, setting: setup });
            }
        }
        if setup.slow_cycles < SLOW_CYCLES {
            let mut setup = setup.clone();
            setup.slow_cycles = SLOW_CYCLES;
            let name = format!("pause {SLOW_CYCLES} cycles after each empty poll");
            all.push(Changed { name, kind, setting: setup });
        }
        all
    }

    /// Moves the polling of second inputs to separate strands.
    fn relieved(&self, setup: &Setup) -> Vec<Changed<Setup>> {
        let works = &self.world.works;
        let has_two =
            |stage: &usize| works[*stage].turn_instructions > 0.0 || works[*stage].turn_ns > 0.0;
        let joined = (0..works.len()).filter(has_two).filter(|s| !setup.relieved.contains(s));
        let relieve = |stage: usize| {
            let segment = setup.segments.iter().find(|one| one.stages.contains(&stage))?;
            let mut changed = setup.clone();
            let cpus = self.free(setup, segment.cpus.len())?;
            changed.relieved.push(stage);
            let name = self.names(stage..stage + 1);
            changed.beside.push(Outsiders {
                name: format!("{name}-second-input"),
                does: Idling::Polls,
                cpus,
                instructions: works[stage].turn_instructions,
                ns: works[stage].turn_ns,
                slow_cycles: 0.0,
            });
            let name = format!("split `{name}`: poll its second input on separate strands");
            Some(Changed { name, kind: Change::Split, setting: changed })
        };
        joined.filter_map(relieve).collect()
    }

    /// Doubles, triples and quadruples the bottleneck segment's strands, if enough strands are
    /// free.
    fn replicated(&self, setup: &Setup, limit: usize) -> Vec<Changed<Setup>> {
        let segment = &setup.segments[limit];
        if self.is_global(segment.stages.clone()) {
            return Vec::new();
        }
        let have = segment.cpus.len();
        let replicate = |times: usize| {
            let mut changed = setup.clone();
            changed.segments[limit].cpus.extend(self.free(setup, have * (times - 1))?);
            let name = self.names(segment.stages.clone());
            let name = format!("replicate `{name}`, x{}", have * times);
            Some(Changed { name, kind: Change::Replicate, setting: changed })
        };
        [2, 3, 4].into_iter().filter_map(replicate).collect()
    }

    /// Splits the bottleneck segment in two: one change per possible split point.
    fn split(&self, setup: &Setup, limit: usize) -> Vec<Changed<Setup>> {
        let segment = &setup.segments[limit];
        let cut = |at: usize| {
            let mut changed = setup.clone();
            let behind = Placed {
                stages: at..segment.stages.end,
                cpus: self.free(setup, segment.cpus.len())?,
            };
            changed.segments[limit].stages.end = at;
            changed.segments.insert(limit + 1, behind);
            let name = self.names(segment.stages.clone());
            let last = self.names(at - 1..at);
            let name = format!("split `{name}` after `{last}`");
            Some(Changed { name, kind: Change::Split, setting: changed })
        };
        (segment.stages.start + 1..segment.stages.end).filter_map(cut).collect()
    }

    /// Merges each pair of neighbouring segments onto the strands of both, or onto a single strand
    /// of the first if one of the merged stages has global state.
    fn merged(&self, setup: &Setup) -> Vec<Changed<Setup>> {
        let merge = |(index, pair): (usize, &[Placed])| {
            let stages = pair[0].stages.start..pair[1].stages.end;
            let mut cpus = pair[0].cpus.clone();
            match self.is_global(stages.clone()) {
                true => cpus.truncate(1),
                false => cpus.extend(&pair[1].cpus),
            }
            let name = format!(
                "merge `{}` and `{}`, x{}",
                self.names(pair[0].stages.clone()),
                self.names(pair[1].stages.clone()),
                cpus.len()
            );
            let mut changed = setup.clone();
            changed.segments.splice(index..index + 2, [Placed { stages, cpus }]);
            Changed { name, kind: Change::Merge, setting: changed }
        };
        setup.segments.windows(2).enumerate().map(merge).collect()
    }

    /// Changes strand placement: the bottleneck's strands on separate pipes; all strands balanced
    /// over the pipes; each flow on one core.
    fn placed(&self, setup: &Setup, limit: usize) -> Vec<Changed<Setup>> {
        let kind = Change::Place;
        let mut all = Vec::new();
        let segment = &setup.segments[limit];
        if let Some(cpus) = self.free(setup, segment.cpus.len()) {
            let mut changed = setup.clone();
            changed.segments[limit].cpus = cpus;
            let name = self.names(segment.stages.clone());
            let name = format!("move `{name}` to the least loaded pipes");
            all.push(Changed { name, kind, setting: changed });
        }
        if let Some(setup) = self.levelled(setup) {
            let name = "balance the strands across all pipes".to_owned();
            all.push(Changed { name, kind, setting: setup });
        }
        if let Some(setup) = self.by_flow(setup) {
            let name = "place the strands of each flow on a separate core".to_owned();
            all.push(Changed { name, kind, setting: setup });
        }
        all
    }

    fn pipe(&self, cpu: u32) -> usize {
        (cpu / self.world.chip.strands_per_pipe) as usize
    }

    /// Returns each pipe's load: instructions per packet of the path. A strand outside the path
    /// counts as much as the path's busiest strand if it polls, and twice as much if it spins.
    fn demands(&self, setup: &Setup) -> Vec<f64> {
        let mut demands = vec![0.0; self.world.chip.pipes() as usize];
        let demand = |segment: &Placed| self.demand(segment);
        let busiest = setup.segments.iter().map(demand).fold(0.0, f64::max);
        for segment in &setup.segments {
            for cpu in &segment.cpus {
                demands[self.pipe(*cpu)] += self.demand(segment);
            }
        }
        for beside in &setup.beside {
            let times = if beside.does == Idling::Spins { 2.0 } else { 1.0 };
            for cpu in &beside.cpus {
                demands[self.pipe(*cpu)] += times * busiest;
            }
        }
        demands
    }

    /// Returns how many instructions each strand of a segment executes per packet of the path.
    fn demand(&self, segment: &Placed) -> f64 {
        let work = self.world.work(segment.stages.clone(), 1.0);
        work.instructions / segment.cpus.len() as f64
    }

    /// Returns `count` free CPUs, each on the pipe that is least busy when chosen; `None` if there
    /// are too few.
    fn free(&self, setup: &Setup, count: usize) -> Option<Vec<u32>> {
        let mut demands = self.demands(setup);
        let mut taken: Vec<u32> = setup.taken().collect();
        let more = demands.iter().copied().fold(1.0, f64::max);
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            let free = (0..self.cpus).filter(|cpu| !taken.contains(cpu));
            let least = |a: &u32, b: &u32| {
                let demand = |cpu: u32| demands[self.pipe(cpu)];
                demand(*a).total_cmp(&demand(*b)).then(a.cmp(b))
            };
            let cpu = free.min_by(least)?;
            demands[self.pipe(cpu)] += more;
            taken.push(cpu);
            found.push(cpu);
        }
        Some(found)
    }

    /// Redistributes all strands of the path, starting with the strands that execute the most
    /// instructions. Each strand gets the pipe that is least busy at that point.
    fn levelled(&self, setup: &Setup) -> Option<Setup> {
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (index, segment) in setup.segments.iter().enumerate() {
            order.extend((0..segment.cpus.len()).map(|replica| (index, replica)));
        }
        let demand = |index: usize| self.demand(&setup.segments[index]);
        order.sort_by(|a, b| demand(b.0).total_cmp(&demand(a.0)).then(a.cmp(b)));
        let mut moved = setup.clone();
        moved.segments.iter_mut().for_each(|segment| segment.cpus.clear());
        let mut rest = moved.clone();
        let mut cpus: Vec<Vec<(usize, u32)>> = vec![Vec::new(); setup.segments.len()];
        for (index, replica) in order {
            let cpu = *self.free_by_demand(setup, &rest)?.first()?;
            rest.segments[index].cpus.push(cpu);
            cpus[index].push((replica, cpu));
        }
        for (segment, mut cpus) in moved.segments.iter_mut().zip(cpus) {
            cpus.sort_unstable();
            segment.cpus = cpus.into_iter().map(|(_, cpu)| cpu).collect();
        }
        Some(moved)
    }

    /// Returns the CPUs that are free in `rest`, those on the least busy pipe first. Strands
    /// already placed in `rest` count with their segment's per-strand load in `whole`.
    fn free_by_demand(&self, whole: &Setup, rest: &Setup) -> Option<Vec<u32>> {
        let mut demands = vec![0.0; self.world.chip.pipes() as usize];
        let busiest = whole.segments.iter().map(|s| self.demand(s)).fold(0.0, f64::max);
        for (full, placed) in whole.segments.iter().zip(&rest.segments) {
            for cpu in &placed.cpus {
                demands[self.pipe(*cpu)] += self.demand(full);
            }
        }
        for beside in &rest.beside {
            let times = if beside.does == Idling::Spins { 2.0 } else { 1.0 };
            for cpu in &beside.cpus {
                demands[self.pipe(*cpu)] += times * busiest;
            }
        }
        let taken: Vec<u32> = rest.taken().collect();
        let mut free: Vec<u32> = (0..self.cpus).filter(|cpu| !taken.contains(cpu)).collect();
        let demand = |cpu: u32| demands[self.pipe(cpu)];
        free.sort_by(|a, b| demand(*a).total_cmp(&demand(*b)).then(a.cmp(b)));
        (!free.is_empty()).then_some(free)
    }

    /// Places replica `i` of every segment on core `i`, modulo the number of cores; `None` if they
    /// do not fit.
    fn by_flow(&self, setup: &Setup) -> Option<Setup> {
        let per_core = self.world.chip.strands_per_core();
        let mut moved = setup.clone();
        moved.segments.iter_mut().for_each(|segment| segment.cpus.clear());
        let mut taken: Vec<u32> = moved.taken().collect();
        let cores = self.cpus / per_core;
        for (segment, written) in moved.segments.iter_mut().zip(&setup.segments) {
            for replica in 0..written.cpus.len() as u32 {
                let core = replica % cores.max(1);
                let mut of_core = core * per_core..(core + 1) * per_core;
                let cpu = of_core.find(|cpu| !taken.contains(cpu) && *cpu < self.cpus)?;
                segment.cpus.push(cpu);
                taken.push(cpu);
            }
        }
        Some(moved)
    }
}
