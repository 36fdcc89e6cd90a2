// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets of the watched processes.
//!
//! All sockets in the namespace are listed at both ends of the window, and in between where the
//! processes have opened new ones or have TCP connections. Known sockets are read one by one at the
//! end of each slice. Closed sockets keep their last readings.

mod census;
mod sparing;
mod watched;

pub(crate) use census::Share;

use crate::namespace::Namespace;
use crate::procfs::net::parse_sockets;
use crate::sleep::socket_inode;
use crate::target::{all_pids, stat_of};
use census::Census;
use linerate_linux::network::{InetProtocol, InetSocket, Network, PacketSocket};
use linerate_machine::Root;
use linerate_record::why::{SocketCounts, SocketKind};
use sparing::Sparing;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use watched::{State, Watched, state_of};

/// Maximum number of descriptors read, over all processes, when looking for peers.
const DESCRIPTORS_MAX: usize = 50_000;

/// Maximum number of TCP connections, and of UDP sockets, read one by one at the end of a slice; if
/// there are more, the next ones in order. Each costs a few microseconds.
const PER_SLICE: usize = 32;

/// Kinds of TCP sockets.
const TCP: &[SocketKind] = &[SocketKind::Tcp, SocketKind::TcpListen];

/// A moment of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Its start.
    Start,
    /// The end of a slice.
    Within,
    /// Its end.
    End,
}

/// The sockets of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Owner of each open socket, by inode.
    owners: BTreeMap<u64, u32>,
    watched: BTreeMap<u64, Watched>,
    /// Whether all sockets are watched, because there is no program.
    is_all: bool,
    names: BTreeMap<u32, String>,
    /// Whether all UDP sockets in the namespace are watched.
    pub(crate) has_all_udp: bool,
    census: Census,
    /// Open sockets that were looked for in a list: those not found in it are of other kinds than
    /// TCP and UDP.
    listed: BTreeSet<u64>,
    /// Reads the list of UDP sockets at the end of a slice.
    listing: Sparing,
    /// Position after the last slice, if there are too many connections for one slice.
    next: usize,
}

impl Sockets {
    /// Watches the sockets of the processes given to [`Sockets::look`], or all sockets.
    pub(crate) fn new(is_all: bool, network: Option<&Network>) -> Self {
        let links = network.and_then(|network| network.links().ok()).unwrap_or_default();
        let names = links.into_iter().map(|link| (link.index, link.name)).collect();
        Self { is_all, names, has_all_udp: true, ..Self::default() }
    }

    /// Finds sockets and reads them. Counters read at the start of the window are the base for
    /// differences; sockets found later started from 0.
    pub(crate) fn look(
        &mut self,
        root: &Root,
        namespace: &Namespace,
        pids: &[u32],
        moment: Moment,
    ) {
        let is_start = moment == Moment::Start;
        for &pid in pids {
            for inode in socket_inodes(root, pid) {
                self.owners.entry(inode).or_insert(pid);
            }
        }
        if self.owners.is_empty() && !self.is_all {
            return;
        }
        let is_new = self.is_all || self.owners.keys().any(|inode| !self.listed.contains(inode));
        let is_needed = moment != Moment::Within || is_new;
        if !is_needed && !self.has(SocketKind::Tcp) && !self.has(SocketKind::TcpListen) {
            return;
        }
        self.listed.extend(self.owners.keys());
        let Some(network) = &namespace.network else {
            self.take_listed(root, namespace, InetProtocol::Tcp, is_start);
            if is_needed {
                self.take_listed(root, namespace, InetProtocol::Udp, is_start);
            }
            return;
        };
        let mut tcp = dump(network, InetProtocol::Tcp);
        let owners = &self.owners;
        self.census.take(&tcp, |inode| owners.contains_key(&inode), is_start);
        // If there are many connections, a few are read in each slice, in rotation: reading all at
        // once would look like a burst.
        if moment == Moment::Within && tcp.len() > PER_SLICE {
            tcp.retain(|socket| !self.watched.contains_key(&u64::from(socket.inode)));
        }
        self.take_inet(tcp, is_start);
        if is_needed {
            self.take_inet(dump(network, InetProtocol::Udp), is_start);
        }
        self.take_packet(network.packet_sockets().unwrap_or_default(), is_start);
    }

