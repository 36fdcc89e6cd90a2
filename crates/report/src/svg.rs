// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of records, each a self-contained SVG file.
//!
//! Plots are readable without colour: lines differ in marker, width or dashes, the legend lists
//! them with their values in descending order, and `<desc>` repeats the values. Colours follow the
//! reader's light or dark scheme, and the background is painted so that a plot is legible anywhere.
//!
//! Only what this program's plots need is supported; there are no other scales or formats.

mod bars;
mod budget;
mod canvas;
mod compared;
mod curves;
mod flame;
mod frame;
mod kernels;
mod lines;
mod memory;
mod plan;
mod stream;
mod tcp;
mod timeline;

pub use budget::{budget, roofline};
pub use compared::{Compared, Title, compared, counted};
pub use curves::{MeasuredCurve, curves};
pub use flame::flame_graph;
pub use kernels::kernels;
pub use memory::memory;
pub use plan::plan;
pub use stream::stream;
pub use tcp::tcp;
pub use timeline::timeline;

/// A plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// File name without extension: `checksum-warm`.
    pub name: String,
    /// Title: what the plot shows, in one line.
    pub title: String,
    /// File contents, with a trailing newline.
    pub svg: String,
}
