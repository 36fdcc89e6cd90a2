// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network path as seen from this thread's namespace: interface, offloads and rate limit.

use crate::account::Exit;
use linerate_linux::network::Network;
use linerate_record::stream::{StreamPath, StreamPathKind};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Offload features that compute IPv4 checksums, by their names in `ethtool -k`.
const CHECKSUM_FEATURES: [&str; 2] = ["tx-checksum-ip-generic", "tx-checksum-ipv4"];

/// Maximum length of an interface name in bytes (IFNAMSIZ, without the final zero).
const NAME_MAX: usize = 15;

/// Describes a path, given where the sender's packets leave their host. The sentence about
/// checksums is left to `explain`.
pub(crate) fn describe(kind: StreamPathKind, exit: &Exit) -> StreamPath {
    // It may come from another host, and is printed, and part of commands.
    let is_name = |name: &&String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
        (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_plain)
    };
    let interface = exit.interface.as_ref().filter(is_name).cloned();
    let software_checksum = match kind {
        StreamPathKind::Loopback => Some(false),
        _ => exit.software_checksum,
    };
    let qdisc_bits_per_s = exit.qdisc_rate.map(|bytes| 8.0 * bytes as f64);
    StreamPath { kind, interface, software_checksum, checksum: String::new(), qdisc_bits_per_s }
}

/// Returns where packets to a peer leave this host.
pub(crate) fn exit(peer: IpAddr) -> Exit {
    let Some(interface) = interface_to(peer) else { return Exit::default() };
    let network = Network::own().ok();
    let network = network.as_ref();
    Exit {
        software_checksum: network.and_then(|network| is_checksum_off(network, &interface)),
        qdisc_rate: network.and_then(|network| qdisc_rate(network, &interface)),
        interface: Some(interface),
    }
}

/// Returns whether transmit checksum offload is off on an interface; `None` if it has no such
/// feature.
fn is_checksum_off(network: &Network, interface: &str) -> Option<bool> {
    let features = network.features(interface).ok()?;
    let known = |name: &str| CHECKSUM_FEATURES.contains(&name);
    let mut states = features.iter().filter(|(name, _)| known(name)).map(|(_, is_on)| *is_on);
    let first = states.next()?;
    Some(!(first || states.any(|is_on| is_on)))
}

/// Returns the lowest rate limit of the qdiscs on an interface, in bytes per second; `None` if none
/// has a limit, or if they cannot be read. The limits of classes (htb) are left out: which class a
/// stream passes through, if any, is not known.
fn qdisc_rate(network: &Network, interface: &str) -> Option<u64> {
    let index = network.links().ok()?.into_iter().find(|link| link.name == interface)?.index;
    let qdiscs = network.qdiscs().ok()?;
    let limits = qdiscs.iter().filter(|qdisc| qdisc.interface == index);
    limits.filter_map(|qdisc| qdisc.rate).min()
}

/// Returns whether an address belongs to this thread's network namespace: packets to it go over
/// loopback.
pub(crate) fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || local_addresses().contains(&address)
}

/// Returns the outgoing interface for a peer; `None` if unknown, as for remote IPv6 peers.
fn interface_to(peer: IpAddr) -> Option<String> {
    if is_here(peer) {
        return Some("lo".to_owned());
    }
    let IpAddr::V4(peer) = peer else { return None };
    route(&fs::read_to_string("/proc/thread-self/net/route").ok()?, peer)
}

/// Returns the interface of the longest matching prefix in /proc/net/route, where the kernel prints
/// the four bytes of each address (in network byte order) as one hexadecimal number in host byte
/// order.
fn route(text: &str, peer: Ipv4Addr) -> Option<String> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::from_be);
    let line = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (destination, mask) = (number(columns.get(1)?)?, number(columns.get(7)?)?);
        (u32::from(peer) & mask == destination)
            .then(|| (mask, (*columns.first()?).to_owned()).into())
            .flatten()
    };
    let matching = text.lines().skip(1).filter_map(line);
    matching.max_by_key(|(mask, _): &(u32, String)| *mask).map(|(_, name)| name)
}

