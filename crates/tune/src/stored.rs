// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores calibrations in records, and makes predictions from stored calibrations without sending
//! packets.

use crate::calibrate::Calibration;
use crate::measure::Measured;
use crate::predict::predict;
use linerate_path::keys::MAX_WORKERS;
use linerate_path::spec::State;
use linerate_plan::candidates::PathShape;
use linerate_plan::costs::{Costs, StageCost};
use linerate_plan::model::{Environment, Handover};
use linerate_plan::profile::mapping;
use linerate_record::stats::Estimate;
use linerate_record::tune::{CalibratedStage, CalibrationReport, Limit, TuneReport};
use linerate_record::{Body, Figure, Tier};
use std::fmt;

/// Error returned when a record is not sufficient for predictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The record is a `run` record. A run does not calibrate the machine.
    Run,
    /// The record is neither a `run` nor a `tune` record.
    Packets,
    /// The tuning session ended before calibration, or was recorded by an older version.
    Calibration,
    /// A calibration figure has no value.
    Figure {
        /// Name of the figure.
        name: String,
        /// Why it has no value, as stated in the record.
        reason: String,
    },
    /// The calibration is out of range, or does not belong to the recorded run.
    Whole {
        /// The mismatched or invalid item.
        what: &'static str,
    },
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str(
                "a run record lacks what tune needs for predictions: ring and burst costs, which \
                 stages are memory-bound or replicable, and the distribution of flows; create a \
                 tune record with `linerate tune --record FILE PATH.toml`, or predict from assumed \
                 costs with `linerate plan --from RECORD PATH.toml`",
            ),
            Self::Packets => f.write_str(
                "not a tune record; create one with `linerate tune --record FILE PATH.toml`",
            ),
            Self::Calibration => f.write_str(
                "the record lacks `calibration`: the tuning session stopped early, could not \
                 determine the stage costs, or predates record version 2.0; tune again",
            ),
            Self::Figure { name, reason } => {
                write!(f, "the record lacks `{name}` in `calibration` ({reason}); tune again")
            }
            Self::Whole { what } => {
                write!(f, "`calibration` contradicts the rest of the record: {what}; tune again")
            }
        }
    }
}

impl std::error::Error for Lacking {}

/// Explains a stored tuning session and makes predictions from its calibration, without sending
/// packets. `file` names the record. The predictions equal the stored ones if made by the same
/// version of the program.
///
/// # Errors
/// Returns an error that states what the record lacks.
pub fn from_record(body: &Body, file: &str) -> Result<TuneReport, Lacking> {
    let stored = match body {
        Body::Tune(stored) => stored,
        Body::Run(_) => return Err(Lacking::Run),
        _ => return Err(Lacking::Packets),
    };
    let (mapping, names) = mapping(&stored.baseline);
    let measured = Measured::explain(mapping, stored.baseline.clone());
    let explained = TuneReport {
        given_mapping: stored.given_mapping.clone(),
        baseline_mapping: stored.baseline_mapping.clone(),
        given_workers: stored.given_workers,
        cpus_available: stored.cpus_available,
        packets_home: stored.packets_home.clone(),
        waits: stored.waits.clone(),
        calibration: stored.calibration.clone(),
        predicted_from: Some(file.to_owned()),
        p99_limit_ns: stored.p99_limit_ns,
        ..measured.untried()
    };
    let Some(recorded) = &stored.calibration else {
        // Without a calibration there are no predictions, but none are needed if the source limits
        // the rate.
        let is_offered = explained.finding.limit == Limit::Offered;
        return if is_offered { Ok(explained) } else { Err(Lacking::Calibration) };
    };
    check(recorded, &names, measured.mapping.workers())?;
    let shape = shape(recorded);
    let predicted = predict(&shape, &measured, &calibration(recorded)?, stored.p99_limit_ns);
    let candidates = predicted.candidates(&shape);
    Ok(TuneReport { candidates, ruled_out: predicted.ruled_out, ..explained })
}

