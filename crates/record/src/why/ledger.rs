// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet ledger: accounts for every packet from layer to layer, each loss with its location
//! and counter, and the packets that no counter shows.
//!
//! A pure function of the observation. Two layers are compared only where they count the same unit:
//! one packet in the stack may represent many on the wire (GRO, GSO). A layer without a counter is
//! `None`, never 0.

mod layers;

use super::{InterfaceCounts, Observation, ProgramCounts, SocketKind};
use serde::Serialize;

/// Layers that count packets, in the order in which packets traverse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Received by an interface.
    InterfaceRx,
    /// The driver's own counters, including XDP.
    Driver,
    /// A CPU's backlog.
    Backlog,
    /// IP, UDP and TCP.
    Protocol,
    /// A socket's buffer, or a ring shared with the program.
    Socket,
    /// Received by the program, according to its own counters.
    Program,
    /// Sent by the program, according to its own counters.
    ProgramTx,
    /// A queueing discipline.
    Qdisc,
    /// Sent by an interface.
    InterfaceTx,
}

impl Layer {
    /// Returns the keyword used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterfaceRx => "interface_rx",
            Self::Driver => "driver",
            Self::Backlog => "backlog",
            Self::Protocol => "protocol",
            Self::Socket => "socket",
            Self::Program => "program",
            Self::ProgramTx => "program_tx",
            Self::Qdisc => "qdisc",
            Self::InterfaceTx => "interface_tx",
        }
    }
}

/// Owner of the lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The watched program.
    Program,
    /// Any program that uses the interface, CPU or queue, possibly the observed one.
    Shared,
    /// No program, as for packets to a closed port.
    Nobody,
}

/// Packets lost at a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Number of packets.
    pub packets: u64,
    /// Reason, in a few words.
    pub reason: String,
    /// The counter: `Udp.RcvbufErrors`, `skb:kfree_skb reason NO_SOCKET`.
    pub counter: String,
    /// Owner of the packets.
    pub whose: Whose,
}

/// Counts at one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerRow {
    /// Layer of the network stack.
    pub layer: Layer,
    /// The object counted: `eth0`, `udp 0.0.0.0:53`.
    pub of: String,
    /// Packets passed on, excluding those lost at this layer; `None` without a counter.
    pub packets: Option<u64>,
    /// The counter behind `packets`, or why there is none.
    pub counter: String,
    /// Losses at this layer.
    pub losses: Vec<Loss>,
    /// Packets from the previous layer that are neither counted at this layer nor in any loss
    /// counter; `None` if the two layers count different units.
    pub unaccounted: Option<u64>,
}

/// The ledger for one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PacketLedger {
    /// Layers with counts, and layers whose counts could not be read.
    pub rows: Vec<LedgerRow>,
}

/// A loss, with the layer where it occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct Place<'a> {
    /// The layer's row.
    pub row: &'a LedgerRow,
    /// Packets.
    pub packets: u64,
    /// Reason, in a few words.
    pub reason: &'a str,
    /// The counter.
    pub counter: &'a str,
    /// Owner of the packets.
    pub whose: Whose,
}

/// Reason given for packets missing from a ring that only its owner can read.
const IN_RING: &str = "receive ring full";

impl PacketLedger {
    /// Returns all losses, largest first, including unaccounted packets.
    pub fn places(&self) -> Vec<Place<'_>> {
        let mut places: Vec<Place<'_>> = self.rows.iter().flat_map(of_row).collect();
        places.sort_by(|a, b| b.packets.cmp(&a.packets).then(a.counter.cmp(b.counter)));
        places
    }

    /// Returns the packets lost on the way to and from the program, including those lost where its
    /// packets cannot be distinguished from others'; `None` if no lossy layer was read.
    pub fn lost(&self) -> Option<u64> {
        let is_read = self.rows.iter().any(|row| row.packets.is_some() || !row.losses.is_empty());
        is_read.then(|| self.lost_places().map(|place| place.packets).sum())
    }

    /// Returns the largest loss that may include packets of the program.
    pub fn largest(&self) -> Option<Place<'_>> {
        self.lost_places().max_by_key(|place| place.packets)
    }

    fn lost_places(&self) -> impl Iterator<Item = Place<'_>> {
        self.places().into_iter().filter(|place| place.whose != Whose::Nobody && place.packets > 0)
    }
}

fn of_row(row: &LedgerRow) -> impl Iterator<Item = Place<'_>> {
    let losses = row.losses.iter().map(move |loss| Place {
        row,
        packets: loss.packets,
        reason: &loss.reason,
        counter: &loss.counter,
        whose: loss.whose,
    });
    let rest = row.unaccounted.filter(|rest| *rest > 0);
    losses.chain(rest.map(move |packets| Place {
        row,
        packets,
        reason: IN_RING,
        counter: "computed by difference: no external counter",
        whose: Whose::Program,
    }))
}

/// Computes the ledger for a window.
pub fn ledger(observation: &Observation) -> PacketLedger {
    let mut rows = Vec::new();
    rows.extend(observation.interfaces.iter().filter(|i| is_used(i)).map(layers::interface_rx));
    rows.extend(observation.interfaces.iter().filter_map(layers::driver));
    rows.extend(layers::backlog(observation));
    rows.extend(layers::protocol(observation));
    rows.extend(layers::sockets(observation));
    rows.extend(layers::program(observation));
    rows.extend(layers::program_tx(observation));
    rows.extend(layers::qdiscs(observation));
    rows.extend(observation.interfaces.iter().filter(|i| is_used(i)).map(layers::interface_tx));
    PacketLedger { rows }
}

fn is_used(interface: &InterfaceCounts) -> bool {
    interface.rx_packets + interface.tx_packets > 0
        || interface.rx_dropped + interface.tx_dropped + interface.rx_missed > 0
}

/// Returns the interface whose packets bypass the stack through packet or XDP sockets; `None` if
/// there is no such socket, or if such sockets span several interfaces.
pub fn tapped(observation: &Observation) -> Option<&InterfaceCounts> {
    let is_tap = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp);
    let taps = observation.sockets.iter().filter(|socket| is_tap(socket.kind));
    let mut names: Vec<&str> = taps.map(|socket| socket.local.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [name] => observation.interfaces.iter().find(|interface| interface.name == *name),
        _ => None,
    }
}

/// Returns whether interface and program count the same unit: GRO is off, or both have the same
/// mean packet size.
pub(super) fn is_same_unit(observation: &Observation, interface: &InterfaceCounts) -> bool {
    /// Bytes by which counters for the same frame differ: Ethernet header and FCS.
    const FRAMING_BYTES: f64 = 18.0;
    if interface.features.get("rx-gro") == Some(&false) {
        return true;
    }
    let program = observation.program.as_ref().and_then(ProgramCounts::of_packets);
    let bytes = program.and_then(|program| Some((program.bytes?, program.received?)));
    match bytes {
        Some((bytes, packets)) if packets > 0 && interface.rx_packets > 0 => {
            let of_program = bytes as f64 / packets as f64;
            let of_interface = interface.rx_bytes as f64 / interface.rx_packets as f64;
            (of_program - of_interface).abs() <= FRAMING_BYTES
        }
        _ => false,
    }
}
