// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts a mapping's throughput from the costs of its stages.
//!
//! A mapping is as fast as its slowest worker. The load of a worker in segment `s`, per packet
//! entering the path, is
//!
//! ```text
//! load(s) = largest_share(replicas(s)) x ( ingress + stages + egress + bursts )
//!     ingress = source, or consumer_ticks x share of packets that reach the segment
//!     egress  = sink, or producer_ticks x share of packets that leave the segment
//!     bursts  = burst_ticks x (1 / burst - 1 / measured burst)
//!               x (stages of s + 2) / (all stages + 2)
//! packets per second = ticks_per_s / ( max over s of load(s) x slowdown(workers) )
//! ```
//!
//! - Each replica takes the flows of its own source queue; the queues advance together, so the
//!   replica with the largest share sets the pace.
//! - The fixed cost of a burst is spread over the steps of a worker, including the two ends, since
//!   each step is entered once per burst.
//! - `slowdown` is 1 for one worker and `1 / scaling` when all processors are busy, and linear in
//!   between; each cost is divided by the slowdown of the run in which it was measured.
//! - There is no term for ring depth: service times vary little within a ring's worth of packets.
//!
//! Prediction intervals account for the uncertainty of each input, and for the error of the formula
//! itself:
//!
//! ```text
//! repeat DRAWS times:
//!     draw every input from its estimate, all costs of the run with the same deviate
//!     rate <- the formula on those inputs x exp(model error x standard normal)
//! low, high <- the two quantiles of the rates that enclose a share of CONFIDENCE
//! ```
//!
//! Costs from one run share a deviate because they were measured together: whatever slowed one
//! stage slowed the others too, and independent draws would average that out in a long segment.
//!
//! The seed is fixed, so that predictions are pure functions and mappings are compared under the
//! same draws. With memory-bound stages, the formula can only give a range, whose upper end assumes
//! that all their data is cached, and whose lower end assumes that additional workers lengthen
//! memory waits.
//!
//! Not modelled: the source rate (predictions are capacities), the placement of workers on
//! processors, and mappings with more workers than processors.

use crate::costs::{Costs, StageCost};
use crate::sample::draw;
use linerate_path::model::{Mapping, Segment};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, Estimate, quantile};
use std::ops::Range;

/// Number of draws per interval. It determines the share of the distribution below the 2.5 %
/// quantile to within 0.8 percentage points (square root of 0.025 x 0.975 / 400).
const DRAWS: u32 = 400;

/// Random seed: arbitrary but fixed, so that equal inputs give equal predictions.
const SEED: u64 = 0x6C69_6E65_7261_7465;

/// Standard deviation of the formula's relative error, for each mechanism that a mapping may use.
/// Errors are independent, so they add in quadrature.
///
/// For compute-bound mappings on two workers, predictions from costs measured alone were off by
/// 0.3-0.6 % (replicated) and 1-2 % (pipelined). Over a mix of stages with and without memory
/// waits, the median error was 10 % and 6 %, which for a normal distribution corresponds to
/// standard deviations of 15 % and 9 %. With costs measured in place and memory-bound stages
/// treated separately, errors should be much closer to the former. Processor drift is a separate
/// input, added to this.
mod model_error {
    pub(super) const REPLICATION: f64 = 0.03;
    pub(super) const PIPELINING: f64 = 0.06;
    pub(super) const BURST: f64 = 0.02;
}

/// Standard deviation of the relative speed drift of physical CPUs between the measurement of the
/// costs and the predicted run.
pub const DRIFT_ALONE: f64 = 0.02;

/// Standard deviation of the relative speed drift of virtual CPUs, whose host may schedule another
/// guest on the SMT sibling at any time. Observed speeds alternate between 1 and 0.69 for seconds
/// at a time. Measuring costs at one speed and running at the other gives a difference of ln(1 /
/// 0.69) = 0.37, or 1.5 standard deviations.
pub const DRIFT_SHARED: f64 = 0.25;

/// Additional cost of memory-bound stages, as a fraction of their measured cost, when more workers
/// compete for memory than in the measured run. A pessimistic assumption, not yet confirmed by
/// measurements.
const CONTENTION_MARGIN: f64 = 0.25;

