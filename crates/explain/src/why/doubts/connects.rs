// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection attempts of a program that are never answered.

use super::super::facts::Facts;
use super::super::roles::is_accepted;
use super::super::words::{label, percent};
use super::Doubt;
use linerate_record::why::{SocketCounts, SocketKind};
use std::collections::BTreeMap;

/// Detects a thread that waits for connections to an address that never answers, before the program
/// tries another: an IPv6 address without a route, or a server that is down.
pub(super) fn unanswered(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of attempts. Programs try a server that is down only now and then.
    const ATTEMPTS: u32 = 3;
    /// Minimum number of readings in which an attempt is seen: the server takes at least the time
    /// between two readings.
    const READS: u64 = 2;
    /// Minimum fraction of the time that the thread waits for connections to the address.
    const SHARE: f64 = 0.3;
    let mut attempts: BTreeMap<&str, u32> = BTreeMap::new();
    for socket in opened(facts).filter(|socket| is_attempt(socket)) {
        if let (Some(address), true) = (socket.remote.as_deref(), socket.reads >= Some(READS)) {
            *attempts.entry(address).or_default() += 1;
        }
    }
    let answers = |address: &str| {
        opened(facts).any(|socket| socket.remote.as_deref() == Some(address) && has_answer(socket))
    };
    let silent = attempts.into_iter().filter(|(at, n)| *n >= ATTEMPTS && !answers(at));
    let (address, attempts) = silent.max_by_key(|(_, attempts)| *attempts)?;
    let to = format!(" to {address}");
    let waits = facts.observation.threads.iter().map(|thread| {
        let is_to = |object: &String| object.ends_with(&to);
        let at_it =
            thread.asleep_on.iter().filter(|sleep| sleep.object.as_ref().is_some_and(is_to));
        (thread, at_it.map(|sleep| sleep.share).sum::<f64>())
    });
    let (thread, share) = waits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if share < SHARE {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell how fast the program would be if {address} answered: thread {} spends {} \
             % of the time asleep waiting for it, and none of {attempts} connection attempts was \
             answered. Programs that know several addresses try the next one only after a timeout.",
            label(thread),
            percent(share)
        ),
        "Check that the address is right and reachable (nc -vz HOST PORT; a firewall drops \
         silently); otherwise, remove it from DNS or from the list of servers, or shorten the \
         connect timeout",
    )?;
    Some(doubt.with("unanswered connection attempts", f64::from(attempts), "attempts"))
}

/// Iterates over the program's TCP sockets that were not accepted, such as outgoing connections.
fn opened<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a SocketCounts> {
    let sockets = facts.observation.sockets.iter();
    sockets.filter(|socket| socket.kind == SocketKind::Tcp && !is_accepted(facts, socket))
}

/// Returns whether segments were sent to open a connection, but the peer has not answered.
fn is_attempt(socket: &SocketCounts) -> bool {
    socket.tcp.as_ref().is_some_and(|tcp| tcp.segments_out > 0) && !has_answer(socket)
}

/// Returns whether the peer has ever sent a segment. A connection has a round-trip time from then
/// on.
fn has_answer(socket: &SocketCounts) -> bool {
    socket.tcp.as_ref().is_some_and(|tcp| tcp.segments_in > 0 || tcp.rtt_s > 0.0)
}
