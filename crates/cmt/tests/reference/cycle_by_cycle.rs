// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reference simulator for strands that advances cycle by cycle without shortcuts, and hence
//! slowly.

use linerate_cmt::{
    Input, Queue, Runs, Scope, SourceOutcome, Strand, StrandOutcome, System, Task, TaskOutcome,
    WhenFull,
};
use std::collections::VecDeque;

/// SplitMix64 random number generator, as defined by its authors.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        b ^ (b >> 31)
    }
}

/// Converts a value to fixed point with 32 fractional bits.
fn fixed(value: f64) -> u128 {
    (value * 4_294_967_296.0).round() as u128
}

/// Integers with a fractional mean: the sum of the first `k` is `k` times the mean, rounded down.
struct Multiples {
    mean: u128,
    sum: u128,
}

impl Multiples {
    fn new(mean: f64) -> Self {
        Self { mean: fixed(mean), sum: 0 }
    }

    fn next(&mut self) -> u64 {
        let before = self.sum >> 32;
        self.sum += self.mean;
        ((self.sum >> 32) - before) as u64
    }
}

/// Positions of events in the instruction stream.
struct Events {
    twice_mean: u128,
    next: u128,
    passed: u128,
}

impl Events {
    fn among(events: f64, instructions: f64, mix: &mut Mix) -> Option<Self> {
        if events == 0.0 {
            return None;
        }
        let mut all = Self { twice_mean: fixed(2.0 * instructions / events), next: 0, passed: 0 };
        all.draw(mix);
        Some(all)
    }

    fn draw(&mut self, mix: &mut Mix) {
        self.next += (self.twice_mean * u128::from(mix.next() >> 32)) >> 32;
    }

    fn of_next_instruction(&mut self, mix: &mut Mix) -> u64 {
        let mut events = 0;
        while self.next >> 32 == self.passed {
            events += 1;
            self.draw(mix);
        }
        self.passed += 1;
        events
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Cause {
    Bubble,
    L1,
    L2,
    Unit,
    Io,
    Slow,
}

struct Job {
    task: Task,
    poll: Multiples,
    packet_stall: Multiples,
    empty_stall: Multiples,
    slow: Multiples,
    work: Multiples,
    misses: Option<Events>,
    beyond_l2: Multiples,
    units: Vec<(usize, Option<Events>)>,
    output: usize,
}

#[derive(PartialEq)]
enum Doing {
    Polling,
    Working,
    Offering,
}

struct Slow {
    index: usize,
    jobs: Vec<Job>,
    busy: bool,
    bubble: Multiples,
    at: usize,
    doing: Doing,
    left: u64,
    mix: Mix,
    last_issue: Option<u64>,
    /// Causes of the upcoming stall cycles, one per cycle.
    stalls: VecDeque<Cause>,
}

struct SlowQueue {
    queue: Queue,
    /// When the unread packets were written, and when slots became free, in cycles.
    packets: VecDeque<u64>,
    freed: VecDeque<u64>,
}

struct World<'s> {
    system: &'s System,
    strands: Vec<Slow>,
    queues: Vec<SlowQueue>,
    waiting: Vec<u32>,
    /// For each unit instance, the cycle from which it is free.
    units: Vec<Vec<u64>>,
    counts: Vec<StrandOutcome>,
    sources: Vec<SourceOutcome>,
}

impl<'s> World<'s> {
    fn new(system: &'s System, seed: u64) -> Self {
        let strands = system.strands.iter().enumerate().filter_map(|(index, strand)| {
            let mut mix = Mix(seed.wrapping_add(index as u64 + 1).rotate_left(32));
            let (bubble, jobs) = match &strand.runs {
                Runs::Parked => return None,
                Runs::Busy => (0.0, Vec::new()),
                Runs::Packets { bubble_cycles, tasks } => {
                    (*bubble_cycles, tasks.iter().map(|task| job(task, &mut mix)).collect())
                }
            };
            let mut slow = Slow {
                index,
                busy: jobs.is_empty(),
                jobs,
                bubble: Multiples::new(bubble),
                at: 0,
                doing: Doing::Polling,
                left: u64::MAX,
                mix,
                last_issue: None,
                stalls: VecDeque::new(),
            };
            if let Some(job) = slow.jobs.first_mut() {
                slow.left = job.poll.next();
            }
            Some(slow)
        });
        let queue = |queue: &Queue| SlowQueue {
            queue: *queue,
            packets: VecDeque::new(),
            freed: vec![0; queue.capacity as usize].into(),
        };
        let counts = |strand: &Strand| StrandOutcome {
            name: strand.name.clone(),
            cpu: strand.cpu,
            tasks: match &strand.runs {
                Runs::Packets { tasks, .. } => vec![TaskOutcome::default(); tasks.len()],
                Runs::Busy | Runs::Parked => Vec::new(),
            },
            ..StrandOutcome::default()
        };
        Self {
            system,
            strands: strands.collect(),
            queues: system.queues.iter().map(queue).collect(),
            waiting: vec![0; system.sources.len()],
            units: vec![vec![0; system.chip.pipes() as usize]; system.chip.units.len()],
            counts: system.strands.iter().map(counts).collect(),
            sources: vec![SourceOutcome::default(); system.sources.len()],
        }
    }

