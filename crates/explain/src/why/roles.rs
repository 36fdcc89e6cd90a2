// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes connections that a program accepted as a server from connections that it opened as
//! a client.

use super::facts::Facts;
use super::waits::{Wait, wait_of};
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, ThreadActivity};

/// Prefix of objects that are connections to servers on Unix domain sockets.
const UNIX: &str = "unix to ";

/// Returns the fraction of time that a thread waits for servers: for replies, or for the data of a
/// stream. Meanwhile, it does not read from its clients.
pub(super) fn on_servers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    let opened = sleeps_on_servers(facts, thread, |_| true);
    opened.into_iter().chain(on_unix_servers(thread)).map(|sleep| sleep.share).sum()
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

/// Returns the sleeps of a thread that wait for data from servers on TCP connections that the
/// program opened, or on UDP sockets with as many datagrams in as out. Only sockets that `takes`
/// accepts are included.
pub(super) fn sleeps_on_servers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
    takes: impl Fn(&SocketCounts) -> bool,
) -> Vec<&'a SleepTime> {
    let tcp = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let udp = facts.asks_by_udp().then(|| asking_sockets(facts)).into_iter().flatten();
    let opened = tcp.chain(udp).filter(|socket| takes(socket));
    let opened: Vec<&str> = opened.map(|socket| socket.local.as_str()).collect();
    let brief = facts.connections().filter(|socket| !is_accepted(facts, socket) && takes(socket));
    let servers: Vec<&str> = brief.filter_map(|socket| socket.remote.as_deref()).collect();
    // Sockets that are opened for each exchange carry requests and replies.
    let is_exchange = |object: &str| match object.split_once(" to ") {
        Some(("udp", _)) => true,
        Some(("tcp", server)) => servers.contains(&server),
        _ => false,
    };
    let waits =
        |object: &str| is_exchange(object) || opened.iter().any(|local| object.contains(local));
    input(thread).filter(|sleep| sleep.object.as_deref().is_some_and(waits)).collect()
}

pub(super) fn is_udp(socket: &SocketCounts) -> bool {
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

pub(super) fn has_requests(socket: &SocketCounts) -> bool {
    socket.tcp.as_ref().is_some_and(|tcp| !tcp.is_one_way())
}

/// Returns whether a connection was accepted, that is, the program listens on its local port.
pub(super) fn is_accepted(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    facts.listens_on(&socket.local)
}
