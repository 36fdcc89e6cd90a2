// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platform below the kernel: hardware, a hypervisor, or an emulator.
//!
//! The hypervisor's version and the owner of the host are not determined.

#[cfg(target_arch = "x86_64")]
use crate::cpuid::hypervisor_signature;
use crate::cpuinfo::{self, arm_cores};
use crate::files::read;
use std::path::Path;

/// What the kernel runs on: hardware, a hypervisor, or an emulator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    /// Hypervisor or emulator; `None` on bare metal or if unknown.
    pub hypervisor: Option<String>,
    /// Whether instructions are emulated; `None` if unknown.
    pub emulated: Option<bool>,
}

/// Determines the platform below the kernel whose /proc and /sys are under `root`: `/` for this
/// machine, where CPUID is used as well.
pub fn platform(root: &Path) -> Platform {
    let cpuinfo = read(&root.join("proc/cpuinfo")).unwrap_or_default();
    Platform::determined_by(root, &cpuinfo)
}

impl Platform {
    fn new(hypervisor: &str, emulated: Option<bool>) -> Self {
        Self { hypervisor: Some(hypervisor.to_owned()), emulated }
    }

    /// Like [`platform`], but takes the text of /proc/cpuinfo.
    pub fn determined_by(root: &Path, cpuinfo: &str) -> Self {
        Evidence::gather(root, cpuinfo).platform()
    }
}

/// The facts from which the platform is determined.
#[derive(Clone, Debug, Default)]
struct Evidence {
    /// Contents of /proc/cpuinfo; empty if unreadable.
    cpuinfo: String,
    /// Whether this is x86, where CPUID announces a hypervisor.
    is_x86: bool,
    /// Hypervisor signature, if CPUID announces a hypervisor.
    signature: Option<[u8; 12]>,
    /// Contents of /sys/hypervisor/type, which Xen sets.
    hypervisor_type: Option<String>,
    /// `compatible` in the device tree's `hypervisor` node, set by KVM on POWER and by Xen on ARM.
    tree_hypervisor: Option<String>,
    /// `compatible` in the device tree's root node.
    tree_root: Option<String>,
    /// System vendor according to the firmware (DMI).
    vendor: Option<String>,
}

/// Signatures of hypervisors that run guests on the processor itself, and of one that emulates a
/// processor (CPUID leaf 0x4000_0000; each from the documentation of its project or vendor).
const SIGNATURES: [(&[u8; 12], &str, bool); 9] = [
    (b"KVMKVMKVM\0\0\0", "KVM", false),
    (b"Linux KVM Hv", "KVM", false),
    (b"Microsoft Hv", "Hyper-V", false),
    (b"VMwareVMware", "VMware", false),
    (b"XenVMMXenVMM", "Xen", false),
    (b"bhyve bhyve ", "bhyve", false),
    (b" lrpepyh vr ", "Parallels", false),
    (b"ACRNACRNACRN", "ACRN", false),
    (b"TCGTCGTCGTCG", "QEMU TCG", true),
];

/// BogoMIPS of QEMU's emulated generic timer for ARM, which ticks every 16 ns (`GTIMER_SCALE` in
/// its target/arm/cpu.h), i.e. at 62.5 MHz; Linux prints twice that as BogoMIPS. Under KVM, guests
/// see the host's timer, and no known processor has a timer that runs at that rate.
const EMULATED_TIMER: &str = "125.00";

/// Returns `None`, because only x86 processors have CPUID.
#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_signature() -> Option<[u8; 12]> {
    None
}

impl Evidence {
    fn gather(root: &Path, cpuinfo: &str) -> Self {
        let text = |path: &str| read(&root.join(path)).ok().filter(|text| !text.is_empty());
        let is_here = root == Path::new("/");
        let announces = || {
            let flags = cpuinfo::value(cpuinfo, "flags").unwrap_or("");
            flags.split(' ').any(|flag| flag == "hypervisor").then_some([0; 12])
        };
        Self {
            cpuinfo: cpuinfo.to_owned(),
            is_x86: cpuinfo::value(cpuinfo, "vendor_id").is_some(),
            signature: if is_here { hypervisor_signature() } else { announces() },
            hypervisor_type: text("sys/hypervisor/type"),
            tree_hypervisor: text("proc/device-tree/hypervisor/compatible"),
            tree_root: text("proc/device-tree/compatible"),
            vendor: text("sys/class/dmi/id/sys_vendor"),
        }
    }