/// Fraction of a ring's cost at the measured burst size that is paid per packet (copying the
/// handle). The rest is paid per burst (index cache lines moving between processors). On a ring
/// with cached indices, a single packet costs 18 times as much as a packet in a burst of 32 between
/// nearby processors (18 ns and 1 ns) and 5 times as much between distant ones (22 ns and 5 ns).
/// With a fraction of one half, the factor is 16.
const RING_PER_PACKET: f64 = 0.5;

/// Number of workers running while a ring is measured: one at each end.
const HANDOVER_WORKERS: usize = 2;

/// Cost of a ring handoff, measured with two running workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// Ticks per packet on the producer.
    pub producer_ticks: Estimate,
    /// Ticks per packet on the consumer, including the first access to packet data.
    pub consumer_ticks: Estimate,
    /// Burst size in packets at which the handoff was measured.
    pub burst: u32,
}

impl Handover {
    /// Returns the costs assumed without a measurement. The interval spans the cheapest handoff
    /// seen between nearby CPUs (1 to 2 ns for both sides, bursts of 32) and the most expensive one
    /// between distant CPUs (50 ns per side, bursts of 8), with a margin at each end, because the
    /// cost of queues in other programs varies that much.
    pub fn unmeasured(ticks_per_s: f64, burst: u32) -> Self {
        let ticks = assumed(15.0, [2.0, 58.0], ticks_per_s);
        Self { producer_ticks: ticks, consumer_ticks: ticks, burst }
    }
}

/// Returns the fixed cost per burst assumed without a measurement, in ticks. The interval ranges
/// from zero to the cost of calling a dozen functions with cold caches.
pub fn unmeasured_burst(ticks_per_s: f64) -> Estimate {
    assumed(58.0, [0.0, 230.0], ticks_per_s)
}

/// Converts an assumed value and its interval from nanoseconds to an estimate in ticks.
fn assumed(ns: f64, [low, high]: [f64; 2], ticks_per_s: f64) -> Estimate {
    let [value, low, high] = [ns, low, high].map(|ns| ns * ticks_per_s / 1e9);
    Estimate { value, low, high, confidence: CONFIDENCE, n: 0 }
}

/// Machine properties, and costs that depend on the machine rather than the stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Ticks of the timestamp counter per second.
    pub ticks_per_s: f64,
    /// Number of processors available for pinning workers, at least 1.
    pub cpus: usize,
    /// Speed of a CPU with all CPUs busy, relative to its speed alone; about 1 or less. Finite,
    /// like all estimates here.
    pub scaling: Estimate,
    /// Cost of passing packets through a ring.
    pub handover: Handover,
    /// Fixed ticks per burst over all steps of a worker that runs all stages. Derived from two runs
    /// of the mapping whose costs were measured, at different burst sizes.
    pub burst_ticks: Estimate,
    /// Standard deviation of the relative change in CPU speed between measuring costs and the
    /// predicted run: [`DRIFT_ALONE`] or [`DRIFT_SHARED`].
    pub drift: f64,
    /// Largest share of packets that any of `r` replicas gets, at index `r - 1`. A missing entry,
    /// or one below `1 / r`, stands for an even distribution.
    pub largest_share: Vec<f64>,
}

impl Environment {
    pub(crate) fn share(&self, replicas: u32) -> f64 {
        let even = 1.0 / f64::from(replicas);
        self.largest_share.get(replicas as usize - 1).map_or(even, |s| s.clamp(even, 1.0))
    }
}

/// Predicted rate and bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Rate at which packets enter the path, in kpps.
    pub kpps: Estimate,
    /// Index of the bottleneck segment.
    pub bottleneck: usize,
    /// Whether memory-bound stages make the prediction a range.
    pub memory_bound: bool,
}

