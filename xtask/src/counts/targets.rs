// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets for counting instructions: their processors, compiler flags, and patterns of vector
//! instructions.

use crate::machines::{self, Machine};

/// An architecture with one of its processors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) machine: &'static Machine,
    pub(super) cpu: &'static str,
    pub(super) flags: &'static str,
    /// Prefixes of the mnemonics of vector instructions.
    pub(super) mnemonics: &'static [&'static str],
    /// Prefixes of the names of vector registers, such as `v` for `v0`.
    pub(super) registers: &'static [&'static str],
    /// Mask and value of the opcode bits that identify a vector instruction, for instructions that
    /// the emulator cannot name.
    pub(super) opcode: Option<(u32, u32)>,
}

const ALTIVEC: &[&str] = &["v", "lv", "stv", "lxv", "stxv", "xx", "mtvsr"];
const AARCH64: &[&str] = &["v", "q", "d", "s", "z", "p"];

/// Opcode pattern of SVE instructions: bits 28 to 25 are 0010 (Arm Architecture Reference Manual
/// for A-profile, C4.1).
const SVE: (u32, u32) = (0xf << 25, 0b0010 << 25);

impl Target {
    const fn powerpc(
        name: &'static str,
        machine: &'static Machine,
        cpu: &'static str,
        flags: &'static str,
    ) -> Self {
        Self { flags, mnemonics: ALTIVEC, ..Self::scalar(name, machine, cpu) }
    }

    const fn aarch64(name: &'static str, cpu: &'static str) -> Self {
        let machine = &machines::AARCH64;
        Self { registers: AARCH64, opcode: Some(SVE), ..Self::scalar(name, machine, cpu) }
    }

    const fn scalar(name: &'static str, machine: &'static Machine, cpu: &'static str) -> Self {
        let opcode = None;
        Self { name, machine, cpu, flags: "", mnemonics: &[], registers: &[], opcode }
    }

    /// Returns a tool from the target's toolchain.
    pub(super) fn tool(&self, name: &str) -> String {
        self.machine.tool(name)
    }

    /// Returns the name of the target's build directory within the common one.
    pub(super) fn folder(&self) -> String {
        self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }
}

pub(super) const G4: &str = "32-bit PowerPC (7455)";
pub(super) const A57: &str = "AArch64 (Cortex-A57)";

pub(super) const SVE_32: &str = "AArch64 (SVE, 32 bytes)";
pub(super) const SVE_64: &str = "AArch64 (SVE, 64 bytes)";

pub(super) const TARGETS: &[Target] = &[
    Target::powerpc(G4, &machines::POWERPC, "7455", "-mcpu=7450"),
    Target::powerpc("64-bit PowerPC (970)", &machines::POWERPC64, "970", ""),
    Target::powerpc("64-bit PowerPC (POWER8)", &machines::POWERPC64, "power8", ""),
    Target::powerpc("64-bit PowerPC, little-endian (POWER8)", &machines::POWERPC64LE, "power8", ""),
    Target::aarch64(A57, "cortex-a57"),
    Target::aarch64(SVE_32, "max,sve-default-vector-length=32"),
    Target::aarch64(SVE_64, "max,sve-default-vector-length=64"),
    Target {
        mnemonics: &["v"],
        ..Target::scalar("ARMv7 (Cortex-A7)", &machines::ARMHF, "cortex-a7")
    },
    Target {
        flags: "-mcpu=arm1176jzf-s",
        ..Target::scalar("ARMv6 (ARM1176)", &machines::ARMEL, "arm1176")
    },
    Target {
        registers: &["xmm", "ymm", "zmm"],
        ..Target::scalar("x86-64 (no AVX-512)", &machines::X86_64, "max")
    },
    Target::scalar("SPARC V9", &machines::SPARC64, "TI-UltraSparc-IIi"),
    Target::scalar("64-bit RISC-V", &machines::RISCV64, "rv64"),
    Target::scalar("z/Architecture", &machines::S390X, "qemu"),
];
