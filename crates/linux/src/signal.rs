// SPDX-License-Identifier: MIT OR Apache-2.0
//! Termination signals, kept for the main loop instead of ending the program.
//!
//! [`catch`] is for programs that run another program: a termination request concerns that program
//! too, and its exit time must be known even if this program is busy when it exits. [`stop_flag`]
//! is for programs that measure in a loop and finish with the results so far. A program uses one of
//! the two. Other uses of signals are not supported.

use crate::monotonic_ns;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// Termination request.
pub const TERMINATE: i32 = libc::SIGTERM;
/// Terminal hangup.
pub const HANG_UP: i32 = libc::SIGHUP;
/// Ctrl-\.
pub const QUIT: i32 = libc::SIGQUIT;

/// All of the signals above.
const ASKING: [i32; 4] = [INTERRUPT, TERMINATE, HANG_UP, QUIT];

/// A signal that was caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Signal number.
    pub number: i32,
    /// Whether the kernel sent the signal, as it does for terminal keys and hangups.
    pub is_from_kernel: bool,
}

impl Caught {
    /// Whether the signal came from a terminal key: if so, every process in the foreground group
    /// received it, and it must not be forwarded to them again. A terminal hangup is sent only to
    /// the session leader.
    pub fn is_key(self) -> bool {
        self.is_from_kernel && matches!(self.number, INTERRUPT | QUIT)
    }
}

/// The last unhandled signal. Any thread may store and take it.
#[derive(Debug, Default)]
pub struct Pending(AtomicU32);

const FROM_KERNEL: u32 = 1 << 16;

impl Pending {
    /// No signal.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Stores a signal; one that is already pending is lost.
    pub fn put(&self, signal: Caught) {
        let origin = if signal.is_from_kernel { FROM_KERNEL } else { 0 };
        self.0.store(signal.number as u32 & 0xffff | origin, Ordering::SeqCst);
    }

    /// Takes the pending signal, if any.
    pub fn take(&self) -> Option<Caught> {
        let word = self.0.swap(0, Ordering::SeqCst);
        let number = (word & 0xffff) as i32;
        (word != 0).then_some(Caught { number, is_from_kernel: word & FROM_KERNEL != 0 })
    }
}

static PENDING: Pending = Pending::new();

/// From now on, keeps termination signals in the returned value; they interrupt blocking calls. A
/// signal that is ignored (nohup(1)) stays ignored. Commands started afterwards get the previous
/// dispositions of these signals. From now on, the time at which a child exits is also recorded,
/// which does not interrupt any call.
///
/// # Errors
/// The error of sigaction(2), which does not fail unless the kernel forbids it.
pub fn catch() -> io::Result<&'static Pending> {
    for number in ASKING {
        if disposition(number)? != libc::SIG_IGN {
            // No SA_RESTART: a blocked caller must wake up and check.
            handle(number, keep, 0)?;
        }
    }
    handle(libc::SIGCHLD, note_end, libc::SA_RESTART | libc::SA_NOCLDSTOP)?;
    Ok(&PENDING)
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Exit status of a shell command ended by Ctrl-C.
const INTERRUPTED: i32 = 128 + INTERRUPT;

/// From now on, Ctrl-C and SIGTERM set the returned flag and do not interrupt any call. The second
/// such signal ends the program at once, with status 130.
///
/// # Errors
/// The error of sigaction(2), which does not fail unless the kernel forbids it.
pub fn stop_flag() -> io::Result<&'static AtomicBool> {
    for number in [INTERRUPT, TERMINATE] {
        handle(number, stop, libc::SA_RESTART)?;
    }
    Ok(&STOP)
}

/// From now on, a write beyond the file size limit (`ulimit -f`) fails with EFBIG instead of ending
/// the program. Commands started later inherit the previous action.
///
/// # Errors
/// The error of sigaction(2), which does not fail unless the kernel forbids it.
pub fn fail_writes_beyond_the_file_limit() -> io::Result<()> {
    handle(libc::SIGXFSZ, pass, libc::SA_RESTART)
}

