// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache lines in sampled accesses: how many there are, and which are shared between threads.
//! Performs no I/O.

use super::{Access, LINE_BYTES, Memory};
use linerate_record::stats::{CONFIDENCE, Estimate, NORMAL_QUANTILE};
use linerate_record::why::{LineUse, MemoryUse, SharedLine};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

type Line = (Memory, u64);

fn line(access: &Access) -> Line {
    (access.memory, access.at / LINE_BYTES)
}

const METHOD: &str = "estimated from the numbers of pages sampled exactly once and exactly twice \
                      (Chao 1984)";
/// Page size in bytes. With more lines than samples, hardly any line is seen twice, but pages are.
const PAGE_BYTES: u64 = 4096;
/// Minimum number of accesses for estimating the number of lines.
const MIN_ACCESSES: usize = 100;

/// Returns the memory use of a thread; `None` with too few accesses. `samples` is the number of all
/// samples of the thread.
pub(crate) fn memory_use(accesses: &[Access], samples: u64) -> Option<MemoryUse> {
    if accesses.len() < MIN_ACCESSES || samples == 0 {
        return None;
    }
    let lines = met(accesses, LINE_BYTES);
    let pages = met(accesses, PAGE_BYTES);
    let often =
        |met: &BTreeMap<Line, u64>, times| met.values().filter(|count| **count == times).count();
    let (once, twice) = (often(&pages, 1) as f64, often(&pages, 2) as f64);
    let estimate = in_use(pages.len() as f64, once, twice, accesses.len() as u64);
    Some(MemoryUse {
        samples: accesses.len() as u64,
        share: (accesses.len() as f64 / samples as f64).min(1.0),
        lines: lines.len() as u64,
        once_share: often(&lines, 1) as f64 / accesses.len() as f64,
        working_set_bytes: Figure::number(
            "bytes",
            estimate.scale(PAGE_BYTES as f64),
            Tier::Sw,
            METHOD,
        ),
    })
}

/// Estimates the number of blocks of `bytes` bytes in use from accesses to them; `None` with too
/// few accesses.
pub(crate) fn blocks_in_use(accesses: &[Access], bytes: u64) -> Option<Estimate> {
    let met = met(accesses, bytes);
    let often = |times| met.values().filter(|count| **count == times).count() as f64;
    let n = accesses.len();
    (n >= MIN_ACCESSES).then(|| in_use(met.len() as f64, often(1), often(2), n as u64))
}

/// Returns the number of accesses per block of `bytes` bytes.
fn met(accesses: &[Access], bytes: u64) -> BTreeMap<Line, u64> {
    let mut met = BTreeMap::<Line, u64>::new();
    for access in accesses {
        *met.entry((access.memory, access.at / bytes)).or_default() += 1;
    }
    met
}

/// Returns a lower bound on the number of pages, given how many were seen at all, exactly once and
/// exactly twice. Valid for any distribution (Chao, Scand. J. Statist. 11, 1984). The number seen
/// twice has the largest relative variance.
fn in_use(met: f64, once: f64, twice: f64, n: u64) -> Estimate {
    let unmet = |twice: f64| once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
    // The relative variance combines those of both counts, with `once` squared: 1/twice + 4/once.
    let variance = 1.0 / (twice + 1.0) + 4.0 / (once + 1.0);
    let spread = NORMAL_QUANTILE * (twice + 1.0) * variance.sqrt();
    Estimate {
        value: met + unmet(twice),
        low: met + unmet(twice + spread),
        high: met + unmet((twice - spread).max(0.0)),
        confidence: CONFIDENCE,
        n,
    }
}

/// Minimum number of samples per thread on a shared line.
const MIN_SAMPLES: u64 = 4;
/// Maximum number of lines to list.
const MAX_LINES: usize = 16;

/// A thread's accesses to a line.
#[derive(Clone, Debug, Default)]
struct Use {
    samples: u64,
    is_written: bool,
    /// Bitmap of the bytes accessed.
    bytes: u64,
    /// Bitmap of the bytes written.
    written: u64,
    spots: BTreeMap<u32, u64>,
}

/// A thread with sampled accesses.
pub(crate) struct Sampled<'a> {
    pub tid: u32,
    pub samples: u64,
    pub accesses: &'a [Access],
}

