// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of processes and of the machine, from /proc.
//!
//! A process that has exited keeps its times in /proc/PID/stat until its parent waits for it. They
//! are read in between, so they cover the process from its first instruction to its last, with all
//! threads, and the child processes that it waited for.

use crate::command::{Background, Scratch, program};
use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Units of the times in /proc (USER_HZ), per second.
const TICKS_PER_S: f64 = 100.0;
/// Mean total rounding error of a process's CPU time, in ticks: user and system time are each
/// rounded down, by half a tick on average.
const CUT_OFF: f64 = 1.0;
/// How long a program may run before it is killed.
const LIMIT: Duration = Duration::from_secs(20);
/// Interval at which a program's state is read.
const STEP: Duration = Duration::from_millis(5);

/// A program that has exited.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) stdout: String,
    /// CPU time of the process and the children that it waited for, in seconds.
    pub(super) cpu_s: f64,
}

/// Runs a program and reads its CPU time. It is an error if the program fails or takes too long.
pub(super) fn run(words: &[&str]) -> Result<Ran, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", words.join(" "));
    let (name, arguments) = words.split_first().ok_or("no program")?;
    let folder = Scratch::new("judge")?;
    let files = ["out", "err"].map(|end| folder.join(end));
    let [out, err] = files.each_ref().map(File::create);
    let mut command = program(name, arguments);
    command.stdout(out.map_err(|e| failed(&e))?).stderr(err.map_err(|e| failed(&e))?);
    let mut running = Background::start(command)?;
    let Some(ticks) = at_exit(running.id()) else {
        return Err(failed(&format!("no exit within {} s", LIMIT.as_secs())));
    };
    let status = running.wait().map_err(|error| failed(&error))?;
    let [stdout, stderr] = files.map(|file| std::fs::read_to_string(file).unwrap_or_default());
    match status.success() {
        true => Ok(Ran { stdout, cpu_s: (ticks as f64 + CUT_OFF) / TICKS_PER_S }),
        false => Err(failed(&stderr.lines().next().unwrap_or("it failed"))),
    }
}

/// Returns the CPU time of a process once it has exited, in ticks; `None` if it has not within the
/// time limit.
fn at_exit(pid: u32) -> Option<u64> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        match stat(pid) {
            Some(stat) if stat.has_exited => return Some(stat.ticks),
            _ => std::thread::sleep(STEP),
        }
    }
    None
}

/// What /proc/PID/stat says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    has_exited: bool,
    /// User and system time, including that of children that were waited for.
    ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(text: &str) -> Option<Stat> {
    // The name in brackets may itself contain brackets and spaces.
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
    Some(Stat { has_exited: *fields.first()? == "Z", ticks: times.sum::<Option<u64>>()? })
}

/// A server that runs in the background, ended on drop.
pub(super) struct Server(Background);

impl Server {
    /// Starts a server; `None` if it cannot be started.
    pub(super) fn start(name: &str, words: &[&str]) -> Option<Self> {
        let mut command = program(name, words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let running = Background::start(command).ok()?;
        std::thread::sleep(Duration::from_millis(300));
        Some(Self(running))
    }

    /// Returns the server's CPU time so far, in seconds.
    pub(super) fn cpu_s(&self) -> Result<f64, String> {
        let stat = stat(self.0.id()).ok_or("the server has ended")?;
        Ok(stat.ticks as f64 / TICKS_PER_S)
    }
}

/// CPU time of the machine since boot, in seconds, over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// Time in which the CPUs were not idle, including time stolen by the hypervisor.
    busy_s: f64,
    all_s: f64,
}

impl Machine {
    pub(super) fn now() -> Result<Self, String> {
        let text = std::fs::read_to_string("/proc/stat").map_err(|error| error.to_string())?;
        Self::parse(&text).ok_or_else(|| "cannot read /proc/stat".to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        let columns = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let ticks: Vec<u64> = columns.map_while(|column| column.parse().ok()).take(8).collect();
        let (all, idle) = (ticks.iter().sum::<u64>(), ticks.get(3)? + ticks.get(4)?);
        Some(Self { busy_s: (all - idle) as f64 / TICKS_PER_S, all_s: all as f64 / TICKS_PER_S })
    }

    /// Returns the fraction of the CPU time since `before` that was stolen, or used by programs
    /// other than the measured ones, which used `cpu_s` seconds.
    pub(super) fn others(self, before: Self, cpu_s: f64) -> f64 {
        let (busy, all) = (self.busy_s - before.busy_s, self.all_s - before.all_s);
        ((busy - cpu_s) / all.max(1.0 / TICKS_PER_S)).max(0.0)
    }
}

/// Returns the first two CPUs on which this process may run.
pub(super) fn two_cpus() -> Result<[u32; 2], String> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    first_two(&text).ok_or_else(|| "stream: the comparison needs two CPUs".to_owned())
}

/// Reads the mask of allowed CPUs, in hexadecimal groups of 32 bits.
fn first_two(status: &str) -> Option<[u32; 2]> {
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    let digits = mask.chars().rev().filter_map(|digit| digit.to_digit(16));
    let mut cpus = digits.zip((0..).step_by(4)).flat_map(|(digit, first)| {
        (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| first + bit)
    });
    Some([cpus.next()?, cpus.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_processes_include_their_children() {
        let text = "7 (a ) b) Z 1 7 7 0 -1 0 0 0 0 0 11 22 33 44 20 0 1 0 5 0 0";
        assert_eq!(parse(text), Some(Stat { has_exited: true, ticks: 110 }));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn an_exited_program_shows_its_cpu_time() {
        let ran = run(&["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo end"]);
        let ran = ran.expect("a shell");
        assert_eq!(ran.stdout, "end\n");
        assert!(ran.cpu_s > 0.02 && ran.cpu_s < 20.0, "{ran:?}");
        let error = run(&["sh", "-c", "echo no >&2; exit 3"]).expect_err("a failure");
        assert!(error.ends_with(": no"), "{error}");
    }

    #[test]
    fn others_are_what_is_left() {
        let at = |user: u64, idle: u64| {
            Machine::parse(&format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1\n")).expect("times")
        };
        let others = at(1300, 1700).others(at(1000, 1600), 2.8);
        assert!((others - 0.05).abs() < 1e-9, "{others}");
    }

    #[test]
    fn cpus_are_read_from_a_mask() {
        assert_eq!(first_two("Cpus_allowed:\t2,40000000\n"), Some([30, 33]));
        assert_eq!(first_two("Cpus_allowed:\tff\n"), Some([0, 1]));
        assert_eq!(first_two("Cpus_allowed:\t4\n"), None);
    }
}
