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
    /// The clock that the times are from, and the processor's own.
    pub timer: Timer,
    /// Small and huge pages: offered, granted, and whether they help.
    pub pages: Pages,
    /// Time of a load over the size of the chain, a curve per order and size of page.
    pub curves: Vec<Curve>,
    /// The levels found, nearest first; the last is memory itself, which has no size.
    pub levels: Vec<MemoryLevel>,
    /// Undetermined sizes, with reasons.
    pub unresolved: Vec<Unresolved>,
    /// Two sizes closer than this ratio cannot be distinguished.
    #[serde(serialize_with = "crate::finite")]
    pub resolution: f64,
    /// The levels of the translation buffer for data, nearest first.
    pub tlb: Vec<TlbLevel>,
    /// Cost of a load, by the location of the data and of their translation: for models of a
    /// program.
    pub costs: Vec<Cost>,
    /// Times of single loads, by size of the chain.
    pub histograms: Vec<Histogram>,
    /// Number of outstanding misses of a core, per level.
    pub parallelism: Vec<Parallelism>,
    /// Bytes per second, per level.
    pub bandwidth: Vec<Bandwidth>,
    /// Time of a load in memory while others use it; empty where that was not measured.
    pub loaded: Vec<LoadedLatency>,
    /// Time that was taken away from the measuring thread.
    pub noise: Noise,
    /// The hierarchy as stated by the OS, compared with the measured one.
    pub os_view: Vec<OsView>,
    /// Events per size, with the check against the loads that are known to have been made; empty
    /// where `events_reason` says why.
    pub events: Vec<EventsOfSize>,
    /// Why no events were counted; `null` where they were.
    pub events_reason: Option<String>,
}

/// Requested duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// About 2 s: levels, and what they cost.
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
    /// The processors that bandwidth of all threads was measured on.
    pub cpus: Vec<u32>,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Bytes of the longest chain.
    pub max_bytes: u64,
    /// Why it is not longer.
    pub max_reason: String,
    /// Load average over the last minute, before and after; `null` if the OS does not report it.
    pub load_before: Option<f64>,
    /// As `load_before`, when everything was measured.
    pub load_after: Option<f64>,
    /// Stretches of time measured, each 2 ms or less, by all threads.
    pub windows: u64,
    /// Of these, the number discarded because their thread was preempted.
    pub windows_dropped: u64,
    /// Whether it was interrupted; measurements until then are valid.
    pub interrupted: bool,
}

/// The clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timer {
    /// Which counter is read: `tsc`, `cntvct`, `clock_monotonic`.
    pub source: String,
    /// Whether its rate is independent of the core clock; `null` if unknown.
    pub invariant: Option<bool>,
    /// GHz.
    pub rate_ghz: Figure,
    /// The smallest step it is seen to make, in ns: finer than this, nothing is timed.
    pub step_ns: Figure,
    /// Difference of two consecutive reads, in ns.
    pub overhead_ns: Figure,
    /// The core's clock while it measured, in GHz, by a chain of additions.
    pub core_ghz: Figure,
}

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The smallest.
    Base,
    /// Transparent huge pages, asked for by madvise(2).
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
    /// Time of a load with huge pages over that with small ones, where the translation buffer
    /// misses small ones.
    pub time_ratio: Figure,
    /// Whether they do what they are for.
    pub verdict: PagesVerdict,
    /// The verdict in a sentence, with what to do.
    pub sentence: String,
}

/// Whether huge pages do what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PagesVerdict {
    /// The buffer translates a huge page with one entry.
    Work,
    /// Granted, but the buffer holds small pieces of them: a hypervisor backs them with small ones.
    Splintered,
    /// Asked for, and not given.
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
    /// Random within a stretch of a few pages, then the next stretch, at random: the translation
    /// buffer misses once per page, so the steps are those of the caches.
    PageLocal,
    /// Random over all lines: caches and translation together.
    Random,
    /// Line after line: what prefetching makes of it.
    Sequential,
}

/// Time of a load over the size of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The order of the loads.
    pub order: Order,
    /// The pages they are in.
    pub pages: PageKind,
    /// By size, rising.
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
    /// Loads in the windows that were kept.
    pub loads: u64,
    /// The time of these, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The fastest window of each pass, in ns per load. Passes visit the sizes in another order,
    /// and other pages.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ns: Vec<f64>,
    /// Core clock in GHz with each of them; empty if unknown.
    #[serde(serialize_with = "crate::finite_all")]
    pub passes_ghz: Vec<f64>,
    /// ns per load: the minimum over passes.
    pub latency_ns: Figure,
    /// The same in cycles of the core: cycles per instruction, for the chase executes little else.
    pub cycles: Figure,
    /// Windows that were kept.
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
    /// Bytes up to which chains stay in it, that is its size as far as this program gets it now.
    pub size_bytes: Figure,
    /// ns per load that finds its data here and its translation at hand.
    pub latency_ns: Figure,
    /// The same in cycles of the core.
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
    /// Sizes it is about, in bytes, from ...
    pub from_bytes: u64,
    /// ... to.
    pub to_bytes: u64,
    /// As a word for scripts: `moved`, `too_close`, `too_small`, `too_noisy`.
    pub cause: String,
    /// The problem and the fix, in a sentence.
    pub sentence: String,
}

