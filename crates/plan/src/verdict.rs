// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which of the measured mappings to keep.
//!
//! ```text
//! speedup(c)   = median over rounds of kpps(c) / kpps(baseline), with its interval
//! worth it     = candidates within the latency limit whose entire speedup interval is above
//!                1 + MIN_GAIN; if the baseline is over the limit, all candidates within it
//! best         = the worthwhile candidate with the largest speedup
//! equally good = best, and every other worthwhile candidate over which the speedup of best, in the
//!                same rounds, is at most 1 + MAX_TIE_LOSS, and its low end at most 1 + MIN_GAIN
//! keep         = the equally good candidate with the fewest workers, then segments, then the
//!                smallest burst, then the largest speedup; the baseline if nothing is worth it, or
//!                if the baseline reaches line rate and nothing asks for more
//! ```

use linerate_path::model::Mapping;
use linerate_record::Figure;
use linerate_record::run::RunReport;
use linerate_record::stats::{CONFIDENCE, Estimate, paired_ratio};
use linerate_record::tune::{Candidate, TuneReport};

/// Minimum gain for accepting a change. Code and buffer placement alone make two runs of a mapping
/// differ by 1-2 %, so smaller gains cannot be attributed to the mapping.
pub const MIN_GAIN: f64 = 0.02;

/// Returns whether a predicted rate is worth a change from the rate `before`, in the same unit: it
/// is more than [`MIN_GAIN`] above it.
pub fn is_worth_it(predicted: f64, before: f64) -> bool {
    predicted > before * (1.0 + MIN_GAIN)
}

/// Maximum median slowdown, relative to the best mapping, at which a simpler mapping counts as
/// equally good. The limit is needed because, with few rounds, intervals overlap even if the
/// simpler mapping really is slower.
const MAX_TIE_LOSS: f64 = 0.05;

/// A candidate mapping and its measured rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender<'a> {
    /// Assignment of stages to workers.
    pub mapping: &'a Mapping,
    /// Packets per burst, used to break ties.
    pub burst: u32,
    /// Rate in each round, in kpps; `None` for a round without a clean window.
    pub kpps: &'a [Option<f64>],
    /// Whether latency is within the limit; true if no limit is set.
    pub is_prompt: bool,
}

/// Results of the mapping that contenders are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline<'a> {
    /// Rate in each round, in kpps; `None` for a round without a clean window.
    pub kpps: &'a [Option<f64>],
    /// Whether latency is within the limit; true if no limit is set. A baseline over the limit is
    /// replaced by the best contender within the limit, even if that contender is slower.
    pub is_prompt: bool,
}

/// Result of comparing contenders with the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Index of the contender to keep; `None` keeps the baseline.
    pub chosen: Option<usize>,
    /// Each contender's speedup over the baseline; `None` if they have no round in common. With
    /// fewer than 6 common rounds, the interval is unbounded, so the contender can be chosen only
    /// if the baseline exceeds the latency limit.
    pub speedups: Vec<Option<Estimate>>,
}

/// Chooses among contenders that ran in the same rounds as the baseline. Entry `i` of each list of
/// rates belongs to round `i`; rounds in which either rate is missing or 0 are left out of the
/// comparison. Among equally good contenders, the one with the fewest workers wins, then the fewest
/// segments, then the smallest burst.
pub fn choose(baseline: Baseline<'_>, contenders: &[Contender<'_>]) -> Verdict {
    let speedups: Vec<Option<Estimate>> =
        contenders.iter().map(|c| ratio(baseline.kpps, c.kpps)).collect();
    let gain = |i: usize| speedups[i].map_or(0.0, |s| s.value);
    let is_faster = |i: usize| speedups[i].is_some_and(|s| is_worth_it(s.low, 1.0));
    let qualifies = |&i: &usize| contenders[i].is_prompt && (is_faster(i) || !baseline.is_prompt);
    let worth_it: Vec<usize> = (0..contenders.len()).filter(qualifies).collect();
    let best =
        worth_it.iter().copied().max_by(|&a, &b| gain(a).total_cmp(&gain(b)).then(b.cmp(&a)));
    let chosen = best.and_then(|best| {
        let as_good = |i: usize| {
            i == best
                || ratio(contenders[i].kpps, contenders[best].kpps)
                    .is_some_and(|r| !is_worth_it(r.low, 1.0) && r.value <= 1.0 + MAX_TIE_LOSS)
        };
        let size = |i: usize| {
            let Contender { mapping, burst, .. } = contenders[i];
            (mapping.workers(), mapping.segments.len(), burst)
        };
        let simpler = |a: &usize, b: &usize| {
            size(*a).cmp(&size(*b)).then(gain(*b).total_cmp(&gain(*a))).then(a.cmp(b))
        };
        worth_it.iter().copied().filter(|&i| as_good(i)).min_by(simpler)
    });
    Verdict { chosen, speedups }
}

