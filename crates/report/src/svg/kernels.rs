// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of a `kernels` record: figures 2 to 7 of the white paper "Enhanced TCP/IP Performance with
//! AltiVec" (throughput vs. size with warm and cold caches) for the recorded machine, and random
//! sizes as bars.

use super::Plot;
use super::bars::{Bar, BarChart, Group};
use super::canvas::{Caption, Look};
use super::lines::{Line, LineChart};
use crate::kernels::{rounds, spread};
use crate::value::{bytes, tiers};
use linerate_plan::routines::{Block, Load, Section, Series, Unit, blocks};
use linerate_record::kernels::{Kernel, KernelsReport, Mix, Role, Row};
use linerate_record::units::three_digits;

/// Size quoted in legends if it was timed: the payload of a full-size Ethernet packet.
const QUOTED: u64 = 1460;

/// Returns all plots for which there is data: for each kernel, aligned sizes with warm and cold
/// caches, and random sizes.
pub fn kernels(report: &KernelsReport) -> Vec<Plot> {
    let unit = Unit::from_rows(&report.rows);
    let mut plots: Vec<Plot> = Vec::new();
    for block in blocks(&report.rows) {
        let view = View { report, block: &block, unit };
        let plot = match block.section {
            Section::Aligned => view.over_size("warm"),
            Section::Cold if block.placement.is_aligned() => view.over_size("cold"),
            Section::Mixes => view.mixes(),
            _ => None,
        };
        // If the mixes have several placements, use only the first.
        plots.extend(plot.filter(|plot| plots.iter().all(|other| other.name != plot.name)));
    }
    plots
}

/// A block, with the data needed to plot it.
struct View<'a> {
    report: &'a KernelsReport,
    block: &'a Block<'a>,
    unit: Unit,
}

