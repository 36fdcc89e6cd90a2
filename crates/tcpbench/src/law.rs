// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Mathis equation for TCP throughput under loss, as an end-to-end check.
//!
//! A sender that halves its window at each loss and otherwise grows it by one segment per round
//! trip achieves a throughput of `C * MSS / (RTT * sqrt(p))` at loss rate `p` (Mathis, Semke,
//! Mahdavi, Ott: "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997). The
//! constant depends on how often the receiver acknowledges; the exponents do not. Correct exponents
//! therefore show that stack, wire and virtual clock work as they should.
//!
//! ```text
//! for each loss rate, segment size and round-trip time, one varied at a time, for several seeds:
//!     send until the wire has lost a few segments, so that slow start is over
//!     send a fixed number of segments; rate = bytes / virtual time
//! fit log(rate) = c + a log(loss) + b log(segment) + d log(round trip) by least squares
//! ```
//!
//! Only segments with payload are lost, as the equation assumes, and few enough that a sender
//! rarely waits for its retransmission timer. With more than about 3 losses in 1000 it often does,
//! and the equation no longer holds.

use crate::endpoint::{Congestion, Micros, Stack};
use crate::error::Error;
use crate::pattern::Pattern;
use crate::routines::{SELECTED, Set};
use crate::session::{Session, Setup};
use crate::stream::Stream;
use crate::wire::Impairments;
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE, median_interval};
use linerate_record::tcp::{TcpLaw, TcpLawPoint};
use linerate_record::{Figure, Tier};
use linerate_trial::Watch;
use std::rc::Rc;

/// Parameters of one measurement: loss rate, segment size in bytes, RTT in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    loss: f64,
    segment: usize,
    round_trip: Micros,
}

/// The central point. All other points differ from it in one parameter.
const MIDDLE: Point = Point { loss: 1e-3, segment: 1460, round_trip: 40_000 };
const LOSSES: [f64; 4] = [3e-4, 5.5e-4, 1.7e-3, 3e-3];
const SEGMENTS: [usize; 3] = [536, 4000, 8000];
const ROUND_TRIPS: [Micros; 3] = [20_000, 80_000, 160_000];

/// Delayed ACK timeout in microseconds; smoltcp's default.
const ACK_DELAY: Micros = 10_000;

/// Link rate in bytes per microsecond: 10 Gb/s, far above the throughput at any point.
const LINK: f64 = 1250.0;

/// Buffer size in bytes, larger than the window ever gets.
const BUFFER: usize = 4 << 20;

/// Number of segments that the wire must have lost before measuring begins.
const SETTLED: u64 = 10;

const METHOD: &str = "exponents: log-log least squares over all points and seeds; constant: \
                      median, with the equation's exponents; rates measured in virtual time";
const METHOD_POINT: &str = "median of bytes per unit of virtual time";
const STOPPED: &str = "stopped before all points were measured";

/// How much to measure per point.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of segments delivered in a run.
    pub segments: u64,
    /// Number of runs per point, each with a different seed.
    pub seeds: u64,
}

impl Effort {
    /// The amount of work that `linerate tcp --law` does.
    pub const FULL: Self = Self { segments: 400_000, seeds: 4 };
}

/// Measures a stack at every point and fits the Mathis equation.
///
/// # Errors
/// Returns an error if a session fails.
pub fn law(
    stack: &dyn Stack,
    effort: Effort,
    seed: u64,
    watch: &Watch<'_>,
) -> Result<TcpLaw, Error> {
    let points = points();
    let all = points.len() as f64 * effort.seeds as f64;
    let (mut observed, mut rows) = (Vec::new(), Vec::new());
    for point in &points {
        let mut rates = Vec::new();
        for run in 0..effort.seeds {
            if watch.is_stopped() {
                break;
            }
            watch.progress("throughput under loss", observed.len() as f64 / all);
            let seed = seed.wrapping_add(run * 1000 + rows.len() as u64);
            let rate = bytes_per_second(stack, *point, effort.segments, seed)?;
            observed.push((*point, rate));
            rates.push(rate * 8.0 / 1e6);
        }
        let rate = (!rates.is_empty()).then(|| median_interval(&rates, CONFIDENCE));
        rows.push(TcpLawPoint {
            loss: point.loss,
            segment_bytes: point.segment as u64,
            round_trip_ms: point.round_trip as f64 / 1e3,
            mbps: measured("Mb/s", rate, METHOD_POINT),
        });
    }
    let is_whole = observed.len() as f64 == all;
    let [loss, segment, round_trip, constant] = fitted(is_whole, &observed);
    Ok(TcpLaw {
        stack: stack.name().to_owned(),
        ack_delay_ms: ACK_DELAY as f64 / 1e3,
        segments_per_run: effort.segments,
        runs_per_point: effort.seeds,
        points: rows,
        exponent_loss: loss,
        exponent_segment: segment,
        exponent_round_trip: round_trip,
        constant,
    })
}

