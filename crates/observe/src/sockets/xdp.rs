// SPDX-License-Identifier: MIT OR Apache-2.0
//! XDP sockets, which pass frames to programs through rings in shared memory.

use super::watched::{State, Watched};
use super::{Moment, Namespace, Sockets};
use crate::sleep::socket_inode;
use linerate_linux::network::{Network, XdpSocket};
use linerate_machine::Root;
use linerate_record::why::SocketKind;
use std::collections::BTreeSet;

/// Offset of the transmit ring in the mapping of an XDP socket (XDP_PGOFF_TX_RING). The offsets of
/// the rings for its buffers are higher; other sockets are mapped at 0.
const TRANSMIT_RING: u64 = 0x8000_0000;

impl Sockets {
    /// Adds a reading of the XDP sockets. A kernel without the module `xdp_diag` does not list
    /// them. The processes' sockets are then found in their memory mappings, without interface and
    /// drops. Reading the mappings delays a process that maps memory, so they are read only at the
    /// ends of the window.
    pub(super) fn read_xdp(&mut self, root: &Root, namespace: &Namespace, moment: Moment) {
        if !has_xdp(&root.text(&namespace.file("protocols")).unwrap_or_default()) {
            return;
        }
        let listed = namespace.network.as_ref().and_then(|network| network.xdp_sockets().ok());
        let sockets = listed.filter(|listed| !listed.is_empty());
        let sockets = match sockets {
            Some(sockets) => sockets,
            None if moment == Moment::Within => return,
            None => self.mapped(root),
        };
        self.take_xdp(sockets, moment == Moment::Start);
    }

    /// Adds a reading of the known XDP sockets, if the kernel lists them.
    pub(super) fn read_listed_xdp(&mut self, network: &Network, is_start: bool) {
        if self.has(SocketKind::Xdp)
            && let Ok(sockets) = network.xdp_sockets()
        {
            self.take_xdp(sockets, is_start);
        }
    }

    /// Returns the sockets that the processes have mapped, and that are in no list.
    fn mapped(&self, root: &Root) -> Vec<XdpSocket> {
        let is_unlisted = |inode: &u64| {
            self.watched.get(inode).is_none_or(|one| one.kind == SocketKind::Xdp)
                && !self.unix.has(*inode)
        };
        let unlisted = self.owners.iter().filter(|(inode, _)| is_unlisted(inode));
        let pids: BTreeSet<u32> = unlisted.map(|(_, pid)| *pid).collect();
        let maps = pids.iter().filter_map(|pid| root.text(&format!("proc/{pid}/maps")));
        let inodes = maps.flat_map(|maps| with_xdp_rings(&maps));
        let inodes = inodes.filter(|inode| self.owners.contains_key(inode) && is_unlisted(inode));
        let numbers = inodes.filter_map(|inode| u32::try_from(inode).ok());
        numbers.map(|inode| XdpSocket { inode, interface: None, drops: None }).collect()
    }

    fn take_xdp(&mut self, sockets: Vec<XdpSocket>, is_start: bool) {
        for socket in sockets {
            let inode = u64::from(socket.inode);
            if !self.owners.contains_key(&inode) && !self.is_all {
                continue;
            }
            // Like those of other sockets, the drops are the difference of two 32-bit counts.
            let drops = socket.drops.map(|drops| drops as u32);
            let state = State { receive_queue: 0, send_queue: 0, memory: None, drops, inet: None };
            let tick = self.tick;
            let names = &self.names;
            self.watched.take(inode, state, tick, |state| {
                let name = socket.interface.and_then(|index| names.get(&index));
                let local = name.map_or_else(|| "unknown interface".to_owned(), Clone::clone);
                Watched::new(SocketKind::Xdp, local, None, state, is_start, tick)
            });
        }
    }
}

