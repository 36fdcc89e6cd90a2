// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with guests, boards, processes confined to some CPUs, and files with arbitrary contents.

use super::*;
use proptest::prelude::*;

#[test]
fn reports_host_settings_to_a_guest() {
    let guest = guest();
    guest.says("platform", Verdict::Fact, "unnamed", "");
    guest.says("timestamp_counter", Verdict::Advice, "not guaranteed", "");
    guest.says("isa", Verdict::Fact, "sse2", "");
    guest.says("steal", Verdict::Advice, "10.0 %", "");
    let ps = "ps -eo pcpu,pid,args --sort=-pcpu | head  # lists the busiest programs";
    guest.says("load", Verdict::Advice, "2.50 on 1 CPU", ps);
    guest.says("isolated_cpus", Verdict::Fact, "none", "");
    for name in ["governor", "clocksource", "cores", "caches", "irq_affinity", "huge_pages"] {
        guest.says(name, Verdict::Unknown, "", "");
    }
}

/// A column that is not a number must not let another one take its place.
#[test]
fn a_damaged_account_shows_no_steal_time() {
    let stat = ("proc/stat", "cpu  100 x 100 700 0 0 0 0 500 0");
    guest().with(&[stat]).is_silent_about("steal");
}

#[test]
fn the_narrowest_quota_of_all_groups_counts() {
    let v2 = guest();
    let file = "/sys/fs/cgroup/system.slice/docker-1.scope/cpu.max";
    v2.says("cpu_quota", Verdict::Advice, "0.50 CPUs", &format!("echo max | sudo tee {file}"));
    let outer = v2.with(&[("sys/fs/cgroup/system.slice/docker-1.scope/cpu.max", "max 100000")]);
    let file = "/sys/fs/cgroup/system.slice/cpu.max";
    outer.says("cpu_quota", Verdict::Advice, "1.50 CPUs", &format!("echo max | sudo tee {file}"));
    // cgroup version 1. Inside a container, the process's own cgroup is mounted at the top.
    let v1 = Machine::new(&[
        ("proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ]);
    let file = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us";
    v1.says("cpu_quota", Verdict::Advice, "2.00 CPUs", &format!("echo -1 | sudo tee {file}"));
    let none = v1.with(&[("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")]);
    none.says("cpu_quota", Verdict::Good, "none", "");
}

#[test]
fn boards_of_other_makers() {
    let pi =
        Machine::new(&[("proc/cpuinfo", RASPBERRY_PI_4), ("sys/devices/system/cpu/online", "0-3")]);
    pi.says("cpu", Verdict::Fact, "Cortex-A72 (Raspberry Pi 4 Model B Rev 1.1)", "");
    pi.says("isa", Verdict::Fact, "asimd crc32", "");
    pi.says("platform", Verdict::Unknown, "", "");
    pi.is_silent_about("timestamp_counter");
    let g4 = Machine::new(&[("proc/cpuinfo", POWER_MAC_G4)]);
    g4.says("isa", Verdict::Fact, "altivec", "");
    let at = "sys/devices/system/cpu/cpu0/topology";
    let unnumbered = Machine::new(&[
        ("sys/devices/system/cpu/online", "0-7"),
        (&format!("{at}/thread_siblings_list"), "0-7"),
        (&format!("{at}/physical_package_id"), "-1"),
    ]);
    unnumbered.says("cores", Verdict::Fact, "1 core", "");
    unnumbered.says("isolated_cpus", Verdict::Fact, "none", "");
}

/// An emulated board with a Cortex-A57: caches without sizes, and huge pages of 64 KiB in addition
/// to the usual 2 MiB.
#[test]
fn ignores_partial_information_of_the_kernel() {
    let pages = |kib: u32| format!("sys/kernel/mm/hugepages/hugepages-{kib}kB");
    let board = Machine::new(&[
        ("sys/devices/system/cpu/online", "0"),
        ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
        ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data"),
        ("proc/meminfo", "MemTotal: 500000 kB\nHugepagesize:       2048 kB"),
        (&format!("{}/nr_hugepages", pages(64)), "0"),
        (&format!("{}/free_hugepages", pages(64)), "0"),
        (&format!("{}/nr_hugepages", pages(2048)), "0"),
        (&format!("{}/free_hugepages", pages(2048)), "0"),
    ]);
    board.says("caches", Verdict::Unknown, "", "");
    board.says("huge_pages", Verdict::Advice, "0 of 0 (64 KiB), 0 of 0 (2 MiB)", "");
    // At most a quarter of the available 400 MB is reserved.
    let told = "MemTotal: 500000 kB\nMemAvailable: 400000 kB\nHugepagesize:       2048 kB";
    let board = board.with(&[("proc/meminfo", told)]);
    board.says(
        "huge_pages",
        Verdict::Advice,
        "0 of 0 (64 KiB), 0 of 0 (2 MiB)",
        "echo 48 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    );
}

#[test]
fn an_allowed_part_of_the_machine_is_named() {
    let part = server().with(&[("proc/self/status", "Cpus_allowed_list:\t2-3")]);
    part.says("cpus", Verdict::Advice, "2 of 8", "taskset -c 0-7 linerate doctor");
    // taskset cannot leave a cgroup.
    let group = "sys/fs/cgroup/user.slice/session.scope/cpuset.cpus.effective";
    let wider = part.with(&[(group, "0-3")]);
    wider.says("cpus", Verdict::Advice, "2 of 8", "taskset -c 0-3 linerate doctor");
    wider.with(&[(group, "2-3")]).says("cpus", Verdict::Advice, "2 of 8", "");
}

/// Only advice has a command. Advice without one is for problems that no command can fix.
#[test]
fn nothing_but_advice_has_a_command() {
    for observation in [server().observe(), guest().observe()].concat() {
        let advises =
            observation.verdict >= Verdict::Advice && observation.verdict != Verdict::Unknown;
        assert!(advises || observation.fix.is_none(), "{observation:?}");
        assert_eq!(observation.value.is_none(), observation.verdict == Verdict::Unknown);
        assert!(observation.sentence.len() > 10, "{observation:?}");
    }
}

/// Without any files, nothing is reported.
#[test]
fn an_empty_machine_is_unknown() {
    for observation in Machine::new(&[]).observe() {
        assert_eq!(observation.verdict, Verdict::Unknown, "{observation:?}");
    }
}

#[test]
fn this_machine_is_observed_in_the_order_of_the_sections() {
    let all = observe(&Root::new(Path::new("/")));
    assert!(all.is_sorted_by_key(|o| o.section));
    let sections = [Section::Processor, Section::Topology, Section::DataPlane];
    assert!(sections.iter().all(|section| all.iter().any(|o| o.section == *section)));
    let mut names: Vec<&str> = all.iter().map(|o| o.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len(), "{all:?}");
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = linerate_machine::parse_cpu_list(online.trim()).unwrap().len();
    let cpus = all.iter().find(|o| o.name == "cpus").unwrap();
    assert!(cpus.value.as_ref().unwrap().ends_with(&format!(" of {online}")), "{cpus:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        cases: 24,
        ..ProptestConfig::default()
    })]

    /// For arbitrary file contents, reading terminates and each observation is complete.
    #[test]
    fn files_may_hold_anything(
        texts in prop::collection::vec("[0-9a-z,\\-: \\[\\]\\n]{0,30}|.{0,30}", 12),
    ) {
        let paths = [
            "proc/cpuinfo", "proc/self/status", "proc/self/cgroup", "proc/loadavg", "proc/stat",
            "sys/devices/system/cpu/online", "sys/devices/system/cpu/isolated",
            "sys/kernel/mm/hugepages/hugepages-18446744073709551kB/nr_hugepages",
            "sys/kernel/mm/hugepages/hugepages-18446744073709551kB/free_hugepages",
            "sys/kernel/mm/transparent_hugepage/enabled", "sys/fs/cgroup/cpu.max",
            "sys/class/net/eth0/queues/rx-0/rps_cpus",
        ];
        let files: Vec<(&str, &str)> =
            paths.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let machine = Machine::new(&files).with(&[("sys/class/net/eth0/device/x", "")]);
        for observation in machine.observe() {
            prop_assert!(!observation.sentence.is_empty(), "{:?}", observation);
        }
    }
}
