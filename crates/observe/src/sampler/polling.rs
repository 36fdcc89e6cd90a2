// SPDX-License-Identifier: MIT OR Apache-2.0
//! Separates polling from work in a thread's CPU time without help from the program: determines
//! which functions belong to its poll loop, the CPU time per packet, and how busy the thread is.
//! Performs no I/O.
//!
//! A polling thread always runs. In a slice, it spends a share `c x` of its time on packets, where
//! `x` is packets per second of CPU time and `c` the cost per packet, and the rest in its poll
//! loop. If `u` are the shares of functions in the loop and `w` their shares in the work, the share
//! of function `f` is
//!
//! ```text
//! s_f(x) = u_f (1 - c x) + w_f c x          intercept u_f, slope b_f = c (w_f - u_f)
//! ```
//!
//! For each code block, a line is therefore fitted to the share of samples over `x`. A code block
//! (a *place*) is a function or, for functions with many samples, 64 bytes of a function. The lines
//! determine `c` only together with what is known about some of the blocks:
//!
//! - A block that only the work enters (`u_f = 0`) has an intercept of 0, and its time per packet
//!   is its share over the load: much more precise than a slope.
//! - A block that only the poll loop enters (`w_f = 0`) has `-b_f / u_f = c`.
//! - A shared block has two unknowns. Its time per packet is `b_f + c u_f`.
//!
//! As the times per packet of all blocks add up to `c`,
//!
//! ```text
//! c = (work-only shares / x + sum of b over shared blocks) / (1 - sum of u over shared blocks)
//! ```
//!
//! The first term has little noise, so as few blocks as possible should be shared. A block whose
//! share rises with load is work-only if its intercept is 0 within its error. A block whose share
//! falls with load is poll-only unless `b_f + c u_f` exceeds 0 by more than its error. Another job
//! of the thread, which takes the share `d` at any load, also looks like shared blocks, with
//! `b_f = 0`. It scales every `u_f` by `1 - d`, and the cost is `1 - d` times the above. The result
//! is the midpoint of the two interpretations, and the interval includes both.
//!
//! ```text
//! for each block: fit a line
//! work-only = rising blocks with an intercept of 0, each and together
//! poll-only = falling blocks; shared = the others
//! repeat: c from the equation; move the poll-only block with the most significant b + c u
//!     to the shared ones, until none is significant or would leave the poll loop less than 15 %
//! no result if there are too few samples, the loads hardly vary, the thread sleeps, no slope is
//!     significant, the line bends, or its intercept exceeds 1
//! interval of c = from a bootstrap over slices; each resample divides blocks again;
//!     plus the error of the model, MODEL_ERROR
//! busy  = cost * packets / CPU time
//! ```
//!
//! The interval thus includes the noise of the classification. Whether there is a poll loop at all
//! is decided by cross-validation: in each half of the slices, the blocks selected by the other
//! half are tested, so that noise cannot select blocks that seem to confirm it.
//!
//! If the line bends, as when packets get cheaper in bursts, only the lower half of the loads
//! determines the shares without packets. The decrease from there to the mean of all slices still
//! gives the mean time per packet.
//!
//! Whatever the loop does in every iteration counts as polling, even in iterations that find
//! packets. The method can be fooled: a thread that never polls, but works on two kinds of packets,
//! one of them more than 20 times as expensive as the other, appears to poll in the functions for
//! the expensive kind.

mod fit;
mod places;
mod split;
mod work;

use fit::{Axis, Folds, Line};
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE, block_bootstrap};
use places::Group;
use split::Cost;
use std::collections::BTreeMap;
use std::fmt;

/// A block of code executed by a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Function number, as assigned by the caller.
    pub function: u32,
    /// Whether the block is in the kernel.
    pub is_kernel: bool,
}

/// A thread's samples in one slice of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// CPU time in nanoseconds.
    pub run_ns: u64,
    /// Packets handled; `None` if not counted in this slice.
    pub packets: Option<u64>,
    /// Sample counts, each with the index of its code block in the list of places.
    pub counts: Vec<(u32, u32)>,
}

