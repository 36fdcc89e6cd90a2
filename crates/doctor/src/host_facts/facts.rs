// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host facts, and their sources in /proc, /sys and PATH.

use linerate_linux::perf::{HARDWARE, HW_CACHE, RAW};
use linerate_linux::search_path;
use linerate_machine::{Platform, Root, platform};
use std::path::{Path, PathBuf};

/// Facts about the host and this process. Fields that the kernel does not report are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Value of `kernel.perf_event_paranoid`. For processes without `CAP_PERFMON`, level 0 forbids
    /// raw tracepoints, 1 also system-wide counting on a CPU, 2 also kernel mode, 3 and 4 (Debian,
    /// Ubuntu, Android) everything; -1 forbids nothing.
    pub paranoid: Option<i32>,
    /// Whether the kernel's directory of PMUs exists, which means that perf events are built in.
    pub has_units: bool,
    /// Effective capabilities, as a bit mask.
    pub capabilities: Option<u64>,
    /// Whether this process is in a user namespace, where capabilities do not grant access to
    /// counters.
    pub is_in_user_namespace: bool,
    /// Whether this process has a seccomp filter.
    pub has_seccomp_filter: Option<bool>,
    /// Setting that permits programs to read counters from user space; `None` if the kernel has no
    /// such setting.
    pub user_access: Option<UserAccess>,
    /// Whether the hard lockup detector is on (`kernel.nmi_watchdog`). It takes one counter on each
    /// CPU, unless the kernel (6.5 and later) was built with the buddy detector.
    pub is_watchdog_on: bool,
    /// Core PMUs; on hybrid processors, one per core type.
    pub core_units: Vec<CoreUnit>,
    /// Platform on which the kernel runs: hypervisor or emulator.
    pub platform: Platform,
    /// System vendor according to the firmware: `Amazon EC2`, `QEMU`, ...
    pub maker: Option<String>,
    /// State of the device tree's PMU node.
    pub device_tree: DeviceTree,
    /// Path of Valgrind, if installed.
    pub valgrind: Option<PathBuf>,
    /// Path of QEMU's user-mode emulator of this architecture, if installed.
    pub qemu: Option<PathBuf>,
    /// Package manager: `apt`, `dnf`, ...
    pub installer: Option<Installer>,
}

/// Setting that controls counter reads from user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccess {
    /// Whether reads are allowed.
    pub is_on: bool,
    /// Setting: `kernel.perf_user_access` (arm64), or the path of the PMU's file `rdpmc` (x86).
    pub setting: String,
}

/// A package manager, identified by the name of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installer {
    /// Program whose presence identifies the package manager.
    pub program: &'static str,
    /// Installation command, without the package names.
    pub command: &'static str,
}

/// Known package managers. The first one found is used.
const INSTALLERS: [Installer; 5] = [
    Installer { program: "apt-get", command: "sudo apt-get install" },
    Installer { program: "dnf", command: "sudo dnf install" },
    Installer { program: "zypper", command: "sudo zypper install" },
    Installer { program: "pacman", command: "sudo pacman -S" },
    Installer { program: "apk", command: "sudo apk add" },
];

/// The PMU of one type of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreUnit {
    /// PMU name: `cpu`, `cpu_atom`, `armv8_cortex_a72`, ...
    pub name: String,
    /// The PMU's type number in the kernel, used as a selector's `kind`.
    pub kind: u32,
    /// Logical CPUs on which the PMU counts; `None` for all CPUs.
    pub cpus: Option<Vec<u32>>,
}

/// State of the PMU node in the device tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceTree {
    /// There is no device tree, or the PMU needs no node in it on this architecture.
    #[default]
    NotUsed,
    /// The PMU node is missing.
    NoNode {
        /// Required value of `compatible`.
        wanted: String,
    },
    /// The PMU node is empty.
    EmptyNode {
        /// Node path.
        path: String,
        /// Required value of `compatible`.
        wanted: String,
    },
    /// The PMU node has this value of `compatible`.
    Node(String),
}

/// Directory of the kernel's PMUs.
pub(super) const UNITS: &str = "sys/bus/event_source/devices";
/// Directory of the device tree.
const TREE: &str = "proc/device-tree";

