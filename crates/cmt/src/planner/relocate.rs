// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the best placement for a setup's strands, and proposes it as a single change.
//!
//! The capacities of kinds of pipes (see `cmt`'s placements) determine which strands share a pipe;
//! the result is simulated as a whole like any other change. This module places the strands of the
//! path, and the strands outside it that poll on its cores. If any strand outside the path spins,
//! endless loops are assumed to fill every pipe. Other strands outside the path keep their CPUs if
//! possible; otherwise they move to free CPUs, those on the pipe with the fewest strands first.

use super::setup::{LINE_RING, Outsiders, Setup, World};
use crate::{Alike, Best, Fault, Input, Run, Runs, Wanted, best};
use linerate_path::costs::Idling;
use linerate_plan::predictor::Changed;
use linerate_record::plan::Change;

/// A placement with its estimated rate, before it is simulated as a whole.
pub(super) struct Relocated {
    pub(super) changed: Changed<Setup>,
    /// A flow's rate in kpps, estimated from the pipes' capacities.
    pub(super) kpps: f64,
}

/// Returns the best placement for the strands in `setup` on the first `cpus` CPUs, with no flow
/// faster than `most_kpps`; `None` if there are too many kinds of pipes to examine. `run` holds the
/// settings for simulating one kind at one rate.
pub(super) fn relocated(
    world: &World<'_>,
    setup: &Setup,
    cpus: u32,
    most_kpps: f64,
    run: &Run,
) -> Result<Option<Relocated>, Fault> {
    let per_core = world.chip.strands_per_core();
    let core = |cpu: &u32| cpu / per_core;
    let cores: Vec<u32> = setup.segments.iter().flat_map(|s| &s.cpus).map(core).collect();
    let is_near = |beside: &&Outsiders| {
        beside.does == Idling::Polls && beside.cpus.iter().any(|cpu| cores.contains(&core(cpu)))
    };
    let near: Vec<&Outsiders> = setup.beside.iter().filter(is_near).collect();
    let flows = f64::from(world.costs.flows);
    let of_path = setup.segments.iter().map(|segment| Alike {
        runs: Runs::Packets {
            bubble_cycles: world.work(segment.stages.clone(), 1.0).bubble_cycles,
            tasks: world.tasks(setup, segment, &[Input::Source(0)], &[Vec::new()], 1.0),
        },
        count: segment.cpus.len() as u32,
        share: flows / segment.cpus.len() as f64,
    });
    let of_near = near.iter().map(|beside| Alike {
        runs: world.idles(beside),
        count: beside.cpus.len() as u32,
        share: 1.0,
    });
    let alike: Vec<Alike> = of_path.chain(of_near).collect();
    let wanted = Wanted {
        chip: world.chip,
        pipes: (cpus / world.chip.strands_per_pipe).min(world.chip.pipes()),
        alike: &alike,
        spins: setup.beside.iter().any(|beside| beside.does == Idling::Spins),
        most_per_s: most_kpps * 1e3,
        ring: LINE_RING,
    };
    let Some(found) = best(&wanted, run)? else { return Ok(None) };
    let near: Vec<String> = near.into_iter().map(|beside| beside.name.clone()).collect();
    let name = named(world, setup, &near, &found);
    let setting = placed(setup, &near, &found, world.chip.strands_per_pipe, cpus).made_way();
    let changed = Changed { name, kind: Change::Place, setting };
    Ok(Some(Relocated { changed, kpps: found.kpps }))
}

/// Describes what runs on the pipes, grouping identical pipes.
fn named(world: &World<'_>, setup: &Setup, near: &[String], found: &Best) -> String {
    let segments = setup.segments.iter();
    let segments = segments.map(|one| linerate_plan::search::runs(world.path, one.stages.clone()));
    let names: Vec<String> = segments.chain(near.iter().cloned()).collect();
    let mut kinds: Vec<(&Vec<u32>, usize)> = Vec::new();
    for pipe in &found.pipes {
        match kinds.iter_mut().find(|(kind, _)| *kind == pipe) {
            Some((_, times)) => *times += 1,
            None => kinds.push((pipe, 1)),
        }
    }
    let words = |(kind, times): &(&Vec<u32>, usize)| {
        let strands = names.iter().zip(kind.iter()).filter(|(_, count)| **count > 0);
        let strands = strands.map(|(name, count)| format!("{count} `{name}`"));
        let strands = strands.collect::<Vec<_>>().join(" + ");
        match times {
            1 => strands,
            times => format!("{times} times {strands}"),
        }
    };
    let pipes = kinds.iter().map(words).collect::<Vec<_>>().join("; ");
    format!("assign strands to pipes: {pipes}")
}

/// Returns the setup with its strands moved to the selected pipes, starting with the first pipe.
/// Unplaced strands outside the path get the remaining CPUs.
fn placed(setup: &Setup, near: &[String], found: &Best, per_pipe: u32, cpus: u32) -> Setup {
    let mut moved = setup.clone();
    moved.segments.iter_mut().for_each(|segment| segment.cpus.clear());
    let mut taken = vec![0; found.pipes.len()];
    let mut of_near = vec![Vec::new(); near.len()];
    for (pipe, kind) in (0..).zip(&found.pipes) {
        let mut cpu = pipe * per_pipe;
        for (role, times) in kind.iter().enumerate() {
            let to = match moved.segments.get_mut(role) {
                Some(segment) => &mut segment.cpus,
                None => &mut of_near[role - setup.segments.len()],
            };
            to.extend(cpu..cpu + times);
            cpu += times;
        }
        taken[pipe as usize] = cpu - pipe * per_pipe;
    }
    for (name, cpus) in near.iter().zip(of_near) {
        let beside = moved.beside.iter_mut().find(|beside| beside.name == *name);
        beside.expect("the setup has a group with this name").cpus = cpus;
    }
    let load = |cpu: u32| taken.get((cpu / per_pipe) as usize).copied().unwrap_or(0);
    let is_free = |cpu: &u32| cpu % per_pipe >= load(*cpu);
    let mut free: Vec<u32> = (0..cpus).filter(is_free).collect();
    free.sort_by_key(|cpu| (load(*cpu), *cpu));
    let far =
        |beside: &&mut Outsiders| beside.does == Idling::Polls && !near.contains(&beside.name);
    // Strands that can keep their CPUs do so; then the others move.
    let stays: Vec<u32> =
        moved.beside.iter_mut().filter(far).flat_map(|b| b.cpus.clone()).collect();
    let mut open: Vec<u32> = free.iter().copied().filter(|cpu| !stays.contains(cpu)).collect();
    for beside in moved.beside.iter_mut().filter(far) {
        for cpu in &mut beside.cpus {
            if !free.contains(cpu) && !open.is_empty() {
                *cpu = open.remove(0);
            }
        }
    }
    moved
}
