// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unix domain sockets of the observed processes. The kernel counts no packets on them, but reports
//! what is queued, and names show which end is the server: sockets that it accepted have the name
//! of its listening socket; those of clients are unnamed.

use linerate_linux::network::{Network, UnixSocket};
use linerate_record::why::{SocketCounts, SocketKind};
use std::collections::BTreeMap;

/// Number of consecutive lists from which a socket must be missing to count as closed. The kernel
/// may leave out an open socket if others are closed while it writes a list.
const ABSENCES: u32 = 2;

/// The observed Unix domain sockets, by inode.
#[derive(Debug, Default)]
pub(super) struct UnixSockets {
    watched: BTreeMap<u64, Watched>,
    /// Whether the sockets could be listed.
    is_listed: bool,
}

#[derive(Debug)]
struct Watched {
    last: UnixSocket,
    /// Name of the server's socket if this is the client's end of a connection.
    server: Option<String>,
    /// Number of lists in a row in which the socket was missing.
    absences: u32,
    reads: u64,
    /// Bytes in the receive queue, summed over all readings.
    received: u64,
    /// Maximum number of bytes in the receive queue.
    received_max: u64,
    /// Number of readings with a non-empty receive queue.
    waited: u64,
    /// Bytes in the send queue, summed over all readings.
    sent: u64,
}

impl UnixSockets {
    /// Reads all sockets of the namespace. `is_owned` returns whether the socket with this inode is
    /// observed. Closed sockets keep their last readings.
    pub(super) fn read(&mut self, network: &Network, is_owned: impl Fn(u64) -> bool) {
        let Ok(sockets) = network.unix_sockets() else { return };
        self.is_listed = true;
        let names: BTreeMap<u32, &String> =
            sockets.iter().filter_map(|one| Some((one.inode, one.name.as_ref()?))).collect();
        self.watched.values_mut().for_each(|watched| watched.absences += 1);
        for socket in sockets.iter().filter(|socket| is_owned(socket.inode.into())) {
            let peer = socket.peer.and_then(|peer| names.get(&peer));
            let server = peer.filter(|_| socket.name.is_none()).map(|name| (*name).clone());
            let watched = self.watched.entry(socket.inode.into());
            watched.or_insert_with(|| Watched::new(socket)).take(socket, server);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Returns whether the socket with this inode is observed.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.watched.contains_key(&inode)
    }

    /// Describes a socket: `unix /run/server`, or `unix to /run/server` at the client's end.
    pub(super) fn describe(&self, inode: u64) -> Option<String> {
        let watched = self.watched.get(&inode)?;
        Some(match (&watched.server, &watched.last.name) {
            (Some(server), _) => format!("unix to {server}"),
            (None, Some(name)) => format!("unix {name}"),
            (None, None) => "unix".to_owned(),
        })
    }

    /// Returns the server's ends of the connections that the processes opened, by the inodes of
    /// their own ends.
    pub(super) fn servers(&self) -> impl Iterator<Item = (u64, u64)> {
        let opened = self.watched.iter().filter(|(_, watched)| watched.server.is_some());
        opened.filter_map(|(inode, watched)| Some((*inode, watched.last.peer?.into())))
    }

    /// Returns how many connections the processes accepted; `None` if the sockets could not be
    /// listed.
    pub(super) fn clients(&self) -> Option<u64> {
        let is_accepted = |watched: &&Watched| {
            let socket = &watched.last;
            !socket.is_listening && socket.name.is_some() && socket.peer.is_some()
        };
        self.is_listed.then(|| self.watched.values().filter(is_accepted).count() as u64)
    }

    /// Returns the counts of listening sockets, of connections to servers, and of sockets that had
    /// unread data, and begins the next window.
    pub(super) fn finish(
        &mut self,
        owners: &BTreeMap<u64, u32>,
        peers: &BTreeMap<u64, u32>,
    ) -> Vec<SocketCounts> {
        let counts = |(inode, watched): (&u64, &Watched)| {
            let pid = owners.get(inode).copied().unwrap_or(0);
            watched.counts(*inode, pid, peers.get(inode).copied())
        };
        let is_shown = |watched: &Watched| {
            watched.last.is_listening || watched.server.is_some() || watched.received_max > 0
        };
        let found = self.watched.iter().filter(|(_, watched)| is_shown(watched)).map(counts);
        let found = found.collect();
        self.watched
            .retain(|inode, watched| owners.contains_key(inode) && watched.absences < ABSENCES);
        for watched in self.watched.values_mut() {
            *watched = Watched {
                server: watched.server.take(),
                absences: watched.absences,
                ..Watched::new(&watched.last)
            };
        }
        found
    }
}

impl Watched {
    fn new(socket: &UnixSocket) -> Self {
        Self {
            last: socket.clone(),
            server: None,
            absences: 0,
            reads: 0,
            received: 0,
            received_max: 0,
            waited: 0,
            sent: 0,
        }
    }

