// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `memory` record: the memory hierarchy as seen by loads on this machine at the time
//! of measurement.
//!
//! Everything is based on one technique: a chain of dependent loads (a *chase*) through a number of
//! cache lines, in an order that no prefetcher can predict. Time per load as a function of chain
//! size is a [`Curve`]; its plateaus are the [`MemoryLevel`]s.

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
    /// Small and huge pages: whether huge pages are available, granted, and effective.
    pub pages: Pages,
    /// Load latency as a function of chain size, one curve per access order and page size.
    pub curves: Vec<Curve>,
    /// Levels found, nearest first. The last is main memory, which has no size.
    pub levels: Vec<MemoryLevel>,
    /// Size ranges in which no level could be determined, and why.
    pub unresolved: Vec<Unresolved>,
    /// Smallest ratio of two level sizes at which the levels can be distinguished.
    #[serde(serialize_with = "crate::finite")]
    pub resolution: f64,
    /// The data TLB levels, nearest first.
    pub tlb: Vec<TlbLevel>,
    /// Cost of a load by where its data and its address translation are found: input for
    /// performance models.
    pub costs: Vec<Cost>,
    /// Distributions of single-load times, one per chain size.
    pub histograms: Vec<Histogram>,
    /// Number of outstanding misses per core, by level.
    pub parallelism: Vec<Parallelism>,
    /// Memory bandwidth by level, operation and thread count.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency of loads from memory while other threads use it; empty if not measured.
    pub loaded: Vec<LoadedLatency>,
    /// Time that the measuring thread lost to interruptions.
    pub noise: Noise,
    /// OS-reported cache sizes, compared with the measured ones.
    pub os_view: Vec<OsView>,
    /// Event counts per chain size, checked against the known number of loads; empty if nothing was
    /// counted (see `events_reason`).
    pub events: Vec<EventsOfSize>,
    /// Why no events were counted; `null` if some were.
    pub events_reason: Option<String>,
}

/// How long the measurement may take.
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
    /// How long the measurement may take.
    pub effort: Effort,
    /// How long the measurement took, in seconds.
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
    /// What determined the size of the longest chain.
    pub max_reason: String,
    /// One-minute load average before the measurement; `null` if the OS does not report it.
    pub load_before: Option<f64>,
    /// One-minute load average after the measurement; `null` if the OS does not report it.
    pub load_after: Option<f64>,
    /// Number of timed windows over all threads, each at most 2 ms long.
    pub windows: u64,
    /// Number of timed windows that were discarded as preempted.
    pub windows_dropped: u64,
    /// Whether the user interrupted the measurement; results obtained before the interruption are
    /// valid.
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
    /// Smallest observed increment of the time source, in ns, which is the resolution of all times.
    pub step_ns: Figure,
    /// Time between two back-to-back reads of the time source, in ns.
    pub overhead_ns: Figure,
    /// Core clock during the measurement, in GHz, timed with a chain of additions.
    pub core_ghz: Figure,
}

/// Page size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The machine's smallest pages.
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
    /// Kind of page used for the curves.
    pub used: PageKind,
    /// Share of the requested memory that is backed by huge pages according to the OS, 0 to 1.
    pub granted: Figure,
    /// Latency with huge pages relative to that with small pages, at chain sizes for which small
    /// pages miss the TLB.
    pub time_ratio: Figure,
    /// Whether huge pages are effective.
    pub verdict: PagesVerdict,
    /// The verdict in one sentence, with a remedy.
    pub sentence: String,
}

/// Whether huge pages are effective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PagesVerdict {
    /// Huge pages work: a single TLB entry translates an entire huge page.
    Work,
    /// Huge pages were granted, but the hypervisor backs them with small pages, so the TLB holds
    /// translations of small pages.
    Splintered,
    /// Huge pages were requested but not granted.
    NotGranted,
    /// The system has no huge pages, or they are disabled.
    NotOffered,
    /// Undetermined.
    Unknown,
}

