// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plot of a `memory` record.

use super::Plot;
use linerate_record::Provenance;
use linerate_record::memory::MemoryReport;

/// Time of a load over the size of the chain, with the tiers drawn in; `None` without a curve.
pub fn memory(report: &MemoryReport, _provenance: &Provenance) -> Option<Plot> {
    report.curves.first()?;
    None
}
