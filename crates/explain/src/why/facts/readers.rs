// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the threads that read a socket.

use super::super::waits::{Wait, time_in};
use super::Facts;
use linerate_record::why::{SocketCounts, SocketKind, ThreadActivity};

impl<'a> Facts<'a> {
    /// Returns the busiest of the threads that wait for a socket's packets; `None` if no such
    /// thread was seen, or if several sockets have the same address (SO_REUSEPORT), because the
    /// calls do not show which of these sockets a thread reads.
    pub(super) fn reader(&self, socket: &SocketCounts) -> Option<&'a ThreadActivity> {
        let same = self.observation.sockets.iter().filter(|other| other.local == socket.local);
        if same.count() != 1 {
            return None;
        }
        let is_of = |object: &str| object.split_once(' ').is_some_and(|(_, of)| of == socket.local);
        let reads = |thread: &&ThreadActivity| {
            let mut objects = thread.asleep_on.iter().filter_map(|sleep| sleep.object.as_deref());
            thread.pid == socket.pid && objects.any(is_of)
        };
        let readers = self.observation.threads.iter().filter(reads);
        readers.max_by(|a, b| a.demand().total_cmp(&b.demand()).then(b.tid.cmp(&a.tid)))
    }

    /// Returns whether packets are read from a full packet socket: it dropped fewer than its
    /// interface received, and its queue changed between readings. The queue of a socket that is
    /// not being read stays the same.
    pub(super) fn is_read_but_full(&self, socket: &SocketCounts) -> bool {
        /// Minimum fraction of packets read, above the skew between both counters.
        const READ: f64 = 0.02;
        /// Minimum fill level.
        const FULL: f64 = 0.9;
        let mut interfaces = self.observation.interfaces.iter();
        let Some(interface) = interfaces.find(|one| one.name == socket.local) else { return false };
        let [Some(drops), Some(buffer)] = [socket.drops, socket.receive_buffer] else {
            return false;
        };
        let queue = socket.receive_queue_mean;
        (1.0..interface.rx_packets as f64 * (1.0 - READ)).contains(&(drops as f64))
            && queue >= FULL * buffer as f64
            && queue < socket.receive_queue_max as f64
    }

    /// Returns whether other threads, which sleep when they have no input, handle most packets,
    /// while this thread never waits for input and is not one of several that each read a socket.
    pub(in super::super) fn others_handle_packets(&self, thread: &ThreadActivity) -> bool {
        /// Minimum fraction of time waiting for input.
        const WAITS: f64 = 0.3;
        /// Minimum CPU demand of the other threads together, in CPUs.
        const WORKS: f64 = 0.05;
        /// Minimum number of sleeps of the other threads per packet. A thread that answers each
        /// request by itself sleeps 0.5 times per packet, as requests and replies both count.
        const PER_PACKET: f64 = 0.2;
        let Some(packets) = self.packets().filter(|packets| *packets > 0) else { return false };
        let is_twin = |other: &ThreadActivity| {
            other.pid == thread.pid && is_numbered_like(&other.name, &thread.name)
        };
        if time_in(thread, Wait::Input).is_some_and(|share| share > 0.0) {
            return false;
        }
        let waits = |share: Option<f64>| share.is_some_and(|share| share >= WAITS);
        let is_other =
            |other: &&ThreadActivity| other.tid != thread.tid && waits(time_in(other, Wait::Input));
        let others = || self.observation.threads.iter().filter(is_other);
        let demand: f64 = others().map(|one| self.part_of_window(one) * one.demand()).sum();
        let sleeps: u64 = others().map(|one| one.voluntary_switches).sum();
        if others().any(is_twin) && self.may_share_a_port(thread, packets) {
            return false;
        }
        demand >= WORKS && sleeps as f64 >= PER_PACKET * packets as f64
    }

    /// Returns whether a thread may read a socket of its own whose address other threads share
    /// (SO_REUSEPORT, PACKET_FANOUT): the process has several sockets with the same address, and
    /// the thread makes enough system calls to read one, unless its calls were not counted or the
    /// sockets are memory-mapped.
    fn may_share_a_port(&self, thread: &ThreadActivity, packets: u64) -> bool {
        /// Minimum number of system calls per packet of all threads.
        const CALLS: f64 = 0.1;
        let is_own = |socket: &&SocketCounts| socket.pid == thread.pid;
        let own = || self.observation.sockets.iter().filter(is_own);
        let shares = |kind| {
            let mut of_kind = own().filter(move |one| one.kind == kind);
            of_kind.any(|one| {
                own().filter(|same| same.kind == kind && same.local == one.local).count() > 1
            })
        };
        let calls = || thread.system_calls.is_none_or(|n| n as f64 >= CALLS * packets as f64);
        shares(SocketKind::Packet) || shares(SocketKind::Udp) && calls()
    }
}

/// Returns whether two names of threads are equal except for their numbers.
fn is_numbered_like(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    letters(one) == letters(other)
}
