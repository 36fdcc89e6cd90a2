// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destinations of results: stdout for people or scripts, a file for the record.

use crate::appearance::{self, Form};
use crate::failure::{Failure, also};
use crate::files;
use crate::terminal;
use clap::Args;
use linerate_exchange::table;
use linerate_record::run::DeadEnd;
use linerate_record::{Body, Figure, Record};
use linerate_report::{Detail, Glyphs, Layout, Options, Style};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What the exit status reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Success.
    Done,
    /// Success, and the answer is no.
    No,
    /// Success: exits with the status of the command that was run.
    Status(u8),
}

/// Checks, before a measurement, that the result can be printed.
pub(crate) fn check_stdout() -> Result<(), Failure> {
    if linerate_linux::stdout_was_open() {
        return Ok(());
    }
    Err(Failure::new(
        "cannot write the result: standard output is closed; open it (`> /dev/null` discards the \
         result)",
    ))
}

/// Prints a text to stdout.
pub(crate) fn print(text: &str) -> Result<Answer, Failure> {
    let text = terminal::safe(text, style().color);
    ended(linerate_linux::write_to_stdout(text.as_bytes()))
}

/// Converts the result of printing to stdout. A closed pipe is not a failure.
pub(crate) fn ended(printed: io::Result<()>) -> Result<Answer, Failure> {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the result: {error}")))
        }
        _ => Ok(Answer::Done),
    }
}

/// Destination of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// Stdout, if no command shares it or if the user asked for it.
    Stdout,
    /// Stderr, because stdout belongs to the measured command.
    Stderr,
    /// A file, as requested.
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// Destination named by `--output`. Without that option: stderr if stdout belongs to a measured
    /// command, otherwise stdout.
    pub(crate) fn of(asked: Option<&'a Path>, has_command: bool) -> Self {
        match asked {
            Some(file) if file.as_os_str() == "-" => Self::Stdout,
            Some(file) => Self::File(file),
            None if has_command => Self::Stderr,
            None => Self::Stdout,
        }
    }

    /// The file, if the destination is a file.
    pub(crate) fn file(self) -> Option<&'a Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Stdout | Self::Stderr => None,
        }
    }
}

/// Writes a result to its destination.
pub(crate) fn put(destination: Destination<'_>, text: &str) -> Result<Answer, Failure> {
    match destination {
        Destination::File(file) => files::write(file, text).map(|()| Answer::Done),
        Destination::Stdout => print(text),
        Destination::Stderr => print_to_stderr(text),
    }
}

/// Prints a result to stderr, because stdout belongs to the command that ran.
fn print_to_stderr(text: &str) -> Result<Answer, Failure> {
    let text = terminal::safe(text, style_on(&io::stderr()).color);
    ended(io::stderr().write_all(text.as_bytes()))
}

/// Prints a text to stderr. Errors are ignored: the measurement is still valid.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(terminal::safe(text, false).as_bytes());
}

/// Maximum line width in columns: longer lines are hard to follow.
const WIDEST: usize = 120;

/// Line width in columns when output does not go to a terminal.
const WIDTH: usize = 100;

/// Minimum line width that can be requested.
const NARROWEST: usize = 40;

/// Output options for stdout, as wide as the terminal.
pub(crate) fn style() -> Style {
    style_on(&io::stdout())
}

/// Output options for this stream.
pub(crate) fn style_on(stream: &(impl IsTerminal + AsFd)) -> Style {
    let width = columns(stream).unwrap_or(WIDTH).clamp(NARROWEST, WIDEST);
    Style { color: appearance::is_colored(stream.is_terminal()), ..Style::plain(width) }
}

/// Options for showing a record on stdout.
pub(crate) fn options(detail: Detail) -> Options {
    Options { style: style(), detail, glyphs: glyphs(), layout: Layout::Table }
}

/// Braille dots if the locale is UTF-8 according to the first of three environment variables that
/// is not empty, as in locale(7).
fn glyphs() -> Glyphs {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| value.to_lowercase())
    });
    let is_utf_8 = said.is_some_and(|value| value.contains("utf-8") || value.contains("utf8"));
    if is_utf_8 { Glyphs::Braille } else { Glyphs::Ascii }
}

/// Line width from `COLUMNS`, or else the width of the terminal on this stream.
fn columns(stream: &impl AsFd) -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(stream);
    asked.or_else(|| terminal().map(|(width, _)| width.0.into())).filter(|columns| *columns > 0)
}

// Options common to all commands whose result is a record.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
    /// Output format: text, json, markdown or csv
    ///
    /// Default: text. A stat record can also be printed as rpistat.
    #[arg(
        long = "format",
        value_enum,
        value_name = "FORMAT",
        conflicts_with = "json",
        hide_possible_values = true
    )]
    form: Option<Form>,
    /// Print every table instead of one screen
    #[arg(long)]
    details: bool,
    /// Also write the record to this file
    ///
    /// - prints the record to stdout instead of the report.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    notices: Notices,
}

