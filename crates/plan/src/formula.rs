// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans using the formula in [`crate::model`], for processors on which a worker's service time
//! does not depend on its neighbours.
//!
//! A setting is a mapping and a burst size. The changes to a setting are the path's [`candidates`],
//! which include the best mapping, so one search step covers everything. Gains are ratios of rates
//! computed with the same random draws, so that common factors cancel.
//!
//! Placement, parked workers and slower polling are not planned, as the formula has no terms for
//! them.

use crate::candidates::{
    Advice, PathShape, Proposal, best_of_each, candidates, other_bursts, unpinned,
};
use crate::costs::{Costs, StageCost};
use crate::inputs::Inputs;
use crate::limits::Limits;
use crate::model::{Environment, Prediction, loads, predict, speedup};
use crate::predictor::{
    Basis, Bounds, CandidateOf, Changed, Placement, Planner, Predicted, PredictedBy, Predictor,
};
use crate::search::{self, Subject, about, runs};
use crate::verdict::is_worth_it;
use linerate_path::mapping::describe;
use linerate_path::model::Mapping;
use linerate_record::plan::{
    Bottleneck, Change, Model, PlanReport, PlannedWorker, Proof, Recommendation, Search,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::{KernelAdvice, RuledOut};
use linerate_record::units::three_digits;
use linerate_record::{Figure, Tier};
use std::convert::Infallible;

/// Inputs to the formula other than the path.
#[derive(Clone, Copy, Debug)]
pub struct Formula<'a> {
    /// Costs of the stages and of the machine.
    pub inputs: &'a Inputs,
    /// Kernel advice based on a run; `None` without a run.
    pub kernels: Option<&'a KernelAdvice>,
    /// Path file for use in commands, shell-quoted.
    pub file: &'a str,
    /// Whether this build can run the path on this machine, so that the plan may suggest commands
    /// that measure it.
    pub can_run: bool,
}

/// Predicts a path's mapping and recommends changes.
///
/// # Panics
/// Panics if the specifications or costs belong to another path.
pub fn plan(subject: &Subject<'_>, formula: &Formula<'_>) -> PlanReport {
    let Ok(report) = search::plan(subject, &Planning::new(subject, formula));
    report
}

/// A mapping without CPU pinning, and a burst size in packets.
#[derive(Clone, Debug)]
struct Setting {
    mapping: Mapping,
    burst: u32,
}

impl Setting {
    fn pair(&self) -> (&Mapping, u32) {
        (&self.mapping, self.burst)
    }
}

struct Planning<'a> {
    subject: &'a Subject<'a>,
    formula: &'a Formula<'a>,
    costs: &'a Costs,
    env: &'a Environment,
    limits: Limits,
    written: PredictedBy<Self>,
    advice: Advice,
}

impl<'a> Planning<'a> {
    fn new(subject: &'a Subject<'a>, formula: &'a Formula<'a>) -> Self {
        let Subject { path, specs, .. } = subject;
        let Inputs { costs, env, flows, quota, .. } = formula.inputs;
        let line_kpps = subject.line_kpps.map(|kpps| kpps * f64::from(*flows));
        let limits = Limits::new(line_kpps, *quota, costs, env);
        let (mapping, burst) = (unpinned(&path.mapping), path.run.burst);
        let advice = candidates(&PathShape::new(path, specs), costs, env, &mapping, burst);
        let evidence = predict(&mapping, burst, costs, env);
        let written = predicted(Setting { mapping, burst }, evidence, *flows, &limits);
        Self { subject, formula, costs, env, limits, written, advice }
    }

    /// Converts the total rate over all flows to a per-flow rate.
    fn of_flow(&self, all: Estimate) -> Estimate {
        let flows = f64::from(self.formula.inputs.flows);
        let [value, low, high] = [all.value, all.low, all.high].map(|kpps| kpps / flows);
        Estimate { value, low, high, ..all }
    }

    /// Returns a setting's rate, capped at its limits.
    fn capped(&self, of: &PredictedBy<Self>) -> Estimate {
        let Setting { mapping, burst } = &of.setting;
        self.limits.cap(of.evidence.kpps, mapping.workers(), *burst)
    }

    /// Returns whether the per-burst cost was measured. If it is merely assumed, no burst size is
    /// certain to be better than another.
    fn knows_bursts(&self) -> bool {
        self.env.burst_ticks.n > 0
    }

    fn given(&self) -> &Setting {
        &self.written.setting
    }

