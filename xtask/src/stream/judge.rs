// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `linerate stream` with other programs that run with the same settings, on the same two
//! CPUs: the sender on the first, the receiver on the second.
//!
//! In each round, all programs run one after another, and the order rotates from round to round, so
//! that a change in machine load affects all of them alike. The ratio to `linerate stream` is the
//! median over rounds. A round in which other programs disturbed one of the visits is left out.

use super::process::{Machine, Server, run, two_cpus};
use linerate_record::stats::{CONFIDENCE, interval_name, median, paired_ratio};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Measurement time of each program, in seconds.
const SECONDS: f64 = 2.0;
/// Measurement time, in seconds, of the run whose CPU time is subtracted: what the program takes to
/// start, warm up and end. The shortest time that `--time` accepts.
const START_UP: f64 = 0.05;
/// Maximum fraction of the machine's CPU time that other programs and the hypervisor may take
/// during a visit. If they take more, the round is left out.
const OTHERS: f64 = 0.05;
const IPERF_PORT: &str = "5219";
const NETPERF_PORT: &str = "5218";

/// Measured points: socket buffer size (0: automatic) and message size, in bytes.
const POINTS: [(u32, u32); 3] = [(0, 131_072), (0, 8192), (65_536, 65_536)];

/// What one program measured in one visit to a point.
#[derive(Clone, Copy, Debug)]
struct Reading {
    gbps: f64,
    /// CPU time of both sides from /proc, in microseconds per KB received.
    proc_us_per_kb: f64,
    /// CPU time of both sides as the program itself reports it, in microseconds per KB received.
    own_us_per_kb: f64,
    /// CPU time from /proc during the visit, in seconds.
    cpu_s: f64,
}

/// A program, and its server if that is a process of its own.
struct Judge {
    name: &'static str,
    server: Option<Server>,
    read: fn(&Place, Option<&Server>) -> Result<Reading, String>,
}

/// Settings of a visit, and the CPUs on which it takes place.
struct Place<'a> {
    buffer: u32,
    message: u32,
    cpus: [u32; 2],
    linerate: &'a Path,
}

/// Compares, and returns the table.
pub(super) fn judge(rounds: u32, linerate: &Path) -> Result<String, String> {
    let cpus = two_cpus()?;
    let (mut judges, missing) = judges();
    let mut text = format!(
        "TCP over loopback, sender on CPU {}, receiver on CPU {}, {SECONDS} s per visit, {rounds} \
         rounds. The first two ratios are to `linerate stream`; each ratio is a median over the \
         rounds, with its {}. us/KB is the CPU time of the programs' processes in /proc per KB \
         (1024 bytes); own us/KB is what the programs report themselves, and the last column its \
         ratio to the time from /proc.\n\n| buffer | message | program | Gb/s | ratio | us/KB | \
         ratio | own us/KB | ratio to /proc |\n|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
        cpus[0],
        cpus[1],
        interval_name()
    );
    let mut left_out = Vec::new();
    for (buffer, message) in POINTS {
        let place = Place { buffer, message, cpus, linerate };
        let quiet = visit_all(rounds, &mut judges, &place)?;
        left_out.push((rounds as usize - quiet.len()).to_string());
        for (index, judge) in judges.iter().enumerate() {
            let of = |index: usize| quiet.iter().map(|round| round[index]).collect::<Vec<_>>();
            row(&mut text, &place, judge.name, &of(0), &of(index));
        }
    }
    let _ = writeln!(
        text,
        "\nRounds left out, because other programs or the hypervisor took more than {:.0} % of \
         the machine's CPU time during a visit: {} (of {rounds} each, for the points in table \
         order).{missing}",
        100.0 * OTHERS,
        left_out.join(", "),
    );
    Ok(text)
}

/// Returns the programs that are installed, and a sentence about each that is not.
fn judges() -> (Vec<Judge>, String) {
    let mut missing = String::new();
    let mut judges = vec![Judge { name: "linerate stream", server: None, read: of_linerate }];
    match Server::start("iperf3", &["-s", "-p", IPERF_PORT]) {
        Some(server) => {
            judges.push(Judge { name: "iperf3", server: Some(server), read: of_iperf });
        }
        None => missing += " iperf3 is not installed.",
    }
    match Server::start("netserver", &["-D", "-f", "-p", NETPERF_PORT]) {
        Some(server) => {
            judges.push(Judge { name: "netperf", server: Some(server), read: of_netperf });
        }
        None => missing += " netperf is not installed (Debian has it in non-free).",
    }
    (judges, missing)
}

