// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives per-stage costs from a measured run, and identifies memory-bound stages.
//!
//! Costs are ticks of the timestamp counter per packet *entering the path*. If a filter drops half
//! of the packets, the stages after it cost half as much, so stage costs add up to the cost of a
//! worker. Ring costs are excluded, since they belong to a mapping rather than a stage.

use crate::profile::{Profile, Which, inner};
use linerate_path::model::Path;
use linerate_record::run::RunReport;
use linerate_record::stats::Estimate;
use std::fmt;

/// Minimum cost ratio for a memory-bound stage: its cost on the run's packets relative to its cost
/// on a few L1-resident packets. Speculative overlap, branch history and packet mix also affect the
/// ratio of compute-bound stages, but only by a few tenths.
const MEMORY_RATIO: f64 = 1.5;

/// Minimum cost difference for a memory-bound stage, in nanoseconds. A smaller difference amounts
/// to at most two L2 hits (about 14 cycles each), which no mapping can avoid.
const MEMORY_NS: f64 = 10.0;

/// Cost of a stage, or of an end of the path (source or sink).
#[derive(Clone, Debug, PartialEq)]
pub struct StageCost {
    /// Stage name, or `source` or `sink` for the ends.
    pub name: String,
    /// Ticks per packet entering the path.
    pub ticks: Estimate,
    /// Fraction of the packets entering the path that reach this stage, or this end of the path, 0
    /// to 1. Includes packets that bypass the stage, because they also cross the rings on both
    /// sides of it.
    pub reach: f64,
    /// Cost of a memory-bound stage with cached data, in ticks per packet entering the path; `None`
    /// if the stage is compute-bound or was not checked.
    pub hot_ticks: Option<Estimate>,
}

/// Costs of a path, measured in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Cost of receiving packets from the source.
    pub source: StageCost,
    /// The stages, in path order.
    pub stages: Vec<StageCost>,
    /// Cost of delivering packets to the sink.
    pub sink: StageCost,
    /// Packets per burst during the run.
    pub burst: u32,
    /// Number of concurrent workers during the run, which slow each other down.
    pub workers: usize,
}

/// Error returned when stage costs cannot be derived from a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostsError {
    /// No packet entered the path.
    NoPackets,
    /// The run lacks a stage of the path, so it is a run of another path.
    NotInRun {
        /// Stage name, or `source` or `sink`.
        stage: String,
    },
    /// A stage processed packets, but its service time is unavailable.
    Unreadable {
        /// Stage name, or `source` or `sink`.
        stage: String,
        /// Why the service time is unavailable, as stated in the record.
        reason: String,
    },
}

impl fmt::Display for CostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPackets => write!(
                f,
                "no packets entered the path, or its interfaces refused all packets, so its costs \
                 are unknown: run it longer, or check its source and its interfaces"
            ),
            Self::NotInRun { stage } => write!(
                f,
                "the run used a different path, which has no stage `{stage}`; run this path and \
                 plan from its record"
            ),
            Self::Unreadable { stage, reason } => write!(
                f,
                "the service time of `{stage}` is missing ({reason}): run longer, or on less busy \
                 CPUs"
            ),
        }
    }
}

impl std::error::Error for CostsError {}

impl Costs {
    /// Derives the costs of the stages of `path` from `run`, which used bursts of `burst` packets.
    pub fn from_run(run: &RunReport, path: &Path, burst: u32) -> Result<Self, CostsError> {
        let profile = Profile::new(run).ok_or(CostsError::NoPackets)?;
        let stages =
            path.stages.iter().map(|s| stage_cost(&profile, &s.name, Which::Named(&s.name)));
        Ok(Self {
            source: stage_cost(&profile, "source", Which::Source)?,
            stages: stages.collect::<Result<_, _>>()?,
            sink: stage_cost(&profile, "sink", Which::Sink)?,
            burst,
            workers: run.workers.len(),
        })
    }

