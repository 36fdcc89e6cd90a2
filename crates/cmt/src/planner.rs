// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans for processors whose strands share pipelines. Each mapping is simulated cycle by cycle.
//!
//! A setting is a `Setup`: the strands that run each stage, with their CPUs; the other threads on
//! the chip; and how all of these poll. A change is a single step from one setting to another. Each
//! changed setting is simulated as a whole; [`linerate_plan::search`] chains changes.
//!
//! ```text
//! rate(setup)     = packets that leave the path, simulated
//! interval        = the rates with all costs raised and lowered by their spread, widened by the
//!                   simulator's own error, and capped at the line rate
//! changes         = park, slow polling, relieve, replicate, split, merge, place elsewhere;
//!                   for the mapping as written, also the best of all placements
//! ```
//!
//! An upper bound (`bound.rs`) limits how much faster an untried mapping could be. Cores without a
//! strand of the path are not simulated, because they share nothing with the path.
//!
//! The simulation does not model bursts (it hands off packets one by one), kernel variants, or
//! changes in misses when strands move.

mod basis;
mod bound;
mod changes;
mod error;
mod load;
mod rates;
mod relocate;
mod setup;
mod simulated;
mod simulator;

pub use error::SimulationError;

use crate::{Chip, Outcome};
use bound::LINE_REACHED;
use changes::Changes;
use linerate_path::costs::{GivenCosts, Idling};
use linerate_path::model::{Mapping, Segment};
use linerate_path::spec::State;
use linerate_plan::predictor::{
    Basis, Bounds, CandidateOf, Changed, Placement, Planner, Predicted, PredictedBy, Predictor,
};
use linerate_plan::search::{self, ONE_STATE, Subject};
use linerate_record::plan::{
    Bottleneck, Change, Model, PlanReport, PlannedWorker, Proof, Search, WorkersBeside,
};
use linerate_record::tune::RuledOut;
use linerate_record::units::three_digits;
use rates::Rates;
use relocate::{Relocated, relocated};
use setup::{Outsiders, Setup};
use simulated::Simulated;
use simulator::Simulator;

const METHOD: &str = "simulated cycle by cycle from instructions, misses and stalls per packet";

/// Divisor of the cycle count when simulating a kind of pipe rather than a whole setup. There are
/// many kinds, and the best placement is simulated as a whole afterwards.
const KIND_SHARE: u64 = 4;

/// Relative difference below which rates count as equal; a simulation counts only a few hundred
/// packets per flow.
const SAME: f64 = 0.01;

/// Simulator inputs other than the path.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// Stage costs from the path file.
    pub costs: &'a GivenCosts,
    /// Chip that the path is planned for.
    pub chip: &'a Chip,
    /// Number of usable strands, starting with the chip's first.
    pub cpus: u32,
    /// Cycles counted per simulation. The warm-up before them takes a quarter of this number.
    pub cycles: u64,
}

/// Predicts the rate of a path's mapping on a chip, and recommends changes.
///
/// # Errors
/// Returns an error if a stage has no instructions, or if the mapping does not fit the chip or
/// names CPUs that the chip does not have.
///
/// # Panics
/// Panics if the specifications or the costs do not belong to the path.
pub fn plan(
    subject: &Subject<'_>,
    simulation: &Simulation<'_>,
) -> Result<PlanReport, SimulationError> {
    let mut planning = Planning::new(subject, simulation)?;
    planning.relocate()?;
    search::plan(subject, &planning)
}

/// Predicts the rate that a path achieves on a chip with the mapping given in its file; makes no
/// recommendations.
///
/// # Errors
/// As for [`plan`].
///
/// # Panics
/// As for [`plan`].
pub fn written(
    subject: &Subject<'_>,
    simulation: &Simulation<'_>,
) -> Result<PlanReport, SimulationError> {
    search::written(subject, &Planning::new(subject, simulation)?)
}

struct Planning<'a> {
    simulator: Simulator<'a>,
    written: Predicted<Setup, Outcome>,
    /// Rates of the mapping as written, the baseline for all gains.
    written_rates: Rates,
    /// Best placement for the mapping as written; `None` if placements were not examined.
    relocated: Option<Relocated>,
}

