// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic machines, whose files are in a directory. This file has a server and a
//! guest.

mod other_machines;

use super::*;
use linerate_record::doctor::{Section, Verdict};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

const RASPBERRY_PI_4: &str = include_str!("../../../machine/src/cpuinfo/raspberry_pi_4.txt");
const POWER_MAC_G4: &str = include_str!("../../../machine/src/cpuinfo/power_mac_g4.txt");

/// A machine in a directory, and its observations.
struct Machine(TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.with(files)
    }

    /// Adds or replaces files.
    fn with(self, files: &[(&str, &str)]) -> Self {
        for (path, text) in files {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        self
    }

    fn observe(&self) -> Vec<Observation> {
        observe(&Root::new(self.0.path()))
    }

    #[track_caller]
    fn says(&self, name: &str, verdict: Verdict, value: &str, fix: &str) {
        let all = self.observe();
        let found = all.iter().find(|o| o.name == name);
        let found = found.unwrap_or_else(|| panic!("no observation {name}: {all:?}"));
        assert_eq!(
            (found.verdict, found.value.as_deref().unwrap_or("")),
            (verdict, value),
            "{found:?}"
        );
        assert_eq!(found.fix.as_deref().unwrap_or(""), fix, "{found:?}");
    }

    #[track_caller]
    fn is_silent_about(&self, name: &str) {
        assert!(self.observe().iter().all(|o| o.name != name), "{name}");
    }
}

/// Core idle states, and mitigations of vulnerabilities.
const SLEEP_AND_FLAWS: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1E"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "10"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0"),
    ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI"),
    ("sys/devices/system/cpu/vulnerabilities/itlb_multihit", "KVM: Mitigation: Split huge pages"),
    ("sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable: Clear CPU buffers attempted"),
    ("sys/devices/system/cpu/vulnerabilities/retbleed", "Not affected"),
];