    /// Reads the known sockets.
    pub(crate) fn read(&mut self, root: &Root, namespace: &Namespace) {
        let has_udp = self.has(SocketKind::Udp);
        let Some(network) = &namespace.network else {
            if has_udp && self.listing.is_due() {
                let began = self.listing.begin();
                self.take_listed(root, namespace, InetProtocol::Udp, false);
                self.listing.end(began);
            }
            return;
        };
        let first = self.next;
        self.next = first.wrapping_add(PER_SLICE);
        for (watched, found) in self.one_by_one(network, first, TCP) {
            match found {
                Some(socket) => watched.take(state_of(&socket), socket.tcp.is_some()),
                None => watched.is_closed = true,
            }
        }
        let mut is_hidden = false;
        for (watched, found) in self.one_by_one(network, first, &[SocketKind::Udp]) {
            match found {
                Some(socket) => watched.take(state_of(&socket), false),
                // Another socket has the same address (SO_REUSEPORT), or this one was closed.
                None => is_hidden = true,
            }
        }
        if is_hidden && self.listing.is_due() {
            let began = self.listing.begin();
            self.take_inet(dump(network, InetProtocol::Udp), false);
            self.listing.end(began);
        }
        if self.has(SocketKind::Packet) {
            self.take_packet(network.packet_sockets().unwrap_or_default(), false);
        }
    }

    /// Queries up to [`PER_SLICE`] open sockets of a kind, from position `first` on, wrapping
    /// around; `None` for a socket that is not found at its address. Sockets for which the kernel
    /// does not answer are left out.
    fn one_by_one(
        &mut self,
        network: &Network,
        first: usize,
        kinds: &'static [SocketKind],
    ) -> impl Iterator<Item = (&mut Watched, Option<InetSocket>)> {
        let is_wanted = |watched: &Watched| !watched.is_closed && kinds.contains(&watched.kind);
        let sockets = self.watched.values().filter(|watched| is_wanted(watched)).count().max(1);
        let first = first % sockets;
        let is_turn = move |place: usize| (place + sockets - first) % sockets < PER_SLICE;
        let wanted = self.watched.values_mut().filter(move |watched| is_wanted(watched));
        let chosen = wanted.enumerate().filter(move |(place, _)| is_turn(*place));
        chosen.filter_map(|(_, watched)| {
            let found = network.inet_socket(watched.last.inet.as_ref()?).ok()?;
            Some((watched, found))
        })
    }

    /// Takes the sockets that /proc lists, if netlink does not answer.
    fn take_listed(
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
        for file in files {
            let text = root.text(&namespace.file(file)).unwrap_or_default();
            for (listed, drops) in parse_sockets(&text, protocol) {
                // Sockets without an inode belong to no program.
                if listed.inode != 0 {
                    let socket = InetSocket::of_listed(listed);
                    self.take_one(&socket, State { drops, ..state_of(&socket) }, is_start);
                }
            }
        }
    }

    /// The program's share of the TCP segments that the namespace counted.
    pub(crate) fn tcp_share(&self, segments: u64) -> Share {
        self.census.share(segments)
    }

    /// Owner of each open socket, by inode.
    pub(crate) fn owners(&self) -> &BTreeMap<u64, u32> {
        &self.owners
    }

    /// TCP addresses that processes listen on, with the process and its name.
    pub(crate) fn listening_addresses(&self, root: &Root) -> Vec<(u32, String, SocketAddr)> {
        let listening =
            self.watched.iter().filter(|(_, watched)| watched.kind == SocketKind::TcpListen);
        let named = |(inode, watched): (&u64, &Watched)| {
            let pid = *self.owners.get(inode)?;
            let local = watched.last.inet.as_ref()?.local;
            Some((pid, stat_of(root, pid)?.name, local))
        };
        listening.filter_map(named).collect()
    }

