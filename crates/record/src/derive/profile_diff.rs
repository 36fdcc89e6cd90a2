// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `profile_diff` record.

use super::{Derive, Lists, named};
use crate::figure::{Figure, Figures, bare};
use crate::profile_diff::{FunctionChange, ProfileDiffReport};
use serde_json::{Value, json};

impl Derive for ProfileDiffReport {
    /// Returns the function that changed most and its change, the total change, and how many
    /// functions changed.
    fn figures(&self) -> Figures {
        const METHOD: &str = "difference of two profiles";
        let (tier, unit) = (self.total.change.tier, self.unit.name());
        let changed = self.changed().count();
        let none = |unit| Figure::absent(unit, tier, METHOD, "no function's cost changed");
        let largest = self.changed().next();
        let name = largest.map(|one| Figure::text(&one.name, tier, METHOD));
        let change = largest.map(|one| one.cost.change.clone());
        named([
            ("changed", Figure::exact("functions", changed as f64, tier, METHOD)),
            ("largest", name.unwrap_or_else(|| none("text"))),
            ("largest_change", change.unwrap_or_else(|| none(unit))),
            ("total_change", self.total.change.clone()),
        ])
    }

    /// Returns the `functions` entry of the summary.
    fn lists(&self) -> Lists {
        Lists::from([("functions", self.functions.iter().map(function).collect())])
    }
}

fn function(one: &FunctionChange) -> Value {
    let cost = &one.cost;
    json!({
        "name": one.name,
        "module": one.module,
        "class": one.class.name(),
        "old": bare(&cost.old),
        "new": bare(&cost.new),
        "change": bare(&cost.change),
        "low": cost.change.low,
        "high": cost.change.high,
        "verdict": cost.verdict.name(),
    })
}
