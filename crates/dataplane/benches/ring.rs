// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares linerate's ring with that of the crate rtrb: items per second between two CPUs, in
//! bursts of 1, 8 and 32.
//!
//! Both rings run in the same process, in many short repetitions, in random order within each
//! round. A repetition consists of 1 ms windows, of which only those are kept that are clean in
//! both threads. Prints the median of the per-round ratios and its 95 % interval.
//!
//! `cargo bench -p linerate-dataplane --bench ring [-- REPETITIONS]`

use linerate_dataplane::ring;
use linerate_linux as linux;
use linerate_machine::ticks::{ticks, ticks_per_s};
use linerate_record::stats::{CONFIDENCE, interval_name, median};
use linerate_trial::{Account, Clock, Dropped, Length, Machine, Rules, Watch, rounds};
use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

const CAPACITY: usize = 1_024;
const WINDOWS: u64 = 30;
const WINDOW_NS: f64 = 1e6;

/// The producer end of a queue under test, which pushes numbers from the front of `items`. Its
/// counterpart, [`Pop`], is the consumer end and appends to `items`.
trait Push: Send {
    fn push(&mut self, items: &mut Vec<u64>);
}
trait Pop: Send {
    fn pop(&mut self, items: &mut Vec<u64>, burst: usize);
}

impl Push for ring::Producer<u64> {
    #[inline]
    fn push(&mut self, items: &mut Vec<u64>) {
        match items.as_slice() {
            [only] => {
                if self.push(*only).is_ok() {
                    items.clear();
                }
            }
            _ => drop(self.push_from(items)),
        }
    }
}

impl Pop for ring::Consumer<u64> {
    #[inline]
    fn pop(&mut self, items: &mut Vec<u64>, burst: usize) {
        if burst == 1 {
            items.extend(self.pop());
        } else {
            self.pop_into(items, burst);
        }
    }
}

impl Push for rtrb::Producer<u64> {
    #[inline]
    fn push(&mut self, items: &mut Vec<u64>) {
        match items.as_slice() {
            [only] => {
                if self.push(*only).is_ok() {
                    items.clear();
                }
            }
            _ => {
                let pushed = self.push_partial_slice(items).0.len();
                if pushed == items.len() {
                    items.clear();
                } else {
                    items.drain(..pushed);
                }
            }
        }
    }
}

impl Pop for rtrb::Consumer<u64> {
    #[inline]
    fn pop(&mut self, items: &mut Vec<u64>, burst: usize) {
        if burst == 1 {
            items.extend(self.pop());
        } else {
            let popped = self.pop_partial_slice_uninit(&mut items.spare_capacity_mut()[..burst]);
            let popped = popped.0.len();
            // SAFETY: rtrb has initialised the first `popped` items of the spare capacity.
            unsafe { items.set_len(popped) }
        }
    }
}

/// Result of one window of one thread: the number of items moved, and whether the window was clean.
#[derive(Clone, Copy, Default)]
struct Window {
    items: u64,
    clean: bool,
}

/// One thread's windows, on a time grid shared by both threads.
struct Grid {
    start: u64,
    length: u64,
    index: u64,
    boundary: u64,
    moved: u64,
    clock: Machine,
    account: Account,
    windows: Vec<Window>,
}

impl Grid {
    fn new(start: u64) -> Self {
        let length = (WINDOW_NS * ticks_per_s() / 1e9) as u64;
        let windows = vec![Window::default(); WINDOWS as usize];
        let (clock, account) = (Machine::counter(), Account::default());
        Self { start, length, index: 0, boundary: start, moved: 0, clock, account, windows }
    }

    /// Adds `items` to the current window. Returns `false` after the last window.
    #[inline]
    fn count(&mut self, items: usize) -> bool {
        self.moved += items as u64;
        let now = ticks();
        now < self.boundary || self.cross(now)
    }

