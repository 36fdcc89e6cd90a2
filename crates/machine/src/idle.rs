// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether other programs are using certain CPUs.
//!
//! This module does not determine which programs use the CPUs. Other guests on the host are visible
//! only if their use of the CPUs is reported as steal.

use crate::Error;
use crate::cpu_time::{CpuTicks, CpuTimes};
use crate::files::read;
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE};
use std::path::Path;
use std::time::Duration;

/// Minimum number of accounting ticks from which a fraction is computed.
const LEAST_TICKS: u64 = 5;

/// Sleeps for `window` and returns the fraction (0 to 1) of that time in which `cpus` were not idle
/// but ran other programs, served interrupts, or were stolen by the host. This process counts too,
/// so call this function before starting any work. With two CPUs, a window of 100 ms distinguishes
/// a load of 0 from 0.3, and a window of one second 0 from 0.05.
///
/// The interval is the 95 % score interval that treats each tick as an independent sample of the
/// CPU (Wilson, 1927), widened by the one tick that rounding may add or remove on each CPU.
///
/// # Errors
/// Returns an error if `cpus` is empty, some of them are offline, or the window is too short for 5
/// ticks.
pub fn other_load(cpus: &[u32], window: Duration) -> Result<Estimate, Error> {
    let before = read_times(cpus)?;
    std::thread::sleep(window);
    load_between(&before, &read_times(cpus)?)
}

fn read_times(cpus: &[u32]) -> Result<Vec<CpuTicks>, Error> {
    let times = CpuTimes::parse(&read(Path::new("/proc/stat"))?);
    let of_cpu = |cpu| times.cpus.get(cpu).copied();
    match cpus.iter().map(of_cpu).collect::<Option<Vec<_>>>() {
        Some(chosen) if !chosen.is_empty() => Ok(chosen),
        _ => {
            let reason = "no CPUs were given, or some are offline or missing in /proc/stat";
            Err(Error::Cpus { cpus: cpus.to_vec(), reason })
        }
    }
}

fn load_between(before: &[CpuTicks], after: &[CpuTicks]) -> Result<Estimate, Error> {
    let each = before.iter().zip(after).map(|(before, after)| after.since(before));
    let all = each.reduce(|all, ticks| all.plus(&ticks)).unwrap_or_default();
    let (taken, total) = (all.busy(), all.total());
    if total < LEAST_TICKS {
        return Err(Error::CannotTell {
            what: "the load of these CPUs",
            reason: format!(
                "the kernel accounted for only {total} clock ticks of 10 ms during the measurement"
            ),
            advice: "measure for longer",
        });
    }
    let (low, high) = wilson(taken as f64, total as f64);
    let rounding = before.len() as f64 / total as f64;
    Ok(Estimate {
        value: taken as f64 / total as f64,
        low: (low - rounding).max(0.0),
        high: (high + rounding).min(1.0),
        confidence: CONFIDENCE,
        n: total,
    })
}

/// Returns the 95 % score interval for a fraction, given `hits` out of `n`.
fn wilson(hits: f64, n: f64) -> (f64, f64) {
    const Z: f64 = NORMAL_QUANTILE;
    let (share, weight) = (hits / n, Z * Z / n);
    let middle = (share + weight / 2.0) / (1.0 + weight);
    let reach = (weight * share * (1.0 - share) + weight * weight / 4.0).sqrt() / (1.0 + weight);
    (middle - reach, middle + reach)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::{RngAlgorithm, TestRng};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_hog_shows() {
        let (stop, cpu) = (AtomicBool::new(false), linerate_linux::allowed_cpus().unwrap()[0]);
        let load = std::thread::scope(|scope| {
            scope.spawn(|| {
                linerate_linux::pin_current_thread(cpu).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let load = other_load(&[cpu], Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            load.unwrap()
        });
        assert!(load.high > 0.9 && load.value > 0.7, "{load:?}");
        assert!(load.low <= load.value && load.value <= load.high, "{load:?}");
    }

    #[test]
    fn a_question_without_an_answer_is_refused() {
        assert!(matches!(other_load(&[], Duration::ZERO), Err(Error::Cpus { .. })));
        assert!(matches!(other_load(&[60_000], Duration::ZERO), Err(Error::Cpus { .. })));
        let short = other_load(&linerate_linux::allowed_cpus().unwrap()[..1], Duration::ZERO);
        assert!(matches!(short, Err(Error::CannotTell { .. })), "{short:?}");
    }

    /// Synthetic CPU times: each tick is busy with a known probability, and rounding adds or
    /// removes one tick.
    #[test]
    fn the_interval_holds_a_known_load() {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut uniform = || f64::from(random.next_u32()) / 4_294_967_296.0;
        let (mut held, trials) = (0, 4000);
        for _ in 0..trials {
            let (truth, ticks) = (uniform(), 6 + (60.0 * uniform()) as u64);
            let taken = (0..ticks).filter(|_| uniform() < truth).count() as u64;
            let rounded = (taken + (3.0 * uniform()) as u64).saturating_sub(1);
            let after = CpuTicks { user: rounded, idle: ticks - taken, ..CpuTicks::default() };
            let load = load_between(&[CpuTicks::default()], &[after]).unwrap();
            held += i32::from(load.low <= truth && truth <= load.high);
        }
        assert!(f64::from(held) >= 0.95 * f64::from(trials), "{held} of {trials}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn shares_are_shares(taken: u64, free: u64, earlier_taken: u64, earlier_free: u64) {
            let of = |user, idle| CpuTicks { user, idle, ..CpuTicks::default() };
            let (before, after) = (of(earlier_taken, earlier_free), of(taken, free));
            if let Ok(load) = load_between(&[before; 2], &[after; 2]) {
                prop_assert!(0.0 <= load.low && load.low <= load.value, "{load:?}");
                prop_assert!(load.value <= load.high && load.high <= 1.0, "{load:?}");
            }
        }
    }
}
