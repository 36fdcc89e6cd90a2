// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the fraction of the run time spent in checksums and copies by two methods, which share
//! only the seam, so that a disagreement reveals an error in one of them.
//!
//! ```text
//! timed:   rounds in random order of one unmodified slice, and two that read the counter around
//!          each call, with serializing and with non-serializing reads
//!          share = (time of the calls - time of empty calls) per frame
//!                / time of the unmodified slice per frame, in rounds in which neither was
//!                preempted; the interval extends from the lower to the higher of both
//! sampled: slices in which the seam marks the running routine, sampled from another CPU
//!          share = samples within the routine / samples within the run
//! ```
//!
//! Timing a call slows down the surrounding code, so the total comes from slices without timing. An
//! out-of-order core overlaps instructions, so neither kind of read is exact. Serializing reads
//! delay code that would otherwise overlap with the call, so the measured time is too long. With
//! non-serializing reads, the call continues past the second read, and most of a copy is missed.
//! The true time is in between: the figure is the midpoint of the two, and its interval extends
//! from one to the other.
//!
//! The sampler sees a new mark only once all earlier stores have completed, so sampling attributes
//! memory stalls to the stores that cause them.

use crate::error::Error;
use crate::routines::{Activity, Reading, Tallies, Tally, empty_call_ticks};
use crate::sampling::{Counts, Sampler};
use crate::session::{Session, Slice};
use linerate_machine::ticks::ticks_per_s;
use linerate_record::stats::{CONFIDENCE, Estimate, sampled_share};
use linerate_record::tcp::{SEAM_COPY_HEADER, SEAM_HEADER, TcpSeam};
use linerate_record::{Figure, Tier};
use linerate_trial::{Length, Machine, Rules, Samples, Watch, rounds};

/// Divisor for the amount of work per slice. Shorter slices are less likely to be preempted.
pub(crate) const PART: u64 = 6;

/// Number of rounds. Each has a slice for each way of reading the counter.
pub(crate) const ROUNDS: u32 = 24;

const READINGS: [Reading; 2] = [Reading::Waiting, Reading::Passing];

/// Index of the contestant that times no calls; one contestant for each of [`READINGS`] follows.
const PLAIN: usize = 0;
const CONTESTANTS: [&str; 3] = ["no readings", "serializing reads", "non-serializing reads"];

/// Minimum number of samples for a share. Its interval then extends less than 4 percentage points
/// either way.
const LOOKS_MIN: u64 = 750;
/// Number of samples after which sampling ends.
const LOOKS: u64 = 2500;

/// Maximum number of slices in which samples are collected.
const SAMPLED: usize = 200;

const METHOD_TIMED: &str = "time per frame spent in calls to the routines, divided by the time per \
                            frame in slices where calls are not timed; each call is timed with the \
                            timestamp counter, less the cost of timing an empty call; midpoint of \
                            serializing and non-serializing reads, medians over rounds";
const METHOD_SAMPLED: &str = "the running routine, sampled at random times from another CPU, in \
                              slices that were not preempted; Wilson score interval";
const METHOD_ALONE: &str = "bytes checksummed by calls to the routines and inline in headers, \
                            divided by the payload of the same slices";

const PREEMPTED: &str = "no round in which both slices were clean (not preempted)";

const UNSEEN: &str = "the stack computes checksums itself, without calling the routines";

/// Time shares of a set's checksums, copies, and copies with checksum.
pub(crate) struct Shares {
    pub(crate) timed: [Figure; 3],
    pub(crate) sampled: [Figure; 3],
    /// Number of bytes checksummed without a copy, divided by the number of payload bytes.
    pub(crate) alone: Figure,
    pub(crate) seam: Vec<TcpSeam>,
}

impl Shares {
    /// Removes the checksum figures: the stack computes checksums itself, bypassing the seam.
    pub(crate) fn without_sums(mut self) -> Self {
        let unseen = |method| Figure::absent("1", Tier::Sw, method, UNSEEN);
        self.timed[0] = unseen(METHOD_TIMED);
        self.sampled[0] = unseen(METHOD_SAMPLED);
        self.alone = unseen(METHOD_ALONE);
        self
    }
}