    #[cold]
    fn cross(&mut self, now: u64) -> bool {
        let account = Account::now(&self.clock);
        let index = (now - self.start) / self.length;
        if self.boundary > self.start && index == self.index + 1 {
            let clean = account.since(self.account).judge(self.clock.cpu_step_ns()).is_ok();
            if let Some(window) = self.windows.get_mut(self.index as usize) {
                *window = Window { items: self.moved, clean };
            }
        }
        (self.account, self.index, self.moved) = (account, index, 0);
        self.boundary = self.start + (index + 1) * self.length;
        index < WINDOWS
    }
}

/// Returns the throughput of a queue in million items per second: the median over the windows that
/// are clean in both threads.
///
/// Each end is moved into its thread. Otherwise, the two ends would be adjacent in memory and could
/// share a cache line.
fn rate<P: Push, C: Pop>((tx, rx): (P, C), burst: usize, cpus: [u32; 2]) -> Option<f64> {
    let start = AtomicU64::new(0);
    let ready = Barrier::new(2);
    let begin = |cpu| {
        linux::pin_current_thread(cpu).expect("the CPU is available");
        if ready.wait().is_leader() {
            start.store(ticks() + 1_000_000, Ordering::Relaxed);
        }
        ready.wait();
        while ticks() < start.load(Ordering::Relaxed) {}
        Grid::new(start.load(Ordering::Relaxed))
    };
    let (sent, received) = std::thread::scope(|scope| {
        let begin = &begin;
        let sender = scope.spawn(move || {
            let mut tx = Box::new(tx);
            let mut grid = begin(cpus[0]);
            let mut items = Vec::with_capacity(burst);
            let mut next = 0;
            loop {
                if items.is_empty() {
                    items.extend(next..next + burst as u64);
                    next += burst as u64;
                }
                let before = items.len();
                tx.push(&mut items);
                if !grid.count(before - items.len()) {
                    return grid.windows;
                }
            }
        });
        let mut rx = Box::new(rx);
        let mut grid = begin(cpus[1]);
        let mut items = Vec::with_capacity(burst);
        let mut expected = 0;
        loop {
            rx.pop(&mut items, burst);
            let popped = items.len();
            for item in items.drain(..) {
                assert_eq!(item, expected, "the queue keeps its order");
                expected += 1;
            }
            if !grid.count(popped) {
                break;
            }
        }
        (sender.join().expect("the sender does not panic"), grid.windows)
    });
    let both = sent.iter().zip(&received).filter(|(s, r)| s.clean && r.clean);
    let rates: Vec<f64> = both.map(|(_, r)| r.items as f64 * 1e3 / WINDOW_NS).collect();
    median(&rates)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let repetitions: u32 = if test { 1 } else { asked.unwrap_or(41) };
    let allowed = linux::allowed_cpus().expect("the kernel reports the CPUs");
    let [first, second, ..] = allowed[..] else {
        println!("ring: SKIP: a ring needs two CPUs; number available: {}", allowed.len());
        return;
    };
    println!("million items per second, {CAPACITY} slots, processors {first} and {second}");
    let interval = interval_name();
    println!("{:>6} {:>10} {:>10}   linerate / rtrb ({interval})", "burst", "linerate", "rtrb");
    for burst in [1, 8, 32] {
        let names = ["linerate", "rtrb"];
        let length = Length::Rounds(repetitions);
        let rules = Rules { what: "ring", contestants: &names, placements: 1, length, seed: 1 };
        let Ok(rates) = rounds(&rules, &Machine::kernel(), &Watch::unattended(), |turn| {
            let rate = match turn.contestant {
                0 => rate(ring::ring(CAPACITY), burst, [first, second]),
                _ => rate(rtrb::RingBuffer::new(CAPACITY), burst, [first, second]),
            };
            Ok::<_, Infallible>(rate.ok_or(Dropped::NoneKept))
        });
        let (Some(own), Some(peer), Some(ratio)) =
            (rates.median(0), rates.median(1), rates.ratio(0, 1, CONFIDENCE))
        else {
            println!("{burst:>6}  no repetition had a clean window");
            continue;
        };
        println!(
            "{burst:>6} {own:>10.1} {peer:>10.1}   {:.3} ({:.3} to {:.3}, n = {})",
            ratio.value, ratio.low, ratio.high, ratio.n
        );
    }
}
