// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads, writes or copies a piece of memory end to end, repeatedly, with the processor's widest
//! registers.
//!
//! ```text
//! `times` times:  for each 16 registers' worth of the piece, ascending:
//!                     16 loads | 16 stores | 16 loads and 16 stores
//! ```
//!
//! The loops are in assembly where the choice of register matters. This also ensures that loads
//! whose results are unused are still executed. The stored value is nonzero because some processors
//! optimize stores of zeros.
//!
//! Non-temporal stores and string copy instructions are not used.

use linerate_record::memory::Operation;
use std::marker::PhantomData;

/// Sweep granularity in bytes: 16 of the widest registers.
pub(super) const LOT: usize = 1024;

/// Value that is stored when writing.
static PATTERN: [u64; 8] = [0x5555_5555_5555_5555; 8];

/// Part of an arena, used by one thread.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    start: *mut u8,
    bytes: usize,
    arena: PhantomData<&'a mut [u8]>,
}

// SAFETY: a piece has exclusive access to its memory, like a mutable slice; `split` ensures this.
unsafe impl Send for Piece<'_> {}

impl<'a> Piece<'a> {
    /// Takes all of `memory`, rounded down to a multiple of [`LOT`].
    pub(super) fn new(memory: &'a mut [u64]) -> Self {
        let bytes = size_of_val(memory) / LOT * LOT;
        Self { start: memory.as_mut_ptr().cast(), bytes, arena: PhantomData }
    }

    /// Splits the piece into `n` equal pieces whose length is a multiple of `grain`, which must be
    /// a multiple of [`LOT`].
    pub(super) fn split(self, n: usize, grain: usize) -> Vec<Self> {
        let bytes = self.bytes / n.max(1) / grain * grain;
        let piece = |k| Self { start: self.start.wrapping_add(k * bytes), bytes, ..self };
        (0..n).map(piece).collect()
    }

    /// Reborrows the same memory.
    pub(super) fn again(&mut self) -> Piece<'_> {
        Piece { start: self.start, bytes: self.bytes, arena: PhantomData }
    }
}

/// Sweeps over a piece of memory. Each sweep continues where the previous sweep stopped.
#[derive(Debug)]
pub(super) struct Sweeper<'a> {
    routines: Routines,
    operation: Operation,
    start: *mut u8,
    /// For copies, the distance from source to destination.
    apart: usize,
    /// Bytes per sweep: the length of the memory read or written or, for copies, of the source and
    /// of the destination. A nonzero multiple of [`LOT`].
    side: usize,
    at: usize,
    piece: PhantomData<Piece<'a>>,
}

impl<'a> Sweeper<'a> {
    /// Creates a sweeper over the first `bytes` bytes of `piece`. A copy uses one half as the
    /// source and the other half as the destination. `None` if the piece has fewer bytes, or if a
    /// sweep would be shorter than [`LOT`].
    pub(super) fn new(operation: Operation, piece: Piece<'a>, bytes: usize) -> Option<Self> {
        let (side, apart) = match operation {
            Operation::Read | Operation::Write => (bytes / LOT * LOT, 0),
            // The sides are offset by half a page because a load may stall if it follows a store to
            // the same offset in another page (4K aliasing).
            Operation::Copy => {
                let apart = bytes / 2 / LOT * LOT;
                let off = if apart % 4096 == 0 && apart > 2 * LOT { 2 * LOT } else { 0 };
                (apart - off, apart - off)
            }
        };
        let (start, fits) = (piece.start, side >= LOT && apart + side <= piece.bytes);
        let routines = Routines::widest();
        fits.then_some(Self { routines, operation, start, apart, side, at: 0, piece: PhantomData })
    }

    /// Returns the number of bytes per sweep.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// Sweeps over `lots` [`LOT`]s, at least one, and returns their number.
    pub(super) fn advance(&mut self, lots: u64) -> u64 {
        let mut left = lots.max(1);
        while left > 0 {
            let in_side = (self.side / LOT) as u64;
            let to_end = in_side - (self.at / LOT) as u64;
            let (times, stretch) = if self.at == 0 && left >= in_side {
                (left / in_side, in_side)
            } else {
                (1, to_end.min(left))
            };
            self.run(stretch as usize * LOT, times);
            left -= times * stretch;
        }
        lots.max(1)
    }

