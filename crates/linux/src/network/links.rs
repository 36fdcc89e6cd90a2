// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces and their counters (rtnetlink).

use super::netlink::{attribute, dump, get};
use super::{Network, text, u32_at, u64_at};
use crate::Error;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;

/// Length of `ifinfomsg`.
const MESSAGE: usize = 16;

const HARDWARE_ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const COUNTS: u16 = 23;
const TX_QUEUES: u16 = 31;
const RX_QUEUES: u16 = 32;

/// Snapshot of an interface's state. Counters start when the interface is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Hardware address: six bytes for Ethernet; empty if the interface has none.
    pub address: Vec<u8>,
    /// Type of virtual interface, such as `veth`; `None` for hardware.
    pub kind: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Number of receive queues.
    pub rx_queues: Option<u32>,
    /// Number of transmit queues.
    pub tx_queues: Option<u32>,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Packets not sent because of errors.
    pub tx_errors: u64,
    /// Packets dropped on receipt.
    pub rx_dropped: u64,
    /// Packets dropped on transmit.
    pub tx_dropped: u64,
    /// Packets dropped for lack of buffer space in the NIC.
    pub rx_missed: u64,
    /// Packets dropped because they arrived on an interface that should not receive any, such as an
    /// inactive member of a bond.
    pub rx_no_handler: u64,
}

impl Link {
    /// Parses `ifinfomsg` and its attributes.
    fn decode(body: &[u8]) -> Option<Self> {
        let attributes = body.get(MESSAGE..)?;
        let number = |kind| attribute(attributes, kind).and_then(|bytes| u32_at(bytes, 0));
        let kind = attribute(attributes, INFO).and_then(|info| attribute(info, INFO_KIND));
        let counts = attribute(attributes, COUNTS).unwrap_or_default();
        // `rtnl_link_stats64`; older kernels have fewer counters.
        let count = |index: usize| u64_at(counts, 8 * index).unwrap_or(0);
        Some(Self {
            index: u32_at(body, 4)?,
            name: text(attribute(attributes, NAME)?),
            address: attribute(attributes, HARDWARE_ADDRESS).unwrap_or_default().to_vec(),
            kind: kind.map(text),
            mtu: number(MTU),
            rx_queues: number(RX_QUEUES),
            tx_queues: number(TX_QUEUES),
            rx_packets: count(0),
            tx_packets: count(1),
            rx_bytes: count(2),
            tx_bytes: count(3),
            rx_errors: count(4),
            tx_errors: count(5),
            rx_dropped: count(6),
            tx_dropped: count(7),
            rx_missed: count(15),
            rx_no_handler: count(23),
        })
    }
}

impl Network {
    /// Returns all interfaces.
    ///
    /// # Errors
    /// Returns an error if the kernel does not answer.
    pub fn links(&self) -> Result<Vec<Link>, Error> {
        dump(&self.route, RTM_GETLINK, &[0; MESSAGE], |kind, body| {
            Some(body).filter(|_| kind == RTM_NEWLINK).and_then(Link::decode)
        })
    }

    /// Returns one interface. Unlike [`Self::links`], takes no longer if there are many others.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist, or if the kernel does not answer.
    pub fn link(&self, index: u32) -> Result<Link, Error> {
        const ADVICE: &str = "continue without the interface's counters";
        let mut body = [0; MESSAGE];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut link = None;
        get(&self.route, RTM_GETLINK, &body, |kind, body| {
            link = Some(body).filter(|_| kind == RTM_NEWLINK).and_then(Link::decode);
        })?;
        let value = format!("interface {index}");
        let errno = libc::ENODEV;
        link.ok_or(Error::Call { call: "netlink", value, errno, advice: ADVICE })
    }
}

#[cfg(test)]
mod tests {
    use super::super::netlink::put;
    use super::*;
    use proptest::prelude::*;

    /// Returns a veth with the given number of counters, whose values are 0, 1, 2, ...
    fn answer(counters: u64) -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        put(&mut body, NAME, b"v2\0");
        put(&mut body, MTU, &1500u32.to_ne_bytes());
        put(&mut body, RX_QUEUES, &2u32.to_ne_bytes());
        let mut info = Vec::new();
        put(&mut info, INFO_KIND, b"veth\0");
        put(&mut body, INFO, &info);
        let counts: Vec<u8> = (0..counters).flat_map(u64::to_ne_bytes).collect();
        put(&mut body, COUNTS, &counts);
        body
    }

    #[test]
    fn counts_are_taken_from_their_places() {
        let link = Link::decode(&answer(24)).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.kind.as_deref()), (7, "v2", Some("veth")));
        assert_eq!((link.mtu, link.rx_queues, link.tx_queues), (Some(1500), Some(2), None));
        assert_eq!((link.tx_packets, link.rx_dropped, link.rx_missed), (1, 6, 15));
        assert_eq!(link.rx_no_handler, 23);
        // Linux before 4.6 does not count packets without a handler.
        assert_eq!(Link::decode(&answer(23)).unwrap().rx_no_handler, 0);
    }

    #[test]
    fn one_interface_is_the_same_as_in_the_list() {
        let Ok(network) = Network::own() else {
            println!("SKIP: netlink is not permitted here");
            return;
        };
        let all = network.links().unwrap();
        for link in &all {
            let one = network.link(link.index).unwrap();
            assert_eq!((one.name, one.mtu), (link.name.clone(), link.mtu));
            assert!(one.rx_packets >= link.rx_packets);
        }
        let next = all.iter().map(|link| link.index).max().unwrap_or(0) + 1_000_000;
        assert!(network.link(next).is_err());
    }

    #[test]
    fn the_loopback_interface_is_there() {
        let Ok(links) = Network::own().and_then(|network| network.links()) else {
            println!("SKIP: netlink is not permitted here");
            return;
        };
        assert!(links.iter().any(|link| link.name == "lo" && link.mtu.is_some()), "{links:?}");
    }

    #[test]
    fn threads_that_ask_at_the_same_time_get_their_own_answers() {
        let Ok(network) = Network::own() else {
            println!("SKIP: netlink is not permitted here");
            return;
        };
        let ask = || {
            for _ in 0..200 {
                let links = network.links().expect("the kernel answers");
                assert!(links.iter().any(|link| link.name == "lo"), "{links:?}");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(ask);
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn damaged_answers_are_left_out(cut in 0usize..300, at in 0usize..300, byte: u8) {
            let mut body = answer(24);
            let at = at % body.len();
            body[at] = byte;
            body.truncate(cut);
            Link::decode(&body);
        }
    }
}
