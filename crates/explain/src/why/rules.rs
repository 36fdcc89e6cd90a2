// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules as data: for each cause, its conditions with thresholds and their sources, the
//! predicted gain, the fix, a workaround, and the result that would disprove it.

mod cost;
mod cpu;
mod loss;
mod network;

use super::facts::{Facts, Subject};
use super::gain::GainModel;
use super::measure::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{Cause, SocketKind};

/// Subjects for which a rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The program as a whole, represented by its busiest thread.
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

/// Side of the threshold on which the whole interval of a measure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not below this.
    AtLeast(f64),
    /// Not above this.
    AtMost(f64),
}

/// A condition in a rule.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The quantity.
    pub measure: Measure,
    /// Its threshold.
    pub bound: Bound,
    /// Source of the threshold.
    pub source: &'static str,
}

/// Result of evaluating a condition on an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the required side.
    Holds,
    /// Part of the interval is on the other side.
    Fails,
    /// The measure could not be read.
    Unread,
}

impl Condition {
    /// Evaluates the condition for a subject.
    pub fn verdict<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> Verdict {
        let Some(Estimate { low, high, .. }) = self.measure.of(facts, subject) else {
            return Verdict::Unread;
        };
        let holds = match self.bound {
            Bound::AtLeast(least) => low >= least,
            Bound::AtMost(most) => high <= most,
        };
        if holds { Verdict::Holds } else { Verdict::Fails }
    }
}

/// At least this.
const fn at_least(measure: Measure, least: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtLeast(least), source }
}

/// At most this.
const fn at_most(measure: Measure, most: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtMost(most), source }
}

/// A rule. Its texts contain placeholders in braces, which `words` replaces.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The cause that the rule finds.
    pub cause: Cause,
    /// Its input.
    pub scope: Scope,
    /// Conditions, all of which must hold.
    pub conditions: &'static [Condition],
    /// Number of leading conditions that make the rule a suspect if another condition could not be
    /// read; 0 for a rule that is never a suspect.
    pub symptoms: usize,
    /// Causes whose evidence includes that of this rule: if one of them is found, this rule is not
    /// reported.
    pub explained_by: &'static [Cause],
    /// Predicted gain from removing the cause.
    pub gain: GainModel,
    /// The next limit.
    pub then_limited_by: Option<&'static str>,
    /// The claim, with its evidence.
    pub sentence: &'static str,
    /// What removes the cause.
    pub fix: &'static str,
    /// Workaround that relieves the symptom.
    pub workaround: Option<&'static str>,
    /// Observation that would disprove the finding.
    pub wrong_if: &'static str,
    /// Measurement that decides the rule if its evidence could not be read.
    pub measure: &'static str,
}

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    cpu::RULES.iter().chain(loss::RULES).chain(network::RULES).chain(cost::RULES)
}

/// The subjects in a scope.
pub fn subjects<'a>(scope: Scope, facts: &Facts<'a>) -> Vec<Subject<'a>> {
    let observation = facts.observation;
    let takes_packets =
        |kind| matches!(kind, SocketKind::Udp | SocketKind::Packet | SocketKind::Raw);
    let sockets = observation.sockets.iter();
    let interfaces = observation.interfaces.iter();
    match scope {
        Scope::Program => vec![Subject::Program],
        Scope::Threads => observation.threads.iter().map(Subject::Thread).collect(),
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
