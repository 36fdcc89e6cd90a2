// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of a machine's CPUs have which type of core: big.LITTLE and hybrid processors.
//!
//! On ARM, /proc/cpuinfo gives each CPU's implementer and part number. The core types of an x86
//! processor have the same family and model; there, the kernel has a PMU for each type. Without
//! these PMUs, as in many guests, all cores are assumed to be of the same type.

use crate::Root;
use crate::cpuinfo::arm_cores;
use crate::files::name_cpus;
use std::collections::BTreeMap;

/// Directory of the kernel's PMUs.
const UNITS: &str = "sys/bus/event_source/devices";

/// Core type by CPU, on machines with several types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreKinds {
    /// Name of each CPU's type, which consists of letters, digits, `_` and `-`; empty if there is
    /// only one type.
    of_cpus: BTreeMap<u32, String>,
}

impl CoreKinds {
    /// Reads the core types from the kernel's files in `root`.
    pub fn read(root: &Root) -> Self {
        let arm = arm(&root.text("proc/cpuinfo").unwrap_or_default());
        let of_cpus = if arm.is_empty() { x86(root) } else { arm };
        let is_mixed = of_cpus.values().any(|kind| Some(kind) != of_cpus.values().next());
        Self { of_cpus: if is_mixed { of_cpus } else { BTreeMap::new() } }
    }

    /// Returns the name of the type of all of `cpus`; `None` if the machine has only one type.
    ///
    /// # Errors
    /// Returns the reason if they are of several types, or if their type is unknown.
    pub fn common<'a>(&'a self, cpus: &[u32]) -> Result<Option<&'a str>, String> {
        if self.of_cpus.is_empty() {
            return Ok(None);
        }
        let mut kinds = cpus.iter().filter_map(|cpu| self.of_cpus.get(cpu));
        let named = name_cpus(cpus);
        let first = kinds.next().ok_or_else(|| format!("the core type of {named} is unknown"))?;
        match kinds.all(|kind| kind == first) {
            true => Ok(Some(first)),
            false => Err(format!("{named} have several types of cores ({})", self.named())),
        }
    }

    /// Returns the CPUs of each type, by name; empty if the machine has only one type.
    pub fn groups(&self) -> BTreeMap<&str, Vec<u32>> {
        let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (cpu, kind) in &self.of_cpus {
            groups.entry(kind).or_default().push(*cpu);
        }
        groups
    }

    /// Formats the CPUs of each type.
    fn named(&self) -> String {
        let groups = self.groups().into_iter();
        let named = groups.map(|(kind, cpus)| format!("{kind}: {}", name_cpus(&cpus)));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the implementer and part of each ARM CPU: `41-d08`.
fn arm(cpuinfo: &str) -> BTreeMap<u32, String> {
    let of_block = |block: &str| {
        let number = block.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "processor").then(|| value.trim().parse().ok()).flatten()
        })?;
        let core = *arm_cores(block).first()?;
        Some((number, format!("{:x}-{:x}", core.implementer, core.part)))
    };
    cpuinfo.split("\n\n").filter_map(of_block).collect()
}

/// Returns the name of each x86 CPU's PMU: `cpu_core`, `cpu_atom`.
fn x86(root: &Root) -> BTreeMap<u32, String> {
    let units = root.names(UNITS).into_iter().filter(|name| name.starts_with("cpu_"));
    let of_unit = |name: String| {
        let cpus = root.cpu_list(&format!("{UNITS}/{name}/cpus")).unwrap_or_default();
        cpus.into_iter().map(move |cpu| (cpu, name.clone()))
    };
    units.flat_map(of_unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn kinds(files: &[(&str, &str)]) -> CoreKinds {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        CoreKinds::read(&Root::new(folder.path()))
    }

    fn block(cpu: u32, part: u32) -> String {
        format!("processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part:#05x}\n\n")
    }

    #[test]
    fn little_and_big_cores_differ_by_their_parts() {
        let parts = [0xd05, 0xd05, 0xd0b, 0xd0b];
        let cpuinfo: String = (0..).zip(parts).map(|(cpu, part)| block(cpu, part)).collect();
        let kinds = kinds(&[("proc/cpuinfo", &(cpuinfo + "Hardware\t: Board\n"))]);
        assert_eq!(kinds.common(&[0, 1]), Ok(Some("41-d05")));
        assert_eq!(kinds.common(&[3]), Ok(Some("41-d0b")));
        let mixed = kinds.common(&[1, 2]).unwrap_err();
        let expected = "CPUs 1-2 have several types of cores (41-d05: CPUs 0-1, 41-d0b: CPUs 2-3)";
        assert_eq!(mixed, expected);
        assert!(kinds.common(&[9]).is_err() && kinds.common(&[]).is_err());
    }

    #[test]
    fn hybrid_x86_has_a_pmu_for_each_type() {
        let unit = |name: &str| format!("{UNITS}/{name}/cpus");
        let (core, atom) = (unit("cpu_core"), unit("cpu_atom"));
        let cpuinfo = ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n");
        let hybrid = kinds(&[cpuinfo, (&core, "0-3\n"), (&atom, "4-7\n")]);
        assert_eq!(hybrid.common(&[4, 5]), Ok(Some("cpu_atom")));
        assert_eq!(hybrid.groups()["cpu_core"], [0, 1, 2, 3]);
        assert!(hybrid.common(&[3, 4]).is_err());
        assert_eq!(kinds(&[cpuinfo, (&core, "0-3\n")]), CoreKinds::default());
    }

    #[test]
    fn equal_cores_have_no_type() {
        let kinds = kinds(&[("proc/cpuinfo", &(block(0, 0xd08) + &block(1, 0xd08)))]);
        assert_eq!((kinds.common(&[0, 1]), kinds.common(&[])), (Ok(None), Ok(None)));
        assert!(kinds.groups().is_empty());
    }
}
