// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies what sleeping threads wait for, by system call.
//!
//! A thread that waits for input has no work to do. A thread that waits for anything else may be
//! the bottleneck even though it sleeps and no CPU is busy.

use linerate_record::why::{SleepTime, ThreadActivity};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Packets or requests.
    Input,
    /// Another thread (for work or a lock), or another process.
    Thread,
    /// A lock, and nothing else.
    Lock,
    /// A timer set by the program.
    Timer,
    /// A disk or file system.
    Storage,
    /// Nothing: a signal, a tracer or the cgroup freezer stops the thread.
    Stopped,
    /// Anything else.
    Other,
    /// Not known, because the call could not be read.
    Unknown,
}

/// Calls that wait for another thread or process. A thread in io_getevents waits for file reads and
/// writes, or has no work: threads for asynchronous I/O sleep there until another thread submits
/// requests.
const THREAD: &[&str] = &[
    "futex",
    "futex_wait",
    "futex_waitv",
    "io_getevents",
    "io_pgetevents",
    "io_wq_worker",
    SleepTime::JOIN,
    "wait4",
    "waitid",
];

const TIMER: &[&str] = &[
    "clock_nanosleep",
    "nanosleep",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "clock_nanosleep_time64",
];

const STORAGE: &[&str] = &[
    "fdatasync",
    "fsync",
    "msync",
    "sync",
    "sync_file_range",
    "syncfs",
    "io_schedule",
    "folio_wait_bit_common",
    "wait_on_page_bit_common",
    "jbd2_log_wait_commit",
    "xlog_wait_on_iclog",
    "wait_log_commit",
    "nfs_wait_bit_killable",
    "rpc_wait_bit_killable",
    "submit_bio_wait",
    "blkdev_issue_flush",
];

const STOPPED: &[&str] = &[SleepTime::STOPPED, SleepTime::FROZEN];

/// Calls that wait for a lock that another process or thread holds. fcntl only sleeps for locks.
const LOCK: &[&str] = &[
    "fcntl",
    "fcntl64",
    "flock",
    "flock_lock_inode_wait",
    "posix_lock_inode_wait",
    "semop",
    "semtimedop",
    "semtimedop_time64",
];

/// Prefix of the objects of futexes that are known to be locks.
const MUTEX: &str = "mutex ";

/// Calls that wait for storage when made on a file.
const OF_FILES: &[&str] = &[
    "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readv", "sendfile",
    "write", "writev",
];

/// Returns what a sleeping thread waits for.
pub fn wait_of(sleep: &SleepTime) -> Wait {
    let is_in = |calls: &[&str]| calls.contains(&sleep.on.as_str());
    let is_file = sleep.object.as_deref().is_some_and(|object| object.starts_with('/'));
    // Terminals and similar devices deliver input.
    let is_device = sleep.object.as_deref().is_some_and(|object| object.starts_with("/dev/"));
    if is_in(&[SleepTime::NOT_KNOWN]) {
        Wait::Unknown
    } else if is_in(STOPPED) {
        Wait::Stopped
    } else if is_in(TIMER) {
        Wait::Timer
    } else if is_in(LOCK) || is_at_mutex(sleep) {
        Wait::Lock
    } else if is_in(THREAD) || sleep.object.as_deref() == Some("[eventfd]") {
        Wait::Thread
    } else if is_in(STORAGE) || is_in(OF_FILES) && is_file && !is_device {
        Wait::Storage
    } else if is_in(SleepTime::INPUT) || ["read", "readv"].contains(&sleep.on.as_str()) {
        Wait::Input
    } else {
        Wait::Other
    }
}

/// Calls that wait for space in the buffer that they write to.
const WRITES: [&str; 7] =
    ["sendfile", "sendmsg", "sendto", "splice", "vmsplice", "write", "writev"];

/// Returns whether a thread sleeps while writing to an object of one of the given kinds, because
/// the object's buffer is full.
fn writes_to(sleep: &SleepTime, kinds: &[&str]) -> bool {
    let object = sleep.object.as_deref().unwrap_or_default();
    WRITES.contains(&sleep.on.as_str()) && kinds.iter().any(|kind| object.starts_with(kind))
}

/// Returns whether a thread sleeps while writing to a full pipe, Unix domain socket or terminal.
pub(super) fn is_to_reader(sleep: &SleepTime) -> bool {
    writes_to(sleep, &["pipe", "fifo ", "unix", "/dev/pts/", "/dev/tty", "/dev/console"])
}

/// Returns whether a thread sleeps while writing to a TCP connection whose send buffer is full.
pub(super) fn is_to_peer(sleep: &SleepTime) -> bool {
    writes_to(sleep, &["tcp "])
}

/// Returns whether the kernel holds up a thread because memory is short, or because its control
/// group is above `memory.high`.
pub(super) fn is_for_memory(sleep: &SleepTime) -> bool {
    SleepTime::MEMORY.contains(&sleep.on.as_str())
}

/// Returns whether a sleeping thread waits for a child process to exit, or to call exec, until
/// which vfork and posix_spawn block.
pub(super) fn is_for_child(sleep: &SleepTime) -> bool {
    ["wait4", "waitid", "vfork", "clone", "clone3"].contains(&sleep.on.as_str())
}

/// Returns whether a sleeping thread waits for a mutex, whose holder may be known.
pub(super) fn is_at_mutex(sleep: &SleepTime) -> bool {
    sleep.object.as_deref().is_some_and(|object| object.starts_with(MUTEX))
}

