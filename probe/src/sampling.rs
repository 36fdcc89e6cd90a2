// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests sampling on counter overflow with loops whose shares of the events are known: counts how
//! often a loop's confidence interval contains its known share.

use crate::{advice, text};
use linerate_counters::catalog::Catalog;
use linerate_counters::event::{Class, Event};
use linerate_counters::overflow::{self, Landed, Obstacle, PARTS, Trial};
use linerate_counters::refusal::Refusal;
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explainer;
use linerate_record::accuracy::{Check, Verdict};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, interval_name, median, sampled_share};
use std::fmt::Write;

/// What to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Name of a hardware event.
    pub(crate) event: String,
    /// Number of runs.
    pub(crate) runs: u64,
    /// Approximate number of samples per run.
    pub(crate) samples: u64,
    /// Mean sampling period, in events.
    pub(crate) period: u64,
    /// Seed for random periods, round lengths and loop order.
    pub(crate) seed: u64,
}

impl Default for Request {
    fn default() -> Self {
        Self { event: "cycles".to_owned(), runs: 20, samples: 500, period: 50_000, seed: 1 }
    }
}

/// Exit status if the intervals contained the known share too rarely.
const NOT_HELD: u8 = 1;
/// Exit status if no verdict is possible.
const CANNOT_TELL: u8 = 2;

/// Maximum relative variation of the period between runs, so that the result does not depend on one
/// particular period.
const JITTER: f64 = 0.1;
/// Maximum fraction of a run's overflows without a sample. All missing samples could belong to one
/// loop and shift its share by this fraction, which is about the half-width of an interval from 500
/// samples.
const MOST_MISSING: f64 = 0.05;

/// All runs of a request.
#[derive(Debug, Default)]
struct Runs {
    sum: Landed,
    /// Number of runs whose interval contained the known share, for each loop.
    held: [u64; 3],
    /// Half-widths of the intervals, for each loop.
    half_widths: [Vec<f64>; 3],
}

impl Runs {
    fn add(&mut self, landed: &Landed) {
        let all = landed.in_loops.iter().sum();
        for (at, hits) in landed.in_loops.into_iter().enumerate() {
            let share = sampled_share(hits, all);
            self.held[at] += u64::from((share.low..=share.high).contains(&known(at)));
            self.half_widths[at].push((share.high - share.low) / 2.0);
        }
        self.sum.add(landed);
    }
}

/// Returns a loop's known share of the events.
fn known(at: usize) -> f64 {
    PARTS[at] as f64 / PARTS.iter().sum::<usize>() as f64
}

/// Performs the runs, and returns the text to print and the exit status.
///
/// # Errors
/// Returns an error if the event's name does not select a hardware event.
pub(crate) fn run(request: &Request) -> Result<(String, u8), String> {
    let catalog = Catalog::of_this_machine();
    let event = catalog.resolve(&request.event).map_err(|error| error.to_string())?;
    if event.class != Class::Hardware {
        let name = &event.name;
        return Err(format!(
            "`{name}` is not an event of the PMU; choose one that is, for example cycles"
        ));
    }
    Ok(match runs(request, &event) {
        Ok(runs) => report(request, &event.name, &runs),
        Err(Doubt::Obstacle(obstacle)) => {
            cannot_tell(&event.name, &sentence(&obstacle, &event, &catalog))
        }
        Err(Doubt::Missing(reason)) => cannot_tell(&event.name, &reason),
    })
}

/// Why there is no verdict.
enum Doubt {
    Obstacle(Obstacle),
    /// Too many samples are missing; the sentence says how many.
    Missing(String),
}

impl From<Obstacle> for Doubt {
    fn from(obstacle: Obstacle) -> Self {
        Self::Obstacle(obstacle)
    }
}

