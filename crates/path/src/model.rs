// SPDX-License-Identifier: MIT OR Apache-2.0
//! A validated packet path.

pub use crate::class::PacketClass;
pub use crate::params::{Params, Value};
use std::ops::Range;

/// On-wire overhead per captured frame in bytes: 4 for the FCS, 8 for the preamble, 12 for the
/// inter-frame gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Minimum length of an Ethernet frame in bytes, without FCS. The NIC pads shorter frames; a
/// capture made on the sending machine contains them unpadded.
pub const FRAME_BYTES_MIN: u16 = 60;

/// Value of [`Path::kernels`] that selects the best variant of each kernel for the CPU.
pub const SELECTED: &str = "selected";

/// A packet path: source, processing, and workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The name of the path.
    pub name: String,
    /// The variant of the checksum and copy kernels that workers call; with [`SELECTED`], the
    /// program chooses. Not validated in this crate.
    pub kernels: String,
    /// The line rate that the path should keep up with, if the file gives one.
    pub line: Option<Line>,
    /// Where packets come from.
    pub source: Source,
    /// The stages in order. Never empty; names are unique.
    pub stages: Vec<StageUse>,
    /// Where packets go.
    pub sink: Sink,
    /// Assignment of stages to workers.
    pub mapping: Mapping,
    /// Run options, which a job may override.
    pub run: RunOptions,
    /// What workers do while they have no packets.
    pub idle: IdleRules,
}

/// The line that a path should keep up with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Bits per second of each port, including preamble and inter-frame gap.
    pub bits_per_s: f64,
    /// Number of ports that feed the path.
    pub ports: u32,
}

impl Line {
    /// Returns the line rate in packets per second over all ports. `mean_bytes` is the mean frame
    /// size in bytes as sent, without FCS: each frame has at least [`FRAME_BYTES_MIN`].
    pub fn packets_per_second(&self, mean_bytes: f64) -> f64 {
        self.bits_per_s * f64::from(self.ports) / (8.0 * (mean_bytes + WIRE_OVERHEAD_BYTES as f64))
    }
}

/// Where a path's packets come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A pcap or pcapng file, replayed from memory.
    Capture {
        /// The file to replay, relative to the path file.
        file: String,
        /// Buffer size in bytes; longer frames are rejected and counted.
        buffer_bytes: u32,
        /// How to treat frames that are coalesced or truncated in the capture.
        rules: CaptureRules,
    },
    /// Generated UDP packets over IPv4.
    Generator {
        /// Frame sizes in bytes, FCS excluded, used in rotation.
        sizes: Vec<u32>,
        /// Number of distinct flows.
        flows: u32,
        /// Seed for addresses and ports.
        seed: u64,
        /// Buffer size in bytes, which limits the frame size.
        buffer_bytes: u32,
    },
    /// Packets that a registered source (a source kind from an extension) derives from a capture.
    Registered(SourceUse),
    /// Packets that arrive on network interfaces.
    Interface(LiveSource),
}

impl Source {
    /// Returns the buffer size in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        match self {
            Self::Capture { buffer_bytes, .. }
            | Self::Generator { buffer_bytes, .. }
            | Self::Registered(SourceUse { buffer_bytes, .. })
            | Self::Interface(LiveSource { buffer_bytes, .. }) => *buffer_bytes,
        }
    }

    /// Returns the capture file, relative to the path file; `None` for a generator.
    pub fn file(&self) -> Option<&String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } | Self::Interface(_) => None,
        }
    }

    /// Returns the interfaces of the source; empty for packets that are replayed from memory.
    pub fn ports(&self) -> &[Port] {
        match self {
            Self::Interface(live) => &live.ports,
            _ => &[],
        }
    }

    /// Returns a mutable reference to the capture file; see [`Source::file`].
    pub fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Capture { file, .. } | Self::Registered(SourceUse { file, .. }) => Some(file),
            Self::Generator { .. } | Self::Interface(_) => None,
        }
    }
}

