// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks this machine's hardware, and the settings that interfere with a data plane or slow it
//! down. For each setting, returns the command that would change it; no command is run.
//!
//! Everything is read once, from /proc and /sys, which takes about 30 ms on a machine with 256 CPUs
//! and 1000 interrupts. Counters (`linerate-counters`), and NIC settings that only ethtool(8) can
//! query, are not covered.

mod boot;
mod bypass;
mod clocks;
mod disturbance;
mod isolation;
mod layout;
mod live;
mod memory;
mod network;
mod processor;
mod sleep;

use linerate_machine::Platform;
use linerate_machine::Root;
use linerate_record::doctor::{Observation, Section};

const NODES: &str = "sys/devices/system/node";

/// Data about the machine that all checks share; read once.
struct Host {
    root: Root,
    /// Contents of /proc/cpuinfo; empty if unreadable.
    cpuinfo: String,
    platform: Platform,
    /// Online CPUs, ascending.
    online: Vec<u32>,
    /// CPUs isolated from the scheduler, ascending.
    isolated: Vec<u32>,
}

impl Host {
    fn read(root: &Root) -> Self {
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let platform = Platform::determined_by(&root.path(""), &cpuinfo);
        let online = root.cpu_list("sys/devices/system/cpu/online").unwrap_or_default();
        let isolated = root.cpu_list("sys/devices/system/cpu/isolated").unwrap_or_default();
        Self { root: root.clone(), cpuinfo, platform, online, isolated }
    }

    fn first_cpu(&self) -> u32 {
        self.online.first().copied().unwrap_or(0)
    }

    /// Returns the hardware threads of the first CPU's core, which is left to the OS when all other
    /// cores are isolated.
    fn system_cpus(&self) -> Vec<u32> {
        self.siblings(self.first_cpu()).unwrap_or_else(|| vec![self.first_cpu()])
    }

    /// Returns the CPUs suitable for workers, ascending: the isolated CPUs or, if there are none,
    /// all except those left to the OS.
    fn worker_cpus(&self) -> Vec<u32> {
        if !self.isolated.is_empty() {
            return self.isolated.clone();
        }
        let system = self.system_cpus();
        self.online.iter().copied().filter(|cpu| !system.contains(cpu)).collect()
    }

    /// Returns the NUMA node names, such as `node0`.
    fn nodes(&self) -> Vec<String> {
        let number = |name: &str| name.strip_prefix("node")?.parse::<u32>().ok();
        let mut nodes: Vec<(u32, String)> = self
            .root
            .names(NODES)
            .into_iter()
            .filter_map(|name| Some((number(&name)?, name)))
            .collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the CPUs on the same core as `cpu`, ascending.
    fn siblings(&self, cpu: u32) -> Option<Vec<u32>> {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        self.root.cpu_list(&file)
    }
}

/// Formats a number of CPUs: `1 CPU`, `8 CPUs`.
fn counted(cpus: usize) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}

/// Runs all checks, section by section.
pub fn observe(root: &Root) -> Vec<Observation> {
    let host = Host::read(root);
    let parts = [
        processor::observe(&host),
        clocks::observe(&host),
        layout::observe(&host),
        settings(&host).into_iter().collect(),
        isolation::observe(&host),
        disturbance::observe(&host),
        sleep::observe(&host),
        memory::observe(&host),
        network::observe(&host),
        bypass::observe(&host).into_iter().collect(),
        live::observe(&host).into_iter().collect(),
    ];
    let mut observations = parts.concat();
    observations.sort_by_key(|observation| observation.section);
    observations
}

/// Reports read-only settings: a container sees its host's settings but cannot change them.
fn settings(host: &Host) -> Option<Observation> {
    let mounts = host.root.text("proc/self/mountinfo")?;
    // Fields of mountinfo: ID, parent ID, device, root, mount point, options, ...; the last mount
    // is the visible one.
    let options = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        (fields.next() == Some("/sys")).then(|| fields.next().unwrap_or("").to_owned())
    };
    let options = mounts.lines().filter_map(options).next_back()?;
    options.split(',').any(|option| option == "ro").then(|| {
        Section::DataPlane.advice(
            "settings",
            "read-only",
            "/sys is read-only in this container: run the commands that change it on the host",
            None,
        )
    })
}

#[cfg(test)]
mod tests;
