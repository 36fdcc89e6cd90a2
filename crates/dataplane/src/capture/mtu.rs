// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the MTU of the captured link from the maximum segment sizes (MSS) that TCP SYNs
//! announce.

use super::layers::{Layers, TCP};
use crate::headers::be16;
use std::collections::{BTreeMap, HashMap};

/// Maximum IP packet size on Ethernet, in bytes.
const ETHERNET_MTU: usize = 1500;

/// Plausible MTUs: from the datagram size that every IPv4 host must accept (RFC 791) to jumbo
/// frames. The MTU of loopback interfaces, 65536, is excluded, because no physical link supports
/// it.
pub(super) const MTUS: std::ops::RangeInclusive<usize> = 576..=9216;

/// Maximum number of tracked connections, which take a few MiB of memory. Further connections are
/// assumed to have the link MTU.
const CONNECTIONS_MAX: usize = 1 << 16;

const SYN: u8 = 0x02;

/// Address and port of one end of a connection. IPv4 addresses occupy the first 4 bytes.
type Endpoint = [u8; 18];

/// The MTU of the link and of each connection, derived from SYN segments.
///
/// Both endpoints of a connection limit their segments to the smaller of the two announced sizes. A
/// connection's MTU is therefore below that of the link if one endpoint is behind a tunnel, or if a
/// router clamps the MSS.
#[derive(Debug, Default)]
pub struct Mtus {
    /// Number of times each MTU was announced.
    announced: BTreeMap<usize, u64>,
    /// The MTU that was announced most often so far, preceded by the number of announcements. Of
    /// equally frequent MTUs, it is the largest.
    most: Option<(u64, usize)>,
    /// MTUs announced by the lower and the higher endpoint of each connection; `None` for an
    /// endpoint whose SYN was not captured.
    connections: HashMap<[Endpoint; 2], [Option<usize>; 2]>,
}

impl Mtus {
    /// Records the MSS announced by a SYN segment; ignores other frames.
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

    /// Returns the link MTU: the MTU that was announced most often, or the Ethernet MTU if none was
    /// announced.
    pub fn of_wire(&self) -> usize {
        self.most.map_or(ETHERNET_MTU, |(_, mtu)| mtu)
    }

    /// Returns the MTU of a frame's connection. An endpoint whose SYN is missing from the capture
    /// is assumed to have announced the link MTU.
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

/// Returns the two endpoints of a frame's connection, lower one first, and the index of the sender;
/// `None` if the frame is a fragment or is truncated before the ports.
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

/// Returns the MTU corresponding to the MSS in a SYN.
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
