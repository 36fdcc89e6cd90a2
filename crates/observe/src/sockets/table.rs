// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watched sockets, by inode. With ten thousand connections, a walk over all of them takes as
//! long as all other readings of a slice. Sockets are therefore indexed by kind, and traffic is
//! summed as it is read.

use super::watched::{State, Watched};
use linerate_record::why::SocketKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref};

/// A socket: its kind and inode.
type Key = (SocketKind, u64);

/// The watched sockets, by inode and by kind.
#[derive(Debug, Default)]
pub(super) struct Table {
    all: BTreeMap<u64, Watched>,
    /// All sockets, in the order of their kinds.
    by_kind: BTreeSet<Key>,
    /// Segments and bytes of all TCP connections since the window began.
    traffic: (u64, u64),
    /// Last socket that was read in rotation, by the first of the kinds in that rotation.
    turns: BTreeMap<SocketKind, Key>,
}

impl Deref for Table {
    type Target = BTreeMap<u64, Watched>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Table {
    /// Returns whether there is a socket of this kind.
    pub(super) fn has(&self, kind: SocketKind) -> bool {
        self.of_kind(kind).next().is_some()
    }

    /// Returns the sockets of a kind.
    pub(super) fn of_kind(&self, kind: SocketKind) -> impl Iterator<Item = &Watched> {
        self.with_inodes(kind).map(|(_, watched)| watched)
    }

    /// Returns the sockets of a kind, each with its inode.
    pub(super) fn with_inodes(&self, kind: SocketKind) -> impl Iterator<Item = (u64, &Watched)> {
        let keys = self.by_kind.range((kind, 0)..=(kind, u64::MAX));
        keys.filter_map(|(_, inode)| Some((*inode, self.all.get(inode)?)))
    }

    /// Adds a reading of a known socket.
    pub(super) fn read(&mut self, inode: u64, state: State, tick: u32) {
        let Some(watched) = self.all.get_mut(&inode) else { return };
        let before = traffic(watched);
        watched.take(state, tick);
        let now = traffic(watched);
        self.add(before, now);
    }

    /// Replaces, in the sum, a connection's traffic `before` with its traffic `now`.
    fn add(&mut self, before: (u64, u64), now: (u64, u64)) {
        let (segments, bytes) = self.traffic;
        self.traffic =
            (segments.saturating_sub(before.0) + now.0, bytes.saturating_sub(before.1) + now.1);
    }

    /// Adds a reading of a socket, or the socket that `new` returns if it is not known yet.
    pub(super) fn take(
        &mut self,
        inode: u64,
        state: State,
        tick: u32,
        new: impl FnOnce(State) -> Watched,
    ) {
        if self.all.contains_key(&inode) {
            return self.read(inode, state, tick);
        }
        let watched = new(state);
        self.add((0, 0), traffic(&watched));
        self.by_kind.insert((watched.kind, inode));
        self.all.insert(inode, watched);
    }

    /// Returns the segments and bytes of all TCP connections since the window began.
    pub(super) fn traffic(&self) -> (u64, u64) {
        self.traffic
    }

    /// Chooses, in rotation, up to `most` of the sockets of the given kinds that `is_wanted`
    /// selects. The kinds must be consecutive in the order of kinds.
    pub(super) fn turn(
        &mut self,
        kinds: &[SocketKind],
        most: usize,
        is_wanted: impl Fn(&Watched) -> bool,
    ) -> Vec<u64> {
        let [Some(&first), Some(&last)] = [kinds.first(), kinds.last()] else { return Vec::new() };
        let (begin, end) = ((first, 0), (last, u64::MAX));
        let place = self.turns.get(&first).copied().unwrap_or(begin);
        let rest = self.by_kind.range((Bound::Excluded(place), Bound::Included(end)));
        let keys = rest.chain(self.by_kind.range(begin..=place));
        let wanted = keys.filter(|(_, inode)| self.all.get(inode).is_some_and(&is_wanted));
        let chosen: Vec<Key> = wanted.take(most).copied().collect();
        self.turns.extend(chosen.last().map(|last| (first, *last)));
        chosen.into_iter().map(|(_, inode)| inode).collect()
    }

    pub(super) fn get_mut(&mut self, inode: &u64) -> Option<&mut Watched> {
        self.all.get_mut(inode)
    }

    #[cfg(test)]
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Watched> {
        self.all.values_mut()
    }

    /// Returns the sockets of a kind with their inodes.
    pub(super) fn of_kind_mut(
        &mut self,
        kind: SocketKind,
    ) -> impl Iterator<Item = (u64, &mut Watched)> {
        let all = self.all.iter_mut().filter(move |(_, watched)| watched.kind == kind);
        all.map(|(inode, watched)| (*inode, watched))
    }

    /// Forgets sockets that have been closed.
    pub(super) fn forget_closed(&mut self) {
        let all = &mut self.all;
        self.by_kind.retain(|(_, inode)| {
            let is_closed = all.get(inode).is_none_or(|watched| watched.is_closed);
            if is_closed {
                all.remove(inode);
            }
            !is_closed
        });
    }

    /// Begins the next window, starting from the last readings.
    pub(super) fn begin_window(&mut self) {
        self.all.values_mut().for_each(Watched::begin_window);
        self.traffic = (0, 0);
    }

    /// Begins the window with the last readings, which count as readings of the window.
    pub(super) fn begin_with_last(&mut self) {
        self.all.values_mut().for_each(Watched::begin_with_last);
        self.traffic = (0, 0);
    }
}

/// Returns the segments and bytes of a TCP connection; zero for other sockets.
fn traffic(watched: &Watched) -> (u64, u64) {
    if watched.kind == SocketKind::Tcp { watched.traffic() } else { (0, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(kind: SocketKind) -> impl FnOnce(State) -> Watched {
        move |state| Watched::new(kind, String::new(), None, state, false, 1)
    }

    fn state() -> State {
        State { receive_queue: 0, send_queue: 0, memory: None, drops: None, inet: None }
    }

    #[test]
    fn sockets_of_a_kind_take_turns() {
        let mut table = Table::default();
        for inode in 1..=5 {
            table.take(inode, state(), 1, watched(SocketKind::Tcp));
        }
        table.take(6, state(), 1, watched(SocketKind::Udp));
        table.take(7, state(), 1, watched(SocketKind::TcpListen));
        let tcp = [SocketKind::Tcp, SocketKind::TcpListen];
        let mut turn = |kinds: &[SocketKind], most| table.turn(kinds, most, Watched::has_turn);
        assert_eq!([turn(&tcp, 4), turn(&tcp, 4)], [[1, 2, 3, 4], [5, 7, 1, 2]]);
        assert_eq!(turn(&[SocketKind::Udp], 4), [6]);
        assert_eq!(turn(&tcp, 9), [3, 4, 5, 7, 1, 2]);
        table.get_mut(&4).expect("it is watched").is_closed = true;
        assert_eq!(table.turn(&tcp, 2, Watched::has_turn), [3, 5]);
        table.forget_closed();
        assert_eq!((table.len(), table.of_kind(SocketKind::Tcp).count()), (6, 4));
        assert!(table.has(SocketKind::Udp) && !table.has(SocketKind::Packet));
        assert_eq!(table.turn(&[SocketKind::Packet], 2, Watched::has_turn), [0; 0]);
    }
}
