// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls into foreign code that return even if the code crashes.
//!
//! A fault in foreign code (a stage in a shared object) must be reported with the name of that
//! code, together with what was measured so far. [`guarded`] calls a function through a trampoline,
//! which saves the callee-saved registers. If one of the `SIGNALS` hits the thread during the call,
//! the handler makes the thread resume right after the call, where those registers are restored,
//! and [`guarded`] returns a [`Crash`]:
//!
//! ```text
//! guarded -> trampoline: push registers; *stack = sp; call function; result = 0
//!                 resume:                                            pop registers; return
//! signal  -> handler:    sp = *stack; result = signal number; pc = resume
//! ```
//!
//! Whatever the function held, such as locks or memory, stays held. After a crash, the process can
//! finish its report but must not continue. If the report hangs, for example because the function
//! held the heap lock, an alarm ends the process after `FINISH_S` seconds; [`reported`] cancels it.
//!
//! The handler runs on the alternate signal stack that the standard library gives every thread, so
//! it also catches stack overflows. Signals outside a guarded call are passed to the previous
//! handler. On architectures without a trampoline, a crash ends the process as usual.

use crate::signal::{Handler, pass_to, replace};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Signals that indicate a crash.
const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Time that the process has to finish its report after a crash, in seconds.
const FINISH_S: u32 = 20;

/// Exit status of a process that does not finish its report.
const STATUS: i32 = 2;

/// Signature of a function that can be called under guard.
pub type Guarded = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// A crash within a guarded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Number of the signal: SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT.
    pub signal: i32,
    /// Address whose access failed, or address of the faulting instruction; `None` for abort(3).
    pub address: Option<usize>,
}

impl std::fmt::Display for Crash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.signal {
            libc::SIGSEGV => "SIGSEGV",
            libc::SIGBUS => "SIGBUS",
            libc::SIGFPE => "SIGFPE",
            libc::SIGILL => "SIGILL",
            _ => "SIGABRT",
        };
        match self.address {
            Some(address) => write!(f, "{name} at address {address:#x}"),
            None => write!(f, "{name} (abort)"),
        }
    }
}

thread_local! {
    /// Where the trampoline of the running guarded call keeps its stack pointer; null outside
    /// guarded calls. `STACK` and `ADDRESS` are const-initialized and have no destructor, so that a
    /// handler can access them.
    static STACK: Cell<*const Cell<usize>> = const { Cell::new(std::ptr::null()) };
    static ADDRESS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether a crash has set an alarm that is still pending.
static HAS_CRASHED: AtomicBool = AtomicBool::new(false);

/// The signal actions that were in effect before [`install`], in the order of [`SIGNALS`].
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the handler, once per process.
///
/// # Errors
/// Returns the error from sigaction(2), which fails only if the kernel forbids it.
pub fn install() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if BEFORE.get().is_some() || !trampoline::EXISTS {
        return Ok(());
    }
    let mut before = Vec::with_capacity(SIGNALS.len());
    for signal in SIGNALS {
        before.push(replace(signal, None, 0)?);
    }
    if let Ok(before) = before.try_into() {
        BEFORE.get_or_init(|| before);
    }
    replace(libc::SIGALRM, Some(on_alarm), 0)?;
    for signal in SIGNALS {
        replace(signal, Some(on_crash), libc::SA_ONSTACK)?;
    }
    Ok(())
}

/// Calls `function` with its arguments. Guarded calls cannot be nested. Call [`install`] first.
///
/// # Errors
/// Returns the crash, if there was one. Any data that the function was modifying is then in an
/// unknown state.
///
/// # Safety
/// The caller must meet the contract of `function` and, after a crash, must not use any data that
/// the function modifies.
#[inline]
pub unsafe fn guarded(
    function: Guarded,
    first: *mut c_void,
    second: *mut c_void,
) -> Result<(), Crash> {
    let stack = Cell::new(0);
    STACK.set(&raw const stack);
    // SAFETY: the caller meets the contract of `function`; the trampoline preserves the
    // callee-saved registers of the C ABI, and writes one word to `stack`.
    let signal = unsafe { trampoline::call(function, first, second, stack.as_ptr()) };
    STACK.set(std::ptr::null());
    if signal == 0 { Ok(()) } else { Err(Crash { signal, address: ADDRESS.take() }) }
}

/// Cancels the time limit that a crash has set for the report. Call once the report is complete:
/// printing it may take any amount of time, for example if its reader pauses. Without a crash, this
/// has no effect.
pub fn reported() {
    if HAS_CRASHED.swap(false, Ordering::Relaxed) {
        // SAFETY: alarm(2) takes a number.
        unsafe { libc::alarm(0) };
    }
}

