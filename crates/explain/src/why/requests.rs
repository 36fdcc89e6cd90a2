// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that wait although the program has idle time.
//!
//! While a client waits for a reply, a thread of the program works on the request, or waits for a
//! CPU to do so, unless something else delays the reply: a lock, a timer, a disk, another server.
//! The fraction of time in which a reply is pending but all threads sleep is therefore at least the
//! fraction in which any reply is pending, minus the CPU demand of all threads together.
//!
//! All results are `None` if there were too few readings of the requests.

use super::facts::{Facts, counted, sampled};
use super::roles::{is_accepted, servers};
use linerate_record::stats::Estimate;
use linerate_record::why::{RequestCounts, ThreadActivity};

/// Minimum fraction of time in which a reply is pending but all threads sleep. Below it, the
/// program's own work may account for that time.
pub(super) const DELAYED: f64 = 0.3;

/// Minimum number of readings from which shares are computed. Short-lived connections are looked
/// for only two or three times per second; the interval of a share allows for the small number.
const READINGS_MIN: u64 = 5;

/// Shortest mean delay per request that is reported, in seconds. Waking a thread takes up to this
/// long on a virtual machine with idle CPUs, and is not part of the thread's CPU demand.
const SHORTEST_S: f64 = 2e-4;

/// Returns the request counts of an observation; `None` if there are too few readings.
pub(super) fn counts<'a>(facts: &Facts<'a>) -> Option<&'a RequestCounts> {
    facts.observation.requests.as_ref().filter(|counts| counts.readings >= READINGS_MIN)
}

/// Returns the fraction of time in which a reply is pending while all threads sleep; 0 if a request
/// waits only for a moment, and `None` without enough readings.
pub(super) fn delayed(facts: &Facts<'_>) -> Option<Estimate> {
    let counts = counts(facts)?;
    let pending = sampled(counts.pending_share, counts.readings);
    let ended = facts.observation.ended_threads_cpus.unwrap_or(0.0);
    let demand = |thread: &ThreadActivity| facts.part_of_window(thread) * thread.demand();
    let demand: f64 = facts.observation.threads.iter().map(demand).sum();
    let without = |share: f64| (share - demand - ended).max(0.0);
    let requests = match (counts.requests, on_brief_connections(facts)) {
        (0, brief) => brief,
        (lasting, brief) => Some(lasting.max(brief.unwrap_or(0))),
    };
    let each_s = |requests: u64| without(pending.value) * facts.elapsed() / requests as f64;
    if requests.is_some_and(|requests| requests > 0 && each_s(requests) < SHORTEST_S) {
        return Some(Estimate::exactly(0.0));
    }
    let Estimate { value, low, high, .. } = pending;
    Some(Estimate { value: without(value), low: without(low), high: without(high), ..pending })
}

/// Returns the minimum number of requests on connections that last for only a few readings: one per
/// connection, including those that other programs accepted; `None` if most connections last.
fn on_brief_connections(facts: &Facts<'_>) -> Option<u64> {
    let accepted = facts.connections().filter(|socket| is_accepted(facts, socket));
    let (brief, lasting): (Vec<_>, Vec<_>) =
        accepted.partition(|socket| Facts::readings(socket).is_none());
    facts.protocol("Tcp.PassiveOpens").filter(|_| brief.len() > lasting.len())
}

/// Returns whether the clients' requests consist of several segments on average, so that part of a
/// request may be missing while it counts as pending.
pub(super) fn are_long(facts: &Facts<'_>) -> bool {
    /// Segments with data per request; more than one shows that some requests are split.
    const SEGMENTS: f64 = 1.5;
    let accepted = facts.connections().filter(|socket| is_accepted(facts, socket));
    let tcps = accepted.filter_map(|socket| socket.tcp.as_ref());
    let received: u64 = tcps.filter_map(|tcp| tcp.data_segments_in).sum();
    counts(facts).is_some_and(|counts| {
        counts.requests > 0 && received as f64 >= SEGMENTS * counts.requests as f64
    })
}