/// Runs all programs in all rounds. Returns the readings of the undisturbed rounds, by program.
fn visit_all(
    rounds: u32,
    judges: &mut [Judge],
    place: &Place,
) -> Result<Vec<Vec<Reading>>, String> {
    let mut quiet = Vec::new();
    for round in 0..rounds as usize {
        let mut readings: Vec<Option<Reading>> = judges.iter().map(|_| None).collect();
        for step in 0..judges.len() {
            let index = (round + step) % judges.len();
            let before = Machine::now()?;
            let reading = (judges[index].read)(place, judges[index].server.as_ref())?;
            let others = Machine::now()?.others(before, reading.cpu_s);
            readings[index] = (others <= OTHERS).then_some(reading);
        }
        quiet.extend(readings.into_iter().collect::<Option<Vec<Reading>>>());
    }
    Ok(quiet)
}

fn row(text: &mut String, place: &Place, name: &str, base: &[Reading], mine: &[Reading]) {
    let of = |all: &[Reading], of: fn(&Reading) -> f64| all.iter().map(of).collect::<Vec<f64>>();
    let value = |figure: fn(&Reading) -> f64| {
        let value = median(&of(mine, figure)).filter(|value| value.is_finite());
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
    };
    let rate: fn(&Reading) -> f64 = |reading| reading.gbps;
    let demand: fn(&Reading) -> f64 = |reading| reading.proc_us_per_kb;
    let own: fn(&Reading) -> f64 = |reading| reading.own_us_per_kb;
    let buffer = if place.buffer == 0 { "auto".to_owned() } else { place.buffer.to_string() };
    let cells = [
        value(rate),
        ratio(&of(base, rate), &of(mine, rate)),
        value(demand),
        ratio(&of(base, demand), &of(mine, demand)),
        value(own),
        ratio(&of(mine, demand), &of(mine, own)),
    ];
    let _ = writeln!(text, "| {buffer} | {} | {name} | {} |", place.message, cells.join(" | "));
}

/// Formats the median ratio over rounds, with its interval if there are enough rounds.
fn ratio(base: &[f64], mine: &[f64]) -> String {
    let ratio = paired_ratio(base, mine, CONFIDENCE);
    match (ratio.value.is_finite(), ratio.low.is_finite() && ratio.high.is_finite()) {
        (false, _) => "-".to_owned(),
        (true, false) => format!("{:.2}", ratio.value),
        (true, true) => format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high),
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("the output is not JSON: {error}"))
}

/// KB (1024 bytes) in `seconds` at a rate in Gb/s.
fn kb(gbps: f64, seconds: f64) -> f64 {
    gbps * 1e9 / 8.0 / 1024.0 * seconds
}

/// Runs `linerate stream` twice, for a long and a very short time. The difference between the two
/// CPU times is the CPU time of the stream itself.
fn of_linerate(place: &Place, _: Option<&Server>) -> Result<Reading, String> {
    let (long, long_s) = stream(place, SECONDS)?;
    let (short, short_s) = stream(place, START_UP)?;
    let gbps = number(&long["gbps"]);
    let moved = kb(gbps, SECONDS) - kb(number(&short["gbps"]), START_UP);
    Ok(Reading {
        gbps,
        proc_us_per_kb: (long_s - short_s) * 1e6 / moved,
        own_us_per_kb: number(&long["cpu_us_per_kb"]),
        cpu_s: long_s + short_s,
    })
}

/// Returns the summary of a run, and its CPU time in seconds.
fn stream(place: &Place, seconds: f64) -> Result<(Value, f64), String> {
    let linerate = place.linerate.to_str().ok_or("the path of linerate is not UTF-8")?;
    let buffer = if place.buffer == 0 { "auto".to_owned() } else { place.buffer.to_string() };
    let (message, time) = (place.message.to_string(), format!("{:.0}ms", seconds * 1e3));
    let cpus = format!("{},{}", place.cpus[0], place.cpus[1]);
    let words = [linerate, "stream", "--json", "--quiet", "--rounds", "1", "--cpus", &cpus];
    let settings = ["--buffer", &buffer, "--message", &message, "--time", &time];
    let ran = run(&[&words[..], &settings].concat())?;
    Ok((json(&ran.stdout)?["summary"].clone(), ran.cpu_s))
}

