// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests entire runs of one worker on a simulated clock, so that every figure in the profile is
//! known in advance. A tick is a nanosecond; clock reads and stages take a configured time, and
//! another thread preempts the worker at configured times.

use crate::ended::Ended;
use crate::gather::gather;
use crate::generator::Generator;
use crate::job::Job;
use crate::layout::{Ground, lay_out};
use crate::meter::{Clock, Meter, Setup, Span};
use crate::traffic::Traffic;
use crate::worker::{Control, Head};
use crate::{Burst, Stage, StageContext, StageKind, Verdict};
use linerate_machine::lost_time::LostTime;
use linerate_path::model::{
    FullRing, IdlePolicy, IdleRules, Mapping, PacketClass, Params, Path, Rate, RunLength,
    RunOptions, Sink, Source, StageUse, Value,
};
use linerate_path::spec::{StageSpec, State};
use linerate_record::run::{RunReport, WorkerReport};
use linerate_trial::Watch;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cost of a clock read, in ticks.
const READ: u64 = 50;

/// Duration of a pause instruction in ticks, as on Intel processors since Skylake.
const PAUSE: u64 = 140;

/// Duration of a step of slow polling, in ticks.
const SLOW: u64 = 1_000;

/// Start of the measurement, in ticks.
const START: u64 = 5_000_000;

/// Ticks per second of the simulated clock.
const RATE: f64 = 1e9;

/// A simulated thread that periodically preempts the worker.
#[derive(Clone, Copy)]
struct Rival {
    every: u64,
    takes: u64,
}

/// Clock state of a simulated worker. Thread-local, because tests run concurrently.
#[derive(Clone, Copy, Default)]
struct Time {
    now: u64,
    away: u64,
    switches: u64,
    rival: Option<Rival>,
    next: u64,
}

thread_local! {
    static TIME: Cell<Time> = const {
        Cell::new(Time { now: 0, away: 0, switches: 0, rival: None, next: u64::MAX })
    };
}

/// Advances the time by `ticks` of work, during which another thread may preempt the worker.
fn pass(ticks: u64) {
    let mut time = TIME.get();
    time.now += ticks;
    while let Some(Rival { every, takes }) = time.rival.filter(|_| time.now >= time.next) {
        time.now += takes;
        time.away += takes;
        time.switches += 1;
        time.next += every + takes;
    }
    TIME.set(time);
}

/// The simulated clock, which sets `stop` at the end of the run.
struct Simulated<'a> {
    stop: &'a AtomicBool,
    end: u64,
}

impl linerate_trial::Clock for Simulated<'_> {
    fn ticks(&self) -> u64 {
        pass(READ);
        let now = TIME.get().now;
        self.stop.store(now >= self.end, Ordering::Relaxed);
        now
    }

    fn ns_per_tick(&self) -> f64 {
        1e9 / RATE
    }

    fn wall_ns(&self) -> u64 {
        TIME.get().now
    }

    fn cpu_ns(&self) -> u64 {
        let Time { now, away, .. } = TIME.get();
        now - away
    }

    fn cpu_step_ns(&self) -> u64 {
        0
    }

    fn involuntary_switches(&self) -> u64 {
        TIME.get().switches
    }
}

impl Clock for Simulated<'_> {
    fn run_delay_ns(&self) -> Option<u64> {
        Some(TIME.get().away)
    }

    fn pause(&self) {
        pass(PAUSE);
    }

    fn wait_slowly(&self, _: u32) {
        pass(SLOW);
    }
}

/// A stage that takes `ticks` for each packet up to the source position `until`, and ten times as
/// long for the packets from that position on.
struct Take {
    ticks: u64,
    until: u64,
}

impl Stage for Take {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let grown = packet.meta().position >= self.until;
            pass(if grown { 10 * self.ticks } else { self.ticks });
            Verdict::Pass
        });
    }
}

