// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes connections that a program accepted as a server from connections that it opened as
//! a client.

use super::facts::Facts;
use super::requests;
use super::rules::DELAYED;
use super::waits::{self, Wait, wait_of};
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, TcpCounts, ThreadActivity};

/// Prefix of objects that are connections to servers on Unix domain sockets.
const UNIX: &str = "unix to ";

/// Returns the fraction of time that a thread waits for servers: for replies, or for the data of a
/// stream. Meanwhile, it does not read from its clients.
pub(super) fn on_servers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    let opened = sleeps_on_servers(facts, thread, |_| true);
    opened.into_iter().chain(on_unix_servers(thread)).map(|sleep| sleep.share).sum()
}

/// Returns the fraction of time that a thread waits for replies from servers: on connections on
/// which the program sends requests, or on UDP sockets where a reply is due. Unix domain sockets do
/// not count, because requests are not counted there.
pub(super) fn on_asked_servers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    let asked = sleeps_on_servers(facts, thread, |socket| asks(facts, socket));
    asked.iter().map(|sleep| sleep.share).sum()
}

/// Returns the address of the server for whose replies a thread waits longest.
pub(super) fn asked(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let asked = sleeps_on_servers(facts, thread, |socket| asks(facts, socket));
    let longest = waits::longest(asked)?;
    Some(longest.object.as_deref()?.rsplit_once("to ")?.1.to_owned())
}

/// Returns the sleeps of a thread on UDP sockets that may wait for replies, or for datagrams that the
/// program did not ask for: as many arrive as are sent, as in a call or a tunnel.
pub(super) fn on_udp_peers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Vec<&'a SleepTime> {
    sleeps_on_servers(facts, thread, |socket| is_udp(socket) && !asks(facts, socket))
}

/// Iterates over the sleeps of a thread that wait for data on Unix domain sockets that the program
/// connected to a server.
pub(super) fn on_unix_servers(thread: &ThreadActivity) -> impl Iterator<Item = &SleepTime> {
    let is_unix =
        |sleep: &&SleepTime| sleep.object.as_deref().is_some_and(|object| object.starts_with(UNIX));
    input(thread).filter(is_unix)
}

/// Iterates over the sleeps of a thread that wait for input. Send calls are left out, because they
/// wait for buffer space.
fn input(thread: &ThreadActivity) -> impl Iterator<Item = &SleepTime> {
    thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == Wait::Input)
}

/// Returns the sleeps of a thread that wait for data from servers on TCP connections that the program
/// opened, or on UDP sockets with as many datagrams in as out, as far as `takes` holds for them.
fn sleeps_on_servers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
    takes: impl Fn(&SocketCounts) -> bool,
) -> Vec<&'a SleepTime> {
    let tcp = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let udp = facts.asks_by_udp().then(|| asking_sockets(facts)).into_iter().flatten();
    let opened = tcp.chain(udp).filter(|socket| takes(socket));
    let opened: Vec<&str> = opened.map(|socket| socket.local.as_str()).collect();
    let waits = |object: &str| opened.iter().any(|local| object.contains(local));
    input(thread).filter(|sleep| sleep.object.as_deref().is_some_and(waits)).collect()
}

/// Returns whether the program sent requests on a connection within the window, rather than only
/// receiving data, as a subscriber does. On a UDP socket, datagrams are replies if they come from a
/// port where each request has one. They probably are, if the datagrams of the network namespace are
/// the program's, and a client of the program meanwhile waits for a reply, or about one is sent per
/// message received on TCP connections.
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

fn is_udp(socket: &SocketCounts) -> bool {
    socket.kind == SocketKind::Udp
}

/// Returns the UDP sockets connected to a server, except those whose local address is shared with
/// an unconnected socket, which receives from any peer.
fn asking_sockets<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a SocketCounts> {
    let sockets = &facts.observation.sockets;
    let udp = move || sockets.iter().filter(|socket| is_udp(socket));
    let serves = move |own: &SocketCounts| {
        udp().any(|other| other.remote.is_none() && other.local == own.local)
    };
    udp().filter(move |socket| socket.remote.is_some() && !serves(socket))
}

/// Iterates over the connections of clients that carry requests and replies rather than a stream.
pub(super) fn clients<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a SocketCounts> {
    facts.connections().filter(|one| has_requests(one) && is_accepted(facts, one))
}

/// Like [`clients`], but for the connections that the program opened to other servers.
pub(super) fn servers<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a SocketCounts> {
    facts.connections().filter(|one| has_requests(one) && !is_accepted(facts, one))
}

fn has_requests(socket: &SocketCounts) -> bool {
    socket.tcp.as_ref().is_some_and(|tcp| !tcp.is_one_way())
}

/// Returns whether a connection was accepted, that is, the program listens on its local port.
pub(super) fn is_accepted(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    let port = |address: &str| address.rsplit(':').next().map(str::to_owned);
    let listening = facts.observation.sockets.iter().filter(|s| s.kind == SocketKind::TcpListen);
    let own = port(&socket.local);
    listening.map(|listen| port(&listen.local)).any(|listen| listen == own)
}
