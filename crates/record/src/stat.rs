// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of `linerate stat`: raw and scaled event counts, and derived metrics.

use crate::figure::{Figure, Figures, Tier};
use crate::warning::Warning;
use serde::{Deserialize, Serialize, Serializer};

/// Counters for a command, a process, its threads, or processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatReport {
    /// What was counted.
    pub target: StatTarget,
    /// Evidence tier of the hardware events: `hw`, `user` or `sim`; `sw` if there are none.
    pub tier: Tier,
    /// Whether that tier was requested; otherwise it is the best one that works here.
    pub tier_asked: bool,
    /// The event table that named the hardware events: `armv8`, `cortex_a7`, `generic`, ...
    pub event_table: String,
    /// Whether the table is specific to this processor; otherwise architectural events are used.
    pub is_known_processor: bool,
    /// The caches that were simulated; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// Counting time over all repetitions, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Exit status of the command: over several runs, the first one other than 0, otherwise the
    /// last; `null` without a command, or if it never started.
    pub ended: Option<ExitStatus>,
    /// Whether the user stopped counting.
    pub interrupted: bool,
    /// Whether the time limit expired before the target ended.
    pub is_time_up: bool,
    /// Environment of the command; `null` without a command.
    pub environment: Option<Environment>,
    /// Number of runs of the command; runs interrupted after others are not counted.
    pub repetitions: u64,
    /// Divisor of `per_unit`; `null` unless requested.
    pub unit_of_work: Option<UnitOfWork>,
    /// Multiplexing of event sets; `null` if all events were counted all the time.
    pub rotation: Option<RotationReport>,
    /// Requested events in order, counted or not.
    pub events: Vec<EventCount>,
    /// Metrics computed from the events.
    pub metrics: Vec<MetricValue>,
    /// Counts over time, if requested.
    pub intervals: Vec<IntervalCounts>,
    /// Counts per thread, if requested.
    pub threads: Vec<ThreadCounts>,
    /// Differences from the record given with `--baseline`.
    pub baseline: Vec<BaselineChange>,
    /// Description of the baseline record; `null` without one.
    pub baseline_of: Option<BaselineOf>,
    /// Times by name: `elapsed_s` and, for a command, also `user_s` and others; empty in records
    /// before version 1.4.
    #[serde(default)]
    pub times: Figures,
    /// The simulator's remarks on the command.
    #[serde(default)]
    pub remarks: Vec<Warning>,
}

/// Size of a command's environment. The kernel places the environment above the stack, so its size
/// shifts stack addresses and changes some counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Variables.
    pub variables: u64,
    /// Size in bytes of all names and values, including the `=` and the terminating NUL of each
    /// variable.
    pub bytes: u64,
}

/// Description of an earlier record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineOf {
    /// What was counted.
    pub target: StatTarget,
    /// Evidence tier of hardware events.
    pub tier: Tier,
    /// The caches that were simulated; `null` unless the tier is `sim`.
    pub caches: Option<SimulatedCaches>,
    /// Environment of the command; `null` if unknown.
    pub environment: Option<Environment>,
}

/// Target of counting.
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
        /// Its number.
        pid: u32,
    },
    /// Everything on some logical CPUs.
    Cpus {
        /// Their numbers.
        cpus: Vec<u32>,
    },
}

/// Exit status or signal of a command; one of the two is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitStatus {
    /// Its exit status.
    pub status: Option<i32>,
    /// Signal that killed the command.
    pub signal: Option<i32>,
}

/// A cache as simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheShape {
    /// Its size.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Line size.
    pub line_bytes: u32,
}

/// The caches that were simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCaches {
    /// Source of the caches: `this machine`, `arm1176`, ...
    pub name: String,
    /// First level, instructions.
    pub i1: CacheShape,
    /// First level, data.
    pub d1: CacheShape,
    /// Last level.
    pub ll: CacheShape,
    /// Changes made to suit the simulator, which supports only powers of two; empty if none.
    pub note: String,
}

/// Unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitOfWork {
    /// Name of the unit: an event name, or `unit` if a number was given.
    pub name: String,
    /// Number of units.
    pub count: Figure,
}

/// Multiplexing of event sets on the counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RotationReport {
    /// Events in each set; events that are always counted are not in any set.
    pub sets: Vec<Vec<String>>,
    /// Nominal length of a slice, in ns.
    pub slice_ns: u64,
    /// Number of slices counted, over all sets.
    pub slices: u64,
    /// Base for scaling: `time`, or the name of an event that was always counted.
    pub scaled_by: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// Name, which is the key in `summary` and `figures`.
    pub name: String,
    /// The processor's own name and code for the event; `null` if there is none.
    pub native: Option<String>,
    /// The count while the event was on a counter; `null` if it never was.
    pub raw: Option<u64>,
    /// Estimate for the whole time, with its interval; if absent, with the reason.
    pub count: Figure,
    /// Share of the time that the event was on a counter, 0 to 1; `null` if it never was.
    pub duty: Option<f64>,
    /// Number of slices in which the event was counted; `null` without rotation.
    pub periods: Option<u64>,
    /// `count` per unit of work; `null` unless requested.
    pub per_unit: Option<Figure>,
    /// The command or setting that would enable the event; `null` if it was counted, or no fix is
    /// known.
    pub fix: Option<String>,
}

/// A value computed from events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricValue {
    /// Name, which is the key in `summary` and `figures`.
    pub name: String,
    /// The metric set: `pipeline`, `cache`, ...
    pub set: String,
    /// The formula, in terms of event names.
    pub formula: String,
    /// The value.
    pub figure: Figure,
    /// What the metric means, and its limits.
    pub prose: String,
}

/// Counts for one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IntervalCounts {
    /// Start, in seconds since the start of the command.
    #[serde(serialize_with = "crate::finite")]
    pub from_s: f64,
    /// End, in seconds since the start of the command.
    #[serde(serialize_with = "crate::finite")]
    pub to_s: f64,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Counts for one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCounts {
    /// Thread ID; 0 for the last row, which holds the remainder, so that the rows add up to the
    /// total.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Difference between an event or metric and its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineChange {
    /// The figure's name.
    pub name: String,
    /// Value in the baseline; `null` if there is none.
    #[serde(serialize_with = "finite_or_absent")]
    pub before: Option<f64>,
    /// Value now; `null` if there is none.
    #[serde(serialize_with = "finite_or_absent")]
    pub now: Option<f64>,
    /// `now / before - 1`; `null` if either is `null`, or if `before` is 0.
    pub change: Option<f64>,
    /// Whether the change exceeds the threshold in the costly direction; never true if the figure
    /// was not judged.
    pub is_regression: bool,
    /// Whether the figure was judged, or why not.
    pub judged: Judged,
}

/// Whether a figure was judged against the baseline. Minor versions may add reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Judged.
    Yes,
    /// Not judged: a higher value is not worse, or is not worse for the same amount of work.
    NoCost,
    /// Not judged: its variation between runs is unknown.
    NoInterval,
    /// Not judged: counted with a different tier than the baseline.
    OtherTier,
    /// Not judged: simulated with different caches than the baseline.
    OtherCaches,
    /// Not judged: the baseline has no value.
    NotCountedBefore,
    /// Not judged: there is no value now.
    NotCountedNow,
    /// Written by a newer version, with an unknown reason.
    #[serde(other)]
    Unknown,
}

/// Serialises an optional number, as [`crate::finite`] does a number.
fn finite_or_absent<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => crate::finite(value, to),
        None => to.serialize_none(),
    }
}
