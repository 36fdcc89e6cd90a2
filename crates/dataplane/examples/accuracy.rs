// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the accuracy of the profile on this machine: measures each quantity several times,
//! compares it with a known value, and checks the median error against a limit.
//!
//! Prints one line per quantity for `cargo xtask accuracy`, which enforces the limits. Requires
//! exclusive use of CPU 0: if other threads keep the CPU busy throughout a measurement, that
//! measurement has no result and its error counts as infinite. `src/simulation.rs` tests the same
//! quantities on a noise-free clock.
//!
//! `cargo run --release -p linerate-dataplane --example accuracy [-- MEASUREMENTS [PART]]` measures
//! all quantities, or those with `PART` in their names.

#[path = "../tests/common/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest of the module")]
mod common;

use common::{OPTIONS, kinds, path, stage, traffic};
use linerate_dataplane::{Job, Watch, run};
use linerate_path::model::{Rate, RunLength, RunOptions, Sink, StageUse, Value};
use linerate_record::Figure;
use linerate_record::accuracy::Check;
use linerate_record::kernels::Kernel;
use linerate_record::run::{KernelUse, RunReport, StageReport};
use std::sync::atomic::{AtomicBool, Ordering};

/// Default number of measurements per quantity.
const MEASUREMENTS: usize = 9;

/// Explanation printed with each check.
const WHY: &str = "median error compared with the known value";

/// A quantity: its name, its limit, and a function that measures it once and returns the error.
struct Quantity {
    name: &'static str,
    limit: f64,
    error: fn() -> Option<f64>,
}

const QUANTITIES: &[Quantity] = &[
    Quantity {
        name: "unaccounted-share-at-full-rate",
        limit: 0.01,
        error: || unaccounted(Rate::Max),
    },
    Quantity {
        name: "unaccounted-share-paced",
        limit: 0.01,
        error: || unaccounted(pps(200_000.0)),
    },
    Quantity { name: "paced-rate", limit: 0.02, error: paced_rate },
    Quantity { name: "paced-time-not-busy-or-starved", limit: 0.01, error: paced_time },
    Quantity { name: "service-time-against-rate", limit: 0.02, error: || service_time(32, 100) },
    Quantity { name: "service-time-of-long-bursts", limit: 0.02, error: || service_time(256, 400) },
    Quantity { name: "sum-of-parts", limit: 0.05, error: sum_of_parts },
    Quantity { name: "second-difference-of-work", limit: 0.05, error: second_difference },
    Quantity { name: "rate-of-rare-packets", limit: 0.05, error: rare_packets },
    Quantity { name: "time-of-work-that-grows", limit: 0.5, error: grown_work },
    Quantity { name: "lost-time-at-full-rate", limit: 0.05, error: || lost_time(Rate::Max) },
    Quantity { name: "lost-time-paced", limit: 0.05, error: || lost_time(pps(100_000.0)) },
    Quantity { name: "replay-of-twice-the-calls", limit: 0.1, error: replay_of_twice_the_calls },
    Quantity { name: "replay-against-stage", limit: 0.25, error: replay_against_stage },
    // The stage consists only of calls of two kernels, so the shares of the two should not exceed 1
    // in total. They can: the run overlaps calls of different kernels, and the replay measures one
    // kernel at a time.
    Quantity { name: "shares-above-one", limit: 0.05, error: shares_above_one },
    Quantity { name: "selected-above-best-variant", limit: 0.25, error: selected_above_best },
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let measurements = arguments.next().and_then(|text| text.parse().ok());
    let measurements: usize = measurements.unwrap_or(MEASUREMENTS).max(1);
    let part = arguments.next().unwrap_or_default();
    for Quantity { name, limit, error } in QUANTITIES.iter().filter(|q| q.name.contains(&part)) {
        let mut errors: Vec<f64> =
            (0..measurements).map(|_| error().unwrap_or(f64::INFINITY)).collect();
        errors.sort_by(f64::total_cmp);
        let (median, n) = (errors[errors.len() / 2], errors.len() as u64);
        println!("{}", Check::at_most(&format!("profile.{name}"), median, n, *limit, WHY));
    }
}