impl Slice {
    /// Number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| u64::from(count)).sum()
    }
}

/// A thread's work and polling.
#[derive(Clone, Debug, PartialEq)]
pub struct Separated {
    /// Fraction of CPU time spent on packets, 0 to 1.
    pub busy: Estimate,
    /// CPU time per packet, in nanoseconds.
    pub cost_ns: Estimate,
    /// Functions whose share falls (`true`) or rises (`false`) with load; absent if undetermined.
    pub is_polling: BTreeMap<u32, bool>,
    /// Fraction of the poll loop's time spent in the kernel, 0 to 1.
    pub kernel_share: f64,
    /// Fraction of the thread's time in slices in which it did not poll, 0 to 1.
    pub saturated: f64,
    /// Load at or above which the thread does not poll, in packets per second of CPU time.
    saturated_from: f64,
    /// Maximum load of the slices used for fitting.
    fitted_to: f64,
}

impl Separated {
    /// Returns the share of the CPU time of `slices` that is spent on packets, given the cost found
    /// earlier.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no CPU time, or if the packets of a slice are unknown.
    pub(super) fn busy_over(&self, slices: &[Slice]) -> Result<Estimate, CannotTell> {
        let run_ns: u64 = slices.iter().map(|slice| slice.run_ns).sum();
        let packets = slices.iter().map(|slice| slice.packets).sum::<Option<u64>>();
        let packets = packets.ok_or(CannotTell::NoPacketCounter)? as f64;
        match run_ns {
            0 => Err(CannotTell::NoCpuTime),
            _ => Ok(within_one(self.cost_ns.scale(packets / run_ns as f64))),
        }
    }
}

/// Reasons why work and polling cannot be separated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CannotTell {
    /// The thread sleeps for this fraction of the time.
    Sleeps(f64),
    /// No counter for the thread's packets.
    NoPacketCounter,
    /// No packets were counted in the window.
    NoPackets,
    /// Too few samples. The value is the number of samples.
    TooFewSamples(u64),
    /// Too few slices with samples and packet counts. The value is the number of such slices.
    TooFewSlices(usize),
    /// The packet rate varies too little.
    LoadDoesNotVary,
    /// No function's share falls as the packet rate rises.
    NoPollLoop,
    /// Shares are not linear in the load.
    NotLinear,
    /// Packets are not counted in the slice in which they are handled, but in a later one.
    LatePacketCounts,
    /// The thread's CPU time is unknown.
    NoCpuTime,
    /// Samples count cycles and exclude the kernel.
    KernelNotSampled,
    /// The thread's time depends on more than the counted packets. The cost per packet is between
    /// the two values, in ns.
    SeveralJobs(f64, f64),
}

impl fmt::Display for CannotTell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sleeps(share) => {
                write!(
                    f,
                    "the thread sleeps {:.0} % of the time, so it does not busy-poll",
                    share * 100.0
                )
            }
            Self::NoPacketCounter => f.write_str("no counter counts the thread's packets"),
            Self::NoPackets => f.write_str("no packets in the window"),
            Self::TooFewSamples(samples) => {
                write!(f, "only {samples} samples, but {MIN_SAMPLES} are needed: watch longer")
            }
            Self::TooFewSlices(slices) => write!(
                f,
                "samples in only {slices} slices of the window, but {MIN_SLICES} are needed: watch \
                 longer"
            ),
            Self::LoadDoesNotVary => f.write_str(
                "the packet rate varies too little to separate work from polling: watch longer, or \
                 while the load changes",
            ),
            Self::NoPollLoop => f.write_str(
                "no function's share falls significantly as the packet rate rises: the thread does \
                 not busy-poll, or packets take almost none or almost all of its time (watch \
                 longer)",
            ),
            Self::NotLinear => f.write_str(
                "CPU time does not grow in proportion to the packet rate: there are several kinds \
                 of packets, or the cost per packet falls under load",
            ),
            Self::LatePacketCounts => f.write_str(
                "the packet counter lags behind the thread: watch longer, so that the lag is small \
                 compared with a slice of the window",
            ),
            Self::NoCpuTime => f.write_str("the thread's CPU time per slice could not be read"),
            Self::KernelNotSampled => f.write_str(
                "cycles are sampled in user mode only: sample CPU time (--period 1000000), or run \
                 as root",
            ),
            Self::SeveralJobs(low, high) => write!(
                f,
                "the thread's time depends on more than the counted packets: the cost is between \
                 {low:.0} and {high:.0} ns/packet"
            ),
        }
    }
}

