// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `why` record: how the threads of a running program spend their time, where its
//! packets go, and what limits it.
//!
//! [`Observation`] holds the readings, as differences over a window of wall time; the `explain`
//! crate derives findings from them. An unreadable value is `null`, never 0, and
//! [`Observation::unread`] gives the reason.

mod findings;
pub mod ledger;
mod packets;
mod ports;
mod remarks;
mod tcp;
mod threads;

pub(crate) use findings::UNKNOWN_TITLE;
pub use findings::{Cause, Gain, WhyFinding};
pub use packets::{
    Arrivals, CpuCounts, InterfaceCounts, KernelEvent, ProgramCounts, QdiscCounts, RequestCounts,
    SocketCounts, SocketKind,
};
pub use ports::LocalPorts;
pub use remarks::{Circumstance, WhyRemark};
pub use tcp::TcpCounts;
pub use threads::{
    FunctionTime, LineUse, MemoryUse, Quota, RanInstead, SchedulingPolicy, SharedLine, SleepTime,
    ThreadActivity, ThreadState, ThreadTime,
};

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Diagnosis of a running program: whether it keeps up and, if not, what limits it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyReport {
    /// Everything read in the window.
    pub observation: Observation,
    /// Findings, largest gain first; never empty. The first one is the answer.
    pub findings: Vec<WhyFinding>,
    /// What else costs the program time, most relevant first, each circumstance at most once; empty
    /// in older records.
    #[serde(default)]
    pub remarks: Vec<WhyRemark>,
}

/// Readings of a program and the system it runs on, over a window of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The program that was observed.
    pub watched: Watched,
    /// Window length, in seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Number of slices in the window. Counters are read at the end of each slice, and confidence
    /// intervals are computed from the slices.
    pub slices: u32,
    /// The program's threads, most CPU time first. If there are more than 256, only the 256 that
    /// spent the most time running or waiting for a CPU are listed.
    pub threads: Vec<ThreadActivity>,
    /// Number of threads omitted from `threads`.
    pub threads_left_out: u32,
    /// CPU time of the program's threads that are missing from `threads` because they started and
    /// ended within the window, in CPUs. Accounted in 10 ms ticks; `null` if it could not be
    /// determined.
    #[serde(default)]
    pub ended_threads_cpus: Option<f64>,
    /// CPU time of child processes that the program waited for and that ended too soon to be in
    /// `threads`, in CPUs. Accounted in 10 ms ticks; `null` if it was not determined.
    #[serde(default)]
    pub ended_children_cpus: Option<f64>,
    /// Memory of the program's processes; `null` if unreadable, and in older records.
    #[serde(default)]
    pub memory: Option<ProgramMemory>,
    /// Processes that had reached their limit on open descriptors in at least one reading.
    #[serde(default)]
    pub full_descriptors: Vec<FullDescriptors>,
    /// Pipes and FIFOs that processes of the program have open for writing only, at the end of the
    /// window; at most 16. Empty in older records.
    #[serde(default)]
    pub output_pipes: Vec<OutputPipe>,
    /// Files to which the program appended; `null` if it did not, or if its descriptors are hidden,
    /// and in records before version 2.10. Covers the first 64 descriptors of the first 16
    /// processes.
    #[serde(default)]
    pub file_writes: Option<FileWrites>,
    /// CPU quotas of the program's processes; may be empty.
    pub quotas: Vec<Quota>,
    /// All online CPUs.
    pub cpus: Vec<CpuCounts>,
    /// Interfaces in the program's network namespace that carried or lost packets, and those named
    /// by the user.
    pub interfaces: Vec<InterfaceCounts>,
    /// Protocol counters in the program's network namespace that changed, named as in
    /// /proc/net/snmp and /proc/net/netstat: `Udp.RcvbufErrors`, for example.
    pub protocols: BTreeMap<String, u64>,
    /// The program's listening sockets, and its sockets with traffic or losses.
    pub sockets: Vec<SocketCounts>,
    /// Requests on the TCP connections that the program accepted; `null` if it accepted none, and
    /// in older records.
    #[serde(default)]
    pub requests: Option<RequestCounts>,
    /// Connections that the program accepted on Unix domain sockets, for which the kernel counts no
    /// packets; `null` if these sockets could not be listed, and in older records.
    #[serde(default)]
    pub unix_clients: Option<u64>,
    /// Local ports for TCP connections; `null` if the program is in another network namespace than
    /// the observer, and in older records.
    #[serde(default)]
    pub local_ports: Option<LocalPorts>,
    /// Local processes at the other end of the program's connections, most CPU time first.
    #[serde(default)]
    pub peers: Vec<PeerActivity>,
    /// The program's own counters; `null` if it does not export any over a socket.
    pub program: Option<ProgramCounts>,
    /// Kernel event counts, where permitted: drops by reason, system calls, lock contention.
    pub events: Vec<KernelEvent>,
    /// Cache lines used by several of the program's threads and written by at least one; at most
    /// 16.
    #[serde(default)]
    pub shared_lines: Vec<SharedLine>,
    /// Packet arrivals at the interfaces of the program's packet sockets; `null` without packet
    /// sockets.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Size of the last-level cache in bytes, as reported by the kernel; `null` if unknown.
    #[serde(default)]
    pub last_level_cache_bytes: Option<u64>,
    /// Whether the scheduler shares the CPUs among sessions (`kernel.sched_autogroup_enabled`), so
    /// that nice values only matter within a session; `false` if the program's control group has a
    /// CPU weight, which then counts instead; `null` if unreadable, and in older records.
    #[serde(default)]
    pub sched_autogroup: Option<bool>,
    /// Cost of kernel events on this machine, measured before the window; `null` if not measured.
    #[serde(default)]
    pub event_costs: Option<EventCosts>,
    /// Packets received or sent by the program in the window, from the best available counter;
    /// `null` without one.
    pub packets: Option<PacketCount>,
    /// Packet rate of the observed threads per slice, in packets per second; empty without a
    /// counter.
    pub packets_per_s: Vec<f64>,
    /// The observer's own CPU time divided by `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// Values that could not be read, and why.
    pub unread: Vec<Unread>,
}

