// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tuning in progress: its stages in the order chosen by the caller, each with access to the
//! CPUs.

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

/// Maximum duration of a single measurement in seconds: a tuning gains nothing from more.
const LONG_SECONDS_MAX: f64 = 10.0;

/// Path and options of the tuning.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The path. Do not give it a sink that stores packets: every run would fill it.
    pub path: &'a Path,
    /// Its traffic.
    pub traffic: &'a Traffic,
    /// The CPUs that workers may be pinned to, best first.
    pub cpus: &'a [u32],
    /// Whether the CPUs are virtual, so that other guests may share their cores.
    pub is_guest: bool,
    /// Checksum and copy variants, as named in the path.
    pub kernels: Kernels,
    /// The stage kinds: those of the path, and `parse` and `verify`, which make up the load.
    pub kinds: &'a [StageKind],
    /// The memory profile of this machine.
    pub memory: &'a Result<KnownMemory, Unknown>,
    /// Upper limit of the 99th percentile of the latency in nanoseconds; `None` without a limit.
    pub p99_limit_ns: Option<f64>,
}

/// A tuning in progress: the request and the observer.
pub struct Session<'a> {
    pub(crate) request: &'a Request<'a>,
    packet_work: Path,
    progress: Progress<'a>,
}

impl<'a> Session<'a> {
    /// Prepares the stages of a tuning; nothing runs yet.
    ///
    /// # Errors
    /// The stage kinds do not include those of the load.
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

    /// Returns the length of a run whose figures are reported, in seconds.
    pub(crate) fn long_seconds(&self) -> f64 {
        long_seconds(self.request.path)
    }

    /// Runs the given mapping, or the nearest one that fits the CPUs, and explains it.
    ///
    /// # Errors
    /// The run failed.
    pub fn measure(&self) -> Result<Measured, TuneError> {
        measure(&self.bench(), self.long_seconds())
    }

    /// Measures the basis of predictions, with the kernels to try.
    ///
    /// # Errors
    /// A run failed, or does not show what the stages cost.
    pub fn calibrate(&self, measured: &Measured) -> Result<Calibration, TuneError> {
        calibrate(&self.bench(), measured)
    }

    /// Runs the baseline and the best proposals in rounds; `None` if stopped.
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
