// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boards without an operating system, and the images they start.

use super::super::guest;
use crate::command::{output, program, root};
use crate::fetch::{TAG, write};
use crate::machines::{self, Machine};
use std::path::{Path, PathBuf};

/// A processor on QEMU's board.
pub(super) struct Board {
    pub(super) name: &'static str,
    machine: &'static Machine,
    emulator: &'static str,
    /// Address at which the board starts execution.
    start: &'static str,
    flags: &'static [&'static str],
}

const ARM: &[&str] = &["-marm", "-mcpu=cortex-a7", "-mfloat-abi=soft", "-mno-unaligned-access"];
const AARCH64: &[&str] = &["-mgeneral-regs-only", "-mstrict-align"];

/// Two ARMv7 processors with different numbers of counters, and an AArch64 processor.
pub(super) const BOARDS: [Board; 3] = [
    arm("cortex-a7"),
    arm("cortex-a15"),
    Board {
        name: "cortex-a57",
        machine: &machines::AARCH64,
        emulator: "qemu-system-aarch64",
        start: "aarch64.S",
        flags: AARCH64,
    },
];

const fn arm(name: &'static str) -> Board {
    let machine = &machines::ARMEL;
    Board { name, machine, emulator: "qemu-system-arm", start: "arm.S", flags: ARM }
}

/// Compiler flags: no library or operating system; addresses as in the linker script.
const FLAGS: [&str; 16] = [
    "-std=c11",
    "-O2",
    "-ffreestanding",
    "-fno-pic",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Werror",
    "-nostdlib",
    "-static",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack,--no-warn-rwx-segments",
];

impl Board {
    /// Builds the image that the board starts.
    pub(super) fn build(&self) -> Result<PathBuf, String> {
        let folder = root().join("native/build/pmu");
        write(&folder.join("CACHEDIR.TAG"), TAG)?;
        let image = folder.join(self.name).with_extension("elf");
        let sources = root().join("lab/pmu");
        let mut compile = program(&self.machine.tool("gcc"), &FLAGS);
        compile.args(self.flags).arg("-T").arg(sources.join("image.ld")).arg("-o").arg(&image);
        compile.args([self.start, "programs.S", "lab.c", "programs.c"].map(|f| sources.join(f)));
        output(compile)?;
        Ok(image)
    }

    /// Returns the disassembly of the image.
    pub(super) fn disassemble(&self, image: &Path) -> Result<String, String> {
        let mut objdump = program(&self.machine.tool("objdump"), &["--disassemble"]);
        objdump.arg(image);
        Ok(String::from_utf8_lossy(&output(objdump)?).into_owned())
    }

    /// Starts the image, and returns what it wrote to its serial line. In this emulation,
    /// instructions and cycles take 1 ns each.
    pub(super) fn run(&self, image: &Path) -> Result<String, String> {
        let mut emulator = program("timeout", &["--kill-after=5", "60", self.emulator]);
        emulator.args(["-M", "virt,gic-version=2", "-cpu", self.name, "-m", "64", "-nographic"]);
        emulator.args(["-monitor", "none", "-serial", "stdio", "-nic", "none"]);
        emulator.args(["-semihosting-config", "enable=on,target=native"]);
        emulator.args(["-icount", "shift=0,sleep=off", "-kernel"]).arg(image);
        guest::run(emulator)
    }
}
