// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counts from the interface to the program and back. All counts are differences over the
//! window.

use super::threads::FunctionTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Activity of a CPU, and the counts of its receive path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCounts {
    /// Its number.
    pub cpu: u32,
    /// Share of the window in user mode, 0 to 1. These five shares are sampled by the kernel at its
    /// timer interrupt unless it does exact accounting, so short work is missed.
    #[serde(serialize_with = "crate::finite")]
    pub user: f64,
    /// Share spent in the kernel on behalf of a thread.
    #[serde(serialize_with = "crate::finite")]
    pub system: f64,
    /// Share spent in interrupts and softirqs.
    #[serde(serialize_with = "crate::finite")]
    pub interrupts: f64,
    /// Share stolen by the hypervisor.
    #[serde(serialize_with = "crate::finite")]
    pub stolen: f64,
    /// Share idle.
    #[serde(serialize_with = "crate::finite")]
    pub idle: f64,
    /// Packets processed from the CPU's backlog (softnet_stat).
    pub backlog_processed: u64,
    /// Packets dropped because the CPU's backlog was full.
    pub backlog_dropped: u64,
    /// Number of times NAPI stopped polling with work left because its budget or time was used up.
    pub time_squeezed: u64,
    /// Softirqs NET_RX.
    pub net_rx: u64,
    /// Softirqs NET_TX.
    pub net_tx: u64,
    /// Hardware interrupts by source, such as `virtio0-input.0`; only non-zero counts.
    pub hardware_interrupts: BTreeMap<String, u64>,
    /// Kernel functions sampled on this CPU in any context, including softirqs, most frequent
    /// first, at most 32; shares of the window. Empty if kernel samples are not permitted.
    #[serde(default)]
    pub functions: Vec<FunctionTime>,
    /// Samples behind `functions`.
    #[serde(default)]
    pub samples: u64,
}

/// Counts for an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCounts {
    /// Its name.
    pub name: String,
    /// Driver of the interface: `virtio_net`, `veth`; `null` if unknown.
    pub driver: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Link speed in bits per second; `null` if the driver does not report it.
    pub link_bits_per_s: Option<f64>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// RPS masks by queue; only non-zero masks.
    pub rps_masks: Vec<String>,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Received packets that the interface counted as dropped.
    pub rx_dropped: u64,
    /// Packets received with errors: length, checksum, frame, FIFO.
    pub rx_errors: u64,
    /// Packets dropped for lack of room in the NIC (`rx_missed_errors`).
    pub rx_missed: u64,
    /// Packets without a protocol or listener to handle them.
    pub rx_no_handler: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Dropped when sending.
    pub tx_dropped: u64,
    /// Errors when sending.
    pub tx_errors: u64,
    /// Offloads by kernel name, and whether each is on: `tx-checksum-ip-generic`,
    /// `tx-tcp-segmentation`, `rx-gro`; empty if unreadable.
    pub features: BTreeMap<String, bool>,
    /// Driver-specific counters that changed (`ethtool -S`); empty if unreadable.
    pub driver_counters: BTreeMap<String, u64>,
    /// Queueing disciplines for egress and ingress.
    pub qdiscs: Vec<QdiscCounts>,
}

/// Counts for a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QdiscCounts {
    /// Queueing discipline: `tbf`, `fq_codel`, `noqueue`.
    pub kind: String,
    /// Its handle: `8001:`.
    pub handle: String,
    /// Bytes that passed through the queueing discipline.
    pub bytes: u64,
    /// Packets that passed through the queueing discipline; one may represent several segments
    /// (GSO).
    pub packets: u64,
    /// Packets it dropped.
    pub drops: u64,
    /// Number of times a packet was held because it could not be sent yet.
    pub overlimits: u64,
    /// Packets requeued because the driver did not accept them.
    pub requeues: u64,
    /// Packets queued at the end of the window.
    pub queued_packets: u64,
    /// Bytes queued at the end of the window.
    pub queued_bytes: u64,
    /// Rate limit in bits per second; `null` if there is none or it is unknown.
    pub rate_bits_per_s: Option<f64>,
}

/// Kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SocketKind {
    /// A TCP connection.
    Tcp,
    /// A listening TCP socket; its queue holds connections.
    TcpListen,
    /// UDP.
    Udp,
    /// AF_PACKET.
    Packet,
    /// AF_XDP.
    Xdp,
    /// AF_UNIX.
    Unix,
    /// Raw IP.
    Raw,
}

