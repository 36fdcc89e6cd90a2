// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a body: figures for people, lists for scripts, and warnings.
//!
//! These values are pure functions of the body and its provenance, and not part of the record. The
//! JSON of a record contains the values computed when it was written, and the reader checks that
//! they match.

mod answers;
mod budget;
mod doctor;
mod kernels;
mod memory;
mod plan;
mod profile;
mod profile_diff;
mod regions;
mod run;
mod stat;
mod strands;
mod tcp;
mod tune;
mod why;

pub use run::Flows;
pub use stat::per_unit_name;

use crate::envelope::Body;
use crate::figure::{Figure, Figures};
use crate::provenance::Provenance;
use crate::warning::Warning;
use serde_json::Value;
use std::collections::BTreeMap;

/// Bare values from a body, by name, for scripts: mostly lists of the parts of the body.
pub type Lists = BTreeMap<&'static str, Value>;

/// Share of windows with preemption, 0 to 1, above which figures are in doubt: at one window in
/// ten, the CPU is visibly shared, and intervals are 5 % wider than on an idle machine.
pub(crate) const PREEMPTED_SHARE: f64 = 0.1;

/// Share of CPU time, 0 to 1, above which other programs disturb a measurement. The lower end of
/// the interval of the share that they used must exceed this limit.
pub(crate) const OTHERS_SHARE: f64 = 0.1;

/// A body from which figures, lists and warnings are derived.
pub trait Derive {
    /// Returns the main figures of the body, by name: those that users and scripts quote.
    fn figures(&self) -> Figures;

    /// Returns values for scripts in addition to the bare figures.
    fn lists(&self) -> Lists {
        Lists::new()
    }

    /// Returns reasons to doubt the figures.
    fn warnings(&self, _provenance: &Provenance) -> Vec<Warning> {
        Vec::new()
    }
}

impl Body {
    pub(crate) fn derive(&self) -> &dyn Derive {
        match self {
            Self::Run(report) => &**report,
            Self::Tune(report) => &**report,
            Self::Kernels(report) => &**report,
            Self::Stat(report) => &**report,
            Self::Doctor(report) => &**report,
            Self::Regions(report) => &**report,
            Self::Memory(report) => &**report,
            Self::Budget(report) => &**report,
            Self::Strands(report) => &**report,
            Self::Answers(report) => &**report,
            Self::Plan(report) => &**report,
            Self::Tcp(report) => &**report,
            Self::Why(report) => &**report,
            Self::Profile(report) => &**report,
            Self::ProfileDiff(report) => &**report,
        }
    }
}

fn named<const N: usize>(figures: [(&str, Figure); N]) -> Figures {
    figures.map(|(name, figure)| (name.to_owned(), figure)).into()
}

/// Normalizes a name for use as part of a figure's name: `L1 dTLB` becomes `l1_dtlb`.
fn word(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Warns if other programs used a significant share of the CPU time just before the measurement.
fn not_idle(provenance: &Provenance) -> Option<Warning> {
    let others = provenance.others.as_ref()?;
    let share = others.as_number()?;
    (others.low? > OTHERS_SHARE).then_some(Warning::NotIdle { share })
}

fn unsteady_counter(provenance: &Provenance) -> Option<Warning> {
    (provenance.ticks_invariant == Some(false)).then_some(Warning::UnsteadyCounter)
}

fn emulated(provenance: &Provenance) -> Option<Warning> {
    (provenance.emulated == Some(true)).then_some(Warning::Emulated)
}

/// Warns if more than [`PREEMPTED_SHARE`] of the windows were dropped because of preemption.
fn preempted(dropped: u64, of: u64) -> Option<Warning> {
    let share = if of == 0 { 0.0 } else { dropped as f64 / of as f64 };
    (share > PREEMPTED_SHARE).then_some(Warning::PreemptedWindows { share })
}

fn unknown_core_clock(clock: &Figure) -> Option<Warning> {
    let reason = clock.reason.clone()?;
    Some(Warning::UnknownCoreClock { reason })
}
