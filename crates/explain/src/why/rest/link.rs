// SPDX-License-Identifier: MIT OR Apache-2.0
//! An interface of the program that carries as much as its link can.

use super::super::facts::{Facts, Subject};
use super::super::gain;
use super::super::measure::Measure as M;
use linerate_record::units::BitsPerSecond;
use linerate_record::why::{InterfaceCounts, SocketCounts, SocketKind};

/// Framing per Ethernet frame that interfaces do not count, in bytes: preamble, FCS and gap.
const FRAMING: u64 = 24;

/// Drivers of virtual interfaces, which report a speed that does not limit them.
const VIRTUAL: [&str; 12] = [
    "802.1Q VLAN Support",
    "bonding",
    "bridge",
    "hv_netvsc",
    "ipvlan",
    "macvlan",
    "team",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
    "xen-netfront",
];

/// Returns the interface whose link is full in the direction in which the program carries much of
/// its traffic, with its speed; `None` if there is none, or if the user requested a line rate,
/// which is then the limit.
pub(in super::super) fn full_link(facts: &Facts<'_>) -> Option<String> {
    /// Minimum part of the full direction that is the program's: of the bytes, or of the packets if
    /// the program's bytes are not counted.
    const OWN: f64 = 0.3;
    if facts.observation.watched.line_bits_per_s.is_some() {
        return None;
    }
    let [received, sent] = own_load(facts)?;
    facts.observation.interfaces.iter().find_map(|interface| {
        let speed = speed(interface)?;
        let is_full = |bytes: u64, packets: u64, own: Load| {
            /// Minimum and maximum rate relative to the link's speed. A rate far above it shows
            /// that the reported speed does not apply.
            const FULL: std::ops::RangeInclusive<f64> = 0.93..=1.05;
            let rate = 8.0 * (bytes + FRAMING * packets) as f64 / facts.elapsed();
            let is_own = match own.bytes {
                Some(own) => own as f64 >= OWN * bytes as f64,
                None => own.packets as f64 >= OWN * packets as f64,
            };
            FULL.contains(&(rate / speed)) && is_own
        };
        let is_one = is_full(interface.rx_bytes, interface.rx_packets, received)
            || is_full(interface.tx_bytes, interface.tx_packets, sent);
        is_one.then(|| format!("{} ({})", interface.name, BitsPerSecond(speed)))
    })
}

/// Returns the speed of an interface's link in bits per second, if it limits the interface.
fn speed(interface: &InterfaceCounts) -> Option<f64> {
    /// Minimum speed in bits per second; lower values are probably wrong.
    const LEAST: f64 = 100e6;
    let driver = interface.driver.as_deref()?;
    let is_virtual = interface.name == "lo" || VIRTUAL.contains(&driver);
    interface.link_bits_per_s.filter(|speed| !is_virtual && *speed >= LEAST)
}

/// What a program sends or receives over the links of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Load {
    packets: u64,
    /// Bytes with headers; `None` if not counted, as for datagrams.
    bytes: Option<u64>,
}

/// Returns what the program received from other machines and sent to them; `None` if it is not
/// counted.
fn own_load(facts: &Facts<'_>) -> Option<[Load; 2]> {
    /// Bytes of a segment's headers that interfaces count: TCP with timestamps, IPv4, and Ethernet.
    const HEADERS: u64 = 32 + 20 + 14;
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let is_away = |socket: &&SocketCounts| {
        let remote = socket.remote.as_deref().unwrap_or_default();
        let is_loopback = remote.starts_with("127.") || remote.starts_with("[::1]");
        !is_loopback && host(remote) != host(&socket.local)
    };
    let tcps = || facts.connections().filter(is_away).filter_map(|socket| socket.tcp.as_ref());
    let segments: [u64; 2] =
        [tcps().map(|tcp| tcp.segments_in).sum(), tcps().map(|tcp| tcp.segments_out).sum()];
    let payload: [u64; 2] =
        [tcps().map(|tcp| tcp.bytes_received).sum(), tcps().map(|tcp| tcp.bytes_acked).sum()];
    let has_udp = facts.observation.sockets.iter().any(|one| one.kind == SocketKind::Udp);
    if !has_udp || facts.is_unread("udp_datagrams") {
        let load = |at: usize| {
            let bytes = payload[at] + HEADERS * segments[at];
            Load { packets: segments[at], bytes: Some(bytes) }
        };
        return (segments != [0, 0]).then(|| [load(0), load(1)]);
    }
    let [received, sent] =
        ["InDatagrams", "OutDatagrams"].map(|name| facts.datagrams(name).unwrap_or(0));
    Some([segments[0] + received, segments[1] + sent].map(|packets| Load { packets, bytes: None }))
}

/// Returns the requested line rate if the program has reached it: an interface carries that much,
/// and at least half of it is the program's, as far as known.
pub(super) fn limit_reached(facts: &Facts<'_>) -> Option<String> {
    /// Minimum fraction of line rate at which line rate counts as reached: byte counters exclude
    /// gaps and headers.
    const OF_LINE: f64 = 0.85;
    /// Minimum part of the program's own packets in the line rate.
    const OWN: f64 = 0.5;
    let watched = &facts.observation.watched;
    let line = watched.line_bits_per_s?;
    let of_interface = |rate: u64| 8.0 * rate as f64 / facts.elapsed();
    let is_meant = |name: &str| name != "lo" || watched.interface.as_deref() == Some(name);
    let rates = facts.observation.interfaces.iter().filter(|one| is_meant(&one.name));
    let most = rates.map(|i| of_interface(i.rx_bytes.max(i.tx_bytes))).fold(0.0, f64::max);
    let has_none = || {
        let own = M::OwnOfReceived.of(facts, Subject::Program);
        facts.packets().is_none() && own.is_some_and(|own| own.high <= 0.0)
    };
    let is_own = watched.interface.is_some()
        || gain::wire_rate(facts).map_or_else(|| !has_none(), |rate| rate >= OWN * line);
    (most >= OF_LINE * line && is_own).then(|| BitsPerSecond(line).to_string())
}
