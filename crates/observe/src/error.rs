// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why a target cannot be watched.

use std::fmt;

/// Why a target cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// No process was given.
    NoProcess,
    /// No process has this PID, or it ended before the first read.
    Gone(u32),
    /// The number is a thread ID, not a process ID.
    Thread {
        /// The number given.
        tid: u32,
        /// The process it belongs to.
        pid: u32,
    },
    /// The process has ended, and its parent has not waited for it.
    Zombie(u32),
    /// A kernel thread.
    KernelThread {
        /// Its PID.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A process of another user.
    NotPermitted {
        /// Its PID.
        pid: u32,
        /// Its name.
        name: String,
        /// ID of the user it runs as.
        uid: u32,
    },
    /// No process has this name.
    NoSuchName(String),
    /// No interface has this name.
    NoSuchInterface {
        /// The name given.
        name: String,
        /// Existing interfaces.
        known: Vec<String>,
    },
    /// The command could not be started.
    NotStarted {
        /// The command.
        command: String,
        /// The kernel's error.
        reason: String,
    },
    /// The kernel refused to sample.
    NotSampled {
        /// The reason.
        reason: String,
        /// The command that would change it.
        fix: Option<String>,
    },
    /// No samples were taken.
    NoSamples {
        /// The program.
        name: String,
        /// Length of the window, microseconds.
        elapsed_us: u64,
        /// CPU time in the window, microseconds.
        cpu_us: u64,
    },
    /// The command ended before anything could be read.
    EndedAtOnce {
        /// The command.
        command: String,
        /// Exit: `exit status 1`.
        how: String,
    },
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess => write!(f, "no process given; give a PID, or a command after --"),
            Self::Gone(pid) => write!(f, "no process {pid}: it has ended, or never existed"),
            Self::Thread { tid, pid } => {
                write!(f, "{tid} is a thread of process {pid}; watch {pid}")
            }
            Self::Zombie(pid) => {
                write!(f, "process {pid} has ended; its parent has not waited for it yet (zombie)")
            }
            Self::KernelThread { pid, name } => write!(
                f,
                "process {pid} ({name}) is a kernel thread; watch an interface instead (--iface)"
            ),
            Self::NotPermitted { pid, name, uid } => write!(
                f,
                "process {pid} ({name}) belongs to user {uid}; run as that user or as root"
            ),
            Self::NoSuchName(name) => {
                write!(f, "no process is named '{name}'; `ps -e` lists the names")
            }
            Self::NoSuchInterface { name, known } => {
                write!(f, "no interface '{name}' here; available: {}", known.join(", "))
            }
            Self::NotStarted { command, reason } => {
                write!(f, "cannot start '{command}': {reason}")
            }
            Self::NotSampled { reason, fix } => {
                write!(f, "cannot sample: {reason}")?;
                fix.as_ref().map_or(Ok(()), |fix| write!(f, "; {fix}"))
            }
            Self::NoSamples { name, elapsed_us, cpu_us } => write!(
                f,
                "no samples: {name} used {} ms of CPU time in {} s; put it under load, sample \
                 longer (-t) or more often (-F)",
                *cpu_us as f64 / 1e3,
                *elapsed_us as f64 / 1e6
            ),
            Self::EndedAtOnce { command, how } => write!(
                f,
                "'{command}' exited immediately ({how}); give a command that runs for the whole \
                 window"
            ),
        }
    }
}

impl std::error::Error for ObserveError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_value_and_the_way_out() {
        let error = ObserveError::Thread { tid: 8, pid: 7 };
        assert_eq!(error.to_string(), "8 is a thread of process 7; watch 7");
        let error = ObserveError::NotPermitted { pid: 7, name: "x".to_owned(), uid: 33 };
        assert!(error.to_string().ends_with("run as that user or as root"));
        let known = vec!["lo".to_owned(), "eth0".to_owned()];
        let error = ObserveError::NoSuchInterface { name: "eth9".to_owned(), known };
        assert_eq!(error.to_string(), "no interface 'eth9' here; there are lo, eth0");
    }
}
