// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that a program opens for a single exchange with a server, such as a DNS lookup. They are
//! listed when a thread is found asleep on one, because none of them lasts until the next search.

use super::{Sockets, listing};
use crate::namespace::Namespace;
use crate::sockets::watched::Watched;
use linerate_linux::network::InetProtocol;
use linerate_record::why::SocketKind;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of times per window that sockets are listed because threads sleep on unknown
/// sockets.
const LISTS_MAX: u32 = 20;

/// Minimum number of sockets connected to the same server within the window that are described as
/// one, without their local addresses.
const MANY: usize = 3;

/// Connected UDP sockets that were open only while a thread slept on them.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// Local and remote addresses, by inode.
    found: BTreeMap<u64, (String, String)>,
    lists: u32,
}

impl Exchanges {
    pub(super) fn begin_window(&mut self) {
        *self = Self::default();
    }
}

impl Sockets {
    /// Looks up sockets on which threads sleep, by inode, if they are not known yet.
    pub(crate) fn resolve(&mut self, namespace: &Namespace, inodes: &[u64]) {
        let Some(network) = &namespace.network else { return };
        let is_known = |inode: &u64| {
            self.watched.contains_key(inode)
                || self.unix.has(*inode)
                || self.exchanges.found.contains_key(inode)
        };
        let is_due = self.exchanges.lists < LISTS_MAX && self.listing.is_due();
        if !is_due || inodes.iter().all(is_known) {
            return;
        }
        self.exchanges.lists += 1;
        let began = self.listing.begin();
        let udp = listing::list(network, InetProtocol::Udp);
        self.listing.end(began);
        let (udp, _) = udp.unwrap_or_default();
        let wanted: BTreeSet<u64> = inodes.iter().copied().collect();
        for socket in udp.iter().filter(|socket| wanted.contains(&u64::from(socket.inode))) {
            if socket.remote.port() != 0 {
                let address = |address| super::canonical(address).to_string();
                let ends = (address(socket.local), address(socket.remote));
                self.exchanges.found.insert(u64::from(socket.inode), ends);
            }
        }
    }

    /// Describes a socket: `udp 0.0.0.0:53`. If it is one of many that the program opened to the
    /// same server within the window, the local address is left out: `udp to 10.0.0.2:53`.
    pub(crate) fn describe(&self, inode: u64) -> Option<String> {
        if self.unix.has(inode) {
            return self.unix.describe(inode);
        }
        let (kind, local, remote) =
            match (self.watched.get(&inode), self.exchanges.found.get(&inode)) {
                (Some(watched), _) => (kind_of(watched), &watched.local, watched.remote.as_ref()),
                (None, Some((local, remote))) => ("udp", local, Some(remote)),
                (None, None) => return None,
            };
        Some(match remote {
            Some(remote) if self.opened_to(kind, remote).any(|one| one == inode) => {
                match self.opened_to(kind, remote).count() {
                    MANY.. => format!("{kind} to {remote}"),
                    _ => format!("{kind} {local} to {remote}"),
                }
            }
            Some(remote) => format!("{kind} {local} to {remote}"),
            None => format!("{kind} {local}"),
        })
    }

    /// Returns the inodes of the sockets that the program opened within the window and connected to
    /// a server.
    fn opened_to(&self, kind: &str, server: &str) -> impl Iterator<Item = u64> {
        let listening = self.watched.of_kind(SocketKind::TcpListen);
        let ports: BTreeSet<u16> = listening.filter_map(Watched::port).collect();
        let is_meant = move |watched: &Watched| {
            watched.first.is_none()
                && watched.remote.as_deref() == Some(server)
                && kind_of(watched) == kind
                && !watched.port().is_some_and(|port| ports.contains(&port))
        };
        let watched = self.watched.iter().filter(move |(_, watched)| is_meant(watched));
        let found = self.exchanges.found.iter().filter(move |(inode, (_, remote))| {
            kind == "udp" && remote == server && !self.watched.contains_key(inode)
        });
        watched.map(|(inode, _)| *inode).chain(found.map(|(inode, _)| *inode))
    }
}

fn kind_of(watched: &Watched) -> &'static str {
    match watched.kind {
        SocketKind::Tcp | SocketKind::TcpListen => "tcp",
        SocketKind::Udp => "udp",
        _ => "packet",
    }
}
