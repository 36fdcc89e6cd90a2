// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifies the processor by the numbers that its vendor's manuals use.
//!
//! Human-readable names are in [`provenance`](crate::provenance()). Processor features are not
//! covered.

pub use crate::cpuinfo::ArmCore;
use crate::cpuinfo::{arm_cores, value};

/// A processor, identified by its vendor's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// x86, identified by CPUID: the 12-character vendor string, the family and the model. Family
    /// and model include their extended fields.
    X86 {
        /// Vendor string, such as `GenuineIntel` or `AuthenticAMD`.
        vendor: String,
        /// Family, such as 6, 0x17, 0x19.
        family: u32,
        /// Model, such as 0x8f.
        model: u32,
    },
    /// ARM, by the Main ID Register (MIDR) of each kind of core, in kernel order, deduplicated.
    /// More than one kind means big.LITTLE.
    Arm {
        /// The kinds of core in the machine; at least one.
        cores: Vec<ArmCore>,
    },
    /// A processor of the Power or PowerPC architecture.
    Power {
        /// The kernel's name for the processor: `POWER9`, `7455`, ...
        name: String,
        /// Processor version register (PVR): version in the upper half, revision in the lower.
        pvr: u32,
    },
    /// Any other processor, or one that could not be identified.
    Other {
        /// The compiler's name for the architecture.
        architecture: &'static str,
    },
}

/// Identifies this machine's processor: by CPUID on x86, otherwise from /proc/cpuinfo.
pub fn identity() -> Identity {
    #[cfg(target_arch = "x86_64")]
    return x86();
    #[cfg(not(target_arch = "x86_64"))]
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| Identity::from_cpuinfo(&text))
        .unwrap_or(Identity::Other { architecture: std::env::consts::ARCH })
}

impl Identity {
    /// Identifies a processor from the text of /proc/cpuinfo on any machine; `None` if it is not
    /// x86, ARM or Power, or if the text does not identify it.
    pub fn from_cpuinfo(cpuinfo: &str) -> Option<Self> {
        let cores = arm_cores(cpuinfo);
        if !cores.is_empty() {
            return Some(Self::Arm { cores });
        }
        Self::x86_from(cpuinfo).or_else(|| Self::power_from(cpuinfo))
    }

    fn x86_from(cpuinfo: &str) -> Option<Self> {
        let number = |key| value(cpuinfo, key)?.parse().ok();
        let vendor = value(cpuinfo, "vendor_id")?.to_owned();
        Some(Self::X86 { vendor, family: number("cpu family")?, model: number("model")? })
    }

    /// Parses lines such as `cpu : 7455, altivec supported` and `revision : 3.2 (pvr 8001 0302)`.
    /// Other architectures also have a `cpu` line, but no such `revision` line.
    fn power_from(cpuinfo: &str) -> Option<Self> {
        let name = value(cpuinfo, "cpu")?.split([',', ' ']).next()?.to_owned();
        let (_, pvr) = value(cpuinfo, "revision")?.split_once("(pvr ")?;
        let (version, revision) = pvr.strip_suffix(')')?.split_once(' ')?;
        let half = |text| u16::from_str_radix(text, 16).ok().map(u32::from);
        Some(Self::Power { name, pvr: half(version)? << 16 | half(revision)? })
    }
}

/// Identifies the processor by CPUID leaves 0 and 1 (Intel SDM volume 2A and AMD APM volume 3,
/// CPUID).
#[cfg(target_arch = "x86_64")]
fn x86() -> Identity {
    use crate::cpuid::{Leaf, cpuid};
    let Leaf { ebx, ecx, edx, .. } = cpuid(0);
    let letters: Vec<u8> = [ebx, edx, ecx].iter().flat_map(|r| r.to_le_bytes()).collect();
    let vendor = String::from_utf8_lossy(&letters).into_owned();
    let (family, model) = family_and_model(cpuid(1).eax);
    Identity::X86 { vendor, family, model }
}

