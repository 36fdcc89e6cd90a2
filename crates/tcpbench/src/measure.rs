// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sets are worth to a stack under a pattern: slices of work in turns.
//!
//! ```text
//! for each set: some work over a rough wire; connect some times; find how much work fills a slice
//! until the time is up, in rounds: a slice of each set, in a new random order, each time of its
//!     next connection
//! for each set: which share of the time its routines take
//! throw away slices in which something else had the processor
//! for each connection: compare what is left, round by round
//! the median over the connections, and an interval from what they differ by
//! ```
//!
//! A slice is short, so that a round sees one state of the machine; ratios are taken within rounds.
//! Where the memory of a connection lies in the caches makes some per cent, and stays for as long
//! as it lives, however many rounds there are. So it is connections that an estimate is made from.

use crate::endpoint::{Checksums, Stack, WireMode};
use crate::error::Error;
use crate::pattern::Pattern;
use crate::proof::{ROUGH, little, prove};
use crate::routines::{DOCUMENT, OFF, Set};
use crate::sampling::Sampler;
use crate::session::{Session, Setup, Slice};
use crate::shares::{Shares, shares};
use crate::stream::Stream;
use linerate_linux::monotonic_ns;
use linerate_record::stats::{Estimate, median, median_interval};
use linerate_record::tcp::{TcpPattern, TcpProof, TcpSet, TcpWire};
use linerate_record::{Figure, Tier};
use std::rc::Rc;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.9;

/// Processor time of a slice: at most half of what a scheduler usually gives at once.
const SLICE_NS: u64 = 1_500_000;

/// How often an amount of work is tried before it is taken to fill a part of a slice.
const FILLING_TRIES: usize = 4;

/// Connections of each set, each with memory of its own: the least and the most of five are an
/// interval of 93.75 % for the median of all that could have been (`median_interval`).
const SESSIONS: usize = 5;

/// Slices below this share of the processor do not count.
pub(crate) const BUSY_PERMILLE: u16 = 960;

/// Undisturbed slices that a connection should have.
const SLICES_MIN: usize = 3;

const METHOD: &str = "client and server in one thread, processor time of the thread; median over \
                      connections of the median over slices of 1.5 ms, sets in random order";
const METHOD_RATIO: &str = "median over connections of the median over rounds of the ratio within \
                            the round";

/// What the caller may do meanwhile.
pub struct Watch<'a> {
    /// Asked between slices: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Told now and then: which share of the time of this pattern has passed.
    pub progress: &'a dyn Fn(f64),
}

/// A set on its way through the rounds.
struct Contestant {
    set: Set,
    connections: Vec<Connection>,
    /// Work of a slice.
    amount: u64,
}

struct Connection {
    session: Session,
    /// Each of its slices; `None` where something else had the processor.
    slices: Vec<Option<Slice>>,
}

impl Contestant {
    fn new(set: &Set, mut sessions: Vec<Session>) -> Result<Self, Error> {
        let amounts: Vec<u64> = sessions.iter_mut().map(filling).collect::<Result<_, _>>()?;
        let sessions = sessions.into_iter();
        let connections = sessions.map(|session| Connection { session, slices: Vec::new() });
        let amount = amounts.into_iter().max().unwrap_or(1);
        Ok(Self { set: *set, connections: connections.collect(), amount })
    }

    /// All slices, undisturbed or not.
    fn slices(&self) -> impl Iterator<Item = &Option<Slice>> {
        self.connections.iter().flat_map(|connection| &connection.slices)
    }
}

