// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether CPUs are reserved for workers, that is, isolated from the scheduler, the
//! scheduler tick, and interrupts.
//!
//! CPUs that a cgroup isolates at run time (`cpuset.cpus.partition`) are not detected, because
//! kernels before 6.7 have no file that lists all of them.

use super::Host;
use super::boot::boot_with;
use linerate_machine::{format_cpu_list, name_cpus};
use linerate_record::doctor::{Observation, Section};
use std::os::unix::fs::PermissionsExt;

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let always = [Some(isolation(host)), ticks(host), interrupts(host)];
    always.into_iter().flatten().collect()
}

/// Minimum number of cores for which isolation is recommended. On smaller machines, isolation costs
/// the OS more than the workers gain.
const CORES_MIN: usize = 4;

fn isolation(host: &Host) -> Observation {
    if !host.isolated.is_empty() {
        let sentence = "the scheduler places no tasks on these CPUs; select them with --cpus";
        return DATA_PLANE.good("isolated_cpus", format_cpu_list(&host.isolated), sentence);
    }
    if host.online.is_empty() {
        let sentence = "the kernel does not list the online CPUs";
        return DATA_PLANE.unknown("isolated_cpus", sentence);
    }
    let system = host.system_cpus();
    if host.online.len() < CORES_MIN * system.len() {
        let sentence = "too few cores to isolate any: other programs may run on a worker's core";
        return DATA_PLANE.fact("isolated_cpus", "none", sentence);
    }
    let list = format_cpu_list(&host.worker_cpus());
    let mut words = format!("isolcpus=managed_irq,domain,{list}");
    if host.root.exists(TICKLESS) {
        words += &format!(" {}", without_ticks(&list));
    }
    let sentence = "other programs may be scheduled on a worker's CPU while packets wait";
    DATA_PLANE.advice("isolated_cpus", "none", sentence, Some(boot_with(host, &words)))
}

/// File that lists the tickless CPUs. The file exists if the kernel supports tickless CPUs
/// (`CONFIG_NO_HZ_FULL`), and contains "(null)" if none are configured.
const TICKLESS: &str = "sys/devices/system/cpu/nohz_full";

fn without_ticks(list: &str) -> String {
    format!("nohz_full={list} rcu_nocbs={list}")
}

/// Checks whether the scheduler tick is off on isolated CPUs.
fn ticks(host: &Host) -> Option<Observation> {
    const NAME: &str = "tickless_cpus";
    if host.isolated.is_empty() {
        return None;
    }
    let quiet = host.root.cpu_list(TICKLESS).unwrap_or_default();
    if host.isolated.iter().all(|cpu| quiet.contains(cpu)) {
        let sentence = "a worker alone on one of these CPUs gets no scheduler ticks";
        return Some(DATA_PLANE.good(NAME, format_cpu_list(&quiet), sentence));
    }
    if !host.root.exists(TICKLESS) {
        let sentence = "the scheduler tick interrupts workers on isolated CPUs 100 to 1000 times a \
                        second, and this kernel was built without CONFIG_NO_HZ_FULL";
        return Some(DATA_PLANE.advice(NAME, "none", sentence, None));
    }
    let sentence = "the scheduler tick interrupts workers on isolated CPUs 100 to 1000 times a \
                    second";
    let fix = boot_with(host, &without_ticks(&format_cpu_list(&host.isolated)));
    let value = if quiet.is_empty() { "none".to_owned() } else { format_cpu_list(&quiet) };
    Some(DATA_PLANE.advice(NAME, value, sentence, Some(fix)))
}

/// Files that the kernel creates in /proc/irq for each interrupt. Any other entry is named after a
/// driver that handles the interrupt (kernel/irq/proc.c).
const IRQ_FILES: [&str; 7] = [
    "affinity_hint",
    "effective_affinity",
    "effective_affinity_list",
    "node",
    "smp_affinity",
    "smp_affinity_list",
    "spurious",
];

