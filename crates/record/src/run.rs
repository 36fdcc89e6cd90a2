// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `run` record: time and packets per worker and stage.

mod ended;
mod failed;
mod replay;

pub use crate::buckets::BucketUse;
pub use crate::dead_end::DeadEnd;
use crate::figure::Figure;
use crate::finding::{Finding, KernelAdvice};
pub use crate::input::{CutSegments, InputReport, UnreadTail};
pub use crate::interfaces::{
    Bounds, InterfaceChanges, InterfaceReport, ReceivedReport, SentReport,
};
use crate::kernels::Kernel;
pub use crate::tally::Tally;
use crate::why::{Quota, WhyFinding};
pub use failed::{FailureKind, StageFailure};
pub use replay::ReplayShare;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Packet balance of a stage: `input + created = output + consumed + drops + held`, in packets and
/// in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// Packets and bytes that the stage received.
    pub input: Tally,
    /// Packets that the stage created, and bytes that it prepended to packets.
    pub created: Tally,
    /// Packets and bytes that the stage passed on.
    pub output: Tally,
    /// Packets that the stage consumed by design, and bytes that it removed from packets.
    pub consumed: Tally,
    /// Packets and bytes dropped by the stage, by cause.
    pub drops: BTreeMap<String, Tally>,
    /// Packets and bytes that the stage still held when the run ended.
    pub held: Tally,
}

impl Ledger {
    /// Returns the total packets and bytes dropped.
    pub fn dropped(&self) -> Tally {
        self.drops.values().copied().sum()
    }

    /// Returns whether the ledger balances in both packets and bytes.
    pub fn is_conserved(&self) -> bool {
        self.input + self.created == self.output + self.consumed + self.dropped() + self.held
    }
}

/// How a worker spent its time, as fractions of wall time over the measurement phase of the run.
/// Each fraction is a sum of intervals between the worker's timestamps; wall time comes from a
/// different clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShares {
    /// Working on packets.
    #[serde(serialize_with = "crate::finite")]
    pub busy: f64,
    /// Waiting for packets.
    #[serde(serialize_with = "crate::finite")]
    pub starved: f64,
    /// Waiting for room in the next ring (back-pressure).
    #[serde(serialize_with = "crate::finite")]
    pub blocked: f64,
    /// Lost: interrupted for more than about 10 us, by another thread, the hypervisor, or the
    /// kernel.
    #[serde(serialize_with = "crate::finite")]
    pub lost: f64,
    /// Remainder: 1 minus the other four fractions. Consists of measurement overhead and
    /// unattributed time; may be slightly negative.
    #[serde(serialize_with = "crate::finite")]
    pub unaccounted: f64,
}

/// Calls to one kernel (checksum, copy, ...) by one stage on one worker.
///
/// Calls are logged in a random sample of iterations. After the run, the worker replays and times
/// them, in the same order, on cached buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelUse {
    /// The kernel that was called.
    pub kernel: Kernel,
    /// The variant of the kernel that was called.
    pub variant: String,
    /// Calls per packet handled by the stage, in the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub calls_per_packet: f64,
    /// Mean bytes per call, in the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub bytes_per_call: f64,
    /// Ticks spent in calls to this kernel, per packet handled by the stage.
    pub ticks_per_packet: Figure,
    /// Fraction of the stage's service time spent in calls to this kernel, 0 to 1.
    pub share: Figure,
    /// Timings of the same calls for every variant this processor supports, all from the same
    /// rounds.
    pub variants: Vec<VariantTime>,
}

/// Time that one variant of a kernel takes for a stage's calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantTime {
    /// Name of the variant.
    pub variant: String,
    /// Whether this variant is selected for the kernel on this machine.
    pub selected: bool,
    /// Time relative to the variant in use; below 1 is faster.
    pub time_ratio: Figure,
}

/// A hardware event that the user asked to count around the stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedEvent {
    /// Event name: `instructions`, `cycles`, ...
    pub name: String,
    /// Why the event was not counted; `null` if it was.
    pub reason: Option<String>,
    /// Command that would enable counting; `null` if there is none.
    pub fix: Option<String>,
}

/// Hardware events counted around the stages, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedEvents {
    /// How counters were read: `user read` or `read(2)`; `null` if nothing was counted.
    pub reading: Option<String>,
    /// Sampling interval: events are counted in one of this many iterations.
    pub one_iteration_in: u64,
    /// The requested events, in order.
    pub events: Vec<CountedEvent>,
}

