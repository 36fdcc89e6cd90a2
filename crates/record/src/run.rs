// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `run` record: time and packets for each worker and each stage.

use crate::figure::Figure;
use crate::finding::{Finding, KernelAdvice, Limit};
pub use crate::input::{CutSegments, InputReport, UnreadTail};
use crate::kernels::Kernel;
pub use crate::tally::Tally;
use crate::why::WhyFinding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

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
    /// Packets that ended in the stage by design, and bytes that it removed from packets.
    pub consumed: Tally,
    /// Packets and bytes that the stage dropped, by cause.
    pub drops: BTreeMap<String, Tally>,
    /// Packets and bytes that the stage still held when the run ended.
    pub held: Tally,
}

impl Ledger {
    /// Returns the number of dropped packets and bytes, summed over all causes.
    pub fn dropped(&self) -> Tally {
        self.drops.values().copied().sum()
    }

    /// Returns whether packets and bytes balance: all that came in or was created went somewhere.
    pub fn is_conserved(&self) -> bool {
        self.input + self.created == self.output + self.consumed + self.dropped() + self.held
    }
}

/// Breakdown of a worker's time, as shares of wall time over the measured part of the run. Each
/// share is a sum of differences between the worker's timestamps; wall time is read from another
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShares {
    /// Share of time spent working on packets.
    #[serde(serialize_with = "crate::finite")]
    pub busy: f64,
    /// Share of time spent waiting for packets.
    #[serde(serialize_with = "crate::finite")]
    pub starved: f64,
    /// Share of time spent waiting for room in the next ring (back-pressure).
    #[serde(serialize_with = "crate::finite")]
    pub blocked: f64,
    /// Share of time lost: preempted by another thread, or stolen by the hypervisor.
    #[serde(serialize_with = "crate::finite")]
    pub lost: f64,
    /// Remainder: 1 minus the other four shares. It contains measurement overhead and unattributed
    /// time, and may be slightly negative.
    #[serde(serialize_with = "crate::finite")]
    pub unaccounted: f64,
}

/// Calls to one kernel (checksum, copy, ...) by one stage on one worker.
///
/// The calls were logged in a random sample of iterations. After the run, the worker made the same
/// calls again, in the same order, on cached buffers, to time them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelUse {
    /// The kernel that was called.
    pub kernel: Kernel,
    /// The variant of the kernel that was called.
    pub variant: String,
    /// Number of calls per packet of the stage, in the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub calls_per_packet: f64,
    /// Mean number of bytes per call, over the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub bytes_per_call: f64,
    /// Ticks spent in the calls, per packet of the stage.
    pub ticks_per_packet: Figure,
    /// Time of the calls as a share of the stage's service time, 0 to 1.
    pub share: Figure,
    /// Times of the same calls with every variant that this processor can run, in the same rounds.
    pub variants: Vec<VariantTime>,
}

/// Time that one variant of a kernel takes for the calls of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantTime {
    /// Name of the variant.
    pub variant: String,
    /// Whether this variant is the one selected for the kernel on this machine.
    pub selected: bool,
    /// Time of the calls relative to the variant in use; a value below 1 is faster.
    pub time_ratio: Figure,
}

/// A hardware event that was requested to be counted around the stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedEvent {
    /// Event name: `instructions`, `cycles`, ...
    pub name: String,
    /// Reason why the event was not counted; `null` if it was.
    pub reason: Option<String>,
    /// The command that would enable counting; `null` if there is none.
    pub fix: Option<String>,
}

/// Hardware events counted around the stages, and the method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedEvents {
    /// How the counters were read: `user read` or `read(2)`; `null` if nothing was counted.
    pub reading: Option<String>,
    /// Sampling interval: one iteration of a worker in this many was counted.
    pub one_iteration_in: u64,
    /// The requested events, in order.
    pub events: Vec<CountedEvent>,
}

