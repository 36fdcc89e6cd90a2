// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc/{stat,softirqs,interrupts} and /proc/net/softnet_stat.

use super::number;
use std::collections::BTreeMap;

/// CPU time by state since boot, in USER_HZ ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode, including `nice` and guests.
    pub user: u64,
    /// Kernel, without interrupts.
    pub system: u64,
    /// Idle, including I/O wait.
    pub idle: u64,
    /// Interrupts and softirqs.
    pub interrupts: u64,
    /// Steal time: the virtual CPU was ready to run, but the hypervisor ran something else.
    pub stolen: u64,
}

impl CpuTicks {
    /// Sum of all states.
    pub fn total(&self) -> u64 {
        [self.user, self.system, self.idle, self.interrupts, self.stolen].iter().sum()
    }

    /// Returns the increase since `before`. A counter that went backwards, as `idle` may, counts as
    /// 0.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }
}

/// Parses the lines `cpu0`, `cpu1`, ... of /proc/stat, which cover online CPUs.
pub(crate) fn parse_stat(text: &str) -> BTreeMap<u32, CpuTicks> {
    let line = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let cpu = columns.next()?.strip_prefix("cpu")?.parse().ok()?;
        let mut next = || number(&mut columns);
        let [user, nice, system, idle] = [next()?, next()?, next()?, next()?];
        let [disk, hard, soft, stolen] = [(); 4].map(|()| next().unwrap_or(0));
        let ticks = CpuTicks {
            user: user + nice,
            system,
            idle: idle + disk,
            interrupts: hard + soft,
            stolen,
        };
        Some((cpu, ticks))
    };
    text.lines().take_while(|line| line.starts_with("cpu")).filter_map(line).collect()
}

/// A line of softnet_stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Softnet {
    pub(crate) processed: u64,
    pub(crate) dropped: u64,
    pub(crate) squeezed: u64,
}

/// Parses softnet_stat by CPU. Since Linux 5.10, column 13 is the CPU; before that, lines are for
/// the CPUs in `online`, in order. Counters have 32 bits.
pub(crate) fn parse_softnet(text: &str, online: &[u32]) -> BTreeMap<u32, Softnet> {
    let line = |(index, line): (usize, &str)| {
        let columns: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|column| u64::from_str_radix(column, 16).ok())
            .collect();
        let cpu = match columns.get(12) {
            Some(cpu) => u32::try_from(*cpu).ok()?,
            None => *online.get(index)?,
        };
        let column = |index: usize| columns.get(index).copied();
        Some((cpu, Softnet { processed: column(0)?, dropped: column(1)?, squeezed: column(2)? }))
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// Returns the CPUs from the first line of /proc/softirqs or /proc/interrupts.
fn header(text: &str) -> Vec<u32> {
    let line = text.lines().next().unwrap_or_default();
    let cpu = |column: &str| column.strip_prefix("CPU")?.parse().ok();
    line.split_ascii_whitespace().filter_map(cpu).collect()
}

/// Parses counts of the softirq `name` by CPU, from /proc/softirqs.
pub(crate) fn parse_softirqs(text: &str, name: &str) -> BTreeMap<u32, u64> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let counts = row.unwrap_or_default().split_ascii_whitespace().map_while(|n| n.parse().ok());
    header(text).into_iter().zip(counts).collect()
}

/// Parses interrupt counts by CPU and source, from /proc/interrupts, without those that are 0: a
/// machine with many CPUs has hundreds of thousands of them. The source is the device name
/// at the end of the row or, for per-CPU interrupts, the abbreviation at its start. Sources with
/// the same name are summed.
pub(crate) fn parse_interrupts(text: &str) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let cpus = header(text);
    let mut counts: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let columns: Vec<&str> = rest.split_ascii_whitespace().collect();
        let numbers: Vec<u64> =
            columns.iter().take(cpus.len()).map_while(|n| n.parse().ok()).collect();
        // ERR and MIS have a single number for all CPUs.
        if numbers.len() < cpus.len() {
            continue;
        }
        let is_device = label.trim().bytes().all(|byte| byte.is_ascii_digit());
        let source = match columns.get(cpus.len()..).and_then(<[&str]>::last) {
            Some(name) if is_device => name,
            _ => label.trim(),
        };
        for (cpu, number) in cpus.iter().zip(numbers).filter(|(_, number)| *number > 0) {
            *counts.entry(*cpu).or_default().entry(source.to_owned()).or_default() += number;
        }
    }
    counts
}