/// Predicts the throughput of `mapping` with bursts of `burst` packets.
///
/// `mapping` must cover exactly the stages in `costs` and have at most `env.cpus` workers.
///
/// # Panics
/// Panics if the mapping contains stages that `costs` does not.
pub fn predict(mapping: &Mapping, burst: u32, costs: &Costs, env: &Environment) -> Prediction {
    let point = Terms::point(costs, env, burst);
    let (value, bottleneck) = point.throughput(mapping);
    let slow = Case::contended(mapping, costs);
    let at = |case| Terms::new(costs, env, burst, case, |e, _| e.value).throughput(mapping).0;
    let memory_bound = at(Case::Hot) > at(slow) * (1.0 + DRIFT_ALONE);
    let ends = if memory_bound { [slow, Case::Hot] } else { [Case::Measured; 2] };
    let end = |case, q| quantile(&rates(mapping, burst, costs, env, case), q).unwrap_or(value);
    let low = end(ends[0], (1.0 - CONFIDENCE) / 2.0);
    let high = end(ends[1], (1.0 + CONFIDENCE) / 2.0);
    let [is_low_known, is_high_known] = bounds_known(mapping, burst, costs, env);
    let low = is_low_known.then(|| low.min(value) / 1e3);
    let high = is_high_known.then(|| high.max(value) / 1e3);
    let kpps = Estimate::of_ends(value / 1e3, low, high, u64::from(DRAWS));
    Prediction { kpps, bottleneck, memory_bound }
}

/// Returns whether the costs that `mapping` adds to the measured ones have an upper bound, and
/// whether they have a lower bound. Without an upper bound on the costs, the interval of the rate
/// has no lower end; without a lower bound, it has no upper end.
fn bounds_known(mapping: &Mapping, burst: u32, costs: &Costs, env: &Environment) -> [bool; 2] {
    let Handover { producer_ticks, consumer_ticks, .. } = &env.handover;
    let rings =
        if mapping.segments.len() > 1 { vec![producer_ticks, consumer_ticks] } else { vec![] };
    let bursts = (burst != costs.burst).then_some(&env.burst_ticks);
    let added: Vec<&Estimate> = rings.into_iter().chain(bursts).collect();
    [added.iter().all(|e| e.high.is_finite()), added.iter().all(|e| e.low.is_finite())]
}

/// A mapping and its burst size in packets.
pub type Setting<'a> = (&'a Mapping, u32);

/// Predicts the speedup of mapping `to` over `from`, with its interval.
///
/// Both predictions use the same draws, so that common factors (drift, cost errors) cancel. The
/// formula error of a mechanism (replicas, rings, or a burst size other than the one at which the
/// costs were measured) cancels only if both mappings use that mechanism. The speedup of a mapping
/// over itself is exactly 1.
///
/// # Panics
/// Panics if a mapping contains stages that `costs` does not.
pub fn speedup(from: Setting<'_>, to: Setting<'_>, costs: &Costs, env: &Environment) -> Estimate {
    let at = |(mapping, burst): Setting<'_>, case| {
        Terms::new(costs, env, burst, case, |e, _| e.value).throughput(mapping).0
    };
    let value = at(to, Case::Measured) / at(from, Case::Measured);
    let slow = Case::contended(to.0, costs);
    let is_range = at(to, Case::Hot) > at(to, slow) * (1.0 + DRIFT_ALONE) && from != to;
    let ends = if is_range { [slow, Case::Hot] } else { [Case::Measured; 2] };
    let end = |case, q| quantile(&ratios(from, to, costs, env, case), q).unwrap_or(value);
    let low = end(ends[0], (1.0 - CONFIDENCE) / 2.0).min(value);
    let high = end(ends[1], (1.0 + CONFIDENCE) / 2.0).max(value);
    Estimate { value, low, high, confidence: CONFIDENCE, n: u64::from(DRAWS) }
}

/// Draws random speedups of `to` over `from`. `case` is what to assume about memory-bound stages
/// under `to`.
fn ratios(
    from: Setting<'_>,
    to: Setting<'_>,
    costs: &Costs,
    env: &Environment,
    case: Case,
) -> Vec<f64> {
    let other = |burst| burst != costs.burst;
    let variance: f64 = mechanisms(from.0, other(from.1), 0.0)
        .iter()
        .zip(mechanisms(to.0, other(to.1), 0.0))
        .filter(|((on, _), (other_on, _))| on != other_on)
        .map(|((_, sigma), _)| sigma * sigma)
        .sum();
    let mut random = Random::new(SEED);
    (0..DRAWS)
        .map(|_| {
            let of_run = random.normal();
            let drawn = |(mapping, burst): Setting<'_>, case, random: &mut Random| {
                let terms = Terms::new(costs, env, burst, case, |e, origin| match origin {
                    Origin::Run => draw(e, of_run),
                    Origin::Machine => draw(e, random.normal()),
                });
                terms.throughput(mapping).0
            };
            let before = drawn(from, Case::Measured, &mut random.clone());
            let after = drawn(to, case, &mut random);
            after / before * (variance.sqrt() * random.normal()).exp()
        })
        .collect()
}