// Options common to all commands that write to stderr.
#[derive(Debug, Args)]
pub(crate) struct Notices {
    /// Suppress progress and warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Output {
    /// Format of the result.
    pub(crate) fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => self.form.or_else(appearance::form).unwrap_or(Form::Text),
        }
    }

    /// Whether the result is the record itself.
    pub(crate) fn json(&self) -> bool {
        self.form() == Form::Json
    }

    /// Level of detail.
    pub(crate) fn detail(&self) -> Detail {
        if self.details || appearance::details() { Detail::Brief } else { Detail::Screen }
    }

    /// Whether progress and warnings are suppressed.
    pub(crate) fn quiet(&self) -> bool {
        self.notices.quiet
    }
}

impl<'a> From<&'a Output> for Forms<'a> {
    fn from(output: &'a Output) -> Self {
        let record = output.record.as_ref();
        let to_stdout = record.is_some_and(|file| files::is_stdout(file));
        Self {
            form: if to_stdout { Form::Json } else { output.form() },
            record: record.filter(|_| !to_stdout),
            quiet: output.quiet(),
            detail: output.detail(),
            is_aside: false,
        }
    }
}

/// Requested formats of a command's result.
pub(crate) struct Forms<'a> {
    form: Form,
    record: Option<&'a PathBuf>,
    quiet: bool,
    /// Level of detail.
    detail: Detail,
    /// Whether stdout is used by another result.
    is_aside: bool,
}

impl Forms<'_> {
    /// The same formats, but printed to stderr if `is_aside`, i.e. if another result uses stdout.
    pub(crate) fn aside(self, is_aside: bool) -> Self {
        Self { is_aside, ..self }
    }

    /// Same formats with full detail.
    pub(crate) fn in_full(self) -> Self {
        Self { detail: Detail::Full, ..self }
    }
}

/// Prints the warnings to stderr, then the result; then writes the record to a file, if requested.
/// The result is printed even if the record cannot be written.
pub(crate) fn emit<'a>(forms: impl Into<Forms<'a>>, record: &Record) -> Result<Answer, Failure> {
    let forms = forms.into();
    let json = record.to_json_pretty().map_err(Failure::new)?;
    // Markdown output already contains the warnings.
    if !forms.quiet && forms.form != Form::Markdown {
        warn(record);
    }
    let text = rendered(forms.form, record, &options(forms.detail))?;
    let printed = if forms.is_aside { print_to_stderr(&text) } else { print(&text) };
    also(printed, forms.record.map_or(Ok(()), |file| files::write(file, &json)))
}

/// Renders a record in a format.
///
/// # Errors
/// This kind of record cannot be written in this format.
pub(crate) fn rendered(form: Form, record: &Record, options: &Options) -> Result<String, Failure> {
    let layout = match (form, &record.body) {
        (Form::Text, _) => Layout::Table,
        (Form::Rpistat, Body::Stat(_)) => Layout::Rpistat,
        (Form::Rpistat, _) => {
            return Err(Failure::new("--format rpistat needs a record of `linerate stat`"));
        }
        (Form::Json, _) => return record.to_json_pretty().map_err(Failure::new),
        (Form::Markdown, _) => return Ok(linerate_report::markdown(record, options)),
        (Form::Csv, _) => {
            return table::rows(record).map(|rows| table::csv(&rows)).map_err(Failure::new);
        }
    };
    Ok(linerate_report::text(record, &Options { layout, ..*options }))
}

/// Prints a record's warnings, i.e. the reasons to doubt the record, to stderr.
pub(crate) fn warn(record: &Record) {
    let style = Style { color: false, ..style() };
    say(&linerate_report::warnings(&record.warnings(), &style));
}

/// Returns `met`, or `No` if the latency exceeds its limit.
pub(crate) fn is_prompt(
    met: Answer,
    p99: &Figure,
    limit_ns: Option<f64>,
) -> Result<Answer, Failure> {
    let Some(limit_ns) = limit_ns else { return Ok(met) };
    let Some(p99_ns) = p99.as_number() else {
        let why = p99.reason.as_deref().unwrap_or("not measured");
        return Err(Failure::new(format!("cannot tell whether --p99 is met: {why}")));
    };
    Ok(if p99_ns <= limit_ns { met } else { Answer::No })
}

/// Whether `kpps` reaches the goal, if any. `kpps` includes packets dropped on purpose, so a path
/// in which no packet reaches the sink must not pass: it may drop everything by mistake.
pub(crate) fn reaches(
    goal_kpps: Option<f64>,
    kpps: Option<f64>,
    dead_end: Option<&DeadEnd>,
) -> Result<Answer, Failure> {
    let Some(wanted) = goal_kpps else { return Ok(Answer::Done) };
    if let Some(end) = dead_end {
        return Err(Failure::new(format!(
            "cannot tell whether the goal is met: no packet reached the sink: {end}"
        )));
    }
    let kpps = kpps.ok_or_else(|| {
        Failure::new(
            "cannot tell whether the goal is met: no rate was \
                                                measured",
        )
    })?;
    Ok(if kpps >= wanted { Answer::Done } else { Answer::No })
}
