// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counts along the path from the interface to the program and back. All counts are
//! differences over the window.

use super::tcp::TcpCounts;
use super::threads::FunctionTime;
use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A CPU's utilisation, and the counters of its receive path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCounts {
    /// Number of the CPU.
    pub cpu: u32,
    /// Fraction of the window spent in user mode, 0 to 1. Without exact accounting, the kernel
    /// samples `user`, `system`, `interrupts`, `stolen` and `idle` at the timer interrupt, which
    /// misses short bursts of work.
    #[serde(serialize_with = "crate::finite")]
    pub user: f64,
    /// Fraction of the window spent in the kernel on behalf of threads, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub system: f64,
    /// Fraction of the window spent in interrupts and softirqs, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub interrupts: f64,
    /// Fraction of the window stolen by the hypervisor, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub stolen: f64,
    /// Fraction of the window spent idle, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub idle: f64,
    /// Packets processed from the CPU's backlog (softnet_stat).
    pub backlog_processed: u64,
    /// Packets dropped because the CPU's backlog was full.
    pub backlog_dropped: u64,
    /// Number of times NAPI stopped polling with packets left because its budget or time ran out.
    pub time_squeezed: u64,
    /// Number of NET_RX softirqs.
    pub net_rx: u64,
    /// Number of NET_TX softirqs.
    pub net_tx: u64,
    /// Hardware interrupts by source, such as `virtio0-input.0`; non-zero counts only. Empty in
    /// records of `top`, which does not read them.
    pub hardware_interrupts: BTreeMap<String, u64>,
    /// Kernel functions sampled on this CPU in any context, softirqs included, most frequent first;
    /// at most 32. Shares are relative to the window. Empty if kernel sampling is not permitted.
    #[serde(default)]
    pub functions: Vec<FunctionTime>,
    /// Number of samples behind `functions`.
    #[serde(default)]
    pub samples: u64,
}

/// Counts for an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCounts {
    /// Name of the interface.
    pub name: String,
    /// Driver: `virtio_net`, `veth`; `null` if unknown.
    pub driver: Option<String>,
    /// MTU in bytes; `null` if the kernel does not report it.
    pub mtu: Option<u32>,
    /// Link speed in bits per second; `null` if the driver does not report it.
    pub link_bits_per_s: Option<f64>,
    /// Number of receive queues; `null` if the kernel does not report it.
    pub rx_queues: Option<u32>,
    /// Number of transmit queues; `null` if the kernel does not report it.
    pub tx_queues: Option<u32>,
    /// RPS (receive packet steering) CPU masks by queue; non-zero masks only.
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
    /// Received packets dropped because the interface is not meant to receive them, such as a
    /// bond's backup link (`rx_nohandler`).
    pub rx_no_handler: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped when sending.
    pub tx_dropped: u64,
    /// Packets that could not be sent because of errors.
    pub tx_errors: u64,
    /// Offloads, by kernel name such as `tx-checksum-ip-generic`, `tx-tcp-segmentation` or
    /// `rx-gro`, and whether they are enabled; empty if unreadable.
    pub features: BTreeMap<String, bool>,
    /// Driver-specific counters that changed (`ethtool -S`); empty if unreadable.
    pub driver_counters: BTreeMap<String, u64>,
    /// Egress and ingress queueing disciplines.
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
    /// The class of another queueing discipline that this one is attached to: `8001:2`; `null` at
    /// the root, at ingress, and if unknown.
    #[serde(default)]
    pub parent: Option<String>,
    /// Bytes passed through.
    pub bytes: u64,
    /// Packets passed through; with GSO, one may consist of several segments.
    pub packets: u64,
    /// Packets dropped, including those dropped by queueing disciplines attached to this one.
    pub drops: u64,
    /// Number of times a packet was held back because it could not be sent yet.
    pub overlimits: u64,
    /// Packets requeued because the driver did not accept them.
    pub requeues: u64,
    /// Packets queued at the end of the window.
    pub queued_packets: u64,
    /// Bytes queued at the end of the window.
    pub queued_bytes: u64,
    /// Rate limit in bits per second; `null` if there is none or it is unknown.
    pub rate_bits_per_s: Option<f64>,
    /// Delay that network emulation (netem) adds to each packet, in seconds; `null` if none, and in
    /// older records.
    #[serde(default)]
    pub delay_s: Option<f64>,
}

/// Kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SocketKind {
    /// A TCP connection.
    Tcp,
    /// A listening TCP socket, which queues connections.
    TcpListen,
    /// A UDP socket.
    Udp,
    /// A packet socket (AF_PACKET).
    Packet,
    /// An XDP socket (AF_XDP).
    Xdp,
    /// A Unix domain socket (AF_UNIX).
    Unix,
    /// A listening Unix domain socket, which queues connections.
    UnixListen,
    /// A raw IP socket.
    Raw,
}

impl SocketKind {
    /// Returns the kind in lower-case words, for display.
    pub fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpListen => "tcp listen",
            Self::Udp => "udp",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::Unix => "unix",
            Self::UnixListen => "unix listen",
            Self::Raw => "raw",
        }
    }

    /// Returns the packets that the program's sockets of this kind dropped.
    pub(super) fn drops_in(self, observation: &super::Observation) -> u64 {
        let same = observation.sockets.iter().filter(|socket| socket.kind == self);
        same.filter_map(|socket| socket.drops).sum()
    }
}

/// Counters of one of the program's sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketCounts {
    /// Kind of socket.
    pub kind: SocketKind,
    /// Socket inode, as shown in /proc/PID/fd.
    pub inode: u64,
    /// ID of the process that has the socket open. If several processes share a listening or UDP
    /// socket, the one with the highest CPU demand (running or waiting for a CPU) or, if none has
    /// much, the one that spends the least time waiting for input.
    pub pid: u32,
    /// Local address and port, or the interface of a packet socket.
    pub local: String,
    /// Remote address and port; `null` if the socket is not connected.
    pub remote: Option<String>,
    /// ID of the process at the other end, if the process is on this machine; `null` if unknown.
    pub peer_pid: Option<u32>,
    /// Number of times the socket's state was read in the window, on which its means and shares are
    /// based; `null` in older records.
    #[serde(default)]
    pub reads: Option<u64>,
    /// Mean bytes in the receive queue, read at the end of each slice. For a packet socket, bytes
    /// of the buffer in use, as accounted by the kernel; 0 if the socket uses a ring.
    #[serde(serialize_with = "crate::finite")]
    pub receive_queue_mean: f64,
    /// Maximum bytes in the receive queue, read at the end of each slice.
    pub receive_queue_max: u64,
    /// Fraction of readings with a non-empty receive queue, 0 to 1; `null` in older records.
    #[serde(default)]
    pub receive_queue_share: Option<f64>,
    /// Receive buffer size in bytes, as accounted by the kernel; `null` if unreadable.
    pub receive_buffer: Option<u64>,
    /// Mean bytes in the send queue, read at the end of each slice.
    #[serde(serialize_with = "crate::finite")]
    pub send_queue_mean: f64,
    /// Send buffer size in bytes; `null` if unreadable.
    pub send_buffer: Option<u64>,
    /// Packets dropped because the receive buffer was full; `null` if unreadable.
    pub drops: Option<u64>,
    /// Number of UDP sockets of other programs in the network namespace that are bound to the same
    /// port and to the same address, or to any if this socket is bound to all addresses, so that
    /// they may get its datagrams; `null` for other sockets, and in older records.
    #[serde(default)]
    pub port_sharers: Option<u32>,
    /// The socket's TCP_INFO; `null` for other protocols, and if unreadable.
    pub tcp: Option<TcpCounts>,
}

