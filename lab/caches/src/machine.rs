// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine with caches, TLBs and memory, drawn at random, and the levels that a detector should
//! find.

use crate::seed::mix;
use fastrand::Rng;

/// Cache line size in bytes.
pub const LINE_BYTES: u64 = 64;

/// Replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Least recently used.
    Lru,
    /// Pseudo-LRU: a binary tree of bits, each of which points away from the last use. The number
    /// of ways must be a power of two.
    TreePlru,
    /// Replaces a random line.
    Random,
}

/// How addresses map to sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// Low bits of the virtual address; a contiguous chain fills all sets evenly.
    Virtual,
    /// Low bits of the physical address; pages are distributed randomly over groups of sets (*page
    /// colours*).
    Physical,
    /// Hash of the physical address; lines are distributed randomly over sets.
    Hashed,
}

/// How a cache relates to the nearer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inclusion {
    /// Holds all lines in the nearer caches; lines that it evicts are invalidated there too.
    Inclusive,
    /// Holds only lines evicted from the previous cache.
    Victim,
}

/// A simulated cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Replacement policy.
    pub policy: Policy,
    /// How addresses map to sets.
    pub index: Index,
    /// Relation to the nearer caches.
    pub inclusion: Inclusion,
    /// Hit latency in ns.
    pub latency_ns: f64,
}

impl Cache {
    /// Returns the number of sets.
    pub fn sets(&self) -> u64 {
        self.size_bytes / LINE_BYTES / u64::from(self.ways)
    }
}

/// A TLB level, fully associative with LRU replacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Number of pages that it holds.
    pub entries: u32,
    /// Time added by a miss in this level, in ns.
    pub cost_ns: f64,
}

/// A change from pass to pass, as caused by other programs and virtual machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Moves {
    /// Memory latency is multiplied by this factor in some passes.
    Memory(f64),
    /// Only this fraction of the last cache is available in some passes.
    LastCache(f64),
}

/// A memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Caches, nearest first.
    pub caches: Vec<Cache>,
    /// Memory latency in ns.
    pub memory_ns: f64,
    /// TLB levels, nearest first.
    pub tlb: Vec<Tlb>,
    /// Bytes that a TLB entry covers.
    pub page_bytes: u64,
    /// Bytes per physically contiguous stretch of virtual memory.
    pub contiguous_bytes: u64,
    /// Changes from pass to pass; `None` if nothing changes.
    pub moves: Option<Moves>,
}

/// A level that a detector should find.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueLevel {
    /// Size in bytes up to which chains stay in this level; `None` for memory.
    pub size_bytes: Option<u64>,
    /// Load latency with a TLB hit, in ns.
    pub latency_ns: f64,
    /// Latency in ns in the level's largest chain, whose pages may miss the TLB, once per page and
    /// traversal.
    pub latency_high_ns: f64,
    /// Whether size or latency differ from pass to pass.
    pub moved: bool,
}

/// A detector's expected output.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Levels, nearest first; the last is memory.
    pub levels: Vec<TrueLevel>,
}

impl Truth {
    /// Returns pairs of neighbouring sizes whose ratio is below `resolution`, smaller first. A
    /// detector should report them as unresolved.
    pub fn too_close(&self, resolution: f64) -> Vec<(u64, u64)> {
        let sizes: Vec<u64> = self.levels.iter().filter_map(|level| level.size_bytes).collect();
        let close = |pair: &&[u64]| (pair[1] as f64) < pair[0] as f64 * resolution;
        sizes.windows(2).filter(close).map(|pair| (pair[0], pair[1])).collect()
    }
}

impl Machine {
    /// Returns the size in bytes up to which a chain stays within the caches up to this one: its
    /// capacity, plus the previous cache's reach if it is a victim cache.
    pub fn reach_bytes(&self, cache: usize) -> u64 {
        let own = self.caches[cache].size_bytes;
        match self.caches[cache].inclusion {
            Inclusion::Victim if cache > 0 => own + self.reach_bytes(cache - 1),
            _ => own,
        }
    }

