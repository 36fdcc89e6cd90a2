// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tiers of a curve, as a record has them: with names, in cycles, and in words where something
//! is not told.

use super::surroundings::Surroundings;
use crate::curve::scaled;
use linerate_hierarchy::tiers::{self, Cause, Options, Sample, Tiers};
use linerate_record::memory::{Curve, MemoryTier, Unresolved};
use linerate_record::stats::{Estimate, median};
use linerate_record::{Figure, Tier};

/// The tiers.
pub(super) struct Levels {
    /// As they were found, in ns.
    pub(super) found: Tiers,
    /// Core clock in GHz in the chains of each; `None` where it is unknown.
    pub(super) ghz: Vec<Option<f64>>,
    pub(super) tiers: Vec<MemoryTier>,
    pub(super) unresolved: Vec<Unresolved>,
}

const METHOD: &str = "steps of the page-local curve, bootstrap over passes";

impl Levels {
    /// `replicates` resamplings tell the intervals.
    pub(super) fn find(
        curve: &Curve,
        surroundings: &Surroundings,
        seed: u64,
        replicates: u32,
    ) -> Self {
        let options = Options { seed, replicates, ..Options::default() };
        let found = tiers::detect(&samples(curve), &options);
        let longest = curve.points.last().map_or(0, |point| point.bytes);
        Self::of(found, curve, longest, surroundings.last_level())
    }

    /// `longest` chain, and the last cache that the system states.
    fn of(found: Tiers, curve: &Curve, longest: u64, last_level: u64) -> Self {
        let ends =
            found.tiers.iter().map(|tier| tier.size.map_or(f64::INFINITY, |size| size.value));
        let ends: Vec<f64> = std::iter::once(0.0).chain(ends).collect();
        let of_tier = ends.windows(2).zip(&found.tiers);
        let ghz: Vec<Option<f64>> = of_tier.map(|(ends, tier)| clock(curve, ends, tier)).collect();
        let is_memory = longest >= 2 * last_level;
        let tier = |(place, (tier, ghz)): (usize, (&tiers::Tier, &Option<f64>))| {
            record(tier, *ghz, place, longest, is_memory)
        };
        let tiers = found.tiers.iter().zip(&ghz).enumerate().map(tier).collect();
        let mut unresolved: Vec<Unresolved> = found.unresolved.iter().map(said).collect();
        if !is_memory && !found.tiers.is_empty() {
            unresolved.push(beyond(longest, last_level));
        }
        Self { found, ghz, tiers, unresolved }
    }
}

/// The curve as detectors take it.
pub(super) fn samples(curve: &Curve) -> Vec<Sample> {
    let sample = |point: &linerate_record::memory::CurvePoint| Sample {
        bytes: point.bytes,
        passes: point.passes_ns.clone(),
    };
    curve.points.iter().map(sample).collect()
}

/// A size whose time is within this of its tier's lies on the plateau.
const PLATEAU: f64 = 0.05;

/// Cycles of the core per ns of a load in `tier`, whose chains are from `ends[0]` to `ends[1]`
/// octets long. The clock may move, and a tier's time is that of its fastest passes: so the median
/// cycles of the sizes on its plateau, each in its fastest pass, over that time; where there is no
/// such size, the median clock of those in the tier.
fn clock(curve: &Curve, ends: &[f64], tier: &tiers::Tier) -> Option<f64> {
    let is_within = |bytes: u64| (ends[0]..=ends[1]).contains(&(bytes as f64));
    let points = curve.points.iter().filter(|point| is_within(point.bytes));
    let points = points.filter_map(|p| Some((p.latency_ns.as_number()?, p.cycles.as_number()?)));
    let points: Vec<(f64, f64)> = points.collect();
    let latency = tier.latency.value;
    let is_on_plateau = |ns: f64| (ns / latency - 1.0).abs() <= PLATEAU;
    let plateau = points.iter().filter(|point| is_on_plateau(point.0));
    let cycles: Vec<f64> = plateau.map(|point| point.1).collect();
    let clocks: Vec<f64> = points.iter().map(|point| point.1 / point.0).collect();
    median(&cycles).map(|cycles| cycles / latency).or_else(|| median(&clocks))
}

fn record(
    tier: &tiers::Tier,
    ghz: Option<f64>,
    place: usize,
    longest: u64,
    is_memory: bool,
) -> MemoryTier {
    let name = match (tier.size, is_memory) {
        (None, true) => "memory".to_owned(),
        _ => format!("L{}", place + 1),
    };
    let size_bytes = match tier.size {
        Some(size) => Figure::number("B", size, Tier::Sw, METHOD),
        None => {
            let reason = format!("chains of up to {longest} B do not reach its end");
            Figure::absent("B", Tier::Sw, METHOD, &reason)
        }
    };
    let note = match (tier.settled, tier.size, is_memory) {
        (false, ..) => Some("it took longer in some passes than in others: others use it too"),
        (true, None, false) => Some("its end lies beyond the longest chain"),
        _ => None,
    };
    MemoryTier {
        name,
        size_bytes,
        latency_ns: Figure::number("ns", tier.latency, Tier::Sw, METHOD),
        latency_cycles: cycles(tier.latency, ghz, METHOD),
        settled: tier.settled,
        note: note.map(str::to_owned),
    }
}

/// A time in ns as cycles of a core at `ghz`.
pub(super) fn cycles(ns: Estimate, ghz: Option<f64>, method: &str) -> Figure {
    match ghz {
        Some(ghz) => Figure::number("cycles", scaled(ns, ghz), Tier::Sw, method),
        None => {
            let reason = "nothing tells the core clock on this processor";
            Figure::absent("cycles", Tier::Sw, method, reason)
        }
    }
}