/// Number of `CAP_SYS_PTRACE` (capabilities(7), linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;
/// Number of `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;
/// Number of `CAP_PERFMON`.
const CAP_PERFMON: u32 = 38;

impl Facts {
    /// Returns whether a capability lifts the restrictions of `paranoid`. Kernels before 5.8
    /// recognize only `CAP_SYS_ADMIN`; later kernels accept `CAP_SYS_ADMIN` or `CAP_PERFMON`.
    pub fn may_count_everything(&self) -> bool {
        !self.is_in_user_namespace && (self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN))
    }

    /// Returns whether a capability allows counting and sampling other users' processes.
    pub fn may_trace_others(&self) -> bool {
        !self.is_in_user_namespace && self.may_trace_in_namespace()
    }

    /// Returns whether a capability allows counting and sampling other users' processes in this
    /// user namespace.
    pub(crate) fn may_trace_in_namespace(&self) -> bool {
        self.has(CAP_SYS_PTRACE) || self.may_count_everything()
    }

    /// Returns whether a capability allows reading the files in /proc about other users' processes
    /// that are protected like their memory: descriptors, mappings, system calls, namespaces. The
    /// capabilities that allow sampling these processes do not suffice.
    pub fn may_read_others(&self) -> bool {
        !self.is_in_user_namespace && self.has(CAP_SYS_PTRACE)
    }

    /// Returns whether this process is an administrator (`CAP_SYS_ADMIN`) in its user namespace.
    pub(crate) fn is_admin_in_namespace(&self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities.is_some_and(|set| set >> capability & 1 == 1)
    }

    /// Returns the PMU that counts events of type `kind`, if it is one of several core PMUs, so
    /// that its events can be counted only on some CPUs.
    ///
    /// Generalized events go to the PMU for raw events, if any (`perf_init_event` in
    /// kernel/events/core.c): `cpu_core` on hybrid x86. On ARM no PMU has that number, and the
    /// kernel uses the first PMU that accepts the event, which cannot be determined here.
    pub fn hybrid_unit(&self, kind: u32) -> Option<&CoreUnit> {
        let is_hybrid = self.core_units.len() > 1;
        let kind = if matches!(kind, HARDWARE | HW_CACHE) { RAW } else { kind };
        self.core_units.iter().find(|unit| is_hybrid && unit.kind == kind)
    }

    /// Returns the core PMUs that may count events of type `kind`, if it cannot be determined which
    /// of them does; otherwise none. Each PMU counts only on its own CPUs.
    pub fn hybrid_units(&self, kind: u32) -> &[CoreUnit] {
        let is_any = matches!(kind, HARDWARE | HW_CACHE | RAW) && self.hybrid_unit(kind).is_none();
        if is_any && self.core_units.len() > 1 { &self.core_units } else { &[] }
    }

    pub(super) fn read(root: &Path) -> Self {
        let files = Root::new(root);
        let text = |path: &str| files.text(path);
        let status = text("proc/self/status").unwrap_or_default();
        let status = |key: &str| {
            let pairs = status.lines().filter_map(|line| line.split_once(':'));
            pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next()
        };
        let setting = |name: &str| text(&format!("proc/sys/kernel/{name}"));
        Self {
            paranoid: setting("perf_event_paranoid").and_then(|level| level.parse().ok()),
            has_units: files.exists(UNITS),
            capabilities: status("CapEff").and_then(|set| u64::from_str_radix(set, 16).ok()),
            is_in_user_namespace: text("proc/self/uid_map").is_some_and(|map| !is_identity(&map)),
            has_seccomp_filter: status("Seccomp").map(|mode| mode == "2"),
            user_access: read_user_access(setting("perf_user_access"), &files),
            is_watchdog_on: setting("nmi_watchdog").is_some_and(|on| on != "0")
                && !is_power(&files),
            core_units: read_core_units(&files),
            platform: platform(root),
            maker: text("sys/class/dmi/id/sys_vendor"),
            device_tree: read_device_tree(&files),
            valgrind: find_program(root, "valgrind"),
            qemu: find_program(root, &format!("qemu-{}", std::env::consts::ARCH)),
            installer: INSTALLERS.into_iter().find(|i| find_program(root, i.program).is_some()),
        }
    }
}

