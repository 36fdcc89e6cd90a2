// SPDX-License-Identifier: MIT OR Apache-2.0
//! A child process that is held before exec, so that counters can be attached first.
//!
//! After `fork`, the child waits on a pipe. The parent opens events on the child that start
//! counting at execve(2), then releases the child. A second pipe, which a successful execve(2)
//! closes, shows the parent whether the command started.

use crate::{Error, monotonic_ns, signal};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A child waiting to be released. If dropped, the child is killed without running the command.
#[derive(Debug)]
pub struct Held {
    child: Child,
    gate: Option<OwnedFd>,
    verdict: OwnedFd,
}

/// A child process. The owner must call [`Child::wait`]; otherwise, a zombie remains.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    /// A pidfd, readable once the child has ended; `None` if pidfd_open(2) is missing (before Linux
    /// 5.3) or forbidden.
    watch: Option<OwnedFd>,
    /// How the child ended, once it has been waited for.
    ended: Option<Ended>,
}

/// A child's exit status, and its resource usage, including that of children it has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The child's exit status, unless a signal killed it.
    pub status: Option<i32>,
    /// The signal that killed the child, if any.
    pub signal: Option<i32>,
    /// Exit time on the [`monotonic_ns`] clock: the arrival of SIGCHLD if [`signal::catch`] is in
    /// use, otherwise the time at which the child was reaped.
    pub at_ns: u64,
    /// CPU time in user mode, in ns, with microsecond resolution.
    pub user_ns: u64,
    /// CPU time in kernel mode, in ns, with microsecond resolution.
    pub system_ns: u64,
    /// Peak resident memory in bytes.
    pub max_resident_bytes: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// The command could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecError {
    /// Error number from execve(2); ENOENT if the command was not found.
    pub errno: i32,
}

/// Forks a child that waits to be released and then runs `command` (looked up in PATH) with
/// `arguments`. The child has this process's environment, working directory and open files, no
/// blocked signals, and the default action for SIGPIPE. A termination signal kills it while it
/// waits. Its code between fork and exec is async-signal-safe, so this process may have other
/// threads. This process stops ignoring SIGCHLD, so that the kernel reports exited children.
///
/// # Errors
/// Returns an error if the command or an argument contains a NUL, or if pipe2(2) or fork(2) fails.
pub fn fork_held(command: &OsStr, arguments: &[OsString]) -> Result<Held, Error> {
    fork(command, arguments, false)
}

/// Like [`fork_held`], but makes the child a process group leader, so that it can be terminated
/// along with everything it starts ([`Child::end_group`]). If the child's stdin is a terminal, it
/// is replaced by /dev/null, because a background process group is stopped when it reads from a
/// terminal.
///
/// # Errors
/// Returns an error in the same cases as [`fork_held`].
pub fn fork_held_apart(command: &OsStr, arguments: &[OsString]) -> Result<Held, Error> {
    fork(command, arguments, true)
}

fn fork(command: &OsStr, arguments: &[OsString], is_apart: bool) -> Result<Held, Error> {
    let name = || command.to_string_lossy().into_owned();
    let texts: Vec<CString> = std::iter::once(command)
        .chain(arguments.iter().map(OsString::as_os_str))
        .map(|text| CString::new(text.as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|_| Error::Call {
            call: "execvp",
            value: name(),
            errno: libc::EINVAL,
            advice: "remove the NUL character from the command",
        })?;
    let mut argv: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    argv.push(std::ptr::null());
    let (gate_out, gate_in) = pipe()?;
    let (verdict_out, verdict_in) = pipe()?;
    signal::stop_ignoring_children();
    // Block signals: this program's handlers could otherwise swallow a signal in the child.
    let before = signal::block_all();
    // SAFETY: the child calls only async-signal-safe functions until it execs or ends.
    let pid = unsafe { libc::fork() };
    if pid != 0 {
        signal::set_mask(&before);
    }
    match pid {
        -1 => Err(Error::last(
            "fork",
            name(),
            "stop other processes, or raise the process limit \
                                             (ulimit -u)",
        )),
        0 => {
            drop(gate_in);
            if is_apart {
                stand_apart();
            }
            // SAFETY: `argv` points to NUL-terminated strings in `texts` and ends with null; both
            // were copied with the memory of the parent.
            unsafe { wait_and_exec(&gate_out, &verdict_in, &argv) }
        }
        pid => Ok(Held {
            child: Child { pid: pid as u32, watch: open_watch(pid), ended: None },
            gate: Some(gate_in),
            verdict: verdict_out,
        }),
    }
}

/// Starts a new process group, and replaces a terminal on stdin with /dev/null. Runs in the child;
/// async-signal-safe.
fn stand_apart() {
    // SAFETY: the calls take only numbers and a NUL-terminated string.
    unsafe {
        libc::setpgid(0, 0);
        if libc::isatty(libc::STDIN_FILENO) == 1 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            libc::dup2(null, libc::STDIN_FILENO);
        }
    }
}