/// Counters of datagrams dropped because a socket's receive buffer was full.
const FULL_UDP: [&str; 2] = ["Udp.RcvbufErrors", "Udp6.RcvbufErrors"];

impl Observation {
    /// Returns whether the program used too little CPU time to have read most of the packets in
    /// [`Self::packets`]. Always false unless these packets were counted at an interface, where the
    /// count may include packets that the program did not read.
    pub fn leaves_packets_unread(&self) -> bool {
        /// Lower bound on the CPU time per packet of any program, in seconds. A program that used
        /// less cannot have read the packets. Reading batches from a ring that is mapped into
        /// memory takes about 20 ns per packet.
        const LEAST_S: f64 = 5e-9;
        let Some(count) = self.packets.as_ref().filter(|count| count.packets > 0) else {
            return false;
        };
        let on_cpu =
            |thread: &ThreadActivity| thread.elapsed_s * thread.share_of(ThreadState::is_on_cpu);
        let ended = self.ended_threads_cpus.unwrap_or(0.0) * self.elapsed_s;
        let used_s = ended + self.threads.iter().map(on_cpu).sum::<f64>();
        let is_of_interface = count.counter.ends_with(" rx_packets");
        is_of_interface && !self.threads.is_empty() && used_s < LEAST_S * count.packets as f64
    }

    /// Returns the number of datagrams that sockets in the program's network namespace dropped
    /// because their receive buffer was full or the memory limit for all UDP sockets was reached.
    pub fn full_udp_buffers(&self) -> u64 {
        let full: u64 = FULL_UDP.iter().filter_map(|name| self.protocols.get(*name)).sum();
        full.saturating_add(self.out_of_udp_memory())
    }

