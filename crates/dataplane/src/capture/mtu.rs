// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MTU of the wire, derived from the maximum segment sizes that connections announce.

use super::layers::{Layers, TCP, be16};
use std::collections::{BTreeMap, HashMap};

/// Maximum IP packet size on Ethernet, in bytes.
const ETHERNET_MTU: usize = 1500;

/// Range of plausible MTUs behind an announced segment size: from the IPv4 minimum to jumbo frames.
/// Loopback interfaces announce 65536, which no wire carries.
pub(super) const MTUS: std::ops::RangeInclusive<usize> = 576..=9216;

/// Maximum number of connections remembered, which takes a few MiB. Further connections get the MTU
/// of the wire.
const CONNECTIONS_MAX: usize = 1 << 16;

const SYN: u8 = 0x02;

/// Address and port of one end of a connection. An IPv4 address is in the first 4 bytes.
type Endpoint = [u8; 18];

/// MTUs of the wire and of each connection, as announced in SYN segments.
///
/// Neither end of a connection sends segments longer than the smaller of the two announced sizes,
/// which is less than the wire carries if one end is behind a tunnel or clamps the size.
#[derive(Debug, Default)]
pub struct Mtus {
    /// Number of announcements, by MTU.
    announced: BTreeMap<usize, u64>,
    /// The number of announcements and the value of the most announced MTU; the largest one if
    /// several are tied.
    most: Option<(u64, usize)>,
    /// The MTUs that the lower and the higher endpoint of a connection announced; `None` for an end
    /// whose SYN was not seen.
    connections: HashMap<[Endpoint; 2], [Option<usize>; 2]>,
}

impl Mtus {
    /// Records what a frame announces, if it is a SYN segment.
    pub fn see(&mut self, frame: &[u8]) {
        let Some((layers, mtu)) = announced_mtu(frame) else { return };
        if !MTUS.contains(&mtu) {
            return;
        }
        let times = self.announced.entry(mtu).or_default();
        *times += 1;
        self.most = self.most.max(Some((*times, mtu)));
        let Some((ends, sender)) = connection(frame, &layers) else { return };
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        if !is_full || self.connections.contains_key(&ends) {
            let of_sender = &mut self.connections.entry(ends).or_default()[sender];
            *of_sender = Some(of_sender.map_or(mtu, |before| before.min(mtu)));
        }
    }

    /// Returns the MTU of the wire on which the frames were recorded: the one that most SYN
    /// segments announce, or that of Ethernet if there are no announcements.
    pub fn of_wire(&self) -> usize {
        self.most.map_or(ETHERNET_MTU, |(_, mtu)| mtu)
    }

    /// Returns the MTU of a frame's connection. If an end's SYN is not in the capture, the MTU of
    /// the wire is used for that end.
    pub fn of(&self, frame: &[u8]) -> usize {
        let wire = self.of_wire();
        let known = || {
            let layers = Layers::locate(frame).ok().filter(|l| l.protocol == TCP)?;
            self.connections.get(&connection(frame, &layers)?.0)
        };
        match (!self.connections.is_empty()).then(known).flatten() {
            Some(ends) => {
                let [lower, higher] = ends.map(|announced| announced.unwrap_or(wire));
                lower.min(higher)
            }
            None => wire,
        }
    }
}

/// Returns the two ends of a frame's connection in order, and the index of the sender; `None` for a
/// fragment, or if the frame is truncated before its ports.
fn connection(frame: &[u8], layers: &Layers) -> Option<([Endpoint; 2], usize)> {
    let (at, bytes) = if layers.version == 4 { (12, 4) } else { (8, 16) };
    let end = |index: usize| -> Option<Endpoint> {
        let mut end = [0; 18];
        let address = layers.l3 + at + index * bytes;
        end[..bytes].copy_from_slice(frame.get(address..address + bytes)?);
        end[16..].copy_from_slice(&be16(frame, layers.l4 + 2 * index)?.to_be_bytes());
        Some(end)
    };
    let [sender, receiver] = [end(0)?, end(1)?];
    let is_lower = sender <= receiver;
    let ends = if is_lower { [sender, receiver] } else { [receiver, sender] };
    (!layers.is_fragment).then_some((ends, usize::from(!is_lower)))
}

/// Returns the MTU behind the maximum segment size that a SYN announces.
fn announced_mtu(frame: &[u8]) -> Option<(Layers, usize)> {
    const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    let layers = Layers::locate(frame).ok()?;
    if layers.protocol != TCP || layers.is_fragment || frame.get(layers.l4 + 13)? & SYN == 0 {
        return None;
    }
    let transport = layers.transport_bytes(frame)?;
    let mut options = frame.get(layers.l4 + 20..layers.l4 + transport)?;
    loop {
        let (kind, rest) = options.split_first()?;
        options = match (*kind, rest) {
            (0, _) => return None,
            (1, _) => rest,
            (MAXIMUM_SEGMENT_SIZE, [4, high, low, ..]) => {
                let headers = if layers.version == 4 { 40 } else { 60 };
                return Some((layers, usize::from(u16::from_be_bytes([*high, *low])) + headers));
            }
            (_, [bytes, ..]) if *bytes >= 2 => options.get(usize::from(*bytes)..)?,
            _ => return None,
        };
    }
}
