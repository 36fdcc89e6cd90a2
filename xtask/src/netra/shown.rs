// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of what the program prints and draws: budgets, the dump, tables of misses, plans.

use super::FOLDER;
use super::misses::TABLES;
use super::reach::{self, Row, near};
use crate::command::{output, program, root};
use crate::evidence::section;
use linerate_record::strands::{StrandCounts, StrandsReport};
use linerate_record::{Body, Record};
use std::fs;
use std::path::Path;

/// Pages by name, and the figures on them.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) files: Vec<(&'static str, String)>,
    pub(super) rows: Vec<Row>,
}

/// The program as it was built.
pub(super) struct Program<'p>(pub(super) &'p Path);

impl Program<'_> {
    fn print(&self, args: &str) -> Result<String, String> {
        let words: Vec<&str> = args.split_whitespace().collect();
        let printed = output(program(&self.0.to_string_lossy(), &words))?;
        String::from_utf8(printed).map_err(|error| format!("linerate {args}: {error}"))
    }

    fn record(&self, args: &str) -> Result<Record, String> {
        Record::from_json(&self.print(&format!("{args} --json --quiet"))?)
            .map_err(|error| format!("linerate {args}: {error}"))
    }

    fn strands(&self, args: &str) -> Result<StrandsReport, String> {
        match self.record(args)?.body {
            Body::Strands(report) => Ok(*report),
            _ => Err(format!("linerate {args}: not what import makes")),
        }
    }

    /// A section of a page: the command and what it prints.
    fn section(&self, args: &str) -> Result<String, String> {
        Ok(section(&format!("linerate {args}"), &self.print(args)?))
    }

    fn number(&self, args: &str, name: &str) -> Result<f64, String> {
        let record = self.record(args)?;
        let figure = record.figures().get(name).and_then(|figure| figure.as_number());
        figure.ok_or_else(|| format!("linerate {args}: no figure `{name}`"))
    }
}

/// All pages of what the program prints.
pub(super) fn write(linerate: &Program<'_>) -> Result<Pages, String> {
    let mut pages = Pages::default();
    budget(linerate, &mut pages)?;
    dump(linerate, &mut pages)?;
    misses(linerate, &mut pages)?;
    plans(linerate, &mut pages)?;
    Ok(pages)
}

fn head(title: &str, what: &str) -> String {
    format!("# {title}\n\nWritten by `cargo xtask evidence netra`. {what}\n\n")
}

const BUDGET: &str = "budget.md";

fn budget(linerate: &Program<'_>, pages: &mut Pages) -> Result<(), String> {
    let shortest = "budget --machine t1 --line 1Gb/s --frame 64 --instructions 575";
    let shown = |args: &str| format!("linerate {args}");
    let record = linerate.record(shortest)?;
    let Body::Budget(report) = &record.body else {
        return Err(format!("linerate {shortest}: not a budget"));
    };
    let row = report.rows.first().ok_or("a budget without rows")?;
    let instructions = row.instructions_per_packet.ok_or("no budget in instructions")?;
    let task = row.task.as_ref().ok_or("no task")?;
    let mut rows = vec![
        near("ns between packets of 64 bytes", (672.0, 0.5, 0), row.ns_per_packet, "", BUDGET),
        near(
            "million packets per second (the document: 1.44, a slip)",
            (1.488, 5e-4, 3),
            row.packets_per_s / 1e6,
            "",
            BUDGET,
        ),
        near("instructions of a strand in 672 ns", (202.0, 0.5, 0), instructions, "", BUDGET),
        near("strands for 575 instructions", (3.0, 0.0, 0), task.strands, "", BUDGET),
        near(
            "instructions they may spend",
            (606.0, 0.0, 0),
            task.parallel_instructions,
            "",
            BUDGET,
        ),
    ];
    rows.iter_mut().for_each(|row| row.command = shown(shortest));
    for (machine, wanted) in [("t1", 9.6), ("t2", 22.4)] {
        // One instruction per packet: the rate is that of instructions.
        let args = format!("budget --machine {machine} --line 1Gb/s --frame 64 --instructions 1");
        let Body::Budget(report) = linerate.record(&args)?.body else {
            return Err(format!("linerate {args}: not a budget"));
        };
        let rate = report.rows.first().and_then(|row| row.ceilings.issue_packets_per_s);
        let rate = rate.ok_or("no rate of instructions")?;
        let what = format!("thousand million instructions per second of the {machine}");
        rows.push(near(&what, (wanted, 0.05, 1), rate / 1e9, &shown(&args), BUDGET));
    }
    let mut text = head(
        "Budgets of the Netra document",
        "Computed from the processors' figures (tier `model`); rates marked as measured are the \
         document's.",
    );
    text += &reach::table(&rows);
    text += &linerate.section(shortest)?;
    for (number, args, plot, what) in [
        ("10-3", "budget --machine t1 --line 10Gb/s", "ceilings", "packet rates of the T1"),
        ("10-4", "budget --machine t1 --line 1Gb/s", "budget", "instructions per packet by size"),
        (
            "10-5",
            "budget --machine t2 --line 10Gb/s --instructions 488",
            "ceilings",
            "packet rates of the T2, by processor and memory",
        ),
    ] {
        let file = format!("figure-{number}/{plot}.svg");
        let args = format!("{args} --svg {FOLDER}/figure-{number}");
        text += &linerate.section(&args)?;
        text += &format!("Figure {number}, {what}:\n\n![figure {number}: {what}]({file})\n\n");
    }
    text += "Figure 10-3 draws the document's measured rates, of which the text has one: 3300 kpps \
             with 64 bytes. In figure 10-5 the instructions of a packet are those of the sample \
             profile, 488: the document does not say which application it drew.\n";
    pages.files.push((BUDGET, text));
    pages.rows.append(&mut rows);
    Ok(())
}

