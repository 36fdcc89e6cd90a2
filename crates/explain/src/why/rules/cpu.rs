// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that take CPU time away from a thread.

use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::{Rule, Scope, at_least, at_most};
use linerate_record::why::{Cause, ThreadState};

/// Minimum share of lost time that sampled accounting distinguishes from none.
const VISIBLE: f64 = 0.05;
const VISIBLE_SOURCE: &str = "twice the error of the kernel's sampled accounting";

/// Maximum mean wait that is typical for interrupt threads and timers, in microseconds; a thread of
/// the fair scheduler runs for at least 0.75 ms (sched_min_granularity_ns).
const SHORT_US: f64 = 300.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Waiting, VISIBLE, VISIBLE_SOURCE),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::MeanWait, SHORT_US, "slices of the fair scheduler are 0.75 ms or longer"),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::TimeBack(ThreadState::Waiting),
        then_limited_by: Some("the offered load, or the thread's own work"),
        sentence: "Thread {thread} waited {waiting} of the time for CPU {cpu}, {mean_wait} at a \
                   time; {who}.{ring}",
        fix: "Keep others off CPU {cpu}: a cpuset or isolcpus={cpu}, and pin the thread there \
              (taskset -cp {cpu} {tid})",
        workaround: Some(
            "chrt -f -p 1 {tid} runs it ahead of others, which then wait; a larger ring or buffer \
             bridges {longest}, but adds latency",
        ),
        wrong_if: "with CPU {cpu} to itself, the thread still waits more than 5 % of the time, or \
                   the rate stays the same",
        measure: "as root, the scheduler's tracepoints name what ran instead",
    },
    // Time slices are short when two threads wake each other, as a server and its client do.
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(
                M::OthersInstead,
                0.1,
                "twice the smallest share that sampled accounting \
                                             shows",
            ),
            at_most(M::MeanWait, SHORT_US, "longer waits have their own rule"),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.9, "below that, the thread has headroom"),
            at_least(
                M::SleepsPerSecond,
                100.0,
                "a thread that never sleeps is being interrupted \
                                                 instead",
            ),
            at_least(M::IdleCpus, 0.3, "a third of a CPU for the others to move to"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::CpuToItself,
        then_limited_by: Some("its peers, or the thread's own work"),
        sentence: "Thread {thread} waited {waiting} of the time for CPU {cpu}, {mean_wait} at a \
                   time, while other CPUs were idle; {who}.",
        fix: "Move the others to another CPU (taskset -acp CPUS PID), or the thread (taskset -cp \
              CPUS {tid})",
        workaround: None,
        wrong_if: "with CPU {cpu} to itself, the thread still waits more than 5 % of the time, or \
                   the rate stays the same",
        measure: "as root, the scheduler's tracepoints name what ran instead",
    },
    // A client and its server that take turns on one CPU hardly wait for it.
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::PeersHere, 0.2, "a fifth of the CPU"),
            at_most(M::IdleHere, 0.05, "100 %, within the error of kernel accounting"),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
            at_least(M::IdleElsewhere, 0.5, "half a CPU for the peers to move to"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::PeersMove,
        then_limited_by: Some("its peers, or the thread's own work"),
        sentence: "Thread {thread} shares CPU {cpu} with its peers on this machine, which take \
                   {peers_here} of it, while another CPU is {idle_elsewhere} idle.",
        fix: "Move the peers to another CPU (taskset -acp CPUS PID), or the thread (taskset -cp \
              CPUS {tid})",
        workaround: None,
        wrong_if: "with CPU {cpu} to itself, the rate rises by less than 10 %",
        measure: "the CPUs on which its peers run: ps -o pid,psr,comm -p PID",
    },
    Rule {
        cause: Cause::ShortInterruptions,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::WaitsPerSecond, 1000.0, "timer ticks: 100 to 1000 per second"),
            at_most(M::MeanWait, SHORT_US, "slices of the fair scheduler are 0.75 ms or longer"),
            at_least(M::Waiting, 0.01, "1000 interruptions of 10 us per second"),
            at_most(M::SleepsPerSecond, 100.0, "a thread that sleeps is woken, not interrupted"),
            at_most(M::UsesStack, 0.0, "threads woken by its own packets interrupt it too"),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::TimeBack(ThreadState::Waiting),
        then_limited_by: Some("the offered load, or the thread's own work"),
        sentence: "Thread {thread} is interrupted {waits_per_s} times per second on CPU {cpu}, for \
                   {mean_wait} on average: {waiting} of its time; {who}.",
        fix: "Move timers and real-time threads off CPU {cpu} (taskset, nohz_full={cpu})",
        workaround: None,
        wrong_if: "without them, the thread is still preempted more than 1000 times per second",
        measure: "as root, the scheduler's tracepoints show the length of each gap",
    },
    Rule {
        cause: Cause::CpuQuota,
        scope: Scope::Quotas,
        conditions: &[at_least(M::ThrottledPeriods, 0.05, "one 100 ms period in 20")],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CpusWanted,
        then_limited_by: Some("the number of CPUs"),
        sentence: "The CPU quota of {quota} ({quota_cpus} CPUs) throttled the program in \
                   {throttled_periods} of the periods.",
        fix: "Raise the quota where it was set (--cpus of a container, CPUQuota= of systemd), or \
              remove it: {no_quota}",
        workaround: Some(
            "fewer threads exhaust the quota later in each period; the CPU time is the same",
        ),
        wrong_if: "with a higher quota, nr_throttled in cpu.stat still grows, or the rate stays \
                   the same",
        measure: "the cgroup's cpu.stat",
    },
    Rule {
        cause: Cause::StolenCpu,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Stolen, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::TimeBack(ThreadState::Stolen),
        then_limited_by: Some("the offered load, or the thread's own work"),
        sentence: "The hypervisor did not run CPU {cpu} for {stolen} of the time while thread \
                   {thread} needed it (steal time).",
        fix: "Give the guest dedicated CPUs on the host (CPU pinning, a dedicated instance type)",
        workaround: None,
        wrong_if: "on a dedicated host, `steal` in /proc/stat stays above 5 %",
        measure: "`steal` in /proc/stat",
    },
    Rule {
        cause: Cause::InterruptLoad,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Interrupts, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.9, "below that, the thread has headroom"),
            at_least(M::ForeignPackets, 0.5, "most packets on that CPU are not its own"),
        ],
        symptoms: 2,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::ForeignOfRun, [0.5, 1.0, 1.5]),
        then_limited_by: Some("the thread's own work"),
        sentence: "Interrupts and softirqs took {interrupts} of the time while thread {thread} was \
                   on CPU {cpu}; {foreign} of the packets received there are not its own.",
        fix: "Receive them on other CPUs: set /proc/irq/N/smp_affinity, and leave CPU {cpu} out of \
              the queues' rps_cpus",
        workaround: Some("move the thread to a CPU that receives less (taskset -cp)"),
        wrong_if: "with the packets received elsewhere, the thread's work per second stays the \
                   same",
        measure: "the program's own packets, with --iface or its statistics socket",
    },
    Rule {
        cause: Cause::SingleThread,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Busy, 0.85, "100 %, within the 10 % error of kernel accounting"),
            at_most(M::Waiting, 0.15, "above that, it is CPU contention"),
            at_most(M::WorkingThreads, 1.0, "the only thread doing work"),
            at_least(M::IdleCpus, 0.3, "a third of a CPU to move work to"),
            at_least(M::Flows, 2.0, "one flow cannot be split without reordering"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::CpuQuota,
            Cause::CpuContention,
            Cause::InterruptLoad,
            Cause::SoftwareCrypto,
            Cause::PageFaults,
            Cause::ConnectionSetup,
        ],
        gain: GainModel::MoreCpus,
        then_limited_by: Some("the number of CPUs"),
        sentence: "Thread {thread} does all the work and is busy {busy} of the time, while \
                   {idle_cpus} CPUs are idle.",
        fix: "Let more threads or processes share the work (worker_processes, SO_REUSEPORT, RSS \
              queues)",
        workaround: None,
        wrong_if: "with a second thread, the rate rises by less than 10 %",
        measure: "samples of the thread, to separate work from polling",
    },
];
