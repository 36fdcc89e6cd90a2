// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time taken from the measuring thread.
//!
//! A thread that only reads the clock detects interruptions as unusually long gaps between two
//! reads. A gap shows how long the interruption lasted, but not what ran on the CPU meanwhile. The
//! kernel's accounting narrows that down: it covers the time that the thread waited for a CPU, and
//! the time that the host stole.
//!
//! Gaps shorter than [`SHORTEST_NS`] are ignored; some of them come from the core itself.

use crate::bench::Bench;
use linerate_hierarchy::noise::{Gap, Loss, loss};
use linerate_linux::{monotonic_ns, run_delay_ns, thread_cpu_time_ns};
use linerate_machine::cpu_time::{CpuTicks, CpuTimes};
use linerate_machine::{Root, groups, platform};
use linerate_record::memory::Noise;
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};
use linerate_trial::Clock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Minimum gap in ns. A timer interrupt takes at least 1 us from entry to exit; a gap below half of
/// that is not caused by the OS.
pub const SHORTEST_NS: f64 = 500.0;

/// Minimum gap as a multiple of the usual distance between two reads, for clocks that are slow to
/// read.
const SHORTEST_READS: f64 = 8.0;

/// Maximum number of gaps kept, 16 bytes each. The watch ends when it is reached.
const MOST_GAPS: usize = 1 << 16;

/// Number of clock reads used to determine the usual distance between two reads.
const FIRST_READS: usize = 1024;

/// Snapshot of the kernel's accounting.
#[derive(Clone, Debug)]
pub struct Account {
    root: Root,
    cpu: u32,
    /// Time of the CPU since boot; `None` if /proc/stat has no usable line for it.
    ticks: Option<CpuTicks>,
}

impl Account {
    /// Reads the kernel's accounting for `cpu` from /proc under `root`.
    pub fn now(root: &Path, cpu: u32) -> Self {
        let root = Root::new(root);
        let times = CpuTimes::parse(&root.text("proc/stat").unwrap_or_default());
        Self { root, cpu, ticks: times.cpus.get(&cpu).copied() }
    }

    /// Returns the fraction (0 to 1) of the time since this snapshot that the host stole from the
    /// CPU.
    ///
    /// Each end of the interval may be off by one accounting tick.
    fn stolen(&self) -> Result<Estimate, String> {
        let now = Self::now(&self.root.path(""), self.cpu).ticks;
        let (Some(before), Some(now)) = (self.ticks, now) else {
            return Err(format!("/proc/stat has no usable line for CPU {}", self.cpu));
        };
        let during = now.since(&before);
        let Some(stolen) = during.stolen else {
            return Err(format!("/proc/stat has no steal time of CPU {}", self.cpu));
        };
        let is_guest = platform(&self.root.path("")).hypervisor.is_some();
        if is_guest && now.stolen == Some(0) {
            let reason = "steal time has been 0 since boot: the hypervisor does not report it, \
                          or steals no time";
            return Err(reason.to_owned());
        }
        let all = during.total();
        if all < 5 {
            let reason = format!(
                "the kernel accounted for only {all} clock ticks (USER_HZ) during the measurement"
            );
            return Err(reason);
        }
        let share = |ticks: f64| (ticks / all as f64).clamp(0.0, 1.0);
        Ok(Estimate {
            value: share(stolen as f64),
            low: share(stolen as f64 - 1.0),
            high: share(stolen as f64 + 1.0),
            confidence: CONFIDENCE,
            n: all,
        })
    }
}

