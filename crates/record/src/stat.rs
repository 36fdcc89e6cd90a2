// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `stat` record: raw and scaled event counts, and derived metrics.

use crate::figure::{Figure, Figures, Tier};
use crate::warning::Warning;
use serde::{Deserialize, Serialize, Serializer};

/// Event counts for a command, a process with its threads, or processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatReport {
    /// The command, process or CPUs for which events were counted.
    pub target: StatTarget,
    /// Evidence tier of the hardware events: `hw`, `user` or `sim`; `sw` if there are none.
    pub tier: Tier,
    /// Whether the user requested that tier; otherwise it is the best tier that works on this
    /// machine.
    pub tier_asked: bool,
    /// The event table that named the hardware events: `armv8`, `cortex_a7`, `generic`, ...
    pub event_table: String,
    /// Whether the table is specific to this processor; otherwise architectural events are used.
    pub is_known_processor: bool,
    /// The caches that were simulated; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// Total counting time over all repetitions, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Exit status of the command. With several runs, it is the first status other than 0,
    /// otherwise the last one; `null` without a command, or if the command never started.
    pub ended: Option<ExitStatus>,
    /// Whether the user stopped counting.
    pub interrupted: bool,
    /// Whether the time limit expired before the target ended.
    pub is_time_up: bool,
    /// Environment of the command; `null` without a command.
    pub environment: Option<Environment>,
    /// Number of runs of the command. If a run was interrupted after others were complete, it is
    /// not counted.
    pub repetitions: u64,
    /// Unit of work by which counts are divided to give `per_unit`; `null` unless requested.
    pub unit_of_work: Option<UnitOfWork>,
    /// Multiplexing of event sets on the hardware counters; `null` if all events were counted all
    /// the time.
    pub rotation: Option<RotationReport>,
    /// The requested events in order, including events that were not counted.
    pub events: Vec<EventCount>,
    /// Metrics computed from the events.
    pub metrics: Vec<MetricValue>,
    /// Counts over time, one entry per interval; empty if not requested.
    pub intervals: Vec<IntervalCounts>,
    /// Counts per thread; empty if not requested.
    pub threads: Vec<ThreadCounts>,
    /// Differences from the record given with `--baseline`; empty without one.
    pub baseline: Vec<BaselineChange>,
    /// Conditions under which the baseline record was made; `null` without a baseline.
    pub baseline_of: Option<BaselineOf>,
    /// Time figures by name: `elapsed_s` and, for a command, also `user_s` and others; empty in
    /// records before version 1.4.
    #[serde(default)]
    pub times: Figures,
    /// The simulator's warnings about the command.
    #[serde(default)]
    pub remarks: Vec<Warning>,
}

/// Size of a command's environment. The kernel places the environment above the stack, so its size
/// shifts stack addresses and changes some counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Number of environment variables.
    pub variables: u64,
    /// Size in bytes of all names and values, including the `=` and the terminating NUL of each
    /// variable.
    pub bytes: u64,
}

/// Conditions under which an earlier record was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineOf {
    /// The command, process or CPUs for which events were counted.
    pub target: StatTarget,
    /// Evidence tier of the hardware events.
    pub tier: Tier,
    /// The caches that were simulated; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// Environment of the command; `null` if unknown.
    pub environment: Option<Environment>,
}

/// The target for which events are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StatTarget {
    /// A command, from start to end, with all its children.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
    },
    /// A running process, with the threads and children that it creates during counting.
    Process {
        /// Process ID.
        pid: u32,
    },
    /// Everything that runs on some logical CPUs.
    Cpus {
        /// Numbers of the CPUs.
        cpus: Vec<u32>,
    },
}

/// Exit status or signal of a command; one of the two is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitStatus {
    /// Exit status of the command; `null` if a signal killed it.
    pub status: Option<i32>,
    /// Number of the signal that killed the command; `null` if it exited.
    pub signal: Option<i32>,
}

/// Geometry of a simulated cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheShape {
    /// Size of the cache, in bytes.
    pub bytes: u64,
    /// Associativity: number of lines per set.
    pub ways: u32,
    /// Size of a cache line, in bytes.
    pub line_bytes: u32,
}

