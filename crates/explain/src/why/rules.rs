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

pub use crate::rule::{Bound, Verdict};

use super::facts::{Facts, Subject};
use super::gain::GainModel;
use super::measure::Measure;
use crate::rule::{self, at_least, at_most};
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

/// A condition in a rule.
pub type Condition = rule::Condition<Measure>;

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
