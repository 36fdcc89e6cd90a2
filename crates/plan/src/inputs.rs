// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs to a plan: stage costs and machine properties, taken from a run record or the path file,
//! and where each figure comes from.
//!
//! Values found in neither are assumed, with an interval wide enough for all observations so far,
//! and listed as assumptions.

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

/// Assumed speed of a CPU while all CPUs are busy, relative to its speed while all others are idle:
/// value, low end and high end. The low end is the speed of two virtual CPUs that share a core; the
/// high end means no slowdown.
const SCALING: [f64; 3] = [1.0, 0.69, 1.0];

/// Stage costs and machine properties that a plan is based on, with their sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Stage costs per packet entering the path.
    pub costs: Costs,
    /// Machine properties, and costs that depend on the machine rather than the stages: rings,
    /// bursts, slowdown with several busy CPUs.
    pub env: Environment,
    /// CPU quota of the workers, in CPUs; `None` without a quota.
    pub quota: Option<f64>,
    /// Number of equal-rate flows that share the path's rate.
    pub flows: u32,
    /// Where the costs come from, in words.
    pub from: String,
    /// All input figures, each with its origin, for the report.
    pub list: Vec<Input>,
}

/// CPUs that a mapping may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    /// Number of CPUs, at least 1.
    pub count: usize,
    /// Whether the CPUs are virtual, in which case the hypervisor may give their hardware threads
    /// to other guests at any time.
    pub are_shared: bool,
    /// CPU quota in CPUs; `None` without a quota.
    pub quota: Option<f64>,
}

/// Error returned when a plan's inputs are incomplete or inconsistent.
#[derive(Clone, Debug, PartialEq)]
pub enum InputsError {
    /// Stage costs cannot be derived from the run.
    Costs(CostsError),
    /// The run contains a stage that is not in the path.
    OtherPath {
        /// Stage name in the run.
        stage: String,
    },
    /// The path file does not state a stage's time.
    NoTime {
        /// Name of the stage.
        stage: String,
    },
    /// The path file does not state a stage's instruction count.
    NoInstructions {
        /// Name of the stage.
        stage: String,
    },
    /// The mapping and the workers outside the path together need more CPUs than are available.
    TooFewWorkers {
        /// Number of workers in the mapping.
        wanted: usize,
        /// Number of workers outside the mapping, which need a CPU each.
        outside: usize,
        /// Number of CPUs available to workers.
        available: usize,
    },
}

