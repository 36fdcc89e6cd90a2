// SPDX-License-Identifier: MIT OR Apache-2.0
//! Portable names of events in terms of what the simulator counts.

use super::geometry::{Geometry, LastLevel};
use crate::refusal::{Cause, Refusal};

/// What callgrind counts with caches and branches simulated. Reads (`r`) and writes (`w`) of data
/// (`D`) and instructions (`I`), misses (`m`) of the first (`1`) and last (`L`) level; branches
/// (`B`) that are conditional (`c`) and indirect (`i`), mispredicted (`m`).
pub(super) const COUNTERS: [&str; 13] =
    ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim"];

/// The counters of the simulator that make up the event `name`, added up: `D1mr + D1mw`.
///
/// # Errors
/// The simulator has no such event, or not for these caches: [`Cause::NotSimulated`].
pub fn native(name: &str, geometry: &Geometry) -> Result<&'static str, Refusal> {
    let last = "I1mr + D1mr + D1mw";
    let missed = "ILmr + DLmr + DLmw";
    let counters = match (name, geometry.last_level()) {
        ("instructions", _) => "Ir",
        ("loads", _) => "Dr",
        ("stores", _) => "Dw",
        ("l1d_accesses", _) => "Dr + Dw",
        ("l1d_misses", _) => "D1mr + D1mw",
        ("l1i_misses", _) => "I1mr",
        ("ll_accesses", LastLevel::Second | LastLevel::Beyond)
        | ("l2_accesses", LastLevel::Second) => last,
        ("ll_misses", LastLevel::Second | LastLevel::Beyond) | ("l2_misses", LastLevel::Second) => {
            missed
        }
        ("branches", _) => "Bc + Bi",
        ("branch_misses", _) => "Bcm + Bim",
        (_, last_level) => return Err(refusal(name, last_level)),
    };
    Ok(counters)
}

fn refusal(name: &str, last_level: LastLevel) -> Refusal {
    let of = |part: &str| name.contains(part);
    let by_hardware = Some(format!("linerate stat --tier hw -e {name} -- COMMAND"));
    let (why, fix) = match name {
        "ll_accesses" | "ll_misses" => ("these caches have no last level beyond the first", None),
        "l2_accesses" | "l2_misses" if last_level == LastLevel::None => {
            ("these caches have no second level", None)
        }
        "l2_accesses" | "l2_misses" => (
            "of these caches the first and the last level are simulated, none between",
            by_hardware,
        ),
        "l1i_accesses" => (
            "the simulator looks instructions up one by one, so its fetches are the instructions",
            Some("linerate stat --tier sim -e instructions -- COMMAND".to_owned()),
        ),
        _ if of("tlb") => ("the simulator translates no addresses and has no TLB", by_hardware),
        _ if of("cycles") || of("stall") => (
            "the simulator has no clock: it tells what is executed, not how long it takes",
            by_hardware,
        ),
        _ => ("the simulator has no such event", by_hardware),
    };
    Refusal { cause: Cause::NotSimulated, sentence: format!("{name}: {why}"), fix }
}
