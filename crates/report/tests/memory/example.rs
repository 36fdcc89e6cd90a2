// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory hierarchy of a fictitious machine.

use linerate_record::memory::{
    Bandwidth, Bin, ChainsPoint, Conditions, Cost, Curve, CurvePoint, Effort, EventOfChase,
    EventsOfSize, Histogram, LoadedLatency, MemoryLevel, MemoryReport, Mode, Noise, Operation,
    Order, OsVerdict, OsView, PageKind, Pages, PagesVerdict, Parallelism, Timer, TlbLevel,
    TlbState, Unresolved,
};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Provenance, Tier};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const CORE_GHZ: f64 = 3.694;

/// Size in bytes and latency in ns of each level.
const LEVELS: [(f64, f64); 4] = [
    (32.0 * KIB as f64, 1.083),
    (1.02 * MIB as f64, 3.8),
    (7.3 * MIB as f64, 11.4),
    (f64::INFINITY, 98.3),
];

/// Number of entries in the first TLB level, and the cost of a miss in ns.
const ENTRIES: f64 = 72.0;
const MISS_NS: f64 = 1.9;

fn within(unit: &str, value: f64, low: f64, high: f64) -> Figure {
    let estimate = Estimate { value, low, high, confidence: 0.95, n: 5 };
    Figure::number(unit, estimate, Tier::Sw, "synthetic")
}

/// Returns an interval of plus or minus this percentage.
fn about(unit: &str, value: f64, percent: f64) -> Figure {
    let reach = value * percent / 100.0;
    within(unit, value, value - reach, value + reach)
}

fn exact(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Sw, "synthetic")
}

fn absent(unit: &str, reason: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "synthetic", reason)
}

/// Returns the time per load of a page-local chain in ns. Each step from one level to the next
/// spans about an octave.
pub(crate) fn local_ns(bytes: f64) -> f64 {
    let mut ns = LEVELS[0].1;
    for pair in LEVELS.windows(2) {
        let octaves = (bytes / pair[0].0).log2();
        ns += (pair[1].1 - pair[0].1) / (1.0 + (-9.0 * octaves).exp());
    }
    ns
}

fn ns(order: Order, bytes: f64) -> f64 {
    let pages = bytes / 4096.0;
    match order {
        Order::PageLocal => local_ns(bytes),
        Order::Sequential => local_ns(bytes).powf(0.45),
        Order::Random => {
            let miss = MISS_NS * (1.0 - ENTRIES / pages).max(0.0);
            local_ns(bytes) + miss + 48.0 * (1.0 - 3584.0 / pages).max(0.0)
        }
    }
}

fn curve(order: Order, sizes: &[u64]) -> Curve {
    let point = |&bytes: &u64| {
        let (ns, loads) = (ns(order, bytes as f64), 40_000);
        let spread = if bytes > 4 * MIB { 6.0 } else { 0.4 };
        CurvePoint {
            bytes,
            lines: bytes / 64,
            loads,
            elapsed_s: loads as f64 * ns * 1.04 * 1e-9,
            passes_ns: vec![ns, ns * 1.01, ns * 1.02],
            passes_ghz: vec![CORE_GHZ; 3],
            latency_ns: about("ns", ns, spread),
            cycles: about("cycles", ns * CORE_GHZ, spread),
            windows: 12,
            windows_dropped: 1,
        }
    };
    Curve { order, pages: PageKind::Huge, points: sizes.iter().map(point).collect() }
}

/// Returns sizes from 4 KiB to 256 MiB, `per_octave` in each octave.
fn sizes(per_octave: i32) -> Vec<u64> {
    let size = |step: i32| 4096.0 * 2f64.powf(f64::from(step) / f64::from(per_octave));
    (0..=16 * per_octave).map(|step| size(step) as u64 / 64 * 64).collect()
}

