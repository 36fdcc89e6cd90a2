// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first stage of a tuning: one long run of the baseline, and its results.

use crate::bench::Bench;
use crate::error::TuneError;
use linerate_path::model::{Mapping, SELECTED};
use linerate_plan::candidates::nearest_feasible;
use linerate_plan::diagnose::diagnose;
use linerate_plan::kernels::{advise, shares};
use linerate_record::run::RunReport;
use linerate_record::tune::{Finding, KernelAdvice, TuneReport};

/// The measured baseline, and what limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Mapping of the baseline: the given one, or the nearest that fits the CPUs.
    pub mapping: Mapping,
    /// Report of the baseline run.
    pub report: RunReport,
    /// Bottleneck of the baseline.
    pub finding: Finding,
    /// Advice on whether other kernels are faster for the calls of the path; `None` if unknown.
    pub advice: Option<KernelAdvice>,
}

impl Measured {
    /// Diagnoses a run of `mapping`, which may be new or from a record, and gives advice on its
    /// kernels.
    pub fn explain(mapping: Mapping, report: RunReport) -> Self {
        let (finding, advice) = (diagnose(&report), advise(&report));
        Self { mapping, report, finding, advice }
    }

    /// Returns the report of a tuning that tried no other mapping.
    pub(crate) fn untried(&self) -> TuneReport {
        let Self { report: baseline, finding, advice, .. } = self;
        TuneReport {
            given_mapping: baseline.mapping.clone(),
            baseline_mapping: baseline.mapping.clone(),
            baseline: baseline.clone(),
            baseline_kpps: baseline.processed_kpps.clone(),
            finding: finding.clone(),
            candidates: Vec::new(),
            ruled_out: Vec::new(),
            chosen: None,
            tuned: RunReport { finding: Some(finding.clone()), ..baseline.clone() },
            rounds: 0,
            kernel_shares: shares(baseline, baseline),
            kernel_advice: advice.clone(),
            given_workers: None,
            cpus_available: None,
            packets_home: None,
            waits: Vec::new(),
            calibration: None,
            predicted_from: None,
            baseline_latency: None,
            p99_limit_ns: None,
        }
    }

    /// Returns the name of the kernels that the baseline called.
    pub fn kernels(&self) -> &str {
        self.report.kernels.as_deref().unwrap_or(SELECTED)
    }

    /// Returns the name of the kernels for the candidates. They differ from those of the baseline
    /// only if other kernels promise a sufficient gain.
    pub fn kernels_to_try(&self) -> &str {
        let better = self.advice.as_ref().filter(|advice| advice.worth_trying);
        better.map_or_else(|| self.kernels(), |advice| &advice.fastest)
    }
}

/// Runs the path's own mapping, or the nearest one that fits the CPUs, for this many seconds, and
/// diagnoses the run.
pub(crate) fn measure(bench: &Bench<'_>, seconds: f64) -> Result<Measured, TuneError> {
    let path = bench.path;
    let mapping = nearest_feasible(&path.mapping, bench.cpus.len(), None);
    bench.progress.step("baseline");
    let report = bench.profile(&mapping, path.run.burst, seconds)?;
    Ok(Measured::explain(mapping, report))
}
