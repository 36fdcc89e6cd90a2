// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU activity: over the window, and per slice for the budgets of the threads on each CPU.

use crate::budget::CpuShares;
use crate::procfs::cpus::{Softnet, parse_interrupts, parse_softirqs, parse_softnet};
use crate::procfs::task::SchedStat;
use crate::reader::Reader;
use crate::threads::text_of;
use linerate_machine::Root;
use linerate_machine::cpu_time::{CpuTicks, CpuTimes};
use linerate_record::why::CpuCounts;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;

/// Maximum number of CPUs whose softirq threads are followed. If there are more, those on which the
/// observed threads run are followed.
const SOFTIRQ_THREADS_MAX: usize = 64;

/// Share of a CPU's time in interrupts below which it does not matter how much of it was in the
/// softirq thread.
const NEGLIGIBLE: f64 = 0.02;

/// Counters at the start or end of the window.
#[derive(Debug, Default)]
struct Whole {
    ticks: BTreeMap<u32, CpuTicks>,
    softnet: BTreeMap<u32, Softnet>,
    receive: BTreeMap<u32, u64>,
    transmit: BTreeMap<u32, u64>,
    interrupts: BTreeMap<u32, BTreeMap<String, u64>>,
}

/// Reads the counters, with those of hardware interrupts if `has_interrupts`.
fn whole(root: &Root, has_interrupts: bool) -> Whole {
    let text = |path: &str| root.text(path).unwrap_or_default();
    let ticks = CpuTimes::parse(&text("proc/stat")).cpus;
    let online: Vec<u32> = ticks.keys().copied().collect();
    let softirqs = text("proc/softirqs");
    Whole {
        softnet: parse_softnet(&text("proc/net/softnet_stat"), &online),
        receive: parse_softirqs(&softirqs, "NET_RX"),
        transmit: parse_softirqs(&softirqs, "NET_TX"),
        interrupts: match has_interrupts {
            true => parse_interrupts(&text("proc/interrupts")),
            false => BTreeMap::new(),
        },
        ticks,
    }
}

/// Activity of the CPUs over the window.
#[derive(Debug)]
pub(crate) struct Cpus {
    first: Whole,
    /// Counters at the end of the window, if they have been read.
    end: Option<Whole>,
    last: BTreeMap<u32, CpuTicks>,
    /// The process of each CPU's softirq thread. Empty in a PID namespace, where the threads are
    /// hidden.
    softirq_pids: BTreeMap<u32, u32>,
    /// The softirq threads that are followed, and their run time at the last read.
    softirq_threads: BTreeMap<u32, (File, u64)>,
    slices: Vec<BTreeMap<u32, CpuShares>>,
    stat: Reader,
    /// Whether hardware interrupts are counted.
    has_interrupts: bool,
}

impl Cpus {
    /// Starts reading. `softirq_threads` maps CPUs to `ksoftirqd/N` processes. Hardware interrupts
    /// are counted if `has_interrupts`: on a machine with many CPUs, the kernel writes several MB
    /// of them.
    pub(crate) fn start(
        root: &Root,
        softirq_threads: &BTreeMap<u32, u32>,
        has_interrupts: bool,
    ) -> Self {
        let first = whole(root, has_interrupts);
        let mut cpus = Self {
            last: first.ticks.clone(),
            softirq_pids: softirq_threads.clone(),
            softirq_threads: BTreeMap::new(),
            first,
            end: None,
            slices: Vec::new(),
            stat: Reader::open(root, "proc/stat"),
            has_interrupts,
        };
        if softirq_threads.len() <= SOFTIRQ_THREADS_MAX {
            cpus.follow(root, softirq_threads.keys().copied());
        }
        cpus
    }

    /// Follows the softirq threads of `cpus` from now on, at most [`SOFTIRQ_THREADS_MAX`] in total.
    pub(crate) fn follow(&mut self, root: &Root, cpus: impl IntoIterator<Item = u32>) {
        for cpu in cpus {
            let is_full = self.softirq_threads.len() >= SOFTIRQ_THREADS_MAX;
            let Some(pid) = self.softirq_pids.get(&cpu).filter(|_| !is_full) else { continue };
            let Entry::Vacant(place) = self.softirq_threads.entry(cpu) else { continue };
            let file = File::open(root.path(&format!("proc/{pid}/schedstat"))).ok();
            if let Some((file, run_ns)) = file.and_then(|file| run_ns(&file).map(|ns| (file, ns))) {
                place.insert((file, run_ns));
            }
        }
    }

