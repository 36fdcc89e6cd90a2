// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a sweep: checks every routine, times every case, and creates the report.

use crate::Error;
use crate::cases::{Case, Length, MEAN_OFFSETS, Scope, Source};
use crate::check::difference;
use crate::contest::{Contest, bytes_needed, cold_stride};
use crate::lineup::{
    Filter, absent_bounds, is_bound, lineup, peer_reports, recorded, takes_part, variant_reports,
};
use crate::memory::{Footprint, Memory};
use linerate_kernels::bench::Routine;
use linerate_linux::pin_current_thread;
use linerate_machine::core_clock::{additions_per_cycle, core_cycles_per_tick};
use linerate_machine::ticks::ticks_per_s;
use linerate_record::kernels::{
    ColdState, Kernel, KernelsReport, RaceWindows, Role, Row, Skipped, State, WrongResult,
};
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::{Figure, Tier};
use linerate_trial::{Machine, Samples, Watch};

/// Length of a timing window. At this length, the uncertainty from reading the counter, a few tens
/// of cycles at either end, is below 0.2 % of the window, and most windows contain no interrupt.
const WINDOW_SECONDS: f64 = 25e-6;

/// Rounds per case; odd, so that the median ratio is that of an actual round.
const ROUNDS: u32 = 201;
const ROUNDS_QUICK: u32 = 41;

/// Cycle counts are reported only if the core clock changes by at most this fraction during a case.
const CLOCK_DRIFT_MAX: f64 = 0.03;

/// Maximum number of attempts to measure a case with a stable clock.
const TRIES: u32 = 3;

/// Sweep settings.
#[derive(Clone, Debug)]
pub struct Request {
    /// Cases to measure.
    pub cases: Vec<Case>,
    /// Which routines to time.
    pub filter: Filter,
    /// Logical CPU to run on.
    pub cpu: u32,
    /// Processor name, as in the record.
    pub processor: Option<String>,
    /// Whether to run fewer rounds.
    pub quick: bool,
    /// Random seed for routine order, buffer contents and length mixes.
    pub seed: u64,
}

impl Request {
    /// Requests the cases in `scope`, with all routines supported by this CPU.
    pub fn new(scope: &Scope, cpu: u32) -> Self {
        let (cases, quick) = (scope.cases(), scope.quick);
        Self { cases, filter: Filter::All, cpu, processor: None, quick, seed: 1 }
    }
}

/// A timed routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Name of the routine.
    pub name: String,
    /// Role of the routine, such as variant or bound.
    pub role: Role,
    /// Whether the routine can serve as the bound for the others.
    pub is_bound: bool,
}

/// A measured case.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Case that was measured.
    pub case: Case,
    /// Average bytes per call.
    pub mean_bytes: f64,
    /// Routines, in the order of `times`.
    pub routines: Vec<Timed>,
    /// Ticks per call of each routine.
    pub times: Samples<f64>,
    /// Core cycles per tick during the case, or why they are unknown.
    pub cycles_per_tick: Result<f64, String>,
    /// Independent additions per cycle before and after the case, or why they are unknown.
    pub additions_per_cycle: Result<[f64; 2], String>,
}

/// Result of a sweep.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Report for the record.
    pub report: KernelsReport,
    /// Times from all rounds, from which the report was computed.
    pub measured: Vec<Measured>,
}

