// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting without hardware counters: instructions, branches and cache misses simulated by
//! Valgrind.
//!
//! The simulator is callgrind, run as a separate program around the command: [`Sim::prepare`]
//! returns the command line to start, [`Simulation::collect`] reads the counts after it has ended.
//! Standard streams, exit status and terminating signal are those of the command; Valgrind's
//! messages go to a file that is shown only on errors. The caches are always specified
//! ([`Geometry`]) and never left to Valgrind's detection, which is off by a factor of ten on some
//! machines.
//!
//! # What is counted
//! Only user mode, for the command and all its child processes, each counted separately from its
//! parent ([`mod@collect`]). If a program behaves identically in two runs, the counts are exactly
//! the same: Valgrind determines the memory layout itself, so address randomisation makes no
//! difference. Differences come from anything that the program can observe: its arguments, its
//! environment (both are on its stack and shift it), the time, process IDs, random bytes, and the
//! order in which threads run.
//!
//! # Limitations of the model
//! The model has two cache levels, each with true LRU and write-allocate, but no prefetcher, no TLB
//! and no timing. Threads take turns on one simulated processor. AVX-512 is not available: programs
//! that query the CPU features take another code path; programs compiled for AVX-512 are killed by
//! SIGILL, which is reported.
//!
//! Cycles, which could only be estimated from simulated counts, and regions of a program
//! (`linerate-regions`) are not supported.

pub mod collect;
mod dump;
mod functions;
pub mod geometry;
pub(crate) mod model;
mod named;
mod names;

pub use collect::{Remark, SimCounts};
pub use geometry::{Geometry, GeometryError};
pub use names::native;

use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::{self, Explanation};
use linerate_linux::child::{Ended, ExecError, fork_held};
use linerate_linux::errno::meaning;
use linerate_linux::search_path;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Valgrind, as found on this machine.
#[derive(Clone, Debug)]
pub struct Sim {
    valgrind: PathBuf,
}

/// A command to be simulated, and the directory for its counts, which is removed on drop.
#[derive(Debug)]
pub struct Simulation {
    folder: Folder,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// The command with its arguments, separated by spaces.
    command: OsString,
    geometry: Geometry,
}

/// Valgrind options other than those that set the cache geometry. The user's own Valgrind options
/// are ignored, and no vgdb files are left in /tmp. Counts are written and reset before a process
/// forks or executes another program; see [`mod@collect`].
const OPTIONS: [&str; 12] = [
    "--command-line-only=yes",
    "--tool=callgrind",
    "--vgdb=no",
    "--trace-children=yes",
    "--cache-sim=yes",
    "--branch-sim=yes",
    "--dump-line=no",
    "--dump-before=fork",
    "--dump-before=_Fork",
    "--dump-before=vfork",
    "--dump-before=clone",
    "--dump-before=execve",
];

impl Sim {
    /// Finds Valgrind in PATH.
    ///
    /// # Errors
    /// Returns [`Cause::NoValgrind`](linerate_doctor::refusal::Cause::NoValgrind) if Valgrind is
    /// not installed, with the command that installs it on the host described by `around`.
    pub fn find(around: &HostFacts) -> Result<Self, Explanation> {
        let facts = around.facts();
        let valgrind = facts.valgrind.clone().map(|valgrind| Self { valgrind });
        valgrind.ok_or_else(|| refusal::no_valgrind(facts).expect("Valgrind was not found"))
    }

    /// Prepares to simulate a command on the given caches.
    ///
    /// # Errors
    /// Returns [`SimError::Command`] if the command cannot be started, [`SimError::OtherRights`] or
    /// [`SimError::Folder`].
    pub fn prepare(&self, argv: &[OsString], geometry: &Geometry) -> Result<Simulation, SimError> {
        let command = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
        let failed = |errno| SimError::Command(ExecError { errno });
        let file = find_command(command).map_err(failed)?;
        if mode(&file).map_err(failed)? & 0o6000 != 0 {
            return Err(SimError::OtherRights { program: file.display().to_string() });
        }
        let folder = Folder::new()?;
        let mut arguments: Vec<OsString> = OPTIONS.into_iter().map(OsString::from).collect();
        arguments.extend(geometry.options().map(OsString::from));
        arguments.push(file_option("--callgrind-out-file=", folder.path(), collect::DUMP));
        arguments.push(file_option("--log-file=", folder.path(), collect::LOG));
        arguments.push("--".into());
        arguments.extend_from_slice(argv);
        if std::env::var_os("PATH").is_none() {
            // Without PATH, Valgrind would not find the program by name.
            let first = arguments.len() - argv.len();
            arguments[first] = file.into();
        }
        let (program, geometry) = (self.valgrind.clone(), geometry.clone());
        Ok(Simulation { folder, program, arguments, command: argv.join(OsStr::new(" ")), geometry })
    }

    /// Simulates a command and waits for it to end.
    ///
    /// # Errors
    /// As for [`Sim::prepare`] and [`Simulation::collect`]; also [`SimError::System`].
    pub fn run(
        &self,
        argv: &[OsString],
        geometry: &Geometry,
    ) -> Result<(SimCounts, Ended), SimError> {
        let simulation = self.prepare(argv, geometry)?;
        let (program, arguments) = simulation.command();
        let held = fork_held(program, arguments).map_err(SimError::System)?;
        let mut child = held.release().map_err(SimError::Command)?;
        let ended = child.wait();
        Ok((simulation.collect(child.pid())?, ended))
    }
}

impl Simulation {
    /// Returns the command line to start instead of the command: the program and its arguments.
    pub fn command(&self) -> (&OsStr, &[OsString]) {
        (self.program.as_os_str(), &self.arguments)
    }

