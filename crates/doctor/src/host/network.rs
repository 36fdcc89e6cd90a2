// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks how many CPUs receive packets from each NIC. Ring sizes, which only ethtool(8) can query,
//! are not covered.

use super::{Host, counted};
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;
const CARDS: &str = "sys/class/net";

/// Returns one observation per NIC; virtual interfaces are skipped.
pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let names = host.root.names(CARDS).into_iter();
    names.filter_map(|card| queues(host, &card)).collect()
}

fn queues(host: &Host, card: &str) -> Option<Observation> {
    if !host.root.exists(&format!("{CARDS}/{card}/device")) {
        return None;
    }
    let at = format!("{CARDS}/{card}/queues");
    let all = host.root.names(&at);
    let receiving: Vec<&String> = all.iter().filter(|name| name.starts_with("rx-")).collect();
    let name = format!("receive_queues_{card}");
    if receiving.is_empty() {
        return Some(
            DATA_PLANE.unknown(&name, "the kernel exposes no receive queues for this NIC"),
        );
    }
    let is_spread = receiving.iter().any(|queue| {
        let mask = host.root.text(&format!("{at}/{queue}/rps_cpus")).unwrap_or_default();
        mask.bytes().any(|b| !matches!(b, b'0' | b','))
    });
    // Isolated CPUs should not process packets in the kernel.
    let cpus: Vec<u32> =
        host.online.iter().copied().filter(|cpu| !host.isolated.contains(cpu)).collect();
    let count = cpus.len().max(1);
    let value = format!("{} for {}{}", receiving.len(), counted(count), described(host, card));
    if host.root.text(&format!("{CARDS}/{card}/operstate")).as_deref() == Some("down") {
        return Some(DATA_PLANE.fact(&name, value, "the interface is down or has no link"));
    }
    Some(match (receiving.len() >= count, is_spread) {
        (true, _) => DATA_PLANE.good(&name, value, "each CPU can have its own queue"),
        (false, true) => DATA_PLANE.fact(
            &name,
            value,
            "there are fewer queues than CPUs, but the kernel spreads packets over more CPUs (RPS)",
        ),
        (false, false) => DATA_PLANE.advice(
            &name,
            value,
            "only one CPU per queue receives packets; more queues, or RPS, would spread them",
            Some(format!(
                "sudo ethtool -L {card} combined {count} || for f in /{at}/rx-*/rps_cpus; do echo \
                 {} | sudo tee $f; done",
                mask(&cpus)
            )),
        ),
    })
}

/// Formats the driver, link speed and NUMA node of a NIC, as far as the kernel reports them.
fn described(host: &Host, card: &str) -> String {
    let driver = std::fs::read_link(host.root.path(&format!("{CARDS}/{card}/device/driver"))).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let number = |file: &str| host.root.number::<i64>(&format!("{CARDS}/{card}/{file}"));
    let speed = number("speed").filter(|mbit| *mbit > 0).map(|mbit| match mbit % 1000 {
        0 => format!("{} Gbit/s", mbit / 1000),
        _ => format!("{mbit} Mbit/s"),
    });
    let node = number("device/numa_node").filter(|node| *node >= 0);
    let parts = [driver, speed, node.map(|node| format!("on node {node}"))];
    parts.into_iter().flatten().map(|part| format!(", {part}")).collect()
}

/// Formats a CPU mask in the kernel's syntax: hexadecimal, in groups of 32 bits, highest first.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let group = |index: u32| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == index);
        bits.fold(0u32, |mask, cpu| mask | 1 << (cpu % 32))
    };
    let texts = (0..groups).rev().map(|index| match index + 1 == groups {
        true => format!("{:x}", group(index)),
        false => format!("{:08x}", group(index)),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks_as_the_kernel_writes_them() {
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[4, 31]), "80000010");
        assert_eq!(mask(&[1, 32, 63]), "80000001,00000002");
        assert_eq!(mask(&(0..72).collect::<Vec<_>>()), "ff,ffffffff,ffffffff");
    }
}