/// Measures all cases on the calling thread, which is pinned to `request.cpu` and stays pinned.
///
/// # Errors
/// Returns an error if there are no cases, or if the thread cannot be pinned.
pub fn sweep(request: &Request, watch: &Watch<'_>) -> Result<Outcome, Error> {
    if request.cases.is_empty() {
        return Err(Error::NothingToDo);
    }
    pin_current_thread(request.cpu).map_err(Error::Pin)?;
    watch.progress("checking", 0.0);
    let Checked { lineups, wrong } = Checked::check_all(request);
    let footprint = Footprint::for_cpu(request.cpu);
    let bytes = request.cases.iter().map(|case| bytes_needed(case, footprint)).max();
    let mut bench = Bench {
        memory: Memory::new(bytes.unwrap_or(0), request.seed),
        footprint,
        core_clock: Clock::start(),
        clock: Machine::counter(),
        rounds: if request.quick { ROUNDS_QUICK } else { ROUNDS },
    };
    let mut measured = Vec::new();
    let of_case = watch.with_progress(&|_, _| {});
    for (index, case) in request.cases.iter().enumerate() {
        watch.progress(&case.to_string(), index as f64 / request.cases.len() as f64);
        let of_kernel = lineups[case.kernel as usize].iter().copied();
        let routines: Vec<Routine> = of_kernel.filter(|r| takes_part(case, r)).collect();
        // Each case has its own seed; with a single one, the order would be the same in every case.
        let seed = request.seed.wrapping_add(index as u64);
        let done = bench.measure(case, &routines, &of_case, seed);
        if watch.is_stopped() {
            // Interrupted: drop the current case, which may be incomplete.
            break;
        }
        measured.push(done);
    }
    let Bench { memory, core_clock, .. } = bench;
    let report = KernelsReport {
        processor: request.processor.clone(),
        cpu: request.cpu,
        ticks_per_s: ticks_per_s(),
        cycles_per_tick: core_clock.figure(),
        additions_per_cycle: core_clock.width(),
        additions_per_cycle_range: core_clock.width_range(),
        huge_pages: memory.huge_pages(),
        cold: cold(&measured, footprint),
        variants: variant_reports(),
        peers: peer_reports(),
        rows: measured.iter().flat_map(rows).collect(),
        wrong,
        skipped: skipped(request, footprint),
        windows: windows(&measured),
        seed: request.seed,
        quick: request.quick,
        interrupted: measured.len() < request.cases.len(),
        sizes_named: false,
    };
    Ok(Outcome { report, measured })
}

/// Results of the checks: the routines that passed, by kernel, and those that failed.
struct Checked {
    /// Routines that passed, indexed by [`Kernel`] as a number.
    lineups: [Vec<Routine>; 4],
    wrong: Vec<WrongResult>,
}

impl Checked {
    fn check_all(request: &Request) -> Self {
        let mut checked = Self { lineups: Default::default(), wrong: Vec::new() };
        let is_wanted = |kernel: &Kernel| request.cases.iter().any(|case| case.kernel == *kernel);
        for kernel in Kernel::ALL.into_iter().filter(is_wanted) {
            for (routine, answer) in lineup(kernel, &request.filter) {
                match difference(&routine, answer) {
                    None => checked.lineups[kernel as usize].push(routine),
                    Some(difference) => checked.wrong.push(WrongResult {
                        kernel,
                        variant: routine.name().to_owned(),
                        difference,
                    }),
                }
            }
        }
        checked
    }
}

/// Resources shared by all cases.
struct Bench {
    memory: Memory,
    footprint: Footprint,
    core_clock: Clock,
    clock: Machine,
    rounds: u32,
}

impl Bench {
    fn measure(
        &mut self,
        case: &Case,
        routines: &[Routine],
        watch: &Watch<'_>,
        seed: u64,
    ) -> Measured {
        let mut contest = Contest::new(*case, routines, &mut self.memory, self.footprint, seed);
        let ticks = WINDOW_SECONDS * ticks_per_s();
        let race = || contest.race(self.rounds, ticks, &self.clock, watch, seed);
        let (times, cycles_per_tick, additions_per_cycle) = self.core_clock.while_steady(race);
        let timed = |routine: &Routine| Timed {
            name: routine.name().to_owned(),
            role: recorded(routine.role()),
            is_bound: is_bound(case.kernel, routine),
        };
        Measured {
            case: *case,
            mean_bytes: contest.mean_bytes(),
            routines: routines.iter().map(timed).collect(),
            times,
            cycles_per_tick,
            additions_per_cycle,
        }
    }
}

/// Core clock, measured between cases.
struct Clock {
    last: Result<f64, String>,
    all: Vec<f64>,
    /// Independent additions per cycle, or why they are unknown.
    widths: Result<Vec<f64>, String>,
}

impl Clock {
    fn start() -> Self {
        let mut clock = Self { last: Err(String::new()), all: Vec::new(), widths: Ok(Vec::new()) };
        clock.sample();
        clock
    }

    fn sample(&mut self) {
        self.last = core_cycles_per_tick().map(|clock| clock.value).map_err(|e| e.to_string());
        self.all.extend(self.last.as_ref().ok());
        match (additions_per_cycle(), &mut self.widths) {
            (Ok(width), Ok(widths)) => widths.push(width),
            (Err(error), widths) => *widths = Err(error.to_string()),
            (Ok(_), Err(_)) => {}
        }
    }

