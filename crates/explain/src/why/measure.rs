// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures to which rule conditions refer.

mod connections;
mod costs;
mod counts;

use self::counts::{
    asleep_on_server, bytes, bytes_per_packet, bytes_per_transmit, faults, is_off, others_instead,
    system_calls, throttled, waits,
};
use super::facts::{Facts, Subject, counted, sampled, share, share_of};
use super::functions::Group;
use super::losses::vanished;
use super::waits::{self, Wait};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketKind, ThreadActivity, ThreadState};

/// A measure. Shares are in the range 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// CPU demand of the thread: share of time in which it is running, runnable, throttled or
    /// stolen from.
    Demand,
    /// Share of time for which the thread works, excluding polling.
    Busy,
    /// Share of time for which the thread works or waits for a CPU.
    Saturation,
    /// 1 if the program receives through kernel sockets only, else 0.
    UsesStack,
    /// Time waiting for a CPU.
    Waiting,
    /// Time waiting for a CPU relative to the share of packets lost before the program.
    WaitingPerLoss,
    /// Mean length of a wait for a CPU, in microseconds.
    MeanWait,
    /// Time waiting for a CPU while threads of other programs ran on it.
    OthersInstead,
    /// CPU time of the program's peers on the thread's CPU, relative to the whole window.
    PeersHere,
    /// Idle time of the thread's CPU.
    IdleHere,
    /// Waits for a CPU per second.
    WaitsPerSecond,
    /// Time throttled by a CPU quota.
    Throttled,
    /// Share of quota periods in which the group was throttled.
    ThrottledPeriods,
    /// Time stolen by the hypervisor.
    Stolen,
    /// Time in interrupts and softirqs while the thread was on a CPU.
    Interrupts,
    /// Share of packets on the thread's CPU that belong to other programs.
    ForeignPackets,
    /// Time spent in interrupts for packets of other programs.
    ForeignInterrupts,
    /// Time spent in interrupts for packets of other programs, relative to the thread's CPU time.
    ForeignOfRun,
    /// Share of CPU time spent in the kernel, softirqs included.
    KernelShare,
    /// Time asleep.
    Asleep,
    /// Time asleep on futexes, averaged over the working threads.
    AsleepOnFutex,
    /// Time asleep until packets arrive, or until the next read of many packets; all time asleep if
    /// the calls were not read.
    AsleepForPackets,
    /// Time asleep in calls that wait for this kind of event.
    AsleepIn(Wait),
    /// Number of sleeps of the thread per packet of the program.
    SleepsPerPacket,
    /// 1 if a connection carries data in both directions, as with requests and replies, else 0.
    Answers,
    /// Number of threads with a CPU demand of 0.3 or more.
    WorkingThreads,
    /// Voluntary context switches of the thread per second.
    SleepsPerSecond,
    /// Share of samples in a group of functions.
    Functions(Group),
    /// Share of the CPU's time in a group of kernel functions.
    CpuFunctions(Group),
    /// Share of samples in functions with known names.
    NamedFunctions,
    /// Share of samples that access cache lines in which another thread uses different bytes, with
    /// at least one writer.
    FalselyShared,
    /// Share of samples that access bytes that another thread also uses, with at least one writer.
    CommonBytes,
    /// Number of accesses to lines seen only once, per sample.
    MemoryShare,
    /// Working set of the thread relative to the size of the last-level cache.
    WorkingSet,
    /// CPU time of system call entry and exit relative to the thread's time on a CPU.
    CallTime,
    /// Share of samples in crypto libraries.
    CryptoLibrary,
    /// CPU time in crypto libraries per byte, in nanoseconds.
    CryptoPerByte,
    /// Share of the samples in crypto libraries that are at instructions for ciphers and hashes.
    CipherInstructions,
    /// Bytes per established TCP connection.
    BytesPerConnection,
    /// Page faults of all threads per second.
    FaultsPerSecond,
    /// Estimated CPU time of page faults.
    FaultTime,
    /// System calls per packet.
    CallsPerPacket,
    /// System calls per second.
    CallsPerSecond,
    /// Bytes transferred on the program's connections per system call.
    BytesPerCall,
    /// Share of each connection's bytes that go in its busier direction, over all connections.
    OneWay,
    /// Bytes per packet.
    BytesPerPacket,
    /// Bytes per packet sent by an interface, before segmentation offload.
    BytesPerTransmit,
    /// 1 if the program uses datagrams or raw frames, 0 if it uses only streams.
    Datagrams,
    /// Packets per second.
    PacketRate,
    /// Share of the program's packets lost in the ring before it.
    RingLoss,
    /// Share of the program's packets dropped by a socket.
    SocketLoss,
    /// Share of readings at which the socket's receive queue was not empty.
    QueueWaits,
    /// Packets dropped by firewall rules relative to the packets that reached IP.
    FirewallLoss,
    /// Mean fill level of a socket's receive queue, relative to its size.
    QueueFull,
    /// Number of connections in an accept queue relative to the queue size, as the mean of the
    /// readings.
    AcceptQueueFull,
    /// Share of incoming connections dropped at a listening socket.
    AcceptLoss,
    /// Share of packets dropped by the NIC.
    CardLoss,
    /// Share of the CPU's packets dropped at its backlog.
    BacklogLoss,
    /// Share of receive softirqs in which NAPI exhausted its budget.
    Squeezed,
    /// NAPI polls per second that stopped with work remaining.
    SqueezedPerSecond,
    /// Packets between two NAPI polls that stopped with work remaining.
    PacketsPerSqueeze,
    /// Share of all packets received on this CPU.
    ReceivedHere,
    /// Share of this CPU's time spent in interrupts.
    CpuInterrupts,
    /// Share of this CPU's time that is not idle.
    CpuUsed,
    /// Share of this CPU's non-idle time spent on firewall rules.
    FirewallOfUsed,
    /// Idle share of the other CPU that is idle most.
    IdleElsewhere,
    /// Number of idle CPUs.
    IdleCpus,
    /// Distinct flows.
    Flows,
    /// Time for which sending connections were stopped by the receiver's window.
    WindowLimited,
    /// Time for which sending connections were stopped by their own send buffer.
    SendBufferLimited,
    /// Largest receiver window relative to the bandwidth-delay product of the current rate and the
    /// shortest round trip.
    PeerWindow,
    /// Share of sent segments that were retransmitted because they were lost.
    Resent,
    /// Share of readings at which connections had nothing left to send.
    AppLimited,
    /// Share of readings at which Nagle's algorithm held back data of a connection.
    Held,
    /// Acknowledged bytes per second relative to the pacing limit set by the program.
    OfPacingLimit,
    /// Receive buffer of a connection, in bytes.
    ReceiveBuffer,
    /// Bytes per second received on a connection.
    ReceivedBytes,
    /// Rate through a queueing discipline relative to its limit.
    OfLimit,
    /// Packets delayed by a queueing discipline (overlimits), per packet.
    OverlimitsPerPacket,
    /// 1 if TX checksum offload is off on an interface, else 0.
    ChecksumOff,
    /// 1 if segmentation offload is off on an interface, else 0.
    SegmentationOff,
    /// Bytes per second sent by an interface.
    SentBytes,
    /// Bytes per segment sent on a TCP connection.
    BytesPerSegment,
    /// TCP connections established per second.
    ConnectionsPerSecond,
    /// TCP segments received per established connection.
    SegmentsPerConnection,
    /// Client connections per server connection.
    ClientsPerServer,
    /// Time asleep in calls that wait on a connection that the program opened.
    AsleepOnServer,
    /// Time waiting for kernel locks.
    LockWait,
    /// Time waiting for kernel locks relative to CPU time.
    LockWaitOfRun,
    /// Share of the program's CPU time spent sending packets segmented in software.
    SegmentTime,
    /// Share of the program's CPU time spent sending packets segmented in software, including
    /// checksums of their bytes.
    ChecksumTime,
    /// Share of the program's CPU time spent setting up and closing connections.
    ConnectionTime,
    /// CPU time of the observer.
    Observer,
}

