// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input and the result of a run.

use crate::counting::Counting;
use crate::error::RunError;
use crate::kernels::StageKernels;
use crate::live::Ports;
use crate::sink::Kept;
use crate::stage::{StageKind, Steer};
use crate::traffic::Traffic;
use linerate_kernels::Kernels;
use linerate_path::model::{IdlePolicy, IdleRules, Mapping, Path, RunOptions};
use linerate_record::run::RunReport;
use std::sync::Arc;

/// Input of one run.
///
/// [`Job::new`] takes the fields that have no default. Set others with struct update syntax:
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
    /// The path to run. Its mapping and run options are used unless this job overrides them.
    pub path: &'a Path,
    /// Stage kinds available to the path.
    pub kinds: &'a [StageKind],
    /// Packets that the source offers; empty if they come from interfaces.
    pub traffic: &'a Traffic,
    /// The path's open interfaces, whose queues the run takes; `None` if the path has none. With
    /// `None`, a path with interfaces runs without packets.
    pub live: Option<&'a Ports>,
    /// Assignment of stages to workers, by default the path's mapping.
    pub mapping: &'a Mapping,
    /// The CPU of each worker, ordered by segment, then by replica.
    pub cpus: &'a [u32],
    /// Run options, by default the path's.
    pub options: RunOptions,
    /// Idle policies of the workers, by default as specified in the path. Policies of individual
    /// workers apply only if all segments have the same stages as in the path's mapping.
    pub idle: &'a IdleRules,
    /// Whether workers may share CPUs. If so, they yield while waiting.
    pub oversubscribe: bool,
    /// Number of frames that each source queue repeats in a loop, so that all table data that the
    /// stages access for them stays in L1; `None` offers all frames.
    pub confine: Option<usize>,
    /// Whether to recount bytes after every stage, in order to check the stages' accounts.
    pub audit: bool,
    /// Checksum and copy kernels for all workers, by default the best variants on this CPU.
    pub kernels: Kernels,
    /// Whether to log the kernel calls (checksum and copy routines) of some iterations and replay
    /// them after the run, which shows how much of each stage's time is spent in kernels. The
    /// replay takes about 50 ms per stage with calls. Ignored if workers share CPUs, because the
    /// replays would then compete for CPUs.
    pub replay: bool,
    /// Hardware events to count per stage, in a sample of iterations. Like `replay`, ignored if
    /// workers share CPUs.
    pub counting: Option<&'a Counting>,
}

impl<'a> Job<'a> {
    /// Creates a job with the path's mapping and options. `cpus` are the CPUs of the workers, one
    /// per worker. Audit, replay and counting are off.
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
            live: None,
            mapping: &path.mapping,
            cpus,
            options: path.run,
            idle: &path.idle,
            oversubscribe: false,
            confine: None,
            audit: false,
            kernels: Kernels::selected(),
            replay: false,
            counting: None,
        }
    }

    /// Returns the idle policy of the workers that run a segment.
    pub(crate) fn idle_policy(&self, segment: usize) -> IdlePolicy {
        let stages = |mapping: &Mapping| -> Vec<_> {
            mapping.segments.iter().map(|segment| segment.stages.clone()).collect()
        };
        match stages(self.mapping) == stages(&self.path.mapping) {
            true => self.idle.of_segment(segment),
            false => self.idle.policy,
        }
    }

    /// Returns whether kernel calls are logged and replayed.
    pub(crate) fn replays(&self) -> bool {
        self.replay && !self.oversubscribe
    }

    /// Returns the kernels for one stage on one worker, with a call log if calls are replayed.
    pub(crate) fn stage_kernels(&self) -> StageKernels {
        match self.replays() {
            true => StageKernels::logging(self.kernels),
            false => StageKernels::new(self.kernels),
        }
    }
}

/// Result of a successful run.
#[derive(Debug)]
pub struct Outcome {
    /// Report on the run, with the profile of its workers.
    pub report: RunReport,
    /// Packets that the sinks have kept in memory for an output file.
    pub kept: Kept,
}

/// Returns the steering of those stages of a path that have one, in path order.
///
/// # Errors
/// Returns an error if a stage kind is unknown or rejects its parameters.
pub fn steering(path: &Path, kinds: &[StageKind]) -> Result<Vec<Arc<dyn Steer>>, RunError> {
    let mut all = Vec::new();
    for (stage, used) in path.stages.iter().enumerate() {
        let steer = (find(kinds, &used.kind)?.steer)(&used.params);
        all.extend(steer.map_err(|error| RunError::Stage { stage, error })?);
    }
    Ok(all)
}

/// Finds a stage kind by name.
pub(crate) fn find<'k>(kinds: &'k [StageKind], kind: &str) -> Result<&'k StageKind, RunError> {
    let found = kinds.iter().find(|k| k.spec.kind == kind);
    found.ok_or_else(|| RunError::UnknownKind(kind.to_owned()))
}
