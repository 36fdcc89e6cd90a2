// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the quantiles of the latency and their intervals.

use super::estimate::SEED;
use crate::meter::{Readings, Stretches};
use hdrhistogram::Histogram;
use linerate_record::run::Latency;
use linerate_record::stats::{self, CONFIDENCE, Estimate, NORMAL_QUANTILE};
use linerate_record::{Figure, Tier};

/// Minimum number of samples beyond a quantile.
const BEYOND_MIN: f64 = 10.0;

/// Returns the latency of the packets that all workers have delivered.
pub(super) fn latency(workers: &[&Readings], ticks_per_s: f64, is_live: bool) -> Latency {
    const REPLAYED: &str = "from source to sink, for the first packet of each burst (for every \
                            packet, if paced)";
    const LIVE: &str = "from the worker's poll to the sink, for the first packet of each burst; \
                        excludes the wait in the kernel's receive ring";
    let method = if is_live { LIVE } else { REPLAYED };
    let mut all: Option<Histogram<u64>> = None;
    let mut stretches = Stretches::default();
    for readings in workers {
        let Some(histogram) = readings.latency.as_ref().filter(|all| !all.is_empty()) else {
            continue;
        };
        match &mut all {
            // All histograms have the same bounds, so adding them cannot fail.
            Some(all) => drop(all.add(histogram)),
            None => all = Some(histogram.clone()),
        }
        stretches.add_all(readings.stretches.clone());
    }
    let ns_per_tick = 1e9 / ticks_per_s;
    let figure = |quantile: f64| {
        let samples = all.as_ref().map_or(0, Histogram::len);
        match all.as_ref().filter(|_| samples as f64 * (1.0 - quantile) >= BEYOND_MIN) {
            Some(all) => {
                let estimate = estimate(all, &stretches, quantile, ns_per_tick);
                Figure::number("ns", estimate, Tier::Sw, method)
            }
            None => {
                let reason = format!("{samples} samples are too few for this quantile; run longer");
                Figure::absent("ns", Tier::Sw, method, &reason)
            }
        }
    };
    Latency { p50: figure(0.5), p99: figure(0.99), p999: figure(0.999) }
}

/// Returns a quantile of the latency with its 95 % interval.
///
/// The share of samples below the quantile varies for two reasons, and the interval contains both.
/// Samples are a selection of the packets: of `n` independent ones, the number below the true `q`
/// quantile is within `n q -+ 1.96 sqrt(n q (1 - q))` in 95 % of cases. Delays affect many packets
/// in a row; the resulting variation is estimated by resampling the stretches of the run. The ends
/// of the interval of the share are mapped back through the quantiles (Woodruff, 1952).
fn estimate(
    all: &Histogram<u64>,
    stretches: &Stretches,
    quantile: f64,
    ns_per_tick: f64,
) -> Estimate {
    let at = |share: f64| all.value_at_quantile(share.clamp(0.0, 1.0));
    let value = at(quantile);
    let chance = NORMAL_QUANTILE * (quantile * (1.0 - quantile) / all.len() as f64).sqrt();
    let parts = stretches.below(value, quantile);
    let [below, each] = [
        parts.iter().map(|part| part.below).collect(),
        parts.iter().map(|part| part.all).collect(),
    ]
    .map(|values: Vec<f64>| values);
    let shares = stats::block_bootstrap_ratio(&below, &each, CONFIDENCE, SEED);
    let low = quantile - f64::max(quantile - shares.low, chance);
    let high = quantile + f64::max(shares.high - quantile, chance);
    let ns = |ticks: u64| ticks as f64 * ns_per_tick;
    Estimate {
        value: ns(value),
        low: if low.is_finite() { ns(at(low)) } else { f64::NEG_INFINITY },
        high: if high.is_finite() { ns(at(high)) } else { f64::INFINITY },
        confidence: CONFIDENCE,
        n: parts.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS_PER_SECOND: f64 = 1e9;

    /// Returns readings of 640 packets in each millisecond of 2 s, with a latency of about 1 us, or
    /// of 500 us in the milliseconds that `is_slow` selects.
    fn readings(is_slow: impl Fn(u64) -> bool) -> Readings {
        let mut all = Histogram::new_with_bounds(1, 1 << 40, 3).expect("valid bounds");
        let mut stretches = Stretches::new(Some(2_000_000_000), TICKS_PER_SECOND);
        for ms in 0..2_000 {
            for packet in 0..640 {
                let latency = if is_slow(ms) { 500_000 + packet } else { 1_000 + packet % 100 };
                all.saturating_record(latency);
                stretches.add(ms * 1_000_000, latency);
            }
        }
        Readings { latency: Some(all), stretches, ..Readings::default() }
    }

    fn ends(figure: &Figure) -> (f64, f64, f64) {
        let value = figure.as_number().expect("a number");
        (figure.low.expect("bounded"), value, figure.high.expect("bounded"))
    }

    /// About one in 100 packets is slow, but all slow packets are due to a few delays.
    #[test]
    fn a_quantile_that_few_delays_decide_has_a_wide_interval() {
        for delays in [5, 18, 25] {
            let slow = readings(|ms| ms % 80 == 7 && ms / 80 < delays);
            let (low, value, high) = ends(&latency(&[&slow], TICKS_PER_SECOND, false).p99);
            assert!(low <= value && value <= high);
            if delays == 18 {
                assert!(low < 1_200.0 && high >= 500_000.0, "{low} {value} {high}");
            }
        }
    }

    #[test]
    fn an_even_latency_has_a_narrow_interval() {
        let figures = latency(&[&readings(|_| false)], TICKS_PER_SECOND, false);
        let (low, value, high) = ends(&figures.p99);
        assert!((low, high) == (value, value) || high - low < 5.0, "{low} {value} {high}");
        assert!((value - 1_098.0).abs() < 3.0, "{value}");
    }

    #[test]
    fn too_few_samples_are_no_quantile() {
        let mut few = readings(|_| false);
        few.latency = Histogram::new_with_bounds(1, 1 << 40, 3).ok();
        let figures = latency(&[&few], TICKS_PER_SECOND, false);
        assert!(figures.p50.reason.is_some() && figures.p999.reason.is_some());
    }
}
