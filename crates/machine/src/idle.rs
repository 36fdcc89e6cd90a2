// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether other programs are using certain CPUs.
//!
//! In /proc/stat, the kernel accounts for each CPU's time by activity, in ticks of 10 ms
//! (proc_stat(5); USER_HZ is 100 except on Alpha). This module does not determine which programs
//! use the CPUs. Other guests on the host are visible only if their use of the CPUs is reported as
//! steal.

use crate::Error;
use crate::files::read_as;
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Time that the kernel has accounted to one CPU, in accounting ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    /// Sum of user, nice, system, irq, softirq and steal.
    taken: u64,
    /// Sum of idle and iowait.
    free: u64,
}

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
    let before = read_accounts(cpus)?;
    std::thread::sleep(window);
    load_between(&before, &read_accounts(cpus)?)
}

fn read_accounts(cpus: &[u32]) -> Result<Vec<Account>, Error> {
    let accounts = read_as(Path::new("/proc/stat"), parse_stat)?;
    let of_cpu = |cpu| accounts.get(cpu).copied();
    match cpus.iter().map(of_cpu).collect::<Option<Vec<_>>>() {
        Some(chosen) if !chosen.is_empty() => Ok(chosen),
        _ => {
            let reason = "no CPUs were given, or some are offline";
            Err(Error::Cpus { cpus: cpus.to_vec(), reason })
        }
    }
}

/// Parses each CPU's times in /proc/stat. Fields: user nice system idle iowait irq softirq steal,
/// and guest and guest_nice, which are already included in user and nice. Kernels before 2.6.11
/// lack steal and all fields after it.
fn parse_stat(text: &str) -> Result<BTreeMap<u32, Account>, String> {
    let mut accounts = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let number = fields.next().and_then(|name| name.strip_prefix("cpu")).unwrap_or("");
        let Ok(cpu) = number.parse::<u32>() else {
            continue;
        };
        let ticks = fields.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>();
        let ticks = ticks.map_err(|_| format!("`{line}`: not a list of numbers"))?;
        let [user, nice, system, idle, iowait, ref others @ ..] = ticks[..] else {
            return Err(format!("`{line}`: fewer than 5 numbers"));
        };
        let sum = |ticks: &[u64]| ticks.iter().fold(0u64, |sum, &t| sum.saturating_add(t));
        let taken = sum(&[user, nice, system, sum(others)]);
        accounts.insert(cpu, Account { taken, free: sum(&[idle, iowait]) });
    }
    Ok(accounts)
}

fn load_between(before: &[Account], after: &[Account]) -> Result<Estimate, Error> {
    // The kernel sometimes corrects idle and iowait downwards (proc_stat(5)).
    let advance = |of: fn(&Account) -> u64| {
        let each = before.iter().zip(after).map(|(b, a)| of(a).saturating_sub(of(b)));
        each.fold(0u64, u64::saturating_add)
    };
    let (taken, free) = (advance(|a| a.taken), advance(|a| a.free));
    let total = taken.saturating_add(free);
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

    /// Recorded on an EPYC guest, a Raspberry Pi whose third core is offline, and a POWER guest
    /// under Linux 2.6.
    #[test]
    fn accounts_as_recorded() {
        let epyc = parse_stat(
            "cpu  4205 0 2973 233486 536 0 46 15 0 0\n\
             cpu0 1520 0 1122 117917 43 0 11 4 0 0\n\
             cpu1 2685 1 1850 115568 493 2 34 11 99 1\n\
             intr 166890 0 0 14\nctxt 404838\nsoftirq 12 0 3\n",
        );
        let epyc = epyc.unwrap();
        assert_eq!(epyc.len(), 2);
        assert_eq!(epyc[&0], Account { taken: 1520 + 1122 + 11 + 4, free: 117_917 + 43 });
        assert_eq!(epyc[&1].taken, 2685 + 1 + 1850 + 2 + 34 + 11);

        let pi = parse_stat(
            "cpu  9 0 9 9 9 0 9 0 0 0\ncpu0 1 0 2 3 4 0 5 0 0 0\ncpu3 1 0 0 7 0 0 0 0 0 0\n",
        );
        assert_eq!(pi.unwrap().into_keys().collect::<Vec<_>>(), [0, 3]);

        let power = parse_stat("cpu  10 20 30 40 50\ncpu0 10 20 30 40 50\n").unwrap();
        assert_eq!(power[&0], Account { taken: 60, free: 90 });

        assert!(parse_stat("cpu0 1 2 3\n").unwrap_err().contains("fewer than 5"));
        assert!(parse_stat("cpu0 1 2 x 4 5\n").unwrap_err().contains("not a list"));
    }

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
            let after = Account { taken: rounded, free: ticks - taken };
            let load = load_between(&[Account::default()], &[after]).unwrap();
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
        fn accounts_survive_anything(text in "(cpu[0-9]{0,3}( [0-9]{1,20}){0,11}\n){0,4}|.{0,80}") {
            if let Ok(accounts) = parse_stat(&text) {
                prop_assert!(accounts.len() <= text.lines().count());
            }
        }

        #[test]
        fn shares_are_shares(taken: u64, free: u64, earlier_taken: u64, earlier_free: u64) {
            let before = Account { taken: earlier_taken, free: earlier_free };
            if let Ok(load) = load_between(&[before; 2], &[Account { taken, free }; 2]) {
                prop_assert!(0.0 <= load.low && load.low <= load.value, "{load:?}");
                prop_assert!(load.value <= load.high && load.high <= 1.0, "{load:?}");
            }
        }
    }
}
