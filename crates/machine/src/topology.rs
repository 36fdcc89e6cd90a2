// SPDX-License-Identifier: MIT OR Apache-2.0
//! Topology: logical CPUs that share a core, a package or a cache, and the order in which to use
//! them.
//!
//! The topology is read from /sys, as reported by the kernel. In a virtual machine, the hypervisor
//! decides what is reported: two "cores" may be SMT siblings. Cores of different types in one
//! machine are in [`core_kinds`](crate::core_kinds).

use crate::files::{parse_cpu_list, parse_number, parse_size, read_as};
use crate::{Error, Root};
use std::path::{Path, PathBuf};

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
}

/// One cache, as seen from one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Cache level; L1 is nearest to the core.
    pub level: u32,
    /// What the cache holds: data, instructions, or both.
    pub kind: CacheKind,
    /// Total size in bytes, not divided by the number of sharers.
    pub bytes: Result<u64, Error>,
    /// Cache line size in bytes.
    pub line_bytes: Result<u64, Error>,
    /// Associativity: lines per set.
    pub ways: Result<u32, Error>,
    /// Logical CPUs that share the cache, including this one, ascending.
    pub shared_by: Result<Vec<u32>, Error>,
}

/// One logical CPU. Values that the kernel does not report are errors with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Logical CPU number.
    pub number: u32,
    /// Core number; unique only within a package, and on some machines not even that.
    pub core: Result<u32, Error>,
    /// Package (socket) number.
    pub package: Result<u32, Error>,
    /// Logical CPUs on the same core, including this one, ascending.
    pub siblings: Result<Vec<u32>, Error>,
    /// Caches, in kernel order.
    pub caches: Result<Vec<Cache>, Error>,
}

impl Cpu {
    /// Returns the logical CPUs that share this CPU's L3 cache, including this one, ascending.
    ///
    /// # Errors
    /// Returns an error if the kernel reports no such cache.
    pub fn l3_group(&self) -> Result<&[u32], Error> {
        let caches = self.caches.as_ref().map_err(Clone::clone)?;
        let shared_by = caches.iter().find(|cache| cache.level == 3).map(|l3| &l3.shared_by);
        let absent = || Error::CannotTell {
            what: "the CPUs that share an L3 cache",
            reason: format!(
                "CPU {} has no L3 cache, or the kernel does not report it",
                self.number
            ),
            advice: "continue without this information",
        };
        shared_by.ok_or_else(absent)?.as_deref().map_err(Clone::clone)
    }

    /// Returns the lowest CPU on the core, which identifies the core; the CPU itself if its
    /// siblings are unknown.
    fn core_leader(&self) -> u32 {
        self.siblings.as_ref().ok().and_then(|s| s.first().copied()).unwrap_or(self.number)
    }

    /// Returns the lowest CPU that shares the L3 cache, which identifies the cache; 0 if unknown.
    fn l3_leader(&self) -> u32 {
        self.l3_group().ok().and_then(|group| group.first().copied()).unwrap_or(0)
    }
}

