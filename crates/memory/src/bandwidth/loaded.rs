// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load latency while other threads use memory.
//!
//! The calling thread walks a chain in one half of the arena while other threads read the other
//! half with a given duty cycle per [`PERIOD_NS`]. They read it in turn, a [`STRETCH`] at a time:
//! however many run, all of the half is read before any of it is read again. It must be larger than
//! all caches of the readers, which limits their number. Their reads are counted during each window
//! of the chase. While a reader is preempted, the load is lower than intended, so only windows with
//! nearly the maximum load are valid. The result is the median of the valid windows; the fastest
//! window would be the least loaded one.

use super::sharing::beyond_caches_of;
use super::sweep;
use super::team::{self, Finally, spin_until};
use super::{Request, UNIT};
use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::window::Windows;
use linerate_linux::monotonic_ns;
use linerate_machine::topology::Topology;
use linerate_record::memory::{LoadedLatency, MemoryLevel, Order};
use linerate_record::stats::{CONFIDENCE, median, median_interval};
use linerate_record::{Figure, Tier};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Reader period in ns. A reader reads for part of each period and spins for the rest.
const PERIOD_NS: u64 = 100_000;

/// Window length in ns: five periods.
const WINDOW_NS: f64 = 500_000.0;

/// Windows per load level and pass.
const WINDOWS: u32 = 4;

/// Measuring stops once every load level has this many valid windows.
const ENOUGH: usize = 24;

const MOST_PASSES: u32 = 100;

/// Minimum fraction of the maximum load at which a window counts as having the intended load.
const AS_MEANT: f64 = 0.75;

/// Number of bytes that a reader reads between two clock reads; reading them takes 6 us at 10 GB/s.
const STRETCH: usize = 64 << 10;

/// Number of loads timed to estimate how many loads fill a window.
const PROBE_LOADS: u64 = 256;

/// Lower limit on the estimated ns per load, so that a stopped clock cannot make windows endless.
/// No load from memory is faster.
const LEAST_NS_PER_LOAD: f64 = 1.0;

/// How many readers run during a window, and their duty cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    threads: usize,
    /// Percentage of each period spent reading.
    duty: u32,
}

/// Commands to the readers, and their results.
#[derive(Debug)]
struct Orders {
    threads: AtomicUsize,
    duty: AtomicU32,
    is_over: AtomicBool,
    /// Number of [`STRETCH`]es that readers have begun; it determines where the next stretch
    /// begins.
    begun: Count,
    /// Number of [`STRETCH`]es read so far, per reader.
    read: Vec<Count>,
}

/// A counter padded against false sharing; some processors fetch 64-byte lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Results of one window of the chase.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    pass: u32,
    ns_per_load: f64,
    gb_per_s: f64,
}

/// Measures memory latency while the other CPUs read memory at increasing rates. If this is
/// impossible, for example on a single CPU, returns one point whose figures give the reason.
pub fn loaded(
    windows: &Windows<'_>,
    arena: &mut Arena,
    levels: &[MemoryLevel],
    request: &Request<'_>,
) -> Vec<LoadedLatency> {
    windows.progress("load latency under concurrent reads");
    let Some(others) = request.cpus.get(1..).filter(|others| !others.is_empty()) else {
        return vec![unknown("only one CPU is available, so no concurrent readers can run")];
    };
    let half = arena.bytes() / 2 / STRETCH * STRETCH;
    let caches = levels.iter().filter_map(|level| level.size_bytes.as_number()).fold(0.0, f64::max);
    if half == 0 || (half as f64) < 2.0 * caches {
        return vec![unknown(
            "half of the allowed memory is less than twice the cache size: allow more memory",
        )];
    }
    let topology = Topology::read(others);
    let others = readers(&topology, others, levels, half);
    if others.is_empty() {
        return vec![unknown(
            "half of the allowed memory is so small that even a single reader would hit its own \
             caches: allow more memory",
        )];
    }
    let start = arena.start().wrapping_add(half);
    let mut chain = Chain::new(arena, Layout::dense(Order::PageLocal, request.line), request.seed);
    let goes_on = || !windows.is_stopped() && Instant::now() < request.deadline;
    if !chain.grow(half / request.line, goes_on) {
        return vec![unknown(&format!("time limit reached; {}", windows.more_time()))];
    }
    // SAFETY: the memory is the second half of the arena, which was touched, so it is initialized.
    // The arena is exclusively borrowed by a chain, which uses only the first half.
    let rest = unsafe { std::slice::from_raw_parts(start.cast::<u64>(), half / 8) };
    // Evicts everything else from the caches.
    sweep::read(rest);
    let orders = Orders::new(others.len());
    let loads = loads(others.len());
    let samples = team::run(
        others,
        vec![rest; others.len()],
        |_| {
            let _over = Finally(|| orders.is_over.store(true, Ordering::Relaxed));
            chase(windows, &chain, &orders, &loads, request.deadline)
        },
        |member, rest| read_by_orders(&orders, member.number, rest),
    );
    match samples {
        Ok((samples, _)) => {
            let more = windows.more_time();
            loads.iter().zip(&samples).map(|(load, seen)| record(load, seen, more)).collect()
        }
        Err(reason) => vec![unknown(&reason)],
    }
}

