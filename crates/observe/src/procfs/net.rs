// SPDX-License-Identifier: MIT OR Apache-2.0
//! /proc/PID/net/{dev,snmp,netstat,snmp6}.

use super::number;
use linerate_linux::network::{InetProtocol, Link, Listed};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Parses the interfaces in /proc/PID/net/dev, as a fallback for netlink. `drop` includes drops for
/// lack of room in the NIC.
pub(crate) fn parse_dev(text: &str) -> Vec<Link> {
    let line = |line: &str| {
        // A name may contain a colon, but the counts do not.
        let (name, counts) = line.rsplit_once(':')?;
        let mut columns = counts.split_ascii_whitespace();
        let mut next = || number(&mut columns);
        let counts: [Option<u64>; 12] = std::array::from_fn(|_| next());
        Some(Link {
            name: name.trim().to_owned(),
            rx_bytes: counts[0]?,
            rx_packets: counts[1]?,
            rx_errors: counts[2]?,
            rx_dropped: counts[3]?,
            tx_bytes: counts[8]?,
            tx_packets: counts[9]?,
            tx_errors: counts[10]?,
            tx_dropped: counts[11]?,
            ..Link::default()
        })
    };
    text.lines().skip(2).filter_map(line).collect()
}

/// Parses the counters in /proc/PID/net/snmp and netstat by name: `Udp.RcvbufErrors`. Lines come in
/// pairs of names and values. Negative values are not counts and are left out.
pub(crate) fn parse_snmp(text: &str) -> BTreeMap<String, u64> {
    parse_snmp_lines(text.lines())
}

/// Like [`parse_snmp`], but parses only the given lines.
pub(crate) fn parse_snmp_lines<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let lines: Vec<&str> = lines.collect();
    for pair in lines.windows(2) {
        let (Some((group, names)), Some((same, values))) =
            (pair[0].split_once(": "), pair[1].split_once(": "))
        else {
            continue;
        };
        if group != same || names.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let values = values.split_ascii_whitespace().map(|value| value.parse().ok());
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            if let Some(value) = value {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
    }
    counters
}

/// Parses the counters in /proc/PID/net/stat/nf_conntrack, which has a line of names and a line of
/// hexadecimal values per CPU: `Conntrack.drop`. Values are summed over CPUs.
pub(crate) fn parse_conntrack(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            // `entries` is a gauge, and has the same value on every CPU's line.
            if let (Ok(value), false) = (u64::from_str_radix(value, 16), *name == "entries") {
                *counters.entry(format!("Conntrack.{name}")).or_default() += value;
            }
        }
    }
    counters
}

/// Parses the counters in /proc/PID/net/snmp6, such as `Udp6RcvbufErrors 0`. Names have the format
/// of [`parse_snmp`]: `Udp6.RcvbufErrors`.
pub(crate) fn parse_snmp6(text: &str) -> BTreeMap<String, u64> {
    parse_snmp6_lines(text.lines())
}

/// Like [`parse_snmp6`], but parses only the given lines.
pub(crate) fn parse_snmp6_lines<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let name = columns.next()?;
        let (group, rest) = name.split_once('6')?;
        Some((format!("{group}6.{rest}"), number(&mut columns)?))
    };
    lines.filter_map(line).collect()
}

/// Parses the sockets in /proc/PID/net/{tcp,tcp6,udp,udp6}, with drops for UDP sockets.
pub(crate) fn parse_sockets(text: &str, protocol: InetProtocol) -> Vec<(Listed, Option<u32>)> {
    /// TCP_LISTEN, in hexadecimal.
    const LISTEN: &str = "0A";
    let line = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (sent, received) = columns.get(4)?.split_once(':')?;
        let queue = |text| u32::from_str_radix(text, 16).ok();
        let listed = Listed {
            protocol,
            is_listening: protocol == InetProtocol::Tcp && *columns.get(3)? == LISTEN,
            local: parse_address(columns.get(1)?)?,
            remote: parse_address(columns.get(2)?)?,
            inode: columns.get(9)?.parse().ok()?,
            receive_queue: queue(received)?,
            send_queue: queue(sent)?,
        };
        let drops = columns.get(12).filter(|_| protocol == InetProtocol::Udp);
        Some((listed, drops.and_then(|drops| drops.parse().ok())))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Parses an address in the format of /proc/PID/net/tcp: 32-bit words in host byte order,
/// `0100007F:0035`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len())
        .step_by(8)
        .map(|at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    let address = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(v4) => IpAddr::from(v4),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the counters that increased from `before` to `after`. Leaves out values that decreased,
/// which are gauges.
pub(crate) fn grown(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let difference = |(name, after): (&String, &u64)| {
        let more = after.checked_sub(*before.get(name)?)?;
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(difference).collect()
}