/// Measures some sets, whose routines were [checked](Set::check), under a pattern, for about so
/// many seconds; shares also by looking from another processor, if there is one.
///
/// # Errors
/// A session fails.
pub fn measure(
    setup: &Setup,
    stack: &dyn Stack,
    sets: &[Set],
    seconds: f64,
    watch: &Watch<'_>,
    sampler_cpu: Option<u32>,
) -> Result<TcpPattern, Error> {
    let proof = prove_all(setup, stack, sets)?;
    let stream = Rc::new(Stream::new(setup.seed, setup.buffer_octets()));
    let contestant = |set: &Set| {
        let session = |_| Session::new(setup, [stack, stack], set, &stream);
        Contestant::new(set, (0..SESSIONS).map(session).collect::<Result<_, _>>()?)
    };
    let mut contestants: Vec<Contestant> = sets.iter().map(contestant).collect::<Result<_, _>>()?;
    race(&mut contestants, setup.seed, seconds, watch)?;
    let sampler = sampler_cpu.map(|cpu| Sampler::new(cpu, setup.seed));
    let of_each = |c: &mut Contestant| {
        let shares = shares(&mut c.connections[0].session, c.amount, sampler.as_ref())?;
        let is_unseen = c.set.checksums() == Checksums::Stack && !stack.copies_by_routines();
        Ok(if is_unseen { shares.without_sums() } else { shares })
    };
    let all = contestants.iter_mut().map(of_each).collect::<Result<Vec<_>, _>>()?;
    let numbered = all.into_iter().enumerate();
    let rows = numbered.map(|(index, shares)| row(setup.pattern, &contestants, index, shares));
    let sets: Vec<TcpSet> = rows.collect();
    let slices: usize = contestants.iter().map(|c| c.slices().count()).sum();
    let kept: usize = contestants.iter().map(|c| c.slices().flatten().count()).sum();
    let is_mixed = setup.pattern == Pattern::Mixed;
    Ok(TcpPattern {
        name: setup.pattern.name().to_owned(),
        segment_octets: setup.segment as u64,
        buffer_octets: setup.buffer_octets() as u64,
        wire: match setup.wire {
            WireMode::Copy => TcpWire::Copy,
            WireMode::Reference => TcpWire::Reference,
        },
        mix: is_mixed.then(|| setup.mix.name().to_owned()),
        mix_source: is_mixed.then(|| setup.mix.source().to_owned()),
        proof,
        best: best(&sets),
        slices: slices as u64,
        slices_dropped: (slices - kept) as u64,
        sets,
    })
}

/// Sends some work of each set over a rough wire; the bound, which has no checksums, only over a
/// good one.
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

/// How much work fills a slice; warms everything up on the way.
pub(crate) fn filling(session: &mut Session) -> Result<u64, Error> {
    amount_filling(|amount| Ok(session.run(amount)?.cpu_ns))
}

/// The shortest of some tries counts: one that first touches its memory, or is interrupted, takes
/// any work for much, and slices of hardly any work are all beginning and end.
fn amount_filling(mut cpu_ns: impl FnMut(u64) -> Result<u64, Error>) -> Result<u64, Error> {
    let mut amount = 1;
    loop {
        let mut shortest = u64::MAX;
        for _ in 0..FILLING_TRIES {
            shortest = shortest.min(cpu_ns(amount)?);
        }
        if shortest > SLICE_NS / 4 {
            return Ok((amount * SLICE_NS / shortest).max(1));
        }
        amount *= 2;
    }
}

fn race(
    contestants: &mut [Contestant],
    seed: u64,
    seconds: f64,
    watch: &Watch<'_>,
) -> Result<(), Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    let (start, span) = (monotonic_ns(), (seconds * 1e9) as u64);
    for round in 0.. {
        let passed = monotonic_ns() - start;
        (watch.progress)((passed as f64 / span as f64).min(1.0));
        let kept = |c: &Connection| c.slices.iter().flatten().count() >= SLICES_MIN;
        let enough = contestants.iter().flat_map(|c| &c.connections).all(kept);
        // On a machine that others use, many slices are lost: half as long again for those.
        let is_over = passed > span && enough || passed > span + span / 2;
        if is_over && round >= SESSIONS * SLICES_MIN || (watch.stop)() {
            break;
        }
        random.shuffle(&mut order);
        for &which in &order {
            let contestant = &mut contestants[which];
            let connection = &mut contestant.connections[round % SESSIONS];
            let slice = connection.session.run(contestant.amount)?;
            let counts = slice.busy_permille >= BUSY_PERMILLE;
            connection.slices.push(counts.then_some(slice));
        }
    }
    Ok(())
}

/// The set with the most work per time, the bound left out.
fn best(sets: &[TcpSet]) -> Option<String> {
    let rate = |set: &TcpSet| set.segments_per_cpu_s.as_number();
    let rated = sets.iter().filter(|set| set.name != OFF).filter_map(|set| Some((rate(set)?, set)));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, set)| set.name.clone())
}

