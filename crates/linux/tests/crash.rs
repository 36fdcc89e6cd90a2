// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a guarded call returns after a crash, on any thread, and that a crash in other code
//! ends the process as usual. Signals belong to the whole process, so there is no test harness.

use linerate_linux::crash::{Crash, guarded, install, reported};
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::null_mut;

/// Argument that makes this program crash without a guard.
const UNGUARDED: &str = "crash-without-guard";

fn main() {
    install().expect("handlers can be set");
    install().expect("a second call has no effect");
    if std::env::args().nth(1).is_some_and(|argument| argument == UNGUARDED) {
        let mut sum = 0_u64;
        // SAFETY: `sums` accepts these arguments.
        unsafe { guarded(sums, (&raw mut sum).cast(), null_mut()) }.expect("it does not crash");
        // SAFETY: not safe: this process is meant to die.
        unsafe { null_mut::<u8>().add(8).write_volatile(1) };
        unreachable!("the write above raises SIGSEGV");
    }
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        println!("SKIP: crashes are not guarded on this architecture");
        return;
    }
    values_survive();
    std::thread::spawn(values_survive).join().expect("no panic");
    std::thread::spawn(overflow).join().expect("no panic");
    reported();
    // SAFETY: alarm(2) takes a number.
    assert_eq!(unsafe { libc::alarm(0) }, 0, "the time limit of the report has ended with it");
    let own = std::env::current_exe().expect("this program");
    let status = Command::new(own).arg(UNGUARDED).output().expect("it starts").status;
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status:?}");
    println!("crash: ok");
}

fn call(function: unsafe extern "C" fn(*mut c_void, *mut c_void), argument: usize) -> Crash {
    // SAFETY: the functions of this file change nothing that is used after they crash.
    unsafe { guarded(function, null_mut(), argument as *mut c_void) }.expect_err("it crashes")
}

/// Live values of integer and floating-point type survive a crash, whichever registers they are in.
fn values_survive() {
    let seed = std::hint::black_box(3_u64);
    let integers: [u64; 12] = std::array::from_fn(|i| seed.wrapping_mul(i as u64 + 7));
    let floats: [f64; 12] = std::array::from_fn(|i| seed as f64 * (i as f64 + 0.5));
    let mut sum = 0_u64;
    for round in 0..50 {
        let crash = call(writes, 8 + round);
        assert_eq!(crash, Crash { signal: libc::SIGSEGV, address: Some(8 + round) });
        assert_eq!(call(aborts, 0), Crash { signal: libc::SIGABRT, address: None });
        assert_eq!(call(is_illegal, 0).signal, ILLEGAL);
        let sums: *mut c_void = (&raw mut sum).cast();
        // SAFETY: `sums` accepts these arguments.
        unsafe { guarded(self::sums, sums, null_mut()) }.expect("it does not crash");
    }
    assert_eq!(sum, 50 * 4950);
    assert!((0..12).all(|i| integers[i] == 3 * (i as u64 + 7)));
    assert!((0..12).all(|i| floats[i] == 3.0 * (i as f64 + 0.5)));
    let text = call(writes, 24).to_string();
    assert_eq!(text, "SIGSEGV at address 0x18");
}

fn overflow() {
    assert_eq!(call(recurses, 1).signal, libc::SIGSEGV);
}

unsafe extern "C" fn sums(sum: *mut c_void, _: *mut c_void) {
    // SAFETY: the caller passes a number.
    unsafe { *sum.cast::<u64>() += (0..std::hint::black_box(100)).sum::<u64>() };
}

unsafe extern "C" fn writes(_: *mut c_void, address: *mut c_void) {
    // SAFETY: not safe: nothing is mapped at the addresses that the test passes.
    unsafe { address.cast::<u8>().write_volatile(1) };
}

unsafe extern "C" fn aborts(_: *mut c_void, _: *mut c_void) {
    // SAFETY: ends the process, or the guarded call.
    unsafe { libc::abort() };
}

/// Signal raised by the instruction in [`is_illegal`].
const ILLEGAL: i32 = libc::SIGILL;

unsafe extern "C" fn is_illegal(_: *mut c_void, _: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: raises SIGILL.
    unsafe {
        std::arch::asm!("ud2");
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: raises SIGILL.
    unsafe {
        std::arch::asm!("udf #0");
    }
}

unsafe extern "C" fn recurses(first: *mut c_void, _: *mut c_void) {
    let mut frame = [first as usize; 512];
    if std::hint::black_box(&mut frame)[0] == usize::MAX {
        return;
    }
    // SAFETY: overflows the stack, which the guard page detects.
    unsafe { recurses(frame.as_mut_ptr().cast(), null_mut()) };
    std::hint::black_box(&mut frame);
}
