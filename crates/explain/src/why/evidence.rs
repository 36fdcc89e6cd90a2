// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that a finding without a rule is based on.

use linerate_record::answers::Evidence;

/// Returns a number as evidence from kernel accounting; 0 if it is not finite.
pub(super) fn evidence(name: &str, value: f64, unit: &str) -> Evidence {
    Evidence {
        name: name.to_owned(),
        value: if value.is_finite() { value } else { 0.0 },
        unit: unit.to_owned(),
        source: "tier sw".to_owned(),
    }
}
