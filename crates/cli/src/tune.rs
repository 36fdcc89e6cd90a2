// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate tune`: measure, explain, predict, try, keep the best.
//!
//! ```text
//! baseline   <- the mapping of the file, or the nearest that fits the processors: one long run
//! finding    <- diagnose(baseline)
//! kernels    <- those of the file, or others if the calls of the baseline suit them clearly better
//! costs      <- of the stages, on the slowest processor while all others work (calibrate)
//! machine    <- what a ring and a burst cost, how the load divides (calibrate)
//! candidates <- search the mappings, predict each; the predictions are stored now
//! rounds     <- ROUNDS times: baseline and the best CONTENDERS, in random order
//!               (the baseline with the kernels of the file, all others with the kernels to try)
//! verdict    <- keep the best candidate that clearly beats the baseline, or the baseline
//! tuned      <- one long run of what is kept
//! ```

use crate::args::TuneArgs;
use crate::bench::Bench;
use crate::calibrate;
use crate::emit::{self, Answer};
use crate::failure::{Failure, also};
use crate::files;
use crate::footprint;
use crate::interrupt::stop_on_interrupt;
use crate::load::{Loaded, kernels, load};
use crate::processors::processors;
use crate::progress::Progress;
use crate::provenance;
use linerate_kernels::Kernels;
use linerate_machine::ticks::ticks;
use linerate_path::mapping::describe;
use linerate_path::model::{Mapping, Path, RunLength, Sink};
use linerate_path::spec::StageSpec;
use linerate_plan::candidates::{Proposal, candidates, nearest_feasible, order};
use linerate_plan::costs::Costs;
use linerate_plan::diagnose::diagnose;
use linerate_plan::footprint::waits;
use linerate_plan::kernels::{advise, shares};
use linerate_plan::model::{Environment, predict};
use linerate_plan::verdict::{Contender, Verdict, choose};
use linerate_record::run::RunReport;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::tune::{Candidate, Finding, KernelAdvice, Limit, RuledOut, TuneReport};
use linerate_record::{Body, Figure, Provenance, Record, Tier};
use linerate_trial::{Dropped, Length, Machine, Rules, Watch, rounds};
use std::cell::Cell;
use std::path::Path as FilePath;
use std::sync::atomic::Ordering;

/// Rounds in which the baseline and the contenders take turns. The verdict needs six with a clean
/// rate for an interval; the others are in hand for a busy machine.
const ROUNDS: u32 = 8;

/// Candidates that are tried, best prediction first.
const CONTENDERS: usize = 3;

/// Length of one run in a round, in seconds.
const ROUND_SECONDS: f64 = 0.15;

/// Longest single measurement: what is asked for beyond that goes into no tuning.
const LONG_SECONDS_MAX: f64 = 10.0;

/// Tunes a path and prints what came of it.
pub(crate) fn tune(args: &TuneArgs) -> Result<Answer, Failure> {
    let common = &args.common;
    let mut loaded = load(common)?;
    // A capture would be written by every run; it is for `run`.
    loaded.path.sink = Sink::Null;
    let cpus = processors(common)?;
    let files = loaded.files(common).writes("--record", common.record.as_ref());
    files.writes("--out", args.out.as_ref()).check()?;
    let provenance = provenance::provenance();
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(common.quiet);
    let long = long_seconds(&loaded.path);
    let runs = f64::from(ROUNDS) * (1 + CONTENDERS) as f64;
    let bench = Bench {
        path: &loaded.path,
        traffic: &loaded.traffic,
        cpus: &cpus,
        is_guest: provenance.hypervisor.is_some(),
        kernels: loaded.kernels,
        stop,
        progress: &progress,
        done: &Cell::new(0.0),
        planned: 2.0 * long + calibrate::SECONDS + runs * ROUND_SECONDS,
    };
    let provenance = Provenance { others: provenance::others(&cpus), ..provenance };
    let ended = Tuning::new(&bench, long).and_then(Tuning::go);
    progress.clear();
    let Ended { report, kept, costs, cannot_tell } = ended?;
    let end = report.tuned.dead_end();
    let report = with_surroundings(report, costs.as_ref(), &loaded, cpus.len());
    let record = Record { provenance, body: Body::Tune(Box::new(report)) };
    let kpps = record.figures()["tuned_kpps"].as_number();
    let printed = emit::emit(common, &record);
    also(printed, kept.map_or(Ok(()), |kept| write_out(args, &loaded, &kept)))?;
    if let Some(failure) = cannot_tell {
        return Err(failure);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new("interrupted: what was measured until then stands above"));
    }
    emit::reaches(loaded.goal_kpps, kpps, end.as_ref())
}