/// Measurements of one stage on one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageReport {
    /// Name of the stage in the path, or of an end: `source`, `sink`, `ring in` or `ring out`.
    pub name: String,
    /// Number of packets that the stage received over the whole run.
    pub packets: u64,
    /// Input rate of the stage in kpps over the measured part of the run; `null` if the run ended
    /// before that part began.
    pub kpps: Option<f64>,
    /// Service time in ticks of the timestamp counter per packet, excluding waiting.
    pub ticks_per_packet: Figure,
    /// Service time in core cycles per packet; absent if the core clock changed during the run.
    pub cycles_per_packet: Figure,
    /// Share of wall time that this stage spent working; `null` if the run ended before the
    /// measured part began, or if no iteration in a clean window was sampled.
    pub busy: Option<f64>,
    /// Share of wall time that the stage's worker spent waiting for packets; `null` if the run
    /// ended before the measured part began.
    pub starved: Option<f64>,
    /// Share of wall time that the stage's worker spent waiting for room in a ring (back-pressure);
    /// `null` if the run ended before the measured part began.
    pub blocked: Option<f64>,
    /// Number of polls of the worker's input that returned no packets.
    pub empty_polls: u64,
    /// Number of packets that the stage dropped, by cause.
    pub drops: BTreeMap<String, u64>,
    /// Full packet balance of the stage, in packets and bytes.
    pub ledger: Ledger,
    /// Additional counts kept by the stage (rules hit, translations made, ...), by name.
    pub counts: BTreeMap<String, u64>,
    /// Reason why the stage had nothing to do for any packet; `null` if it worked on a packet or
    /// received none, and in records before version 2.0.
    #[serde(default)]
    pub idle: Option<String>,
    /// Kernels called by the stage; `null` if its calls were not logged.
    pub kernels: Option<Vec<KernelUse>>,
    /// Hardware events per packet, excluding waiting, and cycles per instruction (`cpi`), by name;
    /// `null` if nothing was counted, and in records before version 1.2.
    pub events: Option<BTreeMap<String, Figure>>,
}

/// Number of measurement windows of a worker. A window is about 1 ms long and contains at least one
/// iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowCount {
    /// Number of completed windows.
    pub total: u64,
    /// Number of windows that were dropped because the worker was preempted in them.
    pub preempted: u64,
}

/// One worker: a pinned thread and the stages it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Name of the worker: `segment.replica`, both counted from 0.
    pub name: String,
    /// Logical CPU to which the worker was pinned.
    pub cpu: u32,
    /// Index of the segment (a run of consecutive stages), from 0.
    pub segment: u32,
    /// Index of the segment's replica, from 0.
    pub replica: u32,
    /// Stages that the worker runs, in order, from its source or ring to its sink or ring.
    pub stages: Vec<StageReport>,
    /// Breakdown of the worker's time; `null` if the run ended before its measured part began.
    pub time: Option<TimeShares>,
    /// Time that the worker waited for a CPU (run delay) in nanoseconds, as accounted by the
    /// scheduler over the measured part of the run; `null` if the kernel does not report it.
    pub run_delay_ns: Option<u64>,
    /// Time in nanoseconds in which the worker did not run: preempted or stolen, as in `time.lost`.
    pub lost_ns: u64,
    /// Service time of the whole worker, in ticks per packet that it received.
    pub ticks_per_packet: Figure,
    /// Number of polls of the input that returned no packets.
    pub empty_polls: u64,
    /// Number of polls by packets returned: entry `i` counts bursts of `2^i` to `2^(i+1)-1`.
    pub burst_sizes: Vec<u64>,
    /// Number of measurement windows, and of those dropped.
    pub windows: WindowCount,
    /// Number of involuntary context switches of the worker over the run.
    pub involuntary_switches: u64,
    /// CPU time of the worker in nanoseconds, as accounted by the scheduler over the whole run,
    /// including warm-up.
    pub cpu_ns: u64,
}

/// A ring between two workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RingReport {
    /// Name of the ring: `from > to`, with the names of the two workers.
    pub name: String,
    /// Capacity of the ring, in packets.
    pub capacity: u64,
    /// Histogram of fill levels seen by the consumer: 0, up to 10 %, 10 to 20 %, ... 90 to 100 %.
    pub occupancy: Vec<u64>,
    /// Number of pushes for which the ring lacked room for the whole burst.
    pub full_pushes: u64,
    /// Number of packets left in the ring when the run ended.
    pub held: u64,
}

/// Latency from the source to the sink, for sampled packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median latency, in nanoseconds.
    pub p50: Figure,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99: Figure,
    /// 99.9th percentile of the latency, in nanoseconds.
    pub p999: Figure,
}

