// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why a machine has no hardware counters at all, and how to enable them.

use super::{Cause, Explanation, simulate, simulate_with};
use crate::host_facts::{DeviceTree, Facts};

/// Explains why no PMU counts core events on this machine.
///
/// Checks for an empty device tree node first, since such a node means that the machine should have
/// counters. If the node is missing in a virtual machine, the hypervisor is given as the reason.
pub(super) fn why_none(facts: &Facts) -> Explanation {
    let hypervisor = facts.platform.hypervisor.as_deref();
    match (&facts.device_tree, hypervisor) {
        (DeviceTree::EmptyNode { path, wanted }, _) => {
            let sentence = format!("the device tree node {path} is empty");
            without_node(&sentence, wanted)
        }
        (_, Some(hypervisor)) => no_virtual_pmu(facts, hypervisor),
        (DeviceTree::NoNode { wanted }, None) => {
            without_node("the device tree has no PMU node", wanted)
        }
        (DeviceTree::Node(kind), None) => Explanation::new(
            Cause::NoPmuDriver,
            format!("the device tree has a PMU ({kind}), but this kernel has no driver for it"),
            "scripts/config -e HW_PERF_EVENTS -e ARM_PMU -e ARM_PMUV3  # and rebuild the kernel",
        ),
        (DeviceTree::NotUsed, None) => Explanation::new(
            Cause::NoPmuDriver,
            "this kernel found no supported core PMU (/sys/bus/event_source/devices has none)",
            simulate_with(facts, "sudo dmesg | grep -iE 'pmu|perf' shows why"),
        ),
    }
}

fn without_node(what: &str, wanted: &str) -> Explanation {
    Explanation::new(
        Cause::DeviceTreeWithoutPmu,
        format!("{what}, so the kernel does not probe for a PMU"),
        format!(
            "dtc -I fs -O dts -o board.dts /proc/device-tree && ${{EDITOR:-vi}} board.dts && dtc \
             -O dtb -o board.dtb board.dts  # add pmu {{ compatible = \"{wanted}\"; interrupts = \
             <the PMU's interrupt>; }}; and boot with board.dtb"
        ),
    )
}

fn no_virtual_pmu(facts: &Facts, hypervisor: &str) -> Explanation {
    let maker = facts.maker.as_deref().unwrap_or("");
    let sentence = match facts.platform.emulated {
        Some(true) => {
            format!("this machine is emulated ({hypervisor}) and has no hardware counters")
        }
        _ => {
            format!("this is a virtual machine ({hypervisor}) without a virtual PMU")
        }
    };
    let fix = match host_way(hypervisor, maker) {
        Some(way) => simulate_with(facts, &format!("simulates; for counters, {way}")),
        None => simulate(facts),
    };
    Explanation::new(Cause::NoVirtualPmu, sentence, fix)
}

/// Returns a fix for an event that can be opened but always counts 0.
pub(crate) fn instead_of_nothing(facts: &Facts) -> String {
    match facts.platform.emulated {
        Some(true) => {
            simulate_with(facts, &format!("simulates; for counters, on the host: {EMULATED}"))
        }
        _ => simulate(facts),
    }
}

/// QEMU command, to be run on the host, that enables counters for a guest of this architecture.
/// Under emulation, x86 guests have no counters, and POWER guests have them by default.
const PASSED_ON: &str = match () {
    () if cfg!(target_arch = "x86_64") => "qemu-system-x86_64 -accel kvm -cpu host,pmu=on",
    () if cfg!(target_arch = "aarch64") => "qemu-system-aarch64 -accel kvm -cpu host,pmu=on",
    () if cfg!(target_arch = "arm") => "qemu-system-arm -accel kvm -cpu host,pmu=on",
    () if cfg!(target_arch = "powerpc64") => "qemu-system-ppc64 -accel kvm -cpu host",
    () => "qemu-system-ARCH -accel kvm -cpu host",
};
const EMULATED: &str = match () {
    () if cfg!(target_arch = "x86_64") => PASSED_ON,
    () if cfg!(target_arch = "aarch64") => "qemu-system-aarch64 -cpu max,pmu=on -icount shift=0",
    () if cfg!(target_arch = "arm") => "qemu-system-arm -cpu max,pmu=on -icount shift=0",
    () if cfg!(target_arch = "powerpc64") => "qemu-system-ppc64 -icount shift=0",
    () => "qemu-system-ARCH -icount shift=0",
};

/// How to enable a virtual PMU: an instance type, a command or a setting, looked up by vendor and
/// then by hypervisor. Each entry comes from the manual of that vendor or hypervisor. A guest
/// cannot determine which program runs KVM on its host.
const HOST_WAYS: [(&str, &str, &str); 9] = [
    ("Amazon EC2", "use a .metal instance type, or one that spans a whole socket", ""),
    (
        "Google",
        "when creating the instance: ",
        "gcloud compute instances create NAME --performance-monitoring-unit=standard",
    ),
    ("KVM", "on the host, if it runs QEMU: ", PASSED_ON),
    ("QEMU TCG", "on the host: ", EMULATED),
    ("Hyper-V", "on the host: ", "Set-VMProcessor NAME -Perfmon @(\"pmu\")"),
    (
        "VMware",
        "on the host, power off the VM and set in its .vmx file: ",
        "vpmc.enable = \"TRUE\"",
    ),
    ("Xen", "on the host: boot Xen with ", "vpmu=1"),
    ("Parallels", "on the host: ", "prlctl set NAME --pmu-virt on"),
    ("QEMU", "on the host: ", PASSED_ON),
];

fn host_way(hypervisor: &str, maker: &str) -> Option<String> {
    let of = |name: &str| HOST_WAYS.iter().find(|(who, ..)| *who == name);
    of(maker)
        .or_else(|| of(hypervisor))
        .map(|(_, circumstance, command)| format!("{circumstance}{command}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulator has no clock, so it is no help with cycles.
    #[test]
    fn a_simulation_is_suggested_only_for_what_it_counts() {
        let fix = |hypervisor, qemu: Option<&str>, is_simulated| {
            let facts = Facts { qemu: qemu.map(Into::into), ..Facts::default() };
            no_virtual_pmu(&facts, hypervisor).for_event("x", is_simulated).fix
        };
        let qemu = Some("/usr/bin/qemu-x86_64");
        let simulated = fix("KVM", qemu, true).expect("a command");
        let begins = "linerate stat --tier sim -e x -- COMMAND  # simulates; for counters, on the";
        assert!(simulated.starts_with(begins), "{simulated}");
        let other = fix("KVM", None, false).expect("a comment");
        assert!(other.starts_with("# for counters, on the"), "{other}");
        assert!(simulated.ends_with(&other[2..]), "{simulated} {other}");
        assert_eq!(fix("NoBodyKnows", qemu, false), None);
        assert_eq!(fix("NoBodyKnows", None, false), None);
    }
}
