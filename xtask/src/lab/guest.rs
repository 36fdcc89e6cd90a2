// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest: a distribution kernel and a few programs on an emulated board.
//!
//! Time and counts in a guest depend only on the instructions that it executes. QEMU advances the
//! clock by 1 ns per instruction (`-icount shift=0`) and skips idle time (`sleep=off`). Nothing
//! from outside reaches the guest: it has no network, a fixed date, no random seed and no address
//! randomization. Two runs with the same files yield exactly the same counts.
//!
//! The guest runs a plan of commands and exits. The commands' output comes back over its console,
//! framed by `lab/init`.

use super::Obstacle;
use super::packages::Package;
use crate::command::{finish, output, program, root};
use crate::fetch::write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An architecture's name in the kernel's build system, and the prefix of its tools.
#[derive(Clone, Copy)]
pub(crate) struct Toolchain {
    pub(crate) architecture: &'static str,
    pub(crate) prefix: &'static str,
}

impl Toolchain {
    /// Returns the settings for a kernel makefile.
    pub(crate) fn settings(&self) -> [String; 2] {
        let Self { architecture, prefix } = self;
        [format!("ARCH={architecture}"), format!("CROSS_COMPILE={prefix}")]
    }
}

/// An emulated board with its processor and software.
pub(crate) struct Guest {
    /// Name of the guest, as in `cargo xtask lab NAME`.
    pub(crate) name: &'static str,
    /// The guest's target triple.
    pub(crate) triple: &'static str,
    /// Emulator command.
    pub(crate) emulator: &'static str,
    pub(crate) board: &'static str,
    pub(crate) processor: &'static str,
    pub(crate) kernel: Package,
    pub(crate) busybox: Package,
    /// `compatible` property for the device tree node `pmu`, if QEMU leaves that node empty.
    pub(crate) counters: Option<&'static str>,
    /// Linux's name for the PMU.
    pub(crate) pmu: &'static str,
    /// Whether the kernel lets user mode read the counters.
    pub(crate) has_user_reads: bool,
    /// Tools that build modules for the guest.
    pub(crate) toolchain: Toolchain,
    /// Whether several processors can be emulated while instructions are counted. The emulator then
    /// runs the processors in turn. A kernel that waits for another processor must therefore
    /// execute `yield`, otherwise it waits until its time slice ends, which takes minutes for each
    /// module that is unloaded.
    pub(crate) yields: bool,
    /// Vector variant that the kernels' Linux port must check in this guest; `None` if the port is
    /// not loaded there.
    pub(crate) port: Option<&'static str>,
}

/// Changes to a board's default configuration.
#[derive(Clone, Copy)]
pub(crate) struct Variation {
    pub(crate) processors: u32,
    /// Properties to append to the processor's name.
    pub(crate) properties: &'static str,
    /// Whether to add the PMU to the device tree if QEMU's device tree does not describe it.
    pub(crate) names_counters: bool,
    /// Whether to derive time from the instruction count, which also makes the emulator count
    /// instructions.
    pub(crate) is_exact: bool,
}

pub(crate) const PLAIN: Variation =
    Variation { processors: 1, properties: "", names_counters: true, is_exact: true };

/// A command to run in a guest, with a name that identifies its answer.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) command: String,
}

/// Result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) status: i32,
    /// Standard output of the command.
    pub(crate) output: String,
    /// Standard error of the command.
    pub(crate) errors: String,
}

/// Time limit for a guest, longer than any plan takes on a loaded machine. A guest that hangs is
/// killed.
const LIMIT_S: &str = "480";

/// Guest memory. 64 MiB would suffice for the programs; the kernel and its page table need more.
const MEMORY_MIB: &str = "256";

/// Kernel arguments: only requested output on the console; exit if the kernel panics; no address
/// randomization of the kernel or of programs.
const KERNEL_ARGUMENTS: &str = "console=ttyAMA0 quiet loglevel=1 panic=-1 nokaslr norandmaps";

/// Returns the device tree cells, in hexadecimal, of the PMU interrupt on QEMU's board: private
/// interrupt 7, level high, for this many CPUs (`VIRTUAL_PMU_IRQ` in QEMU's include/hw/arm/virt.h;
/// cells as in Linux's arm,gic.yaml).
fn counters_interrupt(processors: u32) -> [String; 3] {
    let every_processor = (1 << processors) - 1;
    ["1".to_owned(), "7".to_owned(), format!("{:x}", every_processor << 8 | 4)]
}

