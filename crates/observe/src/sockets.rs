// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observed processes' sockets.
//!
//! All sockets in the namespace are listed at both ends of the window, and in between if the
//! processes have opened new ones or have TCP connections. Known sockets are read individually at
//! the end of each slice. Closed sockets keep their last readings.

mod alternation;
mod census;
mod connections;
mod exchanges;
mod listing;
mod neighbours;
mod packet;
mod peers;
mod reading;
mod requests;
mod rotation;
mod shared;
mod table;
mod turns;
mod unix;
mod watched;
mod windows;
mod xdp;

pub(crate) use census::Share;

use crate::descriptors::{Descriptors, Open};
use crate::namespace::Namespace;
use crate::sparing::Sparing;
use crate::target::stat_of;
use census::Census;
use exchanges::Exchanges;
use linerate_linux::network::{InetProtocol, InetSocket, Network};
use linerate_machine::Root;
use linerate_record::why::{RequestCounts, SocketKind};
use neighbours::Neighbours;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use table::Table;
use unix::UnixSockets;
use watched::{State, Watched, state_of};

/// Maximum number of descriptors to read, over all processes, when searching for peers.
const DESCRIPTORS_MAX: usize = 50_000;

/// Maximum number of TCP connections, and of UDP sockets, to read individually at the end of a
/// slice. If there are more, they are read in rotation. Reading a socket takes a few microseconds.
const PER_SLICE: usize = 32;

/// Maximum share of a CPU spent listing UDP sockets. In a network namespace with few sockets,
/// listing them takes about 1 ms, so it is done about 25 times in a window of 5 s.
const LISTING_SHARE: f64 = 0.005;

/// Maximum share of a CPU spent listing Unix domain sockets at the ends of slices.
const UNIX_LISTING_SHARE: f64 = 0.002;

/// Maximum share of a CPU spent reading the receive queues of other programs' UDP sockets.
const QUEUES_SHARE: f64 = 0.002;

/// Maximum share of a CPU spent listing TCP sockets within the window. The kernel walks a hash
/// table whose size depends on the installed memory: with 24 GiB, this takes 0.4 to 7 ms.
const TCP_LISTING_SHARE: f64 = 0.003;

/// Maximum share of a CPU spent searching the processes' descriptors for new sockets within the
/// window. With tens of thousands of connections, a search takes tens of ms.
const WALKING_SHARE: f64 = 0.005;

/// Number of slices between censuses of the namespace's connections. A connection that is accepted
/// between the search of the descriptors and the list of sockets looks like another program's, so
/// more frequent censuses would mistake more connections for other programs'.
const CENSUS_EVERY: u32 = 9;

/// Kinds of TCP sockets.
const TCP: &[SocketKind] = &[SocketKind::Tcp, SocketKind::TcpListen];

/// When a reading is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Start of the window.
    Start,
    /// End of a slice within the window.
    Within,
    /// End of the window.
    End,
}

/// The sockets of the watched processes.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// Owner of each open socket, by inode.
    owners: BTreeMap<u64, u32>,
    /// Other processes that have the same socket open, in the order in which they were found.
    sharers: BTreeMap<u64, Vec<u32>>,
    watched: Table,
    /// Whether all sockets are observed because the target is an interface, not a program.
    is_all: bool,
    names: BTreeMap<u32, String>,
    /// Other programs' UDP sockets in the namespace.
    pub(crate) neighbours: Neighbours,
    census: Census,
    /// Open sockets that have been looked up in the kernel's socket lists, whether found or not.
    listed: BTreeSet<u64>,
    /// Schedule for searching descriptors within the window.
    walking: Sparing,
    /// Schedule for listing UDP sockets at the ends of slices.
    listing: Sparing,
    /// Schedule for listing TCP sockets within the window.
    tcp_listing: Sparing,
    unix: UnixSockets,
    /// Descriptors that the processes have open.
    pub(crate) descriptors: Descriptors,
    unix_listing: Sparing,
    /// Readings of the receive queues of other programs' UDP sockets.
    queues: Sparing,
    /// Current slice number. Readings of different sockets are comparable if they have the same
    /// slice number.
    tick: u32,
    /// Slices in which all of the program's connections were searched for, including brief ones.
    looks: BTreeSet<u32>,
    exchanges: Exchanges,
    /// Slice of the last census.
    census_at: u32,
    /// Number of searches of the processes' descriptors.
    walks: u32,
    /// Number of times so far that a socket was found to be closed or was missing from a list.
    closed: u64,
    closed_at_walk: u64,
    /// Whether TCP sockets were read in rotation in this window, because there were too many to
    /// read all of them in each slice.
    is_in_rotation: bool,
}

