// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans for processors whose strands share pipes: each mapping simulated cycle by cycle.
//!
//! ```text
//! rate(setup)     = packets that leave the path, simulated (see `cmt`)
//! interval        = the rate with all costs up and down by their spread, and the error of the
//!                   simulator on top; the line bounds it
//! best placement  = which strands of the mapping as written share pipes (see `cmt`), simulated
//! repeat STEPS times:
//!     best <- the single change of best with the highest rate, if that is worth it
//! recommended     = the single changes of the mapping as written that are worth it, and the
//!                   chain of changes that led to best
//! ```
//!
//! What was not tried may be faster, by no more than the gap to a bound: every packet needs its
//! instructions issued, one in a cycle and pipe; a strand works on a packet at least as long as it
//! would alone; what keeps one state for all packets runs on one strand; and the line brings no
//! more. Hence
//!
//! ```text
//! bound = min( line,  pipes x clock / instructions,  strands x clock / cycles alone,
//!              clock / cycles alone of each stage with one state )
//! ```
//!
//! Cores that no strand of the path is on are not simulated: they share nothing with it.
//!
//! Left out: bursts (packets are handed over one by one), variants of kernels, and misses that
//! change when strands move.

mod changes;
mod relocate;
mod setup;

use crate::{Chip, Fault, Outcome, Run, Stalls, StrandOutcome, simulate};
use changes::{Changed, Changes};
use linerate_path::costs::{GivenCosts, GivenWork, Idling};
use linerate_path::mapping::describe;
use linerate_path::model::{Mapping, Path, Segment};
use linerate_path::spec::{StageSpec, State};
use linerate_plan::advice::{RECOMMENDED_MAX, order, runs};
use linerate_plan::inputs::{InputsError, input, origin};
use linerate_plan::profile::CONFIDENCE;
use linerate_plan::sample::UNKNOWN_SPREAD;
use linerate_plan::verdict::MIN_GAIN;
use linerate_record::plan::{
    Bottleneck, Change, Input, Model, Origin, PlanReport, PlannedStrand, Proof, Recommendation,
    Search, StrandsBeside,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;
use linerate_record::units::three_digits;
use linerate_record::{Figure, Tier};
use setup::{Beside, MEMORY_SHARE, Placed, Setup, World};
use std::fmt;

const METHOD: &str = "simulated cycle by cycle from instructions, misses and stalls per packet";

/// Any number; fixed so that equal inputs give equal plans.
const SEED: u64 = 0x6C69_6E65;

/// By how much the simulator itself is taken to err, either way: fitted to configuration 1 of the
/// Netra document's application it missed the rate of configuration 2 by 6.9 %. The reverse missed
/// by 17 %, for want of a cost that shows in configuration 1 alone: costs are taken to be known.
const MODEL_ERROR: f64 = 0.07;

/// Changes in a row that are looked for.
const STEPS: usize = 3;

/// A kind of pipe is simulated for one of so many parts of what a mapping is: there are many kinds,
/// and what is made of the best is simulated whole.
const KIND_SHARE: u64 = 4;

/// Share of the line from which on the line is what limits.
const LINE_REACHED: f64 = 0.995;

/// Share of the work of the busiest strand from which on another counts as busy as it.
const BUSY_AS_ANY: f64 = 0.98;

/// Rates that differ by less are the same: a simulation counts some hundred packets of a flow.
const SAME: f64 = 0.01;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The path, its mapping as written.
    pub path: &'a Path,
    /// The specification of each stage.
    pub specs: &'a [StageSpec],
    /// What its file says of costs.
    pub costs: &'a GivenCosts,
    /// The machine.
    pub chip: &'a Chip,
    /// Where what is known of it comes from.
    pub chip_source: &'a str,
    /// How many of its strands may be used, from the first.
    pub cpus: u32,
    /// The line of a flow, thousand packets per second; `None` where packets come faster than they
    /// can be taken.
    pub line_kpps: Option<f64>,
    /// Cycles of each simulation that count; a quarter as many come before.
    pub cycles: u64,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum ChipError {
    /// The costs or the room do not do.
    Inputs(InputsError),
    /// The mapping cannot be simulated.
    System(Fault),
    /// No packet gets through as long as is simulated.
    NoPacket {
        /// Nanoseconds that are simulated.
        ns: f64,
        /// The stage that takes longest for a packet, its looks for one included.
        stage: String,
        /// How long it takes alone, nanoseconds.
        takes_ns: f64,
        /// Packets of a flow that the line brings meanwhile; `None` where there is always one.
        offered: Option<f64>,
    },
}

impl fmt::Display for ChipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs(error) => error.fmt(f),
            Self::System(fault) => write!(
                f,
                "what [costs], [mapping] and [run] say cannot be simulated together: {fault}"
            ),
            Self::NoPacket { ns, stage, takes_ns, offered } => {
                let offered = offered.map_or_else(
                    || "always has a packet".to_owned(),
                    |packets| format!("brings {} packets of a flow", three_digits(packets)),
                );
                write!(
                    f,
                    "no packet gets through in the {} ns that are simulated: the line {offered}, \
                     and by [costs] `{stage}` takes {} ns of one, looking for it included; correct \
                     its instructions and stalls in [[costs.stages]], or the rate in [run]",
                    three_digits(*ns),
                    three_digits(*takes_ns)
                )
            }
        }
    }
}

