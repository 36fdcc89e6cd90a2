// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a machine has no hardware counters at all, and who could give it some.

use super::{Cause, Refusal, SIMULATE};
use crate::surroundings::{DeviceTree, Facts};

/// Why no unit counts for the cores of this machine.
///
/// A node without content comes first: whoever made the machine meant it to have counters. Where
/// there is no node, a hypervisor explains it.
pub(super) fn why_none(facts: &Facts) -> Refusal {
    let hypervisor = facts.platform.hypervisor.as_deref();
    match (&facts.device_tree, hypervisor) {
        (DeviceTree::EmptyNode { path, wanted }, _) => {
            let sentence = format!("the node {path} of the device tree is empty");
            without_node(&sentence, wanted)
        }
        (_, Some(hypervisor)) => no_virtual_pmu(facts, hypervisor),
        (DeviceTree::NoNode { wanted }, None) => {
            without_node("the device tree has no node for counters", wanted)
        }
        (DeviceTree::Node(kind), None) => Refusal::new(
            Cause::NoPmuDriver,
            format!(
                "the device tree has counters ({kind}), and this kernel has no driver for them"
            ),
            "scripts/config -e HW_PERF_EVENTS -e ARM_PMU -e ARM_PMUV3, and build the kernel anew",
        ),
        (DeviceTree::NotUsed, None) => Refusal::new(
            Cause::NoPmuDriver,
            "this kernel found no counters that it can drive (no unit for the cores in \
             /sys/bus/event_source/devices)",
            format!("sudo dmesg | grep -iE 'pmu|perf' tells why; without counters: {SIMULATE}"),
        ),
    }
}

fn without_node(what: &str, wanted: &str) -> Refusal {
    Refusal::new(
        Cause::DeviceTreeWithoutPmu,
        format!("{what}: the kernel does not look for counters"),
        format!(
            "dtc -I fs -O dts -o board.dts /proc/device-tree; put there pmu {{ compatible = \
             \"{wanted}\"; interrupts = <the counters' line>; }}; then dtc -O dtb -o board.dtb \
             board.dts, and boot with it"
        ),
    )
}

fn no_virtual_pmu(facts: &Facts, hypervisor: &str) -> Refusal {
    let maker = facts.maker.as_deref().unwrap_or("");
    let sentence = match facts.platform.emulated {
        Some(true) => format!("this machine is emulated ({hypervisor}), counters are not"),
        _ => {
            format!("this is a virtual machine ({hypervisor}), and its host passes no counters on")
        }
    };
    let fix = match host_command(hypervisor, maker) {
        Some(command) => format!("{command}; without that: {SIMULATE}"),
        None => SIMULATE.to_owned(),
    };
    Refusal::new(Cause::NoVirtualPmu, sentence, fix)
}

/// What passes counters on, by maker and then by hypervisor; from the manual of each.
const HOST_COMMANDS: [(&str, &str); 9] = [
    ("Amazon EC2", "take an instance type whose name ends in .metal, or that fills a socket"),
    ("Google", "gcloud compute instances create NAME --performance-monitoring-unit=standard"),
    ("KVM", "on the host: qemu-system-ARCH -accel kvm -cpu host,pmu=on"),
    ("QEMU TCG", "on the host: qemu-system-ARCH -cpu max,pmu=on -icount shift=0 (ARM and Power)"),
    ("Hyper-V", "on the host: Set-VMProcessor NAME -Perfmon @(\"pmu\")"),
    ("VMware", "on the host: vpmc.enable = \"TRUE\" in the .vmx file, the machine being off"),
    ("Xen", "on the host: boot Xen with vpmu=1"),
    ("Parallels", "on the host: prlctl set NAME --pmu-virt on"),
    ("QEMU", "on the host: qemu-system-ARCH -cpu host,pmu=on, or -icount shift=0 without KVM"),
];

fn host_command(hypervisor: &str, maker: &str) -> Option<&'static str> {
    let of = |name: &str| HOST_COMMANDS.iter().find(|(who, _)| *who == name);
    of(maker).or_else(|| of(hypervisor)).map(|(_, command)| *command)
}
