// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches, TLBs and processor of a simulation.

use super::{line, note};
use crate::Style;
use linerate_record::stat::{
    CacheShape, Contents, Replacement, SimulatedCaches, SimulatedLevel, SimulatedMachine,
    SimulatedTlb, Writes,
};

/// Names the simulator that produced the counts, for the line about the evidence tier.
pub(super) fn simulator(caches: Option<&SimulatedCaches>) -> String {
    let Some(machine) = caches.and_then(|caches| caches.machine.as_ref()) else {
        return "by Valgrind with the caches below".to_owned();
    };
    let SimulatedMachine { emulator, processor, .. } = machine;
    let lacks = match emulator.as_str() {
        "qemu-x86_64" | "qemu-i386" => ", which has AVX2 but no AVX-512",
        _ => "",
    };
    format!("in {emulator} (processor {processor}{lacks}) with the caches below")
}

/// Formats one line that names the simulated caches; the details are in [`lines`].
pub(super) fn named(caches: &SimulatedCaches, style: &Style) -> String {
    line("caches", &format!("those of {} (--details lists them)", caches.name), style)
}

/// Formats the lines about the simulated caches.
pub(super) fn lines(caches: &SimulatedCaches, style: &Style) -> String {
    let name = &caches.name;
    let Some(machine) = &caches.machine else {
        let (i1, d1, ll) = (shape(caches.i1), shape(caches.d1), shape(caches.ll));
        let text = format!("of {name}: I1 {i1}; D1 {d1}; last level {ll}");
        return line("caches", &text, style) + &note(&caches.note, style);
    };
    let levels: Vec<String> = machine.levels.iter().map(|one| level(one, machine.writes)).collect();
    let text = format!("of {name}: {}", levels.join("; "));
    line("caches", &text, style) + &note(&caches.note, style) + &tlbs(machine, style)
}

fn tlbs(machine: &SimulatedMachine, style: &Style) -> String {
    let all: Vec<String> = machine.tlbs.iter().map(tlb).collect();
    let text = match all.is_empty() {
        true => "unknown, so not simulated".to_owned(),
        false => format!("{}; pages of {}", all.join("; "), size(machine.page_bytes)),
    };
    line("tlbs", &text, style)
}

fn level(level: &SimulatedLevel, writes: Writes) -> String {
    let contents = match level.contents {
        Contents::Any => "",
        Contents::Inclusive => ", inclusive",
        Contents::Exclusive => ", exclusive",
        Contents::Victim => ", filled by evictions",
    };
    let writes = match writes {
        Writes::Around if level.name == "L1D" => ", no-write-allocate",
        Writes::Through if level.name == "L1D" => ", write-through",
        _ => "",
    };
    let shape = shape(level.shape);
    format!("{} {shape}{}{contents}{writes}", level.name, replacement(level.replacement))
}

fn replacement(replacement: Replacement) -> &'static str {
    match replacement {
        Replacement::Lru => "",
        Replacement::Fifo => ", round-robin",
        Replacement::Random => ", random replacement",
    }
}

fn tlb(tlb: &SimulatedTlb) -> String {
    let ways = match tlb.ways {
        ways if ways == tlb.entries => "fully associative".to_owned(),
        1 => "1 way".to_owned(),
        ways => format!("{ways} ways"),
    };
    format!("{} {} entries, {ways}{}", tlb.name, tlb.entries, replacement(tlb.replacement))
}

/// Formats a cache's geometry: `32 KiB, 8 ways, 64-byte lines`.
fn shape(cache: CacheShape) -> String {
    let ways = if cache.ways == 1 { "1 way".to_owned() } else { format!("{} ways", cache.ways) };
    format!("{}, {ways}, {}-byte lines", size(cache.bytes), cache.line_bytes)
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_named_by_the_largest_whole_unit() {
        let cache = |bytes, ways| shape(CacheShape { bytes, ways, line_bytes: 64 });
        assert_eq!(cache(32 << 10, 8), "32 KiB, 8 ways, 64-byte lines");
        assert_eq!(cache(32 << 20, 1), "32 MiB, 1 way, 64-byte lines");
        assert_eq!(cache(1_310_720, 5), "1280 KiB, 5 ways, 64-byte lines");
    }

    #[test]
    fn a_model_has_its_rules_and_tlbs() {
        let shape = CacheShape { bytes: 16 << 10, ways: 4, line_bytes: 32 };
        let of = |name: &str, replacement, contents| SimulatedLevel {
            name: name.to_owned(),
            shape,
            replacement,
            contents,
        };
        let machine = SimulatedMachine {
            emulator: "qemu-arm".to_owned(),
            processor: "arm1176".to_owned(),
            levels: vec![
                of("L1D", Replacement::Random, Contents::Any),
                of("L2", Replacement::Lru, Contents::Victim),
            ],
            writes: Writes::Around,
            tlbs: vec![SimulatedTlb {
                name: "DTLB".to_owned(),
                entries: 10,
                ways: 10,
                replacement: Replacement::Fifo,
            }],
            page_bytes: 4096,
        };
        let note = String::new();
        let name = "arm1176".to_owned();
        let machine = Some(machine);
        let caches = SimulatedCaches { name, i1: shape, d1: shape, ll: shape, note, machine };
        let style = Style { color: false, width: 300, markup: crate::Markup::Terminal };
        let text = lines(&caches, &style);
        assert_eq!(
            text,
            "caches      of arm1176: L1D 16 KiB, 4 ways, 32-byte lines, random replacement, \
             no-write-allocate; L2 16 KiB, 4 ways, 32-byte lines, filled by evictions\n\
             tlbs        DTLB 10 entries, fully associative, round-robin; pages of 4 KiB\n"
        );
        let simulator = simulator(Some(&caches));
        assert_eq!(simulator, "in qemu-arm (processor arm1176) with the caches below");
    }
}
