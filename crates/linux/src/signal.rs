// SPDX-License-Identifier: MIT OR Apache-2.0
//! Termination signals that are passed to the main loop instead of terminating the program.
//!
//! [`catch`] is for programs that run another program: a termination request also concerns that
//! program, and its exit time must be recorded even if this program is busy at that moment.
//! [`stop_flag`] is for programs that measure in a loop and finish with the results so far. A
//! program uses one of the two. Other uses of signals are not supported.

use crate::monotonic_ns;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// SIGINT, sent by Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// SIGTERM, a request to terminate.
pub const TERMINATE: i32 = libc::SIGTERM;
/// SIGHUP, sent when the terminal hangs up.
pub const HANG_UP: i32 = libc::SIGHUP;
/// SIGQUIT, sent by Ctrl-\.
pub const QUIT: i32 = libc::SIGQUIT;
/// SIGKILL, which ends a process without its consent.
pub const KILL: i32 = libc::SIGKILL;

/// The signals that request termination: SIGINT, SIGTERM, SIGHUP and SIGQUIT.
const ASKING: [i32; 4] = [INTERRUPT, TERMINATE, HANG_UP, QUIT];

/// A termination signal that was caught, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Signal number.
    pub number: i32,
    /// Whether the kernel sent the signal, as for terminal keys and hangups.
    pub is_from_kernel: bool,
}

impl Caught {
    /// Returns whether the signal came from a terminal key. If so, every process in the foreground
    /// group received it, and it must not be forwarded to them again. A terminal hangup is sent
    /// only to the session leader.
    pub fn is_key(self) -> bool {
        self.is_from_kernel && matches!(self.number, INTERRUPT | QUIT)
    }
}

/// The last termination signal that was caught but not yet handled. Any thread may store or take
/// it.
#[derive(Debug, Default)]
pub struct Pending(AtomicU32);

const FROM_KERNEL: u32 = 1 << 16;

impl Pending {
    /// Creates an instance with no signal pending.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Stores a signal, replacing any pending one.
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

/// From now on, termination signals are stored in the returned value instead of terminating the
/// program; they interrupt blocking calls. A signal that is ignored (nohup(1)) stays ignored.
/// Commands started later get the previous dispositions. Also records when a child exits, without
/// interrupting any call.
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub fn catch() -> io::Result<&'static Pending> {
    // Without SA_RESTART, so that a blocked caller wakes up and checks for the signal.
    handle_unless_ignored(&ASKING, keep, 0)?;
    handle(libc::SIGCHLD, note_end, libc::SA_RESTART | libc::SA_NOCLDSTOP)?;
    Ok(&PENDING)
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Exit status that a shell reports for a command ended by Ctrl-C.
const INTERRUPTED: i32 = 128 + INTERRUPT;

/// From now on, Ctrl-C and SIGTERM set the returned flag without interrupting any call. The second
/// such signal ends the program at once, with status 130. A signal that is ignored stays ignored:
/// a shell starts background jobs with SIGINT ignored, so that Ctrl-C ends only the foreground job.
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub fn stop_flag() -> io::Result<&'static AtomicBool> {
    handle_unless_ignored(&[INTERRUPT, TERMINATE], stop, libc::SA_RESTART)?;
    Ok(&STOP)
}

/// Like [`stop_flag`], but also covers a hangup and Ctrl-\, which would otherwise end a full-screen
/// program without restoring the terminal.
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub fn stop_flag_of_screen() -> io::Result<&'static AtomicBool> {
    handle_unless_ignored(&ASKING, stop, libc::SA_RESTART)?;
    Ok(&STOP)
}

/// From now on, resizing the terminal interrupts poll(2).
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub(crate) fn wake_on_resize() -> io::Result<()> {
    handle(libc::SIGWINCH, pass, libc::SA_RESTART)
}

/// From now on, a write beyond the file size limit (`ulimit -f`) fails with EFBIG instead of ending
/// the program. Commands started later inherit the previous action.
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub fn fail_writes_beyond_the_file_limit() -> io::Result<()> {
    handle(libc::SIGXFSZ, pass, libc::SA_RESTART)
}