/// Returns whether a UID map belongs to the initial namespace, which maps all 2^32 - 1 UIDs to
/// themselves (user_namespaces(7)).
fn is_identity(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Finds the core PMUs: `cpu` (most architectures), `cpum_cf` (s390), `armv…` (ARM), and PMUs with
/// a file `cpus` (Apple, hybrid x86). Uncore PMUs have a file `cpumask` instead.
fn read_core_units(files: &Root) -> Vec<CoreUnit> {
    let unit = |name: String| {
        let at = |file: &str| format!("{UNITS}/{name}/{file}");
        let cpus = files.cpu_list(&at("cpus"));
        let is_core = matches!(name.as_str(), "cpu" | "cpum_cf") || name.starts_with("armv");
        if cpus.is_none() && !is_core {
            return None;
        }
        let kind = files.number(&at("type"))?;
        Some(CoreUnit { name, kind, cpus })
    };
    files.names(UNITS).into_iter().filter_map(unit).collect()
}

/// Reads the setting for user-space counter reads from the arm64 sysctl if it exists, otherwise
/// from the x86 PMU's sysfs file.
fn read_user_access(sysctl: Option<String>, files: &Root) -> Option<UserAccess> {
    let found = |setting: String, on: String| UserAccess { is_on: on != "0", setting };
    if let Some(on) = sysctl {
        return Some(found("kernel.perf_user_access".to_owned(), on));
    }
    let settings = ["cpu", "cpu_core"].map(|unit| format!("{UNITS}/{unit}/rdpmc"));
    settings.into_iter().find_map(|file| {
        let on = files.text(&file)?;
        Some(found(format!("/{file}"), on))
    })
}

/// Finds the device tree node that makes the kernel use the counters of ARM cores. The node is
/// below the root or below a node `soc`, and its `compatible` ends in `pmu` (kernel binding
/// `arm/pmu.yaml`). Power management units are called `pmu` as well, but their `compatible`
/// includes `syscon`.
fn read_device_tree(files: &Root) -> DeviceTree {
    let Some(core) = compatible_core(files) else {
        return DeviceTree::NotUsed;
    };
    let wanted = format!("{core}-pmu");
    let mut empty = None;
    let holders = files.names(TREE).into_iter().filter(|name| name.starts_with("soc"));
    for holder in std::iter::once(String::new()).chain(holders.map(|soc| format!("/{soc}"))) {
        for name in files.names(&format!("{TREE}{holder}")) {
            let path = format!("{holder}/{name}");
            let is_named_so = ["pmu", "arm-pmu", "arm_pmu"].iter().any(|n| name.starts_with(n));
            match files.text(&format!("{TREE}{path}/compatible")) {
                Some(kind) if kind.contains("pmu") && !kind.contains("syscon") => {
                    return DeviceTree::Node(kind.replace('\0', " "));
                }
                None if is_named_so => empty = Some(path),
                _ => {}
            }
        }
    }
    match empty {
        Some(path) => DeviceTree::EmptyNode { path, wanted },
        None => DeviceTree::NoNode { wanted },
    }
}

/// Returns whether the cores are POWER, whose watchdog uses timers rather than a counter
/// (arch/powerpc/kernel/watchdog.c).
fn is_power(files: &Root) -> bool {
    files.names(&format!("{TREE}/cpus")).iter().any(|name| name.starts_with("PowerPC"))
}

/// Returns the first core's `compatible` in an ARM device tree, such as `arm,cortex-a7`. On other
/// architectures, the kernel finds the counters without the device tree.
fn compatible_core(files: &Root) -> Option<String> {
    let names = files.names(&format!("{TREE}/cpus"));
    let cores = names.iter().filter(|name| name.starts_with("cpu@"));
    let kinds = cores.filter_map(|core| files.text(&format!("{TREE}/cpus/{core}/compatible")));
    let mut kinds = kinds.map(|kind| kind.split('\0').next().unwrap_or_default().to_owned());
    kinds.next().filter(|kind| !kind.starts_with("riscv") && !kind.contains("PowerPC"))
}

/// Returns the path of the first file called `name` in the directories of `PATH`.
fn find_program(root: &Path, name: &str) -> Option<PathBuf> {
    let path = search_path();
    let places = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut files = places.map(|place| {
        let below = place.strip_prefix("/").unwrap_or(&place).to_owned();
        root.join(below).join(name)
    });
    files.find(|file| file.is_file())
}
