// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs driven by kernel-bypass programs, such as DPDK applications.

use super::Host;
use super::boot::boot_with;
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;
const NAME: &str = "user_space_drivers";

/// Kernel drivers that give a user-space program control of a NIC.
const DRIVERS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Checks which NICs are bound to kernel-bypass drivers, and whether an IOMMU is in use. Returns no
/// observation if the machine has no PCI bus.
pub(super) fn observe(host: &Host) -> Option<Observation> {
    if host.root.names("sys/bus/pci/devices").is_empty() {
        return None;
    }
    let driven: Vec<String> =
        DRIVERS.into_iter().filter_map(|driver| cards(host, driver)).collect();
    let groups = host.root.names("sys/kernel/iommu_groups").len();
    let is_loaded = host.root.exists("sys/bus/pci/drivers/vfio-pci");
    Some(match (groups, driven.is_empty(), is_loaded) {
        (0, true, _) => without_iommu(host),
        (0, false, _) => DATA_PLANE.fact(
            NAME,
            driven.join("; "),
            "without an IOMMU, a program that drives a NIC can make the NIC write to any memory",
        ),
        (_, false, _) => DATA_PLANE.good(
            NAME,
            driven.join("; "),
            "user-space programs drive these NICs, and the IOMMU confines their DMA to those \
            programs' memory",
        ),
        (_, true, true) => DATA_PLANE.fact(
            NAME,
            "none",
            "vfio-pci is loaded, but no NIC is bound to it; to bind one: dpdk-devbind.py -b \
             vfio-pci PCI_ADDRESS",
        ),
        (_, true, false) => DATA_PLANE.advice(
            NAME,
            "none",
            "an IOMMU is present, but vfio-pci is not loaded: DPDK finds no NIC",
            Some("sudo modprobe vfio-pci".to_owned()),
        ),
    })
}

/// Returns a driver's name and the PCI addresses of its NICs, such as `0000:01:00.0`.
fn cards(host: &Host, driver: &str) -> Option<String> {
    let names = host.root.names(&format!("sys/bus/pci/drivers/{driver}"));
    let cards: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.contains(':')).collect();
    (!cards.is_empty()).then(|| format!("{driver}: {}", cards.join(" ")))
}

/// Returns advice for a machine without an IOMMU in use. The kernel command line can enable the
/// IOMMU only on Intel CPUs. On AMD and ARM, it is on if the firmware offers it; in a guest, it
/// depends on the hypervisor.
fn without_iommu(host: &Host) -> Observation {
    let sentence = "no IOMMU is in use, but vfio-pci needs one to assign a NIC to a program";
    let is_intel =
        linerate_machine::cpuinfo::value(&host.cpuinfo, "vendor_id") == Some("GenuineIntel");
    match is_intel && host.platform.hypervisor.is_none() {
        true => DATA_PLANE.advice(
            NAME,
            "none",
            sentence,
            Some(boot_with(host, "intel_iommu=on iommu=pt")),
        ),
        false => DATA_PLANE.fact(NAME, "none", sentence),
    }
}
