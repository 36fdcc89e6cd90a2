// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the detector reaches the success rates stated in docs/results/memory-corpus.md.
//!
//! Draws the first [`SMALL`] machines of each kind that were used for the page, or all [`FULL`] in
//! a full run. For each kind and overall, each quantity must reach its stated rate, except for a
//! shortfall that occurs by chance with probability [`MISS`]. Curves without noise must not give
//! worse answers than the same machines with noise.
//!
//! The run also judges a deliberately degraded detector, which must fail the gate. Its success
//! rates are 5 points lower in a full run; in a small run, they are lower by the drop that the few
//! machines can detect with probability [`POWER`].

use crate::judge::{self, Case, Way};
use crate::quantity::{PAGE, Quantity, Share};
use crate::{HELD_OUT, has_huge_pages};
use linerate_caches::{Machine, Noise};
use linerate_record::accuracy::{Check, MISS, Verdict};
use linerate_record::stats::coverage::loss_noticed;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of machines of each kind in a full run and in a small run. A full run uses the number on
/// the page, which is enough to detect an overall drop of [`POINTS`] nine times in ten, whatever
/// the share.
pub(crate) const FULL: usize = 260;
const SMALL: usize = 60;

/// The drop that a full run must detect.
pub(crate) const POINTS: f64 = 0.05;

/// Probability with which a small run detects the drop that it tests.
const POWER: f64 = 0.99;

/// Source of the limits.
const SOURCE: &str = "docs/results/memory-corpus.md";

/// A way of generating curves, with its title on the page.
pub(crate) struct Kind {
    name: &'static str,
    title: &'static str,
    is_huge: bool,
    noise: fn() -> Noise,
}

/// Each kind without noise is directly followed by the kind that has the same machines with the
/// noise of an idle virtual machine.
pub(crate) const KINDS: [Kind; 5] = [
    Kind { name: "huge", title: "Huge pages, no noise", is_huge: true, noise: Noise::none },
    Kind {
        name: "huge_idle",
        title: "Huge pages, noise of an idle virtual machine",
        is_huge: true,
        noise: Noise::idle,
    },
    Kind { name: "any", title: "Any pages, no noise", is_huge: false, noise: Noise::none },
    Kind {
        name: "any_idle",
        title: "Any pages, noise of an idle virtual machine",
        is_huge: false,
        noise: Noise::idle,
    },
    Kind {
        name: "any_busy",
        title: "Any pages, noise of a busy one",
        is_huge: false,
        noise: Noise::busy,
    },
];

type Shares = [Share; Quantity::EACH.len()];
type Losses = [Loss; Quantity::EACH.len()];

/// Drop in the degraded detector's success rate.
struct Loss {
    /// Drop as a share of all machines, 0 to 1.
    points: f64,
    /// Drop as a share of the machines that the detector gets right.
    of_right: f64,
}

/// Results of the detector and of the degraded one.
#[derive(Clone, Copy, Default)]
struct Tally {
    detector: Shares,
    worse: Shares,
}

/// Prints one line per check.
pub(crate) fn run(is_full: bool) {
    let machines = if is_full { FULL } else { SMALL };
    let published = KINDS.map(|kind| Quantity::EACH.map(|quantity| stated(&kind, quantity)));
    let losses = losses(&together(&published), machines);
    let tallies = KINDS.map(|kind| tally(&kind, machines, &losses));
    for (kind, (tally, published)) in KINDS.iter().zip(tallies.iter().zip(&published)) {
        for (quantity, (seen, stated)) in each().zip(tally.detector.iter().zip(published)) {
            gate(kind.name, quantity, *seen, *stated);
        }
    }
    let (all, stated) = (together(&tallies.map(|tally| tally.detector)), together(&published));
    let worse = together(&tallies.map(|tally| tally.worse));
    for (place, quantity) in each().enumerate() {
        gate("all_kinds", quantity, all[place], stated[place]);
    }
    for (place, quantity) in each().enumerate() {
        notices(quantity, worse[place], stated[place], &losses[place]);
    }
    for (quiet, noisy) in [(0, 1), (2, 3)] {
        for (place, quantity) in each().enumerate().filter(|(_, q)| *q != Quantity::Intervals) {
            let (seen, noisy) = (tallies[quiet].detector[place], tallies[noisy].detector[place]);
            let name = format!("{}_no_worse_than_with_noise", KINDS[quiet].name);
            gate(&name, quantity, seen, noisy);
        }
    }
}

