// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `kernels` record: the speed of every variant of every kernel (checksum, copy,
//! copy+checksum, fill), relative to a bound.
//!
//! Each [`Row`] holds the measurements of one routine in one case. A case is a combination of size
//! or size mix, offsets, cache state, and timed quantity. All routines in a case ran in the same
//! rounds, in random order.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kernel that a routine implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// Internet checksum of a buffer.
    Checksum,
    /// Copy of a buffer.
    Copy,
    /// Copy and checksum of a buffer in one pass.
    CopyChecksum,
    /// Fills a buffer with a single byte value, like memset.
    Fill,
}

impl Kernel {
    /// All kernels, in table order.
    pub const ALL: [Self; 4] = [Self::Checksum, Self::Copy, Self::CopyChecksum, Self::Fill];

    /// Returns the kernel's keyword in JSON and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Copy => "copy",
            Self::CopyChecksum => "copy_checksum",
            Self::Fill => "fill",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a routine is included in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A bound on what the machine can do: a routine that does less work than the kernel, or the
    /// system's own routine.
    Bound,
    /// The variant that callers get by default, called directly at its own address.
    Selected,
    /// Another entry point: the function that looks up the selection on each call (`dispatch`), or
    /// a checksum intended for inlining (`header`, `header_c`) but called out of line here.
    Entry,
    /// A variant of the kernel, called by name.
    Variant,
    /// A routine of another project.
    Peer,
}

/// A random sequence of sizes that branch predictors cannot learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mix {
    /// IMIX: seven sizes of 40 to 63 bytes, four of 556, one of 1460.
    #[serde(rename = "imix")]
    Imix,
    /// Uniformly distributed sizes of 20 to 1500 bytes.
    #[serde(rename = "uniform_20_1500")]
    Uniform20To1500,
    /// Uniformly distributed sizes of 20 to 256 bytes.
    #[serde(rename = "uniform_20_256")]
    Uniform20To256,
}

impl Mix {
    /// All mixes, in table order.
    pub const ALL: [Self; 3] = [Self::Imix, Self::Uniform20To1500, Self::Uniform20To256];

    /// Returns the mix's keyword in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Imix => "imix",
            Self::Uniform20To1500 => "uniform_20_1500",
            Self::Uniform20To256 => "uniform_20_256",
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where in the memory hierarchy the buffers are when the routine is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In L1 from the previous call, as far as they fit.
    Warm,
    /// In memory, not in any cache; see [`ColdState`] for how this is achieved.
    Cold,
    /// In the store buffer: a header written field by field just before the call.
    JustWritten,
}

impl State {
    /// All states, in table order.
    pub const ALL: [Self; 3] = [Self::Warm, Self::Cold, Self::JustWritten];

    /// Returns the state's keyword in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::JustWritten => "just_written",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Timed quantity: throughput or latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Throughput: consecutive calls are independent.
    Throughput,
    /// Latency: each call depends on the result of the previous one.
    Latency,
}

/// Measurements of one routine in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The kernel that the routine implements.
    pub kernel: Kernel,
    /// Name of the routine: a variant, `selected` (which calls the variant chosen for this
    /// machine), another entry point, an upper bound, or another library's routine.
    pub variant: String,
    /// Why the routine is included.
    pub role: Role,
    /// Bytes per call; `null` for a mix.
    pub size: Option<u64>,
    /// The size mix; `null` for a single size.
    pub mix: Option<Mix>,
    /// Mean bytes per call: the size, or the mean of the sizes drawn from the mix.
    #[serde(serialize_with = "crate::finite")]
    pub mean_bytes: f64,
    /// Source offset from 64-byte alignment, in bytes, 0 to 63; `null` if there is no source or if
    /// `offsets` lists the offsets.
    pub src_offset: Option<u32>,
    /// Destination offset from 64-byte alignment, in bytes, 0 to 63; `null` if there is no
    /// destination.
    pub dst_offset: Option<u32>,
    /// Distance from source to destination in bytes, modulo 4096. At 0, loads match earlier stores
    /// in the low 12 address bits (4K aliasing). `null` unless there are both a source and a
    /// destination.
    pub page_distance: Option<u32>,
    /// Source offsets over which the row is averaged; `null` for a single offset.
    pub offsets: Option<Vec<u32>>,
    /// Where in the memory hierarchy the buffers are.
    pub state: State,
    /// Timed quantity: throughput or latency.
    pub timing: Timing,
    /// Median core cycles per call over the rounds; `null` if unknown.
    pub cycles: Option<f64>,
    /// Lower end of the 95 % interval of `cycles`; `null` if undetermined.
    pub cycles_low: Option<f64>,
    /// Upper end of the 95 % interval of `cycles`; `null` if undetermined.
    pub cycles_high: Option<f64>,
    /// Median ticks of the timestamp counter per call over the rounds; `null` if not measured.
    pub ticks: Option<f64>,
    /// Lower end of the 95 % interval of `ticks`; `null` if undetermined.
    pub ticks_low: Option<f64>,
    /// Upper end of the 95 % interval of `ticks`; `null` if undetermined.
    pub ticks_high: Option<f64>,
    /// Number of rounds behind the row.
    pub n: u64,
    /// Bytes per core cycle: `mean_bytes / cycles`; `null` if `cycles` is.
    pub bytes_per_cycle: Option<f64>,
    /// Name of the fastest bound in this case; `null` if no bound was timed.
    pub bound: Option<String>,
    /// Speed relative to the bound in the same rounds: the bound's time divided by the routine's.
    /// Can exceed 1 where the bound is merely the best known routine. `null` without a bound.
    pub of_bound: Option<f64>,
    /// Lower end of the 95 % interval of `of_bound`; `null` if undetermined.
    pub of_bound_low: Option<f64>,
    /// Upper end of the 95 % interval of `of_bound`; `null` if undetermined.
    pub of_bound_high: Option<f64>,
    /// Why a value in the row is `null`; `null` if no applicable value is missing.
    pub reason: Option<String>,
}