fn level(name: &str, index: usize, size: Figure, percent: f64) -> MemoryLevel {
    let ns = LEVELS[index].1;
    MemoryLevel {
        name: name.to_owned(),
        size_bytes: size,
        latency_ns: about("ns", ns, percent),
        latency_cycles: about("cycles", ns * CORE_GHZ, percent),
        settled: true,
        note: None,
    }
}

fn levels() -> Vec<MemoryLevel> {
    let (kib, mib) = (KIB as f64, MIB as f64);
    let memory = level("memory", 3, absent("bytes", "memory has no size here"), 2.0);
    vec![
        level("L1", 0, within("bytes", 32.0 * kib, 31.5 * kib, 32.5 * kib), 0.3),
        level("L2", 1, within("bytes", 1.02 * mib, 0.97 * mib, 1.06 * mib), 0.5),
        level("L3", 2, within("bytes", 7.3 * mib, 6.1 * mib, 8.9 * mib), 3.0),
        MemoryLevel {
            latency_ns: within("ns", 98.3, 70.1, 99.6),
            settled: false,
            note: Some("two plateaus, 70 and 98 ns, took turns".to_owned()),
            ..memory
        },
    ]
}

fn tlb() -> Vec<TlbLevel> {
    let level = |name: &str, cost: f64| TlbLevel {
        name: name.to_owned(),
        pages: PageKind::Base,
        entries: within("pages", ENTRIES, ENTRIES, ENTRIES),
        onset: exact("pages", ENTRIES),
        half: exact("pages", ENTRIES),
        cost_ns: about("ns", cost, 2.0),
        cost_cycles: about("cycles", cost * CORE_GHZ, 2.0),
        note: None,
    };
    let slow = TlbLevel {
        entries: absent("pages", "the time climbs slowly, there is no step"),
        onset: within("pages", 2230.0, 2100.0, 2400.0),
        half: within("pages", 4096.0, 3800.0, 4500.0),
        cost_ns: within("ns", 12.5, 11.8, f64::INFINITY),
        note: Some("climbs slowly, and its end was not seen".to_owned()),
        ..level("L2 dTLB", 12.5)
    };
    vec![level("L1 dTLB", MISS_NS), slow]
}

fn costs() -> Vec<Cost> {
    let states = [(TlbState::Hit, 0.0), (TlbState::MissL1, MISS_NS), (TlbState::Walk, 27.6)];
    let cost = |name: &str, ns: f64, tlb, at_once: f64| Cost {
        level: name.to_owned(),
        tlb,
        ns: about("ns", ns, 1.0),
        cycles: about("cycles", ns * CORE_GHZ, 1.0),
        overlapped_ns: about("ns", ns / at_once, 3.0),
    };
    let levels =
        [("L1", 1.083, 8.1), ("L2", 3.8, 11.8), ("L3", 11.4, 21.5), ("memory", 98.3, 19.7)];
    let each = levels.iter().flat_map(|&(name, ns, at_once)| {
        states.map(|(state, more)| cost(name, ns + more, state, at_once))
    });
    each.collect()
}

/// Returns a mode measured with a timer resolution of 10 ns.
fn mode(name: &str, ns: f64, share: f64) -> Mode {
    let (low_ns, high_ns) = (Some(ns - 5.0), Some(ns + 5.0));
    Mode { name: Some(name.to_owned()), ns, low_ns, high_ns, share }
}

/// Returns a histogram of 1000 loads from 8 MiB, with a timer that ticks every 10 ns.
fn clusters() -> Histogram {
    let counts =
        [(-10.0, 3), (0.0, 301), (10.0, 315), (20.0, 22), (90.0, 61), (100.0, 247), (110.0, 40)];
    let bin = |index: usize| {
        let from_ns = -10.0 + 10.0 * index as f64;
        let known = counts.iter().find(|(from, _)| *from == from_ns);
        let to_ns = (index < 20).then_some(from_ns + 10.0);
        let count = if index == 20 { 11 } else { known.map_or(0, |(_, count)| *count) };
        Bin { from_ns, to_ns, count }
    };
    Histogram {
        bytes: 8 * MIB,
        level: Some("L3".to_owned()),
        samples: 1000,
        bias_ns: about("ns", 22.7, 1.0),
        bins: (0..=20).map(bin).collect(),
        modes: vec![mode("L3", 11.6, 0.641), mode("memory", 99.1, 0.348)],
        slope_ns: about("ns", 41.2, 4.0),
    }
}

