// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored records, one of each kind, for tests: measured by the tool (`cargo xtask fixtures`).
//!
//! A test that needs particular values changes those and takes the rest from here: `RunReport {
//! rings: vec![], ..fixtures::run() }`. A new field thus requires no edits to tests.

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
        /// All stored records, by kind.
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
/// If there is no such record, or it differs from what this version writes: run `cargo xtask
/// fixtures`.
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
    /// A run of the edge path on one CPU.
    run, Run, RunReport
);
body!(
    /// Checksums over two sizes.
    kernels, Kernels, KernelsReport
);
body!(
    /// The program `true`, counted.
    stat, Stat, StatReport
);
body!(
    /// A matrix multiplication that measured itself.
    regions, Regions, RegionsReport
);
body!(
    /// A cache hierarchy, measured up to 1 MiB.
    memory, Memory, MemoryReport
);
body!(
    /// The budget for the packets of [`run`].
    budget, Budget, BudgetReport
);
body!(
    /// A sleeping command, watched for a second.
    why, Why, WhyReport
);
body!(
    /// A command that computes hashes, sampled for a second.
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
