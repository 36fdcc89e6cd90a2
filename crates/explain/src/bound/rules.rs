// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules as data: for each bottleneck, its conditions with thresholds and their sources, and
//! the result that would disprove it.

use super::Measure;
use crate::rule::{self, at_least, at_most};
use linerate_record::profile::{BoundBy, BoundMeasure as M};

/// A condition in a rule.
pub type Condition = rule::Condition<Measure>;

/// A rule. Its texts contain placeholders in braces, which `measure` replaces.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The conclusion.
    pub bound_by: BoundBy,
    /// Whether the rule applies only to the whole program and not to single functions.
    pub is_of_program: bool,
    /// Conditions, all of which must hold.
    pub conditions: &'static [Condition],
    /// Further conditions for the whole program.
    pub of_program: &'static [Condition],
    /// Number of leading conditions that make the rule a suspect if they hold and another condition
    /// could not be measured; 0 for a rule that is never a suspect.
    pub symptoms: usize,
    /// Conclusions that explain this rule's evidence. If one of them is reached, this rule is
    /// dropped.
    pub explained_by: &'static [BoundBy],
    /// The claim, with its evidence.
    pub sentence: &'static str,
    /// Observation that would disprove the claim.
    pub wrong_if: &'static str,
    /// Advice on what to examine next.
    pub next: &'static str,
    /// Text printed instead of the claim if the rule is only a suspect.
    pub suspicion: &'static str,
    /// Measurement to suggest if the evidence is incomplete; shows whether the rule holds.
    pub measure: &'static str,
}

const MOST: &str = "most of the time";
const NEARLY_ALL: &str = "100 %, minus the time spent in interrupts and timer ticks";
const FEW: &str = "within the error of attributing samples to instructions";
const RUNS: &str = "a lower value indicates that the program also waits; the value is 1 for a \
                    thread that never sleeps";
const IN_CACHE: &str = "the working set fits in the cache";
/// Command to suggest for measuring what samples cannot show.
pub(super) const SIMULATE: &str =
    "linerate profile --sim -- CMD, which also simulates caches and branches";

/// Condition that the program is busy: a program that waits is not bound by what it does between
/// waits.
const BUSY: &[Condition] = &[at_least(Measure::Of(M::Saturation), 0.9, RUNS)];

/// Conditions that the program is busy and its threads do not wait for each other. Threads that
/// contend for a lock are not bound by computation, even if samples rarely show them asleep.
const BUSY_ALONE: &[Condition] = &[
    at_least(Measure::Of(M::Saturation), 0.9, RUNS),
    at_most(Measure::Of(M::AsleepOnFutex), 0.02, "contending threads sleep more"),
    at_most(Measure::Of(M::InLocks), 0.02, "contending threads enter the kernel"),
];

const USER: Condition = at_least(Measure::Of(M::UserMode), 0.8, MOST);
const NO_CONTENTION: Condition = at_most(Measure::Of(M::ContendedBytes), 0.1, FEW);
const NO_ATOMICS: Condition = at_most(Measure::Of(M::Atomics), 0.15, FEW);
const NO_PAUSES: Condition = at_most(Measure::Of(M::Pauses), 0.05, FEW);
const NO_CHASE: Condition = at_most(Measure::Of(M::DependentLoads), 0.15, FEW);
const NO_POLL: Condition =
    at_most(Measure::Of(M::OneAddress), 0.3, "a higher share indicates a loop polling a variable");

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    OF_WAITING.iter().chain(OF_KERNEL).chain(OF_MEMORY).chain(OF_CORE)
}