/// Properties of one variant of the kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantReport {
    /// Variant name, one word.
    pub name: String,
    /// Required CPU features, as named in the processor manual; may be empty.
    pub isa: String,
    /// Whether the variant uses vector registers.
    pub vector: bool,
    /// Whether this build contains the variant.
    pub compiled: bool,
    /// Whether this processor and operating system can run the variant.
    pub supported: bool,
    /// Kernels for which this variant is selected on this machine.
    pub selected_for: Vec<Kernel>,
}

/// A peer: routines of another project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerReport {
    /// Name of the peer, as in `rows[].variant`.
    pub name: String,
    /// The package and its version: `smoltcp 0.14.0`.
    pub source: String,
    /// Kernels that the peer implements.
    pub kernels: Vec<Kernel>,
    /// Whether the peer could be timed.
    pub available: bool,
    /// Why the peer could not be timed, and what to do; `null` if it was timed.
    pub reason: Option<String>,
}

/// How buffers were kept out of the caches for the `cold` state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ColdState {
    /// Bytes of memory that the calls touch before a buffer is reused.
    pub footprint_bytes: u64,
    /// Distance between the starts of consecutive small buffers, in bytes; `eviction` describes
    /// larger buffers.
    pub stride_bytes: u64,
    /// How cache lines are evicted and larger buffers are laid out, in one sentence.
    pub eviction: String,
}

/// A routine that was not timed because it gave a wrong result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrongResult {
    /// The kernel that the routine should implement.
    pub kernel: Kernel,
    /// Name of the routine.
    pub variant: String,
    /// The first mismatch: length, offsets, expected and actual value.
    pub difference: String,
}

/// Measurement windows over all cases; each covers one routine in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RaceWindows {
    /// Number of windows that were timed.
    pub total: u64,
    /// Number of windows dropped because the OS counted an involuntary context switch of the thread
    /// or kept it off the CPU for more than 4 % of the window.
    pub preempted: u64,
    /// Number of windows dropped because they took more than 4 times as long as the routine's
    /// fastest window although the OS saw no preemption. A hypervisor or an interrupt may have
    /// slowed them down.
    pub dropped_as_slow: u64,
}

/// Whether huge pages back the buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugePages {
    /// Whether the OS accepted the advice to use huge pages.
    pub advised: bool,
    /// Share of the buffer memory actually backed by huge pages after all of it was written, 0 to
    /// 1; `null` if the OS does not report it.
    pub granted: Option<f64>,
    /// Why the advice was refused or `granted` is `null`; `null` otherwise.
    pub reason: Option<String>,
}

/// A requested or default part of the measurement that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Skipped item.
    pub what: String,
    /// Why it was skipped.
    pub reason: String,
}

