// SPDX-License-Identifier: MIT OR Apache-2.0
//! What decides whether an event can be counted here: the kernel's settings, the rights of this
//! process, the units that count, and what lies below the kernel.
//!
//! Left out: judging it ([`refusal`](crate::refusal), [`doctor`](crate::doctor)), and anything that
//! takes trying ([`Opener`](crate::opener::Opener)).

use linerate_linux::perf::{HARDWARE, HW_CACHE, RAW};
use linerate_machine::{Platform, Root, platform};
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

    /// Who runs the process or thread `id` and who runs this one, where they are not the same;
    /// `None` also where the kernel does not tell. Read at every call.
    pub(crate) fn stranger(&self, id: u32) -> Option<Stranger> {
        let files = Root::new(&self.root);
        let runs = |who: &str| Credentials::read(&files.text(&format!("proc/{who}/status"))?);
        let (theirs, own) = (runs(&id.to_string())?, runs("self")?);
        // ptrace(2), "Ptrace access mode checking", with PTRACE_MODE_REALCREDS: the real numbers of
        // the caller are to be all those of the target.
        let differs = |kind, theirs: [u32; 3], [own, ..]: [u32; 3]| {
            let theirs = theirs.into_iter().find(|id| *id != own)?;
            Some(Stranger { kind, theirs, own })
        };
        differs("user", theirs.users, own.users)
            .or_else(|| differs("group", theirs.groups, own.groups))
    }
}

/// Whose a process is that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// What differs: `user` or `group`.
    pub(crate) kind: &'static str,
    /// Its number for the process.
    pub(crate) theirs: u32,
    /// Its number for us.
    pub(crate) own: u32,
}

/// The real, effective and saved numbers of a process, as its file `status` tells them.
struct Credentials {
    users: [u32; 3],
    groups: [u32; 3],
}

impl Credentials {
    fn read(status: &str) -> Option<Self> {
        let numbers = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let mut numbers = line.split_ascii_whitespace().map_while(|id| id.parse().ok());
            Some([numbers.next()?, numbers.next()?, numbers.next()?])
        };
        Some(Self { users: numbers("Uid:")?, groups: numbers("Gid:")? })
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
    /// Whether programs may read counters themselves; `None` where there is no setting for it.
    pub user_access: Option<UserAccess>,
    /// `kernel.nmi_watchdog`: whether the kernel watches itself, with a counter of each CPU unless
    /// it was built (6.5 and later) so that CPUs watch each other.
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
    /// What installs packages here: `apt`, `dnf`, ...
    pub installer: Option<Installer>,
}

/// The setting that decides whether programs may read counters themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccess {
    /// Whether they may.
    pub is_on: bool,
    /// Its name: `kernel.perf_user_access` (arm64), or the file `rdpmc` of the unit (x86).
    pub setting: String,
}

/// What installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installer {
    /// The program.
    pub program: &'static str,
    /// What comes before the names of the packages.
    pub command: &'static str,
}

/// The usual ones; the first that is there counts.
const INSTALLERS: [Installer; 5] = [
    Installer { program: "apt-get", command: "sudo apt-get install" },
    Installer { program: "dnf", command: "sudo dnf install" },
    Installer { program: "zypper", command: "sudo zypper install" },
    Installer { program: "pacman", command: "sudo pacman -S" },
    Installer { program: "apk", command: "sudo apk add" },
];

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