/// Requests on TCP connections, from about 10 readings per second. A reading covers all
/// connections; if there are more than 32, each reading covers 32 of them in turn, and the shares
/// are lower bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Number of readings with at least one accepted connection. If most connections begin and end
    /// within the window, the number of searches for connections, whether or not they found any.
    pub readings: u64,
    /// Number of accepted connections that were read and carry requests and replies.
    pub connections: u64,
    /// Fraction of readings in which at least one client was waiting for a reply, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub pending_share: f64,
    /// Mean number of connections on which a client was waiting for a reply. If there were too many
    /// connections to read at once, the mean is scaled to all of them, and the shares are lower
    /// bounds.
    #[serde(serialize_with = "crate::finite")]
    pub pending_mean: f64,
    /// Fraction of readings in which a client had been waiting for 4 ms or longer, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub late_share: f64,
    /// Fraction of readings in which a client was waiting for a reply while the program itself was
    /// waiting for a reply from a server to which it had opened a connection, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub awaiting_share: f64,
    /// Mean number of connections on which the program was waiting for a server's reply.
    #[serde(serialize_with = "crate::finite")]
    pub awaiting_mean: f64,
    /// Fraction of readings in which a client was waiting for a reply while the program was opening
    /// a connection to a server that had not answered its SYN for 100 ms or longer, 0 to 1;
    /// included in `awaiting_share`. If the server answers other connections, only retransmitted
    /// SYNs count, that is, those unanswered for at least about 1 s. `null` in records before
    /// version 2.7.
    #[serde(default)]
    pub opening_share: Option<f64>,
    /// Number of readings on which `awaiting_share` and `awaiting_mean` are based. If connections
    /// to servers are brief, the number of searches for them. `null` in older records, in which it
    /// equals `readings`.
    #[serde(default)]
    pub server_readings: Option<u64>,
    /// Address of the server for whose replies the program waited most often; `null` if none.
    pub server: Option<String>,
    /// Number of connections without traffic in the window on which the client sent last: the
    /// client has been waiting for a reply since before the window, or expects none. 0 if no
    /// connection had traffic, as all of them then count as waiting.
    pub silent: u64,
    /// Number of accepted connections that carry requests, but for which no reading shows whether a
    /// request was pending; excluded from the other figures. `null` in older records.
    #[serde(default)]
    pub undetermined: Option<u64>,
    /// Number of connections to servers for which no reading shows whether a reply was awaited;
    /// excluded from `awaiting_share` and `awaiting_mean`. `null` in older records.
    #[serde(default)]
    pub undetermined_at_servers: Option<u64>,
    /// Number of requests on connections where each exchange takes a fixed number of segments.
    pub requests: u64,
    /// Mean time from a request counted in `requests` to its reply, in seconds.
    pub reply_time: Figure,
}

/// The program's own counters. A counter that the program or its driver does not maintain is
/// `null`, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramCounts {
    /// Adapter used to read the counters: `dpdk`, `nginx`, `haproxy`, ...
    pub adapter: String,
    /// Name and version as reported by the program.
    pub program: Option<String>,
    /// Unit of the counts: `packets`, `requests`.
    pub unit: String,
    /// Packets or other units received by the program.
    pub received: Option<u64>,
    /// Packets or other units sent by the program.
    pub sent: Option<u64>,
    /// Packets lost before the program could receive them.
    pub missed: Option<u64>,
    /// Bytes received by the program.
    pub bytes: Option<u64>,
    /// Other counters that changed, by name.
    pub others: BTreeMap<String, u64>,
}

impl InterfaceCounts {
    /// Returns the number of packets that a queueing discipline of this interface dropped itself,
    /// excluding drops of the disciplines attached to it, which `mq` and classful disciplines also
    /// count.
    pub fn own_drops(&self, qdisc: &QdiscCounts) -> u64 {
        let is_below = |other: &&QdiscCounts| {
            // The root and its children that the kernel adds by itself have the same handle, `0:`.
            let is_childless = qdisc.handle.starts_with("0:") && qdisc.parent_handle().is_some();
            !is_childless && other.parent_handle() == qdisc.handle.split(' ').next()
        };
        let below: u64 = self.qdiscs.iter().filter(is_below).map(|other| other.drops).sum();
        qdisc.drops.saturating_sub(below)
    }
}

impl QdiscCounts {
    /// Returns the handle of the queueing discipline that this one is attached to.
    fn parent_handle(&self) -> Option<&str> {
        // In older records, the handle of a queueing discipline added by the kernel has it.
        let of_handle = self.handle.split_once(" parent ").map(|(_, parent)| parent);
        let parent = self.parent.as_deref().or(of_handle)?;
        parent.find(':').map(|end| &parent[..=end])
    }

    /// Returns whether the queueing discipline queues no packets and only holds filters, which may
    /// drop packets.
    pub fn is_filter(&self) -> bool {
        ["clsact", "ingress"].contains(&self.kind.as_str())
    }
}

