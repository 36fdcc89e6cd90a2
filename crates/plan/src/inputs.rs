// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs to a plan: the costs of the stages and the properties of the machine, taken from a run
//! record or from the path file, with the origin of each figure.
//!
//! Values found in neither source are assumed, with an interval wide enough for everything observed
//! so far, and listed as assumptions.

use crate::costs::{Costs, CostsError, StageCost};
use crate::model::{DRIFT_ALONE, DRIFT_SHARED, Environment, Handover, unmeasured_burst};
use crate::sample::UNKNOWN_SPREAD;
use linerate_path::costs::{ENDS, GivenCost, GivenCosts};
use linerate_path::model::Path;
use linerate_record::Figure;
use linerate_record::plan::{Input, Origin};
use linerate_record::run::{RunReport, StageReport};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::tune::CalibrationReport;
use linerate_record::units::three_digits;
use std::fmt;

/// Assumed speed of a CPU while all CPUs are busy, relative to its speed while the others are idle:
/// value, low end and high end. The low end is that of two virtual CPUs that share one core; the
/// high end means no slowdown.
const SCALING: [f64; 3] = [1.0, 0.69, 1.0];

/// Stage costs and machine properties from which a plan is made, with their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Costs of the stages.
    pub costs: Costs,
    /// Properties of the machine, and the costs that it adds to those of the stages.
    pub env: Environment,
    /// CPU quota of the workers, in CPUs; `None` without a quota.
    pub quota: Option<f64>,
    /// Number of flows of equal rate, among which the path's rate is divided.
    pub flows: u32,
    /// Source of the costs, in words.
    pub from: String,
    /// All input figures, each with its origin, for the report.
    pub list: Vec<Input>,
}

/// CPUs that a mapping may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    /// Number of CPUs, at least 1.
    pub count: usize,
    /// Whether a hypervisor may take the CPUs away at any time.
    pub are_shared: bool,
    /// CPU quota in CPUs; `None` without a quota.
    pub quota: Option<f64>,
}

/// Reason why no plan can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum InputsError {
    /// The costs of the stages cannot be derived from the run.
    Costs(CostsError),
    /// The run has a stage that the path does not have.
    OtherPath {
        /// Name of the stage.
        stage: String,
    },
    /// The file gives no time for a stage.
    NoTime {
        /// Name of the stage.
        stage: String,
    },
    /// The file gives no instruction count for a stage.
    NoInstructions {
        /// Name of the stage.
        stage: String,
    },
    /// The mapping, with the workers outside the path, needs more CPUs than are available.
    TooFewWorkers {
        /// Number of workers in the mapping.
        wanted: usize,
        /// Number of workers outside the mapping, which need CPUs too.
        beside: usize,
        /// Number of available CPUs.
        available: usize,
    },
}

impl fmt::Display for InputsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Costs(error) => error.fmt(f),
            Self::OtherPath { stage } => write!(
                f,
                "the run has stage `{stage}`, which the path does not: it used a different path; \
                 run this path and plan from its record"
            ),
            Self::NoTime { stage } => write!(
                f,
                "[costs] has no nanoseconds for `{stage}`: give `ns`, or plan for a machine whose \
                 workers are simulated, with --machine t1, t2 or a file"
            ),
            Self::NoInstructions { stage } => write!(
                f,
                "[costs] has no instructions for `{stage}`: give `instructions`, or plan with \
                 --machine this"
            ),
            Self::TooFewWorkers { wanted, beside: 0, available } => write!(
                f,
                "the mapping needs {wanted} workers and {available} are available: allow more with \
                 --workers N or another --machine, or change [mapping]"
            ),
            Self::TooFewWorkers { wanted, beside, available } => write!(
                f,
                "the mapping needs {wanted} workers, {beside} run outside it \
                 ([[costs.neighbours]]), and {available} are available: allow more with --workers \
                 N or another --machine, or change either"
            ),
        }
    }
}

impl std::error::Error for InputsError {}

impl From<CostsError> for InputsError {
    fn from(error: CostsError) -> Self {
        Self::Costs(error)
    }
}

/// Checks that the workers of a path's mapping and `beside` additional workers fit on a machine
/// with `available` CPUs.
///
/// # Errors
/// [`InputsError::TooFewWorkers`] if they do not fit.
pub fn check_room(path: &Path, beside: usize, available: usize) -> Result<(), InputsError> {
    let wanted = path.mapping.workers();
    match wanted + beside > available {
        true => Err(InputsError::TooFewWorkers { wanted, beside, available }),
        false => Ok(()),
    }
}