/// Returns the load levels to measure with this many other CPUs.
fn loads(others: usize) -> Vec<Load> {
    let some = std::iter::successors(Some(1), |threads| Some(threads * 2));
    let some = some.take_while(|&threads| threads < others);
    let some = some.map(|threads| Load { threads, duty: 100 });
    let all = [25, 50, 75, 100].map(|duty| Load { threads: others, duty });
    std::iter::once(Load { threads: 0, duty: 0 }).chain(some).chain(all).collect()
}

/// Returns as many of `others`, from the first, as can take turns reading `bytes` bytes without
/// finding them in their caches.
fn readers<'a>(
    topology: &Topology,
    others: &'a [u32],
    levels: &[MemoryLevel],
    bytes: usize,
) -> &'a [u32] {
    let is_enough =
        |count: &usize| beyond_caches_of(topology, &others[..*count], levels) <= bytes as f64;
    &others[..(1..=others.len()).rev().find(is_enough).unwrap_or(0)]
}

/// Runs a reader, which reads stretches of `memory` in turn with the others. Readers are numbered
/// from 1.
fn read_by_orders(orders: &Orders, number: usize, memory: &[u64]) {
    while !orders.is_over.load(Ordering::Relaxed) {
        let is_idle = number > orders.threads.load(Ordering::Relaxed);
        if is_idle {
            std::thread::sleep(Duration::from_nanos(PERIOD_NS));
            continue;
        }
        let start = monotonic_ns();
        let since = || monotonic_ns() - start;
        let read_ns = PERIOD_NS * u64::from(orders.duty.load(Ordering::Relaxed)) / 100;
        while since() < read_ns {
            sweep::read(orders.next_of(memory));
            orders.read[number - 1].0.fetch_add(1, Ordering::Relaxed);
        }
        while since() < PERIOD_NS {
            std::hint::spin_loop();
        }
    }
}

/// Measures windows of the chase at each load level.
fn chase(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    orders: &Orders,
    loads: &[Load],
    deadline: Instant,
) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); loads.len()];
    let mut cursor = Cursor::default();
    for pass in 0..MOST_PASSES {
        if loads.iter().zip(&samples).all(|(load, all)| as_meant(load, all).len() >= ENOUGH) {
            break;
        }
        for (load, samples) in loads.iter().zip(&mut samples) {
            orders.give(load);
            let start = monotonic_ns();
            let in_chase = chain.run(&mut cursor, PROBE_LOADS);
            let ns_per_load = (monotonic_ns() - start) as f64 / in_chase as f64;
            let in_window = (WINDOW_NS / ns_per_load.max(LEAST_NS_PER_LOAD)).ceil() as u64;
            for _ in 0..WINDOWS {
                if windows.is_stopped() || Instant::now() >= deadline {
                    break;
                }
                samples.extend(window(windows, chain, &mut cursor, orders, (pass, in_window)));
            }
        }
    }
    samples
}

/// Measures a window of `loads` loads in `pass`; `None` if the chasing thread was preempted.
fn window(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    cursor: &mut Cursor,
    orders: &Orders,
    (pass, loads): (u32, u64),
) -> Option<Sample> {
    let (mut made, mut stretches) = (0, 0);
    let window = windows.time(|| {
        let before = orders.stretches();
        made = chain.run(cursor, loads);
        stretches = orders.stretches() - before;
    });
    let gb_per_s = (stretches * STRETCH as u64) as f64 / window.ns;
    window.kept.then_some(Sample { pass, ns_per_load: window.ns / made as f64, gb_per_s })
}

impl Orders {
    /// Creates orders for this many readers, none of which runs yet.
    fn new(readers: usize) -> Self {
        Self {
            threads: AtomicUsize::new(0),
            duty: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            begun: Count::default(),
            read: std::iter::repeat_with(Count::default).take(readers).collect(),
        }
    }