impl SocketCounts {
    /// Returns the number of packets dropped because the receive buffer was full or, for a
    /// listening socket, because its accept queue was full; `None` if the socket's drops were not
    /// read. A UDP socket's drops include datagrams rejected by its filter or for a wrong checksum,
    /// and a listening socket's include connection attempts rejected by BPF programs, IPsec
    /// policies or TCP-MD5. The protocol's counts of full buffers and queues exclude such
    /// rejections.
    pub fn buffer_drops(&self, observation: &super::Observation) -> Option<u64> {
        /// Ratio of the protocol's count to the sockets' drops at or above which all drops are
        /// attributed to full buffers. It is below 1 because the counters are read one after
        /// another.
        const MOST: f64 = 0.9;
        let drops = self.drops?;
        let full = match self.kind {
            _ if observation.protocols.is_empty() => return Some(drops),
            SocketKind::Udp => observation.full_udp_buffers(),
            SocketKind::TcpListen => observation.full_accept_queues(),
            _ => return Some(drops),
        };
        let all = self.kind.drops_in(observation);
        // If only some of the drops are due to full buffers, the sockets concerned are unknown, so
        // each socket is assigned the same share.
        let share = full as f64 / all.max(1) as f64;
        Some(if share >= MOST { drops } else { (drops as f64 * share) as u64 })
    }

    /// Returns the fraction of the drops of a UDP socket that are due to the memory limit of all
    /// UDP sockets (net.ipv4.udp_mem), 0 to 1; 0 for other sockets.
    pub fn out_of_memory(&self, observation: &super::Observation) -> f64 {
        if self.kind != SocketKind::Udp {
            return 0.0;
        }
        let all = self.kind.drops_in(observation).max(1);
        (observation.out_of_udp_memory() as f64 / all as f64).min(1.0)
    }
}

impl ProgramCounts {
    /// Returns the counters if they count packets. Requests and other units cannot be compared with
    /// other layers and yield `None`.
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
    /// Filter, such as `reason NO_SOCKET`; `null` if all events are counted.
    pub filter: Option<String>,
    /// Whether only the observed threads' events were counted.
    pub is_of_watched: bool,
    /// Number of events in the window.
    pub count: u64,
}

impl KernelEvent {
    /// Filter of the tracepoint raw_syscalls:sys_exit that counts successful calls which receive
    /// one datagram each.
    pub const RECEIVED: &str = "recvfrom and recvmsg, successful";

    /// Returns the name of the system call, for a count of calls by name.
    pub fn call(&self) -> Option<&str> {
        self.filter.as_deref()?.strip_prefix("call ")
    }
}

/// Burstiness of packet arrivals, measured in short windows spread over the observation.
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

#[cfg(test)]
mod tests {
    use super::{InterfaceCounts, QdiscCounts};

    fn qdisc(handle: &str, parent: Option<&str>, drops: u64) -> QdiscCounts {
        let parent = parent.map(str::to_owned);
        QdiscCounts { handle: handle.to_owned(), parent, drops, ..QdiscCounts::default() }
    }

    #[test]
    fn a_drop_that_the_levels_above_count_too_is_counted_once() {
        let own = |qdiscs: &[QdiscCounts]| -> Vec<u64> {
            let interface = InterfaceCounts { qdiscs: qdiscs.to_vec(), ..Default::default() };
            qdiscs.iter().map(|qdisc| interface.own_drops(qdisc)).collect()
        };
        // mq as the kernel adds it, in a record without parents and in one with them.
        let older = |handle, drops| qdisc(handle, None, drops);
        let mq = [older("0:", 70), older("0: parent 0:1", 30), older("0: parent 0:2", 40)];
        assert_eq!(own(&mq), [0, 30, 40]);
        let mq = [qdisc("0:", None, 70), qdisc("0: parent 0:1", Some("0:1"), 70)];
        assert_eq!(own(&mq), [0, 70]);
        // htb with a class of its own, and a filter at ingress.
        let htb = [
            qdisc("1:", None, 50),
            qdisc("10:", Some("1:10"), 45),
            qdisc("20:", Some("10:1"), 45),
            qdisc("ffff:", None, 7),
        ];
        assert_eq!(own(&htb), [5, 0, 45, 7]);
    }
}
