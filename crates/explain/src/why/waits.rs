// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies by system call what sleeping threads wait for.
//!
//! A thread that waits for input has time left. A thread that waits for anything else may be the
//! bottleneck although it sleeps and no CPU is busy.

use linerate_record::why::{SleepTime, ThreadActivity};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Packets or requests.
    Input,
    /// Another thread, for work or for a lock, or another process.
    Thread,
    /// A timer that the program set.
    Timer,
    /// A disk or the file system.
    Storage,
    /// Anything else.
    Other,
}

/// Calls that return when input has arrived. With a timeout, they may also return without input;
/// which of the two happened is unknown.
const INPUT: &[&str] = &[
    "accept",
    "accept4",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "io_getevents",
    "io_uring_enter",
    "poll",
    "ppoll",
    "pselect6",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
];

const THREAD: &[&str] = &["futex", "futex_wait", "futex_waitv", "wait4", "waitid"];

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
    "jbd2_log_wait_commit",
];

/// Calls that wait for storage if their object is a file.
const OF_FILES: &[&str] =
    &["pread64", "preadv", "pwrite64", "pwritev", "read", "readv", "write", "writev"];

/// What a sleeping thread waits for.
pub fn wait_of(sleep: &SleepTime) -> Wait {
    let is_in = |calls: &[&str]| calls.contains(&sleep.on.as_str());
    let is_file = sleep.object.as_deref().is_some_and(|object| object.starts_with('/'));
    // Terminals and similar devices deliver input.
    let is_device = sleep.object.as_deref().is_some_and(|object| object.starts_with("/dev/"));
    if is_in(TIMER) {
        Wait::Timer
    } else if is_in(THREAD) {
        Wait::Thread
    } else if is_in(STORAGE) || is_in(OF_FILES) && is_file && !is_device {
        Wait::Storage
    } else if is_in(INPUT) || ["read", "readv"].contains(&sleep.on.as_str()) {
        Wait::Input
    } else {
        Wait::Other
    }
}

/// Share of time for which a thread sleeps in this kind of wait; `None` if its calls were not read.
pub(super) fn time_in(thread: &ThreadActivity, wait: Wait) -> Option<f64> {
    let sleeps = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == wait);
    (!thread.asleep_on.is_empty()).then(|| sleeps.map(|sleep| sleep.share).sum())
}

/// Share of time for which a thread sleeps until there is work: input, or work from another thread.
pub(super) fn time_for_work(thread: &ThreadActivity) -> Option<f64> {
    Some(time_in(thread, Wait::Input)? + time_in(thread, Wait::Thread)?)
}

/// The call of this kind in which a thread sleeps longest, such as `fsync (/var/log/requests)`.
pub(super) fn longest_in(thread: &ThreadActivity, wait: Wait) -> Option<String> {
    let sleeps = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == wait);
    let longest = sleeps.max_by(|a, b| a.share.total_cmp(&b.share))?;
    Some(match &longest.object {
        Some(object) => format!("{} ({object})", longest.on),
        None => longest.on.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Wait, wait_of};
    use linerate_record::why::SleepTime;

    #[test]
    fn classifies_calls_by_what_they_wait_for() {
        let wait = |on: &str, object: Option<&str>| {
            let object = object.map(str::to_owned);
            wait_of(&SleepTime { on: on.to_owned(), share: 0.5, object })
        };
        assert_eq!(wait("recvfrom", Some("udp 127.0.0.1:53")), Wait::Input);
        assert_eq!(wait("read", Some("pipe")), Wait::Input);
        assert_eq!(wait("read", Some("/dev/pts/0")), Wait::Input);
        assert_eq!(wait("read", Some("/var/lib/zones")), Wait::Storage);
        assert_eq!(wait("futex", Some("futex 0x7f00")), Wait::Thread);
        assert_eq!(wait("fsync", Some("/var/log/requests")), Wait::Storage);
        assert_eq!(wait("clock_nanosleep", None), Wait::Timer);
        assert_eq!(wait("write", Some("tcp 10.0.0.1:80")), Wait::Other);
        assert_eq!(wait("ioctl", None), Wait::Other);
    }
}
