// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context switches and run delay of the calling thread.

use crate::Error;
use std::mem::MaybeUninit;

/// Returns how many involuntary context switches the calling thread has had since it started. Costs
/// a system call.
///
/// # Panics
/// Panics if a sandbox forbids getrusage(2). The call cannot fail otherwise: RUSAGE_THREAD has
/// existed since Linux 2.6.26, and the result is writable.
pub fn involuntary_switches() -> u64 {
    usage().ru_nivcsw as u64
}

/// Returns how many context switches, voluntary or not, the calling thread has had since it
/// started. While this number does not change, the thread stays on its CPU and shares it only with
/// the kernel. Costs a system call.
///
/// # Panics
/// Panics in the same cases as [`involuntary_switches`].
pub fn switches() -> u64 {
    let usage = usage();
    (usage.ru_nivcsw as u64).wrapping_add(usage.ru_nvcsw as u64)
}

/// CPU time and context switches of a thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, nanoseconds. The sum of user and kernel time is exact. The kernel divides
    /// the sum by sampling the mode at each timer tick, unless it accounts for every mode switch.
    pub user_ns: u64,
    /// Time in kernel mode, nanoseconds, as exact as `user_ns`.
    pub system_ns: u64,
    /// Context switches because the thread blocked.
    pub voluntary: u64,
    /// Context switches because another thread took the CPU.
    pub involuntary: u64,
}

/// Returns the calling thread's CPU time and context switches. Costs a system call.
///
/// # Panics
/// Panics in the same cases as [`involuntary_switches`].
pub fn thread_usage() -> Usage {
    let usage = usage();
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        voluntary: usage.ru_nvcsw as u64,
        involuntary: usage.ru_nivcsw as u64,
    }
}

fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is writable during the call.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert!(status == 0, "getrusage(RUSAGE_THREAD): {}", std::io::Error::last_os_error());
    // SAFETY: getrusage(2) fills all of `usage` when it returns 0, as it just did.
    unsafe { usage.assume_init() }
}

const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// Returns the calling thread's run delay since it started: nanoseconds spent runnable but waiting
/// for a CPU. Opens a file in /proc, which takes a few microseconds.
///
/// # Errors
/// Returns an error if the kernel does not track run delay, because the feature is not built in or
/// is switched off.
pub fn run_delay_ns() -> Result<u64, Error> {
    let read = std::fs::read_to_string(SCHEDSTAT).map_err(|error| error.to_string());
    read.and_then(|text| parse_schedstat(&text).map_err(str::to_owned)).map_err(|reason| {
        let advice = "continue without run delay, or boot a kernel with CONFIG_SCHEDSTATS";
        Error::File { path: SCHEDSTAT, reason, advice }
    })
}

/// Parses the run delay, the second of three numbers: time on a CPU, run delay, and how often the
/// thread was scheduled onto a CPU. Without accounting, the kernel prints zeros. The reading thread
/// has been scheduled at least once, so a third number of 0 means that there is no accounting.
fn parse_schedstat(text: &str) -> Result<u64, &'static str> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    match numbers[..] {
        [_, _, 0] => Err("all zeros: the kernel does not track run delay"),
        [_, delay, _] => Ok(delay),
        _ => Err("expected three numbers"),
    }
}

/// Sets SCHED_IDLE for the calling thread only: from now on, it runs only when no normal thread
/// needs its CPU. Needs no privileges.
///
/// # Errors
/// Returns an error if a seccomp filter forbids the call.
pub fn run_only_when_idle() -> Result<(), Error> {
    // SAFETY: all fields are numbers, for which zero is valid.
    let parameters: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `parameters` is readable during the call; 0 means the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => {
            let advice = "allow sched_setscheduler in this sandbox";
            Err(Error::last("sched_setscheduler", "SCHED_IDLE".to_owned(), advice))
        }
    }
}

/// Yields the CPU to other runnable threads; returns immediately if there are none.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Returns the calling thread's kernel ID, which is unique in the system while the thread exists.
pub fn thread_id() -> u32 {
    // SAFETY: the call has no arguments and touches no memory.
    let id = unsafe { libc::gettid() };
    id as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two threads share one CPU, so both must be preempted, and both must wait for the CPU.
    #[test]
    fn sharing_a_processor_shows_in_switches_and_delay() {
        let cpu = crate::allowed_cpus().unwrap()[0];
        let compete = move || {
            crate::pin_current_thread(cpu).unwrap();
            let (switches, delay) = (involuntary_switches(), run_delay_ns());
            let start = crate::thread_cpu_time_ns();
            while crate::thread_cpu_time_ns() - start < 100_000_000 {}
            (involuntary_switches() - switches, run_delay_ns().and_then(|d| Ok(d - delay?)))
        };
        let threads = [std::thread::spawn(compete), std::thread::spawn(compete)];
        let seen = threads.map(|t| t.join().unwrap());
        assert!(seen.iter().map(|s| s.0).sum::<u64>() > 0, "{seen:?}");
        for (_, delay) in seen {
            // An error is also valid: the kernel may not track run delay.
            assert!(delay.is_err() || delay.as_ref().is_ok_and(|&d| d > 1_000_000), "{delay:?}");
        }
    }

    #[test]
    fn a_thread_may_become_one_that_runs_only_when_idle() {
        std::thread::spawn(|| run_only_when_idle().unwrap()).join().unwrap();
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let other = std::thread::spawn(thread_id).join().unwrap();
        assert_ne!(thread_id(), other);
        assert!(std::path::Path::new(&format!("/proc/self/task/{}", thread_id())).exists());
    }

    #[test]
    fn schedstat_as_recorded() {
        assert_eq!(parse_schedstat("404838 105158 4\n"), Ok(105_158));
        assert_eq!(parse_schedstat("404838 0 4\n"), Ok(0));
        for bad in ["0 0 0\n", "", "1 2", "1 2 3 4", "1 -2 3", "1 2 x"] {
            assert!(parse_schedstat(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn schedstat_gives_back_what_was_printed(run: u64, delay: u64, count in 1u64..) {
            prop_assert_eq!(parse_schedstat(&format!("{run} {delay} {count}\n")), Ok(delay));
        }

        #[test]
        fn schedstat_survives_anything(text in "[0-9 \n\\-x]{0,40}|.{0,40}") {
            if let Ok(delay) = parse_schedstat(&text) {
                let second = text.split_ascii_whitespace().nth(1).unwrap();
                prop_assert_eq!(second.parse(), Ok(delay));
            }
        }
    }
}