    /// Returns the next stretch of `memory` to read, starting over after the last one. `memory`
    /// must have at least one stretch.
    fn next_of<'a>(&self, memory: &'a [u64]) -> &'a [u64] {
        let words = STRETCH / size_of::<u64>();
        let number = self.begun.0.fetch_add(1, Ordering::Relaxed) as usize;
        let at = number % (memory.len() / words) * words;
        &memory[at..at + words]
    }

    /// Publishes the commands and waits for two periods, so that every running reader has read
    /// them.
    fn give(&self, load: &Load) {
        self.threads.store(load.threads, Ordering::Relaxed);
        self.duty.store(load.duty, Ordering::Relaxed);
        let start = monotonic_ns();
        spin_until(|| monotonic_ns() - start > 2 * PERIOD_NS);
    }

    /// Returns the number of [`STRETCH`]es that all readers together have read so far.
    fn stretches(&self) -> u64 {
        self.read.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// Returns the samples taken at the intended load. With readers, these are the windows in which
/// they read. Without readers, they are the windows in which nothing was read: a reader that was
/// preempted earlier still completes its share when it resumes.
fn as_meant(load: &Load, samples: &[Sample]) -> Vec<Sample> {
    let most = samples.iter().map(|sample| sample.gb_per_s).fold(0.0, f64::max);
    let is_meant = |sample: &Sample| match load.threads {
        0 => sample.gb_per_s == 0.0,
        _ => sample.gb_per_s > 0.0 && sample.gb_per_s >= AS_MEANT * most,
    };
    samples.iter().copied().filter(is_meant).collect()
}

const LATENCY: &str = "pointer chase over half of the memory: median over passes of the median \
                       window in which the readers were not preempted";

const RATE: &str = "bandwidth from the readers' counts, median over passes of the median chase \
                    window";

/// Returns the median of each pass. The windows of a pass follow one another, so only passes are
/// independent.
fn medians(samples: &[Sample], part: fn(&Sample) -> f64) -> Vec<f64> {
    let passes = samples.chunk_by(|a, b| a.pass == b.pass);
    passes.filter_map(|pass| median(&pass.iter().map(part).collect::<Vec<f64>>())).collect()
}

/// Converts the samples at one load level to a record. `more` is advice on how to allow more
/// measuring time.
fn record(load: &Load, samples: &[Sample], more: &str) -> LoadedLatency {
    let seen = samples.len();
    let samples = as_meant(load, samples);
    let figure = |unit, method, part: fn(&Sample) -> f64| {
        let values = medians(&samples, part);
        let absent = match (seen, load.threads) {
            (0, _) => format!(
                "the chase was preempted in every window: the time was too short, or the machine \
                 too busy; {more}"
            ),
            (_, 0) => "no window without readers was valid: the machine is too busy; measure \
                       again when it is idle"
                .to_owned(),
            _ => "readers were preempted in every window: the machine is too busy; measure again \
                  when it is idle"
                .to_owned(),
        };
        match values.is_empty() {
            true => Figure::absent(unit, Tier::Sw, method, &absent),
            false => Figure::number(unit, median_interval(&values, CONFIDENCE), Tier::Sw, method),
        }
    };
    LoadedLatency {
        threads: load.threads as u32,
        duty: f64::from(load.duty) / 100.0,
        gb_per_s: figure(UNIT, RATE, |sample| sample.gb_per_s),
        latency_ns: figure("ns/load", LATENCY, |sample| sample.ns_per_load),
    }
}

/// Returns the single point that is recorded if nothing can be measured.
fn unknown(reason: &str) -> LoadedLatency {
    LoadedLatency {
        threads: 0,
        duty: 0.0,
        gb_per_s: Figure::absent(UNIT, Tier::Sw, RATE, reason),
        latency_ns: Figure::absent("ns/load", Tier::Sw, LATENCY, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sharing::tests::{levels as levels_of, machine};
    use super::*;

    fn sample(pass: u32, ns_per_load: f64, gb_per_s: f64) -> Sample {
        Sample { pass, ns_per_load, gb_per_s }
    }

    /// With two L3s of eight CPUs each, readers that use both must read more than both hold.
    #[test]
    fn there_are_no_more_readers_than_the_memory_leaves_the_caches_of() {
        let (machine, others) = (machine(&[0..8, 8..16]), (1..16).collect::<Vec<u32>>());
        let levels = [("L2", Some(1.0)), ("L3", Some(32.0)), ("memory", None)];
        let readers = |mib: usize| readers(&machine, &others, &levels_of(&levels), mib << 20);
        assert_eq!(readers(128), others);
        assert_eq!(readers(64), &others[..7]);
        assert_eq!(readers(63), [0_u32; 0]);
    }

    /// Whichever readers run, a stretch is read again only after all others.
    #[test]
    fn readers_take_turns_over_all_of_the_memory() {
        let (orders, memory) = (Orders::new(3), vec![0_u64; 5 * STRETCH / 8]);
        let mut starts: Vec<usize> =
            (0..5).map(|_| orders.next_of(&memory).as_ptr() as usize).collect();
        let first = memory.as_ptr() as usize;
        assert_eq!(orders.next_of(&memory).as_ptr() as usize, first);
        starts.iter_mut().for_each(|start| *start -= first);
        assert_eq!(starts, [0, 1, 2, 3, 4].map(|k| k * STRETCH));
        assert_eq!(orders.next_of(&memory).len() * 8, STRETCH);
    }

    #[test]
    fn the_loads_rise_to_all_of_the_processors() {
        let all = |others| -> Vec<(usize, u32)> {
            loads(others).iter().map(|load| (load.threads, load.duty)).collect()
        };
        assert_eq!(all(1), [(0, 0), (1, 25), (1, 50), (1, 75), (1, 100)]);
        let some = [(0, 0), (1, 100), (2, 100), (4, 100), (5, 25), (5, 50), (5, 75), (5, 100)];
        assert_eq!(all(5), some);
    }

    /// Windows in which the readers did not run are faster and must not count.
    #[test]
    fn windows_with_less_load_than_meant_do_not_count() {
        let away = (0..30).map(|k| sample(k, 100.0, f64::from(k) / 2.0));
        let there = (30..41).map(|k| sample(k, 170.0 + f64::from(k), 20.0));
        let point =
            record(&Load { threads: 1, duty: 50 }, &away.chain(there).collect::<Vec<_>>(), "");
        assert_eq!(point.latency_ns.as_number(), Some(205.0));
        assert_eq!(point.gb_per_s.as_number(), Some(20.0));
        assert_eq!((point.threads, point.duty), (1, 0.5));
    }

    /// Passes differ, but the windows of a pass are alike: 24 windows contain no more information
    /// than six passes.
    #[test]
    fn windows_of_one_pass_are_not_independent() {
        let passes = (0..).zip([104.0, 101.0, 106.0, 102.0, 105.0, 103.0]);
        let windows = passes.flat_map(|(pass, ns)| [sample(pass, ns, 20.0); WINDOWS as usize]);
        let point = record(&Load { threads: 1, duty: 100 }, &windows.collect::<Vec<_>>(), "");
        let latency = point.latency_ns;
        assert_eq!((latency.as_number(), latency.n), (Some(103.5), 6));
        assert_eq!((latency.low, latency.high), (Some(101.0), Some(106.0)));
    }

    /// If the readers never ran, there is no latency under load.
    #[test]
    fn a_load_that_never_was_is_absent() {
        let samples: Vec<Sample> = (1..=9).map(|k| sample(k, f64::from(k), 0.0)).collect();
        let point = record(&Load { threads: 1, duty: 100 }, &samples, "");
        assert_eq!((point.latency_ns.as_number(), point.gb_per_s.as_number()), (None, None));
        assert!(point.gb_per_s.reason.is_some_and(|reason| reason.contains("readers")));
    }

    #[test]
    fn without_readers_all_windows_count() {
        let samples: Vec<Sample> = (1..=9).map(|k| sample(k, f64::from(k), 0.0)).collect();
        assert_eq!(record(&Load { threads: 0, duty: 0 }, &samples, "").latency_ns.n, 9);
        // A window with a reader that finished late must not count as unloaded.
        let late = samples.iter().copied().chain([sample(10, 50.0, 0.1), sample(10, 60.0, 20.0)]);
        let point = record(&Load { threads: 0, duty: 0 }, &late.collect::<Vec<_>>(), "");
        assert_eq!((point.latency_ns.n, point.latency_ns.as_number()), (9, Some(5.0)));
        assert_eq!(point.gb_per_s.as_number(), Some(0.0));
        let all_late = record(&Load { threads: 0, duty: 0 }, &[sample(0, 50.0, 0.1)], "");
        assert!(
            all_late.latency_ns.reason.is_some_and(|reason| reason.contains("without readers"))
        );
        let none = record(&Load { threads: 0, duty: 0 }, &[], "");
        assert!(none.latency_ns.reason.is_some() && none.gb_per_s.reason.is_some());
    }
}
