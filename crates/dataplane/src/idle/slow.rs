// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slow polling: each step waits up to a microsecond, and leaves the core's resources to the SMT
//! sibling meanwhile.
//!
//! Uses TPAUSE if the CPU has it (WAITPKG). Otherwise, each step executes twice as many pause
//! instructions as the step before, up to a maximum. UMWAIT is not suitable, because it monitors a
//! single cache line, and a worker waits for several rings or for an interface.

use std::hint::spin_loop;

/// Binary logarithm of the maximum number of pause instructions in one step. On Intel CPUs since
/// Skylake, a pause takes about 40 ns (Intel's optimization manual, "PAUSE latency in Skylake":
/// about 140 cycles), so 32 pauses take a little more than a microsecond. On other CPUs, they take
/// less time.
const PAUSES_LOG2_MAX: u32 = 5;

/// Waits up to a microsecond. `step` is the number of earlier steps since slow polling began.
#[inline]
pub(crate) fn wait_slowly(step: u32) {
    #[cfg(target_arch = "x86_64")]
    if x86::has_tpause() {
        return x86::pause_until_deadline();
    }
    for _ in 0..1u32 << step.min(PAUSES_LOG2_MAX) {
        spin_loop();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};
    use std::sync::OnceLock;

    /// Duration of one wait, in ticks of the timestamp counter: 1 us at 2 GHz, 0.5 us at 4 GHz.
    const TICKS: u64 = 2_000;

    /// Feature bit of WAITPKG: CPUID leaf 7, ECX bit 5 (Intel SDM, volume 2A, CPUID).
    const WAITPKG: u32 = 1 << 5;

    pub(super) fn has_tpause() -> bool {
        static HAS: OnceLock<bool> = OnceLock::new();
        *HAS.get_or_init(|| __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & WAITPKG != 0)
    }

    /// Executes TPAUSE in state C0.1, which wakes up faster than C0.2. Call only if
    /// [`has_tpause`].
    pub(super) fn pause_until_deadline() {
        // SAFETY: every x86-64 CPU has this instruction, and it does not access memory.
        let deadline = unsafe { _rdtsc() } + TICKS;
        let (low, high) = (deadline as u32, (deadline >> 32) as u32);
        // SAFETY: the caller has checked that the CPU has this instruction, which changes only
        // flags.
        unsafe {
            asm!("tpause ecx", in("ecx") 1u32, in("eax") low, in("edx") high,
                 options(nomem, nostack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_however_many_came_before() {
        [0, 1, PAUSES_LOG2_MAX, 40, u32::MAX].into_iter().for_each(wait_slowly);
        assert!(1u32.checked_shl(PAUSES_LOG2_MAX).is_some());
    }
}
