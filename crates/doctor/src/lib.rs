// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine can measure, found out by trying, and what unlocks the rest.
//!
//! Every tier is tried on work of known size: events that open and then count too little are
//! refused like those that do not open. Takes some 30 ms, most of it asleep to learn the rate of
//! the timestamp counter, while Valgrind says its version. Left out: how good the numbers of a tier
//! are (`docs/method.md`).
//!
//! | question | module |
//! |---|---|
//! | what decides here whether events can be counted? | [`surroundings`] |
//! | why is an event not counted, and which command changes that? | [`refusal`] |
//! | what disturbs or slows a data plane, and which command changes that? | [`host`] |

#![forbid(unsafe_code)]

pub mod host;
pub mod refusal;
mod settings;
pub mod surroundings;
mod tiers;

use linerate_counters::catalog::Catalog;
use linerate_counters::opener::Opener;
use linerate_machine::Root;
use linerate_machine::identity::identity;
use linerate_record::doctor::{DoctorReport, Verdict};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;
use surroundings::Surroundings;
use tiers::{Asked, Trial};

/// Examines the machine of `around`, opening events with `opener`.
pub fn examine(opener: &dyn Opener, around: &Surroundings) -> DoctorReport {
    let root = Root::new(around.root());
    let valgrind = Asked::of(around.facts());
    let mut observations = host::observe(&root);
    let catalog = Catalog::of(&identity(), &root.path("sys"));
    let trial = Trial::of(opener, around, &catalog, valgrind);
    let tiers = trial.tiers();
    let best_tier = tiers.iter().find(|state| state.works).map_or(Tier::Model, |state| state.tier);
    observations.extend(settings::observe(&trial, around, &catalog));
    observations.sort_by_key(|observation| observation.section);
    DoctorReport { tiers, best_tier, observations }
}

/// The figures of a report, by name: `best_tier`; `tier_hw`, `tier_hw_registers` and so on, absent
/// with the reason where the tier does not work; `counters_at_once`; `advice`, the number of things
/// worth changing.
pub fn figures(report: &DoctorReport) -> BTreeMap<String, Figure> {
    const TRIED: &str = "events opened and counted on work of known size";
    const READ: &str = "files of the kernel";
    let mut figures = BTreeMap::new();
    for state in &report.tiers {
        let figure = match state.works {
            true => Figure::text("works", Tier::Sw, TRIED),
            false => Figure::absent("text", Tier::Sw, TRIED, &state.sentence),
        };
        let way = state.way.as_ref().map(|way| format!("_{way}")).unwrap_or_default();
        figures.insert(format!("tier_{}{way}", tiers::word(state.tier)), figure);
    }
    let best = tiers::word(report.best_tier);
    figures.insert("best_tier".to_owned(), Figure::text(best, Tier::Sw, TRIED));
    let at_once = report.observations.iter().find(|o| o.name == settings::AT_ONCE);
    let count = at_once.and_then(|o| o.value.as_ref()?.parse().ok());
    let reason = at_once.map_or("it was not tried", |o| o.sentence.as_str());
    let at_once = match count {
        Some(count) => Figure::exact("counters", count, Tier::Sw, TRIED),
        None => Figure::absent("counters", Tier::Sw, TRIED, reason),
    };
    figures.insert(settings::AT_ONCE.to_owned(), at_once);
    let worth_changing = |verdict| matches!(verdict, Verdict::Advice | Verdict::Missing);
    let advice = report.observations.iter().filter(|o| worth_changing(o.verdict)).count();
    figures
        .insert("advice".to_owned(), Figure::exact("observations", advice as f64, Tier::Sw, READ));
    figures
}

#[cfg(test)]
mod tests;
