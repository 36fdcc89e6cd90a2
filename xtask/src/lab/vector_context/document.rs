// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the comparison as a document, and lists missed goals.

use super::plan::{COMPARED, RIGHT, Row, SCHEMES, TRAFFIC, checked, unflagged};
use super::predicted::verdict;
use super::run::{Mode, Ran, Settings, grouped, percent};
use super::{MANY, Results, an2581, find};
use std::fmt::Write;

/// Goal: under the traffic load, `per-task` executes at least this many times the
/// context-management instructions of `exclusive`.
const LEAST_RATIO: f64 = 5.0;
/// Goal: under `exclusive` and `hooked`, context management takes at most this percentage of all
/// instructions if tasks do more than guarded calls.
const MOST_PERCENT: f64 = 1.0;
const OURS: [&str; 2] = ["exclusive", "hooked"];

pub(super) fn document(
    checks: &Results,
    sweeps: &[(&str, Vec<Row>)],
    costs: &Results,
    suspended: &Results,
) -> String {
    let mut text = right(checks);
    for (name, rows) in sweeps {
        text += &load(name, rows, costs);
    }
    text += &an2581::section(costs);
    text += &goals(sweeps, costs);
    text += &unflagged_task(suspended);
    text
}

/// Formats the number of tasks, and their work per packet.
fn vector_tasks(s: &Settings) -> String {
    format!(
        "{}, of which {} always have a packet; {}, {} path instructions per packet",
        s.tasks,
        s.busy,
        s.pattern_name(),
        2 * s.path
    )
}

fn settings(s: &Settings) -> String {
    format!(
        "{} ticks/s, {} interrupts/s, vector tasks: {}, task lifetime {}, {} ms",
        s.ticks_per_s,
        s.interrupts_per_s,
        vector_tasks(s),
        if s.life == 0 { "unlimited".to_owned() } else { format!("{} packet", s.life) },
        s.duration_ms,
    )
}

/// Formats the table of corrupted registers, by owner.
fn right(checks: &Results) -> String {
    let mut text = format!(
        "## Register leaks between contexts\n\nWhen a context is interrupted, its vector \
         registers (v0 to v31 and VSCR) are copied, and compared when it continues. This covers \
         contexts that own the registers; under `lazy` and `per-task`, it covers all contexts \
         that have used them or are flagged. Sums are compared with known sums. Interrupts arrive \
         at random intervals of 480 to 2,400 instructions, drawn from a fixed seed. A run ends \
         after {} task switches and interrupts, or after {} if corruption is expected; it also \
         ends, as `stalled`, once no task has finished a packet for 20,000,000 instructions. \
         `deepest` is the maximum nesting depth of interrupts, and `models` is the prediction of \
         the [models](vector-models.md). A run fails if its defects are not those that the models \
         predict. A run that stalls does not show what would have happened later.\n",
        grouped(MANY.0.into()),
        grouped(MANY.1.into())
    );
    for mode in Mode::CHECKED {
        let s = checked(mode, MANY.0);
        let _ = writeln!(
            text,
            "\n### {}\n\n{}. Vector tasks: {}, {} ticks/s.\n\n\
             | scheme | switches | interrupts | deepest | compared | corrupt | wrong sums | scalar \
             instead | stalled | models |\n|---|---:|---:|---:|---:|---:|---:|---:|---|---|",
            mode.name(),
            mode.what(),
            vector_tasks(&s),
            s.ticks_per_s
        );
        let runs = SCHEMES.iter().filter_map(|scheme| {
            checks.iter().find(|(run, _)| run.scheme == *scheme && run.settings.mode == mode)
        });
        for (run, ran) in runs {
            let n = |name| grouped(ran.number(name));
            let models = verdict(run).map_or_else(String::new, |verdict| verdict.words());
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {models} |",
                run.scheme,
                n("switches"),
                n("interrupts"),
                n("deepest"),
                n("compared"),
                n("corrupt"),
                n("wrong"),
                n("refused"),
                if ran.number("stalled") > 0 { "yes" } else { "no" }
            );
        }
    }
    text + "\n"
}

