// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask live`: compares the forwarding rate of a live path with that of DPDK's testpmd,
//! over the same veth pairs and in the same run, by AF_PACKET and by AF_XDP; and linerate's rings
//! with those of net_ring. Requires root; the interfaces are in a separate network namespace.
//!
//! In each round, both programs run once per contest, in random order, and the result is the ratio
//! within each round. The table lists missed goals first.

mod child;
mod rings;
mod scene;

use crate::command::{Scratch, cargo, output, program, root};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval, paired_ratio};
use rings::Rings;
use scene::{CONTESTS, Rates, SIZES, Scene};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Settings of the comparison: rounds, random seed, and the program to test.
pub(crate) struct Choice {
    rounds: u32,
    seed: u64,
    linerate: Option<PathBuf>,
}

/// Parses the arguments of `live`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { rounds: 9, seed: 1, linerate: None };
    for pair in words.chunks(2) {
        match pair {
            ["--rounds", number] => {
                let rounds = number.parse().ok().filter(|rounds| (1..=99).contains(rounds));
                choice.rounds = rounds.ok_or("live: --rounds must be 1 to 99")?;
            }
            ["--seed", number] => {
                choice.seed = number.parse().map_err(|_| "live: --seed must be a number")?;
            }
            ["--linerate", file] => choice.linerate = Some(file.into()),
            other => return Err(format!("live: unknown option `{}`", other.join(" "))),
        }
    }
    Ok(choice)
}

/// A contest between linerate and testpmd, with its results so far.
struct Row {
    io: String,
    /// Frame size without FCS, in bytes; `None` if the packets' bytes are not touched.
    bytes: Option<u32>,
    /// Ratio of linerate's rate to testpmd's that is to be reached.
    goal: f64,
    /// Packets per second of linerate and of testpmd, by round.
    rates: [Vec<f64>; 2],
    /// Packets per second that the sender offered to each program, by round; empty if there is no
    /// sender.
    offered: [Vec<f64>; 2],
}

impl Row {
    fn new(io: &str, bytes: Option<u32>, goal: f64) -> Self {
        let none = || [Vec::new(), Vec::new()];
        Self { io: io.to_owned(), bytes, goal, rates: none(), offered: none() }
    }

    fn add(&mut self, contestant: usize, rates: Rates) {
        self.rates[contestant].push(rates.forwarded);
        self.offered[contestant].push(rates.offered);
    }

    fn ratio(&self) -> Estimate {
        paired_ratio(&self.rates[1], &self.rates[0], CONFIDENCE)
    }

    fn verdict(&self) -> Verdict {
        // If both programs forward everything, the ratio is that of the sender to itself.
        let forwards_all = |contestant: usize| {
            let passed =
                paired_ratio(&self.offered[contestant], &self.rates[contestant], CONFIDENCE);
            passed.value > ALL
        };
        let ratio = self.ratio();
        match ratio {
            _ if forwards_all(0) && forwards_all(1) => Verdict::SenderLimits,
            Estimate { high, .. } if high < self.goal => Verdict::Missed,
            Estimate { low, .. } if low >= self.goal => Verdict::Met,
            _ => Verdict::CannotTell,
        }
    }
}

/// Share of the offered packets above which a forwarder counts as forwarding all of them, so that
/// the sender is the limit. Below 1, because the two counters are read one after the other.
const ALL: f64 = 0.97;

/// Whether a goal was reached, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Missed,
    CannotTell,
    SenderLimits,
    Met,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::CannotTell => "cannot tell: the interval contains the goal",
            Self::SenderLimits => "cannot tell: both forward all that the sender sends",
            Self::Met => "met",
        }
    }
}

/// Measures, and prints the table.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let built = build(choice.linerate.as_deref())?;
    let place = Scratch::new("live")?;
    print!("{}", page(measure(choice, built, place.path())?));
    Ok(())
}

fn measure(
    choice: &Choice,
    [linerate, example]: [PathBuf; 2],
    place: &Path,
) -> Result<Vec<Row>, String> {
    for (name, code) in [("send", "lab/why/send.c"), ("flood", "xtask/src/live/flood.c")] {
        output(program("cc", &["-O2", "-o", &place.join(name).display().to_string(), code]))?;
    }
    let scene = Scene::new(&linerate, place)?;
    let rings = Rings { example, place };
    let mut random = Random::new(choice.seed);
    let mut rows: Vec<Row> = Vec::new();
    for contest in &CONTESTS {
        rows.extend(SIZES.iter().map(|size| Row::new(contest.io, Some(*size), 1.0)));
    }
    let mut moved = Row::new("rings", None, 0.9);
    for _ in 0..choice.rounds {
        for (contest, rows) in CONTESTS.iter().zip(rows.chunks_mut(SIZES.len())) {
            for contestant in order(&mut random) {
                let measured = scene.measure(contest, contestant)?;
                for (row, rates) in rows.iter_mut().zip(measured) {
                    row.add(contestant, rates);
                }
            }
        }
        for contestant in order(&mut random) {
            moved.rates[contestant].push(rings.measure(contestant)?);
        }
    }
    rows.push(moved);
    Ok(rows)
}

