// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fourth stage: the baseline and the best contenders in rounds, and the verdict.

use crate::bench::{Bench, kernels};
use crate::error::TuneError;
use crate::measure::Measured;
use crate::predict::Predicted;
use linerate_machine::ticks::ticks;
use linerate_path::mapping::describe;
use linerate_path::model::Mapping;
use linerate_plan::candidates::Proposal;
use linerate_plan::verdict::{Contender, Verdict, choose};
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::tune::Candidate;
use linerate_record::{Figure, Tier};
use linerate_trial::{Dropped, Length, Machine, Rules, rounds};

/// Rounds in which the baseline and the contenders run. The verdict needs six with a clean rate for
/// an interval; the others are in hand for a busy machine.
pub(crate) const ROUNDS: u32 = 8;

/// Candidates that are tried, best prediction first.
const CONTENDERS: usize = 3;

/// Length of one run in a round, in seconds.
const ROUND_SECONDS: f64 = 0.15;

/// All rounds, in seconds.
pub(crate) const SECONDS: f64 = ROUNDS as f64 * (1 + CONTENDERS) as f64 * ROUND_SECONDS;

/// Result of the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The rate of the baseline.
    pub baseline_kpps: Figure,
    /// For each contender: the index of the proposal, its rate, and its speedup over the baseline.
    pub contenders: Vec<(usize, Figure, Figure)>,
    /// Which of the proposals to keep; `None` keeps the baseline.
    pub chosen: Option<usize>,
}

impl Trial {
    /// Adds the measurements to the candidates.
    pub fn add_to(&self, candidates: &mut [Candidate]) {
        for (index, rate, speedup) in &self.contenders {
            candidates[*index].measured_kpps = Some(rate.clone());
            candidates[*index].speedup = Some(speedup.clone());
        }
    }
}

/// Runs the baseline and the best of the proposals in rounds; `None` when it was stopped.
pub(crate) fn trial(
    bench: &Bench<'_>,
    measured: &Measured,
    predicted: &Predicted,
) -> Result<Option<Trial>, TuneError> {
    let trial = bench.with(kernels(&predicted.kernels).unwrap_or(bench.kernels));
    let contenders = contenders(&predicted.proposals, &measured.mapping);
    let rates = all_rounds(&contenders, bench, &trial, &measured.mapping)?;
    if bench.watch().is_stopped() {
        return Ok(None);
    }
    let Verdict { chosen, speedups } = verdict(&contenders, &rates);
    let results = contenders.iter().zip(&rates[1..]).zip(speedups);
    Ok(Some(Trial {
        baseline_kpps: rate_figure(&rates[0]),
        contenders: results
            .map(|((tried, rates), speedup)| {
                (tried.index, rate_figure(rates), speedup_figure(speedup))
            })
            .collect(),
        chosen: chosen.map(|chosen| contenders[chosen].index),
    }))
}

/// Rates of the baseline (first) and, on the bench `trial`, the contenders, by round; `None` where
/// no window was clean.
fn all_rounds(
    contenders: &[Tried<'_>],
    bench: &Bench<'_>,
    trial: &Bench<'_>,
    baseline: &Mapping,
) -> Result<Vec<Vec<Option<f64>>>, TuneError> {
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
    // Part of the progress that the runs report themselves.
    let watch = bench.watch().with_progress(&|_, _| {});
    let rates = rounds(&rules, &Machine::kernel(), &watch, |window| {
        let ((on, mapping, burst), name) = (all[window.contestant], &names[window.contestant]);
        bench.progress.step(&format!("round {} of {ROUNDS}: {name}", window.round + 1));
        let run = on.run(path, mapping, burst, ROUND_SECONDS, None)?;
        Ok::<_, TuneError>(run.processed_kpps.as_number().ok_or(Dropped::NoneKept))
    })?;
    let of_contestant = |which| rates.each(which).iter().map(|rate| rate.ok()).collect();
    Ok((0..all.len()).map(of_contestant).collect())
}

/// A proposal that is tried, and its place among all of them.
struct Tried<'a> {
    index: usize,
    proposal: &'a Proposal,
}

/// The proposals to try: the best, and the best of each other mapping; `baseline` with other
/// kernels always, if it is there, since it alone shows what they do.
fn contenders<'p>(proposals: &'p [Proposal], baseline: &Mapping) -> Vec<Tried<'p>> {
    let mut tried: Vec<Tried<'_>> = Vec::new();
    for (index, proposal) in proposals.iter().enumerate() {
        if tried.iter().all(|other| other.proposal.mapping != proposal.mapping) {
            tried.push(Tried { index, proposal });
        }
    }
    let kernels_only = tried.iter().position(|tried| tried.proposal.mapping == *baseline);
    if let Some(index) = kernels_only.filter(|index| *index >= CONTENDERS) {
        tried.swap(index, CONTENDERS - 1);
    }
    tried.truncate(CONTENDERS);
    tried
}

fn verdict(contenders: &[Tried<'_>], rates: &[Vec<Option<f64>>]) -> Verdict {
    let all: Vec<Contender<'_>> = contenders
        .iter()
        .zip(&rates[1..])
        .map(|(tried, kpps)| Contender { mapping: &tried.proposal.mapping, kpps })
        .collect();
    choose(&rates[0], &all)
}

const ROUNDS_METHOD: &str = "median over interleaved rounds";

fn rate_figure(rounds: &[Option<f64>]) -> Figure {
    let rates: Vec<f64> = rounds.iter().flatten().copied().collect();
    if rates.is_empty() {
        let reason = "no window without preemption in any round";
        return Figure::absent("kpps", Tier::Sw, ROUNDS_METHOD, reason);
    }
    Figure::number("kpps", median_interval(&rates, CONFIDENCE), Tier::Sw, ROUNDS_METHOD)
}

fn speedup_figure(speedup: Option<Estimate>) -> Figure {
    const METHOD: &str = "median of the ratios of the same round";
    let absent = || Figure::absent("ratio", Tier::Sw, METHOD, "no round with both rates");
    speedup.map_or_else(absent, |speedup| Figure::number("ratio", speedup, Tier::Sw, METHOD))
}
