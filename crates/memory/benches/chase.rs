// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the per-load cost of a chase with that of the simplest equivalent loop, and times chain
//! construction.
//!
//! In each round, both loops walk the same randomly ordered chain through the same cache lines:
//! word 0 of a line holds the address for the walk, word 1 the index for the plain loop. The plain
//! loop is half the chain ahead, so that neither loop loads what the other has just brought into
//! the cache. If the plain loop had its own memory, its pages would map to different L2 sets, which
//! would skew the comparison. Prints each loop's minimum ns and cycles per load over all rounds,
//! and the median per-round ratio with its 95 % interval. In L1 a load takes a whole number of
//! cycles, 4 or 5 on most cores. Goal: the walk is at most 2 % slower than the plain loop.
//!
//! `cargo bench -p linerate-memory --bench chase`

use linerate_linux::{allowed_cpus, monotonic_ns, pin_current_thread};
use linerate_machine::core_clock::glimpse;
use linerate_machine::ticks::ticks_per_s;
use linerate_memory::arena::Arena;
use linerate_memory::chase::{Chain, Cursor, Layout};
use linerate_memory::window::Windows;
use linerate_memory::{MemoryError, Watch};
use linerate_record::memory::{Order, PageKind};
use linerate_record::stats::{CONFIDENCE, paired_ratio};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ROUNDS: usize = 101;
/// Chain size in bytes and loads per window. A window takes at most half a millisecond.
const SIZES: [(usize, u64); 3] = [(16 << 10, 40_000), (256 << 10, 40_000), (16 << 20, 4_000)];
const GOAL: f64 = 1.02;

type Line = [u64; 8];

/// Stores the index of each item's successor in word 1 of the item's line, and returns the lines.
/// `start` is the start of the arena that holds the dense chain.
fn indexed<'a>(chain: &'a Chain<'_>, start: *mut Line) -> &'a [Line] {
    let mut cursor = Cursor::default();
    for _ in 0..chain.len() {
        let from = chain.item(cursor);
        cursor = chain.next(cursor);
        // SAFETY: item `from` of a dense chain is line `from` of the arena. The chain uses only
        // word 0, and holds no reference to the memory.
        unsafe { (*start.add(from))[1] = chain.item(cursor) as u64 };
    }
    // SAFETY: the arena outlives the chain, which does not write while it is borrowed.
    unsafe { std::slice::from_raw_parts(start, chain.len()) }
}

fn follow(lines: &[Line], mut at: usize, loads: u64) -> usize {
    for _ in 0..loads {
        at = lines[at][1] as usize;
    }
    at
}

struct Round {
    walk: f64,
    plain: f64,
    ghz: f64,
}

fn rounds(windows: &Windows<'_>, chain: &Chain<'_>, lines: &[Line], loads: u64) -> Vec<Round> {
    let (mut cursor, mut ahead) = (Cursor::default(), Cursor::default());
    for _ in 0..chain.len() / 2 {
        ahead = chain.next(ahead);
    }
    let mut at = chain.item(ahead);
    let mut random = fastrand::Rng::with_seed(1);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let walk = |cursor: &mut Cursor| windows.time(|| _ = chain.run(cursor, loads));
        let plain = |at: &mut usize| windows.time(|| *at = follow(black_box(lines), *at, loads));
        let (walk, plain) = match random.bool() {
            true => (walk(&mut cursor), plain(&mut at)),
            false => {
                let plain = plain(&mut at);
                (walk(&mut cursor), plain)
            }
        };
        let ghz = glimpse().map_or(f64::NAN, |cycles| cycles * ticks_per_s() / 1e9);
        if walk.kept && plain.kept {
            let per_load = |ns: f64| ns / loads as f64;
            rounds.push(Round { walk: per_load(walk.ns), plain: per_load(plain.ns), ghz });
        }
    }
    rounds
}

fn compare(windows: &Windows<'_>, arena: &mut Arena) -> bool {
    let mut is_reached = true;
    for (bytes, loads) in SIZES {
        let memory = arena.start().cast();
        let mut chain = Chain::new(arena, Layout::dense(Order::PageLocal, 64), 1);
        let start = monotonic_ns();
        chain.resize(bytes / 64);
        let build = (monotonic_ns() - start) as f64 / chain.len() as f64;
        let rounds = rounds(windows, &chain, indexed(&chain, memory), loads);
        let of = |part: fn(&Round) -> f64| rounds.iter().map(part).collect::<Vec<f64>>();
        let least = |samples: &[f64]| samples.iter().copied().fold(f64::INFINITY, f64::min);
        let (walk, plain) = (of(|round| round.walk), of(|round| round.plain));
        let ghz = of(|round| round.ghz).into_iter().fold(0.0, f64::max);
        let ratio = paired_ratio(&plain, &walk, CONFIDENCE);
        println!(
            "{:>6} KiB  walk {:7.3} ns {:7.2} cycles  plain loop {:7.3} ns  ratio {:.3} ({:.3} to \
             {:.3})  {} of {ROUNDS} rounds  built in {build:.1} ns per line",
            bytes >> 10,
            least(&walk),
            least(&walk) * ghz,
            least(&plain),
            ratio.value,
            ratio.low,
            ratio.high,
            rounds.len(),
        );
        is_reached &= ratio.low <= GOAL;
    }
    is_reached
}

fn run() -> Result<bool, MemoryError> {
    pin_current_thread(allowed_cpus()?[0])?;
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let windows = Windows::new(&watch, Duration::from_secs(1));
    let mut arena = Arena::new(SIZES[SIZES.len() - 1].0, PageKind::Huge, &stop)?;
    Ok(compare(&windows, &mut arena))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("chase: slower than the plain loop by more than 2 %");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("chase: {error}");
            ExitCode::FAILURE
        }
    }
}