/// A server with two packages, two cores per package and two threads per core, in its default
/// configuration.
fn server() -> Machine {
    let flags = "flags\t: fpu tsc constant_tsc nonstop_tsc sse2 avx avx2 bmi2 avx512bw fsrm";
    let cpuinfo = format!("vendor_id\t: GenuineIntel\nmodel name\t: Xeon\n{flags}");
    let machine = Machine::new(&[
        ("proc/cpuinfo", &cpuinfo),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7"),
        ("proc/self/cgroup", "0::/user.slice/session.scope"),
        ("proc/loadavg", "0.12 0.10 0.09 1/300 4242"),
        ("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0"),
        ("proc/sys/kernel/numa_balancing", "1"),
        ("sys/devices/system/cpu/online", "0-7"),
        ("sys/devices/system/cpu/isolated", ""),
        ("sys/devices/system/cpu/smt/active", "1"),
        ("sys/devices/system/cpu/smt/control", "on"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
        (
            "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors",
            "performance powersave",
        ),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm"),
        ("sys/devices/system/node/node0/cpulist", "0-1,4-5"),
        ("sys/devices/system/node/node1/cpulist", "2-3,6-7"),
        ("sys/devices/system/node/possible", "0-1"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        ("sys/class/net/eth0/device/numa_node", "1"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00"),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", "00"),
        ("sys/class/net/lo/queues/rx-0/rps_cpus", "00"),
        ("proc/irq/24/smp_affinity_list", "0-7"),
        ("proc/irq/24/effective_affinity_list", "3"),
        ("proc/irq/25/smp_affinity_list", "0-7"),
        ("proc/irq/25/effective_affinity_list", "4"),
        ("proc/irq/24/eth0-rx-0", ""),
        ("proc/irq/25/nvme0q1", ""),
        // No handler is registered for this interrupt, so it never fires.
        ("proc/irq/7/smp_affinity_list", "0-7"),
        ("proc/irq/7/spurious", "count 0"),
        ("proc/irq/default_smp_affinity", "ff"),
        ("proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 60000000 kB\nHugepagesize: 2048 kB"),
        ("sys/devices/system/cpu/nohz_full", "(null)"),
        ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086"),
        ("usr/sbin/update-grub", ""),
        ("etc/default/grub.d/README", ""),
        ("etc/default/grub", ""),
    ]);
    let mut files = Vec::new();
    for cpu in 0..8 {
        let at = format!("sys/devices/system/cpu/cpu{cpu}");
        let core = cpu % 4;
        files.push((format!("{at}/topology/thread_siblings_list"), format!("{core},{}", core + 4)));
        files.push((format!("{at}/topology/physical_package_id"), (core / 2).to_string()));
        for (name, text) in [
            ("level", "1"),
            ("type", "Data"),
            ("size", "48K"),
            ("coherency_line_size", "64"),
            ("shared_cpu_list", "0,4"),
        ] {
            files.push((format!("{at}/cache/index0/{name}"), text.to_owned()));
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    machine.with(&files).with(SLEEP_AND_FLAWS)
}

/// A single-CPU guest without cpufreq governor, NUMA node or NIC, in a container with a CPU quota.
fn guest() -> Machine {
    let flags = "flags\t: fpu tsc sse2 hypervisor";
    Machine::new(&[
        ("proc/cpuinfo", &format!("vendor_id\t: AuthenticAMD\nmodel name\t: EPYC\n{flags}")),
        ("proc/self/status", "Cpus_allowed_list:\t0"),
        ("proc/self/cgroup", "0::/system.slice/docker-1.scope"),
        ("sys/fs/cgroup/cpu.max", "max 100000"),
        ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000"),
        ("sys/fs/cgroup/system.slice/docker-1.scope/cpu.max", "50000 100000"),
        ("proc/loadavg", "2.50 1.00 1.00 1/300 4242"),
        ("proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 100 0 100 700 0 0 0 100 0 0"),
        ("sys/devices/system/cpu/online", "0"),
    ])
}

/// Returns the command that adds `words` to the kernel command line on Debian.
fn debian(words: &str) -> String {
    format!(
        "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"' | sudo tee -a \
         /etc/default/grub.d/zz-workers.cfg && sudo update-grub  # takes effect at the next boot"
    )
}

/// Returns the command that moves the interrupts `numbers` to `cpus`.
fn moved(numbers: &str, cpus: &str) -> String {
    format!(
        "for i in {numbers}; do echo {cpus} | sudo tee /proc/irq/$i/smp_affinity_list; done  # \
         leave out the IRQs of NIC queues that a worker CPU serves; some IRQs cannot be moved"
    )
}

#[test]
fn a_server_out_of_the_box_gets_advice() {
    let server = server();
    server.says("cpu", Verdict::Fact, "Xeon", "");
    server.says("isa", Verdict::Fact, "sse2 avx avx2 avx512bw bmi2 fsrm", "");
    server.says("platform", Verdict::Fact, "hardware", "");
    server.says("timestamp_counter", Verdict::Good, "steady", "");
    server.says(
        "clocksource",
        Verdict::Advice,
        "hpet",
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
    );
    server.says("cpus", Verdict::Fact, "8 of 8", "");
    server.says("cores", Verdict::Fact, "4 cores in 2 packages", "");
    let off = "echo off | sudo tee /sys/devices/system/cpu/smt/control  # steadier results, \
               lower total throughput";
    server.says("smt", Verdict::Advice, "on", off);
    server.says("numa", Verdict::Advice, "2 nodes", "sudo sysctl kernel.numa_balancing=0");
    server.says("caches", Verdict::Fact, "L1d 48 KiB", "");
    server.says("cpu_quota", Verdict::Good, "none", "");
    server.says("load", Verdict::Good, "0.12 on 8 CPUs", "");
    server.is_silent_about("steal");
    server.is_silent_about("tickless_cpus");
    server.is_silent_about("irqbalance");
    server.is_silent_about("receive_queues_lo");
    server.is_silent_about("core_clock");
}

#[test]
fn a_server_out_of_the_box_is_prepared_for_workers() {
    let server = server();
    server.says(
        "governor",
        Verdict::Advice,
        "powersave",
        "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    );
    let no_turbo = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo  # for \
                    repeatable measurements; code runs faster with boost on";
    server.says("boost", Verdict::Advice, "on", no_turbo);
    server.says(
        "isolated_cpus",
        Verdict::Advice,
        "none",
        &debian("isolcpus=managed_irq,domain,1-3,5-7 nohz_full=1-3,5-7 rcu_nocbs=1-3,5-7"),
    );
    server.says(
        "irq_affinity",
        Verdict::Advice,
        "1 of 2 are delivered to CPUs 1-3,5-7",
        &moved("24", "0,4"),
    );
    server.says(
        "receive_queues_eth0",
        Verdict::Advice,
        "1 for 8 CPUs, on node 1",
        "sudo ethtool -L eth0 combined 8 || for f in /sys/class/net/eth0/queues/rx-*/rps_cpus; do \
         echo ff | sudo tee $f; done",
    );
    server.says(
        "huge_pages",
        Verdict::Advice,
        "0 of 0 (2 MiB)",
        "echo 512 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    );
    server.says(
        "transparent_huge_pages",
        Verdict::Advice,
        "never",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    );
}

#[test]
fn interrupts_that_cannot_be_moved_are_not_in_the_command_that_moves_them() {
    let server = server().with(&[
        // A managed interrupt, delivered to a worker's CPU.
        ("proc/irq/26/smp_affinity_list", "0-7"),
        ("proc/irq/26/effective_affinity_list", "5"),
        ("proc/irq/26/nvme0q6", ""),
        // A timer of ARM, which each CPU has of its own.
        ("proc/irq/13/smp_affinity_list", "0-7"),
        ("proc/irq/13/effective_affinity_list", ""),
        ("proc/irq/13/arch_timer", ""),
    ]);
    for number in [13, 26] {
        let file = server.0.path().join(format!("proc/irq/{number}/smp_affinity_list"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    const NAME: &str = "irq_affinity";
    let value = "2 of 3 are delivered to CPUs 1-3,5-7";
    server.says(NAME, Verdict::Advice, value, &moved("24", "0,4"));
    let moved = server.with(&[("proc/irq/24/effective_affinity_list", "4")]);
    moved.says(NAME, Verdict::Fact, "1 of 3 are delivered to CPUs 1-3,5-7", "");
}

/// After following the advice, the checks pass.
#[test]
fn a_server_that_was_prepared_gets_none() {
    let prepared = server().with(&[
        ("proc/sys/kernel/numa_balancing", "0"),
        ("sys/devices/system/cpu/isolated", "1-3,5-7"),
        ("sys/devices/system/cpu/nohz_full", "1-3,5-7"),
        ("sys/devices/system/cpu/smt/active", "0"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1"),
        ("sys/kernel/iommu_groups/0/type", "DMA-FQ"),
        ("sys/bus/pci/drivers/vfio-pci/0000:01:00.0/vendor", "0x8086"),
        ("sys/bus/pci/drivers/vfio-pci/bind", ""),
        ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "250"),
        ("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "250"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ("proc/irq/24/effective_affinity_list", "4"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "ff"),
    ]);
    for observation in prepared.observe() {
        assert!(observation.verdict < Verdict::Advice, "{observation:?}");
        assert_eq!(observation.fix, None, "{observation:?}");
    }
    prepared.says("huge_pages", Verdict::Good, "500 of 512 (2 MiB), 0 of 0 (1 GiB)", "");
    prepared.says("isolated_cpus", Verdict::Good, "1-3,5-7", "");
    prepared.says("irq_affinity", Verdict::Good, "0 of 2 are delivered to CPUs 1-3,5-7", "");
    // Isolated CPUs are not counted as receiving CPUs.
    prepared.says("receive_queues_eth0", Verdict::Fact, "1 for 2 CPUs, on node 1", "");
    prepared.says("idle_states", Verdict::Good, "POLL (wakes in 0 us)", "");
    prepared.says("user_space_drivers", Verdict::Good, "vfio-pci: 0000:01:00.0", "");
    prepared.says("huge_pages_by_node", Verdict::Good, "250 on node0, 250 on node1", "");
}

#[test]
fn isolation_without_silence_is_half_of_it() {
    let half = server().with(&[
        ("sys/devices/system/cpu/isolated", "2-3"),
        ("sys/devices/system/cpu/nohz_full", "(null)"),
        ("run/irqbalance/irqbalance812.sock", ""),
        ("proc/812/comm", "irqbalance"),
    ]);
    let fix = debian("nohz_full=2-3 rcu_nocbs=2-3");
    half.says("tickless_cpus", Verdict::Advice, "none", &fix);
    half.says(
        "irq_affinity",
        Verdict::Advice,
        "1 of 2 are delivered to CPUs 2-3",
        &moved("24", "0-1,4-7"),
    );
    half.says("irqbalance", Verdict::Advice, "running", "sudo systemctl stop irqbalance");
}

#[test]
fn reports_idle_states_and_mitigations() {
    let server = server();
    server.says(
        "idle_states",
        Verdict::Advice,
        "C6 (wakes in 133 us)",
        "for f in /sys/devices/system/cpu/cpu*/cpuidle/state[12]/disable; do echo 1 | sudo tee $f; \
         done",
    );
    server.says("mitigations", Verdict::Fact, "2 of 3 vulnerabilities mitigated, 1 open", "");
    guest().is_silent_about("idle_states");
    guest().is_silent_about("mitigations");
}

#[test]
fn cards_past_the_kernel_need_an_iommu() {
    let server = server();
    let fix = debian("intel_iommu=on iommu=pt");
    server.says("user_space_drivers", Verdict::Advice, "none", &fix);
    let on = server.with(&[("sys/kernel/iommu_groups/0/type", "DMA")]);
    on.says("user_space_drivers", Verdict::Advice, "none", "sudo modprobe vfio-pci");
    let loaded = on.with(&[("sys/bus/pci/drivers/vfio-pci/bind", "")]);
    loaded.says("user_space_drivers", Verdict::Fact, "none", "");
    let uio = guest().with(&[
        ("sys/bus/pci/devices/0000:00:04.0/vendor", "0x1af4"),
        ("sys/bus/pci/drivers/igb_uio/0000:00:04.0/vendor", "0x1af4"),
    ]);
    uio.says("user_space_drivers", Verdict::Fact, "igb_uio: 0000:00:04.0", "");
    guest().is_silent_about("user_space_drivers");
}

/// Only one node has free pages, as after a DPDK application on the other node has allocated its
/// share.
#[test]
fn a_node_without_free_pages_is_named() {
    let pages = |node: u32, file: &str| {
        format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/{file}_hugepages")
    };
    let lopsided = server().with(&[
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "256"),
        (&pages(0, "free"), "256"),
        (&pages(1, "free"), "0"),
        (&pages(1, "nr"), "256"),
    ]);
    let fix = format!("echo 768 | sudo tee /{}", pages(1, "nr"));
    lopsided.says("huge_pages_by_node", Verdict::Advice, "256 on node0, 0 on node1", &fix);
    server().is_silent_about("huge_pages_by_node");
}

/// Each distribution has its own way of setting the kernel command line.
#[test]
fn boot_parameters_use_the_tools_of_the_distribution() {
    let asked = |files: &[(&str, &str)]| {
        let board = Machine::new(&[("sys/devices/system/cpu/online", "0-3")]).with(files);
        board.observe().into_iter().find(|o| o.name == "isolated_cpus").unwrap().fix.unwrap()
    };
    // A kernel built without CONFIG_NO_HZ_FULL, as on the Raspberry Pi.
    let words = "isolcpus=managed_irq,domain,1-3";
    let pi = asked(&[("boot/firmware/cmdline.txt", "console=tty1")]);
    assert!(pi.starts_with(&format!("sudo sed -i '1s/$/ {words}/' /boot/firmware/cmdline.txt  #")));
    let fedora = asked(&[("usr/sbin/grubby", ""), ("etc/default/grub", "")]);
    assert!(fedora.starts_with(&format!("sudo grubby --update-kernel=ALL --args='{words}'  #")));
    let suse = asked(&[("etc/default/grub", ""), ("boot/grub2/grub.cfg", "")]);
    assert!(suse.contains("&& sudo grub2-mkconfig -o /boot/grub2/grub.cfg  #"), "{suse}");
    assert_eq!(asked(&[]), format!("cat /proc/cmdline  # add to the boot parameters: {words}"));
}

#[test]
fn no_isolation_advice_for_few_cores() {
    let two = server().with(&[("sys/devices/system/cpu/online", "0-1,4-5")]);
    two.says("isolated_cpus", Verdict::Fact, "none", "");
    let built_without = Machine::new(&[
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/system/cpu/isolated", "3"),
    ]);
    built_without.says("tickless_cpus", Verdict::Advice, "none", "");
}

#[test]
fn reports_a_container_without_rights_to_change_settings() {
    let mount = |options: &str| {
        let line = format!("25 30 0:22 / /sys {options} - sysfs sysfs rw");
        guest().with(&[(
            "proc/self/mountinfo",
            &format!("24 30 0:21 / /proc rw - proc proc rw\n{line}"),
        )])
    };
    mount("ro,nosuid,relatime").says("settings", Verdict::Advice, "read-only", "");
    mount("rw,errors=remount-ro").is_silent_about("settings");
}

#[test]
fn cards_that_are_down_need_no_more_queues() {
    let down = server()
        .with(&[("sys/class/net/eth0/operstate", "down"), ("sys/class/net/eth0/speed", "25000")]);
    down.says("receive_queues_eth0", Verdict::Fact, "1 for 8 CPUs, 25 Gbit/s, on node 1", "");
    let driver = down.0.path().join("sys/class/net/eth0/device/driver");
    std::os::unix::fs::symlink("../../bus/pci/drivers/ice", driver).unwrap();
    down.says("receive_queues_eth0", Verdict::Fact, "1 for 8 CPUs, ice, 25 Gbit/s, on node 1", "");
}

/// A socket left behind by a killed process.
#[test]
fn a_balancer_that_is_gone_moves_nothing() {
    let left =
        server().with(&[("run/irqbalance/irqbalance812.sock", ""), ("proc/812/comm", "sshd")]);
    left.is_silent_about("irqbalance");
}

/// Commands can be pasted into a shell; explanations follow `#`.
#[test]
fn every_command_is_one_for_a_shell() {
    let half = server().with(&[("sys/devices/system/cpu/isolated", "2-3")]);
    for fix in [server().observe(), half.observe(), guest().observe()]
        .concat()
        .into_iter()
        .filter_map(|observation| observation.fix)
    {
        let checked = std::process::Command::new("sh").args(["-n", "-c", &fix]).output().unwrap();
        assert!(checked.status.success(), "{fix}: {checked:?}");
        let first = fix.split(' ').next().unwrap();
        assert!(["echo", "for", "sudo", "ps", "cat", "taskset"].contains(&first), "{fix}");
    }
}

#[test]
fn the_rights_of_live_paths_are_read_from_the_process() {
    const NAME: &str = "packet_sockets";
    let in_namespace = |mask: &str, map: &str| {
        let status = format!("CapEff:\t{mask}");
        Machine::new(&[("proc/self/status", &status), ("proc/self/uid_map", map)])
    };
    let with = |mask: &str| in_namespace(mask, "         0          0 4294967295\n");
    with("0000000000002000").says(NAME, Verdict::Good, "packet sockets", "");
    with("0000000000003000").says(NAME, Verdict::Good, "packet sockets, TAP", "");
    let all = "packet sockets, TAP, AF_XDP";
    with("0000008000003000").says(NAME, Verdict::Good, all, "");
    with("0000000000203000").says(NAME, Verdict::Good, all, "");
    let inside = in_namespace("000001ffffffffff", "         0       1000          1\n");
    inside.says(NAME, Verdict::Good, "packet sockets, TAP", "");
    let fix = "sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep $(command -v linerate)";
    with("000001ffffffdfff").says(NAME, Verdict::Advice, "TAP", fix);
    with("0000000000000000").says(NAME, Verdict::Advice, "not allowed", fix);
    with("no mask").is_silent_about(NAME);
}
