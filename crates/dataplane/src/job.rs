// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description and result of one run.

use crate::counting::Counting;
use crate::error::RunError;
use crate::kernels::StageKernels;
use crate::sink::Kept;
use crate::stage::{StageKind, Steer};
use crate::traffic::Traffic;
use linerate_kernels::Kernels;
use linerate_path::model::{Mapping, Path, RunOptions};
use linerate_record::run::RunReport;
use std::sync::Arc;

/// Everything one run needs.
///
/// [`Job::new`] takes the values without a default; everything else is set by struct update:
///
/// ```no_run
/// # use linerate_dataplane::{Job, StageKind, traffic::Traffic};
/// # use linerate_path::model::Path;
/// # fn job(path: &Path, kinds: &[StageKind], traffic: &Traffic) {
/// let audited = Job { audit: true, ..Job::new(path, kinds, traffic, &[0]) };
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The path. Its own mapping and options are only defaults for this job.
    pub path: &'a Path,
    /// The kinds of stage that the path may name.
    pub kinds: &'a [StageKind],
    /// The packets that the source offers.
    pub traffic: &'a Traffic,
    /// Assignment of stages to workers; by default that of the path.
    pub mapping: &'a Mapping,
    /// One CPU per worker, in order of segment, then replica.
    pub cpus: &'a [u32],
    /// Run options; by default those of the path.
    pub options: RunOptions,
    /// Whether workers may share CPUs; if so, they yield while they wait.
    pub oversubscribe: bool,
    /// Offer only this number of frames per queue, in a loop, so that all data the stages look up
    /// is in L1.
    pub confine: Option<usize>,
    /// Whether to recount the bytes after every stage instead of trusting the stages' accounts.
    pub audit: bool,
    /// Checksum and copy kernels for all workers; by default the best variant of each on this CPU.
    pub kernels: Kernels,
    /// Whether to log the calls of kernels (checksum and copy routines) in a sample of iterations
    /// and to replay them at the end, which finds their share of each stage's time. The replay
    /// takes some 50 ms more per stage with calls. Disabled if workers share CPUs, since the
    /// replays would disturb each other.
    pub replay: bool,
    /// Hardware events to count around the stages, in a sample of iterations. Disabled if workers
    /// share CPUs, like `replay`.
    pub counting: Option<&'a Counting>,
}

impl<'a> Job<'a> {
    /// Creates a job for `path` with the path's mapping and options and one CPU of `cpus` per
    /// worker; nothing is audited, replayed or counted.
    pub fn new(
        path: &'a Path,
        kinds: &'a [StageKind],
        traffic: &'a Traffic,
        cpus: &'a [u32],
    ) -> Self {
        Self {
            path,
            kinds,
            traffic,
            mapping: &path.mapping,
            cpus,
            options: path.run,
            oversubscribe: false,
            confine: None,
            audit: false,
            kernels: Kernels::selected(),
            replay: false,
            counting: None,
        }
    }

    /// Returns whether kernel calls are logged and replayed.
    pub(crate) fn replays(&self) -> bool {
        self.replay && !self.oversubscribe
    }

    /// Returns the kernels for one stage of one worker, with a call log if calls are replayed.
    pub(crate) fn stage_kernels(&self) -> StageKernels {
        match self.replays() {
            true => StageKernels::logging(self.kernels),
            false => StageKernels::new(self.kernels),
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Profile of the run.
    pub report: RunReport,
    /// Packets kept by the sinks.
    pub kept: Kept,
}

/// Returns the steering that the stages of a path require, in order.
///
/// # Errors
/// If a stage is unknown or refuses its parameters.
pub fn steering(path: &Path, kinds: &[StageKind]) -> Result<Vec<Arc<dyn Steer>>, RunError> {
    let mut all = Vec::new();
    for (stage, used) in path.stages.iter().enumerate() {
        let steer = (find(kinds, &used.kind)?.steer)(&used.params);
        all.extend(steer.map_err(|error| RunError::Stage { stage, error })?);
    }
    Ok(all)
}

/// Finds a kind of stage by its name.
pub(crate) fn find<'k>(kinds: &'k [StageKind], kind: &str) -> Result<&'k StageKind, RunError> {
    let found = kinds.iter().find(|k| k.spec.kind == kind);
    found.ok_or_else(|| RunError::UnknownKind(kind.to_owned()))
}