/// Returns the addresses of this thread's network namespace, IPv4 first, without loopback and IPv6
/// link-local addresses.
pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let text = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let mut all = parse_v4(&text("fib_trie").unwrap_or_default());
    all.extend(parse_v6(&text("if_inet6").unwrap_or_default()));
    all
}

/// Parses /proc/net/fib_trie: an address, followed by a line `/32 host LOCAL`.
fn parse_v4(text: &str) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let address = pair[0].rsplit(' ').next().and_then(|word| word.parse::<Ipv4Addr>().ok());
        let Some(address) = address.filter(|_| pair[1].contains("/32 host LOCAL")) else {
            continue;
        };
        if !address.is_loopback() && !all.contains(&address.into()) {
            all.push(address.into());
        }
    }
    all
}

/// Parses /proc/net/if_inet6: 32 hexadecimal digits in the first column, the scope in the fourth.
fn parse_v6(text: &str) -> Vec<IpAddr> {
    const GLOBAL: &str = "00";
    let line = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = u128::from_str_radix(columns.first()?, 16).ok()?;
        (*columns.get(3)? == GLOBAL).then(|| IpAddr::from(Ipv6Addr::from(address)))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line of /proc/net/route, with the addresses as the kernel prints them on this
    /// machine.
    fn line(name: &str, destination: [u8; 4], mask: [u8; 4]) -> String {
        let number = |bytes| format!("{:08X}", u32::from_ne_bytes(bytes));
        format!(
            "{name}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n",
            number(destination),
            number(mask)
        )
    }

    #[test]
    fn the_longest_prefix_wins() {
        let text = "Iface\tDestination\n".to_owned()
            + &line("any", [0; 4], [0; 4])
            + &line("near", [192, 0, 2, 0], [255, 255, 255, 0])
            + &line("wide", [192, 0, 0, 0], [255, 255, 0, 0]);
        let to = |peer| route(&text, peer).unwrap();
        assert_eq!(to(Ipv4Addr::new(192, 0, 2, 9)), "near");
        assert_eq!(to(Ipv4Addr::new(192, 0, 3, 9)), "wide");
        assert_eq!(to(Ipv4Addr::new(10, 0, 0, 1)), "any");
        assert_eq!(route("garbage\nx\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn the_path_is_that_of_the_sender() {
        let exit = Exit {
            interface: Some("eth7".to_owned()),
            software_checksum: Some(true),
            qdisc_rate: Some(1000),
        };
        let path = describe(StreamPathKind::Network, &exit);
        assert_eq!(path.interface.as_deref(), Some("eth7"));
        assert_eq!(path.software_checksum, Some(true));
        assert_eq!(path.qdisc_bits_per_s, Some(8000.0));
        let path = describe(StreamPathKind::Loopback, &exit);
        assert_eq!(path.software_checksum, Some(false), "loopback skips checksums");
        for name in ["", "eth0; reboot", "\u{1b}[2J", "longer-than-15-bytes"] {
            let odd = Exit { interface: Some(name.to_owned()), ..Exit::default() };
            assert_eq!(describe(StreamPathKind::Network, &odd).interface, None, "{name}");
        }
    }

    #[test]
    fn addresses_are_found_without_loopback() {
        let text = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.2\n        /32 host LOCAL\n     \
                    |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link \
                    BROADCAST\n";
        assert_eq!(parse_v4(text), [IpAddr::from([192, 0, 2, 2])]);
        let v6 = "00000000000000000000000000000001 01 80 10 80 lo\n\
                  20010db8000000000000000000000001 02 40 00 80 eth0\nx\n";
        assert_eq!(parse_v6(v6), ["2001:db8::1".parse::<IpAddr>().unwrap()]);
    }
}
