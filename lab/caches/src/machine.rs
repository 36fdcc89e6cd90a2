// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine: caches, translation buffers, memory; drawn at random, and what is to be found in it.

use crate::seed::mix;
use fastrand::Rng;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// Replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The least recently used.
    Lru,
    /// Near enough: a binary tree of bits, each of which points away from the last use. The number
    /// of ways is a power of two.
    TreePlru,
    /// Any.
    Random,
}

/// Set index function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// The low bits of the virtual address: a contiguous chain fills all sets alike.
    Virtual,
    /// The low bits of the physical address: pages fall on sets as it happens (*page colours*).
    Physical,
    /// A hash of the physical address: lines fall on sets as it happens.
    Hashed,
}

/// Content of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inclusion {
    /// All that the caches before it hold; what it drops, they drop.
    Inclusive,
    /// Lines dropped by the previous cache, exclusively.
    Victim,
}

/// A cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes.
    pub size_bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Replacement policy.
    pub policy: Policy,
    /// Set index function.
    pub index: Index,
    /// Its relation to the previous cache.
    pub inclusion: Inclusion,
    /// Time of a load that hits here, in ns.
    pub latency_ns: f64,
}

impl Cache {
    /// The number of its sets.
    pub fn sets(&self) -> u64 {
        self.size_bytes / LINE_BYTES / u64::from(self.ways)
    }
}

/// A level of the translation buffer: fully associative, least recently used.
#[derive(Clone, Debug, PartialEq)]
pub struct Tlb {
    /// Pages.
    pub entries: u32,
    /// Time added by a miss here, in ns.
    pub cost_ns: f64,
}

/// Changes from pass to pass, caused by other programs and virtual machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Moves {
    /// Memory is slower by this factor in some passes.
    Memory(f64),
    /// The last cache has room for no more than this share in some passes.
    LastCache(f64),
}

/// A memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Nearest first.
    pub caches: Vec<Cache>,
    /// Time of a load from memory, in ns.
    pub memory_ns: f64,
    /// Nearest first.
    pub tlb: Vec<Tlb>,
    /// Bytes that an entry of the translation buffer covers.
    pub page_bytes: u64,
    /// Minimum contiguous physical memory behind virtual memory, in bytes.
    pub contiguous_bytes: u64,
    /// Changes from pass to pass; `None` if there are none.
    pub moves: Option<Moves>,
}

/// A level that a detector should find.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueLevel {
    /// Bytes up to which chains stay in it; `None` for memory.
    pub size_bytes: Option<u64>,
    /// Time of a load, translation at hand, in ns.
    pub latency_ns: f64,
    /// The same for the largest chain of the level, whose pages the translation buffer may miss,
    /// each once in as many loads as a page has lines.
    pub latency_high_ns: f64,
    /// Whether size or latency differ from pass to pass.
    pub moved: bool,
}

/// Expected output of a detector.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Nearest first; the last is memory.
    pub levels: Vec<TrueLevel>,
}

impl Truth {
    /// Sizes of neighbours whose ratio is less than `resolution`, smaller first: to be reported
    /// unresolved.
    pub fn too_close(&self, resolution: f64) -> Vec<(u64, u64)> {
        let sizes: Vec<u64> = self.levels.iter().filter_map(|level| level.size_bytes).collect();
        let close = |pair: &&[u64]| (pair[1] as f64) < pair[0] as f64 * resolution;
        sizes.windows(2).filter(close).map(|pair| (pair[0], pair[1])).collect()
    }
}

impl Machine {
    /// Bytes that a chain may have to stay within the caches up to this one: its own size, and as
    /// a victim cache also the reach of the one before.
    pub fn reach_bytes(&self, cache: usize) -> u64 {
        let own = self.caches[cache].size_bytes;
        match self.caches[cache].inclusion {
            Inclusion::Victim if cache > 0 => own + self.reach_bytes(cache - 1),
            _ => own,
        }
    }

    /// ns that misses of the translation buffer add to a load of a page-local chase of `bytes`:
    /// each page misses once per traversal.
    pub fn translation_ns(&self, bytes: u64) -> f64 {
        let pages = bytes as f64 / self.page_bytes as f64;
        let missed = self.tlb.iter().filter(|level| pages > f64::from(level.entries));
        let cost_ns: f64 = missed.map(|level| level.cost_ns).sum();
        cost_ns * LINE_BYTES as f64 / self.page_bytes as f64
    }

    /// Expected output of a detector for a curve that ends at `max_bytes`.
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

    /// Bytes of a chain long enough to show memory itself: four times the reach of the caches, and
    /// 64 MiB at least.
    pub fn enough_bytes(&self) -> u64 {
        let reach = self.caches.len().checked_sub(1).map_or(0, |last| self.reach_bytes(last));
        (4 * reach).max(64 << 20)
    }

    /// A [`random`](Self::random) machine whose caches reach no further than `bytes`, 256 KiB at
    /// least: for simulations that take a time per line.
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

    /// A machine such as there are: two to four levels before memory is counted, of the sizes,
    /// latencies, and kinds that processors from phones to servers have.
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

/// Replacement that this number of ways can have.
fn policy(rng: &mut Rng, ways: u32) -> Policy {
    match rng.u32(0..100) {
        0..45 if ways.is_power_of_two() => Policy::TreePlru,
        0..80 => Policy::Lru,
        _ => Policy::Random,
    }
}

fn random_l1(rng: &mut Rng, cycle_ns: f64) -> Cache {
    let kib = *pick(rng, &[16, 32, 32, 32, 48, 64, 64, 128]);
    // Without aliases a way is a page: 4 KiB, and 16 KiB on machines with large first caches.
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
    // A cache not larger than its predecessor is only built as its victim cache.
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

/// A memory-side cache, where it would make sense.
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
