// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits sample shares to load. Each half of the slices selects the functions to fit in the other
//! half.

use super::places::Group;
use super::{Load, Slice};

/// Share of samples as a linear function of load, fitted by least squares weighted by samples.
/// Errors follow from counting statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Share at zero load.
    pub intercept: f64,
    /// Standard error of the intercept.
    pub intercept_error: f64,
    /// Change in share per packet per second.
    pub slope: f64,
    /// Standard error of the slope.
    pub slope_error: f64,
    axis: Axis,
}

/// Statistics of the loads of selected slices, as needed to fit lines over load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Axis {
    /// Weighted sum of squared deviations from the mean load.
    squares: f64,
    /// Samples.
    pub weight: f64,
    /// Weighted mean load.
    pub mean: f64,
}

impl Axis {
    pub(super) fn new(loads: &[Load], chosen: &[usize]) -> Self {
        let of = || chosen.iter().map(|&slice| loads[slice]);
        let weight: f64 = of().map(|load| load.weight).sum();
        let mean = of().map(|load| load.weight * load.rate).sum::<f64>() / weight;
        let squares = of().map(|load| load.weight * (load.rate - mean).powi(2)).sum();
        Self { squares, weight, mean }
    }

    /// Returns the variance of a share, at least that of one sample, since even a share of 0 or 1
    /// is not known exactly.
    fn variance(&self, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        (share * (1.0 - share)).max(1.0 / self.weight)
    }
}

impl Line {
    /// Fits a line to `counts` over the slices `chosen`.
    pub(super) fn fit(loads: &[Load], counts: &[f64], chosen: &[usize]) -> Self {
        Self::on(Axis::new(loads, chosen), loads, counts, chosen)
    }

    /// Fits a line to `counts` over the slices `chosen`, whose load statistics are `axis`.
    pub(super) fn on(axis: Axis, loads: &[Load], counts: &[f64], chosen: &[usize]) -> Self {
        let Axis { squares, weight, mean } = axis;
        let (mut sum, mut product) = (0.0, 0.0);
        for &slice in chosen {
            sum += counts[slice];
            product += counts[slice] * (loads[slice].rate - mean);
        }
        let (share, slope) = (sum / weight, product / squares);
        let variance = axis.variance(share);
        Self {
            intercept: share - slope * mean,
            intercept_error: (variance * (1.0 / weight + mean * mean / squares)).sqrt(),
            slope,
            slope_error: (variance / squares).sqrt(),
            axis,
        }
    }

    pub(super) fn at(&self, rate: f64) -> f64 {
        self.intercept + self.slope * rate
    }

    /// Returns the standard error of `slope + cost * intercept`, the share added per packet per
    /// second by work at this cost.
    pub(super) fn error_of_work(&self, cost: f64) -> f64 {
        let Axis { squares, weight, mean } = self.axis;
        let by_slope = (1.0 - cost * mean).powi(2) / squares;
        (self.axis.variance(self.at(mean)) * (by_slope + cost * cost / weight)).sqrt()
    }

    /// Returns a lower bound on `-slope / intercept`, one standard error below it. With `r` as the
    /// ratio, the combined error of slope and intercept is that of `slope (1 - r mean) + r share`.
    fn least_ratio(&self) -> f64 {
        if self.intercept <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let ratio = -self.slope / self.intercept;
        ratio - self.error_of_work(ratio) / self.intercept
    }
}

/// How much shares deviate from a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bend {
    /// Size of a quadratic term on top of the line: twice its root mean square.
    pub size: f64,
    /// Standard error of the size.
    pub error: f64,
}

/// The two halves of the slices, each with the code blocks selected by the other half. Used to
/// decide whether there is a poll loop, and whether the thread had time to poll.
pub(super) struct Folds<'a> {
    loads: &'a [Load],
    /// Samples per slice in falling blocks, that is, in code blocks whose share falls with load.
    falling: Vec<f64>,
    /// Samples per slice in anchors, that is, in falling blocks that the work apparently never
    /// enters. In slices without samples in anchors, the thread had no time to poll.
    anchors: Vec<f64>,
    /// Samples per slice in falling blocks of kernel code.
    falling_kernel: Vec<f64>,
    /// Maximum load of the slices used for fitting.
    limit: f64,
}

/// Minimum number of anchor samples expected from pure polling; fewer are inconclusive.
const MIN_DUE: f64 = 100.0;
/// Fraction of expected anchor samples below which the thread did not poll.
const NO_POLLING: f64 = 0.03;
/// Number of neighbouring slices kept in the same half, so that correlated noise does not reach the
/// other half.
const NEIGHBOURS: usize = 2;

fn half_of(slice: usize) -> usize {
    slice / NEIGHBOURS % 2
}

