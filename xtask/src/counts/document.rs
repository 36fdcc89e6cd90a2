// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts as a document.

use super::goals::{ARCHIVE, Base, GOALS, Goal, OCTETS, reached};
use super::targets::G4;
use super::{Counts, Variant};
use std::fmt::Write;

const FUNCTIONS: &[&str] = &["checksum", "copy+checksum", "copy", "fill"];
/// As in `lab/icount/calls.c`.
const LENGTHS: &[u64] = &[20, 64, 576, 1460, 8000];
const NONE: &str = "-";

pub(super) fn document(all: &[Counts], skips: &[String]) -> String {
    let mut text = "# Instructions of the kernels\n\n\
        Written by `cargo xtask evidence counts`: what each variant executes in one call, counted \
        in an emulator (QEMU, `lab/icount`). A count repeats exactly with the same compiler, and \
        says nothing about time: a processor may take one cycle for four instructions or four for \
        one.\n\n\
        Source and destination are aligned to 64 octets; in the column *apart* they begin 7 and 2 \
        octets behind that. *vector* are the vector instructions among those of 1460 octets. \
        `reference` is `lr_checksum16`; `plain` is the loop over words of 16 bits of the white \
        paper \"Enhanced TCP/IP Performance with AltiVec\", figure 1, with a store in it where it \
        copies. Ratios are of 1460 octets; *scalar* is the best variant without vectors.\n\n"
        .to_owned();
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
    let mut text = "## What was asked\n\n\
        | where | variant | function, 1460 octets | to | at most | reached |\n\
        |---|---|---|---|---|---|\n"
        .to_owned();
    for goal in GOALS {
        let Goal { target, variant, function, .. } = goal;
        let place = if goal.offsets == 0 { "" } else { ", apart" };
        let base = match goal.base {
            Base::Scalar => "scalar",
            Base::Reference => "reference",
            Base::Plain => "plain",
        };
        let kind = if goal.is_asked { "" } else { " (not what was asked: 0.40)" };
        let reached = reached(goal, all).map_or_else(|| "not counted".to_owned(), ratio);
        let bound = goal.at_most;
        let _ = writeln!(
            text,
            "| {target} | {variant} | {function}{place} | {base} | {bound:.3}{kind} | {reached} |"
        );
    }
    if let Some(counts) = all.iter().find(|counts| counts.target.name == G4) {
        let octets = counts.archive;
        let _ = writeln!(
            text,
            "\nThe archive for {G4}: {octets} octets of code, of at most {ARCHIVE}."
        );
    }
    text + "\n"
}

fn ratio(of: f64) -> String {
    format!("{of:.3}")
}

fn target(counts: &Counts) -> String {
    let target = counts.target;
    let mut text = format!("## {}\n\n", target.name);
    let flags = format!("-O2 {}", target.flags);
    let (emulator, cpu) = (target.emulator, target.cpu);
    let _ = writeln!(text, "`{}`, `{}`; `{emulator} -cpu {cpu}`\n", counts.compiler, flags.trim());
    if !counts.not_run.is_empty() {
        let _ = writeln!(text, "Not for this processor: {}.\n", counts.not_run.join(", "));
    }
    for function in FUNCTIONS {
        text += &table(counts, function);
    }
    text
}

fn table(counts: &Counts, function: &str) -> String {
    let mut text = format!("| {function} |");
    for octets in LENGTHS {
        let _ = write!(text, " {octets} |");
    }
    text += " apart | vector | to scalar | to plain |\n|---|";
    text += &"---:|".repeat(LENGTHS.len() + 4);
    text += "\n";
    for variant in &counts.variants {
        text += &row(counts, variant, function).unwrap_or_default();
    }
    text + "\n"
}

/// `None` for a variant that does not have the function.
fn row(counts: &Counts, variant: &Variant, function: &str) -> Option<String> {
    let name = variant.name.as_str();
    let at = |octets, offsets| counts.count(name, function, octets, offsets);
    let payload = at(OCTETS, 0)?;
    let mut text = format!("| {name} |");
    for octets in LENGTHS {
        let _ = write!(text, " {} |", at(*octets, 0)?.all);
    }
    let to = |base: &str| {
        counts.ratio(name, base, function, OCTETS, 0).map_or_else(|| NONE.to_owned(), ratio)
    };
    let to_scalar = counts.scalar(function).map_or_else(|| NONE.to_owned(), to);
    let (apart, vector) = (at(OCTETS, 1)?.all, payload.vector);
    let _ = writeln!(text, " {apart} | {vector} | {to_scalar} | {} |", to("plain"));
    Some(text)
}

fn sizes(all: &[Counts]) -> String {
    let mut text = "## Sizes\n\n\
        Code in octets, without constants and tables for unwinding: of the object of each variant, \
        and of the whole archive.\n\n\
        | where | variants | archive |\n|---|---|---:|\n"
        .to_owned();
    for counts in all {
        let objects: Vec<String> = counts
            .variants
            .iter()
            .filter(|variant| variant.octets > 0)
            .map(|variant| format!("{} {}", variant.name, variant.octets))
            .collect();
        let (name, archive) = (counts.target.name, counts.archive);
        let _ = writeln!(text, "| {name} | {} | {archive} |", objects.join(", "));
    }
    text + "\n"
}
