// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of TCP connections.

use super::super::facts::{Facts, Subject, counted, sampled, share};
use super::super::roles::is_accepted;
use super::counts::{bytes, of_rate, peer_window};
use super::flows::flows;
use super::opened::{cost, own_opened};
use super::{Measure, costs};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, TcpCounts};

impl Measure {
    pub(super) fn of_tcp<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let elapsed = facts.elapsed();
        match (self, subject) {
            (Self::WindowLimited, _) => {
                Some(facts.tcp_share(|tcp| tcp.rwnd_limited_s)?.scale(1.0 / elapsed))
            }
            (Self::SendBufferLimited, _) => {
                Some(facts.tcp_share(|tcp| tcp.sndbuf_limited_s)?.scale(1.0 / elapsed))
            }
            (Self::PeerWindow, _) => peer_window(facts),
            (Self::Resent, _) => lost(facts),
            (Self::RoundTripGrowth, _) => queued(facts, |tcp| tcp.rtt_s / tcp.min_rtt_s),
            (Self::QueueingDelay, _) => queued(facts, |tcp| 1e3 * (tcp.rtt_s - tcp.min_rtt_s)),
            (Self::AppLimited, _) => app_limited(facts),
            (Self::Held, Subject::Socket(socket)) => held(socket, elapsed),
            (Self::Corked, Subject::Socket(socket)) => corked(facts, socket),
            (Self::OfPacingLimit, Subject::Socket(socket)) => {
                let tcp = socket.tcp.as_ref()?;
                let limit = tcp.pacing_limit_bytes_per_s.filter(|limit| *limit > 0.0)?;
                Some(share(tcp.bytes_acked as f64 / elapsed / limit))
            }
            (Self::OneWay, _) => {
                // Computed per connection: a relay's connections carry data one way each, but both
                // ways taken together.
                let (most, all) = sums(facts, |tcp| {
                    let (received, acked) = (tcp.bytes_received, tcp.bytes_acked);
                    (received.max(acked), received + acked)
                });
                (all > 0).then(|| Estimate::exactly(most as f64 / all as f64))
            }
            (Self::ReceiveBuffer, Subject::Socket(socket)) => {
                Some(Estimate::exactly(socket.receive_buffer? as f64))
            }
            (Self::ReceiveBufferOfRate, Subject::Socket(socket)) => {
                let tcp = socket.tcp.as_ref()?;
                let rate = tcp.bytes_received as f64 / elapsed;
                Some(of_rate(socket.receive_buffer? as f64, rate, tcp))
            }
            (Self::ReceivedBytes, Subject::Socket(socket)) => {
                counted(socket.tcp.as_ref()?.bytes_received, elapsed)
            }
            (Self::BytesPerSegment, _) => {
                let (bytes, segments) = sums(facts, |tcp| (tcp.bytes_acked, tcp.segments_out));
                (segments > 0).then(|| Estimate::exactly(bytes as f64 / segments as f64))
            }
            (Self::ConnectionsPerSecond, _) => counted(own_opened(facts)?, elapsed),
            (Self::SegmentsPerConnection, _) => {
                let opened = own_opened(facts).filter(|opened| *opened > 0)?;
                counted(facts.protocol("Tcp.InSegs")?, opened as f64)
            }
            (Self::BytesPerConnection, _) => {
                let opened = own_opened(facts)?.max(facts.connections().count() as u64).max(1);
                Some(Estimate::exactly(bytes(facts)? as f64 / opened as f64))
            }
            (Self::Answers, _) => {
                let mut tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
                let answers = tcps.any(|tcp| tcp.bytes_received > 0 && tcp.bytes_acked > 0);
                Some(Estimate::exactly(f64::from(answers)))
            }
            (Self::SegmentTime, _) => costs::segments(facts),
            (Self::ChecksumTime, _) => {
                let parts = costs::segments(facts)?.plus(costs::checksums(facts)?);
                Some(costs::at_most_all(parts))
            }
            (Self::ConnectionTime, _) => cost(facts),
            (
                Self::HerdThreads | Self::HerdSleeps | Self::HerdPerConnection | Self::HerdTime,
                _,
            ) => self.of_herd(facts),
            (Self::Flows, _) => flows(facts),
            _ => self.of_servers(facts),
        }
    }
}

