// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and sums the counts of all processes of an emulated command.
//!
//! The plug-in keeps one file per process and program, with a row of counters per thread
//! (`cachesim/plugin/sheet.h`).

use super::names::{self, COUNTERS};
use super::{PLUGIN, escaped, traps};
use crate::sim::model::Model;
use crate::sim::{Remark, SimError};
use linerate_doctor::refusal::Explanation;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Prefix of a count file's name, followed by the process ID and a number.
const FILE: &str = "counts.";

const MAGIC: &[u8] = b"LRSHEET1";

/// Length of the header of a count file, which precedes the rows.
const HEAD_BYTES: usize = 4096;

/// Maximum total size of a file's rows, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Value of a file's state field: the process is running.
const RUNS: u32 = 0;
/// Value of a file's state field: the process has ended.
const ENDED: u32 = 1;
/// Value of a file's state field: the process executes another program, which has its own file.
const EXECUTES: u32 = 2;

/// Maximum length of the part of a command line that contains the plug-in's path: the options
/// before it are few, and a path has at most 4096 bytes, of which commas are doubled.
const COMMAND_BYTES: u64 = 16 << 10;

/// Index of the header field with the number of counters per row.
const ROW: usize = 1;
/// Index of the header field with the last row in use.
const LAST_ROW: usize = 6;

/// Counts over all processes of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts {
    counts: [u64; COUNTERS.len()],
    model: Model,
    /// Whether branches were recognized in all processes.
    has_branches: bool,
    /// Limitations that must be reported.
    pub(crate) remarks: Vec<Remark>,
}

impl Counts {
    /// Returns the count of an event.
    ///
    /// # Errors
    /// Returns the errors of [`names::native`], and an error for branch events if branches were not
    /// recognized in every process.
    pub(crate) fn get(&self, name: &str) -> Result<u64, Explanation> {
        let native = names::native(name, &self.model)?;
        if !self.has_branches && name.starts_with("branch") {
            return Err(names::no_branches());
        }
        let count = |wanted: &str| {
            let place = COUNTERS.iter().position(|counter| *counter == wanted);
            self.counts[place.expect("every event is a sum of counters")]
        };
        Ok(native.split(" + ").map(count).sum())
    }
}

/// The flags and counts from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sheet {
    has_branches: bool,
    state: u32,
    unfollowed: u64,
    instruction: Vec<u8>,
    counts: [u64; COUNTERS.len()],
}

/// Sums the counts of all files in a directory. `killed` is the process, if any, that SIGILL
/// killed, and the name of its emulator.
pub(super) fn collect(
    folder: &Path,
    model: &Model,
    killed: Option<(u32, &str)>,
) -> Result<Counts, SimError> {
    let failed = |path: &Path, error: std::io::Error| SimError::Folder {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let mut sum = Counts {
        counts: [0; COUNTERS.len()],
        model: model.clone(),
        has_branches: true,
        remarks: Vec::new(),
    };
    let mut processes = Processes::with_plugin_in(folder);
    let (mut unfollowed, mut is_counted) = (0, false);
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(place) = place(&name) else { continue };
        let bytes = read(&path).map_err(|error| failed(&path, error))?;
        if !is_begun(&bytes) {
            processes.add(place, RUNS);
            continue;
        }
        let sheet = parse(&bytes).ok_or_else(|| SimError::BadFile {
            path: path.display().to_string(),
            reason: "not in the format of the emulator's plug-in".to_owned(),
        })?;
        is_counted = true;
        sum.has_branches &= sheet.has_branches;
        unfollowed += sheet.unfollowed;
        for (sum, count) in sum.counts.iter_mut().zip(sheet.counts) {
            *sum = sum.saturating_add(count);
        }
        processes.add(place, sheet.state);
        let emulator = killed.filter(|(pid, _)| *pid == place.0 && sheet.state == RUNS);
        if emulator.is_some_and(|(_, name)| !traps::is_meant(name, &sheet.instruction)) {
            let bytes = hexadecimal(&sheet.instruction);
            sum.remarks.push(Remark::UnknownInstruction { bytes });
        }
    }
    if !is_counted {
        return Err(SimError::NotEmulated);
    }
    let (processes, programs) = (processes.running(), unfollowed);
    sum.remarks.extend((processes > 0).then_some(Remark::Unfinished { processes }));
    sum.remarks.extend((programs > 0).then_some(Remark::NotFollowed { programs }));
    Ok(sum)
}

