// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timestamp counter: the cheapest clock there is.
//!
//! A *tick* is one unit of that counter: the TSC on x86-64, the generic timer's virtual count on
//! aarch64, and elsewhere the monotonic clock, in nanoseconds. Ticks are not core cycles (see
//! [`core_clock`](crate::core_clock)). Different CPUs' counters agree if [`is_invariant`] returns
//! true.
//!
//! [`ticks`] may execute a few tens of cycles earlier or later than program order suggests: use it
//! for time spans of thousands of cycles. [`ticks_in_order`] keeps program order, and so delays
//! code that would otherwise have overlapped with it.

use linerate_linux::monotonic_ns;
use linerate_record::stats::Estimate;
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: RDTSC exists on every x86-64 processor; Linux lets programs use it.
        unsafe { _rdtsc() }
    }

    /// Reads the counter in program order: LFENCE waits for all earlier instructions and holds back
    /// all later ones.
    #[inline(always)]
    pub(super) fn read_in_order() -> u64 {
        // SAFETY: SSE2 and RDTSC exist on every x86-64 processor; LFENCE touches no memory.
        unsafe {
            _mm_lfence();
            let ticks = _rdtsc();
            _mm_lfence();
            ticks
        }
    }

    pub(super) fn is_invariant() -> bool {
        crate::cpuid::has_invariant_tsc()
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn read() -> u64 {
        let ticks;
        // SAFETY: Linux lets programs read this register, which has no side effect.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) }
        ticks
    }

    /// Reads the counter in program order: ISB waits for all earlier instructions and holds back
    /// all later ones.
    #[inline(always)]
    pub(super) fn read_in_order() -> u64 {
        let ticks;
        // SAFETY: Linux lets programs read this register, which has no side effect.
        unsafe {
            asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks,
                 options(nostack, preserves_flags));
        }
        ticks
    }

    /// Always true: the system counter has a fixed frequency (Arm ARM, "The Generic Timer").
    pub(super) fn is_invariant() -> bool {
        true
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    #[inline(always)]
    pub(super) fn read() -> u64 {
        linerate_linux::monotonic_ns()
    }

    #[inline(always)]
    pub(super) fn read_in_order() -> u64 {
        read()
    }

    pub(super) fn is_invariant() -> bool {
        true
    }
}

/// Reads the timestamp counter, in ticks.
#[inline(always)]
pub fn ticks() -> u64 {
    counter::read()
}

/// Like [`ticks`], but reads the counter after everything that precedes the call in program order,
/// and before everything that follows it. Earlier stores may still be in the store buffer. Costs
/// two to three times as much.
#[inline(always)]
pub fn ticks_in_order() -> u64 {
    counter::read_in_order()
}

/// Returns whether the processor guarantees that the counter runs at a constant rate, regardless of
/// core clock and sleep states. False on x86-64 if a virtual machine hides the guarantee.
pub fn is_invariant() -> bool {
    counter::is_invariant()
}

/// Returns ticks per second, as [`tick_rate`] does, without bounds.
pub fn ticks_per_s() -> f64 {
    tick_rate().value
}

/// How long the first call to [`tick_rate`] takes. The uncertainties at its two ends, 100 ns each,
/// are 10 ppm of this time in total.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Returns the ticks per second of [`monotonic_ns`], with bounds. The first call in a process
/// sleeps for 20 ms; later calls return the same result immediately.
///
/// The bounds are certain (confidence 1), not statistical: each read of the monotonic clock is
/// enclosed between two reads of the counter, and preemption can only widen an enclosure.
pub fn tick_rate() -> Estimate {
    static RATE: OnceLock<Estimate> = OnceLock::new();
    *RATE.get_or_init(|| measure_rate(CALIBRATION))
}

fn measure_rate(span: Duration) -> Estimate {
    let first = Enclosure::closest();
    std::thread::sleep(span);
    rate_between(first, Enclosure::closest())
}

/// A read of the monotonic clock, and the counter values read just before and after it.
#[derive(Clone, Copy, Debug)]
struct Enclosure {
    before: u64,
    ns: u64,
    after: u64,
}

impl Enclosure {
    /// Returns the tightest of 64 enclosures, most of which are not interrupted. Takes a few
    /// microseconds.
    fn closest() -> Self {
        let read = |_| {
            let before = ticks_in_order();
            let ns = monotonic_ns();
            Self { before, ns, after: ticks_in_order() }
        };
        (1..64).map(read).fold(read(0), |a, b| if b.width() < a.width() { b } else { a })
    }

    fn width(self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Returns the tick rate between two enclosures. The counter advanced from some point in the first
/// one to some point in the second, while the clock advanced by the difference between its two
/// reads, each of which is rounded down to a nanosecond.
fn rate_between(first: Enclosure, second: Enclosure) -> Estimate {
    let ns = second.ns.saturating_sub(first.ns) as f64;
    let per_second = |ticks: u64, ns: f64| ticks as f64 / ns * 1e9;
    let least = second.before.saturating_sub(first.after);
    let most = second.after.saturating_sub(first.before);
    let (low, high) = (per_second(least, ns + 1.0), per_second(most, ns - 1.0));
    Estimate { value: (low + high) / 2.0, low, high, confidence: 1.0, n: 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_counter_advances_and_counts_the_same_everywhere() {
        let before = ticks();
        let elsewhere = std::thread::spawn(ticks).join().unwrap();
        assert!(before < elsewhere && elsewhere < ticks());
    }

    /// Bounds are certain, so those of two measurements must always overlap.
    #[test]
    fn two_calibrations_agree_within_their_bounds() {
        let (cached, longer) = (tick_rate(), measure_rate(Duration::from_millis(100)));
        assert!(cached.low <= longer.high && longer.low <= cached.high, "{cached:?} {longer:?}");
        assert!(cached.low <= cached.value && cached.value <= cached.high, "{cached:?}");
        assert_eq!(ticks_per_s(), cached.value);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// Synthetic enclosures around known moments: the bounds contain the true rate.
        #[test]
        fn bounds_hold_the_true_rate(
            ticks_per_ns in 0.001f64..10.0,
            start_ns in 0u32..1_000_000_000,
            span_ns in 1_000_000u32..100_000_000,
            widths in prop::array::uniform4(0u32..5_000),
        ) {
            let enclose = |ns: f64, ahead: u32, behind: u32| Enclosure {
                before: ((ns - f64::from(ahead)).max(0.0) * ticks_per_ns).floor() as u64,
                ns: ns as u64,
                after: ((ns + f64::from(behind)) * ticks_per_ns).ceil() as u64,
            };
            let (start, span) = (f64::from(start_ns) + 0.7, f64::from(span_ns) + 0.4);
            let rate = rate_between(
                enclose(start, widths[0], widths[1]),
                enclose(start + span, widths[2], widths[3]),
            );
            let truth = ticks_per_ns * 1e9;
            prop_assert!(rate.low <= truth && truth <= rate.high, "{rate:?} {truth}");
        }
    }
}
