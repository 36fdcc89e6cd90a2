// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `why` record: where the threads of a running program spend their time, the path of
//! the program's packets, and what limits the program.
//!
//! [`Observation`] holds the readings, as differences over one window of wall time; the `explain`
//! crate derives the findings from them. A value that could not be read is `null`, never 0, and has
//! an entry with the reason in [`Observation::unread`].

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
    /// Everything that was read in the window.
    pub observation: Observation,
    /// Findings, largest gain first; never empty. The first finding is the answer.
    pub findings: Vec<WhyFinding>,
}

/// Readings of a program and of the system on which it runs, over one window of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The program that was observed.
    pub watched: Watched,
    /// Length of the window in seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Number of slices into which the window is divided. Counters are read at the end of each
    /// slice; intervals of figures are computed from the slices.
    pub slices: u32,
    /// The program's threads, most CPU time first. If there are more than 256, only those are
    /// listed that spent the most time on a CPU or waiting for one.
    pub threads: Vec<ThreadActivity>,
    /// Number of threads omitted from `threads` because there are too many.
    pub threads_left_out: u32,
    /// CPU quotas of the program's processes; empty if there are none.
    pub quotas: Vec<Quota>,
    /// All online CPUs.
    pub cpus: Vec<CpuCounts>,
    /// Interfaces in the program's network namespace that carried or lost packets, and interfaces
    /// that the user named.
    pub interfaces: Vec<InterfaceCounts>,
    /// Protocol counters in the program's network namespace that changed, by their name in
    /// /proc/net/snmp and /proc/net/netstat, such as `Udp.RcvbufErrors`.
    pub protocols: BTreeMap<String, u64>,
    /// The program's sockets that had traffic or losses, and its listening sockets.
    pub sockets: Vec<SocketCounts>,
    /// Processes on this machine at the other ends of the program's connections, most CPU time
    /// first.
    #[serde(default)]
    pub peers: Vec<PeerActivity>,
    /// The program's own counters; `null` if it does not export any on a socket.
    pub program: Option<ProgramCounts>,
    /// Kernel event counts, where permitted: drops by reason, system calls, lock contention.
    pub events: Vec<KernelEvent>,
    /// Cache lines that several of the program's threads use and at least one writes; at most 16.
    #[serde(default)]
    pub shared_lines: Vec<SharedLine>,
    /// Packet arrivals at the interfaces of the program's packet sockets; `null` if it has none.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Size of the last-level cache in bytes, as reported by the kernel; `null` if unknown.
    #[serde(default)]
    pub last_level_cache_bytes: Option<u64>,
    /// Packets that the program received or sent in the window, from the best counter available;
    /// `null` without a counter.
    pub packets: Option<PacketCount>,
    /// Packet rate of the observed threads in each slice, in packets per second; empty without a
    /// counter.
    pub packets_per_s: Vec<f64>,
    /// CPU time of the observer itself divided by `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// Values that could not be read, each with its reason.
    pub unread: Vec<Unread>,
}

/// The program that is observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Name of the program as reported by the kernel (at most 15 bytes), or name of the observed
    /// interface.
    pub name: String,
    /// IDs of the program's processes, including processes that were started during the window.
    pub pids: Vec<u32>,
    /// The interface that the user asked to observe; `null` if none was requested.
    pub interface: Option<String>,
    /// Line rate that the user specified, in bits per second; `null` if not specified.
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
    /// Process ID.
    pub pid: u32,
    /// Process name as reported by the kernel (at most 15 bytes).
    pub name: String,
    /// CPU time of all threads of the process divided by the length of the window, in CPUs. It is
    /// counted in ticks of 10 ms and excludes softirqs that the process triggers.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// CPU on which its busiest thread last ran; `null` if unreadable.
    pub cpu: Option<u32>,
}

/// A packet count and the counter it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCount {
    /// Number of packets in the window.
    pub packets: u64,
    /// Number of bytes in these packets; `null` if not counted.
    pub bytes: Option<u64>,
    /// The counter from which the number was read: `DPDK telemetry /ethdev/stats`,
    /// `segments in and out of its TCP connections`, `eth0 rx_packets`.
    pub counter: String,
}

/// A value that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The missing information, as a keyword for scripts: `drop_reasons`, `kernel_samples`,
    /// `tcp_info`, ...
    pub what: String,
    /// Reason why the value could not be read, as a sentence.
    pub reason: String,
    /// The command that would make the value readable; `null` if there is none.
    pub fix: Option<String>,
}
