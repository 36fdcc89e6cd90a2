// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in placeholders about other programs that a thread waits for, or that run instead of it.

use super::super::facts::{Facts, SCHEDULER_OF_HOST};
use super::super::measure::connections::always_sending;
use super::super::{asked, waits};
use super::{milliseconds, percent};
use linerate_record::units::{BitsPerSecond, grouped};
use linerate_record::why::{RanInstead, ThreadActivity, Unread};

/// Placeholders that this module fills in.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "asked_server",
    "silent_server",
    "silent_wait",
    "asleep_on_silent",
    "round_trip",
    "reconnects",
    "keep_open",
    "pipe",
    "send",
];

pub(super) fn value(name: &str, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    match name {
        "silent_server" => Some(asked::silent(facts, thread)?.server.to_owned()),
        "asleep_on_silent" => Some(format!("{} %", percent(asked::silent(facts, thread)?.share))),
        "silent_wait" => Some(milliseconds(1e3 * asked::silent(facts, thread)?.wait_s)),
        "asked_server" => Some(asked::asked(facts, thread).unwrap_or_else(|| "a peer".to_owned())),
        "round_trip" => Some(round_trip(facts, thread).unwrap_or_default()),
        "reconnects" => Some(reconnects(facts, thread).unwrap_or_default()),
        "keep_open" => Some(match reconnects(facts, thread) {
            Some(_) => {
                "Keep connections open for many requests (keep-alive, TLS sessions), then keep"
                    .to_owned()
            }
            None => "Keep".to_owned(),
        }),
        "send" => {
            let sends = thread.asleep_on.iter().filter(|sleep| waits::is_to_peer(sleep));
            waits::longest(sends).map(waits::named)
        }
        "pipe" => {
            let writes = thread.asleep_on.iter().filter(|sleep| waits::is_to_reader(sleep));
            waits::longest(writes).map(waits::named)
        }
        _ => None,
    }
}

/// Placeholders of [`bulk`].
pub(super) const BULK: &[&str] = &["bulk", "bulk_peer", "bulk_rtt", "bulk_min_rtt", "bulk_rate"];

/// Returns the value of a placeholder about the busiest connection that always has data to send;
/// `None` if there is no such connection.
pub(super) fn bulk(name: &str, facts: &Facts<'_>) -> Option<String> {
    let (socket, tcp) = always_sending(facts).filter(|_| BULK.contains(&name))?;
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    Some(match name {
        "bulk" => format!("{} to {peer}", socket.local),
        "bulk_peer" => {
            let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
            host.trim_matches(['[', ']']).to_owned()
        }
        "bulk_rtt" => milliseconds(1e3 * tcp.rtt_s),
        "bulk_min_rtt" => milliseconds(1e3 * tcp.min_rtt_s),
        _ => BitsPerSecond(8.0 * tcp.bytes_acked as f64 / facts.elapsed()).to_string(),
    })
}

/// Returns a remark about connections that the thread opens for single requests; `None` if it opens
/// few.
fn reconnects(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let opened = asked::opened_per_s(facts, thread)?;
    Some(format!(
        " {} connections per second are opened in its network namespace, and none to that server \
         lasts: each costs round trips, and with TLS a handshake on both sides.",
        grouped(opened as u64)
    ))
}

/// Returns a remark about the distance of the server that a thread waits for; `None` if it is near.
fn round_trip(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    /// Minimum round-trip time that is reported, in seconds. It limits a connection with one
    /// request in flight to 500 requests per second.
    const LONG_S: f64 = 0.002;
    let asked = asked::asked(facts, thread)?;
    let to_it = facts.connections().filter(|one| one.remote.as_deref() == Some(asked.as_str()));
    let times = to_it.filter_map(|one| one.tcp.as_ref()).map(|tcp| tcp.min_rtt_s);
    let least = times.filter(|seconds| *seconds > 0.0).reduce(f64::min)?;
    (least >= LONG_S).then(|| {
        format!(
            " The network round trip to that server takes {}, which a faster server would not \
             shorten.",
            milliseconds(1e3 * least)
        )
    })
}

/// Describes the threads that ran on the thread's CPU while it waited.
pub(super) fn who(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    if thread.ran_instead.is_empty() {
        let cpu = thread.ran_on.first();
        let own = facts.observation.threads.iter().filter(|other| {
            other.tid != thread.tid && cpu.is_some() && other.ran_on.first() == cpu
        });
        let own: Vec<&str> =
            own.filter(|other| other.demand() > 0.1).map(|o| o.name.as_str()).take(2).collect();
        return match (own.as_slice(), facts.untraced()) {
            ([], Some(Unread { what, fix: Some(fix), .. })) if what == SCHEDULER_OF_HOST => {
                format!("{fix}, to see what ran on that CPU instead")
            }
            ([], Some(_)) => "run as root to see what ran on that CPU instead".to_owned(),
            ([], None) => "the thread that ran instead could not be identified".to_owned(),
            (names, _) => {
                format!("the program's own threads compete for that CPU ({})", names.join(", "))
            }
        };
    }
    let is_peer = |pid: u32| facts.observation.sockets.iter().any(|s| s.peer_pid == Some(pid));
    let peer = |one: &RanInstead| if one.pid.is_some_and(is_peer) { " (its peer)" } else { "" };
    // Several threads of the same name, such as a program's workers, are one entry.
    let mut sums: Vec<(String, f64)> = Vec::new();
    for one in &thread.ran_instead {
        let name = format!("{}{}", one.name, peer(one));
        match sums.iter_mut().find(|(other, _)| *other == name) {
            Some((_, seconds)) => *seconds += one.seconds,
            None => sums.push((name, one.seconds)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let longest = thread.ran_instead.iter().map(|one| one.longest_s).fold(0.0, f64::max);
    let named = sums.iter().take(3);
    let names: Vec<String> =
        named.map(|(name, seconds)| format!("{name} {}", milliseconds(seconds * 1e3))).collect();
    format!(
        "while the thread waited, that CPU ran {} (at most {} at a time)",
        names.join(", "),
        milliseconds(longest * 1e3)
    )
}
