// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `doctor` record.

use super::{Derive, emulated};
use crate::doctor::{COUNTERS_AT_ONCE, DoctorReport, Verdict};
use crate::figure::{Figure, Figures, Tier};
use crate::provenance::Provenance;
use crate::warning::Warning;

impl Derive for DoctorReport {
    /// Returns `best_tier`; one figure per tier (`tier_hw`, `tier_hw_registers`, ...), absent if
    /// the tier is unavailable; `counters_at_once`; and `advice`, the number of recommended
    /// changes.
    fn figures(&self) -> Figures {
        const TRIED: &str = "events opened and counted on a workload with known counts";
        const READ: &str = "files exposed by the kernel";
        let mut figures = Figures::new();
        for state in &self.tiers {
            let figure = match state.works {
                true => Figure::text("works", Tier::Sw, TRIED),
                false => Figure::absent("text", Tier::Sw, TRIED, &state.sentence),
            };
            let way = state.way.as_ref().map(|way| format!("_{way}")).unwrap_or_default();
            figures.insert(format!("tier_{}{way}", state.tier.name()), figure);
        }
        let best = Figure::text(self.best_tier.name(), Tier::Sw, TRIED);
        figures.insert("best_tier".to_owned(), best);
        let at_once = self.observations.iter().find(|o| o.name == COUNTERS_AT_ONCE);
        let count = at_once.and_then(|o| o.value.as_ref()?.parse().ok());
        let reason = at_once.map_or("not tried", |o| o.sentence.as_str());
        let at_once = match count {
            Some(count) => Figure::exact("counters", count, Tier::Sw, TRIED),
            None => Figure::absent("counters", Tier::Sw, TRIED, reason),
        };
        figures.insert(COUNTERS_AT_ONCE.to_owned(), at_once);
        let worth_changing = |verdict| matches!(verdict, Verdict::Advice | Verdict::Missing);
        let advice = self.observations.iter().filter(|o| worth_changing(o.verdict)).count();
        let advice = Figure::exact("observations", advice as f64, Tier::Sw, READ);
        figures.insert("advice".to_owned(), advice);
        figures
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        emulated(provenance).into_iter().collect()
    }
}
