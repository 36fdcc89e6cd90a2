// SPDX-License-Identifier: MIT OR Apache-2.0
//! All observed TCP connections together: their traffic, and whether they last.

use super::Sockets;
use super::watched::Watched;
use linerate_record::why::SocketKind;

impl Sockets {
    /// Returns whether at least half of the observed TCP connections began and ended within the
    /// window. If so, there may be others that began and ended between two reads.
    pub(crate) fn come_and_go(&self) -> bool {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        let (all, short) = tcp.fold((0, 0), |(all, short), watched| {
            (all + 1, short + u32::from(watched.first.is_none() && watched.is_closed))
        });
        short > 0 && 2 * short >= all
    }

    /// Returns whether TCP connections began or ended within the window, or sockets opened in the
    /// window have not been looked up yet.
    pub(crate) fn replaces_connections(&self) -> bool {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        let mut replaced = tcp.filter(|watched| watched.first.is_none() || watched.is_closed);
        let is_unknown = |inode: &u64| !self.listed.contains(inode);
        replaced.next().is_some() || self.owners.keys().any(is_unknown)
    }

    /// Returns whether the TCP sockets were read in rotation in this window, not in each slice.
    pub(crate) fn were_read_in_rotation(&self) -> bool {
        self.is_in_rotation
    }

    /// Returns the segments and bytes, received and sent (acknowledged), on observed TCP
    /// connections in the window so far.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        let sum = |sum: (u64, u64), of: (u64, u64)| (sum.0 + of.0, sum.1 + of.1);
        tcp.map(Watched::traffic).fold((0, 0), sum)
    }
}
