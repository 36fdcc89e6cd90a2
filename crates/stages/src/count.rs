// SPDX-License-Identifier: MIT OR Apache-2.0
//! `count`: counts packets and frame bytes by IP version and protocol, and tracks the smallest and
//! largest frame. Does not modify or drop packets.

use crate::headers::protocol;
use linerate_stage_api::Layers;
use linerate_stage_api::spec::{StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "count",
        help: "Count packets and bytes by IP version and protocol; track the smallest and largest \
               frame.",
        params: &[],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    |_, _| Ok(Box::new(Count::default())),
);

/// Names of each class's packet counter and byte counter, indexed by [`class`].
const NAMES: [(&str, &str); 9] = [
    ("v4_tcp_packets", "v4_tcp_bytes"),
    ("v4_udp_packets", "v4_udp_bytes"),
    ("v4_icmp_packets", "v4_icmp_bytes"),
    ("v4_other_packets", "v4_other_bytes"),
    ("v6_tcp_packets", "v6_tcp_bytes"),
    ("v6_udp_packets", "v6_udp_bytes"),
    ("v6_icmp_packets", "v6_icmp_bytes"),
    ("v6_other_packets", "v6_other_bytes"),
    ("unparsed_packets", "unparsed_bytes"),
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
    /// Smallest and largest frame so far, in bytes; `None` before the first.
    extremes: Option<(usize, usize)>,
}

impl Stage for Count {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageContext) {
        for packet in burst.iter() {
            let bytes = packet.length();
            let (packets, sum) = &mut self.classes[class(&packet.meta().layers)];
            *packets += 1;
            *sum += bytes as u64;
            let (least, most) = self.extremes.unwrap_or((bytes, bytes));
            self.extremes = Some((least.min(bytes), most.max(bytes)));
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let classes = NAMES.iter().zip(&self.classes).filter(|(_, c)| c.0 > 0);
        let mut counts: Vec<_> =
            classes.flat_map(|(name, c)| [(name.0, c.0), (name.1, c.1)]).collect();
        if let Some((least, most)) = self.extremes {
            counts.extend([("smallest_bytes", least as u64), ("largest_bytes", most as u64)]);
        }
        counts
    }
}
