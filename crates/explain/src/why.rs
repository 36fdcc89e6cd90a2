// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a program reaches line rate, or does not: conclusions from an observation of it.
//!
//! Rules are data ([`mod@rules`]): each rule names the evidence that it takes, with thresholds and
//! their source, and holds only if the whole interval of every measure is on the right side of its
//! threshold. A rule whose evidence was not read does not hold; if its symptoms are present, it is
//! a suspect, and suspects lead to `cannot_tell` with the measurement that separates them. A
//! confident wrong answer is worse than none.
//!
//! Left out: reading any data (`linerate-observe`), printing.

mod doubts;
mod facts;
mod functions;
mod gain;
mod losses;
mod measure;
mod queues;
mod rest;
pub mod rules;
mod title;
mod waits;
mod words;
mod workers;

pub use facts::{Facts, Subject};
pub use functions::Group;
pub use gain::GainModel;
pub use measure::Measure;
pub use waits::{Wait, wait_of};
pub use workers::explain_run;

use self::rules::{Rule, Verdict, rules, subjects};
use linerate_record::stats::Estimate;
use linerate_record::why::{Cause, Observation, WhyFinding};

/// A rule that applies to a subject.
struct Held<'a> {
    rule: &'static Rule,
    subject: Subject<'a>,
    gain: Option<Estimate>,
}

/// A rule whose symptoms are present, but part of whose evidence could not be read.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    rule: &'static Rule,
}

/// Minimum gain of a finding in percent: smaller gains are within the minute-to-minute variation of
/// a rate.
const WORTH_PERCENT: f64 = 2.0;
/// The minimum for causes that lose packets: every delivered packet is a gain, within the accuracy
/// of the counters.
const WORTH_OF_LOSS_PERCENT: f64 = 0.1;

/// Findings from an observation, largest gain first; never empty.
pub fn explain(observation: &Observation) -> Vec<WhyFinding> {
    let facts = Facts::new(observation);
    let (held, suspects) = judge(&facts);
    let mut findings: Vec<WhyFinding> = held.iter().map(|held| finding(&facts, held)).collect();
    let worth = if facts.is_lossy() { WORTH_OF_LOSS_PERCENT } else { WORTH_PERCENT };
    let is_worth = |held: &Held<'_>| held.gain.is_none_or(|gain| gain.high >= worth);
    if !held.iter().any(is_worth) {
        findings.insert(0, rest::rest(&facts, &suspects));
    }
    if let Some(observer) = rest::observer(&facts) {
        // Removing a cause gains more than the observer takes.
        let at = if held.iter().any(is_worth) { findings.len() } else { 0 };
        findings.insert(at, observer);
    }
    findings
}

/// The rules that apply, by decreasing gain, with each cause once; and the suspects.
fn judge<'a>(facts: &Facts<'a>) -> (Vec<Held<'a>>, Vec<Suspect>) {
    let mut held: Vec<Held<'a>> = Vec::new();
    let mut suspects: Vec<Suspect> = Vec::new();
    for rule in rules() {
        let (best, is_suspect) = apply(rule, facts);
        match best {
            Some(best) => keep_larger(&mut held, best),
            None if is_suspect => suspects.push(Suspect { rule }),
            None => {}
        }
    }
    let found: Vec<Cause> = held.iter().map(|held| held.rule.cause).collect();
    let is_explained = |rule: &Rule| rule.explained_by.iter().any(|cause| found.contains(cause));
    held.retain(|held| !is_explained(held.rule) && !is_wanted(facts, held));
    suspects.retain(|suspect| !is_explained(suspect.rule) && !found.contains(&suspect.rule.cause));
    held.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.rule.cause.cmp(&b.rule.cause)));
    (held, suspects)
}

/// Sort key of a finding: its predicted gain. A gain that could not be predicted counts as small.
fn size(held: &Held<'_>) -> f64 {
    held.gain.map_or(WORTH_PERCENT, |gain| gain.value)
}

