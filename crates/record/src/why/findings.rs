// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings of `why`: causes that limit the program, with evidence and predicted gain.

use crate::answers::Evidence;
use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// A cause that limits the program, with evidence, a fix, and how to disprove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyFinding {
    /// Keyword for the cause.
    pub cause: Cause,
    /// The claim in one sentence, with figures.
    pub sentence: String,
    /// Figures behind the claim.
    pub evidence: Vec<Evidence>,
    /// Predicted gain from removing the cause.
    pub gain: Gain,
    /// Command or setting that removes the cause; `null` if there is nothing to remove.
    pub fix: Option<String>,
    /// A workaround and what it costs; `null` if there is none.
    pub workaround: Option<String>,
    /// A measurement, and the result that would disprove the cause.
    pub wrong_if: String,
}

/// Predicted gain from removing a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gain {
    /// Increase in throughput (packets or other units of work per second), in percent; absent if it
    /// cannot be predicted.
    pub percent: Figure,
    /// What limits the program next, in a few words; `null` if unknown.
    pub then_limited_by: Option<String>,
}

/// Text shown in place of a keyword that only a newer version knows.
pub(crate) const UNKNOWN_TITLE: &str = "unknown to this version";

/// Causes that limit a program: the published list. Minor versions may add causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Other threads run on a CPU that the program needs.
    CpuContention,
    /// Timers or real-time threads interrupt the program briefly, thousands of times per second.
    ShortInterruptions,
    /// A CPU quota on the program's cgroup throttles it.
    CpuQuota,
    /// The hypervisor deschedules the vCPU.
    StolenCpu,
    /// Interrupts and softirqs for other traffic run on the program's CPU.
    InterruptLoad,
    /// One CPU receives all packets while others are idle.
    OneReceiveCpu,
    /// A CPU's backlog overflows.
    BacklogOverflow,
    /// NAPI uses up its budget while packets are still pending.
    NapiBudget,
    /// A receive ring overflows in bursts even though the program has idle time.
    RingOverflow,
    /// A socket's receive buffer overflows.
    SocketBuffer,
    /// The program does not read a socket that receives packets.
    UnreadSocket,
    /// A firewall rule drops packets.
    FirewallDrop,
    /// The connection tracking table is full, so new connections are dropped.
    ConntrackFull,
    /// Packets are dropped because no route leads back to their source (rp_filter).
    ReversePathFilter,
    /// Packets arrive with a wrong checksum.
    BadChecksum,
    /// Fragmented datagrams cannot be reassembled.
    ReassemblyFailed,
    /// The accept queue of a listening socket overflows.
    AcceptQueue,
    /// The program has reached its limit on open files and sockets.
    DescriptorLimit,
    /// The receiver's window limits the sender.
    ReceiveWindow,
    /// The receiver reads more slowly than the sender sends.
    SlowReceiver,
    /// The sender's own send buffer limits it.
    SendBuffer,
    /// Segments are lost in the network, and TCP slows down on each loss.
    TcpLoss,
    /// A queue in the network is full: the slowest link on the path limits the rate.
    PathBandwidth,
    /// Small writes are held back: by Nagle's algorithm until the peer acknowledges earlier ones,
    /// or by TCP_CORK.
    NagleDelay,
    /// A queueing discipline, or pacing by the program itself, limits the rate.
    RateLimiter,
    /// The program waits for a peer with a fixed number of requests in flight.
    WaitingForPeer,
    /// The program waits for a disk or file system.
    WaitingForStorage,
    /// The program sleeps on a timer while requests are waiting.
    TimerSleep,
    /// The program keeps starting child processes and waiting for them, or repeatedly executes
    /// itself or another program (execve).
    ChildProcesses,
    /// Each connection wakes many threads or processes, of which one accepts it.
    ThunderingHerd,
    /// A signal (SIGSTOP) or the cgroup freezer stops the program for part of the time.
    Stopped,
    /// A tracer (strace, a debugger) or kernel probes (bpftrace) slow the program down.
    Tracing,
    /// System call overhead dominates the per-packet cost.
    SystemCalls,
    /// Checksums are computed in software.
    SoftwareChecksum,
    /// Segmentation offload is off, so TCP segments are created one at a time in software.
    NoSegmentation,
    /// Copying data dominates the CPU time.
    Copying,
    /// Page faults dominate the CPU time.
    PageFaults,
    /// The runtime's garbage collector dominates the CPU time.
    GarbageCollection,
    /// The working set exceeds the cache.
    CacheMisses,
    /// Threads contend for a kernel lock.
    KernelLock,
    /// Threads contend for a lock of the program, or wait for one whose holder sleeps: a mutex, a
    /// semaphore, a file lock.
    UserLock,
    /// Threads use different bytes of the same cache line, and at least one thread writes to the
    /// line.
    FalseSharing,
    /// One thread does most of the work while other CPUs are idle.
    SingleThread,
    /// Cryptography runs in software, without the CPU's instructions for it.
    SoftwareCrypto,
    /// The kernel traverses a long list of firewall rules.
    FirewallRules,
    /// Setting up connections dominates the CPU time.
    ConnectionSetup,
    /// A part of the kernel that packets need not pass dominates the CPU time: policy routing
    /// rules, packet sockets of other programs, select over many descriptors, a seccomp filter.
    KernelOverhead,
    /// Threads that end soon after their start, such as one per packet, dominate the CPU time.
    BriefThreads,
    /// TCP segments are far smaller than the interface's MTU allows.
    SmallSegments,
    /// The congestion window does not grow although no segment is lost: it is clamped.
    CongestionWindow,
    /// The program's own packet processing uses all the CPU time.
    ProcessingCost,
    /// The traffic generator is at its limit.
    GeneratorLimit,
    /// The observer uses too much CPU time.
    ObserverLimit,
    /// Nothing is wrong: the rate is set by the offered load, the peer or an intended limit.
    NothingWrong,
    /// No single cause stands out.
    CannotTell,
    /// Unknown cause, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl Cause {
    /// All causes, in the published order, without `Unknown`.
    pub const ALL: [Self; 55] = [
        Self::CpuContention,
        Self::ShortInterruptions,
        Self::CpuQuota,
        Self::StolenCpu,
        Self::InterruptLoad,
        Self::OneReceiveCpu,
        Self::BacklogOverflow,
        Self::NapiBudget,
        Self::RingOverflow,
        Self::SocketBuffer,
        Self::UnreadSocket,
        Self::FirewallDrop,
        Self::ConntrackFull,
        Self::ReversePathFilter,
        Self::BadChecksum,
        Self::ReassemblyFailed,
        Self::AcceptQueue,
        Self::DescriptorLimit,
        Self::ReceiveWindow,
        Self::SlowReceiver,
        Self::SendBuffer,
        Self::TcpLoss,
        Self::PathBandwidth,
        Self::NagleDelay,
        Self::RateLimiter,
        Self::WaitingForPeer,
        Self::WaitingForStorage,
        Self::TimerSleep,
        Self::ChildProcesses,
        Self::ThunderingHerd,
        Self::Stopped,
        Self::Tracing,
        Self::SystemCalls,
        Self::SoftwareChecksum,
        Self::NoSegmentation,
        Self::Copying,
        Self::PageFaults,
        Self::GarbageCollection,
        Self::CacheMisses,
        Self::KernelLock,
        Self::UserLock,
        Self::FalseSharing,
        Self::SingleThread,
        Self::SoftwareCrypto,
        Self::FirewallRules,
        Self::ConnectionSetup,
        Self::KernelOverhead,
        Self::BriefThreads,
        Self::SmallSegments,
        Self::CongestionWindow,
        Self::ProcessingCost,
        Self::GeneratorLimit,
        Self::ObserverLimit,
        Self::NothingWrong,
        Self::CannotTell,
    ];

    /// Returns the keyword used in JSON and in the summary's `finding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuContention => "cpu_contention",
            Self::ShortInterruptions => "short_interruptions",
            Self::CpuQuota => "cpu_quota",
            Self::StolenCpu => "stolen_cpu",
            Self::InterruptLoad => "interrupt_load",
            Self::OneReceiveCpu => "one_receive_cpu",
            Self::BacklogOverflow => "backlog_overflow",
            Self::NapiBudget => "napi_budget",
            Self::RingOverflow => "ring_overflow",
            Self::SocketBuffer => "socket_buffer",
            Self::UnreadSocket => "unread_socket",
            Self::FirewallDrop => "firewall_drop",
            Self::ConntrackFull => "conntrack_full",
            Self::ReversePathFilter => "reverse_path_filter",
            Self::BadChecksum => "bad_checksum",
            Self::ReassemblyFailed => "reassembly_failed",
            Self::AcceptQueue => "accept_queue",
            Self::DescriptorLimit => "descriptor_limit",
            Self::ReceiveWindow => "receive_window",
            Self::SlowReceiver => "slow_receiver",
            Self::SendBuffer => "send_buffer",
            Self::TcpLoss => "tcp_loss",
            Self::PathBandwidth => "path_bandwidth",
            Self::NagleDelay => "nagle_delay",
            Self::RateLimiter => "rate_limiter",
            Self::WaitingForPeer => "waiting_for_peer",
            Self::WaitingForStorage => "waiting_for_storage",
            Self::TimerSleep => "timer_sleep",
            Self::ChildProcesses => "child_processes",
            Self::ThunderingHerd => "thundering_herd",
            Self::Stopped => "stopped",
            Self::Tracing => "tracing",
            Self::SystemCalls => "system_calls",
            Self::SoftwareChecksum => "software_checksum",
            Self::NoSegmentation => "no_segmentation",
            Self::Copying => "copying",
            Self::PageFaults => "page_faults",
            Self::GarbageCollection => "garbage_collection",
            Self::CacheMisses => "cache_misses",
            Self::KernelLock => "kernel_lock",
            Self::UserLock => "user_lock",
            Self::FalseSharing => "false_sharing",
            Self::SingleThread => "single_thread",
            Self::SoftwareCrypto => "software_crypto",
            Self::FirewallRules => "firewall_rules",
            Self::ConnectionSetup => "connection_setup",
            Self::KernelOverhead => "kernel_overhead",
            Self::BriefThreads => "brief_threads",
            Self::SmallSegments => "small_segments",
            Self::CongestionWindow => "congestion_window",
            Self::ProcessingCost => "processing_cost",
            Self::GeneratorLimit => "generator_limit",
            Self::ObserverLimit => "observer_limit",
            Self::NothingWrong => "nothing_wrong",
            Self::CannotTell => "cannot_tell",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the cause as shown to users: its keyword, or a remark if this version has none.
    pub fn title(self) -> &'static str {
        match self {
            Self::Unknown => UNKNOWN_TITLE,
            _ => self.name(),
        }
    }

    /// Returns the rate that rises once the cause is removed. If the cause is connection setup,
    /// packets per request fall at the same time.
    pub fn rate(self) -> &'static str {
        match self {
            Self::ConnectionSetup | Self::WaitingForPeer => "requests per second",
            _ => "throughput",
        }
    }

    /// Returns whether the cause can be removed. Returns false for the four causes that mean that
    /// there is nothing to remove or that the cause is unknown. A cause of a newer version counts
    /// as removable, so that the gain and the fix that its record states are shown.
    pub fn is_removable(self) -> bool {
        !matches!(
            self,
            Self::NothingWrong | Self::GeneratorLimit | Self::ObserverLimit | Self::CannotTell
        )
    }
}
