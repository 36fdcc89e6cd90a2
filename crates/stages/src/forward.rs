// SPDX-License-Identifier: MIT OR Apache-2.0
//! `forward`: forwards packets as a router does.
//!
//! IPv4 (RFC 1812): the TTL is decremented and the checksum updated incrementally (5.3.1, RFC
//! 1624); packets with addresses that must not be forwarded are dropped (5.3.7; link-local: RFC
//! 3927, 2.7). IPv6 (RFC 8200, section 3; RFC 4291, 2.5): the hop limit and addresses are treated
//! likewise. The route with the longest matching prefix determines the next hop; the Ethernet
//! addresses are rewritten; VLAN tags are kept.
//!
//! Not supported: ARP and neighbour discovery, multicast, ICMP errors (time exceeded, unreachable),
//! options that require processing by a router, source address validation beyond martians,
//! fragmentation.

use crate::headers::{array_mut, be16, be32};
use crate::params::{Mac, Prefix, Reader, fail};
use crate::routes::{Route, Routes};
use linerate_stage_api::Layers;
use linerate_stage_api::causes;
use linerate_stage_api::kernels::checksum;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Burst, Stage, StageContext, StageKind};

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    TtlExpired = "ttl_expired",
    /// The source or destination is an address to or from which packets must not be forwarded.
    Martian = "martian",
    /// Multicast or broadcast, which this stage does not forward.
    NotUnicast = "not_unicast",
    NoRoute = "no_route",
}

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "forward",
        help: "Route packets: decrement TTL or hop limit, drop martians, rewrite Ethernet \
               addresses.",
        params: &[
            ParamSpec {
                name: "source_mac",
                kind: ParamKind::Text,
                default: Default::Required,
                help: "MAC address of the egress port.",
            },
            ParamSpec {
                name: "next_hop_mac",
                kind: ParamKind::Text,
                default: Default::Text(""),
                help: "MAC address of the default gateway, for IPv4 and IPv6; \"\" means no \
                       default route.",
            },
            ParamSpec {
                name: "routes",
                kind: ParamKind::Texts,
                default: Default::EmptyTexts,
                help: "Routes, \"PREFIX via MAC\"; the longest matching prefix wins.",
            },
        ],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| Ok(Box::new(Forward::new(Reader(params))?)),
);

struct Forward {
    v4: Routes<u32>,
    v6: Routes<u128>,
    hops: Vec<NextHop>,
    /// Whether the path file sets a default route. If so, its next hop is the first in `hops`.
    has_default: bool,
}

struct NextHop {
    /// Destination and source MAC address, the first 12 bytes of each frame to this next hop.
    addresses: [u8; 12],
    /// Packets sent to this next hop.
    sent: u64,
}

impl Stage for Forward {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            let layers = packet.meta().layers;
            Cause::judge(self.forward(packet.bytes_mut(), &layers))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let (default, routes) = self.hops.split_at(usize::from(self.has_default));
        let sent = |hops: &[NextHop]| hops.iter().map(|hop| hop.sent).sum();
        let used = routes.iter().filter(|hop| hop.sent > 0).count() as u64;
        vec![
            ("by_default_route", sent(default)),
            ("by_route", sent(routes)),
            ("routes_used", used),
            ("routes_unused", routes.len() as u64 - used),
        ]
    }
}

impl Forward {
    fn new(params: Reader<'_>) -> Result<Self, BuildError> {
        let Mac(source) = params.parsed("source_mac")?;
        let (mut v4, mut v6, mut hops) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |prefixes: &[Prefix], Mac(next_hop): Mac| {
            let hop = u16::try_from(hops.len()).map_err(|_| "more than 65536 routes".to_owned())?;
            let addresses =
                [next_hop, source].concat().try_into().expect("two addresses are 12 bytes");
            hops.push(NextHop { addresses, sent: 0 });
            for prefix in prefixes {
                match *prefix {
                    Prefix::V4(p) => v4.push(Route { first: p.address, last: p.last(), hop }),
                    Prefix::V6(p) => v6.push(Route { first: p.address, last: p.last(), hop }),
                }
            }
            Ok(())
        };
        let default = params.optional("next_hop_mac")?;
        let has_default = default.is_some();
        if let Some(next_hop) = default {
            let all =
                [Prefix::V4(crate::params::Prefix4::ALL), Prefix::V6(crate::params::Prefix6::ALL)];
            add(&all, next_hop).map_err(|message| fail("next_hop_mac", message))?;
        }
        for (i, text) in params.texts("routes")?.iter().enumerate() {
            parse_route(text)
                .and_then(|(prefix, next_hop)| add(&[prefix], next_hop))
                .map_err(|message| BuildError { param: "routes", index: Some(i), message })?;
        }
        if hops.is_empty() {
            return Err(fail("next_hop_mac", "no routes; set `next_hop_mac` or `routes`".into()));
        }
        Ok(Self {
            v4: Routes::new(&v4, |a: u32| a.checked_add(1)),
            v6: Routes::new(&v6, |a: u128| a.checked_add(1)),
            hops,
            has_default,
        })
    }

