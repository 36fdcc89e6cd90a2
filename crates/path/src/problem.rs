// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in a path file and how they are displayed.

use std::fmt;
use std::ops::{Range, RangeInclusive};

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the line with the error, 1-based.
    pub line: usize,
    /// Column in characters, 1-based; at most one past the end of the line.
    pub column: usize,
    /// What is wrong, with a quotation of the offending text.
    pub message: String,
    /// How to fix it, if known.
    pub help: Option<String>,
    /// Text of the line with the error; control characters are replaced.
    source_line: String,
    /// Number of characters to underline, at least 1.
    width: usize,
}

impl Problem {
    /// Creates a problem at the byte range `at` of `text`. Offsets beyond the text are clamped to
    /// its end, and an offset within a character is moved to the start of that character.
    pub(crate) fn locate(
        text: &str,
        at: &Range<usize>,
        message: String,
        help: Option<String>,
    ) -> Self {
        let start = char_boundary(text, at.start.max(byte_order_mark(text)));
        let line_start = line_start(text, start);
        let rest = &text[line_start..];
        let line = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let marked = char_boundary(text, at.end).max(start);
        let column = text[line_start..start].chars().count() + 1;
        let left = (line.chars().count() + 1).saturating_sub(column);
        Self {
            line: text[..line_start].matches('\n').count() + 1,
            column,
            message,
            help,
            source_line: line.chars().map(printable).collect(),
            width: text[start..marked].chars().count().min(left).max(1),
        }
    }

    /// Displays the problem as a compiler would: position, message and help, then the line with the
    /// error underlined. `file` is the file name.
    pub fn display<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        Rendered { problem: self, file }
    }
}

/// Formats as `line:column: message; help`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

struct Rendered<'a> {
    problem: &'a Problem,
    file: &'a str,
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { line, column, source_line, width, .. } = self.problem;
        writeln!(f, "{}:{}", self.file, self.problem)?;
        writeln!(f, "{line:>5} | {source_line}")?;
        // Keep tabs in the indentation, so that the underline matches at any tab width.
        let indent = source_line.chars().take(column - 1).map(|c| if c == '\t' { c } else { ' ' });
        writeln!(f, "      | {}{}", indent.collect::<String>(), "^".repeat(*width))
    }
}

/// Maximum number of errors to show. Further errors can wait until these are fixed.
pub const SHOWN: usize = 20;

/// All errors in a file, sorted by position; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The first mistakes, at most [`SHOWN`].
    shown: Vec<Problem>,
    /// Number of mistakes not shown.
    more: usize,
}

impl Problems {
    /// Converts mistakes to problems in `text`, sorted by position and without duplicates. Only the
    /// first [`SHOWN`] are converted, as each requires a scan of the text; the others are counted.
    pub(crate) fn in_text(text: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by(|a, b| {
            (a.at.start, a.at.end, &a.message).cmp(&(b.at.start, b.at.end, &b.message))
        });
        mistakes.dedup();
        let more = mistakes.len().saturating_sub(SHOWN);
        let shown = mistakes.into_iter().take(SHOWN);
        let shown = shown.map(|m| Problem::locate(text, &m.at, m.message, m.help)).collect();
        Self { shown, more }
    }

    /// Iterates over the first [`SHOWN`] problems, sorted by position.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.shown.iter()
    }

    /// Returns a note such as `and 3 more mistakes`; `None` if all mistakes are shown.
    fn rest(&self) -> Option<String> {
        let noun = if self.more == 1 { "mistake" } else { "mistakes" };
        (self.more > 0).then(|| format!("and {} more {noun}", self.more))
    }

    /// Displays all problems like [`Problem::display`], and says how many are not shown.
    pub fn display<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        AllRendered { problems: self, file }
    }
}

struct AllRendered<'a> {
    problems: &'a Problems,
    file: &'a str,
}

impl fmt::Display for AllRendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problems, file } = self;
        problems.iter().try_for_each(|problem| write!(f, "{}", problem.display(file)))?;
        problems.rest().map_or(Ok(()), |rest| writeln!(f, "{file}: {rest}"))
    }
}

/// Displays the problems, one per line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        self.rest().map_or(Ok(()), |rest| write!(f, "\n{rest}"))
    }
}

impl std::error::Error for Problems {}

/// A mistake in a file, located by its byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Mistake {
    pub(crate) fn new(at: &Range<usize>, message: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Returns the byte range of the line that contains `offset`, including its line end.
pub(crate) fn line_of(text: &str, offset: usize) -> RangeInclusive<usize> {
    let start = char_boundary(text, offset);
    let end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
    line_start(text, start)..=end
}

/// Returns the start of the line that contains `offset`. On the first line, this is after the byte
/// order mark, if there is one.
fn line_start(text: &str, offset: usize) -> usize {
    let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    if start == 0 { byte_order_mark(text).min(offset) } else { start }
}

/// Returns the length in bytes of the byte order mark at the start of the text; 0 without one.
fn byte_order_mark(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Returns the last character boundary at or before `offset`.
fn char_boundary(text: &str, offset: usize) -> usize {
    let within = offset.min(text.len());
    (0..=within).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// Returns `c`, or a replacement character if `c` is a control character that could affect a
/// terminal.
fn printable(c: char) -> char {
    if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }
}

/// Formats text from the file for quoting in messages.
pub(crate) fn shown(text: &str) -> String {
    format!("'{}'", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_like_a_compiler() {
        let text = "[run]\n\trate\t= 3 # é\n";
        let at = text.find('3').expect("it is there");
        let problem = Problem::locate(text, &(at..at + 1), "no".to_owned(), Some("so".to_owned()));
        assert_eq!(
            problem.display("a.toml").to_string(),
            "a.toml:2:9: no; so\n    2 | \trate\t= 3 # é\n      | \t    \t  ^\n"
        );
        let end = Problem::locate(text, &(99..120), "end".to_owned(), None);
        assert_eq!(end.to_string(), "3:1: end");
    }

    #[test]
    fn shows_the_first_mistakes_and_counts_the_rest() {
        let mistakes = |count: usize| (0..count).map(|i| Mistake::new(&(i..i + 1), "no")).collect();
        let all = Problems::in_text(&"x".repeat(99), mistakes(SHOWN));
        assert_eq!((all.iter().count(), all.rest()), (SHOWN, None));
        for (count, rest) in [(SHOWN + 1, "and 1 more mistake"), (99, "and 79 more mistakes")] {
            let some = Problems::in_text(&"x".repeat(99), mistakes(count));
            assert_eq!(some.iter().count(), SHOWN);
            assert!(some.to_string().ends_with(&format!("\n{rest}")), "{some}");
            assert!(some.display("f").to_string().ends_with(&format!("f: {rest}\n")));
        }
    }

    #[test]
    fn leaves_terminals_alone() {
        let problem = Problem::locate("a\u{1b}[2J\r\n", &(0..9), "x".to_owned(), None);
        assert_eq!(
            problem.display("f").to_string(),
            "f:1:1: x\n    1 | a\u{fffd}[2J\n      | ^^^^^\n"
        );
    }
}
