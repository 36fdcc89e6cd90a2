// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that a finding without a rule is based on.

use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;

/// Returns a number as evidence from kernel accounting; 0 if it is not finite.
pub(super) fn evidence(name: &str, value: f64, unit: &str) -> Evidence {
    let value = if value.is_finite() { value } else { 0.0 };
    Evidence::of(name, Estimate::exactly(value), unit, "tier sw")
}
