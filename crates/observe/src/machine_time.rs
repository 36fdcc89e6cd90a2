// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of the whole machine by state, for measurements that generate their own load.

use linerate_machine::Root;
use linerate_machine::cpu_time::{CpuTicks, CpuTimes};

/// Returns the CPU time by state since boot, in ticks, summed over all online CPUs, and the number
/// of online CPUs; `None` if /proc/stat cannot be read.
pub fn machine_time(root: &Root) -> Option<(CpuTicks, u32)> {
    let cpus = CpuTimes::parse(&root.text("proc/stat")?).cpus;
    let all = cpus.values().copied().reduce(|all, ticks| all.plus(&ticks))?;
    Some((all, cpus.len() as u32))
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
        let ticks = CpuTicks { user: 4, system: 4, idle: 10, interrupts: 14, stolen: Some(8) };
        assert_eq!(machine_time(&root), Some((ticks, 2)));
    }
}
