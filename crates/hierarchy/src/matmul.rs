// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the slowdown of textbook matrix multiplication relative to interchanged loops from load
//! costs.
//!
//! ```text
//! textbook:      for i, j:  for k:  c[i][j] += a[i][k] * b[k][j]      b column after column
//! interchanged:  for i, k:  for j:  c[i][j] += a[i][k] * b[k][j]      b row after row
//! ```
//!
//! For `n` rows and columns of `e`-byte elements, and cache lines of `L` bytes, the working sets
//! are:
//!
//! ```text
//! a column of b:  n lines; n (L + e) bytes with the row of a. The next columns use the same lines
//! all of b:       n n e bytes, until a line is needed for the next group of L/e columns
//!
//! textbook       one in L/e columns finds its lines in the level that holds all of b, the others
//!                in the level that holds a column. Each takes the longer of arithmetic and loads;
//!                loads overlap, because no address depends on a load
//! interchanged   the longer of arithmetic and reading all of b sequentially from its level
//! ```
//!
//! The page-local curve shows which levels serve a working set of a given size: where its latency
//! is between those of two levels, each serves part of the loads. The TLB level follows from the
//! number of pages in a column.
//!
//! Not modelled, because small in comparison: set conflicts (row lengths must not be multiples of a
//! large power of two), prefetching of a column's lines, and stores to c.

use linerate_record::memory::{
    Bandwidth, Cost, Curve, MemoryLevel, MemoryReport, Operation, Order, PageKind, PagesVerdict,
    TlbState,
};
use std::fmt;

/// The values of a record that predictions need. Times are in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    line_bytes: f64,
    page_bytes: f64,
    /// Levels, nearest first.
    levels: Vec<Level>,
    /// Number of pages that each TLB level covers, nearest first.
    reach: Vec<f64>,
    /// Pairs of chain size in bytes and load latency, by increasing size.
    curve: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Level {
    latency: f64,
    /// Time per overlapped load, indexed by the TLB level that holds the translation. Not empty.
    overlapped: Vec<f64>,
    /// Time per byte when reading sequentially.
    per_byte: f64,
}

/// A matrix multiplication and its arithmetic time on cached data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multiplication {
    /// Number of rows, which is also the number of columns, of each matrix.
    pub n: u64,
    /// Size of a matrix element in bytes.
    pub element_bytes: u64,
    /// ns per multiply-add in the textbook loop, with all data in L1.
    pub textbook_ns: f64,
    /// ns per multiply-add in the interchanged loop, with all data in L1.
    pub interchanged_ns: f64,
}

/// Predicted times in ns per multiply-add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Time of the textbook loop.
    pub textbook_ns: f64,
    /// Time of the loop with interchanged indices.
    pub interchanged_ns: f64,
}

impl Prediction {
    /// Returns the textbook time divided by the interchanged time.
    pub fn slowdown(&self) -> f64 {
        self.textbook_ns / self.interchanged_ns
    }
}

/// The record lacks the named data, which predictions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub &'static str);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record has no {}: measure again without --quick", self.0)
    }
}

impl std::error::Error for Missing {}

impl Machine {
    /// Extracts the values from `report`.
    ///
    /// # Errors
    /// Returns an error if `report` lacks a part that predictions need.
    pub fn new(report: &MemoryReport) -> Result<Self, Missing> {
        let local = report.curves.iter().find(|curve| curve.order == Order::PageLocal);
        let curve = local.map(times).filter(|curve| !curve.is_empty());
        let is_used = |pages: PageKind| pages == report.pages.used;
        let tlb_levels = report.tlb.iter().filter(|tlb_level| is_used(tlb_level.pages));
        let reach = tlb_levels.filter_map(|tlb_level| {
            tlb_level
                .entries
                .as_number()
                .or(tlb_level.half.as_number())
                .or(tlb_level.onset.as_number())
        });
        let reach: Vec<f64> = reach.collect();
        let levels: Vec<Level> = report
            .levels
            .iter()
            .filter_map(|level| Level::new(level, &report.costs, &report.bandwidth).transpose())
            .collect::<Result<_, _>>()?;
        if levels.is_empty() {
            return Err(Missing("levels"));
        }
        let huge = report
            .pages
            .huge_bytes
            .filter(|_| is_used(PageKind::Huge) && report.pages.verdict == PagesVerdict::Work);
        Ok(Self {
            line_bytes: report.conditions.line_bytes as f64,
            page_bytes: huge.unwrap_or(report.pages.base_bytes) as f64,
            levels,
            reach,
            curve: curve.ok_or(Missing("page-local curve"))?,
        })
    }