/// Returns the number of readings on which the counts of requests at servers are based.
fn readings_of_servers(counts: &RequestCounts) -> u64 {
    counts.server_readings.unwrap_or(counts.readings)
}

/// Returns the fraction of readings in which a request had been waiting for 4 ms or longer.
pub(super) fn late(facts: &Facts<'_>) -> Option<Estimate> {
    counts(facts).map(|counts| sampled(counts.late_share, counts.readings))
}

/// Removes the upper bound of a share of waits for servers if it is unknown on some connections
/// whether the program waits there.
fn with_undetermined(counts: &RequestCounts, known: Estimate) -> Estimate {
    match counts.undetermined_at_servers {
        None | Some(0) => known,
        Some(_) => Estimate { high: 1.0, ..known },
    }
}

/// Returns the fraction of time in which a client waits for a reply while the program waits for a
/// reply from another server.
pub(super) fn awaiting_servers(facts: &Facts<'_>) -> Option<Estimate> {
    let counts = counts(facts)?;
    let known = sampled(counts.awaiting_share, readings_of_servers(counts));
    Some(with_undetermined(counts, known))
}

/// Returns the fraction of time in which a client waits for a reply while the program waits for a
/// server to accept a connection.
pub(super) fn opening_to_servers(facts: &Facts<'_>) -> Option<Estimate> {
    let counts = counts(facts)?;
    Some(sampled(counts.opening_share?, readings_of_servers(counts)))
}

/// Returns the mean number of requests that are at other servers, or waiting for a connection to
/// one, relative to the mean number of clients that wait for a reply. If the ratio is small, most
/// requests wait for something else first.
pub(super) fn pending_at_servers(facts: &Facts<'_>) -> Option<Estimate> {
    let counts = counts(facts).filter(|counts| counts.pending_mean > 0.0)?;
    let opening = counts.opening_share.map_or(0.0, |_| opening(facts)).min(counts.awaiting_mean);
    if 2 * counts.undetermined.unwrap_or(0) > counts.connections {
        return None;
    }
    let share = ((counts.awaiting_mean + opening) / counts.pending_mean).min(1.0);
    Some(with_undetermined(counts, sampled(share, readings_of_servers(counts))))
}

/// Returns the mean number of connections to other servers that are being opened, by Little's law:
/// each takes a round trip. 0 if most connections last. Connections opened by other programs count
/// too. Those that take 100 ms or longer to open also count as awaited servers, so adding both
/// gives an upper bound.
fn opening(facts: &Facts<'_>) -> f64 {
    let (brief, lasting): (Vec<_>, Vec<_>) =
        servers(facts).partition(|socket| Facts::readings(socket).is_none());
    let times = brief.iter().filter_map(|socket| Some(socket.tcp.as_ref()?.min_rtt_s));
    let times: Vec<f64> = times.filter(|time| *time > 0.0).collect();
    let opened = facts.protocol("Tcp.ActiveOpens").filter(|_| brief.len() > lasting.len());
    let round_trip = times.iter().sum::<f64>() / times.len().max(1) as f64;
    opened.map_or(0.0, |opened| opened as f64 * round_trip / facts.elapsed())
}

/// Returns the mean number of clients that wait for a reply, beyond the number of connections to
/// other servers. If each connection carries one request at a time, that many requests wait for
/// something else first.
pub(super) fn queued_for_servers(facts: &Facts<'_>) -> Option<Estimate> {
    let counts = counts(facts)?;
    let readings = counts.readings as f64;
    let pending = counted((counts.pending_mean * readings).round() as u64, readings)?;
    Some(pending.minus(Estimate::exactly(servers(facts).count() as f64)))
}

/// Returns [`queued_for_servers`] per connection to other servers; `None` if there are no such
/// connections.
pub(super) fn queued_per_server(facts: &Facts<'_>) -> Option<f64> {
    let servers = Some(servers(facts).count()).filter(|servers| *servers > 0)?;
    Some((queued_for_servers(facts)?.value / servers as f64).max(0.0))
}

/// Returns the server whose replies the program awaits most often; `None` if it was seen to await
/// none.
pub(super) fn server<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    counts(facts)?.server.as_deref()
}