    fn platform(&self) -> Platform {
        self.by_signature()
            .or_else(|| self.by_synthetic_processor())
            .or_else(|| self.by_hypervisor_files())
            .or_else(|| self.by_virtual_board())
            // QEMU sets CPUID's hypervisor bit even under TCG, so on x86 a clear bit means
            // hardware.
            .unwrap_or(Platform { hypervisor: None, emulated: self.is_x86.then_some(false) })
    }

    fn by_signature(&self) -> Option<Platform> {
        let signature = self.signature?;
        let known = SIGNATURES.iter().find(|(letters, ..)| **letters == signature);
        if let Some((_, name, emulated)) = known {
            return Some(Platform::new(name, Some(*emulated)));
        }
        // A hypervisor without a signature may still appear in the processor name.
        self.by_synthetic_processor().or_else(|| {
            let letters = String::from_utf8_lossy(&signature);
            let name = letters.trim_matches(|c: char| c == '\0' || c == ' ');
            Some(Platform::new(if name.is_empty() { "unnamed" } else { name }, None))
        })
    }

    /// Recognizes processors that exist only in an emulator.
    fn by_synthetic_processor(&self) -> Option<Platform> {
        let model = cpuinfo::value(&self.cpuinfo, "model name").unwrap_or("");
        let is_emulated = model.contains("QEMU TCG CPU")
            || model.contains("QEMU Virtual CPU")
            || arm_cores(&self.cpuinfo).contains(&cpuinfo::QEMU_MAX);
        is_emulated.then(|| Platform::new("QEMU TCG", Some(true)))
    }

    fn by_hypervisor_files(&self) -> Option<Platform> {
        let tree = self.tree_hypervisor.as_deref().unwrap_or("");
        if self.hypervisor_type.as_deref() == Some("xen") || tree.contains("xen,xen") {
            return Some(Platform::new("Xen", Some(false)));
        }
        // QEMU writes this node only for a guest under KVM (hw/ppc/spapr.c).
        if tree.contains("linux,kvm") {
            return Some(Platform::new("KVM", Some(false)));
        }
        self.hypervisor_type.as_deref().map(|name| Platform::new(name, None))
    }

