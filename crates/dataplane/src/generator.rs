// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates UDP packets over IPv4 with valid checksums, for a given number of flows. A list of
//! frame sizes is used in rotation.
//!
//! Not supported: IPv6, TCP, and packets from servers to clients. Use a capture for these.

use crate::headers::ETHERNET_BYTES;
use crate::pool::MAX_BUFFER_BYTES;
use linerate_record::random::{Random, mix};
use std::fmt;

const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

/// Smallest frame: Ethernet, IPv4 and UDP headers without payload.
pub const MIN_FRAME_BYTES: u32 = (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES) as u32;

/// Maximum total size of the generated frames in bytes. With this limit, a run uses less than 200
/// MB of memory, including buffers and records.
pub const MAX_TRAFFIC_BYTES: u64 = 64 << 20;

/// Minimum number of generated packets: several times as many as a run's rings and bursts can hold.
const MIN_PACKETS: u64 = 4096;

/// Maximum number of clients (inside hosts): eight per RSS bucket. Further flows differ only in
/// their ports.
const MAX_HOSTS: u64 = 1024;
const INSIDE_NET: u64 = 0x0a00_0000;
/// Server network: TEST-NET-2 (RFC 5737).
const SERVER_NET: u64 = 0xc633_6400;
const SERVERS: u64 = 32;
/// Server ports: discard (RFC 863) and unassigned ones, so no protocol prescribes the payload.
const SERVER_PORTS: [u16; 4] = [9, 60001, 60002, 60003];
/// First port of the clients. They use the upper half of the dynamic ports (RFC 6335), which no
/// known protocol uses.
const FIRST_CLIENT_PORT: u64 = 57344;
const CLIENT_PORTS: u64 = 65536 - FIRST_CLIENT_PORT;

/// Value of all payload bytes. In random bytes, a dissector might recognize some protocol.
const PAYLOAD: u8 = 0x55;

/// Generator parameters. The same parameters always produce the same frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator<'a> {
    /// Frame sizes in bytes without FCS, used in rotation.
    pub sizes: &'a [u32],
    /// Number of distinct 5-tuples; each is used at least once.
    pub flows: u32,
    /// Random seed for servers, ports and flow order.
    pub seed: u64,
}

/// Error returned for invalid generator parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeneratorError {
    /// No frame sizes.
    NoSizes,
    /// No flows.
    NoFlows,
    /// Frame size out of range.
    FrameSize {
        /// Requested frame size in bytes.
        bytes: u32,
        /// Maximum frame size, given the buffer size.
        max: u32,
    },
    /// One frame per flow would take more than [`MAX_TRAFFIC_BYTES`] in total; holds that total.
    TooMuch(u64),
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSizes => f.write_str("no frame size: give at least one"),
            Self::NoFlows => f.write_str("0 flows: at least 1 is needed"),
            Self::FrameSize { bytes, max } => write!(
                f,
                "invalid frame size {bytes}: expected {MIN_FRAME_BYTES} to the buffer size, {max} \
                 bytes"
            ),
            Self::TooMuch(bytes) => write!(
                f,
                "one frame for each flow would take {bytes} bytes, more than the limit of \
                 {MAX_TRAFFIC_BYTES}: use fewer flows or smaller frames"
            ),
        }
    }
}

impl std::error::Error for GeneratorError {}

