// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases to time: kernel, number of bytes, alignment, cache state, and throughput or latency.
//!
//! The case also determines which routines are timed.

use crate::memory::{PAGE_BYTES, SKEW_BYTES};
use linerate_record::kernels::{Kernel, Mix, State, Timing};
use std::fmt;

/// Sweep sizes in bytes: headers, powers of two, segments in Ethernet and jumbo frames, and
/// segments before segmentation offload.
pub const SIZES: [u32; 15] =
    [20, 40, 64, 128, 256, 512, 576, 1024, 1460, 1500, 4096, 8000, 9000, 16_384, 65_536];

/// Maximum requested size in bytes. Peers that accumulate in 32 bits are correct up to twice that
/// size.
pub const SIZE_MAX: u32 = 65_536;

/// Offsets that represent misaligned buffers: odd and even, near both ends of a line.
pub const MEAN_OFFSETS: [u32; 8] = [1, 2, 7, 14, 31, 34, 45, 63];

/// Sizes in bytes for which the mean over [`MEAN_OFFSETS`] is measured.
const MEAN_SIZES: [u32; 3] = [1460, 4096, 8000];

/// Offset of an IP packet whose Ethernet header starts at a line boundary.
const BEHIND_ETHERNET: u32 = 14;
/// Offset of a frame that is padded so that its IP header is aligned.
const ALIGNED_ETHERNET: u32 = 2;

/// Checksum sizes with timed latency: headers with and without options, and small packets.
const LATENCY_SIZES: [u32; 7] = [20, 28, 40, 52, 60, 64, 128];

/// Size in bytes at which copies to the same offset in another page are timed.
const SAME_PLACE_SIZE: u32 = 1460;

/// Sizes in bytes of headers that are summed right after they are written.
const WRITTEN_SIZES: [u32; 3] = [20, 40, 60];

/// Number of bytes per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// The same number for every call.
    Bytes(u32),
    /// Drawn from a distribution for each call.
    Mix(Mix),
}

/// Source offset from a multiple of 64, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The kernel has no source.
    None,
    /// This offset for every call.
    At(u32),
    /// The same number of calls at each of [`MEAN_OFFSETS`].
    MeanOffsets,
}

/// Destination offset within its page of 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Half a page and one cache line from the source's page offset, so that source and destination
    /// of up to 1920 bytes share no page offset.
    Apart,
    /// At the source's page offset, not counting the alignment offsets, as is typical of a packet
    /// pool with 2048- or 4096-byte slots.
    SamePlace,
}

/// One case. All participating routines are timed in the same rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Kernel to time.
    pub kernel: Kernel,
    /// Number of bytes per call.
    pub length: Length,
    /// Source alignment.
    pub source: Source,
    /// Destination offset from a multiple of 64; `None` without a destination.
    pub dst_offset: Option<u32>,
    /// Destination page offset; meaningless without a destination.
    pub placement: Placement,
    /// Whether the bytes are cached at the start of the call.
    pub state: State,
    /// Throughput of independent calls, or latency of dependent ones.
    pub timing: Timing,
}

impl Case {
    /// Returns the case of independent calls on warm data of one size, with source and destination
    /// at multiples of 64.
    pub fn aligned(kernel: Kernel, size: u32) -> Self {
        Self {
            kernel,
            length: Length::Bytes(size),
            source: if kernel == Kernel::Fill { Source::None } else { Source::At(0) },
            dst_offset: (kernel != Kernel::Checksum).then_some(0),
            placement: Placement::Apart,
            state: State::Warm,
            timing: Timing::Throughput,
        }
    }

    /// Like [`Case::aligned`], but with these source and destination offsets. Kernels without a
    /// source or destination ignore its offset.
    pub fn misaligned(kernel: Kernel, size: u32, src_offset: u32, dst_offset: u32) -> Self {
        let aligned = Self::aligned(kernel, size);
        let source = match aligned.source {
            Source::None => Source::None,
            _ => Source::At(src_offset),
        };
        Self { source, dst_offset: aligned.dst_offset.map(|_| dst_offset), ..aligned }
    }

