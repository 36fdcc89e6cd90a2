// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnoses why an observed program does not reach line rate.
//!
//! Rules are data ([`mod@rules`]). A rule lists the evidence it requires, with thresholds and their
//! sources, and holds only if the entire interval of every measure is on the required side of its
//! threshold. A rule with missing evidence does not hold, but becomes a suspect if its symptoms are
//! present. Suspects lead to `cannot_tell`, with the measurement that would distinguish them. A
//! rule that holds also leads to `cannot_tell` if its evidence could be explained by another cause
//! whose rule fails only because an interval is too wide. A confident wrong answer is worse than
//! none.
//!
//! Reading the data is left to `linerate-observe`, and printing to `linerate-report`.

mod asked;
mod called;
mod collector;
mod doubts;
mod evidence;
mod facts;
mod functions;
mod gain;
mod herd;
mod kernel_parts;
mod locks;
mod losses;
mod measure;
mod minor;
mod one_cpu;
mod queues;
pub mod remarks;
mod requests;
mod rest;
mod roles;
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

use self::rules::{Condition, Next, Rule, Verdict, rules, subjects};
use linerate_record::stats::Estimate;
use linerate_record::why::{Cause, Observation, WhyFinding, WhyRemark};

/// A rule that holds, at least on average, and the subject that it holds for.
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

/// Minimum gain for a finding to be reported, in percent. Smaller gains are within the
/// minute-to-minute variation of a rate.
const WORTH_PERCENT: f64 = 2.0;
/// Minimum gain for a finding about packet loss to be reported, in percent. Every additional packet
/// delivered is a gain, so this limit reflects only the accuracy of the counters.
const WORTH_OF_LOSS_PERCENT: f64 = 0.1;

/// What limits a program, and what else costs it time.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Findings, largest gain first; never empty. The first one is the answer.
    pub findings: Vec<WhyFinding>,
    /// Remarks, most relevant first, without those that say the same as the first finding.
    pub remarks: Vec<WhyRemark>,
}

/// Diagnoses an observed program.
pub fn explain(observation: &Observation) -> Diagnosis {
    let facts = Facts::new(observation);
    let mut findings = findings(&facts);
    let mut remarks = remarks::remarks(&facts, findings.first());
    if is_of_root(&facts) {
        // Root needs no sudo, and may not have it.
        let texts = findings.iter_mut().flat_map(|one| [&mut one.fix, &mut one.workaround]);
        let texts = texts.flatten().chain(remarks.iter_mut().map(|remark| &mut remark.next));
        texts.for_each(|text| *text = text.replace("sudo ", ""));
    }
    Diagnosis { findings, remarks }
}

/// Returns whether the observation includes all data that only root can read.
fn is_of_root(facts: &Facts<'_>) -> bool {
    let only_root = ["tracepoints", "scheduler", "kernel_samples", "sockets_and_drivers"];
    !only_root.iter().any(|what| facts.is_unread(what))
}

fn findings(facts: &Facts<'_>) -> Vec<WhyFinding> {
    if let Some(nothing) = rest::ended(facts).or_else(|| rest::no_traffic(facts)) {
        return vec![nothing];
    }
    let worth = if facts.is_lossy() { WORTH_OF_LOSS_PERCENT } else { WORTH_PERCENT };
    let is_worth = |held: &Held<'_>| held.gain.is_none_or(|gain| gain.high >= worth);
    let Judged { held, suspects, doubtful, likely } = judge(facts);
    let mut findings: Vec<WhyFinding> = held.iter().map(|held| finding(facts, held)).collect();
    let is_found = held.iter().any(is_worth);
    if let Some(unserved) = rest::unserved(facts).filter(|_| !is_found) {
        findings.insert(0, unserved);
    } else if is_found {
        // A thread that is busy with something unknown is not explained by a small part of its
        // time.
        let worth = held.iter().filter(|held| is_worth(held));
        if minor::are_minor_together(facts, worth) && !held.iter().any(of_memory) {
            rest::own_work(facts).into_iter().for_each(|own| findings.insert(0, own));
        }
    } else {
        let doubtful = doubtful.iter().find(|(held, _)| is_worth(held));
        let probable = |cause| likely.iter().find(|likely| likely.rule.cause == cause);
        let doubtful = doubtful.map(|(held, cause)| (held, *cause, probable(*cause)));
        let likely = likely.iter().find(|likely| likely.gain.is_some() && is_worth(likely));
        findings.insert(0, rest::rest(facts, &suspects, doubtful, likely));
    }
    if let Some(observer) = rest::observer(facts) {
        // A removable cause comes first, because it gains more than the observer costs.
        let at = if held.iter().any(is_worth) { findings.len() } else { 0 };
        findings.insert(at, observer);
    }
    findings
}

/// Result of applying all rules.
struct Judged<'a> {
    /// Rules that hold, one per cause, by decreasing gain.
    held: Vec<Held<'a>>,
    suspects: Vec<Suspect>,
    /// Rules that hold, each with another cause that would explain the same evidence and probably
    /// applies too.
    doubtful: Vec<(Held<'a>, Cause)>,
    /// Rules that hold on average, but not with their entire intervals, by decreasing gain.
    likely: Vec<Held<'a>>,
}

