// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the processes at the other ends of connections within this machine.

use super::listing::list;
use super::{DESCRIPTORS_MAX, Sockets, canonical};
use crate::descriptors::Open;
use crate::target::all_pids;
use linerate_linux::network::{InetProtocol, InetSocket, Network};
use linerate_machine::Root;
use linerate_record::why::SocketKind;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of open connections between the same two addresses whose owners are looked up.
const OPEN_ENDS_MAX: usize = 16;

impl Sockets {
    /// Returns the process at the other end of each connection within this machine, by the inode at
    /// this end. For a connection that has since been closed, returns the process that now has
    /// connections open between the same addresses to the same port, if there is only one such
    /// process.
    pub(crate) fn peers(&self, root: &Root, network: Option<&Network>) -> BTreeMap<u64, u32> {
        let Some(network) = network else { return BTreeMap::new() };
        let pair = |socket: &InetSocket| (canonical(socket.local), canonical(socket.remote));
        let listed = self.has(SocketKind::Tcp).then(|| list(network, InetProtocol::Tcp)).flatten();
        let (listed, _) = listed.unwrap_or_default();
        let ends: BTreeMap<(SocketAddr, SocketAddr), u64> =
            listed.iter().map(|socket| (pair(socket), u64::from(socket.inode))).collect();
        let tcp = self.watched.with_inodes(SocketKind::Tcp);
        let tcp =
            tcp.filter_map(|(inode, watched)| Some((inode, pair(watched.last.inet.as_ref()?))));
        let of_watched: BTreeMap<u64, (SocketAddr, SocketAddr)> = tcp.collect();
        let mut others = other_ends(&of_watched, &ends);
        others.extend(self.unix.servers().map(|(own, server)| (own, vec![server])));
        let wanted: BTreeSet<u64> = others.values().flatten().copied().collect();
        if wanted.is_empty() {
            return BTreeMap::new();
        }
        let owners = owners_of(root, &wanted, DESCRIPTORS_MAX);
        let known = |(inode, ends): (u64, Vec<u64>)| {
            let pids: BTreeSet<u32> =
                ends.iter().filter_map(|end| owners.get(end)).copied().collect();
            (pids.len() == 1).then(|| pids.first().map(|pid| (inode, *pid)))?
        };
        others.into_iter().filter_map(known).collect()
    }
}

/// Returns the sockets that are, or may be, the other ends of connections, given the connections'
/// addresses (local, remote) and those of all open sockets.
pub(super) fn other_ends(
    watched: &BTreeMap<u64, (SocketAddr, SocketAddr)>,
    open: &BTreeMap<(SocketAddr, SocketAddr), u64>,
) -> BTreeMap<u64, Vec<u64>> {
    let mut between = BTreeMap::<(IpAddr, SocketAddr), Vec<u64>>::new();
    for ((local, remote), inode) in open.iter().filter(|(_, inode)| **inode != 0) {
        let ends = between.entry((local.ip(), *remote)).or_default();
        if ends.len() < OPEN_ENDS_MAX {
            ends.push(*inode);
        }
    }
    let listening = open.iter().filter(|((_, remote), inode)| remote.port() == 0 && **inode != 0);
    let listening: Vec<(SocketAddr, u64)> =
        listening.map(|((local, _), inode)| (*local, *inode)).collect();
    let ends_of = |(inode, (local, remote)): (&u64, &(SocketAddr, SocketAddr))| {
        let ends = match (open.get(&(*remote, *local)), between.get(&(remote.ip(), *local))) {
            (Some(&end), _) => vec![end],
            (None, Some(ends)) => ends.clone(),
            // A brief connection to a server, whose listening socket outlasts it.
            (None, None) => servers_at(&listening, *local, *remote),
        };
        (!ends.is_empty()).then_some((*inode, ends))
    };
    watched.iter().filter_map(ends_of).collect()
}

/// Returns the listening sockets at the remote end of a connection, if that is on this machine.
fn servers_at(listening: &[(SocketAddr, u64)], local: SocketAddr, remote: SocketAddr) -> Vec<u64> {
    // By default, the kernel connects to an address of its own from the same address.
    let is_here = remote.ip().is_loopback() || remote.ip() == local.ip();
    let accepts = |at: &SocketAddr| {
        *at == remote || (is_here && at.ip().is_unspecified() && at.port() == remote.port())
    };
    listening.iter().filter(|(at, _)| accepts(at)).map(|(_, inode)| *inode).collect()
}

/// Returns the processes that have the `wanted` sockets open, as far as permissions allow.
pub(super) fn owners_of(root: &Root, wanted: &BTreeSet<u64>, most: usize) -> BTreeMap<u64, u32> {
    let mut owners = BTreeMap::new();
    let mut read = 0;
    for pid in all_pids(root) {
        if owners.len() == wanted.len() || read > most {
            break;
        }
        for inode in Open::of(root, pid).sockets {
            read += 1;
            if wanted.contains(&inode) {
                owners.entry(inode).or_insert(pid);
            }
        }
    }
    owners
}
