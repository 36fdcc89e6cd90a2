// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `tune` record.

use super::run::{costs, doubts, line_rate, of_finding, of_home, of_kernels};
use super::{Derive, named, not_idle};
use crate::figure::{Figure, Figures, Tier};
use crate::provenance::Provenance;
use crate::run::{DeadEnd, Latency};
use crate::tune::{RoundLatency, TuneReport};
use crate::warning::Warning;

const ROUNDS: &str = "median over interleaved rounds";

impl Derive for TuneReport {
    fn figures(&self) -> Figures {
        let mut figures = costs(&self.tuned);
        figures.extend(of_finding(&self.finding));
        figures.extend(of_kernels(self.kernel_advice.as_ref()));
        figures.extend(rates(self));
        figures.extend(named([("delivered_kpps", self.tuned.delivered_kpps())]));
        figures.extend(latencies(self));
        figures.extend(self.packets_home.iter().flat_map(of_home));
        figures
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let few = self.given_workers.zip(self.cpus_available);
        let few = few.filter(|(wanted, available)| wanted > available);
        let few = few.map(|(wanted, available)| Warning::FewCpus { wanted, available });
        few.into_iter().chain(not_idle(provenance)).chain(doubts(&self.tuned, provenance)).collect()
    }
}

fn rates(report: &TuneReport) -> Figures {
    let kept = report.chosen.and_then(|index| report.candidates.get(index as usize));
    let why = match report.predicted_from {
        Some(_) => "predicted from a record: no candidate was run",
        None => "the baseline is kept",
    };
    let none = |unit: &str, tier| Figure::absent(unit, tier, ROUNDS, why);
    let measured = kept.and_then(|kept| kept.measured_kpps.clone());
    let tuned = match report.predicted_from {
        Some(_) => none("kpps", Tier::Sw),
        None => measured.unwrap_or_else(|| report.baseline_kpps.clone()),
    };
    let best = report.candidates.first().filter(|_| report.predicted_from.is_some());
    let predicted =
        kept.or(best).map_or_else(|| none("kpps", Tier::Model), |k| k.predicted_kpps.clone());
    let error = tuned.as_number().zip(predicted.as_number());
    let error = error.and_then(|(tuned, predicted)| prediction_error(tuned, predicted));
    let error = error.map_or_else(
        || none("ratio", Tier::Sw),
        |error| Figure::exact("ratio", error, Tier::Sw, "measured rate / predicted rate - 1"),
    );
    let speedup = match kept {
        None if report.predicted_from.is_some() => none("ratio", Tier::Sw),
        Some(kept) => kept.speedup.clone().unwrap_or_else(|| none("ratio", Tier::Sw)),
        None => Figure::exact("ratio", 1.0, Tier::Sw, "the baseline is kept"),
    };
    let line = line_rate(&report.tuned);
    let end = report.tuned.dead_end().filter(DeadEnd::is_drop);
    let no_gap = match end {
        Some(_) => "no packet reached the sink",
        None => "no line rate to compare with",
    };
    let gap = tuned.as_number().zip(line.as_number()).filter(|_| end.is_none());
    let gap = gap.and_then(|(tuned, line)| gap_to_line(tuned, line));
    let gap = gap.map_or_else(
        || match tuned.as_number() {
            Some(_) => Figure::absent("ratio", Tier::Sw, ROUNDS, no_gap),
            None => none("ratio", Tier::Sw),
        },
        |gap| Figure::exact("ratio", gap, Tier::Sw, "1 - tuned rate / line rate"),
    );
    named([
        ("baseline_kpps", report.baseline_kpps.clone()),
        ("tuned_kpps", tuned),
        ("speedup", speedup),
        ("predicted_kpps", predicted),
        ("prediction_error", error),
        ("line_rate_kpps", line),
        ("gap_to_line", gap),
    ])
}

impl TuneReport {
    /// Returns the baseline latency: from the rounds if there were any, otherwise from the
    /// baseline's own run.
    pub fn latency_before(&self) -> RoundLatency {
        self.baseline_latency.clone().unwrap_or_else(|| of_run(&self.baseline.latency))
    }

    /// Returns the latency of the chosen mapping, from the same source as
    /// [`TuneReport::latency_before`].
    pub fn latency_after(&self) -> RoundLatency {
        let kept = self.chosen.and_then(|index| self.candidates.get(index as usize));
        match kept {
            Some(kept) => kept.latency.clone().unwrap_or_else(|| of_run(&self.tuned.latency)),
            None => self.latency_before(),
        }
    }
}

fn of_run(latency: &Latency) -> RoundLatency {
    RoundLatency { p50: latency.p50.clone(), p99: latency.p99.clone() }
}

fn latencies(report: &TuneReport) -> Figures {
    let [before, after] = [report.latency_before(), report.latency_after()];
    named([
        ("baseline_latency_p50_ns", before.p50),
        ("baseline_latency_p99_ns", before.p99),
        ("tuned_latency_p50_ns", after.p50),
        ("tuned_latency_p99_ns", after.p99),
    ])
}

/// Returns the relative error of a prediction, negative if the measured value is lower. `None`
/// unless both values are positive.
fn prediction_error(measured: f64, predicted: f64) -> Option<f64> {
    (measured > 0.0 && predicted > 0.0).then(|| measured / predicted - 1.0)
}

/// Returns how far a rate falls short of line rate, as a fraction of line rate; negative if the
/// path is faster. `None` unless both rates are positive.
fn gap_to_line(kpps: f64, line_kpps: f64) -> Option<f64> {
    (kpps > 0.0 && line_kpps > 0.0).then(|| 1.0 - kpps / line_kpps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_gaps_have_the_sign_they_say() {
        assert_eq!(prediction_error(110.0, 100.0).map(|e| e > 0.0), Some(true));
        assert_eq!(prediction_error(90.0, 0.0), None);
        assert_eq!(gap_to_line(75.0, 100.0), Some(0.25));
        assert_eq!(gap_to_line(f64::NAN, 100.0), None);
    }
}
