// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic machines, whose files are in a directory.

use super::facts::UNITS;
use super::*;
use linerate_linux::perf::{HARDWARE, HW_CACHE, RAW};
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

/// A synthetic machine in a directory.
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
        HostFacts::from(self.0.path()).facts().clone()
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
    // Which PMU the kernel uses for a generalized event is unknown on ARM.
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
    let status = |users: &str, groups: &str| format!("Name:\tx\nUid:\t{users}\nGid:\t{groups}\n");
    let (nobody, own) = ("65534\t65534\t65534\t65534", status("65534 0 0 0", "65534 1 1 1"));
    let root = Root::new(&[
        ("proc/self/status", &own),
        ("proc/1/status", &status("0\t0\t0\t0", "0\t0\t0\t0")),
        ("proc/2/status", &status(nobody, nobody)),
        // A set-group-ID program, such as ssh-agent.
        ("proc/3/status", &status(nobody, "65534 101 101 101")),
        ("proc/4/status", &status("65534 65534", "x")),
    ]);
    let around = HostFacts::from(root.0.path());
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
    assert!(!facts.may_read_others());
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
    // QEMU's virt board gives ARMv7 processors an empty node.
    let empty = tree(&[("proc/device-tree/pmu/name", "pmu\0")]);
    assert_eq!(empty, DeviceTree::EmptyNode { path: "/pmu".to_owned(), wanted: wanted.clone() });
    // Rockchip's power management unit, which is not a PMU.
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
    // Tests run with a PATH that includes /usr/bin.
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
fn this_machine_reports_its_paranoid_level() {
    let around = HostFacts::gather();
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

    /// For arbitrary file contents, reading terminates, and reported values occur in the files.
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