fn runs(request: &Request, event: &Event) -> Result<Runs, Doubt> {
    let cost = overflow::cost(event.selector)?;
    let mut random = Random::new(request.seed);
    let mut runs = Runs::default();
    for _ in 0..request.runs {
        let factor = 1.0 + JITTER * (2.0 * random.uniform() - 1.0);
        let trial = Trial {
            selector: event.selector,
            period: (request.period as f64 * factor) as u64,
            samples: request.samples,
            seed: random.next(),
        };
        let landed = overflow::sample_loops(&trial, cost)?;
        if let Some(reason) = missing(&landed, trial.period) {
            return Err(Doubt::Missing(reason));
        }
        runs.add(&landed);
    }
    Ok(runs)
}

/// Returns why a run has too few samples for conclusions about shares; `None` if it has enough.
fn missing(landed: &Landed, period: u64) -> Option<String> {
    let Landed { due, lost, throttled, events, .. } = landed;
    let (samples, missing) = (landed.samples(), landed.missing());
    if samples == 0 {
        return Some(format!(
            "no overflow produced a sample, although the counter counted {events} events, which is \
             {due} sampling periods"
        ));
    }
    if (missing + lost) as f64 <= MOST_MISSING * *due as f64 {
        return None;
    }
    let (skid, most) = skids(landed);
    let late = match most >= period {
        true => ": overflows themselves do not interrupt the program; a later event does",
        false => "",
    };
    Some(format!(
        "only {samples} of {due} overflows produced a sample ({lost} lost because the ring was \
         full, throttled {throttled} times); the skid was {skid} events (median), at most {most}, \
         with a sampling period of {period} events{late}"
    ))
}

/// Returns the median skid and the largest skid, in events.
fn skids(landed: &Landed) -> (u64, u64) {
    let skids: Vec<f64> = landed.skids.iter().map(|skid| *skid as f64).collect();
    let most = landed.skids.iter().copied().max().unwrap_or_default();
    (median(&skids).unwrap_or_default() as u64, most)
}

fn sentence(obstacle: &Obstacle, event: &Event, catalog: &Catalog) -> String {
    match obstacle {
        Obstacle::NoLoops => "the loops are not available for this architecture".to_owned(),
        Obstacle::Refused(attempt) => {
            let facts = HostFacts::gather();
            let explainer = Explainer::new(&facts, catalog.is_known_processor());
            let found = explainer.explain(&Refusal::NotOpened(*attempt), event);
            text::advised(&found.sentence, found.fix.as_deref().map(advice::own).as_deref())
        }
        Obstacle::CountsNothing => {
            format!("the kernel accepts {}, but the counter counts nothing", event.name)
        }
        Obstacle::Uneven([a, b, c]) => format!(
            "an iteration should cause the same number of events in each loop, but causes {a:.3}, \
             {b:.3} and {c:.3}, so the loops' shares are unknown"
        ),
        Obstacle::Failed(what, error) => format!("this program could not {what}: {error}"),
    }
}

/// Returns the name of a loop's check.
fn name(event: &str, at: usize) -> String {
    let all: usize = PARTS.iter().sum();
    format!("sampling.{event}.{}_of_{all}", PARTS[at])
}

fn cannot_tell(event: &str, reason: &str) -> (String, u8) {
    let mut text = format!("{event}: cannot tell, because {reason}\n");
    for at in 0..PARTS.len() {
        let _ = writeln!(text, "{}", Check::skip(&name(event, at), "cannot tell"));
    }
    (text, CANNOT_TELL)
}