/// Of the subjects to which a rule applies, the one with the largest gain; and whether the rule is
/// suspected for any subject.
fn apply<'a>(rule: &'static Rule, facts: &Facts<'a>) -> (Option<Held<'a>>, bool) {
    let mut best: Option<Held<'a>> = None;
    let mut is_suspect = false;
    for subject in subjects(rule.scope, facts) {
        let verdicts = rule.conditions.iter().map(|one| one.verdict(facts, subject));
        let verdicts: Vec<Verdict> = verdicts.collect();
        if verdicts.iter().all(|verdict| *verdict == Verdict::Holds) {
            let gain = rule.gain.estimate(facts, subject);
            let held = Held { rule, subject, gain };
            let is_larger = best.as_ref().is_none_or(|best| is_before(&held, best));
            best = if is_larger { Some(held) } else { best };
        }
        let symptoms = &verdicts[..rule.symptoms];
        is_suspect |= rule.symptoms > 0
            && symptoms.iter().all(|verdict| *verdict == Verdict::Holds)
            && !verdicts.contains(&Verdict::Fails)
            && verdicts.contains(&Verdict::Unread);
    }
    (best, is_suspect)
}

/// Whether one subject precedes another: by decreasing gain, then by name, so that the result does
/// not depend on the order of reading.
fn is_before(one: &Held<'_>, other: &Held<'_>) -> bool {
    let name = |held: &Held<'_>| match held.subject {
        Subject::Program => String::new(),
        Subject::Thread(thread) => format!("{:010}", thread.tid),
        Subject::Cpu(cpu) => format!("{:010}", cpu.cpu),
        Subject::Interface(interface) => interface.name.clone(),
        Subject::Qdisc(interface, qdisc) => format!("{} {}", interface.name, qdisc.handle),
        Subject::Socket(socket) => format!("{:020}", socket.inode),
        Subject::Quota(quota) => quota.group.clone(),
    };
    match size(one).total_cmp(&size(other)) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => name(one) < name(other),
    }
}

fn keep_larger<'a>(held: &mut Vec<Held<'a>>, new: Held<'a>) {
    match held.iter_mut().find(|held| held.rule.cause == new.rule.cause) {
        Some(old) if size(&new) > size(old) => *old = new,
        Some(_) => {}
        None => held.push(new),
    }
}

/// Whether a rate limit is the requested line rate.
fn is_wanted(facts: &Facts<'_>, held: &Held<'_>) -> bool {
    /// Relative error between a limiter's rate and the line rate, which count headers differently.
    const ERROR: f64 = 0.1;
    let limit = match held.subject {
        Subject::Qdisc(_, qdisc) => qdisc.rate_bits_per_s,
        Subject::Socket(socket) if held.rule.cause == Cause::RateLimiter => {
            let limit = socket.tcp.as_ref().and_then(|tcp| tcp.pacing_limit_bytes_per_s);
            limit.map(|bytes| 8.0 * bytes)
        }
        _ => return false,
    };
    let rates = facts.observation.watched.line_bits_per_s.zip(limit);
    rates.is_some_and(|(line, rate)| rate >= line * (1.0 - ERROR))
}

fn finding(facts: &Facts<'_>, held: &Held<'_>) -> WhyFinding {
    let Held { rule, subject, .. } = held;
    let fill = |text: &str| words::fill(text, facts, *subject);
    let mut gain = rule.gain.gain(facts, *subject);
    gain.then_limited_by = rule.then_limited_by.map(str::to_owned);
    WhyFinding {
        cause: rule.cause,
        sentence: fill(rule.sentence),
        evidence: words::evidence(rule, facts, *subject),
        gain,
        fix: Some(fill(rule.fix)),
        workaround: rule.workaround.map(fill),
        wrong_if: fill(rule.wrong_if),
    }
}

/// Placeholders in rule texts that have no value. For testing the table.
pub fn unknown_names() -> Vec<String> {
    let texts = rules().flat_map(|rule| {
        [Some(rule.sentence), Some(rule.fix), rule.workaround, Some(rule.wrong_if)]
    });
    let names = texts.flatten().flat_map(|text| {
        let parts = text.split('{').skip(1);
        parts.filter_map(|part| part.split_once('}')).map(|(name, _)| name)
    });
    names.filter(|name| !words::is_known(name)).map(str::to_owned).collect()
}
