// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison with the baseline: changed figures, figures that could not be judged, the verdict,
//! and how the two records differ.

use super::{line, note, target_of};
use crate::Style;
use crate::layout::Grid;
use crate::value::{ABSENT, bytes, count, significant};
use linerate_record::stat::{
    BaselineChange, BaselineOf, Environment, Judged, SimulatedCaches, StatReport,
};

/// Formats the changes, the verdict, and reasons to doubt it. Omits unchanged figures, except those
/// that could not be judged.
pub(super) fn block(report: &StatReport, style: &Style) -> String {
    if report.baseline.is_empty() && report.baseline_of.is_none() {
        return String::new();
    }
    let mut grid = Grid::new(&["compared with the baseline", ">before", ">now", ">change %", ""]);
    let is_told = |change: &&BaselineChange| {
        change.before != change.now || !matches!(change.judged, Judged::Yes | Judged::NoCost)
    };
    for change in report.baseline.iter().filter(is_told) {
        let value = |value: Option<f64>| value.map_or_else(|| ABSENT.to_owned(), significant);
        grid.row(vec![
            change.name.clone(),
            value(change.before),
            value(change.now),
            change.change.map_or_else(|| ABSENT.to_owned(), signed_percent),
            judgement(change).to_owned(),
        ]);
    }
    let grounds = report.baseline_of.as_ref().map_or_else(String::new, |of| {
        grounds(report, of, style).iter().map(|ground| note(ground, style)).collect()
    });
    grid.render(style) + &line("baseline", &verdict(&report.baseline), style) + &grounds
}

fn judgement(change: &BaselineChange) -> &'static str {
    match change.judged {
        Judged::Yes if change.is_regression => "regression",
        Judged::Yes => "no regression",
        Judged::NoCost => "not judged: higher may be better",
        Judged::NoInterval => "not judged: no interval",
        Judged::OtherTier => "not judged: different tier",
        Judged::OtherCaches => "not judged: different caches",
        Judged::NotCountedBefore => "not judged: not counted in the earlier run",
        Judged::NotCountedNow => "not judged: not counted in this run",
        Judged::Unknown => "not judged: reason unknown to this version",
    }
}

fn verdict(changes: &[BaselineChange]) -> String {
    let count = |is: &dyn Fn(&BaselineChange) -> bool| changes.iter().filter(|c| is(c)).count();
    let of = count(&|change| change.judged != Judged::NoCost);
    let judged = count(&|change| change.judged == Judged::Yes);
    let found = match (judged, count(&|change| change.is_regression)) {
        (0, _) => "no verdict".to_owned(),
        (_, 0) => "no regression".to_owned(),
        (_, 1) => "1 regressed by at least the threshold".to_owned(),
        (_, worse) => format!("{worse} regressed by at least the threshold"),
    };
    format!("{judged} of {of} figures could be judged: {found}")
}

/// Describes how the two records differ.
fn grounds(report: &StatReport, of: &BaselineOf, style: &Style) -> Vec<String> {
    let mut grounds = Vec::new();
    if of.target != report.target {
        grounds.push(format!(
            "the baseline measured a different target: {}",
            target_of(&of.target, style)
        ));
    }
    if of.tier != report.tier {
        let (before, now) = (of.tier.name(), report.tier.name());
        grounds.push(format!("the baseline used tier {before}, this run {now}"));
    }
    let caches = of.caches.as_ref().zip(report.caches.as_ref());
    if let Some((before, now)) = caches.filter(|(before, now)| before != now) {
        grounds.push(other_caches(before, now));
    }
    let environments = of.environment.zip(report.environment);
    if let Some((before, now)) = environments.filter(|(before, now)| before != now) {
        grounds.push(other_environment(before, now));
    }
    grounds
}

fn other_caches(before: &SimulatedCaches, now: &SimulatedCaches) -> String {
    match before.name == now.name {
        true => format!(
            "the baseline also simulated the caches of {}, but with different parameters",
            now.name
        ),
        false => {
            format!(
                "the baseline simulated the caches of {}, this run those of {}",
                before.name, now.name
            )
        }
    }
}

fn other_environment(before: Environment, now: Environment) -> String {
    let size =
        |of: Environment| format!("{} variables of {}", count(of.variables), bytes(of.bytes));
    format!(
        "the baseline's environment had {}, this run's has {}; the size shifts the stack and may \
         change counts: record both runs under env -i",
        size(before),
        size(now)
    )
}

/// Formats a change as a signed percentage, with more decimals for small ones.
fn signed_percent(change: f64) -> String {
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{}", significant(change * 100.0))
}

#[cfg(test)]
mod tests {
    use super::signed_percent;

    #[test]
    fn small_changes_keep_their_digits() {
        assert_eq!(signed_percent(0.001), "+0.1");
        assert_eq!(signed_percent(0.000_012_3), "+0.00123");
        assert_eq!(signed_percent(-0.25), "-25");
    }
}