    /// Returns the number of datagrams that were dropped because the memory of all UDP sockets had
    /// reached its limit (net.ipv4.udp_mem). Some kernels have no counter for them: they appear
    /// only in the count of the drop reason PROTO_MEM, which covers the entire machine and TCP as
    /// well. Of that count, only as many drops are included as the program's sockets counted in
    /// excess of UDP's own counters.
    pub fn out_of_udp_memory(&self) -> u64 {
        /// Ratio of the drops counted by UDP to those counted by the program's sockets at or above
        /// which UDP is assumed to have counted all drops.
        const COUNTED: f64 = 0.9;
        let counts = ["Udp.MemErrors", "Udp6.MemErrors"];
        let sum = |names: &[&str]| -> u64 {
            names.iter().filter_map(|name| self.protocols.get(*name)).sum()
        };
        let counted = sum(&counts);
        let of_reason = |event: &&KernelEvent| event.filter.as_deref() == Some("reason PROTO_MEM");
        let reason = self.events.iter().find(of_reason).map_or(0, |event| event.count);
        let dropped = SocketKind::Udp.drops_in(self);
        let by_udp = sum(&FULL_UDP).saturating_add(counted);
        // The counters are read one after another.
        let left = match by_udp as f64 >= COUNTED * dropped as f64 {
            true => 0,
            false => dropped - by_udp,
        };
        counted.saturating_add(reason.saturating_sub(counted).min(left))
    }

    /// Returns whether the program may use TCP: it has TCP sockets, none of its sockets are known,
    /// or its connections end before they can be read.
    pub fn may_use_tcp(&self) -> bool {
        let is_tcp =
            |one: &SocketCounts| matches!(one.kind, SocketKind::Tcp | SocketKind::TcpListen);
        self.sockets.is_empty()
            || self.sockets.iter().any(is_tcp)
            || self.unread.iter().any(|unread| unread.what == "tcp_segments")
    }

    /// Returns the number of connection attempts that listening sockets in the program's network
    /// namespace dropped because their accept queue was full.
    pub fn full_accept_queues(&self) -> u64 {
        self.protocols.get("TcpExt.ListenOverflows").copied().unwrap_or(0)
    }

    /// Returns the number of packets that IP discarded on output, excluding those dropped by
    /// queueing disciplines; `None` if none were counted. IP also counts datagrams that did not fit
    /// in the send buffer of a non-blocking socket. These never became packets, so they are
    /// excluded as well. UDP counts both kinds as `SndbufErrors`.
    pub fn discarded_on_output(&self) -> Option<u64> {
        let discards = self.protocols.get("Ip.OutDiscards")?;
        let not_sent = self.protocols.get("Udp.SndbufErrors").copied().unwrap_or(0);
        Some(discards.saturating_sub(not_sent.max(self.qdisc_drops())))
    }

    /// Returns the packets that queueing disciplines dropped, each counted once.
    pub fn qdisc_drops(&self) -> u64 {
        let of_interface = |interface: &InterfaceCounts| -> u64 {
            interface.qdiscs.iter().map(|qdisc| interface.own_drops(qdisc)).sum()
        };
        self.interfaces.iter().map(of_interface).sum()
    }
}

/// Memory of the program's processes, which shows why their pages fault. Covers at most 256
/// processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramMemory {
    /// Growth of the resident memory in the window, in pages of the smallest size, summed over the
    /// processes that existed at its beginning and its end; negative if it shrank.
    pub resident_growth_pages: i64,
    /// Number of processes that had been forked less than 60 s before and had not executed another
    /// program, so that they still shared unwritten pages with their parent: the higher of the
    /// counts at the beginning and at the end of the window. Processes that were forked and ended
    /// in between are not counted. `null` if it could not be determined.
    pub recent_forks: Option<u64>,
}

/// A process that at times could not open files or sockets because it had reached its descriptor
/// limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FullDescriptors {
    /// Process ID.
    pub pid: u32,
    /// Limit on open descriptors (RLIMIT_NOFILE).
    pub limit: u64,
    /// Number of readings.
    pub reads: u64,
    /// Fraction of readings in which the process had reached its limit, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
}

/// A pipe or FIFO to which a process writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputPipe {
    /// Process ID.
    pub pid: u32,
    /// Number of the descriptor.
    pub descriptor: u32,
    /// `pipe`, or `fifo` and its path.
    pub name: String,
}

/// What a program wrote to regular files, such as logs, in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileWrites {
    /// Files whose positions moved, most bytes first; at most 8. Files that are also open for
    /// reading are left out, unless they are open for appending.
    pub files: Vec<WrittenFile>,
    /// Calls of write, writev and similar functions by the program's processes, to descriptors of
    /// any kind; `null` if not counted, or if there are more than 16 processes.
    pub calls: Option<u64>,
}

/// A file to which a process writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenFile {
    /// Process ID.
    pub pid: u32,
    /// Path of the file.
    pub path: String,
    /// Number of bytes by which the position in the file increased.
    pub bytes: u64,
}