    /// Reads the counters at the end of a slice that took `wall_ns` of wall time.
    pub(crate) fn read(&mut self, wall_ns: u64) {
        let now = CpuTimes::parse(self.stat.text()).cpus;
        let mut shares = BTreeMap::new();
        for (cpu, ticks) in &now {
            let Some(before) = self.last.get(cpu) else { continue };
            let elsewhere = self.softirq_threads.get_mut(cpu).and_then(|(file, last)| {
                let now = run_ns(file)?;
                let more = now.saturating_sub(*last);
                *last = now;
                Some(more as f64 / wall_ns.max(1) as f64)
            });
            shares.insert(*cpu, shares_of(&ticks.since(before), elsewhere));
        }
        self.last = now;
        self.slices.push(shares);
    }

    /// Returns the shares of a CPU's time that interrupts and the hypervisor took in a slice.
    pub(crate) fn shares(&self, slice: u32, cpu: u32) -> CpuShares {
        let shares = self.slices.get(slice as usize).and_then(|cpus| cpus.get(&cpu));
        shares.copied().unwrap_or_default()
    }

    /// Ends the window.
    pub(crate) fn end(&mut self, root: &Root) {
        self.end = Some(whole(root, self.has_interrupts));
    }

    /// Returns the counts of every CPU that was online at both ends of the window, and begins the
    /// next window. The window ends now, unless [`Cpus::end`] has ended it.
    pub(crate) fn finish(&mut self, root: &Root) -> Vec<CpuCounts> {
        let last = self.end.take().unwrap_or_else(|| whole(root, self.has_interrupts));
        let both = |(cpu, ticks): (&u32, &CpuTicks)| {
            let before = self.first.ticks.get(cpu)?;
            Some(counts(*cpu, &ticks.since(before), &self.first, &last))
        };
        let found = last.ticks.iter().filter_map(both).collect();
        self.first = last;
        self.slices.clear();
        found
    }
}

/// Returns the shares of a CPU's time that interrupts and the hypervisor took. Interrupts handled
/// in kernel threads are part of those threads' time; `elsewhere` is the share of softirq threads,
/// if known.
fn shares_of(ticks: &CpuTicks, elsewhere: Option<f64>) -> CpuShares {
    let total = ticks.total();
    if total == 0 {
        return CpuShares::default();
    }
    let (busy, stolen) = (ticks.busy(), ticks.stolen.unwrap_or(0) as f64);
    let all = ticks.interrupts as f64 / total as f64;
    let interrupts = elsewhere.map(|elsewhere| (all - elsewhere).max(0.0));
    CpuShares {
        interrupts: interrupts.or((all < NEGLIGIBLE).then_some(all)),
        stolen: if busy == 0 { 0.0 } else { stolen / busy as f64 },
        stolen_of_all: stolen / total as f64,
    }
}

fn run_ns(file: &File) -> Option<u64> {
    Some(SchedStat::parse(&text_of(file).ok()?)?.run_ns)
}