/// Returns a histogram of loads that all take the same time, from a chain that is assigned to no
/// level.
fn single() -> Histogram {
    Histogram {
        bytes: 8 * KIB,
        level: None,
        samples: 1000,
        bins: vec![
            Bin { from_ns: 0.0, to_ns: Some(10.0), count: 1000 },
            Bin { from_ns: 10.0, to_ns: None, count: 0 },
        ],
        modes: Vec::new(),
        slope_ns: about("ns", 1.085, 0.4),
        ..clusters()
    }
}

fn parallelism() -> Vec<Parallelism> {
    let chains = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
    let levels = [
        ("L2", 512 * KIB, 3.8, 11.8),
        ("L3", 4 * MIB, 11.4, 21.5),
        ("memory", 256 * MIB, 98.3, 19.7),
    ];
    let of = |(name, bytes, ns, most): (&str, u64, f64, f64)| Parallelism {
        level: name.to_owned(),
        bytes,
        points: chains
            .map(|chains| ChainsPoint {
                chains,
                ns_per_load: about("ns", ns / f64::from(chains).min(most), 1.0),
            })
            .to_vec(),
        outstanding: about("loads", most, 5.0),
    };
    levels.map(of).to_vec()
}

fn bandwidth() -> Vec<Bandwidth> {
    let levels = [
        ("L1", 16 * KIB, 236.4),
        ("L2", 512 * KIB, 118.2),
        ("L3", 4 * MIB, 81.6),
        ("memory", 256 * MIB, 31.5),
    ];
    let operations = [(Operation::Read, 1.0), (Operation::Write, 0.5), (Operation::Copy, 0.42)];
    let mut rows = Vec::new();
    for (name, bytes, gb) in levels {
        for (operation, share) in operations {
            for (threads, gain) in [(1, 1.0), (2, 1.7)] {
                let gb_per_s = match (name, threads) {
                    ("L1", 2) => absent("GB/s", "the threads could not begin together"),
                    _ => about("GB/s", gb * share * gain, 2.0),
                };
                let bound = about("GB/s", 238.0 * share * f64::from(threads), 1.0);
                let level = name.to_owned();
                rows.push(Bandwidth { level, bytes, operation, threads, gb_per_s, bound });
            }
        }
    }
    rows
}

fn loaded() -> Vec<LoadedLatency> {
    let point = |threads, duty, gb: f64, ns: f64| LoadedLatency {
        threads,
        duty,
        gb_per_s: exact("GB/s", gb),
        latency_ns: about("ns", ns, 3.0),
    };
    vec![point(0, 0.0, 0.0, 98.3), point(1, 0.5, 14.2, 112.0), point(1, 1.0, 27.9, 143.0)]
}

fn noise() -> Noise {
    let gap = |from_ns: f64, to_ns, count| Bin { from_ns, to_ns, count };
    Noise {
        elapsed_s: 0.5,
        lost: about("ratio", 0.045, 10.0),
        gaps_per_s: exact("1/s", 412.0),
        longest_us: exact("us", 22_500.0),
        gaps: vec![
            gap(1e3, Some(1e4), 150),
            gap(1e4, Some(1e5), 40),
            gap(1e5, Some(1e6), 0),
            gap(1e6, Some(1e7), 15),
            gap(1e7, None, 1),
        ],
        stolen: exact("ratio", 0.002),
        others: absent("ratio", "/proc/stat cannot be read"),
        quota_cpus: Some(1.5),
    }
}

