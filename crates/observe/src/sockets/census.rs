// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines who owns the TCP connections in a network namespace. Connections that begin and end
//! between two reads appear only in the namespace's counters, which cover all of its processes.

use super::canonical;
use linerate_linux::network::InetSocket;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Local and remote address of a connection.
type Addresses = (SocketAddr, SocketAddr);

/// TCP connections of other processes that were open during at least one read.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Segments at the first and last read; the first value is 0 for connections that began later.
    /// The key is the addresses, because a connection has no inode before it is accepted and after
    /// it is closed.
    others: BTreeMap<Addresses, (u64, u64)>,
    /// Connections at the last read.
    listed: BTreeSet<Addresses>,
    /// Whether the watched processes have connections with other processes in this namespace, in
    /// which case each segment is counted at both ends.
    has_peers: bool,
    /// Whether other processes opened connections among themselves or to other machines during the
    /// window.
    has_strangers: bool,
}

/// The program's share of the namespace's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All segments belong to the observed processes.
    All,
    /// The program is at one end of every connection, and segments are counted at both ends.
    Half,
    /// The program's segments cannot be distinguished from other processes'.
    Unknown,
}

impl Census {
    /// Records the connections in a list of all TCP sockets in the namespace. `is_owned` returns
    /// whether the socket with this inode is observed.
    pub(super) fn take(
        &mut self,
        sockets: &[InetSocket],
        is_owned: impl Fn(u64) -> bool,
        is_start: bool,
    ) {
        let addresses = |socket: &InetSocket| (canonical(socket.local), canonical(socket.remote));
        self.listed = sockets.iter().map(addresses).collect();
        let is_ours = |socket: &&InetSocket| is_owned(u64::from(socket.inode));
        let ours = || sockets.iter().filter(is_ours);
        let remotes: BTreeSet<SocketAddr> = ours().map(|s| canonical(s.remote)).collect();
        let ports: BTreeSet<u16> =
            ours().filter(|s| s.is_listening).map(|s| s.local.port()).collect();
        // The kernel connects to an address of this namespace from that address, unless the client
        // binds another one.
        let here: BTreeSet<IpAddr> = sockets.iter().map(|s| canonical(s.local).ip()).collect();
        let is_here = |ip: IpAddr| ip.is_loopback() || here.contains(&ip);
        for socket in sockets.iter().filter(|socket| !is_ours(socket) && !socket.is_listening) {
            let (local, remote) = addresses(socket);
            // Not accepted yet, or already closed by the program but still on its port.
            if socket.inode == 0 && ports.contains(&local.port()) {
                continue;
            }
            let is_to_us = ports.contains(&remote.port()) && is_here(remote.ip());
            if remotes.contains(&local) || is_to_us {
                self.has_peers = true;
                continue;
            }
            let Some(tcp) = socket.tcp else { continue };
            let now = u64::from(tcp.segments_in) + u64::from(tcp.segments_out);
            // Counters that went backwards belong to a new connection between the same addresses.
            let before = self.others.get(&(local, remote));
            let is_new = before.is_none_or(|(_, before)| now < *before);
            self.has_strangers |= is_new && !is_start;
            let seen = (if is_start { now } else { 0 }, now);
            self.others.entry((local, remote)).or_insert(seen).1 = now;
        }
    }

    /// Begins the next window, starting from the last readings.
    pub(super) fn begin_window(&mut self) {
        self.has_strangers = false;
        self.others.retain(|addresses, _| self.listed.contains(addresses));
        self.others.values_mut().for_each(|(first, last)| *first = *last);
    }

