// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of all sockets in the namespace. A UDP socket that is missing from them was closed: unlike
//! a TCP socket, it cannot be looked up alone, because others may have the same address.

use super::watched::{State, state_of};
use super::{Namespace, Sockets};
use crate::procfs::net::parse_sockets;
use linerate_linux::network::{InetProtocol, InetSocket, Network};
use linerate_machine::Root;
use linerate_record::why::SocketKind;
use std::collections::BTreeSet;

/// Number of lists in a row from which a socket must be missing. One is not enough, because the
/// kernel may skip sockets if others are closed while it writes a long list.
const ABSENCES: u32 = 2;

/// Returns the sockets of a protocol, and whether the list is complete.
pub(super) fn list(network: &Network, protocol: InetProtocol) -> (Vec<InetSocket>, bool) {
    let lists = [false, true].map(|is_v6| network.inet_sockets(protocol, is_v6));
    let is_complete = lists.iter().all(Result::is_ok);
    (lists.into_iter().flatten().flatten().collect(), is_complete)
}

impl Sockets {
    /// Adds a reading of all UDP sockets.
    pub(super) fn take_udp(
        &mut self,
        (sockets, is_complete): (Vec<InetSocket>, bool),
        is_start: bool,
    ) {
        let listed = sockets.iter().map(|socket| u64::from(socket.inode)).collect();
        self.take_inet(sockets, is_start);
        if is_complete {
            self.note_absent(&listed);
        }
    }

    /// Notes which UDP sockets are missing from a complete list.
    fn note_absent(&mut self, listed: &BTreeSet<u64>) {
        let udp = self.watched.iter_mut().filter(|(_, one)| one.kind == SocketKind::Udp);
        for (inode, watched) in udp {
            watched.absences += u32::from(!listed.contains(inode));
            watched.is_closed = watched.absences >= ABSENCES;
        }
    }

    /// Uses the sockets listed in /proc if netlink does not answer.
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
        let mut udp = BTreeSet::new();
        for file in files {
            let text = root.text(&namespace.file(file)).unwrap_or_default();
            for (listed, drops) in parse_sockets(&text, protocol) {
                // Sockets without an inode belong to no program.
                if listed.inode != 0 {
                    udp.insert(u64::from(listed.inode));
                    let socket = InetSocket::of_listed(listed);
                    self.take_one(&socket, State { drops, ..state_of(&socket) }, is_start);
                }
            }
        }
        if protocol == InetProtocol::Udp && !udp.is_empty() {
            self.note_absent(&udp);
        }
    }
}