    /// Sweeps `bytes` bytes `times` times. The bytes must not extend past the end of the memory to
    /// sweep, and `times` must be nonzero.
    fn run(&mut self, bytes: usize, times: u64) {
        let from = self.start.wrapping_add(self.at);
        let to = from.wrapping_add(self.apart);
        // SAFETY: `new` ensured that both sides are within the piece, and `advance` that these
        // bytes are within the side; their number is a nonzero multiple of a lot.
        unsafe {
            match self.operation {
                Operation::Read => (self.routines.read)(from, to, bytes, times),
                Operation::Write => (self.routines.write)(from, to, bytes, times),
                Operation::Copy => (self.routines.copy)(from, to, bytes, times),
            }
        }
        self.at = (self.at + bytes) % self.side;
    }
}

/// Reads all of `memory` once, apart from the bytes after the last whole [`LOT`].
pub(super) fn read(memory: &[u64]) {
    let (start, bytes) = (memory.as_ptr().cast_mut().cast(), size_of_val(memory) / LOT * LOT);
    if bytes > 0 {
        // SAFETY: the memory is readable and `read` does not write; `bytes` is a nonzero multiple
        // of a lot.
        unsafe { (Routines::widest().read)(start, start, bytes, 1) };
    }
}

/// Reads `bytes` bytes at the first address, writes as many at the second, or does both. Repeats
/// this `times` times.
///
/// # Safety
/// The caller must have access to `bytes` bytes at both addresses, and exclusive access to those
/// that are written. `bytes` must be a multiple of [`LOT`]; `bytes` and `times` must be nonzero.
type Routine = unsafe fn(*mut u8, *mut u8, usize, u64);

#[derive(Clone, Copy, Debug)]
struct Routines {
    read: Routine,
    write: Routine,
    copy: Routine,
}

macro_rules! routines {
    ($isa:ident) => {
        Routines { read: $isa::read, write: $isa::write, copy: $isa::copy }
    };
}

