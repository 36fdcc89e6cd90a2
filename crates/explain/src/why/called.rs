// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program's system calls are for. Calls that receive, send or wait for packets can be made
//! for several packets at once. Other calls have to be removed one kind at a time.

use super::facts::Facts;
use linerate_record::why::{KernelEvent, ThreadActivity};

/// A use of system calls other than passing packets.
#[derive(Debug)]
pub(super) struct Purpose {
    /// Calls by which the use is counted.
    counted: &'static [&'static str],
    /// Calls that accompany those in `counted`; each is counted at most as often as they are.
    with: &'static [&'static str],
    /// What the program does, as a verb phrase: "Thread X … N times per second".
    pub(super) does: &'static str,
    /// How to avoid the calls.
    pub(super) fix: &'static str,
    /// CPU time of one call for this purpose, relative to that of a call that passes a packet:
    /// lowest, most likely, highest.
    pub(super) weight: [f64; 3],
}

const PURPOSES: &[Purpose] = &[
    Purpose {
        counted: &["rt_sigreturn"],
        with: &[],
        does: "is interrupted by signals",
        fix: "Find what sends the signals (strace -f -e trace=none -p PID shows each): a timer \
              (timer_create, setitimer; check the unit of its interval), a profiler, or SIGIO. \
              Lower their rate, or read them with timerfd or signalfd in the event loop",
        // Saving and restoring the registers of AVX-512 takes longer than the call, and so does
        // setting the next timer in a guest.
        weight: [1.0, 4.0, 20.0],
    },
    Purpose {
        counted: &["openat", "open", "openat2", "creat"],
        with: &["read", "pread64", "close", "fstat", "newfstatat", "statx", "ioctl", "lseek"],
        does: "opens and closes files",
        fix: "Open each file once and keep it open (strace -f -e trace=openat,open -p PID shows \
              which; for files that a server sends, open_file_cache of nginx); for random numbers, \
              call getrandom instead of reading /dev/urandom",
        // A file in the cache takes far less than a packet through the protocols; a device may
        // take more.
        weight: [0.05, 0.25, 4.0],
    },
    Purpose {
        counted: &["socket"],
        with: &["bind", "connect", "setsockopt", "getsockopt", "close", "fcntl"],
        does: "opens and closes sockets",
        fix: "Keep sockets open: one for all packets, or one per peer",
        weight: [0.2, 1.0, 4.0],
    },
    Purpose {
        counted: &["clock_gettime", "gettimeofday", "time"],
        with: &[],
        does: "reads the clock with system calls",
        fix: "Use the TSC as clock source (current_clocksource in \
              /sys/devices/system/clocksource/clocksource0), and call clock_gettime of the C \
              library rather than syscall(2): then it makes no system call; or read the clock once \
              per batch",
        weight: [0.1, 0.3, 2.0],
    },
    Purpose {
        counted: &["getrandom"],
        with: &[],
        does: "asks the kernel for random numbers",
        fix: "Ask for 256 bytes or more at once, or seed a generator in the program",
        weight: [0.2, 1.0, 4.0],
    },
    Purpose {
        counted: &["getsockopt", "setsockopt", "ioctl", "fcntl", "epoll_ctl"],
        with: &[],
        does: "reads or changes the settings of descriptors",
        fix: "Make these calls once per socket instead of once per packet (strace -f -c -p PID \
              shows which)",
        weight: [0.1, 0.4, 2.0],
    },
    Purpose {
        counted: &["rt_sigprocmask"],
        with: &[],
        does: "changes its signal mask",
        fix: "Avoid swapcontext, and sigsetjmp with a saved mask (strace -f -k -e \
              trace=rt_sigprocmask -p PID shows the callers)",
        weight: [0.1, 0.3, 1.0],
    },
    Purpose {
        counted: &["getpid", "gettid", "getuid", "geteuid", "getppid", "sched_getcpu", "getcpu"],
        with: &[],
        does: "asks the kernel for an ID (process, thread, user, CPU)",
        fix: "Keep the ID in a variable (strace -f -k -e trace=getpid,gettid -p PID shows the \
              callers)",
        weight: [0.1, 0.2, 1.0],
    },
    Purpose {
        counted: &["stat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink"],
        with: &[],
        does: "looks files up by name",
        fix: "Look each file up once (strace -f -e trace=file -p PID shows which)",
        weight: [0.2, 1.0, 4.0],
    },
];

/// Calls that receive, send or wait for packets.
const OF_PACKETS: &[&str] = &[
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "read",
    "readv",
    "write",
    "writev",
    "sendfile",
    "splice",
    "io_uring_enter",
    "accept",
    "accept4",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
];

/// The calls of one purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    pub(super) purpose: &'static Purpose,
    /// Calls by which the purpose is counted.
    pub(super) times: u64,
    /// All calls of the purpose.
    pub(super) calls: u64,
    /// Fraction of all system calls.
    pub(super) share: f64,
}

