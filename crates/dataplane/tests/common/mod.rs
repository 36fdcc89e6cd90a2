// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small stages and paths for tests of the data plane.

use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{
    Burst, Job, Outcome, RunError, Stage, StageContext, StageKind, Verdict, Watch,
    generator::Generator, no_steering, run, stage,
};
use linerate_kernels::Sum;
use linerate_machine::ticks::ticks;
use linerate_path::model::{
    FullRing, IdleRules, Mapping, PacketClass, Params, Path, Rate, RunLength, RunOptions, Segment,
    Sink, Source, StageUse, Value,
};
use linerate_path::spec::{StageSpec, State};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SPEC: StageSpec = StageSpec {
    kind: "",
    help: "",
    params: &[],
    needs_headers: false,
    state: State::None,
    keeps_order: true,
    drop_causes: &["seventh"],
};

/// Drops every packet whose position is a multiple of seven.
struct DropSeventh;

impl Stage for DropSeventh {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| match packet.meta().position % 7 {
            0 => Verdict::Drop(0),
            _ => Verdict::Pass,
        });
    }
}

/// Prepends a 4-byte sequence number, counted per bucket.
struct Number {
    next: [u32; linerate_dataplane::BUCKETS],
}

impl Stage for Number {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| {
            let number = &mut self.next[usize::from(packet.meta().bucket)];
            let front =
                packet.push_front(4, &mut context.account).expect("headroom for one number");
            front.copy_from_slice(&number.to_be_bytes());
            *number += 1;
            Verdict::Pass
        });
    }
}

/// Time in ticks at which the stage `slow to make` was ready.
pub(crate) static MADE_TICKS: AtomicU64 = AtomicU64::new(0);

/// Due time in ticks of the first packet seen by the stage `slow to make`.
pub(crate) static FIRST_DUE_TICKS: AtomicU64 = AtomicU64::new(0);

/// Marks packets as IPv4, IPv6 or neither, by position, and as TCP or UDP.
struct Classify;

impl Stage for Classify {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let meta = packet.meta_mut();
            let mixed = meta.position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
            meta.layers.ip_version = [0, 4, 6, 4, 6, 4, 4, 4][(mixed % 8) as usize];
            meta.layers.protocol = [6, 17][(mixed / 8) as usize];
            Verdict::Pass
        });
    }
}

/// Records the due time of a paced source's first packet.
struct NoteFirst;

impl Stage for NoteFirst {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            if packet.meta().position == 0 {
                FIRST_DUE_TICKS.store(packet.meta().born_ticks, Ordering::Relaxed);
            }
            Verdict::Pass
        });
    }
}

/// Strips two bytes from the front and truncates the packet to 60 bytes.
struct Trim;

impl Stage for Trim {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| {
            packet.trim_front(2, &mut context.account);
            packet.truncate(60, &mut context.account);
            Verdict::Pass
        });
    }
}

/// Does `turns` iterations of dependent arithmetic per packet.
struct Spin {
    turns: i64,
}

impl Stage for Spin {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let mut x = packet.meta().position;
            for _ in 0..self.turns {
                x = black_box(x.wrapping_mul(3) ^ 1);
            }
            Verdict::Pass
        });
    }
}

/// Touches a new page of memory per packet, which causes one page fault.
struct FaultIn {
    block: Vec<u8>,
    next: usize,
}

const PAGE: usize = 4096;
/// Block size so large that the allocator requests each block from the kernel.
const BLOCK: usize = 64 << 20;

impl Stage for FaultIn {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |_, _| {
            if self.next + PAGE > self.block.len() {
                self.block = Vec::new();
                self.block = vec![0; BLOCK];
                self.next = 0;
            }
            self.block[self.next] = 1;
            self.next += PAGE;
            Verdict::Pass
        });
    }
}

/// Drops all packets except those whose position is a multiple of seven.
struct DropMost;

impl Stage for DropMost {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| match packet.meta().position % 7 {
            0 => Verdict::Pass,
            _ => Verdict::Drop(0),
        });
    }
}

/// Does 20 iterations of arithmetic per packet, and 4000 from packet `after` on.
struct Grow {
    after: i64,
}

impl Stage for Grow {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let mut x = packet.meta().position;
            let turns = if x < self.after as u64 { 20 } else { 4_000 };
            for _ in 0..turns {
                x = black_box(x.wrapping_mul(3) ^ 1);
            }
            Verdict::Pass
        });
    }
}

/// For each packet, checksums its own buffer `calls` times, copies it once to another of its
/// buffers, and does 20 iterations of arithmetic. The checksums do not depend on each other.
struct Call {
    calls: i64,
    from: Lines,
    to: Lines,
}

/// Bytes aligned to a cache line. Otherwise, vector loads would cross cache lines, and a checksum
/// of 900 bytes would take half as long again.
struct Lines {
    memory: Vec<u8>,
    bytes: std::ops::Range<usize>,
}

impl Lines {
    fn new(bytes: usize) -> Self {
        let memory = vec![0xa5; bytes + 64];
        let start = memory.as_ptr().align_offset(64);
        Self { memory, bytes: start..start + bytes }
    }
}

