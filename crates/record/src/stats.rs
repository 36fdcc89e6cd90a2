// SPDX-License-Identifier: MIT OR Apache-2.0
//! Robust statistics: medians, quantiles, and intervals with reliable coverage.
//!
//! Choosing a method:
//!
//! | samples | estimate |
//! |---|---|
//! | independent (latencies of sampled packets) | [`quantile_interval`], [`median_interval`] |
//! | independent: the fastest of several passes | [`minimum_interval`] |
//! | rounds in each of which a baseline and a candidate ran | [`paired_ratio`] |
//! | consecutive windows of one run (autocorrelated): median | [`block_bootstrap_median`] |
//! | consecutive windows: a cost per packet, ticks over packets | [`block_bootstrap_ratio`] |
//! | consecutive windows: any other statistic, such as a slope | [`block_bootstrap`] |
//! | samples of a profile, counted in consecutive windows | [`share_interval`] |
//!
//! Independent samples need no bootstrap, because order statistics give a closed-form interval for
//! any distribution and sample size. Neighbouring windows are not independent, so they are
//! resampled in blocks.
//!
//! Means and standard deviations are avoided: a single preempted window can shift them arbitrarily
//! far.

pub mod coverage;
mod quantiles;
mod shares;

pub use quantiles::{normal_quantile, student_quantile};
pub use shares::{sampled_share, share_interval};

use crate::random::Random;

/// Confidence level of the intervals that linerate reports, that is, the fraction of repetitions in
/// which the interval contains the true value. The few intervals with a different level document
/// why.
pub const CONFIDENCE: f64 = 0.95;

/// Two-sided quantile of the standard normal distribution for [`CONFIDENCE`].
pub const NORMAL_QUANTILE: f64 = 1.959_964;

/// Returns the name of a [`CONFIDENCE`] interval in tables and sentences: `95 % interval`.
pub fn interval_name() -> String {
    format!("{} % interval", 100.0 * CONFIDENCE)
}

/// An estimate and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The point estimate; NaN if there is none.
    pub value: f64,
    /// Lower end of the interval; minus infinity if the samples do not bound it.
    pub low: f64,
    /// Upper end of the interval; infinity if the samples do not bound it.
    pub high: f64,
    /// Fraction of repetitions in which the interval should contain the true value, 0 to 1.
    pub confidence: f64,
    /// Number of samples behind the estimate.
    pub n: u64,
}

mod algebra;

/// Returns the `q` quantile of `samples`, for `q` from 0 to 1, interpolating linearly between order
/// statistics (definition 7 of Hyndman and Fan, 1996). `None` if `samples` is empty or contains
/// NaN, or if `q` is out of range.
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    Some(quantile_of_sorted(&sorted(samples)?, q))
}

/// Returns the median of `samples`: [`quantile`] at one half.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Returns the `q` quantile of `sorted`, which must be in ascending order and not empty; `q` must
/// be from 0 to 1.
fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    let share = position - below as f64;
    let (below, above) = (sorted[below], sorted[above]);
    // Not `below + share * (above - below)`, which gives NaN if both samples are the same infinity.
    // Interpolating between equal samples can round to a different value, hence the special case.
    if share == 0.0 || below == above { below } else { below * (1.0 - share) + above * share }
}

/// Returns the median of independent samples and an interval for the population median, using
/// [`quantile_interval`] at one half. A finite interval needs at least 5 samples for 90 %
/// confidence, 6 for 95 %, and 8 for 99 %.
pub fn median_interval(samples: &[f64], confidence: f64) -> Estimate {
    quantile_interval(samples, 0.5, confidence)
}

/// Returns the `q` quantile of independent samples and an interval for the population quantile.
///
/// The number `N` of samples below the true quantile is binomially distributed (`n`, `q`), whatever
/// the distribution of the samples. Hence the `l`-th smallest sample is above the true quantile
/// with probability `P(N < l)`, and the `u`-th smallest is below it with probability `P(N >= u)`.
/// The interval uses the largest `l` and the smallest `u` for which these probabilities are at most
/// `(1 - confidence) / 2` each, so it contains the true value in at least `confidence` of all
/// repetitions, for any `n` and any distribution. An end is infinite if no sample is far enough
/// out.
///
/// The value is NaN if `samples` is empty or contains NaN, or if `q` or `confidence` is not between
/// 0 and 1.
pub fn quantile_interval(samples: &[f64], q: f64, confidence: f64) -> Estimate {
    let inside = |x: f64| x > 0.0 && x < 1.0;
    let unknown = unknown_of(samples.len(), confidence);
    if !inside(q) || !inside(confidence) {
        return unknown;
    }
    let Some(sorted) = sorted(samples) else {
        return unknown;
    };
    let value = quantile_of_sorted(&sorted, q);
    let (low, high) = binomial_ranks(sorted.len(), q, (1.0 - confidence) / 2.0);
    let end = |rank: Option<usize>| rank.map(|rank| sorted[rank]);
    let n = sorted.len() as u64;
    Estimate { confidence, ..Estimate::of_ends(value, end(low), end(high), n) }
}

