// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes a strand's instructions, independently of when the pipe issues them.
//!
//! Most instructions are *quiet*: they have bubbles, but no other stalls or effects. The number of
//! quiet instructions before the next one that is not quiet is known in advance, so the pipe simply
//! counts them down; this module handles only the others.

use super::link::{Links, Ring};
use super::outcome::{Stalls, TaskOutcome};
use super::share::{Gaps, Share};
use super::system::{Input, Task, WhenFull};
use linerate_record::random::Random;

/// A cycle beyond the end of any run.
pub(super) const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The strand polls for a packet.
    Poll,
    /// The strand processes a packet.
    Work,
    /// The strand waits for room in a queue, to hand off a packet.
    Offer,
}

/// Execution state of a strand that handles packets.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    tasks: Vec<Job>,
    /// Index of the current task.
    at: usize,
    phase: Phase,
    /// Number of instructions left in the phase.
    left: u64,
    random: Random,
    l2_cycles: u64,
    memory_cycles: u64,
    /// Number of instructions issued so far, without the quiet ones that the pipe is still counting
    /// down.
    pub(super) instructions: u64,
    /// Stall cycles so far, excluding bubbles.
    pub(super) stalls: Stalls,
    /// Stalls of the last instruction that the pipe passed to this thread, bubbles excluded.
    pub(super) last: Stalls,
}

/// Execution state of a task.
#[derive(Clone, Debug)]
struct Job {
    input: Input,
    poll_instructions: Share,
    packet_stall: Share,
    empty_stall: Share,
    slow: Share,
    instructions: Share,
    misses: Option<Gaps>,
    /// Fraction of L1 misses that also miss L2.
    l2_share: Share,
    units: Vec<(usize, Gaps)>,
    outputs: Vec<usize>,
    next_output: usize,
    counts: TaskOutcome,
}

impl Job {
    /// Creates a task's initial state. `unit` maps a unit to the instance that serves this strand.
    fn new(task: &Task, unit: impl Fn(usize) -> usize, random: &mut Random) -> Self {
        let (poll, work) = (&task.poll, &task.work);
        let misses = Gaps::new(work.misses.l1, work.instructions, random);
        let mut units = Vec::new();
        for used in &work.units {
            let gaps = Gaps::new(used.per_packet, work.instructions, random);
            units.extend(gaps.map(|gaps| (unit(used.unit), gaps)));
        }
        let l2_share = if misses.is_some() { work.misses.l2 / work.misses.l1 } else { 0.0 };
        Self {
            input: task.input,
            poll_instructions: Share::new(poll.instructions),
            packet_stall: Share::new(poll.packet_stall_cycles),
            empty_stall: Share::new(poll.empty_stall_cycles),
            slow: Share::new(poll.slow_cycles),
            instructions: Share::new(work.instructions),
            misses,
            l2_share: Share::new(l2_share),
            units,
            outputs: task.outputs.clone(),
            next_output: 0,
            counts: TaskOutcome::default(),
        }
    }

    fn quiet(&self) -> u64 {
        let units = self.units.iter().map(|(_, gaps)| gaps.quiet());
        units.chain(self.misses.iter().map(Gaps::quiet)).min().unwrap_or(NEVER)
    }

    fn looks_and_finds(&mut self, cycle: u64, links: &mut Links) -> bool {
        match self.input {
            Input::Queue(index) => links.queues[index].take(cycle),
            Input::Source(index) => links.lines[index].take(cycle),
            Input::Nothing => false,
        }
    }
}

impl Thread {
    /// Creates a strand that is about to start its first poll. Also returns the number of quiet
    /// instructions with which it begins.
    pub(super) fn new(
        tasks: &[Task],
        unit: impl Fn(usize) -> usize,
        latencies: (u32, u32),
        mut random: Random,
    ) -> (Self, u64) {
        let mut jobs: Vec<Job> = Vec::new();
        for task in tasks {
            jobs.push(Job::new(task, &unit, &mut random));
        }
        let left = jobs[0].poll_instructions.next();
        let thread = Self {
            tasks: jobs,
            at: 0,
            phase: Phase::Poll,
            left,
            random,
            l2_cycles: u64::from(latencies.0),
            memory_cycles: u64::from(latencies.1),
            instructions: 0,
            stalls: Stalls::default(),
            last: Stalls::default(),
        };
        (thread, left - 1)
    }

