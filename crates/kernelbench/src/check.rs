// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks a routine against the specification before it is timed.
//!
//! These checks do not replace the kernels' own tests (`native/check`): they cover only short
//! lengths, the default sweep sizes and their neighbours, at a few offsets, to keep a broken build
//! or a broken peer out of the comparison.

use crate::cases::SIZES;
use linerate_kernels::bench::{Role, Routine};
use linerate_kernels::{Kernel, Sum, checksum};

/// Return value of a checksum routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Sum of the bytes plus the initial sum, in native byte order.
    Sum,
    /// Like `Sum`, but only over whole 32-bit words: correct only if the length is a multiple of 4
    /// bytes.
    SumOfWords,
}

/// Source and destination offsets to check.
const OFFSETS: [(usize, usize); 6] = [(0, 0), (1, 0), (7, 2), (14, 2), (31, 45), (63, 33)];

/// Every length below this is checked, in addition to the default sweep sizes and their neighbours.
const SHORT: usize = 140;

/// Buffer size in bytes: room for the longest input at the largest offset, and for bytes after it
/// that must not change.
const ROOM: usize = 65_536 + 1 + 64 + 64;

/// Value of the guard bytes around the destination.
const GUARD: u8 = 0x3c;

/// Initial sums to check.
const SUMS: [u32; 3] = [0, 0x89ab_cdef, u32::MAX];

/// Compares a routine with the specification and describes the first difference; `None` if there is
/// none. A routine that is only a lower bound on the time is not compared where the specification
/// requires a sum: it computes no meaningful one.
pub(crate) fn difference(routine: &Routine, answer: Answer) -> Option<String> {
    let computes = routine.role() != Role::Bound;
    let copies_only = matches!(routine.kernel(), Kernel::Copy | Kernel::Fill);
    if !computes && !copies_only {
        return None;
    }
    let mut bench = Bench { source: vec![0; ROOM], destination: vec![GUARD; ROOM] };
    let mut random = fastrand::Rng::with_seed(1);
    for fill in ["random", "0xff"] {
        match fill {
            "random" => random.fill(&mut bench.source),
            _ => bench.source.fill(0xff),
        }
        let timed = SIZES.iter().flat_map(|&size| size as usize - 1..=size as usize + 1);
        let lengths = (0..SHORT).chain(timed.filter(|&bytes| bytes <= 65_536));
        for bytes in lengths.filter(|bytes| answer != Answer::SumOfWords || bytes % 4 == 0) {
            // Long inputs are checked at only two of the offsets, since the specification processes
            // just two bytes at a time.
            let offsets = if bytes < SHORT { &OFFSETS[..] } else { &OFFSETS[2..4] };
            for (turn, &(from, to)) in offsets.iter().enumerate() {
                let sum = SUMS[(bytes + turn) % SUMS.len()];
                let at = Place { bytes, from, to, sum };
                if let Some(difference) = bench.difference(routine, &at) {
                    return Some(format!(
                        "{bytes} bytes of {fill} at source offset {from}, destination offset \
                         {to}, sum {sum:#x}: {difference}"
                    ));
                }
            }
        }
    }
    None
}

struct Place {
    bytes: usize,
    from: usize,
    to: usize,
    sum: u32,
}

struct Bench {
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl Bench {
    fn difference(&mut self, routine: &Routine, at: &Place) -> Option<String> {
        if routine.kernel() == Kernel::Checksum {
            let source = &self.source[at.from..][..at.bytes];
            return wrong_sum(source, at.sum, routine.checksum(source, at.sum));
        }
        let source = &self.source[at.from..][..at.bytes];
        let destination = &mut self.destination[at.to..][..at.bytes];
        let sum = match routine.kernel() {
            Kernel::Copy => {
                routine.copy(destination, source);
                None
            }
            Kernel::CopyChecksum => Some(routine.copy_checksum(destination, source, at.sum)),
            Kernel::Checksum | Kernel::Fill => {
                routine.fill(destination, crate::contest::FILL);
                None
            }
        };
        let filled = vec![crate::contest::FILL; if sum.is_none() { at.bytes } else { 0 }];
        let expected = if routine.kernel() == Kernel::Fill { &filled } else { source };
        if let Some(index) = first_difference(destination, expected) {
            let (got, expected) = (destination[index], expected[index]);
            return Some(format!("byte {index} is {got:#04x}, expected {expected:#04x}"));
        }
        destination.fill(GUARD);
        let (before, behind) = (at.to.saturating_sub(64)..at.to, at.to + at.bytes..);
        let beside = [&self.destination[before], &self.destination[behind][..64]].concat();
        if beside.iter().any(|&byte| byte != GUARD) {
            return Some("bytes outside the destination were written".to_owned());
        }
        sum.and_then(|got| wrong_sum(source, at.sum, got))
    }
}

/// Returns the index of the first difference. Single bytes are compared only if the slices differ,
/// because comparing whole slices is fast.
fn first_difference(got: &[u8], expected: &[u8]) -> Option<usize> {
    if got == expected {
        return None;
    }
    got.iter().zip(expected).position(|(got, expected)| got != expected)
}

/// Returns the complement of the folded sum, in native byte order.
fn reference(bytes: &[u8], sum: u32) -> u16 {
    checksum::reference(bytes, Sum::from_raw(sum), cfg!(target_endian = "big"))
}

/// Describes a wrong sum; `None` if it is right. Sums are folded before the comparison. 0 and
/// 0xffff are both zero in ones' complement, and peers differ in which one they return.
fn wrong_sum(bytes: &[u8], sum: u32, got: u32) -> Option<String> {
    let expected = u32::from(!reference(bytes, sum));
    let same = expected % 0xffff == got % 0xffff && (expected == 0) == (got == 0);
    (!same).then(|| format!("the sum is {got:#x}, but should fold to {expected:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineup::{Filter, lineup};
    use linerate_record::kernels::Kernel as Recorded;

    #[test]
    fn all_that_can_be_timed_here_is_right() {
        for kernel in Recorded::ALL {
            for (routine, answer) in lineup(kernel, &Filter::All) {
                assert_eq!(difference(&routine, answer), None, "{kernel} {}", routine.name());
            }
        }
    }

    #[test]
    fn wrong_routines_are_found_out() {
        for (routine, answer, words) in crate::peers::faulty() {
            let difference = difference(&routine, answer).expect(words);
            assert!(difference.contains(words), "{difference}");
        }
    }
}
