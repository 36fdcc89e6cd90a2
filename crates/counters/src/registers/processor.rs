// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads this processor's PMU registers with the routines in `arm.S` and `aarch64.S`. On other
//! architectures, no module makes PMU registers accessible.

use super::Bank;
use linerate_linux::{monotonic_ns, switches};

/// Access to the PMU registers of the calling thread's CPU.
#[derive(Debug)]
pub(crate) struct Processor(());

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(include_str!("aarch64.S"));
#[cfg(target_arch = "arm")]
std::arch::global_asm!(include_str!("arm.S"));

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
unsafe extern "C" {
    fn lr_registers_read(count: *mut usize, counter: usize) -> i32;
    static lr_registers_begin: u8;
    static lr_registers_end: u8;
    static lr_registers_closed: u8;
}

impl Processor {
    /// Opens the CPU's PMU registers for reading. The error states why reading would be unsafe.
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    pub(crate) fn new() -> Result<Self, String> {
        use linerate_linux::illegal;
        if illegal::is_held_back() {
            let why = "this thread blocks SIGILL, and would be killed if access were revoked";
            return Err(why.to_owned());
        }
        let stretch = illegal::Stretch {
            begin: &raw const lr_registers_begin as usize,
            end: &raw const lr_registers_end as usize,
            resume: &raw const lr_registers_closed as usize,
        };
        // SAFETY: the assembly keeps nothing on the stack and changes no register that the code at
        // `lr_registers_closed` needs.
        unsafe { illegal::recover(stretch) }.map_err(|error| format!("SIGILL: {error}"))?;
        Ok(Self(()))
    }

    #[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
    pub(crate) fn new() -> Result<Self, String> {
        Err(format!("programs built for {} cannot read the PMU registers", std::env::consts::ARCH))
    }
}

impl Bank for Processor {
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    #[inline]
    fn counter(&self, number: u32) -> Option<u64> {
        let mut count = 0usize;
        // SAFETY: `count` is valid for writes, and a read of a closed register is survived: `new`
        // installed the recovery.
        let is_read = unsafe { lr_registers_read(&raw mut count, number as usize) };
        (is_read == 1).then_some(count as u64)
    }

    #[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
    fn counter(&self, _: u32) -> Option<u64> {
        None
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn switches(&self) -> u64 {
        switches()
    }
}
