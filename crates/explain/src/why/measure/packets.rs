// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures for packets and for the CPUs that receive them.

use super::super::facts::{Facts, Subject, counted, sampled, share};
use super::super::functions::Group;
use super::super::losses::{bad_checksums, discarded, fragmented, table_full, vanished};
use super::counts::{at_least_this, bytes_per_packet, bytes_per_transmit, is_off};
use super::opened::{may_have_opened, opened};
use super::{Measure, received};
use linerate_record::stats::Estimate;
use linerate_record::why::{
    CpuCounts, InterfaceCounts, QdiscCounts, SocketCounts, SocketKind, ThreadActivity,
};

/// Names of the checksum offload; one of them suffices.
const CHECKSUM: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4"];
/// Names of the segmentation offload.
const SEGMENTATION: &[&str] = &["tx-tcp-segmentation"];

/// Queueing disciplines that do fair queueing.
const FAIR: [&str; 5] = ["fq", "fq_codel", "fq_pie", "cake", "sfq"];

impl Measure {
    pub(super) fn of_packets<'a>(
        self,
        facts: &Facts<'a>,
        subject: Subject<'a>,
    ) -> Option<Estimate> {
        match (self, subject) {
            (Self::BytesPerPacket, _) => Some(Estimate::exactly(bytes_per_packet(facts)?)),
            (Self::PacketRate, _) => Some(Estimate::exactly(facts.packet_rate()?)),
            (Self::RingLoss, _) => {
                let (lost, received) = facts.ring_loss()?;
                counted(lost, (lost + received).max(1) as f64)
            }
            (Self::SocketLoss, Subject::Socket(socket)) => socket_loss(facts, socket),
            (Self::OutOfMemory, Subject::Socket(socket)) => {
                Some(Estimate::exactly(socket.out_of_memory(facts.observation)))
            }
            (Self::DescriptorsReached, Subject::Socket(socket)) => Some(was_full(facts, socket)),
            (Self::QueueWaits, Subject::Socket(socket)) => {
                Some(sampled(socket.receive_queue_share?, Facts::readings(socket)?))
            }
            (Self::AnswersDatagrams, Subject::Socket(socket)) => {
                answers(facts, socket).map(|answers| Estimate::exactly(f64::from(answers)))
            }
            (Self::QueueFull, Subject::Socket(socket)) => {
                let buffer = socket.receive_buffer.filter(|bytes| *bytes > 0)?;
                // The last packet may exceed the buffer size.
                let full = (socket.receive_queue_mean / buffer as f64).min(1.0);
                Some(sampled(full, Facts::readings(socket)?))
            }
            (Self::QueueSteady, Subject::Socket(socket)) => {
                let longest = socket.receive_queue_max.max(1) as f64;
                let of_longest = (socket.receive_queue_mean / longest).min(1.0);
                Some(Estimate::exactly(of_longest * socket.receive_queue_share?))
            }
            (Self::AcceptQueueFull, Subject::Socket(socket)) => {
                let size = Some(socket.send_queue_mean).filter(|size| *size > 0.0)?;
                let full = (socket.receive_queue_mean / size).min(1.0);
                Some(sampled(full, Facts::readings(socket)?))
            }
            (Self::AcceptLoss, Subject::Socket(socket)) => {
                let drops = socket.buffer_drops(facts.observation)?;
                let accepted = facts.protocol("Tcp.PassiveOpens")?;
                counted(drops, (drops + accepted).max(1) as f64)
            }
            (Self::CardLoss, Subject::Interface(of)) => {
                counted(of.rx_missed, (of.rx_missed + of.rx_packets).max(1) as f64)
            }
            (Self::ReceiverInterrupts, _) => {
                // The CPU that receives from a queue is not recorded. If one of them is full, its
                // queue may be the one that overflows.
                let cpus = facts.observation.cpus.iter().filter(|cpu| cpu.net_rx > 0);
                cpus.map(|cpu| cpu.interrupts).max_by(f64::total_cmp).map(share)
            }
            (Self::OwnOfReceived, _) => received::own_part(facts, subject),
            (Self::OwnThrough, Subject::Interface(of)) => own_through(facts, of),
            (Self::SentBytes, Subject::Interface(of)) => counted(of.tx_bytes, facts.elapsed()),
            (Self::ChecksumOff, Subject::Interface(of)) => {
                Some(Estimate::exactly(f64::from(is_off(of, CHECKSUM)?)))
            }
            (Self::SegmentationOff, Subject::Interface(of)) => {
                Some(Estimate::exactly(f64::from(is_off(of, SEGMENTATION)?)))
            }
            (
                Self::OfLimit
                | Self::OwnTraffic
                | Self::FilterLoss
                | Self::FifoBehind
                | Self::OverlimitsPerPacket,
                Subject::Qdisc(interface, qdisc),
            ) => self.of_qdisc(facts, interface, qdisc),
            (Self::BytesPerTransmit, _) => Some(Estimate::exactly(bytes_per_transmit(facts)?)),
            (Self::Datagrams, _) => {
                let is = |kind| matches!(kind, SocketKind::Udp | SocketKind::Packet);
                let sockets = &facts.observation.sockets;
                Some(Estimate::exactly(f64::from(sockets.iter().any(|s| is(s.kind)))))
            }
            _ => self.of_protocols(facts).or_else(|| self.of_cpus(facts, subject)),
        }
    }

    fn of_qdisc(
        self,
        facts: &Facts<'_>,
        interface: &InterfaceCounts,
        qdisc: &QdiscCounts,
    ) -> Option<Estimate> {
        match self {
            Self::OfLimit => {
                let limit = qdisc.rate_bits_per_s.filter(|rate| *rate > 0.0)?;
                Some(share(8.0 * qdisc.bytes as f64 / facts.elapsed() / limit))
            }
            Self::OwnTraffic => own_traffic(facts, qdisc),
            Self::FilterLoss if facts.uses_stack() => filter_loss(facts, interface, qdisc),
            Self::FifoBehind => {
                let is_fair = interface.qdiscs.iter().any(|one| FAIR.contains(&one.kind.as_str()));
                Some(Estimate::exactly(f64::from(!is_fair)))
            }
            // netem does not count the packets that wait, which all of them do.
            Self::OverlimitsPerPacket if is_waited_in(qdisc) => Some(Estimate::exactly(1.0)),
            Self::OverlimitsPerPacket => {
                counted(qdisc.overlimits, (qdisc.packets + qdisc.drops).max(1) as f64)
            }
            _ => None,
        }
    }

    /// Returns losses counted by the protocols of the network namespace.
    fn of_protocols(self, facts: &Facts<'_>) -> Option<Estimate> {
        match self {
            Self::FirewallLoss
            | Self::ConntrackLoss
            | Self::ReversePathLoss
            | Self::ChecksumLoss
            | Self::ReassemblyLoss
                if facts.receives_before_ip() =>
            {
                Some(Estimate::exactly(0.0))
            }
            Self::FirewallLoss => {
                let vanished = vanished(facts)?;
                counted(vanished.by_firewall?, vanished.received as f64)
            }
            Self::OutputFirewallLoss => {
                let discarded = discarded(facts)?;
                counted(discarded.by_firewall?, discarded.sent.max(1) as f64)
            }
            Self::ConntrackLoss => {
                let [least, most] = table_full(facts)?;
                let received = facts.protocol("Ip.InReceives")?.max(most).max(1) as f64;
                let high = counted(most, received)?.high;
                counted(least, received).map(|loss| Estimate { high, ..loss })
            }
            Self::ReversePathLoss => {
                let drops = facts.protocol("TcpExt.IPReversePathFilter")?;
                let received = facts.protocol("Ip.InReceives")?;
                counted(drops, received.max(drops).max(1) as f64)
            }
            Self::ChecksumLoss => {
                let (bad, arrived) = bad_checksums(facts)?;
                counted(bad, (bad + arrived).max(1) as f64)
            }
            Self::ReassemblyLoss => {
                let of = fragmented(facts)?;
                counted(of.failures, (of.failures + of.complete).max(1) as f64)
            }
            _ => None,
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
            Self::PeersHere => Some(peers_here(facts, cpu)),
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
                let has_own =
                    !facts.observation.sockets.is_empty() || facts.is_unread("tunnel_packets");
                // A user who may not read the system calls cannot see the sockets either.
                let is_hidden = !has_own && facts.is_unread("system_calls_asleep");
                // The packets on TCP connections may be only a small part of the program's packets.
                let are_partial =
                    facts.is_unread("udp_datagrams") || facts.is_unread("other_namespaces");
                if are_partial || (has_own || is_hidden) && facts.observation.packets.is_none() {
                    return None;
                }
                let all = cpu.backlog_processed;
                let own = own + extra_fragments(facts);
                (all > 0).then(|| share(1.0 - (own.min(all) as f64 / all as f64)))
            }
            _ => None,
        }
    }
}

