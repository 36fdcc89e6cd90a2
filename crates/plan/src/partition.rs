// SPDX-License-Identifier: MIT OR Apache-2.0
//! Optimal partitioning of a sequence of atoms (stages or segments) into consecutive, replicated
//! parts.
//!
//! A mapping cuts the sequence of stages into consecutive parts and assigns workers to each. The
//! part with the largest load is the bottleneck. For every number of workers, this module finds the
//! partition with the smallest maximum load.
//!
//! Let `best(j, c)` be the smallest possible maximum load of the first `j` atoms on exactly `c`
//! workers. The last part starts at some `i < j` and has some `r <= c` replicas, and the prefix
//! before it is itself optimal, as a worse prefix never lowers the maximum:
//!
//! ```text
//! best(0, 0) = 0
//! best(j, c) = min over i < j, r <= min(c, max_replicas(i..j)) of
//!                  max(best(i, c - r), load(i..j, r))
//! ```
//!
//! The result is exact and takes O(atoms^2 x workers^2 / 4) calls to `load`. Ties are broken by the
//! smaller sum of squared loads, which evens out the other parts. The tie-break is not exact, since
//! prefixes are ranked before the part after them is known.

use std::ops::Range;

/// A part of a partition: consecutive atoms (stages or segments), and the number of workers that
/// share them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) atoms: Range<usize>,
    pub(crate) replicas: u32,
}

#[derive(Clone, Copy)]
struct Cell {
    largest: f64,
    squares: f64,
    start: usize,
    replicas: usize,
}

impl Cell {
    fn is_better_than(&self, other: &Cell) -> bool {
        (self.largest, self.squares) < (other.largest, other.squares)
    }
}

/// Returns the partition with the smallest maximum load for each number of workers up to `workers`.
/// The entry at index `w - 1` uses exactly `w` workers, or is `None` if there is none.
/// `max_replicas` must return at least 1.
pub(crate) fn minimax(
    atoms: usize,
    workers: usize,
    max_replicas: impl Fn(Range<usize>) -> u32,
    load: impl Fn(Range<usize>, u32) -> f64,
) -> Vec<Option<Vec<Part>>> {
    let mut best: Vec<Vec<Option<Cell>>> = vec![vec![None; workers + 1]; atoms + 1];
    best[0][0] = Some(Cell { largest: 0.0, squares: 0.0, start: 0, replicas: 0 });
    for end in 1..=atoms {
        for start in 0..end {
            let most = (max_replicas(start..end) as usize).min(workers);
            for replicas in 1..=most {
                let own = load(start..end, replicas as u32);
                for used in replicas..=workers {
                    let Some(before) = best[start][used - replicas] else {
                        continue;
                    };
                    let cell = Cell {
                        largest: before.largest.max(own),
                        squares: before.squares + own * own,
                        start,
                        replicas,
                    };
                    if best[end][used].is_none_or(|old| cell.is_better_than(&old)) {
                        best[end][used] = Some(cell);
                    }
                }
            }
        }
    }
    (1..=workers).map(|used| trace(&best, atoms, used)).collect()
}

/// Returns the number of partitions of `atoms` on up to `workers` workers, using the recursion of
/// [`minimax`] with a sum instead of a minimum.
pub(crate) fn count(
    atoms: usize,
    workers: usize,
    max_replicas: impl Fn(Range<usize>) -> u32,
) -> f64 {
    let mut ways = vec![vec![0.0; workers + 1]; atoms + 1];
    ways[0][0] = 1.0;
    for end in 1..=atoms {
        for start in 0..end {
            let most = (max_replicas(start..end) as usize).min(workers);
            for replicas in 1..=most {
                for used in replicas..=workers {
                    ways[end][used] += ways[start][used - replicas];
                }
            }
        }
    }
    ways[atoms].iter().sum()
}

/// Reconstructs the optimal partition of all atoms on `used` workers by tracing back through the
/// table `best`.
fn trace(best: &[Vec<Option<Cell>>], atoms: usize, mut used: usize) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut end = atoms;
    while end > 0 {
        let cell = best[end][used]?;
        parts.push(Part { atoms: cell.start..end, replicas: cell.replicas as u32 });
        (end, used) = (cell.start, used - cell.replicas);
    }
    parts.reverse();
    Some(parts)
}
