// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `regions` record.

use super::Derive;
use crate::figure::{Figure, Figures};
use crate::regions::{RegionEvent, RegionReport, RegionTotal, RegionsReport};
use std::collections::{BTreeMap, BTreeSet};

const METHOD: &str = "from region entry to exit, measurement overhead subtracted";

impl Derive for RegionsReport {
    /// Returns, for each region over all threads, `NAME.ticks_per_visit` and, if the program
    /// reported units of work, `NAME.ticks_per_unit` and `NAME.EVENT_per_unit`.
    fn figures(&self) -> Figures {
        let mut figures = Figures::from([("own_ticks".to_owned(), self.own_ticks.clone())]);
        for RegionTotal { name, visits, units, ticks, events, .. } in self.totals() {
            figures.insert(format!("{name}.ticks_per_visit"), per(&ticks, visits, "visit"));
            if units == 0 {
                continue;
            }
            figures.insert(format!("{name}.ticks_per_unit"), per(&ticks, units, "unit"));
            for RegionEvent { name: event, count } in events {
                figures.insert(format!("{name}.{event}_per_unit"), per(&count, units, "unit"));
            }
        }
        figures
    }
}

impl RegionsReport {
    /// Returns the regions, each summed over all threads, in order of first appearance.
    pub fn totals(&self) -> Vec<RegionTotal<'_>> {
        let mut names: Vec<&str> = Vec::new();
        let mut threads: BTreeMap<&str, Vec<&RegionReport>> = BTreeMap::new();
        for region in &self.regions {
            let of_name = threads.entry(&region.name).or_default();
            if of_name.is_empty() {
                names.push(&region.name);
            }
            of_name.push(region);
        }
        names.iter().map(|name| total(&threads[name])).collect()
    }
}

/// Sums one region over its threads. `regions` must not be empty.
fn total<'a>(regions: &[&'a RegionReport]) -> RegionTotal<'a> {
    let tids: BTreeSet<u32> = regions.iter().map(|region| region.tid).collect();
    let event = |(place, first): (usize, &RegionEvent)| {
        let of_event = regions.iter().filter_map(|region| region.events.get(place));
        let count = sum(of_event.map(|event| &event.count));
        RegionEvent { name: first.name.clone(), count }
    };
    RegionTotal {
        name: &regions[0].name,
        threads: tids.len(),
        visits: regions.iter().map(|region| region.visits).sum(),
        units: regions.iter().map(|region| region.units).sum(),
        ticks: sum(regions.iter().map(|region| &region.ticks)),
        own_ticks: sum(regions.iter().map(|region| &region.own_ticks)),
        events: regions[0].events.iter().enumerate().map(event).collect(),
    }
}

/// Sums figures. The sum is absent if any figure is absent, and lacks an interval if any figure
/// lacks one.
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
