// SPDX-License-Identifier: MIT OR Apache-2.0
//! Provenance of records written by this program.

use linerate_machine::idle::other_load;
use linerate_record::{Figure, Provenance, Tier};
use std::time::Duration;

/// Duration for which the CPU load is observed before a measurement.
const WATCH: Duration = Duration::from_millis(150);

/// Returns the provenance for a new record of this program.
pub(crate) fn provenance() -> Provenance {
    linerate_machine::provenance::provenance(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// Like [`provenance`], but without the tick rate, for records that contain no ticks.
pub(crate) fn without_ticks() -> Provenance {
    linerate_machine::provenance::provenance_without_ticks(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// Returns other programs' share of the CPU time of `cpus`, measured over [`WATCH`]; `None` if the
/// system does not report it.
pub(crate) fn others(cpus: &[u32]) -> Option<Figure> {
    const METHOD: &str = "kernel CPU accounting over the 150 ms before the measurement";
    let load = other_load(cpus, WATCH).ok()?;
    Some(Figure::number("ratio", load, Tier::Sw, METHOD))
}
