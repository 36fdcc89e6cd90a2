// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sockets (sock_diag).

use super::inet::{BY_FAMILY, SocketMemory};
use super::netlink::{attribute, dump};
use super::{Network, u32_at};
use crate::Error;

/// Length of `packet_diag_msg`.
const MESSAGE: usize = 16;

/// Attributes to request: PACKET_SHOW_INFO, _RING_CFG and _MEMINFO.
const SHOW: u32 = 0x01 | 0x04 | 0x10;

const INFO: u16 = 0;
const RECEIVE_RING: u16 = 2;
const TRANSMIT_RING: u16 = 3;
const MEMORY: u16 = 6;

/// Snapshot of an AF_PACKET socket's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSocket {
    /// Socket inode, as in /proc/PID/fd.
    pub inode: u32,
    /// Index of the bound interface; 0 for all.
    pub interface: u32,
    /// Receive ring, if any.
    pub receive_ring: Option<PacketRing>,
    /// Transmit ring, if any.
    pub transmit_ring: Option<PacketRing>,
    /// Buffer sizes and drops; drops from a ring are not included.
    pub memory: Option<SocketMemory>,
}

/// A ring shared between a packet socket and its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRing {
    /// Number of blocks.
    pub blocks: u32,
    /// Bytes per block.
    pub block_bytes: u32,
    /// Number of frames. Frames of TPACKET_V3 vary in size; this is the number of frames of the
    /// requested size.
    pub frames: u32,
    /// Requested bytes per frame.
    pub frame_bytes: u32,
}

impl PacketRing {
    /// Parses `packet_diag_ring`.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let [block_bytes, blocks, frame_bytes, frames] = [0, 4, 8, 12].map(|at| u32_at(bytes, at));
        Some(Self {
            blocks: blocks?,
            block_bytes: block_bytes?,
            frames: frames?,
            frame_bytes: frame_bytes?,
        })
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes)
    }
}

impl PacketSocket {
    /// Parses `packet_diag_msg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let inode = u32_at(body, 4)?;
        let attributes = body.get(MESSAGE..)?;
        let ring = |kind| attribute(attributes, kind).and_then(PacketRing::decode);
        Some(Self {
            inode,
            interface: u32_at(attribute(attributes, INFO)?, 0)?,
            receive_ring: ring(RECEIVE_RING),
            transmit_ring: ring(TRANSMIT_RING),
            memory: attribute(attributes, MEMORY).and_then(SocketMemory::decode),
        })
    }
}

impl Network {
    /// Returns all packet sockets.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have packet_diag.
    pub fn packet_sockets(&self) -> Result<Vec<PacketSocket>, Error> {
        let mut request = vec![libc::AF_PACKET as u8, 0, 0, 0];
        request.extend(0u32.to_ne_bytes());
        request.extend(SHOW.to_ne_bytes());
        request.extend([0; 8]);
        dump(&self.diag, BY_FAMILY, &request, |_, body| PacketSocket::decode(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a socket with a ring of 4096 frames on interface 3, as laid out in `packet_diag.h`.
    fn answer() -> Vec<u8> {
        let mut body = vec![17, 3, 0, 3];
        body.extend([4711u32, 1, 0].iter().flat_map(|n| n.to_ne_bytes()));
        let mut attribute = |kind: u16, numbers: &[u32]| {
            body.extend((4 + 4 * numbers.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(numbers.iter().flat_map(|n| n.to_ne_bytes()));
        };
        attribute(INFO, &[3, 1, 0, 0, 0, 0]);
        attribute(MEMORY, &[0, 212_992, 0, 212_992, 0, 0, 0, 0, 17]);
        attribute(RECEIVE_RING, &[4096, 2048, 2048, 4096, 0, 0, 0]);
        body
    }

    #[test]
    fn a_socket_with_a_ring_is_decoded() {
        let socket = PacketSocket::decode(&answer()).unwrap();
        assert_eq!((socket.inode, socket.interface), (4711, 3));
        assert_eq!(
            socket.receive_ring.map(|ring| (ring.frames, ring.bytes())),
            Some((4096, 8 << 20))
        );
        assert_eq!(socket.transmit_ring, None);
        assert_eq!(socket.memory.map(|memory| memory.drops), Some(17));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(
            cut in 0usize..140, at in 0usize..140, byte: u8,
        ) {
            let mut body = answer();
            let at = at % body.len();
            body[at] = byte;
            body.truncate(cut);
            PacketSocket::decode(&body);
        }
    }
}
