// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routines of known duration, for the accuracy suite. Each does its work, spins until its time is
//! up, and accumulates the time spent.

use super::Routines;
use linerate_kernels::bench::{Role, Routine};
use linerate_machine::ticks::ticks_in_order;
use std::cell::Cell;
use std::hint::black_box;
use std::slice;

/// Duration in ticks of each call: checksum, copy, and copy with checksum. Far longer than the real
/// work takes.
const TIMES: [u64; 3] = [1500, 4000, 3000];

/// Number of dependent multiplications in a late routine; they take a few hundred cycles.
const CHAIN: u32 = 60;

thread_local! {
    static TAKEN: [Cell<u64>; 3] = const { [Cell::new(0), Cell::new(0), Cell::new(0)] };
}

/// Returns a set of routines that each take a known time per call.
pub(crate) fn routines() -> Routines {
    // SAFETY: they read and write only the given bytes, and cannot unwind.
    unsafe {
        Routines {
            name: "slowed",
            checksum: Routine::checksum_from("slowed", Role::Peer, slow_checksum),
            copy: Routine::copy_from("slowed", Role::Peer, slow_copy),
            copy_checksum: Some(Routine::copy_checksum_from("slowed", Role::Peer, slow_both)),
        }
    }
}

/// Returns routines with a late result: the core executes the code after the call while the result
/// is still being computed.
pub(crate) fn late() -> Routines {
    // SAFETY: it reads nothing and cannot unwind.
    let checksum = unsafe { Routine::checksum_from("late", Role::Peer, late_checksum) };
    Routines { name: "late", checksum, ..routines() }
}

unsafe extern "C" fn late_checksum(_: *const u8, _: usize, sum: u32) -> u32 {
    // The chain stays in a register. In memory, processors that predict store forwarding would make
    // its time depend on whether a fence separates the calls.
    let factor = black_box(0x9e37_79b1);
    (0..CHAIN).fold(sum, |sum, _| sum.wrapping_mul(factor) | 1)
}

/// Returns the total ticks that this thread has spent in checksums, copies, and copies with
/// checksum.
pub(crate) fn taken() -> [u64; 3] {
    TAKEN.with(|taken| taken.each_ref().map(Cell::get))
}

fn take<R>(which: usize, work: impl FnOnce() -> R) -> R {
    let start = ticks_in_order();
    let result = work();
    let mut now = ticks_in_order();
    while now - start < TIMES[which] {
        now = ticks_in_order();
    }
    TAKEN.with(|taken| taken[which].set(taken[which].get() + (now - start)));
    result
}

unsafe extern "C" fn slow_checksum(src: *const u8, bytes: usize, sum: u32) -> u32 {
    // SAFETY: the caller guarantees that this many bytes are readable.
    let from = unsafe { slice::from_raw_parts(src, bytes) };
    take(0, || Routines::selected().checksum.checksum(from, sum))
}

unsafe extern "C" fn slow_copy(dst: *mut u8, src: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller guarantees that this many bytes are readable and writable and do not
    // overlap.
    take(1, || unsafe { dst.copy_from_nonoverlapping(src, bytes) });
    dst
}

unsafe extern "C" fn slow_both(dst: *mut u8, src: *const u8, bytes: usize, sum: u32) -> u32 {
    // SAFETY: as in `slow_copy`.
    let (from, to) =
        unsafe { (slice::from_raw_parts(src, bytes), slice::from_raw_parts_mut(dst, bytes)) };
    let sum = || Routines::selected().copy_checksum.map(|both| both.copy_checksum(to, from, sum));
    take(2, sum).expect("the default routines include a combined copy and checksum")
}
