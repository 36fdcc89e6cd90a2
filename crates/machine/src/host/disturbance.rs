// SPDX-License-Identifier: MIT OR Apache-2.0
//! What takes a CPU away from a strand: other programs, interrupts, the host, a quota.

use super::{Host, counted};
use crate::files::{format_cpu_list, name_cpus};
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let isolated = host.root.cpu_list("sys/devices/system/cpu/isolated").unwrap_or_default();
    let always = [
        Some(isolation(host, &isolated)),
        ticks(host, &isolated),
        interrupts(host, &isolated),
        balancer(host),
        Some(quota(host)),
        load(host),
        steal(host),
    ];
    always.into_iter().flatten().collect()
}

/// How to put `words` on the command line of the kernel.
fn boot_with(host: &Host, words: &str) -> String {
    match host.root.exists("etc/default/grub") {
        true => format!(
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{words} /' /etc/default/grub && \
             sudo update-grub && sudo reboot"
        ),
        false => format!("boot the kernel with {words}"),
    }
}

fn isolation(host: &Host, isolated: &[u32]) -> Observation {
    if !isolated.is_empty() {
        let sentence = "the scheduler puts nothing there by itself: name them with --cpus";
        return DATA_PLANE.good("isolated_cpus", format_cpu_list(isolated), sentence);
    }
    if host.online.is_empty() {
        let sentence = "the kernel does not tell which CPUs there are";
        return DATA_PLANE.unknown("isolated_cpus", sentence);
    }
    let system = host.system_cpus();
    let rest: Vec<u32> = host.online.iter().copied().filter(|cpu| !system.contains(cpu)).collect();
    if rest.is_empty() {
        let sentence = "there is one core, which the system needs";
        return DATA_PLANE.fact("isolated_cpus", "none", sentence);
    }
    let list = format_cpu_list(&rest);
    let words = format!("isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}");
    let sentence = "any program may be put on the CPU of a strand, and drop its packets";
    DATA_PLANE.advice("isolated_cpus", "none", sentence, Some(boot_with(host, &words)))
}

/// Whether the scheduler's tick stays away from isolated CPUs.
fn ticks(host: &Host, isolated: &[u32]) -> Option<Observation> {
    if isolated.is_empty() {
        return None;
    }
    // The file holds "(null)" where nothing was asked for.
    let quiet = host.root.cpu_list("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    if isolated.iter().all(|cpu| quiet.contains(cpu)) {
        let sentence = "a strand that is alone on one of these is not interrupted by the scheduler";
        return Some(DATA_PLANE.good("tickless_cpus", format_cpu_list(&quiet), sentence));
    }
    let list = format_cpu_list(isolated);
    let sentence = "the scheduler interrupts strands on isolated CPUs 100 to 1000 times a second";
    let fix = boot_with(host, &format!("nohz_full={list} rcu_nocbs={list}"));
    let value = if quiet.is_empty() { "none".to_owned() } else { format_cpu_list(&quiet) };
    Some(DATA_PLANE.advice("tickless_cpus", value, sentence, Some(fix)))
}

/// Interrupts that may come to the CPUs meant for strands: the isolated ones, or all but the first
/// core.
fn interrupts(host: &Host, isolated: &[u32]) -> Option<Observation> {
    let system = host.system_cpus();
    let strands: Vec<u32> = match isolated.is_empty() {
        true => host.online.iter().copied().filter(|cpu| !system.contains(cpu)).collect(),
        false => isolated.to_vec(),
    };
    let numbers =
        host.root.names("proc/irq").into_iter().filter(|name| name.parse::<u32>().is_ok());
    let reaches = |irq: &String| {
        let cpus = host.root.cpu_list(&format!("proc/irq/{irq}/effective_affinity_list"));
        let cpus = cpus.filter(|cpus| !cpus.is_empty());
        let cpus =
            cpus.or_else(|| host.root.cpu_list(&format!("proc/irq/{irq}/smp_affinity_list")));
        cpus.is_some_and(|cpus| cpus.iter().any(|cpu| strands.contains(cpu)))
    };
    let all: Vec<String> = numbers.collect();
    if all.is_empty() {
        return Some(
            DATA_PLANE.unknown("irq_affinity", "the kernel shows no interrupts in /proc/irq"),
        );
    }
    if strands.is_empty() {
        return None;
    }
    let reaching = all.iter().filter(|irq| reaches(irq)).count();
    let value = format!("{reaching} of {} come to {}", all.len(), name_cpus(&strands));
    if reaching == 0 {
        let sentence = "interrupts stay away from the CPUs for strands";
        return Some(DATA_PLANE.good("irq_affinity", value, sentence));
    }
    let home: Vec<u32> = host.online.iter().copied().filter(|cpu| !strands.contains(cpu)).collect();
    let fix = format!(
        "for i in /proc/irq/*/smp_affinity_list; do echo {} | sudo tee $i; done",
        format_cpu_list(&home)
    );
    let sentence = "each interrupt stops the strand it comes to for microseconds";
    Some(DATA_PLANE.advice("irq_affinity", value, sentence, Some(fix)))
}

