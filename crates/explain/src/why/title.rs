// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures by name and unit.

use super::functions::Group;
use super::measure::Measure;
use super::waits::Wait;

impl Measure {
    /// What it is, and its unit.
    pub fn title(self) -> (&'static str, &'static str) {
        self.title_of_time().unwrap_or_else(|| self.title_of_packets())
    }

    fn title_of_time(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Demand => ("time on a CPU or wanting one", "ratio"),
            Self::Busy => ("time working, polling taken out", "ratio"),
            Self::Saturation => ("time working or waiting for a CPU", "ratio"),
            Self::UsesStack => ("uses sockets of the stack", "1 is yes"),
            Self::Waiting => ("time waiting for a CPU", "ratio"),
            Self::WaitingPerLoss => ("time waiting over packets lost", "ratio"),
            Self::MeanWait => ("mean wait for a CPU", "us"),
            Self::OthersInstead => ("time waiting while other programs ran on its CPU", "ratio"),
            Self::WaitsPerSecond => ("waits for a CPU", "1/s"),
            Self::Throttled => ("time stopped by a quota", "ratio"),
            Self::ThrottledPeriods => ("periods in which a quota stopped it", "ratio"),
            Self::Stolen => ("time stolen by the hypervisor", "ratio"),
            Self::Interrupts => ("time in interrupts", "ratio"),
            Self::KernelShare => ("kernel, of the time on a CPU", "ratio"),
            Self::Asleep => ("time asleep", "ratio"),
            Self::AsleepOnFutex => ("time asleep on futexes", "ratio"),
            Self::AsleepOnServer => ("time asleep on connections it opened", "ratio"),
            Self::AsleepForPackets => ("time asleep until it looks for packets", "ratio"),
            Self::AsleepIn(Wait::Input) => ("time asleep waiting for input", "ratio"),
            Self::AsleepIn(Wait::Thread) => ("time asleep waiting for other threads", "ratio"),
            Self::AsleepIn(Wait::Timer) => ("time asleep on timers", "ratio"),
            Self::AsleepIn(Wait::Storage) => ("time asleep on storage", "ratio"),
            Self::AsleepIn(Wait::Other) => ("time asleep on anything else", "ratio"),
            Self::SleepsPerPacket => ("sleeps per packet", "1/packet"),
            Self::Answers => ("connections carry data both ways", "1 is yes"),
            Self::WorkingThreads => ("threads that want 0.3 CPUs or more", "threads"),
            Self::SleepsPerSecond => ("sleeps", "1/s"),
            Self::Functions(group) => (group.title(), "ratio"),
            Self::CpuFunctions(group) => (group.title_of_cpu(), "ratio"),
            Self::FalselyShared => ("samples at bytes next to those of other threads", "ratio"),
            Self::CommonBytes => ("samples at bytes that other threads use", "ratio"),
            Self::MemoryShare => ("samples at lines seen once", "ratio"),
            Self::WorkingSet => ("memory in use over the last-level cache", "ratio"),
            Self::CallTime => ("CPU time of entering system calls, estimated", "ratio"),
            Self::ForeignOfRun => ("interrupts for packets of others, of its time", "ratio"),
            Self::ForeignInterrupts => ("time in interrupts for packets of others", "ratio"),
            Self::NamedFunctions => ("samples in functions with a name", "ratio"),
            Self::CryptoLibrary => ("samples in libraries of ciphers", "ratio"),
            Self::CryptoPerByte => ("CPU time of ciphers", "ns/byte"),
            Self::CipherInstructions => ("instructions for ciphers, of their samples", "ratio"),
            Self::FaultsPerSecond => ("page faults", "1/s"),
            Self::FaultTime => ("CPU time of page faults, estimated", "ratio"),
            Self::CpuInterrupts => ("time of the CPU in interrupts", "ratio"),
            Self::CpuUsed => ("time of the CPU not idle", "ratio"),
            Self::FirewallOfUsed => ("firewall rules, of the time not idle", "ratio"),
            Self::IdleElsewhere => ("idle time of another CPU", "ratio"),
            Self::IdleCpus => ("idle CPUs", "CPUs"),
            Self::LockWait => ("time waiting for locks of the kernel", "ratio"),
            Self::LockWaitOfRun => ("waits for locks of the kernel, of its time on a CPU", "ratio"),
            Self::Observer => ("CPU time of the observer", "ratio"),
            _ => return None,
        })
    }

    fn title_of_packets(self) -> (&'static str, &'static str) {
        match self {
            Self::ForeignPackets => ("packets of others on its CPU", "ratio"),
            Self::BytesPerConnection => ("bytes per connection", "bytes"),
            Self::CallsPerPacket => ("system calls per packet", "calls"),
            Self::CallsPerSecond => ("system calls", "1/s"),
            Self::BytesPerCall => ("bytes per system call", "bytes"),
            Self::OneWay => ("bytes in one direction", "ratio"),
            Self::BytesPerPacket => ("bytes per packet", "bytes"),
            Self::BytesPerTransmit => ("bytes sent at once", "bytes"),
            Self::Datagrams => ("uses datagrams or frames", "1 is yes"),
            Self::PacketsPerSqueeze => ("packets between two early stops of NAPI", "packets"),
            Self::PacketRate => ("packets", "packets/s"),
            Self::RingLoss => ("packets lost before the program", "ratio"),
            Self::SocketLoss => ("packets that the socket dropped", "ratio"),
            Self::AcceptLoss => ("connections dropped at the listening socket", "ratio"),
            Self::QueueFull => ("receive queue of the socket over its size", "ratio"),
            Self::CardLoss => ("packets dropped by the NIC", "ratio"),
            Self::BacklogLoss => ("packets dropped at the backlog", "ratio"),
            Self::Squeezed => ("receive softirqs that stopped with work left", "ratio"),
            Self::SqueezedPerSecond => ("stops of NAPI with work left", "1/s"),
            Self::ReceivedHere => ("packets received on this CPU", "ratio"),
            Self::Flows => ("flows", "flows"),
            Self::WindowLimited => ("time limited by the receiver's window", "ratio"),
            Self::SendBufferLimited => ("time limited by the send buffer", "ratio"),
            Self::PeerWindow => ("receiver's window over what the path needs", "ratio"),
            Self::Resent => ("segments lost and sent again", "ratio"),
            Self::AppLimited => ("readings with nothing more to send", "ratio"),
            Self::Held => ("readings with data held back (Nagle)", "ratio"),
            Self::OfPacingLimit => ("rate over the program's own limit", "ratio"),
            Self::ReceiveBuffer => ("receive buffer", "bytes"),
            Self::ReceivedBytes => ("received", "bytes/s"),
            Self::OfLimit => ("rate over the limit", "ratio"),
            Self::OverlimitsPerPacket => ("waits of the queueing discipline per packet", "ratio"),
            Self::ChecksumOff => ("checksum offload is off", "1 is yes"),
            Self::SegmentationOff => ("segmentation offload is off", "1 is yes"),
            Self::SentBytes => ("sent", "bytes/s"),
            Self::BytesPerSegment => ("bytes per segment", "bytes"),
            Self::ConnectionsPerSecond => ("connections set up", "1/s"),
            Self::SegmentsPerConnection => ("segments per connection", "segments"),
            Self::SegmentTime => ("CPU time of packets cut early, estimated", "ratio"),
            Self::ChecksumTime => ("CPU time of those and checksums, estimated", "ratio"),
            Self::ConnectionTime => ("CPU time of connections, estimated", "ratio"),
            Self::ClientsPerServer => ("clients per connection to a server", "ratio"),
            _ => ("", ""),
        }
    }
}

impl Group {
    fn title_of_cpu(self) -> &'static str {
        match self {
            Self::Firewall => "time of the CPU in firewall rules",
            Self::Checksum => "time of the CPU in checksums",
            Self::KernelLock => "time of the CPU in waits for locks",
            _ => "time of the CPU in a group of functions of the kernel",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Checksum => "samples in checksums of the kernel",
            Self::KernelCopy => "samples in copies between user and kernel",
            Self::UserCopy => "samples in copies of the program",
            Self::KernelLock => "samples in waits for locks of the kernel",
            Self::UserLock => "samples in locks of the program",
            Self::Firewall => "samples in firewall rules",
            Self::SoftwareCrypto => "samples in ciphers without instructions",
        }
    }
}
