// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules as data. A rule precedes the rules whose evidence it explains.

pub use super::rule::{Condition, Rule};

use super::measure::{DELIVERED, Measure as M};
use super::shared::{
    ALL_STOPS, BOUND, BY_BUFFER, DELIVERS, FULL, IDLE, LOST, PAUSED, RATE, STOPS, STOPS_AND_COSTS,
    TICKS, TURNS, UNSHAPED, WINDOW,
};
use crate::rule::{at_least, at_most};
use linerate_record::why::Cause;

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        cause: Cause::RateLimiter,
        limited_by: "rate_limit",
        conditions: &[at_least(M::OfPacing, 0.75, RATE)],
        explained_by: &[],
        is_swept: false,
        sentence: "The sender paces itself at {pacing}, and the stream reaches {gbps}.",
        fix: "Raise or omit --rate; in a program, raise SO_MAX_PACING_RATE",
        wrong_if: "with twice the pacing rate, the throughput stays the same",
    },
    Rule {
        cause: Cause::RateLimiter,
        limited_by: "rate_limit",
        conditions: &[at_least(M::OfQdisc, 0.75, RATE), at_most(M::OfQdisc, 1.1, UNSHAPED)],
        explained_by: &[],
        is_swept: false,
        sentence: "The queueing discipline on {interface}{where} limits the stream to {qdisc}, and \
                   the stream reaches {gbps}.",
        fix: "tc qdisc change dev {interface} with a higher rate, or tc qdisc del dev {interface} \
              root{where}",
        wrong_if: "without the limit, the throughput stays the same",
    },
    Rule {
        cause: Cause::RateLimiter,
        limited_by: "rate_limit",
        conditions: &[
            at_least(M::OfQdisc, 0.5, "the rest goes into retransmissions"),
            at_most(M::OfQdisc, 1.1, UNSHAPED),
            at_least(M::Retransmitted, 0.001, "a limiter whose queue is full drops packets"),
        ],
        explained_by: &[],
        is_swept: false,
        sentence: "The queueing discipline on {interface}{where} limits the stream to {qdisc}, and \
                   drops the excess: {retransmitted} of the segments were retransmitted, and the \
                   stream reaches {gbps}.",
        fix: "tc qdisc change dev {interface} with a higher rate or limit, or tc qdisc del dev \
              {interface} root{where}",
        wrong_if: "without the limit, the throughput stays the same",
    },
    Rule {
        cause: Cause::SocketBuffer,
        limited_by: "receive_buffer",
        conditions: &[
            at_least(M::BufferDrops, 0.001, LOST),
            at_most(M::DropsLeft, 0.5, BY_BUFFER),
            at_most(M::DeliveredAtFullLoad, DELIVERED, DELIVERS),
        ],
        explained_by: &[],
        is_swept: true,
        sentence: "{drops} of {sent} datagrams were dropped because the receiver's buffer \
                   ({receive_buffer}) was full.",
        fix: "Raise SO_RCVBUF, and net.core.rmem_max if that caps it; or send more slowly \
              (--rate), or receive in batches (recvmmsg)",
        wrong_if: "with a buffer four times as large, the loss stays the same",
    },
    Rule {
        cause: Cause::BacklogOverflow,
        limited_by: "receive_buffer",
        conditions: &[
            at_least(M::LostInTransit, 0.001, LOST),
            at_least(
                M::IsLocal,
                1.0,
                "with both ends on this machine, only the per-CPU backlog drops datagrams",
            ),
        ],
        explained_by: &[Cause::RateLimiter],
        is_swept: false,
        sentence: "{lost} of {sent} datagrams were lost between the sender and the receiver's \
                   socket.",
        fix: "Raise net.core.netdev_max_backlog (sysctl), or send more slowly (--rate)",
        wrong_if: "column 2 of /proc/net/softnet_stat does not grow",
    },
    Rule {
        cause: Cause::ReceiveWindow,
        limited_by: "receive_window",
        conditions: &[
            at_least(M::Retransmitted, 0.001, LOST),
            at_least(M::ReceiverDropped, 0.5, "most of the loss"),
        ],
        explained_by: &[Cause::RateLimiter],
        is_swept: true,
        sentence: "The receiver's buffer ({receive_buffer}) overflowed: its socket dropped \
                   segments, and {retransmitted} of all segments were retransmitted.",
        fix: "At the receiver, leave SO_RCVBUF unset and raise the maximum of net.ipv4.tcp_rmem",
        wrong_if: "with a larger receive buffer, nstat shows the same TcpExtTCPRcvQDrop and \
                   TcpRetransSegs",
    },
    Rule {
        cause: Cause::TcpLoss,
        limited_by: "congestion_window",
        conditions: &[at_least(M::Retransmitted, 0.001, LOST)],
        explained_by: &[Cause::RateLimiter, Cause::ReceiveWindow],
        is_swept: false,
        sentence: "{retransmitted} of the segments were retransmitted: TCP slows down on each \
                   loss.",
        fix: "Find where segments are lost: linerate why --iface {interface}, ip -s -s link and \
              ethtool -S at both ends",
        wrong_if: "nstat shows no TcpRetransSegs during the measurement",
    },
    Rule {
        cause: Cause::NagleDelay,
        limited_by: "round_trip",
        conditions: &[
            at_least(M::IsRequest, 1.0, "a one-way stream always has more data to fill a segment"),
            at_least(M::HeldBack, 0.3, "otherwise the wait is not the bottleneck"),
            at_most(M::Cpu, 0.7, IDLE),
        ],
        explained_by: &[],
        is_swept: false,
        sentence: "Each request waits for a delayed acknowledgement: in {held_back} of the \
                   readings, the last segment of a request was held back (Nagle), and a round trip \
                   takes {round_trip}.",
        fix: "Set TCP_NODELAY (--nodelay), or write each request with one call (writev, MSG_MORE)",
        wrong_if: "with --nodelay, the round trip stays the same",
    },
    Rule {
        cause: Cause::TimerSleep,
        limited_by: "sender_pause",
        conditions: &[
            at_least(M::SenderPaused, 0.3, PAUSED),
            at_most(M::WindowLimited, 0.05, TICKS),
        ],
        explained_by: &[Cause::RateLimiter],
        is_swept: false,
        sentence: "The sender spends {sender_paused} of the time asleep between messages, and TCP \
                   waits for it.",
        fix: "Write more per wake-up, or remove the sleep (--write-pause)",
        wrong_if: "with half the pause, the throughput stays the same",
    },
    Rule {
        cause: Cause::TimerSleep,
        limited_by: "sender_pause",
        conditions: &[at_least(M::SenderPaused, 0.3, PAUSED), at_most(M::BufferDrops, 0.001, LOST)],
        explained_by: &[Cause::RateLimiter],
        is_swept: false,
        sentence: "The sender spends {sender_paused} of the time asleep between datagrams.",
        fix: "Send more per wake-up (sendmmsg), or remove the sleep (--write-pause)",
        wrong_if: "with half the pause, the throughput stays the same",
    },
    Rule {
        cause: Cause::SlowReceiver,
        limited_by: "receiver_pause",
        conditions: &[
            at_least(M::ReceiverPaused, 0.3, PAUSED),
            at_least(M::WindowLimited, 0.05, TICKS),
        ],
        explained_by: &[],
        is_swept: false,
        sentence: "The receiver spends {receiver_paused} of the time asleep between reads, so its \
                   window keeps the sender waiting {window_limited} of the time.",
        fix: "Remove the sleep (--read-pause), or read more per call; a larger buffer only delays \
              the stall",
        wrong_if: "with a larger receive buffer, the throughput rises",
    },
    Rule {
        cause: Cause::SlowReceiver,
        limited_by: "receiver_pause",
        conditions: &[
            at_least(M::ReceiverPaused, 0.3, PAUSED),
            at_least(M::BufferDrops, 0.001, LOST),
            at_least(M::DropsLeft, 0.5, BY_BUFFER),
        ],
        explained_by: &[],
        is_swept: false,
        sentence: "The receiver spends {receiver_paused} of the time asleep between reads, and \
                   {drops} of {sent} datagrams were dropped at its buffer ({receive_buffer}); with \
                   other buffer sizes, the loss is about the same.",
        fix: "Remove the sleep (--read-pause), or read more per wake-up (recvmmsg)",
        wrong_if: "without the sleep, the loss stays the same",
    },
    Rule {
        cause: Cause::CpuContention,
        limited_by: "cpu",
        conditions: &[
            at_least(M::SameCpu, 1.0, "sender and receiver are confined to the same CPU"),
            at_least(M::BothDemand, 0.85, FULL),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "Both ends share CPU {cpu}: the sender used {sender_cpu} and the receiver \
                   {receiver_cpu} of it.",
        fix: "Run the sender and the receiver on different CPUs: --cpus 0,1, or taskset for each \
              program",
        wrong_if: "on two CPUs, the throughput stays the same",
    },
    Rule {
        cause: Cause::SoftwareChecksum,
        limited_by: "cpu",
        conditions: &[
            at_least(M::SoftwareChecksum, 1.0, "TX checksum offload is switched off"),
            at_least(
                M::SegmentBytes,
                500.0,
                "for smaller segments, the cost per byte hardly matters",
            ),
            at_least(M::Demand, 0.85, FULL),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "Checksums are computed in software (tx-checksumming is off on \
                   {interface}{where}), which also disables segmentation offload; the {busier} \
                   uses {busier_cpus}.",
        fix: "ethtool -K {interface} tx on tso on gso on{where}",
        wrong_if: "with TX checksum offload on, the throughput rises by less than 10 %",
    },
    Rule {
        cause: Cause::ReceiveWindow,
        limited_by: "receive_window",
        conditions: &[
            at_least(M::WindowLimited, 0.05, TICKS),
            at_most(
                M::WindowScaling,
                0.0,
                "a window above 64 KiB needs window scaling at both ends",
            ),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "Window scaling is off, so windows are at most 64 KiB (largest: {window}); they \
                   kept the sender waiting {window_limited} of the time.",
        fix: "sysctl -w net.ipv4.tcp_window_scaling=1 at both ends, and look for a firewall that \
              strips the option",
        wrong_if: "with scaling on, rwnd_limited in `ss -ti` stays the same",
    },
    Rule {
        cause: Cause::SendBuffer,
        limited_by: "send_buffer",
        conditions: &[
            at_least(M::SendBufferLimited, 0.05, TICKS),
            at_least(
                M::SendBufferOverWindow,
                1.0,
                "the send buffer limits the sender for longer than the receiver's window does",
            ),
        ],
        explained_by: STOPS,
        is_swept: true,
        sentence: "The send buffer ({send_buffer}) limited the sender {send_buffer_limited} of the \
                   time; the bandwidth-delay product of a connection is {bdp}.",
        fix: "Leave SO_SNDBUF unset and raise the maximum of net.ipv4.tcp_wmem, or set SO_SNDBUF \
              to at least twice the bandwidth-delay product",
        wrong_if: "with a buffer four times as large, sndbuf_limited in `ss -ti` stays the same",
    },
    // The kernel's account of the time limited by the send buffer is 0 if acknowledgements arrive
    // within one of its ticks, as on one machine.
    Rule {
        cause: Cause::SendBuffer,
        limited_by: "send_buffer",
        conditions: &[
            at_most(M::IsRequest, 0.0, "requests wait for replies"),
            at_least(
                M::MessageOverSendBuffer,
                1.0,
                "a call waits for acknowledgements only if the buffer does not hold its message",
            ),
            at_least(M::SenderSwitchesPerCall, 0.5, "in most calls, the sender sleeps"),
            at_most(
                M::SendBufferOverBdp,
                4.0,
                "a buffer of several times the bandwidth-delay product keeps the path full",
            ),
            at_most(M::Demand, 0.85, "both sides have idle time"),
            at_most(M::WindowLimited, 0.05, TICKS),
        ],
        explained_by: STOPS,
        is_swept: true,
        sentence: "The send buffer ({send_buffer}) is smaller than a message ({message}): the \
                   sender sleeps {sleeps} times per call, until the receiver has acknowledged \
                   what the buffer holds.",
        fix: "Leave SO_SNDBUF unset and raise the maximum of net.ipv4.tcp_wmem, or set SO_SNDBUF \
              to at least twice the message size",
        wrong_if: "with a buffer four times as large, the sender sleeps as often per call",
    },
    Rule {
        cause: Cause::ReceiveWindow,
        limited_by: "receive_window",
        conditions: &[at_least(M::WindowLimited, 0.05, TICKS), at_most(M::PeerWindow, 8.0, WINDOW)],
        explained_by: STOPS,
        is_swept: true,
        sentence: "The receiver's window (at most {window}, buffer {receive_buffer}) kept the \
                   sender waiting {window_limited} of the time; the bandwidth-delay product of a \
                   connection is {bdp}.",
        fix: "At the receiver, leave SO_RCVBUF unset and raise the maximum of net.ipv4.tcp_rmem, \
              or set SO_RCVBUF to at least twice the bandwidth-delay product",
        wrong_if: "with a larger receive buffer, rwnd_limited in `ss -ti` stays the same",
    },
    Rule {
        cause: Cause::CpuContention,
        limited_by: "cpu",
        conditions: &[
            at_least(M::Waiting, 0.1, "twice the smallest share that sampled accounting can show"),
            at_least(M::BothDemand, 0.85, TURNS),
            at_most(M::OwnLoad, 0.85, "otherwise the stream's threads wait for each other"),
        ],
        explained_by: ALL_STOPS,
        is_swept: false,
        sentence: "The {busier} was runnable but waiting for a CPU {waiting} of the time, because \
                   other programs were running.",
        fix: "Measure when the machine is idle, or on dedicated CPUs (--cpus with a cpuset or \
              isolcpus)",
        wrong_if: "on an idle machine, the throughput stays the same",
    },
    Rule {
        cause: Cause::SystemCalls,
        limited_by: "cpu",
        conditions: &[
            at_least(M::Demand, 0.85, BOUND),
            at_least(M::CallShare, 0.5, "calls account for more than half of the cost"),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "System calls take {call_share} of the {busier}'s CPU time ({call_cost} each, \
                   {bytes_per_call} per call); the {busier} uses {busier_cpus}.",
        fix: "Send and receive more per call: with TCP, use messages of {larger} or writev; with \
              UDP, use sendmmsg, recvmmsg and UDP_SEGMENT (--compare measures them)",
        wrong_if: "with messages four times as large, the throughput rises by less than 50 %",
    },
    Rule {
        cause: Cause::SystemCalls,
        limited_by: "cpu",
        conditions: &[
            at_least(M::Demand, 0.85, BOUND),
            at_most(M::BytesPerCall, 1500.0, "less than one frame per call"),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "Each system call of the {busier} moves only {bytes_per_call}, and the {busier} \
                   uses {busier_cpus}.",
        fix: "Send and receive more per call: with TCP, use messages of {larger} or writev; with \
              UDP, use sendmmsg, recvmmsg and UDP_SEGMENT (--compare measures them)",
        wrong_if: "with messages four times as large, the throughput rises by less than 50 %",
    },
    Rule {
        cause: Cause::Copying,
        limited_by: "cpu",
        conditions: &[
            at_least(M::Demand, 0.85, BOUND),
            at_most(M::CallShare, 0.5, "calls account for less than half of the cost"),
        ],
        explained_by: STOPS,
        is_swept: false,
        sentence: "The cost per byte, mostly the copy between user and kernel, takes {byte_share} \
                   of the {busier}'s CPU time. The {busier} uses {busier_cpus}, and both \
                   sides together take {per_kb}.",
        fix: "Avoid the copy: send with sendfile or MSG_ZEROCOPY (--compare measures both) and \
              receive with TCP_ZEROCOPY_RECEIVE; or use more connections on more CPUs \
              (--connections)",
        wrong_if: "linerate profile shows less than 10 % of the samples in copy functions",
    },
    Rule {
        cause: Cause::Copying,
        limited_by: "cpu",
        conditions: &[
            at_least(M::Demand, 0.85, BOUND),
            at_least(M::BytesPerCall, 16_384.0, "at 0.3 us per call, calls cost little"),
        ],
        explained_by: &[
            Cause::RateLimiter,
            Cause::TcpLoss,
            Cause::NagleDelay,
            Cause::TimerSleep,
            Cause::SlowReceiver,
            Cause::SystemCalls,
        ],
        is_swept: false,
        sentence: "The {busier} uses {busier_cpus} at {bytes_per_call} per call, so most \
                   of its time goes into copying data, not into the calls themselves.",
        fix: "Avoid the copy: send with sendfile or MSG_ZEROCOPY (--compare measures both) and \
              receive with TCP_ZEROCOPY_RECEIVE; or use more connections on more CPUs \
              (--connections)",
        wrong_if: "linerate profile shows less than 10 % of the samples in copy functions",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        limited_by: "round_trip",
        conditions: &[at_least(M::IsRequest, 1.0, "one request at a time per connection")],
        explained_by: ALL_STOPS,
        is_swept: false,
        sentence: "Each connection waits for the reply before it sends the next request: a round \
                   trip takes {round_trip}, with the sender at {sender_cpus} and the receiver at \
                   {receiver_cpus}.",
        fix: "Keep several requests in flight: pipeline them, or open more connections \
              (--connections)",
        wrong_if: "with twice the connections, the request rate rises by less than 50 %",
    },
    Rule {
        cause: Cause::ProcessingCost,
        limited_by: "cpu",
        conditions: &[at_least(M::Demand, 0.85, BOUND)],
        explained_by: STOPS_AND_COSTS,
        is_swept: false,
        sentence: "The {busier} uses {busier_cpus} at {bytes_per_call} per call. One message size \
                   does not show whether calls or bytes take this time.",
        fix: "Measure at least three message sizes (--message 1K,8K,64K), which separates the two",
        wrong_if: "on a faster CPU, the throughput stays the same",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        limited_by: "wake_ups",
        conditions: &[
            at_most(M::IsRequest, 0.0, "requests have their own rule"),
            at_least(
                M::WindowLimited,
                0.0,
                "only TCP: a sender of datagrams never waits for the receiver",
            ),
            at_least(M::IsLocal, 1.0, "no network delays the two ends"),
            at_least(M::BothDemand, 0.85, TURNS),
            at_most(M::Demand, 0.85, "both sides have idle time"),
            at_least(M::Switches, 0.1, "each side sleeps while the other works"),
        ],
        explained_by: ALL_STOPS,
        is_swept: false,
        sentence: "The two ends take turns: the sender uses {sender_cpus} and the receiver \
                   {receiver_cpus}, and in between each sleeps until the other wakes it up \
                   ({switches} context switches per MB).",
        fix: "Use more connections (--connections), so that one end has work while another waits; \
              or give each end a CPU of its own (--cpus 0,1), if there is one to spare",
        wrong_if: "with two connections, the throughput per connection stays the same and the \
                   CPUs still have idle time",
    },
    Rule {
        cause: Cause::SlowReceiver,
        limited_by: "cpu",
        conditions: &[
            at_least(M::BufferDrops, 0.001, LOST),
            at_least(M::DropsLeft, 0.5, BY_BUFFER),
            at_least(
                M::Demand,
                0.85,
                "if both sides have idle time, the loss may have another cause",
            ),
        ],
        explained_by: &[],
        is_swept: false,
        sentence: "{drops} of {sent} datagrams were dropped because the receiver's buffer \
                   ({receive_buffer}) was full; with other buffer sizes, the loss is about the \
                   same, so the receiver is too slow, or does not run for stretches of time (it \
                   waited for a CPU {receiver_waiting} of the time).",
        fix: "Send more slowly (--rate), receive in batches (recvmmsg), or give the receiver a CPU \
              of its own (--cpus)",
        wrong_if: "with a buffer four times as large, less than half of the loss remains",
    },
    Rule {
        cause: Cause::SocketBuffer,
        limited_by: "receive_buffer",
        conditions: &[
            at_least(M::BufferDrops, 0.001, LOST),
            at_most(M::DropsLeft, 0.5, BY_BUFFER),
            at_least(M::DeliveredAtFullLoad, DELIVERED, DELIVERS),
        ],
        explained_by: &[],
        is_swept: true,
        sentence: "{drops} of {sent} datagrams were dropped because the receiver's buffer \
                   ({receive_buffer}) was full; the sender has no time left to send more.",
        fix: "Raise SO_RCVBUF, and net.core.rmem_max if that caps it; or send more slowly \
              (--rate), or receive in batches (recvmmsg)",
        wrong_if: "with a buffer four times as large, the loss stays the same",
    },
];
