// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules as data: for each cause the evidence it takes, with thresholds and where those are
//! from, the gain it predicts, what removes it, what only hides it, and what would disprove it.

mod cost;
mod cpu;
mod loss;
mod network;

use super::facts::{Facts, Subject};
use super::gain::GainModel;
use super::measure::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{Cause, SocketKind};

/// Measures of a rule, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The program as a whole, by its busiest thread.
    Program,
    /// Each thread.
    Threads,
    /// Each CPU.
    Cpus,
    /// Each interface.
    Interfaces,
    /// Each queueing discipline.
    Qdiscs,
    /// Each socket that takes packets: UDP, packet, raw.
    Sockets,
    /// Each TCP connection.
    Connections,
    /// Each listening socket of TCP.
    Listeners,
    /// Each quota.
    Quotas,
}

/// On which side of its threshold a quantity has to be, with its whole interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not below this.
    AtLeast(f64),
    /// Not above this.
    AtMost(f64),
}

/// A piece of evidence that a rule takes.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The quantity.
    pub measure: Measure,
    /// Its threshold.
    pub bound: Bound,
    /// Source of the threshold.
    pub source: &'static str,
}

/// Result of a condition on an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the right side.
    Holds,
    /// Part of it is on the other side.
    Fails,
    /// It was not read.
    Unread,
}

impl Condition {
    /// Whether it holds for a subject.
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

/// A rule. Texts have names of values in braces, which `words` fills in.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The cause it finds.
    pub cause: Cause,
    /// Its input.
    pub scope: Scope,
    /// All of the evidence it takes.
    pub conditions: &'static [Condition],
    /// How many of the first conditions make it a suspect when one of the others was not read; 0
    /// for a rule that is never suspected.
    pub symptoms: usize,
    /// Causes whose evidence includes this rule's: where one of them is found, this one is not
    /// reported.
    pub explained_by: &'static [Cause],
    /// Predicted gain of removing it.
    pub gain: GainModel,
    /// The next limit.
    pub then_limited_by: Option<&'static str>,
    /// The claim with its evidence.
    pub sentence: &'static str,
    /// What removes the cause.
    pub fix: &'static str,
    /// What only hides it.
    pub workaround: Option<&'static str>,
    /// Observation that would disprove it.
    pub wrong_if: &'static str,
    /// Which measurement settles it where its evidence was not read.
    pub measure: &'static str,
}

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    cpu::RULES.iter().chain(loss::RULES).chain(network::RULES).chain(cost::RULES)
}

/// Measure of an observation that a rule uses.
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
