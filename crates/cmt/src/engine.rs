// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates a chip's pipes in time order.
//!
//! Pipes whose strands share a unit form a *group*, which is simulated in lockstep: in even cycles
//! the lowest-numbered pipe issues first, in odd cycles the highest-numbered. Groups interact only
//! through queues. Each group is simulated separately for a window as long as the shortest handoff
//! delay of any queue between two groups:
//!
//! ```text
//! start = the first cycle in which any group issues
//! end   = start + shortest handoff between groups
//! for each group: issue in all cycles before end
//! ```
//!
//! This is exact: a change that a group makes to a queue at a cycle `t >= start` is visible from
//! `t + handoff >= end`, so no other group can see it within this window, whichever group was
//! simulated first.
//!
//! On a pipe whose strands all run `while(1)`, strand `k` of `n` issues in the cycles `k`, `k + n`,
//! `k + 2n`, .... This is computed, not simulated.

use super::chip::{Chip, Scope};
use super::link::{Line, Links, Ring, Turns};
use super::outcome::{Outcome, Run, SourceOutcome, StrandOutcome};
use super::pipe::Pipe;
use super::system::{Fault, Input, Runs, Strand, System};
use super::thread::{NEVER, Thread};
use linerate_record::random::Random;
use std::collections::BTreeSet;

/// Simulates a system.
///
/// # Errors
/// Returns an error if [`System::check`] finds a fault, or if the number of cycles in
/// `run` is zero or too large.
pub fn simulate(system: &System, run: &Run) -> Result<Outcome, Fault> {
    system.check()?;
    let all = run.warm_up_cycles.saturating_add(run.cycles);
    if run.cycles == 0 || all > Run::CYCLES_MAX {
        return Err(Fault::Number {
            of: "the run".to_owned(),
            what: "cycles",
            value: all as f64,
            must: "from 1 to 2147483648, warm-up included",
        });
    }
    Ok(Engine::new(system, run.seed).run(run))
}

struct Engine<'s> {
    system: &'s System,
    /// All pipes on the chip, indexed by pipe number. Pipes without running strands remain empty.
    pipes: Vec<Pipe>,
    groups: Vec<Vec<usize>>,
    /// For each pipe, how many strands run `while(1)`; `None` if any strand handles packets.
    all_busy: Vec<Option<u64>>,
    window: u64,
    links: Links,
}

/// What has been counted since the start of the simulation.
struct Counts {
    strands: Vec<StrandOutcome>,
    sources: Vec<SourceOutcome>,
}

impl<'s> Engine<'s> {
    fn new(system: &'s System, seed: u64) -> Self {
        let chip = &system.chip;
        let mut pipes = vec![Pipe::new(); chip.pipes() as usize];
        for (index, strand) in system.strands.iter().enumerate() {
            let (pipe, place) = position(chip, strand.cpu);
            match &strand.runs {
                Runs::Packets { bubble_cycles, tasks } => {
                    let unit = |unit| instance(chip, unit, pipe);
                    let latencies = (chip.l2_cycles, chip.memory_cycles);
                    let random = Random::new(seed.wrapping_add(index as u64 + 1).rotate_left(32));
                    let thread = Thread::new(tasks, unit, latencies, random);
                    pipes[pipe].put(place, *bubble_cycles, thread);
                }
                Runs::Busy => pipes[pipe].put_busy(place),
                Runs::Parked => {}
            }
        }
        let all_busy = (0..pipes.len()).map(|pipe| all_busy(system, pipe)).collect();
        let groups = groups(system);
        let window = window(system, &groups);
        Self { system, pipes, groups, all_busy, window, links: links(system) }
    }

    fn run(mut self, run: &Run) -> Outcome {
        let end = run.warm_up_cycles + run.cycles;
        self.advance(run.warm_up_cycles);
        let before = self.counts(run.warm_up_cycles);
        self.advance(end);
        let after = self.counts(end);
        let strands = after.strands.iter().zip(&before.strands).map(|(a, b)| a.since(b)).collect();
        let sources = after.sources.iter().zip(&before.sources).map(|(a, b)| a.since(b)).collect();
        let per_core = self.system.chip.pipes_per_core as usize;
        let cores: BTreeSet<usize> =
            self.groups.iter().flatten().map(|pipe| pipe / per_core).collect();
        Outcome {
            cycles: run.cycles,
            clock_hz: self.system.chip.clock_hz,
            strands,
            sources,
            core_cycles: end * cores.len() as u64,
        }
    }

    /// Simulates all cycles before `end`.
    fn advance(&mut self, end: u64) {
        let Self { pipes, groups, links, window, .. } = self;
        loop {
            let issues = groups.iter().flatten().map(|pipe| pipes[*pipe].next_issue());
            let start = issues.min().unwrap_or(NEVER);
            if start >= end {
                return;
            }
            let window_end = end.min(start.saturating_add(*window));
            for group in groups.iter() {
                match group.as_slice() {
                    [pipe] => pipes[*pipe].run_until(window_end, links),
                    several => run_together(pipes, several, window_end, links),
                }
            }
        }
    }

    /// Returns the counts for all cycles before `end`. The engine must have advanced to `end`.
    fn counts(&mut self, end: u64) -> Counts {
        let count = |strand: &Strand| {
            let (pipe, place) = position(&self.system.chip, strand.cpu);
            let counts = match self.all_busy[pipe] {
                Some(strands) if strand.runs == Runs::Busy => {
                    busy(self.system, strand, strands, end)
                }
                _ => self.pipes[pipe].counts(place, end),
            };
            StrandOutcome { name: strand.name.clone(), cpu: strand.cpu, ..counts }
        };
        let strands = self.system.strands.iter().map(count).collect();
        let of_line = |line: &mut Line| {
            line.bring_until(end);
            SourceOutcome { offered: line.offered, dropped: line.dropped }
        };
        Counts { strands, sources: self.links.lines.iter_mut().map(of_line).collect() }
    }
}