    /// Returns the time in ns that TLB misses add to a load in a page-local chain of `bytes` bytes,
    /// in which each page misses once per traversal.
    pub fn translation_ns(&self, bytes: u64) -> f64 {
        let pages = bytes as f64 / self.page_bytes as f64;
        let missed = self.tlb.iter().filter(|level| pages > f64::from(level.entries));
        let cost_ns: f64 = missed.map(|level| level.cost_ns).sum();
        cost_ns * LINE_BYTES as f64 / self.page_bytes as f64
    }

    /// Returns a detector's expected output for a curve that ends at `max_bytes`.
    pub fn truth(&self, max_bytes: u64) -> Truth {
        let level = |cache: usize| {
            let size_bytes = self.reach_bytes(cache);
            let latency_ns = self.caches[cache].latency_ns;
            let last = cache + 1 == self.caches.len();
            TrueLevel {
                size_bytes: Some(size_bytes),
                latency_ns,
                latency_high_ns: latency_ns + self.translation_ns(size_bytes),
                moved: last && matches!(self.moves, Some(Moves::LastCache(_))),
            }
        };
        let mut levels: Vec<_> = (0..self.caches.len()).map(level).collect();
        levels.push(TrueLevel {
            size_bytes: None,
            latency_ns: self.memory_ns,
            latency_high_ns: self.memory_ns + self.translation_ns(max_bytes),
            moved: matches!(self.moves, Some(Moves::Memory(_))),
        });
        Truth { levels }
    }

    /// Returns the size in bytes of a chain long enough to show memory itself: four times the reach
    /// of the caches, and at least 64 MiB.
    pub fn enough_bytes(&self) -> u64 {
        let reach = self.caches.len().checked_sub(1).map_or(0, |last| self.reach_bytes(last));
        (4 * reach).max(64 << 20)
    }

    /// Returns a [`random`](Self::random) machine whose caches reach no further than `bytes` (at
    /// least 256 KiB), for simulations whose time is proportional to the number of lines.
    pub fn random_within(seed: u64, bytes: u64) -> Self {
        let mut attempt = 0;
        loop {
            let machine = Self::random(mix(seed, attempt));
            if machine.reach_bytes(machine.caches.len() - 1) <= bytes.max(256 << 10) {
                return machine;
            }
            attempt += 1;
        }
    }

    /// Returns a realistic machine: two to four cache levels, with sizes, latencies and policies as
    /// found in processors from phones to servers.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let cycle_ns = 1.0 / (1.0 + 4.0 * rng.f64());
        let small = 4 << 10;
        let contiguous_bytes = *pick(&mut rng, &[small, small, small, 16 << 10, 64 << 10, 2 << 20]);
        let page_bytes =
            if contiguous_bytes == 2 << 20 && rng.f64() < 0.7 { 2 << 20 } else { small };
        let mut caches = vec![random_l1(&mut rng, cycle_ns)];
        let l2 = random_l2(&mut rng, cycle_ns, &caches[0]);
        caches.push(l2);
        if rng.f64() < 0.8 {
            let l3 = random_l3(&mut rng, cycle_ns, &caches[1]);
            caches.push(l3);
            if rng.f64() < 0.06 {
                let l4 = random_l4(&mut rng, &caches[2]);
                caches.extend(l4);
            }
        }
        let last_ns = caches[caches.len() - 1].latency_ns;
        let memory_ns = (60.0 + 100.0 * rng.f64()).max(1.5 * last_ns);
        let tlb = vec![
            Tlb {
                entries: *pick(&mut rng, &[32, 48, 64, 72, 96]),
                cost_ns: cycle_ns * (5 + rng.u32(0..5)) as f64,
            },
            Tlb { entries: 512 << rng.u32(0..3), cost_ns: 15.0 + 25.0 * rng.f64() },
        ];
        let moves = match rng.u32(0..20) {
            0 => Some(Moves::Memory(1.25 + 0.3 * rng.f64())),
            1 if caches.len() > 2 => Some(Moves::LastCache(0.25 + 0.35 * rng.f64())),
            _ => None,
        };
        Self { caches, memory_ns, tlb, page_bytes, contiguous_bytes, moves }
    }
}

fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(0..choices.len())]
}

/// Returns a replacement policy that is possible with this number of ways.
fn policy(rng: &mut Rng, ways: u32) -> Policy {
    match rng.u32(0..100) {
        0..45 if ways.is_power_of_two() => Policy::TreePlru,
        0..80 => Policy::Lru,
        _ => Policy::Random,
    }
}

fn random_l1(rng: &mut Rng, cycle_ns: f64) -> Cache {
    let kib = *pick(rng, &[16, 32, 32, 32, 48, 64, 64, 128]);
    // To avoid aliases, a way is as large as a page: 4 KiB, or 16 KiB on machines with a large L1.
    let virtually = rng.f64() < 0.88;
    let ways = match (kib, virtually) {
        (48, true) => 12,
        (64, true) => *pick(rng, &[4, 8, 16]),
        (128, true) => 8,
        (_, true) => kib / 4,
        (48, false) => 3,
        (_, false) => *pick(rng, &[2, 4]),
    };
    Cache {
        size_bytes: u64::from(kib) << 10,
        ways,
        policy: policy(rng, ways),
        index: if virtually { Index::Virtual } else { Index::Physical },
        inclusion: Inclusion::Inclusive,
        latency_ns: cycle_ns * f64::from(rng.u32(3..6)),
    }
}

fn random_l2(rng: &mut Rng, cycle_ns: f64, l1: &Cache) -> Cache {
    let (kib, ways) = *pick(
        rng,
        &[
            (128, 8),
            (256, 4),
            (256, 8),
            (512, 8),
            (512, 16),
            (1024, 8),
            (1024, 16),
            (1280, 10),
            (1280, 20),
            (2048, 16),
            (3072, 12),
            (4096, 16),
        ],
    );
    // A cache that is not larger than the previous one must be its victim cache.
    let victim = rng.f64() < 0.08 || kib << 10 <= l1.size_bytes;
    Cache {
        size_bytes: kib << 10,
        ways,
        policy: policy(rng, ways),
        index: if rng.f64() < 0.8 { Index::Physical } else { Index::Hashed },
        inclusion: if victim { Inclusion::Victim } else { Inclusion::Inclusive },
        latency_ns: (cycle_ns * f64::from(rng.u32(10..21))).max(2.0 * l1.latency_ns),
    }
}

fn random_l3(rng: &mut Rng, cycle_ns: f64, l2: &Cache) -> Cache {
    let choices = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 30, 32, 36, 48, 64, 96, 128_u64];
    let worth_building: Vec<u64> =
        choices.into_iter().filter(|mib| (mib << 20) * 4 >= l2.size_bytes * 5).collect();
    let mib = *pick(rng, &worth_building);
    let size_bytes = mib << 20;
    let physical = mib.is_power_of_two() && rng.f64() < 0.3;
    let ways = if physical { 16 } else { *pick(rng, &[11, 12, 16, 16, 20]) };
    let ways = if size_bytes / LINE_BYTES % u64::from(ways) == 0 { ways } else { 16 };
    let victim = rng.f64() < 0.4;
    Cache {
        size_bytes,
        ways,
        policy: policy(rng, ways),
        index: if physical { Index::Physical } else { Index::Hashed },
        inclusion: if victim { Inclusion::Victim } else { Inclusion::Inclusive },
        latency_ns: (cycle_ns * f64::from(rng.u32(30..80))).max(1.6 * l2.latency_ns),
    }
}

/// Draws a memory-side cache, if one makes sense.
fn random_l4(rng: &mut Rng, l3: &Cache) -> Option<Cache> {
    let size_bytes = *pick(rng, &[64_u64, 128]) << 20;
    (size_bytes >= 2 * l3.size_bytes).then(|| Cache {
        size_bytes,
        ways: 16,
        policy: policy(rng, 16),
        index: Index::Hashed,
        inclusion: Inclusion::Victim,
        latency_ns: (35.0 + 15.0 * rng.f64()).max(1.6 * l3.latency_ns),
    })
}