const OF_WAITING: &[Rule] = &[
    Rule {
        bound_by: BoundBy::Waiting,
        is_of_program: true,
        conditions: &[
            at_most(Measure::Of(M::Saturation), 0.5, "half of the time"),
            at_most(Measure::Of(M::AsleepOnFutex), 0.1, "a higher share may be lock contention"),
        ],
        of_program: &[],
        symptoms: 1,
        explained_by: &[BoundBy::Locks],
        sentence: "{subject} is mostly waiting: its busiest thread is running or runnable \
                   {saturation} of the time and sleeps mostly in {longest}.",
        wrong_if: "on a CPU half as fast, the rate falls",
        next: "linerate why PID, to see what it waits for",
        suspicion: "The busiest thread of {subject} is running or runnable {saturation} of the \
                    time",
        measure: "linerate why PID",
    },
    Rule {
        bound_by: BoundBy::Waiting,
        is_of_program: true,
        conditions: &[
            at_least(Measure::Of(M::Pauses), 0.5, MOST),
            at_most(
                Measure::Of(M::WorkingThreads),
                1.0,
                "two threads may be waiting for each other",
            ),
            NO_CONTENTION,
        ],
        of_program: &[],
        symptoms: 1,
        explained_by: &[BoundBy::Locks],
        sentence: "{subject} busy-polls: {pauses} of its samples are at `pause`, which busy-wait \
                   loops execute.",
        wrong_if: "with more input, the share of `pause` does not fall",
        next: "linerate profile --iface IF PID, to see the work between polls",
        suspicion: "{subject} has {pauses} of its samples at `pause`",
        measure: "linerate why PID",
    },
    Rule {
        bound_by: BoundBy::Locks,
        is_of_program: false,
        conditions: &[at_least(
            Measure::Of(M::ContendedBytes),
            0.3,
            "above about a third of the samples, sharing costs more than anything else",
        )],
        of_program: &[at_least(Measure::Of(M::WorkingThreads), 2.0, "one thread cannot contend")],
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} suffers from contention: {contended} of its samples access bytes that \
                   another thread writes, such as a lock or a shared counter.",
        wrong_if: "with one thread, the rate falls by more than 20 %",
        next: "linerate profile --details, to see the cache lines and the instructions on both \
               sides",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::Locks,
        is_of_program: true,
        conditions: &[
            at_least(
                Measure::Of(M::AsleepOnFutex),
                0.05,
                "twice the sampling error of thread states",
            ),
            at_least(Measure::Of(M::WorkingThreads), 2.0, "one thread cannot contend"),
            at_least(Measure::Of(M::Saturation), 0.3, "an idle thread pool has a lower value"),
            at_least(
                Measure::Of(M::InLocks),
                0.01,
                "threads call futex each time they block on a lock",
            ),
        ],
        of_program: &[],
        symptoms: 3,
        explained_by: &[],
        sentence: "Threads of {subject} wait for each other: they sleep on futexes {futex} of the \
                   time and spend {locks} of their CPU time on locking.",
        wrong_if: "with one thread, futex sleeps disappear and the rate falls by more than 20 %",
        next: "linerate why PID, to estimate the gain from removing the lock",
        suspicion: "Threads of {subject} sleep on futexes {futex} of the time",
        measure: "linerate why PID, as root",
    },
];

const OF_KERNEL: &[Rule] = &[
    Rule {
        bound_by: BoundBy::PageFaults,
        is_of_program: false,
        conditions: &[at_least(Measure::Of(M::InPageFaults), 0.5, MOST)],
        of_program: BUSY,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} spends {faults} of its CPU time on page faults and on mapping and \
                   unmapping memory.",
        wrong_if: "with memory reused instead of freed, minor faults drop, but the rate does not \
                   rise",
        next: "linerate why PID, to estimate the gain from avoiding page faults",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::SystemCalls,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::UnderSystemCalls), 0.6, MOST),
            at_most(
                Measure::Of(M::InCopies),
                0.3,
                "a higher share indicates that copying dominates",
            ),
            at_most(Measure::Of(M::InLocks), 0.2, "a higher share indicates lock contention"),
        ],
        of_program: BUSY,
        symptoms: 0,
        explained_by: &[BoundBy::PageFaults, BoundBy::Locks],
        sentence: "{subject} spends {calls} of its CPU time in system calls; copying takes \
                   {copies}.",
        wrong_if: "with ten times the bytes per call, the rate in bytes rises by less than 50 %",
        next: "linerate why PID, to see the calls per packet",
        suspicion: "",
        measure: "",
    },
];

