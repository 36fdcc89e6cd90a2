// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables against numbers known from elsewhere, and every notation against files made up here.

use super::*;
use linerate_linux::perf::{self, HARDWARE, HW_CACHE, Request, SOFTWARE, TRACEPOINT, Target};
use linerate_machine::identity::ArmCore;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tempfile::TempDir;

fn x86(vendor: &str, family: u32, model: u32) -> Identity {
    Identity::X86 { vendor: vendor.to_owned(), family, model }
}

fn arm(parts: &[u32]) -> Identity {
    let cores = parts.iter().map(|&part| ArmCore { implementer: 0x41, part }).collect();
    Identity::Arm { cores }
}

fn power(version: u32) -> Identity {
    Identity::Power { name: "any".to_owned(), pvr: version << 16 | 0x0201 }
}

/// A folder like /sys, with files of the texts given.
fn sysfs(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

fn catalog(identity: &Identity) -> Catalog {
    Catalog::of(identity, sysfs(&[]).path())
}

/// One processor of each table.
fn one_of_each() -> Vec<(&'static str, Identity)> {
    vec![
        ("arm1176", arm(&[0xb76])),
        ("cortex_a7", arm(&[0xc07])),
        ("armv8", arm(&[0xd08])),
        ("mpc74xx", power(0x8001)),
        ("power8", power(0x004d)),
        ("power9", power(0x004e)),
        ("power10", power(0x0080)),
        ("amd_zen1", x86("AuthenticAMD", 0x17, 0x01)),
        ("amd_zen2", x86("AuthenticAMD", 0x17, 0x31)),
        ("amd_zen3", x86("AuthenticAMD", 0x19, 0x01)),
        ("amd_zen4", x86("AuthenticAMD", 0x19, 0x11)),
        ("amd_zen5", x86("AuthenticAMD", 0x1a, 0x02)),
        ("intel", x86("GenuineIntel", 6, 0x8f)),
        ("generic", x86("Transmeta", 6, 4)),
    ]
}

#[test]
fn processors_find_their_table_and_others_say_so() {
    for (table, identity) in one_of_each() {
        let catalog = catalog(&identity);
        assert_eq!(catalog.table(), table);
        assert_eq!(catalog.is_known_processor(), table != "generic", "{table}");
        assert!(!catalog.title().is_empty() && !catalog.manual().is_empty());
    }
    for (identity, table, is_known) in [
        // A Zen 4 for desktops, a Zen 3 for them; Hygon's Zen; a family and a model to come.
        (x86("AuthenticAMD", 0x19, 0x61), "amd_zen4", true),
        (x86("AuthenticAMD", 0x19, 0x21), "amd_zen3", true),
        (x86("HygonGenuine", 0x18, 0x00), "amd_zen1", true),
        // Between the models of Zen 2 lie those of an older one, and of Zen 6 those of Zen 5.
        (x86("AuthenticAMD", 0x17, 0x50), "amd_zen1", true),
        (x86("AuthenticAMD", 0x17, 0x60), "amd_zen2", true),
        (x86("AuthenticAMD", 0x17, 0xb0), "generic", false),
        (x86("AuthenticAMD", 0x1a, 0x44), "amd_zen5", true),
        (x86("AuthenticAMD", 0x1a, 0x30), "generic", false),
        (x86("AuthenticAMD", 0x1a, 0x50), "generic", false),
        (x86("AuthenticAMD", 0x1b, 0x00), "generic", false),
        (x86("GenuineIntel", 6, 0x9e), "intel", true),
        (x86("GenuineIntel", 6, 0xfe), "intel", false),
        (x86("GenuineIntel", 19, 1), "intel", false),
        (power(0x0039), "generic", false),
        (arm(&[0xd03, 0xd08]), "armv8", true),
        (arm(&[0xc07, 0xd08]), "generic", false),
        (arm(&[0xc0f]), "generic", false),
        (Identity::Other { architecture: "riscv64" }, "generic", false),
    ] {
        let catalog = catalog(&identity);
        assert_eq!(
            (catalog.table(), catalog.is_known_processor()),
            (table, is_known),
            "{identity:?}"
        );
    }
}

#[test]
fn an_unknown_arm_core_is_known_by_its_unit() {
    let root = sysfs(&[("bus/event_source/devices/armv8_pmuv3_0/type", "8\n")]);
    let cores = vec![ArmCore { implementer: 0x51, part: 0x001 }];
    let catalog = Catalog::of(&Identity::Arm { cores }, root.path());
    assert_eq!((catalog.table(), catalog.is_known_processor()), ("armv8", false));
    assert_eq!(catalog.resolve("instructions").unwrap().selector, Selector::new(RAW, 0x08));
}

/// Numbers from elsewhere: the lectures and the application note among the sources of this work
/// (Cortex-A7, MPC7455), and Linux's own drivers, which map its generalised events to such codes
/// (events/amd/core.c, power8-pmu.c, power9-pmu.c, power10-pmu.c, mpc7450-pmu.c, arm_pmuv3.c,
/// arm_v6_pmu.c), and FreeBSD's hwpmc_mpc7xxx.c.
#[test]
fn numbers_are_those_known_from_elsewhere() {
    let zen4 = x86("AuthenticAMD", 0x19, 0x11);
    let zen1 = x86("AuthenticAMD", 0x17, 0x01);
    let intel = x86("GenuineIntel", 6, 0x8f);
    for (identity, name, selector, native) in [
        (arm(&[0xb76]), "cycles", Selector::new(RAW, 0xff), "CPU_CYCLES (0xff)"),
        (arm(&[0xb76]), "main_tlb_misses", Selector::new(RAW, 0x0f), "MAIN_TLB_MISS (0x0f)"),
        (arm(&[0xb76]), "l1d_misses", Selector::new(RAW, 0x0b), "DCACHE_MISS (0x0b)"),
        (arm(&[0xc07]), "instructions", Selector::new(RAW, 0x08), "INST_RETIRED (0x08)"),
        (arm(&[0xc07]), "loads", Selector::new(RAW, 0x06), "DATA_READS (0x06)"),
        (arm(&[0xc07]), "bus_cycles", Selector::new(RAW, 0x1d), "BUS_CYCLES (0x1d)"),
        (arm(&[0xd07]), "cycles", Selector::new(RAW, 0x11), "CPU_CYCLES (0x11)"),
        (power(0x8001), "branches", Selector::new(RAW, 0x122), "PM_BR_CMPL (0x122)"),
        (power(0x8001), "l1d_misses", Selector::new(RAW, 0x217), "PM_L1_DCACHE_MISS (0x217)"),
        (power(0x8001), "loads", Selector::new(RAW, 0x21a), "PM_LD_CMPL (0x21a)"),
        (power(0x004d), "branches", Selector::new(RAW, 0x10068), "PM_BRU_FIN (0x10068)"),
        (power(0x004d), "stall_backend", Selector::new(RAW, 0x4000a), "PM_CMPLU_STALL (0x4000a)"),
        (power(0x004e), "branches", Selector::new(RAW, 0x4d05e), "PM_BR_CMPL (0x4d05e)"),
        (power(0x004e), "l1d_accesses", Selector::new(RAW, 0x100fc), "PM_LD_REF_L1 (0x100fc)"),
        (power(0x004e), "l1d_misses", Selector::new(RAW, 0x2c04e), "PM_LD_MISS_L1_FIN (0x2c04e)"),
        (
            power(0x0080),
            "l1d_misses",
            Selector::new(RAW, 0x400f0),
            "PM_LD_DEMAND_MISS_L1_FIN (0x400f0)",
        ),
        (power(0x0080), "l2_misses", Selector::new(RAW, 0x200fe), "PM_DATA_FROM_L2MISS (0x200fe)"),
        (power(0x0080), "instructions", Selector::new(RAW, 0x500fa), "PM_RUN_INST_CMPL (0x500fa)"),
        (
            zen1.clone(),
            "stall_frontend",
            Selector::new(RAW, 0x287),
            "INSTRUCTION_PIPE_STALL.DQ_EMPTY (event 0x87, umask 0x02)",
        ),
        (
            zen1,
            "dtlb_misses",
            Selector::new(RAW, 0xf045),
            "L1_DTLB_MISS.L2_MISS (event 0x45, umask 0xf0)",
        ),
        (
            zen4.clone(),
            "ref_cycles",
            Selector::new(RAW, 0x1_0000_0120),
            "P0_FREQ_CYCLES_NOT_IN_HALT (event 0x120, umask 0x01)",
        ),
        (
            zen4.clone(),
            "l2_misses",
            Selector::new(RAW, 0x0964),
            "CORE_TO_L2_CACHEABLE_REQUEST_ACCESS_STATUS.MISS (event 0x64, umask 0x09)",
        ),
        (
            zen4,
            "l1i_misses",
            Selector::new(RAW, 0x1_0000_188e),
            "IC_TAG_HIT_MISS.MISS (event 0x18e, umask 0x18)",
        ),
        (intel.clone(), "ll_misses", Selector::new(HARDWARE, 3), "LONGEST_LAT_CACHE.MISS"),
        (intel, "dtlb_misses", Selector::new(HW_CACHE, 0x1_0003), "dTLB-load-misses"),
        (power(0x0039), "branch_misses", Selector::new(HARDWARE, 5), "branch-misses"),
        (power(0x0039), "l1i_misses", Selector::new(HW_CACHE, 0x1_0001), "L1-icache-load-misses"),
    ] {
        let event = catalog(&identity).resolve(name).unwrap();
        assert_eq!((event.selector, event.native.as_deref()), (selector, Some(native)), "{name}");
        assert_eq!(
            (event.name.as_str(), event.unit, event.class),
            (name, "events", Class::Hardware)
        );
    }
}

/// The second level of POWER10 counts stores in every other cycle only, in turns with the threads.
#[test]
fn events_that_count_a_part_are_not_inherited() {
    let power9 = catalog(&power(0x004e));
    let power10 = catalog(&power(0x0080));
    for name in ["pm_l2_st", "pm_l2_st_miss"] {
        assert!(power9.resolve(name).is_ok() && power10.resolve(name).is_err(), "{name}");
    }
}

/// A processor may lack architectural events (Nehalem counts no bus cycles, guests fewer), whose
/// codes would count 0; the kernel knows which and refuses them.
#[test]
fn architectural_events_are_left_to_the_kernel() {
    let intel = catalog(&x86("GenuineIntel", 6, 0x1e));
    let names = [
        "cycles",
        "instructions",
        "ll_accesses",
        "ll_misses",
        "branches",
        "branch_misses",
        "bus_cycles",
    ];
    // PERF_COUNT_HW_* of include/uapi/linux/perf_event.h are numbered in this order.
    for (number, name) in (0..).zip(names) {
        assert_eq!(
            intel.resolve(name).unwrap().selector,
            Selector::new(HARDWARE, number),
            "{name}"
        );
    }
}

/// What a table lists can be asked for by that name, and what it says is missing is refused with
/// the reason; names stand there once.
#[test]
fn lists_and_names_agree_for_every_processor() {
    for (table, identity) in one_of_each() {
        let catalog = catalog(&identity);
        let list = catalog.list();
        let names: BTreeSet<_> = list.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), list.len(), "{table}: a name stands there twice");
        assert!(list.len() > 35, "{table}");
        for info in &list {
            assert!(!info.prose.is_empty(), "{table}: {}", info.name);
            match (&info.absent, catalog.resolve(info.name)) {
                (None, Ok(event)) => {
                    assert_eq!((event.name.as_str(), event.class), (info.name, info.class));
                    assert_eq!(event.native.as_deref(), info.native, "{table}: {}", info.name);
                }
                (Some(reason), Err(NameError::NotInTable { reason: told, .. })) => {
                    assert!(!reason.is_empty() && *reason == told, "{table}: {}", info.name);
                }
                (absent, found) => panic!("{table}: {}: {absent:?} but {found:?}", info.name),
            }
        }
    }
}