    /// Returns all possible recommendations: every proposal at the burst size as written and, if
    /// the per-burst cost was measured, also the best proposal at another burst size and the
    /// mapping as written at another burst size. Of burst sizes with about the same rate, the
    /// smallest is chosen.
    fn proposals(&self) -> Vec<Proposal> {
        let given = self.given();
        let rate = |proposal: &Proposal| proposal.prediction.kpps.value;
        let best_of = |all: Vec<Proposal>| {
            let best = all.iter().map(rate).fold(0.0, f64::max);
            let as_good = all.into_iter().filter(|one| !is_worth_it(best, rate(one)));
            as_good.min_by_key(|one| one.burst)
        };
        let proposals = self.advice.proposals.iter().cloned();
        let (mut all, other): (Vec<Proposal>, Vec<Proposal>) =
            proposals.partition(|proposal| proposal.burst == given.burst);
        if !self.knows_bursts() {
            return all;
        }
        let other = other.into_iter().filter(|proposal| proposal.mapping != given.mapping);
        all.extend(best_of(other.collect()));
        let bursts =
            other_bursts(self.subject.path.run.ring, &given.mapping, given.burst).map(|burst| {
                let prediction = predict(&given.mapping, burst, self.costs, self.env);
                let name = format!("bursts of {burst}");
                Proposal { name, mapping: given.mapping.clone(), burst, prediction }
            });
        all.extend(best_of(bursts.collect()));
        all
    }

    /// Returns the busiest worker's time per packet entering the path, in nanoseconds.
    fn busiest_ns(&self, setting: &Setting) -> f64 {
        let loads = loads(setting.pair(), self.costs, self.env);
        loads.into_iter().fold(0.0, f64::max) * 1e9 / self.env.ticks_per_s
    }

    /// Recommends other checksum and copy variants if the kernel advice does.
    fn kernels(&self, advice: &KernelAdvice) -> Option<Recommendation> {
        let before = advice.path_kpps.as_number().filter(|kpps| *kpps > 0.0)?;
        let after = &advice.path_fastest_kpps;
        let reached = after.as_number()?;
        if !advice.worth_trying || !is_worth_it(reached, before) {
            return None;
        }
        let value = reached / before - 1.0;
        let of = |end: Option<f64>| end.map_or(value, |kpps| kpps / before - 1.0);
        let [low, high] = [of(after.low).min(value), of(after.high).max(value)];
        let kpps = self.written.evidence.kpps;
        let confidence = after.confidence.unwrap_or(kpps.confidence);
        let gain = Estimate { value, low, high, confidence, n: after.n };
        let [value, low, high] = [value, low, high].map(|gain| kpps.value * (1.0 + gain));
        let (fastest, in_use) = (&advice.fastest, &advice.in_use);
        let command = format!("linerate run --kernels {fastest} {}", self.formula.file);
        Some(Recommendation {
            change: format!("kernels {fastest} instead of {in_use}"),
            kind: Change::KernelVariant,
            mapping: describe(&self.given().mapping, &self.subject.path.stages),
            cpus: None,
            beside: Vec::new(),
            burst: self.given().burst,
            predicted_kpps: number("kpps", self.of_flow(Estimate { value, low, high, ..gain })),
            gain: number("ratio", gain),
            why: advice.sentence.clone(),
            proof: Proof {
                sentence: format!(
                    "the speed-up is below {} when the path runs with these kernels",
                    three_digits(1.0 + gain.low)
                ),
                command: self.formula.can_run.then_some(command),
            },
        })
    }
}

impl Predictor for Planning<'_> {
    type Setting = Setting;
    type Evidence = Prediction;
    type Error = Infallible;

    fn predict(&self, setting: Setting) -> Result<PredictedBy<Self>, Infallible> {
        let evidence = predict(&setting.mapping, setting.burst, self.costs, self.env);
        Ok(predicted(setting, evidence, self.formula.inputs.flows, &self.limits))
    }

    fn bounds(&self, of: &PredictedBy<Self>) -> Result<Bounds, Infallible> {
        let ratio = speedup(self.given().pair(), of.setting.pair(), self.costs, self.env);
        let (kpps, written) = (self.capped(of), self.capped(&self.written));
        // If line rate or a quota caps the rate, it caps the gain too.
        let scale = (kpps.value / written.value) / ratio.value;
        let value = kpps.value / written.value - 1.0;
        let most = (kpps.high / written.value - 1.0).max(value);
        let low = (ratio.low * scale - 1.0).min(value);
        let high = (ratio.high * scale - 1.0).clamp(value, most);
        Ok(Bounds { kpps: self.of_flow(kpps), gain: Estimate { value, low, high, ..ratio } })
    }
}

