// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a `kernels` record, sorted into comparable groups.
//!
//! A [`Block`] holds the routines for one kernel that were timed in the same rounds. As a table,
//! its columns are sizes or mixes and its rows are routines. Tables and plots are made from blocks.

use linerate_record::kernels::{Kernel, Mix, Role, Row, State, Timing};
use std::collections::BTreeMap;

/// Unit of call times: core cycles if they were measured, ticks otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Core clock cycles.
    Cycles,
    /// Ticks of the timestamp counter.
    Ticks,
}

impl Unit {
    /// Returns core cycles if any row has them or there are no rows, ticks otherwise.
    pub fn from_rows(rows: &[Row]) -> Self {
        let calibrated = rows.iter().any(|row| row.cycles.is_some());
        if calibrated || rows.is_empty() { Self::Cycles } else { Self::Ticks }
    }

    /// Returns the unit's name: `cycles` or `ticks`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Ticks => "ticks",
        }
    }

    /// Returns the time of a call in this unit; `None` if it is missing, infinite, NaN or not
    /// positive.
    pub fn time(self, row: &Row) -> Option<f64> {
        let time = match self {
            Self::Cycles => row.cycles,
            Self::Ticks => row.ticks,
        };
        time.filter(|time| time.is_finite() && *time > 0.0)
    }

    /// Returns the interval of a call's time in this unit; `None` unless both ends are known.
    pub fn interval(self, row: &Row) -> Option<(f64, f64)> {
        match self {
            Self::Cycles => row.cycles_low.zip(row.cycles_high),
            Self::Ticks => row.ticks_low.zip(row.ticks_high),
        }
    }
}

/// Input size of timed calls, either fixed or drawn from a mix. A column in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// Bytes per call.
    Size(u64),
    /// Sizes drawn from a mix.
    Mix(Mix),
}

impl Load {
    /// Returns a row's load; `None` if it has neither size nor mix.
    fn from_row(row: &Row) -> Option<Self> {
        row.size.map(Self::Size).or(row.mix.map(Self::Mix))
    }

    /// Returns the bytes per call; `None` for a mix.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::Size(size) => Some(size),
            Self::Mix(_) => None,
        }
    }

    /// Returns the column heading.
    pub fn text(self) -> String {
        match self {
            Self::Size(size) => size.to_string(),
            Self::Mix(Mix::Imix) => "IMIX".to_owned(),
            Self::Mix(Mix::Uniform20To1500) => "20-1500".to_owned(),
            Self::Mix(Mix::Uniform20To256) => "20-256".to_owned(),
        }
    }
}

/// Alignment of source and destination. Aligned buffers sort first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// Whether both buffers are at the same page offset.
    same_place: bool,
    mean_of: Vec<u32>,
    source: u32,
    destination: u32,
}

impl Placement {
    fn from_row(row: &Row) -> Self {
        Self {
            same_place: row.page_distance == Some(0),
            mean_of: row.offsets.clone().unwrap_or_default(),
            source: row.src_offset.unwrap_or(0),
            destination: row.dst_offset.unwrap_or(0),
        }
    }

    /// Returns whether both buffers are 64-byte aligned, at different page offsets.
    pub fn is_aligned(&self) -> bool {
        !self.same_place && self.mean_of.is_empty() && self.source == 0 && self.destination == 0
    }

    /// Returns the placement as printed: `aligned`, `src+14 dst+2`, `mean of 8 offsets` or
    /// `same page offset`.
    pub fn text(&self) -> String {
        let part =
            |name, offset| if offset == 0 { String::new() } else { format!("{name}+{offset}") };
        let place = if self.same_place { "same page offset" } else { "" };
        let source = match self.mean_of.len() {
            0 => part("src", self.source),
            n => format!("mean of {n} offsets"),
        };
        let destination = part("dst", self.destination);
        let parts = [source.as_str(), destination.as_str(), place];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { "aligned".to_owned() } else { parts.join(" ") }
    }
}

/// A group of rows shown in one table, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Calls on warm, aligned buffers.
    Aligned,
    /// Calls on warm buffers that are unaligned, or that have the same page offset.
    Displaced,
    /// Calls on warm buffers, with sizes drawn from a mix.
    Mixes,
    /// Calls on warm buffers, each depending on the previous one.
    Latency,
    /// Calls on a header that has just been written.
    JustWritten,
    /// Calls on cold buffers.
    Cold,
}

impl Section {
    fn from_row(row: &Row, placement: &Placement) -> Self {
        match (row.state, row.timing) {
            (State::JustWritten, _) => Self::JustWritten,
            (State::Cold, _) => Self::Cold,
            (State::Warm, Timing::Latency) => Self::Latency,
            (State::Warm, Timing::Throughput) if row.mix.is_some() => Self::Mixes,
            (State::Warm, Timing::Throughput) if placement.is_aligned() => Self::Aligned,
            (State::Warm, Timing::Throughput) => Self::Displaced,
        }
    }
}

