// SPDX-License-Identifier: MIT OR Apache-2.0
//! XDP sockets (sock_diag).

use super::inet::BY_FAMILY;
use super::netlink::{attribute, dump};
use super::{Network, u32_at, u64_at};
use crate::Error;

/// Length of `xdp_diag_msg`.
const MESSAGE: usize = 16;

/// Attributes to request: XDP_SHOW_INFO and XDP_SHOW_STATS.
const SHOW: u32 = 0x01 | 0x10;

const INFO: u16 = 1;
const STATISTICS: u16 = 9;

/// Snapshot of an AF_XDP socket's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpSocket {
    /// Socket inode, as in /proc/PID/fd.
    pub inode: u32,
    /// Index of the bound interface; `None` if the socket is not bound.
    pub interface: Option<u32>,
    /// Packets dropped because the receive ring was full, or no buffer was left in the fill ring;
    /// `None` before Linux 5.9, which does not report them.
    pub drops: Option<u64>,
}

impl XdpSocket {
    /// Parses `xdp_diag_msg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let inode = u32_at(body, 4)?;
        let attributes = body.get(MESSAGE..)?;
        let interface = attribute(attributes, INFO).and_then(|info| u32_at(info, 0));
        // A packet for which the fill ring has no buffer counts in both `n_rx_dropped` (at 0) and
        // `n_fill_ring_empty`; one that finds the receive ring full only in `n_rx_full` (at 16).
        let drops = attribute(attributes, STATISTICS)
            .and_then(|statistics| u64_at(statistics, 0)?.checked_add(u64_at(statistics, 16)?));
        Some(Self { inode, interface: interface.filter(|index| *index != 0), drops })
    }
}

impl Network {
    /// Returns all XDP sockets.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have xdp_diag.
    pub fn xdp_sockets(&self) -> Result<Vec<XdpSocket>, Error> {
        let mut request = vec![libc::AF_XDP as u8, 0, 0, 0];
        request.extend(0u32.to_ne_bytes());
        request.extend(SHOW.to_ne_bytes());
        request.extend([0; 8]);
        dump(&self.diag, BY_FAMILY, &request, |_, body| XdpSocket::decode(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a socket on queue 2 of interface 3, as laid out in `xdp_diag.h`.
    fn answer() -> Vec<u8> {
        let mut body = vec![44, 3, 0, 0];
        body.extend([4711u32, 1, 0].iter().flat_map(|n| n.to_ne_bytes()));
        let mut attribute = |kind: u16, bytes: &[u8]| {
            body.extend((4 + bytes.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(bytes);
        };
        let info: Vec<u8> = [3u32, 2].iter().flat_map(|n| n.to_ne_bytes()).collect();
        attribute(INFO, &info);
        let counts: Vec<u8> =
            [17u64, 1, 4, 17, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        attribute(STATISTICS, &counts);
        body
    }

    #[test]
    fn drops_at_both_rings_are_added() {
        let expected = XdpSocket { inode: 4711, interface: Some(3), drops: Some(21) };
        assert_eq!(XdpSocket::decode(&answer()), Some(expected));
        // A socket that is not bound, of a kernel that reports no statistics.
        let bare = XdpSocket { inode: 4711, interface: None, drops: None };
        assert_eq!(XdpSocket::decode(&answer()[..16]), Some(bare));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(cut in 0usize..90, at in 0usize..90, byte: u8) {
            let mut body = answer();
            let at = at % body.len();
            body[at] = byte;
            body.truncate(cut);
            XdpSocket::decode(&body);
        }
    }
}
