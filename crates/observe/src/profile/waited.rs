// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instruction that a sampled thread was stalled on, in a form independent of the architecture.

use linerate_linux::sample::Registers;

/// The instruction that a thread was stalled on when it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) kind: Kind,
    /// A memory operand of this instruction or the next one, if its address can be computed from
    /// the sample's registers.
    pub(super) memory: Option<Memory>,
    /// Whether the instruction is a branch target or directly follows a branch, and is not in a
    /// straight loop.
    pub(super) is_behind: bool,
    /// Whether the instruction is in a loop whose back edge is the only branch.
    pub(super) is_straight: bool,
}

/// Kind of the instruction that a thread was stalled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "constructed only by the x86 decoder")
)]
pub(super) enum Kind {
    Load,
    DependentLoad,
    Store,
    /// Arithmetic that takes several cycles.
    Long,
    Simple,
    Atomic,
    Pause,
    /// Unknown: the sample is at the target of a branch, call or return.
    Branch,
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Index of the base register among a sample's registers.
    pub(super) base: Option<u8>,
    pub(super) index: Option<u8>,
    pub(super) scale: u8,
    pub(super) displacement: u64,
    /// Whether the displacement is relative to the first byte of the function.
    pub(super) is_relative: bool,
    /// Whether the address does not depend on a register.
    pub(super) is_fixed: bool,
    pub(super) bytes: u8,
    pub(super) is_read: bool,
    pub(super) is_write: bool,
}

impl Memory {
    /// Computes the address. `start` is the address of the function.
    pub(super) fn address(&self, registers: &Registers, start: u64) -> u64 {
        let value = |register: Option<u8>| register.map_or(0, |at| registers[usize::from(at)]);
        let index = value(self.index).wrapping_mul(u64::from(self.scale));
        let from = if self.is_relative { start } else { 0 };
        from.wrapping_add(self.displacement).wrapping_add(value(self.base)).wrapping_add(index)
    }
}