/// Where the kernel shows its counting units, and the device tree.
const UNITS: &str = "sys/bus/event_source/devices";
const TREE: &str = "proc/device-tree";

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
        !self.is_in_user_namespace && self.may_trace_in_namespace()
    }

    /// The same for processes of this user namespace.
    pub(crate) fn may_trace_in_namespace(&self) -> bool {
        self.has(CAP_SYS_PTRACE) || self.may_count_everything()
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities.is_some_and(|set| set >> capability & 1 == 1)
    }

    /// The unit that counts selectors of this kind, if it is one of several: then their events
    /// happen on some CPUs only.
    ///
    /// Generalised events go to the unit of raw ones, where there is one (`perf_init_event` in
    /// kernel/events/core.c): `cpu_core` on hybrid x86. On ARM no unit has that number, and the
    /// kernel takes the first that accepts, which is not known here.
    pub fn hybrid_unit(&self, kind: u32) -> Option<&CoreUnit> {
        let is_hybrid = self.core_units.len() > 1;
        let kind = if matches!(kind, HARDWARE | HW_CACHE) { RAW } else { kind };
        self.core_units.iter().find(|unit| is_hybrid && unit.kind == kind)
    }

    fn read(root: &Path) -> Self {
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
            installer: INSTALLERS.into_iter().find(|i| find_program(root, i.program).is_some()),
        }
    }
}