/// Returns the fragments received in the network namespace, less the datagrams that they belong to,
/// which are counted as packets already; 0 for a program without UDP sockets.
fn extra_fragments(facts: &Facts<'_>) -> u64 {
    let count = |name: &str| facts.protocol(name).unwrap_or(0);
    let of = |ip: &str| {
        count(&format!("{ip}ReasmReqds")).saturating_sub(count(&format!("{ip}ReasmOKs")))
    };
    let has_udp = facts.observation.sockets.iter().any(|socket| socket.kind == SocketKind::Udp);
    if has_udp { of("Ip.") + of("Ip6.") } else { 0 }
}

/// Returns 1 if a socket's process was at its limit on open descriptors in any reading, else 0.
fn was_full(facts: &Facts<'_>, socket: &SocketCounts) -> Estimate {
    let mut full = facts.observation.full_descriptors.iter();
    let is_reached = full.any(|full| full.pid == socket.pid && full.share > 0.0);
    Estimate::exactly(f64::from(is_reached))
}

/// Returns whether a UDP socket takes datagrams from any peer, and about as many are sent as
/// received; `None` if other programs may have sent or received them.
fn answers(facts: &Facts<'_>, socket: &SocketCounts) -> Option<bool> {
    let takes_any = socket.kind == SocketKind::Udp && socket.remote.is_none();
    (!facts.is_unread("udp_datagrams")).then(|| takes_any && facts.asks_by_udp())
}

