// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses polling programs' own measurements from their output.

use serde_json::Value;

/// A program's own measurements, with which the profile is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Truth {
    /// CPU time per packet in ns. From lines of `poll`, it excludes the cost of a call that finds
    /// no packet; from a record of `linerate run` or testpmd's cycles, it covers whole iterations
    /// with packets.
    pub(super) cost_ns: f64,
    /// Busy fraction over the window.
    pub(super) busy: f64,
    /// Busy fraction in the busiest second, if known.
    pub(super) most_busy: Option<f64>,
}

/// A point in time.
pub(super) struct Moment {
    /// Monotonic clock, in ns.
    ns: u64,
    /// Packets received by `v2` in the poller's network namespace; `None` if the poller has ended.
    packets: Option<f64>,
    /// CPU time of the poller's busiest thread, in ns; `None` if the poller has ended.
    cpu_ns: Option<f64>,
}

impl Moment {
    pub(super) fn of(pid: u32) -> Self {
        let interfaces = std::fs::read_to_string(format!("/proc/{pid}/net/dev"));
        let packets = interfaces.unwrap_or_default().lines().find_map(|line| {
            line.trim_start().strip_prefix("v2:")?.split_whitespace().nth(1)?.parse().ok()
        });
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let cpu_ns = threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        });
        Self { ns: monotonic_ns(), packets, cpu_ns: cpu_ns.max_by(f64::total_cmp) }
    }
}

/// Returns monotonic time in ns, as printed by `poll`.
fn monotonic_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    (seconds.unwrap_or(0.0) * 1e9) as u64
}

/// Returns what the program measured between two points in time; `None` if it printed no
/// measurements of this period.
pub(super) fn measured(text: &str, began: &Moment, ended: &Moment) -> Option<Truth> {
    match serde_json::from_str(text) {
        Ok(record) => truth_of_record(&record, began, ended),
        Err(_) => {
            truth_of_lines(text, began.ns, ended.ns).or_else(|| truth_of_cycles(text, began, ended))
        }
    }
}

/// Returns the cost per packet that testpmd prints at its end, from the cycles of bursts with
/// packets over its whole run, and the busy fraction between two points in time at that cost.
fn truth_of_cycles(text: &str, began: &Moment, ended: &Moment) -> Option<Truth> {
    let number_after = |words: &str| {
        let number = text.rsplit_once(words)?.1.split([' ', '(']).next()?;
        number.parse::<f64>().ok()
    };
    let cost_ns = 1e3 * number_after("CPU cycles/packet=")? / number_after(") at ")?;
    truth_at(cost_ns, began, ended)
}

/// Returns the busy fraction between two points in time at this cost per packet.
fn truth_at(cost_ns: f64, began: &Moment, ended: &Moment) -> Option<Truth> {
    let of = |part: fn(&Moment) -> Option<f64>| Some(part(ended)? - part(began)?);
    let busy = cost_ns * of(|at| at.packets)? / of(|at| at.cpu_ns)?;
    Some(Truth { cost_ns, busy, most_busy: None })
}

/// Returns the cost per packet that the worker of a `linerate run` measured itself, over its whole
/// run, and the busy fraction between two points in time at that cost.
fn truth_of_record(record: &Value, began: &Moment, ended: &Moment) -> Option<Truth> {
    let body = record.get("body").unwrap_or(record);
    let ticks = body["workers"][0]["ticks_per_packet"]["value"].as_f64()?;
    truth_at(1e9 * ticks / body["ticks_per_s"].as_f64()?, began, ended)
}

/// Number of lines that `poll` prints per second.
const LINES_PER_S: usize = 20;

/// Returns what the program measured between two points in time, from the output of `poll`.
fn truth_of_lines(text: &str, began_ns: u64, ended_ns: u64) -> Option<Truth> {
    let line = |line: &str| {
        let numbers: Option<Vec<f64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        numbers?.first_chunk::<8>().copied()
    };
    let is_within = |line: &[f64; 8]| (began_ns as f64..ended_ns as f64).contains(&line[0]);
    let lines: Vec<[f64; 8]> = text.lines().filter_map(line).filter(is_within).collect();
    let between =
        |[from, to]: [&[f64; 8]; 2]| -> [f64; 8] { std::array::from_fn(|at| to[at] - from[at]) };
    let [_, _, _, work_ns, measured, empty_ns, empty, found] =
        between([lines.first()?, lines.last()?]);
    let of_empty = if empty > 0.0 { empty_ns / empty } else { 0.0 };
    let cost_ns = (work_ns - found * of_empty) / measured;
    let busy = |ends: [&[f64; 8]; 2]| {
        let [_, packets, cpu_ns, ..] = between(ends);
        cost_ns * packets / cpu_ns
    };
    let seconds = lines
        .windows(LINES_PER_S + 1)
        .filter_map(|second| Some(busy([second.first()?, second.last()?])));
    (measured > 0.0).then(|| Truth {
        cost_ns,
        busy: busy([&lines[0], &lines[lines.len() - 1]]),
        most_busy: seconds.max_by(f64::total_cmp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_that_between_two_moments() {
        let text = "100 0 50 0 0 0 0 0\n200 10 150 300 4 50 5 4\n400 40 350 1620 16 90 9 16\n\
                    900 80 800 9999 30 90 9 30\nx\n";
        let found = Truth { cost_ns: 100.0, busy: 15.0, most_busy: None };
        assert_eq!(truth_of_lines(text, 150, 500), Some(found));
        assert_eq!(truth_of_lines(text, 150, 210), None);
        assert_eq!(truth_of_lines("", 0, 1), None);
    }

    #[test]
    fn a_record_of_the_poller_is_a_truth() {
        let record = serde_json::json!({
            "ticks_per_s": 2e9,
            "workers": [{"ticks_per_packet": {"value": 500.0}}],
        });
        let at = |packets, cpu_ns| Moment { ns: 0, packets: Some(packets), cpu_ns: Some(cpu_ns) };
        let found = truth_of_record(&record, &at(10.0, 0.0), &at(110.0, 50_000.0));
        assert_eq!(found, Some(Truth { cost_ns: 250.0, busy: 0.5, most_busy: None }));
        let text = "x\n  CPU cycles/packet=500.00 (total cycles=1 / total macswap packets=2) at \
                    2000 MHz Clock\n";
        assert_eq!(truth_of_cycles(text, &at(10.0, 0.0), &at(110.0, 50_000.0)), found);
        assert_eq!(truth_of_cycles("", &at(10.0, 0.0), &at(110.0, 50_000.0)), None);
        let gone = Moment { ns: 0, packets: None, cpu_ns: None };
        assert_eq!(truth_of_record(&record, &at(10.0, 0.0), &gone), None);
    }
}