const DUMP: &str = "dump.md";

fn dump(linerate: &Program<'_>, pages: &mut Pages) -> Result<(), String> {
    let args = "import examples/netra-sample.dump --machine t1";
    let report = linerate.strands(args)?;
    let strand = report.strands.first().ok_or("a dump without strands")?;
    let command = format!("linerate {args}");
    let number = |figure: &linerate_record::Figure| figure.as_number().ok_or("an absent figure");
    let pti = |strand: &StrandCounts, name: &str| {
        strand.event(name).and_then(|event| event.pti.as_number()).ok_or("an event is missing")
    };
    let near = |what: &str, wanted, found| near(what, wanted, found, &command, DUMP);
    let mut rows = vec![
        near("thousand packets per second", (311.0, 0.05, 1), number(&strand.kpps)?),
        near("instructions per packet", (488.0, 0.5, 0), number(&strand.instructions_per_packet)?),
        near("cycles per instruction", (7.905, 0.005, 3), number(&strand.cpi)?),
        near("DC misses per 1000 instructions", (44.95, 0.005, 2), pti(strand, "dc")?),
        near("L2 data misses, likewise", (9.44, 0.005, 2), pti(strand, "l2_dmiss")?),
    ];
    let mut text = head(
        "The sample dump of the Netra document",
        "`examples/netra-sample.dump` is its code example 10-2; what is wanted follows from its \
         figures by hand, for the document prints no result of it.",
    );
    text += &reach::table(&rows);
    text += &linerate.section(args)?;
    let back = "export - --format profile-dump";
    text += "[The tutorial](../../tutorials/netra-profile.md) goes through it, damage included; ";
    text += &format!("`linerate {back}` writes the format again.\n");
    pages.files.push((DUMP, text));
    pages.rows.append(&mut rows);
    Ok(())
}

const MISSES: &str = "misses.md";

fn misses(linerate: &Program<'_>, pages: &mut Pages) -> Result<(), String> {
    let mut text = head(
        "Tables 10-6 and 10-7 of the Netra document",
        "The document prints cycles per instruction and what misses take of them. The dumps beside \
         this page hold the counts behind that (misses = printed cycles / latency * instructions), \
         and `import` reckons the percentages again. In parentheses: what the rounding of the \
         printed inputs leaves open.",
    );
    for table in &TABLES {
        let file = format!("{FOLDER}/{}", table.file());
        fs::write(root().join(&file), table.dump()).map_err(|error| format!("{file}: {error}"))?;
        let args = format!("import {file} --machine t1");
        let report = linerate.strands(&args)?;
        let mut rows = table.cells(&report.strands, &format!("linerate {args}"), MISSES)?;
        text += &reach::table(&rows);
        text += &format!("{}\n\n", table.bad);
        text += &linerate.section(&args)?;
        pages.rows.append(&mut rows);
    }
    pages.files.push((MISSES, text.trim_end().to_owned() + "\n"));
    Ok(())
}

const PLANS: &str = "plans.md";

/// How far a predicted rate may be from what the document measured.
const RATE_WITHIN: f64 = 0.05;

fn plans(linerate: &Program<'_>, pages: &mut Pages) -> Result<(), String> {
    let mut text = head(
        "The Netra document's application, planned",
        "What `plan` says of both configurations on the T1 it ran on, and of the second on the T2 \
         (tier `model`). The costs are those that [simulator.md](simulator.md) is about.",
    );
    for (name, kpps) in [("config1", 224.0), ("config2", 310.0)] {
        let args = format!("plan --machine t1 examples/rlp-t1-{name}.toml");
        let found = linerate.number(&args, "predicted_kpps")?;
        let what = format!("kpps of each flow, {name}, as planned");
        let command = format!("linerate {args}");
        let wanted = (kpps, kpps * RATE_WITHIN, 0);
        pages.rows.push(near(&what, wanted, found, &command, PLANS));
        let plot = format!("plan-{name}/plan.svg");
        text += &linerate.section(&format!("{args} --svg {FOLDER}/plan-{name}"))?;
        text += &format!("![changes of {name}, and what they are predicted to do]({plot})\n\n");
    }
    text += &linerate.section("plan --machine t2 examples/rlp-t1-config2.toml")?;
    pages.files.push((PLANS, text.trim_end().to_owned() + "\n"));
    Ok(())
}
