// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread's time budget, whose parts add up to the time that the thread existed within the
//! window.
//!
//! The scheduler's account of when a thread ran and when it was runnable is exact. Interrupts and
//! softirqs that arrived while it ran, and time that the hypervisor stole from its CPU, are only
//! known per CPU and are apportioned. Some kernels include them in the thread's run time, others do
//! not:
//!
//! | time | is part of the run time unless |
//! |---|---|
//! | in interrupts | CONFIG_IRQ_TIME_ACCOUNTING |
//! | stolen by the hypervisor | CONFIG_PARAVIRT_TIME_ACCOUNTING |
//!
//! A thread that never slept reveals which is the case: wall time beyond its run time and run delay
//! was excluded from the run time. For other threads, the kernel configuration is consulted. If it
//! is not readable, the intervals cover both cases for interrupts.

use crate::threads::Slice;
use linerate_record::stats::{CONFIDENCE, block_bootstrap_ratio};
use linerate_record::why::{ThreadState, ThreadTime};
use linerate_record::{Figure, Tier};

/// Seed for the bootstrap that computes the intervals.
const SEED: u64 = 0x7768_7961;

/// Shares of a CPU's time that interrupts and the hypervisor took from the threads on it, in one
/// slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuShares {
    /// Interrupts and softirqs outside of kernel threads, as a fraction of the CPU's time; `None`
    /// if it is not known how much of them was in kernel threads.
    pub(crate) interrupts: Option<f64>,
    /// Stolen time as a fraction of the time in which the CPU had something to run.
    pub(crate) stolen: f64,
    /// Stolen time as a fraction of wall time, which is an upper bound on the time stolen from a
    /// thread on this CPU.
    pub(crate) stolen_of_all: f64,
}

/// What took time from a thread in a slice: on its CPU, and in its control group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Around {
    pub(crate) cpu: CpuShares,
    /// Time for which a quota throttled the thread's group on a CPU, in ns.
    pub(crate) throttled_ns: f64,
}

/// Time that the kernel excludes from run times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounting {
    /// Interrupts and softirqs: CONFIG_IRQ_TIME_ACCOUNTING; `None` if unknown, as
    /// distributions differ.
    pub(crate) leaves_out_interrupts: Option<bool>,
    /// Stolen time: CONFIG_PARAVIRT_TIME_ACCOUNTING.
    pub(crate) leaves_out_stolen: bool,
}

impl Accounting {
    /// Determines the accounting from the kernel configuration. Without one, assumes for stolen
    /// time the default of all distributions.
    pub(crate) fn of(configuration: Option<&str>) -> Self {
        let Some(text) = configuration else {
            return Self { leaves_out_interrupts: None, leaves_out_stolen: true };
        };
        let is_set = |name: &str| text.lines().any(|line| line == format!("{name}=y"));
        Self {
            leaves_out_interrupts: Some(is_set("CONFIG_IRQ_TIME_ACCOUNTING")),
            leaves_out_stolen: is_set("CONFIG_PARAVIRT_TIME_ACCOUNTING"),
        }
    }
}

/// Parts of a budget, in output order.
const STATES: [(ThreadState, &str); 8] = [
    (
        ThreadState::User,
        "run time (schedstat) minus time in interrupts, split in proportion to utime and stime",
    ),
    (
        ThreadState::Kernel,
        "run time (schedstat) minus time in interrupts, split in proportion to utime and stime",
    ),
    (
        ThreadState::Interrupts,
        "the CPU's interrupt share (/proc/stat), in proportion to the thread's run time",
    ),
    (ThreadState::Waiting, "run delay (schedstat) minus throttled time"),
    (
        ThreadState::Throttled,
        "the cgroup's throttled time per CPU (cpu.stat), capped at the run delay",
    ),
    (
        ThreadState::Stolen,
        "steal share of the CPU's busy time (/proc/stat), in proportion to the thread's run time",
    ),
    (ThreadState::Asleep, "wall time minus run time, run delay and unaccounted time"),
    (ThreadState::Unaccounted, "remaining wall time"),
];

/// Seconds spent in each part per slice, in the order of [`STATES`].
type Parts = [Vec<f64>; 8];