/// Returns the minimum of independent samples and an interval for the minimum of another set of as
/// many samples, that is, for the median of such minima. A 95 % interval needs at least 3 samples.
///
/// No sample is below the floor that interference adds to, so resampling these samples would only
/// show that the minimum might be higher. The interval therefore extends as far below the minimum
/// as above it, by its distance from the `k`-th smallest sample. If the excess over the floor is
/// exponential, the distance from the `i`-th to the next of `n` samples is exponential with mean
/// `1 / (n - i)`, and independent of the others. The minimum is above the median of minima by more
/// than its distance from the `k`-th with probability
///
/// ```text
/// 1/2 (n-1)/(2n-1) (n-2)/(2n-2) ... (n-k+1)/(2n-k+1)
/// ```
///
/// and is almost never that far below it. The interval uses the smallest `k` for which this
/// probability is at most `1 - confidence`; if there is none, the interval is infinite.
///
/// The value is NaN if `samples` is empty or contains NaN.
pub fn minimum_interval(samples: &[f64], confidence: f64) -> Estimate {
    let unknown = unknown_of(samples.len(), confidence);
    let Some(sorted) = sorted(samples) else {
        return unknown;
    };
    let (n, value) = (sorted.len() as f64, sorted[0]);
    let mut miss = 0.5;
    let is_far = |i: &usize| {
        miss *= (n - *i as f64) / (2.0 * n - *i as f64);
        miss <= 1.0 - confidence
    };
    match (1..sorted.len()).find(is_far) {
        Some(i) => {
            let half = sorted[i] - value;
            Estimate { value, low: value - half, high: value + half, ..unknown }
        }
        None => Estimate { value, ..unknown },
    }
}

/// Returns the estimate for samples that do not determine a value: NaN with an infinite interval.
fn unknown_of(samples: usize, confidence: f64) -> Estimate {
    Estimate { confidence, ..Estimate::of_ends(f64::NAN, None, None, samples as u64) }
}

/// Returns the 0-based ranks of the order statistics that bound the `q` quantile of `n` samples,
/// each with a probability of at most `tail` that the quantile is beyond it.
fn binomial_ranks(n: usize, q: f64, tail: f64) -> (Option<usize>, Option<usize>) {
    let weights = binomial_weights(n, q);
    let tail = tail * weights.iter().sum::<f64>();
    // Counts the ranks whose cumulative weight stays within the tail. The sample of 0-based rank r
    // misses the quantile with probability P(N <= r), where N is the number of samples below the
    // quantile.
    let within = |weights: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        weights
            .take_while(|w| {
                sum += **w;
                sum <= tail
            })
            .count()
    };
    let low = within(&mut weights.iter());
    let high = within(&mut weights.iter().rev());
    (low.checked_sub(1), if high == 0 { None } else { Some(n - high) })
}

/// Returns weights proportional to the binomial probabilities of 0 to `n`. They start from 1 at the
/// mode and proceed outwards by `p(k+1) / p(k) = (n-k) q / ((k+1) (1-q))`, so nothing overflows and
/// whatever underflows is negligible.
fn binomial_weights(n: usize, q: f64) -> Vec<f64> {
    let odds = q / (1.0 - q);
    let up = |k: usize| (n - k) as f64 * odds / (k + 1) as f64;
    let mode = (((n + 1) as f64 * q) as usize).min(n);
    let mut weights = vec![1.0; n + 1];
    for k in mode..n {
        weights[k + 1] = weights[k] * up(k);
    }
    for k in (0..mode).rev() {
        weights[k] = weights[k + 1] / up(k);
    }
    weights
}

