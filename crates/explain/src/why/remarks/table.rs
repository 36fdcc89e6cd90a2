// SPDX-License-Identifier: MIT OR Apache-2.0
//! The remarks as data: for each circumstance, conditions with thresholds and their sources, and
//! the texts.

use super::super::measure::Measure as M;
use super::super::rules::Scope;
use super::{RemarkRule, Sign};
use crate::rule::{at_least, at_most};
use linerate_record::why::{Cause, Circumstance};

/// Returns all rules for remarks, most relevant first: what slows down all of the program's work,
/// what keeps work from it, and what costs a part of its time.
pub fn remark_rules() -> &'static [RemarkRule] {
    RULES
}

const RULES: &[RemarkRule] =
    &[SIMULATED, NOT_ACCEPTED, TIMER_INTERRUPTS, SLOW_PACKETS, LOG_WRITES, HOT_FUNCTION, LIBC_HOT];

/// Causes of a first finding that leaves open what a busy thread works on.
const OF_WORK: &[Cause] = &[
    Cause::CannotTell,
    Cause::SingleThread,
    Cause::ProcessingCost,
    Cause::SystemCalls,
    Cause::WaitingForStorage,
    Cause::SocketBuffer,
];

/// Minimum number of calls per second that is worth a remark.
const CALLS_PER_S: f64 = 3000.0;
const CALLS_SOURCE: &str = "at 1 to 3 us per call, this is 0.3 to 1 % of a CPU";

const SIMULATED: RemarkRule = RemarkRule {
    id: Circumstance::Simulated,
    scope: Scope::Program,
    conditions: &[at_least(Sign::Valgrind, 1.0, "Valgrind's tools run the program themselves")],
    shown: &[],
    only_with: &[],
    same_as: &[],
    said_by: &["Valgrind"],
    sentence: "The program runs under Valgrind, which makes it 5 to 100 times slower and runs one \
               of its threads at a time.",
    next: "Run it without Valgrind to measure its rate",
    wrong_if: "/proc/{pid}/maps lists no file of Valgrind",
};

const NOT_ACCEPTED: RemarkRule = RemarkRule {
    id: Circumstance::NotAccepted,
    scope: Scope::Listeners,
    conditions: &[
        at_least(
            Sign::Of(M::QueueWaits),
            0.9,
            "a program that accepts connections as they come empties the queue between readings",
        ),
        at_least(
            Sign::BusiestAsleep,
            0.3,
            "a thread with less time asleep may be too busy to accept them",
        ),
    ],
    shown: &[Sign::AcceptQueue],
    only_with: &[],
    same_as: &[Cause::AcceptQueue, Cause::DescriptorLimit],
    said_by: &["accept queue"],
    sentence: "In {queue_waits} % of the readings, connections were waiting in the accept queue of \
               {socket} ({queue} on average) while thread {busiest} slept {asleep} % of the time: \
               the program has reached its connection limit, or waits for something else first.",
    next: "Compare its open connections (ss -tn sport = :{port}) with its limit: maxconn of \
           haproxy, worker_connections of nginx, open files in /proc/{pid}/limits",
    wrong_if: "ss -ltn sport = :{port} mostly shows an empty queue (Recv-Q 0)",
};

const TIMER_INTERRUPTS: RemarkRule = RemarkRule {
    id: Circumstance::TimerInterrupts,
    scope: Scope::Program,
    conditions: &[
        at_least(Sign::TimerInterrupts, 10_000.0, "the kernel's tick has at most 1000 Hz"),
        at_most(Sign::TimersUnlike, 1.1, "the timers of programs differ between CPUs"),
        at_least(Sign::Cpus, 2.0, "a single CPU cannot be compared with others"),
    ],
    shown: &[],
    only_with: &[],
    same_as: &[Cause::ShortInterruptions],
    said_by: &["timer interrupts"],
    sentence: "Every CPU handles {timers} timer interrupts per second or more, as if a profiler \
               sampled at that rate; each takes time from the program.",
    next: "Look for a profiler (ps -e), and end it or lower its rate (perf record -F)",
    wrong_if: "the rate of LOC in /proc/interrupts is the same without any profiler",
};

const SLOW_PACKETS: RemarkRule = RemarkRule {
    id: Circumstance::SlowPackets,
    scope: Scope::Cpus,
    conditions: &[
        at_least(Sign::Of(M::CpuInterrupts), 0.3, "30 % of the CPU's time"),
        at_least(Sign::InterruptUs, 5.0, "protocol processing takes 1 to 2 us on a server's CPU"),
        at_least(
            Sign::PacketsPerSecond,
            10_000.0,
            "with fewer packets, other interrupts take most of the time",
        ),
        at_most(Sign::Segments, 0.1, "one TCP packet may hold many segments"),
    ],
    shown: &[],
    only_with: &[],
    same_as: &[Cause::FirewallRules, Cause::KernelOverhead],
    said_by: &["per packet in interrupts"],
    sentence: "CPU {cpu} spends {interrupt_us} us per packet in interrupts ({interrupts} % of its \
               time), several times what protocol processing takes.",
    next: "Look for long or logging firewall rules (nft list ruleset), tunnels and packet \
           captures; sudo perf record -a -C {cpu} shows the functions",
    wrong_if: "the time per packet is the same without rules, tunnels and captures",
};

const LOG_WRITES: RemarkRule = RemarkRule {
    id: Circumstance::LogWrites,
    scope: Scope::Program,
    conditions: &[
        at_least(Sign::LogBytes, 100_000.0, "less is rarely a line per request"),
        at_least(Sign::WriteCalls, CALLS_PER_S, CALLS_SOURCE),
    ],
    shown: &[Sign::LogBytesPerPacket],
    only_with: OF_WORK,
    same_as: &[],
    said_by: &[],
    sentence: "It writes {file_bytes} per second to {file}{per_packet}, and makes {write_calls} \
               write calls per second, including those to sockets and pipes.",
    next: "Compare the rate with less detailed logging or, if each line is a call, with buffered \
           writes",
    wrong_if: "with the file replaced by /dev/null, the rate rises by less than 5 %",
};

const HOT_FUNCTION: RemarkRule = RemarkRule {
    id: Circumstance::HotFunction,
    scope: Scope::Program,
    conditions: &[at_least(Sign::OwnFunction, 0.2, "20 % of the samples in a single function")],
    shown: &[Sign::Samples],
    only_with: &[Cause::CannotTell],
    same_as: &[],
    said_by: &["{own_function}"],
    sentence: "{own_share} of the {samples} samples of thread {busiest} are in {own_function} of \
               {own_file}.",
    next: "linerate profile {pid} shows its callers",
    wrong_if: "over a longer window (-t 30s), less than 20 % of the samples are in this function",
};

const LIBC_HOT: RemarkRule = RemarkRule {
    id: Circumstance::LibcHot,
    scope: Scope::Program,
    conditions: &[at_least(Sign::LibcFunction, 0.15, "15 % of the samples in a single function")],
    shown: &[Sign::Samples],
    only_with: &[Cause::CannotTell, Cause::SingleThread],
    same_as: &[],
    said_by: &[],
    sentence: "{function_share} of the {samples} samples of thread {busiest} are in {function}: \
               how much time it takes depends on its callers.",
    next: "linerate profile {pid} shows its callers",
    wrong_if: "over a longer window (-t 30s), less than 15 % of the samples are in this function",
};