/// Writes the path with what is to be kept, where the command line asks for it.
fn write_out(args: &TuneArgs, loaded: &Loaded, kept: &Kept) -> Result<(), Failure> {
    let Some(file) = &args.out else { return Ok(()) };
    let mut path = as_seen_from(file, &args.common.path, &loaded.path)?;
    path.kernels = kept.kernels.name().to_owned();
    let shown = args.common.path.display().to_string();
    let text = linerate_path::write::with_mapping(&loaded.text, &path, &kept.mapping, kept.burst)
        .map_err(|problems| Failure::new(problems.display(&shown)))?;
    files::write(file, text)
}

/// The path as the file `out` must say it: elsewhere, the capture beside `original` is named in
/// full.
fn as_seen_from(out: &FilePath, original: &FilePath, path: &Path) -> Result<Path, Failure> {
    let full = |file: &FilePath| {
        let cannot = |error| Failure::new(format!("cannot locate {}: {error}", file.display()));
        std::path::absolute(file).map_err(cannot)
    };
    let mut path = path.clone();
    let (out, original) = (full(out)?, full(original)?);
    if let (Some(file), Some(folder)) = (path.source.file_mut(), original.parent())
        && out.parent() != Some(folder)
    {
        let capture = folder.join(&*file);
        let name = capture.to_str();
        let cannot = || Failure::new(format!("{} is not UTF-8, so no TOML", capture.display()));
        *file = name.ok_or_else(cannot)?.to_owned();
    }
    Ok(path)
}

fn long_seconds(path: &Path) -> f64 {
    match path.run.length {
        RunLength::Seconds(seconds) => seconds.min(LONG_SECONDS_MAX),
        RunLength::Packets(_) => 2.0,
    }
}

/// The report with what was available to it: processors, and where the packets are.
fn with_surroundings(
    report: TuneReport,
    costs: Option<&Costs>,
    loaded: &Loaded,
    cpus: usize,
) -> TuneReport {
    let given = &loaded.path.mapping;
    let home = footprint::of(loaded, &nearest_feasible(given, cpus, None));
    let waits = match (costs, &home) {
        (Some(costs), Ok(home)) => waits(costs, home, report.baseline.ticks_per_s),
        _ => Vec::new(),
    };
    TuneReport {
        given_workers: Some(given.workers() as u32),
        cpus_available: Some(cpus as u32),
        packets_home: Some(footprint::recorded(&home)),
        waits,
        ..report
    }
}

/// One pass through the chain.
struct Tuning<'a> {
    bench: &'a Bench<'a>,
    long: f64,
    specs: Vec<StageSpec>,
    baseline_mapping: Mapping,
    baseline: RunReport,
    finding: Finding,
    advice: Option<KernelAdvice>,
}

/// What the file is to say.
struct Kept {
    mapping: Mapping,
    burst: u32,
    kernels: Kernels,
}

/// What came of it.
struct Ended {
    report: TuneReport,
    /// What to keep; `None` when that was not decided.
    kept: Option<Kept>,
    /// What the stages cost; `None` when that was not measured.
    costs: Option<Costs>,
    /// Why nothing was kept, unless it was stopped.
    cannot_tell: Option<Failure>,
}

