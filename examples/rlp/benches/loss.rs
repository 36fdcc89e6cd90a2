// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends a million packets each way over links that lose, delay and duplicate frames, and checks
//! that every byte is accounted for and that the fraction of abandoned bytes agrees with theory.
//!
//! Results do not depend on timing or the machine: equal seeds give equal tables. The exit status
//! is 1 if a byte is wrong, or if a stream that must be complete is not.
//!
//! `cargo bench -p linerate-rlp --bench loss [-- PACKETS]`

use linerate_rlp::channel::{Burst, Loss, Weather};
use linerate_rlp::receiver::{self, Rounds};
use linerate_rlp::sender;
use linerate_rlp::theory::{Scheme, abort_rate, band};
use linerate_rlp::trial::{Outcome, Trial};
use linerate_stage_api::bench::CONFIDENCE;
use std::process::ExitCode;

const PACKETS: u64 = 1_000_000;
/// Stream bytes in a 342-byte packet, i.e. without headers and FCS.
const PACKET_BYTES: usize = 292;
const DELAY_TICKS: u64 = 2;
const TIMER_TICKS: u64 = 10;
/// Probability with which a rough link delays a frame, and with which it duplicates one. The delay
/// is at most `HELD_TICKS`.
const ROUGH: f64 = 0.05;
const HELD_TICKS: u64 = 4;
const BATCHES: usize = 100;
const SEED: u64 = 1;
/// Ring of 56 packets: covers two NAK rounds of 10 ticks each, with some margin.
const SHORT_RING: usize = 16 << 10;
/// Ring of 448 packets: longer than any loss burst or run of failed NAK rounds here.
const LONG_RING: usize = 128 << 10;
const FEW: Burst = Burst { worsen: 0.001, recover: 0.25, loss: [0.0, 0.8] };
const MANY: Burst = Burst { worsen: 0.01, recover: 0.1, loss: [0.01, 0.7] };

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    link: &'static str,
    loss: Loss,
    /// Whether the link also delays and duplicates frames.
    rough: bool,
    /// NAK copies per round; `None` for unlimited rounds.
    copies: Option<&'static [u8]>,
}

const fn row(link: &'static str, loss: Loss, copies: Option<&'static [u8]>) -> Row {
    Row { link, loss, rough: false, copies }
}

const fn rough(link: &'static str, chance: f64, copies: Option<&'static [u8]>) -> Row {
    Row { link, loss: Loss::Independent(chance), rough: true, copies }
}

const ROWS: &[Row] = &[
    row("no loss", Loss::Independent(0.0), Some(&[1, 2, 3])),
    row("1 %", Loss::Independent(0.01), Some(&[])),
    row("1 %", Loss::Independent(0.01), Some(&[1])),
    row("1 %", Loss::Independent(0.01), Some(&[1, 2, 3])),
    row("1 %", Loss::Independent(0.01), None),
    row("5 %", Loss::Independent(0.05), Some(&[1])),
    row("5 %", Loss::Independent(0.05), Some(&[1, 1])),
    row("5 %", Loss::Independent(0.05), Some(&[1, 2, 3])),
    row("5 %", Loss::Independent(0.05), None),
    row("20 %", Loss::Independent(0.2), Some(&[1])),
    row("20 %", Loss::Independent(0.2), Some(&[3])),
    row("20 %", Loss::Independent(0.2), Some(&[1, 1, 1])),
    row("20 %", Loss::Independent(0.2), Some(&[1, 2, 3])),
    row("20 %", Loss::Independent(0.2), None),
    row("few bursts", Loss::GilbertElliott(FEW), Some(&[1])),
    row("few bursts", Loss::GilbertElliott(FEW), Some(&[1, 1])),
    row("few bursts", Loss::GilbertElliott(FEW), None),
    row("many bursts", Loss::GilbertElliott(MANY), Some(&[1])),
    row("many bursts", Loss::GilbertElliott(MANY), Some(&[1, 2, 3])),
    row("many bursts", Loss::GilbertElliott(MANY), None),
    rough("rough", 0.0, Some(&[1, 2, 3])),
    rough("rough, 5 %", 0.05, Some(&[1])),
    rough("rough, 20 %", 0.2, Some(&[1, 2, 3])),
    rough("rough, 20 %", 0.2, None),
];

impl Row {
    fn has_bursts(&self) -> bool {
        matches!(self.loss, Loss::GilbertElliott(_))
    }

    fn ring_bytes(&self) -> usize {
        if self.has_bursts() || self.rough || self.copies.is_none() {
            LONG_RING
        } else {
            SHORT_RING
        }
    }

    /// Returns the NAK loss probability. The theory assumes that NAK loss is independent of frame
    /// loss. With burst losses, NAKs therefore travel on a link with independent losses, and only
    /// the other direction carries a stream.
    fn nak_loss(&self) -> f64 {
        match self.loss {
            Loss::Independent(chance) => chance,
            Loss::GilbertElliott(_) => 0.05,
        }
    }