/// Returns a thread's budget. `around` has one entry per slice. With `has_intervals`, each share
/// gets a confidence interval, which takes a fraction of a millisecond to compute.
pub(crate) fn budget(
    slices: &[Slice],
    around: &[Around],
    never_slept: bool,
    accounting: Accounting,
    has_intervals: bool,
) -> Vec<ThreadTime> {
    let slices = &within(slices);
    let wall: Vec<f64> = slices.iter().map(|slice| slice.wall_ns as f64).collect();
    let parts_if = |accounting| parts(slices, around, never_slept, accounting);
    let parts = parts_if(accounting);
    // Only intervals show that the interrupts may be outside the run time.
    let is_unknown = has_intervals && !never_slept && accounting.leaves_out_interrupts.is_none();
    let outside = Accounting { leaves_out_interrupts: Some(true), ..accounting };
    let others = if is_unknown { parts_if(outside) } else { Parts::default() };
    let knows_interrupts = knows_interrupts(slices, around);
    let time = |((series, other), (state, method)): ((&Vec<f64>, &Vec<f64>), _)| ThreadTime {
        state,
        share: match state {
            ThreadState::Interrupts if !knows_interrupts => {
                Figure::absent("ratio", Tier::Sw, method, NO_SOFTIRQ_THREAD)
            }
            _ if is_unknown && series != other => {
                let both = [series, other].map(|one| share(one, &wall, method, true));
                widened(both)
            }
            _ => share(series, &wall, method, has_intervals),
        },
    };
    parts.iter().zip(&others).zip(STATES).map(time).collect()
}

/// Limits run time and run delay to the time for which the thread was observed. The kernel adds a
/// wait to the run delay when the wait ends, so the first slices may include waits, up to seconds,
/// from before the thread was first read.
fn within(slices: &[Slice]) -> Vec<Slice> {
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum::<u64>() as f64;
    let [wall, run, delay] =
        [sum(|slice| slice.wall_ns), sum(|slice| slice.run_ns), sum(|slice| slice.delay_ns)];
    let factor = |part: f64, room: f64| if part > room { room / part } else { 1.0 };
    let of_run = factor(run, wall);
    let of_delay = factor(delay, wall - run * of_run);
    let limited = |slice: &Slice| Slice {
        run_ns: (slice.run_ns as f64 * of_run) as u64,
        delay_ns: (slice.delay_ns as f64 * of_delay) as u64,
        ..*slice
    };
    slices.iter().map(limited).collect()
}

/// Returns the first share, with an interval that covers the intervals of both.
fn widened([share, other]: [Figure; 2]) -> Figure {
    let ends = |figure: &Figure| {
        let value = figure.as_number();
        (figure.low.or(value), figure.high.or(value))
    };
    let ((low, high), (other_low, other_high)) = (ends(&share), ends(&other));
    Figure {
        low: low.zip(other_low).map(|(a, b)| a.min(b)),
        high: high.zip(other_high).map(|(a, b)| a.max(b)),
        confidence: share.confidence.or(other.confidence),
        ..share
    }
}

/// Why the share of interrupts is absent.
const NO_SOFTIRQ_THREAD: &str = "the run time of the CPU's ksoftirqd, which handles part of the \
                                 softirqs, cannot be read";

/// Returns whether the interrupts are known for almost all of a thread's run time.
fn knows_interrupts(slices: &[Slice], around: &[Around]) -> bool {
    /// Maximum fraction of the run time with unknown interrupts.
    const FEW: f64 = 0.1;
    let run = |is_meant: &dyn Fn(&Around) -> bool| -> f64 {
        let pairs = slices.iter().zip(around).filter(|(_, around)| is_meant(around));
        pairs.map(|(slice, _)| slice.run_ns as f64).sum()
    };
    run(&|around| around.cpu.interrupts.is_none()) <= FEW * run(&|_| true)
}

/// Returns the sum of a series divided by the sum of `wall`.
fn share(series: &[f64], wall: &[f64], method: &str, has_interval: bool) -> Figure {
    let (part, whole) = (series.iter().sum::<f64>(), wall.iter().sum::<f64>());
    if whole <= 0.0 {
        let why = "a share needs two readings of the thread, but there was only one";
        return Figure::absent("ratio", Tier::Sw, method, why);
    }
    if !has_interval || series.iter().all(|&x| x == 0.0) {
        let n = series.len() as u64;
        return Figure { n, ..Figure::exact("ratio", part / whole, Tier::Sw, method) };
    }
    let estimate = block_bootstrap_ratio(series, wall, CONFIDENCE, SEED);
    Figure::number("ratio", estimate, Tier::Sw, method)
}

/// Factors that apply to all of a thread's slices, computed from its totals over the window.
struct Whole {
    user_share: f64,
    /// Fraction of the apportioned interrupt time that is outside of run time, 0 to 1.
    interrupts_outside: f64,
    stolen_outside: f64,
    /// This thread's share of the group's throttled time, 0 to 1.
    throttled: f64,
    sleeps: bool,
}