    /// Predicts the time per multiply-add for `multiplication`.
    pub fn predict(&self, multiplication: &Multiplication) -> Prediction {
        let Multiplication { n, element_bytes, textbook_ns, interchanged_ns } = *multiplication;
        let (n, element) = (n as f64, element_bytes as f64);
        let column = n * (self.line_bytes + element);
        let all = n * n * element;
        // Rows shorter than a page share pages.
        let pages = n.min(all / self.page_bytes);
        let tlb_level = self.reach.iter().take_while(|&&reach| pages > reach).count();
        let columns = (self.line_bytes / element).max(1.0);
        let beside = self.mixed(column, |level| level.overlapped(tlb_level)).max(textbook_ns);
        let first = self.mixed(all, |level| level.overlapped(tlb_level)).max(textbook_ns);
        let stream = element * self.mixed(all, |level| level.per_byte);
        Prediction {
            textbook_ns: ((columns - 1.0) * beside + first) / columns,
            interchanged_ns: stream.max(interchanged_ns),
        }
    }

    /// Evaluates `of` for a working set of `bytes` bytes: averages it over the two levels whose
    /// latencies bracket the latency of the working set, weighted by the fraction of loads that
    /// each level serves.
    fn mixed(&self, bytes: f64, of: impl Fn(&Level) -> f64) -> f64 {
        let latency = self.latency(bytes);
        let beyond = self.levels.iter().position(|level| level.latency > latency);
        match beyond {
            None => self.levels.last().map_or(f64::NAN, of),
            Some(0) => of(&self.levels[0]),
            Some(far) => {
                let (near, far) = (&self.levels[far - 1], &self.levels[far]);
                let share = (latency - near.latency) / (far.latency - near.latency);
                (1.0 - share) * of(near) + share * of(far)
            }
        }
    }

    /// Returns the curve's latency at this size, interpolated linearly in the logarithm of the
    /// size.
    fn latency(&self, bytes: f64) -> f64 {
        let beyond = self.curve.partition_point(|&(size, _)| size < bytes);
        match (beyond.checked_sub(1).map(|at| self.curve[at]), self.curve.get(beyond)) {
            (Some((low, from)), Some(&(high, to))) => {
                from + (to - from) * (bytes / low).ln() / (high / low).ln()
            }
            (Some((_, last)), None) => last,
            (None, first) => first.map_or(f64::NAN, |&(_, time)| time),
        }
    }
}

impl Level {
    /// Reads a level's values from the record; `None` if the level was not measured.
    fn new(
        level: &MemoryLevel,
        costs: &[Cost],
        bandwidth: &[Bandwidth],
    ) -> Result<Option<Self>, Missing> {
        let latency =
            level.latency_ns.as_number().ok_or(Missing("latency for one of its levels"))?;
        let states = [TlbState::Hit, TlbState::MissL1, TlbState::Walk];
        let of_state = |state| {
            let cost = costs.iter().find(|cost| cost.level == level.name && cost.tlb == state)?;
            cost.overlapped_ns.as_number()
        };
        let overlapped: Vec<f64> = states.into_iter().map_while(of_state).collect();
        let read = bandwidth.iter().find(|bandwidth| {
            bandwidth.level == level.name
                && bandwidth.threads == 1
                && bandwidth.operation == Operation::Read
        });
        let read = read.ok_or(Missing("bandwidth"))?;
        let gb_per_s = read.gb_per_s.as_number().filter(|&rate| rate > 0.0);
        let per_byte = gb_per_s.map(|rate| 1.0 / rate);
        Ok(per_byte.filter(|_| !overlapped.is_empty()).map(|per_byte| Self {
            latency,
            overlapped,
            per_byte,
        }))
    }

    /// Returns the time per overlapped load for translations from a TLB level; for levels beyond
    /// the last known one, the time of the last known one.
    fn overlapped(&self, tlb_level: usize) -> f64 {
        self.overlapped[tlb_level.min(self.overlapped.len() - 1)]
    }
}

