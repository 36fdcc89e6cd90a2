// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc/{softirqs,interrupts} and /proc/net/softnet_stat.

use std::collections::BTreeMap;

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