/// Result of running a path with one mapping of stages to workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Name of the packet path.
    pub path: String,
    /// The mapping of stages to workers in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Kernels that the workers called: `selected`, which is the best variant of each, or the name
    /// of a variant; `null` in records of version 1.0.
    pub kernels: Option<String>,
    /// Hardware events counted around the stages; `null` if none were requested, and in records
    /// before version 1.2.
    pub counted: Option<CountedEvents>,
    /// Wall time of the measured part of the run, in seconds, excluding warm-up.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Requested rate of the source, in kpps; absent, with the reason, if it has no fixed rate
    /// (`rate = "max"`); `null` in records before version 1.3.
    pub offered_kpps: Option<Figure>,
    /// Rate of packets that left the path, in kpps, over the windows without preemption.
    pub throughput_kpps: Figure,
    /// Rate of packets that left the path or that a stage dropped on purpose, in kpps: the rate at
    /// which the path processed its input.
    pub processed_kpps: Figure,
    /// Line rate at the mean frame size of the traffic, in kpps; `null` if the path has no line.
    pub line_rate_kpps: Option<f64>,
    /// The workers in order of segment, then replica.
    pub workers: Vec<WorkerReport>,
    /// The rings between workers.
    pub rings: Vec<RingReport>,
    /// Latency through the path.
    pub latency: Latency,
    /// Number of input packets that never entered the path, by cause (unreadable, too long, ...).
    pub rejected: BTreeMap<String, u64>,
    /// How the input was prepared before the run: packets skipped, split and padded; `null` in
    /// records before version 2.0.
    #[serde(default)]
    pub input: Option<InputReport>,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Number of input packets that the source replays, excluding rejected ones; `null` in records
    /// before version 1.4.
    #[serde(default)]
    pub frames: Option<u64>,
    /// Logical CPUs available to the workers; `null` in records before version 1.4, and in the runs
    /// within a `tune` record, which states the number itself.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// The line that the path should saturate; `null` without a line, and in records before version
    /// 1.4.
    #[serde(default)]
    pub line: Option<LineReport>,
    /// Bottleneck of the path, as determined when the run was measured; `null` in records before
    /// version 1.4, and in the baseline of a `tune` record, which states the bottleneck itself.
    #[serde(default)]
    pub finding: Option<Finding>,
    /// Causes that limit the path, main cause first. They follow from the rules of `linerate why`,
    /// applied to the workers' time. Empty in records before version 2.0.
    #[serde(default)]
    pub causes: Vec<WhyFinding>,
    /// Better kernels for the calls that the path makes; `null` if unknown, in records before
    /// version 1.4, and in the runs within a `tune` record.
    #[serde(default)]
    pub kernel_advice: Option<KernelAdvice>,
    /// Cache level that holds the packets; `null` in records before version 1.4, and in the runs
    /// within a `tune` record.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
}

/// The line (network link) that the path should saturate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineReport {
    /// Line rate per port, in bits per second.
    #[serde(serialize_with = "crate::finite")]
    pub bits_per_s: f64,
    /// Number of ports, each with a separate flow.
    pub ports: u32,
    /// Mean frame size in bytes, FCS excluded.
    #[serde(serialize_with = "crate::finite")]
    pub mean_frame_bytes: f64,
}

/// Cache level that holds a path's packets. It follows from comparing the size of frames and
/// buffers with the cache sizes in the machine's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketsHome {
    /// Number of bytes of frames and buffers that one worker uses.
    pub bytes: Figure,
    /// Name of the nearest cache level that holds these bytes.
    pub level: Figure,
    /// Maximum time that a load from this cache level waits, in ns.
    pub miss_ns: Figure,
    /// Maximum time that a load from this cache level waits, in core cycles.
    pub miss_cycles: Figure,
    /// Conclusion for the user; `null` if the packets are in a fast enough level, or there is no
    /// profile.
    pub sentence: Option<String>,
}

impl WorkerReport {
    /// Returns the breakdown of the worker's time; all shares are zero if it is unknown.
    pub fn time_or_zero(&self) -> TimeShares {
        self.time.unwrap_or_default()
    }

    /// Returns the worker's stages without its ends: source and sink, or rings.
    pub fn path_stages(&self) -> &[StageReport] {
        const HEADS: [&str; 2] = ["source", "ring in"];
        const TAILS: [&str; 2] = ["sink", "ring out"];
        let stages = match self.stages.as_slice() {
            [head, rest @ ..] if HEADS.contains(&head.name.as_str()) => rest,
            all => all,
        };
        match stages {
            [rest @ .., tail] if TAILS.contains(&tail.name.as_str()) => rest,
            all => all,
        }
    }

    /// Returns the share of the worker's time spent in source and sink on work that a NIC would do:
    /// copying packets out of the replayed traffic and discarding them. `None` if unknown.
    fn replay_share(&self) -> Option<f64> {
        let head = self.stages.first().filter(|stage| stage.name == "source");
        let tail = self.stages.last().filter(|stage| stage.name == "sink");
        head.into_iter().chain(tail).map(|stage| stage.busy).sum()
    }
}

