// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates a simulated setup: the bottleneck, its cycle breakdown, and each strand's load.

use super::METHOD;
use super::bound::LINE_REACHED;
use super::load::{Load, SATURATED};
use super::setup::{Outsiders, Setup};
use super::simulator::Simulator;
use crate::{Outcome, Stalls, StrandOutcome};
use linerate_plan::predictor::Predicted;
use linerate_plan::search::runs;
use linerate_record::plan::{Bottleneck, PlannedWorker};
use linerate_record::units::three_digits;
use linerate_record::{Figure, Tier};

/// A strand counts as equally busy if its utilisation exceeds this fraction of the busiest
/// strand's.
const BUSY_AS_ANY: f64 = 0.98;

/// A setup with its simulation results, from which the report's sentences and tables are made.
pub(super) struct Simulated<'a> {
    simulator: &'a Simulator<'a>,
    setup: &'a Setup,
    /// Rate per flow in kpps.
    kpps: f64,
    outcome: &'a Outcome,
    load: Load<'a>,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(
        simulator: &'a Simulator<'a>,
        predicted: &'a Predicted<Setup, Outcome>,
    ) -> Self {
        let Predicted { setting: setup, kpps, evidence: outcome } = predicted;
        let load = Load { world: &simulator.world, setup, outcome };
        Self { simulator, setup, kpps: *kpps, outcome, load }
    }

    /// Returns the path's bottleneck strand, with its segment and utilisation. Among equally busy
    /// strands, it is the first one in the last segment: earlier saturated strands drop the packets
    /// that this one does not accept, or wait to hand them off.
    pub(super) fn most(&self) -> (usize, &'a StrandOutcome, f64) {
        let all: Vec<_> = self.load.strands().collect();
        let highest = all.iter().map(|(.., share)| *share).fold(0.0, f64::max);
        let near = all.into_iter().filter(|(.., share)| *share >= BUSY_AS_ANY * highest);
        let most = near.reduce(|a, b| if b.0 > a.0 { b } else { a });
        most.expect("a mapping has at least one strand")
    }

    pub(super) fn is_line_reached(&self) -> bool {
        self.kpps >= LINE_REACHED * self.simulator.line()
    }

    /// Returns the name of the path's bottleneck strand if it is saturated, so that its polls are
    /// never empty; `None` if no strand is.
    pub(super) fn saturated(&self) -> Option<&'a str> {
        let (_, strand, share) = self.most();
        (share >= SATURATED).then_some(&strand.name)
    }

    /// Describes the bottleneck in a few words.
    pub(super) fn pace(&self) -> String {
        let stages = self.setup.segments[self.most().0].stages.clone();
        match (self.is_line_reached(), self.saturated()) {
            (true, _) => "limited by line rate".to_owned(),
            (false, Some(_)) => {
                format!("`{}` is the bottleneck", runs(self.simulator.world.path, stages))
            }
            (false, None) => "no worker is saturated".to_owned(),
        }
    }

    pub(super) fn bottleneck(&self) -> Bottleneck {
        if self.is_line_reached() {
            let line = three_digits(self.simulator.line());
            let sentence = format!("limited by line rate: all {line} kpps get through");
            return Bottleneck { stage: None, worker: None, sentence };
        }
        let (segment, strand, share) = self.most();
        let world = &self.simulator.world;
        let stages = self.setup.segments[segment].stages.clone();
        let alone = |stage: &usize| world.alone_cycles(&world.work(*stage..*stage + 1, 1.0));
        let stage = stages.max_by(|a, b| alone(a).total_cmp(&alone(b))).unwrap_or(0);
        let name = world.path.stages[stage].name.clone();
        let worker = format!(
            "worker {} (`{}`)",
            strand.name,
            runs(world.path, self.setup.segments[segment].stages.clone())
        );
        let found = match self.saturated() {
            Some(_) => format!("{worker} is the bottleneck"),
            None => format!("no worker is saturated; {worker} is the busiest"),
        };
        let sentence = format!(
            "{found}, busy {} % of its time: {}",
            three_digits(100.0 * share),
            self.cycles(strand)
        );
        Bottleneck { stage: Some(name), worker: Some(strand.name.clone()), sentence }
    }

    /// Describes a strand's cycles per packet, broken down by cause.
    fn cycles(&self, strand: &StrandOutcome) -> String {
        let packets = (strand.packets() as f64).max(1.0);
        let per_packet = |cycles: u64| cycles as f64 / packets;
        let Stalls { bubbles, l1, l2, units, io, slow } = strand.stalls;
        let parts = [
            ("issuing", strand.instructions),
            ("ready while another strand issued", strand.waited),
            ("in bubbles", bubbles),
            ("waiting for L2", l1),
            ("waiting for memory", l2),
            ("waiting for shared units", units),
            ("waiting for devices", io),
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

    pub(super) fn workers(&self) -> Vec<PlannedWorker> {
        let path = self.load.strands().map(|(segment, strand, share)| {
            let stages = self.setup.segments[segment].stages.clone();
            let seconds = share * self.outcome.cycles as f64 / self.outcome.clock_hz;
            let ns = match strand.packets() {
                0 => absent("ns/packet", "it processed no packets"),
                packets => exact("ns/packet", seconds * 1e9 / packets as f64),
            };
            self.planned(strand, runs(self.simulator.world.path, stages), share, ns)
        });
        let beside = self.setup.beside.iter().map(|beside| self.outsiders(beside));
        path.chain(beside).collect()
    }

    /// Returns a group of strands outside the path as a single worker of the plan.
    fn outsiders(&self, outsiders: &Outsiders) -> PlannedWorker {
        const UNIT: &str = "cycles/instruction";
        let simulated = &self.outcome.strands[self.setup.strands()..];
        let own = simulated.iter().filter(|strand| outsiders.cpus.contains(&strand.cpu));
        let instructions: Vec<u64> = own.map(|strand| strand.instructions).collect();
        let cycles = self.outcome.cycles as f64 * instructions.len() as f64;
        let cpi = match instructions.iter().sum::<u64>() {
            0 => absent(UNIT, "not simulated: its cores run no strands of the path"),
            all => exact(UNIT, cycles / all as f64),
        };
        PlannedWorker {
            name: outsiders.name.clone(),
            runs: format!("outside the path, on {} CPUs", outsiders.cpus.len()),
            cpu: None,
            utilisation: exact("ratio", 0.0),
            ns_per_packet: absent("ns/packet", "it processes no packets"),
            cpi,
        }
    }

    fn planned(
        &self,
        strand: &StrandOutcome,
        runs: String,
        share: f64,
        ns_per_packet: Figure,
    ) -> PlannedWorker {
        let cpi = self.outcome.cpi(strand);
        PlannedWorker {
            name: strand.name.clone(),
            runs,
            cpu: Some(strand.cpu),
            utilisation: exact("ratio", share),
            ns_per_packet,
            cpi: cpi.map_or_else(
                || absent("cycles/instruction", "it issued no instructions"),
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
