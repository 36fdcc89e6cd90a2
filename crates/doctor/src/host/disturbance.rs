// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interference with a worker's CPU: other programs, IRQ balancing, the hypervisor, CPU quotas.

use super::{Host, counted};
use linerate_machine::cpu_time::CpuTimes;
use linerate_machine::groups;
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let always = [balancer(host), Some(quota(host)), load(host), steal(host)];
    always.into_iter().flatten().collect()
}

/// Checks whether irqbalance(1), which moves interrupts, is running. A running irqbalance has a
/// socket named after its PID; if irqbalance is killed, the socket is left behind.
fn balancer(host: &Host) -> Option<Observation> {
    let runs = |socket: &String| {
        let process = socket.strip_prefix("irqbalance")?.strip_suffix(".sock")?;
        let name = host.root.text(&format!("proc/{}/comm", process.parse::<u32>().ok()?))?;
        (name == "irqbalance").then_some(())
    };
    host.root.names("run/irqbalance").iter().find_map(runs)?;
    Some(DATA_PLANE.advice(
        "irqbalance",
        "running",
        "every few seconds, irqbalance moves interrupts between CPUs, including worker CPUs",
        Some("sudo systemctl stop irqbalance".to_owned()),
    ))
}

fn quota(host: &Host) -> Observation {
    let Some(folders) = groups::folders(&host.root, "cpu") else {
        let sentence = "the kernel exposes no cgroups, so no CPU quota is visible";
        return DATA_PLANE.unknown("cpu_quota", sentence);
    };
    match groups::cpu_quota(&host.root, &folders) {
        None => DATA_PLANE.good("cpu_quota", "none", "no CPU quota"),
        Some(quota) => DATA_PLANE.advice(
            "cpu_quota",
            format!("{:.2} CPUs", quota.cpus),
            "polling workers use up the CPU quota, and are then throttled until the next period",
            Some(quota.removal()),
        ),
    }
}

/// Load average per CPU above which interference from other programs is reported.
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
            "other programs ran during the last minute and may skew measurements",
            Some(
                "ps -eo pcpu,pid,args --sort=-pcpu | head  # lists the busiest programs".to_owned(),
            ),
        ),
        false => DATA_PLANE.good("load", value, "few other programs ran during the last minute"),
    })
}

/// Fraction of CPU time stolen by the hypervisor above which a problem is reported.
const MUCH_STEAL: f64 = 0.01;

/// Checks the fraction of steal time since boot. Returns no observation on bare metal.
fn steal(host: &Host) -> Option<Observation> {
    host.platform.hypervisor.as_ref()?;
    let times = CpuTimes::parse(&host.root.text("proc/stat")?).all?;
    let share = times.stolen? as f64 / times.total().max(1) as f64;
    let value = format!("{:.1} %", share * 100.0);
    Some(match share > MUCH_STEAL {
        true => DATA_PLANE.advice(
            "steal",
            value,
            "the hypervisor has stolen this share of CPU time since boot; only dedicated cores \
             prevent this",
            None,
        ),
        false => DATA_PLANE.good("steal", value, "little time was stolen by the hypervisor"),
    })
}