fn judge<'a>(facts: &Facts<'a>) -> Judged<'a> {
    let mut held: Vec<Held<'a>> = Vec::new();
    let mut suspects: Vec<Suspect> = Vec::new();
    let mut likely: Vec<Held<'a>> = Vec::new();
    for rule in rules() {
        match apply(rule, facts) {
            Applied { best: Some(best), .. } => keep_larger(&mut held, best),
            Applied { is_suspect: true, .. } => suspects.push(Suspect { rule }),
            Applied { likely: one, .. } => likely.extend(one),
        }
    }
    let found: Vec<Found> = held.iter().map(|one| Found::of(facts, one)).collect();
    let is_explained = |held: &Held<'a>| found.iter().any(|found| found.explains(facts, held));
    held.retain(|held| !is_explained(held) && !is_wanted(facts, held));
    let probable: Vec<Found> = likely.iter().map(|one| Found::of(facts, one)).collect();
    let explanation = |held: &Held<'a>| {
        let mut probable = probable.iter().filter(|probable| probable.explains(facts, held));
        let cause = probable.find(|it| !is_true_either_way(held.rule.cause, it.rule.cause));
        cause.map(|it| it.rule.cause)
    };
    let doubtful: Vec<(Held<'a>, Cause)> = held
        .extract_if(.., |held| explanation(held).is_some())
        .filter_map(|held| explanation(&held).map(|cause| (held, cause)))
        .collect();
    let is_known =
        |rule: &Rule| found.iter().any(|it| it.rule.cause == rule.cause || it.is_named_by(rule));
    suspects.retain(|suspect| !is_known(suspect.rule));
    likely.retain(|likely| !is_explained(likely) && !is_wanted(facts, likely));
    for list in [&mut held, &mut likely] {
        list.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.rule.cause.cmp(&b.rule.cause)));
    }
    own_work_first(facts, &mut held);
    Judged { held, suspects, doubtful, likely }
}

/// Returns whether a cause may also affect the rest of a thread's work: memory stalls slow down any
/// kind of work.
fn of_memory(held: &Held<'_>) -> bool {
    matches!(held.rule.cause, Cause::CacheMisses | Cause::FalseSharing | Cause::Copying)
}

/// Moves the finding about the program's own work, if its avoidable part is unknown, ahead of
/// findings about minor parts of the CPU time.
fn own_work_first<'a>(facts: &Facts<'a>, held: &mut [Held<'a>]) {
    let is_own = |one: &Held<'_>| one.rule.cause == Cause::ProcessingCost && one.gain.is_none();
    let Some(own) = held.iter().position(is_own) else { return };
    if own > 0 && minor::are_minor_together(facts, &held[..own]) {
        held[..=own].rotate_right(1);
    }
}

/// A rule that holds, at least on average, and may explain the evidence of other rules.
struct Found {
    rule: &'static Rule,
    gain: Option<Estimate>,
    /// Whether the cause is a small part of the CPU time.
    is_minor: bool,
}

impl Found {
    fn of<'a>(facts: &Facts<'a>, held: &Held<'a>) -> Self {
        Self { rule: held.rule, gain: held.gain, is_minor: minor::is_minor(facts, held) }
    }

    /// Returns whether `rule` lists the cause as an explanation.
    fn is_named_by(&self, rule: &Rule) -> bool {
        rule.explained_by.contains(&self.rule.cause)
    }

    /// Returns whether the cause explains what another rule found: that rule names it, and, if the
    /// cause is a part of the CPU time, the part is large enough.
    fn explains(&self, facts: &Facts<'_>, held: &Held<'_>) -> bool {
        /// Minimum gain from removing a cost, at the high end of its interval, relative to the gain
        /// that it explains.
        const OF_GAIN: f64 = 0.5;
        let is_small = match (self.rule.gain, self.gain.zip(held.gain)) {
            (GainModel::CostRemoved(..), Some((own, other))) => own.high < OF_GAIN * other.value,
            _ => held.rule.cause == Cause::ProcessingCost && held.gain.is_none() && self.is_minor,
        };
        self.is_named_by(held.rule) && !is_small && !holds_lock(facts, held)
    }
}

/// Returns whether a stall may be the reason why a lock is held for long, rather than a consequence
/// of the lock, because it stalls a connection to a server. Stalled replies only delay a client
/// that would otherwise queue for the lock.
fn holds_lock(facts: &Facts<'_>, held: &Held<'_>) -> bool {
    match held.subject {
        Subject::Socket(socket) if held.rule.cause == Cause::NagleDelay => {
            !roles::is_accepted(facts, socket)
        }
        _ => false,
    }
}

/// Returns whether `held` is worth reporting although the more specific cause `likely` probably
/// applies: the statement that a thread's work takes all of its time is true whether or not another
/// CPU has room for a second thread.
fn is_true_either_way(held: Cause, likely: Cause) -> bool {
    (held, likely) == (Cause::ProcessingCost, Cause::SingleThread)
}