fn parts(slices: &[Slice], around: &[Around], never_slept: bool, accounting: Accounting) -> Parts {
    let whole = whole(slices, around, never_slept, accounting);
    let mut parts = Parts::default();
    for (slice, around) in slices.iter().zip(around) {
        for (series, value) in parts.iter_mut().zip(part(slice, around, &whole)) {
            series.push(value);
        }
    }
    // If the accounted time exceeds wall time, make unaccounted time negative rather than time
    // asleep.
    let [.., asleep, rest] = &mut parts;
    if asleep.iter().sum::<f64>() < 0.0 {
        for (asleep, rest) in asleep.iter_mut().zip(rest) {
            *rest += std::mem::take(asleep);
        }
    }
    parts
}

/// Returns the interrupt and stolen time attributed to the thread in a slice: the CPU's totals,
/// apportioned by run time.
fn shared_out(slice: &Slice, around: &Around) -> (f64, f64) {
    let run = slice.run_ns as f64;
    let stolen = around.cpu.stolen.clamp(0.0, 0.99);
    // Run time plus stolen time is the time in which the CPU had something to run. In a slice of a
    // few ticks, the stolen share may be close to 1, so the CPU's own total serves as a bound.
    let at_most = around.cpu.stolen_of_all * slice.wall_ns as f64;
    let interrupts = around.cpu.interrupts.unwrap_or(0.0).clamp(0.0, 1.0);
    (run * interrupts, (run * stolen / (1.0 - stolen)).min(at_most))
}

fn whole(slices: &[Slice], around: &[Around], never_slept: bool, accounting: Accounting) -> Whole {
    let sum = |of: &dyn Fn(&Slice) -> f64| slices.iter().map(of).sum::<f64>();
    let user = sum(&|slice| slice.user_ticks as f64);
    let ticks = user + sum(&|slice| slice.system_ticks as f64);
    let (run, delay) = (sum(&|slice| slice.run_ns as f64), sum(&|slice| slice.delay_ns as f64));
    let gap = (sum(&|slice| slice.wall_ns as f64) - run - delay).max(0.0);
    let pairs = || slices.iter().zip(around).map(|(slice, around)| shared_out(slice, around));
    let (interrupts, stolen) =
        pairs().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let may = |is_left_out: bool| never_slept || is_left_out;
    let stolen_outside = if may(accounting.leaves_out_stolen) { stolen.min(gap) } else { 0.0 };
    let room = gap - stolen_outside;
    let outside = if may(accounting.leaves_out_interrupts == Some(true)) {
        interrupts.min(room)
    } else {
        0.0
    };
    let throttled: f64 = around.iter().map(|around| around.throttled_ns).sum();
    let fraction = |part: f64, of: f64| if of > 0.0 { (part / of).min(1.0) } else { 0.0 };
    Whole {
        user_share: if ticks > 0.0 { user / ticks } else { 0.5 },
        interrupts_outside: fraction(outside, interrupts),
        stolen_outside: fraction(stolen_outside, stolen),
        throttled: fraction(delay, throttled),
        sleeps: !never_slept,
    }
}

/// Returns the parts of a slice in ns, in the order of [`STATES`].
fn part(slice: &Slice, around: &Around, whole: &Whole) -> [f64; 8] {
    let (wall, run) = (slice.wall_ns as f64, slice.run_ns as f64);
    let delay = slice.delay_ns as f64;
    let (interrupts, stolen) = shared_out(slice, around);
    let outside = interrupts * whole.interrupts_outside + stolen * whole.stolen_outside;
    let interrupts_inside = interrupts * (1.0 - whole.interrupts_outside);
    let stolen_inside = (stolen * (1.0 - whole.stolen_outside)).min(run - interrupts_inside);
    let ticks = (slice.user_ticks + slice.system_ticks) as f64;
    let user_share = if ticks > 0.0 { slice.user_ticks as f64 / ticks } else { whole.user_share };
    // The kernel counts ticks during interrupts as system time of the interrupted thread.
    let own = (run - stolen_inside).max(0.0);
    let user = (own * user_share).min(own - interrupts_inside);
    let kernel = own - user - interrupts_inside;
    let throttled = around.throttled_ns * whole.throttled;
    let asleep = if whole.sleeps { wall - run - delay - outside } else { 0.0 };
    let known = [
        user,
        kernel,
        interrupts,
        delay - throttled,
        throttled,
        stolen_inside + stolen * whole.stolen_outside,
        asleep,
    ];
    let rest = wall - known.iter().sum::<f64>();
    let [user, kernel, interrupts, waiting, throttled, stolen, asleep] = known;
    [user, kernel, interrupts, waiting, throttled, stolen, asleep, rest]
}

#[cfg(test)]
mod tests;