fn load(name: &str, rows: &[Row], costs: &Results) -> String {
    let base = rows[0].settings;
    let mut text = format!(
        "## Costs under the {name} load\n\n{}.\n\n{}. In tables with one column per scheme, each \
         row names the setting that differs from these.\n\n",
        if base.busy == 0 {
            "Each interrupt delivers a packet to the task that waits for it; the rest of the time \
             is background"
        } else {
            "All tasks but one always have packets and take turns; interrupts wake the remaining \
             one"
        },
        settings(&base)
    );
    text += "Shares are relative to all instructions: `context` is what the scheme executes, \
             `kernel` the rest of the exception handlers and the scheduler, and `background` the \
             remainder. Each of the `saves made` saves all registers; `needed` counts those that \
             no scheme can avoid, because a context used vectors while another one owned \
             them.\n\n";
    text += "| scheme | context | kernel | background | saves made | needed | restores | traps | \
             scalar instead | packets | worst latency |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for scheme in COMPARED {
        let ran = find(costs, scheme, base);
        let n = |name| grouped(ran.number(name));
        let counted = ran.counted();
        let share = |part| percent(part, ran.executed());
        let _ = writeln!(
            text,
            "| {scheme} | {:.4} % | {:.3} % | {:.1} % | {} | {} | {} | {} | {} | {} | {} |",
            ran.share(),
            share(counted.kernel),
            share(counted.background),
            n("saves"),
            n("needed"),
            n("restores"),
            n("traps"),
            n("refused"),
            n("packets"),
            ran.latency()
        );
    }
    text += "\nContext management as a share of all instructions, and worst-case interrupt \
             latency in instructions: the longest stretch with interrupts disabled, plus the code \
             before the service routine.\n\n";
    text += &table(rows, costs, |ran| format!("{:.3} % · {}", ran.share(), ran.latency()));
    if base.busy > 0 {
        text += "\nPackets handled, and saves made / needed:\n\n";
        text += &table(rows, costs, |ran| {
            let [packets, saves, needed] = ["packets", "saves", "needed"].map(|n| ran.number(n));
            format!("{} · {saves} / {needed}", grouped(packets))
        });
    }
    text + "\n"
}

fn table(rows: &[Row], costs: &Results, cell: impl Fn(&Ran) -> String) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", COMPARED.join(" | "), "---:|".repeat(6));
    for Row { name, settings } in rows {
        let cells = COMPARED.map(|scheme| cell(find(costs, scheme, *settings)));
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

/// Returns the ratio of context-management instructions under `per-task` to those under
/// `exclusive`.
fn ratio(costs: &Results, settings: Settings) -> f64 {
    let context = |scheme| find(costs, scheme, settings).counted().context;
    percent(context("per-task"), context("exclusive").max(1)) / 100.0
}

/// Returns the settings with which our schemes exceed [`MOST_PERCENT`], with the reason if known.
fn above<'a>(rows: &'a [Row], costs: &Results) -> Vec<(String, Option<&'a str>)> {
    let mut found = Vec::new();
    for Row { name, settings } in rows {
        for scheme in OURS {
            let share = find(costs, scheme, *settings).share();
            if share <= MOST_PERCENT {
                continue;
            }
            let why = (settings.path == 0).then_some("tasks do nothing but guarded calls");
            let load = if settings.busy > 0 { "busy" } else { "traffic" };
            found.push((format!("{scheme}, {load} load, {name}: {share:.2} %"), why));
        }
    }
    found
}

fn goals(sweeps: &[(&str, Vec<Row>)], costs: &Results) -> String {
    let mut text = "## Goals\n\n".to_owned();
    for (name, rows) in sweeps {
        let _ = writeln!(
            text,
            "- {name} load, 5,000 interrupts/s, 60 ticks/s, all tasks flagged: `per-task` executes \
             {:.1} times the context instructions of `exclusive` (goal: at least {LEAST_RATIO} \
             under the traffic load).",
            ratio(costs, rows[0].settings)
        );
    }
    let all: Vec<Row> = sweeps.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let above = above(&all, costs);
    let _ = writeln!(
        text,
        "- `exclusive` and `hooked` take at most {MOST_PERCENT} % of instructions in {} of {} \
         runs{}",
        2 * all.len() - above.len(),
        2 * all.len(),
        if above.is_empty() { "." } else { "; the exceptions:" }
    );
    for (what, why) in above {
        let _ = writeln!(text, "  - {what} ({})", why.unwrap_or("missed"));
    }
    let corrupt = RIGHT.map(|scheme| format!("`{scheme}`"));
    let _ = writeln!(text, "- no corruption under {}: see above.\n", corrupt.join(", "));
    text
}

/// Returns the first goal that was missed.
pub(super) fn goals_missed(rows: &[Row], costs: &Results) -> Option<String> {
    let ratio = ratio(costs, TRAFFIC);
    if ratio < LEAST_RATIO {
        return Some(format!(
            "per-task executes only {ratio:.1} times the context instructions of exclusive; the \
             goal is at least {LEAST_RATIO}"
        ));
    }
    let missed = above(rows, costs).into_iter().find(|(_, why)| why.is_none());
    missed.map(|(what, _)| format!("context management takes more than {MOST_PERCENT} %: {what}"))
}

fn unflagged_task(suspended: &Results) -> String {
    let ran = &suspended[&unflagged()];
    format!(
        "## A task not flagged as using vectors\n\nUnder `per-task` and the traffic load, with one \
         of four tasks not flagged: {} trap, {} task suspended; {} packets handled and {} dropped, \
         because the suspended task handles no more.\n",
        ran.number("traps"),
        ran.number("suspended"),
        ran.number("packets"),
        ran.number("dropped")
    )
}