/// Returns whether a process is about to start the emulator for another program, or that emulator
/// has not created its count file yet.
pub(super) fn is_starting(folder: &Path) -> bool {
    let mut processes = Processes { listed: Vec::new(), files: BTreeMap::new() };
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let Some(place) = place(&entry.file_name().to_string_lossy()) else { continue };
        // A file that cannot be read does not keep anyone waiting.
        let bytes = read(&entry.path()).unwrap_or_default();
        let state = if is_begun(&bytes) { parse(&bytes).map(|sheet| sheet.state) } else { None };
        processes.add(place, state.unwrap_or(RUNS));
    }
    let states = processes.files.iter();
    let mut starting = states.filter(|(_, (_, state))| *state == EXECUTES);
    starting.any(|(pid, _)| is_running(*pid))
}

/// Returns the process ID and the number in a count file's name.
fn place(name: &str) -> Option<(u32, u32)> {
    let (pid, number) = name.strip_prefix(FILE)?.split_once('.')?;
    Some((pid.parse().ok()?, number.parse().ok()?))
}

/// Returns whether the plug-in has finished the header: a process that has just started, or that
/// was killed then, leaves a file that is empty or begins with zeros.
fn is_begun(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD_BYTES && !bytes.starts_with(&[0; MAGIC.len()])
}

/// The emulated processes, for determining which still run.
#[derive(Debug)]
struct Processes {
    /// Those that ran before the count files were read, as the kernel lists them.
    listed: Vec<u32>,
    /// Number and state of each process's last file.
    files: BTreeMap<u32, (u32, u32)>,
}

