// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels on a fictitious machine.

use linerate_record::kernels::{
    ColdState, HugePages, Kernel, KernelsReport, Mix, PeerReport, RaceWindows, Role, Row, Skipped,
    State, Timing, VariantReport,
};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};

const SIZES: [u64; 13] = [20, 40, 64, 128, 256, 512, 576, 1460, 1500, 4096, 8000, 9000, 65536];
const CYCLES_PER_TICK: f64 = 1.4227;

/// A routine that takes `call` cycles plus one cycle per `bytes_per_cycle` bytes, and more cycles
/// per byte beyond 32 KiB.
#[derive(Clone)]
struct Routine {
    name: &'static str,
    role: Role,
    call: f64,
    bytes_per_cycle: f64,
}

const fn routine(name: &'static str, role: Role, call: f64, bytes_per_cycle: f64) -> Routine {
    Routine { name, role, call, bytes_per_cycle }
}

const CHECKSUM: [Routine; 12] = [
    routine("load128", Role::Bound, 9.0, 31.4),
    routine("load256", Role::Bound, 9.0, 61.6),
    routine("load512", Role::Bound, 9.25, 59.0),
    routine("selected", Role::Selected, 10.2, 56.5),
    routine("dispatch", Role::Entry, 11.0, 56.5),
    routine("portable", Role::Variant, 12.0, 8.2),
    routine("adc", Role::Variant, 8.5, 19.4),
    routine("sse2", Role::Variant, 12.5, 23.0),
    routine("avx2", Role::Variant, 12.2, 44.0),
    routine("avx512vnni", Role::Variant, 10.1, 56.6),
    routine("smoltcp", Role::Peer, 8.0, 11.8),
    routine("internet-checksum", Role::Peer, 14.0, 4.0),
];

const HEADER: Routine = routine("header", Role::Entry, 6.0, 5.0);

const COPY: [Routine; 5] = [
    routine("memcpy", Role::Bound, 13.0, 30.1),
    routine("selected", Role::Selected, 11.0, 31.2),
    routine("portable", Role::Variant, 11.5, 16.0),
    routine("avx2", Role::Variant, 10.9, 31.3),
    routine("avx512vnni", Role::Variant, 11.2, 30.9),
];

/// Cache state and offsets of a case; sizes are added one by one.
#[derive(Clone)]
struct Case {
    kernel: Kernel,
    state: State,
    timing: Timing,
    source: Option<u32>,
    destination: Option<u32>,
    page_distance: Option<u32>,
    offsets: Option<Vec<u32>>,
    /// Factor by which cache state and offsets slow a call down.
    slower: f64,
}

fn cycles(routine: &Routine, bytes: f64, slower: f64) -> f64 {
    let far = if bytes > 32768.0 { bytes / 32.0 } else { 0.0 };
    (routine.call + bytes / routine.bytes_per_cycle).max(far) * slower
}

fn row(case: &Case, routine: &Routine, size: Option<u64>, mix: Option<Mix>, bound: f64) -> Row {
    let mean_bytes = match (size, mix) {
        (Some(size), _) => size as f64,
        (None, Some(Mix::Imix)) => 337.0,
        (None, Some(Mix::Uniform20To256)) => 138.0,
        (None, _) => 760.0,
    };
    let cycles = cycles(routine, mean_bytes, case.slower);
    let ticks = cycles / CYCLES_PER_TICK;
    Row {
        kernel: case.kernel,
        variant: routine.name.to_owned(),
        role: routine.role,
        size,
        mix,
        mean_bytes,
        src_offset: case.source,
        dst_offset: case.destination,
        page_distance: case.page_distance,
        offsets: case.offsets.clone(),
        state: case.state,
        timing: case.timing,
        cycles: Some(cycles),
        cycles_low: Some(cycles * 0.99),
        cycles_high: Some(cycles * 1.015),
        ticks: Some(ticks),
        ticks_low: Some(ticks * 0.99),
        ticks_high: Some(ticks * 1.015),
        n: 41,
        bytes_per_cycle: Some(mean_bytes / cycles),
        bound: Some("load256".to_owned()),
        of_bound: Some(bound / cycles),
        of_bound_low: Some(bound / cycles * 0.98),
        of_bound_high: Some(bound / cycles * 1.01),
        reason: None,
    }
}

/// Returns the rows of all routines at all `sizes` and `mixes` of a case.
fn rows(case: &Case, routines: &[Routine], sizes: &[u64], mixes: &[Mix]) -> Vec<Row> {
    let sizes = sizes.iter().map(|&size| (Some(size), None));
    let mixes = mixes.iter().map(|&mix| (None, Some(mix)));
    let rows = sizes.chain(mixes).flat_map(|(size, mix)| {
        let timed: Vec<Row> = routines.iter().map(|r| row(case, r, size, mix, 1.0)).collect();
        let bounds = timed.iter().filter(|row| row.role == Role::Bound);
        let fastest = bounds.min_by(|a, b| a.cycles.partial_cmp(&b.cycles).unwrap());
        let bound = fastest.map(|row| (row.variant.clone(), row.cycles.unwrap()));
        timed.into_iter().map(move |mut row| {
            row.bound = bound.as_ref().map(|(name, _)| name.clone());
            let share = bound.as_ref().map(|(_, time)| time / row.cycles.unwrap());
            (row.of_bound, row.of_bound_low, row.of_bound_high) =
                (share, share.map(|s| s * 0.98), share.map(|s| s * 1.01));
            row
        })
    });
    rows.collect()
}

