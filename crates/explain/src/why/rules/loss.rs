// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that lose packets on the way to the program.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::waits::Wait;
use super::{Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

/// RFC 2544 tolerates no loss at all; losses below this are no larger than the difference between
/// counters read at slightly different times.
const LOST: f64 = 0.001;
const LOST_SOURCE: &str = "counters read a moment apart differ by less";

/// Lost time that accounts for less than half of the lost packets does not explain them.
const HALF: &str = "a share of time waiting under half the share of packets lost does not explain \
                    the loss";

const FULL: &str = "below 100 %, within the 10 % error of kernel accounting";

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
        then_limited_by: Some("the offered load"),
        sentence: "{lost} packets ({lost_share}) overflowed the receive ring of {program}, \
                   although thread {thread} works {busy} of the time and waits for a CPU \
                   {waiting}: bursts are longer than the ring.",
        fix: "Enlarge the ring: framecnt of net_af_packet, rxd of a port, ethtool -G of a NIC",
        workaround: Some("poll more often or in larger bursts; a smoother sender avoids it"),
        wrong_if: "with a ring four times as large, the loss stays the same",
        measure: "how busy the thread is: `linerate why` for longer (-t 30s)",
    },
    Rule {
        cause: Cause::RingOverflow,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::CardLoss, LOST, LOST_SOURCE),
            at_most(M::CpuInterrupts, 0.8, "a CPU that receives all the time is itself the limit"),
        ],
        symptoms: 0,
        explained_by: &[Cause::OneReceiveCpu],
        gain: GainModel::LossRecovered(M::CardLoss),
        then_limited_by: Some("the offered load"),
        sentence: "The NIC of {interface} dropped {card_lost} packets for lack of free ring \
                   descriptors, although the receiving CPU has headroom.",
        fix: "ethtool -G {interface} rx 4096 (ethtool -g shows the maximum)",
        workaround: Some("spread the packets over more queues: ethtool -L {interface} combined N"),
        wrong_if: "with a larger ring, rx_missed_errors grows as before",
        measure: "rx_missed_errors of the interface",
    },
    Rule {
        cause: Cause::SocketBuffer,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_most(M::Demand, 0.9, FULL),
            at_least(M::AsleepForPackets, 0.05, "a thread that waits for packets has headroom"),
        ],
        symptoms: 1,
        explained_by: &[Cause::CpuQuota, Cause::UnreadSocket],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Some("the offered load, or the thread that receives"),
        sentence: "{socket} dropped {drops} packets because its receive buffer ({buffer}) was \
                   full, although its thread {thread} sleeps {asleep_for_packets} of the time.",
        fix: "Raise the socket's SO_RCVBUF, and net.core.rmem_max if that caps it",
        workaround: Some("receive in batches (recvmmsg), which empties the buffer faster"),
        wrong_if: "with a buffer four times as large, the loss stays the same",
        measure: "the socket's drops, by sock_diag",
    },
    Rule {
        cause: Cause::UnreadSocket,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_least(
                M::QueueFull,
                0.9,
                "a buffer that is being read has room for a packet now and \
                                         then",
            ),
            at_most(M::Demand, 0.5, "a busy thread already reads as fast as it can"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::TimerSleep],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Some("the offered load, or the thread that receives"),
        sentence: "{socket} is not being read: its receive queue stayed {queue_full} full, and \
                   {drops} packets were dropped, while thread {thread} has headroom.",
        fix: "Find out why it is not read (strace -f -T -p {tid} shows the calls); close a socket \
              that is not needed: SO_REUSEPORT and multicast still deliver packets to it",
        workaround: None,
        wrong_if: "Recv-Q of `ss -uan` is sometimes far below the buffer size",
        measure: "Recv-Q of `ss -uan`",
    },
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, LOST, LOST_SOURCE),
            at_least(M::AsleepIn(Wait::Timer), 0.3, "otherwise the wait is not the limit"),
            at_most(M::AsleepIn(Wait::Input), 0.3, "it does not wait for packets"),
            at_least(M::QueueWaits, 0.5, "packets wait at every second reading or more often"),
            at_least(M::SleepsPerPacket, 0.1, "a sleep per ten packets or fewer"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::LossRecovered(M::SocketLoss),
        then_limited_by: Some("the offered load, or the thread that receives"),
        sentence: "Thread {thread} sleeps on a timer {on_timer} of the time, {sleeps_per_packet} \
                   sleeps per packet, while packets wait in the receive queue of {socket}, which \
                   dropped {drops}.",
        fix: "Remove the sleep from the receive loop, or read every waiting packet before each \
              sleep (strace -f -e nanosleep,clock_nanosleep -p {tid} shows each)",
        workaround: Some("a larger SO_RCVBUF bridges bursts, but not a sleep per packet"),
        wrong_if: "without the sleep, or with half of it, the loss stays the same",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::FirewallDrop,
        scope: Scope::Program,
        conditions: &[at_least(
            M::FirewallLoss,
            0.01,
            "counters read one after another differ by less",
        )],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossPerhapsRecovered(M::FirewallLoss),
        then_limited_by: Some("the offered load"),
        sentence: "Firewall rules dropped {firewall_lost} packets ({firewall_loss} of those that \
                   reached IP) in the network namespace of {program}.",
        fix: "Find the rule whose counter grows (nft list ruleset; iptables -vnL) and accept the \
              packets that {program} should get",
        workaround: Some(
            "if the drops are intended, drop earlier: an nft ingress chain or XDP costs less per \
             packet",
        ),
        wrong_if: "with the rule removed, Ip.InReceives and Ip.InDelivers (nstat) still differ",
        measure: "skb:kfree_skb by reason, as root",
    },
    Rule {
        cause: Cause::AcceptQueue,
        scope: Scope::Listeners,
        conditions: &[
            at_least(M::AcceptLoss, LOST, "one client in a thousand waits for a second"),
            at_most(M::Demand, 0.9, FULL),
            at_most(M::AcceptQueueFull, 0.9, "a queue that is always full is not being drained"),
        ],
        symptoms: 1,
        explained_by: &[Cause::CpuQuota, Cause::CpuContention],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Some("the offered load, or the thread that accepts"),
        sentence: "{socket} dropped {drops} connection attempts: its accept queue holds \
                   {accept_queue}, and overflows although thread {thread} has headroom. Clients \
                   retry after a second.",
        fix: "Raise the listen(2) backlog (an option of most servers) and net.core.somaxconn, \
              which caps it",
        workaround: Some("several listening sockets (SO_REUSEPORT), each with its own queue"),
        wrong_if: "with a queue four times as long, TcpExtListenOverflows of `nstat` grows as \
                   before",
        measure: "Recv-Q and Send-Q of `ss -ltn`, and TcpExtListenOverflows of `nstat`",
    },
    Rule {
        cause: Cause::BacklogOverflow,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::BacklogLoss, LOST, LOST_SOURCE),
            at_most(M::CpuInterrupts, 0.8, "a CPU that receives all the time is itself the limit"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LossRecovered(M::BacklogLoss),
        then_limited_by: Some("the offered load, or the CPU that receives"),
        sentence: "The backlog of CPU {cpu} overflowed: {backlog_lost} packets were dropped while \
                   the CPU had headroom.",
        fix: "sysctl net.core.netdev_max_backlog=5000, and rps_cpus with more CPUs",
        workaround: None,
        wrong_if: "with a longer backlog, column 2 of /proc/net/softnet_stat grows as before",
        measure: "column 2 of /proc/net/softnet_stat",
    },
    Rule {
        cause: Cause::NapiBudget,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::SqueezedPerSecond, 10.0, "rarer stops cost under a millisecond per second"),
            at_least(M::Squeezed, 0.1, "one receive softirq in ten stops with work left"),
            at_most(M::PacketsPerSqueeze, 150.0, "the default budget is 300 packets"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::AsMeasured(
            [0.0, 5.0, 50.0],
            "a larger budget only saves restarting the softirq",
        ),
        then_limited_by: Some("the CPU that receives"),
        sentence: "NAPI on CPU {cpu} stopped polling with packets left {squeezed} times per \
                   second: \
                   its budget or time was used up.",
        fix: "sysctl net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000",
        workaround: None,
        wrong_if: "with twice the budget, column 3 of /proc/net/softnet_stat grows as before",
        measure: "column 3 of /proc/net/softnet_stat",
    },
    Rule {
        cause: Cause::OneReceiveCpu,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::ReceivedHere, 0.85, "nine tenths, less the error of kernel accounting"),
            at_least(M::CpuInterrupts, 0.5, "more than half of its time"),
            at_least(M::IdleElsewhere, 0.3, "a third of a CPU to receive on"),
            at_most(M::Demand, 0.9, "a thread at 100 % is itself the limit"),
            at_most(M::CpuFunctions(Group::Firewall), 0.1, "above that, it is firewall_rules"),
        ],
        symptoms: 4,
        explained_by: &[Cause::FirewallRules],
        gain: GainModel::MoreCpus,
        then_limited_by: Some("the next CPU, or a single flow"),
        sentence: "CPU {cpu} receives {received_here} of all packets and spends {cpu_interrupts} \
                   of its time doing so, while another CPU is {idle_elsewhere} idle.",
        fix: "Spread the flows: ethtool -L and -X with more queues, or rps_cpus of each queue; a \
              single flow stays on one CPU",
        workaround: Some("move the program off CPU {cpu}, leaving that CPU free to receive"),
        wrong_if: "with more queues and flows, the rate rises by less than 10 %",
        measure: "column 1 of /proc/net/softnet_stat, per CPU",
    },
];
