// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of routines by name, and the seam through which a stack calls them.

use crate::endpoint::Checksums;
use crate::error::Error;
use linerate_kernels::bench::{self, Role, Routine};
use linerate_kernels::{Kernel, Sum, Variant, checksum, variants};
use linerate_machine::ticks;
use std::hint::black_box;
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
    /// The routines of a variant, if it can run here.
    fn of_variant(variant: Variant) -> Option<Self> {
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
            name: SELECTED,
            checksum: Routine::selected(Kernel::Checksum),
            copy: Routine::selected(Kernel::Copy),
            copy_checksum: Some(Routine::selected(Kernel::CopyChecksum)),
        }
    }

    /// The checksum of the white paper in C, and a copy in C, one after the other.
    fn document() -> Self {
        let routines = Self::of_variant(bench::document());
        routines.expect("plain C runs everywhere")
    }

    /// The same checksum with the copy of the C library: the white paper's "Libc".
    fn libc() -> Self {
        let memcpy = bench::bounds().find(|bound| bound.name() == "memcpy");
        let copy = memcpy.and_then(|bound| Routine::of(bound, Role::Bound, Kernel::Copy));
        let copy = copy.expect("there is a C library");
        Self { name: LIBC, copy, ..Self::document() }
    }

    /// A checksum that is wrong by one carry for some octets: to check what watches over runs.
    pub fn wrong_by_a_carry() -> Self {
        let routines = Self::of_variant(bench::wrong_by_a_carry());
        routines.expect("plain C runs everywhere")
    }

    /// What the set is called that they are of.
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

    /// What copies and sums at once, if there is such a thing.
    pub fn copy_checksum(&self) -> Option<Routine> {
        self.copy_checksum
    }
}

/// What callers get who name no variant.
pub const SELECTED: &str = "selected";
/// The white paper's routines in C.
pub const DOCUMENT: &str = "document";
/// The white paper's checksum in C, and the copy of the C library.
pub const LIBC: &str = "libc";
/// The stack's own checksums.
pub const STACK: &str = "stack";
/// No checksums: the bound.
pub const OFF: &str = "off";

/// Routines, and who sums: what is compared.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    name: &'static str,
    routines: Routines,
    checksums: Checksums,
}

impl Set {
    /// Routines that sum and copy.
    pub fn of(routines: Routines) -> Self {
        Self { name: routines.name, routines, checksums: Checksums::Routines }
    }

    /// Every set that can run here: the white paper's, each variant of the kernels from the
    /// plainest up, what is selected, the stack's own checksums, and none at all. The last two
    /// copy with what is selected.
    pub fn all() -> Vec<Self> {
        let variants = variants().filter_map(Routines::of_variant);
        let routines = [Routines::document(), Routines::libc()].into_iter().chain(variants);
        let sets = routines.chain([Routines::selected()]).map(Self::of);
        let selected = |name, checksums| Self { name, routines: Routines::selected(), checksums };
        sets.chain([selected(STACK, Checksums::Stack), selected(OFF, Checksums::Off)]).collect()
    }

    /// Finds a set.
    ///
    /// # Errors
    /// There is none of that name, or it cannot run here.
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

    /// The best set without vector registers that can run here: the last one in the table of the
    /// kernels, whose order is from the plainest up, that is made for this architecture.
    pub fn scalar() -> &'static str {
        let fit = variants().filter(|v| v.is_supported() && !v.is_vector());
        let made_for = fit.filter(|v| !["aligned", "alcg"].contains(&v.name()));
        made_for.last().map_or("portable", |variant| variant.name())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What sums and copies.
    pub fn routines(&self) -> &Routines {
        &self.routines
    }

    /// Who sums.
    pub fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// Checks every routine of the set against the specification: lengths from 0 on and around
    /// those of segments, sources and destinations at many alignments, octets at random and all
    /// ones.
    ///
    /// # Errors
    /// One of them is wrong; the first difference.
    pub fn check(&self) -> Result<(), Error> {
        let mut seam = Seam::new(self.routines);
        let found = FILLS.iter().find_map(|fill| {
            let mut octets = vec![u8::MAX; LONGEST + 64];
            if *fill == "random" {
                fastrand::Rng::with_seed(1).fill(&mut octets);
            }
            lengths().find_map(|length| {
                let alignments = if length < SHORT { 0..64 } else { 0..4 };
                alignments.into_iter().find_map(|at| {
                    let wrong = seam.difference(&octets[at..][..length], (at * 7) % 64)?;
                    Some(format!("{length} octets of {fill} at offset {at}: {wrong}"))
                })
            })
        });
        let set = self.name.to_owned();
        found.map_or(Ok(()), |difference| Err(Error::WrongRoutine { set, difference }))
    }
}

