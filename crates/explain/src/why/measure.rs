// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities that conditions of rules are about.

use super::facts::{Facts, Subject, counted, share, share_of};
use super::functions::Group;
use linerate_record::stats::Estimate;
use linerate_record::why::{InterfaceCounts, SocketKind, ThreadActivity, ThreadState};

/// A quantity. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time of the thread on a CPU or wanting one.
    Demand,
    /// Time of the thread working: polling taken out.
    Busy,
    /// Time of the thread working, or waiting for a CPU to work on.
    Saturation,
    /// 1 where it takes its packets by sockets of the stack alone, else 0.
    UsesStack,
    /// Time waiting for a CPU.
    Waiting,
    /// That, over the share of packets lost before the program.
    WaitingPerLoss,
    /// Mean length of a wait for a CPU, microseconds.
    MeanWait,
    /// Waits for a CPU per second.
    WaitsPerSecond,
    /// Time stopped by a quota.
    Throttled,
    /// Periods of a quota in which it stopped the group, of all.
    ThrottledPeriods,
    /// Time not run by the hypervisor.
    Stolen,
    /// Time in interrupts while the thread was on a CPU.
    Interrupts,
    /// Packets on the thread's CPU that are not the program's.
    ForeignPackets,
    /// Time in the kernel of the time on a CPU.
    KernelShare,
    /// Time asleep.
    Asleep,
    /// Time asleep on futexes, the mean of the threads that work.
    AsleepOnFutex,
    /// Threads that want a CPU for 0.3 of their time or more.
    WorkingThreads,
    /// Voluntary switches of the thread per second.
    SleepsPerSecond,
    /// Samples in a group of functions.
    Functions(Group),
    /// Samples in functions that have a name.
    NamedFunctions,
    /// Samples in libraries of ciphers.
    CryptoLibrary,
    /// CPU time in libraries of ciphers per byte, nanoseconds.
    CryptoPerByte,
    /// Bytes per TCP connection that was set up.
    BytesPerConnection,
    /// Page faults per second, all threads.
    FaultsPerSecond,
    /// CPU time that page faults are estimated to take.
    FaultTime,
    /// System calls per packet.
    CallsPerPacket,
    /// Bytes per packet.
    BytesPerPacket,
    /// Packets per second.
    PacketRate,
    /// Packets lost in the ring before the program, of all for it.
    RingLoss,
    /// Packets a socket dropped, of all for the program.
    SocketLoss,
    /// Packets the card had no room for, of all.
    CardLoss,
    /// Packets the backlog had no room for, of all on that CPU.
    BacklogLoss,
    /// Times NAPI ran out of budget, of all its softirqs.
    Squeezed,
    /// That per second.
    SqueezedPerSecond,
    /// Packets received on this CPU, of those on all.
    ReceivedHere,
    /// Time of this CPU in interrupts.
    CpuInterrupts,
    /// Idle time of the idlest other CPU.
    IdleElsewhere,
    /// Idle CPUs, as a number.
    IdleCpus,
    /// Flows that can be told apart.
    Flows,
    /// Time in which connections that send were stopped by the receiver's window.
    WindowLimited,
    /// The same by their own send buffer.
    SendBufferLimited,
    /// Bytes of the receive buffer of a connection.
    ReceiveBuffer,
    /// Bytes received by a connection per second.
    ReceivedBytes,
    /// Bytes through a queueing discipline over the rate it is limited to.
    OfLimit,
    /// Packets that a queueing discipline might not send yet, per packet.
    OverlimitsPerPacket,
    /// 1 where an interface computes no checksums of sent packets, else 0.
    ChecksumOff,
    /// 1 where an interface does not cut segments, else 0.
    SegmentationOff,
    /// Bytes sent by an interface per second.
    SentBytes,
    /// Bytes of a TCP connection per segment it sent.
    BytesPerSegment,
    /// TCP connections set up per second.
    ConnectionsPerSecond,
    /// TCP segments received per connection set up.
    SegmentsPerConnection,
    /// Connections of clients per connection to servers.
    ClientsPerServer,
    /// Time asleep in a call that waits for a connection which the program opened.
    AsleepOnServer,
    /// Contended locks of the kernel per second.
    LockContention,
    /// CPU time of the observer.
    Observer,
}

