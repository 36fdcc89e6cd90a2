// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that are set on purpose, by the program itself or by an emulated network, and attempts
//! to use up what the kernel keeps for connections.

use super::super::facts::{Facts, Subject};
use super::super::losses;
use super::super::measure::Measure;
use super::super::roles::is_accepted;
use super::super::words::{milliseconds, percent};
use super::Doubt;
use linerate_record::units::{BitsPerSecond, grouped};
use linerate_record::why::{QdiscCounts, SocketCounts, SocketKind, TcpCounts};

/// Ratio of bytes sent to bytes received above which a connection carries a stream, and not small
/// requests and replies.
const STREAMS: u64 = 20;

/// Maximum number of segments with data that the peer sends on a stream per second: a response
/// takes several seconds.
const REQUESTS_PER_S: f64 = 0.4;

/// Returns the connections that carry streams of the program, and not replies to one request after
/// another.
pub(in super::super) fn streams<'a>(
    facts: &Facts<'a>,
) -> impl Iterator<Item = (&'a SocketCounts, &'a TcpCounts)> {
    let most = |socket: &SocketCounts| (REQUESTS_PER_S * open_s(facts, socket)).max(1.0);
    let is_stream = |socket: &SocketCounts, tcp: &TcpCounts| {
        tcp.bytes_acked >= STREAMS * tcp.bytes_received
            && tcp.data_segments_in.is_none_or(|asked| asked as f64 <= most(socket))
    };
    let sends = facts.connections().filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    sends.filter(|(socket, tcp)| is_stream(socket, tcp)).collect::<Vec<_>>().into_iter()
}

/// Returns whether most bytes of streams are sent on connections that had nothing to send for most
/// of the time. The kernel's mark for delivered bytes (`app_limited`) does not show it if the
/// program sends more at once than the congestion window holds, and then pauses.
pub(in super::super) fn pauses(facts: &Facts<'_>) -> bool {
    let all: u64 = streams(facts).map(|(_, tcp)| tcp.bytes_acked).sum();
    let pausing = streams(facts).filter(|(socket, tcp)| pauses_on(facts, socket, tcp));
    let pausing: u64 = pausing.map(|(_, tcp)| tcp.bytes_acked).sum();
    all > 0 && 2 * pausing > all
}

/// Returns whether a connection had unacknowledged data for a small part of the time for which it
/// was read.
fn pauses_on(facts: &Facts<'_>, socket: &SocketCounts, tcp: &TcpCounts) -> bool {
    /// Maximum fraction of the time with unacknowledged data.
    const BUSY: f64 = 0.2;
    tcp.busy_s <= BUSY * open_s(facts, socket)
}

/// Returns the time for which a socket was open in the window, from the number of its readings.
fn open_s(facts: &Facts<'_>, socket: &SocketCounts) -> f64 {
    let reads = |socket: &SocketCounts| socket.reads.unwrap_or(0);
    // UDP sockets are read in a rotation of their own.
    let is_tcp = |one: &&SocketCounts| matches!(one.kind, SocketKind::Tcp | SocketKind::TcpListen);
    let tcp = facts.observation.sockets.iter().filter(is_tcp);
    let most = tcp.map(reads).max().unwrap_or(0).max(1);
    facts.elapsed() * reads(socket) as f64 / most as f64
}

