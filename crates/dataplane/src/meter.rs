// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles a running worker, on the worker's own thread.
//!
//! The meter reads the timestamp counter once per iteration of the worker's loop. The time of an
//! iteration that processed packets is *busy*, that of an iteration without packets is *starved*,
//! and time spent waiting at a full ring or a full interface is *blocked*. If an iteration takes
//! far longer than usual, the worker was not running, and the excess is *lost*. None of these times
//! comes from the wall clock, so the report can check their sum against it.
//!
//! In one of 16 iterations, the counter is also read between stages. Worker times are thus based on
//! all iterations, stage times on a sample. The sample is random, so a periodic load cannot alias
//! with it. One in 64 iterations logs kernel calls, and some others count hardware events
//! ([`crate::counting`]); no iteration does more than one of the three.
//!
//! Iterations are grouped into windows of [`WINDOW_NS`]. At the end of each window, the meter asks
//! the kernel whether the thread was preempted; estimates use only clean windows.
//!
//! With `ON` set to false, the meter compiles to nothing, which gives the baseline for measuring
//! the profiling overhead.

mod clock;
mod readings;
mod stretches;
mod windows;

use crate::counting::TurnCounter;
use crate::stage::MAX_PARTS;
pub(crate) use clock::{Clock, ThisThread};
use hdrhistogram::Histogram;
use linerate_trial::Account;
pub(crate) use readings::{BURST_BUCKETS, Readings, Window, Work};
pub(crate) use stretches::Stretches;
use windows::{KEPT, WINDOW_NS};

/// Maximum time between two counter reads of a waiting worker. If it is exceeded, the worker must
/// have been off its CPU: a poll takes well under 1 us, a wait after it about 1 us, and the
/// shortest time slice of a scheduler is longer than this maximum.
const AWAY_NS: u64 = 10_000;

/// An iteration with packets counts as interrupted if it exceeds this multiple of the usual time by
/// more than [`AWAY_NS`]; see `account_busy`.
const AWAY_FACTOR: u64 = 4;

/// Sampling rate: one in this many iterations, at random. A sampled iteration reads the counter
/// once per part, at about 25 ticks per read. At one in 16, the overhead is 0.2 % of an iteration
/// with 32 packets on the edge path.
const SAMPLED: u32 = 16;

/// Logging rate: one in this many iterations logs kernel calls. The value is a multiple of
/// [`SAMPLED`], so a single random number per iteration selects it for sampling or for logging, but
/// never for both.
const LOGGED: u32 = 64;

/// The measurement, which is the part of a run in which figures are collected: its start and end,
/// in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) ticks_per_s: f64,
}

impl Span {
    /// Returns the length of the measurement in ticks; `None` if it ends after a number of packets.
    fn length(self) -> Option<u64> {
        (self.end != u64::MAX).then(|| self.end.saturating_sub(self.start))
    }
}

/// Maximum latency that can be recorded, in ticks: several minutes at any timestamp counter rate.
const LATENCY_TICKS_MAX: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

/// Meter settings.
pub(crate) struct Setup {
    /// Start and end of the measurement.
    pub(crate) span: Span,
    /// Number of parts: head, stages, tail.
    pub(crate) parts: usize,
    /// Random seed for picking sampled iterations.
    pub(crate) seed: u32,
    /// Whether the worker yields its CPU while waiting. If so, a long time off the CPU is not lost
    /// time.
    pub(crate) yields: bool,
    /// Whether some iterations log kernel calls.
    pub(crate) logs: bool,
    /// The worker's hardware counters, if any.
    pub(crate) counter: Option<TurnCounter>,
}

