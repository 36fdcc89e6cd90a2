// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of records, each a self-contained SVG file.
//!
//! A plot is readable without colour: every line has its own marker, the legend lists the lines
//! with their values in the order of the lines, and `<desc>` repeats them. Colours follow the
//! reader's light or dark scheme; the background is painted, so that a plot is legible everywhere.
//!
//! Out of scope: everything that this program's plots do not need, such as other scales and
//! formats.

mod bars;
mod budget;
mod canvas;
mod compared;
mod flame;
mod frame;
mod kernels;
mod lines;
mod memory;
mod plan;
mod tcp;

pub use budget::{budget, roofline};
pub use compared::{Compared, Title, compared, counted};
pub use flame::flame_graph;
pub use kernels::kernels;
pub use memory::memory;
pub use plan::plan;
pub use tcp::tcp;

/// A plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// File name without extension: `checksum-warm`.
    pub name: String,
    /// Title: the plot's content, in one line.
    pub title: String,
    /// The file's content, ending in a newline.
    pub svg: String,
}
