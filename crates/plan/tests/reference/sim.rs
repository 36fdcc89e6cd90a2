// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queueing simulation of a packet path, one packet at a time: slow, deterministic, and
//! independent of the model.
//!
//! A short capture is replayed in a loop. The source fills one bounded queue per replica of the
//! first segment, in capture order, and waits if the queue for the next packet is full. A worker
//! takes a packet, processes it, and puts it into the next worker's queue. It is starved while its
//! own queue is empty and blocked while the next one is full.

// The files are named explicitly, because tests of other crates include this file.
#[path = "dice.rs"]
mod dice;
#[path = "paths.rs"]
mod paths;

pub(crate) use dice::Dice;
use linerate_path::model::{
    FullRing, IdleRules, Mapping, PacketClass, Params, Path, Rate, RunLength, RunOptions, Segment,
    Sink, Source, StageUse,
};
use linerate_record::figure::{Figure, Tier};
use linerate_record::fixtures;
use linerate_record::run::{RunReport, StageReport, TimeShares, WindowCount, WorkerReport};
use linerate_record::stats::Estimate;
pub(crate) use paths::*;
use std::collections::{BTreeMap, VecDeque};

pub(crate) const TICKS_PER_SECOND: f64 = 2e9;
/// Queue capacity in packets. Smaller than in real rings: a short run must fill the queues, which
/// must hold few packets compared with those counted.
const QUEUE: usize = 64;
const WARM_UP: usize = 2_000;
const MEASURED: usize = 8_000;

/// Ticks per packet spent in each step of a worker (head, stages, tail); `None` for steps that the
/// packet does not reach.
type Parts = Vec<Option<f64>>;

/// The simulated machine, stages and traffic.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Ticks per input packet of each stage.
    pub(crate) stages: Vec<f64>,
    pub(crate) source: f64,
    pub(crate) sink: f64,
    pub(crate) producer: f64,
    pub(crate) consumer: f64,
    /// For each packet in the capture: its flow, and the stage that drops it, if any.
    pub(crate) capture: Vec<(usize, Option<usize>)>,
    /// For each packet in the capture: whether it is in the class of the stages of `branch`.
    pub(crate) chosen: Vec<bool>,
    /// Stages that process only some packets: `true` for those that are `chosen`, `false` for the
    /// others.
    pub(crate) branch: Vec<Option<bool>>,
    /// Time between packets in ticks; 0 offers them as fast as possible.
    pub(crate) period: f64,
    /// Relative variation of service times, plus or minus.
    pub(crate) jitter: f64,
    /// Whether to drop packets at a full queue instead of waiting.
    pub(crate) drop_when_full: bool,
    /// Factor for all times if there is more than one worker.
    pub(crate) slowdown: f64,
}

impl World {
    /// Generates a world with stages of 20 to 400 ticks and 16 flows of unequal weight. In a third
    /// of the worlds, one stage drops packets.
    pub(crate) fn random(dice: &mut Dice, stages: usize) -> Self {
        let dropper = (dice.below(3) == 0).then(|| dice.below(stages));
        // Every flow loses the same fraction, so that replicas differ only in their number of
        // packets.
        let mut seen = [0usize; 16];
        let packet = |dice: &mut Dice, seen: &mut [usize; 16]| {
            let flow = dice.below(16).min(dice.below(16));
            seen[flow] += 1;
            (flow, dropper.filter(|_| seen[flow].is_multiple_of(4)))
        };
        Self {
            stages: (0..stages).map(|_| dice.between(20.0, 400.0)).collect(),
            source: dice.between(5.0, 40.0),
            sink: dice.between(5.0, 40.0),
            producer: dice.between(2.0, 20.0),
            consumer: dice.between(2.0, 30.0),
            capture: (0..400).map(|_| packet(dice, &mut seen)).collect(),
            chosen: Vec::new(),
            branch: vec![None; stages],
            period: 0.0,
            jitter: 0.1,
            drop_when_full: false,
            slowdown: 1.0,
        }
    }

    /// Puts a third of each flow's packets into a class. A stage may be restricted to this class,
    /// or to the other packets.
    pub(crate) fn branched(mut self, dice: &mut Dice) -> Self {
        let mut seen = [0_usize; 16];
        let is_chosen = |(flow, _): &(usize, Option<usize>)| {
            seen[*flow] += 1;
            seen[*flow].is_multiple_of(3)
        };
        self.chosen = self.capture.iter().map(is_chosen).collect();
        let branch = |_: &f64| [None, Some(true), Some(false)][dice.below(3)];
        self.branch = self.stages.iter().map(branch).collect();
        self
    }

