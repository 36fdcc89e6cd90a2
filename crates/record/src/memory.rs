// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `memory` record: the memory hierarchy as loads experience it on this machine, at
//! the time of the measurement.
//!
//! All results are based on one kind of measurement: a chain of loads, each dependent on the
//! previous one (a *chase*), through a number of cache lines in an order that no prefetcher can
//! guess. The time per load as a function of chain size is a [`Curve`]; its plateaus are the
//! [`MemoryLevel`]s.

mod overlap;

pub use overlap::{Bandwidth, ChainsPoint, LoadedLatency, Operation, Parallelism};

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Result of `linerate memory`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// Measurement conditions.
    pub conditions: Conditions,
    /// The time source and the core clock.
    pub timer: Timer,
    /// Small and huge pages: whether huge pages are available, were granted, and help.
    pub pages: Pages,
    /// Load latency as a function of chain size, one curve per access order and page size.
    pub curves: Vec<Curve>,
    /// The levels that were found, nearest first. The last level is memory itself, whose size is
    /// not given.
    pub levels: Vec<MemoryLevel>,
    /// Ranges of sizes in which no level could be determined, with reasons.
    pub unresolved: Vec<Unresolved>,
    /// Ratio of two sizes below which they cannot be distinguished.
    #[serde(serialize_with = "crate::finite")]
    pub resolution: f64,
    /// The data TLB levels, nearest first.
    pub tlb: Vec<TlbLevel>,
    /// Cost of a load, by the location of the data and of the address translation: input for
    /// performance models.
    pub costs: Vec<Cost>,
    /// Distributions of the times of single loads, one per chain size.
    pub histograms: Vec<Histogram>,
    /// Number of outstanding misses per core, by level.
    pub parallelism: Vec<Parallelism>,
    /// Memory bandwidth, by level, operation and number of threads.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency of a load from memory while other threads use the memory; empty if not measured.
    pub loaded: Vec<LoadedLatency>,
    /// Time that the measuring thread lost to interruptions.
    pub noise: Noise,
    /// Sizes that the OS reports, compared with the measured ones.
    pub os_view: Vec<OsView>,
    /// Event counts for each chain size, checked against the known number of loads; empty if
    /// nothing was counted, as `events_reason` explains.
    pub events: Vec<EventsOfSize>,
    /// Reason why no events were counted; `null` if events were counted.
    pub events_reason: Option<String>,
}

/// Requested duration of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// About 2 s: only the levels and their latencies.
    Quick,
    /// About 10 s: everything.
    Default,
    /// About 60 s: everything, with narrower intervals.
    Full,
}

/// Measurement conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// Requested duration of the measurement.
    pub effort: Effort,
    /// Actual duration of the measurement, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Logical CPU on which the measuring thread ran.
    pub cpu: u32,
    /// Logical CPUs on which multi-threaded bandwidth was measured.
    pub cpus: Vec<u32>,
    /// Cache line size in bytes.
    pub line_bytes: u64,
    /// Size of the longest chain in bytes.
    pub max_bytes: u64,
    /// Reason for the limit on the size of the longest chain.
    pub max_reason: String,
    /// Load average over one minute, before the measurement; `null` if the OS does not report it.
    pub load_before: Option<f64>,
    /// Load average over one minute, after the measurement; `null` if the OS does not report it.
    pub load_after: Option<f64>,
    /// Number of timed windows over all threads, each 2 ms or less.
    pub windows: u64,
    /// Number of timed windows that were discarded because their thread was preempted.
    pub windows_dropped: u64,
    /// Whether the user interrupted the measurement; results obtained until then are valid.
    pub interrupted: bool,
}

/// The time source of the measurement, and the core clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// Time source: `tsc`, `cntvct`, `clock_monotonic`.
    pub source: String,
    /// Whether the rate of the time source is independent of the core clock; `null` if unknown.
    pub invariant: Option<bool>,
    /// Rate of the time source, in GHz.
    pub rate_ghz: Figure,
    /// Smallest observed step of the time source, in ns: the resolution of all times.
    pub step_ns: Figure,
    /// Time that passes between two consecutive reads of the time source, in ns.
    pub overhead_ns: Figure,
    /// Core clock during the measurement, in GHz, from a chain of additions.
    pub core_ghz: Figure,
}

/// Kind of page, by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The smallest pages of the machine.
    Base,
    /// Transparent huge pages, requested with madvise(2).
    Huge,
}

/// Availability and effect of small and huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pages {
    /// Size of a small page, in bytes.
    pub base_bytes: u64,
    /// Size of a huge page, in bytes; `null` if there are no huge pages.
    pub huge_bytes: Option<u64>,
    /// Kind of page that was used for the curves.
    pub used: PageKind,
    /// Share of the requested memory that the OS reports as backed by huge pages, 0 to 1.
    pub granted: Figure,
    /// Ratio of latency with huge pages to latency with small pages, at sizes where small pages
    /// miss the TLB.
    pub time_ratio: Figure,
    /// Verdict on whether huge pages are effective.
    pub verdict: PagesVerdict,
    /// The verdict in a sentence, with a remedy.
    pub sentence: String,
}

