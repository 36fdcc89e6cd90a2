// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums the counts of all processes of a simulated command, each counted once.
//!
//! # Separation of processes
//! Callgrind does not handle fork(2): a forked child continues from its parent's counts, and writes
//! both when it ends. Nor does it handle execve(2): a program's counts are lost when the process
//! executes another. Callgrind is therefore configured to dump and reset its counts before each C
//! library call that does either. Every process then leaves one file per *interval* between two
//! dumps, and the sum of the files is exact.
//!
//! This requires the symbols of these functions, which a stripped static program lacks; a program
//! that makes the system calls directly bypasses the functions altogether. A child of such a
//! program can be recognised: its counts begin with block 0, like those of a new program, but its
//! log does not show the start of a program. Its work cannot be separated from its parent's, so it
//! is omitted, with a note.
//!
//! Known losses: intervals are numbered from 1 in each program that a process executes, and the
//! file of a later interval overwrites that of an earlier one with the same number. If `sh`
//! executes `env`, which executes a program, the counts of `sh` are lost. Any of three signs
//! reveals such a loss, which is then reported: the first process has no interval of the given
//! command; another process has no interval that begins where its parent forked; or an interval
//! begins at a block count at which no other interval ends (the block count continues from one
//! interval to the next).

use super::dump::{self, Dump};
use super::names::{self, COUNTERS};
use super::{Geometry, SimError};
use linerate_doctor::refusal::Explanation;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Prefix of count files, followed by the process ID and the number of the dump interval.
pub(super) const DUMP: &str = "out";

/// Prefix of Valgrind's log files, followed by the process ID.
pub(super) const LOG: &str = "log";

/// Message that Valgrind prints when a program starts, but not when a process forks.
const BEGUN: &str = "Using source line as position.";

/// Valgrind's message before the bytes of an unknown instruction.
const UNKNOWN_INSTRUCTION: &str = "unhandled instruction bytes: ";

/// Valgrind's message before the name of a program that it refuses to start.
const OTHER_RIGHTS: &str = "Can't execute setuid/setgid/setcap executable: ";

/// Maximum bytes read from a log, so that a program that makes Valgrind verbose cannot exhaust
/// memory.
const LOG_BYTES: u64 = 1 << 16;

/// Total counts over all processes of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct SimCounts {
    counts: [u64; COUNTERS.len()],
    geometry: Geometry,
    /// Processes counted.
    pub processes: u64,
    /// Limitations that must be reported.
    pub remarks: Vec<Remark>,
}

/// A limitation of simulated counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// An instruction unknown to Valgrind; the program received a SIGILL.
    UnknownInstruction {
        /// First bytes of the instruction in hexadecimal, as printed by Valgrind.
        bytes: String,
    },
    /// Processes that had not ended when the command did, or that were killed by SIGKILL. Only
    /// their work before their last fork is counted.
    Unfinished {
        /// Number of unfinished processes.
        processes: u64,
    },
    /// Processes that called execve(2) twice or more. Some of their earlier work is lost.
    Overwritten {
        /// Number of processes of which some work is lost.
        processes: u64,
    },
    /// A setuid program, which Valgrind cannot follow; the command was not allowed to start it.
    OtherRights {
        /// Program path.
        program: String,
    },
    /// Programs that ran outside the emulator, because they have another architecture, other
    /// privileges, or no access to its files; and forked processes without that access.
    NotFollowed {
        /// Number of programs and forked processes that were not followed.
        programs: u64,
    },
    /// Forked processes that are not counted because their work cannot be separated from their
    /// parents'.
    Inseparable {
        /// Number of forked processes that are not counted.
        processes: u64,
    },
}

impl SimCounts {
    /// Returns the count of the event `name`.
    ///
    /// # Errors
    /// As for [`native`](super::native).
    pub fn get(&self, name: &str) -> Result<u64, Explanation> {
        let counters = names::native(name, &self.geometry)?;
        let count = |wanted: &str| {
            COUNTERS.iter().zip(self.counts).find(|(name, _)| **name == wanted).map(|(_, n)| n)
        };
        let parts = counters.split(" + ");
        Ok(parts.map(|part| count(part).expect("every event is a sum of counters")).sum())
    }

    fn add(&mut self, dump: &Dump) {
        for (sum, count) in self.counts.iter_mut().zip(dump.counts) {
            *sum = sum.saturating_add(count);
        }
    }
}

/// Files of one process.
#[derive(Default)]
struct Process {
    dumps: Vec<Dump>,
    log: Option<String>,
}

impl Process {
    /// Returns whether the process was forked and never executed another program. Without a log
    /// this is unknown, and `false` is returned, which is right for most processes.
    fn is_forked(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.contains(BEGUN))
    }

    /// Returns whether a dump of the process includes work of its parent.
    fn has_counts_of_parent(&self, dump: &Dump) -> bool {
        self.is_forked() && dump.first_block == 0
    }

    /// Returns the remark that follows from the process's log.
    fn remark(&self) -> Option<Remark> {
        let after = |mark: &str| {
            let (_, rest) = self.log.as_ref()?.split_once(mark)?;
            rest.lines().next().map(|rest| rest.trim().to_owned())
        };
        let bytes = after(UNKNOWN_INSTRUCTION);
        bytes
            .map(|bytes| Remark::UnknownInstruction { bytes })
            .or_else(|| after(OTHER_RIGHTS).map(|program| Remark::OtherRights { program }))
    }
}