/// A machine's logical CPUs, or a requested subset in the order requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// One entry per CPU.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Reads the topology of `cpus` from /sys. Takes about 0.1 ms per CPU.
    pub fn read(cpus: &[u32]) -> Self {
        Self::read_from(Path::new("/sys/devices/system/cpu"), cpus)
    }

    /// Like [`Topology::read`], with the CPU directories below `root`.
    pub fn read_from(root: &Path, cpus: &[u32]) -> Self {
        Self { cpus: cpus.iter().map(|&number| read_cpu(root, number)).collect() }
    }

    /// Returns the `n` CPUs to use for `n` cooperating threads, or all CPUs if there are fewer than
    /// `n`.
    ///
    /// Takes one CPU per core before the second thread of any core, since siblings slow each other
    /// down. Within that order, uses all cores of one L3 cache before those of the next, because
    /// data passed between threads should stay in the cache. The L3 cache with the most cores comes
    /// first. Ties go to the lowest number.
    pub fn pick(&self, n: usize) -> Vec<u32> {
        let mut ranked: Vec<Ranked> = self.cpus.iter().map(|cpu| self.rank(cpu)).collect();
        ranked.sort_unstable();
        ranked.dedup();
        ranked.into_iter().take(n).map(|rank| rank.number).collect()
    }

    fn rank(&self, cpu: &Cpu) -> Ranked {
        let earlier = |other: &&Cpu| other.number < cpu.number;
        let of_core = self.cpus.iter().filter(|o| o.core_leader() == cpu.core_leader());
        let is_in_l3 = |other: &&Cpu| other.l3_leader() == cpu.l3_leader();
        let mut cores: Vec<u32> = self.cpus.iter().filter(is_in_l3).map(Cpu::core_leader).collect();
        cores.sort_unstable();
        cores.dedup();
        Ranked {
            thread_of_core: of_core.filter(earlier).count(),
            cores_beyond_l3: self.cpus.len() - cores.len(),
            l3: cpu.l3_leader(),
            number: cpu.number,
        }
    }
}

/// A CPU's rank in the order of [`Topology::pick`]; fields are compared in order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    thread_of_core: usize,
    cores_beyond_l3: usize,
    l3: u32,
    number: u32,
}

/// Returns the `n` of the `allowed` CPUs to use for `n` cooperating threads, best first. See
/// [`Topology::pick`].
pub fn pick_cpus(n: usize, allowed: &[u32]) -> Vec<u32> {
    Topology::read(allowed).pick(n)
}

