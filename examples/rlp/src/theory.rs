// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prediction of the share of abandoned bytes.
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
//! A NAK that comes twice, with chance `d`, is answered twice; then `f = q + (1 - q) (1 - d + d e)
//! e`. It holds for the byte whatever frames it shares its fate with, in whatever frames it is
//! sent again: each attempt carries it in one frame.
//!
//! When losses come in bursts, `e` depends on the state of the link, and the state when the byte
//! is sent again on the state when it was lost. Write the chance of each state as a row `v`, a tick
//! as the matrix `T`, and the loss in each state as the diagonal matrix `L`; `R = 1 - L`. With one
//! new frame per tick:
//!
//! 1. The frame is lost: `v = s L`, where `s` is the row that a tick leaves as it is.
//! 2. The hole is found by the next new frame that arrives: none of the frames between has, so
//!    `v = v T R + v T L T R + ... = v (1 - T L)^-1 T R`.
//! 3. What the first round sends again is sent a round trip after that frame: `v = v T^trip F^n1`,
//!    where `F` has `f` of each state. All copies meet the same state, each with its own draw.
//! 4. Each further round comes a timer later: `v = v T^timer F^n`.
//!
//! The sum of `v` is the chance. It supposes that time is kept: nothing is held back for longer
//! than the timer allows, and the rings hold what the rounds ask for.

use crate::channel::{Burst, Loss};
use linerate_stage_api::bench::{CONFIDENCE, NORMAL_QUANTILE};

/// Parameters that determine whether a byte is abandoned.
#[derive(Clone, Copy, Debug)]
pub struct Scheme<'a> {
    /// Loss model of the stream's frames.
    pub loss: Loss,
    /// Chance that a NAK is lost, independent of all else.
    pub nak_loss: f64,
    /// Chance that a NAK which arrives does so twice.
    pub nak_double: f64,
    /// NAKs of each round.
    pub copies: &'a [u8],
    /// Ticks from sending a frame to sending again what the NAK it caused asks for.
    pub trip_ticks: u64,
    /// Ticks from round to round.
    pub timer_ticks: u64,
}

type Row = [f64; 2];
type Matrix = [[f64; 2]; 2];

fn times(row: Row, matrix: &Matrix) -> Row {
    [row[0] * matrix[0][0] + row[1] * matrix[1][0], row[0] * matrix[0][1] + row[1] * matrix[1][1]]
}

/// `row (1 - matrix)^-1`, by the inverse of a matrix of two rows.
fn times_series(row: Row, matrix: &Matrix) -> Row {
    let [[a, b], [c, d]] = *matrix;
    let determinant = (1.0 - a) * (1.0 - d) - b * c;
    times(
        row,
        &[[(1.0 - d) / determinant, b / determinant], [c / determinant, (1.0 - a) / determinant]],
    )
}

/// Chance that a byte is given up. 0 when everything arrives; 1 when nothing of the stream does.
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

/// Expected range of a rate measured over many batches, with confidence [`CONFIDENCE`].
///
/// `rates` are the rates of batches of equal size, each long enough to be nearly independent. The
/// band is the expectation and [`NORMAL_QUANTILE`] standard errors, from the variation between
/// batches, since bytes are abandoned in groups. `frames` is the number of frames, if whole frames
/// are abandoned independently: if fewer than 50 are expected, the band is the central share of a
/// Poisson distribution.
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

/// The quantiles of a Poisson distribution that leave half of the rest of [`CONFIDENCE`] on either
/// side.
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
