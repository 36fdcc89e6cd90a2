// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux on an emulated MPC7455, the processor of application note AN2581: big-endian, 32 bits,
//! AltiVec.
//!
//! The distribution has the source of a kernel for it, but no binary. Once built, the kernel is
//! rebuilt only if `lab/linux-7455/config` changes. Of the built tree, only the parts that modules
//! need are kept. The only program that runs in the guest is `lab/linux-7455/init.c`, which loads
//! modules. The guest's clock follows the host's. The same kernel is also started on an MPC750,
//! which has no AltiVec.

use super::guest::{Toolchain, answers, run};
use super::packages::{Package, Packages, unpacked_version};
use super::{Answer, KERNEL, Obstacle, Question, cache, check_tools, module, note};
use crate::command::{output, program, root, status};
use crate::fetch::write;
use crate::outcome::judge;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the guest, as in `cargo xtask lab NAME`.
pub(crate) const NAME: &str = "linux-7455";

const SOURCE: Package = Package {
    name: "linux-source-6.1",
    architecture: "all",
    version: KERNEL,
    // No dependency is needed, because the current version has the same package name.
    current: None,
};

const TOOLCHAIN: Toolchain = Toolchain { architecture: "powerpc", prefix: "powerpc-linux-gnu-" };

/// The kernels' variant for processors with vector units.
const VECTOR: &str = "altivec";

/// Commands and files needed on this machine, and the packages that provide them.
const TOOLS: [(&str, &str); 10] = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("cpio", "cpio"),
    ("powerpc-linux-gnu-gcc", "gcc-powerpc-linux-gnu"),
    ("/usr/powerpc-linux-gnu/lib/libc.a", "libc6-dev-powerpc-cross"),
    ("qemu-system-ppc", "qemu-system-ppc"),
];

/// Source directories that this kernel does not need, which contain most of the source code. Their
/// Kconfig files are kept, because Kconfig files refer to each other across the whole tree.
const NOT_UNPACKED: [&str; 6] = [
    "*/Documentation/*/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/testing/*",
];

/// Files in a built tree that modules need, and the kernel itself.
const KEPT: [&str; 8] =
    [".config", "Makefile", "Module.symvers", "arch", "include", "scripts", "tools", "vmlinux"];

const KERNEL_ARGUMENTS: &str = "console=ttyPZ0 quiet loglevel=1 panic=-1";

/// Fetches and builds whatever is missing, loads the module on a processor with AltiVec and on one
/// without, and checks its messages.
pub(crate) fn check() -> Result<(), Obstacle> {
    let linux = Linux::with(module::NAME)?;
    let load = |processor: &str, expected: &str| {
        let answers = linux.load(processor, &[module::NAME.to_owned()])?;
        let judged = module::judge(&answers[0].output, expected);
        judged.map_err(|why| linux.fault(processor, &why))
    };
    let with = load("7455", &module::agrees(VECTOR))?;
    let without = load("750", &module::is_elsewhere(VECTOR))?;
    note(&format!("{NAME}: {with}; on a 750: {without}"));
    Ok(())
}

/// Returns the kernel's directory, building the kernel if necessary.
pub(super) fn ready() -> Result<PathBuf, Obstacle> {
    check_tools(&TOOLS)?;
    let folder = cache().join(NAME);
    kernel(&mut Packages::new(cache().join("apt")), &folder)?;
    Ok(folder)
}

/// Returns the emulator command with the kernel, an initramfs, and arguments for the first process.
pub(super) fn emulator(processor: &str, folder: &Path, initrd: &Path, told: &str) -> Command {
    let mut emulator = program("timeout", &["--kill-after=5", "480", "qemu-system-ppc"]);
    emulator.args(["-M", "mac99", "-cpu", processor, "-m", "256", "-nographic", "-vga", "none"]);
    emulator.args(["-monitor", "none", "-serial", "stdio", "-nic", "none", "-no-reboot"]);
    emulator.arg("-kernel").arg(folder.join("vmlinux")).arg("-initrd").arg(initrd);
    emulator.arg("-append").arg(format!("{KERNEL_ARGUMENTS} -- {told}"));
    emulator
}

/// A kernel, and the directory that becomes its initramfs: the first process, a module, and a list
/// of module loads.
pub(super) struct Linux {
    folder: PathBuf,
    unpacked: PathBuf,
}

impl Linux {
    /// Fetches and builds whatever is missing.
    pub(super) fn with(module: &str) -> Result<Self, Obstacle> {
        let folder = ready()?;
        let file = module::build(&folder, TOOLCHAIN, &folder.with_extension(module), module)?;
        let unpacked = folder.with_extension("initrd");
        fill(&file, &unpacked)?;
        Ok(Self { folder, unpacked })
    }