impl Generator<'_> {
    /// Generates frames and passes each to `keep`. The sequence consists of complete rotations of
    /// the sizes, with at least one frame per flow and at least 4096 frames. Each pass over the
    /// flows uses a new random order.
    pub fn generate(
        &self,
        buffer_bytes: u32,
        mut keep: impl FnMut(&[u8]),
    ) -> Result<(), GeneratorError> {
        let packets = self.packets(buffer_bytes)?;
        let mut random = Random::new(self.seed);
        let mut order: Vec<u32> = (0..self.flows).collect();
        let mut frame = Vec::new();
        for i in 0..packets as usize {
            let turn = i % order.len();
            if turn == 0 {
                shuffle(&mut order, &mut random);
            }
            let bytes = self.sizes[i % self.sizes.len()] as usize;
            self.build(order[turn].into(), bytes, &mut frame);
            keep(&frame);
        }
        Ok(())
    }

    /// Checks the parameters and returns the number of frames.
    fn packets(&self, buffer_bytes: u32) -> Result<u64, GeneratorError> {
        let max = buffer_bytes.min(MAX_BUFFER_BYTES as u32);
        if self.flows == 0 {
            return Err(GeneratorError::NoFlows);
        }
        if let Some(&bytes) = self.sizes.iter().find(|s| !(MIN_FRAME_BYTES..=max).contains(s)) {
            return Err(GeneratorError::FrameSize { bytes, max });
        }
        let round = self.sizes.len() as u64;
        if round == 0 {
            return Err(GeneratorError::NoSizes);
        }
        let rounds = u64::from(self.flows).max(MIN_PACKETS).div_ceil(round);
        let bytes = rounds * self.sizes.iter().map(|s| u64::from(*s)).sum::<u64>();
        if bytes > MAX_TRAFFIC_BYTES {
            return Err(GeneratorError::TooMuch(bytes));
        }
        Ok(rounds * round)
    }

    /// Builds a frame of a flow. Flows of the same host differ in the client port: the host's `n`th
    /// flow uses the `n`th port from [`FIRST_CLIENT_PORT`] on. There are at most `MAX_TRAFFIC_BYTES
    /// / MIN_FRAME_BYTES` flows, or 1561 for each of 1024 hosts, fewer than the 8192 ports of a
    /// host.
    fn build(&self, flow: u64, bytes: usize, frame: &mut Vec<u8>) {
        let hosts = u64::from(self.flows).min(MAX_HOSTS);
        let (host, nth) = (flow % hosts, flow / hosts);
        let choice = mix(self.seed ^ mix(flow));
        let first_port = mix(self.seed ^ mix(!host)) % CLIENT_PORTS;
        let tuple = Tuple {
            client: (INSIDE_NET + 1 + host) as u32,
            server: (SERVER_NET + 1 + choice % SERVERS) as u32,
            client_port: (FIRST_CLIENT_PORT + (first_port + nth) % CLIENT_PORTS) as u16,
            server_port: SERVER_PORTS[(choice >> 32) as usize % SERVER_PORTS.len()],
        };
        frame.clear();
        tuple.headers(bytes, frame);
        frame.resize(bytes, PAYLOAD);
        seal(frame);
    }
}

struct Tuple {
    client: u32,
    server: u32,
    client_port: u16,
    server_port: u16,
}

impl Tuple {
    /// Appends Ethernet, IPv4 and UDP headers with zero checksums for a frame of `bytes` bytes.
    fn headers(&self, bytes: usize, frame: &mut Vec<u8>) {
        let ip_bytes = (bytes - ETHERNET_BYTES) as u16;
        let udp_bytes = ip_bytes - IPV4_BYTES as u16;
        // Locally administered addresses, from the inside network to the router.
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
        frame.extend([0x45, 0]);
        frame.extend(ip_bytes.to_be_bytes());
        // Identification 0, which is permitted because DF is set (RFC 6864); TTL 64; UDP.
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend(self.client.to_be_bytes());
        frame.extend(self.server.to_be_bytes());
        frame.extend(self.client_port.to_be_bytes());
        frame.extend(self.server_port.to_be_bytes());
        frame.extend(udp_bytes.to_be_bytes());
        frame.extend([0, 0]);
    }
}

/// Fills in the IPv4 and UDP checksums.
fn seal(frame: &mut [u8]) {
    let (ip, udp) = frame[ETHERNET_BYTES..].split_at_mut(IPV4_BYTES);
    let header_sum = !folded(word_sum(ip));
    ip[10..12].copy_from_slice(&header_sum.to_be_bytes());
    // Pseudo-header: addresses, protocol, datagram length.
    let pseudo = word_sum(&ip[12..20]) + 17 + udp.len() as u64;
    // A checksum of 0 would mean "none"; all ones is the equivalent value (RFC 768).
    let datagram_sum = match !folded(pseudo + word_sum(udp)) {
        0 => u16::MAX,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&datagram_sum.to_be_bytes());
}

/// Returns the sum of the 16-bit words in `bytes`; an odd last byte is padded with 0. Frames are
/// far too short for the sum to overflow.
fn word_sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |o| u64::from(*o));
    bytes.chunks(2).map(word).sum()
}

