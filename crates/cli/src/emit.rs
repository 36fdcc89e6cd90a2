// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes results: to stdout for people and scripts, and to files as records.

mod lines;

pub(crate) use self::lines::Lines;
use crate::appearance::{self, Form, PROFILE, STAT};
use crate::failure::{Failure, also};
use crate::files;
use crate::terminal;
use clap::Args;
use linerate_exchange::table;
use linerate_record::shell::quoted;
use linerate_record::{Body, Record, Warning};
use linerate_report::{Detail, Glyphs, Layout, Options, Style};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// How a command ended, which determines its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Success: status 0.
    Done,
    /// The command succeeded, but a goal was missed or the verdict is negative: status 1.
    No,
    /// The command succeeded: exit with the status of the program it ran.
    Status(u8),
}

/// Checks before a measurement that its result can be printed.
pub(crate) fn check_stdout() -> Result<(), Failure> {
    if linerate_linux::stdout_was_open() {
        return Ok(());
    }
    Err(Failure::new(
        "cannot write the result: standard output is closed; redirect it (`> /dev/null` discards \
         the result)",
    ))
}

/// Prints text to stdout.
pub(crate) fn print(text: &str) -> Result<Answer, Failure> {
    ended(print_to_stdout(text))
}

fn print_to_stdout(text: &str) -> io::Result<()> {
    linerate_linux::write_to_stdout(terminal::safe(text, style().color).as_bytes())
}

/// Converts the outcome of a write to stdout or stderr to an [`Answer`]. A closed pipe is not a
/// failure.
pub(crate) fn ended(printed: io::Result<()>) -> Result<Answer, Failure> {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the result: {error}")))
        }
        _ => Ok(Answer::Done),
    }
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// Stdout, because no measured command uses it or because the user requested it.
    Stdout,
    /// Stderr, because stdout belongs to the measured command.
    Stderr,
    /// A file named by the user.
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// Returns the destination named by `--output` or, by default, stderr if a measured command
    /// uses stdout, and stdout otherwise.
    pub(crate) fn of(asked: Option<&'a Path>, has_command: bool) -> Self {
        match asked {
            Some(file) if file.as_os_str() == "-" => Self::Stdout,
            Some(file) => Self::File(file),
            None if has_command => Self::Stderr,
            None => Self::Stdout,
        }
    }

    /// Returns the style for the destination; files have no colours.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Stdout => style(),
            Self::Stderr => style_on(&io::stderr()),
            Self::File(_) => Style { color: false, ..style() },
        }
    }

    /// Returns the destination's path if it is a file.
    pub(crate) fn file(self) -> Option<&'a Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Stdout | Self::Stderr => None,
        }
    }
}

/// Prints a note to stderr before the measured command starts if a program that reads the record
/// from stdout would get the command's output, either instead of the record or mixed with it.
pub(crate) fn note_streams(output: &Output, destination: Destination<'_>, has_command: bool) {
    let is_piped = !io::stdout().is_terminal();
    let is_watched = io::stderr().is_terminal();
    if has_command && output.json() && !output.quiet() && is_piped {
        say(streams_note(destination, is_watched).unwrap_or_default());
    }
}

/// Returns a note that explains where the measured command's output and the record go. `None` if
/// the record goes to a file, or to a stderr that is not a terminal: a script that reads the record
/// from stderr would get the note first.
fn streams_note(destination: Destination<'_>, is_watched: bool) -> Option<&'static str> {
    match destination {
        Destination::Stdout => Some(
            "linerate: the command's output and the record both go to standard output; `-o FILE` \
             separates them\n",
        ),
        Destination::Stderr if is_watched => Some(
            "linerate: standard output belongs to the command, so the record goes to standard \
             error; `-o FILE` writes it to a file\n",
        ),
        Destination::Stderr | Destination::File(_) => None,
    }
}

/// Writes a result to its destination.
pub(crate) fn put(destination: Destination<'_>, text: &str) -> Result<Answer, Failure> {
    match destination {
        Destination::File(file) => files::write(file, text).map(|()| Answer::Done),
        Destination::Stdout => print(text),
        Destination::Stderr => ended(print_to_stderr(text)),
    }
}

/// Prints a result to stderr, because the measured command uses stdout.
fn print_to_stderr(text: &str) -> io::Result<()> {
    io::stderr().write_all(terminal::safe(text, style_on(&io::stderr()).color).as_bytes())
}

/// Prints text to stderr. Ignores write errors, because they do not invalidate the measurement.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(terminal::safe(text, false).as_bytes());
}