    /// Returns the NAK timer, longer than a round trip including delays and duplicates.
    fn timer_ticks(&self) -> u64 {
        if self.rough { 2 * DELAY_TICKS + 4 * HELD_TICKS + 1 } else { TIMER_TICKS }
    }

    fn trial(&self, packets: u64) -> Trial {
        let still = Weather::losing(self.loss, DELAY_TICKS);
        let down = if self.rough {
            Weather { hold: ROUGH, held_ticks: HELD_TICKS, double: ROUGH, ..still }
        } else {
            still
        };
        let up = Weather { loss: Loss::Independent(self.nak_loss()), ..down };
        let bursts = self.has_bursts();
        let ring_bytes = self.ring_bytes();
        let rounds = self.copies.map_or(Rounds::UNLIMITED, |copies| {
            Rounds::new(copies).expect("the rows have few rounds")
        });
        Trial {
            packets,
            packet_bytes: [PACKET_BYTES, if bursts { 0 } else { PACKET_BYTES }],
            flush: bursts,
            sends: sender::Limits { frame_bytes: if bursts { 1024 } else { 128 }, ring_bytes },
            receives: receiver::Limits { ring_bytes, rounds, timer_ticks: self.timer_ticks() },
            weather: [down, up],
            batches: BATCHES,
            seed: SEED,
        }
    }

    /// Returns the predicted fraction of abandoned bytes; 0 with unlimited rounds.
    fn expected(&self) -> f64 {
        let scheme = |copies| Scheme {
            loss: self.loss,
            nak_loss: self.nak_loss(),
            nak_double: if self.rough { ROUGH } else { 0.0 },
            copies,
            trip_ticks: 2 * DELAY_TICKS,
            timer_ticks: self.timer_ticks(),
        };
        self.copies.map_or(0.0, |copies| abort_rate(&scheme(copies)))
    }

    fn rounds(&self) -> String {
        self.copies.map_or_else(|| "without end".to_owned(), |copies| format!("{copies:?}"))
    }
}

/// One stream's table row: measured and predicted values.
struct Judged {
    is_whole: bool,
    is_inside: bool,
    line: String,
}

fn judge(row: &Row, trial: &Trial, direction: usize, outcome: &Outcome) -> Judged {
    let sent = outcome.sent as f64;
    let frames = (!row.has_bursts()).then_some(sent / trial.sends.frame_bytes as f64);
    let batch = sent / outcome.batches.len() as f64;
    let rates: Vec<f64> = outcome.batches.iter().map(|&bytes| bytes as f64 / batch).collect();
    let expected = row.expected();
    let [low, high] = band(expected, &rates, frames);
    let rate = outcome.aborted as f64 / sent;
    let is_inside = (low..=high).contains(&rate);
    let line = format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {rate:.3e} | {expected:.3e} | {:.3e} to \
         {high:.3e} | {} |",
        row.link,
        row.rounds(),
        ["down", "up"][direction],
        outcome.link.sent,
        outcome.link.lost,
        outcome.again,
        outcome.delivered,
        outcome.aborted,
        low.max(0.0),
        if is_inside { "yes" } else { "no" },
    );
    let must_be_whole = row.copies.is_none() || expected == 0.0;
    let is_counted = outcome.delivered + outcome.aborted == outcome.sent;
    let is_sent = outcome.sent == trial.packets * PACKET_BYTES as u64;
    let is_whole = is_counted && is_sent && !(must_be_whole && outcome.aborted > 0);
    Judged { is_whole, is_inside, line }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let packets = if test { 2_000 } else { asked.unwrap_or(PACKETS) };
    println!(
        "{packets} packets of {PACKET_BYTES} bytes per stream, one per tick; {DELAY_TICKS} ticks \
         each way;\nfrom round to round {TIMER_TICKS} ticks, {} on rough links. Rough: {} % \
         of the frames are held\nback for 1 to {HELD_TICKS} ticks, as many come twice. Frames of \
         128 bytes; with bursts, one per packet.\n",
        2 * DELAY_TICKS + 4 * HELD_TICKS + 1,
        100.0 * ROUGH,
    );
    let sure = 100.0 * CONFIDENCE;
    println!(
        "| link | NAKs per round | way | frames | lost | again | bytes delivered | given up | \
              share | theory | {sure} % of theory | inside |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let (mut streams, mut inside, mut whole) = (0, 0, true);
    for row in ROWS {
        let trial = row.trial(packets);
        let outcomes = match trial.run() {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                eprintln!("{}, rounds {}: {failure:?}", row.link, row.rounds());
                return ExitCode::from(1);
            }
        };
        for (direction, outcome) in outcomes.iter().enumerate().filter(|(_, o)| o.sent > 0) {
            let judged = judge(row, &trial, direction, outcome);
            println!("{}", judged.line);
            streams += 1;
            inside += usize::from(judged.is_inside);
            whole &= judged.is_whole;
        }
    }
    println!(
        "\nBytes delivered and given up are those sent, in order and equal, in {}; of {streams} \
         shares, {inside} are within the {sure} % of theory.",
        if whole { "every row" } else { "NOT every row" },
    );
    ExitCode::from(u8::from(!whole))
}
