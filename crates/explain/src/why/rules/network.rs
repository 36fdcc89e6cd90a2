// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes in the network and between the ends of a connection.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::{Condition, Next, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

const STALLED: &str = "twice the error of the times in TCP_INFO, which count kernel timer ticks (4 \
                       ms at 250 Hz)";
/// Threshold for the ratio of the peer's receive window to the bandwidth-delay product (rate times
/// minimum RTT): above it, the receiver reads too slowly; below it, the window is too small.
const WINDOW: f64 = 8.0;
const WINDOW_SOURCE: &str =
    "measured ratios are 0.8 to 1 with small buffers and 200 to 7000 with slow receivers";
const BUFFER_SOURCE: &str = "twice the threshold for the window, because the window is half of the \
                             buffer";
const BUSY_BYTES: f64 = 1e6;
const BUSY_BYTES_SOURCE: &str = "below 8 Mb/s, the effect is negligible";

/// Minimum rate, as a fraction of a limit, at which the limit is taken to hold the program back.
const FULL_RATE: f64 = 0.75;
const FULL_RATE_SOURCE: &str =
    "a limiter that is in effect passes its full rate, minus the counting error";
const AT_LIMIT: Condition = at_least(M::OfLimit, FULL_RATE, FULL_RATE_SOURCE);
const HELD_BACK: Condition = at_least(M::OverlimitsPerPacket, 0.1, "one packet in ten had to wait");

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
        then_limited_by: Next::Is("the sender's CPU, or the path"),
        sentence: "The receiver's window limited the TCP connections for {window_limited} of the \
                   time.",
        fix: "At the receiver, leave SO_RCVBUF unset and raise the maximum of net.ipv4.tcp_rmem, \
              or read faster",
        workaround: Some("use parallel connections, each with its own window"),
        wrong_if: "with a larger receive buffer, rwnd_limited in `ss -ti` does not fall",
        measure: "rwnd_limited in `ss -ti` at the sender",
    },
    Rule {
        cause: Cause::ReceiveWindow,
        scope: Scope::Connections,
        conditions: &[
            at_least(M::ReceivedBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_most(M::ReceiveBuffer, 65_536.0, "no room for one TSO segment (64 KiB)"),
            at_most(M::ReceiveBufferOfRate, 2.0 * WINDOW, BUFFER_SOURCE),
            at_most(M::Demand, 0.9, "the receiver has headroom"),
        ],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter],
        gain: GainModel::WindowOpened,
        then_limited_by: Next::Is("the sender, or the path"),
        sentence: "{socket} has a receive buffer of only {buffer}: the window is smaller than one \
                   TSO segment, so the sender has to wait.",
        fix: "Leave SO_RCVBUF unset, so that the kernel sizes the buffer, or set it to 4 MiB",
        workaround: Some("use parallel connections, each with its own window"),
        wrong_if: "with a buffer of 4 MiB, the rate rises by less than 10 %",
        measure: "rwnd_limited in `ss -ti` at the sender",
    },
    Rule {
        cause: Cause::SlowReceiver,
        scope: Scope::Program,
        conditions: &[
            at_least(M::WindowLimited, 0.05, STALLED),
            at_least(M::PeerWindow, WINDOW, WINDOW_SOURCE),
        ],
        symptoms: 1,
        explained_by: &[Cause::RateLimiter, Cause::SoftwareChecksum, Cause::NoSegmentation],
        gain: GainModel::StallRemoved(M::WindowLimited),
        then_limited_by: Next::Is("the sender's CPU, or the path"),
        sentence: "The receiver reads more slowly than the program sends: its window \
                   ({peer_window}) was full {window_limited} of the time.",
        fix: "Diagnose the receiver: {watch_peer}",
        workaround: Some("a larger receive buffer only postpones the stall"),
        wrong_if: "Recv-Q in `ss -tn` at the receiver is 0 most of the time",
        measure: "Recv-Q in `ss -tn` at the receiver",
    },
    Rule {
        cause: Cause::SendBuffer,
        scope: Scope::Program,
        conditions: &[at_least(M::SendBufferLimited, 0.05, STALLED)],
        symptoms: 0,
        explained_by: &[Cause::RateLimiter, Cause::ReceiveWindow, Cause::SlowReceiver],
        gain: GainModel::StallRemoved(M::SendBufferLimited),
        then_limited_by: Next::Is("the receiver, or the path"),
        sentence: "The program's send buffer limited the TCP connections for {send_limited} of the \
                   time.",
        fix: "Leave SO_SNDBUF unset in the program, and raise the maximum of net.ipv4.tcp_wmem",
        workaround: Some("use parallel connections, each with its own buffer"),
        wrong_if: "with a larger send buffer, sndbuf_limited in `ss -ti` does not fall",
        measure: "sndbuf_limited in `ss -ti`",
    },
    Rule {
        cause: Cause::TcpLoss,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::Resent,
                0.005,
                "at this loss rate and an RTT of 1 ms, TCP stays below 250 Mb/s (Mathis et al., \
                 1997)",
            ),
            at_most(M::Demand, 0.9, "a thread at 100 % is itself the bottleneck"),
            at_most(
                M::AppLimited,
                0.5,
                "above that, the sender often has nothing more to send, and losses do not limit \
                 it; time spent waiting for a retransmission timeout (200 ms each) does not count",
            ),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::RateLimiter,
            Cause::PathBandwidth,
            Cause::BacklogOverflow,
            Cause::RingOverflow,
        ],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the path, or the thread's CPU"),
        sentence: "Segments are lost in transit: TCP retransmitted {resent} of all segments sent, \
                   and slows down at each loss.{loss_place}",
        fix: "Find out where segments are dropped on the path: at both ends, check tc -s qdisc (a \
              full queue or a policer), nft list ruleset, ip -s -s link and ethtool -S",
        workaround: Some("BBR (net.ipv4.tcp_congestion_control) backs off less on loss"),
        wrong_if: "without retransmissions (retrans in `ss -ti`), the rate rises by less than 10 %",
        measure: "retrans in `ss -ti`",
    },
    Rule {
        cause: Cause::PathBandwidth,
        scope: Scope::Program,
        conditions: &[
            at_least(M::QueueingDelay, 5.0, "shorter delays may come from the hosts"),
            at_least(
                M::RoundTripGrowth,
                2.0,
                "at twice the minimum RTT, the queue holds as much data as the rest of the path, \
                 and does not run empty when TCP backs off",
            ),
            at_most(M::Demand, 0.9, "a thread at 100 % is itself the bottleneck"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::RateLimiter,
            Cause::ReceiveWindow,
            Cause::SlowReceiver,
            Cause::SendBuffer,
            Cause::CpuContention,
            Cause::BacklogOverflow,
            Cause::InterruptLoad,
        ],
        gain: GainModel::Unknown("the bandwidth of the next link is unknown"),
        then_limited_by: Next::Is("the next link, or the thread's CPU"),
        sentence: "The slowest link on the path limits connection {bulk} to {bulk_rate}: packets \
                   queue there, so a round trip takes {bulk_rtt} instead of {bulk_min_rtt}.",
        fix: "Give the slowest link more bandwidth: find it with mtr {bulk_peer} (the first hop \
              whose round trip rises), and look for a shaper (tc -s qdisc) or for other traffic \
              there",
        workaround: Some(
            "a shorter queue at that link (fq_codel, cake), or BBR at the sender, lowers the delay \
             of all traffic on it, but does not shorten this transfer",
        ),
        wrong_if: "a ping to the peer takes just as long while the connection is idle",
        measure: "rtt and minrtt in `ss -ti`",
    },
    Rule {
        cause: Cause::NagleDelay,
        scope: Scope::Connections,
        conditions: &[
            at_least(M::Held, 0.3, "otherwise the wait is not the bottleneck"),
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
        ],
        symptoms: 0,
        // A faster reply only makes the client queue for the lock sooner.
        explained_by: &[Cause::UserLock],
        gain: GainModel::OfConnections(&GainModel::StallRemoved(M::Held), M::Held, 0.3),
        then_limited_by: Next::Is("the peer, or the program's own CPU"),
        sentence: "Connection {connection} spends {held} of the time holding back small segments \
                   until earlier ones are acknowledged (Nagle's algorithm); the peer delays its \
                   ACKs by up to 40 ms.",
        fix: "Set TCP_NODELAY, or write each message with one call (writev, MSG_MORE)",
        workaround: Some("at the receiver, set TCP_QUICKACK again after each read"),
        wrong_if: "with TCP_NODELAY, the rate rises by less than 10 %",
        measure: "notsent and unacked in `ss -ti`",
    },
    Rule {
        cause: Cause::NagleDelay,
        scope: Scope::Connections,
        conditions: &[
            at_least(M::Corked, 0.3, "otherwise the wait is not the bottleneck"),
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::OfConnections(&GainModel::StallRemoved(M::Corked), M::Corked, 0.3),
        then_limited_by: Next::Is("the peer, or the program's own CPU"),
        sentence: "Connection {connection} spends {corked} of the time holding back a small \
                   segment with no other segment in flight: the program requested this with \
                   TCP_CORK or MSG_MORE, and the kernel waits for up to 200 ms.",
        fix: "Clear TCP_CORK after each message (or send its last part without MSG_MORE)",
        workaround: None,
        wrong_if: "without TCP_CORK, the rate rises by less than 10 %",
        measure: "notsent and unacked in `ss -ti`",
    },
    Rule {
        cause: Cause::RateLimiter,
        scope: Scope::Connections,
        conditions: &[at_least(M::OfPacingLimit, FULL_RATE, FULL_RATE_SOURCE)],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::OfConnections(&GainModel::UntilCpuIsFull, M::OfPacingLimit, FULL_RATE),
        then_limited_by: Next::Is("the thread's CPU, or the path"),
        sentence: "The program limits connection {connection} to {pacing_limit} \
                   (SO_MAX_PACING_RATE), and sends at {of_pacing_limit} of that limit.",
        fix: "Raise SO_MAX_PACING_RATE in the program, or do not set it; if the limit is intended, \
              pass it as the line rate: linerate why {line_option}",
        workaround: Some("use parallel connections, each with its own limit"),
        wrong_if: "without the limit, the rate rises by less than 10 %",
        measure: "the second value of pacing_rate in `ss -ti`",
    },
    Rule {
        cause: Cause::RateLimiter,
        scope: Scope::Qdiscs,
        conditions: &[
            AT_LIMIT,
            HELD_BACK,
            at_least(
                M::OwnTraffic,
                0.3,
                "below that, it is mostly other programs' traffic that reaches the limit",
            ),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::LimitRaised,
        then_limited_by: Next::Is("the thread's CPU, or the path"),
        sentence: "The {qdisc} qdisc on {interface} limits the rate to {limit}, and held packets \
                   back {overlimits} times; the traffic through it is at {of_limit} of that limit.",
        fix: "Raise the rate of the qdisc, or remove the qdisc: {remove_qdisc}; if the limit is \
              intended, pass it as the line rate: linerate why \
              {line_option}",
        workaround: None,
        wrong_if: "without the limit, the rate rises by less than 10 %",
        measure: "tc -s qdisc",
    },
    Rule {
        cause: Cause::RateLimiter,
        scope: Scope::Qdiscs,
        conditions: &[
            AT_LIMIT,
            HELD_BACK,
            at_least(M::OwnTraffic, 1e-4, "the program sends through this interface"),
            at_most(M::OwnTraffic, 0.2, "the program's own traffic is far below the limit"),
            at_least(
                M::FifoBehind,
                1.0,
                "with fair queueing, the program's packets would not wait behind others",
            ),
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the offered load, or the path"),
        sentence: "Other programs fill the {qdisc} qdisc on {interface}, which limits the rate to \
                   {limit}: the packets of {program} ({own_traffic} of the bytes) wait behind \
                   theirs.",
        fix: "Keep the program's packets out of the shared queue: use a separate class (htb, \
              prio), or a fair-queueing qdisc (fq_codel) instead of a FIFO; or raise the rate of \
              the qdisc",
        workaround: Some("slowing down the other programs shortens the queue"),
        wrong_if: "without the other programs' traffic, the rate rises by less than 10 %",
        measure: "tc -s qdisc",
    },
    Rule {
        cause: Cause::SoftwareChecksum,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::ChecksumOff, 1.0, "TX checksum offload is switched off"),
            at_least(M::SentBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_least(M::OwnThrough, 0.5, "most of the program's bytes pass through this interface"),
            at_least(
                M::BytesPerSegment,
                500.0,
                "the per-byte cost of smaller segments is negligible",
            ),
            at_least(M::KernelShare, 0.3, "below that, the kernel is not the main cost"),
            at_least(M::Demand, 0.3, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::ChecksumTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("copying"),
        sentence: "TX checksum offload (tx-checksumming) is off on {interface}: checksums and \
                   segmentation are done in software.",
        fix: "{as_root} ethtool -K {interface} tx on tso on gso on",
        workaround: None,
        wrong_if: "with the offload on, the rate rises by less than 10 %, or csum_partial stays in \
                   the profile",
        measure: "ethtool -k",
    },
    Rule {
        cause: Cause::SoftwareChecksum,
        scope: Scope::Threads,
        conditions: &[at_least(M::Functions(Group::Checksum), 0.1, "10 % of the samples")],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::Checksum), [0.5, 0.9, 1.0]),
        then_limited_by: Next::Is("copying"),
        sentence: "Thread {thread} spends {checksum} of its time computing checksums in the \
                   kernel.",
        fix: "{as_root} ethtool -K IF rx on tx on, for the interface the packets pass through",
        workaround: None,
        wrong_if: "with offloads on, csum_partial stays in the profile",
        measure: "kernel samples",
    },
    Rule {
        cause: Cause::NoSegmentation,
        scope: Scope::Interfaces,
        conditions: &[
            at_least(M::SegmentationOff, 1.0, "tx-tcp-segmentation is off"),
            at_most(
                M::ChecksumOff,
                0.0,
                "with tx-checksumming off, the cause is software_checksum",
            ),
            at_least(M::SentBytes, BUSY_BYTES, BUSY_BYTES_SOURCE),
            at_least(M::OwnThrough, 0.5, "most of the program's bytes pass through this interface"),
            at_least(M::BytesPerSegment, 500.0, "short packets are not segmented"),
            at_least(M::KernelShare, 0.3, "below that, the kernel is not the main cost"),
            at_least(M::Demand, 0.3, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::SoftwareChecksum, Cause::SmallSegments],
        gain: GainModel::CostRemoved(M::SegmentTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("copying"),
        sentence: "The kernel passes {bytes_per_segment}-byte segments to {interface} one by one, \
                   because TCP segmentation offload is off.",
        fix: "{as_root} ethtool -K {interface} tso on gso on, and gro on at the receiver",
        workaround: None,
        wrong_if: "with the offload on, the rate rises by less than 10 %",
        measure: "ethtool -k",
    },
    Rule {
        cause: Cause::ConnectionSetup,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::ConnectionsPerSecond,
                200.0,
                "at 50 us per connection, this is 1 % of a CPU",
            ),
            at_most(M::SegmentsPerConnection, 30.0, "few requests per connection"),
            at_least(
                M::ConnectionTime,
                0.03,
                "3 % of the CPU time, even at the lowest cost per connection",
            ),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::ChildProcesses, Cause::ThunderingHerd],
        gain: GainModel::CostRemoved(M::ConnectionTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the requests themselves"),
        sentence: "{connections} connections are opened per second, with {segments} segments each: \
                   opening and closing them takes about {connection_time} of the CPU time.",
        fix: "Keep connections open, using keepalive at both ends or a connection pool",
        workaround: Some(
            "a longer listen queue (somaxconn) loses fewer connections; the cost \
                          stays the same",
        ),
        wrong_if: "with connections kept open, the rate rises by less than 10 %",
        measure: "TcpPassiveOpens in `nstat`",
    },
    Rule {
        cause: Cause::ConnectionSetup,
        scope: Scope::Program,
        conditions: &[
            at_least(M::Crypto, 0.3, "below that, most of the time is spent elsewhere"),
            at_most(M::BytesPerConnection, 100_000.0, "above that, bulk encryption matters"),
            at_least(
                M::ConnectionsPerSecond,
                10.0,
                "at 6 ms per RSA-4096 signature, this is 6 % of a CPU",
            ),
            at_most(M::Hashes, 0.5, "above that, the program may be hashing passwords"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::ChildProcesses, Cause::ThunderingHerd],
        gain: GainModel::CostRemoved(M::Crypto, [0.5, 0.9, 1.0]),
        then_limited_by: Next::Is("the requests themselves"),
        sentence: "Thread {thread} spends {in_crypto} of its time in cryptographic functions, \
                   probably for TLS handshakes: {connections} connections are opened per second, \
                   and each carries few bytes.",
        fix: "Keep connections open (keepalive), resume TLS sessions (tickets), and use an ECDSA \
              P-256 key: an RSA-2048 signature takes about 25 times as long, an RSA-4096 signature \
              about 200 times (openssl speed)",
        workaround: Some("more worker processes on other CPUs share the handshakes"),
        wrong_if: "with connections kept open, the rate rises by less than 10 %",
        measure: "openssl speed rsa4096 ecdsap256, and `openssl s_client -reconnect`",
    },
    Rule {
        cause: Cause::ThunderingHerd,
        scope: Scope::Program,
        conditions: &[
            at_least(M::HerdThreads, 8.0, "fewer threads cost little"),
            at_least(
                M::HerdSleeps,
                1.0,
                "a thread that is woken for work handles several segments",
            ),
            at_most(M::SegmentsPerConnection, 30.0, "above that, most wake-ups have other reasons"),
            at_least(M::HerdPerConnection, 0.5, "each connection wakes half of the threads"),
            at_least(M::HerdTime, 0.03, "3 % of the CPU time, even at the lowest cost"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::ChildProcesses],
        gain: GainModel::CostRemoved(M::HerdTime, [0.5, 1.0, 1.2]),
        then_limited_by: Next::Is("the requests themselves"),
        sentence: "{herd} threads or processes wait for connections and together wake up \
                   {herd_sleeps} times per received TCP segment, competing for CPUs: each \
                   connection wakes most of them, but only one accepts it. The other wake-ups \
                   take about {herd_time} of the CPU time.",
        fix: "Wake only one thread or process per connection: use EPOLLEXCLUSIVE, accept in one \
              thread, or give each its own listening socket (SO_REUSEPORT)",
        workaround: Some("run as many threads or processes as CPUs"),
        wrong_if: "with a quarter of the threads or processes, the rate rises by less than 10 %",
        measure: "context switches per accepted connection: `pidstat -w` and TcpPassiveOpens in \
                  `nstat`",
    },
];
