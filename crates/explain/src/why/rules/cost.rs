// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that make a packet cost more CPU time.

use super::super::functions::Group;
use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::{Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

/// All causes of this file and of the offloads: where one of them is found, the general answer
/// "its own work" says less.
const SPECIFIC: &[Cause] = &[
    Cause::SystemCalls,
    Cause::SoftwareChecksum,
    Cause::NoSegmentation,
    Cause::Copying,
    Cause::PageFaults,
    Cause::KernelLock,
    Cause::UserLock,
    Cause::SoftwareCrypto,
    Cause::FirewallRules,
    Cause::ConnectionSetup,
    Cause::SingleThread,
    Cause::CpuContention,
    Cause::CpuQuota,
    Cause::StolenCpu,
    Cause::InterruptLoad,
    Cause::ShortInterruptions,
    Cause::CacheMisses,
    Cause::FalseSharing,
    Cause::OneReceiveCpu,
];

const FULL: &str = "100 %, within the 10 % error of kernel accounts";
const IN_KERNEL: &str = "two fifths of the time on a CPU";
const A_TENTH: &str = "a tenth of the samples";
const KERNEL_SAMPLES: &str = "kernel samples: sysctl kernel.perf_event_paranoid=1, or as root";

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.85, FULL),
            at_least(M::PacketRate, 10_000.0, "at 0.3 us a call, 0.3 % of a CPU"),
            at_most(M::BytesPerPacket, 9000.0, "above that, copying dominates"),
            at_least(M::Datagrams, 1.0, "calls of a stream are those of its requests"),
            at_least(M::CallsPerPacket, 0.8, "a batch of one"),
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
        ],
        gain: GainModel::CostRemoved(M::CallTime, [0.5, 0.9, 2.0]),
        then_limited_by: Some("the cost of a packet in the kernel"),
        sentence: "Thread {thread} makes {calls} system calls per packet and spends {kernel} of \
                   its \
                   time on a CPU in the kernel.",
        fix: "Send and receive in batches: sendmmsg and recvmmsg, UDP_SEGMENT, io_uring",
        workaround: None,
        wrong_if: "with 32 packets per call, the rate rises by less than 5 %",
        measure: "system calls, by raw_syscalls:sys_enter as root, or `strace -c -f -p PID`",
    },
    Rule {
        cause: Cause::SystemCalls,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.85, FULL),
            at_least(M::CallsPerSecond, 10_000.0, "at 0.3 us a call, 0.3 % of a CPU"),
            at_most(M::BytesPerCall, 1000.0, "less than a segment"),
            at_least(M::OneWay, 0.9, "requests and answers cannot be joined"),
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
        then_limited_by: Some("the cost of a byte in the kernel"),
        sentence: "Thread {thread} makes {calls_per_s} system calls per second for \
                   {bytes_per_call} bytes each, and spends {kernel} of its time on a CPU in the \
                   kernel.",
        fix: "Read and write in blocks of 16 KiB or more",
        workaround: Some("MSG_MORE or TCP_CORK saves segments, but not calls"),
        wrong_if: "with 16 KiB per call, the rate rises by less than 20 %",
        measure: "system calls, by `strace -c -f -p PID`",
    },
    Rule {
        cause: Cause::Copying,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.6, "below that, the effect is negligible"),
            at_least(M::Functions(Group::KernelCopy), 0.1, A_TENTH),
        ],
        symptoms: 2,
        explained_by: &[Cause::SoftwareChecksum, Cause::NoSegmentation],
        gain: GainModel::CostRemoved(M::Functions(Group::KernelCopy), [0.0, 0.7, 2.0]),
        then_limited_by: Some("the cost of a packet in the kernel"),
        sentence: "Copying between user and kernel takes {kernel_copy} of the time of thread \
                   {thread}.",
        fix: "Avoid the copy: sendfile, splice or MSG_ZEROCOPY to send, \
              TCP_ZEROCOPY_RECEIVE or AF_XDP to receive",
        workaround: Some("buffers of 64 to 256 KiB stay in the L2 cache and are copied faster"),
        wrong_if: "with MSG_ZEROCOPY (iperf3 -Z), the copy functions stay in the profile",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::PageFaults,
        scope: Scope::Program,
        conditions: &[
            at_least(M::FaultsPerSecond, 2000.0, "at 3 us each, 0.6 % of a CPU"),
            at_least(M::FaultTime, 0.01, "a hundredth of a CPU, at the cheapest"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::FaultTime, [1.0, 1.0, 1.2]),
        then_limited_by: Some("the thread's own work"),
        sentence: "{faults} page faults per second take an estimated {fault_time} of a CPU: memory \
                   is constantly allocated from the kernel and returned.",
        fix: "Reuse memory: MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ unset or large, a \
              pool, MAP_POPULATE",
        workaround: Some("huge pages reduce faults by a factor of 512"),
        wrong_if: "with memory reused, minor faults of /proc/PID/stat fall and the rate does not \
                   rise",
        measure: "minor faults of /proc/PID/stat",
    },
    Rule {
        cause: Cause::KernelLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::KernelShare, 0.4, IN_KERNEL),
            at_least(M::Saturation, 0.5, "below that, the effect is negligible"),
            at_least(M::WorkingThreads, 2.0, "it takes two to contend"),
            at_least(M::LockWait, 0.05, "twice the error of the kernel's sampled accounts"),
        ],
        symptoms: 3,
        explained_by: &[Cause::UserLock],
        gain: GainModel::CostRemoved(M::LockWaitOfRun, [0.3, 1.0, 2.0]),
        then_limited_by: Some("the work under the lock"),
        sentence: "Thread {thread} waits {lock_wait} of its time for kernel locks held by other \
                   threads: more threads do not raise the rate.",
        fix: "Give each thread its own queue: mq or noqueue in place of one qdisc, SO_REUSEPORT, \
              XPS",
        workaround: Some("fewer threads, which then contend less"),
        wrong_if: "with one thread, the rate falls by more than 20 %",
        measure: "waits for kernel locks, as root, or the rate with one thread",
    },
    Rule {
        cause: Cause::KernelLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::KernelLock), 0.1, A_TENTH),
            at_least(M::WorkingThreads, 2.0, "it takes two to contend"),
        ],
        symptoms: 0,
        explained_by: &[Cause::UserLock],
        gain: GainModel::CostRemoved(M::Functions(Group::KernelLock), [0.3, 1.0, 2.0]),
        then_limited_by: Some("the work under the lock"),
        sentence: "Waiting for kernel locks takes {kernel_lock} of the time of thread {thread}.",
        fix: "Give each thread its own queue: mq or noqueue in place of one qdisc, SO_REUSEPORT, \
              XPS",
        workaround: Some("fewer threads, which then contend less"),
        wrong_if: "with one thread, the rate falls by more than 20 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Program,
        conditions: &[
            at_least(M::WorkingThreads, 2.0, "it takes two to contend"),
            at_least(M::AsleepOnFutex, 0.05, "twice the error of states that are sampled"),
            at_most(M::AsleepOnFutex, 0.8, "a pool of idle threads sleeps on futexes, too"),
            at_least(
                M::SleepsPerSecond,
                1000.0,
                "contention causes short sleeps, idling long ones",
            ),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::AsleepOnFutex, [0.2, 0.7, 1.5]),
        then_limited_by: Some("the work under the lock"),
        sentence: "Threads contend for a user-space lock: {futex} of their time asleep in futex, \
                   in short sleeps.",
        fix: "Split the lock: one per thread or per shard of the table, or per-thread data",
        workaround: Some("fewer threads, which then contend less"),
        wrong_if: "with one thread, futex disappears and the rate falls by more than 20 %",
        measure: "`perf trace -s -p PID` or `strace -c -f -e futex`",
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Functions(Group::UserLock), 0.1, A_TENTH),
            at_least(M::WorkingThreads, 2.0, "it takes two to contend"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota],
        gain: GainModel::CostRemoved(M::Functions(Group::UserLock), [0.2, 0.7, 1.5]),
        then_limited_by: Some("the work under the lock"),
        sentence: "User-space locks take {user_lock} of the time of thread {thread}.",
        fix: "Split the lock: one per thread or per shard of the table, or per-thread data",
        workaround: Some("fewer threads, which then contend less"),
        wrong_if: "with one thread, the lock disappears from the profile and the rate falls",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::SoftwareCrypto,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::CryptoLibrary, 0.2, "a fifth of the samples"),
            at_least(
                M::CryptoPerByte,
                2.0,
                "with AES-NI or ARMv8 instructions AES-GCM takes 0.1 to 0.5 ns per byte, and \
                     1.3 was measured of AES-CBC with SHA-256; 3 to 15 without",
            ),
            at_least(M::BytesPerConnection, 100_000.0, "less is the handshake's public keys"),
            at_most(
                M::CipherInstructions,
                0.05,
                "a fifth and more of the samples of AES-GCM or SHA-256 that use them",
            ),
        ],
        symptoms: 2,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::CryptoLibrary, [0.1, 0.85, 0.97]),
        then_limited_by: Some("the rest of the thread's work"),
        sentence: "Ciphers and hashes take {crypto} of the time of thread {thread}, \
                   {crypto_per_byte} ns per byte, and do not use the CPU's instructions for them.",
        fix: "Unset OPENSSL_ia32cap; in a guest, pass AES and PCLMULQDQ on (-cpu host); choose \
              AES-GCM on CPUs with AES instructions, ChaCha20 on others",
        workaround: Some("ChaCha20-Poly1305 needs 3 to 5 times less time than AES without them"),
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
        then_limited_by: Some("the rest of the thread's work"),
        sentence: "Software ciphers take {soft_crypto} of the time of thread {thread}.",
        fix: "Unset OPENSSL_ia32cap; in a guest, pass AES and PCLMULQDQ on (-cpu host)",
        workaround: Some("ChaCha20-Poly1305 needs 3 to 5 times less time than AES without them"),
        wrong_if: "the functions stay in the profile with the instructions available",
        measure: "user-mode samples",
    },
    Rule {
        cause: Cause::FirewallRules,
        scope: Scope::Threads,
        conditions: &[at_least(M::Functions(Group::Firewall), 0.1, A_TENTH)],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::Functions(Group::Firewall), [0.5, 0.9, 2.0]),
        then_limited_by: Some("the rest of the kernel's work on a packet"),
        sentence: "Firewall rules take {firewall} of the time of thread {thread}.",
        fix: "Put addresses and ports into a set or a map (nft), or a flowtable in front of the \
              rules",
        workaround: Some("the rules that match most packets first"),
        wrong_if: "with the rules removed, the rate rises by less than 10 %",
        measure: KERNEL_SAMPLES,
    },
    Rule {
        cause: Cause::FirewallRules,
        scope: Scope::Cpus,
        conditions: &[
            at_least(M::CpuFunctions(Group::Firewall), 0.1, "a tenth of a CPU"),
            at_least(M::CpuUsed, 0.5, "a CPU with more than half of its time left has room"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::FirewallOfUsed, [0.3, 0.9, 2.0]),
        then_limited_by: Some("the rest of the kernel's work on a packet"),
        sentence: "Firewall rules take {cpu_firewall} of the time of CPU {cpu}, before the packets \
                   reach {program}.",
        fix: "Put addresses and ports into a set or a map (nft), or a flowtable in front of the \
              rules",
        workaround: Some("the rules that match most packets first"),
        wrong_if: "with the rules removed, the rate rises by less than 10 %",
        measure: KERNEL_SAMPLES,
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
        then_limited_by: Some("the rest of the thread's work"),
        sentence: "{shared} of the samples of thread {thread} hit a cache line in which another \
                   thread uses other bytes (false sharing): {line}.",
        fix: "Give each thread its own cache line: alignas(64), or 128 where lines are fetched in \
              pairs",
        workaround: Some("threads on CPUs that share a cache pass the line faster"),
        wrong_if: "with 128 bytes between the two, the rate rises by less than 5 %",
        measure: "perf c2c, where there are hardware counters",
    },
    Rule {
        cause: Cause::UserLock,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::CommonBytes, 0.1, A_TENTH),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
            at_least(M::WorkingThreads, 2.0, "it takes two to contend"),
        ],
        symptoms: 0,
        explained_by: &[Cause::CpuQuota, Cause::FalseSharing],
        gain: GainModel::CostRemoved(M::CommonBytes, [0.0, 0.5, 1.0]),
        then_limited_by: Some("the rest of the thread's work"),
        sentence: "{common} of the samples of thread {thread} hit bytes that another thread also \
                   uses, and one of them writes: a spinlock or a shared counter: {line}.",
        fix: "Split the lock or the counter: one per thread, summed on read",
        workaround: Some("fewer threads, which then contend less"),
        wrong_if: "with one thread, the rate per thread rises by less than 5 %",
        measure: "perf c2c, where there are hardware counters",
    },
    Rule {
        cause: Cause::CacheMisses,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::WorkingSet, 1.0, "more than the last-level cache holds"),
            at_least(M::MemoryShare, 0.15, "a seventh of the time, visible in the rate"),
            at_least(M::Demand, 0.5, "below that, the effect is negligible"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::CostRemoved(M::MemoryShare, [0.2, 0.6, 1.0]),
        then_limited_by: Some("the instructions of the work"),
        sentence: "The working set of thread {thread} is {working_set} or more, {over_cache} times \
                   the last-level cache: {memory_share} of its samples hit lines seen only once.",
        fix: "Use less memory at a time: fewer buffers (mbufs, descriptors), reused last in, first \
              out; smaller tables; prefetch",
        workaround: Some("huge pages, which save the misses of the TLB"),
        wrong_if: "with a tenth of the buffers, the rate rises by less than 10 %",
        measure: "`linerate stat --pid PID -m cache` where there are hardware counters",
    },
    Rule {
        cause: Cause::ProcessingCost,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::Saturation, 0.85, FULL),
            at_most(M::Waiting, 0.15, "more is contention"),
            at_least(M::PacketRate, 1.0, "packets have to pass"),
            at_most(M::KernelShare, 0.4, "more is the kernel's work"),
            at_least(M::NamedFunctions, 0.5, "without names, copies look like work"),
            at_most(M::Functions(Group::UserCopy), 0.25, "copies may wait for memory"),
        ],
        symptoms: 0,
        explained_by: SPECIFIC,
        gain: GainModel::Unknown("how much of the work is avoidable is unknown"),
        then_limited_by: Some("the next part of the work"),
        sentence: "Packet processing takes all the time of thread {thread}: {busy}, {cost} per \
                   packet.{functions} Without hardware counters, cache misses and instructions \
                   cannot be distinguished.",
        fix: "Make the work per packet cheaper, or spread the packets over more threads",
        workaround: None,
        wrong_if: "with half the load offered, the thread is still 100 % busy (then it polls)",
        measure: "`linerate stat --pid PID -m cache` where there are hardware counters",
    },
];
