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
    /// Input of the stage.
    pub input: Tally,
    /// Created by the stage: its own packets, and bytes prepended to a packet.
    pub created: Tally,
    /// Output of the stage.
    pub output: Tally,
    /// Consumed by the stage: packets that end here by design, and bytes removed from a packet.
    pub consumed: Tally,
    /// Dropped by the stage, by cause.
    pub drops: BTreeMap<String, Tally>,
    /// Still held by the stage when the run ended.
    pub held: Tally,
}

impl Ledger {
    /// Returns the total dropped, over all causes.
    pub fn dropped(&self) -> Tally {
        self.drops.values().copied().sum()
    }

    /// Whether packets and bytes balance.
    pub fn is_conserved(&self) -> bool {
        self.input + self.created == self.output + self.consumed + self.dropped() + self.held
    }
}

/// Breakdown of a worker's time, as shares of wall time over the measured part of the run. Each
/// share is summed from its own timestamps; wall time is read from another clock.
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
    /// Not running: preempted by another thread or stolen by the hypervisor.
    #[serde(serialize_with = "crate::finite")]
    pub lost: f64,
    /// 1 minus the four shares: measurement overhead, or unattributed time.
    #[serde(serialize_with = "crate::finite")]
    pub unaccounted: f64,
}

/// Calls to one kernel by one stage on one worker.
///
/// From a random sample of iterations in which the stage's calls were logged; after the run, the
/// worker made the same calls again, in the same order, on cached buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelUse {
    /// The kernel.
    pub kernel: Kernel,
    /// The variant that was called.
    pub variant: String,
    /// Calls per packet of the stage, in the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub calls_per_packet: f64,
    /// Mean bytes per call over the logged iterations.
    #[serde(serialize_with = "crate::finite")]
    pub bytes_per_call: f64,
    /// Ticks spent in the calls, per packet of the stage.
    pub ticks_per_packet: Figure,
    /// Time of the calls as a share of the stage's service time.
    pub share: Figure,
    /// Times of the same calls with every variant that this processor can run, in the same rounds.
    pub variants: Vec<VariantTime>,
}

/// Time of one variant for the calls of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantTime {
    /// The variant.
    pub variant: String,
    /// Whether this is the selected variant of the kernel on this machine.
    pub selected: bool,
    /// Time of the calls relative to the variant in use; below 1 is faster.
    pub time_ratio: Figure,
}

/// An event that was to be counted around the stages.
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

/// Events counted around the stages, and the method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedEvents {
    /// How the counters were read: `user read` or `read(2)`; `null` if nothing was counted.
    pub reading: Option<String>,
    /// One iteration in this many was counted.
    pub one_iteration_in: u64,
    /// The events, in order.
    pub events: Vec<CountedEvent>,
}

/// One stage on one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageReport {
    /// Name of the stage in the path; `source`, `sink`, `ring in` and `ring out` are the ends.
    pub name: String,
    /// Input packets of the stage, over the whole run.
    pub packets: u64,
    /// Input rate of the stage in kpps over the measured part of the run; `null`, like the shares
    /// below, if the run ended before that part began.
    pub kpps: Option<f64>,
    /// Service time: ticks of the timestamp counter per packet, waiting excluded.
    pub ticks_per_packet: Figure,
    /// Service time in core cycles; absent if the core clock changed during the run.
    pub cycles_per_packet: Figure,
    /// Share of wall time that this stage spent working; also `null` if no iteration in a clean
    /// window was sampled.
    pub busy: Option<f64>,
    /// Share of wall time that the stage's worker spent waiting for packets.
    pub starved: Option<f64>,
    /// Share of wall time that the stage's worker waited for room in a ring.
    pub blocked: Option<f64>,
    /// Polls of the worker's input that returned nothing.
    pub empty_polls: u64,
    /// Packets dropped, by cause.
    pub drops: BTreeMap<String, u64>,
    /// The full packet balance, in packets and bytes.
    pub ledger: Ledger,
    /// Additional counts kept by the stage (rules hit, translations made, ...), by name.
    pub counts: BTreeMap<String, u64>,
    /// Reason why the stage had nothing to do for any packet; `null` if it worked on a packet or
    /// received none, and in records before version 2.0.
    #[serde(default)]
    pub idle: Option<String>,
    /// Kernels called by the stage; `null` if its calls were not logged.
    pub kernels: Option<Vec<KernelUse>>,
    /// Hardware events per packet, waiting excluded, and `cpi`, by name; `null` if nothing was
    /// counted, and in records before version 1.2.
    pub events: Option<BTreeMap<String, Figure>>,
}

