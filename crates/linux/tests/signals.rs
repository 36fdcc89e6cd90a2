// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests signal handling in this process. The program is single-threaded and does not use the test
//! harness: signals and children belong to the whole process, so nothing else may send signals or
//! end children in the meantime.

use linerate_linux::child::{Stranger, fork_held};
use linerate_linux::monotonic_ns;
use linerate_linux::signal::{self, Caught, HANG_UP, INTERRUPT, QUIT, TERMINATE};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn main() {
    // Resets the disposition inherited from the shell: under nohup(1), SIGHUP is ignored. SAFETY:
    // the calls take only numbers.
    unsafe {
        libc::signal(HANG_UP, libc::SIG_DFL);
        libc::signal(QUIT, libc::SIG_IGN);
    }
    let pending = signal::catch().unwrap();
    raise(QUIT);
    assert_eq!(pending.take(), None, "what is ignored stays ignored");
    raise(HANG_UP);
    assert_eq!(pending.take(), Some(Caught { number: HANG_UP, is_from_kernel: false }));
    (0..10).for_each(|_| the_end_of_a_child_is_noted_when_it_happens());
    ignored_signals_do_not_stop_a_measurement();
    println!("signals: ok");
}

fn raise(number: i32) {
    // SAFETY: the call takes only a number; the signal is caught or ignored.
    unsafe { libc::raise(number) };
}

fn ignored_signals_do_not_stop_a_measurement() {
    // SAFETY: the calls take only numbers.
    unsafe {
        libc::signal(INTERRUPT, libc::SIG_IGN);
        libc::signal(TERMINATE, libc::SIG_DFL);
    }
    let stop = signal::stop_flag().unwrap();
    // Twice, because the second signal would end the program.
    (0..2).for_each(|_| raise(INTERRUPT));
    assert!(!stop.load(Ordering::SeqCst), "what is ignored stays ignored");
    raise(TERMINATE);
    assert!(stop.swap(false, Ordering::SeqCst));
    // SAFETY: the call takes only numbers.
    unsafe { libc::signal(INTERRUPT, libc::SIG_DFL) };
    signal::stop_flag().unwrap();
    raise(INTERRUPT);
    assert!(stop.load(Ordering::SeqCst));
}

fn the_end_of_a_child_is_noted_when_it_happens() {
    let held = fork_held("true".as_ref(), &[]).unwrap();
    let mut child = held.release().unwrap();
    let stranger = Stranger::find(child.pid()).unwrap();
    while !stranger.wait_timeout(Duration::from_secs(50)) {}
    // The only thread is asleep, so the signal has been handled by the time it wakes up.
    std::thread::sleep(Duration::from_millis(20));
    let seen_ns = monotonic_ns();
    assert!(child.wait().at_ns < seen_ns, "the end was recorded before it was queried");
}
