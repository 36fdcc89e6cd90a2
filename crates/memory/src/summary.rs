// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures that people quote, out of a report.

use linerate_record::Figure;
use linerate_record::memory::MemoryReport;
use std::collections::BTreeMap;

/// The figures of `report` under the names that scripts know.
pub fn figures(report: &MemoryReport) -> BTreeMap<String, Figure> {
    let _ = report;
    BTreeMap::new()
}