impl Stage for Call {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        let from = &self.from.memory[self.from.bytes.clone()];
        let to = &mut self.to.memory[self.to.bytes.clone()];
        burst.sift(context, |packet, context| {
            for _ in 0..self.calls {
                black_box(context.kernels.checksum(from, Sum::ZERO));
            }
            context.kernels.copy(to, from);
            let mut x = packet.meta().position;
            for _ in 0..20 {
                x = black_box(x.wrapping_mul(3) ^ 1);
            }
            Verdict::Pass
        });
    }
}

/// Panics on the packet at `position`.
struct Fail {
    position: i64,
}

impl Stage for Fail {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            assert!(packet.meta().position as i64 != self.position, "broken on purpose");
            Verdict::Pass
        });
    }
}

/// Panics after `bursts` bursts, before it reads a packet of the next one.
struct FailEarly {
    bursts: i64,
}

impl Stage for FailEarly {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        assert!(self.bursts > 0, "broken between packets");
        self.bursts -= 1;
        burst.sift(context, |_, _| Verdict::Pass);
    }
}

fn number(params: &Params, name: &str) -> i64 {
    match params.get(name) {
        Some(Value::Integer(value)) => *value,
        _ => 0,
    }
}

fn kind(kind: &'static str, build: stage::Build) -> StageKind {
    StageKind { spec: StageSpec { kind, ..SPEC }, build, steer: no_steering }
}

pub(crate) fn kinds() -> Vec<StageKind> {
    vec![
        kind("drop", |_, _| Ok(Box::new(DropSeventh))),
        kind("number", |_, _| Ok(Box::new(Number { next: [0; linerate_dataplane::BUCKETS] }))),
        kind("trim", |_, _| Ok(Box::new(Trim))),
        kind("classify", |_, _| Ok(Box::new(Classify))),
        kind("spin", |params, _| Ok(Box::new(Spin { turns: number(params, "turns") }))),
        kind("drop most", |_, _| Ok(Box::new(DropMost))),
        kind("grow", |params, _| Ok(Box::new(Grow { after: number(params, "after") }))),
        kind("fault in", |_, _| Ok(Box::new(FaultIn { block: Vec::new(), next: 0 }))),
        kind("slow to make", |params, _| {
            std::thread::sleep(Duration::from_millis(number(params, "ms") as u64));
            MADE_TICKS.store(ticks(), Ordering::Relaxed);
            Ok(Box::new(NoteFirst))
        }),
        kind("call", |params, _| {
            let lines = || Lines::new(number(params, "bytes") as usize);
            Ok(Box::new(Call { calls: number(params, "calls"), to: lines(), from: lines() }))
        }),
        kind("fail early", |params, _| {
            Ok(Box::new(FailEarly { bursts: number(params, "bursts") }))
        }),
        kind("fail", |params, _| Ok(Box::new(Fail { position: number(params, "position") }))),
    ]
}

pub(crate) fn stage(kind: &str, param: &str, value: i64) -> StageUse {
    let params = [(param.to_owned(), Value::Integer(value))].into();
    let (name, kind) = (kind.to_owned(), kind.to_owned());
    StageUse { name, kind, only: PacketClass::All, params }
}

pub(crate) const OPTIONS: RunOptions = RunOptions {
    length: RunLength::Packets(20_000),
    rate: Rate::Max,
    burst: 32,
    ring: 64,
    full_ring: FullRing::Wait,
};

pub(crate) fn path(stages: Vec<StageUse>) -> Path {
    Path {
        name: "test".to_owned(),
        kernels: "selected".to_owned(),
        line: None,
        source: Source::Generator { sizes: vec![60, 300], flows: 500, seed: 1, buffer_bytes: 512 },
        mapping: Mapping::merged(stages.len()),
        stages,
        sink: Sink::Capture { file: String::new(), packets: u64::MAX },
        run: OPTIONS,
        idle: IdleRules::default(),
    }
}

/// Returns a mapping, given the number of stages and replicas per segment.
pub(crate) fn mapping(segments: &[(usize, u32)]) -> Mapping {
    let mut first = 0;
    let segments = segments.iter().map(|&(stages, replicas)| {
        let from = first;
        first += stages;
        Segment { stages: from..first, replicas, cpus: Vec::new() }
    });
    Mapping { segments: segments.collect() }
}

pub(crate) fn traffic() -> Traffic {
    let generator = Generator { sizes: &[60, 300], flows: 500, seed: 1 };
    Traffic::generate(generator, 512, &[]).expect("a generator makes frames")
}

/// Runs a path on CPU 0 alone, so that tests need no second CPU and leave the other CPUs to other
/// tests.
pub(crate) fn run_on_one(
    path: &Path,
    mapping: &Mapping,
    options: RunOptions,
) -> Result<Outcome, RunError> {
    let cpus = vec![0; mapping.workers()];
    let (kinds, traffic) = (kinds(), traffic());
    let job = Job {
        mapping,
        options,
        oversubscribe: mapping.workers() > 1,
        audit: true,
        ..Job::new(path, &kinds, &traffic, &cpus)
    };
    run(&job, &Watch::unattended())
}
