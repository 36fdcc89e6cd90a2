// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a profile.

use super::{Derive, Lists, emulated, named};
use crate::figure::{Figure, Figures, Tier, bare};
use crate::profile::{ClassCost, FunctionCost, ProfileReport};
use crate::provenance::Provenance;
use crate::warning::Warning;
use serde_json::{Value, json};

/// Share of a CPU, 0 to 1, that sampling may use without a warning.
const OBSERVER_SHARE: f64 = 0.01;
/// Share of the samples, 0 to 1, that a kind of work must exceed to count as what bounds a program.
const MOST: f64 = 0.5;

impl Derive for ProfileReport {
    /// Returns the hottest function, its share, the number of samples, and the kind of work that
    /// accounts for most of them.
    fn figures(&self) -> Figures {
        let tier = self.tier();
        let method = &self.sampling.event;
        let first = self.functions.first();
        let none = |unit| Figure::absent(unit, tier, method, "there are no samples");
        let exact = |number: u64| Figure::exact("samples", number as f64, tier, method);
        named([
            ("hottest", first.map_or_else(|| none("text"), |f| self.text(&f.name))),
            ("hottest_share", first.map_or_else(|| none("ratio"), |first| first.share.clone())),
            ("samples", exact(self.samples)),
            ("lost_samples", exact(self.lost_samples)),
            ("bound_by", self.bound_by()),
            ("cpu_s", Figure::exact("s", self.cpu_s, tier, "time the event was running")),
            ("overhead_percent", self.observer.scaled(100.0, "percent", &self.observer.method)),
        ])
    }

    /// Returns the functions and the kinds of work.
    fn lists(&self) -> Lists {
        let ranks = self.ranks();
        let functions = self.functions.iter().zip(ranks).map(|(one, rank)| function(one, rank));
        Lists::from([
            ("functions", functions.collect()),
            ("classes", self.classes.iter().map(class).collect()),
        ])
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let costly = self.observer.as_number().filter(|share| *share > OBSERVER_SHARE);
        let costly = costly.map(|share| Warning::CostlyObserver { share });
        let mut names: Vec<String> = self.unread.iter().map(|one| one.what.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let unread = (!names.is_empty()).then_some(Warning::NotRead { names });
        emulated(provenance).into_iter().chain(costly).chain(unread).collect()
    }
}

impl ProfileReport {
    /// Returns the evidence tier of the samples.
    pub fn tier(&self) -> Tier {
        match self.sampling.event.as_str() {
            "cpu-clock" => Tier::Sw,
            _ if self.sampling.has_kernel => Tier::Hw,
            _ => Tier::User,
        }
    }

    fn text(&self, text: &str) -> Figure {
        Figure::text(text, self.tier(), &self.sampling.event)
    }

    /// Returns the kind of work with more than half of the samples, where the low end of the
    /// interval must exceed one half; absent if there is none.
    fn bound_by(&self) -> Figure {
        const METHOD: &str = "kind of work with more than half of the samples";
        let is_most = |one: &&ClassCost| one.share.low.is_some_and(|low| low > MOST);
        match self.classes.iter().find(is_most) {
            Some(one) => Figure::text(one.class.name(), self.tier(), METHOD),
            None => {
                let reason = "no kind of work has more than half of the samples";
                Figure::absent("text", self.tier(), METHOD, reason)
            }
        }
    }
}

fn function(function: &FunctionCost, rank: usize) -> Value {
    json!({
        "rank": rank,
        "name": function.name,
        "module": function.module,
        "share": bare(&function.share),
        "low": function.share.low,
        "high": function.share.high,
        "ns_per_packet": bare(&function.ns_per_packet),
        "class": function.class.name(),
        "samples": function.samples,
        "samples_with_callees": function.samples_with_callees,
    })
}

fn class(class: &ClassCost) -> Value {
    json!({
        "class": class.class.name(),
        "share": bare(&class.share),
        "low": class.share.low,
        "high": class.share.high,
        "ns_per_packet": bare(&class.ns_per_packet),
    })
}
