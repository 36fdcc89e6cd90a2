// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulated architectures, with the compiler and emulator for each. Processors and flags are
//! defined by the callers.

use crate::command::program;
use std::path::Path;
use std::process::Stdio;

/// Tools for an architecture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Prefix of the compiler and its tools.
    prefix: &'static str,
    pub(crate) emulator: &'static str,
}

const fn machine(prefix: &'static str, emulator: &'static str) -> Machine {
    Machine { prefix, emulator }
}

/// ARM without a floating-point unit.
pub(crate) const ARMEL: Machine = machine("arm-linux-gnueabi-", "qemu-arm");
/// ARM from ARMv7 on.
pub(crate) const ARMHF: Machine = machine("arm-linux-gnueabihf-", "qemu-arm");
pub(crate) const AARCH64: Machine = machine("aarch64-linux-gnu-", "qemu-aarch64");
pub(crate) const SPARC64: Machine = machine("sparc64-linux-gnu-", "qemu-sparc64");
pub(crate) const S390X: Machine = machine("s390x-linux-gnu-", "qemu-s390x");
pub(crate) const RISCV64: Machine = machine("riscv64-linux-gnu-", "qemu-riscv64");
pub(crate) const POWERPC: Machine = machine("powerpc-linux-gnu-", "qemu-ppc");
pub(crate) const POWERPC64: Machine = machine("powerpc64-linux-gnu-", "qemu-ppc64");
pub(crate) const POWERPC64LE: Machine = machine("powerpc64le-linux-gnu-", "qemu-ppc64le");
pub(crate) const X86_64: Machine = machine("x86_64-linux-gnu-", "qemu-x86_64");

impl Machine {
    /// Returns a tool from the architecture's compiler toolchain.
    pub(crate) fn tool(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns Debian's library directory for a foreign architecture.
    pub(crate) fn libraries(&self) -> String {
        format!("/usr/{}", self.prefix.trim_end_matches('-'))
    }

    /// Returns the missing tool that prevents building or running for the architecture, and the
    /// Debian package that provides it; `None` if nothing is missing.
    pub(crate) fn missing(&self) -> Option<String> {
        let gcc = self.tool("gcc");
        let package = format!("gcc-{}", self.prefix.trim_end_matches('-').replace('_', "-"));
        let absent = [gcc.as_str(), self.emulator, "make"].into_iter().find(|name| {
            let mut command = program(name, &["--version"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            !command.status().is_ok_and(|status| status.success())
        });
        if let Some(name) = absent {
            let package = match name {
                "make" => "make",
                name if name == self.emulator => "qemu-user",
                _ => &package,
            };
            return Some(format!("{name} is not installed: install {package}"));
        }
        let library = program(&gcc, &["-print-file-name=libc.a"]).output().ok()?;
        // If gcc does not find the file, it prints the bare name instead of a path.
        let library = String::from_utf8_lossy(&library.stdout).trim().to_owned();
        (!Path::new(&library).is_absolute()).then(|| {
            format!("no C library for {gcc} to link: install the package that {package} recommends")
        })
    }
}