    pub(crate) fn path(&self) -> Path {
        let stage = |i| StageUse {
            name: name(i),
            kind: name(i),
            only: PacketClass::All,
            params: Params::new(),
        };
        Path {
            name: "simulated".to_owned(),
            kernels: "selected".to_owned(),
            line: None,
            source: Source::Generator { sizes: vec![60], flows: 16, seed: 1, buffer_bytes: 64 },
            stages: (0..self.stages.len()).map(stage).collect(),
            sink: Sink::Null,
            mapping: Mapping::merged(self.stages.len()),
            run: RunOptions {
                length: RunLength::Packets(MEASURED as u64),
                rate: Rate::Max,
                burst: 32,
                ring: 512,
                full_ring: FullRing::Wait,
            },
            idle: IdleRules::default(),
        }
    }

    /// Returns the busiest replica's share of the capture for each number of replicas up to
    /// `up_to`.
    pub(crate) fn largest_share(&self, up_to: usize) -> Vec<f64> {
        let share = |replicas: usize| {
            let mut packets = vec![0; replicas];
            self.capture.iter().for_each(|(flow, _)| packets[flow % replicas] += 1);
            packets.into_iter().max().unwrap_or(0) as f64 / self.capture.len() as f64
        };
        (1..=up_to).map(share).collect()
    }

    fn survives(&self, packet: usize, stage: usize) -> bool {
        self.capture[packet].1.is_none_or(|dropper| dropper >= stage)
    }

    /// Returns whether a packet bypasses a stage, which takes no time. A packet never bypasses the
    /// stage that drops it.
    fn goes_round(&self, packet: usize, stage: usize) -> bool {
        let wanted = self.branch.get(stage).copied().flatten();
        wanted.is_some_and(|wanted| wanted != self.chosen[packet])
            && self.capture[packet].1 != Some(stage)
    }

    /// Returns the ticks spent in each part of a worker (head, stages, tail) on a packet of the
    /// capture.
    fn parts(&self, stages: &Segment, packet: usize) -> Parts {
        let range = stages.stages.clone();
        let head = if range.start == 0 { self.source } else { self.consumer };
        let tail = if range.end == self.stages.len() { self.sink } else { self.producer };
        let mut parts = vec![Some(head)];
        let ticks = |s| if self.goes_round(packet, s) { 0.0 } else { self.stages[s] };
        parts.extend(range.clone().map(|s| self.survives(packet, s).then(|| ticks(s))));
        parts.push(self.survives(packet, range.end).then_some(tail));
        parts
    }

    /// Returns the ticks spent in each part of each worker over one pass of the capture:
    /// `[segment][replica][part]`.
    pub(crate) fn true_ticks(&self, mapping: &Mapping) -> Vec<Vec<Vec<f64>>> {
        let segment = |s: &Segment| {
            let mut ticks = vec![vec![0.0; s.stages.len() + 2]; s.replicas as usize];
            for (packet, (flow, _)) in self.capture.iter().enumerate() {
                if self.survives(packet, s.stages.start) {
                    let own = &mut ticks[flow % s.replicas as usize];
                    let parts = self.parts(s, packet);
                    own.iter_mut().zip(parts).for_each(|(sum, t)| *sum += t.unwrap_or(0.0));
                }
            }
            ticks
        };
        mapping.segments.iter().map(segment).collect()
    }
}

enum State3 {
    Starved,
    Busy { until: f64 },
    Blocked,
}

struct SimWorker<'a> {
    segment: &'a Segment,
    index: u32,
    replica: u32,
    /// Indices of the next segment's replicas in `Simulation::workers`.
    next: Vec<usize>,
    queue: VecDeque<usize>,
    state: State3,
    holds: usize,
    since: f64,
    spent: [f64; 3],
    given: Vec<u64>,
    bypassed: Vec<u64>,
    ticks: Vec<f64>,
    ring_drops: u64,
}

struct Simulation<'a> {
    world: &'a World,
    workers: Vec<SimWorker<'a>>,
    /// Ticks of a worker's parts, indexed `[segment][packet of the capture]`.
    parts: Vec<Vec<Parts>>,
    first_replicas: usize,
    now: f64,
    offered: usize,
    processed: usize,
    speed: f64,
    dice: Dice,
}