    /// Whether a socket of this kind is watched.
    pub(crate) fn has(&self, kind: SocketKind) -> bool {
        self.watched.values().any(|watched| watched.kind == kind)
    }

    /// Whether at least half of the watched TCP connections began and ended between two reads in
    /// the window: others may have come and gone unseen.
    pub(crate) fn come_and_go(&self) -> bool {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        let (all, short) = tcp.fold((0, 0), |(all, short), watched| {
            (all + 1, short + u32::from(watched.first.is_none() && watched.is_closed))
        });
        short > 0 && 2 * short >= all
    }

    /// Segments that the watched TCP connections have received and sent in the window so far.
    pub(crate) fn segments(&self) -> u64 {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        tcp.map(|watched| watched.tcp()).map(|tcp| tcp.segments_in + tcp.segments_out).sum()
    }

    /// Bytes that the watched TCP connections have received and had acknowledged in the window so
    /// far.
    pub(crate) fn tcp_bytes(&self) -> u64 {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        tcp.map(|watched| watched.tcp()).map(|tcp| tcp.bytes_received + tcp.bytes_acked).sum()
    }

    /// The interfaces that the watched packet sockets are bound to.
    pub(crate) fn packet_interfaces(&self) -> BTreeSet<u32> {
        let packet = self.watched.values().filter(|watched| watched.kind == SocketKind::Packet);
        packet.map(|watched| watched.interface).filter(|index| *index != 0).collect()
    }

    /// Their names.
    pub(crate) fn packet_interface_names(&self) -> Vec<&str> {
        let indices = self.packet_interfaces();
        indices.iter().filter_map(|index| self.names.get(index).map(String::as_str)).collect()
    }

    /// Describes a socket: `udp 0.0.0.0:53`.
    pub(crate) fn describe(&self, inode: u64) -> Option<String> {
        let watched = self.watched.get(&inode)?;
        let kind = match watched.kind {
            SocketKind::Tcp | SocketKind::TcpListen => "tcp",
            SocketKind::Udp => "udp",
            _ => "packet",
        };
        Some(match &watched.remote {
            Some(remote) => format!("{kind} {} to {remote}", watched.local),
            None => format!("{kind} {}", watched.local),
        })
    }

    fn take_inet(&mut self, sockets: Vec<InetSocket>, is_start: bool) {
        for socket in sockets {
            let state = state_of(&socket);
            self.take_one(&socket, state, is_start);
        }
    }

    fn take_one(&mut self, socket: &InetSocket, state: State, is_start: bool) {
        let inode = u64::from(socket.inode);
        if !self.owners.contains_key(&inode) && !self.is_all {
            self.has_all_udp &= socket.protocol != InetProtocol::Udp;
            return;
        }
        match self.watched.get_mut(&inode) {
            Some(watched) => watched.take(state, socket.tcp.is_some()),
            None => {
                let watched = Watched::new_inet(socket, state, is_start);
                self.watched.insert(inode, watched);
            }
        }
    }

    fn take_packet(&mut self, sockets: Vec<PacketSocket>, is_start: bool) {
        for socket in sockets {
            let inode = u64::from(socket.inode);
            if !self.owners.contains_key(&inode) && !self.is_all {
                continue;
            }
            let drops = socket.memory.map(|memory| memory.drops);
            let memory = socket.memory;
            let state = State { receive_queue: 0, send_queue: 0, memory, drops, inet: None };
            match self.watched.get_mut(&inode) {
                Some(watched) => watched.take(state, false),
                None => {
                    let any = || "all interfaces".to_owned();
                    let local = self.names.get(&socket.interface).cloned().unwrap_or_else(any);
                    let watched = Watched::new_packet(&socket, local, state, is_start);
                    self.watched.insert(inode, watched);
                }
            }
        }
    }