impl Measure {
    /// Its value for a subject; `None` where it could not be read, or does not apply.
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
            Self::WaitsPerSecond => counted(waits(thread), thread.elapsed_s),
            Self::Throttled => Some(throttled(facts, thread)),
            Self::Stolen => state(ThreadState::Stolen)
                .or_else(|| facts.cpu(subject).map(|cpu| share(cpu.stolen))),
            Self::Interrupts => state(ThreadState::Interrupts),
            Self::KernelShare => {
                let on_cpu = Facts::on_cpu(thread).filter(|on_cpu| on_cpu.value > 0.0)?;
                Some(state(ThreadState::Kernel)?.scale(1.0 / on_cpu.value))
            }
            Self::Asleep => state(ThreadState::Asleep),
            Self::SleepsPerSecond => counted(thread.voluntary_switches, thread.elapsed_s),
            Self::Functions(group) => facts.functions(thread, group),
            Self::NamedFunctions => facts.named(thread),
            Self::CryptoLibrary => facts.crypto(thread),
            Self::AsleepOnServer => asleep_on_server(facts, thread),
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
                let working: Vec<_> = working(threads).collect();
                let futex = |thread: &&ThreadActivity| -> f64 {
                    let on_futex = thread.asleep_on.iter().filter(|s| s.on.contains("futex"));
                    on_futex.map(|sleep| sleep.share).sum()
                };
                let sum: f64 = working.iter().map(futex).sum();
                let is_read = threads.iter().any(|thread| !thread.asleep_on.is_empty());
                is_read.then(|| share(sum / working.len().max(1) as f64))
            }
            Self::WorkingThreads => Some(Estimate::exactly(working(threads).count() as f64)),
            Self::FaultsPerSecond => counted(faults(facts), facts.elapsed()),
            Self::FaultTime => {
                let rate = counted(faults(facts), facts.elapsed())?;
                let low = rate.low * FAULT_S.0;
                let high = rate.high * FAULT_S.2;
                Some(Estimate { low, high, ..rate.scale(FAULT_S.1) })
            }
            Self::CallsPerPacket => {
                let calls: Option<u64> = threads.iter().map(|thread| thread.system_calls).sum();
                counted(calls?, facts.packets().filter(|n| *n > 0)? as f64)
            }
            Self::CryptoPerByte => {
                let thread = facts.busiest()?;
                let crypto = facts.crypto(thread)?;
                let busy = Facts::on_cpu(thread)?.value * thread.elapsed_s * 1e9;
                let bytes = bytes(facts).filter(|bytes| *bytes > 0)?;
                Some(crypto.scale(busy / bytes as f64))
            }
            Self::IdleCpus => Some(share(facts.idle_cpus()?)),
            Self::LockContention => {
                let locks = observation.events.iter().filter(|e| e.event == CONTENTION);
                let count = locks.map(|event| event.count).reduce(|a, b| a + b)?;
                counted(count, facts.elapsed())
            }
            Self::Observer => share_of(&observation.observer),
            _ => None,
        }
    }

    fn of_packets<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        match (self, subject) {
            (Self::BytesPerPacket, _) => {
                let count = facts.observation.packets.as_ref()?;
                let packets = count.packets as f64;
                (packets > 0.0).then_some(Estimate::exactly(count.bytes? as f64 / packets))
            }
            (Self::PacketRate, _) => Some(Estimate::exactly(facts.packet_rate()?)),
            (Self::RingLoss, _) => {
                let (lost, received) = facts.ring_loss()?;
                counted(lost, (lost + received).max(1) as f64)
            }
            (Self::SocketLoss, Subject::Socket(socket)) => {
                let drops = socket.drops?;
                counted(drops, (drops + facts.packets()?).max(1) as f64)
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

    fn of_tcp<'a>(self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
        let elapsed = facts.elapsed();
        match (self, subject) {
            (Self::WindowLimited, _) => {
                Some(facts.tcp_share(|tcp| tcp.rwnd_limited_s)?.scale(1.0 / elapsed))
            }
            (Self::SendBufferLimited, _) => {
                Some(facts.tcp_share(|tcp| tcp.sndbuf_limited_s)?.scale(1.0 / elapsed))
            }
            (Self::ReceiveBuffer, Subject::Socket(socket)) => {
                Some(Estimate::exactly(socket.receive_buffer? as f64))
            }
            (Self::ReceivedBytes, Subject::Socket(socket)) => {
                counted(socket.tcp.as_ref()?.bytes_received, elapsed)
            }
            (Self::BytesPerSegment, _) => {
                let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
                let sums = tcps.fold((0, 0), |(bytes, segments), tcp| {
                    (bytes + tcp.bytes_acked, segments + tcp.segments_out)
                });
                (sums.1 > 0).then(|| Estimate::exactly(sums.0 as f64 / sums.1 as f64))
            }
            (Self::ConnectionsPerSecond, _) => counted(opened(facts)?, elapsed),
            (Self::SegmentsPerConnection, _) => {
                let opened = opened(facts).filter(|opened| *opened > 0)?;
                counted(facts.protocol("Tcp.InSegs")?, opened as f64)
            }
            (Self::BytesPerConnection, _) => {
                let opened = opened(facts)?.max(facts.connections().count() as u64).max(1);
                Some(Estimate::exactly(bytes(facts)? as f64 / opened as f64))
            }
            (Self::Flows, _) => flows(facts).map(|flows| Estimate::exactly(flows as f64)),
            (Self::ClientsPerServer, _) => {
                let clients = facts.connections().filter(|s| is_accepted(facts, s)).count();
                let servers = facts.connections().count() - clients;
                (servers > 0).then(|| Estimate::exactly(clients as f64 / servers as f64))
            }
            _ => None,
        }
    }
}