#[test]
fn native_names_and_other_tools_names_are_understood() {
    let zen = catalog(&x86("AuthenticAMD", 0x19, 0x11));
    let name = |text: &str| zen.resolve(text).unwrap().name;
    assert_eq!(name("RETIRED_INSTRUCTIONS"), "instructions");
    assert_eq!(name("retired-ops"), "retired_ops");
    assert_eq!(name("cpu-cycles"), "cycles");
    assert_eq!(name("task-clock"), "task_clock_ns");
    assert_eq!(name("cs"), "context_switches");
    assert_eq!(name("faults"), "page_faults");
    assert_eq!(name("cpu-migrations"), "migrations");
    // Events that the kernel picks keep a name of their own beside those of the table.
    let loads = zen.resolve("L1-dcache-loads").unwrap();
    assert_eq!(
        (loads.name.as_str(), loads.selector),
        ("l1_dcache_loads", Selector::new(HW_CACHE, 0))
    );
    let old = catalog(&Identity::Other { architecture: "mips" });
    assert_eq!(old.resolve("L1-dcache-loads").unwrap().name, "l1d_accesses");
    let clock = zen.resolve("task_clock_ns").unwrap();
    assert_eq!((clock.unit, clock.class), ("ns", Class::Software));
}

#[test]
fn codes_in_hex_show_the_name_if_the_table_has_one() {
    let a7 = catalog(&arm(&[0xc07]));
    let event = a7.resolve("r08").unwrap();
    assert_eq!((event.name.as_str(), event.selector), ("r08", Selector::new(RAW, 8)));
    assert_eq!(event.native.as_deref(), Some("INST_RETIRED (0x08)"));
    let event = a7.resolve("rFFFFFFFFFFFFFFFF").unwrap();
    assert_eq!((event.selector.config, event.native), (u64::MAX, None));
    for bad in ["r", "r10000000000000000", "r+1", "rx1", "r-1"] {
        assert!(matches!(a7.resolve(bad), Err(NameError::Unknown { .. })), "{bad}");
    }
}