/// Number of rounds from which the interval of a speedup is bounded, at [`CONFIDENCE`].
pub const MIN_ROUNDS: u64 = 6;

/// Returns whether the baseline's rate, in kpps, reaches `line_kpps` and `goal_kpps`, so that no
/// faster mapping is needed; false without a line. Its whole interval must, if it has one.
pub fn is_enough(baseline: &Figure, line_kpps: Option<f64>, goal_kpps: Option<f64>) -> bool {
    let Some(line) = line_kpps.filter(|line| *line > 0.0) else { return false };
    let needed = goal_kpps.map_or(line, |goal| goal.max(line));
    baseline.low.or(baseline.as_number()).is_some_and(|kpps| kpps >= needed)
}

/// Returns whether a candidate is certainly worth a change: the whole interval of its speedup is.
pub fn is_certainly_faster(candidate: &Candidate) -> bool {
    let low = candidate.speedup.as_ref().and_then(|speedup| speedup.low);
    low.is_some_and(|low| is_worth_it(low, 1.0))
}

/// Why the baseline was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// There were no candidates.
    NoCandidate,
    /// No candidate was run.
    NotRun,
    /// Some candidates are certainly faster, but their latency is over the limit or unknown.
    OverLimit,
    /// Some candidates are certainly faster, but the baseline reaches line rate.
    LineRate,
    /// Candidates seem faster, but too few rounds measured both rates for an interval.
    FewRounds {
        /// Largest number of rounds that measured the baseline and one of these candidates.
        rounds: u64,
    },
    /// No candidate is certainly faster.
    NoGain,
}

/// Returns whether a report's baseline reaches line rate and the goal ([`is_enough`]), and no limit
/// on latency asks for another mapping.
pub fn is_baseline_enough(report: &TuneReport) -> bool {
    let RunReport { line_rate_kpps, goal_kpps, .. } = &report.baseline;
    report.p99_limit_ns.is_none() && is_enough(&report.baseline_kpps, *line_rate_kpps, *goal_kpps)
}

/// Returns why the baseline was kept, for a report without a chosen candidate.
pub fn kept_because(report: &TuneReport) -> Kept {
    let is_faster = report.candidates.iter().any(is_certainly_faster);
    let is_enough = || is_baseline_enough(report);
    match (report.rounds, report.candidates.is_empty()) {
        (0, true) => return Kept::NoCandidate,
        (0, false) => return Kept::NotRun,
        _ if report.p99_limit_ns.is_some() && is_faster => return Kept::OverLimit,
        _ if is_faster && is_enough() => return Kept::LineRate,
        _ => {}
    }
    let seems_faster = |speedup: &&Figure| {
        speedup.low.is_none() && speedup.as_number().is_some_and(|value| is_worth_it(value, 1.0))
    };
    let speedups = report.candidates.iter().filter_map(|one| one.speedup.as_ref());
    match speedups.filter(seems_faster).map(|speedup| speedup.n).max() {
        Some(rounds) if rounds < MIN_ROUNDS => Kept::FewRounds { rounds },
        _ => Kept::NoGain,
    }
}