/// Returns a logical CPU's pipe, and its position on the pipe.
fn position(chip: &Chip, cpu: u32) -> (usize, usize) {
    ((cpu / chip.strands_per_pipe) as usize, (cpu % chip.strands_per_pipe) as usize)
}

fn on_pipe(system: &System, pipe: usize) -> impl Iterator<Item = &Strand> {
    let here = move |strand: &&Strand| position(&system.chip, strand.cpu).0 == pipe;
    system.strands.iter().filter(here)
}

fn all_busy(system: &System, pipe: usize) -> Option<u64> {
    let handles = |strand: &Strand| matches!(strand.runs, Runs::Packets { .. });
    if on_pipe(system, pipe).any(handles) {
        return None;
    }
    Some(on_pipe(system, pipe).filter(|strand| strand.runs == Runs::Busy).count() as u64)
}

/// Returns the counts for a strand on a pipe with `strands` strands that all run `while(1)`.
fn busy(system: &System, strand: &Strand, strands: u64, end: u64) -> StrandOutcome {
    let (pipe, place) = position(&system.chip, strand.cpu);
    let before =
        |other: &&Strand| other.runs == Runs::Busy && position(&system.chip, other.cpu).1 < place;
    let turn = on_pipe(system, pipe).filter(before).count() as u64;
    let instructions = (end + strands - 1 - turn) / strands;
    StrandOutcome { instructions, waited: end - instructions, ..StrandOutcome::default() }
}

/// Returns each unit's index in `chip.units` and its number of instances.
fn instances(chip: &Chip) -> impl Iterator<Item = (usize, u32)> {
    chip.units.iter().enumerate().map(|(index, unit)| {
        let times = match unit.scope {
            Scope::Chip => 1,
            Scope::Core => chip.cores,
            Scope::Pipe => chip.pipes(),
        };
        (index, times)
    })
}

/// Returns the chip-wide index of the `unit` instance that serves a pipe.
fn instance(chip: &Chip, unit: usize, pipe: usize) -> usize {
    let first: u32 = instances(chip).take(unit).map(|(_, times)| times).sum();
    let offset = match chip.units[unit].scope {
        Scope::Chip => 0,
        Scope::Core => pipe / chip.pipes_per_core as usize,
        Scope::Pipe => pipe,
    };
    first as usize + offset
}

fn links(system: &System) -> Links {
    let chip = &system.chip;
    let turns = |(unit, times): (usize, u32)| {
        let interval = u64::from(chip.units[unit].interval_cycles);
        std::iter::repeat_n(Turns { free_from: 0, interval }, times as usize)
    };
    Links {
        queues: system.queues.iter().map(Ring::new).collect(),
        lines: system.sources.iter().map(|source| Line::new(source, chip.clock_hz)).collect(),
        units: instances(chip).flat_map(turns).collect(),
    }
}

/// Returns the pipes to simulate, grouped by shared units.
fn groups(system: &System) -> Vec<Vec<usize>> {
    let chip = &system.chip;
    let mut groups: Vec<(Vec<usize>, BTreeSet<usize>)> = Vec::new();
    for pipe in (0..chip.pipes() as usize).filter(|pipe| all_busy(system, *pipe).is_none()) {
        let mut used = BTreeSet::new();
        for strand in on_pipe(system, pipe) {
            let Runs::Packets { tasks, .. } = &strand.runs else { continue };
            let uses = tasks.iter().flat_map(|task| &task.work.units);
            used.extend(uses.map(|used| instance(chip, used.unit, pipe)));
        }
        let (mut pipes, mut units) = (vec![pipe], used);
        groups.retain(|(other_pipes, other_units)| {
            let apart = units.is_disjoint(other_units);
            if !apart {
                pipes.extend(other_pipes);
                units.extend(other_units);
            }
            apart
        });
        pipes.sort_unstable();
        groups.push((pipes, units));
    }
    groups.into_iter().map(|(pipes, _)| pipes).collect()
}

/// Returns the shortest handoff delay, in cycles, of any queue between two groups.
fn window(system: &System, groups: &[Vec<usize>]) -> u64 {
    let group_of = |ends: &dyn Fn(&super::Task) -> bool| {
        let strand = system.strands.iter().find(|strand| match &strand.runs {
            Runs::Packets { tasks, .. } => tasks.iter().any(ends),
            Runs::Busy | Runs::Parked => false,
        });
        let pipe = position(&system.chip, strand?.cpu).0;
        groups.iter().position(|group| group.contains(&pipe))
    };
    let between = system.queues.iter().enumerate().filter(|(index, _)| {
        let writer = group_of(&|task| task.outputs.contains(index));
        let reader = group_of(&|task| task.input == Input::Queue(*index));
        writer.is_some() && reader.is_some() && writer != reader
    });
    between.map(|(_, queue)| u64::from(queue.hand_over_cycles)).min().unwrap_or(NEVER)
}

/// Simulates a group's pipes for all cycles before `end`.
fn run_together(pipes: &mut [Pipe], group: &[usize], end: u64, links: &mut Links) {
    loop {
        let issues = group.iter().map(|pipe| pipes[*pipe].next_issue());
        let cycle = issues.min().unwrap_or(NEVER);
        if cycle >= end {
            return;
        }
        for turn in 0..group.len() {
            let turn = if cycle.is_multiple_of(2) { turn } else { group.len() - 1 - turn };
            let pipe = &mut pipes[group[turn]];
            if pipe.next_issue() == cycle {
                pipe.run_until(cycle + 1, links);
            }
        }
    }
}