/// Returns both contestants in random order.
fn order(random: &mut Random) -> [usize; 2] {
    let first = usize::from(random.uniform() < 0.5);
    [first, 1 - first]
}

/// Formats the table.
fn page(mut rows: Vec<Row>) -> String {
    rows.sort_by_key(Row::verdict);
    let mut text = "| I/O | bytes | linerate, Mpps | testpmd, Mpps | linerate / testpmd | \
                    goal | verdict | sender, Mpps | rounds |\n\
                    |---|---:|---:|---:|---:|---:|---|---:|---:|\n"
        .to_owned();
    for row in &rows {
        let [ours, theirs] = [&row.rates[0], &row.rates[1]].map(|rates| millions(rates));
        let offered = row.offered.concat();
        let _ = writeln!(
            text,
            "| {} | {} | {ours} | {theirs} | {} | {} | {} | {} | {} |",
            row.io,
            row.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            shown(row.ratio(), 2),
            row.goal,
            row.verdict().words(),
            if offered.is_empty() { "-".to_owned() } else { millions(&offered) },
            row.rates[0].len()
        );
    }
    text
}

/// Formats the median of rates in packets per second, in Mpps, with its interval.
fn millions(rates: &[f64]) -> String {
    let scaled: Vec<f64> = rates.iter().map(|rate| rate / 1e6).collect();
    let estimate = median_interval(&scaled, CONFIDENCE);
    let digits = if estimate.value < 100.0 { 3 } else { 0 };
    shown(estimate, digits)
}

fn shown(Estimate { value, low, high, .. }: Estimate, digits: usize) -> String {
    match low.is_finite() && high.is_finite() {
        true => format!("{value:.digits$} ({low:.digits$} to {high:.digits$})"),
        false => format!("{value:.digits$} (no interval)"),
    }
}

/// Returns linerate, which is built unless given, and the example `ring_io`.
fn build(linerate: Option<&Path>) -> Result<[PathBuf; 2], String> {
    let build = ["build", "--release", "--locked", "--quiet", "--package"];
    if linerate.is_none() {
        output(cargo(&[&build[..], &["linerate"]].concat()))?;
    }
    output(cargo(&[&build[..], &["linerate-dataplane", "--example", "ring_io"]].concat()))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let release = root().join(target).join("release");
    let own = || release.join("linerate");
    Ok([linerate.map_or_else(own, Path::to_owned), release.join("examples/ring_io")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, theirs: f64, offered: f64) -> Row {
        let mut row = Row::new("af_xdp", Some(64), 1.0);
        for _ in 0..9 {
            row.add(0, Rates { forwarded: ours, offered });
            row.add(1, Rates { forwarded: theirs, offered });
        }
        row
    }

    #[test]
    fn the_table_has_the_ratio_within_rounds_and_failures_first() {
        let text = page(vec![row(2e6, 1e6, 3e6), row(0.5e6, 1e6, 3e6)]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| af_xdp | 64 | 0.500 (0.500 to 0.500) | 1.000 (1.000 to 1.000) | 0.50 (0.50 to \
                 0.50) | 1 | missed | 3.000 (3.000 to 3.000) | 9 |",
                "| af_xdp | 64 | 2.000 (2.000 to 2.000) | 1.000 (1.000 to 1.000) | 2.00 (2.00 to \
                 2.00) | 1 | met | 3.000 (3.000 to 3.000) | 9 |"
            ]
        );
    }

    #[test]
    fn a_slow_sender_decides_nothing() {
        assert_eq!(row(1e6, 1e6, 1e6).verdict(), Verdict::SenderLimits);
        // The sender limits only one of the two.
        assert_eq!(row(1e6, 0.9e6, 1e6).verdict(), Verdict::Met);
        assert_eq!(row(0.9e6, 1e6, 1e6).verdict(), Verdict::Missed);
    }

    #[test]
    fn one_round_decides_nothing() {
        let mut short = Row::new("rings", None, 0.9);
        short.rates = [vec![2e9], vec![1e9]];
        assert_eq!(short.verdict(), Verdict::CannotTell);
        assert!(page(vec![short]).contains("| 2000 (no interval) | 1000 (no interval) | 2.00 "));
    }

    #[test]
    fn options_are_checked() {
        assert!(choose(&["--rounds", "5", "--seed", "7"]).is_ok());
        assert!(choose(&["--rounds", "0"]).is_err());
        assert!(choose(&["--other", "1"]).is_err());
    }
}
