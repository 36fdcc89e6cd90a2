// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of all sockets in the namespace. A socket that is missing from them was closed. Lookups of
//! single sockets do not always show that: the kernel may find another UDP or listening TCP socket
//! with the same address, and a TCP connection is looked up only when its turn comes.

use super::watched::{State, state_of};
use super::{Namespace, Sockets, TCP};
use crate::procfs::net::parse_sockets;
use linerate_linux::network::{InetProtocol, InetSocket, Network};
use linerate_machine::Root;
use linerate_record::why::SocketKind;
use std::collections::BTreeSet;

/// Number of consecutive lists from which a socket must be missing to count as closed. One list is
/// not enough, because the kernel may skip sockets if others are closed while it writes a long
/// list.
const ABSENCES: u32 = 2;

/// Returns the sockets of a protocol, and whether the list is complete; `None` if the kernel lists
/// neither address family, as is the case without the module `udp_diag`.
pub(super) fn list(network: &Network, protocol: InetProtocol) -> Option<(Vec<InetSocket>, bool)> {
    if protocol == InetProtocol::Tcp
        && let Ok(sockets) = network.tcp_sockets()
    {
        return Some((sockets, true));
    }
    let lists = [false, true].map(|is_v6| network.inet_sockets(protocol, is_v6));
    let is_complete = lists.iter().all(Result::is_ok);
    let is_listed = lists.iter().any(Result::is_ok);
    is_listed.then(|| (lists.into_iter().flatten().flatten().collect(), is_complete))
}

impl Sockets {
    /// Adds a reading of all UDP sockets: those that the kernel `listed` or, if it cannot list
    /// them, those in /proc.
    pub(super) fn read_udp(
        &mut self,
        listed: Option<(Vec<InetSocket>, bool)>,
        root: &Root,
        namespace: &Namespace,
        is_start: bool,
    ) {
        match listed {
            Some(listed) => self.take_udp(listed, is_start),
            None => self.take_listed(root, namespace, InetProtocol::Udp, is_start),
        }
    }

    /// Returns whether the program has UDP sockets and shares its network namespace's counters with
    /// others, so that its datagrams may have to be counted by its system calls.
    pub(crate) fn may_need_calls(&self) -> bool {
        self.has(SocketKind::Udp) && self.neighbours.has_any()
    }

    /// Reads the receive queues of other programs' UDP sockets, as often as its share of a CPU
    /// permits.
    pub(crate) fn glance(&mut self, namespace: &Namespace) {
        let is_wanted = self.may_need_calls();
        let Some(network) = namespace.network.as_ref().filter(|_| is_wanted) else { return };
        if !self.queues.is_due() {
            return;
        }
        let began = self.queues.begin();
        if let Some((sockets, true)) = list(network, InetProtocol::Udp) {
            self.neighbours.note_queues(&sockets);
        }
        self.queues.end(began);
    }

    /// Adds a reading of all TCP sockets in /proc, which takes long if there are many.
    pub(super) fn take_tcp_listed(&mut self, root: &Root, namespace: &Namespace, is_start: bool) {
        let began = self.tcp_listing.begin();
        self.take_listed(root, namespace, InetProtocol::Tcp, is_start);
        self.tcp_listing.end(began);
    }

    /// Returns whether an open UDP socket is known only from /proc, where single sockets cannot be
    /// read.
    pub(super) fn has_unqueried_udp(&self) -> bool {
        let udp = self.watched.of_kind(SocketKind::Udp);
        udp.filter(|one| !one.is_closed).any(|one| !one.can_be_queried())
    }

    /// Adds a reading of all UDP sockets in a list.
    pub(super) fn take_udp(
        &mut self,
        (sockets, is_complete): (Vec<InetSocket>, bool),
        is_start: bool,
    ) {
        let listed = sockets.iter().map(|socket| u64::from(socket.inode)).collect();
        self.take_inet(sockets, is_start);
        if is_complete {
            self.note_absent(SocketKind::Udp, &listed);
            self.neighbours.note_list(listed);
        }
    }

    /// Notes which sockets of a kind are missing from a complete list.
    pub(super) fn note_absent(&mut self, kind: SocketKind, listed: &BTreeSet<u64>) {
        for (inode, watched) in self.watched.of_kind_mut(kind) {
            if listed.contains(&inode) {
                (watched.absences, watched.is_closed) = (0, false);
            } else {
                self.closed += u64::from(!watched.is_closed);
                watched.absences += 1;
                watched.is_closed |= watched.absences >= ABSENCES;
            }
        }
    }

    /// Adds a reading of the sockets in /proc, for a protocol that netlink does not list.
    pub(super) fn take_listed(
        &mut self,
        root: &Root,
        namespace: &Namespace,
        protocol: InetProtocol,
        is_start: bool,
    ) {
        let files = match protocol {
            InetProtocol::Tcp => ["tcp", "tcp6"],
            InetProtocol::Udp => ["udp", "udp6"],
        };
        let mut inodes = BTreeSet::new();
        for file in files {
            let text = root.text(&namespace.file(file)).unwrap_or_default();
            for (listed, drops) in parse_sockets(&text, protocol) {
                // Sockets without an inode belong to no program.
                if listed.inode != 0 {
                    inodes.insert(u64::from(listed.inode));
                    let socket = InetSocket::of_listed(listed);
                    self.take_one(&socket, State { drops, ..state_of(&socket) }, is_start);
                }
            }
        }
        if inodes.is_empty() {
            return;
        }
        match protocol {
            InetProtocol::Tcp => TCP.iter().for_each(|kind| self.note_absent(*kind, &inodes)),
            InetProtocol::Udp => {
                self.note_absent(SocketKind::Udp, &inodes);
                self.neighbours.note_list(inodes);
            }
        }
    }
}
