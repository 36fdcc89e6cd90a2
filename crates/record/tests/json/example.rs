// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-written example records for tests, which together contain values of every variant.

use crate::{counting, foreign, memory, plan};
use linerate_record::kernels::{
    ColdState, HugePages, Kernel, KernelsReport, Mix, PeerReport, RaceWindows, Role, Row, Skipped,
    State, Timing, VariantReport, WrongResult,
};
use linerate_record::run::{
    Bounds, BucketUse, CountedEvent, CountedEvents, FailureKind, InterfaceChanges, InterfaceReport,
    KernelUse, Latency, Ledger, LineReport, PacketsHome, ReceivedReport, RingReport, RunReport,
    SentReport, StageFailure, StageReport, Tally, TimeShares, VariantTime, WindowCount,
    WorkerReport,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::{
    CalibratedStage, CalibrationReport, Candidate, Finding, KernelAdvice, KernelShare, Limit,
    RuledOut, TuneReport,
};
use linerate_record::why::Quota;
use linerate_record::{Body, Figure, Provenance, Record, Tier};
use std::collections::BTreeMap;

fn figure(unit: &str, value: f64) -> Figure {
    let (low, high) = (value * 0.98, value / 0.99);
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 731 };
    Figure::number(unit, estimate, Tier::Sw, "median of clean windows")
}

fn stage(name: &str) -> StageReport {
    let input = Tally { packets: 1000, bytes: 64_000 };
    let drop = Tally { packets: 7, bytes: 448 };
    StageReport {
        name: name.to_owned(),
        packets: 1000,
        bypassed: 40,
        kpps: Some(1234.5),
        ticks_per_packet: figure("ticks/packet", 211.3),
        cycles_per_packet: Figure::absent("cycles/packet", Tier::Sw, "chase", "the clock moved"),
        busy: Some(0.91),
        starved: Some(0.02),
        blocked: None,
        empty_polls: 12,
        drops: BTreeMap::from([("bad checksum".to_owned(), 7)]),
        ledger: Ledger {
            input,
            output: Tally { packets: 993, bytes: 63_552 },
            drops: BTreeMap::from([("bad checksum".to_owned(), drop)]),
            ..Ledger::default()
        },
        counts: BTreeMap::from([("rule 1".to_owned(), 5)]),
        idle: None,
        kernels: Some(vec![KernelUse {
            kernel: Kernel::Checksum,
            variant: "avx2".to_owned(),
            calls_per_packet: 0.98,
            bytes_per_call: 351.5,
            ticks_per_packet: figure("ticks/packet", 21.3),
            share: figure("ratio", 0.1),
            variants: vec![VariantTime {
                variant: "portable".to_owned(),
                selected: false,
                time_ratio: figure("ratio", 2.5),
            }],
        }]),
        events: Some(BTreeMap::from([("cpi".to_owned(), figure("cycles/instruction", 0.7))])),
    }
}

/// An interface that receives and sends.
fn interface() -> InterfaceReport {
    let interface = Some(Bounds { least: 1_000, most: 1_010 });
    InterfaceReport {
        port: "inside".to_owned(),
        interface: "veth0".to_owned(),
        io: "af_packet".to_owned(),
        promiscuous: false,
        queues: 1,
        receiving_queues: 1,
        rx_queues: Some(2),
        received: Some(ReceivedReport {
            interface,
            interface_drops: BTreeMap::from([("rx_dropped".to_owned(), 3)]),
            frames: Some(1_004),
            ring_full: 100,
            taken: 900,
            waiting: 4,
            coalesced_frames: 2,
            coalesced_packets: Some(9),
        }),
        sent: Some(SentReport { interface, interface_drops: BTreeMap::new(), accepted: 1_000 }),
        changes: InterfaceChanges {
            went_down: 1,
            is_gone: false,
            renamed_to: Some("veth9".to_owned()),
            mtu: Some([1_500, 600]),
        },
    }
}

