// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `kernels` record: speed of every variant of every kernel, with its bound.
//!
//! One [`Row`] is one routine in one case: a size or a mix of sizes, offsets, a state of the
//! caches, and the timed quantity. All routines of a case ran in the same rounds, in random order.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kernel of the routines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// The Internet checksum of a buffer.
    Checksum,
    /// A copy.
    Copy,
    /// A copy with a checksum in one pass.
    CopyChecksum,
    /// A buffer set to one value.
    Fill,
}

impl Kernel {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Checksum, Self::Copy, Self::CopyChecksum, Self::Fill];

    /// The word for it, in JSON and on command lines.
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

/// Why a routine was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Does less than the kernel or is the system's own, and so shows what the machine allows.
    Bound,
    /// The default for callers that do not name a variant, by its own address.
    Selected,
    /// Another way in: the function that looks up what is selected at each call (`dispatch`), and
    /// sums made to be inlined (`header`, `header_c`), here behind a call like everything else.
    Entry,
    /// One variant, called by name.
    Variant,
    /// Another project's routine.
    Peer,
}

/// A random sequence of sizes that no branch predictor learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mix {
    /// Seven of 40 to 63 bytes, four of 556, one of 1460.
    #[serde(rename = "imix")]
    Imix,
    /// Any from 20 to 1500 bytes, alike often.
    #[serde(rename = "uniform_20_1500")]
    Uniform20To1500,
    /// Any from 20 to 256 bytes, alike often.
    #[serde(rename = "uniform_20_256")]
    Uniform20To256,
}

impl Mix {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Imix, Self::Uniform20To1500, Self::Uniform20To256];

    /// The word for it in JSON.
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

/// Cache state of the bytes at the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In the first-level cache as far as they fit, from the call before.
    Warm,
    /// In memory, as [`ColdState`] defines.
    Cold,
    /// In the store buffer: a header that was written field by field just before the call.
    JustWritten,
}

impl State {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Warm, Self::Cold, Self::JustWritten];

    /// The word for it in JSON.
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

/// Meaning of the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Calls that do not wait for each other.
    Throughput,
    /// Each call needs the result of the one before.
    Latency,
}

/// One routine in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The kernel.
    pub kernel: Kernel,
    /// The routine: a variant, `selected`, another way in, a bound or a peer, by name.
    pub variant: String,
    /// Why it was timed.
    pub role: Role,
    /// Bytes per call; `null` for a mix.
    pub size: Option<u64>,
    /// The mix; `null` for a size.
    pub mix: Option<Mix>,
    /// Bytes per call on average: the size, or the mean of the mix as drawn.
    #[serde(serialize_with = "crate::finite")]
    pub mean_bytes: f64,
    /// Offset of the source from a multiple of 64, in bytes, 0 to 63; `null` if there is no source,
    /// or `offsets` has them.
    pub src_offset: Option<u32>,
    /// Offset of the destination in a line; `null` if there is none.
    pub dst_offset: Option<u32>,
    /// Distance from source to destination, modulo 4096: 0 if both are at the same page offset, so
    /// that loads match earlier stores in the last 12 address bits; `null` without both.
    pub page_distance: Option<u32>,
    /// The source offsets that the row is the mean of; `null` where `src_offset` has the only one.
    pub offsets: Option<Vec<u32>>,
    /// Cache state of the bytes.
    pub state: State,
    /// Meaning of the time.
    pub timing: Timing,
    /// Core cycles per call: the median over the rounds.
    pub cycles: Option<f64>,
    /// Lower end of the 95 % interval of `cycles`.
    pub cycles_low: Option<f64>,
    /// Upper end of the 95 % interval of `cycles`.
    pub cycles_high: Option<f64>,
    /// Ticks of the timestamp counter per call: the median over the rounds.
    pub ticks: Option<f64>,
    /// Lower end of the 95 % interval of `ticks`.
    pub ticks_low: Option<f64>,
    /// Upper end of the 95 % interval of `ticks`.
    pub ticks_high: Option<f64>,
    /// Rounds that the row rests on.
    pub n: u64,
    /// Bytes per core cycle: `mean_bytes / cycles`.
    pub bytes_per_cycle: Option<f64>,
    /// The bound that was fastest in this case; `null` when none was timed.
    pub bound: Option<String>,
    /// The speed as a share of the bound's in the same rounds: the bound's time over this time.
    /// May exceed 1 where the bound is only the best routine known.
    pub of_bound: Option<f64>,
    /// Lower end of the 95 % interval of `of_bound`.
    pub of_bound_low: Option<f64>,
    /// Upper end of the 95 % interval of `of_bound`.
    pub of_bound_high: Option<f64>,
    /// Why a number above is `null`; `null` when all are there that can be.
    pub reason: Option<String>,
}

