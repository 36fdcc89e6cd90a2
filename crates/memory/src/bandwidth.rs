// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single-threaded and all-threads bandwidth, and load latency while other threads use memory.
//!
//! ```text
//! pass:  for each level and operation, in a new random order, the same for all threads:
//!            sweep its working set until it has settled in that level;
//!            windows, in which all threads sweep at the same time
//! ```
//!
//! A window counts only if no thread was preempted during it and all threads were sweeping nearly
//! all of the time. Each figure comes with an upper bound: the rate of the same loop over a buffer
//! that fits L1, or the fastest result if that was faster.
//!
//! Non-temporal stores, memory on other nodes, and mixes of reads and writes are not measured.

mod loaded;
mod passes;
mod sharing;
mod sweep;
mod team;

pub use loaded::loaded;

use crate::Watch;
use crate::arena::Arena;
use crate::curve::{least, of_passes};
use crate::parallel::{GRAIN, far_beyond, working_sets};
use crate::window::Windows;
use linerate_machine::topology::Topology;
use linerate_record::memory::{Bandwidth, MemoryLevel, Operation};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use passes::{Plan, Sample, passes, rounds};
use sharing::{Sharers, beyond_parts, sharers};
use std::ops::Range;
use std::time::{Duration, Instant};
use sweep::{LOT, Piece};

/// Settings for the bandwidth measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// CPUs to use, one thread per CPU, all on the node of the arena. The calling thread is pinned
    /// to the first.
    pub cpus: &'a [u32],
    /// Line size in bytes.
    pub line: usize,
    /// Random seed for the job order.
    pub seed: u64,
    /// Deadline of the measurement.
    pub deadline: Instant,
}

const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Copy];

const UNIT: &str = "GB/s";

/// An operation and its working set.
#[derive(Clone, Debug, PartialEq)]
struct Job {
    operation: Operation,
    /// Bytes per thread, or the reason why the working set is impossible.
    bytes: Result<usize, String>,
}

/// Measures read, write and copy bandwidth at each of `levels`, with one thread and with all
/// threads. Figures whose working set does not fit, or that are cut short by the deadline or a stop
/// request, are absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    levels: &[MemoryLevel],
    request: &Request<'_>,
) -> Vec<Bandwidth> {
    let sets = working_sets(levels, arena.bytes(), far_beyond);
    let threads = request.cpus.len();
    let mut records = Vec::new();
    windows.progress("single-thread bandwidth");
    let reason = "no measured size falls clearly within this level";
    let bytes = sets.iter().map(|set| set.ok_or_else(|| reason.to_owned())).collect();
    let jobs = jobs(bytes);
    let halfway = if threads > 1 { 2 } else { 1 };
    let share = request.deadline.saturating_duration_since(Instant::now()) / halfway;
    let piece = Piece::new(arena.words());
    let deadline = Instant::now() + share;
    let plan = Plan { jobs: &jobs, seed: request.seed, deadline };
    let samples = rounds(windows, piece, &plan, &mut |go_on| go_on);
    record(&mut records, levels, &jobs, (1, windows.more_time()), &Ok(vec![samples]));
    if threads > 1 {
        windows.progress("aggregate bandwidth of all threads");
        let sharers = sharers(&Topology::read(request.cpus), request.cpus, levels);
        let bytes = bytes_of_each(levels, &sets, &sharers, arena.bytes() / threads);
        let jobs = self::jobs(bytes);
        let stop = windows.watch.stop();
        let mut parts = Piece::new(arena.words()).split(threads, GRAIN);
        let own = parts.pop().expect("there is one piece per thread");
        let plan = Plan { jobs: &jobs, seed: request.seed, deadline: request.deadline };
        let samples = team::run(
            &request.cpus[1..],
            parts,
            |mut member| rounds(windows, own, &plan, &mut |go_on| member.ready(go_on)),
            |mut member, piece| {
                let watch = Watch::new(stop, &|_, _| {});
                let windows = Windows::new(&watch, Duration::ZERO);
                let samples = rounds(&windows, piece, &plan, &mut |go_on| member.ready(go_on));
                (samples, windows.counts())
            },
        );
        let samples = samples.map(|(own, others)| {
            others.iter().for_each(|(_, counts)| windows.add(*counts));
            others.into_iter().map(|(samples, _)| samples).chain([own]).collect()
        });
        record(&mut records, levels, &jobs, (threads as u32, windows.more_time()), &samples);
    }
    records
}

