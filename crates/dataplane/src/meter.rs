// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile of one strand, kept by the strand itself while it runs.
//!
//! Time is told from the timestamp counter, read once per turn of the strand's loop. A turn that
//! moved packets is *busy*, one that found none is *starved*, time spent before a full ring is
//! *blocked*. A strand that was not running shows as a turn far longer than its like: the excess is
//! *lost*. Nothing here looks at the wall clock; the report compares the sum with it.
//!
//! In one turn of sixteen, picked at random so as not to beat with a periodic load, the counter is
//! also read between the stages. Stage times thus come from a sample, the times of the strand from
//! every turn. In one turn of 64, none of those, the stages log which kernels they call. In still
//! others hardware events are counted ([`crate::counting`]).
//!
//! Turns are gathered in windows of [`WINDOW_NS`]. At the end of a window the kernel is asked
//! whether the thread was preempted in it; estimates use the clean windows alone.
//!
//! With `ON` false everything here compiles to nothing: the bound against which the cost of the
//! profile is measured.

use crate::counting::{CountedTurns, TurnCounter};
use hdrhistogram::Histogram;
use linerate_linux as linux;
use linerate_machine::ticks::ticks;
use linerate_trial::{Account, Clock, Machine};

/// Length of a window. Long enough for two system calls to cost less than 0.1 %, short enough that
/// most windows of a busy machine have no preemption in them.
pub(crate) const WINDOW_NS: u64 = 1_000_000;

/// A wait longer than this between two looks at the counter was not a wait: the strand was away.
/// A poll takes well under 1 us; the shortest slice a scheduler gives to another thread is longer.
const AWAY_NS: u64 = 10_000;

/// A turn with packets counts as interrupted when it takes this many times the usual ...
const AWAY_FACTOR: u64 = 4;

/// Windows kept; beyond that every other one is let go, and so on.
const KEPT: usize = 4_096;

/// One turn in so many is sampled. A sampled turn reads the counter once per part (25 ticks each
/// where this was tried), which at 16 is 0.2 % of a turn of 32 packets on the edge path.
const SAMPLED: u32 = 16;

/// One turn in so many is logged: a multiple of [`SAMPLED`], so that the same random number chooses
/// either, and never both.
const LOGGED: u32 = 64;

/// Buckets of burst sizes: 1, 2-3, 4-7, ... 256.
pub(crate) const BURST_BUCKETS: usize = 9;

/// Pseudo-stages and stages of a strand at most: head, 16 stages, tail.
pub(crate) const MAX_PARTS: usize = 18;

/// The measured part of a run, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) ticks_per_second: f64,
}

/// One window of one strand. Windows end with the first turn that ends past a common grid, so that
/// no turn lies in two of them; each is as long as its turns took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Where on the grid it began, the same for all strands.
    pub(crate) index: u64,
    pub(crate) ticks: u64,
    /// Spent on ending the window before, which belongs to neither.
    pub(crate) crossing: u64,
    pub(crate) clean: bool,
    /// Packets taken from the source (first segment only).
    pub(crate) taken: u64,
    /// Packets that reached the sink (last segment only).
    pub(crate) delivered: u64,
    /// Packets dropped for want of room.
    pub(crate) overflowed: u64,
    pub(crate) busy: u64,
    pub(crate) packets: u64,
    /// Sampled time by part.
    pub(crate) parts: [PartSum; MAX_PARTS],
}

/// Sampled time of one part of a strand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartSum {
    pub(crate) ticks: u64,
    pub(crate) packets: u64,
}

/// What a strand's meter knows when the strand has ended.
#[derive(Default)]
pub(crate) struct Readings {
    pub(crate) busy: u64,
    pub(crate) starved: u64,
    pub(crate) blocked: u64,
    pub(crate) lost: u64,
    pub(crate) wall_ns: u64,
    pub(crate) run_delay_ns: Option<u64>,
    pub(crate) switches: u64,
    pub(crate) empty_polls: u64,
    pub(crate) packets: u64,
    pub(crate) burst_sizes: [u64; BURST_BUCKETS],
    pub(crate) windows: Vec<Window>,
    pub(crate) windows_total: u64,
    pub(crate) windows_lost: u64,
    /// Ticks from source to sink of the packets timed at the source; kept by strands with a sink.
    pub(crate) latency: Option<Histogram<u64>>,
    /// Hardware events; `None` where the strand had no counters.
    pub(crate) counted: Option<CountedTurns>,
}

/// Longest latency told apart, in ticks: minutes, on any counter.
const LATENCY_TICKS_MAX: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

