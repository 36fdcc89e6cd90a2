// SPDX-License-Identifier: MIT OR Apache-2.0
//! Terminal tables and plots of records.
//!
//! Renders the report of a command as text: plain, or with the 16 colours of every terminal. Values
//! that are missing in a record are shown as `-` with the reason nearby, never as 0. A record may
//! come from an untrusted file, so control characters are replaced before they reach a terminal.
//!
//! [`text()`] supports every record: it returns what the recording command printed.
//!
//! Not here: judging figures (`linerate-plan`), and detecting the capabilities of the terminal
//! (`cli`).

#![forbid(unsafe_code)]

mod answers;
mod budget;
mod counted;
mod doctor;
mod events;
mod headline;
mod input;
mod kernels;
mod layout;
mod memory;
mod plan;
mod profile;
mod regions;
mod run;
mod shares;
mod stat;
mod strands;
pub mod svg;
mod tcp;
mod text;
mod tune;
mod value;
mod why;

pub use answers::answers;
pub use budget::budget;
pub use doctor::doctor;
pub use kernels::{Sizes, kernels};
pub use layout::markdown_table;
use linerate_record::Warning;
pub use memory::memory;
pub use plan::plan;
pub use profile::profile;
pub use regions::regions;
pub use run::run;
pub use stat::{interval_line, rpistat, stat};
pub use strands::strands;
pub use tcp::{histograms as tcp_histograms, tcp};
pub use text::{markdown, text};
pub use tune::tune;
pub use why::{why, why_line, why_truth};

/// Output markup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markup {
    /// Lines for a terminal.
    #[default]
    Terminal,
    /// Markdown, tables as GitHub has them.
    Markdown,
}

/// Rendering style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour, with ANSI escape sequences.
    pub color: bool,
    /// Columns to stay within, at least 40. Under about 80, long cells are broken over several
    /// lines.
    pub width: usize,
    /// Output format. Markdown has neither colour nor width.
    pub markup: Markup,
}

impl Style {
    /// Lines for a terminal without colours.
    pub const fn plain(width: usize) -> Self {
        Self { color: false, width, markup: Markup::Terminal }
    }
}

/// Level of detail of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The answer first, then what it rests on, within one screen.
    Screen,
    /// Every table.
    Brief,
    /// Everything: of a `memory` record every size, the histograms, the events; of kernels every
    /// size; of counts what each metric is good for; of TCP stacks the lengths of their calls.
    Full,
}

/// The characters that plots and bars are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Patterns of eight dots (U+2800 to U+28FF), lines and blocks.
    Braille,
    /// Those of every terminal.
    Ascii,
}

/// Layout of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Events and metrics as tables.
    Table,
    /// The report of rpistat, with its nine events.
    Rpistat,
}

/// Options of a rendered record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Colour and width. Tables that stay in one piece take 80 columns however narrow it is.
    pub style: Style,
    /// Level of detail.
    pub detail: Detail,
    /// Styles of plots.
    pub glyphs: Glyphs,
    /// Layout of counts.
    pub layout: Layout,
}

/// A text broken at words, `indent` columns in; a line feed at its end.
pub fn paragraph(text: &str, indent: usize, style: &Style) -> String {
    let blanks = " ".repeat(indent);
    let options =
        textwrap::Options::new(style.width).initial_indent(&blanks).subsequent_indent(&blanks);
    textwrap::fill(&value::clean(text), options) + "\n"
}

/// The warnings, one paragraph each; empty without any.
pub fn warnings(warnings: &[Warning], style: &Style) -> String {
    warnings
        .iter()
        .map(|warning| {
            let text = value::clean(&warning.to_string());
            layout::labelled("warning:", layout::Paint::Warning, &text, style)
        })
        .collect()
}
