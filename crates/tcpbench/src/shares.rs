// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which share of the time sums and copies take, by two methods that have nothing in common but the
//! seam: what they disagree on is the fault of either.
//!
//! ```text
//! timed:   in turns, a slice as it always is, and two with the counter read around each call: by
//!          readings that wait until all is done that was begun, and by such that do not
//!          share = time of the calls per frame, less that of calls that do nothing
//!                / time of the first slice per frame; from the lower of both to the higher one
//! sampled: slices in which the seam says which routine runs; another processor looks now and then
//!          share = looks that found the routine / looks that found the run
//! ```
//!
//! Timing a call slows down what is around it, hence the whole is taken from slices without it. And
//! a processor has much under way at once. Readings that wait hold up what would have gone on
//! beside the call, which then seems too long; past readings that do not wait, the call itself goes
//! on, and most of a copy is missed. What a call takes lies between both; the figure is the middle,
//! its interval reaches from one to the other.
//!
//! A look sees a mark once all stores before it are done, so that sampling has waiting for memory
//! where the stores are.

use crate::error::Error;
use crate::routines::{Activity, Reading, Tallies, Tally, empty_call_ticks};
use crate::sampling::{Counts, Sampler};
use crate::session::{Session, Slice};
use linerate_machine::ticks::ticks_per_s;
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE, median_interval};
use linerate_record::tcp::{SEAM_COPY_HEADER, SEAM_HEADER, TcpSeam};
use linerate_record::{Figure, Tier};

/// Of what fills a slice of the rounds, so much work is done in a slice here: the shorter it is,
/// the rarer it is that something else had the processor meanwhile.
pub(crate) const PART: u64 = 6;

/// How often both ways of reading are tried.
pub(crate) const TURNS: usize = 24;

const READINGS: [Reading; 2] = [Reading::Waiting, Reading::Passing];

/// Looks that an interval of at most 3 points either way needs, and those that are enough.
const LOOKS_MIN: u64 = 750;
const LOOKS: u64 = 2500;

/// Slices in which to get them, at most.
const SAMPLED: usize = 200;

const METHOD_TIMED: &str = "timestamp counter around each call at the seam, less an empty call, \
                            over the time of slices without it, per frame; the middle between \
                            readings that wait for all that was begun and readings that do not, \
                            medians over turns";
const METHOD_SAMPLED: &str = "looks at random moments from another processor at what runs, in \
                              slices that had the processor; normal interval of a share";
const METHOD_ALONE: &str = "bytes summed by calls at the seam and inline, in headers, over the \
                            payload of the same slices";

const UNSEEN: &str = "the stack's own sums do not go through the seam";

/// What routines take of a set, and what is asked of them. Figures are of sums, of copies, and of
/// copies that sum.
pub(crate) struct Shares {
    pub(crate) timed: [Figure; 3],
    pub(crate) sampled: [Figure; 3],
    /// Bytes summed alone over bytes of payload.
    pub(crate) alone: Figure,
    pub(crate) seam: Vec<TcpSeam>,
}

impl Shares {
    /// Where the stack sums by itself, out of sight of the seam.
    pub(crate) fn without_sums(mut self) -> Self {
        let unseen = |method| Figure::absent("1", Tier::Sw, method, UNSEEN);
        self.timed[0] = unseen(METHOD_TIMED);
        self.sampled[0] = unseen(METHOD_SAMPLED);
        self.alone = unseen(METHOD_ALONE);
        self
    }
}

