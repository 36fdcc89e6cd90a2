// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `budget` record.

use super::{Derive, Lists, named};
use crate::budget::{BudgetReport, BudgetRow};
use crate::figure::{Figure, Figures, Tier};
use crate::provenance::Provenance;
use crate::warning::Warning;
use serde_json::json;

impl Derive for BudgetReport {
    /// Returns the budget for the first frame size.
    fn figures(&self) -> Figures {
        let Some(row) = self.rows.first() else { return Figures::new() };
        let exact = |unit, value, method| Figure::exact(unit, value, Tier::Model, method);
        const SHARE: &str = "cycles per packet times instructions per cycle, divided by the number \
                             of strands on a pipe, assuming that all are busy";
        let instructions = match row.instructions_per_packet {
            Some(instructions) => exact("instructions", instructions, SHARE),
            None => Figure::absent(
                "instructions",
                Tier::Model,
                SHARE,
                "the pipe's instructions per cycle are not given",
            ),
        };
        let ns = exact("ns", row.ns_per_packet, "bits on the wire per frame / line rate");
        let rate = exact("packets/s", row.packets_per_s, "inverse of the time per packet");
        let cycles =
            exact("cycles", row.cycles_per_packet, "time per packet times clock frequency");
        named([
            ("ns_per_packet", ns),
            ("packets_per_s", rate),
            ("cycles_per_packet", cycles),
            ("instructions_per_packet", instructions),
        ])
    }

    /// Returns the budgets for all frame sizes.
    fn lists(&self) -> Lists {
        let of = |row: &BudgetRow| {
            json!({
                "frame_bytes": row.frame_bytes,
                "ns_per_packet": row.ns_per_packet,
                "packets_per_s": row.packets_per_s,
                "cycles_per_packet": row.cycles_per_packet,
                "instructions_per_packet": row.instructions_per_packet,
            })
        };
        Lists::from([("frames", self.rows.iter().map(of).collect())])
    }

    fn warnings(&self, _: &Provenance) -> Vec<Warning> {
        let is_other = self.measured_on.as_deref() != Some(&*self.processor);
        let other = self.shortfall.filter(|_| is_other).map(|_| Warning::OtherProcessor {
            measured_on: self.measured_on.clone(),
            budget_of: self.processor.clone(),
        });
        other.into_iter().collect()
    }
}