    /// Like [`Case::aligned`], but for copies to the source's page offset in another page.
    pub fn same_place(kernel: Kernel, size: u32) -> Self {
        Self { placement: Placement::SamePlace, ..Self::aligned(kernel, size) }
    }

    /// Returns the distance from source to destination modulo 4096; `None` unless the case has
    /// both.
    pub fn page_distance(&self) -> Option<u32> {
        let Source::At(from) = self.source else { return None };
        let distance = self.dst_offset? as usize + PAGE_BYTES + self.skew() - from as usize;
        Some((distance % PAGE_BYTES) as u32)
    }

    /// Returns the destination's distance from a multiple of 4096, not counting its alignment
    /// offset.
    pub(crate) fn skew(&self) -> usize {
        match self.placement {
            Placement::Apart => SKEW_BYTES,
            Placement::SamePlace => 0,
        }
    }

    /// Returns the case that sums warm data, averaged over [`MEAN_OFFSETS`].
    pub fn mean(size: u32) -> Self {
        Self { source: Source::MeanOffsets, ..Self::aligned(Kernel::Checksum, size) }
    }

    /// Like [`Case::aligned`], but with data that has been evicted from the caches.
    pub fn cold(kernel: Kernel, size: u32) -> Self {
        Self { state: State::Cold, ..Self::aligned(kernel, size) }
    }

    /// Returns the case of packets of unpredictable length, each placed after an Ethernet header.
    pub fn mix(kernel: Kernel, mix: Mix) -> Self {
        let case = Self::misaligned(kernel, 0, BEHIND_ETHERNET, ALIGNED_ETHERNET);
        Self { length: Length::Mix(mix), ..case }
    }

    /// Returns the case for the latency of sums, each of which depends on the previous one.
    pub fn latency(size: u32) -> Self {
        let case = Self::misaligned(Kernel::Checksum, size, BEHIND_ETHERNET, 0);
        Self { timing: Timing::Latency, ..case }
    }

    /// Returns the case for the latency of a header that is written, summed, and written again with
    /// the sum.
    pub fn just_written(size: u32) -> Self {
        let case = Self::aligned(Kernel::Checksum, size);
        Self { state: State::JustWritten, timing: Timing::Latency, ..case }
    }
}

impl fmt::Display for Case {
    /// Describes the case in a few words: `checksum, 1460 bytes, src+14, warm`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Length::Bytes(bytes) => write!(f, "{}, {bytes} bytes", self.kernel)?,
            Length::Mix(mix) => write!(f, "{}, {mix}", self.kernel)?,
        }
        match self.source {
            Source::At(offset) if offset > 0 => write!(f, ", src+{offset}")?,
            Source::MeanOffsets => f.write_str(", mean of 8 offsets")?,
            Source::At(_) | Source::None => {}
        }
        if let Some(offset) = self.dst_offset.filter(|&offset| offset > 0) {
            write!(f, ", dst+{offset}")?;
        }
        if self.placement == Placement::SamePlace {
            f.write_str(", same page offset")?;
        }
        match (self.state, self.timing) {
            (State::Warm, Timing::Latency) => f.write_str(", latency"),
            (state, _) => write!(f, ", {}", state.name().replace('_', " ")),
        }
    }
}

/// Which cases to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Kernels to time.
    pub kernels: Vec<Kernel>,
    /// Sizes that replace the default sizes and mixes; empty for the defaults.
    pub sizes: Vec<u32>,
    /// Cache states to time.
    pub states: Vec<State>,
    /// Whether to select only the few cases needed for the record's summary.
    pub quick: bool,
}

impl Scope {
    /// Selects all kernels, sizes and states.
    pub fn full() -> Self {
        let (kernels, states) = (Kernel::ALL.to_vec(), State::ALL.to_vec());
        Self { kernels, sizes: Vec::new(), states, quick: false }
    }

