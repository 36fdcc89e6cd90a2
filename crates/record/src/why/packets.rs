// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counts from the interface to the program and back. All counts are differences over the
//! window.

use super::threads::FunctionTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Activity of a CPU, and counts of its receive path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCounts {
    /// Its number.
    pub cpu: u32,
    /// Share of the window in user mode, 0 to 1. These five are sampled by the kernel at its timer
    /// interrupt unless it accounts exactly, so short work is missed.
    #[serde(serialize_with = "crate::finite")]
    pub user: f64,
    /// Share in the kernel on behalf of a thread.
    #[serde(serialize_with = "crate::finite")]
    pub system: f64,
    /// Share in interrupts and softirqs.
    #[serde(serialize_with = "crate::finite")]
    pub interrupts: f64,
    /// Share not run by the hypervisor.
    #[serde(serialize_with = "crate::finite")]
    pub stolen: f64,
    /// Share idle.
    #[serde(serialize_with = "crate::finite")]
    pub idle: f64,
    /// Packets processed from its backlog (softnet_stat).
    pub backlog_processed: u64,
    /// Packets dropped because its backlog was full.
    pub backlog_dropped: u64,
    /// Times that NAPI stopped polling with work left because its budget or time was used up.
    pub time_squeezed: u64,
    /// Softirqs NET_RX.
    pub net_rx: u64,
    /// Softirqs NET_TX.
    pub net_tx: u64,
    /// Hardware interrupts by source: `virtio0-input.0`; only non-zero ones.
    pub hardware_interrupts: BTreeMap<String, u64>,
    /// Kernel functions sampled on it in any context, softirqs included, most frequent first, at
    /// most 32; shares of the window. Empty if kernel samples are not permitted.
    #[serde(default)]
    pub functions: Vec<FunctionTime>,
    /// Samples behind `functions`.
    #[serde(default)]
    pub samples: u64,
}

/// Counts of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCounts {
    /// Its name.
    pub name: String,
    /// Its driver: `virtio_net`, `veth`; `null` if unknown.
    pub driver: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Link speed, bits per second; `null` if the driver does not report it.
    pub link_bits_per_s: Option<f64>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// RPS masks by queue; only non-zero ones.
    pub rps_masks: Vec<String>,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Dropped on receipt, according to the interface.
    pub rx_dropped: u64,
    /// Received with errors: length, checksum, frame, FIFO.
    pub rx_errors: u64,
    /// No room in the NIC (`rx_missed_errors`).
    pub rx_missed: u64,
    /// No protocol or listener for it.
    pub rx_no_handler: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Dropped when sending.
    pub tx_dropped: u64,
    /// Errors when sending.
    pub tx_errors: u64,
    /// Offloads by kernel name, and whether they are on: `tx-checksum-ip-generic`,
    /// `tx-tcp-segmentation`, `rx-gro`; empty if unreadable.
    pub features: BTreeMap<String, bool>,
    /// The driver's own counters that changed (`ethtool -S`); empty if unreadable.
    pub driver_counters: BTreeMap<String, u64>,
    /// Queueing disciplines on egress and ingress.
    pub qdiscs: Vec<QdiscCounts>,
}

/// Counts of a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QdiscCounts {
    /// Queueing discipline: `tbf`, `fq_codel`, `noqueue`.
    pub kind: String,
    /// Its handle: `8001:`.
    pub handle: String,
    /// Bytes that passed it.
    pub bytes: u64,
    /// Packets that passed it: one may represent several segments (GSO).
    pub packets: u64,
    /// Packets it dropped.
    pub drops: u64,
    /// Times it held a packet that could not be sent yet.
    pub overlimits: u64,
    /// Packets requeued because the driver did not accept them.
    pub requeues: u64,
    /// Packets queued at the end of the window.
    pub queued_packets: u64,
    /// Bytes queued at the end of the window.
    pub queued_bytes: u64,
    /// Its rate limit, bits per second; `null` if there is none, or it is unknown.
    pub rate_bits_per_s: Option<f64>,
}

/// Kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SocketKind {
    /// A TCP connection.
    Tcp,
    /// A listening TCP socket: its queue is of connections.
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

