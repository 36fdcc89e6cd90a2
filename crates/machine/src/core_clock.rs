// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the core clock relative to the timestamp counter.
//!
//! In a chain of dependent additions, each addition takes one core cycle on every known processor,
//! however wide the core is. Timing a chain of known length in ticks therefore gives the core clock
//! without a cycle counter. Both operands are registers, because some processors (Intel since
//! Golden Cove) eliminate additions of a constant at rename.
//!
//! Architectures without an implementation of such a chain are not supported. Clock changes between
//! two measurements go unnoticed, so measure the clock both before and after the ticks that you
//! convert to cycles.

use crate::Error;
use crate::ticks::ticks_in_order;
use linerate_record::stats::{CONFIDENCE, Estimate, median};

/// Additions per loop iteration. The loop overhead is up to two cycles (0.4 % of the additions) on
/// an in-order core and zero on an out-of-order core. The code takes 2 KiB, which fits in any
/// instruction cache.
const ADDS_PER_ITERATION: u32 = 512;

/// Number of iterations per window: 35 us at 3.7 GHz, 130 us at 1 GHz. Most windows of this length
/// contain no interrupt.
const TURNS: u32 = 256;

const WINDOWS: usize = 20;

/// Number of parallel chains for measuring additions per cycle: at least the additions per cycle of
/// the widest current cores (six to eight), but few enough to fit in the registers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const SIDE_BY_SIDE: u32 = 8;

const PAIRS: usize = 9;

/// Number of iterations per window for measuring additions per cycle: 9 us at 3.7 GHz.
const WIDTH_TURNS: u32 = 64;

/// Measures core cycles per tick on the calling thread's CPU, from the fastest of 20 windows. Pin
/// the thread first. Keeps the CPU busy for 1 to 3 ms.
///
/// Interrupts and preemption only ever slow a window down. The interval therefore extends from the
/// median window to the fastest window minus the time that reading the counter may have added. It
/// contains the clock frequency (or its maximum, if it varies) if at least one window was not
/// interrupted. This holds for over 95 % of measurements, the stated confidence, if each window has
/// at least a one-in-seven chance of not being interrupted (1 - (6/7)^20 = 0.954).
///
/// # Errors
/// Returns an error if no chain is implemented for this processor, or if the counter is too coarse.
pub fn core_cycles_per_tick() -> Result<Estimate, Error> {
    // This window is not used: it gives an idle core time to raise its clock.
    time_chain(TURNS)?;
    let mut windows = [0.0; WINDOWS];
    for window in &mut windows {
        *window = time_chain(TURNS)? as f64;
    }
    from_windows(f64::from(TURNS * ADDS_PER_ITERATION), &windows, shortest(empty_window))
}

/// Number of iterations per [`glimpse`] window: about 18 us at 3.7 GHz, or 1,800 ticks of a counter
/// with a step of 10 ns.
const GLIMPSE_ITERATIONS: u32 = 128;

/// Measures core cycles per tick on the calling thread's CPU over the next 20 to 70 us. Call it
/// several times around windows of similar length and use the maximum. The result is too low if the
/// measurement was interrupted; otherwise, it is off by up to one tick. Pin the thread
/// first.
///
/// # Errors
/// Returns an error if no chain is implemented for this processor, or if the counter does not
/// advance.
pub fn glimpse() -> Result<f64, Error> {
    let ticks = time_chain(GLIMPSE_ITERATIONS)?;
    let cycles = f64::from(GLIMPSE_ITERATIONS * ADDS_PER_ITERATION);
    Some(cycles / ticks as f64).filter(|ratio| ratio.is_finite()).ok_or_else(|| Error::CannotTell {
        what: "the core clock",
        reason: format!("{cycles} cycles took 0 ticks"),
        advice: "use times in ticks: this timestamp counter is too coarse to measure cycles",
    })
}

/// Measures how many independent additions per cycle the calling thread's core currently performs:
/// as many as it has adders, or fewer while an SMT sibling uses them. Pin the thread first. Takes
/// about 0.1 ms at 3.7 GHz.
///
/// The result is the median, over nine pairs of windows, of the ratio between the time for one
/// chain and the time for as many additions in eight parallel chains. The two windows of a pair are
/// back to back, so a changing clock affects both.
///
/// # Errors
/// Returns an error if no chain is implemented for this processor, or if the counter is too coarse.
pub fn additions_per_cycle() -> Result<f64, Error> {
    let mut ratios = [0.0; PAIRS];
    for ratio in &mut ratios {
        let chain = time_chain(WIDTH_TURNS)?;
        let start = ticks_in_order();
        run_side_by_side(WIDTH_TURNS.into())?;
        *ratio = chain as f64 / (ticks_in_order() - start) as f64;
    }
    median(&ratios).filter(|width| width.is_finite()).ok_or_else(|| Error::CannotTell {
        what: "the number of additions per cycle",
        reason: "the additions took 0 ticks".to_owned(),
        advice: "continue without this figure: the timestamp counter is too coarse here",
    })
}

