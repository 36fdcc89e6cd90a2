// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the replies of servers that the program asks, as opposed to data that it did not ask
//! for.

use super::facts::Facts;
use super::requests::{self, DELAYED};
use super::roles::{has_requests, is_udp, sleeps_on_servers};
use super::waits::{self, Wait};
use linerate_record::why::{SleepTime, SocketCounts, TcpCounts, ThreadActivity};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Returns the fraction of time that a thread waits for replies from servers: on connections on
/// which the program sends requests, or on UDP sockets where a reply is due. Unix domain sockets do
/// not count, because requests are not counted there.
pub(super) fn on_asked_servers(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    sleeps(facts, thread).iter().map(|sleep| sleep.share).sum()
}

/// Like [`on_asked_servers`], but for UDP sockets alone.
pub(super) fn on_asked_by_udp(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    let sleeps = sleeps_on_servers(facts, thread, |one| is_udp(one) && asks(facts, thread, one));
    sleeps.iter().map(|sleep| sleep.share).sum()
}

/// Returns the address of the server for whose replies a thread waits longest; `None` if it is
/// unknown, or if the thread waits for none.
pub(super) fn asked(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let longest = waits::longest(sleeps(facts, thread))?;
    Some(longest.object.as_deref()?.rsplit_once("to ")?.1.to_owned())
}

/// UDP ports of servers that reply to each request: DNS, NTP, SNMP, LDAP and RADIUS.
const REPLYING: [&str; 5] = ["53", "123", "161", "389", "1812"];

fn sleeps<'a>(facts: &Facts<'_>, thread: &'a ThreadActivity) -> Vec<&'a SleepTime> {
    sleeps_on_servers(facts, thread, |socket| asks(facts, thread, socket))
}

/// Waits for replies from a UDP server that does not answer.
pub(super) struct Silent<'a> {
    /// Address and port of the server.
    pub(super) server: &'a str,
    /// Fraction of the thread's time, 0 to 1.
    pub(super) share: f64,
    /// Lower bound on the mean length of a wait, in seconds: the time per sleep of the thread or,
    /// if that is longer, per datagram sent.
    pub(super) wait_s: f64,
}

/// Returns the UDP server for which a thread waits longest, if it does not seem to answer: the
/// waits are as long as the timeouts of resolvers, and more datagrams are sent than arrive. If the
/// server need not reply to each datagram, the datagrams must also be known to be the program's,
/// and 0.5 to 10 must be sent per wait.
pub(super) fn silent<'a>(facts: &Facts<'_>, thread: &'a ThreadActivity) -> Option<Silent<'a>> {
    /// Minimum of [`Silent::wait_s`].
    const WAIT_S: f64 = 0.2;
    /// Maximum number of datagrams that arrive in the network namespace, per datagram sent.
    const ANSWERS: f64 = 0.8;
    /// Datagrams sent per wait, retries included.
    const PER_WAIT: RangeInclusive<f64> = 0.5..=10.0;
    let server_of = |sleep: &'a SleepTime| {
        let (of_udp, server) = sleep.object.as_deref()?.split_once(" to ")?;
        (of_udp.starts_with("udp") && waits::wait_of(sleep) == Wait::Input).then_some(server)
    };
    let mut shares = BTreeMap::<&str, f64>::new();
    for (server, share) in thread.asleep_on.iter().filter_map(|s| Some((server_of(s)?, s.share))) {
        *shares.entry(server).or_default() += share;
    }
    let (server, share) = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let [sent, arrived] = [facts.datagrams("OutDatagrams")?, facts.datagrams("InDatagrams")?];
    let waits = thread.voluntary_switches.max(1) as f64;
    // Datagrams without a reply may be of other kinds: those of syslog and statsd have none.
    let per_datagram = waits_for(facts, server) / sent.max(1) as f64;
    let wait_s = (share * thread.elapsed_s / waits).max(per_datagram);
    let is_silent = wait_s >= WAIT_S && sent > 0 && arrived as f64 <= ANSWERS * sent as f64;
    let replies = server.rsplit(':').next().is_some_and(|port| REPLYING.contains(&port));
    let asks = || !facts.is_unread("udp_datagrams") && PER_WAIT.contains(&(sent as f64 / waits));
    (is_silent && (replies || asks())).then_some(Silent { server, share, wait_s })
}

/// Returns the time in seconds that all threads together wait for datagrams of a server.
fn waits_for(facts: &Facts<'_>, server: &str) -> f64 {
    let is_meant = |sleep: &&SleepTime| {
        let object = sleep.object.as_deref().and_then(|object| object.split_once(" to "));
        object.is_some_and(|(of, to)| of.starts_with("udp") && to == server)
            && waits::wait_of(sleep) == Wait::Input
    };
    let of = |thread: &ThreadActivity| {
        let sleeps = thread.asleep_on.iter().filter(is_meant);
        thread.elapsed_s * sleeps.map(|sleep| sleep.share).sum::<f64>()
    };
    facts.observation.threads.iter().map(of).sum()
}

