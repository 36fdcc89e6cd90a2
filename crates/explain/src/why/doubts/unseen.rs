// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the observation does not show: losses that only the program can read, threads that end
//! before they are read, and requests whose replies are due.

use super::super::facts::Facts;
use super::super::measure::is_accepted;
use super::super::words::{label, percent};
use super::Doubt;
use linerate_record::units::three_digits;
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts, ThreadState};

/// Detects a packet socket whose losses only its owner can read. The packets of the interface are
/// then counted as those of the program, which may never have received them.
pub(super) fn unread_ring(facts: &Facts<'_>) -> Option<Doubt> {
    let count = facts.observation.packets.as_ref().filter(|count| count.packets > 0)?;
    if !count.counter.ends_with("rx_packets") {
        return None;
    }
    let sockets = facts.observation.sockets.iter();
    let mut unread = sockets.filter(|s| s.kind == SocketKind::Packet && s.drops.is_none());
    let socket = unread.next()?;
    let works = facts.busiest().map_or_else(String::new, |thread| {
        let on_cpu = percent(thread.share_of(ThreadState::is_on_cpu));
        format!(" Thread {} is on a CPU {on_cpu} % of the time.", label(thread))
    });
    Doubt::new(
        format!(
            "Cannot tell how many packets are lost at the packet socket on {}: only the program \
             can read that count (PACKET_STATISTICS).{works}",
            socket.local
        ),
        "Read the program's own count of dropped packets (tcpdump prints it when it ends), or see \
         whether a ring that is 10 times as large (tcpdump -B) changes how many packets it handles",
    )
}

/// Detects threads that start and end within the window, such as one per connection, and use a
/// large part of the program's CPU time.
pub(super) fn brief_threads(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum CPU time in CPUs, and minimum fraction of the program's CPU time.
    const CPUS: f64 = 0.05;
    const OF_ALL: f64 = 0.3;
    let brief = facts.observation.ended_threads_cpus?;
    let observed = facts.used_cpus();
    if brief < CPUS || brief < OF_ALL * (brief + observed) {
        return None;
    }
    let pid = facts.observation.watched.pids.first().copied().unwrap_or(0);
    Doubt::new(
        format!(
            "Cannot tell what limits the program: threads that start and end within the window, \
             perhaps one per connection, use {} CPUs, and the threads that could be observed use \
             {}.",
            three_digits(brief),
            three_digits(observed)
        ),
        format!(
            "Sample them with perf, which follows new threads: perf record -g -p {pid} -- sleep 5; \
             perf report"
        ),
    )
}

/// Detects clients that wait for replies while the program sleeps.
pub(super) fn unanswered(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of readings in which a reply is due.
    const SHARE: f64 = 0.3;
    /// Maximum ratio of bytes received to bytes sent: beyond it, the peer uploads.
    const ONE_WAY: u64 = 1000;
    let asks = |tcp: &TcpCounts| {
        let (received, sent) = (tcp.bytes_received, tcp.bytes_acked);
        received > 0 && sent > 0 && received / sent.max(1) < ONE_WAY
    };
    let due = |socket: &SocketCounts| {
        let tcp = socket.tcp.as_ref().filter(|tcp| asks(tcp))?;
        Facts::readings(socket).and(tcp.unanswered_share)
    };
    let accepted = facts.connections().filter(|socket| is_accepted(facts, socket));
    let shares: Vec<f64> = accepted.filter_map(due).collect();
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    if mean < SHARE {
        return None;
    }
    let thread = facts.busiest()?;
    let mut opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let server = opened.find_map(|socket| socket.remote.as_deref()).map_or_else(
        || "a lock, a timer, a disk or another program".to_owned(),
        |server| format!("the server {server} that it asks, a lock, a timer or a disk"),
    );
    Doubt::new(
        format!(
            "Cannot tell what delays the replies: in {} % of the readings of {} connections, a \
             request had been waiting for 4 ms or longer, while the busiest thread, {}, works {} % \
             of the time. The program may be waiting for {server}.",
            percent(mean),
            shares.len(),
            label(thread),
            percent(thread.share_of(ThreadState::is_on_cpu))
        ),
        format!(
            "See what the program does between request and reply: strace -f -T -p {}",
            thread.pid
        ),
    )
}
