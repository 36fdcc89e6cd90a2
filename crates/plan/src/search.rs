// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches for better mappings before anything has run. All predictors share this search.
//!
//! ```text
//! single = changes of the mapping as written that gain more than MIN_GAIN, highest rate first
//! best   = as written
//! repeat STEPS times:
//!     best <- the single change of best with the highest rate, if it gains more than MIN_GAIN
//! recommended = single, and the chain of changes that led to best, the largest gain first
//! ```
//!
//! The formula compares all mappings at once, so one step suffices; with the simulator, the search
//! proceeds one change at a time. Every recommendation names a measurement that would disprove it.

use crate::predictor::{
    Basis, Bounds, Candidate, CandidateOf, Changed, Placement, Planner, PredictedBy,
};
use crate::verdict::is_worth_it;
use linerate_path::mapping::describe;
use linerate_path::model::Path;
use linerate_path::spec::StageSpec;
use linerate_record::plan::{LineHold, PlanReport, Recommendation, Search};
use linerate_record::stats::Estimate;
use linerate_record::units::{Kpps, counted};
use linerate_record::{Figure, Tier};

/// Maximum number of recommendations; users rarely try more.
const RECOMMENDED_MAX: usize = 8;

/// Why a stage cannot be replicated. Follows the name of the stage.
pub const ONE_STATE: &str = "has global state, so it must run on one worker";

/// The path and machine that a plan is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The path, with its mapping as written.
    pub path: &'a Path,
    /// The specification of each stage.
    pub specs: &'a [StageSpec],
    /// Target rate per flow in kpps: line rate or, for the simulator, the offered rate. `None`
    /// if unknown, or if packets are offered as fast as the path accepts them.
    pub line_kpps: Option<f64>,
    /// Name of the machine, for the report.
    pub machine: &'a str,
    /// Where the machine's data comes from.
    pub machine_source: &'a str,
}

/// Predicts the mapping as written and recommends changes.
///
/// # Errors
/// Returns an error if the planner cannot predict a setting.
pub fn plan<P: Planner>(subject: &Subject<'_>, planner: &P) -> Result<PlanReport, P::Error> {
    let (changes, best_kpps) = best_changes(planner)?;
    let mut recommendations = Vec::with_capacity(changes.len() + 1);
    let mut settings = vec![bounded(planner, planner.written())?];
    for candidate in &changes {
        let (placement, bounds) = bounded(planner, &candidate.predicted)?;
        settings.push((placement.clone(), bounds));
        recommendations.push(recommendation(subject.path, planner, candidate, placement, bounds));
    }
    for setting in planner.for_line() {
        settings.push(bounded(planner, &planner.predict(setting)?)?);
    }
    let hold = subject.line_kpps.and_then(|line| line_hold(subject.path, planner, line, &settings));
    let predicted: Vec<&PredictedBy<P>> = changes.iter().map(|one| &one.predicted).collect();
    let limits = planner.limits(&predicted);
    recommendations.extend(planner.beyond());
    let gain = |one: &Recommendation| one.gain.as_number().unwrap_or(0.0);
    recommendations.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    recommendations.truncate(RECOMMENDED_MAX);
    let report = report(subject, planner, recommendations, planner.extent(Some(best_kpps)))?;
    Ok(PlanReport { line_hold: hold, limits, ..report })
}

/// Predicts the mapping as written, without recommendations.
///
/// # Errors
/// Returns an error if the planner cannot predict the mapping.
pub fn written<P: Planner>(subject: &Subject<'_>, planner: &P) -> Result<PlanReport, P::Error> {
    report(subject, planner, Vec::new(), planner.extent(None))
}

/// Returns changes to a setting that are worth examining, highest rate first and, among equal
/// rates, fewest workers first.
fn candidates<P: Planner>(
    planner: &P,
    of: &PredictedBy<P>,
) -> Result<Vec<CandidateOf<P>>, P::Error> {
    let predicted = |Changed { name, kind, setting }| {
        Ok(Candidate { name, kind, predicted: planner.predict(setting)? })
    };
    let candidates = planner.changes(of).into_iter().map(predicted);
    let mut candidates: Vec<CandidateOf<P>> = candidates.collect::<Result<_, _>>()?;
    let kpps = |one: &CandidateOf<P>| one.predicted.kpps;
    let workers =
        |one: &CandidateOf<P>| planner.placement(&one.predicted.setting).mapping.workers();
    candidates.sort_by(|a, b| kpps(b).total_cmp(&kpps(a)).then(workers(a).cmp(&workers(b))));
    Ok(planner.needed(candidates))
}

