// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that was taken away from the measuring thread.
//!
//! A thread that does nothing but read the clock sees when it did not run: two reads lie further
//! apart than usual. That tells how long it was away, not who had the processor meanwhile; for that
//! the kernel keeps accounts, of each thread that waits for a processor, and of each processor that
//! a host took away.
//!
//! Left out: gaps of less than [`SHORTEST_NS`], among them what the core itself does at times.

use crate::measure::Bench;
use linerate_hierarchy::noise::{Gap, Loss, loss};
use linerate_linux::{monotonic_ns, run_delay_ns, thread_cpu_time_ns};
use linerate_machine::ticks::{tick_rate, ticks};
use linerate_machine::{Root, platform};
use linerate_record::memory::Noise;
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An interrupt of the timer takes 1 us and more, from entry to exit; what is shorter than half of
/// that is not the system.
pub const SHORTEST_NS: f64 = 500.0;

/// As many times the usual distance of two reads must a gap last, where the clock is slow to read.
const SHORTEST_READS: f64 = 8.0;

/// Gaps that are kept: 16 B each. A watch that has seen so many ends.
const MOST_GAPS: usize = 1 << 16;

/// Reads from which the usual distance of two is told.
const FIRST_READS: usize = 1024;

const CONFIDENCE: f64 = 0.95;

/// What the kernel accounted until a moment.
#[derive(Clone, Debug)]
pub struct Account {
    root: Root,
    cpu: u32,
    /// Of that processor, in the kernel's ticks; `None` where it does not tell.
    processor: Option<Processor>,
}

/// A line of /proc/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processor {
    all: u64,
    stolen: u64,
}

impl Account {
    /// The account of this processor until now, by the /proc under `root`.
    pub fn now(root: &Path, cpu: u32) -> Self {
        let root = Root::new(root);
        let processor = root.text("proc/stat").and_then(|text| Processor::read(&text, cpu));
        Self { root, cpu, processor }
    }