/// Measures the shares by timing calls in slices of a session, each a fraction of `amount`, and
/// also by sampling if there is a sampler. `seed` determines the slice order.
///
/// # Errors
/// Returns an error if the session fails.
pub(crate) fn shares(
    session: &mut Session,
    amount: u64,
    sampler: Option<&Sampler>,
    seed: u64,
) -> Result<Shares, Error> {
    let amount = (amount / PART).max(1);
    let Called { slices, tallies, bytes } = called(session, amount, seed)?;
    let looks = match sampler {
        Some(sampler) => looks(session, amount, sampler)?,
        None => Counts::default(),
    };
    let costs = READINGS.map(empty_call_ticks);
    let routines: [fn(&Tallies) -> Tally; 3] =
        [|t| t.checksum.clone() + &t.header, |t| t.copy.clone(), |t| t.copy_checksum.clone()];
    Ok(Shares {
        timed: routines.map(|of| timed(&slices, of, costs)),
        sampled: [Activity::Checksum, Activity::Copy, Activity::CopyChecksum]
            .map(|what| looked(&looks, what)),
        alone: alone(&tallies, bytes),
        seam: seams(tallies),
    })
}

/// A slice, with the statistics of its calls to routines; a plain slice has none.
struct Watched {
    /// Index into [`CONTESTANTS`].
    contestant: usize,
    slice: Slice,
    tallies: Tallies,
}

/// The slices of all rounds, and the call statistics for one way of reading the counter. The
/// statistics include dropped slices, because preemption does not change the number and kind of
/// calls.
struct Called {
    slices: Samples<Watched>,
    tallies: Tallies,
    /// Number of payload bytes in the slices that `tallies` covers.
    bytes: u64,
}

fn called(session: &mut Session, amount: u64, seed: u64) -> Result<Called, Error> {
    let rules = Rules {
        what: "shares",
        contestants: &CONTESTANTS,
        placements: 1,
        length: Length::Rounds(ROUNDS),
        seed,
    };
    let (mut tallies, mut bytes) = (Tallies::default(), 0);
    let slices = rounds(&rules, &Machine::kernel(), &Watch::unattended(), |turn| {
        let contestant = turn.contestant;
        session.watch(contestant.checked_sub(1).map(|which| READINGS[which]));
        let slice = session.run(amount)?;
        let seen = session.tallies();
        if contestant == 1 {
            tallies = std::mem::take(&mut tallies) + &seen;
            bytes += slice.bytes;
        }
        let watched = Watched { contestant, slice, tallies: seen };
        Ok::<_, Error>(slice.dropped.map_or(Ok(watched), Err))
    })?;
    session.watch(None);
    Ok(Called { slices, tallies, bytes })
}

fn timed(slices: &Samples<Watched>, of: fn(&Tallies) -> Tally, costs: [f64; 2]) -> Figure {
    let per_ns = ticks_per_s() / 1e9;
    let ticks_per_frame = slices.map(|Watched { contestant, slice, tallies }| {
        let ticks = match contestant.checked_sub(1) {
            None => slice.cpu_ns as f64 * per_ns,
            Some(which) => {
                let tally = of(tallies);
                (tally.ticks as f64 - costs[which] * tally.timed as f64).max(0.0)
            }
        };
        ticks / slice.frames as f64
    });
    let by = |which: usize| ticks_per_frame.ratio(which + 1, PLAIN, CONFIDENCE);
    let Some((one, other)) = by(0).zip(by(1)) else {
        return Figure::absent("1", Tier::Sw, METHOD_TIMED, PREEMPTED);
    };
    let estimate = Estimate {
        value: f64::midpoint(one.value, other.value),
        low: one.low.min(other.low),
        high: one.high.max(other.high),
        ..one
    };
    Figure::number("1", estimate, Tier::Sw, METHOD_TIMED)
}