const TAKE: StageKind = StageKind::new(
    StageSpec {
        kind: "take",
        help: "",
        params: &[],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    |params, _| {
        let number = |name: &str| match params.get(name) {
            Some(Value::Integer(value)) => *value as u64,
            _ => u64::MAX,
        };
        Ok(Box::new(Take { ticks: number("ticks"), until: number("until") }))
    },
);

/// Parameters of a simulated run.
struct Case {
    seconds: f64,
    rate: Rate,
    burst: u32,
    /// Ticks per packet in each stage.
    stages: Vec<i64>,
    /// Source position from which packets take ten times as long; `None` for a constant cost.
    until: Option<i64>,
    rival: Option<Rival>,
    /// Idle policy. A worker with the policy `park` cannot sleep, so it polls slowly.
    idle: IdlePolicy,
}

const CASE: Case = Case {
    seconds: 0.1,
    rate: Rate::Max,
    burst: 32,
    stages: Vec::new(),
    until: None,
    rival: None,
    idle: IdlePolicy::Spin,
};

impl Case {
    fn path(&self) -> Path {
        let stage = |(index, ticks): (usize, &i64)| {
            let mut params: Params = [("ticks".to_owned(), Value::Integer(*ticks))].into();
            params.extend(self.until.map(|until| ("until".to_owned(), Value::Integer(until))));
            let (name, kind) = (format!("take{index}"), "take".to_owned());
            StageUse { name, kind, only: PacketClass::All, params }
        };
        Path {
            name: "test".to_owned(),
            kernels: "selected".to_owned(),
            line: None,
            source: Source::Generator { sizes: vec![60], flows: 16, seed: 1, buffer_bytes: 128 },
            mapping: Mapping::merged(self.stages.len()),
            stages: self.stages.iter().enumerate().map(stage).collect(),
            sink: Sink::Null,
            run: RunOptions {
                length: RunLength::Seconds(self.seconds),
                rate: self.rate,
                burst: self.burst,
                ring: 64,
                full_ring: FullRing::Wait,
            },
            idle: IdleRules::all(self.idle),
        }
    }

    /// Lays out the path and builds the report as in a real run. Everything in between is
    /// simulated.
    fn run(&self) -> RunReport {
        TIME.set(Time {
            now: 1_000,
            rival: self.rival,
            next: self.rival.map_or(u64::MAX, |rival| rival.every),
            ..Time::default()
        });
        let path = self.path();
        let generator = Generator { sizes: &[60], flows: 16, seed: 1 };
        let traffic = Traffic::generate(generator, 128, &[]).expect("generated frames");
        let job = Job { idle: &path.idle, ..Job::new(&path, &[TAKE], &traffic, &[0]) };
        let mut ground = Ground::new(&job, RATE);
        let (pace, workers) = lay_out(&job, &mut ground).expect("a path of one stage");
        let [(place, mut worker)] = <[_; 1]>::try_from(workers).ok().expect("one worker");
        if let Head::Source(queue) = &mut worker.head {
            queue.start_at(1_000);
        }
        worker.rest.sleeper = None;
        let end = START + (self.seconds * RATE) as u64;
        let (stop, abort) = (AtomicBool::new(false), AtomicBool::new(false));
        let control =
            Control { stop: &stop, abort: &abort, yields: false, ticks_per_s: RATE, audit: false };
        let setup = Setup {
            span: Span { start: START, end, ticks_per_s: RATE },
            parts: worker.parts.len() + 2,
            seed: 7,
            yields: false,
            logs: false,
            counter: None,
        };
        let clock = Simulated { stop: &stop, end: end + 1_000_000 };
        let mut meter = Meter::<true, _>::new(clock, setup);
        worker.run(&mut meter, &control);
        worker.close();
        let ended = Ended {
            place,
            worker,
            readings: meter.finish(),
            cpu_ns: TIME.get().now - TIME.get().away,
            clock: [Some(1.0); 2],
            failure: None,
            kernels: Vec::new(),
            counted: Vec::new(),
        };
        let watch = Watch::unattended();
        let outcome =
            gather(&job, &watch, pace, vec![ended], Vec::new(), &<[LostTime; 2]>::default());
        outcome.expect("no stage panics").report
    }
}

fn only(report: &RunReport) -> &WorkerReport {
    &report.workers[0]
}

/// Asserts that the value is within a relative `tolerance` of the expected one.
fn assert_near(what: &str, value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.unwrap_or_else(|| panic!("{what} is absent"));
    let off = (value - expected).abs();
    assert!(off <= tolerance * expected.abs(), "{what}: {value}, not {expected} +- {tolerance}");
}

#[test]
fn the_parts_of_the_time_add_up_to_the_wall_clock() {
    for rate in [Rate::Max, Rate::PacketsPerSecond(200_000.0)] {
        let report = Case { rate, stages: vec![1_000], ..CASE }.run();
        let time = only(&report).time_or_zero();
        // One clock read per 1 ms window is outside all windows.
        assert!((0.0..1.5 * READ as f64 / 1e6).contains(&time.unaccounted), "{time:?}");
        assert_eq!((time.blocked, time.lost), (0.0, 0.0));
    }
}

#[test]
fn a_paced_source_keeps_its_rate_and_the_worker_starves_meanwhile() {
    let rate = Rate::PacketsPerSecond(100_000.0);
    let report = Case { rate, stages: vec![1_000], ..CASE }.run();
    assert_near("kpps", report.processed_kpps.as_number(), 100.0, 0.001);
    assert_near("throughput", report.throughput_kpps.as_number(), 100.0, 0.001);
    let time = only(&report).time_or_zero();
    // Expected busy time per packet, with one packet every 10000 ticks: 1000 ticks in the stage,
    // three clock reads, and four more reads if the iteration is sampled. One in eleven iterations
    // with a packet is sampled rather than one in sixteen: the interval before a sampled poll is
    // 150 ticks, before other polls only 100, so more packets arrive before sampled polls.
    let read = READ as f64;
    let expected = (1_000.0 + 3.0 * read + 4.0 * read / 11.0) / 10_000.0;
    assert_near("busy", Some(time.busy), expected, 0.002);
    assert_near("all", Some(time.busy + time.starved + time.unaccounted), 1.0, 1e-9);
    assert_near("p50", report.latency.p50.as_number(), 1_000.0, 0.2);
}

#[test]
fn a_wait_that_ends_with_a_packet_is_not_work() {
    let run = |idle| {
        let rate = Rate::PacketsPerSecond(100_000.0);
        Case { rate, idle, stages: vec![1_000], ..CASE }.run()
    };
    for idle in [IdlePolicy::Pause, IdlePolicy::Slow, IdlePolicy::Park] {
        let report = run(idle);
        let worker = only(&report);
        let ticks = worker.ticks_per_packet.as_number().expect("clean windows");
        // One clock read per iteration, one for the due time, one at the sink, and four more in
        // sampled iterations.
        assert!((1_000.0..1_000.0 + 4.0 * READ as f64).contains(&ticks), "{idle:?}: {ticks}");
        let time = worker.time_or_zero();
        assert_near("busy", Some(time.busy), 0.115, 0.03);
        assert_near("all", Some(time.busy + time.starved + time.unaccounted), 1.0, 1e-9);
        assert_eq!(time.lost, 0.0, "{idle:?}");
    }
}

#[test]
fn at_full_rate_service_time_is_the_inverse_of_the_rate() {
    for burst in [1, 32, 256] {
        let report = Case { burst, stages: vec![1_300], ..CASE }.run();
        let kpps = report.processed_kpps.as_number().expect("clean windows");
        let ticks = only(&report).ticks_per_packet.as_number().expect("clean windows");
        // A burst of 256 packets takes a third of a window. An iteration that crosses into the next
        // window belongs to the one in which it began.
        assert_near("rate", Some(RATE / ticks / 1e3), kpps, 0.001);
        let overhead = READ as f64 / f64::from(burst);
        assert!((1_300.0..=1_301.0 + 2.0 * overhead).contains(&ticks), "burst {burst}: {ticks}");
    }
}

#[test]
fn the_parts_of_a_worker_sum_to_the_worker() {
    let report = Case { stages: vec![500, 2_000], ..CASE }.run();
    let worker = only(&report);
    let ticks: Vec<f64> =
        worker.stages.iter().map(|stage| stage.ticks_per_packet.as_number().unwrap()).collect();
    // Clock reads per burst: one at the end of each part, and one more in the tail for the time of
    // arrival.
    let read = READ as f64 / 32.0;
    let expected = [read, 500.0 + read, 2_000.0 + read, 2.0 * read];
    ticks.iter().zip(expected).for_each(|(ticks, expected)| {
        assert_near("a part", Some(*ticks), expected, 1e-9);
    });
    let whole = worker.ticks_per_packet.as_number().unwrap();
    // The worker's figure is mostly from iterations that are not sampled, which read the clock
    // once.
    assert_near("sum of the parts", Some(ticks.iter().sum()), whole + 4.0 * read, 1e-3);
    let shares: f64 = worker.stages.iter().filter_map(|stage| stage.busy).sum();
    assert_near("shares", Some(shares), worker.time_or_zero().busy, 1e-9);
}

#[test]
fn twice_the_work_costs_the_work_more() {
    let ticks = |ticks: i64| {
        let report = Case { stages: vec![ticks], ..CASE }.run();
        only(&report).stages[1].ticks_per_packet.as_number().expect("clean windows")
    };
    let (once, twice, thrice) = (ticks(500), ticks(1_000), ticks(1_500));
    assert_near("first difference", Some(twice - once), 500.0, 1e-9);
    assert_near("second difference", Some(thrice - twice), 500.0, 1e-9);
}

#[test]
fn fewer_packets_than_windows_have_a_rate() {
    let rate = Rate::PacketsPerSecond(400.0);
    let report = Case { seconds: 0.6, rate, stages: vec![1_000], ..CASE }.run();
    assert_near("kpps", report.throughput_kpps.as_number(), 0.4, 0.03);
}

#[test]
fn work_that_grows_for_good_is_work_and_not_lost_time() {
    let report = Case { stages: vec![300], until: Some(100_000), ..CASE }.run();
    assert!(only(&report).stages[1].packets > 110_000, "the expensive part was reached");
    let time = only(&report).time_or_zero();
    assert!(time.lost < 0.05 && time.busy > 0.95, "{time:?}");
}

#[test]
fn time_lost_to_another_thread_is_what_the_scheduler_says() {
    let rival = Some(Rival { every: 3_000_000, takes: 2_000_000 });
    for rate in [Rate::Max, Rate::PacketsPerSecond(100_000.0)] {
        let report = Case { rate, rival, stages: vec![1_000], ..CASE }.run();
        let worker = only(&report);
        let delay = worker.run_delay_ns.expect("the clock reports run delay") as f64;
        assert_near("lost", Some(worker.lost_ns as f64), delay, 0.01);
        assert_near("share", Some(worker.time_or_zero().lost), 0.4, 0.05);
        // The worker is off the CPU for two of every five milliseconds. Each absence is in one
        // window, and the adjacent windows are shorter.
        let windows = worker.windows;
        assert!(windows.preempted > 0 && windows.preempted < windows.total);
        assert_near("switches", Some(worker.involuntary_switches as f64), 20.0, 0.06);
        let ticks = worker.ticks_per_packet.as_number().expect("some windows are clean");
        assert!((1_000.0..1_250.0).contains(&ticks), "{ticks}");
    }
}
