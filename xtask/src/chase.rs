// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask chase`: compares the latencies of `linerate memory` with those of two other pointer
//! chasers, lmbench's lat_mem_rd and multichase, on an idle and on a busy machine.
//!
//! The programs take turns, in random order in each round; rounds without and with a busy process
//! on each CPU alternate. All use base pages. `linerate memory` in random order is comparable with
//! lat_mem_rd, which leaves the page at each load; in page-local order, with multichase, which
//! stays within 256 KiB as long as it can.

use crate::command::{Background, output, program, root};
use linerate_record::random::Random;
use linerate_record::shell;
use linerate_record::stats::median;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Options of `cargo xtask chase`.
pub(crate) struct Choice {
    rounds: u32,
    lat_mem_rd: PathBuf,
    multichase: PathBuf,
    linerate: PathBuf,
}

/// Chain sizes to compare, in KiB: one that fits into the L1 data cache of most machines, two in
/// larger caches, and one in memory.
const SIZES_KIB: [u32; 4] = [16, 512, 4096, 65536];
/// Maximum relative difference of the size of a measured chain from the requested one.
const NEAR: f64 = 0.15;

/// What measures a latency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Tool {
    Random,
    LatMemRd,
    PageLocal,
    Multichase,
}

const TOOLS: [(Tool, &str); 4] = [
    (Tool::Random, "linerate memory, random order"),
    (Tool::LatMemRd, "lat_mem_rd -t"),
    (Tool::PageLocal, "linerate memory, page-local order"),
    (Tool::Multichase, "multichase"),
];

/// A latency in ns of a chain of one of [`SIZES_KIB`].
struct Sample {
    tool: Tool,
    size_kib: u32,
    is_busy: bool,
    ns: f64,
}

/// Parses the arguments of `chase`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let (mut rounds, mut files) = (5, [const { None }; 2]);
    let mut linerate = root().join("target/release/linerate");
    for pair in words.chunks(2) {
        match pair {
            ["--rounds", number] => {
                let number = number.parse().ok().filter(|rounds| (1..=50).contains(rounds));
                rounds = number.ok_or("chase: --rounds must be 1 to 50")?;
            }
            ["--lat-mem-rd", file] => files[0] = Some(PathBuf::from(file)),
            ["--multichase", file] => files[1] = Some(PathBuf::from(file)),
            ["--linerate", file] => linerate = file.into(),
            other => return Err(format!("chase: unknown option `{}`", other.join(" "))),
        }
    }
    let [Some(lat_mem_rd), Some(multichase)] = files else {
        return Err("chase: name both programs: --lat-mem-rd FILE --multichase FILE".to_owned());
    };
    Ok(Choice { rounds, lat_mem_rd, multichase, linerate })
}

/// Measures, and prints the table.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let pages = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if pages.is_ok_and(|pages| pages.contains("[always]")) {
        return Err(
            "chase: the other programs would get huge pages: the system gives them to all \
                    programs (transparent_hugepage/enabled is `always`)"
                .to_owned(),
        );
    }
    let mut random = Random::new(1);
    let mut samples = Vec::new();
    for round in 0..choice.rounds {
        for is_busy in [false, true] {
            eprintln!("round {} of {}, {}", round + 1, choice.rounds, load(is_busy));
            let _load = is_busy.then(busy_processes).transpose()?;
            let mut order: Vec<Measure> = vec![ours, lat_mem_rd, multichase];
            while !order.is_empty() {
                let measure = order.swap_remove(random.below(order.len()));
                let found = measure(choice)?.into_iter();
                samples.extend(found.map(|(tool, size_kib, ns)| Sample {
                    tool,
                    size_kib,
                    is_busy,
                    ns,
                }));
            }
        }
    }
    print!("{}", page(&samples));
    Ok(())
}

/// Runs a program, and returns its latencies in ns by tool and chain size.
type Measure = fn(&Choice) -> Result<Vec<(Tool, u32, f64)>, String>;

fn ours(choice: &Choice) -> Result<Vec<(Tool, u32, f64)>, String> {
    let file = choice.linerate.display().to_string();
    let options = ["memory", "--json", "--quiet", "--no-store", "--pages", "base"];
    let words = [&["60", file.as_str()][..], &options].concat();
    let text = output(program("timeout", &words))?;
    let record: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    Ok(of_record(&record))
}

/// Returns the latencies of a record by curve and chain size.
fn of_record(record: &Value) -> Vec<(Tool, u32, f64)> {
    let mut found = Vec::new();
    for curve in record["curves"].as_array().into_iter().flatten() {
        let tool = match curve["order"].as_str() {
            Some("random") => Tool::Random,
            Some("page_local") => Tool::PageLocal,
            _ => continue,
        };
        let points = curve["points"].as_array().into_iter().flatten();
        let points = points.filter_map(|point| {
            Some((point["bytes"].as_f64()?, point["latency_ns"]["value"].as_f64()?))
        });
        found.extend(nearest(points.collect()).map(|(size, ns)| (tool, size, ns)));
    }
    found
}

/// Returns the latency of the chain nearest to each of [`SIZES_KIB`], from chain sizes in bytes and
/// latencies in ns. Sizes without a chain nearby are left out.
fn nearest(points: Vec<(f64, f64)>) -> impl Iterator<Item = (u32, f64)> {
    SIZES_KIB.into_iter().filter_map(move |size| {
        let away = |(bytes, _): &(f64, f64)| (bytes / (f64::from(size) * 1024.0)).ln().abs();
        let point = points.iter().min_by(|a, b| away(a).total_cmp(&away(b)))?;
        (away(point) < NEAR).then_some((size, point.1))
    })
}

