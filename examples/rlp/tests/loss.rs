// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams over links that lose, delay and duplicate frames: the output is the input minus exactly
//! the bytes reported as abandoned, at the predicted rate. The bench `loss` does the same with a
//! million packets and more.

use linerate_rlp::channel::{Burst, Loss, Weather};
use linerate_rlp::receiver::{self, Rounds};
use linerate_rlp::sender;
use linerate_rlp::theory::{Scheme, abort_rate, band};
use linerate_rlp::trial::{Outcome, Trial};

const PACKETS: u64 = 20_000;
const DELAY_TICKS: u64 = 2;
/// NAK timer, longer than the round trip of delayed frames.
const TIMER_TICKS: u64 = 20;
const SCHEME: Scheme<'static> = Scheme {
    loss: Loss::Independent(0.0),
    nak_loss: 0.0,
    nak_double: 0.0,
    copies: &[],
    trip_ticks: 2 * DELAY_TICKS,
    timer_ticks: TIMER_TICKS,
};
const BURST: Loss = Loss::GilbertElliott(Burst { worsen: 0.01, recover: 0.1, loss: [0.01, 0.7] });

/// Ring of 448 packets: longer than all rounds in these tests, and than any run of failed rounds.
const RING_BYTES: usize = 128 << 10;

fn trial(down: Weather, rounds: Rounds) -> Trial {
    Trial {
        packets: PACKETS,
        packet_bytes: [292, 292],
        flush: false,
        sends: sender::Limits { ring_bytes: RING_BYTES, ..sender::Limits::default() },
        receives: receiver::Limits { ring_bytes: RING_BYTES, rounds, timer_ticks: TIMER_TICKS },
        weather: [down; 2],
        batches: 100,
        seed: 1,
    }
}

/// Runs a trial, which compares every byte, and returns the downstream result.
fn run(trial: &Trial) -> Outcome {
    let outcomes = trial.run().expect("every byte is accounted for");
    for outcome in &outcomes {
        assert_eq!(outcome.sent, trial.packets * 292);
        assert_eq!(outcome.delivered + outcome.aborted, outcome.sent);
    }
    let [down, _] = outcomes;
    down
}

/// Asserts that the fraction of abandoned bytes is in the central 99.99 % range, because a test
/// that runs often must not fail by chance. (The band in `theory` is 95 %.)
fn expect_rate(outcome: &Outcome, scheme: &Scheme<'_>, frame_bytes: Option<f64>) {
    let sent = outcome.sent as f64;
    let size = sent / outcome.batches.len() as f64;
    let rates: Vec<f64> = outcome.batches.iter().map(|&bytes| bytes as f64 / size).collect();
    let (rate, expected) = (outcome.aborted as f64 / sent, abort_rate(scheme));
    let [low, high] = band(expected, &rates, frame_bytes.map(|bytes| sent / bytes));
    let [low, high] = [low, high].map(|end| expected + 2.0 * (end - expected));
    assert!((low..=high).contains(&rate), "{rate} is not in {low}..{high}: {scheme:?}");
}

#[test]
fn independent_losses_give_up_as_reckoned() {
    for (loss, copies) in
        [(0.0, &[1, 2, 3][..]), (0.01, &[1]), (0.05, &[1, 1]), (0.2, &[1, 2, 3]), (0.2, &[])]
    {
        let loss_of = Loss::Independent(loss);
        let rounds = Rounds::new(copies).expect("few rounds");
        let outcome = run(&trial(Weather::losing(loss_of, DELAY_TICKS), rounds));
        assert_eq!(outcome.link.lost == 0, loss == 0.0);
        assert_eq!(outcome.aborted == 0, loss == 0.0, "loss {loss}, rounds {copies:?}");
        let scheme = Scheme { loss: loss_of, nak_loss: loss, copies, ..SCHEME };
        expect_rate(&outcome, &scheme, Some(128.0));
    }
}

#[test]
fn bursts_give_up_as_reckoned() {
    for copies in [&[][..], &[1], &[1, 1]] {
        let rounds = Rounds::new(copies).expect("few rounds");
        let mut trial = trial(Weather::losing(BURST, DELAY_TICKS), rounds);
        // One frame per tick, as the theory assumes.
        (trial.flush, trial.sends.frame_bytes) = (true, 1024);
        trial.weather[1].loss = Loss::Independent(0.05);
        let scheme = Scheme { loss: BURST, nak_loss: 0.05, copies, ..SCHEME };
        expect_rate(&run(&trial), &scheme, None);
    }
}

#[test]
fn rounds_without_end_give_nothing_up() {
    for loss in [Loss::Independent(0.01), Loss::Independent(0.05), Loss::Independent(0.2), BURST] {
        let outcome = run(&trial(Weather::losing(loss, DELAY_TICKS), Rounds::UNLIMITED));
        assert!(outcome.link.lost > 0);
        assert_eq!(outcome.aborted, 0, "{loss:?}");
    }
}

#[test]
fn frames_held_back_and_doubled_change_nothing() {
    let still = Weather::losing(Loss::Independent(0.0), DELAY_TICKS);
    let rough = Weather { hold: 0.1, held_ticks: 5, double: 0.1, ..still };
    let outcome = run(&trial(rough, Rounds::new(&[1, 2, 3]).expect("few rounds")));
    assert!(outcome.link.held > 0 && outcome.link.doubled > 0 && outcome.again > 0);
    assert_eq!(outcome.aborted, 0, "each frame comes before its rounds are over");
    let loss = Loss::Independent(0.2);
    let copies = &[1, 1];
    let outcome = run(&trial(Weather { loss, ..rough }, Rounds::new(copies).expect("few")));
    let scheme = Scheme { loss, nak_loss: 0.2, nak_double: 0.1, copies, ..SCHEME };
    expect_rate(&outcome, &scheme, Some(128.0));
}

#[test]
fn a_ring_too_short_for_the_rounds_gives_up_and_says_so() {
    let weather = Weather::losing(Loss::Independent(0.2), DELAY_TICKS);
    let mut trial = trial(weather, Rounds::UNLIMITED);
    // A ring of 28 packets: covers two rounds, but not a third.
    trial.sends = sender::Limits { frame_bytes: 100, ring_bytes: 8 << 10 };
    trial.receives.ring_bytes = 8 << 10;
    assert!(run(&trial).aborted > 0);
}

#[test]
fn a_link_that_is_away_for_long_is_survived() {
    let gone = Burst { worsen: 0.001, recover: 0.01, loss: [0.0, 1.0] };
    let weather = Weather::losing(Loss::GilbertElliott(gone), DELAY_TICKS);
    for rounds in [Rounds::UNLIMITED, Rounds::new(&[1, 2, 3]).expect("few rounds")] {
        let mut trial = trial(weather, rounds);
        // A ring of 56 packets, on a link that is down for 100 ticks on average.
        (trial.sends.ring_bytes, trial.receives.ring_bytes) = (16 << 10, 16 << 10);
        let outcome = run(&trial);
        assert!(outcome.aborted > 0, "what the sender's ring has lost is gone");
        assert!(outcome.delivered > outcome.sent / 2);
    }
}
