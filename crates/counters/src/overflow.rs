// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests counter-overflow sampling with loops that each cause a known share of an event's
//! occurrences. Determines in which loop the samples land, how many samples are missing, and how
//! late they are.
//!
//! The three loops of [`known_loops`](crate::known_loops) take turns in rounds. In each round, the
//! loops run in random order, with iterations in the ratio 3 : 2 : 1. The mean length of a round is
//! less than a sampling period, and its actual length is random, so that samples are independent:
//!
//! ```text
//! samples          |                   |                   |
//! rounds     AAABBC|BBAAAC|CCAAAAAABBBB|ABBCAA|...
//! ```
//!
//! Only user mode is counted, so that the kernel and its interrupts do not contribute to the
//! counts. This module leaves statistics and verdicts to the caller.

use crate::known_loops::LOOPS;
use crate::refusal::Attempt;
use linerate_linux::perf::{self, Event, Request, Selector, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sampling};
use linerate_record::random::Random;
use std::io;
use std::ops::Range;

/// Relative number of iterations of each loop in a round.
pub const PARTS: [usize; 3] = [3, 2, 1];

/// Mean length of a round, in sampling periods.
const ROUND: f64 = 0.8;
/// Number of iterations of each loop for measuring the events per iteration; takes about a
/// millisecond.
const ITERATIONS: usize = 1_000_000;
/// Maximum relative difference between the loops in events per iteration. Timer interrupts and the
/// system calls around the loops cause only a tenth of this.
const MOST_UNEVEN: f64 = 0.01;
/// Size in bytes of a sample in the ring, including its count.
const SAMPLE_BYTES: usize = 72;

/// What to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Event whose overflows are sampled.
    pub selector: Selector,
    /// Events per sample, at least 1.
    pub period: u64,
    /// Approximate number of samples.
    pub samples: u64,
    /// Random seed for the lengths of rounds and the order of loops.
    pub seed: u64,
}

/// Where the samples landed, how many are missing, and how late they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landed {
    /// Samples in each loop, in the order of [`PARTS`].
    pub in_loops: [u64; 3],
    /// Samples at any other address, i.e. in the code between the loops.
    pub elsewhere: u64,
    /// Samples that the kernel dropped because the ring was full.
    pub lost: u64,
    /// How often the kernel stopped sampling for the rest of a timer tick.
    pub throttled: u64,
    /// Events counted, in user mode.
    pub events: u64,
    /// Expected number of overflows: the events counted, divided by the sampling period.
    pub due: u64,
    /// Skid of each sample: events between the overflow and the sample.
    pub skids: Vec<u64>,
}

impl Landed {
    /// Returns the number of samples taken.
    pub fn samples(&self) -> u64 {
        self.in_loops.iter().sum::<u64>() + self.elsewhere
    }

    /// Returns the number of overflows without a sample, excluding samples that the kernel reported
    /// as lost.
    pub fn missing(&self) -> u64 {
        self.due.saturating_sub(self.samples() + self.lost)
    }

    /// Adds another run's figures to the figures of this one.
    pub fn add(&mut self, other: &Self) {
        for (sum, samples) in self.in_loops.iter_mut().zip(other.in_loops) {
            *sum += samples;
        }
        self.elsewhere += other.elsewhere;
        self.lost += other.lost;
        self.throttled += other.throttled;
        self.events += other.events;
        self.due += other.due;
        self.skids.extend(&other.skids);
    }

    /// Counts a sample taken at this address.
    fn take(&mut self, address: u64, loops: &[Range<u64>]) {
        match loops.iter().position(|bounds| bounds.contains(&address)) {
            Some(at) => self.in_loops[at] += 1,
            None => self.elsewhere += 1,
        }
    }
}

