// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for replies, or for messages that they did not ask for.

use super::super::asked;
use super::super::facts::Facts;
use super::super::roles;
use super::super::waits::{longest, named};
use super::super::words::{label, percent};
use super::Doubt;
use linerate_record::why::{SleepTime, ThreadActivity};

/// Detects a thread that waits for a server on a Unix domain socket.
pub(super) fn on_unix_servers(facts: &Facts<'_>) -> Option<Doubt> {
    let waits = |thread| roles::on_unix_servers(thread).collect();
    let (thread, share, sleep) = most_asleep(facts, waits)?;
    Doubt::new(
        format!(
            "Cannot tell whether thread {} is waiting for replies (waiting_for_peer) or for \
             messages that it did not ask for: it sleeps {} % of the time in {}, and the kernel \
             counts no requests on Unix domain sockets.",
            label(thread),
            percent(share),
            named(sleep)
        ),
        format!(
            "See whether it sends something before each wait: strace -f -r -e \
             trace=network,read,write -p {}",
            thread.tid
        ),
    )
}

/// Detects a thread that waits for a server on a TCP connection with few exchanges.
pub(super) fn on_slow_servers(facts: &Facts<'_>) -> Option<Doubt> {
    let (thread, share, sleep) =
        most_asleep(facts, |thread| asked::on_slow_servers(facts, thread))?;
    let is_udp = sleep.object.as_ref().is_some_and(|object| object.starts_with("udp "));
    let sends = match is_udp {
        true => {
            "; whether it sent a request there is unknown, because the kernel does not count \
             datagrams per socket"
        }
        false => {
            ", and sends at most a few messages per second there, as a client with a long poll or \
             a worker that asks for its next job does"
        }
    };
    Doubt::new(
        format!(
            "Cannot tell whether thread {} is waiting for replies (waiting_for_peer) or has \
             nothing to do: it sleeps {} % of the time in {}{sends}.",
            label(thread),
            percent(share),
            named(sleep)
        ),
        format!(
            "See what it sends before each wait: strace -f -r -e trace=network,read,write -p {}",
            thread.tid
        ),
    )
}

/// Detects a thread that waits for datagrams on a connected UDP socket, where as many arrive as are
/// sent.
pub(super) fn on_udp_peers(facts: &Facts<'_>) -> Option<Doubt> {
    let (thread, share, sleep) = most_asleep(facts, |thread| asked::on_udp_peers(facts, thread))?;
    Doubt::new(
        format!(
            "Cannot tell whether thread {} is waiting for replies (waiting_for_peer) or for a \
             stream that it did not ask for: it sleeps {} % of the time in {}, and about as many \
             datagrams are sent as received.",
            label(thread),
            percent(share),
            named(sleep)
        ),
        format!(
            "See whether it sends a request before each wait: strace -f -r -e trace=network -p {}",
            thread.tid
        ),
    )
}

/// Returns the thread that spends the largest fraction of time in the sleeps that `waits` selects,
/// that fraction, and the longest of these sleeps. Of threads other than the busiest, only those
/// that wake up now and then count.
fn most_asleep<'a>(
    facts: &Facts<'a>,
    waits: impl Fn(&'a ThreadActivity) -> Vec<&'a SleepTime>,
) -> Option<(&'a ThreadActivity, f64, &'a SleepTime)> {
    /// Minimum fraction of time in the selected sleeps.
    const MOST: f64 = 0.5;
    /// Minimum number of sleeps per second of a thread other than the busiest.
    const SLEEPS_PER_S: f64 = 5.0;
    let busiest = facts.busiest().map(|thread| thread.tid);
    let is_active = |thread: &&ThreadActivity| {
        Some(thread.tid) == busiest
            || thread.voluntary_switches as f64 >= SLEEPS_PER_S * facts.elapsed()
    };
    let active = facts.observation.threads.iter().filter(is_active);
    let waits = active.filter_map(|thread| {
        let sleeps = waits(thread);
        let share: f64 = sleeps.iter().map(|sleep| sleep.share).sum();
        Some((thread, share, longest(sleeps)?))
    });
    waits
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.tid.cmp(&a.0.tid)))
        .filter(|(_, share, _)| *share >= MOST)
}
