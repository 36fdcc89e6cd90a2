// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the tables against published event codes, and every notation against synthetic files.

mod notations;

use super::*;
use linerate_linux::perf::{HARDWARE, HW_CACHE, SOFTWARE, TRACEPOINT};
use linerate_machine::identity::ArmCore;
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

/// Creates a directory laid out like /sys with the given files.
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
    Catalog::for_processor(identity, sysfs(&[]).path())
}

/// Returns one processor per table.
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
        // Desktop Zen 4 and Zen 3, and Hygon's Zen. The list also has a future family and a future
        // model.
        (x86("AuthenticAMD", 0x19, 0x61), "amd_zen4", true),
        (x86("AuthenticAMD", 0x19, 0x21), "amd_zen3", true),
        (x86("HygonGenuine", 0x18, 0x00), "amd_zen1", true),
        // Zen 2 model numbers are interspersed with an older Zen's, and Zen 6's with Zen 5's.
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
    let catalog = Catalog::for_processor(&Identity::Arm { cores }, root.path());
    assert_eq!((catalog.table(), catalog.is_known_processor()), ("armv8", false));
    assert_eq!(catalog.resolve("instructions").unwrap().selector, Selector::new(RAW, 0x08));
}

/// The expected codes come from independent sources: the lectures and the application note on which
/// this project is based (Cortex-A7, MPC7455); Linux's drivers, which map generic events to these
/// codes (events/amd/core.c, power8-pmu.c, power9-pmu.c, power10-pmu.c, mpc7450-pmu.c, arm_pmuv3.c,
/// arm_v6_pmu.c); and FreeBSD's hwpmc_mpc7xxx.c.
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

/// POWER10's L2 cache counts stores only in every other cycle, alternating between threads, so its
/// table must not inherit POWER9's L2 store events.
#[test]
fn events_that_count_a_part_are_not_inherited() {
    let power9 = catalog(&power(0x004e));
    let power10 = catalog(&power(0x0080));
    for name in ["pm_l2_st", "pm_l2_st_miss"] {
        assert!(power9.resolve(name).is_ok() && power10.resolve(name).is_err(), "{name}");
    }
}

/// A processor may lack some architectural events (Nehalem does not count bus cycles, and guests
/// have even fewer events). Missing events would count 0, but the kernel knows which are missing
/// and refuses them.
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
    // PERF_COUNT_HW_* in include/uapi/linux/perf_event.h are numbered in this order.
    for (number, name) in (0..).zip(names) {
        assert_eq!(
            intel.resolve(name).unwrap().selector,
            Selector::new(HARDWARE, number),
            "{name}"
        );
    }
}

/// Every available event resolves by its listed name, every absent one is refused with a reason,
/// and names are unique.
#[test]
fn lists_and_names_agree_for_every_processor() {
    for (table, identity) in one_of_each() {
        let catalog = catalog(&identity);
        let list = catalog.list();
        let names: BTreeSet<_> = list.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), list.len(), "{table}: duplicate name");
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
    // Events whose codes the kernel chooses have names different from those in the table.
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
fn user_mode_only_is_a_suffix_of_the_name() {
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
    // Every suggestion is a known name, even if its event is not counted here.
    for suggested in near("l1d") {
        assert!(!matches!(zen.resolve(&suggested), Err(NameError::Unknown { .. })), "{suggested}");
    }
    let text = zen.resolve("stall_backend").unwrap_err().to_string();
    assert!(text.contains("stall_backend") && text.contains("amd_zen4"), "{text}");
    assert!(matches!(zen.resolve(""), Err(NameError::Malformed { .. })));
    assert!(matches!(zen.resolve(":u"), Err(NameError::Malformed { .. })));
}

/// QEMU's Cortex-A57 implements three events; all others would count 0. A portable name resolves to
/// the first of its native events that the core implements.
#[test]
fn events_that_a_core_lacks_are_refused_and_the_next_is_taken() {
    let unit = "bus/event_source/devices/armv8_cortex_a57";
    let file = |name: &str| format!("{unit}/events/{name}");
    let cycles = file("cpu_cycles");
    let instructions = file("inst_retired");
    let taken = file("pc_write_retired");
    let root =
        sysfs(&[(&cycles, "event=0x11"), (&instructions, "event=0x8"), (&taken, "event=0xc")]);
    let catalog = Catalog::for_processor(&arm(&[0xd07]), root.path());
    assert_eq!(catalog.resolve("instructions").unwrap().selector.config, 0x08);
    let branches = catalog.resolve("branches").unwrap();
    assert_eq!(branches.native.as_deref(), Some("PC_WRITE_RETIRED (0x0c)"));
    for name in ["l1d_misses", "L1D_CACHE_REFILL", "loads", "br_retired"] {
        let error = catalog.resolve(name).unwrap_err();
        let NameError::NotInTable { reason, table, .. } = &error else { panic!("{error:?}") };
        assert!(reason.contains("armv8_cortex_a57") && *table == "armv8", "{error}");
    }
    // The kernel, not the cores, may lack the event: its name was added to the driver later.
    let error = catalog.resolve("ll_misses").unwrap_err();
    let NameError::NotInTable { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("or the kernel is too old") && reason.contains("-e r37 "), "{error}");
    assert_eq!(catalog.resolve("r37").unwrap().selector.config, 0x37);
    let list = catalog.list();
    let counted = |info: &&EventInfo| info.absent.is_none() && info.class == Class::Hardware;
    let counted: BTreeSet<_> = list.iter().filter(counted).map(|info| info.name).collect();
    assert!(counted.iter().eq(&["branches", "cycles", "instructions"]), "{counted:?}");
    // If a core also has the preferred event, that one is used.
    std::fs::write(root.path().join(file("br_retired")), "event=0x21").unwrap();
    assert_eq!(catalog.resolve("branches").unwrap().selector.config, 0x21);
    assert_eq!(catalog.resolve("pc_write_retired").unwrap().name, "pc_write_retired");
    // If one of two core types lacks an event, threads running on that type would not be counted.
    let little = root.path().join("bus/event_source/devices/armv8_cortex_a53/events");
    std::fs::create_dir_all(&little).unwrap();
    std::fs::write(little.join("cpu_cycles"), "event=0x11").unwrap();
    let both = Catalog::for_processor(&arm(&[0xd03, 0xd07]), root.path());
    assert!(both.resolve("cycles").is_ok() && both.resolve("instructions").is_err());
}

/// QEMU's Cortex-A7 counts three events, but Linux's driver opens all. Those that the emulator
/// would leave at 0 are refused.
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
    // For other tables, events are assumed to work on emulators, or the kernel lists those that do.
    assert!(catalog(&arm(&[0xd08])).on_emulator().resolve("l1d_misses").is_ok());
}
