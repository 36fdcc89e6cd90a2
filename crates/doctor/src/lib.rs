// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines by trial what can be measured on this machine, and what would enable the rest.
//!
//! Every tier is tried on work of known size: an event that opens and then counts too little is
//! refused like one that does not open. Takes some 30 ms, most of it asleep to determine the rate
//! of the timestamp counter, while Valgrind reports its version. Left out: how accurate the figures
//! of a tier are (`docs/method.md`).
//!
//! | question | module |
//! |---|---|
//! | what decides here whether events can be counted? | [`host_facts`] |
//! | why is an event not counted, and which command changes that? | [`refusal`] |
//! | what disturbs or slows a data plane, and which command changes that? | [`host`] |
//! | what can be read of running programs, and which command changes that? | `watching` |
//! | may a program create its own namespaces? | [`namespaces`] |

#![forbid(unsafe_code)]

pub mod host;
pub mod host_facts;
pub mod namespaces;
pub mod refusal;
mod settings;
mod tiers;
mod watching;

use host_facts::HostFacts;
use linerate_counters::catalog::Catalog;
use linerate_counters::opener::Opener;
use linerate_machine::Root;
use linerate_machine::identity::identity;
use linerate_record::Tier;
use linerate_record::doctor::DoctorReport;
use tiers::{Trial, VersionQuery};

/// Examines the machine that `around` describes, opening events with `opener`.
pub fn examine(opener: &dyn Opener, around: &HostFacts) -> DoctorReport {
    let root = Root::new(around.root());
    let valgrind = VersionQuery::start(around.facts());
    let mut observations = host::observe(&root);
    let catalog = Catalog::for_processor(&identity(), &root.path("sys"));
    let trial = Trial::run(opener, around, &catalog, valgrind);
    let tiers = trial.tiers();
    let best_tier = tiers.iter().find(|state| state.works).map_or(Tier::Model, |state| state.tier);
    observations.extend(settings::observe(&trial, around, &catalog));
    observations.extend(watching::observe(&trial, around));
    observations.sort_by_key(|observation| observation.section);
    DoctorReport { tiers, best_tier, observations }
}

#[cfg(test)]
mod tests;