extern "C" fn pass(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

extern "C" fn stop(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if STOP.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit(2) takes a number and does not return; unlike exit(3), it is
        // async-signal-safe.
        unsafe { libc::_exit(INTERRUPTED) };
    }
}

/// Signature of a handler.
type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Returns the action for a signal: SIG_DFL, SIG_IGN, or a handler.
fn disposition(number: i32) -> io::Result<libc::sighandler_t> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `now` is writable during the call, which changes nothing else.
    let status = unsafe { libc::sigaction(number, std::ptr::null(), now.as_mut_ptr()) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: initialized by the successful call above.
    Ok(unsafe { now.assume_init() }.sa_sigaction)
}

fn handle(number: i32, handler: Handler, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all-zero is a valid value: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: the handler has the type that SA_SIGINFO requires; `keep`, `note_end`, `pass` and
    // `stop` only read the clock, store to atomics and call _exit(2), all of which is
    // async-signal-safe.
    let status = unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn keep(number: i32, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let is_from_kernel = unsafe { (*about).si_code } == libc::SI_KERNEL;
    PENDING.put(Caught { number, is_from_kernel });
}

/// The child that exited last, and the time of its exit in two halves: not every processor has
/// atomic 64-bit stores.
static LAST_CHILD: [AtomicU32; 3] = [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)];

extern "C" fn note_end(_: i32, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let now_ns = monotonic_ns();
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO, and SIGCHLD comes
    // with a PID.
    let pid = unsafe { (*about).si_pid() } as u32;
    let [child, low, high] = &LAST_CHILD;
    child.store(0, Ordering::SeqCst);
    low.store(now_ns as u32, Ordering::SeqCst);
    high.store((now_ns >> 32) as u32, Ordering::SeqCst);
    child.store(pid, Ordering::SeqCst);
}

/// Returns the exit time of child `pid`, in ns of [`monotonic_ns`], if it was recorded and no other
/// child has exited since.
pub(crate) fn child_ended_ns(pid: u32) -> Option<u64> {
    let [child, low, high] = &LAST_CHILD;
    let is_it = || child.load(Ordering::SeqCst) == pid;
    let was_it = is_it();
    let (low, high) = (low.load(Ordering::SeqCst), high.load(Ordering::SeqCst));
    (was_it && is_it()).then_some(u64::from(high) << 32 | u64::from(low))
}

/// Stops ignoring SIGCHLD: while it is ignored, the kernel discards the exit status of children. An
/// error here needs no handling: waiting will fail and report it.
pub(crate) fn stop_ignoring_children() {
    if disposition(libc::SIGCHLD).is_ok_and(|now| now == libc::SIG_IGN) {
        // SAFETY: numbers only.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Makes the caught signals end this process again. Async-signal-safe.
pub(crate) fn catch_no_more() {
    for number in ASKING {
        if disposition(number).is_ok_and(|now| now != libc::SIG_IGN) {
            // SAFETY: numbers only.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

/// The empty set.
pub(crate) fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `set` is writable and is initialized by the call, which cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Blocks every signal in this thread; returns the previous mask. Async-signal-safe.
pub(crate) fn block_all() -> libc::sigset_t {
    let mut all = no_signals();
    let mut before = no_signals();
    // SAFETY: both sets are valid during the calls.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    before
}

/// Blocks the signals in `set`, and no others, in this thread. Async-signal-safe.
pub(crate) fn set_mask(set: &libc::sigset_t) {
    // SAFETY: `set` is valid during the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_taken_once() {
        let pending = Pending::new();
        assert_eq!(pending.take(), None);
        for is_from_kernel in [false, true] {
            let signal = Caught { number: TERMINATE, is_from_kernel };
            pending.put(signal);
            assert_eq!((pending.take(), pending.take()), (Some(signal), None));
        }
    }

    #[test]
    fn keys_are_what_the_terminal_sends_to_all() {
        let is_key = |number, is_from_kernel| Caught { number, is_from_kernel }.is_key();
        assert!(is_key(INTERRUPT, true) && is_key(QUIT, true));
        assert!(!is_key(INTERRUPT, false) && !is_key(HANG_UP, true) && !is_key(TERMINATE, true));
    }
}