/// irqbalance(1) keeps a socket there while it runs.
fn balancer(host: &Host) -> Option<Observation> {
    let is_running = !host.root.names("run/irqbalance").is_empty();
    is_running.then(|| {
        DATA_PLANE.advice(
            "irqbalance",
            "running",
            "it moves interrupts between CPUs every few seconds, also to those of strands",
            Some("sudo systemctl stop irqbalance".to_owned()),
        )
    })
}

/// A limit to the time on CPUs: how many CPUs' worth, and the file that says so.
struct Quota {
    cpus: f64,
    file: String,
    none: &'static str,
}

fn quota(host: &Host) -> Observation {
    let Some(groups) = host.root.text("proc/self/cgroup") else {
        let sentence = "no control groups, so nothing limits the time on CPUs";
        return DATA_PLANE.good("cpu_quota", "none", sentence);
    };
    let mut least: Option<Quota> = None;
    for (mount, group) in groups.lines().filter_map(group_of) {
        for file in levels(mount, group) {
            if let Some(quota) = quota_of(host, &file) {
                if least.as_ref().is_none_or(|least| quota.cpus < least.cpus) {
                    least = Some(quota);
                }
            }
        }
    }
    match least {
        None => DATA_PLANE.good("cpu_quota", "none", "no group limits the time on CPUs"),
        Some(Quota { cpus, file, none }) => DATA_PLANE.advice(
            "cpu_quota",
            format!("{cpus:.2} CPUs"),
            "strands that never sleep use it up, and are then stopped until the next period",
            Some(format!("echo {none} | sudo tee /{file}")),
        ),
    }
}

/// Where a line of /proc/self/cgroup points to, `number:controllers:path`; `None` for controllers
/// of other things than CPUs. Version 2 has one line without controllers.
fn group_of(line: &str) -> Option<(&'static str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    match controllers {
        "" => Some(("sys/fs/cgroup", path)),
        _ if controllers.split(',').any(|c| c == "cpu") => Some(("sys/fs/cgroup/cpu", path)),
        _ => None,
    }
}

/// The folder of a group and of each that contains it.
fn levels(mount: &str, group: &str) -> Vec<String> {
    let group = group.trim_matches('/');
    let mut ends: Vec<usize> = group.match_indices('/').map(|(at, _)| at).collect();
    ends.push(group.len());
    let inner = ends.into_iter().map(|end| format!("{mount}/{}", &group[..end]));
    std::iter::once(mount.to_owned()).chain(inner).collect()
}

/// The limit of one group: version 2 has both numbers in a file, `max` for none; version 1 one file
/// for each, -1 for none.
fn quota_of(host: &Host, folder: &str) -> Option<Quota> {
    let folder = folder.trim_end_matches('/');
    let second = format!("{folder}/cpu.max");
    let first = format!("{folder}/cpu.cfs_quota_us");
    let (file, none, quota, period) = match host.root.text(&second) {
        Some(text) => {
            let (quota, period) = text.split_once(' ')?;
            (second, "max", quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => {
            let period = host.root.number(&format!("{folder}/cpu.cfs_period_us"))?;
            (first.clone(), "-1", host.root.number(&first)?, period)
        }
    };
    (quota > 0.0 && period > 0.0).then(|| Quota { cpus: quota / period, file, none })
}

/// Load per CPU from which on others are in the way.
const MUCH_LOAD: f64 = 0.25;

fn load(host: &Host) -> Option<Observation> {
    let text = host.root.text("proc/loadavg")?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let cpus = host.online.len().max(1);
    let value = format!("{load:.2} on {}", counted(cpus));
    Some(match load > MUCH_LOAD * cpus as f64 {
        true => DATA_PLANE.advice(
            "load",
            value,
            "other programs ran during the last minute, and disturb what is measured now",
            Some("ps -eo pcpu,pid,args --sort=-pcpu | head shows which; end them".to_owned()),
        ),
        false => DATA_PLANE.good("load", value, "few other programs ran during the last minute"),
    })
}

/// Stolen time worth mentioning, as a share of all.
const MUCH_STEAL: f64 = 0.01;

/// The share of the time since boot that the host gave to others; silence on hardware.
fn steal(host: &Host) -> Option<Observation> {
    host.platform.hypervisor.as_ref()?;
    let stat = host.root.text("proc/stat")?;
    let times = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<f64> = times.split_whitespace().filter_map(|t| t.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what follows is part of the first two.
    let share = times.get(7)? / times[..8].iter().sum::<f64>().max(1.0);
    let value = format!("{:.1} %", share * 100.0);
    Some(match share > MUCH_STEAL {
        true => DATA_PLANE.advice(
            "steal",
            value,
            "so much time since boot the host gave to other machines; only cores of its own help",
            None,
        ),
        false => DATA_PLANE.good("steal", value, "the host gave little time to other machines"),
    })
}
