// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw readings from one run, created by [`counting`](crate::counting) or
//! [`simulated`](crate::simulated) and immutable afterwards.

use crate::tallies::Tallies;
use linerate_doctor::refusal::{Cause, Explanation};
use linerate_linux::child::{Ended, ExecError};
use linerate_record::Tier;
use linerate_record::stat::{CodeCounts, IntervalCounts, ThreadCounts};
use std::time::Duration;

/// Readings from one run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Counts of the requested events.
    pub(crate) tallies: Tallies,
    /// For each requested event, why it was not counted.
    pub(crate) refusals: Vec<Option<Explanation>>,
    /// For each requested event, whether only user mode was counted.
    pub(crate) is_user_only: Vec<bool>,
    /// For each requested event, its evidence tier.
    pub(crate) tiers: Vec<Tier>,
    /// Evidence tier of hardware events; `None` if none was counted.
    pub(crate) tier: Option<Tier>,
    /// Event indices per multiplexed set; empty without multiplexing.
    pub(crate) sets: Vec<Vec<usize>>,
    /// Index of the event that counts are scaled by; `None` for time.
    pub(crate) scaled_by: Option<usize>,
    /// Elapsed time from start to end.
    pub(crate) elapsed_ns: u64,
    /// Time from fork(2) to the end of the command; 0 if it was not measured.
    pub(crate) since_fork_ns: u64,
    /// The command's exit status, or why it could not be started; `None` if the target is not a
    /// command.
    pub(crate) command: Option<Result<Ended, ExecError>>,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Whether the time limit was reached.
    pub(crate) is_time_up: bool,
    /// Indices of events whose counts come from wait4(2).
    pub(crate) from_usage: Vec<usize>,
    /// Counts per interval.
    pub(crate) intervals: Vec<IntervalCounts>,
    /// Counts per thread.
    pub(crate) threads: Vec<ThreadCounts>,
    /// Counts per instruction.
    pub(crate) code: Option<CodeCounts>,
}

impl Run {
    /// Creates a run with these counts; all other readings have default values.
    pub(crate) fn new(
        tallies: Tallies,
        refusals: Vec<Option<Explanation>>,
        tiers: Vec<Tier>,
    ) -> Self {
        Self {
            tallies,
            is_user_only: vec![false; refusals.len()],
            refusals,
            tiers,
            tier: None,
            sets: Vec::new(),
            scaled_by: None,
            elapsed_ns: 0,
            since_fork_ns: 0,
            command: None,
            interrupted: false,
            is_time_up: false,
            from_usage: Vec::new(),
            intervals: Vec::new(),
            threads: Vec::new(),
            code: None,
        }
    }

    /// Creates a run whose command could not be started.
    pub(crate) fn not_begun(error: ExecError, tiers: Vec<Tier>) -> Self {
        let sentence = "the command could not be started".to_owned();
        let refusal = Explanation { cause: Cause::TargetGone, sentence, fix: None };
        let nothing = Tallies::exact(vec![None; tiers.len()]);
        Self {
            command: Some(Err(error)),
            ..Self::new(nothing, vec![Some(refusal); tiers.len()], tiers)
        }
    }
}

/// Converts a time to nanoseconds, saturating.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
