// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulated machines whose counters the kernel accepts as real ones. Every run yields exactly the
//! same counts.
//!
//! `lab/README.md` describes what a guest can and cannot show. Downloads go to `lab/cache`, which
//! git ignores; nothing is installed on this machine.

mod checks;
pub(crate) mod compiler;
mod guest;
mod linux_7455;
mod module;
mod packages;
mod pmu;
mod vector_context;

use crate::command::{log, log_to, root, say};
use crate::fetch::{TAG, write};
use crate::outcome::Outcome;
use guest::{Answer, Guest, Question, Toolchain};
use packages::{Package, Packages};
use pmu::Extent;
use std::path::PathBuf;

/// Why the lab has no result.
pub(crate) enum Obstacle {
    /// A requirement is missing on this machine and could not be fetched.
    Missing(String),
    /// A check failed, or a requirement is available but does not work.
    Failed(String),
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

const KERNEL: &str = "6.1.176-1";
const BUSYBOX: &str = "1:1.35.0-4+deb12u1+b1";

const GUESTS: [Guest; 2] = [
    Guest {
        name: "guest-arm64",
        triple: "aarch64-unknown-linux-gnu",
        emulator: "qemu-system-aarch64",
        board: "virt,dtb-randomness=off",
        processor: "cortex-a57",
        kernel: Package {
            name: "linux-image-6.1.0-50-cloud-arm64",
            architecture: "arm64",
            version: KERNEL,
            current: Some("linux-image-cloud-arm64"),
        },
        busybox: Package {
            name: "busybox-static",
            architecture: "arm64",
            version: BUSYBOX,
            current: None,
        },
        counters: None,
        pmu: "armv8_pmuv3",
        has_user_reads: true,
        toolchain: Toolchain { architecture: "arm64", prefix: "aarch64-linux-gnu-" },
        yields: true,
        port: Some("neon"),
    },
    Guest {
        name: "guest-armhf",
        triple: "armv7-unknown-linux-gnueabihf",
        emulator: "qemu-system-arm",
        board: "virt,highmem=off,dtb-randomness=off",
        processor: "cortex-a7",
        kernel: Package {
            name: "linux-image-6.1.0-50-armmp",
            architecture: "armhf",
            version: KERNEL,
            current: Some("linux-image-armmp"),
        },
        busybox: Package {
            name: "busybox-static",
            architecture: "armhf",
            version: BUSYBOX,
            current: None,
        },
        counters: Some("arm,cortex-a7-pmu"),
        pmu: "armv7_cortex_a7",
        has_user_reads: false,
        toolchain: Toolchain { architecture: "arm", prefix: "arm-linux-gnueabihf-" },
        yields: false,
        port: None,
    },
];

/// Commands and files needed by the lab on this machine, and the packages that provide them.
const TOOLS: [(&str, &str); 11] = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("cpio", "cpio"),
    ("make", "make"),
    ("fdtput", "device-tree-compiler"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-arm", "qemu-system-arm"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross"),
    ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
    ("/usr/arm-linux-gnueabihf/lib/libc.a", "libc6-dev-armhf-cross"),
];

/// Returns the directory for downloads and images.
fn cache() -> PathBuf {
    root().join("lab/cache")
}

/// Prints a message for the lab's user; a closed terminal is not an error.
fn note(line: &str) {
    let _ = say(line);
}