const OF_MEMORY: &[Rule] = &[
    Rule {
        bound_by: BoundBy::MemoryLatency,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::DependentLoads), 0.5, MOST),
            USER,
            NO_CONTENTION,
            NO_POLL,
        ],
        of_program: BUSY,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} is waiting for dependent loads in {dependent} of its samples, with a \
                   working set of {working_set}.",
        wrong_if: "with half the loads per step, the time per step does not fall",
        next: "linerate memory, to see the latency at that size; then use fewer dependent loads, \
               or a smaller working set",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::MemoryLatency,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::Loads), 0.5, MOST),
            at_least(Measure::OverLastLevel, 1.0, "the working set exceeds the last-level cache"),
            at_most(Measure::Of(M::Streamed), 0.2, "streams are prefetched"),
            USER,
            NO_CONTENTION,
        ],
        of_program: BUSY,
        symptoms: 2,
        explained_by: &[],
        sentence: "{subject} is waiting for scattered loads in {loads} of its samples, with a \
                   working set of {cached}, {over_cache} times the last-level cache.",
        wrong_if: "with a tenth of the working set, the rate rises by less than 10 %",
        next: "prefetch, batch lookups, or use less memory; linerate memory shows the cost of a \
               miss",
        suspicion: "{subject} is waiting for loads in {loads} of its samples, with a working set \
                    of {working_set}",
        measure: "linerate profile -t 20s, to sample more addresses",
    },
    Rule {
        bound_by: BoundBy::MemoryBandwidth,
        is_of_program: false,
        conditions: &[
            at_least(
                Measure::MemoryWaits,
                0.4,
                "loads and stores outweigh any other class of instruction",
            ),
            at_least(Measure::Of(M::Streamed), 0.6, MOST),
            at_least(Measure::OverLastLevel, 1.0, "the working set exceeds the last-level cache"),
            USER,
            NO_CONTENTION,
            at_least(
                Measure::StreamOverMemory,
                0.4,
                "writes and multiple streams halve the read bandwidth",
            ),
        ],
        of_program: BUSY,
        symptoms: 5,
        explained_by: &[],
        sentence: "{subject} streams through {working_set} at {rate}, {of_memory} of the memory \
                   read bandwidth of {readers} on this machine; {memory} of its samples are \
                   stalled on loads and stores.",
        wrong_if: "with a tenth of the data, so that it fits in the cache, the time per byte does \
                   not fall",
        next: "work on blocks that fit in the cache; linerate memory shows the bandwidth of each \
               level",
        suspicion: "{subject} streams through {working_set} at {rate}, and {memory} of its samples \
                    are stalled on loads and stores",
        measure: "linerate memory, then linerate profile again",
    },
];