const FILLS: [&str; 2] = ["random", "0xff"];

/// The longest segment with its header, and one octet more.
const LONGEST: usize = 8021;

/// Lengths below this are checked at every alignment.
const SHORT: usize = 130;

fn lengths() -> impl Iterator<Item = usize> {
    let around = [536, 1448, 1460, 1480, 4096, 8000, 8020];
    (0..SHORT).chain(around.into_iter().flat_map(|length| length - 1..=length + 1))
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
    /// Calls that were timed.
    pub timed: u64,
    /// Ticks of the timestamp counter from before each of these to after it, reading it included.
    pub ticks: u64,
    /// Calls by length.
    pub lengths: [u64; LENGTH_CLASSES],
    /// Calls by where the source begins.
    pub alignments: [u64; ALIGNMENT_CLASSES],
}

impl Tally {
    /// One call.
    pub fn count(&mut self, octets: &[u8]) {
        self.calls += 1;
        self.octets += octets.len() as u64;
        let class = (usize::BITS - octets.len().leading_zeros()) as usize;
        self.lengths[class.min(LENGTH_CLASSES - 1)] += 1;
        self.alignments[octets.as_ptr().addr() % 64 / 8] += 1;
    }

    /// One call, and what it took.
    pub fn time(&mut self, octets: &[u8], ticks: u64) {
        self.count(octets);
        self.timed += 1;
        self.ticks += ticks;
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
    /// Sums of headers, which stand alone and are inline; timed where a stack calls for them.
    pub header: Tally,
    /// Copies of headers that sum, inline, and not timed.
    pub copy_header: Tally,
}

impl Add<&Self> for Tally {
    type Output = Self;

    fn add(mut self, other: &Self) -> Self {
        self.calls += other.calls;
        self.octets += other.octets;
        self.timed += other.timed;
        self.ticks += other.ticks;
        self.lengths.iter_mut().zip(other.lengths).for_each(|(sum, count)| *sum += count);
        self.alignments.iter_mut().zip(other.alignments).for_each(|(sum, count)| *sum += count);
        self
    }
}

impl Add<&Self> for Tallies {
    type Output = Self;

    fn add(self, other: &Self) -> Self {
        Self {
            checksum: self.checksum + &other.checksum,
            copy: self.copy + &other.copy,
            copy_checksum: self.copy_checksum + &other.copy_checksum,
            header: self.header + &other.header,
            copy_header: self.copy_header + &other.copy_header,
        }
    }
}

/// The seam between a stack and a set: every call goes through here and may be watched.
#[derive(Clone, Debug)]
pub struct Seam {
    routines: Routines,
    eye: Eye,
}

/// Who looks at the calls.
#[derive(Clone, Debug)]
enum Eye {
    Nobody,
    /// What counts and times them.
    Tallies(Box<Tallies>, Reading),
    /// Another thread, which samples.
    Sampler(Arc<AtomicU8>),
}

/// What runs, as a sampler sees it: the same numbers as in `plugin.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Everything else.
    Stack,
    /// A sum that stands alone.
    Checksum,
    /// A copy.
    Copy,
    /// A copy that sums.
    CopyChecksum,
    /// What is not part of the run.
    Comparing,
}

/// How the counter is read around a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Once all that was begun before is done: what would have gone on beside the call is held up,
    /// and the call seems to take more than it does.
    Waiting,
    /// When it comes: the call may go on behind it, and seems to take less.
    Passing,
}

impl Reading {
    /// What reads: a function behind a pointer, as the plug-in wants it, and so at the same cost
    /// everywhere.
    pub(crate) fn function(self) -> extern "C" fn() -> u64 {
        extern "C" fn waiting() -> u64 {
            ticks::ticks_in_order()
        }
        extern "C" fn passing() -> u64 {
            ticks::ticks()
        }
        match self {
            Self::Waiting => waiting,
            Self::Passing => passing,
        }
    }
}