/// Order in which a chase (a chain of dependent loads) visits its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Random within a block of a few pages, then within the next block. Each page causes only one
    /// TLB miss, so the steps of the curve are due to caches.
    PageLocal,
    /// Random over all lines, so the curve shows cache and TLB effects combined.
    Random,
    /// Sequential, so prefetching helps.
    Sequential,
}

/// Load latency as a function of chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Order of the loads.
    pub order: Order,
    /// Kind of page backing the chain.
    pub pages: PageKind,
    /// Measured points, in ascending order of chain size.
    pub points: Vec<CurvePoint>,
}

/// One chain size of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Number of cache lines in the chain.
    pub lines: u64,
    /// Number of loads in valid windows.
    pub loads: u64,
    /// Total time of the loads in valid windows, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Time per load in the fastest window of each pass, in ns. Every pass visits the sizes in a
    /// different order, on different pages.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ns: Vec<f64>,
    /// Core clock during each pass, in GHz; empty if unknown.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ghz: Vec<f64>,
    /// Time per load in ns: the minimum over the passes.
    pub latency_ns: Figure,
    /// Time per load in core cycles. Roughly equal to cycles per instruction, as a chase executes
    /// little else.
    pub cycles: Figure,
    /// Number of valid windows.
    pub windows: u64,
    /// Number of windows dropped because the thread was preempted.
    pub windows_dropped: u64,
}

/// A level of the memory hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLevel {
    /// Name of the level: `L1`, `L2`, `L3`, ..., `memory`.
    pub name: String,
    /// Size in bytes of the largest chain that stays in the level, that is, the capacity that was
    /// available to this program.
    pub size_bytes: Figure,
    /// Time per load in ns, for loads that hit this level and the L1 TLB.
    pub latency_ns: Figure,
    /// Time per load in core cycles, for loads that hit this level and the L1 TLB.
    pub latency_cycles: Figure,
    /// Whether all passes found the same plateau.
    pub settled: bool,
    /// Remark on the level, in one sentence; `null` if there is none.
    pub note: Option<String>,
}

/// A size range in which no level could be determined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unresolved {
    /// Start of the range, in bytes.
    pub from_bytes: u64,
    /// End of the range, in bytes.
    pub to_bytes: u64,
    /// Keyword for the cause: `moved`, `too_close`, `too_small`, `too_noisy`, `unseen`.
    pub cause: String,
    /// The problem and its remedy, in one sentence.
    pub sentence: String,
}

/// A level of the data TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlbLevel {
    /// Name of the level: `L1 dTLB`, `L2 dTLB`.
    pub name: String,
    /// Kind of page used for the measurement.
    pub pages: PageKind,
    /// Number of entries: the number of pages at which latency rises in a step; absent if it rises
    /// gradually.
    pub entries: Figure,
    /// Number of pages at which latency starts to rise.
    pub onset: Figure,
    /// Number of pages at the midpoint of the rise in latency.
    pub half: Figure,
    /// Time in ns that a miss in this TLB level adds to a load that hits the next level.
    pub cost_ns: Figure,
    /// Core cycles that a miss in this TLB level adds to a load that hits the next level.
    pub cost_cycles: Figure,
    /// Remark on the TLB level, in one sentence; `null` if there is none.
    pub note: Option<String>,
}

/// Where an address translation comes from: a TLB level or a page walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TlbState {
    /// The load hits the L1 TLB.
    Hit,
    /// The load misses the L1 TLB but hits the L2 TLB.
    MissL1,
    /// The load misses all TLB levels, so it needs a page walk.
    Walk,
}

/// Cost of a load, for data in one cache level and a translation from one TLB level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Level that holds the data.
    pub level: String,
    /// Where the address translation comes from.
    pub tlb: TlbState,
    /// Time in ns from the start of the load until a dependent load can start. An upper bound where
    /// loads overlap.
    pub ns: Figure,
    /// Time in core cycles from the start of the load until a dependent load can start.
    pub cycles: Figure,
    /// Time per load in ns with the maximum number of loads outstanding: a lower bound.
    pub overlapped_ns: Figure,
}

