// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection attempts of a program without an answer.

use super::super::facts::Facts;
use super::super::roles::is_accepted;
use super::super::words::percent;
use super::Doubt;
use linerate_record::why::SocketCounts;

/// Detects a program that tries an address again and again which never answers, before it uses
/// another: an IPv6 address without a route, or a server that is down.
pub(super) fn unanswered(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of attempts. A server that is down is tried once in a while.
    const ATTEMPTS: usize = 3;
    /// Minimum fraction of the time with such an attempt.
    const SHARE: f64 = 0.3;
    let is_silent = |socket: &&SocketCounts| {
        let tcp = socket.tcp.as_ref();
        !is_accepted(facts, socket)
            && tcp.is_some_and(|tcp| tcp.segments_out > 0 && tcp.segments_in == 0)
    };
    let sockets = facts.observation.sockets.iter();
    let silent: Vec<&SocketCounts> = sockets.filter(is_silent).collect();
    let address = silent.first()?.remote.as_deref()?;
    let to_it = silent.iter().filter(|socket| socket.remote.as_deref() == Some(address));
    let (attempts, reads) =
        to_it.fold((0, 0), |(n, reads), one| (n + 1, reads + one.reads.unwrap_or(0)));
    // Sockets are read at least once per slice.
    let share = (reads as f64 / f64::from(facts.observation.slices).max(1.0)).min(1.0);
    if attempts < ATTEMPTS || share < SHARE {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell how fast the program would be if {address} answered: in {} % of the \
             readings, a connection attempt to it had no answer ({attempts} attempts seen). \
             Programs that know several addresses try the next one only after a timeout.",
            percent(share)
        ),
        "Check that the address is right and reachable (nc -vz HOST PORT; a firewall drops \
         silently); otherwise, remove it from DNS or from the list of servers, or shorten the \
         connect timeout",
    )?;
    Some(doubt.with("readings with an unanswered connection attempt", share, "ratio"))
}
