// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that take CPU time away from a thread.

use super::super::gain::GainModel;
use super::super::measure::{Measure as M, PENDING};
use super::{Next, PENDING_SOURCE, Rule, Scope, at_least, at_most};
use linerate_record::why::{Cause, ThreadState};

/// Smallest share of lost time that sampled accounting can distinguish from zero.
pub(in super::super) const VISIBLE: f64 = 0.05;
const VISIBLE_SOURCE: &str = "twice the error of the kernel's sampled accounting";

/// Mean wait, in microseconds, up to which interrupt threads and timers are the likely cause. A
/// thread under the fair scheduler runs for at least 0.7 ms (base_slice_ns since Linux 6.15; before
/// that, 0.75 ms).
pub(in super::super) const SHORT_US: f64 = 300.0;

/// Maximum number of processes per second that begin and end between two readings (see
/// [`M::BriefProcesses`]). Above it, the threads that ran instead may have been theirs.
const BRIEF_PER_S: f64 = 2.0;

/// Maximum CPU time, in CPUs, of other threads behind the same lock for a thread to count as
/// waiting for a CPU. Above it, the thread waits for those threads.
pub(in super::super) const TURNS: f64 = 0.1;

const STILL_WAITS: &str = "with CPU {cpu} to itself, the thread still waits for it more than 5 % \
                           of the time, or the rate stays the same";

const IDLE_SOURCE: &str = "a thread that waits although its CPU is idle is held back by something \
                           else, such as a quota that is not visible here";

