// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of `linerate stat`: counts of events, raw and scaled, and derived metrics.

use crate::figure::{Figure, Figures, Tier};
use crate::warning::Warning;
use serde::{Deserialize, Serialize, Serializer};

/// Counters of a command, a process, its threads, or processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatReport {
    /// The target of counting.
    pub target: StatTarget,
    /// Evidence tier of the hardware events: `hw`, `user` or `sim`; `sw` if there are none.
    pub tier: Tier,
    /// Whether that tier was requested; otherwise it is the best that works here.
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
    /// Exit status of the command: of several runs, the first other than 0, else the last; `null`
    /// without a command, or if it never started.
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
    /// Multiplexing of event sets; `null` if all were counted all the time.
    pub rotation: Option<RotationReport>,
    /// Requested events in order, counted or not.
    pub events: Vec<EventCount>,
    /// Metrics computed from the events.
    pub metrics: Vec<MetricValue>,
    /// The counts over time, if requested.
    pub intervals: Vec<IntervalCounts>,
    /// The counts of each thread, if requested.
    pub threads: Vec<ThreadCounts>,
    /// Differences from the record given with `--baseline`.
    pub baseline: Vec<BaselineChange>,
    /// Description of the baseline record; `null` without one.
    pub baseline_of: Option<BaselineOf>,
    /// Times by name: `elapsed_s`, for a command also `user_s` and others; empty in records before
    /// version 1.4.
    #[serde(default)]
    pub times: Figures,
    /// Remarks of the simulator about the command.
    #[serde(default)]
    pub remarks: Vec<Warning>,
}

/// Size of the environment of a command. The kernel puts it above the stack, so its size shifts the
/// addresses on the stack, and changes some counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Variables.
    pub variables: u64,
    /// Bytes of all names and values, each with `=` and the NUL at its end.
    pub bytes: u64,
}

/// Description of an earlier record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineOf {
    /// The target of counting.
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
    /// A command from its start to its end, with all its children.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
    },
    /// A running process, with the threads and children it creates meanwhile.
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

/// Exit status or signal of a command: one of the two is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExitStatus {
    /// Its exit status.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// A cache as it was simulated.
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
    /// Changes made for the simulator, which only supports powers of two; empty if none.
    pub note: String,
}

/// Unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitOfWork {
    /// Its name: that of an event, or `unit` where a number was given.
    pub name: String,
    /// Number of units.
    pub count: Figure,
}

/// Multiplexing of event sets on the counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RotationReport {
    /// The events of each set; those that are always counted are in no set.
    pub sets: Vec<Vec<String>>,
    /// The nominal length of a slice, in ns.
    pub slice_ns: u64,
    /// Slices counted, over all sets.
    pub slices: u64,
    /// Base of scaling: `time`, or the name of an event that was always counted.
    pub scaled_by: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// Its name; the key in `summary` and `figures`.
    pub name: String,
    /// The processor's own name and code; `null` if there is none.
    pub native: Option<String>,
    /// The count while the event was on a counter; `null` if it never was.
    pub raw: Option<u64>,
    /// Estimate for the whole time, with its interval; absent with a reason.
    pub count: Figure,
    /// The share of the time that the event was on a counter, 0 to 1; `null` when it never was.
    pub duty: Option<f64>,
    /// Slices in which it was counted; `null` without rotation.
    pub periods: Option<u64>,
    /// `count` per unit of work; `null` unless requested.
    pub per_unit: Option<Figure>,
    /// The command or setting that would enable it; `null` if it was counted, or no fix is known.
    pub fix: Option<String>,
}

/// A value computed from events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricValue {
    /// Its name; the key in `summary` and `figures`.
    pub name: String,
    /// The set it belongs to: `pipeline`, `cache`, ...
    pub set: String,
    /// Its formula, in names of events.
    pub formula: String,
    /// The value.
    pub figure: Figure,
    /// Its meaning and limits.
    pub prose: String,
}

/// Counts of one interval.
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

/// Counts of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCounts {
    /// Its ID; 0 for the last row, which has the remainder, so that all rows add up.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// One figure per event, in the order of `events`.
    pub counts: Vec<Figure>,
}

/// Difference of an event or metric from the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineChange {
    /// The figure's name.
    pub name: String,
    /// Its value in the baseline; `null` if it has none.
    #[serde(serialize_with = "finite_or_absent")]
    pub before: Option<f64>,
    /// Its value now; `null` if it has none.
    #[serde(serialize_with = "finite_or_absent")]
    pub now: Option<f64>,
    /// `now / before - 1`; `null` when one of them is, or `before` is 0.
    pub change: Option<f64>,
    /// Whether it is beyond the threshold in the costly direction; never if it was not judged.
    pub is_regression: bool,
    /// Whether it was judged, or why not.
    pub judged: Judged,
}

/// Whether a figure was judged against the baseline. Minor versions may add reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Judged.
    Yes,
    /// Not judged: more of it is not worse, or not for the same amount of work.
    NoCost,
    /// Not judged: its variation between runs is unknown.
    NoInterval,
    /// Not judged: a different tier than the baseline.
    OtherTier,
    /// Not judged: simulated with different caches than the baseline.
    OtherCaches,
    /// Not judged: the baseline has no value.
    NotCountedBefore,
    /// Not judged: it has no value now.
    NotCountedNow,
    /// Written by a newer version, with an unknown reason.
    #[serde(other)]
    Unknown,
}

/// As [`crate::finite`], for optional numbers.
fn finite_or_absent<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => crate::finite(value, to),
        None => to.serialize_none(),
    }
}
