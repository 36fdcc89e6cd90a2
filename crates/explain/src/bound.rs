// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines from the evidence in a profile what bounds a program and its hottest functions.
//!
//! Rules are data ([`mod@rules`]), with thresholds and verdicts as in `why`: a rule holds only if
//! the whole interval of each of its measures is on the right side of its threshold.
//!
//! ```text
//! hold = rules that hold, except those explained by another rule that holds
//! if all of them reach the same conclusion: that conclusion
//! if they disagree, or none holds: cannot tell, with the measurement that would decide
//! ```
//!
//! Measuring is left to `linerate-observe` and `linerate-stat`, and printing to `linerate-report`.

mod bandwidth;
mod measure;
pub mod rules;

use crate::rule::Verdict;
pub use bandwidth::read_bandwidth;
use linerate_record::Tier;
use linerate_record::answers::Evidence;
use linerate_record::profile::{BoundBy, BoundEvidence, BoundFinding, ProfileReport};
pub use measure::Measure;
use measure::Subject;
use rules::{Rule, rules};

/// Returns one finding per entry of `report.evidence`, in the same order.
pub fn explain(report: &ProfileReport) -> Vec<BoundFinding> {
    report.evidence.iter().map(|evidence| finding(report, evidence)).collect()
}

fn finding(report: &ProfileReport, evidence: &BoundEvidence) -> BoundFinding {
    let subject = &Subject { report, evidence };
    let mut held: Vec<&Rule> = Vec::new();
    let mut suspects: Vec<&Rule> = Vec::new();
    for rule in rules() {
        match verdict(rule, subject) {
            Judged::Holds => held.push(rule),
            Judged::Suspect => suspects.push(rule),
            Judged::Fails => {}
        }
    }
    let found: Vec<BoundBy> = held.iter().map(|rule| rule.bound_by).collect();
    held.retain(|rule| !rule.explained_by.iter().any(|other| found.contains(other)));
    match held.split_first() {
        Some((first, rest)) if rest.iter().all(|rule| rule.bound_by == first.bound_by) => {
            concluded(first, subject)
        }
        _ => undecided(&held, &suspects, subject),
    }
}

/// Result of evaluating a rule.
enum Judged {
    Holds,
    Fails,
    /// The symptoms are present, but other conditions were not measured.
    Suspect,
}

fn verdict(rule: &Rule, subject: &Subject<'_>) -> Judged {
    let of_program = subject.is_program();
    if rule.is_of_program && !of_program {
        return Judged::Fails;
    }
    let whole = if of_program { rule.of_program } else { &[] };
    let conditions = rule.conditions.iter().chain(whole);
    let verdicts: Vec<Verdict> =
        conditions.map(|one| one.bound.verdict(one.measure.of(subject))).collect();
    if verdicts.iter().all(|verdict| *verdict == Verdict::Holds) {
        return Judged::Holds;
    }
    let symptoms = &verdicts[..rule.symptoms];
    let is_suspect = rule.symptoms > 0
        && symptoms.iter().all(|verdict| *verdict == Verdict::Holds)
        && !verdicts.contains(&Verdict::Fails);
    if is_suspect { Judged::Suspect } else { Judged::Fails }
}

fn concluded(rule: &Rule, subject: &Subject<'_>) -> BoundFinding {
    let fill = |text: &str| measure::fill(text, subject);
    let conditions = rule.conditions.iter();
    let evidence: Vec<Evidence> =
        conditions.filter_map(|one| one.measure.evidence(subject, one.source)).collect();
    let conditions = rule.conditions.iter();
    BoundFinding {
        function: subject.evidence.function,
        bound_by: rule.bound_by,
        tier: conditions.filter_map(|one| one.measure.tier(subject)).max(),
        sentence: fill(rule.sentence),
        evidence,
        wrong_if: Some(fill(rule.wrong_if)),
        next: fill(rule.next),
    }
}

/// Measurement to suggest if a simulation was run and did not decide.
const COUNT: &str = "linerate stat -m cache -p PID, on a machine with a PMU";

/// Measurement to suggest for a program that is mostly in the kernel. The simulation covers only
/// user mode.
const WATCH: &str = "linerate why PID, which separates system calls, copies and waits";

fn undecided(held: &[&Rule], suspects: &[&Rule], subject: &Subject<'_>) -> BoundFinding {
    let fill = |text: &str| measure::fill(text, subject);
    let words = |rules: &[&Rule]| {
        let mut words: Vec<String> = rules.iter().map(|rule| rule.bound_by.title()).collect();
        words.dedup();
        words.join(" or ")
    };
    let has_simulation = subject.report.simulated.is_some();
    let (sentence, next) = match (held, suspects) {
        ([_, ..], _) => {
            let reason = format!("The evidence fits {}.", words(held));
            (reason, if has_simulation { COUNT } else { rules::SIMULATE }.to_owned())
        }
        ([], [first, ..]) => {
            let symptoms = fill(first.suspicion);
            // If a simulation was already run, repeating it would not help.
            let is_done = has_simulation && first.measure == rules::SIMULATE;
            let next = if is_done { COUNT.to_owned() } else { fill(first.measure) };
            (format!("{symptoms}, which fits {}.", words(suspects)), next)
        }
        ([], []) => {
            let reason = format!("No single cause stands out: {}.", measure::summary(subject));
            let next = match (has_simulation, measure::is_in_kernel(subject)) {
                (_, true) => WATCH,
                (true, false) => COUNT,
                (false, false) => rules::SIMULATE,
            };
            (reason, next.to_owned())
        }
    };
    BoundFinding {
        function: subject.evidence.function,
        bound_by: BoundBy::CannotTell,
        tier: None::<Tier>,
        sentence,
        evidence: Vec::new(),
        wrong_if: None,
        next,
    }
}
