// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes an upper bound on the rate of every mapping of a path on a chip, and summarizes the
//! search.
//!
//! Untried mappings cannot exceed the bound, which follows from four facts: every packet needs its
//! instructions issued, one per cycle and pipe; a strand takes at least as long for a packet as it
//! would alone on its pipe; a stage with global state runs on one strand; and packets arrive at
//! most at line rate. Hence
//!
//! ```text
//! bound = min( line,  pipes x clock / instructions,  strands x clock / cycles alone,
//!              clock / cycles alone of each stage with global state )
//! ```

use super::simulator::Simulator;
use linerate_path::spec::State;
use linerate_plan::search::about;
use linerate_record::plan::Search;
use linerate_record::units::three_digits;

/// Fraction of the line rate from which the line is considered to be the bottleneck.
pub(super) const LINE_REACHED: f64 = 0.995;

impl Simulator<'_> {
    /// Returns an upper bound, in kpps, on a flow's rate with any mapping.
    pub(super) fn bound(&self) -> f64 {
        let (world, chip) = (&self.world, self.simulation.chip);
        let all = world.work(0..world.works.len(), 1.0);
        let pipes = self.simulation.cpus.div_ceil(chip.strands_per_pipe).min(chip.pipes());
        let issue = f64::from(pipes) / all.instructions;
        let strands = f64::from(self.simulation.cpus) / world.alone_cycles(&all);
        let specs = self.subject.specs.iter().enumerate();
        let global = specs.filter(|(_, spec)| spec.state == State::Global).map(|(stage, _)| {
            1.0 / world.alone_cycles(&world.work(stage..stage + 1, 1.0)).max(1.0)
        });
        let per_cycle = global.fold(issue.min(strands), f64::min);
        let flows = f64::from(self.simulation.costs.flows);
        (per_cycle * chip.clock_hz / 1e3 / flows).min(self.line())
    }

    /// Returns the number of possible placements of the mapping as written.
    fn there_are(&self) -> f64 {
        let strands = self.subject.path.mapping.workers() as u32;
        (0..strands).map(|one| f64::from(self.simulation.cpus.saturating_sub(one))).product()
    }

    pub(super) fn unsearched(&self) -> Search {
        let sentence = "not searched: only the mapping as written was requested".to_owned();
        Search { there_are: self.there_are(), exact: false, gap: None, sentence }
    }

    /// Summarizes the search. `placed` is the rate of the best placement for the mapping as
    /// written, estimated pipe by pipe.
    pub(super) fn searched(&self, steps: usize, best_kpps: f64, placed: Option<f64>) -> Search {
        let bound = self.bound();
        let gap = (bound / best_kpps - 1.0).max(0.0);
        let there_are = self.there_are();
        let exact = gap < 1.0 - LINE_REACHED;
        let placed = placed.map_or_else(
            || "too many to enumerate".to_owned(),
            |kpps| format!("none exceeds {} kpps in a pipe-by-pipe estimate", three_digits(kpps)),
        );
        let sentence = format!(
            "searched single changes and sequences of up to {steps}; the mapping as written has \
             {} placements ({placed}); no mapping can exceed {} kpps (bounded by line rate, issue \
             rate and cycles per strand), {} % above the best one found",
            about(there_are),
            three_digits(bound),
            three_digits(100.0 * gap),
        );
        Search { there_are, exact, gap: Some(gap), sentence }
    }
}
