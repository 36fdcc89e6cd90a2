// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies sent in many small segments, which cost the client as much as the program.

use super::super::facts::Facts;
use super::super::roles::is_accepted;
use super::Doubt;
use linerate_record::units::three_digits;

/// Detects replies that the program writes in many small pieces. Each of them costs both ends a
/// system call, so either end may be the bottleneck although the program has idle time.
pub(super) fn replies(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of segments with data sent per segment with a request.
    const SEGMENTS: f64 = 30.0;
    /// Maximum payload per segment in bytes. Programs that collect a reply before they send it fill
    /// segments of the MSS, at least 536 bytes.
    const BYTES: f64 = 256.0;
    /// Minimum number of segments sent per second: at 2 us each, 2 % of a CPU.
    const PER_S: f64 = 10_000.0;
    /// Minimum number of requests per second on a connection. A feed has its own rate, and its
    /// subscribers send no more than a sign of life now and then.
    const REQUESTS_PER_S: f64 = 1.0;
    let accepted = facts.connections().filter(|socket| is_accepted(facts, socket));
    let (mut requests, mut segments, mut bytes) = (0, 0, 0);
    let per_s = |count: u64| count as f64 / facts.elapsed();
    for tcp in accepted.filter_map(|socket| socket.tcp.as_ref()) {
        let asked = tcp.data_segments_in?;
        if per_s(asked) >= REQUESTS_PER_S {
            requests += asked;
            segments += tcp.data_segments_out?;
            bytes += tcp.bytes_acked;
        }
    }
    if requests == 0 || per_s(segments) < PER_S {
        return None;
    }
    let (each, payload) = (segments as f64 / requests as f64, bytes as f64 / segments as f64);
    if each < SEGMENTS || payload > BYTES {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell whether the clients' work for small segments limits the rate: the program \
             sends {} segments of {} bytes per request received, and each of them may cost both \
             ends a system call, and with TLS a record.",
            three_digits(each),
            three_digits(payload)
        ),
        "Collect a reply in a buffer and send it with one call (writev, MSG_MORE, a buffered \
         stream; with TLS, up to 16 KiB per record), and compare the rates",
    )?;
    Some(doubt.with("segments sent per request", each, "segments"))
}
