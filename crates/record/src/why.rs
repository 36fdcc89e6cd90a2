// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `why` record: what the threads of a running program did with their time, where its
//! packets went, and what limits it.
//!
//! [`Observation`] has the readings, as differences over one window of wall time; `explain` derives
//! the findings. A value that could not be read is `null`, never 0, with an entry and the reason in
//! [`Observation::unread`].

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

/// Why a program is, or is not, at line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyReport {
    /// The readings.
    pub observation: Observation,
    /// The findings, the largest gain first; never empty. The first is the answer.
    pub findings: Vec<WhyFinding>,
}

/// Readings of a program and of the system around it, over one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// The watched program.
    pub watched: Watched,
    /// Length of the window, seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Parts of the window at whose ends everything was read: the samples of each interval.
    pub slices: u32,
    /// Its threads, the one with the most time on a CPU first. Of more than 256, those with the
    /// most time on a CPU or waiting for one.
    pub threads: Vec<ThreadActivity>,
    /// Threads that are not in `threads`, because there were too many of them.
    pub threads_left_out: u32,
    /// The CPU quotas that hold for its processes; empty where there is none.
    pub quotas: Vec<Quota>,
    /// Every CPU that is online.
    pub cpus: Vec<CpuCounts>,
    /// Interfaces of its network namespace that carried packets or lost some, and those asked for.
    pub interfaces: Vec<InterfaceCounts>,
    /// Counters of the protocols of its network namespace that changed, by their name in
    /// /proc/net/snmp and /proc/net/netstat: `Udp.RcvbufErrors`.
    pub protocols: BTreeMap<String, u64>,
    /// Its sockets that carried or lost something, and its listening sockets.
    pub sockets: Vec<SocketCounts>,
    /// Counters of the program itself, if it exports them on a socket.
    pub program: Option<ProgramCounts>,
    /// Events in the kernel that were counted, where that is permitted: drops by reason, system
    /// calls, lock contention.
    pub events: Vec<KernelEvent>,
    /// Cache lines that several of the threads use and at least one writes, at most 16.
    #[serde(default)]
    pub shared_lines: Vec<SharedLine>,
    /// How packets arrived at the interfaces of its packet sockets; `null` where it has none.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// Size of the last-level cache, bytes, as the kernel has it; `null` where it says none.
    #[serde(default)]
    pub last_level_cache_bytes: Option<u64>,
    /// Packets that the program received or sent in the window, by the best counter there is.
    pub packets: Option<PacketCount>,
    /// Packets that the watched threads handled per second, slice by slice; empty where no counter
    /// says.
    pub packets_per_s: Vec<f64>,
    /// CPU time of the observer itself over `elapsed_s`: a share of one CPU.
    pub observer: Figure,
    /// Values that could not be read, each with its reason.
    pub unread: Vec<Unread>,
}

/// The watched program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Name of the program, as the kernel has it (at most 15 bytes), or of the interface.
    pub name: String,
    /// The processes, those that were started while it was watched included.
    pub pids: Vec<u32>,
    /// The requested interface; `null` otherwise.
    pub interface: Option<String>,
    /// Requested line rate, bits per second; `null` if not requested.
    pub line_bits_per_s: Option<f64>,
    /// Whether it was a command that `why` started.
    pub is_command: bool,
    /// How it ended within the window: `exit status 1`, `SIGKILL`; `null` if it did not.
    pub ended: Option<String>,
    /// Whether the user ended the window before its time.
    pub interrupted: bool,
}

/// A number of packets, and the counter it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketCount {
    /// Packets in the window.
    pub packets: u64,
    /// Bytes of them; `null` where they are not counted.
    pub bytes: Option<u64>,
    /// The counter: `DPDK telemetry /ethdev/stats`, `segments in and out of its TCP connections`,
    /// `eth0 rx_packets`.
    pub counter: String,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The subject, as a word for scripts: `drop_reasons`, `kernel_samples`, `tcp_info`, ...
    pub what: String,
    /// Why not, in a sentence.
    pub reason: String,
    /// The command that would change it; `null` where nothing would.
    pub fix: Option<String>,
}