pub(crate) fn run_report() -> RunReport {
    RunReport {
        path: "edge \"north\"".to_owned(),
        mapping: "parse | verify".to_owned(),
        kernels: Some("selected".to_owned()),
        counted: Some(CountedEvents {
            reading: Some("user read".to_owned()),
            one_iteration_in: 64,
            events: vec![CountedEvent {
                name: "ll_misses".to_owned(),
                reason: Some("this processor does not count it".to_owned()),
                fix: None,
            }],
        }),
        elapsed_s: 2.0,
        ticks_per_s: 2.4e9,
        offered_kpps: Some(figure("kpps", 1300.0)),
        throughput_kpps: figure("kpps", 1234.5),
        processed_kpps: figure("kpps", 1250.25),
        line_rate_kpps: None,
        goal_kpps: None,
        workers: vec![WorkerReport {
            name: "0.0".to_owned(),
            cpu: 2,
            segment: 0,
            replica: 0,
            stages: vec![stage("parse"), stage("verify")],
            time: Some(TimeShares {
                busy: 0.93,
                starved: 0.02,
                blocked: 0.0,
                lost: 0.04,
                unaccounted: 0.01,
            }),
            run_delay_ns: Some(u64::MAX),
            stolen_ns: Some(10_000_000),
            lost_ns: 80_000_000,
            ticks_per_packet: figure("ticks/packet", 422.6),
            empty_polls: 12,
            burst_sizes: vec![0, 1, 5, 9],
            windows: WindowCount { total: 1900, preempted: 55 },
            involuntary_switches: 61,
            cpu_ns: 2_061_000_000,
            idle: None,
        }],
        rings: vec![RingReport {
            name: "0.0 > 1.0".to_owned(),
            capacity: 1024,
            occupancy: vec![5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 9],
            full_pushes: 3,
            held: 0,
        }],
        latency: latency(),
        rejected: BTreeMap::from([("cut header".to_owned(), 4)]),
        input: None,
        interrupted: false,
        frames: Some(96),
        buckets: Some(BucketUse { buckets: 128, in_use: 123, largest_share: 0.03 }),
        cpus_available: Some(2),
        line: Some(LineReport { bits_per_s: 1e9, ports: 2, mean_frame_bytes: 338.0 }),
        finding: Some(finding()),
        causes: Vec::new(),
        kernel_advice: Some(advice()),
        packets_home: Some(packets_home()),
        interfaces: vec![interface()],
        quotas: Some(vec![quota()]),
        failure: Some(failure()),
    }
}

fn failure() -> StageFailure {
    StageFailure {
        kind: FailureKind::Panic,
        worker: "0.0".to_owned(),
        stage: "count".to_owned(),
        packet: Some(95),
        message: "requested fault".to_owned(),
    }
}

fn latency() -> Latency {
    Latency {
        p50: figure("ns", 812.0),
        p99: figure("ns", 12_000.0),
        p999: Figure::absent("ns", Tier::Sw, "sampled", "too few samples"),
    }
}

fn quota() -> Quota {
    Quota {
        group: "/sys/fs/cgroup/a".to_owned(),
        pids: vec![4711],
        cpus: 1.5,
        periods: 20,
        throttled_periods: 3,
        throttled_s: 0.06,
        removal: Some("echo max | sudo tee /sys/fs/cgroup/a/cpu.max".to_owned()),
    }
}

fn packets_home() -> PacketsHome {
    PacketsHome {
        bytes: Figure::exact("B", 1e6, Tier::Model, "frames and buffers"),
        level: Figure::text("L2", Tier::Model, "profile"),
        miss_ns: Figure::exact("ns", 80.0, Tier::Model, "profile"),
        miss_cycles: Figure::absent("cycles", Tier::Model, "profile", "no clock"),
        sentence: Some("frames and buffers exceed L1".to_owned()),
    }
}

fn finding() -> Finding {
    Finding {
        limit: Limit::Processing,
        bottleneck: Some("verify".to_owned()),
        worker: Some("1.0".to_owned()),
        sentence: "verify takes 211 of 422 ticks".to_owned(),
    }
}