/// Extracts family and model from the signature, which is EAX of leaf 1. The extended family is
/// added if the family is 15, the extended model if the family is 15 or 6.
#[cfg(any(target_arch = "x86_64", test))]
fn family_and_model(signature: u32) -> (u32, u32) {
    let field = |shift: u32, bits: u32| signature >> shift & ((1 << bits) - 1);
    let (family, model) = (field(8, 4), field(4, 4));
    let extended_model = if matches!(family, 6 | 15) { field(16, 4) << 4 } else { 0 };
    let extended_family = if family == 15 { field(20, 8) } else { 0 };
    (family + extended_family, model + extended_model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuinfo::samples;
    use proptest::prelude::*;

    fn arm(numbers: &[(u32, u32)]) -> Identity {
        let core = |&(implementer, part): &(u32, u32)| ArmCore { implementer, part };
        Identity::Arm { cores: numbers.iter().map(core).collect() }
    }

    fn power(name: &str, pvr: u32) -> Identity {
        Identity::Power { name: name.to_owned(), pvr }
    }

    #[test]
    fn identities_as_recorded() {
        let of = |sample| Identity::from_cpuinfo(sample);
        let epyc = Identity::X86 { vendor: "AuthenticAMD".to_owned(), family: 26, model: 2 };
        assert_eq!(of(samples::EPYC_GUEST), Some(epyc));
        assert_eq!(of(samples::RASPBERRY_PI_4), Some(arm(&[(0x41, 0xd08)])));
        assert_eq!(of(samples::CORTEX_A7_32_BIT), Some(arm(&[(0x41, 0xc07)])));
        let kinds = arm(&[(0x41, 0xd03), (0x41, 0xd08), (0x61, 0x22)]);
        assert_eq!(of(samples::BIG_LITTLE), Some(kinds));
        assert_eq!(of(samples::POWER9_GUEST), Some(power("POWER9", 0x004e_1202)));
        assert_eq!(of(samples::POWER_MAC_G4), Some(power("7455", 0x8001_0302)));
        assert_eq!(of("cpu\t\t: UltraSparc T1 (Niagara)\nfpu\t\t: UltraSparc T1\n"), None);
        assert_eq!(of(""), None);
    }

    /// Signatures with documented families and models: a Pentium 4 (family 15, Intel SDM volume 4,
    /// table 2-1), a Skylake, a Zen 4 (AMD PPR for family 19h) and a 486, whose extended fields are
    /// ignored.
    #[test]
    fn extended_fields_count_where_the_manuals_say() {
        for (signature, family, model) in [
            (0x0000_0f29, 0x0f, 0x02),
            (0x0004_06e3, 0x06, 0x4e),
            (0x00a1_0f11, 0x19, 0x11),
            (0x0ff0_0480, 0x04, 0x08),
        ] {
            assert_eq!(family_and_model(signature), (family, model), "{signature:#x}");
        }
    }

    /// Compares with the kernel, which decodes the same instruction or register independently.
    #[test]
    fn agrees_with_the_kernel_about_this_machine() {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        if let Some(told) = Identity::from_cpuinfo(&cpuinfo) {
            assert_eq!(identity(), told);
        } else {
            assert!(matches!(identity(), Identity::Other { .. }));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn parses_an_x86_among_other_lines(
            family in 0u32..0x200,
            model in 0u32..0x200,
            noise in prop::collection::vec("(cpu|revision|flags|.{0,8})[\t ]{0,2}:?.{0,9}", 0..6),
        ) {
            let own = format!("vendor_id\t: V\ncpu family\t: {family}\nmodel\t\t: {model}\n");
            let text = own + &noise.join("\n");
            let expected = Identity::X86 { vendor: "V".to_owned(), family, model };
            prop_assert_eq!(Identity::from_cpuinfo(&text), Some(expected));
        }

        #[test]
        fn a_version_register_is_read_back(pvr: u32, name in "[A-Za-z0-9+]{1,9}") {
            let (version, revision) = (pvr >> 16, pvr & 0xffff);
            let text =
                format!("cpu\t\t: {name}, x\nrevision\t: 1.0 (pvr {version:04x} {revision:04x})\n");
            prop_assert_eq!(Identity::from_cpuinfo(&text), Some(power(&name, pvr)));
        }
    }
}
