// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that increase the CPU time per packet.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::{Measure as M, PENDING};
use super::loss::{OWN, OWN_SOURCE};
use super::{
    A_TENTH, Condition, KERNEL_SAMPLES, Next, PENDING_SOURCE, Rule, Scope, at_least, at_most,
};
use linerate_record::why::Cause;

/// Causes more specific than `processing_cost`, which merely says that the program's own work takes
/// all the time. If one of them is found, `processing_cost` is not reported.
const SPECIFIC: &[Cause] = &[
    Cause::SystemCalls,
    Cause::SoftwareChecksum,
    Cause::NoSegmentation,
    Cause::Copying,
    Cause::PageFaults,
    Cause::GarbageCollection,
    Cause::KernelLock,
    Cause::UserLock,
    Cause::SoftwareCrypto,
    Cause::FirewallRules,
    Cause::ConnectionSetup,
    Cause::ChildProcesses,
    Cause::SingleThread,
    Cause::CpuContention,
    Cause::CpuQuota,
    Cause::StolenCpu,
    Cause::InterruptLoad,
    Cause::ShortInterruptions,
    Cause::CacheMisses,
    Cause::FalseSharing,
    Cause::OneReceiveCpu,
    Cause::DescriptorLimit,
    Cause::KernelOverhead,
    Cause::BriefThreads,
];