fn said(unresolved: &tiers::Unresolved) -> Unresolved {
    let (cause, sentence) = match unresolved.cause {
        Cause::Moved => (
            "moved",
            "the time of these sizes was not the same in all passes: others use this cache too; \
             measure again when they do not",
        ),
        Cause::TooClose => (
            "too_close",
            "two steps are so near each other that they may be one; more passes make them clearer",
        ),
        Cause::TooNoisy => (
            "too_noisy",
            "passes differ by more than a step would; measure again when nothing else runs",
        ),
    };
    Unresolved {
        from_bytes: unresolved.from,
        to_bytes: unresolved.to,
        cause: cause.to_owned(),
        sentence: sentence.to_owned(),
    }
}

fn beyond(longest: u64, last_level: u64) -> Unresolved {
    Unresolved {
        from_bytes: longest,
        to_bytes: 2 * last_level,
        cause: "too_small".to_owned(),
        sentence: "the longest chain is too short to reach past the last cache that the system \
                   states; allow more memory"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::memory::{CurvePoint, Order, PageKind};

    fn point(bytes: u64, ns: f64, ghz: f64) -> CurvePoint {
        CurvePoint {
            bytes,
            lines: bytes / 64,
            loads: 1,
            seconds: 1.0,
            passes_ns: vec![ns],
            passes_ghz: vec![ghz],
            latency_ns: Figure::exact("ns", ns, Tier::Sw, "made up"),
            cycles: Figure::exact("cycles", ns * ghz, Tier::Sw, "made up"),
            windows: 1,
            windows_dropped: 0,
        }
    }

    fn estimate(value: f64) -> Estimate {
        Estimate { value, low: 0.9 * value, high: 1.1 * value, confidence: 0.95, n: 5 }
    }

    /// Two tiers at two clocks: 1 ns at 4 GHz up to 32 KiB, and 10 ns at 3 GHz behind it.
    fn levels(last_level: u64, settled: bool) -> Levels {
        let points = (12..20).map(|shift| match 1 << shift {
            bytes @ 0..=32_768 => point(bytes, 1.0, 4.0),
            bytes => point(bytes, 10.0, 3.0),
        });
        let points = points.collect();
        let curve = Curve { order: Order::PageLocal, pages: PageKind::Base, points };
        let tier = |size, ns| tiers::Tier { size, latency: estimate(ns), settled };
        let found = Tiers {
            tiers: vec![tier(Some(estimate(33_000.0)), 1.0), tier(None, 10.0)],
            unresolved: vec![tiers::Unresolved { from: 1, to: 2, cause: Cause::Moved }],
        };
        Levels::of(found, &curve, 1 << 19, last_level)
    }

    #[test]
    fn tiers_have_names_and_cycles() {
        let found = levels(1 << 18, true);
        let names: Vec<&str> = found.tiers.iter().map(|tier| &tier.name[..]).collect();
        assert_eq!(names, ["L1", "memory"]);
        let cycles: Vec<_> = found.tiers.iter().map(|t| t.latency_cycles.as_number()).collect();
        assert_eq!(cycles, [Some(4.0), Some(30.0)]);
        assert_eq!(found.tiers[1].latency_cycles.low, Some(27.0));
        let last = &found.tiers[1].size_bytes;
        assert!(last.reason.as_ref().is_some_and(|reason| reason.contains("524288 B")), "{last:?}");
        assert_eq!(found.unresolved.len(), 1);
        assert_eq!((found.tiers[0].note.as_ref(), found.tiers[1].note.as_ref()), (None, None));
    }

    #[test]
    fn what_does_not_reach_memory_is_not_called_so() {
        let found = levels(1 << 19, true);
        assert_eq!(found.tiers[1].name, "L2");
        assert!(found.tiers[1].note.is_some());
        let [moved, small] = &found.unresolved[..] else { panic!("{:?}", found.unresolved) };
        assert_eq!((&moved.cause[..], moved.from_bytes, moved.to_bytes), ("moved", 1, 2));
        let small = (&small.cause[..], small.from_bytes, small.to_bytes);
        assert_eq!(small, ("too_small", 1 << 19, 1 << 20));
    }

    /// Half of the sizes met a slow clock: as many cycles, and more ns. One size is on a climb.
    #[test]
    fn cycles_do_not_depend_on_a_clock_that_moves() {
        let clocks = [4.0, 3.9, 4.0, 3.9, 4.0];
        let mut points: Vec<CurvePoint> = clocks.iter().map(|g| point(4096, 4.0 / g, *g)).collect();
        points.push(point(32_768, 2.0, 4.0));
        let curve = Curve { order: Order::PageLocal, pages: PageKind::Base, points };
        let tier = |ns| tiers::Tier { size: None, latency: estimate(ns), settled: true };
        let cycles = clock(&curve, &[0.0, f64::INFINITY], &tier(1.0)).unwrap();
        assert!((cycles - 4.0).abs() < 1e-9, "{cycles}");
        // No size is on the plateau: the clock of most of them.
        let clock = clock(&curve, &[0.0, f64::INFINITY], &tier(9.0)).unwrap();
        assert!((clock - 4.0).abs() < 1e-9, "{clock}");
    }

    #[test]
    fn a_plateau_that_moved_is_noted() {
        assert!(levels(1, false).tiers.iter().all(|tier| tier.note.is_some() && !tier.settled));
    }

    #[test]
    fn without_a_clock_cycles_are_absent() {
        let figure = cycles(estimate(1.0), None, "made up");
        assert!(figure.as_number().is_none() && figure.reason.is_some());
    }
}