/// Returns the median ratio of `above` to `under` over the rounds in which both are known and
/// positive; `None` if there are none.
fn ratio(under: &[Option<f64>], above: &[Option<f64>]) -> Option<Estimate> {
    let both = under.iter().zip(above).filter_map(|(u, a)| Some(((*u)?, (*a)?)));
    let (under, above): (Vec<f64>, Vec<f64>) = both.filter(|(u, a)| *u > 0.0 && *a > 0.0).unzip();
    (!under.is_empty()).then(|| paired_ratio(&under, &above, CONFIDENCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_path::model::Segment;
    use linerate_record::{Body, Tier, fixtures};

    fn mapping(cuts: &[(usize, usize, u32)]) -> Mapping {
        let segment = |&(from, to, replicas)| Segment { stages: from..to, replicas, cpus: vec![] };
        Mapping { segments: cuts.iter().map(segment).collect() }
    }

    fn contender<'a>(mapping: &'a Mapping, kpps: &'a [Option<f64>]) -> Contender<'a> {
        Contender { mapping, burst: 32, kpps, is_prompt: true }
    }

    fn baseline(kpps: &[Option<f64>]) -> Baseline<'_> {
        Baseline { kpps, is_prompt: true }
    }

    /// Returns rates for six rounds around `level` with a drift common to all mappings, so that
    /// intervals overlap although every single round has a clear winner.
    fn rounds(level: f64) -> Vec<Option<f64>> {
        [1.0, 0.7, 1.2, 0.9, 1.1, 0.8].iter().map(|d| Some(level * d)).collect()
    }

    #[test]
    fn the_fastest_wins_whatever_the_rounds_drift() {
        let (two, split) = (mapping(&[(0, 4, 2)]), mapping(&[(0, 2, 1), (2, 4, 1)]));
        let (fast, slow) = (rounds(190.0), rounds(150.0));
        let contenders = [contender(&split, &slow), contender(&two, &fast)];
        let verdict = choose(baseline(&rounds(100.0)), &contenders);
        assert_eq!(verdict.chosen, Some(1));
        let speedup = verdict.speedups[1].unwrap();
        assert!((speedup.value - 1.9).abs() < 1e-9 && (speedup.low - 1.9).abs() < 1e-9);
    }

    #[test]
    fn a_gain_below_the_threshold_or_unproven_keeps_the_baseline() {
        let two = mapping(&[(0, 4, 2)]);
        for kpps in [rounds(101.9), rounds(190.0)[..4].to_vec(), rounds(60.0), vec![None; 6]] {
            let verdict = choose(baseline(&rounds(100.0)), &[contender(&two, &kpps)]);
            assert_eq!(verdict.chosen, None, "{kpps:?}");
        }
        // One round in six shows no gain, so the interval starts at 1.
        let mut once = rounds(190.0);
        once[2] = Some(120.0);
        let verdict = choose(baseline(&rounds(100.0)), &[contender(&two, &once)]);
        assert_eq!(verdict.chosen, None);
    }

    #[test]
    fn ties_prefer_fewer_workers_then_fewer_rings() {
        let (three, two) = (mapping(&[(0, 4, 3)]), mapping(&[(0, 4, 2)]));
        let split = mapping(&[(0, 2, 1), (2, 4, 1)]);
        let base = rounds(100.0);
        let close = |level: f64| -> Vec<Option<f64>> {
            let jitter = [1.02, 0.98, 1.01, 0.99, 1.03, 1.0];
            rounds(level).iter().zip(jitter).map(|(r, j)| r.map(|r| r * j)).collect()
        };
        let (a, b, c) = (rounds(200.0), close(199.0), close(199.5));
        let contenders = [contender(&three, &a), contender(&split, &c), contender(&two, &b)];
        assert_eq!(choose(baseline(&base), &contenders).chosen, Some(2));
        assert_eq!(choose(baseline(&base), &contenders[..2]).chosen, Some(1));
    }

    #[test]
    fn a_slower_simpler_mapping_is_not_a_tie() {
        let (three, two) = (mapping(&[(0, 4, 3)]), mapping(&[(0, 4, 2)]));
        let fast = rounds(200.0);
        let mut slow = rounds(180.0);
        slow[0] = Some(210.0);
        let contenders = [contender(&three, &fast), contender(&two, &slow)];
        assert_eq!(choose(baseline(&rounds(100.0)), &contenders).chosen, Some(0));
    }

    #[test]
    fn of_equal_rates_the_smallest_burst_is_taken() {
        let two = mapping(&[(0, 4, 2)]);
        let kpps = rounds(200.0);
        let bursts = [256, 32, 64];
        let contenders = bursts.map(|burst| Contender { burst, ..contender(&two, &kpps) });
        let base = rounds(100.0);
        assert_eq!(choose(baseline(&base), &contenders).chosen, Some(1));
        // A clearly faster contender is chosen even if its burst is larger.
        let faster = rounds(240.0);
        let large = Contender { burst: 256, ..contender(&two, &faster) };
        assert_eq!(choose(baseline(&base), &[large, contenders[1]]).chosen, Some(0));
    }

    #[test]
    fn what_exceeds_the_limit_of_latency_is_not_taken() {
        let (two, split) = (mapping(&[(0, 4, 2)]), mapping(&[(0, 2, 1), (2, 4, 1)]));
        let (base, fast, slow) = (rounds(100.0), rounds(200.0), rounds(90.0));
        let late = Contender { is_prompt: false, ..contender(&two, &fast) };
        let prompt = contender(&split, &slow);
        assert_eq!(choose(baseline(&base), &[late, prompt]).chosen, None);
        let late_base = Baseline { is_prompt: false, ..baseline(&base) };
        assert_eq!(choose(late_base, &[late, prompt]).chosen, Some(1));
        assert_eq!(choose(late_base, &[late]).chosen, None);
    }

    #[test]
    fn a_gain_must_exceed_the_threshold() {
        let at_threshold = 50.0 * (1.0 + MIN_GAIN);
        assert!(!is_worth_it(at_threshold, 50.0) && is_worth_it(at_threshold + 0.01, 50.0));
        assert!(!is_worth_it(40.0, 50.0));
    }

    #[test]
    fn the_baseline_is_kept_for_a_reason() {
        let kept = |low: Option<f64>, limit_ns: Option<f64>, rounds: u32, line: f64| {
            let Body::Tune(mut report) = fixtures::record("tune").body else {
                unreachable!("a record of tune")
            };
            (report.chosen, report.p99_limit_ns, report.rounds) = (None, limit_ns, rounds);
            let rate = report.baseline_kpps.low.expect("an interval");
            report.baseline.line_rate_kpps = Some(line * rate);
            for speedup in report.candidates.iter_mut().filter_map(|one| one.speedup.as_mut()) {
                (speedup.low, speedup.n) = (low, if low.is_some() { 8 } else { 5 });
            }
            kept_because(&report)
        };
        let (certain, uncertain) = (Some(1.5), Some(1.0 + MIN_GAIN));
        assert_eq!(kept(uncertain, None, 9, 2.0), Kept::NoGain);
        assert_eq!(kept(uncertain, None, 9, 0.5), Kept::NoGain);
        assert_eq!(kept(None, Some(1e6), 9, 2.0), Kept::FewRounds { rounds: 5 });
        assert_eq!(kept(certain, Some(1e6), 9, 0.5), Kept::OverLimit);
        assert_eq!(kept(certain, None, 0, 2.0), Kept::NotRun);
        assert_eq!(kept(certain, None, 9, 0.999), Kept::LineRate);
    }

    #[test]
    fn a_rate_is_enough_if_its_whole_interval_reaches_line_rate_and_goal() {
        let interval = Estimate { value: 110.0, low: 100.0, high: 120.0, confidence: 0.95, n: 8 };
        let rate = Figure::number("kpps", interval, Tier::Sw, "by hand");
        assert!(is_enough(&rate, Some(100.0), None) && !is_enough(&rate, Some(101.0), None));
        assert!(!is_enough(&rate, None, None) && !is_enough(&rate, None, Some(50.0)));
        assert!(is_enough(&rate, Some(90.0), Some(100.0)));
        assert!(!is_enough(&rate, Some(90.0), Some(105.0)));
    }

    #[test]
    fn intervals_need_this_many_rounds() {
        let two = mapping(&[(0, 4, 2)]);
        let low = |count: u64| {
            let (base, kpps) = (rounds(100.0), rounds(190.0));
            let count = count as usize;
            let verdict = choose(baseline(&base[..count]), &[contender(&two, &kpps[..count])]);
            verdict.speedups[0].map(|speedup| speedup.low)
        };
        assert!(low(MIN_ROUNDS).is_some_and(f64::is_finite));
        assert!(low(MIN_ROUNDS - 1).is_some_and(|low| !low.is_finite()));
    }

    #[test]
    fn rounds_without_a_figure_are_left_out() {
        let two = mapping(&[(0, 4, 2)]);
        let (mut base, mut kpps) = (rounds(100.0), rounds(190.0));
        (base[0], kpps[1]) = (None, Some(0.0));
        base.extend([Some(100.0); 2]);
        kpps.extend([Some(190.0); 2]);
        let verdict = choose(baseline(&base), &[contender(&two, &kpps)]);
        assert_eq!(verdict.speedups[0].map(|s| s.n), Some(6));
        assert_eq!(verdict.chosen, Some(0));
    }
}