/// Returns pairs of size and latency, by increasing size.
fn times(curve: &Curve) -> Vec<(f64, f64)> {
    let point = |point: &linerate_record::memory::CurvePoint| {
        Some((point.bytes as f64, point.latency_ns.as_number()?))
    };
    curve.points.iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two caches and memory, and round figures.
    fn machine() -> Machine {
        let level = |latency, overlapped: &[f64], per_byte| Level {
            latency,
            overlapped: overlapped.to_vec(),
            per_byte,
        };
        Machine {
            line_bytes: 64.0,
            page_bytes: 4096.0,
            levels: vec![
                level(1.0, &[0.1, 0.3], 0.002),
                level(4.0, &[0.4, 0.6, 1.5], 0.008),
                level(100.0, &[6.0, 6.2, 8.0], 0.03),
            ],
            reach: vec![64.0, 2048.0],
            curve: vec![
                (16e3, 1.0),
                (32e3, 1.0),
                (64e3, 4.0),
                (512e3, 4.0),
                (2048e3, 100.0),
                (8192e3, 100.0),
            ],
        }
    }

    fn floats(n: u64) -> Multiplication {
        Multiplication { n, element_bytes: 4, textbook_ns: 0.5, interchanged_ns: 0.1 }
    }

    #[test]
    fn where_all_is_at_hand_arithmetic_decides() {
        let prediction = machine().predict(&floats(60));
        assert_eq!(prediction, Prediction { textbook_ns: 0.5, interchanged_ns: 0.1 });
        assert_eq!(prediction.slowdown(), 5.0);
    }

    /// Checked by hand: the 1000 lines of a column take 68 kB and are in L2, and their translations
    /// are in the second TLB level. The whole matrix (4 MB) is in memory, which only one column in
    /// 16 has to access.
    #[test]
    fn a_matrix_in_memory_costs_what_its_loads_cost() {
        let prediction = machine().predict(&floats(1000));
        assert!((prediction.textbook_ns - (15.0 * 0.6 + 6.2) / 16.0).abs() < 1e-9);
        assert!((prediction.interchanged_ns - 4.0 * 0.03).abs() < 1e-9);
    }

    /// Halfway between the latencies of two levels, each serves half of the loads.
    #[test]
    fn between_two_levels_each_serves_its_share() {
        let machine = machine();
        let middle = f64::sqrt(512e3 * 2048e3);
        assert!((machine.latency(middle) - 52.0).abs() < 1e-9);
        assert!((machine.mixed(middle, |level| level.per_byte) - 0.019).abs() < 1e-9);
        assert_eq!(machine.mixed(1.0, |level| level.latency), 1.0);
        assert_eq!(machine.mixed(1e12, |level| level.latency), 100.0);
    }

    /// A column on more pages than the second TLB level has entries causes page walks.
    #[test]
    fn translations_beyond_the_buffer_cost_a_walk() {
        let slow = |n| machine().predict(&Multiplication { textbook_ns: 0.0, ..floats(n) });
        assert!((slow(2000).textbook_ns - (15.0 * 0.6 + 6.2) / 16.0).abs() < 1e-9);
        assert!((slow(3000).textbook_ns - (15.0 * 1.5 + 8.0) / 16.0).abs() < 1e-9);
    }

    /// The data in docs/results/memory-matmul.md, recorded in a guest on an EPYC at load average
    /// 12, where other programs left 2.8 MB of the L3.
    fn recorded() -> Machine {
        let level = |latency, overlapped: f64, gb_per_s: f64| Level {
            latency,
            overlapped: vec![overlapped],
            per_byte: 1.0 / gb_per_s,
        };
        let kib = [
            (32.0, 1.04),
            (54.0, 3.47),
            (128.0, 3.60),
            (512.0, 3.67),
            (724.0, 4.83),
            (1024.0, 7.12),
            (1448.0, 12.71),
            (2435.0, 13.44),
            (3444.0, 148.75),
            (8192.0, 131.54),
            (131_072.0, 136.65),
        ];
        Machine {
            line_bytes: 64.0,
            page_bytes: 4096.0,
            levels: vec![
                level(1.023, 0.092, 490.8),
                level(3.595, 0.333, 225.0),
                level(12.85, 0.641, 114.3),
                level(129.0, 4.63, 37.33),
            ],
            reach: vec![],
            curve: kib.map(|(kib, ns)| (kib * 1024.0, ns)).to_vec(),
        }
    }

    /// Tuples of element size, both loops' arithmetic time, and matrix sizes with their measured
    /// slowdown.
    #[test]
    fn predicts_recorded_slowdowns_at_two_of_three_sizes() {
        let single = (4, [0.506, 0.081], [(500, 6.00), (1000, 6.60), (2000, 6.76)]);
        let double = (8, [0.502, 0.164], [(500, 3.01), (1000, 3.75), (2000, 4.09)]);
        for (element_bytes, [textbook_ns, interchanged_ns], measured) in [single, double] {
            let is_good = |&&(n, slowdown): &&(u64, f64)| {
                let multiplication =
                    Multiplication { n, element_bytes, textbook_ns, interchanged_ns };
                let expected = recorded().predict(&multiplication).slowdown();
                (expected / slowdown - 1.0).abs() <= 0.2
            };
            assert!(measured.iter().filter(is_good).count() >= 2, "{element_bytes} bytes");
        }
    }
}
