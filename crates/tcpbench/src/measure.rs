// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sets are worth to a stack under a pattern: slices of work in turns.
//!
//! ```text
//! for each set: some work over a rough wire; connect; find how much work fills a slice
//! until the time is up, in rounds: a slice of each set, in a new random order
//! for each set: which share of the time its routines take
//! throw away slices in which something else had the processor
//! compare what is left, round by round
//! ```
//!
//! A slice is short, so that a round sees one state of the machine; ratios are taken within rounds.

use crate::endpoint::{Stack, WireMode};
use crate::error::Error;
use crate::pattern::Pattern;
use crate::proof::{ROUGH, little, prove};
use crate::routines::{DOCUMENT, OFF, Set};
use crate::sampling::Sampler;
use crate::session::{Session, Setup, Slice};
use crate::shares::{Shares, shares};
use crate::stream::Stream;
use linerate_linux::monotonic_ns;
use linerate_record::stats::{median_interval, paired_ratio};
use linerate_record::tcp::{TcpPattern, TcpProof, TcpSet, TcpWire};
use linerate_record::{Figure, Tier};
use std::rc::Rc;

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.9;

/// Processor time of a slice: at most half of what a scheduler usually gives at once.
const SLICE_NS: u64 = 1_500_000;

/// How often an amount of work is tried before it is taken to fill a part of a slice.
const FILLING_TRIES: usize = 4;

/// Slices below this share of the processor do not count.
pub(crate) const BUSY_PERMILLE: u16 = 960;

/// Rounds that an interval needs.
const ROUNDS_MIN: usize = 8;

const METHOD: &str = "client and server in one thread, processor time of the thread, median over \
                      rounds of slices of 1.5 ms, sets in random order";
const METHOD_RATIO: &str = "median over rounds of the ratio within the round";
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
    session: Session,
    /// Work of a slice.
    amount: u64,
    /// A slice per round; `None` where something else had the processor.
    rounds: Vec<Option<Slice>>,
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
    let stream = Rc::new(Stream::new(setup.seed));
    let contestant = |set: &Set| {
        let mut session = Session::new(setup, [stack, stack], set, &stream)?;
        let amount = filling(&mut session)?;
        Ok(Contestant { set: *set, session, amount, rounds: Vec::new() })
    };
    let mut contestants: Vec<Contestant> = sets.iter().map(contestant).collect::<Result<_, _>>()?;
    race(&mut contestants, setup.seed, seconds, watch)?;
    let sampler = sampler_cpu.map(|cpu| Sampler::new(cpu, setup.seed));
    let of_each = |c: &mut Contestant| shares(&mut c.session, c.amount, sampler.as_ref());
    let all = contestants.iter_mut().map(of_each).collect::<Result<Vec<_>, _>>()?;
    let numbered = all.into_iter().enumerate();
    let rows = numbered.map(|(index, shares)| row(setup.pattern, &contestants, index, shares));
    let sets: Vec<TcpSet> = rows.collect();
    let slices = contestants.iter().map(|c| c.rounds.len() as u64).sum();
    let kept: usize = contestants.iter().map(|c| c.rounds.iter().flatten().count()).sum();
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
        slices,
        slices_dropped: slices - kept as u64,
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
        let kept = |c: &Contestant| c.rounds.iter().flatten().count() >= ROUNDS_MIN;
        let enough = contestants.iter().all(kept);
        // On a machine that others use, many slices are lost: half as long again for those.
        let is_over = passed > span && enough || passed > span + span / 2;
        if is_over && round >= ROUNDS_MIN || (watch.stop)() {
            break;
        }
        random.shuffle(&mut order);
        for &which in &order {
            let contestant = &mut contestants[which];
            let slice = contestant.session.run(contestant.amount)?;
            let counts = slice.busy_permille >= BUSY_PERMILLE;
            contestant.rounds.push(counts.then_some(slice));
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

/// A figure of each slice, its median over the rounds.
fn rate(of: &Contestant, unit: &str, scale: f64, figure: impl Fn(&Slice) -> f64) -> Figure {
    let kept: Vec<f64> = of.rounds.iter().flatten().map(|slice| figure(slice) * scale).collect();
    if kept.is_empty() {
        return absent(unit, "in every slice something else had the processor");
    }
    Figure::number(unit, median_interval(&kept, CONFIDENCE), Tier::Sw, METHOD)
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
    let pairs = all[index].rounds.iter().zip(&other.rounds);
    let times = pairs.filter_map(|(own, its)| Some((time(own.as_ref()?), time(its.as_ref()?))));
    let (own, its): (Vec<f64>, Vec<f64>) = times.unzip();
    if own.is_empty() {
        return none("in no round were both undisturbed");
    }
    Figure::number("1", paired_ratio(&own, &its, CONFIDENCE), Tier::Sw, METHOD_RATIO)
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
}