fn all_rows() -> Vec<Row> {
    let aligned = Case {
        kernel: Kernel::Checksum,
        state: State::Warm,
        timing: Timing::Throughput,
        source: Some(0),
        destination: None,
        page_distance: None,
        offsets: None,
        slower: 1.0,
    };
    let shifted = Case { source: Some(14), slower: 1.18, ..aligned.clone() };
    let mean = Case {
        source: None,
        offsets: Some(vec![1, 2, 7, 14, 31, 34, 45, 63]),
        slower: 1.25,
        ..aligned.clone()
    };
    let latency = Case { timing: Timing::Latency, slower: 2.0, ..aligned.clone() };
    let written = Case { state: State::JustWritten, slower: 1.6, ..latency.clone() };
    let with_header = [&CHECKSUM[..], &[HEADER]].concat();
    let cold = Case { state: State::Cold, slower: 6.5, ..aligned.clone() };
    let copy = Case { kernel: Kernel::Copy, destination: Some(0), ..aligned.clone() };
    let copy = Case { page_distance: Some(2112), ..copy };
    let copy_same = Case { page_distance: Some(0), slower: 1.4, ..copy.clone() };
    let copy_shifted = Case { destination: Some(2), ..copy.clone() };
    let copy_shifted = Case { source: Some(14), slower: 1.1, ..copy_shifted };
    let fused = Case { kernel: Kernel::CopyChecksum, slower: 1.05, ..copy.clone() };
    let fused_cold = Case { state: State::Cold, slower: 9.0, ..fused.clone() };
    [
        rows(&aligned, &CHECKSUM, &SIZES, &[]),
        rows(&shifted, &CHECKSUM, &SIZES, &[]),
        rows(&mean, &CHECKSUM, &[1460, 4096, 8000], &[]),
        rows(&shifted, &CHECKSUM, &[], &Mix::ALL),
        rows(&latency, &with_header, &[20, 40], &[]),
        rows(&latency, &CHECKSUM, &[64], &[]),
        rows(&written, &with_header, &[20, 40, 60], &[]),
        rows(&cold, &CHECKSUM, &[64, 256, 1460, 9000], &[]),
        rows(&copy, &COPY, &SIZES, &[]),
        rows(&copy_shifted, &COPY, &SIZES, &[]),
        rows(&copy_same, &COPY, &[1460], &[]),
        rows(&fused, &COPY, &SIZES, &[]),
        rows(&fused_cold, &COPY, &[64, 1460], &[]),
    ]
    .concat()
}

fn variant(name: &str, isa: &str, supported: bool, selected_for: &[Kernel]) -> VariantReport {
    VariantReport {
        name: name.to_owned(),
        isa: isa.to_owned(),
        vector: isa.contains('V'),
        compiled: true,
        supported,
        selected_for: selected_for.to_vec(),
    }
}

fn peer(name: &str, source: &str, reason: Option<&str>) -> PeerReport {
    PeerReport {
        name: name.to_owned(),
        source: source.to_owned(),
        kernels: vec![Kernel::Checksum],
        available: reason.is_none(),
        reason: reason.map(str::to_owned),
    }
}

pub(crate) fn report() -> KernelsReport {
    let clock =
        Estimate { value: CYCLES_PER_TICK, low: 1.4213, high: 1.4229, confidence: 0.9, n: 9 };
    KernelsReport {
        processor: Some("Example Processor 9 <9999> & Sons".to_owned()),
        cpu: 1,
        ticks_per_s: 2.6e9,
        cycles_per_tick: Figure::number("cycles/tick", clock, Tier::Sw, "by hand"),
        additions_per_cycle: Figure::exact("additions/cycle", 5.8, Tier::Sw, "by hand"),
        additions_per_cycle_range: Some([3.1, 5.9]),
        huge_pages: HugePages { advised: true, granted: Some(0.973), reason: None },
        cold: Some(ColdState {
            footprint_bytes: 64 << 20,
            stride_bytes: 2048,
            eviction: "each call takes the next of the buffers 2048 bytes apart over 64 MiB, so \
                       that all caches were walked through since its last use; buffers above the \
                       stride lie end to end"
                .to_owned(),
        }),
        variants: vec![
            variant("portable", "", true, &[]),
            variant("adc", "x86-64", true, &[]),
            variant("sse2", "SSE2", true, &[]),
            variant("avx2", "AVX2", true, &[Kernel::Copy, Kernel::CopyChecksum, Kernel::Fill]),
            variant("avx512vnni", "AVX-512 VNNI", true, &[Kernel::Checksum]),
            variant("altivec", "AltiVec", false, &[]),
        ],
        peers: vec![
            peer("smoltcp", "smoltcp 0.14.0", None),
            peer("internet-checksum", "internet-checksum 0.2.1", None),
            peer(
                "dpdk",
                "libdpdk-dev",
                Some("its header is not installed; apt install libdpdk-dev"),
            ),
        ],
        rows: all_rows(),
        wrong: Vec::new(),
        skipped: vec![Skipped { what: "fill".to_owned(), reason: "not asked for".to_owned() }],
        windows: RaceWindows { total: 5321, preempted: 12, dropped_as_slow: 3 },
        seed: 7,
        quick: false,
        interrupted: false,
        sizes_named: false,
    }
}