/// Returns the speedup of a candidate over a baseline from the same rounds: the median of
/// `candidate[i] / baseline[i]`, with the interval of [`median_interval`] (at least 5 rounds for 90
/// % confidence).
///
/// This is not the ratio of medians. Anything that slows a round affects both of its runs and
/// cancels out in their ratio, whereas the two medians may come from different rounds.
///
/// The value is NaN if the slices are empty or differ in length, or if a baseline is 0.
pub fn paired_ratio(baseline: &[f64], candidate: &[f64], confidence: f64) -> Estimate {
    if baseline.len() != candidate.len() || baseline.contains(&0.0) {
        return unknown_of(baseline.len(), confidence);
    }
    let ratios: Vec<f64> = candidate.iter().zip(baseline).map(|(c, b)| c / b).collect();
    median_interval(&ratios, confidence)
}

/// Returns the median of an autocorrelated series (consecutive windows of one run) and an interval
/// for the median of the underlying process.
///
/// The bootstrap resamples the fraction of the series below the median rather than the median
/// itself, because a fraction is a mean and resamples well. Its interval is then mapped back
/// through the quantiles of the series (Woodruff, 1952). For how resampling works and its limits,
/// see [`block_bootstrap_ratio`].
///
/// The interval cannot extend beyond the extremes of the series. Even for independent samples, the
/// median is beyond the extremes of n samples with probability `2^(1-n)`. The interval is infinite
/// if this exceeds `1 - confidence`: with fewer than 5 samples for 90 % confidence, and fewer than
/// 6 for 95 %.
///
/// The value is NaN if the series is empty or contains a non-finite sample.
pub fn block_bootstrap_median(series: &[f64], confidence: f64, seed: u64) -> Estimate {
    let unknown = unknown_of(series.len(), confidence);
    if series.iter().any(|x| !x.is_finite()) || !(confidence > 0.0 && confidence < 1.0) {
        return unknown;
    }
    let Some(sorted) = sorted(series) else {
        return unknown;
    };
    let value = quantile_of_sorted(&sorted, 0.5);
    let below = |x: f64| match x.total_cmp(&value) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Greater => 0.0,
    };
    let cells = series.iter().map(|&x| Cell { above: below(x), under: 1.0 }).collect();
    let at = |share: f64| quantile_of_sorted(&sorted, share.clamp(0.0, 1.0));
    let is_beyond_extremes = 0.5_f64.powf(series.len() as f64 - 1.0);
    match resampled_interval(cells, confidence, seed) {
        _ if is_beyond_extremes > 1.0 - confidence => Estimate { value, ..unknown },
        Some((low, high)) => Estimate { value, low: at(low), high: at(high), ..unknown },
        None => Estimate { value, ..unknown },
    }
}

/// Returns the sum of `above` divided by the sum of `under` (for example, ticks over packets) for
/// the windows of one run, and an interval for that ratio in the underlying process.
///
/// To preserve the correlation between neighbours, windows are drawn with replacement in blocks
/// that wrap around at the end (circular block bootstrap; Politis and Romano, 1992). The block
/// length is derived from the series itself. The interval is the percentile interval, widened as
/// for Student's t because the number of blocks is finite. The same seed gives the same interval.
///
/// Coverage of a 95 % interval: for independent windows, 93 to 96 % at any length. With a
/// correlation of 0.8 between neighbours, it is 92 % or more from 200 windows upwards, about 90 %
/// with 60 to 100, and 80 % with 30 windows, which are too few to estimate the correlation length.
/// With fewer than 4 blocks the interval is infinite.
///
/// The computation takes at most a few milliseconds regardless of length: neighbouring windows are
/// first summed if there are more than 2048.
///
/// The value is NaN if the slices are empty, differ in length or contain a non-finite sample, or if
/// `under` sums to 0.
pub fn block_bootstrap_ratio(above: &[f64], under: &[f64], confidence: f64, seed: u64) -> Estimate {
    let ratio = above.iter().sum::<f64>() / under.iter().sum::<f64>();
    let unknown = unknown_of(above.len(), confidence);
    if above.len() != under.len() || !ratio.is_finite() || !(confidence > 0.0 && confidence < 1.0) {
        return unknown;
    }
    let cells = above.iter().zip(under).map(|(&above, &under)| Cell { above, under }).collect();
    match resampled_interval(cells, confidence, seed) {
        Some((low, high)) => Estimate { value: ratio, low, high, ..unknown },
        None => Estimate { value: ratio, ..unknown },
    }
}