/// Folds `sum` to 16 bits with end-around carry.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Shuffles `list` (Fisher-Yates). The modulo bias is below 2^-32, as the list has at most 2^32
/// entries. Not [`Random::shuffle`], which draws in another way: the packets of published results
/// and of users' path files follow from this sequence.
fn shuffle(list: &mut [u32], random: &mut Random) {
    for last in (1..list.len()).rev() {
        list.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn frames(generator: Generator<'_>) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        generator.generate(2048, |frame| frames.push(frame.to_vec())).unwrap();
        frames
    }

    /// Computes the RFC 1071 sum one word at a time, with an end-around carry after each addition.
    fn plain_sum(bytes: impl Iterator<Item = u8>) -> u16 {
        let bytes: Vec<u8> = bytes.collect();
        let mut sum = 0u16;
        for at in (0..bytes.len()).step_by(2) {
            let low = bytes.get(at + 1).copied().unwrap_or(0);
            let (next, carry) = sum.overflowing_add(u16::from_be_bytes([bytes[at], low]));
            sum = next + u16::from(carry);
        }
        sum
    }

    fn assert_valid(frame: &[u8]) {
        let (ip, udp) = (&frame[14..34], &frame[34..]);
        assert_eq!(&frame[12..16], [0x08, 0x00, 0x45, 0x00]);
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), frame.len() - 14);
        assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
        assert_eq!(plain_sum(ip.iter().copied()), 0xffff, "IPv4 checksum");
        let pseudo = ip[12..20].iter().copied().chain([0, 17, udp[4], udp[5]]);
        assert_eq!(plain_sum(pseudo.chain(udp.iter().copied())), 0xffff, "UDP checksum");
        assert_ne!(&udp[6..8], [0, 0], "0 would mean no checksum");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 24, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn frames_are_valid_and_flows_distinct(
            sizes in prop::collection::vec(42u32..300, 1..13),
            flows in 1u32..9000,
            seed: u64,
        ) {
            let generator = Generator { sizes: &sizes, flows, seed };
            let frames = frames(generator);
            prop_assert_eq!(&frames, &self::frames(generator), "not repeatable");
            prop_assert_eq!(frames.len() % sizes.len(), 0);
            let mut uses: HashMap<[u8; 12], usize> = HashMap::new();
            for (i, frame) in frames.iter().enumerate() {
                prop_assert_eq!(frame.len() as u32, sizes[i % sizes.len()]);
                assert_valid(frame);
                *uses.entry(frame[26..38].try_into().unwrap()).or_default() += 1;
            }
            prop_assert_eq!(uses.len(), flows as usize);
            let (least, most) = (uses.values().min().unwrap(), uses.values().max().unwrap());
            prop_assert!(most - least <= 1, "flows used {least} to {most} times");
        }
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let mut frame = Vec::new();
        let tuple = Tuple { client: 1, server: 2, client_port: 3, server_port: 4 };
        tuple.headers(44, &mut frame);
        frame.extend([0, 0]);
        seal(&mut frame);
        // With this payload word, the checksummed bytes add up to all ones.
        let missing = [frame[40], frame[41]];
        frame[24..26].fill(0);
        frame[40..42].fill(0);
        frame[42..44].copy_from_slice(&missing);
        seal(&mut frame);
        assert_eq!(frame[40..42], [0xff, 0xff]);
        assert_valid(&frame);
    }

    #[test]
    fn seeds_differ() {
        let with_seed = |seed| frames(Generator { sizes: &[64], flows: 64, seed });
        assert_ne!(with_seed(1), with_seed(2));
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let error = |sizes: &[u32], flows, buffer| {
            Generator { sizes, flows, seed: 0 }.generate(buffer, |_| ()).unwrap_err()
        };
        assert_eq!(error(&[64], 0, 2048), GeneratorError::NoFlows);
        assert_eq!(error(&[], 1, 2048), GeneratorError::NoSizes);
        let size = |bytes, max| GeneratorError::FrameSize { bytes, max };
        assert_eq!(error(&[64, 41], 1, 2048), size(41, 2048));
        assert_eq!(error(&[2049], 1, 2048), size(2049, 2048));
        assert_eq!(error(&[65408], 1, u32::MAX), size(65408, 65407));
        assert_eq!(error(&[64], 1 << 21, 2048), GeneratorError::TooMuch(1 << 27));
        assert!(size(41, 2048).to_string().contains("expected 42 to"));
    }

    #[test]
    fn the_largest_frame_is_valid() {
        let generator = Generator { sizes: &[], flows: 1, seed: 3 };
        let mut frame = Vec::new();
        generator.build(0, MAX_BUFFER_BYTES, &mut frame);
        assert_eq!(frame.len(), MAX_BUFFER_BYTES);
        assert_valid(&frame);
    }
}
