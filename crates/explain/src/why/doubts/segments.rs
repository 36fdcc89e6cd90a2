// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP segments that are lost, late or held back on their way to or from the program.

use super::super::facts::Facts;
use super::super::measure::connections::{always_sending, lost_on};
use super::super::words::percent;
use super::{Doubt, read_by_root};
use linerate_record::units::BitsPerSecond;
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};

/// Detects gaps in received TCP data, which show that the network loses or reorders segments.
pub(super) fn gaps(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of received segments that arrive out of order; equal to the threshold for
    /// retransmitted segments.
    const SHARE: f64 = 0.005;
    const LEAST: u64 = 20;
    let behind = facts.protocol("TcpExt.TCPOFOQueue").filter(|behind| *behind >= LEAST)?;
    let received = facts.protocol("Tcp.InSegs").filter(|received| *received > 0)?;
    let share = behind as f64 / received as f64;
    if share < SHARE || !facts.may_use_tcp() {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell why segments to the program are lost or reordered in transit: {behind} \
             ({} % of all) arrived out of order, and senders slow down on each loss.",
            percent(share.min(1.0))
        ),
        "Look for drops on the path: check ss -ti (retrans) at the sender, the counters of ip -s \
         link and ethtool -S, and any rate limiter or firewall in between",
    )?;
    Some(doubt.with("segments out of order, in the network namespace", share.min(1.0), "ratio"))
}

/// Detects a server that spends much of the time delaying ACKs to clients.
pub(super) fn delayed_acknowledgements(facts: &Facts<'_>) -> Option<Doubt> {
    /// Shortest delayed-ACK timeout in Linux, in seconds, and minimum fraction of time spent
    /// delaying ACKs.
    const DELAY_S: f64 = 0.04;
    const MOST: f64 = 0.3;
    let delayed = facts.protocol("TcpExt.DelayedACKs")?;
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    // If both ends are on this machine, the counter includes the ACKs of both.
    let is_remote = |remote: &str, local: &str| host(remote) != host(local);
    let both = facts.connections().filter(|socket| {
        let tcp = socket.tcp.as_ref();
        tcp.is_some_and(|tcp| tcp.bytes_received > 0 && tcp.bytes_acked > 0)
            && socket.remote.as_deref().is_some_and(|remote| is_remote(remote, &socket.local))
    });
    let connections = both.count();
    let own = (delayed as f64 * own_part(facts)?).round();
    let waited = own * DELAY_S / facts.elapsed();
    if connections == 0 || waited < MOST * connections as f64 {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell whether the program's peers are waiting for acknowledgements: about {own} \
             were delayed by 40 ms or more, and a peer using Nagle's algorithm holds back small \
             segments until the acknowledgement arrives."
        ),
        "Set TCP_NODELAY on the peers' sockets, or have the peers write each request with one \
         call, and compare the rates",
    )?;
    Some(doubt.with("delayed acknowledgements", own, "segments"))
}

/// Returns the program's part of the segments received in the network namespace; 1 if its
/// connections end before their segments are counted. `None` if it does not use TCP, or if no
/// segment was received.
fn own_part(facts: &Facts<'_>) -> Option<f64> {
    if !facts.may_use_tcp() {
        return None;
    }
    let all = facts.protocol("Tcp.InSegs").filter(|all| *all > 0)?;
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let own: u64 = tcps.map(|tcp| tcp.segments_in).sum();
    let is_counted = !facts.is_unread("tcp_segments");
    Some(if is_counted { (own as f64 / all as f64).min(1.0) } else { 1.0 })
}