/// Returns a finding's sort key, which is its predicted gain. Unpredictable gains count as small.
fn size(held: &Held<'_>) -> f64 {
    held.gain.map_or(WORTH_PERCENT, |gain| gain.value)
}

/// Result of applying a rule to all subjects in its scope.
struct Applied<'a> {
    /// Subject with the largest gain among those for which the rule holds.
    best: Option<Held<'a>>,
    /// Whether there is a subject for which the rule's symptoms hold and no condition fails, but
    /// part of the evidence could not be read.
    is_suspect: bool,
    /// Subject with the largest gain among those for which only the width of an interval keeps the
    /// rule from holding.
    likely: Option<Held<'a>>,
}

/// Applies a rule to all subjects in its scope.
fn apply<'a>(rule: &'static Rule, facts: &Facts<'a>) -> Applied<'a> {
    let (mut best, mut likely): (Option<Held<'a>>, Option<Held<'a>>) = (None, None);
    let mut is_suspect = false;
    let keep_best = |best: &mut Option<Held<'a>>, subject| {
        let held = Held { rule, subject, gain: rule.gain.estimate(facts, subject) };
        if best.as_ref().is_none_or(|best| is_before(&held, best)) {
            *best = Some(held);
        }
    };
    for subject in subjects(rule.scope, facts) {
        let verdicts = rule.conditions.iter().map(|one| one.verdict(facts, subject));
        let verdicts: Vec<Verdict> = verdicts.collect();
        if verdicts.iter().all(|verdict| *verdict == Verdict::Holds) {
            keep_best(&mut best, subject);
        } else if rule.conditions.iter().all(|one| one.is_met_by_value(facts, subject)) {
            keep_best(&mut likely, subject);
        }
        is_suspect |= may_hold(rule, &verdicts, |condition| condition.is_open(facts, subject));
    }
    Applied { best, is_suspect, likely }
}

/// Returns whether a rule's symptoms are present, and none of its other conditions fails, but some
/// could not be read. A lower bound below the threshold does not count as a reading.
fn may_hold(rule: &Rule, verdicts: &[Verdict], is_open: impl Fn(&Condition) -> bool) -> bool {
    let (symptoms, others) = verdicts.split_at(rule.symptoms);
    let conditions = rule.conditions[rule.symptoms..].iter();
    rule.symptoms > 0
        && symptoms.iter().all(|verdict| *verdict == Verdict::Holds)
        && others.iter().any(|verdict| *verdict != Verdict::Holds)
        && conditions.zip(others).all(|(one, verdict)| *verdict != Verdict::Fails || is_open(one))
}

/// Returns whether `one` sorts before `other`: by decreasing gain, then by name. This keeps the
/// result independent of the order in which subjects were read.
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

/// Returns whether a limit is intended or cannot be removed: a rate limit that is not significantly
/// below the line rate that the user requested, or a path limited by the machine's own link.
fn is_wanted(facts: &Facts<'_>, held: &Held<'_>) -> bool {
    /// Relative tolerance between a limiter's rate and line rate, which count headers differently.
    const ERROR: f64 = 0.1;
    if held.rule.cause == Cause::PathBandwidth && rest::full_link(facts).is_some() {
        return true;
    }
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

/// Returns what limits the program once the cause is removed.
fn next_limit(facts: &Facts<'_>, held: &Held<'_>) -> String {
    let Held { rule, subject, .. } = held;
    if rule.gain.is_capped_by_line(facts, *subject) {
        return "the requested line rate".to_owned();
    }
    let next = match rule.then_limited_by {
        Next::Is(next) => return next.to_owned(),
        Next::LoadOr(next) => next,
    };
    match rule.gain.reaches_load(facts, *subject) {
        Some(true) => "the offered load".to_owned(),
        Some(false) => next.to_owned(),
        None => format!("the offered load, or {next}"),
    }
}

fn finding(facts: &Facts<'_>, held: &Held<'_>) -> WhyFinding {
    let Held { rule, subject, .. } = held;
    let fill = |text: &str| words::fill(text, facts, *subject);
    let mut gain = rule.gain.gain(facts, *subject);
    gain.then_limited_by = Some(next_limit(facts, held));
    WhyFinding {
        cause: rule.cause,
        sentence: fill(rule.sentence),
        evidence: words::evidence(rule, facts, *subject),
        gain,
        fix: Some(fill(rule.fix)),
        workaround: rule.workaround.map(fill).filter(|text| !text.is_empty()),
        wrong_if: fill(rule.wrong_if),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::names;

    #[test]
    fn every_placeholder_has_a_value() {
        for rule in rules() {
            let texts = [rule.sentence, rule.fix, rule.wrong_if].into_iter();
            for name in texts.chain(rule.workaround).flat_map(names) {
                assert!(words::is_known(name), "{{{name}}} in {}", rule.cause.name());
            }
        }
    }
}