impl std::error::Error for ChipError {}

impl From<InputsError> for ChipError {
    fn from(error: InputsError) -> Self {
        Self::Inputs(error)
    }
}

impl From<Fault> for ChipError {
    fn from(fault: Fault) -> Self {
        Self::System(fault)
    }
}

/// Predicts the mapping of a path on a chip and recommends changes.
///
/// # Errors
/// A stage has no instructions, the mapping does not fit the chip, or names processors that it does
/// not have.
///
/// # Panics
/// When the specifications or the costs are not of the path.
pub fn plan(question: &Question<'_>) -> Result<PlanReport, ChipError> {
    planned(question, true)
}

/// Predicts the mapping of a path on a chip as it is written, and recommends nothing.
///
/// # Errors
/// As [`plan`].
///
/// # Panics
/// As [`plan`].
pub fn written(question: &Question<'_>) -> Result<PlanReport, ChipError> {
    planned(question, false)
}

fn planned(question: &Question<'_>, recommend: bool) -> Result<PlanReport, ChipError> {
    let flows = f64::from(question.costs.flows);
    let world = World {
        path: question.path,
        costs: question.costs,
        works: works(question.costs)?,
        chip: question.chip,
        offered_per_s: question.line_kpps.map(|kpps| kpps * 1e3 * flows),
    };
    let planning = Planning { question, world: &world };
    let given = planning.given()?;
    let outcome = planning.simulate(&given, 1.0)?;
    if planning.kpps(&given, &outcome) <= 0.0 {
        return Err(planning.no_packet());
    }
    let (recommendations, search) = match recommend {
        true => planning.search(&given, &outcome)?,
        false => (Vec::new(), planning.unsearched()),
    };
    let shown = Shown::new(&planning, &given, &outcome);
    Ok(PlanReport {
        path: question.path.name.clone(),
        machine: question.chip.name.clone(),
        machine_source: question.chip_source.to_owned(),
        model: Model::Simulation,
        costs: question.costs.from.clone(),
        mapping: describe(&question.path.mapping, &question.path.stages),
        burst: question.path.run.burst,
        cpus: question.cpus,
        flows: question.costs.flows,
        predicted_kpps: figure("kpps", planning.rates(&given)?.rate(planning.line())),
        line_rate_kpps: question.line_kpps,
        bottleneck: shown.bottleneck(),
        strands: shown.strands(),
        recommendations,
        ruled_out: planning.ruled_out(),
        search,
        inputs: planning.inputs(),
    })
}

fn works(costs: &GivenCosts) -> Result<Vec<GivenWork>, InputsError> {
    let none = |name: &str| InputsError::NoInstructions { stage: name.to_owned() };
    costs.stages.iter().map(|cost| cost.work.ok_or_else(|| none(&cost.name))).collect()
}

/// Rates of a flow with costs as they are, and up and down by their spread.
#[derive(Clone, Copy)]
struct Rates([f64; 3]);