/// Verdict on the effectiveness of huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PagesVerdict {
    /// Huge pages work: one TLB entry translates a whole huge page.
    Work,
    /// Huge pages were granted, but the TLB translates them in small pieces, because a hypervisor
    /// backs them with small pages.
    Splintered,
    /// Huge pages were requested, but not granted.
    NotGranted,
    /// The system has no huge pages, or they are switched off.
    NotOffered,
    /// It could not be determined whether huge pages are effective.
    Unknown,
}

/// Order in which a chase (a chain of dependent loads) accesses its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Random within a block of a few pages, then random within the next block: only one TLB miss
    /// per page, so the steps of the curve are those of the caches.
    PageLocal,
    /// Random over all lines: the curve shows the effects of caches and TLB combined.
    Random,
    /// Sequential, line after line, so that prefetching helps.
    Sequential,
}

/// Load latency as a function of chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Order of the loads.
    pub order: Order,
    /// Kind of page that holds the chain.
    pub pages: PageKind,
    /// Measured points, by increasing chain size.
    pub points: Vec<CurvePoint>,
}

/// Measurements of a chase at one chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Number of cache lines in the chain.
    pub lines: u64,
    /// Number of loads in the valid windows.
    pub loads: u64,
    /// Total duration of the loads in the valid windows, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Time per load in the fastest window of each pass, in ns. Each pass visits the sizes in a
    /// different order and on different pages.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ns: Vec<f64>,
    /// Core clock during each pass, in GHz; empty if unknown.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ghz: Vec<f64>,
    /// Time per load in ns: the minimum over the passes.
    pub latency_ns: Figure,
    /// Time per load in core cycles. This is roughly the number of cycles per instruction, since
    /// the chase executes little else.
    pub cycles: Figure,
    /// Number of valid windows.
    pub windows: u64,
    /// Number of windows that were dropped because the thread was preempted in them.
    pub windows_dropped: u64,
}

/// A level of the memory hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLevel {
    /// Name of the level: `L1`, `L2`, `L3`, ..., `memory`.
    pub name: String,
    /// Size in bytes of the largest chain that stays in the level: the capacity that was available
    /// to this program.
    pub size_bytes: Figure,
    /// Time per load, in ns, for loads that hit in this level and in the L1 TLB.
    pub latency_ns: Figure,
    /// Time per load in core cycles, for loads that hit in this level and in the L1 TLB.
    pub latency_cycles: Figure,
    /// Whether the level's plateau was the same in all passes.
    pub settled: bool,
    /// Remark on the level, in a sentence; `null` if there is none.
    pub note: Option<String>,
}

/// A range of sizes in which no level could be determined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unresolved {
    /// Start of the range, in bytes.
    pub from_bytes: u64,
    /// End of the range, in bytes.
    pub to_bytes: u64,
    /// Cause of the problem, as a keyword for scripts: `moved`, `too_close`, `too_small`,
    /// `too_noisy`.
    pub cause: String,
    /// The problem and its remedy, in a sentence.
    pub sentence: String,
}

/// A level of the data TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlbLevel {
    /// Name of the level: `L1 dTLB`, `L2 dTLB`.
    pub name: String,
    /// Kind of page used in the measurement.
    pub pages: PageKind,
    /// Number of entries, if latency rises in a step at that number of pages; absent if it rises
    /// slowly.
    pub entries: Figure,
    /// Number of pages at which latency begins to rise.
    pub onset: Figure,
    /// Number of pages at which latency has reached half of its rise.
    pub half: Figure,
    /// Time in ns that a miss in this level adds to a load that hits in the next level.
    pub cost_ns: Figure,
    /// Time in core cycles that a miss in this level adds to a load that hits in the next level.
    pub cost_cycles: Figure,
    /// Remark on the TLB level, in a sentence; `null` if there is none.
    pub note: Option<String>,
}

/// Where an address translation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TlbState {
    /// The L1 TLB holds the translation.
    Hit,
    /// The load misses the L1 TLB and hits the L2 TLB.
    MissL1,
    /// The load misses all TLB levels and needs a page walk.
    Walk,
}

/// Cost of a load, for one location of the data and of the address translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Name of the level that holds the data.
    pub level: String,
    /// Where the address translation is found.
    pub tlb: TlbState,
    /// Time until a dependent load can begin, in ns: an upper bound where loads overlap.
    pub ns: Figure,
    /// Time until a dependent load can begin, in core cycles.
    pub cycles: Figure,
    /// Time per load, in ns, when the core has its maximum number of loads outstanding: a lower
    /// bound.
    pub overlapped_ns: Figure,
}