/// Counts of a socket of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketCounts {
    /// Kind of socket.
    pub kind: SocketKind,
    /// Its inode: its number in /proc/PID/fd.
    pub inode: u64,
    /// The process that has it open.
    pub pid: u32,
    /// Local address and port, or the interface of a packet socket.
    pub local: String,
    /// Remote address and port; `null` if there is none.
    pub remote: Option<String>,
    /// Process of the other end, if it is a socket of this machine; `null` if unknown.
    pub peer_pid: Option<u32>,
    /// How often it was read: the readings behind the means and shares below. `null` in records
    /// that lack it.
    #[serde(default)]
    pub reads: Option<u64>,
    /// Mean number of bytes in its receive queue at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub receive_queue_mean: f64,
    /// Maximum of the same.
    pub receive_queue_max: u64,
    /// Share of the readings at which its receive queue was not empty, 0 to 1. `null` in records
    /// that lack it.
    #[serde(default)]
    pub receive_queue_share: Option<f64>,
    /// Size of its receive buffer in bytes, as accounted by the kernel; `null` if unreadable.
    pub receive_buffer: Option<u64>,
    /// Mean number of bytes in its send queue at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub send_queue_mean: f64,
    /// Size of its send buffer, bytes; `null` where not readable.
    pub send_buffer: Option<u64>,
    /// Packets dropped because its receive buffer was full; `null` if unreadable.
    pub drops: Option<u64>,
    /// Its TCP_INFO; `null` for other protocols, and if unreadable.
    pub tcp: Option<TcpCounts>,
}

/// TCP_INFO of a connection. Times are seconds of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpCounts {
    /// Bytes received.
    pub bytes_received: u64,
    /// Its own bytes that were acknowledged.
    pub bytes_acked: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Of those, segments that the peer had received already (DSACK): late, not lost. `null` where
    /// the kernel does not report it.
    #[serde(default)]
    pub needless: Option<u64>,
    /// Time with data to send or in flight.
    #[serde(serialize_with = "crate::finite")]
    pub busy_s: f64,
    /// Part of `busy_s` limited by the receiver's window.
    #[serde(serialize_with = "crate::finite")]
    pub rwnd_limited_s: f64,
    /// Part of `busy_s` limited by its own send buffer.
    #[serde(serialize_with = "crate::finite")]
    pub sndbuf_limited_s: f64,
    /// Share of the reads in which the delivery rate was limited by the application, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub app_limited_share: f64,
    /// Smoothed round-trip time at the end, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rtt_s: f64,
    /// Congestion window at the end, segments.
    pub cwnd: u32,
    /// Maximum size of the segments it sends, bytes.
    pub mss: u32,
    /// Delivery rate at the end, bytes per second.
    #[serde(serialize_with = "crate::finite")]
    pub delivery_bytes_per_s: f64,
    /// Shortest round-trip time at the end, seconds.
    #[serde(default, serialize_with = "crate::finite")]
    pub min_rtt_s: f64,
    /// Share of the reads in which less than a segment was held back although the windows had room
    /// for it, because earlier segments were not acknowledged (Nagle's algorithm), 0 to 1; `null`
    /// in records that lack it.
    #[serde(default)]
    pub held_share: Option<f64>,
    /// Largest window that the peer advertised at a read, bytes; `null` where the kernel does not
    /// report it.
    #[serde(default)]
    pub peer_window_max: Option<u64>,
    /// Rate the program limits the connection to (SO_MAX_PACING_RATE), bytes per second; `null` if
    /// it does not.
    #[serde(default)]
    pub pacing_limit_bytes_per_s: Option<f64>,
}

/// Counters of the program itself. A counter that this program or its driver does not maintain is
/// `null`, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramCounts {
    /// The adapter: `dpdk`, `nginx`, `haproxy`, ...
    pub adapter: String,
    /// Name and version according to the program.
    pub program: Option<String>,
    /// Units that are counted: `packets`, `requests`.
    pub unit: String,
    /// Received.
    pub received: Option<u64>,
    /// Sent.
    pub sent: Option<u64>,
    /// Lost before the program could receive them.
    pub missed: Option<u64>,
    /// Bytes received.
    pub bytes: Option<u64>,
    /// Its other counters that changed, by name.
    pub others: BTreeMap<String, u64>,
}

impl ProgramCounts {
    /// Returns itself if it counts packets: requests and similar units are not comparable with
    /// other layers.
    pub fn of_packets(&self) -> Option<&Self> {
        (self.unit == "packets").then_some(self)
    }
}

/// An event in the kernel, counted by a tracepoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelEvent {
    /// The tracepoint: `skb:kfree_skb`.
    pub event: String,
    /// The counted object: `reason NO_SOCKET`; `null` for all.
    pub filter: Option<String>,
    /// Whether only events of the watched threads were counted.
    pub is_of_watched: bool,
    /// Count in the window.
    pub count: u64,
}

/// Burstiness of arrivals, in short windows spread over the observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrivals {
    /// Number of windows.
    pub windows: u64,
    /// Their mean length, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub window_s: f64,
    /// Windows without packets.
    pub silent: u64,
    /// Maximum number of packets in a window.
    pub packets_max: u64,
}
