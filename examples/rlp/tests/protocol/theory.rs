// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the theory with closed formulas where available, and with probabilities propagated tick
//! by tick.

use linerate_rlp::channel::{Burst, Loss};
use linerate_rlp::theory::{Scheme, abort_rate, band};
use proptest::prelude::*;

/// Propagates a byte's state distribution tick by tick: waiting for a frame to arrive or for a
/// round, on a good or bad link.
fn slowly(burst: &Burst, scheme: &Scheme<'_>) -> f64 {
    let share = [1.0 - burst.share_bad(), burst.share_bad()];
    // Probability that the byte was lost, no frame has arrived since, and the link is in this
    // state.
    let mut unseen = [share[0] * burst.loss[0], share[1] * burst.loss[1]];
    // Probabilities by round and number of ticks until the next round.
    let longest = scheme.trip_ticks.max(scheme.timer_ticks) as usize;
    let mut waiting = vec![vec![[0.0; 2]; longest + 1]; scheme.copies.len()];
    let mut given_up = 0.0;
    let turn = |row: [f64; 2]| {
        let (worse, better) = (row[0] * burst.worsen, row[1] * burst.recover);
        [row[0] - worse + better, row[1] - better + worse]
    };
    for _ in 0..20_000 {
        unseen = turn(unseen);
        for row in waiting.iter_mut().flatten() {
            *row = turn(*row);
        }
        for round in (0..waiting.len()).rev() {
            waiting[round].rotate_left(1);
            let due = std::mem::take(&mut waiting[round][0]);
            for (state, chance) in due.into_iter().enumerate() {
                let loss = burst.loss[state];
                let lost = |frames: i32| loss.powi(frames);
                let double = scheme.nak_double;
                let one = (1.0 - double) * lost(1) + double * lost(2);
                let fails = scheme.nak_loss + (1.0 - scheme.nak_loss) * one;
                let left = chance * fails.powi(scheme.copies[round].into());
                match waiting.get_mut(round + 1) {
                    Some(next) => next[scheme.timer_ticks as usize][state] += left,
                    None => given_up += left,
                }
            }
        }
        for state in 0..2 {
            let seen = unseen[state] * (1.0 - burst.loss[state]);
            unseen[state] -= seen;
            match waiting.first_mut() {
                Some(first) => first[scheme.trip_ticks as usize][state] += seen,
                None => given_up += seen,
            }
        }
    }
    given_up
}

fn copies() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1..4_u8, 0..4)
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 + 1e-6 * other.abs()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn independent_losses_follow_the_formula(
        loss in 0.0..0.99, nak_loss in 0.0..1.0, copies in copies(), ticks in 1..40_u64,
    ) {
        let all: u8 = copies.iter().sum();
        let fails: f64 = 1.0 - (1.0 - nak_loss) * (1.0 - loss);
        let scheme = Scheme {
            loss: Loss::Independent(loss),
            nak_loss,
            nak_double: 0.0,
            copies: &copies,
            trip_ticks: ticks,
            timer_ticks: 2 * ticks,
        };
        prop_assert!(is_near(abort_rate(&scheme), loss * fails.powi(all.into())));
    }

    #[test]
    fn bursts_follow_the_chances_of_every_tick(
        chances in prop::array::uniform2(0.01..0.9), loss in prop::array::uniform2(0.0..0.9),
        nak in prop::array::uniform2(0.0..1.0), copies in copies(), ticks in (1..9_u64, 1..9_u64),
    ) {
        let burst = Burst { worsen: chances[0], recover: chances[1], loss };
        let scheme = Scheme {
            loss: Loss::GilbertElliott(burst),
            nak_loss: nak[0],
            nak_double: nak[1],
            copies: &copies,
            trip_ticks: ticks.0,
            timer_ticks: ticks.1,
        };
        let (rate, expected) = (abort_rate(&scheme), slowly(&burst, &scheme));
        prop_assert!(is_near(rate, expected), "{} {}", rate, expected);
    }
}

#[test]
fn a_band_is_of_frames_where_they_are_few_and_of_batches_where_not() {
    // For a Poisson distribution with mean 4, the 2.5 % and 97.5 % quantiles are 1 and 8.
    assert_eq!(band(4e-6, &[0.0; 10], Some(1e6)), [1e-6, 8e-6]);
    assert_eq!(band(0.0, &[0.0; 10], Some(1e6)), [0.0, 0.0]);
    // Rates of 1 and 3 in equal numbers: mean 2, standard deviation sqrt(100 / 99).
    let rates: Vec<f64> = (0..100).map(|i| f64::from(1 + i % 2 * 2)).collect();
    let reach = 1.959_964 * (100.0_f64 / 99.0 / 100.0).sqrt();
    let [low, high] = band(2.0, &rates, None);
    assert!(is_near(low, 2.0 - reach) && is_near(high, 2.0 + reach));
}

#[test]
fn where_nothing_arrives_all_is_given_up() {
    let scheme = Scheme {
        loss: Loss::Independent(1.0),
        nak_loss: 0.0,
        nak_double: 0.0,
        copies: &[1],
        trip_ticks: 1,
        timer_ticks: 1,
    };
    assert_eq!(abort_rate(&scheme), 1.0);
}
