// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `linerate stream` with other programs that run with the same settings.
//!
//! In each round, all programs run one after another, and the order rotates from round to round, so
//! that a change in machine load affects all of them alike. The ratio to `linerate stream` is the
//! median over rounds.

use crate::command::program;
use linerate_record::stats::{CONFIDENCE, interval_name, median, paired_ratio};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Measurement time of each program, in seconds.
const SECONDS: u32 = 3;
/// Time limit for a program, in seconds; it is terminated if it takes longer.
const LIMIT: &str = "20";
const IPERF_PORT: &str = "5219";
const NETPERF_PORT: &str = "5218";

/// Measured points: socket buffer size (0: automatic) and message size, in bytes.
const POINTS: [(u32, u32); 4] = [(0, 131_072), (0, 8192), (65_536, 65_536), (16_384, 16_384)];

/// What a program reports at a point: throughput in Gb/s, and the CPU time of both sides in
/// microseconds per KB.
#[derive(Clone, Copy, Debug)]
struct Reading {
    gbps: f64,
    us_per_kb: Option<f64>,
}

/// A program, and a function that runs it at a point.
struct Judge {
    name: &'static str,
    read: fn(u32, u32, &Path) -> Result<Reading, String>,
}

/// The server side of a program, killed on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The server may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(name: &str, words: &[&str]) -> Option<Server> {
    let mut command = program(name, words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().ok()?;
    std::thread::sleep(Duration::from_millis(300));
    Some(Server(child))
}

/// Compares, and returns the table.
pub(super) fn judge(rounds: u32, linerate: &Path) -> Result<String, String> {
    let mut judges = vec![
        Judge { name: "linerate stream", read: of_linerate },
        Judge { name: "linerate stream, CPU time from /proc", read: of_proc },
    ];
    let mut missing = String::new();
    let iperf = server("iperf3", &["-s", "-p", IPERF_PORT]);
    match iperf {
        Some(_) => judges.push(Judge { name: "iperf3", read: of_iperf }),
        None => missing += "iperf3 is not installed. ",
    }
    let netserver = server("netserver", &["-D", "-p", NETPERF_PORT]);
    match netserver {
        Some(_) => judges.push(Judge { name: "netperf", read: of_netperf }),
        None => missing += "netperf is not installed (Debian has it in non-free). ",
    }
    let mut text = format!(
        "TCP over loopback, {SECONDS} s per visit, {rounds} rounds; ratio to `linerate stream` \
         with its {}.\n\n| buffer | message | program | Gb/s | ratio | us/KB | ratio |\n\
         |---:|---:|---|---:|---:|---:|---:|\n",
        interval_name()
    );
    for (buffer, message) in POINTS {
        let mut readings: Vec<Vec<Reading>> = judges.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds as usize {
            for step in 0..judges.len() {
                let index = (round + step) % judges.len();
                readings[index].push((judges[index].read)(buffer, message, linerate)?);
            }
        }
        for (judge, mine) in judges.iter().zip(&readings) {
            row(&mut text, (buffer, message), judge.name, &readings[0], mine);
        }
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "\n{}", missing.trim());
    }
    Ok(text)
}

fn row(text: &mut String, point: (u32, u32), name: &str, base: &[Reading], mine: &[Reading]) {
    let of = |all: &[Reading], of: fn(&Reading) -> f64| all.iter().map(of).collect::<Vec<f64>>();
    let rate: fn(&Reading) -> f64 = |reading| reading.gbps;
    let demand: fn(&Reading) -> f64 = |reading| reading.us_per_kb.unwrap_or(f64::NAN);
    let cells = |figure: fn(&Reading) -> f64| {
        let (base, mine) = (of(base, figure), of(mine, figure));
        let Some(value) = median(&mine).filter(|value| value.is_finite()) else {
            return ("-".to_owned(), "-".to_owned());
        };
        let ratio = paired_ratio(&base, &mine, CONFIDENCE);
        let shown = match ratio.low.is_finite() && ratio.high.is_finite() {
            true => format!("{:.2} ({:.2} to {:.2})", ratio.value, ratio.low, ratio.high),
            false => format!("{:.2}", ratio.value),
        };
        (format!("{value:.3}"), shown)
    };
    let ((gbps, speed), (us, cost)) = (cells(rate), cells(demand));
    let (buffer, message) = point;
    let buffer = if buffer == 0 { "auto".to_owned() } else { buffer.to_string() };
    let _ = writeln!(text, "| {buffer} | {message} | {name} | {gbps} | {speed} | {us} | {cost} |");
}

/// Runs a program with a time limit.
fn limited(words: &[&str]) -> Result<Output, String> {
    let mut command: Command = program("timeout", &[LIMIT]);
    command.args(words);
    command.output().map_err(|error| error.to_string())
}

