// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps portable event names to the simulator's counters.

use super::geometry::{Geometry, LastLevel};
use linerate_doctor::refusal::{BY_HARDWARE, Cause, Explanation};

/// Callgrind's events when caches and branches are simulated. Reads (`r`) and writes (`w`) of data
/// (`D`) and instructions (`I`), misses (`m`) of the first (`1`) and last (`L`) level; conditional
/// (`c`) and indirect (`i`) branches (`B`), mispredicted (`m`).
pub(super) const COUNTERS: [&str; 13] =
    ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim"];

/// Returns the simulator's counters that add up to the event `name`, such as `D1mr + D1mw`.
///
/// # Errors
/// Returns [`Cause::NotSimulated`] if the simulator does not have the event, or not for these
/// caches.
pub fn native(name: &str, geometry: &Geometry) -> Result<&'static str, Explanation> {
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

fn refusal(name: &str, last_level: LastLevel) -> Explanation {
    let of = |part: &str| name.contains(part);
    let by_hardware = Some(format!("{BY_HARDWARE} -e {name} -- COMMAND"));
    let (why, fix) = match name {
        "ll_accesses" | "ll_misses" => ("these caches have no level beyond L1", None),
        "l2_accesses" | "l2_misses" if last_level == LastLevel::None => {
            ("these caches have no L2", None)
        }
        "l2_accesses" | "l2_misses" => {
            ("only the first and the last level of these caches are simulated", by_hardware)
        }
        "l1i_accesses" => (
            "the simulator makes one fetch per instruction; count instructions directly",
            Some("linerate stat --tier sim -e instructions -- COMMAND".to_owned()),
        ),
        _ if of("tlb") => ("the simulator has no address translation and no TLB", by_hardware),
        _ if of("cycles") || of("stall") => {
            ("the simulator has no clock: it counts instructions, not time", by_hardware)
        }
        _ => ("the simulator has no such event", by_hardware),
    };
    Explanation { cause: Cause::NotSimulated, sentence: why.to_owned(), fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(text: &str) -> Geometry {
        Geometry::parse(text).unwrap()
    }

    #[test]
    fn events_are_made_of_counters() {
        let a7 = geometry("cortex_a7");
        for name in ["instructions", "loads", "stores", "l1d_accesses", "l1d_misses", "l1i_misses"]
            .into_iter()
            .chain(["ll_accesses", "ll_misses", "l2_accesses", "l2_misses"])
            .chain(["branches", "branch_misses"])
        {
            let counters = native(name, &a7).unwrap();
            assert!(counters.split(" + ").all(|one| COUNTERS.contains(&one)), "{name}: {counters}");
        }
    }

    #[test]
    fn each_event_that_is_not_simulated_has_its_reason() {
        let (one, two, three) =
            (geometry("arm1176"), geometry("g4"), geometry("i1=8K/4/64,d1=8K/4/64,ll=1M/8/64"));
        for (name, caches, reason, fix) in [
            ("dtlb_misses", &two, "no TLB", "--tier hw -e dtlb_misses"),
            ("main_tlb_misses", &two, "no TLB", "--tier hw -e main_tlb_misses"),
            ("cycles", &two, "no clock", "--tier hw -e cycles"),
            ("ibuf_stall_cycles", &two, "no clock", "--tier hw"),
            ("stall_backend", &two, "no clock", "--tier hw"),
            ("exceptions", &two, "no such event", "--tier hw"),
            ("l1i_accesses", &two, "one fetch per instruction", "--tier sim -e instructions"),
            ("l2_misses", &three, "only the first and the last level", "--tier hw -e l2_misses"),
            ("l2_accesses", &one, "no L2", ""),
            ("ll_misses", &one, "no level beyond L1", ""),
        ] {
            let refusal = native(name, caches).unwrap_err();
            assert_eq!(refusal.cause, Cause::NotSimulated);
            assert!(refusal.sentence.contains(reason), "{name}: {}", refusal.sentence);
            assert!(refusal.sentence.len() > 20, "{name}: {}", refusal.sentence);
            assert!(refusal.fix.unwrap_or_default().contains(fix), "{name}");
        }
        assert!(native("ll_misses", &three).is_ok());
    }
}
