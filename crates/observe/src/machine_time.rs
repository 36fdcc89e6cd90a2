// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of the whole machine by state, for measurements that generate their own load.

pub use crate::procfs::cpus::CpuTicks;

use crate::procfs::cpus::parse_stat;
use linerate_machine::Root;

/// Returns the CPU time by state since boot, in ticks, summed over all online CPUs, and the number
/// of online CPUs; `None` if /proc/stat cannot be read.
pub fn machine_time(root: &Root) -> Option<(CpuTicks, u32)> {
    let cpus = parse_stat(&root.text("proc/stat")?);
    let mut all = CpuTicks::default();
    for ticks in cpus.values() {
        all.user += ticks.user;
        all.system += ticks.system;
        all.idle += ticks.idle;
        all.interrupts += ticks.interrupts;
        all.stolen += ticks.stolen;
    }
    (!cpus.is_empty()).then_some((all, cpus.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_the_sum_of_its_cpus() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        assert_eq!(machine_time(&root), None);
        let text = "cpu 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 0 1 1 0 0 1 0 0 0\nintr 0\n";
        std::fs::create_dir_all(root.path("proc")).expect("a folder");
        std::fs::write(root.path("proc/stat"), text).expect("a file");
        let ticks = CpuTicks { user: 4, system: 4, idle: 10, interrupts: 14, stolen: 8 };
        assert_eq!(machine_time(&root), Some((ticks, 2)));
    }
}
