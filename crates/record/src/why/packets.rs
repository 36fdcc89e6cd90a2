// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counts on the path from the interface to the program and back. All counts are differences
//! over the window.

use super::threads::FunctionTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Activity of a CPU, and the counts of its receive path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCounts {
    /// Number of the CPU.
    pub cpu: u32,
    /// Share of the window spent in user mode, 0 to 1. The kernel samples the shares `user`,
    /// `system`, `interrupts`, `stolen` and `idle` at its timer interrupt, unless it does exact
    /// accounting, so short work is missed.
    #[serde(serialize_with = "crate::finite")]
    pub user: f64,
    /// Share of the window spent in the kernel on behalf of a thread, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub system: f64,
    /// Share of the window spent in interrupts and softirqs, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub interrupts: f64,
    /// Share of the window stolen by the hypervisor, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub stolen: f64,
    /// Share of the window in which the CPU was idle, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub idle: f64,
    /// Number of packets processed from the CPU's backlog (softnet_stat).
    pub backlog_processed: u64,
    /// Number of packets dropped because the CPU's backlog was full.
    pub backlog_dropped: u64,
    /// Number of times NAPI stopped polling with work left because its budget or time was used up.
    pub time_squeezed: u64,
    /// Number of NET_RX softirqs.
    pub net_rx: u64,
    /// Number of NET_TX softirqs.
    pub net_tx: u64,
    /// Hardware interrupts by source, such as `virtio0-input.0`; only non-zero counts.
    pub hardware_interrupts: BTreeMap<String, u64>,
    /// Kernel functions sampled on this CPU in any context, including softirqs, most frequent
    /// first; at most 32. Their shares are shares of the window. Empty if kernel samples are not
    /// permitted.
    #[serde(default)]
    pub functions: Vec<FunctionTime>,
    /// Number of samples from which `functions` was computed.
    #[serde(default)]
    pub samples: u64,
}

/// Counts for an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCounts {
    /// Name of the interface.
    pub name: String,
    /// Driver of the interface: `virtio_net`, `veth`; `null` if unknown.
    pub driver: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Link speed in bits per second; `null` if the driver does not report it.
    pub link_bits_per_s: Option<f64>,
    /// Number of receive queues.
    pub rx_queues: Option<u32>,
    /// Number of transmit queues.
    pub tx_queues: Option<u32>,
    /// CPU masks for receive packet steering (RPS), by queue; only non-zero masks.
    pub rps_masks: Vec<String>,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Received packets that the interface counted as dropped (`rx_dropped`).
    pub rx_dropped: u64,
    /// Packets received with errors: length, checksum, frame, FIFO.
    pub rx_errors: u64,
    /// Packets dropped because the NIC's receive ring was full (`rx_missed_errors`).
    pub rx_missed: u64,
    /// Packets without a protocol or listener to handle them.
    pub rx_no_handler: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped when sending.
    pub tx_dropped: u64,
    /// Packets that could not be sent because of errors.
    pub tx_errors: u64,
    /// Offloads by their name in the kernel, such as `tx-checksum-ip-generic`,
    /// `tx-tcp-segmentation` and `rx-gro`, and whether each is on; empty if unreadable.
    pub features: BTreeMap<String, bool>,
    /// Driver-specific counters that changed (`ethtool -S`); empty if unreadable.
    pub driver_counters: BTreeMap<String, u64>,
    /// Queueing disciplines of the interface, for egress and ingress.
    pub qdiscs: Vec<QdiscCounts>,
}

/// Counts for a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QdiscCounts {
    /// Kind of queueing discipline: `tbf`, `fq_codel`, `noqueue`.
    pub kind: String,
    /// Handle of the queueing discipline: `8001:`.
    pub handle: String,
    /// Bytes that passed through the queueing discipline.
    pub bytes: u64,
    /// Packets that passed through the queueing discipline; one may represent several segments
    /// (GSO).
    pub packets: u64,
    /// Packets that the queueing discipline dropped.
    pub drops: u64,
    /// Number of times a packet was held because it could not be sent yet.
    pub overlimits: u64,
    /// Packets requeued because the driver did not accept them.
    pub requeues: u64,
    /// Packets queued at the end of the window.
    pub queued_packets: u64,
    /// Bytes queued at the end of the window.
    pub queued_bytes: u64,
    /// Rate limit of the queueing discipline in bits per second; `null` if there is no limit or it
    /// is unknown.
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
    /// A UDP socket.
    Udp,
    /// A packet socket (AF_PACKET).
    Packet,
    /// An XDP socket (AF_XDP).
    Xdp,
    /// A Unix domain socket (AF_UNIX).
    Unix,
    /// A raw IP socket.
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
    /// Remote address and port; `null` if the socket is not connected.
    pub remote: Option<String>,
    /// ID of the process at the other end, if that is a socket on this machine; `null` if unknown.
    pub peer_pid: Option<u32>,
    /// Number of times that the state of the socket was read in the window. The means and shares
    /// below are computed from these readings. `null` in records that lack it.
    #[serde(default)]
    pub reads: Option<u64>,
    /// Mean number of bytes in the receive queue, over readings at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub receive_queue_mean: f64,
    /// Maximum number of bytes in the receive queue, over readings at the ends of slices.
    pub receive_queue_max: u64,
    /// Share of the readings in which the receive queue was not empty, 0 to 1. `null` in records
    /// that lack it.
    #[serde(default)]
    pub receive_queue_share: Option<f64>,
    /// Size of the receive buffer in bytes, by the kernel's accounting; `null` if unreadable.
    pub receive_buffer: Option<u64>,
    /// Mean number of bytes in the send queue, over readings at the ends of slices.
    #[serde(serialize_with = "crate::finite")]
    pub send_queue_mean: f64,
    /// Size of the send buffer in bytes; `null` if unreadable.
    pub send_buffer: Option<u64>,
    /// Packets dropped because the receive buffer was full; `null` if unreadable.
    pub drops: Option<u64>,
    /// TCP_INFO of the socket; `null` for other protocols, and if unreadable.
    pub tcp: Option<TcpCounts>,
}

