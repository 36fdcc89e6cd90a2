// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observed packet sockets and the interfaces to which they are bound.

use super::Sockets;
use super::watched::{State, Watched};
use linerate_linux::network::{Network, PacketSocket};
use linerate_record::why::SocketKind;
use std::collections::BTreeSet;

impl Sockets {
    /// Returns the interfaces to which the observed packet sockets are bound.
    pub(crate) fn packet_interfaces(&self) -> BTreeSet<u32> {
        let packet = self.watched.of_kind(SocketKind::Packet);
        packet.map(|watched| watched.interface).filter(|index| *index != 0).collect()
    }

    /// Reads the packet sockets and begins their window, so that their drops start at the same time
    /// as the counters of their interfaces.
    pub(crate) fn restart_packets(&mut self, network: Option<&Network>) {
        if let Some(network) = network.filter(|_| self.has(SocketKind::Packet)) {
            self.read_packet(network, true);
        }
        let packet = self.watched.of_kind_mut(SocketKind::Packet);
        packet.for_each(|(_, watched)| watched.begin_window());
    }

    /// Returns how many packets the observed packet sockets dropped since the start of the window;
    /// `None` if one of them does not report it, or if several are bound to one interface: each may
    /// receive all packets, or its share of them.
    pub(crate) fn packet_drops(&self) -> Option<u64> {
        let packet = self.watched.of_kind(SocketKind::Packet);
        let bound: Vec<&Watched> = packet.filter(|one| one.interface != 0).collect();
        let drops = bound.iter().map(|one| one.reported_drops()).sum::<Option<u64>>();
        let open = bound.iter().filter(|one| !one.is_closed).map(|one| one.interface);
        let interfaces: BTreeSet<u32> = open.clone().collect();
        drops.filter(|_| open.count() == interfaces.len())
    }

    /// Returns the names of the interfaces to which the observed packet sockets are bound.
    pub(crate) fn packet_interface_names(&self) -> Vec<&str> {
        let indices = self.packet_interfaces();
        indices.iter().filter_map(|index| self.names.get(index).map(String::as_str)).collect()
    }

    /// Reads all packet sockets.
    pub(super) fn read_packet(&mut self, network: &Network, is_start: bool) {
        let Ok(sockets) = network.packet_sockets() else { return };
        self.find_names(network, &sockets);
        let listed = sockets.iter().map(|socket| u64::from(socket.inode)).collect();
        self.take_packet(sockets, is_start);
        self.note_absent(SocketKind::Packet, &listed);
    }

    /// Finds the names of interfaces that the program created after the names were read.
    pub(super) fn find_names(&mut self, network: &Network, sockets: &[PacketSocket]) {
        for socket in sockets {
            let (inode, index) = (u64::from(socket.inode), socket.interface);
            let is_ours = self.is_all || self.owners.contains_key(&inode);
            if is_ours && index != 0 && !self.names.contains_key(&index) {
                let name = network.link(index).map(|link| link.name);
                self.names.insert(index, name.unwrap_or_else(|_| format!("interface {index}")));
            }
        }
    }

    pub(super) fn take_packet(&mut self, sockets: Vec<PacketSocket>, is_start: bool) {
        for socket in sockets {
            let inode = u64::from(socket.inode);
            if !self.owners.contains_key(&inode) && !self.is_all {
                continue;
            }
            let drops = socket.memory.map(|memory| memory.drops);
            let memory = socket.memory;
            // Packets in a ring do not occupy the receive buffer.
            let used = memory.filter(|_| socket.receive_ring.is_none()).map(|one| one.received);
            let receive_queue = used.unwrap_or(0).into();
            let state = State { receive_queue, send_queue: 0, memory, drops, inet: None };
            let (names, tick) = (&self.names, self.tick);
            self.watched.take(inode, state, tick, |state| {
                let any = || "all interfaces".to_owned();
                let local = names.get(&socket.interface).cloned().unwrap_or_else(any);
                Watched::new_packet(&socket, local, state, is_start, tick)
            });
        }
    }
}
