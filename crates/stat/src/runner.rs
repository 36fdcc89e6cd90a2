// SPDX-License-Identifier: MIT OR Apache-2.0
//! State shared by all runs of a request: the request, the event opener, and received signals.

use crate::requested::Requested;
use crate::run::Run;
use crate::waited::{End, Waited, Woken};
use crate::{Progress, Request, StatError, Watch};
use linerate_counters::opener::Opener;
use linerate_doctor::host_facts::HostFacts;
use linerate_linux::child::GLANCE;
use linerate_linux::monotonic_ns;
use linerate_linux::signal::{Caught, TERMINATE};
use std::time::Duration;

/// State shared by all runs of a request.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    pub(crate) request: &'a Request,
    pub(crate) asked: &'a Requested,
    pub(crate) opener: &'a dyn Opener,
    pub(crate) around: &'a HostFacts,
    pub(crate) is_known_processor: bool,
    pub(crate) watch: &'a Watch<'a>,
}

impl Runner<'_> {
    /// Forwards a pending signal. Returns whether counting should end, or `None` if no signal is
    /// pending.
    pub(crate) fn handle_signal(&self, waited: &Waited) -> Option<bool> {
        let signal = self.watch.signals.take()?;
        Some(!waited.has_got(signal) && waited.request_end(signal.number))
    }

    /// Like [`Runner::handle_signal`], but for a signal that arrived before the command was
    /// started, so that the command did not receive it.
    pub(crate) fn handle_early_signal(&self, early: Option<Caught>, waited: &Waited) -> bool {
        early.is_some_and(|signal| waited.request_end(signal.number))
    }

    /// Waits for a command to end, and terminates it if it is still running at `end_ns`.
    pub(crate) fn wait_for(&self, waited: &mut Waited, end_ns: u64) -> End {
        let mut end = End::default();
        loop {
            let left_ns = end_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 && !end.is_time_up {
                end.is_time_up = true;
                waited.request_end(TERMINATE);
            }
            let until_end = Duration::from_nanos(left_ns).min(GLANCE);
            if let Woken::Ended(ended) =
                waited.wait(if end.is_time_up { GLANCE } else { until_end })
            {
                end.ended = ended;
                end.interrupted |= self.watch.signals.take().is_some();
                return end;
            }
            end.interrupted |= self.handle_signal(waited).is_some();
        }
    }
}

/// Repeats the runs as requested, until a signal arrives or the command cannot be started. If other
/// runs completed, an interrupted run is kept separate, because it is not comparable with them.
pub(crate) fn repeat(
    runner: &Runner<'_>,
    mut one: impl FnMut(u32) -> Result<Run, StatError>,
) -> Result<(Vec<Run>, Option<Run>), StatError> {
    let of = runner.request.repeat;
    let mut runs = Vec::new();
    for number in 0..of {
        let run = one(number)?;
        let is_last = run.interrupted || matches!(run.command, Some(Err(_)));
        runs.push(run);
        if is_last {
            break;
        }
        (runner.watch.tell)(Progress::Run { done: number + 1, of });
    }
    let is_cut = runs.len() > 1 && runs.last().is_some_and(|run| run.interrupted);
    let cut_short = if is_cut { runs.pop() } else { None };
    Ok((runs, cut_short))
}
