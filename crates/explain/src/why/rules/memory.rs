// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes related to memory: page faults, garbage collection, caches, shared cache lines.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::requests::DELAYED;
use super::{A_TENTH, KERNEL_SAMPLES, Next, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

const LESS_GARBAGE: &str = "Allocate less per request, and keep fewer objects alive (reuse \
                            buffers, bound caches and histories). In Go (GOGC, GOMEMLIMIT) and \
                            Java (-Xmx), a larger heap helps too; in node, compare the rates \
                            before and after, because a larger young generation \
                            (--max-semi-space-size) may lower the rate";
const GARBAGE_IS_NOT_IT: &str =
    "with half the allocations per request, the rate and the reply times stay the same";
const GARBAGE_LOG: &str =
    "the runtime's log: GODEBUG=gctrace=1 (Go), -Xlog:gc (Java), --trace-gc (node)";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::PageFaults,
        scope: Scope::Program,
        conditions: &[
            at_least(M::FaultsPerSecond, 2000.0, "at 3 us per fault, this is 0.6 % of a CPU"),
            at_least(M::FaultTime, 0.01, "1 % of the CPU time, even at the lowest cost per fault"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::ChildProcesses, Cause::BriefThreads],
        gain: GainModel::CostRemoved(M::FaultTime, [1.0, 1.0, 1.0]),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "{faults} page faults per second take an estimated {fault_time} of the CPU time: \
                   {fault_reason}.",
        fix: "{fault_fix}",
        workaround: Some("huge pages reduce faults by a factor of 512"),
        wrong_if: "minor faults in /proc/PID/stat become fewer, but the rate does not rise",
        measure: "minor faults in /proc/PID/stat",
    },
    Rule {
        cause: Cause::PageFaults,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::PageFault), 0.15, "15 % of the samples"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[Cause::ChildProcesses, Cause::BriefThreads],
        gain: GainModel::CostRemoved(M::Functions(Group::PageFault), [0.4, 0.9, 1.2]),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} spends {page_fault} of its time in page faults and in mapping \
                   and zeroing memory: {fault_reason}.",
        fix: "{fault_fix}",
        workaround: None,
        wrong_if: "the page faults disappear, but the rate does not rise",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::GarbageCollection,
        scope: Scope::Program,
        conditions: &[
            at_least(M::GarbageShare, 0.1, "10 % of the CPU time"),
            at_least(M::GarbageCpus, 0.1, "below that, the effect is negligible"),
            at_most(M::IdleCpus, 0.3, "below that, no CPU has room for the collector"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::GarbageShare, [0.0, 0.5, 0.95]),
        then_limited_by: Next::Is("the rest of the program's work"),
        sentence: "The garbage collector of {program} takes {gc} of its CPU time ({gc_cpus} CPUs).",
        fix: LESS_GARBAGE,
        workaround: None,
        wrong_if: GARBAGE_IS_NOT_IT,
        measure: GARBAGE_LOG,
    },
    Rule {
        cause: Cause::GarbageCollection,
        scope: Scope::Program,
        conditions: &[
            at_least(M::GarbageShare, 0.2, "20 % of the CPU time"),
            at_least(M::GarbageCpus, 0.1, "below that, the effect is negligible"),
            at_least(M::LateReplies, 0.03, "3 % of the readings"),
            at_most(
                M::RepliesDelayed,
                DELAYED,
                "above that, requests wait while all threads sleep, the collector's too",
            ),
            at_most(M::AwaitingServers, 0.3, "above that, requests wait for other servers"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::Unknown(
            "the collector's pauses delay replies; how much the rate would rise without them \
             depends on the clients",
        ),
        then_limited_by: Next::Is("the rest of the program's work"),
        sentence: "The garbage collector of {program} takes {gc} of its CPU time ({gc_cpus} CPUs), \
                   and in {late_replies} of the readings, a request had been waiting for 4 ms or \
                   longer.",
        fix: LESS_GARBAGE,
        workaround: None,
        wrong_if: GARBAGE_IS_NOT_IT,
        measure: GARBAGE_LOG,
    },
    // A collector that stops the program, even if other CPUs are idle.
    Rule {
        cause: Cause::GarbageCollection,
        scope: Scope::Program,
        conditions: &[
            at_least(M::GarbageShare, 0.2, "20 % of the CPU time"),
            at_least(M::GarbageCpus, 0.1, "below that, the effect is negligible"),
            at_least(M::WorkOrPause, 0.8, "below that, the program also waits for something else"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        // The least assumes that a third of the pauses can be avoided.
        gain: GainModel::CostRemoved(M::Pauses, [0.3, 0.8, 1.1]),
        then_limited_by: Next::Is("the rest of the program's work"),
        sentence: "The garbage collector of {program} takes {gc} of its CPU time ({gc_cpus} CPUs), \
                   and stops the program while it runs.",
        fix: LESS_GARBAGE,
        workaround: None,
        wrong_if: GARBAGE_IS_NOT_IT,
        measure: GARBAGE_LOG,
    },
    Rule {
        cause: Cause::FalseSharing,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::FalselyShared, 0.1, A_TENTH),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::FalselyShared, [0.0, 0.5, 1.2]),
        then_limited_by: Next::Is("the rest of the thread's work"),
        sentence: "{shared} of the samples of thread {thread} hit a cache line in which another \
                   thread uses different bytes (false sharing): {line}.",
        fix: "Give each thread its own cache line, with alignas(64), or with alignas(128) on CPUs \
              that fetch lines in pairs",
        workaround: Some("run the threads on CPUs that share a cache, where the line moves faster"),
        wrong_if: "with the two threads' data 128 bytes apart, the rate rises by less than 5 %",
        measure: "accesses to shared cache lines, with perf c2c on a machine with hardware \
                  counters",
    },
    Rule {
        cause: Cause::CacheMisses,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::WorkingSet, 1.0, "larger than the last-level cache"),
            at_least(M::MemoryShare, 0.15, "15 % of the time, enough to affect the rate"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        // A collector reads all objects that are alive.
        explained_by: &[Cause::GarbageCollection],
        // Nothing is gained if the thread scans its memory and prefetching hides the misses, which
        // samples cannot tell from a walk through buffers.
        gain: GainModel::CostRemoved(M::MemoryShare, [0.0, 0.6, 1.0]),
        then_limited_by: Next::Is("the number of instructions executed"),
        sentence: "The working set of thread {thread} is {working_set}, {over_cache} times the \
                   last-level cache: {memory_share} of the thread's samples hit cache lines that \
                   no other sample hit. Unless the thread scans this memory sequentially, most of \
                   these accesses are probably cache misses.",
        fix: "Shrink the working set: use fewer buffers (mbufs, descriptors) and reuse them in \
              LIFO order, or use smaller tables; otherwise, prefetch{collector_fix}",
        workaround: Some("use huge pages, which reduce TLB misses"),
        wrong_if: "the thread scans a large file or buffer from beginning to end (the CPU then \
                   prefetches it), or the rate rises by less than 10 % with a tenth of the buffers",
        measure: "cache misses, with `linerate stat --pid PID -m cache` on a machine with hardware \
                  counters",
    },
];
