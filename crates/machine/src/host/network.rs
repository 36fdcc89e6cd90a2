// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network cards: how many CPUs share the receiving.

use super::{Host, counted};
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;
const CARDS: &str = "sys/class/net";

/// One observation for each card; interfaces without a device behind them are none.
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
        return Some(DATA_PLANE.unknown(&name, "the kernel shows no receive queues of this card"));
    }
    let is_spread = receiving.iter().any(|queue| {
        let mask = host.root.text(&format!("{at}/{queue}/rps_cpus")).unwrap_or_default();
        mask.bytes().any(|b| !matches!(b, b'0' | b','))
    });
    let cpus = host.online.len().max(1);
    let mut value = format!("{} for {}", receiving.len(), counted(cpus));
    if let Some(node) = host.root.number::<i32>(&format!("{CARDS}/{card}/device/numa_node")) {
        if node >= 0 {
            value += &format!(", on node {node}");
        }
    }
    Some(match (receiving.len() >= cpus, is_spread) {
        (true, _) => DATA_PLANE.good(&name, value, "each CPU can have a queue of its own"),
        (false, true) => DATA_PLANE.fact(
            &name,
            value,
            "fewer queues than CPUs, and the kernel spreads packets further (RPS)",
        ),
        (false, false) => DATA_PLANE.advice(
            &name,
            value,
            "all packets come in on as many CPUs as there are queues; more queues, or RPS, spread \
             them",
            Some(format!(
                "sudo ethtool -L {card} combined {cpus} || echo {} | sudo tee \
                 /{at}/rx-0/rps_cpus",
                mask(&host.online)
            )),
        ),
    })
}

/// CPUs as the mask that the kernel takes: hexadecimal, groups of 32 bits from the highest down.
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
