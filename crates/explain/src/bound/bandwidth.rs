// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which measured bandwidth of a machine bounds a program.

use linerate_record::memory::{Bandwidth, Operation};
use linerate_record::profile::ProfileReport;

/// Returns the memory read bandwidth, in bytes per second, for as many threads as the program ran
/// concurrently, and the number of threads for which it was measured. `known` are the measurements
/// of the machine that the program ran on. `None` if none had enough threads, or if the bandwidth
/// is unknown.
pub fn read_bandwidth(known: &[Bandwidth], report: &ProfileReport) -> Option<(f64, u32)> {
    read_by(known, report.cpu_s / report.elapsed_s.max(f64::MIN_POSITIVE))
}

/// Selects the measurement with the fewest threads from those with at least `running` threads (an
/// average). More threads rarely reduce bandwidth.
fn read_by(known: &[Bandwidth], running: f64) -> Option<(f64, u32)> {
    /// Part of `running` that may be due to the profiler and to short-lived threads.
    const MORE: f64 = 0.1;
    let is_enough = |one: &&Bandwidth| f64::from(one.threads) >= running - MORE;
    let reads = known.iter().filter(|one| one.operation == Operation::Read).filter(is_enough);
    let found = reads.min_by_key(|one| (one.threads, std::cmp::Reverse(one.bytes)))?;
    Some((found.gb_per_s.as_number()? * 1e9, found.threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::{Figure, Tier};

    #[test]
    fn streams_are_compared_with_the_bandwidth_of_as_many_threads() {
        let one = |threads, bytes, gb_per_s| {
            let figure = |value| Figure::exact("GB/s", value, Tier::Sw, "");
            let (level, operation) = ("memory".to_owned(), Operation::Read);
            let (gb_per_s, bound) = (figure(gb_per_s), figure(99.0));
            Bandwidth { level, bytes, operation, threads, gb_per_s, bound }
        };
        let known = [one(1, 1 << 15, 90.0), one(1, 1 << 28, 10.0), one(8, 1 << 28, 50.0)];
        assert_eq!(read_by(&known, 0.5), Some((10e9, 1)));
        assert_eq!(read_by(&known, 1.05), Some((10e9, 1)));
        assert_eq!(read_by(&known, 2.0), Some((50e9, 8)));
        assert_eq!(read_by(&known, 12.0), None);
    }
}
