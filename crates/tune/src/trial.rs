// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fourth step of a tuning session: runs the baseline and the best contenders in rounds, and
//! decides which to keep.

use crate::bench::{Bench, kernels};
use crate::error::TuneError;
use crate::measure::Measured;
use crate::predict::Predicted;
use linerate_machine::ticks::ticks;
use linerate_path::mapping::describe;
use linerate_path::model::Mapping;
use linerate_plan::candidates::Proposal;
use linerate_plan::verdict::{Baseline, Contender, Verdict, choose, is_enough};
use linerate_record::run::RunReport;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::tune::{Candidate, RoundLatency};
use linerate_record::{Figure, Tier};
use linerate_trial::{Dropped, Length, Machine, Rules, rounds};

/// Number of rounds in which the baseline and the contenders run. The verdict needs an interval,
/// which takes six rounds with a valid rate. The others are a reserve for busy machines.
pub(crate) const ROUNDS: u32 = 8;

/// Maximum number of candidates to try.
const CONTENDERS: usize = 3;

/// Length of a run within a round, in seconds.
const ROUND_SECONDS: f64 = 0.15;

/// Total length of the rounds, in seconds.
pub(crate) const SECONDS: f64 = ROUNDS as f64 * (1 + CONTENDERS) as f64 * ROUND_SECONDS;

/// Result of a trial's rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Baseline rate, in kpps.
    pub baseline_kpps: Figure,
    /// Baseline latency over all rounds.
    pub baseline_latency: RoundLatency,
    /// Results of the contenders.
    pub contenders: Vec<Contested>,
    /// Index of the proposal to keep; `None` for the baseline, also if that reaches line rate and
    /// neither a higher goal nor a limit on latency asks for another mapping.
    pub chosen: Option<usize>,
}

/// A contender's measured results.
#[derive(Clone, Debug, PartialEq)]
pub struct Contested {
    /// Index among the proposals.
    pub index: usize,
    /// Rate, in kpps.
    pub kpps: Figure,
    /// Speedup over the baseline: the median of the per-round ratios.
    pub speedup: Figure,
    /// Latency over all rounds.
    pub latency: RoundLatency,
}

impl Trial {
    /// Adds the measured results to the report's candidates.
    pub fn add_to(&self, candidates: &mut [Candidate]) {
        for contested in &self.contenders {
            let candidate = &mut candidates[contested.index];
            candidate.measured_kpps = Some(contested.kpps.clone());
            candidate.speedup = Some(contested.speedup.clone());
            candidate.latency = Some(contested.latency.clone());
        }
    }
}

/// Figures of one run in a round; `None` if the run did not yield the figure.
#[derive(Clone, Copy, Debug)]
struct Seen {
    kpps: Option<f64>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
}

impl Seen {
    fn of(run: &RunReport) -> Self {
        Self {
            kpps: run.processed_kpps.as_number(),
            p50_ns: run.latency.p50.as_number(),
            p99_ns: run.latency.p99.as_number(),
        }
    }
}

/// Runs the baseline and the best proposals in interleaved rounds; `None` if a stop was requested.
pub(crate) fn trial(
    bench: &Bench<'_>,
    measured: &Measured,
    predicted: &Predicted,
    p99_limit_ns: Option<f64>,
    goal_kpps: Option<f64>,
) -> Result<Option<Trial>, TuneError> {
    let trial = bench.with(kernels(&predicted.kernels).unwrap_or(bench.kernels));
    let asked = Asked { mapping: &measured.mapping, burst: bench.path.run.burst, p99_limit_ns };
    let contenders = asked.contenders(&predicted.proposals);
    let seen = all_rounds(&contenders, bench, &trial, &measured.mapping)?;
    if bench.watch().is_stopped() {
        return Ok(None);
    }
    let rates: Vec<Vec<Option<f64>>> = seen.iter().map(|seen| each(seen, |one| one.kpps)).collect();
    let latencies: Vec<RoundLatency> = seen.iter().map(|seen| latency(seen)).collect();
    let Verdict { chosen, speedups } = asked.verdict(&contenders, &rates, &latencies);
    let baseline_kpps = rate_figure(&rates[0]);
    let line_kpps = measured.report.line_rate_kpps;
    let is_kept = p99_limit_ns.is_none() && is_enough(&baseline_kpps, line_kpps, goal_kpps);
    let results = contenders.iter().zip(&rates[1..]).zip(&latencies[1..]).zip(speedups);
    Ok(Some(Trial {
        baseline_kpps,
        baseline_latency: latencies[0].clone(),
        contenders: results
            .map(|(((tried, rates), latency), speedup)| Contested {
                index: tried.index,
                kpps: rate_figure(rates),
                speedup: speedup_figure(speedup),
                latency: latency.clone(),
            })
            .collect(),
        chosen: chosen.filter(|_| !is_kept).map(|chosen| contenders[chosen].index),
    }))
}

