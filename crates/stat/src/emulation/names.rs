// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps portable event names to the counters of QEMU's plug-in.

use crate::sim::Geometry;
use crate::sim::model::Model;
use linerate_doctor::refusal::{BY_HARDWARE, Cause, Explanation};

/// The plug-in's counters, in the order of `enum counter` in `cachesim/plugin/cpu.h`.
pub(super) const COUNTERS: [&str; 18] = [
    "instructions",
    "loads",
    "stores",
    "l1i_misses",
    "l1d_load_misses",
    "l1d_store_misses",
    "l2_accesses",
    "l2_misses",
    "l3_accesses",
    "l3_misses",
    "itlb_misses",
    "dtlb_misses",
    "itlb_walks",
    "dtlb_walks",
    "memory_reads",
    "memory_writes",
    "branches",
    "branch_misses",
];

/// Returns the counters that add up to the event `name`, such as `loads + stores`.
///
/// # Errors
/// Returns [`Cause::NotSimulated`] if the model does not have the event.
pub(crate) fn native(name: &str, model: &Model) -> Result<&'static str, Explanation> {
    let levels = model.beyond().len();
    let has_tlb = |name: &str| model.tlb(name).is_some();
    let counters = match name {
        "instructions" => "instructions",
        "loads" => "loads",
        "stores" => "stores",
        "l1d_accesses" => "loads + stores",
        "l1d_misses" => "l1d_load_misses + l1d_store_misses",
        "l1i_misses" => "l1i_misses",
        "l2_accesses" if levels > 0 => "l2_accesses",
        "l2_misses" if levels > 0 => "l2_misses",
        "ll_accesses" if levels == 1 => "l2_accesses",
        "ll_misses" if levels == 1 => "l2_misses",
        "ll_accesses" if levels > 1 => "l3_accesses",
        "ll_misses" if levels > 1 => "l3_misses",
        "dtlb_misses" | "micro_tlb_misses" if has_tlb("DTLB") => "dtlb_misses",
        "itlb_misses" if has_tlb("ITLB") => "itlb_misses",
        "main_tlb_misses" if has_tlb("DTLB") && has_tlb("ITLB") => "itlb_walks + dtlb_walks",
        "main_tlb_misses" if has_tlb("DTLB") => "dtlb_walks",
        "branches" => "branches",
        "branch_misses" => "branch_misses",
        _ => return Err(refusal(name)),
    };
    Ok(counters)
}

/// Returns whether the simulator counts the event `name`, given caches and TLBs that have it.
pub(crate) fn is_simulated(name: &str) -> bool {
    Geometry::named("zen5").is_ok_and(|zen5| native(name, zen5.model()).is_ok())
}

fn refusal(name: &str) -> Explanation {
    let of = |part: &str| name.contains(part);
    let by_hardware = Some(format!("{BY_HARDWARE} -e {name} -- COMMAND"));
    let (why, fix) = match name {
        "ll_accesses" | "ll_misses" => ("these caches have no level beyond L1", None),
        "l2_accesses" | "l2_misses" => ("these caches have no L2", None),
        "l1i_accesses" => (
            "the simulator fetches code by cache line, not by instruction; count instructions \
             directly",
            Some("linerate stat --tier sim -e instructions -- COMMAND".to_owned()),
        ),
        _ if of("tlb") => (
            "no such TLB is simulated: none was given, and the system does not report its TLBs",
            Some(format!(
                "linerate stat --tier sim --caches os,itlb=64,dtlb=64,tlb2=1536/12 -e {name} -- \
                 COMMAND  # TLB sizes: see the processor's manual"
            )),
        ),
        _ if of("cycles") || of("stall") => {
            ("the simulator has no clock: it counts instructions, not time", by_hardware)
        }
        _ => ("the simulator has no such event", by_hardware),
    };
    Explanation { cause: Cause::NotSimulated, sentence: why.to_owned(), fix }
}

/// Explains why branches are not counted in a program that cannot be disassembled.
pub(super) fn no_branches() -> Explanation {
    let sentence = "branches are recognized only in x86, ARM and Power programs, and only if \
                    QEMU can disassemble them"
        .to_owned();
    Explanation { cause: Cause::NotSimulated, sentence, fix: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sums_of_counters() {
        let zen5 = Geometry::named("zen5").unwrap();
        for name in ["instructions", "loads", "stores", "l1d_accesses", "l1d_misses", "l1i_misses"]
            .into_iter()
            .chain(["l2_accesses", "l2_misses", "ll_accesses", "ll_misses", "dtlb_misses"])
            .chain(["itlb_misses", "micro_tlb_misses", "main_tlb_misses", "branches"])
            .chain(["branch_misses"])
        {
            let counters = native(name, zen5.model()).unwrap();
            assert!(counters.split(" + ").all(|one| COUNTERS.contains(&one)), "{name}: {counters}");
        }
        let simulated =
            ["cycles", "instructions", "stall_backend", "dtlb_misses"].map(is_simulated);
        assert_eq!(simulated, [false, true, false, true]);
        assert_eq!(native("ll_misses", zen5.model()), Ok("l3_misses"));
        assert_eq!(native("ll_misses", Geometry::named("g4").unwrap().model()), Ok("l2_misses"));
    }

    #[test]
    fn missing_events_have_a_reason_and_a_fix() {
        let plain = Geometry::parse("i1=8K/4/64,d1=8K/4/64").unwrap();
        for (name, reason, fix) in [
            ("dtlb_misses", "does not report its TLBs", "--caches os,itlb="),
            ("cycles", "no clock", "--tier hw"),
            ("ibuf_stall_cycles", "no clock", "--tier hw"),
            ("exceptions", "no such event", "--tier hw"),
            ("l1i_accesses", "by cache line", "-e instructions"),
            ("l2_misses", "no L2", ""),
            ("ll_misses", "no level beyond L1", ""),
        ] {
            let refusal = native(name, plain.model()).unwrap_err();
            assert!(refusal.sentence.contains(reason), "{name}: {}", refusal.sentence);
            assert!(refusal.fix.unwrap_or_default().contains(fix), "{name}");
        }
    }
}