fn pps(packets: f64) -> Rate {
    Rate::PacketsPerSecond(packets)
}

/// Runs `stages` on CPU 0 and returns the report.
fn report(stages: Vec<StageUse>, options: RunOptions, replay: bool) -> RunReport {
    let mut path = path(stages);
    path.sink = Sink::Null;
    let (kinds, traffic) = (kinds(), traffic());
    let job = Job { options, replay, ..Job::new(&path, &kinds, &traffic, &[0]) };
    let watch = Watch::unattended();
    run(&job, &watch).expect("the path runs").report
}

fn options(seconds: f64, rate: Rate) -> RunOptions {
    RunOptions { length: RunLength::Seconds(seconds), rate, ..OPTIONS }
}

fn spinning(seconds: f64, rate: Rate, turns: i64) -> RunReport {
    report(vec![stage("spin", "turns", turns)], options(seconds, rate), false)
}

fn off(value: f64, expected: f64) -> f64 {
    (value / expected - 1.0).abs()
}

fn unaccounted(rate: Rate) -> Option<f64> {
    Some(spinning(0.3, rate, 10).workers[0].time?.unaccounted.abs())
}

fn paced_rate() -> Option<f64> {
    let report = spinning(0.3, pps(100_000.0), 10);
    Some(off(report.processed_kpps.as_number()?, 100.0))
}

fn paced_time() -> Option<f64> {
    let time = spinning(0.3, pps(100_000.0), 10).workers[0].time?;
    (time.starved > 0.5).then_some((1.0 - time.busy - time.starved - time.lost).abs())
}

/// Returns the relative error of the service time: its inverse is compared with the counted packet
/// rate.
fn service_time(burst: u32, turns: i64) -> Option<f64> {
    let options = RunOptions { burst, ..options(0.4, Rate::Max) };
    let report = report(vec![stage("spin", "turns", turns)], options, false);
    let ticks = report.workers[0].ticks_per_packet.as_number()?;
    Some(off(report.ticks_per_s / ticks / 1e3, report.processed_kpps.as_number()?))
}

fn sum_of_parts() -> Option<f64> {
    let worker = &spinning(0.4, Rate::Max, 100).workers[0];
    let parts: Option<f64> = worker.stages.iter().map(|s| s.ticks_per_packet.as_number()).sum();
    Some(off(parts?, worker.ticks_per_packet.as_number()?))
}

/// Returns the error of the second difference of the costs of three stages. The work of the stages
/// increases in equal steps, so their costs must, too. All three stages belong to the same run, so
/// changes of the clock frequency between runs have no effect.
fn second_difference() -> Option<f64> {
    let spins = [("once", 500), ("twice", 1_000), ("thrice", 1_500)];
    let stages = spins
        .map(|(name, turns)| StageUse { name: name.to_owned(), ..stage("spin", "turns", turns) });
    let report = report(stages.into(), options(0.4, Rate::Max), false);
    let ticks = |name| named(&report, name)?.ticks_per_packet.as_number();
    let (once, twice, thrice) = (ticks("once")?, ticks("twice")?, ticks("thrice")?);
    Some(off(thrice - twice, twice - once))
}

/// Returns the error of the measured packet rate when there are fewer packets than windows.
fn rare_packets() -> Option<f64> {
    Some(off(spinning(0.6, pps(400.0), 10).throughput_kpps.as_number()?, 0.4))
}

fn grown_work() -> Option<f64> {
    let stages = vec![stage("grow", "after", 10_000)];
    let worker = &report(stages, options(0.3, Rate::Max), false).workers[0];
    let reached_the_expensive_part = worker.stages[1].packets >= 11_000;
    reached_the_expensive_part.then_some((1.0 - worker.time?.busy).abs())
}

/// Returns the error of the lost time: the CPU time that the profile attributes to other threads is
/// compared with the time for which the scheduler reports that the worker waited.
fn lost_time(rate: Rate) -> Option<f64> {
    let worker = &with_a_rival(|| spinning(0.6, rate, 10)).workers[0];
    let was_disturbed = worker.time?.lost >= 0.2 && worker.windows.preempted > 0;
    let delay = worker.run_delay_ns.filter(|_| was_disturbed)?;
    Some(off(worker.lost_ns as f64, delay as f64))
}

