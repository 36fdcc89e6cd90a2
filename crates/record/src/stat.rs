// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `stat` record: raw and scaled event counts, and derived metrics.

mod hot;
mod simulated;

pub use hot::{CodeCounts, CodeFile, CodeSpot, HotFunction, HotLine, HotSpots};
pub use simulated::{
    Contents, Replacement, SimulatedCaches, SimulatedLevel, SimulatedMachine, SimulatedTlb, Writes,
};

use crate::figure::{Figure, Figures, Tier};
use crate::warning::Warning;
use serde::{Deserialize, Serialize, Serializer};

/// Event counts for a command, a process with its threads, or CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatReport {
    /// Command, process or CPUs for which events were counted.
    pub target: StatTarget,
    /// Evidence tier of the hardware events: `hw`, `user` or `sim`; `sw` if there are no hardware
    /// events.
    pub tier: Tier,
    /// Whether the user requested `tier`; otherwise, `tier` is the best one available on this
    /// machine.
    pub tier_asked: bool,
    /// Event table that the hardware events come from: `armv8`, `cortex_a7`, `generic`, ...
    pub event_table: String,
    /// Whether the table is specific to this processor rather than architectural.
    pub is_known_processor: bool,
    /// Simulated caches; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// Total counting time over all runs, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Exit status of the command. If it was run several times, the first non-zero status or, if
    /// there is none, that of the last run. `null` without a command, or if it never started.
    pub ended: Option<ExitStatus>,
    /// Whether the user stopped counting.
    pub interrupted: bool,
    /// Whether counting stopped at the time limit, before the target ended.
    pub is_time_up: bool,
    /// The command's environment; `null` without a command.
    pub environment: Option<Environment>,
    /// Number of times the command was run. An interrupted run is not included if others had
    /// completed.
    pub repetitions: u64,
    /// Unit of work that counts are divided by to give `per_unit`; `null` unless requested.
    pub unit_of_work: Option<UnitOfWork>,
    /// How event sets were multiplexed on the hardware counters; `null` if every event was counted
    /// all the time.
    pub rotation: Option<RotationReport>,
    /// Requested events, in order, including those not counted.
    pub events: Vec<EventCount>,
    /// Metrics computed from the events.
    pub metrics: Vec<MetricValue>,
    /// Counts over time, one entry per interval; empty unless requested.
    pub intervals: Vec<IntervalCounts>,
    /// Counts per thread; empty unless requested.
    pub threads: Vec<ThreadCounts>,
    /// Comparison with the record given as `--baseline`; empty without one.
    pub baseline: Vec<BaselineChange>,
    /// How the baseline was recorded; `null` without one.
    pub baseline_of: Option<BaselineOf>,
    /// Times by name: `elapsed_s` and, for a command, further times such as `user_s`; empty in
    /// records before version 1.4.
    #[serde(default)]
    pub times: Figures,
    /// The simulator's warnings about the command.
    #[serde(default)]
    pub remarks: Vec<Warning>,
    /// Counts by function; `null` unless requested.
    #[serde(default)]
    pub hot: Option<HotSpots>,
}

/// Size of a command's environment. The kernel places the environment above the stack, so its size
/// shifts stack addresses, which affects some counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Number of variables.
    pub variables: u64,
    /// Total size of names and values in bytes, including each variable's `=` and NUL.
    pub bytes: u64,
}

/// How the baseline, an earlier record, was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineOf {
    /// Command, process or CPUs for which events were counted.
    pub target: StatTarget,
    /// Evidence tier of the hardware events.
    pub tier: Tier,
    /// Simulated caches; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// The command's environment; `null` if unknown.
    pub environment: Option<Environment>,
}

/// What events are counted for: a command, a process, or CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StatTarget {
    /// A command, from start to exit, with all its children.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
    },
    /// A running process, including threads and children that it creates while events are counted.
    Process {
        /// Process ID.
        pid: u32,
    },
    /// Everything that runs on a set of logical CPUs.
    Cpus {
        /// Logical CPU numbers.
        cpus: Vec<u32>,
    },
}

