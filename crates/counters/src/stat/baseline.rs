// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changed since an earlier record, and whether it got worse.
//!
//! Every figure that both records have is compared. Worse can only be a *cost*: an event, or the
//! time that passed; where both records have counts per unit of work, these are the costs, not the
//! totals. A cost is a regression when it grew by the threshold or more, beyond doubt:
//!
//! ```text
//! low(now) >= high(before) * (1 + threshold)    and    value(now) > value(before)
//! ```
//!
//! The ends of a simulated count are the count: it is exact. Any other count without an interval
//! may differ by more than the threshold from one run to the next for no reason at all, so there is
//! no verdict, and the warning says how to get one. Nor is there one between tiers, or between
//! caches. Left out: metrics have no verdict, since more of them may be better.

use linerate_record::stat::{BaselineChange, StatReport};
use linerate_record::{Body, Figure, Record, Tier, Warning};
use std::collections::BTreeMap;

/// Exact numbers are divided and multiplied again; this is what may get lost.
const ROUNDING: f64 = 1e-12;

/// What came of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// Figures in both, by name.
    pub(super) changes: Vec<BaselineChange>,
    /// Costs without a verdict, and why.
    pub(super) warnings: Vec<Warning>,
}

/// Compares `figures`, which belong to `report`, with those of `before`.
pub(super) fn compare(
    report: &StatReport,
    figures: &BTreeMap<String, Figure>,
    before: &Record,
    threshold: f64,
) -> Comparison {
    let mut comparison = Comparison::default();
    let (mut without_interval, mut on_other_grounds) = (Vec::new(), Vec::new());
    let costs = costs(report, figures, &before.figures);
    let same_caches = matches!(&before.body, Body::Stat(old) if old.caches == report.caches);
    for (name, now) in figures {
        let Some(then) = before.figures.get(name) else { continue };
        let (Some(new), Some(old)) = (now.as_number(), then.as_number()) else { continue };
        let mut is_regression = false;
        if costs.contains(name) {
            if now.tier != then.tier || now.tier == Tier::Sim && !same_caches {
                on_other_grounds.push(name.clone());
            } else if let (Some(low), Some(high)) = (low(now), high(then)) {
                let limit = high * (1.0 + threshold) * (1.0 - ROUNDING);
                is_regression = new > old && low >= limit;
            } else {
                without_interval.push(name.clone());
            }
        }
        let change = (old != 0.0).then(|| new / old - 1.0);
        let name = name.clone();
        comparison.changes.push(BaselineChange {
            name,
            before: old,
            now: new,
            change,
            is_regression,
        });
    }
    if !without_interval.is_empty() {
        comparison.warnings.push(Warning::NoVerdictWithoutInterval { names: without_interval });
    }
    if !on_other_grounds.is_empty() {
        comparison.warnings.push(Warning::NoVerdictOnOtherGrounds { names: on_other_grounds });
    }
    comparison
}

/// The figures of which more is worse.
fn costs(
    report: &StatReport,
    now: &BTreeMap<String, Figure>,
    before: &BTreeMap<String, Figure>,
) -> Vec<String> {
    let unit = report.unit_of_work.as_ref();
    let cost = |name: &String| {
        let per_unit = unit.map(|unit| super::per_unit_name(name, &unit.name));
        per_unit
            .filter(|name| now.contains_key(name) && before.contains_key(name))
            .unwrap_or_else(|| name.clone())
    };
    report.events.iter().map(|event| cost(&event.name)).chain([super::ELAPSED.to_owned()]).collect()
}

fn is_exact(figure: &Figure) -> bool {
    figure.tier == Tier::Sim && figure.low.is_none() && figure.high.is_none()
}

fn low(figure: &Figure) -> Option<f64> {
    if is_exact(figure) { figure.as_number() } else { figure.low }
}

fn high(figure: &Figure) -> Option<f64> {
    if is_exact(figure) { figure.as_number() } else { figure.high }
}
