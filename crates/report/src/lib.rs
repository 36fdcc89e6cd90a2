// SPDX-License-Identifier: MIT OR Apache-2.0
//! Terminal tables and plots of records.
//!
//! Renders the report of a command to text: plain, or with the colours every terminal has. What the
//! record does not hold is shown as `-` with its reason nearby, never as 0. Texts of a record come
//! from a file, so control characters are replaced before they reach a terminal.
//!
//! Left out: judging figures (`linerate-plan`), and finding out what the terminal can do (the
//! command line).

#![forbid(unsafe_code)]

mod answers;
mod budget;
mod doctor;
mod events;
mod kernels;
mod layout;
mod memory;
mod plan;
mod regions;
mod run;
mod shares;
mod stat;
mod strands;
pub mod svg;
mod tcp;
mod tune;
mod value;

pub use answers::answers;
pub use budget::budget;
pub use doctor::doctor;
pub use kernels::{Sizes, kernels};
use linerate_record::Warning;
pub use memory::{Detail, Glyphs, memory};
pub use plan::plan;
pub use regions::regions;
pub use run::run;
pub use stat::{interval_line, rpistat, stat};
pub use strands::strands;
pub use tcp::{histograms as tcp_histograms, tcp};
pub use tune::tune;

/// How to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour, with ANSI escape sequences.
    pub color: bool,
    /// Columns to stay within, at least 40. Under about 80, long cells are broken over several
    /// lines.
    pub width: usize,
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
