// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates a simulated setup: the bottleneck, its cycle breakdown, and each strand's load.

use super::METHOD;
use super::bound::LINE_REACHED;
use super::setup::{Outsiders, Setup};
use super::simulator::Simulator;
use crate::{Outcome, Stalls, StrandOutcome, TaskOutcome};
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
}

impl<'a> Simulated<'a> {
    pub(super) fn new(
        simulator: &'a Simulator<'a>,
        predicted: &'a Predicted<Setup, Outcome>,
    ) -> Self {
        let Predicted { setting: setup, kpps, evidence: outcome } = predicted;
        Self { simulator, setup, kpps: *kpps, outcome }
    }

    /// Returns each strand of the path with its segment's index.
    fn of_path(&self) -> impl Iterator<Item = (usize, &'a StrandOutcome)> + use<'a> {
        let (setup, outcome) = (self.setup, self.outcome);
        let segments = setup.segments.iter().enumerate();
        let segments = segments.flat_map(|(index, one)| one.cpus.iter().map(move |_| index));
        segments.zip(&outcome.strands)
    }

    /// Returns the fraction of cycles that a strand in `segment` spends on packets. Empty polls are
    /// excluded, along with their share of waiting for the pipe.
    fn utilisation(&self, segment: usize, strand: &StrandOutcome) -> f64 {
        let work = self.simulator.world.work(self.setup.segments[segment].stages.clone(), 1.0);
        let polls = |of: fn(&TaskOutcome) -> u64| -> f64 {
            strand.tasks.iter().map(of).sum::<u64>() as f64
        };
        // A second input is polled in every iteration, with or without a packet; only iterations
        // without a packet are idle.
        let inputs = strand.tasks.iter().filter(|task| task.packets + task.dropped > 0);
        let in_vain: f64 = inputs.map(|task| task.idle_polls as f64).sum();
        let looks = in_vain + polls(|task| task.blocked);
        let instructions = looks * work.poll_instructions;
        let waits = strand.waited as f64 / (strand.instructions as f64).max(1.0);
        let cycles = instructions * (1.0 + work.bubble_cycles + waits)
            + in_vain * (work.poll_ns * self.outcome.clock_hz / 1e9 + self.setup.slow_cycles);
        (1.0 - cycles / self.outcome.cycles as f64).clamp(0.0, 1.0)
    }

    /// Returns the path's bottleneck strand, with its segment and utilisation. Among equally busy
    /// strands, it is the first one in the last segment: earlier saturated strands drop the packets
    /// that this one does not accept, or wait to hand them off.
    pub(super) fn most(&self) -> (usize, &'a StrandOutcome, f64) {
        let all = self
            .of_path()
            .map(|(segment, strand)| (segment, strand, self.utilisation(segment, strand)));
        let all: Vec<_> = all.collect();
        let highest = all.iter().map(|(.., share)| *share).fold(0.0, f64::max);
        let near = all.into_iter().filter(|(.., share)| *share >= BUSY_AS_ANY * highest);
        let most = near.reduce(|a, b| if b.0 > a.0 { b } else { a });
        most.expect("a mapping has at least one strand")
    }

    pub(super) fn is_line_reached(&self) -> bool {
        self.kpps >= LINE_REACHED * self.simulator.line()
    }

    /// Describes the bottleneck in a few words.
    pub(super) fn pace(&self) -> String {
        let stages = self.setup.segments[self.most().0].stages.clone();
        match self.is_line_reached() {
            true => "limited by line rate".to_owned(),
            false => format!("`{}` is the bottleneck", runs(self.simulator.world.path, stages)),
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
        let sentence = format!(
            "worker {} (`{}`) is the bottleneck, busy {} % of its time: {}",
            strand.name,
            runs(world.path, self.setup.segments[segment].stages.clone()),
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
        let path = self.of_path().map(|(segment, strand)| {
            let share = self.utilisation(segment, strand);
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
