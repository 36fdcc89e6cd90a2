// SPDX-License-Identifier: MIT OR Apache-2.0
//! What decides whether an event can be counted here: the kernel's settings, the rights of this
//! process, the units that count, and what lies below the kernel.
//!
//! Left out: judging it ([`refusal`](crate::refusal), [`doctor`](crate::doctor)), and anything that
//! takes trying ([`Opener`](crate::opener::Opener)).

use linerate_machine::{Platform, parse_cpu_list, platform};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The surroundings of this process. Nothing is read until the facts are asked for, and then once;
/// threads may ask at the same time.
#[derive(Debug)]
pub struct Surroundings {
    root: PathBuf,
    facts: OnceLock<Facts>,
}

impl Surroundings {
    /// Those of this process on this machine.
    pub fn gather() -> Self {
        Self::from(Path::new("/"))
    }

    /// Those told by the /proc, /sys and programs under `root`.
    pub fn from(root: &Path) -> Self {
        Self { root: root.to_owned(), facts: OnceLock::new() }
    }

    /// Made-up ones, for which nothing is read.
    pub fn of(facts: Facts) -> Self {
        Self { root: PathBuf::from("/"), facts: OnceLock::from(facts) }
    }

    /// Where /proc and /sys were looked for.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was found. The first call takes some 0.3 ms.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::read(&self.root))
    }
}

/// What was found. `None` where the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `kernel.perf_event_paranoid`: -1 forbids nothing, 0 raw tracepoints, 1 whole CPUs, 2 kernel
    /// mode, 3 and 4 (Debian, Ubuntu, Android) everything, to processes without `CAP_PERFMON`.
    pub paranoid: Option<i32>,
    /// Whether the kernel has a directory of counting units at all: it does with perf events.
    pub has_units: bool,
    /// The effective capabilities, by number.
    pub capabilities: Option<u64>,
    /// Whether this process is in a user namespace, where capabilities open no counters.
    pub is_in_user_namespace: bool,
    /// Whether a seccomp filter is on this process.
    pub has_seccomp_filter: Option<bool>,
    /// `kernel.perf_user_access`; `None` on processors without that setting (all but arm64).
    pub user_access: Option<bool>,
    /// `kernel.nmi_watchdog`: whether the kernel watches itself with a counter of each CPU.
    pub is_watchdog_on: bool,
    /// The units that count for the cores; several where there are cores of several kinds.
    pub core_units: Vec<CoreUnit>,
    /// What lies below the kernel.
    pub platform: Platform,
    /// The maker of the machine as its firmware tells: `Amazon EC2`, `QEMU`, ...
    pub maker: Option<String>,
    /// What the device tree says about counters.
    pub device_tree: DeviceTree,
    /// Where Valgrind is.
    pub valgrind: Option<PathBuf>,
}

/// A unit that counts for cores of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreUnit {
    /// Its name: `cpu`, `cpu_atom`, `armv8_cortex_a72`, ...
    pub name: String,
    /// Its number for the kernel, the `kind` of a selector.
    pub kind: u32,
    /// The logical CPUs it counts on; `None`: all.
    pub cpus: Option<Vec<u32>>,
}

/// What the device tree says about counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceTree {
    /// There is no tree, or counters need no entry in it on this architecture.
    #[default]
    NotUsed,
    /// There is no node for counters.
    NoNode {
        /// What the node should say under `compatible`.
        wanted: String,
    },
    /// There is a node that says nothing.
    EmptyNode {
        /// Where.
        path: String,
        /// What it should say under `compatible`.
        wanted: String,
    },
    /// There is one that says this under `compatible`.
    Node(String),
}

/// `CAP_SYS_PTRACE`, `CAP_SYS_ADMIN`, `CAP_PERFMON` (capabilities(7), linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

