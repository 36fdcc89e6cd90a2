// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of routines by name, and the seam through which a stack calls them.

use linerate_kernels::bench::{Role, Routine};
use linerate_kernels::{Kernel, variants};
use linerate_machine::ticks;

/// Checksum, copy, and both at once.
#[derive(Clone, Copy, Debug)]
pub struct Routines {
    name: &'static str,
    checksum: Routine,
    copy: Routine,
    /// None: a copy, then a sum of the copy.
    copy_checksum: Option<Routine>,
}

impl Routines {
    /// The set of a variant of the kernels, if it can run here.
    fn of_variant(variant: linerate_kernels::Variant) -> Option<Self> {
        Some(Self {
            name: variant.name(),
            checksum: Routine::of(variant, Role::Variant, Kernel::Checksum)?,
            copy: Routine::of(variant, Role::Variant, Kernel::Copy)?,
            copy_checksum: Routine::of(variant, Role::Variant, Kernel::CopyChecksum),
        })
    }

    /// What callers get who name no variant.
    pub fn selected() -> Self {
        Self {
            name: "selected",
            checksum: Routine::selected(Kernel::Checksum),
            copy: Routine::selected(Kernel::Copy),
            copy_checksum: Some(Routine::selected(Kernel::CopyChecksum)),
        }
    }

    /// Every set that can run here, the plainest first, what is selected last.
    pub fn all() -> Vec<Self> {
        variants().filter_map(Self::of_variant).chain([Self::selected()]).collect()
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What sums.
    pub fn checksum(&self) -> Routine {
        self.checksum
    }

    /// What copies.
    pub fn copy(&self) -> Routine {
        self.copy
    }

    /// What copies and sums at once, if the set has it.
    pub fn copy_checksum(&self) -> Option<Routine> {
        self.copy_checksum
    }
}

/// Classes of lengths in a histogram: 0, 1, 2-3, 4-7, ..., 32768 and more.
pub const LENGTH_CLASSES: usize = 17;

/// Alignments in a histogram: addresses modulo 64 by steps of 8.
pub const ALIGNMENT_CLASSES: usize = 8;

/// What was seen of the calls of one routine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls.
    pub calls: u64,
    /// Octets in all.
    pub octets: u64,
    /// Ticks of the timestamp counter from before the call to after it, reading it included.
    pub ticks: u64,
    /// Calls by length.
    pub lengths: [u64; LENGTH_CLASSES],
    /// Calls by where the source begins.
    pub alignments: [u64; ALIGNMENT_CLASSES],
}

impl Tally {
    /// One call.
    pub fn add(&mut self, octets: &[u8], ticks: u64) {
        self.calls += 1;
        self.octets += octets.len() as u64;
        self.ticks += ticks;
        let class = (usize::BITS - octets.len().leading_zeros()) as usize;
        self.lengths[class.min(LENGTH_CLASSES - 1)] += 1;
        self.alignments[octets.as_ptr().addr() % 64 / 8] += 1;
    }
}

/// What was seen of the calls of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Sums that stand alone.
    pub checksum: Tally,
    /// Copies.
    pub copy: Tally,
    /// Copies that sum.
    pub copy_checksum: Tally,
}

/// The seam between a stack and a set: every call goes through here and may be watched.
#[derive(Clone, Debug)]
pub struct Seam {
    routines: Routines,
    tallies: Option<Box<Tallies>>,
}

impl Seam {
    /// A seam that is not watched.
    pub fn new(routines: Routines) -> Self {
        Self { routines, tallies: None }
    }

    /// Begins or ends watching.
    pub fn watch(&mut self, watch: bool) {
        self.tallies = watch.then(Box::default);
    }

    /// What was seen.
    pub fn tallies(&self) -> Tallies {
        self.tallies.as_deref().cloned().unwrap_or_default()
    }

    /// Adds octets to a sum.
    #[inline]
    pub fn checksum(&mut self, octets: &[u8], sum: u32) -> u32 {
        let Some(tallies) = &mut self.tallies else {
            return self.routines.checksum.checksum(octets, sum);
        };
        let before = ticks::ticks();
        let sum = self.routines.checksum.checksum(octets, sum);
        tallies.checksum.add(octets, ticks::ticks() - before);
        sum
    }

    /// Copies octets.
    #[inline]
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        let Some(tallies) = &mut self.tallies else {
            return self.routines.copy.copy(to, from);
        };
        let before = ticks::ticks();
        self.routines.copy.copy(to, from);
        tallies.copy.add(from, ticks::ticks() - before);
    }

    /// Copies octets and adds them to a sum; in two passes where the set has nothing for both.
    #[inline]
    pub fn copy_checksum(&mut self, to: &mut [u8], from: &[u8], sum: u32) -> u32 {
        let Some(both) = self.routines.copy_checksum else {
            self.copy(to, from);
            return self.checksum(to, sum);
        };
        let Some(tallies) = &mut self.tallies else {
            return both.copy_checksum(to, from, sum);
        };
        let before = ticks::ticks();
        let sum = both.copy_checksum(to, from, sum);
        tallies.copy_checksum.add(from, ticks::ticks() - before);
        sum
    }
}
