// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to measure: the points of a sweep and the time to spend on them.

use crate::StreamError;
use crate::protocol::{MAX_BUFFER, MAX_CONNECTIONS, MAX_DATAGRAM, MAX_MESSAGE};
use linerate_record::stream::StreamMode;
use std::time::Duration;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// Traffic type.
    pub mode: StreamMode,
    /// Points of the sweep; at least one.
    pub points: Vec<Point>,
    /// Total measurement time of all tests.
    pub time: Duration,
    /// Number of rounds; each point is tested once per round.
    pub rounds: u64,
    /// Random seed for the order of the tests in a round.
    pub seed: u64,
    /// Whether the server sends.
    pub reverse: bool,
    /// Whether to send small segments without delay (TCP_NODELAY).
    pub nodelay: bool,
    /// Maximum send rate of each connection in bits per second; unlimited if `None`.
    pub rate_bits_per_s: Option<u64>,
    /// Pause of the sender after each message.
    pub write_pause: Duration,
    /// Pause of the receiver after each read.
    pub read_pause: Duration,
    /// Number of write calls per request.
    pub writes: u32,
    /// CPUs to which client and server are pinned; not pinned if `None`.
    pub cpus: Option<[u32; 2]>,
    /// Whether to compare methods of sending and receiving.
    pub compare: bool,
}

/// A point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Requested send buffer size in bytes; chosen by the kernel if `None`.
    pub send_buffer: Option<u32>,
    /// Requested receive buffer size in bytes; chosen by the kernel if `None`.
    pub receive_buffer: Option<u32>,
    /// Bytes per call, datagram or request.
    pub message: u32,
    /// Number of simultaneous connections.
    pub connections: u32,
}

/// Default message size of a TCP stream, in bytes. It is close to what file copies and iperf3 use
/// (128 KiB), and large enough that the cost of a system call no longer matters.
const STREAM_MESSAGE: u32 = 64 << 10;
/// Default datagram payload in bytes: the largest that fits in an Ethernet frame.
const DATAGRAM: u32 = 1472;
/// Default request size in bytes, as in netperf's TCP_RR.
const REQUEST: u32 = 1;

/// Buffer sizes of the default sweep: automatic, then from 8 KiB, half the default of the systems
/// in AN2581, up to 208 KiB, the default of net.core.wmem_max.
const BUFFERS: [Option<u32>; 7] = [
    None,
    Some(8 << 10),
    Some(16 << 10),
    Some(32 << 10),
    Some(64 << 10),
    Some(128 << 10),
    Some(208 << 10),
];
/// Message sizes of the default sweep, in addition to the default size.
const MESSAGES: [u32; 3] = [128, 1 << 10, 8 << 10];
const DATAGRAMS: [u32; 2] = [64, 8 << 10];

/// Returns the default message size of a mode, in bytes.
pub(crate) fn default_message(mode: StreamMode) -> u32 {
    match mode {
        StreamMode::Tcp => STREAM_MESSAGE,
        StreamMode::Udp => DATAGRAM,
        StreamMode::Request => REQUEST,
    }
}

/// Returns the points of a sweep. If `buffers` and `messages` are both empty, it first varies the
/// buffer size at the default message size, then the message size with automatic buffers.
/// Otherwise, it combines each buffer size with each message size; an empty list means the default.
pub fn sweep(
    mode: StreamMode,
    buffers: &[Option<u32>],
    messages: &[u32],
    connections: &[u32],
) -> Vec<Point> {
    let usual = default_message(mode);
    let point = |buffer: Option<u32>, message, connections| Point {
        send_buffer: buffer,
        receive_buffer: buffer,
        message,
        connections,
    };
    let is_default = buffers.is_empty() && messages.is_empty();
    let connections = if connections.is_empty() { &[1] } else { connections };
    let mut pairs: Vec<(Option<u32>, u32)> = Vec::new();
    match (is_default, mode) {
        (true, StreamMode::Request) => pairs.push((None, usual)),
        (true, _) => {
            let others: &[u32] = if mode == StreamMode::Udp { &DATAGRAMS } else { &MESSAGES };
            pairs.extend(BUFFERS.map(|buffer| (buffer, usual)));
            pairs.extend(others.iter().map(|message| (None, *message)));
        }
        (false, _) => {
            let buffers = if buffers.is_empty() { &[None] } else { buffers };
            let messages = if messages.is_empty() { &[usual] } else { messages };
            pairs.extend(buffers.iter().flat_map(|b| messages.iter().map(|m| (*b, *m))));
        }
    }
    let all = connections.iter().flat_map(|n| pairs.iter().map(move |(b, m)| point(*b, *m, *n)));
    all.collect()
}

impl Request {
    /// Returns the measurement time of one test of a point.
    pub(crate) fn visit(&self) -> Duration {
        let visits = self.points.len().max(1) as u64 * self.rounds.max(1);
        self.time.div_f64(visits as f64)
    }

    /// Checks the limits that the server enforces, so that violations are reported before anything
    /// runs.
    pub(crate) fn check(&self) -> Result<(), StreamError> {
        let invalid = |what: String| Err(StreamError::Invalid { what });
        let most = if self.mode == StreamMode::Udp { MAX_DATAGRAM } else { MAX_MESSAGE };
        for point in &self.points {
            if point.message == 0 || point.message > most {
                return invalid(format!(
                    "invalid message size of {} bytes: must be 1 to {most}",
                    point.message
                ));
            }
            if point.connections == 0 || point.connections > MAX_CONNECTIONS {
                return invalid(format!(
                    "invalid number of connections {}: must be 1 to {MAX_CONNECTIONS}",
                    point.connections
                ));
            }
            let buffers = [point.send_buffer, point.receive_buffer];
            if let Some(large) = buffers.into_iter().flatten().find(|bytes| *bytes > MAX_BUFFER) {
                return invalid(format!(
                    "invalid buffer size of {large} bytes: must be at most {MAX_BUFFER}"
                ));
            }
        }
        const LEAST: Duration = Duration::from_millis(20);
        if self.points.is_empty() || self.visit() < LEAST {
            return invalid(format!(
                "{} points in {} rounds leave only {:.0} ms per visit in {:.1} s; a visit takes at \
                 least {} ms: increase --time or measure fewer points",
                self.points.len(),
                self.rounds,
                self.visit().as_secs_f64() * 1e3,
                self.time.as_secs_f64(),
                LEAST.as_millis(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_combined_and_their_absence_is_a_star() {
        let all = sweep(StreamMode::Tcp, &[], &[], &[]);
        assert_eq!(all.len(), BUFFERS.len() + MESSAGES.len());
        assert_eq!((all[0].send_buffer, all[0].message), (None, STREAM_MESSAGE));
        let some = sweep(StreamMode::Tcp, &[None, Some(4096)], &[1, 2, 3], &[1, 2]);
        assert_eq!(some.len(), 12);
        assert_eq!(some[11].connections, 2);
        assert_eq!(sweep(StreamMode::Request, &[], &[], &[]).len(), 1);
        assert_eq!(sweep(StreamMode::Udp, &[Some(9)], &[], &[])[0].message, DATAGRAM);
    }
}
