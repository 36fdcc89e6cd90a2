// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a record one by one: as comma-separated values (RFC 4180) and as the text that
//! Prometheus reads (its exposition format).
//!
//! Absent figures have an empty value and their reason in the first, and are left out of the
//! second, which has no word for them. Left out of both: curves, histograms, and sentences.

use crate::CannotWrite;
use linerate_record::run::RunReport;
use linerate_record::strands::{StrandCounts, StrandsReport};
use linerate_record::{Body, Figure, Record, Scalar, Tier};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A figure and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The strand, thread or region; empty for all of the record.
    pub strand: String,
    /// The stage, node or function; empty for all of the strand.
    pub stage: String,
    /// The figure's name.
    pub name: String,
    /// The figure.
    pub figure: Figure,
}

/// The figures of a record: those that people quote, then those of its parts.
///
/// # Errors
/// It has none.
pub fn rows(record: &Record) -> Result<Vec<Row>, CannotWrite> {
    let whole = |(name, figure): (&String, &Figure)| row("", "", name, figure);
    let mut rows: Vec<Row> = record.figures.iter().map(whole).collect();
    match &record.body {
        Body::Run(run) => of_run(run, &mut rows),
        Body::Tune(tune) => of_run(&tune.tuned, &mut rows),
        Body::Strands(strands) => of_strands(strands, &mut rows),
        Body::Regions(regions) => {
            for region in &regions.regions {
                let thread = region.tid.to_string();
                rows.push(row(&thread, &region.name, "ticks", &region.ticks));
                rows.push(row(&thread, &region.name, "own_ticks", &region.own_ticks));
                let of = |e: &linerate_record::regions::RegionEvent| {
                    row(&thread, &region.name, &e.name, &e.count)
                };
                rows.extend(region.events.iter().map(of));
            }
        }
        _ => {}
    }
    if rows.is_empty() {
        return Err(CannotWrite(
            "the record has no figures by name; those of --json are all there is".to_owned(),
        ));
    }
    Ok(rows)
}

fn row(strand: &str, stage: &str, name: &str, figure: &Figure) -> Row {
    Row {
        strand: strand.to_owned(),
        stage: stage.to_owned(),
        name: name.to_owned(),
        figure: figure.clone(),
    }
}

fn of_run(run: &RunReport, rows: &mut Vec<Row>) {
    for strand in &run.strands {
        rows.push(row(&strand.name, "", "ticks_per_packet", &strand.ticks_per_packet));
        if let Some(time) = strand.time {
            let shares = [
                ("busy", time.busy),
                ("starved", time.starved),
                ("blocked", time.blocked),
                ("lost", time.lost),
            ];
            for (name, share) in shares {
                let figure = Figure::exact("ratio", share, Tier::Sw, "share of the wall time");
                rows.push(row(&strand.name, "", name, &figure));
            }
        }
        for stage in &strand.stages {
            let put = |name: &str, figure: &Figure| row(&strand.name, &stage.name, name, figure);
            rows.push(put("ticks_per_packet", &stage.ticks_per_packet));
            rows.push(put("cycles_per_packet", &stage.cycles_per_packet));
            if let Some(kpps) = stage.kpps {
                rows.push(put("kpps", &Figure::exact("kpps", kpps, Tier::Sw, "packets over time")));
            }
            let events = stage.events.iter().flatten();
            rows.extend(events.map(|(name, figure)| put(&per_packet(name), figure)));
        }
    }
}

/// Events of a run are per packet, ratios are not.
fn per_packet(name: &str) -> String {
    if name == "cpi" { name.to_owned() } else { format!("{name}_per_packet") }
}

fn of_strands(strands: &StrandsReport, rows: &mut Vec<Row>) {
    for strand in &strands.strands {
        let label = strand.label();
        let StrandCounts {
            kpps,
            ticks_per_packet,
            instructions_per_packet,
            cpi,
            ipc,
            events,
            nodes,
            ..
        } = strand;
        let own = [
            ("kpps", kpps),
            ("ticks_per_packet", ticks_per_packet),
            ("instructions_per_packet", instructions_per_packet),
            ("cpi", cpi),
            ("ipc", ipc),
        ];
        rows.extend(own.map(|(name, figure)| row(&label, "", name, figure)));
        for event in events {
            rows.push(row(&label, "", &event.name, &event.count));
            rows.push(row(&label, "", &format!("{}_per_packet", event.name), &event.per_packet));
            rows.push(row(&label, "", &format!("{}_pti", event.name), &event.pti));
        }
        for node in nodes {
            rows.push(row(&label, &node.name, "ticks_per_packet", &node.ticks_per_packet));
            rows.push(row(&label, &node.name, "packets_per_call", &node.packets_per_call));
        }
    }
}

fn tier(figure: &Figure) -> &'static str {
    match figure.tier {
        Tier::Hw => "hw",
        Tier::User => "user",
        Tier::Sw => "sw",
        Tier::Sim => "sim",
        Tier::Model => "model",
    }
}

/// Comma-separated values with a head; numbers as long as they take to be read back bit for bit.
pub fn csv(rows: &[Row]) -> String {
    let mut text = "strand,stage,name,value,unit,n,low,high,tier,reason\r\n".to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for Row { strand, stage, name, figure } in rows {
        let value = match &figure.value {
            Scalar::Number(value) => value.to_string(),
            Scalar::Text(text) => quoted(text),
            Scalar::Absent => String::new(),
        };
        let reason = figure.reason.as_deref().map_or(String::new(), quoted);
        let (n, tier) = (figure.n, tier(figure));
        let (low, high) = (number(figure.low), number(figure.high));
        let [strand, stage, name, unit] = [strand, stage, name, &figure.unit].map(|s| quoted(s));
        let _ = write!(
            text,
            "{strand},{stage},{name},{value},{unit},{n},{low},{high},{tier},{reason}\r\n"
        );
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Prometheus text: a gauge per name, with the strand, the stage, the unit and the tier as labels.
/// Every gauge stands once, its samples behind it, as the format wants it.
///
/// # Errors
/// No figure is a number.
pub fn prometheus(rows: &[Row]) -> Result<String, CannotWrite> {
    let mut gauges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        let Some(value) = row.figure.as_number() else { continue };
        let mut labels = Vec::new();
        for (name, text) in [("strand", &row.strand), ("stage", &row.stage)] {
            if !text.is_empty() {
                labels.push(format!("{name}=\"{}\"", escaped(text)));
            }
        }
        labels.push(format!("unit=\"{}\"", escaped(&row.figure.unit)));
        labels.push(format!("tier=\"{}\"", tier(&row.figure)));
        let of = match (row.strand.is_empty(), row.stage.is_empty()) {
            (true, true) => "",
            (_, true) => "strand_",
            (_, false) => "stage_",
        };
        let name = metric(&format!("linerate_{of}{}", row.name));
        let sample = format!("{name}{{{}}} {value}", labels.join(","));
        gauges.entry(name).or_default().push(sample);
    }
    if gauges.is_empty() {
        return Err(CannotWrite("no figure of the record is a number".to_owned()));
    }
    let mut text = String::new();
    for (name, samples) in gauges {
        let _ = writeln!(text, "# TYPE {name} gauge\n{}", samples.join("\n"));
    }
    Ok(text)
}

/// Letters, digits, `_` and `:` are what a name of Prometheus is made of.
fn metric(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == ':' { c } else { '_' }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
