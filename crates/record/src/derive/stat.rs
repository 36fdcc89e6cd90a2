// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `stat` record.

use super::{Derive, emulated};
use crate::figure::Figures;
use crate::provenance::Provenance;
use crate::stat::{Judged, StatReport};
use crate::warning::Warning;

/// Returns the name under which an event's count per unit of work is listed.
pub fn per_unit_name(event: &str, unit: &str) -> String {
    format!("{event}_per_{unit}")
}

impl Derive for StatReport {
    /// Returns all events, metrics and times. Counts per unit of work are named
    /// `<event>_per_<unit>`.
    fn figures(&self) -> Figures {
        let mut figures = self.times.clone();
        for metric in &self.metrics {
            figures.insert(metric.name.clone(), metric.figure.clone());
        }
        for event in &self.events {
            if let (Some(figure), Some(unit)) = (&event.per_unit, &self.unit_of_work) {
                figures.insert(per_unit_name(&event.name, &unit.name), figure.clone());
            }
            figures.insert(event.name.clone(), event.count.clone());
        }
        figures
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        // The simulator does the counting, so an emulated processor does not affect the counts.
        let emulated = emulated(provenance).filter(|_| self.caches.is_none());
        let remarks = self.remarks.iter().cloned();
        remarks.chain(emulated).chain(not_judged(self)).collect()
    }
}

/// Warns about figures that could not be compared with the baseline, and says why.
fn not_judged(report: &StatReport) -> Vec<Warning> {
    let names = |reasons: &[Judged]| -> Option<Vec<String>> {
        let changes = report.baseline.iter().filter(|change| reasons.contains(&change.judged));
        let names: Vec<String> = changes.map(|change| change.name.clone()).collect();
        (!names.is_empty()).then_some(names)
    };
    let without_interval =
        names(&[Judged::NoInterval]).map(|names| Warning::NoVerdictWithoutInterval { names });
    let on_other_grounds = names(&[Judged::OtherTier, Judged::OtherCaches])
        .map(|names| Warning::NoVerdictOnOtherGrounds { names });
    let in_one_only = names(&[Judged::NotCountedBefore, Judged::NotCountedNow])
        .map(|names| Warning::NoVerdictWithoutCount { names });
    [without_interval, on_other_grounds, in_one_only].into_iter().flatten().collect()
}
