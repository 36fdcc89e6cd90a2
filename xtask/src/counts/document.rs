// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the counts as Markdown tables.

use super::goals::{ARCHIVE, BYTES, Base, GOALS, Goal, archives, reached};
use super::sizes::Sizes;
use super::targets::G4;
use super::{Counts, Variant};
use std::fmt::Write;

const FUNCTIONS: &[&str] = &["checksum", "copy+checksum", "copy", "fill"];
/// Lengths in bytes, as in `lab/icount/calls.c`.
const LENGTHS: &[u64] = &[20, 64, 576, 1460, 8000];
const NONE: &str = "-";

pub(super) fn document(all: &[Counts], skips: &[String]) -> String {
    let mut text = String::new();
    text += &goals(all);
    for counts in all {
        text += &target(counts);
    }
    text += &sizes(all);
    if !skips.is_empty() {
        text += "## Not counted\n\n";
        for skip in skips {
            let _ = writeln!(text, "- {skip}");
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn goals(all: &[Counts]) -> String {
    let mut text = "## Goals\n\n\
        | where | variant | function, 1460 bytes | relative to | at most | measured |\n\
        |---|---|---|---|---|---|\n"
        .to_owned();
    for goal in GOALS {
        let Goal { target, variant, function, .. } = goal;
        let place = if goal.offsets == 0 { "" } else { ", unaligned" };
        let base = match goal.base {
            Base::Scalar => "scalar",
            Base::Reference => "reference",
            Base::Plain => "plain",
            Base::Carries => "vaddcuw",
        };
        let asked = goal.asked;
        let reached = match reached(goal, all) {
            Some(found) if found > asked => format!("{found:.3}, missed"),
            found => found.map_or_else(|| "not counted".to_owned(), ratio),
        };
        let _ = writeln!(
            text,
            "| {target} | {variant} | {function}{place} | {base} | {asked:.3} | {reached} |"
        );
    }
    for counts in all.iter().filter(|counts| counts.target.name == G4) {
        text += &archive(&counts.sizes);
    }
    text + "\n"
}

fn archive(sizes: &Sizes) -> String {
    let mut text = format!(
        "\n| archive for {G4} | text as `size` prints it | at most | code alone |\n\
         |---|---:|---:|---:|\n"
    );
    let sizes_of = [sizes.all, sizes.without_fault, sizes.small, sizes.small_without_fault];
    for ((what, bytes, _), size) in archives(sizes).into_iter().zip(sizes_of) {
        let missed = if bytes > ARCHIVE { ", missed" } else { "" };
        let _ = writeln!(text, "| {what} | {bytes}{missed} | {ARCHIVE} | {} |", size.code);
    }
    text
}

fn ratio(of: f64) -> String {
    format!("{of:.3}")
}

fn target(counts: &Counts) -> String {
    let target = counts.target;
    let mut text = format!("## {}\n\n", target.name);
    let flags = format!("-O2 {}", target.flags);
    let (emulator, cpu) = (target.machine.emulator, target.cpu);
    let _ = writeln!(text, "`{}`, `{}`; `{emulator} -cpu {cpu}`\n", counts.compiler, flags.trim());
    if !counts.not_run.is_empty() {
        let _ = writeln!(text, "Not supported by this processor: {}.\n", counts.not_run.join(", "));
    }
    for function in FUNCTIONS {
        text += &table(counts, function);
    }
    text
}

fn table(counts: &Counts, function: &str) -> String {
    let mut text = format!("| {function} |");
    for bytes in LENGTHS {
        let _ = write!(text, " {bytes} |");
    }
    text += " unaligned | vector | / scalar | / plain |\n|---|";
    text += &"---:|".repeat(LENGTHS.len() + 4);
    text += "\n";
    for variant in &counts.variants {
        text += &row(counts, variant, function).unwrap_or_default();
    }
    text + "\n"
}

/// Returns a variant's table row; `None` if it lacks the function.
fn row(counts: &Counts, variant: &Variant, function: &str) -> Option<String> {
    let name = variant.name.as_str();
    let at = |bytes, offsets| counts.count(name, function, bytes, offsets);
    let payload = at(BYTES, 0)?;
    let mut text = format!("| {name} |");
    for bytes in LENGTHS {
        let _ = write!(text, " {} |", at(*bytes, 0)?.all);
    }
    let to = |base: &str| {
        counts.ratio(name, base, function, BYTES, 0).map_or_else(|| NONE.to_owned(), ratio)
    };
    let to_scalar = counts.scalar(function).map_or_else(|| NONE.to_owned(), to);
    let (unaligned, vector) = (at(BYTES, 1)?.all, payload.vector);
    let _ = writeln!(text, " {unaligned} | {vector} | {to_scalar} | {} |", to("plain"));
    Some(text)
}

fn sizes(all: &[Counts]) -> String {
    let mut text = "## Sizes\n\n\
        | where | variants, code | `-O2` | without `fault/` | `-Os` | without `fault/` |\n\
        |---|---|---:|---:|---:|---:|\n"
        .to_owned();
    for counts in all {
        let objects: Vec<String> = counts
            .variants
            .iter()
            .filter(|variant| variant.bytes > 0)
            .map(|variant| format!("{} {}", variant.name, variant.bytes))
            .collect();
        let _ = write!(text, "| {} | {} |", counts.target.name, objects.join(", "));
        for (_, bytes, _) in archives(&counts.sizes) {
            let _ = write!(text, " {bytes} |");
        }
        text += "\n";
    }
    text + "\n"
}