/// Returns a thread's sleeps on UDP sockets on which it may be waiting for replies, or for
/// datagrams that the program did not request: about as many arrive as are sent, as in a voice call
/// or a tunnel.
pub(super) fn on_udp_peers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Vec<&'a SleepTime> {
    /// Prefix of the objects of sleeps on sockets opened for one exchange: a request and its reply.
    const EXCHANGE: &str = "udp to ";
    let mut sleeps =
        sleeps_on_servers(facts, thread, |one| is_udp(one) && !asks(facts, thread, one));
    sleeps.retain(|sleep| !sleep.object.as_deref().is_some_and(|on| on.starts_with(EXCHANGE)));
    sleeps
}

/// Returns the sleeps of a thread on TCP connections with few exchanges, which may be long polls or
/// heartbeats.
pub(super) fn on_slow_servers<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Vec<&'a SleepTime> {
    sleeps_on_servers(facts, thread, |socket| {
        !is_udp(socket) && exchanges(socket) && !asks(facts, thread, socket)
    })
}

/// Returns whether the program sent something on a TCP connection that does not carry a stream.
fn exchanges(socket: &SocketCounts) -> bool {
    socket.tcp.as_ref().is_some_and(|tcp| tcp.bytes_acked > 0) && has_requests(socket)
}

/// Minimum number of messages per second to a server for the program to count as waiting for its
/// replies.
const PER_S: f64 = 5.0;

/// Returns whether the replies that a thread awaits on a TCP connection come within 0.2 s on
/// average, or the server uses CPU time meanwhile, or it is an SQL database. A server that replies
/// more slowly may have nothing to send yet, as with a long poll, or with a worker that waits for
/// its next job.
fn is_prompt(facts: &Facts<'_>, thread: &ThreadActivity, socket: &SocketCounts) -> bool {
    /// Minimum CPU time of a server on this machine that works on the request, in CPUs.
    const WORKS: f64 = 0.2;
    /// SQL Server, Oracle, MySQL and PostgreSQL.
    const SQL: [&str; 4] = ["1433", "1521", "3306", "5432"];
    let sent = socket.tcp.as_ref().and_then(|tcp| tcp.data_segments_out);
    let mut peers = facts.observation.peers.iter();
    let mut works = || peers.any(|peer| socket.peer_pid == Some(peer.pid) && peer.cpus >= WORKS);
    sent.is_none_or(|sent| sent as f64 >= PER_S * facts.elapsed())
        || opens_often(facts, thread, socket)
        || port(socket).is_some_and(|port| SQL.contains(&port))
        || works()
}

/// Returns the number of connections that are opened per second in the network namespace, if a
/// thread asks its server on many connections in turn; otherwise `None`.
pub(super) fn opened_per_s(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    /// Minimum number of brief connections that were seen.
    const FEW: usize = 3;
    let server = asked(facts, thread)?;
    let to_it = facts.connections().filter(|one| one.remote.as_deref() == Some(&server));
    let brief: Vec<bool> = to_it.map(|socket| opens_often(facts, thread, socket)).collect();
    let is_many = brief.len() >= FEW && brief.iter().all(|is_brief| *is_brief);
    let opened = facts.protocol("Tcp.ActiveOpens")? as f64 / facts.elapsed();
    is_many.then_some(opened)
}

/// Returns whether a connection may be one of many that a thread opens in turn, each for one
/// request: each then carries a few segments only.
fn opens_often(facts: &Facts<'_>, thread: &ThreadActivity, socket: &SocketCounts) -> bool {
    let opened = facts.protocol("Tcp.ActiveOpens").unwrap_or(0);
    Facts::readings(socket).is_none()
        && opened as f64 >= PER_S * facts.elapsed()
        && thread.voluntary_switches as f64 >= PER_S * thread.elapsed_s
}

fn port(socket: &SocketCounts) -> Option<&str> {
    socket.remote.as_deref().and_then(|remote| remote.rsplit(':').next())
}

/// Returns whether the program sends requests on a socket and waits for their replies; a program
/// that only receives data, such as a subscriber, sends none. A UDP socket counts if its server's
/// port is one of [`REPLYING`]. It also counts if the namespace's datagrams are the program's and
/// either a client waits for the program's reply, or about one datagram is sent per request that
/// arrives over TCP.
fn asks(facts: &Facts<'_>, thread: &ThreadActivity, socket: &SocketCounts) -> bool {
    let is_due = || requests::delayed(facts).is_some_and(|delayed| delayed.low >= DELAYED);
    if !is_udp(socket) {
        return exchanges(socket) && (is_prompt(facts, thread, socket) || is_due());
    }
    port(socket).is_some_and(|port| REPLYING.contains(&port))
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