/// Measurements of one stage on one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageReport {
    /// Stage name as in the path. For the worker's input: `source` or `ring in`; for its output:
    /// `sink` or `ring out`.
    pub name: String,
    /// Packets processed over the whole run.
    pub packets: u64,
    /// Packets that bypassed the stage because it processes only a subset (`only`); 0 in records of
    /// earlier versions.
    #[serde(default)]
    pub bypassed: u64,
    /// Rate of processed packets in kpps over the measurement phase; `null` if the run ended before
    /// that phase.
    pub kpps: Option<f64>,
    /// Service time in ticks of the timestamp counter per packet, excluding waiting.
    pub ticks_per_packet: Figure,
    /// Service time in core cycles per packet; absent if the core clock changed during the run.
    pub cycles_per_packet: Figure,
    /// Fraction of wall time that the stage spent working; `null` if the run ended before the
    /// measurement phase or no sampled iteration was in a clean window.
    pub busy: Option<f64>,
    /// Fraction of wall time that the stage's worker spent waiting for packets; `null` if the run
    /// ended before the measurement phase.
    pub starved: Option<f64>,
    /// Fraction of wall time that the stage's worker spent waiting for room in a ring
    /// (back-pressure); `null` if the run ended before the measurement phase.
    pub blocked: Option<f64>,
    /// Number of times the worker polled its input and found no packets.
    pub empty_polls: u64,
    /// Packets dropped by the stage, by cause.
    pub drops: BTreeMap<String, u64>,
    /// The stage's full ledger, in packets and bytes.
    pub ledger: Ledger,
    /// The stage's own counters (rules hit, translations made, ...), by name.
    pub counts: BTreeMap<String, u64>,
    /// Why the stage had nothing to do for any of its packets; `null` if it worked on at least one
    /// packet or received none, and in records before version 2.0.
    #[serde(default)]
    pub idle: Option<String>,
    /// Kernels called by the stage; `null` if calls were not logged.
    pub kernels: Option<Vec<KernelUse>>,
    /// Hardware events per packet and cycles per instruction (`cpi`), by name, excluding waiting;
    /// `null` if nothing was counted, and in records before version 1.2.
    pub events: Option<BTreeMap<String, Figure>>,
}

/// Counts of a worker's measurement windows. A window lasts about 1 ms and contains at least one
/// iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowCount {
    /// Number of completed windows.
    pub total: u64,
    /// Number of windows dropped because the worker was preempted.
    pub preempted: u64,
}

/// A worker: a pinned thread and the stages it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Worker name: `segment.replica`, both 0-based.
    pub name: String,
    /// Logical CPU to which the worker was pinned.
    pub cpu: u32,
    /// Index of the segment (consecutive stages that share a worker), 0-based.
    pub segment: u32,
    /// Index of the replica within the segment, 0-based.
    pub replica: u32,
    /// Stages that the worker runs, from its source or input ring to its sink or output ring.
    pub stages: Vec<StageReport>,
    /// How the worker spent its time; `null` if the run ended before its measurement phase.
    pub time: Option<TimeShares>,
    /// Run delay: time in nanoseconds that the worker waited for a CPU during the measurement
    /// phase, as accounted by the scheduler; `null` if the kernel does not report it.
    pub run_delay_ns: Option<u64>,
    /// Steal time of the worker's CPU in nanoseconds during the measurement phase, in steps of
    /// 10 ms; `null` if the kernel does not report it, and in records before version 2.6.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// Time in nanoseconds that the worker was interrupted, as in `time.lost`.
    pub lost_ns: u64,
    /// Service time of the whole worker, in ticks per packet it received.
    pub ticks_per_packet: Figure,
    /// Number of times the worker polled its input and found no packets.
    pub empty_polls: u64,
    /// Histogram of burst sizes: entry `i` counts polls that returned `2^i` to `2^(i+1)-1` packets.
    pub burst_sizes: Vec<u64>,
    /// Numbers of measured and dropped windows.
    pub windows: WindowCount,
    /// Involuntary context switches of the worker during the run.
    pub involuntary_switches: u64,
    /// CPU time of the worker in nanoseconds, as accounted by the scheduler over the whole run
    /// including warm-up.
    pub cpu_ns: u64,
    /// What the worker did while it had no packets; `null` in records of earlier versions.
    #[serde(default)]
    pub idle: Option<IdleReport>,
}

