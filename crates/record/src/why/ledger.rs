// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet ledger: accounts for every packet from layer to layer, each loss with its location
//! and counter, and the packets that no counter shows.
//!
//! The ledger is a pure function of the observation. Two layers are compared only where they count
//! the same unit: one packet in the stack may represent many on the wire (GRO, GSO). The count of a
//! layer without a counter is `None`, never 0.

mod layers;

use super::{InterfaceCounts, Observation, ProgramCounts, SocketKind};
use serde::Serialize;

/// Layers of the network stack that count packets, in the order in which packets traverse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Packets received by an interface.
    InterfaceRx,
    /// The interface driver's own counters, including XDP.
    Driver,
    /// A CPU's backlog queue.
    Backlog,
    /// The protocols IP, UDP and TCP.
    Protocol,
    /// A socket's receive buffer, or a ring that the kernel shares with the program.
    Socket,
    /// Packets received by the program, according to its own counters.
    Program,
    /// Packets sent by the program, according to its own counters.
    ProgramTx,
    /// A queueing discipline.
    Qdisc,
    /// Packets sent by an interface.
    InterfaceTx,
}

impl Layer {
    /// Returns the keyword of the layer in JSON.
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

/// Owner of lost packets: the program to which they belonged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The observed program.
    Program,
    /// Any program that uses the interface, CPU or queue, possibly the observed program.
    Shared,
    /// No program, as for packets to a closed port. These packets do not count as lost.
    Nobody,
}

/// Packets lost at a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Number of packets lost.
    pub packets: u64,
    /// Reason for the loss, in a few words.
    pub reason: String,
    /// Counter that shows the loss: `Udp.RcvbufErrors`, `skb:kfree_skb reason NO_SOCKET`.
    pub counter: String,
    /// The program that the packets belonged to.
    pub whose: Whose,
}

/// Counts at one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerRow {
    /// The layer that counts.
    pub layer: Layer,
    /// The object whose packets are counted: `eth0`, `udp 0.0.0.0:53`.
    pub of: String,
    /// Number of packets that the layer passed on, excluding packets lost at this layer; `None`
    /// without a counter.
    pub packets: Option<u64>,
    /// The counter from which `packets` was read, or the reason why there is none.
    pub counter: String,
    /// Losses at this layer, one entry per reason or counter.
    pub losses: Vec<Loss>,
    /// Number of packets from the previous layer that are neither counted at this layer nor in any
    /// loss counter; `None` if the two layers count different units.
    pub unaccounted: Option<u64>,
}

/// The packet counts and losses of all layers in one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PacketLedger {
    /// Rows of the layers with counts, and of layers whose counts could not be read.
    pub rows: Vec<LedgerRow>,
}

/// A loss, with the layer where it occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct Place<'a> {
    /// The row of the layer at which the packets were lost.
    pub row: &'a LedgerRow,
    /// Number of packets lost.
    pub packets: u64,
    /// Reason for the loss, in a few words.
    pub reason: &'a str,
    /// Counter that shows the loss.
    pub counter: &'a str,
    /// The program that the packets belonged to.
    pub whose: Whose,
}

/// Reason given for packets that are missing because of a ring whose drop counter only the owner of
/// the ring can read.
const IN_RING: &str = "receive ring full";

impl PacketLedger {
    /// Returns all losses, largest first, including unaccounted packets.
    pub fn places(&self) -> Vec<Place<'_>> {
        let mut places: Vec<Place<'_>> = self.rows.iter().flat_map(of_row).collect();
        places.sort_by(|a, b| b.packets.cmp(&a.packets).then(a.counter.cmp(b.counter)));
        places
    }

    /// Returns the number of packets lost on the way to and from the program, including losses at
    /// layers where its packets cannot be distinguished from those of others; `None` if no layer
    /// that can lose packets was read.
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

/// Returns the interface whose packets bypass the network stack through packet or XDP sockets of
/// the program; `None` if there is no such socket, or if such sockets span several interfaces.
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

/// Returns whether an interface and the program count the same unit: GRO is off, or both have the
/// same mean packet size.
pub(super) fn is_same_unit(observation: &Observation, interface: &InterfaceCounts) -> bool {
    /// Maximum difference between the sizes that two counters give for the same frame, in bytes:
    /// Ethernet header and FCS.
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
