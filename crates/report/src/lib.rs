// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renders records as terminal tables and plots.
//!
//! Reports are text, either plain or in the 16 standard terminal colours. Missing values are shown
//! as `-` with the reason nearby, never as 0. Because a record may come from an untrusted file,
//! control characters are replaced before they reach a terminal.
//!
//! [`text()`] renders any record the way the recording command printed it.
//!
//! Judging figures is left to `linerate-plan`, and detecting terminal capabilities to `cli`.

#![forbid(unsafe_code)]

mod answers;
mod budget;
mod call_tree;
mod counted;
mod doctor;
mod events;
mod headline;
mod idle;
mod input;
mod interfaces;
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
mod stream;
pub mod svg;
mod tcp;
mod text;
mod time_cells;
mod top;
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
pub use stream::stream;
pub use tcp::{histograms as tcp_histograms, tcp};
pub use text::{markdown, text};
pub use top::{TopView, top};
pub use tune::tune;
pub use why::{why, why_line, why_truth};

/// Output markup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Markup {
    /// Terminal output.
    #[default]
    Terminal,
    /// Markdown, with GitHub tables.
    Markdown,
}

/// Rendering style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use ANSI colours.
    pub color: bool,
    /// Maximum width in columns, at least 40. Below about 80, long cells are wrapped.
    pub width: usize,
    /// Output markup. Markdown ignores colour and width.
    pub markup: Markup,
}

impl Style {
    /// Returns a terminal style without colours.
    pub const fn plain(width: usize) -> Self {
        Self { color: false, width, markup: Markup::Terminal }
    }
}

/// How much of a record to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The answer followed by the evidence, on one screen.
    Screen,
    /// Every table.
    Brief,
    /// Everything: every size, histogram and event of a `memory` record; every size of a `kernels`
    /// record; an explanation of each metric; the call lengths of TCP stacks.
    Full,
}

/// Characters for plots and bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Eight-dot Braille patterns (U+2800 to U+28FF), lines and blocks.
    Braille,
    /// ASCII only.
    Ascii,
}

/// Layout of event counts or of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Events and metrics as tables.
    Table,
    /// The rpistat layout with its nine events.
    Rpistat,
    /// The call paths of a profile as an icicle graph.
    Icicle,
    /// The instructions of one function of a profile, with their samples.
    Annotated,
    /// The times at which a profiled program was running, and at which it lost packets.
    Timeline,
}

/// Placeholder for the path file in commands, because records do not contain its name. Callers that
/// know the name replace it.
pub const PATH_FILE: &str = "PATH.toml";

/// Placeholder for the file to which a tuned path was written, like [`PATH_FILE`].
pub const TUNED_FILE: &str = "TUNED.toml";

/// Options for rendering a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Colour and width. Tables that cannot be split take 80 columns regardless of width.
    pub style: Style,
    /// Level of detail.
    pub detail: Detail,
    /// Characters for plots and bars.
    pub glyphs: Glyphs,
    /// Layout of event counts or of a profile.
    pub layout: Layout,
    /// Whether the command that prints this report writes the tuned path to [`TUNED_FILE`], so that
    /// the report need not say how to write it.
    pub is_written: bool,
}

/// Word-wraps `text`, indents each line by `indent` columns, and appends a trailing newline.
pub fn paragraph(text: &str, indent: usize, style: &Style) -> String {
    let blanks = " ".repeat(indent);
    let options =
        textwrap::Options::new(style.width).initial_indent(&blanks).subsequent_indent(&blanks);
    textwrap::fill(&value::clean(text), options) + "\n"
}

/// Formats warnings, one paragraph each; empty if there are none.
pub fn warnings(warnings: &[Warning], style: &Style) -> String {
    warnings
        .iter()
        .map(|warning| {
            let text = value::clean(&warning.to_string());
            layout::labelled("warning:", layout::Paint::Warning, &text, style)
        })
        .collect()
}