impl fmt::Display for InputsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Costs(error) => error.fmt(f),
            Self::OtherPath { stage } => write!(
                f,
                "the run used a different path, with a stage `{stage}` that this path lacks; run \
                 this path and plan from its record"
            ),
            Self::NoTime { stage } => write!(
                f,
                "[costs] has no time for `{stage}`: set `ns`, or simulate the workers \
                 with --machine t1, --machine t2 or --machine FILE"
            ),
            Self::NoInstructions { stage } => write!(
                f,
                "[costs] has no instruction count for `{stage}`: set `instructions`, or plan with \
                 --machine this"
            ),
            Self::TooFewWorkers { wanted, outside: 0, available } => write!(
                f,
                "the mapping needs {wanted} workers, but only {available} are available: allow \
                 more with --workers N or another --machine, or change [mapping]"
            ),
            Self::TooFewWorkers { wanted, outside, available } => write!(
                f,
                "the mapping needs {wanted} workers and [[costs.neighbours]] needs {outside}, but \
                 only {available} are available: allow more with --workers N or another --machine, \
                 or change [mapping] or [[costs.neighbours]]"
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

/// Checks that a path's workers and `outside` workers outside the path fit on `available` CPUs.
///
/// # Errors
/// Returns [`InputsError::TooFewWorkers`] if they do not fit.
pub fn check_room(path: &Path, outside: usize, available: usize) -> Result<(), InputsError> {
    let wanted = path.mapping.workers();
    match wanted + outside > available {
        true => Err(InputsError::TooFewWorkers { wanted, outside, available }),
        false => Ok(()),
    }
}

impl Inputs {
    /// Takes the inputs from a run of `path` with bursts of `burst` packets; `from` names the run.
    ///
    /// # Errors
    /// Returns an error if the run is of another path, if its costs cannot be derived, or if the
    /// path's mapping does not fit on `processors`.
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

    /// Replaces the machine's ring and burst costs with those measured during tuning. Costs that
    /// were not measured are kept.
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

    /// Takes the inputs from the times per packet stated in the path file of `path`.
    ///
    /// # Errors
    /// Returns an error if a stage has no time, or if the path's mapping does not fit on
    /// `processors`.
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
        let outside = given.neighbours.iter().map(|outside| outside.cpus.len()).sum();
        check_room(path, outside, processors.count)?;
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

/// Name of the per-burst cost in the list of inputs.
const BURST: &str = "cost per burst";

/// Replaces the input in `list` that has the same name as `by`.
fn replace(list: &mut [Input], by: Input) {
    if let Some(input) = list.iter_mut().find(|input| input.name == by.name) {
        *input = by;
    }
}

/// Ticks per second for costs in nanoseconds, where a tick is a nanosecond.
const NS: f64 = 1e9;

fn all(costs: &Costs) -> impl Iterator<Item = &StageCost> {
    [&costs.source].into_iter().chain(&costs.stages).chain([&costs.sink])
}

/// Returns a stage that is in the run but not in the path, if there is one.
fn stranger(run: &RunReport, path: &Path) -> Option<String> {
    let is_known = |stage: &StageReport| {
        let ends = ["source", "sink", "ring in", "ring out"];
        ends.contains(&stage.name.as_str()) || path.stages.iter().any(|s| s.name == stage.name)
    };
    let mut stages = run.workers.iter().flat_map(|worker| &worker.stages);
    stages.find(|stage| !is_known(stage)).map(|stage| stage.name.clone())
}

/// Returns a run's ring costs, averaged over its workers; `None` if it had no rings or their times
/// are missing.
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
    Ok(stage_cost(&cost.name, ns * cost.processed, cost.reach, spread))
}

fn stage_cost(name: &str, ns: f64, reach: f64, spread: f64) -> StageCost {
    let ticks = around(ns * reach, spread);
    StageCost { name: name.to_owned(), ticks, reach, hot_ticks: None }
}

fn around(value: f64, spread: f64) -> Estimate {
    let [low, high] = [1.0 - spread, 1.0 + spread].map(|factor| value * factor);
    Estimate { value, low, high, confidence: CONFIDENCE, n: 1 }
}

/// Returns the machine's properties, adding those that are assumed to `list`.
fn environment(
    ticks_per_s: f64,
    processors: Processors,
    handover: Handover,
    list: &mut Vec<Input>,
) -> Environment {
    let [value, low, high] = SCALING;
    let drift = if processors.are_shared { DRIFT_SHARED } else { DRIFT_ALONE };
    let speed = format!(
        "{} to {} times the speed of a CPU running alone",
        three_digits(low),
        three_digits(high)
    );
    let burst_ticks = unmeasured_burst(ticks_per_s);
    let drifts = format!("{} % (standard deviation)", three_digits(100.0 * drift));
    list.extend([
        input("CPU speed with all CPUs loaded", &speed, Origin::Assumed),
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
    input("ring handoff, sender and receiver", &format!("{out}, {into}"), origin)
}

fn nanoseconds(ticks: &Estimate, ticks_per_s: f64) -> String {
    let ns = |ticks: f64| three_digits(ticks * 1e9 / ticks_per_s);
    match ticks.low.is_finite() && ticks.high.is_finite() && ticks.low < ticks.high {
        true => format!("{} ns ({} to {})", ns(ticks.value), ns(ticks.low), ns(ticks.high)),
        false => format!("{} ns", ns(ticks.value)),
    }
}

/// Creates an input to a plan from a figure's name, its value as text, and its origin.
pub fn input(name: &str, value: &str, origin: Origin) -> Input {
    Input { name: name.to_owned(), value: value.to_owned(), origin }
}

/// Returns the origin of a stage's figure `key`: fitted or assumed if the path file says so,
/// otherwise given.
pub fn origin(cost: &GivenCost, key: &str) -> Origin {
    let named = |list: &[String]| list.iter().any(|name| name == key);
    match (named(&cost.fitted), named(&cost.assumed)) {
        (true, _) => Origin::Fitted,
        (false, true) => Origin::Assumed,
        (false, false) => Origin::Given,
    }
}

fn times_of(cost: &GivenCost) -> Vec<Input> {
    let share = |key, value: f64| (value < 1.0).then(|| (key, three_digits(value)));
    let shares = [share("reach", cost.reach), share("processed", cost.processed)];
    let ns = cost.ns.map(|ns| ("ns", format!("{} ns", three_digits(ns))));
    let named = |(key, value): (&str, String)| {
        input(&format!("{}: {key}", cost.name), &value, origin(cost, key))
    };
    ns.into_iter().chain(shares.into_iter().flatten()).map(named).collect()
}
