// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `plan` record: prediction, recommended changes, and what they are based on.

use crate::Style;
use crate::layout::{Grid, Paint, labelled, limited, stacked};
use crate::tune::ruled_out;
use crate::value::{ABSENT, cell, clean, interval, min_gain, percent, quoted, ranged, significant};
use linerate_record::plan::{Model, Origin, PlanReport, Recommendation, WorkersBeside};
use linerate_record::units::{Kpps, counted, three_digits};

/// Formats the report of a plan.
pub fn plan(report: &PlanReport, style: &Style) -> String {
    let mut blocks = vec![head(report, style), workers(report, style)];
    blocks.extend(recommendations(report, style));
    blocks.push(ruled_out(&report.ruled_out, style));
    blocks.push(line("searched", &report.search.sentence, style) + &rests_on(report, style));
    stacked(&blocks)
}

/// Formats one screen: prediction, best changes, workers.
pub(crate) fn screen(report: &PlanReport, style: &Style) -> String {
    let bottleneck = line("evidence", &report.bottleneck.sentence, style);
    let head = line("mapping", &report.mapping, style)
        + &line("predicted", &predicted(report), style)
        + &line_rate(report, style)
        + &bottleneck;
    let changes = recommendations(report, style).into_iter().take(2).map(|one| limited(&one, 9));
    let more = match report.recommendations.len().saturating_sub(2) {
        0 => String::new(),
        1 => line("", "1 more change (--details)", style),
        more => line("", &format!("{more} more changes (--details)"), style),
    };
    let mut blocks = vec![head];
    blocks.extend(changes);
    if let Some(last) = blocks.last_mut() {
        last.push_str(&more);
    }
    blocks.push(limited(&workers(report, style), 10));
    stacked(&blocks)
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &PlanReport, style: &Style) -> String {
    let strands = counted(report.cpus.into(), "strand");
    let machine = format!("{}, {strands} ({})", report.machine, report.machine_source);
    let model = match report.model {
        Model::Formula => "model (formula): nothing here was measured",
        Model::Simulation => "model (simulation): nothing here was measured",
    };
    let bursts = match report.model {
        Model::Formula => format!(", burst {}", report.burst),
        Model::Simulation => String::new(),
    };
    [
        line("path", &report.path, style),
        line("machine", &machine, style),
        line("costs", &report.costs, style),
        line("mapping", &format!("{}{bursts}", report.mapping), style),
        line("predicted", &predicted(report), style),
        line_rate(report, style),
        report
            .line_hold
            .as_ref()
            .map_or(String::new(), |hold| line("fewest", &hold.sentence, style)),
        report.limits.iter().map(|limit| line("limit", limit, style)).collect(),
        line("bottleneck", &report.bottleneck.sentence, style),
        line("tier", model, style),
    ]
    .concat()
}

fn predicted(report: &PlanReport) -> String {
    let rate = quoted(&report.predicted_kpps, |kpps| Kpps(kpps).to_string());
    match (report.flows, report.predicted_kpps.as_number()) {
        (2.., Some(kpps)) => {
            let all = Kpps(kpps * f64::from(report.flows));
            format!("{rate} on each of {} flows, {all} in total", report.flows)
        }
        _ => rate,
    }
}

fn line_rate(report: &PlanReport, style: &Style) -> String {
    let rates = report.line_rate_kpps.zip(report.predicted_kpps.as_number());
    let Some((line_rate, kpps)) = rates else { return String::new() };
    let reached = match kpps < line_rate {
        true => format!("reached {} %", percent(kpps / line_rate)),
        false => "reached".to_owned(),
    };
    line("line rate", &format!("{}; {reached}", Kpps(line_rate)), style)
}

fn workers(report: &PlanReport, style: &Style) -> String {
    let has_cpi = report.workers.iter().any(|worker| worker.cpi.as_number().is_some());
    let mut heads = vec!["worker", "runs", ">cpu", ">busy %", ">ns/packet"];
    heads.extend(has_cpi.then_some(">CPI"));
    let mut grid = Grid::new(&heads);
    for worker in &report.workers {
        let mut cells = vec![
            worker.name.clone(),
            worker.runs.clone(),
            worker.cpu.map_or_else(|| ABSENT.to_owned(), |cpu| cpu.to_string()),
            cell(&worker.utilisation, percent),
            cell(&worker.ns_per_packet, significant),
        ];
        cells.extend(has_cpi.then(|| cell(&worker.cpi, significant)));
        grid.row(cells);
    }
    grid.render(style)
}

/// Returns one block per recommendation, best first.
fn recommendations(report: &PlanReport, style: &Style) -> Vec<String> {
    if report.recommendations.is_empty() {
        let none = format!("none: no change is predicted to gain more than {}", min_gain());
        return vec![line("do", &none, style)];
    }
    let all = report.recommendations.iter().enumerate();
    all.map(|(index, one)| recommendation(index + 1, one, report, style)).collect()
}

fn recommendation(
    number: usize,
    one: &Recommendation,
    report: &PlanReport,
    style: &Style,
) -> String {
    let gain = |share: f64| format!("{}{}", if share < 0.0 { "" } else { "+" }, percent(share));
    let gains = match (one.gain.as_number(), interval(&one.gain, gain)) {
        (Some(value), Some(ends)) => format!("{} % ({ends})", gain(value)),
        (Some(value), None) => format!("{} %", gain(value)),
        (None, _) => ABSENT.to_owned(),
    };
    let rate = ranged(&one.predicted_kpps, three_digits);
    let label = format!("do {number}");
    let mut setting = one.mapping.clone();
    if one.burst != report.burst {
        setting += &format!(", burst {}", one.burst);
    }
    let spelled = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if let Some(cpus) = &one.cpus {
        setting += &format!(", on CPUs {}", spelled(cpus));
    }
    for WorkersBeside { name, cpus } in &one.beside {
        setting += &format!("; together with {name} x{} on CPUs {}", cpus.len(), spelled(cpus));
    }
    let mut text = labelled(&label, Paint::Good, &clean(&one.change), style);
    text += &line("gain", &format!("{gains}, to {rate} kpps, model"), style);
    text += &line("mapping", &setting, style);
    text += &line("evidence", &one.why, style);
    text += &line("wrong if", &one.proof.sentence, style);
    if let Some(command) = &one.proof.command {
        text += &line("verify", command, style);
    }
    text
}

/// Lists the inputs by origin.
fn rests_on(report: &PlanReport, style: &Style) -> String {
    let origins = [
        ("measured", Origin::Measured),
        ("given", Origin::Given),
        ("fitted", Origin::Fitted),
        ("assumed", Origin::Assumed),
    ];
    let of = |origin| {
        let inputs = report.inputs.iter().filter(move |input| input.origin == origin);
        inputs.map(|input| format!("{} {}", input.name, input.value)).collect::<Vec<_>>()
    };
    let lines = origins.map(|(label, origin)| match of(origin) {
        inputs if inputs.is_empty() => String::new(),
        inputs => line(label, &inputs.join("; "), style),
    });
    lines.concat()
}
