// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stage interface: a function over bursts, with its account and its kernels.

use crate::burst::Burst;
use crate::context::StageContext;
use linerate_path::model::Params;
use linerate_path::spec::StageSpec;
use std::fmt;
use std::sync::Arc;

/// Buckets into which the source sorts flows before it hands them to replicas, as the indirection
/// table of a network card does. Packets of one bucket always meet the same replica.
pub const BUCKETS: usize = 128;

/// Parts of a worker at most: its head, 16 stages, its tail.
pub(crate) const MAX_PARTS: usize = 18;

/// One function of a packet path.
///
/// A stage is made once per replica and runs on one worker; it needs no locks. All packets of a
/// [bucket](BUCKETS) meet the same replica in the order the source offered them. A stage whose
/// output depends on no more than the packets of one bucket therefore gives the same packets under
/// every mapping.
pub trait Stage: Send {
    /// Works on a burst: changes packets, drops or consumes them through [`Burst::sift`].
    ///
    /// Must not allocate per packet. A panic ends the run; the report names the packet.
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext);

    /// Additional counts of the stage, by name, for the report; read after the run.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Why the stage found nothing to do in any of `packets` packets, of which it dropped none:
    /// what its parameters ask for, and that no packet has it. `None` where it worked on one. Read
    /// when the run has ended.
    fn idle(&self, packets: u64) -> Option<String> {
        let _ = packets;
        None
    }
}

/// Decides which packets must meet the same replica, where the addresses alone do not say it.
pub trait Steer: Send + Sync {
    /// The bucket (below [`BUCKETS`]) of a frame, or `None` to leave it to the hash of the
    /// addresses. `frame` starts at the Ethernet header and may be cut short anywhere.
    fn bucket(&self, frame: &[u8]) -> Option<u8>;
}

/// Inputs for building a stage.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext {
    /// Which replica this is, from 0.
    pub replica: u32,
    /// Number of replicas.
    pub replicas: u32,
}

/// Why a stage could not be made from its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The invalid parameter.
    pub param: &'static str,
    /// Which entry of it, where it is a list.
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

/// Makes the stage of one replica.
pub type Build = fn(&Params, &BuildContext) -> Result<Box<dyn Stage>, BuildError>;

/// Makes the steering of a stage, if the hash of the addresses does not do.
pub type MakeSteer = fn(&Params) -> Result<Option<Arc<dyn Steer>>, BuildError>;

/// The [`MakeSteer`] of a stage that leaves it to the hash of the addresses; never fails.
pub fn no_steering(_: &Params) -> Result<Option<Arc<dyn Steer>>, BuildError> {
    Ok(None)
}

/// A kind of stage: its specification and how to make one.
#[derive(Clone, Copy)]
pub struct StageKind {
    /// The specification for the description of a path.
    pub spec: StageSpec,
    /// Makes the stage of one replica.
    pub build: Build,
    /// The steering the stage needs, if the hash of the addresses does not do.
    pub steer: MakeSteer,
}

impl StageKind {
    /// A kind that leaves steering to the hash of the addresses.
    pub const fn new(spec: StageSpec, build: Build) -> Self {
        Self { spec, build, steer: no_steering }
    }
}
