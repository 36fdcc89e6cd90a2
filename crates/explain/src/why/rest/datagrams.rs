// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams that cannot be attributed to the program, and datagrams that its receivers dropped.

use super::super::facts::Facts;
use super::super::losses::dropped_by_receivers;
use super::super::words::label;
use super::{cannot_tell, doing, waiting};
use linerate_record::units::grouped;
use linerate_record::why::{PacketCount, ThreadActivity, WhyFinding};

/// Returns a sentence about datagrams that full receive buffers of other programs dropped; empty if
/// there were few.
pub(super) fn by_receivers(facts: &Facts<'_>) -> String {
    match dropped_by_receivers(facts) {
        Some(dropped) => format!(
            " Sockets of other programs in the network namespace, perhaps of the program's \
             receivers, dropped {} datagrams because their receive buffers were full: watch those \
             programs.",
            grouped(dropped)
        ),
        None => String::new(),
    }
}

/// Returns the finding for a program whose datagrams cannot be distinguished from those of other
/// programs.
pub(super) fn unknown_datagrams(
    facts: &Facts<'_>,
    thread: &ThreadActivity,
    lost: &str,
) -> Option<WhyFinding> {
    /// Minimum number of TCP segments per datagram for the program's traffic to be mostly on its
    /// connections, where it is counted. A control connection carries few segments.
    const MOSTLY: f64 = 0.1;
    let udp: u64 =
        ["InDatagrams", "OutDatagrams"].iter().filter_map(|name| facts.datagrams(name)).sum();
    let counter = facts.observation.packets.as_ref().map(|count| count.counter.as_str());
    if counter == Some(PacketCount::RECEIVED) {
        return None;
    }
    let has_connections = facts.connections().next().is_some();
    if has_connections && facts.packets().unwrap_or(0) as f64 >= MOSTLY * udp as f64 {
        return None;
    }
    let datagrams = facts.observation.unread.iter().find(|one| one.what == "udp_datagrams");
    let fix = datagrams.and_then(|unread| unread.fix.as_ref())?;
    let sentence = format!(
        "Cannot tell what limits the program: its datagrams could not be counted, because other \
         programs also have UDP sockets. Thread {} {}.{}{lost}{}",
        label(thread),
        doing(facts, thread),
        waiting(thread),
        by_receivers(facts)
    );
    Some(cannot_tell(facts, sentence, &format!("To count its datagrams: {fix}")))
}

/// Returns the finding for packets that a socket dropped while only an interface is observed.
pub(super) fn lost_at_socket(facts: &Facts<'_>) -> Option<WhyFinding> {
    if !facts.observation.threads.is_empty() {
        return None;
    }
    let sockets = facts.observation.sockets.iter();
    let dropped =
        sockets.filter_map(|socket| Some((socket, socket.buffer_drops(facts.observation)?)));
    let (socket, drops) =
        dropped.max_by_key(|(_, drops)| *drops).filter(|(_, drops)| *drops > 0)?;
    let sentence = format!(
        "Cannot tell why the program that reads {} is too slow: the socket dropped {} packets \
         because its receive buffer was full, but only the interface was observed.",
        socket.local,
        grouped(drops)
    );
    let next = match socket.pid {
        0 => {
            let port = socket.local.rsplit(':').next().unwrap_or_default();
            format!("Find the program (ss -ulpn sport = :{port}) and watch it: linerate why PID")
        }
        pid => format!("Watch the program: linerate why {pid}"),
    };
    Some(cannot_tell(facts, sentence, &next))
}
