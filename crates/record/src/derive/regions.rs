// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from the regions of a program.

use super::Derive;
use crate::figure::{Figure, Figures};
use crate::regions::{RegionReport, RegionsReport};
use std::collections::BTreeMap;

const METHOD: &str = "between entering and leaving, own cost subtracted";

impl Derive for RegionsReport {
    /// Per region of all threads together, `NAME.ticks_per_visit` and, where units of work were
    /// reported, `NAME.ticks_per_unit` and `NAME.EVENT_per_unit`.
    fn figures(&self) -> Figures {
        let mut names: BTreeMap<&str, Vec<&RegionReport>> = BTreeMap::new();
        for region in &self.regions {
            names.entry(&region.name).or_default().push(region);
        }
        let mut figures = Figures::from([("own_ticks".to_owned(), self.own_ticks.clone())]);
        for (name, threads) in names {
            let visits: u64 = threads.iter().map(|region| region.visits).sum();
            let units: u64 = threads.iter().map(|region| region.units).sum();
            let ticks = sum(threads.iter().map(|region| &region.ticks));
            figures.insert(format!("{name}.ticks_per_visit"), per(&ticks, visits, "visit"));
            if units == 0 {
                continue;
            }
            figures.insert(format!("{name}.ticks_per_unit"), per(&ticks, units, "unit"));
            let events = threads.first().map_or(0, |region| region.events.len());
            for event in 0..events {
                let of_event = threads.iter().filter_map(|region| region.events.get(event));
                let count = sum(of_event.map(|event| &event.count));
                let event = &threads[0].events[event].name;
                figures.insert(format!("{name}.{event}_per_unit"), per(&count, units, "unit"));
            }
        }
        figures
    }
}

/// The figures together; absent, with its reason, if one of them is. A sum with a part of unknown
/// spread is itself of unknown spread.
fn sum<'a>(figures: impl Iterator<Item = &'a Figure> + Clone) -> Figure {
    let missing = figures.clone().find(|figure| figure.as_number().is_none());
    let mut rest = figures;
    let first = missing.or_else(|| rest.next()).expect("a region has at least one thread").clone();
    let add = |sum: Figure, next: &Figure| match (sum.estimate(), next.estimate()) {
        (Some(a), Some(b)) => Figure::number(&sum.unit, a.plus(b), sum.tier, METHOD),
        _ => sum,
    };
    match first.as_number() {
        Some(_) => rest.fold(first, add),
        None => first,
    }
}

fn per(figure: &Figure, units: u64, unit: &str) -> Figure {
    let unit = format!("{}/{unit}", figure.unit);
    match units {
        0 => Figure { value: crate::Scalar::Absent, unit, low: None, high: None, ..figure.clone() },
        _ => divided(figure, units as f64, unit),
    }
}

fn divided(figure: &Figure, units: f64, unit: String) -> Figure {
    let end = |end: Option<f64>| end.map(|end| end / units);
    let value = figure
        .as_number()
        .map_or(crate::Scalar::Absent, |value| crate::Scalar::Number(value / units));
    Figure { value, unit, low: end(figure.low), high: end(figure.high), ..figure.clone() }
}