    /// Reads the counts after process `pid`, which ran [`Simulation::command`], has ended.
    ///
    /// # Errors
    /// Returns [`SimError::NoCounts`], [`SimError::BadFile`] or [`SimError::Folder`].
    pub fn collect(&self, pid: u32) -> Result<SimCounts, SimError> {
        let command = self.command.to_string_lossy();
        let command = command.lines().next().unwrap_or("").trim();
        collect::collect(self.folder.path(), collect::Started { pid, command }, &self.geometry)
    }
}

/// A private directory, which is removed on drop.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a new directory.
    pub(crate) fn new() -> Result<Self, SimError> {
        make_folder().map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A background process may add a file meanwhile. If it goes on doing so, files remain.
        let _ = (0..3).any(|_| std::fs::remove_dir_all(&self.0).is_ok());
    }
}

/// Why nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// The command cannot be started, with or without a simulator.
    Command(ExecError),
    /// The command is setuid or setgid, so Valgrind cannot follow it.
    OtherRights {
        /// Program path.
        program: String,
    },
    /// The simulator's directory, or a file in it, cannot be used.
    Folder {
        /// Path of the directory or file.
        path: String,
        /// The operating system's error message.
        reason: String,
    },
    /// Valgrind wrote no counts.
    NoCounts {
        /// Valgrind's messages.
        said: String,
    },
    /// The simulator wrote invalid counts.
    BadFile {
        /// Path of the file with the counts.
        path: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// The counts per instruction are missing or invalid.
    BadSpots {
        /// Path of the file with the counts.
        path: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// The emulator left no counts.
    NotEmulated,
    /// The plug-in cannot simulate these caches or TLBs.
    BadModel {
        /// Which cache or TLB cannot be simulated, and why.
        reason: String,
    },
    /// The kernel refused to create a process.
    System(linerate_linux::Error),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(error) => {
                write!(f, "cannot start the command: {}", meaning(error.errno))
            }
            Self::OtherRights { program } => write!(
                f,
                "{program} is setuid or setgid, which the simulator cannot follow; simulate a \
                 copy without that bit"
            ),
            Self::Folder { path, reason } => {
                write!(f, "{path}: {reason}; set TMPDIR to a writable directory")
            }
            Self::NoCounts { said } => write!(
                f,
                "valgrind wrote no counts ({said}); it needs about 30 open files and 100 MiB: \
                 check ulimit -n, -v and -f"
            ),
            Self::BadFile { path, reason } => {
                write!(f, "cannot read the simulator's counts: {reason} ({path})")
            }
            Self::BadSpots { path, reason } => write!(
                f,
                "cannot read the counts by function: {reason} ({path}); drop --hot to count \
                 without them"
            ),
            Self::NotEmulated => write!(
                f,
                "QEMU wrote no counts; see its message above, or try --simulator valgrind"
            ),
            Self::BadModel { reason } => write!(f, "cannot simulate these caches: {reason}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SimError {}

/// Returns the file that execvp(3) would execute, or the error number it would set.
pub(crate) fn find_command(command: &OsStr) -> Result<PathBuf, i32> {
    const NOT_FOUND: i32 = 2;
    if command.as_bytes().contains(&b'/') {
        return is_executable(Path::new(command)).map(|()| command.into());
    }
    let path = search_path();
    let mut errno = NOT_FOUND;
    for folder in std::env::split_paths(&path).filter(|_| !command.is_empty()) {
        let file = folder.join(command);
        match is_executable(&file) {
            Ok(()) => return Ok(file),
            Err(NOT_FOUND) => {}
            Err(other) => errno = other,
        }
    }
    Err(errno)
}

/// Checks that some user may execute the file; otherwise returns execve(2)'s error number.
fn is_executable(file: &Path) -> Result<(), i32> {
    const NO_ACCESS: i32 = 13;
    let may_not = file.is_dir() || mode(file)? & 0o111 == 0;
    (!may_not).then_some(()).ok_or(NO_ACCESS)
}

pub(crate) fn mode(file: &Path) -> Result<u32, i32> {
    let found = std::fs::metadata(file).map_err(|error| error.raw_os_error().unwrap_or(0))?;
    Ok(found.permissions().mode())
}

/// Creates a new private directory. No name is used twice, because a background process of an
/// earlier simulation may still be writing to its directory.
fn make_folder() -> Result<PathBuf, SimError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parent = std::env::temp_dir();
    let failed = |error: io::Error| SimError::Folder {
        path: parent.display().to_string(),
        reason: error.to_string(),
    };
    // Children may have another working directory.
    let parent = std::path::absolute(&parent).map_err(failed)?;
    // Relaxed: the numbers only have to differ.
    let next = || NEXT.fetch_add(1, Ordering::Relaxed);
    std::iter::repeat_with(next)
        .map(|n| parent.join(format!("linerate-sim-{}-{n}", std::process::id())))
        .find_map(|folder| match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            made => Some(made.map(|()| folder)),
        })
        .expect("2^32 such folders cannot all exist")
        .map_err(failed)
}

/// Returns `option` with the path of a file in `folder`, named after `kind` and the process ID.
fn file_option(option: &str, folder: &Path, kind: &str) -> OsString {
    let mut text = option.as_bytes().to_vec();
    for &byte in folder.as_os_str().as_bytes() {
        // Valgrind's escape for a percent sign is `%%`.
        text.extend(std::iter::repeat_n(byte, if byte == b'%' { 2 } else { 1 }));
    }
    text.extend_from_slice(format!("/{kind}.%p").as_bytes());
    OsString::from_vec(text)
}