impl<'a> Folds<'a> {
    pub(super) fn new(loads: &'a [Load], slices: &[&Slice], groups: &[Group]) -> Self {
        let n = slices.len();
        let empty = || vec![0.0; n];
        let mut folds = Self {
            loads,
            falling: empty(),
            anchors: empty(),
            falling_kernel: empty(),
            limit: f64::INFINITY,
        };
        for half in 0..2 {
            let (these, others): (Vec<usize>, Vec<usize>) =
                (0..n).partition(|&slice| half_of(slice) == half);
            let (falling, anchors) = choose(loads, groups, &others);
            for slice in these {
                let sum = |chosen: &[usize]| -> f64 {
                    chosen.iter().map(|&group| groups[group].counts[slice]).sum()
                };
                let kernel: Vec<usize> =
                    falling.iter().copied().filter(|&group| groups[group].is_kernel).collect();
                folds.falling[slice] = sum(&falling);
                folds.falling_kernel[slice] = sum(&kernel);
                folds.anchors[slice] = sum(&anchors);
            }
        }
        folds
    }

    /// Fits `counts` in both halves of `chosen`.
    fn lines(&self, counts: &[f64], chosen: &[usize]) -> [Line; 2] {
        let within = self.within(chosen);
        [0, 1].map(|half| {
            let of_half: Vec<usize> =
                within.iter().copied().filter(|&slice| half_of(slice) == half).collect();
            Line::fit(self.loads, counts, &of_half)
        })
    }

    /// Restricts fitting to the lower half of the loads. If the dependence bends above them, only
    /// the lower loads predict the share at zero load.
    pub(super) fn below_the_median(mut self) -> Self {
        let mut rates: Vec<f64> = self.loads.iter().map(|load| load.rate).collect();
        rates.sort_by(f64::total_cmp);
        self.limit = rates[rates.len() / 2];
        self
    }

    /// Returns the load from which the thread had no time left to poll, that is, the lowest load
    /// for which anchors have next to no samples in slices at or above it. Infinite if the thread
    /// always had time.
    pub(super) fn saturated_from(&self) -> f64 {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by(|&a, &b| self.loads[b].rate.total_cmp(&self.loads[a].rate));
        let (mut weight, mut hits, mut from) = (0.0, 0.0, f64::INFINITY);
        let without = self.share_of_anchors();
        for slice in order {
            weight += self.loads[slice].weight;
            hits += self.anchors[slice];
            if weight * without >= MIN_DUE && hits < NO_POLLING * weight * without {
                from = self.loads[slice].rate;
            }
        }
        from
    }

    /// Returns the busy share of slices at or above this load.
    pub(super) fn busy_from(&self, rate: f64) -> f64 {
        let is_above = |&slice: &usize| self.loads[slice].rate >= rate;
        let above: Vec<usize> = (0..self.loads.len()).filter(is_above).collect();
        let weight: f64 = above.iter().map(|&slice| self.loads[slice].weight).sum();
        let hits: f64 = above.iter().map(|&slice| self.anchors[slice]).sum();
        let due = (weight * self.share_of_anchors()).max(f64::MIN_POSITIVE);
        (1.0 - hits / due).clamp(0.0, 1.0)
    }

    /// Returns the anchors' share of the samples at zero load.
    fn share_of_anchors(&self) -> f64 {
        let all: Vec<usize> = (0..self.loads.len()).collect();
        let [a, b] = self.lines(&self.anchors, &all);
        ((a.intercept + b.intercept) / 2.0).clamp(0.0, 1.0)
    }

    /// Returns the maximum load of the slices used for fitting.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// Returns which slices of `chosen` are used for fitting.
    fn within(&self, chosen: &[usize]) -> Vec<usize> {
        chosen.iter().copied().filter(|&slice| self.loads[slice].rate <= self.limit).collect()
    }

    /// Returns the fitted share of `counts` at zero load, and their mean share over all of
    /// `chosen`. Both are averaged over the two halves.
    fn without_and_with(&self, counts: &[f64], chosen: &[usize]) -> (f64, f64) {
        let lines = self.lines(counts, chosen);
        let (mut without, mut with) = (0.0, 0.0);
        for (half, line) in lines.iter().enumerate() {
            let of_half = || chosen.iter().filter(move |&&slice| half_of(slice) == half);
            let weight: f64 = of_half().map(|&slice| self.loads[slice].weight).sum();
            without += line.intercept / 2.0;
            with += of_half().map(|&slice| counts[slice]).sum::<f64>() / weight / 2.0;
        }
        (without, with)
    }

    /// Returns the mean load of `chosen`, averaged over both halves.
    fn mean_rate(&self, chosen: &[usize]) -> f64 {
        let of_half = |half| {
            let of_half = || chosen.iter().filter(move |&&slice| half_of(slice) == half);
            let packets = |&slice: &usize| self.loads[slice].weight * self.loads[slice].rate;
            let weight: f64 = of_half().map(|&slice| self.loads[slice].weight).sum();
            of_half().map(packets).sum::<f64>() / weight
        };
        (of_half(0) + of_half(1)) / 2.0
    }