/// Cost of replaying packets from memory. With a NIC and its driver, this cost would not arise, or
/// would take another form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayShare {
    /// Share of the total busy time of all workers, 0 to 1.
    pub share: f64,
    /// Capacity of the path without replay, in kpps; `None` if the workers are not the limit. This
    /// is a model: the busiest remaining worker is the bottleneck.
    pub kpps_without: Option<f64>,
}

impl RunReport {
    /// Returns the cost of the replay; `None` if the times are unknown.
    pub fn replay_share(&self) -> Option<ReplayShare> {
        let (mut replay, mut busy) = (0.0, 0.0);
        // Largest busy share of any worker with and without the replay, as shares of the time in
        // which the worker was not preempted.
        let (mut with_most, mut without_most) = (0.0_f64, 0.0_f64);
        for worker in &self.workers {
            let time = worker.time?;
            let own = worker.replay_share()?.min(time.busy);
            let running = (time.busy + time.starved + time.blocked).max(f64::MIN_POSITIVE);
            (replay, busy) = (replay + own, busy + time.busy);
            with_most = with_most.max(time.busy / running);
            without_most = without_most.max((time.busy - own) / running);
        }
        let limits = |finding: &Finding| finding.limit == Limit::Processing;
        let is_limited = self.finding.as_ref().is_some_and(limits);
        let kpps = self.processed_kpps.as_number().filter(|_| is_limited && without_most > 0.0);
        let kpps_without = kpps.map(|kpps| kpps * with_most / without_most);
        (busy > 0.0).then_some(ReplayShare { share: replay / busy, kpps_without })
    }
}

/// The stage at which all packets of a path ended, so that none reached the sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadEnd {
    /// The stage that passed no packet on.
    pub stage: String,
    /// Number of packets given to the stage, over all workers.
    pub packets: u64,
    /// The stage's drop causes, most frequent first; empty if it consumed the packets by design.
    pub causes: Vec<String>,
}

impl DeadEnd {
    /// Returns advice on what to change so that packets pass the stage.
    pub fn remedy(&self) -> &'static str {
        match self.causes.iter().any(|cause| cause.contains("checksum")) {
            true => {
                "leave out `verify`, or capture where checksums are complete: on the receiver, or \
                 on the sender after `ethtool -K IF tx off`"
            }
            false => {
                "`linerate stages KIND` lists what a stage accepts and its drop reasons; use \
                 stages that match the packets, or a source that matches the stages"
            }
        }
    }
}

impl fmt::Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, packets, causes } = self;
        let all = match packets {
            1 => "the 1 packet".to_owned(),
            _ => format!("all {packets} packets"),
        };
        match causes.as_slice() {
            [] => write!(f, "`{stage}` consumed {all}"),
            _ => {
                let causes = causes.join(", ");
                write!(f, "`{stage}` dropped {all} it received ({causes})")
            }
        }
    }
}

impl RunReport {
    /// Returns the stage that received packets but passed none on, by design or by mistake; `None`
    /// if a packet reached the sink, none was offered, or some were still in flight.
    pub fn dead_end(&self) -> Option<DeadEnd> {
        let mut workers: Vec<&WorkerReport> = self.workers.iter().collect();
        workers.sort_by_key(|worker| worker.segment);
        let stages = || workers.iter().flat_map(|worker| &worker.stages);
        let of = |name: &str| -> Vec<&Ledger> {
            stages().filter(|stage| stage.name == name).map(|stage| &stage.ledger).collect()
        };
        let sum = |all: &[&Ledger], part: fn(&Ledger) -> u64| all.iter().copied().map(part).sum();
        // Only a stage of the path can be found: the ends of workers pass on everything they are
        // given.
        let name = stages().map(|stage| &stage.name).find(|name| {
            let all = of(name);
            let given: u64 = sum(&all, |ledger| ledger.input.packets);
            let kept: u64 = sum(&all, |ledger| ledger.output.packets + ledger.held.packets);
            name.as_str() != "sink" && given > 0 && kept == 0
        })?;
        let all = of(name);
        let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
        for (cause, tally) in all.iter().flat_map(|ledger| &ledger.drops) {
            *causes.entry(cause).or_default() += tally.packets;
        }
        let mut causes: Vec<(&str, u64)> = causes.into_iter().filter(|(_, n)| *n > 0).collect();
        causes.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        Some(DeadEnd {
            stage: name.clone(),
            packets: sum(&all, |ledger| ledger.input.packets),
            causes: causes.into_iter().map(|(cause, _)| cause.to_owned()).collect(),
        })
    }

    /// Returns whether every stage of every worker conserved packets and bytes.
    pub fn is_conserved(&self) -> bool {
        self.workers.iter().flat_map(|s| &s.stages).all(|s| s.ledger.is_conserved())
    }
}
