// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel counts on a TCP connection.

use serde::{Deserialize, Serialize};

/// TCP_INFO of one connection. Counts and times are differences over the window; times are in
/// seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpCounts {
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent and acknowledged.
    pub bytes_acked: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments received that carry data, which excludes pure acknowledgements; `null` in older
    /// records.
    #[serde(default)]
    pub data_segments_in: Option<u64>,
    /// Segments sent that carry data; `null` in older records.
    #[serde(default)]
    pub data_segments_out: Option<u64>,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Spurious retransmissions: segments that the peer already had, according to its DSACKs,
    /// because the originals were late rather than lost. `null` if the kernel does not report them.
    #[serde(default)]
    pub needless: Option<u64>,
    /// Time during which the connection had data to send or in flight, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub busy_s: f64,
    /// Part of `busy_s` in which the connection was limited by the receiver's window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rwnd_limited_s: f64,
    /// Part of `busy_s` in which the connection was limited by the sender's own send buffer, in
    /// seconds.
    #[serde(serialize_with = "crate::finite")]
    pub sndbuf_limited_s: f64,
    /// Fraction of readings in which the delivery rate was application-limited, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub app_limited_share: f64,
    /// Smoothed round-trip time at the end of the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rtt_s: f64,
    /// Congestion window at the end of the window, in segments.
    pub cwnd: u32,
    /// Maximum segment size for sending, in bytes.
    pub mss: u32,
    /// Delivery rate at the end of the window, in bytes per second.
    #[serde(serialize_with = "crate::finite")]
    pub delivery_bytes_per_s: f64,
    /// Minimum round-trip time, read at the end of the window, in seconds.
    #[serde(default, serialize_with = "crate::finite")]
    pub min_rtt_s: f64,
    /// Mean deviation of the round-trip time at the end of the window, in seconds; `null` in older
    /// records.
    #[serde(default)]
    pub rtt_variation_s: Option<f64>,
    /// Fraction of readings in which a partial segment was held back by unacknowledged data even
    /// though the windows had room for it (Nagle's algorithm), 0 to 1; `null` in older records.
    #[serde(default)]
    pub held_share: Option<f64>,
    /// Fraction of readings in which a partial segment was held back although no other segment was
    /// in flight (TCP_CORK or MSG_MORE), 0 to 1; `null` in older records.
    #[serde(default)]
    pub corked_share: Option<f64>,
    /// Fraction of readings in which a request from the peer had no reply yet, 0 to 1. If requests
    /// and replies do not take regular numbers of segments, only requests pending for 4 ms or
    /// longer count. `null` in older records.
    #[serde(default)]
    pub unanswered_share: Option<f64>,
    /// Fraction of readings that found data newly acknowledged by the peer since the previous
    /// reading, 0 to 1; `null` in older records.
    #[serde(default)]
    pub delivering_share: Option<f64>,
    /// Largest window advertised by the peer in any reading, in bytes; `null` if the kernel does
    /// not report it.
    #[serde(default)]
    pub peer_window_max: Option<u64>,
    /// Pacing limit set by the program (SO_MAX_PACING_RATE), in bytes per second; `null` if none.
    #[serde(default)]
    pub pacing_limit_bytes_per_s: Option<f64>,
}

impl TcpCounts {
    /// Returns whether practically all data flows in one direction, as in a download or a
    /// subscription, so that the segments cannot be requests and their replies.
    pub fn is_one_way(&self) -> bool {
        /// Minimum number of data segments in the busier direction, and their minimum ratio to
        /// those in the other direction, for the flow to count as one-way. A request or a reply
        /// takes up to 16 segments.
        const SEGMENTS: [u64; 2] = [20, 20];
        /// Minimum number of bytes in the busier direction, and their minimum ratio to those in the
        /// other direction, for the flow to count as one-way.
        const BYTES: [u64; 2] = [65_536, 1000];
        let is_one_way = |one: u64, other: u64, [least, ratio]: [u64; 2]| {
            one.max(other) >= least.max(ratio * one.min(other))
        };
        let segments = self.data_segments_in.zip(self.data_segments_out);
        is_one_way(self.bytes_received, self.bytes_acked, BYTES)
            || segments.is_some_and(|(received, sent)| is_one_way(received, sent, SEGMENTS))
    }
}
