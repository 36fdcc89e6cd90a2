// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate why`: finds the bottleneck of a running program.

mod args;
mod bundle;
mod demo;

pub(crate) use self::args::WhyArgs;
use crate::emit::{self, Answer, Lines};
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use crate::interrupt::stop_on_interrupt;
use crate::progress::Progress;
use crate::provenance;
use linerate_explain::why::Diagnosis;
use linerate_observe::{Request, Target, observe};
use linerate_record::why::WhyReport;
use linerate_record::{Body, Record};
use linerate_report::Options;
use linerate_trial::Watch;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Observes a program and prints its bottleneck.
pub(crate) fn why(args: &WhyArgs) -> Result<Answer, Failure> {
    Files::default()
        .writes("--record", args.output.record.as_ref())
        .writes("--bundle", args.bundle.as_ref())
        .writes("--output", args.file())
        .check()?;
    if let Some(part) = args.demo_part {
        return demo::play(part, args.window());
    }
    if args.every.is_some() {
        args.output.check_plain("--every")?;
    }
    emit::note_streams(&args.output, args.destination(), !args.command.is_empty());
    let stop = stop_on_interrupt()?;
    match args.every {
        _ if args.demo => demo::demo(args, stop),
        Some(every) => repeat(args, Duration::from_secs_f64(every), stop),
        None => show(args, &watch(args, &target(args), args.window(), stop)?, ""),
    }
}

fn target(args: &WhyArgs) -> Target {
    match (&args.name, &args.interface) {
        (Some(name), _) => Target::Name(name.clone()),
        (None, Some(name)) => Target::Interface(name.clone()),
        (None, None) if !args.command.is_empty() => Target::Command(args.command.clone()),
        (None, None) => Target::Pids(args.pids.clone()),
    }
}

/// Observes the program for one window and explains the result.
fn watch(
    args: &WhyArgs,
    target: &Target,
    window: Duration,
    stop: &AtomicBool,
) -> Result<Record, Failure> {
    let progress = Progress::new(args.output.quiet());
    let follow = |step: &str, share: f64| {
        progress.step(step);
        progress.at(share);
    };
    let request = Request { target: target.clone(), window, line_bits_per_s: args.line };
    let observed = observe(&request, &Watch::new(stop, &follow));
    progress.clear();
    let observation = observed.map_err(Failure::new)?;
    let Diagnosis { findings, remarks } = linerate_explain::why::explain(&observation);
    let body = Body::Why(Box::new(WhyReport { observation, findings, remarks }));
    Ok(Record { provenance: provenance::without_ticks(), body })
}

/// Prints a record in the requested formats. Text ends with `suffix`.
fn show(args: &WhyArgs, record: &Record, suffix: &str) -> Result<Answer, Failure> {
    let form = args.output.form_of("why");
    let finish = |text| text + suffix;
    let options = options(args);
    let shown = emit::show(&args.output, form, args.destination(), record, &options, finish);
    let bundled = args
        .bundle
        .as_ref()
        .map_or(Ok(()), |file| files::write(file, bundle::bundle(record, args.with_command_line)?));
    also(shown, bundled)
}

/// Observes one window after another until the user interrupts, the observed program exits, or the
/// reader of the output does. Prints a line or a record for each window.
fn repeat(args: &WhyArgs, every: Duration, stop: &AtomicBool) -> Result<Answer, Failure> {
    let window = args.window().min(every);
    let mut lines = Lines::to(args.destination());
    let mut is_first = true;
    loop {
        let began = Instant::now();
        let record = match watch(args, &target(args), window, stop) {
            Ok(record) => record,
            // The observed program has exited, and all windows have been printed.
            Err(_) if !is_first => return Ok(Answer::Done),
            Err(failure) => return Err(failure),
        };
        is_first = false;
        let Body::Why(report) = &record.body else { return Ok(Answer::Done) };
        let text = match args.output.json() {
            true => record.to_json_line().map_err(Failure::new)?,
            false => linerate_report::why_line(report, &args.destination().style()),
        };
        if !lines.put(&text)? {
            return Ok(Answer::Done);
        }
        while began.elapsed() < every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Answer::Done);
        }
    }
}

fn options(args: &WhyArgs) -> Options {
    Options { style: args.destination().style(), ..emit::options(args.output.detail()) }
}
