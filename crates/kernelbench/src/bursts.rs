// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares summing several buffers in one call with summing them one by one.
//!
//! Both alternatives sum the same buffers with the selected variant, interleaved in rounds.
//! Segments are at the same offset as in a frame, in slots that fit in L1. Random lengths are drawn
//! again for each window so that branch predictors cannot learn them.

use crate::Error;
use linerate_kernels::checksum::{self, Buffer};
use linerate_kernels::{Kernels, Sum};
use linerate_linux::pin_current_thread;
use linerate_record::stats::{CONFIDENCE, Estimate, interval_name};
use linerate_trial::{Length, Machine, Rules, Samples, Watch, Window};
use std::convert::Infallible;
use std::fmt::Write;
use std::hint::black_box;
use std::ops::RangeInclusive;

/// Rounds per case, as in a sweep.
const ROUNDS: u32 = 201;
const ROUNDS_QUICK: u32 = 9;

/// Packets per window. Their buffers and sums take 20 KiB.
const PACKETS: usize = 1024;

/// Passes per window if all lengths are equal.
const PASSES: usize = 4;

/// Number of packet slots.
const SLOTS: usize = 32;
/// Bytes per packet slot: an odd number of cache lines.
const SLOT_BYTES: usize = 25 * 64;
/// Offset of a segment from a line boundary: the length of the Ethernet and IPv4 headers.
const SEGMENT_OFFSET: usize = 34;

/// Numbers of buffers per call.
const COUNTS: [usize; 4] = [4, 8, 16, 32];

/// Lengths of segments in bytes.
const LENGTHS: [RangeInclusive<usize>; 11] = [
    20..=20,
    40..=40,
    64..=64,
    65..=65,
    96..=96,
    128..=128,
    200..=200,
    20..=64,
    20..=128,
    20..=255,
    20..=1500,
];

/// Required speed relative to summing one by one, for lengths of up to [`ASKED_BYTES`].
const ASKED: f64 = 1.5;
const ASKED_BYTES: usize = 128;

/// Lengths in bytes of the headers that are summed right after they are written.
const HEADERS: [usize; 2] = [20, 40];

/// A measured case.
#[derive(Clone, Debug)]
pub struct Row {
    what: String,
    /// Number of buffers per call.
    count: usize,
    /// Ticks per packet with one call per packet, and with one per burst.
    ticks: [f64; 2],
    /// Time with one call per packet divided by the time with one call per burst.
    speed: Option<Estimate>,
    /// Required value of `speed`; `None` if there is no requirement.
    asked: Option<f64>,
}

/// Measures all cases on the calling thread, which is pinned to `cpu` and stays there. `seed`
/// determines contents, lengths and order.
///
/// # Errors
/// Returns an error if the thread cannot be pinned.
pub fn bursts(cpu: u32, quick: bool, seed: u64) -> Result<Vec<Row>, Error> {
    pin_current_thread(cpu).map_err(Error::Pin)?;
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    let mut slots = vec![0; SLOTS * SLOT_BYTES + 64];
    fastrand::Rng::with_seed(seed).fill(&mut slots);
    let first = slots.as_ptr().align_offset(64);
    let mut rows = Vec::new();
    for lengths in LENGTHS {
        for count in COUNTS {
            let seed = seed.wrapping_add(rows.len() as u64);
            rows.push(segments(&slots[first..], lengths.clone(), count, rounds, seed));
        }
    }
    for bytes in HEADERS {
        rows.push(just_written(&mut slots[first..], bytes, rounds, seed));
    }
    Ok(rows)
}

/// Compares one call per packet with one call per burst on segments in `slots`.
fn segments(
    slots: &[u8],
    lengths: RangeInclusive<usize>,
    count: usize,
    rounds: u32,
    seed: u64,
) -> Row {
    let kernels = Kernels::selected();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut buffers = [Buffer::default(); PACKETS];
    let mut sums = [Sum::ZERO; PACKETS];
    let is_fixed = lengths.start() == lengths.end();
    let passes = if is_fixed { PASSES } else { 1 };
    let samples = race(rounds, seed, |which| {
        let mut pass = |buffers: &[Buffer<'_>]| {
            for (buffers, sums) in buffers.chunks(count).zip(sums.chunks_mut(count)) {
                sum(&kernels, which, buffers, sums);
            }
        };
        let clock = Machine::counter();
        let mut window = Window::open(&clock);
        // The lead-in still sums the previous window's lengths.
        pass(&buffers);
        for (i, buffer) in buffers.iter_mut().enumerate() {
            let at = i % SLOTS * SLOT_BYTES + SEGMENT_OFFSET;
            *buffer = Buffer::new(&slots[at..at + random.usize(lengths.clone())]);
        }
        window.start();
        for _ in 0..passes {
            pass(&buffers);
        }
        let window = window.close();
        black_box(&sums);
        window.keep(window.ticks as f64 / (passes * PACKETS) as f64)
    });
    let what = match (*lengths.start(), *lengths.end()) {
        (least, most) if least == most => format!("{least} bytes"),
        (least, most) => format!("{least} to {most} bytes"),
    };
    let asked = (*lengths.end() <= ASKED_BYTES).then_some(ASKED);
    Row::new(what, count, &samples, asked)
}

