// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `memory` record: the memory hierarchy as loads see it, here and now.
//!
//! Everything rests on one kind of measurement: a chain of loads, each dependent on the previous
//! one (a *chase*), through a number of cache lines in an order that no prefetcher can guess. The
//! time per load as a function of chain size is a [`Curve`]; its plateaus are the [`MemoryLevel`]s.

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
    /// Small and huge pages: offered, granted, and whether they help.
    pub pages: Pages,
    /// Load latency over chain size, one curve per order and page size.
    pub curves: Vec<Curve>,
    /// The levels found, nearest first; the last is memory itself, whose size is not given.
    pub levels: Vec<MemoryLevel>,
    /// Undetermined sizes, with reasons.
    pub unresolved: Vec<Unresolved>,
    /// Ratio below which two sizes cannot be distinguished.
    #[serde(serialize_with = "crate::finite")]
    pub resolution: f64,
    /// The data TLB levels, nearest first.
    pub tlb: Vec<TlbLevel>,
    /// Cost of a load, by location of data and translation: input for performance models.
    pub costs: Vec<Cost>,
    /// Times of single loads, by chain size.
    pub histograms: Vec<Histogram>,
    /// Number of outstanding misses per core, by level.
    pub parallelism: Vec<Parallelism>,
    /// Bytes per second, by level.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency of a load from memory while other threads use the memory; empty if not measured.
    pub loaded: Vec<LoadedLatency>,
    /// Time lost by the measuring thread.
    pub noise: Noise,
    /// The hierarchy as reported by the OS, compared with the measured one.
    pub os_view: Vec<OsView>,
    /// Events per size, checked against the known number of loads; empty if not counted, as
    /// `events_reason` explains.
    pub events: Vec<EventsOfSize>,
    /// Reason why no events were counted; `null` if they were.
    pub events_reason: Option<String>,
}

/// Requested duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// About 2 s: levels and their latencies.
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
    /// Requested duration.
    pub effort: Effort,
    /// Actual duration, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The processor of the measuring thread.
    pub cpu: u32,
    /// The CPUs on which multi-threaded bandwidth was measured.
    pub cpus: Vec<u32>,
    /// Cache line size in bytes.
    pub line_bytes: u64,
    /// Size of the longest chain in bytes.
    pub max_bytes: u64,
    /// Reason for that limit.
    pub max_reason: String,
    /// Load average over one minute, before the measurement; `null` if the OS does not report it.
    pub load_before: Option<f64>,
    /// As `load_before`, but after the measurement.
    pub load_after: Option<f64>,
    /// Number of timed windows over all threads, each 2 ms or less.
    pub windows: u64,
    /// Windows discarded because their thread was preempted.
    pub windows_dropped: u64,
    /// Whether the measurement was interrupted; results obtained until then are valid.
    pub interrupted: bool,
}

/// The clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// Time source: `tsc`, `cntvct`, `clock_monotonic`.
    pub source: String,
    /// Whether the source's rate is independent of the core clock; `null` if unknown.
    pub invariant: Option<bool>,
    /// GHz.
    pub rate_ghz: Figure,
    /// Smallest observed step, in ns: the resolution of all times.
    pub step_ns: Figure,
    /// Difference between two consecutive reads, in ns.
    pub overhead_ns: Figure,
    /// Core clock during the measurement, in GHz, from a chain of additions.
    pub core_ghz: Figure,
}

/// Kind of page, by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The smallest.
    Base,
    /// Transparent huge pages, requested with madvise(2).
    Huge,
}

/// Small and huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pages {
    /// Small page size in bytes.
    pub base_bytes: u64,
    /// Huge page size in bytes; `null` if there are no huge pages.
    pub huge_bytes: Option<u64>,
    /// Kind of page used for the curves.
    pub used: PageKind,
    /// Share of the requested memory that the OS reports as backed by huge pages, 0 to 1.
    pub granted: Figure,
    /// Ratio of latency with huge pages to latency with small pages, at sizes where small pages
    /// miss the TLB.
    pub time_ratio: Figure,
    /// Whether huge pages are effective.
    pub verdict: PagesVerdict,
    /// The verdict in a sentence, with a remedy.
    pub sentence: String,
}

