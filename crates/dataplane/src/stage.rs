// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage interface. A stage processes bursts. A context gives it its packet account and
//! kernels.

use crate::burst::Burst;
use crate::context::StageContext;
use linerate_path::model::Params;
use linerate_path::spec::StageSpec;
use std::fmt;
use std::sync::Arc;

/// Number of RSS buckets. The source hashes flows into buckets, and all packets of a bucket go to
/// the same replica.
pub const BUCKETS: usize = 128;

/// Maximum number of parts of a worker: head, 16 stages, tail.
pub(crate) const MAX_PARTS: usize = 18;

/// A function of a packet path that processes packets in bursts.
///
/// A stage is built once per replica and runs on a single worker, so it needs no locks. All packets
/// of a [bucket](BUCKETS) go to the same replica, in source order. Therefore, a stage whose output
/// depends only on packets of the same bucket produces the same output under every mapping.
pub trait Stage: Send {
    /// Processes a burst: may modify packets, and drop or consume them using [`Burst::sift`].
    ///
    /// Must not allocate per packet. If it panics, the run ends and the report identifies the
    /// packet.
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext);

    /// Returns the names and values of the stage's own counters, for the report. Called after the
    /// run.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Explains why the stage had nothing to do: returns the condition in its parameters that none
    /// of the `packets` packets met. Returns `None` if a packet met the condition or was dropped.
    /// Called after the run.
    fn idle(&self, packets: u64) -> Option<String> {
        let _ = packets;
        None
    }
}

/// Assigns packets to RSS buckets. Needed for a stage if a hash of addresses and ports would
/// separate packets that must go to the same replica.
pub trait Steer: Send + Sync {
    /// Returns the bucket (below [`BUCKETS`]) of a frame, or `None` to fall back to the hash of
    /// the flow. `frame` starts at the Ethernet header and may be truncated.
    fn bucket(&self, frame: &[u8]) -> Option<u8>;
}

/// Information that a stage's constructor receives in addition to the stage's parameters.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext {
    /// Index of this replica, 0-based.
    pub replica: u32,
    /// Number of replicas of the stage.
    pub replicas: u32,
}

/// Error returned when a stage cannot be built from its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The invalid parameter.
    pub param: &'static str,
    /// Index of the invalid entry, if the parameter is a list.
    pub index: Option<usize>,
    /// Description of the problem, including the invalid value.
    pub message: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(i) => write!(f, "{}[{i}]: {}", self.param, self.message),
            None => write!(f, "{}: {}", self.param, self.message),
        }
    }
}

impl std::error::Error for BuildError {}

/// A function that builds one replica of a stage from its parameters.
pub type Build = fn(&Params, &BuildContext) -> Result<Box<dyn Stage>, BuildError>;

/// A function that builds a stage's steering (how it assigns packets to RSS buckets). It returns
/// `None` if a hash of addresses and ports is sufficient.
pub type MakeSteer = fn(&Params) -> Result<Option<Arc<dyn Steer>>, BuildError>;

/// Returns `None`. The [`MakeSteer`] of stages for which a hash of addresses and ports is
/// sufficient.
pub fn no_steering(_: &Params) -> Result<Option<Arc<dyn Steer>>, BuildError> {
    Ok(None)
}

/// A stage kind: its specification and constructors.
#[derive(Clone, Copy)]
pub struct StageKind {
    /// Specification of the kind, for the path checker.
    pub spec: StageSpec,
    /// Builds one replica.
    pub build: Build,
    /// Builds the steering; returns `None` if a hash of addresses and ports is sufficient.
    pub steer: MakeSteer,
}

impl StageKind {
    /// Creates a kind without steering: the source hashes addresses and ports.
    pub const fn new(spec: StageSpec, build: Build) -> Self {
        Self { spec, build, steer: no_steering }
    }
}