impl<'a> Simulation<'a> {
    fn new(world: &'a World, mapping: &'a Mapping) -> Self {
        let mut workers = Vec::new();
        let mut end = 0;
        for (index, segment) in mapping.segments.iter().enumerate() {
            end += segment.replicas as usize;
            let next = mapping.segments.get(index + 1).map_or(0, |s| s.replicas as usize);
            for replica in 0..segment.replicas {
                let parts = segment.stages.len() + 2;
                workers.push(SimWorker {
                    segment,
                    index: index as u32,
                    replica,
                    next: (end..end + next).collect(),
                    queue: VecDeque::new(),
                    state: State3::Starved,
                    holds: 0,
                    since: 0.0,
                    spent: [0.0; 3],
                    given: vec![0; parts],
                    bypassed: vec![0; parts],
                    ticks: vec![0.0; parts],
                    ring_drops: 0,
                });
            }
        }
        let packets = 0..world.capture.len();
        let parts = |s| packets.clone().map(|p| world.parts(s, p)).collect();
        let speed = if workers.len() > 1 { world.slowdown } else { 1.0 };
        Self {
            world,
            parts: mapping.segments.iter().map(parts).collect(),
            first_replicas: mapping.segments[0].replicas as usize,
            workers,
            now: 0.0,
            offered: 0,
            processed: 0,
            speed,
            dice: Dice::new(99),
        }
    }

    fn enter(&mut self, worker: usize, state: State3) {
        let worker = &mut self.workers[worker];
        let spent = match worker.state {
            State3::Busy { .. } => 0,
            State3::Starved => 1,
            State3::Blocked => 2,
        };
        worker.spent[spent] += self.now - worker.since;
        (worker.since, worker.state) = (self.now, state);
    }

    /// Processes all events that are due now.
    fn settle(&mut self) {
        loop {
            let mut moved = self.offer();
            for worker in (0..self.workers.len()).rev() {
                moved |= self.step(worker);
            }
            if !moved {
                return;
            }
        }
    }

    fn offer(&mut self) -> bool {
        let due = self.world.period == 0.0 || self.world.period * self.offered as f64 <= self.now;
        let packet = self.offered % self.world.capture.len();
        let queue = &mut self.workers[self.world.capture[packet].0 % self.first_replicas].queue;
        let room = queue.len() < QUEUE;
        if due && room {
            queue.push_back(packet);
            self.offered += 1;
        }
        due && room
    }

    fn step(&mut self, index: usize) -> bool {
        match self.workers[index].state {
            State3::Busy { until } if until <= self.now => {
                self.enter(index, State3::Blocked);
                true
            }
            State3::Busy { .. } => false,
            State3::Blocked => self.hand_over(index),
            State3::Starved => self.start(index),
        }
    }

    fn start(&mut self, index: usize) -> bool {
        let Some(packet) = self.workers[index].queue.pop_front() else {
            return false;
        };
        let wobble = 1.0 + self.world.jitter * self.dice.between(-1.0, 1.0);
        let worker = &mut self.workers[index];
        worker.holds = packet;
        let mut total = 0.0;
        for (part, ticks) in self.parts[worker.index as usize][packet].iter().enumerate() {
            if let Some(ticks) = *ticks {
                let goes_round = (1..=worker.segment.stages.len()).contains(&part)
                    && self.world.goes_round(packet, worker.segment.stages.start + part - 1);
                worker.given[part] += u64::from(!goes_round);
                worker.bypassed[part] += u64::from(goes_round);
                worker.ticks[part] += ticks * wobble * self.speed;
                total += ticks * wobble * self.speed;
            }
        }
        self.enter(index, State3::Busy { until: self.now + total });
        true
    }

    fn hand_over(&mut self, index: usize) -> bool {
        let worker = &self.workers[index];
        let packet = worker.holds;
        let alive = self.world.survives(packet, worker.segment.stages.end);
        if !alive || worker.next.is_empty() {
            self.processed += 1;
        } else {
            let next = worker.next[self.world.capture[packet].0 % worker.next.len()];
            if self.workers[next].queue.len() < QUEUE {
                self.workers[next].queue.push_back(packet);
            } else if self.world.drop_when_full {
                self.workers[index].ring_drops += 1;
            } else {
                return false;
            }
        }
        self.enter(index, State3::Starved);
        true
    }

    fn run_until(&mut self, processed: usize) {
        while self.processed < processed {
            self.settle();
            let ends = self.workers.iter().filter_map(|s| match s.state {
                State3::Busy { until } => Some(until),
                _ => None,
            });
            let arrival = self.world.period * self.offered as f64;
            let arrival = (arrival > self.now).then_some(arrival);
            let next = ends.chain(arrival).fold(f64::INFINITY, f64::min);
            assert!(next.is_finite(), "the simulated path is stuck");
            self.now = next;
        }
    }

    fn forget(&mut self) {
        for worker in &mut self.workers {
            (worker.since, worker.spent, worker.ring_drops) = (self.now, [0.0; 3], 0);
            worker.given.fill(0);
            worker.bypassed.fill(0);
            worker.ticks.fill(0.0);
        }
    }
}

