// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the accuracy of the sampler on a polling thread: compares the cost per packet and the
//! busy share, as determined from outside, with the thread's own measurements, and measures the
//! sampler's own CPU time.
//!
//! `polling_accuracy [WINDOWS]`: windows of 5 s, 6 by default. The thread takes packets from a
//! shared counter in bursts of at most 32, as a driver would, and measures the time of one burst in
//! 16. Bursts that were interrupted or preempted, which take several times as long per packet as
//! most, do not count. The time is read without a system call: on some processors, code runs more
//! slowly for microseconds after a system call. A window in which the sampler has no result counts
//! as silent, not as wrong.
#![forbid(unsafe_code)]

use linerate_linux::{monotonic_ns, thread_cpu_time_ns, thread_id};
use linerate_observe::sampler::{Sampler, ThreadId};
use linerate_record::accuracy::Check;
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, median};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const BURST: u64 = 32;
const SLICES: usize = 50;
const SLICE: Duration = Duration::from_millis(100);
/// Maximum delay in nanoseconds between a slice's samples and its packet count.
const LATE_NS: u64 = 2_000_000;
/// Number of slices in the one-second windows over which busy shares are compared.
const SLICES_OF_SECOND: usize = 10;
/// One in this many bursts is measured.
const MEASURED: u64 = 16;
/// Time per packet relative to the median above which a burst counts as interrupted or preempted.
const INTERRUPTED: f64 = 3.0;

/// State shared by the two threads.
#[derive(Default)]
struct Shared {
    offered: AtomicU64,
    taken: AtomicU64,
    tid: AtomicU64,
    /// Time and packets of the measured bursts (one in [`MEASURED`]).
    measured: Mutex<Vec<(u64, u64)>>,
    must_end: AtomicBool,
}

/// A kind of test program.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Work iterations per packet.
    work: u64,
    /// Whether the whole program is a single function.
    is_inlined: bool,
}

const KINDS: [Kind; 4] = [
    Kind { name: "light", work: 60, is_inlined: false },
    Kind { name: "middle", work: 250, is_inlined: false },
    Kind { name: "inlined", work: 250, is_inlined: true },
    Kind { name: "heavy", work: 2_000, is_inlined: false },
];

#[inline(never)]
fn look_up(mut x: u64, iterations: u64) -> u64 {
    for _ in 0..iterations / 2 {
        x = black_box(x.wrapping_mul(2_654_435_761).wrapping_add(1));
    }
    x
}

#[inline(never)]
fn rewrite(mut x: u64, iterations: u64) -> u64 {
    for _ in 0..iterations / 2 {
        x = black_box((x >> 7) ^ x.wrapping_mul(3));
    }
    x
}

#[inline(never)]
fn receive(shared: &Shared) -> u64 {
    (shared.offered.load(Relaxed) - shared.taken.load(Relaxed)).min(BURST)
}

/// Measures the overhead of a pair of clock reads.
fn clock_ns() -> u64 {
    let pairs: Vec<f64> =
        (0..200).map(|_| monotonic_ns()).map(|before| (monotonic_ns() - before) as f64).collect();
    median(&pairs).unwrap_or(0.0) as u64
}

/// Runs the polling thread.
fn poll(shared: &Shared, kind: Kind) {
    shared.tid.store(u64::from(thread_id()), Relaxed);
    let mut x: u64 = 1;
    let mut bursts = 0;
    let clock_ns = clock_ns();
    while !shared.must_end.load(Relaxed) {
        let packets = if kind.is_inlined {
            (shared.offered.load(Relaxed) - shared.taken.load(Relaxed)).min(BURST)
        } else {
            receive(shared)
        };
        if packets == 0 {
            spin_loop();
            continue;
        }
        bursts += 1;
        let is_measured = bursts % MEASURED == 0;
        let began = if is_measured { monotonic_ns() } else { 0 };
        for _ in 0..packets {
            if kind.is_inlined {
                for _ in 0..kind.work {
                    x = black_box(x.wrapping_mul(2_654_435_761).wrapping_add(1));
                }
            } else {
                x = rewrite(look_up(x, kind.work), kind.work);
            }
        }
        if is_measured {
            let ns = (monotonic_ns() - began).saturating_sub(clock_ns);
            shared.measured.lock().unwrap_or_else(PoisonError::into_inner).push((ns, packets));
        }
        shared.taken.store(shared.taken.load(Relaxed) + packets, Relaxed);
    }
    black_box(x);
}

/// Offers packets at a rate that changes every 0.15 s, up to 90 % of what the thread can process if
/// each packet takes `cost_ns` of wall time.
fn offer(shared: &Shared, cost_ns: f64, seed: u64) {
    let mut random = Random::new(seed);
    let (mut changed, mut last, mut owed, mut rate) = (0, monotonic_ns(), 0.0, 0.0);
    while !shared.must_end.load(Relaxed) {
        let now = monotonic_ns();
        if now - changed > 150_000_000 {
            changed = now;
            rate = (random.uniform() * 1.1 - 0.2).max(0.0) / cost_ns;
        }
        owed += rate * (now - last) as f64;
        last = now;
        shared.offered.fetch_add(owed as u64, Relaxed);
        owed -= owed.floor();
        std::thread::sleep(Duration::from_micros(60));
    }
}

/// Result of one window.
struct Window {
    /// Measured cost divided by true cost, minus 1.
    cost_error: f64,
    /// Busy share errors in one-second windows.
    busy_errors: Vec<f64>,
    /// Whether the interval contains the true value.
    holds: bool,
    /// The observer's CPU time divided by wall time.
    observer: f64,
}