/// Returns an error that lists the missing tools and the command that installs them.
fn check_tools(tools: &[(&str, &str)]) -> Result<(), Obstacle> {
    // Absolute paths in `tools` work too: joining one to a directory yields the path itself.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_missing = |tool: &str| folders.iter().all(|folder| !folder.join(tool).exists());
    let missing: Vec<_> = tools.iter().filter(|(tool, _)| is_missing(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let tools: Vec<&str> = missing.iter().map(|(tool, _)| *tool).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(Obstacle::Missing(format!(
        "not installed: {}; try: apt-get install --no-install-recommends {}",
        tools.join(", "),
        packages.join(" ")
    )))
}

/// Fetches and unpacks everything that a guest needs, and returns its directory.
fn unpack(guest: &Guest) -> Result<(Packages, PathBuf), Obstacle> {
    check_tools(&TOOLS)?;
    write(&cache().join("CACHEDIR.TAG"), TAG)?;
    let mut packages = Packages::new(cache().join("apt"));
    let prefix = cache().join(guest.name);
    packages.unpack(&[guest.kernel, guest.busybox], &prefix)?;
    // The modules are most of the package, and our guests load none of them.
    let _ = std::fs::remove_dir_all(prefix.join("lib/modules"));
    Ok((packages, prefix))
}

/// A guest that is ready to be started.
struct Ready {
    guest: &'static Guest,
    prefix: PathBuf,
    programs: Vec<PathBuf>,
}

impl Ready {
    fn new(guest: &'static Guest) -> Result<Self, Obstacle> {
        let (mut packages, prefix) = unpack(guest)?;
        let programs = compiler::build(&mut packages, guest.triple, guest.busybox.architecture)?;
        Ok(Self { guest, prefix, programs })
    }

    /// Runs a command, prints its output, and returns its status.
    fn command(&self, command: &str) -> Result<i32, Obstacle> {
        let question = Question { name: "command".to_owned(), command: command.to_owned() };
        let answers = self.guest.ask(&self.prefix, &self.programs, &[question])?;
        let answer = &answers[0];
        print!("{}", answer.output);
        eprint!("{}", answer.errors);
        Ok(answer.status)
    }

    /// Runs the checks, and returns sentences about the claims that hold.
    fn check(&self) -> Result<Vec<String>, Obstacle> {
        let mut files = self.programs.clone();
        if self.guest.port.is_some() {
            let mut packages = Packages::new(cache().join("apt"));
            let (guest, prefix) = (self.guest, &self.prefix);
            files.push(module::build_for(&mut packages, guest, prefix, module::NAME)?);
        }
        let answers = self.guest.ask(&self.prefix, &files, &checks::plan(self.guest))?;
        let findings = checks::judge(self.guest, &answers);
        let (held, failed): (Vec<_>, Vec<_>) = findings.into_iter().partition(|f| f.holds);
        let sentences = |of: &[checks::Finding]| of.iter().map(|f| f.sentence.clone()).collect();
        let failed: Vec<String> = sentences(&failed);
        let held: Vec<String> = sentences(&held);
        held.iter().for_each(|sentence| note(&format!("{}: {sentence}", self.guest.name)));
        if failed.is_empty() {
            return Ok(held);
        }
        Err(Obstacle::Failed(format!("{}: {}", self.guest.name, failed.join("; "))))
    }
}

/// Returns the guest with this name.
fn called(name: &str) -> Result<&'static Guest, String> {
    GUESTS.iter().find(|guest| guest.name == name).ok_or_else(|| {
        let names = GUESTS.map(|guest| guest.name);
        let others = [linux_7455::NAME, pmu::NAME, vector_context::NAME].join(", ");
        format!("unknown `{name}`; the lab has {}, {others}", names.join(", "))
    })
}

/// A command of the lab.
pub(crate) enum Task {
    /// Run the checks in a guest.
    Check(&'static Guest),
    /// Run a command in a guest.
    Command(&'static Guest, String),
    Linux7455,
    Counters(Extent),
    /// Print the counters' results page.
    CountersPage,
    VectorContext(Extent),
}

/// Parses a task name and its arguments.
pub(crate) fn choose(words: &[&str]) -> Result<Task, String> {
    let (name, rest) =
        words.split_first().ok_or("no guest given; `cargo xtask help` lists them")?;
    let extent = || match rest {
        [] => Ok(Extent::Full),
        ["--brief"] => Ok(Extent::Brief),
        _ => Err(format!("{name} accepts only --brief")),
    };
    match *name {
        pmu::NAME if rest == ["--print"] => Ok(Task::CountersPage),
        pmu::NAME => extent()
            .map(Task::Counters)
            .map_err(|_| format!("{name} accepts only --brief and --print")),
        vector_context::NAME => extent().map(Task::VectorContext),
        linux_7455::NAME if rest.is_empty() => Ok(Task::Linux7455),
        linux_7455::NAME => Err(format!("{name} accepts no arguments, since it has no shell")),
        _ => match rest {
            [] => called(name).map(Task::Check),
            [command] => Ok(Task::Command(called(name)?, (*command).to_owned())),
            _ => Err(format!("{name} expects the command as one argument: '{}'", rest.join(" "))),
        },
    }
}

/// Runs a task.
pub(crate) fn run(task: Task) -> Result<(), String> {
    let result = match task {
        Task::Check(guest) => Ready::new(guest).and_then(|ready| ready.check()).map(drop),
        Task::Command(guest, command) => {
            match Ready::new(guest).and_then(|ready| ready.command(&command)) {
                Ok(0) => Ok(()),
                Ok(status) => Err(Obstacle::Failed(format!("exit status {status} in the guest"))),
                Err(obstacle) => Err(obstacle),
            }
        }
        Task::Linux7455 => check_linux_7455(),
        Task::VectorContext(Extent::Full) => vector_context::print(),
        Task::VectorContext(Extent::Brief) => vector_context::check(),
        Task::Counters(extent) => {
            pmu::check(extent)?.iter().for_each(|skip| note(skip));
            Ok(())
        }
        Task::CountersPage => pmu::print().map_err(Obstacle::Failed),
    };
    result.map_err(|(Obstacle::Missing(why) | Obstacle::Failed(why))| why)
}

/// Checks counters that are read from PMU registers, as a CI step.
pub(crate) fn check_pmu() -> Outcome {
    match pmu::check(Extent::Brief) {
        Ok(skips) => Outcome::Passed(skips),
        Err(why) => Outcome::Failed(why),
    }
}

/// Checks all guests. Also checks that the kernels' Linux port builds for a kernel of this
/// machine's architecture. Guests that lack a requirement are skipped.
pub(crate) fn check_all() -> Outcome {
    let others = [(linux_7455::NAME, check_linux_7455()), ("amd64", build_for_amd64())];
    let mut skips = Vec::new();
    for (name, result) in check_guests().into_iter().chain(others) {
        match result {
            Ok(()) => {}
            Err(Obstacle::Missing(why)) => skips.push(format!("SKIP: {name}: {why}")),
            Err(Obstacle::Failed(why)) => return Outcome::Failed(why),
        }
    }
    Outcome::Passed(skips)
}

/// Checks Linux on an MPC7455: the port's module, and the number of vector traps and saves.
fn check_linux_7455() -> Result<(), Obstacle> {
    linux_7455::check()?;
    vector_context::check_linux()
}

/// Runs a brief check of the schemes for sharing vector registers.
pub(crate) fn check_vector_context() -> Outcome {
    match vector_context::check() {
        Ok(()) => Outcome::Passed(Vec::new()),
        Err(Obstacle::Missing(why)) => Outcome::Skipped(why),
        Err(Obstacle::Failed(why)) => Outcome::Failed(why),
    }
}

/// Prepares the guests one by one, since they share apt and the compiler, but checks them in
/// parallel, since each emulator uses one thread.
fn check_guests() -> Vec<(&'static str, Result<(), Obstacle>)> {
    let ready: Vec<_> = GUESTS.iter().map(|guest| (guest.name, Ready::new(guest))).collect();
    std::thread::scope(|scope| {
        let start = |(name, ready): (_, Result<Ready, Obstacle>)| {
            let log = log();
            let check = || {
                log_to(log);
                ready.and_then(|ready| ready.check()).map(drop)
            };
            (name, scope.spawn(check))
        };
        let checks: Vec<_> = ready.into_iter().map(start).collect();
        let end = |check: std::thread::ScopedJoinHandle<'_, _>| {
            check.join().unwrap_or_else(|_| Err(Obstacle::Failed("a check panicked".to_owned())))
        };
        checks.into_iter().map(|(name, check)| (name, end(check))).collect()
    })
}

/// Builds the kernels' port for the distribution's x86-64 kernel. It is never loaded: the lab must
/// not touch this machine's own kernel.
fn build_for_amd64() -> Result<(), Obstacle> {
    module::build_for_amd64(&mut Packages::new(cache().join("apt")))?;
    note(&format!("amd64: {} builds; it was not loaded", module::FILE));
    Ok(())
}