    /// Recognizes boards that exist only as virtual machines, whether virtualized in hardware or
    /// emulated.
    fn by_virtual_board(&self) -> Option<Platform> {
        let machine = cpuinfo::value(&self.cpuinfo, "machine").unwrap_or("");
        let is_qemu =
            machine.contains("emulated by qemu") || self.vendor.as_deref() == Some("QEMU");
        if is_qemu {
            return Some(Platform::new("QEMU", None));
        }
        let root = self.tree_root.as_deref().unwrap_or("");
        if !root.contains("linux,dummy-virt") {
            return None;
        }
        let timer = cpuinfo::value(&self.cpuinfo, "BogoMIPS");
        if timer == Some(EMULATED_TIMER) {
            return Some(Platform::new("QEMU TCG", Some(true)));
        }
        Some(Platform::new("virtual board", None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuinfo::samples;
    use proptest::prelude::*;

    fn x86(model: &str, signature: Option<&[u8; 12]>) -> Evidence {
        Evidence {
            cpuinfo: format!("processor\t: 0\nmodel name\t: {model}\n"),
            is_x86: true,
            signature: signature.copied(),
            ..Evidence::default()
        }
    }

    fn other(cpuinfo: &str) -> Evidence {
        Evidence { cpuinfo: cpuinfo.to_owned(), ..Evidence::default() }
    }

    #[track_caller]
    fn check(evidence: &Evidence, hypervisor: Option<&str>, emulated: Option<bool>) {
        let expected = Platform { hypervisor: hypervisor.map(str::to_owned), emulated };
        assert_eq!(evidence.platform(), expected, "{evidence:?}");
    }

    #[test]
    fn detects_hypervisors_on_x86_by_signature() {
        check(&x86("AMD EPYC", Some(b"KVMKVMKVM\0\0\0")), Some("KVM"), Some(false));
        check(&x86("AMD EPYC", None), None, Some(false));
        let tcg = Some(b"TCGTCGTCGTCG");
        check(&x86("QEMU TCG CPU version 2.5+", tcg), Some("QEMU TCG"), Some(true));
        check(&x86("Intel Core Processor (Haswell)", tcg), Some("QEMU TCG"), Some(true));
        // QEMU's basic CPU model, once with hardware virtualization and once emulated.
        let plain = "QEMU Virtual CPU version 2.5+";
        check(&x86(plain, Some(b"KVMKVMKVM\0\0\0")), Some("KVM"), Some(false));
        check(&x86(plain, Some(&[0; 12])), Some("QEMU TCG"), Some(true));
        check(&x86(plain, None), Some("QEMU TCG"), Some(true));
        check(&x86("AMD EPYC", Some(b"NoBodyKnows ")), Some("NoBodyKnows"), None);
        check(&x86("AMD EPYC", Some(&[0; 12])), Some("unnamed"), None);
    }

    #[test]
    fn foreign_files_show_a_hypervisor_but_not_its_signature() {
        let root = tempfile::tempdir().unwrap();
        let told = |cpuinfo| Platform::determined_by(root.path(), cpuinfo);
        assert_eq!(told(samples::EPYC_GUEST), Platform::new("unnamed", None));
        assert_eq!(told(samples::RASPBERRY_PI_4), Platform::default());
        std::fs::create_dir_all(root.path().join("sys/class/dmi/id")).unwrap();
        std::fs::write(root.path().join("sys/class/dmi/id/sys_vendor"), "QEMU\n").unwrap();
        assert_eq!(told(samples::BIG_LITTLE), Platform::new("QEMU", None));
        assert_eq!(platform(root.path()), Platform::new("QEMU", None));
    }

    #[test]
    fn detects_arm_and_power_only_by_their_files() {
        check(&other(samples::RASPBERRY_PI_4), None, None);
        check(&other(samples::QEMU_ARM_MAX), Some("QEMU TCG"), Some(true));
        check(&other(samples::POWER_MAC_G4), None, None);
        check(&other(samples::POWER9_GUEST), Some("QEMU"), None);
        let kvm = Some("linux,kvm\0".to_owned());
        let power_kvm = Evidence { tree_hypervisor: kvm, ..other(samples::POWER9_GUEST) };
        check(&power_kvm, Some("KVM"), Some(false));
        let root = Some("linux,dummy-virt\0".to_owned());
        let virt = Evidence { tree_root: root, ..other(samples::CORTEX_A7_32_BIT) };
        check(&virt, Some("virtual board"), None);
        let ticking = format!("BogoMIPS\t: 125.00\n{}", samples::CORTEX_A7_32_BIT);
        let emulated = Evidence { cpuinfo: ticking.clone(), ..virt };
        check(&emulated, Some("QEMU TCG"), Some(true));
        check(&other(&ticking), None, None);
        let qemu = Evidence { vendor: Some("QEMU".to_owned()), ..other(samples::BIG_LITTLE) };
        check(&qemu, Some("QEMU"), None);
        let xen = Evidence { hypervisor_type: Some("xen".to_owned()), ..other("") };
        check(&xen, Some("Xen"), Some(false));
        let unheard = Evidence { hypervisor_type: Some("zap".to_owned()), ..other("") };
        check(&unheard, Some("zap"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_letters_are_printable_or_lost(letters: [u8; 12]) {
            let platform = x86("AMD EPYC", Some(&letters)).platform();
            prop_assert!(!platform.hypervisor.unwrap().is_empty());
            let is_known = SIGNATURES.iter().any(|(known, ..)| **known == letters);
            prop_assert_eq!(platform.emulated.is_some(), is_known);
        }
    }
}
