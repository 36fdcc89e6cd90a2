// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the cost of each stage from a measured run, and identifies the memory-bound stages.
//!
//! Costs are ticks of the timestamp counter per packet *entering the path*. A stage after a filter
//! that drops half the packets has half the weight, so that the costs of different stages add up to
//! the cost of a worker. The cost of rings is excluded: it belongs to a mapping, not to a stage.

use crate::profile::{Profile, Which, inner};
use linerate_path::model::Path;
use linerate_record::run::RunReport;
use linerate_record::stats::Estimate;
use std::fmt;

/// Cost ratio between the run's own packets and a few L1-resident packets above which a stage is
/// called memory-bound. Speculative overlap, branch history and the packet mix also change this
/// ratio for compute-bound stages, but only by tenths.
const MEMORY_RATIO: f64 = 1.5;

/// Minimum cost difference in ticks for a memory-bound stage. A smaller difference corresponds to
/// two L2 hits (about 14 cycles each), which no mapping removes.
const MEMORY_TICKS: f64 = 30.0;

/// Cost of one stage, or of one end of the path (source or sink).
#[derive(Clone, Debug, PartialEq)]
pub struct StageCost {
    /// The stage's name; `source` or `sink` for the ends.
    pub name: String,
    /// Ticks per packet entering the path.
    pub ticks: Estimate,
    /// Share of the packets entering the path that reach the stage, 0 to 1.
    pub reach: f64,
    /// For a memory-bound stage, its cost with cached data, in ticks per packet entering the path;
    /// `None` for a compute-bound or unchecked stage.
    pub hot_ticks: Option<Estimate>,
}

/// Costs of a path, from one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Cost of receiving packets from the source.
    pub source: StageCost,
    /// The stages, in path order.
    pub stages: Vec<StageCost>,
    /// Cost of delivering packets to the sink.
    pub sink: StageCost,
    /// Packets per burst in the measured run.
    pub burst: u32,
    /// Number of workers that ran concurrently in the measured run, and slowed each other down.
    pub workers: usize,
}

/// Reason why a run has no costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostsError {
    /// No packet entered the path.
    NoPackets,
    /// A stage of the path is not in the run: the record is from another path.
    NotInRun {
        /// Name of the stage, or `source` or `sink`.
        stage: String,
    },
    /// A stage processed packets but its service time is unavailable.
    Unreadable {
        /// Name of the stage, or `source` or `sink`.
        stage: String,
        /// Why the service time is unavailable, in the words of the record.
        reason: String,
    },
}

impl fmt::Display for CostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPackets => write!(
                f,
                "no packet entered the path, so costs are unknown: run it longer, or check its \
                 source"
            ),
            Self::NotInRun { stage } => write!(
                f,
                "the run has no stage `{stage}`: it used a different path; run this path and plan \
                 from its record"
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

    /// Marks the memory-bound stages with their costs on cached data. Stages not covered by the
    /// check are unchanged.
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
    // Packets in flight when counting began can lift a share slightly above 1.
    let reach = total.reach.min(1.0);
    Ok(StageCost { name: name.to_owned(), ticks: total.ticks, reach, hot_ticks: None })
}

/// Costs of one stage with cold and hot data.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryStage {
    /// The stage's name; `source` or `sink` for the ends.
    pub name: String,
    /// Ticks per packet entering the path, on the run's own packets.
    pub normal: Estimate,
    /// Ticks per packet entering the path when the source repeats a few packets, so that all data
    /// stays cached; scaled to the share of packets that reach the stage in the normal run.
    pub hot: Estimate,
}

impl MemoryStage {
    /// Returns whether the difference between the two costs is large enough to call the stage
    /// memory-bound.
    pub fn is_memory_bound(&self) -> bool {
        self.normal.value > MEMORY_RATIO * self.hot.value
            && self.normal.value - self.hot.value > MEMORY_TICKS
    }
}

/// Cost of every stage with cold and hot data: identifies the memory-bound ones.
///
/// Costs of compute-bound stages carry over from one mapping to another; costs of memory-bound
/// stages depend on what else is in the cache and on how many packets are in flight, so that the
/// model can only bound them.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryCheck {
    /// The stages that could be compared.
    pub stages: Vec<MemoryStage>,
}

impl MemoryCheck {
    /// Compares two runs of the same mapping: `normal`, and `hot`, whose source was confined to a
    /// few packets. Stages with a missing time in either run, or without hot packets, are omitted.
    pub fn compare(normal: &RunReport, hot: &RunReport) -> Self {
        let (Some(cold), Some(warm)) = (Profile::new(normal), Profile::new(hot)) else {
            return Self { stages: Vec::new() };
        };
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
            let hot_ticks = hot.ticks.scale(normal.reach / hot.reach);
            (readable && hot.reach > 0.0).then(|| MemoryStage {
                name: name.to_owned(),
                normal: normal.ticks,
                hot: hot_ticks,
            })
        });
        Self { stages: pairs.collect() }
    }
}