/// Reads the counter twice in a row and returns the difference in ticks.
fn empty_window() -> u64 {
    let start = ticks_in_order();
    ticks_in_order() - start
}

/// Returns the shortest of 16 nonzero empty windows (two consecutive counter reads), in ticks.
/// Infinity if the counter does not advance.
fn shortest(empty_window: impl FnMut() -> u64) -> f64 {
    let shown = std::iter::repeat_with(empty_window).take(100_000).filter(|&ticks| ticks > 0);
    shown.take(16).min().map_or(f64::INFINITY, |ticks| ticks as f64)
}

/// Computes the estimate from each window's length and the shortest empty window.
///
/// The slack, twice the empty window, covers the time that reading the counter adds to a window,
/// and the counter step by which each window may be off. If a read takes less than a step, the
/// empty window shows one step. If a read takes more, the empty window shows the read time rounded
/// down to whole steps: at least half the read time, and at least one step.
fn from_windows(cycles: f64, windows: &[f64], empty: f64) -> Result<Estimate, Error> {
    let slack = 2.0 * empty;
    let fastest = windows.iter().copied().fold(f64::INFINITY, f64::min);
    match median(windows) {
        // A measurement is unusable if the slack exceeds a tenth of the fastest window.
        Some(middle) if fastest.is_finite() && fastest > 10.0 * slack => Ok(Estimate {
            value: cycles / fastest,
            low: cycles / (middle + slack),
            high: cycles / (fastest - slack),
            confidence: CONFIDENCE,
            n: windows.len() as u64,
        }),
        _ => Err(Error::CannotTell {
            what: "the core clock",
            reason: format!(
                "{cycles} cycles took {fastest} ticks, and two back-to-back counter reads took \
                 {empty} ticks"
            ),
            advice: "use times in ticks: this timestamp counter is too coarse to measure cycles",
        }),
    }
}

/// Returns the ticks taken by `turns` iterations of [`ADDS_PER_ITERATION`] dependent additions.
fn time_chain(turns: u32) -> Result<u64, Error> {
    let start = ticks_in_order();
    let sum = run_chain(u64::from(turns))?;
    let ticks = ticks_in_order() - start;
    debug_assert_eq!(sum, u64::from(turns * ADDS_PER_ITERATION));
    Ok(ticks)
}