/// Returns the estimate as a figure, or an absent figure if the experiment was stopped before all
/// points were measured.
fn measured(unit: &str, estimate: Option<Estimate>, method: &str) -> Figure {
    match estimate {
        Some(estimate) => Figure::number(unit, estimate, Tier::Sw, method),
        None => Figure::absent(unit, Tier::Sw, method, STOPPED),
    }
}

/// Returns the exponents of loss, segment size and RTT, and the constant. All four are absent
/// unless every point was measured.
fn fitted(is_whole: bool, observed: &[(Point, f64)]) -> [Figure; 4] {
    let estimates = is_whole.then(|| {
        let [_, loss, segment, round_trip] = fit(observed);
        let constants: Vec<f64> = observed.iter().map(|(at, rate)| constant(at, *rate)).collect();
        [loss, segment, round_trip, median_interval(&constants, CONFIDENCE)]
    });
    std::array::from_fn(|which| measured("1", estimates.map(|all| all[which]), METHOD))
}

fn points() -> Vec<Point> {
    let losses = LOSSES.map(|loss| Point { loss, ..MIDDLE });
    let segments = SEGMENTS.map(|segment| Point { segment, ..MIDDLE });
    let round_trips = ROUND_TRIPS.map(|round_trip| Point { round_trip, ..MIDDLE });
    [&[MIDDLE][..], &losses, &segments, &round_trips].concat()
}

/// Returns the throughput at a point in bytes per virtual second.
fn bytes_per_second(
    stack: &dyn Stack,
    point: Point,
    segments: u64,
    seed: u64,
) -> Result<f64, Error> {
    let impairments = Impairments {
        loss: point.loss,
        delay: point.round_trip / 2,
        rate: Some(LINK),
        only_data: true,
        ..Impairments::default()
    };
    let setup = Setup {
        segment: point.segment,
        buffer: BUFFER,
        impairments,
        // Without Nagle's algorithm, the sender would fill a window that is not a multiple of the
        // segment size with partial segments.
        nagle: true,
        congestion: Congestion::Reno,
        ack_delay: ACK_DELAY,
        seed,
        ..Setup::for_pattern(Pattern::Bulk)
    };
    let stream = Rc::new(Stream::new(seed, setup.buffer_bytes()));
    let mut session = Session::new(&setup, [stack, stack], &Set::find(SELECTED)?, &stream)?;
    while session.carried().lost < SETTLED {
        session.run(100 * point.segment as u64)?;
    }
    let slice = session.run(segments * point.segment as u64)?;
    Ok(slice.bytes as f64 / slice.virtual_us as f64 * 1e6)
}

/// Returns the Mathis constant `C` at one point, assuming the theoretical exponents.
fn constant(point: &Point, rate: f64) -> f64 {
    rate * (point.round_trip as f64 / 1e6) * point.loss.sqrt() / point.segment as f64
}

/// Fits the constant and the exponents of loss, segment size and RTT, with intervals, by ordinary
/// least squares on the logs.
fn fit(observed: &[(Point, f64)]) -> [Estimate; 4] {
    let row = |point: &Point| {
        [1.0, point.loss.ln(), (point.segment as f64).ln(), (point.round_trip as f64).ln()]
    };
    let (mut squares, mut products) = ([[0.0; 4]; 4], [0.0; 4]);
    for (point, rate) in observed {
        let row = row(point);
        for i in 0..4 {
            products[i] += row[i] * rate.ln();
            for j in 0..4 {
                squares[i][j] += row[i] * row[j];
            }
        }
    }
    let inverse = inverse(squares);
    let times = |row: &[f64; 4], column: &[f64; 4]| -> f64 {
        row.iter().zip(column).map(|(a, b)| a * b).sum()
    };
    let fitted = inverse.map(|row| times(&row, &products));
    let residual = |(point, rate): &(Point, f64)| (rate.ln() - times(&row(point), &fitted)).powi(2);
    let freedom = observed.len().saturating_sub(4).max(1) as f64;
    let variance = observed.iter().map(residual).sum::<f64>() / freedom;
    std::array::from_fn(|i| {
        let (value, margin) = (fitted[i], NORMAL_QUANTILE * (variance * inverse[i][i]).sqrt());
        let n = observed.len() as u64;
        let (low, high) = (value - margin, value + margin);
        Estimate { value, low, high, confidence: CONFIDENCE, n }
    })
}