/// Returns the segments that were lost and retransmitted, and all segments sent: on the program's
/// connections or, if these end before they are counted, in the network namespace.
fn retransmitted(facts: &Facts<'_>) -> Option<(u64, u64)> {
    let tcps = || facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let own: u64 = tcps().map(|tcp| tcp.segments_out).sum();
    if own > 0 && !facts.is_unread("tcp_segments") && tcps().all(|tcp| tcp.needless.is_some()) {
        return Some((tcps().map(lost_on).sum(), own));
    }
    let (resent, sent) = (facts.protocol("Tcp.RetransSegs")?, facts.protocol("Tcp.OutSegs")?);
    // Segments that the peer already had were late, not lost.
    let resent = resent.saturating_sub(facts.protocol("TcpExt.TCPDSACKRecvSegs")?);
    Some((resent, sent + resent))
}

/// Detects frequent TCP retransmissions, which show that the network loses segments.
pub(super) fn resent(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of segments that are retransmitted. At a round-trip time of 1 ms, this loss
    /// rate limits TCP to less than 250 Mb/s (Mathis et al., 1997).
    const SHARE: f64 = 0.005;
    const LEAST: u64 = 20;
    let (resent, sent) = retransmitted(facts).filter(|_| facts.may_use_tcp())?;
    let share = resent as f64 / sent.max(1) as f64;
    if resent < LEAST || share < SHARE {
        return None;
    }
    // Handshakes whose end was ignored, and whose SYN-ACK was sent again because no data followed.
    let ignored = facts.protocol("TcpExt.TCPDeferAcceptDrop").unwrap_or(0);
    let deferred = ignored.min(facts.protocol("TcpExt.TCPSynRetrans").unwrap_or(0));
    if 2 * deferred >= resent {
        return Doubt::new(
            format!(
                "Cannot tell whether the clients should send first: listening sockets with \
                 TCP_DEFER_ACCEPT ignored the ends of {deferred} handshakes because no data came \
                 with them, and {resent} segments were retransmitted. If the server speaks first, \
                 each of its clients waits for a second or more."
            ),
            "Remove TCP_DEFER_ACCEPT from the listening sockets (deferred in nginx, defer-accept \
             in haproxy), unless clients send first",
        );
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell why segments were lost in transit: TCP retransmitted {resent} segments \
             ({} % of all), and each loss slowed it down.",
            percent(share)
        ),
        match facts.is_unread("sockets_and_drivers") {
            true => {
                format!(
                    "{}, which reads the queues in the program's network namespace",
                    read_by_root(facts)
                )
            }
            false => "Look for drops at the other end and on the path: check ss -ti (retrans) at \
                      the sender, ip -s link and ethtool -S at the receiver, and any rate limiter \
                      or firewall in between"
                .to_owned(),
        },
    )?;
    Some(doubt.with("segments retransmitted", share, "ratio"))
}

/// Returns whether the connections selected by `is_one` make up the workload: at least half of
/// those that the program accepted, or a tenth of those that it opened. If only a few of many
/// connections do not progress, their peers have left or stopped, as always happens to a public
/// server, and the program works for the others.
pub(in super::super) fn are_workload<'a>(
    facts: &Facts<'a>,
    is_one: impl Fn(&SocketCounts) -> bool,
) -> bool {
    /// Minimum fraction of the connections that the program opened: it has few servers, and waits
    /// for each of them.
    const OF_OPENED: f64 = 0.1;
    let is_used = |socket: &&SocketCounts| {
        let tcp = socket.tcp.as_ref();
        socket.kind == SocketKind::Tcp
            && tcp.is_some_and(|tcp| {
                socket.send_queue_mean > 0.0 || tcp.bytes_received + tcp.bytes_acked > 0
            })
    };
    let used = facts.observation.sockets.iter().filter(|socket| is_used(socket) || is_one(socket));
    let (accepted, opened): (Vec<&SocketCounts>, Vec<_>) =
        used.partition(|socket| facts.listens_on(&socket.local));
    let part = |of: &[&SocketCounts]| {
        let number = of.iter().filter(|socket| is_one(socket)).count();
        if number == 0 { 0.0 } else { number as f64 / of.len() as f64 }
    };
    part(&accepted) >= 0.5 || part(&opened) >= OF_OPENED
}

