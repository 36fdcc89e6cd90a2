// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gains from larger system calls and segments.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::returned;
use linerate_record::stats::Estimate;

/// Predicts the gain from larger calls, which save kernel time.
pub(super) fn larger_calls<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    /// Bytes per call after the change.
    const LARGE: f64 = 16_384.0;
    /// Lowest and most likely fraction of kernel time saved, given that the per-byte cost remains.
    /// The upper bound of the gain assumes that the rate grows as much as the call size: iperf3 was
    /// 17 to 76 times as fast with 128 KiB per write as with 64 to 256 bytes.
    const SAVED: [f64; 2] = [0.3, 0.8];
    let kernel = Measure::KernelShare.of(facts, subject)?;
    let [low, likely] = SAVED;
    let fewer = LARGE / Measure::BytesPerCall.of(facts, subject)?.low.max(1.0);
    let value = returned(likely * kernel.value);
    let high = (100.0 * (fewer - 1.0)).max(value);
    Some(Estimate { value, low: returned(low * kernel.low), high, ..kernel })
}

/// Returns the ratio of the largest segment size to the current segment size. The cost of a
/// segment, spread over its bytes, falls by this factor.
pub(super) fn larger_segments(facts: &Facts<'_>) -> f64 {
    /// Maximum segment size with segmentation offload.
    const LARGEST: f64 = 65_536.0;
    let present = Measure::BytesPerTransmit.of(facts, Subject::Program);
    present.map_or(1.0, |bytes| (LARGEST / bytes.value.max(1.0)).clamp(1.0, 32.0))
}
