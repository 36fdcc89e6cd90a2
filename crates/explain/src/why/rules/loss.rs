// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of packet loss on the way to the program.

use super::super::facts::LOST;
use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::waits::Wait;
use super::{Next, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

const LOST_SOURCE: &str = "smaller losses may be skew between counter reads";

/// If waiting for a CPU accounts for less than half of the lost packets, it does not explain the
/// loss.
const HALF: &str = "above that, waiting for a CPU may explain the loss";

/// Minimum fraction of the packets of an interface or a machine that are the program's. Otherwise,
/// how they are received hardly concerns the program.
pub(in super::super) const OWN: f64 = 0.01;
pub(super) const OWN_SOURCE: &str = "below that, other programs receive practically all packets";

/// Excludes observations in which [`M::ConntrackLoss`] could not be read.
const NOT_FULL: &str = "any value suffices, but it must be known, because it is subtracted from \
                        the drops by firewall rules";

const FULL: &str = "not fully busy, given the 10 % error of kernel accounting";

const MORE_DESCRIPTORS: &str = "Raise the limit (ulimit -n, LimitNOFILE= in a systemd unit, or a \
                                program option such as worker_rlimit_nofile), or close idle \
                                connections sooner";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::RingOverflow,
        scope: Scope::Program,
        conditions: &[
            at_least(M::RingLoss, LOST, LOST_SOURCE),
            at_most(M::WaitingPerLoss, 0.5, HALF),
            at_most(M::Throttled, 0.05, "above that, the quota is the cause"),
            at_most(M::Stolen, 0.05, "above that, the hypervisor is the cause"),
            at_most(M::Busy, 0.9, FULL),
        ],
        symptoms: 1,
        explained_by: &[Cause::CpuQuota, Cause::CpuContention, Cause::StolenCpu],
        gain: GainModel::LossRecovered(M::RingLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "{lost} packets ({lost_share}) overflowed the receive ring of {program}, \
                   although thread {thread} works only {busy} of the time and waits for a CPU \
                   {waiting} of the time: bursts exceed the ring size.",
        fix: "Enlarge the ring: set framecnt for net_af_packet or rxd for a DPDK port, or run \
              ethtool -G for a NIC",
        workaround: Some("poll more often or in larger bursts, or pace the sender"),
        wrong_if: "with a ring four times as large, the loss stays the same",
        measure: "how busy the thread is, by running `linerate why` for longer (-t 30s)",
    },
    Rule {
        cause: Cause::RingOverflow,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::CardLoss, LOST, LOST_SOURCE),
            at_most(
                M::ReceiverInterrupts,
                0.8,
                "a CPU that spends all its time receiving is itself the bottleneck",
            ),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 1,
        explained_by: &[Cause::OneReceiveCpu],
        gain: GainModel::LossRecovered(M::CardLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "The NIC of {interface} dropped {card_lost} packets for lack of free ring \
                   descriptors, although all receiving CPUs have headroom.",
        fix: "Enlarge the ring: ethtool -g {interface} shows its size and the maximum; {as_root} \
              ethtool -G {interface} rx N sets it (many drivers reset the link)",
        workaround: Some("spread the packets over more queues: ethtool -L {interface} combined N"),
        wrong_if: "with a larger ring, rx_missed_errors grows as before",
        measure: "how busy the receiving CPUs are (%soft in mpstat -P ALL)",
    },
    Rule {
        cause: Cause::SocketBuffer,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_most(M::Demand, 0.9, FULL),
            at_least(M::AsleepForPackets, 0.05, "a thread waiting for packets has headroom"),
            at_most(
                M::OutOfMemory,
                0.5,
                "above that, the limit on all UDP sockets applies, whatever the buffer size",
            ),
            at_most(
                M::QueueSteady,
                0.85,
                "above that, the buffer is always full, and a larger one would lose just as many \
                 packets: the program is too slow on average",
            ),
        ],
        symptoms: 1,
        explained_by: &[
            Cause::CpuQuota,
            Cause::UnreadSocket,
            Cause::UserLock,
            Cause::ChildProcesses,
        ],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Next::LoadOr("the receiving thread"),
        sentence: "{socket} dropped {drops} packets because its receive buffer ({buffer}) was \
                   full, although its thread {thread} sleeps {asleep_for_packets} of the \
                   time.{meanwhile_waits}",
        fix: "Raise SO_RCVBUF in the program, for example to twice its value, and its cap if that \
              is lower (sysctl net.core.rmem_max shows the cap; sudo sysctl -w raises \
              it){or_move_others}",
        workaround: Some("{drain_faster}"),
        wrong_if: "with a buffer four times as large, the loss stays the same",
        measure: "the socket's drop counter in sock_diag",
    },
    Rule {
        cause: Cause::SocketBuffer,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_least(M::OutOfMemory, 0.5, "most of the drops"),
            at_most(M::Demand, 0.9, FULL),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::UnreadSocket, Cause::UserLock],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Next::LoadOr("the receiving thread"),
        sentence: "{socket} dropped {drops} packets because the memory of all UDP sockets of the \
                   machine had reached its limit (net.ipv4.udp_mem).",
        fix: "Raise the limit, which is in pages of 4 KiB (sysctl net.ipv4.udp_mem shows it, sudo \
              sysctl -w sets it; UDP: mem in /proc/net/sockstat is the memory in use), or find the \
              sockets with long receive queues (ss -uanm)",
        workaround: Some("read sooner, so that less memory is in use"),
        wrong_if: "with twice the limit, the loss stays the same",
        measure: "the drop reason PROTO_MEM, with the tracepoint skb:kfree_skb (as root)",
    },
    Rule {
        cause: Cause::UnreadSocket,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_least(M::QueueFull, 0.9, "a buffer that is being read has free space now and then"),
            at_most(M::Demand, 0.5, "a busy thread already reads as fast as it can"),
            at_most(
                M::AsleepOnUnlisted,
                0.3,
                "above that, the thread sends a query to a server for each packet, so it does read \
                 its receive socket",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::TimerSleep, Cause::UserLock, Cause::WaitingForPeer],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Next::LoadOr("the receiving thread"),
        sentence: "{socket} is not being read: its receive queue stayed {queue_full} full, and \
                   {drops} packets were dropped, while thread {thread} has headroom.",
        fix: "Find out why the socket is not being read (strace -f -T -p {tid} shows the calls), \
              or close it if it is not needed: SO_REUSEPORT and multicast keep delivering packets \
              to it",
        workaround: None,
        wrong_if: "Recv-Q in `ss -anu0` is sometimes far below the buffer size",
        measure: "Recv-Q in `ss -anu0`",
    },
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_least(M::AsleepIn(Wait::Timer), 0.3, "otherwise the wait is not the bottleneck"),
            at_most(M::AsleepIn(Wait::Input), 0.3, "the thread is not waiting for packets"),
            at_least(M::QueueWaits, 0.5, "packets are waiting in at least half of the readings"),
            at_least(M::SleepsPerPacket, 0.1, "at least one sleep per ten packets"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Next::LoadOr("the receiving thread"),
        sentence: "Thread {thread} sleeps on a timer {on_timer} of the time ({sleeps_per_packet} \
                   times per packet), while packets wait in the receive queue of {socket}, which \
                   dropped {drops} packets.",
        fix: "Remove the sleep from the receive loop, or drain the receive queue before each sleep \
              (strace -f -e nanosleep,clock_nanosleep -p {tid} shows the sleeps)",
        workaround: Some(
            "a larger SO_RCVBUF absorbs bursts, but does not help if the thread sleeps once per \
             packet",
        ),
        wrong_if: "with the sleep removed or halved, the loss stays the same",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::FirewallDrop,
        scope: Scope::Program,
        conditions: &[
            at_least(M::FirewallLoss, 0.01, "smaller losses may be skew between counter reads"),
            at_most(M::ConntrackLoss, 1.0, NOT_FULL),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 1,
        explained_by: &[Cause::ConntrackFull, Cause::ReassemblyFailed],
        gain: GainModel::LossPerhapsRecovered(M::FirewallLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "Firewall rules dropped {firewall_lost} packets ({firewall_loss} of all \
                   received) in the network namespace of {program}.",
        fix: "Find the rule whose counter grows (nft list ruleset; iptables -vnL) and accept the \
              packets that {program} should get",
        workaround: Some(
            "if the drops are intended, drop the packets earlier: an nft ingress chain or XDP \
             costs less per packet",
        ),
        wrong_if: "with the rule removed, the program receives no more packets than before",
        measure: "drop reasons, with the tracepoint skb:kfree_skb (as root), and `drop` in \
                  `conntrack -S`",
    },
    Rule {
        cause: Cause::FirewallDrop,
        scope: Scope::Qdiscs,
        conditions: &[at_least(
            M::FilterLoss,
            0.01,
            "smaller losses may be skew between counter reads, or belong to other programs",
        )],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::FilterLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "A tc filter or policer on {interface} dropped {filter_drops} packets, \
                   {filter_loss} of the packets on that interface including the dropped ones.",
        fix: "Find the filter whose counter grows (tc -s filter show dev {interface} ingress, and \
              egress) and make it accept the packets that {program} should receive or send; if it \
              is a policer (police rate), raise its rate",
        workaround: None,
        wrong_if: "without the filter, the program receives and sends no more packets than before",
        measure: "drops of the clsact or ingress qdisc in `tc -s qdisc`",
    },
    Rule {
        cause: Cause::FirewallDrop,
        scope: Scope::Program,
        conditions: &[
            at_least(M::OutputFirewallLoss, 0.002, "one reply in 500 is missing"),
            at_most(M::ConntrackLoss, 1.0, NOT_FULL),
        ],
        symptoms: 1,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::OutputFirewallLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "Firewall rules dropped {discarded_lost} packets ({output_loss}) that programs \
                   in the network namespace of {program} sent.",
        fix: "Find the rule whose counter grows (nft list ruleset; iptables -vnL OUTPUT) and \
              accept the packets that {program} sends",
        workaround: Some("if the drops are intended, stop sending those packets"),
        wrong_if: "with the rule removed, IpOutDiscards in `nstat` still grows",
        measure: "drop reasons, with the tracepoint skb:kfree_skb (as root), and `drop` in \
                  `conntrack -S`",
    },
    Rule {
        cause: Cause::ConntrackFull,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::ConntrackLoss,
                0.0005,
                "one packet in 2000; each such packet makes a client wait 1 s before it retries",
            ),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::ConntrackLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "The connection tracking table in the network namespace of {program} \
                   {conntrack_state}: {conntrack_lost} packets of new connections were dropped.",
        fix: "{conntrack_fix}",
        workaround: Some(
            "shorter timeouts (net.netfilter.nf_conntrack_tcp_timeout_time_wait and others) free \
             entries sooner",
        ),
        wrong_if: "nf_conntrack_count is far below nf_conntrack_max and `chaintoolong` in \
                   `conntrack -S` does not grow; or, with a larger table, `drop` still grows \
                   faster than `insert_failed`",
        measure: "`drop`, `insert_failed` and `chaintoolong` in `conntrack -S`",
    },
    Rule {
        cause: Cause::ReversePathFilter,
        scope: Scope::Program,
        conditions: &[
            at_least(M::ReversePathLoss, LOST, LOST_SOURCE),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::ReversePathLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "The reverse path filter dropped {reverse_path_lost} packets \
                   ({reverse_path_loss} of those that reached IP) in the network namespace of \
                   {program}: the route back to their source does not use the interface on which \
                   they arrived.",
        fix: "Route the packets' source through the interface on which they arrive (ip route get \
              SOURCE shows the current route), or switch to loose mode, which accepts a source \
              that any interface can reach: sudo sysctl net.ipv4.conf.all.rp_filter=2",
        workaround: None,
        wrong_if: "with rp_filter=2, TcpExtIPReversePathFilter in `nstat` still grows",
        measure: "TcpExtIPReversePathFilter in `nstat`",
    },
    Rule {
        cause: Cause::BadChecksum,
        scope: Scope::Program,
        conditions: &[at_least(M::ChecksumLoss, LOST, LOST_SOURCE)],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::ChecksumLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "{bad_checksums} packets ({checksum_loss}) arrived with a wrong UDP or TCP \
                   checksum and were dropped.",
        fix: "Compute checksums in software at the sender (ethtool -K IF tx off): packets sent \
              through a virtual NIC, AF_PACKET or DPDK may leave without the checksum that an \
              offload should add; otherwise, find the link that corrupts packets (ethtool -S IF)",
        workaround: None,
        wrong_if: "tcpdump -vv shows no packet with a bad checksum on the receiving interface",
        measure: "UdpInCsumErrors, Udp6InCsumErrors and TcpInCsumErrors in `nstat`",
    },
    Rule {
        cause: Cause::ReassemblyFailed,
        scope: Scope::Program,
        conditions: &[
            at_least(M::ReassemblyLoss, LOST, LOST_SOURCE),
            at_least(M::Datagrams, 1.0, "TCP does not send fragments"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::ReassemblyLoss),
        then_limited_by: Next::Is("the offered load"),
        sentence: "Datagrams that arrived in fragments could not be reassembled: \
                   {reassembly_fails} failures, {reassembled} successes. {reassembly_reason}.",
        fix: "Send datagrams that fit into the path MTU (1,472 bytes of payload for an MTU of \
              1,500), so that a lost packet costs a single datagram; {reassembly_fix}",
        workaround: None,
        wrong_if: "with smaller datagrams, just as many bytes per second are lost",
        measure: "IpReasmFails and IpReasmTimeout in `nstat`",
    },
    Rule {
        cause: Cause::DescriptorLimit,
        scope: Scope::Program,
        conditions: &[at_least(M::DescriptorsFull, 0.5, "most of the time")],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::Unknown("the number of connections that would be accepted is not known"),
        then_limited_by: Next::LoadOr("the program's own CPU"),
        sentence: "{program} is at its limit on open descriptors ({descriptors}) \
                   {descriptors_full} of the time: it cannot accept or open connections (EMFILE), \
                   and may retry in a loop.",
        fix: MORE_DESCRIPTORS,
        workaround: None,
        wrong_if: "with a higher limit, the number of open descriptors stays the same",
        measure: "`ls /proc/PID/fd | wc -l` and \"Max open files\" in /proc/PID/limits",
    },
    // A program that stops accepting for a while closes connections meanwhile, and is below the
    // limit in most readings.
    Rule {
        cause: Cause::DescriptorLimit,
        scope: Scope::Listeners,
        conditions: &[
            at_least(M::DescriptorsReached, 1.0, "in at least one reading"),
            at_least(M::QueueWaits, 0.5, "most of the time"),
            at_most(M::Demand, 0.9, FULL),
            at_least(
                M::AsleepForPackets,
                0.3,
                "a thread that waits for input while connections are pending is not accepting them",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::Unknown("the number of connections that would be accepted is not known"),
        then_limited_by: Next::LoadOr("the program's own CPU"),
        sentence: "{program} reached its limit on open descriptors ({descriptors}), at which it \
                   cannot accept connections (EMFILE), and apparently stops accepting for a while. \
                   {socket} had connections waiting in {queue_waits} of the readings, while thread \
                   {thread} was asleep {asleep_for_packets} of the time, waiting for input.",
        fix: MORE_DESCRIPTORS,
        workaround: None,
        wrong_if: "with a higher limit, connections still wait in the accept queue (Recv-Q in `ss \
                   -ltn`)",
        measure: "accept calls that fail with EMFILE: strace -f -e trace=accept,accept4 -p PID",
    },
    Rule {
        cause: Cause::AcceptQueue,
        scope: Scope::Listeners,
        conditions: &[
            at_least(M::AcceptLoss, LOST, "one client in a thousand waits one second"),
            at_most(M::Demand, 0.9, FULL),
            at_most(M::AcceptQueueFull, 0.9, "a queue that is always full is not being drained"),
        ],
        symptoms: 1,
        explained_by: &[Cause::CpuQuota, Cause::CpuContention, Cause::DescriptorLimit],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::LoadOr("the accepting thread"),
        sentence: "{socket} dropped {drops} connection attempts: its accept queue holds \
                   {accept_queue} connections at most, and overflows although thread {thread} has \
                   headroom. Clients retry after a second.",
        fix: "Raise the listen(2) backlog (an option in most servers) and net.core.somaxconn, \
              which caps it",
        workaround: Some("use several listening sockets (SO_REUSEPORT), each with its own queue"),
        wrong_if: "with a queue four times as long, TcpExtListenOverflows in `nstat` grows as \
                   before",
        measure: "Recv-Q and Send-Q in `ss -ltn`, and TcpExtListenOverflows in `nstat`",
    },
    Rule {
        cause: Cause::BacklogOverflow,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::BacklogLoss, LOST, LOST_SOURCE),
            at_most(
                M::CpuInterrupts,
                0.8,
                "a CPU that spends all its time receiving is itself the bottleneck",
            ),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 2,
        explained_by: &[],
        gain: GainModel::LossRecovered(M::BacklogLoss),
        then_limited_by: Next::LoadOr("the receiving CPU"),
        sentence: "The backlog of CPU {cpu} overflowed: {backlog_lost} packets were dropped while \
                   the CPU had headroom.",
        fix: "Raise net.core.netdev_max_backlog, for example to twice its value (sysctl shows it; \
              sudo sysctl -w sets it), and add more CPUs to rps_cpus",
        workaround: None,
        wrong_if: "with a longer backlog, column 2 of /proc/net/softnet_stat grows as before",
        measure: "column 2 of /proc/net/softnet_stat",
    },
    Rule {
        cause: Cause::NapiBudget,
        scope: Scope::Cpus,
        conditions: &[
            at_least(
                M::SqueezedPerSecond,
                10.0,
                "below that, the stops cost less than 1 ms per second in total",
            ),
            at_least(M::Squeezed, 0.1, "one receive softirq in ten stops with work left"),
            at_most(
                M::PacketsPerSqueeze,
                150.0,
                "half of the default budget of 300 packets: polling stops early",
            ),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 3,
        explained_by: &[],
        gain: GainModel::AsMeasured(
            [0.0, 5.0, 50.0],
            "a larger budget only avoids restarting the softirq",
        ),
        then_limited_by: Next::Is("the receiving CPU"),
        sentence: "NAPI on CPU {cpu} ran out of budget or time {squeezed} times per second and \
                   stopped polling with packets left.",
        fix: "Raise net.core.netdev_budget and net.core.netdev_budget_usecs, for example to twice \
              their values (sysctl shows them; sudo sysctl -w sets them)",
        workaround: None,
        wrong_if: "with twice the budget, column 3 of /proc/net/softnet_stat grows as before",
        measure: "column 3 of /proc/net/softnet_stat",
    },
    Rule {
        cause: Cause::OneReceiveCpu,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::ReceivedHere, 0.85, "90 %, minus the error of kernel accounting"),
            at_least(M::CpuInterrupts, 0.5, "more than half of its time"),
            at_least(M::IdleElsewhere, 0.3, "below that, no other CPU has time to receive packets"),
            at_most(M::Demand, 0.9, "a thread at 100 % is itself the bottleneck"),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
            at_most(
                M::CpuFunctions(Group::Firewall),
                0.1,
                "above that, the cause is firewall_rules",
            ),
        ],
        symptoms: 4,
        explained_by: &[Cause::FirewallRules],
        gain: GainModel::MoreCpus,
        then_limited_by: Next::Is("the next CPU to saturate, or the rate of a single flow"),
        sentence: "CPU {cpu} receives {received_here} of all packets and spends {cpu_interrupts} \
                   of its time doing so, while another CPU is {idle_elsewhere} idle.",
        fix: "Spread the flows over more queues (ethtool -L and -X), or over more CPUs (rps_cpus \
              of each queue); a single flow stays on one CPU",
        workaround: Some("move the program off CPU {cpu}, leaving that CPU free to receive"),
        wrong_if: "with more queues and flows, the rate rises by less than 10 %",
        measure: "column 1 of /proc/net/softnet_stat, per CPU",
    },
];