/// Returns the fraction of sent segments that were lost and retransmitted; `None` if the kernel
/// does not report spurious retransmissions.
fn lost(facts: &Facts<'_>) -> Option<Estimate> {
    let mut tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    if tcps.any(|tcp| tcp.needless.is_none()) {
        return None;
    }
    let (lost, sent) = sums(facts, |tcp| (lost_on(tcp), tcp.segments_out));
    counted(lost, sent as f64)
}

/// Returns the fraction of readings in which connections had nothing left to send, capped at the
/// fraction of time in which they did not wait for the retransmission of a lost segment. A client
/// that waits for each reply has nothing more to send either, but a loss holds it up.
fn app_limited(facts: &Facts<'_>) -> Option<Estimate> {
    let marked = facts.tcp_share(|tcp| tcp.app_limited_share);
    match (marked, 1.0 - stalled_by_losses(facts)) {
        (Some(marked), free) if free < marked.value => Some(share(free)),
        (None, free) if free < 1.0 => Some(share(free)),
        (marked, _) => marked,
    }
}

/// Returns the fraction of time that connections with requests and replies wait for a
/// retransmission timeout. With no other segments in flight, no acknowledgement reveals the loss
/// sooner.
fn stalled_by_losses(facts: &Facts<'_>) -> f64 {
    /// Minimum retransmission timeout of Linux, in seconds (TCP_RTO_MIN).
    const TIMEOUT_S: f64 = 0.2;
    /// Maximum ratio of the sum of the timeouts to the elapsed time. Timeouts of a connection
    /// follow one another, so if their sum is greater, most losses were repaired sooner.
    const SUM: f64 = 1.25;
    let elapsed = facts.elapsed();
    let stalled = |tcp: &TcpCounts| {
        let sum = TIMEOUT_S * lost_on(tcp) as f64 / elapsed;
        // During a timeout, the lost segment is unacknowledged.
        let busy = tcp.busy_s / elapsed;
        if sum <= SUM { sum.min(busy).min(1.0) } else { 0.0 }
    };
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let both = tcps.filter(|tcp| tcp.bytes_received > 0 && tcp.bytes_acked > 0);
    let (sum, number) = both.map(stalled).fold((0.0, 0), |(sum, n), one| (sum + one, n + 1));
    sum / f64::from(number.max(1))
}

/// Returns the segments of a connection that were lost and retransmitted.
pub(in super::super) fn lost_on(tcp: &TcpCounts) -> u64 {
    tcp.retransmitted.saturating_sub(tcp.needless.unwrap_or(0))
}

/// Returns the connection that transferred the most bytes of those that always have data to send;
/// `None` if there are none.
pub(in super::super) fn always_sending<'a>(
    facts: &Facts<'a>,
) -> Option<(&'a SocketCounts, &'a TcpCounts)> {
    const MOST: f64 = 0.5;
    let sends = facts.connections().filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    let mut sends: Vec<_> = sends
        .filter(|(_, tcp)| tcp.bytes_acked > tcp.bytes_received && tcp.app_limited_share < MOST)
        .collect();
    let is_busy = |busy_s: f64| busy_s >= MOST * facts.elapsed();
    let together: f64 = sends.iter().map(|(_, tcp)| tcp.busy_s).sum();
    if sends.iter().any(|(_, tcp)| is_busy(tcp.busy_s)) {
        sends.retain(|(_, tcp)| is_busy(tcp.busy_s));
    } else if !is_busy(together) || !are_successive(facts, &sends) {
        return None;
    }
    sends.into_iter().max_by_key(|(_, tcp)| tcp.bytes_acked)
}

