// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models a curve as a sum of climbs: predicts the latency at every size, and rates the fit.
//!
//! A load costs the time of the first level, plus the time to the next level for each cache miss:
//! `T(s) = t + sum over k of d_k * f_1(s) * ... * f_k(s)`, where `f_k` is the fraction of the loads
//! arriving at cache `k` that miss there ([`Shape`](super::shape::Shape)). Given the positions and
//! shapes of the climbs, the model is linear in the times, so these are computed by least squares
//! instead of being searched for.

use super::points::Points;
use super::shape::shapes;

/// Position and shape of a cache, as chosen by the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Natural logarithm of the cache's capacity in bytes.
    pub(crate) at: f64,
    /// Index into [`shapes`].
    pub(crate) shape: usize,
    /// Whether the cache is a victim cache of the previous one, so that their capacities add up.
    pub(crate) victim: bool,
    /// Variance of the miss ratio of a single pass when sets are filled at random, divided by
    /// `m (1 - m)` for a miss ratio of `m`: at 1/2, the variance is a quarter of this value.
    /// Roughly the reciprocal of the number of page colours.
    pub(crate) chance: f64,
}

impl Step {
    /// Returns the natural logarithm of the size in bytes at which half of the arriving loads miss.
    pub(crate) fn half(&self) -> f64 {
        self.at + shapes()[self.shape].half
    }
}

/// A model fitted to a latency curve: steps, and the times between them.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    /// Steps, nearest first.
    pub(crate) steps: Vec<Step>,
    /// Latency of the first level, and the time added by each step.
    pub(crate) times: Vec<f64>,
    /// Residual; see [`Bench::judge`].
    pub(crate) loss: f64,
}

impl Fit {
    /// Returns the latency of each level: the cumulative sums of the fitted times.
    pub(crate) fn times(&self) -> Vec<f64> {
        let sum = |sum: &mut f64, time: &f64| {
            *sum += time;
            Some(*sum)
        };
        self.times.iter().scan(0.0, sum).collect()
    }
}

/// Returns the Cauchy loss of a residual in standard deviations: quadratic for small residuals and
/// logarithmic for large ones, because interference can add any amount of time. Times are rarely
/// too short, so negative residuals weigh more.
pub(crate) fn loss(residual: f64) -> f64 {
    let scale = patience(residual);
    scale * scale * (1.0 + (residual / scale).powi(2)).ln()
}

fn weight(residual: f64) -> f64 {
    1.0 / (1.0 + (residual / patience(residual)).powi(2))
}

fn patience(residual: f64) -> f64 {
    if residual > 0.0 { 3.0 } else { 6.0 }
}

/// Maximum number of steps to fit: one more than the four caches that a machine may have.
pub(crate) const MOST: usize = 5;

/// Buffers for fitting, reused so that a thousand fits need only one allocation.
pub(crate) struct Bench<'a> {
    pub(crate) points: &'a Points,
    /// Concatenated columns, one per cache: for each size, the fraction of loads that miss this
    /// cache and all nearer ones.
    columns: Vec<f64>,
    /// Weight of each time: inverse variance, reduced for outliers.
    weights: Vec<f64>,
    /// Variance of each measured time.
    variance: Vec<f64>,
    pub(crate) times: [f64; MOST + 1],
}