/// Returns those of `cpus` that are on the same NUMA node as `cpu`, in the order given; all of them
/// if the kernel in `root` reports no nodes.
pub fn on_node_of(root: &Root, cpu: u32, cpus: &[u32]) -> Vec<u32> {
    let names = root.names(&format!("sys/devices/system/cpu/cpu{cpu}"));
    let is_node = |name: &&String| {
        name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let node = names.iter().find(is_node);
    let of_node =
        node.and_then(|node| root.cpu_list(&format!("sys/devices/system/node/{node}/cpulist")));
    let is_near = |cpu: &&u32| of_node.as_ref().is_none_or(|near| near.contains(cpu));
    cpus.iter().filter(is_near).copied().collect()
}

fn read_cpu(root: &Path, number: u32) -> Cpu {
    let base = root.join(format!("cpu{number}"));
    let topology = base.join("topology");
    Cpu {
        number,
        core: read_as(&topology.join("core_id"), parse_number),
        package: read_as(&topology.join("physical_package_id"), parse_number),
        // Linux 5.3 introduced the name core_cpus_list for this file, but kept the old one too.
        siblings: read_as(&topology.join("thread_siblings_list"), parse_cpu_list),
        caches: read_caches(&base.join("cache")),
    }
}

fn read_caches(folder: &Path) -> Result<Vec<Cache>, Error> {
    let index = |i: u32| folder.join(format!("index{i}"));
    let present: Vec<PathBuf> = (0..).map(index).take_while(|cache| cache.exists()).collect();
    if present.is_empty() {
        let reason = "the kernel reports no cache".to_owned();
        return Err(Error::File { path: folder.display().to_string(), reason });
    }
    present.iter().map(|cache| read_cache(cache)).collect()
}

fn read_cache(folder: &Path) -> Result<Cache, Error> {
    Ok(Cache {
        level: read_as(&folder.join("level"), parse_number)?,
        kind: read_as(&folder.join("type"), parse_kind)?,
        bytes: read_as(&folder.join("size"), parse_size),
        line_bytes: read_as(&folder.join("coherency_line_size"), parse_size),
        ways: read_as(&folder.join("ways_of_associativity"), parse_number),
        shared_by: read_as(&folder.join("shared_cpu_list"), parse_cpu_list),
    })
}

fn parse_kind(text: &str) -> Result<CacheKind, String> {
    match text {
        "Data" => Ok(CacheKind::Data),
        "Instruction" => Ok(CacheKind::Instruction),
        "Unified" => Ok(CacheKind::Unified),
        _ => Err(format!("unknown cache type `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use tempfile::TempDir;

    /// A synthetic /sys in a directory.
    struct Sys(TempDir);

    impl Sys {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        fn cpu(&self, cpu: u32, core: &str, package: &str, siblings: &str) {
            self.write(&format!("cpu{cpu}/topology/core_id"), core);
            self.write(&format!("cpu{cpu}/topology/physical_package_id"), package);
            self.write(&format!("cpu{cpu}/topology/thread_siblings_list"), siblings);
        }

        fn cache(&self, cpu: u32, index: u32, [level, kind, size, shared_by]: [&str; 4]) {
            let at = |name| format!("cpu{cpu}/cache/index{index}/{name}");
            self.write(&at("level"), level);
            self.write(&at("type"), kind);
            self.write(&at("size"), size);
            self.write(&at("coherency_line_size"), "64");
            self.write(&at("ways_of_associativity"), "8");
            self.write(&at("shared_cpu_list"), shared_by);
        }

        fn topology(&self, cpus: &[u32]) -> Topology {
            Topology::read_from(self.0.path(), cpus)
        }
    }

    /// Two CCXs with two cores each and two threads per core. The first threads of all cores are
    /// numbered before the second threads.
    fn epyc() -> Sys {
        let sys = Sys::new();
        for cpu in 0..8 {
            let core = cpu % 4;
            sys.cpu(cpu, &core.to_string(), "0", &format!("{core},{}", core + 4));
            let own = format!("{core},{}", core + 4);
            let l3 = if core < 2 { "0-1,4-5" } else { "2-3,6-7" };
            sys.cache(cpu, 0, ["1", "Data", "32K", &own]);
            sys.cache(cpu, 1, ["1", "Instruction", "32K", &own]);
            sys.cache(cpu, 2, ["2", "Unified", "1024K", &own]);
            sys.cache(cpu, 3, ["3", "Unified", "32768K", l3]);
        }
        sys
    }

    #[test]
    fn cores_first_and_one_cache_before_the_next() {
        let topology = epyc().topology(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.pick(8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.cpus[5].siblings, Ok(vec![1, 5]));
        assert_eq!(topology.cpus[5].l3_group(), Ok(&[0, 1, 4, 5][..]));
        let caches = topology.cpus[0].caches.as_ref().unwrap();
        let l2 = caches.iter().find(|cache| cache.level == 2).unwrap();
        assert_eq!((&l2.bytes, &l2.line_bytes, &l2.ways), (&Ok(1 << 20), &Ok(64), &Ok(8)));
        assert_eq!(l2.kind, CacheKind::Unified);
    }

    #[test]
    fn the_cache_with_most_of_the_allowed_cores_comes_first() {
        let topology = epyc().topology(&[1, 2, 3, 5, 7]);
        assert_eq!(topology.pick(5), [2, 3, 1, 7, 5]);
        assert_eq!(topology.pick(2), [2, 3]);
        assert!(topology.pick(0).is_empty());
        assert_eq!(topology.pick(99).len(), 5);
    }

    /// A Raspberry Pi 4 reports no caches, but has core_id.
    #[test]
    fn absent_caches_have_a_reason() {
        let sys = Sys::new();
        for cpu in 0..4 {
            sys.cpu(cpu, &cpu.to_string(), "0", &cpu.to_string());
        }
        let topology = sys.topology(&[3, 1]);
        assert_eq!(topology.pick(4), [1, 3]);
        let error = topology.cpus[0].l3_group().unwrap_err();
        assert!(error.to_string().contains("cpu3/cache: the kernel reports no cache"), "{error}");
    }

    /// A POWER8 with eight threads per core, and firmware that does not number packages.
    #[test]
    fn one_thread_of_each_core_before_a_second() {
        let sys = Sys::new();
        for cpu in 0..16 {
            let first = cpu / 8 * 8;
            sys.cpu(cpu, &first.to_string(), "-1", &format!("{first}-{}", first + 7));
        }
        let topology = sys.topology(&(0..16).collect::<Vec<_>>());
        assert_eq!(topology.pick(5), [0, 8, 1, 9, 2]);
        let error = topology.cpus[0].package.as_ref().unwrap_err().to_string();
        assert!(error.contains("physical_package_id: invalid number `-1`"), "{error}");
    }

    #[test]
    fn cpus_of_one_node_are_those_that_the_kernel_lists() {
        let (folder, write) = (Sys::new(), |sys: &Sys, path: &str, text: &str| {
            sys.write(&format!("sys/devices/system/{path}"), text);
        });
        let root = Root::new(folder.0.path());
        let near = |cpu| on_node_of(&root, cpu, &[7, 0, 1, 4, 5]);
        assert_eq!(near(4), [7, 0, 1, 4, 5], "no nodes");
        for (node, cpus) in [(0, "0-1,4-5"), (1, "2-3,6-7")] {
            write(&folder, &format!("node/node{node}/cpulist"), cpus);
        }
        for (cpu, node) in [(4, 0), (7, 1)] {
            write(&folder, &format!("cpu/cpu{cpu}/node{node}/meminfo"), "");
        }
        assert_eq!(near(4), [0, 1, 4, 5]);
        assert_eq!(near(7), [7]);
    }

    #[test]
    fn without_any_word_from_the_kernel_every_cpu_is_a_core() {
        let topology = Sys::new().topology(&[4, 2, 9, 2]);
        assert_eq!(topology.pick(9), [2, 4, 9]);
        assert!(topology.cpus[0].siblings.is_err() && topology.cpus[0].core.is_err());
    }

    #[test]
    fn this_machine_gives_what_is_allowed() {
        let allowed = linerate_linux::allowed_cpus().unwrap();
        let mut picked = pick_cpus(allowed.len(), &allowed);
        picked.sort_unstable();
        assert_eq!(picked, allowed);
        for cpu in Topology::read(&allowed).cpus {
            assert!(cpu.siblings.is_err() || cpu.siblings.unwrap().contains(&cpu.number));
        }
    }

    /// Returns a topology with `threads` threads per core, in which only the CPUs in `allowed` may
    /// be used.
    fn regular(threads: u32, allowed: &[u32]) -> Topology {
        let unknown = || Error::Cpus { cpus: vec![], reason: "synthetic" };
        let cpu = |&number: &u32| {
            let first = number / threads * threads;
            let siblings = Ok((first..first + threads).collect());
            let (core, package) = (Ok(number / threads), Err(unknown()));
            Cpu { number, core, package, siblings, caches: Err(unknown()) }
        };
        Topology { cpus: allowed.iter().map(cpu).collect() }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// The picked CPUs are on as many cores as possible, and no CPU is picked twice.
        #[test]
        fn picks_spread_over_cores(
            threads in 1u32..5,
            allowed in prop::collection::hash_set(0u32..32, 0..20),
            n in 0usize..24,
        ) {
            let allowed: Vec<u32> = allowed.into_iter().collect();
            let distinct = |cpus: &[u32], share: u32| {
                cpus.iter().map(|cpu| cpu / share).collect::<std::collections::BTreeSet<_>>().len()
            };
            let picked = regular(threads, &allowed).pick(n);
            prop_assert_eq!(picked.len(), n.min(allowed.len()));
            prop_assert_eq!(distinct(&picked, 1), picked.len());
            prop_assert!(picked.iter().all(|cpu| allowed.contains(cpu)));
            let cores = distinct(&allowed, threads);
            prop_assert_eq!(distinct(&picked, threads), cores.min(picked.len()));
        }

        #[test]
        fn kinds_survive_anything(text in ".{0,12}") {
            let known = ["Data", "Instruction", "Unified"].contains(&text.as_str());
            prop_assert_eq!(parse_kind(&text).is_ok(), known);
        }
    }
}
