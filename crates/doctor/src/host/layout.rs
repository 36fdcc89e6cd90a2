// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the topology: cores, hardware threads, NUMA nodes and caches.

use super::{Host, NODES};
use linerate_machine::topology::{Cache, CacheKind, Topology};
use linerate_machine::{format_cpu_list, name_cpus};
use linerate_record::doctor::{Observation, Section};
use std::collections::BTreeSet;

const TOPOLOGY: Section = Section::Topology;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let mut observations = vec![cpus(host), cores(host)];
    observations.extend(threads(host));
    observations.push(nodes(host));
    observations.push(caches(host));
    observations
}

fn cpus(host: &Host) -> Observation {
    let status = host.root.text("proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.and_then(|list| linerate_machine::parse_cpu_list(list.trim()).ok());
    let Some(allowed) = allowed.filter(|_| !host.online.is_empty()) else {
        return TOPOLOGY.unknown("cpus", "the kernel does not report which CPUs may be used");
    };
    let usable = allowed.iter().filter(|cpu| host.online.contains(cpu)).count();
    let value = format!("{usable} of {}", host.online.len());
    if usable == host.online.len() {
        return TOPOLOGY.fact("cpus", value, "this process may use all logical CPUs");
    }
    let mut sentence = format!("this process may use only {}", name_cpus(&allowed));
    let within = group_cpus(host).unwrap_or_else(|| host.online.clone());
    if within.iter().all(|cpu| allowed.contains(cpu)) {
        sentence += ", the CPUs of its cgroup";
        return TOPOLOGY.advice("cpus", value, &sentence, None);
    }
    let fix = format!("taskset -c {} linerate doctor", format_cpu_list(&within));
    TOPOLOGY.advice("cpus", value, &sentence, Some(fix))
}

/// Returns the CPUs to which this process is confined by its cgroup (version 2).
fn group_cpus(host: &Host) -> Option<Vec<u32>> {
    let groups = host.root.text("proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = format!("sys/fs/cgroup/{path}/cpuset.cpus.effective");
    host.root.cpu_list(&file).filter(|cpus| !cpus.is_empty())
}

fn cores(host: &Host) -> Observation {
    let cores: BTreeSet<Vec<u32>> =
        host.online.iter().filter_map(|cpu| host.siblings(*cpu)).collect();
    // The package ID is -1 if the firmware does not number packages.
    let package = |cpu: &u32| {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        host.root.number::<u32>(&file)
    };
    let packages: BTreeSet<u32> = host.online.iter().filter_map(package).collect();
    if cores.is_empty() {
        return TOPOLOGY.unknown("cores", "the kernel does not report which CPUs share a core");
    }
    let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let value = match packages.len() {
        0 => plural(cores.len(), "core"),
        packages => format!("{} in {}", plural(cores.len(), "core"), plural(packages, "package")),
    };
    let sentence = match host.platform.hypervisor {
        Some(_) => "according to the hypervisor, whose \"cores\" may be SMT siblings",
        None => "workers on different cores share only caches and memory",
    };
    TOPOLOGY.fact("cores", value, sentence)
}

const SMT: &str = "sys/devices/system/cpu/smt";

/// Checks whether cores have several hardware threads (SMT). Returns no observation if the kernel
/// does not report this, as on some processors with one thread per core.
fn threads(host: &Host) -> Option<Observation> {
    let is_active = host.root.text(&format!("{SMT}/active"))? == "1";
    if !is_active {
        let sentence = match host.platform.hypervisor {
            Some(_) => "according to the hypervisor, but two CPUs may still share a core",
            None => "no two CPUs share a core",
        };
        return Some(TOPOLOGY.good("smt", "off", sentence));
    }
    let switchable = host.root.text(&format!("{SMT}/control")).is_some_and(|c| c == "on");
    let sentence = format!(
        "hardware threads of the same core ({}) slow each other down; linerate first uses one \
         thread of each core",
        name_cpus(&host.system_cpus())
    );
    let fix = switchable.then(|| {
        format!("echo off | sudo tee /{SMT}/control  # steadier results, lower total throughput")
    });
    Some(TOPOLOGY.advice("smt", "on", &sentence, fix))
}

fn nodes(host: &Host) -> Observation {
    let nodes = host.nodes();
    if nodes.is_empty() {
        return TOPOLOGY.unknown("numa", "the kernel reports no NUMA nodes");
    }
    if nodes.len() == 1 {
        let sentence = match host.platform.hypervisor {
            Some(_) => "according to the hypervisor, but memory may be on several NUMA nodes",
            None => "one NUMA node",
        };
        return TOPOLOGY.fact("numa", "1 node", sentence);
    }
    let cpus = |node: &String| {
        let cpus = host.root.cpu_list(&format!("{NODES}/{node}/cpulist")).unwrap_or_default();
        format!("{node}: {}", name_cpus(&cpus))
    };
    let all = nodes.iter().map(cpus).collect::<Vec<_>>().join("; ");
    let value = format!("{} nodes", nodes.len());
    if host.root.text("proc/sys/kernel/numa_balancing").is_some_and(|on| on != "0") {
        let sentence =
            format!("{all}; NUMA balancing migrates pages between them, which stalls workers");
        let fix = Some("sudo sysctl kernel.numa_balancing=0".to_owned());
        return TOPOLOGY.advice("numa", value, &sentence, fix);
    }
    let sentence = format!("{all}; remote memory is slower: run workers on the NIC's node");
    TOPOLOGY.fact("numa", value, &sentence)
}

fn caches(host: &Host) -> Observation {
    let first = Topology::read_from(&host.root.path("sys/devices/system/cpu"), &[host.first_cpu()]);
    let caches = match &first.cpus[0].caches {
        Ok(caches) if caches.iter().any(|cache| cache.bytes.is_ok()) => caches,
        Ok(_) => return TOPOLOGY.unknown("caches", "the kernel reports no cache sizes"),
        Err(error) => return TOPOLOGY.unknown("caches", &error.to_string()),
    };
    let value = caches.iter().map(described).collect::<Vec<_>>().join(", ");
    let line = caches.iter().find_map(|cache| cache.line_bytes.as_ref().ok());
    let line = line.map_or("of unknown length".to_owned(), |bytes| format!("of {bytes} bytes"));
    let last = caches.iter().max_by_key(|cache| cache.level);
    let shared = last.and_then(|cache| cache.shared_by.as_ref().ok());
    let shared = shared.map_or("unknown CPUs".to_owned(), |by| name_cpus(by));
    let sentence = format!(
        "CPU {} has cache lines {line}; its last-level cache is shared by {shared}",
        host.first_cpu()
    );
    TOPOLOGY.fact("caches", value, &sentence)
}

fn described(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = cache.bytes.as_ref().map_or("unknown".to_owned(), |bytes| binary(*bytes));
    format!("L{}{kind} {size}", cache.level)
}

/// Formats a size in the largest binary unit of which it is a multiple.
pub(super) fn binary(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.iter().find(|(_, shift)| bytes > 0 && bytes % (1 << shift) == 0);
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| format!("{} {unit}", bytes >> shift),
    )
}