/// Detects a server that pauses within its responses: clients wait for the rest, nothing is left to
/// send, and no other connection of the program supplies the data.
pub(super) fn limits_itself(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum rate of a response, in bytes per second. Slower ones are mostly notifications, which
    /// come when there is something to report.
    const RATE: f64 = 10_000.0;
    /// Minimum fraction of readings with progress. A client that makes a request now and then gets
    /// its response at once.
    const STEADY: f64 = 0.3;
    /// Fraction of the sent bytes above which bytes that the program received on connections that
    /// it opened may be those that it passes on.
    const PASSED_ON: f64 = 0.5;
    let is_response = |socket: &SocketCounts, tcp: &TcpCounts| {
        let open_s = open_s(facts, socket);
        is_accepted(facts, socket)
            && tcp.bytes_acked as f64 >= RATE * open_s
            && tcp.delivering_share.is_some_and(|share| share >= STEADY)
            && tcp.data_segments_in.is_some()
            && pauses_on(facts, socket, tcp)
    };
    let is_response = |(socket, tcp): &(&SocketCounts, &TcpCounts)| is_response(socket, tcp);
    let responses: Vec<_> = streams(facts).filter(is_response).collect();
    let sent: u64 = responses.iter().map(|(_, tcp)| tcp.bytes_acked).sum();
    let all: u64 = streams(facts).map(|(_, tcp)| tcp.bytes_acked).sum();
    let opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let supplied: u64 = opened.filter_map(|one| Some(one.tcp.as_ref()?.bytes_received)).sum();
    if 2 * sent <= all || supplied as f64 >= PASSED_ON * sent as f64 {
        return None;
    }
    let busy: f64 = responses.iter().map(|(_, tcp)| tcp.busy_s).sum();
    let open: f64 = responses.iter().map(|(socket, _)| open_s(facts, socket)).sum();
    let rate = BitsPerSecond(8.0 * sent as f64 / open);
    let connections = match responses.len() {
        1 => "1 connection".to_owned(),
        number => format!("{number} connections"),
    };
    Doubt::new(
        format!(
            "Cannot tell which of rate_limiter and nothing_wrong applies: the program sends long \
             responses on {connections}, at {rate} each, with pauses: for {} % of the time, no \
             data is queued or in flight. Either it limits the rate itself, or it has no more data \
             yet.",
            percent(1.0 - busy / open)
        ),
        "Look for a limit in the program's configuration (limit_rate of nginx, bwlim of haproxy), \
         and compare the rates without it",
    )
}

/// Detects a flood of connection attempts that never complete.
pub(in super::super) fn half_open(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of cookies sent per second, and per connection that was opened.
    const PER_SECOND: f64 = 100.0;
    const PER_CONNECTION: u64 = 10;
    let cookies = facts.protocol("TcpExt.SyncookiesSent")?;
    let opened = facts.protocol("Tcp.PassiveOpens").unwrap_or(0);
    if (cookies as f64) < PER_SECOND * facts.elapsed() || cookies < PER_CONNECTION * opened {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell how the program would perform without a flood of connection attempts: the \
             queue of half-open connections was full, so the kernel answered {} of them with SYN \
             cookies, but only {} connections were opened.",
            grouped(cookies),
            grouped(opened)
        ),
        "Find the senders (tcpdump -ni any 'tcp[tcpflags] == tcp-syn'), and drop or limit their \
         packets before they reach TCP (nft limit rate, synproxy, XDP)",
    )
}

/// Detects an emulated network (netem) on an interface of the program that delays or drops its
/// packets. The delay limits clients that wait for each reply.
pub(in super::super) fn emulated_network(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum delay in seconds that is reported; it limits a client to 500 requests per second.
    const DELAY_S: f64 = 0.002;
    /// Minimum fraction of its traffic that is the program's, and minimum ratio of its packets to
    /// the program's.
    const OWN: f64 = 0.1;
    let is_much = |qdisc: &QdiscCounts| {
        qdisc.delay_s.is_some_and(|delay| delay >= DELAY_S)
            || losses::is_much(qdisc.drops, qdisc.packets + qdisc.drops)
    };
    let packets = facts.packets().unwrap_or(0);
    let carries = |interface, qdisc: &QdiscCounts| {
        let own = Measure::OwnTraffic.of(facts, Subject::Qdisc(interface, qdisc));
        let is_own = own.is_none_or(|own| own.value >= OWN);
        qdisc.packets > 0 && is_own && qdisc.packets as f64 >= OWN * packets as f64
    };
    let (interface, qdisc) = facts.observation.interfaces.iter().find_map(|interface| {
        let is_meant = |qdisc: &&QdiscCounts| {
            qdisc.kind == "netem" && carries(interface, qdisc) && is_much(qdisc)
        };
        Some((&interface.name, interface.qdiscs.iter().find(is_meant)?))
    })?;
    let delay =
        qdisc.delay_s.map(|delay| format!("delays each packet by {}", milliseconds(1e3 * delay)));
    let drops = (qdisc.drops > 0).then(|| format!("dropped {} of them", grouped(qdisc.drops)));
    let effects: Vec<String> = delay.into_iter().chain(drops).collect();
    Doubt::new(
        format!(
            "Cannot tell how the program would perform without the emulated network on \
             {interface}: its netem qdisc passed on {} packets; it {}.",
            grouped(qdisc.packets),
            effects.join(", and ")
        ),
        format!(
            "Remove the emulation and compare the rates: sudo tc qdisc del dev {interface} root; \
             if it is intended, keep more requests in flight"
        ),
    )
}
