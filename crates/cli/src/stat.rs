// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stat`: counts events of a command, a process or CPUs.
//!
//! To keep the overhead low for short commands, any work that counting does not require is done
//! after the command has exited.

mod args;
pub(crate) mod caches;
mod list;

use self::args::EventList;
pub(crate) use self::args::StatArgs;
use crate::appearance::{Form, STAT};
use crate::emit::{self, Answer};
use crate::failure::Failure;
use crate::files::Files;
use crate::{input, provenance};
use linerate_record::stat::{StatReport, StatTarget};
use linerate_record::units::three_digits;
use linerate_record::{Body, Record};
use linerate_report::{Detail, Options, Style};
use linerate_stat::{DEFAULT_SLICE, Outcome, Progress, Request, Watch, What};
use std::path::Path;
use std::time::Duration;

/// Minimum line width of this command's output, including --list.
const LIST_COLUMNS: usize = 80;

/// Name of the metric set that consists of rpistat's events.
const RPISTAT: &str = "rpistat";

/// Counts the requested events and prints the report.
pub(crate) fn stat(args: &StatArgs) -> Result<Answer, Failure> {
    if args.list {
        args.output.check_plain("--list")?;
        return emit::put(args.destination(), &list::list(args.output.json(), &style(args)));
    }
    let request = request(args)?;
    Files::default()
        .may_read("the baseline", args.baseline.as_ref())
        .writes("--record", args.output.record.as_ref())
        .writes("--output", args.file())
        .check()?;
    let signals = linerate_linux::signal::catch()
        .map_err(|error| Failure::new(format!("cannot install signal handlers: {error}")))?;
    let tell = |progress: Progress<'_>| {
        if !args.output.quiet() {
            emit::say(&said(progress));
        }
    };
    let outcome = request
        .run(&Watch { signals, tell: &tell })
        .map_err(|error| Failure::new(lines(&error.to_string())))?;
    show(args, outcome)
}

fn request(args: &StatArgs) -> Result<Request, Failure> {
    let what = match (args.pid, &args.cpu) {
        (Some(pid), _) => What::Process(pid),
        (None, Some(cpus)) => What::Cpus(cpus.0.clone()),
        (None, None) => What::Command { argv: args.command.clone() },
    };
    let mut sets = args.metrics.clone();
    if args.output.form_of(STAT) == Form::Rpistat && !sets.iter().any(|set| set == RPISTAT) {
        sets.push(RPISTAT.to_owned());
    }
    let baseline = args.baseline.as_deref().map(read_record).transpose()?.map(Box::new);
    Ok(Request {
        events: args.events.iter().flat_map(|EventList(events)| events.clone()).collect(),
        sets,
        tier: args.tier,
        interval: args.interval,
        repeat: args.repeat,
        per: args.per.clone(),
        threads: args.threads,
        at_most: args.time,
        slice: args.slice.unwrap_or(DEFAULT_SLICE),
        seed: args.seed,
        strict: args.strict,
        caches: caches::caches(args, baseline.as_deref())?,
        plugin: Some(linerate_cachesim::PLUGIN),
        simulator: caches::simulator(args, baseline.as_deref())?,
        hot: args.hot.clone(),
        baseline,
        threshold: args.threshold(),
        ..Request::new(what)
    })
}

fn read_record(file: &Path) -> Result<Record, Failure> {
    let name = file.display();
    let json = input::text(file, input::RECORD)
        .map_err(|error| Failure::new(format!("cannot read the baseline {name}: {error}")))?;
    Record::from_json(&json).map_err(|error| Failure::new(format!("baseline {name}: {error}")))
}

/// Formats a progress message for stderr.
fn said(progress: Progress<'_>) -> String {
    match progress {
        Progress::Budget { sets, slice, least } => {
            let (count, ms) = (sets.len(), |time: Duration| three_digits(time.as_secs_f64() * 1e3));
            format!(
                "linerate: multiplexing {count} event sets in slices of about {} ms; each set is \
                 counted {} % of the time; error bounds are available after {} ms\n",
                ms(slice),
                three_digits(100.0 / count as f64),
                ms(least)
            )
        }
        Progress::Interval { names, counts } => {
            let style = Style { color: false, ..emit::style() };
            linerate_report::interval_line(names, counts, &style)
        }
        _ => String::new(),
    }
}

/// Prints the counts to their destination, and errors and warnings to stderr. If the JSON record
/// goes to stderr, warnings are not printed separately, because the record contains them.
fn show(args: &StatArgs, outcome: Outcome) -> Result<Answer, Failure> {
    let Outcome { mut report, status, failure, code } = outcome;
    report.hot = code.as_ref().map(linerate_observe::hot_spots);
    let never_began = failure.is_some() && never_began(&report);
    let record =
        Record { provenance: provenance::without_ticks(), body: Body::Stat(Box::new(report)) };
    let form = args.output.form_of(STAT);
    // If the command did not start, the reason is printed below, and an empty table adds nothing.
    let shown = match never_began && form != Form::Json {
        true => emit::keep(&args.output, &record).map(|()| Answer::Done),
        false => {
            let destination = args.destination();
            emit::show(&args.output, form, destination, &record, &options(args), |text| text)
        }
    };
    if let Some(failure) = failure {
        emit::say(&format!("linerate: {}\n", lines(&failure)));
    }
    shown?;
    Ok(Answer::Status(u8::try_from(status).unwrap_or(125)))
}

/// Prepends `linerate: ` to every line but the first.
fn lines(text: &str) -> String {
    text.replace('\n', "\nlinerate: ")
}

/// Returns whether a command could not be started.
fn never_began(report: &StatReport) -> bool {
    matches!(report.target, StatTarget::Command { .. }) && report.ended.is_none()
}

/// Returns the display options for the result's destination.
fn options(args: &StatArgs) -> Options {
    let detail = if args.explain { Detail::Full } else { args.output.detail() };
    Options { style: style(args), ..emit::options(detail) }
}

fn style(args: &StatArgs) -> Style {
    let style = args.destination().style();
    Style { width: style.width.max(LIST_COLUMNS), ..style }
}
