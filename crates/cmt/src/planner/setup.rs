// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a mapping to a system to simulate, including its CPUs and the other threads on the
//! chip.
//!
//! ```text
//! strand of a segment   for each input, a task that polls for the first stage and does the work of
//!                       all stages, followed by a task for each second input of a stage, whose
//!                       polls are always empty
//! ring                  a queue for each connected pair of strands: writer w and reader r of
//!                       segments with a and b replicas are connected if w mod g = r mod g, where g
//!                       is the greatest common divisor of a and b
//!                       (a queue has one writer, so each task of w has its own)
//! source                a line for each replica of the first segment; the lines share the offered
//!                       load equally
//! ```
//!
//! If a ring has as many writers as readers, each writer has one reader, as with independent flows.
//! The work of a stage that not all packets reach is weighted by the fraction that do.

use crate::{
    Chip, Input, Misses, Poll, Queue, Runs, Source, Strand, System, Task, UnitUse, WhenFull, Work,
};
use linerate_path::costs::{GivenCosts, GivenWork, Idling};
use linerate_path::model::{FullRing, Path};
use std::ops::Range;

/// Assumed capacity of an interface's descriptor ring in packets.
pub(super) const LINE_RING: u32 = 512;

/// Assumed number of loads and stores per instruction if the path file does not specify it.
pub(super) const MEMORY_SHARE: f64 = 0.3;

/// Consecutive stages and the strands that run them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) stages: Range<usize>,
    /// Each replica's CPU.
    pub(super) cpus: Vec<u32>,
}

/// Strands outside the path, which handle no packets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outsiders {
    pub(super) name: String,
    pub(super) does: Idling,
    pub(super) cpus: Vec<u32>,
    pub(super) instructions: f64,
    pub(super) ns: f64,
    /// Cycles that each of these strands pauses after a poll.
    pub(super) slow_cycles: f64,
}

/// Placement of all strands on the chip, both in the path and outside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) segments: Vec<Placed>,
    pub(super) beside: Vec<Outsiders>,
    /// Stages whose second input is polled by separate strands.
    pub(super) relieved: Vec<usize>,
    /// Cycles that the path's strands pause after an empty poll.
    pub(super) slow_cycles: f64,
}

/// Properties of the path that the simulation needs.
#[derive(Clone, Debug)]
pub(super) struct World<'a> {
    pub(super) path: &'a Path,
    pub(super) costs: &'a GivenCosts,
    /// Each stage's work per packet.
    pub(super) works: Vec<GivenWork>,
    pub(super) chip: &'a Chip,
    /// Packets per second on all lines together; `None` if packets arrive faster than the path can
    /// accept them.
    pub(super) offered_per_s: Option<f64>,
}

impl Setup {
    /// Returns the CPUs that run something other than an endless loop.
    pub(super) fn taken(&self) -> impl Iterator<Item = u32> {
        let path = self.segments.iter().flat_map(|segment| &segment.cpus);
        let polls = self.beside.iter().filter(|beside| beside.does == Idling::Polls);
        path.chain(polls.flat_map(|beside| &beside.cpus)).copied()
    }

    /// Returns the setup without the spinning strands whose CPUs are needed by other strands.
    pub(super) fn made_way(mut self) -> Self {
        let taken: Vec<u32> = self.taken().collect();
        for beside in self.beside.iter_mut().filter(|beside| beside.does == Idling::Spins) {
            beside.cpus.retain(|cpu| !taken.contains(cpu));
        }
        self.beside.retain(|beside| !beside.cpus.is_empty());
        self
    }

    /// Returns the number of strands of the path.
    pub(super) fn strands(&self) -> usize {
        self.segments.iter().map(|segment| segment.cpus.len()).sum()
    }

    /// Returns the number of strands outside the path.
    pub(super) fn strands_outside(&self) -> usize {
        self.beside.iter().map(|beside| beside.cpus.len()).sum()
    }
}

