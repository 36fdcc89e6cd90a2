// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds routines in a `kernels` record that beat the selected one by enough to be worth selecting
//! by name.
//!
//! ```text
//! ahead(r)  = speed of r / speed of selected, in the same rounds where both have a bound
//! leads     = at each load, the fastest of the routines whose whole interval is above the required
//!             gain and whose median is above a tie
//! by name   = variants of the build that lead by 5 % or more: naming a variant in a caller's code
//!             ties the code to one processor
//! peers     = routines of other projects that lead by any gain
//! ```
//!
//! For the calls of a path, see [`crate::kernels`].

mod cases;

pub use cases::{Block, Load, Placement, Section, Series, Unit, blocks};

use linerate_record::kernels::{Role, Row};

/// Minimum speed ratio that justifies naming a variant in a caller's code. Code placement alone
/// causes differences of a few percent.
pub const WORTH_A_NAME: f64 = 1.05;

/// Speed ratio up to which two routines are considered tied. Medians are not repeatable to better
/// than 1 %.
pub const TIE: f64 = 1.01;

/// A routine that is ahead of the selected one, the loads at which it is the fastest of its kind,
/// and its largest speed ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead<'a> {
    /// Name of the routine, as in the record.
    pub name: &'a str,
    /// Loads at which the routine leads.
    pub loads: Vec<Load>,
    /// Largest median speed, relative to the selected routine, over all `loads`.
    pub most: f64,
}

/// Returns the variants in this build, other than `selected`, that are worth selecting by name
/// because their speed ratio exceeds [`WORTH_A_NAME`]. `None` if no variant was compared with a
/// selected routine.
pub fn variants_ahead<'a>(block: &Block<'a>, selected: &str, unit: Unit) -> Option<Vec<Lead<'a>>> {
    let is_other = |series: &Series| series.role == Role::Variant && series.name != selected;
    leads(block, unit, &is_other, WORTH_A_NAME)
}

/// Returns other projects' routines that beat the selected one by more than a tie.
pub fn peers_ahead<'a>(block: &Block<'a>, unit: Unit) -> Vec<Lead<'a>> {
    let is_peer = |series: &Series| series.role == Role::Peer;
    leads(block, unit, &is_peer, 1.0).unwrap_or_default()
}

/// Returns the fastest wanted routine at each load, if it is ahead of the selected one: its entire
/// interval must be above the speed ratio `worth`, and its median above a tie. `None` if no wanted
/// routine was measured together with a selected one.
fn leads<'a>(
    block: &Block<'a>,
    unit: Unit,
    is_wanted: &dyn Fn(&Series) -> bool,
    worth: f64,
) -> Option<Vec<Lead<'a>>> {
    let mut leads: Vec<Lead> = Vec::new();
    let mut is_compared = false;
    for load in block.loads() {
        let Some(selected) = block.selected(load) else { continue };
        let rows = block.series.iter().filter(|series| is_wanted(series));
        let rows = rows.filter_map(|series| series.rows.get(&load).copied());
        let ahead = rows.filter_map(|row| Some((row, ahead(row, selected, unit)?)));
        let ahead: Vec<(&Row, Ahead)> = ahead.collect();
        is_compared |= !ahead.is_empty();
        let clear = ahead.into_iter().filter(|(_, by)| by.least > worth && by.median > TIE);
        let Some((row, by)) = clear.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
            continue;
        };
        match leads.iter_mut().find(|lead| lead.name == row.variant) {
            Some(lead) => {
                lead.loads.push(load);
                lead.most = lead.most.max(by.median);
            }
            None => leads.push(Lead { name: &row.variant, loads: vec![load], most: by.median }),
        }
    }
    is_compared.then_some(leads)
}

/// A routine's speed relative to the selected one: median, and lower end of the interval.
struct Ahead {
    median: f64,
    least: f64,
}

/// Returns the speed of `row` relative to `selected`. Uses the speeds of both relative to the
/// bound, if known, because these are computed per round and clock changes cancel; otherwise uses
/// their times. The interval is conservative: it combines the worst-case ends of both, and has no
/// lower bound if one of them is unknown.
fn ahead(row: &Row, selected: &Row, unit: Unit) -> Option<Ahead> {
    let quotient = |(over, under): (f64, f64)| over / under;
    let times = unit.time(selected).zip(unit.time(row))?;
    let shares = row.of_bound.zip(selected.of_bound);
    let ends = match shares {
        Some(_) => row.of_bound_low.zip(selected.of_bound_high),
        None => unit.interval(selected).zip(unit.interval(row)).map(|(s, r)| (s.0, r.1)),
    };
    let least = ends.map_or(f64::NEG_INFINITY, quotient);
    Some(Ahead { median: quotient(shares.unwrap_or(times)), least })
}

#[cfg(test)]
mod tests;