    /// Returns the program's share of the `segments` that the namespace counted.
    pub(super) fn share(&self, segments: u64) -> Share {
        let others: u64 =
            self.others.values().map(|(first, last)| last.saturating_sub(*first)).sum();
        match (self.has_strangers || others > segments / 20, self.has_peers) {
            (true, _) => Share::Unknown,
            (false, true) => Share::Half,
            (false, false) => Share::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_linux::network::{InetProtocol, Listed, TcpInfo};

    fn socket(inode: u32, local: &str, remote: &str, segments_in: u32) -> InetSocket {
        let listed = Listed {
            protocol: InetProtocol::Tcp,
            is_listening: remote.is_empty(),
            local: local.parse().expect("an address"),
            remote: if remote.is_empty() { "0.0.0.0:0" } else { remote }.parse().expect("address"),
            inode,
            receive_queue: 0,
            send_queue: 0,
        };
        let mut socket = InetSocket::of_listed(listed);
        socket.tcp = Some(TcpInfo { segments_in, ..TcpInfo::default() });
        socket
    }

    /// Returns the program's share for a server on port 80 with inode 1 and other sockets, all read
    /// twice.
    fn share(first: &[InetSocket], second: &[InetSocket]) -> Share {
        let mut census = Census::default();
        for (sockets, is_start) in [(first, true), (second, false)] {
            let server = socket(1, "0.0.0.0:80", "", 0);
            let sockets: Vec<_> = sockets.iter().cloned().chain([server]).collect();
            census.take(&sockets, |inode| inode == 1 || inode == 2, is_start);
        }
        census.share(1000)
    }

    #[test]
    fn all_segments_are_the_programs_if_no_other_program_connects() {
        let own = socket(2, "10.0.0.1:80", "10.0.0.9:4000", 50);
        assert_eq!(share(&[], std::slice::from_ref(&own)), Share::All);
        // An old, quiet connection of another program, such as a shell.
        let quiet = |n| socket(5, "10.0.0.1:22", "10.0.0.9:4001", n);
        assert_eq!(share(&[quiet(900)], &[quiet(910), own.clone()]), Share::All);
        assert_eq!(share(&[quiet(900)], &[quiet(990), own.clone()]), Share::Unknown);
        assert_eq!(share(&[], &[quiet(1), own]), Share::Unknown);
    }

    #[test]
    fn clients_of_the_same_namespace_are_the_other_end() {
        let client = socket(7, "127.0.0.1:4000", "127.0.0.1:80", 9);
        assert_eq!(share(&[], &[client]), Share::Half);
        let by_address = socket(7, "10.0.0.1:4000", "10.0.0.1:80", 9);
        assert_eq!(share(&[], &[by_address]), Share::Half);
        let closed = socket(0, "127.0.0.1:80", "127.0.0.1:4000", 9);
        assert_eq!(share(&[], &[closed]), Share::All);
    }

    #[test]
    fn connections_without_an_inode_differ_in_their_addresses() {
        let own = socket(2, "10.0.0.1:80", "10.0.0.9:4000", 50);
        let of_port =
            |inode, port: u16, n| socket(inode, &format!("10.0.0.1:{port}"), "10.0.0.9:4001", n);
        // One connection with few segments follows another with many.
        let closing = |port, n| of_port(0, port, n);
        let both = [closing(22, 900), closing(23, 5)];
        assert_eq!(share(&both, &[both[1].clone(), both[0].clone(), own.clone()]), Share::All);
        assert_eq!(share(&[], &[closing(22, 1), own.clone()]), Share::Unknown);
        assert_eq!(share(&[closing(22, 9)], &[closing(23, 9), own.clone()]), Share::Unknown);
        // It has been closed since the first read.
        assert_eq!(share(&[of_port(5, 22, 900)], &[closing(22, 910), own]), Share::All);
    }

    #[test]
    fn a_connection_to_the_same_port_of_another_host_is_not_the_other_end() {
        let download = |n| socket(7, "10.0.0.1:4000", "192.0.2.1:80", n);
        let own = socket(2, "10.0.0.1:80", "10.0.0.9:4000", 50);
        assert_eq!(share(&[download(0)], &[download(900), own]), Share::Unknown);
    }
}