const OF_CORE: &[Rule] = &[
    Rule {
        bound_by: BoundBy::Compute,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::LongArithmetic), 0.6, MOST),
            at_least(Measure::Of(M::UserMode), 0.85, NEARLY_ALL),
        ],
        of_program: BUSY_ALONE,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} is compute-bound: in {long} of its samples, it is waiting for the \
                   result of a multiply, divide, floating-point or crypto instruction.",
        wrong_if: "with all data in L1, the rate rises by more than 10 %",
        next: "linerate profile --details, to find the function; then break its dependency chains, \
               or use vector instructions",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::Compute,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::StraightLoops), 0.8, "the loops have no branch to predict"),
            at_least(Measure::Of(M::UserMode), 0.85, NEARLY_ALL),
            at_most(Measure::OverL1d, 1.0, IN_CACHE),
            NO_CHASE,
            NO_POLL,
            NO_ATOMICS,
            NO_PAUSES,
            NO_CONTENTION,
        ],
        of_program: BUSY_ALONE,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} is compute-bound: {straight} of its samples are in loops with no \
                   branch other than the loop branch, and its working set of {working_set} fits in \
                   L1d.",
        wrong_if: "with half the instructions per iteration, the rate does not rise",
        next: "use vector instructions, or several independent accumulators",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::Compute,
        is_of_program: false,
        conditions: &[
            at_least(Measure::Of(M::UserMode), 0.85, NEARLY_ALL),
            at_least(Measure::Of(M::Decoded), 0.8, MOST),
            NO_CHASE,
            NO_POLL,
            NO_ATOMICS,
            NO_PAUSES,
            NO_CONTENTION,
            at_most(
                Measure::Of(M::Mispredictions),
                1.0,
                "at 15 cycles per misprediction, this is 1.5 % of the time",
            ),
            at_most(
                Measure::Of(M::InstructionMisses),
                1.0,
                "at 14 cycles per miss, this is 1.4 % of the time",
            ),
            at_most(
                Measure::Of(M::DataMisses),
                2.0,
                "at 14 cycles per miss, this is 2.8 % of the time",
            ),
        ],
        of_program: BUSY_ALONE,
        symptoms: 7,
        explained_by: &[],
        sentence: "{subject} is compute-bound: it spends {user} of its CPU time in user mode, with \
                   almost no simulated cache misses or branch mispredictions.",
        wrong_if: "with half the instructions, the rate does not rise",
        next: "linerate stat --tier sim -- CMD, to count the instructions per step",
        suspicion: "{subject} spends {user} of its CPU time in user mode, without contention or \
                    chains of dependent loads",
        measure: SIMULATE,
    },
    Rule {
        bound_by: BoundBy::Branches,
        is_of_program: false,
        conditions: &[
            at_least(
                Measure::Of(M::BehindBranches),
                0.3,
                "after a misprediction, samples land on the first instructions after the branch",
            ),
            USER,
            NO_CONTENTION,
            NO_CHASE,
            at_least(
                Measure::Of(M::Mispredictions),
                15.0,
                "at 15 cycles per misprediction, this is about 20 % of the time",
            ),
            at_most(
                Measure::Of(M::InstructionMisses),
                5.0,
                "a higher value indicates that the front end is the bottleneck",
            ),
            at_most(
                Measure::Of(M::LastLevelMisses),
                1.0,
                "a higher value indicates that memory is the bottleneck",
            ),
        ],
        of_program: BUSY_ALONE,
        symptoms: 4,
        explained_by: &[],
        sentence: "{subject} mispredicts branches: {behind} of its samples are right after a \
                   branch; a simulated predictor mispredicts {mispredictions} times per 1000 \
                   instructions.",
        wrong_if: "with sorted or constant input, the rate rises by less than 10 %",
        next: "use conditional moves or tables instead of branches, or sort the input by case",
        suspicion: "{subject} has {behind} of its samples right after branches",
        measure: SIMULATE,
    },
    Rule {
        bound_by: BoundBy::FrontEnd,
        is_of_program: false,
        conditions: &[
            at_least(Measure::CodeOverL2, 0.5, "the code far exceeds L1i, so there is no hot loop"),
            at_least(
                Measure::Of(M::SimpleInstructions),
                0.6,
                "most samples are at instructions that take one cycle",
            ),
            USER,
            NO_CONTENTION,
        ],
        of_program: BUSY_ALONE,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} waits for instruction fetch: it executes {code} of code, and {simple} \
                   of its samples are at single-cycle instructions.",
        wrong_if: "optimizing for size (-Os) halves the code, but the rate does not rise",
        next: "reduce code size (-Os, less inlining), use profile-guided layout, or map the code \
               with huge pages",
        suspicion: "",
        measure: "",
    },
    Rule {
        bound_by: BoundBy::FrontEnd,
        is_of_program: false,
        conditions: &[
            at_least(
                Measure::Of(M::InstructionMisses),
                20.0,
                "at 14 cycles per miss, this is at least 20 % of the time",
            ),
            USER,
            at_most(
                Measure::Of(M::LastLevelMisses),
                1.0,
                "a higher value indicates that memory is the bottleneck",
            ),
            at_most(
                Measure::Of(M::Loads),
                0.3,
                "a higher value indicates that memory is the bottleneck",
            ),
            NO_CONTENTION,
        ],
        of_program: BUSY_ALONE,
        symptoms: 0,
        explained_by: &[],
        sentence: "{subject} waits for instruction fetch: a simulated instruction cache misses \
                   {instruction_misses} times per 1000 instructions.",
        wrong_if: "optimizing for size (-Os) halves the code, but the rate does not rise",
        next: "reduce code size (-Os, less inlining), use profile-guided layout, or map the code \
               with huge pages",
        suspicion: "",
        measure: "",
    },
];
