// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to change in a mapping, before anything of it has run.
//!
//! For processors on which the work of a strand takes as long whoever its neighbours are: each
//! mapping by the formula of [`crate::model`], each change as
//!
//! ```text
//! gain(change) = speed-up of the changed mapping over the one as written, less 1
//! recommended  = changes whose gain is worth it, the largest first, those forbidden left out
//! ```
//!
//! Every recommendation says what would prove it wrong. Left out, since the formula has no term for
//! them: placement, parked strands, slower polling. Processors whose strands share pipes are
//! simulated instead.

use crate::candidates::{Proposal, candidates, other_bursts, unpinned};
use crate::costs::{Costs, StageCost};
use crate::inputs::Inputs;
use crate::model::{Environment, loads, predict, speedup};
use crate::verdict::MIN_GAIN;
use linerate_path::mapping::describe;
use linerate_path::model::{Mapping, Path};
use linerate_path::spec::StageSpec;
use linerate_record::plan::{
    Bottleneck, Change, Model, PlanReport, PlannedStrand, Proof, Recommendation, Search,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::{KernelAdvice, RuledOut};
use linerate_record::units::three_digits;
use linerate_record::{Figure, Tier};

/// Recommendations at most: nobody tries more.
pub const RECOMMENDED_MAX: usize = 8;

/// How the figures of a plan by the formula came about.
const METHOD: &str = "formula of the slowest strand on the costs of the stages";

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The path, its mapping as written.
    pub path: &'a Path,
    /// The specification of each stage.
    pub specs: &'a [StageSpec],
    /// What the stages cost and what the machine adds.
    pub inputs: &'a Inputs,
    /// Whether other kernels suit the calls of a run; `None` where no run is known.
    pub kernels: Option<&'a KernelAdvice>,
    /// The line of a flow, thousand packets per second.
    pub line_kpps: Option<f64>,
    /// What commands call the file of the path, quoted for a shell.
    pub file: &'a str,
    /// Whether this build can run the path on this machine, so that commands can measure it.
    pub can_run: bool,
    /// The machine, and where what is known of it comes from.
    pub machine: [&'a str; 2],
}

/// Predicts the mapping of a path and recommends changes.
///
/// # Panics
/// When the specifications or the costs are not of the path.
pub fn plan(question: &Question<'_>) -> PlanReport {
    let Question { path, inputs, .. } = question;
    let planning = Planning {
        question,
        costs: &inputs.costs,
        env: &inputs.env,
        given: unpinned(&path.mapping),
        burst: path.run.burst,
    };
    let Planning { costs, env, given, burst, .. } = &planning;
    let advice = candidates(path, question.specs, costs, env, given, *burst);
    let mut recommendations: Vec<Recommendation> = planning
        .settings(&advice.proposals)
        .iter()
        .filter_map(|proposal| planning.recommendation(proposal))
        .chain(question.kernels.and_then(|advice| planning.kernels(advice)))
        .collect();
    order(&mut recommendations);
    let prediction = predict(given, *burst, costs, env);
    PlanReport {
        path: path.name.clone(),
        machine: question.machine[0].to_owned(),
        machine_source: question.machine[1].to_owned(),
        model: Model::Formula,
        costs: inputs.from.clone(),
        mapping: describe(&path.mapping, &path.stages),
        burst: *burst,
        cpus: env.cpus as u32,
        flows: inputs.flows,
        predicted_kpps: planning.kpps(prediction.kpps),
        line_rate_kpps: question.line_kpps,
        bottleneck: planning.bottleneck(prediction.bottleneck),
        strands: planning.strands(),
        recommendations,
        ruled_out: advice.ruled_out.into_iter().chain(unknown_to_the_formula()).collect(),
        search: search(advice.there_are),
        inputs: inputs.list.clone(),
    }
}

/// The largest gain first, few enough to be read.
pub fn order(recommendations: &mut Vec<Recommendation>) {
    let gain = |one: &Recommendation| one.gain.as_number().unwrap_or(0.0);
    recommendations.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    recommendations.truncate(RECOMMENDED_MAX);
}

fn unknown_to_the_formula() -> [RuledOut; 2] {
    let reason = "the formula knows no strands that share a pipe; where costs are given in \
                  instructions, --machine t1, t2 or a file simulates them";
    [("place strands elsewhere", reason), ("park strands, slow their polling", reason)]
        .map(|(name, reason)| RuledOut { name: name.to_owned(), reason: reason.to_owned() })
}

fn search(there_are: f64) -> Search {
    let sentence = format!(
        "exact: of {} mappings that cut and replicate the stages in their order none has a higher \
         prediction at this burst than the best shown; other bursts were tried on that one and on \
         the mapping as written; placement is left out",
        about(there_are)
    );
    Search { there_are, exact: true, gap: Some(0.0), sentence }
}

/// A count that may be beyond reading digit by digit.
pub fn about(count: f64) -> String {
    if count < 1e6 { format!("{count:.0}") } else { format!("{count:.0e}").replace('e', " x 10^") }
}

struct Planning<'a> {
    question: &'a Question<'a>,
    costs: &'a Costs,
    env: &'a Environment,
    /// The mapping as written, its processors left out.
    given: Mapping,
    burst: u32,
}