/// Ticks that are seen of a call that does nothing: what reading costs, and what filling and
/// draining the processor costs. The median, for a few calls are interrupted.
pub(crate) fn empty_call_ticks(reading: Reading) -> f64 {
    let (copy, read) = (Routines::document().copy, black_box(reading.function()));
    let one = |_| {
        let before = read();
        copy.copy(&mut [], &[]);
        read() - before
    };
    let mut all: Vec<u64> = (0..1001).map(one).collect();
    all.sort_unstable();
    all[all.len() / 2] as f64
}

impl Eye {
    /// Calls a routine under the eye of whoever looks: nobody, while sets are ranked.
    #[inline(always)]
    fn see<R>(
        &mut self,
        what: Activity,
        tally: fn(&mut Tallies) -> &mut Tally,
        octets: &[u8],
        call: impl FnOnce() -> R,
    ) -> R {
        match self {
            Self::Nobody => call(),
            _ => self.see_watched(what, tally, octets, call),
        }
    }

    /// Counts what is too short to be timed.
    #[inline(always)]
    fn count(&mut self, tally: fn(&mut Tallies) -> &mut Tally, octets: &[u8]) {
        if let Self::Tallies(tallies, _) = self {
            tally(tallies).count(octets);
        }
    }

    #[cold]
    #[inline(never)]
    fn see_watched<R>(
        &mut self,
        what: Activity,
        tally: fn(&mut Tallies) -> &mut Tally,
        octets: &[u8],
        call: impl FnOnce() -> R,
    ) -> R {
        match self {
            Self::Nobody => call(),
            Self::Tallies(tallies, reading) => {
                let read = reading.function();
                let before = read();
                let result = call();
                let ticks = read() - before;
                tally(tallies).time(octets, ticks);
                result
            }
            Self::Sampler(activity) => {
                activity.store(what as u8, Ordering::Relaxed);
                let result = call();
                activity.store(Activity::Stack as u8, Ordering::Relaxed);
                result
            }
        }
    }
}

impl Seam {
    /// A seam that is not watched.
    pub fn new(routines: Routines) -> Self {
        Self { routines, eye: Eye::Nobody }
    }

    /// Begins or ends watching.
    pub fn watch(&mut self, reading: Option<Reading>) {
        self.eye = reading.map_or(Eye::Nobody, |reading| Eye::Tallies(Box::default(), reading));
    }