/// Runs all rounds. Returns each contestant's result in each round, starting with the baseline,
/// which runs on `bench`, followed by the contenders, which run on `trial`. Dropped runs are
/// `None`.
fn all_rounds(
    contenders: &[Tried<'_>],
    bench: &Bench<'_>,
    trial: &Bench<'_>,
    baseline: &Mapping,
) -> Result<Vec<Vec<Option<Seen>>>, TuneError> {
    let path = bench.path;
    let mut all = vec![(bench, baseline, path.run.burst)];
    all.extend(contenders.iter().map(|c| (trial, &c.proposal.mapping, c.proposal.burst)));
    let names: Vec<String> = all.iter().map(|(_, m, _)| describe(m, &path.stages)).collect();
    let rules = Rules {
        what: "rounds",
        contestants: &names.iter().map(String::as_str).collect::<Vec<_>>(),
        placements: 1,
        length: Length::Rounds(ROUNDS),
        seed: ticks(),
    };
    // The individual runs report progress, so the rounds do not.
    let watch = bench.watch().with_progress(&|_, _| {});
    let samples = rounds(&rules, &Machine::kernel(), &watch, |window| {
        let ((on, mapping, burst), name) = (all[window.contestant], &names[window.contestant]);
        bench.progress.step(&format!("round {} of {ROUNDS}: {name}", window.round + 1));
        let run = on.run(path, mapping, burst, ROUND_SECONDS, None)?;
        Ok::<_, TuneError>(Ok::<_, Dropped>(Seen::of(&run)))
    })?;
    let of_contestant = |which| samples.each(which).iter().map(|seen| seen.ok()).collect();
    Ok((0..all.len()).map(of_contestant).collect())
}

/// A proposal to try, and its index among all proposals.
struct Tried<'a> {
    index: usize,
    proposal: &'a Proposal,
}

/// Criteria of a trial: the baseline to compare with, and the latency limit.
struct Asked<'a> {
    /// Baseline mapping.
    mapping: &'a Mapping,
    /// The path's burst size.
    burst: u32,
    /// Upper limit on the 99th percentile latency, in nanoseconds; `None` without a limit.
    p99_limit_ns: Option<f64>,
}

impl Asked<'_> {
    /// Returns the proposals to try, at most [`CONTENDERS`]: the best one, and the best one of each
    /// other mapping. If the best has a larger burst than the path, it is also tried with the
    /// path's burst, since higher latency is only worthwhile if the gain is certain. With a latency
    /// limit, bursts larger than the path's are not tried, and the best mapping is also tried with
    /// its smallest burst. The baseline mapping with other kernels is always tried if proposed,
    /// since only this run shows the effect of the kernels alone.
    fn contenders<'p>(&self, proposals: &'p [Proposal]) -> Vec<Tried<'p>> {
        // With a limit, the runs are spent on bursts that may meet it.
        let is_tried =
            |one: &Tried<'_>| self.p99_limit_ns.is_none() || one.proposal.burst <= self.burst;
        let all = || {
            let all = proposals.iter().enumerate();
            all.map(|(index, proposal)| Tried { index, proposal }).filter(is_tried)
        };
        let is_new = |tried: &[Tried<'_>], proposal: &Proposal| {
            tried.iter().all(|other| other.proposal.mapping != proposal.mapping)
        };
        let mut tried: Vec<Tried<'_>> = Vec::new();
        for one in all() {
            if is_new(&tried, one.proposal) {
                tried.push(one);
            }
        }
        let calmer = tried.first().and_then(|best| {
            let mut same = all().filter(|one| one.proposal.mapping == best.proposal.mapping);
            match self.p99_limit_ns {
                Some(_) => same.min_by_key(|one| one.proposal.burst),
                None => same.find(|one| {
                    one.proposal.burst == self.burst && best.proposal.burst > self.burst
                }),
            }
        });
        let calmer = calmer.filter(|calmer| tried.iter().all(|one| one.index != calmer.index));
        let kernels_only = tried.iter().position(|one| one.proposal.mapping == *self.mapping);
        if let Some(index) = kernels_only.filter(|index| *index >= CONTENDERS) {
            tried.swap(index, CONTENDERS - 1);
        }
        tried.truncate(CONTENDERS);
        if let Some(calmer) = calmer {
            if tried.len() == CONTENDERS {
                // To make room, drop the second-best mapping or, if that is the baseline's, the
                // last one.
                let is_kept = tried[1].proposal.mapping == *self.mapping;
                tried.remove(if is_kept { CONTENDERS - 1 } else { 1 });
            }
            tried.push(calmer);
        }
        tried
    }

    fn verdict(
        &self,
        contenders: &[Tried<'_>],
        rates: &[Vec<Option<f64>>],
        latencies: &[RoundLatency],
    ) -> Verdict {
        let is_prompt = |latency: &RoundLatency| is_within(&latency.p99, self.p99_limit_ns);
        let all: Vec<Contender<'_>> = contenders
            .iter()
            .zip(rates[1..].iter().zip(&latencies[1..]))
            .map(|(tried, (kpps, latency))| Contender {
                mapping: &tried.proposal.mapping,
                burst: tried.proposal.burst,
                kpps,
                is_prompt: is_prompt(latency),
            })
            .collect();
        choose(Baseline { kpps: &rates[0], is_prompt: is_prompt(&latencies[0]) }, &all)
    }
}

