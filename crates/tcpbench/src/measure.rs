// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how much each routine set speeds up a stack under a traffic pattern, with interleaved
//! slices of work.
//!
//! ```text
//! for each set: do some work over an impaired wire; open some connections; find the amount of work
//!     that fills a slice
//! until the time is up, in rounds: a slice of each set, in a new random order, on the set's next
//!     connection
//!     drop slices that are not clean windows
//! for each set: measure the time share of its routines
//! for each connection: compare the remaining slices round by round
//! median over the connections, with an interval from the variation between them
//! ```
//!
//! Slices are short, so that the machine's state changes little during a round; ratios are computed
//! within rounds. The cache placement of a connection's memory changes results by a few percent and
//! persists for the connection's lifetime, regardless of the number of rounds. The estimates are
//! therefore medians over connections.

use crate::endpoint::{Checksums, Stack, WireMode};
use crate::error::Error;
use crate::pattern::Pattern;
use crate::proof::{ROUGH, little, prove};
use crate::routines::{DOCUMENT, OFF, Set};
use crate::sampling::Sampler;
use crate::session::{Session, Setup, Slice};
use crate::shares::{Shares, shares};
use crate::stream::Stream;
use linerate_record::stats::CONFIDENCE;
use linerate_record::tcp::{TcpPattern, TcpProof, TcpSet, TcpWire};
use linerate_record::{Figure, Tier};
use linerate_trial::{Fill, Length, Machine, Rules, Samples, Watch, rounds};
use std::rc::Rc;

/// CPU time per slice: at most half of a typical scheduler time slice.
const SLICE_NS: u64 = 1_500_000;

/// Maximum number of attempts to find the amount of work that fills a slice.
const FILLING_TRIES: u32 = 4;

/// Number of connections per set, each with its own memory. The minimum and maximum of six values
/// enclose the median over all possible connections with a confidence of 96.9 %
/// (`median_interval`).
const SESSIONS: u32 = 6;

/// Minimum number of clean slices per connection.
const SLICES_MIN: u32 = 3;

const METHOD: &str = "CPU time of the thread that runs client and server; 1.5 ms slices, with sets \
                      in random order; median over slices, then over connections";
const METHOD_RATIO: &str = "ratio within each round; median over rounds, then over connections";

/// A set and its measurements.
struct Contestant {
    set: Set,
    /// Connections, each with its own memory.
    sessions: Vec<Session>,
    /// Amount of work per slice: bytes, exchanges or connections.
    amount: u64,
}

impl Contestant {
    fn new(set: &Set, mut sessions: Vec<Session>) -> Result<Self, Error> {
        let amounts: Vec<u64> = sessions.iter_mut().map(filling).collect::<Result<_, _>>()?;
        Ok(Self { set: *set, sessions, amount: amounts.into_iter().max().unwrap_or(1) })
    }
}

/// The slices of all sets, measured under one pattern.
struct Race<'a> {
    pattern: Pattern,
    sets: &'a [Set],
    slices: Samples<Slice>,
}

/// Measures sets under a pattern for about `seconds` seconds. The sets must have been
/// [checked](Set::check). Shares are also sampled from another CPU, if available.
///
/// # Errors
/// Returns an error if a session fails.
pub fn measure(
    setup: &Setup,
    stack: &dyn Stack,
    sets: &[Set],
    seconds: f64,
    watch: &Watch<'_>,
    sampler_cpu: Option<u32>,
) -> Result<TcpPattern, Error> {
    let proof = prove_all(setup, stack, sets)?;
    let stream = Rc::new(Stream::new(setup.seed, setup.buffer_bytes()));
    let contestant = |set: &Set| {
        let session = |_| Session::new(setup, [stack, stack], set, &stream);
        Contestant::new(set, (0..SESSIONS).map(session).collect::<Result<_, _>>()?)
    };
    let mut contestants: Vec<Contestant> = sets.iter().map(contestant).collect::<Result<_, _>>()?;
    let slices = race(setup, &mut contestants, seconds, watch)?;
    let race = Race { pattern: setup.pattern, sets, slices };
    let sampler = sampler_cpu.and_then(|cpu| Sampler::new(cpu, setup.seed));
    let of_each = |c: &mut Contestant| {
        let shares = shares(&mut c.sessions[0], c.amount, sampler.as_ref(), setup.seed)?;
        let is_unseen = c.set.checksums() == Checksums::Stack && !stack.copies_by_routines();
        Ok(if is_unseen { shares.without_sums() } else { shares })
    };
    let all = contestants.iter_mut().map(of_each).collect::<Result<Vec<_>, _>>()?;
    let numbered = all.into_iter().enumerate();
    let rows: Vec<TcpSet> = numbered.map(|(index, shares)| race.row(index, shares)).collect();
    let counts = race.slices.counts();
    let is_mixed = setup.pattern == Pattern::Mixed;
    Ok(TcpPattern {
        name: setup.pattern.name().to_owned(),
        segment_bytes: setup.segment as u64,
        buffer_bytes: setup.buffer_bytes() as u64,
        wire: match setup.wire {
            WireMode::Copy => TcpWire::Copy,
            WireMode::Reference => TcpWire::Reference,
        },
        mix: is_mixed.then(|| setup.mix.name().to_owned()),
        mix_source: is_mixed.then(|| setup.mix.source().to_owned()),
        proof,
        best: best(&rows),
        slices: counts.total,
        slices_dropped: counts.total - counts.kept(),
        sets: rows,
    })
}