/// Maximum line width in columns; longer lines are hard to read.
const WIDEST: usize = 120;

/// Line width in columns if output does not go to a terminal.
const WIDTH: usize = 100;

/// Smallest line width that can be requested.
const NARROWEST: usize = 40;

/// Returns the style for stdout, with the terminal's width.
pub(crate) fn style() -> Style {
    style_on(&io::stdout())
}

/// Returns the style for this stream.
fn style_on(stream: &(impl IsTerminal + AsFd)) -> Style {
    let width = columns(stream).unwrap_or(WIDTH).clamp(NARROWEST, WIDEST);
    Style { color: appearance::is_colored(stream.is_terminal()), ..Style::plain(width) }
}

/// Returns the options for showing a record on stdout.
pub(crate) fn options(detail: Detail) -> Options {
    Options { style: style(), detail, glyphs: glyphs(), layout: Layout::Table, is_written: false }
}

/// Returns the characters for plots: Braille dots in a UTF-8 locale, ASCII otherwise. The locale is
/// the first non-empty one of `LC_ALL`, `LC_CTYPE` and `LANG`, as in locale(7).
fn glyphs() -> Glyphs {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| value.to_lowercase())
    });
    let is_utf_8 = said.is_some_and(|value| value.contains("utf-8") || value.contains("utf8"));
    if is_utf_8 { Glyphs::Braille } else { Glyphs::Ascii }
}

/// Returns the line width, from `COLUMNS` or from this stream's terminal.
fn columns(stream: &impl AsFd) -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(stream).map(|(width, _)| width.0.into());
    let is_known = |columns: &usize| *columns > 0;
    asked.filter(is_known).or_else(terminal).filter(is_known)
}

// Options common to all commands whose result is a record.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print the record as JSON
    ///
    /// If this command runs another one (-- CMD), standard output belongs to that command: the
    /// record goes to stderr or, with -o, to a file.
    #[arg(long)]
    json: bool,
    /// Output format: text, json, markdown or csv
    ///
    /// Default: text. A stat record can also be printed as rpistat, and a profile as icicle,
    /// annotated or timeline.
    #[arg(
        long = "format",
        value_enum,
        value_name = "FORMAT",
        conflicts_with = "json",
        hide_possible_values = true
    )]
    form: Option<Form>,
    /// Print all tables instead of a one-screen report
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
    /// Returns the output format.
    pub(crate) fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => self.form.or_else(appearance::form).unwrap_or(Form::Text),
        }
    }

    /// Returns the output format for records of this kind: the format given on the command line or,
    /// by default, that of `LINERATE_FORMAT` if records of this kind have it, and text otherwise.
    pub(crate) fn form_of(&self, kind: &str) -> Form {
        let is_given = self.json || self.form.is_some();
        let form = self.form();
        let lacks = form.kind().is_some_and(|needed| needed != kind);
        if lacks && !is_given { Form::Text } else { form }
    }

    /// Checks before a measurement that records of this kind can be printed in the given format.
    ///
    /// # Errors
    /// Returns an error if the format is for another kind of record.
    pub(crate) fn check_form(&self, kind: &str) -> Result<(), Failure> {
        match self.form.and_then(Form::kind).filter(|needed| *needed != kind) {
            Some(needed) => Err(lacks(self.form(), needed)),
            None => Ok(()),
        }
    }

    /// Checks the given format for a result other than a record: only text and JSON.
    ///
    /// # Errors
    /// Returns an error if the format would be ignored. `what` is the option that asks for the
    /// result.
    pub(crate) fn check_plain(&self, what: &str) -> Result<(), Failure> {
        match self.form {
            None | Some(Form::Text | Form::Json) => Ok(()),
            Some(_) => Err(Failure::new(format!(
                "{what} prints only text or, with --json, JSON: drop --format"
            ))),
        }
    }

    /// Returns whether to print the record itself, as JSON.
    pub(crate) fn json(&self) -> bool {
        self.form() == Form::Json
    }

    /// Returns whether stdout gets the record instead of a report.
    fn records_to_stdout(&self) -> bool {
        self.record.as_deref().is_some_and(files::is_stdout)
    }

    /// Returns the level of detail.
    pub(crate) fn detail(&self) -> Detail {
        if self.details || appearance::details() { Detail::Brief } else { Detail::Screen }
    }

    /// Returns whether to suppress progress and warnings.
    pub(crate) fn quiet(&self) -> bool {
        self.notices.quiet
    }
}

