// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate memory`: measures the memory hierarchy with dependent loads and bandwidth tests.

mod args;
mod events;

pub(crate) use self::args::MemoryArgs;
use crate::emit::{self, Answer, Forms};
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use crate::interrupt::{INTERRUPTED, stop_on_interrupt};
use crate::processors::processor;
use crate::progress::Progress;
use crate::provenance;
use linerate_hierarchy::profile::unfit;
use linerate_memory::{Request, Watch, measure, profile};
use linerate_record::memory::MemoryReport;
use linerate_record::{Body, Provenance, Record};
use std::io::Write;
use std::path::Path;

/// Measures the memory hierarchy, prints the report, and stores it for other commands.
pub(crate) fn memory(args: &MemoryArgs) -> Result<Answer, Failure> {
    if let Some(chase) = args.chase {
        return chase.walk();
    }
    if args.caches.is_some() && !args.events {
        return Err(Failure::new("--caches applies to simulated events: add --events"));
    }
    let cpu = processor(args.cpu)?;
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    args.plots.make_folder()?;
    let simulation = events::Simulation::given(args)?;
    let provenance = provenance::provenance();
    let request = Request {
        effort: args.effort(),
        cpu: Some(cpu),
        max_bytes: args.max,
        pages: args.pages,
        seed: args.seed,
    };
    let stop = stop_on_interrupt()?;
    let progress = Progress::new(args.output.quiet());
    let show = |part: &str, share: f64| {
        progress.step(part);
        progress.at(share);
    };
    // Check the load on all CPUs: a program on another CPU shares the memory, and often the
    // last-level cache.
    let allowed = linerate_linux::allowed_cpus().map_err(Failure::new)?;
    let provenance = Provenance { others: provenance::others(&allowed), ..provenance };
    let outcome = measure(&request, &Watch::new(stop, &show));
    progress.clear();
    let mut report = outcome.map_err(Failure::new)?;
    // The measurement is reported even if the simulation fails.
    let simulated = simulation.map_or(Ok(()), |simulation| simulation.run(&mut report, stop));
    let drawing = args
        .plots
        .draw(|| vec![linerate_report::svg::memory(&report, &provenance).ok_or("nothing to plot")]);
    let record = Record { provenance, body: Body::Memory(Box::new(report.clone())) };
    let forms = Forms::from(&args.output);
    let forms = if args.all { forms.in_full() } else { forms };
    also(emit::emit(forms, &record), drawing.write(args.output.quiet()))?;
    if report.conditions.interrupted {
        return Err(Failure::new(INTERRUPTED));
    }
    keep(args, &record, &report);
    simulated?;
    Ok(Answer::Done)
}

/// Writes a file atomically.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    files::write_with(file, |to| to.write_all(text.as_bytes()))
}

/// Stores the record as this machine's profile, if it is suitable, and prints the file name. A
/// record that cannot be stored causes a warning, not an error.
fn keep(args: &MemoryArgs, record: &Record, report: &MemoryReport) {
    if args.no_store {
        return;
    }
    let cut_short = args.max.map(|_| "limited by --max".to_owned());
    let not_kept = "not stored as this machine's profile";
    let said = match cut_short.or_else(|| unfit(report)) {
        Some(reason) => format!("note:       {not_kept}, since {reason}"),
        None => match profile::store(record, replace) {
            Ok(file) => {
                format!("note:       stored as this machine's profile: {}", file.display())
            }
            Err(reason) => format!("warning:    {not_kept}: {reason}"),
        },
    };
    if !args.output.quiet() {
        emit::say(&format!("{said}\n"));
    }
}
