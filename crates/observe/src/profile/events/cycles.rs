// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how many cycles a second of CPU time has.

use linerate_linux::perf::{self, Request, Target};
use linerate_linux::thread_cpu_time_ns;
use std::hint::black_box;

/// CPU time that the measurement takes, in nanoseconds. The CPU has raised its frequency by then,
/// because the cost of a sample is measured first.
const NS: u64 = 2_000_000;

/// Counts an event in this thread for 2 ms of CPU time, and returns its rate per second; `None` if
/// it cannot be counted or occurs less than a million times per second.
pub(super) fn per_second(request: Request) -> Option<f64> {
    /// Iterations between two reads of the clock, which are system calls: enough iterations that
    /// the time in the kernel, where the event may not count, is negligible.
    const STEPS: u32 = 20_000;
    let request = Request { inherit: false, disabled: false, ..request };
    let event = perf::open(&request, Target::CurrentThread, None).ok()?;
    let before = event.read().ok()?;
    let end_ns = thread_cpu_time_ns() + NS;
    while thread_cpu_time_ns() < end_ns {
        for step in 0..STEPS {
            black_box(step);
        }
    }
    let after = event.read().ok()?;
    let events = after.values().first()?.checked_sub(*before.values().first()?)?;
    let ns = after.running_ns.checked_sub(before.running_ns)?;
    let per_second = events as f64 * 1e9 / ns as f64;
    (per_second.is_finite() && per_second >= 1e6).then_some(per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::CPU_CLOCK;

    #[test]
    fn an_event_is_counted_per_second_of_cpu_time() {
        // This event counts nanoseconds of CPU time.
        let request = Request { exclude_kernel: true, ..Request::new(CPU_CLOCK) };
        match per_second(request) {
            Some(rate) => assert!((0.9e9..1.1e9).contains(&rate), "{rate}"),
            None => eprintln!("SKIP: counting is not permitted"),
        }
    }
}
