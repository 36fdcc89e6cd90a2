// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that packets do not need: system calls for other purposes, optional parts of the kernel,
//! threads that end at once, and segments or windows that are smaller than need be.

use super::super::called::MOST_CALLS;
use super::super::gain::GainModel;
use super::super::measure::{Measure as M, PENDING};
use super::{Condition, KERNEL_SAMPLES, Next, PENDING_SOURCE, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

const FULL: Condition =
    at_least(M::Saturation, 0.85, "fully busy, within the 10 % error of kernel accounting");
const MAKES_MOST: Condition = at_least(
    M::OfCalls,
    MOST_CALLS,
    "calls are counted by name over all threads, so this one has to make most of them",
);
const BUSY: Condition = at_least(M::Demand, 0.5, "below that, the effect is negligible");
const MANY_CALLS: Condition =
    at_least(M::CallsPerSecond, 10_000.0, "at 0.3 us per call, this is 0.3 % of a CPU");
const CALLS: &str = "the system calls by name, with `strace -f -c -p PID`, or as root";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Program,
        conditions: &[
            at_least(M::KernelShare, 0.4, "40 % of the CPU time"),
            FULL,
            MANY_CALLS,
            at_least(M::OtherCalls, 0.5, "half of the calls"),
            MAKES_MOST,
        ],
        symptoms: 0,
        explained_by: &[Cause::BriefThreads, Cause::ConnectionSetup],
        gain: GainModel::CostRemoved(M::OtherCallTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the calls that pass packets"),
        sentence: "{program} {other_calls}. Thread {thread} spends {kernel} of its CPU time in the \
                   kernel.",
        fix: "{other_calls_fix}",
        workaround: None,
        wrong_if: "without these calls, the rate rises by less than 10 %",
        measure: CALLS,
    },
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Program,
        conditions: &[
            at_least(M::KernelShare, 0.4, "40 % of the CPU time"),
            BUSY,
            MANY_CALLS,
            at_least(M::CallsPerPacket, 10.0, "a request and its reply take fewer calls"),
            at_least(M::BytesPerRead, 0.9, "below that, many reads find no data"),
            at_most(M::BytesPerRead, 16.0, "a request is larger than that"),
            MAKES_MOST,
        ],
        symptoms: 0,
        explained_by: &[Cause::BriefThreads],
        gain: GainModel::CostRemoved(M::ReadTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the rest of the thread's work"),
        sentence: "{program} reads a few bytes at a time: each read call returns \
                   {bytes_per_read} bytes on average, and the program makes {calls} per packet. \
                   Thread {thread} spends {kernel} of its CPU time in the kernel.",
        fix: "Read into a buffer of 4 KiB or more, and take the bytes from there (a buffered \
              reader: fdopen, BufReader, bufio)",
        workaround: None,
        wrong_if: "with 4 KiB per read, the rate rises by less than 20 %",
        measure: CALLS,
    },
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, "40 % of the CPU time"),
            FULL,
            at_least(M::FileCalls, 0.5, "one call per two datagrams"),
        ],
        symptoms: 0,
        explained_by: &[Cause::BriefThreads, Cause::KernelOverhead],
        gain: GainModel::CostRemoved(M::FileCallTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the calls that pass packets"),
        sentence: "Thread {thread} reads or writes files, pipes or devices as well as its sockets \
                   (about {file_calls} calls per datagram), and spends {kernel} of its CPU time \
                   in the kernel.",
        fix: "See which calls these are (strace -f -c -p {pid}, or sudo linerate why {pid}), and \
              remove them from the path of each packet: keep files open, write logs in blocks, ask \
              for random numbers with getrandom",
        workaround: None,
        wrong_if: "without these calls, the rate rises by less than 10 %",
        measure: CALLS,
    },
    Rule {
        cause: Cause::KernelOverhead,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelPart, 0.18, "20 % of the samples, minus their error"),
            BUSY,
            at_least(M::Pending, PENDING, PENDING_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::KernelPartTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the rest of the kernel's work per packet"),
        sentence: "Thread {thread} spends {kernel_part} of its time in {kernel_part_does} \
                   ({kernel_part_functions}).",
        fix: "{kernel_part_fix}",
        workaround: None,
        wrong_if: "these functions disappear from the profile, but the rate rises by less than \
                   10 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::BriefThreads,
        scope: Scope::Program,
        conditions: &[
            at_least(M::BriefThreadsCpus, 0.1, "up to 0.06 even without short-lived threads"),
            at_least(M::BriefThreadsShare, 0.3, "below that, most work is done by other threads"),
            at_least(M::Demand, 0.7, "below that, even the busiest thread has headroom"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::ChildProcesses],
        gain: GainModel::CostRemoved(M::BriefThreadsTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the work that these threads did"),
        sentence: "{program} starts threads that end soon after, perhaps one per packet or \
                   connection: they use {brief_cpus} CPUs, {brief_share} of its CPU time, and \
                   thread {thread} needs a CPU {demand} of the time.",
        fix: "Keep a fixed number of threads and pass the work to them (a thread pool), or handle \
              it in the thread that receives it",
        workaround: Some("small stacks (pthread_attr_setstacksize) make each start cheaper"),
        wrong_if: "`strace -f -c -e trace=clone,clone3 -p {pid}` counts fewer than 1000 calls per \
                   second",
        measure: "the number of threads started, with `strace -f -c -e trace=clone,clone3 -p PID`",
    },
    Rule {
        cause: Cause::ProcessingCost,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::OwnFunction, 0.2, "20 % of the samples in a single function"),
            FULL,
            at_most(M::Waiting, 0.15, "above that, the cause is cpu_contention"),
            at_least(M::PacketRate, 1.0, "packets must be flowing"),
            at_least(M::Pending, PENDING, PENDING_SOURCE),
            at_least(M::KernelShare, 0.4, "below that, the program's work as a whole dominates"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::SingleThread,
            Cause::CpuContention,
            Cause::CpuQuota,
            Cause::StolenCpu,
            Cause::InterruptLoad,
            Cause::KernelOverhead,
            Cause::BriefThreads,
            Cause::PageFaults,
            Cause::CacheMisses,
            Cause::FalseSharing,
            Cause::UserLock,
        ],
        gain: GainModel::CostRemoved(M::OwnFunction, [0.0, 0.8, 1.3]),
        then_limited_by: Next::Is("the kernel's work per packet"),
        sentence: "Thread {thread} spends {own_function_share} of its time in one function of the \
                   program, {own_function}; the kernel takes {kernel} of the thread's CPU time.",
        fix: "Look at that function first: linerate profile {pid} shows its callers and hot \
              lines; a lookup whose time depends on the number of entries may have degenerated (a \
              hash that puts all keys into one chain, a linear search)",
        workaround: None,
        wrong_if: "with the function replaced by a stub, the rate rises by less than 10 %",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::ConnectionSetup,
        scope: Scope::Program,
        conditions: &[
            at_least(M::Crypto, 0.6, "most of the CPU time"),
            at_most(M::BytesPerConnection, 100_000.0, "above that, bulk encryption matters"),
            at_most(M::SegmentsPerConnection, 30.0, "few requests per connection"),
            at_least(
                M::HandshakeMs,
                1.0,
                "a handshake with ECDSA P-256 takes 0.2 ms, and one that resumes a session less",
            ),
            at_most(M::Hashes, 0.5, "above that, the program may be hashing passwords"),
            at_least(M::Demand, 0.3, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::ChildProcesses],
        // Nothing is gained if no client waits for its handshake.
        gain: GainModel::CostRemoved(M::Crypto, [0.0, 0.9, 1.08]),
        then_limited_by: Next::Is("the requests themselves, or the offered load"),
        sentence: "Thread {thread} spends {in_crypto} of its CPU time in cryptographic functions: \
                   {connections} connections are opened per second, and each takes \
                   {handshake} of CPU time, {as_handshakes}. Clients that open a connection per \
                   request wait that long each time.",
        fix: "Resume TLS sessions (ssl_session_cache and ssl_session_tickets of nginx, and a \
              client that keeps the session), keep connections open, and use an ECDSA P-256 key \
              with X25519: an RSA-4096 signature takes about 200 times as long (openssl speed)",
        workaround: Some("more worker processes on other CPUs share the handshakes"),
        wrong_if: "`openssl s_time -reuse` makes no more connections per second than \
                   `openssl s_time -new`",
        measure: "openssl speed rsa4096 ecdsap256 ecdsap384, and `openssl s_time`",
    },
    Rule {
        cause: Cause::SmallSegments,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::SmallSegments,
                0.5,
                "segments fill at most half of the MTU (or of 1500 bytes, if less); tunnel \
                 headers take less than 10 %",
            ),
            at_least(M::Demand, 0.5, "below that, the work per segment is not the limit"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::RateLimiter,
            Cause::ReceiveWindow,
            Cause::PathBandwidth,
            Cause::TcpLoss,
            Cause::CongestionWindow,
        ],
        gain: GainModel::CostRemoved(M::SmallSegments, [0.3, 0.9, 1.0]),
        then_limited_by: Next::Is("the work per byte, or the path"),
        sentence: "TCP sends segments of {mss} bytes, although the interface and usual paths have \
                   room for {full_mss}: this takes {mss_factor} times as many segments as \
                   necessary.",
        fix: "Find what lowers the segment size (ss -ti shows pmtu and advmss): advmss or mtu of \
              the route (ip route get PEER), the MTU at the peer (its SYN announces the MSS), a \
              rule that clamps the MSS (nft: tcp option maxseg; iptables: TCPMSS), TCP_MAXSEG in \
              either program, or net.ipv4.tcp_mtu_probing after lost large packets",
        workaround: None,
        wrong_if: "with segments of the size that the MTU allows, the rate rises by less than 20 %",
        measure: "mss and pmtu in `ss -ti`",
    },
    Rule {
        cause: Cause::CongestionWindow,
        scope: Scope::Program,
        conditions: &[
            at_least(M::RoundTripMs, 1.0, "below that, a small window is enough"),
            at_least(M::WindowOfRate, 0.8, "the rate is what the window allows"),
            at_most(M::WindowOfRate, 1.25, "the rate is what the window allows"),
            at_most(
                M::WindowOfRoundTrips,
                0.5,
                "congestion control adds at least one segment per round trip without a loss",
            ),
            at_most(M::SteadyRoundTrip, 1.2, "no queue on the path"),
            at_most(M::RetransmittedByBusiest, 0.0, "a loss makes the window smaller"),
            at_most(M::CongestionMarks, 0.0, "a mark also makes the window smaller"),
            at_most(M::AppLimited, 0.1, "the sender always has data to send"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::RateLimiter,
            Cause::ReceiveWindow,
            Cause::SlowReceiver,
            Cause::SendBuffer,
        ],
        gain: GainModel::LimitRaised,
        then_limited_by: Next::Is("the path, or the receiver's window"),
        sentence: "The congestion window limits the rate to {cwnd} segments per round trip of \
                   {rtt}. In {round_trips} round trips, no segment was lost or marked (ECN) and no \
                   queue built up, so the window should have grown further: it is probably \
                   clamped.",
        fix: "Remove the clamp: cwnd of the route (ip route show; `cwnd lock N`), a BPF program or \
              congestion control with a fixed window (net.ipv4.tcp_congestion_control, ss -ti), or \
              TCP_WINDOW_CLAMP in the program",
        workaround: Some("use parallel connections, each with its own window"),
        wrong_if: "cwnd in `ss -ti` grows over a minute of steady sending",
        measure: "cwnd in `ss -ti` over time",
    },
];