/// CPU time per kernel event on this machine, in nanoseconds, measured by a thread that does
/// nothing else. In a program, events cost more, because caches are colder and locks are contended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCosts {
    /// A system call that does next to nothing: writing a byte to /dev/null.
    pub system_call: Figure,
    /// A page fault: the first write to a page of a large mapping.
    pub page_fault: Figure,
    /// Mapping a page, writing to it, and unmapping it, as an allocator without a pool does.
    pub page_mapping: Figure,
    /// A cpu-clock sample, which takes this CPU time from the sampled thread; `null` in older
    /// records.
    #[serde(default)]
    pub sample: Option<Figure>,
}

/// The program that is observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Program name as reported by the kernel (at most 15 bytes), or the observed interface.
    pub name: String,
    /// IDs of the program's processes, including those started during the window.
    pub pids: Vec<u32>,
    /// Interface that the user asked to observe; `null` if none.
    pub interface: Option<String>,
    /// Whether the program runs in a network namespace other than that of `why`.
    #[serde(default)]
    pub is_in_other_namespace: bool,
    /// Line rate given by the user, in bits per second; `null` if none.
    pub line_bits_per_s: Option<f64>,
    /// Whether `why` started the program as a command.
    pub is_command: bool,
    /// Exit status or signal if the program ended within the window: `exit status 1`, `SIGKILL`;
    /// `null` if it was still running.
    pub ended: Option<String>,
    /// Whether the user ended the window early.
    pub interrupted: bool,
}

/// A local process at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerActivity {
    /// Process ID.
    pub pid: u32,
    /// Process name as reported by the kernel (at most 15 bytes).
    pub name: String,
    /// CPU time of the process's threads divided by the window length, in CPUs. Accounted in 10 ms
    /// ticks; excludes softirqs raised by the process.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// CPU on which the process's busiest thread last ran; `null` if unreadable.
    pub cpu: Option<u32>,
}

/// A packet count, and which counter it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCount {
    /// Number of packets in the window.
    pub packets: u64,
    /// Number of bytes in the counted packets; `null` if not counted.
    pub bytes: Option<u64>,
    /// Counter that was read: `DPDK telemetry /ethdev/stats`,
    /// `segments received and sent on its TCP connections`, `eth0 rx_packets`.
    pub counter: String,
}

impl PacketCount {
    /// Name of the counter of segments on the program's TCP connections. Its byte count covers only
    /// the payload, without headers.
    pub const CONNECTIONS: &str = "segments received and sent on its TCP connections";

    /// Name of the counter of the UDP datagrams of a network namespace.
    pub const DATAGRAMS: &str = "UDP datagrams in its network namespace";

    /// Name of the counter of datagrams received by the program's own system calls.
    pub const RECEIVED: &str = "datagrams received by its calls of recvfrom and recvmsg";

    /// Returns the mean size of a packet as an Ethernet frame without FCS, in bytes; `None` if
    /// bytes or packets were not counted.
    pub fn frame_bytes(&self) -> Option<f64> {
        /// Length in bytes of the Ethernet, IPv4 and TCP headers, with TCP timestamps.
        const HEADERS: f64 = 14.0 + 20.0 + 32.0;
        const SHORTEST: f64 = 60.0;
        let mean = self.bytes.filter(|_| self.packets > 0)? as f64 / self.packets as f64;
        let is_payload = self.counter == Self::CONNECTIONS;
        let frame = if is_payload { mean + HEADERS } else { mean };
        Some(frame.max(SHORTEST))
    }

    /// Returns the mean number of bytes that a packet occupies on an Ethernet link:
    /// [`Self::frame_bytes`] plus preamble, start-of-frame delimiter, FCS and inter-frame gap (IEEE
    /// 802.3). `None` if bytes or packets were not counted.
    pub fn wire_bytes(&self) -> Option<f64> {
        const AROUND: f64 = 24.0;
        Some(self.frame_bytes()? + AROUND)
    }
}

/// A value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// Keyword for what is missing: `kernel_samples`, `tracepoints`, `udp_datagrams`, ...
    pub what: String,
    /// Why it could not be read, as a sentence.
    pub reason: String,
    /// Command that would make it readable; `null` if there is none.
    pub fix: Option<String>,
}
