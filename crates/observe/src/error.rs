// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors for targets that cannot be observed.

use std::fmt;

/// Error returned when a target cannot be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserveError {
    /// No process given.
    NoProcess,
    /// No such process, or it ended before the first read.
    Gone(u32),
    /// /proc has no processes.
    NoProc,
    /// A thread ID was given instead of a process ID.
    Thread {
        /// The thread ID.
        tid: u32,
        /// The thread's process.
        pid: u32,
    },
    /// The process has ended, but its parent has not waited for it.
    Zombie(u32),
    /// The process is a kernel thread.
    KernelThread {
        /// PID of the kernel thread.
        pid: u32,
        /// Name of the kernel thread.
        name: String,
    },
    /// The process belongs to another user.
    NotPermitted {
        /// Process ID.
        pid: u32,
        /// Process name.
        name: String,
        /// User that the process runs as.
        uid: u32,
    },
    /// No process has this name.
    NoSuchName(String),
    /// No such interface.
    NoSuchInterface {
        /// The name given.
        name: String,
        /// Names of existing interfaces.
        known: Vec<String>,
    },
    /// The command could not be started.
    NotStarted {
        /// The command.
        command: String,
        /// Error message from the kernel.
        reason: String,
    },
    /// The kernel refused sampling.
    NotSampled {
        /// Why the kernel refused.
        reason: String,
        /// Command that would permit sampling; `None` if there is none.
        fix: Option<String>,
    },
    /// No samples were taken.
    NoSamples {
        /// Program name.
        name: String,
        /// Window length in microseconds.
        elapsed_us: u64,
        /// The program's CPU time in the window, in microseconds.
        cpu_us: u64,
    },
    /// The command ended before anything could be read.
    EndedAtOnce {
        /// The command.
        command: String,
        /// Exit status or signal: `exit status 1`.
        how: String,
    },
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess => write!(f, "no process given; pass a PID, or a command after --"),
            Self::NoProc => write!(
                f,
                "/proc has no processes, so no program can be watched; is it mounted? (mount -t \
                 proc proc /proc)"
            ),
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
                "no samples: {name} used {} ms of CPU time in {} s; put it under load, or sample \
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
        assert_eq!(error.to_string(), "no interface 'eth9' here; available: lo, eth0");
    }
}
