// SPDX-License-Identifier: MIT OR Apache-2.0
//! Robust statistics: medians, quantiles, and intervals that have the coverage they claim.
//!
//! Choosing a method:
//!
//! | samples | estimate |
//! |---|---|
//! | independent (latencies of sampled packets) | [`quantile_interval`], [`median_interval`] |
//! | rounds in which a baseline and a candidate ran side by side | [`paired_ratio`] |
//! | consecutive windows of one run, which resemble their neighbours | [`block_bootstrap_median`] |
//! | the same, as a cost per packet: all ticks over all packets | [`block_bootstrap_ratio`] |
//! | the same, and any other statistic of them: a slope | [`block_bootstrap`] |
//! | samples of a profile, counted in consecutive windows | [`share_interval`] |
//!
//! Independent samples need no bootstrap: order statistics give a closed-form interval that holds
//! for every distribution and every sample size. Neighbouring windows are not independent, so they
//! are resampled in blocks.
//!
//! There are no means and standard deviations: a single preempted window can shift them arbitrarily
//! far.

pub mod coverage;
mod shares;

pub use shares::share_interval;

use crate::random::Random;

/// Confidence of every interval that linerate reports: the share of repetitions in which the
/// interval contains the true value. Where an interval has a different confidence, its
/// documentation says why.
pub const CONFIDENCE: f64 = 0.95;

/// Quantile of the standard normal distribution for [`CONFIDENCE`].
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
    /// Share of repetitions in which the interval is meant to contain the true value, 0 to 1.
    pub confidence: f64,
    /// Number of samples from which the estimate was computed.
    pub n: u64,
}

mod algebra;

/// Returns the `q` quantile of `samples`, for `q` from 0 to 1: linear between order statistics,
/// with the smallest sample at 0 and the largest at 1 (definition 7 of Hyndman and Fan, 1996).
/// `None` if there are no samples, one of them is NaN, or `q` is out of range.
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

/// Returns the `q` quantile of samples that are sorted in ascending order. `sorted` must not be
/// empty, and `q` must be from 0 to 1.
fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    let share = position - below as f64;
    let (below, above) = (sorted[below], sorted[above]);
    // Not `below + share * (above - below)`: if both samples are infinite and equal, that gives NaN
    // instead of the sample. Between equal samples, the rounded sum may differ from them.
    if share == 0.0 || below == above { below } else { below * (1.0 - share) + above * share }
}

/// Returns the median of independent samples and an interval for the median of their distribution.
/// This is [`quantile_interval`] at one half: 90 % confidence requires at least 5 samples, 95 % 6,
/// 99 % 8.
pub fn median_interval(samples: &[f64], confidence: f64) -> Estimate {
    quantile_interval(samples, 0.5, confidence)
}

/// Returns the `q` quantile of independent samples and an interval for the quantile of their
/// distribution.
///
/// The number `N` of samples below the true quantile follows the binomial distribution (`n`, `q`),
/// whatever the distribution of the samples. The `l`-th smallest sample is therefore above the true
/// quantile with probability `P(N < l)`, and the `u`-th smallest is below it with probability
/// `P(N >= u)`. The interval takes the largest `l` and the smallest `u` for which each of these
/// probabilities is at most `(1 - confidence) / 2`. It therefore contains the true value in at
/// least `confidence` of all repetitions, at any `n` and for any distribution. If no sample is far
/// enough out on one side, that end is infinite.
///
/// The value is NaN if there are no samples, one of them is NaN, or `q` or `confidence` is not
/// between 0 and 1.
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

/// Returns the estimate for samples that do not determine a value: NaN, with an infinite interval.
fn unknown_of(samples: usize, confidence: f64) -> Estimate {
    Estimate { confidence, ..Estimate::of_ends(f64::NAN, None, None, samples as u64) }
}

/// Returns the ranks (from 0) of the order statistics that bound the `q` quantile of `n` samples,
/// each with a probability of at most `tail` that the quantile is beyond it.
fn binomial_ranks(n: usize, q: f64, tail: f64) -> (Option<usize>, Option<usize>) {
    let weights = binomial_weights(n, q);
    let tail = tail * weights.iter().sum::<f64>();
    // Counts the ranks whose cumulative weight stays within the tail: the sample of rank r (from 0)
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

/// Returns weights proportional to the binomial probabilities of 0 to `n`: 1 at the mode, and from
/// there outwards by the ratio of neighbours, `p(k+1) / p(k) = (n-k) q / ((k+1) (1-q))`, so that
/// nothing overflows and anything that underflows is negligible.
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

/// Returns the speedup of a candidate over a baseline that ran in the same rounds: the median over
/// rounds of `candidate[i] / baseline[i]`, with the interval of [`median_interval`] (90 % requires
/// at least 5 rounds).
///
/// The result is not the ratio of the two medians: anything that slows a round slows both of its
/// runs and leaves their ratio unchanged, whereas the two medians may come from different rounds.
///
/// The value is NaN if the slices differ in length or are empty, or if a baseline is 0.
pub fn paired_ratio(baseline: &[f64], candidate: &[f64], confidence: f64) -> Estimate {
    if baseline.len() != candidate.len() || baseline.contains(&0.0) {
        return unknown_of(baseline.len(), confidence);
    }
    let ratios: Vec<f64> = candidate.iter().zip(baseline).map(|(c, b)| c / b).collect();
    median_interval(&ratios, confidence)
}

/// Returns the median of an autocorrelated series (consecutive windows of one run), and an interval
/// for the median of the underlying process.
///
/// The bootstrap resamples the share of the series below the median, not the median itself: a share
/// is a mean and therefore well behaved under resampling. The interval of that share is mapped back
/// through the quantiles of the series (Woodruff, 1952). Resampling and its limits are as for
/// [`block_bootstrap_ratio`].
///
/// The value is NaN if there are no samples or one of them is not finite.
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
    match resampled_interval(cells, confidence, seed) {
        Some((low, high)) => Estimate { value, low: at(low), high: at(high), ..unknown },
        None => Estimate { value, ..unknown },
    }
}

