// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate memory`: the memory hierarchy, as loads meet it.

mod args;

pub(crate) use self::args::MemoryArgs;
use crate::emit::{self, Answer};
use crate::failure::{Failure, also};
use crate::figures;
use crate::files::{self, Files};
use crate::processors::processor;
use crate::profile;
use crate::progress::Progress;
use crate::run::stop_on_interrupt;
use linerate_memory::{Request, Watch, measure, summary};
use linerate_record::memory::MemoryReport;
use linerate_record::{Body, Provenance, Record, Warning};
use linerate_report::svg::Plot;
use linerate_report::{Detail, Glyphs};
use std::path::Path;

/// Windows below this share of clean ones are worth a warning: intervals are wider then.
const PREEMPTED_SHARE: f64 = 0.25;

/// Measures the hierarchy, prints the report and keeps it for other commands.
pub(crate) fn memory(args: &MemoryArgs) -> Result<Answer, Failure> {
    let cpu = processor(args.cpu)?;
    Files::default()
        .writes("--record", args.record.as_ref())
        .writes("--svg", args.svg.as_ref())
        .check()?;
    let provenance = figures::provenance();
    let request = Request {
        effort: args.effort(),
        cpu: Some(cpu),
        max_bytes: args.max,
        pages: args.pages,
        seed: args.seed,
    };
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.quiet);
    let show = |part: &str, share: f64| {
        progress.step(part);
        progress.at(share);
    };
    // All of them: whoever uses another processor uses the same memory, and often the last cache.
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let others = figures::others(&allowed);
    let outcome = measure(&request, &Watch::new(&stop, &show));
    progress.clear();
    let report = outcome.map_err(Failure::new)?;
    let plot =
        args.svg.as_ref().map(|file| (linerate_report::svg::memory(&report, &provenance), file));
    let detail = if args.all { Detail::Full } else { Detail::Brief };
    let style = emit::style(emit::WHOLE);
    let text = linerate_report::memory(&report, &provenance, detail, glyphs(), &style);
    let warnings = others.into_iter().chain(warnings(&report, &provenance)).collect();
    let record = Record {
        provenance,
        figures: summary::figures(&report),
        warnings,
        body: Body::Memory(Box::new(report.clone())),
    };
    let printed = emit::emit(args, &record, &text);
    also(printed, plot.map_or(Ok(()), |(plot, file)| draw(plot, file, args.quiet)))?;
    if report.conditions.interrupted {
        return Err(Failure::new("interrupted: what was measured until then stands above"));
    }
    keep(args, &record, &report);
    Ok(Answer::Done)
}

/// Writes the plot, if there is anything to plot.
fn draw(plot: Option<Plot>, file: &Path, quiet: bool) -> Result<(), Failure> {
    let Some(plot) = plot else {
        if !quiet {
            emit::say("warning:    --svg: nothing to plot, no file was written\n");
        }
        return Ok(());
    };
    files::write(file, plot.svg)
}

/// Keeps the record as the profile of this machine, unless it is not one; says where. That it
/// cannot be kept fails nothing.
fn keep(args: &MemoryArgs, record: &Record, report: &MemoryReport) {
    if args.no_store {
        return;
    }
    let cut_short = args.max.map(|_| "--max cut it short".to_owned());
    let not_kept = "not kept as the profile of this machine";
    let said = match cut_short.or_else(|| profile::unfit(report)) {
        Some(reason) => format!("{not_kept}, since {reason}"),
        None => match profile::store(record) {
            Ok(file) => format!("kept as the profile of this machine: {}", file.display()),
            Err(reason) => format!("{not_kept}: {reason}"),
        },
    };
    if !args.quiet {
        emit::say(&format!("linerate: {said}\n"));
    }
}

fn warnings(report: &MemoryReport, provenance: &Provenance) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if report.timer.invariant == Some(false) {
        warnings.push(Warning::UnsteadyCounter);
    }
    if provenance.emulated == Some(true) {
        warnings.push(Warning::Emulated);
    }
    if let Some(reason) = report.timer.core_ghz.reason.clone() {
        warnings.push(Warning::UnknownCoreClock { reason });
    }
    let (all, dropped) = (report.conditions.windows, report.conditions.windows_dropped);
    let share = if all == 0 { 0.0 } else { dropped as f64 / all as f64 };
    if share > PREEMPTED_SHARE {
        warnings.push(Warning::PreemptedWindows { share });
    }
    warnings
}

/// Eight dots to a character where the terminal is said to know them: of the three variables that
/// may say so, the first that says anything counts, as in locale(7).
fn glyphs() -> Glyphs {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| value.to_lowercase())
    });
    let is_utf_8 = said.is_some_and(|value| value.contains("utf-8") || value.contains("utf8"));
    if is_utf_8 { Glyphs::Braille } else { Glyphs::Ascii }
}