/// Minimum number of samples. With fewer, a busy share of 0.5 is off by 0.05 or more.
const MIN_SAMPLES: u64 = 1000;
/// Minimum number of slices.
const MIN_SLICES: usize = 16;
/// Maximum share of time asleep: threads that sleep more wait for packets by other means.
pub(super) const MAX_ASLEEP: f64 = 0.05;
/// Number of slices merged to check whether packets are counted late.
const MERGED: usize = 4;
/// Minimum coefficient of variation of the load; with less, work and polling cannot be separated.
const MIN_SPREAD: f64 = 0.1;
/// Maximum deviation of shares from a linear function of the load, expressed as a busy share. If a
/// significant deviation exceeds it, the cost per packet is not constant.
const MAX_BEND: f64 = 0.05;
/// Maximum ratio between the upper and the lower bound of the cost. If it is exceeded, the thread
/// does more than process the counted packets.
const MAX_APART: f64 = 1.35;
/// Maximum ratio between the ends of the cost interval; a wider one is rejected unless that of the
/// busy share is narrow ([`MAX_BUSY_WIDTH`]).
const MAX_WIDTH: f64 = 2.0;
/// Maximum width of the interval of the busy share if the interval of the cost per packet is wider
/// than [`MAX_WIDTH`]; with a wider one, there is no result. The headroom of a mostly idle thread
/// can be known even if its cost per packet is not.
const MAX_BUSY_WIDTH: f64 = 0.2;
/// Standard error of the model itself, as a fraction of the cost. Bursts of different sizes, cold
/// caches after a pause, and counters that are not read at the same instant as the samples make
/// shares depart from lines in a way that resampling slices does not show. In 44 windows of real
/// polling threads, errors were 3.2 % (root mean square) where the bootstrap alone stated 2.6 %.
const MODEL_ERROR: f64 = 0.02;
/// Number of standard errors considered significant; exceeded by chance in 1 of 80 cases.
const SIGNIFICANT: f64 = 2.5;

/// Separates work from polling. `asleep` is the fraction of the window that the thread slept. Equal
/// seeds give equal intervals.
///
/// # Errors
///
/// Returns an error if work and polling cannot be separated.
pub fn separate(
    slices: &[Slice],
    places: &[Place],
    asleep: f64,
    seed: u64,
) -> Result<Separated, CannotTell> {
    if asleep > MAX_ASLEEP {
        return Err(CannotTell::Sleeps(asleep));
    }
    if slices.iter().all(|slice| slice.packets.is_none()) && !slices.is_empty() {
        return Err(CannotTell::NoPacketCounter);
    }
    let useful: Vec<&Slice> = slices.iter().filter(|slice| is_useful(slice)).collect();
    let found = fitted(&useful, places, seed)?;
    if is_attenuated(&useful, places, found.cost_ns, seed) {
        return Err(CannotTell::LatePacketCounts);
    }
    Ok(found)
}

fn is_useful(slice: &Slice) -> bool {
    slice.samples() > 0 && slice.packets.is_some()
}