/// Measurements of the kernels (checksum, copy, copy+checksum, fill) on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelsReport {
    /// Processor name; `null` if the processor does not report one.
    pub processor: Option<String>,
    /// Logical CPU on which everything was measured.
    pub cpu: u32,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Core cycles per tick of the timestamp counter: the median of the calibrations made between
    /// rounds.
    pub cycles_per_tick: Figure,
    /// Independent additions per core cycle: the median of the checks made between cases. An active
    /// SMT sibling reduces this value below the issue width, and with it the speeds relative to a
    /// bound, because a bound needs fewer execution units than the routine.
    pub additions_per_cycle: Figure,
    /// Minimum and maximum of `additions_per_cycle` over the checks made between cases; `null` if
    /// there were none.
    pub additions_per_cycle_range: Option<[f64; 2]>,
    /// Whether huge pages back the buffers. With small pages, cold times include TLB misses.
    pub huge_pages: HugePages,
    /// How buffers were kept out of the caches for the `cold` state; `null` if no cold case was
    /// timed.
    pub cold: Option<ColdState>,
    /// All variants, simplest first, including those that this machine cannot run.
    pub variants: Vec<VariantReport>,
    /// All peers (other projects' routines), including unavailable ones.
    pub peers: Vec<PeerReport>,
    /// Measurements, one row per routine and case.
    pub rows: Vec<Row>,
    /// Routines that gave a wrong result.
    pub wrong: Vec<WrongResult>,
    /// Parts of the measurement that were skipped, other than the routines in `wrong`.
    pub skipped: Vec<Skipped>,
    /// Numbers of measured and dropped windows.
    pub windows: RaceWindows,
    /// Seed for routine order, buffer contents and size mixes.
    pub seed: u64,
    /// Whether this was a quick run, with fewer cases and rounds.
    pub quick: bool,
    /// Whether the run was stopped early.
    pub interrupted: bool,
    /// Whether sizes were given on the command line; the printed report then shows all of them.
    #[serde(default)]
    pub sizes_named: bool,
}

impl KernelsReport {
    /// Returns the names of the selected variants, as in `summary.selected`: a single name if all
    /// kernels use the same variant, otherwise `checksum avx512vnni, copy avx2, ...`. `None` if no
    /// variant is selected.
    pub fn selected(&self) -> Option<String> {
        let of = |kernel| self.selected_for(kernel).map(|variant| (kernel, variant));
        let selected: Vec<(Kernel, &str)> = Kernel::ALL.into_iter().filter_map(of).collect();
        let (_, first) = selected.first()?;
        if selected.len() == Kernel::ALL.len() && selected.iter().all(|(_, name)| name == first) {
            return Some((*first).to_owned());
        }
        let words = selected.iter().map(|(kernel, variant)| format!("{kernel} {variant}"));
        Some(words.collect::<Vec<_>>().join(", "))
    }

    /// Returns the name of the variant selected for `kernel`; `None` if there is none.
    pub fn selected_for(&self, kernel: Kernel) -> Option<&str> {
        let selected = self.variants.iter().find(|v| v.selected_for.contains(&kernel));
        selected.map(|variant| variant.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn report(selected: &[(&str, &[Kernel])]) -> KernelsReport {
        let variant = |&(name, kernels): &(&str, &[Kernel])| VariantReport {
            name: name.to_owned(),
            isa: String::new(),
            vector: false,
            compiled: true,
            supported: true,
            selected_for: kernels.to_vec(),
        };
        KernelsReport { variants: selected.iter().map(variant).collect(), ..fixtures::kernels() }
    }

    #[test]
    fn names_are_those_of_json() {
        for kernel in Kernel::ALL {
            assert_eq!(serde_json::to_string(&kernel).unwrap(), format!("\"{kernel}\""));
        }
        for mix in Mix::ALL {
            assert_eq!(serde_json::to_string(&mix).unwrap(), format!("\"{mix}\""));
        }
        for state in State::ALL {
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{state}\""));
        }
    }

    #[test]
    fn the_selection_is_one_word_when_it_can_be() {
        use Kernel::{Checksum, Copy, CopyChecksum, Fill};
        let one = report(&[("portable", &[]), ("avx2", &Kernel::ALL)]);
        assert_eq!(one.selected().as_deref(), Some("avx2"));
        let two = report(&[("avx2", &[Copy, CopyChecksum, Fill]), ("avx512vnni", &[Checksum])]);
        assert_eq!(
            two.selected().as_deref(),
            Some("checksum avx512vnni, copy avx2, copy_checksum avx2, fill avx2")
        );
        assert_eq!(report(&[("portable", &[Fill])]).selected().as_deref(), Some("fill portable"));
        assert_eq!(report(&[("portable", &[])]).selected(), None);
    }
}