/// Returns whether a latency is within a limit; true without a limit. An unknown latency is not
/// within any limit.
pub fn is_within(latency: &Figure, limit_ns: Option<f64>) -> bool {
    limit_ns.is_none_or(|limit| latency.as_number().is_some_and(|ns| ns <= limit))
}

fn each(seen: &[Option<Seen>], pick: fn(&Seen) -> Option<f64>) -> Vec<Option<f64>> {
    seen.iter().map(|one| one.as_ref().and_then(pick)).collect()
}

const ROUNDS_METHOD: &str = "median over interleaved rounds";

fn rate_figure(rounds: &[Option<f64>]) -> Figure {
    let rates: Vec<f64> = rounds.iter().flatten().copied().collect();
    if rates.is_empty() {
        let reason = "the workers were preempted in every window of every round";
        return Figure::absent("kpps", Tier::Sw, ROUNDS_METHOD, reason);
    }
    Figure::number("kpps", median_interval(&rates, CONFIDENCE), Tier::Sw, ROUNDS_METHOD)
}

fn latency(seen: &[Option<Seen>]) -> RoundLatency {
    let figure = |pick: fn(&Seen) -> Option<f64>| {
        let all: Vec<f64> = each(seen, pick).into_iter().flatten().collect();
        if all.is_empty() {
            let reason = "no round timed enough packets";
            return Figure::absent("ns", Tier::Sw, ROUNDS_METHOD, reason);
        }
        Figure::number("ns", median_interval(&all, CONFIDENCE), Tier::Sw, ROUNDS_METHOD)
    };
    RoundLatency { p50: figure(|one| one.p50_ns), p99: figure(|one| one.p99_ns) }
}

fn speedup_figure(speedup: Option<Estimate>) -> Figure {
    const METHOD: &str = "median of the per-round ratios";
    let absent = || Figure::absent("ratio", Tier::Sw, METHOD, "no round measured both rates");
    speedup.map_or_else(absent, |speedup| Figure::number("ratio", speedup, Tier::Sw, METHOD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::model::Prediction;

    fn proposal(stages: usize, burst: u32) -> Proposal {
        let prediction =
            Prediction { kpps: Estimate::exactly(1000.0), bottleneck: 0, memory_bound: false };
        Proposal { name: String::new(), mapping: Mapping::merged(stages), burst, prediction }
    }

    /// All mappings put their stages on one worker. The baseline has three stages, and other
    /// numbers of stages stand for other mappings.
    #[test]
    fn other_kernels_are_tried_whatever_else_is() {
        let baseline = Mapping::merged(3);
        let asked = Asked { mapping: &baseline, burst: 32, p99_limit_ns: None };
        let bursts = |proposals: &[Proposal]| -> Vec<(usize, u32)> {
            let tried = asked.contenders(proposals);
            tried.iter().map(|one| (one.index, one.proposal.burst)).collect()
        };
        // The best proposal has a larger burst than the path, so its mapping is also tried with the
        // path's burst.
        let proposals =
            [proposal(5, 64), proposal(5, 32), proposal(6, 64), proposal(7, 64), proposal(3, 32)];
        assert_eq!(bursts(&proposals), [(0, 64), (4, 32), (1, 32)]);
        let second = [proposal(5, 64), proposal(5, 32), proposal(3, 32), proposal(7, 64)];
        assert_eq!(bursts(&second), [(0, 64), (2, 32), (1, 32)]);
        let same = [proposal(5, 32), proposal(6, 32), proposal(7, 32), proposal(3, 32)];
        assert_eq!(bursts(&same), [(0, 32), (1, 32), (3, 32)]);
        // With a latency limit, larger bursts than the path's are left out, and the smallest one is
        // tried as well.
        let asked = Asked { p99_limit_ns: Some(50e3), ..asked };
        let proposals =
            [proposal(5, 256), proposal(5, 64), proposal(5, 32), proposal(6, 32), proposal(5, 8)];
        let tried = asked.contenders(&proposals);
        let tried: Vec<(usize, u32)> =
            tried.iter().map(|one| (one.index, one.proposal.burst)).collect();
        assert_eq!(tried, [(2, 32), (3, 32), (4, 8)]);
    }
}
