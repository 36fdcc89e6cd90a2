// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `stream` record: streams between two sockets of the host's own network stack,
//! measured at each point of a sweep, and what limited them.
//!
//! Sender and receiver are separate processes. Their CPU times are those of the threads that send
//! or receive.

use crate::figure::Figure;
use crate::kernels::Skipped;
use crate::why::WhyFinding;
use serde::{Deserialize, Serialize};

/// Measurements of streams between two sockets, over a sweep of buffer and message sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamReport {
    /// Traffic type.
    pub mode: StreamMode,
    /// Location of sender and receiver.
    pub path: StreamPath,
    /// Whether the server sends and the client receives.
    pub reverse: bool,
    /// Number of rounds: each visits every point once, in random order.
    pub rounds: u64,
    /// Measurement time per visit in milliseconds, after the warm-up.
    #[serde(serialize_with = "crate::finite")]
    pub visit_ms: f64,
    /// Random seed for the order of visits.
    pub seed: u64,
    /// The points of the sweep, ordered by buffer size, then by message size.
    pub points: Vec<StreamPoint>,
    /// Index of the point that the findings explain: the one with automatic buffers and the default
    /// message size or, if it was not measured, the fastest one. `null` if no point was measured.
    pub explained: Option<u64>,
    /// Methods of sending and receiving, compared with plain calls; empty unless requested.
    pub methods: Vec<StreamMethod>,
    /// What limits the explained point: the first finding is the answer.
    pub findings: Vec<WhyFinding>,
    /// Parts that were left out, and why.
    pub skipped: Vec<Skipped>,
    /// Error that ended the measurement early; `null` if it is complete.
    pub ended_by: Option<String>,
    /// Whether the user stopped the measurement early.
    pub interrupted: bool,
}

/// Traffic type of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// TCP, one direction.
    Tcp,
    /// UDP datagrams, one direction.
    Udp,
    /// TCP request/response, one request in flight per connection.
    Request,
}

impl StreamMode {
    /// Returns the keyword used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Request => "request",
        }
    }
}

/// Location of a stream's sender and receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPath {
    /// How sender and receiver are connected.
    pub kind: StreamPathKind,
    /// Interface that the sender sends through, on the server's host if the server sends; `null` if
    /// unknown.
    pub interface: Option<String>,
    /// Whether a CPU computed the payload checksums; `null` if unreadable.
    pub software_checksum: Option<bool>,
    /// Whether checksums were computed, and why, in a sentence.
    pub checksum: String,
    /// Rate limit of the queueing discipline on the sender's interface, in bits per second; `null`
    /// if there is none or it could not be read.
    pub qdisc_bits_per_s: Option<f64>,
}

/// Kinds of connection between sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamPathKind {
    /// The loopback interface.
    Loopback,
    /// Two network namespaces on this machine.
    Namespaces,
    /// Another host.
    Network,
}

/// Results at one point of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPoint {
    /// Requested send buffer size in bytes; `null` for autotuning by the kernel.
    pub send_buffer_bytes: Option<u64>,
    /// Requested receive buffer size in bytes; `null` for autotuning by the kernel.
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes per send call and per receive call; for requests, the size of each request.
    pub message_bytes: u64,
    /// Number of concurrent connections.
    pub connections: u64,
    /// Payload received, in gigabits per second.
    pub gbps: Figure,
    /// Service demand: CPU time of both sides, in microseconds per 1024 bytes received.
    pub cpu_us_per_kb: Figure,
    /// Requests answered per second; absent unless requests were sent.
    pub requests_per_s: Figure,
    /// Median time from a request to its reply, in microseconds; absent unless requests were sent.
    pub round_trip_us: Figure,
    /// CPU time and other measurements of the sender.
    pub sender: StreamSide,
    /// CPU time and other measurements of the receiver.
    pub receiver: StreamSide,
    /// CPU time of the whole machine during the visits; of the client's machine, if there are two.
    pub machine: StreamMachine,
    /// TCP_INFO readings at the sender; `null` for UDP, and if the kernel does not report them.
    pub tcp: Option<StreamTcp>,
    /// Datagrams sent, refused, received, dropped and lost; `null` for TCP.
    pub udp: Option<StreamUdp>,
    /// Keyword of the cause that limited the point: `sender_cpu`, `receiver_cpu`, `receive_window`,
    /// `send_buffer`, `congestion_window`, `sender_pause`, `receiver_pause`, `rate_limit`,
    /// `receive_buffer`, `round_trip`, `wake_ups` or `cannot_tell`.
    pub limited_by: String,
    /// Keyword of the cause found at this point, as in `finding` of a `why` record.
    pub finding: String,
}

