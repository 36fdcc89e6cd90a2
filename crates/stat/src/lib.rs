// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts events for a command, a process or CPUs from start to end.
//!
//! [`Request`] describes what to count; [`Request::run`] counts it on the best tier that works and
//! returns the report. The tier `sim` uses QEMU, or Valgrind ([`sim`]).
//! [`linerate_counters::session`] packs events onto counters and scales the counts;
//! `linerate-report` prints the report. The caller catches signals with
//! `linerate_linux::signal::catch`.

#![forbid(unsafe_code)]

mod assemble;
mod baseline;
mod check;
mod counting;
mod emulation;
mod engine;
mod measured;
mod outcome;
mod requested;
mod row;
mod run;
mod runner;
pub mod sim;
mod simulated;
mod tallies;
mod threads;
mod usage;
mod waited;

use crate::sim::Geometry;
use assemble::Runs;
use linerate_counters::catalog::Catalog;
use linerate_counters::opener::{Kernel, Opener};
pub use linerate_counters::rotation::DEFAULT_SLICE;
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explanation;
use linerate_linux::signal::Pending;
use linerate_record::stat::{CodeCounts, StatReport};
use linerate_record::{Record, Tier};
use requested::{Requested, RequestedEvent};
use runner::Runner;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Events to count, and options.
#[derive(Clone, Debug)]
pub struct Request {
    /// A command, a process or CPUs.
    pub what: What,
    /// Event names. If both this and `sets` are empty, [`DEFAULT_SET`] is used.
    pub events: Vec<String>,
    /// Names of metric sets. Their events are counted in addition to `events`.
    pub sets: Vec<String>,
    /// Requested evidence tier for hardware events; `None` for the best of `hw`, `user` and `sw`
    /// that works.
    pub tier: Option<Tier>,
    /// Interval length, if counts are also reported per interval.
    pub interval: Option<Duration>,
    /// Runs of a command, at least one; figures are medians over all runs.
    pub repeat: u32,
    /// Unit of work, if counts are also reported per unit.
    pub per: Option<Per>,
    /// Whether to report counts per thread as well.
    pub threads: bool,
    /// Time limit for counting. When reached, a command gets SIGTERM and is waited for; what the
    /// command does after that is counted only by the simulator.
    pub at_most: Option<Duration>,
    /// Nominal slice length if event sets are multiplexed.
    pub slice: Duration,
    /// Random seed for the slice order.
    pub seed: u64,
    /// Whether to fail if an event cannot be counted.
    pub strict: bool,
    /// An earlier record of `linerate stat` to compare with.
    pub baseline: Option<Box<Record>>,
    /// Regression threshold: relative growth at which a cost counts as regressed; 0.001 is +0.1 %.
    pub threshold: f64,
    /// Caches to simulate (`sim` only); `None` for this machine's, according to the OS.
    pub caches: Option<Geometry>,
    /// The plug-in for QEMU (`sim` only), a shared object; `None` to use Valgrind only.
    pub plugin: Option<&'static [u8]>,
    /// Simulator to use; `None` for QEMU if it loads the plug-in, otherwise Valgrind.
    pub simulator: Option<Simulator>,
    /// Main event for counts per instruction ([`Outcome::code`]), which then also cover
    /// instructions and all other requested events; `None` for no counts per instruction. Only for
    /// tier `sim` in QEMU.
    pub hot: Option<String>,
}

/// A simulator of tier `sim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulator {
    /// QEMU's user-mode emulators with a plug-in: all cache levels, TLBs, any architecture.
    Qemu,
    /// Valgrind: two cache levels, programs of this machine's architecture.
    Valgrind,
}

/// Name of the default metric set.
pub const DEFAULT_SET: &str = "default";

/// Default metric sets for the simulator.
pub const SIMULATED_SETS: [&str; 2] = ["cache", "branch"];

/// Unit of work if `per` is only a number.
const UNIT: &str = "unit";

/// Name of the figure for the elapsed time.
const ELAPSED: &str = "elapsed_s";

/// Default of [`Request::threshold`]: +0.1 %.
pub const DEFAULT_THRESHOLD: f64 = 0.001;

impl Request {
    /// Creates a request to count `what` with the default set, the best tier and one run.
    pub fn new(what: What) -> Self {
        Self {
            what,
            events: Vec::new(),
            sets: Vec::new(),
            tier: None,
            interval: None,
            repeat: 1,
            per: None,
            threads: false,
            at_most: None,
            slice: DEFAULT_SLICE,
            seed: 1,
            strict: false,
            baseline: None,
            threshold: DEFAULT_THRESHOLD,
            caches: None,
            plugin: None,
            simulator: None,
            hot: None,
        }
    }

    /// Counts as requested.
    ///
    /// # Errors
    /// Returns [`StatError`] if there is nothing to report. A command that could not be started,
    /// and events that could not be counted, are part of the report.
    pub fn run(&self, watch: &Watch<'_>) -> Result<Outcome, StatError> {
        self.run_with(watch, &Kernel, &HostFacts::gather(), &Catalog::of_this_machine())
    }

    /// Like [`Request::run`], but with another kernel, other host facts, or another processor.
    ///
    /// # Errors
    /// As for [`Request::run`].
    pub fn run_with(
        &self,
        watch: &Watch<'_>,
        opener: &dyn Opener,
        around: &HostFacts,
        catalog: &Catalog,
    ) -> Result<Outcome, StatError> {
        check::check(self, around)?;
        let asked = Requested::resolve(self, catalog)?;
        let is_known_processor = catalog.is_known_processor();
        let runner =
            Runner { request: self, asked: &asked, opener, around, is_known_processor, watch };
        let mut measured = match self.tier {
            Some(Tier::Sim) => simulated::measure(&runner)?,
            _ => counting::measure(&runner, catalog)?,
        };
        let runs = Runs::new(self, &measured);
        let outcome = outcome::judge(&runs, assemble::report(&runs, &measured));
        let code = measured.runs.last_mut().and_then(|run| run.code.take());
        Ok(Outcome { code, ..outcome })
    }
}