/// Distribution of single-load times for one chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Level that holds a chain of this size; `null` if none was found.
    pub level: Option<String>,
    /// Number of loads timed; equals the sum over the bins.
    pub samples: u64,
    /// Timing overhead in ns, which has been subtracted from the bins.
    pub bias_ns: Figure,
    /// Contiguous bins in ascending order of time; the last is open-ended.
    pub bins: Vec<Bin>,
    /// Peaks in the distribution.
    pub modes: Vec<Mode>,
    /// Time per load in ns: the slope of time against chain length, for chains of 0, 1, 2, 4, ...
    /// loads. Does not depend on timer resolution.
    pub slope_ns: Figure,
}

/// A bin of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// Lower end of the bin in ns, inclusive. Negative if the timer step is longer than a load.
    #[serde(serialize_with = "crate::finite")]
    pub from_ns: f64,
    /// Upper end of the bin in ns, exclusive; `null` for the last bin.
    pub to_ns: Option<f64>,
    /// Number of values in the bin.
    pub count: u64,
}

/// A peak in the distribution of load times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Level whose latency matches the peak; `null` if there is none.
    pub name: Option<String>,
    /// Position of the peak, in ns.
    #[serde(serialize_with = "crate::finite")]
    pub ns: f64,
    /// Lower end of the peak in ns. Peaks are about one timer step wide. `null` in older records.
    pub low_ns: Option<f64>,
    /// Upper end of the peak in ns; `null` in older records.
    pub high_ns: Option<f64>,
    /// Share of loads that belong to the peak, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// Time that the measuring thread lost to interruptions, detected as gaps between clock reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// Time spent watching the clock for gaps, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Share of `elapsed_s` lost in gaps, 0 to 1.
    pub lost: Figure,
    /// Number of gaps per second.
    pub gaps_per_s: Figure,
    /// Longest gap, in microseconds.
    pub longest_us: Figure,
    /// Histogram of gap lengths.
    pub gaps: Vec<Bin>,
    /// Share of this CPU's time stolen by the hypervisor, 0 to 1; absent if the kernel does not
    /// report it.
    pub stolen: Figure,
    /// Share of this CPU's time used by other programs on this system, 0 to 1.
    pub others: Figure,
    /// CPU quota of this process's control groups, in CPUs; `null` without a quota. A process that
    /// exhausts its quota early in a period is throttled until the next one, which shows up as
    /// gaps.
    pub quota_cpus: Option<f64>,
}

/// An OS-reported cache size, compared with the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OsView {
    /// Name of the level: `L1`, `L2`, `L3` as numbered by the OS, or `level of 6 MiB` if the OS
    /// does not report it. Names are unique.
    pub name: String,
    /// Size in bytes according to the OS; `null` if not reported.
    pub stated_bytes: Option<u64>,
    /// Measured size in bytes.
    pub found_bytes: Figure,
    /// Verdict on the OS-reported size.
    pub verdict: OsVerdict,
    /// The comparison in one sentence.
    pub sentence: String,
}

/// Verdict on an OS-reported cache size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OsVerdict {
    /// The sizes agree: the reported size is within the measured interval, or less than 10 %
    /// outside it.
    Agrees,
    /// Less than the reported size is currently available.
    Smaller,
    /// The measured size exceeds the reported one by up to a factor of two.
    Larger,
    /// The OS reports the level, but it was not found.
    Unseen,
    /// The level was found, but the OS does not report it.
    NotStated,
    /// Undetermined: the measured size is more than twice the reported one, or the reported size is
    /// in an unresolved range.
    CannotTell,
}

/// Events counted during a chase (a chain of dependent loads) of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsOfSize {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Number of loads in the chase.
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
    /// Count per load.
    pub per_load: Figure,
    /// Whether the count is plausible, given the known number of loads; `null` if the event has no
    /// expected count.
    pub plausible: Option<bool>,
    /// Why the count is implausible; `null` if it is plausible or the event has no expected count.
    pub doubt: Option<String>,
}

impl Curve {
    /// Returns the minimum, median and maximum number of passes per chain size; `None` if the curve
    /// has no points.
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
