// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks counters that are read from PMU registers: on emulated boards without an operating
//! system, and in guests with the modules from `kmod`.
//!
//! `lab/pmu` has a program for ARMv7 and AArch64, which performs the checks that a machine can do
//! by itself and runs the tutorial's programs. This module builds it, starts it several times, and
//! checks what the program itself cannot know: each program's number of instructions, and that
//! every run prints the same.

mod board;
mod guests;
mod judge;
mod powerpc;
mod regions;

use super::{Obstacle, check_tools, note};
use crate::command::log_to;
use board::BOARDS;
use std::fs::File;

/// Name of the task, as in `cargo xtask lab NAME`.
pub(crate) const NAME: &str = "pmu";

/// Commands that the checks need, and the packages that provide them.
const TOOLS: [(&str, &str); 4] = [
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-arm", "qemu-system-arm"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("arm-linux-gnueabi-gcc", "gcc-arm-linux-gnueabi"),
];

/// How often each machine is started.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// Few starts, to save time in CI.
    Brief,
    Full,
}

impl Extent {
    fn runs(self) -> usize {
        match self {
            Self::Brief => 2,
            Self::Full => 5,
        }
    }
}

/// The machines' output, for the results page.
#[derive(Default)]
struct Page {
    /// Headings, each with the text that a machine printed.
    sections: Vec<(String, String)>,
    /// A line per machine that was started several times.
    repeated: String,
}

impl Page {
    fn add(&mut self, heading: String, text: &str) {
        self.sections.push((heading, text.trim_end().to_owned()));
    }

    /// Adds a line saying that `runs` starts of a machine produced identical console output of
    /// `bytes` bytes.
    fn repeats(&mut self, machine: &str, runs: usize, bytes: usize) {
        let line =
            format!("{machine}: console output identical across {runs} boots ({bytes} bytes)");
        note(&format!("RESULT PASS {line}"));
        self.repeated += &line;
        self.repeated.push('\n');
    }
}

/// A function that checks all machines of one type, and adds their output to the page.
type Part = fn(Extent, &mut Page) -> Result<(), Obstacle>;

/// Starts every board and every guest, and reports each result. Returns one line for each kind of
/// machine that was skipped because a requirement is missing.
pub(crate) fn check(extent: Extent) -> Result<Vec<String>, String> {
    show(extent, &mut Page::default())
}

fn show(extent: Extent, page: &mut Page) -> Result<Vec<String>, String> {
    let mut skips = Vec::new();
    let parts: [(&str, Part); 3] =
        [("boards", check_boards), ("guests", guests::check), ("linux-7455", powerpc::check)];
    for (name, part) in parts {
        match part(extent, page) {
            Ok(()) => {}
            Err(Obstacle::Missing(why)) => skips.push(format!("SKIP: {name}: {why}")),
            Err(Obstacle::Failed(why)) => return Err(why),
        }
    }
    Ok(skips)
}

fn check_boards(extent: Extent, page: &mut Page) -> Result<(), Obstacle> {
    check_tools(&TOOLS)?;
    for board in &BOARDS {
        let image = board.build()?;
        let console = board.run(&image)?;
        for _ in 1..extent.runs() {
            if board.run(&image)? != console {
                return Err(Obstacle::Failed(format!(
                    "{}: the console output of two runs differs",
                    board.name
                )));
            }
        }
        let shown = judge::judge(&console, &board.disassemble(&image)?)
            .map_err(|why| format!("{}: {why}; console output:\n{console}", board.name))?;
        note(&format!("RESULT PASS {}: {shown}", board.name));
        page.repeats(&format!("{}, without Linux", board.name), extent.runs(), console.len());
        page.add(format!("{}, without Linux", board.name), &with_nulls(&console));
    }
    Ok(())
}

/// Formats console output for readers, with `null` rather than 0 as the count of each event that
/// the emulator does not count.
fn with_nulls(console: &str) -> String {
    let line = |line: &str| match line.strip_suffix(" 0") {
        Some(event) if line.starts_with("event ") => format!("{event} null\n"),
        _ => format!("{line}\n"),
    };
    console.lines().map(line).collect()
}

/// Checks everything, and prints the results page; all other output is written to a log.
pub(super) fn print() -> Result<(), String> {
    let log = super::cache().join("pmu.log");
    let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    log_to(Some(file));
    let mut page = Page::default();
    let shown = show(Extent::Full, &mut page);
    log_to(None);
    let skips = shown?;
    if !skips.is_empty() {
        return Err(skips.join("; "));
    }
    print!("## Boots compared byte by byte\n\n```\n{}```\n", page.repeated);
    for (heading, shown) in &page.sections {
        print!("\n## {heading}\n\n```\n{shown}\n```\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::with_nulls;

    #[test]
    fn only_events_have_nulls() {
        let console = "event A 4 0\nevent B 0 7\nprogram empty 1 0 0\n";
        assert_eq!(with_nulls(console), "event A 4 null\nevent B 0 7\nprogram empty 1 0 0\n");
    }
}
