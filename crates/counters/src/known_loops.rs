// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops with known instructions at known addresses, for testing counters and sampling.

use std::ops::Range;

/// Number of instructions per iteration of each loop; the second instruction is a branch.
pub const INSTRUCTIONS_PER_ITERATION: u64 = 2;

/// A loop. Runs the given number of iterations, and returns the address range of its instructions.
///
/// # Panics
/// Panics if the number of iterations is 0.
pub type Loop = fn(usize) -> Range<u64>;

/// Three loops that differ only in their addresses. Empty on architectures for which no loops have
/// been written.
pub const LOOPS: &[Loop] = WRITTEN;

#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "x86_64"))]
macro_rules! loops {
    ($($name:ident)*) => {
        $(
            #[inline(never)]
            fn $name(iterations: usize) -> Range<u64> {
                assert!(iterations > 0, "a loop needs at least one iteration");
                let (start, end): (usize, usize);
                // The comment makes the code of each loop unique, because the compiler may merge
                // equal functions. Loops are aligned so that an iteration takes the same time in
                // each.
                // SAFETY: changes only registers that it owns; the flags count as changed.
                unsafe {
                    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
                    std::arch::asm!(
                        concat!("/* ", stringify!($name), " */"),
                        "adr {start}, 2f",
                        "adr {end}, 3f",
                        "b 2f",
                        ".p2align 6",
                        "2: subs {count}, {count}, #1",
                        "bne 2b",
                        "3:",
                        count = inout(reg) iterations => _,
                        start = out(reg) start,
                        end = out(reg) end,
                        options(nomem, nostack),
                    );
                    #[cfg(target_arch = "x86_64")]
                    std::arch::asm!(
                        concat!("/* ", stringify!($name), " */"),
                        "lea {start}, [rip + 2f]",
                        "lea {end}, [rip + 3f]",
                        "jmp 2f",
                        ".p2align 6",
                        "2: sub {count}, 1",
                        "jne 2b",
                        "3:",
                        count = inout(reg) iterations => _,
                        start = out(reg) start,
                        end = out(reg) end,
                        options(nomem, nostack),
                    );
                }
                start as u64..end as u64
            }
        )*

        const WRITTEN: &[Loop] = &[$($name),*];
    };
}

#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "x86_64"))]
loops! { first second third }

#[cfg(not(any(target_arch = "aarch64", target_arch = "arm", target_arch = "x86_64")))]
const WRITTEN: &[Loop] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_have_addresses_of_their_own() {
        let mut bounds: Vec<Range<u64>> = LOOPS.iter().map(|one| one(1)).collect();
        assert_eq!(bounds, LOOPS.iter().map(|one| one(1000)).collect::<Vec<_>>());
        bounds.sort_by_key(|bounds| bounds.start);
        // Two instructions take 4 bytes at least and 8 at most.
        assert!(bounds.iter().all(|b| (4..=8).contains(&(b.end - b.start))), "{bounds:?}");
        assert!(bounds.windows(2).all(|pair| pair[0].end < pair[1].start), "{bounds:?}");
    }
}