    fn take(&mut self, socket: &UnixSocket, server: Option<String>) {
        self.reads += 1;
        self.absences = 0;
        self.received += u64::from(socket.receive_queue);
        self.received_max = self.received_max.max(socket.receive_queue.into());
        self.waited += u64::from(socket.receive_queue > 0);
        self.sent += u64::from(socket.send_queue);
        self.server = server.or(self.server.take());
        self.last = socket.clone();
    }

    fn counts(&self, inode: u64, pid: u32, peer_pid: Option<u32>) -> SocketCounts {
        let mean = |sum: u64| sum as f64 / self.reads.max(1) as f64;
        let is_listening = self.last.is_listening;
        SocketCounts {
            kind: if is_listening { SocketKind::UnixListen } else { SocketKind::Unix },
            inode,
            pid,
            local: self.last.name.clone().unwrap_or_else(|| "unnamed".to_owned()),
            remote: self.server.clone(),
            peer_pid,
            reads: Some(self.reads),
            receive_queue_mean: mean(self.received),
            receive_queue_max: self.received_max,
            receive_queue_share: Some(mean(self.waited)),
            receive_buffer: None,
            send_queue_mean: mean(self.sent),
            send_buffer: None,
            drops: None,
            port_sharers: None,
            tcp: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(socket: &impl AsRawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        crate::sleep::socket_inode(link.to_str().unwrap()).unwrap()
    }

    #[test]
    fn the_ends_of_a_connection_are_distinguished_and_its_queue_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(b"12345").unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        let Ok(network) = Network::own() else {
            eprintln!("SKIP: no netlink");
            return;
        };
        let owners: BTreeMap<u64, u32> =
            [inode(&listener), inode(&server), inode(&client)].map(|inode| (inode, 7)).into();
        let mut sockets = UnixSockets::default();
        assert_eq!(sockets.clients(), None);
        sockets.read(&network, |inode| owners.contains_key(&inode));
        if sockets.is_empty() {
            eprintln!("SKIP: Unix domain sockets are not listed here");
            return;
        }
        let path = path.display();
        assert_eq!(sockets.describe(inode(&server)), Some(format!("unix {path}")));
        assert_eq!(sockets.describe(inode(&client)), Some(format!("unix to {path}")));
        assert_eq!(sockets.servers().collect::<Vec<_>>(), [(inode(&client), inode(&server))]);
        assert_eq!(sockets.clients(), Some(1));
        let found = sockets.finish(&owners, &BTreeMap::from([(inode(&client), 9)]));
        let of = |inode: u64| found.iter().find(|one| one.inode == inode).unwrap();
        assert_eq!(of(inode(&listener)).kind, SocketKind::UnixListen);
        assert_eq!(of(inode(&listener)).receive_queue_mean, 1.0);
        assert_eq!(of(inode(&server)).receive_queue_mean, 5.0);
        assert_eq!((of(inode(&client)).peer_pid, of(inode(&client)).pid), (Some(9), 7));
        // The next window begins without readings.
        assert_eq!(sockets.finish(&owners, &BTreeMap::new())[0].reads, Some(0));
        // Closed sockets are forgotten, even if they are not known to have lost their owner.
        let closed = inode(&client);
        drop(client);
        for _ in 0..ABSENCES {
            assert!(sockets.has(closed));
            sockets.read(&network, |inode| owners.contains_key(&inode));
            sockets.finish(&owners, &BTreeMap::new());
        }
        assert!(!sockets.has(closed) && sockets.has(inode(&server)));
    }
}