impl Rates {
    /// With the error of the simulator; no more than the line carries.
    fn rate(self, line_kpps: f64) -> Estimate {
        // A packet that waited when counting began can lift a rate a little above the line.
        let [value, up, down] = self.0.map(|kpps| kpps.min(line_kpps));
        let low = value.min(up).min(down) * (1.0 - MODEL_ERROR);
        let high = value.max(up).max(down) * (1.0 + MODEL_ERROR);
        estimate(value, low, high.min(line_kpps))
    }

    /// How much faster than `other`; equal costs are compared with each other.
    fn gain_over(self, other: Self) -> Estimate {
        let ratio = |index: usize| self.0[index] / other.0[index].max(f64::MIN_POSITIVE);
        let [value, up, down] = [0, 1, 2].map(ratio);
        let low = value.min(up).min(down) * (1.0 - MODEL_ERROR);
        let high = value.max(up).max(down) * (1.0 + MODEL_ERROR);
        estimate(value - 1.0, low - 1.0, high - 1.0)
    }
}

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high, confidence: CONFIDENCE, n: 3 }
}

fn figure(unit: &str, estimate: Estimate) -> Figure {
    Figure::number(unit, estimate, Tier::Model, METHOD)
}

struct Planning<'a> {
    question: &'a Question<'a>,
    world: &'a World<'a>,
}

