// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets of the watched processes.
//!
//! All of the namespace are read at both ends of the window and a few times in between, to find new
//! ones; those known, at the end of each slice. Sockets that were closed keep what was read last.

use crate::sleep::socket_inode;
use crate::target::all_pids;
use linerate_linux::network::{InetProtocol, InetSocket, Network, PacketSocket, SocketMemory};
use linerate_machine::Root;
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Descriptors that are read of all processes together when peers are looked for.
const DESCRIPTORS_MAX: usize = 50_000;

/// TCP connections that are read at the end of each slice, one by one.
const FOLLOWED_MAX: usize = 128;

/// What is read of any socket.
#[derive(Clone, Debug)]
struct State {
    receive_queue: u64,
    send_queue: u64,
    memory: Option<SocketMemory>,
    inet: Option<InetSocket>,
}

/// A socket that is watched.
#[derive(Debug)]
struct Watched {
    kind: SocketKind,
    local: String,
    remote: Option<String>,
    ring_bytes: Option<u64>,
    /// Index of the interface, of a packet socket.
    interface: u32,
    first: Option<State>,
    last: State,
    is_closed: bool,
    reads: u64,
    receive_queue: u64,
    receive_queue_max: u64,
    send_queue: u64,
    app_limited: u64,
}

/// The sockets of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Who has a socket open, by inode.
    owners: BTreeMap<u64, u32>,
    watched: BTreeMap<u64, Watched>,
    /// Without a program all sockets are watched.
    is_all: bool,
    names: BTreeMap<u32, String>,
    /// Whether all UDP sockets of the namespace are watched ones.
    pub(crate) has_all_udp: bool,
}

impl Sockets {
    /// Watches those of the processes that [`Sockets::look`] is told of, or all.
    pub(crate) fn new(is_all: bool, network: Option<&Network>) -> Self {
        let links = network.and_then(|network| network.links().ok()).unwrap_or_default();
        let names = links.into_iter().map(|link| (link.index, link.name)).collect();
        Self { is_all, names, has_all_udp: true, ..Self::default() }
    }

    /// Finds sockets, and reads them. At the start of the window, `is_start`, their counters are
    /// what differences are taken from; those found later began with 0.
    pub(crate) fn look(&mut self, root: &Root, network: &Network, pids: &[u32], is_start: bool) {
        for &pid in pids {
            for inode in socket_inodes(root, pid) {
                self.owners.entry(inode).or_insert(pid);
            }
        }
        if self.owners.is_empty() && !self.is_all {
            return;
        }
        for protocol in [InetProtocol::Tcp, InetProtocol::Udp] {
            self.take_inet(dump(network, protocol), is_start);
        }
        self.take_packet(network.packet_sockets().unwrap_or_default(), is_start);
    }

    /// Reads the known sockets.
    pub(crate) fn read(&mut self, network: &Network) {
        let is_tcp = |watched: &&mut Watched| {
            !watched.is_closed && matches!(watched.kind, SocketKind::Tcp | SocketKind::TcpListen)
        };
        for watched in self.watched.values_mut().filter(is_tcp).take(FOLLOWED_MAX) {
            let Some(seen) = &watched.last.inet else { continue };
            match network.inet_socket(seen) {
                Ok(Some(socket)) => watched.take(state_of(&socket), socket.tcp.is_some()),
                Ok(None) => watched.is_closed = true,
                Err(_) => {}
            }
        }
        if self.has(SocketKind::Udp) {
            self.take_inet(dump(network, InetProtocol::Udp), false);
        }
        if self.has(SocketKind::Packet) {
            self.take_packet(network.packet_sockets().unwrap_or_default(), false);
        }
    }

    /// Who has a socket open, by inode.
    pub(crate) fn owners(&self) -> &BTreeMap<u64, u32> {
        &self.owners
    }

    /// Whether one of this kind is watched.
    pub(crate) fn has(&self, kind: SocketKind) -> bool {
        self.watched.values().any(|watched| watched.kind == kind)
    }

    /// Segments that its TCP connections received and sent in the window until now.
    pub(crate) fn segments(&self) -> u64 {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        tcp.map(|watched| watched.tcp()).map(|tcp| tcp.segments_in + tcp.segments_out).sum()
    }