impl Processes {
    /// Finds the running processes that have loaded the plug-in from this folder. This includes
    /// forked ones that have no count file yet. Does not see processes that the system hides
    /// (`hidepid`).
    fn with_plugin_in(folder: &Path) -> Self {
        let plugin = escaped(&folder.join(PLUGIN));
        let has_plugin = |pid: &u32| {
            let mut line = Vec::new();
            // A process that has ended in the meantime has no command line.
            let file = File::open(format!("/proc/{pid}/cmdline"));
            let _ = file.and_then(|file| file.take(COMMAND_BYTES).read_to_end(&mut line));
            line.windows(plugin.len()).any(|window| window == plugin.as_bytes())
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let listed = pids.filter(|pid| has_plugin(pid) && is_running(*pid)).collect();
        Self { listed, files: BTreeMap::new() }
    }

    /// Records the state of process `pid`, as given in its count file with this number. The last
    /// file counts.
    fn add(&mut self, (pid, number): (u32, u32), state: u32) {
        let last = self.files.entry(pid).or_insert((number, state));
        *last = (number, state).max(*last);
    }

    /// Returns the number of processes that are still running.
    fn running(&self) -> u64 {
        let files = self.files.iter();
        let with_file = files.filter(|(pid, (_, state))| *state != ENDED && is_running(**pid));
        let without = self.listed.iter().filter(|pid| !self.files.contains_key(pid));
        (with_file.count() + without.count()) as u64
    }
}

/// Reads the header of a file and the rows in use, but not the rows reserved for more threads.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    let head = bytes.strip_prefix(MAGIC).unwrap_or(&[]);
    let rows = field(head, LAST_ROW).map_or(0, |last| last as u64 + 1);
    let row_bytes = 8 * field(head, ROW).unwrap_or(0) as u64;
    file.take(rows.saturating_mul(row_bytes).min(MOST_BYTES)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the 32-bit header field with this index. The first one follows the magic number.
fn field(head: &[u8], index: usize) -> Option<usize> {
    let bytes = head.get(4 * index..4 * index + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    bytes.join(" ")
}

/// Returns whether a process exists and has not ended. A process that is killed cannot record its
/// own end.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// Parses a file; `None` if its format is not that of the plug-in.
fn parse(bytes: &[u8]) -> Option<Sheet> {
    let head = bytes.strip_prefix(MAGIC)?;
    let field = |index: usize| field(head, index);
    let (counters, row, rows) = (field(0)?, field(ROW)?, field(2)?);
    if counters != COUNTERS.len() || row < counters {
        return None;
    }
    let mut counts = [0u64; COUNTERS.len()];
    for index in 0..rows.min(field(LAST_ROW)?.checked_add(1)?) {
        let start = HEAD_BYTES.checked_add(index.checked_mul(row)?.checked_mul(8)?)?;
        let numbers = bytes.get(start..start.checked_add(8 * counters)?)?;
        for (sum, number) in counts.iter_mut().zip(numbers.chunks_exact(8)) {
            *sum = sum.saturating_add(u64::from_ne_bytes(number.try_into().ok()?));
        }
    }
    Some(Sheet {
        has_branches: field(3)? != 0,
        state: field(4)? as u32,
        unfollowed: field(5)? as u64,
        instruction: head.get(32..32 + field(7)?.min(8))?.to_vec(),
        counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: &[[u64; 2]]) -> Vec<u8> {
        let counters = COUNTERS.len() as u32;
        let last = rows.len() as u32 - 1;
        let mut bytes = MAGIC.to_vec();
        for field in [counters, 32, rows.len() as u32, 1, 0, 2, last, 3] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend([0x62, 0xf1, 0x08]);
        bytes.resize(HEAD_BYTES, 0);
        for row in rows {
            let start = bytes.len();
            bytes.extend(row.iter().flat_map(|count| count.to_ne_bytes()));
            bytes.resize(start + 32 * 8, 0);
        }
        bytes
    }

    #[test]
    fn threads_are_summed() {
        let sheet = parse(&file(&[[10, 3], [5, 1]])).unwrap();
        assert_eq!(sheet.counts[..3], [15, 4, 0]);
        assert_eq!((sheet.has_branches, sheet.state, sheet.unfollowed), (true, RUNS, 2));
        assert_eq!(hexadecimal(&sheet.instruction), "0x62 0xf1 0x08");
    }

    #[test]
    fn other_files_are_refused() {
        let whole = file(&[[1, 2], [3, 4]]);
        for end in [0, 4, 20, 40, HEAD_BYTES, whole.len() - 200] {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        let mut others = whole.clone();
        others[8] += 1;
        assert_eq!(parse(&others), None);
    }

    #[test]
    fn a_folder_has_one_file_per_process_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let model = crate::sim::Geometry::named("arm1176").unwrap();
        let sum = |killed| collect(folder.path(), model.model(), killed);
        assert_eq!(sum(None), Err(SimError::NotEmulated));
        for name in ["counts.4000000.0", "counts.4000000.1", "counts.4000001.0"] {
            fs::write(folder.path().join(name), file(&[[7, 1]])).unwrap();
        }
        let counts = sum(None).unwrap();
        assert_eq!((counts.get("instructions"), counts.get("loads")), (Ok(21), Ok(3)));
        assert_eq!(counts.remarks, [Remark::NotFollowed { programs: 6 }]);
        let remarks = sum(Some((4_000_001, "qemu-x86_64"))).unwrap().remarks;
        assert!(matches!(remarks[0], Remark::UnknownInstruction { .. }), "{remarks:?}");
    }

    #[test]
    fn a_file_that_is_not_begun_is_a_process_without_counts() {
        let folder = tempfile::tempdir().unwrap();
        let model = crate::sim::Geometry::named("arm1176").unwrap();
        let sum = || collect(folder.path(), model.model(), None);
        let add = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        add("counts.4000000.0", &[]);
        add("counts.4000000.1", &[0; 2 * HEAD_BYTES]);
        assert_eq!(sum(), Err(SimError::NotEmulated));
        add("counts.4000001.0", &file(&[[7, 1]]));
        let own = format!("counts.{}.0", std::process::id());
        add(&own, &[0; HEAD_BYTES - 1]);
        let counts = sum().unwrap();
        assert_eq!(counts.get("instructions"), Ok(7));
        let unfinished = Remark::Unfinished { processes: 1 };
        assert_eq!(counts.remarks, [unfinished, Remark::NotFollowed { programs: 2 }]);
        add(&own, &[1; HEAD_BYTES]);
        assert!(matches!(sum(), Err(SimError::BadFile { .. })));
    }

    #[test]
    fn a_process_without_a_file_is_seen_by_its_plug_in() {
        let folder = tempfile::tempdir().unwrap();
        let model = crate::sim::Geometry::named("arm1176").unwrap();
        let processes = || {
            let remarks = collect(folder.path(), model.model(), None).unwrap().remarks;
            remarks.into_iter().find_map(|remark| match remark {
                Remark::Unfinished { processes } => Some(processes),
                _ => None,
            })
        };
        fs::write(folder.path().join("counts.4000000.0"), file(&[[7, 1]])).unwrap();
        assert_eq!(processes(), None);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo; read line", "-plugin"]).arg(folder.path().join(PLUGIN));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        // `spawn` returns before the kernel shows the new command line.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(processes(), Some(1));
        // Its last file counts, not the one from before it executed this program.
        let mut ended = file(&[[1, 1]]);
        let state = MAGIC.len() + 4 * 4;
        for (number, value, expected) in
            [(0, EXECUTES, Some(1)), (1, RUNS, Some(1)), (2, ENDED, None)]
        {
            ended[state..state + 4].copy_from_slice(&value.to_ne_bytes());
            let name = format!("counts.{}.{number}", child.id());
            fs::write(folder.path().join(name), &ended).unwrap();
            assert_eq!(processes(), expected, "{number}");
            assert_eq!(is_starting(folder.path()), value == EXECUTES);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