impl<'a> Tuning<'a> {
    /// Measures the baseline and explains it.
    fn new(bench: &'a Bench<'a>, long: f64) -> Result<Self, Failure> {
        let path = bench.path;
        let specs = path.stages.iter().filter_map(|s| crate::kinds::kind(&s.kind));
        let specs = specs.map(|kind| kind.spec).collect();
        let baseline_mapping = nearest_feasible(&path.mapping, bench.cpus.len(), None);
        bench.progress.step("baseline");
        let baseline = bench.profile(&baseline_mapping, path.run.burst, long)?;
        let finding = diagnose(&baseline);
        let advice = advise(&baseline);
        Ok(Self { bench, long, specs, baseline_mapping, baseline, finding, advice })
    }

    /// The rest of the chain.
    fn go(self) -> Result<Ended, Failure> {
        let path = self.bench.path;
        let stopped = self.bench.is_stopped();
        if self.finding.limit == Limit::Offered || stopped {
            let kept = (!stopped).then(|| self.kept(None, self.bench.kernels));
            let report = self.unchanged(Vec::new(), Vec::new());
            return Ok(Ended { report, kept, costs: None, cannot_tell: None });
        }
        let trial = &self.bench.with(self.kernels_to_try());
        self.bench.progress.step("calibrating");
        let calibration = calibrate::calibrate(trial, &self.baseline_mapping);
        let (costs, machine) = match calibration {
            Ok(calibration) => calibration,
            Err(why) => {
                let report = self.unchanged(Vec::new(), Vec::new());
                return Ok(Ended { report, kept: None, costs: None, cannot_tell: Some(why) });
            }
        };
        let burst = path.run.burst;
        let mut advice =
            candidates(path, &self.specs, &costs, &machine, &self.baseline_mapping, burst);
        if trial.kernels.name() != self.bench.kernels.name() {
            advice.proposals.push(self.other_kernels(trial.kernels, &costs, &machine));
            order(&mut advice.proposals);
        }
        let mut stored: Vec<Candidate> =
            advice.proposals.iter().map(|proposal| self.stored(proposal, trial.kernels)).collect();
        let contenders = contenders(&advice.proposals, &self.baseline_mapping);
        let rates = self.rounds(&contenders, trial)?;
        if self.bench.is_stopped() {
            let report = self.unchanged(stored, advice.ruled_out);
            return Ok(Ended { report, kept: None, costs: Some(costs), cannot_tell: None });
        }
        let verdict = verdict(&contenders, &rates);
        for (index, contender) in contenders.iter().enumerate() {
            let candidate = &mut stored[contender.index];
            candidate.measured_kpps = Some(rate_figure(&rates[index + 1]));
            candidate.speedup = Some(speedup_figure(verdict.speedups[index]));
        }
        self.bench.progress.step("the mapping to keep");
        let kept = match verdict.chosen {
            Some(index) => self.kept(Some(contenders[index].proposal), trial.kernels),
            None => self.kept(None, self.bench.kernels),
        };
        let tuned = self.bench.with(kept.kernels).profile(&kept.mapping, kept.burst, self.long)?;
        let tuned = RunReport { finding: Some(diagnose(&tuned)), ..tuned };
        let chosen = verdict.chosen.map(|index| contenders[index].index as u32);
        let report = TuneReport {
            kernel_shares: shares(&self.baseline, &tuned),
            tuned,
            chosen,
            rounds: ROUNDS,
            baseline_kpps: rate_figure(&rates[0]),
            ..self.unchanged(stored, advice.ruled_out)
        };
        Ok(Ended { report, kept: Some(kept), costs: Some(costs), cannot_tell: None })
    }

    /// What is kept: a proposal, or the baseline.
    fn kept(&self, proposal: Option<&Proposal>, kernels: Kernels) -> Kept {
        let (mapping, burst) = match proposal {
            Some(proposal) => (&proposal.mapping, proposal.burst),
            None => (&self.baseline_mapping, self.bench.path.run.burst),
        };
        Kept { mapping: mapping.clone(), burst, kernels }
    }

