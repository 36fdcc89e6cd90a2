// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tuning in progress. The caller runs its stages in the order that it chooses, each on the CPUs
//! of the request.

use crate::bench::{Bench, Progress, packet_work};
use crate::calibrate::{Calibration, SECONDS as CALIBRATION_SECONDS, calibrate};
use crate::error::TuneError;
use crate::measure::{Measured, measure};
use crate::predict::Predicted;
use crate::trial::{SECONDS as TRIAL_SECONDS, Trial, trial};
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{StageKind, Watch};
use linerate_kernels::Kernels;
use linerate_path::model::{Path, RunLength};
use linerate_plan::footprint::{KnownMemory, Unknown};

/// Maximum duration of a single run in seconds: longer runs do not improve the result of a tuning.
const LONG_SECONDS_MAX: f64 = 10.0;

/// Path and options of the tuning.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The path. Do not give it a sink that stores packets: every run would fill it.
    pub path: &'a Path,
    /// Traffic of the path.
    pub traffic: &'a Traffic,
    /// The CPUs that workers may be pinned to, best first.
    pub cpus: &'a [u32],
    /// Whether the CPUs are virtual, so that other guests may share their cores.
    pub is_guest: bool,
    /// Checksum and copy variants, as named in the path.
    pub kernels: Kernels,
    /// The available stage kinds: those of the path, and `parse` and `verify` for the background
    /// load.
    pub kinds: &'a [StageKind],
    /// The memory profile of this machine, or the reason why it is unknown.
    pub memory: &'a Result<KnownMemory, Unknown>,
    /// Upper limit of the 99th percentile of the latency in nanoseconds; `None` without a limit.
    pub p99_limit_ns: Option<f64>,
}

/// A tuning in progress: the request, the background load, and the progress observer.
pub struct Session<'a> {
    pub(crate) request: &'a Request<'a>,
    packet_work: Path,
    progress: Progress<'a>,
}

impl<'a> Session<'a> {
    /// Prepares a tuning; nothing runs yet.
    ///
    /// # Errors
    /// The stage kinds `parse` and `verify`, which the background load needs, are not available.
    pub fn new(request: &'a Request<'a>, watch: &'a Watch<'a>) -> Result<Self, TuneError> {
        let planned = 2.0 * long_seconds(request.path) + CALIBRATION_SECONDS + TRIAL_SECONDS;
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

    /// Returns the length in seconds of a run whose figures are reported.
    pub(crate) fn long_seconds(&self) -> f64 {
        long_seconds(self.request.path)
    }

    /// Runs the path's own mapping, or the nearest one that fits the CPUs, and diagnoses the run.
    ///
    /// # Errors
    /// The run failed.
    pub fn measure(&self) -> Result<Measured, TuneError> {
        measure(&self.bench(), self.long_seconds())
    }

    /// Measures the costs on which predictions are based, with the kernels that the candidates will
    /// use.
    ///
    /// # Errors
    /// A run failed, or the costs of the stages could not be determined from it.
    pub fn calibrate(&self, measured: &Measured) -> Result<Calibration, TuneError> {
        calibrate(&self.bench(), measured)
    }

    /// Runs the baseline and the best proposals in interleaved rounds; returns `None` if a stop was
    /// requested.
    ///
    /// # Errors
    /// A run failed.
    pub fn trial(
        &self,
        measured: &Measured,
        predicted: &Predicted,
    ) -> Result<Option<Trial>, TuneError> {
        trial(&self.bench(), measured, predicted, self.request.p99_limit_ns)
    }
}

fn long_seconds(path: &Path) -> f64 {
    match path.run.length {
        RunLength::Seconds(seconds) => seconds.min(LONG_SECONDS_MAX),
        RunLength::Packets(_) => 2.0,
    }
}