/// Effectiveness of huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PagesVerdict {
    /// One TLB entry translates a huge page.
    Work,
    /// Granted, but held by the TLB in small pieces: a hypervisor backs them with small pages.
    Splintered,
    /// Requested, but not granted.
    NotGranted,
    /// The system has no huge pages, or they are switched off.
    NotOffered,
    /// Undetermined.
    Unknown,
}

/// Access order of a chase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Random within a block of a few pages, then the next random block: one TLB miss per page, so
    /// the steps are those of the caches.
    PageLocal,
    /// Random over all lines: effects of caches and TLB combined.
    Random,
    /// Line after line, so that prefetching helps.
    Sequential,
}

/// Load latency over chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Order of the loads.
    pub order: Order,
    /// Kind of page that holds the chain.
    pub pages: PageKind,
    /// By increasing size.
    pub points: Vec<CurvePoint>,
}

/// One size on a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// Loads in the valid windows.
    pub loads: u64,
    /// Total duration of these loads, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The fastest window of each pass, in ns per load. Each pass visits the sizes in a different
    /// order and on different pages.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ns: Vec<f64>,
    /// Core clock in GHz for each pass; empty if unknown.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ghz: Vec<f64>,
    /// ns per load: the minimum over passes.
    pub latency_ns: Figure,
    /// Core cycles per load: roughly cycles per instruction, since the chase executes little else.
    pub cycles: Figure,
    /// Valid windows.
    pub windows: u64,
    /// Windows dropped because the thread was preempted in them.
    pub windows_dropped: u64,
}

/// A level of the memory hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLevel {
    /// `L1`, `L2`, `L3`, ..., `memory`.
    pub name: String,
    /// Largest chain that stays in the level, in bytes: the size available to this program now.
    pub size_bytes: Figure,
    /// ns per load that hits in this level and in the L1 TLB.
    pub latency_ns: Figure,
    /// The same time in core cycles.
    pub latency_cycles: Figure,
    /// Whether the level's plateau was the same in all passes.
    pub settled: bool,
    /// Note for readers, in a sentence.
    pub note: Option<String>,
}

/// An undetermined range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unresolved {
    /// Start of the range, in bytes.
    pub from_bytes: u64,
    /// End of the range, in bytes.
    pub to_bytes: u64,
    /// Cause as a keyword for scripts: `moved`, `too_close`, `too_small`, `too_noisy`.
    pub cause: String,
    /// The problem and its remedy, in a sentence.
    pub sentence: String,
}

/// A data TLB level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlbLevel {
    /// `L1 dTLB`, `L2 dTLB`.
    pub name: String,
    /// Kind of page used in the measurement.
    pub pages: PageKind,
    /// Number of entries, where latency shows a step; absent where it rises slowly.
    pub entries: Figure,
    /// Number of pages at which latency begins to rise.
    pub onset: Figure,
    /// Number of pages at which half of the rise is reached.
    pub half: Figure,
    /// ns that a miss in this level adds to a load that hits in the next level.
    pub cost_ns: Figure,
    /// The same time in core cycles.
    pub cost_cycles: Figure,
    /// Note for readers, in a sentence.
    pub note: Option<String>,
}

/// Where an address translation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TlbState {
    /// TLB hit.
    Hit,
    /// Miss in the L1 TLB, hit in the L2 TLB.
    MissL1,
    /// Page walk.
    Walk,
}

/// Cost of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Name of the level that holds the data.
    pub level: String,
    /// Where the address translation is found.
    pub tlb: TlbState,
    /// ns until a dependent load can begin: an upper bound where loads overlap.
    pub ns: Figure,
    /// The same time in core cycles.
    pub cycles: Figure,
    /// ns per load with as many loads outstanding as the core supports: a lower bound.
    pub overlapped_ns: Figure,
}

