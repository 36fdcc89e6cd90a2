// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tuning session in progress. The caller runs its steps one by one, on the CPUs of the request.

use crate::bench::{Bench, Progress, packet_work};
use crate::calibrate::{Calibration, SECONDS as CALIBRATION_SECONDS, calibrate};
use crate::error::TuneError;
use crate::idle::SECONDS as IDLE_SECONDS;
use crate::measure::{Measured, measure};
use crate::predict::Predicted;
use crate::trial::{SECONDS as TRIAL_SECONDS, Trial, trial};
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{StageKind, Watch};
use linerate_kernels::Kernels;
use linerate_path::model::{Path, Rate, RunLength};
use linerate_plan::footprint::{KnownMemory, Unknown};

/// Maximum duration of a single run in seconds; longer runs do not improve the result.
const LONG_SECONDS_MAX: f64 = 10.0;

/// Path and options of a tuning session.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The path. Its sink should not store packets, or every run will write them again.
    pub path: &'a Path,
    /// Packets offered by the path's source.
    pub traffic: &'a Traffic,
    /// CPUs available for pinning workers, best first; at most [`linerate_plan::MAX_WORKERS`].
    pub cpus: &'a [u32],
    /// Whether the CPUs are virtual, in which case other guests may share their cores.
    pub is_guest: bool,
    /// Checksum and copy variants, as named in the path.
    pub kernels: Kernels,
    /// Available stage kinds, including `parse` and `verify` for the background load.
    pub kinds: &'a [StageKind],
    /// This machine's memory profile, or why it is unknown.
    pub memory: &'a Result<KnownMemory, Unknown>,
    /// Upper limit on the 99th percentile latency, in nanoseconds; `None` without a limit.
    pub p99_limit_ns: Option<f64>,
    /// Rate that the path should reach, in kpps; `None` without a goal.
    pub goal_kpps: Option<f64>,
}

/// A tuning session in progress: request, background load, and progress observer.
pub struct Session<'a> {
    pub(crate) request: &'a Request<'a>,
    packet_work: Path,
    progress: Progress<'a>,
}

impl<'a> Session<'a> {
    /// Prepares a tuning session without running anything.
    ///
    /// # Errors
    /// Returns an error if the stage kinds `parse` and `verify`, required for the background load,
    /// are missing.
    pub fn new(request: &'a Request<'a>, watch: &'a Watch<'a>) -> Result<Self, TuneError> {
        let idle = if request.path.run.rate == Rate::Max { 0.0 } else { IDLE_SECONDS };
        let planned = 2.0 * long_seconds(request.path) + CALIBRATION_SECONDS + TRIAL_SECONDS + idle;
        Ok(Self {
            request,
            packet_work: packet_work(request.path, request.kinds)?,
            progress: Progress::new(watch, planned),
        })
    }

    /// Returns whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.progress.watch.is_stopped()
    }

    pub(crate) fn bench(&self) -> Bench<'_> {
        let Request { path, traffic, cpus, is_guest, kernels, kinds, .. } = *self.request;
        let (packet_work, progress) = (&self.packet_work, &self.progress);
        Bench { path, traffic, cpus, is_guest, kernels, kinds, packet_work, progress }
    }

    /// Returns the length in seconds of runs whose figures are reported.
    pub(crate) fn long_seconds(&self) -> f64 {
        long_seconds(self.request.path)
    }

    /// Runs the path's own mapping, or the closest one that fits the CPUs, and diagnoses it.
    ///
    /// # Errors
    /// Returns an error if the run fails.
    pub fn measure(&self) -> Result<Measured, TuneError> {
        measure(&self.bench(), self.long_seconds())
    }

    /// Measures the costs that predictions are based on, with the kernels that candidates will use.
    ///
    /// # Errors
    /// Returns an error if a run fails or does not yield stage costs.
    pub fn calibrate(&self, measured: &Measured) -> Result<Calibration, TuneError> {
        calibrate(&self.bench(), measured)
    }

    /// Runs the baseline and the best proposals in interleaved rounds; `None` if a stop was
    /// requested.
    ///
    /// # Errors
    /// Returns an error if a run fails.
    pub fn trial(
        &self,
        measured: &Measured,
        predicted: &Predicted,
    ) -> Result<Option<Trial>, TuneError> {
        let Request { p99_limit_ns, goal_kpps, .. } = *self.request;
        trial(&self.bench(), measured, predicted, p99_limit_ns, goal_kpps)
    }
}

fn long_seconds(path: &Path) -> f64 {
    match path.run.length {
        RunLength::Seconds(seconds) => seconds.min(LONG_SECONDS_MAX),
        RunLength::Packets(_) => 2.0,
    }
}