    #[inline]
    fn forward(&mut self, frame: &mut [u8], layers: &Layers) -> Result<(), Cause> {
        let l3 = usize::from(layers.l3);
        let hop = match layers.ip_version {
            4 => self.forward_v4(array_mut(frame, l3).ok_or(Cause::Unparsed)?)?,
            6 => self.forward_v6(array_mut(frame, l3).ok_or(Cause::Unparsed)?)?,
            _ => return Err(Cause::Unparsed),
        };
        let hop = hop.ok_or(Cause::NoRoute)?;
        let hop = &mut self.hops[usize::from(hop)];
        *array_mut(frame, 0).ok_or(Cause::Unparsed)? = hop.addresses;
        hop.sent += 1;
        Ok(())
    }

    #[inline]
    fn forward_v4(&self, header: &mut [u8; 20]) -> Result<Option<u16>, Cause> {
        let destination = be32(header, 16);
        check_v4(be32(header, 12), destination)?;
        if header[8] <= 1 {
            return Err(Cause::TtlExpired);
        }
        let old = be16(header, 8);
        header[8] -= 1;
        let sum = checksum::update(be16(header, 10), old, be16(header, 8));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Ok(self.v4.find(destination))
    }

    #[inline]
    fn forward_v6(&self, header: &mut [u8; 40]) -> Result<Option<u16>, Cause> {
        let [source, destination] = [8, 24].map(|at| {
            let bytes = header[at..at + 16].try_into().expect("16 bytes");
            u128::from_be_bytes(bytes)
        });
        check_v6(source, destination)?;
        if header[7] <= 1 {
            return Err(Cause::TtlExpired);
        }
        header[7] -= 1;
        Ok(self.v6.find(destination))
    }
}

fn parse_route(text: &str) -> Result<(Prefix, Mac), String> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        [prefix, "via", mac] => Ok((prefix.parse()?, mac.parse()?)),
        _ => Err(format!("\"{text}\" is not of the form \"PREFIX via MAC\"")),
    }
}

/// Returns whether packets from or to this address must not be forwarded: "this network" 0/8,
/// loopback 127/8, link-local 169.254/16, class E 240/4.
#[inline]
fn is_martian_v4(address: u32) -> bool {
    matches!(address >> 24, 0 | 127 | 240..) || address >> 16 == 0xa9fe
}

#[inline]
fn check_v4(source: u32, destination: u32) -> Result<(), Cause> {
    // 224/4 is multicast; the limited broadcast address is the last one of class E.
    if is_martian_v4(source) || source >> 28 == 0xe {
        return Err(Cause::Martian);
    }
    if destination >> 28 == 0xe || destination == u32::MAX {
        return Err(Cause::NotUnicast);
    }
    if is_martian_v4(destination) { Err(Cause::Martian) } else { Ok(()) }
}

/// Returns whether packets from or to this address must not be forwarded: unspecified, loopback,
/// link-local fe80::/10.
#[inline]
fn is_martian_v6(address: u128) -> bool {
    address <= 1 || address >> 118 == 0xfe80 >> 6
}

#[inline]
fn check_v6(source: u128, destination: u128) -> Result<(), Cause> {
    if is_martian_v6(source) || source >> 120 == 0xff {
        return Err(Cause::Martian);
    }
    if destination >> 120 == 0xff {
        return Err(Cause::NotUnicast);
    }
    if is_martian_v6(destination) { Err(Cause::Martian) } else { Ok(()) }
}