impl<'a> Bench<'a> {
    pub(crate) fn new(points: &'a Points) -> Bench<'a> {
        Bench {
            points,
            columns: vec![1.0; points.len() * (MOST + 1)],
            weights: vec![0.0; points.len()],
            variance: vec![0.0; points.len()],
            times: [0.0; MOST + 1],
        }
    }

    /// Resets the variances to the measurement noise, and derives the weights from them.
    fn trust_all(&mut self) {
        for i in 0..self.points.len() {
            self.variance[i] = self.points.sd[i].powi(2);
            self.weights[i] = 1.0 / self.variance[i];
        }
    }

    /// Sets the variances to the noise plus the variation caused by the placed steps, and derives
    /// the weights from these variances and the residuals.
    fn doubt(&mut self, steps: &[Step]) {
        for i in 0..self.points.len() {
            let noise = self.points.sd[i].powi(2);
            self.variance[i] = noise + self.chance(i, steps) / self.points.passes[i];
            self.weights[i] = weight(self.residual(i, steps.len())) / self.variance[i];
        }
    }

    /// Returns the variance that random page placement adds to the time of a single pass at size
    /// `i`.
    pub(crate) fn chance(&self, i: usize, steps: &[Step]) -> f64 {
        let n = self.points.len();
        let one = |(k, step): (usize, &Step)| {
            let missed = self.columns[(k + 1) * n + i];
            step.chance * self.times[k + 1].powi(2) * missed * (1.0 - missed)
        };
        steps.iter().enumerate().map(one).sum()
    }

    fn residual(&self, i: usize, steps: usize) -> f64 {
        (self.points.time[i] - self.predicted(i, steps)) / self.variance[i].sqrt()
    }

    /// Computes the columns of `steps`, starting at `first`, the first step that has changed.
    pub(crate) fn place(&mut self, steps: &[Step], first: usize) {
        let n = self.points.len();
        for (k, step) in steps.iter().enumerate().skip(first) {
            let shape = &shapes()[step.shape];
            let (before, from) = self.columns.split_at_mut((k + 1) * n);
            let before = &before[k * n..];
            let kept = steps[..k].last().map_or(0.0, |last| last.at.exp());
            let own = (step.at.exp() - kept).max(1.0).ln();
            for i in 0..n {
                let ratio = if step.victim {
                    (self.points.bytes[i] - kept).max(1e-9).ln() - own
                } else {
                    self.points.ln_bytes[i] - step.at
                };
                from[i] = before[i] * shape.missed(ratio);
            }
        }
    }

    /// Predicts the time at size `i` from the solved times.
    pub(crate) fn predicted(&self, i: usize, steps: usize) -> f64 {
        let n = self.points.len();
        (0..=steps).map(|k| self.times[k] * self.columns[k * n + i]).sum()
    }

    /// Returns the fraction of the time at size `i` spent on loads not served by this level.
    pub(crate) fn foreign(&self, i: usize, level: usize, steps: usize) -> f64 {
        let n = self.points.len();
        let time: f64 = self.times[..=level].iter().sum();
        let arriving = self.columns[level * n + i];
        let missed = if level < steps { self.columns[(level + 1) * n + i] } else { 0.0 };
        let own = (arriving - missed) * time / self.predicted(i, steps).max(1e-300);
        // Loads served by nearer levels are not part of the plateau, however little time they take.
        (1.0 - own).max(1.0 - arriving)
    }

    /// Computes the times for positioned steps and returns the residual. It includes the logs of
    /// the variances, which penalizes larger variances and makes the difference between two
    /// residuals twice the log-likelihood ratio.
    pub(crate) fn judge(&mut self, steps: &[Step]) -> f64 {
        self.trust_all();
        self.solve(steps.len());
        for _ in 0..2 {
            self.doubt(steps);
            self.solve(steps.len());
        }
        let one = |i: usize| {
            let widened = self.variance[i] / self.points.sd[i].powi(2);
            loss(self.residual(i, steps.len())) + widened.ln()
        };
        (0..self.points.len()).map(one).sum()
    }

    fn solve(&mut self, steps: usize) {
        let mut active = [true; MOST + 1];
        loop {
            self.times = self.least_squares(steps, &active);
            // A step cannot make loads faster, so steps with negative times are removed.
            let negative = (1..=steps).filter(|&k| active[k] && self.times[k] < 0.0);
            let Some(worst) = negative.min_by(|a, b| self.times[*a].total_cmp(&self.times[*b]))
            else {
                break;
            };
            active[worst] = false;
        }
    }

    /// Solves weighted least squares through the normal equations, by elimination. There are few
    /// columns, with values from 0 to 1, so doubles are precise enough. A nearly dependent column
    /// gets time 0.
    fn least_squares(&self, steps: usize, active: &[bool; MOST + 1]) -> [f64; MOST + 1] {
        let n = self.points.len();
        let mut rows = [[0.0; MOST + 2]; MOST + 1];
        let column = |j: usize| &self.columns[j * n..(j + 1) * n];
        for (j, row) in rows.iter_mut().enumerate().take(steps + 1) {
            let weighted: Vec<f64> =
                column(j).iter().zip(&self.weights).map(|(a, weight)| a * weight).collect();
            let product = |b: &[f64]| weighted.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            // The matrix is symmetric; elimination reads only the upper triangle.
            for (k, cell) in row.iter_mut().enumerate().take(steps + 1).skip(j) {
                *cell = product(column(k));
            }
            row[MOST + 1] = product(&self.points.time);
        }
        eliminate(&mut rows, steps + 1, active)
    }
}

fn eliminate(
    rows: &mut [[f64; MOST + 2]; MOST + 1],
    n: usize,
    active: &[bool; MOST + 1],
) -> [f64; MOST + 1] {
    let mut pivots = [false; MOST + 1];
    for k in 0..n {
        let own = rows[k];
        pivots[k] = active[k] && own[k] > 0.0;
        if !pivots[k] {
            continue;
        }
        for (j, row) in rows.iter_mut().enumerate().take(n).skip(k + 1) {
            let factor = own[j] / own[k];
            let diagonal = row[j];
            for (to, from) in row.iter_mut().zip(own).skip(j) {
                *to -= factor * from;
            }
            if row[j] < 1e-9 * diagonal {
                row[j] = 0.0;
            }
        }
    }
    let mut times = [0.0; MOST + 1];
    for k in (0..n).rev() {
        if pivots[k] {
            let known: f64 = (k + 1..n).map(|j| rows[k][j] * times[j]).sum();
            times[k] = (rows[k][MOST + 1] - known) / rows[k][k];
        }
    }
    times
}
