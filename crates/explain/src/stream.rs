// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines from the points of a sweep what limits a stream between two sockets.
//!
//! Uses the causes and keywords of `why`. Rules are data ([`mod@rules`]), in order: each rule comes
//! before the rules whose evidence it explains, so the first rule that holds is the answer. As in
//! `why`, a rule holds only if every measure was read and its whole interval is on the required
//! side of the threshold.
//!
//! Measuring is left to `linerate-stream`, and printing to `linerate-report`.

mod costs;
mod cpus;
mod losses;
mod measure;
mod rule;
pub mod rules;
mod shared;
mod words;

pub use measure::{Facts, Measure};

use self::rules::{RULES, Rule};
use crate::rule::Verdict;
use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;
use linerate_record::stream::{StreamPoint, StreamReport};
use linerate_record::why::{Cause, Gain, WhyFinding};
use linerate_record::{Figure, Tier};

/// Maximum number of findings: the answer, and further limits found at the same point.
const MOST: usize = 3;

/// Determines what limits each point, and explains the point that the report is about. Fills in
/// `limited_by` and `finding` of the points, the findings of the report, and the sentence about
/// checksums of its path.
pub fn explain(report: &mut StreamReport) {
    let judged: Vec<(String, String)> = report
        .points
        .iter()
        .map(|point| {
            let facts = Facts { report, point };
            let first = holding(&facts).into_iter().next();
            let limited_by = first.map_or("cannot_tell", |rule| limit(rule, &facts));
            let cause = first.map_or(Cause::CannotTell, |rule| rule.cause);
            (limited_by.to_owned(), cause.name().to_owned())
        })
        .collect();
    for (point, (limited_by, finding)) in report.points.iter_mut().zip(judged) {
        point.limited_by = limited_by;
        point.finding = finding;
    }
    report.path.checksum = words::checksum(report);
    report.findings = report.explained().map(|point| findings(report, point)).unwrap_or_default();
}

/// Returns the keyword of what limits a point. The keyword of a CPU limit includes the side:
/// `sender_cpu` or `receiver_cpu`.
fn limit(rule: &Rule, facts: &Facts<'_>) -> &'static str {
    match (rule.limited_by, facts.is_sender_busier()) {
        ("cpu", true) => "sender_cpu",
        ("cpu", false) => "receiver_cpu",
        (other, _) => other,
    }
}

/// Returns the findings for one point, with the answer first; never empty.
pub fn findings(report: &StreamReport, point: &StreamPoint) -> Vec<WhyFinding> {
    let facts = Facts { report, point };
    let mut held = holding(&facts);
    held.truncate(MOST);
    if held.is_empty() {
        return vec![cannot_tell(&facts)];
    }
    held.into_iter().map(|rule| finding(&facts, rule)).collect()
}

/// Returns the rules that hold, one per cause, except rules explained by an earlier one.
fn holding(facts: &Facts<'_>) -> Vec<&'static Rule> {
    let mut held: Vec<&Rule> = Vec::new();
    for rule in RULES {
        let holds = rule
            .conditions
            .iter()
            .all(|one| one.bound.verdict(one.measure.of(facts)) == Verdict::Holds);
        let is_known = held.iter().any(|other| other.cause == rule.cause);
        let is_explained = held.iter().any(|other| rule.explained_by.contains(&other.cause));
        if holds && !is_known && !is_explained {
            held.push(rule);
        }
    }
    held
}

fn finding(facts: &Facts<'_>, rule: &Rule) -> WhyFinding {
    let fill = |text: &str| words::fill(text, facts);
    let evidence = |condition: &rules::Condition| {
        let estimate = condition.measure.of(facts)?;
        let (name, unit) = condition.measure.name();
        Some(Evidence::of(name, estimate, unit, Tier::Sw.name()))
    };
    WhyFinding {
        cause: rule.cause,
        sentence: fill(rule.sentence),
        evidence: rule.conditions.iter().filter_map(evidence).collect(),
        gain: gain(facts, rule),
        fix: Some(fill(rule.fix)),
        workaround: None,
        wrong_if: fill(rule.wrong_if),
    }
}

/// Returns the gain demonstrated by another point of the same sweep.
fn gain(facts: &Facts<'_>, rule: &Rule) -> Gain {
    const METHOD: &str = "fastest point of the sweep with the same message size";
    let absent = |reason: &str| Figure::absent("percent", Tier::Sw, METHOD, reason);
    let best = facts.fastest_alike();
    let percent = match best {
        _ if !rule.is_swept => absent("the sweep does not vary this limit"),
        Some(best) if !std::ptr::eq(best, facts.point) => {
            match best.gbps.estimate().zip(facts.point.gbps.estimate()) {
                Some((best, now)) => {
                    let more = best.over(now).minus(Estimate::exactly(1.0)).scale(100.0);
                    Figure::number("percent", more, Tier::Sw, METHOD)
                }
                None => absent("no throughput was measured"),
            }
        }
        _ => absent("no other point of the sweep is faster"),
    };
    let then_limited_by = best
        .filter(|best| rule.is_swept && !std::ptr::eq(*best, facts.point))
        .and_then(|best| holding(&Facts { point: best, ..*facts }).into_iter().next())
        .map(|rule| words::limit(rule.limited_by).to_owned());
    Gain { percent, then_limited_by }
}

fn cannot_tell(facts: &Facts<'_>) -> WhyFinding {
    let absent = "the cause is unknown";
    WhyFinding {
        cause: Cause::CannotTell,
        sentence: words::fill(
            "No limit stands out: the sender uses {sender_cpus} and the receiver {receiver_cpus}, \
             and the stream reaches {gbps}.",
            facts,
        ),
        evidence: Vec::new(),
        gain: Gain {
            percent: Figure::absent("percent", Tier::Sw, "", absent),
            then_limited_by: None,
        },
        fix: Some(
            "Measure for longer (--time 60s) on an otherwise idle machine, or observe both ends \
             during the measurement: linerate why --name linerate"
                .to_owned(),
        ),
        workaround: None,
        wrong_if: "a longer measurement finds a cause".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::names;

    #[test]
    fn every_placeholder_has_a_value() {
        for rule in RULES {
            for name in [rule.sentence, rule.fix, rule.wrong_if].into_iter().flat_map(names) {
                assert!(words::NAMES.contains(&name), "{{{name}}} in {rule:?}");
            }
        }
    }
}