    /// Bytes that its TCP connections received and had acknowledged in the window until now.
    pub(crate) fn tcp_bytes(&self) -> u64 {
        let tcp = self.watched.values().filter(|watched| watched.kind == SocketKind::Tcp);
        tcp.map(|watched| watched.tcp()).map(|tcp| tcp.bytes_received + tcp.bytes_acked).sum()
    }

    /// The interfaces that its packet sockets are bound to.
    pub(crate) fn packet_interfaces(&self) -> BTreeSet<u32> {
        let packet = self.watched.values().filter(|watched| watched.kind == SocketKind::Packet);
        packet.map(|watched| watched.interface).filter(|index| *index != 0).collect()
    }

    /// Their names.
    pub(crate) fn packet_interface_names(&self) -> Vec<&str> {
        let indices = self.packet_interfaces();
        indices.iter().filter_map(|index| self.names.get(index).map(String::as_str)).collect()
    }

    /// A socket in words: `udp 0.0.0.0:53`.
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
            let inode = u64::from(socket.inode);
            if !self.owners.contains_key(&inode) && !self.is_all {
                self.has_all_udp &= socket.protocol != InetProtocol::Udp;
                continue;
            }
            let state = state_of(&socket);
            match self.watched.get_mut(&inode) {
                Some(watched) => watched.take(state, socket.tcp.is_some()),
                None => {
                    let watched = Watched::new_inet(&socket, state, is_start);
                    self.watched.insert(inode, watched);
                }
            }
        }
    }

    fn take_packet(&mut self, sockets: Vec<PacketSocket>, is_start: bool) {
        for socket in sockets {
            let inode = u64::from(socket.inode);
            if !self.owners.contains_key(&inode) && !self.is_all {
                continue;
            }
            let state =
                State { receive_queue: 0, send_queue: 0, memory: socket.memory, inet: None };
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

    /// The differences over the window. Of all sockets of a namespace, those with losses.
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
                tcp.segments_in + tcp.segments_out > 0 || watched.receive_queue_max > 0
            }
            _ => true,
        };
        self.watched.iter().filter(|(_, watched)| moved(watched)).map(counts).collect()
    }

    /// The processes at the other end of connections within this machine, by inode of this end.
    fn peers(&self, root: &Root, network: Option<&Network>) -> BTreeMap<u64, u32> {
        let Some(network) = network.filter(|_| self.has(SocketKind::Tcp)) else {
            return BTreeMap::new();
        };
        let pair = |socket: &InetSocket| (canonical(socket.local), canonical(socket.remote));
        let ends: BTreeMap<(SocketAddr, SocketAddr), u64> = dump(network, InetProtocol::Tcp)
            .iter()
            .map(|socket| (pair(socket), u64::from(socket.inode)))
            .collect();
        let other_end = |(inode, watched): (&u64, &Watched)| {
            let (local, remote) = pair(watched.last.inet.as_ref()?);
            Some((*inode, *ends.get(&(remote, local))?))
        };
        let tcp = self.watched.iter().filter(|(_, watched)| watched.kind == SocketKind::Tcp);
        let others: BTreeMap<u64, u64> = tcp.filter_map(other_end).collect();
        if others.is_empty() {
            return BTreeMap::new();
        }
        let wanted = others.values().copied().collect();
        let owners = owners_of(root, &wanted, DESCRIPTORS_MAX);
        let known = |(inode, other): (u64, u64)| Some((inode, *owners.get(&other)?));
        others.into_iter().filter_map(known).collect()
    }
}

/// An IPv4 address in IPv6 clothes is the same address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn dump(network: &Network, protocol: InetProtocol) -> Vec<InetSocket> {
    let of_family = |is_v6| network.inet_sockets(protocol, is_v6).unwrap_or_default();
    let mut sockets = of_family(false);
    sockets.extend(of_family(true));
    sockets
}

fn state_of(socket: &InetSocket) -> State {
    State {
        receive_queue: socket.receive_queue.into(),
        send_queue: socket.send_queue.into(),
        memory: socket.memory,
        inet: Some(socket.clone()),
    }
}

/// The inodes of a process's sockets.
fn socket_inodes(root: &Root, pid: u32) -> impl Iterator<Item = u64> {
    let entries = std::fs::read_dir(root.path(&format!("proc/{pid}/fd")));
    entries.into_iter().flatten().flatten().filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        socket_inode(link.to_str()?)
    })
}

/// The processes that have `wanted` sockets open, as far as they may be read.
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