impl<'a> From<&'a Output> for Forms<'a> {
    fn from(output: &'a Output) -> Self {
        Self { output, detail: output.detail(), path_file: None, tuned_file: None, is_aside: false }
    }
}

/// The formats requested for a command's result.
pub(crate) struct Forms<'a> {
    output: &'a Output,
    /// Level of detail.
    detail: Detail,
    /// Path file to name in the commands that the report suggests.
    path_file: Option<&'a Path>,
    /// File to which the tuned path is written.
    tuned_file: Option<&'a Path>,
    /// Whether the report goes to stderr, because another result uses stdout.
    is_aside: bool,
}

impl<'a> Forms<'a> {
    /// Returns the same formats, for a report whose suggested commands name this path file.
    pub(crate) fn of_path(self, file: &'a Path) -> Self {
        Self { path_file: Some(file), ..self }
    }

    /// Returns the same formats, for a report on a path that is written to this file, if any.
    pub(crate) fn written_to(self, file: Option<&'a Path>) -> Self {
        Self { tuned_file: file, ..self }
    }

    /// Returns the same formats. With `is_aside`, the report goes to stderr, because another result
    /// uses stdout.
    pub(crate) fn aside(self, is_aside: bool) -> Self {
        Self { is_aside, ..self }
    }

    /// Returns the same formats with full detail.
    pub(crate) fn in_full(self) -> Self {
        Self { detail: Detail::Full, ..self }
    }
}

/// Warning of a build whose figures are not comparable with others.
const UNOPTIMIZED: &str = "linerate: unoptimized build: the figures are those of a debug build; \
                           build with --release\n";

/// Returns whether the figures of a record are times of code of this program, rather than of
/// another program or from a model.
fn times_this_program(body: &Body) -> bool {
    match body {
        Body::Tune(report) => report.predicted_from.is_none(),
        Body::Run(_) | Body::Kernels(_) | Body::Memory(_) | Body::Tcp(_) | Body::Stream(_) => true,
        _ => false,
    }
}

/// Prints the result, then warnings to stderr, and writes the record to a file if requested. The
/// result is printed even if the record cannot be written.
pub(crate) fn emit<'a>(forms: impl Into<Forms<'a>>, record: &Record) -> Result<Answer, Failure> {
    let forms = forms.into();
    let destination = if forms.is_aside { Destination::Stderr } else { Destination::Stdout };
    let options = Options { is_written: forms.tuned_file.is_some(), ..options(forms.detail) };
    let form = forms.output.form_of(record.body.kind());
    let files = [
        (linerate_report::PATH_FILE, forms.path_file),
        (linerate_report::TUNED_FILE, forms.tuned_file),
    ];
    let with_files = |text: String| {
        let known = files.into_iter().filter_map(|(place, file)| Some((place, file?)));
        known.fold(text, |text, (place, file)| text.replace(place, &quoted(file)))
    };
    let answer = show(forms.output, form, destination, record, &options, with_files);
    if !forms.output.quiet() && cfg!(debug_assertions) && times_this_program(&record.body) {
        say(UNOPTIMIZED);
    }
    answer
}

