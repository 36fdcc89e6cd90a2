// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile of one worker, kept by the worker itself while it runs.
//!
//! The meter reads the timestamp counter once per iteration of the worker's loop. An iteration that
//! moved packets is *busy*, one that found none is *starved*, and waiting at a full ring is
//! *blocked*. An iteration far longer than usual reveals that the worker was not running: the
//! excess is *lost*. These times never come from the wall clock; the report compares their sum with
//! it.
//!
//! In one iteration in sixteen, picked at random to avoid aliasing with a periodic load, the
//! counter is also read between the stages. Stage times therefore come from a sample, the worker's
//! times from every iteration. In one iteration in 64, disjoint from these, the stages log their
//! kernel calls. In yet other iterations, hardware events are counted ([`crate::counting`]).
//!
//! Iterations are grouped into windows of [`WINDOW_NS`]. At the end of a window, the meter queries
//! the kernel for preemptions of the thread; estimates use only clean windows.
//!
//! With `ON` false, everything here compiles to nothing: the baseline for the overhead of
//! profiling.

mod clock;
mod readings;
mod windows;

use crate::counting::TurnCounter;
use crate::stage::MAX_PARTS;
pub(crate) use clock::{Clock, ThisThread};
use hdrhistogram::Histogram;
use linerate_trial::Account;
pub(crate) use readings::{BURST_BUCKETS, Readings, Window, Work};
use windows::{KEPT, WINDOW_NS};

/// Gap between two counter reads above which the worker was off the CPU rather than waiting. A poll
/// takes well under 1 us; a scheduler's shortest time slice is longer than this gap.
const AWAY_NS: u64 = 10_000;

/// Multiple of the usual duration above which an iteration with packets counts as interrupted; see
/// `account_busy`.
const AWAY_FACTOR: u64 = 4;

/// Sampling interval in iterations. A sampled iteration reads the counter once per part (25 ticks
/// each where measured); at an interval of 16, that is 0.2 % of an iteration with 32 packets on the
/// edge path.
const SAMPLED: u32 = 16;

/// Logging interval in iterations: a multiple of [`SAMPLED`], so that the same random number
/// selects an iteration for sampling or for logging, never for both.
const LOGGED: u32 = 64;

/// The measured part of a run, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) ticks_per_s: f64,
}

/// Maximum latency recorded, in ticks: minutes, for any timestamp counter.
const LATENCY_TICKS_MAX: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

/// Settings of a meter.
pub(crate) struct Setup {
    /// The measured part of the run.
    pub(crate) span: Span,
    /// Number of parts of the worker: head, stages, tail.
    pub(crate) parts: usize,
    /// Seed for the random choice of iterations.
    pub(crate) seed: u32,
    /// Whether the worker yields its CPU while it waits, so that a long absence is not lost time.
    pub(crate) yields: bool,
    /// Whether kernel calls are logged in some iterations.
    pub(crate) logs: bool,
    /// The worker's hardware counters, if any.
    pub(crate) counter: Option<TurnCounter>,
}

/// The meter of one worker.
pub(crate) struct Meter<const ON: bool, C = ThisThread> {
    clock: C,
    span: Span,
    phase: Phase,
    window_ticks: u64,
    away_ticks: u64,
    /// The last timestamp: the start of the current iteration.
    last: u64,
    /// Usual busy ticks per packet, times 16.
    usual_x16: u64,
    waited_in_turn: u64,
    random: u32,
    sampling: bool,
    /// Whether kernel calls are logged in some iterations (`logs`), and whether they are logged in
    /// this one (`logging`).
    logs: bool,
    logging: bool,
    /// The worker's hardware counters, and whether they are read in this iteration (`counting`).
    counter: Option<Box<TurnCounter>>,
    counting: bool,
    /// Whether part of the current window was lost because the worker was off its CPU.
    interrupted: bool,
    wall_start_ns: u64,
    delay_start_ns: Option<u64>,
    switches_start: u64,
    account: Account,
    window: Window,
    window_start: u64,
    /// End of the current window, or of the time before the first window.
    boundary: u64,
    stride: u64,
    marks: [u64; MAX_PARTS + 1],
    given: [u64; MAX_PARTS],
    part_count: usize,
    readings: Readings,
    edge: Option<usize>,
}