#[test]
fn user_mode_only_is_asked_for_behind_the_name() {
    let intel = catalog(&x86("GenuineIntel", 6, 0x8f));
    let event = intel.resolve("instructions:u").unwrap();
    assert_eq!((event.name.as_str(), event.is_user_only), ("instructions", true));
    assert!(!intel.resolve("instructions").unwrap().is_user_only);
    assert!(intel.resolve("r1c2:u").unwrap().is_user_only);
    assert!(intel.resolve("page_faults:u").unwrap().is_user_only);
    for bad in ["instructions:k", "cycles:", "r1c2:pp", "context_switches:u", "migrations:u"] {
        assert!(matches!(intel.resolve(bad), Err(NameError::Malformed { .. })), "{bad}");
    }
    let kernel_only: BTreeSet<_> = intel
        .list()
        .iter()
        .filter(|info| info.absent.is_none() && is_kernel_only(&intel.resolve(info.name).unwrap()))
        .map(|info| info.name)
        .collect();
    let expected = ["bpf_outputs", "cgroup_switches", "context_switches", "migrations"];
    assert!(kernel_only.iter().eq(&expected), "{kernel_only:?}");
}

#[test]
fn unknown_names_suggest_what_is_near() {
    let zen = catalog(&x86("AuthenticAMD", 0x19, 0x11));
    let near = |name: &str| match zen.resolve(name) {
        Err(error @ NameError::Unknown { .. }) => {
            let text = error.to_string();
            let NameError::Unknown { nearest, .. } = error else { unreachable!() };
            assert!(nearest.iter().all(|name| text.contains(name.as_str())), "{text}");
            nearest
        }
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(near("instrctions")[0], "instructions");
    assert_eq!(near("brnach-misses")[0], "branch_misses");
    assert_eq!(near("contextswitches")[0], "context_switches");
    assert_eq!(near("qqqq"), [""; 0]);
    assert_eq!(near(" "), [""; 0]);
    // Every suggestion is a name that is understood, if not counted here.
    for suggested in near("l1d") {
        assert!(!matches!(zen.resolve(&suggested), Err(NameError::Unknown { .. })), "{suggested}");
    }
    let text = zen.resolve("stall_backend").unwrap_err().to_string();
    assert!(text.contains("stall_backend") && text.contains("amd_zen4"), "{text}");
    assert!(matches!(zen.resolve(""), Err(NameError::Malformed { .. })));
    assert!(matches!(zen.resolve(":u"), Err(NameError::Malformed { .. })));
}

/// QEMU's Cortex-A57 implements three events, and the others would read 0.
#[test]
fn events_that_a_core_lacks_are_refused_and_the_next_is_taken() {
    let unit = "bus/event_source/devices/armv8_cortex_a57";
    let file = |name: &str| format!("{unit}/events/{name}");
    let cycles = file("cpu_cycles");
    let instructions = file("inst_retired");
    let taken = file("pc_write_retired");
    let root =
        sysfs(&[(&cycles, "event=0x11"), (&instructions, "event=0x8"), (&taken, "event=0xc")]);
    let catalog = Catalog::of(&arm(&[0xd07]), root.path());
    assert_eq!(catalog.resolve("instructions").unwrap().selector.config, 0x08);
    let branches = catalog.resolve("branches").unwrap();
    assert_eq!(branches.native.as_deref(), Some("PC_WRITE_RETIRED (0x0c)"));
    for name in ["l1d_misses", "L1D_CACHE_REFILL", "loads", "br_retired"] {
        let error = catalog.resolve(name).unwrap_err();
        let NameError::NotInTable { reason, table, .. } = &error else { panic!("{error:?}") };
        assert!(reason.contains("armv8_cortex_a57") && *table == "armv8", "{error}");
    }
    let list = catalog.list();
    let counted = |info: &&EventInfo| info.absent.is_none() && info.class == Class::Hardware;
    let counted: BTreeSet<_> = list.iter().filter(counted).map(|info| info.name).collect();
    assert!(counted.iter().eq(&["branches", "cycles", "instructions"]), "{counted:?}");
    // A core that has the better event as well is counted by it.
    std::fs::write(root.path().join(file("br_retired")), "event=0x21").unwrap();
    assert_eq!(catalog.resolve("branches").unwrap().selector.config, 0x21);
    assert_eq!(catalog.resolve("pc_write_retired").unwrap().name, "pc_write_retired");
    // One kind of core of two that lacks an event would leave its threads uncounted.
    let little = root.path().join("bus/event_source/devices/armv8_cortex_a53/events");
    std::fs::create_dir_all(&little).unwrap();
    std::fs::write(little.join("cpu_cycles"), "event=0x11").unwrap();
    let both = Catalog::of(&arm(&[0xd03, 0xd07]), root.path());
    assert!(both.resolve("cycles").is_ok() && both.resolve("instructions").is_err());
}

/// QEMU's Cortex-A7 counts three events, and Linux's driver opens them all.
#[test]
fn events_that_an_emulator_leaves_at_0_are_refused() {
    let a7 = catalog(&arm(&[0xc07]));
    assert!(a7.resolve("l1d_misses").is_ok());
    let a7 = a7.on_emulator();
    for name in ["instructions", "cycles", "sw_incr", "r03", "task_clock_ns"] {
        assert!(a7.resolve(name).is_ok(), "{name}");
    }
    for name in ["l1d_misses", "L1D_CACHE_REFILL", "branches"] {
        let error = a7.resolve(name).unwrap_err();
        let NameError::NotInTable { reason, .. } = &error else { panic!("{error:?}") };
        assert!(reason.contains("emulat"), "{error}");
    }
    for nothing in [power(0x8001), arm(&[0xb76])] {
        assert!(catalog(&nothing).on_emulator().resolve("cycles").is_err());
    }
    for version in [0x004d, 0x004e, 0x0080] {
        let power = catalog(&power(version)).on_emulator();
        for name in ["cycles", "instructions", "pm_run_cyc", "pm_run_inst_cmpl"] {
            assert!(power.resolve(name).is_ok(), "{version:#x}: {name}");
        }
        assert!(power.resolve("l1d_misses").is_err() && power.resolve("branches").is_err());
    }
    // Other tables' emulators are believed, or the kernel tells.
    assert!(catalog(&arm(&[0xd08])).on_emulator().resolve("l1d_misses").is_ok());
}

fn units() -> TempDir {
    sysfs(&[
        ("bus/event_source/devices/cpu/type", "4\n"),
        ("bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
        ("bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
        ("bus/event_source/devices/cpu/format/edge", "config:18\n"),
        ("bus/event_source/devices/cpu/format/ldlat", "config1:0-15\n"),
        ("bus/event_source/devices/cpu/format/odd", "config9:0-15\n"),
        ("bus/event_source/devices/cpu/format/worse", "config:7-64\n"),
        ("bus/event_source/devices/cpu/events/instructions", "event=0xc0\n"),
        ("bus/event_source/devices/cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("bus/event_source/devices/cpu/events/asks", "event=0xc1,umask=?\n"),
        ("bus/event_source/devices/cpu/events/itself", "itself\n"),
        ("bus/event_source/devices/power/type", "23\n"),
        ("bus/event_source/devices/power/format/event", "config:0-7\n"),
        ("bus/event_source/devices/power/events/energy-pkg", "event=0x02\n"),
        (
            "bus/event_source/devices/power/events/energy-pkg.scale",
            "2.3283064365386962890625e-10\n",
        ),
        ("bus/event_source/devices/power/events/energy-pkg.unit", "Joules\n"),
        ("bus/event_source/devices/software/type", "1\n"),
        ("bus/event_source/devices/broken/type", "no number\n"),
    ])
}

#[test]
fn units_are_asked_by_their_files() {
    let root = units();
    let catalog = Catalog::of(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, kind, words) in [
        ("cpu/event=0x3c,umask=0x1/", 4, [0x13c, 0, 0]),
        ("cpu/event=0x1a0,umask=1/", 4, [0x1_0000_01a0, 0, 0]),
        ("cpu/event=60/", 4, [60, 0, 0]),
        ("cpu/event=0xc0,edge/", 4, [0x4_00c0, 0, 0]),
        ("cpu/instructions/", 4, [0xc0, 0, 0]),
        ("cpu/mem-loads/", 4, [0x1cd, 3, 0]),
        ("cpu/config=0x2f4f2e,config1=7,config2=0xffffffffffffffff/", 4, [0x2f_4f2e, 7, u64::MAX]),
        ("power/energy-pkg/", 23, [2, 0, 0]),
        ("software/config=1/", SOFTWARE, [1, 0, 0]),
    ] {
        let event = catalog.resolve(name).unwrap();
        let [config, config1, config2] = words;
        assert_eq!(event.selector, Selector { kind, config, config1, config2 }, "{name}");
        let class = if kind == SOFTWARE { Class::Software } else { Class::Hardware };
        assert_eq!((event.name.as_str(), event.class, event.is_user_only), (name, class, false));
    }
    let energy = catalog.resolve("power/energy-pkg/").unwrap().native;
    assert_eq!(energy.as_deref(), Some("one count is 2.3283064365386962890625e-10 Joules"));
    for name in ["cpu/event=0x3c/u", "cpu/event=0x3c/:u"] {
        let event = catalog.resolve(name).unwrap();
        assert_eq!((event.name.as_str(), event.is_user_only), ("cpu/event=0x3c/", true));
    }
}

#[test]
fn units_refuse_what_they_do_not_have() {
    let root = units();
    let catalog = Catalog::of(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, told) in [
        ("cpu/evnt=0x3c/", "did you mean event"),
        ("cpu/instructoins/", "did you mean instructions"),
        ("cpu/qqqqqq/", "it has: "),
        ("cpu/event=0x1000/", "does not fit"),
        ("cpu/umask=0x100/", "does not fit"),
        ("cpu/event=/", "no number"),
        ("cpu/event=0x/", "no number"),
        ("cpu/event=0x+1/", "no number"),
        ("cpu/event=x/", "no number"),
        ("cpu/config=0x10000000000000000/", "no number"),
        ("cpu/asks/", "needs a value"),
        ("cpu/odd=1/", "not understood"),
        ("cpu/worse=1/", "not understood"),
        ("cpu/itself/", "no term or event"),
        ("cpu/../../cpu/type=1/", "no term"),
        ("cpu/,/", "no term"),
        ("cpu//", "no term"),
        ("broken/event=1/", "no number"),
        ("cpu/event=1/k", "ends in"),
        ("cpu/event=1", "ends in"),
        ("/", "ends in"),
        ("../cpu/event=1/", "no name of a unit"),
        ("nowhere/event=x/", "no number"),
        ("nowhere//", "no term"),
    ] {
        match catalog.resolve(name) {
            Err(NameError::Malformed { reason, .. }) => {
                assert!(reason.contains(told), "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A counted 0 would say that there were none; there is nobody who counts.
#[test]
fn faults_that_x86_never_has_are_absent_there() {
    let intel = Catalog::of(&x86("GenuineIntel", 6, 0x8f), Path::new("/nowhere"));
    let other = Catalog::of(&Identity::Other { architecture: "none" }, Path::new("/nowhere"));
    for name in ["alignment_faults", "alignment-faults", "emulation_faults"] {
        let error = intel.resolve(name).unwrap_err();
        assert!(matches!(&error, NameError::NotInTable { .. }), "{error}");
        assert!(error.to_string().contains("x86"), "{error}");
        assert_eq!(other.resolve(name).unwrap().class, Class::Software);
    }
    let absent = |catalog: &Catalog| {
        let all = catalog.list();
        let named = all.iter().filter(|info| info.name.ends_with("n_faults"));
        named
            .chain(all.iter().filter(|info| info.name == "alignment_faults"))
            .map(|info| info.absent.is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!((absent(&intel), absent(&other)), (vec![true; 2], vec![false; 2]));
}

/// It may be there on the next machine: no reason to count nothing on this one.
#[test]
fn a_unit_that_is_not_there_is_told_from_a_name_that_means_nothing() {
    let root = units();
    let catalog = Catalog::of(&x86("GenuineIntel", 6, 0x8f), root.path());
    for (name, near) in [
        ("pwoer/energy-pkg/", &["power/energy-pkg/"][..]),
        ("cpu_atom/event=0x08,umask=0x01/u", &[]),
    ] {
        let error = catalog.resolve(name).unwrap_err();
        assert!(error.to_string().contains("it has: "), "{error}");
        assert!(matches!(error, NameError::NoUnit { nearest, .. } if nearest == near));
    }
    let bare = sysfs(&[("kernel/none", "")]);
    let catalog = Catalog::of(&x86("GenuineIntel", 6, 0x8f), bare.path());
    let error = catalog.resolve("cpu/event=0x08/").unwrap_err();
    assert!(error.to_string().contains("no unit `cpu`; it has: none at all"), "{error}");
}

#[test]
fn tracepoints_are_numbers_in_tracefs() {
    let identity = x86("GenuineIntel", 6, 0x8f);
    let root = sysfs(&[
        ("kernel/tracing/events/net/netif_rx/id", "1523\n"),
        ("kernel/tracing/events/net/net_dev_queue/id", "1525\n"),
        ("kernel/tracing/events/napi/napi_poll/id", "damaged"),
        ("kernel/tracing/events/enable", "0\n"),
    ]);
    let catalog = Catalog::of(&identity, root.path());
    let event = catalog.resolve("net:netif_rx").unwrap();
    assert_eq!((event.name.as_str(), event.class), ("net:netif_rx", Class::Tracepoint));
    assert_eq!((event.selector, event.native), (Selector::new(TRACEPOINT, 1523), None));
    let nearest = |name: &str| match catalog.resolve(name) {
        Err(NameError::Unknown { nearest, .. }) => nearest,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(nearest("net:netif_xr"), ["net:netif_rx"]);
    assert_eq!(nearest("nte:netif_rx"), ["net:netif_rx"]);
    assert_eq!(nearest("sched:sched_switch"), [""; 0]);
    for bad in
        ["net:netif_rx:u", "napi:napi_poll", "net:../net/netif_rx", "net:", ":netif_rx", "a:b:c"]
    {
        assert!(matches!(catalog.resolve(bad), Err(NameError::Malformed { .. })), "{bad}");
    }
    // Where older kernels have it.
    let root = sysfs(&[("kernel/debug/tracing/events/net/netif_rx/id", "7\n")]);
    let catalog = Catalog::of(&identity, root.path());
    assert_eq!(catalog.resolve("net:netif_rx").unwrap().selector.config, 7);
    let catalog = Catalog::of(&identity, sysfs(&[]).path());
    let error = catalog.resolve("net:netif_rx").unwrap_err();
    let NameError::NoTracefs { fix, .. } = &error else { panic!("{error:?}") };
    assert!(fix.starts_with("mount -t tracefs") && error.to_string().contains(fix), "{error}");
}

/// The kernel itself is the judge of the software events: it opens each of them.
#[test]
fn the_kernel_knows_the_software_events() {
    let catalog = Catalog::of_this_machine();
    let task_clock = catalog.resolve("task_clock_ns").unwrap();
    let open = |selector| perf::open(&Request::new(selector), Target::CurrentThread, None);
    if let Err(error) = open(task_clock.selector) {
        println!("SKIP: software events are refused: {error}");
        return;
    }
    // cgroup-switches came with Linux 5.13; which older kernels refuse.
    let software = catalog.list().into_iter().filter(|info| info.class == Class::Software);
    let software = software.filter(|info| info.absent.is_none());
    for info in software.filter(|info| info.name != "cgroup_switches") {
        let event = catalog.resolve(info.name).unwrap();
        if let Err(error) = open(event.selector) {
            // EACCES: kernel mode is forbidden, but the event was found.
            assert_eq!(error.errno, 13, "{}: {error}", info.name);
        }
    }
}

/// Bits of a format, filled one by one.
fn fill_slowly(ranges: &[(u32, u32)], number: u64) -> Option<u64> {
    let places: Vec<u32> = ranges.iter().flat_map(|&(first, last)| first..=last).collect();
    let mut word = 0;
    for (bit, place) in places.iter().enumerate() {
        word |= (number >> bit & 1) << place;
    }
    (places.len() >= 64 || number >> places.len() == 0).then_some(word)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn formats_are_filled_as_bit_by_bit(
        cuts in prop::collection::btree_set(0u32..64, 2..9),
        number: u64,
        shift in 0u32..64,
    ) {
        let cuts: Vec<u32> = cuts.into_iter().collect();
        let ranges: Vec<_> = cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let text: Vec<_> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        let format = format!("config:{}", text.join(","));
        let root = sysfs(&[
            ("bus/event_source/devices/unit/type", "9"),
            ("bus/event_source/devices/unit/format/term", &format),
        ]);
        let number = number >> shift;
        let catalog = Catalog::of(&x86("any", 0, 0), root.path());
        let found = catalog.resolve(&format!("unit/term={number:#x}/"));
        let config = found.ok().map(|event| event.selector.config);
        prop_assert_eq!(config, fill_slowly(&ranges, number), "{} {:#x}", format, number);
    }

    #[test]
    fn no_name_is_too_odd(
        name in concat!(
            "(cpu/|net:|r|\\PC{0,6})(event|umask|u|[0-9a-fx]{0,4}|\\PC{0,5})",
            "(=|,|:|/|){0,2}(0x[0-9a-f]{0,3}|/|:u|\\PC{0,4})",
        ),
        text in "\\PC{0,12}",
    ) {
        let root = sysfs(&[
            ("bus/event_source/devices/cpu/type", "4"),
            ("bus/event_source/devices/cpu/format/event", &text),
            ("bus/event_source/devices/cpu/events/u", &text),
            ("kernel/tracing/events/net/u/id", &text),
        ]);
        let catalog = Catalog::of(&x86("AuthenticAMD", 0x19, 1), root.path());
        match catalog.resolve(&name) {
            Ok(event) => prop_assert!(!event.name.is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
