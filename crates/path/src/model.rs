// SPDX-License-Identifier: MIT OR Apache-2.0
//! A validated packet path.

pub use crate::params::{Params, Value};
use std::ops::Range;

/// On-wire bytes in addition to the captured frame: 4 for the FCS, 8 for the preamble, 12 for the
/// inter-frame gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Value of [`Path::kernels`] that selects the best variant of each kernel.
pub const SELECTED: &str = "selected";

/// A packet path: source, processing, and workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The name of the path.
    pub name: String,
    /// The variant of checksum and copy that workers call, by name; [`SELECTED`] leaves the choice
    /// to the program. Its existence is not checked here.
    pub kernels: String,
    /// The line rate that the path should reach.
    pub line: Option<Line>,
    /// The source of the packets.
    pub source: Source,
    /// The stages in order. Never empty; names are unique.
    pub stages: Vec<StageUse>,
    /// The destination of the packets.
    pub sink: Sink,
    /// Assignment of stages to workers.
    pub mapping: Mapping,
    /// Options of a run.
    pub run: RunOptions,
}

/// The line rate that a path should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second of one port, including preamble and gap.
    pub bits_per_s: f64,
    /// Number of ports that feed the path.
    pub ports: u32,
}

impl Line {
    /// Returns the line rate in packets per second over all ports, for frames of `mean_bytes` bytes
    /// on average (without FCS).
    pub fn packets_per_second(&self, mean_bytes: f64) -> f64 {
        self.bits_per_s * f64::from(self.ports) / (8.0 * (mean_bytes + WIRE_OVERHEAD_BYTES as f64))
    }
}

/// Source of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A pcap or pcapng file, replayed from memory.
    Capture {
        /// The file to replay, relative to the path file.
        file: String,
        /// Buffer size in bytes; longer frames are rejected and counted.
        buffer_bytes: u32,
        /// Treatment of frames that differ from those on the wire.
        rules: CaptureRules,
    },
    /// Generated UDP packets.
    Generator {
        /// Frame sizes in bytes, without FCS, used in rotation.
        sizes: Vec<u32>,
        /// Number of distinct flows.
        flows: u32,
        /// Seed of the addresses and ports.
        seed: u64,
        /// Buffer size in bytes.
        buffer_bytes: u32,
    },
    /// Packets that a source registered by the program derives from a capture.
    Registered(SourceUse),
}

impl Source {
    /// Returns the buffer size in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        match self {
            Self::Capture { buffer_bytes, .. }
            | Self::Generator { buffer_bytes, .. }
            | Self::Registered(SourceUse { buffer_bytes, .. }) => *buffer_bytes,
        }
    }

    /// Returns the capture file of the source, relative to the path file; `None` for a generator.
    pub fn file(&self) -> Option<&String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } => None,
        }
    }

    /// Returns the capture file as [`Source::file`] does, but mutable.
    pub fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } => None,
        }
    }
}

/// Selection of packets from a capture, and treatment of frames that differ from those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRules {
    /// Whether coalesced TCP segments (GRO, TSO) are cut to wire size.
    pub cut_segments: bool,
    /// Whether truncated frames are padded to their length on the wire.
    pub pad: bool,
    /// Whether the remaining frames are replayed even if more than half of the bytes are skipped.
    pub allow_left_out: bool,
    /// Number of packets to skip at the start of the capture.
    pub skip: u64,
    /// Maximum number of packets to read after the skipped ones.
    pub first: u64,
    /// Divisor for sampling: one in this many address pairs is kept, with all its packets; 1 keeps
    /// all.
    pub sample: u32,
}

impl CaptureRules {
    /// The default rules: all packets of the capture, segments cut, nothing padded.
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

/// A registered source: a capture, and the parameters of its conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceUse {
    /// Kind of source.
    pub kind: String,
    /// The capture, relative to the path file.
    pub file: String,
    /// Buffer size in bytes.
    pub buffer_bytes: u32,
    /// Treatment of frames that differ from those on the wire.
    pub rules: CaptureRules,
    /// The source's parameters with defaults; parameters without a default may be absent.
    pub params: Params,
}

/// Destination of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// Nowhere: packets are only counted.
    Null,
    /// A pcap file with the first packets.
    Capture {
        /// The file to write, relative to the working directory.
        file: String,
        /// Maximum number of packets to write; later ones are only counted.
        packets: u64,
    },
}

/// One stage of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct StageUse {
    /// Name of the stage, unique within the path; the same as its kind, unless the file gives a
    /// name.
    pub name: String,
    /// Kind of stage.
    pub kind: String,
    /// The stage's parameters with defaults; parameters without a default may be absent.
    pub params: Params,
}

/// Assignment of stages to workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Segments of consecutive stages in order, covering all stages. Rings connect them.
    pub segments: Vec<Segment>,
}

/// Consecutive stages on one worker, and the number of such workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Range of the segment's stages: indices into [`Path::stages`].
    pub stages: Range<usize>,
    /// Number of workers with these stages, each for its own flows. At least 1.
    pub replicas: u32,
    /// CPUs to pin the replicas to, one per replica; if empty, the program chooses them.
    pub cpus: Vec<u32>,
}

impl Mapping {
    /// Returns the run-to-completion mapping: all `stages` stages on one worker.
    pub fn merged(stages: usize) -> Self {
        Self { segments: vec![Segment { stages: 0..stages, replicas: 1, cpus: Vec::new() }] }
    }

    /// Returns the number of workers in the mapping, including replicas.
    pub fn workers(&self) -> usize {
        self.segments.iter().map(|s| s.replicas as usize).sum()
    }
}

/// Rate at which the source offers packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the path accepts packets.
    Max,
    /// Line rate over all ports.
    Line,
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Bits per second on the wire, including FCS, preamble and inter-frame gap.
    BitsPerSecond(f64),
    /// The recorded rate, with the packet gaps of the capture.
    Capture,
}

/// What a worker does when the ring to the next segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRing {
    /// Wait for room.
    Wait,
    /// Drop the packet and count it.
    Drop,
}

/// Condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// The run ends after this many seconds.
    Seconds(f64),
    /// The run ends after this many packets from the source.
    Packets(u64),
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// Condition that ends the run.
    pub length: RunLength,
    /// Rate at which the source offers packets.
    pub rate: Rate,
    /// Packets per burst, 1 to 256.
    pub burst: u32,
    /// Capacity of a ring in packets; a power of two.
    pub ring: u32,
    /// What a worker does when the ring to the next segment is full.
    pub full_ring: FullRing,
}