/// Returns the fraction of time that a thread sleeps in this kind of wait; `None` if most of its
/// system calls could not be read.
pub(super) fn time_in(thread: &ThreadActivity, wait: Wait) -> Option<f64> {
    let time_in = |wait| -> f64 {
        let sleeps = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == wait);
        sleeps.map(|sleep| sleep.share).sum()
    };
    let all: f64 = thread.asleep_on.iter().map(|sleep| sleep.share).sum();
    let is_known = !thread.asleep_on.is_empty() && 2.0 * time_in(Wait::Unknown) <= all;
    is_known.then(|| time_in(wait))
}

/// Returns the fraction of time that a thread sleeps because it has no work: it waits for input or
/// for another thread; `None` as for [`time_in`].
pub(super) fn time_for_work(thread: &ThreadActivity) -> Option<f64> {
    Some(time_in(thread, Wait::Input)? + time_in(thread, Wait::Thread)?)
}

/// Returns the longest of the given sleeps; `None` if there are none.
pub(super) fn longest<'a>(
    sleeps: impl IntoIterator<Item = &'a SleepTime>,
) -> Option<&'a SleepTime> {
    sleeps.into_iter().max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Returns a call with its object: `fsync (/var/log/requests)`.
pub(super) fn named(sleep: &SleepTime) -> String {
    match &sleep.object {
        Some(object) => format!("{} ({object})", sleep.on),
        None => sleep.on.clone(),
    }
}

/// Returns the call in which a thread sleeps longest for this kind of wait, such as `fsync
/// (/var/log/requests)`; `None` if it has no such wait.
pub(super) fn longest_in(thread: &ThreadActivity, wait: Wait) -> Option<String> {
    let sleeps = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == wait);
    longest(sleeps).map(named)
}

/// Returns advice on removing a thread's longest wait for storage.
pub(super) fn storage_fix(thread: &ThreadActivity) -> &'static str {
    let sleeps = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == Wait::Storage);
    match longest(sleeps).map(|sleep| sleep.on.as_str()) {
        Some("read" | "readv" | "pread64" | "preadv" | "preadv2" | "sendfile") => {
            "Keep the file in memory (more memory for the page cache, or a higher memory.max in \
             the cgroup), read ahead (posix_fadvise), or keep more reads in flight (threads, \
             io_uring); if the disk is not busy (iostat -x), look for a limit (io.max in the \
             cgroup); on a network file system, look at its server (nfsiostat)"
        }
        Some("nfs_wait_bit_killable" | "rpc_wait_bit_killable") => {
            "Cache the result in the program; on a network file system, let the kernel cache \
             attributes for longer (mount option actimeo), and look at its server (nfsiostat)"
        }
        // Page faults of a mapped file, or memory that was swapped out.
        Some("io_schedule" | "folio_wait_bit_common" | "wait_on_page_bit_common") => {
            "Keep the pages in memory: raise the memory limit, lock them (mlock), or read the file \
             ahead (madvise with MADV_WILLNEED)"
        }
        _ => "Move the write to another thread or to io_uring, or sync once per batch of requests",
    }
}

#[cfg(test)]
mod tests {
    use super::{Wait, wait_of};
    use linerate_record::why::SleepTime;

    #[test]
    fn classifies_calls_by_what_they_wait_for() {
        let wait = |on: &str, object: Option<&str>| {
            let object = object.map(str::to_owned);
            wait_of(&SleepTime { on: on.to_owned(), share: 0.5, object, holder: None })
        };
        assert_eq!(wait("recvfrom", Some("udp 127.0.0.1:53")), Wait::Input);
        assert_eq!(wait("read", Some("pipe")), Wait::Input);
        assert_eq!(wait("epoll_pwait2", Some("[eventpoll]")), Wait::Input);
        // Kernel functions, where the call cannot be read.
        assert_eq!(wait("ep_poll", None), Wait::Input);
        assert_eq!(wait("poll_schedule_timeout", None), Wait::Input);
        assert_eq!(wait("read", Some("/dev/pts/0")), Wait::Input);
        assert_eq!(wait("read", Some("[eventfd]")), Wait::Thread);
        assert_eq!(wait("read", Some("/var/lib/zones")), Wait::Storage);
        assert_eq!(wait("preadv2", Some("/var/lib/zones")), Wait::Storage);
        assert_eq!(wait("futex", Some("futex 0x7f00")), Wait::Thread);
        assert_eq!(wait("futex", Some("mutex 0x7f00")), Wait::Lock);
        assert_eq!(wait("fcntl", Some("/run/lock")), Wait::Lock);
        assert_eq!(wait("io_getevents", None), Wait::Thread);
        assert_eq!(wait("io_uring_enter", Some("[io_uring]")), Wait::Input);
        for on in ["rpc_wait_bit_killable", "wait_on_page_bit_common"] {
            assert_eq!(wait(on, None), Wait::Storage, "{on}");
        }
        assert_eq!(wait("mem_cgroup_handle_over_high", None), Wait::Other);
        assert_eq!(wait("fsync", Some("/var/log/requests")), Wait::Storage);
        assert_eq!(wait("clock_nanosleep", None), Wait::Timer);
        assert_eq!(wait("write", Some("tcp 10.0.0.1:80")), Wait::Other);
        assert_eq!(wait("write", Some("fifo /var/log/requests")), Wait::Other);
        assert_eq!(wait("read", Some("fifo /var/log/requests")), Wait::Input);
        assert_eq!(wait("ioctl", None), Wait::Other);
        assert_eq!(wait("not known", None), Wait::Unknown);
        assert_eq!(wait("stopped", None), Wait::Stopped);
        assert_eq!(wait("frozen", None), Wait::Stopped);
    }
}