/// Counts for a socket of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketCounts {
    /// Kind of socket.
    pub kind: SocketKind,
    /// Socket inode: the number shown in /proc/PID/fd.
    pub inode: u64,
    /// The process that has the socket open.
    pub pid: u32,
    /// Local address and port, or the interface of a packet socket.
    pub local: String,
    /// Remote address and port; `null` if there is none.
    pub remote: Option<String>,
    /// Process at the other end, if that is a socket on this machine; `null` if unknown.
    pub peer_pid: Option<u32>,
    /// Number of times the socket was read: the readings behind the means and shares below. `null`
    /// in records that lack it.
    #[serde(default)]
    pub reads: Option<u64>,
    /// Mean number of bytes in the receive queue at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub receive_queue_mean: f64,
    /// Maximum number of bytes in the receive queue at the ends of slices.
    pub receive_queue_max: u64,
    /// Share of the readings in which the receive queue was not empty, 0 to 1. `null` in records
    /// that lack it.
    #[serde(default)]
    pub receive_queue_share: Option<f64>,
    /// Size of the receive buffer in bytes, by the kernel's accounting; `null` if unreadable.
    pub receive_buffer: Option<u64>,
    /// Mean number of bytes in the send queue at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub send_queue_mean: f64,
    /// Size of the send buffer in bytes; `null` if unreadable.
    pub send_buffer: Option<u64>,
    /// Packets dropped because the receive buffer was full; `null` if unreadable.
    pub drops: Option<u64>,
    /// TCP_INFO of the socket; `null` for other protocols, and if unreadable.
    pub tcp: Option<TcpCounts>,
}

/// TCP_INFO of a connection. Times are in seconds of the window.
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
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Retransmitted segments that the peer had already received (DSACK): late, not lost. `null` if
    /// the kernel does not report them.
    #[serde(default)]
    pub needless: Option<u64>,
    /// Time with data to send or in flight.
    #[serde(serialize_with = "crate::finite")]
    pub busy_s: f64,
    /// Part of `busy_s` limited by the receiver's window.
    #[serde(serialize_with = "crate::finite")]
    pub rwnd_limited_s: f64,
    /// Part of `busy_s` limited by the sender's own send buffer.
    #[serde(serialize_with = "crate::finite")]
    pub sndbuf_limited_s: f64,
    /// Share of the reads in which the application limited the delivery rate, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub app_limited_share: f64,
    /// Smoothed round-trip time at the end of the window, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rtt_s: f64,
    /// Congestion window at the end of the window, segments.
    pub cwnd: u32,
    /// Maximum size of segments sent, bytes.
    pub mss: u32,
    /// Delivery rate at the end of the window, bytes per second.
    #[serde(serialize_with = "crate::finite")]
    pub delivery_bytes_per_s: f64,
    /// Minimum round-trip time at the end of the window, seconds.
    #[serde(default, serialize_with = "crate::finite")]
    pub min_rtt_s: f64,
    /// Share of the reads in which less than a segment was held back although the windows had room
    /// for it, because earlier segments were unacknowledged (Nagle's algorithm), 0 to 1; `null` in
    /// records that lack it.
    #[serde(default)]
    pub held_share: Option<f64>,
    /// Largest window advertised by the peer in any read, bytes; `null` if the kernel does not
    /// report it.
    #[serde(default)]
    pub peer_window_max: Option<u64>,
    /// Rate to which the program limits the connection (SO_MAX_PACING_RATE), bytes per second;
    /// `null` if it sets no limit.
    #[serde(default)]
    pub pacing_limit_bytes_per_s: Option<f64>,
}

/// The program's own counters. A counter that this program or its driver does not maintain is
/// `null`, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramCounts {
    /// Adapter the counters were read with: `dpdk`, `nginx`, `haproxy`, ...
    pub adapter: String,
    /// Name and version as reported by the program.
    pub program: Option<String>,
    /// Unit of the counts: `packets`, `requests`.
    pub unit: String,
    /// Received.
    pub received: Option<u64>,
    /// Sent.
    pub sent: Option<u64>,
    /// Packets lost before the program could receive them.
    pub missed: Option<u64>,
    /// Bytes received.
    pub bytes: Option<u64>,
    /// Other counters of the program that changed, by name.
    pub others: BTreeMap<String, u64>,
}

impl ProgramCounts {
    /// Returns the counters if they count packets: requests and similar units are not comparable
    /// with other layers.
    pub fn of_packets(&self) -> Option<&Self> {
        (self.unit == "packets").then_some(self)
    }
}

/// A kernel event counted by a tracepoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelEvent {
    /// The tracepoint: `skb:kfree_skb`.
    pub event: String,
    /// What the count is restricted to, such as `reason NO_SOCKET`; `null` if unfiltered.
    pub filter: Option<String>,
    /// Whether only events of the observed threads were counted.
    pub is_of_watched: bool,
    /// Count in the window.
    pub count: u64,
}

/// Burstiness of arrivals, measured in short windows spread over the observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrivals {
    /// Number of windows.
    pub windows: u64,
    /// Mean length of the windows in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub window_s: f64,
    /// Windows without packets.
    pub silent: u64,
    /// Maximum number of packets in any window.
    pub packets_max: u64,
}
