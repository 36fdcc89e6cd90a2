// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `tcp` record.

use super::{Derive, Lists, emulated, not_idle, preempted, unsteady_counter, word};
use crate::figure::{Figure, Figures, Tier, bare};
use crate::provenance::Provenance;
use crate::tcp::{STACKS, TcpPattern, TcpReport, TcpSet, TcpStack};
use crate::warning::Warning;
use serde_json::Value;

impl Derive for TcpReport {
    /// Returns the selected set's figures by stack and pattern, such as
    /// `smoltcp_bulk_gbps_per_cpu_s`, and the exponents and constant of the Mathis equation fitted
    /// to each stack, such as `smoltcp_law_exponent_loss`.
    fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        for stack in &self.stacks {
            for (pattern, set) in selected(self, stack) {
                let of = |(name, figure)| {
                    (format!("{}_{}_{name}", word(&stack.name), word(&pattern.name)), figure)
                };
                figures.extend(set.figures().into_iter().map(of));
            }
        }
        for law in &self.laws {
            let of = [
                ("exponent_loss", &law.exponent_loss),
                ("exponent_segment", &law.exponent_segment),
                ("exponent_round_trip", &law.exponent_round_trip),
                ("constant", &law.constant),
            ];
            let stack = word(&law.stack);
            figures.extend(of.map(|(name, f)| (format!("{stack}_law_{name}"), f.clone())));
        }
        figures
    }

    /// Returns one entry per stack, listed as `summary.<stack>`: an object with the selected set's
    /// figures for each pattern.
    fn lists(&self) -> Lists {
        let named = |stack: &TcpStack| STACKS.into_iter().find(|name| *name == stack.name);
        let stacks = self.stacks.iter().filter_map(|stack| Some((named(stack)?, stack)));
        let patterns = |stack: &TcpStack| {
            let bare = |(name, figure): (&str, Figure)| (name.to_owned(), bare(&figure));
            let of = |(pattern, set): (&TcpPattern, &TcpSet)| {
                let bare = Value::Object(set.figures().into_iter().map(bare).collect());
                (pattern.name.clone(), bare)
            };
            Value::Object(selected(self, stack).map(of).collect())
        };
        stacks.map(|(name, stack)| (name, patterns(stack))).collect()
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let patterns = || self.stacks.iter().flat_map(|stack| &stack.patterns);
        let all: u64 = patterns().map(|pattern| pattern.slices).sum();
        let dropped: u64 = patterns().map(|pattern| pattern.slices_dropped).sum();
        let doubts = [
            not_idle(provenance),
            unsteady_counter(provenance),
            emulated(provenance),
            preempted(dropped, all, None),
        ];
        doubts.into_iter().flatten().collect()
    }
}

/// Returns every pattern in which the selected set was measured, with the set's results.
fn selected<'r>(
    report: &'r TcpReport,
    stack: &'r TcpStack,
) -> impl Iterator<Item = (&'r TcpPattern, &'r TcpSet)> {
    let of = |pattern: &'r TcpPattern| {
        let set = pattern.sets.iter().find(|set| set.name == report.selected)?;
        Some((pattern, set))
    };
    stack.patterns.iter().filter_map(of)
}

impl TcpSet {
    fn figures(&self) -> [(&'static str, Figure); 9] {
        const APART: &str = "largest difference between timed and sampled shares";
        let apart = match self.shares_apart() {
            Some(apart) => Figure::exact("ratio", apart.share, Tier::Sw, APART),
            None => Figure::absent("ratio", Tier::Sw, APART, "no share was both timed and sampled"),
        };
        [
            ("gbps_per_cpu_s", self.gbps_per_cpu_s.clone()),
            ("of_bound", self.of_bound.clone()),
            ("over_c", self.over_c.clone()),
            ("over_scalar", self.over_scalar.clone()),
            ("share_checksum", self.share_checksum.clone()),
            ("share_copy", self.share_copy.clone()),
            ("share_copy_checksum", self.share_copy_checksum.clone()),
            ("round_trip_cpu_ns", self.round_trip_cpu_ns.clone()),
            ("shares_apart", apart),
        ]
    }
}