impl Measure {
    /// The measure's value for a subject; `None` if it could not be read or does not apply.
    pub fn of<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        self.of_thread(facts, subject)
            .or_else(|| self.of_program(facts, subject))
            .or_else(|| self.of_packets(facts, subject))
            .or_else(|| self.of_tcp(facts, subject))
    }

    fn of_thread<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let thread = facts.thread(subject)?;
        let state = |state| thread.share(state).and_then(share_of);
        match self {
            Self::Demand => Facts::time(thread, |state| {
                state.is_on_cpu()
                    || [ThreadState::Waiting, ThreadState::Throttled, ThreadState::Stolen]
                        .contains(&state)
            }),
            Self::Busy => facts.busy(thread),
            Self::Saturation => {
                let waiting = state(ThreadState::Waiting).unwrap_or(Estimate::exactly(0.0));
                Some(facts.busy(thread)?.plus(waiting))
            }
            Self::UsesStack => Some(Estimate::exactly(f64::from(facts.uses_stack()))),
            Self::Waiting => state(ThreadState::Waiting),
            Self::WaitingPerLoss => {
                let lost = facts.receive_loss()?;
                let waiting = state(ThreadState::Waiting)?;
                (lost.low > 0.0).then(|| share(waiting.value / lost.value))
            }
            Self::MeanWait => {
                let seconds = state(ThreadState::Waiting)?.scale(thread.elapsed_s);
                let waits = waits(thread);
                (waits > 0).then(|| seconds.scale(1e6 / waits as f64))
            }
            Self::OthersInstead => others_instead(facts, thread),
            Self::WaitsPerSecond => counted(waits(thread), thread.elapsed_s),
            Self::Throttled => Some(throttled(facts, thread)),
            Self::Stolen => state(ThreadState::Stolen)
                .or_else(|| facts.cpu(subject).map(|cpu| share(cpu.stolen))),
            Self::Interrupts => state(ThreadState::Interrupts),
            Self::KernelShare => {
                let of_kernel = |s| matches!(s, ThreadState::Kernel | ThreadState::Interrupts);
                of_run(thread, Facts::time(thread, of_kernel)?)
            }
            Self::Asleep => state(ThreadState::Asleep),
            Self::SleepsPerSecond => counted(thread.voluntary_switches, thread.elapsed_s),
            Self::Functions(group) => facts.functions(thread, group),
            Self::NamedFunctions => facts.named(thread),
            Self::CryptoLibrary => facts.crypto(thread),
            Self::LockWait => Some(share(thread.lock_wait?)),
            Self::LockWaitOfRun => of_run(thread, share(thread.lock_wait?)).map(costs::at_most_all),
            Self::FalselyShared => facts.shared_lines(thread, false),
            Self::CommonBytes => facts.shared_lines(thread, true),
            Self::CallTime => costs::calls(thread),
            Self::ForeignOfRun => of_run(thread, Self::ForeignInterrupts.of(facts, subject)?),
            Self::ForeignInterrupts => {
                let foreign = Self::ForeignPackets.of(facts, subject)?;
                Some(state(ThreadState::Interrupts)?.scale(foreign.value.clamp(0.0, 1.0)))
            }
            Self::AsleepOnServer => asleep_on_server(facts, thread),
            Self::AsleepForPackets => match thread.asleep_on.is_empty() {
                false => asleep_for_packets(facts, thread).map(share),
                true => state(ThreadState::Asleep),
            },
            Self::AsleepIn(wait) => waits::time_in(thread, wait).map(share),
            Self::SleepsPerPacket => {
                let packets = facts.packets().filter(|packets| *packets > 0)?;
                counted(thread.voluntary_switches, packets as f64)
            }
            _ => self.of_instructions(facts, thread),
        }
    }

    fn of_instructions(self, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
        if self == Self::CipherInstructions {
            let of_library = facts.crypto(thread).filter(|crypto| crypto.value > 0.0)?;
            return Some(Estimate::exactly(thread.cipher_instructions? / of_library.value));
        }
        let memory = thread.memory.as_ref()?;
        match self {
            Self::MemoryShare => Some(share(memory.share * memory.once_share)),
            Self::WorkingSet => {
                let cache = facts.observation.last_level_cache_bytes.filter(|bytes| *bytes > 0)?;
                let used = memory.working_set_bytes.estimate()?;
                Some(used.scale(1.0 / cache as f64))
            }
            _ => None,
        }
    }

    fn of_program<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let observation = facts.observation;
        let threads = &observation.threads;
        match self {
            Self::ThrottledPeriods => match subject {
                Subject::Quota(quota) => {
                    let over = quota.periods as f64;
                    counted(quota.throttled_periods.min(quota.periods), over)
                }
                _ => None,
            },
            Self::AsleepOnFutex => {
                let working: Vec<_> = facts.working().collect();
                let futex = |thread: &&ThreadActivity| -> f64 {
                    let on_futex = thread.asleep_on.iter().filter(|s| s.on.contains("futex"));
                    on_futex.map(|sleep| sleep.share).sum()
                };
                let sum: f64 = working.iter().map(futex).sum();
                let is_read = threads.iter().any(|thread| !thread.asleep_on.is_empty());
                is_read.then(|| share(sum / working.len().max(1) as f64))
            }
            // When only an interface is watched, there is no thread that could demand a CPU.
            Self::Demand if threads.is_empty() && observation.watched.interface.is_some() => {
                Some(Estimate::exactly(0.0))
            }
            Self::WorkingThreads => Some(Estimate::exactly(facts.working().count() as f64)),
            Self::FaultsPerSecond => counted(faults(facts), facts.elapsed()),
            Self::FaultTime => {
                Some(costs::at(counted(faults(facts), facts.elapsed())?, costs::FAULT_S))
            }
            Self::CallsPerPacket => {
                let packets = facts.packets().filter(|packets| *packets > 0)? as f64;
                let (least, most) = system_calls(facts)?;
                let calls = counted(least, packets)?;
                Some(if most.is_some() { calls } else { at_least_this(calls) })
            }
            Self::CryptoPerByte => {
                let thread = facts.busiest()?;
                let crypto = facts.crypto(thread)?;
                let busy = Facts::on_cpu(thread)?.value * thread.elapsed_s * 1e9;
                let bytes = bytes(facts).filter(|bytes| *bytes > 0)?;
                Some(crypto.scale(busy / bytes as f64))
            }
            Self::CallsPerSecond => {
                let (least, most) = system_calls(facts)?;
                let rate = counted(least, facts.elapsed())?;
                Some(if most.is_some() { rate } else { at_least_this(rate) })
            }
            Self::BytesPerCall => {
                let (least, most) = system_calls(facts)?;
                let per_call =
                    |calls: u64| bytes(facts).map(|all| all as f64 / calls.max(1) as f64);
                let high = per_call(least)?;
                let low = most.map_or(Some(0.0), per_call)?;
                Some(Estimate { low, high, ..Estimate::exactly(high) })
            }
            Self::IdleCpus => Some(share(facts.idle_cpus()?)),
            Self::Observer => share_of(&observation.observer),
            _ => None,
        }
    }

    fn of_packets<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        match (self, subject) {
            (Self::BytesPerPacket, _) => Some(Estimate::exactly(bytes_per_packet(facts)?)),
            (Self::PacketRate, _) => Some(Estimate::exactly(facts.packet_rate()?)),
            (Self::RingLoss, _) => {
                let (lost, received) = facts.ring_loss()?;
                counted(lost, (lost + received).max(1) as f64)
            }
            (Self::SocketLoss, Subject::Socket(socket)) => {
                let drops = socket.drops?;
                counted(drops, (drops + facts.packets()?).max(1) as f64)
            }
            (Self::QueueWaits, Subject::Socket(socket)) => {
                Some(sampled(socket.receive_queue_share?, Facts::readings(socket)?))
            }
            (Self::FirewallLoss, _) => {
                let vanished = vanished(facts)?;
                counted(vanished.by_firewall?, vanished.received as f64)
            }
            (Self::QueueFull, Subject::Socket(socket)) => {
                let buffer = socket.receive_buffer.filter(|bytes| *bytes > 0)?;
                // The last packet may exceed the buffer size.
                let full = (socket.receive_queue_mean / buffer as f64).min(1.0);
                Some(sampled(full, Facts::readings(socket)?))
            }
            (Self::AcceptQueueFull, Subject::Socket(socket)) => {
                let size = Some(socket.send_queue_mean).filter(|size| *size > 0.0)?;
                let full = (socket.receive_queue_mean / size).min(1.0);
                Some(sampled(full, Facts::readings(socket)?))
            }
            (Self::AcceptLoss, Subject::Socket(socket)) => {
                let drops = socket.drops?;
                let accepted = facts.protocol("Tcp.PassiveOpens")?;
                counted(drops, (drops + accepted).max(1) as f64)
            }
            (Self::CardLoss, Subject::Interface(of)) => {
                counted(of.rx_missed, (of.rx_missed + of.rx_packets).max(1) as f64)
            }
            (Self::SentBytes, Subject::Interface(of)) => counted(of.tx_bytes, facts.elapsed()),
            (Self::ChecksumOff, Subject::Interface(of)) => {
                let off = is_off(of, &["tx-checksum-ip-generic", "tx-checksum-ipv4"])?;
                Some(Estimate::exactly(f64::from(off)))
            }
            (Self::SegmentationOff, Subject::Interface(of)) => {
                let off = is_off(of, &["tx-tcp-segmentation"])?;
                Some(Estimate::exactly(f64::from(off)))
            }
            (Self::OfLimit, Subject::Qdisc(_, qdisc)) => {
                let limit = qdisc.rate_bits_per_s.filter(|rate| *rate > 0.0)?;
                Some(share(8.0 * qdisc.bytes as f64 / facts.elapsed() / limit))
            }
            (Self::OverlimitsPerPacket, Subject::Qdisc(_, qdisc)) => {
                counted(qdisc.overlimits, (qdisc.packets + qdisc.drops).max(1) as f64)
            }
            (Self::BytesPerTransmit, _) => Some(Estimate::exactly(bytes_per_transmit(facts)?)),
            (Self::Datagrams, _) => {
                let is = |kind| matches!(kind, SocketKind::Udp | SocketKind::Packet);
                let sockets = &facts.observation.sockets;
                Some(Estimate::exactly(f64::from(sockets.iter().any(|s| is(s.kind)))))
            }
            _ => self.of_cpus(facts, subject),
        }
    }

    fn of_cpus<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let cpu = facts.cpu(subject)?;
        let cpus = &facts.observation.cpus;
        let received = cpu.backlog_processed + cpu.backlog_dropped;
        match self {
            Self::BacklogLoss => counted(cpu.backlog_dropped, received.max(1) as f64),
            Self::Squeezed => counted(cpu.time_squeezed, cpu.net_rx.max(1) as f64),
            Self::SqueezedPerSecond => counted(cpu.time_squeezed, facts.elapsed()),
            Self::ReceivedHere => {
                let all: u64 = cpus.iter().map(|cpu| cpu.backlog_processed).sum();
                (all > 0).then(|| share(cpu.backlog_processed as f64 / all as f64))
            }
            Self::CpuInterrupts => Some(share(cpu.interrupts)),
            Self::CpuUsed => Some(share(1.0 - cpu.idle)),
            Self::IdleHere => Some(share(cpu.idle)),
            Self::PeersHere => {
                let peers = facts.observation.peers.iter();
                let here = peers.filter(|peer| peer.cpu == Some(cpu.cpu));
                Some(share(here.map(|peer| peer.cpus).sum::<f64>().min(1.0)))
            }
            Self::FirewallOfUsed => {
                let rules = facts.cpu_functions(cpu, Group::Firewall)?;
                Some(rules.scale(1.0 / (1.0 - cpu.idle).max(0.1)))
            }
            Self::CpuFunctions(group) => facts.cpu_functions(cpu, group),
            Self::PacketsPerSqueeze => {
                let squeezes = cpu.time_squeezed.max(1);
                counted(cpu.backlog_processed, squeezes as f64)
            }
            Self::IdleElsewhere => {
                let others = cpus.iter().filter(|other| other.cpu != cpu.cpu);
                others.map(|other| other.idle).max_by(f64::total_cmp).map(share)
            }
            Self::ForeignPackets => {
                let own = facts.observation.packets.as_ref().map_or(0, |count| count.packets);
                let has_own = !facts.observation.sockets.is_empty();
                if has_own && facts.observation.packets.is_none() {
                    return None;
                }
                let all = cpu.backlog_processed;
                (all > 0).then(|| share(1.0 - (own.min(all) as f64 / all as f64)))
            }
            _ => None,
        }
    }
}

/// Turns a count into a lower bound.
fn at_least_this(counted: Estimate) -> Estimate {
    Estimate { high: f64::INFINITY, ..counted }
}

/// Share of time for which a thread sleeps until packets arrive. Sleep on a timer counts as well if
/// the thread reads many packets after each sleep, since it then has time left.
fn asleep_for_packets(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    /// Sleeps per packet below which ten packets or more follow each sleep.
    const FEW: f64 = 0.1;
    let sleeps = Measure::SleepsPerPacket.of(facts, Subject::Thread(thread));
    let takes_many = sleeps.is_some_and(|sleeps| sleeps.value < FEW);
    let timer = if takes_many { waits::time_in(thread, Wait::Timer)? } else { 0.0 };
    Some(waits::time_in(thread, Wait::Input)? + timer)
}

/// Converts a share of the thread's time to a share of its time on a CPU.
fn of_run(thread: &ThreadActivity, part: Estimate) -> Option<Estimate> {
    let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
    Some(part.scale(1.0 / on_cpu.value))
}