/// Runs the world, and reports the run as the runtime would. `noise` is the relative error of
/// service times, which the report's intervals reflect.
pub(crate) fn run(world: &World, mapping: &Mapping, noise: f64, seed: u64) -> RunReport {
    let mut sim = Simulation::new(world, mapping);
    sim.run_until(WARM_UP);
    sim.forget();
    let (from, before) = (sim.now, sim.processed);
    sim.run_until(WARM_UP + MEASURED);
    let seconds = (sim.now - from) / TICKS_PER_SECOND;
    let kpps = (sim.processed - before) as f64 / seconds / 1e3;
    for worker in 0..sim.workers.len() {
        sim.enter(worker, State3::Starved);
    }
    let mut dice = Dice::new(seed);
    RunReport {
        path: "simulated".to_owned(),
        mapping: String::new(),
        kernels: None,
        counted: None,
        elapsed_s: seconds,
        ticks_per_s: TICKS_PER_SECOND,
        offered_kpps: None,
        throughput_kpps: Figure::exact("kpps", kpps, Tier::Sim, "simulated"),
        processed_kpps: Figure::exact("kpps", kpps, Tier::Sim, "simulated"),
        line_rate_kpps: None,
        workers: sim.workers.iter().map(|s| worker_report(s, noise, &mut dice)).collect(),
        rings: Vec::new(),
        line: None,
        finding: None,
        causes: Vec::new(),
        kernel_advice: None,
        packets_home: None,
        interfaces: Vec::new(),
        ..fixtures::run()
    }
}

pub(crate) fn processed_kpps(run: &RunReport) -> f64 {
    run.processed_kpps.as_number().expect("simulated rates are numbers")
}

fn worker_report(worker: &SimWorker<'_>, noise: f64, dice: &mut Dice) -> WorkerReport {
    let all: f64 = worker.spent.iter().sum();
    let [busy, starved, blocked] = worker.spent.map(|t| t / all);
    let last = worker.given.len() - 1;
    let stored = fixtures::stage();
    let names = (0..=last).map(|part| match part {
        0 if worker.segment.stages.start == 0 => "source".to_owned(),
        0 => "ring in".to_owned(),
        _ if part < last => name(worker.segment.stages.start + part - 1),
        _ if worker.next.is_empty() => "sink".to_owned(),
        _ => "ring out".to_owned(),
    });
    let work: f64 = worker.ticks.iter().sum();
    let stages = names.enumerate().map(|(part, name)| StageReport {
        drops: ring_drops(&name, worker.ring_drops),
        name,
        packets: worker.given[part],
        bypassed: worker.bypassed[part],
        ticks_per_packet: per_packet(worker.ticks[part], worker.given[part], noise, dice),
        cycles_per_packet: Figure::absent("cycles/packet", Tier::Sim, "simulated", "no core clock"),
        busy: Some(busy * worker.ticks[part] / work.max(f64::MIN_POSITIVE)),
        starved: Some(starved),
        blocked: Some(blocked),
        kernels: None,
        events: None,
        ..stored.clone()
    });
    let stages: Vec<StageReport> = stages.collect();
    let sum: f64 = worker.ticks.iter().sum();
    WorkerReport {
        name: format!("{}.{}", worker.index, worker.replica),
        cpu: 0,
        segment: worker.index,
        replica: worker.replica,
        stages,
        time: Some(TimeShares { busy, starved, blocked, lost: 0.0, unaccounted: 0.0 }),
        ticks_per_packet: per_packet(sum, worker.given[0], noise, dice),
        windows: WindowCount { total: 100, preempted: 3 },
        ..fixtures::worker()
    }
}

fn ring_drops(name: &str, packets: u64) -> BTreeMap<String, u64> {
    let full = (name == "ring out" && packets > 0).then(|| ("ring_full".to_owned(), packets));
    full.into_iter().collect()
}

fn per_packet(ticks: f64, packets: u64, noise: f64, dice: &mut Dice) -> Figure {
    if packets == 0 {
        return Figure::absent("ticks/packet", Tier::Sim, "simulated", "no packets");
    }
    let value = ticks / packets as f64 * (1.0 + noise * dice.normal());
    Figure::number("ticks/packet", around(value, noise, 30), Tier::Sim, "simulated")
}

/// Returns an estimate whose 90 % interval matches a relative error with standard deviation
/// `noise`.
pub(crate) fn around(value: f64, noise: f64, n: u64) -> Estimate {
    let half = 1.645 * noise * value.abs();
    Estimate { value, low: value - half, high: value + half, confidence: 0.9, n }
}
