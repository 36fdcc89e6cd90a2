// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of this program's records.

use linerate_machine::idle::other_load;
use linerate_record::{Figure, Provenance, Tier};
use std::time::Duration;

/// Duration of the load check before a measurement.
const WATCH: Duration = Duration::from_millis(150);

/// Sources of this program's records.
pub(crate) fn provenance() -> Provenance {
    linerate_machine::provenance::provenance(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// As [`provenance`], for records that hold no ticks.
pub(crate) fn without_ticks() -> Provenance {
    linerate_machine::provenance::provenance_without_ticks(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// The share of the time of `cpus` that others take now; `None` where the system does not say.
/// Sleeps for a moment.
pub(crate) fn others(cpus: &[u32]) -> Option<Figure> {
    const METHOD: &str = "accounts of the kernel over 150 ms before the measurement";
    let load = other_load(cpus, WATCH).ok()?;
    Some(Figure::number("ratio", load, Tier::Sw, METHOD))
}