impl World<'_> {
    /// Returns the path's work per packet in consecutive stages, with costs multiplied by `factor`.
    pub(super) fn work(&self, stages: Range<usize>, factor: f64) -> GivenWork {
        let mut sum = GivenWork::default();
        let mut bubbles = 0.0;
        for index in stages.clone() {
            let (work, cost) = (&self.works[index], &self.costs.stages[index]);
            let reach = cost.reach * cost.processed * factor;
            sum.instructions += work.instructions * reach;
            sum.l1_misses += work.l1_misses * reach;
            sum.l2_misses += work.l2_misses * reach;
            sum.io_ns += work.io_ns * reach;
            bubbles += work.bubble_cycles * work.instructions * reach;
        }
        // A packet that reaches none of the stages still takes one instruction.
        sum.instructions = sum.instructions.max(1.0);
        sum.bubble_cycles = bubbles / sum.instructions;
        if let Some(first) = self.works.get(stages.start) {
            sum.poll_instructions = first.poll_instructions.max(1.0);
            sum.poll_ns = first.poll_ns;
        }
        sum
    }

    /// Returns a strand's cycles per packet when it is alone on its pipe.
    pub(super) fn alone_cycles(&self, work: &GivenWork) -> f64 {
        work.instructions * (1.0 + work.bubble_cycles)
            + work.l1_misses * f64::from(self.chip.l2_cycles)
            + work.l2_misses * f64::from(self.chip.memory_cycles)
            + self.cycles(work.io_ns)
    }

    fn cycles(&self, ns: f64) -> f64 {
        ns * self.chip.clock_hz / 1e9
    }

    fn units(&self, instructions: f64) -> Vec<UnitUse> {
        let share = self.costs.memory_share.unwrap_or(MEMORY_SHARE);
        let used = |unit| UnitUse { unit, per_packet: share * instructions };
        self.chip.unit("lsu").map(used).into_iter().collect()
    }

    /// Returns the system to simulate for a setup, with costs multiplied by `factor`.
    pub(super) fn system(&self, setup: &Setup, factor: f64) -> System {
        let mut system = System {
            chip: self.chip.clone(),
            strands: Vec::new(),
            queues: Vec::new(),
            sources: Vec::new(),
        };
        let first = setup.segments.first().map_or(1, |segment| segment.cpus.len());
        let per_line = self.offered_per_s.map(|all| all / first as f64);
        // A strand needs at least one cycle per instruction of a packet.
        let most = self.work(setup.segments[0].stages.clone(), factor).instructions;
        let packets_per_s = per_line.unwrap_or(self.chip.clock_hz / most.max(1.0));
        system.sources = vec![Source { packets_per_s, ring: LINE_RING }; first];
        let mut inputs: Vec<Vec<Input>> =
            (0..first).map(|line| vec![Input::Source(line)]).collect();
        for (index, segment) in setup.segments.iter().enumerate() {
            let readers = setup.segments.get(index + 1).map_or(0, |next| next.cpus.len());
            let tasks: Vec<usize> = inputs.iter().map(Vec::len).collect();
            let (outputs, next) = self.rings(&tasks, readers, &mut system);
            for (replica, cpu) in segment.cpus.iter().enumerate() {
                let tasks = self.tasks(setup, segment, &inputs[replica], &outputs[replica], factor);
                let bubble_cycles = self.work(segment.stages.clone(), 1.0).bubble_cycles;
                system.strands.push(Strand {
                    name: format!("{index}.{replica}"),
                    cpu: *cpu,
                    runs: Runs::Packets { bubble_cycles, tasks },
                });
            }
            inputs = next;
        }
        // Cores without a strand of the path are left out, because they share nothing with it.
        let core = |cpu: u32| cpu / self.chip.strands_per_core();
        let with_path: Vec<u32> = system.strands.iter().map(|strand| core(strand.cpu)).collect();
        let beside = setup.beside.iter().flat_map(|one| self.outsiders(one));
        system.strands.extend(beside.filter(|strand| with_path.contains(&core(strand.cpu))));
        system
    }

    /// Creates the queues from one segment to the next. `tasks` holds the number of tasks of each
    /// strand in the segment. Returns the queues written by each task of each strand, and the
    /// inputs of each reader.
    fn rings(
        &self,
        tasks: &[usize],
        readers: usize,
        system: &mut System,
    ) -> (Vec<Vec<Vec<usize>>>, Vec<Vec<Input>>) {
        let mut outputs: Vec<Vec<Vec<usize>>> =
            tasks.iter().map(|tasks| vec![Vec::new(); *tasks]).collect();
        let mut inputs = vec![Vec::new(); readers];
        let common = greatest_common_divisor(tasks.len(), readers);
        for (writer, tasks) in outputs.iter_mut().enumerate() {
            for (reader, inputs) in inputs.iter_mut().enumerate() {
                if writer % common != reader % common {
                    continue;
                }
                // A queue has one writer and one reader, and each task counts as a writer.
                for outputs in tasks.iter_mut() {
                    outputs.push(system.queues.len());
                    inputs.push(Input::Queue(system.queues.len()));
                    system.queues.push(self.queue());
                }
            }
        }
        (outputs, inputs)
    }

    fn queue(&self) -> Queue {
        Queue {
            capacity: self.path.run.ring,
            hand_over_cycles: self.hand_over_cycles(),
            when_full: match self.path.run.full_ring {
                FullRing::Wait => WhenFull::Wait,
                FullRing::Drop => WhenFull::Drop,
            },
        }
    }

    /// Returns the handoff delay in cycles: as given in the file or, by default, the L2 latency.
    pub(super) fn hand_over_cycles(&self) -> u32 {
        let given = self.costs.handover_ns.map(|ns| self.cycles(ns));
        given.map_or(self.chip.l2_cycles, |cycles| cycles.round().min(1e6) as u32).max(1)
    }

    pub(super) fn tasks(
        &self,
        setup: &Setup,
        segment: &Placed,
        inputs: &[Input],
        outputs: &[Vec<usize>],
        factor: f64,
    ) -> Vec<Task> {
        let work = self.work(segment.stages.clone(), factor);
        let poll = Poll {
            instructions: work.poll_instructions,
            packet_stall_cycles: self.cycles(work.io_ns),
            empty_stall_cycles: self.cycles(work.poll_ns),
            slow_cycles: setup.slow_cycles,
        };
        let of = |(input, outputs): (&Input, &Vec<usize>)| Task {
            input: *input,
            poll,
            work: Work {
                instructions: work.instructions,
                misses: Misses { l1: work.l1_misses, l2: work.l2_misses },
                units: self.units(work.instructions),
            },
            outputs: outputs.clone(),
        };
        let second: Vec<Task> =
            self.second_inputs(setup, segment.stages.clone()).map(never_finds).collect();
        let each = inputs.iter().zip(outputs).map(of);
        each.flat_map(|task| [task].into_iter().chain(second.iter().cloned())).collect()
    }

    /// Returns the polls of the second inputs of `stages`, which never find a packet, except for
    /// those that separate strands poll.
    pub(super) fn second_inputs(
        &self,
        setup: &Setup,
        stages: Range<usize>,
    ) -> impl Iterator<Item = Poll> {
        let own = stages.filter(|stage| !setup.relieved.contains(stage));
        let works = own.map(|stage| &self.works[stage]);
        let with_one = works.filter(|work| work.turn_instructions > 0.0 || work.turn_ns > 0.0);
        with_one.map(|work| empty_poll(work.turn_instructions, self.cycles(work.turn_ns), 0.0))
    }

    /// Returns what a strand outside the path does.
    pub(super) fn idles(&self, beside: &Outsiders) -> Runs {
        match beside.does {
            Idling::Spins => Runs::Busy,
            Idling::Polls => Runs::Packets {
                bubble_cycles: self.works.first().map_or(0.0, |work| work.bubble_cycles),
                tasks: vec![never_finds(empty_poll(
                    beside.instructions,
                    self.cycles(beside.ns),
                    beside.slow_cycles,
                ))],
            },
        }
    }

    fn outsiders(&self, outsiders: &Outsiders) -> Vec<Strand> {
        let runs = self.idles(outsiders);
        let strand = |(index, cpu): (usize, &u32)| Strand {
            name: format!("{} {index}", outsiders.name),
            cpu: *cpu,
            runs: runs.clone(),
        };
        outsiders.cpus.iter().enumerate().map(strand).collect()
    }
}

fn empty_poll(instructions: f64, cycles: f64, slow_cycles: f64) -> Poll {
    Poll {
        instructions: instructions.max(1.0),
        packet_stall_cycles: 0.0,
        empty_stall_cycles: cycles,
        slow_cycles,
    }
}

/// Returns a task whose polls never find a packet.
fn never_finds(poll: Poll) -> Task {
    Task {
        input: Input::Nothing,
        poll,
        work: Work { instructions: 1.0, misses: Misses::default(), units: Vec::new() },
        outputs: Vec::new(),
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
