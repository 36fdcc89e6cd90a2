// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes programs that raise SIGILL on purpose from those with an instruction that the
//! emulator lacks.
//!
//! The plug-in keeps the last instruction that was translated. `__builtin_trap` and aborts compile
//! to an instruction that is defined to be invalid, and after `kill` with SIGILL the last
//! instruction is a system call. Neither is missing in the emulator.

/// Returns whether an instruction in a program that runs on `emulator` raises SIGILL on every
/// processor, or is a system call. `bytes` are its bytes in memory. `false` for SPARC emulators,
/// for which no such instructions are listed.
pub(super) fn is_meant(emulator: &str, bytes: &[u8]) -> bool {
    let big = |at: usize, size: usize| number(bytes.get(at..at + size), false);
    let little = |at: usize, size: usize| number(bytes.get(at..at + size), true);
    match emulator {
        // ud2, ud0, ud1 (also as clang encodes it), syscall, sysenter, int 0x80
        "qemu-x86_64" | "qemu-i386" => {
            matches!(
                bytes,
                [0x0f, 0x0b | 0xff | 0xb9 | 0x05 | 0x34, ..]
                    | [0x67, 0x0f, 0xb9, ..]
                    | [0xcd, 0x80, ..]
            )
        }
        "qemu-aarch64" => little(0, 4).is_some_and(|word| {
            let (udf, svc) = (word >> 16 == 0, word & 0xffe0_001f == 0xd400_0001);
            udf || svc
        }),
        "qemu-arm" => is_arm(little(0, 4), [little(0, 2), little(2, 2)]),
        // Code is little-endian in BE8 programs, and big-endian in older ones.
        "qemu-armeb" => {
            is_arm(little(0, 4), [little(0, 2), little(2, 2)])
                || is_arm(big(0, 4), [big(0, 2), big(2, 2)])
        }
        "qemu-ppc" | "qemu-ppc64" => big(0, 4).is_some_and(is_power),
        "qemu-ppc64le" => little(0, 4).is_some_and(is_power),
        // unimp, in both of its forms, and ecall
        "qemu-riscv32" | "qemu-riscv64" => {
            little(0, 2) == Some(0) || matches!(little(0, 4), Some(0xc000_1073 | 0x73))
        }
        // svc, and the invalid operation code 0, to which __builtin_trap jumps
        "qemu-s390x" => matches!(bytes, [0x0a | 0, ..]),
        _ => false,
    }
}

/// Returns whether an instruction is an A32 udf or svc with any condition, a 16-bit T32 udf or svc,
/// or a 32-bit T32 udf.
fn is_arm(word: Option<u32>, [first, second]: [Option<u32>; 2]) -> bool {
    let is_a32 = word.is_some_and(|word| {
        word & 0x0ff0_00f0 == 0x07f0_00f0 || word & 0x0f00_0000 == 0x0f00_0000 && word >> 28 != 15
    });
    let is_short = first.is_some_and(|half| matches!(half >> 8, 0xde | 0xdf));
    let is_wide = first.is_some_and(|half| half & 0xfff0 == 0xf7f0)
        && second.is_some_and(|half| half & 0xf000 == 0xa000);
    is_a32 || is_short || is_wide
}

/// Returns whether a word is a trap of POWER: `sc`, or an instruction with primary opcode 0, which
/// is reserved as illegal.
fn is_power(word: u32) -> bool {
    word >> 26 == 0 || word & !0xfe0 == 0x4400_0002
}

/// Returns the number in these bytes; `None` if there are none.
fn number(bytes: Option<&[u8]>, is_little: bool) -> Option<u32> {
    let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
    bytes.map(|bytes| match is_little {
        true => bytes.iter().rev().fold(0, add),
        false => bytes.iter().fold(0, add),
    })
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn traps_and_system_calls_are_not_missing_instructions() {
        for (emulator, meant) in [
            ("qemu-x86_64", &[&[0x0f, 0x0b][..], &[0x0f, 0x05], &[0x67, 0x0f, 0xb9, 0x40]][..]),
            ("qemu-i386", &[&[0xcd, 0x80], &[0x0f, 0x34]]),
            ("qemu-aarch64", &[&[0, 0, 0, 0], &[0x01, 0, 0, 0xd4]]),
            ("qemu-arm", &[&[0xf0, 0, 0xf0, 0xe7], &[0, 0, 0, 0xef], &[0xff, 0xde], &[0, 0xdf]]),
            ("qemu-arm", &[&[0xf0, 0xf7, 0, 0xa0]]),
            ("qemu-armeb", &[&[0xe7, 0xf0, 0, 0xf0], &[0xf0, 0, 0xf0, 0xe7]]),
            ("qemu-ppc", &[&[0x44, 0, 0, 0x02], &[0, 0, 0, 0]]),
            ("qemu-ppc64le", &[&[0x02, 0, 0, 0x44]]),
            ("qemu-riscv64", &[&[0, 0], &[0x73, 0x10, 0, 0xc0], &[0x73, 0, 0, 0]]),
            ("qemu-s390x", &[&[0x0a, 0x25], &[0, 1]]),
        ] {
            for bytes in meant {
                assert!(is_meant(emulator, bytes), "{emulator}: {bytes:x?}");
            }
        }
    }

    #[test]
    fn other_instructions_may_be_missing() {
        for (emulator, bytes) in [
            // vpxorq zmm, sha256rnds2, and a mov
            ("qemu-x86_64", &[0x62, 0xf1, 0xfd, 0x48][..]),
            ("qemu-x86_64", &[0x0f, 0x38, 0xcb, 0xc8]),
            ("qemu-x86_64", &[0x0f]),
            // sqrdmlah and brk
            ("qemu-aarch64", &[0x20, 0x84, 0x42, 0x2e]),
            ("qemu-aarch64", &[0, 0, 0x20, 0xd4]),
            // vfma, and an unconditional coprocessor instruction
            ("qemu-arm", &[0x10, 0x0c, 0x42, 0xf2]),
            ("qemu-arm", &[0, 0, 0, 0xff]),
            ("qemu-ppc", &[0x10, 0, 0, 0x02]),
            ("qemu-riscv64", &[0x57, 0x70, 0x05, 0]),
            ("qemu-sparc64", &[0, 0, 0, 0]),
            ("qemu-arm", &[]),
        ] {
            assert!(!is_meant(emulator, bytes), "{emulator}: {bytes:x?}");
        }
    }
}