impl Planner for Planning<'_> {
    const MODEL: Model = Model::Formula;
    const METHOD: &'static str = "slowest-worker formula applied to the stage costs";
    const STEPS: usize = 1;

    fn written(&self) -> &PredictedBy<Self> {
        &self.written
    }

    fn changes(&self, _of: &PredictedBy<Self>) -> Vec<Changed<Setting>> {
        let changed = |proposal: Proposal| {
            let kind = kind(&self.given().mapping, &proposal);
            let Proposal { name, mapping, burst, .. } = proposal;
            Changed { name, kind, setting: Setting { mapping, burst } }
        };
        self.proposals().into_iter().map(changed).collect()
    }

    /// Drops all settings that reach line rate except the one with the fewest workers and the
    /// smallest burst. Keeps all settings that do not reach it.
    fn needed(&self, candidates: Vec<CandidateOf<Self>>) -> Vec<CandidateOf<Self>> {
        let size = |one: &CandidateOf<Self>| {
            let Setting { mapping, burst } = &one.predicted.setting;
            (mapping.workers(), *burst, mapping.segments.len())
        };
        let reaches = |one: &CandidateOf<Self>| self.is_enough(one.predicted.kpps);
        let fewest = candidates.iter().filter(|one| reaches(one)).map(size).min();
        let is_needed = |one: &CandidateOf<Self>| !reaches(one) || Some(size(one)) == fewest;
        candidates.into_iter().filter(is_needed).collect()
    }

    fn is_enough(&self, kpps: f64) -> bool {
        self.subject.line_kpps.is_some_and(|line| kpps >= line * (1.0 - 1e-9))
    }

    fn for_line(&self) -> Vec<Setting> {
        let shape = PathShape::new(self.subject.path, self.subject.specs);
        let burst = self.given().burst;
        let best = best_of_each(&shape, self.costs, self.env, burst);
        best.into_iter().map(|mapping| Setting { mapping, burst }).collect()
    }

    fn limits(&self, of: &[&PredictedBy<Self>]) -> Vec<String> {
        let of = [&self.written].into_iter().chain(of.first().copied());
        let sentence = |one: &PredictedBy<Self>| {
            let Setting { mapping, burst } = &one.setting;
            self.limits.sentence(one.evidence.kpps, mapping.workers(), *burst)
        };
        let mut all: Vec<String> = of.filter_map(sentence).collect();
        all.dedup();
        all
    }

    fn beyond(&self) -> Option<Recommendation> {
        self.formula.kernels.and_then(|advice| self.kernels(advice))
    }

    fn placement(&self, setting: &Setting) -> Placement {
        let Setting { mapping, burst } = setting.clone();
        Placement { mapping, burst, cpus: None, beside: Vec::new() }
    }

    fn why(&self, change: &CandidateOf<Self>) -> String {
        let [before, after] = [self.given(), &change.predicted.setting]
            .map(|setting| three_digits(self.busiest_ns(setting)));
        let reason = match change.kind {
            Change::Merge => "fewer packets cross rings",
            Change::Replicate => "workers split the flows and share nothing else",
            Change::Split => "the busiest worker's work is split",
            _ => "the fixed cost per burst is spread over more packets",
        };
        format!("the busiest worker takes {after} ns per packet instead of {before}: {reason}")
    }

    fn proof(&self, _predicted: &PredictedBy<Self>, bounds: &Bounds) -> Proof {
        let sentence = format!(
            "the speed-up is below {} with both settings measured in interleaved rounds",
            three_digits((bounds.gain.low + 1.0).max(0.0))
        );
        let command = self.formula.can_run.then(|| format!("linerate tune {}", self.formula.file));
        Proof { sentence, command }
    }

    fn bottleneck(&self) -> Bottleneck {
        let segment = self.written.evidence.bottleneck;
        let stages = self.given().mapping.segments[segment].stages.clone();
        let source = (stages.start == 0).then_some(&self.costs.source);
        let sink = (stages.end == self.costs.stages.len()).then_some(&self.costs.sink);
        // Users can change stages, but not the ends of the path.
        let take = match (source.is_some(), sink.is_some()) {
            (true, true) => "source and sink take",
            (true, false) => "the source takes",
            _ => "the sink takes",
        };
        let ends = [source, sink].into_iter().flatten().map(|end| end.ticks.value).sum::<f64>();
        let stages = self.costs.stages[stages].iter();
        let ns = |ticks: f64| three_digits(ticks * 1e9 / self.env.ticks_per_s);
        let load = ns(loads(self.given().pair(), self.costs, self.env)[segment]);
        let worker = format!("{segment}.0");
        if self.is_enough(self.written.kpps) {
            let line = three_digits(self.subject.line_kpps.unwrap_or_default());
            let sentence = format!(
                "limited by line rate: all {line} kpps get through; the busiest worker, {worker}, \
                 takes {load} ns per packet"
            );
            return Bottleneck { stage: None, worker: None, sentence };
        }
        let most = stages.max_by(|a: &&StageCost, b| a.ticks.value.total_cmp(&b.ticks.value));
        let within = most.map_or(String::new(), |most| {
            let ends = match ends > most.ticks.value {
                true => format!("; {take} {} ns of it", ns(ends)),
                false => String::new(),
            };
            format!(
                "; `{}` takes {} ns per packet, more than any other stage{ends}",
                most.name,
                ns(most.ticks.value)
            )
        });
        Bottleneck {
            stage: most.map(|stage| stage.name.clone()),
            sentence: format!("worker {worker} is the bottleneck at {load} ns per packet{within}"),
            worker: Some(worker),
        }
    }

    fn workers(&self) -> Vec<PlannedWorker> {
        let loads = loads(self.given().pair(), self.costs, self.env);
        let busiest = loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let Setting { mapping, burst } = self.given();
        let kpps = self.written.evidence.kpps.value;
        let passed = self.limits.passed_by_line(kpps, mapping.workers(), *burst);
        let written = &self.subject.path.mapping.segments;
        let mut workers = Vec::new();
        for (index, segment) in self.given().mapping.segments.iter().enumerate() {
            let given = match segment.stages.start {
                0 => 1.0,
                first => self.costs.stages[first].reach,
            };
            let share = given * self.env.share(segment.replicas);
            let ns = loads[index] * 1e9 / self.env.ticks_per_s / share;
            workers.extend((0..segment.replicas).map(|replica| PlannedWorker {
                name: format!("{index}.{replica}"),
                runs: runs(self.subject.path, segment.stages.clone()),
                cpu: written[index].cpus.get(replica as usize).copied(),
                utilisation: figure("ratio", passed * loads[index] / busiest),
                ns_per_packet: figure("ns/packet", ns),
                cpi: Figure::absent(
                    "cycles/instruction",
                    Tier::Model,
                    Self::METHOD,
                    "the formula uses times, not instruction counts",
                ),
            }));
        }
        workers
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let bursts = (!self.knows_bursts()).then(unmeasured_bursts);
        let ruled_out = self.advice.ruled_out.iter().cloned().chain(bursts);
        ruled_out.chain(unknown_to_the_formula()).collect()
    }

    fn extent(&self, _best_kpps: Option<f64>) -> Search {
        let there_are = self.advice.there_are;
        let sentence = format!(
            "exhaustive: none of the {} mappings that split and replicate the stages in order has \
             a higher predicted rate at this burst size than the best one shown; {}; placement is \
             not modelled",
            about(there_are),
            match self.knows_bursts() {
                true => {
                    "other burst sizes were tried with that mapping and with the mapping as written"
                }
                false => "other burst sizes were not tried",
            }
        );
        Search { there_are, exact: true, gap: Some(0.0), sentence }
    }

    fn basis(&self) -> Basis {
        let Inputs { flows, from, list, .. } = self.formula.inputs;
        let cpus = self.env.cpus as u32;
        Basis { costs: from.clone(), cpus, flows: *flows, inputs: list.clone() }
    }
}