/// Reasons why a trial is impossible.
#[derive(Debug)]
pub enum Obstacle {
    /// No loops have been written for this processor.
    NoLoops,
    /// The kernel refuses the event.
    Refused(Attempt),
    /// The event was opened but counts nothing.
    CountsNothing,
    /// The loops cause different numbers of events per iteration, so their shares are unknown.
    Uneven([f64; 3]),
    /// A system call failed. The fields state its purpose and its error.
    Failed(&'static str, io::Error),
}

/// Returns the number of events (more than 0) that one loop iteration causes in user mode.
///
/// # Errors
/// Returns [`Obstacle`] if no trial is possible with this event.
pub fn cost(selector: Selector) -> Result<f64, Obstacle> {
    if LOOPS.len() != PARTS.len() {
        return Err(Obstacle::NoLoops);
    }
    let event = opened(selector, |request| perf::open(request, Target::CurrentThread, None))?;
    let mut costs = [0.0; 3];
    for (cost, one) in costs.iter_mut().zip(LOOPS) {
        let before = count(&event)?;
        event.enable().map_err(|error| Obstacle::Failed("start the counter", error))?;
        one(ITERATIONS);
        event.disable().map_err(|error| Obstacle::Failed("stop the counter", error))?;
        *cost = (count(&event)? - before) as f64 / ITERATIONS as f64;
    }
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(0.0, f64::max);
    if most == 0.0 {
        Err(Obstacle::CountsNothing)
    } else if most > least * (1.0 + MOST_UNEVEN) {
        Err(Obstacle::Uneven(costs))
    } else {
        Ok(costs.iter().sum::<f64>() / costs.len() as f64)
    }
}

/// Samples this thread while it runs the loops. `cost` is the number of events per iteration, as
/// returned by [`cost`].
///
/// # Errors
/// Returns [`Obstacle`] if the event cannot be sampled.
pub fn sample_loops(trial: &Trial, cost: f64) -> Result<Landed, Obstacle> {
    let Trial { selector, period, .. } = *trial;
    let work = rounds(trial, cost);
    let loops: Vec<Range<u64>> = LOOPS.iter().map(|one| one(1)).collect();
    let fields = Fields { has_count: true, ..Fields::default() };
    let sampling = Sampling { period, fields, skips_idle: false };
    let open = |request: &Request| sample::open(request, &sampling, Target::CurrentThread);
    let event = opened(selector, open)?;
    // Rounds have random lengths, so reserve 50 % more room.
    let bytes = trial.samples as usize * SAMPLE_BYTES * 3 / 2;
    let pages = bytes.div_ceil(linerate_linux::page_bytes()).max(1);
    let mut ring = Ring::map(&event, pages, fields)
        .map_err(|error| Obstacle::Failed("lock memory for samples", error))?;
    event.enable().map_err(|error| Obstacle::Failed("start the counter", error))?;
    for &(at, iterations) in &work {
        LOOPS[at](iterations);
    }
    event.disable().map_err(|error| Obstacle::Failed("stop the counter", error))?;
    let events = count(&event)?;
    let mut landed = Landed { events, due: events / period, ..Landed::default() };
    let mut overflows = Overflows { next: period, period };
    ring.drain(|record| match record {
        Record::Sample(sample) => {
            landed.take(sample.ip, &loops);
            landed.skids.extend(sample.count.map(|count| overflows.skid(count)));
        }
        Record::Lost(records) => landed.lost += records,
        Record::Throttled => landed.throttled += 1,
        Record::Process(_) | Record::Other(_) => {}
    });
    Ok(landed)
}

/// Opens an event that counts user mode only and is pinned to a counter.
fn opened(
    selector: Selector,
    open: impl Fn(&Request) -> Result<Event, perf::OpenError>,
) -> Result<Event, Obstacle> {
    let request = Request { exclude_kernel: true, pinned: true, ..Request::new(selector) };
    let target = Target::CurrentThread;
    open(&request)
        .map_err(|error| Obstacle::Refused(Attempt { error, request, target, group_len: 0 }))
}

fn count(event: &Event) -> Result<u64, Obstacle> {
    let reading = event.read().map_err(|error| Obstacle::Failed("read the counter", error))?;
    Ok(reading.values().first().copied().unwrap_or_default())
}

/// Returns the sequence of loops to run in the whole trial, each with its number of iterations.
fn rounds(trial: &Trial, cost: f64) -> Vec<(usize, usize)> {
    let mut random = Random::new(trial.seed);
    let number = (trial.samples as f64 / ROUND).ceil() as usize;
    let mean = ROUND * trial.period as f64 / (PARTS.iter().sum::<usize>() as f64 * cost);
    let mut work = Vec::with_capacity(number * PARTS.len());
    for _ in 0..number {
        // 0.5 to 1.5 times the mean, so that samples are spread evenly over the round.
        let iterations = ((mean * (0.5 + random.uniform())) as usize).max(1);
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        work.extend(order.map(|at| (at, PARTS[at] * iterations)));
    }
    work
}

/// Positions of the overflows, as event counts.
struct Overflows {
    next: u64,
    period: u64,
}

impl Overflows {
    /// Returns the skid of the sample with this count, i.e. the number of events since its
    /// overflow.
    fn skid(&mut self, count: u64) -> u64 {
        let skid = count.saturating_sub(self.next);
        // Drivers restart the period if more than one has passed.
        self.next = if skid < self.period { self.next } else { count } + self.period;
        skid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Trial =
        Trial { selector: Selector::new(perf::HARDWARE, 0), period: 50_000, samples: 500, seed: 7 };

    #[test]
    fn every_round_has_the_known_shares_in_any_order() {
        let work = rounds(&TRIAL, 2.0);
        assert_eq!(work.len() % 3, 0);
        let mut orders = std::collections::BTreeSet::new();
        for round in work.chunks(3) {
            let of = |part: usize| round.iter().find(|(at, _)| *at == part).expect("all loops").1;
            assert_eq!((of(0), of(1)), (3 * of(2), 2 * of(2)));
            orders.insert([round[0].0, round[1].0, round[2].0]);
        }
        assert_eq!(orders.len(), 6);
        let events = work.iter().map(|(_, iterations)| *iterations as f64 * 2.0).sum::<f64>();
        let samples = events / TRIAL.period as f64;
        assert!((samples / TRIAL.samples as f64 - 1.0).abs() < 0.1, "{samples}");
        assert_eq!(work, rounds(&TRIAL, 2.0));
        assert_ne!(work, rounds(&Trial { seed: 8, ..TRIAL }, 2.0));
    }

    #[test]
    fn a_round_has_iterations_even_where_they_cost_more_than_a_period() {
        let work = rounds(&TRIAL, 1e9);
        assert!(work.iter().all(|(at, iterations)| *iterations == PARTS[*at]));
    }

    #[test]
    fn samples_are_counted_where_their_address_is() {
        let loops = [100..108, 200..208, 300..308];
        let mut landed = Landed { due: 9, lost: 1, ..Landed::default() };
        for address in [100, 107, 108, 204, 99, 307] {
            landed.take(address, &loops);
        }
        assert_eq!((landed.in_loops, landed.elsewhere), ([2, 1, 1], 2));
        assert_eq!((landed.samples(), landed.missing()), (6, 2));
        let mut both = landed.clone();
        both.add(&landed);
        assert_eq!((both.in_loops, both.samples(), both.missing()), ([4, 2, 2], 12, 4));
    }

    #[test]
    fn a_skid_is_what_was_counted_since_the_overflow() {
        let mut overflows = Overflows { next: 100, period: 100 };
        // The fourth sample is more than a period late, so the next period starts there.
        let skids = [100, 203, 300, 580, 680, 781].map(|count| overflows.skid(count));
        assert_eq!(skids, [0, 3, 0, 180, 0, 1]);
    }
}
