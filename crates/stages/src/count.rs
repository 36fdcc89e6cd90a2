// SPDX-License-Identifier: MIT OR Apache-2.0
//! `count`: counts packets and octets of frames by IP version and protocol, and keeps the smallest
//! and the largest frame. Changes and drops nothing.

use crate::headers::protocol;
use linerate_stage_api::Layers;
use linerate_stage_api::spec::{StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "count",
        help: "Count packets and octets by IP version and protocol; smallest and largest frame.",
        params: &[],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    |_, _| Ok(Box::new(Count::default())),
);

/// The names of packets and octets, by [`class`].
const NAMES: [(&str, &str); 9] = [
    ("v4_tcp_packets", "v4_tcp_octets"),
    ("v4_udp_packets", "v4_udp_octets"),
    ("v4_icmp_packets", "v4_icmp_octets"),
    ("v4_other_packets", "v4_other_octets"),
    ("v6_tcp_packets", "v6_tcp_octets"),
    ("v6_udp_packets", "v6_udp_octets"),
    ("v6_icmp_packets", "v6_icmp_octets"),
    ("v6_other_packets", "v6_other_octets"),
    ("unparsed_packets", "unparsed_octets"),
];

#[inline]
fn class(layers: &Layers) -> usize {
    let first = match layers.ip_version {
        4 => 0,
        6 => 4,
        _ => return 8,
    };
    first
        + match layers.protocol {
            protocol::TCP => 0,
            protocol::UDP => 1,
            protocol::ICMP | protocol::ICMPV6 => 2,
            _ => 3,
        }
}

#[derive(Default)]
struct Count {
    classes: [(u64, u64); NAMES.len()],
    /// Of all frames seen; `None` before the first.
    extremes: Option<(usize, usize)>,
}

impl Stage for Count {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageContext) {
        for packet in burst.iter() {
            let octets = packet.octets();
            let (packets, sum) = &mut self.classes[class(&packet.meta().layers)];
            *packets += 1;
            *sum += octets as u64;
            let (least, most) = self.extremes.unwrap_or((octets, octets));
            self.extremes = Some((least.min(octets), most.max(octets)));
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let classes = NAMES.iter().zip(&self.classes).filter(|(_, c)| c.0 > 0);
        let mut counts: Vec<_> =
            classes.flat_map(|(name, c)| [(name.0, c.0), (name.1, c.1)]).collect();
        if let Some((least, most)) = self.extremes {
            counts.extend([("smallest_octets", least as u64), ("largest_octets", most as u64)]);
        }
        counts
    }
}