    /// Returns the core cycles per tick since the last measurement, or an error if the clock was
    /// not stable.
    fn since_last(&mut self) -> Result<f64, String> {
        let before = self.last.clone()?;
        self.sample();
        let after = self.last.clone()?;
        if (before / after - 1.0).abs() > CLOCK_DRIFT_MAX {
            return Err(format!(
                "the core clock changed during this case, from {before:.3} to {after:.3} cycles \
                 per tick"
            ));
        }
        Ok((before + after) / 2.0)
    }

    /// Runs `race`, and repeats it if the clock changed during the run, up to [`TRIES`] runs in
    /// all. Returns the result of the last run, with the cycles per tick, and the additions per
    /// cycle before and after it. If the clock cannot be measured, `race` runs only once.
    fn while_steady<T>(
        &mut self,
        mut race: impl FnMut() -> T,
    ) -> (T, Result<f64, String>, Result<[f64; 2], String>) {
        let mut tries = 1;
        loop {
            let before = self.last_width();
            let times = race();
            let cycles_per_tick = self.since_last();
            if cycles_per_tick.is_ok() || self.last.is_err() || tries == TRIES {
                let after = self.last_width();
                return (times, cycles_per_tick, before.and_then(|before| Ok([before, after?])));
            }
            tries += 1;
        }
    }

    fn last_width(&self) -> Result<f64, String> {
        let widths = self.widths.as_ref().map_err(Clone::clone)?;
        widths.last().copied().ok_or_else(|| "not measured".to_owned())
    }

    fn figure(&self) -> Figure {
        const METHOD: &str = "chains of dependent additions, timed between the cases";
        match &self.last {
            Err(reason) if self.all.is_empty() => {
                Figure::absent("cycles/tick", Tier::Sw, METHOD, reason)
            }
            _ => Figure::number(
                "cycles/tick",
                median_interval(&self.all, CONFIDENCE),
                Tier::Sw,
                METHOD,
            ),
        }
    }

    fn width(&self) -> Figure {
        const METHOD: &str =
            "rate of eight addition chains relative to one chain, timed between the cases";
        match &self.widths {
            Err(reason) => Figure::absent("additions/cycle", Tier::Sw, METHOD, reason),
            Ok(widths) => Figure::number(
                "additions/cycle",
                median_interval(widths, CONFIDENCE),
                Tier::Sw,
                METHOD,
            ),
        }
    }

    fn width_range(&self) -> Option<[f64; 2]> {
        let widths = self.widths.as_ref().ok().filter(|widths| !widths.is_empty())?;
        let least = widths.iter().copied().fold(f64::INFINITY, f64::min);
        Some([least, widths.iter().copied().fold(0.0, f64::max)])
    }
}

/// Converts a measured case to report rows.
fn rows(measured: &Measured) -> Vec<Row> {
    let bounds = (0..measured.routines.len()).filter(|&which| measured.routines[which].is_bound);
    let bound = measured.times.fastest(bounds);
    (0..measured.routines.len()).map(|which| row(measured, which, bound)).collect()
}

fn row(measured: &Measured, which: usize, bound: Option<usize>) -> Row {
    let (case, times) = (measured.case, &measured.times);
    let ticks = times.estimate(which, CONFIDENCE);
    let clock = measured.cycles_per_tick.as_ref();
    let cycles = |ticks: Option<f64>| ticks.zip(clock.ok()).map(|(ticks, clock)| ticks * clock);
    let [value, low, high] = ends(ticks);
    // The bound's time divided by this routine's: the routine's speed as a fraction of the bound's.
    let share = bound.and_then(|bound| times.ratio(bound, which, CONFIDENCE));
    let [of_bound, of_bound_low, of_bound_high] = ends(share);
    let is_mean = case.source == Source::MeanOffsets;
    let lost = || "no valid window".to_owned();
    Row {
        kernel: case.kernel,
        variant: measured.routines[which].name.clone(),
        role: measured.routines[which].role,
        size: match case.length {
            Length::Bytes(bytes) => Some(bytes.into()),
            Length::Mix(_) => None,
        },
        mix: match case.length {
            Length::Bytes(_) => None,
            Length::Mix(mix) => Some(mix),
        },
        mean_bytes: measured.mean_bytes,
        src_offset: match case.source {
            Source::At(offset) => Some(offset),
            Source::None | Source::MeanOffsets => None,
        },
        dst_offset: case.dst_offset,
        page_distance: case.page_distance(),
        offsets: is_mean.then(|| MEAN_OFFSETS.to_vec()),
        state: case.state,
        timing: case.timing,
        cycles: cycles(value),
        cycles_low: cycles(low),
        cycles_high: cycles(high),
        ticks: value,
        ticks_low: low,
        ticks_high: high,
        n: ticks.map_or(0, |ticks| ticks.n),
        bytes_per_cycle: cycles(value).map(|cycles| measured.mean_bytes / cycles),
        bound: bound.map(|bound| measured.routines[bound].name.clone()),
        of_bound,
        of_bound_low,
        of_bound_high,
        reason: if ticks.is_none() { Some(lost()) } else { clock.err().cloned() },
    }
}