/// Maximum of [`M::HigherPriority`], a ratio of CPU times. Above it, the thread is a helper that
/// gives way to a busier thread of the program.
const MUCH_BUSIER: f64 = 5.0;
const HELPER: &str =
    "above that, the thread only helps a busier one of higher priority, which also waits";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Waiting, VISIBLE, VISIBLE_SOURCE),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::MeanWait, SHORT_US, "the fair scheduler's time slices are at least 0.7 ms"),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
            at_most(M::HigherPriority, MUCH_BUSIER, HELPER),
            at_least(
                M::InsteadKnown,
                0.2,
                "below that, many threads ran briefly, as when all are woken at once",
            ),
            at_most(
                M::OwnInstead,
                0.5,
                "above that, the program itself needs more CPUs than there are",
            ),
            at_most(
                M::SoftirqsInstead,
                0.5,
                "above that, the CPU processes packets, perhaps the program's own, which would \
                 follow it to another CPU",
            ),
            at_most(M::IdleMeanwhile, 0.5, IDLE_SOURCE),
            at_most(
                M::TakesTurns,
                TURNS,
                "threads that take turns behind a lock gain nothing from another CPU",
            ),
            at_most(
                M::BriefProcesses,
                BRIEF_PER_S,
                "beyond that, what ran instead may have been the program's own short-lived \
                 processes",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::TimeBack(ThreadState::Waiting),
        then_limited_by: Next::LoadOr("the thread's own work"),
        sentence: "Thread {thread} waited {waiting} of the time for CPU {cpu}, {mean_wait} at a \
                   time; {who}.{losses}",
        fix: "Keep other threads off CPU {cpu}: {move_others}{reserve_cpu}",
        workaround: Some("{prefer_and}a larger ring or buffer absorbs {longest}, but adds latency"),
        wrong_if: STILL_WAITS,
        measure: "what ran instead, with scheduler tracepoints (as root)",
    },
    // Time slices are short if two threads wake each other, like a server and its client.
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(
                M::OthersInstead,
                0.1,
                "twice the smallest share that sampled accounting can resolve",
            ),
            at_most(M::MeanWait, SHORT_US, "longer waits are covered by another rule"),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.9, "below that, the thread has headroom"),
            at_most(M::HigherPriority, MUCH_BUSIER, HELPER),
            at_least(M::SleepsPerSecond, 100.0, "below that, the cause is short_interruptions"),
            at_least(M::IdleCpus, 0.3, "below that, other CPUs have no room for those programs"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::CpuToItself,
        then_limited_by: Next::Is("the peers, or the thread's own work"),
        sentence: "Thread {thread} waited {waiting} of the time for CPU {cpu}, {mean_wait} at a \
                   time, while other CPUs were idle; {who}.",
        fix: "Move the other programs to another CPU (taskset -acp CPUS PID), or move the thread \
              (taskset -cp CPUS {tid})",
        workaround: None,
        wrong_if: STILL_WAITS,
        measure: "what ran instead, with scheduler tracepoints (as root)",
    },
    // An unrelated program that a thread preempts at each wake-up runs in short time slices, too.
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(
                M::StrangersInstead,
                0.15,
                "three times the smallest share that CPU time accounting can resolve",
            ),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_most(M::IdleMeanwhile, 0.5, IDLE_SOURCE),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
            at_most(M::HigherPriority, MUCH_BUSIER, HELPER),
            at_least(
                M::SleepsOrKnowsPeers,
                1.0,
                "otherwise, short waits count as short_interruptions, or are due to UDP peers",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::CpuToItself,
        then_limited_by: Next::LoadOr("the thread's own work"),
        sentence: "Thread {thread} waited {waiting} of the time for CPU {cpu}, {mean_wait} at a \
                   time; {who}.",
        fix: "Keep other threads off CPU {cpu}: {move_others}",
        workaround: Some("{prefer}"),
        wrong_if: STILL_WAITS,
        measure: "what ran instead, with scheduler tracepoints (as root)",
    },
    // A client and a server that take turns on one CPU hardly wait for it.
    Rule {
        cause: Cause::CpuContention,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::PeersHere, 0.2, "20 % of the CPU"),
            at_most(M::IdleHere, 0.05, "fully busy, within the error of kernel accounting"),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
            at_least(M::IdleElsewhere, 0.5, "below that, no other CPU has room for the peers"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::SocketBuffer],
        gain: GainModel::PeersMove,
        then_limited_by: Next::Is("the peers, or the thread's own work"),
        sentence: "Thread {thread} shares CPU {cpu} with its peers on this machine, which take \
                   {peers_here} of that CPU, while another CPU is {idle_elsewhere} idle.",
        fix: "Move the peers to another CPU (taskset -acp CPUS PID), or move the thread (taskset \
              -cp CPUS {tid})",
        workaround: None,
        wrong_if: "with CPU {cpu} to itself, the rate rises by less than 10 %",
        measure: "the CPUs that the peers run on (ps -o pid,psr,comm -p PID)",
    },
    Rule {
        cause: Cause::ShortInterruptions,
        scope: Scope::Threads,
        conditions: &[
            at_least(
                M::WaitsPerSecond,
                1000.0,
                "timer ticks alone interrupt a thread 100 to 1000 times per second",
            ),
            at_most(M::MeanWait, SHORT_US, "the fair scheduler's time slices are at least 0.7 ms"),
            at_least(M::Waiting, 0.01, "equal to 1000 interruptions per second of 10 us each"),
            at_most(M::SleepsPerSecond, 100.0, "above that, the thread is woken, not interrupted"),
            at_most(
                M::UsesStack,
                0.0,
                "with kernel sockets, the thread is also interrupted by threads that its own \
                 packets wake",
            ),
            at_most(M::Throttled, VISIBLE, VISIBLE_SOURCE),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::TimeBack(ThreadState::Waiting),
        then_limited_by: Next::LoadOr("the thread's own work"),
        sentence: "Thread {thread} is interrupted {waits_per_s} times per second on CPU {cpu}, for \
                   {mean_wait} on average, which takes {waiting} of its time; {who}.",
        fix: "Keep timers and real-time threads off CPU {cpu}: {move_others}; booting with \
              nohz_full={cpu} stops the timer tick",
        workaround: None,
        wrong_if: "with timers and real-time threads on other CPUs, the thread is still preempted \
                   more than 1000 times per second",
        measure: "the length of each interruption, with scheduler tracepoints (as root)",
    },
    Rule {
        cause: Cause::CpuQuota,
        scope: Scope::Quotas,
        conditions: &[at_least(M::ThrottledPeriods, 0.05, "one quota period (100 ms) in 20")],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CpusWanted,
        then_limited_by: Next::Is("the number of CPUs or busy threads"),
        sentence: "The CPU quota of {quota} ({quota_cpus} CPUs) throttled the program in \
                   {throttled_periods} of the periods.{losses}",
        fix: "Raise the quota where it was set (--cpus for a container, CPUQuota= in a systemd \
              unit), or remove it: {no_quota}",
        workaround: Some(
            "use fewer threads, which exhaust the quota later in each period but get no more CPU \
             time",
        ),
        wrong_if: "with a higher quota, nr_throttled in cpu.stat still grows, or the rate stays \
                   the same",
        measure: "nr_throttled in the cgroup's cpu.stat",
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
        then_limited_by: Next::LoadOr("the thread's own work"),
        sentence: "The hypervisor did not schedule CPU {cpu} for {stolen} of the time while thread \
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
            at_least(
                M::ForeignPackets,
                0.5,
                "most packets received on that CPU belong to other programs",
            ),
        ],
        symptoms: 2,
        explained_by: &[Cause::CpuQuota, Cause::KernelOverhead],
        gain: GainModel::CostRemoved(M::ForeignOfRun, [0.5, 1.0, 1.5]),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Interrupts and softirqs took {interrupts} of the time while thread {thread} was \
                   on CPU {cpu}; {foreign} of the packets received there are for other programs.",
        fix: "Steer other programs' packets to other CPUs: set /proc/irq/N/smp_affinity, and \
              exclude CPU {cpu} from the queues' rps_cpus",
        workaround: Some("move the thread to a CPU that receives fewer packets (taskset -cp)"),
        wrong_if: "with other programs' packets received on other CPUs, the thread's throughput \
                   stays the same",
        measure: "the program's packets, in a dedicated network namespace, where they are not \
                  mixed with other programs' packets",
    },
    Rule {
        cause: Cause::SingleThread,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Busy, 0.85, "fully busy, within the 10 % error of kernel accounting"),
            at_most(M::Waiting, 0.15, "above that, the cause is cpu_contention"),
            at_most(M::WorkingThreads, 1.0, "the only thread doing work"),
            at_least(
                M::OfWork,
                0.6,
                "below that, the other threads combined use nearly as much CPU time",
            ),
            at_least(M::Pending, PENDING, PENDING_SOURCE),
            at_least(M::IdleCpus, 0.3, "below that, no CPU has room for a second thread"),
            at_least(
                M::Flows,
                1.5,
                "one flow cannot be split without reordering; below that, one flow has more than \
                 two thirds of the packets",
            ),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::CpuQuota,
            Cause::CpuContention,
            Cause::DescriptorLimit,
            Cause::InterruptLoad,
            Cause::SoftwareCrypto,
            Cause::PageFaults,
            Cause::ConnectionSetup,
            Cause::ChildProcesses,
        ],
        gain: GainModel::MoreCpus,
        then_limited_by: Next::Is("the number of CPUs or busy threads"),
        sentence: "Thread {thread} does most of the work and is busy {busy} of the time, while \
                   {idle_cpus} CPUs are idle.{idle_twins}{functions}",
        fix: "Let more threads or processes share the work (worker_processes, SO_REUSEPORT, RSS \
              queues), or find out where the thread's time goes: linerate profile {pid}{confined}",
        workaround: None,
        wrong_if: "with a second thread, the rate rises by less than 10 %",
        measure: "samples of the thread, to separate work from polling",
    },
];