    fn cycle(&mut self, cycle: u64) {
        for (index, source) in self.system.sources.iter().enumerate() {
            let interval = fixed(self.system.chip.clock_hz / source.packets_per_s);
            let by = |cycle: u64| ((u128::from(cycle + 1) << 32) - 1) / interval;
            let before = if cycle == 0 { 0 } else { by(cycle - 1) };
            for _ in before..by(cycle) {
                self.sources[index].offered += 1;
                match self.waiting[index] < source.ring {
                    true => self.waiting[index] += 1,
                    false => self.sources[index].dropped += 1,
                }
            }
        }
        let pipes = self.system.chip.pipes();
        for turn in 0..pipes {
            let pipe = if cycle.is_multiple_of(2) { turn } else { pipes - 1 - turn };
            self.pipe(pipe, cycle);
        }
    }

    fn pipe(&mut self, pipe: u32, cycle: u64) {
        let per_pipe = self.system.chip.strands_per_pipe;
        let cpu = |slow: &Slow| self.system.strands[slow.index].cpu;
        let here = |slow: &Slow| cpu(slow) / per_pipe == pipe;
        let ready = self.strands.iter().enumerate();
        let ready = ready.filter(|(_, slow)| here(slow) && slow.stalls.is_empty());
        let chosen = ready.min_by_key(|(_, s)| (s.last_issue, cpu(s))).map(|(at, _)| at);
        for at in 0..self.strands.len() {
            let slow = &mut self.strands[at];
            if self.system.strands[slow.index].cpu / per_pipe != pipe {
                continue;
            }
            let counts = &mut self.counts[slow.index];
            if Some(at) == chosen {
                counts.instructions += 1;
                slow.last_issue = Some(cycle);
                self.issue(at, pipe, cycle);
            } else {
                let stalls = &mut counts.stalls;
                *(match slow.stalls.pop_front() {
                    None => &mut counts.waited,
                    Some(Cause::Bubble) => &mut stalls.bubbles,
                    Some(Cause::L1) => &mut stalls.l1,
                    Some(Cause::L2) => &mut stalls.l2,
                    Some(Cause::Unit) => &mut stalls.units,
                    Some(Cause::Io) => &mut stalls.io,
                    Some(Cause::Slow) => &mut stalls.slow,
                }) += 1;
            }
        }
    }

    fn issue(&mut self, at: usize, pipe: u32, cycle: u64) {
        let slow = &mut self.strands[at];
        if slow.busy {
            return;
        }
        let chip = &self.system.chip;
        let mut stalls = vec![(Cause::Bubble, slow.bubble.next())];
        slow.left -= 1;
        let job = &mut slow.jobs[slow.at];
        if slow.doing == Doing::Working {
            let events = job.misses.as_mut().map_or(0, |e| e.of_next_instruction(&mut slow.mix));
            let beyond: u64 = (0..events).map(|_| job.beyond_l2.next()).sum();
            stalls.push((Cause::L1, events * u64::from(chip.l2_cycles)));
            stalls.push((Cause::L2, beyond * u64::from(chip.memory_cycles)));
            for (unit, events) in &mut job.units {
                let place = match chip.units[*unit].scope {
                    Scope::Chip => 0,
                    Scope::Core => pipe / chip.pipes_per_core,
                    Scope::Pipe => pipe,
                };
                let free = &mut self.units[*unit][place as usize];
                let events = events.as_mut().map_or(0, |e| e.of_next_instruction(&mut slow.mix));
                for _ in 0..events {
                    let start = cycle.max(*free);
                    *free = start + u64::from(chip.units[*unit].interval_cycles);
                    stalls.push((Cause::Unit, start - cycle));
                }
            }
        }
        if slow.left == 0 {
            self.end(at, cycle, &mut stalls);
        }
        for (cause, cycles) in stalls {
            self.strands[at].stalls.extend((0..cycles).map(|_| cause));
        }
    }

