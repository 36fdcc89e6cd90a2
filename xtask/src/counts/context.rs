// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the instructions for acquiring and releasing the vector registers, on emulated
//! architectures.
//!
//! `lab/icount/context.c` performs each operation once between two marks, and the plugin counts the
//! instructions between them.

use super::targets::{A57, G4, TARGETS, Target};
use super::{BUILD, DRIVER, address_of, archive, run};
use crate::command::{output, program, root};
use std::fmt::Write as _;
use std::fs;

/// Targets to count on, one per architecture.
const COUNTED: &[&str] = &[G4, A57, "ARMv7 (Cortex-A7)", "x86-64 (no AVX-512)"];

/// Upper bounds on the G4's instruction counts, by operation. A count above its bound is a failure.
const BOUNDS: &[(&str, u64)] =
    &[("enter and leave", 20), ("nest and unnest, a user interrupted", 160)];

/// Operations with their instruction counts.
type Costs = Vec<(String, u64)>;

/// Measures every target whose tools are installed.
fn measure() -> Result<Vec<(&'static Target, Costs)>, String> {
    let here = |target: &&Target| match target.machine.missing() {
        _ if !COUNTED.contains(&target.name) => false,
        Some(missing) => {
            eprintln!("SKIP {}: {missing}", target.name);
            false
        }
        None => true,
    };
    let costs = |target: &'static Target| {
        let costs = costs(target).map_err(|why| format!("{}: {why}", target.name))?;
        Ok((target, costs))
    };
    TARGETS.iter().filter(here).map(costs).collect()
}

fn costs(target: &Target) -> Result<Costs, String> {
    let build = format!("{BUILD}/{}-context", target.folder());
    let folder = format!("native/{build}");
    archive(target, &build, "-O2")?;
    let no_vectors = if target.name == G4 { "-mno-altivec" } else { "-fno-tree-vectorize" };
    let flags = format!(
        "{DRIVER} {} {no_vectors} -fno-pie -no-pie -static -Inative/include -o {folder}/context \
         lab/icount/context.c {folder}/liblr.a",
        target.flags
    );
    run(&target.tool("gcc"), &flags.split_whitespace().collect::<Vec<_>>())?;
    let plugin = format!("-O2 -shared -fPIC -fvisibility=hidden -o {folder}/icount.so");
    let plugin = format!("{plugin} lab/icount/plugin.c");
    run("cc", &plugin.split_whitespace().collect::<Vec<_>>())?;

    let symbols = run(&target.tool("nm"), &[&format!("{folder}/context")])?;
    let path = |name: &str| root().join(&folder).join(name).display().to_string();
    let mark = address_of(&symbols, "lr_marked")?;
    let (library, counts) = (path("icount.so"), path("counts"));
    let plugin = format!("{library},low=0,high=1,mark={mark},out={counts}");
    let context = path("context");
    let args = ["-cpu", target.cpu, "-plugin", &plugin, &context];
    let mut command = program(target.machine.emulator, &args);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let names = String::from_utf8(output(command)?).map_err(|error| error.to_string())?;
    let marks = fs::read_to_string(&counts).map_err(|error| format!("{counts}: {error}"))?;
    read(&names, &marks).ok_or_else(|| format!("cannot read `{names}` and `{marks}`"))
}

/// Combines the operations' names with their counts. Every operation is repeated, so that every
/// fourth mark ends its second repetition, which is used. The first operation, `nothing`, is the
/// overhead, which is subtracted from the others.
fn read(names: &str, marks: &str) -> Option<Costs> {
    let all = |line: &str| line.split(' ').next()?.parse::<u64>().ok();
    let counts: Option<Vec<u64>> = marks.lines().skip(3).step_by(4).map(all).collect();
    let (names, counts): (Vec<&str>, _) = (names.lines().collect(), counts?);
    let nothing = *counts.first()?;
    if names.len() != counts.len() || names[0] != "nothing" {
        return None;
    }
    let cost =
        |(name, count): (&&str, &u64)| Some(((*name).to_owned(), count.checked_sub(nothing)?));
    names.iter().zip(&counts).skip(1).map(cost).collect()
}

fn judge(all: &[(&'static Target, Costs)]) -> Result<(), String> {
    let Some((_, costs)) = all.iter().find(|(target, _)| target.name == G4) else {
        return Ok(());
    };
    for (what, bound) in BOUNDS {
        let cost = costs.iter().find(|cost| cost.0 == *what);
        let (_, cost) = cost.ok_or_else(|| format!("`{what}` was not counted"))?;
        if cost > bound {
            return Err(format!(
                "{G4}: {what}: {cost} instructions, more than the bound of {bound}"
            ));
        }
    }
    Ok(())
}

/// Counts, and compares the counts with their bounds.
pub(super) fn check() -> Result<(), String> {
    judge(&measure()?)
}

/// Counts, prints the table for the documentation, and compares the counts with their bounds.
pub(crate) fn print() -> Result<(), String> {
    let all = measure()?;
    let mut text = String::new();
    let names: Vec<&str> = all.iter().map(|(target, _)| target.name).collect();
    let _ = writeln!(text, "| | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(names.len()));
    let rows = all.first().map_or(0, |(_, costs)| costs.len());
    for row in 0..rows {
        let counts: Vec<String> = all.iter().map(|(_, costs)| costs[row].1.to_string()).collect();
        let _ = writeln!(text, "| {} | {} |", all[0].1[row].0, counts.join(" | "));
    }
    let bounds: Vec<String> = BOUNDS.iter().map(|(what, n)| format!("\"{what}\" {n}")).collect();
    let _ = writeln!(
        text,
        "\nMaximum number of instructions on {G4}, checked by CI: {}.",
        bounds.join("; ")
    );
    print!("{text}");
    judge(&all)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_second_time_counts_less_nothing() {
        let marks = "9 0 0\n1 0 0\n9 0 0\n2 0 0\n9 0 0\n90 0 0\n9 0 0\n12 0 0\n";
        assert_eq!(read("nothing\nall\n", marks), Some(vec![("all".to_owned(), 10)]));
        assert_eq!(read("nothing\n", marks), None);
        assert_eq!(read("something\nall\n", marks), None);
    }
}