/// Prints the record to `destination`, then its warnings to stderr, and writes it to the `--record`
/// file. A failure of one of these steps does not prevent the others. Text passes through `finish`.
///
/// Warnings are not printed separately if the result is JSON on stderr, or Markdown: both contain
/// them.
pub(crate) fn show(
    output: &Output,
    form: Form,
    destination: Destination<'_>,
    record: &Record,
    options: &Options,
    finish: impl FnOnce(String) -> String,
) -> Result<Answer, Failure> {
    let is_replaced = destination == Destination::Stdout && output.records_to_stdout();
    let form = if is_replaced { Form::Json } else { form };
    let text = rendered(form, record, options);
    let text = if form == Form::Text { text.map(finish) } else { text };
    let printed = text.and_then(|text| put(destination, &text));
    let is_json_on_stderr = form == Form::Json && destination == Destination::Stderr;
    if !output.quiet() && !is_json_on_stderr && form != Form::Markdown {
        warn(record, form == Form::Text && options.detail == Detail::Screen);
    }
    also(printed, if is_replaced { Ok(()) } else { keep(output, record) })
}

/// Writes a record to the `--record` file, if there is one.
pub(crate) fn keep(output: &Output, record: &Record) -> Result<(), Failure> {
    let Some(file) = &output.record else { return Ok(()) };
    files::write(file, record.to_json_pretty().map_err(Failure::new)?)
}

/// Returns the error for a format that needs another kind of record.
fn lacks(form: Form, kind: &str) -> Failure {
    Failure::new(format!("--format {} needs a `linerate {kind}` record", form.name()))
}

/// Renders a record.
///
/// # Errors
/// Returns an error if the format does not support this kind of record.
pub(crate) fn rendered(form: Form, record: &Record, options: &Options) -> Result<String, Failure> {
    let layout = match (form, &record.body) {
        (Form::Text, _) => Layout::Table,
        (Form::Icicle, Body::Profile(_)) => Layout::Icicle,
        (Form::Annotated, Body::Profile(_)) => Layout::Annotated,
        (Form::Timeline, Body::Profile(_)) => Layout::Timeline,
        (Form::Rpistat, Body::Stat(_)) => Layout::Rpistat,
        (Form::Icicle | Form::Annotated | Form::Timeline, _) => return Err(lacks(form, PROFILE)),
        (Form::Rpistat, _) => return Err(lacks(form, STAT)),
        (Form::Json, _) => return record.to_json_pretty().map_err(Failure::new),
        (Form::Markdown, _) => return Ok(linerate_report::markdown(record, options)),
        (Form::Csv, _) => {
            return table::rows(record).map(|rows| table::csv(&rows)).map_err(Failure::new);
        }
    };
    Ok(linerate_report::text(record, &Options { layout, ..*options }))
}

/// Prints a record's warnings, which are reasons not to trust its figures, to stderr. Omits the
/// warning about a stage that dropped all packets if the one-screen report (`is_screen`) shows it.
fn warn(record: &Record, is_screen: bool) {
    let style = Style { color: false, ..style() };
    let is_answer = |warning: &Warning| {
        is_screen && matches!(warning, Warning::NothingCameThrough(end) if end.is_drop())
    };
    let mut warnings = record.warnings();
    warnings.retain(|warning| !is_answer(warning));
    say(&linerate_report::warnings(&warnings, &style));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_mixes_with_the_output_of_a_command_is_announced() {
        let of = |destination, is_watched| streams_note(destination, is_watched);
        for is_watched in [false, true] {
            let mixed = of(Destination::Stdout, is_watched).expect("they mix");
            assert!(mixed.contains("both") && mixed.contains("-o FILE"), "{mixed}");
            assert_eq!(of(Destination::File(Path::new("r.json")), is_watched), None);
        }
        assert_eq!(of(Destination::Stderr, false), None, "the record alone is JSON");
        assert!(of(Destination::Stderr, true).is_some_and(|note| note.contains("-o FILE")));
    }
}
