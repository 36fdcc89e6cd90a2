// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses /proc/cpuinfo, whose format depends on the architecture.

/// Returns the values of the `key : value` lines with exactly this key, in file order.
fn values<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let pair = |line: &'a str| line.split_once(':').map(|(k, v)| (k.trim(), v.trim()));
    let fits = move |&(k, v): &(&str, &str)| k == key && !v.is_empty();
    cpuinfo.lines().filter_map(pair).filter(fits).map(|(_, value)| value)
}

/// Returns the first value of `key`; `None` if the file has no such key.
pub fn value<'a>(cpuinfo: &'a str, key: &'a str) -> Option<&'a str> {
    values(cpuinfo, key).next()
}

/// Returns the processor name, with the board name if the file has one. If a machine has two kinds
/// of core, the result names both.
///
/// The name is in `model name` on x86 and in `cpu` on POWER. On ARM, the file gives numbers, which
/// are looked up in a table. There, `model name` is the name of the architecture, and is used only
/// if the numbers are missing.
pub fn cpu_name(cpuinfo: &str) -> Option<String> {
    let arm = arm_cores(cpuinfo);
    let names: Vec<String> = match arm.is_empty() {
        false => arm.into_iter().map(|core| core.name()).collect(),
        true => ["model name", "cpu", "cpu model", "uarch"]
            .iter()
            .find_map(|key| value(cpuinfo, key))
            .map(str::to_owned)
            .into_iter()
            .collect(),
    };
    if names.is_empty() {
        return None;
    }
    let board = value(cpuinfo, "Model").or_else(|| value(cpuinfo, "Hardware"));
    let board = board.map(|board| format!(" ({board})")).unwrap_or_default();
    Some(names.join(" + ") + &board)
}

/// Fields of the Main ID Register (MIDR) that identify an ARM core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmCore {
    /// Implementer code; 0x41 is ARM.
    pub implementer: u32,
    /// Part number; ARM's 0xd08 is the Cortex-A72.
    pub part: u32,
}

impl ArmCore {
    fn name(self) -> String {
        let known = ARM_CORES.iter().find(|(core, _)| *core == self);
        known.map_or_else(
            || format!("ARM implementer {:#04x} part {:#05x}", self.implementer, self.part),
            |(_, name)| (*name).to_owned(),
        )
    }
}

const fn arm(part: u32) -> ArmCore {
    ArmCore { implementer: 0x41, part }
}

/// Core names by MIDR, from the "MIDR, Main ID Register" section in each core's technical reference
/// manual. Cores that are not listed are shown by number.
const ARM_CORES: [(ArmCore, &str); 20] = [
    (arm(0xc07), "Cortex-A7"),
    (arm(0xc08), "Cortex-A8"),
    (arm(0xc09), "Cortex-A9"),
    (arm(0xc0f), "Cortex-A15"),
    (arm(0xd03), "Cortex-A53"),
    (arm(0xd04), "Cortex-A35"),
    (arm(0xd05), "Cortex-A55"),
    (arm(0xd07), "Cortex-A57"),
    (arm(0xd08), "Cortex-A72"),
    (arm(0xd09), "Cortex-A73"),
    (arm(0xd0a), "Cortex-A75"),
    (arm(0xd0b), "Cortex-A76"),
    (arm(0xd0c), "Neoverse N1"),
    (arm(0xd0d), "Cortex-A77"),
    (arm(0xd40), "Neoverse V1"),
    (arm(0xd41), "Cortex-A78"),
    (arm(0xd44), "Cortex-X1"),
    (arm(0xd49), "Neoverse N2"),
    (arm(0xd4f), "Neoverse V2"),
    (QEMU_MAX, "QEMU max"),
];

/// The fictitious core of `qemu -cpu max`: no implementer, and an ASCII letter as the part number
/// (`target/arm/tcg/cpu64.c`).
pub(crate) const QEMU_MAX: ArmCore = ArmCore { implementer: 0, part: 0x51 };

