// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renders records as terminal tables and plots.
//!
//! Renders the report of a command as text, either plain or with the 16 standard terminal colours.
//! Values missing from a record are shown as `-` with the reason nearby, never as 0. A record may
//! come from an untrusted file, so control characters are replaced before they reach a terminal.
//!
//! [`text()`] supports every record: it returns what the recording command printed.
//!
//! Out of scope: judging figures (`linerate-plan`) and detecting terminal capabilities (`cli`).

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
mod profile_diff;
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
pub use profile_diff::profile_diff;
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
    /// Markdown, with GitHub tables.
    Markdown,
}

/// Rendering style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colour, with ANSI escape sequences.
    pub color: bool,
    /// Maximum width in columns, at least 40. Below about 80, long cells are broken over several
    /// lines.
    pub width: usize,
    /// Output format. Markdown has neither colour nor width.
    pub markup: Markup,
}

impl Style {
    /// Returns the style for a terminal without colours.
    pub const fn plain(width: usize) -> Self {
        Self { color: false, width, markup: Markup::Terminal }
    }
}

/// Level of detail for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The answer first, then its supporting evidence, within one screen.
    Screen,
    /// Every table.
    Brief,
    /// Everything: for a `memory` record every size, the histograms and the events; for kernels
    /// every size; for counts what each metric is good for; for TCP stacks the lengths of their
    /// calls.
    Full,
}

/// The characters used for plots and bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Eight-dot patterns (U+2800 to U+28FF), lines and blocks.
    Braille,
    /// Characters available in every terminal.
    Ascii,
}

/// Layout of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Events and metrics as tables.
    Table,
    /// The rpistat report, with its nine events.
    Rpistat,
}

/// Options for rendering a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Colour and width. Tables that are never split take 80 columns, however narrow the width.
    pub style: Style,
    /// Level of detail.
    pub detail: Detail,
    /// Styles of plots.
    pub glyphs: Glyphs,
    /// Layout of counts.
    pub layout: Layout,
}

/// Wraps a text at words, indented by `indent` columns and ending in a newline.
pub fn paragraph(text: &str, indent: usize, style: &Style) -> String {
    let blanks = " ".repeat(indent);
    let options =
        textwrap::Options::new(style.width).initial_indent(&blanks).subsequent_indent(&blanks);
    textwrap::fill(&value::clean(text), options) + "\n"
}

/// Formats the warnings, one paragraph each; empty if there are none.
pub fn warnings(warnings: &[Warning], style: &Style) -> String {
    warnings
        .iter()
        .map(|warning| {
            let text = value::clean(&warning.to_string());
            layout::labelled("warning:", layout::Paint::Warning, &text, style)
        })
        .collect()
}