const FULL: &str = "fully busy, within the 10 % error of kernel accounting";
const IN_KERNEL: &str = "40 % of the CPU time";
/// Minimum kernel fraction of the CPU time of a program that mostly makes system calls. A sender of
/// small datagrams in C spends 85 % or more in the kernel.
const MOSTLY_KERNEL: f64 = 0.6;
/// Excludes waits for a lock whose holder waits for a CPU.
const HOLDERS_RUN: Condition = at_most(
    M::Waiting,
    0.2,
    "if threads wait for CPUs longer than that, so do the threads that hold the lock",
);
const FIND_LOCK: &str = "Find the lock (sudo perf lock contention -ab -p {pid}). If it protects a \
                         queue, use one queue per thread (mq or noqueue instead of a single qdisc, \
                         SO_REUSEPORT, XPS); if it protects memory mappings, avoid mmap, munmap \
                         and mprotect per request";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Threads,
        conditions: &[
            at_least(
                M::KernelShare,
                MOSTLY_KERNEL,
                "below that, the program's own work takes nearly as long as the calls",
            ),
            at_least(M::Saturation, 0.85, FULL),
            at_least(M::PacketRate, 10_000.0, "at 0.3 us per call, this is 0.3 % of a CPU"),
            at_most(M::BytesPerPacket, 9000.0, "above that, copying dominates"),
            at_least(
                M::Datagrams,
                1.0,
                "on a stream, the number of calls depends on requests, not packets",
            ),
            at_least(M::CallsPerPacket, 0.8, "about one packet per call: no batching"),
        ],
        symptoms: 5,
        explained_by: &[
            Cause::PageFaults,
            Cause::SoftwareChecksum,
            Cause::NoSegmentation,
            Cause::SoftwareCrypto,
            Cause::ConnectionSetup,
            Cause::FirewallRules,
            Cause::KernelLock,
            Cause::KernelOverhead,
            Cause::BriefThreads,
        ],
        gain: GainModel::CostRemoved(M::CallTime, [0.5, 0.9, 2.0]),
        then_limited_by: Next::Is("the kernel's cost per packet"),
        sentence: "Thread {thread} makes {calls} {per_packet} and spends {kernel} of \
                   its CPU time in the kernel.{other_calls_too}",
        fix: "Send and receive in batches, with sendmmsg and recvmmsg, UDP_SEGMENT or io_uring",
        workaround: None,
        wrong_if: "with 32 packets per call, the rate rises by less than 5 %",
        measure: "the number of system calls, with the tracepoint raw_syscalls:sys_enter (as root) \
                  or `strace -c -f -p PID`",
    },
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.85, FULL),
            at_least(M::CallsPerSecond, 10_000.0, "at 0.3 us per call, this is 0.3 % of a CPU"),
            at_most(M::BytesPerCall, 1000.0, "less than one TCP segment"),
            at_least(M::OneWay, 0.99, "request-reply traffic cannot be combined into larger calls"),
        ],
        symptoms: 0,
        explained_by: &[
            Cause::PageFaults,
            Cause::SoftwareCrypto,
            Cause::ConnectionSetup,
            Cause::FirewallRules,
            Cause::KernelLock,
        ],
        gain: GainModel::LargerCalls,
        then_limited_by: Next::Is("the kernel's cost per byte"),
        sentence: "Thread {thread} makes {calls_per_s} system calls per second, each for \
                   {bytes_per_call} bytes, and spends {kernel} of its CPU time in the kernel.",
        fix: "Read and write in blocks of 16 KiB or more",
        workaround: Some("MSG_MORE or TCP_CORK saves segments, but not system calls"),
        wrong_if: "with 16 KiB per call, the rate rises by less than 20 %",
        measure: "the number of system calls, with `strace -c -f -p PID`",
    },
    Rule {
        cause: Cause::Copying,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.6, "below that, the effect is negligible"),
            at_least(
                M::BytesPerPacket,
                200.0,
                "the per-byte cost of smaller packets is negligible",
            ),
            at_least(
                M::MaxBytesPerCall,
                200.0,
                "in calls with less data, per-call overhead exceeds the cost of moving the bytes",
            ),
            at_least(M::Functions(Group::KernelCopy), 0.1, A_TENTH),
        ],
        symptoms: 2,
        explained_by: &[Cause::SoftwareChecksum, Cause::NoSegmentation],
        gain: GainModel::CostRemoved(M::Functions(Group::KernelCopy), [0.0, 0.7, 2.0]),
        then_limited_by: Next::Is("the kernel's cost per packet"),
        sentence: "Thread {thread} spends {kernel_copy} of its CPU time copying data between \
                   user and kernel space.",
        fix: "Avoid the copy: send with sendfile, splice or MSG_ZEROCOPY, and receive with \
              TCP_ZEROCOPY_RECEIVE or AF_XDP (on loopback, MSG_ZEROCOPY copies too)",
        workaround: Some("buffers of 64 to 256 KiB stay in the L2 cache and are copied faster"),
        wrong_if: "with sendfile or MSG_ZEROCOPY (to send) or TCP_ZEROCOPY_RECEIVE (to receive), \
                   the copy functions stay in the profile",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::KernelLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.5, "below that, the effect is negligible"),
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
            HOLDERS_RUN,
            at_least(M::LockWait, 0.05, "twice the error of the kernel's sampled accounting"),
        ],
        symptoms: 4,
        explained_by: &[Cause::UserLock],
        gain: GainModel::CostRemoved(M::LockWaitOfRun, [0.3, 1.0, 2.0]),
        then_limited_by: Next::Is("the work done under the lock"),
        sentence: "Thread {thread} spends {lock_wait} of its time waiting for kernel locks held by \
                   other threads: adding threads does not raise the rate.",
        fix: FIND_LOCK,
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the rate falls by more than 20 %",
        measure: "kernel lock waits (as root), or the rate with one thread",
    },
    Rule {
        cause: Cause::KernelLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::KernelLock), 0.1, A_TENTH),
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
            HOLDERS_RUN,
        ],
        symptoms: 0,
        explained_by: &[Cause::UserLock],
        gain: GainModel::CostRemoved(M::Functions(Group::KernelLock), [0.3, 1.0, 2.0]),
        then_limited_by: Next::Is("the work done under the lock"),
        sentence: "Thread {thread} spends {kernel_lock} of its time waiting for kernel locks.",
        fix: FIND_LOCK,
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the rate falls by more than 20 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Program,
        conditions: &[
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
            at_least(M::AsleepOnFutex, 0.05, "twice the sampling error of thread states"),
            at_most(M::AsleepOnFutex, 0.8, "an idle thread pool sleeps on futexes too"),
            at_least(
                M::SleepsPerSecond,
                1000.0,
                "contention causes many short sleeps, whereas idling causes few long ones",
            ),
            at_least(
                M::AsleepOnMutex,
                0.05,
                "idle threads of a pool sleep on a condition variable, not on a mutex",
            ),
        ],
        symptoms: 4,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::AsleepOnMutex, [0.2, 0.7, 1.5]),
        then_limited_by: Next::Is("the work done under the lock"),
        sentence: "Threads contend for a user-space lock: they spend {on_mutex} of their time in \
                   short sleeps on mutexes.",
        fix: "Split the lock (one per thread or per table shard), or use per-thread data",
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the rate falls by more than 20 %",
        measure: "futex calls, with `perf trace -s -p PID` or `strace -c -f -e futex -p PID`",
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Program,
        conditions: &[
            at_least(M::LockQueue, 0.5, "below that, the effect is negligible"),
            at_most(M::Demand, 0.7, "above that, CPU time matters more than the wait for the lock"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::LockReleased,
        then_limited_by: Next::Is("the work that the threads do under the lock"),
        sentence: "Threads of {program} wait for a lock or semaphore: on average, {lock_queue} of \
                   them sleep in {lock_call}{lock_holder}.",
        fix: "{lock_fix}",
        workaround: Some("speed up the work done under the lock"),
        wrong_if: "with a single worker thread, the rate falls by more than 10 %",
        measure: "futex calls and their durations, with `strace -f -T -e futex -p PID`",
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::UserLock), 0.1, A_TENTH),
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
            at_least(M::AsleepOnMutex, 0.005, "threads that wait for a lock sleep now and then"),
        ],
        symptoms: 2,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::Functions(Group::UserLock), [0.2, 0.7, 1.5]),
        then_limited_by: Next::Is("the work done under the lock"),
        sentence: "Thread {thread} spends {user_lock} of its time in user-space lock functions.",
        fix: "Split the lock (one per thread or per table shard), or use per-thread data",
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the lock disappears from the profile and the rate falls",
        measure: "futex calls, with `strace -c -f -e futex -p PID`",
    },
    // Locks that spin, and those that call a function of their own when they have to wait.
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::UserLockWait), 0.1, A_TENTH),
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::Functions(Group::UserLockWait), [0.2, 0.7, 1.5]),
        then_limited_by: Next::Is("the work done under the lock"),
        sentence: "Thread {thread} spends {user_lock_wait} of its time waiting for user-space \
                   locks.",
        fix: "Split the lock (one per thread or per table shard), or use per-thread data",
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the lock disappears from the profile and the rate falls",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::SoftwareCrypto,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::CryptoLibrary, 0.2, "20 % of the samples"),
            at_least(
                M::CryptoPerByte,
                2.0,
                "with AES-NI or ARMv8 instructions, AES-GCM takes 0.1 to 0.5 ns per byte (AES-CBC \
                 with SHA-256 takes 1.3 ns, measured); without them, AES-GCM takes \
                 3 to 15 ns",
            ),
            at_least(
                M::BytesPerConnection,
                100_000.0,
                "below that, the handshake's public-key operations dominate",
            ),
            at_most(
                M::CipherInstructions,
                0.05,
                "accelerated AES-GCM or SHA-256 code has at least 20 % of its samples on the CPU's \
                 crypto instructions",
            ),
        ],
        symptoms: 2,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::CryptoLibrary, [0.1, 0.85, 0.97]),
        then_limited_by: Next::Is("the rest of the thread's work"),
        sentence: "Thread {thread} spends {crypto} of its time in ciphers and hashes \
                   ({crypto_per_byte} ns per byte), and does not use the CPU's crypto \
                   instructions.",
        fix: "Unset OPENSSL_ia32cap; in a guest, expose AES and PCLMULQDQ (-cpu host); choose \
              AES-GCM on CPUs with AES instructions, and ChaCha20 on others",
        workaround: Some(
            "without AES instructions, ChaCha20-Poly1305 is 3 to 5 times as fast as \
                          AES",
        ),
        wrong_if: "`openssl speed -evp aes-128-gcm` reaches 2 GB/s in the program's environment",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::SoftwareCrypto,
        scope: Scope::Threads,
        conditions: &[at_least(M::Functions(Group::SoftwareCrypto), 0.1, A_TENTH)],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::SoftwareCrypto), [0.3, 0.85, 0.97]),
        then_limited_by: Next::Is("the rest of the thread's work"),
        sentence: "Thread {thread} spends {soft_crypto} of its time in software ciphers.",
        fix: "Unset OPENSSL_ia32cap; in a guest, expose AES and PCLMULQDQ (-cpu host)",
        workaround: Some(
            "without AES instructions, ChaCha20-Poly1305 is 3 to 5 times as fast as \
                          AES",
        ),
        wrong_if: "with AES instructions available, the software ciphers are still in the profile",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::Tracing,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::Probe), 0.1, A_TENTH),
            at_least(
                M::Functions(Group::ProbeEntry),
                0.005,
                "other kernel code unwinds stacks too, but does not enter attached programs",
            ),
            at_least(M::Demand, 0.3, "below that, the thread has headroom"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::Probe), [0.5, 1.0, 2.0]),
        then_limited_by: Next::Is("the thread's own work"),
        sentence: "Thread {thread} spends {probe} of its time in probes that another tool has \
                   attached to the kernel (bpftrace, bcc, a monitoring or security agent).",
        fix: "Find the tool (sudo bpftool perf lists attached programs with their processes), and \
              stop it or make it do less: fewer probes, a filter by PID, counts instead of stack \
              traces",
        workaround: None,
        wrong_if: "with no program attached (sudo bpftool perf), the rate rises by less than 5 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::FirewallRules,
        scope: Scope::Threads,
        conditions: &[at_least(M::Functions(Group::Firewall), 0.1, A_TENTH)],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::Firewall), [0.5, 0.9, 2.0]),
        then_limited_by: Next::Is("the rest of the kernel's per-packet work"),
        sentence: "Thread {thread} spends {firewall} of its time in firewall rules.",
        fix: "Match addresses and ports with an nft set or map, or bypass the rules with a \
              flowtable",
        workaround: Some("put the rules that match most packets first"),
        wrong_if: "with the rules removed, the rate rises by less than 10 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::FirewallRules,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::CpuFunctions(Group::Firewall), 0.1, "10 % of a CPU"),
            at_least(M::CpuUsed, 0.5, "a CPU that is less than half busy has headroom"),
            at_least(M::OwnOfReceived, OWN, OWN_SOURCE),
        ],
        symptoms: 2,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::FirewallOfUsed, [0.3, 0.9, 2.0]),
        then_limited_by: Next::Is("the rest of the kernel's per-packet work"),
        sentence: "CPU {cpu} spends {cpu_firewall} of its time evaluating firewall rules for the \
                   packets it receives.",
        fix: "Match addresses and ports with an nft set or map, or bypass the rules with a \
              flowtable",
        workaround: Some("put the rules that match most packets first"),
        wrong_if: "with the rules removed, the rate rises by less than 10 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::CommonBytes, 0.1, A_TENTH),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
            at_least(M::WorkingThreads, 2.0, "contention needs two threads"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::FalseSharing],
        gain: GainModel::CostRemoved(M::CommonBytes, [0.0, 0.5, 1.0]),
        then_limited_by: Next::Is("the rest of the thread's work"),
        sentence: "{common} of the samples of thread {thread} hit bytes that another thread also \
                   uses, and to which at least one of the two threads writes (a spinlock or a \
                   shared counter): {line}.",
        fix: "Split the lock or the counter: give each thread its own, and sum the counters on \
              read",
        workaround: Some("use fewer threads to reduce contention"),
        wrong_if: "with one thread, the rate per thread rises by less than 5 %",
        measure: "accesses to shared cache lines, with perf c2c on a machine with hardware \
                  counters",
    },
    Rule {
        cause: Cause::ProcessingCost,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Saturation, 0.85, FULL),
            at_most(M::Waiting, 0.15, "above that, the cause is cpu_contention"),
            at_least(M::PacketRate, 1.0, "packets must be flowing"),
            at_least(M::Pending, PENDING, PENDING_SOURCE),
            at_most(M::KernelShare, 0.4, "above that, the kernel's work dominates"),
            at_least(M::NamedFunctions, 0.5, "without symbols, copies look like packet processing"),
            at_most(
                M::Functions(Group::UserCopy),
                0.25,
                "above that, copies may be stalled on memory",
            ),
        ],
        symptoms: 0,
        explained_by: SPECIFIC,
        gain: GainModel::Unknown("it is unknown how much of the work is avoidable"),
        then_limited_by: Next::Is("the rest of the per-packet work"),
        sentence: "Thread {thread} processes packets {busy} of the time, at {cost} per \
                   packet.{functions} Without hardware counters, stalls on cache misses cannot be \
                   distinguished from instruction execution.",
        fix: "Reduce the cost per packet, or spread the packets over more threads",
        workaround: None,
        wrong_if: "at half the offered load, the thread is still 100 % busy (that is, it polls)",
        measure: "cache misses, with `linerate stat --pid PID -m cache` on a machine with hardware \
                  counters",
    },
];