/// Returns the calibration in the form stored in a record.
pub(crate) fn recorded(calibration: &Calibration, shape: &PathShape) -> CalibrationReport {
    let Calibration { costs, machine, kernels } = calibration;
    let handover = &machine.handover;
    let global = shape.stages.iter().filter(|(_, state)| *state == State::Global);
    CalibrationReport {
        kernels: kernels.clone(),
        burst: costs.burst,
        ring: shape.ring,
        workers: costs.workers as u32,
        cpus: machine.cpus as u32,
        ticks_per_s: machine.ticks_per_s,
        drift: machine.drift,
        source: recorded_stage(&costs.source),
        stages: costs.stages.iter().map(recorded_stage).collect(),
        sink: recorded_stage(&costs.sink),
        global_stages: global.map(|(name, _)| name.clone()).collect(),
        ring_out: figure("ticks/packet", handover.producer_ticks),
        ring_in: figure("ticks/packet", handover.consumer_ticks),
        burst_ticks: figure("ticks/burst", machine.burst_ticks),
        largest_shares: machine.largest_share.clone(),
    }
}

fn recorded_stage(cost: &StageCost) -> CalibratedStage {
    CalibratedStage {
        name: cost.name.clone(),
        ticks_per_packet: figure("ticks/packet", cost.ticks),
        hot_ticks_per_packet: cost.hot_ticks.map(|ticks| figure("ticks/packet", ticks)),
        reach: cost.reach,
    }
}

/// Converts a calibration estimate to a figure. Estimates without samples are marked as assumed.
fn figure(unit: &str, estimate: Estimate) -> Figure {
    let (tier, method) = match estimate.n {
        0 => (Tier::Model, "assumed, not measured here"),
        _ => (Tier::Sw, "measured on the slowest CPU with all CPUs loaded"),
    };
    Figure::number(unit, estimate, tier, method)
}

/// Checks that a calibration belongs to a run of the stages `names` with this number of workers,
/// and that its values are in range.
fn check(recorded: &CalibrationReport, names: &[&str], workers: usize) -> Result<(), Lacking> {
    let is_of_run = recorded.stages.iter().map(|stage| &*stage.name).eq(names.iter().copied());
    let may_run = (workers.max(1)..=MAX_WORKERS).contains(&(recorded.cpus as usize));
    let checks = [
        (is_of_run && !names.is_empty(), "its stages differ from the baseline's"),
        (may_run, "it has fewer CPUs than the baseline has workers, or more CPUs than supported"),
        (recorded.burst > 0 && recorded.workers > 0, "its burst or its number of workers is 0"),
        (recorded.ticks_per_s > 0.0, "its tick rate is not positive"),
    ];
    match checks.into_iter().find(|(fits, _)| !fits) {
        Some((_, what)) => Err(Lacking::Whole { what }),
        None => Ok(()),
    }
}

fn shape(recorded: &CalibrationReport) -> PathShape {
    let is_global = |name: &String| recorded.global_stages.contains(name);
    let state = |name| if is_global(name) { State::Global } else { State::PerFlow };
    let stages = recorded.stages.iter().map(|stage| (stage.name.clone(), state(&stage.name)));
    PathShape { stages: stages.collect(), ring: recorded.ring }
}

fn calibration(recorded: &CalibrationReport) -> Result<Calibration, Lacking> {
    let stages = recorded.stages.iter().map(cost).collect::<Result<_, _>>()?;
    let costs = Costs {
        source: cost(&recorded.source)?,
        stages,
        sink: cost(&recorded.sink)?,
        burst: recorded.burst,
        workers: recorded.workers as usize,
    };
    let handover = Handover {
        producer_ticks: estimate("ring_out", &recorded.ring_out)?,
        consumer_ticks: estimate("ring_in", &recorded.ring_in)?,
        burst: recorded.burst,
    };
    let machine = Environment {
        ticks_per_s: recorded.ticks_per_s,
        cpus: recorded.cpus as usize,
        scaling: Calibration::scaling(),
        handover,
        burst_ticks: estimate("burst_ticks", &recorded.burst_ticks)?,
        drift: recorded.drift,
        largest_share: recorded.largest_shares.clone(),
    };
    Ok(Calibration { costs, machine, kernels: recorded.kernels.clone() })
}

fn cost(stage: &CalibratedStage) -> Result<StageCost, Lacking> {
    let hot = stage.hot_ticks_per_packet.as_ref();
    Ok(StageCost {
        name: stage.name.clone(),
        ticks: estimate(&stage.name, &stage.ticks_per_packet)?,
        reach: stage.reach,
        hot_ticks: hot.map(|figure| estimate(&stage.name, figure)).transpose()?,
    })
}

fn estimate(name: &str, figure: &Figure) -> Result<Estimate, Lacking> {
    figure.estimate().ok_or_else(|| Lacking::Figure {
        name: name.to_owned(),
        reason: figure.reason.clone().unwrap_or_else(|| "not a number".to_owned()),
    })
}

#[cfg(test)]
mod tests;