/// Watches the clock until `deadline` or a stop request, keeping the CPU busy, and returns the time
/// lost. Stolen time is counted from `since` on.
pub fn measure(bench: &Bench<'_>, since: &Account, deadline: Instant) -> Noise {
    let (delay, cpu, wall) = (run_delay_ns(), thread_cpu_time_ns(), monotonic_ns());
    let span = deadline.saturating_duration_since(Instant::now());
    let clock = bench.windows.clock();
    let seen = look(span, bench.windows.watch.stop(), clock.ns_per_tick(), || clock.ticks());
    let wall = monotonic_ns().saturating_sub(wall) as f64;
    let cpu = thread_cpu_time_ns().saturating_sub(cpu) as f64;
    let waited = delay.and_then(|before| Ok(run_delay_ns()?.saturating_sub(before) as f64));
    let others = match waited {
        Ok(ns) => share_of_time(ns, wall, "run delay (schedstat) divided by wall time"),
        Err(_) => share_of_time(wall - cpu, wall, "wall time minus CPU time, divided by wall time"),
    };
    let method = "steal time divided by the CPU's total time (/proc/stat)";
    let stolen = match since.stolen() {
        Ok(share) => Figure::number("ratio", share, Tier::Sw, method),
        Err(reason) => Figure::absent("ratio", Tier::Sw, method, &reason),
    };
    let account = Accounted { stolen, others, quota_cpus: quota_cpus(&since.root) };
    let loss = loss(&seen.gaps, seen.seconds, CONFIDENCE, bench.seed);
    record(&seen, loss, account, bench.windows.more_time())
}

/// Changes in the kernel's accounting during the watch.
struct Accounted {
    stolen: Figure,
    others: Figure,
    quota_cpus: Option<f64>,
}