/// Network interfaces as a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSource {
    /// The interfaces, one or two.
    pub ports: Vec<Port>,
    /// Buffer size in bytes; longer frames are dropped and counted.
    pub buffer_bytes: u32,
    /// Whether to split coalesced segments (GRO, TSO) into frames of on-wire size.
    pub cut_segments: bool,
}

/// A network interface that receives or sends packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name of the port in reports: the interface's name, unless the file gives another.
    pub name: String,
    /// Name of the interface.
    pub interface: String,
    /// How frames are exchanged with the kernel.
    pub io: Io,
    /// Whether to receive frames that are addressed to other stations as well.
    pub promiscuous: bool,
}

/// How frames are exchanged with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Packet sockets: block-based receive ring (TPACKET_V3), batched transmit.
    AfPacket,
    /// AF_XDP sockets in copy mode, one per queue of the interface.
    AfXdp,
    /// A TAP interface, for which the program acts as the wire.
    Tap,
}

impl Io {
    /// Names of the I/O methods in a path file.
    pub const WORDS: [&str; 3] = ["af_packet", "af_xdp", "tap"];

    /// Returns the I/O method with this name in a path file; `None` for any other word.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "af_packet" => Some(Self::AfPacket),
            "af_xdp" => Some(Self::AfXdp),
            "tap" => Some(Self::Tap),
            _ => None,
        }
    }

    /// Returns the I/O method's name in a path file.
    pub fn word(self) -> &'static str {
        match self {
            Self::AfPacket => "af_packet",
            Self::AfXdp => "af_xdp",
            Self::Tap => "tap",
        }
    }
}

/// Which packets of a capture to use, and how to treat coalesced and truncated frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureRules {
    /// Whether to split coalesced TCP segments (GRO, TSO) into frames of on-wire size.
    pub cut_segments: bool,
    /// Whether to pad truncated frames to their on-wire length.
    pub pad: bool,
    /// Whether to replay the capture even if more than half of its bytes are skipped.
    pub allow_left_out: bool,
    /// Number of packets to skip at the start.
    pub skip: u64,
    /// Maximum number of packets to read after the skipped ones.
    pub first: u64,
    /// Sampling divisor N: one in N pairs of addresses is kept, with all of its packets; 1 keeps
    /// all.
    pub sample: u32,
}

impl CaptureRules {
    /// Default rules: all packets, segments split, nothing padded.
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

/// A registered source (a source kind from an extension): the capture that it reads, and its
/// parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceUse {
    /// Kind of source, as registered by the program.
    pub kind: String,
    /// Path of the capture file, relative to the path file.
    pub file: String,
    /// Buffer size in bytes, which limits the frame size.
    pub buffer_bytes: u32,
    /// How to treat frames that are coalesced or truncated in the capture.
    pub rules: CaptureRules,
    /// Parameters, including defaults; a parameter without a default may be absent.
    pub params: Params,
}

/// What a worker does while it has no packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Polls without a pause.
    Spin,
    /// Polls, executing a pause instruction between polls.
    #[default]
    Pause,
    /// Polls at most about once per microsecond.
    Slow,
    /// Sleeps until packets arrive.
    Park,
    /// Polls until polling has cost as much time as a wake-up takes, then sleeps.
    Auto,
}

impl IdlePolicy {
    /// Names of the policies in a path file.
    pub const WORDS: [&str; 5] = ["spin", "pause", "slow", "park", "auto"];

    /// All policies, in the order of [`IdlePolicy::WORDS`].
    pub const ALL: [Self; 5] = [Self::Spin, Self::Pause, Self::Slow, Self::Park, Self::Auto];

    /// Returns the policy with this name in a path file; `None` for any other word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.word() == word)
    }

    /// Returns the policy's name in a path file.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns whether the policy lets a worker sleep.
    pub fn parks(self) -> bool {
        matches!(self, Self::Park | Self::Auto)
    }
}

