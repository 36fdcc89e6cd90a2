// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named routine sets, and the seam through which a stack calls them.

mod seam;

mod tally;

use crate::error::Error;
use crate::link::Checksums;
use linerate_kernels::bench::{self, Role, Routine};
use linerate_kernels::{Kernel, Sum, Variant, checksum, variants};
pub(crate) use seam::empty_call_ticks;
pub use seam::{Activity, Reading, Seam};
pub use tally::{ALIGNMENT_CLASSES, LENGTH_CLASSES, Tallies, Tally};

/// The routines of one set: checksum, copy, and optionally both combined.
#[derive(Clone, Copy, Debug)]
pub struct Routines {
    name: &'static str,
    checksum: Routine,
    copy: Routine,
    /// Routine that copies and checksums in one pass. If `None`, bytes are copied first, and the
    /// copy is then checksummed.
    copy_checksum: Option<Routine>,
}

impl Routines {
    /// Returns a kernel variant's routines if this CPU supports it.
    fn of_variant(variant: Variant) -> Option<Self> {
        Some(Self {
            name: variant.name(),
            checksum: Routine::from_variant(variant, Role::Variant, Kernel::Checksum)?,
            copy: Routine::from_variant(variant, Role::Variant, Kernel::Copy)?,
            copy_checksum: Routine::from_variant(variant, Role::Variant, Kernel::CopyChecksum),
        })
    }

    /// Returns the routines that linerate selects by default on this CPU.
    pub fn selected() -> Self {
        Self {
            name: SELECTED,
            checksum: Routine::selected(Kernel::Checksum),
            copy: Routine::selected(Kernel::Copy),
            copy_checksum: Some(Routine::selected(Kernel::CopyChecksum)),
        }
    }

    /// Returns the white paper's C checksum and copy, as separate routines.
    fn document() -> Self {
        let routines = Self::of_variant(bench::document());
        routines.expect("plain C runs everywhere")
    }

    /// Returns the white paper's C checksum routine with the C library's `memcpy`: its set "Libc".
    fn libc() -> Self {
        let memcpy = bench::bounds().find(|bound| bound.name() == "memcpy");
        let copy = memcpy.and_then(|bound| Routine::from_variant(bound, Role::Bound, Kernel::Copy));
        let copy = copy.expect("there is a C library");
        Self { name: LIBC, copy, ..Self::document() }
    }

    /// Returns routines with a deliberately wrong checksum, which is off by one carry for some
    /// inputs. For testing the checks.
    pub fn wrong_by_a_carry() -> Self {
        let routines = Self::of_variant(bench::wrong_by_a_carry());
        routines.expect("plain C runs everywhere")
    }

    /// Returns the name of the routine set.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the checksum routine.
    pub fn checksum(&self) -> Routine {
        self.checksum
    }

    /// Returns the copy routine.
    pub fn copy(&self) -> Routine {
        self.copy
    }

    /// Returns the copy-and-checksum routine, if any.
    pub fn copy_checksum(&self) -> Option<Routine> {
        self.copy_checksum
    }
}

/// Name of the set with linerate's default routines.
pub const SELECTED: &str = "selected";
/// Name of the set with the white paper's C routines.
pub const DOCUMENT: &str = "document";
/// Name of the set with the white paper's C checksum and the C library's copy.
pub const LIBC: &str = "libc";
/// Name of the set that uses the stack's own checksums.
pub const STACK: &str = "stack";
/// Name of the set without checksums, which gives an upper bound on the speedup.
pub const OFF: &str = "off";

/// A set of routines to compare, and the component that computes its checksums.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    name: &'static str,
    routines: Routines,
    checksums: Checksums,
}

impl Set {
    /// Creates a set that uses these routines for checksums and copies.
    pub fn from_routines(routines: Routines) -> Self {
        Self { name: routines.name, routines, checksums: Checksums::Routines }
    }

    /// Returns all sets supported by this CPU: the white paper's, each kernel variant starting with
    /// the simplest, the default one, the stack's own checksums, and no checksums. The last two use
    /// the default copy routine.
    pub fn all() -> Vec<Self> {
        let variants = variants().filter_map(Routines::of_variant);
        let routines = [Routines::document(), Routines::libc()].into_iter().chain(variants);
        let sets = routines.chain([Routines::selected()]).map(Self::from_routines);
        let selected = |name, checksums| Self { name, routines: Routines::selected(), checksums };
        sets.chain([selected(STACK, Checksums::Stack), selected(OFF, Checksums::Off)]).collect()
    }