/// Returns the tightest cgroup CPU limit that applies to this process, in CPUs; `None` if
/// unlimited. In cgroup v2, cpu.max contains the quota (`max` for none) and the period, in us; in
/// v1, these are in two files, with -1 for no quota.
fn quota_cpus(root: &Root) -> Option<f64> {
    let quota = |folder: String| {
        let number = |name: &str| root.number::<i64>(&format!("{folder}/{name}"));
        let (quota, period) = match root.text(&format!("{folder}/cpu.max")) {
            Some(text) => {
                let mut fields = text.split_ascii_whitespace().map(str::parse::<i64>);
                (fields.next()?.ok()?, fields.next()?.ok()?)
            }
            None => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
        };
        (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
    };
    let folders = groups::folders(root, "cpu").unwrap_or_default();
    folders.into_iter().filter_map(quota).min_by(f64::total_cmp)
}

fn share_of_time(ns: f64, wall_ns: f64, method: &str) -> Figure {
    if wall_ns > 0.0 {
        Figure::exact("ratio", (ns / wall_ns).clamp(0.0, 1.0), Tier::Sw, method)
    } else {
        Figure::absent(
            "ratio",
            Tier::Sw,
            method,
            "time limit reached before the clock could be \
            sampled",
        )
    }
}

/// Gaps found by a watch, and its duration.
struct Seen {
    gaps: Vec<Gap>,
    seconds: f64,
}

/// Reads the clock until `span` has elapsed, `stop` is set, or there is no room for another gap.
///
/// Allocates nothing while watching, and writes only the gaps, to memory already touched.
fn look(
    span: Duration,
    stop: &AtomicBool,
    ns_per_tick: f64,
    mut ticks: impl FnMut() -> u64,
) -> Seen {
    let mut kept = vec![(u64::MAX, u64::MAX); MOST_GAPS];
    let mut gaps = 0;
    let usual = usual_distance(&mut ticks);
    let shortest = (SHORTEST_NS / ns_per_tick).max(SHORTEST_READS * usual as f64) as u64 + usual;
    let start = ticks();
    let end = start.saturating_add((span.as_nanos() as f64 / ns_per_tick) as u64);
    let mut last = start;
    while last < end && gaps < MOST_GAPS && !stop.load(Ordering::Relaxed) {
        let now = ticks();
        // Not `now - last`: after migration between sockets, the counters may disagree.
        if now.saturating_sub(last) > shortest {
            kept[gaps] = (last, now);
            gaps += 1;
        }
        last = now;
    }
    let gap = |&(from, to): &(u64, u64)| Gap {
        at_ns: from.saturating_sub(start) as f64 * ns_per_tick,
        ns: (to - from - usual) as f64 * ns_per_tick,
    };
    let seconds = last.saturating_sub(start) as f64 * ns_per_tick / 1e9;
    Seen { gaps: kept[..gaps].iter().map(gap).collect(), seconds }
}

/// Returns the median distance between consecutive clock reads, in ticks.
fn usual_distance(mut ticks: impl FnMut() -> u64) -> u64 {
    let mut reads = [0; FIRST_READS];
    reads.fill_with(&mut ticks);
    let mut distances: Vec<u64> = reads.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    distances.sort_unstable();
    distances[distances.len() / 2]
}

/// Converts the results to a record. `more` is advice on how to allow more measuring time.
fn record(seen: &Seen, loss: Option<Loss>, account: Accounted, more: &str) -> Noise {
    let Accounted { stolen, others, quota_cpus } = account;
    let method = "gaps between the clock reads of a spinning thread";
    let absent = |unit| {
        let reason = format!("time limit reached before the clock could be sampled; {more}");
        Figure::absent(unit, Tier::Sw, method, &reason)
    };
    let number = |unit, estimate| Figure::number(unit, estimate, Tier::Sw, method);
    match loss {
        Some(loss) => Noise {
            elapsed_s: seen.seconds,
            lost: number("ratio", loss.share),
            gaps_per_s: number("1/s", loss.per_second),
            longest_us: Figure {
                n: seen.gaps.len() as u64,
                ..Figure::exact("us", loss.longest_ns / 1e3, Tier::Sw, method)
            },
            gaps: loss.bins,
            stolen,
            others,
            quota_cpus,
        },
        None => Noise {
            elapsed_s: seen.seconds,
            lost: absent("ratio"),
            gaps_per_s: absent("1/s"),
            longest_us: absent("us"),
            gaps: Vec::new(),
            stolen,
            others,
            quota_cpus,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_trial::Machine;
    use std::fs;

    fn account(root: &Path, line: &str) -> Account {
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/stat"), line).unwrap();
        Account::now(root, 0)
    }

    #[test]
    fn what_the_host_took_is_a_share_of_all_time() {
        let root = tempfile::tempdir().unwrap();
        let before = account(root.path(), "cpu0 100 0 0 100 0 0 0 10\n");
        account(root.path(), "cpu0 150 0 0 130 0 0 0 30\n");
        let stolen = before.stolen().unwrap();
        assert_eq!((stolen.value, stolen.n), (0.2, 100));
        assert!((stolen.low - 0.19).abs() < 1e-9 && (stolen.high - 0.21).abs() < 1e-9);
    }

    #[test]
    fn unreported_values_are_not_zero() {
        let root = tempfile::tempdir().unwrap();
        let before = account(root.path(), "cpu0 100 0 0 100\n");
        assert!(before.stolen().unwrap_err().contains("no steal time of CPU 0"));
        let before = account(root.path(), "cpu0 100 0 0 100 0 0 0 x\n");
        assert!(before.stolen().unwrap_err().contains("no usable line for CPU 0"));
        let before = account(root.path(), "cpu0 100 0 0 100 0 0 0 0\n");
        assert!(before.stolen().unwrap_err().contains("0 clock ticks"));
        account(root.path(), "cpu0 100 0 0 200 0 0 0 0\n");
        assert_eq!(before.stolen().unwrap().value, 0.0);
        // If the host has never stolen any time, the guest cannot know whether steal time is
        // reported.
        fs::create_dir_all(root.path().join("sys/hypervisor")).unwrap();
        fs::write(root.path().join("sys/hypervisor/type"), "xen\n").unwrap();
        assert!(before.stolen().unwrap_err().contains("does not report"));
    }

    #[test]
    fn the_least_of_the_quotas_of_all_groups() {
        let quota = |files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            quota_cpus(&Root::new(root.path()))
        };
        let second = ("proc/self/cgroup", "0::/a/b\n");
        let outer = ("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
        let inner = |text| ("sys/fs/cgroup/a/b/cpu.max", text);
        assert_eq!(quota(&[second, outer, inner("max 100000\n")]), Some(1.5));
        assert_eq!(quota(&[second, outer, inner("50000 100000\n")]), Some(0.5));
        assert_eq!(quota(&[second, inner("max 100000\n")]), None);
        for damaged in ["", "x y\n", "1\n", "5 0\n", "-5 7\n"] {
            assert_eq!(quota(&[second, inner(damaged)]), None, "{damaged:?}");
        }
        let first = ("proc/self/cgroup", "3:cpu,cpuacct:/c\n");
        let period = ("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
        let limit = |text| ("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", text);
        assert_eq!(quota(&[first, period, limit("200000\n")]), Some(2.0));
        assert_eq!(quota(&[first, period, limit("-1\n")]), None);
        assert_eq!(quota(&[]), None);
    }

    /// The scripted clock advances by 20 per read, plus 5,000 at every 1,000th read.
    #[test]
    fn gaps_are_those_of_the_clock() {
        let mut reads = 0_u64;
        let clock = || {
            reads += 1;
            20 * reads + 5000 * (reads / 1000)
        };
        let stop = AtomicBool::new(false);
        let seen = look(Duration::from_micros(100), &stop, 0.5, clock);
        // The first of the late reads occurs before the watch begins. 100 us are 200,000 ticks,
        // that is, 8 rounds.
        let gaps: Vec<f64> = seen.gaps.iter().map(|gap| gap.ns).collect();
        assert_eq!(gaps, [2500.0; 8]);
        let apart: Vec<f64> = seen.gaps.windows(2).map(|g| g[1].at_ns - g[0].at_ns).collect();
        assert_eq!(apart, [12_500.0; 7]);
        assert!((1e-4..1.03e-4).contains(&seen.seconds), "{}", seen.seconds);
    }

    #[test]
    fn a_stopped_watch_sees_nothing() {
        let mut now = 0;
        let clock = || {
            now += 10_000;
            now
        };
        let seen = look(Duration::from_secs(1), &AtomicBool::new(true), 1.0, clock);
        assert!(seen.gaps.is_empty() && seen.seconds == 0.0);
        let (stolen, others) = (share_of_time(0.0, 0.0, ""), share_of_time(1.0, 2.0, ""));
        let account = Accounted { stolen, others, quota_cpus: None };
        let noise = record(&seen, None, account, "more");
        for figure in [&noise.lost, &noise.gaps_per_s, &noise.longest_us, &noise.stolen] {
            assert!(figure.as_number().is_none() && figure.reason.is_some(), "{figure:?}");
        }
        assert_eq!(noise.others.as_number(), Some(0.5));
    }

    /// A clock that is slow to read must not produce gaps for that reason alone.
    #[test]
    fn a_slow_clock_is_not_a_gap() {
        let mut reads = 0;
        let clock = || {
            reads += 1;
            3000 * reads
        };
        let seen = look(Duration::from_millis(100), &AtomicBool::new(false), 1.0, clock);
        assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    }

    /// With this machine's clock, the time lost does not exceed the time watched.
    #[test]
    fn gaps_are_within_the_watch() {
        let span = Duration::from_millis(30);
        let clock = Machine::steady();
        let seen = look(span, &AtomicBool::new(false), clock.ns_per_tick(), || clock.ticks());
        assert!(seen.seconds >= 0.0299, "{}", seen.seconds);
        let lost: f64 = seen.gaps.iter().map(|gap| gap.ns).sum();
        assert!(lost <= seen.seconds * 1e9);
        assert!(seen.gaps.iter().all(|gap| gap.ns >= SHORTEST_NS && gap.at_ns >= 0.0));
    }
}