/// Returns the kinds of ARM core in file order, deduplicated.
pub(crate) fn arm_cores(cpuinfo: &str) -> Vec<ArmCore> {
    let hex = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let implementers = values(cpuinfo, "CPU implementer").map(hex);
    let parts = values(cpuinfo, "CPU part").map(hex);
    let mut cores = Vec::new();
    for pair in implementers.zip(parts) {
        if let (Some(implementer), Some(part)) = pair {
            let core = ArmCore { implementer, part };
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
    }
    cores
}

/// Excerpts of the file from different machines.
#[cfg(test)]
pub(crate) mod samples {
    pub(crate) const EPYC_GUEST: &str = "\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
cpu MHz\t\t: 2596.096
flags\t\t: fpu tsc constant_tsc nonstop_tsc hypervisor

processor\t: 1
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC
";
    pub(crate) const RASPBERRY_PI_4: &str = include_str!("cpuinfo/raspberry_pi_4.txt");
    pub(crate) const CORTEX_A7_32_BIT: &str = "\
processor\t: 0
model name\t: ARMv7 Processor rev 5 (v7l)
CPU implementer\t: 0x41
CPU architecture: 7
CPU part\t: 0xc07

Hardware\t: Generic DT based system
";
    pub(crate) const BIG_LITTLE: &str = "\
processor\t: 0
CPU implementer\t: 0x41
CPU part\t: 0xd03

processor\t: 4
CPU implementer\t: 0x41
CPU part\t: 0xd08

processor\t: 5
CPU implementer\t: 0x61
CPU part\t: 0x22
";
    pub(crate) const POWER9_GUEST: &str = "\
processor\t: 0
cpu\t\t: POWER9 (architected), altivec supported
clock\t\t: 2200.000000MHz
revision\t: 2.2 (pvr 004e 1202)

timebase\t: 512000000
platform\t: pSeries
model\t\t: IBM pSeries (emulated by qemu)
machine\t\t: CHRP IBM pSeries (emulated by qemu)
MMU\t\t: Radix
";
    pub(crate) const POWER_MAC_G4: &str = include_str!("cpuinfo/power_mac_g4.txt");
    pub(crate) const QEMU_ARM_MAX: &str = "\
processor\t: 0
CPU implementer\t: 0x00
CPU architecture: 8
CPU part\t: 0x051
";
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_recorded() {
        let name = |sample| cpu_name(sample).unwrap();
        assert_eq!(name(samples::EPYC_GUEST), "AMD EPYC");
        assert_eq!(name(samples::RASPBERRY_PI_4), "Cortex-A72 (Raspberry Pi 4 Model B Rev 1.1)");
        assert_eq!(name(samples::CORTEX_A7_32_BIT), "Cortex-A7 (Generic DT based system)");
        assert_eq!(
            name(samples::BIG_LITTLE),
            "Cortex-A53 + Cortex-A72 + ARM implementer 0x61 part 0x022"
        );
        assert_eq!(name(samples::POWER9_GUEST), "POWER9 (architected), altivec supported");
        assert_eq!(name(samples::POWER_MAC_G4), "7455, altivec supported");
        assert_eq!(name(samples::QEMU_ARM_MAX), "QEMU max");
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t:\n"), None);
        assert_eq!(cpu_name(""), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn names_survive_anything(
            lines in prop::collection::vec(
                ("(model name|cpu|Model|CPU (part|implementer)|.{0,8})", "[\t :]{0,3}", ".{0,9}"),
                0..8,
            )
        ) {
            let text: String = lines.iter().map(|(a, b, c)| format!("{a}{b}{c}\n")).collect();
            prop_assert!(cpu_name(&text).is_none_or(|name| !name.is_empty()));
        }

        #[test]
        fn a_core_is_named_by_its_numbers(implementer in 0u32..0x100, part in 0u32..0x1000) {
            let text = format!("CPU implementer\t: {implementer:#04x}\nCPU part\t: {part:#05x}\n");
            prop_assert_eq!(arm_cores(&text), [ArmCore { implementer, part }]);
        }
    }
}
