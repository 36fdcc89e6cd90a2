// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts without hardware counters: runs a program in QEMU's user-mode emulator, with a plug-in
//! that simulates caches, TLBs and branches.
//!
//! [`Emulator::find`] chooses the emulator for the program's architecture and checks that it loads
//! the plug-in (`linerate-cachesim`, passed in by the caller), which is written to a private
//! directory. [`Emulator::prepare`] returns the command line to start, [`Emulation::collect`] reads
//! the counts. Standard streams, exit status and terminating signal are those of the command.
//!
//! # What is counted
//! Only user mode, for all threads and processes, and for the programs they execute if these have
//! the same architecture. If a program behaves identically in two runs, the counts are exactly the
//! same. The limits of the model are in `cachesim/plugin/cpu.h` and `plugin.c`: each thread has a
//! simulated processor of its own, and there is no prefetcher and no timing. AVX-512 is not
//! emulated.

mod counts;
mod names;
mod program;
mod spots;
#[cfg(test)]
mod tests;
mod traps;

pub(crate) use counts::Counts;
pub(crate) use names::{is_simulated, native};

use crate::sim::model::Model;
use crate::sim::{Folder, SimError, find_command, mode};
use linerate_linux::child::{Ended, ExecError, sleep};
use linerate_linux::{monotonic_ns, search_path};
use linerate_record::stat::CodeCounts;
use program::Program;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Signal raised by an unknown instruction; it has the same number on all architectures.
const SIGILL: i32 = 4;

/// File name of the plug-in.
const PLUGIN: &str = "cachesim.so";
/// Name of the file that the plug-in creates when it is probed.
const PROBE: &str = "probe";
/// File that keeps processes that outlive the command from starting further emulators.
const OVER: &str = "over";
/// Maximum time to wait for emulators that are starting, in nanoseconds.
const STARTING_NS: u64 = 10_000_000_000;
/// Interval between checks for emulators that are starting.
const STARTING_TICK: Duration = Duration::from_millis(2);
/// Maximum time for the probe, in nanoseconds.
const PROBE_NS: u64 = 10_000_000_000;
/// Interval at which the probe's exit is polled.
const PROBE_TICK: Duration = Duration::from_millis(2);
/// Maximum length of the emulator's message, in bytes.
const MESSAGE_BYTES: u64 = 4096;

/// An emulator that loads the plug-in, and the program to emulate.
#[derive(Debug)]
pub(crate) struct Emulator {
    file: PathBuf,
    /// Name of the emulator, such as `qemu-x86_64`.
    pub(crate) name: &'static str,
    program: Program,
    plugin: &'static [u8],
}

/// A command to be emulated, and the directory for its counts, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Emulation {
    folder: Folder,
    /// Path of the emulator.
    file: PathBuf,
    name: &'static str,
    arguments: Vec<OsString>,
    model: Model,
}

/// Why there is no emulator for a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NoEmulator {
    /// The command cannot be started, with or without an emulator.
    Command(ExecError),
    /// The command is built for this machine's architecture, so another simulator may work.
    Native(String),
    /// The command is built for another architecture.
    Foreign(String),
}

impl Emulator {
    /// Finds the emulator for a command.
    ///
    /// # Errors
    /// Returns the reason if there is none.
    pub(crate) fn find(argv: &[OsString], plugin: &'static [u8]) -> Result<Self, NoEmulator> {
        let command = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
        let failed = |errno| NoEmulator::Command(ExecError { errno });
        let file = find_command(command).map_err(failed)?;
        if mode(&file).map_err(failed)? & 0o6000 != 0 {
            let file = file.display();
            return Err(NoEmulator::Native(format!("{file} is setuid or setgid")));
        }
        let program = program::resolve(file, argv).map_err(NoEmulator::Native)?;
        let own = program::resolve("/proc/self/exe".into(), &["linerate".into()]);
        let is_foreign = own.is_ok_and(|own| own.elf.kind != program.elf.kind);
        let none = |reason| match is_foreign {
            true => NoEmulator::Foreign(reason),
            false => NoEmulator::Native(reason),
        };
        let name = program
            .elf
            .emulator()
            .ok_or_else(|| none(format!("no emulator is known for {}", program.file.display())))?;
        let file = in_path(name).ok_or_else(|| none(format!("{name} is not in PATH")))?;
        let emulator = Self { file, name, program, plugin };
        emulator.probe().map_err(none)?;
        Ok(emulator)
    }

    /// Writes the plug-in to a new directory. Returns the directory and the path of the plug-in.
    fn unpack(&self) -> Result<(Folder, PathBuf), SimError> {
        let folder = Folder::new()?;
        let path = folder.path().join(PLUGIN);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file: File| file.write_all(self.plugin));
        let failed = |error: std::io::Error| SimError::Folder {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        written.map_err(failed)?;
        Ok((folder, path))
    }

