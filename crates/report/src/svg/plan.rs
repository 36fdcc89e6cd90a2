// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plot of a `plan` record: predicted rates of the path as written and after each recommended
//! change, with intervals.

use super::Plot;
use super::bars::{Bar, BarChart, Group};
use super::canvas::{Caption, Look};
use crate::value::ranged;
use linerate_record::Figure;
use linerate_record::plan::PlanReport;
use linerate_record::units::three_digits;

/// Plots the predicted rates.
pub fn plan(report: &PlanReport) -> Plot {
    let bar = |name: String, look, figure: &Figure| Bar {
        name,
        look,
        value: figure.as_number().unwrap_or(0.0),
        text: ranged(figure, three_digits),
    };
    let written = bar("as written".to_owned(), Look::Variant(0), &report.predicted_kpps);
    let changes =
        report.recommendations.iter().enumerate().map(|(index, one)| {
            bar(format!("do {}", index + 1), Look::Selected, &one.predicted_kpps)
        });
    let mut groups = vec![Group { head: report.mapping.clone(), bars: vec![written] }];
    let changed: Vec<Bar> = changes.collect();
    if !changed.is_empty() {
        groups.push(Group { head: "changes, largest gain first".to_owned(), bars: changed });
    }
    if let Some(kpps) = report.line_rate_kpps {
        let text = three_digits(kpps);
        let bars = vec![Bar { name: "line".to_owned(), look: Look::Bound, value: kpps, text }];
        groups.push(Group { head: "line rate".to_owned(), bars });
    }
    let numbered = report.recommendations.iter().enumerate();
    let notes: Vec<String> =
        numbered.map(|(index, one)| format!("Do {}: {}.", index + 1, one.change)).collect();
    let title = format!("Predicted rates of {} on {}", report.path, report.machine);
    let flow = if report.flows > 1 { " per flow" } else { "" };
    let caption = Caption {
        name: "plan".to_owned(),
        title: title.clone(),
        description: groups
            .iter()
            .flat_map(|group| &group.bars)
            .map(|bar| format!("{}: {} kpps", bar.name, bar.text))
            .collect::<Vec<_>>()
            .join("; "),
        notes,
    };
    let label = format!("thousand packets per second{flow}, predicted (evidence tier: model)");
    Plot { name: "plan".to_owned(), title, svg: BarChart { caption, label, groups }.svg() }
}