impl Watched {
    fn new_inet(socket: &InetSocket, state: State, is_start: bool) -> Self {
        let kind = match (socket.protocol, socket.is_listening) {
            (InetProtocol::Tcp, false) => SocketKind::Tcp,
            (InetProtocol::Tcp, true) => SocketKind::TcpListen,
            (InetProtocol::Udp, _) => SocketKind::Udp,
        };
        let remote = (socket.remote.port() != 0).then(|| canonical(socket.remote).to_string());
        let local = canonical(socket.local).to_string();
        Self::new(kind, local, remote, state, is_start)
    }

    fn new_packet(socket: &PacketSocket, local: String, state: State, is_start: bool) -> Self {
        Self {
            ring_bytes: socket.receive_ring.map(|ring| ring.bytes()),
            interface: socket.interface,
            ..Self::new(SocketKind::Packet, local, None, state, is_start)
        }
    }

    fn new(
        kind: SocketKind,
        local: String,
        remote: Option<String>,
        state: State,
        is_start: bool,
    ) -> Self {
        let mut watched = Self {
            kind,
            local,
            remote,
            ring_bytes: None,
            interface: 0,
            first: is_start.then(|| state.clone()),
            last: state.clone(),
            is_closed: false,
            reads: 0,
            receive_queue: 0,
            receive_queue_max: 0,
            send_queue: 0,
            app_limited: 0,
        };
        let is_tcp = kind == SocketKind::Tcp;
        watched.take(state, is_tcp);
        watched
    }

    fn take(&mut self, state: State, is_tcp: bool) {
        self.reads += 1;
        self.receive_queue += state.receive_queue;
        self.receive_queue_max = self.receive_queue_max.max(state.receive_queue);
        self.send_queue += state.send_queue;
        let tcp = state.inet.as_ref().and_then(|socket| socket.tcp);
        self.app_limited += u64::from(is_tcp && tcp.is_some_and(|tcp| tcp.is_app_limited));
        self.last = state;
    }

    fn drops(&self) -> Option<u64> {
        let now = self.last.memory?.drops;
        let before = match &self.first {
            Some(first) => first.memory?.drops,
            None => 0,
        };
        Some(u64::from(now.wrapping_sub(before)))
    }

    /// What TCP counted; all zero where it says nothing.
    fn tcp(&self) -> TcpCounts {
        let of = |state: &State| state.inet.as_ref().and_then(|socket| socket.tcp);
        let Some(now) = of(&self.last) else { return TcpCounts::default() };
        let before = self.first.as_ref().and_then(of).unwrap_or_default();
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        let more = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        TcpCounts {
            bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
            bytes_acked: now.bytes_acked.saturating_sub(before.bytes_acked),
            segments_in: more(now.segments_in, before.segments_in),
            segments_out: more(now.segments_out, before.segments_out),
            retransmitted: more(now.retransmitted, before.retransmitted),
            busy_s: seconds(now.busy_us, before.busy_us),
            rwnd_limited_s: seconds(now.rwnd_limited_us, before.rwnd_limited_us),
            sndbuf_limited_s: seconds(now.sndbuf_limited_us, before.sndbuf_limited_us),
            app_limited_share: self.app_limited as f64 / self.reads.max(1) as f64,
            rtt_s: f64::from(now.rtt_us) / 1e6,
            cwnd: now.cwnd,
            mss: now.mss,
            delivery_bytes_per_s: now.delivery_rate as f64,
        }
    }

    fn counts(&self, inode: u64, pid: u32, peer: Option<&u32>) -> SocketCounts {
        let has_tcp = self.last.inet.as_ref().is_some_and(|socket| socket.tcp.is_some());
        let mean = |sum: u64| sum as f64 / self.reads.max(1) as f64;
        let memory = self.last.memory;
        SocketCounts {
            kind: self.kind,
            inode,
            pid,
            local: self.local.clone(),
            remote: self.remote.clone(),
            peer_pid: peer.copied(),
            receive_queue_mean: mean(self.receive_queue),
            receive_queue_max: self.receive_queue_max,
            receive_buffer: self.ring_bytes.or(memory.map(|memory| memory.receive_buffer.into())),
            send_queue_mean: mean(self.send_queue),
            send_buffer: memory.map(|memory| memory.send_buffer.into()),
            // A ring counts what it drops where only its program can read it.
            drops: self.drops().filter(|_| self.ring_bytes.is_none()),
            tcp: has_tcp.then(|| self.tcp()),
        }
    }
}

#[cfg(test)]
mod tests;
