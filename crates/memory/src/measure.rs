// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs all parts of the measurement in order, within a time limit.
//!
//! ```text
//! pin the thread; determine the clocks
//! page-local curve, from which the levels follow; random and sequential curves
//! page sizes and address translation, in separate memory
//! per level: individual loads, parallel loads, bandwidth, loads while others read, events
//! watch the clock for interruptions
//! ```
//!
//! Each part gets a [`Bench`] and a deadline derived from its share of the remaining time. A delay
//! in one part is therefore spread over all later parts.

mod budget;
mod machine_facts;

use crate::arena::Arena;
use crate::bench::Bench;
use crate::noise::{self, Account};
use crate::single::Stopwatch;
use crate::translation::{self, Translation};
use crate::window::Windows;
use crate::{MemoryError, Watch};
use crate::{bandwidth, curve, events, parallel};
use budget::{Budget, Part};
use linerate_hierarchy::levels::Levels;
use linerate_hierarchy::{cost, os_view};
use linerate_linux::{allowed_cpus, current_cpu, load_average, pin_current_thread};
use linerate_machine::Root;
use linerate_machine::topology::on_node_of;
use linerate_record::memory::{
    Bandwidth, Conditions, Curve, Effort, EventsOfSize, Histogram, LoadedLatency, MemoryReport,
    Order, PageKind,
};
use machine_facts::MachineFacts;
use std::path::Path;
use std::time::Instant;

/// Settings for measuring the memory hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time budget.
    pub effort: Effort,
    /// CPU to measure on; `None` for the current one.
    pub cpu: Option<u32>,
    /// Maximum bytes to allocate; `None` for a default based on the time budget and the machine.
    pub max_bytes: Option<u64>,
    /// Page kind; `None` for huge pages if available.
    pub pages: Option<PageKind>,
    /// Random seed.
    pub seed: u64,
}

/// Measures the memory hierarchy as seen by the calling thread, which stays pinned to the measured
/// CPU. Takes about as long as `request.effort` specifies, and up to 40 % longer on a busy
/// machine.
///
/// # Errors
/// Returns an error if there is too little memory, if the CPU is not available, or if the
/// measurement is stopped before the first curve is complete.
pub fn measure(request: &Request, watch: &Watch<'_>) -> Result<MemoryReport, MemoryError> {
    let budget = Budget::new(request.effort);
    let windows = Windows::new(watch, budget.total());
    let start = Start::now(request)?;
    let machine_facts = MachineFacts::gather(request, start.cpu)?;
    windows.progress("clocks");
    let bench = machine_facts.bench(windows, request, &start);
    let stopwatch = Stopwatch::new(&bench);

    let mut arena = machine_facts.arena(request.pages, watch)?;
    let used = arena.kind();
    let curves = curves(&bench, &mut arena, &budget);
    // The following parts allocate their own memory.
    let arena = Some(arena).filter(|arena| translation::has_room_in_addition(&bench, arena));
    if curves[0].points.is_empty() {
        return Err(MemoryError::Stopped);
    }
    bench.windows.progress("levels");
    let replicates = if request.effort == Effort::Quick { FEW } else { MANY };
    let stated = (&machine_facts.stated, machine_facts.last_level());
    let levels = Levels::find(&curves[0], stated, request.seed, replicates);
    bench.windows.progress("pages");
    let mut translation = translation::measure(&bench, used, budget.until(Part::Translation));
    let arena = match arena {
        Some(arena) => Ok(arena),
        None => Arena::new(machine_facts.arena_bytes, used, watch.stop()),
    };
    let parts = match arena {
        Ok(arena) => Parts::measure(&bench, arena, &levels, &mut translation, &stopwatch, &budget),
        Err(error) => Parts::none(&error.to_string()),
    };
    bench.windows.progress("noise");
    let noise = noise::measure(&bench, &start.account, budget.until(Part::Noise));
    let outstanding: Vec<_> = parts.parallel.iter().map(|measured| measured.outstanding).collect();
    let measured = cost::Measured {
        outstanding: &outstanding,
        tlb: &translation.levels,
        page_bytes: translation.page_bytes,
        line_bytes: bench.line as u64,
        seed: request.seed,
    };
    let costs = cost::records(&levels, &curves, &measured);
    let found = os_view::Found {
        levels: &levels.levels,
        unresolved: &levels.unresolved,
        max_bytes: machine_facts.arena_bytes as u64,
    };
    Ok(MemoryReport {
        conditions: conditions(&bench, &machine_facts, start.load),
        timer: stopwatch.timer,
        pages: translation.pages,
        os_view: os_view::compare(&machine_facts.stated, &found),
        curves,
        levels: levels.levels,
        unresolved: levels.unresolved,
        resolution: linerate_hierarchy::steps::RESOLUTION,
        tlb: translation.tlb,
        costs,
        histograms: parts.histograms,
        parallelism: parts.parallel.into_iter().map(|measured| measured.record).collect(),
        bandwidth: parts.bandwidth,
        loaded: parts.loaded,
        noise,
        events: parts.events,
        events_reason: parts.events_reason,
    })
}

/// Initial state: the CPU of the pinned thread, the CPUs it was allowed to run on, the system load,
/// and the kernel's accounting.
struct Start {
    cpu: u32,
    cpus: Vec<u32>,
    /// One-minute load average.
    load: Option<f64>,
    account: Account,
}

impl Start {
    fn now(request: &Request) -> Result<Self, MemoryError> {
        let cpus = allowed_cpus()?;
        let cpu = request.cpu.map_or_else(current_cpu, Ok)?;
        pin_current_thread(cpu)?;
        let load = load_average().ok().map(|averages| averages[0]);
        Ok(Self { cpu, cpus, load, account: Account::now(Path::new("/"), cpu) })
    }
}

