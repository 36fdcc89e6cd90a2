// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc/PID/{stat,schedstat,status,syscall}.

use linerate_machine::parse_cpu_list;
use linerate_record::units::signal_name;

/// Fields of a thread's or process's `stat`. Times are in USER_HZ ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    /// `R` running or runnable, `S` and `D` asleep, `T` and `t` stopped, `Z` and `X` exited.
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) is_kernel_thread: bool,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// CPU time of child processes that have ended and been waited for, including their own
    /// children.
    pub(crate) children_ticks: u64,
    pub(crate) nice: i32,
    /// Number of threads of the process.
    pub(crate) threads: u64,
    /// Start time in ticks since boot, which distinguishes processes that reuse a PID.
    pub(crate) began_ticks: u64,
    /// Initial stack address (`startstack`), which ASLR changes with each execve(2); 0 if hidden.
    pub(crate) stack: u64,
    /// CPU on which the thread last ran.
    pub(crate) cpu: u32,
    /// Scheduling policy (SCHED_* in linux/sched.h); `None` if not reported.
    pub(crate) policy: Option<u32>,
    /// Wait status after exit; `None` if hidden or not reported.
    pub(crate) wait_status: Option<u32>,
}

/// PF_KTHREAD in include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Stat {
    /// Parses the fields (proc(5)) after the last `)`, because the name before it may contain
    /// spaces and parentheses.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // The first field here is field 3 of proc(5), the state.
        let field = |number: usize| fields.get(number - 3).copied();
        let count = |number: usize| field(number)?.parse::<u64>().ok();
        Some(Self {
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            is_kernel_thread: count(9)? & KERNEL_THREAD != 0,
            minor_faults: count(10)?,
            major_faults: count(12)?,
            user_ticks: count(14)?,
            system_ticks: count(15)?,
            children_ticks: count(16)? + count(17)?,
            nice: field(19)?.parse().ok()?,
            threads: count(20)?,
            began_ticks: count(22)?,
            stack: count(28)?,
            cpu: field(39)?.parse().ok()?,
            policy: field(41).and_then(|policy| policy.parse().ok()),
            wait_status: field(52).and_then(|status| status.parse().ok()),
        })
    }

    /// Returns whether a signal or debugger has stopped the thread.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Returns whether the thread has exited.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Returns whether all threads of the process have exited. Its main thread, whose state is that
    /// of the process, may exit before the others (pthread_exit).
    pub(crate) fn has_process_ended(&self) -> bool {
        self.has_ended() && self.threads <= 1
    }
}

/// How a program that linerate did not start ended: the kernel gives the status to the parent.
pub(crate) const STATUS_UNKNOWN: &str =
    "it ended (exit status unknown: only its parent process learns it)";

/// Formats a wait status: `exit status 1`, `SIGKILL`.
pub(crate) fn describe_status(status: u32) -> String {
    match (status & 0x7f, (status >> 8) & 0xff) {
        (0, code) => format!("exit status {code}"),
        (signal, _) => describe_signal(signal),
    }
}

/// Returns a signal's name, such as `SIGKILL`, or its number, such as `signal 10`, if the signal is
/// not a common one.
pub(crate) fn describe_signal(signal: u32) -> String {
    signal_name(signal as i32).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// `schedstat`: time on a CPU, and time spent waiting for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    pub(crate) run_ns: u64,
    pub(crate) delay_ns: u64,
    /// Number of times the thread was scheduled; 0 for all threads if the kernel does not count
    /// this.
    pub(crate) times: u64,
}

impl SchedStat {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut columns = text.split_ascii_whitespace();
        let mut next = || super::number(&mut columns);
        Some(Self { run_ns: next()?, delay_ns: next()?, times: next()? })
    }
}

/// Fields of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The thread's process.
    pub(crate) process: u32,
    /// Effective user.
    pub(crate) uid: u32,
    pub(crate) allowed: Vec<u32>,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// Process that traces the thread; 0 if none does.
    pub(crate) tracer: u32,
}

impl Status {
    pub(crate) fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let number = || value.parse().unwrap_or(0);
            match key {
                "Tgid" => status.process = value.parse().unwrap_or(0),
                "TracerPid" => status.tracer = value.parse().unwrap_or(0),
                "Uid" => {
                    let effective = value.split_ascii_whitespace().nth(1);
                    status.uid = effective.and_then(|uid| uid.parse().ok()).unwrap_or(0);
                }
                "Cpus_allowed_list" => status.allowed = parse_cpu_list(value).unwrap_or_default(),
                "voluntary_ctxt_switches" => status.voluntary_switches = number(),
                "nonvoluntary_ctxt_switches" => status.involuntary_switches = number(),
                _ => {}
            }
        }
        status
    }
}

/// `syscall`: what a thread is currently doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InCall {
    /// On a CPU, or runnable.
    Running,
    /// Asleep in a system call.
    Call {
        /// System call number for this architecture.
        number: u64,
        /// The first four arguments. In most calls, the first one is a descriptor or an address.
        arguments: [u64; 4],
    },
    /// Asleep outside of a system call: in a page fault, or stopped.
    Elsewhere,
}

impl InCall {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut columns = text.split_ascii_whitespace();
        match columns.next()? {
            "running" => Some(Self::Running),
            "-1" => Some(Self::Elsewhere),
            number => {
                let mut arguments = [0; 4];
                for argument in &mut arguments {
                    let text = columns.next()?.strip_prefix("0x")?;
                    *argument = u64::from_str_radix(text, 16).ok()?;
                }
                Some(Self::Call { number: number.parse().ok()?, arguments })
            }
        }
    }
}

/// Parses the number of read(2), write(2) and similar calls from /proc/PID/task/TID/io.
pub(crate) fn parse_io_calls(text: &str) -> Option<u64> {
    let value = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    value("syscr:")?.checked_add(value("syscw:")?)
}
