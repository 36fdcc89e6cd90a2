// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the replies of servers that the program asks, as opposed to data that it did not ask
//! for.

use super::facts::Facts;
use super::requests::{self, DELAYED};
use super::roles::{has_requests, is_udp, sleeps_on_servers};
use super::waits;
use linerate_record::why::{SleepTime, SocketCounts, TcpCounts, ThreadActivity};

/// Returns the fraction of time that a thread waits for replies from servers: on connections on
/// which the program sends requests, or on UDP sockets where a reply is due. Unix domain sockets do
/// not count, because requests are not counted there.
pub(super) fn on_asked_servers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    sleeps(facts, thread).iter().map(|sleep| sleep.share).sum()
}

/// Returns the address of the server for whose replies a thread waits longest.
pub(super) fn asked(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let longest = waits::longest(sleeps(facts, thread))?;
    Some(longest.object.as_deref()?.rsplit_once("to ")?.1.to_owned())
}

fn sleeps<'a>(facts: &Facts<'_>, thread: &'a ThreadActivity) -> Vec<&'a SleepTime> {
    sleeps_on_servers(facts, thread, |socket| asks(facts, socket))
}

/// Returns the sleeps of a thread on UDP sockets that may wait for replies, or for datagrams that
/// the program did not ask for: as many arrive as are sent, as in a call or a tunnel.
pub(super) fn on_udp_peers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Vec<&'a SleepTime> {
    /// Prefix of sleeps on sockets that were opened for one exchange, which are requests.
    const EXCHANGE: &str = "udp to ";
    let mut sleeps =
        sleeps_on_servers(facts, thread, |socket| is_udp(socket) && !asks(facts, socket));
    sleeps.retain(|sleep| !sleep.object.as_deref().is_some_and(|on| on.starts_with(EXCHANGE)));
    sleeps
}

/// Returns whether the program sent requests on a connection within the window, rather than only
/// receiving data, as a subscriber does. On a UDP socket, datagrams are replies if they come from a
/// port where each request has one. They probably are if the datagrams of the network namespace are
/// the program's, and a client of the program meanwhile waits for a reply, or about one is sent per
/// request on TCP connections.
fn asks(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    /// DNS, NTP, SNMP, LDAP and RADIUS.
    const PORTS: [&str; 5] = ["53", "123", "161", "389", "1812"];
    if !is_udp(socket) {
        return socket.tcp.as_ref().is_some_and(|tcp| tcp.bytes_acked > 0) && has_requests(socket);
    }
    let port = socket.remote.as_deref().and_then(|remote| remote.rsplit(':').next());
    let is_due = || requests::delayed(facts).is_some_and(|delayed| delayed.low >= DELAYED);
    port.is_some_and(|port| PORTS.contains(&port))
        || (!facts.is_unread("udp_datagrams") && (is_due() || sends_one_per_request(facts)))
}

/// Returns whether about as many datagrams are sent as there are requests on TCP connections.
fn sends_one_per_request(facts: &Facts<'_>) -> bool {
    let tcps =
        facts.connections().filter(|one| has_requests(one)).filter_map(|one| one.tcp.as_ref());
    let both = |tcp: &TcpCounts| tcp.data_segments_in.zip(tcp.data_segments_out);
    let requests: u64 = tcps.filter_map(both).map(|(asked, sent)| asked.min(sent)).sum();
    let sent = facts.datagrams("OutDatagrams").unwrap_or(0);
    requests > 0 && sent <= 2 * requests && requests <= 2 * sent
}
