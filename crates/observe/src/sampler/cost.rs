// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the CPU time that a sample takes from the sampled thread, and lowers the sampling rate
//! accordingly. A timer interrupt takes about 1 us on hardware, but in a virtual machine it may
//! cause several VM exits: 15 to 140 us have been measured.
//!
//! The handler runs within the thread's CPU time, so its cost shows only as a reduction in the work
//! that the thread does per CPU time. The calling thread increments a counter for equal CPU times,
//! with and without being sampled:
//!
//! ```text
//! cost = period * (1 - count when sampled / count when not sampled)
//! ```
//!
//! The median over pairs of counts excludes disturbed pairs. Everything together takes about 25 ms.

use super::CPU_CLOCK;
use linerate_linux::perf::{Event, OpenError, Request, Target};
use linerate_linux::sample::{self, Fields, Ring, Sampling};
use linerate_linux::thread_cpu_time_ns;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::{Figure, Tier};
use std::hint::black_box;

/// Number of pairs of counts.
const PAIRS: usize = 7;
/// CPU time of each count: 16 samples.
const COUNT_NS: u64 = 1_600_000;
/// CPU time between samples.
const PERIOD_NS: u64 = 100_000;

/// Measures the CPU time per sample of the calling thread, in nanoseconds; `None` if sampling is
/// not permitted.
pub(crate) fn sample_cost_ns() -> Option<Estimate> {
    let pair = |_| {
        let (event, ring) = sampled().ok()?;
        let when_sampled = count();
        drop((event, ring));
        let cost = 1.0 - when_sampled / count();
        Some(PERIOD_NS as f64 * cost)
    };
    let costs: Vec<f64> = (0..PAIRS).map(pair).collect::<Option<_>>()?;
    let Estimate { value, low, high, .. } = median_interval(&costs, CONFIDENCE);
    // Within the noise, a cost may come out negative.
    let [value, low, high] = [value, low, high].map(|ns| ns.max(0.0));
    Some(Estimate { value, low, high, ..median_interval(&costs, CONFIDENCE) })
}

/// Starts sampling the calling thread.
fn sampled() -> Result<(Event, Option<Ring>), OpenError> {
    let fields = Fields::default();
    let sampling = Sampling { period: PERIOD_NS, fields, skips_idle: false };
    let request =
        |exclude_kernel| Request { exclude_kernel, disabled: false, ..Request::new(CPU_CLOCK) };
    let open =
        |exclude_kernel| sample::open(&request(exclude_kernel), &sampling, Target::CurrentThread);
    let event = open(false).or_else(|_| open(true))?;
    // Without a ring, the handler only skips writing the sample.
    let ring = Ring::map(&event, 1, fields).ok();
    Ok((event, ring))
}

/// Counts for [`COUNT_NS`] of CPU time, and returns the count per nanosecond.
fn count() -> f64 {
    const STEPS: u64 = 2000;
    let start = thread_cpu_time_ns();
    let mut rounds = 0;
    loop {
        for step in 0..STEPS {
            black_box(step);
        }
        rounds += 1;
        let ns = thread_cpu_time_ns().saturating_sub(start);
        if ns >= COUNT_NS {
            return rounds as f64 / ns as f64;
        }
    }
}

/// Converts the CPU time per sample to a figure of the record.
pub(crate) fn figure(cost_ns: Option<Estimate>) -> Figure {
    const METHOD: &str = "CPU time lost to a cpu-clock sample, median of 7 pairs of counts";
    match cost_ns {
        Some(cost_ns) => Figure::number("ns", cost_ns, Tier::Sw, METHOD),
        None => Figure::absent("ns", Tier::Sw, METHOD, "sampling is not permitted"),
    }
}

/// Returns the sampling rate, in samples per second, at which sampling takes at most `share` of a
/// thread's time: `most` or, if samples are expensive, less, but at least `least`. Uses the lower
/// end of the cost's interval, because on a busy machine the cost is often overestimated.
pub(crate) fn affordable(cost_ns: Option<Estimate>, share: f64, least: u64, most: u64) -> u64 {
    let cost_ns = cost_ns.map_or(0.0, |cost| cost.low).max(1.0);
    ((share * 1e9 / cost_ns) as u64).min(most).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_costs_less_than_the_time_between_samples() {
        let Some(cost) = sample_cost_ns() else {
            eprintln!("SKIP: sampling is not permitted");
            return;
        };
        assert!(cost.low <= cost.value && cost.value <= cost.high, "{cost:?}");
        assert!(cost.value < PERIOD_NS as f64, "{cost:?}");
    }

    #[test]
    fn the_rate_falls_with_the_cost() {
        let rate = |us: f64| affordable(Some(Estimate::exactly(1e3 * us)), 0.01, 97, 999);
        assert_eq!([rate(0.0), rate(10.0), rate(20.0), rate(140.0)], [999, 999, 500, 97]);
        assert_eq!(affordable(None, 0.01, 97, 999), 999);
    }
}
