// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs all steps of a tuning session, and assembles the report from their results.

use crate::bench::kernels;
use crate::calibrate::Calibration;
use crate::error::TuneError;
use crate::home::home;
use crate::idle::{idle, no_idle_advice};
use crate::measure::Measured;
use crate::predict::{Predicted, predict};
use crate::session::{Request, Session};
use crate::stored::recorded;
use crate::trial::{ROUNDS, Trial};
use linerate_dataplane::Watch;
use linerate_path::mapping::describe;
use linerate_path::model::{IdleRules, Mapping, Path, Rate, RunOptions};
use linerate_plan::candidates::PathShape;
use linerate_plan::diagnose::diagnose;
use linerate_plan::footprint::{packets_home, waits};
use linerate_plan::kernels::shares;
use linerate_record::run::RunReport;
use linerate_record::tune::{Limit, TuneReport};

/// Decisions of a tuning session that go into the tuned path file.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Assignment of stages to workers.
    pub mapping: Mapping,
    /// Packets per burst.
    pub burst: u32,
    /// Checksum and copy variant, or `selected`.
    pub kernels: String,
    /// Idle policies for the segments of `mapping`; `None` to leave those of the path file.
    pub idle: Option<IdleRules>,
}

/// Result of a tuning session.
#[derive(Debug)]
pub struct Tuned {
    /// Complete report, for the record.
    pub report: TuneReport,
    /// Mapping to keep, with burst and kernels; `None` if undecided.
    pub kept: Option<Kept>,
    /// Why no mapping is kept; `None` if there is one to keep, or if the session was stopped.
    pub cannot_tell: Option<TuneError>,
}

/// Tunes a path: measures it, explains its bottleneck, predicts other mappings, tries the best
/// ones, and reports which mapping to keep. If `watch` requests a stop, the report contains the
/// results so far.
///
/// # Errors
/// Returns an error if a run failed. A failed calibration is not an error: the report then contains
/// only the baseline, and no mapping is kept.
pub fn tune(request: &Request<'_>, watch: &Watch<'_>) -> Result<Tuned, TuneError> {
    let session = Session::new(request, watch)?;
    let measured = session.measure()?;
    let ended = |report, kept, cannot_tell| Ok(Tuned { report, kept, cannot_tell });
    if session.is_stopped() {
        return ended(untried(request, &measured, None), None, None);
    }
    if measured.finding.limit == Limit::Offered {
        let report = untried(request, &measured, None);
        let (report, kept) = session.with_idle(report, kept(request, &measured, None));
        return ended(report, Some(kept), None);
    }
    let calibration = match session.calibrate(&measured) {
        Ok(calibration) => calibration,
        Err(why) => return ended(untried(request, &measured, None), None, Some(why)),
    };
    let shape = shape(request);
    let predicted = predict(&shape, &measured, &calibration, request.p99_limit_ns);
    let report = TuneReport {
        candidates: predicted.candidates(&shape),
        ruled_out: predicted.ruled_out.clone(),
        calibration: Some(recorded(&calibration, &shape)),
        ..untried(request, &measured, Some(&calibration))
    };
    let Some(trial) = session.trial(&measured, &predicted)? else {
        return ended(report, None, None);
    };
    let kept = kept(request, &measured, trial.chosen.map(|chosen| (chosen, &predicted)));
    let tuned = session.run_kept(&kept)?;
    let (report, kept) = session.with_idle(with_trial(report, &trial, tuned), kept);
    ended(report, Some(kept), None)
}

impl Session<'_> {
    /// Adds idle policies for the kept mapping to a report, if the path has a rate.
    fn with_idle(&self, report: TuneReport, kept: Kept) -> (TuneReport, Kept) {
        if self.request.path.run.rate == Rate::Max || self.is_stopped() {
            return (report, kept);
        }
        let bench = self.bench();
        let bench = bench.with(kernels(&kept.kernels).unwrap_or(bench.kernels));
        let run = RunOptions { burst: kept.burst, ..bench.path.run };
        let path = Path { mapping: kept.mapping.clone(), run, ..bench.path.clone() };
        let found = idle(&bench, &path, &report.tuned, self.request.p99_limit_ns);
        // A failure of this last step loses nothing that was measured before.
        let (advice, rules) = found.unwrap_or_else(|why| (no_idle_advice(&why.to_string()), None));
        (TuneReport { idle: Some(advice), ..report }, Kept { idle: rules, ..kept })
    }

    /// Runs the kept mapping once more, long enough for its figures to be reported.
    fn run_kept(&self, kept: &Kept) -> Result<RunReport, TuneError> {
        let bench = self.bench();
        bench.progress.step("final run of the kept mapping");
        let bench = bench.with(kernels(&kept.kernels).unwrap_or(bench.kernels));
        let tuned = bench.profile(&kept.mapping, kept.burst, self.long_seconds())?;
        Ok(RunReport { finding: Some(diagnose(&tuned)), ..tuned })
    }
}

/// Returns what the planner needs to know about the path: stages, their state, and ring capacity.
fn shape(request: &Request<'_>) -> PathShape {
    let kinds = request.kinds;
    let spec = |name: &str| kinds.iter().find(|kind| kind.spec.kind == name).map(|kind| kind.spec);
    let specs: Vec<_> = request.path.stages.iter().filter_map(|stage| spec(&stage.kind)).collect();
    PathShape::new(request.path, &specs)
}

/// Returns the mapping to keep: the proposal with the index in `chosen`, or the baseline for
/// `None`.
fn kept(request: &Request<'_>, measured: &Measured, chosen: Option<(usize, &Predicted)>) -> Kept {
    let (mapping, burst, kernels) = match chosen {
        Some((index, predicted)) => {
            let proposal = &predicted.proposals[index];
            (&proposal.mapping, proposal.burst, &*predicted.kernels)
        }
        None => (&measured.mapping, request.path.run.burst, request.kernels.name()),
    };
    Kept { mapping: mapping.clone(), burst, kernels: kernels.to_owned(), idle: None }
}

/// Returns the report of a tuning session that tried no other mapping, with what is known at that
/// point: the number of CPUs, and the cache level that holds the packets.
fn untried(
    request: &Request<'_>,
    measured: &Measured,
    calibration: Option<&Calibration>,
) -> TuneReport {
    let Request { path, traffic, cpus, memory, .. } = *request;
    let home = home(path, traffic, &measured.mapping, memory);
    let waits = match (calibration, &home) {
        (Some(calibration), Ok(home)) => {
            waits(&calibration.costs, home, measured.report.ticks_per_s)
        }
        _ => Vec::new(),
    };
    TuneReport {
        given_mapping: describe(&path.mapping, &path.stages),
        baseline_mapping: describe(&measured.mapping, &path.stages),
        given_workers: Some(path.mapping.workers() as u32),
        cpus_available: Some(cpus.len() as u32),
        packets_home: Some(packets_home(&home)),
        waits,
        p99_limit_ns: request.p99_limit_ns,
        ..measured.untried()
    }
}

/// Adds the results of the rounds and of the final run `tuned` to a report.
fn with_trial(mut report: TuneReport, trial: &Trial, tuned: RunReport) -> TuneReport {
    trial.add_to(&mut report.candidates);
    TuneReport {
        kernel_shares: shares(&report.baseline, &tuned),
        tuned,
        chosen: trial.chosen.map(|chosen| chosen as u32),
        rounds: ROUNDS,
        baseline_kpps: trial.baseline_kpps.clone(),
        baseline_latency: Some(trial.baseline_latency.clone()),
        ..report
    }
}