    /// Returns the set with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such set, or if this CPU does not support it.
    pub fn find(name: &str) -> Result<Self, Error> {
        let all = Self::all();
        let known = || all.iter().map(|set| set.name.to_owned()).collect();
        let found = all.iter().copied().find(|set| set.name == name);
        found.ok_or_else(|| Error::Unknown {
            what: "set of routines",
            name: name.to_owned(),
            known: known(),
        })
    }

    /// Returns the name of the best set without vector instructions on this CPU: the last scalar
    /// one in the kernel table, which starts with the simplest.
    pub fn scalar() -> &'static str {
        let fit = variants().filter(|v| v.is_supported() && !v.is_vector());
        let made_for = fit.filter(|v| !["aligned", "alcg"].contains(&v.name()));
        made_for.last().map_or("portable", |variant| variant.name())
    }

    /// Returns the name used in records and on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the checksum and copy routines.
    pub fn routines(&self) -> &Routines {
        &self.routines
    }

    /// Returns which component computes the checksums when a stack runs with this set.
    pub fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// Checks every routine in the set against the specification. Covers short lengths from 0 up,
    /// lengths around typical segment sizes, many source and destination alignments, random bytes,
    /// and all ones.
    ///
    /// # Errors
    /// Returns the first difference if a routine is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let mut seam = Seam::new(self.routines);
        let found = FILLS.iter().find_map(|fill| {
            let mut bytes = vec![u8::MAX; LONGEST + 64];
            if *fill == "random" {
                fastrand::Rng::with_seed(1).fill(&mut bytes);
            }
            lengths().find_map(|length| {
                let alignments = if length < SHORT { 0..64 } else { 0..4 };
                alignments.into_iter().find_map(|at| {
                    let wrong = difference(&mut seam, &bytes[at..][..length], (at * 7) % 64)?;
                    Some(format!("{length} bytes of {fill} at offset {at}: {wrong}"))
                })
            })
        });
        let set = self.name.to_owned();
        found.map_or(Ok(()), |difference| Err(Error::WrongRoutine { set, difference }))
    }
}

const FILLS: [&str; 2] = ["random", "0xff"];

/// Longest length to check in bytes: one more than the longest segment with its TCP header.
const LONGEST: usize = 8021;

/// Lengths below this are checked at every alignment.
const SHORT: usize = 130;

fn lengths() -> impl Iterator<Item = usize> {
    let around = [536, 1448, 1460, 1480, 4096, 8000, 8020];
    (0..SHORT).chain(around.into_iter().flat_map(|length| length - 1..=length + 1))
}

/// Compares the set's routines with the specification and describes the first difference.
fn difference(seam: &mut Seam, bytes: &[u8], to: usize) -> Option<String> {
    const GUARD: u8 = 0x3c;
    let begin = 0x89ab_cdef;
    let expected = checksum::reference(bytes, Sum::from_raw(begin), checksum::BYTE_SWAP);
    let wrong = |got: u32| {
        let got = Sum::from_raw(got).finish().to_be();
        (got != expected).then(|| format!("the sum is {got:#06x}, expected {expected:#06x}"))
    };
    let mut copies = [vec![GUARD; bytes.len() + 128], vec![GUARD; bytes.len() + 128]];
    let [copy, summed] = &mut copies;
    let alone = wrong(seam.checksum(bytes, begin));
    seam.copy(&mut copy[to..][..bytes.len()], bytes);
    let both = wrong(seam.copy_checksum(&mut summed[to..][..bytes.len()], bytes, begin));
    let misplaced = copies.iter().any(|copy| {
        let (before, rest) = copy.split_at(to);
        let (middle, behind) = rest.split_at(bytes.len());
        middle != bytes || before.iter().chain(behind).any(|&byte| byte != GUARD)
    });
    let copied =
        misplaced.then(|| "the copy is wrong, or bytes around it were overwritten".to_owned());
    alone.or(both).or(copied)
}

#[expect(unsafe_code, reason = "functions with the C calling convention")]
pub(crate) mod slowed;

#[cfg(test)]
mod tests;
