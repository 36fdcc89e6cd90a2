// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monitoring tools to compare: some do the job of `linerate why` (sampling, run time, waits), the
//! others that of `linerate profile` (sampling with call chains) or `linerate top`.

use crate::command::{output, program};

/// A monitoring tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// No tool; the program runs alone for the same time.
    Nothing,
    Linerate,
    PerfRecord,
    PerfStat,
    Bpftrace,
    Profile,
    PerfRecordProcess,
    Top,
}

/// `linerate why` and the tools that do the same job, all compared with the first entry, the run
/// without a tool.
pub(super) const TOOLS: &[Tool] =
    &[Tool::Nothing, Tool::Linerate, Tool::PerfRecord, Tool::PerfStat, Tool::Bpftrace];

/// `linerate profile`, `linerate top` and a tool that does the same job, all compared with the
/// first entry, the run without a tool.
pub(super) const PROFILERS: &[Tool] =
    &[Tool::Nothing, Tool::Profile, Tool::PerfRecordProcess, Tool::Top];

/// Cost of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// The tool's own CPU time divided by the monitoring time, both in seconds.
    pub(super) cpus: f64,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Linerate => "linerate why",
            Self::PerfRecord => "perf record -a -g -F 499",
            Self::PerfStat => "perf stat -a",
            Self::Bpftrace => "bpftrace: samples, switches, drops, system calls",
            Self::Profile => "linerate profile -F 999",
            Self::PerfRecordProcess => "perf record -g -F 999 -p",
            Self::Top => "linerate top at 2 Hz",
        }
    }

    fn command(self, pid: u32, seconds: u32, linerate: &str) -> String {
        match self {
            Self::Nothing => format!("sleep {seconds}"),
            Self::Linerate => format!("{linerate} why {pid} --time {seconds}s --quiet"),
            Self::PerfRecord => {
                format!("perf record -a -g -F 499 -o /dev/null -- sleep {seconds}")
            }
            Self::PerfStat => format!("perf stat -a -- sleep {seconds}"),
            Self::Bpftrace => format!(
                "bpftrace -e 'profile:hz:499 /pid == {pid}/ {{ @[tid, ustack] = count(); }} \
                 tracepoint:sched:sched_switch {{ @ran[args->next_comm] = count(); }} \
                 tracepoint:skb:kfree_skb {{ @drops[args->reason] = count(); }} \
                 tracepoint:raw_syscalls:sys_enter /pid == {pid}/ {{ @calls = count(); }} \
                 interval:s:{seconds} {{ exit(); }}'"
            ),
            Self::Profile => format!("{linerate} profile {pid} -F 999 --time {seconds}s --quiet"),
            Self::PerfRecordProcess => {
                format!("perf record -g -F 999 -p {pid} -o /dev/null -- sleep {seconds}")
            }
            // `linerate top` draws only on a terminal, which script(1) provides.
            Self::Top => {
                format!(
                    "script -qec '{linerate} top {pid} --time {seconds}s' /dev/null < /dev/null"
                )
            }
        }
    }

    /// Monitors a process and returns the cost.
    pub(super) fn watch(self, pid: u32, seconds: u32, linerate: &str) -> Result<Cost, String> {
        let command = self.command(pid, seconds, linerate);
        let limit = format!("{}", seconds + 20);
        // tracefs is mounted only for the tool, if it is not mounted system-wide.
        let line = format!(
            "mount -t tracefs none /sys/kernel/tracing 2> /dev/null; \
             {command} > /dev/null 2>&1 || exit 1; times"
        );
        let arguments = ["-m", "timeout", "-k", "5", &limit, "sh", "-c", &line];
        let said = output(program("unshare", &arguments))?;
        let said = String::from_utf8_lossy(&said);
        let spent = spent(&said).ok_or_else(|| format!("`{command}`: no times in `{said}`"))?;
        Ok(Cost { cpus: spent / f64::from(seconds) })
    }
}

/// Returns the children's user and system CPU seconds from the output of a shell's `times`.
fn spent(said: &str) -> Option<f64> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    said.lines().nth(1)?.split_whitespace().map(seconds).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_childrens_times_are_read() {
        let said = "0m0.000000s 0m0.000000s\n0m0.250000s 1m2.500000s\n";
        assert_eq!(spent(said), Some(62.75));
        assert_eq!(spent("0m0.0s 0m0.0s\n"), None);
    }
}
