// SPDX-License-Identifier: MIT OR Apache-2.0
//! A few dependent loads between two clock reads, ordered with respect to the reads.
//!
//! Counter reads and loads are in one assembly block. Otherwise the compiler could move code shared
//! by several lengths, including the length dispatch, between the first read and the loads.

use linerate_linux::monotonic_ns;

/// Clock that times individual loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The processor's timestamp counter, in ticks.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Counter,
    /// clock_gettime(2), in ns. Used if no counter is readable, or if the counter's rate is not
    /// constant.
    Monotonic,
}

/// Address of an item in a chain, which holds the next item's address.
pub(super) type Address = *const *const u8;

/// Runs at least one iteration of dependent loads between two clock reads. Returns the elapsed time
/// and the last address loaded. The starting address, and every address reached from it, must be
/// readable and hold another such address.
type Timed = unsafe fn(Address, u32) -> (u64, Address);

/// Maximum loads per iteration.
pub(super) const MOST_WRITTEN: u32 = 32;

impl Clock {
    /// Returns the clock's name in a record.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Counter => "tsc",
            #[cfg(target_arch = "aarch64")]
            Self::Counter => "cntvct",
            Self::Monotonic => "clock_monotonic",
        }
    }

    /// Performs `loads` dependent loads, starting at `at`, between two clock reads. Returns the
    /// elapsed time and the final address. `loads` must be 0, a power of two, or a multiple of
    /// [`MOST_WRITTEN`].
    ///
    /// # Safety
    /// `at`, and every address that the loads reach, must hold another such address.
    #[inline(always)]
    pub(super) unsafe fn time(self, at: Address, loads: u32) -> (u64, Address) {
        let place = (u32::BITS - loads.leading_zeros()).min(MOST_WRITTEN.ilog2() + 1);
        let timed = self.by_length()[place as usize];
        // SAFETY: guaranteed by the caller.
        unsafe { timed(at, (loads / MOST_WRITTEN).max(1)) }
    }

    /// Returns the variants of the timed loop, with 0, 1, 2, 4, ... loads per iteration.
    #[inline(always)]
    fn by_length(self) -> &'static [Timed; 7] {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Counter => &[
                by_counter::<0>,
                by_counter::<1>,
                by_counter::<2>,
                by_counter::<4>,
                by_counter::<8>,
                by_counter::<16>,
                by_counter::<MOST_WRITTEN>,
            ],
            Self::Monotonic => &[
                by_clock::<0>,
                by_clock::<1>,
                by_clock::<2>,
                by_clock::<4>,
                by_clock::<8>,
                by_clock::<16>,
                by_clock::<MOST_WRITTEN>,
            ],
        }
    }

    /// Like [`time`](Self::time), but without loads.
    pub(super) fn empty(self) -> u64 {
        // SAFETY: without loads nothing is read from the address.
        unsafe { self.time(std::ptr::dangling(), 0) }.0
    }

    /// Returns the current time.
    pub(super) fn now(self) -> u64 {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Counter => linerate_machine::ticks::ticks(),
            Self::Monotonic => monotonic_ns(),
        }
    }
}

/// Implements [`Timed`] with `N` loads per iteration.
///
/// # Safety
/// The same as for [`Timed`].
#[cfg(target_arch = "x86_64")]
unsafe fn by_counter<const N: u32>(at: Address, turns: u32) -> (u64, Address) {
    let mut at = at;
    let (before, after): (u64, u64);
    // SAFETY: reads only where the caller guarantees an address, and writes nothing; LFENCE and
    // RDTSC exist on every x86-64 processor.
    unsafe {
        std::arch::asm!(
            // LFENCE waits for all earlier instructions to complete, including loads, and delays
            // all later ones.
            "lfence",
            "rdtsc",
            "lfence",
            "shl rdx, 32",
            "or rdx, rax",
            "mov {before}, rdx",
            "2:",
            ".rept {n}",
            "mov {at}, [{at}]",
            ".endr",
            "dec {turns:e}",
            "jnz 2b",
            "lfence",
            "rdtsc",
            "lfence",
            "shl rdx, 32",
            "or rax, rdx",
            n = const N,
            at = inout(reg) at,
            turns = inout(reg) turns => _,
            before = out(reg) before,
            out("rax") after,
            out("rdx") _,
            options(nostack, readonly)
        );
    }
    // Saturating: after migration, the thread may read a counter that is behind.
    (after.saturating_sub(before), at)
}