    /// Begins or ends telling a sampler which routine runs.
    pub fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.eye = activity.map_or(Eye::Nobody, |activity| Eye::Sampler(Arc::clone(activity)));
    }

    /// What was seen.
    pub fn tallies(&self) -> Tallies {
        match &self.eye {
            Eye::Tallies(tallies, _) => tallies.as_ref().clone(),
            Eye::Nobody | Eye::Sampler(_) => Tallies::default(),
        }
    }

    /// Where a routine of the set differs from the specification.
    fn difference(&mut self, octets: &[u8], to: usize) -> Option<String> {
        const GUARD: u8 = 0x3c;
        let begin = 0x89ab_cdef;
        let expected = checksum::reference(octets, Sum::from_raw(begin), checksum::BYTE_SWAP);
        let wrong = |got: u32| {
            let got = Sum::from_raw(got).finish().to_be();
            (got != expected).then(|| format!("the sum is {got:#06x} and not {expected:#06x}"))
        };
        let mut copies = [vec![GUARD; octets.len() + 128], vec![GUARD; octets.len() + 128]];
        let [copy, summed] = &mut copies;
        let alone = wrong(self.checksum(octets, begin));
        self.copy(&mut copy[to..][..octets.len()], octets);
        let both = wrong(self.copy_checksum(&mut summed[to..][..octets.len()], octets, begin));
        let misplaced = copies.iter().any(|copy| {
            let (before, rest) = copy.split_at(to);
            let (middle, behind) = rest.split_at(octets.len());
            middle != octets || before.iter().chain(behind).any(|&octet| octet != GUARD)
        });
        let copied = misplaced.then(|| "the copy differs, or octets beside it".to_owned());
        alone.or(both).or(copied)
    }

    /// Adds octets to a sum.
    #[inline]
    pub fn checksum(&mut self, octets: &[u8], sum: u32) -> u32 {
        let routine = self.routines.checksum;
        let call = || routine.checksum(octets, sum);
        self.eye.see(Activity::Checksum, |t| &mut t.checksum, octets, call)
    }

    /// Copies octets.
    #[inline]
    pub fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        let routine = self.routines.copy;
        self.eye.see(Activity::Copy, |t| &mut t.copy, from, || routine.copy(to, from));
    }

    /// Copies octets and adds them to a sum; in two passes where the set has nothing for both.
    #[inline]
    pub fn copy_checksum(&mut self, to: &mut [u8], from: &[u8], sum: u32) -> u32 {
        let Some(both) = self.routines.copy_checksum else {
            self.copy(to, from);
            return self.checksum(to, sum);
        };
        let call = || both.copy_checksum(to, from, sum);
        self.eye.see(Activity::CopyChecksum, |t| &mut t.copy_checksum, from, call)
    }

    /// Adds a header to a sum: inline in every set, for it may just have been written in pieces
    /// that no wider load may straddle. Counted, not timed: to read the counter takes ten times as
    /// long.
    #[inline]
    pub fn header(&mut self, header: &[u8], sum: Sum) -> Sum {
        self.eye.count(|t| &mut t.header, header);
        checksum::header(header, sum)
    }

    /// Copies a header and adds it to a sum, inline as well.
    #[inline]
    pub fn copy_header(&mut self, to: &mut [u8], from: &[u8], sum: Sum) -> Sum {
        self.eye.count(|t| &mut t.copy_header, from);
        checksum::copy_header(to, from, sum)
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "functions as C calls them")]
pub(crate) mod slowed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_does_what_it_should() {
        for set in Set::all() {
            assert_eq!(set.check(), Ok(()), "{}", set.name());
        }
    }

    #[test]
    fn a_routine_that_is_wrong_by_a_carry_is_found() {
        let wrong = Set::of(Routines::wrong_by_a_carry()).check();
        let text = wrong.expect_err("it is wrong").to_string();
        assert!(text.contains("`wrong`") && text.contains("the sum is"), "{text}");
    }

    #[test]
    fn names_are_unique_and_found_and_others_are_listed() {
        let all = Set::all();
        for (i, set) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.name() != set.name()), "{}", set.name());
            assert_eq!(Set::find(set.name()).map(|found| found.name()), Ok(set.name()));
        }
        for name in [SELECTED, DOCUMENT, LIBC, STACK, OFF, Set::scalar()] {
            assert!(Set::find(name).is_ok(), "{name}");
        }
        let text = Set::find("mmx").expect_err("there is no such set").to_string();
        assert!(all.iter().all(|set| text.contains(set.name())), "{text}");
    }

    /// Each call that is watched is counted once, with its octets and where they lie.
    #[test]
    fn what_is_watched_is_counted() {
        let mut seam = Seam::new(Routines::document());
        let from = vec![7; 300];
        let mut to = vec![0; 300];
        seam.checksum(&from, 0);
        assert_eq!(seam.tallies(), Tallies::default(), "not watched yet");
        seam.watch(Some(Reading::Waiting));
        let at = (8 - from.as_ptr().addr() % 8) % 8;
        seam.checksum(&from[at..][..100], 0);
        seam.copy(&mut to[..3], &from[..3]);
        seam.copy_checksum(&mut to[..0], &from[..0], 0);
        let tallies = seam.tallies();
        assert_eq!((tallies.checksum.calls, tallies.checksum.octets), (2, 100), "two passes");
        assert_eq!((tallies.copy.calls, tallies.copy.octets), (2, 3));
        assert_eq!(tallies.checksum.lengths[7], 1, "64 to 127 octets");
        assert_eq!((tallies.copy.lengths[0], tallies.copy.lengths[2]), (1, 1));
        let twice = tallies.clone() + &tallies;
        assert_eq!(twice.checksum.alignments.iter().sum::<u64>(), 4);
        assert_eq!(tallies.copy_checksum, Tally::default());
        let sum = seam.header(&from[..20], Sum::ZERO);
        assert_eq!(seam.copy_header(&mut to[..40], &from[..40], Sum::ZERO), sum + sum);
        let inline = seam.tallies();
        assert_eq!((inline.header.octets, inline.copy_header.octets), (20, 40));
        assert_eq!((inline.header.timed, inline.checksum.timed), (0, inline.checksum.calls));
        assert_eq!((&inline.checksum, &inline.copy), (&tallies.checksum, &tallies.copy));
    }
}