/// Returns the load of each segment's busiest worker, in ticks per packet entering the path, at the
/// speed of workers under this mapping.
pub fn loads((mapping, burst): Setting<'_>, costs: &Costs, env: &Environment) -> Vec<f64> {
    let terms = Terms::point(costs, env, burst);
    let load = |s: &Segment| terms.load(s.stages.clone(), s.replicas);
    let ticks = |load| env.ticks_per_s / terms.rate(load, mapping.workers());
    mapping.segments.iter().map(|segment| ticks(load(segment))).collect()
}

/// Draws random packet rates, in packets per second, from the distribution that the model predicts
/// for `mapping`.
fn rates(mapping: &Mapping, burst: u32, costs: &Costs, env: &Environment, case: Case) -> Vec<f64> {
    let mut random = Random::new(SEED);
    let sigma = model_sigma(mapping, burst != costs.burst, env.drift);
    (0..DRAWS)
        .map(|_| {
            let of_run = random.normal();
            let terms = Terms::new(costs, env, burst, case, |e, origin| match origin {
                Origin::Run => draw(e, of_run),
                Origin::Machine => draw(e, random.normal()),
            });
            terms.throughput(mapping).0 * (sigma * random.normal()).exp()
        })
        .collect()
}

fn model_sigma(mapping: &Mapping, other_burst: bool, drift: f64) -> f64 {
    let mechanisms = mechanisms(mapping, other_burst, drift);
    let variance: f64 = mechanisms.iter().filter(|(on, _)| *on).map(|(_, s)| s * s).sum();
    variance.sqrt()
}

/// Returns each source of formula error: whether it applies to `mapping`, and its standard
/// deviation.
fn mechanisms(mapping: &Mapping, other_burst: bool, drift: f64) -> [(bool, f64); 4] {
    [
        (true, drift),
        (mapping.segments.iter().any(|s| s.replicas > 1), model_error::REPLICATION),
        (mapping.segments.len() > 1, model_error::PIPELINING),
        (other_burst, model_error::BURST),
    ]
}

/// Where an estimate comes from, which determines whether its error is correlated with others.
#[derive(Clone, Copy)]
enum Origin {
    /// A service time from the run; all service times share a random deviate.
    Run,
    /// A measurement of the machine itself, which has a random deviate of its own.
    Machine,
}

/// Assumption about the cost of memory-bound stages.
#[derive(Clone, Copy)]
enum Case {
    /// As measured in the run.
    Measured,
    /// As measured with all of the stages' data in cache.
    Hot,
    /// As measured in the run, plus the contention margin.
    Contended,
}

impl Case {
    /// Returns the pessimistic case, which is contention if `mapping` has more workers than the run
    /// that measured the costs. That run's costs already include contention among its own workers.
    fn contended(mapping: &Mapping, costs: &Costs) -> Self {
        if mapping.workers() > costs.workers { Self::Contended } else { Self::Measured }
    }

    /// Returns a stage's cost in ticks. `pick` draws a number from an estimate and is called
    /// exactly once, so that all cases use the same draws.
    fn ticks(self, cost: &StageCost, pick: &mut impl FnMut(&Estimate, Origin) -> f64) -> f64 {
        match (self, &cost.hot_ticks) {
            (Self::Hot, Some(hot)) => pick(hot, Origin::Run),
            (Self::Contended, Some(_)) => {
                pick(&cost.ticks, Origin::Run) * (1.0 + CONTENTION_MARGIN)
            }
            _ => pick(&cost.ticks, Origin::Run),
        }
    }
}

