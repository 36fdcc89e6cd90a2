// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's clocks.

/// Returns nanoseconds since an arbitrary epoch shared by all threads; monotonic.
///
/// Uses CLOCK_MONOTONIC_RAW rather than CLOCK_MONOTONIC, which a time daemon slews (by up to 500
/// ppm during a correction). The ratio of a counter to the raw clock is therefore the same at the
/// start and at the end of a run. The drawback is that a second of the raw clock is only as
/// accurate as the machine's oscillator, typically to within 100 ppm. `std::time::Instant`, which
/// uses CLOCK_MONOTONIC, drifts from the raw clock by up to the same 100 ppm.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Returns the calling thread's user and kernel CPU time in nanoseconds. Includes steal time unless
/// the host reports it to the guest. Costs a system call.
pub fn thread_cpu_time_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the length of the kernel's clock tick in milliseconds, 1 to 10 (CONFIG_HZ): the
/// resolution of times that the kernel takes from its tick counter. 10 if unknown.
pub fn clock_tick_ms() -> f64 {
    const LONGEST: f64 = 10.0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing during the call.
    let status = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    let tick = time.tv_nsec as f64 / 1e6;
    if status == 0 && (1.0..LONGEST).contains(&tick) { tick } else { LONGEST }
}

/// # Panics
/// Panics if a sandbox forbids clock_gettime(2). The call cannot fail otherwise: both clocks have
/// existed since Linux 2.6.28, and `time` is writable.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing during the call.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert!(status == 0, "clock_gettime({clock}): {}", std::io::Error::last_os_error());
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_raw_clock_keeps_pace_with_the_other() {
        let (instant, ns) = (Instant::now(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(50));
        // `inner` is within `outer`, whether or not this thread is preempted.
        let inner = monotonic_ns() - ns;
        let outer = instant.elapsed().as_nanos() as u64;
        assert!(inner >= 49_900_000, "{inner}");
        assert!(inner <= outer + outer / 1000, "{inner} {outer}");
    }

    #[test]
    fn the_tick_is_a_length_that_the_kernel_can_be_built_with() {
        let lengths = [100, 250, 300, 1000].map(|hz| 1e3 / f64::from(hz));
        let tick = clock_tick_ms();
        assert!(lengths.iter().any(|length| (length - tick).abs() < 0.01), "{tick}");
    }

    #[test]
    fn processor_time_is_within_wall_time_and_excludes_sleep() {
        let (wall, cpu) = (monotonic_ns(), thread_cpu_time_ns());
        while thread_cpu_time_ns() - cpu < 5_000_000 {}
        let worked = thread_cpu_time_ns() - cpu;
        std::thread::sleep(Duration::from_millis(30));
        let slept = thread_cpu_time_ns() - cpu - worked;
        assert!(monotonic_ns() - wall >= worked + 29_900_000);
        assert!(slept < 10_000_000, "{slept} ns of processor time while asleep");
    }
}