    /// Checks that the emulator loads the plug-in, whose option `probe` makes the emulator exit at
    /// once.
    fn probe(&self) -> Result<(), String> {
        let (folder, plugin) = self.unpack().map_err(|error| error.to_string())?;
        let probe = folder.path().join(PROBE);
        let mut argument = escaped(&plugin);
        argument.push(",probe=");
        argument.push(escaped(&probe));
        let mut command = Command::new(&self.file);
        command.arg("-plugin").arg(argument).arg(&self.program.file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |error| format!("{}: {error}", self.name);
        let mut child = command.spawn().map_err(failed)?;
        let end_ns = monotonic_ns() + PROBE_NS;
        while child.try_wait().map_err(failed)?.is_none() {
            if monotonic_ns() > end_ns {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Err(format!("{} did not exit after loading the plug-in", self.name));
            }
            sleep(PROBE_TICK);
        }
        if probe.exists() {
            return Ok(());
        }
        let mut said = String::new();
        if let Some(stderr) = &mut child.stderr {
            // If stderr cannot be read, the error contains no message from the emulator.
            let _ = stderr.take(MESSAGE_BYTES).read_to_string(&mut said);
        }
        let said = said.trim().lines().next().unwrap_or("it exited without a message");
        Err(format!("{} did not load the plug-in: {said}", self.name))
    }

    /// Prepares to emulate the command on a model. With `has_spots`, events are also counted per
    /// instruction.
    ///
    /// # Errors
    /// Returns [`SimError::Folder`], or [`SimError::BadModel`] if the model cannot be simulated.
    pub(crate) fn prepare(&self, model: &Model, has_spots: bool) -> Result<Emulation, SimError> {
        let items = model.arguments().map_err(|reason| SimError::BadModel { reason })?;
        let (folder, plugin) = self.unpack()?;
        let mut arguments: Vec<OsString> = vec!["-seed".into(), "1".into()];
        if let Some(processor) = model.processor(self.name) {
            arguments.extend(["-cpu".into(), processor.into()]);
        }
        let is_root_set = std::env::var_os("QEMU_LD_PREFIX").is_some();
        if let Some(root) = self.program.elf.root().filter(|_| !is_root_set) {
            arguments.extend(["-L".into(), root.into()]);
        }
        arguments.push("-plugin".into());
        // The emulator itself, and the argument that is about to be pushed.
        let keep = arguments.len() + 2;
        let mut argument = self.plugin_argument(&plugin, folder.path(), keep, &items);
        if has_spots {
            argument.push(",spots=");
            argument.push(escaped(&folder.path().join(spots::FILE)));
        }
        arguments.push(argument);
        let name = self.program.argv.first().cloned().unwrap_or_default();
        arguments.extend(["-0".into(), name, self.program.file.clone().into()]);
        arguments.extend(self.program.argv.iter().skip(1).cloned());
        let (file, model) = (self.file.clone(), model.clone());
        Ok(Emulation { folder, file, name: self.name, arguments, model })
    }

    fn plugin_argument(
        &self,
        plugin: &Path,
        out: &Path,
        keep: usize,
        items: &[String],
    ) -> OsString {
        let mut argument = escaped(plugin);
        let over = out.join(OVER);
        for (key, path) in [
            ("out", out),
            ("program", self.program.file.as_path()),
            ("plugin", plugin),
            ("over", over.as_path()),
        ] {
            argument.push(format!(",{key}="));
            argument.push(escaped(path));
        }
        argument.push(format!(",keep={keep}"));
        items.iter().for_each(|item| argument.push(format!(",{item}")));
        argument
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        retire(self.folder.path());
    }
}

/// Ends the emulation of programs that are executed from now on, so that the directory can be
/// removed: waits until no emulator is starting, then removes the plug-in.
fn retire(folder: &Path) {
    if File::create(folder.join(OVER)).is_err() {
        return;
    }
    let end_ns = monotonic_ns() + STARTING_NS;
    while counts::is_starting(folder) && monotonic_ns() < end_ns {
        sleep(STARTING_TICK);
    }
    // While `over` exists: a process that no longer finds `over` must not find the plug-in either.
    // A failure is not an error: the directory is then removed as far as possible.
    let _ = fs::remove_file(folder.join(PLUGIN));
}

/// Doubles the commas of a path, as QEMU's options require.
fn escaped(path: &Path) -> OsString {
    let mut text = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        text.extend(std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 }));
    }
    OsString::from_vec(text)
}

/// Finds a program in PATH.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = search_path();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

impl Emulation {
    /// Returns the command line to start instead of the command: the program and its arguments.
    pub(crate) fn command(&self) -> (&OsStr, &[OsString]) {
        (self.file.as_os_str(), &self.arguments)
    }

    /// Reads the counts after process `pid`, which ran [`Emulation::command`], has ended.
    ///
    /// # Errors
    /// Returns [`SimError::NotEmulated`], [`SimError::BadFile`] or [`SimError::Folder`].
    pub(crate) fn collect(&self, pid: u32, ended: Option<Ended>) -> Result<Counts, SimError> {
        let is_killed = ended.is_some_and(|ended| ended.signal == Some(SIGILL));
        counts::collect(self.folder.path(), &self.model, is_killed.then_some((pid, self.name)))
    }

    /// Reads the counts per instruction after the command has ended. They must have been requested
    /// in [`Emulator::prepare`]. `events` are event names, each with the counters returned by
    /// [`native`].
    ///
    /// # Errors
    /// Returns [`SimError::BadSpots`].
    pub(crate) fn code(&self, by: &str, events: &[(String, &str)]) -> Result<CodeCounts, SimError> {
        Ok(spots::read(self.folder.path())?.counts(by, events))
    }
}