/// The meter of one strand.
pub(crate) struct Meter<const ON: bool> {
    span: Span,
    phase: Phase,
    window_ticks: u64,
    away_ticks: u64,
    /// The last timestamp: where the present turn began.
    last: u64,
    /// Usual busy ticks per packet, times 16.
    usual_x16: u64,
    waited_in_turn: u64,
    random: u32,
    sampling: bool,
    /// Whether turns are logged at all, and whether this one is.
    logs: bool,
    logging: bool,
    /// The strand's counters, and whether this turn is counted.
    counter: Option<Box<TurnCounter>>,
    counting: bool,
    /// A stretch of the present window was lost.
    interrupted: bool,
    wall_start_ns: u64,
    delay_start_ns: Option<u64>,
    switches_start: u64,
    clock: Machine,
    account: Account,
    window: Window,
    window_start: u64,
    /// When the present window, or the time before the first, is over.
    boundary: u64,
    stride: u64,
    marks: [u64; MAX_PARTS + 1],
    given: [u64; MAX_PARTS],
    part_count: usize,
    readings: Readings,
    edge: Option<usize>,
}

impl<const ON: bool> Meter<ON> {
    /// A meter for a strand of `parts` parts (head, stages, tail), measuring over `span`. All
    /// memory it will use is allocated here. `yields`: the strand gives its processor away
    /// while it waits, so being away for long is no loss. `logs`: some turns are for logging calls.
    /// `counter`: the strand's counters, if it has any.
    pub(crate) fn new(
        span: Span,
        parts: usize,
        seed: u32,
        yields: bool,
        logs: bool,
        counter: Option<TurnCounter>,
    ) -> Self {
        assert!(parts <= MAX_PARTS, "a strand of {parts} parts");
        let in_ticks = |ns: u64| (ns as f64 * span.ticks_per_second / 1e9) as u64;
        let readings = Readings {
            windows: Vec::with_capacity(KEPT),
            latency: Histogram::new_with_bounds(1, LATENCY_TICKS_MAX, 3).ok(),
            ..Readings::default()
        };
        Self {
            span,
            phase: Phase::Before,
            window_ticks: in_ticks(WINDOW_NS),
            away_ticks: if yields { u64::MAX / 2 } else { in_ticks(AWAY_NS) },
            last: ticks(),
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
            clock: Machine::counter(),
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

    /// Begins with the first turn: what was done before belongs to none.
    pub(crate) fn begin(&mut self) {
        if ON {
            self.turn_over(ticks());
        }
    }

    /// The last timestamp taken: the present moment to within a turn, for free.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether measuring has begun (0) or ended (1) since this was last asked: the moment to note
    /// running totals.
    #[inline]
    pub(crate) fn edge(&mut self) -> Option<usize> {
        if ON { self.edge.take() } else { None }
    }

    /// Whether this turn is sampled.
    #[inline]
    pub(crate) fn is_sampling(&self) -> bool {
        ON && self.sampling
    }

    /// Whether the calls of this turn are logged.
    #[inline]
    pub(crate) fn is_logging(&self) -> bool {
        ON && self.logging
    }

    /// Begins a turn: decides whether it is sampled or logged.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        if !ON {
            return;
        }
        // xorshift32 (Marsaglia, 2003): three shifts, less than a library's generator takes.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.sampling = self.random.is_multiple_of(SAMPLED) && self.phase == Phase::During;
        self.logging = self.logs && self.random % LOGGED == 1 && self.phase == Phase::During;
        if self.sampling {
            self.marks[0] = ticks();
        }
        if let Some(counter) = &mut self.counter {
            self.counting = counter.wants(self.random) && self.phase == Phase::During;
            if self.counting {
                counter.mark(0);
            }
        }
    }

    /// Part `part` of the turn has ended; it had been given `packets` packets.
    #[inline]
    pub(crate) fn mark(&mut self, part: usize, packets: usize) {
        if ON && self.sampling {
            self.given[part] = packets as u64;
            self.marks[part + 1] = ticks();
        } else if ON && self.counting {
            self.given[part] = packets as u64;
            if let Some(counter) = &mut self.counter {
                counter.mark(part + 1);
            }
        }
    }

    /// A look at the source or ring found nothing.
    #[inline]
    pub(crate) fn starved(&mut self) {
        if ON {
            let now = ticks();
            let (waited, lost) = self.wait(now);
            self.readings.starved += waited;
            self.readings.lost += lost;
            self.readings.empty_polls += u64::from(self.phase == Phase::During);
            self.turn_over(now);
        }
    }