/// One variant of the kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantReport {
    /// One word.
    pub name: String,
    /// Required CPU features, as named in the manual; empty if none.
    pub isa: String,
    /// Whether it touches vector registers.
    pub vector: bool,
    /// Whether this build holds it.
    pub compiled: bool,
    /// Whether this processor and its operating system can run it.
    pub supported: bool,
    /// The kernels that are taken from it when no variant is named.
    pub selected_for: Vec<Kernel>,
}

/// Routines of other projects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerReport {
    /// As in `rows[].variant`.
    pub name: String,
    /// The package and its version: `smoltcp 0.14.0`.
    pub source: String,
    /// Its capabilities.
    pub kernels: Vec<Kernel>,
    /// Whether it could be timed.
    pub available: bool,
    /// Why not, and what to do to have it; `null` when it could.
    pub reason: Option<String>,
}

/// Meaning of `cold` in this record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ColdState {
    /// Bytes of memory that the calls walk through before they come back to the same buffer.
    pub footprint_bytes: u64,
    /// Bytes from the start of one buffer to the start of the next, for buffers that fit.
    pub stride_bytes: u64,
    /// How the lines were evicted, and the layout of longer buffers, in a sentence.
    pub eviction: String,
}

/// A routine whose result was not that of the reference. It was not timed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrongResult {
    /// The expected behaviour.
    pub kernel: Kernel,
    /// The routine.
    pub variant: String,
    /// The first difference: length, offsets, expected and actual value.
    pub difference: String,
}

/// Measuring windows of all cases, one per routine and round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RaceWindows {
    /// Windows that were timed.
    pub total: u64,
    /// Windows dropped because the kernel counted an involuntary switch of the thread in them, or
    /// gave it a CPU for less than 96 % of their time.
    pub preempted: u64,
    /// Windows dropped because they took more than 4 times the routine's fastest, though the kernel
    /// saw no reason: whatever slowed them down, a hypervisor or an interrupt, was not seen.
    pub dropped_as_slow: u64,
}

/// Pages of the buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugePages {
    /// Whether the kernel took the advice to use huge pages.
    pub advised: bool,
    /// The share of the buffers' bytes in huge pages after all had been written; `null` if the
    /// kernel does not report it.
    pub granted: Option<f64>,
    /// Why the advice was refused or `granted` is `null`; `null` if neither.
    pub reason: Option<String>,
}

/// A requested or usual part that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// The part.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// The kernels of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelsReport {
    /// The processor's name; `null` when it does not say.
    pub processor: Option<String>,
    /// The logical processor everything ran on.
    pub cpu: u32,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Core cycles per tick, the median of the calibrations taken between the rounds.
    pub cycles_per_tick: Figure,
    /// Independent additions the core did per cycle, the median over the looks taken between the
    /// cases: fewer than it has units for while another hardware thread uses them. Shares of a
    /// bound depend on it, for a bound needs fewer units than what it bounds.
    pub additions_per_cycle: Figure,
    /// The least and the most of those looks; `null` if there is none.
    pub additions_per_cycle_range: Option<[f64; 2]>,
    /// Pages of the buffers: with small pages, cold times include TLB misses.
    pub huge_pages: HugePages,
    /// Meaning of `cold`; `null` if nothing cold was timed.
    pub cold: Option<ColdState>,
    /// The variants, from the plainest up, those that cannot run here included.
    pub variants: Vec<VariantReport>,
    /// The peers, including unavailable ones.
    pub peers: Vec<PeerReport>,
    /// Every case of every routine.
    pub rows: Vec<Row>,
    /// Routines that do not do what they should.
    pub wrong: Vec<WrongResult>,
    /// Other parts left out.
    pub skipped: Vec<Skipped>,
    /// Measuring windows.
    pub windows: RaceWindows,
    /// The seed of the order of routines, of the contents of buffers and of the mixes.
    pub seed: u64,
    /// Whether this was the short form, of fewer cases and rounds.
    pub quick: bool,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Whether sizes were named on the command line: then the report shows all of them.
    #[serde(default)]
    pub sizes_named: bool,
}

impl KernelsReport {
    /// Which variant each kernel is taken from, as `summary.selected` has it: one name if all are
    /// the same, otherwise `checksum avx512vnni, copy avx2, ...`; `None` if no variant is selected.
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

    /// The variant that `kernel` is taken from when none is named.
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
