// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time budget of a thread: parts that sum to the time in which it existed.
//!
//! What the scheduler knows of a thread is exact: when it ran, when it was ready. Interrupts and
//! softirqs that came while it ran, and what the hypervisor took from its CPU, are known of the CPU
//! only, and are shared out. They are part of the thread's run time on some kernels and taken out
//! of it on others:
//!
//! | time of | is in the run time unless |
//! |---|---|
//! | interrupts | CONFIG_IRQ_TIME_ACCOUNTING |
//! | the hypervisor | CONFIG_PARAVIRT_TIME_ACCOUNTING |
//!
//! A thread that never slept shows which: what its run time and its delay leave of the wall time is
//! outside of the run time. Of others the kernel's configuration says so, where it can be read.

use crate::threads::Slice;
use linerate_record::stats::{CONFIDENCE, block_bootstrap_ratio};
use linerate_record::why::{ThreadState, ThreadTime};
use linerate_record::{Figure, Tier};

/// Seed of the resampling behind the intervals.
const SEED: u64 = 0x7768_7961;

/// Shares of a CPU's time in a slice that concern a thread on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuShares {
    /// Interrupts and softirqs, those in the kernel's own threads left out: a share of its time.
    pub(crate) interrupts: f64,
    /// Not run by the hypervisor: a share of the time in which it had something to run.
    pub(crate) stolen: f64,
    /// The same as a share of all its time, the most that a thread on it can have lost.
    pub(crate) stolen_of_all: f64,
}

/// A slice of a thread with what is known from elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Around {
    pub(crate) cpu: CpuShares,
    /// Time for which a quota stopped the thread's group on a CPU, ns.
    pub(crate) throttled_ns: f64,
}

/// Time that the kernel excludes from run times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounting {
    /// Interrupts: CONFIG_IRQ_TIME_ACCOUNTING.
    pub(crate) leaves_out_interrupts: bool,
    /// The hypervisor's time: CONFIG_PARAVIRT_TIME_ACCOUNTING.
    pub(crate) leaves_out_stolen: bool,
}

impl Accounting {
    /// From the kernel's configuration; without one, the default of most distributions.
    pub(crate) fn of(configuration: Option<&str>) -> Self {
        let Some(text) = configuration else {
            return Self { leaves_out_interrupts: false, leaves_out_stolen: true };
        };
        let is_set = |name: &str| text.lines().any(|line| line == format!("{name}=y"));
        Self {
            leaves_out_interrupts: is_set("CONFIG_IRQ_TIME_ACCOUNTING"),
            leaves_out_stolen: is_set("CONFIG_PARAVIRT_TIME_ACCOUNTING"),
        }
    }
}

/// The parts of a budget, in the order in which they are printed.
const STATES: [(ThreadState, &str); 8] = [
    (ThreadState::User, "run time (schedstat) split by utime and stime, excluding interrupts"),
    (ThreadState::Kernel, "run time (schedstat) split by utime and stime, excluding interrupts"),
    (ThreadState::Interrupts, "share of its CPU (/proc/stat) in proportion to its run time"),
    (ThreadState::Waiting, "run delay (schedstat) minus throttled time"),
    (ThreadState::Throttled, "throttled time of the group (cpu.stat) per CPU, within run delay"),
    (ThreadState::Stolen, "share of its busy CPU (/proc/stat) in proportion to its run time"),
    (ThreadState::Asleep, "wall time minus run time, run delay and time outside both"),
    (ThreadState::Unaccounted, "the rest of the wall time"),
];

/// Seconds of each part, slice by slice, in the order of [`STATES`].
type Parts = [Vec<f64>; 8];

/// The budget of a thread, `around` having an entry for each of `slices`. `has_intervals`: each
/// takes a fraction of a millisecond to compute.
pub(crate) fn budget(
    slices: &[Slice],
    around: &[Around],
    never_slept: bool,
    accounting: Accounting,
    has_intervals: bool,
) -> Vec<ThreadTime> {
    let wall: Vec<f64> = slices.iter().map(|slice| slice.wall_ns as f64).collect();
    let parts = parts(slices, around, never_slept, accounting);
    let time = |(series, (state, method)): (&Vec<f64>, (ThreadState, &str))| ThreadTime {
        state,
        share: share(series, &wall, method, has_intervals),
    };
    parts.iter().zip(STATES).map(time).collect()
}

/// The sum of a series over that of `wall`.
fn share(series: &[f64], wall: &[f64], method: &str, has_interval: bool) -> Figure {
    let (part, whole) = (series.iter().sum::<f64>(), wall.iter().sum::<f64>());
    if whole <= 0.0 {
        return Figure::absent("ratio", Tier::Sw, method, "the thread was read only once only");
    }
    if !has_interval || series.iter().all(|&x| x == 0.0) {
        let n = series.len() as u64;
        return Figure { n, ..Figure::exact("ratio", part / whole, Tier::Sw, method) };
    }
    let estimate = block_bootstrap_ratio(series, wall, CONFIDENCE, SEED);
    Figure::number("ratio", estimate, Tier::Sw, method)
}

/// Totals of a thread over the window: factors that apply to each slice.
struct Whole {
    user_share: f64,
    /// Of the time shared out, the part that is outside of run time.
    interrupts_outside: f64,
    stolen_outside: f64,
    /// Of the time of the group's quota, the part that is this thread's.
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
    // Accounts that exceed the wall time leave an error, not a negative sleep.
    let [.., asleep, rest] = &mut parts;
    if asleep.iter().sum::<f64>() < 0.0 {
        for (asleep, rest) in asleep.iter_mut().zip(rest) {
            *rest += std::mem::take(asleep);
        }
    }
    parts
}

/// Interrupts and stolen time of a slice: shares of the CPU in proportion to the run time.
fn shared_out(slice: &Slice, around: &Around) -> (f64, f64) {
    let run = slice.run_ns as f64;
    let stolen = around.cpu.stolen.clamp(0.0, 0.99);
    // Stolen from what wanted to run: run time is what was left. In a slice of a few ticks that
    // share may be near 1, so the CPU's own total bounds it.
    let at_most = around.cpu.stolen_of_all * slice.wall_ns as f64;
    (run * around.cpu.interrupts.clamp(0.0, 1.0), (run * stolen / (1.0 - stolen)).min(at_most))
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
    let outside = if may(accounting.leaves_out_interrupts) { interrupts.min(room) } else { 0.0 };
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

/// The parts of one slice, in ns, in the order of [`STATES`].
fn part(slice: &Slice, around: &Around, whole: &Whole) -> [f64; 8] {
    let (wall, run) = (slice.wall_ns as f64, slice.run_ns as f64);
    let delay = slice.delay_ns as f64;
    let (interrupts, stolen) = shared_out(slice, around);
    let outside = interrupts * whole.interrupts_outside + stolen * whole.stolen_outside;
    let interrupts_inside = interrupts * (1.0 - whole.interrupts_outside);
    let stolen_inside = (stolen * (1.0 - whole.stolen_outside)).min(run - interrupts_inside);
    let ticks = (slice.user_ticks + slice.system_ticks) as f64;
    let user_share = if ticks > 0.0 { slice.user_ticks as f64 / ticks } else { whole.user_share };
    // The kernel counts ticks in interrupts as system time of the thread they came to.
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