/// What a worker did while it had no packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleReport {
    /// Idle policy: `spin`, `pause`, `slow`, `park` or `auto`.
    pub policy: String,
    /// Idle time in nanoseconds after which the worker slept; `null` if the policy is not `auto`.
    pub park_after_ns: Option<u64>,
    /// Time asleep in nanoseconds during the measurement phase, included in `time.starved`.
    pub parked_ns: u64,
    /// Number of times that the worker slept during the measurement phase.
    pub parks: u64,
    /// Number of sleeps that ended because packets arrived or the run was over. The other sleeps
    /// ended when a packet was due, or after 100 ms.
    pub wake_ups: u64,
}

/// A ring between two workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RingReport {
    /// Ring name: `from > to`, where both are worker names.
    pub name: String,
    /// Capacity of the ring, in packets.
    pub capacity: u64,
    /// Histogram of fill levels seen by the consumer: 0, up to 10 %, 10 to 20 %, ... 90 to 100 %.
    pub occupancy: Vec<u64>,
    /// Number of pushes that did not find room for the entire burst.
    pub full_pushes: u64,
    /// Packets still in the ring when the run ended.
    pub held: u64,
}

/// Source-to-sink latency of sampled packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median latency, in nanoseconds.
    pub p50: Figure,
    /// 99th percentile, in nanoseconds.
    pub p99: Figure,
    /// 99.9th percentile, in nanoseconds.
    pub p999: Figure,
}

/// A path measured under one mapping of stages to workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Name of the packet path.
    pub path: String,
    /// Mapping of stages to workers, in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Kernels that the workers called: `selected` for the best variant of each, or the name of a
    /// variant; `null` in records of version 1.0.
    pub kernels: Option<String>,
    /// Hardware events counted around the stages; `null` if none were requested, and in records
    /// before version 1.2.
    pub counted: Option<CountedEvents>,
    /// Wall time of the measurement phase in seconds, excluding warm-up.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Requested source rate, in kpps; absent, with a reason, if it is not fixed (`rate = "max"`);
    /// `null` in records before version 1.3.
    pub offered_kpps: Option<Figure>,
    /// Rate at which packets left the path, in kpps, over windows without preemption; over all
    /// windows if the path had idle time.
    pub throughput_kpps: Figure,
    /// Rate at which the path processed its input, in kpps: packets that left the path and packets
    /// dropped on purpose.
    pub processed_kpps: Figure,
    /// Line rate in kpps at the traffic's mean frame size; `null` if the path has no line.
    pub line_rate_kpps: Option<f64>,
    /// Rate that the user requires (`--goal`), in kpps; `null` if there is none, and in
    /// records before version 2.10.
    #[serde(default)]
    pub goal_kpps: Option<f64>,
    /// All workers, by segment and replica.
    pub workers: Vec<WorkerReport>,
    /// The rings between workers.
    pub rings: Vec<RingReport>,
    /// Latency through the path.
    pub latency: Latency,
    /// Input packets that never entered the path, by cause (unreadable, too long, ...).
    pub rejected: BTreeMap<String, u64>,
    /// How the input was prepared before the run: packets skipped, split and padded; `null` in
    /// records before version 2.0.
    #[serde(default)]
    pub input: Option<InputReport>,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Input packets that the source replays, excluding rejected ones; `null` in records before
    /// version 1.4.
    #[serde(default)]
    pub frames: Option<u64>,
    /// RSS buckets that the input packets fall into; `null` for live packets, and in records before
    /// version 2.3.
    #[serde(default)]
    pub buckets: Option<BucketUse>,
    /// Logical CPUs available to workers; `null` in records before version 1.4, and for runs within
    /// a `tune` record, which has its own count.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// The line that the path should saturate; `null` without a line, and in records before version
    /// 1.4.
    #[serde(default)]
    pub line: Option<LineReport>,
    /// Bottleneck, as determined at the time of the run; `null` in records before version 1.4, and
    /// for the baseline of a `tune` record, which has its own finding.
    #[serde(default)]
    pub finding: Option<Finding>,
    /// Causes that limit the path, main cause first. Found by applying the rules of `linerate why`
    /// to the workers' time. Empty in records before version 2.0.
    #[serde(default)]
    pub causes: Vec<WhyFinding>,
    /// Advice on faster kernels for the calls that the path makes; `null` if unknown, in records
    /// before version 1.4, and for runs within a `tune` record.
    #[serde(default)]
    pub kernel_advice: Option<KernelAdvice>,
    /// Cache level that holds the packets; `null` in records before version 1.4, and for runs
    /// within a `tune` record.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
    /// Network interfaces that the packets came from and went to; empty if packets were replayed
    /// from memory and discarded, and in older records.
    #[serde(default)]
    pub interfaces: Vec<InterfaceReport>,
    /// CPU quotas of the control groups that the run was in, with how often they throttled it
    /// during the measurement phase. Empty without a quota; `null` if unknown, and in records
    /// before version 2.6.
    #[serde(default)]
    pub quotas: Option<Vec<Quota>>,
    /// The stage that failed and so ended the run; `null` if none did, and in records before
    /// version 2.10.
    #[serde(default)]
    pub failure: Option<StageFailure>,
}