    /// Returns the selected cases, grouped by kernel.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> =
            Kernel::ALL.into_iter().flat_map(|kernel| self.of_kernel(kernel)).collect();
        cases.retain(|case| self.kernels.contains(&case.kernel));
        cases.retain(|case| self.states.contains(&case.state));
        cases
    }

    fn of_kernel(&self, kernel: Kernel) -> Vec<Case> {
        let quick = self.quick && self.sizes.is_empty();
        let mut cases = if quick { quick_sizes(kernel) } else { self.all_sizes(kernel) };
        if self.sizes.is_empty() && kernel != Kernel::Fill {
            let of_quick = |mix: &Mix| kernel == Kernel::Checksum || *mix == Mix::Imix;
            let mixes = Mix::ALL.into_iter().filter(|mix| !quick || of_quick(mix));
            cases.extend(mixes.map(|mix| Case::mix(kernel, mix)));
        }
        if kernel == Kernel::Checksum {
            let few = |size: &&u32| !quick || [20, 40, 60, 64].contains(*size);
            let wanted = |size: &&u32| self.sizes.is_empty() || self.sizes.contains(size);
            let of = |sizes: &'static [u32]| sizes.iter().filter(few).filter(wanted).copied();
            cases.extend(of(&LATENCY_SIZES).map(Case::latency));
            cases.extend(of(&WRITTEN_SIZES).map(Case::just_written));
        }
        cases
    }

    /// Returns the cases for every size with every pair of offsets: first on warm data, then on
    /// cold data.
    fn all_sizes(&self, kernel: Kernel) -> Vec<Case> {
        let sizes = if self.sizes.is_empty() { &SIZES[..] } else { &self.sizes };
        let offsets: &[(u32, u32)] = match kernel {
            Kernel::Checksum => &[(0, 0), (BEHIND_ETHERNET, 0)],
            Kernel::Fill => &[(0, 0), (0, ALIGNED_ETHERNET)],
            Kernel::Copy | Kernel::CopyChecksum => &[
                (0, 0),
                (BEHIND_ETHERNET, 0),
                (BEHIND_ETHERNET, ALIGNED_ETHERNET),
                (0, ALIGNED_ETHERNET),
            ],
        };
        let mut cases = Vec::new();
        for &(src, dst) in offsets {
            cases.extend(sizes.iter().map(|&size| Case::misaligned(kernel, size, src, dst)));
        }
        if kernel == Kernel::Checksum {
            let mean = MEAN_SIZES.iter().filter(|size| sizes.contains(size));
            cases.extend(mean.map(|&size| Case::mean(size)));
        }
        if is_copy(kernel) && sizes.contains(&SAME_PLACE_SIZE) {
            cases.push(Case::same_place(kernel, SAME_PLACE_SIZE));
        }
        for &(src, dst) in offsets {
            let cold =
                |&size| Case { state: State::Cold, ..Case::misaligned(kernel, size, src, dst) };
            cases.extend(sizes.iter().map(cold));
        }
        cases
    }
}

fn is_copy(kernel: Kernel) -> bool {
    matches!(kernel, Kernel::Copy | Kernel::CopyChecksum)
}

