// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools that monitor a program, each doing the job of `linerate why`: samples, time, waits.

use crate::command::{output, program};

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// The same time without a tool.
    Nothing,
    Linerate,
    PerfRecord,
    PerfStat,
    Bpftrace,
}

/// All tools; the others are compared with the first.
pub(super) const TOOLS: &[Tool] =
    &[Tool::Nothing, Tool::Linerate, Tool::PerfRecord, Tool::PerfStat, Tool::Bpftrace];

/// Cost of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// The tool's own CPU time, divided by the seconds that it was to monitor.
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
        }
    }

    /// Monitors a process; returns the cost.
    pub(super) fn watch(self, pid: u32, seconds: u32, linerate: &str) -> Result<Cost, String> {
        let command = self.command(pid, seconds, linerate);
        let limit = format!("{}", seconds + 20);
        // Mounted only for the tool, if it is not mounted system-wide.
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

/// Returns the CPU seconds of the children, user and system, from the output of a shell's `times`.
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