/// Idle policies of a path's workers: one for all, and exceptions by segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleRules {
    /// Policy of all workers whose segment has no policy of its own.
    pub policy: IdlePolicy,
    /// Idle time in seconds after which [`IdlePolicy::Auto`] sleeps; `None` to use the wake-up cost
    /// measured before the run.
    pub park_after_s: Option<f64>,
    /// Policy of each segment of [`Path::mapping`]; `None` for the common policy. Empty if no
    /// segment has a policy of its own.
    pub workers: Vec<Option<IdlePolicy>>,
}

impl IdleRules {
    /// The policy [`IdlePolicy::Pause`] for all workers.
    pub const POLLING: Self =
        Self { policy: IdlePolicy::Pause, park_after_s: None, workers: Vec::new() };

    /// Returns rules with the same policy for all workers.
    pub fn all(policy: IdlePolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Returns the idle policy of the workers that run a segment of [`Path::mapping`].
    pub fn of_segment(&self, segment: usize) -> IdlePolicy {
        self.workers.get(segment).copied().flatten().unwrap_or(self.policy)
    }
}

/// Where packets go after the last stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// Nowhere: packets are only counted.
    Null,
    /// A pcap file, which receives the first packets.
    Capture {
        /// Output file, relative to the working directory.
        file: String,
        /// Maximum number of packets to write; later ones are only counted.
        packets: u64,
    },
    /// Network interfaces. If there are two, a packet leaves through the one on which it did not
    /// arrive.
    Interface(Vec<Port>),
}

impl Sink {
    /// Returns the interfaces of the sink; empty for other sinks.
    pub fn ports(&self) -> &[Port] {
        match self {
            Self::Interface(ports) => ports,
            Self::Null | Self::Capture { .. } => &[],
        }
    }
}

/// A stage of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct StageUse {
    /// Stage name, unique within the path. Defaults to the kind.
    pub name: String,
    /// Kind of stage, as registered by the program.
    pub kind: String,
    /// Class of packets that the stage processes; other packets bypass it.
    pub only: PacketClass,
    /// Parameters, including defaults; a parameter without a default may be absent.
    pub params: Params,
}

/// Assignment of stages to workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Segments of consecutive stages, in order, covering all stages. Adjacent segments are
    /// connected by rings.
    pub segments: Vec<Segment>,
}

/// Consecutive stages that share a worker, and the number of workers that run them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The stages, as indices into [`Path::stages`].
    pub stages: Range<usize>,
    /// Number of workers that run these stages, each on its own flows; at least 1.
    pub replicas: u32,
    /// CPUs to pin the replicas to, one per replica; if empty, chosen automatically.
    pub cpus: Vec<u32>,
}

impl Mapping {
    /// Returns the run-to-completion mapping, with all `stages` stages on one worker.
    pub fn merged(stages: usize) -> Self {
        Self { segments: vec![Segment { stages: 0..stages, replicas: 1, cpus: Vec::new() }] }
    }

    /// Returns the number of workers, replicas included.
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
    /// On-wire bits per second, including FCS, preamble and inter-frame gap.
    BitsPerSecond(f64),
    /// With the inter-packet gaps of the capture.
    Capture,
}

/// What a worker does if the ring to the next segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRing {
    /// Waits for room.
    Wait,
    /// Drops the packet and counts it.
    Drop,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// After this many seconds.
    Seconds(f64),
    /// After this many packets from the source.
    Packets(u64),
}

/// Options for the length, load and rings of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// When the run ends.
    pub length: RunLength,
    /// Rate at which the source offers packets.
    pub rate: Rate,
    /// Packets per burst, 1 to 256.
    pub burst: u32,
    /// Ring capacity in packets, a power of two.
    pub ring: u32,
    /// What a worker does if the ring to the next segment is full.
    pub full_ring: FullRing,
}
