// SPDX-License-Identifier: MIT OR Apache-2.0
//! One side's counts from one test, as plain numbers that the server can send to the client.

use serde::{Deserialize, Serialize};

/// Counts of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// One entry per connection.
    pub(crate) threads: Vec<Thread>,
    /// CPU time of the machine in ticks of /proc/stat: user, system, interrupts, idle, total.
    pub(crate) machine: Option<[u64; 5]>,
    pub(crate) machine_cpus: u32,
    /// Where the sender's packets leave its host; `None` at the receiver.
    pub(crate) exit: Option<Exit>,
    /// Error that ended this side's part of the test early.
    pub(crate) error: Option<String>,
}

/// Where packets leave a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// The interface; `None` if unknown.
    pub(crate) interface: Option<String>,
    /// Whether transmit checksum offload is off on the interface; `None` if it has no such feature.
    pub(crate) software_checksum: Option<bool>,
    /// Rate limit of the qdisc, in bytes per second.
    pub(crate) qdisc_rate: Option<u64>,
}

/// Counts of a connection's thread. Unless noted otherwise, they cover only the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Thread {
    pub(crate) slices: Vec<Slice>,
    pub(crate) elapsed_ns: u64,
    pub(crate) bytes: u64,
    /// CPU time, exact.
    pub(crate) cpu_ns: u64,
    /// User time, according to the kernel's split into user and system time.
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// Time runnable but not running.
    pub(crate) waiting_ns: Option<u64>,
    pub(crate) paused_ns: u64,
    /// Number of system calls on the connection.
    pub(crate) calls: u64,
    /// Number of system calls that moved data.
    pub(crate) data_calls: u64,
    pub(crate) switches: u64,
    pub(crate) cpus: Vec<u32>,
    pub(crate) allowed_cpus: u64,
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) tcp: Option<TcpReadings>,
    /// Datagrams sent or received in the whole test, including the warm-up.
    pub(crate) datagrams: u64,
    /// Datagrams refused by the sender's kernel in the whole test.
    pub(crate) refused: u64,
    /// Packets dropped by the receiver's socket in the whole test.
    pub(crate) buffer_drops: Option<u64>,
    pub(crate) requests: u64,
    /// Number of zero-copy calls in the whole test.
    pub(crate) lent: u64,
    /// Number of zero-copy calls that fell back to copying in the kernel.
    pub(crate) lent_copied: u64,
    /// Median round-trip time of the requests in each slice, in ns.
    pub(crate) round_trips_ns: Vec<u64>,
    /// Samples of the thread's functions in the whole test; `None` unless the test asks for them.
    #[serde(default)]
    pub(crate) sampled: Option<Sampled>,
}

/// Functions in which a thread was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sampled {
    pub(crate) samples: u64,
    /// Name, file (`kernel` for the kernel) and share of the samples, 0 to 1, of the most frequent
    /// functions.
    pub(crate) functions: Vec<(String, String, f64)>,
    /// Why kernel functions, or any functions at all, could not be sampled.
    pub(crate) refused: Option<String>,
}

/// A time slice of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slice {
    pub(crate) ns: u64,
    pub(crate) bytes: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) requests: u64,
}

/// Values from TCP_INFO: differences over the measurement, sums of `readings` samples, and values
/// at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TcpReadings {
    pub(crate) busy_us: u64,
    pub(crate) rwnd_limited_us: u64,
    pub(crate) sndbuf_limited_us: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) retransmitted: u64,
    pub(crate) needless: Option<u64>,
    pub(crate) mss: u64,
    pub(crate) min_rtt_us: u64,
    pub(crate) readings: u64,
    pub(crate) cwnd_sum: u64,
    pub(crate) rtt_us_sum: u64,
    pub(crate) held_back: u64,
    pub(crate) peer_window: Option<u64>,
    pub(crate) is_window_scaled: bool,
    pub(crate) pacing_bytes_per_s: Option<u64>,
}