impl Sockets {
    /// Observes the sockets of the processes passed to [`Sockets::look`], or all sockets.
    pub(crate) fn new(is_all: bool, network: Option<&Network>) -> Self {
        let links = network.and_then(|network| network.links().ok()).unwrap_or_default();
        let names = links.into_iter().map(|link| (link.index, link.name)).collect();
        Self {
            owners: BTreeMap::new(),
            sharers: BTreeMap::new(),
            watched: Table::default(),
            is_all,
            names,
            neighbours: Neighbours::default(),
            census: Census::default(),
            listed: BTreeSet::new(),
            walking: Sparing::new(WALKING_SHARE),
            listing: Sparing::new(LISTING_SHARE),
            tcp_listing: Sparing::new(TCP_LISTING_SHARE),
            unix: UnixSockets::default(),
            descriptors: Descriptors::default(),
            unix_listing: Sparing::new(UNIX_LISTING_SHARE),
            queues: Sparing::new(QUEUES_SHARE),
            tick: 0,
            looks: BTreeSet::new(),
            exchanges: Exchanges::default(),
            census_at: 0,
            walks: 0,
            closed: 0,
            closed_at_walk: 0,
            is_in_rotation: false,
        }
    }

    /// Finds and reads sockets. Counts are relative to the reading at the start of the window or,
    /// for sockets found later, to 0.
    pub(crate) fn look(
        &mut self,
        root: &Root,
        namespace: &Namespace,
        pids: &[u32],
        moment: Moment,
    ) {
        let is_start = moment == Moment::Start;
        let is_walk = moment != Moment::Within || self.walking.is_due();
        let is_unchanged =
            is_walk && moment == Moment::Within && self.has_same_descriptors(root, pids);
        if is_walk && !is_unchanged {
            self.walk(root, pids);
        }
        if self.owners.is_empty() && !self.is_all {
            if let Some(network) = namespace.network.as_ref().filter(|_| is_start) {
                self.find_neighbours(root, network);
            }
            return;
        }
        let is_new = self.is_all || self.owners.keys().any(|inode| !self.listed.contains(inode));
        // With a connection per request, there are new sockets at each search.
        let may_list =
            moment != Moment::Within || (self.listing.is_due() && self.unix_listing.is_due());
        let is_needed = may_list && (moment != Moment::Within || is_new);
        if is_needed && !self.is_all {
            self.list_unix(namespace);
        }
        if !is_needed && !self.has(SocketKind::Tcp) && !self.has(SocketKind::TcpListen) {
            return;
        }
        if moment == Moment::Within && !self.tcp_listing.is_due() {
            return;
        }
        if is_needed {
            self.listed.extend(self.owners.keys());
        }
        let Some(network) = &namespace.network else {
            self.take_tcp_listed(root, namespace, is_start);
            if is_needed {
                let began = self.listing.begin();
                self.take_listed(root, namespace, InetProtocol::Udp, is_start);
                self.listing.end(began);
                self.read_xdp(root, namespace, moment);
            }
            return;
        };
        let began = self.tcp_listing.begin();
        let tcp = listing::list(network, InetProtocol::Tcp);
        if tcp.is_some() {
            self.tcp_listing.end(began);
        }
        let is_changed = |(tcp, is_complete): &(Vec<InetSocket>, bool)| {
            self.has_accepted(tcp) || (*is_complete && self.lacks_connection(tcp))
        };
        if is_unchanged && tcp.as_ref().is_some_and(is_changed) {
            self.walk(root, pids);
        }
        match tcp {
            Some(tcp) => self.take_tcp(tcp, moment, is_walk),
            None => self.take_tcp_listed(root, namespace, is_start),
        }
        if is_needed {
            let began = self.listing.begin();
            self.read_udp(listing::list(network, InetProtocol::Udp), root, namespace, is_start);
            self.listing.end(began);
        }
        self.read_packet(network, is_start);
        if is_needed {
            self.read_xdp(root, namespace, moment);
        }
        if is_start && !self.is_all {
            self.neighbours.begin(root, DESCRIPTORS_MAX);
        }
    }