/// Returns the fraction of packets that a socket dropped because its buffer was full. If it is
/// unknown how many of the namespace's datagrams the program received, this is a lower bound.
fn socket_loss(facts: &Facts<'_>, socket: &SocketCounts) -> Option<Estimate> {
    let drops = socket.buffer_drops(facts.observation)?;
    let of = |packets: u64| counted(drops, (drops + packets).max(1) as f64);
    match facts.packets() {
        Some(packets) => of(packets),
        None => of(facts.shared_datagrams()?).map(at_least_this),
    }
}

/// Returns the CPU time of the peers on a CPU. All that is known of a peer is its CPU time on all
/// CPUs, and where its busiest thread was last. If the peers' CPU time does not fit on this CPU,
/// how much of it was used here is unknown: anything from 0 to the busy time that the program's
/// threads did not use.
fn peers_here(facts: &Facts<'_>, cpu: &CpuCounts) -> Estimate {
    /// Maximum excess over the CPU's available time, in CPUs, that counts as reading error.
    const ERROR: f64 = 0.1;
    let is_here = |thread: &&ThreadActivity| thread.ran_on.first() == Some(&cpu.cpu);
    let threads = facts.observation.threads.iter().filter(is_here);
    let own: f64 = threads.filter_map(Facts::on_cpu).map(|time| time.value).sum();
    let room = (1.0 - cpu.idle - own).max(0.0);
    let peers = facts.observation.peers.iter().filter(|peer| peer.cpu == Some(cpu.cpu));
    let peers: f64 = peers.map(|peer| peer.cpus).sum();
    match peers <= room + ERROR {
        true => share(peers.min(1.0)),
        false => Estimate { low: 0.0, high: room, ..Estimate::exactly(0.0) },
    }
}

/// Returns the fraction of the bytes through a queueing discipline that the program sent; 1 if it
/// may have sent bytes that no socket counts: in datagrams, or on connections that have ended.
fn own_traffic(facts: &Facts<'_>, qdisc: &QdiscCounts) -> Option<Estimate> {
    /// Fraction of the bytes below which datagrams hardly matter.
    const FEW: f64 = 0.1;
    let passes_ip = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp | SocketKind::Raw);
    let are_counted = !facts.observation.sockets.iter().any(|socket| passes_ip(socket.kind));
    if !are_counted || !are_lasting(facts) || qdisc.bytes == 0 {
        return Some(Estimate::exactly(1.0));
    }
    let known = (sent_away(facts) as f64 / qdisc.bytes as f64).min(1.0);
    let in_datagrams = datagrams_through(facts, qdisc);
    if in_datagrams > FEW {
        return Some(Estimate::exactly(1.0));
    }
    Some(Estimate { high: (known + in_datagrams).min(1.0), ..Estimate::exactly(known) })
}