    fn end(&mut self, at: usize, cycle: u64, stalls: &mut Vec<(Cause, u64)>) {
        let slow = &mut self.strands[at];
        let counts = &mut self.counts[slow.index].tasks[slow.at];
        let job = &mut slow.jobs[slow.at];
        if slow.doing == Doing::Polling {
            let found = match job.task.input {
                Input::Nothing => false,
                Input::Source(index) => {
                    let found = self.waiting[index] > 0;
                    self.waiting[index] -= u32::from(found);
                    found
                }
                Input::Queue(index) => self.queues[index].read(cycle),
            };
            if found {
                stalls.push((Cause::Io, job.packet_stall.next()));
                slow.doing = Doing::Working;
                slow.left = job.work.next();
                return;
            }
            counts.idle_polls += 1;
            stalls.push((Cause::Io, job.empty_stall.next()));
            stalls.push((Cause::Slow, job.slow.next()));
        } else {
            let outputs = &job.task.outputs;
            if let Some(queue) = outputs.get(job.output % outputs.len().max(1)) {
                let queue = &mut self.queues[*queue];
                if queue.write(cycle) {
                    counts.packets += 1;
                } else if queue.queue.when_full == WhenFull::Drop {
                    counts.dropped += 1;
                } else {
                    counts.blocked += 1;
                    slow.doing = Doing::Offering;
                    slow.left = job.poll.next();
                    return;
                }
            } else {
                counts.packets += 1;
            }
            job.output += 1;
        }
        slow.at = (slow.at + 1) % slow.jobs.len();
        slow.doing = Doing::Polling;
        slow.left = slow.jobs[slow.at].poll.next();
    }
}

impl SlowQueue {
    fn seen(&self, at: Option<&u64>, cycle: u64) -> bool {
        at.is_some_and(|at| *at <= cycle)
    }

    fn read(&mut self, cycle: u64) -> bool {
        let seen = self.seen(self.packets.front(), cycle);
        if seen {
            self.packets.pop_front();
            self.freed.push_back(cycle + u64::from(self.queue.hand_over_cycles));
        }
        seen
    }

    fn write(&mut self, cycle: u64) -> bool {
        let seen = self.seen(self.freed.front(), cycle);
        if seen {
            self.freed.pop_front();
            self.packets.push_back(cycle + u64::from(self.queue.hand_over_cycles));
        }
        seen
    }
}

fn job(task: &Task, mix: &mut Mix) -> Job {
    let (poll, work) = (&task.poll, &task.work);
    let misses = Events::among(work.misses.l1, work.instructions, mix);
    let mut units = Vec::new();
    for used in &work.units {
        units.push((used.unit, Events::among(used.per_packet, work.instructions, mix)));
    }
    let beyond = if work.misses.l1 > 0.0 { work.misses.l2 / work.misses.l1 } else { 0.0 };
    Job {
        task: task.clone(),
        poll: Multiples::new(poll.instructions),
        packet_stall: Multiples::new(poll.packet_stall_cycles),
        empty_stall: Multiples::new(poll.empty_stall_cycles),
        slow: Multiples::new(poll.slow_cycles),
        work: Multiples::new(work.instructions),
        misses,
        beyond_l2: Multiples::new(beyond),
        units,
        output: 0,
    }
}

/// Simulates a system and returns its counts, starting with the first cycle.
pub(crate) fn cycle_by_cycle(
    system: &System,
    cycles: u64,
    seed: u64,
) -> (Vec<StrandOutcome>, Vec<SourceOutcome>) {
    let mut world = World::new(system, seed);
    (0..cycles).for_each(|cycle| world.cycle(cycle));
    (world.counts, world.sources)
}