impl<const ON: bool, C: Clock> Meter<ON, C> {
    /// Creates a meter on `clock`. Allocates all of the meter's memory.
    pub(crate) fn new(clock: C, setup: Setup) -> Self {
        let Setup { span, parts, seed, yields, logs, counter } = setup;
        assert!(parts <= MAX_PARTS, "a worker of {parts} parts");
        let in_ticks = |ns: u64| (ns as f64 * span.ticks_per_s / 1e9) as u64;
        let readings = Readings {
            windows: Vec::with_capacity(KEPT),
            latency: Histogram::new_with_bounds(1, LATENCY_TICKS_MAX, 3).ok(),
            ..Readings::default()
        };
        Self {
            last: clock.ticks(),
            clock,
            span,
            phase: Phase::Before,
            window_ticks: in_ticks(WINDOW_NS),
            away_ticks: if yields { u64::MAX / 2 } else { in_ticks(AWAY_NS) },
            usual_x16: 0,
            waited_in_turn: 0,
            random: seed | 1,
            sampling: false,
            logs,
            logging: false,
            counter: counter.map(Box::new),
            counting: false,
            interrupted: false,
            wall_start_ns: 0,
            delay_start_ns: None,
            switches_start: 0,
            account: Account::default(),
            window: Window::default(),
            window_start: 0,
            boundary: span.start,
            stride: 1,
            marks: [0; MAX_PARTS + 1],
            given: [0; MAX_PARTS],
            part_count: parts,
            readings,
            edge: None,
        }
    }

    /// Starts the first iteration; earlier work is not counted.
    pub(crate) fn begin(&mut self) {
        if ON {
            self.turn_over(self.clock.ticks());
        }
    }

    /// Returns the last timestamp: the current time to within one iteration, at no cost.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns `Some(0)` if the measurement has begun since the last call and `Some(1)` if it has
    /// ended: running totals must be recorded now.
    #[inline]
    pub(crate) fn edge(&mut self) -> Option<usize> {
        if ON { self.edge.take() } else { None }
    }

    /// Returns whether this iteration is sampled.
    #[inline]
    pub(crate) fn is_sampling(&self) -> bool {
        ON && self.sampling
    }

    /// Returns whether the kernel calls of this iteration are logged.
    #[inline]
    pub(crate) fn is_logging(&self) -> bool {
        ON && self.logging
    }

