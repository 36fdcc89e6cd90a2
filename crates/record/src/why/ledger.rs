// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet ledger, which accounts for every packet from layer to layer. It lists each loss by
//! layer and counter, and packets that went missing without appearing in any loss counter.
//!
//! The ledger is a pure function of the observation. Adjacent layers are compared only if they
//! count the same unit, as one packet in the stack may be many on the wire (GRO, GSO). Layers
//! without a counter have `None`, never 0.

mod layers;

use super::{InterfaceCounts, Observation, ProgramCounts, SocketKind};
use serde::Serialize;

/// Layers of the network stack that count packets, in the order packets traverse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Packets received by an interface.
    InterfaceRx,
    /// The interface driver's own counters, XDP included.
    Driver,
    /// A CPU's backlog queue.
    Backlog,
    /// IP, UDP and TCP.
    Protocol,
    /// A socket's receive buffer, or a ring shared by the kernel and the program.
    Socket,
    /// Packets received by the program, by its own count.
    Program,
    /// Packets sent by the program, by its own count.
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

/// Whose packets were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// Packets of the observed program.
    Program,
    /// Packets of any program that uses the interface, CPU or queue, possibly the observed one.
    Shared,
    /// Packets not meant for any program, such as packets to a closed port. They do not count as
    /// lost.
    NoProgram,
    /// Packets of other programs, because the observed one does not use the protocol. They do not
    /// count as lost.
    OtherPrograms,
    /// Mostly packets that are also in another layer's counters. They explain the loss at that
    /// layer and do not count as lost again.
    CountedElsewhere,
}

impl Whose {
    /// Returns whether packets of this kind count as lost.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Program | Self::Shared)
    }
}

/// Packets lost at a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Packets lost.
    pub packets: u64,
    /// Why they were lost, in a few words.
    pub reason: String,
    /// Counter that recorded the loss: `Udp.RcvbufErrors`, `skb:kfree_skb reason NO_SOCKET`.
    pub counter: String,
    /// Whose packets they were.
    pub whose: Whose,
}

/// Counts at one layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerRow {
    /// Layer of the network stack.
    pub layer: Layer,
    /// Object that the counts refer to: `eth0`, `udp 0.0.0.0:53`.
    pub of: String,
    /// Packets that got past this layer; `None` without a counter.
    pub packets: Option<u64>,
    /// Counter that `packets` was read from, or why there is none.
    pub counter: String,
    /// Losses at this layer, by reason or counter.
    pub losses: Vec<Loss>,
    /// Packets from the previous layer that neither arrived here nor appear in a loss counter;
    /// `None` if the two layers count different units.
    pub unaccounted: Option<u64>,
}

/// Packet counts and losses of all layers over a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PacketLedger {
    /// Rows of layers that have counts or whose counts could not be read.
    pub rows: Vec<LedgerRow>,
}

/// A loss and the layer where it occurred.
#[derive(Clone, Debug, PartialEq)]
pub struct Place<'a> {
    /// Row of the layer where the packets were lost.
    pub row: &'a LedgerRow,
    /// Packets lost.
    pub packets: u64,
    /// Why they were lost, in a few words.
    pub reason: &'a str,
    /// Counter that recorded the loss.
    pub counter: &'a str,
    /// Whose packets they were.
    pub whose: Whose,
}

/// Reason given for packets missing at a ring whose drop counter is readable only by the ring's
/// owner.
const IN_RING: &str = "receive ring full";

impl PacketLedger {
    /// Returns all losses, unaccounted packets included, largest first.
    pub fn places(&self) -> Vec<Place<'_>> {
        let mut places: Vec<Place<'_>> = self.rows.iter().flat_map(of_row).collect();
        places.sort_by(|a, b| b.packets.cmp(&a.packets).then(a.counter.cmp(b.counter)));
        places
    }

    /// Returns the number of packets lost on the way to and from the program, including losses at
    /// layers that do not distinguish its packets from those of other programs; `None` if no layer
    /// that can lose packets was read.
    pub fn lost(&self) -> Option<u64> {
        let is_read = self.rows.iter().any(|row| row.packets.is_some() || !row.losses.is_empty());
        is_read.then(|| self.lost_places().map(|place| place.packets).sum())
    }

    /// Returns the largest loss that may include the program's packets; `None` if nothing was lost.
    pub fn largest(&self) -> Option<Place<'_>> {
        self.lost_places().max_by_key(|place| place.packets)
    }

    fn lost_places(&self) -> impl Iterator<Item = Place<'_>> {
        self.places().into_iter().filter(|place| place.whose.is_lost() && place.packets > 0)
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
        counter: "computed as a difference: no external counter",
        whose: Whose::Program,
    }))
}

/// Computes the packet ledger of a window.
pub fn ledger(observation: &Observation) -> PacketLedger {
    let mut rows = Vec::new();
    let used: Vec<&InterfaceCounts> =
        observation.interfaces.iter().filter(|interface| is_used(interface)).collect();
    let in_backlog = layers::in_backlog(observation, &used);
    let received = used.iter().zip(&in_backlog);
    rows.extend(received.map(|(interface, [rx, _])| layers::interface_rx(interface, *rx)));
    rows.extend(observation.interfaces.iter().filter_map(layers::driver));
    rows.extend(layers::backlog(observation));
    rows.extend(layers::protocol(observation));
    rows.extend(layers::sockets(observation));
    rows.extend(layers::program(observation));
    rows.extend(layers::program_tx(observation));
    rows.extend(layers::qdiscs(observation));
    let sent = used.iter().zip(&in_backlog);
    rows.extend(sent.map(|(interface, [_, tx])| layers::interface_tx(interface, *tx)));
    PacketLedger { rows }
}

fn is_used(interface: &InterfaceCounts) -> bool {
    interface.rx_packets + interface.tx_packets > 0
        || interface.rx_dropped + interface.tx_dropped + interface.rx_missed > 0
}

/// Returns the interface whose packets bypass the network stack through the program's packet or XDP
/// sockets; `None` if the program has no such sockets or they span several interfaces.
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

/// Returns whether an interface and the program count the same unit, because GRO is off or their
/// mean packet sizes agree.
pub(super) fn is_same_unit(observation: &Observation, interface: &InterfaceCounts) -> bool {
    /// Maximum difference between the sizes that two counters report for the same frame: Ethernet
    /// header and FCS, in bytes.
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