/// Values of TCP_INFO for one connection. Counts and times are differences over the window; times
/// are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpCounts {
    /// Number of bytes received.
    pub bytes_received: u64,
    /// Number of bytes that were sent and acknowledged.
    pub bytes_acked: u64,
    /// Number of segments received.
    pub segments_in: u64,
    /// Number of segments sent.
    pub segments_out: u64,
    /// Number of retransmitted segments.
    pub retransmitted: u64,
    /// Number of retransmitted segments that the peer had already received, according to its
    /// DSACKs: the originals were late, not lost. `null` if the kernel does not report them.
    #[serde(default)]
    pub needless: Option<u64>,
    /// Time during which the connection had data to send or in flight, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub busy_s: f64,
    /// Part of `busy_s` during which the receiver's window limited the connection, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rwnd_limited_s: f64,
    /// Part of `busy_s` during which the sender's own send buffer limited the connection, in
    /// seconds.
    #[serde(serialize_with = "crate::finite")]
    pub sndbuf_limited_s: f64,
    /// Share of the readings in which the application limited the delivery rate, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub app_limited_share: f64,
    /// Smoothed round-trip time at the end of the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub rtt_s: f64,
    /// Congestion window at the end of the observation, in segments.
    pub cwnd: u32,
    /// Maximum size of the segments sent, in bytes.
    pub mss: u32,
    /// Delivery rate at the end of the window, in bytes per second.
    #[serde(serialize_with = "crate::finite")]
    pub delivery_bytes_per_s: f64,
    /// Minimum round-trip time, as of the end of the window, in seconds.
    #[serde(default, serialize_with = "crate::finite")]
    pub min_rtt_s: f64,
    /// Share of the readings in which less than a full segment was held back although the windows
    /// had room for it, because earlier segments were unacknowledged (Nagle's algorithm), 0 to 1;
    /// `null` in records that lack it.
    #[serde(default)]
    pub held_share: Option<f64>,
    /// Largest window that the peer advertised in any reading, in bytes; `null` if the kernel does
    /// not report it.
    #[serde(default)]
    pub peer_window_max: Option<u64>,
    /// Rate to which the program limits the connection (SO_MAX_PACING_RATE), in bytes per second;
    /// `null` if it sets no limit.
    #[serde(default)]
    pub pacing_limit_bytes_per_s: Option<f64>,
}

/// The program's own counters. A counter that this program or its driver does not maintain is
/// `null`, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramCounts {
    /// Adapter with which the counters were read: `dpdk`, `nginx`, `haproxy`, ...
    pub adapter: String,
    /// Name and version as reported by the program.
    pub program: Option<String>,
    /// Unit of the counts: `packets`, `requests`.
    pub unit: String,
    /// Number of packets, or other units, that the program received.
    pub received: Option<u64>,
    /// Number of packets, or other units, that the program sent.
    pub sent: Option<u64>,
    /// Number of packets lost before the program could receive them.
    pub missed: Option<u64>,
    /// Number of bytes that the program received.
    pub bytes: Option<u64>,
    /// Other counters of the program that changed, by name.
    pub others: BTreeMap<String, u64>,
}

impl ProgramCounts {
    /// Returns the counters if they count packets, otherwise `None`: requests and similar units are
    /// not comparable with other layers.
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
    /// Condition that restricts the count, such as `reason NO_SOCKET`; `null` if all events are
    /// counted.
    pub filter: Option<String>,
    /// Whether only events of the observed threads were counted.
    pub is_of_watched: bool,
    /// Number of events in the window.
    pub count: u64,
}

/// Burstiness of packet arrivals, measured in short windows that are spread over the observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrivals {
    /// Number of short windows.
    pub windows: u64,
    /// Mean length of the short windows, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub window_s: f64,
    /// Number of short windows without packets.
    pub silent: u64,
    /// Maximum number of packets in any short window.
    pub packets_max: u64,
}
