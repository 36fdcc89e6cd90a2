// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates setups of a path and returns their rates.

use super::Simulation;
use super::error::SimulationError;
use super::load::Load;
use super::rates::Rates;
use super::setup::{Outsiders, Placed, Setup, World};
use crate::{Outcome, Run, simulate};
use linerate_path::costs::{GivenCosts, GivenWork};
use linerate_path::model::Segment;
use linerate_plan::inputs::{InputsError, check_room};
use linerate_plan::predictor::Predicted;
use linerate_plan::sample::UNKNOWN_SPREAD;
use linerate_plan::search::Subject;

/// Random seed: arbitrary but constant, so that equal inputs give equal plans.
const SEED: u64 = 0x6C69_6E65;

/// The path, the chip, and the simulation parameters.
pub(super) struct Simulator<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) simulation: &'a Simulation<'a>,
    pub(super) world: World<'a>,
}

impl<'a> Simulator<'a> {
    pub(super) fn new(
        subject: &'a Subject<'a>,
        simulation: &'a Simulation<'a>,
    ) -> Result<Self, SimulationError> {
        let Simulation { costs, chip, .. } = *simulation;
        let flows = f64::from(costs.flows);
        let offered_per_s = subject.line_kpps.map(|kpps| kpps * 1e3 * flows);
        let works = works(costs)?;
        let world = World { path: subject.path, costs, works, chip, offered_per_s };
        Ok(Self { subject, simulation, world })
    }

    pub(super) fn line(&self) -> f64 {
        self.subject.line_kpps.unwrap_or(f64::INFINITY)
    }

    /// Returns the mapping as written. Strands without a CPU get the first free CPUs, one per core
    /// before any core gets a second strand.
    pub(super) fn given(&self) -> Result<Setup, SimulationError> {
        let Simulation { costs, chip, cpus, .. } = self.simulation;
        let path = self.subject.path;
        let beside: Vec<Outsiders> = costs
            .neighbours
            .iter()
            .map(|one| Outsiders {
                name: one.name.clone(),
                does: one.does,
                cpus: one.cpus.clone(),
                instructions: one.instructions,
                ns: one.ns,
                slow_cycles: 0.0,
            })
            .collect();
        let taken = beside.iter().map(|beside| beside.cpus.len()).sum();
        check_room(path, taken, *cpus as usize)?;
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

    fn simulate(&self, setup: &Setup, factor: f64) -> Result<Outcome, SimulationError> {
        Ok(simulate(&self.world.system(setup, factor), &self.run(1))?)
    }

    /// Returns the settings for a simulation shorter by the factor `parts`.
    pub(super) fn run(&self, parts: u64) -> Run {
        let cycles = self.simulation.cycles / parts;
        Run { warm_up_cycles: cycles / 4, cycles, seed: SEED }
    }

    /// Simulates a setup, and returns its rate and all counts.
    pub(super) fn predicted(
        &self,
        setting: Setup,
    ) -> Result<Predicted<Setup, Outcome>, SimulationError> {
        let evidence = self.simulate(&setting, 1.0)?;
        let kpps = self.kpps(&setting, &evidence);
        Ok(Predicted { setting, kpps, evidence })
    }

    /// Returns a flow's rate in kpps: line rate if the setup keeps up with it.
    fn kpps(&self, setup: &Setup, outcome: &Outcome) -> f64 {
        let load = Load { world: &self.world, setup, outcome };
        let seconds = outcome.cycles as f64 / outcome.clock_hz;
        match (self.subject.line_kpps, self.world.offered_per_s) {
            (Some(line), Some(offered)) if load.keeps_up(offered * seconds) => line,
            _ => outcome.kpps(load.sent()) / f64::from(self.simulation.costs.flows),
        }
    }

    /// Returns a setup's rates: `kpps` with nominal costs, and the rates with costs raised and
    /// lowered by their spread.
    pub(super) fn rates(&self, setup: &Setup, kpps: f64) -> Result<Rates, SimulationError> {
        let spread = self.simulation.costs.spread.unwrap_or(UNKNOWN_SPREAD);
        let at = |factor| -> Result<f64, SimulationError> {
            Ok(self.kpps(setup, &self.simulate(setup, factor)?))
        };
        Ok(Rates([kpps, at(1.0 + spread)?, at(1.0 - spread)?]))
    }

    /// Returns an error that explains why no packet gets through.
    pub(super) fn no_packet(&self) -> SimulationError {
        let (world, chip) = (&self.world, self.simulation.chip);
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
        SimulationError::NoPacket {
            ns: ns(self.simulation.cycles as f64),
            stage: world.costs.stages[stage].name.clone(),
            takes_ns: ns(cycles(stage)),
            offered: self
                .subject
                .line_kpps
                .map(|kpps| kpps * 1e3 * self.simulation.cycles as f64 / chip.clock_hz),
        }
    }
}

fn works(costs: &GivenCosts) -> Result<Vec<GivenWork>, InputsError> {
    let none = |name: &str| InputsError::NoInstructions { stage: name.to_owned() };
    costs.stages.iter().map(|cost| cost.work.ok_or_else(|| none(&cost.name))).collect()
}