fn os_view() -> Vec<OsView> {
    let view = |name: &str, stated: Option<u64>, found: Figure, verdict, sentence: &str| OsView {
        name: name.to_owned(),
        stated_bytes: stated,
        found_bytes: found,
        verdict,
        sentence: sentence.to_owned(),
    };
    let found = |index: usize| exact("bytes", LEVELS[index].0);
    vec![
        view("L1", Some(32 * KIB), found(0), OsVerdict::Agrees, "found as stated"),
        view("L2", Some(MIB), found(1), OsVerdict::Agrees, "found as stated"),
        view(
            "L3",
            Some(32 * MIB),
            found(2),
            OsVerdict::Smaller,
            "only 7.3 of 32 MiB is available now: shared with other tenants, or partitioned by the \
             hypervisor",
        ),
        view("line", Some(64), exact("bytes", 64.0), OsVerdict::Agrees, "found as stated"),
    ]
}

/// Returns a report with counts from a processor whose cache-miss event increases with time.
pub(crate) fn counted() -> MemoryReport {
    let event = |name: &str, per_load: Figure| EventOfChase {
        event: name.to_owned(),
        per_load,
        plausible: Some(true),
        doubt: None,
    };
    let size = |bytes, misses: f64| EventsOfSize {
        bytes,
        loads: 1 << 20,
        events: vec![
            event("instructions", about("1/load", 1.063, 0.1)),
            event("loads", about("1/load", 1.001, 0.1)),
            event("l1d_misses", about("1/load", misses, 0.1)),
            EventOfChase {
                plausible: None,
                ..event("dtlb_misses", absent("1/load", "the processor has no such event"))
            },
        ],
    };
    let doubtful = EventOfChase {
        plausible: Some(false),
        doubt: Some("0.184 per load, and every load was made: at least 1".to_owned()),
        ..event("loads", exact("1/load", 0.184))
    };
    let mut events = vec![size(16 * KIB, 0.0002), size(4 * MIB, 0.998)];
    events[1].events[1] = doubtful;
    MemoryReport { events, events_reason: None, ..report() }
}

/// Returns the report of a short, interrupted run on a machine that reports little.
pub(crate) fn bare() -> MemoryReport {
    let whole = report();
    let why = "interrupted before";
    let conditions = Conditions {
        effort: Effort::Quick,
        load_before: None,
        load_after: None,
        cpus: Vec::new(),
        interrupted: true,
        ..whole.conditions
    };
    let noise = Noise {
        elapsed_s: 0.0,
        lost: absent("ratio", why),
        gaps_per_s: absent("1/s", why),
        longest_us: absent("us", why),
        gaps: Vec::new(),
        stolen: absent("ratio", why),
        others: absent("ratio", why),
        quota_cpus: None,
    };
    let pages = Pages {
        huge_bytes: None,
        used: PageKind::Base,
        granted: absent("ratio", "not asked for"),
        time_ratio: absent("ratio", "there are none"),
        verdict: PagesVerdict::NotOffered,
        sentence: "the system has no huge pages".to_owned(),
        ..whole.pages
    };
    MemoryReport {
        conditions,
        pages,
        noise,
        curves: Vec::new(),
        levels: Vec::new(),
        unresolved: Vec::new(),
        tlb: Vec::new(),
        costs: Vec::new(),
        histograms: Vec::new(),
        parallelism: Vec::new(),
        bandwidth: Vec::new(),
        loaded: Vec::new(),
        os_view: Vec::new(),
        events_reason: Some(why.to_owned()),
        timer: Timer { invariant: None, core_ghz: absent("GHz", why), ..whole.timer },
        ..whole
    }
}