/// The caches that were simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCaches {
    /// Where the geometry of the caches comes from: `this machine`, `arm1176`, ...
    pub name: String,
    /// First-level instruction cache.
    pub i1: CacheShape,
    /// First-level data cache.
    pub d1: CacheShape,
    /// Last-level cache.
    pub ll: CacheShape,
    /// Changes to the geometry to suit the simulator, which supports only powers of two; empty if
    /// there are none.
    pub note: String,
}

/// Unit of work by which counts are divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitOfWork {
    /// Name of the unit: an event name, or `unit` if a number was given.
    pub name: String,
    /// Number of units of work.
    pub count: Figure,
}

/// Multiplexing of event sets: the sets take turns on the hardware counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RotationReport {
    /// Events in each set; events that are always counted are not in any set.
    pub sets: Vec<Vec<String>>,
    /// Nominal time for which a set is on the counters (a slice), in ns.
    pub slice_ns: u64,
    /// Number of slices that were counted, over all sets.
    pub slices: u64,
    /// What counts are scaled by to the whole time: `time`, or the name of an event that was always
    /// counted.
    pub scaled_by: String,
}

/// Counts of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// Name of the event, which is its key in `summary` and `figures`.
    pub name: String,
    /// The processor's own name and code for the event; `null` if there is none.
    pub native: Option<String>,
    /// The count while the event was on a counter; `null` if it never was.
    pub raw: Option<u64>,
    /// Estimate of the count for the whole time, with its interval; absent, with the reason, if the
    /// event was not counted.
    pub count: Figure,
    /// Share of the time during which the event was on a counter, 0 to 1; `null` if it never was.
    pub duty: Option<f64>,
    /// Number of slices in which the event was counted; `null` without rotation.
    pub periods: Option<u64>,
    /// The estimate `count` per unit of work; `null` unless requested.
    pub per_unit: Option<Figure>,
    /// The command or setting that would enable the event; `null` if it was counted, or no fix is
    /// known.
    pub fix: Option<String>,
}

/// A metric: a value computed from event counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricValue {
    /// Name of the metric, which is its key in `summary` and `figures`.
    pub name: String,
    /// The metric set: `pipeline`, `cache`, ...
    pub set: String,
    /// The formula, in terms of event names.
    pub formula: String,
    /// Value of the metric.
    pub figure: Figure,
    /// What the metric means, and its limits.
    pub prose: String,
}

/// Counts for one interval of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IntervalCounts {
    /// Start of the interval, in seconds since the start of the command.
    #[serde(serialize_with = "crate::finite")]
    pub from_s: f64,
    /// End of the interval, in seconds since the start of the command.
    #[serde(serialize_with = "crate::finite")]
    pub to_s: f64,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Counts for one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCounts {
    /// Thread ID; 0 for the last entry, which holds the remainder, so that the entries add up to
    /// the total.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Difference of an event or metric from its value in the baseline.
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
    /// Whether the change exceeds the threshold in the direction that costs more; never true if the
    /// figure was not judged.
    pub is_regression: bool,
    /// Whether the figure was judged, or why not.
    pub judged: Judged,
}

/// Whether a figure was judged against the baseline. Minor versions may add reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The figure was judged.
    Yes,
    /// Not judged: a higher value of the figure is not worse, or is not worse for the same amount
    /// of work.
    NoCost,
    /// Not judged: the variation of the figure between runs is unknown.
    NoInterval,
    /// Not judged: the figure was counted with a different evidence tier than in the baseline.
    OtherTier,
    /// Not judged: the figure was simulated with different caches than in the baseline.
    OtherCaches,
    /// Not judged: the baseline has no value for the figure.
    NotCountedBefore,
    /// Not judged: this record has no value for the figure.
    NotCountedNow,
    /// Not known to this version: a newer version wrote the reason.
    #[serde(other)]
    Unknown,
}

/// Serialises an optional number, which must be finite if it is present.
fn finite_or_absent<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => crate::finite(value, to),
        None => to.serialize_none(),
    }
}
