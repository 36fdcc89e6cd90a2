// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and ends windows.

use super::peers::owners_of;
use super::watched::Watched;
use super::{DESCRIPTORS_MAX, Moment, Sockets, listing};
use crate::namespace::Namespace;
use linerate_linux::network::{InetProtocol, Network};
use linerate_machine::Root;
use linerate_record::why::{SocketCounts, SocketKind};
use std::collections::{BTreeMap, BTreeSet};

impl Sockets {
    /// Begins the first window, which excludes what the sockets have counted since
    /// [`Sockets::look`] found them. Does not search the descriptors, since that may take long.
    pub(crate) fn restart(&mut self, root: &Root, namespace: &Namespace) {
        self.watched.begin_window();
        self.census.begin_window();
        let is_new = self.is_all || self.owners.keys().any(|inode| !self.listed.contains(inode));
        let Some(network) = &namespace.network else {
            if is_new || self.has(SocketKind::Udp) {
                self.take_listed(root, namespace, InetProtocol::Udp, true);
            }
            self.watched.begin_with_last();
            self.neighbours.begin_window(root);
            return;
        };
        let has_tcp = self.has(SocketKind::Tcp) || self.has(SocketKind::TcpListen);
        if is_new || has_tcp {
            let began = self.tcp_listing.begin();
            let tcp = listing::list(network, InetProtocol::Tcp);
            if tcp.is_some() {
                self.tcp_listing.end(began);
            }
            tcp.into_iter().for_each(|tcp| self.take_tcp(tcp, Moment::Start, true));
        }
        // The descriptors were searched before, so that the newest connections are missing.
        self.looks.clear();
        if is_new || self.has(SocketKind::Udp) {
            self.read_udp(listing::list(network, InetProtocol::Udp), root, namespace, true);
        }
        self.read_listed_xdp(network, true);
        // The window begins with this reading, which is one of its readings.
        self.watched.begin_with_last();
        self.census.begin_window();
        self.neighbours.begin_window(root);
    }

    /// Lists the UDP sockets of other programs before the program opens sockets of its own.
    pub(super) fn find_neighbours(&mut self, root: &Root, network: &Network) {
        let (udp, _) = listing::list(network, InetProtocol::Udp).unwrap_or_default();
        self.take_inet(udp, true);
        self.neighbours.begin(root, DESCRIPTORS_MAX);
    }

    /// Returns each socket's counts over the window and, for a connection, the process at the other
    /// end. Then begins the next window. If all sockets in a namespace are watched, returns only
    /// those with losses.
    pub(crate) fn finish(&mut self, root: &Root, peers: &BTreeMap<u64, u32>) -> Vec<SocketCounts> {
        let has_lost = |watched: &Watched| watched.drops().is_some_and(|drops| drops > 0);
        if self.is_all {
            let lost = self.watched.iter().filter(|(_, watched)| has_lost(watched));
            let is_new = |inode: &u64| !self.owners.contains_key(inode);
            let new: BTreeSet<u64> = lost.map(|(inode, _)| *inode).filter(is_new).collect();
            self.owners.extend(owners_of(root, &new, usize::MAX));
            // Do not search again for owners that cannot be read.
            new.into_iter().for_each(|inode| {
                self.owners.entry(inode).or_insert(0);
            });
        }
        let owners = &self.owners;
        let counts = |(inode, watched): (&u64, &Watched)| {
            watched.counts(*inode, owners.get(inode).copied().unwrap_or(0), peers.get(inode))
        };
        let moved = |watched: &Watched| match watched.kind {
            _ if self.is_all => has_lost(watched),
            SocketKind::Tcp => {
                let is_queued = watched.receive_queue_max > 0 || watched.send_queue > 0;
                watched.traffic().0 > 0 || is_queued
            }
            _ => true,
        };
        let moved = self.watched.iter().filter(|(_, watched)| moved(watched));
        let mut found: Vec<SocketCounts> = moved.map(counts).collect();
        for socket in found.iter_mut().filter(|one| one.kind == SocketKind::Udp) {
            let local = socket.remote.is_none().then(|| socket.local.parse().ok()).flatten();
            socket.port_sharers = local.map(|local| self.neighbours.sharers(local));
        }
        found.extend(self.unix.finish(owners, peers));
        self.watched.forget_closed();
        self.watched.begin_window();
        self.is_in_rotation = false;
        self.census.begin_window();
        self.looks.clear();
        self.exchanges.begin_window();
        // The processes that own the others' sockets may have thousands of threads.
        if self.has(SocketKind::Udp) {
            self.neighbours.begin_window(root);
        }
        if self.owners.len() > DESCRIPTORS_MAX {
            // Most entries are for closed sockets; the next search finds the open ones again.
            self.owners.clear();
            self.listed.clear();
        }
        found
    }
}