/// Meter of one worker, owned by the worker's thread.
pub(crate) struct Meter<const ON: bool, C = ThisThread> {
    clock: C,
    span: Span,
    phase: Phase,
    window_ticks: u64,
    away_ticks: u64,
    /// Timestamp of the last counter read, at which the current iteration started.
    last: u64,
    /// Moving average of busy ticks per packet, times 16.
    usual_x16: u64,
    waited_in_turn: u64,
    random: u32,
    sampling: bool,
    /// Whether any iterations log kernel calls.
    logs: bool,
    /// Whether the current iteration logs kernel calls.
    logging: bool,
    /// Hardware counters, if any.
    counter: Option<Box<TurnCounter>>,
    /// Whether the hardware counters are read in the current iteration.
    counting: bool,
    /// Whether the worker was off its CPU during the current window.
    interrupted: bool,
    /// Time asleep in the current window, in ticks.
    asleep: u64,
    wall_start_ns: u64,
    delay_start_ns: Option<u64>,
    switches_start: u64,
    account: Account,
    window: Window,
    window_start: u64,
    /// Timestamp at which the current window ends. Before the measurement, the timestamp at which
    /// the first window begins.
    boundary: u64,
    marks: [u64; MAX_PARTS + 1],
    given: [u64; MAX_PARTS],
    part_count: usize,
    readings: Readings,
    edge: Option<usize>,
}

impl<const ON: bool, C: Clock> Meter<ON, C> {
    /// Creates a meter that reads `clock`. Allocates all of its memory now.
    pub(crate) fn new(clock: C, setup: Setup) -> Self {
        let Setup { span, parts, seed, yields, logs, counter } = setup;
        assert!(parts <= MAX_PARTS, "{parts} parts exceed the maximum of {MAX_PARTS}");
        let in_ticks = |ns: u64| (ns as f64 * span.ticks_per_s / 1e9) as u64;
        let readings = Readings {
            windows: Vec::with_capacity(KEPT),
            stride: 1,
            latency: Histogram::new_with_bounds(1, LATENCY_TICKS_MAX, 3).ok(),
            stretches: Stretches::new(span.length(), span.ticks_per_s),
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
            asleep: 0,
            wall_start_ns: 0,
            delay_start_ns: None,
            switches_start: 0,
            account: Account::default(),
            window: Window::default(),
            window_start: 0,
            boundary: span.start,
            marks: [0; MAX_PARTS + 1],
            given: [0; MAX_PARTS],
            part_count: parts,
            readings,
            edge: None,
        }
    }

    /// Starts the first iteration. Time before this call is not counted.
    pub(crate) fn begin(&mut self) {
        if ON {
            self.turn_over(self.clock.ticks());
        }
    }

    /// Returns the timestamp of the last clock read, in ticks. It is at most one iteration old.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns `Some(0)` in the first call after the measurement has begun, and `Some(1)` in the
    /// first call after it has ended. The caller must then record its running totals. Otherwise
    /// returns `None`.
    #[inline]
    pub(crate) fn edge(&mut self) -> Option<usize> {
        if ON { self.edge.take() } else { None }
    }

    /// Returns whether this iteration is sampled.
    #[inline]
    pub(crate) fn is_sampling(&self) -> bool {
        ON && self.sampling
    }

    /// Returns whether this iteration logs kernel calls.
    #[inline]
    pub(crate) fn is_logging(&self) -> bool {
        ON && self.logging
    }