/// The line (network link) that the path should saturate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineReport {
    /// Line rate per port, in bits per second.
    #[serde(serialize_with = "crate::finite")]
    pub bits_per_s: f64,
    /// Number of ports, each running at line rate.
    pub ports: u32,
    /// Mean frame size in bytes, FCS excluded. Since version 2.6, frames shorter than 60 bytes
    /// count as 60, to which Ethernet pads them.
    #[serde(serialize_with = "crate::finite")]
    pub mean_frame_bytes: f64,
}

/// Cache level that holds a path's packets, found by comparing the memory used for frames and
/// buffers with the cache sizes in the machine profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketsHome {
    /// Total size in bytes of the frames and buffers that one worker uses.
    pub bytes: Figure,
    /// Cache level nearest to the core that can hold `bytes`.
    pub level: Figure,
    /// Upper bound on the stall caused by a load from `level`, in ns.
    pub miss_ns: Figure,
    /// Upper bound on the stall caused by a load from `level`, in core cycles.
    pub miss_cycles: Figure,
    /// Conclusion for the user; `null` if the level is fast enough or there is no machine profile.
    pub sentence: Option<String>,
}

/// Possible names of the entry that follows a worker's stages.
pub(crate) const TAILS: [&str; 2] = ["sink", "ring out"];

impl WorkerReport {
    /// Returns how the worker spent its time; all zero if unknown.
    pub fn time_or_zero(&self) -> TimeShares {
        self.time.unwrap_or_default()
    }

    /// Returns the worker's stages without its input and output (source, sink or rings).
    pub fn path_stages(&self) -> &[StageReport] {
        const HEADS: [&str; 2] = ["source", "ring in"];
        let stages = match self.stages.as_slice() {
            [head, rest @ ..] if HEADS.contains(&head.name.as_str()) => rest,
            all => all,
        };
        match stages {
            [rest @ .., tail] if TAILS.contains(&tail.name.as_str()) => rest,
            all => all,
        }
    }

    /// Returns the share of the worker's time that the source and the sink spend on replay: copying
    /// packets from the stored traffic into buffers, and discarding them at the end. A NIC would do
    /// this by DMA. `None` if unknown.
    pub fn replay_share(&self) -> Option<f64> {
        let head = self.stages.first().filter(|stage| stage.name == "source");
        let tail = self.stages.last().filter(|stage| stage.name == "sink");
        head.into_iter().chain(tail).map(|stage| stage.busy).sum()
    }
}

impl RunReport {
    /// Returns the largest number of replicas of a segment.
    pub fn most_replicas(&self) -> u32 {
        self.workers.iter().map(|worker| worker.replica + 1).max().unwrap_or(0)
    }

    /// Returns whether the packets came from network interfaces, in which case the sender set the
    /// rate.
    pub fn is_live(&self) -> bool {
        self.interfaces.iter().any(|interface| interface.received.is_some())
    }

    /// Returns whether a stage dropped or consumed packets.
    pub fn ends_packets(&self) -> bool {
        let mut stages = self.workers.iter().flat_map(WorkerReport::path_stages);
        stages.any(|stage| (stage.ledger.dropped() + stage.ledger.consumed).packets > 0)
    }

    /// Returns whether every stage on every worker conserved packets and bytes.
    pub fn is_conserved(&self) -> bool {
        self.workers.iter().flat_map(|s| &s.stages).all(|s| s.ledger.is_conserved())
    }
}