/// One routine's results at all loads in a block.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Name of the routine, as in the record.
    pub name: &'a str,
    /// Why the routine was timed: as the selected one or as an upper bound, for example.
    pub role: Role,
    /// Result at each load.
    pub rows: BTreeMap<Load, &'a Row>,
}

/// All routines for one kernel, in one section and at one placement.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// The kernel that the routines implement.
    pub kernel: Kernel,
    /// Section in which the block is shown.
    pub section: Section,
    /// Timed quantity: throughput or latency.
    pub timing: Timing,
    /// Buffer alignment, common to all rows.
    pub placement: Placement,
    /// Routines, sorted by role and then in the order of the record.
    pub series: Vec<Series<'a>>,
}

/// Groups a record's rows into blocks, ordered by kernel, section and placement.
pub fn blocks(rows: &[Row]) -> Vec<Block<'_>> {
    let mut sorted: BTreeMap<_, Vec<Series>> = BTreeMap::new();
    for row in rows {
        let Some(load) = Load::from_row(row) else { continue };
        let placement = Placement::from_row(row);
        let section = Section::from_row(row, &placement);
        // Mixes and sizes never share a table, and neither do different timings, even within a
        // section.
        let key = (row.kernel, section, row.timing, row.mix.is_some(), placement);
        let series = sorted.entry(key).or_default();
        match series.iter_mut().find(|s| s.name == row.variant && s.role == row.role) {
            Some(found) => drop(found.rows.insert(load, row)),
            None => series.push(Series {
                name: &row.variant,
                role: row.role,
                rows: BTreeMap::from([(load, row)]),
            }),
        }
    }
    let mut blocks = Vec::with_capacity(sorted.len());
    for ((kernel, section, timing, _, placement), mut series) in sorted {
        series.sort_by_key(|series| series.role);
        blocks.push(Block { kernel, section, timing, placement, series });
    }
    blocks
}

impl<'a> Block<'a> {
    /// Returns all loads at which a routine was timed, in order.
    pub fn loads(&self) -> Vec<Load> {
        let mut loads: Vec<Load> =
            self.series.iter().flat_map(|series| series.rows.keys().copied()).collect();
        loads.sort_unstable();
        loads.dedup();
        loads
    }

    /// Returns the routines with the given role.
    pub fn of_role(&self, role: Role) -> impl Iterator<Item = &Series<'a>> {
        self.series.iter().filter(move |series| series.role == role)
    }

    /// Returns the selected routine's row at `load`.
    pub fn selected(&self, load: Load) -> Option<&'a Row> {
        self.of_role(Role::Selected).find_map(|series| series.rows.get(&load).copied())
    }

    /// Returns whether a routine of `role` has a row at `load`, even one without a time.
    pub fn has(&self, role: Role, load: Load) -> bool {
        self.of_role(role).any(|series| series.rows.contains_key(&load))
    }

    /// Returns the fastest row of this `role` at `load`, and its time in `unit`.
    pub fn fastest(&self, role: Role, load: Load, unit: Unit) -> Option<(&'a Row, f64)> {
        let timed = |row: &'a Row| unit.time(row).map(|time| (row, time));
        let rows = self.of_role(role).filter_map(|series| series.rows.get(&load).copied());
        rows.filter_map(timed).min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Describes what the block's calls have in common: `warm, aligned`, `cold, src+14 dst+2` or
    /// `warm, aligned, latency`, for example.
    pub fn case_text(&self) -> String {
        let (state, timing) = (self.state_text(), self.timing_text());
        format!("{state}, {}{timing}", self.placement.text())
    }

    /// Returns the state of the caches in words.
    pub fn state_text(&self) -> &'static str {
        match self.section {
            Section::Aligned | Section::Displaced | Section::Latency => "warm",
            Section::Mixes => "warm, random sizes",
            Section::JustWritten => "header just written",
            Section::Cold => "cold",
        }
    }

    /// Returns `, latency` if latency was timed, otherwise an empty string.
    pub fn timing_text(&self) -> &'static str {
        match self.timing {
            Timing::Throughput => "",
            Timing::Latency => ", latency",
        }
    }

    /// Names the bound that routines are compared with: a single routine, or the fastest of several
    /// in each column. `None` if no bound was timed.
    pub fn bound_text(&self) -> Option<String> {
        let names: Vec<&str> = self.of_role(Role::Bound).map(|series| series.name).collect();
        match names.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            several => Some(format!("fastest of {}", several.join(", "))),
        }
    }
}