/// Runs some work with each set over an impaired wire, to check that all data arrives unchanged.
/// The set without checksums runs only over a clean wire.
fn prove_all(setup: &Setup, stack: &dyn Stack, sets: &[Set]) -> Result<TcpProof, Error> {
    let mut last = TcpProof::default();
    for set in sets {
        let amount = little(setup.pattern);
        if set.name() == OFF {
            prove(setup, [stack, stack], set, amount)?;
        } else {
            let rough = Setup { impairments: ROUGH, ..setup.clone() };
            last = prove(&rough, [stack, stack], set, amount)?;
        }
    }
    Ok(last)
}

/// Determines how much work fills a slice, and warms caches and predictors in the process.
pub(crate) fn filling(session: &mut Session) -> Result<u64, Error> {
    let fill =
        Fill { window: SLICE_NS as f64, multiple: 1, at_most: u64::MAX, tries: FILLING_TRIES };
    linerate_trial::filling(&fill, |amount| Ok(session.run(amount)?.cpu_ns as f64))
}

fn race(
    setup: &Setup,
    contestants: &mut [Contestant],
    seconds: f64,
    watch: &Watch<'_>,
) -> Result<Samples<Slice>, Error> {
    let sets: Vec<Set> = contestants.iter().map(|contestant| contestant.set).collect();
    let rules = Rules {
        what: setup.pattern.name(),
        contestants: &sets.iter().map(Set::name).collect::<Vec<_>>(),
        placements: SESSIONS,
        length: Length::Time { ns: (seconds * 1e9) as u64, kept: SLICES_MIN },
        seed: setup.seed,
    };
    rounds(&rules, &Machine::kernel(), watch, |turn| {
        let Contestant { sessions, amount, .. } = &mut contestants[turn.contestant];
        let slice = sessions[turn.placement as usize].run(*amount)?;
        Ok(slice.dropped.map_or(Ok(slice), Err))
    })
}

/// Returns the name of the fastest set, excluding the set without checksums.
fn best(sets: &[TcpSet]) -> Option<String> {
    let rate = |set: &TcpSet| set.segments_per_cpu_s.as_number();
    let rated = sets.iter().filter(|set| set.name != OFF).filter_map(|set| Some((rate(set)?, set)));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, set)| set.name.clone())
}

impl Race<'_> {
    /// Builds a set's record from its slices.
    fn row(&self, index: usize, shares: Shares) -> TcpSet {
        let per = |unit: &str, scale: f64, of: &dyn Fn(&Slice) -> u64| {
            self.rate(index, unit, scale, |slice| of(slice) as f64 / slice.cpu_ns as f64)
        };
        let no_bytes = || absent("Gb/s", "no payload is sent");
        let no_exchange = |unit| absent(unit, "one direction only: no round trips");
        let exchanged = matches!(self.pattern, Pattern::Interactive | Pattern::Response);
        let each = |unit, of: &dyn Fn(&Slice) -> f64| match exchanged {
            true => self.rate(index, unit, 1.0, |slice| of(slice) / slice.exchanges as f64),
            false => no_exchange(unit),
        };
        let [share_checksum, share_copy, share_copy_checksum] = shares.timed;
        let [sampled_checksum, sampled_copy, sampled_copy_checksum] = shares.sampled;
        TcpSet {
            name: self.sets[index].name().to_owned(),
            gbps_per_cpu_s: match self.pattern {
                Pattern::Response => no_bytes(),
                _ => per("Gb/s", 8.0, &|slice| slice.bytes),
            },
            segments_per_cpu_s: per("1/s", 1e9, &|slice| slice.frames),
            exchanges_per_cpu_s: match self.pattern {
                Pattern::Bulk | Pattern::Jumbo => absent("1/s", "a stream has no exchanges"),
                _ => per("1/s", 1e9, &|slice| slice.exchanges),
            },
            ns_per_segment: self.rate(index, "ns", 1.0, |s| s.cpu_ns as f64 / s.frames as f64),
            round_trip_cpu_ns: each("ns", &|slice| slice.cpu_ns as f64),
            round_trip_virtual_us: each("us", &|slice| slice.virtual_us as f64),
            of_bound: self.ratio(index, OFF),
            over_c: self.ratio(index, DOCUMENT),
            over_scalar: self.ratio(index, Set::scalar()),
            share_checksum,
            share_copy,
            share_copy_checksum,
            sampled_checksum,
            sampled_copy,
            sampled_copy_checksum,
            checksum_per_payload: shares.alone,
            seam: shares.seam,
        }
    }

    /// Estimates a rate from the clean slices, each of which gives one value.
    fn rate(&self, of: usize, unit: &str, scale: f64, figure: impl Fn(&Slice) -> f64) -> Figure {
        let figures = self.slices.map(|slice| figure(slice) * scale);
        match figures.estimate(of, CONFIDENCE) {
            None => absent(unit, "every slice was preempted"),
            Some(estimate) => Figure::number(unit, estimate, Tier::Sw, METHOD),
        }
    }

    /// Returns the ratio of this set's rate to that of the set `other`, computed round by round.
    fn ratio(&self, index: usize, other: &str) -> Figure {
        let none = |reason: &str| Figure::absent("1", Tier::Sw, METHOD_RATIO, reason);
        let Some(other) = self.sets.iter().position(|set| set.name() == other) else {
            return none(&format!("set `{other}` was not measured"));
        };
        let times = self.slices.map(|slice| {
            let is_about_bytes = self.pattern.is_about_bytes();
            let work = if is_about_bytes { slice.bytes } else { slice.exchanges };
            slice.cpu_ns as f64 / work as f64
        });
        match times.ratio(other, index, CONFIDENCE) {
            None => none("no round in which both slices were clean (not preempted)"),
            Some(estimate) => Figure::number("1", estimate, Tier::Sw, METHOD_RATIO),
        }
    }
}

fn absent(unit: &str, reason: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, METHOD, reason)
}
