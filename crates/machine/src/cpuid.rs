// SPDX-License-Identifier: MIT OR Apache-2.0
//! The x86 CPUID instruction.

use std::arch::asm;

/// Registers of one CPUID leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) eax: u32,
    pub(crate) ebx: u32,
    pub(crate) ecx: u32,
    pub(crate) edx: u32,
}

/// Returns leaf `leaf`, sub-leaf 0. The values are meaningless for leaves that the processor lacks.
///
/// The standard library's wrapper is unsafe in Rust 1.85 and safe in later versions; this one
/// compiles on both without a warning.
pub(crate) fn cpuid(leaf: u32) -> Leaf {
    let (eax, ebx, ecx, edx);
    // SAFETY: CPUID exists on every x86-64 processor and touches no memory; rbx, which the compiler
    // reserves, is restored.
    unsafe {
        asm!(
            "mov {saved}, rbx",
            "cpuid",
            "xchg {saved}, rbx",
            saved = out(reg) ebx,
            inout("eax") leaf => eax,
            inout("ecx") 0 => ecx,
            out("edx") edx,
            options(nomem, nostack, preserves_flags)
        );
    }
    let ebx: u64 = ebx;
    Leaf { eax, ebx: ebx as u32, ecx, edx }
}

/// Returns whether the TSC is guaranteed to run at a constant rate in every processor state: leaf
/// 0x8000_0007, EDX bit 8 (Intel SDM volume 2A and AMD APM volume 3, CPUID, "Invariant TSC").
pub(crate) fn has_invariant_tsc() -> bool {
    cpuid(0x8000_0000).eax >= 0x8000_0007 && cpuid(0x8000_0007).edx >> 8 & 1 == 1
}

/// Returns the 12-character signature by which a hypervisor identifies itself, if any: leaf 1, ECX
/// bit 31 announces it and leaf 0x4000_0000 names it in EBX, ECX, EDX (a convention that all
/// hypervisors follow; Linux relies on it in `arch/x86/kernel/cpu/hypervisor.c`).
pub(crate) fn hypervisor_signature() -> Option<[u8; 12]> {
    if cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let Leaf { ebx, ecx, edx, .. } = cpuid(0x4000_0000);
    let mut signature = [0; 12];
    for (bytes, register) in signature.chunks_exact_mut(4).zip([ebx, ecx, edx]) {
        bytes.copy_from_slice(&register.to_le_bytes());
    }
    Some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the flags in /proc/cpuinfo, which Linux reads with the same instruction.
    #[test]
    fn agrees_with_the_flags_the_kernel_prints() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap();
        let has = |flag| flags.split_ascii_whitespace().any(|f| f == flag);
        assert_eq!(hypervisor_signature().is_some(), has("hypervisor"));
        assert_eq!(has_invariant_tsc(), has("constant_tsc") && has("nonstop_tsc"));
    }

    #[test]
    fn the_vendor_is_spelled_in_ebx_edx_ecx() {
        let Leaf { ebx, ecx, edx, .. } = cpuid(0);
        let vendor: Vec<u8> = [ebx, edx, ecx].iter().flat_map(|r| r.to_le_bytes()).collect();
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        assert!(text.contains(std::str::from_utf8(&vendor).unwrap()), "{vendor:?}");
    }
}