/// Finds the shares in slices of a session, parts of so much work; by looking, if there is somebody
/// to look.
///
/// # Errors
/// The session fails.
pub(crate) fn shares(
    session: &mut Session,
    amount: u64,
    sampler: Option<&Sampler>,
) -> Result<Shares, Error> {
    let amount = (amount / PART).max(1);
    let turns = turns(session, amount)?;
    let looks = match sampler {
        Some(sampler) => looks(session, amount, sampler)?,
        None => Counts::default(),
    };
    let watched = turns.iter().map(|turn| &turn.watched[0]);
    let tallies = watched.clone().fold(Tallies::default(), |sum, w| sum + &w.tallies);
    let bytes = watched.map(|watched| watched.slice.bytes).sum();
    let costs = READINGS.map(empty_call_ticks);
    let routines: [fn(&Tallies) -> Tally; 3] =
        [|t| t.checksum.clone() + &t.header, |t| t.copy.clone(), |t| t.copy_checksum.clone()];
    Ok(Shares {
        timed: routines.map(|of| timed(&turns, of, costs)),
        sampled: [Activity::Checksum, Activity::Copy, Activity::CopyChecksum]
            .map(|what| looked(&looks, what)),
        alone: alone(&tallies, bytes),
        seam: seams(tallies),
    })
}

/// A slice as it always is, and one for each way of reading, with a watch on the calls.
struct Turn {
    plain: Slice,
    watched: [Watched; 2],
}

struct Watched {
    slice: Slice,
    tallies: Tallies,
}

impl Turn {
    fn is_clean(&self) -> bool {
        let watched = self.watched.iter().map(|watched| &watched.slice);
        watched.chain([&self.plain]).all(|slice| slice.dropped.is_none())
    }
}

/// Turns in which nothing else had the processor, if there are any.
fn turns(session: &mut Session, amount: u64) -> Result<Vec<Turn>, Error> {
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let plain = session.run(amount)?;
        let mut watched = |reading| {
            session.watch(Some(reading));
            let slice = session.run(amount)?;
            Ok(Watched { slice, tallies: session.tallies() })
        };
        turns.push(Turn { plain, watched: [watched(READINGS[0])?, watched(READINGS[1])?] });
        session.watch(None);
    }
    let any = turns.iter().any(Turn::is_clean);
    turns.retain(|turn| !any || turn.is_clean());
    Ok(turns)
}

fn timed(turns: &[Turn], of: fn(&Tallies) -> Tally, costs: [f64; 2]) -> Figure {
    let per_ns = ticks_per_s() / 1e9;
    let by = |which: usize| {
        let shares = turns.iter().map(|Turn { plain, watched }| {
            let Watched { slice, tallies } = &watched[which];
            let tally = of(tallies);
            let inside = (tally.ticks as f64 - costs[which] * tally.timed as f64).max(0.0);
            let whole = plain.cpu_ns as f64 * per_ns / plain.frames as f64;
            inside / slice.frames as f64 / whole
        });
        median_interval(&shares.collect::<Vec<_>>(), CONFIDENCE)
    };
    let (one, other) = (by(0), by(1));
    let estimate = Estimate {
        value: f64::midpoint(one.value, other.value),
        low: one.low.min(other.low),
        high: one.high.max(other.high),
        ..one
    };
    Figure::number("1", estimate, Tier::Sw, METHOD_TIMED)
}

/// How often a sampler saw what.
fn looks(session: &mut Session, amount: u64, sampler: &Sampler) -> Result<Counts, Error> {
    let mut sum = Counts::default();
    session.mark(Some(sampler.activity()));
    for _ in 0..SAMPLED {
        let before = sampler.counts();
        let slice = session.run(amount)?;
        if slice.dropped.is_none() {
            let seen = sampler.counts().into_iter().zip(before).map(|(now, then)| now - then);
            sum.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
        }
        if of_the_run(&sum) >= LOOKS {
            break;
        }
    }
    session.mark(None);
    Ok(sum)
}

fn of_the_run(counts: &Counts) -> u64 {
    counts[..Activity::Comparing as usize].iter().sum()
}

