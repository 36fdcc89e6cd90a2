// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of a heat map of samples over time, for terminals and plots.

use linerate_record::profile::ThreadTimeline;

/// Number of density levels, not counting the level for cells without samples.
const LEVELS: f64 = 4.0;

/// Divides a window of `window_s` seconds into `cells` cells, and returns each cell's density
/// level: 0 without samples, otherwise 1 to 4 in proportion to the number of samples.
pub(crate) fn levels(
    thread: &ThreadTimeline,
    bin_s: f64,
    window_s: f64,
    cells: usize,
) -> Vec<usize> {
    let samples = samples(thread, bin_s, window_s, cells);
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    // The scale ignores the densest 1 % of the cells: each cell holds few samples, so outliers are
    // common.
    let most = sorted.get((cells.saturating_sub(1) * 99).div_ceil(100)).copied().unwrap_or(0.0);
    let most = most.max(f64::MIN_POSITIVE);
    let level = |n: &f64| match *n {
        0.0 => 0,
        n => ((n / most * LEVELS).ceil() as usize).clamp(1, LEVELS as usize),
    };
    samples.iter().map(level).collect()
}

/// Returns the samples in each cell. A bin that spans several cells is split between them.
fn samples(thread: &ThreadTimeline, bin_s: f64, window_s: f64, cells: usize) -> Vec<f64> {
    let mut samples = vec![0.0; cells];
    let per_bin = bin_s / window_s.max(f64::MIN_POSITIVE) * cells as f64;
    for (bin, n) in thread.samples.iter().enumerate().filter(|(_, n)| **n > 0) {
        let (mut at, behind) = (bin as f64 * per_bin, (bin + 1) as f64 * per_bin);
        // A damaged record may have bins beyond the window.
        while at < behind - 1e-9 && at < cells as f64 {
            let end = (at.floor() + 1.0).min(behind);
            samples[at as usize] += f64::from(*n) * (end - at) / per_bin;
            at = end;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_divided_among_the_cells_of_their_bin() {
        let thread = |samples: &[u32]| ThreadTimeline { thread: 0, samples: samples.to_vec() };
        assert_eq!(samples(&thread(&[4, 0, 8]), 1.0, 3.0, 6), [2.0, 2.0, 0.0, 0.0, 4.0, 4.0]);
        let two = samples(&thread(&[3, 3, 3]), 1.0, 3.0, 2);
        assert!(two.iter().all(|n| (n - 4.5).abs() < 1e-9), "{two:?}");
        assert_eq!(levels(&thread(&[4, 0, 1]), 1.0, 3.0, 3), [4, 0, 1]);
        // Bins after the end of the window, an empty window, and no cells.
        assert_eq!(samples(&thread(&[1, 1, 1]), 1.0, 2.0, 2), [1.0, 1.0]);
        assert!(levels(&thread(&[1]), 1.0, 0.0, 0).is_empty());
        assert_eq!(levels(&thread(&[1]), f64::NAN, 1.0, 2), [0, 0]);
    }
}