fn lat_mem_rd(choice: &Choice) -> Result<Vec<(Tool, u32, f64)>, String> {
    let [.., largest] = SIZES_KIB;
    // It prints to stderr: MiB and ns, from small to large sizes. On a busy machine it may not end,
    // and take all memory: what it has printed counts.
    let command = format!(
        "ulimit -v 4000000; timeout -k 2 60 {} -P 1 -W 0 -N 1 -t {} 64 2>&1; true",
        shell::quoted(&choice.lat_mem_rd),
        largest / 1024
    );
    let text = output(program("sh", &["-c", &command]))?;
    let text = String::from_utf8_lossy(&text);
    let point = |line: &str| -> Option<(f64, f64)> {
        let (size, ns) = line.split_once(' ')?;
        Some((size.parse::<f64>().ok()? * f64::from(1 << 20), ns.trim().parse().ok()?))
    };
    let points = text.lines().filter_map(point).collect();
    Ok(nearest(points).map(|(size, ns)| (Tool::LatMemRd, size, ns)).collect())
}

fn multichase(choice: &Choice) -> Result<Vec<(Tool, u32, f64)>, String> {
    let file = choice.multichase.display().to_string();
    let measure = |size: u32| {
        let size_of = format!("{size}k");
        let words = ["30", &file, "-m", &size_of, "-s", "64", "-n", "3"];
        let text = output(program("timeout", &words))?;
        let ns = String::from_utf8_lossy(&text).trim().parse();
        Ok((Tool::Multichase, size, ns.map_err(|_| format!("multichase: no number: {text:?}"))?))
    };
    SIZES_KIB.into_iter().map(measure).collect()
}

/// Starts a busy process on each CPU.
fn busy_processes() -> Result<Vec<Background>, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |cpu: usize| {
        let cpu = cpu.to_string();
        let words = ["300", "taskset", "-c", &cpu, "sh", "-c", "while :; do :; done"];
        Background::start(program("timeout", &words))
    };
    (0..cpus).map(start).collect()
}

fn load(is_busy: bool) -> &'static str {
    if is_busy { "a busy process on each CPU" } else { "idle" }
}

fn page(samples: &[Sample]) -> String {
    let mut text =
        "| chain, KiB | program | idle, ns per load | busy, ns per load | busy / idle |\n\
                    |---:|---|---:|---:|---:|\n"
            .to_owned();
    for size in SIZES_KIB {
        for (tool, name) in TOOLS {
            let of = |is_busy| -> Vec<f64> {
                let is_one = |sample: &&Sample| {
                    (sample.tool, sample.size_kib, sample.is_busy) == (tool, size, is_busy)
                };
                samples.iter().filter(is_one).map(|sample| sample.ns).collect()
            };
            let (idle, busy) = (of(false), of(true));
            let ratio = median(&busy).zip(median(&idle)).map(|(busy, idle)| busy / idle);
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let (idle, busy) = (cell(&idle), cell(&busy));
            let _ = writeln!(text, "| {size} | {name} | {idle} | {busy} | {ratio} |");
        }
    }
    text
}

/// Formats the median of some latencies, and the lowest and the highest; `-` if there are none.
fn cell(ns: &[f64]) -> String {
    let low = ns.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match median(ns) {
        Some(median) => format!("{median:.2} ({low:.2} to {high:.2})"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_gets_the_latency_of_the_nearest_chain() {
        let kib = |size: f64, ns: f64| (size * 1024.0, ns);
        let points = vec![kib(15.0, 1.1), kib(17.5, 1.2), kib(700.0, 4.0), kib(4096.0, 11.0)];
        assert_eq!(nearest(points).collect::<Vec<_>>(), [(16, 1.1), (4096, 11.0)]);
        assert_eq!(nearest(Vec::new()).count(), 0);
    }

    #[test]
    fn latencies_are_read_from_a_record() {
        let point =
            |bytes: u32, ns: f64| serde_json::json!({"bytes": bytes, "latency_ns": {"value": ns}});
        let record = serde_json::json!({"curves": [
            {"order": "random", "points": [point(16384, 1.5), point(524288, 4.5)]},
            {"order": "sequential", "points": [point(16384, 1.0)]},
            {"order": "page_local", "points": [point(16384, 1.1)]},
        ]});
        let wanted =
            [(Tool::Random, 16, 1.5), (Tool::Random, 512, 4.5), (Tool::PageLocal, 16, 1.1)];
        assert_eq!(of_record(&record), wanted);
    }

    #[test]
    fn a_table_has_medians_ranges_and_dashes() {
        let sample = |ns, is_busy| Sample { tool: Tool::LatMemRd, size_kib: 16, is_busy, ns };
        let idle = [1.0, 3.0, 2.0].map(|ns| sample(ns, false));
        let samples: Vec<Sample> = idle.into_iter().chain([sample(4.0, true)]).collect();
        let text = page(&samples);
        let row = "| 16 | lat_mem_rd -t | 2.00 (1.00 to 3.00) | 4.00 (4.00 to 4.00) | 2.00 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| 512 | multichase | - | - | - |"), "{text}");
    }

    #[test]
    fn both_programs_must_be_named() {
        let words = ["--lat-mem-rd", "a", "--multichase", "b", "--rounds", "3"];
        assert_eq!(choose(&words).map(|choice| choice.rounds), Ok(3));
        for words in [&["--lat-mem-rd", "a"][..], &["--rounds", "0"], &["--fast"]] {
            assert!(choose(words).is_err(), "{words:?}");
        }
    }
}