/// Everything about one set.
fn row(pattern: Pattern, all: &[Contestant], index: usize, shares: Shares) -> TcpSet {
    let contestant = &all[index];
    let per = |unit: &str, scale: f64, of: &dyn Fn(&Slice) -> u64| {
        rate(contestant, unit, scale, |slice| of(slice) as f64 / slice.cpu_ns as f64)
    };
    let no_octets = || absent("Gb/s", "no payload is sent");
    let no_exchange = |unit| absent(unit, "one direction only: nothing is waited for");
    let exchanged = matches!(pattern, Pattern::Interactive | Pattern::Response);
    let each = |unit, scale, of: &dyn Fn(&Slice) -> f64| match exchanged {
        true => rate(contestant, unit, scale, |slice| of(slice) / slice.exchanges as f64),
        false => no_exchange(unit),
    };
    let over = |name: &str| ratio(pattern, all, index, name);
    let [share_checksum, share_copy, share_copy_checksum] = shares.timed;
    let [sampled_checksum, sampled_copy, sampled_copy_checksum] = shares.sampled;
    TcpSet {
        name: contestant.set.name().to_owned(),
        gbps_per_cpu_s: match pattern {
            Pattern::Response => no_octets(),
            _ => per("Gb/s", 8.0, &|slice| slice.octets),
        },
        segments_per_cpu_s: per("1/s", 1e9, &|slice| slice.frames),
        exchanges_per_cpu_s: match pattern {
            Pattern::Bulk | Pattern::Jumbo => absent("1/s", "a stream has no exchanges"),
            _ => per("1/s", 1e9, &|slice| slice.exchanges),
        },
        ns_per_segment: rate(contestant, "ns", 1.0, |s| s.cpu_ns as f64 / s.frames as f64),
        round_trip_cpu_ns: each("ns", 1.0, &|slice| slice.cpu_ns as f64),
        round_trip_virtual_us: each("us", 1.0, &|slice| slice.virtual_us as f64),
        of_bound: over(OFF),
        over_c: over(DOCUMENT),
        over_scalar: over(Set::scalar()),
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

fn absent(unit: &str, reason: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, METHOD, reason)
}

/// A figure of each slice.
fn rate(of: &Contestant, unit: &str, scale: f64, figure: impl Fn(&Slice) -> f64) -> Figure {
    let figures = of.connections.iter().map(|connection| {
        connection.slices.iter().flatten().map(|slice| figure(slice) * scale).collect()
    });
    match over_connections(figures) {
        None => absent(unit, "in every slice something else had the processor"),
        Some(estimate) => Figure::number(unit, estimate, Tier::Sw, METHOD),
    }
}

/// Work per time over that of another set, round by round.
fn ratio(pattern: Pattern, all: &[Contestant], index: usize, other: &str) -> Figure {
    let none = |reason: &str| Figure::absent("1", Tier::Sw, METHOD_RATIO, reason);
    let Some(other) = all.iter().find(|contestant| contestant.set.name() == other) else {
        return none(&format!("set `{other}` did not take part"));
    };
    let time = |slice: &Slice| {
        let work = if pattern.is_about_octets() { slice.octets } else { slice.exchanges };
        slice.cpu_ns as f64 / work as f64
    };
    let ratios = all[index].connections.iter().zip(&other.connections).map(|(own, its)| {
        let rounds = own.slices.iter().zip(&its.slices);
        let both = rounds.filter_map(|(own, its)| Some((own.as_ref()?, its.as_ref()?)));
        both.map(|(own, its)| time(its) / time(own)).collect()
    });
    match over_connections(ratios) {
        None => none("in no round were both undisturbed"),
        Some(estimate) => Figure::number("1", estimate, Tier::Sw, METHOD_RATIO),
    }
}

/// From samples of each connection.
fn over_connections(samples: impl Iterator<Item = Vec<f64>>) -> Option<Estimate> {
    let medians: Vec<f64> = samples.filter_map(|samples| median(&samples)).collect();
    (!medians.is_empty()).then(|| median_interval(&medians, CONFIDENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_filled_with_work_whatever_comes_between() {
        const NS_PER_OCTET: u64 = 3;
        for disturbed in 0..100 {
            let mut tries = 0;
            let amount = amount_filling(|amount| {
                tries += 1;
                let of_others = if tries - 1 == disturbed { SLICE_NS } else { 0 };
                Ok(amount * NS_PER_OCTET + of_others)
            });
            let cpu_ns = amount.expect("no session fails") * NS_PER_OCTET;
            assert!(cpu_ns.abs_diff(SLICE_NS) <= NS_PER_OCTET, "{disturbed}: {cpu_ns} ns");
        }
    }

    /// Connections that differ by more than their slices do, as they are.
    #[test]
    fn intervals_hold_what_other_connections_would_have_given() {
        const TRIALS: usize = 4000;
        let mut random = fastrand::Rng::with_seed(1);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut held = 0;
        for _ in 0..TRIALS {
            let connections: Vec<Vec<f64>> = (0..SESSIONS)
                .map(|_| {
                    let own = 1.0 + 0.02 * normal();
                    (0..20).map(|_| own * (1.0 + 0.01 * normal())).collect()
                })
                .collect();
            let estimate = over_connections(connections.into_iter()).expect("there are samples");
            held += usize::from(estimate.low <= 1.0 && 1.0 <= estimate.high);
        }
        // Four standard deviations below 93.75 %.
        assert!(held as f64 >= (0.9375 - 0.0153) * TRIALS as f64, "{held} of {TRIALS}");
    }
}