/// Measurement windows of a worker (about 1 ms each, and at least one iteration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowCount {
    /// Completed windows.
    pub total: u64,
    /// Windows dropped because the worker was preempted in them.
    pub preempted: u64,
}

/// One worker: a pinned thread and the stages it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// `segment.replica`, both from 0.
    pub name: String,
    /// Logical CPU to which the worker is pinned.
    pub cpu: u32,
    /// Index of the segment (a run of consecutive stages), from 0.
    pub segment: u32,
    /// Index of the segment's replica, from 0.
    pub replica: u32,
    /// Stages in order, including the ends.
    pub stages: Vec<StageReport>,
    /// Breakdown of the worker's time; `null` if the run ended before its measured part began.
    pub time: Option<TimeShares>,
    /// Run delay in nanoseconds, as accounted by the scheduler over the same time; `null` if the
    /// kernel does not report it.
    pub run_delay_ns: Option<u64>,
    /// `time.lost` in nanoseconds.
    pub lost_ns: u64,
    /// Service time of the whole worker, in ticks per input packet.
    pub ticks_per_packet: Figure,
    /// Polls of the input that returned nothing.
    pub empty_polls: u64,
    /// Polls by number of packets returned: bucket `i` counts bursts of `2^i` to `2^(i+1)-1`.
    pub burst_sizes: Vec<u64>,
    /// Measurement windows.
    pub windows: WindowCount,
    /// Involuntary context switches over the run.
    pub involuntary_switches: u64,
    /// CPU time of the worker, as accounted by the scheduler over the whole run, including warm-up.
    pub cpu_ns: u64,
}

/// A ring between two workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RingReport {
    /// `from > to`, in worker names.
    pub name: String,
    /// Capacity, in packets.
    pub capacity: u64,
    /// Fill levels seen by the consumer: counts for 0, up to 10 %, 10 to 20 %, ... 90 to 100 %.
    pub occupancy: Vec<u64>,
    /// Pushes for which the ring lacked room for the whole burst.
    pub full_pushes: u64,
    /// Packets left in the ring when the run ended.
    pub held: u64,
}

/// Time from the source to the sink, for sampled packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median, in nanoseconds.
    pub p50: Figure,
    /// 99th percentile, in nanoseconds.
    pub p99: Figure,
    /// 99.9th percentile, in nanoseconds.
    pub p999: Figure,
}

