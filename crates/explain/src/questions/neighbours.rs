// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines which of a run's workers share a CPU or a core. The record provides each worker's
//! CPU, the SMT siblings, and the number of available CPUs.
//!
//! A worker counts as alone only if the record proves it. Other programs are not considered.

use super::Inquiry;
use super::evidence::run_of;
use linerate_record::run::{RunReport, WorkerReport};
use linerate_record::{Body, Provenance};

/// Whether a worker shared its core with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoreSharing {
    /// No other worker was on its core.
    Alone,
    /// Another worker was on the same CPU.
    Cpu,
    /// Another worker was on another hardware thread of its core.
    Core,
    /// The record does not show whether the worker shared its core.
    Unknown,
}

/// Returns the workers of a `run` or `tune` record and, for each, whether it shared its core; empty
/// for other records.
pub(super) fn companies<'a>(asked: &Inquiry<'a>) -> Vec<(&'a WorkerReport, CoreSharing)> {
    let body = &asked.record.body;
    let Some(run) = run_of(body) else { return Vec::new() };
    let found = run.workers.iter().map(|worker| (worker, company(worker, run, asked)));
    let mut found: Vec<_> = found.collect();
    // If there are more workers than CPUs, but no two workers were recorded on the same CPU, the
    // recorded CPUs are not the ones on which they ran.
    let is_crowded = cpus_available(body).is_some_and(|cpus| run.workers.len() > cpus as usize);
    if is_crowded && found.iter().all(|(_, company)| *company != CoreSharing::Cpu) {
        found.iter_mut().for_each(|(_, company)| *company = CoreSharing::Unknown);
    }
    found
}

fn company(worker: &WorkerReport, run: &RunReport, asked: &Inquiry<'_>) -> CoreSharing {
    let others = || run.workers.iter().filter(|other| !std::ptr::eq(*other, worker));
    if others().any(|other| other.cpu == worker.cpu) {
        return CoreSharing::Cpu;
    }
    let Provenance { cpus, siblings, .. } = &asked.record.provenance;
    let Some(siblings) = siblings else { return CoreSharing::Unknown };
    let mut cores = siblings.iter().filter(|core| core.contains(&worker.cpu));
    if cores.any(|core| others().any(|other| core.contains(&other.cpu))) {
        return CoreSharing::Core;
    }
    // Siblings are known only for CPUs listed in the provenance.
    if cpus.contains(&worker.cpu) { CoreSharing::Alone } else { CoreSharing::Unknown }
}

fn cpus_available(body: &Body) -> Option<u32> {
    match body {
        Body::Run(run) => run.cpus_available,
        Body::Tune(tune) => tune.cpus_available,
        _ => None,
    }
}

/// Reason for giving no answer: the record does not show how workers share CPUs and cores.
pub(super) const NOT_SHOWN: &str = "the record lacks CPU affinity and SMT siblings";