/// Whether a map of user numbers is that of the first namespace, which maps all 2^32 - 1 to
/// themselves (user_namespaces(7)).
fn is_identity(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// The units of the cores among all: `cpu` (most architectures), `cpum_cf` (s390), `armv…` (ARM),
/// and those with a file `cpus` (Apple, hybrid x86); units outside the cores have a file `cpumask`.
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

/// By the setting of arm64, or else the file of x86's unit.
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

/// Looks for the node that makes the kernel drive the counters of ARM cores: below the root or
/// below a node `soc`, `compatible` with some `…pmu` (the kernel's binding `arm/pmu.yaml`). A power
/// management unit is called `pmu` too, and is also a `syscon`.
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

/// Whether these are POWER cores, whose watchdog runs on timers (kernel,
/// arch/powerpc/kernel/watchdog.c).
fn is_power(files: &Root) -> bool {
    files.names(&format!("{TREE}/cpus")).iter().any(|name| name.starts_with("PowerPC"))
}

/// What the first core of an ARM device tree is compatible with, `arm,cortex-a7`. Other
/// architectures find their counters without the tree.
fn compatible_core(files: &Root) -> Option<String> {
    let names = files.names(&format!("{TREE}/cpus"));
    let cores = names.iter().filter(|name| name.starts_with("cpu@"));
    let kinds = cores.filter_map(|core| files.text(&format!("{TREE}/cpus/{core}/compatible")));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use tempfile::TempDir;

    /// A machine made up in a folder.
    struct Root(TempDir);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                let path = root.0.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            root
        }

        fn facts(&self) -> Facts {
            Surroundings::from(self.0.path()).facts().clone()
        }
    }

    #[test]
    fn a_server_as_recorded() {
        let root = Root::new(&[
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/sys/kernel/nmi_watchdog", "1\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t0\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("sys/bus/event_source/devices/cpu/type", "4\n"),
            ("sys/bus/event_source/devices/cpu/rdpmc", "1\n"),
            ("sys/bus/event_source/devices/uncore_imc/type", "23\n"),
            ("sys/bus/event_source/devices/uncore_imc/cpumask", "0\n"),
            ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
        ]);
        let facts = root.facts();
        assert_eq!((facts.paranoid, facts.is_watchdog_on, facts.has_units), (Some(2), true, true));
        assert_eq!((facts.capabilities, facts.has_seccomp_filter), (Some(1 << 38), Some(false)));
        assert!(facts.may_count_everything() && !facts.is_in_user_namespace);
        let unit = CoreUnit { name: "cpu".to_owned(), kind: 4, cpus: None };
        assert_eq!((&facts.core_units, facts.hybrid_unit(4)), (&vec![unit], None));
        let access = facts.user_access.unwrap();
        assert!(access.is_on && access.setting.ends_with("/cpu/rdpmc"), "{access:?}");
        assert_eq!(facts.maker.as_deref(), Some("Dell Inc."));
        assert_eq!((facts.device_tree, facts.valgrind), (DeviceTree::NotUsed, None));
    }

    #[test]
    fn cores_of_two_kinds_have_a_unit_each() {
        let root = Root::new(&[
            ("sys/bus/event_source/devices/armv8_cortex_a53/type", "8\n"),
            ("sys/bus/event_source/devices/armv8_cortex_a53/cpus", "0-3\n"),
            ("sys/bus/event_source/devices/armv8_cortex_a72/type", "9\n"),
            ("sys/bus/event_source/devices/armv8_cortex_a72/cpus", "4-5\n"),
            ("sys/bus/event_source/devices/software/type", "1\n"),
            // Linux 4.4 had no file `cpus`.
            ("sys/bus/event_source/devices/armv6_1176/type", "10\n"),
            ("proc/sys/kernel/perf_user_access", "0\n"),
        ]);
        let facts = root.facts();
        assert_eq!(facts.core_units.len(), 3);
        assert_eq!(facts.core_units[0].cpus, None);
        assert_eq!(facts.hybrid_unit(9).unwrap().cpus, Some(vec![4, 5]));
        assert_eq!(facts.hybrid_unit(1), None);
        // Which of them takes a generalised event, nobody says.
        assert_eq!(facts.hybrid_unit(HARDWARE), None);
        let setting = "kernel.perf_user_access".to_owned();
        assert_eq!(facts.user_access, Some(UserAccess { is_on: false, setting }));
    }

    #[test]
    fn generalised_events_of_hybrid_x86_belong_to_the_unit_of_raw_ones() {
        let root = Root::new(&[
            ("sys/bus/event_source/devices/cpu_core/type", "4\n"),
            ("sys/bus/event_source/devices/cpu_core/cpus", "0-7\n"),
            ("sys/bus/event_source/devices/cpu_atom/type", "10\n"),
            ("sys/bus/event_source/devices/cpu_atom/cpus", "8-15\n"),
        ]);
        let facts = root.facts();
        for kind in [HARDWARE, HW_CACHE, RAW] {
            assert_eq!(facts.hybrid_unit(kind).unwrap().name, "cpu_core");
        }
        assert_eq!(facts.hybrid_unit(10).unwrap().name, "cpu_atom");
    }

    #[test]
    fn a_stranger_runs_as_another_user_or_group() {
        let status =
            |users: &str, groups: &str| format!("Name:\tx\nUid:\t{users}\nGid:\t{groups}\n");
        let (nobody, own) = ("65534\t65534\t65534\t65534", status("65534 0 0 0", "65534 1 1 1"));
        let root = Root::new(&[
            ("proc/self/status", &own),
            ("proc/1/status", &status("0\t0\t0\t0", "0\t0\t0\t0")),
            ("proc/2/status", &status(nobody, nobody)),
            // Set on execution: ssh-agent is so.
            ("proc/3/status", &status(nobody, "65534 101 101 101")),
            ("proc/4/status", &status("65534 65534", "x")),
        ]);
        let around = Surroundings::from(root.0.path());
        let of_root = Stranger { kind: "user", theirs: 0, own: 65534 };
        assert_eq!(around.stranger(1), Some(of_root));
        assert_eq!(around.stranger(2), None);
        assert_eq!(around.stranger(3), Some(Stranger { kind: "group", theirs: 101, own: 65534 }));
        assert_eq!((around.stranger(4), around.stranger(5)), (None, None));
    }

    #[test]
    fn root_of_a_container_is_not_root() {
        let root = Root::new(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t2\n"),
            ("proc/self/uid_map", "         0     100000      65536\n"),
        ]);
        let facts = root.facts();
        assert!(facts.is_in_user_namespace && facts.has_seccomp_filter == Some(true));
        assert!(!facts.may_count_everything() && !facts.may_trace_others());
        assert!(facts.may_trace_in_namespace());
    }

    fn tree(files: &[(&str, &str)]) -> DeviceTree {
        let core = ("proc/device-tree/cpus/cpu@0/compatible", "arm,cortex-a7\0");
        Root::new(&[&[core], files].concat()).facts().device_tree
    }

    #[test]
    fn device_trees_as_recorded() {
        let wanted = "arm,cortex-a7-pmu".to_owned();
        assert_eq!(tree(&[]), DeviceTree::NoNode { wanted: wanted.clone() });
        // QEMU's virt board gives ARMv7 processors a node without content.
        let empty = tree(&[("proc/device-tree/pmu/name", "pmu\0")]);
        assert_eq!(
            empty,
            DeviceTree::EmptyNode { path: "/pmu".to_owned(), wanted: wanted.clone() }
        );
        // Rockchip's power management unit.
        let power = ("proc/device-tree/pmu@ff730000/compatible", "rockchip,rk3288-pmu\0syscon\0");
        assert_eq!(tree(&[power]), DeviceTree::NoNode { wanted });
        let soc = ("proc/device-tree/soc/arm-pmu/compatible", "arm,cortex-a7-pmu\0");
        assert_eq!(tree(&[power, soc]), DeviceTree::Node("arm,cortex-a7-pmu".to_owned()));
        let named = ("proc/device-tree/pmu_a7/compatible", "arm,armv8-pmuv3\0arm,cortex-a7-pmu\0");
        let both = "arm,armv8-pmuv3 arm,cortex-a7-pmu".to_owned();
        assert_eq!(tree(&[named]), DeviceTree::Node(both));
    }

    #[test]
    fn other_architectures_need_no_node() {
        let power = [("proc/device-tree/cpus/PowerPC,POWER9@0/name", "PowerPC,POWER9\0")];
        let risc_v = [("proc/device-tree/cpus/cpu@0/compatible", "riscv\0")];
        for files in [&power, &risc_v] {
            assert_eq!(Root::new(files).facts().device_tree, DeviceTree::NotUsed);
        }
    }

    #[test]
    fn a_watchdog_of_power_holds_no_counter() {
        let power = ("proc/device-tree/cpus/PowerPC,POWER9@0/name", "PowerPC,POWER9\0");
        let on = ("proc/sys/kernel/nmi_watchdog", "1\n");
        assert!(Root::new(&[on]).facts().is_watchdog_on);
        assert!(!Root::new(&[on, power]).facts().is_watchdog_on);
    }

    #[test]
    fn programs_are_found_below_the_root() {
        // Tests run with a PATH that has /usr/bin.
        let root = Root::new(&[("usr/bin/valgrind", ""), ("usr/bin/dnf", "")]);
        let facts = root.facts();
        assert_eq!(facts.valgrind, Some(root.0.path().join("usr/bin/valgrind")));
        assert_eq!(facts.installer.unwrap().program, "dnf");
    }

    #[test]
    fn nothing_at_all_gives_nothing() {
        assert_eq!(Root::new(&[]).facts(), Facts::default());
    }

    #[test]
    fn this_machine_tells_its_level() {
        let around = Surroundings::gather();
        let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
        assert_eq!(around.facts().paranoid, text.trim().parse().ok());
        assert!(std::ptr::eq(around.facts(), around.facts()));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            cases: 48,
            ..ProptestConfig::default()
        })]

        /// Whatever stands in the files, reading them ends, and says nothing that is not there.
        #[test]
        fn files_may_hold_anything(
            paranoid in ".{0,20}",
            status in prop::collection::vec(any::<u8>(), 0..200),
            cpus in "[0-9,\\-]{0,12}",
            kind in ".{0,12}",
        ) {
            let unit = format!("{UNITS}/armv8");
            let root = Root::new(&[
                ("proc/sys/kernel/perf_event_paranoid", &paranoid),
                ("proc/self/status", &String::from_utf8_lossy(&status)),
                (&format!("{unit}/cpus"), &cpus),
                (&format!("{unit}/type"), &kind),
            ]);
            let facts = root.facts();
            prop_assert_eq!(facts.paranoid, paranoid.trim().parse().ok());
            prop_assert!(facts.core_units.is_empty() || kind.trim().parse::<u32>().is_ok());
        }
    }
}
