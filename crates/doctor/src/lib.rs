// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines by trial what can be measured on this machine, and what would enable the rest.
//!
//! Every tier is tested on work of known size: an event that opens but counts too little is treated
//! like an event that does not open. The tests take about 30 ms. Most of this time is a sleep to
//! determine the TSC rate, during which Valgrind reports its version. `docs/method.md` describes
//! the accuracy of each tier.
//!
//! | subject | module |
//! |---|---|
//! | facts that determine whether events can be counted | [`host_facts`] |
//! | why an event is not counted, with commands to enable it | [`refusal`] |
//! | settings that interfere with a data plane, with commands to change them | [`host`] |
//! | data that can be read about running programs, with commands to enable more | `watching` |
//! | why kernel symbols are hidden, with a command that shows them | [`kernel_names`] |
//! | permission to create namespaces | [`namespaces`] |

#![forbid(unsafe_code)]

pub mod host;
pub mod host_facts;
pub mod kernel_names;
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

/// Examines the machine described by `around`, opening events with `opener`.
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
