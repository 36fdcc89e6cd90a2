// SPDX-License-Identifier: MIT OR Apache-2.0
//! Provenance of this program's records.

use linerate_machine::idle::other_load;
use linerate_record::{Figure, Provenance, Tier};
use std::time::Duration;

/// Duration of the load check before a measurement.
const WATCH: Duration = Duration::from_millis(150);

/// Provenance of this program's records.
pub(crate) fn provenance() -> Provenance {
    linerate_machine::provenance::provenance(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// Like [`provenance`], but for records without ticks.
pub(crate) fn without_ticks() -> Provenance {
    linerate_machine::provenance::provenance_without_ticks(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// Share of CPU time of `cpus` used by other programs; `None` if the system does not report it.
/// Sleeps briefly.
pub(crate) fn others(cpus: &[u32]) -> Option<Figure> {
    const METHOD: &str = "kernel CPU accounting over 150 ms before the measurement";
    let load = other_load(cpus, WATCH).ok()?;
    Some(Figure::number("ratio", load, Tier::Sw, METHOD))
}