/// Returns the lines used by several threads and written by at least one. Lines on which two
/// threads spend the largest share of their samples come first. `name` returns the function at a
/// numbered code location.
pub(crate) fn shared_lines(
    threads: &[Sampled<'_>],
    name: impl Fn(u32) -> String,
) -> Vec<SharedLine> {
    let mut lines = BTreeMap::<Line, BTreeMap<u32, Use>>::new();
    for thread in threads {
        for access in thread.accesses {
            let used = lines.entry(line(access)).or_default().entry(thread.tid).or_default();
            add(used, access);
        }
    }
    let samples: BTreeMap<u32, u64> = threads.iter().map(|one| (one.tid, one.samples)).collect();
    let mut found: Vec<SharedLine> = lines
        .into_iter()
        .filter_map(|(line, mut users)| {
            users.retain(|_, used| used.samples >= MIN_SAMPLES);
            let is_shared = users.len() >= 2 && users.values().any(|used| used.is_written);
            is_shared.then(|| shared_line(line, &users, &samples, &name))
        })
        .collect();
    let weight = |line: &SharedLine| {
        let mut shares: Vec<f64> = line.threads.iter().map(|one| one.share).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares[1]
    };
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found.truncate(MAX_LINES);
    found
}

fn add(used: &mut Use, access: &Access) {
    let first = access.at % LINE_BYTES;
    // If an access crosses the end of the line, only the part within it counts.
    let bytes = u64::from(access.bytes).min(LINE_BYTES - first);
    let mask = (u64::MAX >> (64 - bytes)) << first;
    used.samples += 1;
    used.is_written |= access.is_write;
    used.bytes |= mask;
    used.written |= if access.is_write { mask } else { 0 };
    *used.spots.entry(access.spot).or_default() += 1;
}

fn shared_line(
    (memory, number): Line,
    users: &BTreeMap<u32, Use>,
    samples: &BTreeMap<u32, u64>,
    name: &impl Fn(u32) -> String,
) -> SharedLine {
    // Bytes that one thread writes and another uses.
    let overlaps = users.iter().any(|(tid, one)| {
        let others = users.iter().filter(|(other, _)| *other != tid);
        others.fold(0, |bytes, (_, other)| bytes | other.bytes) & one.written != 0
    });
    let address = number * LINE_BYTES;
    SharedLine {
        address: match memory {
            Memory::Process(_) => format!("{address:#x}"),
            Memory::Shared(_) => format!("shared memory+{address:#x}"),
        },
        has_common_bytes: overlaps,
        threads: users
            .iter()
            .map(|(tid, used)| LineUse {
                tid: *tid,
                share: used.samples as f64 / samples.get(tid).copied().unwrap_or(0).max(1) as f64,
                is_written: used.is_written,
                first_byte: used.bytes.trailing_zeros() as u8,
                last_byte: (63 - used.bytes.leading_zeros().min(63)) as u8,
                function: used
                    .spots
                    .iter()
                    .max_by_key(|(_, count)| **count)
                    .map_or_else(String::new, |(spot, _)| name(*spot)),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(at: u64, is_write: bool) -> Access {
        Access { memory: Memory::Process(1), at, bytes: 8, is_write, spot: 0 }
    }

    fn shared(one: &[Access], other: &[Access]) -> Vec<SharedLine> {
        let of = |tid, accesses| Sampled { tid, samples: 1000, accesses };
        shared_lines(&[of(1, one), of(2, other)], |_| "f".to_owned())
    }

    #[test]
    fn two_threads_that_write_next_to_each_other_share_a_line_falsely() {
        let found = shared(&[access(0x1000, true); 100], &[access(0x1008, true); 50]);
        assert_eq!(found.len(), 1);
        let line = &found[0];
        assert!(!line.has_common_bytes && line.address == "0x1000");
        let bytes: Vec<_> = line.threads.iter().map(|t| (t.first_byte, t.last_byte)).collect();
        assert_eq!(bytes, [(0, 7), (8, 15)]);
        assert_eq!(line.threads[0].share, 0.1);
    }

    #[test]
    fn a_counter_of_both_is_not_falsely_shared() {
        let found = shared(&[access(0x1000, true); 100], &[access(0x1000, false); 50]);
        assert!(found[0].has_common_bytes);
    }

    #[test]
    fn what_only_is_read_or_is_elsewhere_is_not_shared() {
        assert_eq!(shared(&[access(0x1000, false); 99], &[access(0x1008, false); 99]), []);
        assert_eq!(shared(&[access(0x1000, true); 99], &[access(0x1040, true); 99]), []);
        assert_eq!(shared(&[access(0x1000, true); 99], &[access(0x1008, true); 3]), []);
    }

    /// Returns 1500 accesses spread evenly over `pages` pages.
    fn accesses(pages: u64, seed: u64) -> Vec<Access> {
        let mut random = linerate_record::random::Random::new(seed);
        (0..1500).map(|_| access(4096 * random.below(pages as usize) as u64, false)).collect()
    }

    #[test]
    fn the_number_of_pages_is_estimated_from_those_met_twice() {
        for pages in [100, 1000, 10_000, 100_000] {
            let truth = 4096.0 * pages as f64;
            let holds = |seed: &u64| {
                let used = memory_use(&accesses(pages, *seed), 3000).unwrap();
                let bytes = used.working_set_bytes;
                bytes.low.unwrap() <= truth && truth <= 1.02 * bytes.high.unwrap()
            };
            // These are 95 % intervals.
            let held = (0..100).filter(holds).count();
            assert!(held >= 88, "{pages}: {held}");
        }
        let used = memory_use(&accesses(3_000_000, 7), 3000).unwrap();
        assert!(used.working_set_bytes.low.unwrap() > 4e8 && used.once_share > 0.99);
        assert_eq!(used.share, 0.5);
    }

    #[test]
    fn few_accesses_say_nothing() {
        assert_eq!(memory_use(&accesses(10, 7)[..99], 3000), None);
    }

    proptest! {
        #[test]
        fn any_accesses_are_summed_up(
            parts in prop::collection::vec((0u64..512, 1u8..=64, any::<bool>(), 1u32..4), 0..300),
        ) {
            let of = |tid: u32| -> Vec<Access> {
                let own = parts.iter().filter(|part| part.3 == tid);
                own.map(|&(at, bytes, is_write, _)| Access { bytes, ..access(at, is_write) })
                    .collect()
            };
            let all: Vec<Vec<Access>> = (1..4).map(of).collect();
            let threads: Vec<Sampled<'_>> = all
                .iter()
                .zip(1..)
                .map(|(accesses, tid)| Sampled { tid, samples: 300, accesses })
                .collect();
            for line in shared_lines(&threads, |_| String::new()) {
                prop_assert!(line.threads.iter().all(|t| t.first_byte <= t.last_byte));
                prop_assert!(line.threads.iter().all(|t| t.share <= 1.0));
            }
            let used = memory_use(&of(1), 300);
            prop_assert!(used.is_none_or(|used| used.once_share <= 1.0));
        }
    }
}
