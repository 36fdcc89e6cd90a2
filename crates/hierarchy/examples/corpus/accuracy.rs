// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the detector still reaches the success rates in docs/results/memory-corpus.md.
//!
//! For each kind of machine, judges the first [`SMALL`] of the machines used for the page, or all
//! [`FULL`] of them in a full run. For each kind and overall, each quantity must reach its
//! published rate, less an allowance for chance; a correct detector fails such a check with
//! probability [`MISS`]. Noise-free curves must not give worse answers than the same machines with
//! noise.
//!
//! The run also judges a deliberately degraded detector, which must fail. In a full run, its
//! success rates are 5 points lower; in a small run, they are lowered by the smallest drop that can
//! be detected with probability [`POWER`] on this number of machines.

use crate::judge::{self, Case, Way};
use crate::quantity::{PAGE, Quantity, Share};
use crate::{HELD_OUT, has_huge_pages};
use linerate_caches::{Machine, Noise};
use linerate_record::accuracy::{Check, MISS, Verdict};
use linerate_record::stats::coverage::loss_noticed;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of synthetic machines per kind in a full run, as for the published page: enough to detect
/// an overall drop of [`POINTS`] nine times in ten, whatever the success rate.
pub(crate) const FULL: usize = 260;
/// Number of synthetic machines per kind in a small run.
const SMALL: usize = 60;

/// Drop in a success rate, as a difference of fractions, that a full run must detect.
pub(crate) const POINTS: f64 = 0.05;

/// Probability that a small run detects the drop in success rate that it tests for.
const POWER: f64 = 0.99;

/// Page with the published success rates.
const SOURCE: &str = "docs/results/memory-corpus.md";

/// A kind of synthetic curve, with its title on the page.
pub(crate) struct Kind {
    name: &'static str,
    title: &'static str,
    is_huge: bool,
    noise: fn() -> Noise,
}

/// The kinds. Each noise-free kind is directly followed by the same machines with the noise of an
/// idle virtual machine.
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

/// How far the degraded detector's success rate is lowered.
struct Loss {
    /// Drop as a fraction of all machines.
    points: f64,
    /// Drop as a fraction of the machines that the detector gets right.
    of_right: f64,
}

/// Success rates of the detector and of the degraded detector.
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

/// Sums the results of all kinds, by quantity.
fn together(kinds: &[Shares]) -> Shares {
    std::array::from_fn(|place| kinds.iter().fold(Share::default(), |sum, kind| sum + kind[place]))
}

/// Returns how far to lower the degraded detector's success rate, by quantity.
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

/// Draws and judges the machines of one kind on all CPUs.
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
            let mut sum = sum.lock().expect("no thread panics while holding it");
            for (place, quantity) in each().enumerate() {
                sum.detector[place] = sum.detector[place] + quantity.of(&verdict);
                sum.worse[place] = sum.worse[place] + worse[place];
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    sum.into_inner().expect("no thread panics while holding it")
}

/// Counts the correct answers of a degraded detector, which turns each right answer into a wrong
/// one with probability `loss`. The random choice uses the machine's seed.
fn worse(case: &Case, verdict: &judge::Verdict, place: usize, loss: &Loss) -> Share {
    let quantity = Quantity::EACH[place];
    let right = quantity.of(verdict);
    let mut random = fastrand::Rng::with_seed(verdict.seed ^ ((place as u64 + 1) << 48));
    match right.hits > 0 && random.f64() < loss.of_right {
        true => quantity.of(&case.judge(&quantity.spoil(&case.found))),
        false => right,
    }
}

/// Prints whether the detector reaches the published rate.
fn gate(kind: &str, quantity: Quantity, seen: Share, stated: Share) {
    let name = format!("levels.{kind}.{}", quantity.name());
    println!("{}", Check::share(&name, seen.hits, seen.trials, stated.value(), SOURCE));
}

/// Prints whether the degraded detector fails, as it must.
fn notices(quantity: Quantity, seen: Share, stated: Share, loss: &Loss) {
    let Share { hits, trials } = seen;
    let name = format!("levels.worse_fails.{}", quantity.name());
    let why = format!("a detector degraded by {:.1} points", loss.points * 100.0);
    let check = Check::share(&name, hits, trials, stated.value(), &why);
    let verdict = if check.verdict == Verdict::Fail { Verdict::Ok } else { Verdict::Fail };
    println!("{}", Check { verdict, ..check });
}
