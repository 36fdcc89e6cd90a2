// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a record of kernels that people and scripts quote.

use crate::cases::{Case, Length, Source};
use crate::lineup::{MEMCPY, SELECTED};
use crate::sweep::CONFIDENCE;
use linerate_record::kernels::{Kernel, KernelsReport, Row};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// The figures of a report, by name. All are read off its rows.
pub fn figures(report: &KernelsReport) -> BTreeMap<String, Figure> {
    let of_load = |size| speed(report, &Case::aligned(Kernel::Checksum, size));
    let of_memcpy = |kernel| time(report, &Case::aligned(kernel, 1460));
    BTreeMap::from(
        [
            ("checksum_1460_of_load", of_load(1460)),
            ("checksum_4096_of_load", of_load(4096)),
            ("checksum_1460_cycles", cycles(report, &Case::aligned(Kernel::Checksum, 1460))),
            ("copy_checksum_1460_of_memcpy", of_memcpy(Kernel::CopyChecksum)),
            ("copy_1460_of_memcpy", of_memcpy(Kernel::Copy)),
            ("selected", selected(report)),
            ("cycles_per_tick", report.cycles_per_tick.clone()),
            ("additions_per_cycle", report.additions_per_cycle.clone()),
            ("cpu", cpu(report)),
        ]
        .map(|(name, figure)| (name.to_owned(), figure)),
    )
}

/// The row of the selected routine in a case.
fn row<'r>(report: &'r KernelsReport, case: &Case) -> Result<&'r Row, String> {
    let Length::Octets(octets) = case.length else { return Err("a mix has no size".to_owned()) };
    let Source::At(offset) = case.source else { return Err("no one offset".to_owned()) };
    let is_wanted = |row: &&Row| {
        (row.kernel, row.variant.as_str(), row.state) == (case.kernel, SELECTED, case.state)
            && (row.size, row.mix, row.timing) == (Some(octets.into()), None, case.timing)
            && (row.src_offset, row.dst_offset) == (Some(offset), case.dst_offset)
            && row.page_distance == case.page_distance()
    };
    report.rows.iter().find(is_wanted).ok_or_else(|| format!("not measured: {case}"))
}

fn estimate(
    row: &Row,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
) -> Option<Estimate> {
    Some(Estimate {
        value: value?,
        low: low.unwrap_or(f64::NEG_INFINITY),
        high: high.unwrap_or(f64::INFINITY),
        confidence: CONFIDENCE,
        n: row.n,
    })
}

/// The speed of the selected routine over that of the bound.
fn speed(report: &KernelsReport, case: &Case) -> Figure {
    const METHOD: &str =
        "time of the fastest load loop over that of the selected routine, by round";
    let share = row(report, case).and_then(|row| {
        let share = estimate(row, row.of_bound, row.of_bound_low, row.of_bound_high);
        share.ok_or_else(|| missing(row))
    });
    figure("ratio", share, METHOD)
}

/// The time of the selected routine over that of the C library's copy: the inverse of its speed,
/// the ends of the interval changed over.
fn time(report: &KernelsReport, case: &Case) -> Figure {
    const METHOD: &str = "time of the selected routine over that of memcpy, by round";
    let time = row(report, case).and_then(|row| {
        if row.bound.as_deref() != Some(MEMCPY) {
            return Err("the C library has no memcpy here".to_owned());
        }
        let inverse = |share: Option<f64>| share.map(|share| 1.0 / share);
        let [value, low, high] = [row.of_bound, row.of_bound_high, row.of_bound_low].map(inverse);
        estimate(row, value, low, high).ok_or_else(|| missing(row))
    });
    figure("ratio", time, METHOD)
}

fn cycles(report: &KernelsReport, case: &Case) -> Figure {
    const METHOD: &str = "median ticks of a call times core cycles per tick";
    let cycles = row(report, case).and_then(|row| {
        let cycles = estimate(row, row.cycles, row.cycles_low, row.cycles_high);
        cycles.ok_or_else(|| missing(row))
    });
    figure("cycles/call", cycles, METHOD)
}

fn missing(row: &Row) -> String {
    row.reason.clone().unwrap_or_else(|| "no bound was timed".to_owned())
}

fn figure(unit: &str, estimate: Result<Estimate, String>, method: &str) -> Figure {
    match estimate {
        Ok(estimate) => Figure::number(unit, estimate, Tier::Sw, method),
        Err(reason) => Figure::absent(unit, Tier::Sw, method, &reason),
    }
}

fn selected(report: &KernelsReport) -> Figure {
    const METHOD: &str = "what the table of variants selects on this processor";
    match report.selected() {
        Some(names) => Figure::text(&names, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, "no variant can run here"),
    }
}

fn cpu(report: &KernelsReport) -> Figure {
    const METHOD: &str = "what the processor calls itself";
    match &report.processor {
        Some(name) => Figure::text(name, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, "the processor does not say"),
    }
}
