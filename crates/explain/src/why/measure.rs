// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures: the quantities that conditions in rules refer to.

pub(super) mod avoidable;
pub(super) mod connections;
mod costs;
mod counts;
mod delays;
mod flows;
mod go;
mod instructions;
pub(super) mod opened;
mod packets;
mod pending;
mod program;
mod received;
mod servers;
mod sleeps;
mod threads;
mod workers;

pub(super) use self::counts::{
    asleep_on_unlisted, children_cpus, faults, fullest, share_of_strangers, stopped_by_peer,
    work_without_timers,
};
pub(super) use self::go::{is_go, is_go_monitor};
pub(super) use self::pending::PENDING;
use super::functions::Group;
use super::waits::Wait;

/// A measure. Shares range from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// CPU demand: fraction of time during which the thread is running, runnable or throttled, or
    /// the hypervisor has taken its CPU away.
    Demand,
    /// Fraction of time that the thread works rather than polls.
    Busy,
    /// Fraction of time that the thread does work on a CPU or waits for one.
    Saturation,
    /// 1 if the program receives only through kernel sockets, otherwise 0.
    UsesStack,
    /// 1 if the program's peers are known (it receives only through kernel sockets, none of them
    /// UDP) or the thread sleeps at least 100 times per second; otherwise 0.
    SleepsOrKnowsPeers,
    /// Time waiting for a CPU.
    Waiting,
    /// Fraction of time spent waiting for a CPU, divided by the fraction of packets lost before
    /// they reach the program.
    WaitingPerLoss,
    /// Mean wait for a CPU, in microseconds.
    MeanWait,
    /// Time spent waiting for a CPU while other programs' threads ran on it.
    OthersInstead,
    /// CPU time that the program's peers used on the thread's CPU, relative to the window length.
    PeersHere,
    /// CPU time used by the program's other threads that share this CPU and wait on the same futex.
    TakesTurns,
    /// Idle time of the thread's CPU.
    IdleHere,
    /// Fraction of the thread's wait for a CPU during which all CPUs that it ran on were idle
    /// (lower bound).
    IdleMeanwhile,
    /// Number of times per second that the thread waits for a CPU.
    WaitsPerSecond,
    /// Time throttled by a CPU quota.
    Throttled,
    /// Fraction of quota periods in which the group was throttled.
    ThrottledPeriods,
    /// Time stolen by the hypervisor.
    Stolen,
    /// Time spent in interrupts and softirqs while the thread was on a CPU.
    Interrupts,
    /// Fraction of the packets received on the thread's CPU that are for other programs.
    ForeignPackets,
    /// Time spent in interrupts for other programs' packets.
    ForeignInterrupts,
    /// Time spent in interrupts for other programs' packets, relative to the thread's CPU time.
    ForeignOfRun,
    /// Fraction of CPU time spent in the kernel, softirqs included.
    KernelShare,
    /// Time asleep.
    Asleep,
    /// Time asleep on futexes, averaged over working threads.
    AsleepOnFutex,
    /// Time asleep while waiting for packets or for the next batch; all time asleep if the system
    /// calls could not be read.
    AsleepForPackets,
    /// Time asleep in calls that wait for this kind of event.
    AsleepIn(Wait),
    /// 1 if a process traces the thread with ptrace(2), otherwise 0.
    IsTraced,
    /// Calls to execve by the thread's process per second, a lower bound.
    ExecsPerSecond,
    /// Number of times that the thread sleeps, per packet handled by the program.
    SleepsPerPacket,
    /// 1 if a connection carries data both ways, as with requests and replies, otherwise 0.
    Answers,
    /// 1 if a UDP socket takes datagrams from any peer, and about as many are sent as received.
    AnswersDatagrams,
    /// Number of threads with a CPU demand of at least 0.3.
    WorkingThreads,
    /// CPU time of the thread relative to that of all threads.
    OfWork,
    /// Fraction of readings with a pending request; 1 if requests are not counted and the thread
    /// may be the one that handles them.
    Pending,
    /// Voluntary context switches of the thread per second.
    SleepsPerSecond,
    /// Fraction of samples in a group of functions.
    Functions(Group),
    /// Fraction of the CPU's time in a group of kernel functions.
    CpuFunctions(Group),
    /// Fraction of samples in functions with known names.
    NamedFunctions,
    /// Fraction of samples on falsely shared cache lines: another thread uses different bytes of
    /// the line, and at least one of the two threads writes to it.
    FalselyShared,
    /// Fraction of samples on bytes that another thread also uses, where at least one of the two
    /// threads writes them.
    CommonBytes,
    /// Fraction of samples on cache lines that were sampled only once.
    MemoryShare,
    /// The thread's working set relative to the size of the last-level cache.
    WorkingSet,
    /// CPU time of system call entry and exit, relative to the thread's time on a CPU.
    CallTime,
    /// Fraction of samples in crypto libraries.
    CryptoLibrary,
    /// Fraction of samples in crypto libraries and in cryptographic functions of other files.
    Crypto,
    /// CPU time in crypto libraries per byte, in nanoseconds.
    CryptoPerByte,
    /// Fraction of crypto library samples that land on cipher and hash instructions.
    CipherInstructions,
    /// Bytes per established TCP connection.
    BytesPerConnection,
    /// Page faults of all threads per second.
    FaultsPerSecond,
    /// Estimated cost of page faults, relative to the program's CPU time.
    FaultTime,
    /// Page faults per second for which the data had to be read from disk.
    MajorFaultsPerSecond,
    /// Fraction of time that the thread sleeps in page faults that read from disk.
    AsleepInFaults,
    /// Largest fraction of time that another thread of the program waits for requests.
    OthersAwaitInput,
    /// Fraction of the CPU time of the thread's process that is spent in threads that hardly sleep
    /// on timers.
    WorkWithoutTimers,
    /// Time asleep waiting for mutexes or an interpreter's lock, averaged over working threads.
    AsleepOnMutex,
    /// Time waiting for a CPU while programs other than peers ran on it.
    StrangersInstead,
    /// System calls per packet.
    CallsPerPacket,
    /// System calls per second.
    CallsPerSecond,
    /// Bytes transferred per system call on the program's connections.
    BytesPerCall,
    /// Upper bound of [`Self::BytesPerCall`]; infinite if nothing bounds it.
    MaxBytesPerCall,
    /// CPU time of the threads that are known to have run while the thread waited for a CPU,
    /// relative to the time spent waiting; 1 if the scheduler was not traced.
    InsteadKnown,
    /// CPU time of the busiest thread of the program that also waits for a CPU and has a lower nice
    /// value, relative to the thread's own CPU time; 0 without such a thread.
    HigherPriority,
    /// Share of the program's own threads in the CPU time used by others while the thread waited
    /// for a CPU; 0 if another CPU has room for them.
    OwnInstead,
    /// Share of the kernel's softirq threads in the CPU time of all threads that ran while a thread
    /// waited for its CPU; 0 if it is not known what ran there.
    SoftirqsInstead,
    /// Fraction of the bytes through a queueing discipline that the program sent.
    OwnTraffic,
    /// Fraction of an interface's packets that its tc filters dropped.
    FilterLoss,
    /// 1 if no queueing discipline of the interface does fair queueing, otherwise 0.
    FifoBehind,
    /// Processes of the program, per second, that ended before they could be read twice.
    BriefProcesses,
    /// Fraction of bytes that flow in the busier direction of their connection, over all
    /// connections.
    OneWay,
    /// Bytes per packet.
    BytesPerPacket,
    /// Bytes per packet sent by an interface, before segmentation offload.
    BytesPerTransmit,
    /// 1 if the program uses datagrams or raw frames, 0 if only streams.
    Datagrams,
    /// Packets per second.
    PacketRate,
    /// Fraction of the program's packets lost in the ring that it reads from.
    RingLoss,
    /// Fraction of the program's packets dropped by a socket.
    SocketLoss,
    /// Fraction of a socket's drops that are due to the memory limit of all UDP sockets.
    OutOfMemory,
    /// Fraction of readings with a non-empty receive queue.
    QueueWaits,
    /// Packets dropped by firewall rules relative to packets that reached IP.
    FirewallLoss,
    /// Packets dropped by firewall rules on output, relative to packets sent.
    OutputFirewallLoss,
    /// Packets dropped because the connection tracking table was full, relative to packets that
    /// reached IP.
    ConntrackLoss,
    /// Packets dropped because no route leads back to their source, relative to packets that
    /// reached IP.
    ReversePathLoss,
    /// Fraction of packets of the program's protocols that arrive with a wrong checksum.
    ChecksumLoss,
    /// Failures to reassemble a datagram, relative to all datagrams that arrive in fragments.
    ReassemblyLoss,
    /// Fraction of readings in which a process had as many descriptors open as its limit allows.
    DescriptorsFull,
    /// 1 if the socket's process was at its limit on open descriptors in any reading, otherwise 0.
    DescriptorsReached,
    /// Mean fill level of a socket's receive queue, relative to its size.
    QueueFull,
    /// Mean length of a socket's receive queue relative to its maximum length, multiplied by the
    /// fraction of readings in which it is not empty: near 1 if the queue is always full.
    QueueSteady,
    /// Mean fill level of an accept queue across all readings, relative to its size.
    AcceptQueueFull,
    /// Fraction of incoming connections dropped at a listening socket.
    AcceptLoss,
    /// Fraction of packets dropped by the NIC.
    CardLoss,
    /// Fraction of the CPU's packets dropped at its backlog.
    BacklogLoss,
    /// Fraction of receive softirqs in which NAPI exhausted its budget.
    Squeezed,
    /// NAPI polls per second that stopped with packets remaining.
    SqueezedPerSecond,
    /// Packets received per NAPI poll that stops with packets remaining.
    PacketsPerSqueeze,
    /// Fraction of all packets that are received on this CPU.
    ReceivedHere,
    /// Fraction of this CPU's time spent in interrupts and softirqs.
    CpuInterrupts,
    /// Largest fraction of time in interrupts and softirqs, over the CPUs that receive packets.
    ReceiverInterrupts,
    /// Packets received by the program, relative to those received by the interface or, for other
    /// subjects, by all CPUs; 1 if an interface is observed.
    OwnOfReceived,
    /// Fraction of the bytes that the program sends on its connections that leave through this
    /// interface.
    OwnThrough,
    /// Fraction of time that this CPU is not idle.
    CpuUsed,
    /// Fraction of this CPU's non-idle time spent on firewall rules.
    FirewallOfUsed,
    /// Idle fraction of the least busy other CPU.
    IdleElsewhere,
    /// Total idle time of all CPUs, in CPUs.
    IdleCpus,
    /// Number of flows, weighted by packets: all packets relative to those of the largest flow.
    Flows,
    /// Time during which sending connections were limited by the receiver's window.
    WindowLimited,
    /// Time during which sending connections were limited by their own send buffer.
    SendBufferLimited,
    /// Largest receiver window relative to the bandwidth-delay product (rate times minimum RTT).
    PeerWindow,
    /// Fraction of sent segments that were lost and retransmitted.
    Resent,
    /// Round-trip time of the busiest sending connection relative to its minimum.
    RoundTripGrowth,
    /// Time in ms that segments of the busiest sending connection wait in queues on the path.
    QueueingDelay,
    /// Fraction of readings in which connections had nothing left to send.
    AppLimited,
    /// Fraction of readings in which Nagle's algorithm held back a connection's data.
    Held,
    /// Fraction of readings in which the program held back a connection's data (TCP_CORK).
    Corked,
    /// Acknowledged bytes per second relative to the program's pacing limit.
    OfPacingLimit,
    /// Receive buffer of a connection, in bytes.
    ReceiveBuffer,
    /// Receive buffer of a connection relative to the bandwidth-delay product.
    ReceiveBufferOfRate,
    /// Bytes received per second on a connection.
    ReceivedBytes,
    /// Rate through a queueing discipline relative to its limit.
    OfLimit,
    /// Overlimits per packet: how often a queueing discipline delays a packet.
    OverlimitsPerPacket,
    /// 1 if TX checksum offload is off on an interface, otherwise 0.
    ChecksumOff,
    /// 1 if segmentation offload is off on an interface, otherwise 0.
    SegmentationOff,
    /// Bytes sent per second by an interface.
    SentBytes,
    /// Bytes per segment sent on TCP connections.
    BytesPerSegment,
    /// TCP connections established per second.
    ConnectionsPerSecond,
    /// TCP segments received per established connection.
    SegmentsPerConnection,
    /// Client connections per server connection.
    ClientsPerServer,
    /// Time asleep in calls that wait on a connection opened by the program.
    AsleepOnServer,
    /// Time asleep waiting for a UDP server that does not answer.
    AsleepOnSilent,
    /// Time asleep waiting for input on sockets that were open too briefly to be listed.
    AsleepOnUnlisted,
    /// Threads that wait for storage, relative to the clients that wait for a reply.
    StoragePerClient,
    /// Time during which a reply is pending, but no thread of the program runs or waits for a CPU.
    RepliesDelayed,
    /// Fraction of readings in which a client waits for a reply while the program waits for a reply
    /// from another server.
    AwaitingServers,
    /// Fraction of readings in which a client waits for a reply while the program waits for a
    /// server to accept a connection.
    OpeningToServers,
    /// Number of requests pending at servers, relative to the number of clients that are waiting
    /// for a reply.
    PendingAtServers,
    /// Requests to servers per request of a client, counted in segments with data.
    AskedPerRequest,
    /// Mean number of clients that are waiting for a reply, beyond the number of connections to
    /// servers.
    QueuedForServers,
    /// Mean number of threads that wait for a lock.
    LockQueue,
    /// CPU time of child processes that ended within the window, in CPUs.
    ChildrenCpus,
    /// CPU time of child processes that ended within the window, relative to the CPU time of the
    /// program including these children.
    ChildrenShare,
    /// Time asleep in calls that start child processes or wait for them.
    AsleepOnChildren,
    /// CPU time of the garbage collector relative to the program's CPU time.
    GarbageShare,
    /// CPU time of the garbage collector, in CPUs.
    GarbageCpus,
    /// Fraction of time in which either the busiest thread needs a CPU or the garbage collector
    /// runs while it sleeps.
    WorkOrPause,
    /// Fraction of that time in which the garbage collector runs.
    Pauses,
    /// Fraction of readings in which a request had been waiting for 4 ms or longer.
    LateReplies,
    /// Time asleep in writes to pipes and Unix domain sockets, which wait for the reader.
    AsleepInPipe,
    /// Time asleep in calls that send on TCP connections, which wait for the peer to read.
    AsleepInSend,
    /// Largest fraction of readings with unread data, over the program's TCP connections.
    RequestsUnread,
    /// Time waiting for kernel locks.
    LockWait,
    /// Time waiting for kernel locks relative to CPU time.
    LockWaitOfRun,
    /// Fraction of the program's CPU time spent on sending segments created in software.
    SegmentTime,
    /// Fraction of the program's CPU time spent on sending segments created in software, including
    /// their checksums.
    ChecksumTime,
    /// Fraction of the program's CPU time spent on setting up and closing connections.
    ConnectionTime,
    /// Number of threads that wait for input and compete for CPUs.
    HerdThreads,
    /// Sleeps of the threads of [`Self::HerdThreads`] per TCP segment that the namespace received.
    HerdSleeps,
    /// Fraction of the threads of [`Self::HerdThreads`] that wake up for each connection, if each
    /// wakes up once.
    HerdPerConnection,
    /// Fraction of the program's CPU time spent on wake-ups in excess of one per connection.
    HerdTime,
    /// CPU time used by the observer.
    Observer,
    /// Fraction of samples in the avoidable part of the kernel that has the most samples.
    KernelPart,
    /// CPU time of the part of [`Self::KernelPart`] as a whole, relative to the thread's CPU time.
    KernelPartTime,
    /// Fraction of samples in the program's hottest function of its own.
    OwnFunction,
    /// Fraction of system calls made for the most common purpose other than passing packets or
    /// waiting for them.
    OtherCalls,
    /// CPU time of the calls of [`Self::OtherCalls`], relative to the thread's CPU time.
    OtherCallTime,
    /// Bytes received on TCP connections per call that reads.
    BytesPerRead,
    /// CPU time of calls that read, relative to the thread's CPU time.
    ReadTime,
    /// CPU time of threads that started and ended within the window, in CPUs.
    BriefThreadsCpus,
    /// Fraction of the program's CPU time used by threads that started and ended within the window.
    BriefThreadsShare,
    /// Fraction of the program's CPU time saved if no threads started and ended within the window.
    BriefThreadsTime,
    /// Reads and writes per datagram, by a thread that receives its datagrams with other calls.
    FileCalls,
    /// CPU time of the calls of [`Self::FileCalls`], relative to the thread's CPU time.
    FileCallTime,
    /// CPU time in cryptographic functions per TCP connection opened, in milliseconds.
    HandshakeMs,
    /// Fraction by which segments of the busiest sending connection are smaller than the MTU
    /// allows.
    SmallSegments,
    /// Delivery rate times RTT of the busiest sending connection, over its congestion window.
    WindowOfRate,
    /// Congestion window of the busiest sending connection in segments, relative to the number of
    /// round trips in which it had data to send.
    WindowOfRoundTrips,
    /// Minimum round-trip time of the busiest sending connection, in milliseconds.
    RoundTripMs,
    /// Round-trip time of the busiest sending connection at the end, relative to the minimum.
    SteadyRoundTrip,
    /// Segments retransmitted on the busiest sending connection.
    RetransmittedByBusiest,
    /// Segments that arrived at their receivers with a congestion mark (ECN).
    CongestionMarks,
    /// Fraction of all system calls that the thread makes.
    OfCalls,
    /// Samples in hashes and ciphers, relative to all samples in hashes, ciphers and public-key
    /// operations.
    Hashes,
    /// Upper bound on processes started per datagram received: those seen or, if more, as many as
    /// the CPU time of ended child processes allows.
    ProcessesPerDatagram,
}