fn quick_sizes(kernel: Kernel) -> Vec<Case> {
    let sizes: &[u32] = match kernel {
        Kernel::Checksum => &[20, 64, 256, 576, 1460, 4096, 9000],
        Kernel::Copy | Kernel::CopyChecksum => &[64, 256, 576, 1460, 4096],
        Kernel::Fill => &[64, 1460, 4096],
    };
    let mut cases: Vec<Case> = sizes.iter().map(|&size| Case::aligned(kernel, size)).collect();
    match kernel {
        Kernel::Checksum => cases.push(Case::mean(1460)),
        Kernel::Fill => {}
        Kernel::Copy | Kernel::CopyChecksum => {
            cases.push(Case::misaligned(kernel, 1460, BEHIND_ETHERNET, ALIGNED_ETHERNET));
            cases.push(Case::same_place(kernel, SAME_PLACE_SIZE));
        }
    }
    cases.push(Case::cold(kernel, 1460));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn distinct(cases: &[Case]) -> HashSet<Case> {
        let set: HashSet<Case> = cases.iter().copied().collect();
        assert_eq!(set.len(), cases.len(), "no case twice");
        set
    }

    #[test]
    fn the_full_sweep_has_every_size_state_offset_and_mix() {
        let cases = Scope::full().cases();
        let set = distinct(&cases);
        for kernel in Kernel::ALL {
            for size in SIZES {
                assert!(set.contains(&Case::aligned(kernel, size)), "{kernel} {size}");
                assert!(set.contains(&Case::cold(kernel, size)), "{kernel} {size}");
                let misaligned = Case::misaligned(kernel, size, 14, 0);
                assert!(set.contains(&misaligned));
                assert!(
                    kernel == Kernel::Fill
                        || set.contains(&Case { state: State::Cold, ..misaligned })
                );
            }
        }
        for kernel in [Kernel::Copy, Kernel::CopyChecksum] {
            assert!(set.contains(&Case::misaligned(kernel, 1460, 14, 2)));
            assert!(set.contains(&Case::misaligned(kernel, 1460, 0, 2)));
            assert!(set.contains(&Case::same_place(kernel, 1460)));
        }
        for mix in Mix::ALL {
            assert!(set.contains(&Case::mix(Kernel::Checksum, mix)));
        }
        for size in [1460, 4096, 8000] {
            assert!(set.contains(&Case::mean(size)));
        }
        assert_eq!(cases.iter().filter(|case| case.timing == Timing::Latency).count(), 7 + 3);
    }

    #[test]
    fn only_the_same_place_is_at_no_distance() {
        let copy = Case::misaligned(Kernel::Copy, 1460, 14, 2);
        assert_eq!(copy.page_distance(), Some(2112 + 2 - 14));
        assert_eq!(Case::aligned(Kernel::Copy, 1460).page_distance(), Some(2112));
        assert_eq!(Case::aligned(Kernel::Checksum, 1460).page_distance(), None);
        assert_eq!(Case::aligned(Kernel::Fill, 1460).page_distance(), None);
        for case in Scope::full().cases() {
            let is_same = case.placement == Placement::SamePlace;
            assert_eq!(case.page_distance() == Some(0), is_same, "{case}");
        }
    }

    #[test]
    fn quick_is_a_part_of_full_and_has_what_the_summary_needs() {
        let quick = Scope { quick: true, ..Scope::full() }.cases();
        let (set, full) = (distinct(&quick), distinct(&Scope::full().cases()));
        assert!(set.is_subset(&full));
        assert!(set.len() < full.len() / 4);
        for needed in [
            Case::aligned(Kernel::Checksum, 1460),
            Case::aligned(Kernel::Checksum, 4096),
            Case::aligned(Kernel::CopyChecksum, 1460),
            Case::aligned(Kernel::Copy, 1460),
        ] {
            assert!(set.contains(&needed), "{needed}");
        }
    }

    #[test]
    fn only_the_requested_cases() {
        let kernels = vec![Kernel::Checksum, Kernel::Fill];
        let scope = Scope { kernels, sizes: vec![60, 777], ..Scope::full() };
        let states = vec![State::Warm];
        let scope = Scope { states, ..scope };
        for quick in [false, true] {
            let cases = Scope { quick, ..scope.clone() }.cases();
            let shown: Vec<String> = cases.iter().map(Case::to_string).collect();
            let expected = [
                "checksum, 60 bytes, warm",
                "checksum, 777 bytes, warm",
                "checksum, 60 bytes, src+14, warm",
                "checksum, 777 bytes, src+14, warm",
                "checksum, 60 bytes, src+14, latency",
                "fill, 60 bytes, warm",
                "fill, 777 bytes, warm",
                "fill, 60 bytes, dst+2, warm",
                "fill, 777 bytes, dst+2, warm",
            ];
            assert_eq!(shown, expected);
        }
        let cold = Scope { states: vec![State::Cold], ..scope }.cases();
        assert!(cold.iter().all(|case| case.state == State::Cold) && cold.len() == 8);
    }
}
