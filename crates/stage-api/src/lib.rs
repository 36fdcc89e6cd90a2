// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage API: everything needed to write a stage or source.
//!
//! The stages of an edge router (`linerate-stages`) and the reference application in `examples/rlp`
//! depend only on this crate, so external crates can do everything that they do. A crate exports
//! its kinds as an [`Extension`], and one line in the program's table (`crates/cli/src/kinds.rs`)
//! adds them to the checker, the schema, the help and the builder.
//!
//! | purpose | items |
//! |---|---|
//! | a stage | [`Stage`], [`StageKind`], [`StageContext`], [`Burst`], [`Packet`], [`causes!`] |
//! | its parameters | [`spec`], [`params`] |
//! | checksum and copy routines selected by the path | [`StageContext::kernels`], [`kernels`] |
//! | a source that wraps a capture | [`source`] |
//! | tests and benchmarks of a stage | [`testing`], [`mod@bench`] |
//!
//! Everything except [`Extension`] and [`causes!`] is a re-export.

#![forbid(unsafe_code)]

mod cause;

pub use linerate_dataplane::context::MAX_CAUSES;
pub use linerate_dataplane::packet::{Fragment, Layers};
pub use linerate_dataplane::{
    Account, BUCKETS, BuildContext, BuildError, Burst, MAX_BURST, Packet, Stage, StageContext,
    StageKernels, StageKind, Steer, Verdict, no_steering,
};

/// Stage and source kinds that a crate adds to the program.
#[derive(Clone, Copy)]
pub struct Extension {
    /// Stage kinds.
    pub stages: &'static [StageKind],
    /// Source kinds.
    pub sources: &'static [source::SourceKind],
}

impl Extension {
    /// Finds a stage kind by name.
    pub fn stage(&self, kind: &str) -> Option<&'static StageKind> {
        self.stages.iter().find(|known| known.spec.kind == kind)
    }

    /// Finds a source kind by name.
    pub fn source(&self, kind: &str) -> Option<&'static source::SourceKind> {
        self.sources.iter().find(|known| known.spec.kind == kind)
    }

    /// Parses a path file that may use only these kinds. `stem` is the path's name if the file does
    /// not set one.
    ///
    /// # Errors
    /// Returns all errors in the text, not only the first.
    pub fn read(&self, text: &str, stem: &str) -> Result<testing::Path, testing::Problems> {
        let stages: Vec<_> = self.stages.iter().map(|kind| kind.spec).collect();
        let sources: Vec<_> = self.sources.iter().map(|kind| kind.spec).collect();
        let kinds = spec::Kinds { stages: &stages, sources: &sources, plugins: &[] };
        linerate_path::check::read(text, stem, kinds).map(|described| described.path)
    }
}

/// Specifications of kinds, as used by path descriptions.
pub mod spec {
    pub use linerate_path::spec::{
        Default, Kinds, MAX_BUFFER_BYTES, MIN_FRAME_BYTES, Misfit, PLUGIN, ParamKind, ParamSpec,
        Plugin, STAGE_KEYS, SourceSpec, StageSpec, State,
    };
}

/// Parameters of stages and sources, with typed access.
pub mod params {
    pub use linerate_dataplane::params::{Address4, Mac, Reader, fail};
    pub use linerate_path::model::{Params, Value};
}

/// Checksum arithmetic, and the kernels (checksum and copy routines) by name.
pub mod kernels {
    pub use linerate_kernels::{Kernels, Sum, checksum};
}

/// Bursts as seen by code in another language.
pub mod foreign {
    pub use linerate_dataplane::foreign::{Foreign, ForeignBurst, ForeignFailure, PACKET_OFFSETS};
    pub use linerate_record::run::FailureKind;
}

/// Sources that derive their packets from those of a capture.
pub mod source {
    pub use linerate_dataplane::bucket::address_hash;
    pub use linerate_dataplane::traffic::{
        Running, SourceKind, Traffic, TrafficBuilder, TrafficError,
    };
    pub use linerate_path::model::{CaptureRules, SourceUse};
    pub use linerate_record::random::{Random, mix};
    pub use linerate_record::run::Tally;
}

/// Bounded rings between two threads, or two parts of the same thread.
pub mod ring {
    pub use linerate_dataplane::ring::{Consumer, Producer, ring};
}

/// Runs paths and individual stages to observe what they do to packets.
pub mod testing {
    pub use linerate_dataplane::capture::PcapWriter;
    pub use linerate_dataplane::pool::Pool;
    pub use linerate_dataplane::{
        Job, Kept, Outcome, RunError, Watch, coupled_share, run, steering,
    };
    pub use linerate_path::model::{Path, RunLength, Sink, Source};
    pub use linerate_path::problem::Problems;
    pub use linerate_record::run::{RunReport, StageReport, Tally};
}

/// Tools for timing stages: timestamp counter, clean windows, CPU pinning, and sample statistics.
pub mod bench {
    pub use linerate_linux::{allowed_cpus, pin_current_thread};
    pub use linerate_machine::provenance::provenance;
    pub use linerate_machine::ticks::ticks;
    pub use linerate_record::stats::{
        CONFIDENCE, Estimate, NORMAL_QUANTILE, median_interval, paired_ratio,
    };
    pub use linerate_trial::{Dropped, Machine, Window, orders};
}