/// Waits to be released, then executes the command. Runs in the child and never returns.
///
/// # Safety
/// `argv` must contain pointers to NUL-terminated strings and end with null.
unsafe fn wait_and_exec(gate: &OwnedFd, verdict: &OwnedFd, argv: &[*const libc::c_char]) -> ! {
    signal::catch_no_more();
    signal::set_mask(&signal::no_signals());
    let mut byte = 0u8;
    let let_go = loop {
        // SAFETY: `byte` is valid for writing during the call.
        let got = unsafe { libc::read(gate.as_raw_fd(), (&raw mut byte).cast(), 1) };
        if got >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            break got == 1;
        }
    };
    if let_go {
        // SAFETY: the calls take numbers and, for execvp, the strings that the caller guarantees.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::execvp(argv[0], argv.as_ptr());
        }
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0).to_ne_bytes();
        // SAFETY: `errno` is valid for reading during the call.
        unsafe { libc::write(verdict.as_raw_fd(), errno.as_ptr().cast(), errno.len()) };
    }
    // SAFETY: ends the child without running the parent's destructors.
    unsafe { libc::_exit(127) }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writing two numbers.
    let status = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    if status < 0 {
        return Err(Error::last("pipe2", String::new(), "raise the open-file limit (ulimit -n)"));
    }
    // SAFETY: the kernel has just opened both, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn open_watch(pid: libc::pid_t) -> Option<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number as libc::c_int) })
}

/// Polling interval for a process without a pidfd, and thus the maximum delay in detecting its
/// exit.
const LOOK: Duration = Duration::from_millis(1);

/// Maximum time between checks for signals. Checking is needed because a signal that arrives just
/// before this thread blocks does not wake it.
pub const GLANCE: Duration = Duration::from_millis(100);

/// Waits until `watch` is readable, a signal arrives or `at_most` has passed. Without a descriptor,
/// waits for at most [`LOOK`]. Returns whether `watch` is readable.
fn watch_for(watch: Option<&OwnedFd>, at_most: Duration) -> bool {
    match watch {
        Some(_) => poll(watch, at_most),
        None => poll(None, at_most.min(LOOK)),
    }
}

/// Waits until `watch` is readable, a signal arrives or `at_most` has passed. Without a descriptor,
/// waits for a signal or the timeout. Returns whether `watch` is readable.
fn poll(watch: Option<&OwnedFd>, at_most: Duration) -> bool {
    let count = libc::nfds_t::from(watch.is_some());
    let descriptor = watch.map_or(-1, AsRawFd::as_raw_fd);
    let mut watched = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as _,
        tv_nsec: at_most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: `watched` and `timeout` are valid during the call; no signal mask is given.
    unsafe { libc::ppoll(&raw mut watched, count, &raw const timeout, std::ptr::null()) == 1 }
}

/// Sleeps for `at_most` or until a signal arrives, whichever comes first.
pub fn sleep(at_most: Duration) {
    poll(None, at_most);
}

/// Sends a signal to every process in a group. Returns whether the group has any process that this
/// program may signal.
pub fn signal_group(group: u32, signal: i32) -> bool {
    match libc::pid_t::try_from(group) {
        // 0 and 1 would mean this program's own group and every process, respectively.
        Ok(group) if group > 1 => {
            // SAFETY: the call takes only numbers.
            unsafe { libc::kill(-group, signal) == 0 }
        }
        _ => false,
    }
}

/// A process that this program observes but did not start.
#[derive(Debug)]
pub struct Stranger {
    pid: u32,
    watch: Option<OwnedFd>,
}

impl Stranger {
    /// Finds the process with this ID.
    ///
    /// # Errors
    /// Returns an error if there is no such process.
    pub fn find(pid: u32) -> Result<Self, Error> {
        let number = libc::pid_t::try_from(pid).unwrap_or(-1);
        let stranger = Self { pid, watch: open_watch(number) };
        if stranger.watch.is_none() && !stranger.is_there() {
            return Err(Error::NoProcess { pid });
        }
        Ok(stranger)
    }

    /// Waits until the process exits, a signal arrives or `at_most` has passed. Returns whether the
    /// process has exited. Waits for at most 1 ms if pidfd_open(2) is missing (before Linux 5.3) or
    /// forbidden.
    pub fn wait_timeout(&self, at_most: Duration) -> bool {
        watch_for(self.watch.as_ref(), at_most) || self.watch.is_none() && !self.is_there()
    }

    fn is_there(&self) -> bool {
        std::path::Path::new("/proc").join(self.pid.to_string()).join("task").exists()
    }
}