/// Returns the value, then the low and high ends of its interval. An end that the samples do not
/// determine is absent.
fn ends(estimate: Option<Estimate>) -> [Option<f64>; 3] {
    let finite = |value: f64| value.is_finite().then_some(value);
    let of = |end: fn(&Estimate) -> f64| estimate.as_ref().map(end).and_then(finite);
    [of(|e| e.value), of(|e| e.low), of(|e| e.high)]
}

fn windows(measured: &[Measured]) -> RaceWindows {
    measured.iter().fold(RaceWindows::default(), |sum, measured| {
        let windows = measured.times.counts();
        RaceWindows {
            total: sum.total + windows.total,
            preempted: sum.preempted + windows.preempted(),
            dropped_as_slow: sum.dropped_as_slow + windows.far_slower,
        }
    })
}

fn cold(measured: &[Measured], footprint: Footprint) -> Option<ColdState> {
    let is_cold = measured.iter().any(|measured| measured.case.state == State::Cold);
    let cache = match footprint.cache_bytes {
        Some(bytes) => format!("the last-level cache of {} MiB", bytes >> 20),
        None => "a last-level cache of unknown size".to_owned(),
    };
    is_cold.then(|| ColdState {
        footprint_bytes: footprint.bytes as u64,
        stride_bytes: cold_stride(1) as u64,
        eviction: format!(
            "buffers are visited in address order; source and destination each have a footprint of \
             {} MiB, compared with {cache}; the gaps between buffers are read after each window, \
             so that a line is reused only after all others; the stride is 2048 bytes for buffers \
             of up to 1984 bytes and 10240 bytes for buffers of up to 10176 bytes; larger ones are \
             packed",
            footprint.bytes >> 20
        ),
    })
}

fn skipped(request: &Request, footprint: Footprint) -> Vec<Skipped> {
    let mut skipped = absent_bounds();
    if request.filter != Filter::All {
        let reason = "only the named variants were timed".to_owned();
        skipped.push(Skipped { what: "peers and other variants".to_owned(), reason });
    }
    let is_cold = request.cases.iter().any(|case| case.state == State::Cold);
    if is_cold && !footprint.is_enough() {
        let reason = format!(
            "available memory limits the footprint to {} MiB: part of the data may still be cached",
            footprint.bytes >> 20
        );
        skipped.push(Skipped { what: "bytes guaranteed to be cold".to_owned(), reason });
    }
    skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn races(last: Result<f64, String>) -> (u32, bool) {
        let mut clock = Clock { last, all: Vec::new(), widths: Ok(Vec::new()) };
        let mut races = 0;
        let (_, cycles_per_tick, _) = clock.while_steady(|| races += 1);
        (races, cycles_per_tick.is_ok())
    }

    #[test]
    fn a_case_is_not_repeated_for_a_clock_that_cannot_be_measured() {
        assert_eq!(races(Err("no chain for this processor".to_owned())), (1, false));
    }

    #[test]
    fn a_case_is_repeated_if_the_clock_changed_during_it() {
        // A clock that was a thousand times as fast before: the first race is void.
        let (races, _) = races(
            core_cycles_per_tick()
                .map(|clock| 1000.0 * clock.value)
                .map_err(|error| error.to_string()),
        );
        let is_known = core_cycles_per_tick().is_ok();
        assert!(if is_known { races > 1 } else { races == 1 }, "{races}");
    }
}