/// Times of single loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Name of the level for chains of this size; `null` if none was found.
    pub level: Option<String>,
    /// Number of loads timed, equal to the sum over the bins.
    pub samples: u64,
    /// Timing overhead in ns, already subtracted from the bins.
    pub bias_ns: Figure,
    /// Bins in increasing order, without gaps; the last is open-ended.
    pub bins: Vec<Bin>,
    /// Peaks of the distribution.
    pub modes: Vec<Mode>,
    /// ns per load from chains of 0, 1, 2, 4, ... loads: independent of the timer's step.
    pub slope_ns: Figure,
}

/// A bin of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// Lower end in ns, inclusive. Below 0 if the timer's step is longer than a load.
    #[serde(serialize_with = "crate::finite")]
    pub from_ns: f64,
    /// Upper end in ns, exclusive; `null` for the last bin.
    pub to_ns: Option<f64>,
    /// Their number.
    pub count: u64,
}

/// A peak of the distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Name of the level with that latency; `null` if there is none.
    pub name: Option<String>,
    /// Position, in ns.
    #[serde(serialize_with = "crate::finite")]
    pub ns: f64,
    /// Lower end of the peak's range in ns, which is about one timer step wide; `null` in earlier
    /// records.
    pub low_ns: Option<f64>,
    /// Upper end of the range.
    pub high_ns: Option<f64>,
    /// Share of the loads, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// Time lost by the measuring thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// Duration of sampling, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Share of this duration that was lost, 0 to 1.
    pub lost: Figure,
    /// Gaps per second.
    pub gaps_per_s: Figure,
    /// The longest gap, in us.
    pub longest_us: Figure,
    /// Gaps by length.
    pub gaps: Vec<Bin>,
    /// Share of this CPU's time stolen by the host, 0 to 1; absent if the kernel does not report
    /// it.
    pub stolen: Figure,
    /// Share used by other programs on this system, 0 to 1.
    pub others: Figure,
    /// CPU quota that control groups impose on this process, in CPUs; `null` without a quota. If it
    /// is used up early, the process is throttled until the next period, which shows up as gaps.
    pub quota_cpus: Option<f64>,
}

/// A size reported by the OS, compared with the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OsView {
    /// `L1`, `L2`, `L3` as numbered by the OS; `level of 6 MiB` for a level that the OS does not
    /// report. Names are unique.
    pub name: String,
    /// Size in bytes as reported by the OS; `null` if it reports none.
    pub stated_bytes: Option<u64>,
    /// Measured bytes.
    pub found_bytes: Figure,
    /// The verdict.
    pub verdict: OsVerdict,
    /// The comparison in a sentence.
    pub sentence: String,
}

/// Verdict on a size reported by the OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OsVerdict {
    /// Measured as reported: the reported size is within the interval, or less than 10 % outside
    /// it.
    Agrees,
    /// Less than the reported size is available now.
    Smaller,
    /// More than the reported size was measured, up to twice as much.
    Larger,
    /// Reported by the OS, but not found.
    Unseen,
    /// Found, but not reported by the OS.
    NotStated,
    /// Undetermined: more than twice the reported size was found, or the size is among the
    /// unresolved ones.
    CannotTell,
}

/// Events counted during the chase at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsOfSize {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Number of loads executed.
    pub loads: u64,
    /// The counts.
    pub events: Vec<EventOfChase>,
}

/// One event counted during the chase at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventOfChase {
    /// Its name.
    pub event: String,
    /// Per load.
    pub per_load: Figure,
    /// Whether the count is plausible, given the loads; `null` if nothing is known about the event.
    pub plausible: Option<bool>,
    /// Reason why the count is not plausible; `null` if it is.
    pub doubt: Option<String>,
}

impl Curve {
    /// Returns the number of passes over a size: minimum, median and maximum. `None` without sizes.
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
