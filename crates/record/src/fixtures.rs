// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded fixtures for tests, one per kind of record, produced by linerate itself
//! (`cargo xtask fixtures`). Part of the feature `fixtures`, which no program has.
//!
//! A test that needs particular values overrides only those fields and takes the rest from a
//! fixture: `RunReport { rings: vec![], ..fixtures::run() }`. Adding a field therefore does not
//! break tests.

use crate::budget::BudgetReport;
use crate::kernels::KernelsReport;
use crate::memory::MemoryReport;
use crate::profile::ProfileReport;
use crate::regions::RegionsReport;
use crate::run::{RunReport, StageReport, WorkerReport};
use crate::stat::StatReport;
use crate::stream::StreamReport;
use crate::why::WhyReport;
use crate::{Body, Record};
use std::sync::LazyLock;

macro_rules! stored {
    ($($kind:literal),*) => {
        /// The fixtures, as pairs of kind and JSON text.
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
    "profile_diff",
    "stream"
);

/// Returns the fixture of the given kind.
///
/// # Panics
/// Panics if there is no such fixture, or if it differs from what this version writes. In the
/// latter case, run `cargo xtask fixtures`.
pub fn record(kind: &str) -> Record {
    let (_, text) = ALL.iter().find(|(stored, _)| *stored == kind).expect("the kind has a fixture");
    Record::from_json(text)
        .unwrap_or_else(|error| panic!("{kind}: {error}; run cargo xtask fixtures"))
}

macro_rules! body {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $report:ty) => {
        $(#[$doc])*
        pub fn $name() -> $report {
            static STORED: LazyLock<Record> = LazyLock::new(|| record(stringify!($name)));
            match &STORED.body {
                Body::$kind(report) => (**report).clone(),
                other => unreachable!("unexpected record kind: {other:?}"),
            }
        }
    };
}

body!(
    /// Returns a run of the edge path on one CPU.
    run, Run, RunReport
);
body!(
    /// Returns a measurement of checksums at two sizes.
    kernels, Kernels, KernelsReport
);
body!(
    /// Returns the event counts of the command `true`.
    stat, Stat, StatReport
);
body!(
    /// Returns the region counts of an instrumented matrix multiplication.
    regions, Regions, RegionsReport
);
body!(
    /// Returns a cache hierarchy measured with chains of up to 1 MiB.
    memory, Memory, MemoryReport
);
body!(
    /// Returns the per-packet budget for the packets of [`run`].
    budget, Budget, BudgetReport
);
body!(
    /// Returns an observation of a sleeping command over one second.
    why, Why, WhyReport
);
body!(
    /// Returns the stored streams over loopback, with two buffer settings and two message sizes.
    stream, Stream, StreamReport
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
