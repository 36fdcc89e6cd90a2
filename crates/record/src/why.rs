// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `why` record: where a running program's threads spend their time, the path of its
//! packets, and what limits it.
//!
//! [`Observation`] holds the readings, as differences over one window of wall time; `explain`
//! derives the findings. A value that could not be read is `null`, never 0, with an entry and the
//! reason in [`Observation::unread`].

mod findings;
pub mod ledger;
mod packets;
mod threads;

pub use findings::{Cause, Gain, WhyFinding};
pub use packets::{
    Arrivals, CpuCounts, InterfaceCounts, KernelEvent, ProgramCounts, QdiscCounts, SocketCounts,
    SocketKind, TcpCounts,
};
pub use threads::{
    FunctionTime, LineUse, MemoryUse, Quota, RanInstead, SharedLine, SleepTime, ThreadActivity,
    ThreadState, ThreadTime,
};

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Diagnosis of a running program: whether it keeps up, and what limits it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyReport {
    /// The readings.
    pub observation: Observation,
    /// Findings, largest gain first; never empty. The first is the answer.
    pub findings: Vec<WhyFinding>,
}

/// Readings of a program and of the system around it, over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The watched program.
    pub watched: Watched,
    /// Length of the window in seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Number of subintervals of the window, each read at its end: the samples behind each
    /// interval.
    pub slices: u32,
    /// The program's threads, most CPU time first. If there are more than 256, those with the most
    /// time on a CPU or waiting for one.
    pub threads: Vec<ThreadActivity>,
    /// Threads omitted from `threads` because there are too many.
    pub threads_left_out: u32,
    /// CPU quotas of the program's processes; empty if there are none.
    pub quotas: Vec<Quota>,
    /// All online CPUs.
    pub cpus: Vec<CpuCounts>,
    /// Interfaces in the program's network namespace that carried or lost packets, and requested
    /// interfaces.
    pub interfaces: Vec<InterfaceCounts>,
    /// Protocol counters in the program's network namespace that changed, by name in /proc/net/snmp
    /// and /proc/net/netstat: `Udp.RcvbufErrors`.
    pub protocols: BTreeMap<String, u64>,
    /// The program's sockets with traffic or losses, and its listening sockets.
    pub sockets: Vec<SocketCounts>,
    /// Processes on this machine at the other ends of the program's connections, most CPU time
    /// first.
    #[serde(default)]
    pub peers: Vec<PeerActivity>,
    /// The program's own counters, if it exports them on a socket.
    pub program: Option<ProgramCounts>,
    /// Kernel event counts, where permitted: drops by reason, system calls, lock contention.
    pub events: Vec<KernelEvent>,
    /// Cache lines shared by several of the threads and written by at least one; at most 16.
    #[serde(default)]
    pub shared_lines: Vec<SharedLine>,
    /// Packet arrivals at the interfaces of the program's packet sockets; `null` if it has none.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Size of the last-level cache in bytes, as reported by the kernel; `null` if unknown.
    #[serde(default)]
    pub last_level_cache_bytes: Option<u64>,
    /// Packets that the program received or sent in the window, from the best counter available.
    pub packets: Option<PacketCount>,
    /// Packets per second of the observed threads, one value per slice; empty without a counter.
    pub packets_per_s: Vec<f64>,
    /// CPU time of the observer over `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// Values that could not be read, each with its reason.
    pub unread: Vec<Unread>,
}

/// The watched program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Name of the program as reported by the kernel (at most 15 bytes), or of the interface.
    pub name: String,
    /// Process IDs, including processes started during the window.
    pub pids: Vec<u32>,
    /// The requested interface; `null` if none was requested.
    pub interface: Option<String>,
    /// Requested line rate in bits per second; `null` if not requested.
    pub line_bits_per_s: Option<f64>,
    /// Whether the program is a command that `why` started.
    pub is_command: bool,
    /// Exit status or signal if the program ended within the window: `exit status 1`, `SIGKILL`;
    /// `null` if it was still running.
    pub ended: Option<String>,
    /// Whether the user ended the window early.
    pub interrupted: bool,
}

/// A process at the other end of a connection on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerActivity {
    /// Its process ID.
    pub pid: u32,
    /// Process name as reported by the kernel (at most 15 bytes).
    pub name: String,
    /// CPU time of all threads over the window, in CPUs. Counted in ticks of 10 ms; excludes
    /// softirqs that the process triggers.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// CPU on which its busiest thread last ran; `null` if unreadable.
    pub cpu: Option<u32>,
}

/// A packet count and the counter it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCount {
    /// Packets in the window.
    pub packets: u64,
    /// Bytes in these packets; `null` if not counted.
    pub bytes: Option<u64>,
    /// The source counter: `DPDK telemetry /ethdev/stats`, `segments in and out of its TCP
    /// connections`, `eth0 rx_packets`.
    pub counter: String,
}

/// A value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// What could not be read, as a keyword for scripts: `drop_reasons`, `kernel_samples`,
    /// `tcp_info`, ...
    pub what: String,
    /// The reason, as a sentence.
    pub reason: String,
    /// The command that would make it readable; `null` if there is none.
    pub fix: Option<String>,
}
