// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the sizes to measure next: around each cache size found, wherever the curve still has
//! gaps.

use super::{FoundLevels, Sample};

/// Candidates for the edge of the first level, as multiples of its estimated size. The climb may be
/// shorter than a page.
const EDGE: [f64; 10] = [0.84, 0.9, 0.94, 0.97, 1.0, 1.03, 1.06, 1.1, 1.16, 1.25];

/// Candidates around a ramp, as multiples of its estimated size. Ramps begin early and have tails.
const RAMP: [f64; 10] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.12, 1.25, 1.45, 1.8];

/// Relative distance below which another size near an edge adds no information.
const EDGE_GAP: f64 = 0.014;
/// Relative distance below which another size near a ramp adds no information.
const RAMP_GAP: f64 = 0.045;

pub(crate) fn refine(curve: &[Sample], levels: &FoundLevels, granule: u64) -> Vec<u64> {
    let granule = granule.max(1);
    let mut known: Vec<u64> = curve.iter().map(|sample| sample.bytes).collect();
    let (Some(&first), Some(&last)) = (known.iter().min(), known.iter().max()) else {
        return Vec::new();
    };
    let mut wanted = Vec::new();
    for (level, size) in levels.levels.iter().filter_map(|level| level.size).enumerate() {
        let (places, gap) = if level == 0 { (EDGE, EDGE_GAP) } else { (RAMP, RAMP_GAP) };
        for place in places {
            let bytes = size.value * place;
            if !bytes.is_finite() || bytes < first as f64 || bytes > last as f64 {
                continue;
            }
            let bytes = ((bytes / granule as f64).round() as u64).saturating_mul(granule);
            let near = |known: &u64| (bytes as f64 / (*known).max(1) as f64).ln().abs() < gap;
            if bytes >= first && bytes <= last && !known.iter().any(near) {
                known.push(bytes);
                wanted.push(bytes);
            }
        }
    }
    wanted.sort_unstable();
    wanted
}