    /// The strand could not go on for want of room and will look again. May be called within a turn
    /// with packets, or instead of one.
    #[inline]
    pub(crate) fn blocked_within(&mut self, since: u64) -> u64 {
        if !ON {
            return 0;
        }
        let now = ticks();
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

    /// The turn could not start for want of buffers.
    #[inline]
    pub(crate) fn blocked(&mut self) {
        if ON {
            let now = ticks();
            let (waited, lost) = self.wait(now);
            self.readings.blocked += waited;
            self.readings.lost += lost;
            self.turn_over(now);
        }
    }

    /// Splits the time since the last timestamp into waiting and being away.
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

    /// A turn that took `packets` packets from its input has ended.
    #[inline]
    pub(crate) fn worked(&mut self, packets: usize, work: Work) {
        if ON {
            let now = ticks();
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

    /// Divides a turn with packets into busy and lost. A turn is interrupted when it takes longer
    /// than [`AWAY_NS`] beyond [`AWAY_FACTOR`] times the usual and reads of counters; then it
    /// counts as the usual, and the rest as lost.
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
            // Should the work have become dearer for good, this is soon the usual.
            self.usual_x16 += self.usual_x16 / 8 + 1;
        } else if self.usual_x16 == 0 || self.sampling || self.phase == Phase::Before {
            // Exponential mean over 16 sampled turns: the division is not for every turn.
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

    /// What of a counted turn were reads of the counters, not work.
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

    /// Adds the marks of a sampled turn to the sums of the window. Only the last part can wait
    /// within a turn.
    #[inline(never)]
    fn gather_marks(&mut self, waited: u64) {
        self.marks[self.part_count] = self.marks[self.part_count].saturating_sub(waited);
        for part in 0..self.part_count {
            let sum = &mut self.window.parts[part];
            sum.ticks += self.marks[part + 1].saturating_sub(self.marks[part]);
            sum.packets += self.given[part];
        }
    }

    /// Ends the turn, and the window when its time has come. What the meter does at the end of a
    /// window belongs to no turn and no window.
    #[inline]
    fn turn_over(&mut self, now: u64) {
        self.last = now;
        if now >= self.boundary {
            self.cross(now);
            self.last = ticks();
            self.window_start = self.last;
            let elapsed = self.last.saturating_sub(now);
            self.window.crossing = elapsed;
            if elapsed > self.away_ticks && self.phase == Phase::During {
                self.readings.lost += elapsed;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn cross(&mut self, now: u64) {
        let account = Account::now(&self.clock);
        match self.phase {
            Phase::Before => {
                self.phase = Phase::During;
                self.edge = Some(0);
                self.switches_start = account.switches;
                self.delay_start_ns = linux::run_delay_ns().ok();
                self.wall_start_ns = linux::monotonic_ns();
                self.open_window(now, account);
            }
            Phase::During => {
                self.close_window(now, account);
                if now >= self.span.end {
                    self.end();
                } else {
                    self.open_window(now, account);
                }
            }
            Phase::After => {}
        }
    }

    fn open_window(&mut self, now: u64, account: Account) {
        let index = (now - self.span.start) / self.window_ticks;
        self.window = Window { index, ..Window::default() };
        self.boundary = self.span.start + (index + 1) * self.window_ticks;
        self.interrupted = false;
        self.account = account;
    }

    fn close_window(&mut self, now: u64, account: Account) {
        self.window.ticks = now.saturating_sub(self.window_start);
        let verdict = account.since(self.account).judge(self.clock.cpu_step_ns());
        self.window.clean = !self.interrupted && verdict.is_ok();
        self.readings.windows_total += 1;
        self.readings.windows_lost += u64::from(!self.window.clean);
        self.keep();
    }

    /// Keeps the window, and first lets go of every other one while there are too many. All strands
    /// of a run thin out by index, so that they keep the same windows.
    fn keep(&mut self) {
        let windows = &mut self.readings.windows;
        while windows.len() == KEPT {
            self.stride *= 2;
            windows.retain(|window| window.index.is_multiple_of(self.stride));
        }
        if self.window.index.is_multiple_of(self.stride) {
            windows.push(self.window);
        }
    }

    /// The moment at which a burst reaches the sink.
    #[inline]
    pub(crate) fn arrival(&self) -> u64 {
        if ON { ticks() } else { 0 }
    }

    /// A packet that was timed at the source reached the sink.
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

    fn end(&mut self) {
        self.phase = Phase::After;
        self.boundary = u64::MAX;
        self.edge = Some(1);
        self.readings.wall_ns = linux::monotonic_ns() - self.wall_start_ns;
        self.readings.switches = linux::involuntary_switches() - self.switches_start;
        self.readings.run_delay_ns = match (self.delay_start_ns, linux::run_delay_ns()) {
            (Some(start), Ok(end)) => Some(end.saturating_sub(start)),
            _ => None,
        };
    }

    /// The strand has ended: what the meter knows.
    pub(crate) fn finish(mut self) -> Readings {
        if ON && self.phase == Phase::During {
            self.close_window(ticks(), Account::now(&self.clock));
            self.end();
        }
        self.readings.counted = self.counter.take().map(|counter| counter.finish());
        self.readings
    }
}

/// What a turn moved across the ends of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) taken: u64,
    pub(crate) delivered: u64,
    pub(crate) overflowed: u64,
}