    /// Marks memory-bound stages by setting their costs on cached data. Stages that were not
    /// checked remain unchanged.
    pub fn apply(&mut self, check: &MemoryCheck) {
        let ends = [&mut self.source, &mut self.sink];
        for cost in self.stages.iter_mut().chain(ends) {
            if let Some(stage) = check.stages.iter().find(|s| s.name == cost.name) {
                cost.hot_ticks = stage.is_memory_bound().then_some(stage.hot);
            }
        }
    }
}

fn stage_cost(
    profile: &Profile<'_>,
    name: &str,
    which: Which<'_>,
) -> Result<StageCost, CostsError> {
    let Some(total) = profile.stage(which) else {
        return Err(CostsError::NotInRun { stage: name.to_owned() });
    };
    if let Some(reason) = total.unreadable {
        return Err(CostsError::Unreadable { stage: name.to_owned(), reason });
    }
    // Packets in flight when counting began can make this slightly more than 1.
    let reach = total.reach.min(1.0);
    Ok(StageCost { name: name.to_owned(), ticks: total.ticks, reach, hot_ticks: None })
}

/// Cost of a stage with uncached (normal) and cached (hot) data.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryStage {
    /// Stage name, or `source` or `sink` for the ends.
    pub name: String,
    /// Ticks per packet entering the path, with the packets of the normal run.
    pub normal: Estimate,
    /// Ticks per packet entering the path when the source repeats a few packets, so all data stays
    /// in cache. Scaled to the fraction of packets that the stage processes in the normal run.
    pub hot: Estimate,
    /// Difference between the two costs, in ticks per packet, above which the stage may count as
    /// memory-bound.
    pub least_ticks: f64,
}

impl MemoryStage {
    /// Returns whether the costs differ enough for the stage to count as memory-bound.
    pub fn is_memory_bound(&self) -> bool {
        self.normal.value > MEMORY_RATIO * self.hot.value
            && self.normal.value - self.hot.value > self.least_ticks
    }
}

/// Stage costs with uncached and cached data, which identify the memory-bound stages.
///
/// Costs of compute-bound stages carry over to other mappings. Costs of memory-bound stages depend
/// on what else is in the cache and how many packets are in flight, so the model can only bound
/// them.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryCheck {
    /// Stages for which both runs have a time.
    pub stages: Vec<MemoryStage>,
}

impl MemoryCheck {
    /// Compares two runs of the same mapping: `normal`, and `hot`, whose source repeated a few
    /// packets. Omits stages that lack a time in either run or received no packets in the hot run.
    pub fn compare(normal: &RunReport, hot: &RunReport) -> Self {
        let (Some(cold), Some(warm)) = (Profile::new(normal), Profile::new(hot)) else {
            return Self { stages: Vec::new() };
        };
        let cold_rate = normal.ticks_per_s;
        let names = normal.workers.iter().flat_map(|s| inner(&s.stages));
        let mut unique: Vec<&str> = Vec::new();
        for stage in names {
            if !unique.contains(&stage.name.as_str()) {
                unique.push(&stage.name);
            }
        }
        let ends = [("source", Which::Source), ("sink", Which::Sink)];
        let stages = unique.into_iter().map(|n| (n, Which::Named(n))).chain(ends);
        let pairs = stages.filter_map(|(name, which)| {
            let (normal, hot) = (cold.stage(which)?, warm.stage(which)?);
            let readable = normal.unreadable.is_none() && hot.unreadable.is_none();
            let hot_ticks = hot.ticks.scale(normal.processed / hot.processed);
            (readable && hot.processed > 0.0).then(|| MemoryStage {
                name: name.to_owned(),
                normal: normal.ticks,
                hot: hot_ticks,
                // The timestamp counter need not count cycles: on AArch64, it often has a rate of
                // 25 to 100 MHz.
                least_ticks: MEMORY_NS * 1e-9 * cold_rate,
            })
        });
        Self { stages: pairs.collect() }
    }
}
