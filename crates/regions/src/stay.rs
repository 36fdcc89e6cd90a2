// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether a thread was on a CPU while its regions ran. Ticks do not show this, because
//! they measure wall time.
//!
//! The kernel's accounting of the thread is read when its regions begin, and when the thread ends
//! or a report is requested, which adds no cost to entering and leaving regions. The accounting
//! does not show in which region the thread was off its CPU; for that, count `task_clock_ns`.

use crate::tree::{Account, Log};
use linerate_machine::ticks::ticks;
use std::fs::read_to_string;

/// A thread's CPU time between two readings of the kernel's accounting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stay {
    /// Wall time between the two readings, in ticks.
    pub(crate) wall: f64,
    /// CPU time between the two readings, in ticks.
    pub(crate) on_processor: f64,
    /// Ticks during which the thread was runnable but waiting for a CPU; `None` if the kernel does
    /// not account for this time.
    pub(crate) waited: Option<f64>,
    /// Number of involuntary context switches; `None` if unknown.
    pub(crate) switches: Option<u64>,
}

/// Reads the kernel's accounting of a thread in this process; `None` if the thread has ended, or
/// the kernel refuses. Opens two files in /proc, which takes some tens of microseconds.
pub(crate) fn account(tid: u32) -> Option<Account> {
    let file = |name| read_to_string(format!("/proc/self/task/{tid}/{name}")).ok();
    Some(Account {
        on_processor_ns: on_processor_ns(tid)?,
        ticks: ticks(),
        waited_ns: file("schedstat").as_deref().and_then(waited_ns),
        switches: file("status").as_deref().and_then(switches),
    })
}

impl Stay {
    /// Returns the CPU time of the log's thread from the start of its regions until the thread
    /// ended or, if it is still running, until now; `None` if unknown.
    pub(crate) fn from_log(log: &Log, ticks_per_ns: f64) -> Option<Self> {
        let began = log.began.get()?;
        let ended = log.ended.get().copied().or_else(|| account(log.tid))?;
        let both = |of: fn(&Account) -> Option<u64>| Some(of(&ended)?.saturating_sub(of(began)?));
        let on_processor = ended.on_processor_ns.saturating_sub(began.on_processor_ns);
        Some(Self {
            wall: ended.ticks.saturating_sub(began.ticks) as f64,
            on_processor: on_processor as f64 * ticks_per_ns,
            waited: both(|account| account.waited_ns).map(|ns| ns as f64 * ticks_per_ns),
            switches: both(|account| account.switches),
        })
    }
}

/// Returns the CPU time in ns of a thread in this process, up to date even while the thread is
/// running.
fn on_processor_ns(tid: u32) -> Option<u64> {
    // Clock ID as defined in linux/posix-timers_types.h: the inverted thread ID, shifted left by
    // three bits; 4 selects the clock of a thread rather than a process; 2 selects the time
    // accounted by the scheduler.
    let clock = ((!(tid as libc::clockid_t)) << 3) | 4 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours and writable during the call.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    (status == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the time in ns that a thread waited for a CPU, from the text of `schedstat`. Its fields
/// are the time on a CPU, the time runnable but waiting, and the number of times scheduled. `None`
/// if all three are 0, because the kernel then does no accounting.
fn waited_ns(text: &str) -> Option<u64> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    match numbers[..] {
        [_, waited, times] if times > 0 => Some(waited),
        _ => None,
    }
}

/// Returns how many involuntary context switches the text of `status` reports.
fn switches(text: &str) -> Option<u64> {
    let count = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_linux::{thread_cpu_time_ns, thread_id};
    use std::time::Duration;

    #[test]
    fn the_clock_of_a_thread_is_the_one_it_reads_itself() {
        let before = thread_cpu_time_ns();
        let seen = std::thread::scope(|scope| {
            let tid = thread_id();
            scope.spawn(move || on_processor_ns(tid)).join().unwrap()
        });
        let seen = seen.expect("the thread is alive");
        assert!((before..=thread_cpu_time_ns()).contains(&seen), "{before} {seen}");
        // This thread ID exceeds the kernel's maximum, 2^22, so no such thread exists.
        assert_eq!(on_processor_ns(u32::MAX >> 4), None);
    }

    #[test]
    fn a_sleeping_thread_is_away_and_not_waiting() {
        let log = Log::new(thread_id(), &[], "");
        assert_eq!(Stay::from_log(&log, 1.0), None);
        log.began.get_or_init(|| account(thread_id()).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        let rate = linerate_machine::ticks::ticks_per_s() / 1e9;
        let stay = Stay::from_log(&log, rate).unwrap();
        assert!(stay.wall > 20e6 * rate && stay.on_processor < stay.wall, "{stay:?}");
        assert!(stay.on_processor + stay.waited.unwrap_or(0.0) < stay.wall, "{stay:?}");
    }

    #[test]
    fn the_files_of_the_kernel_are_understood() {
        assert_eq!(waited_ns("12 345 6\n"), Some(345));
        assert_eq!((waited_ns("0 0 0\n"), waited_ns("1 2"), waited_ns("")), (None, None, None));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t14\n";
        assert_eq!((switches(status), switches("Name:\tx\n")), (Some(14), None));
    }
}