/// Separates work from polling based on `useful` slices. Leaves out those in which the thread had
/// no time left to poll, because packets counted in them may have been lost.
fn fitted(useful: &[&Slice], places: &[Place], seed: u64) -> Result<Separated, CannotTell> {
    let samples: u64 = useful.iter().map(|slice| slice.samples()).sum();
    enough(useful)?;
    let grouped = places::group(useful, places);
    let mut loads = loads(useful)?;
    let mut folds = Folds::new(&loads, useful, &grouped);
    let saturated_from = folds.saturated_from();
    let below: Vec<&Slice> =
        useful.iter().copied().filter(|slice| load(slice).rate < saturated_from).collect();
    let busy_above = folds.busy_from(saturated_from);
    let grouped = places::group(&below, places);
    if saturated_from.is_finite() {
        enough(&below)?;
        loads = self::loads(&below)?;
        folds = Folds::new(&loads, &below, &grouped);
    }
    let all: Vec<usize> = (0..below.len()).collect();
    let folds = straight(folds, &all)?;
    let Axis { weight, mean, .. } = Axis::new(&loads, &all);
    let cost = cost(&folds, &loads, &grouped, mean, seed)?;
    let (part, rest) = (weight / samples as f64, 1.0 - weight / samples as f64);
    let of_all = |end: f64| (end * mean).min(1.0) * part + busy_above * rest;
    Ok(Separated {
        busy: within_one(Estimate {
            value: of_all(cost.value),
            low: of_all(cost.low),
            high: of_all(cost.high),
            ..cost
        }),
        cost_ns: cost.scale(1e9),
        is_polling: trends(&loads, &below, places),
        kernel_share: folds.kernel_share(&all),
        saturated: rest,
        saturated_from,
        fitted_to: folds.limit(),
    })
}

fn enough(slices: &[&Slice]) -> Result<(), CannotTell> {
    let samples = slices.iter().map(|slice| slice.samples()).sum();
    if samples < MIN_SAMPLES {
        return Err(CannotTell::TooFewSamples(samples));
    }
    match slices.len() {
        few @ ..MIN_SLICES => Err(CannotTell::TooFewSlices(few)),
        _ => Ok(()),
    }
}

/// Returns whether the cost per packet is higher with slices [`MERGED`] times as long. If so,
/// packets are counted later than they are handled, and the loads of short slices do not match
/// their samples.
fn is_attenuated(useful: &[&Slice], places: &[Place], cost_ns: Estimate, seed: u64) -> bool {
    let merge = |slices: &[&Slice]| {
        let mut counts = BTreeMap::<u32, u32>::new();
        for &(place, count) in slices.iter().flat_map(|slice| &slice.counts) {
            *counts.entry(place).or_default() += count;
        }
        Slice {
            run_ns: slices.iter().map(|slice| slice.run_ns).sum(),
            packets: slices.iter().map(|slice| slice.packets).sum(),
            counts: counts.into_iter().collect(),
        }
    };
    let merged: Vec<Slice> = useful.chunks_exact(MERGED).map(merge).collect();
    let merged: Vec<&Slice> = merged.iter().collect();
    // If the load varies within the longer slices, their result is inconclusive.
    fitted(&merged, places, seed).is_ok_and(|found| found.cost_ns.low > cost_ns.high)
}

/// Load of a slice.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Packets per second of CPU time.
    rate: f64,
    /// Samples.
    weight: f64,
}

fn load(slice: &Slice) -> Load {
    let seconds = slice.run_ns.max(1) as f64 / 1e9;
    let packets = slice.packets.unwrap_or(0);
    Load { rate: packets as f64 / seconds, weight: slice.samples() as f64 }
}

fn loads(slices: &[&Slice]) -> Result<Vec<Load>, CannotTell> {
    let loads: Vec<Load> = slices.iter().map(|slice| load(slice)).collect();
    let weight: f64 = loads.iter().map(|load| load.weight).sum();
    let mean = loads.iter().map(|load| load.weight * load.rate).sum::<f64>() / weight;
    if mean <= 0.0 {
        return Err(CannotTell::NoPackets);
    }
    let square = |load: &Load| load.weight * (load.rate - mean).powi(2);
    let deviation = (loads.iter().map(square).sum::<f64>() / weight).sqrt();
    if deviation < MIN_SPREAD * mean { Err(CannotTell::LoadDoesNotVary) } else { Ok(loads) }
}