    /// Adds a reading of all TCP sockets, from a list that may be incomplete. `is_walk` is whether
    /// the descriptors have just been searched or are unchanged; otherwise, the owners of new
    /// connections are not known.
    fn take_tcp(
        &mut self,
        (mut tcp, is_complete): (Vec<InetSocket>, bool),
        moment: Moment,
        is_walk: bool,
    ) {
        let is_start = moment == Moment::Start;
        let is_census =
            moment != Moment::Within || self.tick.wrapping_sub(self.census_at) >= CENSUS_EVERY;
        if is_walk && is_census {
            let owners = &self.owners;
            self.census.take(&tcp, |inode| owners.contains_key(&inode), is_start);
            self.census_at = self.tick;
        }
        if is_walk && is_complete {
            self.looks.insert(self.tick);
        }
        // With many connections, read a few per slice in rotation. Reading all of them in one slice
        // would make their counts look like a burst.
        let listed = tcp.iter().map(|socket| u64::from(socket.inode)).collect();
        if moment == Moment::Within && tcp.len() > PER_SLICE {
            let is_known = |inode: u32| self.watched.contains_key(&u64::from(inode));
            tcp.retain(|socket| socket.is_listening || !is_known(socket.inode));
        }
        self.take_inet(tcp, is_start);
        if is_complete {
            TCP.iter().for_each(|kind| self.note_absent(*kind, &listed));
        }
    }

    /// Reads the link of each of the processes' descriptors. A socket of several processes belongs
    /// to the first process that is still observed.
    pub(crate) fn find_descriptors(&mut self, root: &Root, pids: &[u32]) {
        let observed: BTreeSet<u32> = pids.iter().copied().collect();
        self.sharers.clear();
        self.walks += 1;
        self.closed_at_walk = self.closed;
        for &pid in pids {
            let open = Open::of(root, pid);
            for &inode in &open.sockets {
                let owner = self.owners.entry(inode).or_insert_with(|| {
                    self.neighbours.leave_out(inode);
                    pid
                });
                if !observed.contains(owner) {
                    *owner = pid;
                }
                if *owner != pid {
                    self.sharers.entry(inode).or_default().push(pid);
                }
            }
            self.descriptors.take(root, pid, &open);
        }
    }

    /// Reads the known sockets.
    pub(crate) fn read(&mut self, root: &Root, namespace: &Namespace) {
        self.tick = self.tick.wrapping_add(1);
        let tick = self.tick;
        let has_udp = self.has(SocketKind::Udp);
        let Some(network) = &namespace.network else {
            if has_udp && self.listing.is_due() {
                let began = self.listing.begin();
                self.take_listed(root, namespace, InetProtocol::Udp, false);
                self.listing.end(began);
            }
            return;
        };
        let tcp = TCP.iter().flat_map(|kind| self.watched.of_kind(*kind));
        self.is_in_rotation |= tcp.filter(|one| one.has_turn()).nth(PER_SLICE).is_some();
        for inode in self.absent_of(network, TCP, tick) {
            let Some(watched) = self.watched.get_mut(&inode) else { continue };
            match watched.kind {
                SocketKind::Tcp => {
                    watched.is_closed = true;
                    self.closed += 1;
                }
                // Another socket listens on the same address (SO_REUSEPORT), or this one was
                // closed. Lists of all sockets show which, and are its only readings from now on.
                _ => watched.is_hidden = true,
            }
        }
        let mut is_hidden = self.has_unqueried_udp() || self.neighbours.needs_list();
        // Another socket has the same address (SO_REUSEPORT), or this one was closed.
        is_hidden |= !self.absent_of(network, &[SocketKind::Udp], tick).is_empty();
        if is_hidden && self.listing.is_due() {
            let began = self.listing.begin();
            self.read_udp(listing::list(network, InetProtocol::Udp), root, namespace, false);
            self.listing.end(began);
        }
        if self.has(SocketKind::Packet) {
            self.read_packet(network, false);
        }
        self.read_listed_xdp(network, false);
        if !self.unix.is_empty() && self.unix_listing.is_due() {
            self.list_unix(namespace);
        }
    }