/// Measurements of the sender or the receiver of a stream. Shares are fractions of the measurement
/// time; 1 is one fully used CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamSide {
    /// CPU time of the program's threads that send or receive.
    pub cpu: Figure,
    /// Part of the CPU time spent in user mode.
    #[serde(serialize_with = "crate::finite")]
    pub user: f64,
    /// Part of the CPU time spent in the kernel, including softirqs that ran in the context of the
    /// program's threads.
    #[serde(serialize_with = "crate::finite")]
    pub system: f64,
    /// CPU time in microseconds per 1024 bytes of payload.
    pub cpu_us_per_kb: Figure,
    /// Time that the program's threads were runnable but waiting for a CPU; `null` if the kernel
    /// does not account for it.
    pub waiting: Option<f64>,
    /// Time that the program paused at the user's request.
    #[serde(serialize_with = "crate::finite")]
    pub paused: f64,
    /// System calls per MiB of payload.
    #[serde(serialize_with = "crate::finite")]
    pub calls_per_mb: f64,
    /// Context switches per MiB of payload.
    #[serde(serialize_with = "crate::finite")]
    pub switches_per_mb: f64,
    /// Mean bytes per call that moved data; 0 if no call did.
    #[serde(serialize_with = "crate::finite")]
    pub bytes_per_call: f64,
    /// CPUs on which the program's threads were seen.
    pub cpus: Vec<u32>,
    /// Number of CPUs on which the program's threads may run.
    pub allowed_cpus: u64,
    /// Size of the program's socket buffer in bytes, as accounted by the kernel: the send buffer of
    /// the sender, or the receive buffer of the receiver; `null` if unknown.
    pub buffer_bytes: Option<u64>,
}

/// Shares of a machine's total CPU time, 0 to 1; `null` if unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamMachine {
    /// Number of online CPUs.
    pub cpus: u64,
    /// Share of time in user mode.
    pub user: Option<f64>,
    /// Share of time in the kernel, excluding interrupts and softirqs.
    pub system: Option<f64>,
    /// Share of time in interrupts and softirqs.
    pub softirq: Option<f64>,
    /// Share of time spent idle.
    pub idle: Option<f64>,
    /// Share of time used by neither sender nor receiver: other programs, and interrupts outside
    /// their threads.
    pub others: Option<f64>,
}

/// TCP_INFO of the sender's connections over the measurement time. Shares are fractions of that
/// time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamTcp {
    /// Share of the time with data in flight or waiting to be sent.
    #[serde(serialize_with = "crate::finite")]
    pub busy: f64,
    /// Share of the time in which the receiver's window limited the sender.
    #[serde(serialize_with = "crate::finite")]
    pub rwnd_limited: f64,
    /// Share of the time in which the send buffer limited the sender.
    #[serde(serialize_with = "crate::finite")]
    pub sndbuf_limited: f64,
    /// Segments with payload.
    pub segments: u64,
    /// Mean payload per segment in bytes. Segments are those on the wire, not the larger ones that
    /// TCP hands to an interface with segmentation offload.
    #[serde(serialize_with = "crate::finite")]
    pub segment_bytes: f64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmitted segments that the receiver already had (DSACK), for example because it was not
    /// scheduled for a while; `null` if unknown.
    pub needless: Option<u64>,
    /// Segments that the receivers' sockets dropped; `null` if unknown.
    pub receiver_drops: Option<u64>,
    /// Mean congestion window over all readings, in segments of `mss_bytes`.
    #[serde(serialize_with = "crate::finite")]
    pub cwnd: f64,
    /// Maximum segment size (MSS) on the wire, in bytes.
    pub mss_bytes: u64,
    /// Smoothed round-trip time in microseconds, averaged over all readings.
    #[serde(serialize_with = "crate::finite")]
    pub rtt_us: f64,
    /// Shortest round-trip time in microseconds.
    #[serde(serialize_with = "crate::finite")]
    pub min_rtt_us: f64,
    /// Largest window that the receiver advertised in any reading, in bytes; `null` if unknown.
    pub peer_window_bytes: Option<u64>,
    /// Whether both ends use window scaling.
    pub window_scaling: bool,
    /// Share of readings in which TCP held back data already written to the socket.
    #[serde(serialize_with = "crate::finite")]
    pub held_back: f64,
    /// Pacing limit of the socket in bits per second; `null` if it has none.
    pub pacing_bits_per_s: Option<f64>,
}

/// Datagrams of a UDP stream: sent, refused, received, dropped and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamUdp {
    /// Datagrams that the kernel accepted from the sender.
    pub sent: u64,
    /// Datagrams that the kernel refused because a queue was full (ENOBUFS).
    pub refused: u64,
    /// Datagrams that the receiver read.
    pub received: u64,
    /// Datagrams dropped because the receiver's socket buffer was full; `null` if unknown.
    pub buffer_drops: Option<u64>,
    /// Datagrams lost in transit: neither received nor dropped at the buffer; `null` if unknown.
    pub lost: Option<u64>,
    /// Rate at which the sender was paced, in bits per second; `null` if it was not paced.
    pub paced_bits_per_s: Option<u64>,
}

