// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steal time: CPU time that the hypervisor gave to others. A run of a seed during which it took
//! some has a second cause.

/// Returns the steal time and total time of each CPU since boot, in units of USER_HZ (/proc/stat).
pub(super) fn cpu_times() -> Vec<[f64; 2]> {
    /// Position of steal time in a line, after user, nice, system, idle, iowait, irq and softirq.
    const STEAL: usize = 7;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_cpu = |line: &str| {
        line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
        let words = line.split_whitespace().skip(1).take(STEAL + 1);
        let times: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        Some([*times.get(STEAL)?, times.iter().sum()])
    };
    text.lines().filter_map(of_cpu).collect()
}

/// Returns the largest share of a CPU's time that was stolen between two readings.
pub(super) fn share(before: &[[f64; 2]], after: &[[f64; 2]]) -> Option<f64> {
    let of_cpu = |(before, after): (&[f64; 2], &[f64; 2])| {
        let [stolen, all] = [0, 1].map(|at| after[at] - before[at]);
        (all > 0.0).then(|| stolen / all)
    };
    before.iter().zip(after).filter_map(of_cpu).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_cpu_with_the_most_steal_time_counts() {
        let before = [[10.0, 1000.0], [0.0, 1000.0]];
        assert_eq!(share(&before, &[[20.0, 1100.0], [30.0, 1100.0]]), Some(0.3));
        assert_eq!(share(&before, &before), None);
        assert_eq!(share(&[], &[]), None);
    }
}