/// Predicts a setting's per-flow rate, capped at its limits.
fn predicted(
    setting: Setting,
    evidence: Prediction,
    flows: u32,
    limits: &Limits,
) -> Predicted<Setting, Prediction> {
    let kpps = limits.cap(evidence.kpps, setting.mapping.workers(), setting.burst).value;
    Predicted { setting, kpps: kpps / f64::from(flows), evidence }
}

fn unmeasured_bursts() -> RuledOut {
    RuledOut {
        name: "other bursts".to_owned(),
        reason: "the cost per burst is assumed, and larger bursts add latency; tune measures both"
            .to_owned(),
    }
}

fn number(unit: &str, estimate: Estimate) -> Figure {
    Figure::number(unit, estimate, Tier::Model, Planning::METHOD)
}

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Model, Planning::METHOD)
}

fn unknown_to_the_formula() -> [RuledOut; 2] {
    let reason = "the formula does not model strands that share a pipeline; if costs are given in \
                  instructions, simulate the strands with --machine t1, --machine t2 or --machine \
                  FILE";
    [("place workers elsewhere", reason), ("park workers or slow their polling", reason)]
        .map(|(name, reason)| RuledOut { name: name.to_owned(), reason: reason.to_owned() })
}

/// Returns the kind of change a proposal makes.
fn kind(given: &Mapping, proposal: &Proposal) -> Change {
    let (before, after) = (given.segments.len(), proposal.mapping.segments.len());
    let workers = proposal.mapping.workers();
    if proposal.mapping == *given {
        Change::Burst
    } else if after > before {
        Change::Split
    } else if workers > after && workers > given.workers() {
        Change::Replicate
    } else if after < before || workers < given.workers() {
        Change::Merge
    } else {
        Change::Split
    }
}