/// Returns whether a network namespace has XDP sockets, by its /proc/net/protocols.
fn has_xdp(protocols: &str) -> bool {
    let sockets = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let count: u64 = words.nth(1)?.parse().ok()?;
        Some((name == "XDP", count))
    };
    protocols.lines().filter_map(sockets).any(|(is_xdp, count)| is_xdp && count > 0)
}

/// Returns the inodes of all sockets mapped in a process, by its /proc/PID/maps, if rings of an XDP
/// socket are among them; empty otherwise.
fn with_xdp_rings(maps: &str) -> BTreeSet<u64> {
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let offset = u64::from_str_radix(words.nth(2)?, 16).ok()?;
        Some((offset, socket_inode(words.nth(2)?)?))
    };
    let mapped: Vec<(u64, u64)> = maps.lines().filter_map(mapping).collect();
    let has_rings = mapped.iter().any(|(offset, _)| *offset >= TRANSMIT_RING);
    mapped.into_iter().filter(|_| has_rings).map(|(_, inode)| inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::why::SocketCounts;
    use std::collections::BTreeMap;

    const PROTOCOLS: &str = "protocol  size sockets  memory press maxhdr  slab module\n\
        XDP       1088      2      -1   NI       0   no   kernel\n\
        NETLINK   1096      2      -1   NI       0   no   kernel\n";
    const MAPS: &str = "\
        7f0000000000-7f0000004000 rw-s 180000000 00:08 55      socket:[55]\n\
        7f0000004000-7f0000008000 rw-s 00000000 00:08 55       socket:[55]\n\
        7f0000008000-7f000000a000 rw-p 00000000 00:00 0 \n\
        7f000000a000-7f000000c000 r-xp 00001000 fe:00 1234     /usr/lib/libc.so.6\n";

    #[test]
    fn rings_in_memory_show_xdp_sockets() {
        assert!(has_xdp(PROTOCOLS));
        assert!(!has_xdp(
            &PROTOCOLS.replace("   2      -1   NI       0   no   kernel\nN", "   0 \nN")
        ));
        assert!(!has_xdp(""));
        assert_eq!(with_xdp_rings(MAPS), BTreeSet::from([55]));
        // A packet socket's ring, or a TCP connection that receives without copies.
        assert!(with_xdp_rings(&MAPS.replace("180000000", "00000000")).is_empty());
    }

    #[test]
    fn the_programs_xdp_sockets_are_found() {
        let place = tempfile::tempdir().unwrap();
        let process = place.path().join("proc/7");
        std::fs::create_dir_all(process.join("net")).unwrap();
        std::fs::write(process.join("net/protocols"), PROTOCOLS).unwrap();
        std::fs::write(process.join("maps"), MAPS).unwrap();
        let root = Root::new(place.path());
        let namespace = Namespace::of(&root, Some(7), &mut Vec::new());
        let mut sockets = Sockets::new(false, None);
        sockets.owners.extend([(55, 7), (56, 7)]);
        for moment in [Moment::Start, Moment::Within, Moment::End] {
            sockets.read_xdp(&root, &namespace, moment);
        }
        let found = sockets.finish(&root, &BTreeMap::new());
        let of = |one: &SocketCounts| (one.kind, one.inode, one.drops, one.reads);
        let found: Vec<_> = found.iter().map(of).collect();
        assert_eq!(found, [(SocketKind::Xdp, 55, None, Some(2))]);
    }

    #[test]
    fn drops_are_those_of_the_window() {
        let mut sockets = Sockets::new(false, None);
        sockets.owners.insert(55, 7);
        sockets.names.insert(3, "v2".to_owned());
        let at = |drops| XdpSocket { inode: 55, interface: Some(3), drops: Some(drops) };
        let others = XdpSocket { inode: 99, ..at(0) };
        sockets.take_xdp(vec![at(1 << 32), others], true);
        sockets.take_xdp(vec![at((1 << 32) + 5), others], false);
        let place = tempfile::tempdir().unwrap();
        let found = sockets.finish(&Root::new(place.path()), &BTreeMap::new());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].local.as_str(), found[0].drops), ("v2", Some(5)));
    }
}
