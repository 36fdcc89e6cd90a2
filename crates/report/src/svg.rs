// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of records, each one self-contained SVG file.
//!
//! A plot can be read without its colours: every line has a marker of its own, the legend is in
//! the order of the lines and names their values, and `<desc>` repeats them. Colours change with
//! the reader's scheme; the background is painted, so that a plot is legible wherever it is shown.
//!
//! Left out: everything the plots of this program do not need, such as other scales and formats.

mod bars;
mod budget;
mod canvas;
mod compared;
mod frame;
mod kernels;
mod lines;
mod memory;
mod plan;
mod tcp;

pub use budget::{budget, roofline};
pub use compared::{Compared, Title, compared, counted};
pub use kernels::kernels;
pub use memory::memory;
pub use plan::plan;
pub use tcp::tcp;

/// A plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// A name fit for a file, without an extension: `checksum-warm`.
    pub name: String,
    /// Its content, in one line.
    pub title: String,
    /// The file, a line feed at its end.
    pub svg: String,
}