#[inline]
fn sum(kernels: &Kernels, which: usize, buffers: &[Buffer<'_>], sums: &mut [Sum]) {
    if which == 1 {
        kernels.checksum_burst(buffers, sums);
        return;
    }
    for (buffer, sum) in buffers.iter().zip(sums) {
        *sum = kernels.checksum(buffer.bytes(), *sum);
    }
}

/// Compares the inline header sum with a burst on headers just written with four-byte stores, eight
/// headers at a time.
fn just_written(slots: &mut [u8], bytes: usize, rounds: u32, seed: u64) -> Row {
    const COUNT: usize = 8;
    let kernels = Kernels::selected();
    let samples = race(rounds, seed, |which| {
        let clock = Machine::counter();
        let mut sums = [Sum::ZERO; COUNT];
        let window = Window::open(&clock);
        for round in 0..(PACKETS / COUNT) as u32 {
            for slot in slots.chunks_mut(SLOT_BYTES).take(COUNT) {
                // The new headers depend on the previous sums, as in a network stack.
                let word = round ^ sums[0].raw();
                let words = slot[14..14 + bytes].as_chunks_mut::<4>().0;
                words.iter_mut().for_each(|place| *place = black_box(word).to_ne_bytes());
            }
            let mut headers = [Buffer::default(); COUNT];
            for (header, slot) in headers.iter_mut().zip(slots.chunks(SLOT_BYTES)) {
                *header = Buffer::new(&slot[14..14 + bytes]);
            }
            if which == 1 {
                kernels.checksum_burst(&headers, &mut sums);
            } else {
                for (header, sum) in headers.iter().zip(&mut sums) {
                    *sum = checksum::header(header.bytes(), *sum);
                }
            }
        }
        let window = window.close();
        black_box(&sums);
        window.keep(window.ticks as f64 / PACKETS as f64)
    });
    Row::new(format!("{bytes}-byte headers just written"), COUNT, &samples, None)
}

/// Times both alternatives, 0 and 1, in `rounds` rounds.
fn race(
    rounds: u32,
    seed: u64,
    mut window: impl FnMut(usize) -> Result<f64, linerate_trial::Dropped>,
) -> Samples<f64> {
    let rules = Rules {
        what: "bursts",
        contestants: &["one by one", "burst"],
        placements: 1,
        length: Length::Rounds(rounds),
        seed,
    };
    let clock = Machine::counter();
    let Ok(mut samples) = linerate_trial::rounds(&rules, &clock, &Watch::unattended(), |turn| {
        Ok::<_, Infallible>(window(turn.contestant))
    });
    samples.drop_far_slower();
    samples
}

impl Row {
    fn new(what: String, count: usize, samples: &Samples<f64>, asked: Option<f64>) -> Self {
        let ticks = [0, 1].map(|which| samples.median(which).unwrap_or(f64::NAN));
        Self { what, count, ticks, speed: samples.ratio(0, 1, CONFIDENCE), asked }
    }

    /// Returns whether the required speed is reached; `None` if none is required.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.speed?.value >= self.asked?)
    }
}

/// Formats the rows as a table: ticks per packet of both alternatives, their ratio with its
/// interval, and whether the ratio meets the requirement.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:30} {:>7} {:>11} {:>6} {:>6} {:>17}  {}\n",
        "ticks per packet",
        "buffers",
        "one by one",
        "burst",
        "ratio",
        interval_name(),
        "asked"
    );
    for row in rows {
        let [one, burst] = row.ticks;
        let ratio = row.speed.map_or_else(
            || format!("{:>6} {:>17}", "-", "-"),
            |ratio| {
                let interval = format!("{:.2} to {:.2}", ratio.low, ratio.high);
                format!("{:6.2} {interval:>17}", ratio.value)
            },
        );
        let asked = match (row.asked, row.is_met()) {
            (Some(asked), Some(true)) => format!(">= {asked:.2} met"),
            (Some(asked), _) => format!(">= {asked:.2} MISSED"),
            (None, _) => "-".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:30} {:7} {one:11.1} {burst:6.1} {ratio}  {asked}",
            row.what, row.count
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_a_faster_burst() {
        let samples = Samples::new(vec![vec![Ok(12.0); 9], vec![Ok(6.0); 9]], 1);
        let row = |asked| Row::new("64 bytes".to_owned(), 8, &samples, asked);
        assert_eq!(row(Some(1.5)).is_met(), Some(true));
        assert_eq!(row(Some(2.5)).is_met(), Some(false));
        assert_eq!(row(None).is_met(), None);
        let table = table(&[row(Some(1.5)), row(Some(2.5)), row(None)]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].ends_with("12.0    6.0   2.00      2.00 to 2.00  >= 1.50 met"), "{table}");
        assert!(lines[2].ends_with(">= 2.50 MISSED") && lines[3].ends_with('-'), "{table}");
    }
}
