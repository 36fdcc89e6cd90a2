// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares table 1 and figure 4 of application note AN2581 with our results.

use super::plan::{BUSY, TRAFFIC};
use super::run::{Settings, percent};
use super::{Results, find};
use std::fmt::Write;

/// A scheme's entries in table 1 of AN2581: whether the kernel may use vectors, whether an
/// operating system is needed, and whether the overhead is lower with few interrupts, higher with
/// many, and low with large blocks.
struct Claim {
    scheme: &'static str,
    row: &'static str,
    in_kernel: &'static str,
    needs_system: &'static str,
    overheads: [&'static str; 3],
}

const TABLE_1: [Claim; 5] = [
    Claim {
        scheme: "lazy",
        row: "Linux-like",
        in_kernel: "no",
        needs_system: "yes",
        overheads: ["yes", "yes", "yes"],
    },
    Claim {
        scheme: "per-task",
        row: "VxWorks-like",
        in_kernel: "yes, in flagged tasks",
        needs_system: "yes",
        overheads: ["yes", "yes", "yes"],
    },
    Claim {
        scheme: "note",
        row: "independent",
        in_kernel: "yes; corrupts when interrupted",
        needs_system: "no",
        overheads: ["yes", "no", "yes"],
    },
    Claim {
        scheme: "exclusive",
        row: "",
        in_kernel: "yes, and in interrupts",
        needs_system: "no",
        overheads: ["", "", ""],
    },
    Claim {
        scheme: "hooked",
        row: "",
        in_kernel: "yes, and in interrupts",
        needs_system: "one call per switch",
        overheads: ["", "", ""],
    },
];

/// Settings that represent the three kinds of applications in AN2581.
const KINDS: [(&str, Settings); 3] = [
    ("few interrupts: traffic, 1,000/s", Settings { interrupts_per_s: 1_000, ..TRAFFIC }),
    ("many: traffic, 20,000/s", MANY),
    ("large blocks: busy, 65,536 bytes", Settings { pattern: 0, bytes: 65_536, ..BUSY }),
];

const MANY: Settings = Settings { interrupts_per_s: 20_000, ..TRAFFIC };

/// Kernel and AltiVec overhead in percent, from the text around figure 4 of AN2581.
const FIGURE_4: [(&str, &str); 4] = [
    ("scalar", "kernel 7 %"),
    ("per-task", "kernel 13 %"),
    ("note", "kernel nearly 7 %, plus 1 % for AltiVec"),
    ("exclusive", ""),
];

pub(super) fn section(costs: &Results) -> String {
    table_1(costs) + &figure_4(costs)
}

fn table_1(costs: &Results) -> String {
    let mut text =
        "## Compared with table 1 of AN2581\n\nContext management as a share of all instructions. \
         In brackets: whether the table says that the overhead is lower with few interrupts, \
         higher with many interrupts, and low with large blocks. Rows without brackets are not in \
         AN2581.\n\n| scheme | vectors in the kernel | needs OS support |"
            .to_owned();
    for (name, _) in KINDS {
        let _ = write!(text, " {name} |");
    }
    text += "\n|---|---|---|---:|---:|---:|\n";
    for Claim { scheme, row, in_kernel, needs_system, overheads } in TABLE_1 {
        let name = if row.is_empty() { String::new() } else { format!(" ({row})") };
        let _ = write!(text, "| {scheme}{name} | {in_kernel} | {needs_system} |");
        for ((_, settings), said) in KINDS.iter().zip(overheads) {
            let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
            let _ = write!(text, " {:.3} %{said} |", find(costs, scheme, *settings).share());
        }
        text += "\n";
    }
    text + "\n"
}

/// Formats the shares of kernel, context management and tasks in all instructions except those of
/// the background.
fn figure_4(costs: &Results) -> String {
    let mut text =
        "## Compared with figure 4 of AN2581\n\nAN2581 gives CPU shares under TCP traffic in \
         VxWorks on an MPC7455 board, without the interrupt rate. Our shares are for the traffic \
         load at 20,000 interrupts/s, relative to all instructions except the background, that is, \
         those of the kernel, context management and tasks.\n\n| scheme | AN2581 | kernel | \
         context | tasks |\n|---|---|---:|---:|---:|\n"
            .to_owned();
    for (scheme, note) in FIGURE_4 {
        let ran = find(costs, scheme, MANY);
        let counted = ran.counted();
        let busy = ran.executed() - counted.background;
        let share = |part| percent(part, busy);
        let [kernel, context] = [counted.kernel, counted.context].map(share);
        let _ = writeln!(
            text,
            "| {scheme} | {note} | {kernel:.1} % | {context:.2} % | {:.1} % |",
            100.0 - kernel - context
        );
    }
    text + "\nOur shares count the instructions that save 32 registers, but not the cost of the \
            cache lines that they touch, which AN2581's figures include.\n\n"
}
