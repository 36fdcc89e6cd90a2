// SPDX-License-Identifier: MIT OR Apache-2.0
//! All observed TCP connections together: their traffic, whether they last, and whether there are
//! new ones.

use super::Sockets;
use super::watched::Watched;
use linerate_linux::network::InetSocket;
use linerate_machine::Root;
use linerate_record::why::SocketKind;
use std::collections::BTreeSet;

/// If the processes have at least this many descriptors, these are searched only if something
/// indicates a change.
const DESCRIPTORS_MANY: u64 = 512;

impl Sockets {
    /// Searches the descriptors, and schedules the next search.
    pub(super) fn walk(&mut self, root: &Root, pids: &[u32]) {
        let began = self.walking.begin();
        self.find_descriptors(root, pids);
        self.walking.end(began);
    }

    /// Returns whether the processes have many descriptors, their number is the same as at the last
    /// search, and no socket has been closed since.
    pub(super) fn has_same_descriptors(&mut self, root: &Root, pids: &[u32]) -> bool {
        self.closed == self.closed_at_walk
            && self.descriptors.are_unchanged(root, pids, DESCRIPTORS_MANY)
    }

    /// Returns whether a list has connections that no search of the descriptors has found, and that
    /// a process may have accepted.
    pub(super) fn has_accepted(&self, listed: &[InetSocket]) -> bool {
        let listening = self.watched.of_kind(SocketKind::TcpListen);
        let ports: BTreeSet<u16> = listening.filter_map(Watched::port).collect();
        listed.iter().any(|socket| {
            let is_unknown = socket.inode != 0 && !self.owners.contains_key(&socket.inode.into());
            is_unknown && !socket.is_listening && ports.contains(&socket.local.port())
        })
    }

    /// Returns whether a complete list lacks an observed connection that was open so far. Its
    /// descriptor may have been reused for a new connection, which leaves the number of descriptors
    /// unchanged.
    pub(super) fn lacks_connection(&self, listed: &[InetSocket]) -> bool {
        let listed: BTreeSet<u64> = listed.iter().map(|socket| socket.inode.into()).collect();
        let mut open = self.watched.with_inodes(SocketKind::Tcp);
        open.any(|(inode, watched)| !watched.is_closed && !listed.contains(&inode))
    }

    /// Returns whether at least half of the observed TCP connections began and ended within the
    /// window. If so, there may be others that began and ended between two reads.
    pub(crate) fn come_and_go(&self) -> bool {
        let tcp = self.watched.of_kind(SocketKind::Tcp);
        let (all, short) = tcp.fold((0, 0), |(all, short), watched| {
            (all + 1, short + u32::from(watched.first.is_none() && watched.is_closed))
        });
        short > 0 && 2 * short >= all
    }

    /// Returns whether TCP connections began or ended within the window, or sockets opened in the
    /// window have not been looked up yet.
    pub(crate) fn replaces_connections(&self) -> bool {
        let tcp = self.watched.of_kind(SocketKind::Tcp);
        let mut replaced = tcp.filter(|watched| watched.first.is_none() || watched.is_closed);
        let is_unknown = |inode: &u64| !self.listed.contains(inode);
        replaced.next().is_some() || self.owners.keys().any(is_unknown)
    }

    /// Returns whether the TCP sockets were read in rotation in this window, rather than all of
    /// them in each slice.
    pub(crate) fn were_read_in_rotation(&self) -> bool {
        self.is_in_rotation
    }

    /// Returns the segments and bytes, received and sent (acknowledged), on observed TCP
    /// connections in the window so far.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.watched.traffic()
    }
}
