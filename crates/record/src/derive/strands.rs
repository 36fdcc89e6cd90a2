// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `strands` record.

use super::{Derive, Lists};
use crate::figure::{Figures, bare};
use crate::provenance::Provenance;
use crate::strands::{ForeignFormat, StrandCounts, StrandEvent, StrandsReport};
use crate::warning::Warning;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

impl Derive for StrandsReport {
    /// Returns figures by strand and name: `cpu_4_kpps`, `cpu_4_dc_pti`.
    fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        let mut seen: Vec<String> = Vec::new();
        for strand in &self.strands {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
            let mut label: String = strand.label().chars().map(plain).collect();
            // Strand names are unique, but replacing special characters can make them collide.
            while seen.contains(&label) {
                label.push('_');
            }
            let rates = [
                ("kpps", &strand.kpps),
                ("ticks_per_packet", &strand.ticks_per_packet),
                ("instructions_per_packet", &strand.instructions_per_packet),
                ("cpi", &strand.cpi),
                ("ipc", &strand.ipc),
            ];
            figures.extend(rates.map(|(name, figure)| (format!("{label}_{name}"), figure.clone())));
            let pti =
                |event: &StrandEvent| (format!("{label}_{}_pti", event.name), event.pti.clone());
            figures.extend(strand.events.iter().map(pti));
            seen.push(label);
        }
        figures
    }

    /// Returns each strand's values, keyed by figure name without the strand's label; the number of
    /// faulty input lines; and the line number of the first one.
    fn lists(&self) -> Lists {
        Lists::from([
            ("strands", self.strands.iter().map(summary).collect()),
            ("faults", json!(self.faults.len())),
            ("first_fault_line", json!(self.faults.first().map(|fault| fault.line))),
        ])
    }

    /// Warns about counts that perf scaled. A sum of such counts has a lower bound but no upper
    /// bound.
    fn warnings(&self, _: &Provenance) -> Vec<Warning> {
        let events = self.strands.iter().flat_map(|strand| &strand.events);
        let share = |event: &StrandEvent| Some(event.count.low? / event.count.as_number()?);
        let scaled: Vec<(&str, f64)> = events
            .filter(|_| self.format == ForeignFormat::PerfStat)
            .filter_map(|event| Some((event.native.as_str(), share(event)?)))
            .collect();
        let names: BTreeSet<String> = scaled.iter().map(|(name, _)| (*name).to_owned()).collect();
        let names = names.into_iter().collect();
        let least = scaled.iter().map(|(_, share)| *share).reduce(f64::min);
        least.map(|share| Warning::ScaledElsewhere { names, share }).into_iter().collect()
    }
}

fn summary(strand: &StrandCounts) -> Value {
    let mut of = Map::from_iter([
        ("name".to_owned(), json!(strand.name)),
        ("cpu".to_owned(), json!(strand.cpu)),
        ("packets".to_owned(), json!(strand.packets)),
        ("kpps".to_owned(), bare(&strand.kpps)),
        ("ticks_per_packet".to_owned(), bare(&strand.ticks_per_packet)),
        ("instructions_per_packet".to_owned(), bare(&strand.instructions_per_packet)),
        ("cpi".to_owned(), bare(&strand.cpi)),
        ("ipc".to_owned(), bare(&strand.ipc)),
    ]);
    let pti = |event: &StrandEvent| (format!("{}_pti", event.name), bare(&event.pti));
    of.extend(strand.events.iter().map(pti));
    of.insert("bound".to_owned(), json!(strand.cpi_by_cause.as_ref().map(|cpi| cpi.bound)));
    Value::Object(of)
}
