// SPDX-License-Identifier: MIT OR Apache-2.0
//! Titles and units of the measures.

use super::functions::Group;
use super::measure::Measure;
use super::waits::Wait;

impl Measure {
    /// Returns the title and unit under which the measure is listed as evidence.
    pub fn title(self) -> (&'static str, &'static str) {
        let of_time = self.title_of_time().or_else(|| self.title_of_waits());
        let of_time = of_time.or_else(|| self.title_of_wake_ups());
        let of_time = of_time.or_else(|| self.title_of_avoidable());
        of_time.unwrap_or_else(|| self.title_of_packets())
    }

    fn title_of_time(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Demand => ("CPU demand (running, runnable, throttled or stolen)", "ratio"),
            Self::Busy => ("time spent working, excluding polling", "ratio"),
            Self::Saturation => ("time spent working or waiting for a CPU", "ratio"),
            Self::UsesStack => ("receives through kernel sockets only", "1 = yes"),
            Self::Waiting => ("time waiting for a CPU", "ratio"),
            Self::WaitingPerLoss => ("time waiting for a CPU / packet loss rate", "ratio"),
            Self::MeanWait => ("mean wait for a CPU", "us"),
            Self::OthersInstead => {
                ("time waiting for a CPU while other programs ran on it", "ratio")
            }
            Self::PeersHere => ("CPU time of the peers on the same CPU", "ratio"),
            Self::IdleHere => ("idle time of the thread's CPU", "ratio"),
            Self::WaitsPerSecond => ("waits for a CPU", "1/s"),
            Self::Throttled => ("time throttled by a CPU quota", "ratio"),
            Self::ThrottledPeriods => ("quota periods with throttling", "ratio"),
            Self::Stolen => ("time stolen by the hypervisor", "ratio"),
            Self::Interrupts => ("time in interrupts and softirqs", "ratio"),
            Self::KernelShare => ("share of CPU time in the kernel", "ratio"),
            Self::Asleep => ("time asleep", "ratio"),
            Self::SleepsPerPacket => ("sleeps per packet", "1/packet"),
            Self::Answers => ("connections carry data both ways", "1 = yes"),
            Self::WorkingThreads => ("threads with a demand of 0.3 CPUs or more", "threads"),
            Self::SleepsPerSecond => ("sleeps", "1/s"),
            Self::Functions(group) => (group.title(), "ratio"),
            Self::CpuFunctions(group) => (group.title_of_cpu(), "ratio"),
            Self::FalselyShared => ("samples hitting falsely shared cache lines", "ratio"),
            Self::CommonBytes => ("samples hitting bytes that other threads also use", "ratio"),
            Self::MemoryShare => ("samples on cache lines that were sampled only once", "ratio"),
            Self::WorkingSet => ("working set / last-level cache size", "ratio"),
            Self::CallTime => ("CPU time in system call entry and exit, estimated", "ratio"),
            Self::ForeignOfRun => {
                ("time in interrupts for other programs' packets / CPU time", "ratio")
            }
            Self::ForeignInterrupts => ("time in interrupts for other programs' packets", "ratio"),
            Self::NamedFunctions => ("samples in functions with a known name", "ratio"),
            Self::CryptoLibrary => ("samples in crypto libraries", "ratio"),
            Self::CryptoPerByte => ("CPU time in crypto libraries", "ns/byte"),
            Self::CipherInstructions => {
                ("crypto library samples on AES and SHA instructions", "ratio")
            }
            Self::WorkWithoutTimers => ("CPU time of threads that do not sleep on timers", "ratio"),
            Self::AsleepOnMutex => ("time asleep waiting for mutexes", "ratio"),
            Self::OthersAwaitInput => ("time another thread spends waiting for input", "ratio"),
            Self::StrangersInstead => {
                ("time waiting for a CPU while unrelated programs ran on it", "ratio")
            }
            Self::GarbageShare => ("CPU time of the garbage collector / CPU time", "ratio"),
            Self::GarbageCpus => ("CPU time of the garbage collector", "CPUs"),
            Self::LateReplies => {
                ("readings in which a request had been waiting for 4 ms or longer", "ratio")
            }
            Self::FaultTime => ("time in page faults / CPU time, estimated", "ratio"),
            Self::CpuInterrupts => ("this CPU's time in interrupts and softirqs", "ratio"),
            Self::ReceiverInterrupts => {
                ("most time in interrupts and softirqs on any receiving CPU", "ratio")
            }
            Self::CpuUsed => ("this CPU's non-idle time", "ratio"),
            Self::FirewallOfUsed => {
                ("share of this CPU's non-idle time in firewall rules", "ratio")
            }
            Self::IdleElsewhere => ("idle time of the least busy other CPU", "ratio"),
            Self::IdleCpus => ("idle CPUs", "CPUs"),
            Self::Observer => ("CPU time of the observer", "ratio"),
            _ => return None,
        })
    }

    fn title_of_waits(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::OfWork => ("CPU time of the thread / CPU time of all threads", "ratio"),
            Self::Pending => ("readings with a pending request", "ratio"),
            Self::IdleMeanwhile => {
                ("time waiting while the thread's CPUs were idle / time waiting for a CPU", "ratio")
            }
            Self::MajorFaultsPerSecond => ("major page faults (read from disk)", "1/s"),
            Self::AsleepInFaults => ("time asleep in major page faults", "ratio"),
            Self::FaultsPerSecond => ("page faults", "1/s"),
            Self::InsteadKnown => ("CPU time of threads that ran instead / time waiting", "ratio"),
            Self::LockWait => ("time waiting for kernel locks", "ratio"),
            Self::LockWaitOfRun => ("time waiting for kernel locks / CPU time", "ratio"),
            Self::AsleepOnFutex => ("time asleep on futexes", "ratio"),
            Self::AsleepInSend => ("time asleep sending on TCP connections", "ratio"),
            Self::RequestsUnread => ("readings with unread data on a connection", "ratio"),
            Self::AsleepInPipe => ("time asleep writing to another process", "ratio"),
            Self::HigherPriority => (
                "CPU time of a waiting thread of the program with a lower nice value / CPU time of \
                 the thread",
                "ratio",
            ),
            Self::OwnInstead => {
                ("CPU time of the program's own threads / of all threads that ran instead", "ratio")
            }
            Self::SoftirqsInstead => (
                "CPU time of ksoftirqd and napi threads / of all threads that ran instead",
                "ratio",
            ),
            Self::ChildrenCpus => ("CPU time of child processes that ended", "CPUs"),
            Self::ChildrenShare => {
                ("CPU time of child processes that ended / CPU time including them", "ratio")
            }
            Self::AsleepOnChildren => ("time asleep waiting for child processes", "ratio"),
            Self::OutOfMemory => ("drops at the system-wide UDP memory limit (udp_mem)", "ratio"),
            Self::AsleepOnSilent => ("time asleep waiting for a server that is silent", "ratio"),
            Self::AsleepOnServer => ("time asleep waiting on outgoing connections", "ratio"),
            Self::AsleepOnUnlisted => ("time asleep waiting on short-lived sockets", "ratio"),
            Self::StoragePerClient => ("threads waiting for storage / waiting clients", "ratio"),
            Self::RepliesDelayed => {
                ("time when a reply is pending while all threads are asleep", "ratio")
            }
            Self::DescriptorsReached => {
                ("the socket's process reached its limit on open descriptors", "1 = yes")
            }
            Self::DescriptorsFull => ("time at the limit on open descriptors", "ratio"),
            Self::PendingAtServers => ("requests pending at servers / waiting clients", "ratio"),
            Self::AskedPerRequest => ("segments to servers / segments from clients", "ratio"),
            Self::QueuedForServers => ("waiting clients minus connections to servers", "requests"),
            Self::LockQueue => ("threads waiting for a lock", "threads"),
            Self::AwaitingServers => {
                ("time when both clients and the program wait for replies", "ratio")
            }
            Self::AsleepForPackets => ("time asleep between packet reads", "ratio"),
            Self::AsleepIn(Wait::Input) => ("time asleep waiting for input", "ratio"),
            Self::AsleepIn(Wait::Thread) => ("time asleep waiting for other threads", "ratio"),
            Self::AsleepIn(Wait::Timer) => ("time asleep on a timer", "ratio"),
            Self::AsleepIn(Wait::Lock) => ("time asleep waiting for a lock", "ratio"),
            Self::AsleepIn(Wait::Storage) => ("time asleep waiting for storage", "ratio"),
            Self::SleepsOrKnowsPeers => (
                "receives through kernel sockets other than UDP, or sleeps at least 100 times/s",
                "1 = yes",
            ),
            Self::AsleepIn(Wait::Stopped) => ("time stopped", "ratio"),
            Self::Crypto => ("samples in cryptographic functions", "ratio"),
            Self::AnswersDatagrams => ("as many datagrams sent as received", "1 = yes"),
            Self::IsTraced => ("a process traces the thread", "1 = yes"),
            Self::ExecsPerSecond => ("calls to execve (lower bound)", "1/s"),
            Self::AsleepIn(Wait::Other) => ("time asleep for other reasons", "ratio"),
            _ => return None,
        })
    }

    fn title_of_wake_ups(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::WorkOrPause => (
                "time that the busiest thread works, or sleeps while the garbage collector runs",
                "ratio",
            ),
            Self::Pauses => ("part of that time in which the garbage collector runs", "ratio"),
            Self::BriefProcesses => ("processes that began and ended between two readings", "1/s"),
            Self::TakesTurns => (
                "CPU time used by the program's other threads that share this CPU and wait on the \
                 same futex",
                "ratio",
            ),
            Self::OpeningToServers => {
                ("time with clients waiting while connections to servers open", "ratio")
            }
            Self::HerdThreads => ("threads that wait for input and compete for CPUs", "threads"),
            Self::HerdSleeps => ("sleeps of competing threads per TCP segment received", "ratio"),
            Self::HerdPerConnection => {
                ("fraction of the competing threads that wake up per connection", "ratio")
            }
            Self::HerdTime => ("CPU time of wake-ups without a connection, estimated", "ratio"),
            _ => return None,
        })
    }

    fn title_of_avoidable(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::KernelPart => ("samples in a part of the kernel that can be avoided", "ratio"),
            Self::KernelPartTime => {
                ("CPU time of the avoidable part of the kernel, estimated", "ratio")
            }
            Self::CongestionMarks => ("segments with a congestion mark (ECN)", "segments"),
            Self::OfCalls => ("system calls of the thread / of all threads", "ratio"),
            Self::Hashes => {
                ("samples in hashes and ciphers / in all cryptographic functions", "ratio")
            }
            Self::ProcessesPerDatagram => {
                ("processes started, at 1 ms of CPU time each, per datagram received", "ratio")
            }
            Self::BriefThreadsTime => ("CPU time of threads that ended, estimated", "ratio"),
            Self::FileCalls => ("reads and writes per datagram, except on sockets", "calls"),
            Self::FileCallTime => {
                ("CPU time of reads and writes except on sockets, estimated", "ratio")
            }
            Self::HandshakeMs => ("CPU time in cryptographic functions per connection", "ms"),
            Self::OwnFunction => ("samples in one function of the program", "ratio"),
            Self::OtherCalls => ("system calls for one purpose other than packets", "ratio"),
            Self::OtherCallTime => {
                ("CPU time of system calls for one purpose other than packets, estimated", "ratio")
            }
            Self::BytesPerRead => ("bytes received per call that reads", "bytes"),
            Self::ReadTime => ("CPU time of calls that read, estimated", "ratio"),
            Self::BriefThreadsCpus => ("CPU time of threads that ended", "CPUs"),
            Self::BriefThreadsShare => {
                ("CPU time of threads that ended / CPU time of the program", "ratio")
            }
            Self::SmallSegments => ("1 - segment size / size that the MTU allows", "ratio"),
            Self::WindowOfRate => ("delivery rate x round-trip time / congestion window", "ratio"),
            Self::WindowOfRoundTrips => {
                ("congestion window in segments / round trips with data to send", "ratio")
            }
            Self::RoundTripMs => ("minimum round-trip time", "ms"),
            Self::SteadyRoundTrip => ("round-trip time at the end / minimum", "ratio"),
            Self::RetransmittedByBusiest => ("segments retransmitted", "segments"),
            _ => return None,
        })
    }

    fn title_of_packets(self) -> (&'static str, &'static str) {
        match self {
            Self::ForeignPackets => ("other programs' packets on the thread's CPU", "ratio"),
            Self::BytesPerConnection => ("bytes per connection", "bytes"),
            Self::CallsPerPacket => ("system calls per packet", "calls"),
            Self::CallsPerSecond => ("system calls", "1/s"),
            Self::BytesPerCall => ("bytes per system call", "bytes"),
            Self::MaxBytesPerCall => ("bytes per system call (upper bound)", "bytes"),
            Self::OneWay => ("bytes in the busier direction", "ratio"),
            Self::BytesPerPacket => ("bytes per packet", "bytes"),
            Self::BytesPerTransmit => ("bytes per packet sent, before segmentation", "bytes"),
            Self::Datagrams => ("uses datagrams or raw frames", "1 = yes"),
            Self::PacketsPerSqueeze => {
                ("packets between NAPI polls that stopped with work left", "packets")
            }
            Self::PacketRate => ("packet rate", "packets/s"),
            Self::RingLoss => ("packets lost in the program's receive ring", "ratio"),
            Self::SocketLoss => ("packets dropped by the socket", "ratio"),
            Self::QueueWaits => ("readings with a non-empty receive queue", "ratio"),
            Self::FirewallLoss => ("packets dropped by firewall rules", "ratio"),
            Self::OutputFirewallLoss => ("packets dropped by firewall rules on output", "ratio"),
            Self::ConntrackLoss => ("packets dropped by a full connection tracking table", "ratio"),
            Self::ReversePathLoss => ("packets without a route back to their source", "ratio"),
            Self::ChecksumLoss => ("packets with a wrong checksum", "ratio"),
            Self::ReassemblyLoss => ("fragmented datagrams that were not reassembled", "ratio"),
            Self::AcceptQueueFull => ("mean occupancy of the accept queue", "ratio"),
            Self::AcceptLoss => ("connections dropped at the listening socket", "ratio"),
            Self::QueueFull => ("fill level of the socket's receive queue", "ratio"),
            Self::QueueSteady => ("receive queue: mean / maximum length", "ratio"),
            Self::CardLoss => ("packets dropped by the NIC", "ratio"),
            Self::BacklogLoss => ("packets dropped at the CPU backlog", "ratio"),
            Self::Squeezed => ("receive softirqs that stopped with work left", "ratio"),
            Self::SqueezedPerSecond => ("NAPI polls that stopped with work left", "1/s"),
            Self::ReceivedHere => ("share of all packets received on this CPU", "ratio"),
            Self::Flows => ("flows, weighted by packets", "flows"),
            Self::OwnOfReceived => ("packets of the program / packets received", "ratio"),
            Self::OwnThrough => ("bytes of the program that leave through the interface", "ratio"),
            Self::WindowLimited => ("time spent limited by the receiver's window", "ratio"),
            Self::SendBufferLimited => ("time spent limited by the send buffer", "ratio"),
            Self::PeerWindow => ("receiver's window / bandwidth-delay product", "ratio"),
            Self::Resent => ("segments retransmitted after a loss", "ratio"),
            Self::RoundTripGrowth => ("round-trip time / minimum round-trip time", "ratio"),
            Self::QueueingDelay => ("round-trip time above its minimum", "ms"),
            Self::AppLimited => ("readings with nothing left to send (app-limited)", "ratio"),
            Self::Held => ("readings with data held back (Nagle)", "ratio"),
            Self::Corked => ("readings with data held back (TCP_CORK)", "ratio"),
            Self::OfPacingLimit => ("rate relative to the program's pacing limit", "ratio"),
            Self::ReceiveBuffer => ("receive buffer", "bytes"),
            Self::ReceiveBufferOfRate => ("receive buffer / bandwidth-delay product", "ratio"),
            Self::ReceivedBytes => ("received", "bytes/s"),
            Self::OwnTraffic => ("bytes sent by the program / bytes through the qdisc", "ratio"),
            Self::FifoBehind => ("no queueing discipline does fair queueing", "1 = yes"),
            Self::FilterLoss => ("packets dropped by tc filters", "ratio"),
            Self::OfLimit => ("rate relative to the limit", "ratio"),
            Self::OverlimitsPerPacket => ("qdisc overlimits per packet", "ratio"),
            Self::ChecksumOff => ("checksum offload is off", "1 = yes"),
            Self::SegmentationOff => ("segmentation offload is off", "1 = yes"),
            Self::SentBytes => ("sent", "bytes/s"),
            Self::BytesPerSegment => ("bytes per segment", "bytes"),
            Self::ConnectionsPerSecond => ("new connections", "1/s"),
            Self::SegmentsPerConnection => ("segments per connection", "segments"),
            Self::SegmentTime => ("CPU time of software segmentation, estimated", "ratio"),
            Self::ChecksumTime => {
                ("CPU time of software segmentation and checksums, estimated", "ratio")
            }
            Self::ConnectionTime => {
                ("CPU time of connection setup and teardown, estimated", "ratio")
            }
            Self::ClientsPerServer => ("client connections per server connection", "ratio"),
            _ => ("", ""),
        }
    }
}

impl Group {
    fn title_of_cpu(self) -> &'static str {
        match self {
            Self::Firewall => "this CPU's time in firewall rules",
            Self::Checksum => "this CPU's time computing checksums",
            Self::KernelLock => "this CPU's time waiting for kernel locks",
            _ => "this CPU's time in a group of kernel functions",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Checksum => "samples in kernel checksum functions",
            Self::KernelCopy => "samples in functions that copy between user and kernel space",
            Self::UserCopy => "samples in user-space copy functions",
            Self::KernelLock => "samples waiting for kernel locks",
            Self::UserLock => "samples in user-space lock functions",
            Self::UserLockWait => "samples in user-space functions that wait for locks",
            Self::Firewall => "samples in firewall rules",
            Self::SoftwareCrypto => "samples in software ciphers",
            Self::PageFault => "samples in page faults and memory mapping",
            Self::GarbageCollection => "samples in garbage collection",
            Self::ProbeEntry => "samples in functions that enter probes",
            Self::Probe => "samples in functions called by probes (stack traces)",
        }
    }
}