/// Building blocks for the chains: an addition, and the end of an iteration.
#[cfg(target_arch = "x86_64")]
macro_rules! adds_one_to {
    ($sum:literal) => {
        concat!("add {", $sum, "}, {one}")
    };
}
#[cfg(target_arch = "x86_64")]
macro_rules! next_turn {
    () => {
        "dec {turns}\njnz 2b"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! adds_one_to {
    ($sum:literal) => {
        concat!("add {", $sum, "}, {", $sum, "}, {one}")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! next_turn {
    () => {
        "subs {turns}, {turns}, #1\nb.ne 2b"
    };
}

/// Adds 1 `turns * ADDS_PER_ITERATION` times in sequence, starting from 0. `turns` must not be 0.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn run_chain(mut turns: u64) -> Result<u64, Error> {
    let mut sum = 0;
    // SAFETY: uses registers only; ends after `turns` iterations, and callers pass at least 1.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept {adds}",
            adds_one_to!("sum"),
            ".endr",
            next_turn!(),
            adds = const ADDS_PER_ITERATION,
            sum = inout(reg) sum,
            one = in(reg) 1u64,
            turns = inout(reg) turns,
            options(nomem, nostack)
        );
    }
    debug_assert_eq!(turns, 0);
    Ok(sum)
}

/// Performs [`ADDS_PER_ITERATION`] additions per iteration in [`SIDE_BY_SIDE`] chains. `turns` must
/// not be 0.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn run_side_by_side(mut turns: u64) -> Result<u64, Error> {
    let mut sums = [0u64; SIDE_BY_SIDE as usize];
    let [a, b, c, d, e, f, g, h] = &mut sums;
    // SAFETY: uses registers only; ends after `turns` iterations, and callers pass at least 1.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept {adds}",
            adds_one_to!("a"),
            adds_one_to!("b"),
            adds_one_to!("c"),
            adds_one_to!("d"),
            adds_one_to!("e"),
            adds_one_to!("f"),
            adds_one_to!("g"),
            adds_one_to!("h"),
            ".endr",
            next_turn!(),
            adds = const ADDS_PER_ITERATION / SIDE_BY_SIDE,
            a = inout(reg) *a,
            b = inout(reg) *b,
            c = inout(reg) *c,
            d = inout(reg) *d,
            e = inout(reg) *e,
            f = inout(reg) *f,
            g = inout(reg) *g,
            h = inout(reg) *h,
            one = in(reg) 1u64,
            turns = inout(reg) turns,
            options(nomem, nostack)
        );
    }
    debug_assert_eq!(turns, 0);
    Ok(sums.iter().sum())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn run_chain(_turns: u64) -> Result<u64, Error> {
    let architecture = std::env::consts::ARCH;
    Err(Error::Unsupported { what: "a fixed-length chain of additions", architecture })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn run_side_by_side(turns: u64) -> Result<u64, Error> {
    run_chain(turns)
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use proptest::prelude::RngCore;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    #[test]
    fn the_chain_is_as_long_as_it_says() {
        for turns in [1, 2, 1000] {
            assert_eq!(run_chain(turns), Ok(turns * u64::from(ADDS_PER_ITERATION)));
        }
    }

    #[test]
    fn as_many_additions_are_made_side_by_side() {
        for turns in [1, 2, 1000] {
            assert_eq!(run_side_by_side(turns), Ok(turns * u64::from(ADDS_PER_ITERATION)));
        }
    }

    /// On any core, the measured additions per cycle are at least one, as in a single chain, and at
    /// most the number of chains. An SMT sibling takes some of the core's width, so the test uses
    /// the maximum of several measurements.
    #[test]
    fn the_width_of_this_core_is_one_that_processors_have() {
        let widths: Vec<f64> = (0..20).map(|_| additions_per_cycle().unwrap()).collect();
        let most = widths.iter().copied().fold(0.0, f64::max);
        assert!((1.5..=8.4).contains(&most), "{widths:?}");
    }

    /// A chain twice as long takes twice the time. Short and long windows alternate, so that a
    /// changing clock affects both; the fastest window of each kind was not interrupted. On a busy
    /// machine a round may still fail, so there are several rounds.
    #[test]
    fn a_chain_twice_as_long_takes_twice_as_long() {
        let fastest = |turns, best: u64| best.min(time_chain(turns).unwrap());
        let round = |_| {
            let (once, twice) = (0..40).fold((u64::MAX, u64::MAX), |(once, twice), _| {
                (fastest(TURNS, once), fastest(2 * TURNS, twice))
            });
            twice as f64 / once as f64
        };
        let ratios: Vec<f64> = (0..10).map(round).collect();
        assert!(ratios.iter().any(|ratio| (1.97..=2.03).contains(ratio)), "{ratios:?}");
    }

    #[test]
    fn the_clock_of_this_machine_is_one_that_processors_have() {
        let clock = core_cycles_per_tick().unwrap();
        assert!(clock.low <= clock.value && clock.value <= clock.high, "{clock:?}");
        let hertz = clock.value * crate::ticks::ticks_per_s();
        assert!((2e7..1e10).contains(&hertz), "{hertz} Hz");
    }

    /// Interrupts make samples too low, and the clock may change, so it is enough if one of several
    /// rounds agrees.
    #[test]
    fn the_highest_glimpse_agrees_with_the_long_look() {
        let agrees = |_| {
            let highest = (0..20).map(|_| glimpse().unwrap()).fold(0.0, f64::max);
            (highest / core_cycles_per_tick().unwrap().value - 1.0).abs() < 0.02
        };
        assert!((0..20).any(agrees));
    }

    fn uniform(random: &mut TestRng) -> f64 {
        f64::from(random.next_u32()) / 4_294_967_296.0
    }

    /// Returns how far a counter that advances by `step` moves over `span`, starting at a random
    /// moment.
    fn counter_reading(span: f64, step: f64, random: &mut TestRng) -> u64 {
        let start = 1000.0 * uniform(random);
        ((((start + span) / step).floor() - (start / step).floor()) * step) as u64
    }

    /// Synthetic windows with a known clock: the counter advances in steps, reads take time, and
    /// three windows in four are interrupted. The interval must contain the clock at least as often
    /// as its stated confidence.
    #[test]
    fn the_interval_holds_a_known_clock() {
        let random = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let cycles = f64::from(TURNS * ADDS_PER_ITERATION);
        let (mut held, trials) = (0, 2000);
        for _ in 0..trials {
            let (truth, step) =
                (0.3 + 3.0 * uniform(random), 1.0 + (40.0 * uniform(random)).floor());
            let cost = 5.0 + 60.0 * uniform(random);
            let empty = shortest(|| counter_reading(cost, step, random));
            let windows = [(); WINDOWS].map(|()| {
                let is_disturbed = uniform(random) < 0.75;
                let disturbance = if is_disturbed { 5000.0 * uniform(random) } else { 0.0 };
                counter_reading(cycles / truth + cost + disturbance, step, random) as f64
            });
            let clock = from_windows(cycles, &windows, empty).unwrap();
            held += i32::from(clock.low <= truth && truth <= clock.high);
        }
        assert!(f64::from(held) >= 0.95 * f64::from(trials), "{held} of {trials}");
    }

    #[test]
    fn a_counter_too_coarse_is_refused() {
        for windows in [&[5.0; 20][..], &[0.0; 20], &[]] {
            assert!(from_windows(131_072.0, windows, 1.0).is_err());
        }
        assert!(from_windows(131_072.0, &[100_000.0; 20], 20_000.0).is_err());
        assert!(from_windows(131_072.0, &[100_000.0; 20], shortest(|| 0)).is_err());
    }
}