/// The share of an activity among what was seen of the run.
fn looked(counts: &Counts, what: Activity) -> Figure {
    let run = of_the_run(counts);
    if run < LOOKS_MIN {
        let reason = format!(
            "{run} looks at slices that had the processor, {LOOKS_MIN} are needed: leave a second \
             processor free"
        );
        return Figure::absent("1", Tier::Sw, METHOD_SAMPLED, &reason);
    }
    let (share, n) = (counts[what as usize] as f64 / run as f64, run as f64);
    let half = NORMAL_QUANTILE * (share * (1.0 - share) / n).sqrt();
    let (low, high) = ((share - half).max(0.0), (share + half).min(1.0));
    let estimate = Estimate { value: share, low, high, confidence: CONFIDENCE, n: run };
    Figure::number("1", estimate, Tier::Sw, METHOD_SAMPLED)
}

fn alone(tallies: &Tallies, bytes: u64) -> Figure {
    match bytes {
        0 => Figure::absent("1", Tier::Sw, METHOD_ALONE, "no payload is sent"),
        _ => {
            let summed = tallies.checksum.bytes + tallies.header.bytes;
            let share = summed as f64 / bytes as f64;
            Figure::exact("1", share, Tier::Sw, METHOD_ALONE)
        }
    }
}

fn seams(tallies: Tallies) -> Vec<TcpSeam> {
    let Tallies { checksum, copy, copy_checksum, header, copy_header } = tallies;
    let routines = [
        ("checksum", checksum),
        ("copy", copy),
        ("copy_checksum", copy_checksum),
        (SEAM_HEADER, header),
        (SEAM_COPY_HEADER, copy_header),
    ];
    let called = routines.into_iter().filter(|(_, tally)| tally.calls > 0);
    let seam = |(routine, tally): (&str, Tally)| TcpSeam {
        routine: routine.to_owned(),
        calls: tally.calls,
        bytes: tally.bytes,
        lengths: tally.lengths.to_vec(),
        alignments: tally.alignments.to_vec(),
    };
    called.map(seam).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the run: sums, copies, both, the stack; and looks between slices.
    const LOOKED: Counts = [300, 150, 50, 500, 9000];

    #[test]
    fn a_share_is_of_the_looks_at_the_run() {
        let share = looked(&LOOKED, Activity::Checksum);
        let expected = LOOKED[Activity::Checksum as usize] as f64 / 1000.0;
        assert_eq!((share.as_number(), share.n), (Some(expected), 1000));
        let (low, high) = (share.low.expect("an end"), share.high.expect("an end"));
        // 1.96 standard deviations of a share of 1,000 looks.
        let half = 1.96 * (expected * (1.0 - expected) / 1000.0).sqrt();
        assert!((expected - low - half).abs() < 1e-4 && (high - expected - half).abs() < 1e-4);
        let few = looked(&LOOKED.map(|count| count / 2), Activity::Checksum);
        assert_eq!(few.as_number(), None);
        assert!(few.reason.is_some_and(|reason| reason.starts_with("500 looks")));
    }

    /// A slice of 100 frames whose calls took as many ticks, of which an empty call 10.
    fn watched(ticks: u64) -> Watched {
        let slice = Slice { frames: 100, cpu_ns: 1, ..Slice::default() };
        let checksum = Tally { calls: 50, timed: 50, ticks, ..Tally::default() };
        Watched { slice, tallies: Tallies { checksum, ..Tallies::default() } }
    }

    #[test]
    fn a_timed_share_is_the_middle_of_both_readings_and_spans_them() {
        let per_ns = ticks_per_s() / 1e9;
        let plain_ticks = 100_000.0;
        let turn = || Turn {
            plain: Slice { frames: 50, cpu_ns: (plain_ticks / per_ns) as u64, ..Slice::default() },
            watched: [watched(60_500), watched(20_500)],
        };
        let turns: Vec<Turn> = (0..7).map(|_| turn()).collect();
        let share = timed(&turns, |tallies| tallies.checksum.clone(), [10.0, 10.0]);
        // 600 and 200 ticks per frame within calls, 2,000 per frame in all.
        let near = |figure: Option<f64>, expected: f64| {
            assert!(figure.is_some_and(|figure| (figure - expected).abs() < 1e-3), "{share:?}");
        };
        near(share.as_number(), 0.2);
        near(share.low, 0.1);
        near(share.high, 0.3);
    }
}