fn json(words: &[&str]) -> Result<Value, String> {
    let output = limited(words)?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}: {error}; {said}", words.join(" "))
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn arguments(buffer: u32, message: u32, seconds: u32) -> Vec<String> {
    let buffer = if buffer == 0 { "auto".to_owned() } else { buffer.to_string() };
    let words = ["stream", "--json", "--quiet", "--rounds", "1", "--buffer"];
    let time = format!("{seconds}s");
    let mut all: Vec<String> = words.map(str::to_owned).to_vec();
    all.extend([buffer, "--message".to_owned(), message.to_string(), "--time".to_owned(), time]);
    all
}

fn of_linerate(buffer: u32, message: u32, linerate: &Path) -> Result<Reading, String> {
    let arguments = arguments(buffer, message, SECONDS);
    let mut words = vec![linerate.to_str().unwrap_or_default()];
    words.extend(arguments.iter().map(String::as_str));
    let summary = json(&words)?["summary"].clone();
    Ok(Reading {
        gbps: number(&summary["gbps"]),
        us_per_kb: Some(number(&summary["cpu_us_per_kb"])),
    })
}

/// Measures the CPU time per KB of both processes, which their parent reads with times(2) once they
/// have exited. Takes the difference between a long and a short run, which cancels the start-up
/// cost.
fn of_proc(buffer: u32, message: u32, linerate: &Path) -> Result<Reading, String> {
    let (cpu_s, kb, gbps) = timed(buffer, message, linerate, SECONDS)?;
    let (short_cpu_s, short_kb, _) = timed(buffer, message, linerate, 1)?;
    let us_per_kb = (cpu_s - short_cpu_s) * 1e6 / (kb - short_kb);
    Ok(Reading { gbps, us_per_kb: Some(us_per_kb).filter(|us| *us > 0.0) })
}

/// Returns the CPU time of a run in seconds, the KB sent in the measurement time, and the rate in
/// Gb/s.
fn timed(
    buffer: u32,
    message: u32,
    linerate: &Path,
    seconds: u32,
) -> Result<(f64, f64, f64), String> {
    let arguments = arguments(buffer, message, seconds).join(" ");
    let line = format!("{} {arguments} > \"$T.json\"; times > \"$T\"", linerate.display());
    let file = std::env::temp_dir().join(format!("linerate-judge-{}", std::process::id()));
    let mut command = program("timeout", &[LIMIT, "sh", "-c", &line]);
    command.env("T", &file);
    command.output().map_err(|error| error.to_string())?;
    let [record, times] = [file.with_extension("json"), file].map(|file| {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        // A temporary file, whose absence is no loss.
        let _ = std::fs::remove_file(&file);
        text
    });
    let record: Value = serde_json::from_str(&record?).map_err(|error| error.to_string())?;
    let gbps = number(&record["summary"]["gbps"]);
    let children = times?.lines().nth(1).unwrap_or_default().to_owned();
    let cpu_s: f64 = children.split_whitespace().filter_map(minutes).sum();
    Ok((cpu_s, gbps * 1e9 / 8.0 * f64::from(seconds) / 1024.0, gbps))
}

/// Parses `0m1.250000s`, the format of the shell's `times`.
fn minutes(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
}

fn of_iperf(buffer: u32, message: u32, _: &Path) -> Result<Reading, String> {
    let (seconds, message, buffer) = (SECONDS.to_string(), message.to_string(), buffer.to_string());
    let mut words = vec!["iperf3", "-c", "127.0.0.1", "-p", IPERF_PORT, "-J", "-t", &seconds];
    words.extend(["-l", &message]);
    if buffer != "0" {
        words.extend(["-w", &buffer]);
    }
    let end = json(&words)?["end"].clone();
    let bits = number(&end["sum_received"]["bits_per_second"]);
    let cpu = &end["cpu_utilization_percent"];
    let cpus = (number(&cpu["host_total"]) + number(&cpu["remote_total"])) / 100.0;
    Ok(Reading { gbps: bits / 1e9, us_per_kb: Some(cpus * 1e6 / (bits / 8.0 / 1024.0)) })
}

fn of_netperf(buffer: u32, message: u32, _: &Path) -> Result<Reading, String> {
    let (seconds, message, buffer) = (SECONDS.to_string(), message.to_string(), buffer.to_string());
    let mut words = vec!["netperf", "-H", "127.0.0.1", "-p", NETPERF_PORT, "-P", "0", "-c", "-C"];
    words.extend(["-l", &seconds, "--", "-m", &message, "-M", &message, "-f", "m"]);
    words.extend(["-o", "THROUGHPUT,LOCAL_SD,REMOTE_SD"]);
    if buffer != "0" {
        words.extend(["-s", &buffer, "-S", &buffer]);
    }
    let output = limited(&words)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [mbps, near, far, ..] => Ok(Reading { gbps: mbps / 1e3, us_per_kb: Some(near + far) }),
        _ => Err(format!("netperf said `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_shell_are_seconds() {
        assert_eq!(minutes("1m2.5s"), Some(62.5));
        assert_eq!(minutes("2.5"), None);
    }
}