fn counts(cpu: u32, ticks: &CpuTicks, first: &Whole, last: &Whole) -> CpuCounts {
    let share = |part: u64| part as f64 / ticks.total().max(1) as f64;
    // The counters have 32 bits and wrap around.
    let increase = |before: u64, after: u64| u64::from((after as u32).wrapping_sub(before as u32));
    let softnet = |of: fn(&Softnet) -> u64| {
        let before = first.softnet.get(&cpu).map_or(0, of);
        increase(before, last.softnet.get(&cpu).map_or(before, of))
    };
    let softirqs = |of: fn(&Whole) -> &BTreeMap<u32, u64>| {
        let before = of(first).get(&cpu).copied().unwrap_or(0);
        increase(before, of(last).get(&cpu).copied().unwrap_or(before))
    };
    let sources = last.interrupts.get(&cpu).into_iter().flatten();
    let more = |(source, after): (&String, &u64)| {
        let before = first.interrupts.get(&cpu).and_then(|sources| sources.get(source));
        let more = increase(before.copied().unwrap_or(0), *after);
        // A source that shared its name with another one may have been removed.
        (1..1 << 31).contains(&more).then(|| (source.clone(), more))
    };
    CpuCounts {
        cpu,
        user: share(ticks.user),
        system: share(ticks.system),
        interrupts: share(ticks.interrupts),
        stolen: share(ticks.stolen.unwrap_or(0)),
        idle: share(ticks.idle),
        backlog_processed: softnet(|softnet| softnet.processed),
        backlog_dropped: softnet(|softnet| softnet.dropped),
        time_squeezed: softnet(|softnet| softnet.squeezed),
        net_rx: softirqs(|whole| &whole.receive),
        net_tx: softirqs(|whole| &whole.transmit),
        hardware_interrupts: sources.filter_map(more).collect(),
        functions: Vec::new(),
        samples: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;

    fn tree(at: &Root, ticks: [u64; 8], softnet: &str, receive: u64, interrupts: u64) {
        let ticks = ticks.map(|n| n.to_string()).join(" ");
        put(at, "proc/stat", &format!("cpu 1 1 1 1\ncpu1 {ticks} 0 0\nintr 0\n"));
        put(at, "proc/net/softnet_stat", softnet);
        put(at, "proc/softirqs", &format!("       CPU1\n NET_TX: 0\n NET_RX: {receive}\n"));
        put(at, "proc/interrupts", &format!("     CPU1\n 38: {interrupts} PCI edge v-input.0\n"));
    }

    #[test]
    fn counts_are_differences_and_wrap_where_the_kernels_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        tree(&root, [0; 8], "fffffffe 1 0 0 0 0 0 0 0 0 0 0 00000001", 10, 5);
        put(&root, "proc/9/schedstat", "0 0 1\n");
        let mut cpus = Cpus::start(&root, &BTreeMap::from([(1, 9)]), true);
        tree(&root, [20, 0, 10, 40, 0, 2, 8, 20], "00000003 3 1 0 0 0 0 0 0 0 0 0 00000001", 30, 9);
        put(&root, "proc/9/schedstat", "40000000 0 1\n");
        cpus.read(1_000_000_000);
        let shares = cpus.shares(0, 1);
        // Interrupts took 10 % of the CPU's time, less the 4 % in the softirq thread. Of 60 busy
        // ticks, 20 were stolen.
        assert!(shares.interrupts.is_some_and(|part| (part - 0.06).abs() < 1e-9), "{shares:?}");
        assert!((shares.stolen - 1.0 / 3.0).abs() < 1e-9, "{shares:?}");
        assert!((shares.stolen_of_all - 0.2).abs() < 1e-9, "{shares:?}");
        assert_eq!(cpus.shares(0, 0), CpuShares::default());
        cpus.end(&root);
        // What is counted after the end of the window is not in it.
        tree(&root, [90, 0, 10, 40, 0, 2, 8, 20], "00000009 3 1 0 0 0 0 0 0 0 0 0 00000001", 40, 9);
        let found = cpus.finish(&root);
        assert_eq!((found[0].cpu, found[0].user, found[0].idle), (1, 0.2, 0.4));
        assert_eq!((found[0].backlog_processed, found[0].backlog_dropped), (5, 2));
        assert_eq!((found[0].net_rx, found[0].time_squeezed), (20, 1));
        assert_eq!(found[0].hardware_interrupts["v-input.0"], 4);
        // The next window begins with the last readings.
        let next = cpus.finish(&root);
        assert_eq!((next[0].backlog_processed, next[0].net_rx, next[0].idle), (6, 10, 0.0));
        assert_eq!(cpus.shares(0, 1), CpuShares::default());
    }

    #[test]
    fn interrupts_wrap_as_well_and_are_left_out_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let most = u64::from(u32::MAX);
        let counted = |has_interrupts| {
            tree(&root, [0; 8], "", most - 4, most);
            let mut cpus = Cpus::start(&root, &BTreeMap::new(), has_interrupts);
            tree(&root, [1; 8], "", 5, 3);
            let found = &cpus.finish(&root)[0];
            (found.net_rx, found.hardware_interrupts.get("v-input.0").copied())
        };
        assert_eq!(counted(true), (10, Some(4)));
        assert_eq!(counted(false), (10, None));
    }

    #[test]
    fn interrupts_are_unknown_unless_the_softirq_thread_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let interrupts = |pids: &BTreeMap<u32, u32>, ticks: u64, followed: &[u32]| {
            tree(&root, [0; 8], "", 0, 0);
            put(&root, "proc/9/schedstat", "0 0 1\n");
            let mut cpus = Cpus::start(&root, pids, true);
            cpus.follow(&root, followed.iter().copied());
            tree(&root, [100 - ticks, 0, 0, 0, 0, 0, ticks, 0], "", 0, 0);
            cpus.read(1_000_000_000);
            cpus.shares(0, 1).interrupts
        };
        // In a PID namespace; few interrupts; a machine with many CPUs.
        assert_eq!(interrupts(&BTreeMap::new(), 10, &[1]), None);
        assert_eq!(interrupts(&BTreeMap::new(), 1, &[1]), Some(0.01));
        let many: BTreeMap<u32, u32> = (0..=64).map(|cpu| (cpu, 9)).collect();
        assert_eq!(interrupts(&many, 10, &[]), None);
        assert_eq!(interrupts(&many, 10, &[1]), Some(0.1));
    }

    #[test]
    fn a_machine_that_says_nothing_has_no_cpus() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let mut cpus = Cpus::start(&root, &BTreeMap::new(), true);
        cpus.read(1);
        assert!(cpus.finish(&root).is_empty());
    }
}
