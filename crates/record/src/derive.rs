// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a record's body: figures for users, lists for scripts, and warnings.
//!
//! Derived values are pure functions of the body and the provenance, and are not part of the record
//! proper. The JSON form contains the values as they were when the record was written; the reader
//! checks that they still match the body.

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
mod stream;
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

/// Derived values for scripts, by name, without unit or interval. Most are lists with one entry per
/// worker, cache level and so on.
pub type Lists = BTreeMap<&'static str, Value>;

/// Share of preempted windows, 0 to 1, above which a warning is issued. At one window in ten, the
/// CPU is visibly shared and intervals are 5 % wider than on an idle machine.
pub(crate) const PREEMPTED_SHARE: f64 = 0.1;

/// Share of CPU time used by other programs, 0 to 1, above which a warning is issued. The low end
/// of the share's interval is compared with this threshold.
pub(crate) const OTHERS_SHARE: f64 = 0.1;

/// Derives figures, lists and warnings from a body.
pub trait Derive {
    /// Returns the headline figures by name, for users and scripts to quote.
    fn figures(&self) -> Figures;

    /// Returns the entries of `summary` other than figures; none by default.
    fn lists(&self) -> Lists {
        Lists::new()
    }

    /// Returns the reasons to doubt the figures; none by default.
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
            Self::Stream(report) => &**report,
            Self::Why(report) => &**report,
            Self::Profile(report) => &**report,
            Self::ProfileDiff(report) => &**report,
        }
    }
}

fn named<const N: usize>(figures: [(&str, Figure); N]) -> Figures {
    figures.map(|(name, figure)| (name.to_owned(), figure)).into()
}

/// Converts a name to snake case for use in figure names: `L1 dTLB` becomes `l1_dtlb`.
fn word(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Warns if other programs used significant CPU time just before the measurement.
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

/// Warns if more than [`PREEMPTED_SHARE`] of the windows were discarded as preempted. `taken` is
/// the share of the thread's time that was lost to preemption or steal time, if known.
fn preempted(dropped: u64, of: u64, taken: Option<f64>) -> Option<Warning> {
    let share = if of == 0 { 0.0 } else { dropped as f64 / of as f64 };
    (share > PREEMPTED_SHARE).then_some(Warning::PreemptedWindows { share, taken })
}

fn unknown_core_clock(clock: &Figure) -> Option<Warning> {
    let reason = clock.reason.clone()?;
    Some(Warning::UnknownCoreClock { reason })
}