/// Checks that shares depend linearly on load. If the line bends, restricts `folds` to the lower
/// half of the loads. Returns an error if the line also bends there, or if its intercept is not a
/// valid share. The latter occurs if a busy thread alternates between two kinds of packets.
fn straight<'a>(folds: Folds<'a>, all: &[usize]) -> Result<Folds<'a>, CannotTell> {
    let is_bent = |folds: &Folds| {
        let bend = folds.bend(all);
        bend.size > MAX_BEND && bend.size > SIGNIFICANT * bend.error
    };
    let folds = if is_bent(&folds) { folds.below_the_median() } else { folds };
    if is_bent(&folds) {
        return Err(CannotTell::NotLinear);
    }
    let share = folds.falling_share(all);
    let excess = share.intercept - 1.0;
    if excess > MAX_BEND && excess > SIGNIFICANT * share.intercept_error {
        return Err(CannotTell::NotLinear);
    }
    Ok(folds)
}

/// Estimates the CPU time per packet in seconds, at a mean rate of `mean` packets per second of CPU
/// time.
fn cost(
    folds: &Folds,
    loads: &[Load],
    groups: &[Group],
    mean: f64,
    seed: u64,
) -> Result<Estimate, CannotTell> {
    let all: Vec<usize> = (0..loads.len()).collect();
    let residuals = folds.residuals(&all);
    let summed = block_bootstrap(&residuals, CONFIDENCE, seed, |chosen| folds.summed(chosen));
    if summed.low.is_nan() || summed.low <= 0.0 {
        return Err(CannotTell::NoPollLoop);
    }
    let of = |chosen: &[usize]| split::cost(loads, groups, chosen, folds.limit());
    let Cost { least, most } = of(&all);
    if most <= 0.0 {
        return Err(CannotTell::NoPollLoop);
    }
    if most > MAX_APART * least {
        return Err(CannotTell::SeveralJobs(least * 1e9, most * 1e9));
    }
    let middle = block_bootstrap(&residuals, CONFIDENCE, seed, |chosen| of(chosen).middle());
    let half = (most - least) / 2.0;
    let of_model = NORMAL_QUANTILE * MODEL_ERROR * middle.value;
    // Each resample divides places in its own way, so the value may be outside of the interval.
    let low = middle.value - of_model.hypot((middle.value - middle.low).max(0.0)) - half;
    let high = middle.value + of_model.hypot((middle.high - middle.value).max(0.0)) + half;
    let is_known = low > 0.0 && high.is_finite();
    let is_wide = high > MAX_WIDTH * low && (high - low) * mean > MAX_BUSY_WIDTH;
    if !is_known || is_wide {
        return Err(CannotTell::LoadDoesNotVary);
    }
    Ok(Estimate { low, high, ..middle })
}

fn within_one(estimate: Estimate) -> Estimate {
    let within = |x: f64| x.min(1.0);
    Estimate {
        value: within(estimate.value),
        low: within(estimate.low),
        high: within(estimate.high),
        ..estimate
    }
}

/// Returns, for each function whose share depends significantly on load, whether the share falls.
fn trends(loads: &[Load], slices: &[&Slice], places: &[Place]) -> BTreeMap<u32, bool> {
    let by_function = places::by_function(slices, places);
    let all: Vec<usize> = (0..loads.len()).collect();
    let trend = |(function, counts): (u32, Vec<f64>)| {
        let line = Line::fit(loads, &counts, &all);
        let is_significant = line.slope.abs() > SIGNIFICANT * line.slope_error;
        is_significant.then_some((function, line.slope < 0.0))
    };
    by_function.into_iter().filter_map(trend).collect()
}

#[cfg(test)]
mod tests;