    fn list_unix(&mut self, namespace: &Namespace) {
        let began = self.unix_listing.begin();
        if let Some(network) = &namespace.network {
            self.unix.read(network, |inode| self.owners.contains_key(&inode));
        }
        self.unix_listing.end(began);
    }

    /// Reads up to [`PER_SLICE`] open sockets of the given kinds, in rotation. Returns those that
    /// the kernel does not find at their addresses. If the query of a socket fails, it is left out.
    fn absent_of(&mut self, network: &Network, kinds: &[SocketKind], tick: u32) -> Vec<u64> {
        let is_wanted = |watched: &Watched| watched.has_turn() && watched.can_be_queried();
        let mut absent = self.watched.turn(kinds, PER_SLICE, is_wanted);
        absent.retain(|inode| {
            let known = self.watched.get(inode).and_then(|watched| watched.last.inet.as_ref());
            let found = known.map(|known| network.inet_socket(known));
            if let Some(Ok(Some(socket))) = &found {
                self.watched.read(*inode, state_of(socket), tick);
            }
            matches!(found, Some(Ok(None)))
        });
        absent
    }

    /// Returns the program's share of the TCP segments counted by the namespace.
    pub(crate) fn tcp_share(&self, segments: u64) -> Share {
        self.census.share(segments)
    }

    /// Returns the owner of each open socket, by inode.
    pub(crate) fn owners(&self) -> &BTreeMap<u64, u32> {
        &self.owners
    }

    /// Returns the TCP addresses on which processes listen, with the process and its name.
    pub(crate) fn listening_addresses(&self, root: &Root) -> Vec<(u32, String, SocketAddr)> {
        let listening = self.watched.with_inodes(SocketKind::TcpListen);
        let named = |(inode, watched): (u64, &Watched)| {
            let pid = *self.owners.get(&inode)?;
            let local = watched.last.inet.as_ref()?.local;
            Some((pid, stat_of(root, pid)?.name, local))
        };
        listening.filter_map(named).collect()
    }

    /// Returns whether a socket of this kind is observed.
    pub(crate) fn has(&self, kind: SocketKind) -> bool {
        self.watched.has(kind)
    }

    fn take_inet(&mut self, sockets: Vec<InetSocket>, is_start: bool) {
        // Sockets without an inode belong to no program: connections that no program has accepted
        // yet, or that a program has closed.
        for socket in sockets.into_iter().filter(|socket| socket.inode != 0) {
            let state = state_of(&socket);
            self.take_one(&socket, state, is_start);
        }
    }

    fn take_one(&mut self, socket: &InetSocket, state: State, is_start: bool) {
        let inode = u64::from(socket.inode);
        if !self.owners.contains_key(&inode) && !self.is_all {
            if socket.protocol == InetProtocol::Udp {
                let place = socket.remote.port().eq(&0).then_some(socket.local);
                self.neighbours.take(inode, self.walks, place);
            }
            return;
        }
        let tick = self.tick;
        let new = |state| Watched::new_inet(socket, state, is_start, tick);
        self.watched.take(inode, state, tick, new);
    }

    /// Returns the requests on the program's TCP connections over a window of `elapsed_s`. If none
    /// of the connections that the program accepted shows whether its client is waiting, the error
    /// is the number of these connections.
    pub(crate) fn requests(&self, elapsed_s: f64) -> Result<RequestCounts, u64> {
        let sockets = self.watched.values().filter(|_| !self.is_all);
        requests::requests(sockets, &self.looks, elapsed_s, self.is_in_rotation)
    }

    /// Returns how many connections the processes accepted on Unix domain sockets; `None` if these
    /// sockets could not be listed.
    pub(crate) fn unix_clients(&self) -> Option<u64> {
        self.unix.clients()
    }
}

/// Converts an IPv4-mapped IPv6 address to the IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