    /// The differences over the window. If all sockets in a namespace are watched, only those with
    /// losses.
    pub(crate) fn finish(mut self, root: &Root, network: Option<&Network>) -> Vec<SocketCounts> {
        let peers = self.peers(root, network);
        if self.is_all {
            let lost: BTreeSet<u64> = self
                .watched
                .iter()
                .filter(|(_, watched)| watched.drops().is_some_and(|drops| drops > 0))
                .map(|(inode, _)| *inode)
                .collect();
            self.owners = owners_of(root, &lost, usize::MAX);
            self.watched.retain(|inode, _| lost.contains(inode));
        }
        let owners = self.owners;
        let counts = |(inode, watched): (&u64, &Watched)| {
            watched.counts(*inode, owners.get(inode).copied().unwrap_or(0), peers.get(inode))
        };
        let moved = |watched: &Watched| match watched.kind {
            SocketKind::Tcp => {
                let tcp = watched.tcp();
                let is_queued = watched.receive_queue_max > 0 || watched.send_queue > 0;
                tcp.segments_in + tcp.segments_out > 0 || is_queued
            }
            _ => true,
        };
        self.watched.iter().filter(|(_, watched)| moved(watched)).map(counts).collect()
    }

    /// The processes at the other end of connections within this machine, by the inode at this end.
    /// For a connection that has since been closed, the process that now has connections open
    /// between the same addresses to the same port, if there is only one.
    fn peers(&self, root: &Root, network: Option<&Network>) -> BTreeMap<u64, u32> {
        let Some(network) = network.filter(|_| self.has(SocketKind::Tcp)) else {
            return BTreeMap::new();
        };
        let pair = |socket: &InetSocket| (canonical(socket.local), canonical(socket.remote));
        let ends: BTreeMap<(SocketAddr, SocketAddr), u64> = dump(network, InetProtocol::Tcp)
            .iter()
            .map(|socket| (pair(socket), u64::from(socket.inode)))
            .collect();
        let tcp = self.watched.iter().filter(|(_, watched)| watched.kind == SocketKind::Tcp);
        let tcp =
            tcp.filter_map(|(inode, watched)| Some((*inode, pair(watched.last.inet.as_ref()?))));
        let of_watched: BTreeMap<u64, (SocketAddr, SocketAddr)> = tcp.collect();
        let others = other_ends(&of_watched, &ends);
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

/// The sockets that are, or may be, the other ends of connections, from the addresses of the
/// connections (local, remote) and those of all open sockets.
fn other_ends(
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
    let ends_of = |(inode, (local, remote)): (&u64, &(SocketAddr, SocketAddr))| {
        let ends = match open.get(&(*remote, *local)) {
            Some(&end) => vec![end],
            None => between.get(&(remote.ip(), *local)).cloned()?,
        };
        Some((*inode, ends))
    };
    watched.iter().filter_map(ends_of).collect()
}

/// Maximum number of open connections between two addresses whose owners are looked up.
const OPEN_ENDS_MAX: usize = 16;

/// Converts an IPv4-mapped IPv6 address to the IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn dump(network: &Network, protocol: InetProtocol) -> Vec<InetSocket> {
    let of_family = |is_v6| network.inet_sockets(protocol, is_v6).unwrap_or_default();
    let mut sockets = of_family(false);
    sockets.extend(of_family(true));
    sockets
}

/// The inodes of a process's sockets.
fn socket_inodes(root: &Root, pid: u32) -> impl Iterator<Item = u64> {
    let entries = std::fs::read_dir(root.path(&format!("proc/{pid}/fd")));
    entries.into_iter().flatten().flatten().filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        socket_inode(link.to_str()?)
    })
}

/// The processes that have `wanted` sockets open, as far as permissions allow.
fn owners_of(root: &Root, wanted: &BTreeSet<u64>, most: usize) -> BTreeMap<u64, u32> {
    let mut owners = BTreeMap::new();
    let mut read = 0;
    for pid in all_pids(root) {
        if owners.len() == wanted.len() || read > most {
            break;
        }
        for inode in socket_inodes(root, pid) {
            read += 1;
            if wanted.contains(&inode) {
                owners.entry(inode).or_insert(pid);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests;
