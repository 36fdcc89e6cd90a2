// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts events separately for each thread of a process.
//!
//! Threads are discovered by scanning /proc, so each one is counted only from the scan that first
//! finds it. A separate row holds the work of child processes and any work that the scans missed,
//! so that the rows add up to the total.

use crate::row;
use crate::run::ns;
use crate::runner::Runner;
use crate::tallies::Tallies;
use linerate_counters::event::Event;
use linerate_counters::session::{Options, Scope, Session};
use linerate_doctor::refusal::Explanation;
use linerate_linux::monotonic_ns;
use linerate_record::Tier;
use linerate_record::stat::ThreadCounts;
use std::fs;
use std::time::Duration;

/// Interval between scans for new threads.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// Row for work that is not attributed to a thread.
const OTHERS: &str = "(others)";

/// Why the row for work that is not attributed to a thread has no count.
const NO_DIFFERENCE: &str = "a count of the process or of a thread is scaled or missing, so the \
                             threads' counts cannot be subtracted from the total";

/// The threads of a process.
pub(crate) struct Threads<'a> {
    runner: Runner<'a>,
    events: Vec<Event>,
    options: Options,
    pid: u32,
    rows: Vec<Row>,
}

struct Row {
    tid: u32,
    name: String,
    session: Session,
    turn_ns: u64,
}

impl<'a> Threads<'a> {
    /// Starts counting the threads that a process already has. A command held before its exec has
    /// just one.
    pub(crate) fn new(
        runner: Runner<'a>,
        events: Vec<Event>,
        options: Options,
        scope: &Scope,
    ) -> Option<Self> {
        let (Scope::Held(pid) | Scope::Process(pid)) = *scope else { return None };
        let options = Options { inherit: false, ..options };
        let mut threads = Self { runner, events, options, pid, rows: Vec::new() };
        match scope {
            Scope::Held(pid) => threads.add(*pid, scope),
            _ => threads.look(),
        }
        Some(threads)
    }

    /// Scans for new threads and starts counting them. Also updates the names of all threads.
    pub(crate) fn look(&mut self) {
        let tasks =
            fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        for tid in tids.collect::<Vec<u32>>() {
            if self.rows.iter().all(|row| row.tid != tid) {
                self.add(tid, &Scope::Thread(tid));
            }
        }
        for row in &mut self.rows {
            if let Ok(name) =
                fs::read_to_string(format!("/proc/{}/task/{}/comm", self.pid, row.tid))
            {
                name.trim_end().clone_into(&mut row.name);
            }
        }
    }

    fn add(&mut self, tid: u32, scope: &Scope) {
        let Runner { opener, around, .. } = self.runner;
        let root = around.root();
        let mut session = Session::open(opener, root, &self.events, scope, &self.options);
        // If the thread has already ended, its counts are in the row for the others.
        if let Ok(turn) = session.start() {
            let turn_ns = monotonic_ns().saturating_add(ns(turn));
            self.rows.push(Row { tid, name: String::new(), session, turn_ns });
        }
    }

    /// Switches the event sets of every thread whose slice has ended. Returns when the next slice
    /// ends.
    pub(crate) fn turn(&mut self, now_ns: u64) -> u64 {
        for row in self.rows.iter_mut().filter(|row| row.turn_ns <= now_ns) {
            row.turn_ns = now_ns.saturating_add(ns(row.session.turn()));
        }
        self.rows.iter().map(|row| row.turn_ns).min().unwrap_or(u64::MAX)
    }

    /// Returns each thread's counts, followed by a row with the rest of the totals in `whole`.
    pub(crate) fn finish(
        self,
        places: &[Option<usize>],
        whole: &Tallies,
        tiers: &[Tier],
        refusals: &[Option<Explanation>],
    ) -> Vec<ThreadCounts> {
        let counted =
            |mut row: Row| (row.tid, row.name, Tallies::counted(row.session.finish(), places));
        let mut rows: Vec<_> = self.rows.into_iter().map(counted).collect();
        let others = (0..places.len()).map(|event| others(event, &rows, whole)).collect();
        rows.push((0, OTHERS.to_owned(), Tallies::exact(others)));
        let thread = |(tid, name, tallies): (u32, String, Tallies)| {
            let otherwise = if tid == 0 { NO_DIFFERENCE } else { row::UNSCHEDULED };
            let counts = row::row(self.runner.asked, &tallies, tiers, refusals, otherwise);
            ThreadCounts { tid, name, counts }
        };
        rows.into_iter().map(thread).collect()
    }
}

/// Returns the part of an event's count that is not attributed to a thread; `None` if any count
/// involved was scaled or is missing.
fn others(event: usize, rows: &[(u32, String, Tallies)], whole: &Tallies) -> Option<u64> {
    let count = |tallies: &Tallies| {
        tallies.tally(event).filter(|tally| !tally.is_scaled).map(|tally| tally.raw)
    };
    let seen = rows.iter().map(|(.., tallies)| count(tallies)).sum::<Option<u64>>()?;
    Some(count(whole)?.saturating_sub(seen))
}
