// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules as data: for each cause, conditions with thresholds and their sources, the predicted
//! gain, a fix, a workaround, and an observation that would disprove it.

mod avoidable;
mod cost;
mod cpu;
mod loss;
mod memory;
mod network;
mod servers;
mod sleeps;

pub(super) use cpu::{SHORT_US, TURNS, VISIBLE};
pub(super) use loss::OWN;
pub(super) use sleeps::BACKGROUND;

use super::facts::{Facts, Subject};
use super::gain::GainModel;
use super::measure::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{Cause, SocketKind};

const A_TENTH: &str = "10 % of the samples";
const PENDING_SOURCE: &str = "a server that is always busy always has a request waiting";
const KERNEL_SAMPLES: &str = "kernel samples, as root or with sysctl kernel.perf_event_paranoid=1";

/// What a rule is evaluated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole program, represented by its busiest thread.
    Program,
    /// Each thread.
    Threads,
    /// Each CPU.
    Cpus,
    /// Each interface.
    Interfaces,
    /// Each queueing discipline.
    Qdiscs,
    /// Each socket that receives packets: UDP, packet, raw.
    Sockets,
    /// Each TCP connection.
    Connections,
    /// Each listening TCP socket.
    Listeners,
    /// Each quota.
    Quotas,
}

/// Threshold of a condition, and the side on which a measure's entire interval must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At or above.
    AtLeast(f64),
    /// At or below.
    AtMost(f64),
}

/// A condition in a rule.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The quantity.
    pub measure: Measure,
    /// Threshold, and the side on which the interval must lie.
    pub bound: Bound,
    /// Source of the threshold.
    pub source: &'static str,
}

/// Result of evaluating a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The entire interval is on the required side.
    Holds,
    /// At least part of the interval is on the other side.
    Fails,
    /// The measure could not be read.
    Unread,
}

impl Bound {
    /// Compares a measured value with the threshold; `None` means that it could not be read.
    pub fn verdict(self, measured: Option<Estimate>) -> Verdict {
        let Some(Estimate { low, high, .. }) = measured else { return Verdict::Unread };
        let holds = match self {
            Self::AtLeast(least) => low >= least,
            Self::AtMost(most) => high <= most,
        };
        if holds { Verdict::Holds } else { Verdict::Fails }
    }
}

impl Condition {
    /// Evaluates the condition for a subject.
    pub fn verdict<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> Verdict {
        self.bound.verdict(self.measure.of(facts, subject))
    }

    /// Returns whether only a lower bound of the measure is known, which is below the threshold.
    pub(super) fn is_open<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> bool {
        let Bound::AtLeast(least) = self.bound else { return false };
        let measured = self.measure.of(facts, subject);
        measured.is_some_and(|it| it.low < least && it.high == f64::INFINITY)
    }

    /// Returns whether the most likely value is on the required side, whatever its interval.
    pub(super) fn is_met_by_value<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> bool {
        let value = self.measure.of(facts, subject).map(|one| Estimate::exactly(one.value));
        self.bound.verdict(value) == Verdict::Holds
    }
}

/// Creates a condition that holds if the entire interval is at or above `least`.
const fn at_least(measure: Measure, least: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtLeast(least), source }
}

/// Creates a condition that holds if the entire interval is at or below `most`.
const fn at_most(measure: Measure, most: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtMost(most), source }
}

/// What limits a program once a cause is removed, in a few words.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The named limit.
    Is(&'static str),
    /// The offered load or the named limit, whichever is reached first.
    LoadOr(&'static str),
}

/// A rule. `words` fills in the placeholders in its texts, which are in braces.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Cause that the rule finds.
    pub cause: Cause,
    /// What the rule is evaluated for.
    pub scope: Scope,
    /// Conditions, all of which must hold.
    pub conditions: &'static [Condition],
    /// Number of conditions, counted from the first, that must hold for the rule to be a suspect if
    /// one of the others cannot be read; 0 if the rule is never a suspect.
    pub symptoms: usize,
    /// Causes that would produce all of this rule's evidence as well. If one of them is found, this
    /// rule is not reported; if one probably applies, the answer is `cannot_tell`.
    pub explained_by: &'static [Cause],
    /// Predicted gain from removing the cause.
    pub gain: GainModel,
    /// What limits the program next, in a few words.
    pub then_limited_by: Next,
    /// The claim, with evidence.
    pub sentence: &'static str,
    /// The command or setting that removes the cause.
    pub fix: &'static str,
    /// A workaround that relieves the symptom.
    pub workaround: Option<&'static str>,
    /// Observation that would disprove the finding.
    pub wrong_if: &'static str,
    /// Measurement that shows whether the cause applies, for use if the rule's evidence was
    /// unreadable.
    pub measure: &'static str,
}

/// Returns all rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    cpu::RULES
        .iter()
        .chain(loss::RULES)
        .chain(network::RULES)
        .chain(servers::RULES)
        .chain(sleeps::RULES)
        .chain(memory::RULES)
        .chain(cost::RULES)
        .chain(avoidable::RULES)
}

/// Returns the subjects in a scope.
pub fn subjects<'a>(scope: Scope, facts: &Facts<'a>) -> Vec<Subject<'a>> {
    let observation = facts.observation;
    let takes_packets =
        |kind| matches!(kind, SocketKind::Udp | SocketKind::Packet | SocketKind::Raw);
    let sockets = observation.sockets.iter();
    let interfaces = observation.interfaces.iter();
    match scope {
        Scope::Program => vec![Subject::Program],
        Scope::Threads => {
            let threads = observation.threads.iter().filter(|thread| !facts.is_brief(thread));
            threads.map(Subject::Thread).collect()
        }
        Scope::Cpus => observation.cpus.iter().map(Subject::Cpu).collect(),
        Scope::Interfaces => interfaces.map(Subject::Interface).collect(),
        Scope::Qdiscs => interfaces
            .flat_map(|interface| interface.qdiscs.iter().map(|q| Subject::Qdisc(interface, q)))
            .collect(),
        Scope::Sockets => sockets.filter(|s| takes_packets(s.kind)).map(Subject::Socket).collect(),
        Scope::Connections => {
            sockets.filter(|s| s.kind == SocketKind::Tcp).map(Subject::Socket).collect()
        }
        Scope::Listeners => {
            sockets.filter(|s| s.kind == SocketKind::TcpListen).map(Subject::Socket).collect()
        }
        Scope::Quotas => observation.quotas.iter().map(Subject::Quota).collect(),
    }
}