impl<'a> Planning<'a> {
    fn new(
        subject: &'a Subject<'a>,
        simulation: &'a Simulation<'a>,
    ) -> Result<Self, SimulationError> {
        let simulator = Simulator::new(subject, simulation)?;
        let written = simulator.predicted(simulator.given()?)?;
        if written.kpps <= 0.0 {
            return Err(simulator.no_packet());
        }
        let written_rates = simulator.rates(&written.setting, written.kpps)?;
        Ok(Self { simulator, written, written_rates, relocated: None })
    }

    /// Finds the best placement for the mapping as written.
    fn relocate(&mut self) -> Result<(), SimulationError> {
        let Simulator { simulation, world, .. } = &self.simulator;
        let run = self.simulator.run(KIND_SHARE);
        let most_kpps = self.simulator.bound();
        self.relocated = relocated(world, &self.written.setting, simulation.cpus, most_kpps, &run)?;
        Ok(())
    }

    fn simulated(&self, predicted: &'a Predicted<Setup, Outcome>) -> Simulated<'_> {
        Simulated::new(&self.simulator, predicted)
    }

    /// Returns the pipes used by each segment, and by each group of polling strands outside the
    /// path.
    fn pipes(&self, setup: &Setup) -> Vec<Vec<u32>> {
        let polls = setup.beside.iter().filter(|beside| beside.does == Idling::Polls);
        let groups = setup.segments.iter().map(|one| &one.cpus).chain(polls.map(|one| &one.cpus));
        let pipes = groups.map(|cpus| {
            let of = cpus.iter().map(|cpu| cpu / self.simulator.simulation.chip.strands_per_pipe);
            let mut pipes: Vec<u32> = of.collect();
            pipes.sort_unstable();
            pipes
        });
        pipes.collect()
    }

    /// Returns the polling strands outside the path that the setup moves to other CPUs.
    fn moved(&self, setup: &Setup) -> Vec<WorkersBeside> {
        let written = &self.simulator.simulation.costs.neighbours;
        let is_there = |beside: &Outsiders| {
            written.iter().any(|one| one.name == beside.name && one.cpus == beside.cpus)
        };
        let polls = setup.beside.iter().filter(|beside| beside.does == Idling::Polls);
        let moved = polls.filter(|beside| !is_there(beside));
        moved.map(|one| WorkersBeside { name: one.name.clone(), cpus: one.cpus.clone() }).collect()
    }
}

impl Predictor for Planning<'_> {
    type Setting = Setup;
    type Evidence = Outcome;
    type Error = SimulationError;

    fn predict(&self, setup: Setup) -> Result<PredictedBy<Self>, SimulationError> {
        self.simulator.predicted(setup)
    }

    fn bounds(&self, of: &PredictedBy<Self>) -> Result<Bounds, SimulationError> {
        let rates = match of.setting == self.written.setting {
            true => self.written_rates,
            false => self.simulator.rates(&of.setting, of.kpps)?,
        };
        let kpps = rates.rate(self.simulator.line());
        Ok(Bounds { kpps, gain: rates.gain_over(self.written_rates) })
    }
}