impl View<'_> {
    fn over_size(&self, state: &str) -> Option<Plot> {
        let lines = self.lines();
        let sizes = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let is_quoted = |size: &f64| *size == QUOTED as f64;
        let quoted = sizes.clone().find(is_quoted).or_else(|| sizes.max_by(f64::total_cmp))?;
        let mut notes = vec![self.conditions()];
        if let (Section::Cold, Some(cold)) = (self.block.section, &self.report.cold) {
            notes.push(format!("Cold: {}.", cold.eviction));
        }
        let caption = Caption {
            name: format!("{}-{state}", self.block.kernel),
            title: format!("{}, {state}, on {}", self.what(), self.processor()),
            notes,
            description: self.description(&lines, quoted),
        };
        let (name, title) = (caption.name.clone(), caption.title.clone());
        let chart = LineChart {
            caption,
            x_label: "bytes per call (both axes logarithmic)".to_owned(),
            y_label: self.speed_unit().to_owned(),
            quoted: (quoted, bytes(quoted as u64)),
            lines,
        };
        Some(Plot { name, title, svg: chart.svg() })
    }

    /// Returns one line per routine, and one for the bounds.
    fn lines(&self) -> Vec<Line> {
        let sizes: Vec<u64> = self.block.loads().into_iter().filter_map(Load::size).collect();
        let points = |row: &dyn Fn(u64) -> Option<f64>| -> Vec<(f64, f64)> {
            sizes.iter().filter_map(|&size| Some((size as f64, row(size)?))).collect()
        };
        let mut lines = Vec::new();
        if self.block.bound_text().is_some() {
            let points = points(&|size| self.bound_speed(Load::Size(size)));
            lines.push(Line { name: self.bound_name(), look: Look::Bound, points });
        }
        for (series, look) in self.routines() {
            let row = |size| series.rows.get(&Load::Size(size)).copied();
            let points = points(&|size| row(size).and_then(|row| self.speed(row)));
            lines.push(Line { name: series.name.to_owned(), look, points });
        }
        lines.retain(|line| !line.points.is_empty());
        lines
    }

    fn mixes(&self) -> Option<Plot> {
        let groups: Vec<Group> =
            self.block.loads().into_iter().map(|load| self.group(load)).collect();
        groups.iter().find(|group| !group.bars.is_empty())?;
        let caption = Caption {
            name: format!("{}-mixes", self.block.kernel),
            title: format!("{}, warm, random sizes, on {}", self.what(), self.processor()),
            notes: vec![self.conditions()],
            description: self.mixes_description(&groups),
        };
        let (name, title) = (caption.name.clone(), caption.title.clone());
        let chart = BarChart { caption, label: self.speed_unit().to_owned(), groups };
        Some(Plot { name, title, svg: chart.svg() })
    }

    fn group(&self, load: Load) -> Group {
        let bar = |name: String, look, row: &Row| {
            let (value, time) = (self.speed(row)?, self.unit.time(row)?);
            let text =
                format!("{} ({} {})", three_digits(value), three_digits(time), self.unit.name());
            Some(Bar { name, look, value, text })
        };
        let bound = self.block.fastest(Role::Bound, load, self.unit);
        let bound = bound.and_then(|(row, _)| bar(self.bound_name(), Look::Bound, row));
        let rest = self.routines().into_iter().filter_map(|(series, look)| {
            bar(series.name.to_owned(), look, series.rows.get(&load)?)
        });
        let head = match load {
            Load::Mix(Mix::Imix) => "IMIX: 40 to 63, 556 and 1460 bytes at 7:4:1".into(),
            Load::Mix(_) => {
                format!("random sizes of {} bytes", load.text().replace('-', " to "))
            }
            Load::Size(size) => bytes(size),
        };
        Group { head, bars: bound.into_iter().chain(rest).collect() }
    }

    /// Returns the routines and their styles, excluding bounds and other entry points; the latter
    /// coincide with the selected routine.
    fn routines(&self) -> Vec<(&Series<'_>, Look)> {
        let variants = &self.report.variants;
        let variant = |series: &Series| {
            let index = variants.iter().position(|variant| variant.name == series.name);
            Look::Variant(index.unwrap_or(variants.len()))
        };
        let selected = self.block.of_role(Role::Selected).map(|series| (series, Look::Selected));
        let variants = self.block.of_role(Role::Variant).map(|series| (series, variant(series)));
        let peers = self.block.of_role(Role::Peer).enumerate();
        let peers = peers.map(|(index, series)| (series, Look::Peer(index)));
        selected.chain(variants).chain(peers).collect()
    }

    fn bound_speed(&self, load: Load) -> Option<f64> {
        self.speed(self.block.fastest(Role::Bound, load, self.unit)?.0)
    }

    fn bound_name(&self) -> String {
        let mut bounds = self.block.of_role(Role::Bound);
        match (bounds.next(), bounds.next()) {
            (Some(only), None) => format!("{} (bound)", only.name),
            _ => "bound".to_owned(),
        }
    }

    /// Returns bytes per cycle, or gigabytes per second if cycles are unknown.
    fn speed(&self, row: &Row) -> Option<f64> {
        let per_time = row.mean_bytes / self.unit.time(row)?;
        Some(match self.unit {
            Unit::Cycles => per_time,
            Unit::Ticks => per_time * self.report.ticks_per_s / 1e9,
        })
    }

    fn speed_unit(&self) -> &'static str {
        match self.unit {
            Unit::Cycles => "bytes per core cycle",
            Unit::Ticks => "GB/s (10⁹ bytes per second)",
        }
    }

    fn what(&self) -> &'static str {
        match self.block.kernel {
            Kernel::Checksum => "Internet checksum",
            Kernel::Copy => "Copy",
            Kernel::CopyChecksum => "Copy with checksum",
            Kernel::Fill => "Fill",
        }
    }

    fn processor(&self) -> &str {
        self.report.processor.as_deref().unwrap_or("an unknown processor")
    }

    /// States the conventions for reading the figures.
    fn conditions(&self) -> String {
        let placement = &self.block.placement;
        let mut parts = vec![match placement.is_aligned() {
            true => "Buffers aligned to 64 bytes".to_owned(),
            false => format!("Offsets from a multiple of 64 bytes: {}", placement.text()),
        }];
        if self.unit == Unit::Cycles
            && let Some(cycles) = self.report.cycles_per_tick.as_number()
        {
            let rate = three_digits(cycles * self.report.ticks_per_s / 1e9);
            parts.push(format!("1 byte per cycle is {rate} GB/s"));
        }
        if let Some(bound) = self.block.bound_text() {
            parts.push(format!("bound: {bound}"));
        }
        if let Some(name) = self.report.selected_for(self.block.kernel) {
            parts.push(format!("selected: {name}"));
        }
        parts.push(format!("medians of {} rounds", rounds(self.report)));
        parts.extend(spread(std::slice::from_ref(self.block), self.unit));
        let tier = tiers([&self.report.cycles_per_tick]);
        if !tier.is_empty() {
            parts.push(format!("tier {tier}"));
        }
        parts.join("; ") + "."
    }

    fn description(&self, lines: &[Line], quoted: f64) -> String {
        let at = |line: &Line| line.points.iter().find(|point| point.0 == quoted).map(|p| p.1);
        let values = lines
            .iter()
            .filter_map(|line| Some(format!("{} {}", line.name, three_digits(at(line)?))));
        format!(
            "Line chart of {} against buffer size. At {}: {}.",
            self.speed_unit(),
            bytes(quoted as u64),
            values.collect::<Vec<_>>().join(", ")
        )
    }

    fn mixes_description(&self, groups: &[Group]) -> String {
        let bars = |group: &Group| {
            let bars =
                group.bars.iter().map(|bar| format!("{} {}", bar.name, three_digits(bar.value)));
            format!("{}: {}.", group.head, bars.collect::<Vec<_>>().join(", "))
        };
        let groups: Vec<String> = groups.iter().map(bars).collect();
        format!("Bar chart of {}. {}", self.speed_unit(), groups.join(" "))
    }
}