/// Measures the page-local curve, then the random and sequential ones.
fn curves(bench: &Bench<'_>, arena: &mut Arena, budget: &Budget) -> Vec<Curve> {
    let (passes, per_octave, refine) = match bench.effort {
        Effort::Quick => (5, 4, 0),
        Effort::Default => (10, 4, 3),
        Effort::Full => (40, 5, 3),
    };
    let wanted = [
        ("page-local chains", Order::PageLocal, Part::PageLocal, passes, per_octave),
        ("random chains", Order::Random, Part::Random, passes / 2, 2),
        ("sequential chains", Order::Sequential, Part::Sequential, passes / 2, 1),
    ];
    let mut curve = |(name, order, part, passes, per_octave)| {
        bench.windows.progress(name);
        let (line, seed, deadline) = (bench.line, bench.seed, budget.until(part));
        let refine = if order == Order::PageLocal { refine } else { 0 };
        let request = curve::Request { order, line, passes, per_octave, refine, seed, deadline };
        curve::measure(&bench.windows, arena, &request)
    };
    wanted.into_iter().map(&mut curve).collect()
}

/// Intermediate results, by level.
#[derive(Default)]
struct Parts {
    histograms: Vec<Histogram>,
    parallel: Vec<parallel::Measured>,
    bandwidth: Vec<Bandwidth>,
    loaded: Vec<LoadedLatency>,
    events: Vec<EventsOfSize>,
    events_reason: Option<String>,
}

impl Parts {
    fn none(reason: &str) -> Self {
        Self { events_reason: Some(reason.to_owned()), ..Self::default() }
    }

    fn measure(
        bench: &Bench<'_>,
        mut arena: Arena,
        levels: &Levels,
        translation: &mut Translation,
        stopwatch: &Stopwatch,
        budget: &Budget,
    ) -> Self {
        let room = bench.limit.bytes.saturating_sub(arena.bytes() as u64);
        let (found, arena) = (&levels.levels[..], &mut arena);
        let mut parts = Self::none("not counted in a quick measurement");
        if budget.has(Part::Single) {
            bench.windows.progress("individual loads");
            parts.histograms = stopwatch.measure(bench, arena, found, budget.until(Part::Single));
        }
        let Bench { windows, line, seed, .. } = bench;
        let (line, seed) = (*line, *seed);
        let deadline = budget.until(Part::Parallel);
        let request = parallel::Request { line, passes: PARALLEL_PASSES, seed, deadline };
        translation.look_again(bench, room);
        parts.parallel = parallel::measure(windows, arena, found, &request);
        translation.look_again(bench, room);
        let cpus = team(&Root::new(Path::new("/")), bench.cpu, &bench.cpus);
        let request =
            |part| bandwidth::Request { cpus: &cpus, line, seed, deadline: budget.until(part) };
        if budget.has(Part::Bandwidth) {
            let request = request(Part::Bandwidth);
            parts.bandwidth = bandwidth::measure(windows, arena, found, &request);
            translation.look_again(bench, room);
        }
        if budget.has(Part::Loaded) {
            let request = request(Part::Loaded);
            parts.loaded = bandwidth::loaded(windows, arena, found, &request);
            translation.look_again(bench, room);
        }
        if budget.has(Part::Events) {
            bench.windows.progress("events");
            let deadline = budget.until(Part::Events);
            match count(bench, arena, levels, translation, deadline) {
                Ok(events) => (parts.events, parts.events_reason) = (events, None),
                Err(reason) => parts.events_reason = Some(reason),
            }
        }
        parts
    }
}

/// Returns the CPUs whose threads use memory at the same time, `cpu` first: those of `cpus` on the
/// same node as `cpu`, which touched the arena and so placed it there.
fn team(root: &Root, cpu: u32, cpus: &[u32]) -> Vec<u32> {
    let others = on_node_of(root, cpu, cpus).into_iter().filter(|other| *other != cpu);
    std::iter::once(cpu).chain(others).collect()
}

/// Number of curve resamplings in a quick measurement.
const FEW: u32 = 60;
/// Number of curve resamplings in a measurement that is not quick.
const MANY: u32 = 200;

/// Number of passes over parallel chains: the minimum for a 95 % interval.
const PARALLEL_PASSES: u32 = 6;

/// Counts events for page-local chains, one size per doubling, up to the whole arena.
fn count(
    bench: &Bench<'_>,
    arena: &mut Arena,
    levels: &Levels,
    translation: &Translation,
    deadline: Instant,
) -> Result<Vec<EventsOfSize>, String> {
    let doublings =
        (12..).map(|shift| 1 << shift).take_while(|bytes| *bytes <= arena.bytes() as u64);
    let sizes: Vec<u64> = doublings.collect();
    let request = events::Request {
        order: Order::PageLocal,
        sizes: &sizes,
        levels: &levels.levels,
        tlb: &translation.tlb,
    };
    events::measure(bench, arena, &request, deadline)
}

fn conditions(bench: &Bench<'_>, machine_facts: &MachineFacts, load: Option<f64>) -> Conditions {
    let (kept, dropped) = bench.windows.counts();
    Conditions {
        effort: bench.effort,
        elapsed_s: bench.windows.started().elapsed().as_secs_f64(),
        cpu: bench.cpu,
        cpus: bench.cpus.clone(),
        line_bytes: bench.line as u64,
        max_bytes: machine_facts.arena_bytes as u64,
        max_reason: machine_facts.arena_reason.clone(),
        load_before: load,
        load_after: load_average().ok().map(|averages| averages[0]),
        windows: kept + dropped,
        windows_dropped: dropped,
        interrupted: bench.windows.is_stopped(),
    }
}

#[cfg(test)]
mod tests;