/// Returns how often the observed threads made a system call; 0 if the call is not listed.
pub(super) fn count(facts: &Facts<'_>, name: &str) -> u64 {
    let of_call = |event: &&KernelEvent| {
        let filter = event.filter.as_deref().and_then(|filter| filter.strip_prefix("call "));
        event.is_of_watched && filter == Some(name)
    };
    facts.observation.events.iter().filter(of_call).map(|event| event.count).sum()
}

/// Returns the number of all system calls; `None` if they were not counted.
fn all(facts: &Facts<'_>) -> Option<u64> {
    let is_total =
        |event: &&KernelEvent| event.event == "raw_syscalls:sys_enter" && event.filter.is_none();
    let total = facts.observation.events.iter().find(is_total)?;
    Some(total.count).filter(|calls| total.is_of_watched && *calls > 0)
}

/// Minimum fraction of all system calls that a thread must make for the counts by name, which cover
/// all threads, to be representative of that thread.
pub(super) const MOST_CALLS: f64 = 0.7;

/// Returns the fraction of all system calls that a thread makes; `None` if they were not counted.
pub(super) fn share_of_thread(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    Some((thread.system_calls? as f64 / all(facts)? as f64).min(1.0))
}

/// Returns the purpose of most of the system calls that neither pass packets nor wait for them;
/// `None` if calls were not counted, or there are none of a known purpose.
pub(super) fn most_others(facts: &Facts<'_>) -> Option<Called> {
    others(facts).first().copied()
}

/// Returns the purposes of the system calls that neither pass packets nor wait for them, the most
/// frequent first; empty if calls were not counted, or there are none of a known purpose.
pub(super) fn others(facts: &Facts<'_>) -> Vec<Called> {
    let Some(all) = all(facts) else { return Vec::new() };
    let of_purpose = |purpose: &'static Purpose| {
        let times = purpose.counted.iter().map(|name| count(facts, name)).sum::<u64>();
        let with = purpose.with.iter().map(|name| count(facts, name).min(times)).sum::<u64>();
        let calls = times + with;
        let share = (calls as f64 / all as f64).min(1.0);
        Called { purpose, times, calls, share }
    };
    let mut called: Vec<Called> = PURPOSES.iter().map(of_purpose).collect();
    called.retain(|called| called.calls > 0);
    called.sort_by_key(|called| std::cmp::Reverse(called.calls));
    // The same calls are not counted for two purposes.
    let mut apart: Vec<Called> = Vec::new();
    for one in called {
        let meets = |other: &Called| {
            let mut own = one.purpose.counted.iter().chain(one.purpose.with);
            let (counted, with) = (other.purpose.counted, other.purpose.with);
            own.any(|name| counted.contains(name) || with.contains(name))
        };
        if !apart.iter().any(meets) {
            apart.push(one);
        }
    }
    apart
}

/// Returns the fraction of a thread's system calls that receive, send or wait for packets; `None`
/// if calls were not counted, or if other threads make too many of them. Reads of files that the
/// program opens for each packet are left out.
pub(super) fn share_of_packets(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<f64> {
    share_of_thread(facts, thread).filter(|share| *share >= MOST_CALLS)?;
    let all = all(facts)?;
    let opened = count(facts, "openat") + count(facts, "open");
    let of_packets: u64 = OF_PACKETS.iter().map(|name| count(facts, name)).sum();
    let of_files = opened.min(count(facts, "read"));
    // Calls that are too rare to be listed may be of any kind.
    let is_listed = of_packets > 0;
    is_listed.then(|| (of_packets.saturating_sub(of_files) as f64 / all as f64).min(1.0))
}

/// Returns how often the observed threads made calls that read from a descriptor; `None` if they
/// also open files or wait on pipes, so that many of these calls may read something other than
/// packets.
pub(super) fn reads(facts: &Facts<'_>) -> Option<u64> {
    /// Maximum number of files opened per call that reads.
    const OPENED: f64 = 0.02;
    all(facts)?;
    let sum = |names: &[&str]| names.iter().map(|name| count(facts, name)).sum::<u64>();
    let reads = sum(&["read", "recvfrom", "recvmsg", "readv"]);
    let opened = sum(&["openat", "open", "openat2"]);
    let is_other = |object: &str| {
        ["pipe", "fifo ", "[eventfd]", "[timerfd]", "[signalfd]", "[inotify]"]
            .iter()
            .any(|kind| object.starts_with(kind))
    };
    let sleeps = facts.observation.threads.iter().flat_map(|thread| &thread.asleep_on);
    let has_others = sleeps.filter_map(|sleep| sleep.object.as_deref()).any(is_other);
    (!has_others && opened as f64 <= OPENED * reads as f64).then_some(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_of_packets_counts_a_purpose() {
        for purpose in PURPOSES {
            let [low, likely, high] = purpose.weight;
            assert!(low <= likely && likely <= high && !purpose.fix.is_empty());
            for name in purpose.counted {
                assert!(!OF_PACKETS.contains(name), "{name}");
            }
        }
    }
}