/// Returns the largest fraction of the bytes through a queueing discipline that the program may
/// have sent in datagrams; 0 if it has no UDP sockets. This is the lower of two bounds. First, no
/// datagram of the network namespace exceeds the largest size. Second, a packet that waits in the
/// queueing discipline is also in its socket's send queue, so the program's share of the bytes that
/// wait equals its share of those that pass (Little's law).
fn datagrams_through(facts: &Facts<'_>, qdisc: &QdiscCounts) -> f64 {
    /// Size of the largest datagram in bytes, even if the kernel or the NIC splits it into packets.
    const LARGEST: f64 = 65_535.0;
    /// Assumed maximum ratio of the mean queue length to the length at the end of the window.
    const VARIES: f64 = 3.0;
    let sockets = &facts.observation.sockets;
    let udp: Vec<_> = sockets.iter().filter(|one| one.kind == SocketKind::Udp).collect();
    if udp.is_empty() {
        return 0.0;
    }
    let sent = facts.datagrams("OutDatagrams").map_or(f64::INFINITY, |sent| sent as f64);
    let by_count = LARGEST * sent / qdisc.bytes.max(1) as f64;
    let are_read = udp.iter().all(|socket| Facts::readings(socket).is_some());
    let waiting: f64 = udp.iter().map(|socket| socket.send_queue_mean).sum();
    let by_queue = match qdisc.queued_bytes {
        queued if queued > 0 && are_read => VARIES * waiting / queued as f64,
        _ => f64::INFINITY,
    };
    by_count.min(by_queue)
}

/// Returns whether the program's connections last long enough for their bytes to be counted.
fn are_lasting(facts: &Facts<'_>) -> bool {
    /// Connections per second above which many are assumed to have ended.
    const OPENED: f64 = 2.0;
    let Some(opened) = opened(facts) else { return false };
    opened as f64 <= OPENED * facts.elapsed() || !may_have_opened(facts)
}

/// Returns the fraction of an interface's packets that its tc filters dropped. For the low end, the
/// program's share of the dropped packets is assumed to equal its share of those that passed; for
/// the high end, all of them are assumed to be the program's.
fn filter_loss(
    facts: &Facts<'_>,
    interface: &InterfaceCounts,
    qdisc: &QdiscCounts,
) -> Option<Estimate> {
    let drops = if qdisc.is_filter() { qdisc.drops } else { 0 };
    let passed = interface.rx_packets + interface.tx_packets;
    let own = facts.packets()?.min(passed);
    let of = |packets: u64| counted(drops, (drops + packets).max(1) as f64);
    let (all, most) = (of(passed)?, of(own)?);
    let part = own as f64 / passed.max(1) as f64;
    Some(Estimate { low: part * all.low, high: most.high.min(1.0), ..all })
}

/// Returns the bytes that the program sent on connections to other machines.
fn sent_away(facts: &Facts<'_>) -> u64 {
    let host = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let is_local = |socket: &&SocketCounts| {
        let to = socket.remote.as_deref().unwrap_or_default();
        to.starts_with("127.") || to.starts_with("[::1]") || host(to) == host(&socket.local)
    };
    let away = facts.connections().filter(|socket| !is_local(socket));
    away.filter_map(|socket| socket.tcp.as_ref()).map(|tcp| tcp.bytes_acked).sum()
}

/// Returns the fraction of the bytes that the program sends on its connections that leave through
/// an interface; `None` if it sends none. If other interfaces are in use, they may have sent these
/// bytes instead, unless they have the same offloads and would cost the same. If connections end
/// before their bytes are counted, the bytes of the interfaces alone are compared.
fn own_through(facts: &Facts<'_>, interface: &InterfaceCounts) -> Option<Estimate> {
    let sent = Some(sent_away(facts)).filter(|sent| *sent > 0)?;
    let offloads = |of: &InterfaceCounts| (is_off(of, CHECKSUM), is_off(of, SEGMENTATION));
    let is_other = |one: &&InterfaceCounts| {
        one.name != interface.name && one.name != "lo" && offloads(one) != offloads(interface)
    };
    let others: u64 =
        facts.observation.interfaces.iter().filter(is_other).map(|one| one.tx_bytes).sum();
    let part = |bytes: u64, all: u64| (bytes as f64 / all.max(1) as f64).min(1.0);
    let value = part(interface.tx_bytes, interface.tx_bytes + others);
    if !are_lasting(facts) {
        return Some(Estimate::exactly(value));
    }
    let most = part(interface.tx_bytes, sent);
    let low = part(sent.saturating_sub(others), sent).min(most);
    let value = value.clamp(low, most);
    Some(Estimate { low, high: most, ..Estimate::exactly(value) })
}

/// Returns whether packets wait in an emulated network (netem) because of its rate limit.
fn is_waited_in(qdisc: &QdiscCounts) -> bool {
    qdisc.kind == "netem" && qdisc.rate_bits_per_s.is_some() && qdisc.queued_packets > 0
}