/// Returns a statistic of the windows of one run and an interval for it. `statistic` receives the
/// indices of the windows to use: first all of them, then each resample. The block length is
/// derived from `series`, which holds each window's residual after subtracting the statistic. For
/// how resampling works and its limits, see [`block_bootstrap_ratio`].
///
/// The value is NaN if the statistic is NaN. The interval is infinite with fewer than 4 blocks, or
/// if the statistic of any resample is not finite.
pub fn block_bootstrap(
    series: &[f64],
    confidence: f64,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> f64,
) -> Estimate {
    let n = series.len();
    let mut chosen: Vec<usize> = (0..n).collect();
    let value = statistic(&chosen);
    let unknown = Estimate { value, ..unknown_of(n, confidence) };
    let is_confidence = confidence > 0.0 && confidence < 1.0;
    if !value.is_finite() || !is_confidence || series.iter().any(|x| !x.is_finite()) {
        return unknown;
    }
    let length = block_length(series).max(1);
    let blocks = n / length;
    if blocks < MIN_BLOCKS {
        return unknown;
    }
    let mut random = Random::new(seed);
    let resampled: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            chosen.clear();
            for _ in 0..blocks {
                let start = random.below(n);
                chosen.extend((start..start + length).map(|window| window % n));
            }
            statistic(&chosen)
        })
        .collect();
    let Some(resampled) = sorted(&resampled).filter(|all| all.iter().all(|x| x.is_finite())) else {
        return unknown;
    };
    let tail = (1.0 - confidence) / 2.0;
    let factor = student_factor(blocks, tail) * memory_factor(length, n);
    let at = |q| value + factor * (quantile_of_sorted(&resampled, q) - value);
    Estimate { low: at(tail), high: at(1.0 - tail), ..unknown }
}

/// An element of a series. The statistic of the series is the sum of `above` divided by the sum of
/// `under`.
#[derive(Clone, Copy, Default)]
struct Cell {
    above: f64,
    under: f64,
}

impl Cell {
    fn plus(self, other: Self) -> Self {
        Self { above: self.above + other.above, under: self.under + other.under }
    }

    fn minus(self, other: Self) -> Self {
        Self { above: self.above - other.above, under: self.under - other.under }
    }

    fn ratio(self) -> f64 {
        self.above / self.under
    }
}

/// Maximum number of cells to resample, which limits the cost to `RESAMPLES * MAX_CELLS` draws.
const MAX_CELLS: usize = 2048;
/// Number of resamples. The resulting 5 % and 95 % points are accurate to about 2 % of the width of
/// the resampled distribution.
const RESAMPLES: usize = 1000;
/// Minimum number of blocks needed to estimate the variation between blocks.
const MIN_BLOCKS: usize = 4;

/// Returns the interval for the ratio of sums over `cells`; `None` if there are too few blocks to
/// estimate their variation.
fn resampled_interval(cells: Vec<Cell>, confidence: f64, seed: u64) -> Option<(f64, f64)> {
    let total = |cells: &[Cell]| cells.iter().fold(Cell::default(), |a, &b| a.plus(b));
    let group = cells.len().div_ceil(MAX_CELLS).max(1);
    let cells: Vec<Cell> = cells.chunks(group).map(total).collect();
    let ratio = total(&cells).ratio();
    let residuals: Vec<f64> = cells.iter().map(|c| c.above - ratio * c.under).collect();
    let length = block_length(&residuals);
    let blocks = cells.len() / length;
    if blocks < MIN_BLOCKS {
        return None;
    }
    let resampled = sorted(&resample(&cells, length, blocks, seed))?;
    let tail = (1.0 - confidence) / 2.0;
    let factor = student_factor(blocks, tail) * memory_factor(length, cells.len());
    let at = |q| ratio + factor * (quantile_of_sorted(&resampled, q) - ratio);
    Some((at(tail), at(1.0 - tail)))
}