fn report(request: &Request, event: &str, runs: &Runs) -> (String, u8) {
    let Request { runs: number, period, seed, .. } = request;
    let Landed { in_loops, elsewhere, lost, throttled, due, .. } = &runs.sum;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{event} in user mode: {number} runs, seed {seed}, a sample per {period} events \
         (+- {:.0} % between runs)",
        JITTER * 100.0
    );
    let interval = interval_name();
    let _ = writeln!(text, "loop      known  sampled  {interval:18}  one run   held in");
    let all = in_loops.iter().sum();
    for (at, hits) in in_loops.iter().enumerate() {
        let share = sampled_share(*hits, all);
        let _ = writeln!(
            text,
            "{} of {}   {:.4}   {:.4}  {:.4} to {:.4}    +- {:.3}  {} of {number} runs",
            PARTS[at],
            PARTS.iter().sum::<usize>(),
            known(at),
            share.value,
            share.low,
            share.high,
            median(&runs.half_widths[at]).unwrap_or(f64::NAN),
            runs.held[at],
        );
    }
    let samples = runs.sum.samples();
    let _ = writeln!(text, "elsewhere {elsewhere} of {samples} samples, between the loops");
    let missing = runs.sum.missing();
    let _ = writeln!(
        text,
        "missing   {missing} of {due} overflows, {lost} lost because the ring was full, throttled \
         {throttled} times"
    );
    let (skid, most) = skids(&runs.sum);
    let _ = writeln!(text, "skid      {skid} events (median), at most {most}");
    let mut status = 0;
    for (at, held) in runs.held.iter().enumerate() {
        let why = "runs whose interval contains the known share";
        let check = Check::share(&name(event, at), *held, *number, CONFIDENCE, why);
        if check.verdict == Verdict::Fail {
            status = NOT_HELD;
        }
        let _ = writeln!(text, "{check}");
    }
    (text, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landed(in_loops: [u64; 3]) -> Landed {
        let due = in_loops.iter().sum();
        let skids = vec![0; due as usize];
        Landed { in_loops, due, events: due * 1000, skids, ..Landed::default() }
    }

    fn of(all: &[[u64; 3]]) -> Runs {
        let mut runs = Runs::default();
        all.iter().for_each(|in_loops| runs.add(&landed(*in_loops)));
        runs
    }

    fn reported(runs: &Runs, number: u64) -> (String, u8) {
        report(&Request { runs: number, ..Request::default() }, "cycles", runs)
    }

    #[test]
    fn a_share_is_held_in_the_runs_whose_interval_has_it() {
        // The half-width at 0.5 is 4.4 points.
        let runs = of(&[[250, 167, 83], [280, 150, 70], [269, 156, 75]]);
        assert_eq!(runs.held, [2, 3, 3]);
        let (text, status) = reported(&runs, 3);
        assert!(text.contains("2 of 3 runs") && text.contains("skid      0 events"), "{text}");
        // By chance, one of three may miss.
        assert_eq!(status, 0, "{text}");
    }

    #[test]
    fn samples_in_the_wrong_loop_fail() {
        let wrong = vec![[300, 130, 70]; 20];
        let (text, status) = reported(&of(&wrong), 20);
        assert_eq!(status, NOT_HELD, "{text}");
        assert_eq!(text.matches("verdict=fail").count(), 2, "{text}");
    }

    #[test]
    fn missing_samples_leave_nothing_to_judge() {
        let full = landed([250, 167, 83]);
        assert_eq!(missing(&full, 1000), None);
        let most = Landed { due: 526, ..full.clone() };
        assert_eq!(missing(&most, 1000), None);
        let short = Landed { due: 600, skids: vec![10, 20, 5000], ..full.clone() };
        let reason = missing(&short, 1000).expect("100 of 600 are missing");
        assert!(reason.starts_with("only 500 of 600 overflows"), "{reason}");
        assert!(reason.contains("skid was 20 events (median), at most 5000"), "{reason}");
        assert!(reason.ends_with("a later event does"), "{reason}");
        let lost = Landed { lost: 60, due: 560, ..full };
        assert!(missing(&lost, 1000).is_some_and(|reason| reason.contains("60 lost")));
        let none = Landed { due: 7, events: 7000, ..Landed::default() };
        assert!(missing(&none, 1000).is_some_and(|reason| reason.contains("7000 events")));
        let (text, status) = cannot_tell("cycles", "of a reason");
        assert!(text.starts_with("cycles: cannot tell, because of a reason\n"), "{text}");
        assert_eq!((status, text.matches("verdict=skip").count()), (CANNOT_TELL, 3));
    }
}