/// Returns the changes to recommend, and the highest rate found.
fn best_changes<P: Planner>(planner: &P) -> Result<(Vec<CandidateOf<P>>, f64), P::Error> {
    let written = planner.written();
    let gains = |change: &CandidateOf<P>, over: f64| is_worth_it(change.predicted.kpps, over);
    let mut single = candidates(planner, written)?;
    single.retain(|change| gains(change, written.kpps));
    let (mut best, mut chain) = (written.kpps, None::<CandidateOf<P>>);
    let mut next = single.first().cloned();
    for step in 1..=P::STEPS {
        let Some(mut found) = next.filter(|change| gains(change, best)) else { break };
        if let Some(before) = &chain {
            found.name = format!("{}; then {}", before.name, found.name);
        }
        best = found.predicted.kpps;
        next = match step == P::STEPS || planner.is_enough(best) {
            true => None,
            false => candidates(planner, &found.predicted)?.into_iter().next(),
        };
        chain = Some(found);
    }
    let chain = chain.filter(|chain| single.iter().all(|change| change.name != chain.name));
    // Leave room for the chain of changes if the planner searches more than one step.
    single.truncate(RECOMMENDED_MAX - usize::from(P::STEPS > 1));
    single.extend(chain);
    Ok((single, best))
}

/// Returns a setting and its prediction, with intervals, in the form stored in the record.
fn bounded<P: Planner>(
    planner: &P,
    predicted: &PredictedBy<P>,
) -> Result<(Placement, Bounds), P::Error> {
    Ok((planner.placement(&predicted.setting), planner.bounds(predicted)?))
}

/// Returns the cheapest setting whose rate reaches line rate even at the low end of its interval,
/// that is, the one with the fewest workers, then the smallest burst. If no setting reaches line
/// rate, returns the one that comes closest.
fn line_hold<P: Planner>(
    path: &Path,
    planner: &P,
    line_kpps: f64,
    settings: &[(Placement, Bounds)],
) -> Option<LineHold> {
    let low = |bounds: &Bounds| if bounds.kpps.low.is_finite() { bounds.kpps.low } else { 0.0 };
    let size = |one: &Placement| (one.mapping.workers(), one.burst, one.mapping.segments.len());
    let holds = |one: &&(Placement, Bounds)| planner.is_enough(low(&one.1));
    let holder = settings.iter().filter(holds).min_by_key(|one| size(&one.0));
    let nearest = settings
        .iter()
        .max_by(|a, b| low(&a.1).total_cmp(&low(&b.1)).then_with(|| size(&b.0).cmp(&size(&a.0))));
    let (placement, bounds) = holder.or(nearest)?;
    let workers = placement.mapping.workers() as u32;
    let mapping = describe(&placement.mapping, &path.stages);
    let (cpus, low, line) = (counted(workers.into(), "CPU"), Kpps(low(bounds)), Kpps(line_kpps));
    let burst = placement.burst;
    let sentence = match holder {
        Some(_) => format!(
            "the smallest mapping whose predicted rate reaches {line} even at the low end of its \
             interval needs {cpus}: {mapping}, burst {burst}"
        ),
        None => format!(
            "no mapping is predicted to reach {line} at the low end of its interval; the best is \
             {mapping} on {cpus}, burst {burst}, with at least {low}"
        ),
    };
    Some(LineHold {
        cpus: holder.map(|_| workers),
        mapping,
        burst,
        predicted_kpps: figure::<P>("kpps", bounds.kpps),
        sentence,
    })
}

fn recommendation<P: Planner>(
    path: &Path,
    planner: &P,
    candidate: &CandidateOf<P>,
    placement: Placement,
    bounds: Bounds,
) -> Recommendation {
    Recommendation {
        change: candidate.name.clone(),
        kind: candidate.kind,
        mapping: describe(&placement.mapping, &path.stages),
        cpus: placement.cpus,
        beside: placement.beside,
        burst: placement.burst,
        predicted_kpps: figure::<P>("kpps", bounds.kpps),
        gain: figure::<P>("ratio", bounds.gain),
        why: planner.why(candidate),
        proof: planner.proof(&candidate.predicted, &bounds),
    }
}

fn report<P: Planner>(
    subject: &Subject<'_>,
    planner: &P,
    recommendations: Vec<Recommendation>,
    search: Search,
) -> Result<PlanReport, P::Error> {
    let Basis { costs, cpus, flows, inputs } = planner.basis();
    let path = subject.path;
    Ok(PlanReport {
        path: path.name.clone(),
        machine: subject.machine.to_owned(),
        machine_source: subject.machine_source.to_owned(),
        model: P::MODEL,
        costs,
        mapping: describe(&path.mapping, &path.stages),
        burst: path.run.burst,
        cpus,
        flows,
        predicted_kpps: figure::<P>("kpps", planner.bounds(planner.written())?.kpps),
        line_rate_kpps: subject.line_kpps,
        line_hold: None,
        limits: Vec::new(),
        bottleneck: planner.bottleneck(),
        workers: planner.workers(),
        recommendations,
        ruled_out: planner.ruled_out(),
        search,
        inputs,
    })
}

fn figure<P: Planner>(unit: &str, estimate: Estimate) -> Figure {
    Figure::number(unit, estimate, Tier::Model, P::METHOD)
}

/// Returns the names of a worker's stages, joined by `+`.
pub fn runs(path: &Path, stages: std::ops::Range<usize>) -> String {
    path.stages[stages].iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join("+")
}

/// Formats a count, as `N x 10^E` from a million upwards.
pub fn about(count: f64) -> String {
    if count < 1e6 { format!("{count:.0}") } else { format!("{count:.0e}").replace('e', " x 10^") }
}

#[cfg(test)]
mod tests;