/// Result of one mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// The name of the path.
    pub path: String,
    /// The mapping in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Kernels that the workers called: `selected`, which is the best variant of each, or the name
    /// of a variant; `null` in records of version 1.0.
    pub kernels: Option<String>,
    /// Events counted around the stages; `null` if none were requested, and in records before
    /// version 1.2.
    pub counted: Option<CountedEvents>,
    /// Wall time of the measured part, in seconds; warm-up excluded.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Requested rate of the source, in kpps; absent, with the reason, if it has no fixed rate
    /// (`rate = "max"`); `null` in records before version 1.3.
    pub offered_kpps: Option<Figure>,
    /// Packets that left the path in the clean windows, in kpps.
    pub throughput_kpps: Figure,
    /// Packets that left the path or were dropped by a stage on purpose, in kpps: the rate at which
    /// the path processed its input.
    pub processed_kpps: Figure,
    /// Line rate at the mean frame size of the traffic, in kpps.
    pub line_rate_kpps: Option<f64>,
    /// The workers in order of segment, then replica.
    pub workers: Vec<WorkerReport>,
    /// The rings.
    pub rings: Vec<RingReport>,
    /// Latency through the path.
    pub latency: Latency,
    /// Input packets that never entered the path, by cause (unreadable, too long, ...).
    pub rejected: BTreeMap<String, u64>,
    /// Preparation of the input before the run: packets skipped, split and padded; `null` in
    /// records before version 2.0.
    #[serde(default)]
    pub input: Option<InputReport>,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Input packets that the source replays, excluding rejected ones; `null` in records before
    /// version 1.4.
    #[serde(default)]
    pub frames: Option<u64>,
    /// Logical CPUs available to the workers; `null` in records before version 1.4, and in the runs
    /// within a `tune` record, which states the number itself.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// The line of the path; `null` without a line, and in records before version 1.4.
    #[serde(default)]
    pub line: Option<LineReport>,
    /// Bottleneck, as determined when the run was measured; `null` in records before version 1.4,
    /// and in the baseline of a `tune` record, which states the bottleneck itself.
    #[serde(default)]
    pub finding: Option<Finding>,
    /// Limiting causes, as in `linerate why`, the main one first: the same rules, applied to the
    /// workers' time. Empty in records before version 2.0.
    #[serde(default)]
    pub causes: Vec<WhyFinding>,
    /// Better kernels for the path's calls; `null` if unknown, and as for `cpus_available`.
    #[serde(default)]
    pub kernel_advice: Option<KernelAdvice>,
    /// Cache level that holds the packets; `null` as for `cpus_available`.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
}

/// Line that the path should saturate.
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

/// Cache level that holds a path's packets: frames and buffers compared with the sizes in the
/// machine's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketsHome {
    /// Bytes of frames and buffers used by one worker.
    pub bytes: Figure,
    /// Name of the nearest level that holds these bytes.
    pub level: Figure,
    /// Maximum wait for a load from this level, in ns.
    pub miss_ns: Figure,
    /// Maximum wait for a load from this level, in core cycles.
    pub miss_cycles: Figure,
    /// Conclusion; `null` if the packets are in a fast enough level, or there is no profile.
    pub sentence: Option<String>,
}

impl WorkerReport {
    /// Returns the breakdown of the time; all zero if unknown.
    pub fn time_or_zero(&self) -> TimeShares {
        self.time.unwrap_or_default()
    }

    /// Returns the stages of the path, without the ends of the worker: source and sink, or rings.
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

    /// Returns the share of time spent in source and sink on work that a NIC would do: copying
    /// packets out of the replayed traffic and discarding them. `None` if unknown.
    fn replay_share(&self) -> Option<f64> {
        let head = self.stages.first().filter(|stage| stage.name == "source");
        let tail = self.stages.last().filter(|stage| stage.name == "sink");
        head.into_iter().chain(tail).map(|stage| stage.busy).sum()
    }
}

/// Cost of replaying packets, which would not arise with a NIC and its driver, or would take
/// another form.
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
        // Shares of the time for which each worker was not preempted.
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

/// The stage at which all packets of a path ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadEnd {
    /// The stage that passed no packet on.
    pub stage: String,
    /// Packets given to the stage, over all workers.
    pub packets: u64,
    /// The stage's drop causes, most frequent first; empty if it consumed the packets by design.
    pub causes: Vec<String>,
}

impl DeadEnd {
    /// Tells people what to change.
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
    /// Returns the stage that all packets reached and none left, by design or by mistake; `None` if
    /// a packet reached the sink, none was offered, or some were still in flight.
    pub fn dead_end(&self) -> Option<DeadEnd> {
        let mut workers: Vec<&WorkerReport> = self.workers.iter().collect();
        workers.sort_by_key(|worker| worker.segment);
        let stages = || workers.iter().flat_map(|worker| &worker.stages);
        let of = |name: &str| -> Vec<&Ledger> {
            stages().filter(|stage| stage.name == name).map(|stage| &stage.ledger).collect()
        };
        let sum = |all: &[&Ledger], part: fn(&Ledger) -> u64| all.iter().copied().map(part).sum();
        // The ends of workers pass on everything they are given.
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

    /// Whether every stage of every worker conserved packets and bytes.
    pub fn is_conserved(&self) -> bool {
        self.workers.iter().flat_map(|s| &s.stages).all(|s| s.ledger.is_conserved())
    }
}