impl Inputs {
    /// Takes the inputs from a run of `path` with bursts of `burst` packets; `from` names the run.
    ///
    /// # Errors
    /// The run is of another path, the costs cannot be derived from it, or the path's mapping does
    /// not fit on `processors`.
    pub fn from_run(
        run: &RunReport,
        path: &Path,
        burst: u32,
        processors: Processors,
        from: &str,
    ) -> Result<Self, InputsError> {
        check_room(path, 0, processors.count)?;
        if let Some(stage) = stranger(run, path) {
            return Err(InputsError::OtherPath { stage });
        }
        let costs = Costs::from_run(run, path, burst)?;
        let ticks_per_s = run.ticks_per_s;
        let rings = ring_costs(run, burst);
        let mut list: Vec<Input> = all(&costs)
            .map(|cost| input(&cost.name, &nanoseconds(&cost.ticks, ticks_per_s), Origin::Measured))
            .collect();
        let handover = match rings {
            Some(handover) => {
                list.push(ring_input(&handover, ticks_per_s, Origin::Measured));
                handover
            }
            None => {
                let handover = Handover::unmeasured(ticks_per_s, burst);
                list.push(ring_input(&handover, ticks_per_s, Origin::Assumed));
                handover
            }
        };
        let env = environment(ticks_per_s, processors, handover, &mut list);
        list.push(input("memory-bound stages", "not searched", Origin::Assumed));
        Ok(Self { costs, env, quota: processors.quota, flows: 1, from: from.to_owned(), list })
    }

    /// Replaces the machine's ring and burst costs with those measured during tuning. A cost that
    /// was not measured there is kept.
    pub fn calibrated(mut self, by: &CalibrationReport) -> Self {
        let estimates = [&by.ring_out, &by.ring_in, &by.burst_ticks]
            .map(|figure| figure.estimate().filter(|estimate| estimate.n > 0));
        let [producer, consumer, burst] = estimates;
        let ticks_per_s = self.env.ticks_per_s;
        if let (Some(producer_ticks), Some(consumer_ticks)) = (producer, consumer) {
            self.env.handover = Handover { producer_ticks, consumer_ticks, burst: by.burst };
            replace(&mut self.list, ring_input(&self.env.handover, ticks_per_s, Origin::Measured));
        }
        if let Some(burst_ticks) = burst {
            self.env.burst_ticks = burst_ticks;
            let value = nanoseconds(&burst_ticks, ticks_per_s);
            replace(&mut self.list, input(BURST, &value, Origin::Measured));
        }
        self
    }

    /// Takes the inputs from the nanoseconds per packet that the path file of `path` gives for each
    /// stage.
    ///
    /// # Errors
    /// A stage has no time, or the path's mapping does not fit on `processors`.
    pub fn from_file(
        given: &GivenCosts,
        path: &Path,
        processors: Processors,
    ) -> Result<Self, InputsError> {
        let spread = given.spread.unwrap_or(UNKNOWN_SPREAD);
        let free = |name: &str| stage_cost(name, 0.0, 1.0, 0.0);
        let end = |cost: &Option<GivenCost>, name: &str| match cost {
            Some(cost) => timed(cost, spread),
            None => Ok(free(name)),
        };
        let costs = Costs {
            source: end(&given.source, ENDS[0])?,
            stages: given.stages.iter().map(|c| timed(c, spread)).collect::<Result<_, _>>()?,
            sink: end(&given.sink, ENDS[1])?,
            burst: path.run.burst,
            workers: 1,
        };
        let beside = given.neighbours.iter().map(|beside| beside.cpus.len()).sum();
        check_room(path, beside, processors.count)?;
        let mut list: Vec<Input> = given.stages.iter().flat_map(times_of).collect();
        let spread_is = if given.spread.is_some() { Origin::Given } else { Origin::Assumed };
        let percent = format!("{} % either way", three_digits(100.0 * spread));
        list.push(input("cost uncertainty", &percent, spread_is));
        let (handover, ring_is) = match given.handover_ns {
            Some(ns) => {
                let ticks = around(ns, spread);
                let burst = path.run.burst;
                (Handover { producer_ticks: ticks, consumer_ticks: ticks, burst }, Origin::Given)
            }
            None => (Handover::unmeasured(NS, path.run.burst), Origin::Assumed),
        };
        list.push(ring_input(&handover, NS, ring_is));
        let env = environment(NS, processors, handover, &mut list);
        let (quota, flows) = (processors.quota, given.flows);
        Ok(Self { costs, env, quota, flows, from: given.from.clone(), list })
    }
}

/// Name of the cost per burst in the list of inputs.
const BURST: &str = "cost per burst";

/// Replaces the input in `list` that has the same name as `by`.
fn replace(list: &mut [Input], by: Input) {
    if let Some(input) = list.iter_mut().find(|input| input.name == by.name) {
        *input = by;
    }
}

/// Ticks per second for costs given in nanoseconds: one tick is one nanosecond.
const NS: f64 = 1e9;

fn all(costs: &Costs) -> impl Iterator<Item = &StageCost> {
    [&costs.source].into_iter().chain(&costs.stages).chain([&costs.sink])
}

/// Returns the name of a stage in the run that the path does not have, if there is one.
fn stranger(run: &RunReport, path: &Path) -> Option<String> {
    let is_known = |stage: &StageReport| {
        let ends = ["source", "sink", "ring in", "ring out"];
        ends.contains(&stage.name.as_str()) || path.stages.iter().any(|s| s.name == stage.name)
    };
    let mut stages = run.workers.iter().flat_map(|worker| &worker.stages);
    stages.find(|stage| !is_known(stage)).map(|stage| stage.name.clone())
}