impl Planning<'_> {
    fn line(&self) -> f64 {
        self.question.line_kpps.unwrap_or(f64::INFINITY)
    }

    /// The mapping as written. Strands without a processor get the first that are free, one per
    /// core before a second.
    fn given(&self) -> Result<Setup, ChipError> {
        let Question { path, costs, chip, cpus, .. } = self.question;
        let beside: Vec<Beside> = costs
            .neighbours
            .iter()
            .map(|one| Beside {
                name: one.name.clone(),
                does: one.does,
                cpus: one.cpus.clone(),
                instructions: one.instructions,
                ns: one.ns,
                slow_cycles: 0.0,
            })
            .collect();
        let taken = beside.iter().map(|beside| beside.cpus.len()).sum();
        linerate_plan::inputs::check_room(path, taken, *cpus as usize)?;
        let per_core = chip.strands_per_core();
        let named = path.mapping.segments.iter().flat_map(|s| &s.cpus);
        let named: Vec<u32> =
            named.chain(beside.iter().flat_map(|beside| &beside.cpus)).copied().collect();
        let mut free: Vec<u32> = (0..*cpus).filter(|cpu| !named.contains(cpu)).collect();
        free.sort_by_key(|cpu| (cpu % per_core, cpu / per_core));
        let mut free = free.into_iter();
        let placed = |segment: &Segment| Placed {
            stages: segment.stages.clone(),
            cpus: match segment.cpus.is_empty() {
                true => free.by_ref().take(segment.replicas as usize).collect(),
                false => segment.cpus.clone(),
            },
        };
        let segments = path.mapping.segments.iter().map(placed).collect();
        let setup = Setup { segments, beside, relieved: Vec::new(), slow_cycles: 0.0 };
        self.world.system(&setup, 1.0).check()?;
        Ok(setup)
    }

    fn simulate(&self, setup: &Setup, factor: f64) -> Result<Outcome, ChipError> {
        Ok(simulate(&self.world.system(setup, factor), &self.run(1))?)
    }

    /// What is simulated, or one of so many parts of it.
    fn run(&self, parts: u64) -> Run {
        let cycles = self.question.cycles / parts;
        Run { warm_up_cycles: cycles / 4, cycles, seed: SEED }
    }

    /// Thousand packets per second of a flow.
    fn kpps(&self, setup: &Setup, outcome: &Outcome) -> f64 {
        let last = setup.segments.last().map_or(0, |segment| segment.cpus.len());
        let strands = &outcome.strands[setup.strands() - last..setup.strands()];
        let packets = strands.iter().map(StrandOutcome::packets).sum();
        outcome.kpps(packets) / f64::from(self.question.costs.flows)
    }

    fn rates(&self, setup: &Setup) -> Result<Rates, ChipError> {
        let spread = self.question.costs.spread.unwrap_or(UNKNOWN_SPREAD);
        let mut rates = [0.0; 3];
        for (rate, factor) in rates.iter_mut().zip([1.0, 1.0 + spread, 1.0 - spread]) {
            *rate = self.kpps(setup, &self.simulate(setup, factor)?);
        }
        Ok(Rates(rates))
    }

    /// What stands in the way where no packet gets through.
    fn no_packet(&self) -> ChipError {
        let (world, chip) = (self.world, self.question.chip);
        let cycles = |stage: usize| {
            let work = &world.works[stage];
            let looks = work.poll_instructions + work.turn_instructions;
            world.alone_cycles(&world.work(stage..stage + 1, 1.0))
                + looks * (1.0 + work.bubble_cycles)
                + (work.poll_ns + work.turn_ns) * chip.clock_hz / 1e9
        };
        let slowest = (0..world.works.len()).max_by(|a, b| cycles(*a).total_cmp(&cycles(*b)));
        let stage = slowest.unwrap_or(0);
        let ns = |cycles: f64| cycles / chip.clock_hz * 1e9;
        ChipError::NoPacket {
            ns: ns(self.question.cycles as f64),
            stage: world.costs.stages[stage].name.clone(),
            takes_ns: ns(cycles(stage)),
            offered: self
                .question
                .line_kpps
                .map(|kpps| kpps * 1e3 * self.question.cycles as f64 / chip.clock_hz),
        }
    }

    /// What to recommend, and what was searched for it.
    fn search(
        &self,
        given: &Setup,
        outcome: &Outcome,
    ) -> Result<(Vec<Recommendation>, Search), ChipError> {
        let kpps = self.kpps(given, outcome);
        let Question { cpus, .. } = *self.question;
        let run = self.run(KIND_SHARE);
        let moved = relocate::relocated(self.world, given, cpus, self.bound(), &run)?;
        let placed = moved.as_ref().map(|moved| moved.kpps);
        let moved = moved.map(|moved| moved.changed).filter(|changed| changed.setup != *given);
        let mut single = self.tried(given, outcome, moved)?;
        single.retain(|one| one.kpps > kpps * (1.0 + MIN_GAIN));
        let (mut best, mut chain) = (kpps, None::<Tried>);
        let mut next = single.first().cloned();
        for _ in 0..STEPS {
            let Some(mut step) = next.filter(|step| step.kpps > best * (1.0 + MIN_GAIN)) else {
                break;
            };
            if let Some(before) = &chain {
                step.changed.name = format!("{}; then {}", before.changed.name, step.changed.name);
            }
            best = step.kpps;
            next = match best >= LINE_REACHED * self.line() {
                true => None,
                false => self.tried(&step.changed.setup, &step.outcome, None)?.into_iter().next(),
            };
            chain = Some(step);
        }
        let is_single = |one: &Tried| single.iter().any(|s| s.changed.name == one.changed.name);
        let chain = chain.filter(|chain| !is_single(chain));
        single.truncate(RECOMMENDED_MAX - 1);
        let written = (self.rates(given)?, Shown::new(self, given, outcome).pace());
        let mut recommendations = Vec::new();
        for tried in single.iter().chain(&chain) {
            recommendations.push(self.recommendation(tried, &written)?);
        }
        order(&mut recommendations);
        Ok((recommendations, self.searched(best, placed)))
    }

    /// Every single change of `setup`, and one `more`, and what came of it, the highest rate first;
    /// without those that reach no more than another of their sort with fewer strands, or that
    /// parks fewer, and without places on the pipes where the strands are: what those gain is that
    /// loops without end made way, which parking them does by itself.
    fn tried(
        &self,
        setup: &Setup,
        outcome: &Outcome,
        more: Option<Changed>,
    ) -> Result<Vec<Tried>, ChipError> {
        let Question { specs, cpus, .. } = *self.question;
        let changes = Changes { world: self.world, specs, cpus };
        let limit = Shown::new(self, setup, outcome).most().0;
        let mut tried = Vec::new();
        let more = more.map(|mut changed| {
            changed.setup = changed.setup.made_way();
            changed
        });
        let all = changes.of(setup, limit).into_iter().chain(more);
        let is_moved = |one: &Changed| {
            one.kind != Change::Place || self.pipes(&one.setup) != self.pipes(setup)
        };
        for changed in all.filter(is_moved) {
            let outcome = self.simulate(&changed.setup, 1.0)?;
            tried.push(Tried { kpps: self.kpps(&changed.setup, &outcome), outcome, changed });
        }
        let strands = |one: &Tried| one.changed.setup.strands();
        tried.sort_by(|a, b| b.kpps.total_cmp(&a.kpps).then(strands(a).cmp(&strands(b))));
        let parks_more = |one: &Tried, other: &Tried| {
            one.changed.kind == Change::Park && one.beside() < other.beside()
        };
        let is_needless = |one: &Tried| {
            tried.iter().any(|other| {
                other.changed.kind == one.changed.kind
                    && (strands(other) < strands(one) || parks_more(one, other))
                    && other.kpps > one.kpps * (1.0 - SAME)
            })
        };
        Ok(tried.iter().filter(|one| !is_needless(one)).cloned().collect())
    }

    /// The pipes of each segment, and of each group of strands that polls beside the path.
    fn pipes(&self, setup: &Setup) -> Vec<Vec<u32>> {
        let polls = setup.beside.iter().filter(|beside| beside.does == Idling::Polls);
        let groups = setup.segments.iter().map(|one| &one.cpus).chain(polls.map(|one| &one.cpus));
        let pipes = groups.map(|cpus| {
            let of = cpus.iter().map(|cpu| cpu / self.question.chip.strands_per_pipe);
            let mut pipes: Vec<u32> = of.collect();
            pipes.sort_unstable();
            pipes
        });
        pipes.collect()
    }

    fn recommendation(
        &self,
        Tried { changed, outcome, .. }: &Tried,
        (written, pace): &(Rates, String),
    ) -> Result<Recommendation, ChipError> {
        let rates = self.rates(&changed.setup)?;
        let after = Shown::new(self, &changed.setup, outcome);
        let kpps = rates.rate(self.line());
        let mapping = Mapping {
            segments: changed
                .setup
                .segments
                .iter()
                .map(|placed| Segment {
                    stages: placed.stages.clone(),
                    replicas: placed.cpus.len() as u32,
                    cpus: Vec::new(),
                })
                .collect(),
        };
        let cpus = changed.setup.segments.iter().flat_map(|s| &s.cpus).copied().collect();
        let busy = match after.is_line_reached() {
            true => String::new(),
            false => format!(", or idle polls on strand {}", after.most().1.name),
        };
        let proof = format!(
            "run it on such a machine and count the packets of a flow: less than {} kpps{busy}, \
             and it is wrong",
            three_digits(kpps.low)
        );
        Ok(Recommendation {
            change: changed.name.clone(),
            kind: changed.kind,
            mapping: describe(&mapping, &self.question.path.stages),
            cpus: Some(cpus),
            beside: self.moved(&changed.setup),
            burst: self.question.path.run.burst,
            predicted_kpps: figure("kpps", kpps),
            gain: figure("ratio", rates.gain_over(*written)),
            why: format!("as written {pace}; then {}", after.bottleneck().sentence),
            proof: Proof { sentence: proof, command: None },
        })
    }

    /// Strands beside the path that poll, and not where they do as written.
    fn moved(&self, setup: &Setup) -> Vec<StrandsBeside> {
        let written = &self.question.costs.neighbours;
        let is_there = |beside: &Beside| {
            written.iter().any(|one| one.name == beside.name && one.cpus == beside.cpus)
        };
        let polls = setup.beside.iter().filter(|beside| beside.does == Idling::Polls);
        let moved = polls.filter(|beside| !is_there(beside));
        moved.map(|one| StrandsBeside { name: one.name.clone(), cpus: one.cpus.clone() }).collect()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let stages = self.question.path.stages.iter().zip(self.question.specs);
        let global = stages.filter(|(_, spec)| spec.state == State::Global);
        let held = global.map(|(stage, _)| RuledOut {
            name: format!("replicate `{}`", stage.name),
            reason: "it keeps one state for all packets (global), so it must run on one strand"
                .to_owned(),
        });
        let burst = RuledOut {
            name: "other bursts, other kernels".to_owned(),
            reason: "the simulator hands packets over one by one and knows no kernels".to_owned(),
        };
        held.chain([burst]).collect()
    }

    /// The highest rate of a flow that any mapping may have, thousand packets per second.
    fn bound(&self) -> f64 {
        let (world, chip) = (self.world, self.question.chip);
        let all = world.work(0..world.works.len(), 1.0);
        let pipes = self.question.cpus.div_ceil(chip.strands_per_pipe).min(chip.pipes());
        let issue = f64::from(pipes) / all.instructions;
        let strands = f64::from(self.question.cpus) / world.alone_cycles(&all);
        let specs = self.question.specs.iter().enumerate();
        let global = specs.filter(|(_, spec)| spec.state == State::Global).map(|(stage, _)| {
            1.0 / world.alone_cycles(&world.work(stage..stage + 1, 1.0)).max(1.0)
        });
        let per_cycle = global.fold(issue.min(strands), f64::min);
        let flows = f64::from(self.question.costs.flows);
        (per_cycle * chip.clock_hz / 1e3 / flows).min(self.line())
    }

    /// Ways to place the mapping as written.
    fn there_are(&self) -> f64 {
        let strands = self.question.path.mapping.strands() as u32;
        (0..strands).map(|one| f64::from(self.question.cpus.saturating_sub(one))).product()
    }

    fn unsearched(&self) -> Search {
        let sentence = "not searched: only the mapping as written was asked for".to_owned();
        Search { there_are: self.there_are(), exact: false, gap: None, sentence }
    }

    /// `placed`: the rate of the best placement of the mapping as written, by its pipes.
    fn searched(&self, best_kpps: f64, placed: Option<f64>) -> Search {
        let bound = self.bound();
        let gap = (bound / best_kpps - 1.0).max(0.0);
        let there_are = self.there_are();
        let exact = gap < 1.0 - LINE_REACHED;
        let placed = placed.map_or_else(
            || "too many to compare them all".to_owned(),
            |kpps| format!("by their pipes none has more than {} kpps", three_digits(kpps)),
        );
        let sentence = format!(
            "single changes and up to {STEPS} in a row, of {} ways to place the mapping as written \
             alone ({placed}); no mapping can be faster than {} kpps (line, instructions issued, \
             cycles of strands), {} % above the best that was found",
            linerate_plan::advice::about(there_are),
            three_digits(bound),
            three_digits(100.0 * gap),
        );
        Search { there_are, exact, gap: Some(gap), sentence }
    }

    fn inputs(&self) -> Vec<Input> {
        let costs = self.question.costs;
        let mut list: Vec<Input> = Vec::new();
        for (cost, work) in costs.stages.iter().zip(&self.world.works) {
            let figures = [
                ("instructions", work.instructions),
                ("l1_misses", work.l1_misses),
                ("l2_misses", work.l2_misses),
                ("io_ns", work.io_ns),
                ("bubble_cycles", work.bubble_cycles),
                ("poll_instructions", work.poll_instructions),
                ("poll_ns", work.poll_ns),
                ("turn_instructions", work.turn_instructions),
                ("turn_ns", work.turn_ns),
            ];
            list.extend(figures.into_iter().filter(|(_, value)| *value > 0.0).map(
                |(key, value)| {
                    let name = format!("{} {key}", cost.name);
                    input(&name, &three_digits(value), origin(cost, key))
                },
            ));
        }
        let is = |given| if given { Origin::Given } else { Origin::Assumed };
        let hand_over = format!("{} cycles", self.world.hand_over_cycles());
        let spread = 100.0 * costs.spread.unwrap_or(UNKNOWN_SPREAD);
        let percent = |share: f64| format!("{} % either way", three_digits(share));
        if let Some(unit) = self.question.chip.unit("lsu") {
            let share = three_digits(costs.memory_share.unwrap_or(MEMORY_SHARE));
            let name = format!("uses of {} per instruction", self.question.chip.units[unit].name);
            list.push(input(&name, &share, is(costs.memory_share.is_some())));
        }
        list.extend([
            input("hand-over", &hand_over, is(costs.handover_ns.is_some())),
            input("what costs may be off by", &percent(spread), is(costs.spread.is_some())),
            input("error of the simulator", &percent(100.0 * MODEL_ERROR), Origin::Assumed),
        ]);
        list
    }
}