impl Planner for Planning<'_> {
    const MODEL: Model = Model::Simulation;
    const METHOD: &'static str = METHOD;
    const STEPS: usize = 3;

    fn written(&self) -> &PredictedBy<Self> {
        &self.written
    }

    /// Returns the possible changes, except for placements on the same pipes as before. Such
    /// placements are faster only because they displace endless loops; parking the loops has the
    /// same effect.
    fn changes(&self, of: &PredictedBy<Self>) -> Vec<Changed<Setup>> {
        let Simulator { subject, simulation, world } = &self.simulator;
        let changes = Changes { world, specs: subject.specs, cpus: simulation.cpus };
        let setup = &of.setting;
        let mut all = changes.of(setup, self.simulated(of).most().0);
        if *setup == self.written.setting {
            all.extend(self.relocated.iter().map(|relocated| relocated.changed.clone()));
        }
        let is_moved = |one: &Changed<Setup>| {
            one.kind != Change::Place || self.pipes(&one.setting) != self.pipes(setup)
        };
        all.retain(is_moved);
        all
    }

    /// Drops a candidate if another candidate of the same kind is about as fast, but uses fewer
    /// strands or parks fewer strands.
    fn needed(&self, candidates: Vec<CandidateOf<Self>>) -> Vec<CandidateOf<Self>> {
        let strands = |one: &CandidateOf<Self>| one.predicted.setting.strands();
        let parks_more = |one: &CandidateOf<Self>, other: &CandidateOf<Self>| {
            let beside = |one: &CandidateOf<Self>| one.predicted.setting.strands_outside();
            one.kind == Change::Park && beside(one) < beside(other)
        };
        let is_needless = |one: &CandidateOf<Self>| {
            candidates.iter().any(|other| {
                other.kind == one.kind
                    && (strands(other) < strands(one) || parks_more(one, other))
                    && other.predicted.kpps > one.predicted.kpps * (1.0 - SAME)
            })
        };
        candidates.iter().filter(|one| !is_needless(one)).cloned().collect()
    }

    fn is_enough(&self, kpps: f64) -> bool {
        kpps >= LINE_REACHED * self.simulator.line()
    }

    fn placement(&self, setup: &Setup) -> Placement {
        let segments = setup.segments.iter().map(|placed| Segment {
            stages: placed.stages.clone(),
            replicas: placed.cpus.len() as u32,
            cpus: Vec::new(),
        });
        Placement {
            mapping: Mapping { segments: segments.collect() },
            burst: self.simulator.subject.path.run.burst,
            cpus: Some(setup.segments.iter().flat_map(|one| &one.cpus).copied().collect()),
            beside: self.moved(setup),
        }
    }

    fn why(&self, change: &CandidateOf<Self>) -> String {
        let pace = self.simulated(&self.written).pace();
        format!(
            "as written, {pace}; after the change, {}",
            self.simulated(&change.predicted).bottleneck().sentence
        )
    }

    fn proof(&self, predicted: &PredictedBy<Self>, bounds: &Bounds) -> Proof {
        let after = self.simulated(predicted);
        let busy = match after.saturated() {
            Some(worker) if !after.is_line_reached() => {
                format!(", or worker {worker} has empty polls")
            }
            _ => String::new(),
        };
        let sentence = format!(
            "a flow's rate on this chip, measured with the changed path, is below {} kpps{busy}",
            three_digits(bounds.kpps.low)
        );
        Proof { sentence, command: None }
    }

    fn bottleneck(&self) -> Bottleneck {
        self.simulated(&self.written).bottleneck()
    }

    fn workers(&self) -> Vec<PlannedWorker> {
        self.simulated(&self.written).workers()
    }

    fn ruled_out(&self) -> Vec<RuledOut> {
        let Subject { path, specs, .. } = self.simulator.subject;
        let stages = path.stages.iter().zip(*specs);
        let global = stages.filter(|(_, spec)| spec.state == State::Global);
        let held = global.map(|(stage, _)| RuledOut {
            name: format!("replicate `{}`", stage.name),
            reason: format!("it {ONE_STATE}"),
        });
        let burst = RuledOut {
            name: "other burst sizes or kernels".to_owned(),
            reason: "the simulator passes packets one at a time and does not model kernels"
                .to_owned(),
        };
        held.chain([burst]).collect()
    }

    fn extent(&self, best_kpps: Option<f64>) -> Search {
        let placed_kpps = self.relocated.as_ref().map(|relocated| relocated.kpps);
        match best_kpps {
            Some(best) => self.simulator.searched(Self::STEPS, best, placed_kpps),
            None => self.simulator.unsearched(),
        }
    }

    fn basis(&self) -> Basis {
        let GivenCosts { from, flows, .. } = self.simulator.simulation.costs;
        Basis {
            costs: from.clone(),
            cpus: self.simulator.simulation.cpus,
            flows: *flows,
            inputs: self.simulator.inputs(),
        }
    }
}
