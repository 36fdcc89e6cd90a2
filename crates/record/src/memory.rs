// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `memory` record: the memory hierarchy as loads meet it, here and now.
//!
//! Everything rests on one kind of measurement: a chain of loads, each of which needs the one
//! before (a *chase*), through a number of cache lines in an order that no prefetcher guesses. The
//! time of a load as a function of the size of the chain is a [`Curve`]; its steps are the
//! [`MemoryLevel`]s.

mod overlap;

pub use overlap::{Bandwidth, ChainsPoint, LoadedLatency, Operation, Parallelism};

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Result of `linerate memory`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// Conditions of the measurement.
    pub conditions: Conditions,
    /// The time source, and the core clock.
    pub timer: Timer,
    /// Small and huge pages: offered, granted, and whether they help.
    pub pages: Pages,
    /// Load latency over chain size, one curve per order and page size.
    pub curves: Vec<Curve>,
    /// The levels found, nearest first; the last is memory itself, which has no size.
    pub levels: Vec<MemoryLevel>,
    /// Undetermined sizes, with reasons.
    pub unresolved: Vec<Unresolved>,
    /// Two sizes closer than this ratio cannot be distinguished.
    #[serde(serialize_with = "crate::finite")]
    pub resolution: f64,
    /// The data TLB levels, nearest first.
    pub tlb: Vec<TlbLevel>,
    /// Cost of a load, by location of data and translation: input for performance models.
    pub costs: Vec<Cost>,
    /// Times of single loads, by size of the chain.
    pub histograms: Vec<Histogram>,
    /// Number of outstanding misses of a core, per level.
    pub parallelism: Vec<Parallelism>,
    /// Bytes per second, per level.
    pub bandwidth: Vec<Bandwidth>,
    /// Latency of a load from memory while others use it; empty if not measured.
    pub loaded: Vec<LoadedLatency>,
    /// Time lost by the measuring thread.
    pub noise: Noise,
    /// The hierarchy as stated by the OS, compared with the measured one.
    pub os_view: Vec<OsView>,
    /// Events per size, checked against the known number of loads; empty where `events_reason` says
    /// why.
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

/// Conditions of the measurement.
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
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Bytes of the longest chain.
    pub max_bytes: u64,
    /// The reason for that limit.
    pub max_reason: String,
    /// Load average over the last minute, before and after; `null` if the OS does not report it.
    pub load_before: Option<f64>,
    /// As `load_before`, when everything was measured.
    pub load_after: Option<f64>,
    /// Time windows, each 2 ms or less, of all threads.
    pub windows: u64,
    /// Windows discarded because their thread was preempted.
    pub windows_dropped: u64,
    /// Whether it was interrupted; measurements until then are valid.
    pub interrupted: bool,
}

/// The clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// Time source: `tsc`, `cntvct`, `clock_monotonic`.
    pub source: String,
    /// Whether its rate is independent of the core clock; `null` if unknown.
    pub invariant: Option<bool>,
    /// GHz.
    pub rate_ghz: Figure,
    /// Smallest observed step, in ns: the resolution of all times.
    pub step_ns: Figure,
    /// Difference of two consecutive reads, in ns.
    pub overhead_ns: Figure,
    /// Core clock during the measurement, in GHz, from a chain of additions.
    pub core_ghz: Figure,
}

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The smallest.
    Base,
    /// Transparent huge pages, requested by madvise(2).
    Huge,
}

/// Small and huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pages {
    /// Bytes of a small page.
    pub base_bytes: u64,
    /// Bytes of a huge page; `null` where there are none.
    pub huge_bytes: Option<u64>,
    /// Memory used for the curves.
    pub used: PageKind,
    /// The share of the requested memory backed by huge pages according to the OS, 0 to 1.
    pub granted: Figure,
    /// Latency with huge pages over that with small ones, where the TLB misses small ones.
    pub time_ratio: Figure,
    /// Whether they are effective.
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
    /// Granted, but the TLB holds small pieces of them: a hypervisor backs them with small pages.
    Splintered,
    /// Requested, but not granted.
    NotGranted,
    /// The system has none, or they are switched off.
    NotOffered,
    /// Undetermined.
    Unknown,
}

/// The order of a chase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Random within a block of a few pages, then the next block, at random: one TLB miss per page,
    /// so the steps are those of the caches.
    PageLocal,
    /// Random over all lines: caches and TLB together.
    Random,
    /// Line after line, so that prefetching helps.
    Sequential,
}

/// Load latency over chain size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The order of the loads.
    pub order: Order,
    /// The pages they are in.
    pub pages: PageKind,
    /// By increasing size.
    pub points: Vec<CurvePoint>,
}

/// One size of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Bytes of the chain.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// Loads in the valid windows.
    pub loads: u64,
    /// Duration of these, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The fastest window of each pass, in ns per load. Each pass visits the sizes in a different
    /// order and on different pages.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ns: Vec<f64>,
    /// Core clock in GHz for each of them; empty if unknown.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ghz: Vec<f64>,
    /// ns per load: the minimum over passes.
    pub latency_ns: Figure,
    /// The same in core cycles: about cycles per instruction, since the chase executes little else.
    pub cycles: Figure,
    /// Valid windows.
    pub windows: u64,
    /// Windows that were dropped because the thread was preempted in them.
    pub windows_dropped: u64,
}

