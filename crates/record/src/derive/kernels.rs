// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from measurements of the kernels (checksum, copy, copy+checksum, fill).

use super::{Derive, emulated, named, not_idle, unknown_core_clock, unsteady_counter};
use crate::figure::{Figure, Figures, Tier};
use crate::kernels::{Kernel, KernelsReport, Row, State, Timing};
use crate::provenance::Provenance;
use crate::stats::Estimate;
use crate::warning::Warning;

impl Derive for KernelsReport {
    fn figures(&self) -> Figures {
        named([
            ("checksum_1460_of_load", speed(self, Kernel::Checksum, 1460)),
            ("checksum_4096_of_load", speed(self, Kernel::Checksum, 4096)),
            ("checksum_1460_cycles", cycles(self, Kernel::Checksum, 1460)),
            ("copy_checksum_1460_of_memcpy", time(self, Kernel::CopyChecksum, 1460)),
            ("copy_1460_of_memcpy", time(self, Kernel::Copy, 1460)),
            ("selected", selected(self)),
            ("cycles_per_tick", self.cycles_per_tick.clone()),
            ("additions_per_cycle", self.additions_per_cycle.clone()),
            ("cpu", cpu(self)),
        ])
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let doubts = [
            not_idle(provenance),
            unsteady_counter(provenance),
            emulated(provenance),
            unknown_core_clock(&self.cycles_per_tick),
        ];
        doubts.into_iter().flatten().collect()
    }
}

/// Finds the selected routine's row for independent calls on aligned, cached buffers with source
/// and destination at different page offsets. The error names the missing measurement.
fn row(report: &KernelsReport, kernel: Kernel, size: u64) -> Result<&Row, String> {
    let has_destination = kernel != Kernel::Checksum;
    let is_wanted = |row: &&Row| {
        (row.kernel, row.variant.as_str(), row.state) == (kernel, "selected", State::Warm)
            && (row.size, row.mix, row.timing) == (Some(size), None, Timing::Throughput)
            && (row.src_offset, row.dst_offset) == (Some(0), has_destination.then_some(0))
            && row.page_distance != Some(0)
    };
    let missing = || format!("not measured: {kernel}, {size} bytes, warm");
    report.rows.iter().find(is_wanted).ok_or_else(missing)
}

fn estimate(
    row: &Row,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
) -> Option<Estimate> {
    Some(Estimate::of_ends(value?, low, high, row.n))
}

/// Returns the selected routine's speed relative to the bound, which is the fastest load loop.
fn speed(report: &KernelsReport, kernel: Kernel, size: u64) -> Figure {
    const METHOD: &str =
        "time of the fastest load loop divided by that of the selected routine, per round";
    let share = row(report, kernel, size).and_then(|row| {
        let share = estimate(row, row.of_bound, row.of_bound_low, row.of_bound_high);
        share.ok_or_else(|| missing(row))
    });
    figure("ratio", share, METHOD)
}

/// Returns the selected routine's time relative to memcpy: the inverse of the relative speed, with
/// the interval ends swapped.
fn time(report: &KernelsReport, kernel: Kernel, size: u64) -> Figure {
    const METHOD: &str = "time of the selected routine divided by that of memcpy, per round";
    let time = row(report, kernel, size).and_then(|row| {
        if row.bound.as_deref() != Some("memcpy") {
            return Err("this case was not compared with the C library's memcpy".to_owned());
        }
        let inverse = |share: Option<f64>| share.map(|share| 1.0 / share);
        let [value, low, high] = [row.of_bound, row.of_bound_high, row.of_bound_low].map(inverse);
        estimate(row, value, low, high).ok_or_else(|| missing(row))
    });
    figure("ratio", time, METHOD)
}

fn cycles(report: &KernelsReport, kernel: Kernel, size: u64) -> Figure {
    const METHOD: &str = "median ticks per call times core cycles per tick";
    let cycles = row(report, kernel, size).and_then(|row| {
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
    const METHOD: &str = "variants that the variant table selects on this processor";
    match report.selected() {
        Some(names) => Figure::text(&names, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, "no variant runs on this processor"),
    }
}

fn cpu(report: &KernelsReport) -> Figure {
    const METHOD: &str = "name reported by the processor";
    match &report.processor {
        Some(name) => Figure::text(name, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, "the processor does not report its name"),
    }
}