    /// The kernels of the candidates: others than those of the file only if that promises enough.
    fn kernels_to_try(&self) -> Kernels {
        let better = self.advice.as_ref().filter(|advice| advice.worth_trying);
        better.and_then(|advice| kernels(&advice.fastest).ok()).unwrap_or(self.bench.kernels)
    }

    /// The baseline with other kernels.
    fn other_kernels(&self, kernels: Kernels, costs: &Costs, machine: &Environment) -> Proposal {
        let (mapping, burst) = (self.baseline_mapping.clone(), self.bench.path.run.burst);
        let prediction = predict(&mapping, burst, costs, machine);
        Proposal { name: format!("kernels {} only", kernels.name()), mapping, burst, prediction }
    }

    /// The report when the baseline is kept, or nothing further could be done.
    fn unchanged(&self, candidates: Vec<Candidate>, ruled_out: Vec<RuledOut>) -> TuneReport {
        let path = self.bench.path;
        TuneReport {
            given_mapping: describe(&path.mapping, &path.stages),
            baseline_mapping: describe(&self.baseline_mapping, &path.stages),
            baseline: self.baseline.clone(),
            baseline_kpps: self.baseline.processed_kpps.clone(),
            finding: self.finding.clone(),
            candidates,
            ruled_out,
            chosen: None,
            tuned: RunReport { finding: Some(self.finding.clone()), ..self.baseline.clone() },
            rounds: 0,
            kernel_shares: shares(&self.baseline, &self.baseline),
            kernel_advice: self.advice.clone(),
            given_workers: None,
            cpus_available: None,
            packets_home: None,
            waits: Vec::new(),
        }
    }

    /// A proposal as the record keeps it before anything of it has run.
    fn stored(&self, proposal: &Proposal, kernels: Kernels) -> Candidate {
        const METHOD: &str =
            "stage costs on the slowest processor with all at work, calibrated ring and burst";
        let predicted = proposal.prediction.kpps;
        Candidate {
            name: proposal.name.clone(),
            mapping: describe(&proposal.mapping, &self.bench.path.stages),
            burst: proposal.burst,
            kernels: Some(kernels.name().to_owned()),
            predicted_kpps: Figure::number("kpps", predicted, Tier::Model, METHOD),
            memory_bound: proposal.prediction.memory_bound,
            measured_kpps: None,
            speedup: None,
        }
    }

    /// Rates of the baseline (first) and, on the bench `trial`, the contenders, by round; `None`
    /// where no window was clean.
    fn rounds(
        &self,
        contenders: &[Tried<'_>],
        trial: &Bench<'_>,
    ) -> Result<Vec<Vec<Option<f64>>>, Failure> {
        let path = self.bench.path;
        let mut all = vec![(self.bench, &self.baseline_mapping, path.run.burst)];
        all.extend(contenders.iter().map(|c| (trial, &c.proposal.mapping, c.proposal.burst)));
        let names: Vec<String> = all.iter().map(|(_, m, _)| describe(m, &path.stages)).collect();
        let rules = Rules {
            what: "rounds",
            contestants: &names.iter().map(String::as_str).collect::<Vec<_>>(),
            placements: 1,
            length: Length::Rounds(ROUNDS),
            seed: ticks(),
        };
        let watch = Watch::new(self.bench.stop, &|_, _| {});
        let rates = rounds(&rules, &Machine::kernel(), &watch, |turn| {
            let ((bench, mapping, burst), name) = (all[turn.contestant], &names[turn.contestant]);
            let step = format!("round {} of {ROUNDS}: {name}", turn.round + 1);
            self.bench.progress.step(&step);
            let run = bench.run(path, mapping, burst, ROUND_SECONDS, None)?;
            Ok::<_, Failure>(run.processed_kpps.as_number().ok_or(Dropped::NoneKept))
        })?;
        let of_contestant = |which| rates.each(which).iter().map(|rate| rate.ok()).collect();
        Ok((0..all.len()).map(of_contestant).collect())
    }
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
