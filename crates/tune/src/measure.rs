// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first step of a tuning session: a long run of the baseline, and the conclusions from it.

use crate::bench::Bench;
use crate::error::TuneError;
use linerate_path::model::{Mapping, SELECTED};
use linerate_plan::candidates::nearest_feasible;
use linerate_plan::diagnose::diagnose;
use linerate_plan::kernels::{advise, shares};
use linerate_record::run::RunReport;
use linerate_record::tune::{Finding, KernelAdvice, TuneReport};

/// The measured baseline and its bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Baseline mapping: the given one, or the closest one that fits the CPUs.
    pub mapping: Mapping,
    /// Report of the baseline run.
    pub report: RunReport,
    /// Bottleneck of the baseline, or why it is unknown.
    pub finding: Finding,
    /// Advice on faster kernels for the path's calls; `None` if no calls were timed.
    pub advice: Option<KernelAdvice>,
}

impl Measured {
    /// Diagnoses a run of `mapping`, whether new or recorded, and derives kernel advice.
    pub fn explain(mapping: Mapping, report: RunReport) -> Self {
        let (finding, advice) = (diagnose(&report), advise(&report));
        Self { mapping, report, finding, advice }
    }

    /// Returns the report of a tuning session that tried no other mapping.
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
            idle: None,
        }
    }

    /// Returns the kernels that the baseline called.
    pub fn kernels(&self) -> &str {
        self.report.kernels.as_deref().unwrap_or(SELECTED)
    }

    /// Returns the kernels for the candidates, which differ from the baseline's only if others
    /// promise a sufficient gain.
    pub fn kernels_to_try(&self) -> &str {
        let better = self.advice.as_ref().filter(|advice| advice.worth_trying);
        better.map_or_else(|| self.kernels(), |advice| &advice.fastest)
    }
}

/// Runs the path's own mapping, or the closest one that fits the CPUs, for this many seconds, and
/// diagnoses it.
pub(crate) fn measure(bench: &Bench<'_>, seconds: f64) -> Result<Measured, TuneError> {
    let path = bench.path;
    let mapping = nearest_feasible(&path.mapping, bench.cpus.len(), None);
    bench.progress.step("baseline");
    let report = bench.profile(&mapping, path.run.burst, seconds)?;
    Ok(Measured::explain(mapping, report))
}