/// An interrupt that has a handler.
struct Interrupt {
    number: u32,
    /// CPUs that may receive the interrupt.
    cpus: Vec<u32>,
    /// Whether root may change these CPUs. The kernel itself places the interrupts of queues that
    /// belong to a CPU (NVMe, virtio-blk).
    is_movable: bool,
}

/// Returns the interrupts that have a handler, ascending, excluding per-CPU interrupts (on ARM,
/// those of timers and PMUs).
fn handled(host: &Host) -> Vec<Interrupt> {
    let interrupt = |number: u32| {
        let at = |file: &str| format!("proc/irq/{number}/{file}");
        let names = host.root.names(&at(""));
        if names.iter().all(|name| IRQ_FILES.contains(&name.as_str())) {
            return None;
        }
        let requested = at("smp_affinity_list");
        // The kernel makes the file of an interrupt that cannot be moved read-only.
        let mode = host.root.path(&requested).metadata().ok()?.permissions().mode();
        let is_movable = mode & 0o200 != 0;
        let cpus = match host.root.cpu_list(&at("effective_affinity_list")) {
            Some(effective) if !effective.is_empty() => effective,
            Some(_) if !is_movable => return None,
            _ => host.root.cpu_list(&requested)?,
        };
        Some(Interrupt { number, cpus, is_movable })
    };
    let mut numbers: Vec<u32> =
        host.root.names("proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().filter_map(interrupt).collect()
}

/// Checks whether interrupts are delivered to CPUs suitable for workers: the isolated CPUs or, if
/// there are none, all CPUs except those of the first core.
fn interrupts(host: &Host) -> Option<Observation> {
    const NAME: &str = "irq_affinity";
    let all = handled(host);
    if all.is_empty() {
        let sentence = "/proc/irq lists no driver interrupts";
        return Some(DATA_PLANE.unknown(NAME, sentence));
    }
    let workers = host.worker_cpus();
    if workers.is_empty() {
        return None;
    }
    let reaches = |one: &&Interrupt| one.cpus.iter().any(|cpu| workers.contains(cpu));
    let reaching: Vec<&Interrupt> = all.iter().filter(reaches).collect();
    let value =
        format!("{} of {} are delivered to {}", reaching.len(), all.len(), name_cpus(&workers));
    if reaching.is_empty() {
        let sentence = "no interrupts are delivered to worker CPUs";
        return Some(DATA_PLANE.good(NAME, value, sentence));
    }
    let movable = reaching.iter().filter(|one| one.is_movable);
    let numbers: Vec<u32> = movable.map(|one| one.number).collect();
    if numbers.is_empty() {
        let sentence = "these are managed interrupts: the kernel sets their affinity, and user \
                        space cannot change it; isolcpus=managed_irq keeps those of storage queues \
                        off isolated CPUs where possible";
        return Some(DATA_PLANE.fact(NAME, value, sentence));
    }
    let home: Vec<u32> = host.online.iter().copied().filter(|cpu| !workers.contains(cpu)).collect();
    let fix = format!(
        "for i in {}; do echo {} | sudo tee /proc/irq/$i/smp_affinity_list; done  # leave out \
         the IRQs of NIC queues that a worker CPU serves; some IRQs cannot be moved",
        for_shell(&numbers),
        format_cpu_list(&home)
    );
    let sentence = match host.isolated.is_empty() {
        true => {
            "each interrupt stops the worker on that CPU for a few microseconds; leave the first \
             core to the system"
        }
        false => "each interrupt stops the worker on that CPU for a few microseconds",
    };
    Some(DATA_PLANE.advice(NAME, value, sentence, (!home.is_empty()).then_some(fix)))
}

/// Formats ascending interrupt numbers as shell words, converting ranges to calls of seq(1).
fn for_shell(numbers: &[u32]) -> String {
    let words = format_cpu_list(numbers);
    let words = words.split(',').map(|range| match range.split_once('-') {
        Some((first, last)) => format!("$(seq {first} {last})"),
        None => range.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
