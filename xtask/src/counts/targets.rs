// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where instructions are counted: compilers, emulators, and how a vector instruction is known.

use crate::command::program;
use std::process::Stdio;

/// An architecture with one of its processors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: &'static str,
    /// What the names of the compiler and its tools begin with.
    prefix: &'static str,
    pub(super) emulator: &'static str,
    pub(super) cpu: &'static str,
    pub(super) flags: &'static str,
    /// How the names of vector instructions begin, or those of their registers before the number.
    pub(super) mnemonics: &'static [&'static str],
    pub(super) registers: &'static [&'static str],
}

const ALTIVEC: &[&str] = &["v", "lv", "stv", "lxv", "stxv", "xx", "mtvsr"];
const AARCH64: &[&str] = &["v", "q", "d", "s", "z", "p"];

impl Target {
    const fn powerpc(
        name: &'static str,
        prefix: &'static str,
        emulator: &'static str,
        cpu: &'static str,
        flags: &'static str,
    ) -> Self {
        Self { name, prefix, emulator, cpu, flags, mnemonics: ALTIVEC, registers: &[] }
    }

    const fn aarch64(name: &'static str, cpu: &'static str) -> Self {
        let (prefix, emulator) = ("aarch64-linux-gnu-", "qemu-aarch64");
        Self { name, prefix, emulator, cpu, flags: "", mnemonics: &[], registers: AARCH64 }
    }

    const fn scalar(
        name: &'static str,
        prefix: &'static str,
        emulator: &'static str,
        cpu: &'static str,
    ) -> Self {
        Self { name, prefix, emulator, cpu, flags: "", mnemonics: &[], registers: &[] }
    }

    /// One of the tools of its compiler.
    pub(super) fn tool(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Where it is built, below the folder of all.
    pub(super) fn folder(&self) -> String {
        self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }

    /// The first tool that is not here.
    pub(super) fn missing(&self) -> Option<String> {
        let tools =
            [self.tool("gcc"), self.emulator.to_owned(), "make".to_owned(), "cc".to_owned()];
        tools.into_iter().find(|tool| {
            let mut command = program(tool, &["--version"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            !command.status().is_ok_and(|status| status.success())
        })
    }
}

pub(super) const G4: &str = "PowerPC, 32 bits (7455)";
pub(super) const A57: &str = "AArch64 (Cortex-A57)";

pub(super) const TARGETS: &[Target] = &[
    Target::powerpc(G4, "powerpc-linux-gnu-", "qemu-ppc", "7455", "-mcpu=7450"),
    Target::powerpc("PowerPC, 64 bits (970)", "powerpc64-linux-gnu-", "qemu-ppc64", "970", ""),
    Target::powerpc(
        "PowerPC, 64 bits (POWER8)",
        "powerpc64-linux-gnu-",
        "qemu-ppc64",
        "power8",
        "",
    ),
    Target::powerpc(
        "PowerPC, 64 bits, little-endian (POWER8)",
        "powerpc64le-linux-gnu-",
        "qemu-ppc64le",
        "power8",
        "",
    ),
    Target::aarch64(A57, "cortex-a57"),
    Target::aarch64("AArch64 (SVE, 32 octets)", "max,sve-default-vector-length=32"),
    Target::aarch64("AArch64 (SVE, 64 octets)", "max,sve-default-vector-length=64"),
    Target {
        mnemonics: &["v"],
        ..Target::scalar("ARMv7 (Cortex-A7)", "arm-linux-gnueabihf-", "qemu-arm", "cortex-a7")
    },
    Target {
        flags: "-mcpu=arm1176jzf-s",
        ..Target::scalar("ARMv6 (ARM1176)", "arm-linux-gnueabi-", "qemu-arm", "arm1176")
    },
    Target {
        registers: &["xmm", "ymm", "zmm"],
        ..Target::scalar("x86-64 (no AVX-512)", "x86_64-linux-gnu-", "qemu-x86_64", "max")
    },
    Target::scalar("SPARC V9", "sparc64-linux-gnu-", "qemu-sparc64", "TI-UltraSparc-IIi"),
    Target::scalar("RISC-V, 64 bits", "riscv64-linux-gnu-", "qemu-riscv64", "rv64"),
    Target::scalar("z/Architecture", "s390x-linux-gnu-", "qemu-s390x", "qemu"),
];