/// Returns whether a connection has data to send, but the peer acknowledged nothing for at least
/// half of the time, although its receive window is open. A closed window is reported separately.
pub(in super::super) fn is_stalled(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    /// Minimum fraction of the observation time.
    const HALF: f64 = 0.5;
    let half = HALF * facts.elapsed();
    let is_stalled = |tcp: &TcpCounts| {
        tcp.bytes_acked == 0
            && tcp.rwnd_limited_s < half
            && (tcp.busy_s >= half || tcp.retransmitted > 0)
    };
    socket.send_queue_mean > 0.0 && socket.tcp.as_ref().is_some_and(is_stalled)
}

/// Returns whether the receive window of a connection's peer is closed for at least half of the
/// time.
fn is_closed(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    /// Minimum fraction of the observation time during which the peer's window blocks sending.
    const MOST: f64 = 0.5;
    let tcp = socket.tcp.as_ref();
    tcp.is_some_and(|tcp| tcp.rwnd_limited_s >= MOST * facts.elapsed())
}

/// Returns a sentence about connections that do not progress, because their peers have left or do
/// not read, while the program works for others; empty if there are none.
pub(in super::super) fn stalled_elsewhere(facts: &Facts<'_>) -> String {
    let sockets = facts.observation.sockets.iter();
    let is_one = |socket: &&SocketCounts| is_stalled(facts, socket) || is_closed(facts, socket);
    match sockets.filter(is_one).count() {
        0 => String::new(),
        1 => " On 1 connection, the peer does not acknowledge or read what the program sends."
            .to_owned(),
        many => format!(
            " On {many} connections, the peers do not acknowledge or read what the program sends."
        ),
    }
}

/// Detects a connection whose peer does not read.
pub(super) fn closed_window(facts: &Facts<'_>) -> Option<Doubt> {
    let closed = |socket: &SocketCounts| is_closed(facts, socket);
    let sockets = || facts.observation.sockets.iter();
    let (socket, seconds) = sockets()
        .filter(|socket| closed(socket))
        .filter_map(|socket| Some((socket, socket.tcp.as_ref()?.rwnd_limited_s)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let acked = |socket: &SocketCounts| socket.tcp.as_ref().map_or(0, |tcp| tcp.bytes_acked);
    let all: u64 = sockets().map(acked).sum();
    let slowed: u64 = sockets().filter(|socket| closed(socket)).map(acked).sum();
    if !are_workload(facts, closed) && (slowed == 0 || 2 * slowed < all) {
        return None;
    }
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    let share = (seconds / facts.elapsed()).min(1.0);
    let doubt = Doubt::new(
        format!(
            "Cannot tell why {peer} is not reading: its receive window blocked connection {} for \
             {} % of the time.",
            socket.local,
            percent(share)
        ),
        "Watch the receiver: run linerate why PID on its machine",
    )?;
    Some(doubt.with("time with a closed receive window", share, "ratio"))
}

/// Detects a connection that always has data to send and is limited by neither end.
pub(super) fn path(facts: &Facts<'_>) -> Option<Doubt> {
    let (socket, tcp) = always_sending(facts)?;
    let doubt = Doubt::new(
        format!(
            "Cannot tell what on the path limits connection {} to {}: the connection always has \
             data to send, its throughput is {}, and its buffers do not limit it (congestion \
             window {} segments, round trip {:.1} ms, {} retransmitted).",
            socket.local,
            socket.remote.as_deref().unwrap_or("its peer"),
            BitsPerSecond(8.0 * tcp.bytes_acked as f64 / facts.elapsed()),
            tcp.cwnd,
            1e3 * tcp.rtt_s,
            tcp.retransmitted
        ),
        "Look for a rate limiter on the path (tc -s qdisc on each hop), and watch the receiver: \
         run linerate why PID on its machine",
    )?;
    Some(doubt.with("time with data to send", tcp.busy_s / facts.elapsed(), "ratio"))
}