fn advice() -> KernelAdvice {
    KernelAdvice {
        in_use: "portable".to_owned(),
        fastest: "selected".to_owned(),
        time_ratio: figure("ratio", 0.4),
        stage: "verify".to_owned(),
        stage_kpps: figure("kpps", 20_000.0),
        stage_fastest_kpps: figure("kpps", 30_000.0),
        path_kpps: figure("kpps", 1240.0),
        path_fastest_kpps: figure("kpps", 1400.0),
        worth_trying: true,
        sentence: "`selected` takes 0.4 of the time".to_owned(),
    }
}

fn calibration() -> CalibrationReport {
    let stage = |name: &str, hot: Option<f64>| CalibratedStage {
        name: name.to_owned(),
        ticks_per_packet: figure("ticks/packet", 120.0),
        hot_ticks_per_packet: hot.map(|hot| figure("ticks/packet", hot)),
        reach: 0.5,
    };
    CalibrationReport {
        kernels: "selected".to_owned(),
        burst: 32,
        ring: 1024,
        workers: 2,
        cpus: 4,
        ticks_per_s: 2.4e9,
        drift: 0.02,
        source: stage("source", None),
        stages: vec![stage("parse", None), stage("verify", Some(60.0))],
        sink: stage("sink", None),
        global_stages: vec!["verify".to_owned()],
        ring_out: figure("ticks/packet", 20.0),
        ring_in: figure("ticks/packet", 30.0),
        burst_ticks: figure("ticks/burst", 100.0),
        largest_shares: vec![1.0, 0.5],
    }
}

pub(crate) fn record(body: Body) -> Record {
    Record {
        provenance: Provenance {
            program: "linerate 0.1.0".to_owned(),
            commit: None,
            compiler: "rustc 1.85.0".to_owned(),
            command: "linerate run edge.toml".to_owned(),
            unix_s: 1_790_000_000,
            architecture: "x86_64".to_owned(),
            cpu: Some("a processor".to_owned()),
            cpus: vec![0, 1],
            kernel: Some("Linux 6.1".to_owned()),
            hypervisor: None,
            emulated: Some(false),
            load_1min: Some(0.1),
            ticks_per_s: Some(2.4e9),
            ticks_invariant: Some(false),
            others: Some(figure("ratio", 0.25)),
            siblings: Some(vec![vec![0, 1]]),
            cpu_quota: None,
        },
        body,
    }
}

/// Returns the hand-written records, one of each of ten kinds.
pub(crate) fn all() -> [Record; 10] {
    let (stat, doctor, regions) = (counting::stat(), counting::doctor(), counting::regions());
    let (workers, answers) = (foreign::strands(), foreign::answers());
    let (memory, plan) = (memory::memory(), plan::plan());
    [run(), tune(), kernels(), stat, doctor, regions, memory, workers, answers, plan]
}

pub(crate) fn run() -> Record {
    record(Body::Run(Box::new(run_report())))
}

pub(crate) fn tune() -> Record {
    record(Body::Tune(Box::new(TuneReport {
        given_workers: None,
        cpus_available: None,
        packets_home: None,
        waits: Vec::new(),
        calibration: Some(calibration()),
        predicted_from: None,
        baseline_latency: None,
        p99_limit_ns: None,
        idle: None,
        given_mapping: "parse | verify | nat44".to_owned(),
        baseline_mapping: "parse | verify".to_owned(),
        baseline: run_report(),
        baseline_kpps: figure("kpps", 1240.0),
        finding: finding(),
        candidates: vec![Candidate {
            name: "merge and replicate x2".to_owned(),
            mapping: "parse+verify x2".to_owned(),
            burst: 32,
            kernels: Some("selected".to_owned()),
            predicted_kpps: Figure::exact("kpps", 2400.0, Tier::Model, "service times"),
            memory_bound: false,
            measured_kpps: Some(figure("kpps", 2310.0)),
            speedup: None,
            latency: None,
        }],
        ruled_out: vec![RuledOut { name: "split".to_owned(), reason: "too few CPUs".to_owned() }],
        chosen: Some(0),
        tuned: run_report(),
        rounds: 7,
        kernel_shares: Some(vec![KernelShare {
            stage: "verify".to_owned(),
            kernel: Kernel::Checksum,
            before: figure("ratio", 0.3),
            after: Figure::absent("ratio", Tier::Sw, "replay", "the calls were not logged"),
        }]),
        kernel_advice: Some(advice()),
    })))
}