/// Returns [`RESAMPLES`] ratios of sums, each over `blocks` random blocks of `length` adjacent
/// cells.
fn resample(cells: &[Cell], length: usize, blocks: usize, seed: u64) -> Vec<f64> {
    // sums[i] is the sum of the first i cells. The first `length` cells are repeated at the end so
    // that blocks can wrap around.
    let round = cells.iter().chain(&cells[..length]);
    let mut sums = vec![Cell::default()];
    sums.extend(round.scan(Cell::default(), |sum, &cell| {
        *sum = sum.plus(cell);
        Some(*sum)
    }));
    let mut random = Random::new(seed);
    let mut draw = || {
        let start = random.below(cells.len());
        sums[start + length].minus(sums[start])
    };
    (0..RESAMPLES)
        .map(|_| (0..blocks).fold(Cell::default(), |sum, _| sum.plus(draw())).ratio())
        .collect()
}

/// Returns the factor by which an interval from `blocks` blocks must be wider than one from
/// infinitely many blocks. The spread is estimated with `blocks - 1` degrees of freedom, so for k
/// blocks the factor is `sqrt(k / (k-1)) * t / z`. Below 50 % confidence, where t and z are near 0,
/// the factor is that of 50 %.
fn student_factor(blocks: usize, tail: f64) -> f64 {
    let (blocks, freedom, tail) = (blocks as f64, (blocks - 1) as f64, tail.min(0.25));
    (blocks / freedom).sqrt() * student_quantile(freedom, tail) / normal_quantile(tail)
}

/// Returns the factor by which to widen an interval when the correlation length is not small
/// relative to the series: blocks of `length` out of `n` windows miss correlation across block
/// ends, and a short series does not show all of it. The constant 3 was chosen in simulations to
/// give 95 % coverage from 400 windows upwards. For 100 windows with a correlation of 0.8 between
/// neighbours, it raises coverage from 88 % to 92 %. Independent windows form blocks of 1 and are
/// unaffected.
fn memory_factor(length: usize, n: usize) -> f64 {
    1.0 + 3.0 * (length - 1) as f64 / n as f64
}

/// Computes the block length from the autocorrelation of the series, following Politis and White
/// (2004, corrected 2009) for the circular block bootstrap.
///
/// ```text
/// r(k)   autocorrelation of the residuals at lag k
/// m      the last lag before r stays insignificant for several lags
/// w(k)   1 up to m, then falling to 0 at 2 m
/// G = 2 sum w(k) k r(k)        g = 1 + 2 sum w(k) r(k)        k = 1 .. 2 m
/// length = (c n G^2 / g^2)^(1/3)
/// ```
///
/// Two constants differ from the paper's, which minimize the error of the variance but give
/// intervals that are too narrow. Here, r is insignificant below 1.5 standard errors (paper: 2),
/// and c is 4 (paper: 3/2). In a simulation of 400 windows with a correlation of 0.8 plus noise, 90
/// % intervals cover the true value in 81 % of cases with the paper's constants, and in 85 % with
/// these.
fn block_length(residuals: &[f64]) -> usize {
    let n = residuals.len();
    let longest = (n / MIN_BLOCKS).max(1);
    let covariance =
        |lag: usize| residuals.iter().zip(&residuals[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = covariance(0);
    if variance <= 0.0 || n < 2 {
        return 1;
    }
    let correlation = |lag: usize| covariance(lag) / variance;
    let memory = memory_of(n, correlation);
    let (mut first_moment, mut spectrum) = (0.0, 1.0);
    for lag in 1..=(2 * memory).min(n - 1) {
        let weight = (2.0 - lag as f64 / memory as f64).min(1.0);
        first_moment += 2.0 * weight * lag as f64 * correlation(lag);
        spectrum += 2.0 * weight * correlation(lag);
    }
    if first_moment <= 0.0 {
        return 1;
    }
    if spectrum <= 0.0 {
        return longest;
    }
    let length = (4.0 * n as f64 * (first_moment / spectrum).powi(2)).cbrt();
    (length.ceil() as usize).clamp(1, longest)
}

/// Returns the last lag with a significant correlation before several consecutive lags without one;
/// at most about the square root of `n`.
fn memory_of(n: usize, correlation: impl Fn(usize) -> f64) -> usize {
    let log = (n as f64).log10();
    let quiet = (log.sqrt().ceil() as usize).max(5);
    let significant = 1.5 * (log / n as f64).sqrt();
    let last = ((n as f64).sqrt().ceil() as usize + quiet).min(n - 1);
    let mut memory = 0;
    for lag in 1..=last {
        if correlation(lag).abs() >= significant {
            memory = lag;
        } else if lag - memory == quiet {
            break;
        }
    }
    memory
}

#[cfg(test)]
mod tests;
