// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other activity on the CPUs while a seed runs: other programs, and steal time, which the
//! hypervisor gave to other guests. Either may limit the program in addition to the planted cause.

use std::time::Duration;

/// Times of a CPU since boot, in units of USER_HZ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    idle: f64,
    stolen: f64,
    all: f64,
}

/// Reads the times of each CPU (/proc/stat).
pub(super) fn times() -> Vec<Times> {
    parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse(stat: &str) -> Vec<Times> {
    /// Position of steal time in a line, after user, nice, system, idle, iowait, irq and softirq.
    const STEAL: usize = 7;
    let of_cpu = |line: &str| {
        line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
        let words = line.split_whitespace().skip(1).take(STEAL + 1);
        let times: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        let [.., idle, wait, _, _, stolen] = *times.as_slice() else { return None };
        Some(Times { idle: idle + wait, stolen, all: times.iter().sum() })
    };
    stat.lines().filter_map(of_cpu).collect()
}

/// Returns, for each CPU, the time that `of` selects as a fraction of all time between two
/// readings; NaN if no time has passed.
fn shares(before: &[Times], after: &[Times], of: fn(Times) -> f64) -> impl Iterator<Item = f64> {
    let pairs = before.iter().zip(after);
    pairs.map(move |(before, after)| {
        let between = Times {
            idle: after.idle - before.idle,
            stolen: after.stolen - before.stolen,
            all: after.all - before.all,
        };
        if between.all > 0.0 { of(between) / between.all } else { f64::NAN }
    })
}

/// Returns the largest share of a CPU's time that was stolen between two readings; `None` if no CPU
/// has times in both.
pub(super) fn stolen(before: &[Times], after: &[Times]) -> Option<f64> {
    shares(before, after, |times| times.stolen).filter(|share| !share.is_nan()).reduce(f64::max)
}

/// Returns the CPUs that were busy between two readings, and for what fraction of the time.
fn busy(before: &[Times], after: &[Times]) -> Vec<(usize, f64)> {
    /// Minimum fraction of a CPU's time in use for the CPU to count as busy.
    const QUIET: f64 = 0.15;
    let shares = shares(before, after, |times| times.all - times.idle).enumerate();
    shares.filter(|(_, share)| *share >= QUIET).collect()
}

/// Prints a warning if CPUs are busy before the first seed runs.
pub(super) fn warn_if_busy() {
    let before = times();
    std::thread::sleep(Duration::from_secs(1));
    for (cpu, share) in busy(&before, &times()) {
        eprintln!(
            "warning: CPU {cpu} is {:.0} % busy with other work, which may change the results (ps \
             -eo pcpu,pid,comm --sort -pcpu lists it)",
            100.0 * share
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{busy, parse, stolen};

    #[test]
    fn the_cpu_with_the_most_steal_time_counts() {
        let before = parse("cpu0 90 0 0 900 0 0 0 10\ncpu1 100 0 0 900 0 0 0 0\n");
        let after = parse("cpu0 90 0 0 990 0 0 0 20\ncpu1 100 0 0 970 0 0 0 30\n");
        assert_eq!(stolen(&before, &after), Some(0.3));
        assert_eq!(stolen(&before, &before), None);
        assert_eq!(stolen(&[], &[]), None);
    }

    #[test]
    fn a_busy_cpu_is_found() {
        let before = parse("cpu  2 0 0 2\ncpu0 100 0 0 900 0 0 0 0\ncpu1 100 0 0 800 100 0 0 0\n");
        let after = parse("cpu  2 0 0 2\ncpu0 105 0 0 990 5 0 0 0\ncpu1 160 0 0 840 100 0 0 0\n");
        assert_eq!(busy(&before, &after), [(1, 0.6)]);
        assert!(busy(&before, &before).is_empty());
    }
}