/// Returns reports that no measurement produces but that a file may contain.
pub(crate) fn odd() -> Vec<MemoryReport> {
    let values = [0.0, -1.0, f64::MIN_POSITIVE, 1e300];
    let of_value = |&value: &f64| {
        let mut odd = report();
        let figure = Figure { low: Some(value), high: Some(-value), ..exact("", value) };
        for level in &mut odd.levels {
            level.name += "\u{1b}[2J of a name that goes on and on";
            (level.size_bytes, level.latency_ns) = (figure.clone(), figure.clone());
        }
        odd.tlb.iter_mut().for_each(|level| level.entries = figure.clone());
        for point in odd.curves.iter_mut().flat_map(|curve| &mut curve.points) {
            point.latency_ns = figure.clone();
            point.loads = 0;
        }
        odd
    };
    let mut odd: Vec<MemoryReport> = values.iter().map(of_value).collect();
    let mut sizes = report();
    sizes.curves[0].points[0].bytes = u64::MAX;
    sizes.curves[0].points[1].bytes = 0;
    sizes.curves[1].points.truncate(1);
    sizes.curves[2].points.clear();
    sizes.histograms.iter_mut().flat_map(|h| &mut h.bins).for_each(|bin| bin.count = u64::MAX);
    odd.push(sizes);
    let mut single = report();
    single.curves.truncate(1);
    single.curves[0].points.truncate(1);
    odd.push(single);
    let mut many = report();
    many.levels = (0..9).flat_map(|_| report().levels).collect();
    many.curves = (0..9).flat_map(|_| report().curves).collect();
    many.tlb = (0..9).flat_map(|_| report().tlb).collect();
    odd.push(many);
    odd
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        cpu: Some("Example Processor 9 <9999> & Sons".to_owned()),
        hypervisor: Some("KVM".to_owned()),
        ..Provenance::default()
    }
}

pub(crate) fn report() -> MemoryReport {
    MemoryReport {
        conditions: Conditions {
            effort: Effort::Default,
            elapsed_s: 9.42,
            cpu: 1,
            cpus: vec![0, 1],
            line_bytes: 64,
            max_bytes: 256 * MIB,
            max_reason: "a quarter of the memory that is available".to_owned(),
            load_before: Some(0.62),
            load_after: Some(0.71),
            windows: 4310,
            windows_dropped: 213,
            interrupted: false,
        },
        timer: Timer {
            source: "tsc".to_owned(),
            invariant: Some(true),
            rate_ghz: exact("GHz", 2.596),
            step_ns: exact("ns", 10.0),
            overhead_ns: about("ns", 22.7, 1.0),
            core_ghz: about("GHz", CORE_GHZ, 0.2),
        },
        pages: Pages {
            base_bytes: 4 * KIB,
            huge_bytes: Some(2 * MIB),
            used: PageKind::Huge,
            granted: exact("ratio", 1.0),
            time_ratio: about("ratio", 0.98, 2.0),
            verdict: PagesVerdict::Splintered,
            sentence:
                "huge pages are granted, but the buffer holds pieces of 4 KiB: the host backs \
                       them with small pages; have it use huge ones"
                    .to_owned(),
        },
        curves: vec![
            curve(Order::PageLocal, &sizes(4)),
            curve(Order::Random, &sizes(2)),
            curve(Order::Sequential, &sizes(1)),
        ],
        levels: levels(),
        unresolved: vec![Unresolved {
            from_bytes: 6 * MIB,
            to_bytes: 12 * MIB,
            cause: "moved".to_owned(),
            sentence: "the plateau of memory varied between passes; measure again, or for longer \
                 with --full"
                .to_owned(),
        }],
        resolution: 2.0,
        tlb: tlb(),
        costs: costs(),
        histograms: vec![single(), clusters()],
        parallelism: parallelism(),
        bandwidth: bandwidth(),
        loaded: loaded(),
        noise: noise(),
        os_view: os_view(),
        events: Vec::new(),
        events_reason: Some("the host provides no virtual PMU".to_owned()),
    }
}