/// Returns the ring costs of a run, averaged over its workers; `None` if the run had no rings or
/// their times are missing.
fn ring_costs(run: &RunReport, burst: u32) -> Option<Handover> {
    let side = |name: &str| {
        let stages = run.workers.iter().flat_map(|worker| &worker.stages);
        let figures: Vec<&Figure> = stages
            .filter(|stage| stage.name == name && stage.packets > 0)
            .map(|stage| &stage.ticks_per_packet)
            .collect();
        let estimates: Vec<Estimate> =
            figures.iter().filter_map(|figure| crate::profile::estimate(figure).ok()).collect();
        let n = estimates.len() as f64;
        let mean = |of: fn(&Estimate) -> f64| estimates.iter().map(of).sum::<f64>() / n;
        let first = estimates.first()?;
        Some(Estimate {
            value: mean(|e| e.value),
            low: mean(|e| e.low),
            high: mean(|e| e.high),
            ..*first
        })
    };
    Some(Handover { producer_ticks: side("ring out")?, consumer_ticks: side("ring in")?, burst })
}

fn timed(cost: &GivenCost, spread: f64) -> Result<StageCost, InputsError> {
    let ns = cost.ns.ok_or_else(|| InputsError::NoTime { stage: cost.name.clone() })?;
    Ok(stage_cost(&cost.name, ns, cost.reach, spread))
}

fn stage_cost(name: &str, ns: f64, reach: f64, spread: f64) -> StageCost {
    let ticks = around(ns * reach, spread);
    StageCost { name: name.to_owned(), ticks, reach, hot_ticks: None }
}

fn around(value: f64, spread: f64) -> Estimate {
    let [low, high] = [1.0 - spread, 1.0 + spread].map(|factor| value * factor);
    Estimate { value, low, high, confidence: CONFIDENCE, n: 1 }
}

/// Returns the machine's properties, and adds the assumptions among them to `list`.
fn environment(
    ticks_per_s: f64,
    processors: Processors,
    handover: Handover,
    list: &mut Vec<Input>,
) -> Environment {
    let [value, low, high] = SCALING;
    let drift = if processors.are_shared { DRIFT_SHARED } else { DRIFT_ALONE };
    let speed = format!("{} to {} of its speed alone", three_digits(low), three_digits(high));
    let burst_ticks = unmeasured_burst(ticks_per_s);
    let drifts = format!("{} % (standard deviation)", three_digits(100.0 * drift));
    list.extend([
        input("speed of a CPU with all CPUs loaded", &speed, Origin::Assumed),
        input(BURST, &nanoseconds(&burst_ticks, ticks_per_s), Origin::Assumed),
        input("CPU speed drift", &drifts, Origin::Assumed),
    ]);
    Environment {
        ticks_per_s,
        cpus: processors.count.max(1),
        scaling: Estimate { value, low, high, confidence: CONFIDENCE, n: 0 },
        handover,
        burst_ticks,
        drift,
        largest_share: Vec::new(),
    }
}

fn ring_input(handover: &Handover, ticks_per_s: f64, origin: Origin) -> Input {
    let [out, into] = [&handover.producer_ticks, &handover.consumer_ticks]
        .map(|ticks| nanoseconds(ticks, ticks_per_s));
    input("ring hand-over, sender and receiver", &format!("{out}, {into}"), origin)
}

fn nanoseconds(ticks: &Estimate, ticks_per_s: f64) -> String {
    let ns = |ticks: f64| three_digits(ticks * 1e9 / ticks_per_s);
    match ticks.low.is_finite() && ticks.high.is_finite() && ticks.low < ticks.high {
        true => format!("{} ns ({} to {})", ns(ticks.value), ns(ticks.low), ns(ticks.high)),
        false => format!("{} ns", ns(ticks.value)),
    }
}

/// Returns an input to a plan: a figure's name, its value as text, and its origin.
pub fn input(name: &str, value: &str, origin: Origin) -> Input {
    Input { name: name.to_owned(), value: value.to_owned(), origin }
}

/// Returns the origin of the figure named `key` of a stage: fitted or assumed if the path file says
/// so, otherwise given.
pub fn origin(cost: &GivenCost, key: &str) -> Origin {
    let named = |list: &[String]| list.iter().any(|name| name == key);
    match (named(&cost.fitted), named(&cost.assumed)) {
        (true, _) => Origin::Fitted,
        (false, true) => Origin::Assumed,
        (false, false) => Origin::Given,
    }
}

fn times_of(cost: &GivenCost) -> Vec<Input> {
    let reach = (cost.reach < 1.0).then(|| ("reach", three_digits(cost.reach)));
    let ns = cost.ns.map(|ns| ("ns", format!("{} ns", three_digits(ns))));
    let named = |(key, value): (&str, String)| {
        input(&format!("{}: {key}", cost.name), &value, origin(cost, key))
    };
    ns.into_iter().chain(reach).map(named).collect()
}
