// SPDX-License-Identifier: MIT OR Apache-2.0
//! A validated packet path.

pub use crate::params::{Params, Value};
use std::ops::Range;

/// On-wire bytes in addition to the captured frame: 4 for the FCS, 8 for the preamble, 12 for the
/// inter-frame gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Value of [`Path::kernels`] for calling the best variant of each kernel.
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

/// Line rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second of one port, including preamble and gap.
    pub bits_per_s: f64,
    /// Ports that feed the path.
    pub ports: u32,
}

impl Line {
    /// Line rate in packets per second over all ports for frames of `mean_bytes` bytes (without
    /// FCS).
    pub fn packets_per_second(&self, mean_bytes: f64) -> f64 {
        self.bits_per_s * f64::from(self.ports) / (8.0 * (mean_bytes + WIRE_OVERHEAD_BYTES as f64))
    }
}

/// Source of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A pcap or pcapng file, replayed from memory.
    Capture {
        /// The file, relative to the path file.
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
    /// Packets that a registered source derives from a capture.
    Registered(SourceUse),
}

impl Source {
    /// Buffer size in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        match self {
            Self::Capture { buffer_bytes, .. }
            | Self::Generator { buffer_bytes, .. }
            | Self::Registered(SourceUse { buffer_bytes, .. }) => *buffer_bytes,
        }
    }

    /// The capture of the source, relative to the path file.
    pub fn file(&self) -> Option<&String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } => None,
        }
    }

    /// Like [`Source::file`], but mutable.
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
    /// Whether coalesced TCP segments are cut to wire size.
    pub cut_segments: bool,
    /// Whether truncated frames are padded to their length on the wire.
    pub pad: bool,
    /// Whether the rest is replayed if most bytes are skipped.
    pub allow_left_out: bool,
    /// Packets to skip at the start.
    pub skip: u64,
    /// Maximum number of packets to read after the skipped ones.
    pub first: u64,
    /// Keep one in this many address pairs, with all its packets; 1 keeps all.
    pub sample: u32,
}

impl CaptureRules {
    /// The defaults.
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
    /// Nowhere.
    Null,
    /// A pcap file.
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
    /// Unique within the path; the kind, unless the file gives a name.
    pub name: String,
    /// Kind of stage.
    pub kind: String,
    /// Its parameters, complete with defaults.
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
    /// Indices into [`Path::stages`].
    pub stages: Range<usize>,
    /// Number of workers with these stages, each for its own flows. At least 1.
    pub replicas: u32,
    /// CPUs to pin the replicas to, one each; empty leaves the choice to the program.
    pub cpus: Vec<u32>,
}

impl Mapping {
    /// Run to completion: all `stages` stages on one worker.
    pub fn merged(stages: usize) -> Self {
        Self { segments: vec![Segment { stages: 0..stages, replicas: 1, cpus: Vec::new() }] }
    }

    /// Number of workers of the mapping.
    pub fn workers(&self) -> usize {
        self.segments.iter().map(|s| s.replicas as usize).sum()
    }
}

/// Offered rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the path accepts packets.
    Max,
    /// Line rate over all ports.
    Line,
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Bits per second on the wire, including overhead.
    BitsPerSecond(f64),
    /// With the packet gaps of the capture.
    Capture,
}

/// What a worker does when the next ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRing {
    /// Wait for room.
    Wait,
    /// Drop the packet and count it.
    Drop,
}

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// After this many seconds.
    Seconds(f64),
    /// After this many packets from the source.
    Packets(u64),
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// Length of the run.
    pub length: RunLength,
    /// Offered rate.
    pub rate: Rate,
    /// Packets per burst, 1 to 256.
    pub burst: u32,
    /// Capacity of a ring in packets; a power of two.
    pub ring: u32,
    /// What a worker does when a ring is full.
    pub full_ring: FullRing,
}
