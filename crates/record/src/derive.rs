// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a body: figures for people, lists for scripts, and warnings.
//!
//! Pure functions of the body and its provenance. A record stores neither; its JSON has them, as
//! they were when it was written, and reading checks that they still follow.

mod answers;
mod budget;
mod doctor;
mod kernels;
mod memory;
mod plan;
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

/// Bare values of a body by name, for scripts: lists of its parts.
pub type Lists = BTreeMap<&'static str, Value>;

/// The share of windows lost to preemption from which on figures are in doubt: with one window in
/// ten gone the processor is visibly shared, and intervals are 5 % wider than on an idle machine.
pub(crate) const PREEMPTED_SHARE: f64 = 0.1;

/// The share of CPU time used by others above which they disturb a measurement; the low end of the
/// observed share must exceed it.
pub(crate) const OTHERS_SHARE: f64 = 0.1;

/// A body from which figures, lists and warnings follow.
pub trait Derive {
    /// The figures people quote, by name.
    fn figures(&self) -> Figures;

    /// Values for scripts in addition to the bare figures.
    fn lists(&self) -> Lists {
        Lists::new()
    }

    /// Reasons to doubt the figures.
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
        }
    }
}

fn named<const N: usize>(figures: [(&str, Figure); N]) -> Figures {
    figures.map(|(name, figure)| (name.to_owned(), figure)).into()
}

/// A name as part of that of a figure: `L1 dTLB` is `l1_dtlb`.
fn word(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Other programs that ran just before.
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

/// Windows that were dropped, if that is too many.
fn preempted(dropped: u64, of: u64) -> Option<Warning> {
    let share = if of == 0 { 0.0 } else { dropped as f64 / of as f64 };
    (share > PREEMPTED_SHARE).then_some(Warning::PreemptedWindows { share })
}

fn unknown_core_clock(clock: &Figure) -> Option<Warning> {
    let reason = clock.reason.clone()?;
    Some(Warning::UnknownCoreClock { reason })
}
