// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory report of four levels with round figures, for tests of what is judged from one.

use linerate_record::memory::{
    Conditions, Cost, Effort, MemoryLevel, MemoryReport, Noise, PageKind, Pages, PagesVerdict,
    Timer, TlbState,
};
use linerate_record::{Figure, Tier};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Sw, "made up")
}

pub(crate) fn absent(unit: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "made up", "not measured")
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

fn conditions() -> Conditions {
    Conditions {
        effort: Effort::Quick,
        seconds: 2.0,
        cpu: 0,
        cpus: vec![0],
        line_bytes: 64,
        max_bytes: 256 * MIB,
        max_reason: "made up".to_owned(),
        load_before: None,
        load_after: None,
        windows: 1,
        windows_dropped: 0,
        interrupted: false,
    }
}

/// 32 KiB, 1 MiB, 8 MiB and memory, at 1, 4, 12 and 100 ns; 15 ns from L3 with a walk.
pub(crate) fn report() -> MemoryReport {
    let ns = || absent("ns");
    let timer = Timer {
        source: "tsc".to_owned(),
        invariant: None,
        rate_ghz: absent("GHz"),
        step_ns: ns(),
        overhead_ns: ns(),
        core_ghz: absent("GHz"),
    };
    let pages = Pages {
        base_bytes: 4096,
        huge_bytes: None,
        used: PageKind::Base,
        granted: absent("ratio"),
        time_ratio: absent("ratio"),
        verdict: PagesVerdict::Unknown,
        sentence: String::new(),
    };
    let noise = Noise {
        seconds: 0.1,
        lost: absent("ratio"),
        gaps_per_s: absent("1/s"),
        longest_us: absent("us"),
        gaps: Vec::new(),
        stolen: absent("ratio"),
        others: absent("ratio"),
        quota_cpus: None,
    };
    let walk = Cost {
        level: "L3".to_owned(),
        tlb: TlbState::Walk,
        ns: figure("ns", 15.0),
        cycles: figure("cycles", 60.0),
        overlapped_ns: ns(),
    };
    MemoryReport {
        conditions: conditions(),
        timer,
        pages,
        curves: Vec::new(),
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
        histograms: Vec::new(),
        parallelism: Vec::new(),
        bandwidth: Vec::new(),
        loaded: Vec::new(),
        noise,
        os_view: Vec::new(),
        events: Vec::new(),
        events_reason: None,
    }
}
