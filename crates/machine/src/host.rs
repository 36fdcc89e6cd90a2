// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine is made of, and what in its settings disturbs or slows a data plane: each with
//! the command that would change it, which nobody here runs.
//!
//! Everything is read from /proc and /sys, once; a machine of 256 CPUs and 1000 interrupts takes
//! some 30 ms. Left out: counters (`linerate-counters`), and settings of network cards that only
//! ethtool(8) can ask for.

mod clocks;
mod disturbance;
mod layout;
mod memory;
mod network;
mod processor;

use crate::files::Root;
use crate::platform::Platform;
use linerate_record::doctor::Observation;

/// What the observers share, read once.
struct Host {
    root: Root,
    /// The text of /proc/cpuinfo; empty where it cannot be read.
    cpuinfo: String,
    platform: Platform,
    /// The CPUs that are online, ascending.
    online: Vec<u32>,
}

impl Host {
    fn read(root: &Root) -> Self {
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let platform = Platform::told_by(&root.path(""), &cpuinfo);
        let online = root.cpu_list("sys/devices/system/cpu/online").unwrap_or_default();
        Self { root: root.clone(), cpuinfo, platform, online }
    }

    fn first_cpu(&self) -> u32 {
        self.online.first().copied().unwrap_or(0)
    }

    /// The threads of the core that the system is left with when all others are isolated: that of
    /// the first CPU.
    fn system_cpus(&self) -> Vec<u32> {
        self.siblings(self.first_cpu()).unwrap_or_else(|| vec![self.first_cpu()])
    }

    /// The CPUs of the core of `cpu`, ascending.
    fn siblings(&self, cpu: u32) -> Option<Vec<u32>> {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        self.root.cpu_list(&file)
    }
}

/// `1 CPU`, `8 CPUs`.
fn counted(cpus: usize) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

/// Everything that was looked at, section by section.
pub fn observe(root: &Root) -> Vec<Observation> {
    let host = Host::read(root);
    let parts = [
        processor::observe(&host),
        clocks::observe(&host),
        layout::observe(&host),
        disturbance::observe(&host),
        memory::observe(&host),
        network::observe(&host),
    ];
    let mut observations = parts.concat();
    observations.sort_by_key(|observation| observation.section);
    observations
}

#[cfg(test)]
mod tests;