extern "C" fn on_crash(number: i32, about: *mut libc::siginfo_t, context: *mut c_void) {
    let stack = STACK.get();
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let is_sent = unsafe { (*about).si_code } == libc::SI_USER;
    if stack.is_null() || is_sent {
        let index = SIGNALS.iter().position(|signal| *signal == number);
        // `OnceLock::get` is an atomic load; it was set before the handler was installed.
        if let Some((before, index)) = BEFORE.get().zip(index) {
            pass_to(&before[index], number, about, context);
        }
        return;
    }
    if number != libc::SIGABRT {
        // SAFETY: these signals come with an address, unless another process sent them.
        ADDRESS.set(Some(unsafe { (*about).si_addr() } as usize));
    }
    STACK.set(std::ptr::null());
    // SAFETY: alarm(2) takes a number and is async-signal-safe.
    unsafe { libc::alarm(FINISH_S) };
    HAS_CRASHED.store(true, Ordering::Relaxed);
    // SAFETY: `stack` points to the cell of the guarded call that is on this thread's stack; the
    // kernel passes a valid context, which is the handler's until it returns.
    unsafe { trampoline::resume(&mut *context.cast(), (*stack).get(), number) };
}

extern "C" fn on_alarm(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    const TEXT: &[u8] = b"linerate: a stage from a shared object crashed while holding one of \
                          this process's locks, so the report could not be finished\n";
    // SAFETY: write(2) and _exit(2) are async-signal-safe, and the length is that of the text.
    unsafe {
        libc::write(2, TEXT.as_ptr().cast(), TEXT.len());
        libc::_exit(STATUS);
    }
}

const _: Handler = on_crash;

#[cfg(target_arch = "x86_64")]
mod trampoline {
    use super::Guarded;
    use std::ffi::c_void;

    pub(super) const EXISTS: bool = true;

    // The six callee-saved registers of the System V ABI, and 8 bytes that keep the stack aligned
    // to 16 bytes at the call.
    std::arch::global_asm!(
        ".pushsection .text",
        ".globl linerate_guarded_call",
        ".hidden linerate_guarded_call",
        ".globl linerate_guarded_resume",
        ".hidden linerate_guarded_resume",
        "linerate_guarded_call:",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rcx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "call rax",
        "xor eax, eax",
        "linerate_guarded_resume:",
        "cld",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "linerate_guarded_call"]
        pub(super) fn call(
            function: Guarded,
            first: *mut c_void,
            second: *mut c_void,
            stack: *mut usize,
        ) -> i32;
        fn linerate_guarded_resume();
    }

    pub(super) fn resume(context: &mut libc::ucontext_t, stack: usize, result: i32) {
        let registers = &mut context.uc_mcontext.gregs;
        let address = linerate_guarded_resume as *const () as usize;
        registers[libc::REG_RSP as usize] = stack as i64;
        registers[libc::REG_RAX as usize] = i64::from(result);
        registers[libc::REG_RIP as usize] = address as i64;
    }
}

#[cfg(target_arch = "aarch64")]
mod trampoline {
    use super::Guarded;
    use std::ffi::c_void;

    pub(super) const EXISTS: bool = true;

    // The registers that a function must preserve under the procedure call standard (AAPCS64): x19
    // to x30, and the lower halves of v8 to v15.
    std::arch::global_asm!(
        ".pushsection .text",
        ".globl linerate_guarded_call",
        ".hidden linerate_guarded_call",
        ".globl linerate_guarded_resume",
        ".hidden linerate_guarded_resume",
        "linerate_guarded_call:",
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x3]",
        "mov x9, x0",
        "mov x0, x1",
        "mov x1, x2",
        "blr x9",
        "mov x0, #0",
        "linerate_guarded_resume:",
        "ldp d14, d15, [sp, #144]",
        "ldp d12, d13, [sp, #128]",
        "ldp d10, d11, [sp, #112]",
        "ldp d8, d9, [sp, #96]",
        "ldp x27, x28, [sp, #80]",
        "ldp x25, x26, [sp, #64]",
        "ldp x23, x24, [sp, #48]",
        "ldp x21, x22, [sp, #32]",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #160",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "linerate_guarded_call"]
        pub(super) fn call(
            function: Guarded,
            first: *mut c_void,
            second: *mut c_void,
            stack: *mut usize,
        ) -> i32;
        fn linerate_guarded_resume();
    }

    pub(super) fn resume(context: &mut libc::ucontext_t, stack: usize, result: i32) {
        let machine = &mut context.uc_mcontext;
        machine.sp = stack as u64;
        machine.regs[0] = result as u64;
        machine.pc = linerate_guarded_resume as *const () as u64;
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod trampoline {
    use super::Guarded;
    use std::ffi::c_void;

    pub(super) const EXISTS: bool = false;

    pub(super) unsafe fn call(
        function: Guarded,
        first: *mut c_void,
        second: *mut c_void,
        _: *mut usize,
    ) -> i32 {
        // SAFETY: the caller meets the contract of `function`.
        unsafe { function(first, second) };
        0
    }

    pub(super) fn resume(_: &mut libc::ucontext_t, _: usize, _: i32) {}
}
