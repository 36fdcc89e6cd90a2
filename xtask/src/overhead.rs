// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask overhead`: measures the overhead of monitoring. Programs run with and without each
//! monitoring tool, in rounds of random order; the table shows the tools' own CPU time and the
//! programs' loss of throughput.

mod tools;
mod watched;

use crate::command::{cargo, output, root};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval, paired_ratio};
use std::fmt::Write as _;
use std::path::PathBuf;
use tools::{Cost, PROFILERS, TOOLS, Tool};
use watched::{PROGRAMS, Watched};

/// How long a tool monitors a program, in seconds.
const SECONDS: u32 = 5;

/// Settings for a comparison of tools.
pub(crate) struct Choice {
    rounds: u32,
    random: u64,
    linerate: Option<PathBuf>,
    tools: &'static [Tool],
}

/// Parses the arguments of `overhead`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { rounds: 8, random: 1, linerate: None, tools: TOOLS };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("overhead: {word} takes a value"))?;
        let number = || value.parse().map_err(|_| format!("overhead: invalid number `{value}`"));
        match word {
            "--rounds" => choice.rounds = number()? as u32,
            "--seed" => choice.random = number()?,
            "--linerate" => choice.linerate = Some(value.into()),
            "--of" => {
                choice.tools = match value {
                    "why" => TOOLS,
                    "profile" => PROFILERS,
                    _ => {
                        return Err(format!(
                            "overhead: --of must be why or profile, not `{value}`"
                        ));
                    }
                }
            }
            other => return Err(format!("overhead: unknown option `{other}`")),
        }
    }
    if choice.rounds < 2 {
        Err("overhead: --rounds must be at least 2".to_owned())
    } else {
        Ok(choice)
    }
}

/// Measures the overhead, and prints the page.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let linerate = match &choice.linerate {
        Some(file) => file.clone(),
        None => build()?,
    };
    let linerate = linerate.display().to_string();
    println!(
        "| program watched | tool | tool's CPU time, % of one CPU | throughput lost, % |\n\
         |---|---|---|---|"
    );
    for program in PROGRAMS {
        match Watched::start(program, SECONDS) {
            Ok(watched) => print!("{}", rows(&watched, choice, &linerate)?),
            Err(why) => eprintln!("SKIP {}: {why}", program.name()),
        }
    }
    Ok(())
}

/// One round: each tool's cost in CPU time, and the program's throughput during that time.
struct Round {
    costs: Vec<(Cost, f64)>,
}

fn rows(watched: &Watched, choice: &Choice, linerate: &str) -> Result<String, String> {
    let mut there = Vec::new();
    for &tool in choice.tools {
        // Tries the tool, because being installed is not enough: bpftrace scripts depend on the
        // kernel. In 3 s, every program reports a rate.
        match watched.during(|pid| tool.watch(pid, 3, linerate)) {
            Ok(_) => there.push(tool),
            Err(why) => eprintln!("SKIP {}: {why}", tool.name()),
        }
    }
    let mut random = Random::new(choice.random);
    let mut rounds = Vec::new();
    for round in 0..choice.rounds {
        let mut order: Vec<usize> = (0..there.len()).collect();
        random.shuffle(&mut order);
        let mut costs = vec![None; there.len()];
        for place in order {
            let cost = watched.during(|pid| there[place].watch(pid, SECONDS, linerate))?;
            eprintln!(
                "{} round {round} {}: {:.4} CPUs, {:.0}/s",
                watched.program.name(),
                there[place].name(),
                cost.0.cpus,
                cost.1
            );
            costs[place] = Some(cost);
        }
        rounds.push(Round { costs: costs.into_iter().flatten().collect() });
    }
    Ok(there.iter().enumerate().map(|(place, tool)| row(watched, *tool, place, &rounds)).collect())
}

/// Formats the table row of the tool at index `place` in the rounds. Index 0 is the run without a
/// tool, with which the tools are compared round by round.
fn row(watched: &Watched, tool: Tool, place: usize, rounds: &[Round]) -> String {
    let cpus: Vec<f64> = rounds.iter().map(|round| 100.0 * round.costs[place].0.cpus).collect();
    let rates =
        |place: usize| -> Vec<f64> { rounds.iter().map(|round| round.costs[place].1).collect() };
    let program = watched.program.name();
    if tool == Tool::Nothing {
        let rate = median_interval(&rates(place), CONFIDENCE);
        return format!(
            "| {program} | nothing | - | {:.0} {} |\n",
            rate.value,
            watched.program.unit()
        );
    }
    let mut row = format!("| {program} | {} |", tool.name());
    let lost = paired_ratio(&rates(0), &rates(place), CONFIDENCE);
    let lost = Estimate::exactly(100.0).minus(lost.scale(100.0));
    for estimate in [median_interval(&cpus, CONFIDENCE), lost] {
        let Estimate { value, low, high, .. } = estimate;
        let _ = match low.is_finite() && high.is_finite() {
            true => write!(row, " {value:.2} ({low:.2} to {high:.2}) |"),
            false => write!(row, " {value:.2} (no interval: too few rounds) |"),
        };
    }
    row + "\n"
}

fn build() -> Result<PathBuf, String> {
    output(cargo(&["build", "--release", "--locked", "--quiet", "--package", "linerate"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root().join(target).join("release/linerate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_words_are_checked() {
        assert_eq!(
            choose(&["--rounds", "3", "--seed", "7"]).map(|c| (c.rounds, c.random)),
            Ok((3, 7))
        );
        assert_eq!(choose(&["--of", "profile"]).map(|c| c.tools), Ok(PROFILERS));
        assert_eq!(choose(&[]).map(|c| c.tools), Ok(TOOLS));
        assert!(choose(&["--of", "perf"]).is_err());
        assert!(choose(&["--rounds", "1"]).is_err());
        assert!(choose(&["--rounds"]).is_err());
        assert!(choose(&["--often", "1"]).is_err());
    }
}
