// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes from a simulation how busy a setup's strands are, and whether they keep up with the
//! line.

use super::setup::{Setup, World};
use crate::{Outcome, Poll, StrandOutcome};

/// Utilisation from which a strand counts as saturated. The simulation counts only a few hundred
/// packets per flow.
pub(super) const SATURATED: f64 = 0.98;

/// A setup and its simulation.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) setup: &'a Setup,
    pub(super) outcome: &'a Outcome,
}

impl<'a> Load<'a> {
    /// Returns each strand of the path with its segment's index and its utilisation, 0 to 1.
    pub(super) fn strands(self) -> impl Iterator<Item = (usize, &'a StrandOutcome, f64)> {
        let segments = self.setup.segments.iter().enumerate();
        let segments = segments.flat_map(|(index, one)| one.cpus.iter().map(move |_| index));
        let strands = segments.zip(&self.outcome.strands);
        strands.map(move |(segment, strand)| (segment, strand, self.utilisation(segment, strand)))
    }

    /// Returns the fraction of cycles that a strand in `segment` spends on packets. Excluded are
    /// empty polls and the polls of second inputs that follow them, along with their share of
    /// waiting for the pipe.
    fn utilisation(&self, segment: usize, strand: &StrandOutcome) -> f64 {
        let stages = self.setup.segments[segment].stages.clone();
        let work = self.world.work(stages.clone(), 1.0);
        let turns: Vec<Poll> = self.world.second_inputs(self.setup, stages).collect();
        // Each input's task is followed by one task for each second input.
        let inputs = strand.tasks.iter().step_by(1 + turns.len());
        let empty_polls: f64 = inputs.map(|task| task.idle_polls as f64).sum();
        let blocked: f64 = strand.tasks.iter().map(|task| task.blocked as f64).sum();
        let turn = |of: fn(&Poll) -> f64| turns.iter().map(of).sum::<f64>();
        let instructions = (empty_polls + blocked) * work.poll_instructions
            + empty_polls * turn(|poll| poll.instructions);
        let stalls = work.poll_ns * self.outcome.clock_hz / 1e9
            + self.setup.slow_cycles
            + turn(|poll| poll.empty_stall_cycles);
        let waits = strand.waited as f64 / (strand.instructions as f64).max(1.0);
        let cycles = instructions * (1.0 + work.bubble_cycles + waits) + empty_polls * stalls;
        (1.0 - cycles / self.outcome.cycles as f64).clamp(0.0, 1.0)
    }

    /// Returns the number of packets that left the path.
    pub(super) fn sent(&self) -> u64 {
        let last = self.setup.segments.last().map_or(0, |segment| segment.cpus.len());
        let strands = self.setup.strands();
        self.outcome.strands[strands - last..strands].iter().map(StrandOutcome::packets).sum()
    }

    /// Returns whether the path keeps up with a line that brings `line_packets` packets in the
    /// simulated time: nothing was dropped, no more packets arrived than the strands may still
    /// hold, and no strand would be saturated at line rate. Few packets arrive from a slow line, so
    /// counting those that leave would say little.
    pub(super) fn keeps_up(self, line_packets: f64) -> bool {
        let (sent, strands) = (self.sent(), self.setup.strands());
        let sources = &self.outcome.sources;
        let offered: u64 = sources.iter().map(|source| source.offered).sum();
        let tasks = self.outcome.strands[..strands].iter().flat_map(|strand| &strand.tasks);
        let in_path: u64 = tasks.map(|task| task.dropped).sum();
        let dropped = in_path + sources.iter().map(|source| source.dropped).sum::<u64>();
        let highest = self.strands().map(|(.., share)| share).fold(0.0, f64::max);
        dropped == 0
            && offered <= sent + strands as u64
            && highest * line_packets < SATURATED * sent as f64
    }
}