/// Runs `work` while another thread competes for CPU 0.
fn with_a_rival<T>(work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            linerate_linux::pin_current_thread(0).expect("CPU 0 exists");
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Returns a stage that, for each packet, checksums `bytes` bytes `calls` times and copies them
/// once.
fn call(name: &str, calls: i64, bytes: i64) -> StageUse {
    let params = [("calls", calls), ("bytes", bytes)];
    let params = params.map(|(name, value)| (name.to_owned(), Value::Integer(value)));
    StageUse { name: name.to_owned(), params: params.into(), ..stage("call", "calls", calls) }
}

fn replayed(stages: Vec<StageUse>) -> RunReport {
    report(stages, options(0.3, Rate::Max), true)
}

fn named<'r>(report: &'r RunReport, name: &str) -> Option<&'r StageReport> {
    report.workers[0].stages.iter().find(|stage| stage.name == name)
}

fn used(stage: &StageReport, kernel: Kernel) -> Option<&KernelUse> {
    stage.kernels.as_ref()?.iter().find(|one| one.kernel == kernel)
}

/// Returns the ticks per packet of the checksums in two stages, one with three checksums per packet
/// and one with six, measured in two ways: by replaying the calls, and by timing the whole stage.
/// Each figure is the minimum over several runs.
///
/// The two measurements take place one after the other. In a virtual machine whose host runs other
/// machines on the SMT sibling, the same calls can take 1.7 times as long in one second as in the
/// next. (On such a host, single runs were off by 7 to 70 %, the minimum of five by 1 to 16 %.) The
/// minimum is over times, not over errors, so it does not depend on how well the two ways agree.
fn three_and_six() -> Option<[[f64; 2]; 2]> {
    const RUNS: usize = 5;
    let least = |a: [[f64; 2]; 2], b: [[f64; 2]; 2]| {
        std::array::from_fn(|stage| std::array::from_fn(|way| a[stage][way].min(b[stage][way])))
    };
    (0..RUNS).filter_map(|_| three_and_six_once()).reduce(least)
}

fn three_and_six_once() -> Option<[[f64; 2]; 2]> {
    // The first stage takes the cache misses on the packets, so the other two do not.
    let stages = vec![call("warm", 1, 900), call("three", 3, 900), call("six", 6, 900)];
    let report = replayed(stages);
    let number = |figure: &Figure| figure.as_number();
    let one = |name| {
        let stage = named(&report, name)?;
        let sums = used(stage, Kernel::Checksum)?;
        Some([number(&sums.ticks_per_packet)?, number(&stage.ticks_per_packet)?])
    };
    Some([one("three")?, one("six")?])
}

fn replay_of_twice_the_calls() -> Option<f64> {
    let [[three, _], [six, _]] = three_and_six()?;
    Some(off(six, 2.0 * three))
}

/// Returns the error of the replay: the difference between the replayed costs of six and of three
/// checksums is compared with the difference between the times of the two stages.
fn replay_against_stage() -> Option<f64> {
    let [[three, with_three], [six, with_six]] = three_and_six()?;
    Some(off(six - three, with_six - with_three))
}

fn shares_above_one() -> Option<f64> {
    let report = replayed(vec![call("both", 2, 700)]);
    let both = named(&report, "both")?;
    let share = |kernel| used(both, kernel)?.share.as_number();
    Some((share(Kernel::Checksum)? + share(Kernel::Copy)? - 1.0).max(0.0))
}

fn selected_above_best() -> Option<f64> {
    let report = replayed(vec![call("both", 2, 1_400)]);
    let sum = used(named(&report, "both")?, Kernel::Checksum)?;
    let ratios = sum.variants.iter().filter_map(|v| v.time_ratio.as_number());
    let best = ratios.fold(f64::INFINITY, f64::min);
    let selected = sum.variants.iter().find(|variant| variant.selected)?;
    Some(selected.time_ratio.as_number()? / best - 1.0)
}
