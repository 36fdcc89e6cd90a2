// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet path as data, after it has been checked.

pub use crate::params::{Params, Value};
use std::ops::Range;

/// Bytes on the wire in addition to the captured frame: 4 of FCS, 8 of preamble, 12 of inter-packet
/// gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Value of [`Path::kernels`] for calling the best variant of each kernel.
pub const SELECTED: &str = "selected";

/// A packet path: where packets come from, what is done to them, on which workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The name of the path.
    pub name: String,
    /// The variant of checksum and copy that workers call, by name; [`SELECTED`] leaves the choice
    /// to the program. Whether there is such a variant is not checked here.
    pub kernels: String,
    /// The line that the path should keep up with.
    pub line: Option<Line>,
    /// The source of the packets.
    pub source: Source,
    /// The stages, in the order packets meet them. Never empty; names are unique.
    pub stages: Vec<StageUse>,
    /// The destination of the packets.
    pub sink: Sink,
    /// Which stages run on which worker.
    pub mapping: Mapping,
    /// Options of a run.
    pub run: RunOptions,
}

/// The line to keep up with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second of one port, preamble and gap included.
    pub bits_per_s: f64,
    /// Ports that feed the path.
    pub ports: u32,
}

impl Line {
    /// Packets per second over all ports when frames have `mean_bytes` bytes (without FCS).
    pub fn packets_per_second(&self, mean_bytes: f64) -> f64 {
        self.bits_per_s * f64::from(self.ports) / (8.0 * (mean_bytes + WIRE_OVERHEAD_BYTES as f64))
    }
}

/// Source of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A pcap or pcapng file, replayed from memory.
    Capture {
        /// The file, relative to the file that describes the path.
        file: String,
        /// Largest frame a buffer holds, in bytes; longer ones are rejected and counted.
        buffer_bytes: u32,
        /// Treatment of frames that differ from those on the wire.
        rules: CaptureRules,
    },
    /// UDP packets made to measure.
    Generator {
        /// Frame sizes in bytes, without FCS, used in turn.
        sizes: Vec<u32>,
        /// Number of distinct flows.
        flows: u32,
        /// Seed of the addresses and ports.
        seed: u64,
        /// Largest frame a buffer holds, in bytes.
        buffer_bytes: u32,
    },
    /// Packets that a registered kind derives from a capture.
    Registered(SourceUse),
}

impl Source {
    /// Largest frame a buffer holds, in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        match self {
            Self::Capture { buffer_bytes, .. }
            | Self::Generator { buffer_bytes, .. }
            | Self::Registered(SourceUse { buffer_bytes, .. }) => *buffer_bytes,
        }
    }

    /// The capture the packets are taken from, relative to the file that describes the path.
    pub fn file(&self) -> Option<&String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } => None,
        }
    }

    /// As [`Source::file`], to name it from elsewhere.
    pub fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } => None,
        }
    }
}

/// Which packets of a capture are replayed, and what to do with frames that are not as they were on
/// the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRules {
    /// Whether TCP segments joined by segmentation offload are cut to wire size again.
    pub cut_segments: bool,
    /// Whether frames cut by the snap length are padded to their length on the wire.
    pub pad: bool,
    /// Whether the rest is replayed if most bytes are left out.
    pub allow_left_out: bool,
    /// Packets at the start that are passed over.
    pub skip: u64,
    /// Maximum number of packets read after those skipped.
    pub first: u64,
    /// One of this number of address pairs is sampled, with all its packets; 1 for all.
    pub sample: u32,
}

impl CaptureRules {
    /// As without the keys.
    pub const WHOLE: Self = Self {
        cut_segments: true,
        pad: false,
        allow_left_out: false,
        skip: 0,
        first: u64::MAX,
        sample: 1,
    };
}

impl Default for CaptureRules {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// A source of a registered kind: a capture, and what is made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceUse {
    /// Which kind of source.
    pub kind: String,
    /// The capture, relative to the file that describes the path.
    pub file: String,
    /// Largest frame a buffer holds, in bytes.
    pub buffer_bytes: u32,
    /// Treatment of frames that differ from those on the wire.
    pub rules: CaptureRules,
    /// Its parameters; defaults are filled in, and those without one may be absent.
    pub params: Params,
}

/// Destination of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// Nowhere.
    Null,
    /// A pcap file.
    Capture {
        /// The file to write, relative to the working directory.
        file: String,
        /// Packets written at most; later ones are counted, not written.
        packets: u64,
    },
}

/// One stage of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct StageUse {
    /// Unique within the path; the kind, unless the file gives a name.
    pub name: String,
    /// Which kind of stage.
    pub kind: String,
    /// Its parameters; every parameter the kind has is present, defaults filled in.
    pub params: Params,
}

/// Which stages run on which worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Runs of consecutive stages, in order, covering all stages. Rings connect them.
    pub segments: Vec<Segment>,
}

/// Consecutive stages that share a worker, and how many workers do the same work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Indices into [`Path::stages`].
    pub stages: Range<usize>,
    /// Workers that run these stages, each for its own flows. At least 1.
    pub replicas: u32,
    /// Processors to pin the replicas to, one each; empty leaves the choice to the program.
    pub cpus: Vec<u32>,
}

impl Mapping {
    /// All of `stages` stages on one worker.
    pub fn merged(stages: usize) -> Self {
        Self { segments: vec![Segment { stages: 0..stages, replicas: 1, cpus: Vec::new() }] }
    }

    /// Workers the mapping needs.
    pub fn workers(&self) -> usize {
        self.segments.iter().map(|s| s.replicas as usize).sum()
    }
}

/// Offered rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the path takes them.
    Max,
    /// The rate of the line over all its ports.
    Line,
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Bits per second on the wire, overhead included.
    BitsPerSecond(f64),
    /// With the gaps of the capture.
    Capture,
}

/// Behaviour of a worker when the next ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRing {
    /// Wait for room.
    Wait,
    /// Drop the packet and count it.
    Drop,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// After this many seconds.
    Seconds(f64),
    /// After this many packets of the source.
    Packets(u64),
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// When the run ends.
    pub length: RunLength,
    /// Offered rate.
    pub rate: Rate,
    /// Packets handed over at once, 1 to 256.
    pub burst: u32,
    /// Packets a ring holds; a power of two.
    pub ring: u32,
    /// Behaviour at a full ring.
    pub full_ring: FullRing,
}
