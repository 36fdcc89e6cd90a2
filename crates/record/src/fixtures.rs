// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored records for tests, one of each kind. The tool itself measured them
//! (`cargo xtask fixtures`).
//!
//! A test that needs particular values changes only those, and takes the rest from a stored record:
//! `RunReport { rings: vec![], ..fixtures::run() }`. Tests therefore need no edits when a field is
//! added.

use crate::budget::BudgetReport;
use crate::kernels::KernelsReport;
use crate::memory::MemoryReport;
use crate::profile::ProfileReport;
use crate::regions::RegionsReport;
use crate::run::{RunReport, StageReport, WorkerReport};
use crate::stat::StatReport;
use crate::why::WhyReport;
use crate::{Body, Record};
use std::sync::LazyLock;

macro_rules! stored {
    ($($kind:literal),*) => {
        /// The stored records: the kind and the JSON text of each.
        pub const ALL: &[(&str, &str)] =
            &[$(($kind, include_str!(concat!("../fixtures/", $kind, ".json")))),*];
    };
}

stored!(
    "run",
    "tune",
    "kernels",
    "stat",
    "doctor",
    "regions",
    "memory",
    "budget",
    "strands",
    "answers",
    "plan",
    "tcp",
    "why",
    "profile",
    "profile_diff"
);

/// Returns the stored record of this kind.
///
/// # Panics
/// If there is no stored record of this kind, or if it differs from what this version writes. In
/// the second case, run `cargo xtask fixtures`.
pub fn record(kind: &str) -> Record {
    let (_, text) = ALL.iter().find(|(stored, _)| *stored == kind).expect("a kind of record");
    Record::from_json(text).unwrap_or_else(|error| panic!("{kind}: {error}; cargo xtask fixtures"))
}

macro_rules! body {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $report:ty) => {
        $(#[$doc])*
        pub fn $name() -> $report {
            static STORED: LazyLock<Record> = LazyLock::new(|| record(stringify!($name)));
            match &STORED.body {
                Body::$kind(report) => (**report).clone(),
                other => unreachable!("unexpected kind of record: {other:?}"),
            }
        }
    };
}

body!(
    /// Returns the stored run of the edge path on one CPU.
    run, Run, RunReport
);
body!(
    /// Returns the stored measurement of checksums over two sizes.
    kernels, Kernels, KernelsReport
);
body!(
    /// Returns the stored event counts of the program `true`.
    stat, Stat, StatReport
);
body!(
    /// Returns the stored counts for the regions of a matrix multiplication that measured itself.
    regions, Regions, RegionsReport
);
body!(
    /// Returns the stored measurement of a cache hierarchy with chains of up to 1 MiB.
    memory, Memory, MemoryReport
);
body!(
    /// Returns the stored per-packet budget for the packets of [`run`].
    budget, Budget, BudgetReport
);
body!(
    /// Returns the stored observation of a sleeping command over one second.
    why, Why, WhyReport
);
body!(
    /// Returns the stored profile of a command that computes hashes, sampled for one second.
    profile, Profile, ProfileReport
);

/// Returns the only worker of [`run`].
pub fn worker() -> WorkerReport {
    run().workers.remove(0)
}

/// Returns the first stage of [`worker`] after the source.
pub fn stage() -> StageReport {
    worker().stages.remove(1)
}
