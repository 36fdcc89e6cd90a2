// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that put threads to sleep while packets wait: storage, timers, full pipes.

use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::requests::DELAYED;
use super::super::waits::Wait;
use super::{Condition, Next, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

/// If threads that do not sleep on timers use at least this fraction of the process's CPU time, a
/// thread that sleeps on timers is considered a background thread.
pub(in super::super) const BACKGROUND: f64 = 0.3;

/// Minimum fraction of time that a thread is stopped for the stops to count as a cause.
const STOPS: f64 = 0.05;
const STOPS_SOURCE: &str = "twice the sampling error of thread states";

/// Excludes background threads.
const NO_OTHER_WAITS: Condition = at_most(
    M::OthersAwaitInput,
    0.5,
    "if another thread is waiting for requests, this one may just be a background thread",
);

const MERELY_BACKGROUND: &str =
    "if other threads do most of the work, this is just a background thread";
const TAKE_SLEEP_OUT: &str = "Remove the sleep from the request path, or wait for the event \
                              instead (strace -f -e nanosleep,clock_nanosleep -p {tid} shows the \
                              sleeps)";

const CHILDREN_UNKNOWN: &str =
    "it is unknown how much of the child processes' CPU time is startup cost";
const KEEP_PROCESSES: &str = "Keep processes running and pass them the work (a pool of workers, \
                              FastCGI instead of CGI), call a library instead of a command, or \
                              let clients keep their connections (pgbouncer for PostgreSQL)";
const CHEAPER_START: &str = "posix_spawn or vfork instead of fork, and a small static executable, \
                             make each start cheaper";

const ON_TIMER: Condition =
    at_least(M::AsleepIn(Wait::Timer), 0.3, "otherwise the wait is not the bottleneck");
const NOT_ON_INPUT: Condition =
    at_most(M::AsleepIn(Wait::Input), 0.3, "the thread is not waiting for requests");
const NOT_POLLING: Condition = at_most(
    M::SleepsPerPacket,
    3.0,
    "a thread that polls for requests on a timer sleeps more often",
);
const WORKS_ALONE: Condition =
    at_most(M::WorkingThreads, 1.0, "no other thread works during the wait");

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::ChildProcesses,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::AsleepOnChildren, 0.3, "otherwise the wait is not the bottleneck"),
            at_least(M::ChildrenCpus, 0.1, "ten times the resolution of the kernel's accounting"),
            at_least(M::ChildrenShare, 0.3, "below that, most of the work is the program's own"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::Unknown(CHILDREN_UNKNOWN),
        then_limited_by: Next::Is("the work that the child processes did"),
        sentence: "Thread {thread} spends {on_children} of its time waiting for child processes \
                   that it starts one after another: they use {children_cpus} CPUs, \
                   {children_share} of the CPU time of {program}.",
        fix: KEEP_PROCESSES,
        workaround: Some(CHEAPER_START),
        wrong_if: "without the child processes, the rate rises by less than 10 %",
        measure: "strace -f -c -e trace=process",
    },
    Rule {
        cause: Cause::ChildProcesses,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::ExecsPerSecond, 3.0, "programs rarely call execve more than once"),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
            at_least(
                M::FaultsPerSecond,
                500.0,
                "0.1 % of a CPU; starting a program takes 50 faults or more",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        // Page faults are a part of the cost of a start; an interpreter also compiles and imports.
        gain: GainModel::AtLeast(&GainModel::CostRemoved(M::FaultTime, [0.5, 1.5, 4.0])),
        then_limited_by: Next::Is("the thread's work other than starting programs"),
        sentence: "{program} (thread {thread}) keeps executing itself or other programs: it calls \
                   execve at least {execs_per_s} times per second. Each \
                   call loads, links and initializes a program, which causes most of the {faults} \
                   page faults per second.",
        fix: "Keep the process running for more than one request or connection",
        workaround: Some(
            "a small static executable (no dynamic linking, little initialization) makes each \
             start cheaper",
        ),
        wrong_if: "without execve, the rate rises by less than 10 %",
        measure: "strace -f -c -e trace=process",
    },
    Rule {
        cause: Cause::ChildProcesses,
        scope: Scope::Program,
        conditions: &[
            at_least(M::ChildrenCpus, 0.3, "below that, the effect is negligible"),
            at_least(
                M::ChildrenShare,
                0.5,
                "most of the work is done in processes that end within the window",
            ),
            at_least(
                M::BriefProcesses,
                0.5,
                "a worker that is occasionally replaced also ends within the window",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::Unknown(CHILDREN_UNKNOWN),
        then_limited_by: Next::Is("the work that the child processes did"),
        sentence: "{program} starts short-lived processes, perhaps one per connection: they use \
                   {children_cpus} CPUs, {children_share} of the program's CPU time.",
        fix: KEEP_PROCESSES,
        workaround: Some(CHEAPER_START),
        wrong_if: "without the child processes, the rate rises by less than 10 %",
        measure: "strace -f -c -e trace=process",
    },
    // A program that starts a process for each datagram waits for it, so that the CPUs are idle.
    Rule {
        cause: Cause::ChildProcesses,
        scope: Scope::Sockets,
        conditions: &[
            at_least(M::SocketLoss, 0.01, "below that, the program keeps up"),
            at_least(M::ChildrenCpus, 0.1, "ten times the resolution of the kernel's accounting"),
            at_least(
                M::ProcessesPerDatagram,
                0.1,
                "below that, a timer may start the processes, for metrics or health checks",
            ),
            at_least(
                M::ChildrenShare,
                0.5,
                "most of the work is done in processes that end within the window",
            ),
            at_least(
                M::BriefProcesses,
                0.5,
                "a worker that is occasionally replaced also ends within the window",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::Unknown(CHILDREN_UNKNOWN),
        then_limited_by: Next::Is("the work that the child processes did"),
        sentence: "{socket} dropped {drops} packets while {program} started processes that ended \
                   soon after, perhaps one per packet: they used {children_share} of its CPU time \
                   ({children_cpus} CPUs).",
        fix: KEEP_PROCESSES,
        workaround: Some(CHEAPER_START),
        wrong_if: "without the child processes, just as many packets are dropped",
        measure: "strace -f -c -e trace=process",
    },
    Rule {
        cause: Cause::Tracing,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Stopped), STOPS, STOPS_SOURCE),
            at_least(M::IsTraced, 1.0, "it is the tracer that stops the thread, not a signal"),
        ],
        symptoms: 0,
        explained_by: &[],
        // Each stop also costs switches to the tracer and back, and cold caches.
        gain: GainModel::AtLeast(&GainModel::WaitRemoved(Wait::Stopped)),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "{tracer} traces thread {thread}, which is stopped {stopped} of the time: a \
                   tracer such as strace, ltrace or a debugger stops the thread at each system \
                   call or breakpoint.",
        fix: "{end_tracer}",
        workaround: Some(
            "strace --seccomp-bpf -e trace=CALLS stops the thread at these calls only",
        ),
        wrong_if: "without the tracer, the rate rises by less than 10 %",
        measure: "TracerPid in /proc/PID/status",
    },
    Rule {
        cause: Cause::Stopped,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Stopped), STOPS, STOPS_SOURCE),
            at_most(M::IsTraced, 0.0, "a traced thread is stopped by its tracer"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::NotStopped,
        then_limited_by: Next::LoadOr("the thread's own work"),
        sentence: "Thread {thread} is stopped {stopped} of the time, {stopped_by}.",
        fix: "{resume}",
        workaround: None,
        wrong_if: "without the stops, the rate rises by less than 10 %",
        measure: "the state of the threads (ps -o pid,stat,comm)",
    },
    Rule {
        cause: Cause::SlowReceiver,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepInPipe, 0.3, "otherwise the wait is not the bottleneck"),
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
            NO_OTHER_WAITS,
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} sleeps {in_pipe} of the time in {pipe}: the process at the \
                   other end reads more slowly than the program writes.",
        fix: "Write less (a lower log level), make the reader faster (lsof -p {pid} +E shows which \
              process it is), or write from a dedicated thread that drops messages while the \
              buffer is full",
        workaround: Some(
            "a larger buffer absorbs bursts (F_SETPIPE_SZ for a pipe, SO_SNDBUF for a socket)",
        ),
        wrong_if: "with output to /dev/null, or to a reader that discards everything at once, the \
                   rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::WaitingForStorage,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Storage), 0.1, "below that, the gain is within the noise"),
            WORKS_ALONE,
            NO_OTHER_WAITS,
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::WaitRemoved(Wait::Storage),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} waits for storage {on_storage} of the time, mostly in \
                   {storage}, while no other thread does much work.",
        fix: "{storage_fix}",
        workaround: Some(
            "a faster disk, or tmpfs for data that need not survive, shortens each \
                          wait",
        ),
        wrong_if: "with the file on tmpfs, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::WaitingForStorage,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepIn(Wait::Storage), 0.3, "otherwise the wait is not the bottleneck"),
            at_least(M::WorkingThreads, 2.0, "several threads do work"),
            at_least(M::IdleCpus, 0.2, "below that, the CPUs are the bottleneck"),
            NO_OTHER_WAITS,
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the threads' own work, or the disk"),
        sentence: "Threads of {program} wait for storage: thread {thread} does so {on_storage} \
                   of the time, mostly in {storage}.",
        fix: "{storage_fix}",
        workaround: Some("more threads keep more reads or writes in flight"),
        wrong_if: "with the file on tmpfs, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::WaitingForStorage,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::StoragePerClient, 0.5, "at least half of the requests wait for storage"),
            at_least(M::AsleepIn(Wait::Storage), 0.05, "twice the sampling error"),
            at_least(
                M::RepliesDelayed,
                DELAYED,
                "below that, the program's own work may account for the delay",
            ),
            at_most(M::AwaitingServers, 0.3, "above that, requests wait for other servers"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::UserLock],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the threads' own work, or the disk"),
        sentence: "Threads of {program} wait for storage while clients wait for replies \
                   ({storage_per_client} threads per waiting client): thread {thread} does so \
                   {on_storage} of the time, mostly in {storage}.",
        fix: "{storage_fix}",
        workaround: Some("more threads keep more reads or writes in flight"),
        wrong_if: "with the file on tmpfs, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::WaitingForStorage,
        scope: Scope::Program,
        conditions: &[
            at_least(M::MajorFaultsPerSecond, 100.0, "at 0.1 ms per read, this is 1 % of the time"),
            at_least(M::AsleepInFaults, 0.1, "below that, the gain is within the noise"),
            at_least(M::IdleCpus, 0.2, "below that, the CPUs are the bottleneck"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::StallRemoved(M::AsleepInFaults),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} sleeps {in_faults} of the time in major page faults \
                   ({major_faults} per second): it uses a mapped file that is not in memory, or \
                   memory that was swapped out, and each fault reads from disk.",
        fix: "Read the file ahead (MADV_WILLNEED, vmtouch -t); if memory was evicted (swap, or \
              memory.max in the cgroup), allow the program more memory or make it use less; mlock \
              keeps hot data in memory",
        workaround: Some("a faster disk or zram shortens each fault"),
        wrong_if: "with enough memory, major faults disappear, but the rate rises by less than \
                   10 %",
        measure: "major faults in /proc/PID/stat",
    },
    Rule {
        cause: Cause::SlowReceiver,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepInSend, 0.3, "otherwise the wait is not the bottleneck"),
            at_least(
                M::RequestsUnread,
                0.5,
                "other requests are waiting in at least half of the readings",
            ),
            WORKS_ALONE,
            NO_OTHER_WAITS,
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} sleeps {in_send} of the time in {send}, because the peer of \
                   this connection reads slowly; meanwhile, requests wait unread on other \
                   connections.",
        fix: "Use non-blocking sockets (O_NONBLOCK with epoll) or a thread per connection, so that \
              one slow peer does not hold up the others; limit the amount of data queued per peer",
        workaround: Some("disconnect peers that do not read (SO_SNDTIMEO, TCP_USER_TIMEOUT)"),
        wrong_if: "without that peer, the other requests wait as long as before",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Listeners,
        conditions: &[
            at_least(
                M::QueueWaits,
                0.5,
                "connections are waiting in at least half of the readings",
            ),
            ON_TIMER,
            at_most(M::AsleepIn(Wait::Input), 0.3, "the thread is not waiting for connections"),
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
            NO_OTHER_WAITS,
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::DescriptorLimit],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::LoadOr("the accepting thread"),
        sentence: "Thread {thread} sleeps on a timer {on_timer} of the time, while connections \
                   wait in the accept queue of {socket}.",
        fix: "Remove the sleep from the code that handles connections, or handle them in other \
              threads or processes (strace -f -e nanosleep,clock_nanosleep -p {tid} shows the \
              sleeps)",
        workaround: Some("a longer accept queue loses fewer connections, but they wait longer"),
        wrong_if: "with the sleep removed or halved, just as many connections are waiting",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Program,
        conditions: &[
            ON_TIMER,
            NOT_ON_INPUT,
            at_least(M::Answers, 1.0, "with requests and replies, the peer waits during the sleep"),
            at_least(M::SleepsPerPacket, 0.1, "at least one sleep per ten packets"),
            NOT_POLLING,
            WORKS_ALONE,
            NO_OTHER_WAITS,
            at_most(M::WorkWithoutTimers, BACKGROUND, MERELY_BACKGROUND),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::RateLimiter],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Next::Is("the thread's own work, or the peer"),
        sentence: "Thread {thread} sleeps on a timer {on_timer} of the time ({sleeps_per_packet} \
                   times per packet), while the peer waits for a reply.",
        fix: TAKE_SLEEP_OUT,
        workaround: Some("use more connections or threads, so that several sleeps overlap"),
        wrong_if: "with the sleep removed or halved, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
    // A server that sends at fixed times, such as a mixer of calls, drains the queue each time.
    Rule {
        cause: Cause::TimerSleep,
        scope: Scope::Sockets,
        conditions: &[
            ON_TIMER,
            NOT_ON_INPUT,
            at_least(
                M::AnswersDatagrams,
                1.0,
                "with requests and replies, the peers wait during the sleep",
            ),
            at_least(M::QueueWaits, 0.85, "a request is waiting during nearly every sleep"),
            at_least(M::SleepsPerPacket, 0.8, "about one sleep per request"),
            NOT_POLLING,
            WORKS_ALONE,
            NO_OTHER_WAITS,
            at_most(M::WorkWithoutTimers, BACKGROUND, MERELY_BACKGROUND),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::RateLimiter],
        gain: GainModel::UntilCpuIsFull,
        then_limited_by: Next::Is("the thread's own work, or the peers"),
        sentence: "{socket} has requests waiting while thread {thread} sleeps on a timer \
                   ({on_timer} of the time, {sleeps_per_packet} sleeps per datagram).",
        fix: TAKE_SLEEP_OUT,
        workaround: Some("use more sockets or threads, so that several sleeps overlap"),
        wrong_if: "with the sleep removed or halved, the rate rises by less than 10 %",
        measure: "/proc/PID/task/TID/syscall, sampled",
    },
];