/// Implements [`Timed`] with `N` loads per iteration.
///
/// # Safety
/// The same as for [`Timed`].
#[cfg(target_arch = "aarch64")]
unsafe fn by_counter<const N: u32>(at: Address, turns: u32) -> (u64, Address) {
    let mut at = at;
    let (before, after): (u64, u64);
    // SAFETY: reads only where the caller guarantees an address, and writes nothing; Linux lets
    // programs read the counter, and both branches lead into this block.
    unsafe {
        std::arch::asm!(
            "isb",
            "mrs {before}, cntvct_el0",
            "isb",
            "2:",
            ".rept {n}",
            "ldr {at}, [{at}]",
            ".endr",
            "subs {turns:w}, {turns:w}, #1",
            "b.ne 2b",
            // ISB delays the read until the branch is resolved, and the branch waits for the load.
            "cbz {at}, 3f",
            "3:",
            "isb",
            "mrs {after}, cntvct_el0",
            "isb",
            n = const N,
            at = inout(reg) at,
            turns = inout(reg) turns => _,
            before = out(reg) before,
            after = out(reg) after,
            options(nostack, readonly)
        );
    }
    // Saturating: after migration, the thread may read a counter that is behind.
    (after.saturating_sub(before), at)
}

/// Implements [`Timed`] with `N` loads per iteration. The clock calls execute more instructions
/// than fit in the reorder window. A branch on the last address keeps the second call after the
/// loads, as far as that is possible without barriers.
///
/// # Safety
/// The same as for [`Timed`].
unsafe fn by_clock<const N: u32>(at: Address, turns: u32) -> (u64, Address) {
    let before = monotonic_ns();
    // SAFETY: guaranteed by the caller.
    let at = (0..turns).fold(at, |at, _| unsafe { loads::<N>(at) });
    if std::hint::black_box(at).is_null() {
        return (0, at);
    }
    (monotonic_ns().saturating_sub(before), at)
}

/// Performs `N` loads, each from the address loaded before.
///
/// # Safety
/// The same as for [`Timed`].
#[inline(always)]
unsafe fn loads<const N: u32>(at: Address) -> Address {
    let mut at = at;
    for _ in 0..N {
        // SAFETY: the caller guarantees that there is an address.
        at = unsafe { std::ptr::read_volatile(at) }.cast();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each item in a ring of five points to the item two places further, so n loads lead to item 2
    /// n modulo 5.
    #[test]
    fn makes_the_requested_number_of_loads() {
        let mut ring = [std::ptr::null::<u8>(); 5];
        let start = ring.as_mut_ptr();
        for (place, item) in ring.iter_mut().enumerate() {
            *item = start.wrapping_add((place + 2) % 5).cast();
        }
        let start = start.cast_const();
        for loads in [0, 1, 2, 4, 8, 16, 32, 64, 96, 1024] {
            for clock in CLOCKS {
                // SAFETY: every item of the ring holds the address of an item.
                let (_, end) = unsafe { clock.time(start, loads) };
                assert_eq!(end, start.wrapping_add(loads as usize * 2 % 5), "{loads} {clock:?}");
            }
        }
    }

    const CLOCKS: &[Clock] = &[
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Clock::Counter,
        Clock::Monotonic,
    ];

    #[test]
    fn clocks_advance() {
        for clock in CLOCKS {
            let sum: u64 = (0..1_000_000).map(|_| clock.empty()).take_while(|&t| t < 1 << 40).sum();
            assert!(sum > 0, "{clock:?}");
        }
    }
}