/// A change and what came of it.
#[derive(Clone)]
struct Tried {
    kpps: f64,
    changed: Changed,
    outcome: Outcome,
}

impl Tried {
    /// Strands beside the path.
    fn beside(&self) -> usize {
        self.changed.setup.beside.iter().map(|beside| beside.cpus.len()).sum()
    }
}

/// A setup and what came of it, to be told.
struct Shown<'a> {
    planning: &'a Planning<'a>,
    setup: &'a Setup,
    outcome: &'a Outcome,
}

impl<'a> Shown<'a> {
    fn new(planning: &'a Planning<'a>, setup: &'a Setup, outcome: &'a Outcome) -> Self {
        Self { planning, setup, outcome }
    }

    /// The segment of each strand of the path, and its outcome.
    fn of_path(&self) -> impl Iterator<Item = (usize, &'a StrandOutcome)> + use<'a> {
        let (setup, outcome) = (self.setup, self.outcome);
        let segments = setup.segments.iter().enumerate();
        let segments = segments.flat_map(|(index, one)| one.cpus.iter().map(move |_| index));
        segments.zip(&outcome.strands)
    }

    /// Share of the cycles of a strand of `segment` that it worked on packets: those of polls in
    /// vain, their share of its waiting for the pipe included, taken off.
    fn utilisation(&self, segment: usize, strand: &StrandOutcome) -> f64 {
        let work = self.planning.world.work(self.setup.segments[segment].stages.clone(), 1.0);
        let polls = |of: fn(&crate::TaskOutcome) -> u64| -> f64 {
            strand.tasks.iter().map(of).sum::<u64>() as f64
        };
        // A second input is looked at in vain in every turn, packet or not; only turns without a
        // packet are idle.
        let inputs = strand.tasks.iter().filter(|task| task.packets + task.dropped > 0);
        let in_vain: f64 = inputs.map(|task| task.idle_polls as f64).sum();
        let looks = in_vain + polls(|task| task.blocked);
        let instructions = looks * work.poll_instructions;
        let waits = strand.waited as f64 / (strand.instructions as f64).max(1.0);
        let cycles = instructions * (1.0 + work.bubble_cycles + waits)
            + in_vain * (work.poll_ns * self.outcome.clock_hz / 1e9 + self.setup.slow_cycles);
        (1.0 - cycles / self.outcome.cycles as f64).clamp(0.0, 1.0)
    }

    /// The strand of the path that sets the pace, with its segment and the share of time it works:
    /// of those that work about as much as any, the first of the last segment. One before it that
    /// never rests drops or waits for what this one does not take.
    fn most(&self) -> (usize, &'a StrandOutcome, f64) {
        let all = self
            .of_path()
            .map(|(segment, strand)| (segment, strand, self.utilisation(segment, strand)));
        let all: Vec<_> = all.collect();
        let highest = all.iter().map(|(.., share)| *share).fold(0.0, f64::max);
        let near = all.into_iter().filter(|(.., share)| *share >= BUSY_AS_ANY * highest);
        let most = near.reduce(|a, b| if b.0 > a.0 { b } else { a });
        most.expect("a mapping has a strand")
    }

    fn is_line_reached(&self) -> bool {
        let kpps = self.planning.kpps(self.setup, self.outcome);
        kpps >= LINE_REACHED * self.planning.line()
    }

    /// What sets the pace, in a few words.
    fn pace(&self) -> String {
        let stages = self.setup.segments[self.most().0].stages.clone();
        match self.is_line_reached() {
            true => "the line limits".to_owned(),
            false => format!("`{}` sets the pace", runs(self.planning.world.path, stages)),
        }
    }

    fn bottleneck(&self) -> Bottleneck {
        if self.is_line_reached() {
            let line = three_digits(self.planning.line());
            let sentence = format!("the line limits: all of its {line} kpps get through");
            return Bottleneck { stage: None, strand: None, sentence };
        }
        let (segment, strand, share) = self.most();
        let world = self.planning.world;
        let stages = self.setup.segments[segment].stages.clone();
        let alone = |stage: &usize| world.alone_cycles(&world.work(*stage..*stage + 1, 1.0));
        let stage = stages.max_by(|a, b| alone(a).total_cmp(&alone(b))).unwrap_or(0);
        let name = world.path.stages[stage].name.clone();
        let sentence = format!(
            "strand {} (`{}`) sets the pace, working {} % of its time: {}",
            strand.name,
            runs(world.path, self.setup.segments[segment].stages.clone()),
            three_digits(100.0 * share),
            self.cycles(strand)
        );
        Bottleneck { stage: Some(name), strand: Some(strand.name.clone()), sentence }
    }

    /// Where the cycles of a packet go on a strand.
    fn cycles(&self, strand: &StrandOutcome) -> String {
        let packets = (strand.packets() as f64).max(1.0);
        let per_packet = |cycles: u64| cycles as f64 / packets;
        let Stalls { bubbles, l1, l2, units, io, slow } = strand.stalls;
        let parts = [
            ("issuing", strand.instructions),
            ("waiting for its neighbours", strand.waited),
            ("in bubbles", bubbles),
            ("for the second cache", l1),
            ("for memory", l2),
            ("for shared units", units),
            ("for devices", io),
            ("pausing", slow),
        ];
        let shown = parts.iter().filter(|(_, cycles)| per_packet(*cycles) >= 0.5);
        let shown: Vec<String> = shown
            .map(|(what, cycles)| format!("{} {what}", three_digits(per_packet(*cycles))))
            .collect();
        format!(
            "{} cycles per packet, {}",
            three_digits(per_packet(self.outcome.cycles)),
            shown.join(", ")
        )
    }

    fn strands(&self) -> Vec<PlannedStrand> {
        let path = self.of_path().map(|(segment, strand)| {
            let share = self.utilisation(segment, strand);
            let stages = self.setup.segments[segment].stages.clone();
            let seconds = share * self.outcome.cycles as f64 / self.outcome.clock_hz;
            let ns = match strand.packets() {
                0 => absent("ns/packet", "it had no packet"),
                packets => exact("ns/packet", seconds * 1e9 / packets as f64),
            };
            self.planned(strand, runs(self.planning.world.path, stages), share, ns)
        });
        let beside = self.setup.beside.iter().map(|beside| self.beside(beside));
        path.chain(beside).collect()
    }

    /// The strands of a neighbour together.
    fn beside(&self, beside: &Beside) -> PlannedStrand {
        const UNIT: &str = "cycles/instruction";
        let simulated = &self.outcome.strands[self.setup.strands()..];
        let own = simulated.iter().filter(|strand| beside.cpus.contains(&strand.cpu));
        let instructions: Vec<u64> = own.map(|strand| strand.instructions).collect();
        let cycles = self.outcome.cycles as f64 * instructions.len() as f64;
        let cpi = match instructions.iter().sum::<u64>() {
            0 => absent(UNIT, "on cores that no strand of the path is on: not simulated"),
            all => exact(UNIT, cycles / all as f64),
        };
        PlannedStrand {
            name: beside.name.clone(),
            runs: format!("beside the path, on {} processors", beside.cpus.len()),
            cpu: None,
            utilisation: exact("ratio", 0.0),
            ns_per_packet: absent("ns/packet", "it takes no packets"),
            cpi,
        }
    }

    fn planned(
        &self,
        strand: &StrandOutcome,
        runs: String,
        share: f64,
        ns_per_packet: Figure,
    ) -> PlannedStrand {
        let cpi = self.outcome.cpi(strand);
        PlannedStrand {
            name: strand.name.clone(),
            runs,
            cpu: Some(strand.cpu),
            utilisation: exact("ratio", share),
            ns_per_packet,
            cpi: cpi.map_or_else(
                || absent("cycles/instruction", "it issued no instruction"),
                |cpi| exact("cycles/instruction", cpi),
            ),
        }
    }
}

fn exact(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Model, METHOD)
}

fn absent(unit: &str, reason: &str) -> Figure {
    Figure::absent(unit, Tier::Model, METHOD, reason)
}