extern "C" fn pass(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

extern "C" fn stop(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if STOP.swap(true, Ordering::SeqCst) {
        crate::terminal_modes::restore();
        // SAFETY: _exit(2) takes a number and does not return; unlike exit(3), it is
        // async-signal-safe.
        unsafe { libc::_exit(INTERRUPTED) };
    }
}

/// Signature of a handler.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

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

/// Sets the action for those of `signals` that are not ignored.
fn handle_unless_ignored(signals: &[i32], handler: Handler, flags: libc::c_int) -> io::Result<()> {
    for &number in signals {
        if disposition(number)? != libc::SIG_IGN {
            handle(number, handler, flags)?;
        }
    }
    Ok(())
}

fn handle(number: i32, handler: Handler, flags: libc::c_int) -> io::Result<()> {
    replace(number, Some(handler), flags).map(drop)
}

/// Sets the action for a signal if `handler` is given. Returns the previous action. The handler
/// must be async-signal-safe.
pub(crate) fn replace(
    number: i32,
    handler: Option<Handler>,
    flags: libc::c_int,
) -> io::Result<libc::sigaction> {
    // SAFETY: all-zero is a valid value: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler.map_or(libc::SIG_DFL, |handler| handler as usize);
    action.sa_flags = libc::SA_SIGINFO | flags;
    let new = if handler.is_some() { &raw const action } else { std::ptr::null() };
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the handler has the type that SA_SIGINFO requires, and all handlers of this crate
    // only read the clock, access atomics and constant thread-locals, and call async-signal-safe
    // functions.
    let status = unsafe { libc::sigaction(number, new, before.as_mut_ptr()) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the successful call above.
    Ok(unsafe { before.assume_init() })
}

/// Passes a signal to the previous action, `before`. If that is not a handler, restores the default
/// action, so that the instruction that the handler returns to raises the signal again.
pub(crate) fn pass_to(
    before: &libc::sigaction,
    number: i32,
    about: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the call takes only numbers.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the handler was installed with SA_SIGINFO, which means that it has this type.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(number, about, context);
        }
        handler => {
            // SAFETY: the handler was installed without SA_SIGINFO, which means that it has this
            // type.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(number);
        }
    }
}

extern "C" fn keep(number: i32, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let is_from_kernel = unsafe { (*about).si_code } == libc::SI_KERNEL;
    PENDING.put(Caught { number, is_from_kernel });
}

/// PID of the child that exited last, and its exit time in two halves, because not every processor
/// has atomic 64-bit stores.
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

/// Returns child `pid`'s exit time in ns of [`monotonic_ns`] if it was recorded and no other child
/// has exited since.
pub(crate) fn child_ended_ns(pid: u32) -> Option<u64> {
    let [child, low, high] = &LAST_CHILD;
    let is_it = || child.load(Ordering::SeqCst) == pid;
    let was_it = is_it();
    let (low, high) = (low.load(Ordering::SeqCst), high.load(Ordering::SeqCst));
    (was_it && is_it()).then_some(u64::from(high) << 32 | u64::from(low))
}

/// Stops ignoring SIGCHLD: while it is ignored, the kernel discards children's exit statuses. An
/// error needs no handling here, because waiting will fail and report it.
pub(crate) fn stop_ignoring_children() {
    if disposition(libc::SIGCHLD).is_ok_and(|now| now == libc::SIG_IGN) {
        // SAFETY: the call takes only numbers.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Restores the default action of the caught signals. Async-signal-safe.
pub(crate) fn catch_no_more() {
    for number in ASKING {
        if disposition(number).is_ok_and(|now| now != libc::SIG_IGN) {
            // SAFETY: the call takes only numbers.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

/// Returns the empty signal set.
pub(crate) fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `set` is writable and is initialized by the call, which cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Blocks all signals in this thread and returns the previous mask. Async-signal-safe.
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

/// Sets this thread's signal mask to `set`. Async-signal-safe.
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