/// Target of counting: a command, a process, or CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A command with its arguments, looked up in PATH and counted from start to end with all its
    /// threads and children. Its stdin, stdout and stderr are the caller's.
    Command {
        /// The command and its arguments; not empty.
        argv: Vec<OsString>,
    },
    /// A running process, with the threads and children it creates from now on, until it ends or a
    /// signal arrives.
    Process(u32),
    /// Everything on these logical CPUs, until a signal arrives.
    Cpus(Vec<u32>),
}

/// Unit of work to which counts are normalized.
#[derive(Clone, Debug, PartialEq)]
pub enum Per {
    /// One occurrence of this event, which is counted as well.
    Event(String),
    /// A fixed number of units per run of a command; above 0.
    Units(f64),
}

impl FromStr for Per {
    type Err = PerError;

    /// Parses a number of units or the name of an event.
    fn from_str(text: &str) -> Result<Self, PerError> {
        match text.replace('_', "").parse::<f64>() {
            Ok(units) if units > 0.0 && units.is_finite() => Ok(Self::Units(units)),
            Ok(_) => Err(PerError::NotAboveZero),
            Err(_) if text.is_empty() => Err(PerError::Empty),
            Err(_) => Ok(Self::Event(text.to_owned())),
        }
    }
}

/// Why a string is not a unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerError {
    /// The number is not finite, or not above 0.
    NotAboveZero,
    /// The text is empty.
    Empty,
}

impl fmt::Display for PerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAboveZero => "the number of units of work must be above 0",
            Self::Empty => "expected an event or a number",
        })
    }
}

impl std::error::Error for PerError {}

/// Connects a run with its caller: passes signals to the run, and progress messages to the caller.
pub struct Watch<'a> {
    /// Signals caught by this program. They are forwarded to a command, unless the terminal has
    /// already delivered them to it, and the command is waited for. If the target is a process or
    /// CPUs, a signal ends counting.
    pub signals: &'a Pending,
    /// Callback for messages during the run.
    pub tell: &'a dyn Fn(Progress<'_>),
}

/// Progress messages from a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The event sets to be multiplexed, sent before counting starts. Not sent without
    /// multiplexing.
    Budget {
        /// Event names per set.
        sets: &'a [Vec<String>],
        /// Nominal slice length.
        slice: Duration,
        /// Minimum duration of a run for its scaled counts to have intervals.
        least: Duration,
    },
    /// A reporting interval has ended.
    Interval {
        /// Event names, in the order of the counts.
        names: &'a [String],
        /// The interval's counts, which are also the latest entry in the report.
        counts: &'a linerate_record::stat::IntervalCounts,
    },
    /// A run of a command has ended.
    Run {
        /// Completed runs.
        done: u32,
        /// Total runs.
        of: u32,
    },
}

/// Result of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts, metrics and times.
    pub report: StatReport,
    /// Exit status: that of the command (with several runs, the first that is not 0), or 128 + n if
    /// signal n killed it; 126 if it could not be executed, 127 if it was not found; else 125 if
    /// something else went wrong, if no event of a process or CPU was counted, or if nothing could
    /// be compared with the baseline; else 1 if there is a regression; else 0.
    pub status: i32,
    /// Error message: the command could not be started, `strict` was violated, there are no counts
    /// at all, or nothing could be compared with the baseline.
    pub failure: Option<String>,
    /// Counts per instruction, if requested ([`Request::hot`]) and counted. The caller names the
    /// functions and puts them into the report.
    pub code: Option<CodeCounts>,
}

/// Why a request cannot be counted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StatError {
    /// An option is invalid, individually or in combination.
    BadRequest {
        /// The invalid value and the valid ones.
        reason: String,
    },
    /// No event or metric set has this name.
    UnknownName {
        /// Error message with similar names.
        reason: String,
    },
    /// An event cannot be counted, and [`Request::strict`] was set.
    Refused {
        /// The events with reasons and fixes, one per line.
        reason: String,
    },
    /// The process or CPU to count does not exist.
    NoTarget {
        /// The target and the reason.
        reason: String,
    },
    /// The simulator was requested but is not installed.
    NoSimulator {
        /// The reason, and the command that installs it.
        reason: String,
    },
    /// The OS refused an operation needed for counting.
    System(linerate_linux::Error),
}

impl StatError {
    /// Returns the exit status for this error: 125, as env(1) does for its own failures.
    pub fn status(&self) -> i32 {
        125
    }
}

impl fmt::Display for StatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest { reason }
            | Self::UnknownName { reason }
            | Self::Refused { reason }
            | Self::NoTarget { reason }
            | Self::NoSimulator { reason } => f.write_str(reason),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StatError {}

/// Formats an event, why it is not counted, and the fix, on one line.
fn line(name: &str, refusal: &Explanation) -> String {
    match &refusal.fix {
        Some(fix) => format!("{name}: {}; try: {fix}", refusal.sentence),
        None => format!("{name}: {}", refusal.sentence),
    }
}

/// Formats the refused events; `None` if there are none.
fn refused(asked: &[RequestedEvent], refusals: &[Option<Explanation>]) -> Option<String> {
    let pairs = asked.iter().zip(refusals);
    let lines: Vec<String> =
        pairs.filter_map(|(asked, refusal)| Some(line(&asked.name, refusal.as_ref()?))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
