// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets counted by the program's own system calls, where other programs share the counters of
//! its network namespace.

use crate::watching::Watching;
use linerate_machine::Root;
use linerate_record::why::{KernelEvent, PacketCount, SocketCounts, SocketKind, Unread};
use std::fs::File;
use std::io::Read;

/// Returns the datagrams that the program received, by its own system calls, if the count of its
/// network namespace could not be used.
pub(super) fn received(
    root: &Root,
    watching: &Watching,
    sockets: &[SocketCounts],
    events: &[KernelEvent],
    unread: &mut [Unread],
) -> Option<PacketCount> {
    let has_all = watching.sockets.owners().len() <= sockets.len();
    let is_wanted = unread.iter().any(|one| one.what == "udp_datagrams") && has_all;
    if !is_wanted || is_32_bit(root, &watching.family.pids) {
        return None;
    }
    let count = by_calls(sockets, events)?;
    super::missing::note_counted_by_calls(unread);
    Some(count)
}

/// Returns the datagrams that a program received, by its own system calls. `None` if the calls were
/// not traced, if some of them may have received something else, if it also receives by calls whose
/// results do not show the number of datagrams, or if it mainly sends. Reads of the error queue
/// (MSG_ERRQUEUE) and repeated looks at one datagram (MSG_PEEK) count as well.
fn by_calls(sockets: &[SocketCounts], events: &[KernelEvent]) -> Option<PacketCount> {
    /// Calls that receive any number of datagrams at once.
    const BATCHES: [&str; 2] = ["recvmmsg", "io_uring_enter"];
    /// Calls that may receive a datagram, or something else.
    const READS: [&str; 3] = ["read", "readv", "splice"];
    const SENDS: [&str; 3] = ["sendto", "sendmsg", "sendmmsg"];
    /// Maximum number of reads relative to the calls that received a datagram, and of sends.
    const FEW: f64 = 0.01;
    const REPLIES: f64 = 1.5;
    if sockets.is_empty() || sockets.iter().any(|one| one.kind != SocketKind::Udp) {
        return None;
    }
    let counted = events.iter().find(|one| one.filter.as_deref() == Some(KernelEvent::RECEIVED))?;
    let received = Some(counted.count as f64).filter(|count| *count > 0.0)?;
    let of = |calls: &[&str]| -> f64 {
        let is_one = |one: &&KernelEvent| one.call().is_some_and(|call| calls.contains(&call));
        events.iter().filter(is_one).map(|one| one.count as f64).sum()
    };
    let is_known = of(&BATCHES) == 0.0 && of(&READS) <= FEW * received;
    (is_known && of(&SENDS) <= REPLIES * received).then(|| PacketCount {
        packets: counted.count,
        bytes: None,
        counter: PacketCount::RECEIVED.to_owned(),
    })
}

/// Returns whether one of the processes runs a 32-bit program, or may do so: the numbers of its
/// system calls are others.
fn is_32_bit(root: &Root, pids: &[u32]) -> bool {
    /// Length of the magic number of an ELF file and its class, and the class of 64-bit files.
    const HEAD: usize = 5;
    const CLASS_64: u8 = 2;
    let class = |pid: &u32| {
        let mut head = [0; HEAD];
        let mut file = File::open(root.path(&format!("proc/{pid}/exe"))).ok()?;
        file.read_exact(&mut head).ok()?;
        Some(head[HEAD - 1])
    };
    pids.iter().any(|pid| class(pid) != Some(CLASS_64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::tests::socket;

    #[test]
    fn datagrams_are_counted_by_calls_if_these_receive_nothing_else() {
        let event = |filter: &str, count| KernelEvent {
            event: "raw_syscalls".to_owned(),
            filter: Some(filter.to_owned()),
            is_of_watched: true,
            count,
        };
        let received = || event(KernelEvent::RECEIVED, 1000);
        let udp = [socket(SocketKind::Udp, 0)];
        let count = |sockets: &[SocketCounts], events: &[KernelEvent]| {
            by_calls(sockets, events).map(|count| (count.packets, count.counter))
        };
        let calls = event("call recvfrom", 1500);
        assert_eq!(
            count(&udp, &[calls.clone(), received()]),
            Some((1000, PacketCount::RECEIVED.to_owned()))
        );
        // Not traced, or nothing received.
        assert_eq!(count(&udp, &[calls]), None);
        assert_eq!(count(&udp, &[event(KernelEvent::RECEIVED, 0)]), None);
        // Calls that receive any number of datagrams, or from other descriptors, and programs that
        // mainly send.
        for (call, calls, is_counted) in [
            ("recvmmsg", 1, false),
            ("read", 11, false),
            ("read", 9, true),
            ("sendto", 1501, false),
            ("sendto", 1500, true),
        ] {
            let other = event(&format!("call {call}"), calls);
            assert_eq!(count(&udp, &[other, received()]).is_some(), is_counted, "{call} {calls}");
        }
        // recvfrom may have received from the other socket.
        let both = [socket(SocketKind::Udp, 0), socket(SocketKind::Unix, 0)];
        assert_eq!(count(&both, &[received()]), None);
    }
}