/// The process that was started, and the first line of its command, including arguments.
#[derive(Clone, Copy)]
pub(super) struct Started<'a> {
    pub(super) pid: u32,
    pub(super) command: &'a str,
}

/// Sums the counts of all files in `folder` after the process `started` has ended.
pub(super) fn collect(
    folder: &Path,
    started: Started<'_>,
    geometry: &Geometry,
) -> Result<SimCounts, SimError> {
    let processes = read_folder(folder)?;
    if processes.values().all(|process| process.dumps.is_empty()) {
        let said = processes.get(&started.pid).and_then(|process| process.log.as_deref());
        return Err(SimError::NoCounts { said: words(said.unwrap_or("")) });
    }
    let mut sum = SimCounts {
        counts: [0; COUNTERS.len()],
        geometry: geometry.clone(),
        processes: 0,
        remarks: processes.values().filter_map(Process::remark).collect(),
    };
    let ends: BTreeSet<u64> =
        processes.values().flat_map(|process| &process.dumps).map(|dump| dump.last_block).collect();
    let (mut unfinished, mut inseparable, mut overwritten) = (0, 0, 0);
    for (&pid, process) in &processes {
        let (mixed, own): (Vec<_>, Vec<_>) =
            process.dumps.iter().partition(|dump| process.has_counts_of_parent(dump));
        own.iter().for_each(|dump| sum.add(dump));
        let command = (pid == started.pid).then_some(started.command);
        overwritten += u64::from(mixed.is_empty() && is_overwritten(&own, command, &ends));
        sum.processes += u64::from(!own.is_empty());
        inseparable += u64::from(!mixed.is_empty());
        unfinished += u64::from(!process.dumps.iter().any(|dump| dump.is_last));
    }
    for (processes, remark) in [
        (unfinished, Remark::Unfinished { processes: unfinished }),
        (inseparable, Remark::Inseparable { processes: inseparable }),
        (overwritten, Remark::Overwritten { processes: overwritten }),
    ] {
        sum.remarks.extend((processes > 0).then_some(remark));
    }
    sum.remarks.dedup();
    Ok(sum)
}

/// Returns whether dumps of a process are missing, because later ones overwrote them. `command` is
/// the command line if this is the process that was started; `ends` are the block counts at which
/// dump intervals end.
fn is_overwritten(dumps: &[&Dump], command: Option<&str>, ends: &BTreeSet<u64>) -> bool {
    let has_begun = |dump: &Dump| dump.first_block > 0;
    let has_first = dumps.iter().any(|dump| match command {
        Some(command) => !has_begun(dump) && dump.command == command,
        None => has_begun(dump),
    });
    let has_gap = dumps.iter().any(|dump| has_begun(dump) && !ends.contains(&dump.first_block));
    !dumps.is_empty() && (!has_first || has_gap)
}

fn read_folder(folder: &Path) -> Result<BTreeMap<u32, Process>, SimError> {
    let failed = |path: &Path, error: io::Error| SimError::Folder {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = name.split('.');
        let (kind, pid) = (parts.next(), parts.next().and_then(|pid| pid.parse().ok()));
        let Some(pid) = pid else { continue };
        let process = processes.entry(pid).or_default();
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        if kind == Some(LOG) {
            let mut log = Vec::new();
            file.take(LOG_BYTES).read_to_end(&mut log).map_err(|error| failed(&path, error))?;
            process.log = Some(String::from_utf8_lossy(&log).into_owned());
        } else if kind == Some(DUMP) {
            let bad = |reason: String| SimError::BadFile {
                path: path.display().to_string(),
                reason: format!("{reason}; valgrind 3.19 and later are known to work"),
            };
            process.dumps.extend(dump::read(BufReader::new(file)).map_err(bad)?);
        }
    }
    Ok(processes)
}

/// Returns Valgrind's messages, with the banner and the line prefixes removed.
fn words(log: &str) -> String {
    let unmarked = |line: &str| match line.get(..2) {
        Some("==" | "--") => line.splitn(3, &line[..2]).nth(2).unwrap_or("").trim().to_owned(),
        _ => line.trim().to_owned(),
    };
    let is_banner = |line: &String| {
        [
            "Callgrind, a",
            "Copyright",
            "Using Valgrind",
            "Command:",
            "Parent PID:",
            "For interactive",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    let lines: Vec<String> =
        log.lines().map(unmarked).filter(|line| !line.is_empty() && !is_banner(line)).collect();
    if lines.is_empty() { "nothing".to_owned() } else { lines.join(" / ") }
}