impl Planning<'_> {
    /// A rate as that of a flow.
    fn kpps(&self, all: Estimate) -> Figure {
        let flows = f64::from(self.question.inputs.flows);
        let [value, low, high] = [all.value, all.low, all.high].map(|kpps| kpps / flows);
        Figure::number("kpps", Estimate { value, low, high, ..all }, Tier::Model, METHOD)
    }

    /// What may be recommended: every proposal at the burst as written, the best of those at
    /// another burst, and the mapping as written at the burst that suits it best.
    fn settings(&self, proposals: &[Proposal]) -> Vec<Proposal> {
        let rate = |proposal: &Proposal| proposal.prediction.kpps.value;
        let best_of = |all: Vec<Proposal>| {
            all.into_iter().max_by(|a, b| rate(a).total_cmp(&rate(b)).then(b.burst.cmp(&a.burst)))
        };
        let (mut settings, other): (Vec<Proposal>, Vec<Proposal>) =
            proposals.iter().cloned().partition(|proposal| proposal.burst == self.burst);
        let other = other.into_iter().filter(|proposal| proposal.mapping != self.given).collect();
        settings.extend(best_of(other));
        let bursts = other_bursts(self.question.path, &self.given, self.burst).map(|burst| {
            let prediction = predict(&self.given, burst, self.costs, self.env);
            let name = format!("bursts of {burst}");
            Proposal { name, mapping: self.given.clone(), burst, prediction }
        });
        settings.extend(best_of(bursts.collect()));
        settings
    }

    /// The proposal as a recommendation, if it is worth one.
    fn recommendation(&self, proposal: &Proposal) -> Option<Recommendation> {
        let Proposal { name, mapping, burst, prediction } = proposal;
        let ratio = speedup((&self.given, self.burst), (mapping, *burst), self.costs, self.env);
        let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(|ratio| ratio - 1.0);
        if value < MIN_GAIN {
            return None;
        }
        let gain = Estimate { value, low, high, ..ratio };
        let kind = kind(&self.given, proposal);
        Some(Recommendation {
            change: name.clone(),
            kind,
            mapping: describe(mapping, &self.question.path.stages),
            cpus: None,
            beside: Vec::new(),
            burst: *burst,
            predicted_kpps: self.kpps(prediction.kpps),
            gain: Figure::number("ratio", gain, Tier::Model, METHOD),
            why: self.why(kind, mapping, *burst),
            proof: self.proof(ratio.low),
        })
    }

    fn why(&self, kind: Change, mapping: &Mapping, burst: u32) -> String {
        let busiest = |mapping: &Mapping, burst| {
            let loads = loads((mapping, burst), self.costs, self.env);
            loads.into_iter().fold(0.0, f64::max) * 1e9 / self.env.ticks_per_second
        };
        let [before, after] =
            [busiest(&self.given, self.burst), busiest(mapping, burst)].map(three_digits);
        let reason = match kind {
            Change::Merge => "fewer packets are handed over rings",
            Change::Replicate => "strands share the flows, and nothing else",
            Change::Split => "the work of the busiest strand is cut",
            _ => "what a burst costs whatever its size is spread over more packets",
        };
        format!("the busiest strand takes {after} ns per packet instead of {before}: {reason}")
    }

    fn proof(&self, low: f64) -> Proof {
        let sentence = format!(
            "measure both in turns: a speed-up below {} proves it wrong",
            three_digits(low.max(0.0))
        );
        let command =
            self.question.can_run.then(|| format!("linerate tune {}", self.question.file));
        Proof { sentence, command }
    }

    /// Another variant of checksum and copy, if a run said it is worth trying.
    fn kernels(&self, advice: &KernelAdvice) -> Option<Recommendation> {
        let before = advice.path_kpps.as_number().filter(|kpps| *kpps > 0.0)?;
        let after = &advice.path_fastest_kpps;
        let value = after.as_number()? / before - 1.0;
        if !advice.worth_trying || value < MIN_GAIN {
            return None;
        }
        let of = |end: Option<f64>| end.map_or(value, |kpps| kpps / before - 1.0);
        let [low, high] = [of(after.low).min(value), of(after.high).max(value)];
        let kpps = predict(&self.given, self.burst, self.costs, self.env).kpps;
        let confidence = after.confidence.unwrap_or(kpps.confidence);
        let gain = Estimate { value, low, high, confidence, n: after.n };
        let [value, low, high] = [value, low, high].map(|gain| kpps.value * (1.0 + gain));
        let (fastest, in_use) = (&advice.fastest, &advice.in_use);
        let command = format!("linerate run --kernels {fastest} {}", self.question.file);
        Some(Recommendation {
            change: format!("kernels {fastest} instead of {in_use}"),
            kind: Change::KernelVariant,
            mapping: describe(&self.given, &self.question.path.stages),
            cpus: None,
            beside: Vec::new(),
            burst: self.burst,
            predicted_kpps: self.kpps(Estimate { value, low, high, ..gain }),
            gain: Figure::number("ratio", gain, Tier::Model, METHOD),
            why: advice.sentence.clone(),
            proof: Proof {
                sentence: format!(
                    "run it with these kernels: a speed-up below {} proves it wrong",
                    three_digits(1.0 + gain.low)
                ),
                command: self.question.can_run.then_some(command),
            },
        })
    }

    fn bottleneck(&self, segment: usize) -> Bottleneck {
        let stages = self.given.segments[segment].stages.clone();
        let ends = [
            (stages.start == 0).then_some(&self.costs.source),
            (stages.end == self.costs.stages.len()).then_some(&self.costs.sink),
        ];
        let parts = self.costs.stages[stages].iter().chain(ends.into_iter().flatten());
        let ns = |ticks: f64| three_digits(ticks * 1e9 / self.env.ticks_per_second);
        let load = loads((&self.given, self.burst), self.costs, self.env)[segment];
        let most = parts.max_by(|a: &&StageCost, b| a.ticks.value.total_cmp(&b.ticks.value));
        let strand = format!("{segment}.0");
        let within = most.map_or(String::new(), |most| {
            format!(
                "; `{}` takes {} ns of a packet, more than any other part",
                most.name,
                ns(most.ticks.value)
            )
        });
        Bottleneck {
            stage: most.map(|stage| stage.name.clone()),
            sentence: format!(
                "strand {strand} sets the pace with {} ns per packet of the path{within}",
                ns(load)
            ),
            strand: Some(strand),
        }
    }

    fn strands(&self) -> Vec<PlannedStrand> {
        let loads = loads((&self.given, self.burst), self.costs, self.env);
        let busiest = loads.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let written = &self.question.path.mapping.segments;
        let mut strands = Vec::new();
        for (index, segment) in self.given.segments.iter().enumerate() {
            let given = match segment.stages.start {
                0 => 1.0,
                first => self.costs.stages[first].reach,
            };
            let share = given * self.env.share(segment.replicas);
            let ns = loads[index] * 1e9 / self.env.ticks_per_second / share;
            strands.extend((0..segment.replicas).map(|replica| PlannedStrand {
                name: format!("{index}.{replica}"),
                runs: runs(self.question.path, segment.stages.clone()),
                cpu: written[index].cpus.get(replica as usize).copied(),
                utilisation: figure("ratio", loads[index] / busiest),
                ns_per_packet: figure("ns/packet", ns),
                cpi: Figure::absent(
                    "cycles/instruction",
                    Tier::Model,
                    METHOD,
                    "the formula knows times, no instructions",
                ),
            }));
        }
        strands
    }
}

/// The stages of a strand, by name.
pub fn runs(path: &Path, stages: std::ops::Range<usize>) -> String {
    path.stages[stages].iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join("+")
}

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Model, METHOD)
}

/// What sort of change a proposal is.
fn kind(given: &Mapping, proposal: &Proposal) -> Change {
    let (before, after) = (given.segments.len(), proposal.mapping.segments.len());
    let strands = proposal.mapping.strands();
    if proposal.mapping == *given {
        Change::Burst
    } else if after > before {
        Change::Split
    } else if strands > after && strands > given.strands() {
        Change::Replicate
    } else if after < before || strands < given.strands() {
        Change::Merge
    } else {
        Change::Split
    }
}
