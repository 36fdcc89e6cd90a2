// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the frames that tests offer to stages, and checks the resulting frames with code that is
//! independent of the stages.

use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, Ipv6Header, NetHeaders, PacketBuilder, PacketBuilderStep,
    PacketHeaders, TransportHeader,
};
use linerate_stage_api::source::mix;

pub(crate) type V4 = [u8; 4];
pub(crate) type V6 = [u8; 16];

pub(crate) const A: V4 = [10, 1, 2, 3];
pub(crate) const B: V4 = [192, 0, 2, 7];
pub(crate) const A6: V6 = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const B6: V6 = [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

pub(crate) fn ethernet() -> PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
}

/// Serializes a packet with `etherparse` and returns its bytes.
macro_rules! frame {
    ($builder:expr, $payload:expr) => {{
        let mut frame = Vec::new();
        $builder.write(&mut frame, $payload).expect("a frame");
        frame
    }};
}
pub(crate) use frame;

pub(crate) fn udp(source: V4, sport: u16, destination: V4, dport: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv4(source, destination, 64).udp(sport, dport), payload)
}

pub(crate) fn tcp(source: V4, sport: u16, destination: V4, dport: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv4(source, destination, 64).tcp(sport, dport, 7, 1000).ack(9), payload)
}

pub(crate) fn echo(source: V4, destination: V4, id: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv4(source, destination, 64).icmpv4_echo_request(id, 1), payload)
}

pub(crate) fn echo_reply(source: V4, destination: V4, id: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv4(source, destination, 64).icmpv4_echo_reply(id, 1), payload)
}

pub(crate) fn udp6(source: V6, destination: V6, dport: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv6(source, destination, 64).udp(4000, dport), payload)
}

pub(crate) fn tcp6(source: V6, destination: V6, dport: u16, payload: &[u8]) -> Vec<u8> {
    frame!(ethernet().ipv6(source, destination, 64).tcp(4000, dport, 7, 1000), payload)
}

/// Returns an ICMP error of type `icmp_type` that quotes `bytes` bytes of the IP packet in `frame`.
pub(crate) fn icmp_error(
    source: V4,
    destination: V4,
    icmp_type: u8,
    frame: &[u8],
    bytes: usize,
) -> Vec<u8> {
    let quote = &frame[14..frame.len().min(14 + bytes)];
    frame!(ethernet().ipv4(source, destination, 64).icmpv4_raw(icmp_type, 1, [0; 4]), quote)
}

/// Splits the IPv4 packet in `frame` into fragments with at most `bytes` bytes of payload each.
pub(crate) fn fragments(frame: &[u8], bytes: usize) -> Vec<Vec<u8>> {
    assert_eq!(bytes % 8, 0);
    let (header, _) = Ipv4Header::from_slice(&frame[14..]).expect("IPv4");
    let payload = &frame[14 + header.header_len()..];
    let count = payload.len().div_ceil(bytes);
    let piece = |(i, chunk): (usize, &[u8])| {
        let mut header = header.clone();
        header.dont_fragment = false;
        header.identification = 77;
        header.more_fragments = i + 1 < count;
        header.fragment_offset = IpFragOffset::try_new((i * bytes / 8) as u16).expect("13 bits");
        header.set_payload_len(chunk.len()).expect("16 bits");
        header.header_checksum = header.calc_header_checksum();
        let mut out = frame[..14].to_vec();
        out.extend(header.to_bytes());
        out.extend(chunk);
        out
    };
    payload.chunks(bytes).enumerate().map(piece).collect()
}

/// Returns a hand-built IPv6 packet with these headers before `payload`. `first` is the number of
/// the first header; each of the extension headers in `headers` starts with the number of the next
/// one.
pub(crate) fn v6_with(first: u8, headers: &[&[u8]], payload: &[u8]) -> Vec<u8> {
    let mut rest = headers.concat();
    rest.extend(payload);
    let header = Ipv6Header {
        payload_length: rest.len() as u16,
        next_header: IpNumber(first),
        hop_limit: 64,
        source: A6,
        destination: B6,
        ..Ipv6Header::default()
    };
    let mut frame = frame!(ethernet().ipv6(A6, B6, 64).udp(1, 1), &[]);
    frame.truncate(14);
    frame.extend(header.to_bytes());
    frame.extend(rest);
    frame
}

/// Checks with `etherparse` that the lengths in a frame are consistent and its checksums correct.
/// UDP without a checksum is valid.
#[track_caller]
pub(crate) fn assert_valid(frame: &[u8]) {
    let packet = PacketHeaders::from_ethernet_slice(frame).expect("the frame is well-formed");
    let payload = packet.payload.slice();
    match packet.net.expect("the frame is an IP packet") {
        NetHeaders::Ipv4(ip, _) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum(), "IPv4 header");
            let (s, d) = (ip.source, ip.destination);
            match packet.transport {
                Some(TransportHeader::Tcp(tcp)) => {
                    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4_raw(s, d, payload).unwrap());
                }
                Some(TransportHeader::Udp(udp)) if udp.checksum != 0 => {
                    assert_eq!(udp.checksum, udp.calc_checksum_ipv4_raw(s, d, payload).unwrap());
                }
                Some(TransportHeader::Icmpv4(icmp)) => {
                    assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
                }
                _ => {}
            }
        }
        NetHeaders::Ipv6(ip, _) => {
            let (s, d) = (ip.source, ip.destination);
            match packet.transport {
                Some(TransportHeader::Tcp(tcp)) => {
                    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6_raw(s, d, payload).unwrap());
                }
                Some(TransportHeader::Udp(udp)) => {
                    assert_eq!(udp.checksum, udp.calc_checksum_ipv6_raw(s, d, payload).unwrap());
                }
                Some(TransportHeader::Icmpv6(icmp)) => {
                    assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(s, d, payload).unwrap());
                }
                _ => {}
            }
        }
        NetHeaders::Arp(_) => panic!("ARP"),
    }
}

/// Returns the two ends of a packet, each as an address with its port or ICMP identifier. The frame
/// is IPv4 without options.
pub(crate) fn ends(frame: &[u8]) -> ((V4, u16), (V4, u16)) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let address = |at: usize| -> V4 { frame[at..at + 4].try_into().unwrap() };
    let (s, d) = if frame[23] == 1 { (word(38), word(38)) } else { (word(34), word(36)) };
    ((address(26), s), (address(30), d))
}

/// A reproducible stream of pseudo-random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(1);
        (((mix(self.0) >> 32) * u64::from(bound)) >> 32) as u32
    }

    pub(crate) fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.below(256) as u8).collect()
    }
}