/// Returns the sum of `above` over the sum of `under` (ticks over packets, say) for the windows of
/// one run, and an interval for that ratio in the underlying process.
///
/// Windows are drawn with replacement in blocks of neighbours, wrapping around at the end (circular
/// block bootstrap: Politis and Romano, 1992), so that correlation between neighbours is preserved.
/// The block length is derived from the series itself. The interval is the percentile interval,
/// widened for a finite number of blocks in the manner of Student's t. The same seed gives the same
/// interval.
///
/// Coverage of a 95 % interval: for independent windows, 93 to 96 % at any length. With a
/// correlation of 0.8 between neighbours, it is 92 % or more from 200 windows upwards, about 90 %
/// with 60 to 100, and 80 % with 30, which are too few to estimate the correlation length. With
/// fewer than 4 blocks the interval is infinite.
///
/// The computation takes a few milliseconds at most, however long the series is: above 2048
/// windows, neighbouring windows are first added up.
///
/// The value is NaN if there are no samples, the slices differ in length, a sample is not finite,
/// or `under` adds up to 0.
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

/// Returns a statistic of the windows of one run, and an interval for it. `statistic` receives the
/// indices of the windows to use, first all of them, then each resample. Resampling and its limits
/// are as for [`block_bootstrap_ratio`]; the block length is derived from `series`, one value per
/// window: the window's residual after the statistic is subtracted.
///
/// The value is NaN if the statistic is NaN; the interval is infinite with fewer than 4 blocks, or
/// if the statistic of a resample is not finite.
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

/// One element of a series whose statistic is the sum of `above` over the sum of `under`.
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

/// Maximum number of cells that are resampled. It limits the cost to `RESAMPLES * MAX_CELLS` draws.
const MAX_CELLS: usize = 2048;
/// Number of resamples. With this number, the 5 % and 95 % points of the resampled statistic have
/// an error of about 2 % of its width.
const RESAMPLES: usize = 1000;
/// Minimum number of blocks: with fewer, the variation between blocks cannot be estimated.
const MIN_BLOCKS: usize = 4;

/// Returns the interval of the ratio of sums over `cells`; `None` if there are too few blocks to
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

/// Returns [`RESAMPLES`] ratios of sums, each over `blocks` random blocks of `length` neighbouring
/// cells.
fn resample(cells: &[Cell], length: usize, blocks: usize, seed: u64) -> Vec<f64> {
    // sums[i] is the sum over the first i cells; the first `length` cells are repeated at the end,
    // so that a block can wrap around.
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

/// Returns the ratio of the width of an interval from `blocks` blocks to the width of an interval
/// from infinitely many blocks. The spread is estimated with `blocks - 1` degrees of freedom, so
/// the ratio is `sqrt(k / (k-1)) * t / z` for k blocks, with the first term of the expansion of t
/// about z (Abramowitz and Stegun, 26.7.5).
fn student_factor(blocks: usize, tail: f64) -> f64 {
    let (blocks, freedom) = (blocks as f64, (blocks - 1) as f64);
    let z = normal_quantile(tail);
    (blocks / freedom).sqrt() * (1.0 + (z * z + 1.0) / (4.0 * freedom))
}

/// Returns the widening factor for a correlation length that is long compared with the series:
/// blocks of `length` out of `n` neighbours miss the correlation across their ends, and a short
/// series does not show all of it. The 3 was chosen for a coverage of 95 % in simulation from 400
/// windows upwards; for 100 windows with a correlation of 0.8 between neighbours, coverage is 88 %
/// without it and 92 % with it. Independent windows form blocks of 1 and are not affected.
fn memory_factor(length: usize, n: usize) -> f64 {
    1.0 + 3.0 * (length - 1) as f64 / n as f64
}

/// Returns the point that a standard normal variable exceeds with probability `tail`, 0 to 0.5, to
/// within 0.003 (Abramowitz and Stegun, 26.2.22).
fn normal_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t)
}

/// Derives the block length from the autocorrelation of the series, by the rule of Politis and
/// White (2004) with its correction (2009) for the circular block bootstrap.
///
/// ```text
/// r(k)   correlation of the residuals with themselves k later
/// m      the last lag before r stays insignificant for several lags
/// w(k)   1 up to m, then falling to 0 at 2 m
/// G = 2 sum w(k) k r(k)        g = 1 + 2 sum w(k) r(k)        k = 1 .. 2 m
/// length = (c n G^2 / g^2)^(1/3)
/// ```
///
/// Two constants differ from those of the paper, which minimize the error of the variance and leave
/// the interval too narrow: r is insignificant below 1.5 standard errors (paper: 2), and c is 4
/// (paper: 3/2). With the paper's constants, 81 % of the 90 % intervals from 400 windows with a
/// correlation of 0.8 under noise cover the true value; with these constants, 85 % do.
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

/// Returns the last lag with a significant correlation before `quiet` lags in a row without one; at
/// most about the square root of `n`.
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