impl Facts {
    /// Whether a capability lifts the limits of `paranoid`. Kernels before 5.8 know the older one
    /// only, and later ones take either.
    pub fn may_count_everything(&self) -> bool {
        !self.is_in_user_namespace && (self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN))
    }

    /// Whether a capability allows to look into processes of others.
    pub fn may_trace_others(&self) -> bool {
        !self.is_in_user_namespace && (self.has(CAP_SYS_PTRACE) || self.may_count_everything())
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities.is_some_and(|set| set >> capability & 1 == 1)
    }

    /// The unit with this number, if it is one of several: then its events happen on some CPUs
    /// only.
    pub fn hybrid_unit(&self, kind: u32) -> Option<&CoreUnit> {
        let is_hybrid = self.core_units.len() > 1;
        self.core_units.iter().find(|unit| is_hybrid && unit.kind == kind)
    }

    fn read(root: &Path) -> Self {
        let text = |path: &str| text(&root.join(path));
        let status = text("proc/self/status").unwrap_or_default();
        let status = |key: &str| {
            let pairs = status.lines().filter_map(|line| line.split_once(':'));
            pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next()
        };
        let setting = |name: &str| text(&format!("proc/sys/kernel/{name}"));
        let units = root.join("sys/bus/event_source/devices");
        Self {
            paranoid: setting("perf_event_paranoid").and_then(|level| level.parse().ok()),
            has_units: units.exists(),
            capabilities: status("CapEff").and_then(|set| u64::from_str_radix(set, 16).ok()),
            is_in_user_namespace: text("proc/self/uid_map").is_some_and(|map| !is_identity(&map)),
            has_seccomp_filter: status("Seccomp").map(|mode| mode == "2"),
            user_access: setting("perf_user_access").map(|on| on != "0"),
            is_watchdog_on: setting("nmi_watchdog").is_some_and(|on| on != "0"),
            core_units: read_core_units(&units),
            platform: platform(root),
            maker: text("sys/class/dmi/id/sys_vendor"),
            device_tree: read_device_tree(&root.join("proc/device-tree")),
            valgrind: find_program(root, "valgrind"),
        }
    }
}

/// The text of a file, without the white space and zero octets around it; `None` without any.
fn text(path: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a map of user numbers is that of the first namespace, which maps all 2^32 - 1 to
/// themselves (user_namespaces(7)).
fn is_identity(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Names in a folder, sorted; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The units of the cores among all: `cpu` (x86, POWER), `cpum_cf` (s390), and those with a file
/// `cpus` (ARM, hybrid x86); units outside the cores have a file `cpumask` instead.
fn read_core_units(folder: &Path) -> Vec<CoreUnit> {
    let unit = |name: String| {
        let at = folder.join(&name);
        let cpus = text(&at.join("cpus"));
        if cpus.is_none() && name != "cpu" && name != "cpum_cf" {
            return None;
        }
        let kind = text(&at.join("type"))?.parse().ok()?;
        Some(CoreUnit { name, kind, cpus: cpus.and_then(|list| parse_cpu_list(&list).ok()) })
    };
    names(folder).into_iter().filter_map(unit).collect()
}

/// Looks for the node that makes the kernel drive the counters of ARM cores: below the root or
/// below a node `soc`, `compatible` with some `…pmu` (the kernel's binding `arm/pmu.yaml`). A power
/// management unit is called `pmu` too, and is also a `syscon`.
fn read_device_tree(tree: &Path) -> DeviceTree {
    let Some(core) = compatible_core(tree) else {
        return DeviceTree::NotUsed;
    };
    let wanted = format!("{core}-pmu");
    let mut empty = None;
    let holders = names(tree).into_iter().filter(|name| name.starts_with("soc"));
    for holder in std::iter::once(String::new()).chain(holders) {
        for name in names(&tree.join(&holder)) {
            let path = Path::new(&holder).join(&name);
            let is_named_so = ["pmu", "arm-pmu", "arm_pmu"].iter().any(|n| name.starts_with(n));
            match text(&tree.join(&path).join("compatible")) {
                Some(kind) if kind.contains("pmu") && !kind.contains("syscon") => {
                    return DeviceTree::Node(kind.replace('\0', " "));
                }
                None if is_named_so => empty = Some(format!("/{}", path.display())),
                _ => {}
            }
        }
    }
    match empty {
        Some(path) => DeviceTree::EmptyNode { path, wanted },
        None => DeviceTree::NoNode { wanted },
    }
}

/// What the first core of an ARM device tree is compatible with, `arm,cortex-a7`. Other
/// architectures find their counters without the tree.
fn compatible_core(tree: &Path) -> Option<String> {
    let cpus = tree.join("cpus");
    let cores = names(&cpus).into_iter().filter(|name| name.starts_with("cpu@"));
    let kinds = cores.filter_map(|core| text(&cpus.join(core).join("compatible")));
    let mut kinds = kinds.map(|kind| kind.split('\0').next().unwrap_or_default().to_owned());
    kinds.next().filter(|kind| !kind.starts_with("riscv") && !kind.contains("PowerPC"))
}

/// The first file called `name` in the folders of `PATH`.
fn find_program(root: &Path, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut files = places.map(|place| {
        let below = place.strip_prefix("/").unwrap_or(&place).to_owned();
        root.join(below).join(name)
    });
    files.find(|file| file.is_file())
}