/// Tracepoint of a thread that begins to wait for a lock of the kernel.
const CONTENTION: &str = "lock:contention_begin";

/// Seconds that a page fault costs, with the system calls that usually go with it (mmap, munmap):
/// 0.5 us bare on bare metal to 12 us in a guest (nginx with MALLOC_MMAP_THRESHOLD_=512: 2.8 faults
/// per request, 28 us more per request).
const FAULT_S: (f64, f64, f64) = (0.5e-6, 3e-6, 12e-6);

/// Threads that want a CPU for much of their time.
fn working(threads: &[ThreadActivity]) -> impl Iterator<Item = &ThreadActivity> {
    const WORKS: f64 = 0.3;
    threads.iter().filter(|thread| thread.demand() >= WORKS)
}

/// Waits for a CPU: as counted by the scheduler's tracepoints, else its switches.
fn waits(thread: &ThreadActivity) -> u64 {
    let counted: u64 = thread.waits_us_log2.iter().sum();
    match counted {
        0 => thread.involuntary_switches + thread.voluntary_switches,
        counted => counted,
    }
}

/// Time stopped by a quota: the thread's own, or that of the group spread over its threads.
fn throttled(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    if let Some(own) = thread.share(ThreadState::Throttled).and_then(share_of) {
        return own;
    }
    let quotas = facts.observation.quotas.iter().filter(|q| q.pids.contains(&thread.pid));
    let throttled = quotas.map(|quota| match quota.periods {
        0 => 0.0,
        periods => quota.throttled_periods as f64 / periods as f64,
    });
    share(throttled.fold(0.0, f64::max))
}

/// Time in calls that wait for connections which the program opened.
fn asleep_on_server(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let opened: Vec<&str> = facts
        .connections()
        .filter(|socket| !is_accepted(facts, socket))
        .map(|socket| socket.local.as_str())
        .collect();
    let waits = |object: &str| opened.iter().any(|local| object.contains(local));
    let of_server = thread.asleep_on.iter().filter(|s| s.object.as_deref().is_some_and(waits));
    (!thread.asleep_on.is_empty()).then(|| share(of_server.map(|sleep| sleep.share).sum()))
}

/// Whether a connection was accepted: its local port is one the program listens at.
fn is_accepted(facts: &Facts<'_>, socket: &linerate_record::why::SocketCounts) -> bool {
    let port = |address: &str| address.rsplit(':').next().map(str::to_owned);
    let listening = facts.observation.sockets.iter().filter(|s| s.kind == SocketKind::TcpListen);
    let own = port(&socket.local);
    listening.map(|listen| port(&listen.local)).any(|listen| listen == own)
}

/// Page faults of all threads.
fn faults(facts: &Facts<'_>) -> u64 {
    facts.observation.threads.iter().map(|thread| thread.minor_faults + thread.major_faults).sum()
}

/// Bytes of the program's packets, or of its connections.
fn bytes(facts: &Facts<'_>) -> Option<u64> {
    let counted = facts.observation.packets.as_ref().and_then(|count| count.bytes);
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let of_tcp = tcps.map(|tcp| tcp.bytes_received + tcp.bytes_acked).reduce(|a, b| a + b);
    of_tcp.or(counted)
}

/// TCP connections set up in the network namespace, from either side.
fn opened(facts: &Facts<'_>) -> Option<u64> {
    let [passive, active] = ["Tcp.PassiveOpens", "Tcp.ActiveOpens"].map(|n| facts.protocol(n));
    Some(passive?.max(active?))
}

/// Flows that the program could give to threads: connections; two or more for a socket that takes
/// from anybody. Unknown for rings that carry frames.
fn flows(facts: &Facts<'_>) -> Option<usize> {
    let sockets = &facts.observation.sockets;
    if sockets.iter().any(|s| matches!(s.kind, SocketKind::Packet | SocketKind::Xdp)) {
        return None;
    }
    let is_open =
        |s: &&linerate_record::why::SocketCounts| s.kind == SocketKind::Udp && s.remote.is_none();
    let connections = facts.connections().count();
    let connected =
        sockets.iter().filter(|s| s.kind == SocketKind::Udp && s.remote.is_some()).count();
    let flows = connections + connected + 2 * sockets.iter().filter(is_open).count();
    (flows > 0).then_some(flows)
}

/// Whether an interface has all of these switched off; `None` where it says nothing of them.
fn is_off(interface: &InterfaceCounts, names: &[&str]) -> Option<bool> {
    let states: Vec<bool> =
        names.iter().filter_map(|name| interface.features.get(*name).copied()).collect();
    (!states.is_empty()).then(|| states.iter().all(|is_on| !is_on))
}