impl Routines {
    #[cfg(target_arch = "x86_64")]
    fn widest() -> Self {
        if is_x86_feature_detected!("avx512f") {
            routines!(avx512)
        } else if is_x86_feature_detected!("avx") {
            routines!(avx)
        } else {
            routines!(sse)
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn widest() -> Self {
        routines!(neon)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn widest() -> Self {
        routines!(plain)
    }
}

/// Defines one routine. Each iteration consists of all `$line`s and covers `$turn` bytes.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_routine {
    ($name:ident, $turn:expr, $first:expr, $last:literal, $($line:expr),+) => {
        pub(super) unsafe fn $name(from: *mut u8, to: *mut u8, bytes: usize, times: u64) {
            // SAFETY: the caller permits reading and writing this many bytes, which amount to whole
            // iterations; no other registers or memory change.
            unsafe {
                std::arch::asm!(
                    $first,
                    "2:",
                    "mov {from}, {first_from}",
                    "mov {to}, {first_to}",
                    "3:",
                    $($line,)+
                    "add {from}, {turn}",
                    "add {to}, {turn}",
                    "cmp {from}, {end}",
                    "jb 3b",
                    "dec {times}",
                    "jnz 2b",
                    $last,
                    turn = const $turn,
                    first_from = in(reg) from,
                    first_to = in(reg) to,
                    end = in(reg) from.wrapping_add(bytes),
                    pattern = in(reg) super::PATTERN.as_ptr(),
                    from = out(reg) _,
                    to = out(reg) _,
                    times = inout(reg) times => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// Defines the load, store and copy routines, which move registers `$r` of `$width` bytes with the
/// instruction `$mov`.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_routines {
    ($isa:ident, $mov:literal, $r:literal, $width:literal, $last:literal,
        [$($i:literal $j:literal),+]) => {
        mod $isa {
            // All routines have the same operands, so each must name the pattern, if only in a
            // comment.
            x86_routine!(read, 16 * $width, "/* {pattern} */", $last,
                $(concat!($mov, " ", $r, $j, ", [{from} + ", $i, " * ", $width, "]")),+);
            x86_routine!(write, 16 * $width, concat!($mov, " ", $r, "0, [{pattern}]"), $last,
                $(concat!($mov, " [{to} + ", $i, " * ", $width, "], ", $r, "0")),+);
            x86_routine!(copy, 16 * $width, "/* {pattern} */", $last,
                $(concat!($mov, " ", $r, $j, ", [{from} + ", $i, " * ", $width, "]\n",
                    $mov, " [{to} + ", $i, " * ", $width, "], ", $r, $j)),+);
        }
    };
    ($isa:ident, $mov:literal, $r:literal, $width:literal, $last:literal) => {
        x86_routines!($isa, $mov, $r, $width, $last,
            [0 0, 1 1, 2 2, 3 3, 4 4, 5 5, 6 6, 7 7, 8 0, 9 1, 10 2, 11 3, 12 4, 13 5, 14 6, 15 7]);
    };
}

#[cfg(target_arch = "x86_64")]
x86_routines!(sse, "movups", "xmm", 16, "");
#[cfg(target_arch = "x86_64")]
x86_routines!(avx, "vmovups", "ymm", 32, "vzeroupper");
#[cfg(target_arch = "x86_64")]
x86_routines!(avx512, "vmovups", "zmm", 64, "vzeroupper");

/// Routines that use pairs of 16-byte registers.
#[cfg(target_arch = "aarch64")]
mod neon {
    macro_rules! routine {
        ($name:ident, $first:literal, $($line:literal),+) => {
            pub(super) unsafe fn $name(from: *mut u8, to: *mut u8, bytes: usize, times: u64) {
                // SAFETY: the caller permits reading and writing this many bytes, which amount to
                // whole iterations of 128 bytes; no other registers or memory change.
                unsafe {
                    std::arch::asm!(
                        $first,
                        "2:",
                        "mov {from}, {first_from}",
                        "mov {to}, {first_to}",
                        "3:",
                        $($line,)+
                        "add {from}, {from}, #128",
                        "add {to}, {to}, #128",
                        "cmp {from}, {end}",
                        "b.lo 3b",
                        "subs {times}, {times}, #1",
                        "b.ne 2b",
                        first_from = in(reg) from,
                        first_to = in(reg) to,
                        end = in(reg) from.wrapping_add(bytes),
                        pattern = in(reg) super::PATTERN.as_ptr(),
                        from = out(reg) _,
                        to = out(reg) _,
                        times = inout(reg) times => _,
                        out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                        out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                        options(nostack),
                    );
                }
            }
        };
    }

    // All routines have the same operands, so each must name the pattern, if only in a comment.
    routine!(
        read,
        "/* {pattern} */",
        "ldp q0, q1, [{from}]",
        "ldp q2, q3, [{from}, #32]",
        "ldp q4, q5, [{from}, #64]",
        "ldp q6, q7, [{from}, #96]"
    );
    routine!(
        write,
        "ldp q0, q1, [{pattern}]",
        "stp q0, q1, [{to}]",
        "stp q0, q1, [{to}, #32]",
        "stp q0, q1, [{to}, #64]",
        "stp q0, q1, [{to}, #96]"
    );
    routine!(
        copy,
        "/* {pattern} */",
        "ldp q0, q1, [{from}]",
        "stp q0, q1, [{to}]",
        "ldp q2, q3, [{from}, #32]",
        "stp q2, q3, [{to}, #32]",
        "ldp q4, q5, [{from}, #64]",
        "stp q4, q5, [{to}, #64]",
        "ldp q6, q7, [{from}, #96]",
        "stp q6, q7, [{to}, #96]"
    );
}

/// Routines that use machine words, for all other architectures.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod plain {
    const WORD: usize = size_of::<usize>();

    /// Calls `step` with the word offsets 0, 8, 16, ... in order, `times` times over.
    #[inline(always)]
    fn turns(bytes: usize, times: u64, mut step: impl FnMut(usize)) {
        for _ in 0..times {
            for at in (0..bytes / WORD).step_by(8) {
                step(at);
            }
        }
    }

    pub(super) unsafe fn read(from: *mut u8, _to: *mut u8, bytes: usize, times: u64) {
        let from = from.cast::<usize>();
        turns(bytes, times, |at| {
            for word in at..at + 8 {
                // SAFETY: the caller permits reading this many bytes, a multiple of 8 words.
                unsafe { from.add(word).read_volatile() };
            }
        });
    }

    pub(super) unsafe fn write(_from: *mut u8, to: *mut u8, bytes: usize, times: u64) {
        let to = to.cast::<usize>();
        turns(bytes, times, |at| {
            for word in at..at + 8 {
                // SAFETY: the caller permits writing this many bytes, a multiple of 8 words.
                unsafe { to.add(word).write_volatile(super::PATTERN[0] as usize) };
            }
        });
    }

    pub(super) unsafe fn copy(from: *mut u8, to: *mut u8, bytes: usize, times: u64) {
        let (from, to) = (from.cast::<usize>(), to.cast::<usize>());
        turns(bytes, times, |at| {
            for word in at..at + 8 {
                // SAFETY: the caller permits reading and writing this many bytes, multiples of 8
                // words.
                unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every set of routines that this processor supports.
    fn all() -> Vec<(&'static str, Routines)> {
        let mut all = vec![("plain", routines!(plain)), ("widest", Routines::widest())];
        #[cfg(target_arch = "x86_64")]
        {
            all.push(("sse", routines!(sse)));
            if is_x86_feature_detected!("avx") {
                all.push(("avx", routines!(avx)));
            }
        }
        all
    }

    fn memory(lots: usize) -> Vec<u64> {
        (0..(lots * LOT / 8) as u64).collect()
    }

    /// The lots immediately before and after the swept memory must remain unchanged.
    #[test]
    fn each_routine_does_as_the_reference_does() {
        for (name, routines) in all() {
            for lots in 1..5 {
                for times in [1, 3] {
                    let source = memory(lots);
                    let mut target = memory(lots + 2);
                    let within = LOT / 8..(lots + 1) * LOT / 8;
                    let from = source.as_ptr().cast_mut().cast();
                    let to = target[within.clone()].as_mut_ptr().cast();
                    let mut expected = memory(lots + 2);
                    // SAFETY: both buffers have this many bytes, no other code uses them, and
                    // `read` and `copy` do not write to the first one.
                    unsafe {
                        (routines.read)(from, to, lots * LOT, times);
                        assert_eq!(target, expected, "{name}: reading {lots} lots writes");
                        (routines.copy)(from, to, lots * LOT, times);
                        expected[within.clone()].copy_from_slice(&source);
                        assert_eq!(target, expected, "{name}: copying {lots} lots");
                        (routines.write)(from, to, lots * LOT, times);
                        expected[within].fill(PATTERN[0]);
                        assert_eq!(target, expected, "{name}: writing {lots} lots");
                    }
                    assert_eq!(source, memory(lots), "{name}: the source of {lots} lots");
                }
            }
        }
    }

    /// Counts the bytes written by inspecting the memory.
    fn written(memory: &[u64]) -> usize {
        8 * memory.iter().filter(|&&word| word == PATTERN[0]).count()
    }

    #[test]
    fn a_sweep_continues_and_wraps_around() {
        let mut memory = memory(8);
        let mut sweeper = Sweeper::new(Operation::Write, Piece::new(&mut memory), 8 * LOT).unwrap();
        assert_eq!((sweeper.advance(0), sweeper.advance(3), sweeper.at), (1, 3, 4 * LOT));
        assert_eq!((sweeper.advance(5), sweeper.at), (5, LOT), "past the end");
        assert_eq!(written(&memory), 8 * LOT);
    }

    #[test]
    fn small_pieces_are_swept_many_times() {
        let mut memory = memory(8);
        let mut sweeper = Sweeper::new(Operation::Write, Piece::new(&mut memory), 2 * LOT).unwrap();
        assert_eq!((sweeper.advance(101), sweeper.at), (101, LOT));
        assert_eq!((sweeper.advance(100), sweeper.at), (100, LOT));
        assert_eq!(written(&memory), 2 * LOT);
    }

    /// Both sides are within the given bytes and disjoint, and the distance between them is not a
    /// multiple of the page size.
    #[test]
    fn the_sides_of_a_copy_do_not_meet() {
        for lots in 2..64 {
            let mut memory = memory(64);
            let piece = Piece::new(&mut memory);
            let mut sweeper = Sweeper::new(Operation::Copy, piece, lots * LOT).unwrap();
            let (side, apart) = (sweeper.side(), sweeper.apart);
            assert!(side > 0 && side <= apart && apart + side <= lots * LOT, "{lots}");
            assert!(lots < 8 || apart % 4096 != 0, "{lots}: {apart}");
            sweeper.advance((side / LOT) as u64);
            let (from, to) = (&memory[..side / 8], &memory[apart / 8..(apart + side) / 8]);
            assert_eq!(from, to, "{lots}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for operation in [Operation::Read, Operation::Write, Operation::Copy] {
            let mut memory = memory(2);
            let mut fits =
                |bytes| Sweeper::new(operation, Piece::new(&mut memory), bytes).is_some();
            assert!(!fits(0) && !fits(LOT - 1) && !fits(4 * LOT), "{operation:?}");
            assert!(fits(2 * LOT), "{operation:?}");
        }
    }

    #[test]
    fn pieces_part_the_memory() {
        let mut memory = memory(10);
        let start = memory.as_ptr() as usize;
        let pieces = Piece::new(&mut memory).split(3, LOT);
        let at: Vec<_> = pieces.iter().map(|p| (p.start as usize - start, p.bytes)).collect();
        assert_eq!(at, [(0, 3 * LOT), (3 * LOT, 3 * LOT), (6 * LOT, 3 * LOT)]);
        assert!(Piece::new(&mut []).split(0, LOT).is_empty());
    }
}
