// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage interface: a function over bursts, with its account and its kernels.

use crate::burst::Burst;
use crate::context::StageContext;
use linerate_path::model::Params;
use linerate_path::spec::StageSpec;
use std::fmt;
use std::sync::Arc;

/// Number of RSS buckets into which the source sorts flows before distributing them to replicas.
/// Packets of one bucket always go to the same replica.
pub const BUCKETS: usize = 128;

/// Maximum number of parts in a worker: its head, 16 stages, its tail.
pub(crate) const MAX_PARTS: usize = 18;

/// One function in a packet path.
///
/// A stage is built once per replica and runs on one worker, so it needs no locks. All packets of a
/// [bucket](BUCKETS) go to the same replica in source order. A stage whose output depends only on
/// the packets of one bucket therefore gives the same packets under every mapping.
pub trait Stage: Send {
    /// Processes a burst: modifies packets, and drops or consumes them through [`Burst::sift`].
    ///
    /// Must not allocate per packet. A panic ends the run; the report names the packet.
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext);

    /// Returns additional counts kept by the stage, by name, for the report. Called after the run.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the reason why the stage had nothing to do for any of `packets` packets and dropped
    /// none: what its parameters require, and that no packet meets that requirement. Returns `None`
    /// if the stage worked on at least one packet. Called after the run.
    fn idle(&self, packets: u64) -> Option<String> {
        let _ = packets;
        None
    }
}

/// Determines which packets must go to the same replica, if addresses alone are not sufficient.
pub trait Steer: Send + Sync {
    /// Returns the bucket (below [`BUCKETS`]) of a frame, or `None` to use the address hash.
    /// `frame` starts at the Ethernet header and may be truncated.
    fn bucket(&self, frame: &[u8]) -> Option<u8>;
}

/// Inputs for building a stage.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext {
    /// Index of this replica, from 0.
    pub replica: u32,
    /// Number of replicas.
    pub replicas: u32,
}

/// Error from building a stage from its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The invalid parameter.
    pub param: &'static str,
    /// Index of the offending entry, if the parameter is a list.
    pub index: Option<usize>,
    /// Description of the error.
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

/// A function that builds the stage of one replica from its parameters.
pub type Build = fn(&Params, &BuildContext) -> Result<Box<dyn Stage>, BuildError>;

/// A function that builds the steering of a stage (the choice of RSS bucket for each packet); it
/// returns `None` if the address hash is sufficient.
pub type MakeSteer = fn(&Params) -> Result<Option<Arc<dyn Steer>>, BuildError>;

/// Returns `None`: the [`MakeSteer`] for a stage that uses the address hash. Never fails.
pub fn no_steering(_: &Params) -> Result<Option<Arc<dyn Steer>>, BuildError> {
    Ok(None)
}

/// A kind of stage: its specification and constructors.
#[derive(Clone, Copy)]
pub struct StageKind {
    /// Specification for path files.
    pub spec: StageSpec,
    /// Builds the stage of one replica.
    pub build: Build,
    /// Builds the steering of the stage, if the address hash is not sufficient.
    pub steer: MakeSteer,
}

impl StageKind {
    /// Creates a kind that uses the address hash for steering.
    pub const fn new(spec: StageSpec, build: Build) -> Self {
        Self { spec, build, steer: no_steering }
    }
}