/// Runs a client. Returns its output, and the CPU time of client and server meanwhile, in seconds.
fn with_server(words: &[&str], server: Option<&Server>) -> Result<(String, f64), String> {
    let server = server.ok_or("no server")?;
    let before_s = server.cpu_s()?;
    let ran = run(words)?;
    Ok((ran.stdout, ran.cpu_s + server.cpu_s()? - before_s))
}

fn of_iperf(place: &Place, server: Option<&Server>) -> Result<Reading, String> {
    let (seconds, message) = (format!("{SECONDS:.0}"), place.message.to_string());
    let (buffer, cpus) = (place.buffer.to_string(), format!("{},{}", place.cpus[0], place.cpus[1]));
    let mut words = vec!["iperf3", "-c", "127.0.0.1", "-p", IPERF_PORT, "-J", "-t", &seconds];
    words.extend(["-A", &cpus, "-l", &message]);
    if place.buffer != 0 {
        words.extend(["-w", &buffer]);
    }
    let (text, cpu_s) = with_server(&words, server)?;
    let end = json(&text)?["end"].clone();
    let received = &end["sum_received"];
    let (gbps, bytes) = (number(&received["bits_per_second"]) / 1e9, number(&received["bytes"]));
    let cpu = &end["cpu_utilization_percent"];
    let cpus = (number(&cpu["host_total"]) + number(&cpu["remote_total"])) / 100.0;
    Ok(Reading {
        gbps,
        proc_us_per_kb: cpu_s * 1e6 / (bytes / 1024.0),
        own_us_per_kb: cpus * 1e6 / kb(gbps, 1.0),
        cpu_s,
    })
}

/// Runs netperf, whose own figure includes the CPU time of all programs on the machine.
fn of_netperf(place: &Place, server: Option<&Server>) -> Result<Reading, String> {
    let (seconds, message) = (format!("{SECONDS:.0}"), place.message.to_string());
    let (buffer, cpus) = (place.buffer.to_string(), format!("{},{}", place.cpus[0], place.cpus[1]));
    let mut words = vec!["netperf", "-H", "127.0.0.1", "-p", NETPERF_PORT, "-P", "0", "-c", "-C"];
    words.extend(["-T", &cpus, "-l", &seconds, "--", "-m", &message, "-M", &message, "-f", "m"]);
    words.extend(["-o", "THROUGHPUT,ELAPSED_TIME,LOCAL_SD,REMOTE_SD"]);
    if place.buffer != 0 {
        words.extend(["-s", &buffer, "-S", &buffer]);
    }
    let (text, cpu_s) = with_server(&words, server)?;
    let [mbps, elapsed_s, near, far] = four(&text).ok_or(format!("netperf printed `{text}`"))?;
    let gbps = mbps / 1e3;
    Ok(Reading {
        gbps,
        proc_us_per_kb: cpu_s * 1e6 / kb(gbps, elapsed_s),
        own_us_per_kb: near + far,
        cpu_s,
    })
}

/// Returns the first four numbers in a list.
fn four(text: &str) -> Option<[f64; 4]> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace());
    let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.get(..4)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_without_enough_rounds_have_no_interval() {
        assert_eq!(ratio(&[], &[]), "-");
        assert_eq!(ratio(&[1.0, 1.0], &[2.0, 2.0]), "2.00");
        assert_eq!(ratio(&[1.0; 8], &[2.0; 8]), "2.00 (2.00 to 2.00)");
    }

    #[test]
    fn figures_of_netperf_are_a_list() {
        assert_eq!(four("9415.2,2.00,0.31,0.42\n"), Some([9415.2, 2.0, 0.31, 0.42]));
        assert_eq!(four("9415.2\n"), None);
    }

    #[test]
    fn kb_have_1024_bytes() {
        assert!((kb(8.192, 0.5) - 500_000.0).abs() < 1e-6);
    }
}
