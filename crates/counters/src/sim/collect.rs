// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of all processes of a simulated command, each counted once.
//!
//! # How processes are told apart
//! Callgrind knows nothing of fork(2): a forked child goes on counting where its parent was, and
//! writes the parent's counts with its own when it ends. Nor does it know of execve(2): what a
//! program counted is lost when the process becomes another. So it is told to write what it has,
//! and to begin anew at 0, before each call of the C library that does either. Every process then
//! leaves one file per stretch, and their sum is exact.
//!
//! That takes the names of these calls, which a stripped static program does not have (nor does
//! one that makes the system calls itself). A child of such a program is recognised: its counts
//! begin with block 0 as those of a program do, but nothing in its log says that a program began.
//! What it did cannot be told from what its parent had done, so it is left out, and this is said.
//!
//! What is lost: what a program that itself was started by execve(2) in the same process counted
//! up to a stretch of its own with the same number. Files of a process are numbered from 1 in each
//! program it becomes, and the later one stays.

use super::dump::{self, Dump};
use super::names::{self, COUNTERS};
use super::{Geometry, SimError};
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// What files of counts are called; the number of the process follows, and that of the stretch.
pub(super) const DUMP: &str = "out";

/// What files of Valgrind's own words are called; the number of the process follows.
pub(super) const LOG: &str = "log";

/// What Valgrind says when a program begins, and not when a process forks.
const BEGUN: &str = "Using source line as position.";

/// What Valgrind says before the octets of an instruction that it does not know.
const UNKNOWN_INSTRUCTION: &str = "unhandled instruction bytes: ";

/// As much of a log as is read: a program that makes Valgrind talk does not fill the memory.
const LOG_OCTETS: u64 = 1 << 16;

/// What was counted in all processes of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct SimCounts {
    counts: [u64; COUNTERS.len()],
    geometry: Geometry,
    /// How many processes were counted.
    pub processes: u64,
    /// What a reader must know before trusting the counts.
    pub remarks: Vec<Remark>,
}

/// What a reader of simulated counts must know; printed, a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// An instruction that Valgrind does not know: a SIGILL to the program.
    UnknownInstruction {
        /// How it begins, in hexadecimal, as Valgrind printed it.
        octets: String,
    },
    /// Processes that still ran, or were killed at once: only what they did before they last forked
    /// is counted.
    Unfinished {
        /// How many.
        processes: u64,
    },
    /// Forked processes that are not counted, since what they did cannot be told from what their
    /// parents had done.
    Inseparable {
        /// How many.
        processes: u64,
    },
}

impl SimCounts {
    /// How often the event `name` came about.
    ///
    /// # Errors
    /// As [`names::native`].
    pub fn get(&self, name: &str) -> Result<u64, Refusal> {
        let counters = names::native(name, &self.geometry)?;
        let count = |wanted: &str| {
            COUNTERS.iter().zip(self.counts).find(|(name, _)| **name == wanted).map(|(_, n)| n)
        };
        let parts = counters.split(" + ");
        Ok(parts.map(|part| count(part).expect("events are made of counters")).sum())
    }
}

/// What one process left behind.
#[derive(Default)]
struct Process {
    dumps: Vec<Dump>,
    log: Option<String>,
}

impl Process {
    /// Whether it was forked and never became another program. Without a log nobody can tell, and
    /// most did.
    fn is_forked(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.contains(BEGUN))
    }

    /// Whether a stretch of it counts what its parent did, too.
    fn has_counts_of_parent(&self, dump: &Dump) -> bool {
        self.is_forked() && dump.first_block == 0
    }
}

/// Adds up what lies in `folder` after process `main` has ended.
pub(super) fn collect(
    folder: &Path,
    main: u32,
    geometry: &Geometry,
) -> Result<SimCounts, SimError> {
    let processes = read_folder(folder)?;
    if processes.values().all(|process| process.dumps.is_empty()) {
        let said = processes.get(&main).and_then(|process| process.log.as_deref()).unwrap_or("");
        return Err(SimError::NoCounts { said: words(said) });
    }
    let mut counts = [0u64; COUNTERS.len()];
    let (mut counted, mut unfinished, mut inseparable) = (0, 0, 0);
    for process in processes.values() {
        let (mixed, own): (Vec<_>, Vec<_>) =
            process.dumps.iter().partition(|dump| process.has_counts_of_parent(dump));
        for dump in &own {
            for (sum, count) in counts.iter_mut().zip(dump.counts) {
                *sum = sum.saturating_add(count);
            }
        }
        counted += u64::from(!own.is_empty());
        inseparable += u64::from(!mixed.is_empty());
        unfinished += u64::from(!process.dumps.iter().any(|dump| dump.is_last));
    }
    let remark = |n: u64, remark: fn(u64) -> Remark| (n > 0).then(|| remark(n));
    let remarks = processes
        .values()
        .find_map(unknown_instruction)
        .into_iter()
        .chain(remark(unfinished, |processes| Remark::Unfinished { processes }))
        .chain(remark(inseparable, |processes| Remark::Inseparable { processes }))
        .collect();
    Ok(SimCounts { counts, geometry: geometry.clone(), processes: counted, remarks })
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
            file.take(LOG_OCTETS).read_to_end(&mut log).map_err(|error| failed(&path, error))?;
            process.log = Some(String::from_utf8_lossy(&log).into_owned());
        } else if kind == Some(DUMP) && file.metadata().is_ok_and(|file| file.len() > 0) {
            // Empty: made when the program began; it has not ended.
            let bad = |reason| SimError::BadFile { path: path.display().to_string(), reason };
            process.dumps.push(dump::read(BufReader::new(file)).map_err(bad)?);
        }
    }
    Ok(processes)
}

fn unknown_instruction(process: &Process) -> Option<Remark> {
    let log = process.log.as_deref()?;
    let (_, octets) = log.split_once(UNKNOWN_INSTRUCTION)?;
    Some(Remark::UnknownInstruction { octets: octets.lines().next()?.trim().to_owned() })
}

/// What Valgrind said, without the marks and the banner.
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

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInstruction { octets } => write!(
                f,
                "Valgrind does not know an instruction of the program ({octets}), to which that \
                 was a SIGILL. It knows no AVX-512, VAES, GFNI or SHA: compile for less, with \
                 -march=x86-64-v3 or -C target-cpu=x86-64-v3 in place of native"
            ),
            Self::Unfinished { processes } => write!(
                f,
                "{processes} process(es) had not ended, or were killed at once: what they did \
                 after they last forked is not counted. Have the command wait for its children"
            ),
            Self::Inseparable { processes } => write!(
                f,
                "{processes} forked process(es) are not counted: their program has no symbols of \
                 fork(2), so what they did cannot be told from what their parents had done. Do not \
                 strip the program, or link it dynamically"
            ),
        }
    }
}
