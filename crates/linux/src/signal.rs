// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that ask this program to end, kept for its main loop instead.
//!
//! For programs that run another one: whoever asks them to end means the other one too. Left out:
//! every other use of signals.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// Please end.
pub const TERMINATE: i32 = libc::SIGTERM;
/// The terminal is gone.
pub const HANG_UP: i32 = libc::SIGHUP;
/// Ctrl-\.
pub const QUIT: i32 = libc::SIGQUIT;

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Its number.
    pub number: i32,
    /// Whether the kernel sent it, as it does for keys of the terminal: then every process of the
    /// foreground group got it, and it must not be passed on to them a second time.
    pub is_from_kernel: bool,
}

/// The last signal that nobody has looked at. Any thread may put and take.
#[derive(Debug, Default)]
pub struct Pending(AtomicU32);

const FROM_KERNEL: u32 = 1 << 16;

impl Pending {
    /// No signal.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Leaves a signal to be taken; one that is there already is lost.
    pub fn put(&self, signal: Caught) {
        let origin = if signal.is_from_kernel { FROM_KERNEL } else { 0 };
        self.0.store(signal.number as u32 & 0xffff | origin, Ordering::SeqCst);
    }

    /// Takes the signal, so that the next call finds none.
    pub fn take(&self) -> Option<Caught> {
        let word = self.0.swap(0, Ordering::SeqCst);
        let number = (word & 0xffff) as i32;
        (word != 0).then_some(Caught { number, is_from_kernel: word & FROM_KERNEL != 0 })
    }
}

static PENDING: Pending = Pending::new();

/// From now on, signals that ask to end are kept in what is returned, and calls that wait are cut
/// short by them. A signal that is ignored (nohup(1)) stays ignored. Commands started afterwards
/// find every signal as it was before.
///
/// # Errors
/// What sigaction(2) says; without a kernel that forbids it, nothing.
pub fn catch() -> io::Result<&'static Pending> {
    for number in [INTERRUPT, TERMINATE, HANG_UP, QUIT] {
        catch_one(number)?;
    }
    Ok(&PENDING)
}

fn catch_one(number: i32) -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `before` is valid for writing during the call; nothing is changed.
    let status = unsafe { libc::sigaction(number, std::ptr::null(), before.as_mut_ptr()) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the successful call above.
    if unsafe { before.assume_init() }.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: all zero is a valid value: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = keep;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: `keep` has the type that SA_SIGINFO asks for and does nothing but store an atomic
    // number, which is async-signal-safe.
    let status = unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The handler. No SA_RESTART: whoever waits must look.
extern "C" fn keep(number: i32, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid pointer.
    let is_from_kernel = unsafe { (*about).si_code } == libc::SI_KERNEL;
    PENDING.put(Caught { number, is_from_kernel });
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

    /// The only test that touches the signals of the process.
    #[test]
    fn a_signal_is_kept_and_says_who_sent_it() {
        let pending = catch().unwrap();
        // SAFETY: numbers only; the signal is caught.
        unsafe { libc::raise(HANG_UP) };
        assert_eq!(pending.take(), Some(Caught { number: HANG_UP, is_from_kernel: false }));
    }
}