    /// Begins an iteration and decides whether it is sampled, logged or counted.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        if !ON {
            return;
        }
        // xorshift32 (Marsaglia, 2003): three shifts, cheaper than a library's generator.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.sampling = self.random.is_multiple_of(SAMPLED) && self.phase == Phase::During;
        self.logging = self.logs && self.random % LOGGED == 1 && self.phase == Phase::During;
        if self.sampling {
            self.marks[0] = self.clock.ticks();
        }
        if let Some(counter) = &mut self.counter {
            self.counting = counter.wants(self.random) && self.phase == Phase::During;
            if self.counting {
                counter.mark(0);
            }
        }
    }

    /// Ends part number `part` of the iteration; that part processed `packets` packets.
    #[inline]
    pub(crate) fn mark(&mut self, part: usize, packets: usize) {
        if ON && self.sampling {
            self.given[part] = packets as u64;
            self.marks[part + 1] = self.clock.ticks();
        } else if ON && self.counting {
            self.given[part] = packets as u64;
            if let Some(counter) = &mut self.counter {
                counter.mark(part + 1);
            }
        }
    }

    /// Records that a poll of the source or ring found nothing.
    #[inline]
    pub(crate) fn starved(&mut self) {
        if ON {
            let now = self.clock.ticks();
            let (waited, lost) = self.wait(now);
            self.readings.starved += waited;
            self.readings.lost += lost;
            self.readings.empty_polls += u64::from(self.phase == Phase::During);
            self.turn_over(now);
        }
    }

    /// Records that the worker found no room in a ring and will retry: the time since `since` is
    /// blocked. Returns the current time, in ticks. Called within an iteration that has packets.
    #[inline]
    pub(crate) fn blocked_within(&mut self, since: u64) -> u64 {
        if !ON {
            return 0;
        }
        let now = self.clock.ticks();
        let elapsed = now.saturating_sub(since);
        let lost = if elapsed > self.away_ticks { elapsed } else { 0 };
        self.waited_in_turn += elapsed;
        if self.phase == Phase::During {
            self.readings.blocked += elapsed - lost;
            self.readings.lost += lost;
            self.interrupted |= lost > 0;
        }
        now
    }

    /// Records that the iteration could not start because no buffer was free.
    #[inline]
    pub(crate) fn blocked(&mut self) {
        if ON {
            let now = self.clock.ticks();
            let (waited, lost) = self.wait(now);
            self.readings.blocked += waited;
            self.readings.lost += lost;
            self.turn_over(now);
        }
    }

    /// Splits the time since the last timestamp into ticks of waiting and ticks off the CPU.
    #[inline]
    fn wait(&mut self, now: u64) -> (u64, u64) {
        let elapsed = now.saturating_sub(self.last);
        if self.phase != Phase::During {
            return (0, 0);
        }
        if elapsed > self.away_ticks {
            self.interrupted = true;
            (0, elapsed)
        } else {
            (elapsed, 0)
        }
    }

    /// Ends an iteration that had `packets` input packets.
    #[inline]
    pub(crate) fn worked(&mut self, packets: usize, work: Work) {
        if ON {
            let now = self.clock.ticks();
            self.account_busy(now, packets as u64);
            if self.phase == Phase::During {
                self.window.taken += work.taken;
                self.window.delivered += work.delivered;
                self.window.overflowed += work.overflowed;
                self.window.packets += packets as u64;
                self.readings.packets += packets as u64;
                let bucket = (usize::BITS - 1 - packets.max(1).leading_zeros()) as usize;
                self.readings.burst_sizes[bucket.min(BURST_BUCKETS - 1)] += 1;
            }
            self.turn_over(now);
        }
    }

    /// Splits an iteration with packets into busy and lost time. The iteration counts as
    /// interrupted if it exceeds the sum of [`AWAY_FACTOR`] times the usual time and the time for
    /// counter reads by more than [`AWAY_NS`]; the usual time is then busy, and the rest lost.
    #[inline]
    fn account_busy(&mut self, now: u64, packets: u64) {
        let waited = std::mem::take(&mut self.waited_in_turn);
        let elapsed = now.saturating_sub(self.last).saturating_sub(waited);
        let usual = self.usual_x16 * packets / 16;
        let longest = AWAY_FACTOR * usual + self.away_ticks + self.counting_ticks();
        let interrupted = self.usual_x16 != 0 && elapsed > longest;
        if interrupted {
            self.sampling = false;
            self.counting = false;
            self.interrupted = true;
            // The usual time grows, so that it soon catches up if the work has become permanently
            // more expensive.
            self.usual_x16 += self.usual_x16 / 8 + 1;
        } else if self.usual_x16 == 0 || self.sampling || self.phase == Phase::Before {
            // Exponential moving average over 16 sampled iterations; a division in every iteration
            // would cost too much.
            let x16 = elapsed * 16 / packets.max(1);
            let before = if self.usual_x16 == 0 { x16 } else { self.usual_x16 };
            self.usual_x16 = (before * 15 + x16) / 16;
        }
        if self.phase == Phase::During {
            let busy = if interrupted { usual } else { elapsed };
            self.readings.busy += busy;
            self.readings.lost += elapsed - busy;
            self.window.busy += busy;
            if self.sampling {
                self.gather_marks(waited);
            }
            if self.counting && waited == 0 {
                self.keep_counts();
            }
        }
    }

    /// Returns the ticks that this iteration spends on reading the hardware counters; 0 if it is
    /// not counted.
    #[inline]
    fn counting_ticks(&self) -> u64 {
        match &self.counter {
            Some(counter) if self.counting => counter.turn_ticks(),
            _ => 0,
        }
    }

    #[cold]
    fn keep_counts(&mut self) {
        if let Some(counter) = &mut self.counter {
            counter.keep(&self.given[..self.part_count]);
        }
    }

    /// Adds the marks of a sampled iteration to the window's sums. Only the last part can wait
    /// within an iteration.
    #[inline(never)]
    fn gather_marks(&mut self, waited: u64) {
        self.marks[self.part_count] = self.marks[self.part_count].saturating_sub(waited);
        for part in 0..self.part_count {
            let sum = &mut self.window.parts[part];
            sum.ticks += self.marks[part + 1].saturating_sub(self.marks[part]);
            sum.packets += self.given[part];
        }
    }

    /// Returns the current time in ticks: for when a burst reaches the sink or a worker begins to
    /// wait.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if ON { self.clock.ticks() } else { 0 }
    }

    /// Returns the clock, for callers that need the time with or without a profile.
    #[inline]
    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    /// Records that a packet timed at the source has reached the sink.
    #[inline]
    pub(crate) fn arrived(&mut self, born_ticks: u64, now: u64) {
        if !ON || self.phase != Phase::During || born_ticks < self.span.start {
            return;
        }
        let elapsed = now.saturating_sub(born_ticks);
        if let Some(histogram) = &mut self.readings.latency {
            histogram.saturating_record(elapsed);
        }
    }

    /// Returns the meter's readings after the worker has ended.
    pub(crate) fn finish(mut self) -> Readings {
        if ON && self.phase == Phase::During {
            self.close_window(self.clock.ticks(), Account::now(&self.clock));
            self.end();
        }
        self.readings.counted = self.counter.take().map(|counter| counter.finish());
        self.readings
    }
}