fn rows() -> Vec<Row> {
    let fused = Row {
        kernel: Kernel::CopyChecksum,
        variant: "selected".to_owned(),
        role: Role::Selected,
        size: Some(1460),
        mix: None,
        mean_bytes: 1460.0,
        src_offset: Some(14),
        dst_offset: Some(2),
        page_distance: Some(2100),
        offsets: None,
        state: State::Warm,
        timing: Timing::Throughput,
        cycles: Some(58.4),
        cycles_low: Some(58.0),
        cycles_high: Some(59.1),
        ticks: Some(41.0),
        ticks_low: Some(40.75),
        ticks_high: Some(41.5),
        n: 41,
        bytes_per_cycle: Some(25.0),
        bound: Some("memcpy".to_owned()),
        of_bound: Some(1.08),
        of_bound_low: Some(1.05),
        of_bound_high: Some(1.1),
        reason: None,
    };
    let absent = Row {
        kernel: Kernel::Checksum,
        variant: "smoltcp".to_owned(),
        role: Role::Peer,
        size: None,
        mix: Some(Mix::Uniform20To1500),
        mean_bytes: 760.5,
        src_offset: None,
        dst_offset: None,
        page_distance: None,
        offsets: Some(vec![1, 2, 7]),
        state: State::Cold,
        timing: Timing::Latency,
        cycles: None,
        cycles_low: None,
        cycles_high: None,
        ticks: None,
        ticks_low: None,
        ticks_high: None,
        n: 0,
        bytes_per_cycle: None,
        bound: None,
        of_bound: None,
        of_bound_low: None,
        of_bound_high: None,
        reason: Some("stopped before the first round was over".to_owned()),
    };
    vec![fused, absent]
}

pub(crate) fn kernels() -> Record {
    record(Body::Kernels(Box::new(KernelsReport {
        processor: Some("a processor".to_owned()),
        cpu: 1,
        ticks_per_s: 2.4e9,
        cycles_per_tick: figure("cycles/tick", 1.42),
        additions_per_cycle: figure("additions/cycle", 5.8),
        additions_per_cycle_range: Some([3.1, 5.9]),
        huge_pages: HugePages {
            advised: false,
            granted: None,
            reason: Some("the kernel has none".to_owned()),
        },
        cold: Some(ColdState {
            footprint_bytes: 1 << 28,
            stride_bytes: 2048,
            eviction: "by walking through more memory than the caches hold".to_owned(),
        }),
        variants: vec![VariantReport {
            name: "avx2".to_owned(),
            isa: "AVX2".to_owned(),
            vector: true,
            compiled: true,
            supported: true,
            selected_for: vec![Kernel::Copy, Kernel::Fill],
        }],
        peers: vec![PeerReport {
            name: "smoltcp".to_owned(),
            source: "smoltcp 0.14.0".to_owned(),
            kernels: vec![Kernel::Checksum],
            available: false,
            reason: Some("not built in".to_owned()),
        }],
        rows: rows(),
        wrong: vec![WrongResult {
            kernel: Kernel::Fill,
            variant: "avx2".to_owned(),
            difference: "length 7: byte 3 is 0, not 0x5a".to_owned(),
        }],
        skipped: vec![Skipped { what: "just_written".to_owned(), reason: "--quick".to_owned() }],
        windows: RaceWindows { total: 41, preempted: 2, dropped_as_slow: 1 },
        seed: u64::MAX,
        quick: true,
        interrupted: false,
        sizes_named: false,
    })))
}