/// Observes a thread that runs a program of `kind`. The error says why the sampler has no result.
fn watch(kind: Kind, seed: u64) -> Result<Window, String> {
    let shared = Arc::new(Shared::default());
    let start = |f: fn(&Shared, Kind, f64, u64), cost_ns| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || f(&shared, kind, cost_ns, seed))
    };
    let polling = start(|shared, kind, _, _| poll(shared, kind), 0.0);
    // Run the first bursts back to back to get a rough cost per packet.
    let warm_up = 1_000_000_000 / kind.work;
    let began_ns = monotonic_ns();
    shared.offered.store(warm_up, Relaxed);
    while shared.taken.load(Relaxed) < shared.offered.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let rough_ns = (monotonic_ns() - began_ns) as f64 / warm_up as f64;
    let offering = start(|shared, _, cost_ns, seed| offer(shared, cost_ns, seed), rough_ns);
    let result = sample(&shared);
    shared.must_end.store(true, Relaxed);
    for thread in [polling, offering] {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    result
}

/// Returns the time per packet in bursts (time in ns, packets) that were not interrupted.
fn packet_ns(bursts: &[(u64, u64)]) -> f64 {
    let each = |&(ns, packets): &(u64, u64)| ns as f64 / packets as f64;
    let most = INTERRUPTED * median(&bursts.iter().map(each).collect::<Vec<_>>()).unwrap_or(0.0);
    let whole = bursts.iter().filter(|burst| each(burst) <= most);
    let (ns, packets) = whole.fold((0, 0), |sum, burst| (sum.0 + burst.0, sum.1 + burst.1));
    ns as f64 / packets as f64
}

fn sample(shared: &Shared) -> Result<Window, String> {
    let id = ThreadId { pid: std::process::id(), tid: shared.tid.load(Relaxed) as u32 };
    let (began_ns, cpu_ns) = (monotonic_ns(), thread_cpu_time_ns());
    let measured = || shared.measured.lock().unwrap_or_else(PoisonError::into_inner);
    measured().clear();
    let (mut sampler, unread) = Sampler::start(&[id], &[]);
    if let Some(refused) = unread.first() {
        eprintln!("{}: {}", refused.what, refused.reason);
    }
    let mut taken = shared.taken.load(Relaxed);
    let mut packets = Vec::new();
    let mut late = vec![false];
    for _ in 0..SLICES {
        std::thread::sleep(SLICE);
        let ended = monotonic_ns();
        sampler.end_slice();
        let now = shared.taken.load(Relaxed);
        late.push(monotonic_ns() - ended > LATE_NS);
        packets.push(now - taken);
        taken = now;
    }
    let runs_ns = sampler.run_ns(id);
    // A late counter read invalidates the slices before and after it.
    let is_good = |slice: usize| !late[slice] && !late[slice + 1];
    let counted: Vec<Option<u64>> =
        packets.iter().enumerate().map(|(slice, &n)| is_good(slice).then_some(n)).collect();
    let observer = (thread_cpu_time_ns() - cpu_ns) as f64 / (monotonic_ns() - began_ns) as f64;
    let profiles = sampler.finish(&counted, |_| 0.0).threads;
    println!("CPU time so far: {:.1} ms", (thread_cpu_time_ns() - cpu_ns) as f64 / 1e6);
    let profile = profiles.into_iter().next().ok_or("the thread was not sampled")?;
    let truth_ns = packet_ns(&measured());
    let cost = profile.cost_ns.estimate().ok_or(profile.cost_ns.reason.unwrap_or_default())?;
    let busy_error = |(packets, runs): (&[u64], &[u64])| {
        let load = packets.iter().sum::<u64>() as f64 / runs.iter().sum::<u64>() as f64;
        ((cost.value - truth_ns) * load).abs()
    };
    let seconds = packets.chunks(SLICES_OF_SECOND).zip(runs_ns.chunks(SLICES_OF_SECOND));
    println!(
        "truth {truth_ns:.1} ns/packet, found {:.1} ({:.1} to {:.1}), busy {:?}, observer {:.4}",
        cost.value,
        cost.low,
        cost.high,
        profile.busy.as_number(),
        observer
    );
    Ok(Window {
        cost_error: cost.value / truth_ns - 1.0,
        busy_errors: seconds.map(busy_error).collect(),
        holds: cost.low <= truth_ns && truth_ns <= cost.high,
        observer,
    })
}

fn main() {
    let windows: usize =
        std::env::args().skip(1).next_back().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut found = Vec::new();
    for number in 0..windows {
        let kind = KINDS[number % KINDS.len()];
        match watch(kind, number as u64) {
            Ok(window) => found.push(window),
            Err(why) => println!("{}: silent: {why}", kind.name),
        }
    }
    let n = found.len() as u64;
    if n == 0 {
        println!("{}", Check::skip("polling", "no window gave a result here"));
        return;
    }
    let of = |f: &dyn Fn(&Window) -> f64| found.iter().map(f).collect::<Vec<f64>>();
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let costs = middle(&of(&|window| window.cost_error.abs()));
    let busy: Vec<f64> = found.iter().flat_map(|window| window.busy_errors.clone()).collect();
    let holds = found.iter().filter(|window| window.holds).count() as u64;
    let checks = [
        Check::at_most("polling.cost", costs, n, 0.1, "median error of the cost per packet"),
        Check::at_most(
            "polling.busy",
            middle(&busy),
            busy.len() as u64,
            0.05,
            "median error of the busy share over one second",
        ),
        Check::share("polling.covered", holds, n, CONFIDENCE, "intervals with the true cost"),
        Check::at_most(
            "polling.observer",
            middle(&of(&|window| window.observer)),
            n,
            0.01,
            "CPU time of the sampler divided by wall time",
        ),
    ];
    checks.iter().for_each(|check| println!("{check}"));
}