/// Lists the jobs for all operations. Each operation has one job for its upper bound, followed by
/// one per level.
fn jobs(bytes: Vec<Result<usize, String>>) -> Vec<Job> {
    let of = |operation| {
        let bound = match operation {
            Operation::Read | Operation::Write => LOT,
            Operation::Copy => 2 * LOT,
        };
        let levels = bytes.iter().cloned();
        let all = std::iter::once(Ok(bound)).chain(levels);
        all.map(move |bytes| Job { operation, bytes }).collect::<Vec<_>>()
    };
    OPERATIONS.into_iter().flat_map(of).collect()
}

/// Returns the bytes that each thread sweeps at each of `levels` when several threads run. `sets`
/// are the single-threaded working sets, `sharers` the number of threads per cache at each level,
/// and `most` the maximum bytes per thread.
fn bytes_of_each(
    levels: &[MemoryLevel],
    sets: &[Option<usize>],
    sharers: &[Sharers],
    most: usize,
) -> Vec<Result<usize, String>> {
    // The largest part of each level so far that one thread may have.
    let mut parts = Vec::new();
    let of = |((level, set), sharers): ((&MemoryLevel, &Option<usize>), &Sharers)| {
        let size = level.size_bytes.as_number();
        let least = match size {
            Some(_) => 1.4 * parts.last().copied().unwrap_or(0.0),
            None => beyond_parts(&parts),
        };
        parts.extend(size.map(|size| size / sharers.fewest as f64));
        let Some(set) = *set else {
            return Err("no measured size falls clearly within this level".to_owned());
        };
        let threads = sharers.most;
        let bytes = size.map_or(most, |_| set / threads);
        let bytes = bytes.max(least as usize).next_multiple_of(GRAIN);
        if bytes > most {
            return Err(format!(
                "each thread needs {bytes} bytes but gets only {most}: allow more memory or fewer \
                 CPUs"
            ));
        }
        match size.map(|size| size / threads as f64) {
            Some(part) if bytes as f64 > 0.8 * part => Err(format!(
                "shared by {threads} threads, this level holds {part:.0} bytes per thread, barely \
                 more than the previous level: allow fewer CPUs"
            )),
            _ => Ok(bytes),
        }
    };
    levels.iter().zip(sets).zip(sharers).map(of).collect()
}

/// Records the figures of all jobs by level. `more` is advice on how to allow more measuring time.
fn record(
    records: &mut Vec<Bandwidth>,
    levels: &[MemoryLevel],
    jobs: &[Job],
    (threads, more): (u32, &str),
    samples: &Result<Vec<Vec<Vec<Sample>>>, String>,
) {
    let gb_per_s = |k: usize| {
        let method = "sweeps with the widest registers: fastest window of each pass, maximum over \
                      passes";
        let absent = |reason: &str| Figure::absent(UNIT, Tier::Sw, method, reason);
        match (&jobs[k].bytes, samples) {
            (Err(reason), _) | (_, Err(reason)) => absent(reason),
            (Ok(_), Ok(samples)) => {
                let of_job: Vec<&[Sample]> = samples.iter().map(|s| s[k].as_slice()).collect();
                match passes(&of_job) {
                    passes if passes.is_empty() => absent(&format!(
                        "at least one thread was preempted in every window: the time was too \
                         short, or the machine too busy; {more}"
                    )),
                    passes => of_passes(UNIT, inverse(least(&passes)), method),
                }
            }
        }
    };
    // Any rate reached at some level is achievable, so it may serve as the upper bound: the loop
    // over one lot may have suffered more interference than the others.
    let fastest = |jobs: Range<usize>| {
        let rate = |k: &usize| gb_per_s(*k).as_number().unwrap_or(0.0);
        let first = jobs.start;
        jobs.rev().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(first)
    };
    for (level_index, level) in levels.iter().enumerate() {
        for of_operation in 0..OPERATIONS.len() {
            let bound = of_operation * (levels.len() + 1);
            let job = bound + 1 + level_index;
            records.push(Bandwidth {
                level: level.name.clone(),
                bytes: *jobs[job].bytes.as_ref().unwrap_or(&0) as u64,
                operation: jobs[job].operation,
                threads,
                gb_per_s: gb_per_s(job),
                bound: gb_per_s(fastest(bound..bound + 1 + levels.len())),
            });
        }
    }
}