    /// Begins an iteration, deciding whether it is sampled, logged or counted.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        if !ON {
            return;
        }
        // xorshift32 (Marsaglia, 2003) takes three shifts, and is cheaper than a library's
        // generator.
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

    /// Ends a part that processed `packets` packets in this iteration.
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

    /// Records an empty poll of the source or the input rings, and the wait that followed it.
    #[inline]
    pub(crate) fn starved(&mut self) {
        if ON {
            self.readings.empty_polls += u64::from(self.phase == Phase::During);
            self.waited();
        }
    }

    /// Records a wait for packets, after an empty poll that has already been recorded.
    #[inline]
    pub(crate) fn waited(&mut self) {
        if ON {
            let now = self.clock.ticks();
            let (waited, lost) = self.wait(now);
            self.readings.starved += waited;
            self.readings.lost += lost;
            self.turn_over(now);
        }
    }

    /// Records a sleep, which was ended by another worker or the kernel (`woken`) or by a time-out.
    /// All of its time counts as starved, including the time that the scheduler took to run the
    /// worker again, which cannot be measured separately.
    pub(crate) fn rested(&mut self, woken: bool) {
        if ON {
            let now = self.clock.ticks();
            if self.phase == Phase::During {
                let elapsed = now.saturating_sub(self.last);
                self.readings.starved += elapsed;
                self.readings.rested.ticks += elapsed;
                self.readings.rested.parks += 1;
                self.readings.rested.woken += u64::from(woken);
                self.asleep += elapsed;
            }
            self.turn_over(now);
        }
    }

    /// Records a retry on a full ring or a full interface, and counts the time since `since` as
    /// blocked. Returns the current time in ticks. Call only within an iteration that has packets.
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

    /// Records an iteration that only received packets that the source had to drop. All of its time
    /// counts as busy, because the usual duration of such an iteration is unknown.
    pub(crate) fn dropped(&mut self) {
        if ON {
            let now = self.clock.ticks();
            if self.phase == Phase::During {
                let elapsed = now.saturating_sub(self.last);
                self.readings.busy += elapsed;
                self.window.busy += elapsed;
            }
            self.turn_over(now);
        }
    }

    /// Records that an iteration could not start because no buffer was free.
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

    /// Splits the time since the last clock read, in ticks, into time spent waiting and time off
    /// the CPU.
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

    /// Splits the time of an iteration with packets into busy and lost time. An iteration counts as
    /// interrupted if its time, without that for reading counters, exceeds [`AWAY_FACTOR`] times
    /// the usual time by more than [`AWAY_NS`]. Then, only the usual time counts as busy.
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
            // Raise the usual time, so it adapts quickly if packets have become more expensive for
            // good.
            self.usual_x16 += self.usual_x16 / 8 + 1;
        } else if self.usual_x16 == 0 || self.sampling || self.phase == Phase::Before {
            // Exponential moving average over 16 sampled iterations. A division in every iteration
            // would be too expensive.
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

    /// Returns the ticks that the current iteration spends reading hardware counters; 0 if it does
    /// not read them.
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

    /// Adds the times of a sampled iteration's parts to the window, except for `waited`, the time
    /// spent waiting. Only the last part can wait within an iteration.
    #[inline(never)]
    fn gather_marks(&mut self, waited: u64) {
        self.marks[self.part_count] = self.marks[self.part_count].saturating_sub(waited);
        for part in 0..self.part_count {
            let sum = &mut self.window.parts[part];
            sum.ticks += self.marks[part + 1].saturating_sub(self.marks[part]);
            sum.packets += self.given[part];
        }
    }

    /// Returns the current time in ticks, or 0 if the meter is off. Called only when a burst
    /// reaches the sink, or when the worker begins to wait at a full ring.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if ON { self.clock.ticks() } else { 0 }
    }

    /// Returns the meter's clock, which can be read even if the meter is off.
    #[inline]
    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    /// Records the latency of a packet that was timestamped at the source and reached the sink at
    /// `now`.
    #[inline]
    pub(crate) fn arrived(&mut self, born_ticks: u64, now: u64) {
        if !ON || self.phase != Phase::During || born_ticks < self.span.start {
            return;
        }
        let elapsed = now.saturating_sub(born_ticks);
        if let Some(histogram) = &mut self.readings.latency {
            histogram.saturating_record(elapsed);
            self.readings.stretches.add(now.saturating_sub(self.span.start), elapsed);
        }
    }

    /// Returns the readings after the worker has ended.
    pub(crate) fn finish(mut self) -> Readings {
        if ON && self.phase == Phase::During {
            self.close_window(self.clock.ticks(), Account::now(&self.clock));
            self.end();
        }
        self.readings.counted = self.counter.take().map(|counter| counter.finish());
        self.readings
    }
}
