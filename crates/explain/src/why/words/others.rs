// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in placeholders about other programs that a thread waits for.

use super::super::facts::Facts;
use super::super::measure::connections::always_sending;
use super::super::{roles, waits};
use super::milliseconds;
use linerate_record::units::BitsPerSecond;
use linerate_record::why::ThreadActivity;

/// Placeholders that this module fills in.
pub(super) const NAMES: &[&str] = &["asked_server", "round_trip", "pipe", "send"];

pub(super) fn value(name: &str, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    match name {
        "asked_server" => Some(roles::asked(facts, thread).unwrap_or_else(|| "a peer".to_owned())),
        "round_trip" => Some(round_trip(facts, thread).unwrap_or_default()),
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

/// Returns the value of a placeholder about the busiest connection that always has data to send.
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

/// Returns a remark about the distance of the server that a thread waits for; `None` if it is near.
fn round_trip(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    /// Minimum round-trip time that is reported, in seconds. It limits a connection with one
    /// request in flight to 500 requests per second.
    const LONG_S: f64 = 0.002;
    let asked = roles::asked(facts, thread)?;
    let to_it = facts.connections().filter(|one| one.remote.as_deref() == Some(asked.as_str()));
    let times = to_it.filter_map(|one| one.tcp.as_ref()).map(|tcp| tcp.min_rtt_s);
    let least = times.filter(|seconds| *seconds > 0.0).reduce(f64::min)?;
    (least >= LONG_S).then(|| {
        format!(
            " The network round trip to it takes {}, which a faster server would not shorten.",
            milliseconds(1e3 * least)
        )
    })
}