    /// The share of the time since then that the host took from the processor, 0 to 1.
    ///
    /// Each end of the time may be off by a tick of the account.
    fn stolen(&self) -> Result<Estimate, String> {
        let now = Self::now(&self.root.path(""), self.cpu).processor;
        let (Some(before), Some(now)) = (self.processor, now) else {
            return Err(format!("/proc/stat has no account of processor {}", self.cpu));
        };
        let is_guest = platform(&self.root.path("")).hypervisor.is_some();
        if is_guest && now.stolen == 0 {
            let reason = "none since the system started: this host does not tell, or takes none";
            return Err(reason.to_owned());
        }
        let all = now.all.saturating_sub(before.all);
        let stolen = now.stolen.saturating_sub(before.stolen);
        if all < 5 {
            return Err(format!("the kernel accounted {all} ticks in that time"));
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

impl Processor {
    /// Fields, in ticks: user nice system idle iowait irq softirq steal, and two that the first two
    /// contain (proc_stat(5)).
    fn read(stat: &str, cpu: u32) -> Option<Self> {
        let name = format!("cpu{cpu}");
        let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
        let fields = line.split_ascii_whitespace().skip(1).take(8).map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        let stolen = *fields.get(7)?;
        Some(Self { all: fields.iter().fold(0, |sum, &t| sum.saturating_add(t)), stolen })
    }
}

/// Watches the clock until `deadline`, or until it is told to stop, and says what of that time was
/// lost; what the host took, since `since`. Keeps the processor busy.
pub fn measure(bench: &Bench<'_>, since: &Account, deadline: Instant) -> Noise {
    let (delay, cpu, wall) = (run_delay_ns(), thread_cpu_time_ns(), monotonic_ns());
    let span = deadline.saturating_duration_since(Instant::now());
    let seen = look(span, bench.windows.watch.stop);
    let wall = monotonic_ns().saturating_sub(wall) as f64;
    let cpu = thread_cpu_time_ns().saturating_sub(cpu) as f64;
    let waited = delay.and_then(|before| Ok(run_delay_ns()?.saturating_sub(before) as f64));
    let others = match waited {
        Ok(ns) => share_of_time(ns, wall, "run delay of the thread (schedstat) over time"),
        Err(_) => share_of_time(wall - cpu, wall, "time less processor time, over time"),
    };
    let method = "steal of the processor over all its time (/proc/stat)";
    let stolen = match since.stolen() {
        Ok(share) => Figure::number("ratio", share, Tier::Sw, method),
        Err(reason) => Figure::absent("ratio", Tier::Sw, method, &reason),
    };
    record(&seen, loss(&seen.gaps, seen.seconds, CONFIDENCE, bench.seed), stolen, others)
}

fn share_of_time(ns: f64, wall_ns: f64, method: &str) -> Figure {
    if wall_ns > 0.0 {
        Figure::exact("ratio", (ns / wall_ns).clamp(0.0, 1.0), Tier::Sw, method)
    } else {
        Figure::absent("ratio", Tier::Sw, method, "no time was left to watch the clock")
    }
}

/// What a watch saw.
struct Seen {
    gaps: Vec<Gap>,
    seconds: f64,
}

/// Reads the clock until `span` is over, `stop` is set, or there is no room for another gap.
///
/// Nothing is allocated and nothing written while it looks but the gaps themselves, in memory that
/// was touched before.
fn look(span: Duration, stop: &AtomicBool) -> Seen {
    let ns_per_tick = 1e9 / tick_rate().value;
    let mut kept = vec![(u64::MAX, u64::MAX); MOST_GAPS];
    let mut gaps = 0;
    let usual = usual_distance();
    let shortest = (SHORTEST_NS / ns_per_tick).max(SHORTEST_READS * usual as f64) as u64 + usual;
    let start = ticks();
    let end = start.saturating_add((span.as_nanos() as f64 / ns_per_tick) as u64);
    let mut last = start;
    while last < end && gaps < MOST_GAPS && !stop.load(Ordering::Relaxed) {
        let now = ticks();
        // Not `now - last`: counters of different sockets may differ where a thread is moved.
        if now.saturating_sub(last) > shortest {
            kept[gaps] = (last, now);
            gaps += 1;
        }
        last = now;
    }
    let gap = |&(from, to): &(u64, u64)| Gap {
        at_ns: (from - start) as f64 * ns_per_tick,
        ns: (to - from - usual) as f64 * ns_per_tick,
    };
    let seconds = last.saturating_sub(start) as f64 * ns_per_tick / 1e9;
    Seen { gaps: kept[..gaps].iter().map(gap).collect(), seconds }
}

/// The median distance of two reads of the clock that follow each other, in ticks.
fn usual_distance() -> u64 {
    let mut reads = [0; FIRST_READS];
    reads.fill_with(ticks);
    let mut distances: Vec<u64> = reads.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    distances.sort_unstable();
    distances[distances.len() / 2]
}

fn record(seen: &Seen, loss: Option<Loss>, stolen: Figure, others: Figure) -> Noise {
    let method = "a thread that reads the clock, and the gaps between its reads";
    let absent = |unit| {
        Figure::absent(unit, Tier::Sw, method, "no time was left to watch the clock; use --full")
    };
    let number = |unit, estimate| Figure::number(unit, estimate, Tier::Sw, method);
    match loss {
        Some(loss) => Noise {
            seconds: seen.seconds,
            lost: number("ratio", loss.share),
            gaps_per_s: number("1/s", loss.per_second),
            longest_us: Figure {
                n: seen.gaps.len() as u64,
                ..Figure::exact("us", loss.longest_ns / 1e3, Tier::Sw, method)
            },
            gaps: loss.bins,
            stolen,
            others,
        },
        None => Noise {
            seconds: seen.seconds,
            lost: absent("ratio"),
            gaps_per_s: absent("1/s"),
            longest_us: absent("us"),
            gaps: Vec::new(),
            stolen,
            others,
        },
    }
}