    /// Returns the packet and poll counts of each task.
    pub(super) fn tasks(&self) -> Vec<TaskOutcome> {
        self.tasks.iter().map(|job| job.counts).collect()
    }

    /// Issues the instruction that follows `quiet` quiet ones, at `cycle`. Returns its stall
    /// cycles, excluding bubbles, and the number of quiet instructions that follow it.
    pub(super) fn issue(&mut self, quiet: u64, cycle: u64, links: &mut Links) -> (u64, u64) {
        self.instructions += quiet + 1;
        self.left -= quiet + 1;
        let mut stalls = Stalls::default();
        if self.phase == Phase::Work {
            self.work(quiet, cycle, links, &mut stalls);
        }
        if self.left == 0 {
            match self.phase {
                Phase::Poll => self.end_poll(cycle, links, &mut stalls),
                Phase::Work | Phase::Offer => self.offer(cycle, links),
            }
        }
        self.stalls.add(&stalls);
        self.last = stalls;
        let ahead = self.left - 1;
        let ahead = match self.phase {
            Phase::Work => ahead.min(self.tasks[self.at].quiet()),
            Phase::Poll | Phase::Offer => ahead,
        };
        (stalls.sum(), ahead)
    }

    /// Executes one packet-processing instruction, and adds the stalls for its misses and unit
    /// waits to `stalls`.
    fn work(&mut self, quiet: u64, cycle: u64, links: &mut Links, stalls: &mut Stalls) {
        let job = &mut self.tasks[self.at];
        if let Some(gaps) = &mut job.misses {
            gaps.pass(quiet);
            for _ in 0..gaps.events(&mut self.random) {
                stalls.l1 += self.l2_cycles;
                stalls.l2 += job.l2_share.next() * self.memory_cycles;
            }
        }
        for (unit, gaps) in &mut job.units {
            gaps.pass(quiet);
            for _ in 0..gaps.events(&mut self.random) {
                stalls.units += links.units[*unit].wait(cycle);
            }
        }
    }

    fn end_poll(&mut self, cycle: u64, links: &mut Links, stalls: &mut Stalls) {
        let job = &mut self.tasks[self.at];
        if job.looks_and_finds(cycle, links) {
            stalls.io += job.packet_stall.next();
            self.phase = Phase::Work;
            self.left = job.instructions.next();
        } else {
            job.counts.idle_polls += 1;
            stalls.io += job.empty_stall.next();
            stalls.slow += job.slow.next();
            self.next_task();
        }
    }

    /// Hands off the packet. If the queue is full, drops it or prepares to retry.
    fn offer(&mut self, cycle: u64, links: &mut Links) {
        let job = &mut self.tasks[self.at];
        let ring: Option<&mut Ring> =
            job.outputs.get(job.next_output).map(|queue| &mut links.queues[*queue]);
        let waits = ring.as_ref().is_some_and(|ring| ring.when_full == WhenFull::Wait);
        if ring.is_none_or(|ring| ring.put(cycle)) {
            job.counts.packets += 1;
        } else if waits {
            job.counts.blocked += 1;
            self.phase = Phase::Offer;
            self.left = job.poll_instructions.next();
            return;
        } else {
            job.counts.dropped += 1;
        }
        job.next_output += 1;
        if job.next_output >= job.outputs.len() {
            job.next_output = 0;
        }
        self.next_task();
    }

    fn next_task(&mut self) {
        self.at += 1;
        if self.at == self.tasks.len() {
            self.at = 0;
        }
        self.phase = Phase::Poll;
        self.left = self.tasks[self.at].poll_instructions.next();
    }
}