/// The throughput formula with a definite value for each input.
pub(crate) struct Terms<'a> {
    costs: &'a Costs,
    env: &'a Environment,
    /// Running sums: entry `i` is the total ticks of the stages before stage `i`.
    before: Vec<f64>,
    source: f64,
    sink: f64,
    producer: f64,
    consumer: f64,
    /// Ticks per worker step that the burst size adds to the measured cost; may be negative.
    burst_step: f64,
    scaling: f64,
}

impl<'a> Terms<'a> {
    /// Returns the formula with each input at the value of its estimate.
    pub(crate) fn point(costs: &'a Costs, env: &'a Environment, burst: u32) -> Self {
        Self::new(costs, env, burst, Case::Measured, |e, _| e.value)
    }

    fn new(
        costs: &'a Costs,
        env: &'a Environment,
        burst: u32,
        case: Case,
        mut pick: impl FnMut(&Estimate, Origin) -> f64,
    ) -> Self {
        let mut before = vec![0.0];
        for stage in &costs.stages {
            before.push(before[before.len() - 1] + case.ticks(stage, &mut pick));
        }
        let per_burst = |size: u32| 1.0 / f64::from(size.max(1));
        let ring = RING_PER_PACKET
            + (1.0 - RING_PER_PACKET) * per_burst(burst) / per_burst(env.handover.burst);
        // A speed of 0 would mean a stopped CPU; anything below a tenth is a failed measurement.
        let scaling = pick(&env.scaling, Origin::Machine).max(0.1);
        let ring = ring * slowdown(env.cpus, scaling, costs.workers)
            / slowdown(env.cpus, scaling, HANDOVER_WORKERS);
        let steps = costs.stages.len() as f64 + 2.0;
        Self {
            costs,
            env,
            before,
            scaling,
            source: case.ticks(&costs.source, &mut pick),
            sink: case.ticks(&costs.sink, &mut pick),
            producer: pick(&env.handover.producer_ticks, Origin::Machine) * ring,
            consumer: pick(&env.handover.consumer_ticks, Origin::Machine) * ring,
            burst_step: pick(&env.burst_ticks, Origin::Machine) / steps
                * (per_burst(burst) - per_burst(costs.burst)),
        }
    }

    /// Returns the ticks per packet entering the path on the busiest of `replicas` workers that run
    /// `stages`, at the speed of workers in the run that measured the costs.
    pub(crate) fn load(&self, stages: Range<usize>, replicas: u32) -> f64 {
        let work = self.before[stages.end] - self.before[stages.start];
        let ingress = match stages.start {
            0 => self.source,
            first => self.consumer * self.costs.stages[first].reach,
        };
        let egress = match self.costs.stages.get(stages.end) {
            None => self.sink,
            Some(next) => self.producer * next.reach,
        };
        let bursts = self.burst_step * (stages.len() + 2) as f64;
        // A burst correction based on noisy inputs can exceed the cost, but no packet costs less
        // than a tick.
        (ingress + work + egress + bursts).max(1.0) * self.env.share(replicas)
    }

    /// Returns packets per second if the busiest of `workers` workers has a load of `load` ticks.
    pub(crate) fn rate(&self, load: f64, workers: usize) -> f64 {
        let slower = |workers| slowdown(self.env.cpus, self.scaling, workers);
        let ticks = load * slower(workers) / slower(self.costs.workers);
        self.env.ticks_per_s / ticks
    }

    /// Returns a mapping's packets per second and the index of the bottleneck segment.
    fn throughput(&self, mapping: &Mapping) -> (f64, usize) {
        let load = |s: &Segment| self.load(s.stages.clone(), s.replicas);
        let loads = mapping.segments.iter().map(load).enumerate();
        let worst = loads.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let (segment, load) = worst.unwrap_or((0, 1.0));
        (self.rate(load, mapping.workers()), segment)
    }
}

/// Returns the factor by which service times increase when `workers` of `cpus` processors are busy
/// instead of one.
fn slowdown(cpus: usize, scaling: f64, workers: usize) -> f64 {
    let others = cpus.saturating_sub(1);
    let busy = workers.saturating_sub(1).min(others);
    1.0 + (1.0 / scaling - 1.0) * busy as f64 / others.max(1) as f64
}