/// Runs the session while the sampler takes samples. Returns the number of samples per activity.
fn looks(session: &mut Session, amount: u64, sampler: &Sampler) -> Result<Counts, Error> {
    let mut sum = Counts::default();
    session.mark(Some(sampler.activity()));
    let _sampling = sampler.sample();
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

/// Returns an activity's fraction of the samples taken while the measured work ran.
fn looked(counts: &Counts, what: Activity) -> Figure {
    let run = of_the_run(counts);
    if run < LOOKS_MIN {
        let reason = format!(
            "only {run} samples fell into slices that were not preempted, but at least \
             {LOOKS_MIN} are needed: leave a second CPU free"
        );
        return Figure::absent("1", Tier::Sw, METHOD_SAMPLED, &reason);
    }
    let share = sampled_share(counts[what as usize], run);
    Figure::number("1", share, Tier::Sw, METHOD_SAMPLED)
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
    use linerate_trial::Dropped;

    /// Synthetic numbers of samples: in the stack, checksums, copies, and copies with checksum of
    /// the run; then between slices.
    const LOOKED: Counts = [300, 150, 50, 500, 9000];

    #[test]
    fn a_share_is_of_the_looks_at_the_run() {
        let share = looked(&LOOKED, Activity::Checksum);
        let expected = LOOKED[Activity::Checksum as usize] as f64 / 1000.0;
        assert_eq!((share.as_number(), share.n), (Some(expected), 1000));
        let (low, high) = (share.low.expect("an end"), share.high.expect("an end"));
        // 1.96 standard deviations of a share from 1,000 samples; Wilson's interval is shifted
        // towards one half.
        let half = 1.96 * (expected * (1.0 - expected) / 1000.0).sqrt();
        assert!((expected - low - half).abs() < 2e-3 && (high - expected - half).abs() < 2e-3);
        // An activity without samples may still take some time.
        let mut unseen = LOOKED;
        unseen[Activity::Checksum as usize] = 0;
        let none = looked(&unseen, Activity::Checksum);
        assert_eq!((none.as_number(), none.low), (Some(0.0), Some(0.0)));
        assert!(none.high > Some(0.003) && none.high < Some(0.006), "{none:?}");
        let few = looked(&LOOKED.map(|count| count / 2), Activity::Checksum);
        assert_eq!(few.as_number(), None);
        assert!(few.reason.is_some_and(|reason| reason.starts_with("only 500 samples")));
    }

    /// Returns a slice of 100 frames whose 50 calls took `ticks` ticks in total; an empty call
    /// takes 10.
    fn watched(contestant: usize, ticks: u64) -> Watched {
        let slice = Slice { frames: 100, cpu_ns: 1, ..Slice::default() };
        let checksum = Tally { calls: 50, timed: 50, ticks, ..Tally::default() };
        Watched { contestant, slice, tallies: Tallies { checksum, ..Tallies::default() } }
    }

    /// Returns a slice of 50 frames that took 100,000 ticks.
    fn plain() -> Watched {
        let cpu_ns = (100_000.0 / (ticks_per_s() / 1e9)) as u64;
        let slice = Slice { frames: 50, cpu_ns, ..Slice::default() };
        Watched { contestant: PLAIN, slice, tallies: Tallies::default() }
    }

    /// Returns the checksum share from seven rounds, without the slices for which `is_dropped`
    /// returns true.
    fn share(is_dropped: impl Fn(usize, usize) -> bool) -> Figure {
        let of = |contestant: usize, slice: &dyn Fn() -> Watched| {
            let keep = |round| match is_dropped(contestant, round) {
                true => Err(Dropped::Switched),
                false => Ok(slice()),
            };
            (0..7).map(keep).collect()
        };
        let all = vec![of(0, &plain), of(1, &|| watched(1, 60_500)), of(2, &|| watched(2, 20_500))];
        timed(&Samples::new(all, 1), |tallies| tallies.checksum.clone(), [10.0, 10.0])
    }

    #[test]
    fn a_timed_share_is_the_middle_of_both_readings_and_spans_them() {
        let share = share(|_, _| false);
        // 600 and 200 ticks per frame within calls, out of 2,000 per frame in total.
        let near = |figure: Option<f64>, expected: f64| {
            assert!(figure.is_some_and(|figure| (figure - expected).abs() < 1e-3), "{share:?}");
        };
        near(share.as_number(), 0.2);
        near(share.low, 0.1);
        near(share.high, 0.3);
        assert_eq!(share.n, 7);
    }

    #[test]
    fn shares_use_only_rounds_without_preemption() {
        assert_eq!(share(|contestant, round| contestant == 2 && round < 1).n, 7);
        assert_eq!(share(|contestant, round| contestant == 1 && round < 1).n, 6);
        for of_each in [
            |_: usize, _: usize| true,
            |contestant: usize, _: usize| contestant == PLAIN,
            |contestant: usize, _: usize| contestant == 2,
            |contestant: usize, round: usize| (contestant == PLAIN) == round.is_multiple_of(2),
        ] {
            let share = share(of_each);
            assert_eq!((share.as_number(), share.reason.as_deref()), (None, Some(PREEMPTED)));
        }
    }
}
