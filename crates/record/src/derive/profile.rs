// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `profile` record.

use super::why::OBSERVER_SHARE;
use super::{Derive, Lists, emulated, named};
use crate::figure::{Figure, Figures, Tier, bare};
use crate::profile::{BoundBy, BoundFinding, ClassCost, FunctionCost, ProfileReport};
use crate::provenance::Provenance;
use crate::warning::Warning;
use serde_json::{Value, json};

/// Share of samples, 0 to 1, above which a kind of work is reported as the main one.
const MOST: f64 = 0.5;

impl Derive for ProfileReport {
    /// Returns the hottest function, its share, the number of samples, and the kind of work that
    /// dominates.
    fn figures(&self) -> Figures {
        let tier = self.tier();
        let method = &self.sampling.event;
        let first = self.functions.first();
        let none = |unit| Figure::absent(unit, tier, method, "no samples were taken");
        let exact = |number: u64| Figure::exact("samples", number as f64, tier, method);
        named([
            ("hottest", first.map_or_else(|| none("text"), |f| self.text(&f.name))),
            ("hottest_share", first.map_or_else(|| none("ratio"), |first| first.share.clone())),
            ("samples", exact(self.samples)),
            ("lost_samples", exact(self.lost_samples)),
            ("bound_by", self.bound_by()),
            ("main_work", self.main_work()),
            (
                "cpu_s",
                Figure::exact(
                    "s",
                    self.cpu_s,
                    tier,
                    "time for which the sampled event was counted",
                ),
            ),
            ("overhead_percent", self.observer.scaled(100.0, "percent", &self.observer.method)),
        ])
    }

    /// Returns the `functions` and `classes` entries of the summary.
    fn lists(&self) -> Lists {
        let ranks = self.ranks();
        let bound_by = |index: usize| {
            let is_it = |one: &&BoundFinding| one.function == u32::try_from(index).ok();
            self.bounds.iter().filter(is_it).map(|one| one.bound_by.name()).next()
        };
        let functions = self.functions.iter().zip(ranks).enumerate();
        let functions = functions.map(|(at, (one, rank))| function(one, rank, bound_by(at)));
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

    /// Returns what bounds the program, as concluded from the evidence; absent if there is no
    /// conclusion or no evidence.
    fn bound_by(&self) -> Figure {
        const METHOD: &str = "rules applied to samples, sampled operands, sleep times and \
                              simulated counts";
        let of_program = self.bounds.iter().find(|one| one.function.is_none());
        match of_program {
            Some(one) if one.bound_by != BoundBy::CannotTell => {
                Figure::text(one.bound_by.name(), one.tier.unwrap_or(self.tier()), METHOD)
            }
            Some(one) => Figure::absent("text", self.tier(), METHOD, &one.sentence),
            None => {
                let reason = match self.imported_from {
                    Some(_) => "the profile was imported, without registers and code",
                    None => "the record has no evidence: it was made by an older version",
                };
                Figure::absent("text", self.tier(), METHOD, reason)
            }
        }
    }

    /// Returns the kind of work that accounts for more than half of the samples, judged by the low
    /// end of its interval; absent if there is none.
    fn main_work(&self) -> Figure {
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

/// Returns a function's entry in the summary; `bound_by` is `None` for functions that were not
/// examined.
fn function(function: &FunctionCost, rank: usize, bound_by: Option<&str>) -> Value {
    json!({
        "rank": rank,
        "name": function.name,
        "module": function.module,
        "share": bare(&function.share),
        "low": function.share.low,
        "high": function.share.high,
        "ns_per_packet": bare(&function.ns_per_packet),
        "class": function.class.name(),
        "bound_by": bound_by,
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