impl Guest {
    /// Runs the plan in the guest, and returns one answer per question. `prefix` is the directory
    /// with the unpacked packages; `programs` are copied to the guest's /bin.
    pub(crate) fn ask(
        &self,
        prefix: &Path,
        programs: &[PathBuf],
        plan: &[Question],
    ) -> Result<Vec<Answer>, Obstacle> {
        self.ask_varied(prefix, programs, plan, &PLAIN)
    }

    /// Like [`Guest::ask`], on a modified board.
    pub(crate) fn ask_varied(
        &self,
        prefix: &Path,
        programs: &[PathBuf],
        plan: &[Question],
        how: &Variation,
    ) -> Result<Vec<Answer>, Obstacle> {
        let initrd = self.pack(prefix, programs, plan)?;
        let mut emulator = self.emulator(&[], how);
        if let Some(compatible) = self.counters.filter(|_| how.names_counters) {
            emulator.arg("-dtb").arg(self.device_tree(prefix, compatible, how)?);
        }
        emulator.arg("-kernel").arg(kernel(prefix)?).arg("-initrd").arg(initrd);
        emulator.args(["-append", KERNEL_ARGUMENTS]);
        let console = run(emulator)?;
        let log = prefix.with_extension("log");
        write(&log, &console)?;
        answers(&console, plan).map_err(|why| {
            Obstacle::Failed(format!("{}: {why}; console log: {}", self.name, log.display()))
        })
    }

    /// Returns the emulator command with the board; `machine` adds properties to the board.
    fn emulator(&self, machine: &[&str], how: &Variation) -> Command {
        let board = [&[self.board], machine].concat().join(",");
        let mut command = program("timeout", &["--kill-after=5", LIMIT_S, self.emulator]);
        let processor = format!("{}{}", self.processor, how.properties);
        command.args(["-M", &board, "-cpu", &processor, "-m", MEMORY_MIB]);
        command.args(["-smp", &how.processors.to_string()]);
        command.args(["-nographic", "-monitor", "none", "-serial", "stdio", "-nic", "none"]);
        command.args(["-no-reboot", "-rtc", "base=2026-01-01,clock=vm"]);
        if how.is_exact {
            command.args(["-icount", "shift=0,sleep=off"]);
        }
        command
    }

    /// Builds the board's device tree with its counters described, as a real board's firmware
    /// would.
    fn device_tree(
        &self,
        prefix: &Path,
        compatible: &str,
        how: &Variation,
    ) -> Result<PathBuf, Obstacle> {
        let tree = prefix.with_extension("dtb");
        let path = tree.to_str().ok_or("the path of the repository is not UTF-8".to_owned())?;
        output(self.emulator(&[&format!("dumpdtb={path}")], how))?;
        output(program("fdtput", &["-t", "s", path, "/pmu", "compatible", compatible]))?;
        let mut interrupt = program("fdtput", &["-t", "x", path, "/pmu", "interrupts"]);
        interrupt.args(counters_interrupt(how.processors));
        output(interrupt)?;
        Ok(tree)
    }

    /// Packs the initramfs, which the kernel unpacks into its memory.
    fn pack(
        &self,
        prefix: &Path,
        programs: &[PathBuf],
        plan: &[Question],
    ) -> Result<PathBuf, Obstacle> {
        let at = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| format!("{path}: {error}")
        };
        let folder = prefix.with_extension("initrd");
        let _ = fs::remove_dir_all(&folder);
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).map_err(at(&bin))?;
        let busybox = prefix.join("bin/busybox");
        for file in programs.iter().chain([&busybox]) {
            let name = file.file_name().expect("a program has a name");
            fs::copy(file, bin.join(name)).map_err(at(file))?;
        }
        let init = root().join("lab/init");
        fs::copy(&init, folder.join("init")).map_err(at(&init))?;
        write(&folder.join("plan"), &written(plan))?;
        Ok(archive(&folder)?)
    }
}

