// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a memory hierarchy: the tiers first, then what else a load may meet.

use crate::Style;
use crate::layout::Grid;
use crate::value::number;
use linerate_record::Provenance;
use linerate_record::memory::MemoryReport;

/// How much of a `memory` record is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What most want to know: tiers, translation, pages, costs, bandwidth, noise.
    Brief,
    /// Everything: every size, the histograms, the events.
    Full,
}

/// The characters that plots are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Patterns of eight dots, U+2800 to U+28FF.
    Braille,
    /// Those of every terminal.
    Ascii,
}

/// The report of `linerate memory`.
pub fn memory(
    report: &MemoryReport,
    _provenance: &Provenance,
    _detail: Detail,
    _glyphs: Glyphs,
    style: &Style,
) -> String {
    let mut grid = Grid::new(&["tier", ">octets", ">ns", ">cycles"]);
    for tier in &report.tiers {
        let figures = [&tier.size_bytes, &tier.latency_ns, &tier.latency_cycles];
        grid.row(std::iter::once(tier.name.clone()).chain(figures.map(number)).collect());
    }
    grid.render(style)
}