/// How a command ended; exactly one field is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitStatus {
    /// Exit status; `null` if killed by a signal.
    pub status: Option<i32>,
    /// Signal that killed the command; `null` if it exited.
    pub signal: Option<i32>,
}

/// Geometry of a simulated cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheShape {
    /// Size in bytes.
    pub bytes: u64,
    /// Associativity, in lines per set.
    pub ways: u32,
    /// Line size in bytes.
    pub line_bytes: u32,
}

/// A unit of work that counts are divided by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitOfWork {
    /// Event name, or `unit` if a number was given.
    pub name: String,
    /// Number of units of work.
    pub count: Figure,
}

/// How event sets were multiplexed on the hardware counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RotationReport {
    /// Events in each set. Events that are always counted belong to no set.
    pub sets: Vec<Vec<String>>,
    /// Nominal length of a slice, during which one set is on the counters, in ns.
    pub slice_ns: u64,
    /// Number of slices counted, over all sets.
    pub slices: u64,
    /// Basis for scaling counts: `time`, or the name of an event that was always counted.
    pub scaled_by: String,
}

/// Counts of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// Event name, also the key in `summary` and `figures`.
    pub name: String,
    /// The processor's own name and code for the event; `null` if it has none.
    pub native: Option<String>,
    /// Raw count for the time that the event was on a counter; `null` if it never was.
    pub raw: Option<u64>,
    /// Count estimated for the whole counting time; absent, with a reason, if the event was not
    /// counted.
    pub count: Figure,
    /// Fraction of time that the event was on a counter, 0 to 1; `null` if it never was.
    pub duty: Option<f64>,
    /// Number of slices in which the event was counted; `null` without rotation.
    pub periods: Option<u64>,
    /// `count` per unit of work; `null` unless requested.
    pub per_unit: Option<Figure>,
    /// Command or setting that would enable the event; `null` if it was counted or no fix is known.
    pub fix: Option<String>,
}

/// A metric: a value computed from event counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricValue {
    /// Metric name, also the key in `summary` and `figures`.
    pub name: String,
    /// Metric set: `pipeline`, `cache`, ...
    pub set: String,
    /// Formula in terms of event names.
    pub formula: String,
    /// Value of the metric.
    pub figure: Figure,
    /// What the metric means, and its limitations.
    pub prose: String,
}

/// Counts for one interval of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IntervalCounts {
    /// Start, in seconds after the command started.
    #[serde(serialize_with = "crate::finite")]
    pub from_s: f64,
    /// End, in seconds after the command started.
    #[serde(serialize_with = "crate::finite")]
    pub to_s: f64,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Counts for one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCounts {
    /// Thread ID; 0 for the last entry, which holds the remainder so that entries add up to the
    /// total.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Comparison of one event or metric with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineChange {
    /// Name of the event or metric.
    pub name: String,
    /// Value in the baseline; `null` if there is none.
    #[serde(serialize_with = "finite_or_absent")]
    pub before: Option<f64>,
    /// Value in this record; `null` if there is none.
    #[serde(serialize_with = "finite_or_absent")]
    pub now: Option<f64>,
    /// `now / before - 1`; `null` if either is `null`, or if `before` is 0.
    pub change: Option<f64>,
    /// Whether the figure got worse by more than the threshold; false for figures that were not
    /// judged.
    pub is_regression: bool,
    /// Whether the figure was judged or, if not, why.
    pub judged: Judged,
}

/// Whether a figure was judged against the baseline or, if not, why. Minor versions may add
/// variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Judged.
    Yes,
    /// Not judged: a higher value does not mean a higher cost for the same amount of work.
    NoCost,
    /// Not judged: run-to-run variation is unknown.
    NoInterval,
    /// Not judged: the baseline used a different evidence tier.
    OtherTier,
    /// Not judged: the baseline simulated different caches.
    OtherCaches,
    /// Not judged: no value in the baseline.
    NotCountedBefore,
    /// Not judged: no value in this record.
    NotCountedNow,
    /// A reason unknown to this version, from a record written by a newer one.
    #[serde(other)]
    Unknown,
}

/// Serialises an optional number, which must be finite if present.
fn finite_or_absent<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => crate::finite(value, to),
        None => to.serialize_none(),
    }
}