fn each() -> impl Iterator<Item = Quantity> {
    Quantity::EACH.into_iter()
}

pub(crate) fn stated(kind: &Kind, quantity: Quantity) -> Share {
    let share = quantity.published(PAGE, kind.title);
    share.unwrap_or_else(|| panic!("the page has no {quantity:?} under `{}`", kind.title))
}

/// Sum over all kinds.
fn together(kinds: &[Shares]) -> Shares {
    std::array::from_fn(|place| kinds.iter().fold(Share::default(), |sum, kind| sum + kind[place]))
}

/// How far the degraded detector's success rate drops for each quantity.
fn losses(stated: &Shares, machines: usize) -> Losses {
    stated.map(|stated| {
        let trials = (machines * KINDS.len()) as u64;
        let points = match machines {
            FULL => POINTS,
            _ => loss_noticed(trials, stated.value(), MISS, POWER).unwrap_or(1.0),
        };
        Loss { points, of_right: points / stated.value() }
    })
}

/// Draws and judges the machines of one kind, on all CPUs.
fn tally(kind: &Kind, machines: usize, losses: &Losses) -> Tally {
    let is_wanted = |seed: &u64| !kind.is_huge || has_huge_pages(&Machine::random(*seed));
    let seeds: Vec<u64> = (HELD_OUT..).filter(is_wanted).take(machines).collect();
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let noise = (kind.noise)();
    let work = || {
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = Case::new(seed, Way::Analytic, &noise);
            let verdict = case.judge(&case.found);
            let worse: Shares =
                std::array::from_fn(|place| worse(&case, &verdict, place, &losses[place]));
            let mut sum = sum.lock().expect("no thread panics with it");
            for (place, quantity) in each().enumerate() {
                sum.detector[place] = sum.detector[place] + quantity.of(&verdict);
                sum.worse[place] = sum.worse[place] + worse[place];
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    sum.into_inner().expect("no thread panics with it")
}

/// Correct answers of a degraded detector, which replaces each right answer with a wrong one with
/// probability `loss`. The machine's seed determines the random choice.
fn worse(case: &Case, verdict: &judge::Verdict, place: usize, loss: &Loss) -> Share {
    let quantity = Quantity::EACH[place];
    let right = quantity.of(verdict);
    let mut random = fastrand::Rng::with_seed(verdict.seed ^ ((place as u64 + 1) << 48));
    match right.hits > 0 && random.f64() < loss.of_right {
        true => quantity.of(&case.judge(&quantity.spoil(&case.found))),
        false => right,
    }
}

/// Prints whether the detector reaches the stated rate.
fn gate(kind: &str, quantity: Quantity, seen: Share, stated: Share) {
    let name = format!("levels.{kind}.{}", quantity.name());
    println!("{}", Check::share(&name, seen.hits, seen.trials, stated.value(), SOURCE));
}

/// Prints whether the degraded detector fails, as it must.
fn notices(quantity: Quantity, seen: Share, stated: Share, loss: &Loss) {
    let Share { hits, trials } = seen;
    let name = format!("levels.worse_fails.{}", quantity.name());
    let why = format!("a detector spoilt by {:.1} points", loss.points * 100.0);
    let check = Check::share(&name, hits, trials, stated.value(), &why);
    let verdict = if check.verdict == Verdict::Fail { Verdict::Ok } else { Verdict::Fail };
    println!("{}", Check { verdict, ..check });
}
