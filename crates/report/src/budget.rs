// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the report of a `budget` record: the per-packet budget by frame size, and the
//! requirements of a task.

use crate::Style;
use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{ABSENT, clean, percent, significant, whole};
use linerate_record::budget::{BudgetReport, BudgetRow, Ceilings, LONGEST_FRAME, Shortfall};
use linerate_record::units::{BitsPerSecond, Kpps};

/// Formats the per-packet budget at line rate.
pub fn budget(report: &BudgetReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        rows(report, style),
        tasks(report, style),
        roofline(report, style),
        shortfall(report, style),
    ])
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

/// Formats a count with its noun: `1 core`, `2 cores`.
fn counted(n: u32, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

fn head(report: &BudgetReport, style: &Style) -> String {
    let threads = report.strands_per_pipe;
    let pipes = counted(report.pipes_per_core, "pipe", "pipes");
    let shared = match (report.is_this_machine, threads) {
        (true, 1) => String::new(),
        (true, n) => format!(" with {n} hardware threads each"),
        (false, 1) => format!(" of {pipes}, one strand each"),
        (false, n) => format!(" of {pipes}, {n} strands per pipe"),
    };
    let machine = format!(
        "{}: {} GHz, {}{shared} ({})",
        report.processor,
        significant(report.clock_ghz),
        counted(report.cores, "core", "cores"),
        report.source,
    );
    let on_line = format!("{}; frame sizes include the FCS", BitsPerSecond(report.line_bits_per_s));
    line("machine", &machine, style) + &line("line", &on_line, style)
}

fn rows(report: &BudgetReport, style: &Style) -> String {
    let of_all = format!(">of all\n{}", counted(report.cores, "core", "cores"));
    let mut heads = vec![">frame", ">ns between\npackets", ">packet\nrate"];
    heads.extend(match report.is_this_machine {
        true => [">cycles of\none core", of_all.as_str()],
        false => [">cycles\nof a pipe", ">all\npipes"],
    });
    // For this machine, instructions per cycle are known only if the user states them.
    let has_instructions = !report.is_this_machine || report.instructions_per_cycle.is_some();
    if has_instructions {
        heads.extend(match report.is_this_machine {
            true => [">instructions\nof a thread", ">alone on\nits core"],
            false => [">instructions\nof a strand", ">alone on\nits pipe"],
        });
    }
    let mut grid = Grid::new(&heads);
    let maybe = |value: Option<f64>| value.map_or_else(|| ABSENT.to_owned(), significant);
    for row in &report.rows {
        let mut cells = vec![
            row.name.clone(),
            significant(row.ns_per_packet),
            Kpps(row.packets_per_s / 1e3).to_string(),
            significant(row.cycles_per_packet),
            significant(row.cycles_of_all),
        ];
        if has_instructions {
            cells.extend([maybe(row.instructions_per_packet), maybe(row.instructions_alone)]);
        }
        grid.row(cells);
    }
    let why = match report.instructions_per_cycle {
        Some(_) => String::new(),
        None => line(
            "IPC",
            "depends on the program, so there is no budget in instructions and no table for \
             --instructions: set --ipc, which `linerate stat -m pipeline` measures on a machine \
             with a PMU",
            style,
        ),
    };
    grid.render(style) + &why
}

fn tasks(report: &BudgetReport, style: &Style) -> String {
    let Some(instructions) =
        report.rows.iter().find_map(|row| Some(row.task.as_ref()?.instructions))
    else {
        return String::new();
    };
    let strands = if report.is_this_machine { "threads" } else { "strands" };
    let head = format!(">{strands}");
    let mut grid =
        Grid::new(&[">frame", &head, ">parallel:\nbudget each", ">pipelined:\nbudget each"]);
    let mut beyond = Vec::new();
    for row in &report.rows {
        let Some(task) = &row.task else { continue };
        if !task.fits {
            beyond.push(row.name.as_str());
        }
        grid.row(vec![
            row.name.clone(),
            whole(task.strands),
            significant(task.parallel_instructions),
            significant(task.pipelined_instructions),
        ]);
    }
    let head = format!(
        "{} instructions per packet; the table assumes that distributing packets costs nothing",
        whole(instructions)
    );
    let beyond = match beyond.as_slice() {
        [] => String::new(),
        names => line(strands, &format!("too few for frames of {}", names.join(", ")), style),
    };
    line("task", &head, style) + &grid.render(style) + &beyond
}

type Ceiling = fn(&Ceilings) -> Option<f64>;

const LIMITS: [(&str, Ceiling); 4] = [
    (">interfaces", |of| of.io_packets_per_s),
    (">memory", |of| of.memory_packets_per_s),
    (">instructions", |of| of.issue_packets_per_s),
    (">measured", |of| of.measured_packets_per_s),
];

/// Formats the upper bounds on the forwarding rate other than line rate; empty if none is known.
fn roofline(report: &BudgetReport, style: &Style) -> String {
    let is_known = |of: Ceiling| report.rows.iter().any(|row| of(&row.ceilings).is_some());
    let known: Vec<_> = LIMITS.into_iter().filter(|(_, of)| is_known(*of)).collect();
    if known.is_empty() {
        return String::new();
    }
    let heads: Vec<&str> =
        [">frame"].into_iter().chain(known.iter().map(|(head, _)| *head)).collect();
    let mut grid = Grid::new(&heads);
    let cell = |row: &BudgetRow, of: Ceiling| {
        of(&row.ceilings).map_or_else(|| ABSENT.to_owned(), |rate| Kpps(rate / 1e3).to_string())
    };
    for row in &report.rows {
        let cells = known.iter().map(|(_, of)| cell(row, *of));
        grid.row([row.name.clone()].into_iter().chain(cells).collect());
    }
    let twice =
        "upper bounds on forwarding, all ports together; each byte crosses the memory bus twice";
    let pipes = if report.is_this_machine { "cores" } else { "pipes" };
    let issued = report.rows.iter().any(|row| row.ceilings.issue_packets_per_s.is_some());
    let head = match issued {
        true => format!("{twice}; the instruction bound is the combined issue rate of all {pipes}"),
        false => twice.to_owned(),
    };
    line("roofline", &head, style) + &grid.render(style)
}

fn shortfall(report: &BudgetReport, style: &Style) -> String {
    let Some(shortfall) = &report.shortfall else {
        return String::new();
    };
    let rate = Kpps(shortfall.packets_per_s / 1e3);
    let measured = format!(
        "{rate} with {}-byte frames: {} % of line rate",
        significant(shortfall.frame_bytes),
        percent(shortfall.share_of_line),
    );
    let holds = holds(shortfall);
    let if_flat = format!("{holds}, if the cost per packet does not depend on frame size");
    line("measured", &measured, style) + &line("holds", &if_flat, style)
}

/// Describes the frame sizes with which the path sustains line rate.
fn holds(shortfall: &Shortfall) -> String {
    let shortest = shortfall.share_of_line_at_shortest;
    if shortest >= 1.0 {
        return "line rate is sustained with the shortest frames".to_owned();
    }
    let shortest = percent(shortest);
    match shortfall.share_at_longest() {
        Some(longest) => format!(
            "line rate is sustained at no standard frame size; {LONGEST_FRAME}-byte frames reach \
             {} % of it, and the shortest frames reach {shortest} %",
            percent(longest)
        ),
        None => format!(
            "line rate is sustained for frames of {} bytes or more; the shortest frames reach \
             {shortest} % of it",
            whole(shortfall.holds_from_bytes.ceil()),
        ),
    }
}
