// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes in the network, and between the ends of a connection.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::waits::Wait;
use super::{Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

const STALLED: &str = "twice the error of TCP's times, which are counted in 4 ms ticks";
/// Causes that stop a connection, so that the other end waits.
const STALLS: &[Cause] = &[
    Cause::RateLimiter,
    Cause::ReceiveWindow,
    Cause::SlowReceiver,
    Cause::SendBuffer,
    Cause::TcpLoss,
    Cause::NagleDelay,
];

/// Relative to the window that the path needs, from its rate and shortest round trip.
const WINDOW: f64 = 8.0;
const WINDOW_SOURCE: &str =
    "measured: 0.8 to 1 with small buffers, 200 to 7000 with receivers that read slowly";
const BUSY_BYTES: f64 = 1e6;
const BUSY_BYTES_SOURCE: &str = "below 8 Mb/s, offloads make no difference";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::ReceiveWindow,
        scope: Scope::Program,
        conditions: &[
            at_least(M::WindowLimited, 0.05, STALLED),
            at_most(M::PeerWindow, WINDOW, WINDOW_SOURCE),
        ],
        symptoms: 1,
        explained_by: &[Cause::RateLimiter, Cause::SlowReceiver],
        gain: GainModel::StallRemoved(M::WindowLimited),
        then_limited_by: Some("the sender's CPU, or the path"),
        sentence: "The receiver's window limited the TCP connections for {window_limited} of the \
                   time.",
        fix: "At the receiver: do not set SO_RCVBUF, raise the maximum of net.ipv4.tcp_rmem; or \
              read faster",
        workaround: Some("parallel connections, each with its own window"),
        wrong_if: "with a larger receive buffer, rwnd_limited of `ss -ti` does not fall",
        measure: "rwnd_limited of `ss -ti` at the sender",
    },
    Rule {
        cause: Cause::ReceiveWindow,
        scope: Scope::Connections,
        conditions: &[
            at_least(M::ReceivedBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_most(M::ReceiveBuffer, 65_536.0, "no room for one TSO segment (64 KiB)"),
            at_most(M::Demand, 0.9, "the receiver has headroom"),
        ],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Some("the sender, or the path"),
        sentence: "{socket} has a receive buffer of only {buffer}: its window is smaller than one \
                   TSO segment, and its sender has to wait.",
        fix: "Leave SO_RCVBUF unset, so that the kernel sizes the buffer, or set it to 4 MiB",
        workaround: Some("parallel connections, each with its own window"),
        wrong_if: "with a buffer of 4 MiB, the rate rises by less than 10 %",
        measure: "rwnd_limited of `ss -ti` at the sender",
    },
    Rule {
        cause: Cause::SlowReceiver,
        scope: Scope::Program,
        conditions: &[
            at_least(M::WindowLimited, 0.05, STALLED),
            at_least(M::PeerWindow, WINDOW, WINDOW_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter, Cause::SoftwareChecksum, Cause::NoSegmentation],
        gain: GainModel::StallRemoved(M::WindowLimited),
        then_limited_by: Some("the sender's CPU, or the path"),
        sentence: "The receiver reads more slowly than the program sends: its window \
                   ({peer_window}) was full {window_limited} of the time.",
        fix: "Diagnose the receiver: {watch_peer}",
        workaround: Some("a larger receive buffer only postpones the stall"),
        wrong_if: "Recv-Q of `ss -tn` at the receiver is 0 most of the time",
        measure: "Recv-Q of `ss -tn` at the receiver",
    },
    Rule {
        cause: Cause::SendBuffer,
        scope: Scope::Program,
        conditions: &[at_least(M::SendBufferLimited, 0.05, STALLED)],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter, Cause::ReceiveWindow, Cause::SlowReceiver],
        gain: GainModel::StallRemoved(M::SendBufferLimited),
        then_limited_by: Some("the receiver, or the path"),
        sentence: "The program's send buffer limited the TCP connections for {send_limited} of the \
                   time.",
        fix: "Do not set SO_SNDBUF in the program; raise the maximum of net.ipv4.tcp_wmem",
        workaround: Some("parallel connections, each with its own buffer"),
        wrong_if: "with a larger send buffer, sndbuf_limited of `ss -ti` does not fall",
        measure: "sndbuf_limited of `ss -ti`",
    },
    Rule {
        cause: Cause::TcpLoss,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::Resent,
                0.005,
                "at a round trip of 1 ms, TCP stays below 250 Mb/s (Mathis et al., 1997)",
            ),
            at_most(M::Demand, 0.9, "a thread at 100 % is itself the limit"),
            at_most(M::AppLimited, 0.5, "with nothing more to send, losses cost time, not rate"),
        ],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter, Cause::BacklogOverflow, Cause::RingOverflow],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Some("the path, or the thread's CPU"),
        sentence: "Segments are lost on the way: TCP retransmitted {resent} of all segments sent, \
                   and slows down at each loss.{loss_place}",
        fix: "Find where they are dropped, from here to the receiver: tc -s qdisc (a full queue, a \
              policer), nft list ruleset, ip -s -s link and ethtool -S at both ends",
        workaround: Some("BBR (net.ipv4.tcp_congestion_control) backs off less on loss"),
        wrong_if: "without retransmissions (retrans of `ss -ti`), the rate rises by less than 10 %",
        measure: "retrans of `ss -ti`",
    },
    Rule {
        cause: Cause::NagleDelay,
        scope: Scope::Connections,
        conditions: &[
            at_least(M::Held, 0.3, "otherwise the wait is not the limit"),
            at_most(M::Demand, 0.7, "its threads have headroom"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::StallRemoved(M::Held),
        then_limited_by: Some("the peer, or its own CPU"),
        sentence: "Connection {connection} holds back small segments {held} of the time until \
                   earlier ones are acknowledged (Nagle's algorithm); the peer delays \
                   acknowledgements by up to 40 ms.",
        fix: "Set TCP_NODELAY, or write each message with one call (writev, MSG_MORE)",
        workaround: Some("TCP_QUICKACK at the receiver, set again after each read"),
        wrong_if: "with TCP_NODELAY, the rate rises by less than 10 %",
        measure: "notsent and unacked of `ss -ti`",
    },
    Rule {
        cause: Cause::RateLimiter,
        scope: Scope::Connections,
        conditions: &[at_least(
            M::OfPacingLimit,
            0.75,
            "the rate it lets through, less the error of its counters",
        )],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Some("the thread's CPU, or the path"),
        sentence: "The program limits connection {connection} to {pacing_limit} \
                   (SO_MAX_PACING_RATE), and sends at {of_pacing_limit} of that limit.",
        fix: "Raise SO_MAX_PACING_RATE in the program, or do not set it",
        workaround: Some("parallel connections, each with its own limit"),
        wrong_if: "without the limit, the rate rises by less than 10 %; if the limit is intended, \
                   give --line",
        measure: "pacing_rate of `ss -ti`, second value",
    },
    Rule {
        cause: Cause::RateLimiter,
        scope: Scope::Qdiscs,
        conditions: &[
            at_least(M::OfLimit, 0.75, "the rate it lets through, less the error of its counters"),
            at_least(M::OverlimitsPerPacket, 0.1, "one packet in ten had to wait"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Some("the thread's CPU, or the path"),
        sentence: "The queueing discipline {qdisc} on {interface} limits the rate to {limit}, and \
                   the program is at {of_limit} of it; packets had to wait {overlimits} times.",
        fix: "tc qdisc change dev {interface} with a higher rate, or tc qdisc del dev {interface} \
              root",
        workaround: None,
        wrong_if: "without the limit, the rate rises by less than 10 %; if the limit is intended, \
                   give --line",
        measure: "tc -s qdisc",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Program,
        conditions: &[
            at_most(M::Demand, 0.7, "its threads have headroom"),
            at_least(M::Asleep, 0.3, "it waits"),
            at_least(M::ClientsPerServer, 2.0, "two or more clients wait for each connection"),
        ],
        symptoms: 0,
        explained_by: STALLS,
        gain: GainModel::MoreOnTheWay,
        then_limited_by: Some("the servers behind it, or its own CPU"),
        sentence: "{program} sleeps {asleep} of the time and has {clients_per_server} clients for \
                   each connection to a server: requests wait for a free connection.",
        fix: "Allow more connections to the servers (maxconn, upstream keepalive, pool size)",
        workaround: Some("a faster server answers sooner, with the same number of connections"),
        wrong_if: "with twice as many connections, requests per second rise by less than 10 %",
        measure: "the queue in the program's statistics, such as qcur of HAProxy",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::AsleepOnServer, 0.5, "more than half of the time"),
            at_most(M::Demand, 0.5, "below that, its own CPU time is not the limit"),
        ],
        symptoms: 0,
        explained_by: STALLS,
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Some("the peer"),
        sentence: "Thread {thread} waits for a peer's reply {asleep_on_server} of the time: one \
                   request at a time on its connection.",
        fix: "Send the next request before the reply arrives (pipelining, more connections)",
        workaround: Some("a closer or faster peer"),
        wrong_if: "with two requests in flight, the rate rises by less than 10 %",
        measure: "the time the peer takes, by `ss -ti` (rtt) and its own log",
    },
    Rule {
        cause: Cause::WaitingForStorage,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Storage), 0.1, "below that, the gain is within the noise"),
            at_most(M::WorkingThreads, 1.0, "no other thread works in the meantime"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::WaitRemoved(Wait::Storage),
        then_limited_by: Some("the thread's own work"),
        sentence: "Thread {thread} waits for storage {on_storage} of the time, most of it in \
                   {storage}: packets wait while it does.",
        fix: "Move the write to another thread or to io_uring, or sync once for many requests",
        workaround: Some(
            "a faster disk, or tmpfs for data that need not survive, shortens each \
                          wait",
        ),
        wrong_if: "with the file on tmpfs, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Timer), 0.3, "otherwise the wait is not the limit"),
            at_most(M::AsleepIn(Wait::Input), 0.3, "it does not wait for requests"),
            at_least(M::Answers, 1.0, "its peer waits for the reply in the meantime"),
            at_least(M::SleepsPerPacket, 0.1, "at least one sleep per ten packets"),
            at_most(
                M::SleepsPerPacket,
                3.0,
                "a thread that polls for requests on a timer sleeps more often",
            ),
            at_most(M::WorkingThreads, 1.0, "no other thread works in the meantime"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::RateLimiter],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Some("the thread's own work, or the peer"),
        sentence: "Thread {thread} sleeps on a timer {on_timer} of the time, {sleeps_per_packet} \
                   sleeps per packet, while the peer waits for its reply.",
        fix: "Remove the sleep from the request path, or wait for the event instead (strace -f -e \
              nanosleep,clock_nanosleep -p {tid} shows each)",
        workaround: Some("more connections or threads, whose sleeps overlap"),
        wrong_if: "without the sleep, or with half of it, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::SoftwareChecksum,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::ChecksumOff, 1.0, "TX checksum offload is switched off"),
            at_least(M::SentBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_least(M::BytesPerSegment, 500.0, "the cost per byte has to matter"),
            at_least(M::KernelShare, 0.3, "the time has to be spent in the kernel"),
            at_least(M::Demand, 0.3, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::ChecksumTime, [1.0, 1.0, 1.0]),
        then_limited_by: Some("copying"),
        sentence: "TX checksum offload of {interface} is off (`tx`): checksums are computed in \
                   software, and therefore segmentation is done in software as well.",
        fix: "ethtool -K {interface} tx on tso on gso on",
        workaround: None,
        wrong_if: "with it on, the rate rises by less than 10 %, or csum_partial stays in the \
                   profile",
        measure: "ethtool -k",
    },
    Rule {
        cause: Cause::SoftwareChecksum,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::Checksum), 0.1, "a tenth of the samples"),
            at_most(M::ChecksumOff, 0.0, "with `tx` off, another rule names the interface"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::Checksum), [0.5, 0.9, 1.0]),
        then_limited_by: Some("copying"),
        sentence: "Thread {thread} spends {checksum} of its time computing checksums in the \
                   kernel.",
        fix: "ethtool -K IF rx on tx on, for the interface that the packets pass through",
        workaround: None,
        wrong_if: "with offloads on, csum_partial stays in the profile",
        measure: "kernel samples",
    },
    Rule {
        cause: Cause::NoSegmentation,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::SegmentationOff, 1.0, "tx-tcp-segmentation is off"),
            at_most(M::ChecksumOff, 0.0, "with `tx` off, the cause is checksums"),
            at_least(M::SentBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_least(M::BytesPerSegment, 500.0, "short packets are not segmented"),
            at_least(M::KernelShare, 0.3, "the time has to be spent in the kernel"),
            at_least(M::Demand, 0.3, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::SoftwareChecksum],
        gain: GainModel::CostRemoved(M::SegmentTime, [1.0, 1.0, 1.0]),
        then_limited_by: Some("copying"),
        sentence: "{interface} sends {bytes_per_segment}-byte segments individually: TCP \
                   segmentation offload is off.",
        fix: "ethtool -K {interface} tso on gso on, and gro on at the receiver",
        workaround: None,
        wrong_if: "with it on, the rate rises by less than 10 %",
        measure: "ethtool -k",
    },
    Rule {
        cause: Cause::ConnectionSetup,
        scope: Scope::Program,
        conditions: &[
            at_least(M::ConnectionsPerSecond, 200.0, "at 50 us each, a hundredth of a CPU"),
            at_most(M::SegmentsPerConnection, 30.0, "a connection with few requests"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::ConnectionTime, [1.0, 1.0, 1.0]),
        then_limited_by: Some("the requests themselves"),
        sentence: "{connections} connections are opened per second, {segments} segments each: most \
                   of the work is connection setup and teardown.",
        fix: "Keep connections open: keepalive at client and server, a connection pool",
        workaround: Some(
            "a longer listen queue (somaxconn) loses fewer connections; the cost \
                          stays the same",
        ),
        wrong_if: "with connections kept open, the rate rises by less than 10 %",
        measure: "Tcp.PassiveOpens in /proc/net/snmp",
    },
    Rule {
        cause: Cause::ConnectionSetup,
        scope: Scope::Program,
        conditions: &[
            at_least(M::CryptoLibrary, 0.3, "below that, most of the time is spent elsewhere"),
            at_most(M::BytesPerConnection, 100_000.0, "above that, encrypting the data matters"),
            at_least(
                M::ConnectionsPerSecond,
                10.0,
                "at 6 ms per RSA-4096 signature, a twentieth of a CPU",
            ),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::CryptoLibrary, [0.5, 0.9, 1.0]),
        then_limited_by: Some("the requests themselves"),
        sentence: "TLS handshakes: thread {thread} spends {crypto} of its time in crypto \
                   libraries, with {connections} connections per second of few bytes each.",
        fix: "Keep connections open (keepalive), resume TLS sessions (tickets), and use an ECDSA \
              P-256 key: an RSA-2048 signature takes some 25 times as long, RSA-4096 some 200 \
              times (openssl speed)",
        workaround: Some("more worker processes on other CPUs share the handshakes"),
        wrong_if: "with connections kept open, the rate rises by less than 10 %",
        measure: "openssl speed rsa4096 ecdsap256, and `openssl s_client -reconnect`",
    },
];