/// A level of the hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLevel {
    /// `L1`, `L2`, `L3`, ..., `memory`.
    pub name: String,
    /// Largest chain that stays in it, in bytes: the size available to this program now.
    pub size_bytes: Figure,
    /// ns per load that hits here and in the first TLB level.
    pub latency_ns: Figure,
    /// The same in core cycles.
    pub latency_cycles: Figure,
    /// Whether its plateau was the same in all passes.
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
    /// The problem and the fix, in a sentence.
    pub sentence: String,
}

/// A data TLB level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlbLevel {
    /// `L1 dTLB`, `L2 dTLB`.
    pub name: String,
    /// Page size of the measurement.
    pub pages: PageKind,
    /// Number of entries, where latency shows a step; absent where it rises slowly.
    pub entries: Figure,
    /// Pages at which latency begins to rise.
    pub onset: Figure,
    /// Pages at which half of the rise is reached.
    pub half: Figure,
    /// ns that a miss here adds to a load when the next level hits.
    pub cost_ns: Figure,
    /// The same in core cycles.
    pub cost_cycles: Figure,
    /// Note for readers, in a sentence.
    pub note: Option<String>,
}

/// Location of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TlbState {
    /// TLB hit.
    Hit,
    /// Hit in the second TLB level.
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
    /// Location of its translation.
    pub tlb: TlbState,
    /// ns until a dependent load can begin: an upper bound where loads overlap.
    pub ns: Figure,
    /// The same in core cycles.
    pub cycles: Figure,
    /// ns per load with as many outstanding loads as the core supports: a lower bound.
    pub overlapped_ns: Figure,
}

/// Times of single loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Bytes of the chain.
    pub bytes: u64,
    /// Name of the level for chains of this size; `null` if none was found.
    pub level: Option<String>,
    /// Loads timed. The bins add up to this.
    pub samples: u64,
    /// Overhead of timing, already subtracted from the bins, in ns.
    pub bias_ns: Figure,
    /// In increasing order without gaps; the last is open-ended.
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
    /// Inclusive lower end in ns. Below 0 if the timer's step is longer than a load.
    #[serde(serialize_with = "crate::finite")]
    pub from_ns: f64,
    /// Exclusive upper end; `null` for the last.
    pub to_ns: Option<f64>,
    /// Their number.
    pub count: u64,
}

/// A peak of the distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// The level with that latency; `null` if there is none.
    pub name: Option<String>,
    /// Position, in ns.
    #[serde(serialize_with = "crate::finite")]
    pub ns: f64,
    /// Lower end of the position's range: about the timer's step; `null` in earlier records.
    pub low_ns: Option<f64>,
    /// Upper end of the range.
    pub high_ns: Option<f64>,
    /// The share of the loads, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// Time lost by the measuring thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// Duration of the sampling, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The share of it that was lost, 0 to 1.
    pub lost: Figure,
    /// Gaps per second.
    pub gaps_per_s: Figure,
    /// The longest gap, in us.
    pub longest_us: Figure,
    /// Gaps by length.
    pub gaps: Vec<Bin>,
    /// The share of the time stolen by the host from this processor, 0 to 1; absent if the kernel
    /// does not report it.
    pub stolen: Figure,
    /// The share used by other programs of this system, 0 to 1.
    pub others: Figure,
    /// CPU limit of this process by its control groups, in CPUs; `null` without a limit. If it is
    /// used up early, the process is throttled until the next period, which shows as gaps.
    pub quota_cpus: Option<f64>,
}

/// The OS's statement compared with the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OsView {
    /// `L1`, `L2`, `L3` as numbered by the OS; `level of 6 MiB` for one that the OS does not state.
    /// Names are unique.
    pub name: String,
    /// Bytes the system states; `null` if it states none.
    pub stated_bytes: Option<u64>,
    /// Measured bytes.
    pub found_bytes: Figure,
    /// The verdict.
    pub verdict: OsVerdict,
    /// The same in a sentence.
    pub sentence: String,
}

/// Verdict on a size stated by the OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OsVerdict {
    /// Measured as stated: the stated size is within the interval, or less than 10 % outside.
    Agrees,
    /// Less than stated is available now.
    Smaller,
    /// More than stated, up to twice as much.
    Larger,
    /// Stated, but not found.
    Unseen,
    /// Found, but not stated.
    NotStated,
    /// Undetermined: more than twice the stated size was found, or the size is among the
    /// unresolved.
    CannotTell,
}

/// Events of the chase at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsOfSize {
    /// Bytes of the chain.
    pub bytes: u64,
    /// Loads that were made.
    pub loads: u64,
    /// The counts.
    pub events: Vec<EventOfChase>,
}

/// One event of the chase at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventOfChase {
    /// Its name.
    pub event: String,
    /// Per load.
    pub per_load: Figure,
    /// Whether the count is plausible, given the loads; `null` if nothing is known about the event.
    pub plausible: Option<bool>,
    /// Reason why not; `null` if it is.
    pub doubt: Option<String>,
}

impl Curve {
    /// Passes over a size: minimum, typical and maximum. `None` without sizes.
    pub fn passes(&self) -> Option<[usize; 3]> {
        let mut passes: Vec<usize> = self.points.iter().map(|p| p.passes_ns.len()).collect();
        passes.sort_unstable();
        let middle = passes.len().checked_sub(1)? / 2;
        Some([passes[0], passes[middle], passes[passes.len() - 1]])
    }
}

impl MemoryReport {
    /// The curve behind the levels; `None` if not measured.
    pub fn main_curve(&self) -> Option<&Curve> {
        let is_main =
            |curve: &&Curve| curve.order == Order::PageLocal && curve.pages == self.pages.used;
        self.curves.iter().find(is_main)
    }
}