/// A level of the translation buffer for data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlbLevel {
    /// `L1 dTLB`, `L2 dTLB`.
    pub name: String,
    /// The pages it was measured with.
    pub pages: PageKind,
    /// Pages it holds, where the time makes a step; absent where it climbs slowly.
    pub entries: Figure,
    /// Pages at which the time begins to rise.
    pub onset: Figure,
    /// Pages at which it has risen by half.
    pub half: Figure,
    /// ns that a miss here, served by the next level, adds to a load.
    pub cost_ns: Figure,
    /// The same in cycles of the core.
    pub cost_cycles: Figure,
    /// Note for readers, in a sentence.
    pub note: Option<String>,
}

/// Location of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TlbState {
    /// At hand.
    Hit,
    /// In the second level of the buffer.
    MissL1,
    /// In the page table.
    Walk,
}

/// Cost of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The level its data are in, by name.
    pub level: String,
    /// Location of its translation.
    pub tlb: TlbState,
    /// ns until a load that depends on it can begin: an upper bound where loads overlap.
    pub ns: Figure,
    /// The same in cycles of the core.
    pub cycles: Figure,
    /// ns per load where as many overlap as the core can keep outstanding: a lower bound.
    pub overlapped_ns: Figure,
}

/// Times of single loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Bytes of the chain.
    pub bytes: u64,
    /// The level that chains of this size are in, by name; `null` where none was found.
    pub level: Option<String>,
    /// Loads timed. The bins add up to this.
    pub samples: u64,
    /// Overhead of timing, already subtracted from the bins, in ns.
    pub bias_ns: Figure,
    /// Rising, without gaps; the last takes everything above.
    pub bins: Vec<Bin>,
    /// Peaks of the distribution.
    pub modes: Vec<Mode>,
    /// ns per load by chains of 0, 1, 2, 4, ... loads: free of the timer's step.
    pub slope_ns: Figure,
}

/// A bin of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// From this many ns, these included. Below 0 where the timer's step is longer than a load.
    #[serde(serialize_with = "crate::finite")]
    pub from_ns: f64,
    /// To this many, these excluded; `null` for the last.
    pub to_ns: Option<f64>,
    /// Their number.
    pub count: u64,
}

/// A place where loads pile up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// The level with that latency; `null` where none has it.
    pub name: Option<String>,
    /// ns.
    #[serde(serialize_with = "crate::finite")]
    pub ns: f64,
    /// Precision of the position: about the timer's step; `null` in earlier records.
    pub low_ns: Option<f64>,
    /// ... to.
    pub high_ns: Option<f64>,
    /// The share of the loads, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// Time that was taken away from the measuring thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// Duration of the watch, in seconds.
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
    /// The share that other programs of this system had, 0 to 1.
    pub others: Figure,
    /// CPU limit of this process by its control groups, in CPUs; `null` without a limit. If it is
    /// used up early, the process is throttled until the next period, which shows as gaps.
    pub quota_cpus: Option<f64>,
}

/// The OS statement, compared with the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OsView {
    /// `L1`, `L2`, `L3` as numbered by the OS; `level of 6 MiB` for one that the OS does not state.
    /// Names are unique.
    pub name: String,
    /// Bytes the system states; `null` where it states none.
    pub stated_bytes: Option<u64>,
    /// Bytes that were found.
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
    /// Found as stated: the stated size is in the interval, or less than 10 % outside.
    Agrees,
    /// Less than stated is available now.
    Smaller,
    /// More than stated, up to twice as much.
    Larger,
    /// Stated, and not found.
    Unseen,
    /// Found, and not stated.
    NotStated,
    /// Undetermined: more than twice the stated size was found, or the size is among the
    /// unresolved.
    CannotTell,
}

/// Events of the chase of one size.
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

/// An event of the chase of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventOfChase {
    /// Its name.
    pub event: String,
    /// Per load.
    pub per_load: Figure,
    /// Whether the count can be true, given the loads; `null` where nothing is known of the event.
    pub plausible: Option<bool>,
    /// Why not; `null` where it can.
    pub doubt: Option<String>,
}

impl Curve {
    /// Passes over it: of the size that got fewest, of most sizes, of the size that got most.
    /// `None` without sizes.
    pub fn passes(&self) -> Option<[usize; 3]> {
        let mut passes: Vec<usize> = self.points.iter().map(|p| p.passes_ns.len()).collect();
        passes.sort_unstable();
        let middle = passes.len().checked_sub(1)? / 2;
        Some([passes[0], passes[middle], passes[passes.len() - 1]])
    }
}

impl MemoryReport {
    /// The curve that the levels are from; `None` where it was not measured.
    pub fn main_curve(&self) -> Option<&Curve> {
        let is_main =
            |curve: &&Curve| curve.order == Order::PageLocal && curve.pages == self.pages.used;
        self.curves.iter().find(is_main)
    }
}