impl Held {
    /// Returns the child's process ID.
    pub fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Lets the child run its command. Returns once the command has started.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started, in which case the child has exited.
    pub fn release(mut self) -> Result<Child, ExecError> {
        let gate = self.gate.take().expect("the gate exists until the child is released");
        // SAFETY: the buffer is one byte that is valid for reading.
        unsafe { libc::write(gate.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        drop(gate);
        let mut errno = [0u8; 4];
        let got = loop {
            // SAFETY: `errno` is valid for writing during the call.
            let got = unsafe {
                libc::read(self.verdict.as_raw_fd(), errno.as_mut_ptr().cast(), errno.len())
            };
            if got >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break got;
            }
        };
        let watch = self.child.watch.take();
        let mut child = Child { pid: self.child.pid, watch, ended: None };
        self.child.pid = 0;
        if got == 4 {
            child.wait();
            return Err(ExecError { errno: i32::from_ne_bytes(errno) });
        }
        Ok(child)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.child.pid != 0 {
            // Closing the gate is not enough, because a child forked at the same time may have
            // inherited it.
            self.child.signal(libc::SIGKILL);
            self.child.wait();
        }
    }
}

impl Child {
    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends the child a signal, unless it has been waited for.
    pub fn signal(&self, signal: i32) {
        // Once the child has been reaped, its PID may be another process's.
        if self.ended.is_none() {
            // SAFETY: the call takes only numbers.
            unsafe { libc::kill(self.pid as libc::pid_t, signal) };
        }
    }

    /// Returns whether the child is in this program's process group, in which case signals from
    /// terminal keys (Ctrl-C) reach both.
    pub fn is_in_own_group(&self) -> bool {
        // SAFETY: the calls take at most a number.
        unsafe { libc::getpgid(self.pid as libc::pid_t) == libc::getpgrp() }
    }

    /// Waits until the child exits. Later calls return the same value.
    pub fn wait(&mut self) -> Ended {
        self.wait4(0).expect("an unreaped child can be waited for")
    }

    /// Waits until the child exits, `stop` is set or `at_most` has passed; `None` if the child is
    /// still running. Notices within [`GLANCE`] that `stop` is set.
    pub fn wait_for(&mut self, at_most: Duration, stop: Option<&AtomicBool>) -> Option<Ended> {
        let at_most_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = monotonic_ns().saturating_add(at_most_ns);
        loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
            // Relaxed: no other data is passed with the flag.
            let is_stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            let step = if is_stopped { Duration::ZERO } else { left.min(GLANCE) };
            let ended = self.wait_timeout(step);
            if ended.is_some() || step.is_zero() {
                return ended;
            }
        }
    }

    /// Like [`Child::wait_for`], but also returns when a signal arrives, and after at most 1 ms if
    /// pidfd_open(2) is missing (before Linux 5.3) or forbidden. For callers that do something
    /// else between calls.
    pub fn wait_timeout(&mut self, at_most: Duration) -> Option<Ended> {
        if let Some(ended) = self.wait4(libc::WNOHANG) {
            return Some(ended);
        }
        watch_for(self.watch.as_ref(), at_most);
        self.wait4(libc::WNOHANG)
    }

    /// Ends the child's process group, which it must be the leader of ([`fork_held_apart`]). Sends
    /// SIGTERM to the group, waits up to `grace` for the child and then up to `grace` for the
    /// processes that it left behind, and sends SIGKILL to those that are left.
    ///
    /// The kernel does not reuse the child's PID while the group has members. If it has none and
    /// the child has been waited for, call this soon, before the PID may be another group's.
    pub fn end_group(&mut self, grace: Duration) -> Ended {
        /// Interval between looks at a group whose leader has ended.
        const STEP: Duration = Duration::from_millis(5);
        let is_running = self.wait4(libc::WNOHANG).is_none();
        signal_group(self.pid, signal::TERMINATE);
        if is_running {
            self.wait_for(grace, None);
        }
        let steps = grace.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            if self.ended.is_none() || !signal_group(self.pid, 0) {
                break;
            }
            sleep(STEP);
        }
        signal_group(self.pid, signal::KILL);
        self.wait()
    }

    /// Returns how the child ended; `None` if `flags` has WNOHANG and the child is running.
    fn wait4(&mut self, flags: libc::c_int) -> Option<Ended> {
        if self.ended.is_some() {
            return self.ended;
        }
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        let pid = loop {
            // SAFETY: `status` and `usage` are valid for writing during the call.
            let pid = unsafe {
                libc::wait4(self.pid as libc::pid_t, &raw mut status, flags, usage.as_mut_ptr())
            };
            if pid >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break pid;
            }
        };
        // SAFETY: all zero, or filled by wait4(2); both are valid values.
        let usage = unsafe { usage.assume_init() };
        if pid > 0 {
            self.ended = Some(Ended::new(status, &usage, signal::child_ended_ns(self.pid)));
        }
        self.ended
    }
}

impl Ended {
    fn new(status: libc::c_int, usage: &libc::rusage, at_ns: Option<u64>) -> Self {
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        // A C long is as wide as a pointer; in 32 bits, counts from 2^31 on look negative.
        let count = |number: libc::c_long| number as usize as u64;
        Self {
            status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            at_ns: at_ns.unwrap_or_else(monotonic_ns),
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            max_resident_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }
}

#[cfg(test)]
mod tests;
