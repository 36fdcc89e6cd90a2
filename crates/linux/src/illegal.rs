// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recovery from illegal instructions within one range of code.
//!
//! A kernel module may enable user access to counter registers, and this access can be disabled
//! again at any time. Reads are then illegal instructions and raise SIGILL, which kills a process.
//! With this module, one range of code can specify an address at which to resume instead. Any other
//! SIGILL behaves as before. If the program later installs its own handler without chaining to this
//! one, such reads kill it again.

use crate::signal::{pass_to, replace};
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A range of code addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Address of the first byte.
    pub begin: usize,
    /// Address of the first byte after the range.
    pub end: usize,
    /// Address at which to resume after an illegal instruction.
    pub resume: usize,
}

/// The protected range, and the previous SIGILL action.
struct Recovery {
    stretch: Stretch,
    before: libc::sigaction,
}

static RECOVERY: OnceLock<Recovery> = OnceLock::new();
static SETTING: Mutex<()> = Mutex::new(());

/// Registers `stretch`. From now on, a thread of this process that executes an illegal instruction
/// in this range resumes at `stretch.resume`. A process has only one such range; registering the
/// same one again has no effect.
///
/// # Errors
/// Returns an error if sigaction(2) fails, if another range is already registered, or if the
/// architecture is not supported.
///
/// # Safety
/// Whichever instruction in the range is illegal, the stack and registers must be in the state that
/// the code at `resume` requires.
pub unsafe fn recover(stretch: Stretch) -> io::Result<()> {
    if !KNOWS_REGISTERS {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "not supported on this architecture",
        ));
    }
    // A second caller waits until the handler is installed.
    let _alone = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = RECOVERY.get() {
        return match known.stretch == stretch {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another code range is \
                already registered",
            )),
        };
    }
    let before = replace(libc::SIGILL, None, 0)?;
    RECOVERY.get_or_init(|| Recovery { stretch, before });
    replace(libc::SIGILL, Some(on_illegal), libc::SA_ONSTACK).map(drop)
}

/// Returns whether the calling thread blocks SIGILL. If so, the kernel kills the process on an
/// illegal instruction regardless of any handler.
pub fn is_held_back() -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` can be written; without a new set nothing is changed.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
    // SAFETY: zeroed, and filled by the call, which cannot fail with these arguments.
    unsafe { libc::sigismember(set.as_ptr(), libc::SIGILL) == 1 }
}

extern "C" fn on_illegal(number: i32, about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // `OnceLock::get` is an atomic load, which is safe in a handler. `RECOVERY` was set before the
    // handler was installed.
    let Some(Recovery { stretch, before }) = RECOVERY.get() else { return };
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid context, which is ours until we
    // return.
    let counter = unsafe { program_counter(&mut *context.cast()) };
    if let Some(counter) = counter.filter(|at| (stretch.begin..stretch.end).contains(&**at)) {
        *counter = stretch.resume;
        return;
    }
    pass_to(before, number, about, context);
}

/// Whether [`program_counter`] supports this architecture.
const KNOWS_REGISTERS: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"));

/// Returns the program counter at which the interrupted code resumes; `None` on unsupported
/// architectures.
fn program_counter(context: &mut libc::ucontext_t) -> Option<&mut usize> {
    #[cfg(target_arch = "x86_64")]
    let place = &raw mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    #[cfg(target_arch = "aarch64")]
    let place = &raw mut context.uc_mcontext.pc;
    #[cfg(target_arch = "arm")]
    let place = &raw mut context.uc_mcontext.arm_pc;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    let place = std::ptr::from_mut(context);
    // SAFETY: where the pointer is used, it points to a register in the context that is as large as
    // `usize` and is borrowed for as long as the context is.
    KNOWS_REGISTERS.then(|| unsafe { &mut *place.cast::<usize>() })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    std::arch::global_asm!(
        ".pushsection .text",
        "linerate_test_illegal: mov eax, 1",
        "linerate_test_begin: ud2",
        "linerate_test_end: ret",
        "linerate_test_resume: mov eax, 2",
        "ret",
        "linerate_test_other: ud2",
        "mov eax, 3",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        safe fn linerate_test_illegal() -> i32;
        safe fn linerate_test_other() -> i32;
        static linerate_test_begin: u8;
        static linerate_test_end: u8;
        static linerate_test_resume: u8;
    }

    static SEEN: AtomicUsize = AtomicUsize::new(0);

    /// A SIGILL handler that skips the two-byte instruction `ud2`.
    extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        SEEN.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as in `on_illegal`.
        let counter = unsafe { program_counter(&mut *context.cast()) };
        *counter.expect("x86-64 is known") += 2;
    }

    #[test]
    fn survives_illegal_instructions_of_the_stretch_and_forwards_others() {
        replace(libc::SIGILL, Some(step), 0).unwrap();
        let stretch = Stretch {
            begin: &raw const linerate_test_begin as usize,
            end: &raw const linerate_test_end as usize,
            resume: &raw const linerate_test_resume as usize,
        };
        // SAFETY: the instruction keeps nothing on the stack, and the code that follows needs no
        // registers.
        unsafe { recover(stretch) }.unwrap();
        // SAFETY: as above.
        unsafe { recover(stretch) }.unwrap();
        assert_eq!((linerate_test_illegal(), SEEN.load(Ordering::SeqCst)), (2, 0));
        assert_eq!((linerate_test_other(), SEEN.load(Ordering::SeqCst)), (3, 1));
        let other = Stretch { begin: stretch.begin + 1, ..stretch };
        // SAFETY: as above; the request is refused.
        assert!(unsafe { recover(other) }.is_err());
    }

    #[test]
    fn reports_a_blocked_signal() {
        std::thread::spawn(|| {
            assert!(!is_held_back());
            let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: `set` can be written.
            unsafe { libc::sigfillset(set.as_mut_ptr()) };
            let (all, none) = (set.as_ptr(), std::ptr::null_mut());
            // SAFETY: `set` is filled; the call changes only this thread's mask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all, none) };
            assert!(is_held_back());
        })
        .join()
        .unwrap();
    }
}