/// Converts a time per unit of work to a rate, i.e. to its reciprocal.
fn inverse(time: Estimate) -> Estimate {
    Estimate { value: 1.0 / time.value, low: 1.0 / time.high, high: 1.0 / time.low, ..time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::level;
    use linerate_linux::{allowed_cpus, pin_current_thread};
    use linerate_record::memory::PageKind;
    use std::sync::atomic::AtomicBool;

    const KIB: usize = 1024;

    fn levels(kib: &[Option<f64>]) -> Vec<MemoryLevel> {
        kib.iter().map(|&kib| level("level", kib.map(|kib| kib * 1024.0))).collect()
    }

    fn of_each(kib: &[Option<f64>], sharers: &[(usize, usize)], most: usize) -> Vec<Option<usize>> {
        let levels = levels(kib);
        let sets = working_sets(&levels, 1 << 30, far_beyond);
        let sharers: Vec<Sharers> =
            sharers.iter().map(|&(most, fewest)| Sharers { most, fewest }).collect();
        let bytes = bytes_of_each(&levels, &sets, &sharers, most * KIB);
        bytes.into_iter().map(|bytes| bytes.ok().map(|bytes| bytes / KIB)).collect()
    }

    #[test]
    fn threads_share_what_the_caches_of_all_hold() {
        let levels = [Some(32.0), Some(1024.0), Some(65536.0), None];
        let sets = [Some(16), Some(180), Some(8192), None];
        assert_eq!(of_each(&levels, &[1, 1, 1, 1].map(alike), 1 << 20)[..3], sets[..3]);
        // Two threads share each core, eight share each L3.
        let shared = of_each(&levels, &[2, 2, 8, 8].map(alike), 32 << 10);
        assert_eq!(shared, [Some(8), Some(92), Some(1024), Some(32 << 10)]);
    }

    /// A sixth of the 4 MiB working set, two thirds of a MiB, would still fit L2, the previous
    /// level.
    #[test]
    fn a_share_that_fits_the_level_before_grows_or_is_refused() {
        let levels = [Some(32.0), Some(1024.0), Some(16384.0), None];
        assert_eq!(of_each(&levels, &[1, 1, 6, 6].map(alike), 1 << 20)[2], Some(1436));
        assert_eq!(of_each(&levels, &[1, 1, 16, 16].map(alike), 1 << 20)[2], None);
    }

    #[test]
    fn memory_needs_more_than_the_caches_of_all() {
        let levels = [Some(32.0), Some(1024.0), Some(8192.0), None];
        assert_eq!(of_each(&levels, &[1, 1, 4, 4].map(alike), 8192)[3], Some(8192));
        assert_eq!(of_each(&levels, &[1, 1, 4, 4].map(alike), 4000)[3], None);
    }

    /// Nine threads, eight of which share one L3; the ninth has another L3 to itself.
    #[test]
    fn memory_is_beyond_the_part_of_the_thread_that_shares_least() {
        let levels = [Some(32.0), Some(1024.0), Some(32768.0), None];
        let sharers = [(1, 1), (1, 1), (8, 1), (9, 1)];
        assert_eq!(of_each(&levels, &sharers, 14 << 10)[3], None);
        assert_eq!(of_each(&levels, &sharers, 64 << 10)[3], Some(64 << 10));
        assert_eq!(of_each(&levels, &sharers, 64 << 10)[2], Some(1436));
    }

    fn alike(sharers: usize) -> (usize, usize) {
        (sharers, sharers)
    }

    fn with_windows<T>(is_stopped: bool, look: impl FnOnce(&Windows<'_>) -> T) -> T {
        let stop = AtomicBool::new(is_stopped);
        let watch = Watch::new(&stop, &|_, _| {});
        look(&Windows::new(&watch, Duration::from_secs(1)))
    }

    /// Uses synthetic levels with two processors, or with one processor listed twice. Every figure
    /// is present or has a reason.
    #[test]
    fn one_thread_and_all_are_measured() {
        let allowed = allowed_cpus().unwrap();
        let cpus = [allowed[0], *allowed.get(1).unwrap_or(&allowed[0])];
        pin_current_thread(cpus[0]).unwrap();
        let mut arena = Arena::new(8 << 20, PageKind::Base, &AtomicBool::new(false)).unwrap();
        let levels = levels(&[Some(32.0), None]);
        let (records, points) = with_windows(false, |windows| {
            let deadline = windows.started() + Duration::from_secs(4);
            let request = Request { cpus: &cpus, line: 64, seed: 1, deadline };
            let records = measure(windows, &mut arena, &levels, &request);
            (records, loaded(windows, &mut arena, &levels, &request))
        });
        let shape: Vec<(u32, Operation)> =
            records.iter().map(|r| (r.threads, r.operation)).collect();
        let of = |threads| OPERATIONS.map(|operation| (threads, operation));
        assert_eq!(shape, [of(1), of(1), of(2), of(2)].concat());
        for record in &records {
            assert!(record.threads > 1 || record.gb_per_s.as_number().is_some(), "{record:?}");
            assert!(record.threads > 1 || record.bound.as_number().is_some(), "{record:?}");
            let has_reason = record.gb_per_s.reason.is_some();
            assert_ne!(record.gb_per_s.as_number().is_some(), has_reason, "{record:?}");
        }
        assert_eq!(points.len(), 5);
        assert_eq!((points[0].threads, points[4].threads, points[4].duty), (0, 1, 1.0));
    }

    #[test]
    fn what_was_stopped_is_absent_with_a_reason() {
        let mut arena = Arena::new(1 << 20, PageKind::Base, &AtomicBool::new(false)).unwrap();
        let levels = levels(&[Some(32.0), None]);
        let records = with_windows(true, |windows| {
            let request = Request { cpus: &[0], line: 64, seed: 1, deadline: windows.started() };
            measure(windows, &mut arena, &levels, &request)
        });
        assert_eq!(records.len(), 6, "{records:?}");
        assert!(records.iter().all(|record| record.gb_per_s.reason.is_some()));
    }

    #[test]
    fn one_processor_or_too_little_memory_has_no_loaded_latency() {
        let mut arena = Arena::new(1 << 20, PageKind::Base, &AtomicBool::new(false)).unwrap();
        let mut reason = |cpus: &[u32], kib| {
            let levels = levels(&[Some(kib), None]);
            let points = with_windows(false, |windows| {
                let request = Request { cpus, line: 64, seed: 1, deadline: windows.started() };
                loaded(windows, &mut arena, &levels, &request)
            });
            assert_eq!(points.len(), 1);
            points[0].latency_ns.reason.clone().unwrap()
        };
        assert!(reason(&[0], 32.0).contains("only one CPU"));
        assert!(reason(&[0, 1], 300.0).contains("less than twice the cache size"));
    }
}
