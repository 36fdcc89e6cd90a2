// SPDX-License-Identifier: MIT OR Apache-2.0
//! RSS in software: a hash assigns packets to buckets, and an indirection table assigns buckets to
//! replicas.
//!
//! As in a NIC, the hash covers addresses, protocol and ports of unfragmented TCP and UDP packets,
//! and only the addresses of all other packets. With this hash alone, fragments could be in a
//! different bucket from the other packets of their flow. Therefore, if two addresses exchange
//! fragments (see `may_be_fragment`), all replayed packets between them are hashed by address only.
//! The hash ignores the inner headers of tunnels. It has no secret key, so senders can choose the
//! buckets of their packets.

use crate::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, be16, network_layer};
use crate::stage::BUCKETS;
use linerate_record::random::mix;

/// Bits of an IPv4 header that are set only in fragments: offset and "more fragments" (RFC 791).
const IPV4_FRAGMENT_BITS: u16 = 0x3fff;
/// IPv4 protocol numbers and IPv6 next headers of TCP and UDP.
const TCP_AND_UDP: [u8; 2] = [6, 17];
/// IPv6 next headers that are or may precede a fragment header (RFC 8200): hop-by-hop options,
/// routing, fragment, authentication, destination options.
const IPV6_EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// Returns the bucket (below [`BUCKETS`]) of a frame. For an unfragmented TCP or UDP packet, the
/// bucket depends on IP addresses, protocol and ports; for any other packet, it is the
/// [`address_bucket`].
///
/// Both directions of a flow are in the same bucket. Fragments may be in a different bucket from
/// the unfragmented packets of their flow.
pub fn flow_bucket(frame: &[u8]) -> u8 {
    let Some((l3, ethertype)) = network_layer(frame) else { return address_bucket(frame) };
    if is_whole(frame, l3, ethertype) != Some(true) {
        return address_bucket(frame);
    }
    let hash = ip_pair(frame, l3, ethertype).zip(ports(frame, l3)).map(|(addresses, ports)| {
        let [a, b] = addresses.map(mix);
        let [from, to] = ports.each;
        let end = |address: u64, port: u16| {
            mix(address.wrapping_add(u64::from(port) << 8 | u64::from(ports.protocol)))
        };
        mix(end(a, from).wrapping_add(end(b, to)))
    });
    hash.map_or_else(|| address_bucket(frame), |hash| (hash % BUCKETS as u64) as u8)
}

/// Returns whether a frame may be a fragment of an IP packet: an IPv4 fragment, or an IPv6 packet
/// with extension headers.
pub(crate) fn may_be_fragment(frame: &[u8]) -> bool {
    let whole = network_layer(frame).and_then(|(l3, ethertype)| is_whole(frame, l3, ethertype));
    whole == Some(false)
}

/// Returns the bucket (below [`BUCKETS`]) of a frame by its addresses. Hashes the IP address pair,
/// skipping up to four VLAN tags. Hashes the MAC address pair instead if the frame is not IP or is
/// truncated before the end of the IP addresses. Returns bucket 0 if the MAC addresses are
/// truncated as well.
///
/// All packets between two addresses, in both directions and including fragments, are in the same
/// bucket.
pub fn address_bucket(frame: &[u8]) -> u8 {
    (address_hash(frame) % BUCKETS as u64) as u8
}

/// Returns the hash from which [`address_bucket`] derives the bucket. Both directions of a flow
/// have the same hash.
pub fn address_hash(frame: &[u8]) -> u64 {
    let pair = network_layer(frame).and_then(|(l3, ethertype)| ip_pair(frame, l3, ethertype));
    let pair = pair.or_else(|| mac_pair(frame));
    // A sum does not depend on the direction. Each address is mixed first; otherwise, the pairs (1,
    // 4) and (2, 3) would have the same sum.
    pair.map_or(0, |[a, b]| mix(mix(a).wrapping_add(mix(b))))
}

/// Ports of a TCP or UDP packet.
struct Ports {
    protocol: u8,
    each: [u16; 2],
}