/// Packs a directory into an archive next to it.
pub(crate) fn archive(folder: &Path) -> Result<PathBuf, String> {
    let archive = folder.with_extension("cpio");
    let mut pack = program("sh", &["-c", PACK, "sh"]);
    pack.arg(&archive).current_dir(folder);
    output(pack)?;
    Ok(archive)
}

/// Command that packs a directory reproducibly, with sorted names, fixed IDs and owners, and no
/// times, so that nothing that differs between two machines can reach the guest.
const PACK: &str = "find . -exec touch -h -d @0 {} + && find . -mindepth 1 | LC_ALL=C sort |
    cpio --quiet --reproducible -R 0:0 -H newc -o > \"$1\"";

/// Formats the plan as `lab/init` reads it.
fn written(plan: &[Question]) -> String {
    plan.iter().map(|Question { name, command }| format!("run {name} {command}\n")).collect()
}

/// Returns the kernel image, whatever its version.
pub(crate) fn kernel(prefix: &Path) -> Result<PathBuf, String> {
    let boot = prefix.join("boot");
    let entries = fs::read_dir(&boot).map_err(|error| format!("{}: {error}", boot.display()))?;
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinu"))
    };
    let found = entries.flatten().map(|entry| entry.path()).find(is_kernel);
    found.ok_or_else(|| format!("{} has no kernel", boot.display()))
}

/// Runs the emulator and returns what the guest wrote to its console.
pub(crate) fn run(emulator: Command) -> Result<String, String> {
    let ended = finish(emulator)?;
    match ended.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&ended.stdout).replace('\r', "")),
        Some(124 | 137) => Err(format!("the guest did not end within {LIMIT_S} s")),
        _ => Err(format!("the emulator ended with {}", ended.status)),
    }
}

/// Extracts the answers from the console text, one per question.
pub(crate) fn answers(console: &str, plan: &[Question]) -> Result<Vec<Answer>, String> {
    let mut found = Vec::new();
    let mut answer = Answer::default();
    for line in console.lines() {
        if let Some(name) = line.strip_prefix("@begin ") {
            answer = Answer { name: name.to_owned(), ..Answer::default() };
        } else if let Some(end) = line.strip_prefix("@end ") {
            let (name, status) = end.split_once(' ').unwrap_or((end, ""));
            answer.status = status.parse().map_err(|_| format!("`{line}` has no status"))?;
            if name == answer.name {
                found.push(std::mem::take(&mut answer));
            }
        } else if let Some(error) = line.strip_prefix("! ") {
            answer.errors.push_str(error);
            answer.errors.push('\n');
        } else {
            answer.output.push_str(line);
            answer.output.push('\n');
        }
    }
    let unanswered = plan.iter().find(|question| found.iter().all(|a| a.name != question.name));
    match unanswered {
        Some(question) => Err(format!("no answer to `{}`", question.name)),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Question, answers, written};

    fn plan(names: &[&str]) -> Vec<Question> {
        let question =
            |name: &&str| Question { name: (*name).to_owned(), command: format!("{name} --now") };
        names.iter().map(question).collect()
    }

    #[test]
    fn answers_are_found_among_other_lines() {
        let console = "booting\n@begin a\none\ntwo\n! oh\n@end a 0\nnoise\n@begin b\n@end b 7\n";
        let answer = |name: &str, status, output: &str, errors: &str| Answer {
            name: name.to_owned(),
            status,
            output: output.to_owned(),
            errors: errors.to_owned(),
        };
        let expected = [answer("a", 0, "one\ntwo\n", "oh\n"), answer("b", 7, "", "")];
        assert_eq!(answers(console, &plan(&["a", "b"])).expect("two answers"), expected);
    }

    #[test]
    fn an_early_exit_of_a_guest_is_reported_at_the_first_unanswered_question() {
        let console = "@begin a\n@end a 0\n@begin b\nKernel panic\n";
        let error = answers(console, &plan(&["a", "b", "c"])).expect_err("b has no end");
        assert_eq!(error, "no answer to `b`");
        assert!(answers("@begin a\n@end a x\n", &plan(&["a"])).is_err());
    }

    #[test]
    fn a_plan_is_a_line_per_question() {
        assert_eq!(written(&plan(&["a", "b"])), "run a a --now\nrun b b --now\n");
    }
}