/// Inverts a nonsingular matrix by Gauss-Jordan elimination with partial pivoting.
fn inverse(mut matrix: [[f64; 4]; 4]) -> [[f64; 4]; 4] {
    let mut inverse = [[0.0; 4]; 4];
    (0..4).for_each(|i| inverse[i][i] = 1.0);
    for column in 0..4 {
        let largest =
            |a: &usize, b: &usize| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs());
        let pivot = (column..4).max_by(largest).unwrap_or(column);
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let divisor = matrix[column][column];
        matrix[column].iter_mut().chain(&mut inverse[column]).for_each(|x| *x /= divisor);
        let (own, own_inverse) = (matrix[column], inverse[column]);
        for other in (0..4).filter(|other| *other != column) {
            let factor = matrix[other][column];
            for k in 0..4 {
                matrix[other][k] -= factor * own[k];
                inverse[other][k] -= factor * own_inverse[k];
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smol::Smoltcp;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Fits synthetic rates with exponents other than the equation's, without errors and with
    /// errors of up to 1 %.
    #[test]
    fn the_fit_finds_exponents_that_were_put_in() {
        for error in [0.0, 0.02] {
            let mut random = fastrand::Rng::with_seed(5);
            let synthetic: Vec<(Point, f64)> = points()
                .into_iter()
                .cycle()
                .take(44)
                .map(|point| {
                    let law = 3.0 * point.loss.powf(-0.6) * (point.segment as f64).powf(0.8)
                        / (point.round_trip as f64).powf(1.1);
                    (point, law * (1.0 + error * (random.f64() - 0.5)))
                })
                .collect();
            let fitted = fit(&synthetic);
            let truth = [3.0_f64.ln(), -0.6, 0.8, -1.1];
            for (estimate, truth) in fitted.iter().zip(truth) {
                let off = (estimate.value - truth).abs();
                assert!(off <= 1e-6 + 2.0 * (estimate.high - estimate.value), "{fitted:?}");
            }
            assert!((fitted[1].high - fitted[1].low < 0.01) && fitted[1].low <= fitted[1].value);
        }
    }

    /// The rates have realistic errors: log-normal, with a standard deviation of 5 %.
    #[test]
    fn nineteen_of_twenty_intervals_hold_the_exponent() {
        const TRIALS: usize = 500;
        let mut random = fastrand::Rng::with_seed(7);
        // Approximately normally distributed: the sum of twelve draws from 0 to 1 has a variance of
        // one.
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut held = 0;
        for _ in 0..TRIALS {
            let synthetic = points().into_iter().cycle().take(44).map(|point| {
                let error = (0.05 * normal()).exp();
                let rate = point.segment as f64 / point.loss.sqrt() / point.round_trip as f64;
                (point, rate * error)
            });
            let fitted = fit(&synthetic.collect::<Vec<_>>());
            let truth = [0.0, -0.5, 1.0, -1.0];
            let holds = |(e, truth): &(Estimate, f64)| (e.low..=e.high).contains(truth);
            held += fitted.into_iter().zip(truth).filter(holds).count();
        }
        let share = held as f64 / (4 * TRIALS) as f64;
        assert!((0.93..0.97).contains(&share), "{share}");
    }

    #[test]
    fn a_law_that_was_stopped_has_no_exponents() {
        let effort = Effort { segments: 100, seeds: 1 };
        let stop = AtomicBool::new(false);
        let after_one = |_: &str, _: f64| stop.store(true, Ordering::Relaxed);
        let watch = Watch::new(&stop, &after_one);
        let law = law(&Smoltcp, effort, 1, &watch).expect("the run completes");
        let rates: Vec<&Figure> = law.points.iter().map(|point| &point.mbps).collect();
        assert!(rates[0].as_number().is_some(), "{rates:?}");
        let rest = [&law.exponent_loss, &law.exponent_segment, &law.constant];
        for figure in rates[1..].iter().copied().chain(rest) {
            assert_eq!(figure.as_number(), None);
            assert_eq!(figure.reason.as_deref(), Some(STOPPED));
        }
    }

    /// Halves the RTT: the throughput must roughly double.
    #[test]
    fn half_the_round_trip_is_twice_the_throughput() {
        let rate = |round_trip| {
            let point = Point { loss: 5e-3, round_trip, ..MIDDLE };
            bytes_per_second(&Smoltcp, point, 12_000, 1).expect("the run completes")
        };
        let ratio = rate(40_000) / rate(80_000);
        assert!((1.5..2.7).contains(&ratio), "{ratio}");
    }
}
