// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes hardware events per packet from the counted iterations of a worker.

use super::estimate::{SEED, WINDOWS_MIN};
use crate::counting::CountedTurns;
use crate::ended::Ended;
use linerate_record::run::CountedEvents;
use linerate_record::stats::{CONFIDENCE, Estimate, block_bootstrap_ratio};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Returns the requested events and how their counters were read; `None` if no events were
/// requested. All workers open the same events on the same machine, so the first worker that has
/// counts stands for all of them.
pub(super) fn counted(ended: &[Ended<'_>]) -> Option<CountedEvents> {
    let got_any = |worker: &&Ended<'_>| worker.readings.counted.is_some();
    let first = ended.iter().find(got_any).or(ended.first())?;
    if first.counted.is_empty() {
        return None;
    }
    let turns = first.readings.counted.as_ref();
    Some(CountedEvents {
        reading: turns.map(|turns| turns.reading.to_owned()),
        one_iteration_in: turns.map_or(0, |turns| turns.one_iteration_in),
        events: first.counted.clone(),
    })
}

/// Returns a part's events per packet and cycles per instruction; `None` if the worker has no
/// counts.
pub(super) fn of_part(ended: &Ended<'_>, part: usize) -> Option<BTreeMap<String, Figure>> {
    let turns = ended.readings.counted.as_ref()?;
    let opened = ended.counted.iter().zip(&turns.tiers).enumerate();
    let opened: Vec<(usize, &str, Tier)> = opened
        .filter_map(|(index, (event, tier))| Some((index, event.name.as_str(), (*tier)?)))
        .collect();
    let packets = turns.packets(part);
    let mut figures: BTreeMap<String, Figure> = opened
        .iter()
        .map(|&(index, name, tier)| {
            let counts = turns.counts(part, index);
            (name.to_owned(), ratio(&counts, &packets, &format!("{name}/packet"), tier, turns))
        })
        .collect();
    let place = |wanted: &str| opened.iter().find(|(_, name, _)| *name == wanted);
    if let (Some(&(cycles, _, tier)), Some(&(instructions, ..))) =
        (place("cycles"), place("instructions"))
    {
        let (above, under) = (turns.counts(part, cycles), turns.counts(part, instructions));
        figures.insert("cpi".to_owned(), ratio(&above, &under, "cycles/instruction", tier, turns));
    }
    Some(figures)
}

/// Returns the sum of `above` divided by the sum of `under`, with its confidence interval.
fn ratio(above: &[f64], under: &[f64], unit: &str, tier: Tier, turns: &CountedTurns) -> Figure {
    let method = format!("one iteration in {}, {}", turns.one_iteration_in, turns.reading);
    if under.len() < WINDOWS_MIN {
        let reason = match turns.broken {
            0 => format!("only {} iterations were counted; run longer", under.len()),
            lost => format!(
                "only {} samples are valid: another user of the PMU held the counters during \
                 {lost} iterations",
                under.len()
            ),
        };
        return Figure::absent(unit, tier, &method, &reason);
    }
    let base: f64 = under.iter().sum();
    if base <= 0.0 {
        let reason = "the counts do not exceed the overhead of reading the counters; run longer";
        return Figure::absent(unit, tier, &method, reason);
    }
    let ratio = block_bootstrap_ratio(above, under, CONFIDENCE, SEED);
    Figure::number(unit, never_negative(ratio, base), tier, &method)
}

/// Clamps an estimate to at least 0: the subtraction of the read overhead can make it negative by
/// chance. If no event was counted at all, the upper bound is 3.7 divided by `base`, the sum of the
/// denominators: with 3.7 expected events, the probability of counting none is 2.5 %.
fn never_negative(ratio: Estimate, base: f64) -> Estimate {
    // `f64::max` would turn NaN into 0.
    let cut = |end: f64| if end < 0.0 { 0.0 } else { end };
    let Estimate { value, low, high, .. } = ratio;
    let none_seen = -((1.0 - CONFIDENCE) / 2.0).ln() / base;
    let high = if high <= 0.0 { none_seen } else { high };
    Estimate { value: cut(value), low: cut(low), high, ..ratio }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::CountedTurns;
    use linerate_record::Scalar;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high, confidence: CONFIDENCE, n: 9 }
    }

    #[test]
    fn unseen_events_have_an_upper_bound_and_negative_counts_are_hidden() {
        let none = never_negative(estimate(0.0, 0.0, 0.0), 1000.0);
        assert_eq!((none.value, none.low), (0.0, 0.0));
        // exp(-3.69) = 0.025
        assert!((none.high - 0.003_69).abs() < 1e-5, "{none:?}");
        let around = never_negative(estimate(-0.1, -0.4, 0.2), 1000.0);
        assert_eq!((around.value, around.low, around.high), (0.0, 0.0, 0.2));
        assert!(never_negative(estimate(f64::NAN, 0.0, 1.0), 1.0).value.is_nan());
    }

    /// A part has one event in half of its iterations. Each counter read adds 9 or 11 events, and
    /// the calibrated overhead is 10. The estimate must be 0.5 events per packet.
    #[test]
    fn what_reads_add_is_taken_off_without_bias() {
        let rows: Vec<[u64; 2]> =
            (0..400).map(|i| [1, [9, 11][i % 2] + (i / 2 % 2) as u64]).collect();
        let turns = CountedTurns::synthetic(rows, 10);
        let figure =
            ratio(&turns.counts(0, 0), &turns.packets(0), "events/packet", Tier::Hw, &turns);
        assert_eq!(figure.as_number(), Some(0.5));
    }

    #[test]
    fn reports_missing_divisors_and_lost_counters() {
        let turns = CountedTurns::synthetic(vec![[1, 10]; 40], 10);
        let none = turns.counts(0, 0);
        let figure = ratio(&turns.packets(0), &none, "cycles/instruction", Tier::Hw, &turns);
        assert_eq!(figure.value, Scalar::Absent);
        let mut lost = CountedTurns::synthetic(vec![], 10);
        lost.broken = 7;
        let figure = ratio(&[], &[], "events/packet", Tier::Hw, &lost);
        assert!(
            figure.reason.as_deref().is_some_and(|why| why.contains("during 7 ")),
            "{figure:?}"
        );
    }
}