    /// Returns the summed cost: the decrease in the share of falling code blocks, in seconds per
    /// packet.
    pub(super) fn summed(&self, chosen: &[usize]) -> f64 {
        let (without, with) = self.without_and_with(&self.falling, chosen);
        (without - with) / self.mean_rate(chosen)
    }

    /// Returns the share of falling code blocks as a line over load, averaged over both halves.
    pub(super) fn falling_share(&self, chosen: &[usize]) -> Line {
        let [a, b] = self.lines(&self.falling, chosen);
        Line {
            intercept: (a.intercept + b.intercept) / 2.0,
            intercept_error: a.intercept_error.hypot(b.intercept_error) / 2.0,
            ..a
        }
    }

    /// Returns, for each slice, the samples in falling code blocks minus the number that the fitted
    /// line predicts.
    pub(super) fn residuals(&self, chosen: &[usize]) -> Vec<f64> {
        let lines = self.lines(&self.falling, chosen);
        let residual = |&slice: &usize| {
            let load = self.loads[slice];
            self.falling[slice] - load.weight * lines[half_of(slice)].at(load.rate)
        };
        chosen.iter().map(residual).collect()
    }

    /// Fits the residuals by least squares with the component of a parabola that is orthogonal to
    /// all lines: `q = z^2 - m2 - z m3/m2`, where `z` is the centred load and the `m` are its
    /// moments.
    pub(super) fn bend(&self, chosen: &[usize]) -> Bend {
        let chosen = &self.within(chosen)[..];
        let residuals = self.residuals(chosen);
        let weight: f64 = chosen.iter().map(|&slice| self.loads[slice].weight).sum();
        let moment = |about: f64, power: i32| {
            let term = |&slice: &usize| {
                self.loads[slice].weight * (self.loads[slice].rate - about).powi(power)
            };
            chosen.iter().map(term).sum::<f64>() / weight
        };
        let mean = moment(0.0, 1);
        let (m2, m3) = (moment(mean, 2), moment(mean, 3));
        let parabola = |slice: usize| {
            let z = self.loads[slice].rate - mean;
            z * z - m2 - z * m3 / m2
        };
        let square = |&slice: &usize| self.loads[slice].weight * parabola(slice).powi(2);
        let squares: f64 = chosen.iter().map(square).sum();
        let product: f64 = chosen.iter().zip(&residuals).map(|(&s, r)| r * parabola(s)).sum();
        let share = chosen.iter().map(|&slice| self.falling[slice]).sum::<f64>() / weight;
        if squares <= 0.0 {
            return Bend { size: 0.0, error: 0.0 };
        }
        let scale = 2.0 * (squares / weight).sqrt();
        Bend {
            size: (product / squares).abs() * scale,
            error: (share * (1.0 - share).max(0.0) / squares).sqrt() * scale,
        }
    }

    /// Returns the fraction of the poll loop that is in the kernel.
    pub(super) fn kernel_share(&self, chosen: &[usize]) -> f64 {
        let at_no_load = |counts: &[f64]| {
            let [a, b] = self.lines(counts, chosen);
            a.intercept + b.intercept
        };
        (at_no_load(&self.falling_kernel) / at_no_load(&self.falling)).clamp(0.0, 1.0)
    }
}

/// Selects the groups whose share falls with load in the slices `over`, and the anchors among them.
/// Anchors are taken in descending order of the lower bounds of their ratios, as many as maximize
/// the lower bound of the pooled ratio. Adding a group that work also enters lowers the ratio;
/// adding one that work never enters reduces the error.
fn choose(loads: &[Load], groups: &[Group], over: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let axis = Axis::new(loads, over);
    let mut falling: Vec<(usize, f64)> = groups
        .iter()
        .map(|group| Line::on(axis, loads, &group.counts, over))
        .enumerate()
        .filter(|(_, line)| line.slope < 0.0)
        .map(|(group, line)| (group, line.least_ratio()))
        .collect();
    falling.sort_by(|a, b| b.1.total_cmp(&a.1));
    let order: Vec<usize> = falling.into_iter().map(|(group, _)| group).collect();
    let mut pooled = vec![0.0; loads.len()];
    let (mut best, mut anchors) = (f64::NEG_INFINITY, 0);
    for (taken, &group) in order.iter().enumerate() {
        pooled.iter_mut().zip(&groups[group].counts).for_each(|(sum, count)| *sum += count);
        let bound = Line::on(axis, loads, &pooled, over).least_ratio();
        if bound > best {
            (best, anchors) = (bound, taken + 1);
        }
    }
    let anchors = order[..anchors].to_vec();
    (order, anchors)
}
