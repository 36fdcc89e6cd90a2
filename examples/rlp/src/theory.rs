// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the fraction of abandoned bytes.
//!
//! Consider one byte. It is abandoned if its frame is lost and every round fails. A round of `n`
//! copies sends `n` NAKs; each that arrives (probability `1 - q`) is answered by a separate frame,
//! which arrives with probability `1 - e`. One copy therefore fails with probability `f = 1 - (1 -
//! q)(1 - e)`, and, since frames and NAKs are independent, the round with probability `f^n`. With
//! independent losses, the probability of abandonment is therefore
//!
//! ```text
//!     e * f^(n1 + n2 + ...)
//! ```
//!
//! A NAK that is duplicated (probability `d`) is answered twice; then `f = q + (1 - q) (1 - d + d
//! e) e`. The formula holds for the byte regardless of how the stream is cut into frames: each
//! attempt carries the byte in exactly one frame.
//!
//! When losses come in bursts, `e` depends on the state of the link, and the state at a
//! retransmission depends on the state at the original loss. Let the row vector `v` hold the
//! probability of each state, the matrix `T` the transition of one tick, and the diagonal matrix
//! `L` the loss probability in each state; `R = 1 - L`. With one new frame per tick:
//!
//! 1. The frame is lost: `v = s L`, where `s` is the stationary distribution, `s T = s`.
//! 2. The hole is detected by the next new frame that arrives, all frames in between being lost:
//!    `v = v T R + v T L T R + ... = v (1 - T L)^-1 T R`.
//! 3. The retransmissions of the first round are sent one round trip after that frame:
//!    `v = v T^trip F^n1`, where `F` is the diagonal matrix of `f` in each state. All copies meet
//!    the same state, with independent draws.
//! 4. Each further round follows one timer period later: `v = v T^timer F^n`.
//!
//! The probability of abandonment is the sum of `v`. The model assumes that no frame is held back
//! for longer than the timer allows, and that the rings still hold the requested bytes.

use crate::channel::{Burst, Loss};
use linerate_stage_api::bench::{CONFIDENCE, NORMAL_QUANTILE};

/// Parameters that determine how likely a byte is to be abandoned.
#[derive(Clone, Copy, Debug)]
pub struct Scheme<'a> {
    /// Loss model for the stream's frames.
    pub loss: Loss,
    /// Probability that a NAK is lost, independent of all other losses.
    pub nak_loss: f64,
    /// Probability that a NAK that arrives is duplicated.
    pub nak_double: f64,
    /// NAK copies per round.
    pub copies: &'a [u8],
    /// Ticks from the frame that reveals a hole to the retransmission triggered by its NAK.
    pub trip_ticks: u64,
    /// Ticks from one round to the next.
    pub timer_ticks: u64,
}

type Row = [f64; 2];
type Matrix = [[f64; 2]; 2];

fn times(row: Row, matrix: &Matrix) -> Row {
    [row[0] * matrix[0][0] + row[1] * matrix[1][0], row[0] * matrix[0][1] + row[1] * matrix[1][1]]
}

/// Returns `row (1 - matrix)^-1`, with the closed-form inverse of a 2x2 matrix.
fn times_series(row: Row, matrix: &Matrix) -> Row {
    let [[a, b], [c, d]] = *matrix;
    let determinant = (1.0 - a) * (1.0 - d) - b * c;
    times(
        row,
        &[[(1.0 - d) / determinant, b / determinant], [c / determinant, (1.0 - a) / determinant]],
    )
}

/// Returns the probability that a byte is abandoned: 0 if every frame arrives, 1 if none does.
pub fn abort_rate(scheme: &Scheme<'_>) -> f64 {
    let burst = match scheme.loss {
        Loss::Independent(chance) => Burst { worsen: 0.5, recover: 0.5, loss: [chance; 2] },
        Loss::GilbertElliott(burst) => burst,
    };
    let (loss, bad) = (burst.loss, burst.share_bad());
    if loss.iter().all(|&chance| chance >= 1.0) {
        return 1.0;
    }
    let tick = [[1.0 - burst.worsen, burst.worsen], [burst.recover, 1.0 - burst.recover]];
    let lost = [(1.0 - bad) * loss[0], bad * loss[1]];
    let tick_and_loss = tick.map(|row| [row[0] * loss[0], row[1] * loss[1]]);
    let mut row = times(times_series(lost, &tick_and_loss), &tick);
    row = [row[0] * (1.0 - loss[0]), row[1] * (1.0 - loss[1])];
    let mut ticks = scheme.trip_ticks;
    for &copies in scheme.copies {
        for _ in 0..ticks {
            row = times(row, &tick);
        }
        for (chance, loss) in row.iter_mut().zip(loss) {
            let answers = 1.0 - scheme.nak_double + scheme.nak_double * loss;
            let fails = scheme.nak_loss + (1.0 - scheme.nak_loss) * answers * loss;
            *chance *= fails.powi(copies.into());
        }
        ticks = scheme.timer_ticks;
    }
    row.iter().sum()
}

/// Returns the range in which a rate measured over many batches is expected, with confidence
/// [`CONFIDENCE`].
///
/// `rates` are the rates of equally large batches, each long enough to be nearly independent. The
/// band is the expectation plus or minus [`NORMAL_QUANTILE`] standard errors, estimated from the
/// variation between batches because bytes are abandoned in groups. `frames` is the number of
/// frames, given only if whole frames are abandoned independently. If fewer than 50 abandoned
/// frames are then expected, the band is the central interval of a Poisson distribution.
pub fn band(expected: f64, rates: &[f64], frames: Option<f64>) -> [f64; 2] {
    if let Some(frames) = frames.filter(|frames| expected * frames < 50.0) {
        return poisson(expected * frames).map(|count| count / frames);
    }
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let reach = NORMAL_QUANTILE * (variance / n).sqrt();
    [expected - reach, expected + reach]
}

/// Returns the Poisson quantiles that bound the central [`CONFIDENCE`] interval.
fn poisson(mean: f64) -> [f64; 2] {
    let quantile = |share: f64| {
        let (mut count, mut term) = (0.0, (-mean).exp());
        let mut sum = term;
        while sum < share {
            count += 1.0;
            term *= mean / count;
            sum += term;
        }
        count
    };
    [1.0 - CONFIDENCE, 1.0 + CONFIDENCE].map(|twice| quantile(twice / 2.0))
}