/// A method of sending and receiving, compared with plain calls in the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamMethod {
    /// Name: `send`, `sendfile`, `zerocopy`, `io_uring`, `udp_send`, `mmsg`, `udp_io_uring`, `gso`
    /// or `gso_gro`.
    pub name: String,
    /// Plain method with which this one is compared; `null` for the plain method itself.
    pub compared_with: Option<String>,
    /// Bytes per message.
    pub message_bytes: u64,
    /// Payload received, in gigabits per second.
    pub gbps: Figure,
    /// CPU time of sender and receiver, in microseconds per 1024 bytes received.
    pub cpu_us_per_kb: Figure,
    /// Throughput relative to the plain method.
    pub speed: Figure,
    /// Service demand relative to the plain method; lower is better.
    pub demand: Figure,
    /// Share of both sides' CPU time spent copying data, 0 to 1; `null` in older records.
    #[serde(default)]
    pub copy_share: Option<Figure>,
    /// Note on using this method on this path; `null` if there is none.
    pub note: Option<String>,
}

impl StreamReport {
    /// Returns the point that the findings explain; `None` if no point was measured.
    pub fn explained(&self) -> Option<&StreamPoint> {
        self.points.get(usize::try_from(self.explained?).ok()?)
    }

    /// Returns the fastest point; `None` if no point was measured.
    pub fn fastest(&self) -> Option<&StreamPoint> {
        let rate = |point: &&StreamPoint| point.gbps.as_number().unwrap_or(0.0);
        self.points.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// Returns the point with the smallest fixed buffer among the points whose throughput is within
    /// `slack` (0 to 1) of the fastest. Considers only points with the same message size and number
    /// of connections as the explained one, and with equal buffers at both ends. Excludes points
    /// that lose more than `slack` of their datagrams. `None` if no point with a fixed buffer is
    /// fast enough.
    pub fn enough_buffer(&self, slack: f64) -> Option<&StreamPoint> {
        let explained = self.explained()?;
        let is_alike = |point: &&StreamPoint| {
            point.message_bytes == explained.message_bytes
                && point.connections == explained.connections
                && point.send_buffer_bytes == point.receive_buffer_bytes
        };
        let alike = || self.points.iter().filter(is_alike);
        let rate = |point: &StreamPoint| point.gbps.as_number().unwrap_or(0.0);
        let most = alike().map(rate).fold(0.0, f64::max);
        let delivered = |point: &StreamPoint| match point.udp {
            Some(udp) if udp.sent > 0 => udp.received as f64 / udp.sent as f64,
            _ => 1.0,
        };
        let enough = |point: &&StreamPoint| {
            rate(point) >= most * (1.0 - slack) && most > 0.0 && delivered(point) >= 1.0 - slack
        };
        let fixed = alike().filter(|point| point.send_buffer_bytes.is_some()).filter(enough);
        fixed.min_by_key(|point| point.send_buffer_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the buffer found for points of `(send buffer, receive buffer, connections, Gb/s)`,
    /// of which the first is explained.
    fn enough(points: &[(Option<u64>, Option<u64>, u64, f64)]) -> Option<u64> {
        let mut report = crate::fixtures::stream();
        let any = report.points[0].clone();
        let point = |(send, receive, connections, gbps): &(Option<u64>, Option<u64>, u64, f64)| {
            StreamPoint {
                send_buffer_bytes: *send,
                receive_buffer_bytes: *receive,
                connections: *connections,
                gbps: Figure::exact("Gb/s", *gbps, crate::Tier::Sw, "by hand"),
                ..any.clone()
            }
        };
        report.points = points.iter().map(point).collect();
        report.explained = Some(0);
        report.enough_buffer(0.05).and_then(|point| point.send_buffer_bytes)
    }

    #[test]
    fn the_smallest_buffer_is_that_of_as_many_connections() {
        let both = |buffer, connections, gbps| (Some(buffer), Some(buffer), connections, gbps);
        let one = [(None, None, 1, 10.0), both(8192, 1, 4.0), both(65_536, 1, 9.8)];
        assert_eq!(enough(&one), Some(65_536));
        let eight = [both(8192, 8, 30.0), both(65_536, 8, 31.0)];
        assert_eq!(enough(&[&one[..], &eight].concat()), Some(65_536));
    }

    #[test]
    fn a_buffer_that_loses_datagrams_is_not_large_enough() {
        let mut report = crate::fixtures::stream();
        let any = report.points[0].clone();
        let point = |(buffer, received): (u64, u64)| StreamPoint {
            send_buffer_bytes: Some(buffer),
            receive_buffer_bytes: Some(buffer),
            gbps: Figure::exact("Gb/s", 2.0, crate::Tier::Sw, "by hand"),
            udp: Some(StreamUdp { sent: 100, received, ..StreamUdp::default() }),
            ..any.clone()
        };
        report.points = [(8192, 92), (65_536, 97), (131_072, 99)].map(point).to_vec();
        report.explained = Some(0);
        let enough = report.enough_buffer(0.05).and_then(|point| point.send_buffer_bytes);
        assert_eq!(enough, Some(65_536));
        report.points.truncate(1);
        assert!(report.enough_buffer(0.05).is_none());
    }

    #[test]
    fn a_buffer_that_was_not_swept_at_both_ends_is_no_smallest_one() {
        let points = [
            (Some(4096), None, 1, 10.0),
            (Some(4096), Some(8192), 1, 9.0),
            (Some(4096), Some(65_536), 1, 10.0),
        ];
        assert_eq!(enough(&points), None);
    }
}