/// Distribution of the times of single loads from chains of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Name of the level that holds a chain of this size; `null` if none was found.
    pub level: Option<String>,
    /// Number of loads timed, equal to the sum over the bins.
    pub samples: u64,
    /// Timing overhead in ns, already subtracted from the bins.
    pub bias_ns: Figure,
    /// Bins of the histogram in increasing order of time, without gaps; the last bin is open-ended.
    pub bins: Vec<Bin>,
    /// Peaks of the distribution.
    pub modes: Vec<Mode>,
    /// Time per load in ns, from the slope over chains of 0, 1, 2, 4, ... loads: independent of the
    /// timer's step.
    pub slope_ns: Figure,
}

/// A bin of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// Lower end of the bin in ns, inclusive. Below 0 if the timer's step is longer than a load.
    #[serde(serialize_with = "crate::finite")]
    pub from_ns: f64,
    /// Upper end of the bin in ns, exclusive; `null` for the last bin.
    pub to_ns: Option<f64>,
    /// Number of values in the bin.
    pub count: u64,
}

/// A peak of the distribution of load times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Name of the level with the latency of the peak; `null` if there is none.
    pub name: Option<String>,
    /// Position of the peak, in ns.
    #[serde(serialize_with = "crate::finite")]
    pub ns: f64,
    /// Lower end of the peak's range in ns, which is about one timer step wide; `null` in earlier
    /// records.
    pub low_ns: Option<f64>,
    /// Upper end of the peak's range in ns; `null` in earlier records.
    pub high_ns: Option<f64>,
    /// Share of the loads that belong to the peak, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// Time that the measuring thread lost to interruptions, seen as gaps between clock reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// Time during which the thread watched the clock for gaps, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Share of this time that was lost in gaps, 0 to 1.
    pub lost: Figure,
    /// Number of gaps per second.
    pub gaps_per_s: Figure,
    /// Length of the longest gap, in microseconds.
    pub longest_us: Figure,
    /// Number of gaps by length.
    pub gaps: Vec<Bin>,
    /// Share of this CPU's time stolen by the host, 0 to 1; absent if the kernel does not report
    /// it.
    pub stolen: Figure,
    /// Share of this CPU's time that other programs on this system used, 0 to 1.
    pub others: Figure,
    /// CPU quota that control groups impose on this process, in CPUs; `null` without a quota. If
    /// the quota is used up early in a period, the process is throttled until the next period,
    /// which shows up as gaps.
    pub quota_cpus: Option<f64>,
}

/// A cache size that the OS reports, compared with the measured size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OsView {
    /// Name of the level: `L1`, `L2`, `L3` as numbered by the OS, or `level of 6 MiB` for a level
    /// that the OS does not report. Names are unique.
    pub name: String,
    /// Size in bytes as reported by the OS; `null` if it reports none.
    pub stated_bytes: Option<u64>,
    /// Measured size in bytes.
    pub found_bytes: Figure,
    /// Verdict on the reported size.
    pub verdict: OsVerdict,
    /// The comparison of the two sizes in a sentence.
    pub sentence: String,
}

/// Verdict on a cache size that the OS reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OsVerdict {
    /// The measurement agrees: the reported size is within the measured interval, or less than 10 %
    /// outside it.
    Agrees,
    /// Less than the reported size is available at present.
    Smaller,
    /// More than the reported size was measured, up to twice as much.
    Larger,
    /// The OS reports the level, but the measurement did not find it.
    Unseen,
    /// The measurement found the level, but the OS does not report it.
    NotStated,
    /// The verdict is undetermined: more than twice the reported size was found, or the size is
    /// among the unresolved ones.
    CannotTell,
}

/// Events counted during a chase (a chain of dependent loads) of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsOfSize {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Number of loads that the chase executed.
    pub loads: u64,
    /// The counted events.
    pub events: Vec<EventOfChase>,
}

/// Count of one event during a chase (a chain of dependent loads) of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventOfChase {
    /// Name of the event.
    pub event: String,
    /// Count per load of the chase.
    pub per_load: Figure,
    /// Whether the count is plausible, given the known number of loads; `null` if nothing is known
    /// about the event.
    pub plausible: Option<bool>,
    /// Reason why the count is not plausible; `null` if the count is plausible or nothing is known
    /// about the event.
    pub doubt: Option<String>,
}

impl Curve {
    /// Returns the minimum, median and maximum number of passes over the sizes of the curve; `None`
    /// if the curve has no sizes.
    pub fn passes(&self) -> Option<[usize; 3]> {
        let mut passes: Vec<usize> = self.points.iter().map(|p| p.passes_ns.len()).collect();
        passes.sort_unstable();
        let middle = passes.len().checked_sub(1)? / 2;
        Some([passes[0], passes[middle], passes[passes.len() - 1]])
    }
}

impl MemoryReport {
    /// Returns the curve from which the levels were derived; `None` if it was not measured.
    pub fn main_curve(&self) -> Option<&Curve> {
        let is_main =
            |curve: &&Curve| curve.order == Order::PageLocal && curve.pages == self.pages.used;
        self.curves.iter().find(is_main)
    }
}