/// Returns the ports of an unfragmented packet whose IP header begins at `l3`; `None` if the packet
/// is neither TCP nor UDP.
fn ports(frame: &[u8], l3: usize) -> Option<Ports> {
    let first = *frame.get(l3)?;
    let (protocol, l4) = match first >> 4 {
        4 => (*frame.get(l3 + 9)?, l3 + 4 * usize::from(first & 0xf)),
        _ => (*frame.get(l3 + 6)?, l3 + 40),
    };
    let is_known = TCP_AND_UDP.contains(&protocol);
    is_known.then_some(Ports { protocol, each: [be16(frame, l4)?, be16(frame, l4 + 2)?] })
}

/// Returns whether the IP packet whose header begins at `l3` is certainly not a fragment; `None` if
/// the frame is not IP or is truncated.
fn is_whole(frame: &[u8], l3: usize, ethertype: u16) -> Option<bool> {
    match ethertype {
        ETHERTYPE_IPV4 => Some(be16(frame, l3 + 6)? & IPV4_FRAGMENT_BITS == 0),
        ETHERTYPE_IPV6 => Some(!IPV6_EXTENSIONS.contains(frame.get(l3 + 6)?)),
        _ => None,
    }
}

/// Returns the addresses of the IP packet whose header begins at `l3`; `None` if the frame is not
/// IP or is truncated.
fn ip_pair(frame: &[u8], l3: usize, ethertype: u16) -> Option<[u64; 2]> {
    let number32 = |at| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let number64 = |at| Some(u64::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    match ethertype {
        ETHERTYPE_IPV4 => Some([number32(l3 + 12)?.into(), number32(l3 + 16)?.into()]),
        ETHERTYPE_IPV6 => {
            let folded = |at| Some(mix(number64(at)?) ^ number64(at + 8)?);
            Some([folded(l3 + 8)?, folded(l3 + 24)?])
        }
        _ => None,
    }
}

fn mac_pair(frame: &[u8]) -> Option<[u64; 2]> {
    let pair = frame.get(..12)?;
    let number = |mac: &[u8]| mac.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    Some([number(&pair[..6]), number(&pair[6..])])
}

/// Builds an indirection table that assigns each bucket to one of `replicas` (1 to 256) replicas
/// and balances the load between them. `weights` is the load of each bucket, such as its number of
/// packets.
///
/// Repeatedly assigns the heaviest remaining bucket to the least loaded replica. Ties go to the
/// lower-numbered replica, so the same weights always yield the same table. For `m` replicas, the
/// largest load is at most `4/3 - 1/(3m)` times the optimum (Graham, Bounds on Multiprocessing
/// Timing Anomalies, 1969).
///
/// # Panics
/// Panics unless `replicas` is 1 to 256.
pub fn indirection(weights: &[u64; BUCKETS], replicas: u32) -> [u8; BUCKETS] {
    assert!((1..=256).contains(&replicas), "replicas must be 1 to 256, not {replicas}");
    let mut heaviest_first: Vec<usize> = (0..BUCKETS).collect();
    heaviest_first.sort_by_key(|&bucket| std::cmp::Reverse(weights[bucket]));
    let mut loads = vec![0u64; replicas as usize];
    let mut table = [0; BUCKETS];
    for bucket in heaviest_first {
        let replica = (0..loads.len()).min_by_key(|&r| loads[r]).unwrap_or(0);
        loads[replica] += weights[bucket];
        table[bucket] = replica as u8;
    }
    table
}

/// Returns the share of the total load that [`indirection`] assigns to the most loaded of
/// `replicas` replicas: `1 / replicas` if the load is even (or zero), 1 if all of it is in one
/// bucket.
///
/// # Panics
/// Panics unless `replicas` is 1 to 256.
#[cfg(test)]
pub(crate) fn largest_share(weights: &[u64; BUCKETS], replicas: u32) -> f64 {
    let mut loads = vec![0u64; replicas as usize];
    for (weight, replica) in weights.iter().zip(indirection(weights, replicas)) {
        loads[usize::from(replica)] += weight;
    }
    match (loads.iter().max(), loads.iter().sum::<u64>()) {
        (Some(&largest), total) if total > 0 => largest as f64 / total as f64,
        _ => 1.0 / f64::from(replicas),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ipv4(from: u32, to: u32, tags: &[u16]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend([0x08, 0x00, 0x45]);
        frame.extend([0; 11]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame
    }

    /// Returns a TCP packet over IPv4 with a correct IP header length and protocol, after VLAN tags
    /// with these EtherTypes.
    fn tcp4(from: u32, to: u32, from_port: u16, to_port: u16, tags: &[u16]) -> Vec<u8> {
        let mut frame = ipv4(from, to, tags);
        let l3 = frame.len() - 20;
        frame[l3 + 9] = 6;
        frame.extend(from_port.to_be_bytes());
        frame.extend(to_port.to_be_bytes());
        frame
    }

    fn tcp6(from: u128, to: u128, from_port: u16, to_port: u16) -> Vec<u8> {
        let mut frame = ipv6(from, to);
        frame[14 + 6] = 6;
        frame.extend(from_port.to_be_bytes());
        frame.extend(to_port.to_be_bytes());
        frame
    }

    fn ipv6(from: u128, to: u128) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60];
        frame.extend([0; 7]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn directions_and_tags_do_not_matter(a: u32, b: u32, c: u128, d: u128) {
            let bucket = address_bucket(&ipv4(a, b, &[]));
            prop_assert_eq!(bucket, address_bucket(&ipv4(b, a, &[])));
            prop_assert_eq!(bucket, address_bucket(&ipv4(a, b, &[0x8100])));
            prop_assert_eq!(bucket, address_bucket(&ipv4(b, a, &[0x88a8, 0x8100])));
            prop_assert_eq!(bucket, address_bucket(&ipv4(b, a, &[0x9100, 0x9100, 0x8100])));
            prop_assert_eq!(address_bucket(&ipv6(c, d)), address_bucket(&ipv6(d, c)));
        }

        #[test]
        fn any_bytes_have_a_bucket(frame in prop::collection::vec(any::<u8>(), 0..70)) {
            prop_assert!(usize::from(address_bucket(&frame)) < BUCKETS);
            prop_assert!(usize::from(flow_bucket(&frame)) < BUCKETS);
            may_be_fragment(&frame);
        }

        #[test]
        fn both_directions_of_a_flow_share_a_bucket(a: u32, b: u32, from: u16, to: u16) {
            for tags in [&[][..], &[0x8100], &[0x9100, 0x8100, 0x8100]] {
                let there = flow_bucket(&tcp4(a, b, from, to, tags));
                prop_assert_eq!(there, flow_bucket(&tcp4(b, a, to, from, tags)));
                prop_assert_eq!(there, flow_bucket(&tcp4(a, b, from, to, &[])));
            }
            let (c, d) = (u128::from(a), u128::from(b) << 64);
            prop_assert_eq!(flow_bucket(&tcp6(c, d, from, to)), flow_bucket(&tcp6(d, c, to, from)));
        }

        #[test]
        fn assignment_keeps_its_bound(
            few in prop::collection::vec(0u64..1000, 1..8),
            replicas in 1u32..4,
        ) {
            let mut weights = [0; BUCKETS];
            weights[..few.len()].copy_from_slice(&few);
            let table = indirection(&weights, replicas);
            let mut loads = vec![0; replicas as usize];
            for (bucket, weight) in weights.iter().enumerate() {
                loads[usize::from(table[bucket])] += weight;
            }
            let largest = *loads.iter().max().unwrap();
            let m = f64::from(replicas);
            let bound = best_largest(&few, &mut vec![0; replicas as usize]) as f64
                * (4.0 / 3.0 - 1.0 / (3.0 * m));
            prop_assert!(largest as f64 <= bound + 1e-9, "{largest} > {bound}");
            let total: u64 = few.iter().sum();
            if total > 0 {
                prop_assert_eq!(largest_share(&weights, replicas), largest as f64 / total as f64);
            }
        }
    }

    /// Finds the smallest possible maximum load by exhaustive search.
    fn best_largest(weights: &[u64], loads: &mut Vec<u64>) -> u64 {
        let Some((first, rest)) = weights.split_first() else {
            return *loads.iter().max().unwrap();
        };
        (0..loads.len())
            .map(|r| {
                loads[r] += first;
                let best = best_largest(rest, loads);
                loads[r] -= first;
                best
            })
            .min()
            .unwrap()
    }

    #[test]
    fn a_cut_frame_falls_back_to_what_is_left() {
        let frame = ipv4(0x0a00_0001, 0xc633_6401, &[]);
        let by_mac = address_bucket(&frame[..12]);
        for cut in 12..frame.len() {
            assert_eq!(address_bucket(&frame[..cut]), by_mac, "truncated to {cut} bytes");
        }
        assert_ne!(address_bucket(&frame), by_mac);
        for cut in 0..12 {
            assert_eq!(address_bucket(&frame[..cut]), 0, "truncated to {cut} bytes");
        }
    }

    /// Returns the chi-squared statistic of the bucket counts against a uniform distribution. With
    /// 127 degrees of freedom, a random hash exceeds 181.99 once in a thousand times.
    fn chi_squared(frames: impl Iterator<Item = Vec<u8>>, bucket: fn(&[u8]) -> u8) -> f64 {
        let mut counts = [0u32; BUCKETS];
        for frame in frames {
            counts[usize::from(bucket(&frame))] += 1;
        }
        let expected = f64::from(counts.iter().sum::<u32>()) / BUCKETS as f64;
        counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum()
    }

    #[test]
    fn neighbouring_addresses_spread_evenly() {
        let pairs = || (0..256u32).flat_map(|host| (0..32u32).map(move |server| (host, server)));
        let v4 = pairs().map(|(h, s)| ipv4(0x0a00_0000 + h, 0xc633_6400 + s, &[]));
        assert!(chi_squared(v4, address_bucket) < 182.0);
        let net = 0x2001_0db8_u128 << 96;
        let v6 = pairs().map(|(h, s)| ipv6(net + u128::from(h), net + (1 << 64) + u128::from(s)));
        assert!(chi_squared(v6, address_bucket) < 182.0);
        let subnets = pairs().map(|(h, s)| ipv4(h << 8, 0xc633_0000 + (s << 8), &[]));
        assert!(chi_squared(subnets, address_bucket) < 182.0);
    }

    #[test]
    fn connections_of_two_hosts_spread_evenly() {
        let ports = || (32_768..40_960u16).map(|port| (port, 80));
        let v4 = ports().map(|(from, to)| tcp4(0x7f00_0001, 0x7f00_0001, from, to, &[]));
        assert!(chi_squared(v4, flow_bucket) < 182.0);
        let v6 = ports().map(|(from, to)| tcp6(1, 1, from, to));
        assert!(chi_squared(v6, flow_bucket) < 182.0);
    }

    #[test]
    fn fragments_and_other_protocols_hash_by_address() {
        let whole = tcp4(1, 2, 3, 4, &[]);
        let by_address = address_bucket(&whole);
        assert!(!may_be_fragment(&whole));
        assert_ne!(flow_bucket(&whole), by_address);
        for (at, value) in [(6, 0x20), (6, 0x01), (7, 0xb9)] {
            let mut fragment = whole.clone();
            fragment[14 + at] = value;
            assert!(may_be_fragment(&fragment), "byte {at} is {value}");
            assert_eq!(flow_bucket(&fragment), by_address, "byte {at} is {value}");
        }
        let mut do_not_fragment = whole.clone();
        do_not_fragment[14 + 6] = 0x40;
        assert_eq!(flow_bucket(&do_not_fragment), flow_bucket(&whole));
        let mut icmp = whole.clone();
        icmp[14 + 9] = 1;
        assert_eq!(flow_bucket(&icmp), by_address);
        assert_eq!(flow_bucket(&whole[..whole.len() - 1]), by_address, "the port is truncated");
        let mut extended = tcp6(1, 2, 3, 4);
        extended[14 + 6] = 44;
        assert!(may_be_fragment(&extended));
        assert_eq!(flow_bucket(&extended), address_bucket(&extended));
    }

    #[test]
    fn shares_without_load_are_even() {
        assert_eq!(largest_share(&[0; BUCKETS], 4), 0.25);
        assert_eq!(largest_share(&[3; BUCKETS], 4), 0.25);
        let mut one = [0; BUCKETS];
        one[5] = 9;
        assert_eq!(largest_share(&one, 2), 1.0);
    }
}
