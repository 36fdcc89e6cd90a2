// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory report with four levels and round figures.

use linerate_record::memory::{Cost, MemoryLevel, MemoryReport, TlbState};
use linerate_record::{Figure, Tier, fixtures};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Sw, "synthetic")
}

pub(crate) fn absent(unit: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "synthetic", "not measured")
}

fn level(name: &str, bytes: Option<u64>, ns: f64) -> MemoryLevel {
    MemoryLevel {
        name: name.to_owned(),
        size_bytes: bytes.map_or_else(|| absent("B"), |bytes| figure("B", bytes as f64)),
        latency_ns: figure("ns", ns),
        latency_cycles: figure("cycles", 4.0 * ns),
        settled: true,
        note: None,
    }
}

/// Returns a report with caches of 32 KiB, 1 MiB and 8 MiB, and memory, whose latencies are 1, 4,
/// 12 and 100 ns; a load from L3 with a page walk takes 15 ns.
pub(crate) fn report() -> MemoryReport {
    let walk = Cost {
        level: "L3".to_owned(),
        tlb: TlbState::Walk,
        ns: figure("ns", 15.0),
        cycles: figure("cycles", 60.0),
        overlapped_ns: absent("ns"),
    };
    MemoryReport {
        levels: vec![
            level("L1", Some(32 * KIB), 1.0),
            level("L2", Some(MIB), 4.0),
            level("L3", Some(8 * MIB), 12.0),
            level("memory", None, 100.0),
        ],
        unresolved: Vec::new(),
        resolution: 2.0,
        tlb: Vec::new(),
        costs: vec![walk],
        ..fixtures::memory()
    }
}