    /// Starts the kernel on a processor, and loads and unloads a module there for each entry in
    /// `loads`. Each entry is a line for `lab/linux-7455/init.c`. Returns one answer per entry.
    pub(super) fn load(&self, processor: &str, loads: &[String]) -> Result<Vec<Answer>, Obstacle> {
        write(
            &self.unpacked.join("loads"),
            &loads.iter().map(|l| format!("{l}\n")).collect::<String>(),
        )?;
        let initrd = super::guest::archive(&self.unpacked)?;
        let console = run(emulator(processor, &self.folder, &initrd, ""))?;
        write(&self.log(), &console)?;
        let question = |(load, at): (&String, u32)| Question {
            name: format!("load_{at}"),
            command: load.clone(),
        };
        let questions: Vec<Question> = loads.iter().zip(1..).map(question).collect();
        answers(&console, &questions).map_err(|why| self.fault(processor, &why))
    }

    /// Describes a failed run.
    pub(super) fn fault(&self, processor: &str, why: &str) -> Obstacle {
        let log = self.log();
        Obstacle::Failed(format!("{NAME}, {processor}: {why}; console log: {}", log.display()))
    }

    fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

/// Builds the kernel unless it has already been built with the current configuration.
fn kernel(packages: &mut Packages, folder: &Path) -> Result<(), Obstacle> {
    let configuration = root().join("lab/linux-7455/config");
    let text = fs::read_to_string(&configuration)
        .map_err(|error| format!("{}: {error}", configuration.display()))?;
    let stamp = folder.join(".built");
    let built = fs::read_to_string(&stamp).unwrap_or_default();
    // Compares only the configuration. The stored version is ignored, because the archive may offer
    // another version by now.
    if built.split_once('\n').is_some_and(|(_, with)| with == text) {
        return Ok(());
    }
    let archive = folder.with_extension("source");
    packages.unpack(&[SOURCE], &archive)?;
    let version = unpacked_version(&SOURCE, &archive)?;
    note(&format!("{NAME}: building Linux {version}, which takes minutes and is done once"));
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut tar = program("tar", &["-x", "--strip-components=1", "-f"]);
    tar.arg(archive.join("usr/src/linux-source-6.1.tar.xz")).arg("-C").arg(folder);
    tar.args(NOT_UNPACKED.map(|pattern| format!("--exclude={pattern}")));
    output(tar)?;
    make(folder, &["allnoconfig"], Some(&configuration))?;
    make(folder, &["vmlinux", "modules"], None)?;
    prune(folder)?;
    write(&stamp, &format!("{version}\n{text}"))?;
    fs::remove_dir_all(&archive).map_err(|e| format!("{}: {e}", archive.display()).into())
}

/// Runs the kernel's makefile.
fn make(folder: &Path, targets: &[&str], settings: Option<&Path>) -> Result<(), String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = program("make", &["--silent", "-C"]);
    make.arg(folder).args(TOOLCHAIN.settings()).arg(format!("-j{processors}")).args(targets);
    make.envs(settings.map(|file| ("KCONFIG_ALLCONFIG", file)));
    judge(status(make)).map_err(|why| format!("{NAME} was not built: {why}"))
}

/// Removes what is not needed to build modules: most of a gigabyte.
fn prune(folder: &Path) -> Result<(), String> {
    for entry in entries(folder)? {
        if !KEPT.iter().any(|kept| entry.ends_with(kept)) {
            remove(&entry)?;
        }
    }
    for architecture in entries(&folder.join("arch"))? {
        if !architecture.ends_with("powerpc") {
            remove(&architecture)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn remove(path: &Path) -> Result<(), String> {
    let is_folder = path.symlink_metadata().is_ok_and(|file| file.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a directory that contains only a first process, compiled from one file.
pub(super) fn compile(source: &str, folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let flags = ["-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-Wa,-maltivec"];
    let mut compile = program("powerpc-linux-gnu-gcc", &flags);
    compile.arg("-o").arg(folder.join("init")).arg(root().join(source));
    output(compile).map(drop)
}

/// Fills the directory that becomes the initramfs with the first process and the module.
fn fill(module: &Path, folder: &Path) -> Result<(), String> {
    compile("lab/linux-7455/init.c", folder)?;
    let name = module.file_name().ok_or("a module has a name".to_owned())?;
    fs::copy(module, folder.join(name))
        .map_err(|error| format!("{}: {error}", module.display()))?;
    Ok(())
}