/// Returns whether connections existed one after another, as with a client that opens one
/// connection per request. This is the case if all connections together were read hardly more often
/// than the most frequently read socket.
fn are_successive(facts: &Facts<'_>, connections: &[(&SocketCounts, &TcpCounts)]) -> bool {
    /// Factor that allows for one extra reading at each change of connection.
    const MORE: f64 = 1.2;
    let reads = |socket: &SocketCounts| socket.reads.unwrap_or(0);
    let together: u64 = connections.iter().map(|(socket, _)| reads(socket)).sum();
    let most = facts.observation.sockets.iter().map(reads).max().unwrap_or(0);
    together as f64 <= MORE * most as f64
}

/// Returns a value derived from the RTT of the busiest sending connection, if that connection
/// carries most of the program's bytes; `None` if the RTT varies by as much as it exceeds its
/// minimum, as on radio links. The kernel's smoothed RTT is read only once. CUBIC lowers its window
/// by 30 % on a loss, which also shortens the queue, so at other times the RTT may be longer or
/// shorter by a factor of up to 1 / 0.7.
fn queued(facts: &Facts<'_>, value: impl Fn(&TcpCounts) -> f64) -> Option<Estimate> {
    const DECREASE: f64 = 0.7;
    /// Number of mean deviations that a single round trip rarely exceeds.
    const DEVIATIONS: f64 = 4.0;
    let (_, tcp) = always_sending(facts)?;
    let (all, _) = sums(facts, |tcp| (tcp.bytes_acked, 0));
    let is_steady = tcp.rtt_s - DEVIATIONS * tcp.rtt_variation_s? > tcp.min_rtt_s;
    let is_meant = 2 * tcp.bytes_acked >= all && tcp.min_rtt_s > 0.0 && is_steady;
    let value = is_meant.then(|| value(tcp))?;
    Some(Estimate { low: DECREASE * value, high: value / DECREASE, ..Estimate::exactly(value) })
}

/// Sums two values over all connections with traffic.
fn sums(facts: &Facts<'_>, of: impl Fn(&TcpCounts) -> (u64, u64)) -> (u64, u64) {
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    tcps.map(of).fold((0, 0), |(a, b), (one, other)| (a + one, b + other))
}

/// Returns the fraction of readings in which a connection held back a small segment. On a
/// connection that sends many segments per second, the next acknowledgement soon releases it.
fn held(socket: &SocketCounts, elapsed: f64) -> Option<Estimate> {
    /// Maximum segments per second of a stalling connection. With stalls of 40 ms, there are 25
    /// exchanges per second, each of a few segments.
    const MANY: f64 = 1000.0;
    let tcp = socket.tcp.as_ref()?;
    let share = if tcp.segments_out as f64 > MANY * elapsed { 0.0 } else { tcp.held_share? };
    Some(sampled(share, Facts::readings(socket)?))
}

/// Returns the fraction of readings in which the program held back a small segment of a connection.
/// A proxy does so until its server has sent the rest, and then the server is the cause. The kernel
/// holds the segment for 200 ms, so a stalling connection has few exchanges per second.
fn corked(facts: &Facts<'_>, socket: &SocketCounts) -> Option<Estimate> {
    /// Maximum segments per second of a stalling connection: 5 exchanges, each of up to 4 segments.
    const MANY: f64 = 20.0;
    let tcp = socket.tcp.as_ref()?;
    let is_fast = tcp.segments_out as f64 > MANY * facts.elapsed();
    let is_of_proxy =
        is_accepted(facts, socket) && facts.connections().any(|other| !is_accepted(facts, other));
    let share = if is_fast || is_of_proxy { 0.0 } else { tcp.corked_share? };
    Some(sampled(share, Facts::readings(socket)?))
}
